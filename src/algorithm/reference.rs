//! Levels, distances and components by other means: a queue, Dijkstra's algorithm, and a forest that one thread joins
//! edge by edge. For graphs whose arcs do not fit the memory, what right levels and distances are, whatever the graph:
//! no arc leads farther than it is long, and every vertex that was reached has an arc that explains its value.
//!
//! Everything is compared bit by bit. Dijkstra's distances are sums in the order of a path too, and rounding is monotone,
//! so that the least sum over all paths is what both find.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::SetupError;
use super::root::Root;
use super::verdict::{Verdict, each_edge};
use crate::grid::Grid;
use crate::interrupt::Interrupt;
use crate::job::spec::Auto;

/// What an arc is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// 1: levels.
    Step,
    /// Its weight.
    Weight,
}

impl Length {
    fn of(self, weight: f64) -> f64 {
        if self == Self::Step { 1.0 } else { weight }
    }

    /// Bytes that [`distances`] keeps of a graph.
    pub(crate) fn bytes(self, vertices: u64, edges: u64) -> u64 {
        let arc = if self == Self::Step { 4 } else { 12 };
        // First arcs, values, and what waits: in Dijkstra's heap, an entry per arc.
        let waiting = if self == Self::Step { 4 * vertices } else { 16 * edges };
        (8 + 8) * vertices + arc * edges + waiting
    }
}

/// Values of all vertices by dense index, infinite where there is no path.
pub(crate) fn distances(
    length: Length,
    root: Auto<u64>,
    grid: &Grid,
    interrupt: &Interrupt,
) -> Result<Vec<f64>, SetupError> {
    let root = Root::find(root, grid, &grid.renumbering()?, &grid.manifest.dataset)?;
    let arcs = Arcs::read(length, grid, interrupt)?;
    let mut values = vec![f64::INFINITY; grid.manifest.vertices as usize];
    if let Some(Root { index, .. }) = root {
        values[index] = 0.0;
        match length {
            Length::Step => arcs.breadth_first(index, &mut values),
            Length::Weight => arcs.dijkstra(index, &mut values),
        }
    }
    Ok(values)
}

/// The arcs of each vertex, in memory.
struct Arcs {
    /// Where the arcs of each vertex begin, and where the last ones end.
    first: Vec<u64>,
    targets: Vec<u32>,
    /// None where they are steps.
    lengths: Vec<f64>,
}

impl Arcs {
    fn read(length: Length, grid: &Grid, interrupt: &Interrupt) -> Result<Self, SetupError> {
        let mut first = vec![0];
        let mut sum = 0;
        for degree in grid.dense_degrees()? {
            first.push(sum);
            sum += u64::from(degree);
        }
        // `first[v + 1]` is where the next arc of v goes; when all are there, that is where those of v + 1 begin.
        let mut targets = vec![0; sum as usize];
        let mut lengths = vec![0.0; if length == Length::Weight { sum as usize } else { 0 }];
        each_edge(grid, interrupt, |source, target, weight| {
            let next = &mut first[source as usize + 1];
            targets[*next as usize] = target as u32;
            if let Some(length) = lengths.get_mut(*next as usize) {
                *length = weight;
            }
            *next += 1;
        })?;
        Ok(Self { first, targets, lengths })
    }

    /// The arcs of a vertex, as places in the lists.
    fn of(&self, vertex: usize) -> std::ops::Range<usize> {
        self.first[vertex] as usize..self.first[vertex + 1] as usize
    }

    fn breadth_first(&self, root: usize, levels: &mut [f64]) {
        let mut queue = VecDeque::from([root as u32]);
        while let Some(vertex) = queue.pop_front() {
            let level = levels[vertex as usize] + 1.0;
            for &target in &self.targets[self.of(vertex as usize)] {
                if levels[target as usize].is_infinite() {
                    levels[target as usize] = level;
                    queue.push_back(target);
                }
            }
        }
    }

