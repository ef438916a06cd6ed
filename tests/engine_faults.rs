//! Whatever a device does, a run ends: with the right result, or with an error that names the place; never with a
//! wrong number, and never not at all.

mod common;

use std::time::Duration;

use common::{Case, World, kinds, kronecker, text};
use ioc_grid::io::faulty::{Fault, FaultyEngine, Rule, When};
use ioc_grid::io::open_engine;
use ioc_grid::job::spec::{AlgorithmSpec, DanglingSpec, InitSpec, ModelSpec, PagerankSpec, PrecisionSpec};

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
        for byte in [0, 9, 100, 5000] {
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
