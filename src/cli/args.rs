//! The command line, as typed.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, value_parser};

use crate::job::limits;
use crate::job::options::{ALGORITHMS, MOST_VERTICES};
use crate::job::spec::{ExportFormatSpec, FormatSpec, IoSpec};
use crate::units::parse_bytes;

const AFTER_HELP: &str = "\
To begin: `ioc run` runs a small experiment of its own; `ioc once pagerank FILE -o ranks.csv` ranks a graph.
Exit codes: 0 all well, 2 wrong usage or job file, 3 some run failed, 4 nothing selected, 130 interrupted.";

/// Reproducible out-of-core graph experiments on one machine.
#[derive(Debug, Parser)]
#[command(
    name = "ioc",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run job files, or folders of them in sorted order; without PATH the quickstart job
    Run(RunArgs),
    /// Run one algorithm on one file, without a job file
    Once(OnceArgs),
    /// Validate a whole batch and list its runs; runs nothing
    Check(BatchArgs),
    /// Import every layout that a batch needs, and prepare what its externals read
    Build(BuildArgs),
    /// List, import, verify, export and remove data sets and the grids built of them
    Dataset(DatasetArgs),
    /// Show what this machine offers, measure its devices, and recommend how to read from them
    Probe(ProbeArgs),
}

impl Command {
    /// Whether it is the work of a child of another `ioc`.
    pub fn is_child(&self) -> bool {
        match self {
            Self::Run(args) => args.rep.is_some() || args.scan,
            Self::Build(args) => args.index.is_some(),
            _ => false,
        }
    }
}

/// What is run, and where things lie.
#[derive(Debug, Clone, Args)]
pub struct BatchArgs {
    /// Job files, or folders of them
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Override a key in every job: engine.memory="1 GiB" (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Only the job, variant or external of this name
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Where reports go
    #[arg(long, value_name = "DIR", default_value = "reports")]
    pub out: PathBuf,
    /// Where grids are kept
    #[arg(long, value_name = "DIR", env = "IOC_DATA", hide_env_values = true, default_value = "data")]
    pub data: PathBuf,
    /// Say nothing but errors
    #[arg(long)]
    pub quiet: bool,
}

/// `ioc run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The batch.
    #[command(flatten)]
    pub batch: BatchArgs,
    /// Go on where an earlier run of the batch ended; without it earlier attempts are moved to old/
    #[arg(long)]
    pub resume: bool,
    /// Stop at the first failed run
    #[arg(long)]
    pub fail_fast: bool,
    /// Do not scan a grid before it is measured; the columns of limits stay empty
    #[arg(long)]
    pub no_scan: bool,
    /// One run of a frozen plan, as `run` writes it to OUT/JOB/plan.json
    #[arg(long, value_name = "FILE", requires = "index", conflicts_with_all = ["paths", "sets", "only"])]
    pub plan: Option<PathBuf>,
    /// Number of the run in the plan, from 0
    #[arg(long, value_name = "N", requires = "plan")]
    pub index: Option<usize>,
    /// One repetition only, warm-ups first, from 1
    #[arg(long, value_name = "R", requires = "index", hide = true)]
    pub rep: Option<u32>,
    /// Number of the attempt at that repetition
    #[arg(long, value_name = "A", requires = "rep", hide = true)]
    pub attempt: Option<u32>,
    /// MB/s that a scan of the run's grid sustained
    #[arg(long, value_name = "MB/S", requires = "rep", hide = true)]
    pub device_rate: Option<f64>,
    /// Only scan the run's grid
    #[arg(long, requires = "index", conflicts_with = "rep", hide = true)]
    pub scan: bool,
}

/// `ioc build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// The batch.
    #[command(flatten)]
    pub batch: BatchArgs,
    /// Memory that an import may hold, instead of each run's engine.memory
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<Size>,
    /// The layout of one run of a frozen plan
    #[arg(long, value_name = "FILE", requires = "index", hide = true)]
    pub plan: Option<PathBuf>,
    /// Number of the run in the plan, from 0
    #[arg(long, value_name = "N", requires = "plan", hide = true)]
    pub index: Option<usize>,
}

