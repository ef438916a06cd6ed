//! The commands as a person uses them: what they print, what they leave, and with which code they end.

mod common;

use std::fs;

use common::project::{Project, finish};
use common::real::values;
use insta::assert_snapshot;

const JOB: &str = r#"dataset = "small"

[algorithm.pagerank]
iterations = 5
[algorithm.spmv]

[engine]
buffer = "2 MiB"

[measure]
repeat = 2
warmup = 1

[[variant]]
name = "sync"
engine = { model = "sync", io = "psync" }
[[variant]]
name = "ioc"
"#;

const REGISTRY: &str = r#"[small]
generate = { kronecker = { scale = 10, weights = true } }
[file]
path = "edges.txt"
"#;

/// A project with a job of four runs and two data sets.
fn project() -> Project {
    let project = Project::with("datasets.toml", REGISTRY);
    project.write("jobs/job.toml", JOB);
    project.write("edges.txt", "1 2\n2 3\n3 1\n3 2\n");
    project
}

#[test]
fn a_job_becomes_a_table_and_a_second_run_reuses_the_grid() {
    let project = project();
    let first = project.good(&["run", "jobs/job.toml"]);
    assert!(
        first.stderr.contains("small: partition") && first.stderr.contains("[12/12] job ioc spmv rep 2: ")
    );
    assert!(first.stdout.contains("report: reports/job.csv"), "{}", first.stdout);
    // Printed once, though each repetition of each variant has them.
    assert_eq!(first.stdout.matches("pagerank of small (").count(), 1, "{}", first.stdout);
    let rows = project.rows("job");
    assert_eq!(rows.len(), 12);
    // One verified repetition of a run speaks for all with its result, warm-ups too.
    assert!(rows.iter().all(|row| (row["status"].as_str(), row["verified"].as_str()) == ("ok", "true")));
    assert_eq!(rows.iter().filter(|row| row["phase"] == "warmup").count(), 4);
    let modified = || fs::metadata(project.grid_file("manifest.json")).unwrap().modified().unwrap();
    let built = modified();
    let second = project.good(&["run", "jobs/job.toml"]);
    assert!(!second.stderr.contains("partition"), "{}", second.stderr);
    assert_eq!(modified(), built);
}

#[test]
fn a_changed_source_is_imported_again() {
    let project = project();
    let run = || {
        let said = project.good(&["run", "jobs/job.toml", "--set", "dataset=file"]);
        (said.stderr.contains("partition"), project.rows("job")[0]["result_checksum"].clone())
    };
    let (imported, before) = run();
    assert!(imported);
    assert_eq!(run(), (false, before.clone()));
    project.write("edges.txt", "1 2\n2 3\n3 1\n3 9\n");
    let (imported, after) = run();
    assert!(imported && after != before);
}

#[test]
fn sets_and_selections_make_the_batch() {
    let project = project();
    project.good(&[
        "run",
        "jobs/job.toml",
        "--only",
        "sync",
        "--set",
        "measure.repeat=1",
        "--set",
        "measure.warmup=0",
    ]);
    let rows = project.rows("job");
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["variant"] == "sync" && row["model"] == "sync"));
    project.good(&["run", "jobs", "--only", "job", "--set", "engine.compute_threads=3"]);
    assert!(project.rows("job").iter().all(|row| row["compute_threads"] == "3"));
}

#[test]
fn reports_and_grids_go_where_they_are_told() {
    let project = project();
    project.good(&["run", "jobs/job.toml", "--out", "elsewhere/reports", "--data", "elsewhere/data"]);
    assert_eq!(project.files("reports").len() + project.files("data").len(), 0);
    assert_eq!(common::project::rows(&project.path("elsewhere/reports/job.csv")).len(), 12);
    // The variable stands for the option, and the option is stronger.
    let mut command = project.command(common::project::IOC, &["build", "jobs/job.toml"]);
    assert_eq!(finish(command.env("IOC_DATA", "from-variable")).code, 0);
    assert!(!project.files("from-variable").is_empty());
    let args = ["build", "jobs/job.toml", "--data", "from-option"];
    let mut command = project.command(common::project::IOC, &args);
    assert_eq!(finish(command.env("IOC_DATA", "not-here")).code, 0);
    assert!(!project.files("from-option").is_empty() && project.files("not-here").is_empty());
}

