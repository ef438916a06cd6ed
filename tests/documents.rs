//! What the documents say of jobs is what the program takes: the reference of keys lists the table of options, and the
//! examples are valid jobs.

use std::path::{Path, PathBuf};

use ioc_grid::job::options::{Kind, OPTIONS, OptionEntry};
use ioc_grid::job::{JobSource, LoadOptions, load_batch};
use ioc_grid::units::format_bytes;

fn document(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// What a value may be, for the reference.
fn values(kind: &Kind) -> String {
    match kind {
        Kind::Bytes { multiple: multiple @ 2.. } | Kind::Auto(Kind::Bytes { multiple }) => {
            format!("{}, a multiple of {}", kind.expected(), format_bytes(*multiple))
        }
        Kind::Choice { later, .. } if !later.is_empty() => {
            let later: Vec<String> = later.iter().map(|name| format!("\"{name}\"")).collect();
            format!("{} (not yet: {})", kind.expected(), later.join(", "))
        }
        Kind::OnlyFalse => "false (not yet: true)".to_owned(),
        Kind::Later(_) => "not yet".to_owned(),
        _ => kind.expected(),
    }
}

fn line(option: &OptionEntry) -> String {
    let OptionEntry { path, kind, default, help } = option;
    let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
    format!("| `{path}` | {} | {default} | {help} |", values(kind))
}

#[test]
fn the_reference_lists_exactly_the_keys_that_there_are() {
    let document = document("docs/job-files.md");
    let listed: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = OPTIONS.iter().map(line).collect();
    assert!(listed == expected, "the tables in docs/job-files.md should be:\n{}", expected.join("\n"));
}

#[test]
fn every_job_in_the_documents_is_valid() {
    for name in ["README.md", "docs/job-files.md"] {
        let document = document(name);
        let blocks = document.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        // Other blocks show a part of a job or of datasets.toml.
        let jobs: Vec<&str> = blocks.filter(|block| block.contains("[algorithm.")).collect();
        assert!(!jobs.is_empty(), "{name} shows no job");
        for text in jobs {
            let project = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
            let source = JobSource::Text { name: "example".into(), text: text.into(), project };
            let batch = load_batch(&[source], &LoadOptions::default());
            assert!(batch.is_ok(), "{name}: {}", batch.unwrap_err());
        }
    }
}
