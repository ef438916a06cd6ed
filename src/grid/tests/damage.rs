//! No damage goes unnoticed.

use std::fs;

use super::*;
use crate::grid::chunk::{CHUNK, ChunkHeader, HEADER, PAYLOAD};
use crate::grid::manifest::{Manifest, Order, WeightKind};
use crate::grid::{BlockView, ChunkError, ChunkFault, Edges, KeptBlock, Lookup, Near, Sum};
use crate::storage::buffer::AlignedBuffer;

fn small(data: &Path) -> Grid {
    small_as(data, EncodingSpec::Raw, VertexOrderSpec::Natural)
}

fn small_as(data: &Path, encoding: EncodingSpec, order: VertexOrderSpec) -> Grid {
    let pairs = [(900, 3), (3, 900), (5, 5), (3, 900), (1 << 40, 3), (77, 900), (900, 1 << 40)];
    let mut source = MemorySource::new(VertexSet::Seen, &pairs);
    source.weighted = true;
    source.edges[2].weight = 0.25;
    let mut setup = Setup::default();
    (setup.grid.columns, setup.grid.encoding, setup.grid.order) = (Auto::Value(2), encoding, order);
    (setup.storage.ssds, setup.storage.stripe) = (2, CHUNK as u64);
    setup.build(data, &source).unwrap()
}

/// Flips each of the bytes in turn and restores it.
fn with_flipped_bytes(path: &Path, at: impl Iterator<Item = usize>, mut check: impl FnMut(usize)) {
    let original = fs::read(path).unwrap();
    for at in at {
        let mut damaged = original.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(path, &damaged).unwrap();
        check(at);
    }
    fs::write(path, original).unwrap();
}

#[test]
fn every_flipped_byte_of_the_edges_is_found_and_located() {
    for encoding in [EncodingSpec::Raw, EncodingSpec::Compact] {
        for order in [VertexOrderSpec::Natural, VertexOrderSpec::Degree] {
            let data = tempfile::tempdir().unwrap();
            every_flipped_byte_is_found(&small_as(data.path(), encoding, order));
        }
    }
}

fn every_flipped_byte_is_found(grid: &Grid) {
    verify(grid).unwrap();
    for (device, part) in grid.paths.parts.iter().enumerate() {
        let len = fs::metadata(part).unwrap().len() as usize;
        assert_eq!(len, CHUNK);
        let bytes = (0..HEADER + 200).chain((HEADER + 200..len).step_by(61)).chain([len - 1]);
        with_flipped_bytes(part, bytes, |at| match verify(grid) {
            Err(GridError::Chunk { path, error }) => {
                assert_eq!((&path, error.device, error.offset), (part, device, 0), "byte {at}");
                assert_eq!((error.sequence, error.column), (device as u64, device as u32));
            }
            other => panic!("byte {at} of device {device}: {other:?}"),
        });
    }
    verify(grid).unwrap();
}

#[test]
fn every_flipped_byte_of_the_files_beside_the_edges_is_found() {
    let data = tempfile::tempdir().unwrap();
    let grid = small_as(data.path(), EncodingSpec::Compact, VertexOrderSpec::Degree);
    for path in [grid.paths.degrees(), grid.paths.ids(), grid.paths.order(), grid.paths.contents()] {
        let len = fs::metadata(&path).unwrap().len() as usize;
        with_flipped_bytes(&path, 0..len, |at| {
            let found = verify(&grid);
            assert!(
                matches!(&found, Err(GridError::Damaged { path: of, .. }) if *of == path),
                "{at}: {found:?}"
            );
        });
    }
    fs::write(grid.paths.degrees(), []).unwrap();
    assert!(matches!(grid.degrees(), Err(GridError::Damaged { .. })));
}

#[test]
fn a_damaged_manifest_is_no_manifest() {
    let data = tempfile::tempdir().unwrap();
    let grid = small(data.path());
    let find = || crate::grid::list(data.path()).unwrap().remove(0).grid;
    let json = fs::read_to_string(grid.paths.manifest()).unwrap();
    // Space between tokens means nothing, and everything else something.
    let bytes = (0..json.len()).filter(|&at| !json.as_bytes()[at].is_ascii_whitespace());
    with_flipped_bytes(&grid.paths.manifest(), bytes, |at| assert!(find().is_none(), "byte {at}"));
    assert_eq!(find().unwrap().manifest, grid.manifest);
}

