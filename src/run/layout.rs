//! The grid of a run: found, or built.

use std::path::Path;

use super::error::RunError;
use super::plan::PlannedRun;
use crate::dataset::{self, Context};
use crate::grid::{self, Grid, LayoutRequest};

/// What a run asks of its grid.
pub fn request(run: &PlannedRun) -> LayoutRequest<'_> {
    LayoutRequest {
        dataset: &run.spec.dataset.name,
        fingerprint: &run.fingerprint,
        grid: &run.spec.grid,
        storage: &run.spec.storage,
    }
}

/// The run's grid, if it is built.
///
/// # Errors
/// Where there is one that cannot be read.
pub fn find(data: &Path, run: &PlannedRun) -> Result<Option<Grid>, RunError> {
    Ok(grid::open(data, &request(run))?)
}

/// Builds the run's grid within `memory`, unless it is built.
///
/// # Errors
/// Where the source is unreadable or wrong, the devices are, or the memory is too small.
pub fn build(data: &Path, run: &PlannedRun, memory: u64, context: Context<'_>) -> Result<Grid, RunError> {
    if let Some(grid) = find(data, run)? {
        return Ok(grid);
    }
    let spec = &run.spec.dataset;
    let source = dataset::open(spec).map_err(|error| RunError::Dataset(error.to_string()))?;
    Ok(grid::build(data, &request(run), source.as_ref(), spec.edges, memory, context)?)
}
