//! Loading a batch: job files in, checked runs out, or everything that is wrong with them.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::expand::{self, MOST_RUNS, Task};
use super::fault::{Fault, Faults};
use super::file::JobFile;
use super::layer::{Layer, Place};
use super::registry::{self, Registry};
use super::resolve::{Needed, Resolver};
use super::source::{Source, SourceKind};
use super::spec::RunSpec;
use super::{suggest, tree};
use crate::report::OLD_ATTEMPTS;

/// Bytes of a report's name: file systems have names of 255, and the table's ends in `.csv`.
const MOST_STEM: usize = 255 - ".csv".len();

/// Where a job comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobSource {
    /// A file. Its project is the nearest folder above with a `datasets.toml`, otherwise its own folder.
    File(PathBuf),
    /// A text that stands for a file: the compiled-in job, what `ioc once` writes.
    Text {
        /// The job's name where the text gives none, its report path, and its name in faults.
        name: String,
        /// TOML.
        text: String,
        /// Where relative paths start, and where a `datasets.toml` is looked for (not above it).
        project: PathBuf,
    },
}

/// What the command line adds to the job files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// `--set KEY=VALUE`, the later ones stronger.
    pub sets: Vec<String>,
    /// `--only NAME`: the job or the variants of that name. The whole batch is checked all the same.
    pub only: Option<String>,
}

/// A checked batch.
#[derive(Debug)]
pub struct Batch {
    /// Jobs that have runs, in the order given. None only where `--only` selects nothing.
    pub jobs: Vec<Job>,
    pub(super) notes: Faults,
    nothing_selected: Option<String>,
}

/// A job and its runs.
#[derive(Debug)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// What it says of itself, maybe empty.
    pub description: String,
    /// The file as given, none for a text.
    pub file: Option<PathBuf>,
    /// Where its relative paths start.
    pub project: PathBuf,
    /// Report path below the output directory, without extension.
    pub report: PathBuf,
    /// Its runs, in the order of the matrix.
    pub runs: Vec<RunSpec>,
    pub(super) needed: Vec<Needed>,
}

impl Batch {
    /// Where `--only` selects nothing: a sentence that says so and names what there is.
    pub fn nothing_selected(&self) -> Option<&str> {
        self.nothing_selected.as_deref()
    }

    /// All runs, job after job.
    pub fn runs(&self) -> impl Iterator<Item = &RunSpec> {
        self.jobs.iter().flat_map(|job| &job.runs)
    }
}

/// The job files of files and folders. Folders are walked in sorted order for `*.toml`, without hidden entries
/// and registries; a file is taken whatever its name; what is given twice is taken once.
///
/// # Errors
/// A path that does not exist, a folder that cannot be read, a folder without job files.
pub fn find_job_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Faults> {
    let mut files: Vec<PathBuf> = Vec::new();
    let mut faults = Faults::new();
    for path in paths {
        let source = Source::new(SourceKind::Text, path.display().to_string(), "");
        let fault = |message: String, help: &str| Fault::new(message).at_source(&source).help(help);
        match std::fs::metadata(path) {
            Err(error) => faults.push(fault(format!("cannot read the path: {error}"), "check the path")),
            Ok(meta) if !meta.is_dir() => files.push(path.clone()),
            Ok(_) => match walk(path) {
                Ok(found) if found.is_empty() => {
                    faults.push(fault("the folder has no job files (*.toml)".into(), "check the path"));
                }
                Ok(found) => files.extend(found),
                Err(error) => {
                    faults.push(fault(format!("cannot read the folder: {error}"), "check the folder"));
                }
            },
        }
    }
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(std::path::absolute(file).unwrap_or_else(|_| file.clone())));
    faults.or(files)
}