#[test]
fn quiet_says_nothing_where_nothing_is_wrong() {
    let project = project();
    for args in [
        &["check", "jobs/job.toml"][..],
        &["build", "jobs/job.toml"],
        &["run", "jobs/job.toml"],
        &["run", "jobs/job.toml", "--resume"],
        &["once", "spmv", "edges.txt", "-o", "values.csv"],
        &["dataset", "import", "file"],
        &["dataset", "verify", "file"],
        &["dataset", "rm", "file"],
        &["dataset", "gc"],
    ] {
        let said = project.good(&[args, &["--quiet"]].concat());
        assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", ""), "{args:?}");
    }
}

#[test]
fn one_run_of_a_frozen_plan() {
    let project = project();
    project.good(&["run", "jobs/job.toml"]);
    let plan = project.read("reports/job/plan.json");
    let before = project.rows("job");
    project.write("plan.json", plan);
    fs::remove_dir_all(project.path("reports")).unwrap();
    project.good(&["run", "--plan", "plan.json", "--index", "2"]);
    let rows = project.rows("job");
    assert_eq!(rows.len(), 3);
    let same = |row: &&common::project::Row| row["run_id"] == rows[0]["run_id"];
    let earlier = before.iter().find(same).expect("the same run");
    assert_eq!(
        (&earlier["variant"], &earlier["result_checksum"]),
        (&rows[0]["variant"], &rows[0]["result_checksum"])
    );
    assert_eq!(earlier["variant"], "ioc");
}

#[test]
fn a_selected_run_drops_no_grid_that_others_still_need() {
    let project = Project::with(
        "job.toml",
        "dataset = { generate = { kronecker = { scale = 8 } } }\n[algorithm.scan]\n[storage]\nkeep = false\n\
         [measure]\nrepeat = 1\nwarmup = 0\n[matrix]\n\"engine.io_batch\" = [1, 2]\n\"grid.columns\" = [1, 2]\n",
    );
    project.good(&["build", "job.toml"]);
    let grids = || project.files("data").iter().filter(|file| file.ends_with("manifest.json")).count();
    let run = |index: &str| project.good(&["run", "--plan", "reports/job/plan.json", "--index", index]);
    assert_eq!(grids(), 2);
    // Runs 0 and 2 share one grid, 1 and 3 the other.
    for (index, left) in [("0", 2), ("1", 2), ("2", 1), ("3", 0)] {
        run(index);
        assert_eq!(grids(), left, "after run {index}");
    }
}

#[test]
fn jobs_of_a_folder_run_in_sorted_order() {
    let project = project();
    for name in ["b", "a", "below/c"] {
        project.write(
            &format!("jobs/more/{name}.toml"),
            "dataset = \"file\"\n[algorithm.scan]\n[measure]\nwarmup = 0\n",
        );
    }
    let said = project.good(&["run", "jobs/more", "--set", "measure.repeat=1"]);
    let lines: Vec<&str> = said.stderr.lines().filter(|line| line.starts_with('[')).collect();
    let jobs: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(jobs, ["a", "b", "c"]);
    for report in ["more/a", "more/b", "more/below/c"] {
        assert_eq!(project.rows(report).len(), 1, "{report}");
    }
}

