//! Shortest paths from one vertex along the arcs, weights as lengths: synchronous Bellman-Ford. A pass takes for every
//! vertex the least of the distances over its arcs in, from the distances of the pass before; so the number of passes
//! does not depend on the order of blocks. Blocks of which no source has come nearer in the pass before are not read.
//!
//! A distance is a sum in the order of its path, and the least of some numbers is exact: so every layout has the same
//! bits, and so has Dijkstra's algorithm.

use std::sync::{Mutex, PoisonError};

use super::exact::result_checksum;
use super::root::{Root, summary};
use super::targets::{ColumnTargets, Targets, split};
use super::{GraphAlgorithm, Outcome, Setup, SetupError, Values};
use crate::engine::active::{Active, Marks};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::grid::manifest::{Column, WeightKind};
use crate::grid::{BlockView, ChunkError, Fold, Grid, Lookup, Renumbering};
use crate::job::spec::SsspSpec;
use crate::storage::error::StorageError;
use crate::storage::huge;

/// Bytes kept per vertex: distances before and after a pass, and the least that it found.
pub const STATE_BYTES_PER_VERTEX: u64 = 24;

/// The state between passes.
pub(crate) struct Sssp {
    columns: Vec<Column>,
    renumbering: Renumbering,
    root: Option<Root>,
    /// Whether the graph has no weights, and every arc the length 1.
    unit: bool,
    distances: Vec<f64>,
    next: Vec<f64>,
    least: Targets<f64>,
    active: Active,
    marks: Marks,
    done: u64,
}

impl Sssp {
    pub(crate) fn new(spec: &SsspSpec, setup: Setup<'_>) -> Result<Self, SetupError> {
        let manifest = &setup.grid.manifest;
        if manifest.negative_weights > 0 {
            let (count, graph) = (manifest.negative_weights, setup.graph.to_owned());
            return Err(SetupError::Negative { count, graph });
        }
        let bound = manifest.max_abs_weight * manifest.vertices as f64;
        if !bound.is_finite() {
            return Err(SetupError::Overflow { bound });
        }
        let vertices = manifest.vertices as usize;
        let renumbering = setup.grid.renumbering()?;
        let root = Root::find(spec.root, setup.grid, &renumbering, setup.graph)?;
        let mut distances = huge::filled(vertices, f64::INFINITY);
        let mut marks = Marks::new(vertices);
        if let Some(Root { position, .. }) = root {
            distances[position] = 0.0;
            marks.mark(position);
        }
        Ok(Self {
            columns: manifest.columns.clone(),
            renumbering,
            root,
            unit: manifest.weights == WeightKind::Unit,
            distances,
            next: huge::filled(vertices, f64::INFINITY),
            least: Targets::of_grid(setup, f64::INFINITY),
            active: marks.take(),
            marks,
            done: 0,
        })
    }
}

impl Algorithm for Sssp {
    /// A shortest path has fewer arcs than there are vertices, and the last pass finds nothing.
    fn passes(&self) -> u64 {
        self.distances.len() as u64
    }

    fn selective(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        if self.active.is_empty() {
            return None;
        }
        let next = split(&mut self.next, &self.columns).into_iter().map(Mutex::new).collect();
        Some(Box::new(SsspPass {
            distances: &self.distances,
            active: &self.active,
            least: self.least.by_column(&self.columns),
            next,
            columns: &self.columns,
            marks: &self.marks,
        }))
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.done += 1;
        std::mem::swap(&mut self.distances, &mut self.next);
        self.active = self.marks.take();
        Ok(())
    }
}

struct SsspPass<'a> {
    distances: &'a [f64],
    active: &'a Active,
    least: Vec<ColumnTargets<'a, f64>>,
    next: Vec<Mutex<&'a mut [f64]>>,
    columns: &'a [Column],
    marks: &'a Marks,
}

/// The least distance over the arcs.
#[derive(Clone, Copy)]
struct Least<'a>(&'a Active);

impl Fold for Least<'_> {
    type Value = f64;
    type Term = f64;

    const IDEMPOTENT: bool = true;

    #[inline]
    fn term(self, _source: usize, value: &f64, weight: f64) -> f64 {
        value + weight
    }

    /// No distance is NaN, and no zero has a sign, so this is the least: one instruction, which `f64::min` is not.
    #[inline]
    fn combine(self, all: f64, term: f64) -> f64 {
        if term < all { term } else { all }
    }

    #[inline]
    fn touch(value: &f64) {
        std::hint::black_box(*value);
    }

    fn wants(self, sources: std::ops::Range<usize>) -> bool {
        self.0.any(sources)
    }
}

impl Pass for SsspPass<'_> {
    fn block(
        &self,
        column: usize,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
    ) -> Result<Taken, ChunkError> {
        self.least[column].fold(block, if_owned, Lookup::all(self.distances), Least(self.active))
    }

    fn column_done(&self, column: usize) -> Result<(), StorageError> {
        let mut next = self.next[column].lock().unwrap_or_else(PoisonError::into_inner);
        let first_vertex = self.columns[column].first_vertex as usize;
        self.least[column].drain(Least(self.active), |first, least| {
            let start = first_vertex + first;
            let old = &self.distances[start..start + least.len()];
            let next = &mut next[first..first + least.len()];
            let mut nearer = false;
            for ((next, &old), &least) in next.iter_mut().zip(old).zip(&*least) {
                nearer |= least < old;
                *next = if least < old { least } else { old };
            }
            if nearer {
                for (vertex, (next, old)) in (start..).zip(next.iter().zip(old)) {
                    if next < old {
                        self.marks.mark(vertex);
                    }
                }
            }
        });
        Ok(())
    }

    fn active(&self) -> Option<&Active> {
        Some(self.active)
    }
}

impl GraphAlgorithm for Sssp {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, _: &Grid) -> Result<Outcome, SetupError> {
        let Self { renumbering, root, unit, distances, done, next, least, .. } = *self;
        // Gone before the distances are put in order, which takes as much as one of them.
        drop((next, least));
        let values = renumbering.to_dense(distances);
        let mut result = summary(root, &values, "distance");
        if unit {
            result += " (the graph has no weights: every arc has the length 1)";
        }
        Ok(Outcome {
            iterations: done,
            converged: None,
            residual: None,
            checksum: result_checksum(&values),
            values: Some(Values::Held(values)),
            quantum: None,
            result: Some(result),
        })
    }
}
