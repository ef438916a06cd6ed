//! Chunks on their way to the devices: raw chunks, whose places are known beforehand, are gathered for large writes;
//! compact chunks are packed into memory, and written when the segment's turn has come.

use std::convert::Infallible;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, fadvise};

use crate::grid::chunk::{CHUNK, ChunkHeader, HEADER, MAGIC, PAYLOAD, RawEdge, RawEdgeF32, RawEdgeF64};
use crate::grid::contents::{Contents, ENTRY};
use crate::grid::error::GridError;
use crate::grid::manifest::WeightKind;
use crate::storage::buffer::AlignedBuffer;

use super::account::Account;
use super::cell::{CellWriter, Cutter};
use super::encode::Encoder;
use super::plan::RUN;
use super::rows::Rows;
use super::sort::Record;

impl Encoder<'_> {
    /// Fills in the header of a chunk whose payload is there, and zeros behind it; all but what depends on the
    /// chunk's place.
    fn begin(&self, chunk: &mut [u8], column: u32, edges: u32, digest: u64, payload: usize) {
        let (head, body) = chunk.split_at_mut(HEADER);
        body[payload..].fill(0);
        let header = ChunkHeader {
            magic: MAGIC,
            encoding: self.encoding as u16,
            weight_bytes: self.weights.bytes() as u16,
            grid_id: self.grid_id,
            sequence: 0,
            // With at most 2^32 vertices no source needs a base.
            source_base: 0,
            column,
            edges,
            digest,
            payload: payload as u32,
            reserved: 0,
            checksum: 0,
        };
        head.copy_from_slice(bytemuck::bytes_of(&header));
    }

    /// Writes whole chunks, of which the first has the number `first_chunk`, stripe by stripe, and what they hold.
    fn write(&self, first_chunk: u64, chunks: &mut [u8], contents: &[Contents]) -> Result<(), GridError> {
        let entries: Vec<u8> = contents.iter().flat_map(|contents| contents.to_bytes()).collect();
        let (file, path) = &self.contents;
        let place = first_chunk * ENTRY as u64;
        file.write_all_at(&entries, place).map_err(GridError::io("writing", path))?;
        for (chunk, sequence) in chunks.chunks_exact_mut(CHUNK).zip(first_chunk..) {
            seal(chunk, sequence);
        }
        let mut position = first_chunk * CHUNK as u64;
        let mut bytes = &*chunks;
        while !bytes.is_empty() {
            let (device, offset) = self.stripes.locate(position);
            let len = bytes.len().min(self.stripes.rest_of_stripe(position) as usize);
            let (now, later) = bytes.split_at(len);
            let (file, path) = &self.parts[device];
            file.write_all_at(now, offset).map_err(GridError::io("writing", path))?;
            // Nobody reads it from the page cache; and to ask for that begins writing it back, so that the devices work
            // meanwhile, and not only in the end, when all is synced.
            let _ = fadvise(file, offset, NonZeroU64::new(len as u64), Advice::DontNeed);
            (position, bytes) = (position + len as u64, later);
        }
        Ok(())
    }
}

/// Completes a chunk's header.
fn seal(chunk: &mut [u8], sequence: u64) {
    let (head, body) = chunk.split_at_mut(HEADER);
    let header = ChunkHeader { sequence, ..bytemuck::pod_read_unaligned(head) };
    let checksum = header.checksum_over(&body[..header.payload as usize]);
    head.copy_from_slice(bytemuck::bytes_of(&ChunkHeader { checksum, ..header }));
}

/// Finished chunks that follow each other, gathered for large writes.
pub(super) struct Run<'a> {
    encoder: &'a Encoder<'a>,
    buffer: AlignedBuffer,
    /// Bytes gathered.
    len: usize,
    /// Number of the first chunk in the buffer.
    first_chunk: u64,
    contents: Vec<Contents>,
}

/// What edges come to.
fn contents_of<R: Record>(edges: &[R]) -> Contents {
    let sources = edges.iter().map(Record::source);
    let (first, last) = sources.fold((u32::MAX, 0), |(first, last), s| (first.min(s), last.max(s)));
    Contents { first_source: first, last_source: last, edges: edges.len() as u64 }
}

