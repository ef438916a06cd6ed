//! From a point of the matrix to a [`RunSpec`]: merged, checked, with nothing optional left.
//!
//! What a single value must be is checked where it is read ([`super::layer`]); here is what only the merged
//! whole shows, like a buffer that outgrows the memory. Every fault points at a value that the user wrote.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::expand::{Point, Task};
use super::external::{self, Placeholder};
use super::fault::{Fault, Faults};
use super::file::JobFile;
use super::layer::{External, Layer, Layers, Setting, Typed};
use super::options::MOST_DEVICES;
use super::registry::{self, Registry};
use super::source::Origin;
use super::spec::{
    AlgorithmSpec, Auto, BfsSpec, CacheSpec, DanglingSpec, DatasetSpec, EncodingSpec, EngineSpec, GridSpec,
    InitSpec, IoSpec, KernelSpec, MeasureSpec, ModelSpec, OrderSpec, OutputSpec, PagerankSpec, PrecisionSpec,
    RunSpec, ScanSpec, SourceSpec, SpmvSpec, SsspSpec, StorageSpec, VerifySpec, VertexOrderSpec,
    VertexStateSpec,
};
use crate::engine::plan::{requests_of_thread, served};
use crate::grid::chunk::CHUNK;
use crate::grid::compact::WINDOW;
use crate::io::io_uring::MOST_REQUESTS;
use crate::units::{format_bytes, format_count};

/// Iterations of PageRank where the job names neither iterations nor a tolerance: as in GridGraph's experiments.
const PAGERANK_ITERATIONS: u64 = 20;
/// The bound that only a mistaken tolerance reaches: with damping 0.85 it stands for a residual of 1e-35.
const PAGERANK_ITERATIONS_TO_TOLERANCE: u64 = 500;

/// A path that a run needs on its machine.
#[derive(Debug, Clone)]
pub(crate) struct Needed {
    pub(crate) path: PathBuf,
    pub(crate) kind: NeededKind,
    pub(crate) origin: Origin,
}

/// What must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NeededKind {
    DeviceDirectory,
    DatasetFile,
    VectorFile,
    /// The first word of an external's command.
    Program,
}

/// A value or part could not be had: a fault of it is reported already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invalid;

/// Resolves the points of one job.
pub(crate) struct Resolver<'a> {
    pub(crate) job: &'a JobFile,
    pub(crate) project: &'a Path,
    pub(crate) report: &'a Path,
    pub(crate) registry: &'a Registry,
    pub(crate) faults: &'a mut Faults,
    pub(crate) needed: Vec<Needed>,
    /// What is in `needed`.
    pub(crate) known: HashSet<(PathBuf, NeededKind)>,
}

