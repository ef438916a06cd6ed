//! First phase: which vertices there are, as far as the source's rule does not say it beforehand.
//!
//! Text is parsed once: its edges go to a binary spill, from which the ids are gathered and which the next phase
//! reads. A binary list whose vertices are `0..=max` is cheap to read twice instead.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::dataset::{Context, Edge, EdgeSource, SinkClosed, Summary, VertexSet};
use crate::grid::error::GridError;
use crate::grid::parallel::{Stop, lock, on_threads};
use crate::progress::Unit;

use super::ids::{Distinct, IdMap, Marks, TooMany};
use super::plan::{Budget, IdPlan, READ};
use super::spill::{Extent, Form, Spill, WORD};

/// What is known before edges are dealt out.
pub(super) struct Survey<'a> {
    pub(super) ids: IdMap,
    /// `seen`, `range`, `declared` or `given`.
    pub(super) rule: &'static str,
    /// Position of each dense index, where the order is not natural: set by who knows the columns.
    pub(super) positions: Option<Vec<u32>>,
    /// Where to read the edges now.
    pub(super) edges: Edges<'a>,
}

/// Edges with original ids.
pub(super) enum Edges<'a> {
    /// From their source.
    Source(&'a dyn EdgeSource),
    /// From the spill of the survey.
    Spilled(Spill, Summary),
}

/// Finds the vertices.
pub(super) fn survey<'a>(
    source: &'a dyn EdgeSource,
    folder: &Path,
    stage: &str,
    budget: &Budget,
    context: Context<'_>,
) -> Result<Survey<'a>, GridError> {
    let dense = |vertices, rule| Survey {
        ids: IdMap::Identity { vertices },
        rule,
        positions: None,
        edges: Edges::Source(source),
    };
    match source.vertices() {
        VertexSet::Declared(vertices) => Ok(dense(vertices, "declared")),
        VertexSet::Given(vertices) => Ok(dense(vertices, "given")),
        VertexSet::Range => survey_range(source, stage, context),
        VertexSet::Seen => survey_seen(source, folder, stage, budget, context),
    }
}

/// Reads a source to the end; `take` gets batches with the number of the worker, and may stop it all.
pub(super) fn read_source(
    source: &dyn EdgeSource,
    stage: &str,
    context: Context<'_>,
    take: impl Fn(usize, &[Edge]) -> Result<(), GridError> + Sync,
) -> Result<Summary, GridError> {
    let stop = Stop::new(context.interrupt);
    let (total, unit) = source.size();
    context.progress.begin(stage, total, unit);
    let summary = source.read(context, &|worker, edges| {
        take(worker, edges).map_err(|error| {
            stop.fail(error);
            SinkClosed
        })
    });
    context.progress.end();
    stop.finish()?;
    Ok(summary?)
}

fn survey_range<'a>(
    source: &'a dyn EdgeSource,
    stage: &str,
    context: Context<'_>,
) -> Result<Survey<'a>, GridError> {
    let (total, unit) = source.size();
    context.progress.begin(&format!("{stage}: count vertices"), total, unit);
    let largest = source.largest_id(context);
    context.progress.end();
    let vertices = largest?.map_or(0, |largest| u128::from(largest) + 1);
    let vertices = u64::try_from(vertices)
        .map_err(|_| GridError::TooManyVertices { graph: source.describe(), vertices })?;
    Ok(Survey {
        ids: IdMap::Identity { vertices },
        rule: "range",
        positions: None,
        edges: Edges::Source(source),
    })
}

fn largest_id(edges: &[Edge]) -> u64 {
    edges.iter().fold(0, |largest, edge| largest.max(edge.source).max(edge.target))
}

