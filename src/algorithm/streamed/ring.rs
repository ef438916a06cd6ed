//! The values of the sources that are in memory at the moment. They are written by one thread while others read, never
//! the same ones: the engine hands out a block when its windows are there, and lets none of them be replaced before it is
//! done. Relaxed atomics make that sound for the price of plain loads.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytemuck::Pod;

use crate::grid::{Lookup, Number, RING_WINDOW};
use crate::storage::huge;

/// A number that streams.
pub(super) trait Streamed: Pod {
    /// The same, shared by threads.
    type Shared: Number<Plain = Self> + Send + Sync + 'static;
    /// For several threads.
    fn shared(self) -> Self::Shared;
    /// Replaces a number.
    fn store(self, shared: &Self::Shared);
}

macro_rules! streamed {
    ($plain:ty, $shared:ident, $atomic:ty) => {
        /// A shared number.
        #[derive(Debug)]
        pub(super) struct $shared($atomic);

        impl Number for $shared {
            type Plain = $plain;

            #[inline]
            fn get(&self) -> $plain {
                <$plain>::from_bits(self.0.load(Ordering::Relaxed))
            }
        }

        impl Streamed for $plain {
            type Shared = $shared;

            fn shared(self) -> $shared {
                $shared(<$atomic>::new(self.to_bits()))
            }

            fn store(self, shared: &$shared) {
                shared.0.store(self.to_bits(), Ordering::Relaxed);
            }
        }
    };
}

streamed!(f32, SharedF32, AtomicU32);
streamed!(f64, SharedF64, AtomicU64);

/// A number of windows.
#[derive(Debug)]
pub(super) struct Ring<T: Streamed> {
    values: Vec<T::Shared>,
    windows: Vec<AtomicU32>,
}

impl<T: Streamed> Ring<T> {
    /// A ring of so many windows, a power of two, with nothing in it.
    pub(super) fn new(windows: u32) -> Self {
        let len = windows as usize * RING_WINDOW;
        Self {
            values: huge::collected(len, (0..len).map(|_| T::zeroed().shared())),
            windows: (0..windows).map(|_| AtomicU32::new(u32::MAX)).collect(),
        }
    }

    /// Takes the values of a window; without bytes they are zero.
    pub(super) fn put(&self, window: u32, bytes: Option<&[u8]>) {
        let place = window as usize % self.windows.len();
        let values = &self.values[place * RING_WINDOW..][..RING_WINDOW];
        match bytes {
            Some(bytes) => {
                let new = bytemuck::cast_slice::<u8, T>(bytes);
                values.iter().zip(new).for_each(|(shared, value)| value.store(shared));
            }
            None => values.iter().for_each(|shared| T::zeroed().store(shared)),
        }
        self.windows[place].store(window, Ordering::Relaxed);
    }

    /// For the edge loop.
    pub(super) fn lookup(&self) -> Lookup<'_, T::Shared> {
        Lookup::ring(&self.values, &self.windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_found_until_another_takes_its_place() {
        let ring = Ring::<f32>::new(2);
        for window in 0..3 {
            let values = vec![window as f32 + 0.5; RING_WINDOW];
            ring.put(window, Some(bytemuck::cast_slice(&values)));
        }
        let lookup = ring.lookup();
        lookup.expect(&(RING_WINDOW..3 * RING_WINDOW));
        assert_eq!((lookup[RING_WINDOW].get(), lookup[3 * RING_WINDOW - 1].get()), (1.5, 2.5));
        ring.put(3, None);
        assert_eq!(ring.lookup()[3 * RING_WINDOW + 7].get().to_bits(), 0);
        let gone = std::panic::catch_unwind(|| ring.lookup().expect(&(5..6)));
        assert!(gone.is_err());
    }
}
