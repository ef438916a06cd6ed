//! Real graphs and the inputs that broke other systems, from the shared folder beside the project: counts against
//! answers that were computed independently.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::{file_spec, read_with, shared};
use crate::dataset::{DatasetError, Edge, Summary, VertexSet, open};
use crate::job::spec::{DatasetSpec, FormatSpec, SourceSpec};

fn read(spec: &DatasetSpec) -> Result<(Vec<Edge>, Summary), DatasetError> {
    read_with(&*open(spec)?, 2)
}

fn with_format(path: &Path, format: FormatSpec) -> DatasetSpec {
    let source = SourceSpec::File { path: path.to_path_buf(), format, sha256: None };
    DatasetSpec { source, ..file_spec(path) }
}

fn seen(edges: &[Edge]) -> HashSet<u64> {
    edges.iter().flat_map(|edge| [edge.source, edge.target]).collect()
}

/// Vertices and arcs of a case's file.
fn counts(case: &str) -> Option<(usize, usize)> {
    let (edges, _) = read(&file_spec(&shared(&format!("cases/{case}"))?)).unwrap();
    Some((seen(&edges).len(), edges.len()))
}

/// The message that a case's file gives, without its folder.
fn error(case: &str, change: impl FnOnce(DatasetSpec) -> DatasetSpec) -> Option<String> {
    let path = shared(&format!("cases/{case}"))?;
    let error = read(&change(file_spec(&path))).unwrap_err().to_string();
    Some(error.replace(&format!("{}/", path.parent()?.display()), ""))
}

/// Every published file of these formats that numbers its vertices.
#[test]
fn published_files_have_the_vertices_and_arcs_of_the_answers() {
    let Some(answers) = shared("data/answers.json") else { return };
    // Written by Python, whose JSON knows infinite and missing numbers.
    let answers = std::fs::read_to_string(answers)
        .unwrap()
        .replace("-Infinity", "null")
        .replace("Infinity", "null")
        .replace("NaN", "null");
    let answers: Value = serde_json::from_str(&answers).unwrap();
    let mut checked = 0;
    for (name, answer) in answers.as_object().unwrap() {
        let readable = ["snap/", "konect/", "derived/gridgraph/", "derived/snap/"];
        if !readable.iter().any(|folder| name.starts_with(folder)) || answer["min_id"].is_null() {
            continue;
        }
        let Some(path) = shared(&format!("data/{name}")) else { continue };
        let mut spec = file_spec(&path);
        spec.directed = answer["directed"].as_bool().unwrap();
        spec.skip_lines = u64::from(name == "snap/ca-GrQc.txt");
        if name == "snap/johnson8-4-4.edgelist" {
            spec = DatasetSpec { directed: spec.directed, ..with_format(&path, FormatSpec::Snap) };
        }
        let source = open(&spec).unwrap();
        let (edges, _) = read_with(&*source, 2).unwrap_or_else(|error| panic!("{error}"));
        let ids = seen(&edges);
        let vertices = match source.vertices() {
            VertexSet::Seen => ids.len() as u64,
            VertexSet::Range => ids.iter().max().map_or(0, |max| max + 1),
            VertexSet::Declared(vertices) | VertexSet::Given(vertices) => vertices,
        };
        assert_eq!(Value::from(edges.len()), answer["arcs"], "arcs of {name}");
        assert_eq!(Value::from(vertices), answer["vertices"], "vertices of {name}");
        let loops = edges.iter().filter(|edge| edge.source == edge.target).count();
        assert_eq!(Value::from(loops), answer["self_loops"], "loops of {name}");
        let weights: f64 = edges.iter().map(|edge| edge.weight).sum();
        assert_eq!(Some(weights), answer["spmv_ones"]["sum"].as_f64(), "weights of {name}");
        checked += 1;
    }
    assert!(checked >= 20, "only {checked} files were read");
}

#[test]
fn the_stray_first_line_of_a_published_file_is_a_clear_error() {
    let Some(path) = shared("data/snap/ca-GrQc.txt") else { return };
    let error = read(&file_spec(&path)).unwrap_err().to_string();
    insta::assert_snapshot!(error.replace(&path.display().to_string(), "ca-GrQc.txt"), @"ca-GrQc.txt: line 1: expected an integer id, found 'https://snap.stanford.edu/data/ca-GrQc.h...'; is this a header line? use skip_lines = 1");
}

