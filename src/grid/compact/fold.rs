//! The inner loops: one per shape, unrolled for its length, with one update per piece. The order in which the terms
//! of a piece are combined is that of the machine (four terms side by side), as a [`Fold`] allows.

use super::{Cell, Cells, Section, Shape, Steps, WINDOW, Weights};
use crate::grid::fold::{Fold, Lookup};

/// A weight as stored; `()` is 1.
trait Weight: Copy {
    fn value(self) -> f64;
}

impl Weight for () {
    fn value(self) -> f64 {
        1.0
    }
}

impl Weight for f32 {
    fn value(self) -> f64 {
        self.into()
    }
}

impl Weight for f64 {
    fn value(self) -> f64 {
        self
    }
}

/// The window whose values were last brought to the near cache.
#[derive(Debug, Default)]
pub struct Near(Option<u32>);

impl Near {
    /// Reads a window's values from end to end, unless it was the last one: at the speed of the memory, where the edges
    /// would wait for one after the other. Not for a few edges.
    #[inline]
    fn fetch<F: Fold>(&mut self, values: Lookup<'_, F::Value>, base: u32, edges: u32) {
        const LINE: usize = 64;
        if self.0 == Some(base) {
            return;
        }
        let window = values.around(base as usize, WINDOW as usize);
        let step = LINE / size_of::<F::Value>();
        if edges as usize >= window.len() / step {
            window.iter().step_by(step).for_each(F::touch);
            self.0 = Some(base);
        }
    }
}

impl Cells<'_> {
    /// Calls `update(destination, term)` for every piece, with its arcs' terms combined; destinations are relative to
    /// the column. Cells of which the fold wants no source are left out.
    ///
    /// # Panics
    /// Where a cell's values are not there.
    #[inline]
    pub fn fold<F: Fold>(
        &self,
        values: Lookup<'_, F::Value>,
        near: &mut Near,
        fold: F,
        update: &mut impl FnMut(usize, F::Term),
    ) {
        for cell in self.iter() {
            let base = cell.header.source_base as usize;
            let window = base..base + WINDOW as usize;
            if !fold.wants(window.clone()) {
                continue;
            }
            near.fetch::<F>(values, cell.header.source_base, cell.header.edges);
            // Where the grid's windows are smaller than those that stream, what is behind a cell's own may not be there.
            let own = values.is_ring() && !base.is_multiple_of(WINDOW as usize);
            let end = if own { base + cell.end_source() } else { window.end.min(self.vertices as usize) };
            let (start, values) = values.stretch(base..end.max(base));
            let term = move |id: usize, weight: f64| {
                debug_assert!(start + id < values.len());
                // SAFETY: `stretch` has seen that the values from `start` on reach to the end of the 2^16 sources that a
                // cell can name, or to the last vertex, or behind the last source that this one names. `Cells::check`
                // found all sources of the cell below the first two: by looking at each, or (16-bit sources, and gaps
                // added up modulo 2^16) because all 2^16 sources are. The bytes have not changed since: they are
                // borrowed from then on, or are those of a `KeptBlock`, which nobody can write to, and the very stretch
                // that it noted as checked (`Cells::checked_before`). Measured: a quarter of the loop's instructions,
                // and of its time where the values are in cache.
                let value = unsafe { values.get_unchecked(start + id) };
                fold.term(base + id, value, weight)
            };
            cell.fold(fold, term, update);
        }
    }
}

impl Cell<'_> {
    #[inline]
    fn fold<F: Fold>(
        &self,
        fold: F,
        term: impl Fn(usize, f64) -> F::Term + Copy,
        update: &mut impl FnMut(usize, F::Term),
    ) {
        let first = self.header.first_destination as usize;
        // All is handed down by value: behind a reference it would be loaded again after each update of a sum.
        for section in self.sections() {
            match section.weights {
                Weights::Unit(weights) => {
                    section.fold(first, weights, fold, move |id, ()| term(id, 1.0), update);
                }
                Weights::F32(weights) => {
                    section.fold(first, weights, fold, move |id, w: f32| term(id, w.value()), update);
                }
                Weights::F64(weights) => {
                    section.fold(first, weights, fold, move |id, w: f64| term(id, w.value()), update);
                }
            }
        }
    }
}

