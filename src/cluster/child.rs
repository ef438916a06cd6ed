//! Child processes on this machine, one at a time. A child of its own for each repetition and each import means
//! that a crash costs one repetition, and that peak memory is its own.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::interrupt::Interrupt;
use crate::run::error::{Failure, INTERRUPTED};

/// How long an interrupted child may take to put its things in order.
const GRACE: Duration = Duration::from_secs(10);

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Exited(i32),
    /// By a signal that was not ours; or by us after an interrupt, as if it had heeded it.
    Killed(i32),
    /// By us, after its time was up.
    TimedOut,
}

impl Ended {
    /// What the end of a child says of its work, where the child itself said nothing.
    pub fn failure(self, work: &str) -> Failure {
        let (class, text) = match self {
            Self::TimedOut => {
                ("timeout", format!("the {work} took longer than measure.timeout and was ended"))
            }
            Self::Killed(signal @ (2 | 15)) => {
                (INTERRUPTED, format!("the {work} was ended by signal {signal}; --resume runs it again"))
            }
            Self::Killed(9) => ("killed", format!("the {work} was killed (signal 9); out of memory?")),
            // Rust's answer to an allocation that fails, and to nothing else that happens here: panics unwind.
            Self::Killed(6) => (
                "memory",
                format!(
                    "the system refused the {work} memory (it ended by signal 6); raise the limit (`ulimit -v`), or \
                     lower engine.memory"
                ),
            ),
            Self::Killed(signal) => {
                ("crash", format!("the {work} ended by signal {signal}: a defect of ioc"))
            }
            Self::Exited(130) => {
                (INTERRUPTED, format!("the {work} was stopped before its end; --resume runs it again"))
            }
            Self::Exited(code) => ("crash", format!("the {work} ended with code {code} and no word of why")),
        };
        Failure { class: class.to_owned(), text }
    }
}

/// Runs a child to its end. An interrupt is passed on to it; one that does not heed it, or outlives `timeout`, is
/// killed.
///
/// # Errors
/// Where the child cannot be started or waited for.
pub fn run(
    command: &mut Command,
    timeout: Option<Duration>,
    interrupt: &Interrupt,
) -> std::io::Result<Ended> {
    let mut child = command.spawn()?;
    let started = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(ended(status));
        }
        if timeout.is_some_and(|timeout| started.elapsed() >= timeout) {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::TimedOut);
        }
        match asked {
            None if interrupt.raised() => {
                signal(&child, Signal::INT)?;
                asked = Some(Instant::now());
            }
            Some(since) if since.elapsed() > GRACE => {
                child.kill()?;
                child.wait()?;
                return Ok(Ended::Killed(Signal::INT.as_raw()));
            }
            _ => {}
        }
        wait_a_little(&child, timeout.map(|timeout| timeout.saturating_sub(started.elapsed())))?;
    }
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Killed(signal.unwrap_or_default()),
    }
}

fn pid(child: &Child) -> std::io::Result<Pid> {
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| std::io::ErrorKind::InvalidInput.into())
}

fn signal(child: &Child, signal: Signal) -> std::io::Result<()> {
    Ok(kill_process(pid(child)?, signal)?)
}

/// Sleeps until the child ends, a signal comes, its time is up, or a tenth of a second is over (for signals that
/// another thread caught).
fn wait_a_little(child: &Child, left: Option<Duration>) -> std::io::Result<()> {
    const TICK: Duration = Duration::from_millis(100);
    let tick = left.map_or(TICK, |left| left.min(TICK));
    let tick = Timespec { tv_sec: 0, tv_nsec: tick.subsec_nanos().into() };
    let Ok(handle) = pidfd_open(pid(child)?, PidfdFlags::empty()) else {
        // A kernel before 5.3: look again soon.
        std::thread::sleep(Duration::from_millis(5));
        return Ok(());
    };
    match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&tick)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_end_of_a_child_is_told_apart() {
        let interrupt = Interrupt::new();
        let run = |script, timeout| run(&mut shell(script), timeout, &interrupt).unwrap();
        assert_eq!(run("exit 3", None), Ended::Exited(3));
        assert_eq!(run("kill -SEGV $$", None), Ended::Killed(11));
        assert_eq!(run("exec sleep 60", Some(Duration::from_millis(50))), Ended::TimedOut);
    }

    #[test]
    fn an_interrupt_is_passed_on() {
        let interrupt = Interrupt::new();
        interrupt.raise();
        let ended = run(&mut shell("trap 'exit 130' INT; while :; do sleep 0.02; done"), None, &interrupt);
        // The shell may be hit before its trap is set.
        assert!(matches!(ended.unwrap(), Ended::Exited(130) | Ended::Killed(2)));
    }
}
