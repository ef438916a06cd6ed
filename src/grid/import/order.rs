//! Order `degree`: positions by descending out-degree, so that most edges come from few source windows, whose cells
//! are dense, and go to few destinations, whose sums stay in a near cache. Classes of degrees that differ by less
//! than a factor of 2 give nearly all of it, and keep the vertices of a class in their natural order. Vertices are
//! dealt to the columns in turn, by granules (two cache lines of sums), so that every column gets its share of each
//! class and all are of even work. Vertices without out-edges come last.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::dataset::{Context, Edge};
use crate::grid::error::GridError;
use crate::grid::parallel::lock;

use super::partition::PIECE;
use super::survey::{Edges, Keep, Survey, read_source, read_spill};

/// Vertices dealt to a column at once.
const GRANULE: u64 = 16;

/// Position of every vertex, by dense index; `columns` are ranges of positions that cover all of them.
pub(super) fn positions(
    survey: &Survey<'_>,
    columns: &[Range<u64>],
    stage: &str,
    context: Context<'_>,
) -> Result<Vec<u32>, GridError> {
    let degrees = count_degrees(survey, stage, context)?;
    let class = |degree: u32| u32::BITS - degree.leading_zeros();
    let mut classes = [0_u64; u32::BITS as usize + 1];
    for &degree in &degrees {
        classes[class(degree) as usize] += 1;
    }
    let mut positions = vec![0; degrees.len()];
    let mut next = deal(columns);
    for wanted in (0..=u32::BITS).rev().filter(|&wanted| classes[wanted as usize] > 0) {
        let of_class = degrees.iter().zip(&mut positions).filter(|(degree, _)| class(**degree) == wanted);
        // The columns have as many positions as there are vertices.
        of_class.zip(&mut next).for_each(|((_, position), next)| *position = next as u32);
    }
    Ok(positions)
}

/// Dense index of every position.
pub(super) fn inverse(positions: &[u32]) -> Vec<u32> {
    let mut dense = vec![0; positions.len()];
    for (&position, index) in positions.iter().zip(0..) {
        dense[position as usize] = index;
    }
    dense
}

/// All positions, a granule of each column in turn.
fn deal(columns: &[Range<u64>]) -> impl Iterator<Item = u64> {
    let longest = columns.iter().map(|column| column.end - column.start).max().unwrap_or(0);
    (0..longest.div_ceil(GRANULE)).flat_map(move |round| {
        columns.iter().flat_map(move |column| {
            let start = (column.start + round * GRANULE).min(column.end);
            start..(start + GRANULE).min(column.end)
        })
    })
}

/// Out-degrees by dense index. Edges with a vertex that there is not are left for the next phase to refuse.
fn count_degrees(survey: &Survey<'_>, stage: &str, context: Context<'_>) -> Result<Vec<u32>, GridError> {
    let degrees: Vec<AtomicU32> = (0..survey.ids.vertices()).map(|_| AtomicU32::new(0)).collect();
    let maps: Vec<_> = (0..context.threads).map(|_| Mutex::new(Vec::with_capacity(PIECE))).collect();
    let take = |worker: usize, edges: &[Edge]| {
        let mut dense = lock(&maps[worker]);
        for edges in edges.chunks(PIECE) {
            if survey.ids.map(edges, &mut dense).is_ok() {
                for &(source, _) in dense.iter() {
                    degrees[source as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    };
    let stage = format!("{stage}: count degrees");
    match &survey.edges {
        Edges::Source(source, _) => read_source(*source, &stage, context, take).map(|_| ())?,
        Edges::Spilled(edges, _) => read_spill(edges, Keep::All, &stage, context, take)?,
    }
    Ok(degrees.into_iter().map(AtomicU32::into_inner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_dealt_once_and_columns_take_turns() {
        let columns = [0..100, 100..150, 150..250, 250..250];
        let dealt: Vec<u64> = deal(&columns).collect();
        assert_eq!(dealt[..3], [0, 1, 2]);
        assert_eq!((dealt[16], dealt[32], dealt[48]), (100, 150, 16));
        let mut sorted = dealt.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..250));
    }
}
