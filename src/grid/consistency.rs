//! Whether a manifest agrees with itself. Its checksum shows that it is as somebody wrote it, not that `ioc` did; and
//! whoever reads a grid cuts per-vertex memory at its columns, plans its reads by their chunks and bounds its sums by
//! its weights, without looking again.

use super::chunk::CHUNK;
use super::columns::auto_source_window;
use super::manifest::{Column, Encoding, Manifest, Order, WeightKind};

/// Vertices at most: edges name them by 32 bits.
const MOST_VERTICES: u64 = 1 << 32;
/// A weight as large as the largest, in the units of [`Manifest::max_in_weight`].
const ONE: u128 = 1 << 32;

/// Why it is no manifest that an import writes.
pub(super) fn check(manifest: &Manifest) -> Result<(), &'static str> {
    sizes(manifest)?;
    columns(manifest)?;
    parts(manifest)?;
    counts(manifest)?;
    weights(manifest)?;
    order(manifest)
}

fn sizes(manifest: &Manifest) -> Result<(), &'static str> {
    let Manifest { ssds, stripe, vertices, source_window, encoding, .. } = *manifest;
    held(ssds > 0, "there is no device")?;
    held(stripe > 0 && stripe.is_multiple_of(CHUNK as u64), "the stripe is no multiple of the chunk")?;
    held(vertices <= MOST_VERTICES, "there are too many vertices")?;
    let widest = if encoding == Encoding::Compact { auto_source_window(encoding) } else { MOST_VERTICES };
    held((1..=widest).contains(&source_window), "the source window is not one that the encoding has")
}

/// The columns cover all vertices, chunks and edges, one after the other.
fn columns(manifest: &Manifest) -> Result<(), &'static str> {
    let (mut vertex, mut chunk, mut edges) = (0, 0_u64, 0_u64);
    for column in &manifest.columns {
        held(column.first_vertex == vertex, "the columns' vertices have a gap or overlap")?;
        held(column.end_vertex > vertex, "a column has no vertices")?;
        held(column.first_chunk == chunk, "the columns' chunks have a gap or overlap")?;
        vertex = column.end_vertex;
        chunk = chunk.checked_add(column.chunks).ok_or("the chunks are too many")?;
        edges = edges.checked_add(column.edges).ok_or("the edges are too many")?;
        held(chunks_hold(manifest, column), "a column's chunks cannot hold its edges")?;
    }
    held(vertex == manifest.vertices, "the columns do not cover the vertices")?;
    held(edges == manifest.edges, "the columns' edges are not all edges")
}

/// No chunk is empty, and no raw one holds more than fit.
fn chunks_hold(manifest: &Manifest, column: &Column) -> bool {
    let most = match manifest.encoding {
        Encoding::Raw => column.chunks.saturating_mul(manifest.weights.edges_per_chunk()),
        Encoding::Compact if column.chunks == 0 => 0,
        Encoding::Compact => u64::MAX,
    };
    (column.chunks..=most).contains(&column.edges)
}

/// The devices' files are as long as the chunks dealt to them.
fn parts(manifest: &Manifest) -> Result<(), &'static str> {
    held(manifest.part_bytes.len() == manifest.ssds as usize, "there are not as many files as devices")?;
    let bytes = manifest.chunks().checked_mul(CHUNK as u64).ok_or("the chunks are too many")?;
    let stripes = manifest.stripes();
    let right = |(device, &length)| stripes.on_device(device, bytes) == length;
    held(manifest.part_bytes.iter().enumerate().all(right), "the files are not as long as their chunks")
}

fn counts(manifest: &Manifest) -> Result<(), &'static str> {
    let Manifest { vertices, edges, dangling, self_loops, negative_weights, .. } = *manifest;
    let sources = vertices.checked_sub(dangling).ok_or("there are more dangling vertices than vertices")?;
    held(sources <= edges && (edges == 0 || sources > 0), "the edges do not fit the dangling vertices")?;
    held(self_loops <= edges, "there are more self-loops than edges")?;
    let signed = if manifest.weights == WeightKind::Unit { 0 } else { edges };
    held(negative_weights <= signed, "there are more negative weights than weights")
}

fn weights(manifest: &Manifest) -> Result<(), &'static str> {
    let Manifest { vertices, edges, weights, max_abs_weight, max_in_weight, .. } = *manifest;
    held(max_abs_weight.is_finite() && max_abs_weight >= 0.0, "the largest weight is no weight")?;
    held(
        weights != WeightKind::Unit || max_abs_weight.to_bits() == 1.0_f64.to_bits(),
        "weights are not all 1",
    )?;
    let edges = u128::from(edges);
    let least = match weights {
        // Some vertex has as many as the mean.
        WeightKind::Unit => edges.div_ceil(vertices.max(1).into()) * ONE,
        _ if edges == 0 || max_abs_weight == 0.0 => 0,
        _ => ONE,
    };
    let fits = (least..=edges * ONE).contains(&max_in_weight.into()) && max_in_weight < u64::MAX;
    held(fits, "the largest sum of weights is none that the edges can have")
}

fn order(manifest: &Manifest) -> Result<(), &'static str> {
    let named = manifest.order != Order::Natural;
    held(named == manifest.order_checksum.is_some(), "the order and its file do not agree")
}

fn held(condition: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if condition { Ok(()) } else { Err(otherwise) }
}
