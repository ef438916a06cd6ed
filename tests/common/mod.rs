//! What integration tests share: a graph in a folder of its own, and runs on it by the library's own path; the
//! program in a project of its own ([`project`]).
#![allow(dead_code, unreachable_pub, reason = "each test program has a copy of this and uses a part of it")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

pub mod bad;
pub mod project;
pub mod real;

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use ioc_grid::algorithm::streamed::{self, StreamSetup};
use ioc_grid::algorithm::{self, Outcome};
use ioc_grid::dataset::{self, Context};
use ioc_grid::engine::plan::Plan;
use ioc_grid::engine::streaming::Streaming;
use ioc_grid::engine::{Engine, EngineError, Setup};
use ioc_grid::grid::{self, Grid, LayoutRequest};
use ioc_grid::interrupt::Interrupt;
use ioc_grid::io::IoEngine;
use ioc_grid::job::spec::{
    AlgorithmSpec, Auto, CacheSpec, DatasetSpec, EncodingSpec, EngineSpec, GridSpec, IoSpec, KernelSpec,
    KroneckerSpec, ModelSpec, SourceSpec, StorageSpec, VertexOrderSpec, VertexStateSpec, WeightsSpec,
};
use ioc_grid::progress::Silent;
use ioc_grid::storage::device::DeviceFiles;

/// A Kronecker graph with 8 edges per vertex.
pub fn kronecker(scale: u32, weights: bool) -> DatasetSpec {
    DatasetSpec {
        name: format!("kron-{scale}"),
        source: SourceSpec::Kronecker(KroneckerSpec { scale, edge_factor: 8, seed: 1, weights }),
        vertices: None,
        edges: None,
        directed: true,
        weights: WeightsSpec::Auto,
        skip_lines: 0,
    }
}

/// Every way to read that this machine allows.
#[allow(clippy::print_stderr)]
pub fn kinds() -> Vec<IoSpec> {
    let mut kinds = IoSpec::ALL.to_vec();
    if let Err(refusal) = ioc_grid::io::io_uring::available() {
        eprintln!("io_uring is not tested: {refusal}");
        kinds.retain(|kind| *kind != IoSpec::IoUring);
    }
    kinds
}

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub model: ModelSpec,
    pub io: IoSpec,
    pub kernel: KernelSpec,
    pub compute_threads: u32,
    pub io_threads: u32,
    pub block: u64,
    pub columns: Auto<u32>,
    pub interleave: u32,
    pub ssds: u32,
    /// Blocks kept in memory.
    pub pins: u64,
    pub encoding: EncodingSpec,
    pub order: VertexOrderSpec,
    /// Bytes of memory for vertex state, where the rest of it is on the devices.
    pub state_memory: Option<u64>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            model: ModelSpec::Ioc,
            io: IoSpec::Libaio,
            kernel: KernelSpec::Owned,
            compute_threads: 2,
            io_threads: 1,
            block: 64 << 10,
            columns: Auto::Value(4),
            interleave: 2,
            ssds: 1,
            pins: 0,
            encoding: EncodingSpec::Raw,
            order: VertexOrderSpec::Natural,
            state_memory: None,
        }
    }
}

/// A data set and a folder for its grids.
pub struct World {
    pub spec: DatasetSpec,
    pub folder: tempfile::TempDir,
}

impl World {
    pub fn new(spec: DatasetSpec) -> Self {
        // Below the build folder: a temporary folder may lie in memory, which takes no direct I/O.
        let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        Self { spec, folder: tempfile::tempdir_in(base).unwrap() }
    }

    pub fn grid(&self, case: &Case) -> Grid {
        let grid = GridSpec {
            encoding: case.encoding,
            columns: case.columns,
            source_window: Auto::Value(512),
            order: case.order,
            interleave: Auto::Auto,
        };
        let storage = StorageSpec {
            devices: Vec::new(),
            ssds: case.ssds,
            stripe: 64 << 10,
            rated: None,
            emulate: None,
            keep: true,
        };
        let request =
            LayoutRequest { dataset: &self.spec.name, fingerprint: "ktest", grid: &grid, storage: &storage };
        if let Some(grid) = grid::open(self.folder.path(), &request).unwrap() {
            return grid;
        }
        let source = dataset::open(&self.spec).unwrap();
        let interrupt = Interrupt::new();
        let context = Context { threads: 2, interrupt: &interrupt, progress: &Silent };
        grid::build(self.folder.path(), &request, source.as_ref(), None, 1 << 30, context).unwrap()
    }

