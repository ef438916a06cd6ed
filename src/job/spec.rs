//! A run as the engine gets it: merged, checked, with no optional value left that the engine would have to
//! guess. What the user wrote as `auto` stays [`Auto::Auto`] here, because the run's identity must not depend
//! on the machine; the engine resolves it when it knows the grid and the cores.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::external::{Placeholder, placeholders};

/// Gives an option's values the names that job files, reports and messages write, in one place for all of them.
macro_rules! names {
    ($type:ident: $($value:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// Every one.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Its name in job files and reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }
        }
    };
}

/// `"auto"` or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auto<T> {
    /// `ioc` chooses, from the grid and the machine.
    Auto,
    /// The user chose.
    Value(T),
}

impl<T: Copy> Auto<T> {
    /// The user's value.
    pub fn value(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Value(value) => Some(value),
        }
    }

    /// The user's value, or what `choose` says.
    pub fn or_else(self, choose: impl FnOnce() -> T) -> T {
        self.value().unwrap_or_else(choose)
    }
}

/// One resolved run of a batch: a point of variants x matrix x algorithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The job's name.
    pub job: String,
    /// Report path below the output directory, without extension: `paper/fig1-ratio`.
    pub report: PathBuf,
    /// The variant's name, empty where the job has none.
    pub variant: String,
    /// What is read.
    pub dataset: DatasetSpec,
    /// What is computed.
    pub algorithm: AlgorithmSpec,
    /// Where the edges lie.
    pub storage: StorageSpec,
    /// How they are laid out.
    pub grid: GridSpec,
    /// How they are read and computed on.
    pub engine: EngineSpec,
    /// How often, in which order, with which checks.
    pub measure: MeasureSpec,
    /// What becomes of the values.
    pub output: OutputSpec,
}

/// An entry of `datasets.toml`, or a single file of `ioc once`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetSpec {
    /// Its name in the registry.
    pub name: String,
    /// Where the edges come from.
    pub source: SourceSpec,
    /// `vertices = N`: the vertices are 0..N. Otherwise the format's own rule holds.
    pub vertices: Option<u64>,
    /// `edges = N`: arcs expected after import (an error if they differ).
    pub edges: Option<u64>,
    /// False: every line stands for both directions (a loop once).
    pub directed: bool,
    /// What becomes of a weight column.
    pub weights: WeightsSpec,
    /// Lines to leave out at the start of a text file.
    pub skip_lines: u64,
}

/// Where edges come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceSpec {
    /// `generate = { kronecker = { .. } }`.
    Kronecker(KroneckerSpec),
    /// `path = ".."`: absolute by now.
    File {
        /// The file.
        path: PathBuf,
        /// Its format, or `auto`.
        format: FormatSpec,
        /// The digest it must have (hex), where the entry gives one.
        sha256: Option<String>,
    },
}

/// Parameters of the Graph500 Kronecker generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KroneckerSpec {
    /// 2^scale vertices, 1..=32.
    pub scale: u32,
    /// Edges per vertex.
    pub edge_factor: u64,
    /// Seed; the same seed gives the same edges on every machine.
    pub seed: u64,
    /// Whether each edge carries a weight in [0, 1).
    pub weights: bool,
}

/// Formats of an edge file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormatSpec {
    /// From name and content.
    Auto,
    /// SNAP-like text, plain or gzip.
    Snap,
    /// GridGraph's binary edge list: u32 pairs (8 B).
    Gridgraph,
    /// The same with an f32 weight (12 B).
    GridgraphWeighted,
}

names!(FormatSpec:
    Auto = "auto",
    Snap = "snap",
    Gridgraph = "gridgraph",
    GridgraphWeighted = "gridgraph-weighted",
);

/// Formats in which other programs are given a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormatSpec {
    /// GridGraph's binary edge list, with an f32 weight where the data set has weights.
    Gridgraph,
    /// GAPBS's serialized graph: `.sg`, or `.wsg` with weights.
    Gapbs,
}

names!(ExportFormatSpec: Gridgraph = "gridgraph", Gapbs = "gapbs");

/// `weights = "auto" | "none"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightsSpec {
    /// Weights where the file has them.
    Auto,
    /// A weight column is ignored.
    None,
}

names!(WeightsSpec: Auto = "auto", None = "none");

/// An algorithm with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlgorithmSpec {
    /// Read and checksum, no kernel.
    Scan(ScanSpec),
    /// PageRank.
    Pagerank(PagerankSpec),
    /// y = A^T x over the arcs: `y[dst] += w * x[src]`.
    Spmv(SpmvSpec),
    /// Breadth-first search.
    Bfs(BfsSpec),
    /// Shortest paths.
    Sssp(SsspSpec),
    /// Weakly connected components.
    Wcc,
    /// A command of another program; the engine has no part in it.
    External(ExternalSpec),
}