/// `ioc once`.
#[derive(Debug, Args)]
pub struct OnceArgs {
    /// What to compute
    #[arg(value_parser = algorithms())]
    pub algorithm: String,
    /// The edge list: text of two ids and maybe a weight a line, plain or gzip, or GridGraph's binary
    pub file: PathBuf,
    /// Write vertex,value lines to this file; `-` is standard output, and then nothing else is written there
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Save the job file that the run stands for here, where nothing may be yet
    #[arg(long, value_name = "FILE")]
    pub job: Option<PathBuf>,
    /// Memory that the run may hold
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = size)]
    pub memory: Size,
    /// Format of the file
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = formats())]
    pub format: String,
    /// Vertex at which bfs and sssp begin [default: the one with the most out-arcs]
    #[arg(long, value_name = "ID", allow_negative_numbers = true, value_parser = value_parser!(u64).range(..=i64::MAX as u64))]
    pub root: Option<u64>,
    /// Iterations at most [default: 20 for pagerank, 500 with a tolerance; 1 for spmv and scan]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub iterations: Option<u64>,
    /// Stop where the L1 residual of pagerank is at most this
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = positive)]
    pub tolerance: Option<f64>,
    /// Lines to leave out at the start of a text file
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u64).range(..=i64::MAX as u64))]
    pub skip_lines: u64,
    /// The vertices are 0..N [default: the ids seen in a text, 0 to the largest id of a binary list]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MOST_VERTICES))]
    pub vertices: Option<u64>,
    /// Every line stands for both directions
    #[arg(long)]
    pub undirected: bool,
    /// Override any other key: engine.model="sync" (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Where the report goes
    #[arg(long, value_name = "DIR", default_value = "reports")]
    pub out: PathBuf,
    /// Where the grid is kept
    #[arg(long, value_name = "DIR", env = "IOC_DATA", hide_env_values = true, default_value = "data")]
    pub data: PathBuf,
    /// Say nothing but errors
    #[arg(long)]
    pub quiet: bool,
}

/// What `ioc once` takes is checked here as job files are, so that an error names the option and not a key of the job.
fn algorithms() -> PossibleValuesParser {
    ALGORITHMS.map(|(name, help)| PossibleValue::new(name).help(help)).into()
}

fn formats() -> PossibleValuesParser {
    FormatSpec::ALL.map(FormatSpec::name).into()
}

fn export_formats() -> impl TypedValueParser<Value = ExportFormatSpec> {
    let names = PossibleValuesParser::from(ExportFormatSpec::ALL.map(ExportFormatSpec::name));
    names.try_map(|name| {
        let format = ExportFormatSpec::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or("no format of an export")
    })
}

fn engines() -> PossibleValuesParser {
    IoSpec::ALL.map(IoSpec::name).into()
}

/// A size, in the range of a job file's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
    /// As typed, and as a job file takes it.
    pub text: String,
}

fn size(text: &str) -> Result<Size, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    let bytes = limits::size(bytes).map_err(|range| format!("a size must be {range}, such as \"64 MiB\""))?;
    Ok(Size { bytes, text: text.to_owned() })
}

/// A tolerance, as a job file wants it.
fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "expected a finite number above 0, such as 1e-9".to_owned())
}

/// `ioc dataset`.
#[derive(Debug, Args)]
pub struct DatasetArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: DatasetCommand,
    /// Where grids are kept
    #[arg(
        long,
        value_name = "DIR",
        env = "IOC_DATA",
        hide_env_values = true,
        default_value = "data",
        global = true
    )]
    pub data: PathBuf,
    /// Say nothing but errors
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// Commands of `ioc dataset`.
#[derive(Debug, Subcommand)]
pub enum DatasetCommand {
    /// The data sets of the registry, and the grids built of them
    List,
    /// What a data set is, and what its grids are
    Info {
        /// Name of the data set
        name: String,
    },
    /// Build a grid of a data set with the default layout
    Import {
        /// Name of the data set
        name: String,
        /// Memory that the import may hold
        #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = size)]
        memory: Size,
    },
    /// Read every byte of a data set's grids and exports and check it
    Verify {
        /// Name of the data set
        name: String,
    },
    /// Write a data set's edges to a file that another program reads, ids being ranks of the original ones
    Export {
        /// Name of the data set
        name: String,
        /// gridgraph: u32 pairs in the order of the source, with an f32 where there are weights; gapbs: a serialized graph
        /// (.sg, or .wsg with weights), rows sorted
        #[arg(long, value_name = "FORMAT", value_parser = export_formats())]
        format: ExportFormatSpec,
        /// The file, replaced where it is there
        #[arg(short = 'o', long = "output", value_name = "FILE")]
        output: PathBuf,
        /// Memory that the export may hold
        #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = size)]
        memory: Size,
    },
    /// Remove a data set's grids, and what was made of it for other programs
    Rm {
        /// Name of the data set
        name: String,
        /// Only the grid of this key, as `ioc dataset info` shows it
        #[arg(long, value_name = "KEY")]
        grid: Option<String>,
    },
    /// Remove what interrupted imports left behind, and what is left on devices of grids that are gone
    Gc {
        /// Look in this directory of storage.devices too, besides those of the grids there are (repeatable)
        #[arg(long = "device", value_name = "DIR")]
        devices: Vec<PathBuf>,
    },
}

/// `ioc probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Directories, one per device; without any, the current one
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Bytes of the file that is written to each directory, and read
    #[arg(long, value_name = "SIZE", default_value = "256 MiB", value_parser = size)]
    pub size: Size,
    /// Fewer block sizes and depths, each measured once
    #[arg(long)]
    pub quick: bool,
    /// Only by this engine (repeatable); by each where none is named
    #[arg(long = "io", value_name = "ENGINE", value_parser = engines())]
    pub engines: Vec<String>,
    /// Where the result is kept for what is "auto" in the engine table
    #[arg(long, value_name = "DIR", env = "IOC_DATA", default_value = "data")]
    pub data: PathBuf,
    /// Say nothing but results and errors
    #[arg(long)]
    pub quiet: bool,
}
