//! `ioc run`: a batch of jobs, or one run or repetition of a frozen plan.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::args::RunArgs;
use super::describe::points;
use super::progress::{Console, StatusLine};
use super::{Problem, batch, cores, end_with_parent, exit, output, stop_with_parent};
use crate::cluster::local::{self, Observer, Options};
use crate::interrupt::Interrupt;
use crate::job::Batch;
use crate::job::spec::RunSpec;
use crate::progress::Progress;
use crate::report::{AttemptId, Digest, JobReport, Phase, Row, Status, table, write_attempt};
use crate::run::layout;
use crate::run::lock::JobLock;
use crate::run::plan::{JobPlan, PlannedRun};
use crate::run::repetition::{self, Aftermath, Surroundings};
use crate::run::row::fill_limit;
use crate::run::scan;

/// Runs what the arguments name.
pub(crate) fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    match (&args.plan, args.index, args.rep) {
        (Some(plan), Some(index), Some(number)) => repeat(args, plan, index, number, interrupt),
        (Some(plan), Some(index), None) if args.scan => scan(args, plan, index, interrupt),
        (Some(plan), Some(index), None) => {
            let mut plan = JobPlan::load(plan).map_err(Problem::plan)?;
            plan.select(index).map_err(Problem::plan)?;
            run_plans(&[plan], args, as_is, interrupt).map(|done| tell(&done, args))
        }
        _ => {
            let batch = batch::load(&args.batch)?;
            run_batch(&batch, args, as_is, interrupt).map(|done| tell(&done, args))
        }
    }
}

/// Prints what came out; returns the exit code.
fn tell(done: &Done, args: &RunArgs) -> u8 {
    if !args.batch.quiet {
        output::say(&done.summary);
    }
    done.code
}

/// What a batch came to.
pub(crate) struct Done {
    /// The exit code.
    pub(crate) code: u8,
    /// The reports, one per job that was begun.
    pub(crate) reports: Vec<JobReport>,
    /// For people: the best vertices and a table per report.
    pub(crate) summary: String,
}

/// How an error of a run is put for the terminal.
pub(crate) type Words = fn(&str) -> String;

fn as_is(text: &str) -> String {
    text.to_owned()
}

/// Runs a checked batch.
pub(crate) fn run_batch(
    batch: &Batch,
    args: &RunArgs,
    words: Words,
    interrupt: &Interrupt,
) -> Result<Done, Problem> {
    let missing = batch.missing();
    if !missing.is_empty() {
        return Err(Problem::usage(missing.into_errors()));
    }
    let programs = batch.missing_programs();
    if !programs.is_empty() {
        return Err(Problem::refused(programs.into_errors()));
    }
    let plans = batch::plan(batch, &args.batch, interrupt)?;
    run_plans(&plans, args, words, interrupt)
}

fn run_plans(
    plans: &[JobPlan],
    args: &RunArgs,
    words: Words,
    interrupt: &Interrupt,
) -> Result<Done, Problem> {
    let quiet = args.batch.quiet;
    // All before the first run: a batch that can be run as a whole only is not begun.
    let _locks = lock(plans)?;
    let options = Options {
        program: program()?,
        resume: args.resume || args.plan.is_some(),
        fail_fast: args.fail_fast,
        scan: !args.no_scan,
        quiet,
        memory: None,
        interrupt,
    };
    let total = plans.iter().map(|plan| plan.repetitions().len()).sum();
    let mut watch = Watch {
        total,
        quiet,
        words,
        points: plans.iter().flat_map(points_of).collect(),
        console: Console::new(quiet),
        number: 0,
        best: Vec::new(),
        complaints: Vec::new(),
        failed: false,
    };
    let mut reports = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let report = local::run(plan, &options, &mut watch).map_err(Problem::failed)?;
        if !interrupt.raised() {
            for run in layout::to_drop(plans, number, |run| is_done(&report, run)) {
                // What stays takes room, and nothing else; the results are what the batch is for.
                if let Err(error) = layout::remove(&plan.data, run) {
                    watch.console.note(&error.to_string());
                }
            }
        }
        reports.push(report);
        if interrupt.raised() || (args.fail_fast && watch.failed) {
            break;
        }
    }
    let mut summary = watch.best.concat();
    for report in &reports {
        summary += &words(&table::render(report.rows(), output::width()));
        let _ = writeln!(summary, "report: {}", shown(report.path()).display());
    }
    let code = if interrupt.raised() {
        exit::INTERRUPTED
    } else if watch.failed {
        exit::FAILED
    } else {
        exit::OK
    };
    Ok(Done { code, reports, summary })
}

/// Whether every repetition of a run has ended well.
fn is_done(report: &JobReport, run: &PlannedRun) -> bool {
    run.repetitions().all(|(phase, rep)| report.finished(&run.run_id, phase, rep))
}

/// Keeps other processes off the reports of a batch.
pub(crate) fn lock(plans: &[JobPlan]) -> Result<Vec<JobLock>, Problem> {
    plans.iter().map(|plan| JobLock::acquire(plan).map_err(Problem::failed)).collect()
}

/// Where a path is below the current directory, that part of it.
fn shown(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).to_owned()
}

/// This program, to be run again as a child.
pub(crate) fn program() -> Result<PathBuf, Problem> {
    std::env::current_exe()
        .map_err(|error| Problem::failed(format!("cannot find the program itself: {error}")))
}

/// The job and the id of each run, and what tells it apart.
fn points_of(plan: &JobPlan) -> Vec<((String, String), String)> {
    let specs: Vec<&RunSpec> = plan.runs.iter().map(|run| &run.spec).collect();
    let names = plan.runs.iter().map(|run| (plan.job.clone(), run.run_id.clone()));
    names.zip(points(&specs)).collect()
}

