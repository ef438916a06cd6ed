//! One repetition of an external: a command of another program, executed as ours are, in a process of its own which does
//! nothing but watch it, and told of in a row of the same report.

mod capture;
mod command;
mod inputs;
mod usage;

use std::path::Path;
use std::time::Duration;

use capture::{Capture, Told};
use command::{Ended, Outcome};
use inputs::Inputs;
use usage::Usage;

use super::error::RunError;
use super::plan::{JobPlan, PlannedRun};
use super::repetition::{Aftermath, Surroundings};
use crate::atomic_file;
use crate::dataset::Context;
use crate::grid::derived::Record;
use crate::job::external::time_regex;
use crate::job::spec::ExternalSpec;
use crate::measure::environment::memory_total;
use crate::progress::Unit;
use crate::report::{AttemptId, ReportError, Row, Seconds, output_path};
use crate::units::plural;

/// Why a repetition cannot begin.
const NOT_READY: &str = "what it reads is not made, or was removed meanwhile; run `ioc build` first";

/// Names what an external reads: runs that share it share the work of making it.
pub fn inputs_key(data: &Path, run: &PlannedRun) -> String {
    Inputs::new(data, run).map(|inputs| inputs.key()).unwrap_or_default()
}

/// Whether all that it reads is there.
pub fn is_ready(data: &Path, run: &PlannedRun) -> bool {
    Inputs::new(data, run).is_ok_and(|inputs| inputs.are_ready())
}

/// Exports the data set and has it prepared, where that was not done before.
///
/// # Errors
/// Where the source is unreadable or wrong, its format cannot hold it, or the command that prepares it fails.
pub fn prepare(data: &Path, run: &PlannedRun, memory: u64, context: Context<'_>) -> Result<(), RunError> {
    // As with imports, a budget larger than the machine is as good as none.
    Inputs::new(data, run)?.make(memory.min(memory_total().unwrap_or(u64::MAX)), context)
}

/// What [`repetition`](super::repetition) does where a run is an external's.
pub(super) fn attempt(
    plan: &JobPlan,
    run: &PlannedRun,
    id: &AttemptId,
    around: Surroundings<'_>,
    row: &mut Row,
    aftermath: &mut Aftermath,
) -> Result<(), RunError> {
    let spec = of(run)?;
    let inputs = Inputs::new(&plan.data, run)?;
    let regex = spec.time_regex.as_deref().map(time_regex).transpose();
    let regex = regex.map_err(|why| RunError::Config(format!("external.{}.time_regex: {why}", spec.name)))?;
    fill_dataset(row, &inputs);
    let held = inputs.hold();
    if !inputs.are_ready() {
        return Err(RunError::Dataset(NOT_READY.to_owned()));
    }
    let words = inputs.command()?;
    inputs.forget();
    let mut capture = Capture::new(regex);
    let timeout = run.spec.measure.timeout_ms.map(Duration::from_millis);
    let context = Context { threads: 1, interrupt: around.interrupt, progress: around.progress };
    let before = Usage::now();
    around.progress.begin(around.stage, None, Unit::Bytes);
    let outcome = inputs::start(spec, &words, &held, &mut capture, timeout, context);
    around.progress.end();
    fill_usage(row, Usage::now().since(&before));
    let outcome = outcome?;
    // Before the row that is judged by it.
    let output = output_path(&plan.out, &plan.report, id)?;
    let outputs = output.with_file_name(format!("{}-*.output.txt", id.run_id));
    atomic_file::replace(&output, &capture.kept()).map_err(ReportError::from)?;
    if outcome.left > 0 {
        let left = plural(outcome.left, "descendant");
        aftermath.notes.push(format!(
            "{} ended and left {left} of its own running, ended now: was what they did to be measured?",
            spec.name
        ));
    }
    if outcome.ended != Ended::Exited(0) {
        return Err(say_end(&spec.name, outcome.ended, &capture, Some(&outputs)));
    }
    fill_times(row, spec, outcome, &mut capture, &outputs)
}

