//! What `ioc probe` found best, kept in `DATA/probe.json` for `block_size`, `io_depth` and `io_threads = "auto"`.
//!
//! Probes are known by the file systems that they read from, so a run on some of the probed devices has their advice
//! too. The file is a convenience: what cannot be read is as if nothing had been probed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk;
use crate::job::limits;
use crate::job::spec::{Auto, IoSpec};
use crate::report::ReportError;
use crate::{atomic_file, regular_file};

/// The file's name in the data directory.
pub const FILE: &str = "probe.json";

const VERSION: u32 = 1;

/// Bytes that it has at most: thousands of sets of devices.
const MOST: u64 = 16 << 20;

/// How to ask a set of devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// Bytes per request.
    pub block: u64,
    /// Requests outstanding per device.
    pub depth: u32,
    /// The fewest I/O threads that fill all devices.
    pub io_threads: u32,
    /// For each block size measured, ascending, the fewest requests per device that get all it can give.
    pub depths: Vec<(u64, u32)>,
}

impl Advice {
    /// The depth for a block size that the user chose: that of the nearest one measured which is not larger, since
    /// smaller blocks need more requests.
    pub fn depth_for(&self, block: u64) -> u32 {
        let not_larger = self.depths.iter().rev().find(|(measured, _)| *measured <= block);
        not_larger.or(self.depths.first()).map_or(self.depth, |&(_, depth)| depth)
    }

    /// The advice for `some` of the `all` devices that it was measured on.
    fn for_some(mut self, some: usize, all: usize) -> Self {
        let threads = (u64::from(self.io_threads) * some as u64).div_ceil(all.max(1) as u64);
        // Not above what it was.
        self.io_threads = threads.max(1) as u32;
        self
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    probes: Vec<Probed>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Probed {
    /// [`disk::place`] of every device, sorted; one file system may be there twice.
    devices: Vec<String>,
    /// By the engine's name.
    advice: BTreeMap<String, Advice>,
}

/// Keeps what was found for these directories, one per device, in place of what was known of the same devices and
/// engines, and returns where. `None` where one of them lies nowhere that has a name.
///
/// # Errors
/// Where the file cannot be written.
pub fn save(
    data: &Path,
    directories: &[PathBuf],
    advice: &[(IoSpec, Advice)],
) -> Result<Option<PathBuf>, ReportError> {
    let Some(devices) = places(directories) else { return Ok(None) };
    let path = data.join(FILE);
    let mut stored = load(data);
    let same = stored.probes.iter().position(|probed| probed.devices == devices);
    let mut probed =
        same.map_or_else(|| Probed { devices, advice: BTreeMap::new() }, |same| stored.probes.remove(same));
    probed.advice.extend(advice.iter().map(|(io, advice)| (io.name().to_owned(), advice.clone())));
    stored.probes.push(probed);
    // Numbers and strings: nothing that JSON could not take.
    let text = serde_json::to_vec_pretty(&stored).unwrap_or_default();
    atomic_file::replace(&path, &text).map_err(ReportError::from)?;
    Ok(Some(path))
}

/// The advice for these directories, one per device: that of a probe of just these devices, otherwise of the smallest
/// set probed that has them all.
pub fn find(data: &Path, directories: &[PathBuf], io: IoSpec) -> Option<Advice> {
    let wanted = places(directories)?;
    let stored = load(data);
    let of_all =
        |probed: &&Probed| contains(&probed.devices, &wanted) && probed.advice.contains_key(io.name());
    // The latest first: of sets of the same size it counts.
    let probed = stored.probes.iter().rev().filter(of_all).min_by_key(|probed| probed.devices.len())?;
    let advice = probed.advice.get(io.name())?.clone();
    Some(advice.for_some(wanted.len(), probed.devices.len()))
}

fn places(directories: &[PathBuf]) -> Option<Vec<String>> {
    let mut places =
        directories.iter().map(|directory| disk::place(directory)).collect::<Option<Vec<_>>>()?;
    places.sort_unstable();
    Some(places)
}

/// Whether `all` has each of `some` as often; both are sorted.
fn contains(all: &[String], some: &[String]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|one| rest.any(|other| other == one))
}

fn load(data: &Path) -> Stored {
    let text = regular_file::read(&data.join(FILE), MOST).ok();
    let stored = text.and_then(|text| serde_json::from_slice::<Stored>(&text).ok());
    let block = |block| limits::auto("engine.block_size", Auto::Value(block)).is_ok();
    let depth = |depth| limits::auto("engine.io_depth", Auto::Value(depth)).is_ok();
    let threads = |threads| limits::auto("engine.io_threads", Auto::Value(threads)).is_ok();
    let usable = |advice: &Advice| {
        let depths = advice.depths.iter().all(|&(_, outstanding)| depth(outstanding));
        block(advice.block) && depth(advice.depth) && depths && threads(advice.io_threads)
    };
    let mut stored = stored
        .filter(|stored| stored.version == VERSION)
        .unwrap_or(Stored { version: VERSION, probes: Vec::new() });
    stored.probes.retain(|probed| probed.advice.values().all(usable));
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(block: u64) -> Advice {
        Advice { block, depth: 4, io_threads: 2, depths: vec![(32 << 10, 32), (128 << 10, 16), (1 << 20, 4)] }
    }

    fn here(times: usize) -> Vec<PathBuf> {
        vec![PathBuf::from("/proc"); times]
    }

    #[test]
    fn advice_that_no_job_could_give_is_not_followed() {
        let data = tempfile::tempdir().unwrap();
        let kept = |change: &dyn Fn(&mut Advice)| {
            let mut advice = advice(1 << 20);
            change(&mut advice);
            let probed =
                Probed { devices: vec!["d".into()], advice: BTreeMap::from([("libaio".into(), advice)]) };
            let stored = Stored { version: VERSION, probes: vec![probed] };
            std::fs::write(data.path().join(FILE), serde_json::to_vec(&stored).unwrap()).unwrap();
            load(data.path()).probes.len()
        };
        assert_eq!(kept(&|_| {}), 1);
        assert_eq!(kept(&|advice| advice.block = 2048), 0);
        assert_eq!(kept(&|advice| advice.block = 1 << 60), 0);
        assert_eq!(kept(&|advice| advice.depth = 0), 0);
        assert_eq!(kept(&|advice| advice.io_threads = 1 << 30), 0);
        assert_eq!(kept(&|advice| advice.depths[0].1 = u32::MAX), 0);
    }

    #[test]
    fn a_depth_is_that_of_the_nearest_block_that_is_not_larger() {
        let advice = advice(1 << 20);
        let depths =
            [4 << 10, 32 << 10, 100 << 10, 128 << 10, 1 << 19, 24 << 20].map(|b| advice.depth_for(b));
        assert_eq!(depths, [32, 32, 32, 16, 16, 4]);
    }

    #[test]
    fn advice_is_found_for_the_same_devices_and_for_some_of_them_but_not_for_more() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(find(data.path(), &here(1), IoSpec::Libaio), None);
        let four = Advice { io_threads: 3, ..advice(1 << 20) };
        save(data.path(), &here(4), &[(IoSpec::Libaio, four)]).unwrap().unwrap();
        let threads = |devices, io| find(data.path(), &here(devices), io).map(|advice| advice.io_threads);
        assert_eq!([1, 2, 4].map(|n| threads(n, IoSpec::Libaio)), [Some(1), Some(2), Some(3)]);
        assert_eq!(threads(5, IoSpec::Libaio), None);
        assert_eq!(threads(4, IoSpec::Psync), None);
        assert_eq!(find(data.path(), &[PathBuf::from("/no/such/directory")], IoSpec::Libaio), None);
    }

