//! The table of a job, `OUT/<report>.csv`. The folder of attempts is the truth and the table a copy of it in the
//! plan's order: what a process holds in memory only spares it reading the same files again. So any process may
//! rebuild the table at any time, and a kill at any instant leaves the last table or the next, never a part.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::attempts::{self, AttemptId, Stored};
use super::cell::{Phase, Status};
use super::{OLD_ATTEMPTS, ReportError, Row};
use crate::{atomic_file, regular_file};

/// How long to wait for another process that rebuilds the same table: rebuilding takes milliseconds, so one that
/// takes longer hangs, and the table is then written without it.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// In a report's folder while its attempts move to the folder that it names.
const MOVING: &str = ".moving";

/// Bytes that it has at most: those of a path.
const MOST_PATH: u64 = 64 << 10;

/// The attempts of a job and the table made of them.
#[derive(Debug)]
pub struct JobReport {
    out: PathBuf,
    report: PathBuf,
    table: PathBuf,
    folder: PathBuf,
    ranks: HashMap<String, usize>,
    attempts: BTreeMap<Place, Stored>,
    damaged: BTreeSet<AttemptId>,
    notes: Vec<String>,
}

/// Place in the table: the run's in the plan (unknown runs last), then the attempt's own order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: usize,
    id: AttemptId,
}

impl JobReport {
    /// Reads what there is, as `--resume` continues it; changes nothing on disk, except that leftovers of processes
    /// killed long ago are removed. `order` are the run ids as planned.
    pub fn open(out: &Path, report: &Path, order: &[String]) -> Result<Self, ReportError> {
        let (table, folder) = attempts::places(out, report)?;
        let mut ranks = HashMap::new();
        for (rank, run_id) in order.iter().enumerate() {
            ranks.entry(run_id.clone()).or_insert(rank);
        }
        let mut this = Self {
            out: out.to_owned(),
            report: report.to_owned(),
            table,
            folder,
            ranks,
            attempts: BTreeMap::new(),
            damaged: BTreeSet::new(),
            notes: Vec::new(),
        };
        atomic_file::remove_stale(&this.folder);
        if let Some(above) = this.table.parent() {
            atomic_file::remove_stale(above);
        }
        this.end_move()?;
        this.refresh()?;
        Ok(this)
    }

    /// Starts afresh, as a plain `run` does: earlier attempts, values and the table move to `<folder>/old/<time>/`, and
    /// the table holds its header alone. There is a table at any instant, and nothing is ever written over.
    pub fn begin_fresh(out: &Path, report: &Path, order: &[String]) -> Result<Self, ReportError> {
        let mut this = Self::open(out, report, order)?;
        let earlier = movable(&this.folder)?;
        // What was wrong with attempts that now leave is nobody's concern any more.
        this.notes.clear();
        let table = read_table(&this.table)?;
        // A table that holds no more than this version's header is not worth keeping.
        if !earlier.is_empty() || table.as_ref().is_some_and(|text| text != Row::header().as_bytes()) {
            let old = this.move_to_old(&earlier, table)?;
            this.notes.push(format!("earlier attempts of this job are kept in {}", old.display()));
        }
        this.write()?;
        Ok(this)
    }

    /// Whether this repetition has an attempt that ended well.
    pub fn finished(&self, run_id: &str, phase: Phase, rep: u32) -> bool {
        self.rows().any(|row| {
            row.status == Status::Ok && row.run_id == run_id && row.phase == phase && row.rep == rep
        })
    }

    /// Number of the next attempt at this repetition: damaged files keep theirs.
    pub fn next_attempt(&self, run_id: &str, phase: Phase, rep: u32) -> u32 {
        let known = self.attempts.keys().map(|place| &place.id).chain(&self.damaged);
        let same = known.filter(|id| id.run_id == run_id && id.phase == phase && id.rep == rep);
        same.map(|id| id.attempt).max().map_or(1, |last| last.saturating_add(1))
    }

    /// Writes the attempt's file and the table with it.
    pub fn add(&mut self, row: &Row) -> Result<(), ReportError> {
        attempts::write_attempt(&self.out, &self.report, row)?;
        self.write()
    }

    /// Rebuilds the table, with the attempts that other processes (a repetition's child, another shard) have written
    /// meanwhile.
    pub fn write(&mut self) -> Result<(), ReportError> {
        // Held from listing to renaming, so that no process puts an older list over a newer one.
        let _lock = lock(&self.folder);
        self.refresh()?;
        let mut text = Row::header();
        for stored in self.attempts.values() {
            text.push_str(&stored.line);
        }
        Ok(atomic_file::replace(&self.table, text.as_bytes())?)
    }

    /// Takes up new attempts and forgets those that are gone.
    pub fn refresh(&mut self) -> Result<(), ReportError> {
        let present: BTreeSet<AttemptId> =
            names(&self.folder)?.iter().filter_map(|name| AttemptId::from_file_name(name)).collect();
        self.attempts.retain(|place, _| present.contains(&place.id));
        self.damaged.retain(|id| present.contains(id));
        for id in present {
            let rank = self.ranks.get(&id.run_id).copied().unwrap_or(usize::MAX);
            let place = Place { rank, id };
            if !self.attempts.contains_key(&place) && !self.damaged.contains(&place.id) {
                self.take_up(place);
            }
        }
        self.share_verdicts();
        Ok(())
    }

