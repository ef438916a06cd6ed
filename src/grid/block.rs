//! A run of chunks in memory, as a request reads it: checks each chunk against what must lie there, and hands out
//! its edges in place. After the checks a kernel may index by any source and destination without fear.

use std::ops::Range;

use crate::storage::stripe::Stripes;

use super::chunk::{CHUNK, ChunkHeader, HEADER, MAGIC, PAYLOAD, RawEdge, RawEdgeF32, RawEdgeF64};
use super::compact::Cells;
use super::digest::digest;
use super::kept::{Checked, KeptBlock};
use super::manifest::{Column, Encoding, Manifest, WeightKind};
use super::renumbering::Renumbering;

/// What must lie at a place of a device's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expectation {
    grid_id: u64,
    encoding: Encoding,
    weights: WeightKind,
    vertices: u64,
    stripes: Stripes,
    column: u32,
    first_vertex: u64,
    width: u64,
    device: usize,
    offset: u64,
}

impl Expectation {
    /// What lies at byte `offset` (a multiple of the chunk) of `device`, within the extent of `column` there.
    ///
    /// # Panics
    /// Where there is no such column.
    pub fn new(manifest: &Manifest, column: u32, device: usize, offset: u64) -> Self {
        let Column { first_vertex, end_vertex, .. } = manifest.columns[column as usize];
        Self {
            grid_id: manifest.grid_id,
            encoding: manifest.encoding,
            weights: manifest.weights,
            vertices: manifest.vertices,
            stripes: manifest.stripes(),
            column,
            first_vertex,
            width: end_vertex - first_vertex,
            device,
            offset,
        }
    }

    /// The same column and device, `bytes` further on.
    fn skip(&self, bytes: usize) -> Self {
        Self { offset: self.offset + bytes as u64, ..*self }
    }

    /// Number of the chunk at the offset.
    fn sequence(&self) -> u64 {
        self.stripes.position(self.device, self.offset) / CHUNK as u64
    }

    /// The chunk in `bytes`, if it is the one that must lie here.
    pub(super) fn check<'a>(&self, bytes: &'a [u8]) -> Result<Chunk<'a>, ChunkError> {
        self.chunk(bytes, Trust::Nothing)
    }

    fn chunk<'a>(&self, bytes: &'a [u8], trust: Trust) -> Result<Chunk<'a>, ChunkError> {
        chunk(bytes, self, trust).map_err(|fault| self.error(fault))
    }

    fn error(&self, fault: ChunkFault) -> ChunkError {
        let (device, offset, column) = (self.device, self.offset, self.column);
        ChunkError { sequence: self.sequence(), column, device, offset, fault }
    }
}

/// A chunk that is not what must lie at its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "chunk {sequence} (column {column}) at byte {offset} of device {device} is damaged: {fault}; check the \
     device, then remove the grid with `ioc dataset rm` and it will be imported again"
)]
pub struct ChunkError {
    /// Number of the chunk that must lie there.
    pub sequence: u64,
    /// Its column.
    pub column: u32,
    /// The device.
    pub device: usize,
    /// Byte offset in the device's file.
    pub offset: u64,
    /// What is wrong.
    pub fault: ChunkFault,
}

