//! Faults of job files as users see them: what is wrong, file, line and column, the line itself, what to do.
//!
//! Faults are gathered, never thrown at the first: a batch with five mistakes is repaired in one edit.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::source::{Origin, Source};
use crate::units::plural;

/// Whether something forbids to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The batch cannot run.
    Error,
    /// Worth knowing; what `check` says of a machine on which `run` would fail.
    Note,
}

/// One thing that is wrong (or worth a note), with its place.
#[derive(Debug, Clone)]
pub struct Fault {
    severity: Severity,
    message: String,
    source: Option<Arc<Source>>,
    origin: Option<Origin>,
    help: Option<String>,
}

impl Fault {
    /// A fault whose message is a lower-case sentence without a full stop.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), source: None, origin: None, help: None }
    }

    /// Points at a place.
    pub(crate) fn at(mut self, origin: &Origin) -> Self {
        self.source = Some(Arc::clone(&origin.source));
        self.origin = (!origin.span.is_empty()).then(|| origin.clone());
        self
    }

    /// Points at a place, where there is one.
    pub(crate) fn maybe_at(self, origin: Option<&Origin>) -> Self {
        match origin {
            Some(origin) => self.at(origin),
            None => self,
        }
    }

    /// Points at a file as a whole, where something is missing from it.
    pub(crate) fn at_source(mut self, source: &Arc<Source>) -> Self {
        self.source = Some(Arc::clone(source));
        self
    }

    /// Says what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says what to do, where there is something to say.
    pub(crate) fn maybe_help(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// Makes it a note.
    pub(crate) fn note(mut self) -> Self {
        self.severity = Severity::Note;
        self
    }

    /// The message alone, without its place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// `jobs/quick.toml:12:1`, or the file's name where no line is meant. Lines and columns (in characters)
    /// count from 1.
    pub fn location(&self) -> Option<String> {
        let name = &self.source.as_ref()?.name;
        Some(match self.origin.as_ref().map(Excerpt::of) {
            Some(excerpt) => format!("{name}:{}:{}", excerpt.line, excerpt.column),
            None => name.clone(),
        })
    }

    /// Whether it is an error or a note.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Order of the report: by file, then position.
    fn key(&self) -> (&str, usize, usize, &str) {
        let (start, end) = self.origin.as_ref().map_or((0, 0), |origin| (origin.span.start, origin.span.end));
        // Sources of one name are told apart by their text (several `--set`).
        (self.source.as_ref().map_or("", |source| &source.name), start, end, &self.message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Note => "note",
        };
        write!(f, "{severity}: {}", self.message)?;
        let excerpt = self.origin.as_ref().map(Excerpt::of);
        let margin = excerpt.as_ref().map_or(2, |excerpt| excerpt.line.to_string().len());
        if let Some(location) = self.location() {
            write!(f, "\n{:margin$}--> {location}", "")?;
        }
        if let Some(Excerpt { line, indent, width, text, .. }) = &excerpt {
            write!(f, "\n{:margin$} |\n{line} | {text}\n{:margin$} | ", "", "")?;
            write!(f, "{:pad$}{}", "", "^".repeat(*width), pad = indent)?;
        }
        match &self.help {
            Some(help) => write!(f, "\n{:margin$} = help: {help}", ""),
            None => Ok(()),
        }
    }
}

/// The first line of an origin, fit for a terminal: one column per character, whatever the file holds.
struct Excerpt {
    line: usize,
    column: usize,
    /// Blanks before the carets.
    indent: usize,
    width: usize,
    text: String,
}

