//! What a run's devices sustain: a scan (read and check, no kernel) of the same grid with the same I/O settings, in a
//! process of its own, just before the run is measured. The bandwidth that a maker states is only compared with it.
//!
//! Devices that have been idle are faster for a moment (a throttle's credit, a drive's cache), and a scan of a small
//! graph might see no other moment. So it makes pass after pass, as many as the run, and what counts is its pace after
//! `SETTLE`; a run too short for that has its share of that moment too, and is compared with all of the scan.

use std::time::Duration;

use serde::Serialize;

use super::error::Failure;
use super::plan::{JobPlan, PlannedRun};
use super::repetition::{Aftermath, Surroundings, execute};
use crate::grid::layout_key;
use crate::job::spec::{AlgorithmSpec, Auto, CacheSpec, EngineSpec, KernelSpec, ScanSpec, VerifySpec};
use crate::report::{AttemptId, Phase};
use crate::run::layout;

/// Time that a device is given to fall into its pace.
const SETTLE: Duration = Duration::from_millis(300);
/// Time after which a scan begins no further pass.
const ENOUGH: Duration = Duration::from_millis(1500);
/// Passes for an algorithm whose number of passes the graph decides.
const PASSES: u64 = 10;

/// All that a scan depends on, as text: runs that share it share the scan.
pub fn settings(run: &PlannedRun) -> String {
    #[derive(Serialize)]
    struct Settings<'a> {
        dataset: &'a str,
        layout: String,
        devices: &'a [std::path::PathBuf],
        emulate: Option<u64>,
        passes: u64,
        interleave: Auto<u32>,
        engine: EngineSpec,
    }
    let spec = scan_of(run).spec;
    let settings = Settings {
        dataset: &spec.dataset.name,
        layout: layout_key(&layout::request(run)),
        devices: &spec.storage.devices,
        emulate: spec.storage.emulate,
        passes: passes(run),
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
    let (row, aftermath) = execute(plan, &scan, &id, around);
    let failure = row.error.map(|text| Failure { class: row.error_class.unwrap_or_default(), text });
    Aftermath { scan_mb_per_s: aftermath.scan_mb_per_s, failure, ..Aftermath::default() }
}

/// The pace of a scan in MB/s: `bytes` in each pass, and the times at which the passes ended.
pub(super) fn pace(bytes: u64, passes: &[Duration]) -> Option<f64> {
    let settled = passes.partition_point(|&end| end < SETTLE);
    // From the end of the first pass after the device has settled, where half of the time is left behind that.
    let from = passes.get(settled).filter(|&&start| passes.last().is_some_and(|&end| start * 2 <= end));
    let (start, skipped) = from.map_or((Duration::ZERO, 0), |&start| (start, settled + 1));
    let seconds = passes.last()?.saturating_sub(start).as_secs_f64();
    (seconds > 0.0).then(|| bytes as f64 / 1e6 * (passes.len() - skipped) as f64 / seconds)
}

fn passes(run: &PlannedRun) -> u64 {
    run.spec.algorithm.iterations().unwrap_or(PASSES)
}

/// The run, with a scan in place of its algorithm.
fn scan_of(run: &PlannedRun) -> PlannedRun {
    let mut scan = run.clone();
    scan.spec.algorithm = AlgorithmSpec::Scan(ScanSpec { iterations: passes(run), enough: Some(ENOUGH) });
    scan.spec.engine.cache = CacheSpec::Off;
    scan.spec.engine.kernel = KernelSpec::Owned;
    scan.spec.measure.verify = VerifySpec::Off;
    scan.spec.output.values = false;
    scan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace_of(ends: &[u64]) -> Option<f64> {
        pace(1_000_000, &ends.iter().map(|&end| Duration::from_millis(end)).collect::<Vec<_>>())
    }

    #[test]
    fn a_fast_start_is_no_part_of_the_pace_where_the_scan_goes_on_long_enough() {
        // 100 passes at 1 ms each, then 10 ms each, the 20th of which ends the settling.
        let ends: Vec<u64> = (1..=100).chain((1..=100).map(|pass| 100 + 10 * pass)).collect();
        assert_eq!(pace_of(&ends), Some(100.0));
    }

    #[test]
    fn a_short_scan_counts_from_its_begin() {
        assert_eq!(pace_of(&[10, 20]), Some(100.0));
        assert_eq!(pace_of(&[400, 500]), Some(4.0));
        assert_eq!(pace_of(&[2000]), Some(0.5));
        assert_eq!(pace_of(&[]), None);
        assert_eq!(pace_of(&[0]), None);
    }
}
