//! What the kernel's asynchronous interfaces have in common: many requests per submission, many completions per
//! wait, in any order. An interface itself is a [`Kernel`], a few calls that differ; what a request goes through
//! is here, once.
//!
//! A request and its buffer live in a slab from the moment they are submitted until their event is seen; the
//! slot's number travels through the kernel as the request's mark. That, and waiting for everything in flight
//! before the slab is dropped, is what makes it sound to let the kernel write to a buffer behind our back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::held::PATIENCE;
use super::slab::Slab;
use super::transfer::{Next, Transfer};
use super::{Completion, IoEngine, ReadRequest};
use crate::storage::buffer::AlignedBuffer;
use crate::storage::device::DeviceFiles;

/// With nothing in flight that would make room by finishing, a kernel that says `EAGAIN` lacks memory for a
/// moment. So long and so often it is asked again before a request fails for it.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(1);
pub(super) const RETRIES: u32 = 100;

/// A read as an interface is given it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    /// Comes back in the event.
    pub(super) mark: u64,
    pub(super) device: usize,
    pub(super) fd: RawFd,
    pub(super) offset: u64,
    pub(super) address: *mut u8,
    pub(super) len: usize,
    /// [`AlignedBuffer::id`] of the buffer that the address lies in.
    pub(super) buffer: u64,
}

// SAFETY: an address is a number to whoever holds a `Read`; only the kernel writes there, and the engine that
// owns the buffer is `Send` itself.
unsafe impl Send for Read {}

/// A read that is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// The read's.
    pub(super) mark: u64,
    /// Bytes, or a negated error number.
    pub(super) result: i64,
}

/// An interface of the kernel. Tests play one that is short of everything.
pub(super) trait Kernel: Send {
    /// Hands reads over, in order, in one call if possible, and returns how many were taken: 0 only where there
    /// is no room. An error is the first read's; those behind it have not been looked at.
    ///
    /// # Safety
    /// The memory that a read names stays allocated, and nobody else touches it, until its event was returned or
    /// `submit` has returned without taking it.
    unsafe fn submit(&mut self, reads: &[Read]) -> io::Result<usize>;

    /// Appends the events of what is done; waits for at least `least` (1 or more, and not more than reads are with
    /// the kernel), but no longer than `timeout` (`None`: for ever) or until a signal comes.
    fn events(&mut self, least: usize, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()>;

    /// See [`IoEngine::register`].
    fn register(&mut self, _buffers: &[AlignedBuffer]) -> io::Result<()> {
        Ok(())
    }
}

/// Asynchronous reads through one of the kernel's interfaces.
pub struct AsynchronousEngine {
    kernel: Box<dyn Kernel>,
    files: Arc<DeviceFiles>,
    capacity: usize,
    /// Every request in flight.
    slots: Slab<Transfer>,
    /// Slots that the kernel has still to be given, the rests of short reads among them.
    queue: VecDeque<usize>,
    /// Requests that the kernel has.
    at_kernel: usize,
    /// Requests that failed before the kernel had them, to be seen by the next `reap`.
    refused: Vec<Completion>,
    reads: Vec<Read>,
    events: Vec<Event>,
}

impl AsynchronousEngine {
    pub(super) fn on(kernel: Box<dyn Kernel>, files: Arc<DeviceFiles>, capacity: usize) -> Self {
        Self {
            kernel,
            files,
            capacity,
            slots: Slab::with_capacity(capacity),
            queue: VecDeque::with_capacity(capacity),
            at_kernel: 0,
            refused: Vec::new(),
            reads: Vec::with_capacity(capacity),
            events: Vec::with_capacity(capacity),
        }
    }

