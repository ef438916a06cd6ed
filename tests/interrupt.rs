//! Whatever ends a batch early (Ctrl-C, SIGTERM, a kill, a failure, a time limit), what had finished is in the report,
//! nothing is left running or half-written, and `--resume` ends with the results of an undisturbed batch.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use common::project::{Project, Row, Running, until};

/// Four repetitions of a second or so each, because the device delivers 2 MB/s of 2 MB.
const SLOW: &str = r#"dataset = { generate = { kronecker = { scale = 14 } } }
grid = { encoding = "raw" }

[algorithm.spmv]

[storage]
emulate = "2 MB/s"

[engine]
buffer = "256 KiB"
block_size = "32 KiB"

[measure]
repeat = 2
warmup = 0

[[variant]]
name = "ioc"
[[variant]]
name = "sync"
engine = { model = "sync", io = "psync" }
"#;

/// An import of some seconds.
const LARGE: &str = r"dataset = { generate = { kronecker = { scale = 20 } } }

[algorithm.scan]

[measure]
repeat = 1
warmup = 0
";

/// As promptly as a person expects of Ctrl-C.
const PROMPT: Duration = Duration::from_secs(2);

fn with_status<'a>(rows: &'a [Row], status: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row["status"] == status).collect()
}

/// The checksum of each repetition that went well.
fn checksums(rows: &[Row]) -> BTreeMap<(String, String), String> {
    let rows = with_status(rows, "ok").into_iter();
    rows.map(|row| ((row["variant"].clone(), row["rep"].clone()), row["result_checksum"].clone())).collect()
}

/// What the batch gives where nobody disturbs it: rates change no result.
fn undisturbed() -> &'static BTreeMap<(String, String), String> {
    static CHECKSUMS: OnceLock<BTreeMap<(String, String), String>> = OnceLock::new();
    CHECKSUMS.get_or_init(|| {
        let project = Project::with("job.toml", SLOW.replace("2 MB/s", "off"));
        project.good(&["run", "job.toml", "--no-scan"]);
        checksums(&project.rows("job"))
    })
}

/// A batch of which one repetition is over and the next is under way.
fn under_way(project: &Project) -> Running {
    project.good(&["build", "job.toml"]);
    let running = project.start(&["run", "job.toml", "--no-scan"]);
    until(|| (!with_status(&project.rows("job"), "ok").is_empty()).then_some(())).expect("a finished row");
    until(|| children(running.pid()).first().copied()).expect("a child");
    std::thread::sleep(Duration::from_millis(200));
    running
}

/// An import that has begun.
fn importing(project: &Project, command: &str) -> Running {
    let running = project.start(&[command, "job.toml"]);
    until(|| (!project.files("data").is_empty()).then_some(())).expect("the import begins");
    std::thread::sleep(Duration::from_millis(200));
    running
}

/// Processes whose parent is this one.
fn children(parent: u32) -> Vec<u32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| stat(pid).is_some_and(|(state, above)| above == parent && state != 'Z')).collect()
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn has_ended(pid: u32) -> bool {
    stat(pid).is_none_or(|(state, _)| state == 'Z')
}

/// Goes on with the batch, which then has what an undisturbed one has.
fn resumes_to_the_same(project: &Project) {
    project.good(&["run", "job.toml", "--resume", "--no-scan"]);
    let rows = project.rows("job");
    assert_eq!(&checksums(&rows), undisturbed());
    // The interrupted attempt stays as it was, and another one was made.
    for row in with_status(&rows, "interrupted") {
        assert!(rows.iter().any(|other| {
            (&other["run_id"], &other["rep"], other["status"].as_str()) == (&row["run_id"], &row["rep"], "ok")
                && other["attempt"] > row["attempt"]
        }));
    }
    assert_eq!(project.leftovers(), Vec::<String>::new());
}

