//! What an import may hold in memory, phase by phase. Everything that grows with the graph is counted before it
//! is allocated; what does not fit is refused with the figures that would.

use crate::grid::error::GridError;

use super::ids::{Bitmap, Sorted};
use super::spill::SLAB;

/// The process itself: code, allocator, small lists.
const PROCESS: u64 = 16 << 20;
/// A worker: stack, the reader's own buffers, a batch of edges.
const WORKER: u64 = 2 << 20;
/// Smallest buffer of a bucket: a block of the file system.
const LEAST_BLOCK: u64 = 4 << 10;
/// Largest: beyond this a write gains nothing.
const MOST_BLOCK: u64 = 32 << 10;
/// Smallest segment that is sorted at once, per buffer.
const LEAST_SEGMENT: u64 = 256 << 10;
/// What an encoding worker can use before edges stay in memory: to sort 10 M edges at once, which is a column of usual
/// graphs.
const COMFORTABLE: u64 = 192 << 20;
/// Bytes of finished chunks that an encoding worker gathers before it writes.
pub(super) const RUN: usize = 1 << 20;
/// Bytes read at once from a temporary file.
pub(super) const READ: usize = 256 << 10;

/// Upper bounds on what the plan chooses; tests lower them to force what only huge graphs have.
#[derive(Debug, Clone, Copy)]
pub(in crate::grid) struct Limits {
    /// Edges sorted at once.
    pub(in crate::grid) segment_edges: u64,
    /// Bytes of a bucket's buffer.
    pub(in crate::grid) block: u64,
    /// Bytes of a bitmap of ids.
    pub(in crate::grid) bitmap: u64,
    /// Bytes of edges that stay in memory.
    pub(in crate::grid) hold: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { segment_edges: u64::MAX, block: MOST_BLOCK, bitmap: u64::MAX, hold: u64::MAX }
    }
}

/// The budget of an import.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// For messages.
    pub(super) graph: String,
    /// Bytes the process may hold.
    pub(super) total: u64,
    /// Threads allowed.
    pub(super) threads: usize,
    /// Further bounds.
    pub(super) limits: Limits,
}

/// How ids are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdPlan {
    /// By a bitmap.
    Bitmap,
    /// In sorted lists: at most so many ids, collectors of so many each.
    Sorted { limit: u64, collector: usize },
}

/// How edges are dealt into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScatterPlan {
    pub(super) threads: usize,
    /// Bytes of a buffer, of which each thread has one per bucket.
    pub(super) block: usize,
    /// Bytes of edges that stay in memory from there to the encoding.
    pub(super) hold: u64,
}

/// How columns are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EncodePlan {
    pub(super) threads: usize,
    /// Edges sorted at once by a thread.
    pub(super) segment_edges: u64,
}

impl Budget {
    /// What is left for a phase with so many threads.
    fn rest(&self, threads: usize) -> u64 {
        self.total.saturating_sub(PROCESS + threads as u64 * WORKER)
    }

    /// What is left beside the process with so many threads and what is held already.
    pub(super) fn room(&self, threads: usize, held: u64) -> u64 {
        self.rest(threads).saturating_sub(held)
    }

    /// The error of a phase that needs so much beside the process with so many threads.
    fn refuse(&self, purpose: String, threads: usize, beside: u64) -> GridError {
        let needed = (PROCESS + threads as u64 * WORKER).saturating_add(beside);
        GridError::Memory { graph: self.graph.clone(), purpose, needed, budget: self.total }
    }

    /// How to gather the ids, of which `largest` is the largest.
    pub(super) fn ids(&self, largest: u64) -> IdPlan {
        let rest = self.rest(self.threads);
        let bitmap = Bitmap::bytes_for(largest);
        if bitmap <= rest / 2 && bitmap <= self.limits.bitmap {
            return IdPlan::Bitmap;
        }
        let collectors = rest / 4;
        let collector = (collectors / self.threads as u64 / 8).clamp(1 << 10, 1 << 22) as usize;
        let limit = ((rest - collectors) / Sorted::bytes_for(1)).min(u32::MAX.into());
        IdPlan::Sorted { limit, collector }
    }

    /// The error where the distinct ids are more than the budget holds.
    pub(super) fn refuse_ids(&self, at_least: u64) -> GridError {
        let purpose = format!("{at_least} or more distinct vertex ids that are too sparse for a bitmap");
        // What `ids` gives them is three quarters; the rest is for the collectors.
        let needed = (Sorted::bytes_for(at_least) / 3 + 1).saturating_mul(4);
        self.refuse(purpose, self.threads, needed.saturating_add(LEAST_BLOCK))
    }

    /// How to deal into buckets with a map of ids of so many bytes, where the encoding then holds `fixed` bytes that
    /// grow with the graph.
    pub(super) fn scatter(&self, buckets: usize, map: u64, fixed: u64) -> Result<ScatterPlan, GridError> {
        let buckets = buckets.max(1) as u64;
        let block = |threads: usize| self.rest(threads).saturating_sub(map) / threads as u64 / buckets;
        let Some(threads) = (1..=self.threads).rev().find(|&threads| block(threads) >= LEAST_BLOCK) else {
            let purpose =
                format!("{map} bytes to number vertices, and buffers for {buckets} ranges of destinations");
            return Err(self.refuse(purpose, 1, map.saturating_add(buckets * LEAST_BLOCK)));
        };
        let block = block(threads).min(MOST_BLOCK) & !(LEAST_BLOCK - 1);
        let block = block.min(self.limits.block);
        // Edges that need not go to disk and back are half the pace, but not at the price of sorting in small parts.
        let here = self.rest(threads).saturating_sub(map + threads as u64 * buckets * block);
        let then = self.rest(self.threads).saturating_sub(fixed + self.threads as u64 * COMFORTABLE);
        let hold = here.min(then).min(self.limits.hold) / SLAB as u64 * SLAB as u64;
        Ok(ScatterPlan { threads, block: block as usize, hold })
    }

