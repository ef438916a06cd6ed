//! Median, minimum and maximum of the repetitions of a run. The median, because one repetition that a neighbour on
//! the machine disturbed must not move the figure; no standard deviation, because three repetitions have none.

/// Of at least one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle value, or the mean of the middle two.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// Summary of the finite values among these; `None` where there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let upper = sorted.len() / 2;
        let lower = (sorted.len() - 1) / 2;
        Some(Self { median: sorted[lower].midpoint(sorted[upper]), min, max })
    }
}

/// The median alone.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    Summary::of(values).map(|summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(median([f64::NAN, f64::INFINITY]), None);
    }

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median([f64::MAX, f64::MAX]), Some(f64::MAX));
    }

    #[test]
    fn extremes_and_median_ignore_what_is_no_number() {
        let summary = Summary::of([2.0, f64::NAN, -1.0, 5.0]);
        assert_eq!(summary, Some(Summary { median: 2.0, min: -1.0, max: 5.0 }));
    }
}
