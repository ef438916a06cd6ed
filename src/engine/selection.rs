//! Which requests of a pass go out, where the pass does not want all sources. What each request holds is known from the
//! grid ([`crate::grid::Contents`]); where none of its sources is wanted it is neither read nor, if it stays in memory,
//! computed on. So the number of requests differs from pass to pass, and with it that of tickets, of what remains of a
//! column, and of the edges that must be found there.

use std::ops::Range;

use super::active::Active;
use super::schedule::Geometry;
use crate::grid::chunk::CHUNK;
use crate::grid::{Contents, Grid, GridError};

/// What each request holds: by device, in the order in which its requests go out.
#[derive(Debug)]
pub(crate) struct Index(Vec<Vec<Held>>);

/// What one request holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) column: usize,
    pub(crate) bytes: u64,
    pub(crate) contents: Contents,
}

impl Index {
    #[cfg(test)]
    pub(crate) fn new(devices: Vec<Vec<Held>>) -> Self {
        Self(devices)
    }

    /// Of the requests that the geometry makes of a grid.
    pub(crate) fn of(grid: &Grid, geometry: &Geometry) -> Result<Self, GridError> {
        let mut devices: Vec<Device> =
            (0..grid.stripes().devices()).map(|device| Device::of(geometry.requests_on(device))).collect();
        let mut position = 0;
        for contents in grid.contents()? {
            let (device, offset) = grid.stripes().locate(position);
            devices[device].add(offset, contents?);
            position += CHUNK as u64;
        }
        Ok(Self(devices.into_iter().map(|device| device.requests).collect()))
    }

    /// The requests that hold a wanted source.
    pub(crate) fn select(&self, active: &Active, columns: usize) -> Selection {
        self.choose(columns, |held| {
            let Contents { first_source, last_source, .. } = held.contents;
            active.any(first_source as usize..last_source as usize + 1)
        })
    }

    /// The requests of a band of the columns. The others have their turn in passes of their own, and are not left out.
    pub(crate) fn select_band(&self, band: &Range<usize>, columns: usize) -> Selection {
        Selection { skipped: 0, ..self.choose(columns, |held| band.contains(&held.column)) }
    }

    fn choose(&self, columns: usize, wants: impl Fn(&Held) -> bool) -> Selection {
        let none = || vec![0; columns];
        let mut selection = Selection {
            wanted: Vec::with_capacity(self.0.len()),
            requests: none(),
            edges: none(),
            total: 0,
            skipped: 0,
        };
        for requests in &self.0 {
            let wanted = requests.iter().map(|held| {
                let wanted = wants(held);
                if wanted {
                    selection.requests[held.column] += 1;
                    selection.edges[held.column] += held.contents.edges;
                    selection.total += 1;
                } else {
                    selection.skipped += held.bytes;
                }
                wanted
            });
            selection.wanted.push(wanted.collect());
        }
        selection
    }
}

/// A device's requests while chunks are added to them, in the order in which they lie there.
struct Device {
    requests: Vec<Held>,
    /// Where each request ends, and its number, the last one first.
    ends: Vec<(u64, usize)>,
}

impl Device {
    fn of(requests: impl Iterator<Item = (usize, Range<u64>)>) -> Self {
        let (mut held, mut ends) = (Vec::new(), Vec::new());
        for (number, (column, range)) in requests.enumerate() {
            ends.push((range.end, number));
            let bytes = range.end - range.start;
            held.push(Held { column, bytes, contents: Contents::NONE });
        }
        ends.sort_unstable_by(|one, other| other.cmp(one));
        Self { requests: held, ends }
    }

    fn add(&mut self, offset: u64, contents: Contents) {
        while self.ends.pop_if(|(end, _)| *end <= offset).is_some() {}
        if let Some(&(_, number)) = self.ends.last() {
            let held = &mut self.requests[number];
            held.contents = held.contents.and(contents);
        }
    }
}

/// The requests of one pass.
#[derive(Debug)]
pub(crate) struct Selection {
    /// By device, in order: whether the request goes out.
    wanted: Vec<Vec<bool>>,
    /// Requests of each column, edges in them.
    requests: Vec<u64>,
    edges: Vec<u64>,
    total: u64,
    skipped: u64,
}

impl Selection {
    /// Whether the device's request number `index` goes out.
    pub(crate) fn wants(&self, device: usize, index: u64) -> bool {
        self.wanted[device][index as usize]
    }

    /// Requests of each column.
    pub(crate) fn requests(&self) -> &[u64] {
        &self.requests
    }

    /// Edges that the requests of a column hold.
    pub(crate) fn edges_of(&self, column: usize) -> u64 {
        self.edges[column]
    }

    /// Requests of the pass.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes of the others.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }
}
