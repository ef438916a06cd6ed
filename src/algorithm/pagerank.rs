//! PageRank by repeated passes over all edges: `rank'(v) = base + d * sum over arcs (u, v) of rank(u) / outdegree(u)`.
//!
//! Each source's contribution is computed once per pass, in the vertex pass of the pass before, and rounded
//! twice: to f32 (half the bytes that the edge loop gathers), then to a multiple of the quantum, so that sums are
//! exact. Contributions are double-buffered: a column that is done early writes its next contributions while
//! others still read the current ones. Brin and Page 1998; "gridgraph" flavour: `init = "one"`,
//! `dangling = "ignore"`.

use std::sync::{Mutex, PoisonError};

use super::exact::{Quantum, Total, result_checksum};
use super::targets::{ColumnTargets, DRAINED, Targets, split};
use super::verdict::{Verdict, compare, each_edge};
use super::{GraphAlgorithm, Outcome, Setup, SetupError, Values};
use crate::engine::pass::{Algorithm, IfOwned, Pass, Taken};
use crate::grid::manifest::Column;
use crate::grid::{BlockView, ChunkError, Fold, Grid, Lookup, Number, Sum};
use crate::interrupt::Interrupt;
use crate::job::spec::{DanglingSpec, InitSpec, PagerankSpec, PrecisionSpec};
use crate::storage::error::StorageError;
use crate::storage::huge;

/// A source's contribution as the edge loop reads it.
pub(crate) trait Contribution: Copy + Default + Number<Plain = Self> + Send + Sync + 'static {
    /// From the exact quotient: rounded to this width, then to the quantum.
    fn new(quotient: f64, quantum: Quantum) -> Self;
    /// As a term of a sum.
    fn wide(self) -> f64;
}

