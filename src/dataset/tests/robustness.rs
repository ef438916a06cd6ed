//! Whatever bytes there are: no panic, and one answer, however the bytes are cut into blocks and shared among
//! threads.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;

use super::gzip::gzip;
use super::{Sample, read_with, sorted};
use crate::dataset::file::SourceFile;
use crate::dataset::text::TextSource;
use crate::dataset::{DatasetError, Edge, EdgeSource, Summary};
use crate::job::spec::{FormatSpec, WeightsSpec};

/// Edges or the message: what a user gets.
fn outcome(source: &dyn EdgeSource, threads: usize) -> Result<(Vec<Edge>, Summary), String> {
    let result = read_with(source, threads).map_err(|error| error.to_string());
    result.map(|(edges, summary)| (sorted(edges), summary))
}

/// Reads as text in blocks of several sizes, and says what all of them found.
fn one_outcome(bytes: &[u8], packed: bool) -> Result<(Vec<Edge>, Summary), String> {
    let sample = Sample::new("e", bytes);
    let read = |block, threads| {
        let file = SourceFile::open(sample.path()).unwrap();
        let source = TextSource::new(file, packed, None, WeightsSpec::Auto, 0).with_block(block);
        outcome(&source, threads)
    };
    let expected = read(1 << 16, 1);
    for (block, threads) in [(1, 2), (5, 1), (16, 3)] {
        assert_eq!(read(block, threads), expected, "blocks of {block} bytes on {threads} threads");
    }
    expected
}

/// Text that is nearly a list of edges.
fn nearly_text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => (0..50_u64).prop_map(|id| id.to_string().into_bytes()),
        8 => prop_oneof![Just(" "), Just("\t"), Just(","), Just(" , ")].prop_map(|s| s.as_bytes().to_vec()),
        6 => prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n"), Just("\n#"), Just("\n%")]
            .prop_map(|s| s.as_bytes().to_vec()),
        1 => prop_oneof![Just("-1"), Just("0.5"), Just("nan"), Just("9223372036854775808"), Just("\u{feff}")]
            .prop_map(|s| s.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn graph() -> impl Strategy<Value = Vec<(u64, u64, f64)>> {
    let id = prop_oneof![0..20_u64, 0..=i64::MAX as u64];
    let weight = any::<f64>().prop_filter("finite", |weight| weight.is_finite());
    vec((id.clone(), id, weight), 0..200)
}

fn written(edges: &[(u64, u64, f64)], weighted: bool, separator: &str, end: &str) -> String {
    edges.iter().fold(String::from("# a graph\n"), |mut text, (source, target, weight)| {
        let _ = write!(text, "{source}{separator}{target}");
        let _ = if weighted { write!(text, "{separator}{weight:e}{end}") } else { write!(text, "{end}") };
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn a_graph_written_is_the_graph_read(
        edges in graph(),
        weighted in any::<bool>(),
        separator in prop_oneof![Just(" "), Just("\t"), Just(","), Just("\t , ")],
        end in prop_oneof![Just("\n"), Just("\r\n"), Just(" \n\n"), Just("\n% comment\n")],
        packed in any::<bool>(),
    ) {
        let text = written(&edges, weighted, separator, end);
        let bytes = if packed { gzip(&text) } else { text.into_bytes() };
        let (read, summary) = one_outcome(&bytes, packed).unwrap();
        let weight = |weight: f64| if weighted { weight } else { 1.0 };
        let expected = edges.iter().map(|edge| Edge { source: edge.0, target: edge.1, weight: weight(edge.2) });
        prop_assert_eq!(bits(&read), bits(&sorted(expected.collect())));
        prop_assert_eq!(summary.weighted, weighted && !edges.is_empty());
    }

    #[test]
    fn text_of_any_kind_has_one_outcome(bytes in nearly_text()) {
        let _ = one_outcome(&bytes, false);
    }

    #[test]
    fn bytes_of_any_kind_have_one_outcome(bytes in vec(any::<u8>(), 0..300), packed in any::<bool>()) {
        let _ = one_outcome(&bytes, packed);
    }

    #[test]
    fn a_damaged_gzip_never_is_a_smaller_graph(
        edges in graph(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
        cut in any::<bool>(),
    ) {
        let text = written(&edges, false, " ", "\n");
        let mut packed = gzip(&text);
        // Bytes 4 to 9 of the header (time, level, system) say nothing about the content.
        let at = 10 + at.index(packed.len() - 10);
        if cut { packed.truncate(at) } else { packed[at] ^= 1_u8 << bit }
        // A bit of padding before the trailer says nothing either.
        if let Ok((read, _)) = one_outcome(&packed, true) {
            prop_assert_eq!(bits(&read), bits(&one_outcome(&gzip(&text), true).unwrap().0));
        }
    }

    #[test]
    fn binaries_of_any_kind_do_no_harm(
        bytes in vec(any::<u8>(), 0..200),
        name in prop_oneof![Just("e"), Just("e.bin"), Just("e.wbin"), Just("e.txt")],
        format in prop_oneof![
            Just(FormatSpec::Auto), Just(FormatSpec::Gridgraph), Just(FormatSpec::GridgraphWeighted),
        ],
        vertices in prop::option::of(any::<u32>()),
    ) {
        let mut sample = Sample::new(name, &bytes).format(format);
        sample.spec.vertices = vertices.map(u64::from);
        let read = || sample.read().map(|(edges, summary)| (bits(&edges), summary));
        match (read(), read()) {
            (Ok((edges, summary)), Ok(again)) => {
                prop_assert_eq!(edges.len() as u64, summary.edges);
                prop_assert!(edges.iter().all(|edge| vertices.is_none_or(|n| edge.0.max(edge.1) < u64::from(n))));
                prop_assert_eq!((edges, summary), again);
            }
            (Err(error), Err(again)) => prop_assert_eq!(error.to_string(), again.to_string()),
            (one, other) => prop_assert!(false, "{one:?} and then {other:?}"),
        }
    }
}

/// Edges by the bits of their weights, so that -0 is not 0.
fn bits(edges: &[Edge]) -> Vec<(u64, u64, u64)> {
    edges.iter().map(|edge| (edge.source, edge.target, edge.weight.to_bits())).collect()
}

/// Errors without a place in the file would say nothing.
#[test]
fn the_error_of_a_random_file_names_it() {
    let sample = Sample::new("e.txt", [0x80, 0, 1, 2, 3]).format(FormatSpec::Snap);
    let error: DatasetError = sample.read().unwrap_err();
    assert!(error.to_string().contains("e.txt: line 1: "), "{error}");
}
