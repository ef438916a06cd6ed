//! One process at a time on a job's report. Its folder holds the plan that children read and the attempts that they
//! write: two batches there at once would give each other's children another plan, and take each other's numbers.
//!
//! Processes that run one run each of a frozen plan (`--plan FILE --index N`, as the tasks of an array job do) share the
//! job, and each has its run for itself.

use std::path::{Path, PathBuf};

use super::plan::JobPlan;
use crate::atomic_file;
use crate::file_lock::{FileLock, Sharing, holder};
use crate::io_advice::advice;
use crate::report::ReportError;

/// Name of the job's lock file in its folder. That of its run number N is `.N.lock`.
const LOCK_FILE: &str = ".lock";

/// Why a job's report cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else writes it.
    #[error(
        "{} is in use: {holder} runs or builds this job; wait until it has ended, or give this one a folder of its \
         own with --out",
        folder.display()
    )]
    Busy {
        /// The report's folder.
        folder: PathBuf,
        /// As it signed.
        holder: String,
    },
    /// The lock itself failed.
    #[error(
        "cannot lock {}: {source}{}",
        path.display(),
        advice(source, "choose a folder on another file system with --out")
    )]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder cannot be made.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// The lock on a job's report, until dropped.
#[derive(Debug)]
pub struct JobLock {
    _locks: Vec<FileLock>,
}

impl JobLock {
    /// Locks what the plan is going to write, and does not wait for it.
    ///
    /// # Errors
    /// Where another process has it, who that is.
    pub fn acquire(plan: &JobPlan) -> Result<Self, LockError> {
        let folder = plan.folder();
        atomic_file::create_folder(&folder).map_err(ReportError::from)?;
        let lock = |name: &str, sharing| acquire(&folder, name, sharing);
        let locks = match plan.selected() {
            None => vec![lock(LOCK_FILE, Sharing::Exclusive)?],
            Some(run) => {
                let own = format!(".{run}.lock");
                vec![lock(LOCK_FILE, Sharing::Shared)?, lock(&own, Sharing::Exclusive)?]
            }
        };
        Ok(Self { _locks: locks })
    }
}

fn acquire(folder: &Path, name: &str, sharing: Sharing) -> Result<FileLock, LockError> {
    let path = folder.join(name);
    let failed = |source| LockError::Io { path: path.clone(), source };
    let Some(mut lock) = FileLock::try_acquire(&path, sharing).map_err(failed)? else {
        return Err(LockError::Busy { folder: folder.to_owned(), holder: holder(&path) });
    };
    lock.sign().map_err(failed)?;
    Ok(lock)
}
