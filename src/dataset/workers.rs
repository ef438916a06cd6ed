//! Worker threads of a reader. A source cuts itself into *pieces* (blocks of lines, runs of records, runs of
//! generated edges) that are numbered in the order of the source and claimed in that order. That makes the
//! error of a read deterministic although many threads read: when a piece is at fault, every earlier piece has
//! been claimed already and is finished by its worker, later ones are claimed no more, and of all faults found
//! the earliest piece's is reported.

use std::sync::{Mutex, PoisonError};

use super::{Context, DatasetError, Edge, Sink};

/// Edges handed to the sink at once: large enough to hide the call, small enough for a core's nearest cache.
pub(super) const BATCH_EDGES: usize = 1024;

/// An error and the piece it belongs to.
pub(super) struct Fault {
    /// Number of the piece.
    pub(super) piece: u64,
    /// What happened.
    pub(super) error: DatasetError,
}

impl Fault {
    /// A stop asked for from outside comes before anything that is wrong with the source.
    fn rank(&self) -> Option<u64> {
        match self.error {
            DatasetError::Stopped | DatasetError::Interrupted => None,
            _ => Some(self.piece),
        }
    }
}

/// A worker's edges on their way to the sink.
pub(super) struct Batch<'a> {
    worker: usize,
    context: Context<'a>,
    sink: &'a Sink<'a>,
    edges: Vec<Edge>,
    delivered: u64,
}

impl<'a> Batch<'a> {
    fn new(worker: usize, context: Context<'a>, sink: &'a Sink<'a>) -> Self {
        Self { worker, context, sink, edges: Vec::with_capacity(BATCH_EDGES), delivered: 0 }
    }

    /// Adds an edge; hands all over when the batch is full.
    #[inline]
    pub(super) fn push(&mut self, edge: Edge) -> Result<(), DatasetError> {
        self.edges.push(edge);
        if self.edges.len() < BATCH_EDGES { Ok(()) } else { self.flush() }
    }

    /// Adds edges, at most [`BATCH_EDGES`]; what was there before is handed over first, if not all fit.
    #[inline]
    pub(super) fn append(&mut self, edges: impl ExactSizeIterator<Item = Edge>) -> Result<(), DatasetError> {
        if self.edges.len() + edges.len() > BATCH_EDGES {
            self.flush()?;
        }
        self.edges.extend(edges);
        Ok(())
    }

    #[cold]
    fn flush(&mut self) -> Result<(), DatasetError> {
        self.poll()?;
        if !self.edges.is_empty() {
            (self.sink)(self.worker, &self.edges).map_err(|_| DatasetError::Stopped)?;
            self.delivered += self.edges.len() as u64;
            self.edges.clear();
        }
        Ok(())
    }

    fn poll(&self) -> Result<(), DatasetError> {
        if self.context.interrupt.raised() { Err(DatasetError::Interrupted) } else { Ok(()) }
    }
}

/// Reads a source on `context.threads` threads, the caller's among them. `piece` claims the next piece and
/// pushes its edges, and returns false where no piece is left; each worker has a `scratch` of its own. Returns
/// the number of edges delivered.
pub(super) fn read_pieces<S>(
    context: Context<'_>,
    sink: &Sink<'_>,
    scratch: impl Fn() -> S + Sync,
    piece: impl Fn(&mut S, &mut Batch<'_>) -> Result<bool, Fault> + Sync,
) -> Result<u64, DatasetError> {
    let first_fault: Mutex<Option<Fault>> = Mutex::new(None);
    let held = || first_fault.lock().unwrap_or_else(PoisonError::into_inner);
    let work = |worker: usize| {
        let _guard = StopAllOnPanic(&first_fault);
        let mut batch = Batch::new(worker, context, sink);
        let mut scratch = scratch();
        let result = loop {
            if held().is_some() {
                return 0;
            }
            match batch.poll().map_err(outside).and_then(|()| piece(&mut scratch, &mut batch)) {
                Ok(true) => {}
                Ok(false) => break batch.flush().map_err(outside),
                Err(fault) => break Err(fault),
            }
        };
        if let Err(fault) = result {
            let mut first = held();
            if first.as_ref().is_none_or(|first| fault.rank() < first.rank()) {
                *first = Some(fault);
            }
        }
        batch.delivered
    };

    let delivered = std::thread::scope(|scope| {
        let work = &work;
        // A thread that cannot be had is no error: the others claim its pieces.
        let others: Vec<_> = (1..context.threads)
            .map_while(|worker| std::thread::Builder::new().spawn_scoped(scope, move || work(worker)).ok())
            .collect();
        let own = work(0);
        others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum::<u64>()
            + own
    });
    match first_fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(fault.error),
        None => Ok(delivered),
    }
}

/// Dropped by a panic (of the sink, most likely), it keeps the other workers from reading on for hours before the
/// panic can be seen.
struct StopAllOnPanic<'a>(&'a Mutex<Option<Fault>>);

impl Drop for StopAllOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outside(DatasetError::Stopped));
        }
    }
}

/// A fault that is of no piece.
fn outside(error: DatasetError) -> Fault {
    Fault { piece: 0, error }
}
