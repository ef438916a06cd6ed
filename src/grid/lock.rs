//! One import of a data set at a time, over processes, and no removal of a grid that a run reads.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;

use crate::dataset::Context;
use crate::file_lock::{FileLock, Sharing};

use super::error::GridError;

/// Name of the lock file in a data set's folder; no layout key begins with a dot.
pub(super) const LOCK_FILE: &str = ".lock";

/// Name of the lock file in the folder of a grid, or of what was made for other programs: shared by those who use it,
/// exclusive for its removal.
const IN_USE: &str = ".in-use";

/// How often a waiting process looks again: `flock` itself would not notice an interrupt.
const POLL: Duration = Duration::from_millis(100);

/// The lock on a data set's folder, until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: FileLock,
}

impl Lock {
    /// The lock, if nobody has it. The folder must exist.
    pub(super) fn try_acquire(folder: &Path) -> Result<Option<Self>, GridError> {
        let path = folder.join(LOCK_FILE);
        let lock = FileLock::try_acquire(&path, Sharing::Exclusive);
        Ok(lock.map_err(GridError::io("locking", &path))?.map(|file| Self { _file: file }))
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

/// Keeps a folder from being removed, until dropped.
#[derive(Debug)]
pub struct InUse {
    file: FileLock,
}

impl InUse {
    /// For a process to be started, which then keeps the folder too, and so does whatever it starts.
    ///
    /// # Errors
    /// Where no more files can be opened.
    pub fn share(&self) -> std::io::Result<OwnedFd> {
        self.file.share()
    }
}

/// Keeps a folder from being removed. `None` where that is not possible (the folder may not be written to, or
/// its removal has begun: what is missing then is found missing).
pub(super) fn hold(dir: &Path) -> Option<InUse> {
    let file = FileLock::try_acquire(&dir.join(IN_USE), Sharing::Shared).ok().flatten();
    file.map(|file| InUse { file })
}

/// Keeps a folder from being used, until dropped; an error where somebody does.
pub(super) fn unused(dir: &Path) -> Result<Option<InUse>, GridError> {
    match FileLock::try_acquire(&dir.join(IN_USE), Sharing::Exclusive) {
        Ok(Some(file)) => Ok(Some(InUse { file })),
        Ok(None) => Err(GridError::InUse { dir: dir.to_owned() }),
        // No folder, no locks: nobody can hold it.
        Err(_) => Ok(None),
    }
}

/// The same, after a wait of `patience` at most for those who use it.
pub(super) fn unused_within(dir: &Path, patience: Duration) -> Result<Option<InUse>, GridError> {
    let started = Instant::now();
    loop {
        match unused(dir) {
            Err(GridError::InUse { .. }) if started.elapsed() < patience => std::thread::sleep(POLL),
            other => return other,
        }
    }
}
