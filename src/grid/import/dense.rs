//! A source's edges with dense ids and without a grid, as often as wanted: what exports are made of. Numbering the
//! vertices is the import's own first phase, so that an id means the same vertex in an export as in a grid.

use std::path::Path;
use std::sync::Mutex;

use crate::dataset::{Context, Edge, EdgeSource, Summary};
use crate::grid::error::GridError;
use crate::grid::parallel::lock;

use super::partition::{PIECE, check_weights, unknown_vertex};
use super::plan::{Budget, Limits};
use super::spill::any_weighted;
use super::survey::{Edges, Keep, Survey, read_source, read_spill, survey};

/// The edges of a source whose vertices are numbered.
pub(in crate::grid) struct DenseEdges<'a> {
    survey: Survey<'a>,
    budget: Budget,
    context: Context<'a>,
}

impl<'a> DenseEdges<'a> {
    /// Finds the vertices of a source, holding at most `memory` bytes. What must be kept of a text meanwhile goes to a
    /// temporary file in `folder`.
    pub(in crate::grid) fn open(
        source: &'a dyn EdgeSource,
        folder: &Path,
        stage: &str,
        memory: u64,
        context: Context<'a>,
    ) -> Result<Self, GridError> {
        let threads = context.threads.max(1);
        let context = Context { threads, ..context };
        let budget = Budget { graph: source.describe(), total: memory, threads, limits: Limits::default() };
        // A survey by one thread keeps the order of the source, which the one that reads it again then gives.
        let survey = survey(source, folder, stage, &budget, Context { threads: 1, ..context })?;
        let vertices = survey.ids.vertices();
        if vertices > 1 << 32 {
            return Err(GridError::TooManyVertices { graph: budget.graph, vertices: vertices.into() });
        }
        Ok(Self { survey, budget, context })
    }

    /// For messages.
    pub(in crate::grid) fn graph(&self) -> &str {
        &self.budget.graph
    }

    /// Number of vertices.
    pub(in crate::grid) fn vertices(&self) -> u64 {
        self.survey.ids.vertices()
    }

    /// `seen`, `range`, `declared` or `given`.
    pub(in crate::grid) fn rule(&self) -> &'static str {
        self.survey.rule
    }

    /// Whether edges carry weights, where that is known before all are read.
    pub(in crate::grid) fn weighted(&self) -> Option<bool> {
        match &self.survey.edges {
            Edges::Source(_) => None,
            Edges::Spilled(_, summary) => Some(summary.weighted),
        }
    }

    /// Threads that [`Self::read`] may use.
    pub(in crate::grid) fn threads(&self) -> usize {
        self.context.threads
    }

    /// Bytes of the budget that the numbering and so many threads leave.
    pub(in crate::grid) fn room(&self, threads: usize) -> u64 {
        self.budget.room(threads, self.survey.ids.bytes())
    }

    /// Reads all edges. `take` gets the number of the worker, dense ids and, for each, the edge as the source has it,
    /// whose weight is finite. One thread reads in the order of the source.
    pub(in crate::grid) fn read(
        &self,
        stage: &str,
        threads: usize,
        take: impl Fn(usize, &[(u32, u32)], &[Edge]) -> Result<(), GridError> + Sync,
    ) -> Result<Summary, GridError> {
        let context = Context { threads, ..self.context };
        let buffers: Vec<_> = (0..threads).map(|_| Mutex::new(Vec::with_capacity(PIECE))).collect();
        let map = |worker: usize, edges: &[Edge]| {
            let mut dense = lock(&buffers[worker]);
            edges.chunks(PIECE).try_for_each(|edges| {
                self.map(edges, &mut dense)?;
                take(worker, &dense, edges)
            })
        };
        match &self.survey.edges {
            Edges::Source(source) => read_source(*source, stage, context, map),
            Edges::Spilled(spill, summary) => {
                read_spill(spill, Keep::All, stage, context, map)?;
                Ok(*summary)
            }
        }
    }

    fn map(&self, edges: &[Edge], dense: &mut Vec<(u32, u32)>) -> Result<(), GridError> {
        let Survey { ids, rule, .. } = &self.survey;
        ids.map(edges, dense).map_err(|edge| unknown_vertex(self.graph(), ids.vertices(), rule, edge))?;
        if any_weighted(edges) { check_weights(self.graph(), edges) } else { Ok(()) }
    }
}