    /// Gives the queue to the kernel, in one call unless it stops half-way.
    fn flush(&mut self) {
        let mut retries = 0;
        while !self.queue.is_empty() {
            let now = Instant::now();
            match self.submit_queue() {
                // No room: what is in flight makes some by finishing; `reap` comes back here then.
                Ok(0) => return,
                Ok(taken) => {
                    self.at_kernel += taken;
                    for slot in self.queue.drain(..taken) {
                        if let Some(transfer) = self.slots.get_mut(slot) {
                            transfer.submitted_at(now);
                        }
                    }
                    retries = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.at_kernel > 0 => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && retries < RETRIES => {
                    retries += 1;
                    std::thread::sleep(RETRY_PAUSE);
                }
                Err(error) => self.refuse_first(error),
            }
        }
    }

    fn submit_queue(&mut self) -> io::Result<usize> {
        self.reads.clear();
        for &slot in &self.queue {
            let transfer = self.slots.get_mut(slot).expect("a slot leaves the queue before it is emptied");
            let (device, buffer) = (transfer.device(), transfer.buffer_id());
            let fd = self.files.fd(device).as_raw_fd();
            let (offset, memory) = transfer.rest();
            let (address, len) = (memory.as_mut_ptr(), memory.len());
            self.reads.push(Read { mark: slot as u64, device, fd, offset, address, len, buffer });
        }
        // SAFETY: each read names memory inside a buffer that `slots` owns and that was checked to be long
        // enough. A slot is emptied only when its event is seen or, by `refuse_first`, when the kernel did not
        // take it; `drop` waits for the others. Nothing reads the buffer meanwhile: it is moved (which leaves
        // its memory where it is), not looked into.
        unsafe { self.kernel.submit(&self.reads) }
    }

    /// An error of a submission is the first request's: those behind it were not looked at.
    fn refuse_first(&mut self, error: io::Error) {
        if let Some(transfer) = self.queue.pop_front().and_then(|slot| self.slots.remove(slot)) {
            self.refused.push(transfer.complete(Instant::now(), Err(error)));
        }
    }

    fn wait(&mut self, least: usize, timeout: Duration, completions: &mut Vec<Completion>) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let result = self.kernel.events(least.clamp(1, self.at_kernel), &mut events, Some(timeout));
        self.at_kernel -= events.len();
        let now = Instant::now();
        for event in events.drain(..) {
            self.finish(event, now, completions);
        }
        self.events = events;
        result
    }

    fn finish(&mut self, event: Event, now: Instant, completions: &mut Vec<Completion>) {
        let slot = event.mark as usize;
        let Some(transfer) = self.slots.get_mut(slot) else { return };
        let result = match usize::try_from(event.result) {
            Ok(read) => transfer.advance(read),
            Err(_) if is_passing(event.result) && transfer.try_again() => Ok(Next::Continue),
            Err(_) => Err(io::Error::from_raw_os_error((-event.result) as i32)),
        };
        let result = match result {
            Ok(Next::Continue) => return self.queue.push_back(slot),
            Ok(Next::Finish) => Ok(()),
            Err(error) => Err(error),
        };
        completions.extend(self.slots.remove(slot).map(|transfer| transfer.complete(now, result)));
    }
}

/// Whether a result says nothing of the device: a read that was interrupted, that the kernel had no means for at
/// that moment, or that it dropped since the thread that had submitted it ended.
fn is_passing(result: i64) -> bool {
    [Errno::INTR, Errno::AGAIN, Errno::CANCELED]
        .iter()
        .any(|errno| result == -i64::from(errno.raw_os_error()))
}

impl IoEngine for AsynchronousEngine {
    fn submit(&mut self, requests: &mut Vec<ReadRequest>) -> io::Result<()> {
        let taken = requests.len().min(self.capacity - self.in_flight());
        for transfer in requests.drain(..taken).map(Transfer::new) {
            match transfer.check(&self.files) {
                Ok(()) => self.queue.push_back(self.slots.insert(transfer)),
                Err(error) => self.refused.push(transfer.complete(Instant::now(), Err(error))),
            }
        }
        self.flush();
        Ok(())
    }

    fn reap(&mut self, least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let before = completions.len();
        loop {
            self.flush();
            completions.append(&mut self.refused);
            let patience = deadline.saturating_duration_since(Instant::now());
            if completions.len() > before || self.at_kernel == 0 || patience.is_zero() {
                return Ok(());
            }
            self.wait(least, patience, completions)?;
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() + self.refused.len()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn register(&mut self, buffers: &[AlignedBuffer]) -> io::Result<()> {
        self.kernel.register(buffers)
    }
}

impl Drop for AsynchronousEngine {
    fn drop(&mut self) {
        while self.at_kernel > 0 {
            self.events.clear();
            let result = self.kernel.events(1, &mut self.events, None);
            self.at_kernel -= self.events.len();
            if result.is_err() {
                // Cannot happen with an interface of our own. But if it did, the kernel could still write to
                // the buffers: memory lost is better than memory overwritten.
                std::mem::forget(std::mem::replace(&mut self.slots, Slab::with_capacity(0)));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
