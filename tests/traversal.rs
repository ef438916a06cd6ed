//! What traversals read: the blocks that may hold a source of the frontier, and no others; and what they say of graphs
//! and roots that they cannot take.

mod common;

use std::fmt::Write as _;

use common::project::Project;
use common::real::values;

/// Vertices of a layer, and layers.
const WIDTH: u64 = 3000;
const LAYERS: u64 = 20;

/// Layers of vertices, each of which has arcs to four of the next layer: few sources in a chunk, and a level per layer.
fn layers() -> String {
    let mut text = String::new();
    for vertex in 0..WIDTH * (LAYERS - 1) {
        let (layer, place) = (vertex / WIDTH, vertex % WIDTH);
        for arc in 0..4 {
            let target = (layer + 1) * WIDTH + (place + arc * arc) % WIDTH;
            let _ = writeln!(text, "{vertex} {target} {}", 1 + (place + arc) % 3);
        }
    }
    // One vertex before all of them, so that the first level is a whole layer.
    for place in 0..WIDTH {
        let _ = writeln!(text, "{} {place} 1", WIDTH * LAYERS);
    }
    text
}

const JOB: &str = r#"
dataset = { path = "layers.txt" }
[algorithm.bfs]
root = 60000
[algorithm.sssp]
root = 60000
[engine]
block_size = "32 KiB"
buffer = "1 MiB"
memory = "128 MiB"
[measure]
repeat = 1
warmup = 0
[output]
values = "csv"
[matrix]
engine.model = ["ioc", "sync"]
engine.cache = ["off", "auto"]
grid.encoding = ["raw", "compact"]
"#;

#[test]
fn blocks_without_a_source_in_the_frontier_are_not_read() {
    let project = Project::with("layers.txt", layers());
    project.write("jobs/layers.toml", JOB);
    project.good(&["run", "jobs/layers.toml", "--no-scan"]);
    let rows = project.rows("layers");
    assert_eq!(rows.len(), 16);
    for row in rows {
        let number = |column: &str| row[column].parse::<f64>().unwrap();
        assert_eq!(row["verified"], "true");
        let passes = number("iterations");
        assert!(passes >= LAYERS as f64 + 1.0, "{row:?}");
        let all = (number("bytes_per_edge") * number("edges")).round() * passes;
        let sum = number("read_b") + number("cached_b") + number("skipped_b");
        assert!((sum - all).abs() < 1.0, "{sum} is not {all}: {row:?}");
        // Blocks at the border of two layers are wanted in two passes.
        assert_eq!(number("cached_b") > 0.0, row["cache"] == "auto", "{row:?}");
        // A layer has few chunks of compact edges, and a block may hold the end of one and the begin of another.
        let least = if row["encoding"] == "raw" { 0.8 } else { 0.5 };
        assert!(number("skipped_b") > least * all, "{row:?}");
        let values = values(&project.read(&format!("reports/layers/{}.values.csv", row["run_id"])));
        if row["algorithm"] == "bfs" {
            assert!(row["result"].ends_with("60001 vertices reached from 60000, the farthest at level 20"));
            assert!(values.iter().all(|(&id, &level)| id == 60000 || level as u64 == id / WIDTH + 1));
        }
    }
}

#[test]
fn a_root_that_is_no_vertex_and_negative_lengths_are_errors_that_say_so() {
    let project = Project::with("edges.txt", "1 2 5\n2 3 -1\n");
    for root in ["0", "4", "99"] {
        let said = project.ioc(&["once", "bfs", "edges.txt", "--root", root, "--quiet"]);
        let expected = format!("root {root} is no vertex of ");
        assert_eq!(said.code, 3);
        assert!(said.stderr.contains(&expected) && said.stderr.contains("edges.txt"), "{}", said.stderr);
    }
    let said = project.ioc(&["once", "sssp", "edges.txt", "--quiet"]);
    assert_eq!(said.code, 3);
    assert!(said.stderr.contains("edges.txt has 1 arc of negative weight"), "{}", said.stderr);
    project.good(&[
        "once",
        "sssp",
        "edges.txt",
        "--set",
        "dataset.weights=none",
        "-o",
        "lengths.csv",
        "--root",
        "2",
    ]);
    assert_eq!(project.read("lengths.csv"), "vertex,value\n1,\n2,0\n3,1\n");
}

#[test]
fn a_graph_without_vertices_has_results_without_values() {
    let project = Project::with("empty.txt", "# nothing\n");
    for algorithm in ["bfs", "sssp", "wcc"] {
        let file = format!("{algorithm}.csv");
        project.good(&["once", algorithm, "empty.txt", "-o", &file, "--quiet"]);
        assert_eq!(project.read(&file), "vertex,value\n");
    }
    let said = project.ioc(&["once", "bfs", "empty.txt", "--root", "0", "--quiet"]);
    assert!(said.stderr.contains("root 0 is no vertex of "), "{}", said.stderr);
}

#[test]
fn labels_are_original_ids_and_ids_that_no_value_can_hold_are_refused() {
    let project = Project::with("edges.txt", "70 9007199254740992\n9007199254740992 50\n60 60\n");
    project.good(&["once", "wcc", "edges.txt", "-o", "labels.csv", "--quiet"]);
    assert_eq!(project.read("labels.csv"), "vertex,value\n50,50\n60,60\n70,50\n9007199254740992,50\n");
    project.write("large.txt", "1 9007199254740993\n");
    let said = project.ioc(&["once", "wcc", "large.txt", "--quiet"]);
    assert!(said.stderr.contains("9007199254740993, which as the label of a component"), "{}", said.stderr);
}
