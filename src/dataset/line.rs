//! One line of SNAP-like text: `source SEP target [SEP weight [SEP ...]]`, where a separator is a run of blanks
//! and tabs with at most one comma in it. Lines that are blank or begin with `#` or `%` hold no edge. Works on
//! bytes, because the ids are ASCII and the comments are whatever their authors' editors wrote.

use super::Edge;
use super::error::{LineFault, quote};

/// Largest id: what fits the signed 64-bit integers of the tools that read the results.
pub(super) const MAX_ID: u64 = i64::MAX as u64;

/// Bytes of a line at most. An edge takes less than a hundred; the rest is room for comments.
pub(super) const MAX_LINE: usize = 64 << 10;

/// Which columns a file's edges have: its first edge decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    /// Source and target, and nothing else.
    Pair,
    /// Source, target and weight; further columns are ignored.
    Weighted,
    /// Source and target; further columns are ignored.
    PairOfMany,
}

/// What is wrong with a line, and the bytes that show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault<'a> {
    NotAnId(&'a [u8]),
    IdTooLarge(&'a [u8]),
    OneColumn(&'a [u8]),
    ThirdColumn(&'a [u8]),
    NoWeight,
    Weight(&'a [u8]),
    TooLong,
}

impl Fault<'_> {
    /// The fault as it is reported: it is on line `line`, and the first edge is on line `first`.
    pub(super) fn report(self, line: u64, first: u64) -> LineFault {
        match self {
            Self::NotAnId(found) if found.iter().any(|byte| byte.is_ascii_control()) => {
                LineFault::NotText { found: quote(found) }
            }
            Self::NotAnId(found)
                if line == first && found.first().is_some_and(|c| !b"+-.0123456789".contains(c)) =>
            {
                LineFault::Header { found: quote(found), skip_lines: line }
            }
            Self::NotAnId(found) => LineFault::NotAnId { found: quote(found) },
            Self::IdTooLarge(found) => LineFault::IdTooLarge { found: quote(found) },
            Self::OneColumn(found) => LineFault::OneColumn { found: quote(found) },
            Self::ThirdColumn(found) => LineFault::ThirdColumn { found: quote(found), first },
            Self::NoWeight => LineFault::NoWeight { first },
            Self::Weight(found) => LineFault::Weight { found: quote(found) },
            Self::TooLong => LineFault::TooLong { limit: MAX_LINE },
        }
    }
}

/// The edge of a line (without its `\n`), if it holds one.
#[inline]
pub(super) fn parse(line: &[u8], columns: Columns) -> Result<Option<Edge>, Fault<'_>> {
    let Some(content) = content(line)? else { return Ok(None) };
    let (source, rest) = id(content)?;
    let Some(rest) = next_field(rest) else { return Err(Fault::OneColumn(content)) };
    let (target, rest) = id(rest)?;
    let weight = match (columns, next_field(rest)) {
        (Columns::Pair, None) | (Columns::PairOfMany, _) => 1.0,
        (Columns::Weighted, Some(rest)) => weight(field(rest))?,
        (Columns::Pair, Some(rest)) => return Err(Fault::ThirdColumn(field(rest))),
        (Columns::Weighted, None) => return Err(Fault::NoWeight),
    };
    Ok(Some(Edge { source, target, weight }))
}

/// Whether a line holds an edge (or should), and if so, whether it has a third column.
pub(super) fn third_column(line: &[u8]) -> Option<bool> {
    let content = content(line).ok()??;
    let third = next_field(skip_field(content)).and_then(|rest| next_field(skip_field(rest)));
    Some(third.is_some())
}

/// The line without its surrounding blanks, or nothing if it is blank or a comment.
#[inline]
fn content(line: &[u8]) -> Result<Option<&[u8]>, Fault<'_>> {
    if line.len() > MAX_LINE {
        return Err(Fault::TooLong);
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut content = skip_blanks(line);
    while let [rest @ .., b' ' | b'\t'] = content {
        content = rest;
    }
    Ok(if matches!(content, [] | [b'#' | b'%', ..]) { None } else { Some(content) })
}

/// An id at the start of a field, and what follows the field.
#[inline]
fn id(bytes: &[u8]) -> Result<(u64, &[u8]), Fault<'_>> {
    let mut value = 0_u64;
    let mut digits = 0;
    while let Some(digit) = bytes.get(digits).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        digits += 1;
    }
    let (number, rest) = bytes.split_at(digits);
    if digits == 0 || rest.first().is_some_and(|&byte| !is_separator(byte)) {
        return Err(Fault::NotAnId(field(bytes)));
    }
    // Eighteen digits fit in any case; more need a closer look.
    if digits > 18 { long_id(number).map(|value| (value, rest)) } else { Ok((value, rest)) }
}

#[cold]
fn long_id(number: &[u8]) -> Result<u64, Fault<'_>> {
    let parsed = number.iter().try_fold(0_u64, |value, byte| {
        value.checked_mul(10)?.checked_add(u64::from(byte - b'0')).filter(|value| *value <= MAX_ID)
    });
    parsed.ok_or(Fault::IdTooLarge(number))
}