    pub fn run(
        &self,
        case: &Case,
        algorithm: &AlgorithmSpec,
    ) -> Result<(Outcome, Grid), Box<dyn std::error::Error>> {
        let grid = self.grid(case);
        let outcome = run_on(&grid, case, algorithm, Engine::prepare)?;
        Ok((outcome, grid))
    }

    /// Runs with readers of the test's making.
    pub fn run_with(
        &self,
        case: &Case,
        algorithm: &AlgorithmSpec,
        open: impl Fn(Arc<DeviceFiles>, usize) -> std::io::Result<Box<dyn IoEngine>>,
    ) -> Result<Outcome, Box<dyn std::error::Error>> {
        let grid = self.grid(case);
        run_on(&grid, case, algorithm, |setup| {
            let files = Arc::clone(&setup.files);
            Engine::with_readers(setup, |capacity| open(Arc::clone(&files), capacity))
        })
    }
}

/// Runs on a grid as it is given.
pub fn run_grid(
    grid: &Grid,
    case: &Case,
    algorithm: &AlgorithmSpec,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    run_on(grid, case, algorithm, Engine::prepare)
}

fn run_on<'a>(
    grid: &'a Grid,
    case: &Case,
    algorithm: &AlgorithmSpec,
    prepare: impl FnOnce(Setup<'a>) -> Result<Engine<'a>, EngineError>,
) -> Result<Outcome, Box<dyn std::error::Error>> {
    let engine = EngineSpec {
        model: case.model,
        io: case.io,
        block_size: Auto::Value(case.block),
        io_depth: Auto::Value(4),
        io_batch: 4,
        io_threads: Auto::Value(case.io_threads),
        compute_threads: Auto::Value(case.compute_threads),
        buffer: case.block * u64::from(case.compute_threads.max(3) * 2),
        memory: 1 << 30,
        cache: CacheSpec::Off,
        kernel: case.kernel,
        vertex_state: VertexStateSpec::Auto,
    };
    let plan = Plan { pins: case.pins, ..Plan::resolve(&engine, Some(case.interleave), case.ssds, 2, None)? };
    let (kernel, threads) = (plan.kernel, plan.compute_threads);
    let setup = algorithm::Setup { grid, graph: "test", kernel, threads, spares: threads - 1 };
    let streaming: Option<&'static Streaming> = match case.state_memory.zip(streamed::state_bytes(algorithm))
    {
        Some((memory, bytes)) => Some(Box::leak(Box::new(Streaming::new(grid, &plan, bytes, memory)?))),
        None => None,
    };
    let (mut state, store) = match streaming {
        None => (algorithm::create(algorithm, setup)?, None),
        Some(streaming) => {
            let folders = grid.paths.parts.iter().map(|part| part.parent().unwrap().to_owned()).collect();
            let stream = StreamSetup { streaming, folders, shaper: None };
            let (state, store) = streamed::create(algorithm, setup, &stream)?;
            (state, Some(store))
        }
    };
    let interrupt: &'static Interrupt = Box::leak(Box::new(Interrupt::new()));
    let setup = Setup {
        grid,
        plan,
        files: Arc::new(DeviceFiles::open(&grid.paths.parts)?),
        shaper: None,
        streaming: streaming.zip(store.as_ref().map(|store| Arc::clone(store.files()))),
        interrupt,
        progress: &Silent,
    };
    prepare(setup)?.run(state.as_algorithm())?;
    Ok(state.finish(grid)?)
}

/// The error's text, for assertions.
pub fn text<T>(result: Result<T, impl Display>) -> String {
    match result {
        Ok(_) => "no error".to_owned(),
        Err(error) => error.to_string(),
    }
}
