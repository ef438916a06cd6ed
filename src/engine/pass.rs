//! What the engine knows of an algorithm: a sequence of passes over all edges, each of which takes blocks, one
//! column at a time, in any order.

use std::ops::Range;

use super::active::Active;
use super::streaming::Sources;
use crate::grid::{BlockView, ChunkError};
use crate::storage::error::StorageError;

/// What became of a block offered to a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// So many edges are in the sums.
    Done(u64),
    /// Another thread owns the column at this moment; nothing was done.
    Busy,
}

/// What a thread does when the column of its block is owned by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfOwned {
    /// Return [`Taken::Busy`].
    Return,
    /// Wait for it.
    Wait,
}

/// An algorithm, as the engine drives it.
pub trait Algorithm {
    /// Passes at most: how far the engine may read ahead.
    fn passes(&self) -> u64;
    /// Whether passes want some sources only (see [`Pass::active`]). Then what a pass reads is known when it begins, and
    /// the engine reads no further.
    fn selective(&self) -> bool {
        false
    }
    /// The next pass, or `None` where the algorithm is done.
    fn begin(&mut self) -> Option<Box<dyn Pass + '_>>;
    /// Called when every block and column of the pass is done: convergence is decided here.
    ///
    /// # Errors
    /// Where vertex state cannot be kept on the devices.
    fn end(&mut self) -> Result<(), StorageError>;
}

/// One pass over all edges. Called by all compute threads at once.
pub trait Pass: Sync {
    /// Adds up the edges of a block, all of one column.
    fn block(&self, column: usize, block: &mut BlockView<'_>, if_owned: IfOwned)
    -> Result<Taken, ChunkError>;
    /// All blocks of the column that the pass wants are in the sums: the vertex pass over its destinations. Called once
    /// per column, also where there are none.
    ///
    /// # Errors
    /// Where its vertices are on devices that fail.
    fn column_done(&self, column: usize) -> Result<(), StorageError>;
    /// The sources that the pass wants, where they are not all: it is given no block that has none of them, and may be
    /// given any other.
    fn active(&self) -> Option<&Active> {
        None
    }
    /// The columns of the pass, and where its sources stream from, where the run's vertex state exceeds the memory.
    fn band(&self) -> Option<(Range<usize>, &dyn Sources)> {
        None
    }
}
