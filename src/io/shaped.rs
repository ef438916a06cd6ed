//! `storage.emulate`: devices of a bandwidth that we make, for machines without such disks.
//!
//! A device of rate `r` serves one request after the other, each in `len / r`. So the [`Shaper`] keeps for each
//! device the moment until which it is busy; a request starts when that is over and is *due* `len / r` later.
//! The real read happens meanwhile, and its completion is held back until the request is due: a schedule, not
//! a token bucket, so that there is no burst after idling and the rate is never exceeded. Where the real device
//! is the slower one, the completion comes when that has it.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::held::{Held, PATIENCE, sleep_until};
use super::slab::Slab;
use super::{Completion, IoEngine, ReadRequest};
use crate::storage::buffer::AlignedBuffer;

/// How much of a late awakening is made up for. Waking takes some 50 to 150 us on an idle virtual machine, and
/// a reader with one request outstanding would lose that each time, which no real device of the rate takes from
/// it. Above this the core was busy with another thread: that is the run's own affair, as on a real device.
const WAKE_UP: Duration = Duration::from_micros(500);

/// The emulated devices of a run, shared by all of its engines: threads that read the same device share its
/// rate.
#[derive(Debug)]
pub struct Shaper {
    bytes_per_second: NonZeroU64,
    busy_until: Vec<Mutex<Option<Instant>>>,
}

impl Shaper {
    /// So many devices of `bytes_per_second` each.
    pub fn new(devices: usize, bytes_per_second: NonZeroU64) -> Self {
        let busy_until = std::iter::repeat_with(|| Mutex::new(None)).take(devices).collect();
        Self { bytes_per_second, busy_until }
    }

    /// Bytes per second of each device.
    pub fn rate(&self) -> NonZeroU64 {
        self.bytes_per_second
    }

    /// Takes the next free time of a device for `len` bytes asked for at `now` and returns when they are due. A
    /// device that is not emulated is never busy.
    fn reserve(&self, device: usize, len: usize, now: Instant) -> Instant {
        let Some(busy_until) = self.busy_until.get(device) else { return now };
        // A poisoned lock guards a moment that is as good as any.
        let mut busy_until = busy_until.lock().unwrap_or_else(PoisonError::into_inner);
        let start = busy_until.map_or(now, |busy_until| busy_until.max(now));
        let due = start + self.duration(len);
        *busy_until = Some(due);
        due
    }

