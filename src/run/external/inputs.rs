//! What an external reads: the data set in its format, and the folder that its `prepare` fills. Both are made once and
//! kept in the data directory, so that neither falls into a measured run.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::capture::Capture;
use super::command::{self, Ended, Outcome};
use super::{NOT_READY, cores, of, say_end, usage};
use crate::atomic_file;
use crate::dataset::{self, Context};
use crate::grid::derived::{Derived, DerivedKind, Record};
use crate::grid::{self, ExportPath, ExportRequest, InUse, Written};
use crate::job::external::{self, Placeholder};
use crate::job::spec::{ExternalSpec, SourceSpec};
use crate::progress::Unit;
use crate::report::Digest;
use crate::run::error::RunError;
use crate::run::plan::PlannedRun;

/// What is recorded of an export, beside its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ExportRecord {
    format: String,
    fingerprint: String,
    pub(super) vertices: u64,
    pub(super) vertex_rule: String,
    pub(super) edges: u64,
    pub(super) weighted: bool,
    dataset_checksum: String,
    /// Weights that do not fit the format exactly.
    pub(super) rounded: u64,
}

impl ExportRecord {
    pub(super) fn checksum(&self) -> Option<Digest> {
        crate::report::Cell::read(&self.dataset_checksum).ok()
    }
}

/// What is recorded of a prepared folder.
#[derive(Debug, Serialize, Deserialize)]
struct PreparedRecord {
    command: String,
    wall_s: f64,
    user_s: f64,
    system_s: f64,
    max_rss_b: u64,
}

/// Name of what `{prepared}` stands for in its folder.
const FILES: &str = "files";
/// The output of `prepare`, beside it.
const OUTPUT: &str = "output.txt";

/// The inputs of a run.
pub(super) struct Inputs<'a> {
    run: &'a PlannedRun,
    spec: &'a ExternalSpec,
    export: Option<Derived>,
    prepared: Option<Derived>,
}

impl<'a> Inputs<'a> {
    /// Where they lie, or will.
    pub(super) fn new(data: &Path, run: &'a PlannedRun) -> Result<Self, RunError> {
        let spec = of(run)?;
        let dataset = &run.spec.dataset.name;
        let format = spec.format.name();
        let export = format!("export 1 {format} {}", run.fingerprint);
        // Paths are where they are, and counts follow from the fingerprint.
        let words =
            spec.prepare.iter().map(|word| external::expand(word, |placeholder| setting(spec, placeholder)));
        let words: Vec<String> = words.collect::<Result<_, RunError>>()?;
        let prepared = format!("prepared 1 {format} {} {words:?}", run.fingerprint);
        let needs_export = spec.needs_export();
        let has_prepare = !spec.prepare.is_empty();
        let derived = |wanted: bool, kind, identity: &str| {
            wanted.then(|| Derived::new(data, dataset, kind, identity)).transpose()
        };
        Ok(Self {
            run,
            spec,
            export: derived(needs_export, DerivedKind::Export, &export)?,
            prepared: derived(has_prepare, DerivedKind::Prepared, &prepared)?,
        })
    }

