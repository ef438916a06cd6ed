//! The IOC engine: runs an algorithm's passes over a grid's blocks, under the model asked for.
//!
//! [`Engine::prepare`] opens and allocates; [`Engine::run`] is what a report calls run time: no edge is read
//! before it. Compute threads live for one pass, so that a pass can lend them its state by reference; reading
//! threads live for the whole run and read ahead into the next pass.

pub mod accounting;
pub mod active;
mod compute;
mod failure;
mod horizon;
mod ioc;
mod loader;
#[cfg(all(test, loom))]
mod model;
pub mod pass;
mod pins;
pub mod plan;
mod primitives;
mod queue;
mod schedule;
mod selection;
pub mod streaming;
mod sync;

use std::ops::Range;
use std::sync::Arc;
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use accounting::{Account, ComputeAccount, Outstanding, ReadAccount};
use compute::{Consumer, Filled, PassWork, Stream};
use failure::{Failure, guarded};
use horizon::Horizon;
use ioc::{Exchange, FromQueue, Reader};
use loader::{Around, Loader};
use pass::{Algorithm, IfOwned, Pass, Taken};
use pins::Pins;
use plan::{Plan, requests_of_thread, serves};
use schedule::{Geometry, Request, Schedule};
use selection::{Index, Selection};
use streaming::{Sources, Streaming};
use sync::OwnReads;

pub use failure::EngineError;

use crate::grid::Grid;
use crate::interrupt::Interrupt;
use crate::io::{IoEngine, Shaper, open_engine};
use crate::job::spec::ModelSpec;
use crate::progress::Progress;
use crate::storage::buffer::AlignedBuffer;
use crate::storage::device::DeviceFiles;

/// What a run is made of.
#[derive(Clone)]
pub struct Setup<'a> {
    /// The edges.
    pub grid: &'a Grid,
    /// The engine's parameters.
    pub plan: Plan,
    /// The grid's files, open.
    pub files: Arc<DeviceFiles>,
    /// The cap on each device, if there is one.
    pub shaper: Option<Arc<Shaper>>,
    /// Where vertex state exceeds the memory: what is read when, and the files of the sources' values.
    pub streaming: Option<(&'a Streaming, Arc<DeviceFiles>)>,
    /// Polled between blocks.
    pub interrupt: &'a Interrupt,
    /// Told of bytes read.
    pub progress: &'a dyn Progress,
}

/// An engine that is ready to run.
pub struct Engine<'a> {
    setup: Setup<'a>,
    geometry: Geometry,
    blocks: Vec<AlignedBuffer>,
    pins: Pins,
    readers: Vec<Box<dyn IoEngine>>,
    stream: Option<(Horizon, Loader)>,
}

impl<'a> Engine<'a> {
    /// Opens the I/O contexts and allocates the blocks.
    ///
    /// # Errors
    /// Where the kernel grants no context.
    pub fn prepare(setup: Setup<'a>) -> Result<Self, EngineError> {
        let (io, files, shaper) = (setup.plan.io, Arc::clone(&setup.files), setup.shaper.clone());
        Self::with_readers(setup, |capacity| open_engine(io, Arc::clone(&files), capacity, shaper.clone()))
    }