#[test]
fn a_run_ends_promptly_by_any_signal_and_resumes_to_the_same_results() {
    for signal in ["INT", "TERM", "HUP"] {
        let project = Project::with("job.toml", SLOW);
        let mut running = under_way(&project);
        let child = children(running.pid());
        running.signal(signal);
        let (status, took) = running.wait();
        assert_eq!(status.code(), Some(130), "{signal}: {}", project.read("stderr"));
        assert!(took < PROMPT, "{signal}: {took:?}");
        assert!(child.into_iter().all(has_ended));
        let rows = project.rows("job");
        let interrupted = with_status(&rows, "interrupted");
        assert_eq!((with_status(&rows, "ok").len(), interrupted.len(), rows.len()), (1, 1, 2));
        assert_eq!(interrupted[0]["error_class"], "interrupted");
        assert!(interrupted[0]["result_checksum"].is_empty());
        resumes_to_the_same(&project);
    }
}

#[test]
fn a_repetition_that_is_ended_alone_is_no_success_of_the_batch() {
    let project = Project::with("job.toml", SLOW);
    let mut running = under_way(&project);
    let child = children(running.pid()).into_iter().next().expect("a repetition under way");
    assert!(Command::new("kill").args(["-s", "TERM", &child.to_string()]).status().unwrap().success());
    let (status, _) = running.wait();
    assert_eq!(status.code(), Some(3), "{}", project.read("stderr"));
    resumes_to_the_same(&project);
}

#[test]
fn ctrl_c_reaches_parent_and_child_at_once() {
    let project = Project::with("job.toml", SLOW);
    project.good(&["build", "job.toml"]);
    let mut command = project.command(common::project::IOC, &["run", "job.toml", "--quiet", "--no-scan"]);
    let mut child = command.process_group(0).spawn().unwrap();
    until(|| (!with_status(&project.rows("job"), "ok").is_empty()).then_some(())).expect("a finished row");
    std::thread::sleep(Duration::from_millis(200));
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-s", "INT", "--", &group]).status().unwrap().success());
    let status = until(|| child.try_wait().unwrap()).expect("the program hangs");
    assert_eq!(status.code(), Some(130));
    assert_eq!(with_status(&project.rows("job"), "interrupted").len(), 1);
}

