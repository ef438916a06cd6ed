use std::cell::{Cell, RefCell};

use super::*;
use crate::dataset::{self, Context};
use crate::grid::{self, Grid, LayoutRequest};
use crate::interrupt::Interrupt;
use crate::job::spec::{
    Auto, DatasetSpec, EncodingSpec, GridSpec, KroneckerSpec, SourceSpec, StorageSpec, VertexOrderSpec,
    WeightsSpec,
};
use crate::progress::Silent;

/// A grid of one column in one block.
fn grid(folder: &std::path::Path) -> Grid {
    let source = SourceSpec::Kronecker(KroneckerSpec { scale: 6, edge_factor: 8, seed: 1, weights: false });
    let (vertices, edges, weights) = (None, None, WeightsSpec::Auto);
    let dataset =
        DatasetSpec { name: "small".into(), source, vertices, edges, directed: true, weights, skip_lines: 0 };
    let grid = GridSpec {
        encoding: EncodingSpec::Raw,
        columns: Auto::Value(1),
        source_window: Auto::Auto,
        order: VertexOrderSpec::Natural,
        interleave: Auto::Auto,
    };
    let (devices, rated, emulate) = (Vec::new(), None, None);
    let storage = StorageSpec { devices, ssds: 1, stripe: 64 << 10, rated, emulate, keep: true };
    let request = LayoutRequest { dataset: "small", fingerprint: "ktest", grid: &grid, storage: &storage };
    let interrupt = Interrupt::new();
    let context = Context { threads: 1, interrupt: &interrupt, progress: &Silent };
    let source = dataset::open(&dataset).unwrap();
    grid::build(folder, &request, source.as_ref(), None, 1 << 30, context).unwrap()
}

/// Counts arcs, and does something at the first.
#[derive(Clone, Copy)]
struct Count<'a>(&'a RefCell<&'a mut dyn FnMut()>, &'a Cell<bool>);

impl Fold for Count<'_> {
    type Value = ();
    type Term = f64;

    const IDEMPOTENT: bool = false;

    fn term(self, _source: usize, (): &(), _weight: f64) -> f64 {
        if !self.1.replace(true) {
            (self.0.borrow_mut())();
        }
        1.0
    }

    fn combine(self, all: f64, term: f64) -> f64 {
        all + term
    }

    fn touch((): &()) {}
}

/// Folds the same block so many times, each time while all earlier ones are under way, as other threads would; returns
/// what became of each, the inmost first, and the sum of all targets.
fn nested(targets: &ColumnTargets<'_, f64>, grid: &Grid, depth: u32) -> Vec<Taken> {
    let mut taken = Vec::new();
    let own = {
        let mut inner = || {
            if depth > 1 {
                taken = nested(targets, grid, depth - 1);
            }
        };
        let (inner, begun) = (RefCell::new(&mut inner as &mut dyn FnMut()), Cell::new(false));
        let bytes = std::fs::read(&grid.paths.parts[0]).unwrap();
        let mut block = BlockView::new(&bytes, grid.expectation(0, 0, 0));
        let values = vec![(); grid.manifest.vertices as usize];
        targets.fold(&mut block, IfOwned::Return, Lookup::all(&values), Count(&inner, &begun)).unwrap()
    };
    taken.push(own);
    taken
}

#[test]
fn as_many_threads_as_there_are_spares_fold_into_a_column_beside_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let grid = grid(folder.path());
    let edges = grid.manifest.edges;
    for spares in 0..3 {
        let setup = Setup { grid: &grid, graph: "", kernel: KernelSpec::Owned, threads: 3, spares };
        let mut targets = Targets::of_grid(setup, 0.0);
        for _ in 0..2 {
            let column = targets.by_column(&grid.manifest.columns).remove(0);
            let taken = nested(&column, &grid, spares + 2);
            let mut expected = vec![Taken::Busy];
            expected.resize(spares as usize + 2, Taken::Done(edges));
            assert_eq!(taken, expected, "{spares}");
            let mut sum = 0.0;
            let mut nothing = || ();
            let (nothing, begun) = (RefCell::new(&mut nothing as &mut dyn FnMut()), Cell::new(true));
            column.drain(Count(&nothing, &begun), |_, values| sum += values.iter().sum::<f64>());
            assert!((sum - (edges * u64::from(spares + 1)) as f64).abs() < 0.5, "{spares}: {sum}");
        }
    }
}

#[test]
fn only_a_column_that_threads_could_not_share_otherwise_has_spares() {
    let folder = tempfile::tempdir().unwrap();
    let mut grid = grid(folder.path());
    let column = grid.manifest.columns[0];
    assert!(!grid.manifest.is_heavy(&column, 1) && grid.manifest.is_heavy(&column, 2));
    let half =
        |first: u64, end: u64, edges: u64| Column { first_vertex: first, end_vertex: end, edges, ..column };
    let (vertices, edges) = (grid.manifest.vertices, grid.manifest.edges);
    let middle = vertices / 2;
    grid.manifest.columns = vec![half(0, middle, edges / 2), half(middle, vertices, edges - edges / 2)];
    let heavy = |grid: &Grid, threads| -> Vec<bool> {
        grid.manifest.columns.iter().map(|column| grid.manifest.is_heavy(column, threads)).collect()
    };
    assert_eq!((heavy(&grid, 2), heavy(&grid, 3)), (vec![false; 2], vec![true; 2]));
    grid.manifest.columns = vec![half(0, 1, edges * 9 / 10), half(1, vertices, edges - edges * 9 / 10)];
    assert_eq!(heavy(&grid, 2), [true, false]);
}
