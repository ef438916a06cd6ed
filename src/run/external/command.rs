//! A command of another program under watch: its output taken as it comes, its end seen at once, its time bounded, and its
//! whole process group ended with it, whatever ends it.

use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group, pidfd_open,
    set_parent_process_death_signal, waitid,
};

use super::capture::Capture;
use crate::interrupt::Interrupt;

/// How long a command that is to end may take to put its things in order (a script may have a device to unmount): less than
/// the parent of this process waits for it.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for the end of the output once the whole group is gone: whoever still holds it is no part of it.
const DRAIN: Duration = Duration::from_secs(1);
/// Bytes of output taken at once: what a pipe holds.
const BUFFER: usize = 64 << 10;
/// How often the interrupt is looked at.
const TICK: Duration = Duration::from_millis(100);
/// The same where the kernel has no file for a process (before 5.3), so that its end is looked for too.
const SHORT_TICK: Duration = Duration::from_millis(2);

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that was not ours.
    Killed(i32),
    /// By us, when its time was up.
    TimedOut,
    /// By us, because the user wants to stop.
    Interrupted,
}

/// What came of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub(super) ended: Ended,
    /// From start to exit.
    pub(super) wall: Duration,
    /// Processes of its group that it left running.
    pub(super) left: usize,
}

/// Runs a command to its end. It inherits the `held` files, and so does what it starts.
///
/// # Errors
/// Where it cannot be started or watched.
pub(super) fn run(
    mut command: Command,
    held: Vec<OwnedFd>,
    capture: &mut Capture,
    timeout: Option<Duration>,
    interrupt: &Interrupt,
) -> io::Result<Outcome> {
    let (output, writer) = io::pipe()?;
    fcntl_setfl(&output, fcntl_getfl(&output)? | OFlags::NONBLOCK)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    tie(&mut command, held);
    let started = Instant::now();
    let child = command.spawn()?;
    // It holds the writing end, without whose end the output would not end, and the files of others.
    drop(command);
    let group = pid_of(&child)?;
    let pidfd = pidfd_open(group, PidfdFlags::empty()).ok();
    let buffer = vec![0; BUFFER].into_boxed_slice();
    let mut watch = Watch { child, group, pidfd, output, buffer, open: true, started, stopping: None };
    watch.watch(capture, timeout, interrupt)
}

/// Has a command killed when the thread that starts it ends: that is the one which watches it, and a process that is
/// killed can end nothing. The signal is the command's own; what it started in turn may live on, and keeps the files, and
/// the locks on them, as long as it does.
fn tie(command: &mut Command, held: Vec<OwnedFd>) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            // It ended before that, and nobody reads what is said.
            return Err(io::ErrorKind::NotConnected.into());
        }
        held.iter().try_for_each(|file| fcntl_setfd(file, FdFlags::empty())).map_err(Into::into)
    };
    // SAFETY: in the new process, where no other thread is, `tie` makes four kinds of system calls on what it owns. It
    // takes no lock and allocates nothing, also for its errors, which are numbers.
    unsafe { command.pre_exec(tie) };
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// A command under way. Dropped before its end, it is killed with its group.
struct Watch {
    child: Child,
    group: Pid,
    pidfd: Option<OwnedFd>,
    output: PipeReader,
    buffer: Box<[u8]>,
    /// Whether more output may come.
    open: bool,
    started: Instant,
    /// Why and since when it is to end.
    stopping: Option<(Ended, Instant)>,
}

impl Watch {
    fn watch(
        &mut self,
        capture: &mut Capture,
        timeout: Option<Duration>,
        interrupt: &Interrupt,
    ) -> io::Result<Outcome> {
        while !self.is_over()? {
            self.end_if_due(timeout, interrupt);
            self.wait(timeout)?;
            self.read(capture)?;
        }
        let wall = self.started.elapsed();
        let left = others(self.group);
        // The command itself has not been waited for, so that its group is still its own.
        self.signal(Signal::KILL);
        let status = self.child.wait()?;
        self.drain(capture)?;
        let ended = match (self.stopping, status.code(), status.signal()) {
            (Some((why, _)), ..) => why,
            (None, Some(code), _) => Ended::Exited(code),
            (None, None, signal) => Ended::Killed(signal.unwrap_or_default()),
        };
        Ok(Outcome { ended, wall, left })
    }

