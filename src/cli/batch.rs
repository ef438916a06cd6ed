//! From the command line's paths to frozen plans: load, check, fingerprint, identify.

use std::path::{Path, PathBuf};

use super::args::BatchArgs;
use super::{Problem, output};
use crate::dataset::fingerprint;
use crate::job::{Batch, JobSource, LoadOptions, find_job_files, load_batch, run_id};
use crate::progress::Progress;
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
    let options =
        LoadOptions { sets: args.sets.clone(), only: args.only.clone(), data_dir: args.data.clone() };
    let batch = load_batch(sources, &options).map_err(Problem::usage)?;
    if batch.jobs.iter().all(|job| job.runs.is_empty()) {
        let only = args.only.as_deref().unwrap_or_default();
        return Err(Problem::nothing(format!(
            "nothing is selected: no job or variant is called `{only}`; `ioc check` lists them"
        )));
    }
    Ok(batch)
}

fn quickstart() -> JobSource {
    let file = PathBuf::from(QUICKSTART_PATH);
    if file.is_file() {
        return JobSource::File(file);
    }
    JobSource::Text { name: QUICKSTART_PATH.into(), text: QUICKSTART.into(), project: PathBuf::from(".") }
}

/// Identifies the runs of a batch: one plan per job.
///
/// # Errors
/// Where a data set's file is missing, unreadable or not what its entry says.
pub(crate) fn plan(
    batch: &Batch,
    out: &Path,
    data: &Path,
    progress: &dyn Progress,
    quiet: bool,
) -> Result<Vec<JobPlan>, Problem> {
    let (out, data) = (absolute(out)?, absolute(data)?);
    let mut plans = Vec::new();
    for job in &batch.jobs {
        let mut runs = Vec::new();
        for spec in &job.runs {
            let fingerprint = fingerprint(&spec.dataset, &data, progress).map_err(Problem::failed)?;
            let run_id = run_id(spec, &fingerprint);
            runs.push(PlannedRun { run_id, fingerprint, spec: spec.clone() });
        }
        let Some(first) = job.runs.first() else { continue };
        let (plan, doubled) =
            JobPlan::new(job.name.clone(), first.report.clone(), out.clone(), data.clone(), runs);
        if doubled > 0 && !quiet {
            output::error(&format!(
                "note: {}: {doubled} runs are the same as others of the job and run once",
                job.name
            ));
        }
        plans.push(plan);
    }
    Ok(plans)
}

fn absolute(path: &Path) -> Result<PathBuf, Problem> {
    std::path::absolute(path).map_err(|error| Problem::failed(format!("{}: {error}", path.display())))
}
