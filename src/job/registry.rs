//! `datasets.toml`: the data sets of a project by name, and how a job's `dataset` becomes a [`DatasetSpec`].
//!
//! An entry is only checked when it is used (or listed): one that this version cannot read must not stop the
//! jobs that do not need it. The project is the nearest folder that has a `datasets.toml`; relative paths of its
//! jobs and entries start there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::{Fault, Faults};
use super::file::{NAME_RULE, is_name};
use super::layer::{Layer, Layers, Place, Setting, Typed};
use super::resolve::{Invalid, Values};
use super::source::{Origin, Source};
use super::spec::{DatasetSpec, FormatSpec, KroneckerSpec, SourceSpec, WeightsSpec};
use super::{suggest, tree};
use crate::grid::paths::{MOST_NAME, OWN_FILES};
use crate::units::format_count;

/// Name of the registry's file.
pub const REGISTRY_FILE: &str = "datasets.toml";

/// The data sets of a project.
#[derive(Debug)]
pub struct Registry {
    project: PathBuf,
    /// None where the project has no registry.
    source: Option<Arc<Source>>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    origin: Origin,
    layer: Layer,
    faults: Faults,
}

/// The nearest folder, from `start` upwards, that has a `datasets.toml`.
pub fn find_project(start: &Path) -> Option<PathBuf> {
    let start = std::path::absolute(start).ok()?;
    start.ancestors().find(|folder| is_there(&folder.join(REGISTRY_FILE))).map(Path::to_owned)
}

/// Whether a registry has its place there, whatever is in it: what cannot be read is an error, and not as if there were
/// none.
fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

impl Registry {
    /// Reads the registry of a project (an absolute path); one without a `datasets.toml` has no data sets.
    ///
    /// # Errors
    /// The file cannot be read or is not TOML. What is wrong with an entry is told when it is used.
    pub fn open(project: &Path) -> Result<Self, Faults> {
        let path = project.join(REGISTRY_FILE);
        let mut registry = Self { project: project.to_owned(), source: None, entries: Vec::new() };
        if !is_there(&path) {
            return Ok(registry);
        }
        let source = Source::read(&path)?;
        for (key, node) in tree::parse(&source)? {
            let mut faults = Faults::new();
            let place = format!("[{}]", key.name);
            let layer = if let Some(table) = node.as_table() {
                Layer::read(table, Place { name: &place, keys: &[], prefix: "dataset" }, &mut faults)
            } else {
                let message =
                    format!("the data set `{}` must be a table, found {}", key.name, node.describe());
                faults.push(Fault::new(message).at(&node.origin).help("write [name] and its keys below"));
                Layer::default()
            };
            if let Some(fault) = name_fault(&key.name) {
                faults.push(fault.at(&key.origin));
            }
            registry.entries.push(Entry { name: key.name, origin: key.origin, layer, faults });
        }
        registry.source = Some(source);
        Ok(registry)
    }

    /// The folder where relative paths start.
    pub fn project(&self) -> &Path {
        &self.project
    }

    /// Names in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The data set of that name, if there is one, checked.
    pub fn get(&self, name: &str) -> Option<Result<DatasetSpec, Faults>> {
        let entry = self.entries.iter().find(|entry| entry.name == name)?;
        let mut faults = entry.faults.clone();
        let layers = Layers(vec![Layer::defaults(), &entry.layer]);
        let spec =
            Builder { values: Values { layers: &layers, project: &self.project }, faults: &mut faults }
                .build(Some(&entry.name), &entry.origin);
        Some(match (spec, faults.is_empty()) {
            (Ok(resolved), true) => Ok(resolved.spec),
            _ => Err(faults),
        })
    }

    fn unknown(&self, name: &str, origin: &Origin) -> Fault {
        let names: Vec<&str> = self.names().collect();
        let help = match (&self.source, suggest::did_you_mean(name, names.iter().copied())) {
            (_, Some(help)) => help,
            (None, _) => {
                "there is no datasets.toml in a folder above; write one, or give `dataset` as a table: \
                          { path = \"edges.txt\" }"
                    .into()
            }
            (Some(source), None) if names.is_empty() => format!("{} has no entries", source.name),
            (Some(source), None) => format!("{} has: {}", source.name, names.join(", ")),
        };
        Fault::new(format!("unknown data set `{name}`")).at(origin).help(help)
    }
}

/// A data set of a run, and the file that it needs.
pub(crate) struct Resolved {
    pub(crate) spec: DatasetSpec,
    pub(crate) file: Option<(PathBuf, Origin)>,
}

/// Whether a layer says anything of a data set.
pub(crate) fn is_given(layer: &Layer) -> bool {
    layer.iter().any(|(path, _)| path == "dataset" || path.starts_with("dataset."))
}

