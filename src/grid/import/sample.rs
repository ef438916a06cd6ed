//! Order `auto`: which order takes fewer bytes, as measured on a sample. The sample is some of the destinations, chosen
//! by a hash, with all edges into them: rows are whole, so that what makes an order good (runs and small gaps in web
//! graphs, dense windows in skewed ones) is there as in the graph. Its destinations are numbered without gaps, which
//! keeps the steps between rows as small as they are there. It is then encoded in both orders, as in earnest.

use crate::dataset::EdgeSource;
use crate::grid::chunk::{PAYLOAD, RawEdge};
use crate::grid::manifest::WeightKind;
use crate::progress::Unit;

use super::cell::{CellWriter, Cutter};
use super::sort::{Record, Unweighted};
use super::survey::{Edges, Survey};

/// Edges that a sample should have, where memory allows.
const EDGES: u64 = 1 << 20;
/// So many times as many it may have, on graphs whose edges go to few destinations.
const EXCESS: u64 = 4;
/// Bytes that an edge of the sample takes at most: as a pair and as a key, and its destination.
const EDGE_BYTES: u64 = 8 + 8 + 4;
/// Edges of a graph that cannot tell how many it has.
const UNKNOWN: u64 = 1 << 28;
/// Bits of a source within its window, and of a destination.
const WINDOW_BITS: u32 = 16;
const DESTINATION_BITS: u32 = 32;

/// Sources and destinations by dense index.
pub(super) type Pairs = Vec<(u32, u32)>;

/// Which destinations are in the sample: those whose hash ends in zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampler {
    mask: u64,
    /// Edges that are taken at most.
    most: u64,
}

impl Sampler {
    /// A sampler that takes half of `room` bytes at most. It depends on what the source says of itself and not on how its
    /// edges come, so that the choice is the same every time; but where edges go to so few destinations that their
    /// sample is full, on which come first.
    pub(super) fn new(survey: &Survey<'_>, room: u64) -> Self {
        let edges = match &survey.edges {
            Edges::Spilled(spill, _) => spill.records(0),
            Edges::Source(source) => edges_of(*source),
        };
        let most = (room / 2 / EDGE_BYTES).min(EXCESS * EDGES);
        let aim = (most / EXCESS).max(1);
        Self { mask: edges.div_ceil(aim).next_power_of_two() - 1, most }
    }

    /// Bytes that the sample takes at most, from its first edge until it is encoded.
    pub(super) fn bytes(self) -> u64 {
        self.most * EDGE_BYTES
    }

    /// An empty sample for one of so many threads. Memory is taken as it fills.
    pub(super) fn sample(self, threads: usize) -> Pairs {
        Pairs::with_capacity((self.most / threads as u64) as usize)
    }

    /// Adds those of some edges that are in the sample.
    #[inline]
    pub(super) fn take(self, edges: &[(u32, u32)], sample: &mut Pairs) {
        for &(source, destination) in edges {
            if self.wants(destination) && sample.len() < sample.capacity() {
                sample.push((source, destination));
            }
        }
    }

    #[inline]
    fn wants(self, destination: u32) -> bool {
        // Fibonacci hashing: the upper half depends on all of the destination's bits.
        u64::from(destination).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & self.mask == 0
    }
}

fn edges_of(source: &dyn EdgeSource) -> u64 {
    match source.size() {
        (Some(edges), Unit::Edges) => edges,
        (Some(bytes), _) => bytes / size_of::<RawEdge>() as u64,
        (None, _) => UNKNOWN,
    }
}

/// Bytes that the compact code makes of a sample whose vertices have these positions.
pub(super) fn encoded_bytes(sample: &[Pairs], position: impl Fn(u32) -> u32) -> u64 {
    let edges = sample.iter().map(Vec::len).sum();
    let mut destinations = Vec::with_capacity(edges);
    destinations.extend(sample.iter().flatten().map(|&(_, destination)| position(destination)));
    destinations.sort_unstable();
    destinations.dedup();
    // By window, destination and source: as cells have them.
    let key = |&(source, destination): &(u32, u32)| {
        let source = position(source);
        let destination = destinations.partition_point(|&other| other < position(destination)) as u64;
        let (window, within) = (u64::from(source >> WINDOW_BITS), u64::from(source as u16));
        window << (DESTINATION_BITS + WINDOW_BITS) | destination << WINDOW_BITS | within
    };
    let mut keys = Vec::with_capacity(edges);
    keys.extend(sample.iter().flatten().map(key));
    keys.sort_unstable();
    let (mut cell, mut cutter) = (CellWriter::new(WeightKind::Unit), Cutter::new());
    let (mut memory, mut bytes, mut row) = (vec![0; PAYLOAD], 0, Vec::new());
    let window = |key: u64| (key >> (DESTINATION_BITS + WINDOW_BITS)) as u32;
    for keys in keys.chunk_by(|&one, &other| window(one) == window(other)) {
        let base = window(keys[0]) << WINDOW_BITS;
        for keys in keys.chunk_by(|one, other| one >> WINDOW_BITS == other >> WINDOW_BITS) {
            let destination = (keys[0] >> WINDOW_BITS) as u32;
            row.clear();
            row.extend(
                keys.iter().map(|&key| Unweighted::new(base | u32::from(key as u16), destination, 1.0)),
            );
            let cut: Result<(), std::convert::Infallible> = cutter.cut(&row, |section, piece| {
                if !cell.push(section, base, destination, piece, PAYLOAD) {
                    bytes += cell.finish(&mut memory);
                    cell.push(section, base, destination, piece, PAYLOAD);
                }
                Ok(())
            });
            let Ok(()) = cut;
        }
        bytes += cell.finish(&mut memory);
    }
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every vertex has arcs from the 10 before it: a web graph at its best.
    fn local(vertices: u32) -> Pairs {
        (10..vertices).flat_map(|target| (1..=10).map(move |gap| (target - gap, target))).collect()
    }

    fn scrambled(vertex: u32) -> u32 {
        vertex.wrapping_mul(0x9e37_79b1) % 40_009
    }

    #[test]
    fn an_order_that_keeps_neighbours_together_takes_fewer_bytes() {
        let sample = [local(40_009)];
        let (kept, lost) = (encoded_bytes(&sample, |v| v), encoded_bytes(&sample, scrambled));
        assert!(kept * 3 < lost, "{kept} against {lost}");
    }

    #[test]
    fn a_sample_of_destinations_costs_as_much_per_edge_as_all_of_them() {
        let edges = local(1 << 20);
        let sampler = Sampler { mask: 15, most: 1 << 20 };
        let mut sample = sampler.sample(1);
        sampler.take(&edges, &mut sample);
        let share = edges.len() as f64 / sample.len() as f64;
        assert!((12.0..20.0).contains(&share), "{share}");
        for position in [|v| v, |v: u32| v.reverse_bits() >> 12] {
            let per_edge = |edges: &Pairs| {
                encoded_bytes(std::slice::from_ref(edges), position) as f64 / edges.len() as f64
            };
            let (all, some) = (per_edge(&edges), per_edge(&sample));
            assert!((some / all - 1.0).abs() < 0.1, "{some} against {all}");
        }
    }

    #[test]
    fn few_destinations_do_not_fill_the_memory() {
        let sampler = Sampler { mask: 0, most: 1000 };
        let mut sample = sampler.sample(2);
        sampler.take(&vec![(1, 2); 5000], &mut sample);
        assert_eq!(sample.len(), 500);
    }
}
