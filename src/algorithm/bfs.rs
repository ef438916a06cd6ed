//! Breadth-first search along the arcs, level by level: a pass asks of every vertex whether an arc comes from the
//! frontier, which is one byte per vertex, so that a window of sources stays in the near cache. Blocks without a source
//! in the frontier are not read, and cells without one are not looked at.

use std::sync::{Mutex, PoisonError};

use super::exact::result_checksum;
use super::root::{Root, summary};
use super::targets::{ColumnTargets, DRAINED, Targets, split};
use super::{GraphAlgorithm, Outcome, Setup, SetupError, Values};
use crate::engine::active::{Active, Marks};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::grid::manifest::Column;
use crate::grid::{BlockView, ChunkError, Fold, Grid, Lookup, Renumbering};
use crate::job::spec::BfsSpec;
use crate::storage::error::StorageError;
use crate::storage::huge;

/// Bytes kept per vertex: at the end, level and value; before, level, two frontiers and what is found.
pub const STATE_BYTES_PER_VERTEX: u64 = 12;

/// The level of a vertex that was not reached.
const UNREACHED: u32 = u32::MAX;

/// The state between passes.
pub(crate) struct Bfs {
    columns: Vec<Column>,
    renumbering: Renumbering,
    root: Option<Root>,
    levels: Vec<u32>,
    /// 1 for each vertex of the last level found.
    frontier: Vec<u8>,
    next: Vec<u8>,
    found: Targets<u8>,
    active: Active,
    marks: Marks,
    done: u32,
}

impl Bfs {
    pub(crate) fn new(spec: &BfsSpec, setup: Setup<'_>) -> Result<Self, SetupError> {
        let manifest = &setup.grid.manifest;
        let vertices = manifest.vertices as usize;
        let renumbering = setup.grid.renumbering()?;
        let root = Root::find(spec.root, setup.grid, &renumbering, setup.graph)?;
        let mut levels = huge::filled(vertices, UNREACHED);
        let mut frontier = huge::filled(vertices, 0);
        let mut marks = Marks::new(vertices);
        if let Some(Root { position, .. }) = root {
            levels[position] = 0;
            frontier[position] = 1;
            marks.mark(position);
        }
        Ok(Self {
            columns: manifest.columns.clone(),
            renumbering,
            root,
            levels,
            frontier,
            next: huge::filled(vertices, 0),
            found: Targets::of_grid(setup, 0),
            active: marks.take(),
            marks,
            done: 0,
        })
    }
}

impl Algorithm for Bfs {
    /// Each pass but the last reaches a vertex.
    fn passes(&self) -> u64 {
        self.levels.len() as u64
    }

    fn selective(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        if self.active.is_empty() {
            return None;
        }
        let levels = split(&mut self.levels, &self.columns);
        let next = split(&mut self.next, &self.columns);
        let vertices = levels.into_iter().zip(next).map(Mutex::new).collect();
        Some(Box::new(BfsPass {
            frontier: &self.frontier,
            active: &self.active,
            found: self.found.by_column(&self.columns),
            vertices,
            columns: &self.columns,
            marks: &self.marks,
            level: self.done + 1,
        }))
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.done += 1;
        std::mem::swap(&mut self.frontier, &mut self.next);
        self.active = self.marks.take();
        Ok(())
    }
}

/// Levels and next frontier of a column.
type Vertices<'a> = (&'a mut [u32], &'a mut [u8]);

struct BfsPass<'a> {
    frontier: &'a [u8],
    active: &'a Active,
    found: Vec<ColumnTargets<'a, u8>>,
    vertices: Vec<Mutex<Vertices<'a>>>,
    columns: &'a [Column],
    marks: &'a Marks,
    /// What this pass finds.
    level: u32,
}

/// 1 where an arc comes from the frontier.
#[derive(Clone, Copy)]
struct FromFrontier<'a>(&'a Active);

impl Fold for FromFrontier<'_> {
    type Value = u8;
    type Term = u8;

    const IDEMPOTENT: bool = true;

    #[inline]
    fn term(self, _source: usize, value: &u8, _weight: f64) -> u8 {
        *value
    }

    #[inline]
    fn combine(self, all: u8, term: u8) -> u8 {
        all | term
    }

    #[inline]
    fn touch(value: &u8) {
        std::hint::black_box(*value);
    }

    fn wants(self, sources: std::ops::Range<usize>) -> bool {
        self.0.any(sources)
    }
}

impl Pass for BfsPass<'_> {
    fn block(
        &self,
        column: usize,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
    ) -> Result<Taken, ChunkError> {
        self.found[column].fold(block, if_owned, Lookup::all(self.frontier), FromFrontier(self.active))
    }

    fn column_done(&self, column: usize) -> Result<(), StorageError> {
        let mut vertices = self.vertices[column].lock().unwrap_or_else(PoisonError::into_inner);
        let (levels, next) = &mut *vertices;
        let first_vertex = self.columns[column].first_vertex as usize;
        self.found[column].drain(FromFrontier(self.active), |first, found| {
            let range = first..first + found.len();
            let next = &mut next[range.clone()];
            // The frontier before last is there still.
            next.fill(0);
            if any(found) {
                let levels = &mut levels[range];
                for ((next, level), &found) in next.iter_mut().zip(&mut *levels).zip(&*found) {
                    *next = found & u8::from(*level == UNREACHED);
                    *level = if *next == 0 { *level } else { self.level };
                }
                let start = first_vertex + first;
                // A run of vertices is no longer than a granule, so that it is in two of them at most.
                const { assert!(DRAINED <= 1 << crate::engine::active::SHIFT) }
                if let Some(at) = next.iter().position(|&new| new != 0) {
                    self.marks.mark(start + at);
                }
                if let Some(at) = next.iter().rposition(|&new| new != 0) {
                    self.marks.mark(start + at);
                }
            }
        });
        Ok(())
    }

    fn active(&self) -> Option<&Active> {
        Some(self.active)
    }
}

/// Whether any is not 0, without a branch for each.
fn any(flags: &[u8]) -> bool {
    flags.iter().fold(0, |all, flag| all | flag) != 0
}

impl GraphAlgorithm for Bfs {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, _: &Grid) -> Result<Outcome, SetupError> {
        let Self { renumbering, root, levels, done, frontier, next, found, .. } = *self;
        // Gone before the levels are put in order, which takes as much.
        drop((frontier, next, found));
        let value = |level: u32| if level == UNREACHED { f64::INFINITY } else { level.into() };
        let values: Vec<f64> = renumbering.to_dense(levels).into_iter().map(value).collect();
        Ok(Outcome {
            iterations: done.into(),
            converged: None,
            residual: None,
            checksum: result_checksum(&values),
            result: Some(summary(root, &values, "level")),
            values: Some(Values::Held(values)),
            quantum: None,
        })
    }
}
