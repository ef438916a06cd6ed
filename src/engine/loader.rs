//! The thread that reads windows of sources, in their order, as far ahead as the horizon allows.

use std::collections::VecDeque;

use super::accounting::Outstanding;
use super::failure::EngineError;
use super::horizon::Horizon;
use super::streaming::{READ_AHEAD, Sources};
use crate::interrupt::Interrupt;
use crate::io::{Completion, IoEngine, ReadRequest};
use crate::storage::buffer::AlignedBuffer;
use crate::storage::device::DeviceFiles;
use crate::storage::vertex_store::Place;

/// What reads windows, for the whole run.
pub(crate) struct Loader {
    io: Box<dyn IoEngine>,
    engine: &'static str,
    /// Empty until the first pass, whose windows say how large they must be.
    free: Vec<AlignedBuffer>,
}

/// What it gets from its run.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub(crate) horizon: &'a Horizon,
    pub(crate) files: &'a DeviceFiles,
    pub(crate) outstanding: &'a Outstanding,
    pub(crate) interrupt: &'a Interrupt,
}

impl Loader {
    /// Requests that its engine must take at once.
    pub(crate) const CAPACITY: usize = READ_AHEAD as usize;

    pub(crate) fn new(io: Box<dyn IoEngine>, engine: &'static str) -> Self {
        Self { io, engine, free: Vec::new() }
    }

    /// Brings the windows of a pass from `first` on to its sources. Returns when all are there, or the run has ended.
    pub(crate) fn run(
        &mut self,
        first: u32,
        sources: &dyn Sources,
        around: Around<'_>,
    ) -> Result<(), EngineError> {
        // Of the windows that are under way, the oldest first: whether it is there already.
        let mut window = first;
        let mut under_way = VecDeque::new();
        let (mut requests, mut completions) = (Vec::new(), Vec::new());
        loop {
            if around.interrupt.raised() {
                return Err(EngineError::Interrupted);
            }
            let mut next = window + under_way.len() as u32;
            // Waits only where nothing is under way that could come in meanwhile.
            if under_way.is_empty() && !around.horizon.wait_for_room(next) {
                return Ok(());
            }
            while under_way.len() < Self::CAPACITY && around.horizon.has_room_for(next) {
                let place = sources.place(next);
                under_way.push_back(place.is_none());
                match place {
                    Some(place) => requests.push(self.request(place, next)),
                    None => sources.put(next, None),
                }
                next += 1;
            }
            if !requests.is_empty() {
                let count = requests.len() as u64;
                around.outstanding.add(count);
                let submitted = self.io.submit(&mut requests);
                around.outstanding.remove(requests.len() as u64);
                self.checked(submitted)?;
            }
            if self.io.in_flight() > 0 {
                let reaped = self.io.reap(1, &mut completions);
                self.checked(reaped)?;
                around.outstanding.remove(completions.len() as u64);
            }
            for Completion { request, result, .. } in completions.drain(..) {
                result.map_err(|cause| around.files.read_error(request.device, request.offset, cause))?;
                let number = request.tag as u32;
                sources.put(number, Some(&request.buffer[..request.len]));
                under_way[(number - window) as usize] = true;
                self.free.push(request.buffer);
            }
            while under_way.front() == Some(&true) {
                under_way.pop_front();
                window += 1;
            }
            around.horizon.loaded(window);
        }
    }

    fn request(&mut self, Place { device, offset, len }: Place, window: u32) -> ReadRequest {
        let buffer = self.free.pop().unwrap_or_else(|| AlignedBuffer::new(len));
        ReadRequest { device, offset, len, buffer, tag: window.into() }
    }

    fn checked<T>(&self, result: std::io::Result<T>) -> Result<T, EngineError> {
        result.map_err(|source| EngineError::Engine { engine: self.engine, source })
    }
}
