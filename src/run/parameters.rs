//! A run's parameters on this machine, with nothing `auto` left: for the run itself, and for who tells beforehand what it
//! needs. What is refused here is refused by both.

use std::path::Path;

use super::layout;
use crate::algorithm::{self, streamed};
use crate::engine::EngineError;
use crate::engine::plan::{Plan, requests_of_thread};
use crate::engine::streaming::StateBytes;
use crate::grid::manifest::Manifest;
use crate::job::spec::{AlgorithmSpec, CacheSpec, IoSpec, KernelSpec, ModelSpec, RunSpec, VertexStateSpec};
use crate::measure::environment::memory_total;

/// Where a run's vertex state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VertexState {
    /// In memory.
    Held,
    /// On the devices, but for what so many bytes of memory hold.
    Streamed(StateBytes, u64),
}

/// What a run takes to keep its per-vertex data in memory.
#[derive(Clone, Copy)]
pub struct StateNeeds<'a> {
    /// Bytes that it cannot do without.
    pub bytes: u64,
    /// The grid, where it is built: it says what threads need to share a heavy column.
    pub grid: Option<&'a Manifest>,
}

impl StateNeeds<'_> {
    /// Bytes of a spare for the heavy columns; 0 where there are none, or any thread adds up anywhere.
    pub fn spare_bytes(&self, spec: &RunSpec, plan: &Plan) -> u64 {
        let grid = self.grid.filter(|_| plan.kernel == KernelSpec::Owned);
        grid.map_or(0, |grid| algorithm::spare_bytes(&spec.algorithm, grid, plan.compute_threads))
    }
}

/// The engine's parameters for a run that keeps this per-vertex data, where that is known, and where it keeps it. Refused
/// where the budget is too small, or the machine.
///
/// # Errors
/// What does not fit, with figures and what to do.
pub fn resolve(
    data: &Path,
    spec: &RunSpec,
    state: Option<StateNeeds<'_>>,
    cores: u32,
) -> Result<(Plan, VertexState), EngineError> {
    within(memory_total().unwrap_or(u64::MAX), data, spec, state, cores)
}

fn within(
    machine: u64,
    data: &Path,
    spec: &RunSpec,
    state: Option<StateNeeds<'_>>,
    cores: u32,
) -> Result<(Plan, VertexState), EngineError> {
    let advice = layout::advice(data, spec);
    let interleave = spec.grid.interleave.value();
    let plan = Plan::resolve(&spec.engine, interleave, spec.storage.ssds, cores, advice.as_ref())?;
    let budget = spec.engine.memory.min(machine);
    let check = |least: u64| {
        plan.check_memory(least, spec.engine.memory)?;
        plan.check_machine(least, machine)
    };
    let fits = check(state.map_or(0, |state| state.bytes));
    let streams = streamed::state_bytes(&spec.algorithm);
    let streams = match spec.engine.vertex_state {
        VertexStateSpec::Memory => None,
        VertexStateSpec::Auto => streams.filter(|_| fits.is_err()),
        // It has none.
        VertexStateSpec::Streamed if matches!(spec.algorithm, AlgorithmSpec::Scan(_)) => None,
        VertexStateSpec::Streamed => {
            let none = || EngineError::Plan(streamed::has_no_such_form(&spec.algorithm));
            Some(streams.ok_or_else(none)?)
        }
    };
    if let Some(bytes) = streams {
        if let Err(least) = check(0) {
            // What it takes in memory says more.
            fits?;
            return Err(least);
        }
        return Ok((plan, VertexState::Streamed(bytes, budget - plan.memory(0))));
    }
    fits?;
    let Some(state) = state else { return Ok((plan, VertexState::Held)) };
    let spare = state.spare_bytes(spec, &plan);
    let plan = plan.with_spares(spare, state.bytes, budget);
    let plan = match spec.engine.cache {
        CacheSpec::Auto => plan.with_pins(state.bytes + spare * u64::from(plan.spares), budget),
        CacheSpec::Off => plan,
    };
    Ok((plan, VertexState::Held))
}

/// Requests that all I/O threads of a run reserve of the kernel by `libaio`; 0 where it reads otherwise.
pub fn asynchronous_requests(plan: &Plan) -> u64 {
    if plan.io != IoSpec::Libaio {
        return 0;
    }
    if plan.model == ModelSpec::Sync {
        return plan.compute_threads.into();
    }
    let of = |thread| requests_of_thread(thread, plan.depth, plan.io_threads, plan.devices) as u64;
    (0..plan.io_threads).map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::spec::Auto;
    use crate::job::{JobSource, LoadOptions, load_batch};

    fn spec(more: &str) -> RunSpec {
        let text = format!(
            "dataset = {{ generate = {{ kronecker = {{ scale = 10 }} }} }}\n[algorithm.scan]\n{more}"
        );
        let job = JobSource::Text { name: "job".into(), text, project: "/".into() };
        let batch = load_batch(&[job], &LoadOptions::default()).unwrap();
        batch.runs().next().unwrap().clone()
    }

    fn plan(machine: u64, spec: &RunSpec, state: Option<u64>) -> Result<Plan, String> {
        let state = state.map(|bytes| StateNeeds { bytes, grid: None });
        let resolved = within(machine, Path::new("/nonexistent"), spec, state, 2);
        resolved.map(|(plan, _)| plan).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_budget_or_the_machine_cannot_hold_is_refused_whoever_asks() {
        let spec = spec("[engine]\nmemory = \"100 MiB\"\n");
        assert!(plan(u64::MAX, &spec, None).is_ok());
        let error = plan(u64::MAX, &spec, Some(1 << 30)).unwrap_err();
        assert!(error.contains("engine.memory is 100 MiB"), "{error}");
        let error = plan(32 << 20, &spec, None).unwrap_err();
        assert!(error.contains("this machine has 32 MiB"), "{error}");
    }

    #[test]
    fn no_block_is_kept_of_which_it_is_unknown_whether_it_fits() {
        let spec = spec("");
        assert_eq!(plan(u64::MAX, &spec, None).unwrap().pins, 0);
        let all = plan(u64::MAX, &spec, Some(0)).unwrap().pins;
        assert!(all > 0 && plan(1 << 29, &spec, Some(0)).unwrap().pins < all);
    }

    #[test]
    fn asynchronous_requests_are_those_of_all_threads() {
        let mut spec = spec("[storage]\nssds = 6\n[engine]\nio_depth = 32\n");
        let requests = |spec: &RunSpec| asynchronous_requests(&plan(u64::MAX, spec, None).unwrap());
        assert_eq!(requests(&spec), 6 * 32);
        spec.engine.io_threads = Auto::Value(12);
        assert_eq!(requests(&spec), 6 * 32);
        spec.engine.io = IoSpec::Psync;
        assert_eq!(requests(&spec), 0);
        (spec.engine.io, spec.engine.model) = (IoSpec::Libaio, ModelSpec::Sync);
        assert_eq!(requests(&spec), 2);
    }
}
