//! Third phase: buckets to chunks.
//!
//! A column is cut into *segments*: consecutive buckets whose edges can be sorted at once in a thread's share of
//! memory; threads take segments in turn, of the same column or of others. The bytes of a raw segment are known from
//! its edges alone, so that its place is known before it is encoded; a compact one is encoded into the memory that
//! its sort has left free, and gets its place in its turn. A segment begins a new chunk; the padding that costs is a
//! few KiB in many MiB. A bucket too large for one sort is a segment of several sorted *parts*. Sums are exact, so
//! the order of segments and parts matters to no result.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use std::fs::File;
use std::path::PathBuf;

use crate::dataset::Context;
use crate::grid::chunk::{CHUNK, RawEdge, RawEdgeF64};
use crate::grid::columns::Buckets;
use crate::grid::digest::digest;
use crate::grid::error::GridError;
use crate::grid::manifest::{Column, Encoding, WeightKind};
use crate::grid::parallel::on_threads;
use crate::grid::renumbering::Renumbering;
use crate::progress::Unit;
use crate::storage::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::stripe::Stripes;

use super::cell::Cutter;
use super::in_weight::Units;
use super::output::{Halt, Packer, Run};
use super::plan::{EncodePlan, READ};
use super::sort::{Keys, Record, sort};
use super::spill::{Extent, Form, Spill};
use super::turns::Turns;

/// Consecutive buckets of one column that one thread encodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    column: u32,
    buckets: Range<usize>,
    edges: u64,
    first_chunk: u64,
}

/// Where everything will lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) columns: Vec<Column>,
    segments: Vec<Segment>,
    /// Edges sorted at once: whole raw chunks, except at the end of a segment.
    part: u64,
}

impl Places {
    /// Places for columns, given as ranges of buckets with so many edges each. Compact segments have none yet.
    pub(super) fn new(
        encoding: Encoding,
        buckets: Buckets,
        counts: &[u64],
        columns: &[Range<usize>],
        weights: WeightKind,
        plan: EncodePlan,
    ) -> Self {
        let per_chunk = weights.edges_per_chunk();
        let part = (plan.segment_edges / per_chunk).max(1) * per_chunk;
        let mut places = Self { columns: Vec::with_capacity(columns.len()), segments: Vec::new(), part };
        let mut next_chunk = 0;
        for (range, column) in columns.iter().zip(0..) {
            let first_chunk = next_chunk;
            for buckets in segments(buckets, counts, range.clone(), part, plan.destinations) {
                let edges = counts[buckets.clone()].iter().sum();
                places.segments.push(Segment { column, buckets, edges, first_chunk: next_chunk });
                if encoding == Encoding::Raw {
                    next_chunk += edges_to_chunks(edges, per_chunk);
                }
            }
            let vertices = buckets.vertices_of(range);
            places.columns.push(Column {
                first_vertex: vertices.start,
                end_vertex: vertices.end,
                first_chunk,
                chunks: next_chunk - first_chunk,
                edges: counts[range.clone()].iter().sum(),
            });
        }
        places
    }

    /// The columns, where the segments took so many chunks each.
    pub(super) fn settle(mut self, chunks: &[u64]) -> Vec<Column> {
        for (segment, chunks) in self.segments.iter().zip(chunks) {
            self.columns[segment.column as usize].chunks += chunks;
        }
        let mut next_chunk = 0;
        for column in &mut self.columns {
            column.first_chunk = next_chunk;
            next_chunk += column.chunks;
        }
        self.columns
    }

    /// Segments of the whole grid.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }
}

fn edges_to_chunks(edges: u64, per_chunk: u64) -> u64 {
    edges.div_ceil(per_chunk)
}

/// Cuts a column's buckets into runs of at most `edges` edges and `destinations`, or of one bucket.
fn segments(
    buckets: Buckets,
    counts: &[u64],
    column: Range<usize>,
    edges: u64,
    destinations: u64,
) -> impl Iterator<Item = Range<usize>> {
    let widest = ((destinations >> buckets.shift) as usize).max(1);
    let mut start = column.start;
    std::iter::from_fn(move || {
        let first = (start < column.end).then_some(start)?;
        let (mut end, mut sum) = (first + 1, counts[first]);
        while end < column.end && end - first < widest && sum + counts[end] <= edges {
            sum += counts[end];
            end += 1;
        }
        start = end;
        Some(first..end)
    })
}

/// What all workers share.
pub(super) struct Encoder<'a> {
    pub(super) spill: &'a Spill,
    pub(super) buckets: Buckets,
    pub(super) encoding: Encoding,
    pub(super) places: &'a Places,
    pub(super) turns: Turns,
    pub(super) parts: Vec<(File, PathBuf)>,
    pub(super) stripes: Stripes,
    pub(super) grid_id: u64,
    pub(super) weights: WeightKind,
    pub(super) max_abs_weight: f64,
    pub(super) vertices: u64,
    pub(super) source_window: u64,
    pub(super) graph: &'a str,
    pub(super) renumbering: &'a Renumbering,
    /// What each chunk holds, written as the chunks are.
    pub(super) contents: (File, PathBuf),
    /// Out-degrees by position, counted here.
    pub(super) degrees: Vec<AtomicU32>,
}

