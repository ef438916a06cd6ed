//! Commands: one file each. `main` parses, dispatches and turns errors into exit codes; only here and in the
//! commands is anything printed.

pub mod args;
mod batch;
mod build;
mod check;
mod dataset;
mod describe;
pub mod exit;
mod needs;
mod once;
mod output;
mod probe;
pub mod progress;
mod run;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::interrupt::Interrupt;
use args::{Cli, Command};

/// An error on its way to standard error, with the exit code it means.
#[derive(Debug)]
pub(crate) struct Problem {
    code: u8,
    text: String,
}

impl Problem {
    /// A wrong command line or job file; the text is complete.
    pub(crate) fn usage(text: impl std::fmt::Display) -> Self {
        Self { code: exit::USAGE, text: text.to_string() }
    }

    /// A plan that is no plan, or has no such run.
    pub(crate) fn plan(error: impl std::fmt::Display) -> Self {
        Self::usage(format!("error: {error}"))
    }

    /// Data, a device or a report that cannot be read or written.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Self { code: exit::FAILED, text: format!("error: {error}") }
    }

    /// What this machine lacks for the batch; the text is complete.
    pub(crate) fn refused(text: impl std::fmt::Display) -> Self {
        Self { code: exit::FAILED, text: text.to_string() }
    }

    /// An empty selection.
    pub(crate) fn nothing(text: impl std::fmt::Display) -> Self {
        Self { code: exit::NOTHING, text: format!("error: {text}") }
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            let printed = error.print();
            if !error.use_stderr() {
                output::remember(printed);
            }
            return end(code);
        }
    };
    let watching = watch_signals(cli.command.is_child());
    let code = watching.map_err(Problem::failed).and_then(|interrupt| dispatch(cli, &interrupt));
    end(code.unwrap_or_else(|problem| {
        output::error(&problem.text);
        problem.code
    }))
}

/// Ends with that code, unless all was well but what was to be said did not arrive.
fn end(code: u8) -> ExitCode {
    let Some(unheard) = output::unheard() else { return ExitCode::from(code) };
    output::error(&format!("error: {unheard}"));
    ExitCode::from(if code == exit::OK { exit::FAILED } else { code })
}

fn dispatch(cli: Cli, interrupt: &Interrupt) -> Result<u8, Problem> {
    match cli.command {
        Command::Run(args) => run::run(&args, interrupt),
        Command::Once(args) => once::once(&args, interrupt),
        Command::Check(args) => check::check(&args, interrupt),
        Command::Build(args) => build::build(&args, interrupt),
        Command::Dataset(args) => dataset::dataset(&args, interrupt),
        Command::Probe(args) => probe::probe(&args, interrupt),
    }
}

/// Ctrl-C, SIGTERM and the end of the terminal raise the interrupt; work in progress sees it and puts its things in
/// order. The second of them ends the process at once: what does not look at the flag (a read from a device that does
/// not answer) must not make it immune. The end of the terminal is nothing to a process that `nohup` started. A child gets each from the terminal and from its parent, so that a second one says nothing there; it ends
/// with its parent. A file that outgrows the user's limit (`ulimit -f`) fails the write, which is told and cleaned up
/// after, instead of ending the process.
fn watch_signals(child: bool) -> std::io::Result<Interrupt> {
    let interrupt = Interrupt::new();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if signal == SIGHUP && ignores_hangup() {
            continue;
        }
        if !child {
            // Handlers run in the order of their registration: this one sees what the signal before left.
            flag::register_conditional_shutdown(signal, exit::INTERRUPTED.into(), interrupt.flag())?;
        }
        flag::register(signal, interrupt.flag())?;
    }
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    Ok(interrupt)
}

/// Whether this process was started to outlive its terminal.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A child ends with its parent: nobody would read what it has to say.
fn end_with_parent() {
    // Where the kernel refuses, the child merely runs to its end.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// The same of a child that has children of its own, which it ends first.
fn stop_with_parent() {
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
}
