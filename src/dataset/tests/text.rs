//! SNAP-like text.

use std::fmt::Write as _;

use super::{Sample, read_with, sorted};
use crate::dataset::blocks::BLOCK;
use crate::dataset::file::SourceFile;
use crate::dataset::text::TextSource;
use crate::dataset::{EdgeSource, Summary, VertexSet, open};
use crate::job::spec::WeightsSpec;

#[test]
fn comments_blanks_and_line_ends_do_not_matter() {
    let text = "\u{feff}# a\r\n\n  \r\n1 2\r\n%b\n\t3\t1\t\n1    3\n# c\n2,3";
    let sample = Sample::new("e.txt", text);
    assert_eq!(sample.pairs(), [(1, 2), (1, 3), (2, 3), (3, 1)]);
    assert_eq!(open(&sample.spec).unwrap().vertices(), VertexSet::Seen);
}

#[test]
fn a_byte_order_mark_is_ignored_at_the_start_and_nowhere_else() {
    assert_eq!(Sample::new("e.txt", "\u{feff}10 20\n").pairs(), [(10, 20)]);
    insta::assert_snapshot!(Sample::new("e.txt", "1 2\n\u{feff}10 20\n").error(), @r#"e.txt: line 2: expected an integer id, found '\u{feff}10'; ids are whole numbers from 0 to 2^63-1"#);
}

#[test]
fn files_without_edges_are_graphs_without_edges() {
    for text in ["", "\n", "# nothing\n", "\u{feff}", "# no newline", " \r\n\r\n"] {
        let sample = Sample::new("e.txt", text);
        assert_eq!(sample.read().unwrap(), (vec![], Summary { edges: 0, weighted: false }), "{text:?}");
    }
}

#[test]
fn weights_are_read_if_the_first_edge_has_one() {
    let sample = Sample::new("e.txt", "# w\n1 2 0.5 ignored\n2 1 1e5\n");
    let (edges, summary) = sample.read().unwrap();
    assert_eq!(edges.iter().map(|edge| edge.weight).collect::<Vec<_>>(), [0.5, 1e5]);
    assert!(summary.weighted);

    let (edges, summary) = sample.no_weights().read().unwrap();
    assert!(edges.iter().all(|edge| edge.weight.to_bits() == 1_f64.to_bits()));
    assert!(!summary.weighted);
}

#[test]
fn a_line_with_other_columns_than_the_first_edge_is_an_error() {
    insta::assert_snapshot!(Sample::new("e.txt", "#\n1 2\n3 4\n5 6 7\n").error(), @r#"e.txt: line 4: found a third column '7', but the first edge (line 2) has two columns; give every edge a weight, or ignore the column by weights = "none""#);
    insta::assert_snapshot!(Sample::new("e.txt", "#\n1 2 3\n3 4\n").error(), @r#"e.txt: line 3: found two columns, but the first edge (line 2) has a weight in a third; give every edge a weight, or ignore the column by weights = "none""#);
    assert_eq!(Sample::new("e.txt", "1 2\n3 4 x\n5 6 7 8\n").no_weights().pairs(), [(1, 2), (3, 4), (5, 6)]);
}

#[test]
fn what_is_no_edge_is_an_error_with_its_line() {
    let errors = [
        "from,to\n1,2\n",
        "# h\n\nsource target\n1 2\n",
        "1 2\nfrom to\n",
        "1 2\n1 -2\n",
        "1.5 2\n",
        "-1 2\n",
        "1 2\n7\n",
        "1 9223372036854775808\n",
        "1 2 nan\n",
        "1 2 0.5\n1 2 \x1b[2J\n",
        "a line that goes on and on and on and on and on and on\n",
    ]
    .map(|text| Sample::new("e.txt", text).format(crate::job::spec::FormatSpec::Snap).error())
    .join("\n");
    insta::assert_snapshot!(errors, @r#"
    e.txt: line 1: expected an integer id, found 'from'; is this a header line? use skip_lines = 1
    e.txt: line 3: expected an integer id, found 'source'; is this a header line? use skip_lines = 3
    e.txt: line 2: expected an integer id, found 'from'; ids are whole numbers from 0 to 2^63-1
    e.txt: line 2: expected an integer id, found '-2'; ids are whole numbers from 0 to 2^63-1
    e.txt: line 1: expected an integer id, found '1.5'; ids are whole numbers from 0 to 2^63-1
    e.txt: line 1: expected an integer id, found '-1'; ids are whole numbers from 0 to 2^63-1
    e.txt: line 2: expected the ids of source and target, found only '7'; separate them by a blank, a tab or a comma
    e.txt: line 1: id 9223372036854775808 is too large; ids are whole numbers from 0 to 2^63-1
    e.txt: line 1: weight is not a finite number: found 'nan'; correct it, or ignore all weights by weights = "none"
    e.txt: line 2: weight is not a finite number: found '\u{1b}[2J'; correct it, or ignore all weights by weights = "none"
    e.txt: line 1: expected an integer id, found 'a'; is this a header line? use skip_lines = 1
    "#);
}

#[test]
fn lines_are_left_out_whatever_they_are_and_still_count() {
    let text = "https://example.org\r\nfrom to\n1 2\n2 x\n";
    insta::assert_snapshot!(Sample::new("e.txt", text).error(), @"e.txt: line 1: expected an integer id, found 'https://example.org'; is this a header line? use skip_lines = 1");
    insta::assert_snapshot!(Sample::new("e.txt", text).skip_lines(2).error(), @"e.txt: line 4: expected an integer id, found 'x'; ids are whole numbers from 0 to 2^63-1");
    assert_eq!(Sample::new("e.txt", "1 2\n3 4").skip_lines(1).pairs(), [(3, 4)]);
    assert_eq!(Sample::new("e.txt", "1 2\n3 4").skip_lines(2).pairs(), []);
    insta::assert_snapshot!(Sample::new("e.txt", "1 2\n3 4").skip_lines(3).error(), @"e.txt has only 2 lines, but the data set says skip_lines = 3; lower it");
    let long = format!("{}\n1 2\n", "x".repeat(3 * BLOCK));
    assert_eq!(Sample::new("e.txt", long).skip_lines(1).pairs(), [(1, 2)]);
}

#[test]
fn ids_beyond_the_vertices_given_are_errors() {
    let text = "# ids\n0 1\n7 2\n2 8\n8 9\n";
    insta::assert_snapshot!(Sample::new("e.txt", text).vertices(8).error(), @"e.txt: edge on line 4 has vertex 8, but the data set says 8 vertices (ids 0..8); leave `vertices` away to take the ids seen");
    insta::assert_snapshot!(Sample::new("e.txt", text).vertices(7).error(), @"e.txt: edge on line 3 has vertex 7, but the data set says 7 vertices (ids 0..7); leave `vertices` away to take the ids seen");
    let enough = Sample::new("e.txt", text).vertices(10);
    assert_eq!(enough.pairs().len(), 4);
    assert_eq!(open(&enough.spec).unwrap().vertices(), VertexSet::Given(10));
}

#[test]
fn a_line_without_end_is_an_error_and_not_memory() {
    for len in [(64 << 10) + 1, BLOCK - 2, BLOCK + 1, 3 * BLOCK] {
        let text = format!("1 2\n# {}\n3 4\n", "x".repeat(len));
        assert_eq!(
            Sample::new("e.txt", text).error(),
            "e.txt: line 2: the line is longer than 65536 bytes, so this is no list of edges; is `path` the right file?"
        );
    }
}

/// Lines of all kinds, so that small blocks are cut inside every one of them.
fn long_text() -> String {
    let mut text = String::from("\u{feff}# header\r\n");
    for n in 0..3000_u64 {
        let (source, target) = (n * n % 1009, n * 7919 % 100_003);
        let _ = match n % 7 {
            0 => write!(text, "{source} {target}\r\n"),
            1 => writeln!(text, "\t{source}\t,{target}  "),
            2 => write!(text, "\n# comment {n}\n{source},{target}\n"),
            _ => writeln!(text, "{source}\t{target}"),
        };
    }
    text
}

fn with_block(sample: &Sample, block: usize) -> impl EdgeSource {
    let file = SourceFile::open(sample.path()).unwrap();
    TextSource::new(file, false, None, WeightsSpec::Auto, 0).with_block(block)
}

#[test]
fn blocks_and_threads_do_not_matter() {
    let sample = Sample::new("e.txt", long_text());
    let expected = sample.read().unwrap();
    assert_eq!(expected.1.edges, 3000);
    for (block, threads) in [(1, 1), (2, 3), (7, 2), (64, 4), (1000, 2), (1 << 20, 2)] {
        let (edges, summary) = read_with(&with_block(&sample, block), threads).unwrap();
        assert!((sorted(edges), summary) == expected, "blocks of {block} bytes, {threads} threads");
    }
}

#[test]
fn the_first_error_of_the_file_is_reported_whatever_the_threads() {
    let lines: Vec<String> = long_text().lines().map(str::to_owned).collect();
    let mut broken = lines.clone();
    for line in [1500, 1501, 2000, 2900] {
        broken[line] = format!("error {line}");
    }
    let sample = Sample::new("e.txt", broken.join("\n"));
    let expected = sample.error();
    assert!(expected.starts_with("e.txt: line 1501: expected an integer id, found 'error'"), "{expected}");
    for (block, threads) in [(64, 8), (200, 3), (1000, 4), (5000, 2)] {
        for _ in 0..10 {
            let error = read_with(&with_block(&sample, block), threads).unwrap_err().to_string();
            assert!(error.ends_with(&expected), "{error}");
        }
    }
}
