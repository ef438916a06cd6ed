//! What a peer reads, and what it writes before it is measured: nobody takes it away from under a command that runs, and
//! what a kill or a damage left of it is never trusted.

mod common;

use std::fs;
use std::process::Command;

use common::project::{Project, Row, Said, until};
use insta::assert_snapshot;

const DATASETS: &str = "[small]\ngenerate = { kronecker = { scale = 8, edge_factor = 4 } }\n";

fn project(keys: &str) -> Project {
    let job = format!(
        "dataset = \"small\"\n\n[measure]\nrepeat = 1\nwarmup = 0\n\n[external.peer]\nformat = \"gridgraph\"\n{keys}\n"
    );
    let project = Project::with("jobs/job.toml", job);
    project.write("datasets.toml", DATASETS);
    project
}

fn run(project: &Project) -> (Said, Vec<Row>) {
    let said = project.ioc(&["run", "jobs/job.toml"]);
    let rows = project.rows("job");
    (said, rows)
}

/// What a script has written to a file, once it has.
fn written(project: &Project, name: &str) -> String {
    let read = || fs::read_to_string(project.path(name)).ok().filter(|text| text.ends_with('\n'));
    until(read).unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-s", "KILL", pid]).status().unwrap().success());
}

fn is_gone(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

fn assert_gone(pid: &str) {
    assert!(until(|| is_gone(pid).then_some(())).is_some(), "{pid} still runs");
}

#[test]
fn a_command_ends_with_the_process_that_watches_it() {
    let script = "echo $$ > command; echo $PPID > watcher; exec sleep 71";
    let project = project(&format!("command = [\"sh\", \"-c\", '{script}']"));
    let mut running = project.start(&["run", "jobs/job.toml"]);
    let (watcher, command) = (written(&project, "watcher"), written(&project, "command"));
    assert!(!is_gone(&command));
    kill(&watcher);
    assert_gone(&command);
    assert_eq!(running.wait().0.code(), Some(3));
    assert_eq!(project.rows("job")[0]["error_class"], "killed");
}

#[test]
fn a_folder_is_not_prepared_anew_while_something_of_a_killed_prepare_runs_on() {
    let script =
        "[ -e good ] || { sleep 72 & echo $! > left; echo $PPID > watcher; wait; }; echo whole > $0/part";
    let project = project(&format!(
        "prepare = [\"sh\", \"-c\", '{script}', \"{{prepared}}\"]\ncommand = [\"cat\", \"{{prepared}}/part\"]"
    ));
    let mut running = project.start(&["build", "jobs/job.toml"]);
    let (left, watcher) = (written(&project, "left"), written(&project, "watcher"));
    kill(&watcher);
    assert_eq!(running.wait().0.code(), Some(3));
    assert!(!is_gone(&left), "what a command started is its own, and must be told apart from nothing");
    project.write("good", "");
    let (said, rows) = run(&project);
    assert_eq!(said.code, 3, "{}", said.stderr);
    assert_eq!(rows[0]["error_class"], "dataset");
    let error = redact_prepared(&project, &rows[0]["error"]);
    assert_snapshot!(error, @"[project]/data/small/[prepared] is in use and stays: a run of another process reads it, or what a killed one had started there still runs (`fuser [project]/data/small/[prepared]/.in-use` lists it); try again when it has ended");
    let said = project.ioc(&["dataset", "gc"]);
    assert!(said.code == 3 && said.stderr.contains(" is in use and stays"), "{}", said.stderr);
    kill(&left);
    assert_gone(&left);
    let (said, _) = run(&project);
    assert_eq!(said.code, 0, "{}", said.stderr);
}

/// A text without the folder's name, which depends on the identity of what is in it.
fn redact_prepared(project: &Project, text: &str) -> String {
    let text = project.redact(text);
    let folder = text
        .split(['/', ' '])
        .find(|word| word.len() == 17 && word.starts_with('p'))
        .unwrap_or("-")
        .to_owned();
    text.replace(&folder, "[prepared]")
}

#[test]
fn what_a_running_command_reads_is_not_removed() {
    let script = "echo $$ > begun; while [ ! -e end ]; do sleep 0.02; done; cat $0 $1/part > read";
    let project = project(&format!(
        "prepare = [\"cp\", \"{{export}}\", \"{{prepared}}/part\"]\ncommand = [\"sh\", \"-c\", '{script}', \"{{export}}\", \"{{prepared}}\"]"
    ));
    let mut running = project.start(&["run", "jobs/job.toml"]);
    written(&project, "begun");
    let before = project.files("data");
    let said = project.ioc(&["dataset", "rm", "small"]);
    assert!(said.code == 3 && said.stderr.contains(" is in use and stays"), "{}", said.stderr);
    project.good(&["dataset", "gc"]);
    assert_eq!(project.files("data"), before);
    project.write("end", "");
    assert_eq!(running.wait().0.code(), Some(0));
    assert_eq!(fs::metadata(project.path("read")).unwrap().len(), 2 * 8192);
    project.good(&["dataset", "rm", "small"]);
    assert!(project.files("data").iter().all(|file| !file.contains("/small/")));
}

#[test]
fn an_export_that_was_cut_is_made_again_and_a_changed_one_is_found_by_verify() {
    let project = project("command = [\"cp\", \"{export}\", \"copy\"]");
    assert_eq!(run(&project).0.code, 0);
    let good = fs::read(project.path("copy")).unwrap();
    let said = project.good(&["dataset", "verify", "small"]);
    assert_snapshot!(project.redact(&said.stdout), @"small [checksum]: an export of 8 KiB is as it was written");
    let export = project.grid_file("edges.bin");
    fs::write(&export, &good[..good.len() - 8]).unwrap();
    assert_eq!(run(&project).0.code, 0);
    assert!(fs::read(project.path("copy")).unwrap() == good && fs::read(&export).unwrap() == good);
    let mut changed = good.clone();
    changed[4000] ^= 1;
    fs::write(&export, changed).unwrap();
    let said = project.ioc(&["dataset", "verify", "small"]);
    assert_eq!(said.code, 3);
    assert!(said.stderr.contains("edges.bin has the checksum "), "{}", said.stderr);
    project.good(&["dataset", "rm", "small"]);
    assert_eq!(project.ioc(&["dataset", "verify", "small"]).code, 3);
}

#[test]
fn the_next_export_removes_what_a_killed_one_left() {
    let project = Project::new();
    project.write(
        "datasets.toml",
        format!("{DATASETS}[large]\ngenerate = {{ kronecker = {{ scale = 22 }} }}\n"),
    );
    let mut running =
        project.start(&["dataset", "export", "large", "--format", "gridgraph", "-o", "out/large.bin"]);
    let left = || project.files("out").into_iter().find(|file| file.contains("/.ioc-new-"));
    let file = until(left).expect("an export under way");
    // One that is alive is left alone.
    let export_small =
        || project.good(&["dataset", "export", "small", "--format", "gridgraph", "-o", "out/small.bin"]);
    export_small();
    assert_eq!(left().as_ref(), Some(&file));
    running.signal("KILL");
    running.wait();
    assert!(project.path(&file).exists());
    export_small();
    assert_eq!(project.files("out"), ["out/small.bin"]);
}
