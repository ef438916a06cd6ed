//! Exports, read back by other means: an import, and a reader of GAPBS's format of this file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{MemorySource, Setup};
use crate::dataset::{self, Context, Edge, EdgeSource, VertexSet};
use crate::grid::digest::{dataset_checksum, digest};
use crate::grid::{ExportPath, ExportRequest, Exported, GridError, export};
use crate::interrupt::Interrupt;
use crate::job::spec::{DatasetSpec, ExportFormatSpec, FormatSpec, KroneckerSpec, SourceSpec, WeightsSpec};
use crate::progress::Silent;

const GRIDGRAPH: ExportFormatSpec = ExportFormatSpec::Gridgraph;
const GAPBS: ExportFormatSpec = ExportFormatSpec::Gapbs;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn export(
        &self,
        source: &dyn EdgeSource,
        format: ExportFormatSpec,
        change: impl Fn(&mut ExportRequest<'_>),
    ) -> Result<(PathBuf, Exported), GridError> {
        let interrupt = Interrupt::new();
        let context = Context { threads: 2, interrupt: &interrupt, progress: &Silent };
        let mut request = ExportRequest {
            source,
            format,
            directed: true,
            expected_edges: None,
            memory: 1 << 30,
            stage: "test",
        };
        change(&mut request);
        export(ExportPath::Folder(self.0.path()), request, context)
    }
}

fn spec(source: SourceSpec) -> DatasetSpec {
    let (vertices, edges, weights) = (None, None, WeightsSpec::Auto);
    DatasetSpec { name: "x".into(), source, vertices, edges, directed: true, weights, skip_lines: 0 }
}

fn file(path: &Path, format: FormatSpec, vertices: u64) -> DatasetSpec {
    let source = SourceSpec::File { path: path.to_owned(), format, sha256: None };
    DatasetSpec { vertices: Some(vertices), ..spec(source) }
}

fn kronecker(weights: bool) -> Box<dyn EdgeSource> {
    let kronecker = KroneckerSpec { scale: 10, edge_factor: 8, seed: 1, weights };
    dataset::open(&spec(SourceSpec::Kronecker(kronecker))).unwrap()
}

fn weighted(vertices: VertexSet, edges: &[(u64, u64, f64)]) -> MemorySource {
    let mut source = MemorySource::new(vertices, &[]);
    let edge = |&(source, target, weight)| Edge { source, target, weight };
    source.edges = edges.iter().map(edge).collect();
    source.weighted = true;
    source
}

/// Checksum of the grid that an import of the source makes.
fn checksum(source: &dyn EdgeSource) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    Setup::default().build(folder.path(), source).unwrap().manifest.dataset_checksum
}

/// Rows of both directions of a serialized graph, as its reader in GAPBS has them; of an undirected one only the first.
struct Rows {
    directed: bool,
    rows: Vec<Vec<Vec<(u32, i32)>>>,
}

fn read_rows(path: &Path) -> Rows {
    let bytes = std::fs::read(path).unwrap();
    let weighted = path.extension().unwrap() == "wsg";
    let mut at = 0;
    let mut take = |count: usize| {
        at += count;
        bytes[at - count..at].to_vec()
    };
    let number = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
    let word = |bytes: Vec<u8>| u32::from_le_bytes(bytes.try_into().unwrap());
    let directed = take(1)[0] == 1;
    let (edges, vertices) = (number(take(8)), number(take(8)));
    let mut rows = Vec::new();
    for _ in 0..if directed { 2 } else { 1 } {
        let offsets: Vec<u64> = (0..=vertices).map(|_| number(take(8))).collect();
        let arcs: Vec<(u32, i32)> = (0..edges)
            .map(|_| (word(take(4)), if weighted { word(take(4)).cast_signed() } else { 1 }))
            .collect();
        rows.push(offsets.windows(2).map(|ends| arcs[ends[0] as usize..ends[1] as usize].to_vec()).collect());
    }
    assert_eq!(at, bytes.len(), "nothing is behind the rows");
    Rows { directed, rows }
}

impl Rows {
    /// How often there is each arc, by the rows of one direction.
    fn arcs(&self, direction: usize) -> BTreeMap<(u32, u32, i32), usize> {
        let mut arcs = BTreeMap::new();
        for (row, others) in self.rows[direction].iter().enumerate() {
            for &(other, weight) in others {
                let (source, target) = if direction == 0 { (row as u32, other) } else { (other, row as u32) };
                *arcs.entry((source, target, weight)).or_default() += 1;
            }
        }
        arcs
    }

