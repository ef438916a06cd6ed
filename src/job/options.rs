//! The table of options: one entry per key, from which come validation, suggestions, defaults and help.
//!
//! Keys of the documented job format that this version does not offer are in it too, so that they are refused
//! for what they are and not as typing errors.

use std::sync::LazyLock;

use crate::grid::chunk::CHUNK;
use crate::units::format_count;

/// One key of a job file.
#[derive(Debug)]
pub struct OptionEntry {
    /// Its full dotted name: `engine.block_size`.
    pub path: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Its default as TOML, empty where there is none or where the help says on what it depends.
    pub default: &'static str,
    /// One line for people.
    pub help: &'static str,
}

/// What values an option takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// Any string.
    Text,
    /// The name of a data set (a table of its keys is read as such).
    Dataset,
    /// A path; relative ones start at the project.
    Path,
    /// An array of paths.
    Paths,
    /// A command: an array of at least one word.
    Words,
    /// A regular expression with one group.
    TimeRegex,
    /// An integer.
    Count {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A size as a string with a unit, or bytes as an integer.
    Bytes {
        /// It must be a positive multiple of so many bytes.
        multiple: u64,
    },
    /// A rate with a unit, above zero.
    Rate,
    /// A duration with a unit.
    Duration,
    /// A number in [0, 1).
    Fraction,
    /// A finite number above 0.
    Positive,
    /// 64 hex digits.
    Sha256,
    /// The integer 1 or a path: SpMV's x.
    OneOrPath,
    /// One of some names.
    Choice {
        /// What this version offers.
        names: &'static [&'static str],
        /// What the job format has and this version does not offer.
        later: &'static [&'static str],
    },
    /// `"auto"`, or as the other kind.
    Auto(&'static Kind),
    /// `"off"`, or as the other kind.
    Off(&'static Kind),
    /// `false`: what `true` asks for is not offered by this version.
    OnlyFalse,
    /// A table without keys.
    Empty,
    /// A key or a whole table of the job format that this version does not offer, and what to do instead.
    Later(&'static str),
}

impl Kind {
    /// What is expected, for messages: `a size such as "64 MiB"`.
    pub fn expected(&self) -> String {
        match self {
            Self::Bool => "true or false".into(),
            Self::Text => "a string".into(),
            Self::Dataset => "the name of a data set or a table".into(),
            Self::Path => "a path as a string".into(),
            Self::Paths => "an array of paths such as [\"/mnt/ssd0\", \"/mnt/ssd1\"]".into(),
            Self::Words => "an array of words such as [\"program\", \"{export}\"]".into(),
            Self::TimeRegex => {
                "a regular expression with one group such as \"took ([0-9.]+) seconds\"".into()
            }
            Self::Count { min, max } if *max == i64::MAX as u64 => format!("an integer of at least {min}"),
            Self::Count { min, max } => format!("an integer from {min} to {}", format_count(*max)),
            Self::Bytes { .. } => "a size such as \"64 MiB\"".into(),
            Self::Rate => "a rate such as \"450 MB/s\"".into(),
            Self::Duration => "a duration such as \"10 min\"".into(),
            Self::Fraction => "a number from 0 to below 1".into(),
            Self::Positive => "a finite number above 0".into(),
            Self::Sha256 => "a SHA-256 digest of 64 hex digits".into(),
            Self::OneOrPath => "the integer 1 or a path as a string".into(),
            Self::Choice { names, .. } => one_of(names),
            Self::Auto(kind) => format!("\"auto\" or {}", kind.expected()),
            Self::Off(kind) => format!("\"off\" or {}", kind.expected()),
            Self::OnlyFalse => "false".into(),
            Self::Empty => "a table without keys".into(),
            Self::Later(_) => "nothing yet".into(),
        }
    }
}

/// `"a"`, `"a" or "b"`, `"a", "b" or "c"`.
pub(crate) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

const fn option(path: &'static str, kind: Kind, default: &'static str, help: &'static str) -> OptionEntry {
    OptionEntry { path, kind, default, help }
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max }
}

const fn choice(names: &'static [&'static str], later: &'static [&'static str]) -> Kind {
    Kind::Choice { names, later }
}