    /// The same with reading engines of the caller's making, one per reading thread, each of at least the capacity
    /// that it is given: for tests.
    ///
    /// # Errors
    /// Where `open` fails.
    pub fn with_readers(
        setup: Setup<'a>,
        open: impl Fn(usize) -> std::io::Result<Box<dyn IoEngine>>,
    ) -> Result<Self, EngineError> {
        let plan = &setup.plan;
        let threads = if plan.model == ModelSpec::Sync { plan.compute_threads } else { plan.io_threads };
        let mut readers = (0..threads)
            .map(|thread| {
                let capacity = if plan.model == ModelSpec::Sync {
                    1
                } else {
                    requests_of_thread(thread, plan.depth, threads, plan.devices)
                };
                open(capacity).map_err(|source| EngineError::Engine { engine: plan.io.name(), source })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut blocks: Vec<_> = (0..plan.blocks).map(|_| AlignedBuffer::new(plan.block as usize)).collect();
        // Touched now: the kernel hands out memory at the first write, and that is set-up, not run time.
        for block in &mut blocks {
            block.fill(0);
        }
        for reader in &mut readers {
            if let Err(error) = reader.register(&blocks) {
                setup.progress.note(&error.to_string());
                break;
            }
        }
        let geometry = match &setup.streaming {
            Some((streaming, _)) => Geometry::streaming(setup.grid, plan, streaming),
            None => Geometry::of(setup.grid, plan),
        };
        let pins = Pins::new(geometry.pins(), plan.block as usize);
        let stream = setup.streaming.as_ref().map(|(streaming, files)| {
            let (io, shaper) = (plan.io, setup.shaper.clone());
            open_engine(io, Arc::clone(files), Loader::CAPACITY, shaper)
                .map(|engine| (Horizon::new(streaming.ring), Loader::new(engine, io.name())))
                .map_err(|source| EngineError::Engine { engine: io.name(), source })
        });
        let stream = stream.transpose()?;
        Ok(Self { setup, geometry, blocks, pins, readers, stream })
    }

    /// Runs the algorithm to its end.
    ///
    /// # Errors
    /// The first failure of any thread; all threads have ended by then.
    pub fn run(self, algorithm: &mut dyn Algorithm) -> Result<Account, EngineError> {
        match self.setup.plan.model {
            ModelSpec::Ioc => self.run_ioc(algorithm),
            ModelSpec::Sync => self.run_sync(algorithm),
        }
    }

    /// What the requests hold, where passes select among them.
    fn index(&self, algorithm: &dyn Algorithm) -> Result<Option<Index>, EngineError> {
        let index = (algorithm.selective() || self.stream.is_some())
            .then(|| Index::of(self.setup.grid, &self.geometry));
        Ok(index.transpose()?)
    }

    fn run_ioc(self, algorithm: &mut dyn Algorithm) -> Result<Account, EngineError> {
        let index = self.index(algorithm)?;
        let Self { setup, geometry, blocks, pins, readers, stream } = self;
        let plan = &setup.plan;
        let schedule = Schedule::new(geometry, algorithm.passes());
        let exchange = Exchange::new(blocks, plan.refill(), schedule, pins);
        let (horizon, mut loader) = stream.unzip();
        let wake = || {
            exchange.close();
            horizon.iter().for_each(Horizon::close);
        };
        let run = Run::new(&setup, horizon.as_ref(), &wake);
        let describe = |request: &Request, source| describe(&setup.files, request, source);
        let advance = |bytes| setup.progress.advance(bytes);
        let io_threads = readers.len();
        let mut accounts = vec![((), ComputeAccount::default()); plan.compute_threads as usize];
        let (failure, done, runtime, io, read) = scope(|scope| {
            let _wakes = OnPanic(&wake);
            let started = Instant::now();
            let readers: Vec<_> = readers
                .into_iter()
                .enumerate()
                .filter_map(|(thread, io)| {
                    let mut reader = Reader {
                        exchange: &exchange,
                        io,
                        engine: plan.io.name(),
                        serves: serves(thread as u32, plan.io_threads, plan.devices),
                        depth: plan.depth_per_thread(),
                        batch: plan.batch as usize,
                        outstanding: &run.outstanding,
                        interrupt: setup.interrupt,
                        describe: &describe,
                        advance: &advance,
                    };
                    let run = &run;
                    let started = Builder::new().spawn_scoped(scope, move || {
                        let mut account = ReadAccount::new();
                        guarded(&run.failure, run.wake, || reader.run(&mut account));
                        account
                    });
                    run.granted(started)
                })
                .collect();
            let tickets = primitives::AtomicU64::new(0);
            let done = run.passes(
                algorithm,
                &exchange.schedule,
                index.as_ref(),
                loader.as_mut(),
                &mut accounts,
                &Rounds {
                    begin: &|pass, selection| {
                        let all = exchange.schedule.requests_per_pass();
                        let requests = selection.as_ref().map_or(all, |selection| selection.total());
                        tickets.store(requests, primitives::Ordering::Relaxed);
                        match selection {
                            Some(selection) => exchange.schedule.open_selected(pass, selection),
                            None => exchange.schedule.open(pass + 2),
                        }
                    },
                    thread: &|pass, work, (), account| {
                        let mut source = FromQueue {
                            exchange: &exchange,
                            pass,
                            tickets: &tickets,
                            interrupt: setup.interrupt,
                        };
                        work.drive(&mut source, account)
                    },
                },
            );
            let runtime = started.elapsed();
            let io = run.outstanding.total();
            // What fails from here on is of reads that nobody wants any more.
            let failure = run.failure.take();
            exchange.close();
            let mut read = ReadAccount::new();
            for reader in readers {
                // `guarded` catches panics, so a join fails only where the account itself could not be made.
                read.add(&reader.join().unwrap_or_default());
            }
            (failure, done, runtime, io, read)
        });
        finish(
            failure,
            done,
            runtime,
            io,
            accounts.into_iter().map(|((), account)| account).collect(),
            read,
            io_threads,
        )
    }

    fn run_sync(self, algorithm: &mut dyn Algorithm) -> Result<Account, EngineError> {
        let index = self.index(algorithm)?;
        let Self { setup, geometry, mut blocks, pins, readers, stream } = self;
        let plan = &setup.plan;
        let schedule = Schedule::new(geometry, algorithm.passes());
        let (horizon, mut loader) = stream.unzip();
        let wake = || {
            schedule.close();
            horizon.iter().for_each(Horizon::close);
        };
        let run = Run::new(&setup, horizon.as_ref(), &wake);
        let describe = |request: &Request, source| describe(&setup.files, request, source);
        let advance = |bytes| setup.progress.advance(bytes);
        let threads = readers.len();
        let share = blocks.len() / threads;
        let mut own: Vec<_> = readers
            .into_iter()
            .map(|io| {
                let free = blocks.split_off(blocks.len() - share);
                ((io, free, ReadAccount::new()), ComputeAccount::default())
            })
            .collect();
        let started = Instant::now();
        let done = run.passes(
            algorithm,
            &schedule,
            index.as_ref(),
            loader.as_mut(),
            &mut own,
            &Rounds {
                begin: &|pass, selection| match selection {
                    Some(selection) => schedule.open_selected(pass, selection),
                    None => schedule.open(pass + 1),
                },
                thread: &|_, work, (io, free, read), account| {
                    let mut source = OwnReads {
                        schedule: &schedule,
                        pins: &pins,
                        io: io.as_mut(),
                        engine: plan.io.name(),
                        free,
                        read,
                        outstanding: &run.outstanding,
                        interrupt: setup.interrupt,
                        describe: &describe,
                        advance: &advance,
                    };
                    work.drive(&mut source, account)
                },
            },
        );
        let runtime = started.elapsed();
        let io = run.outstanding.total();
        let mut read = ReadAccount::new();
        let mut compute = Vec::with_capacity(threads);
        for ((_, _, own), account) in own {
            read.add(&own);
            compute.push(account);
        }
        finish(run.failure.take(), done, runtime, io, compute, read, threads)
    }
}

/// One compute thread's share of a pass: number of the pass, its work, the thread's own state and account.
type ThreadBody<'a, S> =
    dyn Fn(u64, &PassWork<'_>, &mut S, &mut ComputeAccount) -> Result<(), EngineError> + Sync + 'a;

/// One pass's two hooks: what opens it, and what each compute thread does in it.
struct Rounds<'a, S> {
    begin: &'a dyn Fn(u64, Option<Arc<Selection>>),
    thread: &'a ThreadBody<'a, S>,
}

/// Wakes all threads where the one that drives the passes panics: its scope joins the others before it lets the panic on,
/// and they would wait for ever.
struct OnPanic<'a>(&'a (dyn Fn() + Sync));

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// What all threads of a run share.
struct Run<'a> {
    setup: &'a Setup<'a>,
    failure: Failure,
    outstanding: Outstanding,
    /// Which sources are in memory, where not all are.
    horizon: Option<&'a Horizon>,
    wake: &'a (dyn Fn() + Sync),
}

