//! What is counted of edges while they are encoded: out-degrees, self-loops, in-weights and digests.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::grid::digest::digest;
use crate::grid::parallel::lock;
use crate::grid::renumbering::Renumbering;
use crate::storage::huge;

use super::sort::Record;

/// Locks of the windows: enough that threads seldom meet.
const LOCKS: usize = 64;

/// Out-degrees by position. A thread counts the edges of one window at a time, whose counters are in its cache then,
/// and holds the window's lock for it; so it needs no atomic addition per edge.
pub(super) struct Degrees {
    degrees: Vec<AtomicU32>,
    locks: [Mutex<()>; LOCKS],
}

impl Degrees {
    /// Zeros.
    pub(super) fn new(vertices: u64) -> Self {
        let zeros = (0..vertices).map(|_| AtomicU32::new(0));
        Self { degrees: huge::collected(vertices as usize, zeros), locks: [const { Mutex::new(()) }; LOCKS] }
    }

    /// Brings the counters of some sources into the cache, line by line, which is faster than to miss them at random.
    pub(super) fn warm(&self, sources: Range<u64>) {
        const LINE: usize = 64 / size_of::<u32>();
        let end = sources.end.min(self.degrees.len() as u64) as usize;
        for degree in self.degrees[sources.start as usize..end].iter().step_by(LINE) {
            black_box(degree.load(Ordering::Relaxed));
        }
    }

    /// Counts edges whose sources are of this window, or returns a source with more arcs than can be counted.
    pub(super) fn count<R: Record>(&self, window: u64, edges: &[R]) -> Result<(), u32> {
        let _turn = lock(&self.locks[(window % LOCKS as u64) as usize]);
        for edge in edges {
            let degree = &self.degrees[edge.source() as usize];
            let more = degree.load(Ordering::Relaxed).checked_add(1).ok_or(edge.source())?;
            degree.store(more, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The degrees, by position.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.degrees.iter().map(|degree| degree.load(Ordering::Relaxed))
    }
}

/// Sums over what was encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) digest: u64,
    pub(super) self_loops: u64,
    pub(super) negative_weights: u64,
    /// Largest sum of a destination's weights, in [`Units`](super::in_weight::Units).
    pub(super) max_in_weight: u64,
}

impl Totals {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            digest: self.digest.wrapping_add(other.digest),
            self_loops: self.self_loops + other.self_loops,
            negative_weights: self.negative_weights + other.negative_weights,
            max_in_weight: self.max_in_weight.max(other.max_in_weight),
        }
    }
}

/// A thread's accounts.
pub(super) struct Account<'a> {
    pub(super) totals: &'a mut Totals,
    pub(super) renumbering: &'a Renumbering,
}

impl Account<'_> {
    /// Counts edges of any rows, and returns the sum of their digests.
    pub(super) fn rows<R: Record>(&mut self, edges: &[R]) -> u64 {
        // Without a branch per edge.
        let loops = edges.iter().filter(|edge| edge.source() == edge.destination()).count();
        self.totals.self_loops += loops as u64;
        if R::WEIGHTED {
            self.totals.negative_weights += edges.iter().filter(|edge| edge.weight() < 0.0).count() as u64;
        }
        let renumbering = self.renumbering;
        let one = |edge: &R| {
            let source = renumbering.dense(edge.source().into());
            digest(source, renumbering.dense(edge.destination().into()), edge.weight().to_bits())
        };
        let sum = edges.iter().map(one).fold(0, u64::wrapping_add);
        self.totals.digest = self.totals.digest.wrapping_add(sum);
        sum
    }
}
