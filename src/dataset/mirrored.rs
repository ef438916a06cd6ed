//! `directed = false`: each edge of another source in both directions, a loop once.

use std::sync::{Mutex, PoisonError};

use super::{Context, DatasetError, Edge, EdgeSource, Sink, SinkClosed, Summary, VertexSet};
use crate::progress::Unit;

/// An undirected reading of a source.
pub(super) struct Mirrored {
    source: Box<dyn EdgeSource>,
}

impl Mirrored {
    /// Each line of `source` stands for both directions.
    pub(super) fn new(source: Box<dyn EdgeSource>) -> Self {
        Self { source }
    }
}

/// What a worker mirrors into; its lock is never contended, since the calls of one worker do not overlap.
#[derive(Default)]
struct Mirror {
    edges: Vec<Edge>,
    delivered: u64,
}

impl Mirror {
    fn reverse(&mut self, edges: &[Edge]) {
        self.edges.clear();
        let reversed = |edge: &Edge| Edge { source: edge.target, target: edge.source, weight: edge.weight };
        self.edges.extend(edges.iter().filter(|edge| edge.source != edge.target).map(reversed));
        self.delivered += self.edges.len() as u64;
    }
}

impl EdgeSource for Mirrored {
    fn describe(&self) -> String {
        self.source.describe()
    }

    fn vertices(&self) -> VertexSet {
        self.source.vertices()
    }

    fn size(&self) -> (Option<u64>, Unit) {
        self.source.size()
    }

    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError> {
        let mirrors: Vec<Mutex<Mirror>> = (0..context.threads.max(1)).map(|_| Mutex::default()).collect();
        let both = |worker: usize, edges: &[Edge]| -> Result<(), SinkClosed> {
            sink(worker, edges)?;
            let mut mirror = mirrors[worker].lock().unwrap_or_else(PoisonError::into_inner);
            mirror.reverse(edges);
            if mirror.edges.is_empty() { Ok(()) } else { sink(worker, &mirror.edges) }
        };
        let summary = self.source.read(context, &both)?;
        let mirrored =
            mirrors.into_iter().map(|mirror| mirror.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(Summary { edges: summary.edges + mirrored.map(|mirror| mirror.delivered).sum::<u64>(), ..summary })
    }
    fn largest_id(&self, context: Context<'_>) -> Result<Option<u64>, DatasetError> {
        self.source.largest_id(context)
    }
}
