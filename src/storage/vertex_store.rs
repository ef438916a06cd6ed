//! Values of the vertices that do not fit the memory: on the devices, in files without names, so that the kernel removes
//! them however the process ends.
//!
//! A *vector* has a value of so many bytes for each vertex. It is cut into windows of 2^16 vertices, which are dealt to
//! the devices in turn: a window is what streams read at once, and large enough to be read at the device's pace. Reads are
//! direct, like those of edges. Writes go through the page cache, since a column begins and ends within a page; what they
//! leave there goes to the device, and out of the cache, with [`VertexStore::settle`].

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use rustix::fs::{Advice, fadvise};

use super::buffer::ALIGNMENT;
use super::device::DeviceFiles;
use super::error::StorageError;

/// Vertices of a window.
pub const WINDOW: u64 = 1 << 16;

/// Which of a store's vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vector {
    /// Where its windows begin in each device's file.
    start: u64,
    /// Bytes of a value.
    item: u64,
}

impl Vector {
    fn window_bytes(self) -> u64 {
        self.item * WINDOW
    }
}

/// Where some bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Device.
    pub device: usize,
    /// First byte in its file.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

/// Vectors over the vertices on the devices.
#[derive(Debug)]
pub struct VertexStore {
    /// To read from.
    files: Arc<DeviceFiles>,
    /// The same files, to write to.
    writers: Vec<File>,
    folders: Vec<PathBuf>,
    read: AtomicU64,
    written: AtomicU64,
}

impl VertexStore {
    /// A store with a vector of `items[i]` bytes a vertex for each `i`, all zero, in the given folders.
    ///
    /// # Errors
    /// The folder in which no file can be made.
    pub fn create(
        folders: &[PathBuf],
        vertices: u64,
        items: &[u64],
    ) -> Result<(Self, Vec<Vector>), StorageError> {
        let rows = vertices.div_ceil(WINDOW).div_ceil(folders.len() as u64);
        let (mut vectors, mut start) = (Vec::with_capacity(items.len()), 0);
        for &item in items {
            let vector = Vector { start, item };
            start += rows * vector.window_bytes();
            vectors.push(vector);
        }
        let mut writers = Vec::with_capacity(folders.len());
        for folder in folders {
            let file = tempfile::tempfile_in(folder).and_then(|file| file.set_len(start).map(|()| file));
            writers.push(file.map_err(|cause| StorageError::Write { folder: folder.clone(), cause })?);
        }
        let names = folders.iter().map(|folder| folder.join("(vertex state)"));
        let files = Arc::new(DeviceFiles::open_again(writers.iter().zip(names))?);
        let folders = folders.to_vec();
        Ok((Self { files, writers, folders, read: 0.into(), written: 0.into() }, vectors))
    }

    /// The files, to read [`Self::place`]s from.
    pub fn files(&self) -> &Arc<DeviceFiles> {
        &self.files
    }

    /// Where a window of a vector lies, whole.
    pub fn place(&self, vector: Vector, window: u64) -> Place {
        let devices = self.writers.len() as u64;
        let offset = vector.start + window / devices * vector.window_bytes();
        Place { device: (window % devices) as usize, offset, len: vector.window_bytes() as usize }
    }

    /// The least stretch that can be read directly and holds the values of some vertices of one window, and how many
    /// bytes before theirs it begins.
    pub fn around(&self, vector: Vector, vertices: &Range<u64>) -> (Place, usize) {
        let window = self.place(vector, vertices.start / WINDOW);
        let first = vertices.start % WINDOW * vector.item;
        let end = first + (vertices.end - vertices.start) * vector.item;
        let start = first - first % ALIGNMENT as u64;
        let len = (end - start).next_multiple_of(ALIGNMENT as u64) as usize;
        (Place { offset: window.offset + start, len, ..window }, (first - start) as usize)
    }

    /// Writes the values of the vertices from `first` on, all of one window.
    ///
    /// # Errors
    /// Where the device takes no more.
    pub fn write<T: Pod>(&self, vector: Vector, first: u64, values: &[T]) -> Result<(), StorageError> {
        debug_assert!(size_of::<T>() as u64 == vector.item && first % WINDOW + values.len() as u64 <= WINDOW);
        let Place { device, offset, .. } = self.place(vector, first / WINDOW);
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let written = self.writers[device].write_all_at(bytes, offset + first % WINDOW * vector.item);
        written.map_err(|cause| self.refused(device, cause))?;
        self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Brings all that was written to the devices, so that reading it later is nothing but reading.
    ///
    /// # Errors
    /// Where a device takes no more.
    pub fn settle(&self) -> Result<(), StorageError> {
        for (device, file) in self.writers.iter().enumerate() {
            file.sync_data().map_err(|cause| self.refused(device, cause))?;
            // Advice: where it is not taken, memory that the system can have back at any time is not free yet.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
        Ok(())
    }

    /// Counts bytes that were read through [`Self::files`].
    pub fn count_read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes read and written since the last time that this was asked.
    pub fn take_traffic(&self) -> (u64, u64) {
        (self.read.swap(0, Ordering::Relaxed), self.written.swap(0, Ordering::Relaxed))
    }

    fn refused(&self, device: usize, cause: io::Error) -> StorageError {
        StorageError::Write { folder: self.folders[device].clone(), cause }
    }
}
