//! Where rows end. Rows are of any length, and to ask of each edge whether it is the last of its row would be guessed
//! wrong once per row, which on sparse graphs is every other edge.

use super::sort::Record;

/// Edges whose rows are looked for at once.
const BLOCK: usize = 256;

/// The rows of some edges.
pub(super) struct Rows {
    ends: [u16; BLOCK + 1],
    count: usize,
}

impl Rows {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { ends: [0; BLOCK + 1], count: 0 }
    }

    /// Takes whole rows from the start of `edges`, which are sorted by destination and not none: as many as a block
    /// holds, or one that is longer.
    pub(super) fn find<'e, R: Record>(&mut self, edges: &mut &'e [R]) -> &'e [R] {
        let within = &edges[..edges.len().min(BLOCK + 1)];
        self.count = 0;
        for (pair, end) in within.windows(2).zip(1..) {
            self.ends[self.count] = end;
            self.count += usize::from(pair[0].destination() != pair[1].destination());
        }
        if within.len() == edges.len() {
            self.ends[self.count] = within.len() as u16;
            self.count += 1;
        }
        let end = match self.ends[..self.count].last() {
            Some(&end) => end.into(),
            None => edges.partition_point(|edge| edge.destination() == edges[0].destination()),
        };
        let (block, rest) = edges.split_at(end);
        *edges = rest;
        block
    }

    /// The rows of the block found last.
    pub(super) fn of<'b, R>(&self, block: &'b [R]) -> impl Iterator<Item = &'b [R]> {
        let starts = std::iter::once(0).chain(self.ends[..self.count].iter().map(|&end| usize::from(end)));
        let ends = self.ends[..self.count.max(1) - 1].iter().map(|&end| usize::from(end));
        starts.zip(ends.chain(std::iter::once(block.len()))).map(|(start, end)| &block[start..end])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grid::import::sort::Unweighted;

    proptest! {
        #[test]
        fn all_rows_are_found_whole(
            lengths in prop::collection::vec(prop_oneof![8 => 1..4_usize, 1 => 100..700_usize], 1..400),
        ) {
            let row = |(length, target): (&usize, u32)| (0..*length as u32).map(move |source| (source, target));
            let edges: Vec<_> = lengths.iter().zip(7..).flat_map(row).map(|(s, t)| Unweighted::new(s, t, 1.0)).collect();
            let (mut rest, mut rows, mut found) = (&edges[..], Rows::new(), Vec::new());
            while !rest.is_empty() {
                let block = rows.find(&mut rest);
                for row in rows.of(block) {
                    prop_assert!(row.iter().all(|edge| edge.destination() == row[0].destination()));
                    found.push(row.len());
                }
            }
            prop_assert_eq!(found, lengths);
        }
    }
}