    /// Names them: runs with the same share them.
    pub(super) fn key(&self) -> String {
        let both = [&self.export, &self.prepared].into_iter().flatten();
        both.map(|derived| derived.dir.display().to_string()).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn are_ready(&self) -> bool {
        [&self.export, &self.prepared].into_iter().flatten().all(Derived::is_complete)
    }

    /// Makes what is missing.
    pub(super) fn make(&self, memory: u64, context: Context<'_>) -> Result<(), RunError> {
        if let Some(export) = &self.export {
            export.make(context, |dir| self.export(dir, memory, context))?;
        }
        if let Some(prepared) = &self.prepared {
            prepared.make(context, |dir| self.prepare(dir, context))?;
        }
        Ok(())
    }

    /// Keeps others from removing what there is of them while the result lives.
    pub(super) fn hold(&self) -> Vec<InUse> {
        [&self.export, &self.prepared].into_iter().flatten().filter_map(Derived::hold).collect()
    }

    fn export(
        &self,
        dir: &Path,
        memory: u64,
        context: Context<'_>,
    ) -> Result<Record<ExportRecord>, RunError> {
        let dataset = &self.run.spec.dataset;
        let source = dataset::open(dataset).map_err(|error| RunError::Dataset(error.to_string()))?;
        let request = ExportRequest {
            source: source.as_ref(),
            format: self.spec.format,
            directed: dataset.directed,
            expected_edges: dataset.edges,
            memory,
            stage: &dataset.name,
        };
        let (path, exported) = grid::export(ExportPath::Folder(dir), request, context)?;
        if exported.rounded > 0 {
            context.progress.note(&rounded(exported.rounded, exported.edges, self.spec.format.name()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let what = ExportRecord {
            format: self.spec.format.name().to_owned(),
            fingerprint: self.run.fingerprint.clone(),
            vertices: exported.vertices,
            vertex_rule: exported.vertex_rule.to_owned(),
            edges: exported.edges,
            weighted: exported.weighted,
            dataset_checksum: Digest(exported.dataset_checksum).to_string(),
            rounded: exported.rounded,
        };
        Ok(Record { files: vec![Written::new(name, exported.bytes, exported.xxh3)], what })
    }

    fn prepare(&self, dir: &Path, context: Context<'_>) -> Result<Record<PreparedRecord>, RunError> {
        let held = self.hold();
        let files = dir.join(FILES);
        std::fs::create_dir(&files)
            .map_err(|error| RunError::Io(format!("creating {} failed: {error}", files.display())))?;
        let words = self.words(&self.spec.prepare, &files)?;
        let (name, dataset) = (&self.spec.name, &self.run.spec.dataset.name);
        context.progress.begin(&format!("{dataset}: prepare for {name}"), None, Unit::Bytes);
        let mut capture = Capture::new(None);
        let before = usage::Usage::now();
        let outcome = start(self.spec, &words, &held, &mut capture, None, context);
        context.progress.end();
        let Outcome { ended, wall, .. } = outcome?;
        if ended != Ended::Exited(0) {
            return Err(say_end(&format!("the `prepare` of {name}"), ended, &capture, None));
        }
        let output = dir.join(OUTPUT);
        atomic_file::replace(&output, &capture.kept()).map_err(|error| RunError::Io(error.to_string()))?;
        let used = usage::Usage::now().since(&before);
        let what = PreparedRecord {
            command: external::shown(&words),
            wall_s: wall.as_secs_f64(),
            user_s: used.user_s,
            system_s: used.system_s,
            max_rss_b: used.max_rss_b,
        };
        Ok(Record { files: Vec::new(), what })
    }

    /// What the export holds, where there is one.
    pub(super) fn record(&self) -> Option<Record<ExportRecord>> {
        self.export.as_ref()?.record()
    }

    /// The words of the command.
    pub(super) fn command(&self) -> Result<Vec<String>, RunError> {
        let files = self.prepared.as_ref().map(|prepared| prepared.dir.join(FILES));
        self.words(&self.spec.command, &files.unwrap_or_default())
    }

    fn words(&self, words: &[String], prepared: &Path) -> Result<Vec<String>, RunError> {
        let record = self.record();
        let value = |placeholder| self.value(placeholder, record.as_ref(), prepared);
        words.iter().map(|word| external::expand(word, value)).collect()
    }

    fn value(
        &self,
        placeholder: Placeholder,
        record: Option<&Record<ExportRecord>>,
        prepared: &Path,
    ) -> Result<String, RunError> {
        let exported = || record.ok_or_else(|| RunError::Dataset(NOT_READY.to_owned()));
        Ok(match placeholder {
            Placeholder::Export => {
                let dir = self.export.as_ref().map_or(Path::new(""), |export| &export.dir);
                let file = exported()?.files.first().map(|file| file.name.as_str());
                text_of(&dir.join(file.unwrap_or_default()))?
            }
            Placeholder::Prepared => text_of(prepared)?,
            Placeholder::Source => match &self.run.spec.dataset.source {
                SourceSpec::File { path, .. } => text_of(path)?,
                SourceSpec::Kronecker(_) => {
                    return Err(RunError::Config(
                        "{source} is the file of a data set that is generated".into(),
                    ));
                }
            },
            Placeholder::Vertices => exported()?.what.vertices.to_string(),
            Placeholder::Edges => exported()?.what.edges.to_string(),
            Placeholder::Weighted => u8::from(exported()?.what.weighted).to_string(),
            Placeholder::Threads | Placeholder::MemoryMib | Placeholder::MemoryGib | Placeholder::Ssds => {
                setting(self.spec, placeholder)?
            }
        })
    }

    /// Forgets what the page cache holds of them, so that every repetition starts cold, as ours do.
    pub(super) fn forget(&self) {
        let dirs = [&self.export, &self.prepared].into_iter().flatten().map(|derived| &derived.dir);
        let files = dirs.flat_map(|dir| walkdir::WalkDir::new(dir).into_iter().flatten());
        for entry in files.filter(|entry| entry.file_type().is_file()) {
            // What an earlier repetition wrote can be forgotten once it is on the disk. Advice: what is not taken costs
            // the comparison, not the result.
            if let Ok(file) = std::fs::File::open(entry.path()) {
                let _ = file.sync_data();
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
            }
        }
    }
}

/// What placeholders of the job's settings stand for; others as they are.
fn setting(spec: &ExternalSpec, placeholder: Placeholder) -> Result<String, RunError> {
    let used = |value: Option<u64>| {
        let damaged =
            || RunError::Config(format!("the plan does not say what {{{}}} is", placeholder.name()));
        value.ok_or_else(damaged).map(|value| value.to_string())
    };
    match placeholder {
        Placeholder::Threads => used(spec.threads.map(|threads| threads.or_else(cores).into())),
        Placeholder::MemoryMib => used(spec.memory.map(|bytes| bytes >> 20)),
        Placeholder::MemoryGib => used(spec.memory.map(|bytes| bytes >> 30)),
        Placeholder::Ssds => used(spec.ssds.map(Into::into)),
        other => Ok(format!("{{{}}}", other.name())),
    }
}

fn text_of(path: &Path) -> Result<String, RunError> {
    let text = path.to_str().map(ToOwned::to_owned);
    text.ok_or_else(|| RunError::Config(format!("the path {} is not UTF-8", path.display())))
}

/// What is to be known of weights that a format does not hold exactly.
fn rounded(count: u64, edges: u64, format: &str) -> String {
    use crate::units::format_count;
    let (count, edges) = (format_count(count), format_count(edges));
    format!(
        "{count} of {edges} weights were rounded in the export as {format}, so that peers compute on others"
    )
}

/// Starts a command of an external, and sees it end. What is `held` stays so until all that it started has ended too.
pub(super) fn start(
    spec: &ExternalSpec,
    words: &[String],
    held: &[InUse],
    capture: &mut Capture,
    timeout: Option<Duration>,
    context: Context<'_>,
) -> Result<Outcome, RunError> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(RunError::Config(format!("the external {} has no command", spec.name)));
    };
    let Some(path) = external::find_program(program, &spec.directory) else {
        return Err(RunError::External(format!(
            "the program `{program}` is not found or not executable; install it, or correct the path in the job"
        )));
    };
    let mut command = std::process::Command::new(&path);
    command.args(arguments).current_dir(&spec.directory);
    let held: std::io::Result<Vec<_>> = held.iter().map(InUse::share).collect();
    held.and_then(|held| command::run(command, held, capture, timeout, context.interrupt))
        .map_err(|error| RunError::External(format!("cannot run {}: {error}", path.display())))
}
