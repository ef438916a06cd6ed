//! The files of a grid, one per device, opened so that a read is a read of the device: past the page cache
//! (O_DIRECT) where the file system lets us. Where it does not, reads are buffered and [`DeviceFiles::direct`]
//! says so, because a rate that the page cache had a hand in must be recognisable in a report.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::Errno;

use super::buffer::{ALIGNMENT, AlignedBuffer};
use super::error::StorageError;

/// The open files of a grid, in the order of its devices. Shared by all engines of a run.
#[derive(Debug)]
pub struct DeviceFiles {
    devices: Vec<Device>,
}

#[derive(Debug)]
struct Device {
    path: PathBuf,
    file: File,
    len: u64,
    direct: bool,
}

impl DeviceFiles {
    /// Opens every file read-only.
    ///
    /// # Errors
    /// The first file that is missing, is no regular file, may not be read or cannot be.
    pub fn open(paths: &[PathBuf]) -> Result<Self, StorageError> {
        let devices = paths.iter().map(|path| Device::open(path)).collect::<Result<_, _>>()?;
        Ok(Self { devices })
    }

    /// Opens files again that are open to be written, and may have no names any more; `names` are for messages.
    ///
    /// # Errors
    /// The first that cannot be read.
    pub fn open_again<'a>(files: impl Iterator<Item = (&'a File, PathBuf)>) -> Result<Self, StorageError> {
        let open = |(file, path): (&File, PathBuf)| {
            let device = Device::open(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))?;
            Ok(Device { path, ..device })
        };
        Ok(Self { devices: files.map(open).collect::<Result<_, _>>()? })
    }

    /// Whether every file is at least as long as it should be: `expected[i]` bytes for device `i`.
    ///
    /// # Errors
    /// The first file that is too short, or another number of lengths than of files.
    pub fn check_lengths(&self, expected: &[u64]) -> Result<(), StorageError> {
        if expected.len() != self.count() {
            return Err(StorageError::Count { found: self.count(), expected: expected.len() });
        }
        match self.devices.iter().zip(expected).find(|(device, expected)| device.len < **expected) {
            Some((device, &expected)) => {
                Err(StorageError::TooShort { path: device.path.clone(), found: device.len, expected })
            }
            None => Ok(()),
        }
    }

    /// The error of a request that failed with `cause`, with its file and place. A device that does not exist is
    /// named by its number.
    pub fn read_error(&self, device: usize, offset: u64, cause: io::Error) -> StorageError {
        let path = self.devices.get(device).map(|device| device.path.clone());
        StorageError::Read { path: path.unwrap_or_else(|| format!("device {device}").into()), offset, cause }
    }

    /// Number of devices.
    pub fn count(&self) -> usize {
        self.devices.len()
    }

    /// Whether reads of every device go past the page cache.
    pub fn direct(&self) -> bool {
        self.devices.iter().all(|device| device.direct)
    }

    /// Path of a device's file.
    ///
    /// # Panics
    /// This and the accessors below, where there is no such device.
    pub fn path(&self, device: usize) -> &Path {
        &self.devices[device].path
    }

    /// Bytes of a device's file when it was opened.
    pub fn len(&self, device: usize) -> u64 {
        self.devices[device].len
    }

    /// A device's file.
    pub fn file(&self, device: usize) -> &File {
        &self.devices[device].file
    }

    /// A device's file as a descriptor that may not outlive this.
    pub fn fd(&self, device: usize) -> BorrowedFd<'_> {
        self.devices[device].file.as_fd()
    }
}

impl Device {
    fn open(path: &Path) -> Result<Self, StorageError> {
        let metadata = fs::metadata(path).map_err(|cause| open_error(path, cause))?;
        // Before the open, because opening a pipe waits for its writer.
        if !metadata.is_file() {
            return Err(StorageError::NotAFile { path: path.to_owned() });
        }
        let (file, direct) = match open_direct(path)? {
            Some(file) => (file, true),
            None => (open_buffered(path)?, false),
        };
        let len = file.metadata().map_err(|cause| open_error(path, cause))?.len();
        Ok(Self { path: path.to_owned(), file, len, direct })
    }
}

/// The file with O_DIRECT, or none where the file system refuses: some do at the open, others only when read.
fn open_direct(path: &Path) -> Result<Option<File>, StorageError> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(cause) if refuses_direct(&cause) => return Ok(None),
        Err(cause) => return Err(open_error(path, cause)),
    };
    match file.read_at(&mut AlignedBuffer::new(ALIGNMENT), 0) {
        Ok(_) if is_memory(&file) => Ok(None),
        Ok(_) => Ok(Some(file)),
        Err(cause) if refuses_direct(&cause) => Ok(None),
        Err(cause) => Err(StorageError::Read { path: path.to_owned(), offset: 0, cause }),
    }
}

fn open_buffered(path: &Path) -> Result<File, StorageError> {
    let file = File::open(path).map_err(|cause| open_error(path, cause))?;
    file.read_at(&mut [0], 0).map_err(|cause| StorageError::Read {
        path: path.to_owned(),
        offset: 0,
        cause,
    })?;
    // A repetition should not find the pages of the one before. Advice only: where it fails, so be it.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(file)
}

