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
    /// What each chunk holds, in the order of their numbers, checked: 16 bytes each.
    pub fn contents(&self) -> Result<Vec<Contents>, GridError> {
        let (chunks, path) = (self.manifest.chunks(), self.paths.contents());
        let mut contents = Vec::new();
        contents.reserve_exact(chunks as usize);
        for entry in NumberReader::open(&path, chunks, self.manifest.contents_checksum)? {
            let entry = Contents::from_bytes(entry?);
            if entry.first_source > entry.last_source
                || u64::from(entry.last_source) >= self.manifest.vertices
            {
                let Contents { first_source, last_source, .. } = entry;
                let what = format!(
                    "it has a chunk of the sources {first_source} to {last_source}, which is no range"
                );
                return Err(GridError::Damaged { path, what });
            }
            contents.push(entry);
        }
        Ok(contents)
    }
}
