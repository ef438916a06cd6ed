//! The program as its users have it: the real binary in a project folder of its own, and what it said there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longer than anything here takes on a busy machine: what reaches it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A row of a report, by column.
pub type Row = BTreeMap<String, String>;

/// A folder in which `ioc` is run.
pub struct Project {
    folder: TempDir,
}

/// How a run of the program ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Project {
    pub fn new() -> Self {
        // Below the build folder: a temporary folder may lie in memory, which takes no direct I/O.
        let project = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        // Otherwise the registry of this repository, above the build folder, would make it the project.
        project.write("datasets.toml", "");
        project
    }

    /// A project with one file.
    pub fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let project = Self::new();
        project.write(name, content);
        project
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, with the folders above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A command with this folder as its current one, and none of the variables that change what `ioc` does.
    pub fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env_remove("IOC_DATA").env_remove("IOC_MACHINE").env_remove("CI");
        command
    }

    /// Runs `ioc` to its end.
    pub fn ioc(&self, args: &[&str]) -> Said {
        finish(&mut self.command(IOC, args))
    }

    /// Runs `ioc`, which must succeed.
    pub fn good(&self, args: &[&str]) -> Said {
        let said = self.ioc(args);
        assert_eq!(said.code, 0, "ioc {args:?}: {}{}", said.stdout, said.stderr);
        said
    }

    /// Starts `ioc`; what it says goes to the files `stdout` and `stderr` of the project.
    pub fn start(&self, args: &[&str]) -> Running {
        let mut command = self.command(IOC, args);
        command.stdout(File::create(self.path("stdout")).unwrap());
        command.stderr(File::create(self.path("stderr")).unwrap());
        Running { child: command.spawn().unwrap() }
    }

    /// The rows of a report below `reports/`; none where there is no report.
    pub fn rows(&self, report: &str) -> Vec<Row> {
        rows(&self.path(format!("reports/{report}.csv")))
    }

    /// Paths below a folder of the project, sorted.
    pub fn files(&self, below: &str) -> Vec<String> {
        let walk = walkdir::WalkDir::new(self.path(below)).sort_by_file_name();
        let files = walk.into_iter().filter_map(Result::ok).filter(|entry| entry.file_type().is_file());
        let relative = |path: &Path| path.strip_prefix(self.folder.path()).unwrap().display().to_string();
        files.map(|entry| relative(entry.path())).collect()
    }

    /// The one file of that name below `data/`.
    pub fn grid_file(&self, name: &str) -> PathBuf {
        let ends = format!("/{name}");
        let files: Vec<String> =
            self.files("data").into_iter().filter(|file| file.ends_with(&ends)).collect();
        let [file] = files.as_slice() else { panic!("{name}: {files:?}") };
        self.path(file)
    }

    /// A text without what differs from run to run: the project's folder, ids of runs and grids, checksums. What
    /// underlines the folder is as long as the folder's own name.
    pub fn redact(&self, text: &str) -> String {
        let (folder, name) = (self.folder.path().to_str().unwrap(), "[project]");
        let mut lines: Vec<String> = Vec::new();
        let mut before = "";
        for line in text.lines() {
            let underlined = line.contains('^') && before.contains(folder);
            let shorter = if underlined { folder.len() - name.len() } else { 0 };
            lines.push(line.replacen(&"^".repeat(shorter), "", 1).replace(folder, name));
            before = line;
        }
        redact(&lines.join("\n"))
    }
}

/// The program under test.
pub const IOC: &str = env!("CARGO_BIN_EXE_ioc");

/// A started `ioc`.
pub struct Running {
    child: Child,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let done = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Waits for the end; returns the exit status and how long it took from now.
    pub fn wait(&mut self) -> (ExitStatus, Duration) {
        let started = Instant::now();
        let status = wait(&mut self.child);
        (status.expect("the program hangs"), started.elapsed())
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, through files, because a full pipe would stop it.
pub fn finish(command: &mut Command) -> Said {
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = wait(&mut child);
    let said = Said {
        code: status.and_then(|status| status.code()).unwrap_or(-1),
        stdout: content(&mut stdout),
        stderr: content(&mut stderr),
        took: started.elapsed(),
    };
    assert!(status.is_some(), "{command:?} hangs: {said:?}");
    assert!(!said.stderr.contains("panicked"), "{command:?}: {}", said.stderr);
    said
}

fn content(file: &mut File) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The end of a child, or nothing where it had to be killed.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let ended = until(|| child.try_wait().unwrap());
    if ended.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    ended
}

/// Looks again and again until there is something; nothing where that takes too long.
pub fn until<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// The rows of a report: every line is checked to have as many cells as the header.
pub fn rows(path: &Path) -> Vec<Row> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let mut reader = csv::Reader::from_reader(file);
    let header = reader.headers().unwrap().clone();
    let row = |record: csv::StringRecord| {
        header.iter().zip(&record).map(|(name, cell)| (name.to_owned(), cell.to_owned())).collect()
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

/// Replaces words that are a letter and many hexadecimal digits.
fn redact(text: &str) -> String {
    let mut redacted = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, word_on) = rest.split_at(start);
        let end = word_on.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word_on.len());
        let (word, after) = word_on.split_at(end);
        redacted += before;
        redacted += match word.strip_prefix("0x").or_else(|| word.get(1..)).filter(|hex| is_hex(hex)) {
            Some(hex) if word.starts_with('g') && hex.len() == 16 => "[grid]",
            Some(hex) if word.starts_with('r') && hex.len() == 12 => "[run]",
            Some(hex) if word.starts_with('x') && hex.len() == 16 => "[checksum]",
            Some(hex) if word.starts_with("0x") && hex.len() > 8 => "[hex]",
            _ => word,
        };
        rest = after;
    }
    redacted + rest
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
