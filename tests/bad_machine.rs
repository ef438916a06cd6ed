//! Too little memory, full disks, vanished devices and damaged files: an error that says what to do, or, where the
//! damage is plain before anything is read, the same result after another import. Never a wrong number, and nothing
//! half-done.

mod common;

use std::fs;

use common::bad::{cut, flip};
use common::project::{Project, finish};
use insta::assert_snapshot;

const JOB: &str = r#"dataset = { generate = { kronecker = { scale = 12 } } }
grid = { encoding = "raw" }

[algorithm.pagerank]
iterations = 3

[measure]
repeat = 1
warmup = 0
"#;

/// Ids with gaps, so that the grid has a file of them; edges enough for several chunks.
fn sparse_edges() -> String {
    let edges = (0..20_000_u64).map(|at| (at * at % 1009 * 1000, at * 7 % 1013 * 1000));
    edges.map(|(source, target)| format!("{source} {target}\n")).collect::<Vec<_>>().concat()
}

/// A project whose job has run once.
fn built() -> (Project, String) {
    let project = Project::with("edges.txt", sparse_edges());
    let edges = "dataset = { path = \"edges.txt\" }";
    project.write("job.toml", JOB.replacen(JOB.lines().next().unwrap(), edges, 1));
    project.good(&["run", "job.toml"]);
    let checksum = project.rows("job")[0]["result_checksum"].clone();
    (project, checksum)
}

/// The message of a run on a grid that was damaged after it was built.
fn damaged(damage: impl FnOnce(&Project)) -> String {
    let (project, _) = built();
    damage(&project);
    let message = project.refused(3, &["run", "job.toml"]);
    assert_eq!(project.rows("job")[0]["status"], "failed");
    message
}