/// Follows a batch for the terminal.
struct Watch {
    total: usize,
    quiet: bool,
    words: Words,
    /// What tells runs apart, by job and run.
    points: HashMap<(String, String), String>,
    console: Console,
    number: usize,
    best: Vec<String>,
    complaints: Vec<String>,
    failed: bool,
}

impl Watch {
    /// Under `--quiet` there is no line per repetition, but an error is to be heard, each cause once.
    fn complain(&mut self, row: &Row) {
        let names = [Some(row.job.as_str()), row.variant.as_deref(), row.algorithm.as_deref()];
        let names: Vec<&str> = names.into_iter().flatten().collect();
        let complaint = format!("error: {}: {}", names.join(" "), row.error.as_deref().unwrap_or("failed"));
        if !self.complaints.contains(&complaint) {
            output::error(&complaint);
            self.complaints.push(complaint);
        }
    }
}

impl Observer for Watch {
    fn resumed(&mut self, finished: usize) {
        self.number += finished;
    }

    fn finished(&mut self, row: &Row, aftermath: &Aftermath) {
        let row = &Row { error: row.error.as_deref().map(self.words), ..row.clone() };
        // An interrupt of all is said by the exit code; a repetition that was interrupted alone has failed.
        self.failed |= row.status != Status::Ok;
        if row.status == Status::Failed && self.quiet {
            self.complain(row);
        }
        aftermath.notes.iter().for_each(|note| self.note(note));
        self.number += 1;
        let point = self.points.get(&(row.job.clone(), row.run_id.clone())).map_or("", String::as_str);
        self.console.finished(&StatusLine { number: self.number, total: self.total, point, row });
        let best = best_of(row, aftermath);
        if !aftermath.best.is_empty() && !self.best.contains(&best) {
            self.best.push(best);
        }
    }

    fn note(&mut self, text: &str) {
        self.console.note(text);
    }
}

/// The ten best, as printed.
fn best_of(row: &Row, aftermath: &Aftermath) -> String {
    let of = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let mut text =
        format!("\n{} of {} ({})\n", of(&row.algorithm), of(&row.dataset), of(&row.algorithm_params));
    for (vertex, value) in &aftermath.best {
        let _ = writeln!(text, "{vertex:>20}  {value:.9e}");
    }
    text
}

/// A child's work: one repetition. Its row is on disk when it ends.
fn repeat(
    args: &RunArgs,
    plan: &Path,
    index: usize,
    number: u32,
    interrupt: &Interrupt,
) -> Result<u8, Problem> {
    end_with_parent();
    let plan = JobPlan::load(plan).map_err(Problem::plan)?;
    let run = plan.run(index).map_err(Problem::plan)?;
    if run.is_external() {
        stop_with_parent();
    }
    let warmup = run.spec.measure.warmup;
    let (phase, rep) =
        if number <= warmup { (Phase::Warmup, number) } else { (Phase::Measured, number - warmup) };
    let report = JobReport::open(&plan.out, &plan.report, &plan.order()).map_err(Problem::failed)?;
    let attempt = args.attempt.unwrap_or_else(|| report.next_attempt(&run.run_id, phase, rep));
    let id = AttemptId::new(run.run_id.clone(), phase, rep, attempt);
    let progress = child_console(args);
    let stage = format!("{} {}", name_of(&plan, index), table::number(phase, rep));
    let earlier = earlier(&run.run_id, &report);
    let around = Surroundings {
        interrupt,
        progress: &progress,
        stage: &stage,
        cores: cores() as u32,
        earlier: earlier.as_ref(),
    };
    let (mut row, aftermath) = repetition::execute(&plan, run, &id, around);
    fill_limit(&mut row, args.device_rate);
    write_attempt(&plan.out, &plan.report, &row).map_err(Problem::failed)?;
    output::tell_parent(&aftermath);
    Ok(match row.status {
        Status::Ok => exit::OK,
        Status::Failed => exit::FAILED,
        Status::Interrupted => exit::INTERRUPTED,
    })
}

/// A child's work: what the devices of a run sustain.
fn scan(args: &RunArgs, plan: &Path, index: usize, interrupt: &Interrupt) -> Result<u8, Problem> {
    end_with_parent();
    let plan = JobPlan::load(plan).map_err(Problem::plan)?;
    let run = plan.run(index).map_err(Problem::plan)?;
    let progress = child_console(args);
    let stage = format!("scan for {}", name_of(&plan, index));
    let around =
        Surroundings { interrupt, progress: &progress, stage: &stage, cores: cores() as u32, earlier: None };
    let aftermath = scan::scan(&plan, run, around);
    output::tell_parent(&aftermath);
    Ok(if aftermath.failure.is_none() { exit::OK } else { exit::FAILED })
}

/// A run of a plan, as its line of progress names it where there is one.
fn name_of(plan: &JobPlan, index: usize) -> String {
    if !std::io::stderr().is_terminal() {
        return plan.job.clone();
    }
    let spec = &plan.runs[index].spec;
    let point = points_of(plan).swap_remove(index).1;
    let parts = [plan.job.as_str(), &spec.variant, spec.algorithm.name(), &point];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Bars on a terminal; elsewhere the parent's line per repetition is enough.
fn child_console(args: &RunArgs) -> Console {
    Console::new(args.batch.quiet || !std::io::stderr().is_terminal())
}

/// What an earlier repetition of a run came to, and which that is.
fn earlier(run_id: &str, report: &JobReport) -> Option<(Digest, String)> {
    let done = |row: &&Row| row.run_id == run_id && row.status == Status::Ok;
    report.rows().filter(done).find_map(|row| Some((row.result_checksum?, table::repetition(row))))
}
