//! `ioc check`: validates a batch and says what each run needs, before anything starts.

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
        for run in &plan.runs {
            let needs = needs(&plan.data, run);
            output::say(&format!("  {}  {}  {needs}", run.run_id, summary(&run.spec)));
        }
    }
    Ok(exit::OK)
}

fn list_unidentified(batch: &crate::job::Batch) {
    for job in &batch.jobs {
        output::say(&format!("{}: {} runs", job.name, job.runs.len()));
        for spec in &job.runs {
            output::say(&format!("  {}", summary(spec)));
        }
    }
}

fn summary(spec: &RunSpec) -> String {
    let algorithm = match spec.algorithm {
        AlgorithmSpec::Scan(_) => "scan",
        AlgorithmSpec::Pagerank(_) => "pagerank",
        AlgorithmSpec::Spmv(_) => "spmv",
    };
    let engine = &spec.engine;
    let variant = if spec.variant.is_empty() { String::new() } else { format!("{} ", spec.variant) };
    format!(
        "{variant}{algorithm} {} {:?}/{:?} {} SSD",
        spec.dataset.name, engine.model, engine.io, spec.storage.ssds
    )
    .to_lowercase()
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
            let state = algorithm::state_bytes(&spec.algorithm, vertices);
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
