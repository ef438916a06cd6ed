//! `ioc probe`: what this machine offers, per directory.

use std::path::PathBuf;

use super::args::ProbeArgs;
use super::{Problem, exit, output};

/// Probes the directories, or the current one.
pub(crate) fn probe(args: &ProbeArgs) -> Result<u8, Problem> {
    let here = [PathBuf::from(".")];
    let dirs = if args.dirs.is_empty() { &here[..] } else { &args.dirs };
    for dir in dirs {
        if !dir.is_dir() {
            return Err(Problem::failed(format!(
                "{}: this is no directory; give one per device",
                dir.display()
            )));
        }
        output::say(&crate::measure::probe::probe(dir).to_string());
    }
    Ok(exit::OK)
}
