//! How many columns, how wide, and where they begin.
//!
//! Destinations are first dealt into *buckets* of equal power-of-two width, fine enough that columns of even work
//! are unions of consecutive buckets. Work is edges plus a little per vertex, because the vertex pass at a
//! column's end is work too.

use std::ops::Range;

use crate::job::spec::Auto;

use super::compact::WINDOW;
use super::manifest::Encoding;

/// Version of the rules behind `auto`: part of the layout key, so that new rules build anew.
pub(super) const AUTO_VERSION: u32 = 3;
/// Sources per window of raw edges where `auto`: their contributions fit L2 beside the rest.
const AUTO_RAW_WINDOW: u64 = 1 << 18;
/// Last-level cache assumed where nobody says better.
pub(super) const DEFAULT_LLC: u64 = 32 << 20;

/// Buckets at least, where there are vertices enough.
const BUCKETS: u64 = 1024;
/// Buckets per column: the finer, the more even the columns.
const BUCKETS_PER_COLUMN: u64 = 4;
/// Destinations of a bucket at most, so that per-bucket state stays small on huge graphs.
const BUCKET_WIDTH_LOG2: u32 = 20;
/// Destinations of a column at most, where `auto`.
const AUTO_WIDTH: u64 = 1 << 19;
/// Below so many vertices everything fits some cache, and columns are only for the threads.
const SMALL_GRAPH: u64 = 1 << 16;
/// A vertex's work in edges.
pub(super) const VERTEX_WORK: u64 = 2;

/// Sources per window where `auto`.
pub(super) fn auto_source_window(encoding: Encoding) -> u64 {
    match encoding {
        Encoding::Raw => AUTO_RAW_WINDOW,
        Encoding::Compact => WINDOW,
    }
}

/// Buckets of `1 << shift` destinations over `0..vertices`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buckets {
    pub(super) vertices: u64,
    pub(super) shift: u32,
}

impl Buckets {
    /// The widest buckets of which there are enough for so many columns.
    pub(super) fn new(vertices: u64, columns: u64) -> Self {
        let wanted = BUCKETS.max(columns.saturating_mul(BUCKETS_PER_COLUMN));
        let widest = (vertices / wanted).max(1);
        Self { vertices, shift: widest.ilog2().min(BUCKET_WIDTH_LOG2) }
    }

    pub(super) fn count(&self) -> usize {
        self.vertices.div_ceil(1 << self.shift) as usize
    }

    /// Bucket of a destination.
    #[inline]
    pub(super) fn of(&self, destination: u32) -> usize {
        (destination >> self.shift) as usize
    }

    /// Vertices of consecutive buckets.
    pub(super) fn vertices_of(&self, buckets: &Range<usize>) -> Range<u64> {
        let start = |bucket: usize| ((bucket as u64) << self.shift).min(self.vertices);
        start(buckets.start)..start(buckets.end)
    }
}

/// Number of columns, and destinations of one at most (in `auto`, which may make more columns).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnRule {
    pub(super) count: u64,
    pub(super) width: u64,
}

impl ColumnRule {
    /// As the user says (fewer only where there are fewer vertices), or so that the f64 sums of two columns fill
    /// at most a quarter of the cache (a virtual machine has neighbours that use it too), with two columns for every thread to take turns on.
    pub(super) fn new(columns: Auto<u32>, vertices: u64, threads: usize, llc: u64) -> Self {
        match columns {
            Auto::Value(count) => Self { count: u64::from(count).clamp(1, vertices.max(1)), width: u64::MAX },
            Auto::Auto => {
                let width = (llc / 4 / 2 / size_of::<f64>() as u64).clamp(1 << 10, AUTO_WIDTH);
                let for_threads = 2 * threads as u64;
                let count = if vertices > SMALL_GRAPH {
                    for_threads.max(vertices.div_ceil(width))
                } else {
                    for_threads.min(vertices.div_ceil(SMALL_GRAPH / 4)).max(1)
                };
                Self { count, width }
            }
        }
    }
}

/// Cuts the buckets, whose edges are given, into columns of even work. None is empty of vertices; there are
/// exactly `rule.count` (fewer where there are fewer buckets), and more where some would be too wide.
pub(super) fn cut(buckets: Buckets, edges: &[u64], rule: ColumnRule) -> Vec<Range<usize>> {
    let total = edges.len();
    let work = |bucket: usize| {
        let vertices = buckets.vertices_of(&(bucket..bucket + 1));
        edges[bucket] + VERTEX_WORK * (vertices.end - vertices.start)
    };
    let mut rest: u64 = (0..total).map(work).sum();
    let count = rule.count.min(total as u64) as usize;
    let mut columns = Vec::with_capacity(count);
    let mut start = 0;
    for left in (1..=count).rev() {
        let last_end = total - (left - 1);
        let target = rest / left as u64;
        let (mut end, mut sum) = (start + 1, work(start));
        // The next bucket is taken while that brings the sum nearer to its share of what is left.
        while end < last_end && (left == 1 || sum + work(end) / 2 <= target) {
            sum += work(end);
            end += 1;
        }
        rest -= sum;
        columns.push(start..end);
        start = end;
    }
    let widest = (rule.width >> buckets.shift).max(1) as usize;
    columns.into_iter().flat_map(|column| split(column, widest)).collect()
}

