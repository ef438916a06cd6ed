//! What `auto` means on this machine and for this grid, and whether the memory suffices: decided before
//! anything is allocated, refused with figures. How to ask the devices is what `ioc probe` found best for them;
//! the constants here stand in where nothing was probed.

use super::failure::EngineError;
use super::schedule::Geometry;
use crate::grid::Grid;
use crate::grid::chunk::CHUNK;
use crate::job::spec::{Auto, EngineSpec, IoSpec, KernelSpec, ModelSpec};
use crate::measure::advice::Advice;
use crate::units::format_bytes;

/// Bytes of a process of ours that computes nothing: code, stacks, allocator.
pub const PROCESS_BYTES: u64 = 12 << 20;

/// Bytes of an I/O thread: stack, queue of the kernel's interface, what the allocator keeps for it. Measured: 50 to 64 KiB.
const IO_THREAD_BYTES: u64 = 80 << 10;

/// I/O threads that [`PROCESS_BYTES`] has room for.
const IO_THREADS_COUNTED: u32 = 16;

/// Requests per device that `auto` keeps outstanding without a probe: what fills an SSD at the block size below.
pub(crate) const AUTO_DEPTH: u32 = 8;

/// Bytes per request that `auto` asks for without a probe.
pub(crate) const AUTO_BLOCK: u64 = 1 << 20;

/// Engine parameters with nothing left to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Who reads.
    pub model: ModelSpec,
    /// How is read.
    pub io: IoSpec,
    /// Who owns a column.
    pub kernel: KernelSpec,
    /// Bytes per request.
    pub block: u64,
    /// Blocks in the buffer.
    pub blocks: u64,
    /// Requests outstanding per device.
    pub depth: u32,
    /// Requests per submission, at most.
    pub batch: u32,
    /// I/O threads; under model `sync` 0.
    pub io_threads: u32,
    /// Compute threads.
    pub compute_threads: u32,
    /// Columns in flight at once.
    pub interleave: u32,
    /// Devices.
    pub devices: u32,
    /// Blocks that stay in memory between passes, at most.
    pub pins: u64,
    /// Threads that may work on a heavy column besides the one that owns it, each with values of its own.
    pub spares: u32,
}

impl Plan {
    /// Resolves what is `auto`, for so many devices and cores, with what a probe of these devices advises for the
    /// engine that will read ([`Plan::reads_by`]).
    pub fn resolve(
        spec: &EngineSpec,
        interleave: Option<u32>,
        devices: u32,
        cores: u32,
        advice: Option<&Advice>,
    ) -> Result<Self, EngineError> {
        let compute_threads = spec.compute_threads.or_else(|| cores);
        let sync = spec.model == ModelSpec::Sync;
        let blocking = sync || spec.io == IoSpec::Psync;
        let depth = if blocking { 1 } else { spec.io_depth.or_else(|| auto_depth(spec.block_size, advice)) };
        let io_threads = match (spec.model, spec.io) {
            (ModelSpec::Sync, _) => 0,
            // One asynchronous thread fills several devices; a blocking one keeps one busy and no more.
            (ModelSpec::Ioc, io) => spec.io_threads.or_else(|| {
                advice.map_or(if io == IoSpec::Psync { devices } else { 1 }, |advice| advice.io_threads)
            }),
        };
        let wanted = match (spec.model, spec.io) {
            (ModelSpec::Sync, _) => compute_threads,
            (ModelSpec::Ioc, IoSpec::Psync) => io_threads.max(devices) + 2 * compute_threads,
            (ModelSpec::Ioc, _) => devices * depth.min(AUTO_DEPTH) + 2 * compute_threads,
        };
        let most = advice.map_or(AUTO_BLOCK, |advice| advice.block);
        let block = spec.block_size.or_else(|| fitting_block(spec.buffer, wanted, most));
        let blocks = spec.buffer / block;
        let least = if sync { u64::from(compute_threads) } else { 2 };
        if blocks < least {
            let who = if sync { "each of the compute threads needs one" } else { "two are needed" };
            return Err(EngineError::Plan(format!(
                "engine.buffer = \"{}\" holds {blocks} blocks of engine.block_size = \"{}\", but {who} ({least}); \
                 make the buffer at least \"{}\" or the blocks smaller",
                format_bytes(spec.buffer),
                format_bytes(block),
                format_bytes(least.saturating_mul(block)),
            )));
        }
        Ok(Self {
            model: spec.model,
            io: spec.io,
            kernel: spec.kernel,
            block,
            blocks,
            depth,
            batch: spec.io_batch,
            io_threads,
            compute_threads,
            interleave: interleave.unwrap_or(compute_threads),
            devices,
            pins: 0,
            spares: 0,
        })
    }