/// What is wrong with a chunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkFault {
    /// A block that ends within a chunk.
    #[error("it is cut off after {found} of {CHUNK} bytes")]
    Cut {
        /// Bytes there are.
        found: usize,
    },
    /// Memory that edges cannot be read from in place.
    #[error("its memory is not aligned to 8 bytes, which is a fault of the program")]
    Alignment,
    /// No chunk, or that of another build.
    #[error("its {field} is {found:#x}, expected {expected:#x}")]
    Field {
        /// Field of the header.
        field: &'static str,
        /// What is there.
        found: u64,
        /// What must be there.
        expected: u64,
    },
    /// Raw edges in a number of bytes that contradicts theirs.
    #[error("it claims {edges} edges in {payload} bytes, where an edge takes {edge_bytes}")]
    Payload {
        /// Edges of the header.
        edges: u32,
        /// Bytes of the header.
        payload: u32,
        /// Bytes of an edge.
        edge_bytes: usize,
    },
    /// A payload that no chunk can hold.
    #[error("it claims a payload of {payload} bytes, where a chunk holds at most {PAYLOAD}")]
    Oversized {
        /// Bytes of the header.
        payload: u32,
    },
    /// A compact code that contradicts itself.
    #[error("its code is broken: {what}")]
    Cell {
        /// What is wrong.
        what: &'static str,
    },
    /// A source beyond the last vertex.
    #[error("it has a source {found}, where there are {vertices} vertices")]
    Source {
        /// Largest source.
        found: u64,
        /// Vertices of the graph.
        vertices: u64,
    },
    /// A destination beyond the column.
    #[error("it has a destination {found}, where the column has {width} vertices")]
    Destination {
        /// Largest destination, relative to the column.
        found: u64,
        /// Vertices of the column.
        width: u64,
    },
    /// Something behind the payload.
    #[error("byte {at} behind its payload is not zero")]
    Padding {
        /// Position in the padding.
        at: usize,
    },
}

/// The edges of a chunk, in place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Edges<'a> {
    /// Encoding `raw`.
    Raw(RawEdges<'a>),
    /// Encoding `compact`.
    Compact(Cells<'a>),
}

/// Raw edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RawEdges<'a> {
    /// Every weight is 1.
    Unit(&'a [RawEdge]),
    /// f32 weights.
    F32(&'a [RawEdgeF32]),
    /// f64 weights.
    F64(&'a [RawEdgeF64]),
}

impl RawEdges<'_> {
    /// From the smallest source to behind the largest.
    pub fn sources(self) -> Range<usize> {
        fn over(sources: impl Iterator<Item = u32>) -> Range<usize> {
            let (least, end) =
                sources.fold((u32::MAX, 0), |(least, end), s| (least.min(s), end.max(u64::from(s) + 1)));
            if end == 0 { 0..0 } else { least as usize..end as usize }
        }
        match self {
            Self::Unit(edges) => over(edges.iter().map(|edge| edge.source)),
            Self::F32(edges) => over(edges.iter().map(|edge| edge.source)),
            Self::F64(edges) => over(edges.iter().map(|edge| edge.source)),
        }
    }

    /// Largest source and largest destination, as stored; zeros where there are none.
    fn maxima(self) -> (u32, u32) {
        fn over(ids: impl Iterator<Item = (u32, u32)>) -> (u32, u32) {
            ids.fold((0, 0), |(source, destination), (s, d)| (source.max(s), destination.max(d)))
        }
        match self {
            Self::Unit(edges) => over(edges.iter().map(|edge| (edge.source, edge.destination))),
            Self::F32(edges) => over(edges.iter().map(|edge| (edge.source, edge.destination))),
            Self::F64(edges) => over(edges.iter().map(|edge| (edge.source, edge.destination))),
        }
    }
}

/// A checked chunk: every source (with the base) is below the number of vertices, every destination below the
/// column's width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Chunk<'a> {
    /// The header.
    pub header: ChunkHeader,
    /// Added to every source of raw edges.
    pub source_base: u64,
    /// Added to every destination: the column's first vertex.
    pub first_vertex: u64,
    /// The edges.
    pub edges: Edges<'a>,
}

impl Chunk<'_> {
    /// Calls `visit(source, destination, weight)` for every edge, with positions. For verifiers and exports: a kernel
    /// matches [`Self::edges`] once and loops over the slice.
    pub fn for_each(&self, mut visit: impl FnMut(u64, u64, f64)) {
        let source = |stored: u32| self.source_base + u64::from(stored);
        let target = |stored: u32| self.first_vertex + u64::from(stored);
        match self.edges {
            Edges::Raw(RawEdges::Unit(edges)) => {
                for edge in edges {
                    visit(source(edge.source), target(edge.destination), 1.0);
                }
            }
            Edges::Raw(RawEdges::F32(edges)) => {
                for edge in edges {
                    visit(source(edge.source), target(edge.destination), f64::from(edge.weight));
                }
            }
            Edges::Raw(RawEdges::F64(edges)) => {
                for edge in edges {
                    visit(source(edge.source), target(edge.destination), edge.weight);
                }
            }
            Edges::Compact(cells) => {
                let first_vertex = self.first_vertex;
                for cell in cells.iter() {
                    cell.for_each(|source, target, weight| visit(source, first_vertex + target, weight));
                }
            }
        }
    }

    /// The digest recomputed from the edges: what the header's `digest` must be.
    pub fn digest(&self, renumbering: &Renumbering) -> u64 {
        let mut sum = 0_u64;
        self.for_each(|source, target, weight| {
            let (source, target) = (renumbering.dense(source), renumbering.dense(target));
            sum = sum.wrapping_add(digest(source, target, weight.to_bits()));
        });
        sum
    }
}

