//! The Kronecker generator of Graph500 (<https://graph500.org/?page_id=12>, section 3.2; R-MAT of Chakrabarti, Zhan
//! and Faloutsos, SDM 2004): each of the `scale` bits of an edge's ends falls into one of the four quadrants of the
//! adjacency matrix with probabilities A, B, C, D, and then the labels are permuted, so that a vertex's number says
//! nothing about its degree.
//!
//! Edge `i` is a pure function of the seed and `i`: its random words are words `8 i .. 8 i + 8` of one
//! `SplitMix64` stream (Steele, Lea and Flood, OOPSLA 2014), whose n-th word is computed without the ones before. So
//! nothing is kept in memory, and any number of threads gives the same edges. The labels are permuted by an
//! arithmetic bijection for the same reasons; the order of the edges needs no permutation, since they are
//! independent of one another.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::quadrants::{LEVELS, Quadrants};
use super::workers::{Batch, Fault, read_pieces};
use super::{Context, DatasetError, Edge, EdgeSource, Sink, Summary, VertexSet};
use crate::job::spec::KroneckerSpec;
use crate::progress::Unit;

/// Version of the edges: raised whenever some seed gives other edges than before. Part of the fingerprint.
pub const GENERATOR_VERSION: u32 = 1;

/// Largest scale: an edge has words for this many levels, and nobody's disk holds more.
pub const MAX_SCALE: u32 = 40;

/// Edges of a piece.
const PIECE: u64 = 1 << 16;

/// Random words of an edge: eight levels each, and the last for the weight. Fixed, so that weights change no edge.
const WORDS: u64 = 8;
const LEVELS_PER_WORD: u32 = 2 * LEVELS;
const _: () = assert!(MAX_SCALE.div_ceil(LEVELS_PER_WORD) < WORDS as u32);

/// Increment of `SplitMix64`: 2^64 / golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generated graph.
#[derive(Debug)]
pub(super) struct KroneckerSource {
    spec: KroneckerSpec,
    vertices: VertexSet,
    edges: u64,
    generator: Generator,
}

impl KroneckerSource {
    /// The graph of `spec`, for the data set `name`; `vertices` may add isolated vertices.
    pub(super) fn new(name: &str, spec: KroneckerSpec, vertices: Option<u64>) -> Result<Self, DatasetError> {
        let fail = |fault| Err(DatasetError::Generator { name: name.to_owned(), fault });
        let KroneckerSpec { scale, edge_factor, .. } = spec;
        if !(1..=MAX_SCALE).contains(&scale) {
            return fail(format!("scale = {scale} is not in 1..={MAX_SCALE}"));
        }
        let Some(edges) = edge_factor.checked_mul(1 << scale).filter(|edges| *edges < u64::MAX / WORDS)
        else {
            return fail(format!("edge_factor = {edge_factor} at scale {scale} makes more than 2^61 edges"));
        };
        let vertices = match vertices {
            None => VertexSet::Declared(1 << scale),
            Some(given) if given >= 1 << scale => VertexSet::Given(given),
            Some(given) => {
                let made = 1_u64 << scale;
                return fail(format!(
                    "vertices = {given}, but scale {scale} makes {made}; leave `vertices` away"
                ));
            }
        };
        Ok(Self { spec, vertices, edges, generator: Generator::new(&spec) })
    }

    fn generate(&self, range: Range<u64>, batch: &mut Batch<'_>) -> Result<(), DatasetError> {
        for index in range {
            batch.push(self.generator.edge(index))?;
        }
        Ok(())
    }
}

impl EdgeSource for KroneckerSource {
    fn describe(&self) -> String {
        let KroneckerSpec { scale, edge_factor, seed, .. } = self.spec;
        format!("kronecker(scale {scale}, edge factor {edge_factor}, seed {seed})")
    }

    fn vertices(&self) -> VertexSet {
        self.vertices
    }

