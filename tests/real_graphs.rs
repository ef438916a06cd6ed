//! Real graphs and the small inputs that broke other systems, through the program: what it says of them is what
//! others computed.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use common::project::{Project, Row};
use common::real::{answers, shared, values, vectors};
use serde_json::Value;

/// PageRank to its fixed point, GridGraph's flavour of it, and SpMV of every data set.
const JOB: &str = r#"
[algorithm.pagerank]
tolerance = 1e-13
[algorithm.spmv]
[engine]
buffer = "2 MiB"
[measure]
repeat = 1
warmup = 0
[output]
values = "csv"
[matrix]
exclude = [{ variant = "gridgraph", algorithm = "spmv" }]
dataset = DATASETS
[[variant]]
name = "exact"
[[variant]]
name = "gridgraph"
algorithm.pagerank = { init = "one", dangling = "ignore", iterations = 20, tolerance = "off" }
"#;

/// Levels and components; and distances, where weights have them.
const TRAVERSALS: &str = r#"
[algorithm.bfs]
[algorithm.wcc]
[engine]
buffer = "2 MiB"
[measure]
repeat = 1
warmup = 0
[output]
values = "csv"
[matrix]
dataset = DATASETS
"#;

/// What one run left: its row and its values.
struct Result {
    row: Row,
    values: BTreeMap<u64, f64>,
}

/// The results of a data set by variant and algorithm: `exact pagerank`.
type Results = BTreeMap<String, Result>;

/// Runs [`JOB`] on data sets given as entries of a registry; returns the results by data set.
fn run(entries: &[(String, String)]) -> BTreeMap<String, Results> {
    run_job(JOB, entries)
}

fn run_job(job: &str, entries: &[(String, String)]) -> BTreeMap<String, Results> {
    let project = Project::new();
    let registry = entries.iter().fold(String::new(), |mut text, (name, entry)| {
        let _ = writeln!(text, "[{name:?}]\n{entry}");
        text
    });
    project.write("datasets.toml", registry);
    let names: Vec<&String> = entries.iter().map(|(name, _)| name).collect();
    project.write("jobs/real.toml", job.replace("DATASETS", &format!("{names:?}")));
    project.good(&["run", "jobs/real.toml", "--no-scan"]);
    let mut results: BTreeMap<String, Results> = BTreeMap::new();
    for row in project.rows("real") {
        assert_eq!((row["status"].as_str(), row["verified"].as_str()), ("ok", "true"), "{row:?}");
        let values = values(&project.read(&format!("reports/real/{}.values.csv", row["run_id"])));
        let kind = format!("{} {}", row["variant"], row["algorithm"]);
        results.entry(row["dataset"].clone()).or_default().insert(kind, Result { row, values });
    }
    results
}

fn close(found: f64, expected: f64, relative: f64, what: &str) {
    let error = (found - expected).abs();
    assert!(error <= relative * expected.abs(), "{what}: {found:e}, expected {expected:e}");
}

/// Compares with a summary of `answers.json`: the sum, the smallest and the largest values.
fn compare_summary(found: &BTreeMap<u64, f64>, answer: &Value, relative: f64, what: &str) {
    // A sum of numbers of both signs is as exact as its largest terms.
    let absolute: f64 = found.values().map(|value| value.abs()).sum();
    let sum: f64 = found.values().sum();
    let error = (sum - answer["sum"].as_f64().unwrap()).abs();
    assert!(error <= relative * absolute, "{what}: the sum is {sum:e}, expected {}", answer["sum"]);
    if let Some(least) = answer["min"].as_f64() {
        close(found.values().copied().fold(f64::INFINITY, f64::min), least, relative, what);
    }
    for pair in answer["top10"].as_array().unwrap() {
        let vertex = pair[0].as_u64().unwrap();
        close(found[&vertex], pair[1].as_f64().unwrap(), relative, &format!("{what}: vertex {vertex}"));
    }
}

