//! Writing the compact code: rows are cut into pieces, and pieces gathered into a cell until its chunk is full. What
//! a cell will take is known exactly at every moment, so that chunks are filled to the last bytes.

use std::ops::RangeInclusive;

use crate::grid::chunk::PAYLOAD;
use crate::grid::compact::{CellHeader, Escape, SHAPES, SectionHeader, Shape, WIDE_STEPS, head_bytes};
use crate::grid::manifest::WeightKind;

use super::sort::Record;

/// Section of wide pieces of 64 edges; those of half the length follow, down to 1.
const WIDE: usize = 0;
/// The same for narrow pieces, down to 2.
const NARROW: usize = 7;
/// Section of runs.
const RUNS: usize = 13;
/// Longest piece, as a power of two.
const LONGEST_LOG2: usize = 6;
/// Shortest run that is stored as one: with its step 4 bytes, where a narrow piece takes 6.
const LEAST_RUN: usize = 4;
/// Longest: its length is a byte.
const MOST_RUN: usize = u8::MAX as usize;

const _: () =
    assert!(matches!(SHAPES[WIDE], Shape::Wide(64)) && matches!(SHAPES[NARROW - 1], Shape::Wide(1)));
const _: () =
    assert!(matches!(SHAPES[NARROW], Shape::Narrow(64)) && matches!(SHAPES[RUNS - 1], Shape::Narrow(2)));
const _: () = assert!(matches!(SHAPES[RUNS], Shape::Run) && 1 << LONGEST_LOG2 == 64);
// A piece takes 3 bytes at least, so that its number fits an escape, and the counts their 15 bits.
const _: () = assert!(PAYLOAD / 3 < 1 << 14);

/// Cuts rows into pieces.
pub(super) struct Cutter<R> {
    /// What is left of a row without its runs, and what is left of that without close sources.
    without_runs: Vec<R>,
    sparse: Vec<R>,
}

impl<R: Record> Cutter<R> {
    pub(super) fn new() -> Self {
        Self { without_runs: Vec::new(), sparse: Vec::new() }
    }

    /// Calls `emit(section, piece)` for the pieces of a row: edges of one window to one destination, by ascending
    /// source.
    #[inline]
    pub(super) fn cut<E>(
        &mut self,
        row: &[R],
        mut emit: impl FnMut(usize, &[R]) -> Result<(), E>,
    ) -> Result<(), E> {
        if row.len() == 1 {
            return emit(NARROW - 1, row);
        }
        self.cut_several(row, emit)
    }

    fn cut_several<E>(
        &mut self,
        row: &[R],
        mut emit: impl FnMut(usize, &[R]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { without_runs, sparse } = self;
        let far = |pair: &[R]| pair[1].source() - pair[0].source() > u8::MAX.into();
        // Most rows, where a graph has no locality: nothing in them is narrow or a run. All pairs are looked at, which is
        // faster than to stop at one.
        if row.windows(2).fold(true, |all, pair| all & far(pair)) {
            return cut_by_length(row, WIDE, 1, &mut emit).map(|_| ());
        }
        let row = if row.len() < LEAST_RUN || !has_run(row) {
            row
        } else {
            without_runs.clear();
            for run in row.chunk_by(|a, b| b.source() == a.source() + 1) {
                for run in run.chunks(MOST_RUN) {
                    if run.len() >= LEAST_RUN {
                        emit(RUNS, run)?;
                    } else {
                        without_runs.extend_from_slice(run);
                    }
                }
            }
            without_runs
        };
        sparse.clear();
        for close in row.chunk_by(|a, b| b.source() - a.source() <= u8::MAX.into()) {
            // At most one is left; to push it is cheaper than to copy a slice.
            let rest = if close.len() > 1 { cut_by_length(close, NARROW, 2, &mut emit)? } else { close };
            sparse.extend(rest.first().copied());
        }
        cut_by_length(sparse, WIDE, 1, &mut emit).map(|_| ())
    }
}

fn has_run<R: Record>(row: &[R]) -> bool {
    // Ends of a run differ by its length; so do others, but seldom.
    let apart = |edges: &[R]| edges[LEAST_RUN - 1].source() - edges[0].source() == LEAST_RUN as u32 - 1;
    let run = |edges: &[R]| edges.windows(2).all(|pair| pair[1].source() == pair[0].source() + 1);
    row.windows(LEAST_RUN).any(|edges| apart(edges) && run(edges))
}

/// Cuts edges into the longest pieces down to `least`; returns what is left.
fn cut_by_length<'r, R: Record, E>(
    mut edges: &'r [R],
    section: usize,
    least: usize,
    emit: &mut impl FnMut(usize, &[R]) -> Result<(), E>,
) -> Result<&'r [R], E> {
    while edges.len() >= least {
        let log2 = (edges.len().ilog2() as usize).min(LONGEST_LOG2);
        let (piece, rest) = edges.split_at(1 << log2);
        emit(section + LONGEST_LOG2 - log2, piece)?;
        edges = rest;
    }
    Ok(edges)
}

