//! Where a layout lies.
//!
//! `DATA/<dataset>/<layout key>/` holds the manifest, the degrees and the ids; each device's edges are in
//! `<device>/<dataset>-<layout key>-<data>/edges-<i>.ioc`, or in `device-<i>/` of the layout's own folder where no
//! devices are named. `<data>` is a hash of the data directory's path, so that two data directories that share a
//! device do not share files. `paths.json`, written before anything else, remembers the folders on devices: they
//! can be removed even when the job that named them is gone; and their file systems: an empty mount point is told from
//! the disk that belongs there.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::job::spec::{Auto, GridSpec, StorageSpec};

use super::chunk::CHUNK;
use super::columns::AUTO_VERSION;
use super::compact::WINDOW;
use super::error::GridError;
use super::files;
use super::manifest::{Encoding, FORMAT, Order};
use crate::regular_file;

/// Which layout of which data set.
#[derive(Debug, Clone, Copy)]
pub struct LayoutRequest<'a> {
    /// Name in the registry.
    pub dataset: &'a str,
    /// Fingerprint of source and reading options.
    pub fingerprint: &'a str,
    /// How the edges are laid out.
    pub grid: &'a GridSpec,
    /// Where: `ssds`, `stripe` and `devices` count, the rest does not.
    pub storage: &'a StorageSpec,
}

impl LayoutRequest<'_> {
    /// Whether names and sizes are such that a layout can be made of them.
    pub(super) fn check(&self) -> Result<(), GridError> {
        if !is_dataset_name(self.dataset) {
            return Err(GridError::Name { name: self.dataset.to_owned() });
        }
        let StorageSpec { stripe, ssds, ref devices, .. } = *self.storage;
        if stripe == 0 || !stripe.is_multiple_of(CHUNK as u64) {
            return Err(GridError::Stripe { stripe, chunk: CHUNK });
        }
        match (Encoding::from(self.grid.encoding), self.grid.source_window) {
            (Encoding::Compact, Auto::Value(window)) if window > WINDOW => {
                return Err(GridError::Window { window, most: WINDOW });
            }
            _ => {}
        }
        if ssds == 0 || !(devices.is_empty() || devices.len() == ssds as usize) {
            return Err(GridError::Devices { ssds, devices: devices.len() });
        }
        Ok(())
    }
}

/// Name of the layout's folder: `g` and 16 hex digits, a hash of all that decides which bytes are written and
/// how they are dealt. What is `auto` stays so, with the version of the rules, so that the key is the same on
/// every machine; paths are no part of it.
pub fn layout_key(request: &LayoutRequest<'_>) -> String {
    let encoding = Encoding::from(request.grid.encoding) as u16;
    let columns = as_written(request.grid.columns);
    let window = as_written(request.grid.source_window);
    let StorageSpec { ssds, stripe, .. } = request.storage;
    let fingerprint = request.fingerprint;
    let mut text = format!("{FORMAT}|{fingerprint}|{encoding}|{columns}|{window}|{ssds}|{stripe}");
    match Order::asked(request.grid) {
        Some(Order::Natural) => {}
        Some(order) => text = format!("{text}|{}", order.name()),
        None => text = format!("{text}|auto{AUTO_VERSION}"),
    }
    format!("g{:016x}", xxh3_64(text.as_bytes()))
}

fn as_written<T: std::fmt::Display>(value: Auto<T>) -> String {
    match value {
        Auto::Auto => format!("auto{AUTO_VERSION}"),
        Auto::Value(value) => value.to_string(),
    }
}

/// The paths of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridPaths {
    /// `DATA/<dataset>/<layout key>`.
    pub dir: PathBuf,
    /// One file of edges per device.
    pub parts: Vec<PathBuf>,
    /// The layout's folders on devices: none where its parts are below `dir`.
    pub(super) folders: Vec<PathBuf>,
}