impl<'a> Run<'a> {
    fn new(setup: &'a Setup<'a>, horizon: Option<&'a Horizon>, wake: &'a (dyn Fn() + Sync)) -> Self {
        Self { setup, failure: Failure::new(), outstanding: Outstanding::new(), horizon, wake }
    }

    /// The thread, or the end of the run where the system grants none.
    fn granted<T>(&self, started: std::io::Result<T>) -> Option<T> {
        started
            .map_err(|error| {
                self.failure.raise(EngineError::Threads(error));
                (self.wake)();
            })
            .ok()
    }

    /// Runs pass after pass on as many threads as there are states.
    fn passes<S: Send>(
        &self,
        algorithm: &mut dyn Algorithm,
        schedule: &Schedule,
        index: Option<&Index>,
        mut loader: Option<&mut Loader>,
        threads: &mut [(S, ComputeAccount)],
        rounds: &Rounds<'_, S>,
    ) -> Done {
        let geometry = schedule.geometry();
        let (started, mut done) = (Instant::now(), Done::default());
        while !self.failure.raised() {
            let Some(pass) = algorithm.begin() else { break };
            let band = pass.band();
            let selection = match (index, &band) {
                (Some(index), Some((band, _))) => Some(index.select_band(band, geometry.columns())),
                (Some(index), None) => pass.active().map(|active| index.select(active, geometry.columns())),
                (None, _) => None,
            };
            let selection = selection.map(Arc::new);
            let requests = selection.as_ref().map(|selection| selection.requests().to_vec());
            let consumer = GridPass { setup: self.setup, pass: &*pass, selection: selection.as_deref() };
            let columns = band.as_ref().map_or(0..geometry.columns(), |(band, _)| band.clone());
            let stream = self.horizon.map(|horizon| Stream { horizon, schedule });
            let requests = requests.unwrap_or_else(|| geometry.requests_by_column());
            let work = PassWork::new(columns, &consumer, requests, stream);
            let (number, skipped) =
                (done.passes.len() as u64, selection.as_ref().map_or(0, |selection| selection.skipped()));
            (rounds.begin)(number, selection.clone());
            let windows = self.stream(band.as_ref(), schedule);
            scope(|scope| {
                let _wakes = OnPanic(self.wake);
                for (state, account) in threads.iter_mut() {
                    let (work, thread) = (&work, rounds.thread);
                    let started = Builder::new().spawn_scoped(scope, move || {
                        guarded(&self.failure, self.wake, || thread(number, work, state, account));
                    });
                    if self.granted(started).is_none() {
                        break;
                    }
                }
                if let (Some(loader), Some((first, sources, around))) = (loader.as_deref_mut(), windows) {
                    guarded(&self.failure, self.wake, || loader.run(first, sources, around));
                }
            });
            if !self.failure.raised() && !work.complete() {
                self.failure.raise(EngineError::Panicked("a pass ended before its columns did".to_owned()));
            }
            drop(work);
            drop(pass);
            if !self.failure.raised() {
                match algorithm.end() {
                    Ok(()) => {}
                    Err(error) => self.failure.raise(error.into()),
                }
                done.passes.push(started.elapsed());
                done.skipped += skipped;
            }
        }
        done
    }
}