#[test]
fn equal_runs_run_once_and_check_says_so() {
    let project = project();
    let variants = "[[variant]]\nname = \"one\"\nengine.io_depth = 8\n[[variant]]\nname = \"two\"\nengine.io_depth = 8\n";
    project.write(
        "jobs/twice.toml",
        format!("dataset = \"file\"\n[algorithm.scan]\n[measure]\nrepeat = 1\nwarmup = 0\n{variants}"),
    );
    let said = project.good(&["check", "jobs/twice.toml"]);
    assert!(said.stderr.contains("run once: 1"), "{}", said.stderr);
    project.good(&["run", "jobs/twice.toml"]);
    assert_eq!(project.rows("twice").len(), 1);
}

#[test]
fn once_writes_the_values_where_it_is_told() {
    let project = project();
    let once = |to: &str| project.good(&["once", "spmv", "edges.txt", "-o", to]);
    let said = once("values.csv");
    assert!(said.stdout.contains("dataset = { path = "), "{}", said.stdout);
    let expected = "vertex,value\n1,1\n2,2\n3,1\n";
    assert_eq!(project.read("values.csv"), expected);
    assert_eq!(values(expected).len(), 3);
    // On standard output is nothing but the values.
    for stdout in ["-", "/dev/stdout"] {
        let said = once(stdout);
        assert_eq!(said.stdout, expected);
        assert!(said.stderr.contains("dataset = { path = ") && said.stderr.contains("report: "));
    }
}

#[test]
fn once_finds_before_it_computes_that_there_is_no_place_for_the_values() {
    let project = project();
    fs::create_dir(project.path("folder")).unwrap();
    let refused = |output: &str| {
        let script = format!("mkfifo -m 600 pipe 2> /dev/null; $IOC once spmv edges.txt --quiet -o {output}");
        project.refused_in_shell(2, &script)
    };
    assert_snapshot!(refused("folder"), @"error: -o: folder is a directory; name a file in it");
    assert_snapshot!(refused("folder/none/values.csv"), @"error: -o: there is no directory folder/none; create it, or name a file elsewhere");
    assert_snapshot!(refused("pipe"), @"error: -o: pipe is no regular file; name one, or `-` for standard output");
    let closed = project.refused_in_shell(2, "$IOC once spmv edges.txt --quiet -o - >&-");
    assert_snapshot!(closed, @"error: -o: standard output is closed; open it, or name a file");
    assert_snapshot!(refused("/dev/null"), @"error: -o: /dev/null is no regular file; name one, or `-` for standard output");
    assert_snapshot!(refused("values.csv --set output.values=off"), @"error: --set output.values=off contradicts -o; leave one of them away");
    assert_snapshot!(refused("./edges.txt"), @"error: -o names the edge list itself; give the values another file");
    assert!(project.files("reports").is_empty() && project.files("data").is_empty());
}

#[test]
fn the_job_that_once_prints_and_saves_is_the_run_that_it_did() {
    let project = project();
    let options = ["--tolerance", "1e-9", "--memory", "512 MiB", "--set", "engine.model=sync", "--set"];
    let args = [
        &["once", "pagerank", "edges.txt", "--job", "jobs/kept.toml"],
        &options[..],
        &["engine.buffer=2 MiB"],
    ];
    let said = project.good(&args.concat());
    let printed = said.stdout.split("\npagerank of").next().unwrap();
    assert!(printed.ends_with(&project.read("jobs/kept.toml")), "{printed}");
    project.good(&["run", "jobs/kept.toml"]);
    let (once, kept) = (&project.rows("once-pagerank-edges")[0], &project.rows("kept")[0]);
    assert_eq!((&once["run_id"], &once["result_checksum"]), (&kept["run_id"], &kept["result_checksum"]));
    assert_eq!((kept["model"].as_str(), kept["buffer_b"].as_str()), ("sync", "2097152"));
    // What was saved is not lost by another run.
    assert_snapshot!(project.refused(2, &args.concat()), @"error: --job: [project]/jobs/kept.toml exists already; name a new file");
}

