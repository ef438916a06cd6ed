//! Second phase: every edge, with the positions of its ends, to the bucket of its destination; and what must be known of the
//! weights before they are stored.

use std::path::Path;
use std::sync::Mutex;

use crate::dataset::{Context, Edge, Summary};
use crate::grid::columns::Buckets;
use crate::grid::error::GridError;
use crate::grid::manifest::WeightKind;
use crate::grid::parallel::lock;

use super::ids::IdMap;
use super::plan::ScatterPlan;
use super::spill::{Packing, Spill, Writer, any_weighted};
use super::survey::{Edges, Keep, Survey, read_source, read_spill};

/// Edges in their buckets.
pub(super) struct Partition {
    pub(super) buckets: Buckets,
    pub(super) spill: Spill,
    pub(super) packing: Packing,
    /// Edges of each bucket.
    pub(super) counts: Vec<u64>,
    pub(super) weights: WeightKind,
    /// Largest |weight|; 1 where there are none.
    pub(super) max_abs_weight: f64,
}

impl Partition {
    pub(super) fn edges(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// What a worker learned of the weights.
#[derive(Debug, Clone, Copy)]
struct Weights {
    max_abs: f64,
    /// Every weight is an f32, bit for bit.
    exact_in_f32: bool,
    any: bool,
}

impl Weights {
    const NONE: Self = Self { max_abs: 0.0, exact_in_f32: true, any: false };

    fn or(self, other: Self) -> Self {
        Self {
            max_abs: self.max_abs.max(other.max_abs),
            exact_in_f32: self.exact_in_f32 && other.exact_in_f32,
            any: self.any || other.any,
        }
    }

    fn of(edges: &[Edge]) -> Self {
        let one = |edge: &Edge| Self {
            max_abs: edge.weight.abs(),
            exact_in_f32: f64::from(edge.weight as f32).to_bits() == edge.weight.to_bits(),
            any: false,
        };
        edges.iter().map(one).fold(Self { any: true, ..Self::NONE }, Self::or)
    }

    /// How to store them. A source that says it is weighted stays so, even if every weight is 1.
    fn kind(self, summary: Summary) -> WeightKind {
        match (self.any || summary.weighted, self.exact_in_f32) {
            (false, _) => WeightKind::Unit,
            (true, true) => WeightKind::F32,
            (true, false) => WeightKind::F64,
        }
    }
}

/// Deals all edges into buckets.
pub(super) fn partition(
    survey: Survey<'_>,
    graph: &str,
    buckets: Buckets,
    plan: ScatterPlan,
    folder: &Path,
    stage: &str,
    context: Context<'_>,
) -> Result<Partition, GridError> {
    let spill = Spill::create(folder, buckets.count(), plan.hold)?;
    let Survey { ids, rule, positions, edges } = survey;
    let positions = positions.as_deref();
    let packing = Packing::new(ids.vertices(), buckets.shift);
    let context = Context { threads: plan.threads, ..context };
    let worker = |_| {
        let writer = spill.writer(plan.block, packing.form(false));
        let dense = Vec::with_capacity(PIECE);
        let (weights, ones) = (Weights::NONE, 0);
        let ids = &ids;
        Mutex::new(Scatter { writer, packing, ids, positions, buckets, graph, rule, weights, ones, dense })
    };
    let workers: Vec<_> = (0..plan.threads).map(worker).collect();
    let take = |worker: usize, edges: &[Edge]| lock(&workers[worker]).take(edges);
    let stage = format!("{stage}: partition");
    let (summary, expected) = match edges {
        Edges::Source(source) => {
            let summary = read_source(source, &stage, context, take)?;
            (summary, summary.edges)
        }
        Edges::Spilled(edges, summary) => {
            read_spill(&edges, Keep::Nothing, &stage, context, take)?;
            (summary, summary.edges)
        }
    };
    let mut weights = Weights::NONE;
    let mut ones = 0;
    for worker in &workers {
        let mut worker = lock(worker);
        worker.writer.flush()?;
        weights = weights.or(worker.weights);
        ones += worker.ones;
    }
    drop(workers);
    let counts: Vec<u64> = (0..buckets.count()).map(|bucket| spill.records(bucket)).collect();
    let found = counts.iter().sum();
    if found != expected {
        return Err(GridError::Changed { graph: graph.to_owned(), first: expected, second: found });
    }
    // Edges of weight 1 took the short cut, and count here.
    let kind = weights.kind(summary);
    let max_abs_weight = if ones > 0 || found == 0 { weights.max_abs.max(1.0) } else { weights.max_abs };
    Ok(Partition { buckets, spill, packing, counts, weights: kind, max_abs_weight })
}

/// One worker's buffers.
struct Scatter<'a> {
    writer: Writer<'a>,
    packing: Packing,
    ids: &'a IdMap,
    /// Position of each dense index, where they differ.
    positions: Option<&'a [u32]>,
    buckets: Buckets,
    graph: &'a str,
    rule: &'static str,
    weights: Weights,
    /// Edges in batches that were all of weight 1.
    ones: u64,
    dense: Vec<(u32, u32)>,
}

/// Ids mapped at once before they are scattered, so that the look-ups of many overlap.
pub(super) const PIECE: usize = 512;

impl Scatter<'_> {
    fn take(&mut self, edges: &[Edge]) -> Result<(), GridError> {
        edges.chunks(PIECE).try_for_each(|edges| self.scatter(edges))
    }

    fn scatter(&mut self, edges: &[Edge]) -> Result<(), GridError> {
        self.ids
            .map(edges, &mut self.dense)
            .map_err(|edge| unknown_vertex(self.graph, self.ids.vertices(), self.rule, edge))?;
        if let Some(positions) = self.positions {
            for (source, target) in &mut self.dense {
                (*source, *target) = (positions[*source as usize], positions[*target as usize]);
            }
        }
        let weighted = any_weighted(edges);
        if weighted {
            self.weights = self.weights.or(Weights::of(edges));
            check_weights(self.graph, edges)?;
        } else {
            self.ones += edges.len() as u64;
        }
        let Self { writer, packing, dense, buckets, .. } = self;
        if writer.widen(packing.form(weighted))?.weighted {
            for (&(source, target), edge) in dense.iter().zip(edges) {
                writer.append_weighted(buckets.of(target), *packing, source, target, edge.weight)?;
            }
        } else {
            writer.append_units(*buckets, *packing, dense)?;
        }
        Ok(())
    }
}

/// The error of an edge with an end that is no vertex.
pub(super) fn unknown_vertex(graph: &str, vertices: u64, rule: &'static str, edge: &Edge) -> GridError {
    let &Edge { source: source_id, target: target_id, .. } = edge;
    GridError::Vertex { graph: graph.to_owned(), source_id, target_id, vertices, rule }
}

/// Only NaN and infinities are not finite, and the maximum finds infinities, but not NaN: so each is looked at.
pub(super) fn check_weights(graph: &str, edges: &[Edge]) -> Result<(), GridError> {
    match edges.iter().find(|edge| !edge.weight.is_finite()) {
        None => Ok(()),
        Some(&Edge { source, target, weight }) => {
            Err(GridError::Weight { graph: graph.to_owned(), source_id: source, target_id: target, weight })
        }
    }
}