impl Section<'_> {
    #[inline]
    fn fold<F: Fold, W: Weight>(
        &self,
        first: usize,
        weights: &[W],
        fold: F,
        term: impl Fn(usize, W) -> F::Term + Copy,
        update: &mut impl FnMut(usize, F::Term),
    ) {
        match self.steps {
            Steps::Narrow(steps) => self.by_shape(first, steps, weights, fold, term, update),
            Steps::Wide(steps) => self.by_shape(first, steps, weights, fold, term, update),
        }
    }

    #[inline]
    fn by_shape<F: Fold, S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        weights: &[W],
        fold: F,
        term: impl Fn(usize, W) -> F::Term + Copy,
        update: &mut impl FnMut(usize, F::Term),
    ) {
        match self.shape {
            Shape::Wide(64) => self.wide::<64, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Wide(32) => self.wide::<32, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Wide(16) => self.wide::<16, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Wide(8) => self.wide::<8, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Wide(4) => self.wide::<4, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Wide(2) => self.wide::<2, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Wide(_) => self.wide::<1, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Narrow(64) => self.narrow::<64, 63, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Narrow(32) => self.narrow::<32, 31, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Narrow(16) => self.narrow::<16, 15, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Narrow(8) => self.narrow::<8, 7, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Narrow(4) => self.narrow::<4, 3, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Narrow(_) => self.narrow::<2, 1, _, _, _>(first, steps, weights, fold, term, update),
            Shape::Run => self.runs(first, steps, weights, fold, term, update),
        }
    }

    fn wide<const L: usize, F: Fold, S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        weights: &[W],
        fold: F,
        term: impl Fn(usize, W) -> F::Term + Copy,
        update: &mut impl FnMut(usize, F::Term),
    ) {
        let (sources, weights) = (self.halves.as_chunks::<L>().0, weights.as_chunks::<L>().0);
        let mut target = first;
        for (pieces, before) in self.stretches() {
            target += before;
            let sources = sources[pieces.clone()].iter().zip(&weights[pieces.clone()]);
            for ((sources, weights), &step) in sources.zip(&steps[pieces]) {
                target += step.into();
                update(target, combined::<L, F>(fold, |edge| term(sources[edge].into(), weights[edge])));
            }
        }
    }

    fn narrow<const L: usize, const GAPS: usize, F: Fold, S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        weights: &[W],
        fold: F,
        term: impl Fn(usize, W) -> F::Term + Copy,
        update: &mut impl FnMut(usize, F::Term),
    ) {
        let (gaps, weights) = (self.bytes.as_chunks::<GAPS>().0, weights.as_chunks::<L>().0);
        let mut target = first;
        for (pieces, before) in self.stretches() {
            target += before;
            let sources = self.halves[pieces.clone()].iter().zip(&gaps[pieces.clone()]);
            for (((&source, gaps), weights), &step) in
                sources.zip(&weights[pieces.clone()]).zip(&steps[pieces])
            {
                target += step.into();
                let mut source = source;
                let term = |edge: usize| {
                    if edge > 0 {
                        source = source.wrapping_add(gaps[edge - 1].into());
                    }
                    term(source.into(), weights[edge])
                };
                update(target, combined::<L, F>(fold, term));
            }
        }
    }

    fn runs<F: Fold, S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        mut weights: &[W],
        fold: F,
        term: impl Fn(usize, W) -> F::Term + Copy,
        update: &mut impl FnMut(usize, F::Term),
    ) {
        let mut target = first;
        for (pieces, before) in self.stretches() {
            target += before;
            let runs = self.halves[pieces.clone()].iter().zip(&self.bytes[pieces.clone()]);
            for ((&source, &length), &step) in runs.zip(&steps[pieces]) {
                target += step.into();
                let (own, rest) = weights.split_at(length.into());
                weights = rest;
                let terms =
                    own.iter().zip(usize::from(source)..).map(|(&weight, source)| term(source, weight));
                // A run is of one edge at least, which only the program that writes them says.
                if let Some(all) = terms.reduce(|all, term| fold.combine(all, term)) {
                    update(target, all);
                }
            }
        }
    }
}

/// The terms number 0 to L - 1, asked for in that order, in one.
#[inline]
fn combined<const L: usize, F: Fold>(fold: F, mut term: impl FnMut(usize) -> F::Term) -> F::Term {
    if L < 4 {
        let first = term(0);
        return (1..L).fold(first, |all, edge| fold.combine(all, term(edge)));
    }
    let mut all = [term(0), term(1), term(2), term(3)];
    for edge in 4..L {
        all[edge % 4] = fold.combine(all[edge % 4], term(edge));
    }
    fold.combine(fold.combine(all[0], all[1]), fold.combine(all[2], all[3]))
}
