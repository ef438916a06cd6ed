//! How large a data set's graph is, as far as its entry and a glance at its file tell: for `ioc check`, which reads
//! nothing.

use std::path::Path;

use memchr::{memchr, memrchr};

use super::DatasetError;
use super::file::SourceFile;
use super::format::{Layout, layout};
use super::line::third_column;
use crate::job::spec::{DatasetSpec, FormatSpec, SourceSpec, WeightsSpec};

/// What is known of a graph before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Arcs. Of a text estimated from samples.
    pub edges: u64,
    /// Bytes of a weight as the grid stores it, at most: an f32 where every weight of a text is one.
    pub weight_bytes: u64,
    /// Vertices, where the entry or the generator says.
    pub vertices: Option<u64>,
}

/// Places of a text that are looked at, and bytes at each: ids have more digits in some than in others.
const SAMPLES: u64 = 8;
const SAMPLE: usize = 64 << 10;

/// What is known of a graph before it is read; nothing of a packed text.
///
/// # Errors
/// Those of [`super::open`].
pub fn estimate(spec: &DatasetSpec) -> Result<Option<Estimate>, DatasetError> {
    let (found, vertices) = match &spec.source {
        SourceSpec::Kronecker(kronecker) => {
            let vertices = 1 << kronecker.scale;
            let edges = kronecker.edge_factor.saturating_mul(vertices);
            (Some((edges, if kronecker.weights { 4 } else { 0 })), Some(vertices))
        }
        SourceSpec::File { path, format, .. } => (of_file(path, *format, spec.skip_lines)?, None),
    };
    let Some((edges, weight_bytes)) = found else { return Ok(None) };
    let drawn = edges.saturating_mul(if spec.directed { 1 } else { 2 });
    Ok(Some(Estimate {
        edges: spec.edges.unwrap_or(drawn),
        weight_bytes: if spec.weights == WeightsSpec::Auto { weight_bytes } else { 0 },
        vertices: spec.vertices.or(vertices),
    }))
}

/// Edges of a file, and bytes of a weight.
fn of_file(path: &Path, format: FormatSpec, skip_lines: u64) -> Result<Option<(u64, u64)>, DatasetError> {
    let file = SourceFile::open(path)?;
    Ok(match layout(&file, format)? {
        Layout::Pairs { weight: false, .. } => Some((file.len() / 8, 0)),
        Layout::Pairs { weight: true, .. } => Some((file.len() / 12, 4)),
        Layout::Text => Some(of_text(&file, skip_lines)?),
        Layout::GzipText => None,
    })
}

fn of_text(file: &SourceFile, skip_lines: u64) -> Result<(u64, u64), DatasetError> {
    let open = file.reopen()?;
    let size = usize::try_from(file.len()).unwrap_or(usize::MAX).min(SAMPLE);
    let last = file.len() - size as u64;
    let (mut bytes, mut edges, mut weighted) = (0, 0, false);
    let mut buffer = vec![0; size];
    for sample in 0..if last == 0 { 1 } else { SAMPLES } {
        let offset = last / (SAMPLES - 1) * sample;
        file.read_at(&open, &mut buffer, offset)?;
        let lines = whole_lines(&buffer, offset == 0, last == 0);
        bytes += lines.len() as u64;
        let thirds = lines.split(|&byte| byte == b'\n').filter_map(third_column);
        edges += thirds.inspect(|&third| weighted |= third).count() as u64;
    }
    let all = u128::from(file.len()) * u128::from(edges) / u128::from(bytes.max(1));
    Ok(((all as u64).saturating_sub(skip_lines), if weighted { 8 } else { 0 }))
}

/// A sample without the lines that it cuts.
fn whole_lines(sample: &[u8], from_start: bool, to_end: bool) -> &[u8] {
    let start = if from_start { 0 } else { memchr(b'\n', sample).map_or(sample.len(), |at| at + 1) };
    let end = if to_end { sample.len() } else { memrchr(b'\n', sample).map_or(start, |at| at + 1) };
    &sample[start..end.max(start)]
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn spec(name: &str, content: &[u8]) -> (tempfile::TempDir, DatasetSpec) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let source = SourceSpec::File { path, format: FormatSpec::Auto, sha256: None };
        let spec = DatasetSpec {
            name: "x".into(),
            source,
            vertices: None,
            edges: None,
            directed: true,
            weights: WeightsSpec::Auto,
            skip_lines: 0,
        };
        (folder, spec)
    }

    #[test]
    fn a_text_is_estimated_to_a_few_percent_though_its_ids_grow() {
        let mut text = "# a comment\n".repeat(2000);
        let count = 400_000_u64;
        for edge in 0..count {
            let _ = writeln!(text, "{} {}", edge * edge / 7000, edge % 977);
        }
        let (_folder, spec) = spec("e.txt", text.as_bytes());
        let found = estimate(&spec).unwrap().unwrap();
        assert!(found.edges.abs_diff(count) < count / 20, "{found:?}");
        assert_eq!((found.weight_bytes, found.vertices), (0, None));
    }

    #[test]
    fn what_is_known_exactly_is_exact() {
        let sizes = |name: &str, content: &[u8]| {
            let (_folder, spec) = spec(name, content);
            estimate(&spec).unwrap().map(|found| (found.edges, found.weight_bytes))
        };
        assert_eq!(sizes("e.txt", b"1 2\n\n# x\n2 3\n3 4"), Some((3, 0)));
        assert_eq!(sizes("e.txt", b"1 2 0.5\n2 3 1\n"), Some((2, 8)));
        assert_eq!(sizes("e.txt", b""), Some((0, 0)));
        assert_eq!(sizes("e.bin", &[0xff; 80]), Some((10, 0)));
        assert_eq!(sizes("e.wbin", &[0xff; 120]), Some((10, 4)));
        let (_folder, mut spec) = spec("e.bin", &[0xff; 80]);
        (spec.directed, spec.vertices) = (false, Some(7));
        assert_eq!(
            estimate(&spec).unwrap(),
            Some(Estimate { edges: 20, weight_bytes: 0, vertices: Some(7) })
        );
    }
}
