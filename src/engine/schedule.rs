//! The order in which the requests of a run go out: one sequence per device, in which the columns of a group
//! take turns, so that as many columns are in flight as threads want to own one; and over the devices always
//! the one that is furthest behind.
//!
//! Reading runs on across the end of a pass, but by one pass at most, and only when every request of the
//! running pass has got its buffer: otherwise blocks of the next pass, which nobody may take yet, could fill
//! the buffer while the running pass starves. Where passes select what they read, it stops at the end of each.

use std::ops::Range;
use std::sync::Arc;

use super::horizon::Windows;
use super::plan::Plan;
use super::primitives::{Condvar, Mutex, MutexGuard, lock, wait};
use super::selection::Selection;
use super::streaming::{Planned, Streaming};
use crate::grid::Grid;

/// One read, without its buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// The pass it belongs to, from 0.
    pub(crate) pass: u64,
    /// Column of its edges.
    pub(crate) column: usize,
    /// Device and byte range of its file.
    pub(crate) device: usize,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: usize,
    /// Its place among the blocks that stay in memory, if it is one of them.
    pub(crate) pin: Option<usize>,
    /// The windows of its sources, where these are streamed; none otherwise.
    pub(crate) windows: Windows,
}

/// Where the columns lie: `extents[column][device]` is a byte range of the device's file.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    extents: Vec<Vec<Range<u64>>>,
    /// The requests of each device one by one, where their order is not that of the columns.
    planned: Option<Vec<Vec<Planned>>>,
    block: u64,
    interleave: usize,
    /// Per device: requests of a pass, how many of them are pinned, and the place of the first of these.
    devices: Vec<Device>,
}

#[derive(Debug, Clone, Copy)]
struct Device {
    requests: u64,
    pinned: u64,
    first_pin: u64,
}

impl Device {
    /// The place of the device's request number `index` among the pinned ones: they are spread evenly.
    fn pin(&self, index: u64) -> Option<usize> {
        let before =
            |index: u64| (u128::from(index) * u128::from(self.pinned) / u128::from(self.requests)) as u64;
        (before(index + 1) > before(index)).then(|| (self.first_pin + before(index)) as usize)
    }
}

impl Geometry {
    /// Requests of `block` bytes, `interleave` columns in turn; both are at least 1. `pins` of the requests, or all
    /// where there are fewer, are of blocks that stay in memory; each device has its share of them.
    pub(crate) fn new(extents: Vec<Vec<Range<u64>>>, block: u64, interleave: usize, pins: u64) -> Self {
        let blocks = |extent: &Range<u64>| (extent.end - extent.start).div_ceil(block);
        let count = extents.first().map_or(0, Vec::len);
        let requests = |device: usize| extents.iter().map(|column| blocks(&column[device])).sum::<u64>();
        let total: u64 = (0..count).map(requests).sum();
        let pins = pins.min(total);
        let (mut devices, mut before, mut first_pin) = (Vec::with_capacity(count), 0, 0);
        for device in 0..count {
            let requests = requests(device);
            before += requests;
            // The pins up to and with this device, in proportion to the requests.
            let end = (u128::from(before) * u128::from(pins) / u128::from(total.max(1))) as u64;
            devices.push(Device { requests, pinned: (end - first_pin).min(requests), first_pin });
            first_pin = end;
        }
        Self { extents, planned: None, block, interleave: interleave.max(1), devices }
    }

    /// That of a run whose sources are streamed; no block stays in memory.
    pub(crate) fn streaming(grid: &Grid, plan: &Plan, streaming: &Streaming) -> Self {
        let planned = streaming.requests.clone();
        let count =
            |requests: &Vec<Planned>| Device { requests: requests.len() as u64, pinned: 0, first_pin: 0 };
        let devices = planned.iter().map(count).collect();
        Self { planned: Some(planned), devices, ..Self::of(grid, plan) }
    }