impl Resolver<'_> {
    /// The run of a point, if nothing is wrong with it.
    pub(crate) fn run(&mut self, point: &Point<'_>) -> Result<RunSpec, Invalid> {
        let values = Values { layers: &point.layers, project: self.project };
        // Every part is looked at before the first that is missing ends it: all faults are wanted.
        let dataset = self.dataset(&point.layers);
        let algorithm = match point.task {
            Task::Algorithm(name) => self.algorithm(name, &values),
            Task::External(external) => return self.external_run(external, point, dataset),
        };
        let storage = self.storage(&values);
        let grid = self.grid(&values);
        let engine = self.engine(&values);
        let measure = measure(&values);
        if let (Ok(dataset), Ok(algorithm)) = (&dataset, &algorithm) {
            self.check_root(&values, dataset, algorithm);
        }
        if let (Ok(storage), Ok(engine)) = (&storage, &engine) {
            self.check_requests(&values, storage.ssds, engine);
        }
        Ok(RunSpec {
            job: self.job.name.clone(),
            report: self.report.to_owned(),
            variant: point.variant.to_owned(),
            dataset: dataset?,
            algorithm: algorithm?,
            storage: storage?,
            grid: grid?,
            engine: engine?,
            measure: measure?,
            output: OutputSpec {
                values: values.choice(
                    "output.values",
                    &[true, false],
                    |csv| if csv { "csv" } else { "off" },
                )?,
            },
        })
    }

    /// What an external's words do not use is as it is by default, so that points which differ in nothing else are equal.
    fn external_run(
        &mut self,
        external: &External,
        point: &Point<'_>,
        dataset: Result<DatasetSpec, Invalid>,
    ) -> Result<RunSpec, Invalid> {
        let values = Values { layers: &point.layers, project: self.project };
        let own = point.layers.external(&external.name);
        let resolved = external::resolve(
            &external.name,
            &external.origin,
            &own,
            &values,
            dataset.as_ref().ok(),
            self.faults,
        );
        let (mut spec, programs) = resolved?;
        if spec.placeholders().contains(&Placeholder::Ssds) {
            let Typed::Texts(devices) = &values.setting("storage.devices")?.value else {
                return Err(Invalid);
            };
            spec.ssds = Some(self.ssds(&values, devices.len())?);
        }
        for (program, origin) in programs {
            self.need(Path::new(&program), NeededKind::Program, &origin);
        }
        let mut measure = measure(&values)?;
        if own.get("external.NAME.timeout").is_some() {
            let own = Values { layers: &own, project: self.project };
            measure.timeout_ms = own.milliseconds_or_off("external.NAME.timeout")?;
        }
        let defaults = Layers(vec![Layer::defaults()]);
        let defaults = Values { layers: &defaults, project: self.project };
        Ok(RunSpec {
            job: self.job.name.clone(),
            report: self.report.to_owned(),
            variant: point.variant.to_owned(),
            dataset: dataset?,
            algorithm: AlgorithmSpec::External(spec),
            storage: self.storage(&defaults)?,
            grid: self.grid(&defaults)?,
            engine: self.engine(&defaults)?,
            measure,
            output: OutputSpec { values: false },
        })
    }

    fn need(&mut self, path: &Path, kind: NeededKind, origin: &Origin) {
        if self.known.insert((path.to_owned(), kind)) {
            self.needed.push(Needed { path: path.to_owned(), kind, origin: origin.clone() });
        }
    }

    fn dataset(&mut self, layers: &Layers<'_>) -> Result<DatasetSpec, Invalid> {
        let resolved = registry::resolve(layers, self.registry, self.project, self.faults)?;
        if let Some((path, origin)) = &resolved.file {
            self.need(path, NeededKind::DatasetFile, origin);
        }
        Ok(resolved.spec)
    }

    fn algorithm(&mut self, name: &str, values: &Values<'_>) -> Result<AlgorithmSpec, Invalid> {
        match name {
            "scan" => {
                let iterations = values.count("algorithm.scan.iterations")?;
                Ok(AlgorithmSpec::Scan(ScanSpec { iterations, enough: None }))
            }
            "pagerank" => pagerank(values).map(AlgorithmSpec::Pagerank),
            "bfs" => Ok(AlgorithmSpec::Bfs(BfsSpec { root: values.auto("algorithm.bfs.root")? })),
            "sssp" => Ok(AlgorithmSpec::Sssp(SsspSpec { root: values.auto("algorithm.sssp.root")? })),
            "wcc" => Ok(AlgorithmSpec::Wcc),
            _ => self.spmv(values).map(AlgorithmSpec::Spmv),
        }
    }

    fn spmv(&mut self, values: &Values<'_>) -> Result<SpmvSpec, Invalid> {
        let x = values.setting("algorithm.spmv.x")?;
        let x = match &x.value {
            Typed::Count(_) => None,
            Typed::Text(path) => {
                let path = values.absolute(path);
                self.need(&path, NeededKind::VectorFile, &x.origin);
                Some(path)
            }
            _ => return Err(Invalid),
        };
        Ok(SpmvSpec { iterations: values.count("algorithm.spmv.iterations")?, x })
    }

    fn storage(&mut self, values: &Values<'_>) -> Result<StorageSpec, Invalid> {
        let setting = values.setting("storage.devices")?;
        let Typed::Texts(devices) = &setting.value else { return Err(Invalid) };
        if devices.len() as u64 > MOST_DEVICES {
            let message =
                format!("`storage.devices` lists {} directories", format_count(devices.len() as u64));
            let help = format!("list at most {MOST_DEVICES}");
            self.faults.push(Fault::new(message).at(&setting.origin).help(help));
            return Err(Invalid);
        }
        let devices: Vec<PathBuf> = devices.iter().map(|path| values.absolute(path)).collect();
        let distinct = self.distinct(&devices, setting);
        let ssds = self.ssds(values, devices.len());
        let used = devices.into_iter().zip(&setting.items).take(ssds? as usize);
        let mut directories = Vec::new();
        for (path, origin) in used {
            self.need(&path, NeededKind::DeviceDirectory, origin);
            directories.push(path);
        }
        distinct?;
        Ok(StorageSpec {
            devices: directories,
            ssds: ssds?,
            stripe: values.count("storage.stripe")?,
            rated: values.count_or_off("storage.rated")?,
            emulate: values.count_or_off("storage.emulate")?,
            keep: values.flag("storage.keep")?,
        })
    }

    fn distinct(&mut self, devices: &[PathBuf], setting: &Setting) -> Result<(), Invalid> {
        for (at, device) in devices.iter().enumerate() {
            if devices[..at].contains(device) {
                let origin = setting.items.get(at).unwrap_or(&setting.origin);
                let fault = Fault::new("two devices are the same directory").at(origin);
                self.faults.push(fault.help("give each SSD a directory of its own"));
                return Err(Invalid);
            }
        }
        Ok(())
    }

    /// Devices to stripe over: all where the job does not say; one folder where it names none.
    fn ssds(&mut self, values: &Values<'_>, devices: usize) -> Result<u32, Invalid> {
        let Some(setting) = values.layers.get("storage.ssds") else {
            return u32::try_from(devices.max(1)).map_err(|_| Invalid);
        };
        let Typed::Count(ssds) = setting.value else { return Err(Invalid) };
        if devices > 0 && ssds > devices as u64 {
            let message = format!("`storage.ssds` is {ssds}, but `storage.devices` lists {devices}");
            let help = format!("use at most {devices}, or list more devices");
            self.faults.push(Fault::new(message).at(&setting.origin).help(help));
            return Err(Invalid);
        }
        u32::try_from(ssds).map_err(|_| Invalid)
    }

    fn engine(&mut self, values: &Values<'_>) -> Result<EngineSpec, Invalid> {
        self.check_buffer(values);
        let model = values.choice("engine.model", &ModelSpec::ALL, ModelSpec::name)?;
        let io_threads = values.auto_u32("engine.io_threads")?;
        Ok(EngineSpec {
            model,
            io: values.choice("engine.io", &IoSpec::ALL, IoSpec::name)?,
            block_size: values.auto("engine.block_size")?,
            io_depth: values.auto_u32("engine.io_depth")?,
            io_batch: values.small("engine.io_batch")?,
            // The synchronous model has none: two runs that differ only in them are the same run.
            io_threads: if model == ModelSpec::Sync { Auto::Auto } else { io_threads },
            compute_threads: values.auto_u32("engine.compute_threads")?,
            buffer: values.count("engine.buffer")?,
            memory: values.count("engine.memory")?,
            cache: values.choice("engine.cache", &CacheSpec::ALL, CacheSpec::name)?,
            kernel: values.choice("engine.kernel", &KernelSpec::ALL, KernelSpec::name)?,
            vertex_state: values.choice(
                "engine.vertex_state",
                &VertexStateSpec::ALL,
                VertexStateSpec::name,
            )?,
        })
    }

    /// A root that is no vertex, where it is known beforehand which vertices there are.
    fn check_root(&mut self, values: &Values<'_>, dataset: &DatasetSpec, algorithm: &AlgorithmSpec) {
        let (path, root) = match algorithm {
            AlgorithmSpec::Bfs(bfs) => ("algorithm.bfs.root", bfs.root),
            AlgorithmSpec::Sssp(sssp) => ("algorithm.sssp.root", sssp.root),
            _ => return,
        };
        let made = match &dataset.source {
            SourceSpec::Kronecker(kronecker) => Some(1_u64 << kronecker.scale.min(63)),
            SourceSpec::File { .. } => None,
        };
        if let (Auto::Value(root), Some(vertices)) = (root, dataset.vertices.or(made))
            && root >= vertices
        {
            let message = format!(
                "`root` is {}, but {} has {} vertices",
                format_count(root),
                dataset.name,
                format_count(vertices)
            );
            let help = format!("give an id from 0 to {}, or \"auto\"", format_count(vertices - 1));
            self.faults.push(Fault::new(message).maybe_at(values.blame(&[path])).help(help));
        }
    }

    /// More requests than an `io_uring` has room for. Where a probe's advice may add I/O threads, the fewest are assumed.
    fn check_requests(&mut self, values: &Values<'_>, devices: u32, engine: &EngineSpec) {
        let Auto::Value(depth) = engine.io_depth else { return };
        if engine.model == ModelSpec::Sync || engine.io != IoSpec::IoUring {
            return;
        }
        let threads = engine.io_threads.or_else(|| 1);
        let (served, requests) =
            (served(0, threads, devices), requests_of_thread(0, depth, threads, devices));
        if requests > MOST_REQUESTS {
            let message = format!(
                "`engine.io_depth` {depth} on {served} devices is {} requests for an I/O thread, and an io_uring has \
                 room for {}",
                format_count(requests as u64),
                format_count(MOST_REQUESTS as u64)
            );
            let origin = values.blame(&["engine.io_depth", "storage.ssds", "storage.devices"]);
            let help =
                format!("lower it to {} or less, or raise `engine.io_threads`", MOST_REQUESTS / served);
            self.faults.push(Fault::new(message).maybe_at(origin).help(help));
        }
    }

    fn grid(&mut self, values: &Values<'_>) -> Result<GridSpec, Invalid> {
        let encoding = values.choice("grid.encoding", &EncodingSpec::ALL, EncodingSpec::name)?;
        let source_window = values.auto("grid.source_window")?;
        match (encoding, source_window) {
            (EncodingSpec::Compact, Auto::Value(window)) if window > WINDOW => {
                let most = format_count(WINDOW);
                let message = format!(
                    "`grid.source_window` is {}, but with `grid.encoding` \"compact\" it is at most {most}",
                    format_count(window)
                );
                let origin = values.blame(&["grid.source_window", "grid.encoding"]);
                let help = format!("lower it to {most} or less, or leave it \"auto\"");
                self.faults.push(Fault::new(message).maybe_at(origin).help(help));
            }
            _ => {}
        }
        Ok(GridSpec {
            encoding,
            columns: values.auto_u32("grid.columns")?,
            source_window,
            order: values.choice("grid.order", &VertexOrderSpec::ALL, VertexOrderSpec::name)?,
            interleave: values.auto_u32("grid.interleave")?,
        })
    }

    fn check_buffer(&mut self, values: &Values<'_>) {
        let (Ok(buffer), Ok(memory)) = (values.count("engine.buffer"), values.count("engine.memory")) else {
            return;
        };
        if memory <= buffer {
            let message = format!(
                "`engine.memory` {} is all taken by `engine.buffer` {}",
                values.shown("engine.memory"),
                values.shown("engine.buffer")
            );
            let origin = values.blame(&["engine.memory", "engine.buffer"]);
            let help = "raise the memory or lower the buffer: vertex state needs room too";
            self.faults.push(Fault::new(message).maybe_at(origin).help(help));
        }
        let block = match values.auto("engine.block_size") {
            Ok(Auto::Value(block)) => block,
            _ => CHUNK as u64,
        };
        if buffer / block < 2 {
            let message = format!(
                "`engine.buffer` {} holds fewer than two blocks of {}",
                values.shown("engine.buffer"),
                format_bytes(block)
            );
            let origin = values.blame(&["engine.buffer", "engine.block_size"]);
            let help = "raise the buffer or lower `engine.block_size`: one block is filled while another is computed on";
            self.faults.push(Fault::new(message).maybe_at(origin).help(help));
        }
    }
}