/// A cell that is being filled.
pub(super) struct CellWriter {
    weights: WeightKind,
    source_base: u32,
    first_destination: u32,
    edges: u32,
    sections: [Section; SHAPES.len()],
    /// Bytes that the cell may grow by, at least; so that its exact size is computed only as the room gets scarce.
    slack: usize,
    parts: Parts,
}

/// Bytes that a step, with its escape, adds at most to those of a section; a section's head, with its padding, the same.
const MOST_STEP: usize = 6;
const MOST_HEAD: usize = 8;
/// Bytes that an edge adds at most, its weight apart: as a piece of its own.
const MOST_EDGE: usize = size_of::<u16>() + MOST_STEP;

/// Its pieces of one shape.
#[derive(Debug, Default)]
struct Section {
    halves: Vec<u16>,
    bytes: Vec<u8>,
    weights: Vec<f64>,
    steps: Vec<u32>,
    last: u32,
    escapes: Escapes,
}

/// Escapes that a section's steps need, where they are narrow and where they are wide.
#[derive(Debug, Clone, Copy, Default)]
struct Escapes {
    narrow: usize,
    wide: usize,
}

/// More escapes than a chunk holds, for a step that escapes cannot make up for where it is narrow.
const IMPOSSIBLE: usize = 1 << 32;

impl Escapes {
    #[inline]
    fn with(self, step: u32) -> Self {
        let narrow = usize::from(step > u8::MAX.into()) + if is_huge(step) { IMPOSSIBLE } else { 0 };
        Self { narrow: self.narrow + narrow, wide: self.wide + usize::from(step > u16::MAX.into()) }
    }

    /// Bytes of so many steps with these escapes, and whether they are wide.
    fn steps_bytes(self, pieces: usize) -> (usize, bool) {
        let narrow = pieces + self.narrow * size_of::<Escape>();
        let wide = pieces * size_of::<u16>() + self.wide * size_of::<Escape>();
        (narrow.min(wide), wide < narrow)
    }
}

/// Whether a step is too large for 8 bits and an escape.
fn is_huge(step: u32) -> bool {
    u64::from(step) >= Escape::limit(u8::BITS)
}

impl Section {
    /// Bytes of its arrays but the steps.
    fn arrays(&self, weights: WeightKind) -> usize {
        self.halves.len() * size_of::<u16>() + self.bytes.len() + self.weights.len() * weights.bytes()
    }

    fn bytes(&self, weights: WeightKind) -> usize {
        self.arrays(weights) + self.escapes.steps_bytes(self.steps.len()).0
    }

    fn clear(&mut self) {
        self.halves.clear();
        self.bytes.clear();
        self.weights.clear();
        self.steps.clear();
        self.escapes = Escapes::default();
    }

    /// The escapes of the steps beside so many bits.
    fn escapes_beside(&self, bits: u32) -> impl Iterator<Item = Escape> {
        let high = move |step: u32| u64::from(step) >> bits;
        let large = self.steps.iter().enumerate().filter(move |(_, step)| high(**step) > 0);
        large.map(move |(piece, &step)| Escape::new(piece, high(step)))
    }
}

impl CellWriter {
    /// An empty cell.
    pub(super) fn new(weights: WeightKind) -> Self {
        let sections = std::array::from_fn(|_| Section::default());
        let (slack, parts) = (0, Parts::default());
        Self { weights, source_base: 0, first_destination: 0, edges: 0, sections, slack, parts }
    }

    /// Adds a piece, if the cell stays within `room` bytes; otherwise false, and nothing is changed. The sources of a
    /// cell's pieces are those of one window, and the destinations of its pieces ascend.
    #[inline]
    pub(super) fn push<R: Record>(
        &mut self,
        number: usize,
        source_base: u32,
        destination: u32,
        piece: &[R],
        room: usize,
    ) -> bool {
        let shape = SHAPES[number];
        let is_new = self.sections[number].steps.is_empty();
        let fixed = piece.len() * self.weights.bytes() + shape.halves() * size_of::<u16>() + shape.bytes();
        let most = fixed + MOST_STEP + if is_new { MOST_HEAD } else { 0 };
        if self.slack < most || is_huge(self.step_to(number, destination)) {
            if !self.fits(number, destination, fixed, room) {
                return false;
            }
        } else {
            self.slack -= most;
        }
        self.append(number, source_base, destination, piece);
        true
    }

