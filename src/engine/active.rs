//! Which sources a pass wants, by granules of some hundred vertices: finer than the sources of a chunk are, coarse
//! enough that asking costs nothing.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// log2 of the vertices of a granule.
pub(crate) const SHIFT: u32 = 10;

/// The sources that the next pass will want, marked by all threads at once.
#[derive(Debug)]
pub struct Marks(Vec<AtomicBool>);

impl Marks {
    /// None of so many vertices.
    pub fn new(vertices: usize) -> Self {
        Self((0..vertices.div_ceil(1 << SHIFT)).map(|_| AtomicBool::new(false)).collect())
    }

    /// Marks a vertex (by position).
    pub fn mark(&self, vertex: usize) {
        self.0[vertex >> SHIFT].store(true, Ordering::Relaxed);
    }

    /// What was marked; nothing is afterwards.
    pub fn take(&mut self) -> Active {
        let mut before = Vec::with_capacity(self.0.len() + 1);
        let mut count = 0;
        before.push(0);
        for mark in &mut self.0 {
            count += u32::from(std::mem::take(mark.get_mut()));
            before.push(count);
        }
        Active { before }
    }
}

/// The sources that a pass wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// Active granules before each, and in all.
    before: Vec<u32>,
}

impl Active {
    /// Whether any of these vertices may be active; those beyond the last are not.
    pub fn any(&self, vertices: Range<usize>) -> bool {
        let last = self.before.len() - 1;
        let first = (vertices.start >> SHIFT).min(last);
        let end = vertices.end.div_ceil(1 << SHIFT).min(last);
        self.before[end.max(first)] > self.before[first]
    }

    /// Whether no vertex is active.
    pub fn is_empty(&self) -> bool {
        self.before.last().is_none_or(|&count| count == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_active_where_one_of_its_granules_is() {
        let granule = 1 << SHIFT;
        let mut marks = Marks::new(5 * granule + 1);
        assert!(marks.take().is_empty());
        marks.mark(2 * granule + 7);
        marks.mark(5 * granule);
        let active = marks.take();
        assert!(!active.is_empty() && !active.any(0..2 * granule) && !active.any(3 * granule..5 * granule));
        for range in [0..2 * granule + 1, 2 * granule..2 * granule + 1, 3 * granule - 1..9 * granule] {
            assert!(active.any(range.clone()), "{range:?}");
        }
        assert!(!active.any(3 * granule..3 * granule) && !active.any(9 * granule..10 * granule));
        assert!(marks.take().is_empty() && Marks::new(0).take().is_empty());
    }
}
