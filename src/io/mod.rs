//! Engines that read: one per kernel interface, behind [`IoEngine`]. They know devices, offsets and buffers,
//! and nothing of grids. A buffer is *moved* into the engine with its request and comes back with the
//! completion, so the type system says what the queue protocol wants: an address is in one place at a time.

mod asynchronous;
pub mod faulty;
mod held;
pub mod io_uring;
pub mod libaio;
pub mod psync;
pub mod shaped;
mod slab;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transfer;
pub mod vertex_reader;

use std::sync::Arc;
use std::time::Instant;

pub use asynchronous::AsynchronousEngine;
pub use shaped::Shaper;

use crate::job::spec::IoSpec;
use crate::storage::buffer::AlignedBuffer;
use crate::storage::device::DeviceFiles;

/// One read of one device's file.
#[derive(Debug)]
pub struct ReadRequest {
    /// Index of the device.
    pub device: usize,
    /// Byte offset in the device's file, a multiple of 4 KiB.
    pub offset: u64,
    /// Bytes to read, at most the buffer's length; a multiple of 4 KiB.
    pub len: usize,
    /// Where to.
    pub buffer: AlignedBuffer,
    /// The caller's mark, returned with the completion.
    pub tag: u64,
}

/// A request that is done, well or not.
#[derive(Debug)]
pub struct Completion {
    /// The request, with its buffer.
    pub request: ReadRequest,
    /// When it was handed to the kernel.
    pub submitted: Instant,
    /// When it was seen to be done.
    pub completed: Instant,
    /// Fewer bytes than asked for is an error (`UnexpectedEof`): engines go on with the rest of a short read
    /// by themselves.
    pub result: std::io::Result<()>,
}

/// Reads asynchronously. An engine belongs to one thread.
pub trait IoEngine: Send {
    /// Hands requests to the kernel, in order, in one call where the interface allows. Takes from the front of
    /// `requests` as many as there is room for (at least one where nothing is in flight) and leaves the rest.
    fn submit(&mut self, requests: &mut Vec<ReadRequest>) -> std::io::Result<()>;
    /// Moves finished requests to `completions`; waits for one or, where the interface can without waking us for
    /// each, for `least` (or all that are in flight), at most about 100 ms (then none may have been added), unless
    /// nothing is in flight.
    fn reap(&mut self, least: usize, completions: &mut Vec<Completion>) -> std::io::Result<()>;
    /// Requests in flight.
    fn in_flight(&self) -> usize;
    /// Requests that may be in flight at once.
    fn capacity(&self) -> usize;
    /// Tells the engine beforehand to which buffers most requests will read, which saves some kernels work with
    /// each of them. Other buffers do as well, and so do these where this fails. At most once per engine, before
    /// the first request.
    ///
    /// # Errors
    /// What the kernel has against it, with what to do.
    fn register(&mut self, _buffers: &[AlignedBuffer]) -> std::io::Result<()> {
        Ok(())
    }
}

/// An engine of this kind that reads these files with `capacity` requests in flight at most, over all devices;
/// with a shaper, no faster than that lets it.
///
/// # Errors
/// `InvalidInput` for a capacity of 0; what the kernel says where it has no queue for us, with what to do.
pub fn open_engine(
    kind: IoSpec,
    files: Arc<DeviceFiles>,
    capacity: usize,
    shaper: Option<Arc<Shaper>>,
) -> std::io::Result<Box<dyn IoEngine>> {
    if capacity == 0 {
        let what = "a queue for no requests reads nothing; `engine.io_depth` must be at least 1";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what));
    }
    let (engine, at_once): (Box<dyn IoEngine>, _) = match kind {
        IoSpec::Libaio => (Box::new(libaio::open(files, capacity)?), capacity),
        IoSpec::IoUring => (Box::new(io_uring::open(files, capacity)?), capacity),
        IoSpec::Psync => (Box::new(psync::PsyncEngine::new(files, capacity)), 1),
    };
    Ok(match shaper {
        Some(shaper) => Box::new(shaped::ShapedEngine::new(engine, shaper, at_once)),
        None => engine,
    })
}