impl<'a> Run<'a> {
    pub(super) fn new(encoder: &'a Encoder<'a>) -> Self {
        let contents = Vec::with_capacity(RUN / CHUNK);
        Self { encoder, buffer: AlignedBuffer::new(RUN), len: 0, first_chunk: 0, contents }
    }

    /// Goes on at another chunk; what was gathered is written already, or dropped with the import.
    pub(super) fn start(&mut self, first_chunk: u64) {
        (self.first_chunk, self.len) = (first_chunk, 0);
        self.contents.clear();
    }

    pub(super) fn push<R: Record>(&mut self, column: u32, edges: &[R], digest: u64) -> Result<(), GridError> {
        if self.len == self.buffer.len() {
            self.write()?;
        }
        let encoder = self.encoder;
        let chunk = &mut self.buffer[self.len..self.len + CHUNK];
        let payload = edges.len() * encoder.weights.edge_bytes();
        let first = encoder.places.columns[column as usize].first_vertex as u32;
        store(edges, first, encoder.weights, &mut chunk[HEADER..HEADER + payload]);
        encoder.begin(chunk, column, edges.len() as u32, digest, payload);
        self.contents.push(contents_of(edges));
        self.len += CHUNK;
        Ok(())
    }

    /// Writes what was gathered.
    pub(super) fn write(&mut self) -> Result<(), GridError> {
        self.encoder.write(self.first_chunk, &mut self.buffer[..self.len], &self.contents)?;
        self.contents.clear();
        self.first_chunk += (self.len / CHUNK) as u64;
        self.len = 0;
        Ok(())
    }
}

/// Stores edges as the format wants them, destinations relative to the column.
fn store<R: Record>(edges: &[R], first: u32, weights: WeightKind, bytes: &mut [u8]) {
    match weights {
        WeightKind::Unit => {
            for (stored, edge) in bytemuck::cast_slice_mut(bytes).iter_mut().zip(edges) {
                *stored = RawEdge { source: edge.source(), destination: edge.destination() - first };
            }
        }
        WeightKind::F32 => {
            for (stored, edge) in bytemuck::cast_slice_mut(bytes).iter_mut().zip(edges) {
                let (source, destination) = (edge.source(), edge.destination() - first);
                *stored = RawEdgeF32 { source, destination, weight: edge.weight() as f32 };
            }
        }
        WeightKind::F64 => {
            for (stored, edge) in bytemuck::cast_slice_mut(bytes).iter_mut().zip(edges) {
                let (source, destination) = (edge.source(), edge.destination() - first);
                *stored = RawEdgeF64 { source, destination, weight: edge.weight() };
            }
        }
    }
}

/// Packs one segment's edges into compact chunks. Their memory is the caller's, who lends it for each call.
pub(super) struct Packer<'a> {
    encoder: &'a Encoder<'a>,
    cell: CellWriter,
    segment: usize,
    column: u32,
    /// Finished chunks in the memory; the one that is being filled is behind them.
    chunks: usize,
    /// Bytes of finished cells in that one, its edges and the sum of their digests.
    payload: usize,
    edges: Contents,
    digest: u64,
    /// What the finished chunks hold.
    contents: Vec<Contents>,
}

/// The import stops, or failed.
pub(super) enum Halt {
    /// Another thread failed, or the user interrupts.
    Stopped,
    /// Here.
    Failed(GridError),
}

impl From<GridError> for Halt {
    fn from(error: GridError) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Packer<'a> {
    pub(super) fn new(encoder: &'a Encoder<'a>) -> Self {
        let cell = CellWriter::new(encoder.weights);
        Self {
            encoder,
            cell,
            segment: 0,
            column: 0,
            chunks: 0,
            payload: 0,
            edges: Contents::NONE,
            digest: 0,
            contents: Vec::new(),
        }
    }

    /// Goes on with another segment; the one before was flushed.
    pub(super) fn start(&mut self, segment: usize, column: u32) {
        (self.segment, self.column) = (segment, column);
    }

