//! One job, one result: whatever the model, the engine, the kernel, the threads, the blocks, the columns, the devices
//! and the encoding. And that result is right.

mod common;

use std::collections::BTreeSet;

use common::{Case, World, kinds, kronecker};
use ioc_grid::algorithm::verify::verify;
use ioc_grid::algorithm::{Outcome, Values, Verdict};
use ioc_grid::interrupt::Interrupt;
use ioc_grid::job::spec::{
    AlgorithmSpec, Auto, BfsSpec, DanglingSpec, EncodingSpec, InitSpec, IoSpec, KernelSpec, ModelSpec,
    PagerankSpec, PrecisionSpec, ScanSpec, SpmvSpec, SsspSpec, VertexOrderSpec,
};

fn pagerank(iterations: u64) -> PagerankSpec {
    PagerankSpec {
        iterations,
        tolerance: None,
        precision: PrecisionSpec::Auto,
        damping: 0.85,
        dangling: DanglingSpec::Spread,
        init: InitSpec::Uniform,
    }
}

fn algorithms() -> Vec<AlgorithmSpec> {
    let gridgraph = PagerankSpec { dangling: DanglingSpec::Ignore, init: InitSpec::One, ..pagerank(5) };
    let precise = PagerankSpec { tolerance: Some(1e-12), ..pagerank(500) };
    vec![
        AlgorithmSpec::Scan(ScanSpec { iterations: 2, enough: None }),
        AlgorithmSpec::Pagerank(pagerank(5)),
        AlgorithmSpec::Pagerank(gridgraph),
        AlgorithmSpec::Pagerank(precise),
        AlgorithmSpec::Spmv(SpmvSpec { iterations: 2, x: None }),
        AlgorithmSpec::Bfs(BfsSpec { root: Auto::Auto }),
        AlgorithmSpec::Sssp(SsspSpec { root: Auto::Auto }),
        AlgorithmSpec::Wcc,
    ]
}

/// Every value of every parameter occurs with every model; the parameters are varied one at a time and together.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for model in [ModelSpec::Ioc, ModelSpec::Sync] {
        for io in kinds() {
            for kernel in [KernelSpec::Owned, KernelSpec::Atomic] {
                for compute_threads in [1, 2, 4] {
                    cases.push(Case { model, io, kernel, compute_threads, ..Case::default() });
                }
            }
            for block in [32, 64, 256, 1024] {
                cases.push(Case { model, io, block: block << 10, ..Case::default() });
            }
            for io_threads in [1, 2, 5] {
                cases.push(Case { model, io, io_threads, ssds: 3, ..Case::default() });
            }
        }
        for columns in [1, 2, 7, 64] {
            for ssds in [1, 2, 3] {
                cases.push(Case {
                    model,
                    columns: Auto::Value(columns),
                    ssds,
                    compute_threads: 3,
                    ..Case::default()
                });
            }
        }
        for pins in [1, 3, 10, 1000] {
            for io in [IoSpec::Libaio, IoSpec::Psync] {
                cases.push(Case { model, io, pins, ssds: 2, ..Case::default() });
            }
        }
        for interleave in [1, 3, 100] {
            cases.push(Case { model, columns: Auto::Value(9), interleave, ..Case::default() });
        }
    }
    let natural = cases.clone();
    for (encoding, order) in [
        (EncodingSpec::Compact, VertexOrderSpec::Natural),
        (EncodingSpec::Compact, VertexOrderSpec::Degree),
        (EncodingSpec::Raw, VertexOrderSpec::Degree),
    ] {
        cases.extend(natural.iter().map(|case| Case { encoding, order, ..*case }));
    }
    cases
}

#[test]
fn the_checksum_does_not_depend_on_how_it_was_computed() {
    let world = World::new(kronecker(12, true));
    for algorithm in algorithms() {
        let mut checksums = BTreeSet::new();
        // The machinery is the same for all: of those that fold otherwise, or in many passes, a part of the cases that has
        // every value.
        let all = match &algorithm {
            AlgorithmSpec::Pagerank(spec) => spec.tolerance.is_none(),
            other => matches!(other, AlgorithmSpec::Scan(_) | AlgorithmSpec::Spmv(_)),
        };
        for case in cases().into_iter().step_by(if all { 1 } else { 5 }) {
            let (outcome, _) =
                world.run(&case, &algorithm).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            checksums.insert(outcome.checksum);
            assert_eq!(checksums.len(), 1, "{algorithm:?} {case:?}");
        }
    }
}

#[test]
fn the_result_is_that_of_an_independent_computation() {
    for weights in [false, true] {
        let world = World::new(kronecker(11, weights));
        let case = Case::default();
        for algorithm in algorithms() {
            let (outcome, grid) = world.run(&case, &algorithm).unwrap();
            let verdict = verify(&algorithm, &grid, &outcome, u64::MAX, &Interrupt::new()).unwrap();
            assert!(matches!(verdict, Verdict::Passed(_)), "{algorithm:?}: {verdict}");
            if let Some(values) = &outcome.values {
                let mut values = values.by_index(&grid).unwrap().into_owned();
                let reached = |&vertex: &usize| values[vertex].is_finite();
                let largest = (0..values.len())
                    .filter(reached)
                    .max_by(|&a, &b| values[a].total_cmp(&values[b]))
                    .unwrap();
                values[largest] *= 1.0 + 1e-5;
                let corrupted = Outcome { values: Some(Values::Held(values)), ..outcome.clone() };
                let verdict = verify(&algorithm, &grid, &corrupted, u64::MAX, &Interrupt::new()).unwrap();
                assert!(matches!(verdict, Verdict::Failed(_)), "{algorithm:?}: {verdict}");
            }
        }
    }
}

#[test]
fn a_tolerance_ends_the_passes_and_says_so() {
    let world = World::new(kronecker(10, false));
    let spec = PagerankSpec { tolerance: Some(1e-12), ..pagerank(500) };
    let (outcome, _) = world.run(&Case::default(), &AlgorithmSpec::Pagerank(spec.clone())).unwrap();
    assert_eq!(outcome.converged, Some(true));
    assert!(outcome.iterations < 500 && outcome.residual.unwrap() <= 1e-12);
    let spec = PagerankSpec { iterations: 3, ..spec };
    let (outcome, _) = world.run(&Case::default(), &AlgorithmSpec::Pagerank(spec)).unwrap();
    assert_eq!((outcome.converged, outcome.iterations), (Some(false), 3));
}