/// Compares every vertex with a vector that was computed independently.
fn compare_vector(found: &BTreeMap<u64, f64>, ids: &[f64], expected: &[f64], relative: f64, what: &str) {
    assert!(found.keys().map(|&id| id as f64).eq(ids.iter().copied()), "{what}: other vertices");
    for ((vertex, &found), &expected) in found.iter().zip(expected) {
        close(found, expected, relative, &format!("{what}: vertex {vertex}"));
    }
}

/// The entry of a published file: what its readers must be told of it.
fn entry(name: &str, answer: &Value) -> Option<String> {
    let path = shared(&format!("data/{name}"))?.display().to_string();
    let mut entry = format!("path = {path:?}\ndirected = {}", answer["directed"]);
    entry += match name {
        "snap/ca-GrQc.txt" => "\nskip_lines = 1",
        "snap/johnson8-4-4.edgelist" => "\nformat = \"snap\"",
        _ => "",
    };
    Some(entry)
}

fn are_whole<'a>(mut values: impl Iterator<Item = &'a f64>) -> bool {
    values.all(|value| value.fract() == 0.0)
}

#[test]
fn every_published_graph_has_the_counts_ranks_and_sums_of_the_answers() {
    let Some(answers) = answers() else { return };
    let wanted = published(&answers);
    let entries: Vec<(String, String)> =
        wanted.iter().filter_map(|(name, answer)| Some((label(name), entry(name, answer)?))).collect();
    assert!(entries.len() >= 20, "{entries:?}");
    let results = run(&entries);
    for (name, answer) in wanted {
        let results = &results[&label(name)];
        for Result { row, values } in results.values() {
            assert_eq!(row["vertices"], answer["vertices"].to_string(), "{name}");
            assert_eq!(row["edges"], answer["arcs"].to_string(), "{name}");
            assert_eq!(values.len() as u64, answer["vertices"].as_u64().unwrap(), "{name}");
        }
        let of = |kind: &str| &results[kind].values;
        let (ranks, gridgraph, sums) = (of("exact pagerank"), of("gridgraph pagerank"), of("exact spmv"));
        compare_summary(ranks, &answer["pagerank"], 1e-6, name);
        compare_summary(gridgraph, &answer["pagerank_gridgraph20"], 1e-5, name);
        let exact = if are_whole(sums.values()) { 0.0 } else { 1e-9 };
        compare_summary(sums, &answer["spmv_ones"], exact, name);
        let Some(vectors) =
            answer["vectors"].as_str().and_then(|path| vectors(path.trim_start_matches("vectors/")))
        else {
            continue;
        };
        let ids = &vectors["ids"];
        compare_vector(ranks, ids, &vectors["pagerank"], 1e-6, name);
        compare_vector(gridgraph, ids, &vectors["gridgraph20"], 1e-5, name);
        let exact = if are_whole(vectors["spmv"].iter()) { 0.0 } else { 1e-9 };
        compare_vector(sums, ids, &vectors["spmv"], exact, name);
    }
}

/// Graphs with independent answers whose vertices are numbers, as this version reads them.
fn published(answers: &Value) -> Vec<(&String, &Value)> {
    let folders = ["snap/", "konect/", "derived/gridgraph/", "derived/snap/"];
    let wanted = |(name, answer): &(&String, &Value)| {
        folders.iter().any(|folder| name.starts_with(folder)) && !answer["min_id"].is_null()
    };
    answers.as_object().unwrap().iter().filter(wanted).collect()
}

fn label(name: &str) -> String {
    name.replace('/', "-")
}