/// Cuts the buckets into columns of even width, for an order that deals even work to them.
pub(super) fn even(buckets: Buckets, rule: ColumnRule) -> Vec<Range<usize>> {
    let total = buckets.count();
    let widest = (rule.width >> buckets.shift).max(1) as usize;
    let count = (rule.count.min(total as u64) as usize).max(total.div_ceil(widest));
    let at = |column: usize| total * column / count;
    (0..count).map(|column| at(column)..at(column + 1)).collect()
}

/// Cuts a range into the fewest ranges of at most `widest`, as even as can be.
fn split(range: Range<usize>, widest: usize) -> impl Iterator<Item = Range<usize>> {
    let pieces = range.len().div_ceil(widest);
    let at = move |piece: usize| range.start + range.len() * piece / pieces;
    (0..pieces).map(move |piece| at(piece)..at(piece + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(vertices: u64, rule: ColumnRule, edges_of: impl Fn(usize) -> u64) -> Vec<Range<u64>> {
        let buckets = Buckets::new(vertices, rule.count);
        let edges: Vec<u64> = (0..buckets.count()).map(edges_of).collect();
        let columns = cut(buckets, &edges, rule);
        columns.iter().map(|column| buckets.vertices_of(column)).collect()
    }

    #[test]
    fn columns_are_contiguous_not_empty_and_as_many_as_asked_for() {
        for vertices in [0, 1, 2, 7, 255, 256, 257, 1000, 100_000] {
            for count in [1, 2, 3, 8, 255, 1000] {
                for heavy in [0, 5] {
                    let rule = ColumnRule::new(Auto::Value(count), vertices, 2, DEFAULT_LLC);
                    let cut = columns(vertices, rule, |bucket| if bucket == heavy { 1_000_000 } else { 3 });
                    assert_eq!(cut.len() as u64, u64::from(count).min(vertices), "{vertices} {count}");
                    let mut next = 0;
                    for column in cut {
                        assert!(column.start == next && column.end > next);
                        next = column.end;
                    }
                    assert_eq!(next, vertices);
                }
            }
        }
    }

    #[test]
    fn columns_are_of_even_work() {
        let rule = ColumnRule { count: 8, width: u64::MAX };
        let cut = columns(1 << 20, rule, |bucket| 10_000 * (1 + bucket as u64 % 7));
        let widths: Vec<u64> = cut.iter().map(|column| column.end - column.start).collect();
        let (least, most) = (widths.iter().min().unwrap(), widths.iter().max().unwrap());
        assert!(most - least <= most / 8, "{widths:?}");
    }

    #[test]
    fn columns_of_even_width_are_as_many_as_asked_for() {
        for vertices in [0, 1, 7, 256, 1000, 100_000] {
            for count in [1, 2, 3, 239, 1000] {
                let rule = ColumnRule::new(Auto::Value(count), vertices, 2, DEFAULT_LLC);
                let buckets = Buckets::new(vertices, rule.count);
                let columns = even(buckets, rule);
                assert_eq!(columns.len() as u64, u64::from(count).min(vertices));
                assert!(columns.iter().all(|column| !column.is_empty()));
                assert_eq!(columns.last().map_or(0, |column| column.end), buckets.count());
            }
        }
    }

    #[test]
    fn automatic_columns_fit_the_cache_and_feed_the_threads() {
        let rule = ColumnRule::new(Auto::Auto, 1 << 24, 2, DEFAULT_LLC);
        assert_eq!(rule, ColumnRule { count: 32, width: 1 << 19 });
        // All edges go to a few vertices: the rest would be one column of 15 M destinations.
        let cut = columns(1 << 24, rule, |bucket| if bucket < 16 { 1 << 30 } else { 0 });
        assert!(cut.iter().all(|column| column.end - column.start <= 1 << 19));
        assert_eq!(ColumnRule::new(Auto::Auto, 1 << 17, 2, DEFAULT_LLC).count, 4);
        assert_eq!(ColumnRule::new(Auto::Auto, 100, 16, DEFAULT_LLC).count, 1);
        assert_eq!(ColumnRule::new(Auto::Auto, 0, 2, DEFAULT_LLC).count, 1);
    }
}
