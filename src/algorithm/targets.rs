//! What is folded into each destination, and the edge loop. Two kernels: *owned* columns, where a thread holds the
//! column while it works on a block of it and updates plainly, and *atomic* ones, where any thread updates any vertex by
//! compare-and-swap, as GridGraph does.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::engine::pass::{IfOwned, Taken};
use crate::grid::manifest::Column;
use crate::grid::{BlockView, Chunk, ChunkError, Edges, Fold, Lookup, Near, RawEdges};
use crate::job::spec::KernelSpec;
use crate::storage::huge;

/// Values that a vertex pass is given at a time: enough for its loops, few enough to stay in the nearest cache.
pub(crate) const DRAINED: usize = 256;

/// A term that is kept per destination, by either kernel.
pub(crate) trait Kept: Copy + Debug + Send + Sync {
    /// The same, shared by threads.
    type Atomic: Debug + Send + Sync;

    /// For several threads.
    fn shared(self) -> Self::Atomic;
    /// Puts a value in place of another.
    fn swap(shared: &Self::Atomic, value: Self) -> Self;
    /// Combines a term with what is there.
    fn fold<F: Fold<Term = Self>>(shared: &Self::Atomic, fold: F, term: Self);
}

macro_rules! kept {
    ($type:ty, $atomic:ty, $bits:expr, $value:expr) => {
        impl Kept for $type {
            type Atomic = $atomic;

            fn shared(self) -> $atomic {
                <$atomic>::new($bits(self))
            }

            fn swap(shared: &$atomic, value: Self) -> Self {
                $value(shared.swap($bits(value), Ordering::Relaxed))
            }

            #[inline]
            fn fold<F: Fold<Term = Self>>(shared: &$atomic, fold: F, term: Self) {
                let mut old = shared.load(Ordering::Relaxed);
                loop {
                    let new = $bits(fold.combine($value(old), term));
                    if F::IDEMPOTENT && new == old {
                        return;
                    }
                    match shared.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => return,
                        Err(now) => old = now,
                    }
                }
            }
        }
    };
}

kept!(f64, AtomicU64, f64::to_bits, f64::from_bits);
kept!(u8, AtomicU8, u8::from, u8::from);

/// One value per vertex, at rest between passes.
#[derive(Debug)]
pub(crate) struct Targets<T: Kept> {
    rest: T,
    values: Values<T>,
}

#[derive(Debug)]
enum Values<T: Kept> {
    Owned(Vec<T>),
    Atomic(Vec<T::Atomic>),
}

impl<T: Kept> Targets<T> {
    /// Every value at `rest`, which a fold may start from.
    pub(crate) fn new(kernel: KernelSpec, vertices: usize, rest: T) -> Self {
        let values = match kernel {
            KernelSpec::Owned => Values::Owned(huge::filled(vertices, rest)),
            KernelSpec::Atomic => {
                Values::Atomic(huge::collected(vertices, (0..vertices).map(|_| rest.shared())))
            }
        };
        Self { rest, values }
    }

    /// Lends each column its part.
    pub(crate) fn by_column(&mut self, columns: &[Column]) -> Vec<ColumnTargets<'_, T>> {
        let rest = self.rest;
        match &mut self.values {
            Values::Owned(values) => split(values, columns)
                .into_iter()
                .map(|part| ColumnTargets { rest, part: Part::Owned(Mutex::new(part)) })
                .collect(),
            Values::Atomic(values) => columns
                .iter()
                .map(|column| &values[column.first_vertex as usize..column.end_vertex as usize])
                .map(|part| ColumnTargets { rest, part: Part::Atomic(part) })
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

/// The values of one column during a pass.
#[derive(Debug)]
pub(crate) struct ColumnTargets<'a, T: Kept> {
    rest: T,
    part: Part<'a, T>,
}

#[derive(Debug)]
enum Part<'a, T: Kept> {
    Owned(Mutex<&'a mut [T]>),
    Atomic(&'a [T::Atomic]),
}

impl<T: Kept> ColumnTargets<'_, T> {
    /// Folds the term of each arc, of whose source there is a value, into its destination.
    pub(crate) fn fold<F: Fold<Term = T>>(
        &self,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
        values: Lookup<'_, F::Value>,
        fold: F,
    ) -> Result<Taken, ChunkError> {
        let (mut edges, mut near) = (0, Near::default());
        match &self.part {
            Part::Owned(targets) => {
                let Some(mut targets) = own(targets, if_owned) else { return Ok(Taken::Busy) };
                // Out of the lock's reach, so that the loop need not look up where they are after each update.
                let targets: &mut [T] = &mut targets;
                for chunk in block {
                    edges += fold_chunk(&chunk?, values, &mut near, fold, |target, term| {
                        targets[target] = fold.combine(targets[target], term);
                    });
                }
            }
            Part::Atomic(targets) => {
                for chunk in block {
                    edges += fold_chunk(&chunk?, values, &mut near, fold, |target, term| {
                        T::fold(&targets[target], fold, term);
                    });
                }
            }
        }
        Ok(Taken::Done(edges))
    }

    /// Hands out the finished values in vertex order, up to [`DRAINED`] at a time with the index of the first, and
    /// leaves them at rest.
    pub(crate) fn drain(&self, mut each: impl FnMut(usize, &mut [T])) {
        match &self.part {
            Part::Owned(targets) => {
                let mut targets = targets.lock().unwrap_or_else(PoisonError::into_inner);
                for (number, targets) in targets.chunks_mut(DRAINED).enumerate() {
                    each(number * DRAINED, targets);
                    targets.fill(self.rest);
                }
            }
            Part::Atomic(targets) => {
                let mut taken = [self.rest; DRAINED];
                for (number, targets) in targets.chunks(DRAINED).enumerate() {
                    let taken = &mut taken[..targets.len()];
                    for (taken, target) in taken.iter_mut().zip(targets) {
                        *taken = T::swap(target, self.rest);
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

/// The edge loop; a compact chunk gives one term per piece instead of one per arc. The block's checks have seen that
/// every source is a vertex and every destination one of the column's, so the indexing never fails. Returns the number
/// of edges.
#[inline]
pub(super) fn fold_chunk<F: Fold>(
    chunk: &Chunk<'_>,
    values: Lookup<'_, F::Value>,
    near: &mut Near,
    fold: F,
    mut update: impl FnMut(usize, F::Term),
) -> u64 {
    let base = chunk.source_base as usize;
    if let (Edges::Raw(edges), true) = (chunk.edges, values.is_ring()) {
        values.expect(&edges.sources());
    }
    let term_of = |source: u32, weight: f64| {
        let source = base + source as usize;
        fold.term(source, &values[source], weight)
    };
    match chunk.edges {
        Edges::Raw(RawEdges::Unit(edges)) => {
            for edge in edges {
                update(edge.destination as usize, term_of(edge.source, 1.0));
            }
        }
        Edges::Raw(RawEdges::F32(edges)) => {
            for edge in edges {
                update(edge.destination as usize, term_of(edge.source, f64::from(edge.weight)));
            }
        }
        Edges::Raw(RawEdges::F64(edges)) => {
            for edge in edges {
                update(edge.destination as usize, term_of(edge.source, edge.weight));
            }
        }
        Edges::Compact(cells) => cells.fold(values, near, fold, &mut update),
    }
    u64::from(chunk.header.edges)
}
