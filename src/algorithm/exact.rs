//! Sums that do not depend on their order. Every term is rounded, once, to a multiple of a quantum u that is so
//! chosen that no sum of terms needs more than the 53 bits of an f64: then each addition is exact, whatever the
//! threads, blocks, columns and devices, and the same job has the same result, bit for bit, everywhere.

use xxhash_rust::xxh3::xxh3_64;

/// A bound B on all sums of absolute values, a power of two, and its quantum u = B / 2^52.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantum {
    bound: f64,
}

impl Quantum {
    /// The quantum for sums up to `bound`; `None` where there is none: the bound is not finite, or so large or
    /// small, but not 0, that B or u leaves the range of an f64.
    pub fn for_bound(bound: f64) -> Option<Self> {
        const SMALLEST: f64 = 2.004_168_360_008_973e-292; // 2^-969: u and the products with it stay normal
        if !bound.is_finite() || (bound > 0.0 && bound < SMALLEST) {
            return None;
        }
        let mut power = f64::from_bits(bound.max(SMALLEST).to_bits() & 0x7FF0_0000_0000_0000);
        if power < bound {
            power *= 2.0;
        }
        // Rounding adds 2^53 u; that must not overflow either.
        (power * 4.0).is_finite().then_some(Self { bound: power })
    }

    /// B.
    pub fn bound(self) -> f64 {
        self.bound
    }

    /// u.
    pub fn unit(self) -> f64 {
        self.bound * f64::EPSILON
    }

    /// The multiple of u nearest to `x`, ties to even, for |x| <= B / 2.
    #[inline]
    pub fn round(self, x: f64) -> f64 {
        // In [B, 2B) the spacing of f64 is u. 1.5 B keeps both signs of x inside.
        let shift = self.bound * 1.5;
        (x + shift) - shift
    }
}

/// An exact total of many values 0 <= x <= B, each taken as the nearest multiple of B * 2^-80.
///
/// Values are added as two 64-bit halves, which costs a few instructions, and folded into 128 bits from time to
/// time, before a half can overflow.
#[derive(Debug, Clone, Copy)]
pub struct Total {
    scale: f64,
    high: i64,
    low: i64,
    pending: usize,
    sum: i128,
}

/// Values between two folds: 2^20 halves of 2^40 stay below 2^63.
const FOLD: usize = 1 << 20;

impl Total {
    /// Zero, for values up to the quantum's bound.
    pub fn new(quantum: Quantum) -> Self {
        Self { scale: HALF / quantum.bound(), high: 0, low: 0, pending: 0, sum: 0 }
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.add_all(&[value]);
    }

    /// Adds each of the values.
    #[inline]
    pub fn add_all(&mut self, values: &[f64]) {
        for values in values.chunks(FOLD) {
            if self.pending + values.len() > FOLD {
                self.sum = self.folded();
                (self.high, self.low, self.pending) = (0, 0, 0);
            }
            self.pending += values.len();
            for value in values {
                // At most 2^40. Near `INTEGERS` the distance between two f64 is 1, so that the sum holds the nearest
                // integer, and taking the number away again leaves it. A conversion would have to ask whether it fits.
                let scaled = value * self.scale;
                let shifted = scaled + INTEGERS;
                let rest = (scaled - (shifted - INTEGERS)) * HALF + INTEGERS;
                self.high += integer(shifted);
                self.low += integer(rest);
            }
        }
    }

    /// Adds another total of the same quantum.
    pub fn merge(&mut self, other: &Self) {
        self.sum += other.folded();
    }

    /// The total, rounded once.
    pub fn value(&self) -> f64 {
        self.folded() as f64 / HALF / self.scale
    }

    fn folded(&self) -> i128 {
        self.sum + (i128::from(self.high) << 40) + i128::from(self.low)
    }
}

/// 2^40: values are added as two numbers of 40 bits.
const HALF: f64 = (1_u64 << 40) as f64;

/// 1.5 * 2^52: between it and a number of 40 bits and either sign there are integers only.
const INTEGERS: f64 = (3_u64 << 51) as f64;

/// What was added to [`INTEGERS`].
fn integer(shifted: f64) -> i64 {
    shifted.to_bits().wrapping_sub(INTEGERS.to_bits()).cast_signed()
}

/// The checksum of a result: the wrapping sum of `xxh3(dense index, bits of the value)`, so that it can be
/// computed in any order and compared exactly.
pub fn result_checksum(values: &[f64]) -> u64 {
    (0..).zip(values).fold(0, |sum, (index, &value)| u64::wrapping_add(sum, value_checksum(index, value)))
}

/// What one value adds to the [checksum of a result](result_checksum).
pub fn value_checksum(index: u64, value: f64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&index.to_le_bytes());
    bytes[8..].copy_from_slice(&value.to_bits().to_le_bytes());
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rounded_terms_add_up_to_the_same_bits_in_any_order(
            mut terms in prop::collection::vec(-1.0..1.0_f64, 1..200), exponent in -200..200_i32, seed: u64,
        ) {
            let scale = 2.0_f64.powi(exponent);
            for term in &mut terms {
                *term *= scale;
            }
            let bound: f64 = terms.iter().map(|term| term.abs()).sum();
            let quantum = Quantum::for_bound(2.0 * bound).unwrap();
            let mut rounded: Vec<_> = terms.iter().map(|&term| quantum.round(term)).collect();
            for (&term, &rounded) in terms.iter().zip(&rounded) {
                prop_assert!((term - rounded).abs() <= quantum.unit() / 2.0);
                prop_assert_eq!((rounded / quantum.unit()).fract().abs().to_bits(), 0);
            }
            let forward: f64 = rounded.iter().sum();
            let middle = seed as usize % rounded.len();
            rounded.rotate_left(middle);
            rounded.reverse();
            prop_assert_eq!(forward.to_bits(), rounded.iter().sum::<f64>().to_bits());
        }

        #[test]
        fn a_total_does_not_depend_on_how_it_is_split(
            values in prop::collection::vec(0.0..1.0_f64, 0..300), cut in 0..300_usize,
        ) {
            let quantum = Quantum::for_bound(1.0).unwrap();
            let mut whole = Total::new(quantum);
            for &value in &values {
                whole.add(value);
            }
            let cut = cut.min(values.len());
            let (mut left, mut right) = (Total::new(quantum), Total::new(quantum));
            values[cut..].iter().for_each(|&value| left.add(value));
            values[..cut].iter().for_each(|&value| right.add(value));
            left.merge(&right);
            prop_assert_eq!(whole.value().to_bits(), left.value().to_bits());
            prop_assert!((whole.value() - values.iter().sum::<f64>()).abs() < 1e-12);
        }
    }

    #[test]
    fn the_bound_is_the_next_power_of_two() {
        let bound = |x| Quantum::for_bound(x).map(Quantum::bound);
        assert_eq!(bound(1.0), Some(1.0));
        assert_eq!(bound(1.1), Some(2.0));
        assert_eq!(bound(4_194_304.0), Some(4_194_304.0));
        assert!(bound(0.0).is_some_and(|b| b > 0.0 && (b * f64::EPSILON).is_normal()));
        assert_eq!(bound(f64::MAX), None);
        assert_eq!(bound(f64::NAN), None);
    }

    #[test]
    fn a_checksum_sees_value_and_place() {
        assert_eq!(result_checksum(&[]), 0);
        assert_ne!(result_checksum(&[1.0, 2.0]), result_checksum(&[2.0, 1.0]));
        assert_ne!(result_checksum(&[0.0]), result_checksum(&[-0.0]));
    }
}