/// What is said of a grid whose damage shows before it is read: it is built again, with the same result.
fn rebuilt(damage: impl FnOnce(&Project)) -> String {
    let (project, checksum) = built();
    damage(&project);
    let said = project.good(&["run", "job.toml"]);
    assert_eq!(project.rows("job")[0]["result_checksum"], checksum);
    assert!(said.stderr.contains("encode"), "{}", said.stderr);
    let notes =
        said.stderr.lines().filter(|line| line.starts_with("note") && !line.contains("earlier attempts"));
    project.redact(&notes.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    // In the edges, which are only read while running.
    assert_snapshot!(damaged(|project| flip(&project.grid_file("edges-0.ioc"), 40_000)), @"error: job pagerank: [project]/data/edges/[grid]/device-0/edges-0.ioc: chunk 1 (column 0) at byte 32768 of device 0 is damaged: its checksum is [hex], expected [hex]; check the device, then remove the grid with `ioc dataset rm` and it will be imported again");
    // In the header of a chunk.
    assert_snapshot!(damaged(|project| flip(&project.grid_file("edges-0.ioc"), 32_768 + 9)), @"error: job pagerank: [project]/data/edges/[grid]/device-0/edges-0.ioc: chunk 1 (column 0) at byte 32768 of device 0 is damaged: its grid id is [hex], expected [hex]; check the device, then remove the grid with `ioc dataset rm` and it will be imported again");
    // In the out-degrees.
    assert_snapshot!(damaged(|project| flip(&project.grid_file("degrees.bin"), 400)), @"error: job pagerank: [project]/data/edges/[grid]/degrees.bin: its checksum is [hex], expected [hex]; remove the grid with `ioc dataset rm` and it will be imported again");
    // In the original ids, of which the last checksum comes after the last value.
    assert_snapshot!(damaged(|project| flip(&project.grid_file("ids.bin"), 800)), @"error: job pagerank: [project]/data/edges/[grid]/ids.bin: its checksum is [hex], expected [hex]; remove the grid with `ioc dataset rm` and it will be imported again");
}

#[test]
fn verify_finds_what_a_run_would_find() {
    let (project, _) = built();
    project.write("datasets.toml", "[edges]\npath = \"edges.txt\"\n");
    assert_eq!(project.refused(0, &["dataset", "verify", "edges"]), "");
    flip(&project.grid_file("edges-0.ioc"), 40_000);
    assert_snapshot!(project.refused(3, &["dataset", "verify", "edges"]), @"error: edges [grid]: data/edges/[grid]/device-0/edges-0.ioc: chunk 1 (column 0) at byte 32768 of device 0 is damaged: its checksum is [hex], expected [hex]; check the device, then remove the grid with `ioc dataset rm` and it will be imported again");
    assert!(project.good(&["dataset", "rm", "edges"]).stdout.contains("freed"));
    project.good(&["run", "job.toml"]);
}

#[test]
fn a_grid_that_is_visibly_incomplete_is_built_again_and_so_said() {
    // A damaged manifest.
    assert_snapshot!(rebuilt(|project| flip(&project.grid_file("manifest.json"), 300)), @"note: the grid of edges in [project]/data/edges/[grid] is incomplete or damaged, so it is imported again");
    // A device's file that was cut.
    assert_snapshot!(rebuilt(|project| cut(&project.grid_file("edges-0.ioc"), 100_000)), @"note: the grid of edges in [project]/data/edges/[grid] is incomplete or damaged, so it is imported again");
    // A device's file that is gone.
    assert_snapshot!(rebuilt(|project| fs::remove_file(project.grid_file("edges-0.ioc")).unwrap()), @"note: the grid of edges in [project]/data/edges/[grid] is incomplete or damaged, so it is imported again");
    // An import that did not end leaves no manifest.
    assert_snapshot!(rebuilt(|project| fs::remove_file(project.grid_file("manifest.json")).unwrap()), @"");
}

#[test]
fn a_device_that_vanished_is_named() {
    let project = Project::with("job.toml", format!("{JOB}[storage]\ndevices = [\"ssd0\", \"ssd1\"]\n"));
    fs::create_dir(project.path("ssd0")).unwrap();
    fs::create_dir(project.path("ssd1")).unwrap();
    project.good(&["run", "job.toml"]);
    fs::remove_dir_all(project.path("ssd1")).unwrap();
    assert_snapshot!(project.refused(2, &["run", "job.toml"]), @r#"
    error: the device directory [project]/ssd1 does not exist
      --> job.toml:11:20
       |
    11 | devices = ["ssd0", "ssd1"]
       |                    ^^^^^^
       = help: mount the device, or create the directory

    1 fault
    "#);
}

#[test]
fn too_little_memory_is_refused_with_figures() {
    let refused = |sets: &[&str]| {
        let project = Project::with("job.toml", JOB);
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let args: Vec<&str> = ["run", "job.toml"].into_iter().chain(sets).collect();
        let message = project.refused(3, &args);
        assert!(!project.claims_success());
        message
    };
    // For the run.
    assert_snapshot!(refused(&["engine.memory=70 MiB"]), @"error: job pagerank: the run needs 76.1 MiB of memory (112 KiB for the vertices, 64 MiB for blocks, 12 MiB for the process), but engine.memory is 70 MiB; raise it, or make engine.buffer smaller");
    // For the import.
    let small = ["engine.memory=8 MiB", "engine.buffer=64 KiB", "engine.block_size=32 KiB"];
    let large = "dataset.generate.kronecker.scale=24";
    assert_snapshot!(refused(&[small[0], small[1], small[2], large]), @"error: job pagerank: import of kronecker(scale 24, edge factor 16, seed 1) needs at least 22 MiB of memory (0 bytes to number vertices, and buffers for 1024 ranges of destinations), the budget is 8 MiB: raise engine.memory, or give the import more by `ioc build --memory`");
    // For the blocks of each thread of the synchronous model.
    let threads = ["engine.model=sync", "engine.compute_threads=8", "engine.buffer=256 KiB"];
    assert_snapshot!(refused(&[threads[0], threads[1], threads[2], "engine.block_size=64 KiB"]), @r#"error: job pagerank: engine.buffer = "256 KiB" holds 4 blocks of engine.block_size = "64 KiB", but each of the compute threads needs one (8); make the buffer at least "512 KiB" or the blocks smaller"#);
}

#[test]
fn folders_that_cannot_be_written_are_named() {
    let project = Project::with("job.toml", JOB);
    project.write("file", "");
    // Reports.
    assert_snapshot!(project.refused(3, &["run", "job.toml", "--out", "file"]), @"error: cannot create the directory [project]/file: not a directory; a file is in the way of a directory: move it away, or choose another place");
    // Grids.
    assert_snapshot!(project.refused(3, &["run", "job.toml", "--data", "file/data"]), @"error: job pagerank: creating [project]/file/data/kron-12 failed: not a directory; a file is in the way of a directory: move it away, or choose another directory by --data or storage.devices");
    // Values, before anything is computed.
    project.write("edges.txt", "1 2\n");
    let once = |output: &str| project.refused(2, &["once", "spmv", "edges.txt", "-o", output]);
    assert_snapshot!(once("file/values.csv"), @"error: -o: there is no directory file; create it, or name a file elsewhere");
    assert_snapshot!(once("none/values.csv"), @"error: -o: there is no directory none; create it, or name a file elsewhere");
    assert!(!project.path("none").exists() && !project.path("reports/once-spmv-edges.csv").exists());
}

/// A file system of that size at `disk` in the project, seen by the script alone; the files on it are listed to
/// `listing` afterwards. None where this user may not mount one.
fn on_small_disk(project: &Project, size: &str, args: &str) -> Option<String> {
    fs::create_dir_all(project.path("disk")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size={size} tmpfs disk || exit 99; $IOC {args} --quiet; code=$?; \
         find disk -type f > listing; cp -r disk/. copy; exit $code"
    );
    let mut command = project.command("unshare", &["-m", "sh", "-c", &script]);
    command.env("IOC", common::project::IOC);
    let said = finish(&mut command);
    if said.code == 99 || said.stderr.starts_with("unshare") {
        common::real::skipped(&format!("this user may not mount a file system: {}", said.stderr));
        return None;
    }
    Some(project.message(3, &said))
}

#[test]
fn a_full_disk_during_the_import_leaves_no_grid() {
    let project = Project::with("job.toml", JOB);
    let Some(message) = on_small_disk(&project, "256k", "run job.toml --data disk/data") else { return };
    assert_snapshot!(message, @"error: job pagerank: writing [project]/disk/data/kron-12/[grid]/device-0/edges-0.ioc failed: No space left on device (os error 28); an import needs room for its edges twice: free some, or choose other directories by --data and storage.devices");
    assert_eq!(project.read("listing"), "");
    assert!(!project.claims_success());
}

#[test]
fn a_full_disk_during_a_run_that_streams_vertex_state_is_an_error_and_leaves_nothing() {
    let job = JOB.replace("scale = 12", "scale = 18, edge_factor = 2")
        + "[engine]\nvertex_state = \"streamed\"\n[storage]\ndevices = [\"disk\"]\n";
    let project = Project::with("job.toml", job);
    let Some(message) = on_small_disk(&project, "6m", "run job.toml --no-scan") else { return };
    let (place, cause) = message.split_once(": No space left on device (os error 28); ").unwrap();
    assert!(
        place.starts_with("error: job pagerank: vertex state cannot be written to [project]/disk/"),
        "{message}"
    );
    assert_eq!(cause, "free some room, or choose another device");
    let listing = project.read("listing");
    assert!(listing.lines().all(|file| file.contains("/edges-")), "{listing}");
}

#[test]
fn a_full_disk_during_the_report_leaves_a_whole_table() {
    let project = Project::with("job.toml", JOB.replace("repeat = 1", "repeat = 20"));
    let Some(message) = on_small_disk(&project, "32k", "run job.toml --out disk/reports") else { return };
    assert_snapshot!(message, @"error: cannot write [project]/disk/reports/job.csv: No space left on device (os error 28); free some room, or choose another place");
    let rows = common::project::rows(&project.path("copy/reports/job.csv"));
    assert!(!rows.is_empty() && rows.iter().all(|row| row["status"] == "ok"), "{rows:?}");
    let listing = project.read("listing");
    assert!(listing.lines().all(|line| !line.contains("/.") || line.ends_with("/.lock")), "{listing}");
}

#[test]
fn a_full_disk_during_the_values_leaves_no_values() {
    let project = Project::with("job.toml", JOB);
    let args = "run job.toml --out disk/reports --set output.values=csv";
    let Some(message) = on_small_disk(&project, "48k", args) else { return };
    assert_snapshot!(message, @"error: job pagerank: cannot write [project]/disk/reports/job/[run].values.csv: No space left on device (os error 28); free some room, or choose another place");
    assert!(!project.read("listing").contains("values"), "{}", project.read("listing"));
    assert_eq!(common::project::rows(&project.path("copy/reports/job.csv"))[0]["status"], "failed");
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_not_the_end_by_a_signal() {
    let project = Project::with("job.toml", JOB);
    let script = "ulimit -f 200; $IOC run job.toml --quiet";
    assert_snapshot!(project.refused_in_shell(3, script), @"error: job pagerank: writing [project]/data/kron-12/[grid]/device-0/edges-0.ioc failed: File too large (os error 27); raise the limit on the size of a file (`ulimit -f`), or choose another directory by --data or storage.devices");
    assert!(!project.has_grid() && !project.claims_success());
}

#[test]
fn threads_that_the_system_refuses_are_an_error_of_their_own() {
    // No thread's stack fits the limit; that of the first thread is there already.
    let refused = |project: &Project| {
        let script = "ulimit -v 4000000; RUST_MIN_STACK=8000000000 $IOC run job.toml --no-scan --quiet";
        let message = project.refused_in_shell(3, script);
        assert_eq!(project.rows("job")[0]["error_class"], "resources");
        message
    };
    let project = Project::with("job.toml", JOB);
    // In the import.
    assert_snapshot!(refused(&project), @"error: job pagerank: the system grants no more threads: Resource temporarily unavailable (os error 11); raise the limits on processes and memory (`ulimit -u`, `ulimit -v`)");
    assert!(!project.has_grid());
    project.good(&["build", "job.toml"]);
    // In the engine, under both models.
    assert_snapshot!(refused(&project), @"error: job pagerank: the system grants no more threads: Resource temporarily unavailable (os error 11); lower engine.compute_threads or engine.io_threads, or raise the limits on processes and memory (`ulimit -u`, `ulimit -v`)");
    project.write("job.toml", format!("{JOB}[engine]\nmodel = \"sync\"\n"));
    assert!(refused(&project).contains("grants no more threads"));
}

#[test]
fn memory_that_the_system_refuses_is_no_defect() {
    let project = Project::with("job.toml", format!("{JOB}[engine]\nbuffer = \"512 MiB\"\n"));
    project.good(&["build", "job.toml"]);
    let message = project.refused_in_shell(3, "ulimit -v 400000; $IOC run job.toml --no-scan --quiet");
    // What Rust says before it comes first.
    assert!(message.starts_with("memory allocation of 1048576 bytes failed"), "{message}");
    assert_snapshot!(message.lines().last().unwrap_or_default(), @"error: job pagerank: the system refused the run memory (it ended by signal 6); raise the limit (`ulimit -v`), or lower engine.memory");
    assert_eq!(project.rows("job")[0]["error_class"], "memory");
}

#[test]
fn nothing_needs_a_folder_for_temporary_files() {
    let project = Project::with("job.toml", JOB);
    let said = finish(&mut project.shell("TMPDIR=/nonexist $IOC run job.toml --quiet"));
    assert_eq!((said.code, said.stdout + &said.stderr), (0, String::new()));
}

#[test]
fn what_cannot_be_said_is_a_failure() {
    let project = Project::with("job.toml", JOB);
    project.write("edges.txt", "1 2\n");
    let refused = |command: &str| project.refused_in_shell(3, &format!("$IOC {command} > /dev/full"));
    let unheard = "error: cannot write to standard output: No space left on device (os error 28)";
    for command in ["check job.toml", "--help", "dataset list"] {
        assert_eq!(refused(command), unheard, "{command}");
    }
    assert_snapshot!(refused("once spmv edges.txt --quiet -o -"), @"error: cannot write the values to standard output: No space left on device (os error 28); the values are in [project]/reports/once-spmv-edges/[run].values.csv");
}

#[test]
fn a_repetition_with_another_result_than_the_first_is_no_success() {
    let project = Project::with("job.toml", JOB);
    project.good(&["run", "job.toml"]);
    let row = &project.rows("job")[0];
    let file = format!("reports/job/{}-m001-a1.csv", row["run_id"]);
    let text = project.read(&file).replace(&row["result_checksum"], "x0123456789abcdef");
    project.write(&file, text);
    let args = ["run", "job.toml", "--resume", "--set", "measure.repeat=2"];
    assert_snapshot!(project.refused(3, &args), @"error: job pagerank: the result has the checksum [checksum], but that of rep 1 of the same run has [checksum], and they must not differ; check the machine's memory, and report it as a defect of ioc");
    assert_eq!(project.rows("job")[1]["verified"], "false");
}

/// A pipe in place of a file of ours: without a writer, who opens it waits for ever.
fn pipe_at(path: &std::path::Path) {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_pipe_in_place_of_a_file_of_a_grid_is_named_or_the_grid_built_again() {
    // What makes the grid exist: nobody's mistake, so that a person is to look at it.
    let (project, _) = built();
    pipe_at(&project.grid_file("manifest.json"));
    assert_snapshot!(project.refused(3, &["run", "job.toml"]), @"error: job pagerank: reading [project]/data/edges/[grid]/manifest.json failed: it is a named pipe, and a regular file is expected there; take it away, or name another file");
    // What is incomplete is built again, over whatever lies there.
    for name in ["degrees.bin", "ids.bin", "contents.bin", "edges-0.ioc"] {
        rebuilt(|project| pipe_at(&project.grid_file(name)));
    }
    let (project, checksum) = built();
    pipe_at(&project.grid_file("paths.json"));
    project.good(&["run", "job.toml"]);
    assert_eq!(project.rows("job")[0]["result_checksum"], checksum);
}

#[test]
fn a_pipe_in_place_of_what_is_kept_for_convenience_is_passed_over() {
    let (project, _) = built();
    for name in ["data/probe.json", "data/digests.json"] {
        pipe_at(&project.path(name));
    }
    project.good(&["run", "job.toml", "--resume"]);
    project.good(&["run", "job.toml"]);
}

#[test]
fn a_pipe_in_place_of_a_report_is_named_and_left_alone() {
    let (project, _) = built();
    let refused = |name: &str, args: &[&str]| {
        pipe_at(&project.path(name));
        let message = project.refused(3, args);
        fs::remove_file(project.path(name)).unwrap();
        message
    };
    let run = ["run", "job.toml"];
    assert_snapshot!(refused("reports/job.csv", &run), @"error: cannot read [project]/reports/job.csv: it is a named pipe, and a regular file is expected there; take it away, or name another file");
    assert_snapshot!(refused("reports/job/plan.json", &run), @"error: [project]/reports/job/plan.json is a named pipe and not a regular file, and will not be replaced; take it away, or choose another place");
    assert_snapshot!(refused("reports/job/.lock", &run), @"error: cannot lock [project]/reports/job/.lock: it is a named pipe, and a regular file is expected there; take it away, or name another file");
    let values = ["run", "job.toml", "--set", "output.values=csv"];
    project.good(&values);
    let run_id = project.rows("job")[0]["run_id"].clone();
    fs::remove_dir_all(project.path("reports")).unwrap();
    let values = [&values[..], &["--resume"]].concat();
    assert_snapshot!(refused(&format!("reports/job/{run_id}.values.csv"), &values), @"error: job pagerank: [project]/reports/job/[run].values.csv is a named pipe and not a regular file, and will not be replaced; take it away, or choose another place");
}

#[test]
fn a_pipe_in_place_of_an_attempt_is_left_out_and_said() {
    let (project, _) = built();
    let run_id = &project.rows("job")[0]["run_id"];
    pipe_at(&project.path(format!("reports/job/{run_id}-m001-a1.csv")));
    let said = project.good(&["run", "job.toml", "--resume"]);
    let note = said.stderr.lines().find(|line| line.starts_with("note: the attempt")).unwrap();
    assert_snapshot!(project.redact(note), @"note: the attempt [project]/reports/job/[run]-m001-a1.csv is left out, because it cannot be read: it is a named pipe, and a regular file is expected there; take it away, or name another file");
    assert_eq!(project.rows("job")[0]["attempt"], "2");
}

#[test]
fn a_pipe_in_place_of_what_is_given_is_named() {
    let project = Project::with("job.toml", JOB);
    pipe_at(&project.path("pipe"));
    assert_snapshot!(project.refused(2, &["check", "pipe"]), @"
    error: this is a named pipe and not a regular file
      --> pipe
       = help: give the path of a TOML file; a text from elsewhere is saved to one first

    1 fault
    ");
    assert_snapshot!(project.refused(2, &["run", "--plan", "pipe", "--index", "0"]), @"error: cannot read the plan pipe: it is a named pipe, and a regular file is expected there; take it away, or name another file; `ioc run` writes one to OUT/JOB/plan.json");
    project.write(
        "spmv.toml",
        JOB.replace("[algorithm.pagerank]\niterations = 3", "[algorithm.spmv]\nx = \"pipe\""),
    );
    assert_snapshot!(project.refused(3, &["run", "spmv.toml"]), @"error: [project]/pipe is a named pipe; a data set must be a regular file, because it is read more than once");
    pipe_at(&project.path("datasets.toml"));
    assert_snapshot!(project.refused(2, &["check", "job.toml"]), @"
    error: this is a named pipe and not a regular file
      --> datasets.toml
       = help: give the path of a TOML file; a text from elsewhere is saved to one first

    1 fault
    ");
    assert_snapshot!(project.refused(2, &["dataset", "list"]), @"
    error: this is a named pipe and not a regular file
      --> datasets.toml
       = help: give the path of a TOML file; a text from elsewhere is saved to one first

    1 fault
    ");
}

#[test]
fn what_never_ends_is_not_read() {
    let (project, checksum) = built();
    let endless = |name: &str| {
        let path = project.path(name);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    };
    endless("data/probe.json");
    endless("data/digests.json");
    project.good(&["run", "job.toml"]);
    assert_eq!(project.rows("job")[0]["result_checksum"], checksum);
    endless("reports/job.csv");
    assert_snapshot!(project.refused(3, &["run", "job.toml"]), @"error: cannot read [project]/reports/job.csv: it is a device, and a regular file is expected there; take it away, or name another file");
    endless("zero.toml");
    assert_snapshot!(project.refused(2, &["check", "zero.toml"]), @"
    error: this is a device and not a regular file
      --> zero.toml
       = help: give the path of a TOML file; a text from elsewhere is saved to one first

    1 fault
    ");
}

#[test]
fn check_refuses_what_the_run_would_with_the_same_words() {
    let project = Project::with("job.toml", JOB);
    let large = ["--set", "engine.memory=1000 TiB", "--set", "engine.buffer=900 TiB"];
    let reason = |code, command| {
        let message = project.refused(code, &[&[command, "job.toml"], &large[..]].concat());
        message.split_once("the run needs").expect("the reason").1.to_owned()
    };
    let checked = reason(2, "check");
    assert!(checked.contains("but this machine has"), "{checked}");
    assert_eq!(checked, reason(3, "run"));
}

#[test]
fn more_requests_than_the_kernel_grants_are_noted_beforehand() {
    let most = fs::read_to_string("/proc/sys/fs/aio-max-nr").map(|text| text.trim().parse::<u64>().unwrap());
    if most.is_ok_and(|most| most >= 64 * 4096) {
        common::real::skipped("this machine grants all requests that a job can ask for");
        return;
    }
    let project = Project::with("job.toml", JOB);
    let said =
        project.good(&["check", "job.toml", "--set", "storage.ssds=64", "--set", "engine.io_depth=4096"]);
    let note = said.stderr.lines().find(|line| line.contains("libaio")).unwrap();
    assert!(
        note.starts_with("note: a run asks libaio for 262,144 requests, and this machine has room for "),
        "{note}"
    );
    assert!(note.ends_with("lower engine.io_depth"), "{note}");
}

#[test]
fn a_limit_on_open_files_is_named_with_what_to_raise() {
    let project = Project::with("job.toml", JOB);
    let message = project.refused_in_shell(3, "ulimit -n 4; $IOC run job.toml --no-scan --quiet");
    assert!(message.ends_with("(os error 24); raise the limit on open files (`ulimit -n`)"), "{message}");
}
