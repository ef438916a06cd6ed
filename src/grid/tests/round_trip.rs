//! What goes in comes out, whatever the layout.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::grid::manifest::{Order, WeightKind};

/// A graph with what graphs have: loops, duplicates, a heavy destination, gaps, huge ids.
fn graphs() -> impl Strategy<Value = MemorySource> {
    let id = prop_oneof![4 => 0..40_u64, 2 => Just(7_u64), 2 => 0..5000_u64];
    let huge = prop_oneof![3 => 0..1000_u64, 1 => any::<u64>()];
    let weight = prop_oneof![
        3 => Just(1.0),
        2 => (-100_i32..100).prop_map(|w| f64::from(w) / 4.0),
        1 => -1e300..1e300_f64,
    ];
    let pairs = |id: BoxedStrategy<u64>| prop::collection::vec((id.clone(), id), 0..12_000);
    let (dense, seen) = (pairs(id.boxed()), pairs(huge.boxed()));
    let edges = prop_oneof![
        dense.clone().prop_map(|pairs| (pairs, VertexSet::Range)),
        dense.clone().prop_map(|pairs| (pairs, VertexSet::Given(5000))),
        dense.prop_map(|pairs| (pairs, VertexSet::Seen)),
        seen.prop_map(|pairs| (pairs, VertexSet::Seen)),
    ];
    let weights = prop_oneof![Just(None), prop::collection::vec(weight, 1..50).prop_map(Some)];
    (edges, weights).prop_map(|((pairs, vertices), weights)| {
        let mut source = MemorySource::new(vertices, &pairs);
        if let Some(weights) = weights {
            source.weighted = true;
            source
                .edges
                .iter_mut()
                .zip(weights.iter().cycle())
                .for_each(|(edge, &weight)| edge.weight = weight);
        }
        source
    })
}

fn setups() -> impl Strategy<Value = Setup> {
    let columns = prop_oneof![Just(Auto::Auto), (1..400_u32).prop_map(Auto::Value)];
    let windows = prop_oneof![Just(Auto::Auto), (1..6000_u64).prop_map(Auto::Value)];
    let limits = (1..6000_u64, 1..100_u64, prop::bool::ANY, prop::bool::ANY).prop_map(
        |(segment_edges, block, bitmap, hold)| {
            let bitmap = if bitmap { 1 << 20 } else { 0 };
            let hold = if hold { u64::MAX } else { 0 };
            Limits { segment_edges, block: block * 16, bitmap, hold }
        },
    );
    let encodings = prop::sample::select(vec![EncodingSpec::Raw, EncodingSpec::Compact]);
    let orders =
        prop::sample::select(vec![VertexOrderSpec::Natural, VertexOrderSpec::Degree, VertexOrderSpec::Auto]);
    (columns, windows, (encodings, orders), 1..4_u32, 1..4_u64, 1..4_usize, limits).prop_map(
        |(columns, source_window, (encoding, order), ssds, stripe, threads, limits)| {
            let mut setup = Setup { threads, limits, ..Setup::default() };
            (setup.grid.encoding, setup.grid.order) = (encoding, order);
            (setup.grid.columns, setup.grid.source_window) = (columns, source_window);
            (setup.storage.ssds, setup.storage.stripe) = (ssds, stripe * 32 * 1024);
            setup
        },
    )
}

/// Vertices and out-degrees by original id, as the rule says.
fn degrees(source: &MemorySource) -> BTreeMap<u64, u32> {
    let seen: BTreeSet<u64> = source.edges.iter().flat_map(|edge| [edge.source, edge.target]).collect();
    let vertices: Vec<u64> = match source.vertices {
        VertexSet::Seen => seen.into_iter().collect(),
        VertexSet::Range => seen.last().map_or_else(Vec::new, |&largest| (0..=largest).collect()),
        VertexSet::Declared(n) | VertexSet::Given(n) => (0..n).collect(),
    };
    let mut degrees: BTreeMap<u64, u32> = vertices.into_iter().map(|id| (id, 0)).collect();
    source.edges.iter().for_each(|edge| *degrees.get_mut(&edge.source).unwrap() += 1);
    degrees
}

/// Largest in-weight in units, in floating point: good to a unit per edge.
fn max_in_weight(source: &MemorySource, max: f64) -> f64 {
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for edge in &source.edges {
        *sums.entry(edge.target).or_default() += (edge.weight.abs() / max * 4_294_967_296.0).ceil();
    }
    sums.into_values().fold(0.0, f64::max)
}

