//! The compact code: edges as *pieces* of rows.
//!
//! A chunk holds *cells*, one after the other: the edges from one window of 2^16 sources to the destinations of the
//! column, in ascending order of destinations, as many as fit. The edges of one destination are cut into pieces of
//! 64, 32, ..., 1 edges, and a cell has a *section* for every kind of piece that it needs. So a loop over a section
//! is unrolled for its length and has no branch that depends on the data; rows need no headers; and a sum is updated
//! once per piece instead of once per edge. Within a section a piece costs one small step from the destination of the
//! piece before. There are three kinds, of which the import takes the shortest:
//!
//! - *wide*: each source as 16 bits relative to the window: any row.
//! - *narrow*: the first source as 16 bits, then 8-bit gaps: dense rows, as hubs have them; 1 byte per edge.
//! - *runs*: the first of up to 255 consecutive sources, and their number: web graphs; 4 bytes per run.
//!
//! Steps are 8 or 16 bits, whichever makes the section smaller. A larger step is split: its low bits in place, the
//! rest as an `Escape` on a list beside the section, so that the loop between two escapes has no branch either.
//!
//! Bytes of a cell: `CellHeader` (16), a `SectionHeader` (4) per section in the order of `SHAPES`, zeros to a
//! multiple of 8; then, each for all sections one after the other: weights (f32 or f64, in the order of the edges;
//! none where all are 1), escapes (u32), 16-bit numbers (per section: sources or first sources, then wide steps),
//! bytes (per section: gaps or lengths of runs, then narrow steps), and zeros to a multiple of 8.

mod fold;

pub use fold::Near;

use std::iter::FusedIterator;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::block::ChunkFault;
use super::manifest::WeightKind;

/// Sources of a window at most: those that 16 bits tell apart.
pub const WINDOW: u64 = 1 << 16;

/// Start of a cell: 16 bytes, little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CellHeader {
    /// Added to every source.
    pub(super) source_base: u32,
    /// Destination, relative to the column, from which the first step of each section goes.
    pub(super) first_destination: u32,
    /// Edges.
    pub(super) edges: u32,
    /// Bytes of the cell, a multiple of 8.
    pub(super) bytes: u16,
    /// Bit i: there is a section of shape [`SHAPES`]\[i\].
    pub(super) sections: u16,
}

/// What a section has: 4 bytes, little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SectionHeader {
    /// Pieces, at least 1.
    pub(super) pieces: u16,
    /// Escapes, and [`WIDE_STEPS`].
    pub(super) escapes: u16,
}

/// Flag in [`SectionHeader::escapes`]: steps take 16 bits.
pub(super) const WIDE_STEPS: u16 = 1 << 15;

/// What is left of a step that its bits do not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Escape(u32);

/// Bits of an escape's high part; the others are a piece's number.
const HIGH_BITS: u32 = 18;

impl Escape {
    /// Steps below this need no more than an escape beside so many bits.
    pub(super) const fn limit(step_bits: u32) -> u64 {
        1 << (step_bits + HIGH_BITS)
    }

    /// `high` (below 2^18) times 2^bits of a step, before the step of piece number `piece` (below 2^14).
    pub(super) fn new(piece: usize, high: u64) -> Self {
        Self((piece as u32) << HIGH_BITS | high as u32)
    }

    fn piece(self) -> usize {
        (self.0 >> HIGH_BITS) as usize
    }

    fn high(self) -> usize {
        (self.0 & ((1 << HIGH_BITS) - 1)) as usize
    }
}

/// How the pieces of a section are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// So many 16-bit sources.
    Wide(usize),
    /// A 16-bit source and 8-bit gaps, so many sources in all.
    Narrow(usize),
    /// A 16-bit source and the number of those that follow it without gap, itself included.
    Run,
}