    fn dijkstra(&self, root: usize, distances: &mut [f64]) {
        // The bits of numbers that are not negative are in the order of the numbers.
        let mut heap = BinaryHeap::from([Reverse((0_u64, root as u32))]);
        while let Some(Reverse((bits, vertex))) = heap.pop() {
            let distance = f64::from_bits(bits);
            if distance > distances[vertex as usize] {
                continue;
            }
            for arc in self.of(vertex as usize) {
                let (target, candidate) = (self.targets[arc], distance + self.lengths[arc]);
                if candidate < distances[target as usize] {
                    distances[target as usize] = candidate;
                    heap.push(Reverse((candidate.to_bits(), target)));
                }
            }
        }
    }
}

/// Compares bit by bit.
pub(crate) fn same(reference: &[f64], values: &[f64]) -> Verdict {
    if reference.len() != values.len() {
        return Verdict::Failed(format!("{} values for {} vertices", values.len(), reference.len()));
    }
    match reference.iter().zip(values).position(|(expected, found)| expected.to_bits() != found.to_bits()) {
        None => Verdict::Passed("recomputed by other means, every value the same".to_owned()),
        Some(vertex) => Verdict::Failed(format!(
            "vertex {vertex} (dense index) has {}, but a recomputation by other means gives {}",
            values[vertex], reference[vertex]
        )),
    }
}

/// Whether values are right as far as one more reading of the arcs shows; takes a byte per vertex. (Vertices that reach
/// each other by arcs of length 0 may explain each other, which this does not see.)
pub(crate) fn explained(
    length: Length,
    root: Auto<u64>,
    grid: &Grid,
    values: &[f64],
    interrupt: &Interrupt,
) -> Result<Verdict, SetupError> {
    let root = Root::find(root, grid, &grid.renumbering()?, &grid.manifest.dataset)?;
    if let Some(vertex) = values.iter().position(|&value| value.is_nan() || value < 0.0) {
        let value = values[vertex];
        return Ok(Verdict::Failed(format!(
            "vertex {vertex} (dense index) has {value}, which is no distance"
        )));
    }
    let mut explained = vec![false; values.len()];
    if let Some(Root { index, .. }) = root {
        explained[index] = values[index].to_bits() == 0;
    }
    let mut shorter = None;
    each_edge(grid, interrupt, |source, target, weight| {
        let (source, target) = (source as usize, target as usize);
        let candidate = values[source] + length.of(weight);
        if candidate < values[target] {
            shorter = Some((source, target));
        }
        explained[target] |= candidate.to_bits() == values[target].to_bits();
    })?;
    if let Some((source, target)) = shorter {
        return Ok(Verdict::Failed(format!(
            "vertex {target} (dense index) has {}, but an arc from vertex {source}, which has {}, is shorter",
            values[target], values[source]
        )));
    }
    let missing = (0..values.len()).find(|&vertex| values[vertex].is_finite() && !explained[vertex]);
    Ok(match missing {
        Some(vertex) => {
            let value = values[vertex];
            Verdict::Failed(format!("vertex {vertex} (dense index) has {value}, which no arc explains"))
        }
        None => Verdict::Passed("no arc is shorter, and every value is that of some arc".to_owned()),
    })
}

/// The label of each vertex by dense index: the smallest original id of its component.
pub(crate) fn components(grid: &Grid, interrupt: &Interrupt) -> Result<Vec<f64>, SetupError> {
    let mut parents: Vec<u32> = (0..grid.manifest.vertices as u32).collect();
    each_edge(grid, interrupt, |source, target, _| {
        let (one, other) = (root_of(&mut parents, source as u32), root_of(&mut parents, target as u32));
        parents[one.max(other) as usize] = one.min(other);
    })?;
    let mut labels: Vec<f64> = Vec::with_capacity(parents.len());
    for (vertex, id) in grid.ids()?.enumerate() {
        let (root, id) = (root_of(&mut parents, vertex as u32) as usize, id?);
        labels.push(if root == vertex { id as f64 } else { labels[root] });
    }
    Ok(labels)
}

/// The root of a tree, all of whose vertices on the way become its children.
fn root_of(parents: &mut [u32], vertex: u32) -> u32 {
    let mut root = vertex;
    while parents[root as usize] != root {
        root = parents[root as usize];
    }
    let mut at = vertex;
    while at != root {
        at = std::mem::replace(&mut parents[at as usize], root);
    }
    root
}
