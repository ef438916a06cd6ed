//! Snapshots of what users see when a job is wrong. Each text is the whole report of one faulty job.

use super::*;

/// The reports of some faulty jobs, each under its name.
fn reports(cases: &[(&str, &str)]) -> String {
    let report = |(name, text): &(&str, &str)| format!("### {name}\n{}\n", load(text, &[]).unwrap_err());
    cases.iter().map(report).collect::<Vec<_>>().join("\n")
}

/// The reports of a valid job with faulty arguments of `--set`.
fn set_reports(cases: &[&[&str]]) -> String {
    let text = format!("{BASE}[algorithm.scan]\n");
    let report =
        |sets: &&[&str]| format!("### {}\n{}\n", sets.join(" --set "), load(&text, sets).unwrap_err());
    cases.iter().map(report).collect::<Vec<_>>().join("\n")
}

/// A job that is complete up to the tail.
macro_rules! scan {
    ($tail:literal) => {
        concat!("dataset = { generate = { kronecker = { scale = 10 } } }\n[algorithm.scan]\n", $tail)
    };
}

#[test]
fn syntax() {
    let text = reports(&[
        ("empty", ""),
        ("value without quotes", scan!("[engine]\nmemory = 12 KiB\nbuffer = 1 MiB\n")),
        ("unclosed array", "a = [1,\n"),
        ("missing value", "a =\n"),
        ("key twice", scan!("[engine]\nmodel = \"ioc\"\nmodel = \"sync\"\n")),
        (
            "key twice, once dotted in quotes",
            scan!("[[variant]]\nname = \"a\"\n\"engine.io_batch\" = 1\nengine = { io_batch = 2 }\n"),
        ),
        ("huge numbers", scan!("[measure]\nrepeat = 99999999999999999999\nwarmup = 1e999\n")),
        ("control characters", "a = \"\u{1b}[31m\"\n"),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn unknown_keys() {
    let text = reports(&[
        (
            "at every level, all at once",
            "dataset = \"x\"\nnmae = \"y\"\n[algorithm.pagerank]\niteratons = 20\n[engin]\nmodel = \"ioc\"\n\
             [storage]\nssd = 2\nexcuse = true\n[matrix]\nengine.iodepth = [1]\n\"engine.depht\" = [1]\n\
             [[variant]]\nname = \"v\"\nengine = { modle = \"sync\" }\n",
        ),
        ("misspelt algorithm", "dataset = { path = \"x\" }\n[algorithm.pagerankk]\niterations = 3\n"),
        ("misplaced", scan!("block_size = \"1 MiB\"\n[engine]\nstripe = \"1 MiB\"\n")),
        ("no table", scan!("[a.b.c]\nd = 1\n")),
        ("no name", scan!("[\"\"]\nd = 1\n")),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn wrong_types_and_names() {
    let text = reports(&[
        (
            "types",
            "name = 3\ndescription = [1]\ndataset = 4\nalgorithm.scan = 20\nstorage = \"x\"\n[engine]\n\
             model = true\nio_depth = \"8\"\nio_batch = 2.5\nmemory = 1.5\ncompute_threads = 2024-01-01\n\
             [measure]\ntimeout = 10\nverify = {}\n",
        ),
        (
            "enumerations",
            scan!("[engine]\nmodel = \"snyc\"\nio = \"aio\"\nkernel = \"\"\nio_depth = \"atuo\"\n"),
        ),
        (
            "units",
            scan!(
                "[engine]\nmemory = \"1 gib\"\nbuffer = \"0.3 KiB\"\n[storage]\nrated = \"450 MB\"\nemulate = \"fast\"\n[measure]\ntimeout = \"soon\"\n"
            ),
        ),
        ("paths", scan!("[storage]\ndevices = \"/mnt/ssd0\"\n[algorithm.spmv]\nx = 2\n")),
        ("paths in an array", scan!("[storage]\ndevices = [\"/mnt/ssd0\", 3]\n")),
        ("empty path", scan!("[storage]\ndevices = [\"\"]\n")),
        ("bad name", "name = \"../x\"\ndataset = \"x\"\n[algorithm.scan]\n"),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn what_this_version_does_not_offer() {
    let text = reports(&[
        ("values", scan!("[measure]\nllc = \"perf\"\ntrace = true\n[output]\nvalues = \"parquet\"\n")),
        (
            "algorithms",
            "dataset = { path = \"x\" }\n[algorithm.bfs]\nroot = -1\n[algorithm]\nwcc = true\nsssp = 1\n",
        ),
        ("tables", scan!("[forkjoin.fib]\nn = 40\n[cluster]\n")),
        ("data set", "dataset = { url = \"https://example.org/x\" }\n[algorithm.scan]\n"),
        ("generator", "dataset = { generate = { erdos = { n = 3 } } }\n[algorithm.scan]\n"),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn ranges() {
    let text = reports(&[
        (
            "pagerank",
            "dataset = { path = \"x\" }\n[algorithm.pagerank]\niterations = 0\ndamping = 1.0\ntolerance = 0\n",
        ),
        ("not numbers", "dataset = { path = \"x\" }\n[algorithm.pagerank]\ndamping = nan\ntolerance = inf\n"),
        (
            "engine",
            scan!(
                "[engine]\nio_depth = 4097\nio_batch = 0\ncompute_threads = 1025\nio_threads = 0\nblock_size = \"100 KB\"\nbuffer = 0\nmemory = -1\n"
            ),
        ),
        (
            "storage",
            scan!(
                "[storage]\nssds = 65\nstripe = \"1 KiB\"\nemulate = \"0 MB/s\"\n[grid]\ncolumns = 0\n[measure]\nrepeat = 0\nwarmup = -1\ntimeout = \"0 s\"\n"
            ),
        ),
        (
            "data set",
            "dataset = { generate = { kronecker = { scale = 41, edge_factor = 0, seed = -1 } }, vertices = 0 }\n[algorithm.scan]\n",
        ),
        ("digest", "dataset = { path = \"x\", sha256 = \"abc\" }\n[algorithm.scan]\n"),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn values_that_do_not_go_together() {
    let text = reports(&[
        ("memory below the default buffer", scan!("[engine]\nmemory = \"32 MiB\"\n")),
        ("buffer above the default memory", scan!("[engine]\nbuffer = \"2 GiB\"\n")),
        ("buffer of one block", scan!("[engine]\nblock_size = \"24 MiB\"\nbuffer = \"40 MiB\"\n")),
        ("buffer of one chunk", scan!("[engine]\nbuffer = \"32 KiB\"\n")),
        (
            "only at one variant of a matrix",
            scan!(
                "[engine]\nbuffer = \"8 MiB\"\n[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\n\
                   engine = { block_size = \"8 MiB\" }\n[matrix]\n\"engine.io_depth\" = [1, 2, 3]\n"
            ),
        ),
        (
            "more ssds than devices",
            scan!("[storage]\ndevices = [\"/a\", \"/b\"]\n[matrix]\nstorage.ssds = [1, 2, 3]\n"),
        ),
        ("a device twice", scan!("[storage]\ndevices = [\"/a\", \"/b\", \"/a/\"]\n")),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn missing_parts() {
    let text = reports(&[
        ("no data set", "[algorithm.scan]\n"),
        ("no algorithm", "dataset = { path = \"x\" }\n"),
        ("no source", "dataset = { vertices = 5 }\n[algorithm.scan]\n"),
        ("no scale", "dataset = { generate = { kronecker = { seed = 5 } } }\n[algorithm.scan]\n"),
        ("two sources", "[dataset]\npath = \"x\"\ngenerate.kronecker.scale = 5\n[algorithm.scan]\n"),
        (
            "keys of files",
            "[dataset]\ngenerate.kronecker.scale = 5\nskip_lines = 1\nformat = \"snap\"\n[algorithm.scan]\n",
        ),
        (
            "lines of a binary file",
            "dataset = { path = \"x\", format = \"gridgraph\", skip_lines = 1 }\n[algorithm.scan]\n",
        ),
        ("no registry", "dataset = \"kron-20\"\n[algorithm.scan]\n"),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn what_the_job_alone_shows_to_be_impossible() {
    let kronecker = |more: &str| format!("[dataset]\ngenerate.kronecker.scale = 10\n{more}\n");
    let long = "n".repeat(254);
    let devices: Vec<String> = (0..65).map(|device| format!("\"/d{device}\"")).collect();
    let devices = kronecker(&format!("[algorithm.scan]\n[storage]\ndevices = [{}]", devices.join(", ")));
    let text = reports(&[
        ("more vertices than edges can name", "[dataset]\ngenerate.kronecker.scale = 40\n[algorithm.scan]\n"),
        ("more vertices given", "dataset = { path = \"x\", vertices = 4294967297 }\n[algorithm.scan]\n"),
        ("fewer vertices than are made", &kronecker("vertices = 1000\n[algorithm.scan]")),
        ("other edges than are made", &kronecker("edges = 16385\n[algorithm.scan]")),
        ("too few for both directions", &kronecker("directed = false\nedges = 16383\n[algorithm.scan]")),
        ("too many for both directions", &kronecker("directed = false\nedges = 32769\n[algorithm.scan]")),
        ("a name that is too long", &kronecker(&format!("name = \"{long}\"\n[algorithm.scan]"))),
        ("more devices than a grid has", &devices),
        ("a root that is no vertex", &kronecker("[algorithm.bfs]\nroot = 1024")),
        (
            "a root beyond those given",
            "dataset = { path = \"x\", vertices = 7 }\n[algorithm.sssp]\nroot = 7\n",
        ),
        (
            "more requests than a ring has room for",
            scan!("[storage]\nssds = 9\n[engine]\nio = \"io_uring\"\nio_depth = 4096\n"),
        ),
        (
            "a window that the code cannot name",
            scan!("[grid]\nencoding = \"compact\"\nsource_window = 65537\n"),
        ),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn a_report_of_very_many_faults_is_short_and_soon_there() {
    let values = vec!["0"; 50_000].join(", ");
    let job = format!("{}[matrix]\n\"engine.io_batch\" = [{values}]\n", scan!(""));
    let started = std::time::Instant::now();
    let text = load(&job, &[]).unwrap_err().to_string();
    assert!(text.ends_with("\n\nthe first 100 are shown, of 50000 faults"), "{}", &text[text.len() - 100..]);
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn what_is_possible_just_so_is_no_fault() {
    for job in [
        "[dataset]\ngenerate.kronecker.scale = 32\nvertices = 4294967296\nedges = 68719476736\n[algorithm.scan]\n",
        "[dataset]\ngenerate.kronecker.scale = 10\ndirected = false\nedges = 32768\n[algorithm.bfs]\nroot = 1023\n",
        "[dataset]\ngenerate.kronecker.scale = 10\ndirected = false\nedges = 16384\n[algorithm.scan]\n",
        scan!("[storage]\nssds = 8\n[engine]\nio = \"io_uring\"\nio_depth = 4096\n"),
        scan!("[storage]\nssds = 9\n[engine]\nio = \"io_uring\"\nio_depth = 4096\nio_threads = 2\n"),
        scan!("[storage]\nssds = 9\n[engine]\nio = \"libaio\"\nio_depth = 4096\n"),
        scan!("[grid]\nencoding = \"compact\"\nsource_window = 65536\n"),
    ] {
        assert!(load(job, &[]).is_ok(), "{job}");
    }
}

#[test]
fn variants() {
    let text = reports(&[
        ("no name", scan!("[[variant]]\nengine.model = \"sync\"\n")),
        ("bad name", scan!("[[variant]]\nname = \"a b\"\n")),
        ("same name", scan!("[[variant]]\nname = \"a\"\n[[variant]]\nname = \"a\"\n")),
        ("a table", scan!("[variant]\nname = \"a\"\n")),
        ("no tables", scan!("[matrix]\nvariant = [\"a\"]\n")),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn matrices() {
    let text = reports(&[
        ("no array", scan!("[matrix]\n\"storage.ssds\" = 3\nengine = { model = \"sync\" }\n")),
        ("no table", "matrix = 3\ndataset = { path = \"x\" }\n[algorithm.scan]\n"),
        ("empty axis", scan!("[matrix]\n\"storage.ssds\" = []\n")),
        ("same value twice", scan!("[matrix]\n\"engine.block_size\" = [\"1 MiB\", \"1024 KiB\", 32768]\n")),
        ("wrong type of one value", scan!("[matrix]\n\"storage.ssds\" = [1, \"2\", 3]\n")),
        ("one array of paths", scan!("[matrix]\n\"storage.devices\" = [\"/a\", \"/b\"]\n")),
        (
            "an option twice",
            scan!("[matrix]\nengine = [{ io_depth = 1 }, { io_depth = 2 }]\n\"engine.io_depth\" = [3]\n"),
        ),
        ("algorithms", scan!("[matrix]\nalgorithm = [\"scan\", \"spmv\"]\n")),
        ("an axis of no algorithm", scan!("[matrix]\n\"algorithm.pagerank.iterations\" = [1, 2]\n")),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn exclusions() {
    let text = reports(&[
        ("no tables", scan!("[matrix]\nexclude = [1]\n")),
        (
            "unknown names",
            scan!(
                "[[variant]]\nname = \"sync\"\n[matrix]\nexclude = [{ variant = \"snyc\" }, { algorithm = \"page\" }, { ssds = 3 }]\n"
            ),
        ),
        (
            "wrong type",
            scan!("[matrix]\n\"storage.ssds\" = [1, 2]\nexclude = [{ \"storage.ssds\" = \"2\" }]\n"),
        ),
        ("empty", scan!("[matrix]\nexclude = [{}]\n")),
        ("all", scan!("[matrix]\n\"storage.ssds\" = [1, 2]\nexclude = [{ algorithm = \"scan\" }]\n")),
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn too_many_runs() {
    let axis = |name: &str, n: usize| format!("\"{name}\" = {:?}\n", (1..=n).collect::<Vec<_>>());
    let text = format!(
        "{BASE}[algorithm.scan]\n[matrix]\n{}{}{}",
        axis("engine.io_depth", 50),
        axis("engine.io_batch", 50),
        axis("grid.columns", 50)
    );
    let last = text.replace("columns\" = [1, ", "columns\" = [0, ");
    let text = reports(&[("125,000 runs", &text), ("a fault far to the right", &last.replace("50]", "0]"))]);
    insta::assert_snapshot!(text);
}

#[test]
fn arguments_of_set() {
    let text = set_reports(&[
        &["engine.cach=off"],
        &["engine.cache=auto", "engine.io_depth = 0"],
        &["engine.memory=1 gib"],
        &["engine"],
        &["=3"],
        &["engine=3"],
        &["matrix.storage.ssds=[1]"],
        &["algorithm.pagerank.iterations=3"],
        &["storage.ssds=[1, 2]"],
        &["engine.io_depth="],
        &["dataset=5"],
    ]);
    insta::assert_snapshot!(text);
}

#[test]
fn registries_and_files() {
    let folder = project(&[
        (
            "datasets.toml",
            "[kron-20]\ngenerate.kronecker = { scale = 20, sead = 1 }\n[votes]\npath = 3\nfromat = \"snap\"\n[ok]\npath = \"ok\"\n[\"a b\"]\npath = \"x\"\n",
        ),
        ("jobs/a.toml", "dataset = \"kron-21\"\n[algorithm.scan]\n"),
        ("jobs/b.toml", "dataset = \"kron-20\"\n[algorithm.scan]\n[matrix]\nengine.io_depth = [1, 2]\n"),
        (
            "jobs/c.toml",
            "[matrix]\ndataset = [\"votes\", \"ok\", \"nothing like it\", \"a b\"]\n[algorithm.scan]\n",
        ),
        ("jobs/a b.toml", "dataset = \"ok\"\n[algorithm.scan]\n"),
        ("other/jobs/b.toml", "dataset = \"ok\"\n[algorithm.scan]\n"),
        ("empty/x.txt", ""),
    ]);
    let root = folder.path();
    fs::write(root.join("jobs/latin.toml"), b"description = \"caf\xe9\"\n").unwrap();
    let all = load_files(&[root.join("jobs"), root.join("other")], None).unwrap_err();
    let none = find_job_files(&[root.join("empty"), root.join("missing")]).unwrap_err();
    let device = load_batch(&[JobSource::File("/dev/zero".into())], &LoadOptions::default()).unwrap_err();
    let text = format!("{all}\n\n###\n{none}\n\n###\n{device}\n").replace(root.to_str().unwrap(), "ROOT");
    insta::assert_snapshot!(text);
}

#[test]
fn an_exclusion_without_effect_is_noted() {
    let text = scan!("[matrix]\n\"storage.ssds\" = [1, 2]\nexclude = [{ \"storage.ssds\" = 3 }]\n");
    let text = loaded(text, &[]).notes().to_string();
    insta::assert_snapshot!(text);
}
