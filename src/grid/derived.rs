//! What was made of a data set for other programs, beside its grids: exports, and folders that a peer's own preprocessing
//! filled. Each has a folder of its own, and is there when a file says so that is written last, as with a grid.
//!
//! Why not a temporary folder that is renamed: programs write paths of what they make into it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::error::GridError;
use super::files;
use super::inventory::{drop_empty, folders, unless_missing};
use super::lock::{self, InUse, Lock};
use super::paths::is_dataset_name;
use super::written::Written;
use crate::dataset::Context;
use crate::regular_file;

/// Written last.
const RECORD: &str = "record.json";
/// Bytes of a record at most: some lines.
const MOST_RECORD: u64 = 1 << 20;
/// How long a folder that is to be filled anew is waited for: commands that were killed are not gone at once.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DerivedKind {
    /// The data set in another format.
    Export,
    /// What a program made of it.
    Prepared,
}

impl DerivedKind {
    const ALL: [Self; 2] = [Self::Export, Self::Prepared];

    fn letter(self) -> char {
        match self {
            Self::Export => 'x',
            Self::Prepared => 'p',
        }
    }

    fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| {
            let hex = key.strip_prefix(kind.letter());
            hex.is_some_and(|hex| hex.len() == 16 && hex.chars().all(|c| c.is_ascii_hexdigit()))
        })
    }
}

/// What is recorded of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<T> {
    /// The files that are to stay as they are. Those of a program are its own.
    pub files: Vec<Written>,
    /// What they hold, and how they came about.
    #[serde(flatten)]
    pub what: T,
}

/// A folder of what was made, or is to be.
#[derive(Debug, Clone)]
pub struct Derived {
    /// Data set.
    pub dataset: String,
    /// What it is.
    pub kind: DerivedKind,
    /// The folder.
    pub dir: PathBuf,
}

impl Derived {
    /// The folder of what `identity` describes in full.
    ///
    /// # Errors
    /// Where the data set's name names no folder.
    pub fn new(data: &Path, dataset: &str, kind: DerivedKind, identity: &str) -> Result<Self, GridError> {
        if !is_dataset_name(dataset) {
            return Err(GridError::Name { name: dataset.to_owned() });
        }
        let hash = xxh3_64(identity.as_bytes());
        let dir = data.join(dataset).join(format!("{}{hash:016x}", kind.letter()));
        Ok(Self { dataset: dataset.to_owned(), kind, dir })
    }

