//! `ioc check`: validates a batch and says what each run needs, before anything starts.

use std::collections::BTreeMap;
use std::path::Path;

use super::args::BatchArgs;
use super::{Problem, batch, cores, exit, output};
use crate::algorithm;
use crate::engine::plan::Plan;
use crate::grid::chunk::CHUNK;
use crate::interrupt::Interrupt;
use crate::job::spec::{AlgorithmSpec, Auto, RunSpec, SourceSpec};
use crate::run::layout;
use crate::run::plan::PlannedRun;
use crate::units::format_bytes;

/// Checks the batch and lists its runs.
pub(crate) fn check(args: &BatchArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    let batch = batch::load(args)?;
    let missing = batch.missing();
    if args.quiet {
        return Ok(exit::OK);
    }
    if !missing.is_empty() {
        output::error(&missing.to_string());
        // Without its file a data set has no fingerprint, and its runs no identity.
        list_unidentified(&batch);
        return Ok(exit::OK);
    }
    for plan in batch::plan(&batch, args, interrupt)? {
        output::say(&format!("{}: {} runs", plan.job, plan.runs.len()));
        let specs: Vec<&RunSpec> = plan.runs.iter().map(|run| &run.spec).collect();
        for (run, what) in plan.runs.iter().zip(differences(&specs)) {
            output::say(&format!("  {}  {what}: {}", run.run_id, needs(&plan.data, run)));
        }
    }
    Ok(exit::OK)
}

fn list_unidentified(batch: &crate::job::Batch) {
    for job in &batch.jobs {
        output::say(&format!("{}: {} runs", job.name, job.runs.len()));
        for what in differences(&job.runs.iter().collect::<Vec<_>>()) {
            output::say(&format!("  {what}"));
        }
    }
}

/// What each run is: its algorithm, data set and variant, and the options in which the runs of the job differ.
fn differences(specs: &[&RunSpec]) -> Vec<String> {
    let options: Vec<BTreeMap<String, String>> = specs.iter().map(|spec| options(spec)).collect();
    let mut keys: Vec<&String> = options.iter().flat_map(BTreeMap::keys).collect();
    keys.sort_unstable();
    keys.dedup();
    // An option that only some runs have is one of their algorithm, which is told by name.
    keys.retain(|key| {
        let mut values = options.iter().filter_map(|run| run.get(*key));
        let first = values.next();
        values.any(|value| Some(value) != first)
    });
    let describe = |(spec, run): (&&RunSpec, &BTreeMap<String, String>)| {
        let name = [spec.variant.as_str(), algorithm_name(&spec.algorithm), &spec.dataset.name];
        let name: Vec<&str> = name.into_iter().filter(|part| !part.is_empty()).collect();
        let values = keys.iter().filter_map(|key| run.get(*key).map(|value| format!(" {key}={value}")));
        name.join(" ") + &values.collect::<String>()
    };
    specs.iter().zip(&options).map(describe).collect()
}

/// The options of a run by their dotted names; the algorithm and the data set are told by name.
fn options(spec: &RunSpec) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let tables = [
        ("storage", serde_json::to_value(&spec.storage)),
        ("grid", serde_json::to_value(&spec.grid)),
        ("engine", serde_json::to_value(&spec.engine)),
        ("algorithm", serde_json::to_value(&spec.algorithm)),
    ];
    for (name, table) in tables {
        // Specs are plain data, which JSON always takes.
        flatten(name, &table.unwrap_or_default(), &mut options);
    }
    options
}

/// Options that are sizes.
const SIZES: [&str; 4] = ["engine.block_size", "engine.buffer", "engine.memory", "storage.stripe"];

fn flatten(path: &str, value: &serde_json::Value, options: &mut BTreeMap<String, String>) {
    match value {
        // `{"value": 4}` is how an option that may be "auto" is written.
        serde_json::Value::Object(table) if table.len() == 1 && table.contains_key("value") => {
            flatten(path, &table["value"], options);
        }
        serde_json::Value::Object(table) => {
            for (key, value) in table {
                flatten(&format!("{path}.{key}"), value, options);
            }
        }
        serde_json::Value::String(text) => drop(options.insert(path.to_owned(), text.clone())),
        other => {
            let bytes = other.as_u64().filter(|_| SIZES.contains(&path));
            drop(options.insert(path.to_owned(), bytes.map_or_else(|| other.to_string(), format_bytes)));
        }
    }
}

fn algorithm_name(algorithm: &AlgorithmSpec) -> &'static str {
    match algorithm {
        AlgorithmSpec::Scan(_) => "scan",
        AlgorithmSpec::Pagerank(_) => "pagerank",
        AlgorithmSpec::Spmv(_) => "spmv",
    }
}

/// Vertices, bytes on disk: exact where the grid is built, otherwise from what the source says of itself.
struct Size {
    vertices: u64,
    bytes: u64,
    built: bool,
}

fn size(data: &Path, run: &PlannedRun) -> Option<Size> {
    if let Ok(Some(grid)) = layout::find(data, run) {
        return Some(Size { vertices: grid.manifest.vertices, bytes: grid.total_bytes(), built: true });
    }
    match &run.spec.dataset.source {
        SourceSpec::Kronecker(kronecker) => {
            let vertices = 1_u64.checked_shl(kronecker.scale)?;
            let edges = vertices.checked_mul(kronecker.edge_factor)?;
            let edge = if kronecker.weights { 12 } else { 8 };
            let bytes = edges.checked_mul(edge)?.next_multiple_of(CHUNK as u64);
            Some(Size { vertices, bytes, built: false })
        }
        SourceSpec::File { .. } => None,
    }
}

fn needs(data: &Path, run: &PlannedRun) -> String {
    let Some(Size { vertices, bytes, built }) = size(data, run) else {
        return "(sizes are known after the import)".to_owned();
    };
    let spec = &run.spec;
    let passes = match &spec.algorithm {
        AlgorithmSpec::Scan(scan) => scan.iterations,
        AlgorithmSpec::Pagerank(pagerank) => pagerank.iterations,
        AlgorithmSpec::Spmv(spmv) => spmv.iterations,
    };
    let interleave = match spec.grid.interleave {
        Auto::Auto => None,
        Auto::Value(columns) => Some(columns),
    };
    let memory = match Plan::resolve(&spec.engine, interleave, spec.storage.ssds, cores() as u32) {
        Err(error) => format!("refused: {error}"),
        Ok(plan) => {
            let state = algorithm::state_bytes(&spec.algorithm, spec.grid.order.into(), vertices);
            match plan.check_memory(state, spec.engine.memory) {
                Ok(()) => format!(
                    "{} of {} memory",
                    format_bytes(plan.memory(state)),
                    format_bytes(spec.engine.memory)
                ),
                Err(error) => format!("refused: {error}"),
            }
        }
    };
    let about = if built { "" } else { "about " };
    let reads = bytes.saturating_mul(passes);
    format!("{about}{} on disk, reads {}, {memory}", format_bytes(bytes), format_bytes(reads))
}