    /// Packs sorted edges of one window, and counts them; destinations ascend from call to call.
    pub(super) fn pack<R: Record>(
        &mut self,
        edges: &[R],
        source_base: u32,
        cutter: &mut Cutter<R>,
        memory: &mut [u8],
        account: &mut Account<'_>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), Halt> {
        let first = self.encoder.places.columns[self.column as usize].first_vertex as u32;
        let mut rows = Rows::new();
        let mut rest = edges;
        while let [head, ..] = rest {
            let block = rows.find(&mut rest);
            let destinations = head.destination() - first..=block[block.len() - 1].destination() - first;
            // Most chunks have room for some more rows, and then nothing need be asked of each piece.
            if self.cell.reserve(block.len(), destinations, PAYLOAD - self.payload) {
                for row in rows.of(block) {
                    let destination = row[0].destination() - first;
                    let cut = cutter.cut(row, |section, piece| {
                        self.cell.append(section, source_base, destination, piece);
                        Ok::<_, Infallible>(())
                    });
                    let Ok(()) = cut;
                }
                self.edges = self.edges.and(contents_of(block));
                self.digest = self.digest.wrapping_add(account.rows(block));
            } else {
                for row in rows.of(block) {
                    self.pack_row(row, source_base, cutter, memory, account, stopped)?;
                }
            }
        }
        Ok(())
    }

    /// Packs a row, piece by piece, and goes on with another chunk where this one is full.
    fn pack_row<R: Record>(
        &mut self,
        row: &[R],
        source_base: u32,
        cutter: &mut Cutter<R>,
        memory: &mut [u8],
        account: &mut Account<'_>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), Halt> {
        let first = self.encoder.places.columns[self.column as usize].first_vertex as u32;
        let destination = row[0].destination() - first;
        cutter.cut(row, |section, piece| {
            let room = PAYLOAD - self.payload;
            if !self.cell.push(section, source_base, destination, piece, room) {
                self.next_chunk(memory, stopped)?;
                let fits = self.cell.push(section, source_base, destination, piece, PAYLOAD);
                assert!(fits, "a piece of at most 255 edges fits an empty chunk");
            }
            self.edges = self.edges.and(contents_of(piece));
            self.digest = self.digest.wrapping_add(account.rows(piece));
            Ok(())
        })
    }

    /// Goes on with another window.
    pub(super) fn end_window(&mut self, memory: &mut [u8]) {
        self.finish_cell(memory);
    }

    fn finish_cell(&mut self, memory: &mut [u8]) {
        let chunk = &mut memory[self.chunks * CHUNK..][..CHUNK];
        self.payload += self.cell.finish(&mut chunk[HEADER + self.payload..]);
    }

    /// Ends the chunk that is being filled, and makes room for another.
    fn next_chunk(&mut self, memory: &mut [u8], stopped: &dyn Fn() -> bool) -> Result<(), Halt> {
        self.finish_cell(memory);
        if self.edges.edges == 0 {
            return Ok(());
        }
        let chunk = &mut memory[self.chunks * CHUNK..][..CHUNK];
        self.encoder.begin(chunk, self.column, self.edges.edges as u32, self.digest, self.payload);
        self.contents.push(self.edges);
        (self.payload, self.edges, self.digest) = (0, Contents::NONE, 0);
        self.chunks += 1;
        if (self.chunks + 1) * CHUNK > memory.len() { self.flush(memory, false, stopped) } else { Ok(()) }
    }

    /// Ends the chunk that is being filled and writes all there are; `last` ends the segment.
    pub(super) fn end(
        &mut self,
        memory: &mut [u8],
        last: bool,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), Halt> {
        self.next_chunk(memory, stopped)?;
        self.flush(memory, last, stopped)
    }

    fn flush(&mut self, memory: &mut [u8], last: bool, stopped: &dyn Fn() -> bool) -> Result<(), Halt> {
        let chunks = std::mem::take(&mut self.chunks);
        let first = self.encoder.turns.reserve(self.segment, chunks as u64, last, stopped);
        let first = first.ok_or(Halt::Stopped)?;
        self.encoder.write(first, &mut memory[..chunks * CHUNK], &self.contents)?;
        self.contents.clear();
        Ok(())
    }
}