    /// Whether rows of so many edges, with destinations in this range, fit for certain, however they are cut. If so,
    /// their pieces may be appended.
    pub(super) fn reserve(&mut self, edges: usize, destinations: RangeInclusive<u32>, room: usize) -> bool {
        let (first, last) = destinations.into_inner();
        let from = if self.edges == 0 { first } else { self.first_destination };
        if is_huge(last - from) {
            return false;
        }
        let most = edges * (MOST_EDGE + self.weights.bytes()) + SHAPES.len() * MOST_HEAD;
        if self.slack < most {
            let (used, body) = self.size();
            self.slack = (room & !7).saturating_sub(head_bytes(used) + body);
        }
        let fits = self.slack >= most;
        if fits {
            self.slack -= most;
        }
        fits
    }

    /// Adds a piece, for which there is room.
    #[inline]
    pub(super) fn append<R: Record>(
        &mut self,
        number: usize,
        source_base: u32,
        destination: u32,
        piece: &[R],
    ) {
        if self.edges == 0 {
            (self.source_base, self.first_destination) = (source_base, destination);
        }
        let step = self.step_to(number, destination);
        self.edges += piece.len() as u32;
        let section = &mut self.sections[number];
        section.last = destination;
        section.escapes = section.escapes.with(step);
        section.steps.push(step);
        section.store(SHAPES[number], source_base, piece);
        if self.weights != WeightKind::Unit {
            section.weights.extend(piece.iter().map(Record::weight));
        }
    }

    /// The step of a piece, if it were added to a section now.
    #[inline]
    fn step_to(&self, number: usize, destination: u32) -> u32 {
        let section = &self.sections[number];
        let last = match (self.edges, section.steps.len()) {
            (0, _) => destination,
            (_, 0) => self.first_destination,
            _ => section.last,
        };
        destination - last
    }

    /// Whether a piece with so many bytes beside its step fits; if so, the slack is what there is behind it.
    #[cold]
    fn fits(&mut self, number: usize, destination: u32, fixed: usize, room: usize) -> bool {
        let step = self.step_to(number, destination);
        let section = &self.sections[number];
        let (steps, _) = section.escapes.with(step).steps_bytes(section.steps.len() + 1);
        let with_piece = section.arrays(self.weights) + fixed + steps;
        let (used, body) = self.size();
        let used = used + usize::from(section.steps.is_empty());
        let bytes = head_bytes(used) + body - section.bytes(self.weights) + with_piece;
        // Cells are multiples of 8 bytes.
        match (room & !7).checked_sub(bytes) {
            Some(slack) => {
                self.slack = slack;
                true
            }
            None => false,
        }
    }

    /// Sections with pieces, and bytes of all behind the cell's head.
    fn size(&self) -> (usize, usize) {
        let used = self.sections.iter().filter(|section| !section.steps.is_empty());
        used.fold((0, 0), |(used, body), section| (used + 1, body + section.bytes(self.weights)))
    }

    /// Writes the cell to the start of `out`, returns its bytes, and begins an empty one.
    pub(super) fn finish(&mut self, out: &mut [u8]) -> usize {
        if self.edges == 0 {
            return 0;
        }
        let (used, body) = self.size();
        let len = (head_bytes(used) + body).next_multiple_of(8);
        let parts = &mut self.parts;
        let mut present = 0;
        for (number, section) in
            self.sections.iter().enumerate().filter(|(_, section)| !section.steps.is_empty())
        {
            present |= 1 << number;
            parts.add(section, self.weights);
        }
        let header = CellHeader {
            source_base: self.source_base,
            first_destination: self.first_destination,
            edges: self.edges,
            bytes: len as u16,
            sections: present,
        };
        let (head, body) = out[..len].split_at_mut(head_bytes(used));
        head.fill(0);
        let (fixed, sections) = head.split_at_mut(size_of::<CellHeader>());
        fixed.copy_from_slice(bytemuck::bytes_of(&header));
        put(sections, &parts.headers);
        let body = put(body, &parts.weights);
        let body = put(body, &parts.escapes);
        let body = put(body, &parts.halves);
        let body = put(body, &parts.bytes);
        body.fill(0);
        self.sections.iter_mut().for_each(Section::clear);
        self.parts.clear();
        (self.edges, self.slack) = (0, 0);
        len
    }
}