/// The data set of a run: a name replaces what weaker layers say, a table is laid over it. A data set that
/// differs from its entry is not called by the entry's name unless the job says so (`dataset.name`).
pub(crate) fn resolve(
    layers: &Layers<'_>,
    registry: &Registry,
    project: &Path,
    faults: &mut Faults,
) -> Result<Resolved, Invalid> {
    let base = layers.0.iter().rposition(|layer| layer.get("dataset").is_some());
    let overlay = &layers.0[base.unwrap_or(0)..];
    let mut stack = vec![Layer::defaults()];
    let mut entry_name = None;
    if let Some(setting) = layers.get("dataset") {
        let entry = entry(setting, registry, faults)?;
        stack.push(&entry.layer);
        entry_name = Some(&entry.name);
    }
    stack.extend(overlay);
    let written = overlay.iter().flat_map(|layer| layer.iter());
    let changes: Vec<(&str, &Setting)> =
        written.filter(|(path, setting)| path.starts_with("dataset.") && setting.origin.written()).collect();
    let origin = layers.get("dataset").or_else(|| changes.first().map(|(_, setting)| *setting));
    let origin = &origin.ok_or(Invalid)?.origin;
    let name = entry_name.filter(|_| changes.iter().all(|(path, _)| *path == "dataset.name"));
    let stack = Layers(stack);
    Builder { values: Values { layers: &stack, project }, faults }.build(name.map(String::as_str), origin)
}

fn entry<'a>(setting: &Setting, registry: &'a Registry, faults: &mut Faults) -> Result<&'a Entry, Invalid> {
    let Typed::Text(name) = &setting.value else { return Err(Invalid) };
    let Some(entry) = registry.entries.iter().find(|entry| entry.name == *name) else {
        faults.push(registry.unknown(name, &setting.origin));
        return Err(Invalid);
    };
    if entry.faults.is_empty() {
        return Ok(entry);
    }
    faults.append(entry.faults.clone());
    Err(Invalid)
}

/// Keys that only a file's entry may have.
const OF_FILES: [&str; 3] = ["dataset.format", "dataset.sha256", "dataset.skip_lines"];
const OF_KRONECKER: [&str; 4] = [
    "dataset.generate.kronecker.scale",
    "dataset.generate.kronecker.edge_factor",
    "dataset.generate.kronecker.seed",
    "dataset.generate.kronecker.weights",
];

/// Builds a data set from merged layers.
struct Builder<'a> {
    values: Values<'a>,
    faults: &'a mut Faults,
}