impl Contribution for f32 {
    fn new(quotient: f64, quantum: Quantum) -> Self {
        // A multiple of u with at most 24 significant bits stays one with at most 24 after rounding to a coarser
        // grid, so the second rounding is exact in f32.
        quantum.round(f64::from(quotient as f32)) as f32
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Contribution for f64 {
    fn new(quotient: f64, quantum: Quantum) -> Self {
        quantum.round(quotient)
    }
    fn wide(self) -> f64 {
        self
    }
}

/// Width of contributions that a job's parameters come to.
pub fn precision(spec: &PagerankSpec) -> PrecisionSpec {
    match spec.precision {
        PrecisionSpec::Auto if spec.tolerance.is_some_and(|tolerance| tolerance < 1e-8) => PrecisionSpec::F64,
        PrecisionSpec::Auto => PrecisionSpec::F32,
        precision => precision,
    }
}

/// Bytes kept per vertex: rank, sum, degree and two contributions.
pub fn state_bytes_per_vertex(spec: &PagerankSpec) -> u64 {
    let contribution = if precision(spec) == PrecisionSpec::F64 { 8 } else { 4 };
    8 + 8 + 4 + 2 * contribution
}

/// The state between passes.
pub(crate) struct Pagerank<C> {
    spec: PagerankSpec,
    quantum: Quantum,
    columns: Vec<Column>,
    degrees: Vec<u32>,
    ranks: Vec<f64>,
    sums: Targets<f64>,
    current: Vec<C>,
    next: Vec<C>,
    /// Rank of dangling vertices and L1 change, of the pass that is running or was last done.
    dangling: Mutex<Total>,
    change: Mutex<Total>,
    /// What every vertex gets in the next pass.
    base: f64,
    done: u64,
    residual: Option<f64>,
    converged: bool,
}

impl<C: Contribution> Pagerank<C> {
    pub(crate) fn new(spec: &PagerankSpec, setup: Setup<'_>) -> Result<Self, SetupError> {
        let manifest = &setup.grid.manifest;
        let vertices = manifest.vertices as usize;
        let (quantum, start) = (quantum(spec, manifest.vertices)?, start(spec, manifest.vertices));
        let degrees = setup.grid.degrees()?;
        let mut dangling = Total::new(quantum);
        degrees.iter().filter(|&&degree| degree == 0).for_each(|_| dangling.add(start));
        let current =
            huge::collected(vertices, degrees.iter().map(|&degree| contribution(start, degree, quantum)));
        let mut pagerank = Self {
            spec: spec.clone(),
            quantum,
            columns: manifest.columns.clone(),
            degrees,
            ranks: huge::filled(vertices, start),
            sums: Targets::of_grid(setup, 0.0),
            current,
            next: huge::filled(vertices, C::default()),
            dangling: Mutex::new(dangling),
            change: Mutex::new(Total::new(quantum)),
            base: 0.0,
            done: 0,
            residual: None,
            converged: false,
        };
        pagerank.set_base();
        Ok(pagerank)
    }

    /// Begins the next pass, from the dangling rank of the last; clears that.
    fn set_base(&mut self) {
        let dangling = self.dangling.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.base = base(&self.spec, self.ranks.len() as u64, dangling.value());
        *dangling = Total::new(self.quantum);
    }
}

/// The quantum of all sums.
pub(super) fn quantum(spec: &PagerankSpec, vertices: u64) -> Result<Quantum, SetupError> {
    // Twice the bound of all sums, since rounding wants |x| <= B / 2: sums are below 1 or n.
    let bound = if spec.init == InitSpec::One { 2.0 * vertices.max(1) as f64 } else { 2.0 };
    Quantum::for_bound(bound).ok_or(SetupError::Overflow { bound })
}

/// The rank that every vertex begins with.
pub(super) fn start(spec: &PagerankSpec, vertices: u64) -> f64 {
    if spec.init == InitSpec::One { 1.0 } else { 1.0 / vertices.max(1) as f64 }
}

/// The share of every vertex in a pass, before which dangling vertices had so much rank.
pub(super) fn base(spec: &PagerankSpec, vertices: u64, dangling: f64) -> f64 {
    let vertices = vertices.max(1) as f64;
    let teleport = 1.0 - spec.damping;
    match (spec.init, spec.dangling) {
        (InitSpec::Uniform, DanglingSpec::Ignore) => teleport / vertices,
        (InitSpec::Uniform, DanglingSpec::Spread) => (teleport + spec.damping * dangling) / vertices,
        (InitSpec::One, DanglingSpec::Ignore) => teleport,
        (InitSpec::One, DanglingSpec::Spread) => teleport + spec.damping * dangling / vertices,
    }
}

/// What a pass makes of a vertex.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) quantum: Quantum,
    pub(super) damping: f64,
    pub(super) base: f64,
}

/// What a pass adds up over vertices: L1 change, and rank of dangling vertices.
pub(super) struct Totals {
    pub(super) change: Total,
    pub(super) dangling: Total,
}

impl Totals {
    pub(super) fn new(quantum: Quantum) -> Self {
        Self { change: Total::new(quantum), dangling: Total::new(quantum) }
    }
}

impl Step {
    /// New ranks of up to [`DRAINED`] vertices from their sums, in the place of the old ones, and what they contribute.
    pub(super) fn vertices<C: Contribution>(
        self,
        sums: &[f64],
        degrees: &[u32],
        ranks: &mut [f64],
        next: &mut [C],
        totals: &mut Totals,
    ) {
        let mut changes = [0.0; DRAINED];
        for ((rank, change), sum) in ranks.iter_mut().zip(&mut changes).zip(sums) {
            let new = self.base + self.damping * *sum;
            *change = (new - *rank).abs();
            *rank = new;
        }
        totals.change.add_all(&changes[..sums.len()]);
        // Adding 0 costs less than a branch that nobody can predict.
        let mut lost = [0.0; DRAINED];
        for ((lost, &rank), &degree) in lost.iter_mut().zip(&*ranks).zip(degrees) {
            *lost = if degree == 0 { rank } else { 0.0 };
        }
        totals.dangling.add_all(&lost[..sums.len()]);
        for ((next, &rank), &degree) in next.iter_mut().zip(&*ranks).zip(degrees) {
            *next = contribution(rank, degree, self.quantum);
        }
    }
}

pub(super) fn contribution<C: Contribution>(rank: f64, degree: u32, quantum: Quantum) -> C {
    // As above: 0 times what it would be, instead of a branch.
    let any = f64::from(u8::from(degree > 0));
    C::new(any * (rank / f64::from(degree.max(1))), quantum)
}

impl<C: Contribution> Algorithm for Pagerank<C> {
    fn passes(&self) -> u64 {
        self.spec.iterations
    }