impl Excerpt {
    fn of(origin: &Origin) -> Self {
        let all = &origin.source.text;
        // Spans come from the parser, but an index into a string must not be trusted with a panic.
        let start = floor_char(all, origin.span.start);
        let end = floor_char(all, origin.span.end).max(start);
        let line_start = all[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = all[start..].find('\n').map_or(all.len(), |at| start + at);
        let column = all[line_start..start].chars().filter(|&c| c != BOM).count();
        let (text, shift) = window(all[line_start..line_end].trim_start_matches(BOM).trim_end(), column);
        let indent = column - shift.min(column);
        let width = all[start..end.min(line_end)].chars().count();
        let room = text.chars().count().saturating_sub(indent);
        let line = all[..start].matches('\n').count() + 1;
        Self { line, column: column + 1, indent, width: width.min(room).max(1), text }
    }
}

/// Characters of a line that are shown: more would wrap on a terminal and misplace the carets.
const SHOWN: usize = 120;

/// The part of a line around a column (from 0), and by how many characters it is shifted to the left.
fn window(line: &str, column: usize) -> (String, usize) {
    let clean = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    let length = line.chars().count();
    if length <= SHOWN {
        return (clean.collect(), 0);
    }
    let start = column.saturating_sub(SHOWN / 3).min(length - SHOWN);
    let dots = |cut: bool| if cut { "..." } else { "" };
    let (before, after) = (dots(start > 0), dots(start + SHOWN < length));
    let part: String = clean.skip(start).take(SHOWN).collect();
    (format!("{before}{part}{after}"), start.saturating_sub(before.len()))
}

/// A byte-order mark shows as nothing and must not shift the columns.
const BOM: char = '\u{feff}';

fn floor_char(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Faults that a report shows: nobody reads more, and each is looked up in the whole text of its file.
const MOST_SHOWN: usize = 100;

/// All that is wrong with a batch, each fault once: the same one comes up at many points of a matrix. Its
/// `Display` is the whole report: sorted by file and position, a blank line between faults, a line that counts
/// them at the end.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    list: Vec<Fault>,
    seen: HashSet<Identity>,
}

/// Address of the source, span, message.
type Identity = (usize, usize, usize, String);

impl std::error::Error for Faults {}

impl Faults {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more, unless it is known.
    pub fn push(&mut self, fault: Fault) {
        let source = fault.source.as_ref().map_or(0, |source| Arc::as_ptr(source).addr());
        let (_, start, end, message) = fault.key();
        if self.seen.insert((source, start, end, message.to_owned())) {
            self.list.push(fault);
        }
    }

    /// All of another lot.
    pub fn append(&mut self, other: Self) {
        for fault in other.list {
            self.push(fault);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// In the order of the report.
    pub fn sorted(&self) -> Vec<&Fault> {
        let mut sorted: Vec<&Fault> = self.list.iter().collect();
        sorted.sort_by(|a, b| a.key().cmp(&b.key()));
        sorted
    }

    /// `value`, if nothing is wrong; otherwise the faults.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// The same as errors: what `check` only notes, `run` cannot do without.
    #[must_use]
    pub fn into_errors(mut self) -> Self {
        for fault in &mut self.list {
            fault.severity = Severity::Error;
        }
        self
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        let mut faults = Self::new();
        faults.push(fault);
        faults
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorted = self.sorted();
        for fault in sorted.iter().take(MOST_SHOWN) {
            write!(f, "{fault}\n\n")?;
        }
        if sorted.len() > MOST_SHOWN {
            write!(f, "the first {MOST_SHOWN} are shown, of ")?;
        }
        let count = |severity| self.list.iter().filter(|fault| fault.severity == severity).count();
        let files: HashSet<&str> = self
            .list
            .iter()
            .filter_map(|fault| fault.source.as_ref().map(|source| source.name.as_str()))
            .collect();
        let counts: Vec<String> = [(Severity::Error, "fault"), (Severity::Note, "note")]
            .into_iter()
            .map(|(severity, name)| (count(severity), name))
            .filter(|(n, _)| *n > 0)
            .map(|(n, name)| plural(n, name))
            .collect();
        write!(f, "{}", counts.join(" and "))?;
        if files.len() > 1 { write!(f, " in {} files", files.len()) } else { Ok(()) }
    }
}
