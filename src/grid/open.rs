//! A built grid: what its manifest says, and the small files beside it.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use crate::regular_file;
use crate::storage::huge;
use crate::storage::stripe::Stripes;

use super::block::Expectation;
use super::chunk::{CHUNK, ChunkHeader, HEADER, MAGIC};
use super::contents;
use super::error::GridError;
use super::files::{NumberReader, is_missing};
use super::lock::{self, InUse};
use super::manifest::Manifest;
use super::paths::{GridPaths, LayoutRequest, device_of, unmounted_device};

/// A grid that is complete as far as can be seen without reading its edges.
#[derive(Debug, Clone)]
pub struct Grid {
    /// What was built.
    pub manifest: Manifest,
    /// Where it lies.
    pub paths: GridPaths,
}

/// Finds the layout that `request` asks for. `None` where it was not built, not completed, built from another
/// source or in another format, or where a device holds other files: then it is to be built. Errors are those of
/// the operating system, and a device that is not mounted where the grid was built.
pub fn open(data: &Path, request: &LayoutRequest<'_>) -> Result<Option<Grid>, GridError> {
    let paths = GridPaths::new(data, request)?;
    // Only then: the same files are as good on another disk.
    let path = match found(&paths, request)? {
        Some(grid) => return Ok(Some(grid)),
        None => unmounted_device(&paths.dir),
    };
    match path.filter(|path| path.is_dir() && paths.folders.iter().any(|folder| device_of(folder) == path)) {
        Some(path) => Err(GridError::Unmounted { path, dataset: request.dataset.to_owned() }),
        None => Ok(None),
    }
}

fn found(paths: &GridPaths, request: &LayoutRequest<'_>) -> Result<Option<Grid>, GridError> {
    let Some(manifest) = read_manifest(paths)? else { return Ok(None) };
    let same = manifest.dataset == request.dataset
        && manifest.fingerprint == request.fingerprint
        && manifest.ssds == request.storage.ssds
        && manifest.stripe == request.storage.stripe;
    Grid { manifest, paths: paths.clone() }.if_complete(same)
}

/// Bytes that a manifest has at most: 2^20 columns of some 100 each.
const MOST_MANIFEST: u64 = 256 << 20;

