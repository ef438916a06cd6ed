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

/// Bytes of all blocks that `engine.buffer` has by default, and of one: whether they can be registered is found out.
const BUFFER: usize = 64 << 20;
const BLOCK: usize = 1 << 20;

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

/// What a directory offers.
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
    /// Whether each asynchronous engine reads here.
    pub engines: Vec<(IoSpec, Finding)>,
}

/// What a machine offers, whatever the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The machine.
    pub environment: Environment,
    /// Whether hardware counters can be read.
    pub counters: Finding,
}

/// The engines that a kernel may refuse.
const ASYNCHRONOUS: [IoSpec; 2] = [IoSpec::Libaio, IoSpec::IoUring];

/// Tries what `directory` offers. Writes a page to a temporary file in it, if it may.
pub fn probe(directory: &Path) -> Probe {
    let (direct, engines) = match try_reads(directory) {
        Ok(findings) => findings,
        Err(why) => {
            let unknown = Finding::Unknown(why);
            (unknown.clone(), ASYNCHRONOUS.map(|io| (io, unknown.clone())).to_vec())
        }
    };
    Probe {
        directory: directory.to_owned(),
        filesystem: disk::filesystem(directory),
        disk_model: disk::disk_model(directory),
        direct,
        engines,
    }
}

/// Looks at the machine.
pub fn machine() -> Machine {
    Machine {
        environment: Environment::current(),
        counters: counters(has_counters(), read("/proc/sys/kernel/perf_event_paranoid").as_deref()),
    }
}

/// Threads that ran or wanted to, on the mean over the last minute. `None` where the system does not tell.
pub fn load() -> Option<f64> {
    read("/proc/loadavg")?.split_ascii_whitespace().next()?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

type Findings = (Finding, Vec<(IoSpec, Finding)>);

/// Whether O_DIRECT and the engines read back a page that is written to a file here.
fn try_reads(directory: &Path) -> Result<Findings, String> {
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
    let files = Arc::new(files);
    let engines = ASYNCHRONOUS.map(|io| {
        let finding = match read_by(io, Arc::clone(&files), &page) {
            Ok(hint) => Finding::Yes(hint),
            Err(error) => Finding::No(error.to_string()),
        };
        (io, finding)
    });
    Ok((direct, engines.to_vec()))
}

/// Reads the page, and returns what there is to say of blocks as many as a run has by default.
fn read_by(io: IoSpec, files: Arc<DeviceFiles>, page: &[u8]) -> std::io::Result<String> {
    let mut engine = open_engine(io, files, 1, None)?;
    let blocks: Vec<_> = (0..BUFFER / BLOCK).map(|_| AlignedBuffer::new(BLOCK)).collect();
    let hint = engine.register(&blocks).err().map_or_else(String::new, |error| error.to_string());
    let buffer = AlignedBuffer::new(ALIGNMENT);
    engine.submit(&mut vec![ReadRequest { device: 0, offset: 0, len: page.len(), buffer, tag: 0 }])?;
    let mut completions = Vec::new();
    // A sleeping disk may need seconds; a minute is a disk that does not answer.
    for _ in 0..600 {
        engine.reap(1, &mut completions)?;
        if let Some(completion) = completions.pop() {
            completion.result?;
            let same = completion.request.buffer[..page.len()] == *page;
            return if same {
                Ok(hint)
            } else {
                Err(std::io::Error::other("it read other bytes than written"))
            };
        }
    }
    // Dropping the engine would wait for the read, and with a dead disk that is for ever.
    std::mem::forget(engine);
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "a read did not finish within a minute"))
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
        writeln!(f, "{}", self.directory.display())?;
        writeln!(f, "  file system     {}", or_unknown(self.filesystem.as_deref()))?;
        writeln!(f, "  disk            {}", or_unknown(self.disk_model.as_deref()))?;
        writeln!(f, "  O_DIRECT        {}", self.direct)?;
        for (io, finding) in &self.engines {
            writeln!(f, "  {:15} {finding}", io.name())?;
        }
        Ok(())
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.environment;
        writeln!(f, "machine {}", machine.machine)?;
        writeln!(f, "  cpu             {}", or_unknown(machine.cpu_model.as_deref()))?;
        writeln!(f, "  cores           {}", or_unknown(machine.cores))?;
        writeln!(f, "  L2 cache        {}", or_unknown(machine.l2_b.map(format_bytes)))?;
        writeln!(f, "  last cache      {}", or_unknown(machine.llc_b.map(format_bytes)))?;
        writeln!(f, "  memory          {}", or_unknown(machine.memory_total_b.map(format_bytes)))?;
        writeln!(f, "  kernel          {}", machine.kernel_release)?;
        writeln!(f, "  counters        {}", self.counters)
    }
}

fn or_unknown(value: Option<impl fmt::Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_reads_as_a_table() {
        let probe = Probe {
            directory: "/mnt/ssd0".into(),
            filesystem: Some("xfs".to_owned()),
            disk_model: None,
            direct: Finding::Yes(String::new()),
            engines: vec![
                (IoSpec::Libaio, Finding::Yes(String::new())),
                (IoSpec::IoUring, Finding::No("a sandbox forbids io_uring".to_owned())),
            ],
        };
        insta::assert_snapshot!(probe, @r"
        /mnt/ssd0
          file system     xfs
          disk            unknown
          O_DIRECT        yes
          libaio          yes
          io_uring        no: a sandbox forbids io_uring
        ");
    }

    #[test]
    fn a_machine_reads_as_a_table() {
        let environment = Environment {
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
        };
        insta::assert_snapshot!(Machine { environment, counters: counters(false, None) }, @r"
        machine lab-3
          cpu             AMD EPYC 9R14
          cores           2
          L2 cache        1 MiB
          last cache      unknown
          memory          15.4 GiB
          kernel          6.12.8
          counters        no: this machine shows none, as most virtual machines
        ");
    }

    #[test]
    fn a_directory_that_can_be_written_to_reads_back_by_every_engine() {
        let folder = tempfile::tempdir().unwrap();
        let probe = probe(folder.path());
        for (io, finding) in &probe.engines {
            let refused = *io == IoSpec::IoUring && crate::io::io_uring::available().is_err();
            assert_eq!(matches!(finding, Finding::Yes(_)), !refused, "{io:?}: {finding}");
        }
        assert!(!matches!(probe.direct, Finding::Unknown(_)), "{}", probe.direct);
        assert!(probe.filesystem.is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_directory_that_is_not_there_says_so() {
        let probe = probe(Path::new("/no/such/directory"));
        let why = probe.direct.to_string();
        assert!(why.starts_with("unknown: no file can be written to /no/such/directory"), "{why}");
    }

    #[test]
    fn settings_of_the_kernel_are_read_as_they_are_meant() {
        assert!(matches!(counters(true, Some("-1\n")), Finding::Yes(_)));
        assert!(matches!(counters(true, Some("2\n")), Finding::Yes(_)));
        assert!(matches!(counters(true, Some("4\n")), Finding::No(_)));
        assert!(matches!(counters(true, None), Finding::No(_)));
    }
}