    /// Whether it has ended; it is not yet waited for then.
    fn is_over(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.group), options)?.is_some())
    }

    /// Asks the group to end where it is time, and ends it where it did not heed that.
    fn end_if_due(&mut self, timeout: Option<Duration>, interrupt: &Interrupt) {
        match self.stopping {
            Some((_, since)) if since.elapsed() > GRACE => self.signal(Signal::KILL),
            None if interrupt.raised() => self.stop(Ended::Interrupted),
            None if timeout.is_some_and(|timeout| self.started.elapsed() >= timeout) => {
                self.stop(Ended::TimedOut);
            }
            _ => {}
        }
    }

    fn stop(&mut self, why: Ended) {
        self.signal(Signal::TERM);
        self.stopping = Some((why, Instant::now()));
    }

    /// To all of the group; that some are gone already is no matter.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.group, signal);
    }

    /// Until there is output, it ends, its time is up, or a tick is over.
    fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let tick = if self.pidfd.is_some() { TICK } else { SHORT_TICK };
        let left = timeout.filter(|_| self.stopping.is_none());
        let left = left.map_or(tick, |timeout| timeout.saturating_sub(self.started.elapsed()));
        let mut files: Vec<PollFd<'_>> = Vec::new();
        files.extend(self.pidfd.iter().map(|file| PollFd::new(file, PollFlags::IN)));
        files.extend(self.open.then(|| PollFd::new(&self.output, PollFlags::IN)));
        poll_for(&mut files, left.min(tick))
    }

    /// Takes the output that is there.
    fn read(&mut self, capture: &mut Capture) -> io::Result<()> {
        // Not without end: the command's own end must be seen, however much it prints.
        for _ in 0..16 {
            match self.output.read(&mut self.buffer) {
                Ok(0) => {
                    self.open = false;
                    return Ok(());
                }
                Ok(length) => capture.take(&self.buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes what is left of the output.
    fn drain(&mut self, capture: &mut Capture) -> io::Result<()> {
        let started = Instant::now();
        while self.open && started.elapsed() < DRAIN {
            self.read(capture)?;
            if self.open {
                poll_for(&mut [PollFd::new(&self.output, PollFlags::IN)], TICK)?;
            }
        }
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Where it was waited for, its number may be another process's by now.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

fn poll_for(files: &mut [PollFd<'_>], time: Duration) -> io::Result<()> {
    let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
    match poll(files, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Living processes of a group besides its leader: none where `/proc` does not say.
fn others(group: Pid) -> usize {
    let group = group.as_raw_pid();
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|&pid| pid != group && living_in(pid, group)).count()
}

/// `state` and `pgrp` are the third and fifth field of `/proc/PID/stat`, behind the name in parentheses.
fn living_in(pid: i32, group: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next();
    let own = fields.nth(1).and_then(|field| field.parse::<i32>().ok());
    own == Some(group) && !matches!(state, Some("Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn run_shell(script: &str, timeout: Option<Duration>, interrupt: &Interrupt) -> (Outcome, String) {
        let mut capture = Capture::new(None);
        let outcome = run(shell(script), Vec::new(), &mut capture, timeout, interrupt).unwrap();
        (outcome, String::from_utf8(capture.kept()).unwrap())
    }

    /// Whether a process has ended, or does so soon.
    fn is_gone(pid: &str) -> bool {
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(2));
            gone()
        })
    }

    #[test]
    fn the_end_of_a_command_is_told_apart_and_both_outputs_are_one() {
        let interrupt = Interrupt::new();
        let (outcome, output) = run_shell("echo a; echo b >&2; exit 3", None, &interrupt);
        assert_eq!((outcome.ended, output.as_str()), (Ended::Exited(3), "a\nb\n"));
        let (outcome, _) = run_shell("kill -SEGV $$", None, &interrupt);
        assert_eq!(outcome.ended, Ended::Killed(11));
    }

    #[test]
    fn the_wall_time_is_that_from_start_to_exit() {
        let (outcome, _) = run_shell("sleep 0.3", None, &Interrupt::new());
        assert!((0.3..2.0).contains(&outcome.wall.as_secs_f64()), "{outcome:?}");
    }

    #[test]
    fn a_time_limit_ends_the_whole_group() {
        let started = Instant::now();
        let script = "sleep 60 & echo $!; sleep 60";
        let (outcome, output) = run_shell(script, Some(Duration::from_secs(2)), &Interrupt::new());
        assert_eq!(outcome.ended, Ended::TimedOut);
        assert!(started.elapsed() < GRACE);
        assert!(!output.is_empty());
        assert!(is_gone(output.trim()), "{output}");
    }

    #[test]
    fn a_command_may_put_its_things_in_order_and_is_killed_if_it_does_not_end() {
        let interrupt = Interrupt::new();
        let later = interrupt.clone();
        let raise = move || {
            std::thread::sleep(Duration::from_secs(2));
            later.raise();
        };
        let thread = std::thread::spawn(raise);
        let script = "trap 'echo tidy; exit 0' TERM; sleep 60 & wait";
        let (outcome, output) = run_shell(script, None, &interrupt);
        assert_eq!((outcome.ended, output.as_str()), (Ended::Interrupted, "tidy\n"));
        thread.join().unwrap();
        let stubborn = "trap '' TERM; while :; do sleep 0.1; done";
        let (outcome, _) = run_shell(stubborn, Some(Duration::from_secs(2)), &Interrupt::new());
        assert_eq!(outcome.ended, Ended::TimedOut);
        assert!((GRACE..2 * GRACE).contains(&outcome.wall), "{outcome:?}");
    }

    #[test]
    fn what_a_command_leaves_running_is_counted_and_ended() {
        let started = Instant::now();
        let (outcome, output) = run_shell("sleep 60 & echo $!", None, &Interrupt::new());
        assert_eq!((outcome.ended, outcome.left), (Ended::Exited(0), 1));
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(is_gone(output.trim()), "{output}");
    }

    #[test]
    fn more_output_than_memory_holds_is_no_matter() {
        let script = "yes 'garbage garbage garbage' | head -c 300000000";
        let (outcome, output) = run_shell(script, None, &Interrupt::new());
        assert_eq!(outcome.ended, Ended::Exited(0));
        assert!(output.len() < 2 << 20);
    }
}
