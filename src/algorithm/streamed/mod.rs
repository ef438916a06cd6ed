//! Algorithms whose vertex state lies on the devices: sums of a band of columns in memory, the values of the sources
//! streaming past. Each does the arithmetic of its form in memory, by the same functions, so that results have the same
//! bits.

mod pagerank;
mod ring;
mod spmv;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::targets::ColumnTargets;
use super::{GraphAlgorithm, Setup, SetupError, pagerank::precision};
use crate::engine::streaming::{StateBytes, Streaming};
use crate::grid::Sum;
use crate::grid::manifest::Column;
use crate::io::Shaper;
use crate::job::spec::{AlgorithmSpec, PrecisionSpec};
use crate::storage::error::StorageError;
use crate::storage::vertex_store::{VertexStore, WINDOW};

/// What such an algorithm is set up from, beside the grid.
pub struct StreamSetup<'a> {
    /// Bands and ring.
    pub streaming: &'a Streaming,
    /// A folder on each device.
    pub folders: Vec<PathBuf>,
    /// The cap on each device, if there is one.
    pub shaper: Option<Arc<Shaper>>,
}

/// What an algorithm keeps in memory when the rest of its state is streamed; `None` where it has no such form.
pub fn state_bytes(spec: &AlgorithmSpec) -> Option<StateBytes> {
    // Of the vertices that a vertex pass has on its hands: sums, degrees, ranks, contributions, and what is read at once.
    let per_thread = AT_ONCE * 6 * 8;
    match spec {
        AlgorithmSpec::Pagerank(spec) => {
            let source = if precision(spec) == PrecisionSpec::F64 { 8 } else { 4 };
            Some(StateBytes { source, target: 8, per_thread })
        }
        AlgorithmSpec::Spmv(spec) if spec.x.is_none() => {
            Some(StateBytes { source: 8, target: 8, per_thread })
        }
        _ => None,
    }
}

/// What to say where [`state_bytes`] has nothing.
pub fn has_no_such_form(spec: &AlgorithmSpec) -> String {
    let which = if matches!(spec, AlgorithmSpec::Spmv(_)) { " with x from a file" } else { "" };
    format!(
        "engine.vertex_state is \"streamed\", but that of {}{which} is kept in memory in this version; use \"auto\"",
        spec.name()
    )
}

/// Sets an algorithm up: puts its vertex state on the devices, and returns the store with it.
///
/// # Errors
/// As [`super::create`], and where the devices do not take the state.
pub fn create(
    spec: &AlgorithmSpec,
    setup: Setup<'_>,
    stream: &StreamSetup<'_>,
) -> Result<(Box<dyn GraphAlgorithm>, Arc<VertexStore>), SetupError> {
    Ok(match spec {
        AlgorithmSpec::Pagerank(spec) if precision(spec) == PrecisionSpec::F64 => {
            let algorithm = pagerank::Pagerank::<f64>::new(spec, setup, stream)?;
            let store = algorithm.store();
            (Box::new(algorithm), store)
        }
        AlgorithmSpec::Pagerank(spec) => {
            let algorithm = pagerank::Pagerank::<f32>::new(spec, setup, stream)?;
            let store = algorithm.store();
            (Box::new(algorithm), store)
        }
        AlgorithmSpec::Spmv(spec) => {
            let algorithm = spmv::Spmv::new(spec, setup, stream)?;
            let store = algorithm.store();
            (Box::new(algorithm), store)
        }
        other => return Err(SetupError::InMemory(has_no_such_form(other))),
    })
}

/// The columns of a band, with their vertices counted from its first.
fn columns_of(columns: &[Column], band: &Range<usize>) -> Vec<Column> {
    let columns = &columns[band.clone()];
    let first = columns.first().map_or(0, |column| column.first_vertex);
    let moved = |column: &Column| Column {
        first_vertex: column.first_vertex - first,
        end_vertex: column.end_vertex - first,
        ..*column
    };
    columns.iter().map(moved).collect()
}

/// Vertices of which a vertex pass reads and writes state at once: a part of a window.
const AT_ONCE: u64 = 1 << 14;

/// Hands out a column's sums, up to [`AT_ONCE`] of one window, with the vertices whose they are, and leaves them at rest.
fn by_window(
    sums: &ColumnTargets<'_, f64>,
    first_vertex: u64,
    mut each: impl FnMut(Range<u64>, &[f64]) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    const { assert!(WINDOW.is_multiple_of(AT_ONCE)) }
    let (mut at, mut part, mut result) = (first_vertex, Vec::with_capacity(AT_ONCE as usize), Ok(()));
    let mut flush = |at: &mut u64, part: &mut Vec<f64>| {
        let vertices = *at..*at + part.len() as u64;
        *at = vertices.end;
        if result.is_ok() && !part.is_empty() {
            result = each(vertices, part);
        }
        part.clear();
    };
    sums.drain(Sum::<f64, _>::of(|term, _weight| term), |_, mut sums| {
        while !sums.is_empty() {
            let room = AT_ONCE - (at + part.len() as u64) % AT_ONCE;
            let (now, later) = sums.split_at_mut(sums.len().min(room as usize));
            part.extend_from_slice(now);
            if now.len() as u64 == room {
                flush(&mut at, &mut part);
            }
            sums = later;
        }
    });
    flush(&mut at, &mut part);
    result
}
