//! GAPBS's serialized graph, which its programs load without building anything (`ReadSerializedGraph` in `reader.h` of
//! <https://github.com/sbeamer/gapbs>). Little endian and packed:
//!
//! | bytes | |
//! |---|---|
//! | 1 | 1: directed |
//! | 8 | arcs (of an undirected graph those of both directions) |
//! | 8 | vertices n |
//! | 8 (n + 1) | where each vertex's arcs begin |
//! | 4 or 8 per arc | target (i32), and in a `.wsg` the weight (i32) |
//!
//! and, of a directed graph, the last two again for the arcs into each vertex. GAPBS sorts neighbours when it builds a
//! graph itself, so they are sorted here. It also removes loops and repeated arcs then; here they stay, which its PageRank,
//! BFS, SSSP and CC take as they are, but not its triangle count.
//!
//! The offsets of one direction must fit the memory. Of the arcs as many vertices at a time as fit: where that is not all,
//! the source is read once more for each part.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::dataset::Edge;
use crate::grid::digest::dataset_checksum;
use crate::grid::error::GridError;
use crate::grid::import::is_weighted;

use super::{Export, ExportPath, Exported, Output, digests};

/// Most vertices: ids are signed 32-bit integers.
const MOST_VERTICES: u64 = 1 << 31;
/// Bytes of an offset.
const OFFSET: u64 = 8;

/// Whose arcs a row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
}

impl Direction {
    /// The vertex in whose row an arc is, and the one that stands there.
    fn split(self, (source, target): (u32, u32)) -> (u32, u32) {
        match self {
            Self::Out => (source, target),
            Self::In => (target, source),
        }
    }
}

pub(super) fn write(export: &Export<'_>) -> Result<(PathBuf, Exported), GridError> {
    let vertices = export.edges.vertices();
    if vertices >= MOST_VERTICES {
        return Err(GridError::ExportVertices { graph: export.edges.graph().to_owned(), vertices });
    }
    path(export, export.edges.weighted())?;
    let rows = Rows::new(export)?;
    let Counted { offsets, edges, weighted, digest } = rows.count(Direction::Out)?;
    export.check_count(edges)?;
    let path = path(export, Some(weighted))?;
    let mut output = Output::create(&path)?;
    output.put([u8::from(export.request.directed)]);
    output.put(edges.to_le_bytes());
    output.put(vertices.to_le_bytes());
    rows.write(Direction::Out, &offsets, weighted, &mut output)?;
    // Those of the other direction take their room.
    drop(offsets);
    if export.request.directed {
        let Counted { offsets, edges: again, .. } = rows.count(Direction::In)?;
        rows.check_same(edges, again)?;
        rows.write(Direction::In, &offsets, weighted, &mut output)?;
    }
    let (path, bytes, xxh3) = output.commit()?;
    let exported = Exported {
        vertices,
        vertex_rule: export.edges.rule(),
        edges,
        weighted,
        dataset_checksum: dataset_checksum(digest, vertices),
        rounded: 0,
        bytes,
        xxh3,
    };
    Ok((path, exported))
}

/// The file's path, whose ending GAPBS goes by; whether there are weights may not be known yet.
fn path(export: &Export<'_>, weighted: Option<bool>) -> Result<PathBuf, GridError> {
    let (name, suffix) = match weighted {
        Some(true) => ("graph.wsg", ".wsg, since there are weights"),
        Some(false) => ("graph.sg", ".sg, since there are no weights"),
        None => ("", ".sg, or in .wsg where there are weights"),
    };
    let ends = |path: &Path| match path.extension().and_then(|extension| extension.to_str()) {
        Some("wsg") => weighted != Some(false),
        Some("sg") => weighted != Some(true),
        _ => false,
    };
    match export.to {
        ExportPath::File(path) if !ends(path) => Err(GridError::ExportName { path: path.to_owned(), suffix }),
        _ => Ok(export.path(name)),
    }
}

