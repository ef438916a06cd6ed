//! The queue protocol under the model checker: the real loops of reading and computing, with an engine that is done
//! at once, in every interleaving that loom finds within its bound.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib engine::model`, with `LOOM_MAX_PREEMPTIONS=2` before it for a
//! search that takes ten minutes and not ten seconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use loom::model::Builder;
use loom::thread;

use super::accounting::{ComputeAccount, Outstanding, ReadAccount};
use super::active::Marks;
use super::compute::{Consumer, Filled, PassWork, Stream};
use super::failure::{EngineError, Failure, guarded};
use super::horizon::{Horizon, Windows};
use super::ioc::{Exchange, FromQueue, Reader};
use super::loader::{Around, Loader};
use super::pass::{IfOwned, Taken};
use super::pins::Pins;
use super::primitives::{AtomicU64, Mutex, Ordering, lock};
use super::schedule::{Geometry, Request, Schedule};
use super::selection::{Held, Index, Selection};
use super::streaming::{Planned, Sources};
use crate::grid::Contents;
use crate::interrupt::Interrupt;
use crate::io::{Completion, IoEngine, ReadRequest};
use crate::storage::buffer::{ALIGNMENT, AlignedBuffer};
use crate::storage::device::DeviceFiles;
use crate::storage::vertex_store::Place;

/// Completes each request at once, the newest first; fails the one of a given number.
struct AtOnce {
    done: VecDeque<ReadRequest>,
    seen: u64,
    fails: Option<u64>,
}

impl IoEngine for AtOnce {
    fn submit(&mut self, requests: &mut Vec<ReadRequest>) -> std::io::Result<()> {
        self.done.extend(requests.drain(..));
        Ok(())
    }

    fn reap(&mut self, _least: usize, completions: &mut Vec<Completion>) -> std::io::Result<()> {
        while let Some(request) = self.done.pop_back() {
            let result =
                if self.fails == Some(self.seen) { Err(std::io::ErrorKind::Other.into()) } else { Ok(()) };
            self.seen += 1;
            let now = Instant::now();
            completions.push(Completion { request, submitted: now, completed: now, result });
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn capacity(&self) -> usize {
        2
    }
}

/// Notes what was computed, and finds a column busy while another thread is in it.
struct Notes {
    columns: Vec<Mutex<bool>>,
    /// Blocks of each column, of an edge each.
    edges: Vec<u64>,
    blocks: Mutex<Vec<Request>>,
    done: Mutex<Vec<usize>>,
}

impl Consumer for Notes {
    fn block(&self, block: &Filled, if_owned: IfOwned) -> Result<Taken, EngineError> {
        let column = &self.columns[block.request.column];
        let owned = match if_owned {
            IfOwned::Return => match column.try_lock() {
                Ok(guard) => guard,
                Err(_) => return Ok(Taken::Busy),
            },
            IfOwned::Wait => lock(column),
        };
        lock(&self.blocks).push(block.request);
        drop(owned);
        Ok(Taken::Done(1))
    }

    fn column_done(&self, column: usize, edges: u64) -> Result<(), EngineError> {
        assert_eq!(edges, self.edges[column]);
        lock(&self.done).push(column);
        Ok(())
    }
}

/// Everything that the threads of one model share; leaked, since loom has no scoped threads.
struct World {
    exchange: Exchange,
    failure: Failure,
    outstanding: Outstanding,
    interrupt: Interrupt,
    tickets: AtomicU64,
    /// Of a play whose sources are streamed.
    horizon: Option<Horizon>,
}

impl World {
    fn close(&self) {
        self.exchange.close();
        self.horizon.iter().for_each(Horizon::close);
    }
}

fn broken(_: &Request, source: std::io::Error) -> EngineError {
    EngineError::Engine { engine: "test", source }
}

/// What a model has that not all have.
#[derive(Clone, Copy)]
struct Play {
    readers: usize,
    /// Of memory, and how many must be free for a reader to go on.
    blocks: usize,
    refill: usize,
    pins: u64,
    /// Number of the request that each reader fails.
    fails: Option<u64>,
    /// Windows of sources in memory at once, where these are streamed.
    ring: Option<u32>,
}

const ONE_BLOCK: Play = Play { readers: 1, blocks: 1, refill: 1, pins: 0, fails: None, ring: None };
const TWO_BLOCKS: Play = Play { blocks: 2, ..ONE_BLOCK };

/// Two columns of two and one blocks, on one device; two compute threads; `passes` passes.
fn play(passes: u64, play: Play) -> (&'static World, Vec<&'static Notes>) {
    play_selected(&vec![None; passes as usize], play)
}

/// The same with passes that want the blocks of these numbers, or all.
fn play_selected(passes: &[Option<&[usize]>], play: Play) -> (&'static World, Vec<&'static Notes>) {
    let Play { readers, blocks, refill, pins, fails, ring } = play;
    let block = ALIGNMENT as u64;
    let geometry = match ring {
        None => Geometry::new(vec![vec![0..2 * block], vec![2 * block..3 * block]], block, 2, pins),
        Some(_) => Geometry::planned(2, vec![STREAMED.map(planned).to_vec()]),
    };
    let pins = Pins::new(geometry.pins(), ALIGNMENT);
    let buffers = (0..blocks).map(|_| AlignedBuffer::new(ALIGNMENT)).collect();
    let world: &'static World = Box::leak(Box::new(World {
        exchange: Exchange::new(buffers, refill, Schedule::new(geometry, passes.len() as u64), pins),
        failure: Failure::new(),
        outstanding: Outstanding::new(),
        interrupt: Interrupt::new(),
        tickets: AtomicU64::new(0),
        horizon: ring.map(Horizon::new),
    }));
    let read = move || {
        let mut reader = Reader {
            exchange: &world.exchange,
            io: Box::new(AtOnce { done: VecDeque::new(), seen: 0, fails }),
            engine: "test",
            serves: vec![true],
            depth: 2,
            batch: 2,
            outstanding: &world.outstanding,
            interrupt: &world.interrupt,
            describe: &broken,
            advance: &|_| {},
        };
        let mut account = ReadAccount::new();
        guarded(&world.failure, &|| world.close(), || reader.run(&mut account));
    };
    let readers: Vec<_> = (0..readers).map(|_| thread::spawn(read)).collect();
    let mut played = Vec::new();
    for (pass, wanted) in (0..).zip(passes) {
        if world.failure.raised() {
            break;
        }
        let schedule = &world.exchange.schedule;
        let selection = wanted.map(|wanted| Arc::new(select(wanted)));
        let all = schedule.geometry().requests_by_column();
        let requests = selection.as_ref().map_or(all, |selection| selection.requests().to_vec());
        let notes: &'static Notes = Box::leak(Box::new(Notes {
            edges: requests.clone(),
            columns: vec![Mutex::new(false), Mutex::new(false)],
            blocks: Mutex::new(Vec::new()),
            done: Mutex::new(Vec::new()),
        }));
        let stream = world.horizon.as_ref().map(|horizon| Stream { horizon, schedule });
        let work: &'static PassWork<'static> =
            Box::leak(Box::new(PassWork::new(0..requests.len(), notes, requests, stream)));
        let all = schedule.requests_per_pass();
        let count = selection.as_ref().map_or(all, |selection| selection.total());
        world.tickets.store(count, Ordering::Relaxed);
        match selection {
            Some(selection) => schedule.open_selected(pass, selection),
            None => schedule.open(pass + 2),
        }
        let loader = world.horizon.as_ref().map(|horizon| {
            let (windows, limit) = horizon.begin(STREAMED.into_iter().map(|(_, _, windows)| windows));
            schedule.raise_horizon(limit);
            thread::spawn(move || load(world, horizon, windows.start, fails))
        });
        let other = thread::spawn(move || compute(world, work, pass));
        compute(world, work, pass);
        other.join().unwrap();
        loader.into_iter().for_each(|loader| loader.join().unwrap());
        played.push(notes);
    }
    world.close();
    for reader in readers {
        reader.join().unwrap();
    }
    (world, played)
}