/// Sums over what was encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) digest: u64,
    pub(super) self_loops: u64,
    pub(super) negative_weights: u64,
    /// Largest sum of a destination's weights, in [`Units`].
    pub(super) max_in_weight: u64,
}

impl Totals {
    fn and(self, other: Self) -> Self {
        Self {
            digest: self.digest.wrapping_add(other.digest),
            self_loops: self.self_loops + other.self_loops,
            negative_weights: self.negative_weights + other.negative_weights,
            max_in_weight: self.max_in_weight.max(other.max_in_weight),
        }
    }
}

impl Encoder<'_> {
    /// Encodes all segments. The files hold all chunks then, but are not synced.
    pub(super) fn run(
        &self,
        stage: &str,
        plan: EncodePlan,
        context: Context<'_>,
    ) -> Result<Totals, GridError> {
        let total = self.places.columns.iter().map(|column| column.edges).sum();
        context.progress.begin(&format!("{stage}: encode"), Some(total), Unit::Edges);
        let totals = match self.weights {
            WeightKind::Unit => self.run_as::<RawEdge>(plan, context),
            WeightKind::F32 | WeightKind::F64 => self.run_as::<RawEdgeF64>(plan, context),
        };
        context.progress.end();
        totals
    }

    fn run_as<R: Record>(&self, plan: EncodePlan, context: Context<'_>) -> Result<Totals, GridError> {
        let segments = &self.places.segments;
        let next = AtomicUsize::new(0);
        let totals = on_threads(plan.threads.min(segments.len()), context.interrupt, |_, stop| {
            let mut worker = Worker::<R>::new(self);
            let _guard = self.turns.guard();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(segment) = segments.get(number) else { break };
                match worker.encode(number, segment, &|| stop.raised(), context) {
                    Ok(()) => {}
                    Err(Halt::Stopped) => break,
                    Err(Halt::Failed(error)) => return Err(error),
                }
            }
            Ok(worker.totals)
        })?;
        let totals = totals.into_iter().fold(Totals::default(), Totals::and);
        if totals.max_in_weight == u64::MAX {
            return Err(GridError::InWeight { graph: self.graph.to_owned() });
        }
        Ok(totals)
    }

    /// Edges of the longest part.
    fn longest_part(&self) -> usize {
        let longest = self.places.segments.iter().map(|segment| segment.edges).max().unwrap_or(0);
        longest.min(self.places.part) as usize
    }

    /// Destinations of the widest segment.
    fn widest_segment(&self) -> usize {
        let width = |segment: &Segment| {
            let vertices = self.buckets.vertices_of(&segment.buckets);
            vertices.end - vertices.start
        };
        self.places.segments.iter().map(width).max().unwrap_or(0) as usize
    }
}

/// One thread's buffers. Fresh pages of all of them are zero and cost no memory until they are written.
struct Worker<'a, R> {
    encoder: &'a Encoder<'a>,
    units: Units,
    /// Two buffers of [`Encoder::longest_part`] records, between which the sort goes back and forth.
    records: AlignedBuffer,
    scratch: AlignedBuffer,
    in_weights: Vec<u64>,
    /// Bytes of extents in another form than R's.
    foreign: Vec<u8>,
    run: Run<'a>,
    packer: Packer<'a>,
    cutter: Cutter<R>,
    totals: Totals,
}

impl<'a, R: Record> Worker<'a, R> {
    fn new(encoder: &'a Encoder<'a>) -> Self {
        let bytes = (encoder.longest_part() * size_of::<R>()).max(CHUNK).next_multiple_of(ALIGNMENT);
        Self {
            encoder,
            units: Units::new(encoder.max_abs_weight),
            records: AlignedBuffer::new(bytes),
            scratch: AlignedBuffer::new(bytes),
            in_weights: vec![0; encoder.widest_segment()],
            foreign: Vec::new(),
            run: Run::new(encoder),
            packer: Packer::new(encoder),
            cutter: Cutter::new(),
            totals: Totals::default(),
        }
    }

    /// Encodes a segment, unless it is told to stop.
    fn encode(
        &mut self,
        number: usize,
        segment: &Segment,
        stopped: &dyn Fn() -> bool,
        context: Context<'_>,
    ) -> Result<(), Halt> {
        let vertices = self.encoder.buckets.vertices_of(&segment.buckets);
        let width = (vertices.end - vertices.start) as usize;
        self.in_weights[..width].fill(0);
        self.run.start(segment.first_chunk);
        self.packer.start(number, segment.column);
        let part = self.encoder.places.part.min(segment.edges) as usize;
        let (mut filled, mut left) = (0, segment.edges);
        for bucket in segment.buckets.clone() {
            for extent in self.encoder.spill.take(bucket) {
                let mut skip = 0;
                while skip < extent.records as usize {
                    let count = (extent.records as usize - skip).min(part - filled);
                    self.load(&extent, skip, filled, count)?;
                    (skip, filled, left) = (skip + count, filled + count, left - count as u64);
                    if filled == part && left > 0 {
                        self.encode_part(segment, &vertices, filled, false, stopped)?;
                        context.progress.advance(filled as u64);
                        filled = 0;
                    }
                }
                self.encoder.spill.release(&extent);
            }
        }
        self.encode_part(segment, &vertices, filled, true, stopped)?;
        context.progress.advance(filled as u64);
        self.run.write()?;
        let largest = self.in_weights[..width].iter().copied().max().unwrap_or(0);
        self.totals.max_in_weight = self.totals.max_in_weight.max(largest);
        Ok(())
    }

