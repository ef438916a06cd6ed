//! Sorting a segment of edges by (source window, destination, source, weight).
//!
//! Within a window sources are few enough that their contributions stay in L2, whatever their order; destinations
//! then come in sequence, so the sums of a column are streamed. The three ids become one number while they are sorted,
//! because to take it apart again for every digit costs more than moving it. A least-significant-digit radix sort does
//! the digits, having counted all of them in one pass; only a bucket too large for that in the cache is cut by its
//! leading digit before. The order is total, and a segment's bytes do not depend on which thread spilled which edge first.

use bytemuck::Pod;

use crate::grid::chunk::{RawEdge, RawEdgeF64};

/// Bits of a digit at most: counters of all digits in L1, and 2^11 open cache lines in L2.
const DIGIT: u32 = 11;
/// Bytes of a stretch that is sorted digit by digit: with its scratch a few MiB, which a share of the L3 holds.
const STRETCH: usize = 4 << 20;
/// Records that are not worth a radix sort's counters.
const FEW: usize = 48;

/// An edge as it is sorted: two numbers for its ends, and a weight.
pub(super) trait Record: Pod + Send + Sync {
    /// Whether there are weights.
    const WEIGHTED: bool;
    fn new(source: u32, destination: u32, weight: f64) -> Self;
    fn source(&self) -> u32;
    fn destination(&self) -> u32;
    fn weight(&self) -> f64;

    /// Both ends as one number.
    #[inline]
    fn ends(&self) -> u64 {
        u64::from(self.source()) | u64::from(self.destination()) << u32::BITS
    }

    /// The same with other ends.
    #[inline]
    fn with_ends(&self, ends: u64) -> Self {
        Self::new(ends as u32, (ends >> u32::BITS) as u32, self.weight())
    }
}

impl Record for RawEdge {
    const WEIGHTED: bool = false;
    #[inline]
    fn new(source: u32, destination: u32, _weight: f64) -> Self {
        Self { source, destination }
    }
    #[inline]
    fn source(&self) -> u32 {
        self.source
    }
    #[inline]
    fn destination(&self) -> u32 {
        self.destination
    }
    #[inline]
    fn weight(&self) -> f64 {
        1.0
    }
}

impl Record for RawEdgeF64 {
    const WEIGHTED: bool = true;
    #[inline]
    fn new(source: u32, destination: u32, weight: f64) -> Self {
        Self { source, destination, weight }
    }
    #[inline]
    fn source(&self) -> u32 {
        self.source
    }
    #[inline]
    fn destination(&self) -> u32 {
        self.destination
    }
    #[inline]
    fn weight(&self) -> f64 {
        self.weight
    }
}

/// The ranges that keys lie in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    /// First destination of the segment.
    pub(super) first: u32,
    /// Destinations of the segment.
    pub(super) width: u64,
    /// Sources of the graph.
    pub(super) vertices: u64,
    /// Sources per window.
    pub(super) window: u64,
}

/// Bits that tell the numbers below `range` apart.
fn bits(range: u64) -> u32 {
    u64::BITS - range.saturating_sub(1).leading_zeros()
}

/// Sorts `records`, with `scratch` of the same length.
pub(super) fn sort<R: Record>(records: &mut [R], scratch: &mut [R], keys: Keys) {
    // Where one window holds all, its true width does not matter. So both parts of a source take 33 bits at most; the
    // destinations take 20, since that is what a bucket has at most.
    let window = if keys.window < keys.vertices { keys.window } else { keys.vertices.next_power_of_two() };
    let (in_window, in_row) = (bits(window), bits(window) + bits(keys.width));
    let total = in_row + bits(keys.vertices.div_ceil(window));
    debug_assert!(total <= u64::BITS, "{keys:?}");
    let row = |record: &R| u64::from(record.destination() - keys.first) << in_window;
    // In the order of significance: window, destination, source within the window.
    if window.is_power_of_two() {
        for record in &mut *records {
            let source = u64::from(record.source());
            *record =
                record.with_ends((source >> in_window) << in_row | row(record) | (source & (window - 1)));
        }
    } else {
        for record in &mut *records {
            let source = u64::from(record.source());
            *record = record.with_ends((source / window) << in_row | row(record) | (source % window));
        }
    }
    sort_by_ends(records, scratch, Place::First, total);
    let mask = |bits: u32| (1_u64 << bits) - 1;
    for record in records {
        let ends = record.ends();
        let source = (ends >> in_row) * window + (ends & mask(in_window));
        let destination = keys.first + (ends >> in_window & mask(in_row - in_window)) as u32;
        *record = R::new(source as u32, destination, record.weight());
    }
}

/// Which of two arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Second,
}

impl Place {
    fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }
}

