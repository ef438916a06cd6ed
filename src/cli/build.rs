//! `ioc build`: imports every layout that a batch needs, so that no import falls into a measured run.

use std::collections::HashSet;
use std::path::Path;

use super::args::BuildArgs;
use super::progress::Console;
use super::run::{lock, program};
use super::{Problem, batch, end_with_parent, exit, output, stop_with_parent};
use crate::cluster::local::{self, Options};
use crate::dataset::Context;
use crate::interrupt::Interrupt;
use crate::job::Batch;
use crate::run::error::{Failure, INTERRUPTED, RunError};
use crate::run::plan::JobPlan;
use crate::run::repetition::Aftermath;
use crate::run::{external, layout};

/// Builds what the arguments name.
pub(crate) fn build(args: &BuildArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    if let (Some(plan), Some(index)) = (&args.plan, args.index) {
        return import(args, plan, index, interrupt);
    }
    let batch = batch::load(&args.batch)?;
    let missing = batch.missing();
    if !missing.is_empty() {
        return Err(Problem::usage(missing.into_errors()));
    }
    build_batch(&batch, args, interrupt)
}

/// Builds every layout of a checked batch.
pub(crate) fn build_batch(batch: &Batch, args: &BuildArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    let quiet = args.batch.quiet;
    let plans = batch::plan(batch, &args.batch, interrupt)?;
    // It writes plans too, where a batch that runs has its own.
    let _locks = lock(&plans)?;
    let options = Options {
        program: program()?,
        resume: true,
        fail_fast: false,
        scan: false,
        quiet,
        memory: memory(args),
        interrupt,
    };
    let mut done = HashSet::new();
    let mut code = exit::OK;
    for plan in &plans {
        let file = plan.save().map_err(Problem::failed)?;
        for (index, run) in plan.runs.iter().enumerate() {
            if interrupt.raised() || !done.insert(local::import_of(&plan.data, run)) {
                continue;
            }
            // An interrupt of all is said by its exit code; one of the child alone is a failure like others.
            if let Err(failure) = local::build(plan, index, &file, &options).map_err(Problem::failed)?
                && !(failure.class == INTERRUPTED && interrupt.raised())
            {
                output::error(&format!("error: {}: {}", run.spec.dataset.name, failure.text));
                code = exit::FAILED;
            }
        }
    }
    Ok(if interrupt.raised() { exit::INTERRUPTED } else { code })
}

/// A child's work: the grid of one run.
fn import(args: &BuildArgs, plan: &Path, index: usize, interrupt: &Interrupt) -> Result<u8, Problem> {
    end_with_parent();
    let plan = JobPlan::load(plan).map_err(Problem::plan)?;
    let run = plan.run(index).map_err(Problem::plan)?;
    let progress = Console::new(args.batch.quiet);
    let context = Context { threads: super::cores(), interrupt, progress: &progress };
    let memory = memory(args).unwrap_or(run.spec.engine.memory);
    let built = if run.is_external() {
        stop_with_parent();
        external::prepare(&plan.data, run, memory, context)
    } else {
        layout::build(&plan.data, run, memory, context).map(drop)
    };
    let failure = built.err();
    let code = match &failure {
        None => exit::OK,
        Some(RunError::Interrupted) => exit::INTERRUPTED,
        Some(_) => exit::FAILED,
    };
    output::tell_parent(&Aftermath { failure: failure.as_ref().map(Failure::from), ..Aftermath::default() });
    Ok(code)
}

/// What an import may hold, where the command line says so.
fn memory(args: &BuildArgs) -> Option<u64> {
    args.memory.as_ref().map(|size| size.bytes)
}
