//! One repetition, in a process of its own: open, allocate, run, verify, and say in a row what happened.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::error::{Failure, RunError};
use super::parameters::{self, StateNeeds, VertexState};
use super::plan::{JobPlan, PlannedRun};
use super::row::{blank, fill_account, fill_grid, fill_outcome, fill_plan, fill_usage};
use super::scan::pace;
use super::{external, layout};
use crate::algorithm::streamed::{self, StreamSetup};
use crate::algorithm::verify::verify;
use crate::algorithm::{self, Outcome, Verdict};
use crate::engine::accounting::Account;
use crate::engine::plan::Plan;
use crate::engine::streaming::Streaming;
use crate::engine::{Engine, Setup};
use crate::grid::Grid;
use crate::grid::manifest::Manifest;
use crate::interrupt::Interrupt;
use crate::io::Shaper;
use crate::job::spec::{AlgorithmSpec, SourceSpec, VerifySpec};
use crate::progress::{Progress, Unit};
use crate::report::{AttemptId, Digest, Phase, Row, Status, ValuesWriter, values_path};
use crate::storage::device::DeviceFiles;
use crate::units::{format_bytes, plural};

/// What a repetition has to say besides its row: for the terminal, from child to parent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Aftermath {
    /// The vertices with the largest values, by original id.
    pub best: Vec<(u64, f64)>,
    /// Things the user should know.
    pub notes: Vec<String>,
    /// What a scan sustained.
    pub scan_mb_per_s: Option<f64>,
    /// Why there is no row, or no grid.
    pub failure: Option<Failure>,
}

/// Values printed at the end of a run.
const BEST: usize = 10;

/// What a repetition gets from its process.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Polled while running.
    pub interrupt: &'a Interrupt,
    /// Told of bytes read.
    pub progress: &'a dyn Progress,
    /// What reading is called there: `overlap ioc pagerank rep 2`.
    pub stage: &'a str,
    /// Cores of the machine.
    pub cores: u32,
    /// The result of an earlier repetition of the same run, and which that is.
    pub earlier: Option<&'a (Digest, String)>,
}

/// Executes one repetition of a planned run. The row tells how it ended; it is not written yet.
pub fn execute(
    plan: &JobPlan,
    run: &PlannedRun,
    id: &AttemptId,
    around: Surroundings<'_>,
) -> (Row, Aftermath) {
    let mut row = blank(plan, run, id);
    let mut aftermath = Aftermath::default();
    let external = run.is_external();
    let attempt = if external { external::attempt } else { attempt };
    match attempt(plan, run, id, around, &mut row, &mut aftermath) {
        Ok(()) => row.status = Status::Ok,
        Err(error) => {
            let interrupted = matches!(error, RunError::Interrupted);
            row.status = if interrupted { Status::Interrupted } else { Status::Failed };
            row.error_class = Some(error.class().to_owned());
            row.error = Some(error.to_string());
        }
    }
    // Of an external what it used is told, and not what watched it.
    if !external && row.max_rss_b.is_none() {
        fill_usage(&mut row);
    }
    (row, aftermath)
}

