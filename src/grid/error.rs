//! What can be wrong with a grid or its import. Causes are printed inside the message and not chained, so that
//! no printer shows them twice.

use std::path::{Path, PathBuf};

use crate::dataset::DatasetError;

use super::block::ChunkError;
use super::paths::MOST_NAME;
use crate::io_advice::advice;

/// An error of a grid: a whole sentence that names the file, what was found and what to do.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// The source of the edges failed.
    #[error("{0}")]
    Dataset(DatasetError),
    /// The operating system refused.
    #[error("{action} {path} failed: {reason}{}", grid_advice(.reason))]
    Io {
        /// What was tried: `writing`, `reading`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        reason: std::io::Error,
    },
    /// A name that would be a bad or dangerous folder name.
    #[error(
        "\"{name}\" cannot name a data set: a name begins with a letter or digit, goes on with letters, \
         digits, '.', '_' and '-', does not end in .json, and has at most {MOST_NAME} characters; rename the entry in \
         datasets.toml"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A stripe that would cut chunks.
    #[error("a stripe of {stripe} bytes is no multiple of the chunk of {chunk} bytes; change storage.stripe")]
    Stripe {
        /// `storage.stripe`.
        stripe: u64,
        /// Bytes of a chunk.
        chunk: usize,
    },
    /// A window that the encoding cannot name the sources of.
    #[error(
        "grid.source_window is {window}, but encoding \"compact\" has windows of at most {most} sources; make it \
         smaller, or leave it \"auto\""
    )]
    Window {
        /// `grid.source_window`.
        window: u64,
        /// The widest.
        most: u64,
    },
    /// Devices do not fit `ssds`.
    #[error(
        "storage.ssds is {ssds}, but there are {devices} directories in storage.devices; name one for each SSD, \
         or none"
    )]
    Devices {
        /// `storage.ssds`.
        ssds: u32,
        /// Directories.
        devices: usize,
    },
    /// A device that is not there.
    #[error("{path} of storage.devices is no directory; mount the device, or correct the path")]
    Device {
        /// The directory.
        path: PathBuf,
    },
    /// An empty mount point, most likely.
    #[error(
        "{path} is on another file system than when a grid of {dataset} was built there; is it mounted? Mount the \
         device, or, if what it held is gone for good, remove the grid with `ioc dataset rm {dataset}`, and it will be \
         imported again"
    )]
    Unmounted {
        /// The device's directory.
        path: PathBuf,
        /// The data set.
        dataset: String,
    },
    /// The budget does not hold what the import must hold.
    #[error(
        "import of {graph} needs at least {} of memory ({purpose}), the budget is {}: raise engine.memory, or give the import more by `ioc build --memory`",
        mib(*.needed), mib(*.budget)
    )]
    Memory {
        /// The source.
        graph: String,
        /// What takes so much.
        purpose: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        budget: u64,
    },
    /// The budget does not hold what an export must hold.
    #[error(
        "export of {graph} needs at least {} of memory ({purpose}), the budget is {}: raise it by --memory of \
         `ioc dataset export` or `ioc build`",
        mib(*.needed), mib(*.budget)
    )]
    ExportMemory {
        /// The source.
        graph: String,
        /// What takes so much.
        purpose: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes allowed.
        budget: u64,
    },
    /// More vertices than the format can name.
    #[error(
        "{graph} has {vertices} vertices, and ids of GAPBS are below 2^31; export it as gridgraph, or take a smaller graph"
    )]
    ExportVertices {
        /// The source.
        graph: String,
        /// Vertices.
        vertices: u64,
    },
    /// A weight that the format cannot hold.
    #[error(
        "{graph} has an edge {source_id} -> {target_id} with the weight {weight:?}, and {format} holds {holds}; {remedy}"
    )]
    ExportWeight {
        /// The source of the edges.
        graph: String,
        /// The edge's source.
        source_id: u64,
        /// The edge's destination.
        target_id: u64,
        /// The weight.
        weight: f64,
        /// The format.
        format: &'static str,
        /// What its weights are.
        holds: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A name by which the programs that read the format would take it for another.
    #[error("{path} must end in {suffix}: GAPBS goes by the name")]
    ExportName {
        /// The file.
        path: PathBuf,
        /// `.wsg` or `.sg`, and why.
        suffix: &'static str,
    },
    /// The system grants no more threads.
    #[error(
        "the system grants no more threads: {reason}; raise the limits on processes and memory (`ulimit -u`, `ulimit -v`)"
    )]
    Threads {
        /// What the system said.
        reason: std::io::Error,
    },
    /// More vertices than this version's edges can name.
    #[error(
        "{graph} has {vertices} vertices, and this version stores at most {} (2^32); for ids with large gaps in \
         a binary edge list, give the graph as text, where only the ids seen are vertices",
        1_u64 << 32
    )]
    TooManyVertices {
        /// The source.
        graph: String,
        /// Vertices, which may be 2^64.
        vertices: u128,
    },
    /// An id outside the declared range.
    #[error(
        "{graph} has an edge {source_id} -> {target_id}, but its vertices are 0..{vertices} ({rule}); correct \
         the number of vertices"
    )]
    Vertex {
        /// The source of the edges.
        graph: String,
        /// The edge's source.
        source_id: u64,
        /// The edge's destination.
        target_id: u64,
        /// Number of vertices.
        vertices: u64,
        /// Where that number comes from.
        rule: &'static str,
    },
    /// NaN or an infinity.
    #[error(
        "{graph} has an edge {source_id} -> {target_id} with the weight {weight}, and a weight must be a finite \
         number; correct it, or ignore all weights by weights = \"none\""
    )]
    Weight {
        /// The source of the edges.
        graph: String,
        /// The edge's source.
        source_id: u64,
        /// The edge's destination.
        target_id: u64,
        /// The weight.
        weight: f64,
    },
    /// Not the number of edges that the data set promises.
    #[error(
        "{graph} has {found} edges, but the data set says edges = {expected}; correct the entry, or fetch the \
         file again if it was cut short"
    )]
    EdgeCount {
        /// The source.
        graph: String,
        /// `edges = N`.
        expected: u64,
        /// Edges there are.
        found: u64,
    },
    /// Two reads gave different edges.
    #[error(
        "{graph} changed during the import: {first} edges were expected from an earlier read or the reader's \
         own count, and {second} came; import again when it is complete"
    )]
    Changed {
        /// The source.
        graph: String,
        /// Edges expected.
        first: u64,
        /// Edges received.
        second: u64,
    },
    /// A vertex with too many out-edges.
    #[error(
        "{graph} has a vertex (number {vertex} by id) with 2^32 or more out-edges; this version stores fewer"
    )]
    Degree {
        /// The source.
        graph: String,
        /// Dense index of the vertex.
        vertex: u64,
    },
    /// A vertex with too many in-edges.
    #[error(
        "{graph} has a vertex whose in-edges, counted in units of the largest weight, are 2^32 or more; this \
         version stores fewer"
    )]
    InWeight {
        /// The source.
        graph: String,
    },
    /// A chunk that is not what it should be.
    #[error("{path}: {error}")]
    Chunk {
        /// The device's file.
        path: PathBuf,
        /// What is wrong, and where.
        error: ChunkError,
    },
    /// Another file, or a total, that is not what the manifest says.
    #[error("{path}: {what}; remove the grid with `ioc dataset rm` and it will be imported again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found, and what was expected.
        what: String,
    },
    /// A file of an export that is not as it was written.
    #[error(
        "{path} has the checksum {found}, and was written with {expected}; remove it with `ioc dataset rm` and it will \
         be made again"
    )]
    Rewritten {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: String,
        /// As recorded.
        expected: String,
    },
    /// Somebody imports into the folder at this moment.
    #[error("data set {dataset} is being imported by another process; wait until it is done")]
    Busy {
        /// The data set.
        dataset: String,
    },
    /// Another process uses the folder that is to be removed.
    #[error(
        "{dir} is in use and stays: a run of another process reads it, or what a killed one had started there still runs \
         (`fuser {dir}/.in-use` lists it); try again when it has ended",
        dir = dir.display()
    )]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
}

impl GridError {
    /// Turns an I/O error into one that says what was tried on which path.
    pub(super) fn io<'a>(action: &'static str, path: &'a Path) -> impl Fn(std::io::Error) -> Self + 'a {
        move |reason| Self::Io { action, path: path.to_owned(), reason }
    }
}

impl From<DatasetError> for GridError {
    fn from(error: DatasetError) -> Self {
        if matches!(error, DatasetError::Interrupted) { Self::Interrupted } else { Self::Dataset(error) }
    }
}

/// What to do about an error of the operating system.
fn grid_advice(reason: &std::io::Error) -> String {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match reason.kind() {
        StorageFull | QuotaExceeded => {
            "; an import needs room for its edges twice: free some, or choose other directories by --data and \
             storage.devices"
                .to_owned()
        }
        _ => advice(reason, "choose another directory by --data or storage.devices"),
    }
}

/// Bytes for a message, rounded up so that the figure named is one that suffices.
fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