/// What a first pass finds.
struct Counted {
    /// Where the rows begin; one more than vertices.
    offsets: Vec<AtomicU64>,
    edges: u64,
    weighted: bool,
    digest: u64,
}

/// Rows of one direction, within the memory.
struct Rows<'a> {
    export: &'a Export<'a>,
    /// Bytes for arcs.
    room: u64,
}

impl<'a> Rows<'a> {
    fn new(export: &'a Export<'a>) -> Result<Self, GridError> {
        let edges = export.edges;
        let offsets = OFFSET * (edges.vertices() + 1);
        let room = edges.room(edges.threads());
        if room <= offsets {
            return Err(refuse(export, format!("{offsets} bytes of offsets and room for arcs"), offsets + 1));
        }
        Ok(Self { export, room: room - offsets })
    }

    fn count(&self, direction: Direction) -> Result<Counted, GridError> {
        let edges = self.export.edges;
        let offsets: Vec<AtomicU64> = (0..=edges.vertices()).map(|_| AtomicU64::new(0)).collect();
        let digest = AtomicU64::new(0);
        let stage = format!("{}: count arcs", self.export.stage);
        let summary = edges.read(&stage, edges.threads(), |_, dense, edges| {
            for &arc in dense {
                offsets[direction.split(arc).0 as usize + 1].fetch_add(1, Ordering::Relaxed);
            }
            digest.fetch_add(digests(dense, edges), Ordering::Relaxed);
            edges.iter().filter(|edge| is_weighted(edge)).try_for_each(|edge| self.whole(edge).map(drop))
        })?;
        let mut sum = 0;
        for offset in &offsets {
            sum += offset.load(Ordering::Relaxed);
            offset.store(sum, Ordering::Relaxed);
        }
        Ok(Counted { offsets, edges: summary.edges, weighted: summary.weighted, digest: digest.into_inner() })
    }

    /// Writes the offsets, and the rows in order.
    fn write(
        &self,
        direction: Direction,
        offsets: &[AtomicU64],
        weighted: bool,
        output: &mut Output,
    ) -> Result<(), GridError> {
        for offset in offsets {
            output.put(offset.load(Ordering::Relaxed).to_le_bytes());
            output.flush_full()?;
        }
        let parts = self.parts(offsets, weighted)?;
        for (number, part) in parts.iter().enumerate() {
            let stage = match parts.len() {
                1 => format!("{}: arcs", self.export.stage),
                all => format!("{}: arcs, part {} of {all}", self.export.stage, number + 1),
            };
            if weighted {
                self.part::<AtomicU64>(direction, offsets, part.clone(), &stage, output)?;
            } else {
                self.part::<AtomicU32>(direction, offsets, part.clone(), &stage, output)?;
            }
        }
        Ok(())
    }

    /// Ranges of vertices whose arcs fit the memory.
    fn parts(&self, offsets: &[AtomicU64], weighted: bool) -> Result<Vec<std::ops::Range<usize>>, GridError> {
        let arc = if weighted { 8 } else { 4 };
        let most = self.room / arc;
        let at = |vertex: usize| offsets[vertex].load(Ordering::Relaxed);
        let (mut parts, mut start) = (Vec::new(), 0);
        for vertex in 0..offsets.len() - 1 {
            let row = at(vertex + 1) - at(vertex);
            if row > most {
                let purpose = format!("{row} arcs of one vertex beside the offsets");
                return Err(refuse(self.export, purpose, OFFSET * offsets.len() as u64 + row * arc));
            }
            if at(vertex + 1) - at(start) > most {
                parts.push(start..vertex);
                start = vertex;
            }
        }
        parts.push(start..offsets.len() - 1);
        Ok(parts)
    }