/// Linux accepts O_DIRECT on tmpfs from 6.6 on, and reads memory all the same: direct in name only.
fn is_memory(file: &File) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58F6;
    rustix::fs::fstatfs(file).is_ok_and(|status| matches!(status.f_type, TMPFS | RAMFS))
}

fn refuses_direct(cause: &io::Error) -> bool {
    [Errno::INVAL, Errno::OPNOTSUPP].iter().any(|errno| cause.raw_os_error() == Some(errno.raw_os_error()))
}

fn open_error(path: &Path, cause: io::Error) -> StorageError {
    let path = path.to_owned();
    match cause.kind() {
        io::ErrorKind::PermissionDenied => StorageError::Permission { path },
        io::ErrorKind::NotFound => match path.parent() {
            Some(directory) if !directory.as_os_str().is_empty() && !directory.exists() => {
                StorageError::DirectoryVanished { directory: directory.to_owned() }
            }
            _ => StorageError::FileMissing { path },
        },
        _ => StorageError::Open { path, cause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(name: &str, len: usize) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, vec![7; len]).unwrap();
        (folder, path)
    }

    fn refusal(path: &Path) -> StorageError {
        DeviceFiles::open(&[path.to_owned()]).unwrap_err()
    }

    #[test]
    fn files_are_counted_measured_and_named_in_order() {
        let (_first, a) = folder_with("part-0", 8192);
        let (_second, b) = folder_with("part-1", 0);
        let files = DeviceFiles::open(&[a.clone(), b.clone()]).unwrap();
        assert_eq!((files.count(), files.len(0), files.len(1)), (2, 8192, 0));
        assert_eq!((files.path(0), files.path(1)), (a.as_path(), b.as_path()));
    }

    #[test]
    fn a_file_system_without_direct_reads_is_read_buffered_and_says_so() {
        // procfs knows no direct I/O on any kernel.
        let files = DeviceFiles::open(&[PathBuf::from("/proc/version")]).unwrap();
        assert!(!files.direct());
        let mut start = [0; 5];
        files.file(0).read_exact_at(&mut start, 0).unwrap();
        assert_eq!(&start, b"Linux");
    }

    #[test]
    fn a_file_in_memory_is_not_direct_whatever_the_kernel_accepts() {
        let shm = Path::new("/dev/shm");
        let Ok(file) = tempfile::NamedTempFile::new_in(shm) else { return };
        if is_memory(file.as_file()) {
            assert!(!DeviceFiles::open(&[file.path().to_owned()]).unwrap().direct());
        }
    }

    #[test]
    fn one_buffered_file_makes_the_whole_not_direct() {
        let (_folder, path) = folder_with("part-0", 4096);
        let files = DeviceFiles::open(&[path, PathBuf::from("/proc/version")]).unwrap();
        assert!(!files.direct());
    }

    #[test]
    fn a_vanished_directory_is_told_apart_from_a_missing_file() {
        let (folder, path) = folder_with("part-0", 1);
        let error = refusal(&folder.path().join("part-1"));
        assert!(error.to_string().contains("part-1 is missing from its device"), "{error}");
        drop(folder);
        let error = refusal(&path);
        assert!(error.to_string().contains("the device directory vanished"), "{error}");
    }

    #[test]
    fn directories_and_pipes_are_refused_and_do_not_hang() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(refusal(folder.path()), StorageError::NotAFile { .. }));
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert!(matches!(refusal(&pipe), StorageError::NotAFile { .. }));
    }

    #[test]
    fn a_failed_request_is_named_by_file_and_byte() {
        let files = DeviceFiles::open(&[PathBuf::from("/proc/version")]).unwrap();
        let error = files.read_error(0, 65536, Errno::IO.into());
        insta::assert_snapshot!(error, @"/proc/version cannot be read at byte 65536: Input/output error (os error 5); check the device with `dmesg` and the grid with `ioc dataset verify`");
        assert!(files.read_error(7, 0, Errno::IO.into()).to_string().starts_with("device 7 cannot be read"));
    }

    #[test]
    fn a_denied_permission_is_named_as_such() {
        let error = open_error(Path::new("/mnt/ssd0/part-0"), Errno::ACCESS.into());
        insta::assert_snapshot!(error, @"/mnt/ssd0/part-0 may not be read by this user (permission denied); change its mode or owner, or those of its directories");
    }

    #[test]
    fn a_file_shorter_than_the_manifest_says_is_an_error_with_both_lengths() {
        let (_folder, path) = folder_with("part-0", 4096);
        let files = DeviceFiles::open(&[path]).unwrap();
        files.check_lengths(&[4096]).unwrap();
        let error = files.check_lengths(&[8192]).unwrap_err().to_string();
        assert!(error.contains("part-0 has 4096 bytes where the grid's manifest says 8192"), "{error}");
        assert!(matches!(files.check_lengths(&[1, 1]), Err(StorageError::Count { found: 1, expected: 2 })));
    }
}
