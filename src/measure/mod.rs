//! Clocks and the machine.

pub mod clock;
pub mod disk;
pub mod environment;
pub mod probe;
