//! One import of a data set at a time, over processes: `flock` on a file, which the kernel releases however a
//! process ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::dataset::Context;

use super::error::GridError;

/// Name of the lock file in a data set's folder; no layout key begins with a dot.
pub(super) const LOCK_FILE: &str = ".lock";

/// How often a waiting process looks again: `flock` itself would not notice an interrupt.
const POLL: Duration = Duration::from_millis(100);

/// The lock on a data set's folder, until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// The lock, if nobody has it. The folder must exist.
    pub(super) fn try_acquire(folder: &Path) -> Result<Option<Self>, GridError> {
        let path = folder.join(LOCK_FILE);
        let failed = GridError::io("locking", &path);
        loop {
            let file = File::options().create(true).append(true).open(&path).map_err(&failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(failed(error.into())),
            }
            // Its holder may have removed the file between our open and our lock; then we hold the lock of a
            // file that nobody else will ever open.
            if same_file(&file, &path).map_err(&failed)? {
                return Ok(Some(Self { _file: file }));
            }
        }
    }

    /// The lock, after waiting for whoever has it.
    pub(super) fn acquire(folder: &Path, dataset: &str, context: Context<'_>) -> Result<Self, GridError> {
        let mut told = false;
        loop {
            if let Some(lock) = Self::try_acquire(folder)? {
                return Ok(lock);
            }
            if !told {
                context.progress.note(&format!("waiting for another process that imports {dataset}"));
                told = true;
            }
            if context.interrupt.raised() {
                return Err(GridError::Interrupted);
            }
            std::thread::sleep(POLL);
        }
    }
}

fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(theirs) => Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
