//! A queue of block addresses, as in the paper: a pop from an empty queue waits. It closes, so that whatever
//! ends a run (an I/O error, a corrupt chunk, an interrupt, a panic) wakes every waiting thread at once.
//!
//! What is queued is the block itself, moved: the type system keeps an address in at most one place.

use std::collections::VecDeque;

use super::primitives::{Condvar, Mutex, lock, wait};

/// A first-in, first-out queue between threads.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> Queue<T> {
    /// A queue that holds `items`, and room for as many without allocating again.
    pub(crate) fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter().collect();
        Self { state: Mutex::new(State { items, closed: false }), changed: Condvar::new() }
    }

    /// Appends an item. On a closed queue it is dropped: nobody will ask for it.
    pub(crate) fn push(&self, item: T) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.items.push_back(item);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// The oldest item, if there is one.
    pub(crate) fn try_pop(&self) -> Option<T> {
        let mut state = lock(&self.state);
        if state.closed { None } else { state.items.pop_front() }
    }

    /// The oldest item; waits for one. `None` once the queue is closed, also where items are left.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if let Some(item) = state.items.pop_front() {
                return Some(item);
            }
            state = wait(&self.changed, state);
        }
    }

    /// Ends all waiting, now and later. What is left in the queue is dropped with it.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }
}