#[test]
fn a_chunk_in_the_wrong_place_or_of_another_build_is_an_error() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (grid, other) = (small(data.path()), small(other.path()));
    let [first, second] = &grid.paths.parts[..] else { panic!("two devices") };
    let fault = |expected: &str| match verify(&grid) {
        Err(GridError::Chunk { error, .. }) => match error.fault {
            ChunkFault::Field { field, .. } => assert_eq!(field, expected),
            fault => panic!("{fault}"),
        },
        other => panic!("{other:?}"),
    };
    let original = fs::read(first).unwrap();
    fs::copy(second, first).unwrap();
    fault("number");
    fs::copy(&other.paths.parts[0], first).unwrap();
    fault("grid id");
    fs::write(first, original).unwrap();
    verify(&grid).unwrap();
}

#[test]
fn a_block_view_gives_the_chunks_of_a_request_and_stops_at_the_first_fault() {
    let pairs: Vec<(u64, u64)> = (0..30_000).map(|i| (i % 100, i * 31 % 100)).collect();
    let mut setup = Setup::default();
    setup.grid.columns = Auto::Value(1);
    (setup.storage.ssds, setup.storage.stripe) = (2, 2 * CHUNK as u64);
    let data = tempfile::tempdir().unwrap();
    let grid = setup.build(data.path(), &MemorySource::new(VertexSet::Range, &pairs)).unwrap();
    assert_eq!(grid.manifest.columns[0].chunks, 8);
    let extent = grid.stripes().extent(1, grid.column_bytes(0));
    let file = fs::read(&grid.paths.parts[1]).unwrap();
    assert_eq!(extent, 0..4 * CHUNK as u64);
    let mut block = AlignedBuffer::new(3 * CHUNK);
    block.copy_from_slice(&file[CHUNK..]);
    let expect = grid.expectation(0, 1, CHUNK as u64);
    let numbers = BlockView::new(&block, expect).map(|chunk| chunk.unwrap().header.sequence);
    // Device 1 has the stripes 1 and 3: chunks 2, 3, 6, 7.
    assert!(numbers.eq([3, 6, 7]));
    block[CHUNK + 100] ^= 1;
    let results: Vec<_> = BlockView::new(&block, expect).collect();
    assert_eq!(results.len(), 2);
    let error = results[1].clone().unwrap_err();
    assert_eq!((error.sequence, error.offset), (6, 2 * CHUNK as u64));
    let cut = BlockView::new(&block[..CHUNK / 2], expect).next().unwrap();
    assert_eq!(cut.unwrap_err().fault, ChunkFault::Cut { found: CHUNK / 2 });
    let misaligned = BlockView::new(&file[CHUNK + 4..2 * CHUNK + 4], expect).next().unwrap();
    assert!(misaligned.is_err());
}

/// A graph whose one chunk has pieces of every shape, steps of both widths, and escapes.
fn of_all_shapes(weighted: bool) -> MemorySource {
    let mut pairs = Vec::new();
    for row in 0..60_u64 {
        let target = if row < 50 { row * 3 } else { row * 9000 };
        for edge in 0..row * 3 {
            // Runs, close and far sources in turn.
            let gap = [1, 7, 300][(row % 3) as usize];
            pairs.push((edge * gap % 60_000, target));
        }
        pairs.push((65_500 + row % 36, target));
    }
    let mut source = MemorySource::new(VertexSet::Given(600_000), &pairs);
    if weighted {
        source.weighted = true;
        source.edges.iter_mut().zip(0..).for_each(|(edge, i)| edge.weight = f64::from(i % 9) / 3.0);
    }
    source
}

fn aligned(file: &[u8]) -> AlignedBuffer {
    let mut block = AlignedBuffer::new(CHUNK);
    block.copy_from_slice(&file[..CHUNK]);
    block
}

