//! What lies in a data directory: listing, removing, cleaning up.

use std::path::{Path, PathBuf};

use super::derived;
use super::error::GridError;
use super::files::{self, is_missing};
use super::lock::{self, LOCK_FILE, Lock};
use super::open::{Grid, read_manifest};
use super::orphans::{self, Orphans};
use super::paths::{
    GridPaths, MANIFEST, device_of, is_dataset_name, is_layout_key, recorded_folders, unmounted_device,
};
use crate::atomic_file;

/// A layout's folder.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Data set.
    pub dataset: String,
    /// Layout key; empty where not even the data set's folder can be listed.
    pub key: String,
    /// The folder.
    pub dir: PathBuf,
    /// The grid; `None` where its import did not end, or something is missing.
    pub grid: Option<Grid>,
    /// Its folders on devices; none where all is in `dir`.
    pub folders: Vec<PathBuf>,
    /// Why there is no grid, where it is that: a device's directory that is not mounted.
    pub unmounted: Option<PathBuf>,
    /// Why it is unknown whether there is a grid, where it is: what could not be read.
    pub unreadable: Option<String>,
    /// Bytes of all its files, on all devices, as far as they can be seen.
    pub bytes: u64,
}

impl Layout {
    fn of(dataset: &str, key: String, dir: PathBuf) -> Self {
        let (grid, bytes) = (found(&dir), size(&dir));
        let faults = [grid.as_ref().err(), bytes.as_ref().err()];
        let unreadable = faults.into_iter().flatten().next().map(ToString::to_string);
        let grid = grid.ok().flatten().filter(|_| unreadable.is_none());
        let unmounted = if grid.is_some() || unreadable.is_some() { None } else { unmounted_device(&dir) };
        let folders = recorded_folders(&dir);
        let bytes = bytes.unwrap_or_default();
        Self { dataset: dataset.to_owned(), key, dir, grid, folders, unmounted, unreadable, bytes }
    }

    /// What stands for all layouts of a data set whose folder cannot be listed.
    fn hidden(dataset: &str, dir: PathBuf, error: &GridError) -> Self {
        Self {
            dataset: dataset.to_owned(),
            key: String::new(),
            dir,
            grid: None,
            folders: Vec::new(),
            unmounted: None,
            unreadable: Some(error.to_string()),
            bytes: 0,
        }
    }
}

/// What [`gc`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Layouts removed.
    pub layouts: u64,
    /// Bytes freed.
    pub bytes: u64,
    /// Exports and prepared folders removed that were not complete.
    pub derived: u64,
    /// Folders on devices removed of which no layout spoke any more.
    pub orphans: u64,
    /// Data sets left alone because they are being imported.
    pub busy: Vec<String>,
    /// Devices' directories that are not mounted, whose layouts were left alone.
    pub unmounted: Vec<PathBuf>,
    /// What could not be read or removed, and was left alone: an error each.
    pub failed: Vec<String>,
}

/// All layouts of a data directory, complete, readable or not, by data set and key. A directory that does not exist has
/// none; folders that are not ours are passed over.
pub fn list(data: &Path) -> Result<Vec<Layout>, GridError> {
    let mut layouts = Vec::new();
    for dataset in folders(data, is_dataset_name)? {
        let folder = data.join(&dataset);
        match folders(&folder, is_layout_key) {
            Ok(keys) => layouts.extend(keys.into_iter().map(|key| {
                let dir = folder.join(&key);
                Layout::of(&dataset, key, dir)
            })),
            Err(error) => layouts.push(Layout::hidden(&dataset, folder, &error)),
        }
    }
    Ok(layouts)
}

