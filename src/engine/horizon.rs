//! Which windows of sources are in memory, where not all are: a stretch of `ring` windows that moves on over the graph.
//!
//! Every request needs the windows from the first of its sources to the last. It goes out only when the stretch will come
//! to its last window without moving on (`limit`), so that whoever holds its block waits for the thread that loads
//! windows, and for nobody else. The stretch begins at the first window of the oldest request that is not computed yet;
//! requests go out in the order of their first windows, device by device, and the ring is at least as long as the longest
//! request, so that the oldest one can always go out: nothing waits for ever.

use std::ops::Range;

use super::primitives::{Condvar, Mutex, lock, wait};

/// Windows of sources, from the first to behind the last.
pub(crate) type Windows = (u32, u32);

/// The windows that are there, shared by the threads that load them and those that compute.
#[derive(Debug)]
pub(crate) struct Horizon {
    ring: u32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Requests of the pass that are not computed yet, by their first window.
    unfinished: Vec<u64>,
    /// The first of these windows that has any, and where the last request of the pass ends.
    oldest: u32,
    end: u32,
    /// Windows before this one are there, from `oldest` on.
    loaded: u32,
    closed: bool,
}

impl Horizon {
    /// A stretch of `ring` windows, of a pass that has no requests.
    pub(crate) fn new(ring: u32) -> Self {
        Self { ring, state: Mutex::new(State::default()), changed: Condvar::new() }
    }

    /// Begins a pass with these requests, when all of the pass before are computed. Returns the windows that it needs,
    /// and the limit.
    pub(crate) fn begin(&self, requests: impl Iterator<Item = Windows> + Clone) -> (Range<u32>, u32) {
        let mut state = lock(&self.state);
        let end = requests.clone().map(|(_, end)| end).max().unwrap_or(0);
        let mut unfinished = vec![0; end as usize];
        requests.for_each(|(first, _)| unfinished[first as usize] += 1);
        let oldest = unfinished.iter().position(|&count| count > 0).unwrap_or(0) as u32;
        *state = State { unfinished, oldest, end, loaded: oldest, closed: state.closed };
        (oldest..end, self.limit(&state))
    }

    /// No thread waits any more.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    /// Waits until a window may be loaded; false where it never will be.
    pub(crate) fn wait_for_room(&self, window: u32) -> bool {
        let mut state = lock(&self.state);
        while !state.closed && window < state.end && window >= self.limit(&state) {
            state = wait(&self.changed, state);
        }
        !state.closed && window < state.end
    }

    /// Whether a window may be loaded now.
    pub(crate) fn has_room_for(&self, window: u32) -> bool {
        window < self.limit(&lock(&self.state))
    }

    /// The windows before this one are in the ring now.
    pub(crate) fn loaded(&self, end: u32) {
        lock(&self.state).loaded = end;
        self.changed.notify_all();
    }

    /// Waits until a request's windows are there; false where they will not be, because the run has ended.
    pub(crate) fn wait_for(&self, (_, end): Windows) -> bool {
        let mut state = lock(&self.state);
        while !state.closed && state.loaded < end {
            state = wait(&self.changed, state);
        }
        state.loaded >= end
    }

    /// A request is computed. Returns the limit where it has changed.
    pub(crate) fn done(&self, (first, _): Windows) -> Option<u32> {
        let mut state = lock(&self.state);
        state.unfinished[first as usize] -= 1;
        if first > state.oldest || state.unfinished[first as usize] > 0 {
            return None;
        }
        let later = &state.unfinished[first as usize..];
        let skip = later.iter().position(|&count| count > 0).unwrap_or(later.len());
        state.oldest += skip as u32;
        let limit = self.limit(&state);
        drop(state);
        self.changed.notify_all();
        Some(limit)
    }

    fn limit(&self, state: &State) -> u32 {
        state.oldest.saturating_add(self.ring).min(state.end)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_stretch_moves_on_when_its_oldest_requests_are_done_and_not_before() {
        let horizon = Horizon::new(4);
        let requests = [(2, 4), (2, 5), (3, 7), (6, 9)];
        assert_eq!(horizon.begin(requests.into_iter()), (2..9, 6));
        assert!(horizon.has_room_for(5) && !horizon.has_room_for(6));
        assert_eq!(horizon.done((3, 7)), None);
        assert_eq!(horizon.done((2, 5)), None);
        assert_eq!(horizon.done((2, 4)), Some(9), "what was done out of order counts when its turn comes");
        assert!(horizon.has_room_for(8));
        assert!(!horizon.wait_for_room(9), "the pass needs no more");
        assert_eq!(horizon.done((6, 9)), Some(9));
    }

    #[test]
    fn closing_ends_every_wait() {
        let horizon = Horizon::new(1);
        horizon.begin([(0, 1), (1, 2)].into_iter());
        std::thread::scope(|scope| {
            let loads = scope.spawn(|| horizon.wait_for_room(1));
            let computes = scope.spawn(|| horizon.wait_for((0, 1)));
            horizon.close();
            assert_eq!((loads.join().unwrap(), computes.join().unwrap()), (false, false));
        });
    }

    #[test]
    fn a_pass_without_requests_needs_no_windows() {
        let horizon = Horizon::new(2);
        assert_eq!(horizon.begin(std::iter::empty()), (0..0, 0));
        assert!(!horizon.wait_for_room(0));
    }
}
