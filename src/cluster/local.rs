//! Runs a job's plan on this machine: imports what is missing, then one repetition after the other, each in a child
//! process. Whatever becomes of a child, its repetition has a row, and the table on disk is whole after each.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use super::child::{self, Ended};
use crate::grid::layout_key;
use crate::interrupt::Interrupt;
use crate::io_advice::out_of_files;
use crate::report::{AttemptId, JobReport, Phase, ReportError, Row, Status};
use crate::run::error::{Failure, INTERRUPTED};
use crate::run::plan::{JobPlan, PlanError, PlannedRun, Repetition};
use crate::run::repetition::Aftermath;
use crate::run::row::blank;
use crate::run::scan;
use crate::run::{external, layout};

/// How much longer than its command the process may take that watches one.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a job could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// The report is not writable.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The plan is not writable.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No child could be started or waited for.
    #[error("{}: cannot run a child process: {source}{}", program.display(), out_of_files(source).unwrap_or_default())]
    Child {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// What the caller wants to know of a batch under way.
pub trait Observer {
    /// A job begins of which an earlier run of the batch has finished so many repetitions.
    fn resumed(&mut self, finished: usize);
    /// A repetition is over.
    fn finished(&mut self, row: &Row, aftermath: &Aftermath);
    /// Something the user should know.
    fn note(&mut self, text: &str);
}

/// How a job is run.
pub struct Options<'a> {
    /// The `ioc` program.
    pub program: PathBuf,
    /// Go on where an earlier run ended.
    pub resume: bool,
    /// Stop at the first failure.
    pub fail_fast: bool,
    /// Scan each grid before it is measured, for the columns of limits.
    pub scan: bool,
    /// Passed on to the children.
    pub quiet: bool,
    /// What an import may hold, where that is not what its run may.
    pub memory: Option<u64>,
    /// Polled, and passed on.
    pub interrupt: &'a Interrupt,
}

/// Runs the plan; returns the report with all rows.
///
/// # Errors
/// Where the report or the plan cannot be written, or no child can be started: then nothing more is run. What went
/// wrong in a run is in its row.
pub fn run(
    plan: &JobPlan,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<JobReport, LocalError> {
    let order = plan.order();
    let open = if options.resume { JobReport::open } else { JobReport::begin_fresh };
    let mut report = open(&plan.out, &plan.report, &order)?;
    // Also where nothing is left to be done: a kill may have come between an attempt and the table, or somebody removed it.
    report.write()?;
    let file = plan.save()?;
    let mut session = Session { plan, file: &file, options, unbuilt: HashMap::new(), rates: HashMap::new() };
    let repetitions = plan.repetitions();
    let finished = |repetition: &&Repetition| {
        report.finished(&plan.runs[repetition.run].run_id, repetition.phase, repetition.rep)
    };
    observer.resumed(repetitions.iter().filter(finished).count());
    for repetition in repetitions {
        report.take_notes().iter().for_each(|note| observer.note(note));
        let run_id = &plan.runs[repetition.run].run_id;
        if report.finished(run_id, repetition.phase, repetition.rep) {
            continue;
        }
        if options.interrupt.raised() {
            break;
        }
        let attempt = report.next_attempt(run_id, repetition.phase, repetition.rep);
        let id = AttemptId::new(run_id.clone(), repetition.phase, repetition.rep, attempt);
        let (failure, aftermath) = session.attempt(repetition, attempt)?;
        report.write()?;
        if !report.rows().any(|row| row.attempt_id() == id) {
            report.add(&without_row(plan, repetition, &id, failure))?;
        }
        let Some(row) = report.rows().find(|row| row.attempt_id() == id) else { continue };
        observer.finished(row, &aftermath);
        if row.status == Status::Interrupted || (options.fail_fast && row.status == Status::Failed) {
            break;
        }
    }
    report.take_notes().iter().for_each(|note| observer.note(note));
    Ok(report)
}

/// A plan under way, and what was found out meanwhile.
struct Session<'a> {
    plan: &'a JobPlan,
    file: &'a Path,
    options: &'a Options<'a>,
    /// Imports that failed: a cause that took hours to find is not looked for again.
    unbuilt: HashMap<Import, Failure>,
    /// What a scan sustained, by layout and I/O settings; nothing where it failed.
    rates: HashMap<String, Option<f64>>,
}