/// Removes a layout and returns the bytes freed: 0 where there is none. Not while its data set is imported.
pub fn remove(data: &Path, dataset: &str, key: &str) -> Result<u64, GridError> {
    if !is_dataset_name(dataset) || !is_layout_key(key) {
        return Err(GridError::Name { name: format!("{dataset}/{key}") });
    }
    let folder = data.join(dataset);
    if !folder.is_dir() {
        return Ok(0);
    }
    let Some(lock) = Lock::try_acquire(&folder)? else {
        return Err(GridError::Busy { dataset: dataset.to_owned() });
    };
    let freed = erase(&folder.join(key), &[])?;
    drop_empty(&folder, lock);
    Ok(freed)
}

/// Removes every layout that is not complete, and those that `keep` does not want; then, on the devices given and on those
/// that any layout is on, the folders of layouts that are gone from `data`; and temporary files that nobody writes any
/// more. Data sets that are being imported are left alone, and so are layouts whose devices are not mounted, and what
/// cannot be read: one of those stops nothing.
pub fn gc(data: &Path, devices: &[PathBuf], keep: impl Fn(&Layout) -> bool) -> Result<Collected, GridError> {
    let mut devices = devices.to_vec();
    let mut collected = Collected::default();
    atomic_file::remove_stale(data);
    for dataset in folders(data, is_dataset_name)? {
        collected.dataset(data, &dataset, &mut devices, &keep).unwrap_or_else(|error| collected.fail(&error));
    }
    devices.sort_unstable();
    devices.dedup();
    for device in devices {
        let Orphans { folders, bytes } = orphans::collect(data, &device).unwrap_or_else(|error| {
            collected.fail(&error);
            Orphans::default()
        });
        collected.orphans += folders;
        collected.bytes += bytes;
    }
    Ok(collected)
}

impl Collected {
    fn fail(&mut self, error: &GridError) {
        self.failed.push(error.to_string());
    }

    /// Cleans up after a data set, and adds the devices that its layouts are on.
    fn dataset(
        &mut self,
        data: &Path,
        dataset: &str,
        devices: &mut Vec<PathBuf>,
        keep: &impl Fn(&Layout) -> bool,
    ) -> Result<(), GridError> {
        let folder = data.join(dataset);
        let derived = derived::of_dataset(data, dataset)?;
        if folders(&folder, is_layout_key)?.is_empty()
            && derived.is_empty()
            && !folder.join(LOCK_FILE).exists()
        {
            return Ok(());
        }
        let Some(lock) = Lock::try_acquire(&folder)? else {
            self.busy.push(dataset.to_owned());
            return Ok(());
        };
        for key in folders(&folder, is_layout_key)? {
            let dir = folder.join(&key);
            atomic_file::remove_stale(&dir);
            let layout = Layout::of(dataset, key, dir);
            devices.extend(layout.folders.iter().map(|folder| device_of(folder).to_owned()));
            self.layout(layout, keep);
        }
        let (made, bytes) = derived::collect(data, dataset)?;
        self.derived += made;
        self.bytes += bytes;
        drop_empty(&folder, lock);
        Ok(())
    }

    fn layout(&mut self, layout: Layout, keep: &impl Fn(&Layout) -> bool) {
        if let Some(device) = layout.unmounted {
            self.unmounted.push(device);
        } else if let Some(error) = layout.unreadable {
            self.failed.push(error);
        } else if layout.grid.is_none() || !keep(&layout) {
            match erase(&layout.dir, &[]) {
                Ok(bytes) => {
                    self.bytes += bytes;
                    self.layouts += 1;
                }
                Err(error) => self.fail(&error),
            }
        }
    }
}

/// Removes a layout's folder, its folders on devices as recorded, and `more` of those. The manifest goes first: a
/// removal that is cut short leaves no grid. Outside the data directory only files of edges are removed, and
/// folders that are empty then.
pub(super) fn erase(dir: &Path, more: &[PathBuf]) -> Result<u64, GridError> {
    let _unused = lock::unused(dir)?;
    let freed = size(dir)?;
    let manifest = dir.join(MANIFEST);
    match std::fs::remove_file(&manifest) {
        Ok(()) => files::sync_folder(dir)?,
        // A folder in its place makes no grid either, and goes with the rest.
        Err(error) if is_missing(&error) || error.kind() == std::io::ErrorKind::IsADirectory => {}
        Err(error) => return Err(GridError::io("removing", &manifest)(error)),
    }
    for folder in recorded_folders(dir).iter().chain(more) {
        remove_parts(folder)?;
    }
    unless_missing(std::fs::remove_dir_all(dir), "removing", dir)?;
    Ok(freed)
}