const ITERATIONS: Kind = count(1, 1_000_000_000);
const THREADS: Kind = Kind::Auto(&count(1, 1024));
/// The largest scale with 2^20 edges per vertex is 2^52 edges: counts fit 64 bits.
const MOST_EDGES_PER_VERTEX: u64 = 1 << 20;
/// Edges of a grid name vertices by 32 bits.
const LARGEST_SCALE: u64 = 32;
/// Vertices that a graph has at most.
pub(crate) const MOST_VERTICES: u64 = 1 << LARGEST_SCALE;
const ROOT: Kind = Kind::Auto(&count(0, i64::MAX as u64));
const ROOT_HELP: &str = "original id of the vertex to begin at; auto: the one with the most out-arcs";
const NO_TABLE: Kind = Kind::Later("take the table out of the job");
/// Devices that a grid is striped over at most.
pub(crate) const MOST_DEVICES: u64 = 64;
/// Sources and destinations of a chunk are relative to bases, in 32 bits.
const WIDEST_WINDOW: u64 = 1 << 32;

/// All options, grouped as a job file is.
pub static OPTIONS: &[OptionEntry] = &[
    option("dataset", Kind::Dataset, "", "an entry of datasets.toml, or a table with the keys of one"),
    option("dataset.name", Kind::Text, "", "the name in reports; default: from the path or the generator"),
    option("dataset.generate.kronecker.scale", count(1, LARGEST_SCALE), "", "2^scale vertices"),
    option(
        "dataset.generate.kronecker.edge_factor",
        count(1, MOST_EDGES_PER_VERTEX),
        "16",
        "edges per vertex",
    ),
    option(
        "dataset.generate.kronecker.seed",
        count(0, i64::MAX as u64),
        "1",
        "the same seed gives the same edges on every machine",
    ),
    option("dataset.generate.kronecker.weights", Kind::Bool, "false", "a weight in [0, 1) per edge"),
    option("dataset.path", Kind::Path, "", "a file of edges"),
    option(
        "dataset.url",
        Kind::Later("download the file yourself and give its `path`"),
        "",
        "where to get it",
    ),
    option(
        "dataset.format",
        choice(&["auto", "snap", "gridgraph", "gridgraph-weighted"], &[]),
        "\"auto\"",
        "snap: text, plain or gzip; gridgraph: u32 pairs; gridgraph-weighted: with an f32 weight",
    ),
    option("dataset.sha256", Kind::Sha256, "", "digest that the file must have"),
    option(
        "dataset.vertices",
        count(1, MOST_VERTICES),
        "",
        "the vertices are 0..N; default: the format's rule",
    ),
    option("dataset.edges", count(0, i64::MAX as u64), "", "arcs expected after import"),
    option("dataset.directed", Kind::Bool, "true", "false: every line stands for both directions"),
    option("dataset.weights", choice(&["auto", "none"], &[]), "\"auto\"", "none: a weight column is ignored"),
    option("dataset.skip_lines", count(0, i64::MAX as u64), "0", "lines to leave out at the start of a text"),
    option("algorithm.scan.iterations", ITERATIONS, "1", "passes that read and checksum, without a kernel"),
    option(
        "algorithm.pagerank.iterations",
        ITERATIONS,
        "",
        "iterations at most; default 20, with a tolerance 500",
    ),
    option("algorithm.pagerank.tolerance", Kind::Off(&Kind::Positive), "\"off\"", "stop at this L1 residual"),
    option(
        "algorithm.pagerank.precision",
        choice(&["auto", "f32", "f64"], &[]),
        "\"auto\"",
        "width of a contribution; auto: f64 where the tolerance is below 1e-8",
    ),
    option("algorithm.pagerank.damping", Kind::Fraction, "0.85", "damping factor"),
    option(
        "algorithm.pagerank.dangling",
        choice(&["spread", "ignore"], &[]),
        "\"spread\"",
        "what becomes of the rank of vertices without out-edges",
    ),
    option(
        "algorithm.pagerank.init",
        choice(&["uniform", "one"], &[]),
        "\"uniform\"",
        "uniform: ranks sum to 1; one: GridGraph's flavour, with dangling = \"ignore\"",
    ),
    option("algorithm.spmv.iterations", ITERATIONS, "1", "products computed from the same x"),
    option("algorithm.spmv.x", Kind::OneOrPath, "1", "1 everywhere, or a file of vertex,value lines"),
    option("algorithm.bfs.root", ROOT, "\"auto\"", ROOT_HELP),
    option("algorithm.sssp.root", ROOT, "\"auto\"", ROOT_HELP),
    option("algorithm.wcc", Kind::Empty, "", "the table stands for the algorithm"),
    option(
        "storage.devices",
        Kind::Paths,
        "[]",
        "one directory per SSD; default: one folder each under the data directory",
    ),
    option(
        "storage.ssds",
        count(1, MOST_DEVICES),
        "",
        "stripe over the first so many devices; default: all, or 1",
    ),
    option(
        "storage.stripe",
        Kind::Bytes { multiple: CHUNK as u64 },
        "\"512 KiB\"",
        "bytes of a RAID0 stripe",
    ),
    option("storage.rated", Kind::Off(&Kind::Rate), "\"off\"", "each device's rate as its maker says"),
    option("storage.emulate", Kind::Off(&Kind::Rate), "\"off\"", "cap each device at this rate"),
    option("storage.keep", Kind::Bool, "true", "false: a layout is dropped after its last run of the batch"),
    option(
        "grid.encoding",
        choice(&["raw", "compact"], &[]),
        "\"compact\"",
        "code of the edges on disk: raw pairs of ids, or pieces of rows in a third of the bytes",
    ),
    option("grid.columns", Kind::Auto(&count(1, 1 << 20)), "\"auto\"", "ranges of destinations"),
    option("grid.source_window", Kind::Auto(&count(1, WIDEST_WINDOW)), "\"auto\"", "sources per window"),
    option(
        "grid.order",
        choice(&["auto", "natural", "degree"], &[]),
        "\"auto\"",
        "numbering inside the grid: by id, or by out-degree; auto: what takes fewer bytes, as a sample shows (raw: by id)",
    ),
    option("grid.interleave", Kind::Auto(&count(1, 1 << 20)), "\"auto\"", "columns read in turn"),
    option(
        "engine.model",
        choice(&["ioc", "sync"], &[]),
        "\"ioc\"",
        "ioc: I/O threads fill blocks, compute threads empty them; sync: each thread reads, then computes",
    ),
    option("engine.io", choice(&["libaio", "io_uring", "psync"], &[]), "\"libaio\"", "how blocks are read"),
    option(
        "engine.block_size",
        Kind::Auto(&Kind::Bytes { multiple: CHUNK as u64 }),
        "\"auto\"",
        "bytes per request",
    ),
    option("engine.io_depth", Kind::Auto(&count(1, 4096)), "\"auto\"", "requests outstanding per device"),
    option("engine.io_batch", count(1, 4096), "16", "requests per submission, at most"),
    option(
        "engine.io_threads",
        THREADS,
        "\"auto\"",
        "I/O threads of model ioc; auto: the fewest that fill the devices",
    ),
    option("engine.compute_threads", THREADS, "\"auto\"", "compute threads; auto: cores"),
    option(
        "engine.buffer",
        Kind::Bytes { multiple: 1 },
        "\"64 MiB\"",
        "bytes of all blocks (the paper's BUFSIZ)",
    ),
    option(
        "engine.memory",
        Kind::Bytes { multiple: 1 },
        "\"1 GiB\"",
        "bound of the whole process, page cache apart",
    ),
    option(
        "engine.cache",
        choice(&["auto", "off"], &[]),
        "\"auto\"",
        "auto: what the memory leaves keeps blocks",
    ),
    option("engine.checkpoint", Kind::Later("leave it out"), "", "resume inside a run"),
    option(
        "engine.kernel",
        choice(&["owned", "atomic"], &[]),
        "\"owned\"",
        "owned: plain adds; atomic: compare-and-swap per edge, as GridGraph",
    ),
    option(
        "engine.vertex_state",
        choice(&["auto", "memory", "streamed"], &[]),
        "\"auto\"",
        "auto: on the devices where the memory does not hold it",
    ),
    option("measure.repeat", count(1, 100_000), "3", "measured repetitions"),
    option("measure.warmup", count(0, 100_000), "1", "repetitions before them that do not count"),
    option(
        "measure.order",
        choice(&["interleaved", "sequential"], &[]),
        "\"interleaved\"",
        "interleaved: repetitions round robin over the runs of a job",
    ),
    option("measure.timeout", Kind::Off(&Kind::Duration), "\"off\"", "a repetition is ended after this time"),
    option(
        "measure.verify",
        choice(&["first", "all", "off"], &[]),
        "\"first\"",
        "which repetitions are verified",
    ),
    option(
        "measure.llc",
        choice(&["auto", "off"], &["perf", "model"]),
        "\"auto\"",
        "last-level cache counters",
    ),
    option("measure.trace", Kind::OnlyFalse, "false", "a row per request and per thread"),
    option("output.values", choice(&["csv", "off"], &[]), "\"off\"", "csv: vertex,value per distinct result"),
    option("external.NAME.command", Kind::Words, "", "program and arguments; no shell"),
    option("external.NAME.prepare", Kind::Words, "", "run once per data set, to fill the folder {prepared}"),
    option(
        "external.NAME.format",
        choice(&["gridgraph", "gapbs"], &[]),
        "\"gridgraph\"",
        "format of {export}: GridGraph's edge list, or GAPBS's .sg and .wsg",
    ),
    option(
        "external.NAME.time_regex",
        Kind::TimeRegex,
        "",
        "what finds runtime_s in its output; default: the wall time from start to exit",
    ),
    option("external.NAME.iterations", ITERATIONS, "", "iterations that it does, for edges_per_s"),
    option("external.NAME.algorithm", Kind::Text, "", "what it computes, for the report; default: external"),
    option(
        "external.NAME.timeout",
        Kind::Off(&Kind::Duration),
        "",
        "a repetition is ended after this time; default: measure.timeout",
    ),
    option("forkjoin", NO_TABLE, "", "fork/join programs"),
    option("cluster", NO_TABLE, "", "how the batch is submitted"),
];

