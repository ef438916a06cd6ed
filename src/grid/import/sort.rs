//! Sorting a segment of edges by (source window, destination, source, weight).
//!
//! Within a window sources are few enough that their contributions stay in L2, whatever their order; destinations
//! then come in sequence, so the sums of a column are streamed. Both ends of an edge are one number, in the order of
//! whose bits the windows of the compact code, destinations and sources come; for other windows they become another
//! number while they are sorted. Windows are dealt first, and make stretches for the near cache; in a stretch a
//! least-significant-digit radix sort does the digits, having counted all of them in one pass. The order is total,
//! and a segment's bytes do not depend on which thread spilled which edge first.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::grid::compact::WINDOW;

/// Bits of a digit at most: counters of all digits in L1, and 2^11 open cache lines in L2.
const DIGIT: u32 = 11;
/// Bytes of a stretch that is sorted digit by digit: with its scratch a share of the L2.
const STRETCH: usize = 256 << 10;
/// Records that are not worth a radix sort's counters.
const FEW: usize = 48;
/// Digits that are counted at once, at most.
const DIGITS: usize = 6;

/// An edge as it is sorted: both ends in one number, and a weight.
pub(super) trait Record: Pod + Send + Sync {
    /// Whether there are weights.
    const WEIGHTED: bool;
    fn new(source: u32, destination: u32, weight: f64) -> Self;
    /// The same with other ends.
    fn with_ends(&self, ends: u64) -> Self;
    /// From the highest bit: 16 of the source, the destination, 16 of the source.
    fn ends(&self) -> u64;
    fn weight(&self) -> f64;

    #[inline]
    fn source(&self) -> u32 {
        let ends = self.ends();
        ((ends >> HIGH) << LOW) as u32 | u32::from(ends as u16)
    }

    #[inline]
    fn destination(&self) -> u32 {
        (self.ends() >> LOW) as u32
    }
}

/// Bits below the destination, and those below the upper half of the source.
const LOW: u32 = 16;
const HIGH: u32 = 48;

// So that the order of ends is that of windows, destinations and sources.
const _: () = assert!(WINDOW == 1 << LOW);

#[inline]
fn ends_of(source: u32, destination: u32) -> u64 {
    let (source, destination) = (u64::from(source), u64::from(destination));
    (source >> LOW) << HIGH | destination << LOW | (source & (WINDOW - 1))
}

/// An edge without weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Unweighted(u64);

/// An edge with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Weighted {
    ends: u64,
    weight: f64,
}

impl Record for Unweighted {
    const WEIGHTED: bool = false;
    #[inline]
    fn new(source: u32, destination: u32, _weight: f64) -> Self {
        Self(ends_of(source, destination))
    }
    #[inline]
    fn with_ends(&self, ends: u64) -> Self {
        Self(ends)
    }
    #[inline]
    fn ends(&self) -> u64 {
        self.0
    }
    #[inline]
    fn weight(&self) -> f64 {
        1.0
    }
}