impl Section {
    fn store<R: Record>(&mut self, shape: Shape, base: u32, piece: &[R]) {
        let relative = |edge: &R| (edge.source() - base) as u16;
        match shape {
            Shape::Wide(_) => self.halves.extend(piece.iter().map(relative)),
            Shape::Narrow(_) => {
                self.halves.push(relative(&piece[0]));
                self.bytes.extend(piece.windows(2).map(|pair| (pair[1].source() - pair[0].source()) as u8));
            }
            Shape::Run => {
                self.halves.push(relative(&piece[0]));
                self.bytes.push(piece.len() as u8);
            }
        }
    }
}

/// The arrays of a cell, as they follow each other.
#[derive(Debug, Default)]
struct Parts {
    headers: Vec<SectionHeader>,
    weights: Vec<u8>,
    escapes: Vec<Escape>,
    halves: Vec<u16>,
    bytes: Vec<u8>,
}

impl Parts {
    fn clear(&mut self) {
        self.headers.clear();
        self.weights.clear();
        self.escapes.clear();
        self.halves.clear();
        self.bytes.clear();
    }

    fn add(&mut self, section: &Section, weights: WeightKind) {
        let before = self.escapes.len();
        self.halves.extend_from_slice(&section.halves);
        self.bytes.extend_from_slice(&section.bytes);
        // The low bits of the steps in place, the rest on the list of escapes.
        let (_, wide) = section.escapes.steps_bytes(section.steps.len());
        if wide {
            self.halves.extend(section.steps.iter().map(|&step| step as u16));
            self.escapes.extend(section.escapes_beside(u16::BITS));
        } else {
            self.bytes.extend(section.steps.iter().map(|&step| step as u8));
            self.escapes.extend(section.escapes_beside(u8::BITS));
        }
        match weights {
            WeightKind::Unit => {}
            WeightKind::F32 => {
                self.weights.extend(section.weights.iter().flat_map(|&weight| (weight as f32).to_le_bytes()));
            }
            WeightKind::F64 => {
                self.weights.extend(section.weights.iter().flat_map(|weight| weight.to_le_bytes()));
            }
        }
        let escapes = (self.escapes.len() - before) as u16 | if wide { WIDE_STEPS } else { 0 };
        self.headers.push(SectionHeader { pieces: section.steps.len() as u16, escapes });
    }
}