fn pagerank(values: &Values<'_>) -> Result<PagerankSpec, Invalid> {
    let tolerance = values.real_or_off("algorithm.pagerank.tolerance")?;
    let iterations = match values.layers.get("algorithm.pagerank.iterations") {
        Some(_) => values.count("algorithm.pagerank.iterations")?,
        None if tolerance.is_some() => PAGERANK_ITERATIONS_TO_TOLERANCE,
        None => PAGERANK_ITERATIONS,
    };
    Ok(PagerankSpec {
        iterations,
        tolerance,
        precision: values.choice("algorithm.pagerank.precision", &PrecisionSpec::ALL, PrecisionSpec::name)?,
        damping: values.real("algorithm.pagerank.damping")?,
        dangling: values.choice("algorithm.pagerank.dangling", &DanglingSpec::ALL, DanglingSpec::name)?,
        init: values.choice("algorithm.pagerank.init", &InitSpec::ALL, InitSpec::name)?,
    })
}

fn measure(values: &Values<'_>) -> Result<MeasureSpec, Invalid> {
    Ok(MeasureSpec {
        repeat: values.small("measure.repeat")?,
        warmup: values.small("measure.warmup")?,
        order: values.choice("measure.order", &OrderSpec::ALL, OrderSpec::name)?,
        timeout_ms: values.milliseconds_or_off("measure.timeout")?,
        verify: values.choice("measure.verify", &VerifySpec::ALL, VerifySpec::name)?,
    })
}

