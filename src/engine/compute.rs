//! The compute side, the same under both models: take a block, add its edges up, give the block back, and do a
//! column's vertex pass when its last block is in.

use std::ops::Range;
use std::time::Instant;

use super::accounting::ComputeAccount;
use super::failure::EngineError;
use super::horizon::Horizon;
use super::pass::{IfOwned, Taken};
use super::pins::Block;
use super::primitives::{AtomicU64, Ordering};
use super::schedule::{Request, Schedule};
use crate::measure::clock::thread_cpu;

/// A block with the edges that a request asked for.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(crate) request: Request,
    pub(crate) block: Block,
}

/// Where a compute thread gets blocks from and where it leaves them: the two queues, or its own reads.
pub(crate) trait BlockSource {
    /// The next block of the pass; waits for it. `None` when the pass has no more, or the run has ended.
    fn next(&mut self, account: &mut ComputeAccount) -> Result<Option<Filled>, EngineError>;
    /// Another block, where one can be had while the thread still holds one.
    fn another(&mut self, account: &mut ComputeAccount) -> Result<Option<Filled>, EngineError>;
    /// The block is free again.
    fn release(&mut self, block: Filled);
}

/// What is done with blocks and columns: the pass, behind the grid's checks.
pub(crate) trait Consumer: Sync {
    /// Adds up a block's edges, or says that its column is owned by another thread.
    fn block(&self, block: &Filled, if_owned: IfOwned) -> Result<Taken, EngineError>;
    /// The vertex pass of a column, of which so many edges are in the sums.
    fn column_done(&self, column: usize, edges: u64) -> Result<(), EngineError>;
}

/// What is left to do in a pass, shared by its compute threads.
pub(crate) struct PassWork<'a> {
    consumer: &'a dyn Consumer,
    /// What the sources of a block are waited for by, where they are streamed.
    stream: Option<Stream<'a>>,
    /// Requests of each column whose edges are not yet in the sums.
    remaining: Vec<AtomicU64>,
    /// Edges of each column that are in the sums.
    edges: Vec<AtomicU64>,
    /// Columns without requests: their vertex passes are dealt out by this counter.
    empty: Vec<usize>,
    next_empty: AtomicU64,
}

/// Sources that come and go.
#[derive(Clone, Copy)]
pub(crate) struct Stream<'a> {
    pub(crate) horizon: &'a Horizon,
    pub(crate) schedule: &'a Schedule,
}

impl<'a> PassWork<'a> {
    /// The work of a pass over some columns, that takes so many requests of each of all.
    pub(crate) fn new(
        columns: Range<usize>,
        consumer: &'a dyn Consumer,
        requests: Vec<u64>,
        stream: Option<Stream<'a>>,
    ) -> Self {
        let empty = columns.filter(|&column| requests[column] == 0).collect();
        let edges = requests.iter().map(|_| AtomicU64::new(0)).collect();
        let remaining = requests.into_iter().map(AtomicU64::new).collect();
        Self { consumer, stream, remaining, edges, empty, next_empty: AtomicU64::new(0) }
    }

    /// One compute thread's share of a pass.
    ///
    /// A block whose column is owned by another thread is put aside for as long as other blocks can be had: one
    /// block at most, and it is tried again after each other block, so that it is neither forgotten nor waited
    /// for while there is work.
    pub(crate) fn drive(
        &self,
        source: &mut dyn BlockSource,
        account: &mut ComputeAccount,
    ) -> Result<(), EngineError> {
        self.empty_columns(account)?;
        let mut aside: Option<Filled> = None;
        loop {
            if let Some(block) = aside.take() {
                if self.offer(&block, IfOwned::Return, account)? == Taken::Busy {
                    if let Some(other) = source.another(account)? {
                        aside = Some(block);
                        self.offer(&other, IfOwned::Wait, account)?;
                        source.release(other);
                        continue;
                    }
                    self.offer(&block, IfOwned::Wait, account)?;
                }
                source.release(block);
            } else {
                let Some(block) = source.next(account)? else { return Ok(()) };
                match self.offer(&block, IfOwned::Return, account)? {
                    Taken::Done(_) => source.release(block),
                    Taken::Busy => aside = Some(block),
                }
            }
        }
    }

    /// Whether every block of every column is in the sums.
    pub(crate) fn complete(&self) -> bool {
        self.remaining.iter().all(|left| left.load(Ordering::Acquire) == 0)
    }

    fn offer(
        &self,
        block: &Filled,
        if_owned: IfOwned,
        account: &mut ComputeAccount,
    ) -> Result<Taken, EngineError> {
        let windows = block.request.windows;
        if let Some(stream) = self.stream {
            // Closed only by a failure, which is the cause that is told.
            if !timed(&mut account.wait, || stream.horizon.wait_for(windows)) {
                return Err(EngineError::Interrupted);
            }
        }
        let started = thread_cpu();
        let taken = self.consumer.block(block, if_owned)?;
        if let Taken::Done(edges) = taken {
            if let Some(stream) = self.stream
                && let Some(limit) = stream.horizon.done(windows)
            {
                stream.schedule.raise_horizon(limit);
            }
            account.blocks += 1;
            account.edges += edges;
            let column = block.request.column;
            self.edges[column].fetch_add(edges, Ordering::Relaxed);
            // The last one to finish must see what the others wrote: their sums were published by the column's
            // lock (or, atomic kernel, by this release sequence), their edges by the latter.
            if self.remaining[column].fetch_sub(1, Ordering::AcqRel) == 1 {
                self.consumer.column_done(column, self.edges[column].load(Ordering::Relaxed))?;
            }
        }
        account.compute += thread_cpu().saturating_sub(started);
        Ok(taken)
    }

    fn empty_columns(&self, account: &mut ComputeAccount) -> Result<(), EngineError> {
        let started = thread_cpu();
        while let Some(&column) = self.empty.get(self.next_empty.fetch_add(1, Ordering::Relaxed) as usize) {
            self.consumer.column_done(column, 0)?;
        }
        account.compute += thread_cpu().saturating_sub(started);
        Ok(())
    }
}

/// Runs `work`, which waits, and adds the time to `wait`.
pub(crate) fn timed<T>(wait: &mut std::time::Duration, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    *wait += started.elapsed();
    result
}
