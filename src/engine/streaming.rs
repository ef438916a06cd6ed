//! How a graph is computed on whose vertex state exceeds the memory. Destinations are taken in *bands* of columns, as
//! many as the memory holds the sums of; and while the edges of a band are read, the values of the sources stream past
//! them, window by window, each window once per band.
//!
//! For that the requests of a band go out in the order of their sources, whatever column they are of. The grid needs
//! nothing for it: inside a column edges lie by source window already (stretch by stretch, as the import's memory
//! allowed: a request ends where one does), and what sources a chunk has is known.

use std::ops::Range;

use super::failure::EngineError;
use super::horizon::Windows;
use super::plan::Plan;
use crate::grid::chunk::CHUNK;
use crate::grid::manifest::{Column, Encoding};
use crate::grid::{Contents, Grid, GridError};
use crate::storage::vertex_store::{Place, WINDOW};
use crate::units::{format_bytes, format_count, plural};

/// What is kept in memory of an algorithm's state while the rest lies on the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateBytes {
    /// A source's value, as it streams past.
    pub source: u64,
    /// A destination's sum.
    pub target: u64,
    /// What each compute thread needs for the vertex pass.
    pub per_thread: u64,
}

/// Windows that are read ahead into memory of their own.
pub(crate) const READ_AHEAD: u64 = 4;

/// Windows in memory at most, whatever there is room for.
const MOST_WINDOWS: u32 = 256;

/// Bytes of a request's entry, on its way into its place.
const ENTRY: u64 = 2 * size_of::<Planned>() as u64;

/// The order of a run's requests, and what its ring must hold.
#[derive(Debug, Clone)]
pub struct Streaming {
    /// Columns of each band.
    pub bands: Vec<Range<usize>>,
    /// Windows of sources in memory at once, a power of two.
    pub ring: u32,
    /// By device, in the order in which they go out.
    pub(super) requests: Vec<Vec<Planned>>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) column: usize,
    pub(crate) range: Range<u64>,
    pub(crate) windows: Windows,
}

/// Where the values of the sources come from, and where they are computed on.
pub trait Sources: Sync {
    /// Where a window lies; `None` where all of its values are zero, and need not be read.
    fn place(&self, window: u32) -> Option<Place>;
    /// Takes the values of a window, in the place of one that is not needed any more; without bytes they are zero.
    fn put(&self, window: u32, bytes: Option<&[u8]>);
}

impl Streaming {
    /// The bands of a run that may keep `memory` bytes of vertex state.
    ///
    /// # Errors
    /// Where that is too little, with figures; where the grid is not readable.
    pub fn new(grid: &Grid, plan: &Plan, state: StateBytes, memory: u64) -> Result<Self, EngineError> {
        let manifest = &grid.manifest;
        if manifest.encoding == Encoding::Compact && !WINDOW.is_multiple_of(manifest.source_window) {
            return Err(EngineError::Plan(format!(
                "vertex state streams by windows of {} sources, which grid.source_window = {} does not divide; use \
                 \"auto\"",
                format_count(WINDOW),
                format_count(manifest.source_window)
            )));
        }
        let chunks = chunks(grid)?;
        let reach = |windows: &Windows| windows.1 - windows.0;
        let least = chunks.iter().map(|chunk| reach(&chunk.windows)).max().unwrap_or(1).next_power_of_two();
        let all = manifest.vertices.div_ceil(WINDOW).max(1).next_power_of_two() as u32;
        // A quarter of the memory, so that most is left to sums; what is beyond some windows for each block helps nobody.
        let ring = (memory / 4 / (WINDOW * state.source)).clamp(1, 1 << 30) as u32;
        let ring = (1 << ring.ilog2()).min(MOST_WINDOWS).max(least).min(all);
        // Two requests at least fit in, so that what goes out need not wait for all that is being computed.
        let mut requests = requests(grid, plan.block, (ring / 2).max(least), chunks);
        let count: u64 = requests.iter().map(|requests| requests.len() as u64).sum();
        let fixed = (u64::from(ring) + READ_AHEAD) * WINDOW * state.source
            + u64::from(plan.compute_threads) * state.per_thread
            + count * ENTRY;
        let columns = &grid.manifest.columns;
        let widest = columns.iter().map(width).max().unwrap_or(0);
        let needed = fixed + widest * state.target;
        if needed > memory {
            return Err(EngineError::Memory(format!(
                "to stream vertex state takes {} of memory ({} for {} of {} sources and what is under way, and {} for the \
                 sums of a column), but engine.memory leaves {}; raise it, make engine.buffer smaller, or grid.columns \
                 larger",
                format_bytes(needed),
                format_bytes(fixed),
                plural(ring as usize, "window"),
                format_count(WINDOW),
                format_bytes(widest * state.target),
                format_bytes(memory),
            )));
        }
        let bands = bands(columns, (memory - fixed) / state.target.max(1));
        let mut band_of = vec![0; columns.len()];
        for (band, columns) in bands.iter().enumerate() {
            band_of[columns.clone()].fill(band);
        }
        for requests in &mut requests {
            requests.sort_by_key(|request| {
                (band_of[request.column], request.windows.0, request.column, request.range.start)
            });
        }
        Ok(Self { bands, ring, requests })
    }

