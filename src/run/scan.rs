//! What a run's devices sustain: a scan (read and check, no kernel) of the same grid with the same I/O settings, in a
//! process of its own, just before the run is measured. The bandwidth that a maker states is only compared with it.

use serde::Serialize;

use super::error::Failure;
use super::plan::{JobPlan, PlannedRun};
use super::repetition::{Aftermath, Surroundings, execute};
use crate::grid::layout_key;
use crate::job::spec::{AlgorithmSpec, Auto, CacheSpec, EngineSpec, KernelSpec, ScanSpec, VerifySpec};
use crate::report::{AttemptId, Phase};
use crate::run::layout;

/// All that a scan depends on, as text: runs that share it share the scan.
pub fn settings(run: &PlannedRun) -> String {
    #[derive(Serialize)]
    struct Settings<'a> {
        dataset: &'a str,
        layout: String,
        devices: &'a [std::path::PathBuf],
        emulate: Option<u64>,
        interleave: Auto<u32>,
        engine: EngineSpec,
    }
    let spec = scan_of(run).spec;
    let settings = Settings {
        dataset: &spec.dataset.name,
        layout: layout_key(&layout::request(run)),
        devices: &spec.storage.devices,
        emulate: spec.storage.emulate,
        interleave: spec.grid.interleave,
        engine: spec.engine.clone(),
    };
    // Plain data, which JSON always takes.
    serde_json::to_string(&settings).unwrap_or_default()
}

/// Scans the grid of a run.
pub fn scan(plan: &JobPlan, run: &PlannedRun, around: Surroundings<'_>) -> Aftermath {
    let scan = scan_of(run);
    let id = AttemptId::new(scan.run_id.clone(), Phase::Warmup, 1, 1);
    let (row, _) = execute(plan, &scan, &id, around);
    let failure = row.error.map(|text| Failure { class: row.error_class.unwrap_or_default(), text });
    Aftermath { scan_mb_per_s: row.read_mb_per_s, failure, ..Aftermath::default() }
}

/// The run, with one scan in place of its algorithm.
fn scan_of(run: &PlannedRun) -> PlannedRun {
    let mut scan = run.clone();
    scan.spec.algorithm = AlgorithmSpec::Scan(ScanSpec { iterations: 1 });
    scan.spec.engine.cache = CacheSpec::Off;
    scan.spec.engine.kernel = KernelSpec::Owned;
    scan.spec.measure.verify = VerifySpec::Off;
    scan.spec.output.values = false;
    scan
}
