//! Sparse matrix times vector over the arcs: `y(v) = sum over arcs (u, v) of w * x(u)`, in one pass.
//!
//! Each product is rounded to a multiple of the quantum, so that sums are exact whatever their order. The bound
//! behind the quantum comes from the import: the largest sum of |w| over the arcs into one destination, times the
//! largest |x|. Repeated iterations compute the same product from the same x, for measuring.

use std::sync::{Mutex, PoisonError};

use super::exact::{Quantum, result_checksum};
use super::targets::{ColumnTargets, Targets, split};
use super::verdict::{Verdict, compare, each_edge};
use super::{GraphAlgorithm, Outcome, Setup, SetupError, Values};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::grid::manifest::{Column, Manifest};
use crate::grid::{BlockView, ChunkError, Fold, Grid, Lookup, Number, Sum};
use crate::interrupt::Interrupt;
use crate::job::spec::SpmvSpec;
use crate::storage::error::StorageError;
use crate::storage::huge;

/// Bytes kept per vertex: x, the sum, y.
pub const STATE_BYTES_PER_VERTEX: u64 = 24;

/// The state between passes.
pub(crate) struct Spmv {
    spec: SpmvSpec,
    quantum: Quantum,
    columns: Vec<Column>,
    x: Vec<f64>,
    sums: Targets<f64>,
    y: Vec<f64>,
    done: u64,
}

impl Spmv {
    pub(crate) fn new(spec: &SpmvSpec, setup: Setup<'_>) -> Result<Self, SetupError> {
        let manifest = &setup.grid.manifest;
        let x = super::vector::read(spec.x.as_deref(), setup.grid)?;
        let quantum = quantum(manifest, &x)?;
        let x = setup.grid.renumbering()?.to_grid(x);
        Ok(Self {
            spec: spec.clone(),
            quantum,
            columns: manifest.columns.clone(),
            sums: Targets::of_grid(setup, 0.0),
            y: huge::filled(x.len(), 0.0),
            x,
            done: 0,
        })
    }
}

/// The quantum for all sums of products: twice the bound, since rounding wants |p| <= B / 2, and a little more
/// for the rounding itself.
pub(crate) fn quantum(manifest: &Manifest, x: &[f64]) -> Result<Quantum, SetupError> {
    let largest = x.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    let weights = manifest.max_in_weight as f64 / 4_294_967_296.0 * manifest.max_abs_weight;
    let bound = 2.0 * (1.0 + 1e-6) * largest * weights;
    Quantum::for_bound(bound).ok_or(SetupError::Overflow { bound })
}

impl Algorithm for Spmv {
    fn passes(&self) -> u64 {
        self.spec.iterations
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        if self.done == self.spec.iterations {
            return None;
        }
        let y = split(&mut self.y, &self.columns).into_iter().map(Mutex::new).collect();
        let sums = self.sums.by_column(&self.columns);
        Some(Box::new(SpmvPass { x: &self.x, y, sums, quantum: self.quantum }))
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.done += 1;
        Ok(())
    }
}

/// The sum of products with x, each rounded to a multiple of the quantum.
pub(super) fn product<V: Number<Plain = f64>>(quantum: Quantum) -> impl Fold<Value = V, Term = f64> {
    Sum::of(move |x: f64, weight| quantum.round(weight * x))
}

struct SpmvPass<'a> {
    x: &'a [f64],
    y: Vec<Mutex<&'a mut [f64]>>,
    sums: Vec<ColumnTargets<'a, f64>>,
    quantum: Quantum,
}

impl Pass for SpmvPass<'_> {
    fn block(
        &self,
        column: usize,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
    ) -> Result<Taken, ChunkError> {
        self.sums[column].fold(block, if_owned, Lookup::all(self.x), product(self.quantum))
    }

    fn column_done(&self, column: usize) -> Result<(), StorageError> {
        let mut y = self.y[column].lock().unwrap_or_else(PoisonError::into_inner);
        self.sums[column].drain(product::<f64>(self.quantum), |first, sums| {
            y[first..first + sums.len()].copy_from_slice(sums);
        });
        Ok(())
    }
}