/// All shapes, in the order of their sections.
pub(super) const SHAPES: [Shape; 14] = [
    Shape::Wide(64),
    Shape::Wide(32),
    Shape::Wide(16),
    Shape::Wide(8),
    Shape::Wide(4),
    Shape::Wide(2),
    Shape::Wide(1),
    Shape::Narrow(64),
    Shape::Narrow(32),
    Shape::Narrow(16),
    Shape::Narrow(8),
    Shape::Narrow(4),
    Shape::Narrow(2),
    Shape::Run,
];

impl Shape {
    /// 16-bit numbers of a piece, its step apart.
    pub(super) fn halves(self) -> usize {
        match self {
            Self::Wide(length) => length,
            Self::Narrow(_) | Self::Run => 1,
        }
    }

    /// Bytes of a piece, its step apart.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Wide(_) => 0,
            Self::Narrow(length) => length - 1,
            Self::Run => 1,
        }
    }

    /// Edges of a piece, but for runs, whose lengths differ.
    fn edges(self) -> usize {
        match self {
            Self::Wide(length) | Self::Narrow(length) => length,
            Self::Run => 0,
        }
    }
}

/// Bytes of a cell before its weights.
pub(super) fn head_bytes(sections: usize) -> usize {
    (size_of::<CellHeader>() + sections * size_of::<SectionHeader>()).next_multiple_of(8)
}

/// Steps of a section.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Steps<'a> {
    Narrow(&'a [u8]),
    Wide(&'a [u16]),
}

/// Weights of a section's edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weights<'a> {
    /// All 1: a slice that takes no memory, so that loops need no other case.
    Unit(&'a [()]),
    F32(&'a [f32]),
    F64(&'a [f64]),
}

/// As many units as anybody may want; they have no size.
static UNITS: [(); usize::MAX] = [(); usize::MAX];

impl Weights<'_> {
    fn len(self) -> usize {
        match self {
            Self::Unit(weights) => weights.len(),
            Self::F32(weights) => weights.len(),
            Self::F64(weights) => weights.len(),
        }
    }

    fn split(self, at: usize) -> Option<(Self, Self)> {
        Some(match self {
            Self::Unit(weights) => both(weights.split_at_checked(at)?, Self::Unit),
            Self::F32(weights) => both(weights.split_at_checked(at)?, Weights::F32),
            Self::F64(weights) => both(weights.split_at_checked(at)?, Weights::F64),
        })
    }

    fn get(self, index: usize) -> f64 {
        match self {
            Self::Unit(_) => 1.0,
            Self::F32(weights) => weights[index].into(),
            Self::F64(weights) => weights[index],
        }
    }
}

fn both<T, U>((left, right): (T, T), make: impl Fn(T) -> U) -> (U, U) {
    (make(left), make(right))
}

/// A section: pieces of one shape, by ascending destination.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section<'a> {
    shape: Shape,
    pieces: usize,
    /// Sources, or first sources.
    halves: &'a [u16],
    /// Gaps, or lengths of runs.
    bytes: &'a [u8],
    steps: Steps<'a>,
    escapes: &'a [Escape],
    weights: Weights<'a>,
}

impl Section<'_> {
    /// Ranges of pieces without an escape between them, each with what is to be added to the destination before it.
    #[inline]
    fn stretches(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        let unit = if matches!(self.steps, Steps::Wide(_)) { 1 << 16 } else { 1 << 8 };
        let first = std::iter::once((0, 0));
        let starts = first.chain(self.escapes.iter().map(move |e| (e.piece(), e.high() * unit)));
        let ends = self.escapes.iter().map(|escape| escape.piece()).chain(std::iter::once(self.pieces));
        starts.zip(ends).map(|((start, before), end)| (start..end, before))
    }

    /// How far the last piece's destination is from the cell's first; `None` where escapes are out of order.
    fn reach(&self) -> Option<u64> {
        let ordered = self.escapes.windows(2).all(|pair| pair[0].piece() < pair[1].piece());
        let inside = self.escapes.last().is_none_or(|escape| escape.piece() < self.pieces);
        let (unit, sum) = match self.steps {
            Steps::Narrow(steps) => (1_u64 << 8, steps.iter().map(|&step| u64::from(step)).sum::<u64>()),
            Steps::Wide(steps) => (1_u64 << 16, steps.iter().map(|&step| u64::from(step)).sum::<u64>()),
        };
        let high: u64 = self.escapes.iter().map(|escape| escape.high() as u64).sum();
        (ordered && inside).then_some(sum + high * unit)
    }

    /// One past the largest source, relative to the window.
    fn end_source(&self) -> usize {
        let ends = |gaps: usize| {
            self.halves.iter().zip(self.bytes.chunks_exact(gaps)).map(|(&first, gaps)| {
                usize::from(first) + 1 + gaps.iter().map(|&gap| usize::from(gap)).sum::<usize>()
            })
        };
        match self.shape {
            Shape::Wide(_) => self.halves.iter().max().map_or(0, |&source| usize::from(source) + 1),
            Shape::Narrow(length) => ends(length - 1).max().unwrap_or(0),
            Shape::Run => self.run_ends().max().unwrap_or(0),
        }
    }

    fn run_ends(&self) -> impl Iterator<Item = usize> {
        self.halves.iter().zip(self.bytes).map(|(&first, &length)| usize::from(first) + usize::from(length))
    }

    fn visit(&self, first: usize, visit: &mut impl FnMut(usize, usize, f64)) {
        let (mut target, mut edge) = (first, 0);
        for (pieces, before) in self.stretches() {
            target += before;
            for piece in pieces {
                target += match self.steps {
                    Steps::Narrow(steps) => usize::from(steps[piece]),
                    Steps::Wide(steps) => usize::from(steps[piece]),
                };
                self.sources(piece, |source| {
                    visit(source, target, self.weights.get(edge));
                    edge += 1;
                });
            }
        }
    }

    /// Sources of a piece. Gaps add up modulo the window, as in the fast loops.
    fn sources(&self, piece: usize, mut visit: impl FnMut(usize)) {
        match self.shape {
            Shape::Wide(length) => {
                for &source in &self.halves[piece * length..(piece + 1) * length] {
                    visit(source.into());
                }
            }
            Shape::Narrow(length) => {
                let mut source = self.halves[piece];
                visit(source.into());
                for &gap in &self.bytes[piece * (length - 1)..(piece + 1) * (length - 1)] {
                    source = source.wrapping_add(gap.into());
                    visit(source.into());
                }
            }
            Shape::Run => {
                let first = usize::from(self.halves[piece]);
                (first..first + usize::from(self.bytes[piece])).for_each(visit);
            }
        }
    }
}

