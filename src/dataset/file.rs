//! The file behind a data set: a regular file that keeps its content while it is in use. A reader is asked for
//! the same edges several times, perhaps hours apart, so a file that somebody still writes to must be an error
//! and not two different graphs.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::DatasetError;
use crate::regular_file::{self, irregular};

/// A file as it was when the data set was opened.
#[derive(Debug, Clone)]
pub(super) struct SourceFile {
    path: PathBuf,
    stamp: Stamp,
}

/// What tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Bytes.
    pub(super) len: u64,
    /// Time of the last change: seconds and nanoseconds since 1970.
    pub(super) modified: (i64, i64),
    /// Time of the last change of content, name or owner, which no program can set; and the file's own number. They
    /// tell files apart that another file of the same age was moved over.
    pub(super) changed: (i64, i64),
    pub(super) inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }
}

impl SourceFile {
    /// Checks that the path is a regular file that may be read.
    pub(super) fn open(path: &Path) -> Result<Self, DatasetError> {
        let path = path.to_path_buf();
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(DatasetError::Missing { path }),
            Err(reason) => return Err(DatasetError::Io { path, action: "opening", reason }),
        };
        if let Some(found) = irregular(&metadata) {
            return Err(DatasetError::NotAFile { path, found });
        }
        let file = Self { path, stamp: Stamp::of(&metadata) };
        file.check_empty()?;
        file.reopen().map(|_| file)
    }

    /// Files of `/proc` and the like call themselves regular and empty, and then give what the kernel makes up, the next
    /// time perhaps something else, or keep a reader waiting for ever.
    fn check_empty(&self) -> Result<(), DatasetError> {
        if self.stamp.len > 0 {
            return Ok(());
        }
        let mut file = regular_file::open(&self.path).map_err(|reason| self.io_error("opening", reason))?;
        match file.read(&mut [0]) {
            Ok(0) => Ok(()),
            _ => Err(DatasetError::NotAFile {
                path: self.path.clone(),
                found: "made up by the kernel as it is read",
            }),
        }
    }

    /// Opens the file again, if it is still the same.
    pub(super) fn reopen(&self) -> Result<File, DatasetError> {
        let file = regular_file::open(&self.path).map_err(|reason| self.io_error("opening", reason))?;
        self.check_unchanged(&file)?;
        Ok(file)
    }

    /// Runs `read` on the file opened anew. If the file changed meanwhile, that is the error, whatever else `read`
    /// found: half-written files look truncated or malformed.
    pub(super) fn read_unchanged<T>(
        &self,
        read: impl FnOnce(File) -> Result<T, DatasetError>,
    ) -> Result<T, DatasetError> {
        let file = self.reopen()?;
        let witness = file.try_clone().map_err(|reason| self.io_error("opening", reason))?;
        match read(file) {
            Err(stop @ (DatasetError::Stopped | DatasetError::Interrupted)) => Err(stop),
            result => self.check_unchanged(&witness).and(result),
        }
    }

    /// An error if `file` (this one, opened) changed since [`SourceFile::open`].
    pub(super) fn check_unchanged(&self, file: &File) -> Result<(), DatasetError> {
        let metadata = file.metadata().map_err(|reason| self.io_error("examining", reason))?;
        let now = Stamp::of(&metadata);
        if now == self.stamp { Ok(()) } else { Err(self.changed(now.len)) }
    }

    /// Fills `buffer` from `offset`. The bytes are known to be there unless the file changed.
    pub(super) fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> Result<(), DatasetError> {
        file.read_exact_at(buffer, offset).map_err(|reason| {
            if reason.kind() == ErrorKind::UnexpectedEof {
                self.changed(file.metadata().map_or(offset, |metadata| metadata.len()))
            } else {
                self.io_error("reading", reason)
            }
        })
    }

    /// Up to `len` bytes from the start.
    pub(super) fn head(&self, len: usize) -> Result<Vec<u8>, DatasetError> {
        let mut head = vec![0; usize::try_from(self.stamp.len).unwrap_or(usize::MAX).min(len)];
        self.read_at(&self.reopen()?, &mut head, 0)?;
        Ok(head)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.stamp.len
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(super) fn io_error(&self, action: &'static str, reason: std::io::Error) -> DatasetError {
        DatasetError::Io { path: self.path.clone(), action, reason }
    }

    pub(super) fn changed(&self, len: u64) -> DatasetError {
        DatasetError::Changed { path: self.path.clone(), before: self.stamp.len, after: len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_regular_files_that_exist_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(SourceFile::open(&dir.path().join("no")), Err(DatasetError::Missing { .. })));
        assert!(matches!(
            SourceFile::open(dir.path()),
            Err(DatasetError::NotAFile { found: "a directory", .. })
        ));
        let device = SourceFile::open(Path::new("/dev/null"));
        assert!(matches!(device, Err(DatasetError::NotAFile { found: "a device", .. })));
    }

    #[test]
    fn what_the_kernel_makes_up_is_no_empty_file() {
        for path in ["/proc/version", "/proc/self/mem"] {
            let error = SourceFile::open(Path::new(path)).unwrap_err();
            assert!(matches!(error, DatasetError::NotAFile { .. }), "{error}");
        }
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(SourceFile::open(empty.path()).unwrap().len(), 0);
    }

    #[test]
    fn a_file_that_grew_or_shrank_is_noticed() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"1 2\n").unwrap();
        let source = SourceFile::open(file.path()).unwrap();
        let open = source.reopen().unwrap();
        file.write_all(b"3 4\n").unwrap();
        assert!(matches!(
            source.check_unchanged(&open),
            Err(DatasetError::Changed { before: 4, after: 8, .. })
        ));
        file.as_file().set_len(2).unwrap();
        let mut buffer = [0; 4];
        let read = source.read_at(&open, &mut buffer, 0);
        assert!(matches!(read, Err(DatasetError::Changed { before: 4, after: 2, .. })));
    }
}
