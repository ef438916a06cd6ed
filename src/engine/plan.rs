//! What `auto` means on this machine and for this grid, and whether the memory suffices: decided before
//! anything is allocated, refused with figures.

use super::failure::EngineError;
use crate::grid::chunk::CHUNK;
use crate::job::spec::{EngineSpec, IoSpec, KernelSpec, ModelSpec};
use crate::units::format_bytes;

/// Bytes of a process of ours that computes nothing: code, stacks, allocator.
pub const PROCESS_BYTES: u64 = 12 << 20;

/// Requests per device that `auto` keeps outstanding: what fills an SSD at the block size below.
const AUTO_DEPTH: u32 = 8;

/// Bytes per request that `auto` asks for.
const AUTO_BLOCK: u64 = 1 << 20;

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
}

impl Plan {
    /// Resolves what is `auto`, for so many devices and cores.
    pub fn resolve(
        spec: &EngineSpec,
        interleave: Option<u32>,
        devices: u32,
        cores: u32,
    ) -> Result<Self, EngineError> {
        let compute_threads = spec.compute_threads.or_else(|| cores);
        let sync = spec.model == ModelSpec::Sync;
        let blocking = sync || spec.io == IoSpec::Psync;
        let depth = if blocking { 1 } else { spec.io_depth.or_else(|| AUTO_DEPTH) };
        let io_threads = match (spec.model, spec.io) {
            (ModelSpec::Sync, _) => 0,
            (ModelSpec::Ioc, IoSpec::Libaio) => spec.io_threads.or_else(|| 1),
            // A blocking thread keeps one device busy and no more.
            (ModelSpec::Ioc, IoSpec::Psync) => spec.io_threads.or_else(|| devices),
        };
        let wanted =
            if sync { compute_threads } else { devices * depth.min(AUTO_DEPTH) + 2 * compute_threads };
        let block = spec.block_size.or_else(|| fitting_block(spec.buffer, wanted));
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
        })
    }

    /// Bytes of all blocks.
    pub fn buffer_bytes(&self) -> u64 {
        self.block * self.blocks
    }

    /// Keeps as many blocks in memory as `budget` leaves beside `state` bytes of per-vertex data.
    #[must_use]
    pub fn with_pins(self, state: u64, budget: u64) -> Self {
        Self { pins: budget.saturating_sub(self.memory(state)) / self.block, ..self }
    }

    /// Bytes of the whole process for a run that keeps `state` bytes per-vertex data.
    pub fn memory(&self, state: u64) -> u64 {
        self.buffer_bytes().saturating_add(PROCESS_BYTES).saturating_add(state)
    }

    /// Refuses a run that would not stay within its budget.
    pub fn check_memory(&self, state: u64, budget: u64) -> Result<(), EngineError> {
        let needed = self.memory(state);
        if needed <= budget {
            return Ok(());
        }
        Err(EngineError::Memory(format!(
            "the run needs {} of memory ({} for the vertices, {} for blocks, {} for the process), but engine.memory \
             is {}; raise it, or make engine.buffer smaller",
            format_bytes(needed),
            format_bytes(state),
            format_bytes(self.buffer_bytes()),
            format_bytes(PROCESS_BYTES),
            format_bytes(budget),
        )))
    }
}

/// The largest block up to [`AUTO_BLOCK`] of which the buffer holds as many as are wanted.
fn fitting_block(buffer: u64, wanted: u32) -> u64 {
    let mut block = AUTO_BLOCK;
    while block > CHUNK as u64 && buffer / block < u64::from(wanted) {
        block /= 2;
    }
    block
}
