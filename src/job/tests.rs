//! What loading does as a whole: expansion, precedence, paths.

use std::fs;
use std::path::{Path, PathBuf};

use super::options::{self, Kind};
use super::spec::{
    AlgorithmSpec, Auto, CacheSpec, DanglingSpec, EncodingSpec, EngineSpec, FormatSpec, InitSpec, IoSpec,
    KernelSpec, ModelSpec, OrderSpec, PrecisionSpec, RunSpec, SourceSpec, VerifySpec, VertexOrderSpec,
    WeightsSpec,
};
use super::{Batch, Faults, JobSource, LoadOptions, find_job_files, load_batch};

mod faults;

/// A job that is complete but for what a test adds.
const BASE: &str = "dataset = { generate = { kronecker = { scale = 10 } } }\n";

fn load(text: &str, sets: &[&str]) -> Result<Batch, Faults> {
    let source = JobSource::Text { name: "test".into(), text: text.into(), project: "/nowhere".into() };
    load_batch(&[source], &LoadOptions { sets: sets.iter().map(ToString::to_string).collect(), only: None })
}

fn loaded(text: &str, sets: &[&str]) -> Batch {
    load(text, sets).unwrap_or_else(|faults| panic!("{faults}"))
}

fn runs(text: &str, sets: &[&str]) -> Vec<RunSpec> {
    loaded(text, sets).jobs.remove(0).runs
}

fn engine(text: &str, sets: &[&str]) -> EngineSpec {
    runs(&format!("{BASE}[algorithm.scan]\n{text}"), sets).remove(0).engine
}

/// `variant algorithm iterations ssds block`, to compare orders.
fn line(run: &RunSpec) -> String {
    let algorithm = run.algorithm.name();
    let block = match run.engine.block_size {
        Auto::Auto => "auto".into(),
        Auto::Value(bytes) => crate::units::format_bytes(bytes),
    };
    format!(
        "{} {algorithm} {} {} {block}",
        run.variant,
        run.algorithm.iterations().unwrap_or(0),
        run.storage.ssds
    )
}

#[test]
fn the_quickstart_job_is_valid_without_any_other_file() {
    let runs = runs(include_str!("../../jobs/quickstart.toml"), &[]);
    let lines: Vec<String> = runs.iter().map(line).collect();
    assert_eq!(
        lines,
        ["sync pagerank 10 1 auto", "sync spmv 1 1 auto", "ioc pagerank 10 1 auto", "ioc spmv 1 1 auto"]
    );
    assert_eq!(runs[0].engine.memory, 64 << 20);
    assert_eq!((runs[0].engine.model, runs[0].engine.io), (ModelSpec::Sync, IoSpec::Psync));
    assert_eq!((runs[2].engine.model, runs[2].engine.io), (ModelSpec::Ioc, IoSpec::Libaio));
    assert_eq!((runs[0].measure.repeat, runs[0].measure.warmup), (2, 0));
    assert_eq!(runs[0].dataset.name, "kron-20w-ef32");
}

#[test]
fn the_table_of_options_and_the_types_behind_it_offer_the_same_names() {
    fn offered(path: &str) -> &'static [&'static str] {
        match options::find(path).map(|option| option.kind) {
            Some(Kind::Choice { names, .. }) => names,
            _ => panic!("{path} is a choice"),
        }
    }
    assert_eq!(offered("engine.model"), ModelSpec::ALL.map(ModelSpec::name));
    assert_eq!(offered("engine.io"), IoSpec::ALL.map(IoSpec::name));
    assert_eq!(offered("engine.cache"), CacheSpec::ALL.map(CacheSpec::name));
    assert_eq!(offered("engine.kernel"), KernelSpec::ALL.map(KernelSpec::name));
    assert_eq!(offered("grid.encoding"), EncodingSpec::ALL.map(EncodingSpec::name));
    assert_eq!(offered("grid.order"), VertexOrderSpec::ALL.map(VertexOrderSpec::name));
    assert_eq!(offered("measure.order"), OrderSpec::ALL.map(OrderSpec::name));
    assert_eq!(offered("measure.verify"), VerifySpec::ALL.map(VerifySpec::name));
    assert_eq!(offered("dataset.format"), FormatSpec::ALL.map(FormatSpec::name));
    assert_eq!(offered("dataset.weights"), WeightsSpec::ALL.map(WeightsSpec::name));
    assert_eq!(offered("algorithm.pagerank.precision"), PrecisionSpec::ALL.map(PrecisionSpec::name));
    assert_eq!(offered("algorithm.pagerank.dangling"), DanglingSpec::ALL.map(DanglingSpec::name));
    assert_eq!(offered("algorithm.pagerank.init"), InitSpec::ALL.map(InitSpec::name));
}

