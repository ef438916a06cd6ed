//! What an edge loop computes: a fold over the arcs into each vertex. The loops are compiled anew for each kind of fold,
//! so that adding f64 numbers, which is what most runs do, costs no more for being one kind of several.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// A fold over the arcs into a vertex. Terms of a piece are combined in the order that suits the machine, so
/// [`Fold::combine`] must not depend on order or grouping (sums are exact: see [`crate::algorithm::exact`]).
pub trait Fold: Copy {
    /// What is kept of each source.
    type Value;
    /// What is folded.
    type Term: Copy;

    /// Whether a term that changes nothing may be told by that: then it need not be written.
    const IDEMPOTENT: bool;

    /// The term of an arc from the vertex at position `source`, of which `value` is kept.
    fn term(self, source: usize, value: &Self::Value, weight: f64) -> Self::Term;

    /// Two terms in one; `all` is what was folded before, where there is a difference.
    fn combine(self, all: Self::Term, term: Self::Term) -> Self::Term;

    /// Reads a value, for nothing but to have it in the near cache.
    fn touch(value: &Self::Value);

    /// Whether any arc from these positions has a term that may change something.
    fn wants(self, sources: Range<usize>) -> bool {
        let _ = sources;
        true
    }
}

/// A number that is kept of a source, plain or shared with a thread that may replace it.
pub trait Number {
    /// The number.
    type Plain: Copy;
    /// What it is now.
    fn get(&self) -> Self::Plain;
}

impl Number for f32 {
    type Plain = Self;

    #[inline]
    fn get(&self) -> Self {
        *self
    }
}

impl Number for f64 {
    type Plain = Self;

    #[inline]
    fn get(&self) -> Self {
        *self
    }
}

/// The sum of what a function makes of each arc's value and weight.
#[derive(Debug)]
pub struct Sum<V, F>(F, PhantomData<fn(V)>);

impl<V: Number, F: Fn(V::Plain, f64) -> f64 + Copy> Sum<V, F> {
    /// The sum of `term(value, weight)`.
    pub fn of(term: F) -> Self {
        Self(term, PhantomData)
    }
}

// Derived, they would ask for `V: Copy` only where there is no `V`.
impl<V, F: Copy> Clone for Sum<V, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, F: Copy> Copy for Sum<V, F> {}

impl<V: Number, F: Fn(V::Plain, f64) -> f64 + Copy> Fold for Sum<V, F> {
    type Value = V;
    type Term = f64;

    const IDEMPOTENT: bool = false;

    #[inline]
    fn term(self, _source: usize, value: &V, weight: f64) -> f64 {
        (self.0)(value.get(), weight)
    }

    #[inline]
    fn combine(self, all: f64, term: f64) -> f64 {
        all + term
    }

    #[inline]
    fn touch(value: &V) {
        std::hint::black_box(value.get());
    }
}

/// What the edge loop looks sources up in: the values of all of them, or a ring, through which those of the whole graph
/// pass, window by window: there source `s` is at `s` modulo its length.
#[derive(Debug)]
pub struct Lookup<'a, V> {
    values: &'a [V],
    /// Taken of a source before its value is looked up; all bits where the values are all there.
    mask: usize,
    /// The window in each part of the ring.
    windows: Option<&'a [AtomicU32]>,
}

/// Sources of a window of a ring.
pub const RING_WINDOW: usize = 1 << 16;

// Derived, they would ask for `V: Copy`.
impl<V> Clone for Lookup<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Lookup<'_, V> {}

impl<'a, V> Lookup<'a, V> {
    /// The values of all sources.
    pub fn all(values: &'a [V]) -> Self {
        Self { values, mask: usize::MAX, windows: None }
    }

    /// A ring of as many [windows](RING_WINDOW) as `windows` has the numbers of.
    ///
    /// # Panics
    /// Where their number is no power of two, or not that of the values.
    pub fn ring(values: &'a [V], windows: &'a [AtomicU32]) -> Self {
        assert!(
            values.len().is_power_of_two() && values.len() == windows.len() * RING_WINDOW,
            "{}",
            values.len()
        );
        Self { values, mask: values.len() - 1, windows: Some(windows) }
    }

    /// Whether not all values are there.
    pub fn is_ring(self) -> bool {
        self.windows.is_some()
    }

    /// The place of the first of these sources' values, and the slice in which those of all of them follow.
    ///
    /// # Panics
    /// Where they do not, or are not there: the engine gives out no block before.
    #[inline]
    pub(super) fn stretch(self, sources: Range<usize>) -> (usize, &'a [V]) {
        self.expect(&sources);
        let place = sources.start & self.mask;
        assert!(
            sources.is_empty() || sources.len() <= self.values.len().saturating_sub(place),
            "the sources {sources:?} among {} values",
            self.values.len()
        );
        (place, self.values)
    }

    /// Makes sure that a ring has the values of these sources now.
    ///
    /// # Panics
    /// Where it does not.
    #[inline]
    pub fn expect(self, sources: &Range<usize>) {
        let Some(windows) = self.windows else { return };
        for window in sources.start / RING_WINDOW..sources.end.div_ceil(RING_WINDOW) {
            let found = windows[window % windows.len()].load(Ordering::Relaxed) as usize;
            assert!(found == window, "window {found} of the sources is where {window} should be");
        }
    }

    /// Up to `count` values from that of a source on.
    pub(super) fn around(self, source: usize, count: usize) -> &'a [V] {
        let start = (source & self.mask).min(self.values.len());
        &self.values[start..(start + count).min(self.values.len())]
    }
}

impl<V> std::ops::Index<usize> for Lookup<'_, V> {
    type Output = V;

    #[inline]
    fn index(&self, source: usize) -> &V {
        &self.values[source & self.mask]
    }
}
