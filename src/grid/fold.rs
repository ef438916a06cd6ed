//! What an edge loop computes: a fold over the arcs into each vertex. The loops are compiled anew for each kind of fold,
//! so that adding f64 numbers, which is what most runs do, costs no more for being one kind of several.

use std::marker::PhantomData;
use std::ops::Range;

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

/// The sum of what a function makes of each arc's value and weight.
#[derive(Debug)]
pub struct Sum<V, F>(F, PhantomData<fn(V)>);

impl<V: Copy, F: Fn(V, f64) -> f64 + Copy> Sum<V, F> {
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

impl<V: Copy, F: Fn(V, f64) -> f64 + Copy> Fold for Sum<V, F> {
    type Value = V;
    type Term = f64;

    const IDEMPOTENT: bool = false;

    #[inline]
    fn term(self, _source: usize, value: &V, weight: f64) -> f64 {
        (self.0)(*value, weight)
    }

    #[inline]
    fn combine(self, all: f64, term: f64) -> f64 {
        all + term
    }

    #[inline]
    fn touch(value: &V) {
        std::hint::black_box(*value);
    }
}
