//! Packed text.

use std::io::Write;

use super::{Sample, lines};
use crate::job::spec::FormatSpec;

pub(super) fn gzip(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn sample(bytes: impl AsRef<[u8]>) -> Sample {
    // Not called .gz: the content counts.
    Sample::new("edges", bytes)
}

#[test]
fn packed_text_is_the_same_graph() {
    let text = lines(50_000);
    let expected = Sample::new("e.txt", &text).pairs();
    assert_eq!(expected.len(), 50_000);
    assert_eq!(sample(gzip(&text)).pairs(), expected);
    assert_eq!(sample(gzip(&text)).format(FormatSpec::Snap).pairs(), expected);
}

#[test]
fn all_members_are_read_even_if_they_part_inside_a_line() {
    let members = ["1 2\n3", "", "", "3 4", "4\n5 6\n"].map(gzip).concat();
    assert_eq!(sample(&members).pairs(), [(1, 2), (5, 6), (33, 44)]);
}

#[test]
fn an_empty_stream_is_a_graph_without_edges() {
    assert_eq!(sample(gzip("")).pairs(), []);
    assert_eq!(sample(gzip("# nothing\n")).pairs(), []);
}

#[test]
fn a_truncated_gzip_is_an_error_not_a_smaller_graph() {
    let packed = gzip(lines(300));
    let mut messages = std::collections::BTreeSet::new();
    for len in (3..packed.len()).step_by(11) {
        let error = sample(&packed[..len]).error();
        assert!(error.starts_with("edges: the compressed stream ends early (after "), "{len} bytes: {error}");
        messages.insert(error);
    }
    assert!(messages.len() > 1, "some truncations come after some lines");
    insta::assert_snapshot!(sample(&packed[..packed.len() - 1]).error(), @"edges: the compressed stream ends early (after 300 lines); the file was cut short, fetch or copy it again");
}

#[test]
fn a_truncated_second_member_is_an_error_after_the_lines_of_the_first() {
    let (first, second) = (gzip("1 2\n3 4\n"), gzip("5 6\n"));
    for len in 1..second.len() {
        let error = sample([&first[..], &second[..len]].concat()).error();
        assert!(error.starts_with("edges: the compressed stream ends early (after "), "{len}: {error}");
    }
}

#[test]
fn a_flipped_bit_is_an_error() {
    let packed = gzip(lines(1000));
    let plain = sample(&packed).pairs();
    // Behind the header, whose time stamp and flags may change without harm.
    for at in (10..packed.len()).step_by(37) {
        let mut damaged = packed.clone();
        damaged[at] ^= 0x10;
        assert!(sample(&damaged).read().is_err(), "bit {at} of a graph with {} edges", plain.len());
    }
    let mut damaged = packed.clone();
    let checksum = packed.len() - 8;
    damaged[checksum] ^= 1;
    insta::assert_snapshot!(sample(damaged).error(), @"edges: the compressed stream is damaged (after 1000 lines): corrupt gzip stream does not have a matching checksum; fetch or copy it again");
}

#[test]
fn only_zeros_may_follow_the_last_member() {
    let packed = gzip("1 2\n");
    for zeros in [1, 511, 1 << 18] {
        assert_eq!(sample([&packed[..], &vec![0; zeros]].concat()).pairs(), [(1, 2)]);
    }
    insta::assert_snapshot!(sample([&packed[..], b"1 2\n"].concat()).error(), @"edges: byte offset 24 is behind the end of the compressed stream, but what follows is neither another gzip member nor zero padding; cut the file there, or fetch it again");
    let padded_then_more = [&packed[..], &[0; 9], &packed[..]].concat();
    assert!(sample(padded_then_more).error().contains("neither another gzip member nor zero padding"));
}

#[test]
fn a_wrong_line_comes_before_a_later_truncation_and_carries_its_number() {
    let packed = gzip(format!("1 2\nx 3\n{}", lines(1000)));
    let error = sample(&packed[..packed.len() - 4]).error();
    insta::assert_snapshot!(error, @"edges: line 2: expected an integer id, found 'x'; ids are whole numbers from 0 to 2^63-1");
    let deep = format!("{}oops\n", lines(60_000));
    let error = sample(gzip(deep)).error();
    insta::assert_snapshot!(error, @"edges: line 60001: expected an integer id, found 'oops'; ids are whole numbers from 0 to 2^63-1");
}

#[test]
fn a_packed_binary_is_refused() {
    insta::assert_snapshot!(sample(gzip([0; 4096])).error(), @r#"the format of edges is unclear: it is a gzip file whose content is no text (a binary edge list must be unpacked); set format = "snap" (text), "gridgraph" (u32 pairs) or "gridgraph-weighted" (u32 pairs with an f32 weight)"#);
    let as_binary = sample(gzip(lines(1000))).format(FormatSpec::Gridgraph);
    insta::assert_snapshot!(as_binary.error(), @r#"edges: the bytes are a gzip stream, so this is no binary edge list; use format = "snap" if it holds text, or unpack it first"#);
}
