//! The chunk: the unit of the grid's format. Self-contained (a header that says what it is, a checksum over
//! all), 32 KiB, aligned for direct reads. A request is a run of chunks, chosen at run time, so that sweeping
//! the block size imports nothing again.

use bytemuck::{Pod, Zeroable};
use xxhash_rust::xxh3::Xxh3;

/// Bytes of a chunk, header included.
pub const CHUNK: usize = 32 * 1024;
/// Bytes of its header.
pub const HEADER: usize = size_of::<ChunkHeader>();
/// Bytes behind the header, for edges and padding.
pub const PAYLOAD: usize = CHUNK - HEADER;
/// `IOC1`, little endian.
pub const MAGIC: u32 = u32::from_le_bytes(*b"IOC1");

/// The header: 64 bytes, little endian, at the start of every chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ChunkHeader {
    /// [`MAGIC`].
    pub magic: u32,
    /// Code of the edges: see [`super::manifest::Encoding`].
    pub encoding: u16,
    /// Bytes of a weight: 0, 4 or 8.
    pub weight_bytes: u16,
    /// The grid's random number, so that a stray file of another build is told apart.
    pub grid_id: u64,
    /// The chunk's number in the grid.
    pub sequence: u64,
    /// Added to every source in the payload.
    pub source_base: u64,
    /// Column of the destinations, which are relative to the column's first vertex.
    pub column: u32,
    /// Edges in the payload.
    pub edges: u32,
    /// Wrapping sum of the edges' digests (dense ids and weight): layout-independent, so that the sum over
    /// all chunks is the data set's checksum.
    pub digest: u64,
    /// Bytes of the payload behind the header.
    pub payload: u32,
    /// Zero.
    pub reserved: u32,
    /// xxh3 of header (with this field zero) and payload.
    pub checksum: u64,
}

const _: () = assert!(HEADER == 64);

impl ChunkHeader {
    /// What [`Self::checksum`] must be for this header and payload.
    pub fn checksum_over(&self, payload: &[u8]) -> u64 {
        let mut hasher = Xxh3::new();
        hasher.update(bytemuck::bytes_of(&Self { checksum: 0, ..*self }));
        hasher.update(payload);
        hasher.digest()
    }
}

/// An edge without weight: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct RawEdge {
    /// Source, less the chunk's base.
    pub source: u32,
    /// Destination, less the column's first vertex.
    pub destination: u32,
}

/// An edge whose weight is an f32: 12 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct RawEdgeF32 {
    /// Source, less the chunk's base.
    pub source: u32,
    /// Destination, less the column's first vertex.
    pub destination: u32,
    /// Weight.
    pub weight: f32,
}

/// An edge whose weight needs an f64: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct RawEdgeF64 {
    /// Source, less the chunk's base.
    pub source: u32,
    /// Destination, less the column's first vertex.
    pub destination: u32,
    /// Weight.
    pub weight: f64,
}

const _: () = assert!(size_of::<RawEdge>() == 8 && size_of::<RawEdgeF32>() == 12);
const _: () = assert!(size_of::<RawEdgeF64>() == 16);
