//! `ioc check`: validates a batch and says what each run needs, before anything starts.

use std::collections::BTreeMap;
use std::path::Path;

use super::args::BatchArgs;
use super::{Problem, batch, cores, exit, output};
use crate::algorithm;
use crate::engine::EngineError;
use crate::engine::plan::Plan;
use crate::grid::chunk::CHUNK;
use crate::interrupt::Interrupt;
use crate::job::Batch;
use crate::job::spec::{Auto, RunSpec, SourceSpec, WeightsSpec};
use crate::run::layout;
use crate::run::plan::PlannedRun;
use crate::units::{format_bytes, plural};

/// Checks the batch and lists its runs. What is missing here may be there where the batch is run, so that it is
/// noted; what this machine is sure to refuse is an error.
pub(crate) fn check(args: &BatchArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    let batch = batch::load(args)?;
    let missing = batch.missing();
    let say = if args.quiet { |_: &str| () } else { output::say };
    if !missing.is_empty() {
        if !args.quiet {
            output::error(&missing.to_string());
        }
        // Without its file a data set has no fingerprint, and its runs no identity.
        list_unidentified(&batch, say);
        return Ok(exit::OK);
    }
    let mut refusals = Vec::new();
    for plan in batch::plan(&batch, args, interrupt)? {
        say(&format!("{}: {}", plan.job, plural(plan.runs.len(), "run")));
        let specs: Vec<&RunSpec> = plan.runs.iter().map(|run| &run.spec).collect();
        for (run, what) in plan.runs.iter().zip(differences(&specs)) {
            let needs = needs(&plan.data, run).unwrap_or_else(|reason| {
                refusals.push(format!("error: {}: {what}: {reason}", plan.job));
                "refused".to_owned()
            });
            say(&format!("  {}  {what}: {needs}", run.run_id));
        }
    }
    if refusals.is_empty() { Ok(exit::OK) } else { Err(Problem::usage(refusals.join("\n"))) }
}

fn list_unidentified(batch: &Batch, say: fn(&str)) {
    for job in &batch.jobs {
        say(&format!("{}: {}", job.name, plural(job.runs.len(), "run")));
        for what in differences(&job.runs.iter().collect::<Vec<_>>()) {
            say(&format!("  {what}"));
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
        let name = [spec.variant.as_str(), spec.algorithm.name(), &spec.dataset.name];
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
    let spec = &run.spec.dataset;
    match &spec.source {
        SourceSpec::Kronecker(kronecker) => {
            let drawn = 1_u64.checked_shl(kronecker.scale)?;
            let vertices = spec.vertices.unwrap_or(drawn);
            let directions = if spec.directed { 1 } else { 2 };
            let edges = drawn.checked_mul(kronecker.edge_factor)?.checked_mul(directions)?;
            let weighted = kronecker.weights && spec.weights == WeightsSpec::Auto;
            let edge = if weighted { 12 } else { 8 };
            let bytes = edges.checked_mul(edge)?.next_multiple_of(CHUNK as u64);
            Some(Size { vertices, bytes, built: false })
        }
        SourceSpec::File { .. } => None,
    }
}

/// What a run needs; the error says why it will be refused.
fn needs(data: &Path, run: &PlannedRun) -> Result<String, EngineError> {
    let spec = &run.spec;
    let interleave = match spec.grid.interleave {
        Auto::Auto => None,
        Auto::Value(columns) => Some(columns),
    };
    let advice = layout::advice(data, spec);
    let plan = Plan::resolve(&spec.engine, interleave, spec.storage.ssds, cores() as u32, advice.as_ref())?;
    let Some(Size { vertices, bytes, built }) = size(data, run) else {
        return Ok("(sizes are known after the import)".to_owned());
    };
    let state = algorithm::state_bytes(&spec.algorithm, spec.grid.order.into(), vertices);
    plan.check_memory(state, spec.engine.memory)?;
    let passes = spec.algorithm.iterations();
    let about = if built { "" } else { "about " };
    let (disk, reads) = (format_bytes(bytes), format_bytes(bytes.saturating_mul(passes)));
    let (memory, budget) = (format_bytes(plan.memory(state)), format_bytes(spec.engine.memory));
    Ok(format!("{about}{disk} on disk, reads {reads}, {memory} of {budget} memory"))
}
