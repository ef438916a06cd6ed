//! A block of chunks that stays in memory between passes. It is checked in the first of them: after that nobody can
//! write to it any more, so that later passes need no more than to look up where its edges lie.

use std::sync::OnceLock;

use super::block::{BlockView, Expectation};
use crate::storage::buffer::AlignedBuffer;

/// Bytes that nobody writes to, and what they were found to be.
#[derive(Debug)]
pub struct KeptBlock {
    bytes: AlignedBuffer,
    checked: Checked,
}

/// What lies in the first so many bytes of a block, once each chunk there was checked.
pub(super) type Checked = OnceLock<(Expectation, usize)>;

impl KeptBlock {
    /// Keeps a block as it was read.
    pub fn new(bytes: AlignedBuffer) -> Self {
        Self { bytes, checked: Checked::new() }
    }

    /// A view of its first `len` bytes, which were read from the place that `expect` names. They are checked, unless
    /// they were before, from end to end.
    ///
    /// # Panics
    /// Where the block is shorter.
    pub fn view(&self, len: usize, expect: Expectation) -> BlockView<'_> {
        BlockView::of_kept(self, len, expect)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn checked(&self) -> &Checked {
        &self.checked
    }
}
