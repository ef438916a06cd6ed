//! Import: from a source of edges to a grid, in external memory.
//!
//! Three phases: [`survey`] (which vertices there are), [`partition`] (edges to buckets of destinations, spilled)
//! and [`encode`] (buckets to sorted, checksummed chunks at their places). Nothing is trusted before the manifest
//! is written, last; whatever ends an import early removes what it made, and what a killed one leaves is removed
//! by the next import or by [`super::gc`].

mod account;
mod cell;
mod dense;
mod encode;
mod ids;
mod in_weight;
mod order;
mod output;
mod partition;
mod plan;
mod rows;
mod sample;
mod sort;
mod spill;
mod survey;
mod turns;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::dataset::{Context, EdgeSource};
use crate::job::spec::GridSpec;
use crate::measure::clock::max_rss_bytes;
use crate::storage::stripe::Stripes;

use super::chunk::CHUNK;
use super::columns::{self, Buckets, ColumnRule, DEFAULT_LLC};
use super::digest::dataset_checksum;
use super::error::GridError;
use super::files;
use super::inventory::{drop_empty, erase};
use super::lock::Lock;
use super::manifest::{Column, Encoding, FORMAT, Manifest, Order};
use super::open::{Grid, open};
use super::paths::{GridPaths, LayoutRequest, MANIFEST};
use super::renumbering::Renumbering;

use account::{Degrees, Totals};
pub(super) use dense::DenseEdges;
use encode::{Encoder, Places};
use partition::Partition;
pub(super) use plan::Limits;
use plan::{Budget, ScatterPlan};
use sample::Sampler;
pub(super) use spill::is_weighted;
use survey::Survey;
use turns::Turns;

/// Imports a source as the layout that `request` asks for, and returns it.
///
/// The process holds at most `memory` bytes (`VmHWM`, with 16 MiB counted for the process itself and 2 MiB for
/// each thread's reader) or the import is refused with the figure that would do. One import of a data set runs at
/// a time: others wait, and return the grid where it was built meanwhile. With the same input, memory and threads
/// the same bytes are written, but for the grid's random number, as long as every range of destinations that is
/// sorted at once fits the memory; otherwise the order within it may differ, which no result depends on.
pub fn build(
    data: &Path,
    request: &LayoutRequest<'_>,
    source: &dyn EdgeSource,
    expected_edges: Option<u64>,
    memory: u64,
    context: Context<'_>,
) -> Result<Grid, GridError> {
    build_within(data, request, source, expected_edges, memory, Limits::default(), context)
}

/// [`build`] with lower limits than memory gives.
pub(super) fn build_within(
    data: &Path,
    request: &LayoutRequest<'_>,
    source: &dyn EdgeSource,
    expected_edges: Option<u64>,
    memory: u64,
    limits: Limits,
    context: Context<'_>,
) -> Result<Grid, GridError> {
    request.check()?;
    let folder = data.join(request.dataset);
    files::create_folder(&folder)?;
    let lock = Lock::acquire(&folder, request.dataset, context)?;
    let built = build_locked(data, request, source, expected_edges, memory, limits, context);
    if built.is_err() {
        drop_empty(&folder, lock);
    }
    built
}

/// [`build_within`], while no other process imports the data set.
fn build_locked(
    data: &Path,
    request: &LayoutRequest<'_>,
    source: &dyn EdgeSource,
    expected_edges: Option<u64>,
    memory: u64,
    limits: Limits,
    context: Context<'_>,
) -> Result<Grid, GridError> {
    // Whoever had the lock before may have built it.
    if let Some(grid) = open(data, request)? {
        return Ok(grid);
    }
    let paths = GridPaths::new(data, request)?;
    if paths.manifest().exists() {
        let (name, dir) = (request.dataset, paths.dir.display());
        let note = format!("the grid of {name} in {dir} is incomplete or damaged, so it is imported again");
        context.progress.note(&note);
    }
    // Before anything is removed: what lies on a disk that is not mounted is not lost.
    paths.check_devices()?;
    erase(&paths.dir, &paths.folders)?;
    let unfinished = Unfinished(Some(&paths));
    paths.create()?;
    let threads = context.threads.max(1);
    let import = Import {
        request,
        source,
        expected_edges,
        paths: &paths,
        budget: Budget { graph: source.describe(), total: memory, threads, limits },
        context: Context { threads, ..context },
        started: Instant::now(),
    };
    let manifest = import.run()?;
    let json =
        manifest.to_json().map_err(|error| GridError::io("writing", &paths.manifest())(error.into()))?;
    files::replace(&paths.dir, MANIFEST, json.as_bytes())?;
    unfinished.finished();
    open(data, request)?.ok_or_else(|| GridError::Damaged {
        path: paths.manifest(),
        what: "the grid just built cannot be opened, so somebody else changes these files".to_owned(),
    })
}