impl GridPaths {
    /// The paths that `request` asks for; nothing need be there yet.
    pub fn new(data: &Path, request: &LayoutRequest<'_>) -> Result<Self, GridError> {
        request.check()?;
        let key = layout_key(request);
        let dir = data.join(request.dataset).join(&key);
        let home = home_hash(data)?;
        let folder = format!("{}-{key}-{home:08x}", request.dataset);
        let folders = request.storage.devices.iter().map(|device| device.join(&folder)).collect();
        Ok(Self::with_folders(dir, folders, request.storage.ssds))
    }

    /// The paths of a layout found in a data directory, its folders on devices as `paths.json` says.
    pub(super) fn recorded(dir: PathBuf, ssds: u32) -> Self {
        let folders = recorded_folders(&dir);
        Self::with_folders(dir, folders, ssds)
    }

    fn with_folders(dir: PathBuf, folders: Vec<PathBuf>, ssds: u32) -> Self {
        let own = |device: u32| dir.join(format!("device-{device}"));
        let folder = |device: u32| folders.get(device as usize).cloned().unwrap_or_else(|| own(device));
        let parts = (0..ssds).map(|device| folder(device).join(format!("edges-{device}.ioc"))).collect();
        Self { dir, parts, folders }
    }

    /// The manifest.
    pub fn manifest(&self) -> PathBuf {
        self.dir.join(MANIFEST)
    }

    /// Out-degrees, u32 little endian, one per vertex.
    pub fn degrees(&self) -> PathBuf {
        self.dir.join("degrees.bin")
    }

    /// What each chunk holds: see [`super::Contents`].
    pub fn contents(&self) -> PathBuf {
        self.dir.join("contents.bin")
    }

    /// Original ids, u64 little endian, ascending; there only where ids are not dense.
    pub fn ids(&self) -> PathBuf {
        self.dir.join("ids.bin")
    }

    /// Dense index of every position, u32 little endian; there only where the order is not natural.
    pub fn order(&self) -> PathBuf {
        self.dir.join("order.bin")
    }

    /// The devices' own directories must be there: a missing one is a disk that is not mounted, and must not become a
    /// folder on another disk.
    pub(super) fn check_devices(&self) -> Result<(), GridError> {
        match self.folders.iter().map(|folder| device_of(folder)).find(|device| !device.is_dir()) {
            Some(device) => Err(GridError::Device { path: device.to_owned() }),
            None => Ok(()),
        }
    }

    /// Creates the folders and `paths.json`, which remembers on which file systems they are.
    pub(super) fn create(&self) -> Result<(), GridError> {
        self.check_devices()?;
        files::create_folder(&self.dir)?;
        let file_systems = self.folders.iter().map(|folder| file_system(device_of(folder))).collect();
        let recorded = Recorded { folders: self.folders.clone(), file_systems };
        let json = serde_json::to_vec_pretty(&recorded)
            .map_err(|error| GridError::io("writing", &self.dir.join(PATHS))(error.into()))?;
        files::replace(&self.dir, PATHS, &json)?;
        let in_folder = |part: &PathBuf| part.parent().map_or(Ok(()), files::create_folder);
        self.parts.iter().try_for_each(in_folder)
    }
}

/// Name of the file that makes a grid exist.
pub(super) const MANIFEST: &str = "manifest.json";
/// Name of the file that remembers folders on devices.
const PATHS: &str = "paths.json";

/// Bytes that it has at most: 64 paths.
const MOST_PATHS: u64 = 1 << 20;

/// `paths.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Recorded {
    folders: Vec<PathBuf>,
    /// By folder: see [`file_system`]. Files of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    file_systems: Vec<Option<u64>>,
}