    /// The engine whose advice counts: the synchronous model has one read outstanding per thread, whatever reads.
    pub fn reads_by(spec: &EngineSpec) -> IoSpec {
        if spec.model == ModelSpec::Sync { IoSpec::Psync } else { spec.io }
    }

    /// Requests that a pass over a grid takes.
    pub fn requests(&self, grid: &Grid) -> u64 {
        Geometry::of(grid, self).requests()
    }

    /// Requests that one I/O thread keeps outstanding per device.
    pub(crate) fn depth_per_thread(&self) -> usize {
        depth_per_thread(self.depth, self.io_threads, self.devices)
    }

    /// Free blocks that an I/O thread waits for where it lacks them: a batch, but no more than it may have outstanding
    /// on a device, and, of all I/O threads together, a quarter of the blocks.
    pub(crate) fn refill(&self) -> usize {
        let share = self.blocks / (4 * u64::from(self.io_threads.max(1)));
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        share.min(self.batch as usize).min(self.depth_per_thread()).max(1)
    }

    /// Bytes of all blocks.
    pub fn buffer_bytes(&self) -> u64 {
        self.block * self.blocks
    }

    /// Grants as many spares of `each` bytes, up to one for every thread but one, as `budget` leaves room for beside
    /// `state` bytes of per-vertex data. They take no more than that: what is left keeps blocks.
    #[must_use]
    pub fn with_spares(self, each: u64, state: u64, budget: u64) -> Self {
        let room = budget.saturating_sub(self.memory(state)).min(state);
        let most = self.compute_threads.saturating_sub(1);
        let spares = room.checked_div(each).map_or(0, |fit| fit.min(most.into()) as u32);
        Self { spares, ..self }
    }

    /// Keeps as many blocks in memory as `budget` leaves beside `state` bytes of per-vertex data.
    #[must_use]
    pub fn with_pins(self, state: u64, budget: u64) -> Self {
        Self { pins: budget.saturating_sub(self.memory(state)) / self.block, ..self }
    }

    /// Bytes of blocks that stay, at most, of a grid that takes so many requests.
    pub fn kept_bytes(&self, bytes: u64, requests: u64) -> u64 {
        let share = u128::from(bytes) * u128::from(self.pins.min(requests)) / u128::from(requests.max(1));
        share as u64
    }

    /// Bytes that so many passes over a grid of `bytes` in so many requests read: each block that stays once, the others
    /// in every pass. About: blocks differ in size, and one that is still under way is read again.
    pub fn read_bytes(&self, bytes: u64, requests: u64, passes: u64) -> u64 {
        let again = bytes - self.kept_bytes(bytes, requests);
        bytes.saturating_add(again.saturating_mul(passes.saturating_sub(1)))
    }

    /// Bytes of the whole process for a run that keeps `state` bytes per-vertex data.
    pub fn memory(&self, state: u64) -> u64 {
        self.buffer_bytes().saturating_add(self.process_bytes()).saturating_add(state)
    }

    fn process_bytes(&self) -> u64 {
        PROCESS_BYTES + IO_THREAD_BYTES * u64::from(self.io_threads.saturating_sub(IO_THREADS_COUNTED))
    }

    /// Refuses a run that would not stay within its budget.
    pub fn check_memory(&self, state: u64, budget: u64) -> Result<(), EngineError> {
        self.check(state, budget, "engine.memory is", "raise it, or make engine.buffer smaller")
    }