#[test]
fn every_published_graph_has_the_levels_and_components_of_the_answers() {
    let Some(answers) = answers() else { return };
    let wanted = published(&answers);
    let entries: Vec<(String, String)> =
        wanted.iter().filter_map(|(name, answer)| Some((label(name), entry(name, answer)?))).collect();
    let results = run_job(TRAVERSALS, &entries);
    for (name, answer) in wanted {
        let (levels, labels) = (&results[&label(name)][" bfs"], &results[&label(name)][" wcc"]);
        let expected = &answer["bfs"];
        let mut counts = BTreeMap::<u64, u64>::new();
        for level in levels.values.values().filter(|level| level.is_finite()) {
            *counts.entry(*level as u64).or_default() += 1;
        }
        let reached = counts.values().sum::<u64>();
        let said =
            format!("{reached} of {} vertices reached from {}, ", answer["vertices"], expected["root"]);
        assert!(levels.row["result"].starts_with(&said), "{name}: {said}: {}", levels.row["result"]);
        assert_eq!(reached, expected["reached"].as_u64().unwrap(), "{name}");
        assert_eq!(counts.keys().max(), expected["max_level"].as_u64().as_ref(), "{name}");
        let sum: u64 = counts.iter().map(|(level, count)| level * count).sum();
        assert_eq!(sum, expected["level_sum"].as_u64().unwrap(), "{name}");
        let first = expected["level_counts"].as_array().unwrap();
        assert!(
            first.iter().map(|count| count.as_u64().unwrap()).eq(counts.into_values().take(60)),
            "{name}"
        );
        let mut sizes = BTreeMap::<u64, u64>::new();
        labels.values.values().for_each(|label| *sizes.entry(*label as u64).or_default() += 1);
        let expected = &answer["wcc"];
        assert_eq!(sizes.len() as u64, expected["count"].as_u64().unwrap(), "{name}");
        assert_eq!(sizes.values().max(), expected["largest"].as_u64().as_ref(), "{name}");
        let smallest = labels.values.iter().all(|(&id, &label)| label <= id as f64);
        assert!(smallest && sizes.keys().all(|id| labels.values[id] as u64 == *id), "{name}");
        let vectors =
            answer["vectors"].as_str().and_then(|path| vectors(path.trim_start_matches("vectors/")));
        let Some(vectors) = vectors else { continue };
        let found = levels.values.values().map(|level| if level.is_finite() { *level } else { -1.0 });
        assert!(found.eq(vectors["bfs"].iter().copied()), "{name}");
    }
}

#[test]
fn every_published_graph_with_lengths_has_the_distances_of_the_answers() {
    let Some(answers) = answers() else { return };
    let mut wanted = published(&answers);
    wanted.retain(|(_, answer)| !answer["sssp"]["root"].is_null());
    let entries: Vec<(String, String)> =
        wanted.iter().filter_map(|(name, answer)| Some((label(name), entry(name, answer)?))).collect();
    assert!(entries.len() >= 2, "{entries:?}");
    let job = TRAVERSALS.replace("[algorithm.bfs]", "[algorithm.sssp]").replace("[algorithm.wcc]", "");
    let results = run_job(&job, &entries);
    for (name, answer) in wanted {
        let distances = &results[&label(name)][" sssp"].values;
        let expected = &answer["sssp"];
        let reached: Vec<f64> = distances.values().copied().filter(|distance| distance.is_finite()).collect();
        assert_eq!(reached.len() as u64, expected["reached"].as_u64().unwrap(), "{name}");
        close(reached.iter().copied().fold(0.0, f64::max), expected["max"].as_f64().unwrap(), 1e-12, name);
        close(reached.iter().sum(), expected["sum"].as_f64().unwrap(), 1e-12, name);
    }
}

#[test]
fn the_same_edges_in_several_files_have_one_result() {
    let (Some(plain), Some(gzip)) =
        (shared("data/snap/wiki-Vote.txt"), shared("data/derived/snap/wiki-Vote.two-members.txt.gz"))
    else {
        return;
    };
    let entry = |path| format!("path = {path:?}");
    let results = run(&[("plain".to_owned(), entry(plain)), ("gzip".to_owned(), entry(gzip))]);
    for kind in ["exact pagerank", "gridgraph pagerank", "exact spmv"] {
        for column in ["dataset_checksum", "result_checksum"] {
            assert_eq!(results["plain"][kind].row[column], results["gzip"][kind].row[column], "{kind}");
        }
    }
}

/// The options, the expected values and, where they are of one reading among several, its name.
struct Case {
    name: &'static str,
    file: &'static str,
    options: &'static str,
    reading: &'static [&'static str],
}

const fn case(
    name: &'static str,
    file: &'static str,
    options: &'static str,
    reading: &'static [&'static str],
) -> Case {
    Case { name, file, options, reading }
}

