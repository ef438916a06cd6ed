//! Vertex state on the devices: the same result, bit for bit, as in memory, in less memory.

mod common;

use common::project::Project;
use common::{Case, World, kinds, kronecker, text};
use ioc_grid::algorithm::Verdict;
use ioc_grid::algorithm::verify::verify;
use ioc_grid::interrupt::Interrupt;
use ioc_grid::io::faulty::{Fault, FaultyEngine, Rule, When};
use ioc_grid::io::open_engine;
use ioc_grid::job::spec::{
    AlgorithmSpec, Auto, DanglingSpec, EncodingSpec, InitSpec, KernelSpec, ModelSpec, PagerankSpec,
    PrecisionSpec, SpmvSpec, VertexOrderSpec,
};

/// Vertices of four windows.
const SCALE: u32 = 18;

/// Memory for the ring, two threads, and the sums of half of the vertices; of all.
const SOME: u64 = 6 << 20;
const MUCH: u64 = 64 << 20;

fn algorithms() -> Vec<AlgorithmSpec> {
    let pagerank = PagerankSpec {
        iterations: 3,
        tolerance: None,
        precision: PrecisionSpec::F32,
        damping: 0.85,
        dangling: DanglingSpec::Spread,
        init: InitSpec::Uniform,
    };
    let exact = PagerankSpec {
        iterations: 5,
        tolerance: Some(1e-1),
        precision: PrecisionSpec::F64,
        dangling: DanglingSpec::Ignore,
        init: InitSpec::One,
        ..pagerank.clone()
    };
    vec![
        AlgorithmSpec::Pagerank(PagerankSpec { iterations: 1, ..pagerank.clone() }),
        AlgorithmSpec::Pagerank(pagerank),
        AlgorithmSpec::Pagerank(exact),
        AlgorithmSpec::Spmv(SpmvSpec { iterations: 2, x: None }),
    ]
}

fn streamed() -> Vec<Case> {
    let case = Case {
        columns: Auto::Value(9),
        block: 32 << 10,
        state_memory: Some(SOME),
        ssds: 2,
        ..Case::default()
    };
    let mut cases = vec![case, Case { state_memory: Some(MUCH), ..case }];
    // With one column all sources come first, and the last windows are empty.
    let encodings = [EncodingSpec::Raw, EncodingSpec::Compact];
    cases.extend(encodings.map(|encoding| {
        let columns = Auto::Value(1);
        Case { encoding, columns, order: VertexOrderSpec::Degree, state_memory: Some(MUCH), ..case }
    }));
    for io in kinds() {
        for model in [ModelSpec::Ioc, ModelSpec::Sync] {
            cases.push(Case {
                io,
                model,
                encoding: EncodingSpec::Compact,
                order: VertexOrderSpec::Degree,
                ..case
            });
        }
    }
    cases.push(Case { kernel: KernelSpec::Atomic, compute_threads: 3, ssds: 1, ..case });
    cases
}

#[test]
fn where_vertex_state_is_changes_no_bit_of_a_result() {
    let world = World::new(kronecker(SCALE, true));
    for algorithm in algorithms() {
        let (held, _) = world.run(&Case::default(), &algorithm).unwrap();
        for case in streamed() {
            let (outcome, grid) =
                world.run(&case, &algorithm).unwrap_or_else(|error| panic!("{case:?}: {error}"));
            assert_eq!(outcome.checksum, held.checksum, "{algorithm:?} {case:?}");
            assert_eq!(outcome.iterations, held.iterations, "{algorithm:?} {case:?}");
            let bits = |residual: Option<f64>| residual.map(f64::to_bits);
            assert_eq!(bits(outcome.residual), bits(held.residual), "{algorithm:?} {case:?}");
            assert_eq!(outcome.converged, held.converged);
            let values = outcome.values.unwrap();
            let expected = held.values.as_ref().unwrap().by_index(&grid).unwrap().into_owned();
            assert_eq!(*values.by_index(&grid).unwrap(), expected);
            let mut in_order = Vec::new();
            let collected = values.in_order(&grid, 1 << 20, |values| {
                in_order.extend_from_slice(values);
                Ok::<_, ioc_grid::algorithm::ValuesError>(())
            });
            collected.unwrap();
            assert_eq!(in_order, expected);
        }
    }
}

