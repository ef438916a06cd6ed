//! SpMV over a streamed x, which is 1 everywhere: one from a file would have to be put in order first.

use std::ops::Range;
use std::sync::Arc;

use super::ring::Ring;
use super::{StreamSetup, by_window, columns_of};
use crate::algorithm::exact::{Quantum, value_checksum};
use crate::algorithm::spmv::{product, quantum};
use crate::algorithm::targets::{ColumnTargets, Targets};
use crate::algorithm::values::{Stored, Values};
use crate::algorithm::{GraphAlgorithm, Outcome, Setup, SetupError};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::engine::streaming::Sources;
use crate::grid::manifest::Column;
use crate::grid::{BlockView, ChunkError, Grid};
use crate::job::spec::SpmvSpec;
use crate::storage::error::StorageError;
use crate::storage::vertex_store::{Place, Vector, VertexStore, WINDOW};

/// The state between passes. A pass is that of a band; an iteration has one for each.
pub(super) struct Spmv {
    spec: SpmvSpec,
    quantum: Quantum,
    columns: Vec<Column>,
    bands: Vec<Range<usize>>,
    store: Arc<VertexStore>,
    x: Vector,
    y: Vector,
    ring: Ring<f64>,
    sums: Targets<f64>,
    /// Passes done.
    done: u64,
}

impl Spmv {
    pub(super) fn new(
        spec: &SpmvSpec,
        setup: Setup<'_>,
        stream: &StreamSetup<'_>,
    ) -> Result<Self, SetupError> {
        let (manifest, streaming) = (&setup.grid.manifest, stream.streaming);
        let quantum = quantum(manifest, &[1.0])?;
        let (store, vectors) = VertexStore::create(&stream.folders, manifest.vertices, &[8, 8])?;
        let ones = vec![1.0; WINDOW as usize];
        for first in (0..manifest.vertices).step_by(WINDOW as usize) {
            store.write(vectors[0], first, &ones)?;
        }
        store.settle()?;
        Ok(Self {
            spec: spec.clone(),
            quantum,
            columns: manifest.columns.clone(),
            bands: streaming.bands.clone(),
            store: Arc::new(store),
            x: vectors[0],
            y: vectors[1],
            ring: Ring::new(streaming.ring),
            sums: Targets::new(setup.kernel, streaming.widest(&manifest.columns), 0.0),
            done: 0,
        })
    }

    pub(super) fn store(&self) -> Arc<VertexStore> {
        Arc::clone(&self.store)
    }
}

impl Algorithm for Spmv {
    fn passes(&self) -> u64 {
        self.spec.iterations.saturating_mul(self.bands.len() as u64)
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        if self.done == self.passes() {
            return None;
        }
        let band = self.bands[(self.done % self.bands.len() as u64) as usize].clone();
        let sums = self.sums.by_column(&columns_of(&self.columns, &band));
        let (columns, store, ring) = (&self.columns, &*self.store, &self.ring);
        Some(Box::new(SpmvPass {
            columns,
            band,
            store,
            x: self.x,
            y: self.y,
            ring,
            sums,
            quantum: self.quantum,
        }))
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.done += 1;
        if self.done == self.passes() { self.store.settle() } else { Ok(()) }
    }
}

struct SpmvPass<'a> {
    columns: &'a [Column],
    band: Range<usize>,
    store: &'a VertexStore,
    x: Vector,
    y: Vector,
    ring: &'a Ring<f64>,
    sums: Vec<ColumnTargets<'a, f64>>,
    quantum: Quantum,
}

impl Pass for SpmvPass<'_> {
    fn block(
        &self,
        column: usize,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
    ) -> Result<Taken, ChunkError> {
        self.sums[column - self.band.start].fold(block, if_owned, self.ring.lookup(), product(self.quantum))
    }

    fn column_done(&self, column: usize) -> Result<(), StorageError> {
        let first = self.columns[column].first_vertex;
        by_window(&self.sums[column - self.band.start], first, |vertices, sums| {
            self.store.write(self.y, vertices.start, sums)
        })
    }

    fn band(&self) -> Option<(Range<usize>, &dyn Sources)> {
        Some((self.band.clone(), self))
    }
}

impl Sources for SpmvPass<'_> {
    fn place(&self, window: u32) -> Option<Place> {
        Some(self.store.place(self.x, window.into()))
    }

    fn put(&self, window: u32, bytes: Option<&[u8]>) {
        self.store.count_read(bytes.map_or(0, <[u8]>::len));
        self.ring.put(window, bytes);
    }
}

impl GraphAlgorithm for Spmv {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, grid: &Grid) -> Result<Outcome, SetupError> {
        let Self { spec, quantum, store, y, .. } = *self;
        let values = Values::Stored(Stored { store, vector: y });
        let mut checksum = 0_u64;
        values.each(grid, |index, y| checksum = checksum.wrapping_add(value_checksum(index, y)))?;
        Ok(Outcome {
            iterations: spec.iterations,
            converged: None,
            residual: None,
            checksum,
            values: Some(values),
            quantum: Some(quantum.unit()),
            result: None,
        })
    }
}
