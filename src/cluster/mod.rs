//! Where repetitions execute.

pub mod child;
pub mod local;
