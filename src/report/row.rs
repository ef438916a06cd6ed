//! The columns of a graph run, schema 1: this declaration is the one place that says which there are, in which order,
//! in which unit and what they mean. Header, cells, parser and the table in `docs/report.md` follow from it.
//!
//! A column is never renamed, moved or given another meaning: that would be another schema version, since scripts
//! and CI gates address columns by name and old reports stay on disk for years.

use super::attempts::AttemptId;
use super::cell::{Cell, Digest, Phase, Seconds, Status};

/// Version of the columns of [`Row`].
pub const SCHEMA_VERSION: u32 = 1;

/// A column, for headers and documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// As in the header.
    pub name: &'static str,
    /// Type of its cells.
    pub kind: &'static str,
    doc: &'static str,
}

impl Column {
    /// What it holds, and in which unit.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }
}

/// Why a record is no row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Too few or too many cells.
    #[error("the record has {found} cells, expected {expected}")]
    Cells {
        /// Cells there are.
        found: usize,
        /// Columns of the schema.
        expected: usize,
    },
    /// A cell does not fit its column.
    #[error("column {column} holds `{found}`, expected {expected}")]
    Cell {
        /// The column.
        column: &'static str,
        /// What it holds.
        found: String,
        /// What its type wants.
        expected: &'static str,
    },
    /// Written by another `ioc`.
    #[error("the record is of schema version {0}, expected {SCHEMA_VERSION}")]
    Version(u32),
}

macro_rules! columns {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $column:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name { $($(#[doc = $doc])+ pub $column: $type,)+ }

        impl $name {
            /// All columns in their order.
            pub const COLUMNS: &'static [Column] = &[$(Column {
                name: stringify!($column),
                kind: <$type as Cell>::KIND,
                doc: concat!($($doc),+),
            }),+];

            fn blank() -> Self {
                Self { $($column: Default::default()),+ }
            }

            /// The cells in the columns' order, not yet quoted.
            pub fn cells(&self) -> Vec<String> {
                vec![$(self.$column.write()),+]
            }

            fn from_cells<'a>(mut cells: impl Iterator<Item = &'a str>) -> Result<Self, RowError> {
                Ok(Self { $($column: read_cell(stringify!($column), cells.next())?),+ })
            }
        }
    };
}

fn read_cell<T: Cell>(column: &'static str, cell: Option<&str>) -> Result<T, RowError> {
    let cell = cell.unwrap_or_default();
    T::read(cell).map_err(|expected| RowError::Cell { column, found: cell.to_owned(), expected })
}

