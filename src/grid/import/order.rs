//! Order `degree`: positions by descending out-degree, so that most edges come from few source windows, whose cells
//! are dense, and go to few destinations, whose sums stay in a near cache. Classes of degrees that differ by less
//! than a factor of 2 give nearly all of it, and keep the vertices of a class in their natural order. Vertices are
//! dealt to the columns in turn, by granules (two cache lines of sums), so that every column gets its share of each
//! class and all are of even work. Vertices without out-edges come last.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::dataset::{Context, Edge};
use crate::grid::error::GridError;
use crate::grid::parallel::lock;
use crate::storage::huge;

use super::partition::PIECE;
use super::sample::{Pairs, Sampler, encoded_bytes};
use super::survey::{Edges, Keep, Survey, read_source, read_spill};

/// Vertices dealt to a column at once.
const GRANULE: u64 = 16;

/// Position of every vertex, by dense index; `columns` are ranges of positions that cover all of them. `None` where a
/// sampler was given, and its sample takes no fewer bytes than in the natural order.
pub(super) fn positions(
    survey: &Survey<'_>,
    columns: &[Range<u64>],
    sampler: Option<Sampler>,
    stage: &str,
    context: Context<'_>,
) -> Result<Option<Vec<u32>>, GridError> {
    let (degrees, sample) = count_degrees(survey, sampler, stage, context)?;
    let ranking = ranking(&degrees);
    let mut positions = degrees;
    // The columns have as many positions as there are vertices.
    for (vertex, position) in ranking.into_iter().zip(deal(columns)) {
        positions[vertex as usize] = position as u32;
    }
    let fewer = || {
        encoded_bytes(&sample, |vertex| positions[vertex as usize]) < encoded_bytes(&sample, |vertex| vertex)
    };
    Ok((sampler.is_none() || fewer()).then_some(positions))
}

/// Dense indexes by descending class of their degrees, in a class as they are.
fn ranking(degrees: &[u32]) -> Vec<u32> {
    const CLASSES: usize = u32::BITS as usize + 1;
    let class = |degree: &u32| degree.leading_zeros() as usize;
    let mut next = [0_usize; CLASSES];
    for degree in degrees {
        next[class(degree)] += 1;
    }
    let mut start = 0;
    for count in &mut next {
        start += std::mem::replace(count, start);
    }
    let mut ranking = huge::filled(degrees.len(), 0);
    for (degree, vertex) in degrees.iter().zip(0..) {
        let place = &mut next[class(degree)];
        ranking[*place] = vertex;
        *place += 1;
    }
    ranking
}

/// Dense index of every position.
pub(super) fn inverse(positions: &[u32]) -> Vec<u32> {
    let mut dense = huge::filled(positions.len(), 0);
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

/// Out-degrees by dense index, and the sample. Edges with a vertex that there is not are left for the next phase to refuse. Each thread
/// counts for itself: an addition that others see at once would wait for its cache miss, alone.
fn count_degrees(
    survey: &Survey<'_>,
    sampler: Option<Sampler>,
    stage: &str,
    context: Context<'_>,
) -> Result<(Vec<u32>, Vec<Pairs>), GridError> {
    let vertices = survey.ids.vertices() as usize;
    let sample = || sampler.map(|sampler| sampler.sample(context.threads)).unwrap_or_default();
    let counter = |_| Mutex::new((huge::filled(vertices, 0_u32), Vec::with_capacity(PIECE), sample()));
    let counters: Vec<_> = (0..context.threads).map(counter).collect();
    let take = |worker: usize, edges: &[Edge]| {
        let (degrees, dense, sample) = &mut *lock(&counters[worker]);
        for edges in edges.chunks(PIECE) {
            if survey.ids.map(edges, dense).is_ok() {
                for &(source, _) in dense.iter() {
                    let degree = &mut degrees[source as usize];
                    *degree = degree.saturating_add(1);
                }
                if let Some(sampler) = sampler {
                    sampler.take(dense, sample);
                }
            }
        }
        Ok(())
    };
    let stage = format!("{stage}: count degrees");
    match &survey.edges {
        Edges::Source(source) => read_source(*source, &stage, context, take).map(|_| ())?,
        Edges::Spilled(edges, _) => read_spill(edges, Keep::All, &stage, context, take)?,
    }
    let (mut sums, mut parts) = (Vec::new(), Vec::with_capacity(context.threads));
    for counter in counters {
        let (counts, _, sample) = counter.into_inner().unwrap_or_else(PoisonError::into_inner);
        parts.push(sample);
        if sums.is_empty() {
            sums = counts;
        } else {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        }
    }
    Ok((sums, parts))
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
