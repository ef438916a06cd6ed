//! A file that is there whole or not at all: written beside its place, fsynced, renamed, and the directory fsynced.
//! Reports, plans, manifests and caches are all written by it, so that a kill or a power cut leaves the old one or the
//! new one. The temporary name starts with a dot and is nobody's own, so a reader of the folder never takes it for a
//! finished file; what a killed process leaves of one is removed by [`remove_stale`].

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::file_lock;
use crate::regular_file::irregular;

const PREFIX: &str = ".ioc-new-";

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `create the directory`, `write`, ...
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A device, a pipe or a folder where a file is to be.
    #[error("{} is {found} and not a regular file, and will not be replaced", path.display())]
    Special {
        /// Where.
        path: PathBuf,
        /// What is there: `a named pipe`.
        found: &'static str,
    },
    /// A file that was to be new is there.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
}

impl FileError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// For callers that say by themselves what was tried, and on which path.
impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { source, .. } => source,
            FileError::Special { .. } => Self::new(io::ErrorKind::InvalidInput, error.to_string()),
            FileError::Exists(_) => io::ErrorKind::AlreadyExists.into(),
        }
    }
}

/// A file in the making. Dropped before a commit, it leaves nothing.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl AtomicFile {
    /// Begins `path`; missing folders are made. Where `path` is a link to a file, that will be replaced, not the
    /// link; what is no regular file (a renamed file over `/dev/null` would break the machine) is refused.
    pub(crate) fn create(path: &Path) -> Result<Self, FileError> {
        if let Some(found) = special(path) {
            return Err(FileError::Special { path: path.to_owned(), found });
        }
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = folder_of(path);
        create_folder(folder)?;
        let failed = FileError::io("create a file in", folder);
        let file = held_file(folder).map_err(failed)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends; the caller buffers.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.file.as_file_mut().write_all(bytes).map_err(FileError::io("write", &self.path))
    }

    /// Puts the file in its place, over what was there.
    pub(crate) fn commit(self) -> Result<(), FileError> {
        self.sync()?;
        let Self { file, path } = self;
        file.persist(&path).map_err(|failed| FileError::io("write", &path)(failed.error))?;
        sync_folder(folder_of(&path))
    }

    /// Puts the file in its place, where nothing may be yet.
    pub(crate) fn commit_new(self) -> Result<(), FileError> {
        self.sync()?;
        let Self { file, path } = self;
        file.persist_noclobber(&path).map_err(|failed| match failed.error.kind() {
            io::ErrorKind::AlreadyExists => FileError::Exists(path.clone()),
            _ => FileError::io("write", &path)(failed.error),
        })?;
        sync_folder(folder_of(&path))
    }

    fn sync(&self) -> Result<(), FileError> {
        self.file.as_file().sync_all().map_err(FileError::io("write", &self.path))
    }
}

/// Replaces the content of `path`, or makes it.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = AtomicFile::create(path)?;
    file.write(bytes)?;
    file.commit()
}

/// What is there, if it is no regular file with a name: a device, a pipe, a folder, or `/dev/stdout` where it leads to a
/// file that was deleted.
fn special(path: &Path) -> Option<&'static str> {
    let data = fs::metadata(path).ok()?;
    irregular(&data).or_else(|| fs::canonicalize(path).is_err().then_some("a deleted file"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a folder and those above it, durably: a file in a folder that a power cut takes away is lost with it.
pub(crate) fn create_folder(folder: &Path) -> Result<(), FileError> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    if above != folder {
        create_folder(above)?;
    }
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(FileError::io("create the directory", folder)(error))
        }
        Err(_) if !folder.is_dir() => {
            Err(FileError::io("create the directory", folder)(io::ErrorKind::NotADirectory.into()))
        }
        _ => sync_folder(above),
    }
}

/// Makes names in a folder durable. Some file systems cannot, and say so with `EINVAL`: then nobody can.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), FileError> {
    match File::open(folder).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
            Err(FileError::io("write the directory", folder)(error))
        }
        _ => Ok(()),
    }
}

