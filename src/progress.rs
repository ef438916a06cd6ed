//! Progress of long work, passed in by whoever has a terminal. The library reports through this trait and
//! never prints.

/// What a stage counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes read or written.
    Bytes,
    /// Edges handled.
    Edges,
}

/// Receives the progress of one stage after the other. Calls come from many threads; `advance` is called per
/// batch (at most some thousand times a second), never per edge.
pub trait Progress: Sync {
    /// A stage begins, for example `kron-22: partition`; `total` where it is known beforehand.
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit);
    /// So much more is done.
    fn advance(&self, amount: u64);
    /// The stage begun last is done.
    fn end(&self);
    /// Something the user should know, though nothing failed: a whole sentence.
    fn note(&self, text: &str);
}

/// No progress at all: for tests and for library users who do not care.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
    fn note(&self, _text: &str) {}
}
