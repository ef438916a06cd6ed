//! The whole measurement: a table per device and engine, then all devices together.
//!
//! Together means: as in a run. Every core computes meanwhile, because an I/O thread that has to wait for a core
//! needs more requests outstanding than on an idle machine, and several threads where one is not enough.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use super::choice::{self, Choice};
use super::error::BandwidthError;
use super::scratch::Scratch;
use super::{LEAD, PATIENCE, Rate, Setting, rate};
use crate::interrupt::Interrupt;
use crate::job::spec::IoSpec;
use crate::measure::advice::Advice;
use crate::progress::{Progress, Unit};

/// More bytes outstanding on a device than this are not tried: no device needs them, and buffers are memory.
const MOST_OUTSTANDING: u64 = 32 << 20;

/// What it takes to set up and end a measurement, about.
const SET_UP: Duration = Duration::from_millis(30);

/// Twice as many requests that bring less than this bring nothing.
const GAIN: f64 = 0.02;

/// How much is measured.
#[derive(Debug, Clone)]
pub struct Effort {
    /// Block sizes, ascending.
    blocks: Vec<u64>,
    /// Requests outstanding, ascending.
    depths: Vec<u32>,
    /// For so long each, on one device.
    cell: Duration,
    /// And so long on all together, so many times.
    together: Duration,
    rounds: u32,
}

impl Effort {
    /// 32 KiB to 4 MiB, 1 to 32 requests.
    pub fn full() -> Self {
        Self {
            blocks: (0..8).map(|power| (32 << 10) << power).collect(),
            depths: vec![1, 2, 4, 8, 16, 32],
            cell: Duration::from_millis(250),
            together: Duration::from_millis(350),
            rounds: 3,
        }
    }

    /// A third of the table, and all devices together once.
    pub fn quick() -> Self {
        Self {
            blocks: vec![32 << 10, 128 << 10, 512 << 10, 1 << 20, 4 << 20],
            depths: vec![1, 4, 16],
            cell: Duration::from_millis(150),
            together: Duration::from_millis(350),
            rounds: 1,
        }
    }

    /// How long reading takes with these engines, at most, unless a device is slow to answer, and where all are.
    pub fn estimate(&self, devices: usize, engines: &[IoSpec]) -> (Duration, Duration) {
        let cells: usize = engines.iter().map(|&io| self.cells(io).len()).sum();
        let trials: usize =
            engines.iter().map(|&io| choice::MOST_CANDIDATES * threads(io, devices as u32).len()).sum();
        let with = |patience| {
            let each = |time| LEAD + SET_UP + time * patience;
            each(self.cell) * (cells * devices) as u32 + each(self.together) * trials as u32 * self.rounds
        };
        (with(1), with(PATIENCE))
    }

    /// Block sizes and depths to try on one device.
    fn cells(&self, io: IoSpec) -> Vec<(u64, u32)> {
        let depths = if io == IoSpec::Psync { &[1] } else { &self.depths[..] };
        let all = self.blocks.iter().flat_map(|&block| depths.iter().map(move |&depth| (block, depth)));
        all.filter(|&(block, depth)| block * u64::from(depth) <= MOST_OUTSTANDING).collect()
    }
}

/// Numbers of I/O threads to try. A blocking thread has one request outstanding, so its depth is their number.
fn threads(io: IoSpec, devices: u32) -> Vec<u32> {
    if io == IoSpec::Psync {
        return [1, 2, 4, 8].map(|per_device| per_device * devices).to_vec();
    }
    let most = devices.max(2);
    let mut numbers: Vec<u32> = std::iter::successors(Some(1), |&number| Some(number * 2))
        .take_while(|&number| number < most)
        .collect();
    numbers.push(most);
    numbers
}

/// What one device delivered to one engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Block size, depth, and what came of it. Depths beyond what brought more are left out, and so is what was too
    /// slow to show.
    pub cells: Vec<(u64, u32, Rate)>,
}

impl Table {
    /// The rate of a setting.
    pub fn get(&self, block: u64, depth: u32) -> Option<&Rate> {
        self.cells.iter().find(|cell| (cell.0, cell.1) == (block, depth)).map(|(_, _, rate)| rate)
    }
}

/// What one engine made of all devices.
#[derive(Debug, Clone)]
pub struct EngineSurvey {
    /// Engine.
    pub io: IoSpec,
    /// By device.
    pub tables: Vec<Table>,
    /// All devices together.
    pub trials: Vec<(Setting, Rate)>,
    /// What is best, and why; `None` where the devices delivered nothing in time.
    pub choice: Option<Choice>,
}

/// All that was measured.
#[derive(Debug, Clone)]
pub struct Survey {
    /// One per device.
    pub directories: Vec<PathBuf>,
    /// One per engine.
    pub engines: Vec<EngineSurvey>,
}

impl Survey {
    /// What to keep for `auto`.
    pub fn advice(&self) -> Vec<(IoSpec, Advice)> {
        let of_engine = |engine: &EngineSurvey| Some((engine.io, engine.choice.as_ref()?.advice.clone()));
        self.engines.iter().filter_map(of_engine).collect()
    }
}

