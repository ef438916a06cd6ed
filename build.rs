//! Tells the program which revision it is built from: `IOC_GIT_REV = g<short hash>[-dirty]`, for the column
//! `git_rev`. Without git, or where this is not a repository of our own (a source archive, perhaps inside someone
//! else's repository), it is silent and the variable stays unset.
//!
//! Dirty means that something the program is made of differs from the commit; notes and results do not count,
//! and so editing them does not build anything again.

#![allow(clippy::print_stdout)] // This is how a build script talks to Cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made of.
const SOURCES: [&str; 6] =
    ["src", "libaio-sys", "build.rs", "Cargo.toml", "Cargo.lock", "jobs/quickstart.toml"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(revision) = revision() {
        println!("cargo:rustc-env=IOC_GIT_REV={revision}");
        watch();
    }
}

fn revision() -> Option<String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().ok()?;
    if PathBuf::from(git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()? != ours {
        return None;
    }
    let hash = git(&["rev-parse", "--short", "HEAD"])?;
    // No locks: a build must not get in the way of what else happens in the repository.
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(SOURCES);
    let dirty = if git(&status)?.is_empty() { "" } else { "-dirty" };
    Some(format!("g{hash}{dirty}"))
}

/// Where the answer can change: the sources, and what HEAD points at. Its log grows with every move of HEAD; a
/// repository that keeps no log has its branches watched.
fn watch() {
    let sources = SOURCES.iter().map(PathBuf::from);
    let inside = |name| git(&["rev-parse", "--git-path", name]).map(PathBuf::from);
    let log = inside("logs/HEAD").filter(|log| log.exists());
    let heads = log.or_else(|| inside("refs/heads"));
    // A path that does not exist would build everything again each time.
    for path in sources.chain(inside("HEAD")).chain(heads).filter(|path| path.exists()) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// What git says, without the newline; `None` where there is no git or it refuses.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