/// What a damaged chunk with a right checksum may do: be refused, or give edges that are in range.
fn refused_or_in_range(block: &mut [u8], grid: &Grid) -> bool {
    let header: ChunkHeader = bytemuck::pod_read_unaligned(&block[..HEADER]);
    let payload = (header.payload as usize).min(PAYLOAD);
    let checksum = header.checksum_over(&block[HEADER..HEADER + payload]);
    block[..HEADER].copy_from_slice(bytemuck::bytes_of(&ChunkHeader { checksum, ..header }));
    let Some(Ok(chunk)) = BlockView::new(block, grid.expectation(0, 0, 0)).next() else { return true };
    let vertices = grid.manifest.vertices;
    let mut edges = 0;
    chunk.for_each(|source, target, _| {
        assert!(source < vertices && target < vertices);
        edges += 1;
    });
    assert_eq!(edges, chunk.header.edges);
    let Edges::Compact(cells) = chunk.edges else { panic!("a compact chunk") };
    // Assertions of the test profile see that every source has a value.
    let values = vec![0.0_f32; vertices as usize];
    let fold = Sum::of(|value: f32, _| value.into());
    cells.fold(Lookup::all(&values), &mut Near::default(), fold, &mut |target, _| {
        assert!((target as u64) < vertices);
    });
    false
}

#[test]
fn a_damaged_payload_with_a_right_checksum_is_refused_or_stays_in_range() {
    for weighted in [false, true] {
        let data = tempfile::tempdir().unwrap();
        let setup = Setup {
            grid: GridSpec {
                encoding: EncodingSpec::Compact,
                order: VertexOrderSpec::Natural,
                columns: Auto::Value(1),
                ..Setup::default().grid
            },
            ..Setup::default()
        };
        let grid = setup.build(data.path(), &of_all_shapes(weighted)).unwrap();
        let file = fs::read(&grid.paths.parts[0]).unwrap();
        let mut block = aligned(&file);
        let mut refused = 0;
        let header: ChunkHeader = bytemuck::pod_read_unaligned(&file[..HEADER]);
        let end = HEADER + header.payload as usize;
        assert!(end > 2000 && !refused_or_in_range(&mut aligned(&file), &grid));
        // Every byte of the first cell's head and some of all others, to the values that are likeliest to be wrong;
        // in the header, the edges and the payload's length.
        let places = (HEADER..HEADER + 80).chain((HEADER + 80..end).step_by(37)).chain(36..40).chain(48..52);
        for at in places {
            for value in [0, 1, 0x7f, 0x80, 0xff, file[at] ^ 1, file[at] ^ 0x10] {
                block.copy_from_slice(&file[..CHUNK]);
                block[at] = value;
                refused += u32::from(refused_or_in_range(&mut block, &grid));
            }
        }
        assert!(refused > 200, "{refused}");
    }
}

/// Writes a manifest as if it were right.
fn seal(grid: &Grid, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = grid.manifest.clone();
    change(&mut manifest);
    fs::write(grid.paths.manifest(), manifest.to_json().unwrap()).unwrap();
}

#[test]
fn a_manifest_with_a_right_checksum_that_contradicts_itself_is_no_manifest() {
    let data = tempfile::tempdir().unwrap();
    let grid = small(data.path());
    let find = || crate::grid::list(data.path()).unwrap().remove(0).grid;
    let changes: &[fn(&mut Manifest)] = &[
        |m| m.ssds = 0,
        |m| m.stripe = 0,
        |m| m.stripe += 1,
        |m| m.part_bytes.truncate(1),
        |m| m.part_bytes[0] -= 1,
        |m| m.part_bytes[1] += CHUNK as u64,
        |m| m.vertices = u64::MAX,
        |m| m.vertices += 1,
        |m| m.source_window = 0,
        |m| m.columns.truncate(1),
        |m| m.columns.clear(),
        |m| m.columns[0].first_vertex = 1,
        |m| m.columns[0].end_vertex = u64::MAX,
        |m| m.columns[0].end_vertex += 1,
        |m| m.columns[1].end_vertex = m.columns[1].first_vertex,
        |m| m.columns[1].first_chunk = 0,
        |m| m.columns[0].chunks = 0,
        |m| m.columns[1].chunks = u64::MAX,
        |m| m.columns[1].chunks = u64::MAX / CHUNK as u64,
        |m| m.columns[0].edges -= 1,
        |m| m.columns[0].edges = u64::MAX,
        |m| (m.columns[0].edges, m.edges) = (1 << 40, (1 << 40) + m.columns[1].edges),
        |m| (m.columns[0].edges, m.edges) = (0, m.columns[1].edges),
        |m| m.edges += 1,
        |m| m.dangling = m.vertices + 1,
        |m| m.dangling = m.vertices,
        |m| m.self_loops = m.edges + 1,
        |m| m.negative_weights = m.edges + 1,
        |m| m.max_abs_weight = f64::NAN,
        |m| m.max_abs_weight = f64::INFINITY,
        |m| m.max_abs_weight = -1.0,
        |m| m.max_in_weight = 0,
        |m| m.max_in_weight = u64::MAX,
        |m| m.order = Order::Degree,
        |m| m.order_checksum = Some(1),
    ];
    seal(&grid, |_| ());
    assert_eq!(find().unwrap().manifest, grid.manifest);
    for (number, change) in changes.iter().enumerate() {
        seal(&grid, change);
        assert!(find().is_none(), "change {number}");
    }
    let mut unit = grid.manifest.clone();
    (unit.weights, unit.max_abs_weight) = (WeightKind::Unit, 0.5);
    assert!(crate::grid::consistency::check(&unit).is_err());
}

