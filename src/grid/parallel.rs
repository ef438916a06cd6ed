//! Threads that fail together: the first error stops all, and is the one reported.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use crate::interrupt::Interrupt;

use super::error::GridError;

/// Why threads stop: the user's interrupt, or the first error of one of them.
pub(super) struct Stop<'a> {
    interrupt: &'a Interrupt,
    failed: AtomicBool,
    first: Mutex<Option<GridError>>,
}

impl<'a> Stop<'a> {
    pub(super) fn new(interrupt: &'a Interrupt) -> Self {
        Self { interrupt, failed: AtomicBool::new(false), first: Mutex::new(None) }
    }

    /// Keeps the error if it is the first, and stops the others.
    pub(super) fn fail(&self, error: GridError) {
        lock(&self.first).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Polled between batches.
    pub(super) fn raised(&self) -> bool {
        self.failed.load(Ordering::Relaxed) || self.interrupt.raised()
    }

    /// The first error, or that of the interrupt.
    pub(super) fn finish(self) -> Result<(), GridError> {
        match self.first.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None if self.interrupt.raised() => Err(GridError::Interrupted),
            None => Ok(()),
        }
    }
}

/// Runs `work(worker, stop)` on so many threads and returns what each made. A panic in one goes on in the caller.
pub(super) fn on_threads<T: Send>(
    threads: usize,
    interrupt: &Interrupt,
    work: impl Fn(usize, &Stop<'_>) -> Result<T, GridError> + Sync,
) -> Result<Vec<T>, GridError> {
    let stop = Stop::new(interrupt);
    let results = std::thread::scope(|scope| {
        let spawn = |worker| {
            let (work, stop) = (&work, &stop);
            let work = move || work(worker, stop).map_err(|error| stop.fail(error)).ok();
            Builder::new().spawn_scoped(scope, work)
        };
        // Threads take what is left to do from each other, so that fewer than asked for do it too; none do not.
        let mut refusal = None;
        let handles: Vec<_> = (0..threads)
            .map_while(|worker| spawn(worker).map_err(|reason| refusal = Some(reason)).ok())
            .collect();
        if let Some(reason) = refusal.filter(|_| handles.is_empty()) {
            stop.fail(GridError::Threads { reason });
        }
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        handles.into_iter().filter_map(join).collect()
    });
    stop.finish()?;
    Ok(results)
}

/// Locks; a panic elsewhere while it was locked goes on in its own thread, and the data here are plain lists.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
