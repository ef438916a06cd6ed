//! What runs need of the machine: bytes on disk, bytes read, memory. Exact where the grid is built, otherwise from what
//! the source says of itself.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::cores;
use crate::algorithm;
use crate::cluster::local::import_of;
use crate::dataset::{Estimate, estimate};
use crate::engine::EngineError;
use crate::engine::plan::Plan;
use crate::engine::streaming::Streaming;
use crate::grid::Grid;
use crate::grid::chunk::{CHUNK, PAYLOAD, RawEdge};
use crate::grid::manifest::Order;
use crate::io::{io_uring, libaio};
use crate::job::external::shown;
use crate::job::spec::{
    AlgorithmSpec, CacheSpec, EncodingSpec, ExportFormatSpec, ExternalSpec, IoSpec, RunSpec,
};
use crate::measure::environment::memory_available;
use crate::run::parameters::{self, StateNeeds, VertexState};
use crate::run::plan::{JobPlan, PlannedRun};
use crate::run::{external, layout};
use crate::units::{format_bytes, format_count, plural};

/// What the runs of a batch need, each grid looked at once.
pub(crate) struct Needs<'a> {
    data: &'a Path,
    /// By data set, layout and devices.
    grids: HashMap<(String, String, Vec<PathBuf>), Size>,
    /// The most that a run takes.
    memory: u64,
    /// The most requests that a run reserves by `libaio`.
    requests: u64,
    /// Whether a run reads by `io_uring`.
    uring: bool,
}

/// What is known of a grid.
#[derive(Clone, Default)]
struct Size {
    built: Option<Grid>,
    vertices: Option<u64>,
    bytes: Option<u64>,
    /// Before figures: `about `.
    about: &'static str,
    folders: Vec<PathBuf>,
}

impl<'a> Needs<'a> {
    pub(crate) fn new(data: &'a Path) -> Self {
        Self { data, grids: HashMap::new(), memory: 0, requests: 0, uring: false }
    }

    /// What a run needs, as a text; the error says why it will be refused.
    pub(crate) fn of(&mut self, run: &PlannedRun) -> Result<String, EngineError> {
        let spec = &run.spec;
        if let Some(external) = spec.algorithm.external() {
            return Ok(self.of_external(run, external));
        }
        let (dataset, layout, devices, _) = import_of(self.data, run);
        let size = self.grids.entry((dataset, layout, devices)).or_insert_with(|| Size::of(self.data, run));
        // What is not chosen yet may be what takes more.
        let asked = || Order::asked(&spec.grid).unwrap_or(Order::Degree);
        let order = size.built.as_ref().map_or_else(asked, |grid| grid.manifest.order);
        let state = size.vertices.map(|vertices| algorithm::state_bytes(&spec.algorithm, order, vertices));
        let grid = size.built.as_ref().map(|grid| &grid.manifest);
        let needs = state.map(|bytes| StateNeeds { bytes, grid });
        let (plan, place) = parameters::resolve(self.data, spec, needs, cores() as u32)?;
        let least = match place {
            VertexState::Held => {
                let spare = needs.map_or(0, |needs| needs.spare_bytes(spec, &plan));
                state.unwrap_or(0).saturating_add(spare * u64::from(plan.spares))
            }
            VertexState::Streamed(bytes, memory) => {
                if let Some(grid) = &size.built {
                    Streaming::new(grid, &plan, bytes, memory)?;
                }
                memory
            }
        };
        self.requests = self.requests.max(parameters::asynchronous_requests(&plan));
        self.uring |= plan.io == IoSpec::IoUring;
        let (disk, kept) = match size.bytes {
            Some(bytes) => size.disk(bytes, spec, &plan),
            None => ("(size on disk is known after the import)".to_owned(), 0),
        };
        self.memory = self.memory.max(plan.memory(least).saturating_add(kept));
        let more = if state.is_none() { "more than " } else { "" };
        let (memory, budget) = (format_bytes(plan.memory(least)), format_bytes(spec.engine.memory));
        let kept = if kept > 0 {
            format!(", {} of blocks kept in the rest", format_bytes(kept))
        } else {
            String::new()
        };
        let streams = if place == VertexState::Held { "" } else { ", vertex state on the devices" };
        Ok(format!("{disk}, {more}{memory} of {budget} memory{kept}{streams}"))
    }

    /// What an external does; what that needs is its own matter.
    fn of_external(&self, run: &PlannedRun, external: &ExternalSpec) -> String {
        let ready = external::is_ready(self.data, run);
        let mut parts = Vec::new();
        if external.needs_export() && !ready {
            let format = external.format.name();
            parts.push(match estimate(&run.spec.dataset) {
                Ok(Some(Estimate { edges, weight_bytes, .. }))
                    if external.format == ExportFormatSpec::Gridgraph =>
                {
                    let bytes = edges.saturating_mul(8 + weight_bytes.min(4));
                    format!("exports about {} as {format}", format_bytes(bytes))
                }
                _ => format!("exports as {format}"),
            });
        }
        if !external.prepare.is_empty() {
            let done = if ready { "prepared by" } else { "prepares by" };
            parts.push(format!("{done} `{}`", shown(&external.prepare)));
        }
        parts.push(format!("runs `{}`", shown(&external.command)));
        parts.join(", ")
    }

