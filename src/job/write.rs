//! A job as text: what `ioc once` stands for, with what `--set` changes in its place.

use std::fmt::Write;

use toml::Table;

use super::fault::Faults;
use super::options::{self, Kind};
use super::tree::{self, Node, Value};

/// A job file of these keys: what is at the top, then a section per table. The data set is written in one line.
pub fn render(job: &Table) -> String {
    let mut text = String::new();
    section("", job, &mut text);
    text
}

fn section(path: &str, table: &Table, text: &mut String) {
    let has_section = |(key, value): &(&String, &toml::Value)| value.is_table() && *key != "dataset";
    let (tables, values): (Vec<_>, Vec<_>) = table.iter().partition(has_section);
    // Writing to a string cannot fail.
    if !path.is_empty() && (!values.is_empty() || tables.is_empty()) {
        let _ = writeln!(text, "\n[{path}]");
    }
    for (key, value) in values {
        let _ = match value {
            toml::Value::Float(number) if number.abs() < 1e-3 => writeln!(text, "{key} = {number:e}"),
            _ => writeln!(text, "{key} = {value}"),
        };
    }
    for (key, value) in tables {
        if let Some(inner) = value.as_table() {
            section(&join(path, key), inner, text);
        }
    }
}

/// Puts what `--set KEY=VALUE` says into a job.
///
/// # Errors
/// Where an argument is none.
pub fn apply(job: &mut Table, sets: &[String]) -> Result<(), Faults> {
    for argument in sets {
        merge(job, "", &tree::parse_set(argument)?);
    }
    Ok(())
}

fn merge(into: &mut Table, path: &str, from: &tree::Table) {
    for (key, node) in from {
        let path = join(path, &key.name);
        match (&node.value, into.get_mut(&key.name)) {
            (Value::Table(inner), Some(toml::Value::Table(below))) => merge(below, &path, inner),
            _ => drop(into.insert(key.name.clone(), value(&path, node))),
        }
    }
}

fn value(path: &str, node: &Node) -> toml::Value {
    match (&node.value, node.as_text()) {
        (Value::Table(inner), _) => {
            let mut table = Table::new();
            merge(&mut table, path, inner);
            table.into()
        }
        // What looks like a number is a text where the option takes texts: `--set dataset.name=2024`.
        (_, Some(text)) if is_text(path) => text.into(),
        (Value::Array(items), _) => items.iter().map(|item| value(path, item)).collect::<Vec<_>>().into(),
        (Value::Text(text), _) => text.as_str().into(),
        (Value::Integer(number), _) => (*number).into(),
        (Value::Float(number), _) => (*number).into(),
        (Value::Bool(flag), _) => (*flag).into(),
        // No option takes a date.
        (Value::Datetime, _) => node.origin.text().into(),
    }
}

fn is_text(path: &str) -> bool {
    options::find(path).is_some_and(|option| {
        matches!(option.kind, Kind::Text | Kind::Dataset | Kind::Path | Kind::Sha256 | Kind::Choice { .. })
    })
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_with_what_set_changed_is_the_same_as_the_job_and_the_sets() {
        let text = "name = \"x\"\ndataset = { path = \"e.txt\", format = \"auto\" }\n\n[algorithm.pagerank]\n\n[engine]\nmemory = \"1 GiB\"\n";
        let mut job: Table = text.parse().unwrap();
        assert_eq!(render(&job), text);
        let sets = [
            "engine.memory=2 GiB",
            "dataset.name=2024",
            "algorithm.pagerank.tolerance=1e-9",
            "storage.devices=[\"a\", \"b\"]",
            "engine={ io_depth = 4 }",
        ];
        apply(&mut job, &sets.map(str::to_owned)).unwrap();
        insta::assert_snapshot!(render(&job), @r#"
        name = "x"
        dataset = { path = "e.txt", format = "auto", name = "2024" }

        [algorithm.pagerank]
        tolerance = 1e-9

        [engine]
        memory = "2 GiB"
        io_depth = 4

        [storage]
        devices = ["a", "b"]
        "#);
        assert_eq!(render(&render(&job).parse().unwrap()), render(&job));
    }
}