    fn checksum(&self) -> u64 {
        let one = |((source, target, weight), count): ((u32, u32, i32), usize)| {
            digest(source.into(), target.into(), f64::from(weight).to_bits()).wrapping_mul(count as u64)
        };
        let sum = self.arcs(0).into_iter().map(one).fold(0, u64::wrapping_add);
        dataset_checksum(sum, self.rows[0].len() as u64)
    }
}

#[test]
fn a_gridgraph_export_imported_again_is_the_same_data_set() {
    for weights in [false, true] {
        let place = Place::new();
        let source = kronecker(weights);
        let (path, exported) = place.export(source.as_ref(), GRIDGRAPH, |_| ()).unwrap();
        assert_eq!((exported.weighted, exported.vertices, exported.edges), (weights, 1024, 8192));
        assert_eq!(exported.bytes, 8192 * if weights { 12 } else { 8 });
        assert_eq!(exported.dataset_checksum, checksum(source.as_ref()));
        let format = if weights { FormatSpec::GridgraphWeighted } else { FormatSpec::Gridgraph };
        let again = dataset::open(&file(&path, format, exported.vertices)).unwrap();
        assert_eq!((checksum(again.as_ref()), exported.rounded), (exported.dataset_checksum, 0));
    }
}

#[test]
fn a_gapbs_export_has_every_arc_in_both_directions_whatever_the_memory() {
    let source = kronecker(false);
    let mut files = Vec::new();
    // The least is what the offsets, the threads and a few thousand arcs take.
    for memory in [1 << 30, (20 << 20) + 8 * 1025 + 4 * 3000] {
        let place = Place::new();
        let (path, exported) =
            place.export(source.as_ref(), GAPBS, |request| request.memory = memory).unwrap();
        let rows = read_rows(&path);
        assert!(rows.directed && path.ends_with("graph.sg"));
        assert_eq!(rows.arcs(0), rows.arcs(1));
        assert_eq!(rows.arcs(0).values().sum::<usize>(), 8192);
        assert!(rows.rows.iter().flatten().all(|row| row.is_sorted()));
        assert_eq!(rows.checksum(), checksum(source.as_ref()));
        assert_eq!(exported.dataset_checksum, checksum(source.as_ref()));
        files.push(std::fs::read(path).unwrap());
    }
    assert!(files[0] == files[1]);
}

#[test]
fn isolated_vertices_loops_and_repeated_arcs_stay() {
    let place = Place::new();
    let source = MemorySource::new(VertexSet::Given(7), &[(1, 1), (0, 2), (0, 2)]);
    let (path, exported) = place.export(&source, GAPBS, |_| ()).unwrap();
    let rows = read_rows(&path);
    assert_eq!((rows.rows[0].len(), exported.edges), (7, 3));
    assert_eq!(rows.rows[0][..2], [vec![(2, 1), (2, 1)], vec![(1, 1)]]);
    let (path, exported) = place.export(&source, GRIDGRAPH, |_| ()).unwrap();
    assert_eq!((std::fs::read(path).unwrap().len(), exported.vertices), (24, 7));
}

#[test]
fn sparse_ids_are_numbered_by_rank_and_the_order_is_that_of_the_source() {
    let place = Place::new();
    let source = MemorySource::new(VertexSet::Seen, &[(900, 5), (5, 1 << 40), (7, 900)]);
    let (path, _) = place.export(&source, GRIDGRAPH, |_| ()).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let ids: Vec<u32> = bytes.as_chunks::<4>().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
    assert_eq!(ids, [2, 0, 0, 3, 1, 2]);
}

#[test]
fn weights_that_show_late_and_weights_of_one_are_weights() {
    let mut edges: Vec<(u64, u64, f64)> = (0..50_000).map(|id| (id % 100, id % 99, 1.0)).collect();
    let place = Place::new();
    let (path, exported) = place.export(&weighted(VertexSet::Range, &edges), GRIDGRAPH, |_| ()).unwrap();
    assert!(exported.weighted && path.ends_with("edges.wbin"));
    edges.push((0, 1, 0.1));
    let (path, exported) = place.export(&weighted(VertexSet::Range, &edges), GRIDGRAPH, |_| ()).unwrap();
    assert_eq!((exported.bytes, exported.rounded), (50_001 * 12, 1));
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes[bytes.len() - 4..], 0.1_f32.to_le_bytes());
}

