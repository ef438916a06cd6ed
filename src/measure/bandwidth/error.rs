//! Why a bandwidth cannot be measured.

use std::io;
use std::path::PathBuf;

use crate::units::format_bytes;

/// A probe that did not come to its end. Its files are gone all the same.
#[derive(Debug, thiserror::Error)]
pub enum BandwidthError {
    /// Not enough free space.
    #[error(
        "{}: the file to read needs {}, and {} are free; give a smaller --size or free some",
        directory.display(), format_bytes(*needed), format_bytes(*free)
    )]
    Space {
        /// Where.
        directory: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// The file cannot be written.
    #[error("{}: a file of {} to read cannot be written: {cause}", directory.display(), format_bytes(*size))]
    Write {
        /// Where.
        directory: PathBuf,
        /// Bytes.
        size: u64,
        /// What the system said.
        cause: io::Error,
    },
    /// The file cannot be opened again for reading.
    #[error("{}: the file written to be read cannot be opened: {cause}", directory.display())]
    Open {
        /// Where.
        directory: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// Reads would be the page cache's.
    #[error(
        "{}: its file system refuses O_DIRECT or is in memory, so that reads tell nothing of a device; name a \
         directory on an SSD",
        directory.display()
    )]
    Buffered {
        /// Where.
        directory: PathBuf,
    },
    /// A read failed.
    #[error("{}: a read failed: {cause}; check the device with `dmesg`", directory.display())]
    Read {
        /// Where.
        directory: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// An engine failed as a whole.
    #[error("the {engine} engine failed: {source}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The system grants no more threads.
    #[error(
        "the system grants no more threads: {0}; raise the limits on processes and memory (`ulimit -u`, `ulimit -v`)"
    )]
    Threads(io::Error),
    /// A device does not answer.
    #[error(
        "a read did not finish within ten seconds in one of {directories:?}; check the devices with `dmesg`"
    )]
    Stuck {
        /// Where it may be.
        directories: Vec<PathBuf>,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}