    /// That of a run with this plan over a grid.
    pub(crate) fn of(grid: &Grid, plan: &Plan) -> Self {
        let stripes = grid.stripes();
        let on_devices = |column: u32| {
            let bytes = grid.column_bytes(column);
            (0..stripes.devices()).map(|device| stripes.extent(device, bytes.clone())).collect()
        };
        let extents = (0..grid.manifest.columns.len() as u32).map(on_devices).collect();
        Self::new(extents, plan.block, plan.interleave as usize, plan.pins)
    }

    /// Requests in an order of the test's making, by device.
    #[cfg(all(test, loom))]
    pub(crate) fn planned(columns: usize, planned: Vec<Vec<Planned>>) -> Self {
        let count =
            |requests: &Vec<Planned>| Device { requests: requests.len() as u64, pinned: 0, first_pin: 0 };
        let devices: Vec<_> = planned.iter().map(count).collect();
        let extents = vec![vec![0..0; devices.len()]; columns];
        Self { extents, planned: Some(planned), block: 1, interleave: 1, devices }
    }

    /// Blocks that stay in memory.
    pub(crate) fn pins(&self) -> usize {
        self.devices.iter().map(|device| device.pinned as usize).sum()
    }

    /// Requests that a column takes.
    pub(crate) fn requests_of(&self, column: usize) -> u64 {
        if let Some(planned) = &self.planned {
            return planned.iter().flatten().filter(|request| request.column == column).count() as u64;
        }
        self.extents[column].iter().map(|extent| self.blocks(extent)).sum()
    }

    /// Requests that each column takes.
    pub(crate) fn requests_by_column(&self) -> Vec<u64> {
        (0..self.columns()).map(|column| self.requests_of(column)).collect()
    }

    /// A device's requests in the order in which they go out: column and range of the device's file.
    pub(crate) fn requests_on(&self, device: usize) -> impl Iterator<Item = (usize, Range<u64>)> {
        let mut cursor = Cursor::default();
        std::iter::from_fn(move || {
            let next = self.next(device, &mut cursor);
            cursor.issued += 1;
            next
        })
    }

    /// Requests of a whole pass.
    pub(crate) fn requests(&self) -> u64 {
        self.devices.iter().map(|device| device.requests).sum()
    }

    /// The windows that the device's request number `index` needs; none where sources are not streamed.
    fn windows(&self, device: usize, index: u64) -> Windows {
        let planned = self.planned.as_ref().and_then(|planned| planned[device].get(index as usize));
        planned.map_or((0, 0), |request| request.windows)
    }

    /// Columns.
    pub(crate) fn columns(&self) -> usize {
        self.extents.len()
    }

    fn blocks(&self, extent: &Range<u64>) -> u64 {
        (extent.end - extent.start).div_ceil(self.block)
    }

    /// The request at a cursor, and moves the cursor behind it; `None` at the end of the pass.
    fn next(&self, device: usize, cursor: &mut Cursor) -> Option<(usize, Range<u64>)> {
        if let Some(planned) = &self.planned {
            let request = planned[device].get(cursor.issued as usize)?;
            return Some((request.column, request.range.clone()));
        }
        loop {
            let group = cursor.group * self.interleave;
            let columns = self.extents.get(group..)?;
            let columns = &columns[..columns.len().min(self.interleave)];
            if columns.is_empty() {
                return None;
            }
            while cursor.member < columns.len() {
                let member = cursor.member;
                cursor.member += 1;
                let extent = &columns[member][device];
                if cursor.round < self.blocks(extent) {
                    let start = extent.start + cursor.round * self.block;
                    cursor.in_round += 1;
                    return Some((group + member, start..(start + self.block).min(extent.end)));
                }
            }
            *cursor = if cursor.in_round == 0 {
                Cursor { group: cursor.group + 1, issued: cursor.issued, ..Cursor::default() }
            } else {
                Cursor { round: cursor.round + 1, member: 0, in_round: 0, ..*cursor }
            };
        }
    }
}