    /// Reads the arcs of a range of rows into memory, and writes them.
    fn part<S: Slot>(
        &self,
        direction: Direction,
        offsets: &[AtomicU64],
        range: std::ops::Range<usize>,
        stage: &str,
        output: &mut Output,
    ) -> Result<(), GridError> {
        let at = |vertex: usize| offsets[vertex].load(Ordering::Relaxed);
        let (base, end) = (at(range.start), at(range.end));
        let slots: Vec<S> = (base..end).map(|_| S::default()).collect();
        let edges = self.export.edges;
        edges.read(stage, edges.threads(), |_, dense, edges| {
            for (&arc, edge) in dense.iter().zip(edges) {
                let (row, other) = direction.split(arc);
                if !range.contains(&(row as usize)) {
                    continue;
                }
                // The offset moves to the end of the row, which is where the next one begins.
                let place = offsets[row as usize].fetch_add(1, Ordering::Relaxed);
                match slots.get((place - base) as usize) {
                    Some(slot) => slot.set(other, self.whole(edge)?),
                    None => self.check_same(end - base, place - base + 1)?,
                }
            }
            Ok(())
        })?;
        let mut slots: Vec<S::Arc> = slots.into_iter().map(S::into_arc).collect();
        let mut start = 0;
        for vertex in range {
            // Where a source gives other edges than before, rows overlap: their ends then show it.
            let end = (at(vertex) - base) as usize;
            let row = slots.get_mut(start..end).ok_or_else(|| self.changed(start as u64, end as u64))?;
            row.sort_unstable();
            start = end;
        }
        self.check_same(slots.len() as u64, start as u64)?;
        for arc in slots {
            S::put(arc, output);
            output.flush_full()?;
        }
        Ok(())
    }

    /// The weight as a whole number; an error where it is none, or too large.
    fn whole(&self, edge: &Edge) -> Result<i32, GridError> {
        let whole = edge.weight as i32;
        if f64::from(whole).to_bits() == edge.weight.to_bits() {
            return Ok(whole);
        }
        let remedy = "export without weights by weights = \"none\" of the data set, or as gridgraph";
        Err(self.export.refuse_weight(edge, "gapbs", "whole numbers of 32 bits", remedy))
    }

    fn check_same(&self, first: u64, second: u64) -> Result<(), GridError> {
        if first == second { Ok(()) } else { Err(self.changed(first, second)) }
    }

    fn changed(&self, first: u64, second: u64) -> GridError {
        GridError::Changed { graph: self.export.edges.graph().to_owned(), first, second }
    }
}

/// An arc that threads write and nobody reads before all are done.
trait Slot: Default + Send + Sync {
    /// Sorted by target, then weight. As large as the slot and aligned alike, so that arcs take its place.
    type Arc: Ord;
    fn set(&self, target: u32, weight: i32);
    fn into_arc(self) -> Self::Arc;
    fn put(arc: Self::Arc, output: &mut Output);
}

/// Without weight.
impl Slot for AtomicU32 {
    type Arc = u32;

    fn set(&self, target: u32, _weight: i32) {
        self.store(target, Ordering::Relaxed);
    }

    fn into_arc(self) -> u32 {
        self.into_inner()
    }

    fn put(arc: u32, output: &mut Output) {
        output.put(arc.to_le_bytes());
    }
}

/// The target above the weight, whose sign is flipped, so that numbers are in the order of pairs.
impl Slot for AtomicU64 {
    type Arc = u64;

    fn set(&self, target: u32, weight: i32) {
        let weight = weight.cast_unsigned() ^ SIGN;
        self.store(u64::from(target) << 32 | u64::from(weight), Ordering::Relaxed);
    }

    fn into_arc(self) -> u64 {
        self.into_inner()
    }

    fn put(arc: u64, output: &mut Output) {
        output.put(((arc >> 32) as u32).to_le_bytes());
        output.put((arc as u32 ^ SIGN).to_le_bytes());
    }
}

const SIGN: u32 = 1 << 31;

fn refuse(export: &Export<'_>, purpose: String, beside: u64) -> GridError {
    let budget = export.request.memory;
    let room = export.edges.room(export.edges.threads());
    let needed = beside.saturating_add(budget.saturating_sub(room));
    GridError::ExportMemory { graph: export.edges.graph().to_owned(), purpose, needed, budget }
}