/// The edges of one window in a chunk.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    header: CellHeader,
    /// What the sections have, and the arrays that they are cut from.
    sections: &'a [SectionHeader],
    weights: Weights<'a>,
    escapes: &'a [Escape],
    halves: &'a [u16],
    bytes: &'a [u8],
}

/// Why bytes are no cell.
type Broken = &'static str;

impl<'a> Cell<'a> {
    /// The cell at the start of `payload`, which is aligned to 8 bytes, and what follows it.
    fn split(payload: &'a [u8], weights: WeightKind) -> Result<(Self, &'a [u8]), Broken> {
        const CUT: Broken = "a cell is cut off";
        let (head, _) = payload.split_at_checked(size_of::<CellHeader>()).ok_or(CUT)?;
        let header: CellHeader = bytemuck::pod_read_unaligned(head);
        let (cell, rest) = payload.split_at_checked(header.bytes.into()).ok_or(CUT)?;
        let count = header.sections.count_ones() as usize;
        let (head, mut body) = cell.split_at_checked(head_bytes(count)).ok_or(CUT)?;
        if usize::from(header.sections) >> SHAPES.len() != 0 {
            return Err("a cell has a section of unknown shape");
        }
        let headers = &head[size_of::<CellHeader>()..][..count * size_of::<SectionHeader>()];
        let sections: &[SectionHeader] = cast(headers)?;
        let (mut escapes, mut halves, mut bytes) = (0, 0, 0);
        for (shape, section) in shapes(header.sections).zip(sections) {
            let (pieces, wide) = (usize::from(section.pieces), section.escapes & WIDE_STEPS != 0);
            escapes += usize::from(section.escapes & !WIDE_STEPS);
            halves += pieces * (shape.halves() + usize::from(wide));
            bytes += pieces * (shape.bytes() + usize::from(!wide));
        }
        let mut take = |bytes: usize| {
            let (taken, rest) = body.split_at_checked(bytes).ok_or(CUT)?;
            body = rest;
            Ok::<_, Broken>(taken)
        };
        let edges = header.edges as usize;
        let weights = match weights {
            WeightKind::Unit => Weights::Unit(&UNITS[..edges]),
            WeightKind::F32 => Weights::F32(cast(take(edges * 4)?)?),
            WeightKind::F64 => Weights::F64(cast(take(edges * 8)?)?),
        };
        let (escapes, halves) = (cast(take(escapes * 4)?)?, cast(take(halves * 2)?)?);
        let bytes = take(bytes)?;
        if body.len() >= 8 || !header.bytes.is_multiple_of(8) {
            return Err("a cell's length is not that of its sections");
        }
        Ok((Self { header, sections, weights, escapes, halves, bytes }, rest))
    }