/// The algorithms of this version, each a table of options, and what they do.
pub const ALGORITHMS: [(&str, &str); 6] = [
    ("pagerank", "Rank of every vertex"),
    ("spmv", "Sum over the arcs into every vertex of weight times 1"),
    ("bfs", "Arcs from one vertex to every other"),
    ("sssp", "Length of the shortest path from one vertex to every other"),
    ("wcc", "Component of every vertex, directions ignored"),
    ("scan", "Read and check only"),
];

/// Their names.
pub const ALGORITHM_NAMES: [&str; ALGORITHMS.len()] = {
    let mut names = [""; ALGORITHMS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = ALGORITHMS[at].0;
        at += 1;
    }
    names
};

/// Whether a dotted name is a table of options: `engine`, `algorithm.pagerank`, or the empty name of the whole.
pub(crate) fn is_table(path: &str) -> bool {
    let within = |option: &OptionEntry| {
        below(path, option.path).is_some() || (path == option.path && matches!(option.kind, Kind::Empty))
    };
    path.is_empty() || OPTIONS.iter().any(within)
}

/// Names of the keys and tables right below a table.
pub(crate) fn keys_of(table: &str) -> Vec<&'static str> {
    let mut keys: Vec<&'static str> = Vec::new();
    for rest in OPTIONS.iter().filter_map(|option| below(table, option.path)) {
        let key = rest.split('.').next().unwrap_or(rest);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// The keys of a table that this version offers.
pub(crate) fn offered_keys_of(table: &str) -> Vec<&'static str> {
    let offered = |key: &&str| {
        let path = if table.is_empty() { (*key).to_owned() } else { format!("{table}.{key}") };
        !matches!(find(&path), Some(OptionEntry { kind: Kind::Later(_), .. }))
    };
    keys_of(table).into_iter().filter(offered).collect()
}

/// What follows `table.` in a path.
fn below(table: &str, path: &'static str) -> Option<&'static str> {
    if table.is_empty() { Some(path) } else { path.strip_prefix(table)?.strip_prefix('.') }
}

/// The option of that full name.
pub fn find(path: &str) -> Option<&'static OptionEntry> {
    static INDEX: LazyLock<std::collections::HashMap<&str, &OptionEntry>> =
        LazyLock::new(|| OPTIONS.iter().map(|option| (option.path, option)).collect());
    INDEX.get(path).copied()
}
