//! From figures to advice. Nothing here measures, so all of it can be tested.
//!
//! A setting *fills* where it gets all but a few percent of the best found. Of those that do, the cheapest in CPU is
//! wanted, since a run's other threads need it, and of those that cost about the same the one with the fewest bytes
//! outstanding, since buffers are memory that could hold blocks.

use super::survey::Table;
use super::{Rate, Setting};
use crate::engine::plan::{AUTO_BLOCK, AUTO_DEPTH};
use crate::measure::advice::Advice;
use crate::units::format_bytes;

/// Part of the best bandwidth that may be missing: on one idle device, and on all together and a busy machine.
const SHORT: f64 = 0.03;
const SHORT_TOGETHER: f64 = 0.05;

/// Costs of CPU that differ by less than this are about the same.
const SIMILAR: f64 = 0.25;

/// Block sizes that the tables suggest to try on all devices together.
const BLOCKS: usize = 2;

/// Settings that are tried, at most: each of these block sizes with the depth that fills an idle machine and with
/// twice that, and what `auto` is without a probe: advice shall not be worse than none, whatever disturbed the tables.
pub(super) const MOST_CANDIDATES: usize = 2 * BLOCKS + 1;

/// What is best, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// What to do.
    pub advice: Advice,
    /// What it brings.
    pub rate: Rate,
    /// Why, in a line.
    pub reason: String,
}

/// A way to ask a device.
#[derive(Debug, Clone, Copy)]
struct Ask {
    block: u64,
    depth: u32,
    cpu: f64,
}

impl Ask {
    fn outstanding(&self) -> u64 {
        self.block * u64::from(self.depth)
    }
}

/// Block sizes and depths worth trying on all devices together, the most promising first.
pub(super) fn candidates(tables: &[Table], blocking: bool) -> Vec<(u64, u32)> {
    let mut asks = filling(tables);
    let mut candidates = Vec::new();
    for _ in 0..BLOCKS {
        let Some(best) = best(&asks) else { break };
        let Ask { block, depth, .. } = asks[best];
        candidates.push((block, depth));
        if !blocking {
            candidates.push((block, depth * 2));
        }
        asks.retain(|ask| ask.block != block);
    }
    let usual = (AUTO_BLOCK, if blocking { 1 } else { AUTO_DEPTH });
    let measured = |table: &Table| table.cells.iter().any(|cell| cell.0 == usual.0);
    if !tables.is_empty() && tables.iter().all(measured) && !candidates.contains(&usual) {
        candidates.push(usual);
    }
    candidates
}

/// For each block size that fills every device, the least depth that does. Where none fills them all (they are of
/// different kinds, or the figures are rough), the setting that comes closest.
fn filling(tables: &[Table]) -> Vec<Ask> {
    let Some(first) = tables.first() else { return Vec::new() };
    let mut asks: Vec<(Ask, f64)> = Vec::new();
    for &(block, depth, _) in &first.cells {
        let cells: Option<Vec<&Rate>> = tables.iter().map(|table| table.get(block, depth)).collect();
        let Some(cells) = cells else { continue };
        let filled = tables.iter().zip(&cells).map(|(table, rate)| rate.bytes_per_s / best_rate(table));
        let filled = filled.fold(f64::INFINITY, f64::min);
        let cpu = cells.iter().map(|rate| rate.cpu_s_per_byte).sum::<f64>() / cells.len() as f64;
        asks.push((Ask { block, depth, cpu }, filled));
    }
    let most = asks.iter().map(|(_, filled)| *filled).fold(0.0, f64::max);
    let enough = most.min(1.0 - SHORT);
    let mut fill: Vec<Ask> = Vec::new();
    for (ask, filled) in asks {
        // Depths ascend within a block.
        if filled >= enough && fill.last().is_none_or(|last| last.block != ask.block) {
            fill.push(ask);
        }
    }
    fill
}

/// The best that an eighth of the cells reach: a few may be accidents.
fn best_rate(table: &Table) -> f64 {
    let mut rates: Vec<f64> = table.cells.iter().map(|(_, _, rate)| rate.bytes_per_s).collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    rates.get(rates.len() / 8).copied().unwrap_or(0.0)
}

