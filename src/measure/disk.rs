//! Which file system and which disk a directory lies on.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// Disks may be stacked (a partition in LVM in dm-crypt in RAID); deeper than this is a cycle.
const MAX_STACK: u32 = 8;

/// Type of the file system that a directory lies on, as `mount` names it: `ext4`, `xfs`, `tmpfs`. `None` where
/// the directory does not exist or the system does not tell.
pub fn filesystem(directory: &Path) -> Option<String> {
    mount_of(directory).map(|mount| mount.filesystem)
}

/// The file system that a directory lies on, told apart from all others of the machine: `xfs /dev/sda1 at /mnt/ssd0`.
/// `None` where the directory does not exist or the system does not tell.
pub fn place(directory: &Path) -> Option<String> {
    let Mount { filesystem, source, point, .. } = mount_of(directory)?;
    Some(format!("{filesystem} {} at {}", source.display(), point.display()))
}

/// Model of the disk that a directory lies on, as the disk calls itself. Where several make up one device (LVM,
/// RAID), all models. `None` where there is none (tmpfs, network, loop devices, most virtual disks).
pub fn disk_model(directory: &Path) -> Option<String> {
    let device = fs::metadata(directory).ok()?.dev();
    let device = match major(device) {
        // btrfs and others number their volumes themselves; then the mount knows its device.
        0 => fs::metadata(mount_of(directory)?.source).ok()?.rdev(),
        _ => device,
    };
    let entry = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    model_of(&fs::canonicalize(entry).ok()?, MAX_STACK)
}

/// What `of` says of several directories: each answer once, in order, joined by ` + `; `None` where it never
/// knows. For the single cell that describes all devices of a run.
pub fn of_all(directories: &[PathBuf], of: impl Fn(&Path) -> Option<String>) -> Option<String> {
    join(directories.iter().filter_map(|directory| of(directory)))
}

fn join(names: impl Iterator<Item = String>) -> Option<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join(" + "))
}

/// Model of a block device by its sysfs folder.
fn model_of(folder: &Path, depth: u32) -> Option<String> {
    let model = fs::read_to_string(folder.join("device/model")).ok();
    if let Some(model) = model.map(|model| model.trim().to_owned()).filter(|model| !model.is_empty()) {
        return Some(model);
    }
    let below = depth.checked_sub(1)?;
    if folder.join("partition").exists() {
        return model_of(folder.parent()?, below);
    }
    let mut slaves: Vec<_> =
        fs::read_dir(folder.join("slaves")).ok()?.flatten().map(|slave| slave.path()).collect();
    slaves.sort();
    join(slaves.iter().filter_map(|slave| model_of(&fs::canonicalize(slave).ok()?, below)))
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    device: String,
    point: PathBuf,
    filesystem: String,
    source: PathBuf,
}

fn mount_of(directory: &Path) -> Option<Mount> {
    let directory = fs::canonicalize(directory).ok()?;
    let device = fs::metadata(&directory).ok()?.dev();
    let device = format!("{}:{}", major(device), minor(device));
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    choose_mount(&parse_mounts(&mounts), &directory, &device).cloned()
}

/// The mount that a path lies on: the deepest one above it, and of several on the same point the last. One of
/// the path's own device comes first, because a later mount may hide a deeper one; btrfs reports other devices.
fn choose_mount<'a>(mounts: &'a [Mount], path: &Path, device: &str) -> Option<&'a Mount> {
    let deepest = |mounts: &mut dyn Iterator<Item = &'a Mount>| {
        mounts
            .filter(|mount| path.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.as_os_str().len())
    };
    deepest(&mut mounts.iter().filter(|mount| mount.device == device)).or_else(|| deepest(&mut mounts.iter()))
}

/// The lines of `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`):
/// `36 35 98:0 /root /point options [tags ...] - type source superblock-options`.
fn parse_mounts(mountinfo: &[u8]) -> Vec<Mount> {
    mountinfo.split(|&byte| byte == b'\n').filter_map(parse_mount).collect()
}