impl Record for Weighted {
    const WEIGHTED: bool = true;
    #[inline]
    fn new(source: u32, destination: u32, weight: f64) -> Self {
        Self { ends: ends_of(source, destination), weight }
    }
    #[inline]
    fn with_ends(&self, ends: u64) -> Self {
        Self { ends, ..*self }
    }
    #[inline]
    fn ends(&self) -> u64 {
        self.ends
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

/// Sorts records, with a scratch of the same length.
pub(super) struct Sorter {
    /// Of each value of each digit: how many records have it, and then where they end.
    counts: Vec<[u32; 1 << DIGIT]>,
}

impl Sorter {
    pub(super) fn new() -> Self {
        Self { counts: vec![[0; 1 << DIGIT]; DIGITS] }
    }

    /// Sorts `records`, with `scratch` of the same length.
    pub(super) fn sort<R: Record>(&mut self, records: &mut [R], scratch: &mut [R], keys: Keys) {
        if keys.window == WINDOW {
            // The order of the ends as they are. Destinations differ in the bits in which the first and the last do.
            let last = u64::from(keys.first) + keys.width.max(1) - 1;
            let low = LOW + bits((u64::from(keys.first) ^ last) + 1);
            let high = HIGH..HIGH + bits(keys.vertices.div_ceil(WINDOW));
            self.sort_by_ends(records, scratch, Place::First, &Differ { low, high });
        } else {
            self.sort_by_window(records, scratch, keys);
        }
    }

    /// Where windows are of another size: the ends become another number meanwhile, in the order of whose bits are
    /// window, destination and source within the window.
    fn sort_by_window<R: Record>(&mut self, records: &mut [R], scratch: &mut [R], keys: Keys) {
        // Where one window holds all, its true width does not matter. So both parts of a source take 33 bits at most;
        // the destinations take 20, since that is what a bucket has at most.
        let window =
            if keys.window < keys.vertices { keys.window } else { keys.vertices.next_power_of_two() };
        let (in_window, in_row) = (bits(window), bits(window) + bits(keys.width));
        let total = in_row + bits(keys.vertices.div_ceil(window));
        debug_assert!(total <= u64::BITS, "{keys:?}");
        let row = |record: &R| u64::from(record.destination() - keys.first) << in_window;
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
        self.sort_by_ends(records, scratch, Place::First, &Differ { low: total, high: 0..0 });
        let mask = |bits: u32| (1_u64 << bits) - 1;
        for record in records {
            let ends = record.ends();
            let source = (ends >> in_row) * window + (ends & mask(in_window));
            let destination = keys.first + (ends >> in_window & mask(in_row - in_window)) as u32;
            *record = R::new(source as u32, destination, record.weight());
        }
    }

    /// Sorts `first` by ends, with the result in `place`.
    fn sort_by_ends<R: Record>(&mut self, first: &mut [R], second: &mut [R], place: Place, differ: &Differ) {
        let stretch = STRETCH / size_of::<R>();
        let bits = differ.low + differ.high.len() as u32;
        if first.len() <= FEW || bits == 0 {
            first.sort_unstable_by_key(|record| (record.ends(), record.weight().to_bits()));
            if place == Place::Second {
                second.copy_from_slice(first);
            }
            return;
        }
        let leading = if differ.high.is_empty() {
            let stretches = (first.len() / stretch).checked_ilog2();
            stretches.map(|log2| differ.leading((log2 + 2).min(DIGIT)))
        } else {
            Some(differ.leading(DIGIT))
        };
        let Some((leading, rest)) = leading else {
            return self.sort_digits(first, second, place, differ.low);
        };
        self.deal::<R, 1>(first, second, &leading);
        // What lies in `second` now goes back and forth from there.
        let ends = self.counts[0];
        let mut start = 0;
        for end in ends[..1 << leading.len()].iter().map(|&end| end as usize) {
            self.sort_by_ends(&mut second[start..end], &mut first[start..end], place.other(), &rest);
            start = end;
        }
    }

    /// Sorts records whose ends differ in the lower `bits` alone, from the least significant digit on.
    fn sort_digits<R: Record>(&mut self, first: &mut [R], second: &mut [R], place: Place, bits: u32) {
        let digit = (first.len().ilog2() + 1).min(DIGIT);
        let passes = bits.div_ceil(digit);
        let bits = 0..bits;
        match passes {
            1 => self.deal::<R, 1>(first, second, &bits),
            2 => self.deal::<R, 2>(first, second, &bits),
            3 => self.deal::<R, 3>(first, second, &bits),
            4 => self.deal::<R, 4>(first, second, &bits),
            5 => self.deal::<R, 5>(first, second, &bits),
            6 => self.deal::<R, 6>(first, second, &bits),
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

    /// Sorts `first` by some bits of its ends, cut into so many digits of at most [`DIGIT`] bits, from one array to the
    /// other and back. The order of records that agree in these bits stays as it is.
    fn deal<R: Record, const N: usize>(&mut self, first: &mut [R], second: &mut [R], bits: &Range<u32>) {
        let at = |digit: usize| bits.len() as u32 * digit as u32 / N as u32;
        let shifts: [u32; N] = std::array::from_fn(|digit| bits.start + at(digit));
        let masks: [usize; N] = std::array::from_fn(|digit| (1 << (at(digit + 1) - at(digit))) - 1);
        // The second mask changes nothing, and shows the compiler that the index is in range.
        let value = |record: &R, digit: usize| {
            (record.ends() >> shifts[digit]) as usize & masks[digit] & ((1 << DIGIT) - 1)
        };
        let Some((counts, _)) = self.counts.split_first_chunk_mut::<N>() else { return };
        for (counts, mask) in counts.iter_mut().zip(masks) {
            counts[..=mask].fill(0);
        }
        for record in &*first {
            for (digit, counts) in counts.iter_mut().enumerate() {
                counts[value(record, digit)] += 1;
            }
        }
        let (mut from, mut to) = (first, second);
        for (digit, counts) in counts.iter_mut().enumerate() {
            let mut start = 0;
            for count in &mut counts[..=masks[digit]] {
                start += std::mem::replace(count, start);
            }
            for record in &*from {
                let place = &mut counts[value(record, digit)];
                to[*place as usize] = *record;
                *place += 1;
            }
            std::mem::swap(&mut from, &mut to);
        }
    }
}

/// In which bits ends may differ: in the lower so many, and in a range above them.
struct Differ {
    low: u32,
    high: Range<u32>,
}

impl Differ {
    /// The leading bits of them, at most so many, and the others.
    fn leading(&self, most: u32) -> (Range<u32>, Self) {
        let Self { low, ref high } = *self;
        if high.is_empty() {
            let rest = low.saturating_sub(most);
            (rest..low, Self { low: rest, high: 0..0 })
        } else {
            let rest = high.end.saturating_sub(most).max(high.start);
            (rest..high.end, Self { low, high: high.start..rest })
        }
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
            let mut records: Vec<Weighted> =
                edges.iter().map(|&(s, d, w)| Weighted::new(s, d, f64::from(w))).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|r| (u64::from(r.source()) / window, r.destination(), r.source(), r.weight.to_bits()));
            let mut scratch = records.clone();
            Sorter::new().sort(&mut records, &mut scratch, keys);
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
                Weighted::new(source, 10 + (mixed >> 20 & 0x7_ffff) as u32, (number % 3) as f64)
            };
            let mut records: Vec<Weighted> = (0..600_000).map(record).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|r| {
                (u64::from(r.source()) / window, r.destination(), r.source(), r.weight.to_bits())
            });
            let mut scratch = records.clone();
            Sorter::new().sort(&mut records, &mut scratch, keys);
            assert!(records == expected, "windows of {window}");
        }
    }
}