/// Of settings that bring the same, the fewest bytes outstanding among the cheap.
fn best(asks: &[Ask]) -> Option<usize> {
    let least = asks.iter().map(|ask| ask.cpu).fold(f64::INFINITY, f64::min);
    let cheap = asks.iter().enumerate().filter(|(_, ask)| ask.cpu <= least * (1.0 + SIMILAR));
    // Of as many bytes, the larger block asks less often.
    cheap.min_by_key(|(_, ask)| (ask.outstanding(), std::cmp::Reverse(ask.block))).map(|(at, _)| at)
}

/// The fewest threads that fill the devices together, and with so many the best block size and depth.
pub(super) fn choose(tables: &[Table], trials: &[(Setting, Rate)]) -> Option<Choice> {
    let most = trials.iter().map(|(_, rate)| rate.bytes_per_s).fold(0.0, f64::max);
    let fills = |rate: &Rate| rate.bytes_per_s >= most * (1.0 - SHORT_TOGETHER);
    let threads = trials.iter().filter(|(_, rate)| fills(rate)).map(|(setting, _)| setting.threads).min()?;
    let filling: Vec<&(Setting, Rate)> =
        trials.iter().filter(|(setting, rate)| setting.threads == threads && fills(rate)).collect();
    let ask = |(setting, rate): &&(Setting, Rate)| Ask {
        block: setting.block,
        depth: setting.depth,
        cpu: rate.cpu_s_per_byte,
    };
    let asks: Vec<Ask> = filling.iter().map(ask).collect();
    let (setting, rate) = *filling[best(&asks)?];
    let advice =
        Advice { block: setting.block, depth: setting.depth, io_threads: threads, depths: depths(tables) };
    Some(Choice { reason: reason(tables, trials, &setting, &rate, most), advice, rate })
}

/// For each block size, the least depth that gets all it can on every device.
fn depths(tables: &[Table]) -> Vec<(u64, u32)> {
    let Some(first) = tables.first() else { return Vec::new() };
    let mut blocks: Vec<u64> = first.cells.iter().map(|cell| cell.0).collect();
    blocks.dedup();
    let of_block = |table: &Table, block| Table {
        cells: table.cells.iter().filter(|cell| cell.0 == block).copied().collect(),
    };
    let depth = |block| {
        let rows: Vec<Table> = tables.iter().map(|table| of_block(table, block)).collect();
        filling(&rows).first().map(|ask| (block, ask.depth))
    };
    blocks.into_iter().filter_map(depth).collect()
}