fn walk(folder: &Path) -> Result<Vec<PathBuf>, walkdir::Error> {
    let hidden = |entry: &walkdir::DirEntry| {
        entry.depth() > 0 && entry.file_name().as_encoded_bytes().starts_with(b".")
    };
    let walk = walkdir::WalkDir::new(folder).follow_links(true).sort_by_file_name().into_iter();
    let mut files = Vec::new();
    for entry in walk.filter_entry(|entry| !hidden(entry)) {
        let entry = entry?;
        let job = entry.path().extension().is_some_and(|extension| extension == "toml");
        if entry.file_type().is_file() && job && entry.file_name() != registry::REGISTRY_FILE {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

/// Loads and checks a whole batch.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load_batch(sources: &[JobSource], options: &LoadOptions) -> Result<Batch, Faults> {
    let mut loader = Loader {
        registries: HashMap::new(),
        used_algorithms: Vec::new(),
        used_externals: Vec::new(),
        runs: 0,
        notes: Faults::new(),
        faults: Faults::new(),
    };
    let sets = read_sets(&options.sets, &mut loader.faults);
    let mut jobs: Vec<Job> = Vec::new();
    for source in sources {
        if let Some((job, source)) = loader.job(source, &sets) {
            loader.check_report(&job, &source, &jobs);
            jobs.push(job);
        }
    }
    let Loader { used_algorithms, used_externals, notes, mut faults, .. } = loader;
    if faults.is_empty() {
        expand::unused_sets(&sets, &used_algorithms, &used_externals, &mut faults);
    }
    let mut batch = Batch { jobs, notes, nothing_selected: None };
    if !faults.is_empty() {
        // What is missing besides is told at once, so that it is not found after the next edit.
        faults.append(batch.missing());
        return Err(faults);
    }
    if let Some(only) = &options.only {
        select(&mut batch, only);
    }
    Ok(batch)
}

fn read_sets(sets: &[String], faults: &mut Faults) -> Vec<Layer> {
    let place = Place { name: "--set", keys: &[], prefix: "" };
    let mut layers = Vec::new();
    for argument in sets {
        match tree::parse_set(argument) {
            Ok(table) => layers.push(Layer::read(&table, place, faults)),
            Err(syntax) => faults.append(syntax),
        }
    }
    layers
}

struct Loader {
    /// By project; none where the registry is faulty, which is reported once.
    registries: HashMap<PathBuf, Option<Arc<Registry>>>,
    used_algorithms: Vec<&'static str>,
    used_externals: Vec<String>,
    runs: u64,
    notes: Faults,
    faults: Faults,
}

impl Loader {
    fn job(&mut self, from: &JobSource, sets: &[Layer]) -> Option<(Job, Arc<Source>)> {
        let Located { source, stem, project, report, file } =
            locate(from).map_err(|fault| self.faults.push(fault)).ok()?;
        let registry = self.registry(&project);
        let job = JobFile::read(&source, &stem, &mut self.faults)?;
        let registry = registry?;
        let expansion = expand::expand(&job, sets, &mut self.faults);
        self.notes.append(expansion.notes);
        self.count(expansion.points.len() as u64, &source)?;
        let mut resolver = Resolver {
            job: &job,
            project: &project,
            report: &report,
            registry: &registry,
            faults: &mut self.faults,
            needed: Vec::new(),
            known: HashSet::new(),
        };
        let mut runs: Vec<RunSpec> = Vec::new();
        // Places of externals among the runs: few, where ours may be very many.
        let mut externals: Vec<usize> = Vec::new();
        let mut understood = 0;
        for point in &expansion.points {
            note_use(point.task, &mut self.used_algorithms, &mut self.used_externals);
            let Ok(run) = resolver.run(point) else { continue };
            understood += 1;
            // Ours that are the same are told of when they are identified; that externals are is their manner.
            if run.algorithm.external().is_some() {
                if externals.iter().any(|&known| runs[known] == run) {
                    continue;
                }
                externals.push(runs.len());
            }
            runs.push(run);
        }
        let needed = resolver.needed;
        if understood < expansion.points.len() && self.faults.is_empty() {
            // Tests show that this does not happen; were it to, a run must not vanish silently.
            let fault =
                Fault::new("some runs of the job were not understood, a defect of ioc").at_source(&source);
            self.faults.push(fault.help("please report it with the job file"));
        }
        let JobFile { name, description, .. } = job;
        Some((Job { name, description, file, project, report, runs, needed }, source))
    }

    fn registry(&mut self, project: &Path) -> Option<Arc<Registry>> {
        if let Some(known) = self.registries.get(project) {
            return known.clone();
        }
        let opened = Registry::open(project).map(Arc::new).map_err(|faults| self.faults.append(faults)).ok();
        self.registries.insert(project.to_owned(), opened.clone());
        opened
    }

    /// Bounds the batch as a whole.
    fn count(&mut self, runs: u64, source: &Arc<Source>) -> Option<()> {
        self.runs = self.runs.saturating_add(runs);
        if self.runs <= MOST_RUNS {
            return Some(());
        }
        let most = crate::units::format_count(MOST_RUNS);
        let fault =
            Fault::new(format!("with this job the batch has more than {most} runs")).at_source(source);
        self.faults.push(fault.help("run the jobs in several batches"));
        None
    }

    /// Each report has a table and a folder of its own.
    fn check_report(&mut self, job: &Job, source: &Arc<Source>, others: &[Job]) {
        let own = |part: &Component<'_>| {
            let name = part.as_os_str().as_encoded_bytes();
            name.ends_with(b".csv") || name.ends_with(b".json")
        };
        if let Some(part) = job.report.components().find(own) {
            let part = part.as_os_str().display();
            let message =
                format!("the job's report would have a folder {part}, named as a file of another report is");
            let help = "rename the job's file or folder: its name must not end in .csv or .json";
            self.faults.push(Fault::new(message).at_source(source).help(help));
        }
        // The longest name that grows from it is that of the table.
        let stem = job.report.file_name().unwrap_or_default();
        if stem.len() > MOST_STEM {
            let message =
                format!("the job's report cannot be named by the {} bytes of its file's name", stem.len());
            let help = format!("rename the file: at most {MOST_STEM} bytes before .toml");
            self.faults.push(Fault::new(message).at_source(source).help(help));
        }
        let name =
            |other: &Job| other.file.as_ref().map_or(other.name.clone(), |file| file.display().to_string());
        if let Some(other) = others.iter().find(|other| other.report == job.report) {
            let report = job.report.display();
            let message = format!("this job and {} would write the same report, {report}.csv", name(other));
            let help = "rename one of the files, or run them with different --out";
            self.faults.push(Fault::new(message).at_source(source).help(help));
        }
        let inside = |one: &Job, other: &Job| one.report.starts_with(other.report.join(OLD_ATTEMPTS));
        if let Some(other) = others.iter().find(|other| inside(job, other) || inside(other, job)) {
            let message = format!("this job and {} would both write to a folder {OLD_ATTEMPTS}", name(other));
            let help =
                format!("rename one of them: {OLD_ATTEMPTS} is where a job's earlier attempts are kept");
            self.faults.push(Fault::new(message).at_source(source).help(help));
        }
    }
}

fn note_use(task: Task<'_>, algorithms: &mut Vec<&'static str>, externals: &mut Vec<String>) {
    match task {
        Task::Algorithm(name) if !algorithms.contains(&name) => algorithms.push(name),
        Task::External(external) if !externals.contains(&external.name) => {
            externals.push(external.name.clone());
        }
        _ => {}
    }
}

/// A job's text and what follows from its place.
struct Located {
    source: Arc<Source>,
    stem: String,
    project: PathBuf,
    report: PathBuf,
    file: Option<PathBuf>,
}

fn locate(from: &JobSource) -> Result<Located, Fault> {
    match from {
        JobSource::Text { name, text, project } => {
            let source = Source::new(SourceKind::Text, name.clone(), text.clone());
            let project = absolute(project, &source)?;
            Ok(Located { source, stem: name.clone(), project, report: PathBuf::from(name), file: None })
        }
        JobSource::File(path) => {
            let source = Source::read(path)?;
            let full = absolute(path, &source)?;
            let folder = full.parent().unwrap_or(&full);
            let project = registry::find_project(folder).unwrap_or_else(|| folder.to_owned());
            let report = report_path(&full, &project);
            let stem = full.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Located { source, stem, project, report, file: Some(path.clone()) })
        }
    }
}

