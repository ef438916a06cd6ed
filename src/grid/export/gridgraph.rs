//! GridGraph's binary edge list, as its `preprocess` reads it (<https://github.com/thu-pacman/GridGraph>): little-endian
//! records of source and target as 32-bit integers, and the weight as an f32 where the graph has weights. The file does
//! not say how many vertices there are; whoever reads it is told (`-v`). `ioc` reads the same as `format = "gridgraph"` or
//! `"gridgraph-weighted"`.

use std::path::PathBuf;
use std::sync::Mutex;

use crate::dataset::Edge;
use crate::grid::digest::dataset_checksum;
use crate::grid::error::GridError;
use crate::grid::import::is_weighted;
use crate::grid::parallel::lock;

use super::{Export, Exported, Output, digests};

/// What is known of the records so far.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    digest: u64,
    rounded: u64,
}

pub(super) fn write(export: &Export<'_>) -> Result<(PathBuf, Exported), GridError> {
    // Whether a source has weights may be known only when it has been read. Its first one tells mostly at once, and the
    // export begins again: records with weights never have to.
    let mut weighted = export.edges.weighted().unwrap_or(false);
    loop {
        match write_as(export, weighted)? {
            Some(done) => return Ok(done),
            None => weighted = true,
        }
    }
}

/// Nothing where the edges have weights and the records were to have none.
fn write_as(export: &Export<'_>, weighted: bool) -> Result<Option<(PathBuf, Exported)>, GridError> {
    let path = export.path(if weighted { "edges.wbin" } else { "edges.bin" });
    let state = Mutex::new((Output::create(&path)?, Totals::default(), false));
    let read = export.edges.read(export.stage, 1, |_, dense, edges| {
        let (output, totals, wrong) = &mut *lock(&state);
        if !weighted && edges.iter().any(is_weighted) {
            // Any error ends the read; why it ended is in `wrong`.
            *wrong = true;
            return Err(GridError::Interrupted);
        }
        totals.digest = totals.digest.wrapping_add(digests(dense, edges));
        for (&(source, target), edge) in dense.iter().zip(edges) {
            output.put(source.to_le_bytes());
            output.put(target.to_le_bytes());
            if weighted {
                let weight = single(export, edge)?;
                totals.rounded += u64::from(f64::from(weight).to_bits() != edge.weight.to_bits());
                output.put(weight.to_le_bytes());
            }
        }
        output.flush_full()
    });
    let (output, Totals { digest, rounded }, wrong) =
        state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if wrong {
        return Ok(None);
    }
    let summary = read?;
    export.check_count(summary.edges)?;
    if summary.weighted && !weighted {
        return Ok(None);
    }
    let (path, bytes, xxh3) = output.commit()?;
    let vertices = export.edges.vertices();
    Ok(Some((
        path,
        Exported {
            vertices,
            vertex_rule: export.edges.rule(),
            edges: summary.edges,
            weighted,
            dataset_checksum: dataset_checksum(digest, vertices),
            rounded,
            bytes,
            xxh3,
        },
    )))
}

/// The weight as an f32; an error where it is beyond all of them.
fn single(export: &Export<'_>, edge: &Edge) -> Result<f32, GridError> {
    let weight = edge.weight as f32;
    if weight.is_finite() {
        return Ok(weight);
    }
    let remedy = "scale the weights, or export without them by weights = \"none\" of the data set";
    Err(export.refuse_weight(edge, "gridgraph", "32-bit floats", remedy))
}
