//! What a machine and one of its directories offer, found by trying it where that is possible. Nothing here
//! fails: what cannot be found out says why, because `ioc probe` is what people run when something is wrong.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk;
use super::environment::Environment;
use crate::io::{ReadRequest, open_engine};
use crate::job::spec::IoSpec;
use crate::storage::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::device::DeviceFiles;
use crate::units::format_bytes;

/// What was found out about one feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is there; the text, if any, says more.
    Yes(String),
    /// It is not, for this reason.
    No(String),
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// A directory and the machine it is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The directory.
    pub directory: PathBuf,
    /// Type of its file system.
    pub filesystem: Option<String>,
    /// Model of its disk.
    pub disk_model: Option<String>,
    /// Whether reads can go past the page cache.
    pub direct: Finding,
    /// Whether the kernel's AIO reads here.
    pub libaio: Finding,
    /// Whether the kernel offers `io_uring`.
    pub io_uring: Finding,
    /// Whether hardware counters can be read.
    pub counters: Finding,
    /// The machine.
    pub environment: Environment,
}

/// Tries what `directory` and this machine offer. Writes a page to a temporary file in the directory, if it may.
pub fn probe(directory: &Path) -> Probe {
    let (direct, libaio) = match try_reads(directory) {
        Ok(findings) => findings,
        Err(why) => (Finding::Unknown(why.clone()), Finding::Unknown(why)),
    };
    Probe {
        directory: directory.to_owned(),
        filesystem: disk::filesystem(directory),
        disk_model: disk::disk_model(directory),
        direct,
        libaio,
        io_uring: io_uring(read("/proc/sys/kernel/io_uring_disabled").as_deref()),
        counters: counters(has_counters(), read("/proc/sys/kernel/perf_event_paranoid").as_deref()),
        environment: Environment::current(),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Whether O_DIRECT and libaio read back a page that is written to a file here.
fn try_reads(directory: &Path) -> Result<(Finding, Finding), String> {
    let page = [0xA5_u8; ALIGNMENT];
    let mut file = tempfile::NamedTempFile::new_in(directory)
        .map_err(|error| format!("no file can be written to {}: {error}", directory.display()))?;
    file.write_all(&page)
        .and_then(|()| file.as_file().sync_all())
        .map_err(|error| format!("a page cannot be written to {}: {error}", directory.display()))?;
    let files = DeviceFiles::open(&[file.path().to_owned()]).map_err(|error| error.to_string())?;
    let direct = if files.direct() {
        Finding::Yes(String::new())
    } else {
        Finding::No("the file system refuses it or is in memory; reads are buffered".to_owned())
    };
    let libaio = match read_by_aio(files, &page) {
        Ok(()) => Finding::Yes(String::new()),
        Err(error) => Finding::No(error.to_string()),
    };
    Ok((direct, libaio))
}

fn read_by_aio(files: DeviceFiles, page: &[u8]) -> std::io::Result<()> {
    let mut engine = open_engine(IoSpec::Libaio, Arc::new(files), 1, None)?;
    let buffer = AlignedBuffer::new(ALIGNMENT);
    engine.submit(&mut vec![ReadRequest { device: 0, offset: 0, len: page.len(), buffer, tag: 0 }])?;
    let mut completions = Vec::new();
    // A sleeping disk may need seconds; a minute is a disk that does not answer.
    for _ in 0..600 {
        engine.reap(&mut completions)?;
        if let Some(completion) = completions.pop() {
            completion.result?;
            let same = completion.request.buffer[..page.len()] == *page;
            return if same {
                Ok(())
            } else {
                Err(std::io::Error::other("it read other bytes than written"))
            };
        }
    }
    // Dropping the engine would wait for the read, and with a dead disk that is for ever.
    std::mem::forget(engine);
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "a read did not finish within a minute"))
}

/// From `kernel.io_uring_disabled`, which kernels have from 6.6 on.
fn io_uring(disabled: Option<&str>) -> Finding {
    match disabled.map(str::trim) {
        Some("0") => Finding::Yes("not used yet".to_owned()),
        Some("1") => Finding::No(
            "kernel.io_uring_disabled = 1: for privileged processes and its group only; not used yet"
                .to_owned(),
        ),
        Some(setting) => Finding::No(format!("kernel.io_uring_disabled = {setting}; not used yet")),
        None => {
            Finding::Unknown("this kernel has no setting kernel.io_uring_disabled; not used yet".to_owned())
        }
    }
}

/// Whether the kernel drives a core's performance counters: `cpu` on x86 (`cpu_core` where cores are of two
/// kinds), `armv8_pmuv3_0` and the like on Arm.
fn has_counters() -> bool {
    let Ok(entries) = fs::read_dir("/sys/bus/event_source/devices") else { return false };
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| name == "cpu" || name == "cpu_core" || name.starts_with("armv"))
}

