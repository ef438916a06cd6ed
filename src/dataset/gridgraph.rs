//! GridGraph's binary edge list: records of source and target as little-endian u32, 8 bytes, or 12 with an f32
//! weight (`preprocess` of <https://github.com/thu-pacman/GridGraph> reads the same). The vertices are 0 up to
//! the largest id, or 0..N where the data set says `vertices = N`. Nothing in such a file says what it is, so the
//! reader refuses what it can tell to be something else. Pieces are read with `pread` and not mapped: a file that
//! shrinks meanwhile is an error here and a crash there.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use super::file::SourceFile;
use super::workers::{Batch, Fault, read_pieces};
use super::{Context, DatasetError, Edge, EdgeSource, Sink, Summary, VertexSet};
use crate::progress::Unit;

/// Records of a piece: 512 or 768 KiB, enough for full bandwidth.
const PIECE: u64 = 64 << 10;

/// Edges of a binary edge list.
#[derive(Debug)]
pub(super) struct GridGraphSource {
    file: SourceFile,
    vertices: Option<u64>,
    record: Record,
}

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// Whether there is a weight, 12 bytes in all, and not 8.
    pub(super) has_weight: bool,
    /// Whether the weight, if there, is read.
    pub(super) use_weight: bool,
}

impl Record {
    fn bytes(self) -> u64 {
        if self.has_weight { 12 } else { 8 }
    }

    fn weighted(self) -> bool {
        self.has_weight && self.use_weight
    }

    fn format(self) -> &'static str {
        if self.has_weight { "gridgraph-weighted" } else { "gridgraph" }
    }
}

impl GridGraphSource {
    /// Records in `file`; an error where its size does not fit.
    pub(super) fn new(
        file: SourceFile,
        vertices: Option<u64>,
        record: Record,
        looks_like_text: bool,
    ) -> Result<Self, DatasetError> {
        let (path, size) = (file.path().to_path_buf(), file.len());
        if size % record.bytes() != 0 {
            let remedy = if looks_like_text {
                "the bytes are all printable text: use format = \"snap\""
            } else {
                "correct `format`, or fetch the file again if it was cut short"
            };
            let (record, format) = (record.bytes(), record.format());
            return Err(DatasetError::RecordSize { path, size, record, format, remedy });
        }
        if looks_like_text {
            let (found, remedy) = ("the bytes are all printable text", "use format = \"snap\"");
            return Err(DatasetError::NotBinary { path, found, remedy });
        }
        Ok(Self { file, vertices, record })
    }

    fn read_piece(
        &self,
        file: &File,
        records: std::ops::Range<u64>,
        buffer: &mut Vec<u8>,
        batch: &mut Batch<'_>,
    ) -> Result<(), DatasetError> {
        let size = self.record.bytes();
        buffer.resize(((records.end - records.start) * size) as usize, 0);
        self.file.read_at(file, buffer, records.start * size)?;
        let limit = self.vertices.unwrap_or(u64::MAX);
        for (index, bytes) in (records.start..).zip(buffer.chunks_exact(size as usize)) {
            let edge = self.decode(bytes);
            if edge.source >= limit || edge.target >= limit || !edge.weight.is_finite() {
                return Err(self.refuse(index, edge, limit));
            }
            batch.push(edge)?;
        }
        Ok(())
    }

    #[inline]
    fn decode(&self, bytes: &[u8]) -> Edge {
        let word = |at: usize| bytes[at..at + 4].try_into().unwrap_or_default();
        Edge {
            source: u64::from(u32::from_le_bytes(word(0))),
            target: u64::from(u32::from_le_bytes(word(4))),
            weight: if self.record.weighted() { f64::from(f32::from_le_bytes(word(8))) } else { 1.0 },
        }
    }

    #[cold]
    fn refuse(&self, index: u64, edge: Edge, limit: u64) -> DatasetError {
        let path = self.file.path().to_path_buf();
        let offset = index * self.record.bytes();
        if edge.source >= limit || edge.target >= limit {
            let vertex = if edge.source >= limit { edge.source } else { edge.target };
            DatasetError::RecordVertex { path, edge: index, offset, vertex, vertices: limit }
        } else {
            // Exact: it came from an f32.
            DatasetError::RecordWeight { path, edge: index, offset, weight: edge.weight as f32 }
        }
    }
}

impl EdgeSource for GridGraphSource {
    fn describe(&self) -> String {
        self.file.path().display().to_string()
    }

    fn vertices(&self) -> VertexSet {
        self.vertices.map_or(VertexSet::Range, VertexSet::Given)
    }

    fn size(&self) -> (Option<u64>, Unit) {
        (Some(self.file.len()), Unit::Bytes)
    }

    fn read(&self, context: Context<'_>, sink: &Sink<'_>) -> Result<Summary, DatasetError> {
        let records = self.file.len() / self.record.bytes();
        let next = AtomicU64::new(0);
        let edges = self.file.read_unchanged(|file| {
            read_pieces(context, sink, Vec::new, |buffer, batch| {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                let start = piece.saturating_mul(PIECE).min(records);
                let end = (start + PIECE).min(records);
                if start == end {
                    return Ok(false);
                }
                let result = self.read_piece(&file, start..end, buffer, batch);
                context.progress.advance((end - start) * self.record.bytes());
                result.map(|()| true).map_err(|error| Fault { piece, error })
            })
        })?;
        Ok(Summary { edges, weighted: self.record.weighted() })
    }
}
