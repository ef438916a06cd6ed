//! The table on the terminal at the end of a batch: a line per run, with medians over its measured repetitions. What is
//! the same for all runs, or follows from a run's algorithm or variant, is said once above it, so that the lines hold
//! only what tells runs apart and fit a terminal. A peer's run, of which much is unknown that is known of ours, is told by
//! the peer's name. It is for reading, and rounds; the CSV is for computing.

use std::collections::HashSet;
use std::fmt::Write;

use super::Row;
use super::cell::{Phase, Status};
use super::stats::{Summary, median};
use crate::units::{figures, format_bytes};

/// A parameter of a run, as shown.
type Parameter = (&'static str, fn(&Row) -> Option<String>);

/// What may tell runs apart, in the order of the columns.
const PARAMETERS: [Parameter; 19] = [
    ("variant", |row| row.variant.clone()),
    ("algorithm", |row| row.algorithm.clone()),
    ("parameters", shown_parameters),
    ("dataset", |row| row.dataset.clone()),
    ("model/io", model_io),
    ("kernel", |row| row.kernel.clone()),
    ("encoding", |row| row.encoding.clone()),
    ("columns", |row| plain(row.columns)),
    ("order", |row| row.order.clone()),
    ("ssds", |row| plain(row.ssds)),
    ("stripe", |row| row.stripe_b.map(format_bytes)),
    ("emulated MB/s", |row| row.emulated_mb_per_s.map(figures::digits)),
    ("block", |row| row.block_b.map(format_bytes)),
    ("depth", |row| plain(row.io_depth)),
    ("I/O threads", |row| plain(row.io_threads)),
    ("threads", |row| plain(row.compute_threads)),
    ("buffer", |row| row.buffer_b.map(format_bytes)),
    ("memory", |row| row.memory_b.map(format_bytes)),
    ("cache", |row| row.cache.clone()),
];

/// Narrowest that `result` is cut to.
const RESULT_WIDTH: usize = 16;
/// Widest that a peer's command is shown: a script may have any length, and its name is what tells it apart.
const COMMAND_WIDTH: usize = 60;
/// What is said of all runs but those of peers.
const OURS: &str = "ours";

fn model_io(row: &Row) -> Option<String> {
    let parts: Vec<&str> = [&row.model, &row.io].into_iter().filter_map(Option::as_deref).collect();
    (!parts.is_empty()).then(|| parts.join("/"))
}

fn shown_parameters(row: &Row) -> Option<String> {
    let mut text = one_line(row.algorithm_params.as_deref()?);
    if is_external(row) {
        cut(&mut text, COMMAND_WIDTH);
    }
    Some(text)
}

/// Whether a run is that of a peer, whose own matter is how it reads.
fn is_external(row: &Row) -> bool {
    row.model.is_none()
}

/// A text of somebody else, as a part of a line.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn plain<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// The table of these rows, which come in plan order, at most `width` characters wide where that can be; ends with a
/// line feed, unless there are no rows.
pub fn render<'a>(rows: impl IntoIterator<Item = &'a Row>, width: usize) -> String {
    let runs = runs(rows);
    if runs.is_empty() {
        return String::new();
    }
    let mut columns = parameters(&runs);
    columns.extend(measurements(&runs));
    let mut text = String::new();
    hoist(&mut text, &mut columns, &runs, width);
    tell_apart(&mut columns, &runs);
    let names: Vec<String> = (0..runs.len()).map(|run| line_name(&columns, run)).collect();
    let dropped = fit(&mut columns, width);

    draw(&mut text, &columns, runs.len());
    if !dropped.is_empty() {
        let _ = writeln!(text, "no room for {}; the CSV has all columns", dropped.join(", "));
    }
    for (run, name) in runs.iter().zip(&names) {
        failures(&mut text, run, name);
    }
    text
}

/// A run: the last attempt at each of its repetitions, in order.
struct Run<'a>(Vec<&'a Row>);

fn runs<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    for row in rows {
        let Some(run) = runs.iter_mut().find(|run| run.0[0].run_id == row.run_id) else {
            runs.push(Run(vec![row]));
            continue;
        };
        match run.0.iter_mut().find(|other| other.phase == row.phase && other.rep == row.rep) {
            Some(earlier) => *earlier = row,
            None => run.0.push(row),
        }
    }
    runs
}

