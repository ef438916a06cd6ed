//! Small files that must be whole or absent, with the grid's errors, and streams with a checksum.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::error::GridError;
use crate::{atomic_file, regular_file};

/// Makes what happened to the entries of a folder (creation, rename, removal) survive a power cut.
pub(super) fn sync_folder(folder: &Path) -> Result<(), GridError> {
    atomic_file::sync_folder(folder).map_err(|error| GridError::io("syncing", folder)(error.into()))
}

/// Replaces a file as a whole.
pub(super) fn replace(folder: &Path, name: &str, content: &[u8]) -> Result<(), GridError> {
    let path = folder.join(name);
    atomic_file::replace(&path, content).map_err(|error| GridError::io("writing", &path)(error.into()))
}

/// Creates a folder with its parents, durably.
pub(super) fn create_folder(folder: &Path) -> Result<(), GridError> {
    atomic_file::create_folder(folder).map_err(|error| GridError::io("creating", folder)(error.into()))
}

/// Writes numbers, given as their little-endian bytes, to a synced file and returns its xxh3.
pub(super) fn write_numbers<const N: usize>(
    path: &Path,
    numbers: impl Iterator<Item = [u8; N]>,
) -> Result<u64, GridError> {
    let write = || -> io::Result<u64> {
        let mut file = File::create(path)?;
        let mut hasher = Xxh3::new();
        let mut buffer = Vec::with_capacity(BUFFER);
        for number in numbers {
            buffer.extend_from_slice(&number);
            if buffer.len() + N > BUFFER {
                hasher.update(&buffer);
                file.write_all(&buffer)?;
                buffer.clear();
            }
        }
        hasher.update(&buffer);
        file.write_all(&buffer)?;
        file.sync_all()?;
        Ok(hasher.digest())
    };
    write().map_err(GridError::io("writing", path))
}

/// Syncs a file that was written piece by piece, and returns the xxh3 of all of it.
pub(super) fn seal_numbers(file: &File, path: &Path) -> Result<u64, GridError> {
    let seal = || -> io::Result<u64> {
        file.sync_all()?;
        let mut file = regular_file::open(path)?;
        let (mut hasher, mut buffer) = (Xxh3::new(), vec![0; BUFFER]);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.digest()),
                length => hasher.update(&buffer[..length]),
            }
        }
    };
    seal().map_err(GridError::io("writing", path))
}

/// Reads what [`write_numbers`] wrote. The checksum is known to be right only when the end is reached, so the last
/// item may be an error, and whoever stops early has not checked.
pub(super) struct NumberReader<const N: usize> {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    at: usize,
    /// Numbers still in the file, behind the buffer.
    left: u64,
    hasher: Box<Xxh3>,
    checksum: u64,
    ended: bool,
}

impl<const N: usize> NumberReader<N> {
    /// A reader of `count` numbers whose bytes have the `checksum`.
    pub(super) fn open(path: &Path, count: u64, checksum: u64) -> Result<Self, GridError> {
        let failed = GridError::io("reading", path);
        let file = regular_file::open(path).map_err(&failed)?;
        let (found, expected) = (file.metadata().map_err(&failed)?.len(), count * N as u64);
        if found != expected {
            let what = format!("it has {found} bytes, expected {expected}");
            return Err(GridError::Damaged { path: path.to_owned(), what });
        }
        let (buffer, hasher) = (Vec::new(), Box::new(Xxh3::new()));
        Ok(Self { path: path.to_owned(), file, buffer, at: 0, left: count, hasher, checksum, ended: false })
    }

    /// The next buffer; empty at the end, where the checksum must be right.
    fn refill(&mut self) -> Result<(), GridError> {
        let count = self.left.min((BUFFER / N) as u64);
        self.left -= count;
        self.buffer.resize(count as usize * N, 0);
        self.at = 0;
        self.file.read_exact(&mut self.buffer).map_err(GridError::io("reading", &self.path))?;
        self.hasher.update(&self.buffer);
        let found = self.hasher.digest();
        if self.left == 0 && found != self.checksum {
            let what = format!("its checksum is {found:#018x}, expected {:#018x}", self.checksum);
            return Err(GridError::Damaged { path: self.path.clone(), what });
        }
        Ok(())
    }
}

impl<const N: usize> Iterator for NumberReader<N> {
    type Item = Result<[u8; N], GridError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.buffer.len() {
            if self.ended {
                return None;
            }
            if let Err(error) = self.refill() {
                (self.ended, self.at) = (true, self.buffer.len());
                return Some(Err(error));
            }
            self.ended = self.left == 0;
        }
        let bytes = self.buffer[self.at..].first_chunk::<N>().copied()?;
        self.at += N;
        Some(Ok(bytes))
    }
}

/// Bytes read or written at once.
const BUFFER: usize = 256 * 1024;

/// Whether an error says that there is nothing at the path.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
