//! Files opened by name to be read, all of them here. A name may lead to anything: opening a pipe waits for a writer
//! that never comes, and `/dev/zero` has no end. So nothing is read but regular files, no open waits, and a file that is
//! taken into memory whole has a bound.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::units::format_bytes;

/// Opens a regular file to read it. What else is there is an error of kind `InvalidInput` that says what, and what to
/// do; so that whoever adds the path has a whole sentence.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Looked at first, because opening a device may do something to it.
    check(&std::fs::metadata(path)?)?;
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path)?;
    // And again, since another may have taken its place.
    check(&file.metadata()?)?;
    Ok(file)
}

/// The content of a regular file, which is `most` bytes at most.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Not by the length that the system tells: files of `/proc` have none, and others may grow meanwhile.
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        let most = format_bytes(most);
        let text = format!(
            "it is longer than such a file ever is ({most}); take it away, or put the right one there"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(content)
}

/// What something is, where it is no regular file.
pub(crate) fn irregular(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

/// An error where it is no regular file.
pub(crate) fn check(metadata: &Metadata) -> io::Result<()> {
    let Some(found) = irregular(metadata) else { return Ok(()) };
    let text =
        format!("it is {found}, and a regular file is expected there; take it away, or name another file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn what_is_no_regular_file_is_named_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, link, socket) =
            (folder.path().join("pipe"), folder.path().join("link"), folder.path().join("s"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let found = |path: &Path| {
            let error = read(path, 10).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            error.to_string().split(", ").next().unwrap().to_owned()
        };
        assert_eq!(found(&pipe), "it is a named pipe");
        assert_eq!(found(&link), "it is a named pipe");
        assert_eq!(found(&socket), "it is a socket");
        assert_eq!(found(folder.path()), "it is a directory");
        assert_eq!(found(Path::new("/dev/zero")), "it is a device");
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_not_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read(&path, 10).unwrap(), b"0123456789");
        assert_eq!(read(&path, u64::MAX).unwrap().len(), 10);
        let error = read(&path, 9).unwrap_err().to_string();
        assert!(error.starts_with("it is longer than such a file ever is (9 B)"), "{error}");
        assert_eq!(read(&folder.path().join("none"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
