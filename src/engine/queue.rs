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
    /// Items for which a waiting thread is woken.
    wake_at: usize,
    items: VecDeque<T>,
    closed: bool,
}

impl<T> State<T> {
    /// Whether a waiting thread has to go on.
    fn ready(&self) -> bool {
        self.closed || self.items.len() >= self.wake_at
    }
}

impl<T> Queue<T> {
    /// A queue that holds `items`, and room for as many without allocating again.
    pub(crate) fn new(items: impl IntoIterator<Item = T>) -> Self {
        Self::waking_at(1, items)
    }

    /// The same, but a pop that has to wait waits until there are `wake_at` items (1 or more), so that a thread
    /// which takes many at a time is not woken for each.
    pub(crate) fn waking_at(wake_at: usize, items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter().collect();
        Self { state: Mutex::new(State { wake_at, items, closed: false }), changed: Condvar::new() }
    }

    /// Appends an item. On a closed queue it is dropped: nobody will ask for it.
    pub(crate) fn push(&self, item: T) {
        let mut state = lock(&self.state);
        if !state.closed {
            state.items.push_back(item);
            let ready = state.ready();
            drop(state);
            if ready {
                self.changed.notify_one();
            }
        }
    }

    /// The oldest item, if there is one.
    pub(crate) fn try_pop(&self) -> Option<T> {
        let mut state = lock(&self.state);
        if state.closed { None } else { state.items.pop_front() }
    }

    /// Whether [`Queue::pop`] would not wait.
    pub(crate) fn ready(&self) -> bool {
        lock(&self.state).ready()
    }

    /// The oldest item; waits for enough. `None` once the queue is closed, also where items are left.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = lock(&self.state);
        loop {
            if state.ready() {
                return if state.closed { None } else { state.items.pop_front() };
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
