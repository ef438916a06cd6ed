//! The numbering inside a grid. Edges name vertices by their *position*; with order `natural` that is the dense index
//! (the rank of the original id), with order `degree` a permutation of it, kept in `order.bin`. Algorithms keep their
//! state by position, and go through the permutation at their borders only: results, digests and checksums are by
//! dense index whatever the order.

use std::ops::Range;
use std::path::PathBuf;

use super::error::GridError;
use super::files::NumberReader;
use super::open::Grid;
use crate::storage::huge;

/// From positions to dense indexes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Renumbering {
    /// Dense index of each position; `None` where they are the same.
    dense: Option<Vec<u32>>,
}

impl Renumbering {
    /// The permutation that gives each position this dense index. Every index is below the number of positions.
    pub(super) fn new(dense: Vec<u32>) -> Self {
        Self { dense: Some(dense) }
    }

    /// Dense index of a position.
    ///
    /// # Panics
    /// Where there is no such position.
    #[inline]
    pub fn dense(&self, position: u64) -> u64 {
        self.dense.as_ref().map_or(position, |dense| dense[position as usize].into())
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.dense.as_ref().map_or(0, |dense| dense.len() as u64 * 4)
    }

    /// Values by position, as values by dense index.
    pub fn to_dense<T: Copy + Default>(&self, values: Vec<T>) -> Vec<T> {
        let Some(dense) = &self.dense else { return values };
        let mut by_index = vec![T::default(); values.len()];
        for (&index, value) in dense.iter().zip(values) {
            by_index[index as usize] = value;
        }
        by_index
    }

    /// Values by dense index, as values by position.
    pub fn to_grid<T: Copy>(&self, values: Vec<T>) -> Vec<T> {
        let Some(dense) = &self.dense else { return values };
        huge::collected(values.len(), dense.iter().map(|&index| values[index as usize]))
    }

    /// Whether every dense index has a position.
    pub(super) fn is_complete(&self) -> bool {
        let Some(dense) = &self.dense else { return true };
        let mut seen = vec![false; dense.len()];
        for &index in dense {
            seen[index as usize] = true;
        }
        seen.into_iter().all(|seen| seen)
    }
}

/// Dense indexes by position, one after the other.
pub struct DenseIndexes(Inner);

enum Inner {
    /// Each is its position.
    Same(Range<u64>),
    /// A permutation, whose numbers are below the number of vertices.
    File { reader: NumberReader<4>, path: PathBuf, vertices: u64 },
}

impl Iterator for DenseIndexes {
    type Item = Result<u64, GridError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (reader, path, vertices) = match &mut self.0 {
            Inner::Same(range) => return range.next().map(Ok),
            Inner::File { reader, path, vertices } => (reader, path, *vertices),
        };
        Some(reader.next()?.and_then(|index| {
            let index = u64::from(u32::from_le_bytes(index));
            if index < vertices {
                return Ok(index);
            }
            let what = format!("it has an index {index}, where there are {vertices} vertices");
            Err(GridError::Damaged { path: path.clone(), what })
        }))
    }
}

impl Grid {
    /// The numbering inside, checked: 4 bytes per vertex where the order is not natural.
    pub fn renumbering(&self) -> Result<Renumbering, GridError> {
        if self.manifest.order_checksum.is_none() {
            return Ok(Renumbering::default());
        }
        let mut dense = Vec::new();
        dense.reserve_exact(self.manifest.vertices as usize);
        for index in self.dense_indexes()? {
            dense.push(index? as u32);
        }
        Ok(Renumbering::new(dense))
    }

    /// Dense index of every position, streamed. Where they come from a file its checksum is checked at the end, so that
    /// the last item may be an error.
    pub fn dense_indexes(&self) -> Result<DenseIndexes, GridError> {
        let vertices = self.manifest.vertices;
        let Some(checksum) = self.manifest.order_checksum else {
            return Ok(DenseIndexes(Inner::Same(0..vertices)));
        };
        let path = self.paths.order();
        let reader = NumberReader::open(&path, vertices, checksum)?;
        Ok(DenseIndexes(Inner::File { reader, path, vertices }))
    }

    /// Out-degree of every vertex by dense index, checked.
    pub fn dense_degrees(&self) -> Result<Vec<u32>, GridError> {
        Ok(self.renumbering()?.to_dense(self.degrees()?))
    }
}
