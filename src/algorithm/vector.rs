//! A vector over the vertices, from a file of `vertex,value` lines as `[output] values = "csv"` writes them: with
//! original ids, each vertex once, in any order.

use std::path::Path;

use super::SetupError;
use crate::grid::Grid;
use crate::io_advice::advice;
use crate::regular_file;
use crate::storage::huge;

/// Reads a vector in dense order; without a file it is 1 everywhere.
pub(crate) fn read(path: Option<&Path>, grid: &Grid) -> Result<Vec<f64>, SetupError> {
    let vertices = grid.manifest.vertices as usize;
    let Some(path) = path else { return Ok(huge::filled(vertices, 1.0)) };
    let fail = |what: String| SetupError::Vector(format!("{}: {what}", path.display()));
    let file = regular_file::open(path).map_err(|reason| {
        fail(format!("cannot be opened: {reason}{}", advice(&reason, "give another file")))
    })?;
    let mut reader = csv::ReaderBuilder::new().from_reader(file);
    let header = reader.headers().map_err(|error| fail(unreadable(&error)))?;
    if !header.iter().map(str::trim).eq(["vertex", "value"]) {
        let found = header.iter().collect::<Vec<_>>().join(",");
        return Err(fail(format!("line 1: expected the header `vertex,value`, found `{found}`")));
    }
    let mut values = huge::filled(vertices, f64::NAN);
    let index = Index::new(grid)?;
    for record in reader.records() {
        let record = record.map_err(|error| fail(unreadable(&error)))?;
        let line = record.position().map_or(0, csv::Position::line);
        let bad = |what: &str, found: &str| fail(format!("line {line}: {what}, found `{found}`"));
        let (id, value) = (record.get(0).unwrap_or(""), record.get(1).unwrap_or(""));
        let place = id.trim().parse().ok().and_then(|id| index.of(id));
        let place = place.ok_or_else(|| bad("expected a vertex of the graph", id))?;
        let value: f64 = value.trim().parse().map_err(|_| bad("expected a number", value))?;
        if !value.is_finite() {
            return Err(bad("expected a finite number", &value.to_string()));
        }
        if !values[place].is_nan() {
            return Err(bad("expected each vertex once", id));
        }
        values[place] = value;
    }
    if let Some(missing) = values.iter().position(|value| value.is_nan()) {
        return Err(fail(format!("vertex {} has no value; every vertex needs one", index.id(missing))));
    }
    Ok(values)
}

/// What the parser of CSV found, in our words.
fn unreadable(error: &csv::Error) -> String {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Utf8 { .. } => {
            format!(
                "line {line}: expected `vertex,value`, found bytes that are no UTF-8 text; is it the right file?"
            )
        }
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!(
                "line {line}: expected {expected_len} cells, `vertex,value`, found {len}; correct the line"
            )
        }
        csv::ErrorKind::Io(reason) => {
            format!("cannot be read: {reason}{}", advice(reason, "give another file"))
        }
        _ => format!("line {line}: expected `vertex,value`: {error}; correct the line"),
    }
}

/// From original ids to dense indexes.
struct Index {
    /// Ascending; none where ids are dense.
    ids: Option<Vec<u64>>,
    vertices: u64,
}

impl Index {
    fn new(grid: &Grid) -> Result<Self, SetupError> {
        let ids = grid
            .manifest
            .ids_checksum
            .is_some()
            .then(|| grid.ids()?.collect::<Result<_, _>>())
            .transpose()?;
        Ok(Self { ids, vertices: grid.manifest.vertices })
    }

    fn of(&self, id: u64) -> Option<usize> {
        match &self.ids {
            Some(ids) => ids.binary_search(&id).ok(),
            None => (id < self.vertices).then_some(id as usize),
        }
    }

    fn id(&self, index: usize) -> u64 {
        self.ids.as_ref().map_or(index as u64, |ids| ids[index])
    }
}
