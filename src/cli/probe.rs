//! `ioc probe`: what this machine and the directories offer, what their devices deliver, and how best to ask them.

use std::path::PathBuf;

use super::args::ProbeArgs;
use super::progress::Console;
use super::{Problem, exit, output};
use crate::interrupt::Interrupt;
use crate::job::spec::IoSpec;
use crate::measure::advice;
use crate::measure::bandwidth::{BandwidthError, Effort, Scratch, Survey, survey};
use crate::measure::probe;
use crate::progress::Progress;
use crate::units::{format_bytes, format_duration};

/// The least a file to read may have: a few of the largest blocks.
const LEAST_SIZE: u64 = 16 << 20;

/// Probes the directories, or the current one.
pub(crate) fn probe(args: &ProbeArgs, interrupt: &Interrupt) -> Result<u8, Problem> {
    let size = args.size.bytes;
    if size < LEAST_SIZE {
        let (text, least) = (&args.size.text, format_bytes(LEAST_SIZE));
        return Err(Problem::usage(format!("error: --size: {text} is too little; give {least} or more")));
    }
    let dirs = if args.dirs.is_empty() { vec![PathBuf::from(".")] } else { args.dirs.clone() };
    if let Some(dir) = dirs.iter().find(|dir| !dir.is_dir()) {
        let text = format!("{}: this is no directory; give one per device", dir.display());
        return Err(Problem::failed(text));
    }
    output::say(&probe::machine().to_string());
    for dir in &dirs {
        output::say(&probe::probe(dir).to_string());
    }
    match measure(&dirs, size, args, interrupt) {
        Ok(found) => {
            output::say(&found.to_string());
            keep(&found, args)?;
            Ok(exit::OK)
        }
        Err(BandwidthError::Interrupted) => Ok(exit::INTERRUPTED),
        // A finding like those above.
        Err(error @ BandwidthError::Buffered { .. }) => {
            output::say(&format!("bandwidth not measured: {error}"));
            Ok(exit::OK)
        }
        Err(error) => Err(Problem::failed(error)),
    }
}

fn measure(
    dirs: &[PathBuf],
    size: u64,
    args: &ProbeArgs,
    interrupt: &Interrupt,
) -> Result<Survey, BandwidthError> {
    let effort = if args.quick { Effort::quick() } else { Effort::full() };
    let mut engines = IoSpec::ALL.to_vec();
    engines.retain(|io| args.engines.is_empty() || args.engines.iter().any(|name| name == io.name()));
    if !args.quiet {
        let (about, most) = effort.estimate(dirs.len(), &engines);
        output::error(&format!(
            "writes {} to each directory, which leaves nothing behind, then reads for about {} (at most {})",
            format_bytes(size),
            format_duration(about),
            format_duration(most),
        ));
    }
    let progress = Console::new(args.quiet);
    if let Some(load) = probe::load().filter(|&load| load > super::cores() as f64 / 2.0) {
        progress.note(&format!(
            "the machine is busy (load {load:.1} on {} cores), and the figures will be those of a busy machine",
            super::cores()
        ));
    }
    let scratch = Scratch::write(dirs, size, interrupt, &progress)?;
    engines.retain(|io| match scratch.offers(*io) {
        Ok(()) => true,
        Err(refusal) => {
            progress.note(&format!("{} is left out: {refusal}", io.name()));
            false
        }
    });
    survey(&scratch, &engines, &effort, interrupt, &progress)
}

/// Stores what `auto` will follow.
fn keep(found: &Survey, args: &ProbeArgs) -> Result<(), Problem> {
    let kept = advice::save(&args.data, &found.directories, &found.advice()).map_err(Problem::failed)?;
    if let Some(path) = kept.filter(|_| !args.quiet) {
        output::error(&format!(
            "kept in {}: runs on these devices follow it where [engine] says \"auto\"",
            path.display()
        ));
    }
    Ok(())
}