fn survey_seen<'a>(
    source: &'a dyn EdgeSource,
    folder: &Path,
    stage: &str,
    budget: &Budget,
    context: Context<'_>,
) -> Result<Survey<'a>, GridError> {
    let spill = Spill::create(folder, 1, 0)?;
    let writers: Vec<_> =
        (0..context.threads).map(|_| Mutex::new(spill.writer(READ, Form::NARROW))).collect();
    let largest = AtomicU64::new(0);
    let summary = read_source(source, &format!("{stage}: read"), context, |worker, edges| {
        largest.fetch_max(largest_id(edges), Ordering::Relaxed);
        let mut writer = lock(&writers[worker]);
        writer.widen(Form::of(edges))?;
        edges.iter().try_for_each(|edge| writer.append_edge(0, edge))
    })?;
    writers.iter().try_for_each(|writer| lock(writer).flush())?;
    drop(writers);
    let ids = gather_ids(&spill, largest.into_inner(), stage, budget, context)?;
    Ok(Survey { ids, rule: "seen", positions: None, edges: Edges::Spilled(spill, summary) })
}

/// The map of all ids in the spill, of which `largest` is the largest.
fn gather_ids(
    spill: &Spill,
    largest: u64,
    stage: &str,
    budget: &Budget,
    context: Context<'_>,
) -> Result<IdMap, GridError> {
    if spill.records(0) == 0 {
        return Ok(IdMap::Identity { vertices: 0 });
    }
    let stage = format!("{stage}: number vertices");
    match budget.ids(largest) {
        IdPlan::Bitmap => {
            let marks = Marks::new(largest);
            read_spill(spill, Keep::All, &stage, context, |_, edges| {
                for edge in edges {
                    marks.mark(edge.source);
                    marks.mark(edge.target);
                }
                Ok(())
            })?;
            Ok(marks.into_map(largest))
        }
        IdPlan::Sorted { limit, collector } => {
            let distinct = Distinct::new(limit);
            let collectors: Vec<_> =
                (0..context.threads).map(|_| Mutex::new(distinct.collector(collector))).collect();
            let refuse = |TooMany(ids)| budget.refuse_ids(ids);
            read_spill(spill, Keep::All, &stage, context, |worker, edges| {
                let mut collector = lock(&collectors[worker]);
                let mut add =
                    |edge: &Edge| collector.add(edge.source).and_then(|()| collector.add(edge.target));
                edges.iter().try_for_each(&mut add).map_err(refuse)
            })?;
            for collector in collectors {
                let collector = collector.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
                collector.finish().map_err(refuse)?;
            }
            Ok(distinct.into_map())
        }
    }
}

/// What becomes of a spill's extents when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// They will be read again.
    All,
    /// Their space is given back.
    Nothing,
}

/// Reads the spill of a survey with many threads, as [`read_source`] reads a source.
pub(super) fn read_spill(
    spill: &Spill,
    keep: Keep,
    stage: &str,
    context: Context<'_>,
    take: impl Fn(usize, &[Edge]) -> Result<(), GridError> + Sync,
) -> Result<(), GridError> {
    let extents = spill.take(0);
    let next = AtomicUsize::new(0);
    let total = extents.iter().map(|extent| u64::from(extent.records)).sum();
    context.progress.begin(stage, Some(total), Unit::Edges);
    let result = on_threads(context.threads, context.interrupt, |worker, stop| {
        let (mut bytes, mut edges) = (Vec::new(), Vec::with_capacity(BATCH));
        while let Some(extent) = extents.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.raised() {
                break;
            }
            read_extent(spill, extent, &mut bytes, &mut edges, |edges| take(worker, edges))?;
            context.progress.advance(extent.records.into());
            if keep == Keep::Nothing {
                spill.release(extent);
            }
        }
        Ok(())
    });
    context.progress.end();
    if keep == Keep::All {
        spill.put_back(0, extents);
    }
    result.map(|_| ())
}

/// Edges handed on at once.
const BATCH: usize = 4096;

fn read_extent(
    spill: &Spill,
    extent: &Extent,
    bytes: &mut Vec<u8>,
    edges: &mut Vec<Edge>,
    take: impl Fn(&[Edge]) -> Result<(), GridError>,
) -> Result<(), GridError> {
    let (record, count) = (extent.form.bytes(), extent.records as usize);
    bytes.resize(count * record + WORD, 0);
    let bytes = spill.view(extent, 0, count, bytes)?;
    for batch in bytes[..count * record].chunks(BATCH * record) {
        edges.clear();
        edges.extend(batch.chunks_exact(record).map(|record| extent.form.decode(record)));
        take(edges)?;
    }
    Ok(())
}