    /// On how many threads vertices can be put in order beside a map of ids and a sample of so many bytes: degrees by each thread, then
    /// ranking and positions, then positions and their inverse.
    pub(super) fn order(&self, vertices: u64, map: u64) -> Result<usize, GridError> {
        let array = vertices.saturating_mul(4);
        let fits = |threads: usize| {
            let needed = array.saturating_mul(threads.max(2) as u64).saturating_add(map);
            needed <= self.rest(threads)
        };
        if let Some(threads) = (1..=self.threads).rev().find(|&threads| fits(threads)) {
            return Ok(threads);
        }
        let needed = array.saturating_mul(2).saturating_add(map);
        let purpose = format!("{needed} bytes to put {vertices} vertices in order");
        Err(self.refuse(purpose, 1, needed))
    }

    /// What is left then, on one thread.
    pub(super) fn room_to_order(&self, vertices: u64, map: u64) -> u64 {
        self.rest(1).saturating_sub(vertices.saturating_mul(2 * 4).saturating_add(map))
    }

    /// How to encode edges of `edge_bytes` in memory, from buckets of so many destinations, while lists of
    /// `lists` bytes are held.
    pub(super) fn encode(
        &self,
        vertices: u64,
        bucket: u64,
        lists: u64,
        edge_bytes: u64,
    ) -> Result<EncodePlan, GridError> {
        let degrees = vertices.saturating_mul(4);
        let fixed = degrees.saturating_add(lists);
        let own = (RUN + READ) as u64;
        let share = |threads: usize| self.rest(threads).saturating_sub(fixed) / threads as u64;
        let least = own + bucket * 8 + 2 * LEAST_SEGMENT;
        let Some(threads) = (1..=self.threads).rev().find(|&threads| share(threads) >= least) else {
            let purpose =
                format!("{degrees} bytes for the degrees of {vertices} vertices, and buffers to sort edges");
            return Err(self.refuse(purpose, 1, fixed.saturating_add(least)));
        };
        let share = share(threads);
        // The allocator keeps some memory of the phases before: measured, 8 MiB of 128.
        let kept = (share - least).min(self.total / 16 / threads as u64);
        let segment_edges = (share - kept - own - bucket * 8) / (2 * edge_bytes);
        // The sort counts in 32 bits.
        let segment_edges = segment_edges.min(self.limits.segment_edges).min(u32::MAX.into());
        Ok(EncodePlan { threads, segment_edges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(total: u64) -> Budget {
        Budget { graph: "g".to_owned(), total, threads: 2, limits: Limits::default() }
    }

    /// What a plan will hold, counted again.
    fn held(plan: EncodePlan, vertices: u64, edge_bytes: u64) -> u64 {
        let in_weights = 8 << 14;
        let worker = WORKER + (RUN + READ) as u64 + in_weights + 2 * plan.segment_edges * edge_bytes;
        PROCESS + vertices * 4 + plan.threads as u64 * worker
    }

    #[test]
    fn scale_22_fits_256_mib_with_room_to_sort_well() {
        let vertices = 1 << 22;
        for edge_bytes in [8, 16] {
            let plan = budget(256 << 20).encode(vertices, 1 << 14, 1 << 20, edge_bytes).unwrap();
            assert!(held(plan, vertices, edge_bytes) + (1 << 20) <= 256 << 20);
            assert!(plan.threads == 2 && plan.segment_edges > 2_000_000, "{plan:?}");
        }
        let scatter = budget(256 << 20).scatter(512, Bitmap::bytes_for(vertices), 4 * vertices).unwrap();
        assert_eq!(scatter, ScatterPlan { threads: 2, block: 32 << 10, hold: 0 });
    }

    #[test]
    fn scale_22_fits_1_gib_without_a_spill() {
        let scatter = budget(1 << 30).scatter(256, 0, 4 << 22).unwrap();
        assert!(scatter.hold > (64 << 20) * 6, "{scatter:?}");
        let plan = budget(1 << 30).encode(1 << 22, 1 << 14, scatter.hold, 8).unwrap();
        assert!(plan.segment_edges > 10_000_000, "{plan:?}");
    }

    #[test]
    fn plans_stay_within_every_budget_or_refuse_with_one_that_suffices() {
        for shift in 20..40 {
            for vertices in [0, 1 << 10, 1 << 22, 1 << 30] {
                let total = (1 << shift) + (1 << (shift - 1));
                match budget(total).encode(vertices, 1 << 14, 5000, 16) {
                    Ok(plan) => assert!(held(plan, vertices, 16) + 5000 <= total, "{plan:?}"),
                    Err(GridError::Memory { needed, .. }) => {
                        assert!(needed > total);
                        assert!(budget(needed).encode(vertices, 1 << 14, 5000, 16).is_ok());
                    }
                    Err(other) => panic!("{other}"),
                }
                match budget(total).scatter(300, vertices, 4 * vertices) {
                    Ok(plan) => {
                        let held = plan.threads as u64 * (WORKER + 300 * plan.block as u64);
                        assert!(PROCESS + vertices + held + plan.hold <= total);
                    }
                    Err(GridError::Memory { needed, .. }) => {
                        assert!(
                            needed > total && budget(needed).scatter(300, vertices, 4 * vertices).is_ok()
                        );
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}
