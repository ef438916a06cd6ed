//! What is folded into each destination, and the edge loop. Two kernels: *owned* columns, where a thread holds the
//! column while it works on a block of it and updates plainly, and *atomic* ones, where any thread updates any vertex by
//! compare-and-swap, as GridGraph does.
//!
//! A column that is much of all work (arcs into one vertex cannot be cut) has *spares* besides: values of the same
//! destinations, which a thread owns while another owns the column, and which are combined when it is drained. A fold does
//! not depend on order or grouping, so the result is the same.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::Setup;
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
    Owned {
        all: Vec<T>,
        /// Of each column its spares, one after the other; empty where none has any.
        spares: Vec<Vec<T>>,
    },
    Atomic(Vec<T::Atomic>),
}

impl<T: Kept> Targets<T> {
    /// Every value at `rest`, which a fold may start from.
    pub(crate) fn new(kernel: KernelSpec, vertices: usize, rest: T) -> Self {
        let values = match kernel {
            KernelSpec::Owned => Values::Owned { all: huge::filled(vertices, rest), spares: Vec::new() },
            KernelSpec::Atomic => {
                Values::Atomic(huge::collected(vertices, (0..vertices).map(|_| rest.shared())))
            }
        };
        Self { rest, values }
    }

    /// The same for all vertices of a grid, with the spares of its heavy columns.
    pub(crate) fn of_grid(setup: Setup<'_>, rest: T) -> Self {
        let manifest = &setup.grid.manifest;
        let mut targets = Self::new(setup.kernel, manifest.vertices as usize, rest);
        if let Values::Owned { spares, .. } = &mut targets.values {
            let of = |column: &Column| {
                let count = if manifest.is_heavy(column, setup.threads) { setup.spares as usize } else { 0 };
                huge::filled(count * column.width() as usize, rest)
            };
            *spares = manifest.columns.iter().map(of).collect();
        }
        targets
    }

    /// Lends each column its part.
    pub(crate) fn by_column(&mut self, columns: &[Column]) -> Vec<ColumnTargets<'_, T>> {
        let rest = self.rest;
        match &mut self.values {
            Values::Owned { all, spares } => {
                let spares =
                    spares.iter_mut().map(Vec::as_mut_slice).chain(std::iter::repeat_with(Default::default));
                let lent = split(all, columns).into_iter().zip(spares);
                lent.map(|(part, spares)| {
                    let spares = spares.chunks_exact_mut(part.len().max(1));
                    let places = [part].into_iter().chain(spares);
                    let places = places.map(|values| Mutex::new(Owned { values, used: false })).collect();
                    ColumnTargets { rest, part: Part::Owned(places) }
                })
                .collect()
            }
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
    /// Its own values, then its spares.
    Owned(Vec<Mutex<Owned<'a, T>>>),
    Atomic(&'a [T::Atomic]),
}

/// Values that one thread at a time folds into.
#[derive(Debug)]
struct Owned<'a, T> {
    values: &'a mut [T],
    /// Whether any is not at rest.
    used: bool,
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
            Part::Owned(places) => {
                let Some(mut place) = own(places, if_owned) else { return Ok(Taken::Busy) };
                place.used = true;
                // Out of the lock's reach, so that the loop need not look up where they are after each update.
                let targets: &mut [T] = place.values;
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

    /// Hands out the finished values of a fold in vertex order, up to [`DRAINED`] at a time with the index of the first,
    /// and leaves them at rest.
    pub(crate) fn drain<F: Fold<Term = T>>(&self, fold: F, mut each: impl FnMut(usize, &mut [T])) {
        match &self.part {
            Part::Owned(places) => {
                let mut places: Vec<_> = places.iter().map(lock).collect();
                let Some((own, spares)) = places.split_first_mut() else { return };
                for spare in spares.iter_mut().filter(|spare| spare.used) {
                    for (value, spare) in own.values.iter_mut().zip(&*spare.values) {
                        *value = fold.combine(*value, *spare);
                    }
                    spare.values.fill(self.rest);
                    spare.used = false;
                }
                for (number, targets) in own.values.chunks_mut(DRAINED).enumerate() {
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

/// The first place that nobody owns; the column's own, when it is free, where there is none and the caller waits.
fn own<T>(places: &[Mutex<T>], if_owned: IfOwned) -> Option<MutexGuard<'_, T>> {
    let free = places.iter().find_map(|place| match place.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    });
    match if_owned {
        IfOwned::Wait => free.or_else(|| places.first().map(lock)),
        IfOwned::Return => free,
    }
}

fn lock<T>(place: &Mutex<T>) -> MutexGuard<'_, T> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests;