fn reason(tables: &[Table], trials: &[(Setting, Rate)], setting: &Setting, rate: &Rate, most: f64) -> String {
    let alone: f64 = tables.iter().map(best_rate).sum();
    let share = 100.0 * rate.bytes_per_s / alone.max(1.0);
    let mut reasons = vec![format!("{share:.0} % of what the devices give one by one on idle cores")];
    let best_of = |wanted: &dyn Fn(u32) -> bool| {
        let of_wanted = trials.iter().filter(|(other, _)| wanted(other.threads));
        of_wanted.map(|(_, rate)| rate.bytes_per_s).fold(0.0, f64::max)
    };
    let fewer = best_of(&|threads| threads < setting.threads);
    let more = best_of(&|threads| threads > setting.threads);
    if fewer > 0.0 {
        reasons.push(format!("fewer threads get {:.0} % of the best", 100.0 * fewer / most));
    } else if more > 0.0 {
        reasons.push(format!("more threads get {:.0} MB/s", more / 1e6));
    }
    let smaller = filling(tables).into_iter().find(|ask| ask.block < setting.block);
    if let Some(smaller) = smaller.filter(|smaller| smaller.cpu > rate.cpu_s_per_byte) {
        let times = smaller.cpu / rate.cpu_s_per_byte.max(1e-15);
        reasons.push(format!("{} blocks would cost {times:.1} times the CPU", format_bytes(smaller.block)));
    }
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::spec::IoSpec;

    const KIB: u64 = 1 << 10;

    fn rate(mb: f64, cpu_s_per_gb: f64) -> Rate {
        Rate { bytes_per_s: mb * 1e6, cpu_s_per_byte: cpu_s_per_gb / 1e9 }
    }

    /// A device of `limit` MB/s that answers after 200 us, with a CPU cost per request.
    fn device(limit: f64) -> Table {
        let mut cells = Vec::new();
        for block in [32 * KIB, 128 * KIB, 512 * KIB, 1024 * KIB, 4096 * KIB] {
            for depth in [1, 2, 4, 8, 16, 32] {
                let latency_s = 200e-6 + block as f64 / (limit * 1e6);
                let mb = (block as f64 * f64::from(depth) / latency_s / 1e6).min(limit);
                cells.push((block, depth, rate(mb, 0.03 + 4096.0 / block as f64)));
            }
        }
        Table { cells }
    }

    fn trial(block: u64, depth: u32, threads: u32, rate: Rate) -> (Setting, Rate) {
        (Setting { io: IoSpec::Libaio, block, depth, threads }, rate)
    }

    #[test]
    fn candidates_are_cheap_then_small_each_with_twice_its_depth_and_the_usual_setting_at_the_end() {
        let candidates = candidates(&[device(450.0)], false);
        // Of 128 KiB a GB costs twice the CPU of 4 MiB, of 512 KiB a fifth more.
        assert_eq!(
            candidates,
            [(512 * KIB, 2), (512 * KIB, 4), (1024 * KIB, 2), (1024 * KIB, 4), (1024 * KIB, 8)]
        );
    }

    #[test]
    fn a_blocking_engine_is_not_tried_at_depths_that_it_has_not() {
        let table = Table { cells: device(450.0).cells.into_iter().filter(|cell| cell.1 == 1).collect() };
        assert_eq!(candidates(&[table], true), [(4096 * KIB, 1), (1024 * KIB, 1)]);
    }

    #[test]
    fn a_setting_must_fill_every_device() {
        let asks = filling(&[device(450.0), device(3000.0)]);
        let depth = |block| asks.iter().find(|ask| ask.block == block).map(|ask| ask.depth);
        assert_eq!((depth(128 * KIB), depth(4096 * KIB)), (Some(8), Some(2)));
        assert_eq!(depth(32 * KIB), Some(32));
    }

    #[test]
    fn the_fewest_threads_that_fill_win_over_cheaper_settings_with_more() {
        let tables = [device(450.0), device(450.0)];
        let trials = [
            trial(1024 * KIB, 2, 1, rate(700.0, 0.01)),
            trial(1024 * KIB, 4, 1, rate(880.0, 0.05)),
            trial(4096 * KIB, 2, 1, rate(890.0, 0.048)),
            trial(1024 * KIB, 2, 2, rate(900.0, 0.02)),
        ];
        let choice = choose(&tables, &trials).unwrap();
        let Advice { block, depth, io_threads, depths } = choice.advice;
        assert_eq!((block, depth, io_threads), (1024 * KIB, 4, 1));
        let depths_of_small = depths.iter().find(|(block, _)| *block == 128 * KIB);
        assert_eq!(depths_of_small, Some(&(128 * KIB, 2)));
        insta::assert_snapshot!(choice.reason, @"98 % of what the devices give one by one on idle cores; more threads get 900 MB/s; 32 KiB blocks would cost 3.1 times the CPU");
    }

    #[test]
    fn more_threads_are_advised_only_where_they_bring_more_and_the_reason_says_how_much() {
        let trials = [trial(1024 * KIB, 2, 1, rate(700.0, 0.05)), trial(1024 * KIB, 2, 2, rate(895.0, 0.05))];
        let choice = choose(&[device(450.0), device(450.0)], &trials).unwrap();
        assert_eq!(choice.advice.io_threads, 2);
        insta::assert_snapshot!(choice.reason, @"99 % of what the devices give one by one on idle cores; fewer threads get 78 % of the best; 32 KiB blocks would cost 3.1 times the CPU");
    }

    #[test]
    fn devices_that_delivered_nothing_have_no_advice() {
        assert!(candidates(&[], false).is_empty());
        assert!(candidates(&[Table::default()], false).is_empty());
        assert_eq!(choose(&[Table::default()], &[]), None);
    }
}