const CASES: &[Case] = &[
    case("01-dangling-mass", "edges.txt", "", &[]),
    case("02-isolated-last-vertex", "edges.txt", "vertices = 8", &[]),
    case("18-leading-zeros", "edges.txt", "", &["as_integer"]),
    case("19-ids-above-2-31-and-2-32", "edges.txt", "", &[]),
    case("21-gaps-in-ids", "edges.txt", "", &["compact"]),
    case("21-gaps-in-ids", "edges.txt", "vertices = 70001", &["idspace"]),
    case("22-duplicate-edges", "edges.txt", "", &["kept"]),
    case("24-gzip-truncated-and-members", "two-members.txt.gz", "", &["two_members"]),
    case("29-scientific-weights", "g.wel", "format = \"snap\"", &[]),
    case("30-empty-graph", "comments-only.txt", "", &[]),
    case("30-empty-graph", "zero-bytes.txt", "", &[]),
    case("43-star-hub", "star.txt.gz", "", &[]),
    case("45-blank-and-comment-lines-anywhere", "edges.txt", "", &[]),
];

#[test]
fn inputs_that_broke_other_systems_have_their_right_values() {
    if shared("cases").is_none() {
        return;
    }
    let label = |(at, case): (usize, &Case)| format!("c{at}-{}", case.name);
    let entries: Vec<(String, String)> = CASES
        .iter()
        .enumerate()
        .map(|(at, case)| {
            let path = shared(&format!("cases/{}/{}", case.name, case.file)).unwrap();
            (label((at, case)), format!("path = {path:?}\n{}", case.options))
        })
        .collect();
    let results = run(&entries);
    let mut compared = 0;
    for (at, case) in CASES.iter().enumerate() {
        let text =
            std::fs::read_to_string(shared(&format!("cases/{}/case.toml", case.name)).unwrap()).unwrap();
        let toml: toml::Value = toml::from_str(&text).unwrap();
        let expected = case.reading.iter().fold(&toml["expect"], |table, reading| &table[*reading]);
        let results = &results[&label((at, case))];
        let row = &results["exact pagerank"].row;
        for (key, column) in [("vertices", "vertices"), ("arcs", "edges"), ("rows", "vertices")] {
            if let Some(count) = expected.get(key) {
                assert_eq!(row[column], count.to_string(), "{} {key}", case.name);
                compared += 1;
            }
        }
        for (key, kind, relative) in [
            ("pagerank", "exact pagerank", 1e-9),
            ("pagerank_gridgraph20", "gridgraph pagerank", 1e-5),
            ("spmv_ones", "exact spmv", 1e-9),
        ] {
            let Some(vertices) = expected.get(key) else { continue };
            let Result { row, values } = &results[kind];
            // Terms of a sum are rounded to multiples of the quantum, so that sums are exact.
            let rounding = row["quantum"].parse::<f64>().unwrap() * row["edges"].parse::<f64>().unwrap();
            for (vertex, value) in vertices.as_table().unwrap() {
                let (found, expected) = (values[&vertex.parse().unwrap()], value.as_float().unwrap());
                let error = (found - expected).abs();
                let what = format!("{} {kind}: vertex {vertex}: {found:e}, expected {expected:e}", case.name);
                assert!(error <= relative * expected.abs() + rounding, "{what}");
                compared += 1;
            }
        }
        if let (Some(hub), Some(leaf)) = (expected.get("pagerank_hub"), expected.get("pagerank_leaf")) {
            let ranks: Vec<f64> = results["exact pagerank"].values.values().copied().collect();
            let (largest, least) = (
                ranks.iter().copied().fold(0.0, f64::max),
                ranks.iter().copied().fold(f64::INFINITY, f64::min),
            );
            close(largest, hub.as_float().unwrap(), 1e-9, case.name);
            close(least, leaf.as_float().unwrap(), 1e-9, case.name);
            compared += 2;
        }
    }
    assert!(compared > 50, "only {compared} values were compared");
}

