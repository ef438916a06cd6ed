//! GridGraph's binary edge lists.

use super::Sample;
use crate::dataset::{Summary, VertexSet, open};
use crate::job::spec::FormatSpec;

fn pairs(edges: &[(u32, u32)]) -> Vec<u8> {
    edges.iter().flat_map(|(source, target)| [source.to_le_bytes(), target.to_le_bytes()].concat()).collect()
}

fn weighted(edges: &[(u32, u32, f32)]) -> Vec<u8> {
    let record =
        |edge: &(u32, u32, f32)| [edge.0.to_le_bytes(), edge.1.to_le_bytes(), edge.2.to_le_bytes()].concat();
    edges.iter().flat_map(record).collect()
}

#[test]
fn records_are_edges() {
    let sample = Sample::new("e.bin", pairs(&[(1, 2), (0, u32::MAX), (1, 2)]));
    assert_eq!(sample.pairs(), [(0, u64::from(u32::MAX)), (1, 2), (1, 2)]);
    assert_eq!(open(&sample.spec).unwrap().vertices(), VertexSet::Range);

    let sample = Sample::new("e.wbin", weighted(&[(1, 2, 0.1), (2, 1, -3.0)]));
    let (edges, summary) = sample.read().unwrap();
    assert_eq!(edges.iter().map(|edge| edge.weight).collect::<Vec<_>>(), [f64::from(0.1_f32), -3.0]);
    assert_eq!(summary, Summary { edges: 2, weighted: true });
}

#[test]
fn weights_that_are_not_asked_for_are_not_looked_at() {
    let (edges, summary) = Sample::new("e.wbin", weighted(&[(1, 2, f32::NAN)])).no_weights().read().unwrap();
    assert_eq!(edges[0].weight.to_bits(), 1_f64.to_bits());
    assert!(!summary.weighted);
}

#[test]
fn an_empty_file_is_a_graph_without_edges() {
    for format in [FormatSpec::Auto, FormatSpec::Gridgraph, FormatSpec::GridgraphWeighted] {
        assert_eq!(Sample::new("e.bin", "").format(format).pairs(), []);
    }
}

#[test]
fn a_size_that_no_number_of_records_has_is_an_error() {
    insta::assert_snapshot!(Sample::new("e.bin", [0; 12]).error(), @r#"e.bin: size is no multiple of 8 bytes: it has 12 bytes, and an edge of format "gridgraph" takes 8; correct `format`, or fetch the file again if it was cut short"#);
    insta::assert_snapshot!(Sample::new("e.wbin", [0; 16]).error(), @r#"e.wbin: size is no multiple of 12 bytes: it has 16 bytes, and an edge of format "gridgraph-weighted" takes 12; correct `format`, or fetch the file again if it was cut short"#);
}

#[test]
fn text_is_no_binary_edge_list() {
    let even = Sample::new("e.txt", "1 2\n3 4\n").format(FormatSpec::Gridgraph);
    insta::assert_snapshot!(even.error(), @r#"e.txt: the bytes are all printable text, so this is no binary edge list; use format = "snap""#);
    let odd = Sample::new("e.txt", "1 2\n3 4\n5").format(FormatSpec::Gridgraph);
    insta::assert_snapshot!(odd.error(), @r#"e.txt: size is no multiple of 8 bytes: it has 9 bytes, and an edge of format "gridgraph" takes 8; the bytes are all printable text: use format = "snap""#);
    let twelve = Sample::new("e.txt", "1 2\n3 4\n5 6\n").format(FormatSpec::GridgraphWeighted);
    assert!(twelve.error().contains("all printable text"));
}

#[test]
fn ids_that_happen_to_be_printable_are_edges_all_the_same_if_one_byte_is_not() {
    let printable = u32::from_le_bytes(*b"1 2\n");
    let sample = Sample::new("e.bin", pairs(&[(printable, printable), (printable, 1)]));
    assert_eq!(sample.pairs().len(), 2);
}

#[test]
fn skip_lines_makes_no_sense_here() {
    insta::assert_snapshot!(Sample::new("e.bin", [0; 8]).skip_lines(1).error(), @"e.bin is a binary edge list and has no lines; remove `skip_lines` from the data set");
}

#[test]
fn ids_beyond_the_vertices_given_are_errors() {
    let edges = [(0, 1), (1, 2), (3, 4), (4, 0)];
    insta::assert_snapshot!(Sample::new("e.bin", pairs(&edges)).vertices(4).error(), @"e.bin: edge 2 (byte offset 16) has vertex 4, but the job says 4 vertices (ids 0..4); leave `vertices` away to take 0 up to the largest id");
    assert_eq!(Sample::new("e.bin", pairs(&edges)).vertices(5).pairs().len(), 4);
}

#[test]
fn weights_that_are_no_numbers_are_errors() {
    for (weight, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let error = Sample::new("e.wbin", weighted(&[(1, 2, 1.0), (1, 2, weight)])).error();
        assert!(
            error.starts_with(&format!("e.wbin: edge 1 (byte offset 12) has the weight {name}, ")),
            "{error}"
        );
    }
}

#[test]
fn the_first_error_of_a_large_file_is_reported_whatever_the_threads() {
    let mut edges = vec![(1, 2); 400_000];
    for edge in [300_000, 150_000, 399_999, 150_001] {
        edges[edge] = (7, edge as u32);
    }
    let sample = Sample::new("e.bin", pairs(&edges)).vertices(100);
    for _ in 0..5 {
        let error = sample.error();
        assert!(error.contains("edge 150000 (byte offset 1200000) has vertex 150000"), "{error}");
    }
}