    fn size(&self) -> (Option<u64>, Unit) {
        (Some(self.edges), Unit::Edges)
    }

    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError> {
        let next = AtomicU64::new(0);
        let edges = read_pieces(
            context,
            sink,
            || (),
            |(), batch| {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                let start = piece.saturating_mul(PIECE).min(self.edges);
                let end = (start + PIECE).min(self.edges);
                if start == end {
                    return Ok(false);
                }
                let result = self.generate(start..end, batch);
                context.progress.advance(end - start);
                result.map(|()| true).map_err(|error| Fault { piece, error })
            },
        )?;
        Ok(Summary { edges, weighted: self.spec.weights })
    }
}

/// Edges by their number.
#[derive(Debug, Clone)]
struct Generator {
    /// Words that make the ends of an edge.
    words: u64,
    weights: bool,
    /// State of the stream before its first word.
    origin: u64,
    quadrants: Quadrants,
    labels: Permutation,
}

impl Generator {
    fn new(spec: &KroneckerSpec) -> Self {
        // Mixed, so that the streams of neighbouring seeds are not neighbours.
        let origin = mix(spec.seed ^ GAMMA);
        let labels = Permutation::new(spec.scale, mix(origin));
        let words = u64::from(spec.scale.div_ceil(LEVELS_PER_WORD));
        Self { words, weights: spec.weights, origin, quadrants: Quadrants::new(), labels }
    }

    #[inline]
    fn edge(&self, index: u64) -> Edge {
        let base = self.origin.wrapping_add((index * WORDS).wrapping_mul(GAMMA));
        let word = |n: u64| mix(base.wrapping_add((n + 1).wrapping_mul(GAMMA)));
        let (mut source, mut target) = (0, 0);
        for n in 0..self.words {
            let word = word(n);
            for draw in [word as u32, (word >> 32) as u32] {
                let (source_bits, target_bits) = self.quadrants.pick(draw);
                source = source << LEVELS | source_bits;
                target = target << LEVELS | target_bits;
            }
        }
        // Levels are independent and alike, so those beyond the scale are cut off without harm.
        let (source, target) = (source & self.labels.mask, target & self.labels.mask);
        let weight = if self.weights { unit(word(WORDS - 1)) } else { 1.0 };
        Edge { source: self.labels.apply(source), target: self.labels.apply(target), weight }
    }
}

/// A multiple of 2^-24 in [0, 1): exact in f32.
fn unit(word: u64) -> f64 {
    (word >> 40) as f64 / f64::from(1_u32 << 24)
}

/// The finaliser of `SplitMix64`, a bijection of 64-bit words.
#[inline]
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Rounds of the label permutation: one more than the test of its bits needs.
const ROUNDS: usize = 3;

/// A bijection of 0..2^scale. Each round adds a key and multiplies by an odd number modulo 2^scale, which carries
/// low bits upwards, and folds the upper half onto the lower, which carries them back. Each step is invertible.
#[derive(Debug, Clone, Copy)]
struct Permutation {
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); ROUNDS],
}

impl Permutation {
    fn new(scale: u32, seed: u64) -> Self {
        let key = |n: u64| mix(seed.wrapping_add(n.wrapping_mul(GAMMA)));
        let rounds = std::array::from_fn(|round| {
            let round = 2 * round as u64;
            (key(round), key(round + 1) | 1)
        });
        Self { mask: (1 << scale) - 1, shift: scale.div_ceil(2), rounds }
    }

