//! The plan of a job: its runs, checked, identified and frozen in `OUT/JOB/plan.json`, so that what executes later,
//! in other processes or on other machines, is what was checked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::job::limits::{self, OutOfRange};
use crate::job::spec::{OrderSpec, RunSpec};
use crate::report::{Phase, ReportError};
use crate::units::plural;
use crate::{atomic_file, regular_file};

/// Version of the plan's format.
const VERSION: u32 = 1;

/// Bytes that a plan has at most: those of 100,000 runs are some 200 MB, and many devices have long paths.
const MOST_PLAN: u64 = 1 << 30;

/// A run with its identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedRun {
    /// Hash of parameters and data: see `job::run_id`.
    pub run_id: String,
    /// Fingerprint of the data set.
    pub fingerprint: String,
    /// Everything else.
    pub spec: RunSpec,
}

impl PlannedRun {
    /// Whether it is a command of another program.
    pub fn is_external(&self) -> bool {
        self.spec.algorithm.external().is_some()
    }

    /// Its repetitions: warm-ups, then measured ones, each by number.
    pub fn repetitions(&self) -> impl Iterator<Item = (Phase, u32)> {
        let measure = &self.spec.measure;
        let phase = |phase, count| (1..=count).map(move |rep| (phase, rep));
        phase(Phase::Warmup, measure.warmup).chain(phase(Phase::Measured, measure.repeat))
    }
}

/// The runs of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobPlan {
    version: u32,
    /// The job's name.
    pub job: String,
    /// Report path below `out`, without extension.
    pub report: PathBuf,
    /// Where reports go.
    pub out: PathBuf,
    /// Where grids are kept.
    pub data: PathBuf,
    /// The runs, each once, in the order of the job file.
    pub runs: Vec<PlannedRun>,
    /// The one run to execute, where only one is.
    #[serde(skip)]
    selected: Option<usize>,
    /// The file that it was read from.
    #[serde(skip)]
    file: Option<PathBuf>,
}

/// One repetition of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Index of the run.
    pub run: usize,
    /// Warm-up or measured.
    pub phase: Phase,
    /// Number within the phase, from 1.
    pub rep: u32,
}

/// A plan that cannot be kept or used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Reading it failed.
    #[error(
        "cannot read the plan {}: {source}; `ioc run` writes one to OUT/JOB/plan.json",
        path.display()
    )]
    Io {
        /// The plan's file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no plan of this version.
    #[error(
        "{} is damaged or no plan of this version of ioc ({detail}); `ioc run` with its job file makes it anew",
        path.display()
    )]
    Format {
        /// The plan's file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// A value that no job file can give.
    #[error(
        "{}: run {index} has {option} = {found}, expected {expected}; correct it, or make the plan anew by `ioc run` \
         with its job file",
        path.display()
    )]
    Range {
        /// The plan's file.
        path: PathBuf,
        /// Index of the run.
        index: usize,
        /// Name of the option.
        option: &'static str,
        /// Its value.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// It cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// It has no such run.
    #[error("{} has no run {index}: it has {}, counted from 0", path.display(), plural(*.runs, "run"))]
    Missing {
        /// The plan's file.
        path: PathBuf,
        /// What was asked for.
        index: usize,
        /// Runs it has.
        runs: usize,
    },
}

impl JobPlan {
    /// A plan of these runs; of runs with the same id the first is kept. Returns how many were left out too.
    pub fn new(
        job: String,
        report: PathBuf,
        out: PathBuf,
        data: PathBuf,
        mut runs: Vec<PlannedRun>,
    ) -> (Self, usize) {
        let all = runs.len();
        let mut seen = HashSet::new();
        runs.retain(|run| seen.insert(run.run_id.clone()));
        let doubled = all - runs.len();
        (Self { version: VERSION, job, report, out, data, runs, selected: None, file: None }, doubled)
    }

    /// The report's folder, of plan and attempts.
    pub fn folder(&self) -> PathBuf {
        self.out.join(&self.report)
    }

    /// Where the plan lies: where it was read from, or in the report's folder.
    pub fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.folder().join("plan.json"))
    }

    /// Writes the plan where no file holds it yet, and returns the file that does. One that was read stays as it is: the
    /// report's folder may be shared with tasks that have another.
    pub fn save(&self) -> Result<PathBuf, PlanError> {
        let path = self.path();
        if self.file.is_some() {
            return Ok(path);
        }
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| PlanError::Format { path: path.clone(), detail: error.to_string() })?;
        atomic_file::replace(&path, &text).map_err(ReportError::from)?;
        Ok(path)
    }

    /// Reads a plan. Its values are in the ranges of a job file's then; paths and names are checked where they are used.
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let io = |source| PlanError::Io { path: path.to_owned(), source };
        let text = regular_file::read(path, MOST_PLAN).map_err(io)?;
        let format = |detail: String| PlanError::Format { path: path.to_owned(), detail };
        let mut plan: Self = serde_json::from_slice(&text).map_err(|error| format(error.to_string()))?;
        if plan.version != VERSION {
            return Err(format(format!("version {}, expected {VERSION}", plan.version)));
        }
        for (index, run) in plan.runs.iter().enumerate() {
            limits::check(&run.spec).map_err(|OutOfRange { option, found, expected }| {
                let path = path.to_owned();
                PlanError::Range { path, index, option, found, expected }
            })?;
        }
        plan.file = Some(path.to_owned());
        Ok(plan)
    }

    /// The run of an index.
    pub fn run(&self, index: usize) -> Result<&PlannedRun, PlanError> {
        self.runs.get(index).ok_or_else(|| PlanError::Missing {
            path: self.path(),
            index,
            runs: self.runs.len(),
        })
    }

    /// Leaves out all repetitions but those of one run.
    pub fn select(&mut self, index: usize) -> Result<(), PlanError> {
        self.run(index)?;
        self.selected = Some(index);
        Ok(())
    }

    /// Index of the one run to execute, where [`Self::select`] chose one.
    pub fn selected(&self) -> Option<usize> {
        self.selected
    }

    /// The ids of the runs, in order.
    pub fn order(&self) -> Vec<String> {
        self.runs.iter().map(|run| run.run_id.clone()).collect()
    }

    /// The repetitions of one run: warm-ups, then measured ones.
    pub fn repetitions_of(&self, run: usize) -> impl Iterator<Item = Repetition> {
        self.runs[run].repetitions().map(move |(phase, rep)| Repetition { run, phase, rep })
    }

    /// All repetitions in the order in which they are to execute: round robin over the runs where any of them asks
    /// for it (so that a drift of the machine meets all runs alike), otherwise run by run.
    pub fn repetitions(&self) -> Vec<Repetition> {
        let mut rounds: Vec<(usize, Repetition)> = (0..self.runs.len())
            .filter(|&run| self.selected.is_none_or(|selected| selected == run))
            .flat_map(|run| self.repetitions_of(run).enumerate())
            .collect();
        if self.runs.iter().any(|run| run.spec.measure.order == OrderSpec::Interleaved) {
            rounds.sort_by_key(|&(round, repetition)| (round, repetition.run));
        }
        rounds.into_iter().map(|(_, repetition)| repetition).collect()
    }
}