/// Copies `items` to the start of `out`, and returns the rest of it.
fn put<'o, T: bytemuck::NoUninit>(out: &'o mut [u8], items: &[T]) -> &'o mut [u8] {
    let bytes = bytemuck::cast_slice(items);
    let (to, rest) = out.split_at_mut(bytes.len());
    to.copy_from_slice(bytes);
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grid::Lookup;
    use crate::grid::Sum;
    use crate::grid::compact::{Cells, Near, WINDOW};
    use crate::grid::import::sort::Weighted;

    type Plain = (u64, u64, u64);

    /// Packs rows of one window into payloads of at most `room` bytes; returns them with their edges' numbers. Where
    /// `ahead`, room is asked for by rows, as far as they are sure to fit, and otherwise always by pieces.
    fn pack(
        edges: &[Weighted],
        base: u32,
        weights: WeightKind,
        room: usize,
        ahead: bool,
    ) -> Vec<(Vec<u8>, u32)> {
        let (mut writer, mut cutter) = (CellWriter::new(weights), Cutter::new());
        let (mut payloads, mut count) = (Vec::new(), 0);
        for row in edges.chunk_by(|a, b| a.destination() == b.destination()) {
            let destination = row[0].destination();
            let reserved = ahead && writer.reserve(row.len(), destination..=destination, room);
            let cut = cutter.cut(row, |section, piece| {
                if reserved {
                    writer.append(section, base, destination, piece);
                } else if !writer.push(section, base, row[0].destination(), piece, room) {
                    let mut payload = vec![0xaa; room];
                    let len = writer.finish(&mut payload);
                    payload.truncate(len);
                    payloads.push((payload, std::mem::take(&mut count)));
                    assert!(writer.push(section, base, row[0].destination(), piece, room));
                }
                count += piece.len() as u32;
                Ok::<_, ()>(())
            });
            cut.unwrap();
        }
        let mut payload = vec![0xaa; room];
        let len = writer.finish(&mut payload);
        payload.truncate(len);
        payloads.push((payload, count));
        payloads
    }

    /// Rows with all that the code has a case for: runs, close and far sources, doubled edges, small and huge steps.
    fn rows() -> impl Strategy<Value = Vec<(u32, Vec<u32>)>> {
        let step =
            prop_oneof![5 => 1..20_u32, 2 => 200..300_u32, 1 => 60_000..70_000_u32, 1 => Just(1 << 27)];
        let gaps = prop_oneof![
            prop::collection::vec(Just(1_u32), 0..700),
            prop::collection::vec(prop_oneof![6 => Just(1_u32), 1 => 2..4_u32], 0..100),
            prop::collection::vec(0..300_u32, 0..150),
            prop::collection::vec(200..3000_u32, 0..20),
            Just(Vec::new()),
        ];
        prop::collection::vec((step, gaps), 0..25)
    }

    fn edges(rows: &[(u32, Vec<u32>)], base: u32) -> Vec<Weighted> {
        let (mut edges, mut destination) = (Vec::new(), 0);
        for (step, gaps) in rows {
            destination += step;
            let mut source = destination % 1000;
            let sources = std::iter::once(&0).chain(gaps).map_while(|gap| {
                source += gap;
                (u64::from(source) < WINDOW).then_some(source)
            });
            edges.extend(sources.map(|source| {
                let weight = f64::from(source % 7) - 2.5;
                Weighted::new(base + source, destination, weight)
            }));
        }
        edges
    }

    fn plain(edges: impl Iterator<Item = Plain>) -> Vec<Plain> {
        let mut edges: Vec<Plain> = edges.collect();
        edges.sort_unstable();
        edges
    }

    proptest! {
        #[test]
        fn pieces_give_back_the_edges_and_their_sums(
            rows in rows(), base in prop::sample::select(vec![0_u32, 1 << 16, 77]), room in 2600..PAYLOAD,
            weights in prop::sample::select(vec![WeightKind::Unit, WeightKind::F32, WeightKind::F64]),
        ) {
            let edges = edges(&rows, base);
            let kept = |weight: f64| if weights == WeightKind::Unit { 1.0 } else { weight };
            let width = edges.last().map_or(1, |edge| u64::from(edge.destination()) + 1);
            let vertices = edges.iter().map(|edge| u64::from(edge.source()) + 1).max().unwrap_or(1);
            let (mut found, mut sums) = (Vec::new(), std::collections::BTreeMap::<u64, f64>::new());
            let payloads = pack(&edges, base, weights, room, false);
            prop_assert_eq!(&pack(&edges, base, weights, room, true), &payloads);
            for (payload, count) in payloads {
                prop_assert!(payload.len() <= room);
                let mut aligned = vec![0_u64; payload.len() / 8];
                bytemuck::cast_slice_mut(&mut aligned).copy_from_slice(&payload);
                let payload = bytemuck::cast_slice(&aligned);
                let cells = Cells::check(payload, weights, count, vertices, width).unwrap();
                for cell in cells.iter() {
                    cell.for_each(|source, target, weight| found.push((source, target, weight.to_bits())));
                }
                let values: Vec<f64> = (0..vertices).map(|source| (source % 1000) as f64).collect();
                let mut add = |target, sum| *sums.entry(target as u64).or_default() += sum;
                let fold = Sum::of(|value: f64, weight| weight * value);
                cells.fold(Lookup::all(&values), &mut Near::default(), fold, &mut add);
                for (vertices, width) in [(vertices - 1, width), (vertices, width - 1)] {
                    // The last vertex and the last destination are in some cell; in that, they are found.
                    let beyond = cells.iter().any(|cell| {
                        let mut beyond = false;
                        cell.for_each(|source, target, _| beyond |= source >= vertices || target >= width);
                        beyond
                    });
                    prop_assert_eq!(Cells::check(payload, weights, count, vertices, width).is_err(), beyond);
                }
            }
            let expected = edges.iter().map(|edge| {
                (u64::from(edge.source()), u64::from(edge.destination()), kept(edge.weight()).to_bits())
            });
            prop_assert_eq!(plain(found.into_iter()), plain(expected));
            let mut expected = std::collections::BTreeMap::<u64, f64>::new();
            for edge in &edges {
                let term = kept(edge.weight()) * f64::from(edge.source() % 1000);
                *expected.entry(edge.destination().into()).or_default() += term;
            }
            prop_assert_eq!(sums, expected);
        }
    }
}