#[test]
fn a_second_signal_ends_what_does_not_heed_the_first() {
    let depths: Vec<String> = (1..=2000).map(|depth| depth.to_string()).collect();
    let matrix = format!("{LARGE}[matrix]\n\"engine.io_depth\" = [{}]\n", depths.join(", "));
    let project = Project::with("job.toml", matrix);
    for signal in ["INT", "TERM"] {
        // Nobody reads the list, so that the program waits in a write for ever.
        let mut command = project.command(common::project::IOC, &["check", "job.toml"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let send = || {
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        };
        std::thread::sleep(Duration::from_millis(500));
        send();
        std::thread::sleep(Duration::from_millis(500));
        send();
        let status = until(|| child.try_wait().unwrap());
        let _ = child.kill();
        assert_eq!(status.expect("the program hangs").code(), Some(130), "{signal}");
    }
}

#[test]
fn an_import_ends_promptly_and_leaves_no_grid() {
    for (command, signal) in [("run", "INT"), ("build", "TERM")] {
        let project = Project::with("job.toml", LARGE);
        let mut running = importing(&project, command);
        running.signal(signal);
        let (status, took) = running.wait();
        assert_eq!(status.code(), Some(130), "{command}: {}", project.read("stderr"));
        assert!(took < PROMPT, "{command}: {took:?}");
        assert!(!project.has_grid() && project.leftovers().is_empty(), "{:?}", project.files("data"));
        let rows = project.rows("job");
        assert_eq!(with_status(&rows, "interrupted").len(), rows.len());
        assert_eq!(rows.len(), usize::from(command == "run"));
    }
}

#[test]
fn an_interrupted_import_is_made_again_by_resume() {
    let project = Project::with("job.toml", LARGE);
    let mut running = importing(&project, "run");
    running.signal("INT");
    running.wait();
    project.good(&["run", "job.toml", "--resume"]);
    let rows = project.rows("job");
    let (interrupted, ok) = (with_status(&rows, "interrupted"), with_status(&rows, "ok"));
    assert_eq!((interrupted.len(), ok.len(), rows.len()), (1, 1, 2));
    // A scan's result is the checksum of the data set, so that it shows a grid with an edge too few.
    assert_eq!(ok[0]["result_checksum"], ok[0]["dataset_checksum"]);
}

#[test]
fn a_killed_parent_takes_its_child_along_and_resume_completes() {
    let project = Project::with("job.toml", SLOW);
    let mut running = under_way(&project);
    let child = children(running.pid())[0];
    running.signal("KILL");
    running.wait();
    until(|| has_ended(child).then_some(())).expect("the child ends with its parent");
    // The table is whole, though nobody was there to add the last attempt to it.
    assert_eq!(checksums(&project.rows("job")).len(), 1);
    resumes_to_the_same(&project);
}

#[test]
fn a_killed_child_costs_its_repetition_and_no_more() {
    let project = Project::with("job.toml", SLOW);
    let mut running = under_way(&project);
    let child = children(running.pid())[0];
    assert!(Command::new("kill").args(["-s", "KILL", &child.to_string()]).status().unwrap().success());
    let (status, _) = running.wait();
    assert_eq!(status.code(), Some(3));
    let rows = project.rows("job");
    let failed = with_status(&rows, "failed");
    assert_eq!((with_status(&rows, "ok").len(), failed.len()), (3, 1));
    assert_eq!(failed[0]["error_class"], "killed");
    resumes_to_the_same(&project);
}

#[test]
fn a_killed_scan_costs_the_limits_and_is_said() {
    let project = Project::with("job.toml", SLOW);
    project.good(&["build", "job.toml"]);
    let mut running = project.start(&["run", "job.toml", "--only", "ioc"]);
    let scans = |&pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("--scan"))
    };
    let scan = until(|| children(running.pid()).into_iter().find(scans)).expect("a scan");
    assert!(Command::new("kill").args(["-s", "KILL", &scan.to_string()]).status().unwrap().success());
    assert_eq!(running.wait().0.code(), Some(0));
    let rows = project.rows("job");
    assert!(rows.len() == 2 && rows.iter().all(|row| row["status"] == "ok" && row["limit_s"].is_empty()));
    let said = project.read("stderr");
    assert_eq!(said.matches("note: the scan was killed (signal 9)").count(), 1, "{said}");
}

#[test]
fn resume_makes_a_table_again_also_where_nothing_is_left_to_run() {
    let project = Project::with("job.toml", SLOW);
    project.good(&["run", "job.toml", "--no-scan"]);
    let table = project.read("reports/job.csv");
    for damaged in ["", table.lines().next().unwrap()] {
        project.write("reports/job.csv", damaged);
        project.good(&["run", "job.toml", "--no-scan", "--resume"]);
        assert_eq!(project.read("reports/job.csv"), table);
    }
}

#[test]
fn resume_counts_on_from_what_was_finished_earlier() {
    let quick = "dataset = { generate = { kronecker = { scale = 8 } } }\n[algorithm.scan]\n";
    let project = Project::with("job.toml", quick);
    project.good(&["run", "job.toml", "--no-scan", "--set", "measure.repeat=2"]);
    // The warm-up and one of two are finished; three more are wanted.
    let run = project.rows("job")[0]["run_id"].clone();
    fs::remove_file(project.path(format!("reports/job/{run}-m001-a1.csv"))).unwrap();
    let said = project.good(&["run", "job.toml", "--no-scan", "--resume", "--set", "measure.repeat=4"]);
    let counts: Vec<&str> =
        said.stderr.lines().filter_map(|line| line.split_once(']')).map(|(n, _)| n).collect();
    assert_eq!(counts, ["[3/5", "[4/5", "[5/5"], "{}", said.stderr);
}

#[test]
fn a_plain_run_starts_afresh_and_keeps_what_was_there() {
    let project = Project::with("job.toml", SLOW);
    let mut running = under_way(&project);
    running.signal("INT");
    running.wait();
    let before = project.rows("job");
    let said = project.good(&["run", "job.toml", "--no-scan"]);
    assert!(said.stderr.contains("earlier attempts of this job are kept in"), "{}", said.stderr);
    assert_eq!(&checksums(&project.rows("job")), undisturbed());
    assert!(project.rows("job").iter().all(|row| row["attempt"] == "1"));
    let old: Vec<String> =
        project.files("reports/job/old").into_iter().filter(|file| file.ends_with("job.csv")).collect();
    let [old] = old.as_slice() else { panic!("{old:?}") };
    assert_eq!(common::project::rows(&project.path(old)), before);
}

