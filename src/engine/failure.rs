//! How a run ends early: the first cause is kept, and everybody who may be waiting is woken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use super::primitives::{AtomicBool, Mutex, Ordering, lock};
use crate::grid::{ChunkError, GridError};
use crate::storage::error::StorageError;

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A device did not deliver.
    #[error("{source} (column {column} of the grid)")]
    Read {
        /// Column of the edges.
        column: usize,
        /// Device, place and reason.
        source: StorageError,
    },
    /// What a device delivered is not what was written.
    #[error("{}: {source}", path.display())]
    Damaged {
        /// The device's file.
        path: PathBuf,
        /// What is wrong.
        source: ChunkError,
    },
    /// Chunks that are each as they were written, but not those that were.
    #[error(
        "column {column} of the grid {} has {found} edges on its devices, but its manifest says {expected}; remove \
         the grid with `ioc dataset rm` and it will be imported again",
        dir.display()
    )]
    Edges {
        /// The grid's folder.
        dir: PathBuf,
        /// The column.
        column: usize,
        /// Edges in its chunks.
        found: u64,
        /// Edges there were.
        expected: u64,
    },
    /// What the chunks hold is not known.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// Vertex state is not where it should be, or cannot be kept.
    #[error(transparent)]
    State(#[from] StorageError),
    /// The engine behind the requests failed as a whole.
    #[error("the {engine} engine failed: {source}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Parameters that cannot be met, with figures.
    #[error("{0}")]
    Plan(String),
    /// The budget is too small, with figures.
    #[error("{0}")]
    Memory(String),
    /// The system grants no more threads.
    #[error(
        "the system grants no more threads: {0}; lower engine.compute_threads or engine.io_threads, or raise the limits \
         on processes and memory (`ulimit -u`, `ulimit -v`)"
    )]
    Threads(std::io::Error),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// A bug: a thread panicked.
    #[error("a thread panicked: {0}; this is a defect of ioc, please report it")]
    Panicked(String),
}

/// The first failure of a run, shared by all its threads.
#[derive(Debug)]
pub(crate) struct Failure {
    raised: AtomicBool,
    first: Mutex<Option<EngineError>>,
}

impl Failure {
    pub(crate) fn new() -> Self {
        Self { raised: AtomicBool::new(false), first: Mutex::new(None) }
    }

    /// Whether the run is to end.
    pub(crate) fn raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Keeps the first cause.
    pub(crate) fn raise(&self, cause: EngineError) {
        lock(&self.first).get_or_insert(cause);
        self.raised.store(true, Ordering::Relaxed);
    }

    /// The cause, if there is one.
    pub(crate) fn take(&self) -> Option<EngineError> {
        lock(&self.first).take()
    }
}

/// Runs a thread's body and turns its error or panic into the run's failure, then calls `wake` so that no
/// other thread waits for this one.
pub(crate) fn guarded(failure: &Failure, wake: &dyn Fn(), body: impl FnOnce() -> Result<(), EngineError>) {
    // What a panicking body leaves half-done (sums, a block) is never looked at again: the run has failed.
    let cause = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            EngineError::Panicked(text.unwrap_or_else(|| "no message".to_owned()))
        }
    };
    failure.raise(cause);
    wake();
}