fn parse_mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = String::from_utf8_lossy(fields.nth(2)?).into_owned();
    let point = unescape(fields.nth(1)?);
    fields.find(|field| *field == b"-")?;
    let filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(Mount { device, point, filesystem, source: unescape(fields.next()?) })
}

/// Blanks, tabs, newlines and backslashes are written as `\` and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        let code = behind.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &[u8] = b"\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
40 27 259:1 / /mnt/old\\040disk rw - xfs /dev/nvme0n1p1 rw,attr2
41 27 0:40 /@data /mnt/data rw - btrfs /dev/sdb2 rw,subvol=/@data
42 27 0:50 / /mnt/data/deep rw - tmpfs tmpfs rw
43 27 8:1 / /mnt/data rw - ext3 /dev/sda1 rw

a torn line";

    fn chosen(path: &str, device: &str) -> String {
        let mounts = parse_mounts(MOUNTINFO);
        choose_mount(&mounts, Path::new(path), device).unwrap().filesystem.clone()
    }

    #[test]
    fn a_path_lies_on_the_deepest_mount_above_it() {
        assert_eq!(chosen("/home/user", "254:0"), "ext4");
        assert_eq!(chosen("/mnt/old disk/grid", "259:1"), "xfs");
        assert_eq!(chosen("/mnt/old diskette", "254:0"), "ext4");
    }

    #[test]
    fn a_mount_that_another_hides_is_told_by_the_device() {
        assert_eq!(chosen("/mnt/data/deep", "8:1"), "ext3");
        assert_eq!(chosen("/mnt/data/deep", "0:50"), "tmpfs");
    }

    #[test]
    fn an_unlisted_device_falls_back_to_the_path_and_the_last_mount_on_it() {
        assert_eq!(chosen("/mnt/data/grid", "0:99"), "ext3");
    }

    #[test]
    fn escapes_are_octal_and_a_stray_backslash_stays() {
        assert_eq!(unescape(b"/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(unescape(b"/a\\9\\04"), Path::new("/a\\9\\04"));
    }

    #[test]
    fn a_partition_has_its_disks_model_and_a_volume_those_of_its_disks() {
        let root = tempfile::tempdir().unwrap();
        for (disk, model) in [("nvme0n1", "Fast Disk 1\n"), ("sda", "Slow Disk  \n"), ("vda", "")] {
            fs::create_dir_all(root.path().join(disk).join("device")).unwrap();
            fs::create_dir_all(root.path().join(disk).join("part")).unwrap();
            fs::write(root.path().join(disk).join("part/partition"), "1\n").unwrap();
            if !model.is_empty() {
                fs::write(root.path().join(disk).join("device/model"), model).unwrap();
            }
        }
        let volume = root.path().join("dm-0");
        fs::create_dir_all(volume.join("slaves")).unwrap();
        for (slave, disk) in [("a", "nvme0n1/part"), ("b", "sda/part"), ("c", "sda")] {
            std::os::unix::fs::symlink(root.path().join(disk), volume.join("slaves").join(slave)).unwrap();
        }
        let model = |name: &str| model_of(&root.path().join(name), MAX_STACK);
        assert_eq!(model("nvme0n1/part").as_deref(), Some("Fast Disk 1"));
        assert_eq!(model("dm-0").as_deref(), Some("Fast Disk 1 + Slow Disk"));
        assert_eq!(model("vda/part"), None);
    }

    #[test]
    fn a_stack_that_bites_its_tail_ends() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("slaves")).unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("slaves/self")).unwrap();
        assert_eq!(model_of(root.path(), MAX_STACK), None);
    }

    #[test]
    fn this_systems_own_directories_are_found() {
        assert_eq!(filesystem(Path::new("/proc")).as_deref(), Some("proc"));
        assert_eq!(disk_model(Path::new("/proc")), None);
        assert_eq!(filesystem(Path::new("/no/such/directory")), None);
        let directories = ["/proc", "/proc/self", "/no/such/directory"].map(PathBuf::from);
        assert_eq!(of_all(&directories, filesystem).as_deref(), Some("proc"));
    }
}