columns! {
    /// One attempt at one repetition of one run. Rates count MB as 10^6 bytes; `_b` are bytes, `_s` seconds.
    Row {
        /// Version of this list of columns.
        schema_version: u32,
        /// Hash of the merged parameters and the data set's fingerprint: the same run has the same id on
        /// every machine.
        run_id: String,
        /// The job's name.
        job: String,
        /// The variant's name, or that of the external; empty where the job has no variants.
        variant: Option<String>,
        /// Number of the repetition within its phase, from 1.
        rep: u32,
        /// `warmup` (does not count) or `measured`.
        phase: Phase,
        /// Number of the attempt at this repetition, from 1; more than one where a resumed batch tried again.
        attempt: u32,
        /// `ok`, `failed` or `interrupted`.
        status: Status,
        /// One word for the kind of failure; empty where the status is ok.
        error_class: Option<String>,
        /// What went wrong, as a sentence; line breaks are blanks.
        error: Option<String>,

        /// Name of the data set.
        dataset: Option<String>,
        /// Checksum of the edges: the same for every layout of the same graph.
        dataset_checksum: Option<Digest>,
        /// Vertices.
        vertices: Option<u64>,
        /// Which vertices the graph has: `seen` (ids in the edges), `range` (0 to the largest id), `declared`
        /// (by header or generator) or `given` (by the data set's `vertices`).
        vertex_rule: Option<String>,
        /// Arcs; an undirected edge counts as two.
        edges: Option<u64>,
        /// Whether the edges carry weights.
        weighted: Option<bool>,
        /// Name of the algorithm; of an external what the job says that it computes, otherwise `external`.
        algorithm: Option<String>,
        /// Its parameters; of an external its command, with the placeholders.
        algorithm_params: Option<String>,
        /// Iterations done; of an external as the job says.
        iterations: Option<u64>,
        /// Whether the tolerance was reached; empty where none was asked for.
        converged: Option<bool>,
        /// L1 norm of the last iteration's change.
        residual: Option<f64>,
        /// Short answer for people: the best vertex, components found, vertices reached; of an external the line of its
        /// output that tells `runtime_s`.
        result: Option<String>,

        /// `ioc` (I/O threads fill blocks while compute threads work) or `sync` (each thread reads, then
        /// computes); empty of an external.
        model: Option<String>,
        /// `libaio`, `io_uring` or `psync`.
        io: Option<String>,
        /// `owned` (plain adds) or `atomic` (compare-and-swap per edge).
        kernel: Option<String>,
        /// Code of the edges on disk.
        encoding: Option<String>,
        /// Columns of the grid: ranges of destinations.
        columns: Option<u64>,
        /// Numbering of the vertices inside the grid.
        order: Option<String>,
        /// Devices striped over.
        ssds: Option<u32>,
        /// Bytes of a stripe.
        stripe_b: Option<u64>,
        /// Cap of each device made by ioc, in MB/s; empty where none.
        emulated_mb_per_s: Option<f64>,
        /// Bytes of a request.
        block_b: Option<u64>,
        /// Requests outstanding per device, at most.
        io_depth: Option<u32>,
        /// Threads that only read; empty under the model `sync`, which has none.
        io_threads: Option<u32>,
        /// Threads that compute.
        compute_threads: Option<u32>,
        /// Bytes of all blocks.
        buffer_b: Option<u64>,
        /// Bytes the process was allowed.
        memory_b: Option<u64>,
        /// `auto` (blocks are kept in memory between iterations) or `off`.
        cache: Option<String>,
        /// Whether reads bypassed the page cache (O_DIRECT).
        direct_io: Option<bool>,

        /// Start of the attempt in UTC, as 2026-01-31T12:00:00Z.
        started_utc: Option<String>,
        /// Wall time of the iterations. No edge is read before it starts, and every repetition starts with an
        /// empty cache. Of an external what its `time_regex` finds, otherwise its wall time from start to exit.
        runtime_s: Option<Seconds>,
        /// Wall time of opening, allocating and preparing the vertices, before `runtime_s`; of an external what its
        /// wall time from start to exit is beyond `runtime_s`.
        setup_s: Option<Seconds>,
        /// Wall time with at least one request outstanding.
        io_s: Option<Seconds>,
        /// CPU time of the compute threads inside kernels, mean over the threads.
        compute_s: Option<Seconds>,
        /// Time the I/O threads waited for a free block, mean over the threads.
        io_wait_s: Option<Seconds>,
        /// Time the compute threads waited for a filled block or, under the model `sync`, for their own read;
        /// mean over the threads.
        compute_wait_s: Option<Seconds>,
        /// `read_b` at `device_mb_per_s`: how long the devices need.
        io_limit_s: Option<Seconds>,
        /// The larger of `io_limit_s` and `compute_s`: perfect overlap.
        limit_s: Option<Seconds>,
        /// `runtime_s` / `limit_s`: 1 is perfect.
        limit_ratio: Option<f64>,
        /// Edges handled in all iterations, per second of `runtime_s`.
        edges_per_s: Option<f64>,

        /// Bytes read from the devices, those read ahead for a pass that convergence made needless included; of an
        /// external all that storage delivered to it, from start to exit, as the kernel counts.
        read_b: Option<u64>,
        /// Bytes of blocks taken from memory instead.
        cached_b: Option<u64>,
        /// Bytes of blocks not needed, because all their sources were inactive.
        skipped_b: Option<u64>,
        /// Bytes on disk per edge.
        bytes_per_edge: Option<f64>,
        /// Requests that `read_b` took.
        read_requests: Option<u64>,
        /// `read_b` per second of `runtime_s`, in MB/s.
        read_mb_per_s: Option<f64>,
        /// What a scan of the same layout sustains with the same I/O settings, in MB/s.
        device_mb_per_s: Option<f64>,
        /// Median latency of a request, in milliseconds, from its submission until its I/O thread sees it done; that
        /// thread wakes up for several at a time.
        latency_p50_ms: Option<f64>,
        /// 99th percentile of the latency, in milliseconds.
        latency_p99_ms: Option<f64>,
        /// Largest latency, in milliseconds.
        latency_max_ms: Option<f64>,
        /// Time of the busiest compute thread / mean over the threads: 1 is even.
        balance: Option<f64>,
        /// The same in edges.
        edges_balance: Option<f64>,

        /// Where the `llc_` columns come from: `perf` (hardware counters) or `model` (a simulated cache);
        /// empty where neither.
        llc_source: Option<String>,
        /// Accesses to the last-level cache by the compute threads.
        llc_references: Option<u64>,
        /// Those of them that missed.
        llc_misses: Option<u64>,
        /// `llc_misses` / `llc_references`.
        llc_miss_ratio: Option<f64>,
        /// `compute_s` less the same pass with all vertex accesses inside the L2 cache: what memory cost.
        llc_stall_s: Option<Seconds>,
        /// CPU time of the process in user mode; of an external that of its command and all processes that were
        /// waited for, from start to exit.
        user_s: Option<Seconds>,
        /// CPU time of the process in the kernel; of an external as `user_s`.
        system_s: Option<Seconds>,
        /// Peak memory of the process in bytes (VmHWM); of an external that of the largest of its processes, at
        /// least what ioc held as it started it.
        max_rss_b: Option<u64>,

        /// Checksum of the final values in vertex order: the same for every engine, layout and thread count.
        result_checksum: Option<Digest>,
        /// Terms were rounded to multiples of this: each is off by up to half of it.
        quantum: Option<f64>,
        /// True where this repetition, or one of this run with the same checksum, passed its verifier; false
        /// where it failed; empty where none was asked for.
        verified: Option<bool>,

        /// Label of the machine: `IOC_MACHINE` of the environment, otherwise `local`.
        machine: Option<String>,
        /// Name of the processor.
        cpu_model: Option<String>,
        /// Processors the process may use.
        cores: Option<u64>,
        /// Bytes of the last-level cache.
        llc_b: Option<u64>,
        /// Bytes of memory in the machine.
        memory_total_b: Option<u64>,
        /// Release of the kernel.
        kernel_release: Option<String>,
        /// File systems of the devices' directories.
        filesystem: Option<String>,
        /// Models of the devices' disks.
        disk_model: Option<String>,
        /// Version of ioc.
        ioc_version: Option<String>,
        /// Commit that ioc was built from, after a `g`.
        git_rev: Option<String>,
        /// Slurm job of this repetition; empty outside Slurm.
        slurm_job: Option<String>,
        /// Slurm node of this repetition; empty outside Slurm.
        slurm_node: Option<String>,
        /// Bytes of vertex state read from the devices during the iterations; empty where it is in memory.
        state_read_b: Option<u64>,
        /// Bytes of vertex state written to them.
        state_written_b: Option<u64>,
    }
}

