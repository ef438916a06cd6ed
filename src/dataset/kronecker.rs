//! The Kronecker generator of Graph500 (<https://graph500.org/?page_id=12>, section 3.2; R-MAT of Chakrabarti, Zhan
//! and Faloutsos, SDM 2004): each of the `scale` bits of an edge's ends falls into one of the four quadrants of the
//! adjacency matrix with probabilities A, B, C, D, and then the labels are permuted, so that a vertex's number says
//! nothing about its degree.
//!
//! Edge `i` is a pure function of the seed and `i`: its random words are words `8 i .. 8 i + 8` of one
//! SplitMix64 stream (Steele, Lea and Flood, OOPSLA 2014), whose n-th word is computed without the ones before. So
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

/// Increment of SplitMix64: 2^64 / golden ratio.
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

/// The finaliser of SplitMix64, a bijection of 64-bit words.
#[inline]
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Rounds of the label permutation. The test of the hubs' places is content with two.
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