impl AlgorithmSpec {
    /// Its name in job files and reports; of an external what it says that it computes.
    pub fn name(&self) -> &str {
        match self {
            Self::External(external) => external.algorithm.as_deref().unwrap_or("external"),
            Self::Scan(_) => "scan",
            Self::Pagerank(_) => "pagerank",
            Self::Spmv(_) => "spmv",
            Self::Bfs(_) => "bfs",
            Self::Sssp(_) => "sssp",
            Self::Wcc => "wcc",
        }
    }

    /// Passes over the edges, at most; `None` where the graph decides.
    pub fn iterations(&self) -> Option<u64> {
        match self {
            // One that ends by the clock makes an unknown number.
            Self::Scan(spec) => spec.enough.is_none().then_some(spec.iterations),
            Self::Pagerank(spec) => Some(spec.iterations),
            Self::Spmv(spec) => Some(spec.iterations),
            Self::Bfs(_) | Self::Sssp(_) => None,
            Self::Wcc => Some(1),
            Self::External(external) => external.iterations,
        }
    }

    /// The external that it is.
    pub fn external(&self) -> Option<&ExternalSpec> {
        match self {
            Self::External(external) => Some(external),
            _ => None,
        }
    }
}

/// `[external.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalSpec {
    /// Its name, which stands for that of a variant.
    pub name: String,
    /// What it computes, as the job says.
    pub algorithm: Option<String>,
    /// Where its commands run, and where a program that is a relative path starts: the job's project.
    pub directory: PathBuf,
    /// Program and arguments, with their placeholders.
    pub command: Vec<String>,
    /// The same of what fills the prepared folder; empty where there is none.
    pub prepare: Vec<String>,
    /// Format of the exported data set.
    pub format: ExportFormatSpec,
    /// What finds the seconds in the output; otherwise the wall time counts.
    pub time_regex: Option<String>,
    /// Iterations that the command does.
    pub iterations: Option<u64>,
    /// `engine.compute_threads`, where a word uses it.
    pub threads: Option<Auto<u32>>,
    /// `engine.memory`, where a word uses it.
    pub memory: Option<u64>,
    /// `storage.ssds`, where a word uses it.
    pub ssds: Option<u32>,
}

impl ExternalSpec {
    /// Nothing but its name and place.
    pub(crate) fn new(name: &str, directory: &Path) -> Self {
        Self {
            name: name.to_owned(),
            algorithm: None,
            directory: directory.to_owned(),
            command: Vec::new(),
            prepare: Vec::new(),
            format: ExportFormatSpec::Gridgraph,
            time_regex: None,
            iterations: None,
            threads: None,
            memory: None,
            ssds: None,
        }
    }

    /// The placeholders of its words.
    pub fn placeholders(&self) -> Vec<Placeholder> {
        placeholders(self.command.iter().chain(&self.prepare))
    }

    /// Whether it needs the data set in another format.
    pub fn needs_export(&self) -> bool {
        self.placeholders().into_iter().any(Placeholder::needs_export)
    }
}

/// `[algorithm.scan]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanSpec {
    /// Passes over the edges, at most.
    pub iterations: u64,
    /// Time after which no further pass begins: of the scans that show what devices sustain, never of a job.
    #[serde(skip)]
    pub enough: Option<Duration>,
}

/// `[algorithm.pagerank]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PagerankSpec {
    /// Iterations at most.
    pub iterations: u64,
    /// Stop where the L1 residual is at most this.
    pub tolerance: Option<f64>,
    /// Width of a contribution.
    pub precision: PrecisionSpec,
    /// Damping factor, 0..1.
    pub damping: f64,
    /// What becomes of the rank of vertices without out-edges.
    pub dangling: DanglingSpec,
    /// The start vector.
    pub init: InitSpec,
}

/// Width of a source's contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrecisionSpec {
    /// f64 where the tolerance is below 1e-8, else f32.
    Auto,
    /// Rounded to f32.
    F32,
    /// f64, rounded to the quantum.
    F64,
}

names!(PrecisionSpec: Auto = "auto", F32 = "f32", F64 = "f64");

/// Rank of dangling vertices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DanglingSpec {
    /// Spread evenly over all vertices.
    Spread,
    /// Lost, as in GridGraph.
    Ignore,
}

names!(DanglingSpec: Spread = "spread", Ignore = "ignore");

/// The start vector of PageRank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitSpec {
    /// 1/n each; the base is (1 - d)/n.
    Uniform,
    /// 1 each; the base is 1 - d (GridGraph).
    One,
}

names!(InitSpec: Uniform = "uniform", One = "one");

/// `[algorithm.spmv]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpmvSpec {
    /// The product is computed so many times from the same x.
    pub iterations: u64,
    /// x from a file (`vertex,value` lines as `[output] values` writes them), or 1 everywhere.
    pub x: Option<PathBuf>,
}

/// `[algorithm.bfs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BfsSpec {
    /// Original id of the vertex to begin at; `auto`: the one with the most out-arcs, of equals the smallest id.
    pub root: Auto<u64>,
}

/// `[algorithm.sssp]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsspSpec {
    /// As [`BfsSpec::root`].
    pub root: Auto<u64>,
}

