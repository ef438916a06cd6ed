//! Writing the compact code: rows are cut into pieces, and pieces gathered into a cell until its chunk is full. What
//! a cell will take is known exactly at every moment, so that chunks are filled to the last bytes.

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
    pub(super) fn cut<E>(
        &mut self,
        row: &[R],
        mut emit: impl FnMut(usize, &[R]) -> Result<(), E>,
    ) -> Result<(), E> {
        if row.len() == 1 {
            return emit(NARROW - 1, row);
        }
        let Self { without_runs, sparse } = self;
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
            let rest = cut_by_length(close, NARROW, 2, &mut emit)?;
            sparse.extend_from_slice(rest);
        }
        cut_by_length(sparse, WIDE, 1, &mut emit).map(|_| ())
    }
}

fn has_run<R: Record>(row: &[R]) -> bool {
    row.windows(LEAST_RUN).any(|edges| edges.windows(2).all(|pair| pair[1].source() == pair[0].source() + 1))
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
    /// Sections with pieces, and bytes of all behind the cell's head.
    used: usize,
    body: usize,
}

/// Its pieces of one shape.
#[derive(Debug, Default)]
struct Section {
    halves: Vec<u16>,
    bytes: Vec<u8>,
    weights: Vec<f64>,
    steps: Vec<u32>,
    last: u32,
    /// Escapes that narrow and wide steps need; `None` where escapes cannot make up for narrow steps.
    narrow_escapes: Option<usize>,
    wide_escapes: usize,
}

impl Section {
    fn wide_bytes(pieces: usize, escapes: usize) -> usize {
        pieces * size_of::<u16>() + escapes * size_of::<Escape>()
    }

    /// Bytes of so many steps and their escapes, and whether they are wide.
    fn steps_bytes(pieces: usize, narrow: Option<usize>, wide: usize) -> (usize, bool) {
        let wide = Self::wide_bytes(pieces, wide);
        match narrow.map(|escapes| pieces + escapes * size_of::<Escape>()) {
            Some(narrow) if narrow <= wide => (narrow, false),
            _ => (wide, true),
        }
    }

    fn current(&self) -> (usize, bool) {
        Self::steps_bytes(self.steps.len(), self.narrow_escapes, self.wide_escapes)
    }

    fn clear(&mut self) {
        self.halves.clear();
        self.bytes.clear();
        self.weights.clear();
        self.steps.clear();
    }

    /// The steps' low bits go to `low`, with the number of bits; the rest to `escapes`.
    fn split_steps(&self, bits: u32, mut low: impl FnMut(u32), mut escape: impl FnMut(Escape)) {
        for (piece, &step) in self.steps.iter().enumerate() {
            low(step & ((1 << bits) - 1));
            if step >> bits > 0 {
                escape(Escape::new(piece, u64::from(step >> bits)));
            }
        }
    }
}

impl CellWriter {
    /// An empty cell.
    pub(super) fn new(weights: WeightKind) -> Self {
        let sections = std::array::from_fn(|_| Section::default());
        Self { weights, source_base: 0, first_destination: 0, edges: 0, sections, used: 0, body: 0 }
    }

    /// Adds a piece, if the cell stays within `room` bytes; otherwise false, and nothing is changed. The sources of a
    /// cell's pieces are those of one window, and the destinations of its pieces ascend.
    pub(super) fn push<R: Record>(
        &mut self,
        number: usize,
        source_base: u32,
        destination: u32,
        piece: &[R],
        room: usize,
    ) -> bool {
        let empty = self.edges == 0;
        let shape = SHAPES[number];
        let section = &self.sections[number];
        let pieces = section.steps.len();
        let (last, narrow, wide, before) = match (empty, pieces) {
            (true, _) => (destination, Some(0), 0, 0),
            (_, 0) => (self.first_destination, Some(0), 0, 0),
            _ => (section.last, section.narrow_escapes, section.wide_escapes, section.current().0),
        };
        let step = destination - last;
        let narrow = narrow
            .filter(|_| u64::from(step) < Escape::limit(u8::BITS))
            .map(|escapes| escapes + usize::from(step > u8::MAX.into()));
        let wide = wide + usize::from(step > u16::MAX.into());
        let (steps, _) = Section::steps_bytes(pieces + 1, narrow, wide);
        let weights = piece.len() * self.weights.bytes();
        let body = self.body + weights + shape.halves() * 2 + shape.bytes() + steps - before;
        let used = self.used + usize::from(pieces == 0);
        if (head_bytes(used) + body).next_multiple_of(8) > room {
            return false;
        }
        if empty {
            (self.source_base, self.first_destination) = (source_base, destination);
        }
        (self.used, self.body, self.edges) = (used, body, self.edges + piece.len() as u32);
        let section = &mut self.sections[number];
        (section.last, section.narrow_escapes, section.wide_escapes) = (destination, narrow, wide);
        section.steps.push(step);
        section.store(shape, source_base, piece);
        if self.weights != WeightKind::Unit {
            section.weights.extend(piece.iter().map(Record::weight));
        }
        true
    }