fn check(source: &MemorySource, setup: &Setup, grid: &Grid) {
    let manifest = &grid.manifest;
    assert_eq!(read_back(grid), plain(&source.edges));
    let expected = degrees(source);
    assert!(grid.ids().unwrap().map(Result::unwrap).eq(expected.keys().copied()));
    assert!(grid.dense_degrees().unwrap().iter().eq(expected.values()));
    assert_eq!(manifest.edges, source.edges.len() as u64);
    assert_eq!(manifest.vertices, expected.len() as u64);
    assert_eq!(manifest.dangling, expected.values().filter(|&&degree| degree == 0).count() as u64);
    if let Auto::Value(columns) = setup.grid.columns {
        assert_eq!(manifest.columns.len() as u64, u64::from(columns).min(manifest.vertices));
    }
    let largest = source.edges.iter().map(|edge| edge.weight.abs()).reduce(f64::max).unwrap_or(1.0);
    assert_eq!(manifest.max_abs_weight.to_bits(), largest.to_bits());
    let expected = if largest > 0.0 { max_in_weight(source, largest) } else { 0.0 };
    assert!((manifest.max_in_weight as f64 - expected).abs() <= source.edges.len() as f64);
    let exact =
        source.edges.iter().all(|edge| f64::from(edge.weight as f32).to_bits() == edge.weight.to_bits());
    let kind = match (source.weighted, exact) {
        (false, _) => WeightKind::Unit,
        (true, true) => WeightKind::F32,
        (true, false) => WeightKind::F64,
    };
    assert_eq!(manifest.weights, kind);
    let verified = verify(grid).unwrap();
    assert_eq!((verified.edges, verified.dataset_checksum), (manifest.edges, manifest.dataset_checksum));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_layout_gives_back_the_same_edges_and_one_checksum(source in graphs(), setup in setups()) {
        let data = tempfile::tempdir().unwrap();
        let grid = setup.build(data.path(), &source).unwrap();
        check(&source, &setup, &grid);
        let plain = tempfile::tempdir().unwrap();
        let other = Setup::default().build(plain.path(), &source).unwrap();
        check(&source, &Setup::default(), &other);
        prop_assert_eq!(grid.manifest.dataset_checksum, other.manifest.dataset_checksum);
        prop_assert_eq!(grid.manifest.max_in_weight, other.manifest.max_in_weight);
        prop_assert_eq!(grid.manifest.self_loops, other.manifest.self_loops);
    }
}

#[test]
fn order_auto_takes_the_order_with_fewer_bytes() {
    const VERTICES: u64 = 300_000;
    let mixed = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    // Few sources have most arcs, and ids say nothing of which; or arcs come from near by.
    let skewed = |at: u64| {
        let uniform = mixed(at) as f64 / (1_u64 << 32) as f64;
        let source = (uniform.powi(4) * VERTICES as f64) as u64;
        (source * 7919 % VERTICES, mixed(!at) % VERTICES)
    };
    let local = |at: u64| (at / 5, (at / 5 + at % 5) % VERTICES);
    let skewed: Vec<_> = (0..1_500_000).map(skewed).collect();
    let local: Vec<_> = (0..1_500_000).map(local).collect();
    for (pairs, fewest) in [(skewed, Order::Degree), (local, Order::Natural)] {
        let source = MemorySource::new(VertexSet::Range, &pairs);
        let built = |order| {
            let data = tempfile::tempdir().unwrap();
            let mut setup = Setup::default();
            (setup.grid.encoding, setup.grid.order) = (EncodingSpec::Compact, order);
            let grid = setup.build(data.path(), &source).unwrap();
            (grid.total_bytes(), grid.manifest.order)
        };
        let (natural, degree) = (built(VertexOrderSpec::Natural), built(VertexOrderSpec::Degree));
        let best = if natural.0 <= degree.0 { natural } else { degree };
        assert_eq!(best.1, fewest, "{natural:?} {degree:?}");
        assert_eq!(built(VertexOrderSpec::Auto), best);
    }
}

#[test]
fn the_smallest_graphs_are_graphs() {
    let graphs = [
        MemorySource::new(VertexSet::Seen, &[]),
        MemorySource::new(VertexSet::Range, &[]),
        MemorySource::new(VertexSet::Given(0), &[]),
        MemorySource::new(VertexSet::Given(5), &[]),
        MemorySource::new(VertexSet::Declared(1), &[(0, 0)]),
        MemorySource::new(VertexSet::Seen, &[(u64::MAX, u64::MAX)]),
        MemorySource::new(VertexSet::Seen, &[(u64::MAX, 0), (1 << 63, 1 << 40)]),
    ];
    for source in graphs {
        for ssds in [1, 3] {
            let mut setup = Setup::default();
            setup.storage.ssds = ssds;
            let data = tempfile::tempdir().unwrap();
            check(&source, &setup, &setup.build(data.path(), &source).unwrap());
        }
    }
}

#[test]
fn within_a_column_sources_come_window_by_window_and_destinations_in_order() {
    let pairs: Vec<(u64, u64)> = (0..50_000).map(|i| (i * 7919 % 3000, i * 104_729 % 3000)).collect();
    let source = MemorySource::new(VertexSet::Range, &pairs);
    let mut setup = Setup::default();
    setup.grid.source_window = Auto::Value(700);
    setup.grid.columns = Auto::Value(3);
    let data = tempfile::tempdir().unwrap();
    let grid = setup.build(data.path(), &source).unwrap();
    assert_eq!(grid.manifest.columns.len(), 3);
    for column in 0..3 {
        let mut reader =
            EdgeReader::of_columns(&grid, column..column + 1, std::sync::Arc::default()).unwrap();
        let mut keys = Vec::new();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            chunk.for_each(|source, target, _| keys.push((source / 700, target, source)));
        }
        assert!(keys.len() > 10_000 && keys.is_sorted());
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let pairs: Vec<(u64, u64)> = (0..50_000).map(|i| (i * 7919 % 3000, i * i % 2000)).collect();
    let source = MemorySource::new(VertexSet::Seen, &pairs);
    let setup = Setup { threads: 4, ..Setup::default() };
    let edges = || {
        let data = tempfile::tempdir().unwrap();
        let grid = setup.build(data.path(), &source).unwrap();
        let (mut reader, mut edges) = (EdgeReader::new(&grid).unwrap(), Vec::new());
        while let Some(chunk) = reader.next_chunk().unwrap() {
            edges.push((chunk.header.sequence, chunk.header.edges, chunk.header.digest));
            chunk.for_each(|source, target, _| edges.push((source, 0, target)));
        }
        edges
    };
    assert_eq!(edges(), edges());
}
