//! Algorithms: one file each.