    /// Refuses a run that this machine's memory cannot hold, whatever its budget allows: the allocator would only abort.
    pub fn check_machine(&self, state: u64, machine: u64) -> Result<(), EngineError> {
        let help = "make engine.buffer smaller, or run it on a larger machine";
        self.check(state, machine, "this machine has", help)
    }

    fn check(&self, state: u64, limit: u64, whose: &str, help: &str) -> Result<(), EngineError> {
        let needed = self.memory(state);
        if needed <= limit {
            return Ok(());
        }
        Err(EngineError::Memory(format!(
            "the run needs {} of memory ({} for the vertices, {} for blocks, {} for the process), but {whose} {}; \
             {help}",
            format_bytes(needed),
            format_bytes(state),
            format_bytes(self.buffer_bytes()),
            format_bytes(self.process_bytes()),
            format_bytes(limit),
        )))
    }
}

/// Which devices a reading thread serves: every `threads`-th, or, where there are more threads than devices, one.
pub(crate) fn serves(thread: u32, threads: u32, devices: u32) -> Vec<bool> {
    let share = threads.min(devices).max(1);
    (0..devices).map(|device| device % share == thread % share).collect()
}

/// Requests that one reading thread has outstanding at most, on all devices that it serves.
pub(crate) fn requests_of_thread(thread: u32, depth: u32, threads: u32, devices: u32) -> usize {
    served(thread, threads, devices) * depth_per_thread(depth, threads, devices)
}

/// How many devices a reading thread serves.
pub(crate) fn served(thread: u32, threads: u32, devices: u32) -> usize {
    serves(thread, threads, devices).into_iter().filter(|&served| served).count()
}

/// Requests that one thread keeps outstanding per device: the depth, divided among the threads of a device.
pub(crate) fn depth_per_thread(depth: u32, threads: u32, devices: u32) -> usize {
    (depth / threads.div_ceil(devices.max(1)).max(1)).max(1) as usize
}

fn auto_depth(block: Auto<u64>, advice: Option<&Advice>) -> u32 {
    let Some(advice) = advice else { return AUTO_DEPTH };
    match block {
        Auto::Auto => advice.depth,
        Auto::Value(block) => advice.depth_for(block),
    }
}

