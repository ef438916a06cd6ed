//! Commands: one file each.
