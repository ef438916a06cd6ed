//! Graphs in which most arcs lead into one vertex, whose column cannot be cut: threads share it, within their budget, and
//! come to the same result.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::project::Project;
use common::{Case, World, kronecker};
use ioc_grid::job::spec::{
    AlgorithmSpec, Auto, BfsSpec, DanglingSpec, DatasetSpec, EncodingSpec, FormatSpec, InitSpec, KernelSpec,
    ModelSpec, PagerankSpec, PrecisionSpec, SourceSpec, SpmvSpec, SsspSpec, VertexOrderSpec,
};
use proptest::prelude::*;

/// Arcs from everywhere into one vertex, and some others, with weights.
#[derive(Debug, Clone)]
struct Star {
    vertices: u32,
    hub: u32,
    into_hub: u32,
    others: u32,
    seed: u64,
}

impl Star {
    fn arcs(&self) -> impl Iterator<Item = (u32, u32, f32)> {
        let mut state = self.seed;
        let mut next = move |below: u32| {
            // Knuth's linear congruential generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % u64::from(below)) as u32
        };
        (0..self.into_hub + self.others).map(move |arc| {
            let target = if arc < self.into_hub { self.hub } else { next(self.vertices) };
            (next(self.vertices), target, (1 + next(1000)) as f32 / 8.0)
        })
    }

    fn write(&self, path: &Path) {
        let arc = |(source, target, weight): (u32, u32, f32)| {
            [source.to_le_bytes(), target.to_le_bytes(), weight.to_le_bytes()].concat()
        };
        std::fs::write(path, self.arcs().flat_map(arc).collect::<Vec<u8>>()).unwrap();
    }

    fn world(&self) -> World {
        let world = World::new(kronecker(1, false));
        let path = world.folder.path().join("star.bin");
        self.write(&path);
        let source = SourceSpec::File { path, format: FormatSpec::GridgraphWeighted, sha256: None };
        let vertices = Some(self.vertices.into());
        World { spec: DatasetSpec { name: "star".into(), source, vertices, ..world.spec }, ..world }
    }
}

fn stars() -> impl Strategy<Value = Star> {
    (2_u32..3000, any::<u32>(), 10_000_u32..40_000, 0_u32..6000, any::<u64>()).prop_map(
        |(vertices, hub, into_hub, others, seed)| Star {
            vertices,
            hub: hub % vertices,
            into_hub,
            others,
            seed,
        },
    )
}

fn algorithms() -> [AlgorithmSpec; 4] {
    let pagerank = PagerankSpec {
        iterations: 3,
        tolerance: None,
        precision: PrecisionSpec::Auto,
        damping: 0.85,
        dangling: DanglingSpec::Spread,
        init: InitSpec::Uniform,
    };
    [
        AlgorithmSpec::Pagerank(pagerank),
        AlgorithmSpec::Spmv(SpmvSpec { iterations: 2, x: None }),
        AlgorithmSpec::Bfs(BfsSpec { root: Auto::Auto }),
        AlgorithmSpec::Sssp(SsspSpec { root: Auto::Auto }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn threads_that_share_a_column_come_to_the_same_result(
        star in stars(),
        columns in 1_u32..6,
        encoding in prop::sample::select(vec![EncodingSpec::Raw, EncodingSpec::Compact]),
        order in prop::sample::select(vec![VertexOrderSpec::Natural, VertexOrderSpec::Degree]),
    ) {
        let world = star.world();
        let columns = Auto::Value(columns);
        let case = Case { columns, encoding, order, block: 32 << 10, ..Case::default() };
        for algorithm in algorithms() {
            let mut checksums = BTreeSet::new();
            for compute_threads in [1, 2, 8] {
                for model in [ModelSpec::Ioc, ModelSpec::Sync] {
                    let case = Case { model, compute_threads, ..case };
                    checksums.insert(world.run(&case, &algorithm).unwrap().0.checksum);
                }
            }
            let atomic = Case { kernel: KernelSpec::Atomic, ..case };
            checksums.insert(world.run(&atomic, &algorithm).unwrap().0.checksum);
            prop_assert_eq!(checksums.len(), 1, "{:?}", algorithm);
        }
    }
}

#[test]
fn what_threads_need_to_share_a_column_is_within_the_budget_or_left_out() {
    let star = Star { vertices: 400_000, hub: 77_777, into_hub: 500_000, others: 100_000, seed: 1 };
    let job = |memory: u32| {
        format!(
            "dataset = \"star\"\n[algorithm.pagerank]\niterations = 3\n[grid]\ncolumns = 1\n[engine]\nbuffer = \"1 MiB\"\n\
             compute_threads = 4\nmemory = \"{memory} MiB\"\n[measure]\nrepeat = 1\nwarmup = 0\n"
        )
    };
    // 28 bytes of each vertex, a buffer and the process are 24 MiB; a spare is 3.1 MiB.
    let project = Project::with("tight.toml", job(25));
    project.write("wide.toml", job(60));
    project.write(
        "datasets.toml",
        "[star]\npath = \"star.bin\"\nformat = \"gridgraph-weighted\"\nvertices = 400000\n",
    );
    star.write(&project.path("star.bin"));
    project.good(&["build", "wide.toml"]);
    let mut checksums = BTreeSet::new();
    for (name, is_left_out) in [("tight", true), ("wide", false)] {
        let said = project.good(&["run", &format!("{name}.toml"), "--no-scan"]);
        assert_eq!(said.stderr.contains("which threads take turns at"), is_left_out, "{}", said.stderr);
        let row = project.rows(name).remove(0);
        let number = |column: &str| row[column].parse::<u64>().unwrap();
        assert!(number("max_rss_b") <= number("memory_b"), "{row:?}");
        assert_eq!(row["verified"], "true");
        checksums.insert(row["result_checksum"].clone());
    }
    assert_eq!(checksums.len(), 1);
}
