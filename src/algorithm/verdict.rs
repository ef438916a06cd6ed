//! What verification says, and what all verifiers are made of: going through the edges one by one, and comparing values.

use std::fmt;

use super::SetupError;
use crate::grid::{EdgeReader, Grid, GridError};
use crate::interrupt::Interrupt;

/// What verification found.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Right, and how that was seen.
    Passed(String),
    /// Right as far as its arithmetic goes, which is not as far as the user may think.
    Coarse(String),
    /// Wrong, and what is.
    Failed(String),
}

impl Verdict {
    /// The same, but coarse where it passed with so many values (1 or more) that are less exact than people expect;
    /// `why` goes on after their number.
    #[must_use]
    pub(crate) fn coarse_for(self, values: usize, why: &str) -> Self {
        match self {
            Self::Passed(how) if values > 0 => Self::Coarse(format!("{how}; {values} {why}")),
            verdict => verdict,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(how) | Self::Coarse(how) => write!(f, "verified: {how}"),
            Self::Failed(what) => write!(f, "verification failed: {what}"),
        }
    }
}

/// Visits `(source, destination, weight)` of every edge, with dense ids, one after the other.
pub(crate) fn each_edge(
    grid: &Grid,
    interrupt: &Interrupt,
    mut visit: impl FnMut(u64, u64, f64),
) -> Result<(), SetupError> {
    let mut reader = EdgeReader::new(grid)?;
    while reader.next_edges(&mut visit)? {
        if interrupt.raised() {
            return Err(GridError::Interrupted.into());
        }
    }
    Ok(())
}

/// Compares value by value, within what `allowed` says for a vertex and its reference value.
pub(crate) fn compare(reference: &[f64], values: &[f64], allowed: impl Fn(usize, f64) -> f64) -> Verdict {
    if reference.len() != values.len() {
        return Verdict::Failed(format!("{} values for {} vertices", values.len(), reference.len()));
    }
    let mut largest = 0.0_f64;
    for (vertex, (&expected, &found)) in reference.iter().zip(values).enumerate() {
        let error = (expected - found).abs();
        if error.is_nan() || error > allowed(vertex, expected) {
            return Verdict::Failed(format!(
                "vertex {vertex} (dense index) has {found:e}, but a recomputation by other means gives {expected:e}"
            ));
        }
        if expected != 0.0 {
            largest = largest.max(error / expected.abs());
        }
    }
    Verdict::Passed(format!("recomputed by other means, largest relative difference {largest:.1e}"))
}