/// `[storage]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageSpec {
    /// Directories, one per device, exactly `ssds` of them; empty: one folder under the data directory.
    pub devices: Vec<PathBuf>,
    /// Devices striped over.
    pub ssds: u32,
    /// Bytes of a stripe.
    pub stripe: u64,
    /// Bytes per second of one device as its maker says.
    pub rated: Option<u64>,
    /// Bytes per second that `ioc` caps each device to.
    pub emulate: Option<u64>,
    /// False: the layout is dropped after its last run of the batch.
    pub keep: bool,
}

/// `[grid]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridSpec {
    /// Code of the edges.
    pub encoding: EncodingSpec,
    /// Columns (ranges of destinations).
    pub columns: Auto<u32>,
    /// Sources per window.
    pub source_window: Auto<u64>,
    /// Numbering inside the grid.
    pub order: VertexOrderSpec,
    /// Columns in flight at once: requests take turns over them.
    pub interleave: Auto<u32>,
}

/// Numbering of the vertices inside a grid; results carry original ids whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VertexOrderSpec {
    /// `ioc` chooses: natural, in this version.
    Auto,
    /// By original id.
    Natural,
    /// By descending out-degree.
    Degree,
}

names!(VertexOrderSpec: Auto = "auto", Natural = "natural", Degree = "degree");

/// Code of the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EncodingSpec {
    /// Source and destination as u32, and the weight: 8, 12 or 16 bytes.
    Raw,
    /// Pieces of rows, 16-bit sources and 8-bit steps or less: 1 to 3 bytes, and the weight.
    Compact,
}

names!(EncodingSpec: Raw = "raw", Compact = "compact");

/// `[engine]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// Who reads.
    pub model: ModelSpec,
    /// How is read.
    pub io: IoSpec,
    /// Bytes of a request.
    pub block_size: Auto<u64>,
    /// Requests outstanding per device.
    pub io_depth: Auto<u32>,
    /// Requests per submission, at most.
    pub io_batch: u32,
    /// I/O threads (model `ioc`).
    pub io_threads: Auto<u32>,
    /// Compute threads.
    pub compute_threads: Auto<u32>,
    /// Bytes of all blocks.
    pub buffer: u64,
    /// Bytes the process may hold (`VmHWM`).
    pub memory: u64,
    /// What becomes of memory that is left.
    pub cache: CacheSpec,
    /// Who owns a column.
    pub kernel: KernelSpec,
    /// Where vertex state is.
    pub vertex_state: VertexStateSpec,
}

/// `ioc`: I/O threads fill blocks, compute threads empty them. `sync`: each thread reads, then computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSpec {
    /// I/O overlapping computation.
    Ioc,
    /// The synchronous compute-load model.
    Sync,
}

names!(ModelSpec: Ioc = "ioc", Sync = "sync");

/// How blocks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoSpec {
    /// `io_submit` / `io_getevents`.
    Libaio,
    /// `io_uring_enter`, with registered files and buffers.
    IoUring,
    /// Blocking `pread`.
    Psync,
}

names!(IoSpec: Libaio = "libaio", IoUring = "io_uring", Psync = "psync");

/// What becomes of memory that the budget leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheSpec {
    /// It keeps blocks between passes.
    Auto,
    /// Nothing: every pass reads every block.
    Off,
}

names!(CacheSpec: Auto = "auto", Off = "off");

/// Where the vertices' values are while a run computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VertexStateSpec {
    /// In memory, if the budget holds them.
    Auto,
    /// In memory, or the run is refused.
    Memory,
    /// On the devices, but for what is computed on.
    Streamed,
}

names!(VertexStateSpec: Auto = "auto", Memory = "memory", Streamed = "streamed");

/// How a block's edges are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSpec {
    /// A thread owns the column: plain adds.
    Owned,
    /// Compare-and-swap per edge, as GridGraph.
    Atomic,
}

names!(KernelSpec: Owned = "owned", Atomic = "atomic");

/// `[measure]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureSpec {
    /// Measured repetitions.
    pub repeat: u32,
    /// Repetitions before them that do not count.
    pub warmup: u32,
    /// Order of the repetitions within a job.
    pub order: OrderSpec,
    /// Milliseconds after which a repetition is killed.
    pub timeout_ms: Option<u64>,
    /// Which repetitions are verified.
    pub verify: VerifySpec,
}

/// Order of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderSpec {
    /// Round robin over the runs of a job.
    Interleaved,
    /// All of one run, then all of the next.
    Sequential,
}

names!(OrderSpec: Interleaved = "interleaved", Sequential = "sequential");

/// Which repetitions are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifySpec {
    /// The first measured repetition.
    First,
    /// Every repetition.
    All,
    /// None.
    Off,
}

names!(VerifySpec: First = "first", All = "all", Off = "off");

/// `[output]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSpec {
    /// `values = "csv"`: vertex,value once per distinct result.
    pub values: bool,
}