#[test]
fn every_entry_of_the_registry_of_this_project_is_valid_and_named_by_its_rule() {
    let registry = super::registry::Registry::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let names: Vec<&str> = registry.names().collect();
    assert_eq!(names, ["kron-16", "kron-20", "kron-21w", "kron-22", "kron-24", "kron-26"]);
    for name in names {
        let spec = registry.get(name).unwrap().unwrap_or_else(|faults| panic!("{faults}"));
        let SourceSpec::Kronecker(kronecker) = spec.source else { panic!("{name} is generated") };
        assert_eq!(name, format!("kron-{}{}", kronecker.scale, if kronecker.weights { "w" } else { "" }));
    }
}

#[test]
fn runs_are_variants_by_shared_axes_by_algorithms_by_their_own_axes() {
    let text = format!(
        r#"{BASE}
        [algorithm.pagerank]
        [algorithm.scan]
        [[variant]]
        name = "a"
        [[variant]]
        name = "b"
        [matrix]
        storage.ssds = [1, 2]
        "algorithm.pagerank.iterations" = [5, 6]
        engine.block_size = ["32 KiB", "1 MiB"]
        storage.stripe = ["1 MiB"]
        exclude = [{{ variant = "b", "storage.ssds" = 2 }}, {{ engine.block_size = 32768, algorithm = "scan" }}]
        "#
    );
    let lines: Vec<String> = runs(&text, &[]).iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "a pagerank 5 1 32 KiB",
            "a pagerank 6 1 32 KiB",
            "a pagerank 5 1 1 MiB",
            "a pagerank 6 1 1 MiB",
            "a scan 1 1 1 MiB",
            "a pagerank 5 2 32 KiB",
            "a pagerank 6 2 32 KiB",
            "a pagerank 5 2 1 MiB",
            "a pagerank 6 2 1 MiB",
            "a scan 1 2 1 MiB",
            "b pagerank 5 1 32 KiB",
            "b pagerank 6 1 32 KiB",
            "b pagerank 5 1 1 MiB",
            "b pagerank 6 1 1 MiB",
            "b scan 1 1 1 MiB",
        ]
    );
}

#[test]
fn an_axis_may_vary_tables_and_data_sets() {
    let text = r#"
        [algorithm.scan]
        [matrix]
        dataset = [{ path = "a/wiki Vote.txt.gz" }, { generate.kronecker = { scale = 9, seed = 7, edge_factor = 8 } }]
        engine = [{ model = "sync", io = "psync" }, { model = "ioc" }]
    "#;
    let runs = runs(text, &[]);
    let found: Vec<_> =
        runs.iter().map(|run| (run.dataset.name.as_str(), run.engine.model, run.engine.io)).collect();
    assert_eq!(
        found,
        [
            ("wiki-Vote", ModelSpec::Sync, IoSpec::Psync),
            ("wiki-Vote", ModelSpec::Ioc, IoSpec::Libaio),
            ("kron-9-ef8-seed7", ModelSpec::Sync, IoSpec::Psync),
            ("kron-9-ef8-seed7", ModelSpec::Ioc, IoSpec::Libaio),
        ]
    );
    let SourceSpec::File { path, .. } = &runs[0].dataset.source else { panic!("a file") };
    assert_eq!(path, Path::new("/nowhere/a/wiki Vote.txt.gz"));
}