fn attempt(
    job: &JobPlan,
    run: &PlannedRun,
    id: &AttemptId,
    around: Surroundings<'_>,
    row: &mut Row,
    aftermath: &mut Aftermath,
) -> Result<(), RunError> {
    let started = Instant::now();
    let grid = layout::find(&job.data, run)?
        .ok_or_else(|| RunError::Dataset("its grid is not built; run `ioc build` first".to_owned()))?;
    let _in_use = grid.hold();
    fill_grid(row, &grid);
    let Manifest { order, vertices, .. } = grid.manifest;
    let bytes = algorithm::state_bytes(&run.spec.algorithm, order, vertices);
    let needs = StateNeeds { bytes, grid: Some(&grid.manifest) };
    let (plan, state) = parameters::resolve(&job.data, &run.spec, Some(needs), around.cores)?;
    let spare = needs.spare_bytes(&run.spec, &plan);
    if state == VertexState::Held && plan.spares == 0 && spare > 0 {
        aftermath.notes.push(format!(
            "most arcs lead into few vertices, which threads take turns at: engine.memory has no room for the {} that a \
             second thread needs",
            format_bytes(spare)
        ));
    }
    fill_plan(row, &plan);
    let files = open_files(&grid)?;
    row.direct_io = Some(files.direct());
    if !files.direct() {
        aftermath.notes.push(
            "a device's file system refuses O_DIRECT: reads go through the page cache (direct_io=false)"
                .to_owned(),
        );
    }
    let (account, outcome) = measure(run, &grid, (plan, state), files, around, started, row)?;
    fill_account(row, &account);
    if matches!(run.spec.algorithm, AlgorithmSpec::Scan(_)) {
        aftermath.scan_mb_per_s = pace(grid.total_bytes(), &account.passes);
    }
    fill_outcome(row, &outcome);
    contradict(row, around)?;
    describe(&grid, &outcome, row, aftermath)?;
    if let (Some(false), Some(residual)) = (outcome.converged, outcome.residual) {
        let iterations = plural(outcome.iterations as usize, "iteration");
        aftermath.notes.push(format!(
            "the tolerance is not met after {iterations}: the residual is {residual:e}; raise the iterations"
        ));
    }
    aftermath.notes.extend(check(run, &grid, &outcome, id, around, row)?);
    // A warm-up is verified by nobody.
    if run.spec.output.values && id.phase == Phase::Measured {
        write_values(job, run, &grid, &outcome)?;
    }
    Ok(())
}

/// Opens the devices' files and forgets what the page cache holds of them, so that every repetition starts cold.
fn open_files(grid: &Grid) -> Result<DeviceFiles, RunError> {
    let files = DeviceFiles::open(&grid.paths.parts)?;
    files.check_lengths(&grid.manifest.part_bytes)?;
    for device in 0..files.count() {
        // Advice: where it is not taken, reads are still right, and O_DIRECT does not look at the cache.
        let _ = fadvise(files.file(device), 0, None, Advice::DontNeed);
    }
    Ok(files)
}

/// Sets up and runs, timing both; the peak of memory is taken before anything else happens.
fn measure(
    run: &PlannedRun,
    grid: &Grid,
    (plan, state): (Plan, VertexState),
    files: DeviceFiles,
    around: Surroundings<'_>,
    started: Instant,
    row: &mut Row,
) -> Result<(Account, Outcome), RunError> {
    let graph = match &run.spec.dataset.source {
        SourceSpec::File { path, .. } => path.display().to_string(),
        SourceSpec::Kronecker(_) => run.spec.dataset.name.clone(),
    };
    let rate = run.spec.storage.emulate.and_then(NonZeroU64::new);
    let shaper = rate.map(|rate| Arc::new(Shaper::new(files.count(), rate)));
    let Plan { kernel, compute_threads: threads, spares, .. } = plan;
    let setup = algorithm::Setup { grid, graph: &graph, kernel, threads, spares };
    let streaming = match state {
        VertexState::Held => None,
        VertexState::Streamed(bytes, memory) => Some(Streaming::new(grid, &plan, bytes, memory)?),
    };
    let (mut algorithm, store) = match &streaming {
        None => (algorithm::create(&run.spec.algorithm, setup)?, None),
        Some(streaming) => {
            let folders = grid.paths.parts.iter().filter_map(|part| part.parent().map(Path::to_owned));
            let (folders, shaper) = (folders.collect(), shaper.clone());
            let stream = StreamSetup { streaming, folders, shaper };
            let (algorithm, store) = streamed::create(&run.spec.algorithm, setup, &stream)?;
            (algorithm, Some(store))
        }
    };
    let setup = Setup {
        grid,
        plan,
        files: Arc::new(files),
        shaper,
        streaming: streaming.as_ref().zip(store.as_ref().map(|store| Arc::clone(store.files()))),
        interrupt: around.interrupt,
        progress: around.progress,
    };
    let engine = Engine::prepare(setup)?;
    row.setup_s = Some(started.elapsed().into());
    let requests = plan.requests(grid);
    let passes = run.spec.algorithm.iterations();
    let bytes = passes.map(|passes| plan.read_bytes(grid.total_bytes(), requests, passes));
    around.progress.begin(around.stage, bytes, Unit::Bytes);
    // What the set-up wrote is not the iterations'.
    if let Some(store) = &store {
        store.take_traffic();
    }
    let account = engine.run(algorithm.as_algorithm());
    around.progress.end();
    fill_usage(row);
    (row.state_read_b, row.state_written_b) = store.map(|store| store.take_traffic()).unzip();
    Ok((account?, algorithm.finish(grid)?))
}

