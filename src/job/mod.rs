//! From job files to checked runs.

mod fault;
mod source;
pub mod spec;
mod tree;

pub use fault::{Fault, Faults, Severity};
