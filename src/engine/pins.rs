//! Blocks that stay in memory between passes: what the budget leaves after vertex state and buffers. The set is fixed
//! before the run and spread evenly over the order and the devices (see [`super::schedule::Geometry`]), because a
//! cyclic scan defeats every policy that replaces; time then falls exactly as the bytes read do.
//!
//! Each has memory of its own, allocated before the run, so that it never competes for the blocks of the pool. Its
//! edges are only read after the first pass, by as many threads and passes as want to.

use std::sync::Arc;

use super::primitives::{Mutex, lock};
use crate::grid::{BlockView, Expectation, KeptBlock};
use crate::storage::buffer::AlignedBuffer;

/// A block with edges in it.
#[derive(Debug)]
pub(crate) enum Block {
    /// Of the pool: free again after use.
    Lent(AlignedBuffer),
    /// Stays.
    Pinned(Arc<KeptBlock>),
}

impl Block {
    /// A view of its first `len` bytes, which were read from the place that `expect` names.
    pub(crate) fn view(&self, len: usize, expect: Expectation) -> BlockView<'_> {
        match self {
            Self::Lent(buffer) => BlockView::new(&buffer[..len], expect),
            Self::Pinned(kept) => kept.view(len, expect),
        }
    }
}

/// What there is at a place.
#[derive(Debug)]
pub(crate) enum Pin {
    /// The block, read in an earlier pass.
    Ready(Block),
    /// Its memory, to be read into and handed to [`Pins::fill`].
    Unread(AlignedBuffer),
    /// Nothing yet: a read of an earlier pass is under way, and this one needs a block of the pool.
    Underway,
}

/// The blocks that stay, by their place.
#[derive(Debug)]
pub(crate) struct Pins(Vec<Mutex<Pin>>);

impl Pins {
    /// So many places for blocks of so many bytes each.
    pub(crate) fn new(places: usize, block: usize) -> Self {
        let unread = || {
            let mut buffer = AlignedBuffer::new(block);
            buffer.fill(0);
            Mutex::new(Pin::Unread(buffer))
        };
        Self((0..places).map(|_| unread()).collect())
    }

    /// What there is at a place, for whoever has a request for it.
    pub(crate) fn take(&self, place: usize) -> Pin {
        let mut pin = lock(&self.0[place]);
        match &*pin {
            Pin::Ready(Block::Pinned(buffer)) => Pin::Ready(Block::Pinned(Arc::clone(buffer))),
            _ => std::mem::replace(&mut pin, Pin::Underway),
        }
    }

    /// Keeps what was read into a place's memory, and returns it.
    pub(crate) fn fill(&self, place: usize, buffer: AlignedBuffer) -> Block {
        let buffer = Arc::new(KeptBlock::new(buffer));
        *lock(&self.0[place]) = Pin::Ready(Block::Pinned(Arc::clone(&buffer)));
        Block::Pinned(buffer)
    }
}
