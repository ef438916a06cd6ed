//! PageRank over streamed sources. What a pass reads and writes of a vertex is its contribution (once per band, and once)
//! and its out-degree; and of vertices without out-arcs, where a whole window is of them, neither. Ranks themselves are
//! kept only where something depends on them: the change of the last iteration, of each one with a tolerance, and the
//! result.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::ring::{Ring, Streamed};
use super::{StreamSetup, by_window, columns_of};
use crate::algorithm::exact::{Quantum, value_checksum};
use crate::algorithm::pagerank::{
    Contribution, Step, Totals, base, contribution, contributions, quantum, start,
};
use crate::algorithm::targets::{ColumnTargets, DRAINED, Targets};
use crate::algorithm::values::{Stored, Values};
use crate::algorithm::{GraphAlgorithm, Outcome, Setup, SetupError};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::engine::streaming::Sources;
use crate::grid::manifest::Column;
use crate::grid::{BlockView, ChunkError, Grid};
use crate::io::Shaper;
use crate::io::vertex_reader::VertexReader;
use crate::job::spec::PagerankSpec;
use crate::storage::error::StorageError;
use crate::storage::vertex_store::{Place, Vector, VertexStore, WINDOW};

/// The state between passes. A pass is that of a band; an iteration has one for each.
pub(super) struct Pagerank<C: Streamed> {
    spec: PagerankSpec,
    quantum: Quantum,
    columns: Vec<Column>,
    bands: Vec<Range<usize>>,
    band: usize,
    store: Arc<VertexStore>,
    shaper: Option<Arc<Shaper>>,
    vectors: Vectors,
    /// Windows in which a vertex has out-arcs.
    live: Vec<bool>,
    ring: Ring<C>,
    sums: Targets<f64>,
    totals: Mutex<Totals>,
    base: f64,
    done: u64,
    residual: Option<f64>,
    converged: bool,
}

/// What is kept of every vertex on the devices.
#[derive(Clone, Copy)]
struct Vectors {
    current: Vector,
    next: Vector,
    degrees: Vector,
    ranks: Vector,
}

impl<C: Contribution + Streamed> Pagerank<C> {
    pub(super) fn new(
        spec: &PagerankSpec,
        setup: Setup<'_>,
        stream: &StreamSetup<'_>,
    ) -> Result<Self, SetupError> {
        let manifest = &setup.grid.manifest;
        let (vertices, streaming) = (manifest.vertices, stream.streaming);
        let (quantum, start) = (quantum(spec, vertices)?, start(spec, vertices));
        let item = size_of::<C>() as u64;
        let (store, vectors) = VertexStore::create(&stream.folders, vertices, &[item, item, 4, 8])?;
        let vectors =
            Vectors { current: vectors[0], next: vectors[1], degrees: vectors[2], ranks: vectors[3] };
        let (mut live, mut totals) = (Vec::new(), Totals::new(quantum));
        let mut degrees = setup.grid.degrees_in_turn()?;
        for first in (0..vertices).step_by(WINDOW as usize) {
            let window: Vec<u32> = degrees.by_ref().take(WINDOW as usize).collect::<Result<_, _>>()?;
            window.iter().filter(|&&degree| degree == 0).for_each(|_| totals.dangling.add(start));
            live.push(window.iter().any(|&degree| degree > 0));
            if live.last() == Some(&true) {
                let values: Vec<C> =
                    window.iter().map(|&degree| contribution(start, degree, quantum)).collect();
                store.write(vectors.current, first, &values)?;
                store.write(vectors.degrees, first, &window)?;
            }
        }
        // To its end, where the checksum is.
        degrees.try_for_each(|rest| rest.map(drop))?;
        store.settle()?;
        let mut pagerank = Self {
            spec: spec.clone(),
            quantum,
            columns: manifest.columns.clone(),
            bands: streaming.bands.clone(),
            band: 0,
            store: Arc::new(store),
            shaper: stream.shaper.clone(),
            vectors,
            live,
            ring: Ring::new(streaming.ring),
            sums: Targets::new(setup.kernel, streaming.widest(&manifest.columns), 0.0),
            totals: Mutex::new(totals),
            base: 0.0,
            done: 0,
            residual: None,
            converged: false,
        };
        pagerank.begin_iteration();
        Ok(pagerank)
    }

    pub(super) fn store(&self) -> Arc<VertexStore> {
        Arc::clone(&self.store)
    }

    /// Takes the totals of the iteration before, which are those of the next one from there on.
    fn begin_iteration(&mut self) -> Totals {
        let totals = self.totals.get_mut().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(totals, Totals::new(self.quantum));
        let vertices = self.columns.last().map_or(0, |column| column.end_vertex);
        self.base = base(&self.spec, vertices, before.dangling.value());
        before
    }

    /// Whether the iteration that is running compares its ranks with those before.
    fn compares(&self) -> bool {
        self.spec.tolerance.is_some() || self.done + 1 == self.spec.iterations
    }

    /// Whether it keeps them, for the next one or as the result.
    fn keeps(&self) -> bool {
        self.spec.tolerance.is_some() || self.done + 2 >= self.spec.iterations
    }
}