/// Seals a chunk again after a change of its header.
fn reseal(path: &Path, change: impl FnOnce(&mut ChunkHeader)) {
    let mut bytes = fs::read(path).unwrap();
    let mut header: ChunkHeader = bytemuck::pod_read_unaligned(&bytes[..HEADER]);
    change(&mut header);
    let end = HEADER + header.payload as usize;
    header.checksum = header.checksum_over(&bytes[HEADER..end]);
    bytes[end..CHUNK].fill(0);
    bytes[..HEADER].copy_from_slice(bytemuck::bytes_of(&header));
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_chunk_sealed_again_with_fewer_edges_or_a_source_base_is_an_error_for_every_reader() {
    let data = tempfile::tempdir().unwrap();
    let grid = small(data.path());
    let original = fs::read(&grid.paths.parts[0]).unwrap();
    let edge = grid.manifest.weights.edge_bytes() as u32;
    reseal(&grid.paths.parts[0], |header| {
        (header.edges, header.payload) = (header.edges - 1, header.payload - edge);
    });
    let read = || crate::grid::EdgeReader::new(&grid).unwrap().for_each(|_, _, _| ());
    let error = read().unwrap_err().to_string();
    assert!(error.contains("column 0 has 2 edges on its devices, expected 3"), "{error}");
    fs::write(&grid.paths.parts[0], original).unwrap();
    read().unwrap();
    reseal(&grid.paths.parts[0], |header| header.source_base = 1);
    let error = read().unwrap_err().to_string();
    assert!(error.contains("its source base is 0x1, expected 0x0"), "{error}");
}

#[test]
fn a_block_that_stays_is_checked_until_it_was_found_good_and_as_what_it_was() {
    for encoding in [EncodingSpec::Raw, EncodingSpec::Compact] {
        let data = tempfile::tempdir().unwrap();
        let grid = small_as(data.path(), encoding, VertexOrderSpec::Natural);
        let (here, elsewhere) = (grid.expectation(0, 0, 0), grid.expectation(1, 1, 0));
        let kept = |damage: usize| {
            let mut buffer = AlignedBuffer::new(CHUNK);
            buffer.copy_from_slice(&fs::read(&grid.paths.parts[0]).unwrap());
            buffer[HEADER] ^= damage as u8;
            KeptBlock::new(buffer)
        };
        let edges = |block: &KeptBlock, expect| {
            let mut edges = Vec::new();
            for chunk in block.view(CHUNK, expect) {
                chunk?.for_each(|source, target, weight| edges.push((source, target, weight.to_bits())));
            }
            Ok::<_, ChunkError>(edges)
        };
        let good = kept(0);
        let first = edges(&good, here).unwrap();
        assert!(!first.is_empty());
        for _ in 0..2 {
            assert_eq!(edges(&good, here).unwrap(), first);
            assert!(edges(&good, elsewhere).is_err());
        }
        let damaged = kept(1);
        for _ in 0..2 {
            assert!(edges(&damaged, here).is_err());
        }
    }
}
