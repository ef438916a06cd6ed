//! From the command line's paths to frozen plans: load, check, fingerprint, identify.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::args::BatchArgs;
use super::progress::Console;
use super::{Problem, cores, output};
use crate::dataset::{Context, file_digest, fingerprint};
use crate::interrupt::Interrupt;
use crate::job::spec::{AlgorithmSpec, DatasetSpec, SpmvSpec};
use crate::job::{Batch, JobSource, LoadOptions, find_job_files, load_batch, run_id};
use crate::run::plan::{JobPlan, PlannedRun};

/// The job that runs where no path is given and no `jobs/quickstart.toml` is near: the same, compiled in.
const QUICKSTART: &str = include_str!("../../jobs/quickstart.toml");
const QUICKSTART_PATH: &str = "jobs/quickstart.toml";

/// Loads the batch that the paths name.
pub(crate) fn load(args: &BatchArgs) -> Result<Batch, Problem> {
    let sources = if args.paths.is_empty() {
        vec![quickstart()]
    } else {
        let files = find_job_files(&args.paths).map_err(Problem::usage)?;
        files.into_iter().map(JobSource::File).collect()
    };
    load_sources(&sources, args)
}

/// Loads these jobs with the options of the command line.
pub(crate) fn load_sources(sources: &[JobSource], args: &BatchArgs) -> Result<Batch, Problem> {
    let options = LoadOptions { sets: args.sets.clone(), only: args.only.clone() };
    let batch = load_batch(sources, &options).map_err(Problem::usage)?;
    if let Some(sentence) = batch.nothing_selected() {
        return Err(Problem::nothing(sentence));
    }
    if !args.quiet && !batch.notes().is_empty() {
        output::error(&batch.notes().to_string());
    }
    Ok(batch)
}

fn quickstart() -> JobSource {
    let file = PathBuf::from(QUICKSTART_PATH);
    if file.is_file() {
        return JobSource::File(file);
    }
    JobSource::Text { name: "quickstart".into(), text: QUICKSTART.into(), project: PathBuf::from(".") }
}

/// Identifies the runs of a batch: one plan per job.
///
/// # Errors
/// Where a data set's file is missing, unreadable or not what its entry says.
pub(crate) fn plan(batch: &Batch, args: &BatchArgs, interrupt: &Interrupt) -> Result<Vec<JobPlan>, Problem> {
    let (out, data) = (absolute(&args.out)?, absolute(&args.data)?);
    let progress = Console::new(args.quiet);
    let context = Context { threads: cores(), interrupt, progress: &progress };
    let mut fingerprints = Fingerprints { data: &data, context, known: HashMap::new() };
    let mut plans = Vec::new();
    for job in &batch.jobs {
        let mut runs = Vec::new();
        for spec in &job.runs {
            let fingerprint = fingerprints.of(&spec.dataset)?;
            let inputs = fingerprints.with_vector(&fingerprint, &spec.algorithm)?;
            runs.push(PlannedRun { run_id: run_id(spec, &inputs), fingerprint, spec: spec.clone() });
        }
        let (plan, doubled) =
            JobPlan::new(job.name.clone(), job.report.clone(), out.clone(), data.clone(), runs);
        if doubled > 0 && !args.quiet {
            output::error(&format!(
                "note: {}: runs that are the same as others of the job run once: {doubled}",
                job.name
            ));
        }
        plans.push(plan);
    }
    Ok(plans)
}

/// The fingerprints of a batch's data sets, each computed once.
struct Fingerprints<'a> {
    data: &'a Path,
    context: Context<'a>,
    known: HashMap<String, (DatasetSpec, String)>,
}

impl Fingerprints<'_> {
    fn of(&mut self, spec: &DatasetSpec) -> Result<String, Problem> {
        if let Some((known, fingerprint)) = self.known.get(&spec.name)
            && known == spec
        {
            return Ok(fingerprint.clone());
        }
        let fingerprint = fingerprint(spec, self.data, self.context).map_err(Problem::failed)?;
        self.known.insert(spec.name.clone(), (spec.clone(), fingerprint.clone()));
        Ok(fingerprint)
    }

    /// The fingerprint of all that a run reads: the data set, and SpMV's x where it is a file.
    fn with_vector(&self, dataset: &str, algorithm: &AlgorithmSpec) -> Result<String, Problem> {
        match algorithm {
            AlgorithmSpec::Spmv(SpmvSpec { x: Some(path), .. }) => {
                let digest = file_digest(path, self.data, self.context).map_err(Problem::failed)?;
                Ok(format!("{dataset}+{digest}"))
            }
            _ => Ok(dataset.to_owned()),
        }
    }
}

/// A path that holds in whatever folder.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Problem> {
    std::path::absolute(path).map_err(|error| Problem::failed(format!("{}: {error}", path.display())))
}
