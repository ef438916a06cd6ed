//! Data sets: where edges come from, before they are a grid. One file per format or generator; each is an
//! [`EdgeSource`], which hands out batches of edges with the ids of the file, in parallel where the format allows.
//! A reader refuses whatever it does not understand: a graph that lacks edges is worse than none.
//!
//! Sources: [`kronecker`] generates; `text` reads SNAP-like lines, plain or `gzip`; `gridgraph` reads binary
//! records; `mirrored` turns any of them undirected. `workers` is the threads of all of them.

use std::sync::{Mutex, PoisonError};

use crate::interrupt::Interrupt;
use crate::job::spec::{DatasetSpec, SourceSpec, WeightsSpec};
use crate::progress::{Progress, Unit};

mod blocks;
mod digest;
mod error;
mod estimate;
mod file;
mod fingerprint;
mod format;
mod gridgraph;
mod gzip;
pub mod kronecker;
mod line;
mod mirrored;
mod quadrants;
mod text;
mod workers;

#[cfg(test)]
mod tests;

pub use error::{DatasetError, LineFault};
pub use estimate::{Estimate, estimate};
pub use fingerprint::{file_digest, fingerprint};

use file::SourceFile;
use format::Layout;
use gridgraph::{GridGraphSource, Record};
use kronecker::KroneckerSource;
use mirrored::Mirrored;
use text::TextSource;

/// One arc, as the file gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// Original id of the source.
    pub source: u64,
    /// Original id of the destination.
    pub target: u64,
    /// Weight; 1 where there is none.
    pub weight: f64,
}

/// Which vertices a source's graph has. The name of the rule is in every report row (`vertex_rule`), because
/// PageRank depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VertexSet {
    /// `seen`: the ids that occur in the edges (text files).
    Seen,
    /// `range`: 0..=max id (binary edge lists).
    Range,
    /// `declared`: 0..n as header or generator say.
    Declared(u64),
    /// `given`: 0..n as `vertices = N` of the data set says.
    Given(u64),
}

/// What a complete read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Edges handed to the sink.
    pub edges: u64,
    /// Whether they carry weights of their own.
    pub weighted: bool,
}

/// The sink's answer when it cannot take more: its own error is with its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkClosed;

/// Takes batches of edges from worker number `usize` (below `threads`; one worker's calls never overlap).
pub type Sink<'a> = dyn Fn(usize, &[Edge]) -> Result<(), SinkClosed> + Sync + 'a;

/// What long work gets from its caller.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Worker threads to use at most.
    pub threads: usize,
    /// Polled between batches.
    pub interrupt: &'a Interrupt,
    /// Told of progress in the unit of [`EdgeSource::size`].
    pub progress: &'a dyn Progress,
}

/// A graph's edges, readable as often as wanted, the same each time (their order may differ).
pub trait EdgeSource: Sync {
    /// For messages: the file's path, or `kronecker(scale 22, ...)`.
    fn describe(&self) -> String;
    /// Which vertices the graph has.
    fn vertices(&self) -> VertexSet;
    /// How much one read is, for progress.
    fn size(&self) -> (Option<u64>, Unit);
    /// Hands every edge to the sink. Errors name file, line or offset, what was found and what was expected.
    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError>;
    /// The largest id of all edges; `None` where there are none. As much work as a read, but for sources that need not
    /// make edges of what they read.
    fn largest_id(&self, context: Context<'_>) -> Result<Option<u64>, DatasetError> {
        let largest = Mutex::new(None);
        self.read(context, &|_, edges| {
            let here = edges.iter().map(|edge| edge.source.max(edge.target)).max();
            let mut largest = largest.lock().unwrap_or_else(PoisonError::into_inner);
            *largest = (*largest).max(here);
            Ok(())
        })?;
        Ok(largest.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The edges of a data set. Looks at the file's first bytes at most; what is wrong further in, [`EdgeSource::read`]
/// finds. Errors: a file that is not there, not regular or not readable, or whose content is not of its format, and
/// parameters that no generator can follow.
pub fn open(spec: &DatasetSpec) -> Result<Box<dyn EdgeSource>, DatasetError> {
    let source = match &spec.source {
        SourceSpec::Kronecker(kronecker) => {
            let mut kronecker = *kronecker;
            kronecker.weights &= spec.weights == WeightsSpec::Auto;
            Box::new(KroneckerSource::new(&spec.name, kronecker, spec.vertices)?)
        }
        SourceSpec::File { path, format, .. } => {
            let file = SourceFile::open(path)?;
            let layout = format::layout(&file, *format)?;
            open_file(file, layout, spec)?
        }
    };
    Ok(if spec.directed { source } else { Box::new(Mirrored::new(source)) })
}

fn open_file(
    file: SourceFile,
    layout: Layout,
    spec: &DatasetSpec,
) -> Result<Box<dyn EdgeSource>, DatasetError> {
    let DatasetSpec { vertices, weights, skip_lines, .. } = *spec;
    let text = |file, gzip| Box::new(TextSource::new(file, gzip, vertices, weights, skip_lines));
    Ok(match layout {
        Layout::Text => text(file, false),
        Layout::GzipText => text(file, true),
        Layout::Pairs { weight, text } => {
            let path = file.path().to_path_buf();
            let record = Record { has_weight: weight, use_weight: weights == WeightsSpec::Auto };
            let source = GridGraphSource::new(file, vertices, record, text)?;
            if skip_lines > 0 {
                return Err(DatasetError::SkipLinesOfBinary { path });
            }
            Box::new(source)
        }
    })
}
