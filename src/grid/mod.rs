//! The on-disk grid.

pub mod chunk;
pub mod manifest;