#[test]
fn a_repetition_that_takes_too_long_is_ended_and_the_next_begins() {
    let project = Project::with("job.toml", SLOW.replace("2 MB/s", "100 kB/s"));
    let args = ["--set", "measure.timeout=1 s", "--set", "measure.repeat=1", "--no-scan"];
    let said = project.ioc(&[&["run", "job.toml"][..], &args].concat());
    assert_eq!(said.code, 3);
    let rows = project.rows("job");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!((row["status"].as_str(), row["error_class"].as_str()), ("failed", "timeout"));
        assert!(row["error"].contains("measure.timeout"), "{}", row["error"]);
    }
}

#[test]
fn fail_fast_stops_at_the_first_failure_and_without_it_the_batch_goes_on() {
    // The first variant's budget is too small.
    let job =
        SLOW.replace("2 MB/s", "off").replace("name = \"ioc\"", "name = \"ioc\"\nengine.memory = \"12 MiB\"");
    let statuses = |args: &[&str]| {
        let project = Project::with("job.toml", &job);
        project.write("second.toml", &job);
        let said = project.ioc(&[&["run", "job.toml", "second.toml"], args].concat());
        assert_eq!(said.code, 3, "{}", said.stderr);
        let status =
            |report| project.rows(report).into_iter().map(|row| row["status"].clone()).collect::<Vec<_>>();
        [status("job"), status("second")].concat()
    };
    assert_eq!(statuses(&["--fail-fast"]), ["failed"]);
    assert_eq!(statuses(&[]), ["failed", "failed", "ok", "ok", "failed", "failed", "ok", "ok"]);
}

#[test]
fn a_second_run_of_a_job_under_way_is_refused_and_disturbs_nothing() {
    let project = Project::with("job.toml", SLOW);
    let mut running = under_way(&project);
    let busy = format!("reports/job is in use: process {} on ", running.pid());
    for args in [
        &["run", "job.toml", "--set", "engine.io=\"psync\""][..],
        &["run", "job.toml", "--resume"],
        &["build", "job.toml", "--memory", "512 MiB"],
        &["run", "--plan", "reports/job/plan.json", "--index", "0"],
    ] {
        let said = project.ioc(args);
        assert_eq!(said.code, 3, "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(&busy) && said.stderr.contains("--out"), "{args:?}: {}", said.stderr);
    }
    assert!(!running.is_over());
    project.good(&["run", "job.toml", "--no-scan", "--out", "elsewhere"]);
    assert!(running.wait().0.success());
    assert_eq!(&checksums(&project.rows("job")), undisturbed());
    // Whoever has the lock frees it by ending, whatever way.
    resumes_to_the_same(&project);
}

#[test]
fn runs_of_one_plan_may_go_on_at_once_but_each_only_once() {
    let project = Project::with("job.toml", SLOW);
    project.good(&["build", "job.toml"]);
    let plan = ["run", "--no-scan", "--plan", "reports/job/plan.json", "--index"];
    let mut first = project.start(&[&plan[..], &["0"]].concat());
    until(|| children(first.pid()).first().copied()).expect("a child");
    let again = project.ioc(&[&plan[..], &["0"]].concat());
    assert!(!first.is_over() && again.code == 3, "{}", again.stderr);
    // Another task, with a plan file of its own that it must not put in the place of the first one's.
    let frozen = project.read("reports/job/plan.json");
    project.write("task.json", frozen.replace('\n', "\n "));
    project.good(&["run", "--no-scan", "--plan", "task.json", "--index", "1"]);
    assert_eq!(project.read("reports/job/plan.json"), frozen);
    assert!(first.wait().0.success());
    assert_eq!(&checksums(&project.rows("job")), undisturbed());
}
