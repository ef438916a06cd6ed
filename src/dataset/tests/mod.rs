//! Tests of the data sets as their users see them: a file and its options in, edges or a message out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::{Context, DatasetError, Edge, EdgeSource, Summary, open};
use crate::interrupt::Interrupt;
use crate::job::spec::{DatasetSpec, FormatSpec, SourceSpec, WeightsSpec};
use crate::progress::{Progress, Silent, Unit};

mod binary;
mod contract;
mod gzip;
mod real;
mod robustness;
mod text;

/// A file with nothing but its path said about it.
pub(super) fn file_spec(path: &Path) -> DatasetSpec {
    DatasetSpec {
        name: "test".into(),
        source: SourceSpec::File { path: path.to_path_buf(), format: FormatSpec::Auto, sha256: None },
        vertices: None,
        edges: None,
        directed: true,
        weights: WeightsSpec::Auto,
        skip_lines: 0,
    }
}

pub(super) fn context(threads: usize, interrupt: &Interrupt) -> Context<'_> {
    Context { threads, interrupt, progress: &Silent }
}

/// All edges of a source, in the order of their arrival.
pub(super) fn read_with(
    source: &dyn EdgeSource,
    threads: usize,
) -> Result<(Vec<Edge>, Summary), DatasetError> {
    let edges = Mutex::new(Vec::new());
    let interrupt = Interrupt::new();
    let summary = source.read(context(threads, &interrupt), &|worker, batch| {
        assert!(worker < threads, "worker {worker} of {threads}");
        edges.lock().unwrap().extend_from_slice(batch);
        Ok(())
    })?;
    let edges = edges.into_inner().unwrap();
    assert_eq!(summary.edges, edges.len() as u64);
    Ok((edges, summary))
}

/// Edges in an order that does not depend on threads.
pub(super) fn sorted(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_unstable_by_key(|edge| (edge.source, edge.target, edge.weight.to_bits()));
    edges
}

/// A directory with one file in it.
struct Sample {
    dir: tempfile::TempDir,
    spec: DatasetSpec,
}

impl Sample {
    fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        let spec = file_spec(&path);
        Self { dir, spec }
    }

    fn format(mut self, wanted: FormatSpec) -> Self {
        if let SourceSpec::File { format, .. } = &mut self.spec.source {
            *format = wanted;
        }
        self
    }

    fn vertices(mut self, vertices: u64) -> Self {
        self.spec.vertices = Some(vertices);
        self
    }

    fn skip_lines(mut self, lines: u64) -> Self {
        self.spec.skip_lines = lines;
        self
    }

    fn no_weights(mut self) -> Self {
        self.spec.weights = WeightsSpec::None;
        self
    }

    fn undirected(mut self) -> Self {
        self.spec.directed = false;
        self
    }

    fn path(&self) -> &Path {
        let SourceSpec::File { path, .. } = &self.spec.source else { unreachable!("samples are files") };
        path
    }

    fn read(&self) -> Result<(Vec<Edge>, Summary), DatasetError> {
        read_with(&*open(&self.spec)?, 2).map(|(edges, summary)| (sorted(edges), summary))
    }

    /// Source and target of each edge, sorted.
    fn pairs(&self) -> Vec<(u64, u64)> {
        self.read().unwrap().0.iter().map(|edge| (edge.source, edge.target)).collect()
    }

    /// The message of the error that reading gives, with the directory's name left out.
    fn error(&self) -> String {
        let error = self.read().expect_err("the file is not to be read").to_string();
        error.replace(&format!("{}/", self.dir.path().display()), "")
    }
}

/// A progress that remembers.
#[derive(Default)]
pub(super) struct Recorder {
    stages: Mutex<Vec<(String, Option<u64>, Unit)>>,
    notes: Mutex<Vec<String>>,
    advanced: Mutex<u64>,
}

impl Recorder {
    pub(super) fn stages(&self) -> Vec<(String, Option<u64>, Unit)> {
        self.stages.lock().unwrap().clone()
    }

    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    fn advanced(&self) -> u64 {
        *self.advanced.lock().unwrap()
    }
}

impl Progress for Recorder {
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit) {
        self.stages.lock().unwrap().push((stage.to_owned(), total, unit));
    }

    fn advance(&self, amount: u64) {
        *self.advanced.lock().unwrap() += amount;
    }

    fn end(&self) {}

    fn note(&self, text: &str) {
        self.notes.lock().unwrap().push(text.to_owned());
    }
}

/// So many edges as text, one a line, that do not pack into nothing.
fn lines(edges: u64) -> String {
    (0..edges).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "{} {}", n * n % 10_007, n * 7919 % 100_003);
        text
    })
}

/// Says that a test could not be made here.
#[allow(clippy::print_stderr, reason = "a test has no other way to say so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// A file of the shared folder beside the project, if there is one.
fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).join(path);
    if !path.exists() {
        skipped(&format!("{} is not there", path.display()));
        return None;
    }
    Some(path)
}
