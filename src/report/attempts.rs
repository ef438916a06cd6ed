//! Attempts on disk: `OUT/<report>/<run_id>-<phase><rep>-a<attempt>.csv`, a header and one row each. Names carry
//! what resuming needs (which repetition, which attempt), so that a damaged file still occupies its number and is
//! never written over.

use std::path::{Component, Path, PathBuf};

use super::cell::Phase;
use super::{ReportError, Row};
use crate::atomic_file::AtomicFile;
use crate::regular_file;

/// End of the name of an attempt's output.
const OUTPUT: &str = ".output.txt";

/// Which attempt at which repetition of which run. The order is a run's own: warm-ups, then measured repetitions,
/// each by number and attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The run.
    pub run_id: String,
    /// The phase.
    pub phase: Phase,
    /// The repetition within its phase, from 1.
    pub rep: u32,
    /// The attempt, from 1.
    pub attempt: u32,
}

impl AttemptId {
    /// From its parts.
    pub fn new(run_id: impl Into<String>, phase: Phase, rep: u32, attempt: u32) -> Self {
        Self { run_id: run_id.into(), phase, rep, attempt }
    }

    /// `r0123456789ab-m001-a1.csv`; `w001` for a warm-up.
    pub fn file_name(&self) -> String {
        let phase = match self.phase {
            Phase::Warmup => 'w',
            Phase::Measured => 'm',
        };
        format!("{}-{phase}{:03}-a{}.csv", self.run_id, self.rep, self.attempt)
    }

    /// The attempt of a file name; `None` where the name is no attempt's.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(".csv")?.split('-');
        let (run_id, rep, attempt) = (parts.next()?, parts.next()?, parts.next()?);
        let (phase, rep) = match rep.split_at_checked(1)? {
            ("w", rep) => (Phase::Warmup, rep),
            ("m", rep) => (Phase::Measured, rep),
            _ => return None,
        };
        let attempt = attempt.strip_prefix('a')?;
        let id = Self::new(run_id, phase, rep.parse().ok()?, attempt.parse().ok()?);
        // One name per attempt: `m1` and `m+01` are none of ours.
        (valid_run_id(run_id) && id.file_name() == name).then_some(id)
    }
}

/// Whether a name is that of a command's output, `r0123456789ab-m001-a1.output.txt`.
pub(super) fn is_output_name(name: &str) -> bool {
    let attempt = name.strip_suffix(OUTPUT);
    attempt.is_some_and(|attempt| AttemptId::from_file_name(&format!("{attempt}.csv")).is_some())
}

/// The run of a values file's name, `r0123456789ab.values.csv`.
pub(super) fn is_values_name(name: &str) -> bool {
    name.strip_suffix(".values.csv").is_some_and(valid_run_id)
}

fn valid_run_id(id: &str) -> bool {
    id.len() <= 64
        && id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn check_run_id(id: &str) -> Result<&str, ReportError> {
    if valid_run_id(id) { Ok(id) } else { Err(ReportError::RunId(id.to_owned())) }
}

/// The table and the folder of attempts of a report: `OUT/paper/fig1.csv` and `OUT/paper/fig1`.
pub(super) fn places(out: &Path, report: &Path) -> Result<(PathBuf, PathBuf), ReportError> {
    let plain = report.components().all(|part| matches!(part, Component::Normal(_)));
    let Some(name) = report.file_name().filter(|_| plain) else {
        return Err(ReportError::Escapes(report.to_owned()));
    };
    let folder = out.join(report);
    // Not `with_extension`, which would take `fig1.5` for `fig1` with an extension.
    let mut table = name.to_owned();
    table.push(".csv");
    Ok((folder.with_file_name(table), folder))
}

/// Where an attempt's file lies.
pub fn attempt_path(out: &Path, report: &Path, id: &AttemptId) -> Result<PathBuf, ReportError> {
    check_run_id(&id.run_id)?;
    Ok(places(out, report)?.1.join(id.file_name()))
}

/// Where the values of a run lie.
pub fn values_path(out: &Path, report: &Path, run_id: &str) -> Result<PathBuf, ReportError> {
    let name = format!("{}.values.csv", check_run_id(run_id)?);
    Ok(places(out, report)?.1.join(name))
}

/// Where the output of an external's attempt lies.
pub fn output_path(out: &Path, report: &Path, id: &AttemptId) -> Result<PathBuf, ReportError> {
    let path = attempt_path(out, report, id)?;
    let name = id.file_name();
    Ok(path.with_file_name(name.trim_end_matches(".csv").to_owned() + OUTPUT))
}

/// Writes an attempt's file, whole or not at all; an attempt that exists is an error, not replaced. For the process
/// that ran the repetition; the owner of the table then calls [`super::JobReport::write`].
pub fn write_attempt(out: &Path, report: &Path, row: &Row) -> Result<(), ReportError> {
    let path = attempt_path(out, report, &row.attempt_id())?;
    let mut file = AtomicFile::create(&path)?;
    file.write(Row::header().as_bytes())?;
    file.write(row.line().as_bytes())?;
    Ok(file.commit_new()?)
}

/// Bytes that an attempt's file has at most: a row, whose longest cell is an error's text.
const MOST_ATTEMPT: u64 = 16 << 20;

/// An attempt as it lies on disk.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    /// What it says.
    pub(super) row: Row,
    /// The very line, which goes into the table as it is.
    pub(super) line: String,
}

