//! The grid of a run: found, or built.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::error::RunError;
use super::plan::{JobPlan, PlannedRun};
use crate::dataset::{self, Context};
use crate::engine::plan::Plan;
use crate::grid::{self, Grid, GridError, LayoutRequest, layout_key};
use crate::job::spec::RunSpec;
use crate::measure::advice::{self, Advice};
use crate::measure::environment;
use crate::units::format_bytes;

/// What a run asks of its grid.
pub fn request(run: &PlannedRun) -> LayoutRequest<'_> {
    LayoutRequest {
        dataset: &run.spec.dataset.name,
        fingerprint: &run.fingerprint,
        grid: &run.spec.grid,
        storage: &run.spec.storage,
    }
}

/// The directories of a run's devices: the data directory where it names none.
pub fn folders(data: &Path, spec: &RunSpec) -> Vec<PathBuf> {
    let devices = &spec.storage.devices;
    if devices.is_empty() { vec![data.to_owned()] } else { devices.clone() }
}

/// What a probe of a run's devices advises for the engine that reads them. Nothing for emulated devices: what was
/// probed are the real ones.
pub fn advice(data: &Path, spec: &RunSpec) -> Option<Advice> {
    if spec.storage.emulate.is_some() {
        return None;
    }
    advice::find(data, &folders(data, spec), Plan::reads_by(&spec.engine))
}

/// The run's grid, if it is built.
///
/// # Errors
/// Where there is one that cannot be read.
pub fn find(data: &Path, run: &PlannedRun) -> Result<Option<Grid>, RunError> {
    Ok(grid::open(data, &request(run))?)
}

/// The runs whose grids are to be dropped when the plan of this number is done: `storage.keep = false`, no run of the
/// plans up to it wants them kept, and none of those to come needs them. Where one run of the plan was selected, its grid
/// alone may go, and those to come are also the other runs of the plan that are not `done`.
pub fn to_drop(plans: &[JobPlan], number: usize, done: impl Fn(&PlannedRun) -> bool) -> Vec<&PlannedRun> {
    // An external has no grid.
    let name = |run: &PlannedRun| {
        (!run.is_external()).then(|| (run.spec.dataset.name.clone(), layout_key(&request(run))))
    };
    let (begun, to_come) = plans.split_at(number + 1);
    let plan = &plans[number];
    let selected = |index: usize| plan.selected().is_none_or(|selected| selected == index);
    let mut spared: HashSet<_> = to_come.iter().flat_map(|plan| &plan.runs).filter_map(name).collect();
    spared.extend(
        begun.iter().flat_map(|plan| &plan.runs).filter(|run| run.spec.storage.keep).filter_map(name),
    );
    let others = plan.runs.iter().enumerate().filter(|(index, run)| !selected(*index) && !done(run));
    spared.extend(others.filter_map(|(_, run)| name(run)));
    let to_drop = |run: &PlannedRun| name(run).is_some_and(|name| !spared.contains(&name));
    let runs = plan.runs.iter().enumerate().filter(|(index, run)| selected(*index) && to_drop(run));
    runs.map(|(_, run)| run).collect()
}

/// Removes a run's grid.
///
/// # Errors
/// Where it is in use, or a file cannot be removed.
pub fn remove(data: &Path, run: &PlannedRun) -> Result<(), RunError> {
    grid::remove(data, &run.spec.dataset.name, &layout_key(&request(run)))?;
    Ok(())
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
    // A budget that is larger than the machine is as good as none: the import would size its buffers by it.
    let machine = environment::memory_total().unwrap_or(u64::MAX);
    let built = grid::build(data, &request(run), source.as_ref(), spec.edges, memory.min(machine), context);
    built.map_err(|error| match error {
        GridError::Memory { graph, purpose, needed, .. } if memory > machine => RunError::Memory(format!(
            "import of {graph} needs at least {} of memory ({purpose}), but this machine has {}",
            format_bytes(needed),
            format_bytes(machine)
        )),
        error => error.into(),
    })
}
