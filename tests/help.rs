//! Every help text, as it is shown: it is what a new user reads first.

mod common;

use common::project::{Project, finish};
use insta::assert_snapshot;

/// The help of a command on a terminal of 100 columns.
fn help(command: &[&str]) -> String {
    let project = Project::new();
    let args = [command, &["--help"]].concat();
    let said = finish(project.command(common::project::IOC, &args).env("COLUMNS", "100"));
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    said.stdout
}

#[test]
fn of_the_program() {
    assert_snapshot!(help(&[]), @"");
}

#[test]
fn of_run() {
    assert_snapshot!(help(&["run"]), @"");
}

#[test]
fn of_once() {
    assert_snapshot!(help(&["once"]), @"");
}

#[test]
fn of_check() {
    assert_snapshot!(help(&["check"]), @"");
}

#[test]
fn of_build() {
    assert_snapshot!(help(&["build"]), @"");
}

#[test]
fn of_dataset() {
    assert_snapshot!(help(&["dataset"]), @"");
    assert_snapshot!(help(&["dataset", "import"]), @"");
}

#[test]
fn of_probe() {
    assert_snapshot!(help(&["probe"]), @"");
}

#[test]
fn every_command_has_a_line_of_help() {
    let text = help(&[]);
    for command in ["run", "once", "check", "build", "dataset", "probe"] {
        let line = text.lines().find(|line| line.trim_start().starts_with(command)).unwrap();
        assert!(line.trim().len() > command.len() + 10, "{line}");
    }
}