/// A new file under a lock, which tells [`remove_stale`] that it has a writer.
fn held_file(folder: &Path) -> io::Result<NamedTempFile> {
    loop {
        let file = tempfile::Builder::new()
            .prefix(PREFIX)
            // As every other file that the user makes, not private to them as scratch files are: the umask still applies.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        // Who looked for leftovers before we had the lock may have taken the file for one.
        if file_lock::hold(file.as_file(), file.path())? {
            return Ok(file);
        }
    }
}

/// Removes what killed processes left in a folder: a living writer holds the lock of its file. What cannot be removed
/// stays; it is never read.
pub(crate) fn remove_stale(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            file_lock::remove_free(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("folder")
            .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_absent_until_its_commit_and_then_whole() {
        let out = tempfile::tempdir().expect("tempdir");
        let path = out.path().join("a/b/c.csv");
        let mut file = AtomicFile::create(&path).expect("create");
        file.write(b"one\n").expect("write");
        assert!(!path.exists());
        file.commit().expect("commit");
        assert_eq!(fs::read(&path).expect("read"), b"one\n");
        assert_eq!(names(&out.path().join("a/b")), ["c.csv"]);
    }

    #[test]
    fn a_dropped_file_leaves_nothing_and_keeps_the_old_one() {
        let out = tempfile::tempdir().expect("tempdir");
        let path = out.path().join("c.csv");
        replace(&path, b"old").expect("old");
        let mut file = AtomicFile::create(&path).expect("create");
        file.write(b"new").expect("write");
        drop(file);
        assert_eq!(fs::read(&path).expect("read"), b"old");
        assert_eq!(names(out.path()), ["c.csv"]);
    }

    #[test]
    fn a_new_file_never_replaces_one() {
        let out = tempfile::tempdir().expect("tempdir");
        let path = out.path().join("c.csv");
        replace(&path, b"old").expect("old");
        let file = AtomicFile::create(&path).expect("create");
        assert!(matches!(file.commit_new(), Err(FileError::Exists(_))));
        assert_eq!(fs::read(&path).expect("read"), b"old");
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let out = tempfile::tempdir().expect("tempdir");
        let (link, path) = (out.path().join("link.csv"), out.path().join("c.csv"));
        fs::write(&path, b"old").expect("old");
        std::os::unix::fs::symlink(&path, &link).expect("link");
        replace(&link, b"new").expect("replace");
        assert!(link.is_symlink());
        assert_eq!(fs::read(&path).expect("read"), b"new");
    }

    #[test]
    fn sockets_and_folders_are_never_replaced() {
        let out = tempfile::tempdir().expect("tempdir");
        let socket = out.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        for path in [&socket, out.path()] {
            assert!(matches!(replace(path, b"x"), Err(FileError::Special { .. })), "{}", path.display());
        }
    }

    #[test]
    fn a_file_in_the_way_of_a_folder_is_named() {
        let out = tempfile::tempdir().expect("tempdir");
        fs::write(out.path().join("a"), b"").expect("file");
        let error = AtomicFile::create(&out.path().join("a/b.csv")).expect_err("a is a file").to_string();
        assert!(error.contains("create the directory") && error.contains("/a"), "{error}");
    }

    #[test]
    fn leftovers_that_nobody_writes_are_removed_and_nothing_else() {
        let out = tempfile::tempdir().expect("tempdir");
        let mut slow = AtomicFile::create(&out.path().join("slow.csv")).expect("create");
        slow.write(b"whole").expect("write");
        for name in [".ioc-new-1", "mine.csv"] {
            File::create(out.path().join(name)).expect("file");
        }
        remove_stale(out.path());
        slow.commit().expect("commit");
        assert_eq!(names(out.path()), ["mine.csv", "slow.csv"]);
        assert_eq!(fs::read(out.path().join("slow.csv")).expect("read"), b"whole");
    }

    #[test]
    fn a_file_that_is_begun_while_leftovers_are_removed_is_none_of_them() {
        let out = tempfile::tempdir().expect("tempdir");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    remove_stale(out.path());
                }
            });
            for number in 0..300 {
                let path = out.path().join(format!("{number}.csv"));
                replace(&path, b"whole").expect("nobody takes it away");
                assert_eq!(fs::read(&path).expect("read"), b"whole");
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
