//! Whole imports of small graphs.

mod damage;
mod export;
mod lifecycle;
mod memory;
mod round_trip;

use std::path::Path;

use crate::dataset::{Context, DatasetError, Edge, EdgeSource, Sink, Summary, VertexSet};
use crate::grid::import::{Limits, build_within};
use crate::grid::{EdgeReader, Grid, GridError, LayoutRequest};
use crate::interrupt::Interrupt;
use crate::job::spec::{Auto, EncodingSpec, GridSpec, StorageSpec, VertexOrderSpec};
use crate::progress::{Silent, Unit};

/// Edges in memory, dealt to the workers in turn.
#[derive(Debug, Clone)]
struct MemorySource {
    edges: Vec<Edge>,
    vertices: VertexSet,
    weighted: bool,
}

impl MemorySource {
    fn new(vertices: VertexSet, pairs: &[(u64, u64)]) -> Self {
        let edges = pairs.iter().map(|&(source, target)| Edge { source, target, weight: 1.0 }).collect();
        Self { edges, vertices, weighted: false }
    }
}

impl EdgeSource for MemorySource {
    fn describe(&self) -> String {
        format!("memory({} edges)", self.edges.len())
    }

    fn vertices(&self) -> VertexSet {
        self.vertices
    }

    fn size(&self) -> (Option<u64>, Unit) {
        (Some(self.edges.len() as u64), Unit::Edges)
    }

    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError> {
        let batches: Vec<&[Edge]> = self.edges.chunks(37).collect();
        std::thread::scope(|scope| {
            let read = |worker: usize| {
                let batches = &batches;
                move || {
                    for batch in batches.iter().skip(worker).step_by(context.threads) {
                        if context.interrupt.raised() {
                            return Err(DatasetError::Interrupted);
                        }
                        sink(worker, batch).map_err(|_| DatasetError::Stopped)?;
                    }
                    Ok(())
                }
            };
            let threads: Vec<_> = (0..context.threads).map(|worker| scope.spawn(read(worker))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap())
        })?;
        Ok(Summary { edges: self.edges.len() as u64, weighted: self.weighted })
    }
}

/// How a test lays a graph out.
#[derive(Debug, Clone)]
struct Setup {
    grid: GridSpec,
    storage: StorageSpec,
    threads: usize,
    limits: Limits,
}

impl Default for Setup {
    fn default() -> Self {
        let (columns, source_window, interleave) = (Auto::Auto, Auto::Auto, Auto::Auto);
        Self {
            grid: GridSpec {
                encoding: EncodingSpec::Raw,
                columns,
                source_window,
                order: VertexOrderSpec::Auto,
                interleave,
            },
            storage: StorageSpec {
                devices: Vec::new(),
                ssds: 1,
                stripe: 512 * 1024,
                rated: None,
                emulate: None,
                keep: true,
            },
            threads: 2,
            limits: Limits::default(),
        }
    }
}

const MEMORY: u64 = 128 << 20;

impl Setup {
    fn request(&self) -> LayoutRequest<'_> {
        LayoutRequest { dataset: "g", fingerprint: "f1", grid: &self.grid, storage: &self.storage }
    }

    fn build(&self, data: &Path, source: &dyn EdgeSource) -> Result<Grid, GridError> {
        let interrupt = Interrupt::new();
        let context = Context { threads: self.threads, interrupt: &interrupt, progress: &Silent };
        build_within(data, &self.request(), source, None, MEMORY, self.limits, context)
    }

    fn open(&self, data: &Path) -> Option<Grid> {
        crate::grid::open(data, &self.request()).unwrap()
    }
}

fn verify(grid: &Grid) -> Result<crate::grid::Verified, GridError> {
    let interrupt = Interrupt::new();
    crate::grid::verify(grid, Context { threads: 2, interrupt: &interrupt, progress: &Silent })
}

/// An edge with original ids and the bits of its weight: comparable and sortable.
type Plain = (u64, u64, u64);

fn plain(edges: &[Edge]) -> Vec<Plain> {
    let mut edges: Vec<_> =
        edges.iter().map(|edge| (edge.source, edge.target, edge.weight.to_bits())).collect();
    edges.sort_unstable();
    edges
}

/// All edges of a grid with original ids, sorted.
fn read_back(grid: &Grid) -> Vec<Plain> {
    let ids: Vec<u64> = grid.ids().unwrap().map(Result::unwrap).collect();
    let mut edges = Vec::new();
    let reader = EdgeReader::new(grid).unwrap();
    let id = |dense: u64| ids[dense as usize];
    reader.for_each(|source, target, weight| edges.push((id(source), id(target), weight.to_bits()))).unwrap();
    edges.sort_unstable();
    edges
}