    /// Its name in the data set's folder.
    pub fn key(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What is recorded of it, where it is complete.
    pub fn record<T: DeserializeOwned>(&self) -> Option<Record<T>> {
        let text = regular_file::read(&self.dir.join(RECORD), MOST_RECORD).ok()?;
        let record: Record<T> = serde_json::from_slice(&text).ok()?;
        record.files.iter().all(|file| file.has_its_length(&self.dir)).then_some(record)
    }

    /// Whether it is complete: its record can be read, and its files have their lengths.
    pub fn is_complete(&self) -> bool {
        self.record::<serde_json::Value>().is_some()
    }

    /// Keeps other processes from removing it while the result lives, where that is possible.
    pub fn hold(&self) -> Option<InUse> {
        lock::hold(&self.dir)
    }

    /// Reads the recorded files of a complete one, compares them with their checksums, and returns their bytes.
    ///
    /// # Errors
    /// Where one is unreadable or not as it was written.
    pub fn verify(&self, context: Context<'_>) -> Result<u64, GridError> {
        let files = self.record::<serde_json::Value>().map(|record| record.files).unwrap_or_default();
        files.iter().try_for_each(|file| file.verify(&self.dir, context))?;
        Ok(files.iter().map(|file| file.bytes).sum())
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        let entries = walkdir::WalkDir::new(&self.dir).into_iter().flatten();
        let files = entries.filter_map(|entry| entry.metadata().ok()).filter(std::fs::Metadata::is_file);
        files.map(|metadata| metadata.len()).sum()
    }

    /// Has `work` fill the folder, unless it is complete, while nobody else makes anything of the data set. What a failure
    /// or an earlier kill left is removed; not while something runs on that may still write to it, and holds the folder.
    ///
    /// # Errors
    /// That of the work, or of the files around it.
    pub fn make<T, E>(
        &self,
        context: Context<'_>,
        work: impl FnOnce(&Path) -> Result<Record<T>, E>,
    ) -> Result<Record<T>, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<GridError>,
    {
        let folder = self.dir.parent().unwrap_or(&self.dir);
        files::create_folder(folder)?;
        let lock = Lock::acquire(folder, &self.dataset, context)?;
        if let Some(record) = self.record() {
            return Ok(record);
        }
        let made = self.fill(work);
        if made.is_err() {
            // The work's own error is worth more than one of this.
            let _ = self.erase(PATIENCE);
            drop_empty(folder, lock);
        }
        made
    }

    fn fill<T: Serialize, E: From<GridError>>(
        &self,
        work: impl FnOnce(&Path) -> Result<Record<T>, E>,
    ) -> Result<Record<T>, E> {
        self.erase(PATIENCE)?;
        files::create_folder(&self.dir)?;
        let record = work(&self.dir)?;
        self.sync()?;
        let text = serde_json::to_vec_pretty(&record)
            .map_err(|error| GridError::io("writing", &self.dir.join(RECORD))(error.into()))?;
        files::replace(&self.dir, RECORD, &text)?;
        Ok(record)
    }

    /// Everything in it to the disk: programs seldom do that themselves.
    fn sync(&self) -> Result<(), GridError> {
        let sync = || -> std::io::Result<()> { Ok(rustix::fs::syncfs(File::open(&self.dir)?)?) };
        sync().map_err(GridError::io("syncing", &self.dir))
    }

    /// The record goes first: a removal that is cut short leaves nothing that is trusted. Those who use it have `patience`
    /// to end.
    fn erase(&self, patience: Duration) -> Result<(), GridError> {
        let _unused = lock::unused_within(&self.dir, patience)?;
        let record = self.dir.join(RECORD);
        unless_missing(std::fs::remove_file(&record), "removing", &record)?;
        unless_missing(std::fs::remove_dir_all(&self.dir), "removing", &self.dir)
    }
}

/// All that was made of the data sets of a data directory, complete or not. Of a data set whose folder cannot be listed
/// nothing: the list of its grids says so.
///
/// # Errors
/// Where the data directory cannot be listed.
pub fn list(data: &Path) -> Result<Vec<Derived>, GridError> {
    let datasets = folders(data, is_dataset_name)?;
    Ok(datasets.iter().filter_map(|dataset| of_dataset(data, dataset).ok()).flatten().collect())
}

pub(super) fn of_dataset(data: &Path, dataset: &str) -> Result<Vec<Derived>, GridError> {
    let folder = data.join(dataset);
    let keys = folders(&folder, |name| DerivedKind::of_key(name).is_some())?;
    let derived = |key: String| {
        let kind = DerivedKind::of_key(&key)?;
        Some(Derived { dataset: dataset.to_owned(), kind, dir: folder.join(key) })
    };
    Ok(keys.into_iter().filter_map(derived).collect())
}

/// Removes what was made of a data set, and returns how many folders that were, and their bytes. Not while its data set is
/// imported, nor what somebody uses.
///
/// # Errors
/// Where it is imported or used, or a file cannot be removed.
pub fn remove_all(data: &Path, dataset: &str) -> Result<(u64, u64), GridError> {
    if !is_dataset_name(dataset) {
        return Err(GridError::Name { name: dataset.to_owned() });
    }
    let all = of_dataset(data, dataset)?;
    if all.is_empty() {
        return Ok((0, 0));
    }
    let folder = data.join(dataset);
    let Some(lock) = Lock::try_acquire(&folder)? else {
        return Err(GridError::Busy { dataset: dataset.to_owned() });
    };
    let freed = erase_all(&all)?;
    drop_empty(&folder, lock);
    Ok((all.len() as u64, freed))
}

/// Removes what is not complete, under the data set's lock, and returns how many and their bytes.
pub(super) fn collect(data: &Path, dataset: &str) -> Result<(u64, u64), GridError> {
    let mut left = of_dataset(data, dataset)?;
    left.retain(|derived| !derived.is_complete());
    Ok((left.len() as u64, erase_all(&left)?))
}

fn erase_all(all: &[Derived]) -> Result<u64, GridError> {
    let mut freed = 0;
    for derived in all {
        let bytes = derived.bytes();
        derived.erase(Duration::ZERO)?;
        freed += bytes;
    }
    Ok(freed)
}