#[test]
fn an_undirected_graph_is_written_once_and_says_so() {
    let place = Place::new();
    let source = MemorySource::new(VertexSet::Given(3), &[(0, 1), (1, 0), (2, 2)]);
    let (path, _) = place.export(&source, GAPBS, |request| request.directed = false).unwrap();
    let rows = read_rows(&path);
    assert_eq!((rows.directed, rows.rows.len()), (false, 1));
    assert_eq!(rows.rows[0], [[(1, 1)], [(0, 1)], [(2, 1)]]);
}

#[test]
fn whole_weights_go_to_a_wsg() {
    let place = Place::new();
    let source = weighted(VertexSet::Given(2), &[(0, 1, 3.0), (0, 1, -7.0), (1, 0, 1.0)]);
    let (path, exported) = place.export(&source, GAPBS, |_| ()).unwrap();
    let rows = read_rows(&path);
    assert!(exported.weighted && path.ends_with("graph.wsg"));
    assert_eq!(rows.rows[0], [vec![(1, -7), (1, 3)], vec![(0, 1)]]);
    assert_eq!(rows.checksum(), exported.dataset_checksum);
}

#[test]
fn what_a_format_cannot_hold_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let refused = |source: &dyn EdgeSource, format, change: &dyn Fn(&mut ExportRequest<'_>)| {
        let error = place.export(source, format, change).map(|_| ()).unwrap_err().to_string();
        assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 0, "{error}");
        error
    };
    let half = weighted(VertexSet::Given(2), &[(0, 1, 0.5)]);
    insta::assert_snapshot!(refused(&half, GAPBS, &|_| ()), @r#"memory(1 edges) has an edge 0 -> 1 with the weight 0.5, and gapbs holds whole numbers of 32 bits; export without weights by weights = "none" of the data set, or as gridgraph"#);
    let large = weighted(VertexSet::Given(2), &[(0, 1, 1e300)]);
    insta::assert_snapshot!(refused(&large, GRIDGRAPH, &|_| ()), @r#"memory(1 edges) has an edge 0 -> 1 with the weight 1e300, and gridgraph holds 32-bit floats; scale the weights, or export without them by weights = "none" of the data set"#);
    let many = MemorySource::new(VertexSet::Given(1 << 31), &[]);
    insta::assert_snapshot!(refused(&many, GAPBS, &|_| ()), @"memory(0 edges) has 2147483648 vertices, and ids of GAPBS are below 2^31; export it as gridgraph, or take a smaller graph");
    let wide = MemorySource::new(VertexSet::Given(1 << 27), &[]);
    insta::assert_snapshot!(refused(&wide, GAPBS, &|request| request.memory = 64 << 20), @"export of memory(0 edges) needs at least 1045 MiB of memory (1073741832 bytes of offsets and room for arcs), the budget is 64 MiB: raise it by --memory of `ioc dataset export` or `ioc build`");
    let some = MemorySource::new(VertexSet::Range, &[(0, 1)]);
    insta::assert_snapshot!(refused(&some, GRIDGRAPH, &|request| request.expected_edges = Some(2)), @"memory(1 edges) has 1 edges, but the data set says edges = 2; correct the entry, or fetch the file again if it was cut short");
}

#[test]
fn the_name_of_a_gapbs_file_says_whether_it_has_weights() {
    let place = Place::new();
    let source = MemorySource::new(VertexSet::Range, &[(0, 1)]);
    let interrupt = Interrupt::new();
    let context = Context { threads: 1, interrupt: &interrupt, progress: &Silent };
    let (directed, expected_edges, memory, stage) = (true, None, 1 << 30, "test");
    let request = ExportRequest { source: &source, format: GAPBS, directed, expected_edges, memory, stage };
    for (name, expected) in [
        ("graph.bin", "must end in .sg, or in .wsg where there are weights: GAPBS goes by the name"),
        ("graph.wsg", "must end in .sg, since there are no weights: GAPBS goes by the name"),
    ] {
        let refused = export(ExportPath::File(&place.path(name)), request, context).map(|_| ());
        let error = refused.unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    export(ExportPath::File(&place.path("a.sg")), request, context).unwrap();
    assert!(place.path("a.sg").is_file());
}
