//! Files to read from, one per device. They have no name: whatever ends the process, they end with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::statvfs;

use super::error::BandwidthError;
use crate::interrupt::Interrupt;
use crate::io::open_engine;
use crate::job::spec::IoSpec;
use crate::progress::{Progress, Unit};
use crate::storage::device::DeviceFiles;

const PIECE: usize = 1 << 20;

/// A file of the same size in each of some directories, on disk and out of the page cache's way.
pub struct Scratch {
    directories: Vec<PathBuf>,
    files: Arc<DeviceFiles>,
    size: u64,
    /// Bytes asked for so far, by device: reads go on where the last ended.
    asked: Vec<AtomicU64>,
}

impl Scratch {
    /// Writes and syncs them.
    ///
    /// # Errors
    /// Where a directory cannot be written to, has no room, or takes no direct reads.
    pub fn write(
        directories: &[PathBuf],
        size: u64,
        interrupt: &Interrupt,
        progress: &dyn Progress,
    ) -> Result<Self, BandwidthError> {
        // A multiple of what is written at once.
        let size = size.next_multiple_of(PIECE as u64);
        let mut written = Vec::new();
        for directory in directories {
            check_space(directory, size)?;
            progress.begin(&format!("writing to {}", directory.display()), Some(size), Unit::Bytes);
            let file = write_one(directory, size, interrupt, progress);
            progress.end();
            written.push(file?);
        }
        let files = open(directories, &written)?;
        let asked = directories.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Self { directories: directories.to_vec(), files: Arc::new(files), size, asked })
    }

    /// Whether this kind of engine reads here.
    ///
    /// # Errors
    /// Why not.
    pub fn offers(&self, io: IoSpec) -> io::Result<()> {
        open_engine(io, self.files(), 1, None).map(drop)
    }

    pub(super) fn files(&self) -> Arc<DeviceFiles> {
        Arc::clone(&self.files)
    }

    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    pub(super) fn directory(&self, device: usize) -> &Path {
        &self.directories[device]
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Where the next block of a device lies: one after the other, and round again.
    pub(super) fn next(&self, device: usize, block: u64) -> u64 {
        let asked = self.asked[device].fetch_add(block, Ordering::Relaxed);
        asked / block % (self.size / block).max(1) * block
    }
}

/// Refuses what would fill the disk to its brim, before it does.
fn check_space(directory: &Path, needed: u64) -> Result<(), BandwidthError> {
    // Where the system does not tell, writing will show.
    let Ok(status) = statvfs(directory) else { return Ok(()) };
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    if free < needed {
        return Err(BandwidthError::Space { directory: directory.to_owned(), needed, free });
    }
    Ok(())
}

fn write_one(
    directory: &Path,
    size: u64,
    interrupt: &Interrupt,
    progress: &dyn Progress,
) -> Result<File, BandwidthError> {
    let fail = |cause: io::Error| BandwidthError::Write { directory: directory.to_owned(), size, cause };
    let mut file = tempfile::tempfile_in(directory).map_err(fail)?;
    let mut piece = vec![0; PIECE];
    for number in 0..size / PIECE as u64 {
        if interrupt.raised() {
            return Err(BandwidthError::Interrupted);
        }
        fill(&mut piece, number);
        file.write_all(&piece).map_err(fail)?;
        progress.advance(PIECE as u64);
    }
    file.sync_all().map_err(fail)?;
    Ok(file)
}

/// Noise, so that no file system or device can compress it or find it written before.
fn fill(piece: &mut [u8], number: u64) {
    let mut state = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for word in piece.chunks_exact_mut(8) {
        // Xorshift (Marsaglia, 2003); its state is never zero.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
}

/// Opens the files once more, as a grid's files are opened. A file without a name has one as long as it is open.
fn open(directories: &[PathBuf], written: &[File]) -> Result<DeviceFiles, BandwidthError> {
    let mut paths = Vec::new();
    for (directory, file) in directories.iter().zip(written) {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let cause = match DeviceFiles::open(std::slice::from_ref(&path)) {
            Ok(files) if files.direct() => {
                paths.push(path);
                continue;
            }
            Ok(_) => return Err(BandwidthError::Buffered { directory: directory.clone() }),
            Err(error) => error.to_string(),
        };
        return Err(BandwidthError::Open { directory: directory.clone(), cause });
    }
    let directory = directories.first().cloned().unwrap_or_default();
    DeviceFiles::open(&paths).map_err(|error| BandwidthError::Open { directory, cause: error.to_string() })
}
