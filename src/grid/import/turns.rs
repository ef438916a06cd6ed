//! Places of segments whose length is known only when they are encoded: they are given out in the order of the
//! segments, so that the same input makes the same files, whichever thread is done first. A thread whose turn has
//! not come waits; the segment whose turn it is is always in somebody's hands, since threads take them in order.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::grid::parallel::lock;

/// How long a waiting thread does not look whether it should stop.
const PATIENCE: Duration = Duration::from_millis(20);

/// The turns of an import.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The segment whose turn it is.
    segment: usize,
    next_chunk: u64,
    /// Chunks of each segment so far.
    chunks: Vec<u64>,
    /// A thread panicked, so that some turn may never end.
    broken: bool,
}

impl Turns {
    /// So many segments, none with a place yet.
    pub(super) fn new(segments: usize) -> Self {
        let state = State { segment: 0, next_chunk: 0, chunks: vec![0; segments], broken: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for the segment's turn and gives it its next `chunks`: the number of the first. `last` ends the turn.
    /// `None` where the import stops.
    pub(super) fn reserve(
        &self,
        segment: usize,
        chunks: u64,
        last: bool,
        stopped: &dyn Fn() -> bool,
    ) -> Option<u64> {
        let mut state = lock(&self.state);
        while state.segment != segment {
            if state.broken || stopped() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let first = state.next_chunk;
        state.next_chunk += chunks;
        state.chunks[segment] += chunks;
        if last {
            state.segment += 1;
            self.changed.notify_all();
        }
        Some(first)
    }

    /// Chunks of each segment.
    pub(super) fn chunks(&self) -> Vec<u64> {
        lock(&self.state).chunks.clone()
    }

    /// To be held by a thread that takes turns, so that the others do not wait for it if it panics.
    pub(super) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

/// See [`Turns::guard`].
pub(super) struct Guard<'a>(&'a Turns);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.state).broken = true;
            self.0.changed.notify_all();
        }
    }
}