#[test]
fn a_matrix_market_banner_is_not_taken_for_a_comment_by_a_guess() {
    let Some(path) = shared("data/snap/johnson8-4-4.edgelist") else { return };
    assert!(matches!(read(&file_spec(&path)), Err(DatasetError::UnknownFormat { .. })));
}

#[test]
fn case_03_vertex_count_too_small() {
    let Some(error) =
        error("03-vertex-count-too-small/edges.bin", |spec| DatasetSpec { vertices: Some(4), ..spec })
    else {
        return;
    };
    assert!(
        error.starts_with("edges.bin: edge 2 (byte offset 16) has vertex 4, but the job says 4 vertices"),
        "{error}"
    );
}

#[test]
fn case_04_text_given_as_binary() {
    let binary = |spec: DatasetSpec| {
        let SourceSpec::File { path, .. } = &spec.source else { unreachable!("a case is a file") };
        with_format(path, FormatSpec::Gridgraph)
    };
    let Some(odd) = error("04-text-given-as-binary/odd-size.txt", binary) else { return };
    assert!(odd.starts_with("odd-size.txt: size is no multiple of 8 bytes"), "{odd}");
    let Some(even) = error("04-text-given-as-binary/even-size.txt", binary) else { return };
    assert!(
        even.starts_with("even-size.txt: the bytes are all printable text, so this is no binary edge list"),
        "{even}"
    );
}

#[test]
fn cases_of_text_have_their_vertices_and_arcs() {
    for (case, expected) in [
        ("16-utf8-bom/plain.txt", (3, 3)),
        ("18-leading-zeros/edges.txt", (2, 4)),
        ("19-ids-above-2-31-and-2-32/edges.txt", (5, 6)),
        ("21-gaps-in-ids/edges.txt", (3, 4)),
        ("22-duplicate-edges/edges.txt", (3, 6)),
        ("24-gzip-truncated-and-members/two-members.txt.gz", (50, 50)),
        ("30-empty-graph/comments-only.txt", (0, 0)),
        ("30-empty-graph/zero-bytes.txt", (0, 0)),
        ("43-star-hub/star.txt.gz", (60_001, 120_000)),
        ("45-blank-and-comment-lines-anywhere/edges.txt", (3, 4)),
    ] {
        if let Some(counts) = counts(case) {
            assert_eq!(counts, expected, "{case}");
        }
    }
}

#[test]
fn case_19_ids_come_back_as_they_are() {
    let Some(path) = shared("cases/19-ids-above-2-31-and-2-32/edges.txt") else { return };
    let ids = seen(&read(&file_spec(&path)).unwrap().0);
    let expected = [1 << 31, u32::MAX.into(), 1 << 32, 3_141_592_653_589_793_238, i64::MAX as u64];
    assert_eq!(ids, HashSet::from(expected));
}

#[test]
fn case_24_a_truncated_gzip() {
    let Some(error) = error("24-gzip-truncated-and-members/truncated.txt.gz", |spec| spec) else { return };
    assert!(error.starts_with("truncated.txt.gz: the compressed stream ends early (after "), "{error}");
}

#[test]
fn case_28_weights_that_are_no_numbers() {
    let skip_header = |spec| DatasetSpec { skip_lines: 1, ..spec };
    let Some(error) = error("28-nan-and-inf-weights/edges.csv", skip_header) else { return };
    assert!(error.starts_with("edges.csv: line 3: weight is not a finite number"), "{error}");
}

#[test]
fn case_38_a_header_not_declared() {
    let Some(error) = error("38-csv-header-not-declared/edges.csv", |spec| spec) else { return };
    assert!(
        error.starts_with(
            "edges.csv: line 1: expected an integer id, found 'from_user'; is this a header line? use skip_lines = 1"
        ),
        "{error}"
    );
}

#[test]
fn cases_of_duplicates_and_weights_have_their_sums() {
    let sums = |case: &str| {
        let (edges, _) = read(&file_spec(&shared(case)?)).unwrap();
        let mut sums = std::collections::BTreeMap::new();
        for edge in edges {
            *sums.entry(edge.target).or_insert(0.0) += edge.weight;
        }
        Some(sums.into_iter().collect::<Vec<_>>())
    };
    if let Some(sums) = sums("cases/22-duplicate-edges/edges.txt") {
        assert_eq!(sums, [(0, 2.0), (1, 3.0), (2, 1.0)]);
    }
    if let Some(sums) = sums("cases/29-scientific-weights/g.wel") {
        assert_eq!(sums, [(0, 0.5), (1, 0.004_087), (2, 100_005.0), (3, 25.0)]);
    }
}