impl Builder<'_> {
    fn build(&mut self, name: Option<&str>, origin: &Origin) -> Result<Resolved, Invalid> {
        let generated = self.values.blame(&OF_KRONECKER).cloned();
        let file = self.values.layers.get("dataset.path").map(|setting| setting.origin.clone());
        if self.values.layers.get("dataset.url").is_some() {
            // Refused where it was read; that nothing else says where the graph is would only repeat it.
            return Err(Invalid);
        }
        let (source, derived) = match (generated, &file) {
            (Some(_), Some(path)) => {
                let fault = Fault::new("the data set has both a `path` and a generator").at(path);
                self.faults
                    .push(fault.help("keep one of them: tables of `dataset` merge, only a name replaces"));
                return Err(Invalid);
            }
            (None, None) => {
                let fault = Fault::new("the data set has neither a `path` nor a generator").at(origin);
                let help = "give path = \"edges.txt\" or generate = { kronecker = { scale = 20 } }";
                self.faults.push(fault.help(help));
                return Err(Invalid);
            }
            (Some(place), None) => self.kronecker(&place)?,
            (None, Some(_)) => self.file()?,
        };
        let name = match (self.values.layers.get("dataset.name"), name) {
            (Some(label), _) => self.label(label)?,
            (None, Some(name)) => name.to_owned(),
            (None, None) => derived,
        };
        let needed = match &source {
            SourceSpec::File { path, .. } => file.map(|origin| (path.clone(), origin)),
            SourceSpec::Kronecker(_) => None,
        };
        let spec = DatasetSpec {
            name,
            source,
            vertices: self.optional("dataset.vertices")?,
            edges: self.optional("dataset.edges")?,
            directed: self.values.flag("dataset.directed")?,
            weights: self.values.choice("dataset.weights", &WeightsSpec::ALL, WeightsSpec::name)?,
            skip_lines: self.values.count("dataset.skip_lines")?,
        };
        Ok(Resolved { spec, file: needed })
    }

    /// A count that may be absent; nothing where it is faulty.
    fn optional(&self, path: &str) -> Result<Option<u64>, Invalid> {
        match self.values.layers.get(path) {
            None => Ok(None),
            Some(_) => self.values.count(path).map(Some),
        }
    }

    fn label(&mut self, setting: &Setting) -> Result<String, Invalid> {
        let Typed::Text(label) = &setting.value else { return Err(Invalid) };
        let Some(fault) = name_fault(label) else { return Ok(label.clone()) };
        self.faults.push(fault.at(&setting.origin));
        Err(Invalid)
    }

    fn kronecker(&mut self, place: &Origin) -> Result<(SourceSpec, String), Invalid> {
        for path in OF_FILES {
            if let Some(origin) = self.values.blame(&[path]) {
                let key = path.trim_start_matches("dataset.");
                let fault =
                    Fault::new(format!("`{key}` is for files, and this data set is generated")).at(origin);
                self.faults.push(fault.help("take it out"));
            }
        }
        if self.values.layers.get("dataset.generate.kronecker.scale").is_none() {
            let fault = Fault::new("the Kronecker generator needs a `scale`").at(place);
            self.faults.push(fault.help("add for example scale = 20, for 2^20 vertices"));
        }
        let kronecker = KroneckerSpec {
            scale: self.values.small("dataset.generate.kronecker.scale")?,
            edge_factor: self.values.count("dataset.generate.kronecker.edge_factor")?,
            seed: self.values.count("dataset.generate.kronecker.seed")?,
            weights: self.values.flag("dataset.generate.kronecker.weights")?,
        };
        self.check_counts(&kronecker);
        Ok((SourceSpec::Kronecker(kronecker), kronecker_name(&kronecker)))
    }

    /// A generator decides how many vertices and edges there are: whoever says other numbers is told now, not after they
    /// are made.
    fn check_counts(&mut self, spec: &KroneckerSpec) {
        let vertices = 1_u64 << spec.scale.min(63);
        let edges = vertices.saturating_mul(spec.edge_factor);
        if let Ok(Some(given)) = self.optional("dataset.vertices")
            && given < vertices
        {
            let (given, vertices) = (format_count(given), format_count(vertices));
            let fault =
                Fault::new(format!("`vertices` is {given}, but scale {} makes {vertices}", spec.scale));
            let origin = self.values.blame(&["dataset.vertices"]);
            self.faults.push(fault.maybe_at(origin).help("take `vertices` out, or change the scale"));
        }
        // Both directions of a line, but a loop once: how many loops there are is known when they are made.
        let Ok(directed) = self.values.flag("dataset.directed") else { return };
        let most = if directed { edges } else { edges.saturating_mul(2) };
        if let Ok(Some(given)) = self.optional("dataset.edges")
            && !(edges..=most).contains(&given)
        {
            let made = if directed {
                format_count(edges)
            } else {
                format!("{} to {}", format_count(edges), format_count(most))
            };
            let (given, factor, scale) = (format_count(given), spec.edge_factor, spec.scale);
            let fault = Fault::new(format!(
                "`edges` is {given}, but scale {scale} with {factor} edges per vertex makes {made}"
            ));
            let origin = self.values.blame(&["dataset.edges"]);
            self.faults.push(fault.maybe_at(origin).help("take `edges` out, or change the generator"));
        }
    }

    fn file(&mut self) -> Result<(SourceSpec, String), Invalid> {
        let path = self.values.absolute(self.values.text("dataset.path")?);
        let format = self.values.choice("dataset.format", &FormatSpec::ALL, FormatSpec::name)?;
        let skipping = self.values.count("dataset.skip_lines")? > 0;
        if skipping && matches!(format, FormatSpec::Gridgraph | FormatSpec::GridgraphWeighted) {
            let origin = self.values.blame(&["dataset.skip_lines"]);
            let fault = Fault::new("`skip_lines` is for text, and this format is binary").maybe_at(origin);
            self.faults.push(fault.help("take it out"));
        }
        let sha256 = match self.values.layers.get("dataset.sha256") {
            None => None,
            Some(_) => Some(self.values.text("dataset.sha256")?.to_owned()),
        };
        let name = file_name(&path);
        Ok((SourceSpec::File { path, format, sha256 }, name))
    }
}

/// Why a text cannot name a data set.
fn name_fault(name: &str) -> Option<Fault> {
    if !is_name(name) {
        let fault = Fault::new(format!("{name:?} is not a valid name"));
        return Some(fault.help(format!("names are made of {NAME_RULE}")));
    }
    if name.len() > MOST_NAME {
        let fault =
            Fault::new(format!("a data set's name of {} characters cannot name its folder", name.len()));
        return Some(fault.help(format!("give it a name of at most {MOST_NAME} characters")));
    }
    name.ends_with(OWN_FILES).then(|| {
        let fault = Fault::new(format!("{name:?} cannot name a data set: it ends as ioc's own files do"));
        fault.help(format!("give it a name that does not end in {OWN_FILES}"))
    })
}

/// `kron-22`, `kron-21w` with weights; what differs from the usual follows: `kron-20-ef8-seed7`.
fn kronecker_name(spec: &KroneckerSpec) -> String {
    let unusual = |tag: &str, value: u64, usual: u64| match value {
        _ if value == usual => String::new(),
        _ => format!("-{tag}{value}"),
    };
    let weights = if spec.weights { "w" } else { "" };
    let (edges, seed) = (unusual("ef", spec.edge_factor, 16), unusual("seed", spec.seed, 1));
    format!("kron-{}{weights}{edges}{seed}", spec.scale)
}

/// The file's name without extensions of text and compression, fit to be a name: `wiki-Vote.txt.gz` is
/// `wiki-Vote`.
fn file_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let clean: String = stem.chars().map(|c| if is_name(&format!("a{c}")) { c } else { '-' }).collect();
    let clean = clean.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let clean = clean.strip_suffix(OWN_FILES).unwrap_or(clean);
    if clean.is_empty() { "edges".into() } else { clean.chars().take(MOST_NAME).collect() }
}
