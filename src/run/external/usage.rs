//! What the commands that this process has waited for used of the machine: they, and what they themselves waited for.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Sums over processes that have ended, and the peak of the largest of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    /// Largest peak of a single process, not of all at once. At least what this process held as it started them.
    pub(super) max_rss_b: u64,
    /// Bytes that storage had to deliver; nothing where the kernel does not count them.
    pub(super) read_b: Option<u64>,
}

impl Usage {
    pub(super) fn now() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Self::default() };
        let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
        Self {
            user_s: seconds(usage.user_time()),
            system_s: seconds(usage.system_time()),
            max_rss_b: u64::try_from(usage.max_rss()).unwrap_or(0) << 10,
            read_b: fs::read_to_string("/proc/self/io").ok().and_then(|io| read_bytes(&io)),
        }
    }

    /// What came since then. The peak is that of all time.
    pub(super) fn since(self, before: &Self) -> Self {
        let read = self.read_b.zip(before.read_b).map(|(now, then)| now.saturating_sub(then));
        Self {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
            max_rss_b: self.max_rss_b,
            read_b: read,
        }
    }
}

/// `read_bytes` of `/proc/PID/io` (`proc_pid_io(5)`), which processes that were waited for have been added to.
fn read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_waited_for_is_counted() {
        let before = Usage::now();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        let used = Usage::now().since(&before);
        assert!(used.user_s > 0.01 && used.max_rss_b > 100 << 10, "{used:?}");
        assert_eq!(read_bytes("rchar: 1\nread_bytes: 4096\nwrite_bytes: 0\n"), Some(4096));
        assert_eq!(read_bytes(""), None);
    }
}