    /// Checks all that a reader relies on: lengths, sources below `vertices`, destinations below `width`.
    fn check(&self, vertices: u64, width: u64) -> Result<(), ChunkFault> {
        let base = u64::from(self.header.source_base);
        // In a full window no 16 bits leave it.
        let window = vertices.saturating_sub(base).min(WINDOW);
        let broken = |what| ChunkFault::Cell { what };
        let sections = self.sections();
        let mut left = sections.weights.len();
        let mut checked = 0;
        for section in sections {
            checked += 1;
            let edges = match section.shape {
                Shape::Run => section.bytes.iter().map(|&length| usize::from(length)).sum(),
                shape => section.pieces * shape.edges(),
            };
            left = left.checked_sub(edges).ok_or_else(|| broken("a cell has more edges than it says"))?;
            if section.shape == Shape::Run || window < WINDOW {
                let end = section.end_source() as u64;
                if end > window {
                    return Err(ChunkFault::Source { found: base + end - 1, vertices });
                }
            }
            let reach = section.reach().ok_or_else(|| broken("its escapes are out of order"))?;
            let last = u64::from(self.header.first_destination) + reach;
            if last >= width {
                return Err(ChunkFault::Destination { found: last, width });
            }
        }
        if checked < self.sections.len() || left > 0 {
            return Err(broken("a cell has fewer edges than it says"));
        }
        Ok(())
    }

    fn sections(&self) -> Sections<'a> {
        let Cell { header, sections, weights, escapes, halves, bytes } = *self;
        Sections { shapes: header.sections, headers: sections, weights, escapes, halves, bytes }
    }

    /// One past the largest source, relative to the window.
    pub(super) fn end_source(&self) -> usize {
        self.sections().map(|section| section.end_source()).max().unwrap_or(0)
    }

    /// Number of edges.
    pub fn edges(&self) -> usize {
        self.header.edges as usize
    }

    /// Calls `visit(source, destination, weight)` for every edge, destinations relative to the column.
    pub fn for_each(&self, mut visit: impl FnMut(u64, u64, f64)) {
        let base = u64::from(self.header.source_base);
        for section in self.sections() {
            section.visit(self.header.first_destination as usize, &mut |source, target, weight| {
                visit(base + source as u64, target as u64, weight);
            });
        }
    }
}

/// Shapes of a set of sections.
fn shapes(sections: u16) -> impl Iterator<Item = Shape> {
    SHAPES
        .into_iter()
        .enumerate()
        .filter(move |(index, _)| sections >> index & 1 == 1)
        .map(|(_, shape)| shape)
}

