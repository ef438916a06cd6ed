//! Weights in integers, rounded up, so that their sums bound the sums of the weights and do not depend on order.

/// Units of the largest weight.
pub(super) const ONE: u64 = 1 << 32;

/// Counts a weight w in units: `ceil(2^32 |w| / max |w|)`, exactly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    max: f64,
    scale: f64,
}

impl Units {
    /// Units of graphs whose largest |weight| is `max`, which is finite.
    pub(super) fn new(max: f64) -> Self {
        // Tiny weights are scaled up, exactly, so that no remainder below is lost to underflow.
        let scale = if max < 1e-200 { 2_f64.powi(600) } else { 1.0 };
        Self { max: max * scale, scale }
    }

    /// Units of one weight, at most 2^32.
    pub(super) fn of(self, weight: f64) -> u64 {
        let weight = weight.abs() * self.scale;
        if weight >= self.max {
            return if weight > 0.0 { ONE } else { 0 };
        }
        let quotient = weight / self.max;
        let units = quotient * ONE as f64;
        let up = units.ceil();
        // A quotient that was rounded down to a whole number of units has a remainder, and needs one more.
        let short = up.total_cmp(&units).is_eq() && (-quotient).mul_add(self.max, weight) > 0.0;
        up as u64 + u64::from(short)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whole_weights_count_exactly() {
        let units = Units::new(1.0);
        assert_eq!((units.of(1.0), units.of(-1.0), units.of(0.0), units.of(-0.5)), (ONE, ONE, 0, ONE / 2));
        assert_eq!(Units::new(3.0).of(1.0), ONE.div_ceil(3));
        assert_eq!(Units::new(0.0).of(0.0), 0);
        assert_eq!(Units::new(f64::MAX).of(f64::MIN_POSITIVE), 1);
        assert_eq!(Units::new(f64::from_bits(2)).of(f64::from_bits(1)), ONE / 2);
    }

    proptest! {
        /// Compared with whole numbers, where the ceiling is exact in u128.
        #[test]
        fn the_ceiling_is_exact(max in 1_u64..1 << 53, weight in 0_u64..1 << 53) {
            let weight = weight % (max + 1);
            let expected = (u128::from(weight) << 32).div_ceil(u128::from(max));
            for scale in [1.0, 2_f64.powi(-1060), 2_f64.powi(900)] {
                // Weights that lose bits below the smallest number are other weights.
                let survives = |whole: u64| (whole as f64 * scale / scale) as u64 == whole;
                if survives(weight) && survives(max) {
                    let found = Units::new(max as f64 * scale).of(weight as f64 * scale);
                    prop_assert_eq!(u128::from(found), expected);
                }
            }
        }
    }
}
