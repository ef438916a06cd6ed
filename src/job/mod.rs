//! From job files to checked runs.

pub mod spec;
