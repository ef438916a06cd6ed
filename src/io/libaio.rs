//! Reads by the kernel's asynchronous I/O: many requests per `io_submit`, many completions per `io_getevents`,
//! as the IOC paper's I/O threads do it.
//!
//! A request and its buffer live in a slab from the moment they are submitted until their event is seen; the
//! slot's number travels through the kernel as the request's mark. That, and waiting for everything in flight
//! before the slab is dropped, is what makes it sound to let the kernel write to a buffer behind our back.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libaio_sys::{Context, IoEvent, Iocb};
use rustix::io::Errno;

use super::held::PATIENCE;
use super::slab::Slab;
use super::transfer::{Next, Transfer};
use super::{Completion, IoEngine, ReadRequest};
use crate::storage::device::DeviceFiles;

/// With nothing in flight that would make room by finishing, a kernel that says `EAGAIN` lacks memory for a
/// moment. So long and so often it is asked again before a request fails for it.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
const RETRIES: u32 = 100;

/// Asynchronous reads, many per system call, completed in any order.
pub struct LibaioEngine {
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
    iocbs: Vec<Iocb>,
    events: Vec<IoEvent>,
}

/// The two calls that matter, so that tests can play a kernel that is short of everything.
trait Kernel: Send {
    /// As [`Context::submit`].
    ///
    /// # Safety
    /// As there.
    unsafe fn submit(&mut self, requests: &mut [Iocb]) -> io::Result<usize>;
    /// As [`Context::events`].
    fn events(&mut self, events: &mut [IoEvent], timeout: Option<Duration>) -> io::Result<usize>;
}

impl Kernel for Context {
    unsafe fn submit(&mut self, requests: &mut [Iocb]) -> io::Result<usize> {
        let pointers: Vec<_> = requests.iter_mut().map(std::ptr::from_mut).collect();
        // SAFETY: the pointers come from the exclusive slice; for the memory the requests name, our caller
        // vouches.
        unsafe { Self::submit(self, &pointers) }
    }

    fn events(&mut self, events: &mut [IoEvent], timeout: Option<Duration>) -> io::Result<usize> {
        Self::events(self, 1, events, timeout)
    }
}

impl LibaioEngine {
    /// An engine for `capacity` requests in flight.
    ///
    /// # Errors
    /// What `io_setup` says, with what to do: the kernel's limit on requests is reached, it knows no AIO, or the
    /// capacity is 0 or absurd.
    pub fn new(files: Arc<DeviceFiles>, capacity: usize) -> io::Result<Self> {
        // More than u32::MAX is as impossible as u32::MAX, and the kernel will say so.
        let requests = u32::try_from(capacity).unwrap_or(u32::MAX);
        let context = Context::new(requests).map_err(|cause| explain_setup(&cause, capacity))?;
        Ok(Self::on(Box::new(context), files, capacity))
    }

    fn on(kernel: Box<dyn Kernel>, files: Arc<DeviceFiles>, capacity: usize) -> Self {
        Self {
            kernel,
            files,
            capacity,
            slots: Slab::with_capacity(capacity),
            queue: VecDeque::with_capacity(capacity),
            at_kernel: 0,
            refused: Vec::new(),
            iocbs: Vec::with_capacity(capacity),
            events: vec![IoEvent::default(); capacity],
        }
    }

    /// Gives the queue to the kernel, in one call unless it stops half-way.
    fn flush(&mut self) {
        let mut retries = 0;
        while !self.queue.is_empty() {
            let now = Instant::now();
            match self.submit_queue() {
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
                // What is in flight makes room by finishing; `reap` comes back here then.
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
        self.iocbs.clear();
        for &slot in &self.queue {
            let transfer = self.slots.get_mut(slot).expect("a slot leaves the queue before it is emptied");
            let fd = self.files.fd(transfer.device()).as_raw_fd();
            let (offset, memory) = transfer.rest();
            self.iocbs.push(Iocb::pread(fd, memory.as_mut_ptr(), memory.len(), offset, slot as u64));
        }
        // SAFETY: each request names memory inside a buffer that `slots` owns and that was checked to be long
        // enough. A slot is emptied only when its event is seen or, by `refuse_first`, when the kernel did not
        // take it; `drop` waits for the others. Nothing reads the buffer meanwhile: it is moved (which leaves
        // its memory where it is), not looked into.
        unsafe { self.kernel.submit(&mut self.iocbs) }
    }

    /// An error of `io_submit` is the first request's: those behind it were not looked at.
    fn refuse_first(&mut self, error: io::Error) {
        if let Some(transfer) = self.queue.pop_front().and_then(|slot| self.slots.remove(slot)) {
            self.refused.push(transfer.complete(Instant::now(), Err(error)));
        }
    }

    fn wait(&mut self, timeout: Duration, completions: &mut Vec<Completion>) -> io::Result<()> {
        let seen = match self.kernel.events(&mut self.events, Some(timeout)) {
            Ok(seen) => seen,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        self.at_kernel -= seen;
        let now = Instant::now();
        for index in 0..seen {
            let event = self.events[index];
            self.finish(event, now, completions);
        }
        Ok(())
    }

    fn finish(&mut self, event: IoEvent, now: Instant, completions: &mut Vec<Completion>) {
        let slot = event.data as usize;
        let Some(transfer) = self.slots.get_mut(slot) else { return };
        let result = match usize::try_from(event.result) {
            Ok(read) => transfer.advance(read),
            Err(_) if event.result == -i64::from(Errno::INTR.raw_os_error()) => Ok(Next::Continue),
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

impl IoEngine for LibaioEngine {
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

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let before = completions.len();
        loop {
            self.flush();
            completions.append(&mut self.refused);
            let patience = deadline.saturating_duration_since(Instant::now());
            if completions.len() > before || self.at_kernel == 0 || patience.is_zero() {
                return Ok(());
            }
            self.wait(patience, completions)?;
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() + self.refused.len()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for LibaioEngine {
    fn drop(&mut self) {
        while self.at_kernel > 0 {
            match self.kernel.events(&mut self.events, None) {
                Ok(seen) => self.at_kernel -= seen,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // Cannot happen with a context of our own. But if it did, the kernel could still write to
                    // the buffers: memory lost is better than memory overwritten.
                    std::mem::forget(std::mem::replace(&mut self.slots, Slab::with_capacity(0)));
                    return;
                }
            }
        }
    }
}

fn explain_setup(cause: &io::Error, capacity: usize) -> io::Error {
    let what = match cause.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => format!(
            "the kernel has no room for {capacity} more asynchronous requests (fs.aio-nr = {}, fs.aio-max-nr = {}); \
             raise the limit with `sysctl fs.aio-max-nr=1048576`, lower `engine.io_depth`, or set engine.io = \"psync\"",
            kernel_setting("/proc/sys/fs/aio-nr"),
            kernel_setting("/proc/sys/fs/aio-max-nr"),
        ),
        Some(Errno::NOSYS | Errno::PERM) => {
            "this kernel or sandbox offers no asynchronous I/O (io_setup); set engine.io = \"psync\""
                .to_owned()
        }
        _ => format!(
            "a queue of {capacity} asynchronous requests cannot be set up: {cause}; change `engine.io_depth`"
        ),
    };
    io::Error::new(cause.kind(), what)
}

fn kernel_setting(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |value| value.trim().to_owned())
}

#[cfg(test)]
mod tests;
