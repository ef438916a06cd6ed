//! Engines that read: one per kernel interface, behind [`IoEngine`]. They know devices, offsets and buffers,
//! and nothing of grids. A buffer is *moved* into the engine with its request and comes back with the
//! completion, so the type system says what the queue protocol wants: an address is in one place at a time.

use std::time::Instant;

use crate::storage::buffer::AlignedBuffer;

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
    /// Moves finished requests to `completions`; waits for at least one, at most about 100 ms (then none may
    /// have been added), unless nothing is in flight.
    fn reap(&mut self, completions: &mut Vec<Completion>) -> std::io::Result<()>;
    /// Requests in flight.
    fn in_flight(&self) -> usize;
    /// Requests that may be in flight at once.
    fn capacity(&self) -> usize;
}
