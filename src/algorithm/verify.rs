//! Whether a result is right: each algorithm is computed again, by another way (one thread, plain f64 sums in the
//! order of the file, no blocks, no quantum), and every vertex is compared. Where the graph is too large for that,
//! the invariants that a right result has are checked instead.

use super::reference::{Length, components, distances, explained, same};
use super::verdict::Verdict;
use super::{Outcome, SetupError, pagerank, spmv};
use crate::engine::plan::PROCESS_BYTES;
use crate::grid::Grid;
use crate::grid::manifest::Order;
use crate::interrupt::Interrupt;
use crate::job::spec::{AlgorithmSpec, Auto};

/// Edges that a full recomputation goes through at most, over all its passes.
pub const FULL_BELOW: u64 = 10_000_000;

/// Verifies an outcome. `memory` is what the recomputation may hold.
///
/// # Errors
/// Where the grid cannot be read.
pub fn verify(
    spec: &AlgorithmSpec,
    grid: &Grid,
    outcome: &Outcome,
    memory: u64,
    interrupt: &Interrupt,
) -> Result<Verdict, SetupError> {
    // A recomputation is by dense index: the way to it, and degrees in both numberings.
    let order = if grid.manifest.order == Order::Natural { 0 } else { 8 };
    let values = size_of::<f64>() as u64;
    let fits = |bytes_per_vertex: u64| {
        let bytes = grid.manifest.vertices.saturating_mul(bytes_per_vertex + order + values);
        grid.manifest.edges < FULL_BELOW && bytes.saturating_add(PROCESS_BYTES) <= memory
    };
    match (spec, &outcome.values) {
        (AlgorithmSpec::Scan(_), _) => Ok(same_checksum(grid.manifest.dataset_checksum, outcome.checksum)),
        (AlgorithmSpec::Pagerank(spec), Some(ranks)) if fits(pagerank::REFERENCE_BYTES_PER_VERTEX) => {
            let rounding = (outcome.iterations, outcome.quantum.unwrap_or_default());
            Ok(pagerank::Reference::new(spec, grid, rounding, interrupt)?.compare(&ranks.by_index(grid)?))
        }
        (AlgorithmSpec::Pagerank(spec), Some(ranks)) => pagerank::invariants(spec, grid, ranks),
        (AlgorithmSpec::Spmv(spec), Some(y)) if fits(spmv::REFERENCE_BYTES_PER_VERTEX) => {
            let reference = spmv::Reference::new(spec, grid, interrupt)?;
            Ok(reference.compare(&y.by_index(grid)?, outcome.quantum.unwrap_or_default()))
        }
        (AlgorithmSpec::Spmv(spec), Some(y)) => {
            spmv::invariants(spec, grid, y, outcome.quantum.unwrap_or_default(), interrupt)
        }
        (AlgorithmSpec::Bfs(spec), Some(levels)) => {
            let how = Traversal { length: Length::Step, root: spec.root, grid, memory, interrupt };
            how.verify(&levels.by_index(grid)?)
        }
        (AlgorithmSpec::Sssp(spec), Some(distances)) => {
            let how = Traversal { length: Length::Weight, root: spec.root, grid, memory, interrupt };
            how.verify(&distances.by_index(grid)?)
        }
        (AlgorithmSpec::Wcc, Some(labels)) => {
            Ok(same(&components(grid, interrupt)?, &labels.by_index(grid)?))
        }
        (AlgorithmSpec::External(_), Some(_)) | (_, None) => {
            Ok(Verdict::Failed("the run left no values".to_owned()))
        }
    }
}

/// How a traversal is verified.
struct Traversal<'a> {
    length: Length,
    root: Auto<u64>,
    grid: &'a Grid,
    memory: u64,
    interrupt: &'a Interrupt,
}

impl Traversal<'_> {
    fn verify(&self, values: &[f64]) -> Result<Verdict, SetupError> {
        let Self { length, root, grid, memory, interrupt } = *self;
        let manifest = &grid.manifest;
        let needed = length.bytes(manifest.vertices, manifest.edges);
        if manifest.edges < FULL_BELOW && needed.saturating_add(12 * manifest.vertices) <= memory {
            Ok(same(&distances(length, root, grid, interrupt)?, values))
        } else {
            explained(length, root, grid, values, interrupt)
        }
    }
}

fn same_checksum(expected: u64, found: u64) -> Verdict {
    if expected == found {
        Verdict::Passed("the digests of all edges add up to the data set's checksum".to_owned())
    } else {
        Verdict::Failed(format!(
            "the digests of all edges add up to {found:016x}, but the data set's checksum is {expected:016x}: \
             edges are missing or doubled"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::compare;
    use super::*;

    #[test]
    fn a_corrupted_value_is_found() {
        let reference = [0.25, 0.5, 0.25];
        let within = |_, reference: f64| 1e-6 * reference;
        assert!(matches!(compare(&reference, &reference, within), Verdict::Passed(_)));
        for wrong in [0.500_001, f64::NAN, f64::INFINITY, 0.0] {
            let verdict = compare(&reference, &[0.25, wrong, 0.25], within);
            assert!(matches!(&verdict, Verdict::Failed(what) if what.contains("vertex 1")), "{verdict}");
        }
        assert!(matches!(compare(&reference, &reference[..2], within), Verdict::Failed(_)));
        assert!(matches!(same_checksum(1, 2), Verdict::Failed(_)));
    }
}
