//! GridGraph's binary edge list: records of source and target as little-endian u32, 8 bytes, or 12 with an f32
//! weight (`preprocess` of <https://github.com/thu-pacman/GridGraph> reads the same). The vertices are 0 up to
//! the largest id, or 0..N where the data set says `vertices = N`. Nothing in such a file says what it is, so the
//! reader refuses what it can tell to be something else. Pieces are read with `pread` and not mapped: a file that
//! shrinks meanwhile is an error here and a crash there.

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::file::SourceFile;
use super::workers::{BATCH_EDGES, Batch, Fault, read_pieces};
use super::{Context, DatasetError, Edge, EdgeSource, Sink, Summary, VertexSet};
use crate::progress::Unit;

/// Records of a piece: 256 or 384 KiB, enough for full bandwidth, and still in the cache when they are looked at.
const PIECE: u64 = 32 << 10;

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

    /// Reads records into a buffer, which holds nothing else then.
    fn fill(&self, file: &File, records: Range<u64>, buffer: &mut Vec<u8>) -> Result<(), DatasetError> {
        let size = self.record.bytes();
        buffer.resize(((records.end - records.start) * size) as usize, 0);
        self.file.read_at(file, buffer, records.start * size)
    }

    /// Calls `take` for all pieces, on all threads.
    fn on_pieces(
        &self,
        context: Context<'_>,
        sink: &Sink<'_>,
        take: impl Fn(&File, Range<u64>, &mut Vec<u8>, &mut Batch<'_>) -> Result<(), DatasetError> + Sync,
    ) -> Result<u64, DatasetError> {
        let records = self.file.len() / self.record.bytes();
        let next = AtomicU64::new(0);
        self.file.read_unchanged(|file| {
            read_pieces(context, sink, Vec::new, |buffer, batch| {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                let start = piece.saturating_mul(PIECE).min(records);
                let end = (start + PIECE).min(records);
                if start == end {
                    return Ok(false);
                }
                let result = take(&file, start..end, buffer, batch);
                context.progress.advance((end - start) * self.record.bytes());
                result.map(|()| true).map_err(|error| Fault { piece, error })
            })
        })
    }

    fn read_piece(
        &self,
        file: &File,
        records: Range<u64>,
        buffer: &mut Vec<u8>,
        batch: &mut Batch<'_>,
    ) -> Result<(), DatasetError> {
        let size = self.record.bytes();
        self.fill(file, records.clone(), buffer)?;
        // What is wrong is looked for only where the largest id or a weight says so: loops without branches.
        let limit = self.vertices.unwrap_or(u64::MAX);
        let beyond = largest_id(self.record, buffer).is_some_and(|largest| u64::from(largest) >= limit);
        let edges = || buffer.chunks_exact(size as usize).map(|bytes| self.decode(bytes));
        if beyond || self.record.weighted() && !edges().all(|edge| edge.weight.is_finite()) {
            let wrong =
                |edge: &Edge| edge.source >= limit || edge.target >= limit || !edge.weight.is_finite();
            if let Some((index, edge)) = (records.start..).zip(edges()).find(|(_, edge)| wrong(edge)) {
                return Err(self.refuse(index, edge, limit));
            }
        }
        if self.record.has_weight {
            return buffer.chunks(BATCH_EDGES * size as usize).try_for_each(|bytes| {
                batch.append(bytes.chunks_exact(size as usize).map(|bytes| self.decode(bytes)))
            });
        }
        let pair = |bytes: &[u8; 8]| {
            let ids = u64::from_le_bytes(*bytes);
            Edge { source: ids & u64::from(u32::MAX), target: ids >> u32::BITS, weight: 1.0 }
        };
        buffer.as_chunks().0.chunks(BATCH_EDGES).try_for_each(|pairs| batch.append(pairs.iter().map(pair)))
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

/// Largest id of some records.
fn largest_id(record: Record, bytes: &[u8]) -> Option<u32> {
    let words = bytes.as_chunks::<4>().0;
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    // By `fold`, which becomes a loop on vectors where `Iterator::max` does not.
    let largest = if record.has_weight {
        let records = words.as_chunks::<3>().0;
        records.iter().fold(0, |largest, [source, target, _]| word(source).max(word(target)).max(largest))
    } else {
        words.iter().fold(0, |largest, bytes| word(bytes).max(largest))
    };
    (!words.is_empty()).then_some(largest)
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
        let edges = self.on_pieces(context, sink, |file, records, buffer, batch| {
            self.read_piece(file, records, buffer, batch)
        })?;
        Ok(Summary { edges, weighted: self.record.weighted() })
    }
    fn largest_id(&self, context: Context<'_>) -> Result<Option<u64>, DatasetError> {
        let largest = AtomicU64::new(0);
        self.on_pieces(context, &|_, _| Ok(()), |file, records, buffer, _| {
            self.fill(file, records, buffer)?;
            let here = largest_id(self.record, buffer).map_or(0, u64::from);
            largest.fetch_max(here, Ordering::Relaxed);
            Ok(())
        })?;
        Ok((self.file.len() > 0).then_some(largest.into_inner()))
    }
}
