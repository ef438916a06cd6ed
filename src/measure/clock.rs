//! What a thread and a process have used of the machine. Wall time is `std::time::Instant`, which needs no help.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread so far, in user and kernel mode.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The clock starts at 0 and only advances, so neither part is negative.
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// CPU seconds of this process so far, over all its threads, those that have ended too: in user mode, and in the
/// kernel. As exact as the kernel's tick (10 ms as a rule); `None` without a `/proc`.
pub fn process_times() -> Option<(f64, f64)> {
    let (user, system) = parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    Some((user as f64 / ticks, system as f64 / ticks))
}

/// Bytes of memory that this process has held at most (`VmHWM`), page cache apart; 0 means that the kernel does
/// not say (no `/proc`), never that there was none.
pub fn max_rss_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| parse_high_water(&status)).unwrap_or(0)
}

/// `utime` and `stime` of `/proc/PID/stat`, in ticks: the 14th and 15th field, where the second is the program's
/// name in parentheses, which may itself have blanks and parentheses (`proc_pid_stat(5)`).
fn parse_stat(stat: &str) -> Option<(u64, u64)> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn parse_high_water(status: &str) -> Option<u64> {
    super::environment::kib_line(status, "VmHWM")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    fn used_since(start: Duration) -> Duration {
        thread_cpu().saturating_sub(start)
    }

    fn burn(time: Duration) {
        let start = thread_cpu();
        while used_since(start) < time {}
    }

    #[test]
    fn a_thread_is_charged_for_its_work_and_not_for_its_sleep() {
        let start = thread_cpu();
        std::thread::sleep(Duration::from_millis(100));
        assert!(used_since(start) < Duration::from_millis(50));
        let begun = Instant::now();
        burn(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20), "no more CPU time than time");
    }

    #[test]
    fn a_thread_is_not_charged_for_another_one() {
        let start = thread_cpu();
        std::thread::spawn(|| burn(Duration::from_millis(100))).join().unwrap();
        assert!(used_since(start) < Duration::from_millis(50));
    }

    #[test]
    fn a_process_is_charged_for_threads_that_have_ended() {
        let total = || process_times().map(|(user, system)| user + system).unwrap();
        let before = total();
        std::thread::spawn(|| burn(Duration::from_millis(100))).join().unwrap();
        assert!(total() - before >= 0.08);
    }

    #[test]
    fn the_fields_are_found_behind_a_name_with_blanks_and_parentheses() {
        let stat = "12475 (a) b (c)) R 12351 12351 5624 0 -1 4194304 98 0 0 0 314 15 0 0 20 0 1";
        assert_eq!(parse_stat(stat), Some((314, 15)));
        assert_eq!(parse_stat("12475 (cut) R 1 2"), None);
    }

    #[test]
    fn the_high_water_mark_is_in_bytes_and_does_not_fall() {
        assert_eq!(
            parse_high_water("VmPeak:\t  9 kB\nVmHWM:\t    2012 kB\nVmRSS: 1 kB\n"),
            Some(2012 * 1024)
        );
        assert_eq!(parse_high_water("VmRSS: 1 kB\n"), None);
        let before = max_rss_bytes();
        let touched = black_box(vec![1_u8; 64 << 20]);
        let with = max_rss_bytes();
        drop(touched);
        // The kernel counts in batches per core, so a little may be missing.
        assert!(with >= 60 << 20 && max_rss_bytes() >= before, "{before} {with}");
    }
}