/// Removes what an import made, unless it ends well.
struct Unfinished<'a>(Option<&'a GridPaths>);

impl Unfinished<'_> {
    fn finished(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(paths) = self.0 {
            // The import failed already, with an error worth more than this one; the rest is for `gc`.
            let _ = erase(&paths.dir, &paths.folders);
        }
    }
}

/// One import.
struct Import<'a> {
    request: &'a LayoutRequest<'a>,
    source: &'a dyn EdgeSource,
    expected_edges: Option<u64>,
    paths: &'a GridPaths,
    budget: Budget,
    context: Context<'a>,
    started: Instant,
}

impl Import<'_> {
    fn run(&self) -> Result<Manifest, GridError> {
        let stage = self.request.dataset;
        let dir = &self.paths.dir;
        let mut survey = survey::survey(self.source, dir, stage, &self.budget, self.context)?;
        let vertices = survey.ids.vertices();
        if vertices > 1 << 32 {
            return Err(GridError::TooManyVertices {
                graph: self.budget.graph.clone(),
                vertices: vertices.into(),
            });
        }
        let GridSpec { columns, source_window, .. } = *self.request.grid;
        let rule = ColumnRule::new(columns, vertices, self.budget.threads, DEFAULT_LLC);
        let buckets = Buckets::new(vertices, rule.count);
        let asked = Order::asked(self.request.grid);
        // Whether all phases fit is known now, before hours of the second.
        let plan = |order| self.plan(&survey, buckets, order);
        let by_degree = match asked {
            Some(order) => order == Order::Degree,
            None => plan(Order::Degree).is_ok(),
        };
        plan(if by_degree { Order::Degree } else { Order::Natural })?;
        let ids_checksum = survey.ids.write(&self.paths.ids())?;
        let even = columns::even(buckets, rule);
        let positions = if by_degree {
            let held = survey.ids.bytes();
            let room = self.budget.room_to_order(vertices, held);
            let sampler = asked.is_none().then(|| Sampler::new(&survey, room));
            let threads = self.budget.order(vertices, held + sampler.map_or(0, Sampler::bytes))?;
            let columns: Vec<_> = even.iter().map(|column| buckets.vertices_of(column)).collect();
            order::positions(&survey, &columns, sampler, stage, Context { threads, ..self.context })?
        } else {
            None
        };
        let order = if positions.is_some() { Order::Degree } else { Order::Natural };
        let scatter = self.plan(&survey, buckets, order)?;
        survey.positions = positions;
        let (order_checksum, renumbering) = self.write_order(survey.positions.as_deref())?;
        let vertex_rule = survey.rule.to_owned();
        let graph = &self.budget.graph;
        let partition = partition::partition(survey, graph, buckets, scatter, dir, stage, self.context)?;
        self.check_count(partition.edges())?;
        let encoding = self.encoding();
        let source_window = source_window.or_else(|| columns::auto_source_window(encoding)).max(1);
        let columns =
            if order == Order::Natural { columns::cut(buckets, &partition.counts, rule) } else { even };
        let encoded = self.encode(vertices, &partition, &columns, source_window, &renumbering)?;
        let Encoded { columns: laid_out, degrees, totals, grid_id, part_bytes, contents_checksum } = encoded;
        let dangling = degrees.iter().filter(|&degree| degree == 0).count() as u64;
        let bytes = degrees.iter().map(u32::to_le_bytes);
        let degrees_checksum = files::write_numbers(&self.paths.degrees(), bytes)?;
        files::sync_folder(dir)?;
        Ok(Manifest {
            format: FORMAT,
            grid_id,
            dataset: self.request.dataset.to_owned(),
            fingerprint: self.request.fingerprint.to_owned(),
            encoding,
            weights: partition.weights,
            source_window,
            ssds: self.request.storage.ssds,
            stripe: self.request.storage.stripe,
            vertices,
            vertex_rule,
            edges: partition.edges(),
            dangling,
            self_loops: totals.self_loops,
            negative_weights: totals.negative_weights,
            dataset_checksum: dataset_checksum(totals.digest, vertices),
            max_abs_weight: partition.max_abs_weight,
            max_in_weight: totals.max_in_weight,
            columns: laid_out,
            part_bytes,
            order,
            order_checksum,
            contents_checksum,
            degrees_checksum,
            ids_checksum,
            import_s: self.started.elapsed().as_millis() as f64 / 1000.0,
            import_max_rss_b: max_rss_bytes(),
            checksum: 0,
        })
    }

    /// How to deal edges out with this order; the error where some phase does not fit the budget.
    fn plan(&self, survey: &Survey<'_>, buckets: Buckets, order: Order) -> Result<ScatterPlan, GridError> {
        let (vertices, ids) = (survey.ids.vertices(), survey.ids.bytes());
        // The positions, and the dense indexes of the positions.
        let order_bytes = if order == Order::Natural { 0 } else { 4 * vertices };
        let scatter =
            self.budget.scatter(buckets.count(), ids + 2 * order_bytes, order_bytes + 4 * vertices)?;
        self.budget.encode(vertices, 1 << buckets.shift, order_bytes, 16)?;
        if order == Order::Degree {
            self.budget.order(vertices, ids)?;
        }
        Ok(scatter)
    }

    fn encoding(&self) -> Encoding {
        self.request.grid.encoding.into()
    }

    /// Writes `order.bin`, where the order is not natural, and returns its checksum.
    fn write_order(&self, positions: Option<&[u32]>) -> Result<(Option<u64>, Renumbering), GridError> {
        let Some(positions) = positions else { return Ok((None, Renumbering::default())) };
        let dense = order::inverse(positions);
        let bytes = dense.iter().map(|index| index.to_le_bytes());
        let checksum = files::write_numbers(&self.paths.order(), bytes)?;
        Ok((Some(checksum), Renumbering::new(dense)))
    }

    fn check_count(&self, found: u64) -> Result<(), GridError> {
        match self.expected_edges {
            Some(expected) if expected != found => {
                Err(GridError::EdgeCount { graph: self.budget.graph.clone(), expected, found })
            }
            _ => Ok(()),
        }
    }

    /// Third phase, with the devices' files synced at its end.
    fn encode(
        &self,
        vertices: u64,
        partition: &Partition,
        columns: &[std::ops::Range<usize>],
        source_window: u64,
        renumbering: &Renumbering,
    ) -> Result<Encoded, GridError> {
        let Partition { buckets, ref spill, packing, ref counts, weights, max_abs_weight } = *partition;
        let edge_bytes = if weights.bytes() == 0 { 8 } else { 16 };
        let lists = spill.list_bytes() + spill.memory() + renumbering.bytes();
        let plan = self.budget.encode(vertices, 1 << buckets.shift, lists, edge_bytes)?;
        let encoding = self.encoding();
        let places = Places::new(encoding, buckets, counts, columns, weights, plan);
        let stripes = Stripes::new(self.request.storage.ssds, self.request.storage.stripe);
        let grid_id = random_number()?;
        let encoder = Encoder {
            spill,
            packing,
            buckets,
            encoding,
            places: &places,
            turns: Turns::new(places.segments()),
            parts: create_parts(&self.paths.parts)?,
            stripes,
            grid_id,
            weights,
            max_abs_weight,
            vertices,
            source_window,
            graph: &self.budget.graph,
            renumbering,
            contents: (create(&self.paths.contents())?, self.paths.contents()),
            degrees: Degrees::new(vertices),
        };
        let totals = encoder.run(self.request.dataset, plan, self.context)?;
        let Encoder { parts, degrees, turns, contents: (contents, path), .. } = encoder;
        let contents_checksum = files::seal_numbers(&contents, &path)?;
        let columns = if encoding == Encoding::Raw { places.columns } else { places.settle(&turns.chunks()) };
        let chunks = columns.last().map_or(0, |column| column.first_chunk + column.chunks);
        let part_bytes: Vec<u64> =
            (0..stripes.devices()).map(|device| stripes.on_device(device, chunks * CHUNK as u64)).collect();
        for ((file, path), &bytes) in parts.iter().zip(&part_bytes) {
            file.set_len(bytes).map_err(GridError::io("writing", path))?;
            file.sync_all().map_err(GridError::io("syncing", path))?;
            path.parent().map_or(Ok(()), files::sync_folder)?;
        }
        Ok(Encoded { columns, degrees, totals, grid_id, part_bytes, contents_checksum })
    }
}

/// What the third phase made.
struct Encoded {
    columns: Vec<Column>,
    degrees: Degrees,
    totals: Totals,
    grid_id: u64,
    part_bytes: Vec<u64>,
    contents_checksum: u64,
}

/// Creates the devices' files.
fn create_parts(paths: &[PathBuf]) -> Result<Vec<(File, PathBuf)>, GridError> {
    paths.iter().map(|path| Ok((create(path)?, path.clone()))).collect()
}

fn create(path: &Path) -> Result<File, GridError> {
    File::create(path).map_err(GridError::io("creating", path))
}

fn random_number() -> Result<u64, GridError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 8];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(GridError::io("reading", path))?;
    Ok(u64::from_le_bytes(bytes))
}
