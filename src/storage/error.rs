//! What can be wrong with the files of a grid.

use std::io;
use std::path::PathBuf;

use crate::io_advice::{advice, out_of_files};

/// Why the device files of a grid cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The directory that should hold the file is not there.
    #[error(
        "{} does not exist: the device directory vanished; mount its SSD again, change `storage.devices`, or build the grid again with `ioc build`",
        .directory.display()
    )]
    DirectoryVanished {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory is there, the file is not.
    #[error("{} is missing from its device: the grid is incomplete; build it again with `ioc build`", .path.display())]
    FileMissing {
        /// The file.
        path: PathBuf,
    },
    /// The user may not read it.
    #[error(
        "{} may not be read by this user (permission denied); change its mode or owner, or those of its directories",
        .path.display()
    )]
    Permission {
        /// The file.
        path: PathBuf,
    },
    /// A directory, a pipe or a device where a file was expected.
    #[error("{} is not a regular file; remove it and build the grid again with `ioc build`", .path.display())]
    NotAFile {
        /// What is no file.
        path: PathBuf,
    },
    /// The file cannot be opened, for another reason.
    #[error(
        "{} cannot be opened: {cause}{}",
        .path.display(),
        out_of_files(.cause).unwrap_or("; check the device with `dmesg` and `df`")
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Opened, but not read: at the trial before a run, or by a request of it.
    #[error(
        "{} cannot be read at byte {offset}: {cause}; check the device with `dmesg` and the grid with `ioc dataset verify`",
        .path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Vertex state does not go to its device.
    #[error("vertex state cannot be written to {}: {cause}{}", .folder.display(), advice(.cause, "choose another device"))]
    Write {
        /// The device's folder.
        folder: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The file ends before the grid does.
    #[error(
        "{} has {found} bytes where the grid's manifest says {expected}: it was cut short; build the grid again with `ioc build`",
        .path.display()
    )]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// What it should be, at least.
        expected: u64,
    },
    /// The manifest speaks of more or fewer files than there are.
    #[error(
        "{found} device files are open where the grid's manifest lists {expected}; build the grid again with `ioc build`"
    )]
    Count {
        /// Files open.
        found: usize,
        /// Files listed.
        expected: usize,
    },
}
