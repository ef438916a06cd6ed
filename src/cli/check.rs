//! `ioc check`: validates a batch and says what each run needs, before anything starts.

use super::args::BatchArgs;
use super::describe::differences;
use super::needs::Needs;
use super::{Problem, batch, exit, output};
use crate::interrupt::Interrupt;
use crate::job::Batch;
use crate::job::spec::RunSpec;
use crate::units::plural;

/// Checks the batch and lists its runs. What is missing or too small here may be there where the batch is run, so that it
/// is noted; what this machine is sure to refuse is an error.
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
    let programs = batch.missing_programs();
    if !programs.is_empty() && !args.quiet {
        output::error(&programs.to_string());
    }
    let plans = batch::plan(&batch, args, interrupt)?;
    let data = batch::absolute(&args.data)?;
    let mut needs = Needs::new(&data);
    let mut refusals = Vec::new();
    for plan in &plans {
        say(&heading(&plan.job, plan.runs.len(), plan.repetitions().len()));
        let specs: Vec<&RunSpec> = plan.runs.iter().map(|run| &run.spec).collect();
        for (run, what) in plan.runs.iter().zip(differences(&specs)) {
            let needed = needs.of(run).unwrap_or_else(|reason| {
                refusals.push(format!("error: {}: {what}: {reason}", plan.job));
                "refused".to_owned()
            });
            say(&format!("  {}  {what}: {needed}", run.run_id));
        }
    }
    say(&needs.total(&plans));
    if !args.quiet {
        needs.notes().iter().for_each(|note| output::error(&format!("note: {note}")));
    }
    if refusals.is_empty() { Ok(exit::OK) } else { Err(Problem::usage(refusals.join("\n"))) }
}

fn list_unidentified(batch: &Batch, say: fn(&str)) {
    for job in &batch.jobs {
        let repetitions =
            job.runs.iter().map(|run| run.measure.warmup as usize + run.measure.repeat as usize).sum();
        say(&heading(&job.name, job.runs.len(), repetitions));
        for what in differences(&job.runs.iter().collect::<Vec<_>>()) {
            say(&format!("  {what}"));
        }
    }
}

fn heading(job: &str, runs: usize, repetitions: usize) -> String {
    format!("{job}: {}, {}", plural(runs, "run"), plural(repetitions, "repetition"))
}