impl<C: Contribution + Streamed> Algorithm for Pagerank<C> {
    fn passes(&self) -> u64 {
        self.spec.iterations.saturating_mul(self.bands.len() as u64)
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        if self.converged || self.done == self.spec.iterations {
            return None;
        }
        let before =
            (self.done == 0).then(|| start(&self.spec, self.columns.last().map_or(0, |c| c.end_vertex)));
        let (compares, keeps) = (self.compares(), self.keeps());
        let band = self.bands[self.band].clone();
        let sums = self.sums.by_column(&columns_of(&self.columns, &band));
        Some(Box::new(PagerankPass {
            columns: &self.columns,
            band,
            store: &self.store,
            shaper: self.shaper.as_ref(),
            vectors: self.vectors,
            live: &self.live,
            ring: &self.ring,
            sums,
            step: Step { quantum: self.quantum, damping: self.spec.damping, base: self.base },
            before,
            compares,
            keeps,
            totals: &self.totals,
        }))
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.band += 1;
        if self.band < self.bands.len() {
            return Ok(());
        }
        self.band = 0;
        self.store.settle()?;
        let compared = self.compares();
        self.done += 1;
        std::mem::swap(&mut self.vectors.current, &mut self.vectors.next);
        let totals = self.begin_iteration();
        if compared {
            let residual = totals.change.value();
            self.residual = Some(residual);
            self.converged = self.spec.tolerance.is_some_and(|tolerance| residual <= tolerance);
        }
        Ok(())
    }
}

struct PagerankPass<'a, C: Streamed> {
    columns: &'a [Column],
    band: Range<usize>,
    store: &'a Arc<VertexStore>,
    shaper: Option<&'a Arc<Shaper>>,
    vectors: Vectors,
    live: &'a [bool],
    ring: &'a Ring<C>,
    sums: Vec<ColumnTargets<'a, f64>>,
    step: Step,
    /// The rank of every vertex before the first iteration.
    before: Option<f64>,
    compares: bool,
    keeps: bool,
    totals: &'a Mutex<Totals>,
}

impl<C: Contribution + Streamed> Pass for PagerankPass<'_, C> {
    fn block(
        &self,
        column: usize,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
    ) -> Result<Taken, ChunkError> {
        self.sums[column - self.band.start].fold(block, if_owned, self.ring.lookup(), contributions())
    }

    fn column_done(&self, column: usize) -> Result<(), StorageError> {
        let mut reader = VertexReader::new(Arc::clone(self.store), self.shaper.cloned());
        let mut totals = Totals::new(self.step.quantum);
        let (mut degrees, mut ranks, mut next) = (Vec::<u32>::new(), Vec::<f64>::new(), Vec::<C>::new());
        let first = self.columns[column].first_vertex;
        by_window(&self.sums[column - self.band.start], first, |vertices, sums| {
            let live = self.live[(vertices.start / WINDOW) as usize];
            if live {
                reader.read(self.vectors.degrees, vertices.clone(), &mut degrees)?;
            } else {
                degrees.clear();
                degrees.resize(sums.len(), 0);
            }
            match self.before {
                None if self.compares => reader.read(self.vectors.ranks, vertices.clone(), &mut ranks)?,
                before => {
                    ranks.clear();
                    ranks.resize(sums.len(), before.unwrap_or_default());
                }
            }
            next.clear();
            next.resize(sums.len(), C::default());
            let vertex = sums.chunks(DRAINED).zip(degrees.chunks(DRAINED));
            let outcome = ranks.chunks_mut(DRAINED).zip(next.chunks_mut(DRAINED));
            for ((sums, degrees), (ranks, next)) in vertex.zip(outcome) {
                self.step.vertices(sums, degrees, ranks, next, &mut totals);
            }
            if live {
                self.store.write(self.vectors.next, vertices.start, &next)?;
            }
            if self.keeps {
                self.store.write(self.vectors.ranks, vertices.start, &ranks)?;
            }
            Ok(())
        })?;
        let mut all = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        all.change.merge(&totals.change);
        all.dangling.merge(&totals.dangling);
        Ok(())
    }

    fn band(&self) -> Option<(Range<usize>, &dyn Sources)> {
        Some((self.band.clone(), self))
    }
}

impl<C: Contribution + Streamed> Sources for PagerankPass<'_, C> {
    fn place(&self, window: u32) -> Option<Place> {
        self.live[window as usize].then(|| self.store.place(self.vectors.current, window.into()))
    }

    fn put(&self, window: u32, bytes: Option<&[u8]>) {
        self.store.count_read(bytes.map_or(0, <[u8]>::len));
        self.ring.put(window, bytes);
    }
}

impl<C: Contribution + Streamed> GraphAlgorithm for Pagerank<C> {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, grid: &Grid) -> Result<Outcome, SetupError> {
        let Self { spec, quantum, store, vectors, done, residual, converged, .. } = *self;
        let values = Values::Stored(Stored { store, vector: vectors.ranks });
        let mut checksum = 0_u64;
        values.each(grid, |index, rank| checksum = checksum.wrapping_add(value_checksum(index, rank)))?;
        Ok(Outcome {
            iterations: done,
            converged: spec.tolerance.map(|_| converged),
            residual,
            checksum,
            values: Some(values),
            quantum: Some(quantum.unit()),
            result: None,
        })
    }
}
