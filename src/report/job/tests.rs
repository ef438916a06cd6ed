use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::super::Digest;
use super::*;
use crate::atomic_file::AtomicFile;

const REPORT: &str = "paper/fig1";

fn row(run_id: &str, phase: Phase, rep: u32, attempt: u32, status: Status) -> Row {
    Row { status, ..Row::new(&AttemptId::new(run_id, phase, rep, attempt), "fig1") }
}

fn ok(run_id: &str, rep: u32) -> Row {
    row(run_id, Phase::Measured, rep, 1, Status::Ok)
}

fn order(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

fn open(out: &Path, ids: &[&str]) -> JobReport {
    JobReport::open(out, Path::new(REPORT), &order(ids)).expect("open")
}

/// The rows of a table; panics unless it is a valid one with one header.
fn table(out: &Path) -> Vec<Row> {
    let text = fs::read_to_string(out.join("paper/fig1.csv")).expect("a table");
    let records = text.strip_prefix(&Row::header()).expect("the header first");
    assert!(records.is_empty() || records.ends_with('\n'));
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(records.as_bytes());
    reader.records().map(|record| Row::parse(&record.expect("a record")).expect("a row")).collect()
}

fn keys(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| row.attempt_id().file_name().replace(".csv", "")).collect()
}

#[test]
fn rows_stand_in_plan_order_whatever_order_they_came_in() {
    let out = tempfile::tempdir().expect("tempdir");
    let mut report = open(out.path(), &["rb", "ra"]);
    for row in [
        ok("rz", 1),
        ok("ra", 1),
        ok("rx", 1),
        ok("rb", 2),
        row("rb", Phase::Measured, 1, 2, Status::Ok),
        row("rb", Phase::Measured, 1, 1, Status::Failed),
        row("rb", Phase::Warmup, 1, 1, Status::Ok),
        ok("rb", 10),
    ] {
        report.add(&row).expect("add");
    }
    let expected = [
        "rb-w001-a1",
        "rb-m001-a1",
        "rb-m001-a2",
        "rb-m002-a1",
        "rb-m010-a1",
        "ra-m001-a1",
        "rx-m001-a1",
        "rz-m001-a1",
    ];
    assert_eq!(keys(&table(out.path())), expected);
    assert_eq!(keys(&report.rows().cloned().collect::<Vec<_>>()), expected);
}

#[test]
fn resuming_knows_what_is_finished_and_goes_on_counting() {
    let out = tempfile::tempdir().expect("tempdir");
    let mut report = open(out.path(), &["ra"]);
    assert_eq!(report.next_attempt("ra", Phase::Measured, 1), 1);
    report.add(&row("ra", Phase::Measured, 1, 1, Status::Failed)).expect("add");
    report.add(&row("ra", Phase::Measured, 1, 2, Status::Interrupted)).expect("add");
    report.add(&row("ra", Phase::Warmup, 1, 1, Status::Ok)).expect("add");

    let mut report = open(out.path(), &["ra"]);
    assert!(report.finished("ra", Phase::Warmup, 1));
    assert!(!report.finished("ra", Phase::Measured, 1), "no attempt at it ended well");
    assert!(!report.finished("rb", Phase::Warmup, 1));
    assert_eq!(report.next_attempt("ra", Phase::Measured, 1), 3);
    report.add(&row("ra", Phase::Measured, 1, 3, Status::Ok)).expect("add");
    assert!(report.finished("ra", Phase::Measured, 1));
    assert_eq!(table(out.path()).len(), 4);
}

