//! Reads by `io_uring` (Linux 5.11 or newer): a submission is a system call for a whole batch, completions are
//! read from shared memory, and what a read needs of a file and of a buffer is prepared once, when they are
//! registered, instead of with every read.
//!
//! A buffer counts as registered by its [`AlignedBuffer::id`], not by its address: the kernel reads to the pages
//! that lay there when it was registered, and an address may have been given other pages since.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use ::io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::asynchronous::{AsynchronousEngine, Event, Kernel, RETRIES, RETRY_PAUSE, Read};
use crate::storage::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::device::DeviceFiles;
use crate::units::format_bytes;

/// Bytes that one read can bring (the kernel's `MAX_RW_COUNT`); more is a short read and gone on with.
const MOST: usize = i32::MAX as usize & !(ALIGNMENT - 1);

/// Requests that the kernel has room for in one ring.
pub(crate) const MOST_REQUESTS: usize = 32_768;

/// An engine for `capacity` requests in flight.
///
/// # Errors
/// Where the kernel refuses `io_uring` to this process or has none, with what to use instead; where the capacity is
/// above `MOST_REQUESTS`.
pub fn open(files: Arc<DeviceFiles>, capacity: usize) -> io::Result<AsynchronousEngine> {
    let ring = Ring::new(&files, capacity)?;
    Ok(AsynchronousEngine::on(Box::new(ring), files, capacity))
}

/// Whether this process gets an `io_uring` at all.
///
/// # Errors
/// Why not, with what to use instead.
pub fn available() -> io::Result<()> {
    build(1).map(drop)
}

fn build(capacity: usize) -> io::Result<IoUring> {
    // More than u32::MAX is as impossible as u32::MAX, and the kernel will say so.
    let entries = u32::try_from(capacity).unwrap_or(u32::MAX);
    // Without this flag the kernel interrupts the thread to post each completion; with it, completions wait for
    // the next system call, which an engine makes anyway. Linux before 5.19 does not know it.
    let ring = match IoUring::builder().setup_coop_taskrun().build(entries) {
        Err(error) if errno(&error) == Some(Errno::INVAL) => IoUring::builder().build(entries),
        result => result,
    };
    let modern = |ring: &IoUring| ring.params().is_feature_ext_arg();
    ring.and_then(|ring| if modern(&ring) { Ok(ring) } else { Err(Errno::NOSYS.into()) })
        .map_err(|cause| explain_setup(&cause, capacity, disabled().as_deref()))
}

/// A ring, with the files of all devices registered by their index.
struct Ring {
    uring: IoUring,
    /// Index of each registered buffer, by id.
    registered: HashMap<u64, u16>,
    /// Reads taken whose completions have not been seen; the kernel may not have looked at all of them yet.
    held: usize,
    /// How often in a row it would not look at any, for want of memory.
    refusals: u32,
}

impl Ring {
    fn new(files: &DeviceFiles, capacity: usize) -> io::Result<Self> {
        let uring = build(capacity)?;
        let fds: Vec<_> = (0..files.count()).map(|device| files.fd(device).as_raw_fd()).collect();
        uring.submitter().register_files(&fds).map_err(|cause| {
            let what = format!("io_uring cannot register {} files: {cause}; raise `ulimit -n`", fds.len());
            io::Error::new(cause.kind(), what)
        })?;
        Ok(Self { uring, registered: HashMap::new(), held: 0, refusals: 0 })
    }

    fn harvest(&mut self, events: &mut Vec<Event>) -> usize {
        let before = events.len();
        let event = |entry: ::io_uring::cqueue::Entry| Event {
            mark: entry.user_data(),
            result: entry.result().into(),
        };
        events.extend(self.uring.completion().map(event));
        let seen = events.len() - before;
        self.held -= seen;
        seen
    }

    /// Hands over what still lies in the submission queue and waits for so many completions.
    fn wait(&mut self, least: usize, timeout: Option<Duration>) -> io::Result<()> {
        let result = match timeout.map(types::Timespec::from) {
            Some(timeout) => {
                let args = types::SubmitArgs::new().timespec(&timeout);
                self.uring.submitter().submit_with_args(least, &args)
            }
            None => self.uring.submit_and_wait(least),
        };
        let Err(error) = result else {
            self.refusals = 0;
            return Ok(());
        };
        match errno(&error) {
            Some(Errno::TIME | Errno::INTR) => Ok(()),
            // No means for more reads at this moment. Those that it works on make room by finishing; where there
            // are none, it is asked again so often and no longer.
            Some(Errno::AGAIN | Errno::BUSY) => {
                let idle = self.held == self.uring.submission().len();
                self.refusals = if idle { self.refusals + 1 } else { 0 };
                if self.refusals > RETRIES {
                    return Err(error);
                }
                std::thread::sleep(RETRY_PAUSE);
                Ok(())
            }
            _ => Err(error),
        }
    }
}

