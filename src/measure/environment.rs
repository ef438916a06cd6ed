//! The machine, as the last columns of every row name it. What a system does not tell stays `None`, which becomes
//! an empty cell: not measured, never 0. Reading and parsing are apart, so that other machines' texts can be tested.

use std::fs;
use std::path::Path;

/// A machine and the program on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The user's label: `$IOC_MACHINE`, else `local`.
    pub machine: String,
    /// As the CPU calls itself.
    pub cpu_model: Option<String>,
    /// Cores that this process may use (affinity and cgroup quota counted), `None` where unknown.
    pub cores: Option<usize>,
    /// Bytes of the first core's second-level cache.
    pub l2_b: Option<u64>,
    /// Bytes of its last-level cache.
    pub llc_b: Option<u64>,
    /// Bytes of memory, all of the machine's.
    pub memory_total_b: Option<u64>,
    /// As `uname -r`.
    pub kernel_release: String,
    /// Version of this program.
    pub ioc_version: &'static str,
    /// Revision it was built from, `g<hash>` or `g<hash>-dirty`; `None` outside a repository.
    pub git_rev: Option<&'static str>,
    /// Slurm's job, as `sacct` takes it (`JOB` or `ARRAY_TASK`).
    pub slurm_job: Option<String>,
    /// Slurm's name of the node.
    pub slurm_node: Option<String>,
}

impl Environment {
    /// This machine, now.
    pub fn current() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let caches = read_caches(Path::new("/sys/devices/system/cpu/cpu0/cache"));
        Self {
            machine: variable("IOC_MACHINE").unwrap_or_else(|| "local".to_owned()),
            cpu_model: read("/proc/cpuinfo").and_then(|cpuinfo| parse_cpu_model(&cpuinfo)),
            cores: std::thread::available_parallelism().ok().map(Into::into),
            l2_b: caches.iter().find(|cache| cache.level == 2).map(|cache| cache.bytes),
            llc_b: caches.iter().max_by_key(|cache| cache.level).map(|cache| cache.bytes),
            memory_total_b: read("/proc/meminfo").and_then(|meminfo| kib_line(&meminfo, "MemTotal")),
            kernel_release: rustix::system::uname().release().to_string_lossy().into_owned(),
            ioc_version: env!("CARGO_PKG_VERSION"),
            git_rev: option_env!("IOC_GIT_REV").filter(|revision| !revision.is_empty()),
            slurm_job: slurm_job(variable),
            slurm_node: variable("SLURMD_NODENAME"),
        }
    }
}

/// Bytes of memory that a process may take now without others being swapped out; `None` where the system does not
/// tell.
pub fn memory_available() -> Option<u64> {
    kib_line(&read("/proc/meminfo")?, "MemAvailable")
}

/// A cache that holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cache {
    level: u32,
    bytes: u64,
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The data caches below a core's sysfs folder (`index0`, `index1`, ...), none where the machine does not tell.
fn read_caches(folder: &Path) -> Vec<Cache> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let field = |name| fs::read_to_string(entry.path().join(name)).ok();
            parse_cache(&field("level")?, &field("type")?, &field("size")?)
        })
        .collect()
}

fn parse_cache(level: &str, kind: &str, size: &str) -> Option<Cache> {
    if kind.trim() == "Instruction" {
        return None;
    }
    Some(Cache { level: level.trim().parse().ok()?, bytes: parse_cache_size(size.trim())? })
}

/// `32768K`, as the kernel prints the size of a cache.
fn parse_cache_size(size: &str) -> Option<u64> {
    let kib: u64 = size.strip_suffix('K')?.parse().ok()?;
    kib.checked_mul(1024).filter(|&bytes| bytes > 0)
}

/// The first `model name` (x86) or `Model` (several Arm boards) of `/proc/cpuinfo`.
fn parse_cpu_model(cpuinfo: &str) -> Option<String> {
    let value_of = |key: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    value_of("model name").or_else(|| value_of("Model")).filter(|model| !model.is_empty())
}