/// Reads the file of attempt `id`; the error says what is wrong with it.
pub(super) fn read_attempt(path: &Path, id: &AttemptId) -> Result<Stored, String> {
    let text = regular_file::read(path, MOST_ATTEMPT).map_err(|error| format!("cannot be read: {error}"))?;
    let text = String::from_utf8(text).map_err(|_| "is not UTF-8".to_owned())?;
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let Some(line) = text.strip_prefix(&Row::header()) else {
        return Err("has another header than this version's rows".to_owned());
    };
    if !line.ends_with('\n') {
        return Err("breaks off within its row".to_owned());
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let records: Result<Vec<_>, _> = reader.records().collect();
    let records = records.map_err(|error| format!("is not valid CSV: {error}"))?;
    let [record] = records.as_slice() else {
        return Err(format!("holds {} rows, expected one", records.len()));
    };
    let row = Row::parse(record).map_err(|error| format!("is damaged: {error}"))?;
    if row.attempt_id() != *id {
        return Err(format!("holds the row of {}", row.attempt_id().file_name()));
    }
    Ok(Stored { row, line: line.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_follow_the_contract() {
        let id = AttemptId::new("r0123456789ab", Phase::Measured, 1, 1);
        assert_eq!(id.file_name(), "r0123456789ab-m001-a1.csv");
        let id = AttemptId::new("r0123456789ab", Phase::Warmup, 1234, 12);
        assert_eq!(id.file_name(), "r0123456789ab-w1234-a12.csv");
    }

    #[test]
    fn the_output_of_an_attempt_is_beside_it_and_is_no_attempt() {
        let id = AttemptId::new("r1", Phase::Measured, 2, 3);
        let path = output_path(Path::new("out"), Path::new("a"), &id).expect("path");
        assert_eq!(path, Path::new("out/a/r1-m002-a3.output.txt"));
        assert!(is_output_name("r1-m002-a3.output.txt") && !is_output_name("r1.output.txt"));
        assert_eq!(AttemptId::from_file_name("r1-m002-a3.output.txt"), None);
    }

    #[test]
    fn other_names_are_no_attempts() {
        for name in [
            "",
            ".csv",
            "r1-m001-a1",
            "r1-m1-a1.csv",
            "r1-x001-a1.csv",
            "r1-m001-1.csv",
            "r1-m+01-a1.csv",
            "r1-é01-a1.csv",
            "1r-m001-a1.csv",
            "R1-m001-a1.csv",
            "r1-m001-a1-b.csv",
            "../r1-m001-a1.csv",
            "r1.values.csv",
            "r1-m001-a99999999999.csv",
        ] {
            assert_eq!(AttemptId::from_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn reports_stay_below_the_output_directory() {
        let out = Path::new("out");
        for report in ["", "..", "../x", "a/../../x", "/etc/x", ".", "./a", "a/.."] {
            let places = places(out, Path::new(report));
            assert!(matches!(places, Err(ReportError::Escapes(_))), "{report}: {places:?}");
        }
        for run_id in ["", "../x", "r/x", "1a", "r-1", "r1.values"] {
            let path = values_path(out, Path::new("a"), run_id);
            assert!(matches!(path, Err(ReportError::RunId(_))), "{run_id}: {path:?}");
        }
    }

    #[test]
    fn a_dot_in_a_reports_name_is_part_of_it() {
        let (table, folder) = places(Path::new("out"), Path::new("paper/fig1.5")).expect("places");
        assert_eq!(table, Path::new("out/paper/fig1.5.csv"));
        assert_eq!(folder, Path::new("out/paper/fig1.5"));
    }

    #[test]
    fn an_attempt_is_written_once() {
        let out = tempfile::tempdir().expect("tempdir");
        let row = Row::new(&AttemptId::new("r1", Phase::Measured, 1, 1), "job");
        let report = Path::new("paper/fig1");
        write_attempt(out.path(), report, &row).expect("first");
        let again = write_attempt(out.path(), report, &row);
        assert!(matches!(again, Err(ReportError::Exists(_))), "{again:?}");
        let path = attempt_path(out.path(), report, &row.attempt_id()).expect("path");
        assert_eq!(read_attempt(&path, &row.attempt_id()).map(|stored| stored.row), Ok(row));
    }

    proptest! {
        #[test]
        fn any_attempt_is_found_again_by_its_name(run_id in "[a-z][a-z0-9]{0,15}", warmup: bool, rep: u32, attempt: u32) {
            let phase = if warmup { Phase::Warmup } else { Phase::Measured };
            let id = AttemptId::new(run_id, phase, rep, attempt);
            prop_assert_eq!(AttemptId::from_file_name(&id.file_name()), Some(id));
        }
    }
}