fn recorded(dir: &Path) -> Recorded {
    let json = regular_file::read(&dir.join(PATHS), MOST_PATHS).ok();
    json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

/// A device's directory that, as far as can be seen, is not mounted: of a layout in `dir` whose files are not all there,
/// the first device that has no directory, or one on another file system than when its folder was made.
pub(super) fn unmounted_device(dir: &Path) -> Option<PathBuf> {
    let folders = recorded_folders(dir);
    let Recorded { folders: all, file_systems } = recorded(dir);
    let then = |folder: &PathBuf| {
        all.iter().zip(&file_systems).find(|(other, _)| *other == folder).and_then(|(_, &then)| then)
    };
    let is_away = |folder: &PathBuf| {
        let device = device_of(folder);
        let other = |then| file_system(device).is_some_and(|now| now != then);
        !device.is_dir() || then(folder).is_some_and(other)
    };
    folders.iter().find(|folder| is_away(folder)).map(|folder| device_of(folder).to_owned())
}

/// The device's own directory, that a folder of ours is in.
pub(super) fn device_of(folder: &Path) -> &Path {
    folder.parent().unwrap_or(folder)
}

/// What tells a file system from another one, also after a reboot, as far as the kernel has such a thing: the `f_fsid` of
/// `statfs`. Of ext4, btrfs, f2fs, ZFS and others it is made of the UUID; of XFS of the device's number, which a reboot may
/// change; network file systems and some others have none (0), and are not told apart.
fn file_system(directory: &Path) -> Option<u64> {
    rustix::fs::statvfs(directory).ok().map(|status| status.f_fsid).filter(|&id| id != 0)
}

/// What names of folders on devices end in: two data directories that share a device do not share folders.
pub(super) fn home_hash(data: &Path) -> Result<u32, GridError> {
    let home = data.canonicalize().or_else(|_| std::path::absolute(data));
    let home = home.map_err(GridError::io("resolving", data))?;
    Ok(xxh3_64(home.as_os_str().as_encoded_bytes()) as u32)
}

/// Folders on devices of the layout in `dir`. A `paths.json` that is missing or damaged names none; and one that
/// was tampered with names none but folders that bear this layout's name.
pub(super) fn recorded_folders(dir: &Path) -> Vec<PathBuf> {
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let Some((dataset, key)) = dir.parent().and_then(name).zip(name(dir)) else { return Vec::new() };
    let prefix = format!("{dataset}-{key}-");
    let is_ours = |folder: &PathBuf| name(folder).is_some_and(|name| name.starts_with(&prefix));
    recorded(dir).folders.into_iter().filter(is_ours).collect()
}

/// Extension of our own files in the data directory (`digests.json`, `probe.json`), where each data set has a folder of
/// its name.
pub(crate) const OWN_FILES: &str = ".json";

/// Characters that a data set's name has at most: file systems have names of 255 bytes, and that of a folder on a device
/// has 27 behind the data set's.
pub(crate) const MOST_NAME: usize = 200;

/// `[A-Za-z0-9][A-Za-z0-9._-]*`, not longer than [`MOST_NAME`]: no separator and no leading dot, so that no path made of it leaves its folder. Nor does
/// it end in [`OWN_FILES`].
pub(super) fn is_dataset_name(name: &str) -> bool {
    name.len() <= MOST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !name.ends_with(OWN_FILES)
}

/// Whether a folder's name is one that [`layout_key`] makes.
pub(super) fn is_layout_key(name: &str) -> bool {
    name.strip_prefix('g').is_some_and(|hex| hex.len() == 16 && hex.chars().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_folder() {
        for bad in ["digests.json", "", ".", "..", ".hidden", "-x", "a/b", "a\\b", "a\0b", "ä", "/etc"] {
            assert!(!is_dataset_name(bad), "{bad:?}");
        }
        assert!(is_dataset_name(&"a".repeat(MOST_NAME)) && !is_dataset_name(&"a".repeat(MOST_NAME + 1)));
        for good in ["a", "7", "kron-22", "A.b_c-d", "a..b"] {
            assert!(is_dataset_name(good), "{good:?}");
        }
    }
}