/// The manifest of a layout, or `None` where there is none that can be trusted.
pub(super) fn read_manifest(paths: &GridPaths) -> Result<Option<Manifest>, GridError> {
    let path = paths.manifest();
    match regular_file::read(&path, MOST_MANIFEST) {
        Ok(json) => Ok(std::str::from_utf8(&json).ok().and_then(Manifest::from_json)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(GridError::io("reading", &path)(error)),
    }
}

impl Grid {
    /// Itself where `wanted` holds and all files are there, of the right length and of this build.
    pub(super) fn if_complete(self, wanted: bool) -> Result<Option<Self>, GridError> {
        Ok(if wanted && self.is_complete()? { Some(self) } else { None })
    }

    fn is_complete(&self) -> Result<bool, GridError> {
        let Manifest { vertices, ref part_bytes, ids_checksum, order_checksum, .. } = self.manifest;
        if order_checksum.is_some() && !has_length(&self.paths.order(), vertices * 4)? {
            return Ok(false);
        }
        if !has_length(&self.paths.contents(), self.manifest.chunks() * contents::ENTRY as u64)? {
            return Ok(false);
        }
        let ids = ids_checksum.is_none() || has_length(&self.paths.ids(), vertices * 8)?;
        if !ids || !has_length(&self.paths.degrees(), vertices * 4)? {
            return Ok(false);
        }
        for (part, &bytes) in self.paths.parts.iter().zip(part_bytes) {
            if !has_length(part, bytes)? || (bytes > 0 && !self.is_of_this_build(part)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a device's file begins with a chunk of this build. The rest is checked chunk by chunk when read.
    fn is_of_this_build(&self, part: &Path) -> Result<bool, GridError> {
        let mut head = [0; HEADER];
        let mut file = regular_file::open(part).map_err(GridError::io("opening", part))?;
        file.read_exact(&mut head).map_err(GridError::io("reading", part))?;
        let header: ChunkHeader = bytemuck::pod_read_unaligned(&head);
        Ok(header.magic == MAGIC && header.grid_id == self.manifest.grid_id)
    }

    /// How the chunks are dealt to the devices.
    pub fn stripes(&self) -> Stripes {
        self.manifest.stripes()
    }

    /// Bytes of all edges on all devices: what one pass reads.
    pub fn total_bytes(&self) -> u64 {
        self.manifest.chunks() * CHUNK as u64
    }

    /// Logical bytes of a column: [`Stripes::extent`] makes of it the range of each device's file.
    ///
    /// # Panics
    /// Where there is no such column.
    pub fn column_bytes(&self, column: u32) -> Range<u64> {
        let column = &self.manifest.columns[column as usize];
        let at = |chunk: u64| chunk * CHUNK as u64;
        at(column.first_chunk)..at(column.first_chunk + column.chunks)
    }

    /// What must lie at `offset` of `device`, within the extent of `column`: for [`super::BlockView::new`].
    ///
    /// # Panics
    /// Where there is no such column.
    pub fn expectation(&self, column: u32, device: usize, offset: u64) -> Expectation {
        Expectation::new(&self.manifest, column, device, offset)
    }

    /// Out-degree of every vertex by position, checked: 4 bytes each.
    pub fn degrees(&self) -> Result<Vec<u32>, GridError> {
        let mut degrees = huge::with_capacity(self.manifest.vertices as usize);
        for degree in self.degrees_in_turn()? {
            degrees.push(degree?);
        }
        Ok(degrees)
    }

    /// The same, streamed. The checksum is checked at the end, so that the last item may be an error.
    pub fn degrees_in_turn(&self) -> Result<impl Iterator<Item = Result<u32, GridError>> + use<>, GridError> {
        let Manifest { vertices, degrees_checksum, .. } = self.manifest;
        let degrees = NumberReader::open(&self.paths.degrees(), vertices, degrees_checksum)?;
        Ok(degrees.map(|degree| degree.map(u32::from_le_bytes)))
    }

    /// Keeps other processes from removing the grid while the result lives, where that is possible.
    pub fn hold(&self) -> Option<InUse> {
        lock::hold(&self.paths.dir)
    }

    /// Original ids of all vertices, in ascending order.
    pub fn ids(&self) -> Result<Ids, GridError> {
        let vertices = self.manifest.vertices;
        Ok(match self.manifest.ids_checksum {
            None => Ids(Inner::Dense(0..vertices)),
            Some(checksum) => Ids(Inner::File(NumberReader::open(&self.paths.ids(), vertices, checksum)?)),
        })
    }
}

/// Original ids, streamed. Where they come from a file its checksum is checked at the end, so that the last item
/// may be an error.
pub struct Ids(Inner);

enum Inner {
    Dense(Range<u64>),
    File(NumberReader<8>),
}

impl Iterator for Ids {
    type Item = Result<u64, GridError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Inner::Dense(range) => range.next().map(Ok),
            Inner::File(reader) => reader.next().map(|id| id.map(u64::from_le_bytes)),
        }
    }
}

fn has_length(path: &Path, length: u64) -> Result<bool, GridError> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file() && metadata.len() == length),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(GridError::io("looking at", path)(error)),
    }
}

impl Grid {
    /// Opens the devices' files for plain reads, in order.
    pub(super) fn open_parts(&self) -> Result<Vec<File>, GridError> {
        let open = |part| regular_file::open(part).map_err(GridError::io("opening", part));
        self.paths.parts.iter().map(|part| open(part)).collect()
    }
}

/// Fills the buffer from the file's offset, or says where it failed.
pub(super) fn read_at(file: &File, path: &Path, buffer: &mut [u8], offset: u64) -> Result<(), GridError> {
    let read: io::Result<()> = std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset);
    read.map_err(GridError::io("reading", path))
}
