//! Third phase: buckets to chunks.
//!
//! A column is cut into *segments*: consecutive buckets whose edges can be sorted at once in a thread's share of
//! memory; threads take segments in turn, of the same column or of others. The bytes of a raw segment are known from
//! its edges alone, so that its place is known before it is encoded; a compact one is encoded into the memory that
//! its sort has left free, and gets its place in its turn. A segment begins a new chunk; the padding that costs is a
//! few KiB in many MiB. A bucket too large for one sort is a segment of several sorted *parts*. Sums are exact, so
//! the order of segments and parts matters to no result.

use std::fs::File;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::dataset::Context;
use crate::grid::chunk::CHUNK;
use crate::grid::columns::Buckets;
use crate::grid::error::GridError;
use crate::grid::manifest::{Column, Encoding, WeightKind};
use crate::grid::parallel::on_threads;
use crate::grid::renumbering::Renumbering;
use crate::progress::Unit;
use crate::storage::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::stripe::Stripes;

use super::account::{Account, Degrees, Totals};
use super::cell::Cutter;
use super::in_weight::{ONE, Units};
use super::output::{Halt, Packer, Run};
use super::plan::{EncodePlan, READ};
use super::sort::{Keys, Record, Sorter, Unweighted, Weighted};
use super::spill::{Extent, Packing, Spill, WORD};
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
            for buckets in segments(counts, range.clone(), part) {
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

/// Cuts a column's buckets into runs of at most `edges` edges, or of one bucket.
fn segments(counts: &[u64], column: Range<usize>, edges: u64) -> impl Iterator<Item = Range<usize>> {
    let mut start = column.start;
    std::iter::from_fn(move || {
        let first = (start < column.end).then_some(start)?;
        let (mut end, mut sum) = (first + 1, counts[first]);
        while end < column.end && sum + counts[end] <= edges {
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
    pub(super) packing: Packing,
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
    pub(super) degrees: Degrees,
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
            WeightKind::Unit => self.run_as::<Unweighted>(plan, context),
            WeightKind::F32 | WeightKind::F64 => self.run_as::<Weighted>(plan, context),
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

    fn too_many_arcs(&self, position: u32) -> GridError {
        let vertex = self.renumbering.dense(position.into());
        GridError::Degree { graph: self.graph.to_owned(), vertex }
    }

    /// Edges of the longest part.
    fn longest_part(&self) -> usize {
        let longest = self.places.segments.iter().map(|segment| segment.edges).max().unwrap_or(0);
        longest.min(self.places.part) as usize
    }
}

/// One thread's buffers.
struct Worker<'a, R> {
    encoder: &'a Encoder<'a>,
    units: Units,
    /// Two buffers of [`Encoder::longest_part`] records, between which the sort goes back and forth; on huge pages, since
    /// it writes to many places at once.
    records: AlignedBuffer,
    scratch: AlignedBuffer,
    record: PhantomData<R>,
    sorter: Sorter,
    /// Sorted stretches of the records, one of each bucket in the part that is being made.
    runs: Vec<Range<usize>>,
    /// Sums of the weights of a bucket's destinations, in `units`.
    in_weights: Vec<u64>,
    /// Records as the spill has them.
    packed: Vec<u8>,
    run: Run<'a>,
    packer: Packer<'a>,
    cutter: Cutter<R>,
    totals: Totals,
}

impl<'a, R: Record> Worker<'a, R> {
    fn new(encoder: &'a Encoder<'a>) -> Self {
        // Compact chunks are made in the memory of the scratch: one at least.
        let bytes = (encoder.longest_part() * size_of::<R>()).max(CHUNK).next_multiple_of(ALIGNMENT);
        Self {
            encoder,
            units: Units::new(encoder.max_abs_weight),
            records: AlignedBuffer::on_huge_pages(bytes),
            scratch: AlignedBuffer::on_huge_pages(bytes),
            record: PhantomData,
            sorter: Sorter::new(),
            runs: Vec::new(),
            in_weights: vec![0; 1 << encoder.buckets.shift],
            packed: vec![0; READ + WORD],
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
        self.run.start(segment.first_chunk);
        self.packer.start(number, segment.column);
        let part = self.encoder.places.part.min(segment.edges) as usize;
        let (mut filled, mut left) = (0, segment.edges);
        for bucket in segment.buckets.clone() {
            let mut start = filled;
            for extent in self.encoder.spill.take(bucket) {
                let mut skip = 0;
                while skip < extent.records as usize {
                    let count = (extent.records as usize - skip).min(part - filled);
                    self.load(bucket, &extent, skip, filled, count)?;
                    (skip, filled, left) = (skip + count, filled + count, left - count as u64);
                    if filled == part && left > 0 {
                        self.sort(bucket, start..filled);
                        self.encode_part(segment, filled, false, stopped)?;
                        context.progress.advance(filled as u64);
                        (start, filled) = (0, 0);
                    }
                }
                self.encoder.spill.release(&extent);
            }
            self.sort(bucket, start..filled);
            for in_weight in &mut self.in_weights {
                self.totals.max_in_weight = self.totals.max_in_weight.max(std::mem::take(in_weight));
            }
        }
        self.encode_part(segment, filled, true, stopped)?;
        context.progress.advance(filled as u64);
        self.run.write()?;
        Ok(())
    }

    /// Loads `count` records of an extent of a bucket, from the `skip`-th on, to place `at`. Their weights are added up
    /// meanwhile, since here their sums are those of one bucket, in the cache.
    fn load(
        &mut self,
        bucket: usize,
        extent: &Extent,
        skip: usize,
        at: usize,
        count: usize,
    ) -> Result<(), GridError> {
        let Encoder { spill, packing, buckets, .. } = self.encoder;
        let first = (bucket << buckets.shift) as u32;
        let record = extent.form.bytes();
        let Self { records, packed, in_weights, units, .. } = self;
        let mut skip = skip;
        let mut rest = &mut bytemuck::cast_slice_mut::<u8, R>(records)[at..at + count];
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min(READ / record));
            let bytes = spill.view(extent, skip, now.len(), packed)?;
            let mut free = now.iter_mut();
            packing.unpack(extent.form, bytes, |source, target, weight| {
                if let Some(free) = free.next() {
                    *free = R::new(source, first + target, weight);
                }
                let more = if R::WEIGHTED { units.of(weight) } else { ONE };
                let in_weight = &mut in_weights[target as usize];
                *in_weight = in_weight.saturating_add(more);
            });
            (skip, rest) = (skip + now.len(), later);
        }
        Ok(())
    }

    /// Sorts a bucket's records. Those of the buckets before go to lower destinations, so that their runs need no
    /// merging, only to take turns, window by window; and a bucket is sorted in less memory than a column.
    fn sort(&mut self, bucket: usize, range: Range<usize>) {
        let Encoder { buckets, vertices, source_window, .. } = *self.encoder;
        if range.is_empty() {
            return;
        }
        let keys = Keys {
            first: (bucket << buckets.shift) as u32,
            width: 1 << buckets.shift,
            vertices,
            window: source_window,
        };
        let len = range.len();
        let records = &mut bytemuck::cast_slice_mut::<u8, R>(&mut self.records)[range.clone()];
        self.sorter.sort(records, &mut bytemuck::cast_slice_mut(&mut self.scratch)[..len], keys);
        self.runs.push(range);
    }

    /// Makes chunks of the sorted runs, `count` edges in all. `last` is the segment's last part.
    fn encode_part(
        &mut self,
        segment: &Segment,
        count: usize,
        last: bool,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), Halt> {
        if stopped() {
            return Err(Halt::Stopped);
        }
        let Self { encoder, records, scratch, runs, packer, cutter, totals, run, .. } = self;
        let mut account = Account { totals, renumbering: encoder.renumbering };
        let mut runs: Vec<&[R]> = runs.drain(..).map(|range| &bytemuck::cast_slice(records)[range]).collect();
        let size = encoder.source_window;
        let mut copied = 0;
        let first = |run: &&[R]| run.first().map(|edge| u64::from(edge.source()) / size);
        // Where few edges come from each line of counters, most lines are not needed.
        let is_dense = count as u64 >= encoder.vertices / 16;
        while let Some(window) = runs.iter().filter_map(first).min() {
            let end = (window + 1).saturating_mul(size);
            if is_dense {
                encoder.degrees.warm(window * size..end);
            }
            for run in &mut runs {
                let (edges, later) = run.split_at(before(run, end));
                *run = later;
                encoder.degrees.count(window, edges).map_err(|vertex| encoder.too_many_arcs(vertex))?;
                if encoder.encoding == Encoding::Raw {
                    bytemuck::cast_slice_mut(scratch)[copied..copied + edges.len()].copy_from_slice(edges);
                    copied += edges.len();
                } else {
                    packer.pack(edges, (window * size) as u32, cutter, scratch, &mut account, stopped)?;
                }
            }
            packer.end_window(scratch);
        }
        if encoder.encoding == Encoding::Compact {
            return packer.end(scratch, last, stopped);
        }
        for edges in
            bytemuck::cast_slice::<u8, R>(scratch)[..count].chunks(encoder.weights.edges_per_chunk() as usize)
        {
            let digest = account.rows(edges);
            run.push(segment.column, edges, digest)?;
        }
        Ok(())
    }
}

/// How many edges of a run come before a source, where those that do come first.
fn before<R: Record>(run: &[R], end: u64) -> usize {
    let inside = |edge: &R| u64::from(edge.source()) < end;
    let mut reach = 1;
    while run.get(reach - 1).is_some_and(inside) {
        reach *= 2;
    }
    let (low, high) = (reach / 2, reach.min(run.len()));
    low + run[low..high].partition_point(inside)
}
