//! Algorithms: one file each, with its state, its edge kernel and its verifier. They know blocks and columns, and
//! no I/O.

pub mod exact;
pub mod pagerank;
pub mod scan;
pub mod spmv;
mod sums;
mod vector;
mod verdict;
pub mod verify;

pub use verdict::Verdict;

use crate::engine::pass::Algorithm;
use crate::grid::manifest::Order;
use crate::grid::{Grid, GridError};
use crate::job::spec::{AlgorithmSpec, KernelSpec, PrecisionSpec};

/// What an algorithm is set up from.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The graph.
    pub grid: &'a Grid,
    /// Who adds up.
    pub kernel: KernelSpec,
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
    /// The value of every vertex, in dense order; none for a scan.
    pub values: Option<Vec<f64>>,
    /// The quantum of the sums: smaller terms vanish.
    pub quantum: Option<f64>,
}

/// An algorithm on its way from set-up to outcome.
pub trait GraphAlgorithm {
    /// What the engine drives.
    fn as_algorithm(&mut self) -> &mut dyn Algorithm;
    /// The result; all other state is gone by then.
    fn finish(self: Box<Self>) -> Outcome;
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
    /// The file of x is unusable.
    #[error("{0}")]
    Vector(String),
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
    })
}

/// Bytes of vertex state that an algorithm keeps while it runs on a grid of this order.
pub fn state_bytes(spec: &AlgorithmSpec, order: Order, vertices: u64) -> u64 {
    let per_vertex = match spec {
        AlgorithmSpec::Scan(_) => 0,
        AlgorithmSpec::Pagerank(spec) => pagerank::state_bytes_per_vertex(spec),
        AlgorithmSpec::Spmv(_) => spmv::STATE_BYTES_PER_VERTEX,
    };
    // The way back from positions.
    let order = if order == Order::Natural || per_vertex == 0 { 0 } else { 4 };
    (per_vertex + order) * vertices
}