/// All blocks.
const ALL: Option<&[usize]> = Some(&[0, 1, 2]);

/// The same blocks in the order of their sources: column, number, windows.
const STREAMED: [(usize, u64, Windows); 3] = [(0, 0, (0, 1)), (1, 2, (0, 2)), (0, 1, (1, 3))];

fn planned((column, number, windows): (usize, u64, Windows)) -> Planned {
    let block = ALIGNMENT as u64;
    Planned { column, range: number * block..(number + 1) * block, windows }
}

/// Windows that are there as soon as they are asked for.
struct Windowed;

impl Sources for Windowed {
    fn place(&self, window: u32) -> Option<Place> {
        // The one in the middle is zero.
        (window != 1).then_some(Place { device: 0, offset: 0, len: ALIGNMENT })
    }

    fn put(&self, _: u32, _: Option<&[u8]>) {}
}

fn load(world: &'static World, horizon: &'static Horizon, first: u32, fails: Option<u64>) {
    let io = Box::new(AtOnce { done: VecDeque::new(), seen: 0, fails: fails.map(|_| 1) });
    let files = DeviceFiles::open(&[]).expect("no files");
    let around =
        Around { horizon, files: &files, outstanding: &world.outstanding, interrupt: &world.interrupt };
    let run = || Loader::new(io, "test").run(first, &Windowed, around);
    guarded(&world.failure, &|| world.close(), run);
}

/// The selection of some of the three blocks.
fn select(wanted: &[usize]) -> Selection {
    const FAR: usize = 1 << 16;
    let held = |(number, column): (usize, usize)| {
        let source = (number * FAR) as u32;
        let contents = Contents { first_source: source, last_source: source, edges: 1 };
        Held { column, bytes: ALIGNMENT as u64, contents }
    };
    // In the order in which they go out.
    let index = Index::new(vec![[0, 2, 1].into_iter().zip([0, 1, 0]).map(held).collect()]);
    let mut marks = Marks::new(3 * FAR);
    for number in wanted {
        marks.mark(number * FAR);
    }
    index.select(&marks.take(), 2)
}

