//! Whether a run's values are in the ranges that the table of options gives. A job file's are, because they were read by
//! that table; a frozen plan is a file too, and whoever edits one must not find out by an abort of the allocator.

use super::options::{self, Kind, OptionEntry};
use super::spec::{AlgorithmSpec, Auto, ExternalSpec, RunSpec, SourceSpec};
use crate::units::{format_bytes, format_count};

/// Bytes that any size may be at most, in job files and plans: 1 PiB, with which sums of a few stay far from 2^64.
pub(crate) const MOST_BYTES: u64 = 1 << 50;

/// Whether a size is one that anything may have; the error follows `must be`.
pub(crate) fn size(bytes: u64) -> Result<u64, String> {
    match bytes {
        0 => Err("above zero".to_owned()),
        bytes if bytes > MOST_BYTES => Err(format!("at most {}", format_bytes(MOST_BYTES))),
        bytes => Ok(bytes),
    }
}

/// A value out of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutOfRange {
    /// Full name of its option.
    pub(crate) option: &'static str,
    /// The value.
    pub(crate) found: String,
    /// What it must be.
    pub(crate) expected: String,
}

/// The first value of a run that no job file could give it.
pub(crate) fn check(spec: &RunSpec) -> Result<(), OutOfRange> {
    source(spec)?;
    algorithm(spec)?;
    let (storage, grid, engine, measure) = (&spec.storage, &spec.grid, &spec.engine, &spec.measure);
    count("storage.ssds", storage.ssds.into())?;
    count("storage.stripe", storage.stripe)?;
    storage.rated.map_or(Ok(()), |rate| count("storage.rated", rate))?;
    storage.emulate.map_or(Ok(()), |rate| count("storage.emulate", rate))?;
    auto("grid.columns", grid.columns)?;
    auto("grid.source_window", grid.source_window)?;
    auto("grid.interleave", grid.interleave)?;
    auto("engine.block_size", engine.block_size)?;
    auto("engine.io_depth", engine.io_depth)?;
    count("engine.io_batch", engine.io_batch.into())?;
    auto("engine.io_threads", engine.io_threads)?;
    auto("engine.compute_threads", engine.compute_threads)?;
    count("engine.buffer", engine.buffer)?;
    count("engine.memory", engine.memory)?;
    count("measure.repeat", measure.repeat.into())?;
    count("measure.warmup", measure.warmup.into())
}

fn source(spec: &RunSpec) -> Result<(), OutOfRange> {
    let dataset = &spec.dataset;
    if let SourceSpec::Kronecker(kronecker) = &dataset.source {
        count("dataset.generate.kronecker.scale", kronecker.scale.into())?;
        count("dataset.generate.kronecker.edge_factor", kronecker.edge_factor)?;
        count("dataset.generate.kronecker.seed", kronecker.seed)?;
    }
    dataset.vertices.map_or(Ok(()), |vertices| count("dataset.vertices", vertices))?;
    dataset.edges.map_or(Ok(()), |edges| count("dataset.edges", edges))?;
    count("dataset.skip_lines", dataset.skip_lines)
}

fn algorithm(spec: &RunSpec) -> Result<(), OutOfRange> {
    match &spec.algorithm {
        AlgorithmSpec::Scan(scan) => count("algorithm.scan.iterations", scan.iterations),
        AlgorithmSpec::Bfs(bfs) => auto("algorithm.bfs.root", bfs.root),
        AlgorithmSpec::Sssp(sssp) => auto("algorithm.sssp.root", sssp.root),
        AlgorithmSpec::Wcc => Ok(()),
        AlgorithmSpec::Spmv(spmv) => count("algorithm.spmv.iterations", spmv.iterations),
        AlgorithmSpec::External(external) => self::external(external),
        AlgorithmSpec::Pagerank(pagerank) => {
            count("algorithm.pagerank.iterations", pagerank.iterations)?;
            real("algorithm.pagerank.damping", pagerank.damping)?;
            pagerank.tolerance.map_or(Ok(()), |x| real("algorithm.pagerank.tolerance", x))
        }
    }
}

fn external(external: &ExternalSpec) -> Result<(), OutOfRange> {
    let ExternalSpec { iterations, threads, memory, ssds, .. } = external;
    iterations.map_or(Ok(()), |iterations| count("external.NAME.iterations", iterations))?;
    threads.map_or(Ok(()), |threads| auto("engine.compute_threads", threads))?;
    memory.map_or(Ok(()), |memory| count("engine.memory", memory))?;
    ssds.map_or(Ok(()), |ssds| count("storage.ssds", ssds.into()))
}

/// Whether an option that may be `auto` may have this value.
pub(crate) fn auto(option: &'static str, value: Auto<impl Into<u64>>) -> Result<(), OutOfRange> {
    match value {
        Auto::Auto => Ok(()),
        Auto::Value(value) => count(option, value.into()),
    }
}

fn count(option: &'static str, value: u64) -> Result<(), OutOfRange> {
    in_range(option, value.to_string(), |kind| match *kind {
        Kind::Count { min, max } => (min..=max).contains(&value),
        Kind::Bytes { multiple } => size(value).is_ok() && value.is_multiple_of(multiple),
        Kind::Rate => value > 0,
        _ => true,
    })
}

fn real(option: &'static str, value: f64) -> Result<(), OutOfRange> {
    in_range(option, value.to_string(), |kind| match kind {
        Kind::Fraction => (0.0..1.0).contains(&value),
        Kind::Positive => value > 0.0 && value.is_finite(),
        _ => true,
    })
}

fn in_range(option: &'static str, found: String, holds: impl Fn(&Kind) -> bool) -> Result<(), OutOfRange> {
    let Some(OptionEntry { kind, .. }) = options::find(option) else { return Ok(()) };
    let kind = bare(kind);
    if holds(kind) {
        return Ok(());
    }
    let expected = match *kind {
        Kind::Bytes { multiple: 1 } => {
            format!("1 to {} bytes ({})", format_count(MOST_BYTES), format_bytes(MOST_BYTES))
        }
        Kind::Bytes { multiple } => {
            format!("a multiple of {multiple} bytes, up to {}", format_bytes(MOST_BYTES))
        }
        Kind::Rate => "bytes per second, above 0".to_owned(),
        _ => kind.expected(),
    };
    Err(OutOfRange { option, found, expected })
}

/// The kind of what is neither `auto` nor `off`.
fn bare(kind: &'static Kind) -> &'static Kind {
    if let Kind::Auto(kind) | Kind::Off(kind) = kind { kind } else { kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::options::OPTIONS;

    #[test]
    fn every_option_that_is_a_number_has_its_range_checked() {
        // The names in this file's own text: a number that is added to the table is added here too.
        let source = include_str!("limits.rs");
        for option in OPTIONS {
            let number = matches!(
                bare(&option.kind),
                Kind::Count { .. } | Kind::Bytes { .. } | Kind::Rate | Kind::Fraction | Kind::Positive
            );
            let quoted = format!("\"{}\"", option.path);
            assert_eq!(number, source.contains(&quoted), "{}", option.path);
        }
    }
}