#[test]
fn without_a_path_there_is_the_quickstart() {
    let project = Project::new();
    let said = project.good(&["check"]);
    assert!(said.stdout.starts_with("quickstart: 4 runs, 8 repetitions\n"), "{}", said.stdout);
    assert!(project.files("reports").is_empty() && project.files("data").is_empty());
    // A file of that name comes first.
    project.write(
        "jobs/quickstart.toml",
        "name = \"mine\"\ndataset = { generate = { kronecker = { scale = 8 } } }\n[algorithm.scan]\n",
    );
    assert!(project.good(&["check"]).stdout.starts_with("mine: 1 run, 4 repetitions\n"));
}

#[test]
fn check_says_what_is_read_with_the_cache_and_sums_up() {
    let project = project();
    // The synchronous model, since the other reads ahead, perhaps what is still on its way to be kept.
    let check = |more: &[&str]| project.good(&[&["check", "jobs/job.toml", "--only", "sync"], more].concat());
    let redacted = |more: &[&str]| project.redact(&check(more).stdout);
    // 16,384 edges of 12 bytes fill seven chunks, which all fit the memory: they are read once.
    assert_snapshot!(redacted(&[]), @"
    job: 2 runs, 6 repetitions
      [run]  sync pagerank small: at most 224 KiB on disk, reads at most 224 KiB, 14.0 MiB of 1 GiB memory, 224 KiB of blocks kept in the rest
      [run]  sync spmv small: at most 224 KiB on disk, reads at most 224 KiB, 14.0 MiB of 1 GiB memory, 224 KiB of blocks kept in the rest
    in all 2 runs, 6 repetitions; 1 grid to import, about 224 KiB on disk
    ");
    assert_snapshot!(redacted(&["--set", "engine.cache=off"]), @"
    job: 2 runs, 6 repetitions
      [run]  sync pagerank small: at most 224 KiB on disk, reads at most 1.09 MiB, 14.0 MiB of 1 GiB memory
      [run]  sync spmv small: at most 224 KiB on disk, reads at most 224 KiB, 14.0 MiB of 1 GiB memory
    in all 2 runs, 6 repetitions; 1 grid to import, about 224 KiB on disk
    ");
    project.good(&["build", "jobs/job.toml"]);
    assert_snapshot!(redacted(&[]), @"
    job: 2 runs, 6 repetitions
      [run]  sync pagerank small: 96 KiB on disk, reads about 96 KiB, 14.0 MiB of 1 GiB memory, 96 KiB of blocks kept in the rest
      [run]  sync spmv small: 96 KiB on disk, reads about 96 KiB, 14.0 MiB of 1 GiB memory, 96 KiB of blocks kept in the rest
    in all 2 runs, 6 repetitions; every grid is built
    ");
    // A run reads what was said.
    project.good(&["run", "jobs/job.toml", "--only", "sync", "--set", "measure.repeat=1"]);
    let read: Vec<String> = project.rows("job").iter().map(|row| row["read_b"].clone()).collect();
    assert_eq!(read, ["98304", "98304", "98304", "98304"]);
}

#[test]
fn check_estimates_a_text_and_says_where_it_cannot() {
    let project = project();
    let check = |set: &str| {
        project.redact(
            &project
                .good(&["check", "jobs/job.toml", "--only", "ioc", "--set", "dataset=file", "--set", set])
                .stdout,
        )
    };
    assert_snapshot!(check("measure.repeat=1"), @"
    job: 2 runs, 4 repetitions
      [run]  ioc pagerank file: at most 32 KiB on disk, reads at most 160 KiB, more than 14 MiB of 1 GiB memory
      [run]  ioc spmv file: at most 32 KiB on disk, reads at most 32 KiB, more than 14 MiB of 1 GiB memory
    in all 2 runs, 4 repetitions; 1 grid to import, about 32 KiB on disk
    ");
    assert_snapshot!(check("dataset.vertices=4"), @"
    job: 2 runs, 6 repetitions
      [run]  ioc pagerank edges: at most 32 KiB on disk, reads at most 32 KiB, 14.0 MiB of 1 GiB memory, 32 KiB of blocks kept in the rest
      [run]  ioc spmv edges: at most 32 KiB on disk, reads at most 32 KiB, 14.0 MiB of 1 GiB memory, 32 KiB of blocks kept in the rest
    in all 2 runs, 6 repetitions; 1 grid to import, about 32 KiB on disk
    ");
    assert_snapshot!(check("grid.encoding=compact"), @"
    job: 2 runs, 6 repetitions
      [run]  ioc pagerank file: at most 32 KiB on disk, reads at most 160 KiB, more than 14 MiB of 1 GiB memory
      [run]  ioc spmv file: at most 32 KiB on disk, reads at most 32 KiB, more than 14 MiB of 1 GiB memory
    in all 2 runs, 6 repetitions; 1 grid to import, about 32 KiB on disk
    ");
}

#[test]
fn check_notes_what_this_machine_is_too_small_for() {
    let project = project();
    let large = [
        "check",
        "jobs/job.toml",
        "--set",
        "dataset.generate.kronecker={ scale = 22, edge_factor = 1048576 }",
        "--set",
        "engine.memory=1000 TiB",
    ];
    let said = project.good(&large);
    assert!(said.stderr.contains(" free, and the grids to import there need about "), "{}", said.stderr);
    assert!(said.stderr.contains("note: a run may take "), "{}", said.stderr);
    let said = project.good(&["check", "jobs/job.toml"]);
    assert_eq!(said.stderr, "");
}

#[test]
fn a_faulty_value_does_not_hide_a_missing_file() {
    let project = project();
    fs::remove_file(project.path("edges.txt")).unwrap();
    let args = ["check", "jobs/job.toml", "--set", "dataset=file", "--set", "engine.io_depth=0"];
    let message = project.refused(2, &args);
    assert!(
        message.contains("`engine.io_depth` must be") && message.contains("edges.txt does not exist"),
        "{message}"
    );
    assert!(message.ends_with("1 fault and 1 note in 2 files"), "{message}");
}

#[test]
fn lines_of_progress_tell_the_points_of_a_matrix_apart() {
    let project = project();
    project.write(
        "jobs/sweep.toml",
        "dataset = \"file\"\n[algorithm.scan]\n[measure]\nrepeat = 1\nwarmup = 0\n[matrix]\nengine.block_size = [\"32 KiB\", \"64 KiB\"]\n",
    );
    let said = project.good(&["run", "jobs/sweep.toml", "--no-scan"]);
    for start in [
        "[1/2] sweep scan engine.block_size=32 KiB rep 1: ",
        "[2/2] sweep scan engine.block_size=64 KiB rep 1: ",
    ] {
        assert!(said.stderr.lines().any(|line| line.starts_with(start)), "{start}: {}", said.stderr);
    }
}

#[test]
fn check_lists_needs_refuses_what_cannot_run_and_only_notes_what_is_missing() {
    let project = project();
    let said = project.good(&["check", "jobs/job.toml", "--only", "ioc"]);
    assert!(said.stdout.contains("on disk, reads ") && said.stdout.contains(" memory"), "{}", said.stdout);
    fs::remove_file(project.path("edges.txt")).unwrap();
    let said = project.good(&["check", "jobs/job.toml", "--set", "dataset=file"]);
    assert!(said.stderr.contains("note: the data set's file"), "{}", said.stderr);
    let said = project.ioc(&["check", "jobs/job.toml", "--set", "engine.memory=4 MiB"]);
    assert_eq!(said.code, 2, "{}", said.stdout);
    assert!(said.stdout.contains(": refused\n"), "{}", said.stdout);
    assert!(
        said.stderr.contains("error: job: sync spmv small engine.io=psync engine.model=sync: the run needs "),
        "{}",
        said.stderr
    );
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let project = project();
    // `set -o pipefail` is not of every shell.
    let script = "{ $IOC check; echo $? > code; } | true; cat code";
    let said = finish(&mut project.shell(script));
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("0\n", ""));
    let script = "{ $IOC once spmv edges.txt --quiet -o -; echo $? > code; } | true; cat code";
    let said = finish(&mut project.shell(script));
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("0\n", ""));
}

#[test]
fn data_sets_are_listed_imported_verified_and_removed() {
    let project = project();
    let ioc = |args: &[&str]| project.redact(&project.good(&[&["dataset"], args].concat()).stdout);
    assert_snapshot!(ioc(&["list"]), @r#"
    small                    kronecker, scale 10, edge factor 16, seed 1, weights     not built
    file                     edges.txt                                                not built
    "#);
    assert_snapshot!(ioc(&["info", "file"]), @r#"
    file: edges.txt
    not built; its counts are known after `ioc dataset import`
    "#);
    assert_eq!(ioc(&["import", "file"]), "");
    let info = ioc(&["info", "file"]);
    let steady: Vec<&str> = info.lines().filter(|line| !line.starts_with("  import")).collect();
    assert_snapshot!(steady.join("\n"), @"
    file: edges.txt

    grid [grid] in data/file/[grid]
      vertices           3 (rule: seen)
      arcs               4
      dangling           0
      self-loops         0
      checksum           [checksum]
      weights            none
      edges on disk      32 KiB (8192.000 bytes per edge, compact)
      columns            1, source windows of 65,536
      order              natural
      devices            1, stripes of 512 KiB
    ");
    assert_snapshot!(ioc(&["list"]), @r#"
    small                    kronecker, scale 10, edge factor 16, seed 1, weights     not built
    file                     edges.txt                                                1 grid, 32.9 KiB
    "#);
    assert_snapshot!(ioc(&["verify", "file"]), @"file [grid]: 4 edges in 32 KiB are as they were written");
    // A run finds the same grid.
    let said = project.good(&["run", "jobs/job.toml", "--set", "dataset=file"]);
    assert!(!said.stderr.contains("partition"), "{}", said.stderr);
    // What an import that was killed leaves is collected, what is whole stays.
    assert_snapshot!(ioc(&["gc"]), @"0 incomplete grids removed, 0 B freed");
    fs::remove_file(project.grid_file("manifest.json")).unwrap();
    assert!(ioc(&["gc"]).starts_with("1 incomplete grid removed, "));
    assert_eq!(ioc(&["import", "file"]), "");
    assert!(ioc(&["rm", "file"]).starts_with("file: "));
    assert!(!project.has_grid());
}

#[test]
fn probe_tells_of_each_directory() {
    let project = Project::new();
    fs::create_dir(project.path("ssd0")).unwrap();
    // One engine and one thread at a time is what takes the least time.
    let said = project.good(&["probe", "--quick", "--io", "psync", "--size", "16 MiB", ".", "ssd0"]);
    for word in ["O_DIRECT", "libaio", "cores", "memory"] {
        assert!(said.stdout.contains(word), "{word}: {}", said.stdout);
    }
    assert!(said.stdout.contains("\nssd0\n"), "{}", said.stdout);
    assert!(project.files("ssd0").is_empty());
}

#[test]
fn one_grid_of_several_is_removed_by_its_key_and_an_unfinished_one_is_no_grid() {
    let project = project();
    project.good(&["dataset", "import", "file"]);
    project.write("job.toml", "dataset = \"file\"\n[algorithm.scan]\n[grid]\ncolumns = 2\n");
    project.good(&["build", "job.toml"]);
    let list = || {
        let said = project.good(&["dataset", "list"]).stdout;
        said.lines().find(|line| line.starts_with("file ")).unwrap().to_owned()
    };
    assert!(list().contains(" 2 grids, "), "{}", list());
    let said = project.ioc(&["dataset", "rm", "file", "--grid", "g0"]);
    assert!(said.code == 2 && said.stderr.contains("file has no grid g0; it has g"), "{}", said.stderr);
    let manifests: Vec<String> =
        project.files("data").into_iter().filter(|file| file.ends_with("manifest.json")).collect();
    let key = manifests[0].rsplit('/').nth(1).unwrap();
    project.good(&["dataset", "rm", "file", "--grid", key]);
    assert!(list().contains(" 1 grid, "), "{}", list());
    fs::remove_file(project.path(&manifests[1])).unwrap();
    assert!(list().contains(" 1 unfinished, ") && !list().contains("grid"), "{}", list());
    let said = project.good(&["dataset", "gc"]).stdout;
    assert!(said.contains("1 incomplete grid removed"), "{said}");
    assert!(list().ends_with(" not built"), "{}", list());
}

#[test]
fn one_layout_that_cannot_be_read_hides_no_other() {
    let project = project();
    project.good(&["dataset", "import", "file"]);
    project.write("job.toml", "dataset = \"file\"\n[algorithm.scan]\n[grid]\ncolumns = 2\n");
    project.good(&["build", "job.toml"]);
    let manifests: Vec<String> =
        project.files("data").into_iter().filter(|file| file.ends_with("manifest.json")).collect();
    fs::remove_file(project.path(&manifests[0])).unwrap();
    fs::create_dir(project.path(&manifests[0])).unwrap();
    // Left unfinished: what gc is for.
    fs::create_dir(project.path("data/other")).unwrap();
    fs::create_dir(project.path("data/other/g0123456789abcdef")).unwrap();
    let expected = |error: &str| {
        let error = error.trim_end();
        assert!(error.contains(&manifests[0]) && error.contains("it is a directory"), "{error}");
    };
    let said = project.ioc(&["dataset", "list"]);
    let row = said.stdout.lines().find(|line| line.starts_with("file ")).unwrap();
    assert!(said.code == 3 && row.contains(" 1 grid, ") && row.ends_with(", 1 unreadable"), "{said:?}");
    assert!(said.stdout.lines().any(|line| line.starts_with("other ")), "{said:?}");
    expected(&said.stderr);
    let said = project.ioc(&["dataset", "info", "file"]);
    assert!(
        said.code == 3 && said.stdout.contains("unreadable: ") && said.stdout.contains("vertices"),
        "{said:?}"
    );
    let said = project.ioc(&["dataset", "gc"]);
    assert!(said.code == 3 && said.stdout.contains("1 incomplete grid removed"), "{said:?}");
    expected(&said.stderr);
    assert!(project.path(&manifests[0]).is_dir() && project.path(&manifests[1]).is_file());
    // Whoever wants it gone gets that.
    project.good(&["dataset", "rm", "file"]);
    assert!(!project.path("data/file").exists());
}

#[test]
fn info_names_the_device_directories_and_gc_finds_what_a_lost_data_directory_left_there() {
    let project = Project::with(
        "job.toml",
        "dataset = { generate = { kronecker = { scale = 8 } } }\n[algorithm.scan]\n[storage]\ndevices = [\"ssd\"]\n",
    );
    fs::create_dir(project.path("ssd")).unwrap();
    project.good(&["build", "job.toml"]);
    let said = project.good(&["dataset", "info", "kron-8"]).stdout;
    assert!(said.contains("device directory") && said.contains("/ssd/kron-8-g"), "{said}");
    fs::remove_dir_all(project.path("data")).unwrap();
    assert!(!project.files("ssd").is_empty());
    let said = project.good(&["dataset", "gc", "--device", "ssd"]).stdout;
    assert!(said.contains("1 left folder on devices removed, "), "{said}");
    assert!(fs::read_dir(project.path("ssd")).unwrap().next().is_none());
    assert_eq!(project.ioc(&["dataset", "gc", "--device", "nowhere"]).code, 2);
}