    /// Destinations of the widest band.
    pub fn widest(&self, columns: &[Column]) -> usize {
        let width = |band: &Range<usize>| columns[band.clone()].iter().map(width).sum::<u64>();
        self.bands.iter().map(width).max().unwrap_or(0) as usize
    }

    /// The windows that the requests of a band need, one entry for each request.
    pub(super) fn windows(&self, band: &Range<usize>) -> impl Iterator<Item = Windows> + Clone {
        let requests = self.requests.iter().flatten();
        requests.filter(move |request| band.contains(&request.column)).map(|request| request.windows)
    }
}

fn width(column: &Column) -> u64 {
    column.end_vertex - column.first_vertex
}

/// As few bands of columns as hold `most` destinations each, and of about the same width.
fn bands(columns: &[Column], most: u64) -> Vec<Range<usize>> {
    let cut = |most: u64| {
        let (mut bands, mut start, mut sum) = (Vec::new(), 0, 0);
        for (number, column) in columns.iter().enumerate() {
            if sum + width(column) > most && number > start {
                bands.push(start..number);
                (start, sum) = (number, 0);
            }
            sum += width(column);
        }
        bands.push(start..columns.len());
        bands
    };
    let fewest = cut(most).len();
    let total: u64 = columns.iter().map(width).sum();
    let widest = columns.iter().map(width).max().unwrap_or(0);
    // Even ones, if columns as wide as these can be cut so.
    let even = cut((total.div_ceil(fewest as u64) + widest).min(most));
    if even.len() == fewest { even } else { cut(most) }
}

/// One chunk, as far as it matters here.
struct Chunk {
    column: u32,
    windows: Windows,
}

/// All chunks in the order of their numbers.
fn chunks(grid: &Grid) -> Result<Vec<Chunk>, GridError> {
    let mut chunks = Vec::with_capacity(grid.manifest.chunks() as usize);
    let mut columns = (0..).zip(&grid.manifest.columns).peekable();
    for contents in grid.contents()? {
        let Contents { first_source, last_source, .. } = contents?;
        let number = chunks.len() as u64;
        while columns.next_if(|(_, column)| column.first_chunk + column.chunks <= number).is_some() {}
        let column = columns.peek().map_or(0, |&(column, _)| column);
        let window = |source: u32| (u64::from(source) / WINDOW) as u32;
        chunks.push(Chunk { column, windows: (window(first_source), window(last_source) + 1) });
    }
    Ok(chunks)
}

/// The requests by device, in the order in which they lie there: up to `block` bytes of one column and `most` windows, in
/// which windows only ascend. (A stretch of a column that the import sorted at once begins at the first window again.)
fn requests(grid: &Grid, block: u64, most: u32, chunks: Vec<Chunk>) -> Vec<Vec<Planned>> {
    let stripes = grid.stripes();
    let mut devices = vec![Vec::<Planned>::new(); stripes.devices()];
    // The window in which the last chunk of each device's last request begins.
    let mut begins = vec![0; devices.len()];
    for (number, Chunk { column, windows }) in (0..).zip(chunks) {
        let (device, offset) = stripes.locate(number * CHUNK as u64);
        let ascends = windows.0 >= std::mem::replace(&mut begins[device], windows.0);
        match devices[device].last_mut() {
            Some(last)
                if last.column == column as usize
                    && ascends
                    && offset - last.range.start < block
                    && windows.1 - last.windows.0 <= most =>
            {
                last.range.end = offset + CHUNK as u64;
                last.windows.1 = last.windows.1.max(windows.1);
            }
            _ => {
                let range = offset..offset + CHUNK as u64;
                devices[device].push(Planned { column: column as usize, range, windows });
            }
        }
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(widths: &[u64]) -> Vec<Column> {
        let mut first_vertex = 0;
        let mut next = |&width: &u64| {
            let end_vertex = first_vertex + width;
            Column {
                first_vertex: std::mem::replace(&mut first_vertex, end_vertex),
                end_vertex,
                first_chunk: 0,
                chunks: 0,
                edges: 0,
            }
        };
        widths.iter().map(&mut next).collect()
    }

    #[test]
    fn bands_are_as_few_as_the_memory_allows_and_even() {
        let even = columns(&[10; 10]);
        assert_eq!(bands(&even, 100), vec![0..10]);
        assert_eq!(bands(&even, 99), [0..6, 6..10]);
        assert_eq!(bands(&even, 10).len(), 10);
        let mixed = columns(&[50, 1, 1, 1, 50]);
        assert_eq!(bands(&mixed, 60), [0..4, 4..5]);
        assert_eq!(bands(&columns(&[]), 60), vec![0..0]);
    }
}
