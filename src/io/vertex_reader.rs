//! Reads values of vertices that are kept on the devices, a window or less at a time, at the pace that the devices are
//! allowed.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use super::psync::PsyncEngine;
use super::shaped::ShapedEngine;
use super::{IoEngine, ReadRequest, Shaper};
use crate::storage::buffer::AlignedBuffer;
use crate::storage::error::StorageError;
use crate::storage::vertex_store::{Vector, VertexStore};

/// A thread's reader.
pub struct VertexReader {
    store: Arc<VertexStore>,
    engine: Box<dyn IoEngine>,
    buffer: Option<AlignedBuffer>,
}

impl VertexReader {
    /// A reader of a store, with a shaper no faster than that lets it.
    pub fn new(store: Arc<VertexStore>, shaper: Option<Arc<Shaper>>) -> Self {
        let engine: Box<dyn IoEngine> = Box::new(PsyncEngine::new(Arc::clone(store.files()), 1));
        let engine = match shaper {
            Some(shaper) => Box::new(ShapedEngine::new(engine, shaper, 1)),
            None => engine,
        };
        Self { store, engine, buffer: None }
    }

    /// Replaces `values` by those of some vertices, all of one window.
    ///
    /// # Errors
    /// Where the device does not deliver.
    pub fn read<T: Pod>(
        &mut self,
        vector: Vector,
        vertices: Range<u64>,
        values: &mut Vec<T>,
    ) -> Result<(), StorageError> {
        values.clear();
        if vertices.is_empty() {
            return Ok(());
        }
        let (place, skip) = self.store.around(vector, &vertices);
        let buffer = match self.buffer.take() {
            Some(buffer) if buffer.len() >= place.len => buffer,
            _ => AlignedBuffer::new(place.len),
        };
        let failed = |cause| self.store.files().read_error(place.device, place.offset, cause);
        let mut batch =
            vec![ReadRequest { device: place.device, offset: place.offset, len: place.len, buffer, tag: 0 }];
        let mut completions = Vec::with_capacity(1);
        while completions.is_empty() {
            if !batch.is_empty() {
                self.engine.submit(&mut batch).map_err(failed)?;
            }
            self.engine.reap(1, &mut completions).map_err(failed)?;
        }
        for completion in completions {
            completion.result.map_err(failed)?;
            let bytes = &completion.request.buffer[skip..]
                [..(vertices.end - vertices.start) as usize * size_of::<T>()];
            values.extend_from_slice(bytemuck::cast_slice(bytes));
            self.buffer = Some(completion.request.buffer);
        }
        self.store.count_read(place.len);
        Ok(())
    }
}