impl Kernel for Ring {
    unsafe fn submit(&mut self, reads: &[Read]) -> io::Result<usize> {
        let Self { uring, registered, .. } = self;
        let mut queue = uring.submission();
        let mut taken = 0;
        for read in reads {
            let entry = entry(read, registered.get(&read.buffer).copied());
            // SAFETY: the entry is a read to memory for which our caller vouches, of a file that is registered.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
            taken += 1;
        }
        drop(queue);
        self.held += taken;
        // One call, unless the kernel stops half-way (it does behind a read that it finds wrong). What it does not
        // take stays in the queue for `wait`, which also reports why.
        while !self.uring.submission().is_empty() && self.uring.submit().is_ok_and(|looked_at| looked_at > 0)
        {
        }
        Ok(taken)
    }

    fn events(&mut self, least: usize, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        let seen = self.harvest(events);
        if seen < least {
            self.wait(least - seen, timeout)?;
            self.harvest(events);
        }
        Ok(())
    }

    fn register(&mut self, buffers: &[AlignedBuffer]) -> io::Result<()> {
        let vector = |buffer: &AlignedBuffer| libc::iovec {
            iov_base: buffer.as_ptr().cast_mut().cast(),
            iov_len: buffer.len(),
        };
        let vectors: Vec<_> = buffers.iter().map(vector).collect();
        // SAFETY: the kernel keeps the pages (not the addresses) alive for as long as they are registered, and
        // writes to them for a read only, which names a buffer that is alive: the one of the same id.
        unsafe { self.uring.submitter().register_buffers(&vectors) }
            .map_err(|cause| explain_registration(&cause, buffers))?;
        // The kernel takes 16384 at most.
        self.registered = buffers.iter().map(AlignedBuffer::id).zip(0..).collect();
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel takes a ring apart in the background. Released now, the files do not keep their file system
        // from being unmounted, nor buffers their memory from being free. Where it fails, it happens there.
        let submitter = self.uring.submitter();
        let _ = submitter.unregister_files();
        if !self.registered.is_empty() {
            let _ = submitter.unregister_buffers();
        }
    }
}

fn entry(read: &Read, registered: Option<u16>) -> squeue::Entry {
    let file = types::Fixed(read.device as u32);
    let len = read.len.min(MOST) as u32;
    let entry = match registered {
        Some(index) => opcode::ReadFixed::new(file, read.address, len, index).offset(read.offset).build(),
        None => opcode::Read::new(file, read.address, len).offset(read.offset).build(),
    };
    entry.user_data(read.mark)
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

/// The setting by which an administrator forbids `io_uring`, which Linux has from 6.6 on.
fn disabled() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()
}

fn explain_setup(cause: &io::Error, capacity: usize, disabled: Option<&str>) -> io::Error {
    let disabled = disabled.map(str::trim).filter(|setting| *setting != "0");
    let what = match (errno(cause), disabled) {
        (Some(Errno::PERM), Some(setting)) => format!(
            "the system forbids io_uring (kernel.io_uring_disabled = {setting}); set engine.io = \"libaio\", or allow \
             it with `sysctl kernel.io_uring_disabled=0`"
        ),
        (Some(Errno::PERM | Errno::ACCESS), _) => {
            "a sandbox forbids io_uring, as most containers do (seccomp); set engine.io = \"libaio\", or allow it in \
             the container's profile"
                .to_owned()
        }
        (Some(Errno::NOSYS), _) => {
            "this kernel has no io_uring of Linux 5.11 or newer, or a sandbox hides it; set engine.io = \"libaio\""
                .to_owned()
        }
        (Some(Errno::NOMEM), _) => format!(
            "this user may not lock the memory of an io_uring for {capacity} requests (`ulimit -l` is {}); raise the \
             limit, lower `engine.io_depth`, or set engine.io = \"libaio\"",
            lockable(),
        ),
        (Some(Errno::INVAL), _) => {
            format!("an io_uring has room for {MOST_REQUESTS} requests, not for {capacity}; lower `engine.io_depth`")
        }
        _ => format!(
            "an io_uring for {capacity} requests cannot be set up: {cause}; set engine.io = \"libaio\""
        ),
    };
    io::Error::new(cause.kind(), what)
}

fn explain_registration(cause: &io::Error, buffers: &[AlignedBuffer]) -> io::Error {
    let bytes = format_bytes(buffers.iter().map(|buffer| buffer.len() as u64).sum());
    let what = match errno(cause) {
        Some(Errno::NOMEM) => format!(
            "io_uring cannot register the {bytes} of blocks, because `ulimit -l` is {}; reads go on without, at some \
             cost of CPU; raise the limit, or make engine.buffer smaller",
            lockable(),
        ),
        _ => format!(
            "io_uring cannot register {} blocks of {bytes}: {cause}; reads go on without, at some cost of CPU",
            buffers.len(),
        ),
    };
    io::Error::new(cause.kind(), what)
}

/// Bytes that a user without privileges may lock.
fn lockable() -> String {
    getrlimit(Resource::Memlock).current.map_or_else(|| "unlimited".to_owned(), format_bytes)
}

#[cfg(test)]
mod tests;
