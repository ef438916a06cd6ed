//! Algorithms: one file each, with its state, its edge kernel and its verifier. They know blocks and columns, and
//! no I/O.

pub mod bfs;
pub mod exact;
pub mod pagerank;
mod reference;
mod root;
pub mod scan;
pub mod spmv;
pub mod sssp;
pub mod streamed;
mod targets;
mod values;
mod vector;
mod verdict;
pub mod verify;
pub mod wcc;

pub use values::{Values, ValuesError};
pub use verdict::Verdict;

use crate::engine::pass::Algorithm;
use crate::grid::manifest::{Column, Manifest, Order};
use crate::grid::{Grid, GridError};
use crate::job::spec::{AlgorithmSpec, KernelSpec, PrecisionSpec};
use crate::storage::error::StorageError;
use crate::units::plural;

/// What an algorithm is set up from.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The graph.
    pub grid: &'a Grid,
    /// What the graph is called in messages.
    pub graph: &'a str,
    /// Who adds up.
    pub kernel: KernelSpec,
    /// Threads that compute.
    pub threads: u32,
    /// How many more of them than one may work on a heavy column at once, each with values of its own: see
    /// [`spare_bytes`].
    pub spares: u32,
}

/// What an algorithm leaves behind.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Passes done.
    pub iterations: u64,
    /// Whether the tolerance was met, where there was one.
    pub converged: Option<bool>,
    /// L1 change of the last iteration, where it is measured.
    pub residual: Option<f64>,
    /// Checksum of the result, the same for every way to compute it.
    pub checksum: u64,
    /// The value of every vertex; none for a scan.
    pub values: Option<Values>,
    /// The quantum of the sums: smaller terms vanish.
    pub quantum: Option<f64>,
    /// What came out, for people, where it is not that some vertices have the largest values.
    pub result: Option<String>,
}

/// An algorithm on its way from set-up to outcome.
pub trait GraphAlgorithm {
    /// What the engine drives.
    fn as_algorithm(&mut self) -> &mut dyn Algorithm;
    /// The result; all other state is gone by then.
    ///
    /// # Errors
    /// Where the grid's vertex files are unreadable.
    fn finish(self: Box<Self>, grid: &Grid) -> Result<Outcome, SetupError>;
}

/// Why an algorithm cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The grid's vertex files are unreadable.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// Sums would not fit an f64.
    #[error(
        "the sums of one vertex may reach {bound:e}, which leaves no room for exact addition in 64-bit floats; \
         scale the weights or x"
    )]
    Overflow {
        /// The largest sum of absolute values.
        bound: f64,
    },
    /// The store of vertex state is unusable.
    #[error(transparent)]
    State(#[from] StorageError),
    /// What has no form that streams.
    #[error("{0}")]
    InMemory(String),
    /// There is no such vertex to begin at.
    #[error("root {root} is no vertex of {graph}; name one that is, or leave the root away")]
    Root {
        /// What was asked for.
        root: u64,
        /// The graph.
        graph: String,
    },
    /// Lengths below zero, by which a path may become ever shorter.
    #[error(
        "{graph} has {} of negative weight, which shortest paths cannot have; use other weights, or leave \
         them out by weights = \"none\"",
        plural(*count as usize, "arc")
    )]
    Negative {
        /// Arcs.
        count: u64,
        /// The graph.
        graph: String,
    },
    /// Labels are ids, and values 64-bit floats.
    #[error(
        "{graph} has the id {id}, which as the label of a component would be rounded; number its vertices below 2^53"
    )]
    Label {
        /// The largest id.
        id: u64,
        /// The graph.
        graph: String,
    },
    /// The file of x is unusable.
    #[error("{0}")]
    Vector(String),
    /// A command of another program, which the engine does not run.
    #[error("the external `{0}` is a command of another program, and no algorithm")]
    External(String),
}

impl From<ValuesError> for SetupError {
    fn from(error: ValuesError) -> Self {
        match error {
            ValuesError::Grid(error) => error.into(),
            ValuesError::State(error) => error.into(),
        }
    }
}

/// Sets an algorithm up: allocates and fills its vertex state, reads no edge.
///
/// # Errors
/// Where the grid's vertex files or the algorithm's own inputs are unusable.
pub fn create(spec: &AlgorithmSpec, setup: Setup<'_>) -> Result<Box<dyn GraphAlgorithm>, SetupError> {
    Ok(match spec {
        AlgorithmSpec::Scan(spec) => Box::new(scan::Scan::new(spec, setup)),
        AlgorithmSpec::Pagerank(spec) if pagerank::precision(spec) == PrecisionSpec::F64 => {
            Box::new(pagerank::Pagerank::<f64>::new(spec, setup)?)
        }
        AlgorithmSpec::Pagerank(spec) => Box::new(pagerank::Pagerank::<f32>::new(spec, setup)?),
        AlgorithmSpec::Spmv(spec) => Box::new(spmv::Spmv::new(spec, setup)?),
        AlgorithmSpec::Bfs(spec) => Box::new(bfs::Bfs::new(spec, setup)?),
        AlgorithmSpec::Sssp(spec) => Box::new(sssp::Sssp::new(spec, setup)?),
        AlgorithmSpec::Wcc => Box::new(wcc::Wcc::new(setup)?),
        AlgorithmSpec::External(external) => return Err(SetupError::External(external.name.clone())),
    })
}

/// Bytes of vertex state that an algorithm keeps while it runs on a grid of this order.
pub fn state_bytes(spec: &AlgorithmSpec, order: Order, vertices: u64) -> u64 {
    let per_vertex = match spec {
        AlgorithmSpec::Scan(_) | AlgorithmSpec::External(_) => 0,
        AlgorithmSpec::Pagerank(spec) => pagerank::state_bytes_per_vertex(spec),
        AlgorithmSpec::Spmv(_) => spmv::STATE_BYTES_PER_VERTEX,
        AlgorithmSpec::Bfs(_) => bfs::STATE_BYTES_PER_VERTEX,
        AlgorithmSpec::Sssp(_) => sssp::STATE_BYTES_PER_VERTEX,
        AlgorithmSpec::Wcc => wcc::STATE_BYTES_PER_VERTEX,
    };
    // The way back from positions, where it is kept from the begin: to find the root, or beside what takes no more.
    let kept = matches!(spec, AlgorithmSpec::Bfs(_) | AlgorithmSpec::Sssp(_) | AlgorithmSpec::Wcc);
    let order = if kept && order == Order::Degree { 4 } else { 0 };
    (per_vertex + order) * vertices
}

/// Bytes that each spare takes, where so many threads compute: a second set of what is folded, for every heavy column.
pub fn spare_bytes(spec: &AlgorithmSpec, manifest: &Manifest, threads: u32) -> u64 {
    let term = match spec {
        AlgorithmSpec::Pagerank(_) | AlgorithmSpec::Spmv(_) | AlgorithmSpec::Sssp(_) => size_of::<f64>(),
        AlgorithmSpec::Bfs(_) => size_of::<u8>(),
        AlgorithmSpec::Scan(_) | AlgorithmSpec::Wcc | AlgorithmSpec::External(_) => 0,
    };
    let heavy = manifest.columns.iter().filter(|column| manifest.is_heavy(column, threads));
    heavy.map(Column::width).sum::<u64>() * term as u64
}
