//! What an edge costs once its chunk is in memory: checking and adding up, for each encoding. One thread; the grid's
//! bytes, the contributions and the sums lie in memory, so the figures are those of the code and the caches.

#![allow(missing_docs, reason = "the functions that criterion's macros make have none")]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioc_grid::dataset::{self, Context};
use ioc_grid::grid::{self, BlockView, Edges, Grid, LayoutRequest, Lookup, Near, RawEdges, Sum};
use ioc_grid::interrupt::Interrupt;
use ioc_grid::job::spec::{
    Auto, DatasetSpec, EncodingSpec, GridSpec, KroneckerSpec, SourceSpec, StorageSpec, VertexOrderSpec,
    WeightsSpec,
};
use ioc_grid::progress::Silent;
use ioc_grid::storage::buffer::AlignedBuffer;

/// log2 of the vertices: `IOC_BENCH_SCALE`, by default one whose sums and contributions fit the last-level cache.
fn scale() -> u32 {
    std::env::var("IOC_BENCH_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(20)
}

fn build(folder: &Path, encoding: EncodingSpec, order: VertexOrderSpec) -> Grid {
    let kronecker = KroneckerSpec { scale: scale(), edge_factor: 16, seed: 1, weights: false };
    let spec = DatasetSpec {
        name: format!("kron-{}", kronecker.scale),
        source: SourceSpec::Kronecker(kronecker),
        vertices: None,
        edges: None,
        directed: true,
        weights: WeightsSpec::Auto,
        skip_lines: 0,
    };
    let (columns, source_window, interleave) = (Auto::Auto, Auto::Auto, Auto::Auto);
    let grid = GridSpec { encoding, columns, source_window, order, interleave };
    let storage =
        StorageSpec { devices: Vec::new(), ssds: 1, stripe: 1 << 20, rated: None, emulate: None, keep: true };
    let request = LayoutRequest { dataset: &spec.name, fingerprint: "bench", grid: &grid, storage: &storage };
    let source = dataset::open(&spec).expect("a generator that opens");
    let interrupt = Interrupt::new();
    let context = Context { threads: 2, interrupt: &interrupt, progress: &Silent };
    grid::build(folder, &request, source.as_ref(), None, 2 << 30, context).expect("a grid")
}

/// The columns' bytes.
fn load(grid: &Grid) -> Vec<AlignedBuffer> {
    let file = std::fs::read(&grid.paths.parts[0]).expect("a device's file");
    let column = |column: u32| {
        let range = grid.column_bytes(column);
        let bytes = &file[range.start as usize..range.end as usize];
        let mut buffer = AlignedBuffer::new(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    };
    (0..grid.manifest.columns.len() as u32).map(column).collect()
}

fn views<'a>(grid: &'a Grid, columns: &'a [AlignedBuffer]) -> impl Iterator<Item = BlockView<'a>> {
    let view = |(column, bytes): (usize, &'a AlignedBuffer)| {
        let offset = grid.column_bytes(column as u32).start;
        BlockView::new(bytes, grid.expectation(column as u32, 0, offset))
    };
    columns.iter().enumerate().map(view)
}

fn check(grid: &Grid, columns: &[AlignedBuffer]) -> u64 {
    let chunks = views(grid, columns).flatten();
    chunks.map(|chunk| u64::from(chunk.expect("a sound chunk").header.edges)).sum()
}

/// One PageRank pass without the vertices' part.
fn add_up(grid: &Grid, columns: &[AlignedBuffer], contributions: &[f32], sums: &mut [f64]) {
    for (view, column) in views(grid, columns).zip(&grid.manifest.columns) {
        let sums = &mut sums[column.first_vertex as usize..column.end_vertex as usize];
        let mut add = |target: usize, sum: f64| sums[target] += sum;
        for chunk in view {
            match chunk.expect("a sound chunk").edges {
                Edges::Raw(RawEdges::Unit(edges)) => {
                    for edge in edges {
                        add(edge.destination as usize, contributions[edge.source as usize].into());
                    }
                }
                Edges::Raw(_) => unreachable!("the graph has no weights"),
                Edges::Compact(cells) => {
                    let fold = Sum::of(|value: f32, _| value.into());
                    cells.fold(Lookup::all(contributions), &mut Near::default(), fold, &mut add);
                }
            }
        }
    }
}

fn decode(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut group = criterion.benchmark_group("decode");
    group.sample_size(20).measurement_time(Duration::from_secs(6));
    let natural = VertexOrderSpec::Natural;
    for (name, encoding, order) in [
        ("raw", EncodingSpec::Raw, natural),
        ("compact", EncodingSpec::Compact, natural),
        ("compact by degree", EncodingSpec::Compact, VertexOrderSpec::Degree),
    ] {
        let grid = build(folder.path(), encoding, order);
        let columns = load(&grid);
        group.throughput(Throughput::Elements(grid.manifest.edges));
        let contributions = vec![1.0_f32 / 1024.0; grid.manifest.vertices as usize];
        let mut sums = vec![0.0; grid.manifest.vertices as usize];
        group.bench_function(format!("{name}/check"), |bencher| {
            bencher.iter(|| check(&grid, black_box(&columns)));
        });
        group.bench_function(format!("{name}/check and add up"), |bencher| {
            bencher.iter(|| add_up(&grid, black_box(&columns), &contributions, &mut sums));
        });
    }
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
