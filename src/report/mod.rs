//! Reports: what a repetition becomes once it is over. A [`Row`] is one repetition; each attempt at one is a file
//! of its own (`attempts`), because a file written whole and renamed cannot be half there, and [`JobReport`]
//! rebuilds the table of a job from those files, so that no crash costs more than the repetition it hit.
//!
//! The columns, their order, units and meaning are declared once, in `row`; `docs/report.md` is checked against
//! that declaration. `table` shows the same rows to a person at a terminal.

use std::io;
use std::path::{Path, PathBuf};

use crate::atomic_file::FileError;
use crate::io_advice::advice;

mod attempts;
mod cell;
mod job;
mod row;
pub mod stats;
pub mod table;
mod values;

pub use attempts::{AttemptId, attempt_path, output_path, values_path, write_attempt};
pub use cell::{Cell, Digest, Phase, Seconds, Status};
pub use job::{JobReport, rebuild};
pub use row::{Column, Row, RowError, SCHEMA_VERSION};
pub use values::{ValuesWriter, copy_values};

/// Folder below a report's own where earlier attempts are kept.
pub(crate) const OLD_ATTEMPTS: &str = "old";

/// Why a report could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), advice(source, "choose another place"))]
    Io {
        /// What was tried: `create the directory`, `write`, ...
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The report would lie outside of the output directory.
    #[error(
        "the report path `{}` is not a plain relative path; expected names separated by `/`, such as `paper/fig1`",
        .0.display()
    )]
    Escapes(PathBuf),
    /// A run's id is no id.
    #[error(
        "the run id `{0}` cannot name a file; expected a lower-case letter, then lower-case letters and digits, \
         at most 64 in all"
    )]
    RunId(String),
    /// A device, a pipe or a folder where the report wants a file.
    #[error(
        "{} is {found} and not a regular file, and will not be replaced; take it away, or choose another place",
        path.display()
    )]
    Special {
        /// Where.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// An attempt is written once.
    #[error("the attempt {} exists already; continue with the next attempt number", .0.display())]
    Exists(PathBuf),
}

impl From<FileError> for ReportError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Io { action, path, source } => Self::Io { action, path, source },
            FileError::Special { path, found } => Self::Special { path, found },
            FileError::Exists(path) => Self::Exists(path),
        }
    }
}

impl ReportError {
    /// For `map_err`: what was tried, on which path.
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}
