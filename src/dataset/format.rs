//! What a file is: as the data set says, or (`auto`) by its content and, where binary bytes say nothing, its name.
//! A wrong guess would be a wrong graph without an error, so what could be two things is refused with a question.

use std::path::Path;

use super::DatasetError;
use super::file::SourceFile;
use super::gzip::{MAGIC, unpacked_head};
use crate::job::spec::FormatSpec;

/// Bytes at the start of a file that are looked at.
const HEAD: usize = 4 << 10;

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Lines of text.
    Text,
    /// The same, packed.
    GzipText,
    /// Records of two u32.
    Pairs {
        /// Whether a record has an f32 weight too.
        weight: bool,
        /// Whether the bytes look like text, so that they are no records.
        text: bool,
    },
}

/// How `file` is to be read when the data set says `format`.
pub(super) fn layout(file: &SourceFile, format: FormatSpec) -> Result<Layout, DatasetError> {
    let head = file.head(HEAD)?;
    match format {
        FormatSpec::Auto => guess(file.path(), &head),
        FormatSpec::Snap if head.starts_with(&MAGIC[..2]) => Ok(Layout::GzipText),
        FormatSpec::Snap => Ok(Layout::Text),
        FormatSpec::Gridgraph => pairs(file.path(), &head, false),
        FormatSpec::GridgraphWeighted => pairs(file.path(), &head, true),
    }
}

fn pairs(path: &Path, head: &[u8], weight: bool) -> Result<Layout, DatasetError> {
    // The magic alone may be an id; that the rest unpacks is no coincidence.
    if unpacked_head(head, HEAD).is_some_and(|unpacked| !unpacked.is_empty()) {
        return Err(DatasetError::NotBinary {
            path: path.to_path_buf(),
            found: "the bytes are a gzip stream",
            remedy: "use format = \"snap\" if it holds text, or unpack it first",
        });
    }
    Ok(Layout::Pairs { weight, text: is_text(head) })
}

fn guess(path: &Path, head: &[u8]) -> Result<Layout, DatasetError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let weight = match extension {
        Some("bin") => Some(false),
        Some("wbin") => Some(true),
        _ => None,
    };
    let unpacked = unpacked_head(head, HEAD);
    match (unpacked, weight) {
        (Some(unpacked), _) => guess_text(path, &unpacked, NOT_TEXT_UNPACKED).map(|()| Layout::GzipText),
        // Damaged from the start: the reader of gzip says so best.
        (None, None) if head.starts_with(&MAGIC) => Ok(Layout::GzipText),
        (None, Some(weight)) if !is_text(head) => Ok(Layout::Pairs { weight, text: false }),
        // No bytes are a graph without edges in either format; the name says which vertex rule it follows.
        (None, Some(weight)) if head.is_empty() => Ok(Layout::Pairs { weight, text: false }),
        (None, _) => guess_text(path, head, NOT_TEXT).map(|()| Layout::Text),
    }
}

const NOT_TEXT: &str = "the bytes are no text, and the name does not end in .bin or .wbin";
const NOT_TEXT_UNPACKED: &str =
    "it is a gzip file whose content is no text (a binary edge list must be unpacked)";

/// An error unless the bytes are text, and of no format whose lines only look like edges.
fn guess_text(path: &Path, head: &[u8], not_text: &str) -> Result<(), DatasetError> {
    let found = if head.iter().any(|&byte| is_control(byte)) {
        not_text.to_owned()
    } else if let Some(other) = other_text(path, head) {
        format!("it looks like {other}, which is no plain list of edges")
    } else {
        return Ok(());
    };
    Err(DatasetError::UnknownFormat { path: path.to_path_buf(), found })
}

/// Text formats whose first line of numbers is no edge, but would pass for one.
fn other_text(path: &Path, head: &[u8]) -> Option<&'static str> {
    let start = head.trim_ascii_start().to_ascii_lowercase();
    if start.starts_with(b"%%matrixmarket") || start.starts_with(b"%matrixmarket") {
        return Some("a Matrix Market file");
    }
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    match Path::new(name).extension()?.to_str()? {
        "mtx" => Some("a Matrix Market file (.mtx)"),
        "graph" | "metis" => Some("a METIS file (.graph, .metis)"),
        _ => None,
    }
}

/// Whether bytes are text and nothing but text, perhaps cut inside a character. No bytes are no text.
fn is_text(bytes: &[u8]) -> bool {
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && bytes.len() == HEAD,
    };
    valid && !bytes.is_empty() && !bytes.iter().any(|&byte| is_control(byte))
}

/// Bytes that no text has.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, head: &[u8]) -> Result<Layout, String> {
        guess(Path::new(name), head).map_err(|error| error.to_string())
    }

    const BINARY: Layout = Layout::Pairs { weight: false, text: false };

    #[test]
    fn auto_goes_by_content_before_name() {
        assert_eq!(of("e.txt", b"1 2\n"), Ok(Layout::Text));
        assert_eq!(of("e.bin", b"1 2\n3 4\n"), Ok(Layout::Text));
        assert_eq!(of("e.txt", b""), Ok(Layout::Text));
        assert_eq!(of("e", b"# caf\xe9 in Latin-1\n1 2\n"), Ok(Layout::Text));
        assert_eq!(of("e.bin", b""), Ok(BINARY));
        assert_eq!(of("e.bin", &[0; 16]), Ok(BINARY));
        assert_eq!(of("e.bin", &[0xff; 8]), Ok(BINARY));
        assert_eq!(of("e.wbin", &[0; 12]), Ok(Layout::Pairs { weight: true, text: false }));
    }

    #[test]
    fn auto_takes_the_gzip_magic_of_a_bin_file_for_an_id_unless_it_unpacks() {
        let id = [&MAGIC[..], &[0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff]].concat();
        assert_eq!(of("e.bin", &id), Ok(BINARY));
        assert_eq!(of("e.txt", &id), Ok(Layout::GzipText));
    }

    #[test]
    fn auto_asks_where_a_guess_could_be_wrong() {
        insta::assert_snapshot!(of("e.dat", &[0; 16]).unwrap_err(), @r#"the format of e.dat is unclear: the bytes are no text, and the name does not end in .bin or .wbin; set format = "snap" (text), "gridgraph" (u32 pairs) or "gridgraph-weighted" (u32 pairs with an f32 weight)"#);
        insta::assert_snapshot!(of("e.txt", b"%%MatrixMarket matrix\n2 2 1\n1 2 1\n").unwrap_err(), @r#"the format of e.txt is unclear: it looks like a Matrix Market file, which is no plain list of edges; set format = "snap" (text), "gridgraph" (u32 pairs) or "gridgraph-weighted" (u32 pairs with an f32 weight)"#);
        insta::assert_snapshot!(of("e.graph.gz", &gzip(b"2 1\n2\n1\n")).unwrap_err(), @r#"the format of e.graph.gz is unclear: it looks like a METIS file (.graph, .metis), which is no plain list of edges; set format = "snap" (text), "gridgraph" (u32 pairs) or "gridgraph-weighted" (u32 pairs with an f32 weight)"#);
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }
}
