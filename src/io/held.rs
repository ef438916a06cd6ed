//! Completions that are kept back until a moment: what an engine is made of that plays a slower device.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;

use super::Completion;

/// How long [`super::IoEngine::reap`] waits at most.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);

/// Finished requests, each with the moment from which it may be seen. They are few (a queue depth), so a plain
/// list does.
#[derive(Debug, Default)]
pub(super) struct Held(Vec<(Instant, Completion)>);

impl Held {
    pub(super) fn hold(&mut self, due: Instant, completion: Completion) {
        self.0.push((due, completion));
    }

    /// Moves what is due by now to `completions`, in order of the moments, as completed now.
    pub(super) fn release(&mut self, completions: &mut Vec<Completion>) {
        let now = Instant::now();
        let mut due: Vec<_> = self.0.extract_if(.., |(due, _)| *due <= now).collect();
        due.sort_by_key(|(due, _)| *due);
        completions
            .extend(due.into_iter().map(|(_, completion)| Completion { completed: now, ..completion }));
    }

    /// The earliest moment at which there is something to release.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(|(due, _)| *due).min()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Sleeps until `due`, but not beyond `deadline`.
pub(super) fn sleep_until(due: Instant, deadline: Instant) {
    // By default the kernel may be 50 us late to save power: a sixth of a 128 KiB read at 450 MB/s, which a
    // reader with one request outstanding would lose each time. Where it refuses, sleeps are just less exact.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    std::thread::sleep(due.min(deadline).saturating_duration_since(Instant::now()));
}