    /// Loads `count` records of an extent, from the `skip`-th on, to place `at`.
    fn load(&mut self, extent: &Extent, skip: usize, at: usize, count: usize) -> Result<(), GridError> {
        let spill = self.encoder.spill;
        let own = Form { wide: false, weighted: size_of::<R>() > size_of::<RawEdge>() };
        if extent.form == own {
            // Records of the spill are those of the sort, byte for byte.
            let bytes = at * size_of::<R>()..(at + count) * size_of::<R>();
            return spill.read(extent, skip, &mut self.records[bytes]);
        }
        self.foreign.resize(READ.min(count * extent.form.bytes()), 0);
        let records: &mut [R] = bytemuck::cast_slice_mut(&mut self.records);
        let at_once = self.foreign.len() / extent.form.bytes();
        for start in (0..count).step_by(at_once) {
            let records = &mut records[at + start..at + count.min(start + at_once)];
            let bytes = &mut self.foreign[..records.len() * extent.form.bytes()];
            spill.read(extent, skip + start, bytes)?;
            for (record, bytes) in records.iter_mut().zip(bytes.chunks_exact(extent.form.bytes())) {
                let edge = extent.form.decode(bytes);
                *record = R::new(edge.source as u32, edge.target as u32, edge.weight);
            }
        }
        Ok(())
    }

    /// Sorts the first `count` records and makes chunks of them. `last` is the segment's last part.
    fn encode_part(
        &mut self,
        segment: &Segment,
        vertices: &Range<u64>,
        count: usize,
        last: bool,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), Halt> {
        if stopped() {
            return Err(Halt::Stopped);
        }
        let encoder = self.encoder;
        let keys = Keys {
            first: vertices.start as u32,
            width: vertices.end - vertices.start,
            vertices: encoder.vertices,
            window: encoder.source_window,
        };
        let records = &mut bytemuck::cast_slice_mut::<u8, R>(&mut self.records)[..count];
        let scratch = &mut bytemuck::cast_slice_mut::<u8, R>(&mut self.scratch)[..count];
        if sort(records, scratch, keys) {
            std::mem::swap(&mut self.records, &mut self.scratch);
        }
        let records = &bytemuck::cast_slice::<u8, R>(&self.records)[..count];
        match encoder.encoding {
            Encoding::Raw => {
                for edges in records.chunks(encoder.weights.edges_per_chunk() as usize) {
                    let sum =
                        self.totals.add(edges, encoder, self.units, keys.first, &mut self.in_weights)?;
                    self.run.push(segment.column, edges, sum)?;
                }
            }
            Encoding::Compact => {
                let Self { scratch, packer, cutter, totals, units, in_weights, .. } = self;
                let window = |edge: &R| u64::from(edge.source()) / keys.window;
                for edges in records.chunk_by(|a, b| window(a) == window(b)) {
                    let base = (window(&edges[0]) * keys.window) as u32;
                    let account = |piece: &[R]| totals.add(piece, encoder, *units, keys.first, in_weights);
                    packer.pack(edges, base, cutter, scratch, account, stopped)?;
                }
                packer.end(scratch, last, stopped)?;
            }
        }
        Ok(())
    }
}

impl Totals {
    /// Counts edges, and returns the sum of their digests.
    fn add<R: Record>(
        &mut self,
        edges: &[R],
        encoder: &Encoder<'_>,
        units: Units,
        first: u32,
        in_weights: &mut [u64],
    ) -> Result<u64, GridError> {
        let mut sum = 0_u64;
        for edge in edges {
            let (source, target) = (edge.source(), edge.destination());
            let weight = edge.weight();
            let dense = |position: u32| encoder.renumbering.dense(position.into());
            sum = sum.wrapping_add(digest(dense(source), dense(target), weight.to_bits()));
            self.self_loops += u64::from(source == target);
            self.negative_weights += u64::from(weight < 0.0);
            let in_weight = &mut in_weights[(target - first) as usize];
            *in_weight = in_weight.saturating_add(units.of(weight));
            if encoder.degrees[source as usize].fetch_add(1, Ordering::Relaxed) == u32::MAX {
                return Err(GridError::Degree { graph: encoder.graph.to_owned(), vertex: dense(source) });
            }
        }
        self.digest = self.digest.wrapping_add(sum);
        Ok(sum)
    }
}