/// Chunks of one column that follow each other in one device's file. Iterates over `Result<Chunk, ChunkError>`;
/// after an error it ends.
#[derive(Debug, Clone)]
pub struct BlockView<'a> {
    rest: &'a [u8],
    expect: Expectation,
    trust: Trust,
    /// Where to note that all chunks were found good, and as what.
    note: Option<(&'a Checked, (Expectation, usize))>,
}

/// What of a chunk need not be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Nothing,
    /// Anything: these very bytes were checked before, against the same expectation.
    All,
}

impl<'a> BlockView<'a> {
    /// A view of `bytes`, aligned to 8 bytes, which were read from the place that `expect` names.
    pub fn new(bytes: &'a [u8], expect: Expectation) -> Self {
        Self { rest: bytes, expect, trust: Trust::Nothing, note: None }
    }

    /// The same of the first `len` bytes of a block that never changes, with what is known of them.
    pub(super) fn of_kept(block: &'a KeptBlock, len: usize, expect: Expectation) -> Self {
        let view = Self::new(&block.bytes()[..len], expect);
        let (checked, all) = (block.checked(), (expect, len));
        if checked.get() == Some(&all) {
            return Self { trust: Trust::All, ..view };
        }
        Self { note: Some((checked, all)), ..view }
    }
}

impl<'a> Iterator for BlockView<'a> {
    type Item = Result<Chunk<'a>, ChunkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (bytes, rest) = self.rest.split_at(CHUNK.min(self.rest.len()));
        let chunk = self.expect.chunk(bytes, self.trust);
        self.rest = if chunk.is_ok() { rest } else { &[] };
        self.expect = self.expect.skip(CHUNK);
        if let Some((checked, all)) = self.note.filter(|_| chunk.is_ok() && rest.is_empty()) {
            // Somebody else may have noted the same.
            let _ = checked.set(all);
        }
        Some(chunk)
    }
}

fn chunk<'a>(bytes: &'a [u8], expect: &Expectation, trust: Trust) -> Result<Chunk<'a>, ChunkFault> {
    if bytes.len() != CHUNK {
        return Err(ChunkFault::Cut { found: bytes.len() });
    }
    let (head, body) = bytes.split_at(HEADER);
    let header: ChunkHeader = bytemuck::pod_read_unaligned(head);
    let payload = header.payload;
    let body = body.get(..payload as usize).ok_or(ChunkFault::Oversized { payload })?;
    let Expectation { weights, vertices, width, first_vertex, .. } = *expect;
    if trust == Trust::Nothing {
        check_fields(&header, expect)?;
        equal("checksum", header.checksum, header.checksum_over(body))?;
    }
    let edges = match (expect.encoding, trust) {
        (Encoding::Raw, _) => Edges::Raw(raw_edges(&header, body, expect, trust)?),
        (Encoding::Compact, Trust::Nothing) => {
            Edges::Compact(Cells::check(body, weights, header.edges, vertices, width)?)
        }
        (Encoding::Compact, Trust::All) => {
            // SAFETY: only `BlockView::of_kept` trusts, and only a block of which `Checked` says that each chunk in its
            // bytes passed the checks of this function against the same expectation, weights and vertices among it;
            // it owns these bytes, and lets nobody write to them.
            Edges::Compact(unsafe { Cells::checked_before(body, weights, vertices) })
        }
    };
    Ok(Chunk { header, source_base: header.source_base, first_vertex, edges })
}