/// Removes the files of edges in a folder on a device, and the folder if it is empty then. Returns the bytes freed.
pub(super) fn remove_parts(folder: &Path) -> Result<u64, GridError> {
    let mut freed = 0;
    for part in part_files(folder)? {
        let bytes = part.metadata().map_or(0, |metadata| metadata.len());
        unless_missing(std::fs::remove_file(&part), "removing", &part)?;
        freed += bytes;
    }
    // Whatever else somebody put there is theirs, and then the folder stays.
    let _ = std::fs::remove_dir(folder);
    Ok(freed)
}

/// Removes a data set's folder if only the lock is left in it. Whoever waits for the lock notices
/// ([`Lock::try_acquire`]).
pub(super) fn drop_empty(folder: &Path, lock: Lock) {
    let only_lock = |entries: std::fs::ReadDir| {
        entries.flatten().all(|entry| entry.file_name().to_str() == Some(LOCK_FILE))
    };
    if std::fs::read_dir(folder).is_ok_and(only_lock) {
        let _ = std::fs::remove_file(folder.join(LOCK_FILE));
        let _ = std::fs::remove_dir(folder);
    }
    drop(lock);
}

fn found(dir: &Path) -> Result<Option<Grid>, GridError> {
    let Some(manifest) = read_manifest(&GridPaths::recorded(dir.to_owned(), 1))? else { return Ok(None) };
    let paths = GridPaths::recorded(dir.to_owned(), manifest.ssds);
    Grid { manifest, paths }.if_complete(true)
}

/// Bytes of a layout's files.
fn size(dir: &Path) -> Result<u64, GridError> {
    let own = walkdir::WalkDir::new(dir).into_iter().flatten().filter_map(|entry| entry.metadata().ok());
    let mut bytes: u64 = own.filter(std::fs::Metadata::is_file).map(|metadata| metadata.len()).sum();
    for folder in recorded_folders(dir) {
        let parts = part_files(&folder)?;
        bytes +=
            parts.iter().filter_map(|part| part.metadata().ok()).map(|metadata| metadata.len()).sum::<u64>();
    }
    Ok(bytes)
}

/// The files of edges in a folder on a device; none where the device is gone.
fn part_files(folder: &Path) -> Result<Vec<PathBuf>, GridError> {
    let is_part =
        |name: &str| name.strip_prefix("edges-").is_some_and(|rest| rest.strip_suffix(".ioc").is_some());
    Ok(names(folder)?.into_iter().filter(|name| is_part(name)).map(|name| folder.join(name)).collect())
}

/// Folders in a folder whose names satisfy `wanted`, sorted.
pub(super) fn folders(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, GridError> {
    let mut names = names(folder)?;
    names.retain(|name| wanted(name) && folder.join(name).is_dir());
    names.sort_unstable();
    Ok(names)
}

/// Names in a folder, which may not exist.
fn names(folder: &Path) -> Result<Vec<String>, GridError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(GridError::io("listing", folder)(error)),
    };
    let name = |entry: std::fs::DirEntry| entry.file_name().into_string().ok();
    let entries: Result<Vec<_>, _> = entries.collect();
    Ok(entries.map_err(GridError::io("listing", folder))?.into_iter().filter_map(name).collect())
}

pub(super) fn unless_missing(
    result: std::io::Result<()>,
    action: &'static str,
    path: &Path,
) -> Result<(), GridError> {
    match result {
        Err(error) if !is_missing(&error) => Err(GridError::io(action, path)(error)),
        _ => Ok(()),
    }
}