impl Run<'_> {
    fn measured(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().copied().filter(|row| row.phase == Phase::Measured && row.status == Status::Ok)
    }

    /// The row that knows most of the run's parameters: failed ones may have ended before they were resolved.
    fn best(&self) -> &Row {
        self.0.iter().rev().find(|row| row.status == Status::Ok).unwrap_or(&self.0[0])
    }

    fn summary(&self, value: impl Fn(&Row) -> Option<f64>) -> Option<Summary> {
        Summary::of(self.measured().filter_map(value))
    }

    fn median(&self, value: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        median(self.measured().filter_map(value))
    }

    /// That of the repetitions which count; of warm-ups only where there is nothing else yet.
    fn status(&self) -> String {
        let (measured, warmups): (Vec<&Row>, Vec<&Row>) =
            self.0.iter().copied().partition(|row| row.phase == Phase::Measured);
        let ok = measured.iter().filter(|row| row.status == Status::Ok).count();
        match (measured.last(), ok) {
            (None, _) => match warmups.iter().rfind(|row| row.status != Status::Ok) {
                Some(row) => row.status.as_str().to_owned(),
                None => "not measured".to_owned(),
            },
            (Some(row), 0) => row.status.as_str().to_owned(),
            (_, ok) if ok == measured.len() => "ok".to_owned(),
            (_, ok) => format!("{ok} of {} ok", measured.len()),
        }
    }

    /// What a peer's run is called; nothing of ours.
    fn peer(&self) -> Option<String> {
        self.0[0].variant.clone().filter(|_| is_external(self.0[0]))
    }

    fn verified(&self) -> Option<bool> {
        let verdicts: Vec<bool> = self.0.iter().filter_map(|row| row.verified).collect();
        (!verdicts.is_empty()).then(|| verdicts.into_iter().all(|verdict| verdict))
    }
}

/// A column as it will be drawn.
struct Shown {
    title: &'static str,
    cells: Vec<Option<String>>,
    left: bool,
    /// Names the run: a parameter, not a measurement.
    names: bool,
    /// Columns are dropped for want of room from the largest rank down; 0 stays.
    rank: u8,
}

impl Shown {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.as_deref().map_or(1, width_of));
        cells.max().unwrap_or(0).max(width_of(self.title))
    }
}

/// Characters stand for columns of the terminal: exact for all that `ioc` writes itself, near enough for names.
fn width_of(text: &str) -> usize {
    text.chars().count()
}

