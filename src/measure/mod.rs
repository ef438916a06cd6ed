//! Clocks and the machine.