impl Session<'_> {
    /// Builds the grid where it is missing, scans it where its limit is unknown, then runs the repetition. The failure
    /// is for where no row was left.
    fn attempt(&mut self, repetition: Repetition, attempt: u32) -> Result<(Failure, Aftermath), LocalError> {
        let run = &self.plan.runs[repetition.run];
        let import = import_of(&self.plan.data, run);
        let known = self.unbuilt.get(&import).filter(|_| !is_built(self.plan, repetition.run));
        let grid = match known {
            Some(failure) => Err(failure.clone()),
            None => build(self.plan, repetition.run, self.file, self.options)?,
        };
        if let Err(failure) = grid {
            self.unbuilt.insert(import, failure.clone());
            return Ok((failure, Aftermath::default()));
        }
        let wanted = self.options.scan && repetition.phase == Phase::Measured && !run.is_external();
        let (rate, note) = if wanted { self.rate(repetition.run)? } else { (None, None) };
        if self.options.interrupt.raised() {
            return Ok((Ended::Exited(130).failure("run"), Aftermath::default()));
        }
        let (failure, mut aftermath) = self.repeat(repetition, attempt, rate)?;
        aftermath.notes.extend(note);
        Ok((failure, aftermath))
    }

    /// What a scan of the run's grid with the run's I/O settings sustains, in MB/s, and what the user should know of
    /// it. Each is scanned once a session.
    fn rate(&mut self, run: usize) -> Result<(Option<f64>, Option<String>), LocalError> {
        let settings = scan::settings(&self.plan.runs[run]);
        if let Some(rate) = self.rates.get(&settings) {
            return Ok((*rate, None));
        }
        let mut command = program(self.options, &self.plan.runs[run]);
        command.args(["run", "--scan"]);
        let timeout = self.plan.runs[run].spec.measure.timeout_ms.map(Duration::from_millis);
        let (ended, aftermath) = execute(command, run, self.file, timeout, self.options)?;
        let rate = aftermath.scan_mb_per_s;
        self.rates.insert(settings, rate);
        // What a scan itself says of its failure the repetition will say again; one that was ended says nothing.
        let silent = rate.is_none() && aftermath.failure.is_none();
        let note =
            || format!("{}, so that device_mb_per_s and limit_s stay empty", ended.failure("scan").text);
        Ok((rate, silent.then(note)))
    }

    fn repeat(
        &self,
        repetition: Repetition,
        attempt: u32,
        rate: Option<f64>,
    ) -> Result<(Failure, Aftermath), LocalError> {
        let measure = &self.plan.runs[repetition.run].spec.measure;
        let number = match repetition.phase {
            Phase::Warmup => repetition.rep,
            Phase::Measured => measure.warmup + repetition.rep,
        };
        let mut command = program(self.options, &self.plan.runs[repetition.run]);
        command.args(["run", "--rep", &number.to_string(), "--attempt", &attempt.to_string()]);
        if let Some(rate) = rate {
            command.args(["--device-rate", &rate.to_string()]);
        }
        let mut timeout = measure.timeout_ms.map(Duration::from_millis);
        if self.plan.runs[repetition.run].is_external() {
            // It ends its command in time by itself, and says what the command's last words were.
            timeout = timeout.map(|timeout| timeout.saturating_add(PATIENCE));
        }
        let (ended, mut aftermath) = execute(command, repetition.run, self.file, timeout, self.options)?;
        let failure = aftermath.failure.take().unwrap_or_else(|| ended.failure("run"));
        Ok((failure, aftermath))
    }
}

