//! `ioc run`: a batch of jobs, or one run or repetition of a frozen plan.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::args::RunArgs;
use super::progress::{Console, StatusLine};
use super::{Problem, batch, cores, end_with_parent, exit, output};
use crate::cluster::local::{self, Observer, Options};
use crate::interrupt::Interrupt;
use crate::job::Batch;
use crate::progress::Progress;
use crate::report::{AttemptId, JobReport, Phase, Row, Status, table, write_attempt};
use crate::run::layout;
use crate::run::plan::JobPlan;
use crate::run::repetition::{self, Aftermath, Surroundings};

/// Runs what the arguments name.
pub(crate) fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    match (&args.plan, args.index, args.rep) {
        (Some(plan), Some(index), Some(number)) => repeat(args, plan, index, number, interrupt),
        (Some(plan), Some(index), None) => {
            let mut plan = JobPlan::load(plan).map_err(Problem::failed)?;
            plan.select(index).map_err(Problem::usage)?;
            run_plans(&[plan], args, interrupt).map(|done| done.code)
        }
        _ => {
            let batch = batch::load(&args.batch)?;
            run_batch(&batch, args, interrupt).map(|done| done.code)
        }
    }
}

/// What a batch came to.
pub(crate) struct Done {
    /// The exit code.
    pub(crate) code: u8,
    /// The reports, one per job that was begun.
    pub(crate) reports: Vec<JobReport>,
}

/// Runs a checked batch.
pub(crate) fn run_batch(batch: &Batch, args: &RunArgs, interrupt: &Interrupt) -> Result<Done, Problem> {
    let missing = batch.missing();
    if !missing.is_empty() {
        return Err(Problem::usage(missing.into_errors()));
    }
    let plans = batch::plan(batch, &args.batch, interrupt)?;
    run_plans(&plans, args, interrupt)
}

fn run_plans(plans: &[JobPlan], args: &RunArgs, interrupt: &Interrupt) -> Result<Done, Problem> {
    let quiet = args.batch.quiet;
    let options = Options {
        program: program()?,
        resume: args.resume || args.plan.is_some(),
        fail_fast: args.fail_fast,
        quiet,
        interrupt,
    };
    let total = plans.iter().map(|plan| plan.repetitions().len()).sum();
    let mut watch = Watch { console: Console::new(quiet), number: 0, total, best: Vec::new(), failed: false };
    let mut reports = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        reports.push(local::run(plan, &options, &mut watch).map_err(Problem::failed)?);
        if !interrupt.raised() {
            for run in layout::to_drop(plan, &plans[number + 1..]) {
                layout::remove(&plan.data, run).map_err(Problem::failed)?;
            }
        }
        if interrupt.raised() || (args.fail_fast && watch.failed) {
            break;
        }
    }
    if !quiet {
        watch.best.iter().for_each(|best| output::say(best));
        for report in &reports {
            output::say(&table::render(report.rows(), output::width()));
            output::say(&format!("report: {}", shown(report.path()).display()));
        }
    }
    let code = if interrupt.raised() {
        exit::INTERRUPTED
    } else if watch.failed {
        exit::FAILED
    } else {
        exit::OK
    };
    Ok(Done { code, reports })
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

/// Follows a batch for the terminal.
struct Watch {
    console: Console,
    number: usize,
    total: usize,
    best: Vec<String>,
    failed: bool,
}

impl Observer for Watch {
    fn finished(&mut self, row: &Row, aftermath: &Aftermath) {
        self.failed |= row.status == Status::Failed;
        aftermath.notes.iter().for_each(|note| self.note(note));
        self.number += 1;
        self.console.finished(&StatusLine { number: self.number, total: self.total, row });
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
    let plan = JobPlan::load(plan).map_err(Problem::failed)?;
    let run = plan.run(index).map_err(Problem::usage)?;
    let warmup = run.spec.measure.warmup;
    let (phase, rep) =
        if number <= warmup { (Phase::Warmup, number) } else { (Phase::Measured, number - warmup) };
    let report = JobReport::open(&plan.out, &plan.report, &plan.order()).map_err(Problem::failed)?;
    let attempt = args.attempt.unwrap_or_else(|| report.next_attempt(&run.run_id, phase, rep));
    let id = AttemptId::new(run.run_id.clone(), phase, rep, attempt);
    // Elsewhere than on a terminal the parent's line per repetition is enough.
    let progress = Console::new(args.batch.quiet || !std::io::stderr().is_terminal());
    let around = Surroundings { interrupt, progress: &progress, cores: cores() as u32 };
    let (mut row, aftermath) = repetition::execute(&plan, run, &id, around);
    let proven = |other: &Row| {
        other.run_id == row.run_id
            && other.verified == Some(true)
            && other.result_checksum == row.result_checksum
    };
    if row.verified.is_none() && row.result_checksum.is_some() && report.rows().any(proven) {
        row.verified = Some(true);
    }
    write_attempt(&plan.out, &plan.report, &row).map_err(Problem::failed)?;
    output::tell_parent(&aftermath);
    Ok(match row.status {
        Status::Ok => exit::OK,
        Status::Failed => exit::FAILED,
        Status::Interrupted => exit::INTERRUPTED,
    })
}
