//! Whatever a device does, a run ends: with the right result, or with an error that names the place; never with a
//! wrong number, and never not at all.

mod common;

use std::time::Duration;

use common::{Case, World, kinds, kronecker, run_grid, text};
use ioc_grid::io::faulty::{Fault, FaultyEngine, Rule, When};
use ioc_grid::io::open_engine;
use ioc_grid::job::spec::{
    AlgorithmSpec, Auto, DanglingSpec, InitSpec, ModelSpec, PagerankSpec, PrecisionSpec, ScanSpec,
};

fn pagerank() -> AlgorithmSpec {
    AlgorithmSpec::Pagerank(PagerankSpec {
        iterations: 4,
        tolerance: None,
        precision: PrecisionSpec::F32,
        damping: 0.85,
        dangling: DanglingSpec::Spread,
        init: InitSpec::Uniform,
    })
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for model in [ModelSpec::Ioc, ModelSpec::Sync] {
        for io in kinds() {
            cases.push(Case { model, io, block: 32 << 10, io_threads: 2, ssds: 2, ..Case::default() });
        }
    }
    cases
}

fn run_faulty(world: &World, case: &Case, rule: &Rule) -> Result<u64, Box<dyn std::error::Error>> {
    let outcome = world.run_with(case, &pagerank(), |files, capacity| {
        let inner = open_engine(case.io, files, capacity, None)?;
        Ok(Box::new(FaultyEngine::new(inner, vec![*rule])))
    })?;
    Ok(outcome.checksum)
}

#[test]
fn a_failed_request_ends_the_run_and_is_named() {
    let world = World::new(kronecker(12, false));
    for case in cases() {
        for request in [0, 1, 7, 20] {
            let rule = Rule { when: When::Request(request), fault: Fault::Error };
            let message = text(run_faulty(&world, &case, &rule));
            assert!(message.contains("edges-") && message.contains("column"), "{case:?}: {message}");
        }
    }
}

#[test]
fn a_file_that_ends_early_ends_the_run_and_is_named() {
    let world = World::new(kronecker(12, false));
    for case in cases() {
        let rule = Rule { when: When::Request(2), fault: Fault::Short(4096) };
        let message = text(run_faulty(&world, &case, &rule));
        assert!(message.contains("edges-") && message.contains("column"), "{case:?}: {message}");
    }
}

#[test]
fn a_flipped_bit_ends_the_run_and_is_named() {
    let world = World::new(kronecker(12, false));
    for case in cases() {
        for byte in [0, 9, 100, 300] {
            let rule = Rule { when: When::Request(3), fault: Fault::FlippedBit(byte) };
            let message = text(run_faulty(&world, &case, &rule));
            assert!(message.contains("edges-") && message.contains("chunk"), "{case:?} {byte}: {message}");
        }
    }
}

#[test]
fn slow_reads_change_nothing() {
    let world = World::new(kronecker(12, false));
    let (expected, _) = world.run(&Case::default(), &pagerank()).unwrap();
    for case in cases() {
        {
            let rule = Rule { when: When::Always, fault: Fault::Delay(Duration::from_millis(2)) };
            assert_eq!(run_faulty(&world, &case, &rule).unwrap(), expected.checksum, "{case:?} {rule:?}");
        }
    }
}

#[test]
fn a_column_with_fewer_edges_than_its_manifest_says_ends_the_run_and_is_named() {
    let world = World::new(kronecker(12, false));
    for case in cases() {
        let mut grid = world.grid(&case);
        grid.manifest.columns[2].edges += 1;
        for algorithm in [pagerank(), AlgorithmSpec::Scan(ScanSpec { iterations: 1, enough: None })] {
            let message = text(run_grid(&grid, &case, &algorithm));
            let expected = format!("but its manifest says {}", grid.manifest.columns[2].edges);
            assert!(message.starts_with("column 2 of") && message.contains(&expected), "{case:?}: {message}");
        }
    }
}

#[test]
fn a_read_ahead_of_a_pass_that_never_comes_may_fail() {
    let world = World::new(kronecker(12, false));
    // It is converged after the first iteration: all further requests are read ahead.
    let algorithm = AlgorithmSpec::Pagerank(PagerankSpec {
        iterations: 100,
        tolerance: Some(10.0),
        precision: PrecisionSpec::F32,
        damping: 0.85,
        dangling: DanglingSpec::Spread,
        init: InitSpec::Uniform,
    });
    for io in kinds() {
        let case = Case { io, block: 32 << 10, columns: Auto::Value(1), ..Case::default() };
        let requests = world.grid(&case).total_bytes() / case.block;
        let (expected, _) = world.run(&case, &algorithm).unwrap();
        for ahead in 0..4 {
            let rule = Rule { when: When::Request(requests + ahead), fault: Fault::Error };
            let outcome = world.run_with(&case, &algorithm, |files, capacity| {
                let inner = open_engine(case.io, files, capacity, None)?;
                Ok(Box::new(FaultyEngine::new(inner, vec![rule])))
            });
            assert_eq!(
                outcome.map(|o| (o.iterations, o.checksum)).unwrap(),
                (1, expected.checksum),
                "{io:?}"
            );
        }
        let last = Rule { when: When::Request(requests - 1), fault: Fault::Error };
        let wanted = world.run_with(&case, &algorithm, |files, capacity| {
            let inner = open_engine(case.io, files, capacity, None)?;
            Ok(Box::new(FaultyEngine::new(inner, vec![last])))
        });
        assert!(text(wanted.map(|_| ())).contains("edges-"), "{io:?}");
    }
}
