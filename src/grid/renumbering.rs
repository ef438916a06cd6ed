//! The numbering inside a grid. Edges name vertices by their *position*; with order `natural` that is the dense index
//! (the rank of the original id), with order `degree` a permutation of it, kept in `order.bin`. Algorithms keep their
//! state by position, and go through the permutation at their borders only: results, digests and checksums are by
//! dense index whatever the order.

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

impl Grid {
    /// The numbering inside, checked: 4 bytes per vertex where the order is not natural.
    pub fn renumbering(&self) -> Result<Renumbering, GridError> {
        let vertices = self.manifest.vertices;
        let Some(checksum) = self.manifest.order_checksum else { return Ok(Renumbering::default()) };
        let path = self.paths.order();
        let mut dense = Vec::new();
        dense.reserve_exact(vertices as usize);
        for index in NumberReader::open(&path, vertices, checksum)? {
            let index = u32::from_le_bytes(index?);
            if u64::from(index) >= vertices {
                let what = format!("it has an index {index}, where there are {vertices} vertices");
                return Err(GridError::Damaged { path, what });
            }
            dense.push(index);
        }
        Ok(Renumbering::new(dense))
    }

    /// Out-degree of every vertex by dense index, checked.
    pub fn dense_degrees(&self) -> Result<Vec<u32>, GridError> {
        Ok(self.renumbering()?.to_dense(self.degrees()?))
    }
}
