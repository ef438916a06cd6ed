//! What can be wrong with a data set. Every message stands alone: which file, where in it, what was found there,
//! what was expected, and what the user can do. Causes are printed inside the message and not chained, so that
//! no printer shows them twice.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::io_advice::advice;
use crate::units::plural;

/// An error of a data set: whole sentences that name the file, the place, what was found and what to do.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The sink took no more; its owner knows why.
    #[error("reading stopped because its consumer stopped")]
    Stopped,
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,

    /// There is no such file.
    #[error("{path} does not exist; correct the `path` of the data set")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A directory, a pipe, a device, a file of `/proc`.
    #[error("{path} is {found}; a data set must be a regular file, because it is read more than once")]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there: `a named pipe`.
        found: &'static str,
    },
    /// The operating system refused.
    #[error("{action} {path} failed: {reason}{}", advice(.reason, "give another file"))]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried: `opening`, `reading`.
        action: &'static str,
        /// Why it failed.
        reason: std::io::Error,
    },
    /// Somebody writes to the file.
    #[error(
        "{path} changed while it was in use ({before} bytes when it was opened, {after} bytes now); \
         wait until it is complete and run again"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// Its bytes when it was opened.
        before: u64,
        /// Its bytes now; the same where only the time stamp differs.
        after: u64,
    },

    /// Neither content nor name says what the file is.
    #[error(
        "the format of {path} is unclear: {found}; set format = \"snap\" (text), \"gridgraph\" (u32 pairs) or \
         \"gridgraph-weighted\" (u32 pairs with an f32 weight)"
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What speaks against each guess.
        found: String,
    },
    /// The file is of one format, the entry names another.
    #[error("{path}: {found}, so this is no binary edge list; {remedy}")]
    NotBinary {
        /// The file.
        path: PathBuf,
        /// What the bytes look like.
        found: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// `skip_lines` on a file without lines.
    #[error("{path} is a binary edge list and has no lines; remove `skip_lines` from the data set")]
    SkipLinesOfBinary {
        /// The file.
        path: PathBuf,
    },
    /// `skip_lines` leaves nothing.
    #[error(
        "{path} has only {}, but the data set says skip_lines = {skip_lines}; lower it",
        plural(*.lines as usize, "line")
    )]
    SkipLinesBeyondEnd {
        /// The file.
        path: PathBuf,
        /// Lines to leave out.
        skip_lines: u64,
        /// Lines there are.
        lines: u64,
    },

    /// A line of text that is no edge.
    #[error("{path}: line {line}: {fault}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1 at the start of the (unpacked) file.
        line: u64,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// A line of text with a vertex outside `vertices`.
    #[error(
        "{path}: edge on line {line} has vertex {vertex}, but the data set says {vertices} vertices \
         (ids 0..{vertices}); leave `vertices` away to take the ids seen"
    )]
    LineVertex {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The id.
        vertex: u64,
        /// `vertices = N`.
        vertices: u64,
    },

    /// A gzip file was cut.
    #[error(
        "{path}: the compressed stream ends early (after {lines} lines); the file was cut short, fetch or copy it \
         again"
    )]
    GzipEndsEarly {
        /// The file.
        path: PathBuf,
        /// Whole lines before the end.
        lines: u64,
    },
    /// A gzip file is damaged.
    #[error(
        "{path}: the compressed stream is damaged (after {lines} lines): {reason}; fetch or copy it again"
    )]
    GzipDamaged {
        /// The file.
        path: PathBuf,
        /// Whole lines before the damage was noticed.
        lines: u64,
        /// What the decoder says.
        reason: String,
    },
    /// Bytes after the last gzip member.
    #[error(
        "{path}: byte offset {offset} is behind the end of the compressed stream, but what follows is neither \
         another gzip member nor zero padding; cut the file there, or fetch it again"
    )]
    GzipTrailing {
        /// The file.
        path: PathBuf,
        /// Where the stream ended.
        offset: u64,
    },

    /// A binary file of a size that no whole number of records has.
    #[error(
        "{path}: size is no multiple of {record} bytes: it has {size} bytes, and an edge of format \"{format}\" \
         takes {record}; {remedy}"
    )]
    RecordSize {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Bytes of an edge.
        record: u64,
        /// The format as the data set calls it.
        format: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A binary edge with a vertex outside `vertices`.
    #[error(
        "{path}: edge {edge} (byte offset {offset}) has vertex {vertex}, but the job says {vertices} vertices \
         (ids 0..{vertices}); leave `vertices` away to take 0 up to the largest id"
    )]
    RecordVertex {
        /// The file.
        path: PathBuf,
        /// The edge, counted from 0.
        edge: u64,
        /// Where it begins in the file.
        offset: u64,
        /// The id.
        vertex: u64,
        /// `vertices = N`.
        vertices: u64,
    },
    /// A binary edge with a weight that is no number.
    #[error(
        "{path}: edge {edge} (byte offset {offset}) has the weight {weight}, and a weight must be a finite \
         number; correct it, or ignore all weights by weights = \"none\""
    )]
    RecordWeight {
        /// The file.
        path: PathBuf,
        /// The edge, counted from 0.
        edge: u64,
        /// Where it begins in the file.
        offset: u64,
        /// NaN or an infinity.
        weight: f32,
    },

    /// Parameters that no generator can follow.
    #[error("data set {name}: {fault}")]
    Generator {
        /// The data set.
        name: String,
        /// Which parameter, what it is and what it may be.
        fault: String,
    },

    /// The file is not the one that the entry means.
    #[error(
        "{path} has the sha256 {found}, but the data set says {expected}; fetch the file again, or correct \
         `sha256` if the new content is meant"
    )]
    DigestMismatch {
        /// The file.
        path: PathBuf,
        /// The digest of the entry.
        expected: String,
        /// The digest of the file.
        found: String,
    },
}

