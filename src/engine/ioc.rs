//! The IOC model (paper, section 3): I/O threads only submit and reap, compute threads only compute, and two
//! queues of block addresses lie between them.
//!
//! The protocol. `loading` holds free blocks (at the start: all), `computing` holds filled ones. An I/O thread
//! takes a free block, then a request for it, reads, and appends the block to `computing`; a compute thread
//! pops it, computes in place, and appends it to `loading`. Blocks complete in any order. There are two
//! `computing` queues, for even and odd passes, since reading runs ahead into the next pass and a block of that
//! one must not be taken before this one has ended. A compute thread draws a ticket before it waits for a block;
//! there are as many tickets as requests in the pass, so each wait is met. An end before time closes all queues
//! and the schedule, which wakes every thread; each then sees the failure and leaves.

use super::accounting::{ComputeAccount, Outstanding, ReadAccount};
use super::compute::{BlockSource, Filled, timed};
use super::failure::EngineError;
use super::pins::{Block, Pin, Pins};
use super::primitives::{AtomicU64, Ordering};
use super::queue::Queue;
use super::schedule::{Next, Request, Schedule};
use crate::interrupt::Interrupt;
use crate::io::{Completion, IoEngine, ReadRequest};
use crate::storage::buffer::AlignedBuffer;

/// The two queues and the schedule, shared by all threads of a run.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) loading: Queue<AlignedBuffer>,
    /// A read that failed is passed on too: it fails the pass that wants it, which a pass read ahead may never come to.
    pub(crate) computing: [Queue<Result<Filled, EngineError>>; 2],
    pub(crate) schedule: Schedule,
    pub(crate) pins: Pins,
}

impl Exchange {
    /// An I/O thread that lacks blocks goes on when `refill` of them are free, 1 or more: where computing sets the
    /// pace, every other block is full, so that nothing is lost by reading a batch at a time, and the cores are not
    /// taken from computing for each block.
    pub(crate) fn new(blocks: Vec<AlignedBuffer>, refill: usize, schedule: Schedule, pins: Pins) -> Self {
        Self {
            loading: Queue::waking_at(refill, blocks),
            computing: [Queue::new([]), Queue::new([])],
            schedule,
            pins,
        }
    }

    /// Wakes everybody for good.
    pub(crate) fn close(&self) {
        self.schedule.close();
        self.loading.close();
        self.computing.iter().for_each(Queue::close);
    }

    fn computing(&self, pass: u64) -> &Queue<Result<Filled, EngineError>> {
        &self.computing[(pass % 2) as usize]
    }
}

/// One I/O thread: its kernel interface, and the devices it serves.
pub(crate) struct Reader<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) io: Box<dyn IoEngine>,
    pub(crate) engine: &'static str,
    /// Which devices are this thread's, by index.
    pub(crate) serves: Vec<bool>,
    /// Requests outstanding per device, and per submission, at most.
    pub(crate) depth: usize,
    pub(crate) batch: usize,
    pub(crate) outstanding: &'a Outstanding,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) describe: &'a (dyn Fn(&Request, std::io::Error) -> EngineError + Sync),
    pub(crate) advance: &'a (dyn Fn(u64) + Sync),
}

/// What kept an I/O thread from filling its batch.
enum Lack {
    /// Nothing: the batch or the devices' depth is full.
    Nothing,
    /// Free blocks.
    Blocks,
    /// Requests, until something happens after this version of the schedule.
    Requests(u64),
    /// The run has no more.
    Everything,
}

/// What an I/O thread has on its hands.
struct Hands {
    /// Requests by tag; free tags are in `free`.
    slots: Vec<Option<Request>>,
    free: Vec<usize>,
    per_device: Vec<usize>,
    batch: Vec<ReadRequest>,
    spare: Option<AlignedBuffer>,
}

