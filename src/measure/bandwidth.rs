//! What devices deliver by block size and requests outstanding, and what that costs of CPU: measured with the
//! engines that will read the grids, past the page cache, on files written for the purpose.
//!
//! Devices, and the limits that containers and clouds put on them, give credit for idling: the first hundred
//! milliseconds may come at twice the rate that lasts. So each rate has a lead: large requests use the credit up
//! while the queue fills, and only what completes after the lead counts, from the last completion in it to the last
//! of all: whole requests, and no pause left out (a pause earns credit for what follows).

mod choice;
mod error;
mod scratch;
mod survey;
mod table;

use std::io::ErrorKind;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

pub use error::BandwidthError;
pub use scratch::Scratch;
pub use survey::{Effort, EngineSurvey, Survey, survey};

use super::clock::thread_cpu;
use crate::engine::plan::{depth_per_thread, serves};
use crate::interrupt::Interrupt;
use crate::io::{Completion, IoEngine, ReadRequest, open_engine};
use crate::job::spec::IoSpec;
use crate::storage::buffer::AlignedBuffer;

/// A rate is given so many times its time to show itself, on a device that is slow to answer.
pub(crate) const PATIENCE: u32 = 3;

/// So much of each rate does not count.
const LEAD: Duration = Duration::from_millis(150);

/// How the credit is used up, in the first half of the lead. In the second half these requests end.
const LEAD_BLOCK: u64 = 1 << 20;
const LEAD_DEPTH: u32 = 8;

/// A device that has not answered for so long is stuck.
const STUCK: Duration = Duration::from_secs(10);

/// How to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Engine.
    pub io: IoSpec,
    /// Bytes per request.
    pub block: u64,
    /// Requests outstanding per device.
    pub depth: u32,
    /// I/O threads, as [`crate::engine`] deals devices to them.
    pub threads: u32,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Bytes per second, over all devices.
    pub bytes_per_s: f64,
    /// CPU seconds of the I/O threads per byte.
    pub cpu_s_per_byte: f64,
}

impl Rate {
    /// MB (10^6 bytes) per second.
    pub fn mb_per_s(&self) -> f64 {
        self.bytes_per_s / 1e6
    }

    /// CPU seconds per GB (10^9 bytes).
    pub fn cpu_s_per_gb(&self) -> f64 {
        self.cpu_s_per_byte * 1e9
    }
}

/// Reads from some of the devices, after the lead for about `time`. `None` where too little came in [`PATIENCE`] times
/// that, or where the kernel had no queue left at that moment.
pub(crate) fn rate(
    scratch: &Scratch,
    devices: &[usize],
    setting: Setting,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<Option<Rate>, BandwidthError> {
    let depth = if setting.io == IoSpec::Psync { 1 } else { LEAD_DEPTH };
    let lead = Setting { block: LEAD_BLOCK, depth, threads: 1, ..setting };
    let own = (0..setting.threads).map(|thread| (setting, thread));
    let readers = std::iter::once((lead, 0))
        .chain(own)
        .map(|(setting, thread)| Reader::prepare(scratch, devices, setting, thread))
        .collect::<Result<Vec<_>, _>>();
    let mut readers = match readers {
        // Others on this machine have queues, too.
        Err(BandwidthError::Engine { source, .. }) if source.kind() == ErrorKind::WouldBlock => {
            return Ok(None);
        }
        readers => readers?.into_iter(),
    };
    let Some(lead) = readers.next() else { return Ok(None) };
    let windows = std::thread::scope(|scope| {
        let lead = start(scope, move || lead.run(Duration::ZERO, LEAD / 2, interrupt))?;
        // Those that run end by themselves: their time is bounded.
        let threads = readers
            .map(|reader| start(scope, move || reader.run(LEAD, time, interrupt)))
            .collect::<Result<Vec<_>, _>>()?;
        let windows: Result<Vec<_>, _> = threads.into_iter().map(joined).collect();
        joined(lead).and(windows)
    })?;
    Ok(total(&windows))
}

fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, BandwidthError> {
    Builder::new().spawn_scoped(scope, work).map_err(BandwidthError::Threads)
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What one thread read in its time.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Since the last completion of the lead.
    since: Instant,
    cpu_then: Duration,
    /// Of the last completion.
    until: Instant,
    bytes: u64,
    cpu: Duration,
}

impl Window {
    fn start(now: Instant) -> Self {
        Self { since: now, cpu_then: thread_cpu(), until: now, bytes: 0, cpu: Duration::ZERO }
    }
}

fn total(windows: &[Option<Window>]) -> Option<Rate> {
    let (mut bytes_per_s, mut bytes, mut cpu_s) = (0.0, 0.0, 0.0);
    for window in windows {
        let window = window.filter(|window| window.bytes > 0 && window.until > window.since)?;
        bytes_per_s += window.bytes as f64 / (window.until - window.since).as_secs_f64();
        bytes += window.bytes as f64;
        cpu_s += window.cpu.as_secs_f64();
    }
    (bytes > 0.0).then(|| Rate { bytes_per_s, cpu_s_per_byte: cpu_s / bytes })
}

/// One thread that reads.
struct Reader<'a> {
    scratch: &'a Scratch,
    setting: Setting,
    engine: Box<dyn IoEngine>,
    ready: Vec<ReadRequest>,
    /// Bytes of all its requests.
    outstanding: u64,
}

