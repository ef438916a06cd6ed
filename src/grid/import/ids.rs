//! From original ids to dense indexes: the rank of an id among all ids that occur.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dataset::Edge;
use crate::grid::error::GridError;
use crate::grid::files;
use crate::grid::parallel::lock;

/// The map of one graph.
#[derive(Debug)]
pub(super) enum IdMap {
    /// Ids are dense already: `0..vertices`.
    Identity {
        /// Number of vertices.
        vertices: u64,
    },
    /// A bit for every id up to the largest.
    Bitmap(Bitmap),
    /// The ids themselves, where they are too sparse for bits.
    Sorted(Sorted),
}

impl IdMap {
    /// Number of vertices.
    pub(super) fn vertices(&self) -> u64 {
        match self {
            Self::Identity { vertices } => *vertices,
            Self::Bitmap(bitmap) => bitmap.vertices,
            Self::Sorted(sorted) => sorted.ids.len() as u64,
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Identity { .. } => 0,
            Self::Bitmap(bitmap) => bitmap.words.len() as u64 * BITMAP_WORD_BYTES,
            Self::Sorted(sorted) => (sorted.ids.len() * 8 + sorted.starts.len() * 4) as u64,
        }
    }

    /// Replaces `dense` by the dense indexes of the edges' ends, or returns the first edge with an id that is none
    /// of the graph's. There are at most 2^32 vertices by now.
    pub(super) fn map<'e>(&self, edges: &'e [Edge], dense: &mut Vec<(u32, u32)>) -> Result<(), &'e Edge> {
        match self {
            Self::Identity { vertices } => {
                // Without a branch per edge: what is wrong is looked for only where something is.
                let largest = edges.iter().fold(0, |largest, edge| edge.source.max(edge.target).max(largest));
                if !edges.is_empty() && largest >= *vertices {
                    return map_each(edges, dense, |id| (id < *vertices).then_some(id as u32));
                }
                dense.clear();
                dense.extend(edges.iter().map(|edge| (edge.source as u32, edge.target as u32)));
                Ok(())
            }
            Self::Bitmap(bitmap) => map_each(edges, dense, |id| bitmap.dense(id)),
            Self::Sorted(sorted) => sorted.map(edges, dense),
        }
    }

    /// Writes all ids, ascending, and returns the file's checksum; `None`, and no file, where ids are dense.
    pub(super) fn write(&self, path: &Path) -> Result<Option<u64>, GridError> {
        match self {
            Self::Identity { .. } => Ok(None),
            Self::Bitmap(bitmap) => files::write_numbers(path, bitmap.ids().map(u64::to_le_bytes)).map(Some),
            Self::Sorted(sorted) => {
                files::write_numbers(path, sorted.ids.iter().map(|id| id.to_le_bytes())).map(Some)
            }
        }
    }

    /// Itself, or the identity where the ids are `0..vertices` as they are.
    fn simplified(self, largest: u64) -> Self {
        let vertices = self.vertices();
        if vertices > 0 && largest == vertices - 1 { Self::Identity { vertices } } else { self }
    }
}

#[inline]
fn map_each<'e>(
    edges: &'e [Edge],
    dense: &mut Vec<(u32, u32)>,
    index: impl Fn(u64) -> Option<u32>,
) -> Result<(), &'e Edge> {
    dense.clear();
    for edge in edges {
        dense.push(index(edge.source).zip(index(edge.target)).ok_or(edge)?);
    }
    Ok(())
}

/// Bytes that a [`Bitmap`] takes for 64 ids: the word, and the rank of its first bit.
const BITMAP_WORD_BYTES: u64 = 8 + 4;

/// Bits with their ranks.
#[derive(Debug)]
pub(super) struct Bitmap {
    words: Vec<u64>,
    /// Set bits before each word: below 2^32 wherever a bit is set behind them, since there are at most 2^32.
    ranks: Vec<u32>,
    vertices: u64,
}

impl Bitmap {
    /// Bytes for ids up to the largest.
    pub(super) fn bytes_for(largest: u64) -> u64 {
        (largest / 64 + 1).saturating_mul(BITMAP_WORD_BYTES)
    }

    fn dense(&self, id: u64) -> Option<u32> {
        let at = usize::try_from(id / 64).ok()?;
        let (word, bit) = (*self.words.get(at)?, 1_u64 << (id % 64));
        (word & bit != 0).then(|| self.ranks[at].wrapping_add((word & (bit - 1)).count_ones()))
    }

    fn ids(&self) -> impl Iterator<Item = u64> {
        let bits = |mut word: u64| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(u64::from(bit))
            })
        };
        self.words.iter().zip(0_u64..).flat_map(move |(&word, at)| bits(word).map(move |bit| at * 64 + bit))
    }
}

/// A bitmap that threads set bits in.
#[derive(Debug)]
pub(super) struct Marks(Vec<AtomicU64>);

impl Marks {
    /// No ids yet of `0..=largest`.
    pub(super) fn new(largest: u64) -> Self {
        Self((0..=largest / 64).map(|_| AtomicU64::new(0)).collect())
    }