#[test]
fn the_stronger_layer_wins_and_tables_merge() {
    let text = r#"
        [engine]
        io_depth = 1
        io_batch = 1
        compute_threads = 1
        buffer = "1 MiB"
        [[variant]]
        name = "v"
        engine = { io_batch = 2, compute_threads = 2, buffer = "2 MiB" }
        [matrix]
        "engine.compute_threads" = [3]
        "engine.buffer" = ["3 MiB"]
    "#;
    let engine = engine(text, &["engine.buffer=4 MiB", "engine.kernel=owned", "engine.kernel=atomic"]);
    assert_eq!(engine.io_depth, Auto::Value(1));
    assert_eq!(engine.io_batch, 2);
    assert_eq!(engine.compute_threads, Auto::Value(3));
    assert_eq!(engine.buffer, 4 << 20);
    assert_eq!(engine.kernel, super::spec::KernelSpec::Atomic);
    assert_eq!(engine.memory, 1 << 30);
}

#[test]
fn an_axis_that_set_decides_collapses_to_its_value() {
    let text = format!("{BASE}[algorithm.scan]\n[matrix]\n\"storage.ssds\" = [1, 2, 3]\n");
    assert_eq!(runs(&text, &[]).len(), 3);
    let one = runs(&text, &["storage.ssds=2"]);
    assert_eq!((one.len(), one[0].storage.ssds), (1, 2));
}

#[test]
fn iterations_default_to_500_with_a_tolerance_and_to_20_without() {
    let job = |tail: &str| {
        runs(&format!("{BASE}[algorithm.pagerank]\n{tail}"), &[])[0].algorithm.iterations().unwrap()
    };
    assert_eq!(job(""), 20);
    assert_eq!(job("tolerance = 1e-9"), 500);
    assert_eq!(job("tolerance = \"off\""), 20);
    assert_eq!(job("tolerance = 1e-9\niterations = 7"), 7);
}

#[test]
fn the_sync_model_has_no_io_threads() {
    assert_eq!(engine("[engine]\nmodel = \"sync\"\nio_threads = 3", &[]).io_threads, Auto::Auto);
    assert_eq!(engine("[engine]\nio_threads = 3", &[]).io_threads, Auto::Value(3));
}

#[test]
fn devices_beyond_ssds_are_left_out_and_without_devices_ssds_are_folders() {
    let storage =
        |tail: &str| runs(&format!("{BASE}[algorithm.scan]\n[storage]\n{tail}"), &[])[0].storage.clone();
    let both = storage("devices = [\"/a\", \"b\"]");
    assert_eq!((both.ssds, both.devices), (2, vec![PathBuf::from("/a"), PathBuf::from("/nowhere/b")]));
    assert_eq!(storage("devices = [\"/a\", \"b\"]\nssds = 1").devices, [PathBuf::from("/a")]);
    let folders = storage("ssds = 3");
    assert_eq!((folders.ssds, folders.devices.len()), (3, 0));
    assert_eq!(storage("").ssds, 1);
}

#[test]
fn a_timeout_is_never_shorter_than_asked_for() {
    let timeout = |text: &str| {
        let text = format!("{BASE}[algorithm.scan]\n[measure]\ntimeout = \"{text}\"");
        runs(&text, &[])[0].measure.timeout_ms
    };
    assert_eq!(timeout("10 min"), Some(600_000));
    assert_eq!(timeout("1200 ms"), Some(1200));
    assert_eq!(timeout("1 ms"), Some(1));
    assert_eq!(timeout("1500 µs"), Some(2));
    assert_eq!(timeout("off"), None);
}

/// A project with a registry of its own.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

const REGISTRY: &str = "[small]\ngenerate = { kronecker = { scale = 8 } }\n[votes]\npath = \"data/votes.txt\"\n\
                        skip_lines = 2\n[later]\nurl = \"https://example.org/x.gz\"\n";

fn load_files(paths: &[PathBuf], only: Option<&str>) -> Result<Batch, Faults> {
    let sources: Vec<JobSource> = find_job_files(paths)?.into_iter().map(JobSource::File).collect();
    load_batch(&sources, &LoadOptions { sets: Vec::new(), only: only.map(str::to_owned) })
}

