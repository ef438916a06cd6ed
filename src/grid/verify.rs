//! Reads all of a grid and recomputes all that can be recomputed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::dataset::Context;
use crate::progress::Unit;

use super::chunk::CHUNK;
use super::consistency;
use super::contents::Contents;
use super::digest::dataset_checksum;
use super::error::GridError;
use super::manifest::Manifest;
use super::open::Grid;
use super::parallel::on_threads;
use super::reader::EdgeReader;
use super::renumbering::Renumbering;

/// What was read and found right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Edges.
    pub edges: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes on all devices.
    pub bytes: u64,
    /// The data set's checksum, recomputed.
    pub dataset_checksum: u64,
}

/// Sums over columns.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    edges: u64,
    digest: u64,
    self_loops: u64,
    negative_weights: u64,
}

/// Checks every byte of a grid: chunks (header, checksum, ids, every edge's digest, zero padding), edges per
/// column, degrees, ids, and the totals of the manifest. The error names file, device, offset, column and chunk of
/// a first fault. Holds 8 bytes per vertex, and 4 more where the order is not natural.
pub fn verify(grid: &Grid, context: Context<'_>) -> Result<Verified, GridError> {
    let manifest = &grid.manifest;
    check_manifest(grid)?;
    check_ids(grid)?;
    let renumbering = Arc::new(check_order(grid)?);
    let contents: Vec<Contents> = grid.contents()?.collect::<Result<_, _>>()?;
    let degrees: Vec<AtomicU32> = (0..manifest.vertices).map(|_| AtomicU32::new(0)).collect();
    let next = AtomicUsize::new(0);
    context.progress.begin(&format!("{}: verify", manifest.dataset), Some(grid.total_bytes()), Unit::Bytes);
    let columns = manifest.columns.len();
    let sums = on_threads(context.threads.clamp(1, columns.max(1)), context.interrupt, |_, stop| {
        let mut sums = Sums::default();
        loop {
            let column = next.fetch_add(1, Ordering::Relaxed);
            if column >= columns || stop.raised() {
                return Ok(sums);
            }
            let column = column as u32;
            sums = sums.and(verify_column(
                grid,
                column,
                &renumbering,
                (&degrees, &contents),
                &|| stop.raised(),
                context,
            )?);
        }
    });
    context.progress.end();
    let sums = sums?.into_iter().fold(Sums::default(), Sums::and);
    check_degrees(grid, &degrees)?;
    let checksum = dataset_checksum(sums.digest, manifest.vertices);
    expect(grid, "edges", sums.edges, manifest.edges)?;
    expect(grid, "self loops", sums.self_loops, manifest.self_loops)?;
    expect(grid, "negative weights", sums.negative_weights, manifest.negative_weights)?;
    expect(grid, "data set checksum", checksum, manifest.dataset_checksum)?;
    let (chunks, bytes) = (manifest.chunks(), grid.total_bytes());
    Ok(Verified { edges: sums.edges, chunks, bytes, dataset_checksum: checksum })
}

impl Sums {
    fn and(self, other: Self) -> Self {
        Self {
            edges: self.edges + other.edges,
            digest: self.digest.wrapping_add(other.digest),
            self_loops: self.self_loops + other.self_loops,
            negative_weights: self.negative_weights + other.negative_weights,
        }
    }
}

fn verify_column(
    grid: &Grid,
    column: u32,
    renumbering: &Arc<Renumbering>,
    (degrees, contents): (&[AtomicU32], &[Contents]),
    stopped: &dyn Fn() -> bool,
    context: Context<'_>,
) -> Result<Sums, GridError> {
    let mut sums = Sums::default();
    let mut reader = EdgeReader::of_columns(grid, column..column + 1, Arc::clone(renumbering))?;
    while let Some(chunk) = reader.next_verified()? {
        if stopped() {
            return Ok(sums);
        }
        sums.edges += u64::from(chunk.header.edges);
        sums.digest = sums.digest.wrapping_add(chunk.header.digest);
        let mut found = Contents::NONE;
        chunk.for_each(|source, target, weight| {
            let source_id = source as u32;
            found = found.and(Contents { first_source: source_id, last_source: source_id, edges: 1 });
            sums.self_loops += u64::from(source == target);
            sums.negative_weights += u64::from(weight < 0.0);
            degrees[source as usize].fetch_add(1, Ordering::Relaxed);
        });
        check_contents(grid, chunk.header.sequence, contents, found)?;
        context.progress.advance(CHUNK as u64);
    }
    Ok(sums)
}

/// A chunk must hold what it is said to.
fn check_contents(grid: &Grid, chunk: u64, said: &[Contents], found: Contents) -> Result<(), GridError> {
    let said = said[chunk as usize];
    if said == found {
        return Ok(());
    }
    let what = format!("chunk {chunk} holds {found:?}, but it says {said:?}");
    Err(GridError::Damaged { path: grid.paths.contents(), what })
}

/// The manifest must not contradict itself, nor the files it.
fn check_manifest(grid: &Grid) -> Result<(), GridError> {
    consistency::check(&grid.manifest)
        .map_err(|what| GridError::Damaged { path: grid.paths.manifest(), what: what.to_owned() })?;
    for (device, &expected) in grid.manifest.part_bytes.iter().enumerate() {
        let path = &grid.paths.parts[device];
        let found = std::fs::metadata(path).map_err(GridError::io("looking at", path))?.len();
        if found != expected {
            let what = format!("it has {found} bytes, expected {expected}");
            return Err(GridError::Damaged { path: path.clone(), what });
        }
    }
    Ok(())
}

/// Ids must ascend; their checksum is checked by reading them all.
fn check_ids(grid: &Grid) -> Result<(), GridError> {
    let mut last = None;
    for id in grid.ids()? {
        let id = id?;
        if last.is_some_and(|last| last >= id) {
            let what = format!("id {id} does not ascend");
            return Err(GridError::Damaged { path: grid.paths.ids(), what });
        }
        last = Some(id);
    }
    Ok(())
}

/// Every vertex must have one position.
fn check_order(grid: &Grid) -> Result<Renumbering, GridError> {
    let renumbering = grid.renumbering()?;
    if renumbering.is_complete() {
        return Ok(renumbering);
    }
    let what = "it names some vertices twice and others never".to_owned();
    Err(GridError::Damaged { path: grid.paths.order(), what })
}

fn check_degrees(grid: &Grid, counted: &[AtomicU32]) -> Result<(), GridError> {
    let Manifest { dangling, .. } = grid.manifest;
    let stored = grid.degrees()?;
    for (vertex, (stored, counted)) in stored.iter().zip(counted).enumerate() {
        let counted = counted.load(Ordering::Relaxed);
        if *stored != counted {
            let what = format!(
                "vertex {vertex} (by position) has the degree {stored}, but its out-edges are {counted}"
            );
            return Err(GridError::Damaged { path: grid.paths.degrees(), what });
        }
    }
    expect(grid, "dangling vertices", stored.iter().filter(|&&degree| degree == 0).count() as u64, dangling)
}

fn expect(grid: &Grid, name: &str, found: u64, expected: u64) -> Result<(), GridError> {
    if found == expected {
        return Ok(());
    }
    let what = format!("{name}: found {found}, the manifest says {expected}");
    Err(GridError::Damaged { path: grid.paths.manifest(), what })
}