/// The largest block up to `most` of which the buffer holds as many as are wanted.
fn fitting_block(buffer: u64, wanted: u32, most: u64) -> u64 {
    let mut block = most;
    while block > CHUNK as u64 && buffer / block < u64::from(wanted) {
        block /= 2;
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::spec::{CacheSpec, VertexStateSpec};

    fn spec(model: ModelSpec, io: IoSpec) -> EngineSpec {
        EngineSpec {
            model,
            io,
            block_size: Auto::Auto,
            io_depth: Auto::Auto,
            io_batch: 16,
            io_threads: Auto::Auto,
            compute_threads: Auto::Auto,
            buffer: 64 << 20,
            memory: 1 << 30,
            cache: CacheSpec::Off,
            kernel: KernelSpec::Owned,
            vertex_state: VertexStateSpec::Auto,
        }
    }

    fn advice() -> Advice {
        Advice { block: 512 << 10, depth: 4, io_threads: 3, depths: vec![(64 << 10, 24), (512 << 10, 4)] }
    }

    fn resolve(spec: &EngineSpec, advice: Option<&Advice>) -> (u64, u32, u32) {
        let plan = Plan::resolve(spec, None, 6, 2, advice).unwrap();
        (plan.block, plan.depth, plan.io_threads)
    }

    #[test]
    fn auto_is_what_the_probe_advises_and_the_constants_without_one() {
        for io in [IoSpec::Libaio, IoSpec::IoUring] {
            let spec = spec(ModelSpec::Ioc, io);
            assert_eq!(resolve(&spec, None), (1 << 20, 8, 1));
            assert_eq!(resolve(&spec, Some(&advice())), (512 << 10, 4, 3));
        }
        let blocking = spec(ModelSpec::Ioc, IoSpec::Psync);
        assert_eq!(resolve(&blocking, None), (1 << 20, 1, 6));
        assert_eq!(resolve(&blocking, Some(&advice())), (512 << 10, 1, 3));
        assert_eq!(resolve(&spec(ModelSpec::Sync, IoSpec::Libaio), Some(&advice())), (512 << 10, 1, 0));
    }

    #[test]
    fn what_the_job_says_goes_before_the_advice_and_the_depth_follows_the_block() {
        let mut spec = spec(ModelSpec::Ioc, IoSpec::Libaio);
        spec.block_size = Auto::Value(64 << 10);
        assert_eq!(resolve(&spec, Some(&advice())), (64 << 10, 24, 3));
        spec.io_depth = Auto::Value(2);
        spec.io_threads = Auto::Value(1);
        assert_eq!(resolve(&spec, Some(&advice())), (64 << 10, 2, 1));
    }

    #[test]
    fn blocks_that_stay_are_read_once_and_the_others_in_every_pass() {
        let plan = Plan::resolve(&spec(ModelSpec::Ioc, IoSpec::Libaio), None, 1, 2, None).unwrap();
        assert_eq!(plan.read_bytes(1000, 10, 5), 5000);
        let some = Plan { pins: 4, ..plan };
        assert_eq!((some.kept_bytes(1000, 10), some.read_bytes(1000, 10, 5)), (400, 1000 + 4 * 600));
        let all = Plan { pins: 99, ..plan };
        assert_eq!((all.read_bytes(1000, 10, 5), all.read_bytes(0, 0, 5)), (1000, 0));
    }

    #[test]
    fn spares_are_granted_as_they_fit_and_never_more_than_threads_can_use_or_the_vertices_take() {
        let plan = Plan::resolve(&spec(ModelSpec::Ioc, IoSpec::Libaio), None, 1, 4, None).unwrap();
        let (state, each) = (1000, 100);
        let spares = |each, room: u64| plan.with_spares(each, state, plan.memory(state) + room).spares;
        assert_eq!(
            (spares(each, 99), spares(each, 100), spares(each, 299), spares(each, 9999)),
            (0, 1, 2, 3)
        );
        assert_eq!((spares(600, 9999), spares(1001, 9999), spares(0, 9999)), (1, 0, 0));
        assert_eq!(plan.with_spares(each, state, 0).spares, 0);
    }

    #[test]
    fn every_device_is_served_and_its_depth_is_shared_by_the_threads_that_serve_it() {
        for (threads, devices) in [(1, 1), (1, 6), (2, 3), (3, 3), (4, 3), (7, 2)] {
            let served: Vec<_> = (0..threads).map(|thread| serves(thread, threads, devices)).collect();
            for device in 0..devices as usize {
                let sharing = served.iter().filter(|devices| devices[device]).count();
                let depth = sharing * depth_per_thread(32, threads, devices);
                assert!((16..=32).contains(&depth), "{threads} threads, {devices} devices: {depth}");
            }
        }
        assert_eq!(depth_per_thread(1, 8, 1), 1);
    }

    #[test]
    fn io_threads_that_wait_for_blocks_leave_most_of_them_to_computing() {
        let plan = Plan::resolve(&spec(ModelSpec::Ioc, IoSpec::Libaio), None, 1, 2, None).unwrap();
        let refill = |blocks, io_threads| Plan { blocks, io_threads, ..plan }.refill();
        assert_eq!((refill(2, 1), refill(16, 1), refill(1000, 1)), (1, 4, 8));
        assert_eq!((refill(16, 4), refill(1000, 2)), (1, 4));
    }

    #[test]
    fn a_small_buffer_has_smaller_blocks_than_advised() {
        let mut spec = spec(ModelSpec::Ioc, IoSpec::Libaio);
        spec.buffer = 2 << 20;
        // 6 devices times 4 requests and 2 blocks for each of 2 threads: 28.
        assert_eq!(resolve(&spec, Some(&advice())).0, 64 << 10);
    }
}
