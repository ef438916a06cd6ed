//! The scan: reads every block and checks it, and computes nothing: what the same layout and I/O settings
//! sustain at best. Its result is the data set's checksum (the wrapping sum of the digests of all edges, which
//! every chunk carries for its own), so that it proves every edge to be there, whatever the layout.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{GraphAlgorithm, Outcome, Setup, SetupError};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::grid::digest::dataset_checksum;
use crate::grid::{BlockView, ChunkError, Grid};
use crate::job::spec::ScanSpec;
use crate::storage::error::StorageError;

/// Digests and edges summed over the chunks of the passes.
pub(crate) struct Scan {
    iterations: u64,
    /// No further pass begins after this time.
    enough: Duration,
    started: Option<Instant>,
    vertices: u64,
    done: u64,
    digests: AtomicU64,
    /// The checksum of the first pass, and whether all later ones had the same.
    first: Option<u64>,
    constant: bool,
}

impl Scan {
    pub(crate) fn new(spec: &ScanSpec, setup: Setup<'_>) -> Self {
        Self {
            iterations: spec.iterations,
            enough: spec.enough.unwrap_or(Duration::MAX),
            started: None,
            vertices: setup.grid.manifest.vertices,
            done: 0,
            digests: AtomicU64::new(0),
            first: None,
            constant: true,
        }
    }
}

impl Algorithm for Scan {
    fn passes(&self) -> u64 {
        self.iterations
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        let started = *self.started.get_or_insert_with(Instant::now);
        let more = self.done < self.iterations && started.elapsed() < self.enough;
        more.then(|| Box::new(ScanPass { digests: &self.digests }) as Box<dyn Pass>)
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.done += 1;
        let checksum = dataset_checksum(std::mem::take(self.digests.get_mut()), self.vertices);
        self.constant &= *self.first.get_or_insert(checksum) == checksum;
        Ok(())
    }
}

struct ScanPass<'a> {
    digests: &'a AtomicU64,
}

impl Pass for ScanPass<'_> {
    fn block(&self, _: usize, block: &mut BlockView<'_>, _: IfOwned) -> Result<Taken, ChunkError> {
        let (mut digests, mut edges) = (0_u64, 0);
        for chunk in block {
            let header = chunk?.header;
            digests = digests.wrapping_add(header.digest);
            edges += u64::from(header.edges);
        }
        self.digests.fetch_add(digests, Ordering::Relaxed);
        Ok(Taken::Done(edges))
    }

    fn column_done(&self, _: usize) -> Result<(), StorageError> {
        Ok(())
    }
}

impl GraphAlgorithm for Scan {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, _: &Grid) -> Result<Outcome, SetupError> {
        // Passes that differ cannot be told by one checksum: 0 is none that a data set has (it is mixed).
        let checksum = if self.constant { self.first.unwrap_or_default() } else { 0 };
        Ok(Outcome {
            iterations: self.done,
            converged: None,
            residual: None,
            checksum,
            values: None,
            quantum: None,
            result: None,
        })
    }
}