/// What is wrong with one line of text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// A field that is no whole number where an id must be.
    #[error("expected an integer id, found '{found}'; ids are whole numbers from 0 to 2^63-1")]
    NotAnId {
        /// The field, for people: cut at some length, control characters escaped.
        found: String,
    },
    /// The same, with bytes that no text has.
    #[error(
        "expected an integer id, found '{found}', which is no text; if the file is a binary edge list, use \
         format = \"gridgraph\""
    )]
    NotText {
        /// The field, for people.
        found: String,
    },
    /// The same, in the first line that is no comment.
    #[error("expected an integer id, found '{found}'; is this a header line? use skip_lines = {skip_lines}")]
    Header {
        /// The field, for people.
        found: String,
        /// The number of the line.
        skip_lines: u64,
    },
    /// An id that fits no i64.
    #[error("id {found} is too large; ids are whole numbers from 0 to 2^63-1")]
    IdTooLarge {
        /// The id, for people.
        found: String,
    },
    /// A single column.
    #[error(
        "expected the ids of source and target, found only '{found}'; separate them by a blank, a tab or a comma"
    )]
    OneColumn {
        /// The line, for people.
        found: String,
    },
    /// A weight that the first edge has not.
    #[error(
        "found a third column '{found}', but the first edge (line {first}) has two columns; give every edge a \
         weight, or ignore the column by weights = \"none\""
    )]
    ThirdColumn {
        /// The column, for people.
        found: String,
        /// The line that set the number of columns.
        first: u64,
    },
    /// A missing weight.
    #[error(
        "found two columns, but the first edge (line {first}) has a weight in a third; give every edge a weight, \
         or ignore the column by weights = \"none\""
    )]
    NoWeight {
        /// The line that set the number of columns.
        first: u64,
    },
    /// A weight that is not to be computed with.
    #[error(
        "weight is not a finite number: found '{found}'; correct it, or ignore all weights by weights = \"none\""
    )]
    Weight {
        /// The field, for people.
        found: String,
    },
    /// A line that no edge list has.
    #[error("the line is longer than {limit} bytes, so this is no list of edges; is `path` the right file?")]
    TooLong {
        /// Bytes that a line may have.
        limit: usize,
    },
}

/// Characters of a file's content that a message shows at most.
const QUOTED: usize = 40;

/// Bytes of a file as a message may show them: one line, at most about forty characters, nothing that a
/// terminal would obey.
pub(super) fn quote(bytes: &[u8]) -> String {
    let mut quoted = String::new();
    let mut shown = 0;
    for chunk in bytes.utf8_chunks() {
        let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        let pieces = chunk.valid().chars().map(|c| c.escape_debug().to_string()).chain(invalid);
        for piece in pieces {
            if shown == QUOTED {
                quoted.push_str("...");
                return quoted;
            }
            // Writing to a string cannot fail.
            let _ = quoted.write_str(&piece);
            shown += 1;
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_short_and_harmless() {
        assert_eq!(quote(b"from_user"), "from_user");
        assert_eq!(quote(b"\x1b[31m\r\0"), r"\u{1b}[31m\r\0");
        assert_eq!(quote("größe".as_bytes()), "größe");
        assert_eq!(quote(b"\xff\xfe1"), r"\xff\xfe1");
        assert_eq!(quote(&[b'x'; 41]), format!("{}...", "x".repeat(40)));
        assert_eq!(quote(&[b'x'; 40]), "x".repeat(40));
    }

    #[test]
    fn messages_say_where_what_and_what_to_do() {
        let path = || PathBuf::from("data/edges.txt");
        let messages = [
            DatasetError::Missing { path: path() },
            DatasetError::NotAFile { path: path(), found: "a directory" },
            DatasetError::Changed { path: path(), before: 10, after: 12 },
            DatasetError::SkipLinesBeyondEnd { path: path(), skip_lines: 9, lines: 3 },
            DatasetError::Line { path: path(), line: 5, fault: LineFault::NoWeight { first: 2 } },
            DatasetError::LineVertex { path: path(), line: 7, vertex: 8, vertices: 8 },
            DatasetError::GzipTrailing { path: path(), offset: 123 },
            DatasetError::RecordWeight { path: path(), edge: 3, offset: 36, weight: f32::NAN },
        ]
        .map(|error| error.to_string())
        .join("\n");
        insta::assert_snapshot!(messages, @r#"
        data/edges.txt does not exist; correct the `path` of the data set
        data/edges.txt is a directory; a data set must be a regular file, because it is read more than once
        data/edges.txt changed while it was in use (10 bytes when it was opened, 12 bytes now); wait until it is complete and run again
        data/edges.txt has only 3 lines, but the data set says skip_lines = 9; lower it
        data/edges.txt: line 5: found two columns, but the first edge (line 2) has a weight in a third; give every edge a weight, or ignore the column by weights = "none"
        data/edges.txt: edge on line 7 has vertex 8, but the data set says 8 vertices (ids 0..8); leave `vertices` away to take the ids seen
        data/edges.txt: byte offset 123 is behind the end of the compressed stream, but what follows is neither another gzip member nor zero padding; cut the file there, or fetch it again
        data/edges.txt: edge 3 (byte offset 36) has the weight NaN, and a weight must be a finite number; correct it, or ignore all weights by weights = "none"
        "#);
    }
}