impl Row {
    /// A row that knows only whose it is. Its status is `failed` until the attempt has been seen to end well.
    pub fn new(id: &AttemptId, job: &str) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            run_id: id.run_id.clone(),
            job: job.to_owned(),
            rep: id.rep,
            phase: id.phase,
            attempt: id.attempt,
            ..Self::blank()
        }
    }

    /// Which attempt it tells of.
    pub fn attempt_id(&self) -> AttemptId {
        AttemptId { run_id: self.run_id.clone(), phase: self.phase, rep: self.rep, attempt: self.attempt }
    }

    /// The header line, with its line feed.
    pub fn header() -> String {
        line(Self::COLUMNS.iter().map(|column| column.name))
    }

    /// The row as a line of CSV, with its line feed.
    pub fn line(&self) -> String {
        line(self.cells())
    }

    /// The row of a record.
    pub fn parse(record: &csv::StringRecord) -> Result<Self, RowError> {
        let expected = Self::COLUMNS.len();
        if record.len() != expected {
            return Err(RowError::Cells { found: record.len(), expected });
        }
        let row = Self::from_cells(record.iter())?;
        if row.schema_version == SCHEMA_VERSION {
            Ok(row)
        } else {
            Err(RowError::Version(row.schema_version))
        }
    }
}