impl Reader<'_> {
    /// Reads until the schedule is finished, the queues are closed, or something fails.
    pub(crate) fn run(&mut self, account: &mut ReadAccount) -> Result<(), EngineError> {
        let capacity = self.io.capacity();
        let mut hands = Hands {
            slots: vec![None; capacity],
            free: (0..capacity).rev().collect(),
            per_device: vec![0; self.serves.len()],
            batch: Vec::with_capacity(self.batch),
            spare: None,
        };
        let mut completions = Vec::with_capacity(capacity);
        loop {
            if self.interrupt.raised() {
                return Err(EngineError::Interrupted);
            }
            let lack = self.fill(&mut hands, account);
            if !hands.batch.is_empty() {
                self.submit(&mut hands)?;
            }
            if matches!(lack, Lack::Nothing) && hands.batch.is_empty() && !hands.free.is_empty() {
                continue;
            }
            if self.io.in_flight() > 0 {
                self.reap(&lack, &mut hands, &mut completions, account)?;
            } else if !self.wait(&lack, &mut hands, account) {
                return Ok(());
            }
        }
    }

    /// Pairs free blocks with requests, the oldest first, until the batch is full or one of them is lacking.
    fn fill(&self, hands: &mut Hands, account: &mut ReadAccount) -> Lack {
        if hands.spare.is_none() && !self.exchange.loading.ready() {
            return Lack::Blocks;
        }
        while hands.batch.len() < self.batch && !hands.free.is_empty() {
            let Some(buffer) = hands.spare.take().or_else(|| self.exchange.loading.try_pop()) else {
                return Lack::Blocks;
            };
            let per_device = &hands.per_device;
            let room = |device: usize| self.serves[device] && per_device[device] < self.depth;
            let lack = match self.exchange.schedule.take(&room) {
                Next::Request(request) => {
                    self.start(request, buffer, hands, account);
                    continue;
                }
                Next::Later(version) | Next::Behind(version) => Lack::Requests(version),
                Next::Finished => Lack::Everything,
            };
            self.exchange.loading.push(buffer);
            return lack;
        }
        Lack::Nothing
    }

    /// Begins a request: with the block given, or with memory of its own if its block is one that stays; or passes it
    /// on at once if that block is in memory.
    fn start(&self, request: Request, buffer: AlignedBuffer, hands: &mut Hands, account: &mut ReadAccount) {
        match request.pin.map_or(Pin::Underway, |place| self.exchange.pins.take(place)) {
            Pin::Underway => hands.add(Request { pin: None, ..request }, buffer),
            Pin::Unread(own) => {
                hands.spare = Some(buffer);
                hands.add(request, own);
            }
            Pin::Ready(block) => {
                hands.spare = Some(buffer);
                account.cached += request.len as u64;
                self.exchange.computing(request.pass).push(Ok(Filled { request, block }));
            }
        }
    }

    fn submit(&mut self, hands: &mut Hands) -> Result<(), EngineError> {
        let before = hands.batch.len();
        // Counted before the call, so that the time inside it counts too.
        self.outstanding.add(before as u64);
        let result = self.io.submit(&mut hands.batch);
        self.outstanding.remove(hands.batch.len() as u64);
        result.map_err(|source| EngineError::Engine { engine: self.engine, source })
    }

    fn reap(
        &mut self,
        lack: &Lack,
        hands: &mut Hands,
        completions: &mut Vec<Completion>,
        account: &mut ReadAccount,
    ) -> Result<(), EngineError> {
        let result = self.io.reap(hands.to_wait_for(lack, self.batch), completions);
        result.map_err(|source| EngineError::Engine { engine: self.engine, source })?;
        self.outstanding.remove(completions.len() as u64);
        for Completion { request: read, submitted, completed, result } in completions.drain(..) {
            let request = hands.remove(read.tag);
            if let Err(source) = result {
                // Its block is gone with it, so that a broken device is not asked for all of a pass.
                self.exchange.computing(request.pass).push(Err((self.describe)(&request, source)));
                continue;
            }
            account.record(request.len, completed.saturating_duration_since(submitted));
            (self.advance)(request.len as u64);
            let block = match request.pin {
                Some(place) => self.exchange.pins.fill(place, read.buffer),
                None => Block::Lent(read.buffer),
            };
            self.exchange.computing(request.pass).push(Ok(Filled { request, block }));
        }
        Ok(())
    }

    /// With nothing in flight: waits for what is lacking. False when there is nothing to wait for.
    fn wait(&self, lack: &Lack, hands: &mut Hands, account: &mut ReadAccount) -> bool {
        match lack {
            Lack::Nothing => true,
            Lack::Blocks => {
                hands.spare = timed(&mut account.wait, || self.exchange.loading.pop());
                hands.spare.is_some()
            }
            Lack::Requests(version) => {
                self.exchange.schedule.wait(*version);
                true
            }
            Lack::Everything => false,
        }
    }
}

impl Hands {
    fn add(&mut self, request: Request, buffer: AlignedBuffer) {
        let slot = self.free.pop().expect("`fill` asks for a free slot before it asks for a request");
        self.slots[slot] = Some(request);
        self.per_device[request.device] += 1;
        let Request { device, offset, len, .. } = request;
        self.batch.push(ReadRequest { device, offset, len, buffer, tag: slot as u64 });
    }

    /// Completions that are worth waking up for: half of what the least busy device has outstanding, so that none
    /// runs out of requests meanwhile, and a batch at most. Near the end of a pass, where a device has no more requests,
    /// few are left to make a batch of, and the threads that compute want each block at once.
    fn to_wait_for(&self, lack: &Lack, batch: usize) -> usize {
        if matches!(lack, Lack::Requests(_) | Lack::Everything) {
            return 1;
        }
        let busy = self.per_device.iter().filter(|&&outstanding| outstanding > 0);
        busy.min().map_or(1, |outstanding| (outstanding / 2).clamp(1, batch))
    }

    fn remove(&mut self, tag: u64) -> Request {
        // The engine returns the tags it was given, each once: part of its contract.
        let request = self.slots[tag as usize].take().expect("a completion for a request in flight");
        self.free.push(tag as usize);
        self.per_device[request.device] -= 1;
        request
    }
}

/// A compute thread's view of the queues during one pass.
pub(crate) struct FromQueue<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) pass: u64,
    /// Blocks of the pass that no thread has undertaken to compute on.
    pub(crate) tickets: &'a AtomicU64,
    pub(crate) interrupt: &'a Interrupt,
}

impl FromQueue<'_> {
    fn draw(&self) -> bool {
        let less = |tickets: u64| tickets.checked_sub(1);
        self.tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn check(&self) -> Result<(), EngineError> {
        if self.interrupt.raised() { Err(EngineError::Interrupted) } else { Ok(()) }
    }
}

impl BlockSource for FromQueue<'_> {
    fn next(&mut self, account: &mut ComputeAccount) -> Result<Option<Filled>, EngineError> {
        self.check()?;
        if !self.draw() {
            return Ok(None);
        }
        let queue = self.exchange.computing(self.pass);
        queue.try_pop().or_else(|| timed(&mut account.wait, || queue.pop())).transpose()
    }

    fn another(&mut self, _account: &mut ComputeAccount) -> Result<Option<Filled>, EngineError> {
        self.check()?;
        if !self.draw() {
            return Ok(None);
        }
        let block = self.exchange.computing(self.pass).try_pop();
        if block.is_none() {
            self.tickets.fetch_add(1, Ordering::Relaxed);
        }
        block.transpose()
    }

    fn release(&mut self, filled: Filled) {
        if let Block::Lent(buffer) = filled.block {
            self.exchange.loading.push(buffer);
        }
    }
}
