//! What an import may hold in memory, phase by phase. Everything that grows with the graph is counted before it
//! is allocated; what does not fit is refused with the figures that would.

use crate::grid::error::GridError;

use super::ids::{Bitmap, Sorted};

/// The process itself: code, allocator, small lists.
const PROCESS: u64 = 16 << 20;
/// A worker: stack, the reader's own buffers, a batch of edges.
const WORKER: u64 = 2 << 20;
/// Smallest buffer of a bucket: a block of the file system.
const LEAST_BLOCK: u64 = 4 << 10;
/// Largest: beyond this a write gains nothing.
const MOST_BLOCK: u64 = 64 << 10;
/// Smallest segment that is sorted at once, per buffer.
const LEAST_SEGMENT: u64 = 256 << 10;
/// Destinations whose in-weights an encoding worker sums at once, at most: 32 MiB.
const MOST_DESTINATIONS: u64 = 1 << 22;
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
}

impl Default for Limits {
    fn default() -> Self {
        Self { segment_edges: u64::MAX, block: MOST_BLOCK, bitmap: u64::MAX }
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
}

/// How columns are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EncodePlan {
    pub(super) threads: usize,
    /// Edges sorted at once by a thread.
    pub(super) segment_edges: u64,
    /// Destinations of a segment at most.
    pub(super) destinations: u64,
}

impl Budget {
    /// What is left for a phase with so many threads.
    fn rest(&self, threads: usize) -> u64 {
        self.total.saturating_sub(PROCESS + threads as u64 * WORKER)
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

    /// How to deal into buckets with a map of ids of so many bytes.
    pub(super) fn scatter(&self, buckets: usize, map: u64) -> Result<ScatterPlan, GridError> {
        let buckets = buckets.max(1) as u64;
        let block = |threads: usize| self.rest(threads).saturating_sub(map) / threads as u64 / buckets;
        let Some(threads) = (1..=self.threads).rev().find(|&threads| block(threads) >= LEAST_BLOCK) else {
            let purpose =
                format!("{map} bytes to number vertices, and buffers for {buckets} ranges of destinations");
            return Err(self.refuse(purpose, 1, map.saturating_add(buckets * LEAST_BLOCK)));
        };
        let block = block(threads).min(MOST_BLOCK) & !(LEAST_BLOCK - 1);
        Ok(ScatterPlan { threads, block: block.min(self.limits.block) as usize })
    }

    /// Whether vertices can be put in order beside a map of ids of so many bytes: degrees and positions, then
    /// positions and their inverse.
    pub(super) fn order(&self, vertices: u64, map: u64) -> Result<(), GridError> {
        let needed = vertices.saturating_mul(8).saturating_add(map);
        if needed <= self.rest(self.threads) {
            return Ok(());
        }
        let purpose = format!("{needed} bytes to put {vertices} vertices in order");
        Err(self.refuse(purpose, self.threads, needed))
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
        // An eighth for the in-weights: edges outnumber the destinations they go to.
        let destinations = (share / 8 / 8).clamp(bucket, bucket.max(MOST_DESTINATIONS));
        let destinations =
            if own + destinations * 8 + 2 * LEAST_SEGMENT <= share { destinations } else { bucket };
        let segment_edges = (share - own - destinations * 8) / (2 * edge_bytes);
        Ok(EncodePlan { threads, segment_edges: segment_edges.min(self.limits.segment_edges), destinations })
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
        let worker =
            WORKER + (RUN + READ) as u64 + plan.destinations * 8 + 2 * plan.segment_edges * edge_bytes;
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
        let scatter = budget(256 << 20).scatter(512, Bitmap::bytes_for(vertices)).unwrap();
        assert_eq!(scatter, ScatterPlan { threads: 2, block: 64 << 10 });
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
                match budget(total).scatter(300, vertices) {
                    Ok(plan) => {
                        let held = plan.threads as u64 * (WORKER + 300 * plan.block as u64);
                        assert!(PROCESS + vertices + held <= total);
                    }
                    Err(GridError::Memory { needed, .. }) => {
                        assert!(needed > total && budget(needed).scatter(300, vertices).is_ok());
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
    }
}