    /// Runs, repetitions and grids of all plans.
    pub(crate) fn total(&self, plans: &[JobPlan]) -> String {
        let runs = plural(plans.iter().map(|plan| plan.runs.len()).sum(), "run");
        let repetitions = plural(plans.iter().map(|plan| plan.repetitions().len()).sum(), "repetition");
        let missing: Vec<&Size> = self.missing().collect();
        let all = format!("in all {runs}, {repetitions}");
        if missing.is_empty() {
            return all + "; every grid is built";
        }
        let bytes = missing.iter().filter_map(|size| size.bytes).fold(0, u64::saturating_add);
        let unknown = missing.iter().filter(|size| size.bytes.is_none()).count();
        let parts = [
            Some(format!("{all}; {} to import", plural(missing.len(), "grid"))),
            (bytes > 0).then(|| format!("about {} on disk", format_bytes(bytes))),
            (unknown > 0).then(|| format!("{unknown} of a size that is known after the import")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn missing(&self) -> impl Iterator<Item = &Size> {
        self.grids.values().filter(|size| size.built.is_none())
    }

    /// What this machine, as it is now, is too small for.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (folder, needed) in self.space() {
            let Some(free) = free(&folder).filter(|free| *free < needed) else { continue };
            notes.push(format!(
                "{} has {} free, and the grids to import there need about {} while they are imported",
                folder.display(),
                format_bytes(free),
                format_bytes(needed),
            ));
        }
        if let Some(available) = memory_available().filter(|available| *available < self.memory) {
            notes.push(format!(
                "a run may take {} of memory, and {} are available on this machine at this moment",
                format_bytes(self.memory),
                format_bytes(available),
            ));
        }
        if let Some(free) = libaio::free_requests().filter(|free| *free < self.requests) {
            notes.push(format!(
                "a run asks libaio for {} requests, and this machine has room for {} (fs.aio-max-nr less fs.aio-nr): \
                 raise the limit with `sysctl fs.aio-max-nr=1048576`, or lower engine.io_depth",
                format_count(self.requests),
                format_count(free),
            ));
        }
        if self.uring
            && let Err(refusal) = io_uring::available()
        {
            notes.push(refusal.to_string());
        }
        notes
    }

    /// Bytes that each file system needs, by one of its folders: those of the grids, and of the largest once more, which
    /// an import writes to a temporary file first.
    fn space(&self) -> Vec<(PathBuf, u64)> {
        let mut needs: HashMap<u64, (PathBuf, u64)> = HashMap::new();
        let mut add = |folder: &Path, bytes: u64| {
            let Some((folder, device)) = existing(folder) else { return };
            let need = needs.entry(device).or_insert((folder, 0));
            need.1 = need.1.saturating_add(bytes);
        };
        for size in self.missing() {
            let share = size.bytes.unwrap_or(0) / size.folders.len().max(1) as u64;
            size.folders.iter().for_each(|folder| add(folder, share));
        }
        add(self.data, self.missing().filter_map(|size| size.bytes).max().unwrap_or(0));
        let mut needs: Vec<_> = needs.into_values().collect();
        needs.sort();
        needs
    }
}

impl Size {
    fn of(data: &Path, run: &PlannedRun) -> Self {
        let folders = layout::folders(data, &run.spec);
        if let Ok(Some(grid)) = layout::find(data, run) {
            let (vertices, bytes) = (Some(grid.manifest.vertices), Some(grid.total_bytes()));
            return Self { built: Some(grid), vertices, bytes, about: "", folders };
        }
        // What is wrong with the source its import says.
        let Ok(Some(Estimate { edges, weight_bytes, vertices })) = estimate(&run.spec.dataset) else {
            let vertices = run.spec.dataset.vertices;
            return Self { vertices, folders, ..Self::default() };
        };
        let per_chunk = PAYLOAD as u64 / (size_of::<RawEdge>() as u64 + weight_bytes);
        let bytes = edges.div_ceil(per_chunk).saturating_mul(CHUNK as u64);
        // What the compact code makes of a graph is known when it is made.
        let about = if run.spec.grid.encoding == EncodingSpec::Compact { "at most " } else { "about " };
        Self { built: None, vertices, bytes: Some(bytes), about, folders }
    }

    /// Bytes on disk and read, as a text, and those of blocks that stay in memory.
    fn disk(&self, bytes: u64, spec: &RunSpec, plan: &Plan) -> (String, u64) {
        let requests = match &self.built {
            Some(grid) => plan.requests(grid),
            None => bytes.div_ceil(plan.block),
        };
        let kept = plan.kept_bytes(bytes, requests);
        let Some(passes) = spec.algorithm.iterations() else {
            let bytes = format_bytes(bytes);
            let text = format!(
                "{}{bytes} on disk, reads at most that in each pass, as many as it takes",
                self.about
            );
            return (text, kept);
        };
        let reads = format_bytes(plan.read_bytes(bytes, requests, passes));
        let unknown = self.vertices.is_none() && spec.engine.cache == CacheSpec::Auto;
        let about = match self.about {
            _ if unknown || has_tolerance(&spec.algorithm) => "at most ",
            "" if kept > 0 => "about ",
            about => about,
        };
        (format!("{}{} on disk, reads {about}{reads}", self.about, format_bytes(bytes)), kept)
    }
}

fn has_tolerance(algorithm: &AlgorithmSpec) -> bool {
    matches!(algorithm, AlgorithmSpec::Pagerank(spec) if spec.tolerance.is_some())
}

/// A folder, or the nearest above that is there, and its file system.
fn existing(folder: &Path) -> Option<(PathBuf, u64)> {
    folder.ancestors().find_map(|folder| Some((folder.to_owned(), std::fs::metadata(folder).ok()?.dev())))
}

/// Bytes that this user may still write there.
fn free(folder: &Path) -> Option<u64> {
    let found = statvfs(folder).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
