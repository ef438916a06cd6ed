//! All edges of a grid, one chunk after the other, with plain reads: for verifiers and exports, not for speed.

use std::fs::File;
use std::sync::Arc;

use crate::storage::buffer::AlignedBuffer;

use super::block::{Chunk, ChunkError, Expectation, check_digest, check_padding};
use super::chunk::CHUNK;
use super::error::GridError;
use super::open::{Grid, read_at};
use super::renumbering::Renumbering;

/// Bytes read at once, at most.
const RUN: usize = 32 * CHUNK;

/// Reads a range of columns in order; every chunk is checked, its padding too, and that a column has all its edges.
#[derive(Debug)]
pub struct EdgeReader<'a> {
    grid: &'a Grid,
    parts: Vec<File>,
    buffer: AlignedBuffer,
    /// Bytes of the buffer that hold chunks, and how many of them were handed out.
    filled: usize,
    used: usize,
    /// Where the buffer was read from.
    device: usize,
    offset: u64,
    column: u32,
    /// Edges of the column so far.
    edges: u64,
    /// One past the last column to read.
    end_column: u32,
    /// Logical position of the next read.
    position: u64,
    renumbering: Arc<Renumbering>,
}

impl<'a> EdgeReader<'a> {
    /// A reader of the whole grid.
    pub fn new(grid: &'a Grid) -> Result<Self, GridError> {
        let renumbering = Arc::new(grid.renumbering()?);
        Self::of_columns(grid, 0..grid.manifest.columns.len() as u32, renumbering)
    }

    /// A reader of some columns of a grid with this numbering inside.
    pub fn of_columns(
        grid: &'a Grid,
        columns: std::ops::Range<u32>,
        renumbering: Arc<Renumbering>,
    ) -> Result<Self, GridError> {
        let position = if columns.is_empty() { 0 } else { grid.column_bytes(columns.start).start };
        Ok(Self {
            grid,
            parts: grid.open_parts()?,
            buffer: AlignedBuffer::new(RUN),
            filled: 0,
            used: 0,
            device: 0,
            offset: 0,
            column: columns.start,
            edges: 0,
            end_column: columns.end,
            position,
            renumbering,
        })
    }

    /// The next chunk, its vertices by position, or `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk<'_>>, GridError> {
        self.next_checked(|_, _| Ok(()))
    }

    /// The next chunk, its digest recomputed.
    pub(super) fn next_verified(&mut self) -> Result<Option<Chunk<'_>>, GridError> {
        let renumbering = Arc::clone(&self.renumbering);
        self.next_checked(|chunk, expect| check_digest(chunk, expect, &renumbering))
    }

    fn next_checked(
        &mut self,
        check: impl Fn(&Chunk<'_>, &Expectation) -> Result<(), ChunkError>,
    ) -> Result<Option<Chunk<'_>>, GridError> {
        if self.used == self.filled && !self.refill()? {
            return Ok(None);
        }
        let expect = self.grid.expectation(self.column, self.device, self.offset + self.used as u64);
        let bytes = &self.buffer[self.used..self.used + CHUNK];
        self.used += CHUNK;
        let path = &self.grid.paths.parts[self.device];
        let failed = |error| GridError::Chunk { path: path.clone(), error };
        let chunk = expect.check(bytes).map_err(failed)?;
        check_padding(bytes, &chunk.header, &expect).and_then(|()| check(&chunk, &expect)).map_err(failed)?;
        self.edges += u64::from(chunk.header.edges);
        Ok(Some(chunk))
    }

    /// Calls `visit(source, destination, weight)` for every edge that is left, with dense ids.
    pub fn for_each(mut self, mut visit: impl FnMut(u64, u64, f64)) -> Result<(), GridError> {
        while self.next_edges(&mut visit)? {}
        Ok(())
    }

    /// Calls `visit(source, destination, weight)` for the edges of the next chunk, with dense ids. False at the end.
    pub fn next_edges(&mut self, visit: &mut impl FnMut(u64, u64, f64)) -> Result<bool, GridError> {
        let renumbering = Arc::clone(&self.renumbering);
        let Some(chunk) = self.next_chunk()? else { return Ok(false) };
        chunk.for_each(|source, target, weight| {
            visit(renumbering.dense(source), renumbering.dense(target), weight);
        });
        Ok(true)
    }

    /// A chunk is complete in itself: only here it shows that one has lost edges and was sealed again.
    fn end_column(&mut self) -> Result<(), GridError> {
        let expected = self.grid.manifest.columns[self.column as usize].edges;
        if self.edges != expected {
            let (number, found) = (self.column, self.edges);
            let what = format!("column {number} has {found} edges on its devices, expected {expected}");
            return Err(GridError::Damaged { path: self.grid.paths.manifest(), what });
        }
        (self.column, self.edges) = (self.column + 1, 0);
        Ok(())
    }

    /// Reads on, within a column and a stripe. False at the end.
    fn refill(&mut self) -> Result<bool, GridError> {
        while self.column < self.end_column && self.position == self.grid.column_bytes(self.column).end {
            self.end_column()?;
        }
        if self.column == self.end_column {
            return Ok(false);
        }
        let stripes = self.grid.stripes();
        let left = self.grid.column_bytes(self.column).end - self.position;
        let len = left.min(stripes.rest_of_stripe(self.position)).min(RUN as u64);
        (self.device, self.offset) = stripes.locate(self.position);
        let path = &self.grid.paths.parts[self.device];
        read_at(&self.parts[self.device], path, &mut self.buffer[..len as usize], self.offset)?;
        (self.filled, self.used) = (len as usize, 0);
        self.position += len;
        Ok(true)
    }
}
