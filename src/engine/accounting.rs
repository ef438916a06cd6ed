//! Where the time goes. The same figures under every model: what each thread did and waited for, how long at
//! least one request was outstanding, and how long requests took.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::primitives::{Mutex, lock};

/// What one compute thread did.
#[derive(Debug, Clone, Copy, Default)]
pub struct ComputeAccount {
    /// CPU time inside kernels and vertex passes.
    pub compute: Duration,
    /// Time waiting for a filled block, or (model `sync`) for its own read.
    pub wait: Duration,
    /// Blocks computed on.
    pub blocks: u64,
    /// Edges in them.
    pub edges: u64,
}

/// What one reading thread did.
#[derive(Debug, Clone)]
pub struct ReadAccount {
    /// Time waiting for a free block.
    pub wait: Duration,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes of blocks that were in memory instead.
    pub cached: u64,
    /// Requests done.
    pub requests: u64,
    /// Nanoseconds from submission to completion.
    pub latencies: Histogram<u64>,
}

impl ReadAccount {
    /// An account with nothing in it. Latencies are kept to 1 % up to an hour.
    #[expect(clippy::missing_panics_doc, reason = "constant bounds are accepted or not, once for all")]
    pub fn new() -> Self {
        // The bounds are constants that the histogram accepts: 1 < 2 * 3.6e12 and two digits.
        let latencies = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("constant bounds");
        Self { wait: Duration::ZERO, bytes: 0, cached: 0, requests: 0, latencies }
    }

    pub(crate) fn record(&mut self, bytes: usize, latency: Duration) {
        self.bytes += bytes as u64;
        self.requests += 1;
        self.latencies.saturating_record(latency.as_nanos() as u64);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.wait += other.wait;
        self.bytes += other.bytes;
        self.cached += other.cached;
        self.requests += other.requests;
        self.latencies.add(&other.latencies).expect("histograms with the same bounds");
    }
}

impl Default for ReadAccount {
    fn default() -> Self {
        Self::new()
    }
}

/// Measures the time in which at least one request is outstanding, over all threads.
#[derive(Debug)]
pub(crate) struct Outstanding(Mutex<State>);

#[derive(Debug)]
struct State {
    requests: u64,
    /// When there last were none.
    since: Instant,
    /// The time of all stretches that have ended.
    total: Duration,
}

impl Outstanding {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State { requests: 0, since: Instant::now(), total: Duration::ZERO }))
    }

    /// So many requests went out.
    pub(crate) fn add(&self, requests: u64) {
        let mut state = lock(&self.0);
        if state.requests == 0 {
            state.since = Instant::now();
        }
        state.requests += requests;
    }

    /// So many came back.
    pub(crate) fn remove(&self, requests: u64) {
        let state = &mut *lock(&self.0);
        state.requests -= requests;
        if requests > 0 && state.requests == 0 {
            state.total += state.since.elapsed();
        }
    }

    /// The time so far; what is still outstanding counts up to now.
    pub(crate) fn total(&self) -> Duration {
        let state = lock(&self.0);
        state.total + if state.requests > 0 { state.since.elapsed() } else { Duration::ZERO }
    }
}

/// The account of a whole run.
#[derive(Debug, Clone)]
pub struct Account {
    /// The passes, from the first request to the end of the last vertex pass.
    pub runtime: Duration,
    /// Time with at least one request outstanding.
    pub io: Duration,
    /// When each pass ended, since the first one began.
    pub passes: Vec<Duration>,
    /// Bytes of the requests that passes left out, because they wanted none of their sources.
    pub skipped: u64,
    /// Each compute thread.
    pub compute: Vec<ComputeAccount>,
    /// All reading threads together; under model `sync` these are the compute threads.
    pub read: ReadAccount,
    /// Reading threads, over which `read.wait` is averaged.
    pub io_threads: usize,
}

impl Account {
    /// Mean over the compute threads of what `of` gives, in seconds.
    pub fn compute_mean_s(&self, of: impl Fn(&ComputeAccount) -> Duration) -> f64 {
        let total: Duration = self.compute.iter().map(of).sum();
        total.as_secs_f64() / self.compute.len().max(1) as f64
    }

    /// The largest over the mean of what `of` gives over the compute threads; 1 is perfect balance. `None`
    /// where all are zero.
    pub fn balance(&self, of: impl Fn(&ComputeAccount) -> f64) -> Option<f64> {
        let sum: f64 = self.compute.iter().map(&of).sum();
        let max = self.compute.iter().map(&of).fold(0.0, f64::max);
        (sum > 0.0).then(|| max * self.compute.len() as f64 / sum)
    }
}