impl GraphAlgorithm for Spmv {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, grid: &Grid) -> Result<Outcome, SetupError> {
        let Self { quantum, x, sums, y, done, .. } = *self;
        // The way back from positions takes less than these, which are not needed any more.
        drop((x, sums));
        let y = grid.renumbering()?.to_dense(y);
        Ok(Outcome {
            iterations: done,
            converged: None,
            residual: None,
            checksum: result_checksum(&y),
            values: Some(Values::Held(y)),
            quantum: Some(quantum.unit()),
            result: None,
        })
    }
}

/// Bytes per vertex that [`reference`] keeps.
pub(crate) const REFERENCE_BYTES_PER_VERTEX: u64 = 8 + 8 + 4;

/// The same product by the textbook: one thread, plain f64 sums.
pub(crate) struct Reference {
    /// The product.
    pub(crate) y: Vec<f64>,
    /// Terms of each sum.
    pub(crate) terms: Vec<u32>,
}

impl Reference {
    pub(crate) fn new(spec: &SpmvSpec, grid: &Grid, interrupt: &Interrupt) -> Result<Self, SetupError> {
        let x = super::vector::read(spec.x.as_deref(), grid)?;
        let (mut y, mut terms) = (vec![0.0; x.len()], vec![0_u32; x.len()]);
        each_edge(grid, interrupt, |source, target, weight| {
            y[target as usize] += weight * x[source as usize];
            terms[target as usize] += 1;
        })?;
        Ok(Self { y, terms })
    }

    /// Compares within 1e-9 of a sum, and half a quantum for each of its terms. Where that is much of the sum itself,
    /// because weights or values of x are of very different size, the verdict says so.
    pub(crate) fn compare(&self, y: &[f64], quantum: f64) -> Verdict {
        let rounding = |vertex: usize| f64::from(self.terms[vertex]) * quantum / 2.0;
        let verdict = compare(&self.y, y, |vertex, expected| 1e-9 * expected.abs() + rounding(vertex));
        let coarse = |(vertex, y): &(usize, &f64)| **y != 0.0 && rounding(*vertex) > 1e-6 * y.abs();
        let why = format!(
            "sums are so small beside the largest that their terms, multiples of the quantum {quantum:e}, may be wrong \
             from the sixth digit on"
        );
        verdict.coarse_for(self.y.iter().enumerate().filter(coarse).count(), &why)
    }
}

/// What a product is, whatever the graph: its sum is that of all products, which one more reading adds up.
pub(crate) fn invariants(
    spec: &SpmvSpec,
    grid: &Grid,
    y: &Values,
    quantum: f64,
    interrupt: &Interrupt,
) -> Result<Verdict, SetupError> {
    // Ones take no memory.
    let x = spec.x.as_deref().map(|path| super::vector::read(Some(path), grid)).transpose()?;
    let (mut expected, mut absolute) = (0.0, 0.0);
    each_edge(grid, interrupt, |source, _, weight| {
        let product = weight * x.as_ref().map_or(1.0, |x| x[source as usize]);
        expected += product;
        absolute += product.abs();
    })?;
    let mut found = 0.0;
    y.each(grid, |_, y| found += y)?;
    // Two f64 sums of up to 2^40 terms in different orders, and half a quantum for each term.
    let (order, rounding) = (1e-9 * absolute, grid.manifest.edges as f64 * quantum / 2.0);
    Ok(if (found - expected).abs() > order + rounding {
        Verdict::Failed(format!("the sum of y is {found:e}, but all products add up to {expected:e}"))
    } else if rounding > 1e-6 * absolute {
        Verdict::Coarse(format!(
            "the sum of y is that of all products ({expected:e}) within {rounding:e}, which the multiples of the \
             quantum {quantum:e} that the terms are rounded to allow"
        ))
    } else {
        Verdict::Passed(format!("the sum of y is that of all products ({expected:e})"))
    })
}