#[test]
fn damaged_attempts_are_left_out_with_a_note_and_keep_their_number() {
    let out = tempfile::tempdir().expect("tempdir");
    let mut report = open(out.path(), &["ra"]);
    report.add(&ok("ra", 1)).expect("add");
    let folder = out.path().join(REPORT);
    let whole = fs::read(folder.join("ra-m001-a1.csv")).expect("read");
    let half = &whole[..whole.len() - 3];
    fs::write(folder.join("ra-m002-a1.csv"), half).expect("half");
    fs::write(folder.join("ra-m003-a1.csv"), b"").expect("empty");
    fs::write(folder.join("ra-m004-a1.csv"), b"a,b\n1,2\n").expect("foreign");
    fs::write(folder.join("ra-m005-a1.csv"), &whole).expect("another's row");
    fs::write(folder.join("ra-m006-a1.csv"), b"\xff\xfe").expect("binary");
    fs::write(folder.join("ra-m007-a1.csv"), [&whole[..], &whole[Row::header().len()..]].concat())
        .expect("twice");
    fs::create_dir(folder.join("ra-m008-a1.csv")).expect("a folder");
    fs::write(folder.join("notes.txt"), b"mine").expect("foreign name");

    let mut report = open(out.path(), &["ra"]);
    report.write().expect("write");
    assert_eq!(keys(&table(out.path())), ["ra-m001-a1"]);
    let notes = report.take_notes();
    let prefix = format!("the attempt {}/", folder.display());
    let notes: Vec<&str> =
        notes.iter().map(|note| note.strip_prefix(&prefix).expect("names its file")).collect();
    insta::assert_snapshot!(notes.join("\n"), @r"
    ra-m002-a1.csv is left out, because it breaks off within its row
    ra-m003-a1.csv is left out, because it is empty
    ra-m004-a1.csv is left out, because it has another header than this version's rows
    ra-m005-a1.csv is left out, because it holds the row of ra-m001-a1.csv
    ra-m006-a1.csv is left out, because it is not UTF-8
    ra-m007-a1.csv is left out, because it holds 2 rows, expected one
    ra-m008-a1.csv is left out, because it cannot be read: it is a directory, and a regular file is expected there; take it away, or name another file
    ");
    assert_eq!(report.next_attempt("ra", Phase::Measured, 2), 2);
    report.write().expect("write");
    assert_eq!(report.take_notes(), Vec::<String>::new(), "each is said once");
}

#[test]
fn starting_afresh_keeps_everything_and_leaves_an_empty_table() {
    let out = tempfile::tempdir().expect("tempdir");
    let fresh = || JobReport::begin_fresh(out.path(), Path::new(REPORT), &order(&["ra"])).expect("fresh");
    let folder = out.path().join(REPORT);

    let mut report = fresh();
    assert_eq!(report.take_notes(), Vec::<String>::new());
    assert!(table(out.path()).is_empty());
    assert!(!folder.join("old").exists(), "nothing was there to keep");

    // Twice within a second: the folders must not collide.
    for _ in 0..2 {
        report.add(&ok("ra", 1)).expect("add");
        fs::write(folder.join("ra.values.csv"), b"vertex,value\n").expect("values");
        fs::write(folder.join("other.csv"), b"of a job below this one").expect("other");
        report = fresh();
        assert_eq!(report.take_notes().len(), 1);
        assert!(table(out.path()).is_empty());
        assert_eq!(report.next_attempt("ra", Phase::Measured, 1), 1);
    }

    let kept: Vec<PathBuf> =
        fs::read_dir(folder.join("old")).expect("old").map(|e| e.expect("entry").path()).collect();
    assert_eq!(kept.len(), 2);
    for kept in kept {
        assert_eq!(names(&kept).expect("names").len(), 3);
        assert!(fs::read_to_string(kept.join("fig1.csv")).expect("table").contains("\n1,ra,"));
        assert!(kept.join("ra-m001-a1.csv").exists() && kept.join("ra.values.csv").exists());
    }
    assert!(folder.join("other.csv").exists());
}

#[test]
fn a_proof_holds_for_the_same_result_of_the_same_run_alone() {
    let out = tempfile::tempdir().expect("tempdir");
    let mut report = open(out.path(), &["ra", "rb"]);
    let with = |row: Row, checksum, verified| Row { result_checksum: checksum, verified, ..row };
    let same = Some(Digest(7));
    for row in [
        with(row("ra", Phase::Warmup, 1, 1, Status::Ok), same, None),
        with(ok("ra", 1), same, Some(true)),
        with(ok("ra", 2), Some(Digest(8)), None),
        with(ok("ra", 3), None, None),
        with(ok("rb", 1), same, None),
        with(ok("rb", 2), same, Some(false)),
    ] {
        report.add(&row).expect("add");
    }
    let verdicts = [Some(true), Some(true), None, None, None, Some(false)];
    assert_eq!(report.rows().map(|row| row.verified).collect::<Vec<_>>(), verdicts);
    assert_eq!(table(out.path()).iter().map(|row| row.verified).collect::<Vec<_>>(), verdicts);
}

#[test]
fn attempts_of_other_processes_appear_in_the_table() {
    let out = tempfile::tempdir().expect("tempdir");
    let mut first = open(out.path(), &["ra", "rb"]);
    let mut second = open(out.path(), &["ra", "rb"]);
    second.add(&ok("rb", 1)).expect("add");
    first.add(&ok("ra", 1)).expect("add");
    attempts::write_attempt(out.path(), Path::new(REPORT), &ok("rb", 2)).expect("a child's row");
    second.write().expect("write");
    assert_eq!(keys(&table(out.path())), ["ra-m001-a1", "rb-m001-a1", "rb-m002-a1"]);
}

/// Stops after each file operation of adding a row, as a kill would (the file is leaked, not cleaned up), and looks.
#[test]
fn stopping_after_any_step_leaves_a_valid_table_and_a_report_that_goes_on() {
    type Step = fn(AtomicFile);
    let header = Row::header();
    let steps: [(&str, Step); 3] = [
        ("created", |file| std::mem::forget(file)),
        ("half written", |mut file| {
            file.write(&Row::header().as_bytes()[..40]).expect("write");
            std::mem::forget(file);
        }),
        ("renamed", |mut file| {
            file.write((Row::header() + &ok("ra", 2).line()).as_bytes()).expect("write");
            file.commit_new().expect("commit");
        }),
    ];
    for (name, stop) in steps {
        let out = tempfile::tempdir().expect("tempdir");
        open(out.path(), &["ra"]).add(&ok("ra", 1)).expect("add");
        stop(AtomicFile::create(&out.path().join(REPORT).join("ra-m002-a1.csv")).expect("create"));
        assert_eq!(keys(&table(out.path())), ["ra-m001-a1"], "{name}");

        // The table's own rename, stopped likewise.
        let mut torn = AtomicFile::create(&out.path().join("paper/fig1.csv")).expect("create");
        torn.write(&header.as_bytes()[..40]).expect("write");
        std::mem::forget(torn);
        assert_eq!(keys(&table(out.path())), ["ra-m001-a1"], "{name}");

        let mut report = open(out.path(), &["ra"]);
        assert_eq!(report.take_notes(), Vec::<String>::new(), "{name}");
        let attempt = report.next_attempt("ra", Phase::Measured, 2);
        report.add(&row("ra", Phase::Measured, 2, attempt, Status::Ok)).expect("add");
        assert_eq!(table(out.path()).len(), if name == "renamed" { 3 } else { 2 }, "{name}");
    }
}

const VICTIM: &str = "IOC_TEST_REPORT_VICTIM";

/// The process that the next test kills: adds rows for ever, starting afresh now and then, and says so after each.
#[test]
#[ignore = "started and killed by a_kill_at_any_instant_leaves_a_valid_table"]
fn victim() {
    let Some(out) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let mut said = std::io::stdout();
    let mut report = open(&out, &["ra"]);
    for rep in 1.. {
        if rep % 5 == 0 {
            report = JobReport::begin_fresh(&out, Path::new(REPORT), &order(&["ra"])).expect("fresh");
        }
        let attempt = report.next_attempt("ra", Phase::Measured, rep);
        report.add(&row("ra", Phase::Measured, rep, attempt, Status::Ok)).expect("add");
        writeln!(said, "\nadded").expect("the parent listens");
    }
}

#[test]
fn a_kill_at_any_instant_leaves_a_valid_table() {
    let out = tempfile::tempdir().expect("tempdir");
    open(out.path(), &["ra"]).write().expect("a first table");
    let mut acknowledged = 0;
    for round in 0..25u64 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--ignored", "--exact", "report::job::tests::victim", "--nocapture"])
            .env(VICTIM, out.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the victim");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let started = said.by_ref().take_while(|line| line != "added").count();
        assert!(started < 100, "the victim did not add a row");
        acknowledged += 1;
        // A time within the next rows, another in each round; and readers see a whole table all the while.
        let until = Instant::now() + Duration::from_micros(round * 977 % 13_000);
        while Instant::now() < until {
            table(out.path());
        }
        child.kill().expect("kill");
        child.wait().expect("wait");
        acknowledged += said.filter(|line| line == "added").count();

        let rows = table(out.path());
        let mut report = open(out.path(), &["ra"]);
        assert_eq!(report.take_notes(), Vec::<String>::new());
        report.write().expect("rebuild");
        let rebuilt = table(out.path());
        // The table lags by the attempt being added; it leads where a fresh start had begun to move attempts away.
        assert!(rebuilt.len() <= rows.len() + 1, "{} rows, then {}", rows.len(), rebuilt.len());
    }
    let all = walkdir::WalkDir::new(out.path())
        .into_iter()
        .map(|entry| entry.expect("entry").file_name().to_owned());
    let kept = all.filter(|name| name.to_str().and_then(AttemptId::from_file_name).is_some()).count();
    assert!(kept >= acknowledged, "{kept} attempts are left of {acknowledged}");
}

#[test]
fn a_fresh_start_that_was_killed_while_it_moved_attempts_ends_its_move_first() {
    let out = tempfile::tempdir().expect("tempdir");
    let mut report = open(out.path(), &["ra"]);
    for rep in 1..=3 {
        report.add(&ok("ra", rep)).expect("add");
    }
    let folder = out.path().join(REPORT);
    let old = folder.join("old").join("t");
    fs::create_dir_all(&old).expect("old");
    fs::write(folder.join(MOVING), old.as_os_str().as_encoded_bytes()).expect("marker");
    let first = ok("ra", 1).attempt_id().file_name();
    fs::rename(folder.join(&first), old.join(&first)).expect("moved before the kill");
    let report = open(out.path(), &["ra"]);
    assert!((1..=3).all(|rep| !report.finished("ra", Phase::Measured, rep)));
    assert_eq!(fs::read_dir(&old).expect("old").count(), 3);
    assert!(!folder.join(MOVING).exists());
}

#[test]
fn a_thousand_attempts_are_no_burden() {
    let out = tempfile::tempdir().expect("tempdir");
    let mut report = open(out.path(), &["ra"]);
    for rep in 1..=1000 {
        // Without fsync, which is not what this measures.
        let row = ok("ra", rep);
        let path = out.path().join(REPORT).join(row.attempt_id().file_name());
        fs::create_dir_all(path.parent().expect("folder")).expect("folder");
        fs::write(path, Row::header() + &row.line()).expect("attempt");
    }
    report.write().expect("write");
    let start = Instant::now();
    for rep in 1001..=1010 {
        report.add(&ok("ra", rep)).expect("add");
    }
    let each = start.elapsed() / 10;
    assert_eq!(table(out.path()).len(), 1010);
    // 3 ms on an idle machine; the bound leaves room for a busy one.
    assert!(each < Duration::from_millis(500), "{each:?} per attempt");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_set_of_attempts_becomes_the_same_table_in_one_go_or_one_by_one(
        ids in proptest::collection::hash_set(("[a-c]", any::<bool>(), 1u32..4, 1u32..3), 0..8)
    ) {
        let out = tempfile::tempdir().expect("tempdir");
        let mut report = open(out.path(), &["c", "a"]);
        report.write().expect("an empty table");
        for (run_id, warmup, rep, attempt) in ids {
            let phase = if warmup { Phase::Warmup } else { Phase::Measured };
            report.add(&row(&run_id, phase, rep, attempt, Status::Ok)).expect("add");
        }
        let grown = fs::read(report.path()).expect("table");
        rebuild(out.path(), Path::new(REPORT), &order(&["c", "a"])).expect("rebuild");
        prop_assert_eq!(fs::read(report.path()).expect("table"), grown);
        table(out.path());
    }
}