fn line<T: AsRef<[u8]>>(cells: impl IntoIterator<Item = T>) -> String {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    writer
        .write_record(cells)
        .expect("a Vec takes every byte and this writer has no other record to differ from");
    let bytes = writer.into_inner().expect("flushing into a Vec takes every byte");
    String::from_utf8(bytes).expect("cells are UTF-8 and quoting adds ASCII")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The list of the design, literally, and behind it what it does not have.
    const CONTRACT: &str = "\
schema_version,run_id,job,variant,rep,phase,attempt,status,error_class,error,
dataset,dataset_checksum,vertices,vertex_rule,edges,weighted,algorithm,algorithm_params,iterations,converged,residual,result,
model,io,kernel,encoding,columns,order,ssds,stripe_b,emulated_mb_per_s,block_b,io_depth,io_threads,compute_threads,buffer_b,memory_b,cache,direct_io,
started_utc,runtime_s,setup_s,io_s,compute_s,io_wait_s,compute_wait_s,io_limit_s,limit_s,limit_ratio,edges_per_s,
read_b,cached_b,skipped_b,bytes_per_edge,read_requests,read_mb_per_s,device_mb_per_s,latency_p50_ms,latency_p99_ms,latency_max_ms,balance,edges_balance,
llc_source,llc_references,llc_misses,llc_miss_ratio,llc_stall_s,user_s,system_s,max_rss_b,
result_checksum,quantum,verified,
machine,cpu_model,cores,llc_b,memory_total_b,kernel_release,filesystem,disk_model,ioc_version,git_rev,slurm_job,slurm_node,
state_read_b,state_written_b";

    fn example() -> Row {
        Row::new(&AttemptId::new("r0123456789ab", Phase::Measured, 1, 1), "overlap")
    }

    fn parse(line: &str) -> Result<Row, RowError> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
        let record = reader.records().next().expect("a record").expect("valid CSV");
        Row::parse(&record)
    }

    #[test]
    fn the_header_is_the_contracts_list() {
        assert_eq!(Row::header(), format!("{}\n", CONTRACT.replace('\n', "")));
    }

    #[test]
    fn a_new_row_is_a_failure_that_says_nothing_else() {
        let row = example();
        assert_eq!(row.status, Status::Failed);
        let expected =
            format!("1,r0123456789ab,overlap,,1,measured,1,failed{}\n", ",".repeat(Row::COLUMNS.len() - 8));
        assert_eq!(row.line(), expected);
    }

    #[test]
    fn what_is_no_number_leaves_its_cell_empty() {
        let broken = Row {
            runtime_s: Some(Seconds(f64::NAN)),
            edges_per_s: Some(f64::INFINITY),
            residual: Some(f64::NEG_INFINITY),
            ..example()
        };
        assert_eq!(broken.line(), example().line());
    }

    #[test]
    fn cells_that_do_not_fit_are_named() {
        let line = example().line();
        let found = parse(&line.replace("measured", "cold"));
        assert_eq!(
            found.expect_err("no phase").to_string(),
            "column phase holds `cold`, expected one of warmup measured"
        );
        assert_eq!(parse("1,2\n"), Err(RowError::Cells { found: 2, expected: Row::COLUMNS.len() }));
        assert_eq!(parse(&line.replacen('1', "2", 1)), Err(RowError::Version(2)));
        assert!(matches!(parse(&line.replacen("overlap", "", 1)), Err(RowError::Cell { column: "job", .. })));
    }

    #[test]
    fn the_document_lists_exactly_these_columns() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/report.md");
        let document = std::fs::read_to_string(path).expect("docs/report.md");
        let listed: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<String> = Row::COLUMNS
            .iter()
            .map(|column| format!("| `{}` | {} | {} |", column.name, column.kind, column.doc()))
            .collect();
        assert!(listed == expected, "the table in docs/report.md should be:\n{}", expected.join("\n"));
    }

    #[test]
    fn column_texts_fit_a_table() {
        for column in Row::COLUMNS {
            let doc = column.doc();
            assert!(doc.ends_with('.') && !doc.contains(['|', '\n']), "{}: {doc}", column.name);
        }
    }

    fn text() -> impl Strategy<Value = Option<String>> {
        proptest::option::of("[!-~é]([ -~]{0,20}[!-~])?")
    }

    prop_compose! {
        fn rows()(
            (variant, error, result, dataset) in (text(), text(), text(), text()),
            nanoseconds in any::<Option<u32>>(),
            (residual, edges_per_s) in (proptest::option::of(proptest::num::f64::NORMAL), proptest::option::of(0.0..1e12)),
            (vertices, checksum, weighted) in any::<(Option<u64>, Option<u64>, Option<bool>)>(),
            (rep, attempt, warmup, ok) in (1u32.., 1u32.., any::<bool>(), any::<bool>()),
        ) -> Row {
            let phase = if warmup { Phase::Warmup } else { Phase::Measured };
            Row {
                status: if ok { Status::Ok } else { Status::Interrupted },
                variant, error, result, dataset, vertices, weighted, residual, edges_per_s,
                // What a clock gives; nine decimals hold every nanosecond.
                runtime_s: nanoseconds.map(|ns| Seconds((f64::from(ns) / 1e9 * 1e9).round() / 1e9)),
                result_checksum: checksum.map(Digest),
                ..Row::new(&AttemptId::new("r0a", phase, rep, attempt), "job")
            }
        }
    }

    proptest! {
        #[test]
        fn any_row_is_one_line_and_reads_back(row in rows()) {
            let line = row.line();
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(parse(&line), Ok(row));
        }
    }
}
