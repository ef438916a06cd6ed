//! Advisory locks over processes: `flock` on a file that is there for nothing else. The kernel releases one however its
//! holder ends, so none is ever left behind; and since files are opened close-on-exec, a child inherits one only where it
//! is given it ([`FileLock::share`]).

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};

use crate::file_id::FileId;
use crate::regular_file;

/// Whom a lock keeps out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Everybody else.
    Exclusive,
    /// Those who want it exclusively.
    Shared,
}

/// A held lock, until dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl FileLock {
    /// The lock of a file, which is made if need be in a folder that is there; `None` where somebody else has it.
    pub(crate) fn try_acquire(path: &Path, sharing: Sharing) -> io::Result<Option<Self>> {
        let operation = match sharing {
            Sharing::Exclusive => FlockOperation::NonBlockingLockExclusive,
            Sharing::Shared => FlockOperation::NonBlockingLockShared,
        };
        loop {
            // To read and write: an open of that kind waits for nobody, not even at a pipe.
            let file = File::options().create(true).append(true).read(true).open(path)?;
            regular_file::check(&file.metadata()?)?;
            match flock(&file, operation) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            // Its holder may have removed the file between our open and our lock; then we hold the lock of a
            // file that nobody else will ever open.
            if same_file(&file, path)? {
                return Ok(Some(Self { file }));
            }
        }
    }

    /// The same lock for a process to be started: held until that, and all who inherit it from there, have closed it too.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Leaves word of who holds the lock, for [`holder`].
    pub(crate) fn sign(&mut self) -> io::Result<()> {
        let uname = rustix::system::uname();
        let host = uname.nodename().to_string_lossy();
        self.file.set_len(0)?;
        self.file.write_all(format!("process {} on {host}", std::process::id()).as_bytes())
    }
}

/// Locks a new file of our own for as long as it is open, so that [`remove_free`] leaves it alone; false where that has
/// taken it already. Where the file system has no locks, nothing is removed either.
pub(crate) fn hold(file: &File, path: &Path) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        _ => same_file(file, path),
    }
}

/// Removes a file that nobody has a lock on, as far as that can be told and done.
pub(crate) fn remove_free(path: &Path) {
    let file = File::options().read(true).write(true).open(path);
    // The lock is held until the file is gone: a writer that comes between sees that.
    if let Ok(file) = file
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && same_file(&file, path).unwrap_or(false)
    {
        let _ = std::fs::remove_file(path);
    }
}

/// Who signed a lock last: `process 1234 on box`, or another process, where nobody did.
pub(crate) fn holder(path: &Path) -> String {
    /// More than any signature has: what is longer is no signature.
    const MOST: u64 = 400;
    let read = regular_file::read(path, MOST).ok().and_then(|text| String::from_utf8(text).ok());
    match read {
        Some(text) if text.starts_with("process ") && !text.contains(char::is_control) => text,
        _ => "another process".to_owned(),
    }
}

fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(theirs) => Ok(FileId::of(&ours) == FileId::of(&theirs)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_lock_keeps_all_out_and_a_shared_one_the_exclusive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let acquire = |sharing| FileLock::try_acquire(&path, sharing).unwrap();
        let held = acquire(Sharing::Exclusive).unwrap();
        assert!(acquire(Sharing::Exclusive).is_none() && acquire(Sharing::Shared).is_none());
        drop(held);
        let held = (acquire(Sharing::Shared).unwrap(), acquire(Sharing::Shared).unwrap());
        assert!(acquire(Sharing::Exclusive).is_none());
        drop(held);
        acquire(Sharing::Exclusive).unwrap();
    }

    #[test]
    fn a_lock_whose_file_was_removed_is_not_mistaken_for_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        let old = FileLock::try_acquire(&path, Sharing::Exclusive).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        let new = FileLock::try_acquire(&path, Sharing::Exclusive).unwrap();
        assert!(new.is_some());
        drop(old);
        assert!(FileLock::try_acquire(&path, Sharing::Exclusive).unwrap().is_none());
    }

    #[test]
    fn the_holder_is_who_signed_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".lock");
        assert_eq!(holder(&path), "another process");
        std::fs::write(&path, "process 1 on a host with a long name").unwrap();
        let mut lock = FileLock::try_acquire(&path, Sharing::Exclusive).unwrap().unwrap();
        lock.sign().unwrap();
        assert!(holder(&path).starts_with(&format!("process {} on ", std::process::id())));
        for odd in ["", "process \x1b[31m", "elf\0"] {
            std::fs::write(&path, odd).unwrap();
            assert_eq!(holder(&path), "another process");
        }
    }
}
