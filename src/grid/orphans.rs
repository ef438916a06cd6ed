//! Folders on devices that no layout speaks of any more, because somebody removed the data directory by hand.
//!
//! Only such folders are taken as are recognisably ours: by a name that no chance makes (`<dataset>-<layout key>-<hash of
//! the data directory>`), which also tells the folders of other data directories apart: those may be in use.

use std::path::{Path, PathBuf};

use super::error::GridError;
use super::files;
use super::inventory::{self, drop_empty};
use super::lock::Lock;
use super::paths::{home_hash, is_dataset_name, is_layout_key, recorded_folders};
use crate::file_id::FileId;

/// What became of the folders.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Folders removed.
    pub(super) folders: u64,
    /// Bytes freed.
    pub(super) bytes: u64,
}

/// Removes the files of edges, and folders that are empty then, of layouts that are gone from `data`, on this device.
/// Those of a data set that is being imported are left alone.
pub(super) fn collect(data: &Path, device: &Path) -> Result<Orphans, GridError> {
    let home = home_hash(data)?;
    let mut orphans = Orphans::default();
    for name in inventory::folders(device, |name| owner(name, home).is_some())? {
        let Some((dataset, key)) = owner(&name, home) else { continue };
        let folder = device.join(&name);
        let of_dataset = data.join(dataset);
        // An import makes the layout's own folder before those on devices, so that under the lock the former tells.
        files::create_folder(&of_dataset)?;
        let Some(lock) = Lock::try_acquire(&of_dataset)? else { continue };
        if !is_recorded(&of_dataset.join(key), &folder) {
            orphans.bytes += inventory::remove_parts(&folder)?;
            orphans.folders += 1;
        }
        drop_empty(&of_dataset, lock);
    }
    Ok(orphans)
}

/// Data set and layout key of a folder's name, where it is of this data directory.
fn owner(name: &str, home: u32) -> Option<(&str, &str)> {
    let (rest, hash) = name.rsplit_once('-')?;
    let (dataset, key) = rest.rsplit_once('-')?;
    (is_dataset_name(dataset) && is_layout_key(key) && hash == format!("{home:08x}"))
        .then_some((dataset, key))
}

/// Whether the layout in `dir` has this folder, by whatever path.
fn is_recorded(dir: &Path, folder: &Path) -> bool {
    let same = |recorded: &PathBuf| recorded == folder || FileId::at(recorded) == FileId::at(folder);
    recorded_folders(dir).iter().any(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_making_and_our_data_directory_are_ours() {
        let name = "a-b.c-g0123456789abcdef-0000002a";
        assert_eq!(owner(name, 42), Some(("a-b.c", "g0123456789abcdef")));
        assert_eq!(owner(name, 43), None);
        for other in ["", "backup", "a-g0123456789abcdef", "a-g0123-0000002a", "-g0123456789abcdef-0000002a"]
        {
            assert_eq!(owner(other, 42), None, "{other}");
        }
    }
}
