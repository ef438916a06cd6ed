//! The synchronous compute-load model, the paper's baseline (section 2): every thread reads its next block,
//! waits for it, and computes on it. Same grid, requests, kernels and accounting as the IOC model, so that the
//! difference is the model alone.

use super::accounting::{ComputeAccount, Outstanding, ReadAccount};
use super::compute::{BlockSource, Filled, timed};
use super::failure::EngineError;
use super::pins::{Block, Pin, Pins};
use super::schedule::{Next, Request, Schedule};
use crate::interrupt::Interrupt;
use crate::io::{Completion, IoEngine, ReadRequest};
use crate::storage::buffer::AlignedBuffer;

/// One thread's own reads.
pub(crate) struct OwnReads<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) pins: &'a Pins,
    pub(crate) io: &'a mut dyn IoEngine,
    pub(crate) engine: &'static str,
    /// Free blocks of this thread: one, and more where the buffer has them (for blocks put aside).
    pub(crate) free: &'a mut Vec<AlignedBuffer>,
    pub(crate) read: &'a mut ReadAccount,
    pub(crate) outstanding: &'a Outstanding,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) describe: &'a (dyn Fn(&Request, std::io::Error) -> EngineError + Sync),
    pub(crate) advance: &'a (dyn Fn(u64) + Sync),
}

impl OwnReads<'_> {
    fn fetch(&mut self, request: Request, buffer: AlignedBuffer) -> Result<Filled, EngineError> {
        let Request { device, offset, len, .. } = request;
        let mut batch = vec![ReadRequest { device, offset, len, buffer, tag: 0 }];
        let mut completions = Vec::with_capacity(1);
        self.outstanding.add(1);
        let result = loop {
            let result = if batch.is_empty() { Ok(()) } else { self.io.submit(&mut batch) };
            if let Err(error) = result.and_then(|()| self.io.reap(1, &mut completions)) {
                break Err(EngineError::Engine { engine: self.engine, source: error });
            }
            if let Some(completion) = completions.pop() {
                break Ok(completion);
            }
            if self.interrupt.raised() {
                break Err(EngineError::Interrupted);
            }
        };
        self.outstanding.remove(1);
        let Completion { request: read, submitted, completed, result } = result?;
        result.map_err(|source| (self.describe)(&request, source))?;
        self.read.record(len, completed.saturating_duration_since(submitted));
        (self.advance)(len as u64);
        let block = match request.pin {
            Some(place) => self.pins.fill(place, read.buffer),
            None => Block::Lent(read.buffer),
        };
        Ok(Filled { request, block })
    }
}

/// What a thread that asks for a block is told.
enum Step {
    Block(Filled),
    /// Sources are not on their way yet; wait for what happens after this version of the schedule.
    Behind(u64),
    /// The pass has no more, or this thread no free block.
    Nothing,
}

impl OwnReads<'_> {
    fn step(&mut self, account: &mut ComputeAccount) -> Result<Step, EngineError> {
        if self.interrupt.raised() {
            return Err(EngineError::Interrupted);
        }
        let Some(buffer) = self.free.pop() else { return Ok(Step::Nothing) };
        let request = match self.schedule.take(&|_| true) {
            Next::Request(request) => request,
            // The schedule opens one pass at a time under this model, so `Later` is the end of the pass.
            other => {
                self.free.push(buffer);
                return Ok(if let Next::Behind(version) = other {
                    Step::Behind(version)
                } else {
                    Step::Nothing
                });
            }
        };
        let (request, buffer) = match request.pin.map_or(Pin::Underway, |place| self.pins.take(place)) {
            Pin::Underway => (Request { pin: None, ..request }, buffer),
            Pin::Unread(own) => {
                self.free.push(buffer);
                (request, own)
            }
            Pin::Ready(block) => {
                self.free.push(buffer);
                self.read.cached += request.len as u64;
                return Ok(Step::Block(Filled { request, block }));
            }
        };
        timed(&mut account.wait, || self.fetch(request, buffer)).map(Step::Block)
    }
}

impl BlockSource for OwnReads<'_> {
    fn next(&mut self, account: &mut ComputeAccount) -> Result<Option<Filled>, EngineError> {
        loop {
            match self.step(account)? {
                Step::Block(block) => return Ok(Some(block)),
                Step::Nothing => return Ok(None),
                Step::Behind(version) => timed(&mut account.wait, || self.schedule.wait(version)),
            }
        }
    }

    /// Does not wait for sources, which may wait for the block that the caller holds to be computed.
    fn another(&mut self, account: &mut ComputeAccount) -> Result<Option<Filled>, EngineError> {
        Ok(if let Step::Block(block) = self.step(account)? { Some(block) } else { None })
    }

    fn release(&mut self, filled: Filled) {
        if let Block::Lent(buffer) = filled.block {
            self.free.push(buffer);
        }
    }
}
