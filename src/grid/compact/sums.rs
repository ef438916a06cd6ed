//! The inner loops: one per shape, unrolled for its length, with one update per piece. The order in which the terms
//! of a piece are added is that of the machine (four sums side by side), which is right because terms add up exactly
//! (see [`crate::algorithm::exact`]).

use super::{Cell, Cells, Section, Shape, Steps, WINDOW, Weights};

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
    fn fetch<V: Copy>(&mut self, values: &[V], base: u32, edges: u32) {
        const LINE: usize = 64;
        if self.0 == Some(base) {
            return;
        }
        let start = (base as usize).min(values.len());
        let window = &values[start..(start + WINDOW as usize).min(values.len())];
        let step = LINE / size_of::<V>();
        if edges as usize >= window.len() / step {
            for value in window.iter().step_by(step) {
                std::hint::black_box(*value);
            }
            self.0 = Some(base);
        }
    }
}

impl Cells<'_> {
    /// Calls `add(destination, sum)` for every piece, with the sum of `term(values[source], weight)` over its edges;
    /// destinations are relative to the column.
    ///
    /// # Panics
    /// Where there are fewer values than vertices.
    #[inline]
    pub fn add_up<V: Copy>(
        &self,
        values: &[V],
        near: &mut Near,
        term: impl Fn(V, f64) -> f64 + Copy,
        add: &mut impl FnMut(usize, f64),
    ) {
        assert!(
            values.len() as u64 >= self.vertices,
            "{} values for {} vertices",
            values.len(),
            self.vertices
        );
        let value = move |source: usize| {
            debug_assert!(source < values.len());
            // SAFETY: sources come from cells of this chunk only, whose bytes are borrowed since `Cells::check` found
            // all of their sources below `vertices`: by looking at each, or (16-bit sources, and gaps added up modulo
            // 2^16) because all 2^16 sources of their window are. The assertion above does the rest. Measured: a
            // quarter of the loop's instructions, and of its time where the values are in cache.
            unsafe { *values.get_unchecked(source) }
        };
        for cell in self.iter() {
            near.fetch(values, cell.header.source_base, cell.header.edges);
            cell.add_up(move |source, weight| term(value(source), weight), add);
        }
    }
}

impl Cell<'_> {
    #[inline]
    fn add_up(&self, term: impl Fn(usize, f64) -> f64 + Copy, add: &mut impl FnMut(usize, f64)) {
        let base = self.header.source_base as usize;
        let first = self.header.first_destination as usize;
        // All is handed down by value: behind a reference it would be loaded again after each update of a sum.
        for section in self.sections() {
            match section.weights {
                Weights::Unit(weights) => {
                    section.add_up(first, weights, move |id, ()| term(base + id, 1.0), add);
                }
                Weights::F32(weights) => {
                    section.add_up(first, weights, move |id, w: f32| term(base + id, w.value()), add);
                }
                Weights::F64(weights) => {
                    section.add_up(first, weights, move |id, w: f64| term(base + id, w.value()), add);
                }
            }
        }
    }
}

impl Section<'_> {
    #[inline]
    fn add_up<W: Weight>(
        &self,
        first: usize,
        weights: &[W],
        term: impl Fn(usize, W) -> f64 + Copy,
        add: &mut impl FnMut(usize, f64),
    ) {
        match self.steps {
            Steps::Narrow(steps) => self.by_shape(first, steps, weights, term, add),
            Steps::Wide(steps) => self.by_shape(first, steps, weights, term, add),
        }
    }

    #[inline]
    fn by_shape<S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        weights: &[W],
        term: impl Fn(usize, W) -> f64 + Copy,
        add: &mut impl FnMut(usize, f64),
    ) {
        match self.shape {
            Shape::Wide(64) => self.wide::<64, _, _>(first, steps, weights, term, add),
            Shape::Wide(32) => self.wide::<32, _, _>(first, steps, weights, term, add),
            Shape::Wide(16) => self.wide::<16, _, _>(first, steps, weights, term, add),
            Shape::Wide(8) => self.wide::<8, _, _>(first, steps, weights, term, add),
            Shape::Wide(4) => self.wide::<4, _, _>(first, steps, weights, term, add),
            Shape::Wide(2) => self.wide::<2, _, _>(first, steps, weights, term, add),
            Shape::Wide(_) => self.wide::<1, _, _>(first, steps, weights, term, add),
            Shape::Narrow(64) => self.narrow::<64, 63, _, _>(first, steps, weights, term, add),
            Shape::Narrow(32) => self.narrow::<32, 31, _, _>(first, steps, weights, term, add),
            Shape::Narrow(16) => self.narrow::<16, 15, _, _>(first, steps, weights, term, add),
            Shape::Narrow(8) => self.narrow::<8, 7, _, _>(first, steps, weights, term, add),
            Shape::Narrow(4) => self.narrow::<4, 3, _, _>(first, steps, weights, term, add),
            Shape::Narrow(_) => self.narrow::<2, 1, _, _>(first, steps, weights, term, add),
            Shape::Run => self.runs(first, steps, weights, term, add),
        }
    }

    fn wide<const L: usize, S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        weights: &[W],
        term: impl Fn(usize, W) -> f64 + Copy,
        add: &mut impl FnMut(usize, f64),
    ) {
        let (sources, weights) = (self.halves.as_chunks::<L>().0, weights.as_chunks::<L>().0);
        let mut target = first;
        for (pieces, before) in self.stretches() {
            target += before;
            let sources = sources[pieces.clone()].iter().zip(&weights[pieces.clone()]);
            for ((sources, weights), &step) in sources.zip(&steps[pieces]) {
                target += step.into();
                add(target, sum::<L>(|edge| term(sources[edge].into(), weights[edge])));
            }
        }
    }

    fn narrow<const L: usize, const GAPS: usize, S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        weights: &[W],
        term: impl Fn(usize, W) -> f64 + Copy,
        add: &mut impl FnMut(usize, f64),
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
                add(target, sum::<L>(term));
            }
        }
    }

    fn runs<S: Copy + Into<usize>, W: Weight>(
        &self,
        first: usize,
        steps: &[S],
        mut weights: &[W],
        term: impl Fn(usize, W) -> f64 + Copy,
        add: &mut impl FnMut(usize, f64),
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
                add(target, terms.sum());
            }
        }
    }
}

/// The sum of the terms number 0 to L - 1, asked for in that order.
#[inline]
fn sum<const L: usize>(mut term: impl FnMut(usize) -> f64) -> f64 {
    if L < 4 {
        let first = term(0);
        return (1..L).fold(first, |sum, edge| sum + term(edge));
    }
    let mut sums = [term(0), term(1), term(2), term(3)];
    for edge in 4..L {
        sums[edge % 4] += term(edge);
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}