/// An error where a repetition of the same run came to another result.
fn contradict(row: &mut Row, around: Surroundings<'_>) -> Result<(), RunError> {
    let (Some((other, which)), Some(found)) = (around.earlier, row.result_checksum) else { return Ok(()) };
    if *other == found {
        return Ok(());
    }
    row.verified = Some(false);
    Err(RunError::Verify(format!(
        "the result has the checksum {found}, but that of {which} of the same run has {other}, and they must not \
         differ; check the machine's memory, and report it as a defect of ioc",
    )))
}

/// The ten best, and the best of them in the row.
fn describe(
    grid: &Grid,
    outcome: &Outcome,
    row: &mut Row,
    aftermath: &mut Aftermath,
) -> Result<(), RunError> {
    if let Some(result) = &outcome.result {
        row.result = Some(result.clone());
        return Ok(());
    }
    let Some(values) = &outcome.values else {
        row.result = Some(format!("{} edges read", grid.manifest.edges));
        return Ok(());
    };
    let mut best: Vec<(u64, f64)> = Vec::with_capacity(BEST + 1);
    values.each(grid, |vertex, value| {
        // Of equals the first vertex is the better one, in whatever order they come.
        let better = |&(other, best): &(u64, f64)| best > value || (best >= value && other < vertex);
        let place = best.partition_point(better);
        if place < BEST {
            best.insert(place, (vertex, value));
            best.truncate(BEST);
        }
    })?;
    let vertices: Vec<u64> = best.iter().map(|&(vertex, _)| vertex).collect();
    let ids = original_ids(grid, &vertices)?;
    aftermath.best = ids.into_iter().zip(best.into_iter().map(|(_, value)| value)).collect();
    row.result = aftermath.best.first().map(|(vertex, value)| format!("best vertex {vertex} ({value:.6e})"));
    Ok(())
}

/// The original ids of some vertices: one pass over the ids, which may be many more than memory holds.
fn original_ids(grid: &Grid, vertices: &[u64]) -> Result<Vec<u64>, RunError> {
    let mut found = vec![0; vertices.len()];
    for (vertex, id) in (0..).zip(grid.ids()?) {
        let id = id?;
        if let Some(place) = vertices.iter().position(|&wanted| wanted == vertex) {
            found[place] = id;
        }
    }
    Ok(found)
}

fn check(
    run: &PlannedRun,
    grid: &Grid,
    outcome: &Outcome,
    id: &AttemptId,
    around: Surroundings<'_>,
    row: &mut Row,
) -> Result<Option<String>, RunError> {
    let wanted = match run.spec.measure.verify {
        VerifySpec::Off => false,
        VerifySpec::All => true,
        VerifySpec::First => id.phase == Phase::Measured && id.rep == 1,
    };
    if !wanted {
        return Ok(None);
    }
    let memory = run.spec.engine.memory;
    match verify(&run.spec.algorithm, grid, outcome, memory, around.interrupt)? {
        Verdict::Passed(_) => {
            row.verified = Some(true);
            Ok(None)
        }
        Verdict::Coarse(what) => {
            row.verified = Some(true);
            Ok(Some(format!("the result is right, but coarse: {what}")))
        }
        Verdict::Failed(what) => {
            row.verified = Some(false);
            Err(RunError::Verify(format!("the result is wrong: {what}")))
        }
    }
}

/// `RUN_ID.values.csv`, once: repetitions of one run have one result.
fn write_values(job: &JobPlan, run: &PlannedRun, grid: &Grid, outcome: &Outcome) -> Result<(), RunError> {
    let Some(values) = &outcome.values else { return Ok(()) };
    let path = values_path(&job.out, &job.report, &run.run_id)?;
    // What is no file is not there, and in the way: the writer says so.
    if path.is_file() {
        return Ok(());
    }
    let mut writer = ValuesWriter::create(&path)?;
    let mut ids = grid.ids()?;
    values.in_order(grid, run.spec.engine.memory / 2, |values| {
        for (&value, id) in values.iter().zip(&mut ids) {
            writer.push(id?, value)?;
        }
        Ok::<_, RunError>(())
    })?;
    writer.finish()?;
    Ok(())
}