impl<'a> Reader<'a> {
    fn prepare(
        scratch: &'a Scratch,
        devices: &[usize],
        setting: Setting,
        thread: u32,
    ) -> Result<Self, BandwidthError> {
        let count = devices.len() as u32;
        let depth = depth_per_thread(setting.depth, setting.threads, count);
        let served = serves(thread, setting.threads, count);
        let own = devices.iter().zip(served).filter(|(_, serves)| *serves).map(|(&device, _)| device);
        let lanes: Vec<usize> = own.flat_map(|device| std::iter::repeat_n(device, depth)).collect();
        let fail = |source| BandwidthError::Engine { engine: setting.io.name(), source };
        let mut engine = open_engine(setting.io, scratch.files(), lanes.len().max(1), None).map_err(fail)?;
        let buffers: Vec<_> = lanes
            .iter()
            .map(|_| {
                let mut buffer = AlignedBuffer::new(setting.block as usize);
                // The kernel hands out memory at the first write, which is no part of reading.
                buffer.fill(0);
                buffer
            })
            .collect();
        // Where it is refused, a run goes without, too.
        let _ = engine.register(&buffers);
        let outstanding = setting.block * lanes.len() as u64;
        let mut reader = Self { scratch, setting, engine, ready: Vec::new(), outstanding };
        reader.ready =
            lanes.into_iter().zip(buffers).map(|(device, buffer)| reader.read(device, buffer)).collect();
        Ok(reader)
    }

    fn read(&self, device: usize, buffer: AlignedBuffer) -> ReadRequest {
        let block = self.setting.block;
        ReadRequest { device, offset: self.scratch.next(device, block), len: block as usize, buffer, tag: 0 }
    }

    /// Reads for `time` after `lead`.
    fn run(
        mut self,
        lead: Duration,
        time: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<Window>, BandwidthError> {
        let started = Instant::now();
        let mut window: Option<Window> = None;
        let mut completions = Vec::new();
        loop {
            self.step(&mut completions)?;
            let now = Instant::now();
            let bytes = completions.len() as u64 * self.setting.block;
            window = match window {
                window if bytes == 0 => window,
                Some(window) if now >= started + lead => {
                    Some(Window { until: now, bytes: window.bytes + bytes, ..window })
                }
                _ => Some(Window::start(now)),
            };
            if interrupt.raised() {
                self.settle(completions)?;
                return Err(BandwidthError::Interrupted);
            }
            let enough = window.is_some_and(|window| window.bytes >= self.outstanding);
            if now - started >= lead + time * if enough { 1 } else { PATIENCE } {
                break;
            }
            for completion in completions.drain(..) {
                let ReadRequest { device, buffer, .. } = self.checked(completion)?;
                let request = self.read(device, buffer);
                self.ready.push(request);
            }
        }
        let window =
            window.map(|window| Window { cpu: thread_cpu().saturating_sub(window.cpu_then), ..window });
        self.settle(completions)?;
        Ok(window)
    }

    fn step(&mut self, completions: &mut Vec<Completion>) -> Result<(), BandwidthError> {
        let engine = &mut self.engine;
        engine
            .submit(&mut self.ready)
            .and_then(|()| engine.reap(1, completions))
            .map_err(|source| BandwidthError::Engine { engine: self.setting.io.name(), source })
    }

    fn checked(&self, completion: Completion) -> Result<ReadRequest, BandwidthError> {
        let directory = || self.scratch.directory(completion.request.device).to_owned();
        match completion.result {
            Ok(()) => Ok(completion.request),
            Err(cause) => Err(BandwidthError::Read { directory: directory(), cause }),
        }
    }

    /// Waits for what is in flight, since dropping an engine would do so for ever on a device that is gone.
    fn settle(mut self, mut completions: Vec<Completion>) -> Result<(), BandwidthError> {
        self.ready.clear();
        let mut answered = Instant::now();
        while self.engine.in_flight() > 0 {
            for completion in completions.drain(..) {
                self.checked(completion)?;
                answered = Instant::now();
            }
            if answered.elapsed() > STUCK {
                std::mem::forget(self.engine);
                return Err(BandwidthError::Stuck { directories: self.scratch.directories().to_vec() });
            }
            self.step(&mut completions)?;
        }
        completions.drain(..).try_for_each(|completion| self.checked(completion).map(drop))
    }
}

#[cfg(test)]
mod tests;
