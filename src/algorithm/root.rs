//! The vertex at which a traversal begins, and how far it came.

use super::SetupError;
use crate::grid::{Grid, Renumbering};
use crate::job::spec::Auto;

/// A vertex, by all its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    /// Position in the grid.
    pub(crate) position: usize,
    /// Dense index.
    pub(crate) index: usize,
    /// Original id.
    pub(crate) id: u64,
}

impl Root {
    /// The vertex that the job names, or the one with the most out-arcs, of equals that with the smallest id; `None`
    /// where there is none at all.
    pub(crate) fn find(
        wanted: Auto<u64>,
        grid: &Grid,
        renumbering: &Renumbering,
        graph: &str,
    ) -> Result<Option<Self>, SetupError> {
        let vertices = grid.manifest.vertices;
        match wanted {
            Auto::Value(id) => {
                // All ids are gone through, because only the end shows that they are as they were written.
                let mut found = None;
                for (index, other) in grid.ids()?.enumerate() {
                    if other? == id {
                        found = Some(index);
                    }
                }
                let missing = || SetupError::Root { root: id, graph: graph.to_owned() };
                let index = found.ok_or_else(missing)?;
                let position = (0..vertices).find(|&position| renumbering.dense(position) == index as u64);
                Ok(position.map(|position| Self { position: position as usize, index, id }))
            }
            Auto::Auto => {
                let degrees = grid.degrees()?;
                let index = |position: usize| renumbering.dense(position as u64);
                let best = |position: &usize| (degrees[*position], std::cmp::Reverse(index(*position)));
                let Some(position) = (0..degrees.len()).max_by_key(best) else { return Ok(None) };
                let index = index(position);
                let mut id = index;
                for (other, original) in (0..).zip(grid.ids()?) {
                    let original = original?;
                    if other == index {
                        id = original;
                    }
                }
                Ok(Some(Self { position, index: index as usize, id }))
            }
        }
    }
}

/// How far a traversal came, for people.
pub(crate) fn summary(root: Option<Root>, values: &[f64], unit: &str) -> String {
    let reached = values.iter().filter(|value| value.is_finite()).count();
    let farthest = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    match root {
        Some(Root { id, .. }) => format!(
            "{reached} of {} vertices reached from {id}, the farthest at {unit} {farthest}",
            values.len()
        ),
        None => "no vertex".to_owned(),
    }
}