#[test]
fn paths_start_at_the_project_and_reports_lie_as_jobs_do() {
    let folder = project(&[
        ("datasets.toml", REGISTRY),
        ("jobs/paper/fig1.a.toml", "dataset = \"votes\"\n[algorithm.spmv]\nx = \"x.csv\"\n"),
        ("jobs/b.toml", "dataset = \"small\"\n[algorithm.scan]\n"),
        ("jobs/.hidden/c.toml", "nonsense"),
        ("jobs/notes.txt", "nonsense"),
        ("d.toml", "name = \"other\"\ndataset = \"small\"\n[algorithm.scan]\n"),
    ]);
    let root = folder.path();
    let batch =
        load_files(&[root.join("jobs"), root.join("d.toml"), root.join("jobs/b.toml")], None).unwrap();
    let found: Vec<_> =
        batch.jobs.iter().map(|job| (job.name.as_str(), job.report.to_str().unwrap())).collect();
    assert_eq!(found, [("b", "b"), ("fig1.a", "paper/fig1.a"), ("other", "d")]);
    let run = &batch.jobs[1].runs[0];
    let SourceSpec::File { path, .. } = &run.dataset.source else { panic!("a file") };
    assert_eq!((path, run.dataset.skip_lines), (&root.join("data/votes.txt"), 2));
    let AlgorithmSpec::Spmv(spmv) = &run.algorithm else { panic!("spmv") };
    assert_eq!(spmv.x.as_ref(), Some(&root.join("x.csv")));
}

#[test]
fn no_two_reports_share_a_file_or_folder_and_no_data_set_is_named_as_a_file_of_ours() {
    let job = "dataset = \"small\"\n[algorithm.scan]\n";
    let message = |files: &[&str]| {
        let files: Vec<_> =
            files.iter().map(|file| (*file, job)).chain([("datasets.toml", REGISTRY)]).collect();
        let folder = project(&files);
        load_files(&[folder.path().join("jobs")], None).map(|_| ()).unwrap_err().to_string()
    };
    let text = message(&["jobs/a.toml", "jobs/a.csv.toml"]);
    assert!(text.contains("would have a folder a.csv"), "{text}");
    let text = message(&["jobs/a.csv/b.toml"]);
    assert!(text.contains("would have a folder a.csv"), "{text}");
    let text = message(&["jobs/a.toml", "jobs/a/plan.json.toml"]);
    assert!(text.contains("would have a folder plan.json"), "{text}");
    let text = message(&["jobs/a.toml", "jobs/a/old.toml"]);
    assert!(text.contains("jobs/a/old.toml would both write to a folder old"), "{text}");
    let folder =
        project(&[("jobs/old/a.toml", job), ("jobs/b/a.csv-1.toml", job), ("datasets.toml", REGISTRY)]);
    load_files(&[folder.path().join("jobs")], None).unwrap();
    let text = format!("{BASE}[algorithm.scan]\n");
    let faults = load(&text, &["dataset.name=digests.json"]).unwrap_err().to_string();
    assert!(faults.contains("\"digests.json\" cannot name a data set"), "{faults}");
    let named = runs("dataset = { path = \"digests.json.txt\" }\n[algorithm.scan]\n", &[]).remove(0);
    assert_eq!(named.dataset.name, "digests");
}

#[test]
fn a_changed_entry_is_not_called_by_the_entrys_name() {
    let folder = project(&[("datasets.toml", REGISTRY)]);
    let text = "dataset = \"small\"\n[algorithm.scan]\n";
    let name = |sets: &[&str]| {
        let source = JobSource::Text { name: "t".into(), text: text.into(), project: folder.path().into() };
        let sets = sets.iter().map(ToString::to_string).collect();
        let mut batch = load_batch(&[source], &LoadOptions { sets, only: None }).unwrap();
        batch.jobs.remove(0).runs.remove(0).dataset.name
    };
    assert_eq!(name(&[]), "small");
    assert_eq!(name(&["dataset.generate.kronecker.scale=9"]), "kron-9");
    assert_eq!(name(&["dataset.generate.kronecker.scale=9", "dataset.name=mine"]), "mine");
    assert_eq!(name(&["dataset=votes"]), "votes");
}