/// A weight: what Rust's parser takes for an f64 (correctly rounded), if it is finite.
fn weight(field: &[u8]) -> Result<f64, Fault<'_>> {
    let parsed = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
    parsed.filter(|weight: &f64| weight.is_finite()).ok_or(Fault::Weight(field))
}

/// From the end of one field to the start of the next: none where the line ends. After a comma there is always
/// a field, even if it is empty.
#[inline]
fn next_field(rest: &[u8]) -> Option<&[u8]> {
    match skip_blanks(rest) {
        [] => None,
        [b',', rest @ ..] => Some(skip_blanks(rest)),
        rest => Some(rest),
    }
}

/// The field that begins here.
fn field(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() - skip_field(bytes).len()]
}

fn skip_field(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().position(|&byte| is_separator(byte)).unwrap_or(bytes.len());
    &bytes[len..]
}

#[inline]
fn skip_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

#[inline]
fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(line: &str) -> Result<Option<(u64, u64)>, Fault<'_>> {
        Ok(parse(line.as_bytes(), Columns::Pair)?.map(|edge| (edge.source, edge.target)))
    }

    fn weighted(line: &str) -> Result<f64, Fault<'_>> {
        Ok(parse(line.as_bytes(), Columns::Weighted)?.expect("the line holds an edge").weight)
    }

    #[test]
    fn fields_are_separated_by_blanks_tabs_or_a_comma() {
        for line in
            ["1 2", "1\t2", "1,2", "1, 2", "1 ,2", "1\t , \t2", "\t1   2 \t", "1 2\r", " 1 2 \r", "01 002"]
        {
            assert_eq!(pair(line), Ok(Some((1, 2))), "{line:?}");
        }
    }

    #[test]
    fn blank_lines_and_comments_hold_no_edge() {
        for line in ["", " ", "\t \r", "\r", "# 1 2", "% 1 2", "  # 1 2", "#\u{fffd}"] {
            assert_eq!(pair(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn ids_reach_to_the_largest_i64_and_no_further() {
        assert_eq!(pair("9223372036854775807 0"), Ok(Some((MAX_ID, 0))));
        assert_eq!(pair("00000000000000000000000000000009 0"), Ok(Some((9, 0))));
        for id in ["9223372036854775808", "18446744073709551617", "99999999999999999999999999"] {
            assert_eq!(pair(&format!("0 {id}")), Err(Fault::IdTooLarge(id.as_bytes())));
        }
    }

    #[test]
    fn what_is_no_id_is_shown_as_it_stands() {
        for (line, found) in [
            ("-3 1", "-3"),
            ("1 -3", "-3"),
            ("+1 2", "+1"),
            ("1.0 2", "1.0"),
            ("1e3 2", "1e3"),
            ("1 0x2", "0x2"),
            ("1;2", "1;2"),
            ("1,,2", ""),
            (",1,2", ""),
            ("1,", ""),
            ("1 2# no", "2#"),
            ("from_user,to_user", "from_user"),
            ("1\u{a0}2", "1\u{a0}2"),
            ("\"1\" \"2\"", "\"1\""),
        ] {
            assert_eq!(pair(line), Err(Fault::NotAnId(found.as_bytes())), "{line:?}");
        }
        assert_eq!(pair(" 12 "), Err(Fault::OneColumn(b"12")));
    }

    #[test]
    fn weights_are_read_exactly_and_must_be_finite() {
        for (text, value) in [
            ("1e5", 1e5),
            ("+5", 5.0),
            (".5", 0.5),
            ("25.", 25.0),
            ("-0.25", -0.25),
            ("1e-308", 1e-308),
            ("0.1", 0.1),
        ] {
            assert_eq!(
                weighted(&format!("1 2 {text} 77")).map(f64::to_bits),
                Ok(f64::to_bits(value)),
                "{text}"
            );
        }
        for text in ["nan", "NaN", "inf", "-inf", "Infinity", "1e999", "x", "1_0", "0x1"] {
            assert_eq!(weighted(&format!("1 2 {text}")), Err(Fault::Weight(text.as_bytes())), "{text}");
        }
        assert_eq!(weighted("1,2,"), Err(Fault::Weight(b"")));
    }

    #[test]
    fn the_number_of_columns_is_that_of_the_first_edge() {
        assert_eq!(pair("1 2 3"), Err(Fault::ThirdColumn(b"3")));
        assert_eq!(pair("1,2,"), Err(Fault::ThirdColumn(b"")));
        assert_eq!(weighted("1 2"), Err(Fault::NoWeight));
        let ignoring = parse(b"1 2 x nan", Columns::PairOfMany);
        assert_eq!(ignoring, Ok(Some(Edge { source: 1, target: 2, weight: 1.0 })));

        for (line, third) in [
            ("1 2", Some(false)),
            ("1 2 3", Some(true)),
            ("1,2,", Some(true)),
            ("1", Some(false)),
            ("a b", Some(false)),
            ("# 1 2 3", None),
            (" \r", None),
        ] {
            assert_eq!(third_column(line.as_bytes()), third, "{line:?}");
        }
    }

    #[test]
    fn a_line_has_a_bound() {
        let longest = format!("# {}", "x".repeat(MAX_LINE - 2));
        assert_eq!(pair(&longest), Ok(None));
        assert_eq!(pair(&format!("{longest}x")), Err(Fault::TooLong));
    }
}
