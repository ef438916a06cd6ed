//! Draws four levels of the Kronecker recursion at once: one of the 256 ways in which four bits of the source and
//! four of the target can fall, by one 32-bit draw, one table look-up and no branch. This is Walker's alias method
//! (ACM TOMS 3(3), 1977; the construction is Vose's, IEEE TSE 17(9), 1991): the ways are cut up and put together to
//! 256 columns of equal mass, each holding at most two of them. The upper bits of the draw choose the column,
//! and the whole draw is compared with the border in it. Three comparisons per level would be simpler, and took
//! two and a half times as long.

/// Levels per draw.
pub(super) const LEVELS: u32 = 4;

/// Percentages A, B, C, D of a level's quadrants. Rows are sources: C and D set the source's bit, B and D the
/// target's.
const QUADRANTS: [u64; 4] = [57, 19, 19, 5];

const WAYS: usize = 1 << (2 * LEVELS);
const COLUMN_BITS: u32 = 2 * LEVELS;
/// Draws that fall into a column.
const COLUMN: u64 = 1 << (32 - COLUMN_BITS);

/// Two ways that share 2^24 draws.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// The first draw that belongs to the second way.
    border: u32,
    /// Ways: the source's bits in the upper half, the target's in the lower.
    ways: [u8; 2],
}

/// The table.
#[derive(Debug, Clone)]
pub(super) struct Quadrants([Column; WAYS]);

impl Quadrants {
    pub(super) fn new() -> Self {
        let mut left = masses();
        let mut columns: [Column; WAYS] =
            std::array::from_fn(|way| Column { border: 0, ways: [way as u8; 2] });
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..WAYS).partition(|&way| left[way] < COLUMN);
        // Each small way gets the column of its number, filled up from a large way. All columns are full in the
        // end, because the masses add up to 2^32 exactly.
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            let border = poor as u64 * COLUMN + left[poor];
            columns[poor] = Column { border: border as u32, ways: [poor as u8, rich as u8] };
            left[rich] -= COLUMN - left[poor];
            if left[rich] < COLUMN {
                large.pop();
                small.push(rich);
            }
        }
        Self(columns)
    }

    /// The bits of the source and of the target, for a uniform draw.
    #[inline]
    pub(super) fn pick(&self, draw: u32) -> (u64, u64) {
        let column = self.0[(draw >> (32 - COLUMN_BITS)) as usize];
        let way = u64::from(column.ways[usize::from(draw >= column.border)]);
        (way >> LEVELS, way & ((1 << LEVELS) - 1))
    }
}

/// Of the 2^32 draws, how many make each way: the product of its levels' percentages, rounded by largest
/// remainder, so that no way is off by more than one draw.
fn masses() -> [u64; WAYS] {
    let scaled = (0..WAYS).map(|way| percentage(way) << 32);
    let total = 100_u64.pow(LEVELS);
    let mut masses = [0; WAYS];
    let mut remainders = Vec::with_capacity(WAYS);
    for (way, scaled) in scaled.enumerate() {
        masses[way] = scaled / total;
        remainders.push((scaled % total, way));
    }
    remainders.sort_unstable_by(|one, other| other.cmp(one));
    let missing = (1_u64 << 32) - masses.iter().sum::<u64>();
    for (_, way) in remainders.into_iter().take(missing as usize) {
        masses[way] += 1;
    }
    masses
}

/// Probability of a way in units of 100^-LEVELS.
fn percentage(way: usize) -> u64 {
    let (source, target) = (way >> LEVELS, way & ((1 << LEVELS) - 1));
    (0..LEVELS).map(|level| QUADRANTS[2 * (source >> level & 1) + (target >> level & 1)]).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws that make each way, by the borders of the finished table.
    fn drawn() -> [u64; WAYS] {
        let mut drawn = [0; WAYS];
        for (index, column) in Quadrants::new().0.into_iter().enumerate() {
            let start = index as u64 * COLUMN;
            let first = u64::from(column.border).clamp(start, start + COLUMN) - start;
            drawn[usize::from(column.ways[0])] += first;
            drawn[usize::from(column.ways[1])] += COLUMN - first;
        }
        drawn
    }

    #[test]
    fn the_table_holds_each_way_with_its_exact_mass() {
        let (drawn, masses) = (drawn(), masses());
        assert_eq!(drawn, masses);
        assert_eq!(masses.iter().sum::<u64>(), 1 << 32);
        for (way, mass) in masses.into_iter().enumerate() {
            let exact = percentage(way) as f64 / 1e8 * 2_f64.powi(32);
            assert!((mass as f64 - exact).abs() < 1.0, "way {way}: {mass} draws instead of {exact}");
        }
    }

    #[test]
    fn every_level_has_the_probabilities_of_graph500() {
        let drawn = drawn();
        for level in 0..LEVELS {
            let mut quadrants = [0_u64; 4];
            for (way, draws) in drawn.into_iter().enumerate() {
                let (source, target) = (way >> LEVELS >> level & 1, way >> level & 1);
                quadrants[2 * source + target] += draws;
            }
            for (draws, expected) in quadrants.into_iter().zip([0.57, 0.19, 0.19, 0.05]) {
                let probability = draws as f64 / 2_f64.powi(32);
                assert!(
                    (probability - expected).abs() < 3e-8,
                    "level {level}: {probability} is not {expected}"
                );
            }
        }
    }

    #[test]
    fn a_pick_is_what_the_borders_say() {
        let quadrants = Quadrants::new();
        for (index, column) in quadrants.0.into_iter().enumerate() {
            let start = (index as u64 * COLUMN) as u32;
            let last = start + (COLUMN - 1) as u32;
            for draw in
                [start, column.border.saturating_sub(1).max(start), column.border.clamp(start, last), last]
            {
                let way = column.ways[usize::from(draw >= column.border)];
                assert_eq!(quadrants.pick(draw), (u64::from(way >> 4), u64::from(way & 15)));
            }
        }
    }
}
