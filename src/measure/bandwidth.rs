//! Bandwidth.