/// A device's place in the pass: the `round`-th block of the `member`-th column of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    group: usize,
    round: u64,
    member: usize,
    in_round: u64,
    issued: u64,
    done: bool,
}

/// What [`Schedule::take`] has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read this.
    Request(Request),
    /// Nothing for these devices at this moment. [`Schedule::wait`] with the number waits until that may change.
    Later(u64),
    /// The same, because sources that the next requests need are not on their way yet.
    Behind(u64),
    /// All requests of the run are out, or the run has ended.
    Finished,
}

/// The requests of a run, shared by the threads that read.
#[derive(Debug)]
pub(crate) struct Schedule {
    geometry: Geometry,
    per_pass: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    cursors: Vec<Cursor>,
    /// The pass whose requests go out, and how many of them are still to go.
    pass: u64,
    left: u64,
    /// The requests of the pass, where they are not all.
    selection: Option<Arc<Selection>>,
    /// Passes that may be read now, of `limit` at most.
    open: u64,
    limit: u64,
    /// Requests go out that need no window from this one on.
    horizon: u32,
    /// Counts the events that may turn a `Later` into something else.
    version: u64,
    closed: bool,
}

impl Schedule {
    /// A schedule of at most `limit` passes. Nothing goes out before [`Schedule::open`].
    pub(crate) fn new(geometry: Geometry, limit: u64) -> Self {
        let cursors = vec![Cursor::default(); geometry.devices.len()];
        let per_pass = geometry.requests();
        let state = State {
            cursors,
            pass: 0,
            left: per_pass,
            selection: None,
            open: 0,
            limit,
            horizon: 0,
            version: 0,
            closed: false,
        };
        Self { geometry, per_pass, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Where the columns lie.
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Requests of one pass.
    pub(crate) fn requests_per_pass(&self) -> u64 {
        self.per_pass
    }

    /// Lets the first `passes` passes be read.
    pub(crate) fn open(&self, passes: u64) {
        let mut state = lock(&self.state);
        state.open = passes.min(state.limit);
        self.announce(state);
    }

    /// Lets pass number `pass` be read, but only what is selected. All requests of the passes before are out, and the
    /// next pass is opened likewise.
    pub(crate) fn open_selected(&self, pass: u64, selection: Arc<Selection>) {
        let mut state = lock(&self.state);
        state.open = (pass + 1).min(state.limit);
        state.pass = pass;
        state.left = selection.total();
        state.selection = Some(selection);
        state.horizon = 0;
        state.cursors.fill(Cursor::default());
        self.announce(state);
    }

    /// Lets requests go out that need no window from `horizon` on. Threads say this in any order, and the highest counts.
    pub(crate) fn raise_horizon(&self, horizon: u32) {
        let mut state = lock(&self.state);
        if horizon > state.horizon {
            state.horizon = horizon;
            self.announce(state);
        }
    }

    /// No further requests, for any thread.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        self.announce(state);
    }

    /// The oldest request that is not yet out, among the devices of which `room` says that they take one.
    pub(crate) fn take(&self, room: &dyn Fn(usize) -> bool) -> Next {
        let mut state = lock(&self.state);
        if let Some(verdict) = self.closed_or_closed_off(&mut state) {
            return verdict;
        }
        let State { cursors, selection, horizon, .. } = &mut *state;
        loop {
            let mut behind = false;
            let mut may = |device: usize| {
                let Cursor { issued, done, .. } = cursors[device];
                if done || !room(device) {
                    return false;
                }
                let wanted = || selection.as_ref().is_none_or(|selection| selection.wants(device, issued));
                let waits = self.geometry.windows(device, issued).1 > *horizon && wanted();
                behind |= waits;
                !waits
            };
            let furthest_behind =
                (0..cursors.len()).filter(|&device| may(device)).min_by_key(|&device| cursors[device].issued);
            let Some(device) = furthest_behind else {
                return if behind { Next::Behind(state.version) } else { Next::Later(state.version) };
            };
            let cursor = &mut cursors[device];
            let Some((column, range)) = self.geometry.next(device, cursor) else {
                cursor.done = true;
                continue;
            };
            let index = cursor.issued;
            cursor.issued += 1;
            if selection.as_ref().is_some_and(|selection| !selection.wants(device, index)) {
                continue;
            }
            // By its place among all requests, whatever is selected: what stays in memory is the same in every pass.
            let pin = self.geometry.devices[device].pin(index);
            let len = (range.end - range.start) as usize;
            let windows = self.geometry.windows(device, index);
            let request =
                Request { pass: state.pass, column, device, offset: range.start, len, pin, windows };
            state.left -= 1;
            if state.left == 0 {
                self.announce(state);
            }
            return Next::Request(request);
        }
    }

    /// Waits until something has happened since [`Next::Later`] gave its number.
    pub(crate) fn wait(&self, version: u64) {
        let mut state = lock(&self.state);
        while state.version == version {
            state = wait(&self.changed, state);
        }
    }

    /// Moves on to the next pass where the last one is out; says why nothing can go out at all.
    fn closed_or_closed_off(&self, state: &mut State) -> Option<Next> {
        if state.closed || self.per_pass == 0 {
            return Some(Next::Finished);
        }
        if state.left == 0 {
            if state.pass + 1 >= state.limit {
                return Some(Next::Finished);
            }
            if state.pass + 1 < state.open {
                state.pass += 1;
                state.left = self.per_pass;
                state.cursors.fill(Cursor::default());
            }
        }
        (state.left == 0 || state.pass >= state.open).then_some(Next::Later(state.version))
    }

    fn announce(&self, mut state: MutexGuard<'_, State>) {
        state.version += 1;
        drop(state);
        self.changed.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::active::{Marks, SHIFT};
    use super::super::selection::{Held, Index};
    use super::*;
    use crate::grid::Contents;

    fn drain(schedule: &Schedule, room: &dyn Fn(usize) -> bool) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Next::Request(request) = schedule.take(room) {
            requests.push(request);
        }
        requests
    }

    fn two_devices() -> Geometry {
        pinning(0)
    }

    fn pinning(pins: u64) -> Geometry {
        Geometry::new(vec![vec![0..100, 0..90], vec![100..250, 90..90], vec![250..260, 90..200]], 40, 2, pins)
    }

    #[test]
    fn pins_are_as_many_as_asked_for_each_once_and_shared_by_the_devices() {
        for pins in 0..16 {
            let schedule = Schedule::new(pinning(pins), 1);
            schedule.open(1);
            let requests = drain(&schedule, &|_| true);
            let mut places: Vec<_> = requests.iter().filter_map(|request| request.pin).collect();
            places.sort_unstable();
            assert_eq!(places, (0..pins.min(14) as usize).collect::<Vec<_>>());
            assert_eq!(schedule.geometry().pins(), places.len());
            let on_second = requests.iter().filter(|r| r.device == 1 && r.pin.is_some()).count() as u64;
            assert!(on_second.abs_diff(pins.min(14) * 6 / 14) <= 1);
        }
    }

    #[test]
    fn a_pass_covers_every_byte_once() {
        let schedule = Schedule::new(two_devices(), 1);
        schedule.open(1);
        let requests = drain(&schedule, &|_| true);
        assert_eq!(requests.len() as u64, schedule.requests_per_pass());
        for (column, extents) in two_devices().extents.iter().enumerate() {
            for (device, extent) in extents.iter().enumerate() {
                let mut at = extent.start;
                for r in requests.iter().filter(|r| r.column == column && r.device == device) {
                    assert_eq!(r.offset, at);
                    at += r.len as u64;
                }
                assert_eq!(at, extent.end);
            }
        }
        assert_eq!(schedule.take(&|_| true), Next::Finished);
    }

    #[test]
    fn columns_of_a_group_take_turns() {
        let schedule = Schedule::new(two_devices(), 1);
        schedule.open(1);
        let columns: Vec<_> = drain(&schedule, &|device| device == 0).iter().map(|r| r.column).collect();
        assert_eq!(columns, [0, 1, 0, 1, 0, 1, 1, 2]);
    }

    #[test]
    fn the_next_pass_waits_until_all_devices_have_issued_this_one_and_it_is_open() {
        let schedule = Schedule::new(two_devices(), 3);
        schedule.open(1);
        let first = drain(&schedule, &|device| device == 0);
        assert!(matches!(schedule.take(&|device| device == 0), Next::Later(_)));
        schedule.open(2);
        assert!(matches!(schedule.take(&|device| device == 0), Next::Later(_)), "device 1 is behind");
        let second = drain(&schedule, &|device| device == 1);
        assert!(second[second.len() - 1].pass == 1, "device 1 runs on into the open pass");
        assert!(first.iter().all(|r| r.pass == 0));
        assert!(drain(&schedule, &|_| true).iter().all(|r| r.pass == 1));
        assert!(matches!(schedule.take(&|_| true), Next::Later(_)), "pass 2 is not open");
        schedule.close();
        assert_eq!(schedule.take(&|_| true), Next::Finished);
    }

    /// A granule of sources per request: first those of device 0 in the order in which they go out, then those of device
    /// 1.
    fn index(geometry: &Geometry) -> Index {
        let mut granule = 0;
        let mut of = |device: usize| -> Vec<Held> {
            let held = geometry.requests_on(device).map(|(column, range)| {
                let contents = Contents { first_source: granule, last_source: granule + 9, edges: 7 };
                granule += 1 << SHIFT;
                Held { column, bytes: range.end - range.start, contents }
            });
            held.collect()
        };
        Index::new(vec![of(0), of(1)])
    }

    #[test]
    fn a_pass_that_selects_gets_the_blocks_it_wants_with_the_pins_they_always_have() {
        let geometry = pinning(6);
        let index = index(&geometry);
        let schedule = Schedule::new(geometry, 9);
        schedule.open(1);
        let mut all = drain(&schedule, &|_| true);
        // In the order of the granules.
        all.sort_by_key(|request| request.device);
        let place = |r: &Request| all.iter().position(|o| (o.device, o.offset) == (r.device, r.offset));
        let mut marks = Marks::new(14 << SHIFT);
        for (pass, wanted) in (1..).zip([&[0_usize, 5, 13][..], &[], &[1, 2, 3, 4, 12], &[13]]) {
            for granule in wanted {
                marks.mark(granule << SHIFT);
            }
            let selection = Arc::new(index.select(&marks.take(), 3));
            let expected: Vec<Request> = wanted.iter().map(|&at| Request { pass, ..all[at] }).collect();
            assert_eq!(selection.total(), expected.len() as u64);
            let of = |column: usize| expected.iter().filter(|r| r.column == column).count() as u64;
            assert_eq!(selection.requests(), [of(0), of(1), of(2)]);
            assert_eq!(selection.edges_of(1), 7 * of(1));
            let bytes = |requests: &[Request]| requests.iter().map(|r| r.len as u64).sum::<u64>();
            assert_eq!(selection.skipped(), bytes(&all) - bytes(&expected));
            assert!(matches!(schedule.take(&|_| true), Next::Later(_)), "pass {pass} is not open");
            schedule.open_selected(pass, selection);
            let mut requests = drain(&schedule, &|_| true);
            requests.sort_by_key(place);
            assert_eq!(requests, expected);
        }
    }

    #[test]
    fn an_empty_grid_has_no_requests() {
        assert_eq!(
            Schedule::new(Geometry::new(vec![vec![0..0]], 8, 1, 3), 5).take(&|_| true),
            Next::Finished
        );
        assert_eq!(Schedule::new(Geometry::new(vec![], 8, 1, 3), 5).take(&|_| true), Next::Finished);
    }
}