    #[test]
    fn the_smallest_set_and_its_latest_probe_count() {
        let data = tempfile::tempdir().unwrap();
        for (devices, block) in [(3, 1 << 20), (2, 1 << 16), (2, 1 << 18), (4, 1 << 21)] {
            save(data.path(), &here(devices), &[(IoSpec::Psync, advice(block))]).unwrap();
        }
        let blocks = [1, 2, 3, 4].map(|n| find(data.path(), &here(n), IoSpec::Psync).unwrap().block);
        assert_eq!(blocks, [1 << 18, 1 << 18, 1 << 20, 1 << 21]);
    }

    #[test]
    fn a_probe_of_one_engine_leaves_the_advice_for_the_others() {
        let data = tempfile::tempdir().unwrap();
        let probe = |io, block| save(data.path(), &here(1), &[(io, advice(block))]).unwrap();
        probe(IoSpec::Psync, 1 << 16);
        probe(IoSpec::Libaio, 1 << 18);
        probe(IoSpec::Psync, 1 << 20);
        let block = |io| find(data.path(), &here(1), io).map(|advice| advice.block);
        assert_eq!((block(IoSpec::Psync), block(IoSpec::Libaio)), (Some(1 << 20), Some(1 << 18)));
    }

    #[test]
    fn what_is_no_advice_is_passed_over_and_written_anew() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE);
        save(data.path(), &here(1), &[(IoSpec::Libaio, advice(1 << 20))]).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        let newer = good.replace("\"version\": 1", "\"version\": 99");
        let absurd = good.replace("\"io_threads\": 2", "\"io_threads\": 0");
        for text in ["", "{", "[1]", "{\"version\":1}", &newer, &absurd] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(find(data.path(), &here(1), IoSpec::Libaio), None, "{text}");
        }
        save(data.path(), &here(1), &[(IoSpec::Libaio, advice(1 << 20))]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), good);
    }
}
