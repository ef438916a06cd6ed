//! Sorting a segment of edges by (source window, destination, source, weight).
//!
//! Within a window sources are few enough that their contributions stay in L2, whatever their order; destinations
//! then come in sequence, so the sums of a column are streamed. A least-significant-digit radix sort does the two
//! leading keys in a few passes; what is left is to sort runs of equal window and destination, which are short. So
//! the order is total, and a segment's bytes do not depend on which thread spilled which edge first.

use bytemuck::Pod;

use crate::grid::chunk::{RawEdge, RawEdgeF64};

/// Bits of a digit at most: 2^11 counters and as many open cache lines still fit L1 and the TLB's second level.
const DIGIT: u32 = 11;

/// An edge as it is sorted: dense ids.
pub(super) trait Record: Pod + Send + Sync {
    fn new(source: u32, destination: u32, weight: f64) -> Self;
    fn source(&self) -> u32;
    fn destination(&self) -> u32;
    fn weight(&self) -> f64;
}

impl Record for RawEdge {
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

/// Sorts `records`, with `scratch` of the same length. Returns true where the result is in `scratch`.
pub(super) fn sort<R: Record>(records: &mut [R], scratch: &mut [R], keys: Keys) -> bool {
    let (mut from, mut to) = (records, scratch);
    let mut swapped = false;
    let mut pass = |digit: Digit| {
        match digit.of {
            Key::Destination => scatter(from, to, digit, |record| record.destination() - keys.first),
            Key::Window if keys.window.is_power_of_two() => {
                let shift = keys.window.ilog2();
                scatter(from, to, digit, |record| record.source() >> shift);
            }
            Key::Window => {
                // There is more than one window, so its width is below 2^32.
                let window = keys.window as u32;
                scatter(from, to, digit, |record| record.source() / window);
            }
        }
        std::mem::swap(&mut from, &mut to);
        swapped = !swapped;
    };
    digits(Key::Destination, keys.width).for_each(&mut pass);
    digits(Key::Window, keys.vertices.div_ceil(keys.window)).for_each(&mut pass);
    let same_row = |a: &R, b: &R| {
        a.destination() == b.destination()
            && u64::from(a.source()) / keys.window == u64::from(b.source()) / keys.window
    };
    for row in from.chunk_by_mut(same_row).filter(|row| row.len() > 1) {
        row.sort_unstable_by_key(|record| (record.source(), record.weight().to_bits()));
    }
    swapped
}

#[derive(Debug, Clone, Copy)]
enum Key {
    Destination,
    Window,
}

#[derive(Debug, Clone, Copy)]
struct Digit {
    of: Key,
    shift: u32,
    bits: u32,
}

/// Digits of a key below `range`, the least significant first, of even size.
fn digits(of: Key, range: u64) -> impl Iterator<Item = Digit> {
    let bits = u64::BITS - range.saturating_sub(1).leading_zeros();
    let passes = bits.div_ceil(DIGIT);
    let at = move |pass: u32| bits * pass / passes;
    (0..passes).map(move |pass| Digit { of, shift: at(pass), bits: at(pass + 1) - at(pass) })
}

fn scatter<R: Record>(from: &[R], to: &mut [R], digit: Digit, key: impl Fn(&R) -> u32) {
    let mask = (1_u32 << digit.bits) - 1;
    let value = |record: &R| ((key(record) >> digit.shift) & mask) as usize;
    let mut next = [0_usize; 1 << DIGIT];
    for record in from {
        next[value(record)] += 1;
    }
    let mut start = 0;
    for count in &mut next {
        start += std::mem::replace(count, start);
    }
    for record in from {
        let place = &mut next[value(record)];
        to[*place] = *record;
        *place += 1;
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
            let mut records: Vec<RawEdgeF64> =
                edges.iter().map(|&(s, d, w)| RawEdgeF64::new(s, d, f64::from(w))).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|r| (u64::from(r.source) / window, r.destination, r.source, r.weight.to_bits()));
            let mut scratch = records.clone();
            let in_scratch = sort(&mut records, &mut scratch, keys);
            prop_assert_eq!(if in_scratch { scratch } else { records }, expected);
        }
    }
}