    /// Writes the cell to the start of `out`, returns its bytes, and begins an empty one.
    pub(super) fn finish(&mut self, out: &mut [u8]) -> usize {
        if self.edges == 0 {
            return 0;
        }
        let len = (head_bytes(self.used) + self.body).next_multiple_of(8);
        let mut parts = Parts::default();
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
        let out = &mut out[..len];
        out.fill(0);
        let (head, body) = out.split_at_mut(head_bytes(self.used));
        let (fixed, sections) = head.split_at_mut(size_of::<CellHeader>());
        fixed.copy_from_slice(bytemuck::bytes_of(&header));
        put(sections, &parts.headers);
        let body = put(body, &parts.weights);
        let body = put(body, &parts.escapes);
        let body = put(body, &parts.halves);
        put(body, &parts.bytes);
        self.sections.iter_mut().for_each(Section::clear);
        (self.edges, self.used, self.body) = (0, 0, 0);
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
    fn add(&mut self, section: &Section, weights: WeightKind) {
        let before = self.escapes.len();
        self.halves.extend_from_slice(&section.halves);
        self.bytes.extend_from_slice(&section.bytes);
        let Self { escapes, halves, bytes, .. } = self;
        let (_, wide) = section.current();
        if wide {
            section.split_steps(u16::BITS, |low| halves.push(low as u16), |escape| escapes.push(escape));
        } else {
            section.split_steps(u8::BITS, |low| bytes.push(low as u8), |escape| escapes.push(escape));
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
    use crate::grid::Sum;
    use crate::grid::chunk::RawEdgeF64;
    use crate::grid::compact::{Cells, Near, WINDOW};

    type Plain = (u64, u64, u64);

    /// Packs rows of one window into payloads of at most `room` bytes; returns them with their edges' numbers.
    fn pack(edges: &[RawEdgeF64], base: u32, weights: WeightKind, room: usize) -> Vec<(Vec<u8>, u32)> {
        let (mut writer, mut cutter) = (CellWriter::new(weights), Cutter::new());
        let (mut payloads, mut count) = (Vec::new(), 0);
        for row in edges.chunk_by(|a, b| a.destination == b.destination) {
            let cut = cutter.cut(row, |section, piece| {
                if !writer.push(section, base, row[0].destination, piece, room) {
                    let mut payload = vec![0xaa; room];
                    let len = writer.finish(&mut payload);
                    payload.truncate(len);
                    payloads.push((payload, std::mem::take(&mut count)));
                    assert!(writer.push(section, base, row[0].destination, piece, room));
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

    fn edges(rows: &[(u32, Vec<u32>)], base: u32) -> Vec<RawEdgeF64> {
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
                RawEdgeF64 { source: base + source, destination, weight }
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
            let width = edges.last().map_or(1, |edge| u64::from(edge.destination) + 1);
            let vertices = edges.iter().map(|edge| u64::from(edge.source) + 1).max().unwrap_or(1);
            let (mut found, mut sums) = (Vec::new(), std::collections::BTreeMap::<u64, f64>::new());
            for (payload, count) in pack(&edges, base, weights, room) {
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
                cells.fold(&values, &mut Near::default(), fold, &mut add);
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
                (u64::from(edge.source), u64::from(edge.destination), kept(edge.weight).to_bits())
            });
            prop_assert_eq!(plain(found.into_iter()), plain(expected));
            let mut expected = std::collections::BTreeMap::<u64, f64>::new();
            for edge in &edges {
                let term = kept(edge.weight) * f64::from(edge.source % 1000);
                *expected.entry(edge.destination.into()).or_default() += term;
            }
            prop_assert_eq!(sums, expected);
        }
    }
}