/// A column per parameter that any run knows.
fn parameters(runs: &[Run<'_>]) -> Vec<Shown> {
    let columns = PARAMETERS.iter().map(|&(title, value)| {
        let cells = runs.iter().map(|run| value(run.best())).collect();
        Shown { title, cells, left: true, names: true, rank: 0 }
    });
    columns.filter(|column| column.cells.iter().any(Option::is_some)).collect()
}

/// Takes out the columns that need not stand in every line, and says them above: what all runs share, then what all of ours
/// do or is a peer's, then what follows from the algorithm (its parameters, its result), then what follows from the variant
/// (its overrides).
fn hoist(text: &mut String, columns: &mut Vec<Shown>, runs: &[Run<'_>], width: usize) {
    let cells =
        |title| columns.iter().find(|column| column.title == title).map(|column| column.cells.clone());
    let (algorithms, variants) = (cells("algorithm").unwrap_or_default(), cells("variant"));
    let sides = runs.iter().map(|run| run.peer().or(Some(OURS.to_owned()))).collect();
    let kinds = runs.iter().zip(algorithms).map(|(run, algorithm)| run.peer().or(algorithm)).collect();
    let mut lines = Vec::new();
    take_out(&mut lines, columns, |column| Some(vec![shared(&column.cells, runs)?]));
    let peers = runs.iter().any(|run| run.peer().is_some());
    for keys in [Some(sides), Some(kinds), variants].into_iter().flatten() {
        let keys: Vec<Option<String>> = keys;
        take_out(&mut lines, columns, |column| {
            // A line begins with what these are named by.
            let may_go = column.cells != keys && !(peers && column.title == "variant");
            groups(&keys, &column.cells, runs).filter(|_| may_go)
        });
    }
    for (key, items) in lines {
        wrap(text, &format!("{key}:"), &items, width);
    }
}

/// Takes out the columns of which `said` gives all there is to say, as values by whom they are of, and adds it to the lines
/// of these.
fn take_out(
    lines: &mut Vec<(String, Vec<String>)>,
    columns: &mut Vec<Shown>,
    said: impl Fn(&Shown) -> Option<Vec<(String, String)>>,
) {
    columns.retain(|column| {
        // A line begins with its algorithm, even where all runs share it: it has to begin with something.
        let may_go = column.names && column.title != "algorithm" || column.title == "result";
        let Some(values) = said(column).filter(|_| may_go) else { return true };
        for (key, value) in values {
            let item = format!("{} {value}", column.title);
            match lines.iter_mut().find(|(other, _)| *other == key) {
                Some((_, items)) => items.push(item),
                None => lines.push((key, vec![item])),
            }
        }
        false
    });
}

/// The one value that all runs have, or all that finished where others failed before they got to know theirs.
fn shared(cells: &[Option<String>], runs: &[Run<'_>]) -> Option<(String, String)> {
    let mut known = cells.iter().flatten();
    let value = known.next()?;
    if known.any(|other| other != value) {
        return None;
    }
    let finished = |run: &Run<'_>| run.measured().next().is_some();
    let all = cells.iter().all(Option::is_some);
    let all_finished = runs.iter().any(finished)
        && runs.iter().zip(cells).all(|(run, cell)| cell.is_some() || !finished(run));
    let whole = if all { "all runs" } else { "all finished runs" };
    (all || all_finished).then(|| (whole.to_owned(), value.clone()))
}

/// The one value that goes with each key; `None` where a key has several, or a value has no key. A run that ended before it knew its value
/// goes with any.
fn groups(
    keys: &[Option<String>],
    cells: &[Option<String>],
    runs: &[Run<'_>],
) -> Option<Vec<(String, String)>> {
    let mut groups: Vec<(&Option<String>, &Option<String>)> = Vec::new();
    for (run, (key, cell)) in runs.iter().zip(keys.iter().zip(cells)) {
        if cell.is_none() && run.measured().next().is_none() {
            continue;
        }
        match groups.iter().find(|(other, _)| *other == key) {
            Some((_, value)) if *value == cell => {}
            Some(_) => return None,
            None if key.is_none() && cell.is_some() => return None,
            None => groups.push((key, cell)),
        }
    }
    let named = groups.into_iter().filter_map(|(key, cell)| Some((key.clone()?, cell.clone()?)));
    Some(named.collect())
}

/// Runs may differ in a parameter that has no column: then their ids tell them apart.
fn tell_apart(columns: &mut Vec<Shown>, runs: &[Run<'_>]) {
    let names: HashSet<String> = (0..runs.len()).map(|run| line_name(columns, run)).collect();
    if names.len() < runs.len() {
        let cells = runs.iter().map(|run| Some(run.0[0].run_id.clone())).collect();
        columns.insert(0, Shown { title: "run_id", cells, left: true, names: true, rank: 0 });
    }
}

fn line_name(columns: &[Shown], run: usize) -> String {
    let names =
        columns.iter().filter(|column| column.names).filter_map(|column| column.cells[run].as_deref());
    names.collect::<Vec<_>>().join(" ")
}

/// The measured columns, without those that nobody measured.
fn measurements(runs: &[Run<'_>]) -> Vec<Shown> {
    let column = |title, left, rank, cell: &dyn Fn(&Run<'_>) -> Option<String>| Shown {
        title,
        cells: runs.iter().map(cell).collect(),
        left,
        names: false,
        rank,
    };
    let mut columns = vec![
        column("status", true, 0, &|run| Some(run.status())),
        column("runtime_s", false, 0, &|run| run.median(|row| Some(row.runtime_s?.0)).map(figures::digits)),
        column("min..max", true, 2, &|run| {
            let summary = run.summary(|row| Some(row.runtime_s?.0))?;
            let several = run.measured().nth(1).is_some();
            several.then(|| format!("{}..{}", figures::digits(summary.min), figures::digits(summary.max)))
        }),
        column("edges/s", false, 0, &|run| run.median(|row| row.edges_per_s).map(figures::count)),
        column("MB/s", false, 1, &|run| run.median(|row| row.read_mb_per_s).map(figures::digits)),
        column("io_s", false, 4, &|run| run.median(|row| Some(row.io_s?.0)).map(figures::digits)),
        column("compute_s", false, 3, &|run| run.median(|row| Some(row.compute_s?.0)).map(figures::digits)),
        column("max_rss", false, 5, &|run| {
            run.median(|row| Some(row.max_rss_b? as f64)).map(|bytes| format_bytes(bytes as u64))
        }),
        column("verified", true, 0, &|run| {
            run.verified().map(|verified| if verified { "yes" } else { "NO" }.into())
        }),
        column("result", true, 6, &|run| run.measured().last()?.result.as_deref().map(one_line)),
    ];
    columns.retain(|column| column.cells.iter().any(Option::is_some));
    columns
}

/// Cuts `result`, then drops columns, until the lines fit; returns what was dropped.
fn fit(columns: &mut Vec<Shown>, width: usize) -> Vec<&'static str> {
    let excess = total(columns).saturating_sub(width);
    if let Some(result) = columns.iter_mut().find(|column| column.title == "result") {
        let room = result.width().saturating_sub(excess).max(RESULT_WIDTH);
        for cell in result.cells.iter_mut().flatten() {
            cut(cell, room);
        }
    }
    let mut dropped = Vec::new();
    while total(columns) > width {
        let rank = columns.iter().map(|column| column.rank).max().unwrap_or(0);
        let Some(at) = columns.iter().position(|column| column.rank == rank && rank > 0) else {
            break;
        };
        dropped.push(columns.remove(at).title);
    }
    dropped
}

fn total(columns: &[Shown]) -> usize {
    columns.iter().map(|column| column.width() + 2).sum::<usize>().saturating_sub(2)
}

fn cut(text: &mut String, room: usize) {
    if width_of(text) > room {
        *text = text.chars().take(room.saturating_sub(1)).chain(['…']).collect();
    }
}

fn draw(text: &mut String, columns: &[Shown], runs: usize) {
    let line = |cell: &dyn Fn(&Shown) -> String| {
        let cells = columns.iter().map(|column| {
            let (cell, width) = (cell(column), column.width());
            if column.left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    text.push_str(&line(&|column| column.title.to_owned()));
    for run in 0..runs {
        text.push_str(&line(&|column| column.cells[run].clone().unwrap_or_else(|| "-".to_owned())));
    }
}

/// `head a, b, c`, broken between the items.
fn wrap(text: &mut String, head: &str, items: &[String], width: usize) {
    let mut line = head.to_owned();
    for (at, item) in items.iter().enumerate() {
        let item = if at + 1 < items.len() { format!("{item},") } else { item.clone() };
        if width_of(&line) + 1 + width_of(&item) > width && at > 0 {
            let _ = writeln!(text, "{line}");
            " ".clone_into(&mut line);
        }
        line = line + " " + &item;
    }
    let _ = writeln!(text, "{line}");
}

/// Why repetitions failed: each cause once, with the repetitions it hit.
fn failures(text: &mut String, run: &Run<'_>, name: &str) {
    let mut causes: Vec<(String, Vec<String>)> = Vec::new();
    for row in run.0.iter().filter(|row| row.status != Status::Ok) {
        let cause = [Some(row.status.as_str()), row.error.as_deref()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(": ");
        let rep = repetition(row);
        match causes.iter_mut().find(|(other, _)| *other == cause) {
            Some((_, reps)) => reps.push(rep),
            None => causes.push((cause, vec![rep])),
        }
    }
    for (cause, reps) in causes {
        let _ = writeln!(text, "{name}, {}: {cause}", reps.join(", "));
    }
}

/// `rep 2`, `warm-up 1`.
pub(crate) fn repetition(row: &Row) -> String {
    number(row.phase, row.rep)
}

/// The same of a repetition that has no row yet.
pub(crate) fn number(phase: Phase, rep: u32) -> String {
    match phase {
        Phase::Warmup => format!("warm-up {rep}"),
        Phase::Measured => format!("rep {rep}"),
    }
}

#[cfg(test)]
mod tests;
