//! Commands: one file each.

pub mod progress;
