//! The request to stop (Ctrl-C, SIGTERM, a failing sibling thread) that long work polls between batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that is raised once and never lowered. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that nobody has raised yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks all who share the flag to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for. Cheap enough for once per batch.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The shared flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
