//! The sums of the destinations, and the one loop over edges that all sum-based algorithms share.
//!
//! Two kernels. *Owned*: a thread owns a column while it works on a block of it, by holding the column's lock;
//! its edge loop has plain adds. *Atomic*: any thread adds to any destination by compare-and-swap, as GridGraph
//! does, kept for comparison. Since all terms are multiples of one quantum (see [`super::exact`]), both give
//! the same bits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::engine::pass::{IfOwned, Taken};
use crate::grid::manifest::Column;
use crate::grid::{BlockView, Chunk, ChunkError, Edges, Near, RawEdges};
use crate::job::spec::KernelSpec;
use crate::storage::huge;

/// Sums that a vertex pass is given at a time: enough for its loops, few enough to stay in the nearest cache.
pub(crate) const DRAINED: usize = 256;

/// One f64 per vertex, zero between passes.
#[derive(Debug)]
pub(crate) enum Sums {
    Owned(Vec<f64>),
    Atomic(Vec<AtomicU64>),
}

impl Sums {
    pub(crate) fn new(kernel: KernelSpec, vertices: usize) -> Self {
        match kernel {
            KernelSpec::Owned => Self::Owned(huge::filled(vertices, 0.0)),
            KernelSpec::Atomic => {
                Self::Atomic(huge::collected(vertices, (0..vertices).map(|_| AtomicU64::new(0))))
            }
        }
    }

    /// Lends each column its part.
    pub(crate) fn by_column(&mut self, columns: &[Column]) -> Vec<ColumnSums<'_>> {
        match self {
            Self::Owned(sums) => {
                split(sums, columns).into_iter().map(|part| ColumnSums::Owned(Mutex::new(part))).collect()
            }
            Self::Atomic(sums) => columns
                .iter()
                .map(|column| &sums[column.first_vertex as usize..column.end_vertex as usize])
                .map(ColumnSums::Atomic)
                .collect(),
        }
    }
}

/// Cuts per-vertex data at the borders of the columns, which follow each other without gaps.
pub(crate) fn split<'a, T>(mut data: &'a mut [T], columns: &[Column]) -> Vec<&'a mut [T]> {
    let mut parts = Vec::with_capacity(columns.len());
    for column in columns {
        let (part, rest) = data.split_at_mut((column.end_vertex - column.first_vertex) as usize);
        parts.push(part);
        data = rest;
    }
    parts
}

/// The sums of one column during a pass.
#[derive(Debug)]
pub(crate) enum ColumnSums<'a> {
    Owned(Mutex<&'a mut [f64]>),
    Atomic(&'a [AtomicU64]),
}

impl ColumnSums<'_> {
    /// Adds `term(values[source], weight)` to the sum of each edge's destination.
    pub(crate) fn add<V: Copy>(
        &self,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
        values: &[V],
        term: impl Fn(V, f64) -> f64 + Copy,
    ) -> Result<Taken, ChunkError> {
        let (mut edges, mut near) = (0, Near::default());
        match self {
            Self::Owned(sums) => {
                let Some(mut sums) = own(sums, if_owned) else { return Ok(Taken::Busy) };
                // Out of the lock's reach, so that the loop need not look up where the sums are after each addition.
                let sums: &mut [f64] = &mut sums;
                for chunk in block {
                    edges += add_chunk(&chunk?, values, &mut near, term, |target, term| sums[target] += term);
                }
            }
            Self::Atomic(sums) => {
                for chunk in block {
                    edges += add_chunk(&chunk?, values, &mut near, term, |target, term| {
                        add_atomically(&sums[target], term);
                    });
                }
            }
        }
        Ok(Taken::Done(edges))
    }

    /// Hands out the finished sums in vertex order, up to [`DRAINED`] at a time with the index of the first, and leaves
    /// zeros.
    pub(crate) fn drain(&self, mut each: impl FnMut(usize, &mut [f64])) {
        match self {
            Self::Owned(sums) => {
                let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
                for (number, sums) in sums.chunks_mut(DRAINED).enumerate() {
                    each(number * DRAINED, sums);
                    sums.fill(0.0);
                }
            }
            Self::Atomic(sums) => {
                let mut taken = [0.0; DRAINED];
                for (number, sums) in sums.chunks(DRAINED).enumerate() {
                    let taken = &mut taken[..sums.len()];
                    for (taken, sum) in taken.iter_mut().zip(sums) {
                        *taken = f64::from_bits(sum.swap(0, Ordering::Relaxed));
                    }
                    each(number * DRAINED, taken);
                }
            }
        }
    }
}

fn own<T>(column: &Mutex<T>, if_owned: IfOwned) -> Option<MutexGuard<'_, T>> {
    match if_owned {
        IfOwned::Wait => Some(column.lock().unwrap_or_else(PoisonError::into_inner)),
        IfOwned::Return => match column.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        },
    }
}

/// The edge loop; a compact chunk gives one sum per piece instead of one term per edge. The block's checks have seen
/// that every source is a vertex and every destination one of the column's, so the indexing never fails. Returns the
/// number of edges.
#[inline]
fn add_chunk<V: Copy>(
    chunk: &Chunk<'_>,
    values: &[V],
    near: &mut Near,
    term: impl Fn(V, f64) -> f64 + Copy,
    mut add: impl FnMut(usize, f64),
) -> u64 {
    let base = chunk.source_base as usize;
    let term_of = |source: u32, weight: f64| term(values[base + source as usize], weight);
    match chunk.edges {
        Edges::Raw(RawEdges::Unit(edges)) => {
            for edge in edges {
                add(edge.destination as usize, term_of(edge.source, 1.0));
            }
        }
        Edges::Raw(RawEdges::F32(edges)) => {
            for edge in edges {
                add(edge.destination as usize, term_of(edge.source, f64::from(edge.weight)));
            }
        }
        Edges::Raw(RawEdges::F64(edges)) => {
            for edge in edges {
                add(edge.destination as usize, term_of(edge.source, edge.weight));
            }
        }
        Edges::Compact(cells) => cells.add_up(values, near, term, &mut add),
    }
    u64::from(chunk.header.edges)
}

fn add_atomically(sum: &AtomicU64, term: f64) {
    let mut old = sum.load(Ordering::Relaxed);
    loop {
        let new = (f64::from_bits(old) + term).to_bits();
        match sum.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => old = now,
        }
    }
}