    /// What one repetition proved holds for all of its run with the same result, those before it (warm-ups) too. An
    /// attempt's own file tells only what that attempt did.
    fn share_verdicts(&mut self) {
        let result = |row: &Row| Some((row.run_id.clone(), row.result_checksum?.0));
        let proven = self.rows().filter(|row| row.verified == Some(true));
        let proven: HashSet<_> = proven.filter_map(result).collect();
        for Stored { row, line } in self.attempts.values_mut() {
            if row.verified.is_none() && result(row).is_some_and(|result| proven.contains(&result)) {
                row.verified = Some(true);
                *line = row.line();
            }
        }
    }

    fn take_up(&mut self, place: Place) {
        let path = self.folder.join(place.id.file_name());
        match attempts::read_attempt(&path, &place.id) {
            Ok(stored) => {
                self.attempts.insert(place, stored);
            }
            Err(fault) => {
                self.notes.push(format!("the attempt {} is left out, because it {fault}", path.display()));
                self.damaged.insert(place.id);
            }
        }
    }

    /// The rows in the table's order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.attempts.values().map(|stored| &stored.row)
    }

    /// What the user should know: attempts left out and why, where earlier ones went. Each is handed out once.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// The table's file.
    pub fn path(&self) -> &Path {
        &self.table
    }

    fn move_to_old(&self, earlier: &[String], table: Option<Vec<u8>>) -> Result<PathBuf, ReportError> {
        let old = new_folder(&self.folder.join(OLD_ATTEMPTS))?;
        let moving = self.folder.join(MOVING);
        atomic_file::replace(&moving, old.as_os_str().as_encoded_bytes())?;
        // A copy, because the table must not be missing for an instant; `write` then empties it.
        if let Some(text) = table {
            let copy = self.table.file_name().map(|name| old.join(name)).unwrap_or_default();
            atomic_file::replace(&copy, &text)?;
        }
        self.move_all(earlier, &old)?;
        fs::remove_file(&moving).map_err(ReportError::io("remove", &moving))?;
        Ok(old)
    }

    /// Ends a move that was cut short: nothing was added since, because a move is the first thing that a fresh start does.
    fn end_move(&self) -> Result<(), ReportError> {
        let moving = self.folder.join(MOVING);
        let old = match regular_file::read(&moving, MOST_PATH) {
            Ok(old) => PathBuf::from(OsStr::from_bytes(&old)),
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(ReportError::io("read", &moving)(error)),
        };
        fs::create_dir_all(&old).map_err(ReportError::io("create the directory", &old))?;
        self.move_all(&movable(&self.folder)?, &old)?;
        fs::remove_file(&moving).map_err(ReportError::io("remove", &moving))
    }

    fn move_all(&self, names: &[String], old: &Path) -> Result<(), ReportError> {
        for name in names {
            let from = self.folder.join(name);
            fs::rename(&from, old.join(name)).map_err(ReportError::io("move", &from))?;
        }
        atomic_file::sync_folder(old)?;
        Ok(atomic_file::sync_folder(&self.folder)?)
    }
}

/// Rebuilds a table from its attempts; returns the notes.
pub fn rebuild(out: &Path, report: &Path, order: &[String]) -> Result<Vec<String>, ReportError> {
    let mut report = JobReport::open(out, report, order)?;
    report.write()?;
    Ok(report.take_notes())
}

/// What a fresh start moves away: attempts, values and outputs.
fn movable(folder: &Path) -> Result<Vec<String>, ReportError> {
    let ours = |name: &String| {
        AttemptId::from_file_name(name).is_some()
            || attempts::is_values_name(name)
            || attempts::is_output_name(name)
    };
    Ok(names(folder)?.into_iter().filter(ours).collect())
}

/// Names in a folder; none where there is no folder. Names that are no UTF-8 are none of ours.
fn names(folder: &Path) -> Result<Vec<String>, ReportError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        entries => entries.map_err(ReportError::io("list", folder))?,
    };
    let names: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name().into_string().ok())).collect();
    Ok(names.map_err(ReportError::io("list", folder))?.into_iter().flatten().collect())
}

/// Whether nothing is there; a file in the way of a folder is found by whoever makes the folder.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A table's content; none where there is none.
fn read_table(table: &Path) -> Result<Option<Vec<u8>>, ReportError> {
    // Whole: it is ours, and as long as its rows.
    match regular_file::read(table, u64::MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(ReportError::io("read", table)(error)),
    }
}

/// Makes a folder that was not there, named by the time and, within a second, by a number.
fn new_folder(parent: &Path) -> Result<PathBuf, ReportError> {
    fs::create_dir_all(parent).map_err(ReportError::io("create the directory", parent))?;
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ").to_string();
    let mut folder = parent.join(&time);
    let mut number = 1;
    while let Err(error) = fs::create_dir(&folder) {
        if error.kind() != io::ErrorKind::AlreadyExists {
            return Err(ReportError::io("create the directory", &folder)(error));
        }
        number += 1;
        folder = parent.join(format!("{time}-{number}"));
    }
    atomic_file::sync_folder(parent)?;
    Ok(folder)
}

/// The folder's lock, freed when dropped. `None` where there is no folder, the file system has no locks, or their
/// holder hangs: the lock only guards the order of two writers, not the table's validity.
fn lock(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    let start = Instant::now();
    loop {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR)
                if start.elapsed() < LOCK_PATIENCE =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