#[test]
fn a_hub_sinks_and_missing_weights_have_their_right_levels_and_distances() {
    let (Some(star), Some(sinks), Some(plain)) = (
        shared("cases/43-star-hub/star.txt.gz"),
        shared("cases/25-sssp-sinks/g.wel"),
        shared("cases/27-sssp-without-weights/edges.txt"),
    ) else {
        return;
    };
    let project = Project::new();
    let of = |algorithm: &str, file: &std::path::Path, root: &str| {
        let file = file.to_str().unwrap();
        let options = ["--format", "snap", "--quiet", "-o", "values.csv", "--root", root];
        project.good(&[&["once", algorithm, file], &options[..]].concat());
        project.read("values.csv")
    };
    let star = values(&of("bfs", &star, "1"));
    let count = |level: u64| star.values().filter(|found| **found as u64 == level).count();
    assert_eq!([count(0), count(1), count(2)], [1, 1, 59_999]);
    assert_eq!(of("sssp", &sinks, "0"), "vertex,value\n0,0\n2,\n3,4\n5,0\n6,3\n");
    assert_eq!(of("bfs", &sinks, "3"), "vertex,value\n0,\n2,\n3,0\n5,\n6,\n");
    assert_eq!(of("sssp", &plain, "0"), "vertex,value\n0,0\n1,1\n2,1\n");
    assert!(project.rows("once-sssp-edges")[0]["result"].contains("every arc has the length 1"));
}

#[test]
fn once_ranks_a_snap_file_with_no_other_file_around() {
    let (Some(file), Some(vectors)) = (shared("data/snap/wiki-Vote.txt"), vectors("snap__wiki-Vote.txt.npz"))
    else {
        return;
    };
    let project = Project::new();
    let file = file.to_str().unwrap();
    project.good(&["once", "pagerank", file, "--tolerance", "1e-12", "-o", "ranks.csv"]);
    let ranks = values(&project.read("ranks.csv"));
    compare_vector(&ranks, &vectors["ids"], &vectors["pagerank"], 1e-6, "wiki-Vote");
}

#[test]
fn a_stray_first_line_is_refused_with_its_place_and_skipped_on_request() {
    let Some(file) = shared("data/snap/ca-GrQc.txt") else { return };
    let (project, file) = (Project::new(), file.display().to_string());
    let said = project.ioc(&["once", "pagerank", &file, "--quiet"]);
    assert_eq!(said.code, 3);
    let place = format!("{file}: line 1: expected an integer id");
    assert!(said.stderr.contains(&place) && said.stderr.contains("--skip-lines 1"), "{}", said.stderr);
    assert!(said.stdout.is_empty() && project.files("data").iter().all(|file| !file.contains("manifest")));
    project.good(&["once", "pagerank", &file, "--skip-lines", "1", "--quiet", "-o", "ranks.csv"]);
    assert_eq!(values(&project.read("ranks.csv")).len(), 5242);
}

#[test]
fn cases_that_must_be_refused_are_refused_by_what_they_must_say() {
    if shared("cases").is_none() {
        return;
    }
    let message = |file: &str, options: &[&str]| {
        let project = Project::new();
        let path = shared(&format!("cases/{file}")).unwrap().display().to_string();
        let said = project.ioc(&[&["once", "spmv", &path, "--quiet"], options].concat());
        assert_eq!((said.code, said.stdout.as_str()), (3, ""), "{}", said.stderr);
        said.stderr
    };
    let binary = ["--format", "gridgraph"];
    for (file, options, must_say) in [
        (
            "03-vertex-count-too-small/edges.bin",
            &["--vertices", "4"],
            "edge 2 (byte offset 16) has vertex 4, but the job says 4 vertices",
        ),
        ("04-text-given-as-binary/odd-size.txt", &binary, "size is no multiple of 8 bytes"),
        (
            "04-text-given-as-binary/even-size.txt",
            &binary,
            "the bytes are all printable text, so this is no binary edge list",
        ),
        (
            "24-gzip-truncated-and-members/truncated.txt.gz",
            &["--format", "snap"],
            "the compressed stream ends early (after ",
        ),
        ("28-nan-and-inf-weights/edges.csv", &["--skip-lines", "1"], "weight is not a finite number"),
    ] {
        let message = message(file, options);
        let name = file.split('/').next_back().unwrap();
        assert!(message.contains(must_say) && message.contains(name), "{message}");
    }
}