fn raw_edges<'a>(
    header: &ChunkHeader,
    body: &'a [u8],
    expect: &Expectation,
    trust: Trust,
) -> Result<RawEdges<'a>, ChunkFault> {
    let edge_bytes = expect.weights.edge_bytes();
    let (edges, payload) = (header.edges, header.payload);
    if u64::from(edges) * edge_bytes as u64 != u64::from(payload) {
        return Err(ChunkFault::Payload { edges, payload, edge_bytes });
    }
    let edges = match expect.weights {
        WeightKind::Unit => bytemuck::try_cast_slice(body).map(RawEdges::Unit),
        WeightKind::F32 => bytemuck::try_cast_slice(body).map(RawEdges::F32),
        WeightKind::F64 => bytemuck::try_cast_slice(body).map(RawEdges::F64),
    }
    .map_err(|_| ChunkFault::Alignment)?;
    if trust == Trust::Nothing {
        check_ids(header, edges, expect)?;
    }
    Ok(edges)
}

fn check_fields(header: &ChunkHeader, expect: &Expectation) -> Result<(), ChunkFault> {
    equal("magic number", header.magic.into(), MAGIC.into())?;
    equal("grid id", header.grid_id, expect.grid_id)?;
    equal("number", header.sequence, expect.sequence())?;
    equal("column", header.column.into(), expect.column.into())?;
    equal("encoding", header.encoding.into(), expect.encoding as u64)?;
    equal("weight size", header.weight_bytes.into(), expect.weights.bytes() as u64)?;
    // Both encodings of this version name sources without it: raw edges by 32 bits, compact cells with their own.
    equal("source base", header.source_base, 0)?;
    equal("reserved field", header.reserved.into(), 0)
}

fn equal(field: &'static str, found: u64, expected: u64) -> Result<(), ChunkFault> {
    if found == expected { Ok(()) } else { Err(ChunkFault::Field { field, found, expected }) }
}

/// A chunk with a right checksum was written by `ioc` as it is; still, a kernel indexes by these ids, and a
/// manifest may be paired with the wrong chunk by a fault of the program. One pass in the cache is cheap.
fn check_ids(header: &ChunkHeader, edges: RawEdges<'_>, expect: &Expectation) -> Result<(), ChunkFault> {
    if header.edges == 0 {
        return Ok(());
    }
    let (source, destination) = edges.maxima();
    let source = header.source_base.saturating_add(u64::from(source));
    if source >= expect.vertices {
        return Err(ChunkFault::Source { found: source, vertices: expect.vertices });
    }
    if u64::from(destination) >= expect.width {
        return Err(ChunkFault::Destination { found: destination.into(), width: expect.width });
    }
    Ok(())
}

/// Whether a chunk's bytes behind the payload, which no checksum covers, are zero as they were written.
pub(super) fn check_padding(
    bytes: &[u8],
    header: &ChunkHeader,
    expect: &Expectation,
) -> Result<(), ChunkError> {
    let padding = &bytes[HEADER + header.payload as usize..];
    match padding.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(at) => Err(expect.error(ChunkFault::Padding { at })),
    }
}

/// Recomputes the digest, which readers trust because the checksum covers it.
pub(super) fn check_digest(
    chunk: &Chunk<'_>,
    expect: &Expectation,
    renumbering: &Renumbering,
) -> Result<(), ChunkError> {
    equal("digest", chunk.header.digest, chunk.digest(renumbering)).map_err(|fault| expect.error(fault))
}
