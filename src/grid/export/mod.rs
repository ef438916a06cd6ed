//! Data sets as files that other programs read, so that a comparison reads the same edges. Vertices are numbered as in a
//! grid: by dense index, the rank of the original id. Nothing is dropped: edges that occur twice and loops are exported as
//! they are, since a peer that had fewer edges to handle would look faster.
//!
//! - [`gridgraph`]: an edge list in the order of the source, streamed through one thread, so that the same data set is the
//!   same file everywhere.
//! - [`gapbs`]: compressed rows in both directions, in as many passes over the source as the memory makes necessary.

mod gapbs;
mod gridgraph;

use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use crate::atomic_file::{self, AtomicFile, FileError};
use crate::dataset::{Context, Edge, EdgeSource};
use crate::job::spec::ExportFormatSpec;

use super::digest::digest;
use super::error::GridError;
use super::import::DenseEdges;

/// What is exported, and how.
#[derive(Clone, Copy)]
pub struct ExportRequest<'a> {
    /// The edges.
    pub source: &'a dyn EdgeSource,
    /// The format of the file.
    pub format: ExportFormatSpec,
    /// False: the source gives every edge in both directions, and a format that knows undirected graphs may say so.
    pub directed: bool,
    /// Arcs expected, where the data set says.
    pub expected_edges: Option<u64>,
    /// Bytes that the process may hold.
    pub memory: u64,
    /// What this is called in progress: the data set's name.
    pub stage: &'a str,
}

/// What an export holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Number of vertices, ids being `0..vertices`.
    pub vertices: u64,
    /// `seen`, `range`, `declared` or `given`.
    pub vertex_rule: &'static str,
    /// Arcs.
    pub edges: u64,
    /// Whether they carry weights.
    pub weighted: bool,
    /// Checksum of the data set, as its grids have it.
    pub dataset_checksum: u64,
    /// Weights that were rounded, because the format holds fewer digits.
    pub rounded: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// xxh3 (64 bits) of the file.
    pub xxh3: u64,
}

/// Where an export goes: the path as given, or with the ending that the format wants.
#[derive(Debug, Clone, Copy)]
pub enum ExportPath<'a> {
    /// This file.
    File(&'a Path),
    /// A file of the format's usual name in this folder.
    Folder(&'a Path),
}

/// Writes a source's edges to a file that is there whole or not at all, and returns it and what it holds.
///
/// # Errors
/// Where the source is unreadable or wrong, the format cannot hold it, or the memory is too small.
pub fn export(
    to: ExportPath<'_>,
    request: ExportRequest<'_>,
    context: Context<'_>,
) -> Result<(PathBuf, Exported), GridError> {
    let folder = match to {
        ExportPath::File(path) => path.parent().filter(|folder| !folder.as_os_str().is_empty()),
        ExportPath::Folder(folder) => Some(folder),
    };
    let folder = folder.unwrap_or(Path::new("."));
    // What a killed export left is as large as what comes now.
    atomic_file::remove_stale(folder);
    let edges = DenseEdges::open(request.source, folder, request.stage, request.memory, context)
        .map_err(of_export)?;
    let stage = format!("{}: export", request.stage);
    let job = Export { edges: &edges, to, request, stage: &stage };
    match request.format {
        ExportFormatSpec::Gridgraph => gridgraph::write(&job),
        ExportFormatSpec::Gapbs => gapbs::write(&job),
    }
}

/// The same refusal in the words of an export.
fn of_export(error: GridError) -> GridError {
    match error {
        GridError::Memory { graph, purpose, needed, budget } => {
            GridError::ExportMemory { graph, purpose, needed, budget }
        }
        error => error,
    }
}

/// One export.
struct Export<'a> {
    edges: &'a DenseEdges<'a>,
    to: ExportPath<'a>,
    request: ExportRequest<'a>,
    stage: &'a str,
}

impl Export<'_> {
    /// The file's path, `name` being the usual one.
    fn path(&self, name: &str) -> PathBuf {
        match self.to {
            ExportPath::File(path) => path.to_owned(),
            ExportPath::Folder(folder) => folder.join(name),
        }
    }

    fn check_count(&self, found: u64) -> Result<(), GridError> {
        match self.request.expected_edges {
            Some(expected) if expected != found => {
                Err(GridError::EdgeCount { graph: self.edges.graph().to_owned(), expected, found })
            }
            _ => Ok(()),
        }
    }

    fn refuse_weight(
        &self,
        edge: &Edge,
        format: &'static str,
        holds: &'static str,
        remedy: &'static str,
    ) -> GridError {
        let &Edge { source: source_id, target: target_id, weight } = edge;
        let graph = self.edges.graph().to_owned();
        GridError::ExportWeight { graph, source_id, target_id, weight, format, holds, remedy }
    }
}

/// Sum of the edges' digests.
fn digests(dense: &[(u32, u32)], edges: &[Edge]) -> u64 {
    let one = |(&(source, target), edge): (&(u32, u32), &Edge)| {
        digest(source.into(), target.into(), edge.weight.to_bits())
    };
    dense.iter().zip(edges).map(one).fold(0, u64::wrapping_add)
}

/// Bytes gathered before they are written.
const BATCH: usize = 1 << 20;

/// A file in the making.
struct Output {
    file: AtomicFile,
    path: PathBuf,
    batch: Vec<u8>,
    bytes: u64,
    hash: Xxh3,
}

impl Output {
    fn create(path: &Path) -> Result<Self, GridError> {
        let file = AtomicFile::create(path).map_err(|error| failed("creating", path, error))?;
        Ok(Self {
            file,
            path: path.to_owned(),
            batch: Vec::with_capacity(2 * BATCH),
            bytes: 0,
            hash: Xxh3::new(),
        })
    }

    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.batch.extend_from_slice(&bytes);
    }

    /// Writes what was put, once it is enough for a write.
    #[inline]
    fn flush_full(&mut self) -> Result<(), GridError> {
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), GridError> {
        self.file.write(&self.batch).map_err(|error| failed("writing", &self.path, error))?;
        self.bytes += self.batch.len() as u64;
        self.hash.update(&self.batch);
        self.batch.clear();
        Ok(())
    }

    /// Puts the file in its place; returns its path, its bytes and their checksum.
    fn commit(mut self) -> Result<(PathBuf, u64, u64), GridError> {
        self.flush()?;
        let Self { file, path, bytes, hash, .. } = self;
        file.commit().map_err(|error| failed("writing", &path, error))?;
        Ok((path, bytes, hash.digest()))
    }
}

fn failed(action: &'static str, path: &Path, error: FileError) -> GridError {
    GridError::io(action, path)(error.into())
}
