//! The checked-in jobs: every one is valid, and those of `jobs/ci` run, each algorithm with one result in whatever way
//! it is computed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the program in the project's folder.
fn ioc(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioc"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
    command.output().unwrap()
}

/// The job files of a folder of the project.
fn job_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = ioc_grid::job::find_job_files(&[folder]).unwrap();
    assert!(!files.is_empty());
    files
}

/// The rows of a report, by column.
fn rows(report: &Path) -> Vec<HashMap<String, String>> {
    let mut reader = csv::Reader::from_path(report).unwrap();
    let rows: Vec<_> = reader.deserialize().map(Result::unwrap).collect();
    assert!(!rows.is_empty(), "{} has no rows", report.display());
    rows
}

#[test]
fn every_job_file_is_valid() {
    let output = ioc(&["check", "jobs"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    // Peers are seldom installed, and only noted.
    let peer = |line: &str| line.starts_with("note: the program `");
    let mut said = errors.lines().filter(|line| line.starts_with("note:") || line.starts_with("error:"));
    assert!(output.status.success() && said.all(peer), "{errors}");
    let listed = String::from_utf8_lossy(&output.stdout);
    for file in job_files("jobs") {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(listed.contains(&format!("{name}: ")), "{name} is not in:\n{listed}");
    }
}

#[test]
fn the_jobs_of_ci_run_and_agree_with_themselves() {
    // Below the build folder: a temporary folder may lie in memory, which takes no direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (out, data) = (folder.path().join("reports"), folder.path().join("data"));
    let (out_text, data_text) = (out.to_str().unwrap(), data.to_str().unwrap());
    let output = ioc(&["run", "jobs/ci", "--quiet", "--out", out_text, "--data", data_text]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in job_files("jobs/ci") {
        let report = out.join("ci").join(file.file_name().unwrap()).with_extension("csv");
        let mut results = HashMap::new();
        for row in rows(&report) {
            assert_eq!((row["status"].as_str(), row["verified"].as_str()), ("ok", "true"), "{row:?}");
            let question = (row["algorithm"].clone(), row["algorithm_params"].clone());
            let result = row["result_checksum"].clone();
            assert_eq!(results.entry(question).or_insert_with(|| result.clone()), &result, "{row:?}");
        }
    }
}
