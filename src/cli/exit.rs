//! Exit codes, as the README lists them: scripts and CI rely on them.

/// All well.
pub const OK: u8 = 0;
/// Wrong usage or an invalid job file; nothing was run.
pub const USAGE: u8 = 2;
/// Some run failed, or data could not be read or written.
pub const FAILED: u8 = 3;
/// The selection was empty.
pub const NOTHING: u8 = 4;
/// Interrupted by Ctrl-C or SIGTERM; what had finished is in the report.
pub const INTERRUPTED: u8 = 130;