/// Sorts `first`, whose ends differ in the lower `bits` only, with the result in `place`.
fn sort_by_ends<R: Record>(first: &mut [R], second: &mut [R], place: Place, bits: u32) {
    let stretch = STRETCH / size_of::<R>();
    if first.len() <= FEW || bits == 0 {
        first.sort_unstable_by_key(|record| (record.ends(), record.weight().to_bits()));
        if place == Place::Second {
            second.copy_from_slice(first);
        }
        return;
    }
    if first.len() > stretch {
        let digit = ((first.len() / stretch).ilog2() + 2).min(DIGIT).min(bits);
        let ends = deal::<R, 1>(first, second, bits - digit, digit);
        // What lies in `second` now goes back and forth from there.
        let mut start = 0;
        for end in ends[0][..1 << digit].iter().map(|&end| end as usize) {
            sort_by_ends(&mut second[start..end], &mut first[start..end], place.other(), bits - digit);
            start = end;
        }
        return;
    }
    let digit = (first.len().ilog2() - 1).min(DIGIT);
    let passes = bits.div_ceil(digit);
    match passes {
        1 => drop(deal::<R, 1>(first, second, 0, bits)),
        2 => drop(deal::<R, 2>(first, second, 0, bits)),
        3 => drop(deal::<R, 3>(first, second, 0, bits)),
        4 => drop(deal::<R, 4>(first, second, 0, bits)),
        5 => drop(deal::<R, 5>(first, second, 0, bits)),
        6 => drop(deal::<R, 6>(first, second, 0, bits)),
        // Few records of many bits.
        _ => first.sort_unstable_by_key(Record::ends),
    }
    let (sorted, other, at) = match passes {
        1 | 3 | 5 => (second, first, Place::Second),
        _ => (first, second, Place::First),
    };
    if R::WEIGHTED {
        for same in sorted.chunk_by_mut(|a, b| a.ends() == b.ends()).filter(|same| same.len() > 1) {
            same.sort_unstable_by_key(|record| record.weight().to_bits());
        }
    }
    if at != place {
        other.copy_from_slice(sorted);
    }
}

/// Where the records of each value of each digit end.
type Ends<const DIGITS: usize> = [[u32; 1 << DIGIT]; DIGITS];

/// Sorts `first` by the `bits` of its ends above `low`, cut into so many digits of at most [`DIGIT`] bits, from one array
/// to the other and back. The order of records that agree in these bits stays as it is.
fn deal<R: Record, const DIGITS: usize>(
    first: &mut [R],
    second: &mut [R],
    low: u32,
    bits: u32,
) -> Ends<DIGITS> {
    let at = |digit: usize| bits * digit as u32 / DIGITS as u32;
    let shifts: [u32; DIGITS] = std::array::from_fn(|digit| low + at(digit));
    let masks: [usize; DIGITS] = std::array::from_fn(|digit| (1 << (at(digit + 1) - at(digit))) - 1);
    // The second mask changes nothing, and shows the compiler that the index is in range.
    let value = |record: &R, digit: usize| {
        (record.ends() >> shifts[digit]) as usize & masks[digit] & ((1 << DIGIT) - 1)
    };
    let mut ends = [[0_u32; 1 << DIGIT]; DIGITS];
    for record in &*first {
        for (digit, counts) in ends.iter_mut().enumerate() {
            counts[value(record, digit)] += 1;
        }
    }
    let (mut from, mut to) = (first, second);
    for (digit, ends) in ends.iter_mut().enumerate() {
        let mut start = 0;
        for count in &mut ends[..=masks[digit]] {
            start += std::mem::replace(count, start);
        }
        for record in &*from {
            let place = &mut ends[value(record, digit)];
            to[*place as usize] = *record;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    ends
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_order_is_total_whatever_the_order_before(
            edges in prop::collection::vec((0_u32..5000, 100_u32..8000, 0_u8..3), 0..2000),
            window in prop::sample::select(vec![1_u64, 3, 64, 1000, 4096, 1 << 40]),
        ) {
            let keys = Keys { first: 100, width: 7900, vertices: 5000, window };
            let mut records: Vec<RawEdgeF64> =
                edges.iter().map(|&(s, d, w)| RawEdgeF64::new(s, d, f64::from(w))).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|r| (u64::from(r.source) / window, r.destination, r.source, r.weight.to_bits()));
            let mut scratch = records.clone();
            sort(&mut records, &mut scratch, keys);
            prop_assert_eq!(records, expected);
        }
    }

    /// Enough for stretches within stretches.
    #[test]
    fn many_edges_of_few_windows_are_sorted_too() {
        for (window, skew) in [(4096_u64, 0), (1 << 16, 7), (5000, 3)] {
            let keys = Keys { first: 10, width: 1 << 19, vertices: 1 << 18, window };
            let record = |number: u64| {
                let mixed = crate::grid::digest::digest(number / 2, 1, 2);
                let source = (mixed & 0x3_ffff) as u32 >> (mixed >> 60 & skew);
                RawEdgeF64::new(source, 10 + (mixed >> 20 & 0x7_ffff) as u32, (number % 3) as f64)
            };
            let mut records: Vec<RawEdgeF64> = (0..600_000).map(record).collect();
            let mut expected = records.clone();
            expected
                .sort_by_key(|r| (u64::from(r.source) / window, r.destination, r.source, r.weight.to_bits()));
            let mut scratch = records.clone();
            sort(&mut records, &mut scratch, keys);
            assert!(records == expected, "windows of {window}");
        }
    }
}
