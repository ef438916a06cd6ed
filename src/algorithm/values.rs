//! The values that a run leaves: in memory, by dense index, or on the devices, by position, where memory does not hold
//! them all.

use std::borrow::Cow;
use std::sync::Arc;

use crate::grid::{Grid, GridError};
use crate::io::vertex_reader::VertexReader;
use crate::storage::error::StorageError;
use crate::storage::vertex_store::{Vector, VertexStore, WINDOW};

/// A value for every vertex.
#[derive(Debug, Clone)]
pub enum Values {
    /// By dense index.
    Held(Vec<f64>),
    /// By position, on the devices.
    Stored(Stored),
}

/// Values on the devices.
#[derive(Debug, Clone)]
pub struct Stored {
    pub(super) store: Arc<VertexStore>,
    pub(super) vector: Vector,
}

/// Why values on the devices cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ValuesError {
    /// The numbering of the grid.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// The values.
    #[error(transparent)]
    State(#[from] StorageError),
}

impl Values {
    /// All of them by dense index, in memory.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn by_index(&self, grid: &Grid) -> Result<Cow<'_, [f64]>, ValuesError> {
        match self {
            Self::Held(values) => Ok(Cow::Borrowed(values)),
            Self::Stored(stored) => {
                let mut values = vec![0.0; grid.manifest.vertices as usize];
                stored.each(grid, |index, value| values[index as usize] = value)?;
                Ok(Cow::Owned(values))
            }
        }
    }

    /// Visits `(dense index, value)` of every vertex, in the order in which that is cheapest.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn each(&self, grid: &Grid, mut visit: impl FnMut(u64, f64)) -> Result<(), ValuesError> {
        match self {
            Self::Held(values) => (0..).zip(values).for_each(|(index, &value)| visit(index, value)),
            Self::Stored(stored) => stored.each(grid, visit)?,
        }
        Ok(())
    }

    /// Visits the values in dense order, as many at a time as `memory` bytes hold.
    ///
    /// # Errors
    /// Where they cannot be read, and what `visit` fails with.
    pub fn in_order<E: From<ValuesError>>(
        &self,
        grid: &Grid,
        memory: u64,
        mut visit: impl FnMut(&[f64]) -> Result<(), E>,
    ) -> Result<(), E> {
        let stored = match self {
            Self::Held(values) => return visit(values),
            Self::Stored(stored) => stored,
        };
        let vertices = grid.manifest.vertices;
        let most = (memory / 8).clamp(WINDOW, vertices.max(WINDOW));
        // In another order each stretch takes a pass over all; in this one it is just the next.
        for start in (0..vertices).step_by(most as usize) {
            let mut stretch = vec![0.0; most.min(vertices - start) as usize];
            stored.each(grid, |index, value| {
                if let Some(place) = index.checked_sub(start).and_then(|at| stretch.get_mut(at as usize)) {
                    *place = value;
                }
            })?;
            visit(&stretch)?;
        }
        Ok(())
    }
}

impl Stored {
    fn each(&self, grid: &Grid, mut visit: impl FnMut(u64, f64)) -> Result<(), ValuesError> {
        let mut reader = VertexReader::new(Arc::clone(&self.store), None);
        let mut numbering = grid.dense_indexes()?;
        let (vertices, mut window) = (grid.manifest.vertices, Vec::<f64>::new());
        for start in (0..vertices).step_by(WINDOW as usize) {
            reader.read(self.vector, start..(start + WINDOW).min(vertices), &mut window)?;
            for &value in &window {
                let Some(index) = numbering.next() else { break };
                visit(index?, value);
            }
        }
        // To its end, where the checksum is.
        Ok(numbering.try_for_each(|rest| rest.map(drop))?)
    }
}