impl Run<'_> {
    /// Begins to stream a band's sources: the first window, and what the loader needs to bring it and the others.
    fn stream<'b>(
        &'b self,
        band: Option<&(Range<usize>, &'b dyn Sources)>,
        schedule: &Schedule,
    ) -> Option<(u32, &'b dyn Sources, Around<'b>)> {
        let (horizon, (streaming, files)) = self.horizon.zip(self.setup.streaming.as_ref())?;
        let &(ref band, sources) = band?;
        let (windows, limit) = horizon.begin(streaming.windows(band));
        schedule.raise_horizon(limit);
        let Self { setup: Setup { interrupt, .. }, outstanding, .. } = self;
        Some((windows.start, sources, Around { horizon, files, outstanding, interrupt }))
    }
}

/// What the passes came to.
#[derive(Debug, Default)]
struct Done {
    /// When each ended.
    passes: Vec<Duration>,
    /// Bytes of requests that no pass wanted.
    skipped: u64,
}

fn finish(
    failure: Option<EngineError>,
    done: Done,
    runtime: Duration,
    io: Duration,
    compute: Vec<ComputeAccount>,
    read: ReadAccount,
    io_threads: usize,
) -> Result<Account, EngineError> {
    if let Some(error) = failure {
        return Err(error);
    }
    let Done { passes, skipped } = done;
    Ok(Account { runtime, io, passes, skipped, compute, read, io_threads })
}

/// A pass behind the grid's checks: bytes become edges of a column.
struct GridPass<'a> {
    setup: &'a Setup<'a>,
    pass: &'a dyn Pass,
    /// What it reads, where that is not all.
    selection: Option<&'a Selection>,
}

impl Consumer for GridPass<'_> {
    fn block(&self, block: &Filled, if_owned: IfOwned) -> Result<Taken, EngineError> {
        let Request { column, device, offset, len, .. } = block.request;
        let expect = self.setup.grid.expectation(column as u32, device, offset);
        let mut view = block.block.view(len, expect);
        self.pass
            .block(column, &mut view, if_owned)
            .map_err(|source| EngineError::Damaged { path: self.setup.files.path(device).to_owned(), source })
    }

    /// A chunk is complete in itself, so only the column shows that one has lost edges and was sealed again.
    fn column_done(&self, column: usize, edges: u64) -> Result<(), EngineError> {
        let grid = self.setup.grid;
        let all = grid.manifest.columns[column].edges;
        let expected = self.selection.map_or(all, |selection| selection.edges_of(column));
        if edges != expected {
            return Err(EngineError::Edges { dir: grid.paths.dir.clone(), column, found: edges, expected });
        }
        Ok(self.pass.column_done(column)?)
    }
}

fn describe(files: &DeviceFiles, request: &Request, source: std::io::Error) -> EngineError {
    let source = files.read_error(request.device, request.offset, source);
    EngineError::Read { column: request.column, source }
}