    /// Marks an id that is at most the largest.
    #[inline]
    pub(super) fn mark(&self, id: u64) {
        let (word, bit) = (&self.0[(id / 64) as usize], 1_u64 << (id % 64));
        // Ids repeat, and a plain load is far cheaper than a locked write that changes nothing.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The map of the marked ids.
    pub(super) fn into_map(self, largest: u64) -> IdMap {
        let words: Vec<u64> = self.0.into_iter().map(AtomicU64::into_inner).collect();
        let mut vertices = 0_u64;
        let rank = |word: &u64| {
            let before = vertices;
            vertices += u64::from(word.count_ones());
            before as u32
        };
        let ranks = words.iter().map(rank).collect();
        IdMap::Bitmap(Bitmap { words, ranks, vertices }).simplified(largest)
    }
}

/// Sorted ids, and where those begin that share their leading bits.
#[derive(Debug)]
pub(super) struct Sorted {
    ids: Vec<u64>,
    /// For each value of the leading bits, the number of ids below: so the first id with it, if there is one.
    starts: Vec<u32>,
    shift: u32,
}

/// Steps from a start before the rest is searched: where ids are spread evenly, hardly any is further.
const STEPS: usize = 4;

impl Sorted {
    /// Bytes for so many ids: the ids, and at most as many starts.
    pub(super) fn bytes_for(ids: u64) -> u64 {
        ids.saturating_mul(8 + 4)
    }

    fn new(ids: Vec<u64>) -> Self {
        let (first, last) = (ids.first().copied().unwrap_or(0), ids.last().copied().unwrap_or(0));
        let slots = (ids.len() / 2).max(2).next_power_of_two();
        let spread = u64::BITS - (last - first).leading_zeros();
        let shift = spread.saturating_sub(slots.ilog2());
        let mut starts = Vec::with_capacity(((last - first) >> shift) as usize + 1);
        for (id, at) in ids.iter().zip(0..) {
            let slot = ((id - first) >> shift) as usize;
            starts.resize(starts.len().max(slot + 1), at);
        }
        Self { ids, starts, shift }
    }

    /// In three rounds without a branch that depends on an id, so that the cache misses of many look-ups overlap.
    fn map<'e>(&self, edges: &'e [Edge], dense: &mut Vec<(u32, u32)>) -> Result<(), &'e Edge> {
        dense.clear();
        dense.extend(edges.iter().map(|edge| (self.start(edge.source), self.start(edge.target))));
        for ((source, target), edge) in dense.iter_mut().zip(edges) {
            (*source, *target) = (self.step(*source, edge.source), self.step(*target, edge.target));
        }
        for ((source, target), edge) in dense.iter_mut().zip(edges) {
            let ends = self.search(*source, edge.source).zip(self.search(*target, edge.target));
            (*source, *target) = ends.ok_or(edge)?;
        }
        Ok(())
    }

    /// An index at or before that of the id, and mostly close to it.
    fn start(&self, id: u64) -> u32 {
        let first = self.ids.first().copied().unwrap_or(0);
        let slot = (id.saturating_sub(first) >> self.shift) as usize;
        self.starts[slot.min(self.starts.len() - 1)]
    }

    /// A few steps nearer to the index of the id.
    fn step(&self, start: u32, id: u64) -> u32 {
        let (mut at, last) = (start as usize, self.ids.len() - 1);
        for _ in 0..STEPS {
            at = (at + usize::from(self.ids[at] < id)).min(last);
        }
        at as u32
    }

    /// The index of the id, at `from` or behind it.
    fn search(&self, from: u32, id: u64) -> Option<u32> {
        let from = from as usize;
        if self.ids[from] == id {
            return Some(from as u32);
        }
        let slot = usize::try_from(id.checked_sub(self.ids[0])? >> self.shift).ok()?;
        let end = self.starts.get(slot + 1).map_or(self.ids.len(), |&end| end as usize);
        let place = self.ids.get(from..end)?.binary_search(&id).ok()?;
        Some((from + place) as u32)
    }
}

/// The distinct ids of a graph, gathered from many threads in memory for each of them once. The ids themselves
/// must fit the budget in any case, to map by them; so merging into them needs no runs on disk.
#[derive(Debug)]
pub(super) struct Distinct {
    ids: Mutex<Vec<u64>>,
    /// Ids at most.
    limit: u64,
}

impl Distinct {
    /// None yet, and at most `limit`.
    pub(super) fn new(limit: u64) -> Self {
        Self { ids: Mutex::default(), limit }
    }

    /// A thread's collector, which merges when it holds so many ids.
    pub(super) fn collector(&self, capacity: usize) -> Collector<'_> {
        Collector { all: self, recent: vec![0; 1 << RECENT], fresh: Vec::with_capacity(capacity.max(2)) }
    }

    /// The map of all ids merged.
    pub(super) fn into_map(self) -> IdMap {
        let mut ids = self.ids.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        ids.shrink_to_fit();
        let largest = ids.last().copied().unwrap_or(0);
        IdMap::Sorted(Sorted::new(ids)).simplified(largest)
    }
}