#[test]
fn only_selects_jobs_or_variants_and_says_when_it_selects_nothing() {
    let variants = "[[variant]]\nname = \"sync\"\n[[variant]]\nname = \"ioc\"\n";
    let folder = project(&[
        ("a.toml", &format!("{BASE}[algorithm.scan]\n{variants}")),
        ("b.toml", &format!("{BASE}[algorithm.scan]\n")),
    ]);
    let paths = [folder.path().to_owned()];
    let count = |only| load_files(&paths, Some(only)).unwrap().runs().count();
    assert_eq!((count("a"), count("b"), count("ioc"), count("c")), (2, 1, 1, 0));
    let batch = load_files(&paths, Some("iok")).unwrap();
    assert_eq!(batch.nothing_selected(), Some("no job or variant is called \"iok\"; did you mean `ioc`?"));
}

#[test]
fn what_the_machine_lacks_is_a_note_and_no_fault() {
    let folder = project(&[("real/x", "")]);
    let text = format!(
        "dataset = {{ path = \"missing.txt\" }}\n[algorithm.scan]\n[storage]\n\
         devices = [\"{0}/real\", \"{0}/real/../real\", \"{0}/gone\", \"{0}/real/x\"]\n",
        folder.path().display()
    );
    let missing = loaded(&text, &[]).missing();
    let root = folder.path().display().to_string();
    let messages: Vec<String> =
        missing.sorted().iter().map(|fault| fault.message().replace(&root, "ROOT")).collect();
    assert_eq!(
        messages,
        [
            "the data set's file /nowhere/missing.txt does not exist",
            "the device directories ROOT/real/../real and ROOT/real are the same",
            "the device directory ROOT/gone does not exist",
            "the device directory ROOT/real/x is not a directory",
        ]
    );
    assert!(missing.to_string().starts_with("note: "));
    assert!(missing.into_errors().to_string().starts_with("error: "));
}

#[test]
fn every_offered_name_of_every_option_makes_a_run() {
    for option in super::options::OPTIONS {
        let Kind::Choice { names, .. } = option.kind else { continue };
        for name in names {
            let job =
                "dataset = { path = \"x\" }\n[algorithm.pagerank]\n[external.NAME]\ncommand = [\"x\"]\n";
            let set = format!("{}={name}", option.path);
            assert_eq!(runs(job, &[&set]).len(), 2, "{set}");
        }
    }
}

#[test]
fn a_large_matrix_loads_and_its_fault_is_told_once() {
    let axis = |name: &str, n: usize| format!("\"{name}\" = {:?}\n", (1..=n).collect::<Vec<_>>());
    let text = format!(
        "{BASE}[algorithm.scan]\n[matrix]\n{}{}",
        axis("engine.io_depth", 100),
        axis("engine.io_batch", 100)
    );
    assert_eq!(runs(&text, &[]).len(), 10_000);
    let faults = load(&text, &["engine.buffer=2 GiB"]).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults}");
}

proptest::proptest! {
    #[test]
    fn no_damage_to_a_job_makes_loading_or_its_report_panic(
        start in 0_usize..2_000,
        length in 0_usize..40,
        insert in "[a-z\\[\\]{}\"'=.,#0-9 \n\u{e9}]{0,12}",
    ) {
        let text = include_str!("../../jobs/quickstart.toml").to_owned() + "[matrix]\nengine.io_depth = [1, 2]\n\
            \"storage.ssds\" = [1]\nexclude = [{ variant = \"ioc\", algorithm = \"spmv\" }]\n";
        let at = |index: usize| (0..=index.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        let (start, end) = (at(start), at(start + length));
        let damaged = format!("{}{insert}{}", &text[..start], &text[end..]);
        match load(&damaged, &[]) {
            Ok(batch) => assert!(batch.runs().count() > 0),
            Err(faults) => assert!(!faults.to_string().is_empty() && !faults.is_empty()),
        }
    }
}