/// Merged values by type. Nothing is given for a value that was faulty, which is reported already.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) layers: &'a Layers<'a>,
    /// Where relative paths start.
    pub(crate) project: &'a Path,
}

impl<'a> Values<'a> {
    /// The strongest setting of an option that has a default or is known to be set.
    fn setting(&self, path: &str) -> Result<&'a Setting, Invalid> {
        self.layers.get(path).ok_or(Invalid)
    }

    pub(crate) fn count(&self, path: &str) -> Result<u64, Invalid> {
        match self.setting(path)?.value {
            Typed::Count(count) => Ok(count),
            _ => Err(Invalid),
        }
    }

    /// A count whose option admits nothing above 32 bits.
    pub(crate) fn small(&self, path: &str) -> Result<u32, Invalid> {
        u32::try_from(self.count(path)?).map_err(|_| Invalid)
    }

    fn count_or_off(&self, path: &str) -> Result<Option<u64>, Invalid> {
        match self.setting(path)?.value {
            Typed::Off => Ok(None),
            _ => self.count(path).map(Some),
        }
    }

    fn milliseconds_or_off(&self, path: &str) -> Result<Option<u64>, Invalid> {
        match self.setting(path)?.value {
            Typed::Off => Ok(None),
            // Rounded up: never shorter than asked for. A duration as it is parsed has 2^64 nanoseconds at most.
            Typed::Time(time) => Ok(Some(time.as_nanos().div_ceil(1_000_000) as u64)),
            _ => Err(Invalid),
        }
    }

    fn auto(&self, path: &str) -> Result<Auto<u64>, Invalid> {
        match self.setting(path)?.value {
            Typed::Auto => Ok(Auto::Auto),
            _ => self.count(path).map(Auto::Value),
        }
    }

    pub(crate) fn auto_u32(&self, path: &str) -> Result<Auto<u32>, Invalid> {
        match self.setting(path)?.value {
            Typed::Auto => Ok(Auto::Auto),
            _ => self.small(path).map(Auto::Value),
        }
    }

    fn real(&self, path: &str) -> Result<f64, Invalid> {
        match self.setting(path)?.value {
            Typed::Real(real) => Ok(real),
            _ => Err(Invalid),
        }
    }

    fn real_or_off(&self, path: &str) -> Result<Option<f64>, Invalid> {
        match self.setting(path)?.value {
            Typed::Off => Ok(None),
            _ => self.real(path).map(Some),
        }
    }

    pub(crate) fn flag(&self, path: &str) -> Result<bool, Invalid> {
        match self.setting(path)?.value {
            Typed::Bool(flag) => Ok(flag),
            _ => Err(Invalid),
        }
    }

    pub(crate) fn text(&self, path: &str) -> Result<&str, Invalid> {
        match &self.setting(path)?.value {
            Typed::Text(text) => Ok(text),
            _ => Err(Invalid),
        }
    }

    /// Which of `all` was chosen by name.
    pub(crate) fn choice<T: Copy>(
        &self,
        path: &str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, Invalid> {
        let Typed::Choice(chosen) = self.setting(path)?.value else { return Err(Invalid) };
        all.iter().copied().find(|&value| name(value) == chosen).ok_or(Invalid)
    }

    pub(crate) fn absolute(&self, path: &str) -> PathBuf {
        self.project.join(path)
    }

    /// A value as written, for messages.
    fn shown(&self, path: &str) -> String {
        match self.layers.get(path) {
            Some(setting) if setting.origin.written() => format!("({})", setting.origin.text()),
            Some(setting) => format!("({}, the default)", setting.origin.text()),
            None => String::new(),
        }
    }

    /// The first of some options that the user wrote: a fault of several is told there.
    pub(crate) fn blame(&self, paths: &[&str]) -> Option<&Origin> {
        let origins = paths.iter().filter_map(|path| self.layers.get(path)).map(|setting| &setting.origin);
        origins.into_iter().find(|origin| origin.written())
    }
}