/// Bytes of the line `key: N kB`, as in `/proc/meminfo` and `/proc/self/status`.
pub(super) fn kib_line(text: &str, key: &str) -> Option<u64> {
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| *name == key)?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

fn slurm_job(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
        (Some(job), Some(task)) => Some(format!("{job}_{task}")),
        _ => variable("SLURM_JOB_ID"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_label_a_kernel_and_this_version() {
        let environment = Environment::current();
        assert!(!environment.machine.is_empty() && !environment.kernel_release.is_empty());
        assert_eq!(environment.ioc_version, env!("CARGO_PKG_VERSION"));
        if let Some(revision) = environment.git_rev {
            assert!(revision.starts_with('g'), "{revision}");
        }
    }

    #[test]
    fn the_model_is_found_on_x86_and_arm_boards_and_missing_elsewhere() {
        let x86 = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 9R14\nmodel name\t: other\n";
        assert_eq!(parse_cpu_model(x86).as_deref(), Some("AMD EPYC 9R14"));
        let board = "processor\t: 0\nCPU part\t: 0xd08\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n";
        assert_eq!(parse_cpu_model(board).as_deref(), Some("Raspberry Pi 4 Model B Rev 1.4"));
        assert_eq!(parse_cpu_model("processor\t: 0\nBogoMIPS\t: 243.75\n"), None);
    }

    #[test]
    fn caches_of_instructions_do_not_count() {
        assert_eq!(parse_cache("1\n", "Instruction\n", "32K\n"), None);
        assert_eq!(
            parse_cache("3\n", "Unified\n", "32768K\n"),
            Some(Cache { level: 3, bytes: 32 * 1024 * 1024 })
        );
    }

    #[test]
    fn a_size_that_the_kernel_does_not_know_is_no_size() {
        for size in ["", "K", "0K", "512", "-1K", "18446744073709551615K"] {
            assert_eq!(parse_cache_size(size), None, "{size}");
        }
    }

    #[test]
    fn the_last_level_is_the_deepest_one_and_a_machine_may_hide_them() {
        let folder = tempfile::tempdir().unwrap();
        for (index, [level, kind, size]) in
            [["1", "Data", "32K"], ["3", "Unified", "4096K"], ["2", "Unified", "512K"]].iter().enumerate()
        {
            let cache = folder.path().join(format!("index{index}"));
            fs::create_dir(&cache).unwrap();
            for (name, value) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(cache.join(name), format!("{value}\n")).unwrap();
            }
        }
        fs::write(folder.path().join("uevent"), "").unwrap();
        let mut levels: Vec<_> = read_caches(folder.path()).iter().map(|cache| cache.level).collect();
        levels.sort_unstable();
        assert_eq!(levels, [1, 2, 3]);
        assert_eq!(read_caches(&folder.path().join("absent")), []);
    }

    #[test]
    fn memory_is_in_bytes() {
        let meminfo = "MemTotal:       49368192 kB\nMemFree:        1 kB\n";
        assert_eq!(kib_line(meminfo, "MemTotal"), Some(49_368_192 * 1024));
        assert_eq!(kib_line(meminfo, "Mem"), None);
    }

    #[test]
    fn a_task_of_an_array_is_named_as_sacct_takes_it() {
        let array = |name: &str| match name {
            "SLURM_JOB_ID" => Some("1007".to_owned()),
            "SLURM_ARRAY_JOB_ID" => Some("1000".to_owned()),
            "SLURM_ARRAY_TASK_ID" => Some("7".to_owned()),
            _ => None,
        };
        assert_eq!(slurm_job(array).as_deref(), Some("1000_7"));
        let single = |name: &str| (name == "SLURM_JOB_ID").then(|| "1007".to_owned());
        assert_eq!(slurm_job(single).as_deref(), Some("1007"));
        assert_eq!(slurm_job(|_| None), None);
    }
}