    #[inline]
    fn apply(&self, mut label: u64) -> u64 {
        for (add, multiply) in self.rounds {
            label = label.wrapping_add(add).wrapping_mul(multiply) & self.mask;
            label ^= label >> self.shift;
        }
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{read_with, sorted};

    fn generator(scale: u32, seed: u64, weights: bool) -> Generator {
        Generator::new(&KroneckerSpec { scale, edge_factor: 16, seed, weights })
    }

    fn source(scale: u32, edge_factor: u64, weights: bool) -> KroneckerSource {
        KroneckerSource::new("k", KroneckerSpec { scale, edge_factor, seed: 7, weights }, None).unwrap()
    }

    #[test]
    fn a_seed_gives_these_edges_for_ever() {
        let edges = |scale| {
            let generator = generator(scale, 1, true);
            [0, 1, 2, 1 << 20].map(|index| {
                let Edge { source, target, weight } = generator.edge(index);
                format!("{source} {target} {weight}")
            })
        };
        insta::assert_debug_snapshot!(edges(1), @r#"
        [
            "0 1 0.7238582372665405",
            "1 0 0.1311171054840088",
            "1 0 0.7970092296600342",
            "0 0 0.01301044225692749",
        ]
        "#);
        insta::assert_debug_snapshot!(edges(22), @r#"
        [
            "3271784 2928181 0.7238582372665405",
            "1331168 1003460 0.1311171054840088",
            "648313 3524057 0.7970092296600342",
            "1558760 432195 0.01301044225692749",
        ]
        "#);
        insta::assert_debug_snapshot!(edges(40), @r#"
        [
            "267027468242 759337047658 0.7238582372665405",
            "930491358119 827824912857 0.1311171054840088",
            "665989609265 26597673577 0.7970092296600342",
            "507453665139 582136310617 0.01301044225692749",
        ]
        "#);
    }

    #[test]
    fn labels_are_permuted_by_a_bijection_at_every_scale() {
        for scale in 1..=16 {
            for seed in [0, 1, u64::MAX] {
                let labels = Permutation::new(scale, seed);
                let mut seen = vec![false; 1 << scale];
                for label in 0..1 << scale {
                    let image = labels.apply(label) as usize;
                    assert!(!std::mem::replace(&mut seen[image], true), "scale {scale}: {image} twice");
                }
            }
        }
    }

    /// Rounds of the permutation have inverses, so that it is a bijection at scales that no test can walk through.
    #[test]
    fn labels_of_large_scales_can_be_undone() {
        for scale in [17, 31, 32, 33, MAX_SCALE] {
            let labels = Permutation::new(scale, 5);
            let undo = |mut label: u64| {
                for (add, multiply) in labels.rounds.into_iter().rev() {
                    label ^= label >> labels.shift;
                    label = label.wrapping_mul(inverse(multiply)).wrapping_sub(add) & labels.mask;
                }
                label
            };
            for label in (0..1000).map(|n| mix(n) & labels.mask).chain([0, labels.mask]) {
                assert_eq!(undo(labels.apply(label)), label, "scale {scale}");
            }
        }
    }

    /// Of an odd number modulo 2^64, by Newton's iteration.
    fn inverse(odd: u64) -> u64 {
        (0..6).fold(odd, |x, _| x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x))))
    }

    #[test]
    fn every_level_of_the_edges_has_the_probabilities_of_graph500() {
        let scale = 11;
        let mut generator = generator(scale, 3, false);
        generator.labels.rounds = [(0, 1); ROUNDS];
        let unfold = |label: u64| (0..ROUNDS).fold(label, |label, _| label ^ label >> generator.labels.shift);
        let edges = 1 << 18;
        let mut quadrants = vec![[0_u32; 4]; scale as usize];
        for edge in (0..edges).map(|index| generator.edge(index)) {
            let (source, target) = (unfold(edge.source), unfold(edge.target));
            for (level, quadrants) in quadrants.iter_mut().enumerate() {
                quadrants[(2 * (source >> level & 1) + (target >> level & 1)) as usize] += 1;
            }
        }
        for (level, quadrants) in quadrants.iter().enumerate() {
            for (count, probability) in quadrants.iter().zip([0.57, 0.19, 0.19, 0.05_f64]) {
                let expected = probability * edges as f64;
                let deviation = (expected * (1.0 - probability)).sqrt();
                let off = (f64::from(*count) - expected) / deviation;
                assert!(
                    off.abs() < 4.5,
                    "level {level}: {count} instead of {expected}, {off} standard deviations"
                );
            }
        }
    }

    /// The hubs are labels that differ in few bits before the permutation; where that could still be seen after it,
    /// they would crowd in the same columns.
    #[test]
    fn each_bit_of_a_label_changes_each_bit_half_the_time() {
        let (scale, trials) = (20, 4000);
        for bit in 0..scale {
            let mut changed = vec![0_u32; scale as usize];
            for trial in 0..trials {
                let labels = Permutation::new(scale, mix(trial));
                let label = mix(trial + trials) & labels.mask;
                let change = labels.apply(label) ^ labels.apply(label ^ 1 << bit);
                for (other, changed) in changed.iter_mut().enumerate() {
                    *changed += (change >> other & 1) as u32;
                }
            }
            let shares = changed.iter().map(|&changed| f64::from(changed) / trials as f64);
            for (other, share) in shares.enumerate() {
                assert!((share - 0.5).abs() < 0.1, "bit {bit} changes bit {other} in {share} of all labels");
            }
        }
    }

    #[test]
    fn weights_are_uniform_multiples_of_2_to_the_minus_24_and_change_no_edge() {
        let (weighted, plain) = (generator(12, 9, true), generator(12, 9, false));
        let mut deciles = [0_u32; 10];
        for index in 0..20_000 {
            let Edge { source, target, weight } = weighted.edge(index);
            assert_eq!(plain.edge(index), Edge { source, target, weight: 1.0 });
            assert!((0.0..1.0).contains(&weight));
            assert_eq!((weight * f64::from(1 << 24)).fract().to_bits(), 0);
            assert_eq!(f64::from(weight as f32).to_bits(), weight.to_bits());
            deciles[(weight * 10.0) as usize] += 1;
        }
        assert!(deciles.iter().all(|count| count.abs_diff(2000) < 200), "{deciles:?}");
    }

    #[test]
    fn threads_do_not_matter() {
        for weights in [false, true] {
            let source = source(13, 24, weights);
            let (alone, summary) = read_with(&source, 1).unwrap();
            assert_eq!(summary, Summary { edges: 24 << 13, weighted: weights });
            assert_eq!(alone.len(), 24 << 13);
            assert!(alone.iter().all(|edge| edge.source < 1 << 13 && edge.target < 1 << 13));
            let alone = sorted(alone);
            for threads in [2, 3, 5] {
                assert!(sorted(read_with(&source, threads).unwrap().0) == alone, "{threads} threads");
            }
        }
    }

    #[test]
    fn seeds_give_different_graphs() {
        let edges = |seed| (0..64).map(|index| generator(20, seed, false).edge(index)).collect::<Vec<_>>();
        for seed in [2, GAMMA, GAMMA.wrapping_add(1), u64::MAX] {
            assert_ne!(edges(1), edges(seed));
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let new = |scale, edge_factor, vertices| {
            let spec = KroneckerSpec { scale, edge_factor, seed: 1, weights: false };
            KroneckerSource::new("kron", spec, vertices).map_err(|error| error.to_string())
        };
        let errors = [new(0, 1, None), new(41, 1, None), new(40, u64::MAX / 3, None), new(4, 1, Some(15))];
        insta::assert_snapshot!(errors.map(Result::unwrap_err).join("\n"), @r"
        data set kron: scale = 0 is not in 1..=40
        data set kron: scale = 41 is not in 1..=40
        data set kron: edge_factor = 6148914691236517205 at scale 40 makes more than 2^61 edges
        data set kron: vertices = 15, but scale 4 makes 16; leave `vertices` away
        ");
        assert_eq!(new(4, 1, Some(17)).unwrap().vertices(), VertexSet::Given(17));
        assert_eq!(new(4, 0, None).unwrap().vertices(), VertexSet::Declared(16));
    }
}