/// Measures with these engines.
///
/// # Errors
/// Where a read or an engine fails, a device does not answer, or the user interrupts.
pub fn survey(
    scratch: &Scratch,
    engines: &[IoSpec],
    effort: &Effort,
    interrupt: &Interrupt,
    progress: &dyn Progress,
) -> Result<Survey, BandwidthError> {
    let work = Work { scratch, effort, interrupt, progress };
    let mut found: Vec<EngineSurvey> = engines
        .iter()
        .map(|&io| EngineSurvey { io, tables: Vec::new(), trials: Vec::new(), choice: None })
        .collect();
    for device in 0..scratch.directories().len() {
        progress.begin(&format!("reading {}", scratch.directory(device).display()), None, Unit::Bytes);
        let tables: Result<Vec<_>, _> = engines.iter().map(|&io| work.table(device, io)).collect();
        progress.end();
        for (engine, table) in found.iter_mut().zip(tables?) {
            engine.tables.push(table);
        }
    }
    progress.begin("reading all, while every core computes", None, Unit::Bytes);
    let trials = while_computing(|| work.trials(&found));
    progress.end();
    for (engine, trials) in found.iter_mut().zip(trials??) {
        engine.choice = choice::choose(&engine.tables, &trials);
        engine.trials = trials;
    }
    Ok(Survey { directories: scratch.directories().to_vec(), engines: found })
}

struct Work<'a> {
    scratch: &'a Scratch,
    effort: &'a Effort,
    interrupt: &'a Interrupt,
    progress: &'a dyn Progress,
}

impl Work<'_> {
    /// One device: the table of each engine. In a row of the table, more requests are tried until they bring nothing.
    fn table(&self, device: usize, io: IoSpec) -> Result<Table, BandwidthError> {
        let most = self.scratch.size() / 2;
        let mut table = Table::default();
        for row in self.effort.cells(io).chunk_by(|a, b| a.0 == b.0) {
            let mut in_vain = 0;
            let mut best = 0.0;
            for &(block, depth) in row.iter().filter(|(block, depth)| block * u64::from(*depth) <= most) {
                let setting = Setting { io, block, depth, threads: 1 };
                let Some(rate) = self.rate(&[device], setting, self.effort.cell)? else { continue };
                table.cells.push((block, depth, rate));
                in_vain = if rate.bytes_per_s > best * (1.0 + GAIN) { 0 } else { in_vain + 1 };
                best = rate.bytes_per_s.max(best);
                // One may be an accident.
                if in_vain == 2 {
                    break;
                }
            }
        }
        Ok(table)
    }

    /// All devices together: for each engine the settings that its tables suggest.
    fn trials(&self, engines: &[EngineSurvey]) -> Result<Vec<Vec<(Setting, Rate)>>, BandwidthError> {
        let devices: Vec<usize> = (0..self.scratch.directories().len()).collect();
        let mut settings = Vec::new();
        for engine in engines {
            for (block, depth) in choice::candidates(&engine.tables, engine.io == IoSpec::Psync) {
                for threads in threads(engine.io, devices.len() as u32) {
                    settings.push(Setting { io: engine.io, block, depth, threads });
                }
            }
        }
        let mut samples = vec![Vec::new(); settings.len()];
        // In rounds, so that a machine that drifts or is shared does so for all of them.
        for _ in 0..self.effort.rounds {
            for (setting, samples) in settings.iter().zip(&mut samples) {
                samples.extend(self.rate(&devices, *setting, self.effort.together)?);
            }
        }
        let rates: Vec<_> = samples.iter_mut().map(|samples| median(samples)).collect();
        let of_engine = |io| {
            let own = settings.iter().zip(&rates).filter(|(setting, _)| setting.io == io);
            own.filter_map(|(setting, rate)| Some((*setting, (*rate)?))).collect()
        };
        Ok(engines.iter().map(|engine| of_engine(engine.io)).collect())
    }

    fn rate(
        &self,
        devices: &[usize],
        setting: Setting,
        time: Duration,
    ) -> Result<Option<Rate>, BandwidthError> {
        let rate = rate(self.scratch, devices, setting, time, self.interrupt)?;
        self.progress.advance(rate.map_or(0, |rate| (rate.bytes_per_s * time.as_secs_f64()) as u64));
        Ok(rate)
    }
}

/// The median rate, and the median cost: the lower of two.
fn median(samples: &mut [Rate]) -> Option<Rate> {
    let middle = samples.len().checked_sub(1)? / 2;
    let mut of = |value: fn(&Rate) -> f64| {
        samples.sort_by(|a, b| value(a).total_cmp(&value(b)));
        value(&samples[middle])
    };
    Some(Rate { bytes_per_s: of(|rate| rate.bytes_per_s), cpu_s_per_byte: of(|rate| rate.cpu_s_per_byte) })
}

/// Runs `work` while as many threads as there are cores do nothing but compute.
fn while_computing<T>(work: impl FnOnce() -> T) -> Result<T, BandwidthError> {
    /// Lowers the flag however the work ends: a scope waits for its threads.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stopped = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let _stop = Stop(&stopped);
        for _ in 0..cores {
            let compute = || {
                // Work, not a spin loop's pauses, which a hypervisor takes as leave to run somebody else.
                let mut work = 0_u64;
                while !stopped.load(Ordering::Relaxed) {
                    work = black_box(work.wrapping_add(1));
                }
            };
            Builder::new().spawn_scoped(scope, compute).map_err(BandwidthError::Threads)?;
        }
        Ok(work())
    })
}
