//! Clocks, counters, and what the machine and its devices are.

pub mod advice;
pub mod bandwidth;
pub mod clock;
pub mod disk;
pub mod environment;
pub mod probe;