/// The external of a planned run.
fn of(run: &PlannedRun) -> Result<&ExternalSpec, RunError> {
    let external = run.spec.algorithm.external();
    external.ok_or_else(|| RunError::Config(format!("the run {} is none of an external", run.run_id)))
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// What is known of the data set where it was exported.
fn fill_dataset(row: &mut Row, inputs: &Inputs<'_>) {
    let Some(Record { what: record, .. }) = inputs.record() else { return };
    row.dataset_checksum = record.checksum();
    row.vertices = Some(record.vertices);
    row.edges = Some(record.edges);
    row.weighted = Some(record.weighted);
    row.vertex_rule = Some(record.vertex_rule);
}

fn fill_usage(row: &mut Row, used: Usage) {
    row.user_s = Some(Seconds(used.user_s));
    row.system_s = Some(Seconds(used.system_s));
    row.max_rss_b = Some(used.max_rss_b).filter(|&bytes| bytes > 0);
    row.read_b = used.read_b;
}

fn fill_times(
    row: &mut Row,
    spec: &ExternalSpec,
    outcome: Outcome,
    capture: &mut Capture,
    outputs: &Path,
) -> Result<(), RunError> {
    let wall = outcome.wall.as_secs_f64();
    let runtime = match &spec.time_regex {
        None => wall,
        Some(pattern) => {
            let (seconds, line) = seconds(pattern, wall, capture, outputs)?;
            row.setup_s = Some(Seconds((wall - seconds).max(0.0)));
            row.result = Some(line);
            seconds
        }
    };
    row.runtime_s = Some(Seconds(runtime));
    row.iterations = spec.iterations;
    let handled = spec.iterations.zip(row.edges).map(|(iterations, edges)| iterations as f64 * edges as f64);
    row.edges_per_s = handled.filter(|_| runtime > 0.0).map(|handled| handled / runtime);
    Ok(())
}

/// The time that the command itself tells, with the line that does.
fn seconds(
    pattern: &str,
    wall: f64,
    capture: &mut Capture,
    outputs: &Path,
) -> Result<(f64, String), RunError> {
    /// How much longer than it ran a command may say: figures are rounded, and clocks differ.
    const SLACK: (f64, f64) = (1.01, 0.05);
    let told = match capture.told() {
        Told::Seconds(seconds, line) if seconds <= wall * SLACK.0 + SLACK.1 => return Ok((seconds, line)),
        Told::Seconds(seconds, line) => format!(
            "finds {seconds} in the line \"{line}\", but the command ran for {wall:.1} s only: it must find seconds"
        ),
        Told::Nothing => "matches nothing of the output".to_owned(),
        Told::Several(count) => {
            format!("matches {count} times in the output; make it match the one that counts")
        }
        Told::NoNumber(text) => format!("finds \"{text}\", which is no number of seconds"),
    };
    Err(RunError::External(format!("time_regex {pattern:?} {told}{}", where_it_is(outputs))))
}

/// Of all repetitions, since one cause in all of them is to be told once.
fn where_it_is(outputs: &Path) -> String {
    format!("; all of it is in {}", outputs.display())
}

/// Why a command that did not end well failed, in the words of its own last lines.
fn say_end(name: &str, ended: Ended, capture: &Capture, outputs: Option<&Path>) -> RunError {
    let what = match ended {
        Ended::Interrupted => return RunError::Interrupted,
        Ended::TimedOut => format!("{name} took longer than its timeout and was ended"),
        Ended::Exited(code) => format!("{name} exited with code {code}"),
        Ended::Killed(9) => format!("{name} was killed (signal 9); out of memory?"),
        Ended::Killed(signal) => format!("{name} was ended by signal {signal}"),
    };
    let end = match capture.end() {
        Some(end) => format!("; its output ends: {end}"),
        None => "; it printed nothing".to_owned(),
    };
    let text = what + &end + &outputs.map(where_it_is).unwrap_or_default();
    if ended == Ended::TimedOut { RunError::TimedOut(text) } else { RunError::External(text) }
}