#[test]
fn streamed_results_are_verified_like_others() {
    let world = World::new(kronecker(SCALE, false));
    let case = Case { state_memory: Some(MUCH), ..Case::default() };
    for algorithm in algorithms() {
        let (outcome, grid) = world.run(&case, &algorithm).unwrap();
        for memory in [0, u64::MAX] {
            let verdict = verify(&algorithm, &grid, &outcome, memory, &Interrupt::new()).unwrap();
            assert!(matches!(verdict, Verdict::Passed(_)), "{algorithm:?}: {verdict}");
        }
    }
}

#[test]
fn memory_that_is_too_little_even_to_stream_is_refused_with_figures() {
    let world = World::new(kronecker(SCALE, false));
    let case = Case { state_memory: Some(1 << 20), ..Case::default() };
    let message = text(world.run(&case, &algorithms()[0]).map(|_| ""));
    insta::assert_snapshot!(message, @"to stream vertex state takes 3.53 MiB of memory (3.02 MiB for 2 windows of 65,536 sources and what is under way, and 526 KiB for the sums of a column), but engine.memory leaves 1 MiB; raise it, make engine.buffer smaller, or grid.columns larger");
}

#[test]
fn a_failed_request_ends_a_run_that_streams() {
    let world = World::new(kronecker(SCALE, false));
    for model in [ModelSpec::Ioc, ModelSpec::Sync] {
        let case = Case { model, state_memory: Some(SOME), columns: Auto::Value(9), ..Case::default() };
        for request in [0, 5] {
            let rule = Rule { when: When::Request(request), fault: Fault::Error };
            let outcome = world.run_with(&case, &algorithms()[1], |files, capacity| {
                let inner = open_engine(case.io, files, capacity, None)?;
                Ok(Box::new(FaultyEngine::new(inner, vec![rule])))
            });
            let message = text(outcome.map(|outcome| outcome.checksum));
            assert!(message.contains("edges-") && message.contains("column"), "{case:?}: {message}");
        }
    }
}

const JOB: &str = "\
dataset = { generate = { kronecker = { scale = 18, edge_factor = 4 } } }
[engine]
buffer = \"256 KiB\"
block_size = \"32 KiB\"
compute_threads = 1
[measure]
repeat = 1
warmup = 0
[algorithm.pagerank]
iterations = 3
";

#[test]
fn a_run_streams_where_its_memory_does_not_hold_the_vertex_state_and_stays_within_it() {
    let project = Project::with("job.toml", JOB);
    project.good(&["build", "job.toml"]);
    project.good(&["run", "job.toml", "--set", "output.values=csv"]);
    let held = project.rows("job").remove(0);
    let values = project.read(&format!("reports/job/{}.values.csv", held["run_id"]));
    assert_eq!((&held["state_read_b"], &held["state_written_b"]), (&String::new(), &String::new()));
    let less = "engine.memory=\"17 MiB\"";
    let said = project.good(&["check", "job.toml", "--set", less]);
    assert!(said.stdout.contains("vertex state on the devices"), "{}", said.stdout);
    project.good(&["run", "job.toml", "--set", less, "--set", "output.values=csv"]);
    let streamed = project.rows("job").remove(0);
    assert_eq!(streamed["result_checksum"], held["result_checksum"]);
    assert_eq!(streamed["verified"], "true");
    let number = |column: &str| streamed[column].parse::<u64>().unwrap();
    assert!(number("max_rss_b") <= number("memory_b"), "{streamed:?}");
    assert!(number("state_read_b") > 0 && number("state_written_b") > 0, "{streamed:?}");
    assert_eq!(project.read(&format!("reports/job/{}.values.csv", streamed["run_id"])), values);
}

#[test]
fn what_has_no_form_that_streams_says_so() {
    let job = JOB.replace("[algorithm.pagerank]\niterations = 3", "[algorithm.wcc]");
    let project = Project::with("job.toml", job);
    let args = ["check", "job.toml", "--set", "engine.vertex_state=streamed"];
    insta::assert_snapshot!(project.refused(2, &args), @r#"error: job: wcc kron-18-ef4: engine.vertex_state is "streamed", but that of wcc is kept in memory in this version; use "auto""#);
}
