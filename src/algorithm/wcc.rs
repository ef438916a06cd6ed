//! Weakly connected components (directions ignored) in one pass over the edges, in whatever order they come: a forest of
//! vertices that all threads join at once, each tree a part of a component. A root joins the smaller one by
//! compare-and-swap, so that a parent is never larger than its child; paths are halved as they are gone along. Smaller
//! roots are those of hubs by degree, and rarely cease to be roots.
//!
//! The edge loop combines the trees of a piece's sources before it looks at the destination, once per piece; most edges
//! of most graphs lie inside one tree by then, and cost two loads. Anderson and Woll 1991, with the linking by index of
//! Jayanti and Tarjan 2016.

use std::sync::atomic::{AtomicU32, Ordering};

use super::exact::result_checksum;
use super::targets::fold_chunk;
use super::{GraphAlgorithm, Outcome, Setup, SetupError, Values};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::grid::{BlockView, ChunkError, Fold, Grid, Lookup, Near, Renumbering};
use crate::storage::error::StorageError;
use crate::storage::huge;

/// Bytes kept per vertex: at the end, label and value; before, the parent.
pub const STATE_BYTES_PER_VERTEX: u64 = 12;

/// Ids above this are no f64, which values are.
const LARGEST_ID: u64 = 1 << 53;

/// The state between passes.
pub(crate) struct Wcc {
    renumbering: Renumbering,
    parents: Vec<AtomicU32>,
    done: u64,
}

impl Wcc {
    pub(crate) fn new(setup: Setup<'_>) -> Result<Self, SetupError> {
        let vertices = setup.grid.manifest.vertices as usize;
        let mut largest = 0;
        for id in setup.grid.ids()? {
            largest = id?;
        }
        if largest > LARGEST_ID {
            return Err(SetupError::Label { id: largest, graph: setup.graph.to_owned() });
        }
        Ok(Self {
            renumbering: setup.grid.renumbering()?,
            parents: huge::collected(vertices, (0..vertices).map(|vertex| AtomicU32::new(vertex as u32))),
            done: 0,
        })
    }
}

impl Algorithm for Wcc {
    fn passes(&self) -> u64 {
        1
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        (self.done == 0).then(|| Box::new(Forest(&self.parents)) as Box<dyn Pass>)
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.done += 1;
        Ok(())
    }
}

/// All orderings are relaxed: a parent, whenever it was read, is in the same tree, which is all that is asked of it; and
/// the roots are read when all threads have ended.
#[derive(Debug, Clone, Copy)]
struct Forest<'a>(&'a [AtomicU32]);

impl Forest<'_> {
    #[inline]
    fn parent(self, vertex: u32) -> u32 {
        self.0[vertex as usize].load(Ordering::Relaxed)
    }

    /// The root of a vertex's tree, at some moment.
    fn root(self, mut vertex: u32) -> u32 {
        let mut parent = self.parent(vertex);
        loop {
            let grandparent = self.parent(parent);
            if grandparent == parent {
                return parent;
            }
            // The vertex is no root and never becomes one again, so that no joining is overwritten.
            self.0[vertex as usize].store(grandparent, Ordering::Relaxed);
            (vertex, parent) = (grandparent, self.parent(grandparent));
        }
    }

    /// Joins two vertices' trees, and returns what was its root at some moment.
    fn join(self, one: u32, other: u32) -> u32 {
        let (mut one, mut other) = (one, other);
        loop {
            (one, other) = (self.root(one), self.root(other));
            if one == other {
                return one;
            }
            let (small, large) = (one.min(other), one.max(other));
            let root = &self.0[large as usize];
            if root.compare_exchange(large, small, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return small;
            }
        }
    }
}

/// A term is a vertex of the source's tree, its root where that is at hand.
impl Fold for Forest<'_> {
    type Value = AtomicU32;
    type Term = u32;

    const IDEMPOTENT: bool = true;

    #[inline]
    fn term(self, source: usize, value: &AtomicU32, _weight: f64) -> u32 {
        let parent = value.load(Ordering::Relaxed);
        if self.parent(parent) == parent { parent } else { self.root(source as u32) }
    }

    #[inline]
    fn combine(self, all: u32, term: u32) -> u32 {
        if all == term { all } else { self.join(all, term) }
    }

    #[inline]
    fn touch(value: &AtomicU32) {
        std::hint::black_box(value.load(Ordering::Relaxed));
    }
}

impl Pass for Forest<'_> {
    fn block(&self, _: usize, block: &mut BlockView<'_>, _: IfOwned) -> Result<Taken, ChunkError> {
        let (mut edges, mut near) = (0, Near::default());
        for chunk in block {
            let chunk = chunk?;
            let first = chunk.first_vertex as u32;
            edges += fold_chunk(&chunk, Lookup::all(self.0), &mut near, *self, |target, term| {
                let target = first + target as u32;
                if self.parent(target) != term {
                    self.join(target, term);
                }
            });
        }
        Ok(Taken::Done(edges))
    }

    fn column_done(&self, _: usize) -> Result<(), StorageError> {
        Ok(())
    }
}

impl GraphAlgorithm for Wcc {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, grid: &Grid) -> Result<Outcome, SetupError> {
        let Self { renumbering, parents, done } = *self;
        let parents = parents.into_iter().map(AtomicU32::into_inner).collect();
        let labels = smallest_members(parents, &renumbering);
        let result = summary(&labels);
        let values = by_original_id(&labels, grid)?;
        Ok(Outcome {
            iterations: done,
            converged: None,
            residual: None,
            checksum: result_checksum(&values),
            values: Some(Values::Held(values)),
            quantum: None,
            result: Some(result),
        })
    }
}

/// By dense index, the smallest dense index of the component, from parents by position.
fn smallest_members(mut parents: Vec<u32>, renumbering: &Renumbering) -> Vec<u32> {
    // A parent is no larger than its child, so that its own root is known by then.
    for vertex in 0..parents.len() {
        parents[vertex] = parents[parents[vertex] as usize];
    }
    let mut least = vec![u32::MAX; if renumbering.bytes() == 0 { 0 } else { parents.len() }];
    if least.is_empty() {
        return parents;
    }
    let dense = |position: usize| renumbering.dense(position as u64) as u32;
    for (position, &root) in parents.iter().enumerate() {
        least[root as usize] = least[root as usize].min(dense(position));
    }
    for root in &mut parents {
        *root = least[*root as usize];
    }
    drop(least);
    renumbering.to_dense(parents)
}

/// How many components, and how large the largest, for people.
fn summary(labels: &[u32]) -> String {
    let mut sizes = vec![0_u32; labels.len()];
    for &label in labels {
        sizes[label as usize] += 1;
    }
    let components = sizes.iter().filter(|&&size| size > 0).count();
    let largest = sizes.into_iter().max().unwrap_or(0);
    format!("{components} components, the largest of {largest} vertices")
}

/// The label of each vertex as an original id. Ids ascend with the index and a label is no larger than its vertex, so
/// that one pass over the ids has all of them.
fn by_original_id(labels: &[u32], grid: &Grid) -> Result<Vec<f64>, SetupError> {
    let mut values = Vec::with_capacity(labels.len());
    for (index, (id, &label)) in grid.ids()?.zip(labels).enumerate() {
        let id = id?;
        values.push(if label as usize == index { id as f64 } else { values[label as usize] });
    }
    Ok(values)
}