/// Entries (log2) of a collector's table of recent ids: 128 KiB, in L2.
const RECENT: u32 = 14;

/// The distinct ids are more than the budget holds: how many there are at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany(pub(super) u64);

/// One thread's ids on their way to [`Distinct`].
#[derive(Debug)]
pub(super) struct Collector<'a> {
    all: &'a Distinct,
    /// Ids seen lately, by hash (their complement, so that the zeros at the start are no id but 2^64-1, which is
    /// let through). Most ends of edges are frequent vertices and stop here.
    recent: Vec<u64>,
    fresh: Vec<u64>,
}

impl Collector<'_> {
    /// Adds an id.
    #[inline]
    pub(super) fn add(&mut self, id: u64) -> Result<(), TooMany> {
        let slot = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT)) as usize;
        if self.recent[slot] == !id && id != u64::MAX {
            return Ok(());
        }
        self.recent[slot] = !id;
        self.fresh.push(id);
        if self.fresh.len() == self.fresh.capacity() { self.compact() } else { Ok(()) }
    }

    /// Drops repetitions; merges only where that did not make room.
    fn compact(&mut self) -> Result<(), TooMany> {
        self.fresh.sort_unstable();
        self.fresh.dedup();
        if self.fresh.len() > self.fresh.capacity() / 2 { self.merge() } else { Ok(()) }
    }

    /// Merges what is left.
    pub(super) fn finish(mut self) -> Result<(), TooMany> {
        self.fresh.sort_unstable();
        self.fresh.dedup();
        self.merge()
    }

    fn merge(&mut self) -> Result<(), TooMany> {
        let mut ids = lock(&self.all.ids);
        merge(&mut ids, &mut self.fresh);
        if ids.len() as u64 > self.all.limit { Err(TooMany(ids.len() as u64)) } else { Ok(()) }
    }
}

/// Merges ascending distinct numbers into others, in place from the back, and empties them.
fn merge(sorted: &mut Vec<u64>, fresh: &mut Vec<u64>) {
    let mut at = 0;
    fresh.retain(|&id| {
        while at < sorted.len() && sorted[at] < id {
            at += 1;
        }
        sorted.get(at) != Some(&id)
    });
    let mut read = sorted.len();
    // Exactly, because doubling would reserve what the budget may not hold; large blocks grow without copying.
    sorted.reserve_exact(fresh.len());
    sorted.resize(read + fresh.len(), 0);
    let mut write = sorted.len();
    for id in fresh.drain(..).rev() {
        while read > 0 && sorted[read - 1] > id {
            (read, write) = (read - 1, write - 1);
            sorted[write] = sorted[read];
        }
        write -= 1;
        sorted[write] = id;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn dense(map: &IdMap, id: u64) -> Option<u32> {
        let edge = Edge { source: id, target: id, weight: 1.0 };
        let mut dense = Vec::new();
        map.map(&[edge], &mut dense).ok().map(|()| {
            assert_eq!(dense[0].0, dense[0].1);
            dense[0].0
        })
    }

    fn check(map: &IdMap, ids: &BTreeSet<u64>) {
        assert_eq!(map.vertices(), ids.len() as u64);
        assert_eq!(dense(map, u64::MAX).is_some(), ids.contains(&u64::MAX));
        for (&id, rank) in ids.iter().zip(0_u32..) {
            assert_eq!(dense(map, id), Some(rank), "{id}");
            if let Some(next) = id.checked_add(1).filter(|next| !ids.contains(next)) {
                assert_eq!(dense(map, next), None, "{next}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_id_has_its_rank_and_others_have_none(
            ids in prop::collection::vec(prop_oneof![0..300_u64, any::<u64>(), Just(u64::MAX), 1_u64 << 40..(1 << 40) + 100], 1..400),
            capacity in 2_usize..50,
        ) {
            let distinct = Distinct::new(1000);
            let (mut left, mut right) = (distinct.collector(capacity), distinct.collector(capacity));
            for (&id, turn) in ids.iter().zip(0..) {
                let collector = if turn % 3 == 0 { &mut left } else { &mut right };
                collector.add(id).unwrap();
            }
            left.finish().unwrap();
            right.finish().unwrap();
            check(&distinct.into_map(), &ids.iter().copied().collect());

            let small: BTreeSet<u64> = ids.iter().map(|id| id % 1000).collect();
            let largest = *small.last().unwrap();
            let marks = Marks::new(largest);
            for &id in &small {
                marks.mark(id);
            }
            let map = marks.into_map(largest);
            check(&map, &small);
            if let IdMap::Bitmap(bitmap) = &map {
                prop_assert!(bitmap.ids().eq(small.iter().copied()));
            }
        }
    }

    #[test]
    fn more_ids_than_the_budget_holds_are_an_error() {
        let distinct = Distinct::new(10);
        let mut collector = distinct.collector(4);
        let result = (0..100).try_for_each(|id| collector.add(id * 1_000_000_007));
        assert!(matches!(result, Err(TooMany(found)) if found > 10));
    }
}