    /// Time to transfer `len` bytes, rounded up to the nanosecond so that the rate is never exceeded. At most
    /// centuries, whatever the rate, of which the clock can add up hundreds of millions.
    fn duration(&self, len: usize) -> Duration {
        let nanos = (len as u128 * 1_000_000_000).div_ceil(u128::from(self.bytes_per_second.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// An engine whose completions come no faster than a [`Shaper`] lets them.
pub struct ShapedEngine {
    inner: Box<dyn IoEngine>,
    shaper: Arc<Shaper>,
    /// Requests that may be under way on the emulated devices at once.
    at_once: usize,
    /// Not started yet, for `at_once`.
    waiting: VecDeque<ReadRequest>,
    /// Started, but the inner engine had no room yet.
    starting: Vec<ReadRequest>,
    /// The caller's tag and the due moment of what is with the inner engine; its tag there is the slot.
    under_way: Slab<(u64, Instant)>,
    held: Held,
    /// How much later than due the last sleep ended. The requests that follow are taken as asked for so much
    /// earlier; the rate holds all the same, since a device is never free before it was.
    late: Duration,
    finished: Vec<Completion>,
}

impl ShapedEngine {
    /// Shapes `inner`. At most `at_once` requests are under way on the emulated devices, the others wait: 1 for
    /// an engine that reads one after the other, its capacity for one that has many outstanding. Otherwise a
    /// blocking reader would get the overlap of an asynchronous one as a gift.
    pub fn new(inner: Box<dyn IoEngine>, shaper: Arc<Shaper>, at_once: usize) -> Self {
        let capacity = inner.capacity();
        Self {
            inner,
            shaper,
            at_once: at_once.max(1),
            waiting: VecDeque::with_capacity(capacity),
            starting: Vec::with_capacity(capacity),
            under_way: Slab::with_capacity(capacity),
            held: Held::default(),
            late: Duration::ZERO,
            finished: Vec::with_capacity(capacity),
        }
    }

    fn start_waiting(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let asked = now.checked_sub(self.late).unwrap_or(now);
        while self.under_way.len() + self.held.len() < self.at_once {
            let Some(mut request) = self.waiting.pop_front() else { break };
            let due = self.shaper.reserve(request.device, request.len, asked);
            request.tag = self.under_way.insert((request.tag, due)) as u64;
            self.starting.push(request);
        }
        if self.starting.is_empty() {
            return Ok(());
        }
        self.late = Duration::ZERO;
        self.inner.submit(&mut self.starting)
    }

    /// Waits for the inner engine and holds back what it has finished.
    fn reap_inner(&mut self) -> io::Result<()> {
        let result = self.inner.reap(1, &mut self.finished);
        for mut completion in self.finished.drain(..) {
            if let Some((tag, due)) = self.under_way.remove(completion.request.tag as usize) {
                completion.request.tag = tag;
                self.held.hold(due, completion);
            }
        }
        result
    }
}

impl IoEngine for ShapedEngine {
    fn submit(&mut self, requests: &mut Vec<ReadRequest>) -> io::Result<()> {
        let taken = requests.len().min(self.capacity().saturating_sub(self.in_flight()));
        self.waiting.extend(requests.drain(..taken));
        self.start_waiting()
    }

    fn reap(&mut self, _least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let before = completions.len();
        loop {
            self.start_waiting()?;
            self.held.release(completions);
            if completions.len() > before || self.in_flight() == 0 || Instant::now() >= deadline {
                return Ok(());
            }
            let next_read = self.under_way.values().map(|&(_, due)| due).min();
            match (self.held.next_due(), next_read) {
                // The next to be due is read already: nothing to do until then.
                (Some(held), read) if read.is_none_or(|read| held <= read) => {
                    sleep_until(held, deadline);
                    self.late = Instant::now().saturating_duration_since(held).min(WAKE_UP);
                }
                _ => self.reap_inner()?,
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.waiting.len() + self.under_way.len() + self.held.len()
    }

    fn capacity(&self) -> usize {
        self.inner.capacity()
    }

    fn register(&mut self, buffers: &[AlignedBuffer]) -> io::Result<()> {
        self.inner.register(buffers)
    }
}

#[cfg(test)]
#[allow(clippy::print_stderr)] // The achieved share of the rate depends on the machine: shown, not asserted.
mod tests {
    use super::*;
    use crate::io::psync::PsyncEngine;
    use crate::io::testing::{Disk, request};
    use crate::io::{IoSpec, open_engine};

    const RATE: NonZeroU64 = NonZeroU64::new(100_000_000).unwrap();
    const LEN: usize = 128 * 1024;

    /// Reads `total` requests, `depth` outstanding per device, and returns the seconds.
    fn read(engine: &mut dyn IoEngine, disk: &Disk, total: usize, depth: usize) -> f64 {
        let devices = disk.files.count();
        let start = Instant::now();
        let (mut issued, mut done, mut completions) = (0, 0, Vec::new());
        while done < total {
            let mut requests = Vec::new();
            while issued < total && issued - done < depth * devices {
                let offset = (issued / devices * LEN) as u64 % (disk.len - LEN as u64) / 4096 * 4096;
                requests.push(request(issued % devices, offset, LEN, issued as u64));
                issued += 1;
            }
            engine.submit(&mut requests).unwrap();
            engine.reap(1, &mut completions).unwrap();
            done += completions.drain(..).map(|completion| completion.result.unwrap()).count();
        }
        start.elapsed().as_secs_f64()
    }

    fn rate_of(io: IoSpec, devices: usize) -> f64 {
        let disk = Disk::new(devices, 1 << 20);
        let shaper = Arc::new(Shaper::new(devices, RATE));
        let mut engine = open_engine(io, Arc::clone(&disk.files), 8 * devices, Some(shaper)).unwrap();
        let total = 763 * devices;
        (total * LEN) as f64 / read(engine.as_mut(), &disk, total, 8)
    }

    #[test]
    fn two_devices_give_twice_the_rate_and_never_more() {
        let ratio = rate_of(IoSpec::Libaio, 2) / (2.0 * RATE.get() as f64);
        eprintln!("shaped libaio reads at {ratio:.4} of the rate");
        assert!(ratio <= 1.0, "{ratio}");
        assert!(ratio > 0.6, "{ratio} of the rate: no more than one device's, or a very busy machine");
    }

    #[test]
    fn one_blocking_reader_of_two_devices_gets_the_rate_of_one() {
        let disk = Disk::new(2, 1 << 20);
        let shaper = Arc::new(Shaper::new(2, RATE));
        let mut engine = open_engine(IoSpec::Psync, Arc::clone(&disk.files), 16, Some(shaper)).unwrap();
        let ratio = (400 * LEN) as f64 / read(engine.as_mut(), &disk, 400, 8) / RATE.get() as f64;
        eprintln!("shaped psync reads at {ratio:.4} of the rate");
        assert!(ratio <= 1.0, "{ratio}");
    }

    #[test]
    fn engines_that_share_a_shaper_share_the_rate() {
        let disk = Disk::new(1, 1 << 20);
        let shaper = Arc::new(Shaper::new(1, RATE));
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let inner = Box::new(PsyncEngine::new(Arc::clone(&disk.files), 4));
                    let mut engine = ShapedEngine::new(inner, Arc::clone(&shaper), 1);
                    read(&mut engine, &disk, 100, 1);
                });
            }
        });
        let ratio = (200 * LEN) as f64 / start.elapsed().as_secs_f64() / RATE.get() as f64;
        eprintln!("two engines on one device read at {ratio:.4} of its rate");
        assert!(ratio <= 1.0, "{ratio}");
    }

    #[test]
    fn a_reap_gives_up_after_its_patience_and_finds_the_request_later() {
        let disk = Disk::new(1, 8192);
        let shaper = Arc::new(Shaper::new(1, NonZeroU64::new(20_000).unwrap()));
        let mut engine = open_engine(IoSpec::Libaio, Arc::clone(&disk.files), 1, Some(shaper)).unwrap();
        engine.submit(&mut vec![request(0, 0, 4096, 77)]).unwrap();
        let mut completions = Vec::new();
        engine.reap(1, &mut completions).unwrap();
        assert_eq!((completions.len(), engine.in_flight()), (0, 1));
        while engine.in_flight() > 0 {
            engine.reap(1, &mut completions).unwrap();
        }
        let completion = &completions[0];
        assert_eq!(completion.request.tag, 77);
        assert!(completion.completed - completion.submitted >= Duration::from_millis(200));
    }

    #[test]
    fn the_time_of_a_request_is_rounded_up_and_huge_ones_do_not_overflow() {
        let shaper = Shaper::new(1, NonZeroU64::new(3).unwrap());
        assert_eq!(shaper.duration(1), Duration::from_nanos(333_333_334));
        assert_eq!(shaper.duration(usize::MAX), Duration::from_nanos(u64::MAX));
    }
}
