//! Reads by blocking `pread`: the classical way, the baseline of the synchronous model, and what works
//! everywhere. A request waits in the queue until [`IoEngine::reap`] reads it, so one thread has one read
//! outstanding, whatever the capacity.

use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use super::transfer::{Next, Transfer};
use super::{Completion, IoEngine, ReadRequest};
use crate::storage::device::DeviceFiles;

/// Blocking reads, oldest request first.
#[derive(Debug)]
pub struct PsyncEngine {
    files: Arc<DeviceFiles>,
    queue: VecDeque<Transfer>,
    capacity: usize,
}

impl PsyncEngine {
    /// An engine that queues at most `capacity` requests.
    pub fn new(files: Arc<DeviceFiles>, capacity: usize) -> Self {
        Self { files, queue: VecDeque::with_capacity(capacity), capacity }
    }

    fn read(&self, transfer: &mut Transfer) -> io::Result<()> {
        transfer.check(&self.files)?;
        let file = self.files.file(transfer.device());
        loop {
            let (offset, memory) = transfer.rest();
            match file.read_at(memory, offset) {
                Ok(read) if transfer.advance(read)? == Next::Finish => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

impl IoEngine for PsyncEngine {
    fn submit(&mut self, requests: &mut Vec<ReadRequest>) -> io::Result<()> {
        let taken = requests.len().min(self.capacity.saturating_sub(self.queue.len()));
        self.queue.extend(requests.drain(..taken).map(Transfer::new));
        Ok(())
    }

    fn reap(&mut self, _least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let Some(mut transfer) = self.queue.pop_front() else { return Ok(()) };
        transfer.submitted_at(Instant::now());
        let result = self.read(&mut transfer);
        completions.push(transfer.complete(Instant::now(), result));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.queue.len()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}