/// What an import depends on: data set, layout, devices and memory. Runs that share them share the reason why it fails,
/// which may take hours to find.
pub type Import = (String, String, Vec<PathBuf>, u64);

/// The import of a run; of an external what it reads.
pub fn import_of(data: &Path, run: &PlannedRun) -> Import {
    let spec = &run.spec;
    if run.is_external() {
        return (spec.dataset.name.clone(), external::inputs_key(data, run), Vec::new(), 0);
    }
    let layout = layout_key(&layout::request(run));
    (spec.dataset.name.clone(), layout, spec.storage.devices.clone(), spec.engine.memory)
}

fn is_built(plan: &JobPlan, run: usize) -> bool {
    if plan.runs[run].is_external() {
        return external::is_ready(&plan.data, &plan.runs[run]);
    }
    matches!(layout::find(&plan.data, &plan.runs[run]), Ok(Some(_)))
}

/// Imports the grid of a run, or makes what an external reads, in a child, unless it is there.
///
/// # Errors
/// Where no child can be started. That the import failed is the inner result.
pub fn build(
    plan: &JobPlan,
    run: usize,
    file: &Path,
    options: &Options<'_>,
) -> Result<Result<(), Failure>, LocalError> {
    if is_built(plan, run) {
        return Ok(Ok(()));
    }
    let mut command = program(options, &plan.runs[run]);
    command.arg("build");
    if let Some(memory) = options.memory {
        command.arg("--memory").arg(format!("{memory} B"));
    }
    let (ended, aftermath) = execute(command, run, file, None, options)?;
    Ok(match (ended, aftermath.failure) {
        (Ended::Exited(0), _) => Ok(()),
        (_, Some(failure)) => Err(failure),
        (ended, None) => Err(ended.failure("import")),
    })
}

/// Runs a child on a run of the plan. What it has to say comes as JSON on its standard output.
/// Bytes from which glibc's allocator makes an allocation a mapping of its own, which goes back to the system when it is
/// freed. Left to itself it raises that bound with each that is freed, and an import then keeps what its phases gave
/// back, beyond its budget: measured, 20 MiB of 128.
const OWN_MAPPING: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "1048576");

/// The program itself, for a child. What a peer inherits is the user's.
fn program(options: &Options<'_>, run: &PlannedRun) -> Command {
    let mut command = Command::new(&options.program);
    let (name, value) = OWN_MAPPING;
    if !run.is_external() && std::env::var_os(name).is_none() {
        command.env(name, value);
    }
    command
}

fn execute(
    mut command: Command,
    run: usize,
    file: &Path,
    timeout: Option<Duration>,
    options: &Options<'_>,
) -> Result<(Ended, Aftermath), LocalError> {
    command.arg("--plan").arg(file).args(["--index", &run.to_string()]);
    if options.quiet {
        command.arg("--quiet");
    }
    let child = |source| LocalError::Child { program: options.program.clone(), source };
    // In memory: a few hundred bytes need no TMPDIR that exists and has room.
    let said = memfd_create("ioc-said", MemfdFlags::CLOEXEC).map_err(|error| child(error.into()))?;
    let mut said = File::from(said);
    command.stdin(Stdio::null()).stdout(said.try_clone().map_err(child)?);
    let ended = child::run(&mut command, timeout, options.interrupt).map_err(child)?;
    let mut text = String::new();
    let read = said.seek(SeekFrom::Start(0)).and_then(|_| said.read_to_string(&mut text));
    // A child that died said nothing, or half of it.
    let aftermath = read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok((ended, aftermath))
}

/// The row of a repetition whose child left none.
fn without_row(plan: &JobPlan, repetition: Repetition, id: &AttemptId, failure: Failure) -> Row {
    let mut row = blank(plan, &plan.runs[repetition.run], id);
    row.status = if failure.class == INTERRUPTED { Status::Interrupted } else { Status::Failed };
    row.error_class = Some(failure.class);
    row.error = Some(failure.text);
    row
}