/// Paths end up in run plans and reports, which are text.
fn absolute(path: &Path, source: &Arc<Source>) -> Result<PathBuf, Fault> {
    let fault = |message: String| Fault::new(message).at_source(source);
    let path =
        std::path::absolute(path).map_err(|error| fault(format!("cannot resolve the path: {error}")))?;
    match path.to_str() {
        Some(_) => Ok(path),
        None => Err(fault("the path is not UTF-8".into()).help("rename the folder or file")),
    }
}

/// Below `jobs/` of the project, otherwise below the nearest folder `jobs`: the path there without extension;
/// elsewhere the stem.
fn report_path(file: &Path, project: &Path) -> PathBuf {
    let below_jobs = || {
        let components: Vec<Component<'_>> = file.components().collect();
        let folders = &components[..components.len().saturating_sub(1)];
        let jobs = folders.iter().rposition(|component| component.as_os_str() == "jobs")?;
        Some(components[jobs + 1..].iter().collect::<PathBuf>())
    };
    let relative = match file.strip_prefix(project.join("jobs")) {
        Ok(relative) => relative.to_owned(),
        Err(_) => below_jobs().unwrap_or_else(|| PathBuf::from(file.file_name().unwrap_or_default())),
    };
    relative.with_extension("")
}

fn select(batch: &mut Batch, only: &str) {
    let mut names: Vec<String> = Vec::new();
    for run in batch.runs() {
        for name in [&run.job, &run.variant] {
            if !name.is_empty() && !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    for job in &mut batch.jobs {
        job.runs.retain(|run| run.job == only || run.variant == only);
    }
    batch.jobs.retain(|job| !job.runs.is_empty());
    if batch.jobs.is_empty() {
        let help = suggest::did_you_mean(only, names.iter().map(String::as_str))
            .unwrap_or_else(|| format!("jobs and variants of the batch: {}", names.join(", ")));
        batch.nothing_selected = Some(format!("no job or variant is called {only:?}; {help}"));
    }
}