    fn begin(&mut self) -> Option<Box<dyn Pass + '_>> {
        if self.converged || self.done == self.spec.iterations {
            return None;
        }
        let columns = &self.columns;
        let sums = self.sums.by_column(columns);
        let ranks = split(&mut self.ranks, columns);
        let next = split(&mut self.next, columns);
        let vertices = ranks
            .into_iter()
            .zip(next)
            .zip(columns)
            .map(|((ranks, next), column)| {
                let degrees = &self.degrees[column.first_vertex as usize..column.end_vertex as usize];
                Mutex::new(Vertices { ranks, next, degrees })
            })
            .collect();
        Some(Box::new(PagerankPass {
            current: &self.current,
            sums,
            vertices,
            step: Step { quantum: self.quantum, damping: self.spec.damping, base: self.base },
            dangling: &self.dangling,
            change: &self.change,
        }))
    }

    fn end(&mut self) -> Result<(), StorageError> {
        self.done += 1;
        std::mem::swap(&mut self.current, &mut self.next);
        let change = self.change.get_mut().unwrap_or_else(PoisonError::into_inner);
        let residual = change.value();
        *change = Total::new(self.quantum);
        self.residual = Some(residual);
        self.converged = self.spec.tolerance.is_some_and(|tolerance| residual <= tolerance);
        self.set_base();
        Ok(())
    }
}

struct PagerankPass<'a, C> {
    current: &'a [C],
    sums: Vec<ColumnTargets<'a, f64>>,
    vertices: Vec<Mutex<Vertices<'a, C>>>,
    step: Step,
    dangling: &'a Mutex<Total>,
    change: &'a Mutex<Total>,
}

/// The sum of contributions.
pub(super) fn contributions<V: Number<Plain: Contribution>>() -> impl Fold<Value = V, Term = f64> {
    Sum::of(|contribution: V::Plain, _weight| contribution.wide())
}

/// What the vertex pass of a column writes.
struct Vertices<'a, C> {
    ranks: &'a mut [f64],
    next: &'a mut [C],
    degrees: &'a [u32],
}

impl<C: Contribution> Pass for PagerankPass<'_, C> {
    fn block(
        &self,
        column: usize,
        block: &mut BlockView<'_>,
        if_owned: IfOwned,
    ) -> Result<Taken, ChunkError> {
        self.sums[column].fold(block, if_owned, Lookup::all(self.current), contributions())
    }

    fn column_done(&self, column: usize) -> Result<(), StorageError> {
        let mut vertices = self.vertices[column].lock().unwrap_or_else(PoisonError::into_inner);
        let Vertices { ranks, next, degrees } = &mut *vertices;
        let mut totals = Totals::new(self.step.quantum);
        self.sums[column].drain(contributions::<C>(), |first, sums| {
            let range = first..first + sums.len();
            let (ranks, next) = (&mut ranks[range.clone()], &mut next[range.clone()]);
            self.step.vertices(sums, &degrees[range], ranks, next, &mut totals);
        });
        self.change.lock().unwrap_or_else(PoisonError::into_inner).merge(&totals.change);
        self.dangling.lock().unwrap_or_else(PoisonError::into_inner).merge(&totals.dangling);
        Ok(())
    }
}

impl<C: Contribution> GraphAlgorithm for Pagerank<C> {
    fn as_algorithm(&mut self) -> &mut dyn Algorithm {
        self
    }

    fn finish(self: Box<Self>, grid: &Grid) -> Result<Outcome, SetupError> {
        let Self { spec, quantum, ranks, done, residual, converged, degrees, sums, current, next, .. } =
            *self;
        // The way back from positions takes less than these, which are not needed any more.
        drop((degrees, sums, current, next));
        let ranks = grid.renumbering()?.to_dense(ranks);
        Ok(Outcome {
            iterations: done,
            converged: spec.tolerance.map(|_| converged),
            residual,
            checksum: result_checksum(&ranks),
            values: Some(Values::Held(ranks)),
            quantum: Some(quantum.unit()),
            result: None,
        })
    }
}

/// Bytes per vertex that [`Reference`] keeps while it is made.
pub(crate) const REFERENCE_BYTES_PER_VERTEX: u64 = 4 * 8 + 4;

/// The same ranks by the textbook: one thread, plain f64 sums.
pub(crate) struct Reference {
    ranks: Vec<f64>,
    /// How far off a rank may be by what was rounded on the way to it: each contribution to its width and to the
    /// quantum, and passed on from there as rank is.
    errors: Vec<f64>,
    /// How far off, relatively, a plain sum of all vertices or all arcs may be.
    order: f64,
}

