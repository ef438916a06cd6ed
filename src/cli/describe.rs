//! What tells the runs of a job apart, in words: for the list of `ioc check` and for the lines of progress.

use std::collections::{BTreeMap, HashMap};

use crate::job::spec::RunSpec;
use crate::units::{format_bytes, format_rate};

/// What each run is: its variant, algorithm and data set, and the options in which the runs of the job differ.
pub(crate) fn differences(specs: &[&RunSpec]) -> Vec<String> {
    let name = |spec: &RunSpec| {
        [spec.variant.as_str(), spec.algorithm.name(), &spec.dataset.name].map(str::to_owned).to_vec()
    };
    // An option that only some runs have is one of their algorithm, which is told by name.
    describe(specs, name, |_| ())
}

/// What tells a run apart from those of the same variant and algorithm: its data set, where the job has several, and the
/// options of its point of the matrix.
pub(crate) fn points(specs: &[&RunSpec]) -> Vec<String> {
    let several = specs.iter().any(|spec| spec.dataset.name != specs[0].dataset.name);
    let name = |spec: &RunSpec| if several { vec![spec.dataset.name.clone()] } else { Vec::new() };
    describe(specs, name, |spec| (spec.variant.clone(), spec.algorithm.name().to_owned()))
}

/// A name's parts and then the options in which runs of the same group differ.
fn describe<G: Eq + std::hash::Hash>(
    specs: &[&RunSpec],
    name: impl Fn(&RunSpec) -> Vec<String>,
    group: impl Fn(&RunSpec) -> G,
) -> Vec<String> {
    let options: Vec<BTreeMap<String, String>> = specs.iter().map(|spec| options(spec)).collect();
    let mut keys: Vec<&String> = options.iter().flat_map(BTreeMap::keys).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| {
        let mut first: HashMap<G, &String> = HashMap::new();
        let mut values = specs.iter().zip(&options).filter_map(|(spec, run)| Some((spec, run.get(*key)?)));
        values.any(|(spec, value)| *first.entry(group(spec)).or_insert(value) != value)
    });
    let line = |(spec, run): (&&RunSpec, &BTreeMap<String, String>)| {
        let values = keys.iter().filter_map(|key| run.get(*key).map(|value| format!("{key}={value}")));
        let parts: Vec<String> =
            name(spec).into_iter().filter(|part| !part.is_empty()).chain(values).collect();
        parts.join(" ")
    };
    specs.iter().zip(&options).map(line).collect()
}

/// The options of a run by their dotted names; the algorithm and the data set are told by name.
fn options(spec: &RunSpec) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    if let Some(external) = spec.algorithm.external() {
        // Its words are told by its name, and of the rest it has only what they use.
        let used = [
            ("engine.compute_threads", serde_json::to_value(external.threads)),
            ("engine.memory", serde_json::to_value(external.memory)),
            ("storage.ssds", serde_json::to_value(external.ssds)),
        ];
        for (name, value) in used {
            let value = value.unwrap_or_default();
            if !value.is_null() {
                flatten(name, &value, &mut options);
            }
        }
        return options;
    }
    let tables = [
        ("storage", serde_json::to_value(&spec.storage)),
        ("grid", serde_json::to_value(&spec.grid)),
        ("engine", serde_json::to_value(&spec.engine)),
        ("algorithm", serde_json::to_value(&spec.algorithm)),
    ];
    for (name, table) in tables {
        // Specs are plain data, which JSON always takes.
        flatten(name, &table.unwrap_or_default(), &mut options);
    }
    options
}

/// Options that are sizes, and such that are rates.
const SIZES: [&str; 4] = ["engine.block_size", "engine.buffer", "engine.memory", "storage.stripe"];
const RATES: [&str; 2] = ["storage.emulate", "storage.rated"];

fn flatten(path: &str, value: &serde_json::Value, options: &mut BTreeMap<String, String>) {
    let shown = match value {
        // `{"value": 4}` is how an option that may be "auto" is written.
        serde_json::Value::Object(table) if table.len() == 1 && table.contains_key("value") => {
            return flatten(path, &table["value"], options);
        }
        serde_json::Value::Object(table) => {
            return table.iter().for_each(|(key, value)| flatten(&format!("{path}.{key}"), value, options));
        }
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null if path == "algorithm.spmv.x" => "1".to_owned(),
        serde_json::Value::Null => "off".to_owned(),
        other => match other.as_u64() {
            Some(bytes) if SIZES.contains(&path) => format_bytes(bytes),
            Some(rate) if RATES.contains(&path) => format_rate(rate),
            _ => other.to_string(),
        },
    };
    options.insert(path.to_owned(), shown);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobSource, LoadOptions, load_batch};

    #[test]
    fn runs_are_told_apart_by_what_differs_as_a_job_file_writes_it() {
        let text = r#"
            dataset = { generate = { kronecker = { scale = 4 } } }
            [algorithm.spmv]
            [matrix]
            "storage.emulate" = ["off", "450 MB/s"]
            [[variant]]
            name = "a"
            [[variant]]
            name = "b"
            engine = { model = "sync", block_size = "64 KiB" }
        "#;
        let source = JobSource::Text { name: "x".into(), text: text.into(), project: "/nowhere".into() };
        let batch = load_batch(&[source], &LoadOptions::default()).unwrap();
        let specs: Vec<&RunSpec> = batch.runs().collect();
        insta::assert_snapshot!(differences(&specs).join("\n"), @"
        a spmv kron-4 engine.block_size=auto engine.model=ioc storage.emulate=off
        a spmv kron-4 engine.block_size=auto engine.model=ioc storage.emulate=450 MB/s
        b spmv kron-4 engine.block_size=64 KiB engine.model=sync storage.emulate=off
        b spmv kron-4 engine.block_size=64 KiB engine.model=sync storage.emulate=450 MB/s
        ");
        insta::assert_snapshot!(points(&specs).join("\n"), @"
        storage.emulate=off
        storage.emulate=450 MB/s
        storage.emulate=off
        storage.emulate=450 MB/s
        ");
        assert_eq!(points(&specs[..1]), [""]);
    }
}
