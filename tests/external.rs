//! Commands of other programs as runs of a job: shell scripts stand for peers. Whatever one does, its repetition has a row
//! that says so, nothing of it is left running, and its figures are what the output or the clock say.

mod common;

use std::fs;
use std::time::Duration;

use common::project::{Project, Row, Said, until};
use insta::assert_snapshot;

const DATASETS: &str = "[small]\ngenerate = { kronecker = { scale = 8, edge_factor = 4 } }\n";

/// A job of one external, which the keys describe.
fn job(keys: &str) -> String {
    format!("dataset = \"small\"\n\n[measure]\nrepeat = 2\nwarmup = 1\n\n[external.peer]\n{keys}\n")
}

fn sh(script: &str) -> String {
    format!("command = [\"sh\", \"-c\", '''{script}''']")
}

fn project(keys: &str) -> Project {
    let project = Project::with("jobs/job.toml", job(keys));
    project.write("datasets.toml", DATASETS);
    project
}

fn run(project: &Project) -> (Said, Vec<Row>) {
    let said = project.ioc(&["run", "jobs/job.toml"]);
    let rows = project.rows("job");
    (said, rows)
}

/// The one error of all rows.
fn error(keys: &str) -> (String, String) {
    let project = project(keys);
    let (said, rows) = run(&project);
    assert_eq!((said.code, rows.len()), (3, 3), "{}", said.stderr);
    for row in &rows {
        assert_eq!((row["status"].as_str(), row["runtime_s"].as_str()), ("failed", ""));
        assert_eq!(row["error"], rows[0]["error"]);
    }
    (rows[0]["error_class"].clone(), project.redact(&rows[0]["error"]))
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

#[test]
fn the_time_that_the_output_tells_is_the_runtime_and_the_rest_is_set_up() {
    let script = "sleep 0.3; echo loaded >&2; echo 20 iterations took 0.25 seconds";
    let keys = format!(
        "{}\ntime_regex = \"took ([0-9.]+) seconds\"\niterations = 20\nalgorithm = \"pagerank\"\nprepare = [\"true\", \"{{export}}\"]",
        sh(script)
    );
    let project = project(&keys);
    let (said, rows) = run(&project);
    assert_eq!((said.code, rows.len()), (0, 3), "{}", said.stderr);
    for row in &rows {
        assert_eq!(
            (row["status"].as_str(), row["variant"].as_str(), row["algorithm"].as_str()),
            ("ok", "peer", "pagerank")
        );
        assert_eq!((row["runtime_s"].as_str(), row["iterations"].as_str()), ("0.250000000", "20"));
        assert!((0.04..5.0).contains(&number(row, "setup_s")), "{row:?}");
        assert_eq!(row["result"], "20 iterations took 0.25 seconds");
        assert_eq!((number(row, "edges"), number(row, "edges_per_s")), (1024.0, 1024.0 * 20.0 / 0.25));
        assert!(number(row, "max_rss_b") > 0.0 && !row["user_s"].is_empty());
        for column in
            ["model", "io", "encoding", "memory_b", "compute_threads", "io_s", "verified", "result_checksum"]
        {
            assert_eq!(row[column], "", "{column}");
        }
    }
    let outputs: Vec<String> =
        project.files("reports").into_iter().filter(|file| file.ends_with(".output.txt")).collect();
    assert_eq!(outputs.len(), 3);
    assert_eq!(project.read(&outputs[0]), "loaded\n20 iterations took 0.25 seconds\n");
}

#[test]
fn without_a_regex_the_wall_time_is_the_runtime() {
    let project = project(&sh("sleep 0.2"));
    let (_, rows) = run(&project);
    for row in &rows {
        assert!((0.2..5.0).contains(&number(row, "runtime_s")), "{row:?}");
        assert_eq!(
            (row["setup_s"].as_str(), row["edges"].as_str(), row["algorithm"].as_str()),
            ("", "", "external")
        );
    }
}

#[test]
fn the_processor_time_is_that_of_the_whole_tree() {
    let project = project(&sh("sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'"));
    let (_, rows) = run(&project);
    assert!(rows.iter().all(|row| number(row, "user_s") > 0.02), "{rows:?}");
}

#[test]
fn what_goes_wrong_is_in_the_row() {
    assert_snapshot!(error(&sh("echo first; echo cannot open the graph >&2; exit 1")).1, @"peer exited with code 1; its output ends: first / cannot open the graph; all of it is in [project]/reports/job/[run]-*.output.txt");
    assert_snapshot!(error(&sh("exit 7")).1, @"peer exited with code 7; it printed nothing; all of it is in [project]/reports/job/[run]-*.output.txt");
    assert_snapshot!(error(&sh("echo working; kill -SEGV $$")).1, @"peer was ended by signal 11; its output ends: working; all of it is in [project]/reports/job/[run]-*.output.txt");
    let regex = "\ntime_regex = \"took ([0-9.]+|x) s\"";
    assert_snapshot!(error(&(sh("echo done") + regex)).1, @r#"time_regex "took ([0-9.]+|x) s" matches nothing of the output; all of it is in [project]/reports/job/[run]-*.output.txt"#);
    assert_snapshot!(error(&(sh("echo took 1 s; echo took 2 s") + regex)).1, @r#"time_regex "took ([0-9.]+|x) s" matches 2 times in the output; make it match the one that counts; all of it is in [project]/reports/job/[run]-*.output.txt"#);
    assert_snapshot!(error(&(sh("echo took x s") + regex)).1, @r#"time_regex "took ([0-9.]+|x) s" finds "x", which is no number of seconds; all of it is in [project]/reports/job/[run]-*.output.txt"#);
    let milliseconds = error(&(sh("echo took 2500 s") + regex)).1;
    assert!(milliseconds.starts_with("time_regex \"took ([0-9.]+|x) s\" finds 2500 in the line \"took 2500 s\", but the command ran for "), "{milliseconds}");
    assert_eq!(error(&sh("exit 1")).0, "external");
}

#[test]
fn a_time_limit_ends_the_command_with_all_that_it_started() {
    let keys = sh("sleep 61 & echo $! > left; echo begun; wait") + "\ntimeout = \"300 ms\"";
    let project = project(&keys);
    let (said, rows) = run(&project);
    assert_eq!(said.code, 3);
    assert!(said.took < Duration::from_secs(30), "{:?}", said.took);
    assert_eq!((rows.len(), rows[0]["error_class"].as_str()), (3, "timeout"));
    assert!(
        rows[0]["error"]
            .starts_with("peer took longer than its timeout and was ended; its output ends: begun")
    );
    assert_gone(&project.read("left"));
}

fn assert_gone(pid: &str) {
    let stat = format!("/proc/{}/stat", pid.trim());
    let gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
    assert!(until(|| gone().then_some(())).is_some(), "{pid} still runs");
}

#[test]
fn output_without_end_fills_neither_memory_nor_disk() {
    let script = "head -c 1000000000 /dev/zero | tr \"\\\\0\" \"x\"; echo; echo took 0.5 s";
    let job = job(&(sh(script) + "\ntime_regex = \"took ([0-9.]+) s\""));
    let project =
        Project::with("jobs/job.toml", job.replace("repeat = 2\nwarmup = 1", "repeat = 1\nwarmup = 0"));
    project.write("datasets.toml", DATASETS);
    let (said, rows) = run(&project);
    assert_eq!((said.code, rows[0]["runtime_s"].as_str()), (0, "0.500000000"), "{}", said.stderr);
    let outputs = project.files("reports").into_iter().filter(|file| file.ends_with(".output.txt"));
    for file in outputs {
        assert!(fs::metadata(project.path(file)).unwrap().len() < 2 << 20);
    }
}

#[test]
fn an_interrupt_ends_the_command_and_resume_runs_it_again() {
    let script = "echo $$ > begun; [ -e fast ] || { sleep 62 & echo $! > left; wait; }";
    let project = project(&sh(script));
    let mut running = project.start(&["run", "jobs/job.toml"]);
    until(|| fs::read_to_string(project.path("left")).ok().filter(|pid| !pid.is_empty())).expect("a command");
    running.signal("INT");
    let (status, took) = running.wait();
    assert_eq!(status.code(), Some(130));
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_gone(&project.read("left"));
    assert_gone(&project.read("begun"));
    let rows = project.rows("job");
    assert_eq!((rows.len(), rows[0]["status"].as_str()), (1, "interrupted"));
    project.write("fast", "");
    project.good(&["run", "jobs/job.toml", "--resume"]);
    let rows = project.rows("job");
    assert_eq!(rows.iter().filter(|row| row["status"] == "ok").count(), 3);
    assert_eq!(rows.len(), 4);
}

#[test]
fn a_killed_batch_leaves_no_command_running() {
    let project = project(&sh("sleep 63 & echo $! > left; wait"));
    let mut running = project.start(&["run", "jobs/job.toml"]);
    until(|| fs::read_to_string(project.path("left")).ok().filter(|pid| !pid.is_empty())).expect("a command");
    running.signal("KILL");
    running.wait();
    assert_gone(&project.read("left"));
}

#[test]
fn a_data_set_is_exported_and_prepared_once_and_not_within_a_run() {
    let prepare = "echo once >> prepared.log; wc -c < $0 > $1/bytes; echo $2 $3 $4 > $1/counts";
    let keys = format!(
        "prepare = [\"sh\", \"-c\", '''{prepare}''', \"{{export}}\", \"{{prepared}}\", \"{{vertices}}\", \"{{edges}}\", \"{{weighted}}\"]\n{}",
        "command = [\"cat\", \"{prepared}/bytes\", \"{prepared}/counts\"]"
    );
    let project = project(&keys);
    project.good(&["build", "jobs/job.toml"]);
    let (said, rows) = run(&project);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let output = project.files("reports").into_iter().find(|file| file.ends_with(".output.txt")).unwrap();
    assert_eq!(project.read(&output), "8192\n256 1024 0\n");
    assert_eq!(project.read("prepared.log"), "once\n");
    assert!(rows.iter().all(|row| row["dataset_checksum"] == rows[0]["dataset_checksum"]));
    let listed = project.good(&["dataset", "list"]).stdout;
    assert!(listed.contains("not built; 1 export, 8."), "{listed}");
    project.good(&["dataset", "rm", "small"]);
    assert_eq!(project.files("data").iter().filter(|file| file.contains("/small/")).count(), 0);
    project.good(&["run", "jobs/job.toml"]);
    assert_eq!(project.read("prepared.log"), "once\nonce\n");
}

#[test]
fn a_prepare_that_fails_leaves_nothing_that_is_trusted() {
    let keys = "prepare = [\"sh\", \"-c\", 'echo part > $0/part; echo no room; [ -e good ]', \"{prepared}\"]\ncommand = [\"cat\", \"{prepared}/part\"]";
    let project = project(keys);
    let (said, rows) = run(&project);
    assert_eq!((said.code, rows.len()), (3, 3));
    assert_snapshot!(rows[0]["error"], @"the `prepare` of peer exited with code 1; its output ends: no room");
    assert_eq!(project.files("data").iter().filter(|file| file.ends_with("part")).count(), 0);
    project.write("good", "");
    assert_eq!(run(&project).0.code, 0);
}

#[test]
fn a_killed_prepare_is_not_trusted() {
    let keys = "prepare = [\"sh\", \"-c\", 'echo part > $0/part; [ -e good ] || { echo $$ > begun; sleep 64; }', \"{prepared}\"]\ncommand = [\"cat\", \"{prepared}/part\"]";
    let project = project(keys);
    let mut running = project.start(&["build", "jobs/job.toml"]);
    until(|| fs::read_to_string(project.path("begun")).ok().filter(|pid| !pid.is_empty())).expect("prepare");
    running.signal("KILL");
    running.wait();
    assert_gone(&project.read("begun"));
    project.write("good", "");
    let (said, _) = run(&project);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("small: prepare for peer"), "{}", said.stderr);
}

const CROSSED: &str = r#"dataset = "small"

[algorithm.scan]

[engine]
buffer = "2 MiB"

[measure]
repeat = 1
warmup = 0

[external.threads]
command = ["echo", "{threads} of {memory_mib}"]
[external.plain]
command = ["echo", "hello"]

[[variant]]
name = "a"
[[variant]]
name = "b"
engine = { model = "sync", io = "psync" }

[matrix]
"engine.compute_threads" = [1, 2]
"engine.block_size" = ["32 KiB", "64 KiB"]
exclude = [{ variant = "threads", "engine.compute_threads" = 2 }]
"#;

#[test]
fn an_external_crosses_with_what_its_words_use_and_takes_turns_with_ours() {
    let project = Project::with("job.toml", CROSSED.replace("exclude", "# exclude"));
    project.write("datasets.toml", DATASETS);
    let said = project.good(&["run", "job.toml", "--no-scan"]);
    assert!(!said.stderr.contains("run once"), "{}", said.stderr);
    let runs = |project: &Project| -> Vec<String> {
        let rows = project.rows("job").into_iter();
        rows.map(|row| format!("{} {}", row["variant"], row["compute_threads"])).collect()
    };
    let expected =
        ["a 1", "threads 1", "plain ", "a 1", "a 2", "threads 2", "a 2", "b 1", "b 1", "b 2", "b 2"];
    assert_eq!(runs(&project), expected);
    assert_eq!(
        project.files("reports").iter().filter(|file| file.ends_with("-m001-a1.output.txt")).count(),
        3
    );
    project.write("job.toml", CROSSED);
    project.good(&["run", "job.toml", "--no-scan", "--only", "threads"]);
    assert_eq!(runs(&project), ["threads 1"]);
    assert!(project.files("reports/job/old").iter().any(|file| file.ends_with(".output.txt")));
}

#[test]
fn a_missing_program_is_a_note_of_check_and_stops_a_run_before_it_begins() {
    let project = project("command = [\"no-such-peer\", \"{export}\"]");
    let said = project.ioc(&["check", "jobs/job.toml"]);
    assert_eq!(said.code, 0);
    assert_snapshot!(said.stderr, @r#"
    note: the program `no-such-peer` is not found: not in PATH
     --> jobs/job.toml:8:12
      |
    8 | command = ["no-such-peer", "{export}"]
      |            ^^^^^^^^^^^^^^
      = help: install it, correct the path, or leave the external out by --only

    1 note
    "#);
    assert_snapshot!(project.redact(&said.stdout), @"
    job: 1 run, 3 repetitions
      [run]  peer external small: exports about 8 KiB as gridgraph, runs `no-such-peer {export}`
    in all 1 run, 3 repetitions; every grid is built
    ");
    let (said, rows) = run(&project);
    assert_eq!((said.code, rows.len()), (3, 0));
    assert!(
        said.stderr.starts_with("error: the program `no-such-peer` is not found: not in PATH"),
        "{}",
        said.stderr
    );
    assert!(
        !project.path("reports").exists()
            && project.files("data").iter().all(|file| !file.contains("/small/"))
    );
}

#[test]
fn a_program_may_be_a_path_of_the_project_and_runs_there() {
    let project = project("command = [\"./peer.sh\"]");
    project.write("peer.sh", "#!/bin/sh\npwd\n");
    assert_eq!(run(&project).0.code, 3);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(project.path("peer.sh"), mode).unwrap();
    let (said, _) = run(&project);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let output =
        project.files("reports").into_iter().find(|file| file.ends_with("m001-a1.output.txt")).unwrap();
    let folder = fs::canonicalize(project.path(".")).unwrap();
    assert_eq!(project.read(&output).trim(), folder.to_str().unwrap());
}

#[test]
fn what_is_wrong_with_an_external_is_told_at_its_place() {
    let faults = |text: &str| {
        let project = Project::with("job.toml", text);
        project.write("datasets.toml", DATASETS);
        let said = project.ioc(&["check", "job.toml"]);
        assert_eq!(said.code, 2, "{}", said.stdout);
        said.stderr
    };
    assert_snapshot!(faults(r#"dataset = "small"
[external.a]
command = ["echo", "{exprt}", "{prepared}", "{source}", "{memory_gib}"]
comand = ["echo"]
time_regex = "took .* seconds"
[external.b]
[external."c d"]
command = []
[external.v]
command = "echo"
format = "gap"
[engine]
memory = "100 MiB"
[[variant]]
name = "v"
[matrix]
"external.a.iterations" = [1, 2]
"#), @r#"
    error: unknown placeholder {exprt}
     --> job.toml:3:20
      |
    3 | command = ["echo", "{exprt}", "{prepared}", "{source}", "{memory_gib}"]
      |                    ^^^^^^^^^
      = help: did you mean `export`?

    error: {prepared} is the folder that `prepare` fills, and there is no `prepare`
     --> job.toml:3:31
      |
    3 | command = ["echo", "{exprt}", "{prepared}", "{source}", "{memory_gib}"]
      |                               ^^^^^^^^^^^^
      = help: add a `prepare`, or use {export}, the data set in the external's format

    error: {source} is the data set's own file, and this data set is generated
     --> job.toml:3:45
      |
    3 | command = ["echo", "{exprt}", "{prepared}", "{source}", "{memory_gib}"]
      |                                             ^^^^^^^^^^
      = help: use {export}, the data set in the external's format

    error: `engine.memory` is 100 MiB, no whole number of GiB
     --> job.toml:3:57
      |
    3 | command = ["echo", "{exprt}", "{prepared}", "{source}", "{memory_gib}"]
      |                                                         ^^^^^^^^^^^^^^
      = help: give the external whole GiB, or another unit

    error: unknown key `comand` in [external.a]
     --> job.toml:4:1
      |
    4 | comand = ["echo"]
      | ^^^^^^
      = help: did you mean `command`?

    error: `time_regex` must be a regular expression with one group such as "took ([0-9.]+) seconds": it has 0 groups, expected the one that finds the seconds
     --> job.toml:5:14
      |
    5 | time_regex = "took .* seconds"
      |              ^^^^^^^^^^^^^^^^^

    error: the external `b` has no `command`
     --> job.toml:6:11
      |
    6 | [external.b]
      |           ^
      = help: add for example command = ["program", "{export}"]

    error: "c d" is not a valid name
     --> job.toml:7:11
      |
    7 | [external."c d"]
      |           ^^^^^
      = help: names are made of letters, digits, `.`, `_` and `-`, beginning with a letter or digit

    error: a variant and an external have the name `v`
     --> job.toml:9:11
      |
    9 | [external.v]
      |           ^
      = help: rename one: reports tell them apart by their names, in one column

    error: `command` must be an array of words such as ["program", "{export}"], found the string "echo"
      --> job.toml:10:11
       |
    10 | command = "echo"
       |           ^^^^^^

    error: `format` must be "gridgraph" or "gapbs", found the string "gap"
      --> job.toml:11:10
       |
    11 | format = "gap"
       |          ^^^^^
       = help: did you mean `gapbs`?

    error: an external cannot be varied by [matrix]
      --> job.toml:17:1
       |
    17 | "external.a.iterations" = [1, 2]
       | ^^^^^^^^^^^^^^^^^^^^^^^
       = help: write a table [external.NAME] for each, or use placeholders such as {threads} in its words: it is run for each value of the axes that it so uses

    12 faults
    "#);
}

#[test]
fn set_changes_an_external_that_there_is() {
    let project = project("command = [\"echo\"]");
    let said = project.ioc(&["check", "jobs/job.toml", "--set", "external.pear.command=[\"echo\"]"]);
    assert_eq!(said.code, 2);
    assert_snapshot!(said.stderr, @r#"
    error: no job of the batch has an external `pear`
     --> --set:1:1
      |
    1 | external.pear.command=["echo"]
      | ^^^^^^^^^^^^^^^^^^^^^
      = help: did you mean `peer`?

    1 fault
    "#);
    project.good(&["run", "jobs/job.toml", "--set", "external.peer.command=[\"echo\", \"set\"]"]);
    assert_eq!(project.rows("job")[0]["algorithm_params"], "echo set");
}

#[test]
fn an_export_by_name_is_what_an_import_reads() {
    let project = Project::new();
    project.write("datasets.toml", DATASETS);
    let said = project.good(&["dataset", "export", "small", "--format", "gridgraph", "-o", "out/edges.bin"]);
    assert_snapshot!(project.redact(&said.stdout), @"small: 256 vertices (rule: declared), 1,024 arcs, 8 KiB in out/edges.bin, checksum [checksum]");
    let checksum = |text: &str| {
        text.split_whitespace().find(|word| word.starts_with('x') && word.len() == 17).map(str::to_owned)
    };
    project.write("datasets.toml", "[again]\npath = \"out/edges.bin\"\nvertices = 256\n");
    project.good(&["dataset", "import", "again"]);
    let info = project.good(&["dataset", "info", "again"]).stdout;
    assert_eq!(checksum(&info), checksum(&said.stdout));
    // Onto its own source, by whatever name, or the registry.
    for own in ["./out/../out/edges.bin", "datasets.toml"] {
        let before = std::fs::read(project.path(own)).unwrap();
        let said = project.ioc(&["dataset", "export", "again", "--format", "gapbs", "-o", own]);
        assert_eq!((said.code, std::fs::read(project.path(own)).unwrap()), (2, before));
        assert!(said.stderr.contains("would be lost"), "{}", said.stderr);
    }
    let said = project.ioc(&["dataset", "export", "agian", "--format", "gapbs", "-o", "a.sg"]);
    assert_eq!(said.code, 2);
    assert_snapshot!(said.stderr, @"error: datasets.toml has no entry `agian`; did you mean `again`?");
    let said = project.ioc(&["dataset", "export", "again", "--format", "gapbs", "-o", "a.bin", "--quiet"]);
    assert_eq!(said.code, 3);
    assert_snapshot!(project.redact(&said.stderr), @"error: a.bin must end in .sg, or in .wsg where there are weights: GAPBS goes by the name");
}

#[test]
fn one_run_of_a_frozen_plan_may_be_an_external() {
    let project = project(&sh("echo hello"));
    run(&project);
    let plan = project.path("reports/job/plan.json");
    let plan = plan.to_str().unwrap();
    fs::remove_dir_all(project.path("data")).ok();
    project.good(&["run", "--plan", plan, "--index", "0", "--out", "reports"]);
    assert_eq!(project.rows("job").len(), 3);
}