impl Reference {
    pub(crate) fn new(
        spec: &PagerankSpec,
        grid: &Grid,
        (iterations, quantum): (u64, f64),
        interrupt: &Interrupt,
    ) -> Result<Self, SetupError> {
        let degrees = grid.dense_degrees()?;
        let n = degrees.len().max(1) as f64;
        let (start, teleport) = match spec.init {
            InitSpec::Uniform => (1.0 / n, (1.0 - spec.damping) / n),
            InitSpec::One => (1.0, 1.0 - spec.damping),
        };
        let width = if precision(spec) == PrecisionSpec::F64 { 0.0 } else { f64::from(f32::EPSILON) / 2.0 };
        let (mut ranks, mut errors) = (vec![start; degrees.len()], vec![0.0; degrees.len()]);
        for _ in 0..iterations {
            let spread = |values: &[f64]| {
                let dangling = values.iter().zip(&degrees).filter(|(_, degree)| **degree == 0);
                let share = dangling.map(|(value, _)| value).sum::<f64>() / n;
                if spec.dangling == DanglingSpec::Spread { share } else { 0.0 }
            };
            let (share, share_error) = (spread(&ranks), spread(&errors));
            let (mut sums, mut error_sums) = (vec![0.0; degrees.len()], vec![0.0; degrees.len()]);
            each_edge(grid, interrupt, |source, target, _| {
                let (source, target) = (source as usize, target as usize);
                let degree = f64::from(degrees[source]);
                let contribution = ranks[source] / degree;
                sums[target] += contribution;
                error_sums[target] += errors[source] / degree + width * contribution + quantum / 2.0;
            })?;
            for (rank, sum) in ranks.iter_mut().zip(sums) {
                *rank = teleport + spec.damping * (share + sum);
            }
            for (error, sum) in errors.iter_mut().zip(error_sums) {
                *error = spec.damping * (share_error + sum);
            }
        }
        let terms = ranks.len() as f64 + grid.manifest.edges as f64;
        // Each iteration adds its own to what is left of the errors before.
        let passed_on = (1.0 / (1.0 - spec.damping)).min(iterations as f64);
        Ok(Self { ranks, errors, order: passed_on * (1e-12 + terms * f64::EPSILON) })
    }

    /// Compares within what rounding and the order of plain sums explain. Where rounding may be much of a rank,
    /// on graphs of very many vertices, the verdict says so.
    pub(crate) fn compare(&self, ranks: &[f64]) -> Verdict {
        let verdict =
            compare(&self.ranks, ranks, |vertex, rank| 1.001 * self.errors[vertex] + self.order * rank.abs());
        let coarse = |(rank, error): &(&f64, &f64)| **error > 1e-6 * rank.abs();
        let why = "ranks are so small beside the quantum that they may be wrong from the sixth digit on";
        verdict.coarse_for(self.ranks.iter().zip(&self.errors).filter(coarse).count(), why)
    }
}

/// What ranks are, whatever the graph: at least the teleport share each, and (where nothing is lost) 1 or n in all.
pub(crate) fn invariants(spec: &PagerankSpec, grid: &Grid, ranks: &Values) -> Result<Verdict, SetupError> {
    let vertices = grid.manifest.vertices;
    let n = vertices.max(1) as f64;
    let total = if spec.init == InitSpec::One { n } else { 1.0 };
    let least = (1.0 - spec.damping) * total / n;
    let (mut sum, mut wrong) = (0.0, None);
    ranks.each(grid, |vertex, rank| {
        sum += rank;
        if !(rank >= least * (1.0 - 1e-12) && rank <= total) {
            wrong = Some((vertex, rank));
        }
    })?;
    if let Some((vertex, rank)) = wrong {
        return Ok(Verdict::Failed(format!(
            "vertex {vertex} (dense index) has rank {rank:e}, which is not between {least:e} and {total}"
        )));
    }
    let conserved = spec.dangling == DanglingSpec::Spread;
    if vertices == 0 || (sum - total).abs() <= 1e-6 * total || (!conserved && sum < total) {
        let what = if conserved { "add up to" } else { "add up to no more than" };
        return Ok(Verdict::Passed(format!("all ranks are at least the teleport share and {what} {total}")));
    }
    Ok(Verdict::Failed(format!("the ranks add up to {sum}, not to {total}")))
}
