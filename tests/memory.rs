//! What a budget counts is what memory costs. Alone in its process, so that nothing else moves the figures.

use ioc_grid::storage::buffer::AlignedBuffer;

/// Bytes of memory that this process holds.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024.0 * line.trim().trim_end_matches(" kB").parse::<f64>().unwrap()
}

#[test]
fn a_block_costs_its_bytes_and_nothing_until_it_is_written() {
    const BLOCK: usize = 32 << 10;
    const BLOCKS: usize = 2000;
    let total = (BLOCK * BLOCKS) as f64;
    let before = resident();
    let mut blocks: Vec<_> = (0..BLOCKS).map(|_| AlignedBuffer::new(BLOCK)).collect();
    let fresh = resident() - before;
    assert!(fresh < 0.05 * total, "{fresh} bytes for {total} that nobody has written");
    for block in &mut blocks {
        block.fill(7);
    }
    let written = resident() - before;
    assert!((0.95..1.02).contains(&(written / total)), "{written} bytes for {total}");
    drop(blocks);
    let after = resident() - before;
    assert!(after < 0.05 * total, "{after} bytes are not given back");
}
