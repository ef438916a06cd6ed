//! What holds whatever is wrong with an input: the exit code says so, the message is the only output, and nothing
//! half-done is left.

use std::path::Path;
use std::process::Command;

use super::project::{Project, Said, finish, rows};

/// A job on [`triangle`]'s graph.
pub const JOB: &str = r#"dataset = "triangle"

[algorithm.pagerank]
iterations = 5

[measure]
repeat = 2
warmup = 0
"#;

const REGISTRY: &str = r#"[triangle]
path = "triangle.txt"
"#;

/// A project with a job on a graph of three vertices.
pub fn triangle() -> Project {
    let project = Project::with("triangle.txt", "1 2\n2 3\n3 1\n");
    project.write("datasets.toml", REGISTRY);
    project.write("jobs/job.toml", JOB);
    project
}

impl Project {
    /// Runs `ioc` with `--quiet`, which must end with that code; returns its message, redacted.
    pub fn refused(&self, code: i32, args: &[&str]) -> String {
        let said = self.ioc(&[args, &["--quiet"]].concat());
        self.message(code, &said)
    }

    /// Runs a shell script in which `$IOC` is the program, with the same expectations.
    pub fn refused_in_shell(&self, code: i32, script: &str) -> String {
        let said = finish(&mut self.shell(script));
        self.message(code, &said)
    }

    /// A shell script in which `$IOC` is the program.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = self.command("sh", &["-c", script]);
        command.env("IOC", super::project::IOC);
        command
    }

    /// The message of a program that ended as it should, and left nothing half-done.
    pub fn message(&self, code: i32, said: &Said) -> String {
        assert_eq!(said.code, code, "{}{}", said.stdout, said.stderr);
        assert_eq!(said.stdout, "", "{}", said.stderr);
        assert_eq!(self.leftovers(), Vec::<String>::new(), "{}", said.stderr);
        self.redact(said.stderr.trim_end())
    }

    /// Files that are only there while somebody writes them.
    pub fn leftovers(&self) -> Vec<String> {
        let lock = |name: &str| [".lock", ".in-use"].contains(&name);
        let temporary = |name: &str| name.starts_with('.') && !lock(name) || has_extension(name, "tmp");
        let name = |file: &str| Path::new(file).file_name().unwrap().to_string_lossy().into_owned();
        self.files("").into_iter().filter(|file| temporary(&name(file))).collect()
    }

    /// Whether any row of any report says that a repetition went well.
    pub fn claims_success(&self) -> bool {
        let tables: Vec<String> =
            self.files("reports").into_iter().filter(|file| has_extension(file, "csv")).collect();
        let ok = |file: &String| {
            rows(&self.path(file)).iter().any(|row| row.get("status").is_some_and(|s| s == "ok"))
        };
        tables.iter().filter(|file| !file.ends_with(".values.csv")).any(ok)
    }

    /// Whether a grid is built.
    pub fn has_grid(&self) -> bool {
        self.files("data").iter().any(|file| file.ends_with("manifest.json"))
    }
}

fn has_extension(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|other| other == extension)
}

/// Flips the lowest bit of a byte of a file.
pub fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Cuts a file.
pub fn cut(path: &Path, length: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}
