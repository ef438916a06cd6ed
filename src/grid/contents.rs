//! What each chunk holds: the range of its sources, and its edges. Kept beside the edges in `contents.bin`, so that a
//! pass which only wants some sources knows what it need not read, and, of what it reads, that nothing is missing.

use super::error::GridError;
use super::files::NumberReader;
use super::open::Grid;

/// Bytes of a chunk's entry.
pub(super) const ENTRY: usize = 12;

/// What one chunk holds, or several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// Smallest source (position).
    pub first_source: u32,
    /// Largest source.
    pub last_source: u32,
    /// Edges, at least 1.
    pub edges: u64,
}

impl Contents {
    /// Nothing: what edges are added to.
    pub const NONE: Self = Self { first_source: u32::MAX, last_source: 0, edges: 0 };

    /// These and others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            first_source: self.first_source.min(other.first_source),
            last_source: self.last_source.max(other.last_source),
            edges: self.edges + other.edges,
        }
    }

    /// Little endian: first source, last source, edges, each of 32 bits.
    pub(super) fn to_bytes(self) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..4].copy_from_slice(&self.first_source.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.last_source.to_le_bytes());
        // A chunk's header has 32 bits for them too.
        bytes[8..].copy_from_slice(&(self.edges as u32).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; ENTRY]) -> Self {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self { first_source: number(0), last_source: number(4), edges: number(8).into() }
    }
}

impl Grid {
    /// What each chunk holds, in the order of their numbers, streamed. The checksum is checked at the end, so that the
    /// last item may be an error.
    pub fn contents(&self) -> Result<impl Iterator<Item = Result<Contents, GridError>>, GridError> {
        let (vertices, path) = (self.manifest.vertices, self.paths.contents());
        let entries = NumberReader::open(&path, self.manifest.chunks(), self.manifest.contents_checksum)?;
        Ok(entries.map(move |entry| {
            let entry = Contents::from_bytes(entry?);
            let Contents { first_source: first, last_source: last, .. } = entry;
            if first <= last && u64::from(last) < vertices {
                return Ok(entry);
            }
            let what =
                format!("it has a chunk of the sources {first} to {last}, which is no range of vertices");
            Err(GridError::Damaged { path: path.clone(), what })
        }))
    }
}