fn compute(world: &'static World, work: &'static PassWork<'static>, pass: u64) {
    let mut source =
        FromQueue { exchange: &world.exchange, pass, tickets: &world.tickets, interrupt: &world.interrupt };
    let mut account = ComputeAccount::default();
    guarded(&world.failure, &|| world.close(), || work.drive(&mut source, &mut account));
}

/// Runs a test in every interleaving with so many preemptions at most, or as the environment says.
fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 100_000;
    builder.check(test);
}

#[test]
fn every_block_of_every_pass_is_computed_once_in_its_pass() {
    check(1, || {
        let (world, played) = play(2, TWO_BLOCKS);
        assert!(world.failure.take().is_none());
        for (pass, notes) in played.iter().enumerate() {
            let mut blocks = lock(&notes.blocks).clone();
            blocks.sort_by_key(|request| request.offset);
            let offsets: Vec<_> = blocks.iter().map(|request| request.offset / ALIGNMENT as u64).collect();
            assert_eq!(offsets, [0, 1, 2]);
            assert!(blocks.iter().all(|request| request.pass == pass as u64));
            let mut columns = lock(&notes.done).clone();
            columns.sort_unstable();
            assert_eq!(columns, [0, 1]);
        }
    });
}

#[test]
fn blocks_that_stay_are_computed_once_per_pass_too() {
    for pins in [1, 3] {
        check(1, move || {
            let (world, played) = play(3, Play { pins, ..ONE_BLOCK });
            assert!(world.failure.take().is_none());
            for notes in &played {
                assert_eq!(lock(&notes.blocks).len(), 3);
            }
        });
    }
}

#[test]
fn only_the_blocks_that_a_pass_wants_are_computed() {
    for pins in [0, 2] {
        check(1, move || {
            let passes: [&[usize]; 3] = [&[1], &[], &[0, 2]];
            let (world, played) = play_selected(&passes.map(Some), Play { pins, ..ONE_BLOCK });
            assert!(world.failure.take().is_none());
            for ((pass, notes), wanted) in (0..).zip(&played).zip(passes) {
                let mut blocks = lock(&notes.blocks).clone();
                blocks.sort_by_key(|request| request.offset);
                let numbers = blocks.iter().map(|request| request.offset as usize / ALIGNMENT);
                assert!(numbers.eq(wanted.iter().copied()));
                assert!(blocks.iter().all(|request| request.pass == pass));
                assert_eq!(lock(&notes.done).len(), 2);
            }
        });
    }
}

#[test]
fn a_failed_read_ends_every_thread() {
    for fails in 0..3 {
        check(2, move || {
            let (world, _) = play(1, Play { fails: Some(fails), ..TWO_BLOCKS });
            assert!(matches!(world.failure.take(), Some(EngineError::Engine { .. })));
        });
    }
}

#[test]
fn a_reader_that_waits_for_two_free_blocks_gets_them() {
    check(1, || {
        let (world, played) = play(2, Play { blocks: 3, refill: 2, ..ONE_BLOCK });
        assert!(world.failure.take().is_none());
        for notes in &played {
            assert_eq!(lock(&notes.blocks).len(), 3);
        }
    });
}

#[test]
fn streamed_sources_are_there_when_they_are_computed_on_and_nobody_waits_for_ever() {
    // The longest request needs two windows.
    for ring in [2, 4] {
        check(1, move || {
            let (world, played) = play_selected(&[ALL], Play { ring: Some(ring), ..TWO_BLOCKS });
            assert!(world.failure.take().is_none());
            for notes in &played {
                assert_eq!(lock(&notes.blocks).len(), 3);
            }
        });
    }
}

#[test]
fn a_window_that_cannot_be_read_ends_every_thread() {
    check(1, || {
        // The reader fails no request that there is.
        let (world, _) = play_selected(&[ALL], Play { ring: Some(2), fails: Some(9), ..TWO_BLOCKS });
        assert!(matches!(world.failure.take(), Some(EngineError::State(_))));
    });
}

#[test]
fn one_block_is_enough_to_get_on() {
    check(2, || {
        let (world, played) = play(1, ONE_BLOCK);
        assert!(world.failure.take().is_none());
        assert_eq!(lock(&played[0].blocks).len(), 3);
    });
}

#[test]
fn two_readers_share_the_requests_and_the_blocks() {
    check(1, || {
        let (world, played) = play(1, Play { readers: 2, ..TWO_BLOCKS });
        assert!(world.failure.take().is_none());
        let mut offsets: Vec<_> = lock(&played[0].blocks).iter().map(|request| request.offset).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, [0, 1, 2].map(|block| block * ALIGNMENT as u64));
    });
}