/// A process may count for itself up to `kernel.perf_event_paranoid = 2`; distributions add levels above.
fn counters(present: bool, paranoid: Option<&str>) -> Finding {
    if !present {
        return Finding::No("this machine shows none, as most virtual machines".to_owned());
    }
    match paranoid.map(str::trim).map(|setting| (setting, setting.parse::<i32>())) {
        Some((_, Ok(level))) if level <= 2 => Finding::Yes(String::new()),
        Some((setting, _)) => Finding::No(format!(
            "kernel.perf_event_paranoid = {setting} keeps them from users; `sysctl kernel.perf_event_paranoid=2` allows them"
        )),
        None => Finding::No("the kernel was built without performance events".to_owned()),
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, why) = match self {
            Self::Yes(why) => ("yes", why),
            Self::No(why) => ("no", why),
            Self::Unknown(why) => ("unknown", why),
        };
        if why.is_empty() { f.write_str(answer) } else { write!(f, "{answer}: {why}") }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.environment;
        writeln!(f, "{}", self.directory.display())?;
        writeln!(f, "  file system     {}", or_unknown(self.filesystem.as_deref()))?;
        writeln!(f, "  disk            {}", or_unknown(self.disk_model.as_deref()))?;
        writeln!(f, "  O_DIRECT        {}", self.direct)?;
        writeln!(f, "  libaio          {}", self.libaio)?;
        writeln!(f, "machine {}", machine.machine)?;
        writeln!(f, "  cpu             {}", or_unknown(machine.cpu_model.as_deref()))?;
        writeln!(f, "  cores           {}", or_unknown(machine.cores))?;
        writeln!(f, "  L2 cache        {}", or_unknown(machine.l2_b.map(format_bytes)))?;
        writeln!(f, "  last cache      {}", or_unknown(machine.llc_b.map(format_bytes)))?;
        writeln!(f, "  memory          {}", or_unknown(machine.memory_total_b.map(format_bytes)))?;
        writeln!(f, "  kernel          {}", machine.kernel_release)?;
        writeln!(f, "  io_uring        {}", self.io_uring)?;
        writeln!(f, "  counters        {}", self.counters)
    }
}

fn or_unknown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed() -> Probe {
        Probe {
            directory: "/mnt/ssd0".into(),
            filesystem: Some("xfs".to_owned()),
            disk_model: Some("Fast Disk 1".to_owned()),
            direct: Finding::Yes(String::new()),
            libaio: Finding::Yes(String::new()),
            io_uring: io_uring(Some("0\n")),
            counters: counters(false, None),
            environment: Environment {
                machine: "lab-3".to_owned(),
                cpu_model: Some("AMD EPYC 9R14".to_owned()),
                cores: Some(2),
                l2_b: Some(1 << 20),
                llc_b: None,
                memory_total_b: Some(16_530_000_000),
                kernel_release: "6.12.8".to_owned(),
                ioc_version: "0.1.0",
                git_rev: None,
                slurm_job: None,
                slurm_node: None,
            },
        }
    }

    #[test]
    fn a_probe_reads_as_a_table() {
        insta::assert_snapshot!(fixed(), @r"
        /mnt/ssd0
          file system     xfs
          disk            Fast Disk 1
          O_DIRECT        yes
          libaio          yes
        machine lab-3
          cpu             AMD EPYC 9R14
          cores           2
          L2 cache        1 MiB
          last cache      unknown
          memory          15.4 GiB
          kernel          6.12.8
          io_uring        yes: not used yet
          counters        no: this machine shows none, as most virtual machines
        ");
    }

    #[test]
    fn a_directory_that_can_be_written_to_reads_back_by_aio() {
        let folder = tempfile::tempdir().unwrap();
        let probe = probe(folder.path());
        assert_eq!(probe.libaio, Finding::Yes(String::new()));
        assert!(!matches!(probe.direct, Finding::Unknown(_)), "{}", probe.direct);
        assert!(probe.filesystem.is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_directory_that_is_not_there_says_so_and_the_rest_is_found() {
        let probe = probe(Path::new("/no/such/directory"));
        let why = probe.direct.to_string();
        assert!(why.starts_with("unknown: no file can be written to /no/such/directory"), "{why}");
        assert!(!probe.environment.kernel_release.is_empty());
    }

    #[test]
    fn settings_of_the_kernel_are_read_as_they_are_meant() {
        assert!(matches!(io_uring(Some("2\n")), Finding::No(_)));
        assert!(matches!(io_uring(None), Finding::Unknown(_)));
        assert!(matches!(counters(true, Some("-1\n")), Finding::Yes(_)));
        assert!(matches!(counters(true, Some("2\n")), Finding::Yes(_)));
        assert!(matches!(counters(true, Some("4\n")), Finding::No(_)));
        assert!(matches!(counters(true, None), Finding::No(_)));
    }
}