fn cast<T: Pod>(bytes: &[u8]) -> Result<&[T], Broken> {
    bytemuck::try_cast_slice(bytes)
        .map_err(|_| "its memory is not aligned to 8 bytes, which is a fault of the program")
}

/// The sections of a cell. Ends early where the cell is broken, which [`Cell::check`] finds out.
#[derive(Debug, Clone)]
struct Sections<'a> {
    /// Shapes of the sections that are left.
    shapes: u16,
    headers: &'a [SectionHeader],
    weights: Weights<'a>,
    escapes: &'a [Escape],
    halves: &'a [u16],
    bytes: &'a [u8],
}

impl<'a> Iterator for Sections<'a> {
    type Item = Section<'a>;

    fn next(&mut self) -> Option<Section<'a>> {
        let (header, headers) = self.headers.split_first()?;
        let shape = SHAPES[self.shapes.trailing_zeros() as usize % SHAPES.len()];
        let pieces = usize::from(header.pieces);
        let halves = cut(&mut self.halves, pieces * shape.halves())?;
        let bytes = cut(&mut self.bytes, pieces * shape.bytes())?;
        let steps = if header.escapes & WIDE_STEPS != 0 {
            Steps::Wide(cut(&mut self.halves, pieces)?)
        } else {
            Steps::Narrow(cut(&mut self.bytes, pieces)?)
        };
        let escapes = cut(&mut self.escapes, usize::from(header.escapes & !WIDE_STEPS))?;
        let edges = match shape {
            Shape::Run => bytes.iter().map(|&length| usize::from(length)).sum(),
            shape => pieces * shape.edges(),
        };
        let (weights, rest) = self.weights.split(edges)?;
        (self.shapes, self.headers, self.weights) =
            (self.shapes & self.shapes.wrapping_sub(1), headers, rest);
        Some(Section { shape, pieces, halves, bytes, steps, escapes, weights })
    }
}

impl FusedIterator for Sections<'_> {}

fn cut<'a, T>(rest: &mut &'a [T], at: usize) -> Option<&'a [T]> {
    let (taken, left) = rest.split_at_checked(at)?;
    *rest = left;
    Some(taken)
}

/// The cells of a checked chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cells<'a> {
    payload: &'a [u8],
    weights: WeightKind,
    /// Bound of all sources.
    vertices: u64,
}

impl<'a> Cells<'a> {
    /// The cells in a payload of so many edges, all checked.
    pub(super) fn check(
        payload: &'a [u8],
        weights: WeightKind,
        edges: u32,
        vertices: u64,
        width: u64,
    ) -> Result<Self, ChunkFault> {
        let (mut rest, mut found) = (payload, 0);
        while !rest.is_empty() {
            let (cell, behind) = Cell::split(rest, weights).map_err(|what| ChunkFault::Cell { what })?;
            cell.check(vertices, width)?;
            found += u64::from(cell.header.edges);
            rest = behind;
        }
        if found != u64::from(edges) {
            return Err(ChunkFault::Field { field: "number of edges", found: edges.into(), expected: found });
        }
        Ok(Self { payload, weights, vertices })
    }

    /// The cells in a payload that was checked before.
    ///
    /// # Safety
    /// [`Cells::check`] passed this very payload for the same weights and vertices, and it has not changed since: the
    /// loops index by its sources.
    pub(super) unsafe fn checked_before(payload: &'a [u8], weights: WeightKind, vertices: u64) -> Self {
        Self { payload, weights, vertices }
    }

    /// Cell after cell.
    pub fn iter(&self) -> impl Iterator<Item = Cell<'a>> + use<'a> {
        let (mut rest, weights) = (self.payload, self.weights);
        std::iter::from_fn(move || {
            // Checked before, so that it fails only at the end.
            let (cell, behind) = Cell::split(rest, weights).ok()?;
            rest = behind;
            Some(cell)
        })
    }
}
