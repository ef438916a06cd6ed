//! Wrong command lines, job files and data sets: each ends with its exit code and one message that names the file,
//! the place, what was found, what was expected and what to do; nothing is half-done after it.

mod common;

use common::bad::{JOB, triangle as project};
use common::project::Project;
use flate2::Compression;
use flate2::write::GzEncoder;
use insta::assert_snapshot;
use std::io::Write as _;

/// The message of `ioc run` on the job with some lines added.
fn run_with(lines: &str) -> String {
    let project = project();
    project.write("jobs/job.toml", format!("{JOB}{lines}"));
    let message = project.refused(2, &["run", "jobs/job.toml"]);
    assert!(project.files("reports").is_empty() && !project.has_grid());
    message
}

/// The message of `ioc run --set` on the job.
fn run_set(set: &str) -> String {
    let project = project();
    let message = project.refused(2, &["run", "jobs/job.toml", "--set", set]);
    assert!(project.files("reports").is_empty() && !project.has_grid());
    message
}

/// The message of a run on one bad file, after which there is no grid, and no row that claims success.
fn once(code: i32, name: &str, content: impl AsRef<[u8]>, options: &[&str]) -> String {
    let project = Project::with(name, content);
    let message = project.refused(code, &[&["once", "spmv", name], options].concat());
    assert!(!project.has_grid() && !project.claims_success());
    message
}

fn pairs(pairs: &[(u32, u32)]) -> Vec<u8> {
    pairs.iter().flat_map(|(source, target)| [source.to_le_bytes(), target.to_le_bytes()].concat()).collect()
}

/// Stored, so that a byte of the file is a byte of the text.
fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_size_is_refused_with_the_same_words_wherever_it_is_given() {
    let project = project();
    let refused = |args: &[&str]| project.message(2, &project.ioc(args));
    project.write("e.txt", "1 2\n");
    for command in
        [["once", "scan", "e.txt"], ["build", "jobs/job.toml", "--quiet"], ["dataset", "import", "triangle"]]
    {
        for (size, why) in [
            ("3 bananas", "\"3 bananas\" is not a size: the unit `bananas` is unknown"),
            ("0", "a size must be above zero"),
            ("-1", "\"-1\" is not a size"),
            ("inf", "\"inf\" is not a size"),
            ("2 PiB", "a size must be at most 1 PiB"),
        ] {
            let message = refused(&[&command[..], &[&format!("--memory={size}")]].concat());
            let start = format!("error: invalid value '{size}' for '--memory <SIZE>': {why}");
            assert!(message.starts_with(&start), "{message}");
        }
    }
    assert!(
        refused(&["probe", "--size", "1 bit"])
            .starts_with("error: invalid value '1 bit' for '--size <SIZE>'")
    );
}

#[test]
fn wrong_command_lines() {
    let project = project();
    let refused = |args: &[&str]| project.refused(2, args);
    // Unknown command.
    assert_snapshot!(project.ioc(&["frobnicate"]).stderr.trim_end(), @r#"
    error: unrecognized subcommand 'frobnicate'

    Usage: ioc <COMMAND>

    For more information, try '--help'.
    "#);
    // Unknown option.
    assert_snapshot!(refused(&["run", "--bogus"]), @r#"
    error: unexpected argument '--bogus' found

      tip: to pass '--bogus' as a value, use '-- --bogus'

    Usage: ioc run [OPTIONS] [PATH]...

    For more information, try '--help'.
    "#);
    // Unknown algorithm.
    assert_snapshot!(refused(&["once", "pagernk", "triangle.txt"]), @r#"
    error: invalid value 'pagernk' for '<ALGORITHM>'
      [possible values: pagerank, spmv, bfs, sssp, wcc, scan]

      tip: a similar value exists: 'pagerank'

    For more information, try '--help'.
    "#);
    // A path that is not there.
    assert_snapshot!(refused(&["run", "jobs/jib.toml"]), @r#"
    error: cannot read the path: No such file or directory (os error 2)
      --> jobs/jib.toml
       = help: check the path

    1 fault
    "#);
    // A folder without job files.
    std::fs::create_dir(project.path("empty")).unwrap();
    assert_snapshot!(refused(&["run", "empty"]), @r#"
    error: the folder has no job files (*.toml)
      --> empty
       = help: check the path

    1 fault
    "#);
    // `--set` without a value.
    assert_snapshot!(refused(&["run", "jobs/job.toml", "--set", "engine.memory"]), @r#"
    error: `--set` has no `=`: found "engine.memory"
     --> --set:1:1
      |
    1 | engine.memory
      | ^^^^^^^^^^^^^
      = help: write --set KEY=VALUE, for example --set engine.io_depth=8

    1 fault
    "#);
    // `--set` of an unknown key.
    assert_snapshot!(refused(&["run", "jobs/job.toml", "--set", "engine.modl=sync"]), @r#"
    error: unknown key `modl` in [engine]
     --> --set:1:1
      |
    1 | engine.modl=sync
      | ^^^^^^^^^^^
      = help: did you mean `model`?

    1 fault
    "#);
    // `--only` of an unknown variant.
    assert_snapshot!(project.refused(4, &["run", "jobs/job.toml", "--only", "jbo"]), @r#"error: no job or variant is called "jbo"; did you mean `job`?"#);
    // `--index` without `--plan`.
    assert_snapshot!(refused(&["run", "--index", "1"]), @r#"
    error: the following required arguments were not provided:
      --plan <FILE>

    Usage: ioc run --index <N> --plan <FILE> --quiet [PATH]...

    For more information, try '--help'.
    "#);
    // A tolerance that is none.
    assert_snapshot!(refused(&["once", "pagerank", "triangle.txt", "--tolerance", "-1"]), @r#"
    error: invalid value '-1' for '--tolerance <X>': expected a finite number above 0, such as 1e-9

    For more information, try '--help'.
    "#);
    // No iterations.
    assert_snapshot!(refused(&["once", "pagerank", "triangle.txt", "--iterations", "0"]), @"
    error: invalid value '0' for '--iterations <N>': 0 is not in 1..=1000000000

    For more information, try '--help'.
    ");
    // Less memory than the buffer.
    assert_snapshot!(refused(&["once", "pagerank", "triangle.txt", "--memory", "32 MiB"]), @r#"
    error: --memory ("32 MiB") is all taken by `engine.buffer` ("64 MiB", the default)
     --> once-pagerank-triangle:7:10
      |
    7 | memory = "32 MiB"
      |          ^^^^^^^^
      = help: raise the memory or lower the buffer by --set engine.buffer=SIZE: vertex state needs room too

    1 fault
    "#);
    // A size without a known unit.
    assert_snapshot!(refused(&["build", "jobs/job.toml", "--memory", "3 bananas"]), @r#"
    error: invalid value '3 bananas' for '--memory <SIZE>': "3 bananas" is not a size: the unit `bananas` is unknown (known: B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB); write for example "64 MiB"

    For more information, try '--help'.
    "#);
    // More memory than any job may name.
    assert_snapshot!(refused(&["build", "jobs/job.toml", "--memory", "2 PiB"]), @r#"
    error: invalid value '2 PiB' for '--memory <SIZE>': a size must be at most 1 PiB, such as "64 MiB"

    For more information, try '--help'.
    "#);
    // The values of a scan.
    assert_snapshot!(refused(&["once", "scan", "triangle.txt", "-o", "values.csv"]), @"error: a scan has no values to write; leave -o away");
    // A data set that nobody knows.
    assert_snapshot!(refused(&["dataset", "info", "triangel"]), @"error: there is no data set `triangel`: datasets.toml has no such entry, and data holds no grid of it; did you mean `triangle`?");
    // A path in place of a data set's name.
    assert_snapshot!(refused(&["dataset", "import", "../triangle"]), @r#"
    error: unknown data set `../triangle`
     --> import:1:11
      |
    1 | dataset = "../triangle"
      |           ^^^^^^^^^^^^^
      = help: did you mean `triangle`?

    1 fault
    "#);
    // A data set that is not built.
    assert_snapshot!(project.refused(3, &["dataset", "verify", "triangle"]), @"error: no grid of the data set `triangle` is built in data; `ioc dataset import triangle` builds one");
    // A directory that is not there.
    assert_snapshot!(project.ioc(&["probe", "nowhere"]).stderr.trim_end(), @"error: nowhere: this is no directory; give one per device");
    assert!(project.files("reports").is_empty() && project.files("data").is_empty());
}

#[test]
fn wrong_values() {
    // Wrong type in an array of the matrix.
    assert_snapshot!(run_with("[matrix]\n\"storage.ssds\" = [1, \"two\", 3]\n"), @r#"
    error: `storage.ssds` must be an integer from 1 to 64, found the string "two"
      --> jobs/job.toml:10:22
       |
    10 | "storage.ssds" = [1, "two", 3]
       |                      ^^^^^

    1 fault
    "#);
    // Unknown data set.
    assert_snapshot!(run_set("dataset=triangel"), @r#"
    error: unknown data set `triangel`
     --> --set:1:9
      |
    1 | dataset=triangel
      |         ^^^^^^^^
      = help: did you mean `triangle`?

    1 fault
    "#);
    // Unknown value.
    assert_snapshot!(run_set("engine.io=libiao"), @r#"
    error: `engine.io` must be "libaio", "io_uring" or "psync", found the string "libiao"
     --> --set:1:11
      |
    1 | engine.io=libiao
      |           ^^^^^^
      = help: did you mean `libaio`?

    1 fault
    "#);
    // A block that cuts chunks.
    assert_snapshot!(run_set("engine.block_size=100 KiB"), @r#"
    error: `engine.block_size` must be a multiple of 32 KiB, the chunk of the grid's format, found 100 KiB
     --> --set:1:19
      |
    1 | engine.block_size=100 KiB
      |                   ^^^^^^^
      = help: the nearest: 96 KiB and 128 KiB

    1 fault
    "#);
    // A stripe that cuts chunks.
    assert_snapshot!(run_set("storage.stripe=100 kB"), @r#"
    error: `storage.stripe` must be a multiple of 32 KiB, the chunk of the grid's format, found 100 kB
     --> --set:1:16
      |
    1 | storage.stripe=100 kB
      |                ^^^^^^
      = help: the nearest: 96 KiB and 128 KiB

    1 fault
    "#);
    // A buffer for one block.
    assert_snapshot!(run_with("[engine]\nbuffer = \"64 KiB\"\nblock_size = \"64 KiB\"\n"), @r#"
    error: `engine.buffer` ("64 KiB") holds fewer than two blocks of 64 KiB
      --> jobs/job.toml:10:10
       |
    10 | buffer = "64 KiB"
       |          ^^^^^^^^
       = help: raise the buffer or lower `engine.block_size`: one block is filled while another is computed on

    1 fault
    "#);
    // A buffer as large as the memory.
    assert_snapshot!(run_with("[engine]\nmemory = \"32 MiB\"\n"), @r#"
    error: `engine.memory` ("32 MiB") is all taken by `engine.buffer` ("64 MiB", the default)
      --> jobs/job.toml:10:10
       |
    10 | memory = "32 MiB"
       |          ^^^^^^^^
       = help: raise the memory or lower the buffer: vertex state needs room too

    1 fault
    "#);
    // More devices than directories.
    assert_snapshot!(run_with("[storage]\ndevices = [\"a\"]\nssds = 2\n"), @r#"
    error: `storage.ssds` is 2, but `storage.devices` lists 1
      --> jobs/job.toml:11:8
       |
    11 | ssds = 2
       |        ^
       = help: use at most 1, or list more devices

    1 fault
    "#);
    // A device directory that vanished.
    assert_snapshot!(run_with("[storage]\ndevices = [\"gone/ssd0\"]\n"), @r#"
    error: the device directory [project]/gone/ssd0 does not exist
      --> jobs/job.toml:10:12
       |
    10 | devices = ["gone/ssd0"]
       |            ^^^^^^^^^^^
       = help: mount the device, or create the directory

    1 fault
    "#);
}

#[test]
fn wrong_structure() {
    // Not TOML.
    assert_snapshot!(run_with("[matrix\n"), @r#"
    error: this is not TOML: unclosed table, expected `]`
     --> jobs/job.toml:9:8
      |
    9 | [matrix
      |        ^

    1 fault
    "#);
    // Unknown key.
    assert_snapshot!(run_with("[engine]\nblok_size = \"64 KiB\"\n"), @r#"
    error: unknown key `blok_size` in [engine]
      --> jobs/job.toml:10:1
       |
    10 | blok_size = "64 KiB"
       | ^^^^^^^^^
       = help: did you mean `block_size`?

    1 fault
    "#);
    // A variant without a name.
    assert_snapshot!(run_with("[[variant]]\nengine = { model = \"sync\" }\n"), @r#"
    error: the variant has no `name`
     --> jobs/job.toml:9:1
      |
    9 | [[variant]]
      | ^^^^^^^^^^^
      = help: add for example name = "sync": reports tell variants apart by it

    1 fault
    "#);
    // A table without keys, with one.
    assert_snapshot!(run_with("[algorithm.wcc]\nroot = 1\n"), @r#"
    error: unknown key `root` in [algorithm.wcc]
      --> jobs/job.toml:10:1
       |
    10 | root = 1
       | ^^^^
       = help: `root` belongs in [algorithm.bfs]

    1 fault
    "#);
    // Several faults at once.
    assert_snapshot!(run_with("[engine]\nmodel = \"snyc\"\nio_depth = 0\n[output]\nvalues = true\n"), @r#"
    error: `engine.model` must be "ioc" or "sync", found the string "snyc"
      --> jobs/job.toml:10:9
       |
    10 | model = "snyc"
       |         ^^^^^^
       = help: did you mean `sync`?

    error: `engine.io_depth` must be "auto" or an integer from 1 to 4,096, found the integer 0
      --> jobs/job.toml:11:12
       |
    11 | io_depth = 0
       |            ^

    error: `output.values` must be "csv" or "off", found the boolean true
      --> jobs/job.toml:13:10
       |
    13 | values = true
       |          ^^^^

    3 faults
    "#);
}

#[test]
fn job_files_that_cannot_be_read() {
    let project = project();
    // Not UTF-8.
    project.write("jobs/job.toml", b"name = \"\xff\"\n");
    assert_snapshot!(project.refused(2, &["run", "jobs/job.toml"]), @r#"
    error: the file is not UTF-8 text: byte 8 begins no character
      --> jobs/job.toml
       = help: TOML files are UTF-8; save it again in that encoding

    1 fault
    "#);
    // Two jobs with one report.
    project.write("jobs/job.toml", JOB);
    project.write("other/job.toml", JOB);
    assert_snapshot!(project.refused(2, &["run", "jobs/job.toml", "other/job.toml"]), @r#"
    error: this job and jobs/job.toml would write the same report, job.csv
      --> other/job.toml
       = help: rename one of the files, or run them with different --out

    1 fault
    "#);
    // The data set's file is missing.
    std::fs::remove_file(project.path("triangle.txt")).unwrap();
    assert_snapshot!(project.refused(2, &["run", "jobs/job.toml"]), @r#"
    error: the data set's file [project]/triangle.txt does not exist
     --> datasets.toml:2:8
      |
    2 | path = "triangle.txt"
      |        ^^^^^^^^^^^^^^
      = help: fetch it, or correct the path

    1 fault
    "#);
}

#[test]
fn texts_that_are_no_edge_lists() {
    // No such file.
    assert_snapshot!(Project::new().refused(2, &["once", "spmv", "edges.txt"]), @"error: edges.txt does not exist; give the path of an edge list");
    // A header.
    assert_snapshot!(once(3, "e.txt", "from to\n1 2\n", &[]), @"error: once-spmv-e spmv: [project]/e.txt: line 1: expected an integer id, found 'from'; is this a header line? use --skip-lines 1");
    // One number.
    assert_snapshot!(once(3, "e.txt", "1 2\n3\n", &[]), @"error: once-spmv-e spmv: [project]/e.txt: line 2: expected the ids of source and target, found only '3'; separate them by a blank, a tab or a comma");
    // A negative id.
    assert_snapshot!(once(3, "e.txt", "1 2\n-2 3\n", &[]), @"error: once-spmv-e spmv: [project]/e.txt: line 2: expected an integer id, found '-2'; ids are whole numbers from 0 to 2^63-1");
    // An id above 2^63.
    assert_snapshot!(once(3, "e.txt", "1 2\n9223372036854775808 3\n", &[]), @"error: once-spmv-e spmv: [project]/e.txt: line 2: id 9223372036854775808 is too large; ids are whole numbers from 0 to 2^63-1");
    // A weight on some lines only.
    assert_snapshot!(once(3, "e.txt", "1 2 0.5\n2 3\n", &[]), @"error: once-spmv-e spmv: [project]/e.txt: line 2: found two columns, but the first edge (line 1) has a weight in a third; give every edge a weight, or ignore the column by --set dataset.weights=none");
    // NaN.
    assert_snapshot!(once(3, "e.txt", "1 2 0.5\n2 3 nan\n", &[]), @"error: once-spmv-e spmv: [project]/e.txt: line 2: weight is not a finite number: found 'nan'; correct it, or ignore all weights by --set dataset.weights=none");
    // An id out of range.
    assert_snapshot!(once(3, "e.txt", "1 2\n2 3\n3 4\n", &["--vertices", "4"]), @"error: once-spmv-e spmv: [project]/e.txt: edge on line 3 has vertex 4, but the command line says 4 vertices (ids 0..4); leave --vertices away to take the ids seen");
    // Nothing left.
    assert_snapshot!(once(3, "e.txt", "1 2\n", &["--skip-lines", "9"]), @"error: once-spmv-e spmv: [project]/e.txt has only 1 line, but --skip-lines is 9; lower it");
    // Other edges than promised.
    assert_snapshot!(once(3, "e.txt", "1 2\n2 3\n", &["--set", "dataset.edges=3"]), @"error: once-spmv-e spmv: [project]/e.txt has 2 edges, but the command line says edges = 3; correct the entry, or fetch the file again if it was cut short");
    // Another file than promised.
    let sha256 = format!("dataset.sha256={}", "0".repeat(64));
    assert_snapshot!(once(3, "e.txt", "1 2\n", &["--set", &sha256]), @"error: [project]/e.txt has the sha256 f251ddc12234e0da8d3b778bd0f7463fb477f16f47757f5617dc8b4ff4d4f14a, but the command line says 0000000000000000000000000000000000000000000000000000000000000000; fetch the file again, or correct `sha256` if the new content is meant");
    // Truncated gzip.
    let mut packed = gzip(&"17 4\n5 23\n".repeat(1000));
    packed.truncate(packed.len() - 9);
    assert_snapshot!(once(3, "e.txt.gz", &packed, &[]), @"error: once-spmv-e spmv: [project]/e.txt.gz: the compressed stream ends early (after 1999 lines); the file was cut short, fetch or copy it again");
    // Damaged gzip.
    let mut packed = gzip(&"17 4\n5 23\n".repeat(1000));
    let digit = packed.iter().rposition(|&byte| byte == b'7').unwrap();
    packed[digit] = b'8';
    assert_snapshot!(once(3, "e.txt.gz", &packed, &[]), @"error: once-spmv-e spmv: [project]/e.txt.gz: the compressed stream is damaged (after 2000 lines): corrupt gzip stream does not have a matching checksum; fetch or copy it again");
    // Another format.
    assert_snapshot!(once(3, "e.txt", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1\n", &[]), @r#"error: the format of [project]/e.txt is unclear: it looks like a Matrix Market file, which is no plain list of edges; give --format "snap" (text), "gridgraph" (u32 pairs) or "gridgraph-weighted" (u32 pairs with an f32 weight)"#);
    // Weights whose sums are no numbers.
    assert_snapshot!(Project::with("e.txt", "1 2 1e308\n3 2 1e308\n").refused(3, &["once", "spmv", "e.txt"]), @"error: once-spmv-e spmv: the sums of one vertex may reach inf, which leaves no room for exact addition in 64-bit floats; scale the weights or x");
    // A pipe.
    let project = Project::new();
    let script = "mkfifo e.txt && $IOC once spmv e.txt --quiet";
    assert_snapshot!(project.refused_in_shell(3, script), @"error: [project]/e.txt is a named pipe; a data set must be a regular file, because it is read more than once");
    // What the kernel makes up, and calls an empty file; some of it would be waited for for ever.
    for file in ["/proc/version", "/proc/kmsg"].into_iter().filter(|file| std::fs::File::open(file).is_ok()) {
        let found = "made up by the kernel as it is read; a data set must be a regular file, because it is read more than once";
        assert_eq!(project.refused(3, &["once", "spmv", file]), format!("error: {file} is {found}"));
    }
}

#[test]
fn binary_files_that_are_no_edge_lists() {
    let edges = pairs(&[(0, 1), (1, 2), (2, 4)]);
    // Text given as binary, of a size that does not fit.
    assert_snapshot!(once(3, "e.txt", "12 13\n14 15 16\n17", &["--format", "gridgraph"]), @r#"error: once-spmv-e spmv: [project]/e.txt: size is no multiple of 8 bytes: it has 17 bytes, and an edge of format "gridgraph" takes 8; the bytes are all printable text: use --format "snap""#);
    // The same of a size that fits.
    assert_snapshot!(once(3, "e.txt", "12 13\n14 15\n", &["--format", "gridgraph-weighted"]), @r#"error: once-spmv-e spmv: [project]/e.txt: the bytes are all printable text, so this is no binary edge list; use --format "snap""#);
    // Binary given as text.
    assert_snapshot!(once(3, "e.bin", &edges, &["--format", "snap"]), @r#"error: once-spmv-e spmv: [project]/e.bin: line 1: expected an integer id, found '\0\0\0\0\u{1}\0\0\0\u{1}\0\0\0\u{2}\0\0\0\u{2}\0\0\0\u{4}\0\0\0', which is no text; if the file is a binary edge list, use --format "gridgraph""#);
    // A name that says nothing.
    assert_snapshot!(once(3, "e.dat", &edges, &[]), @r#"error: the format of [project]/e.dat is unclear: the bytes are no text, and the name does not end in .bin or .wbin; give --format "snap" (text), "gridgraph" (u32 pairs) or "gridgraph-weighted" (u32 pairs with an f32 weight)"#);
    // Cut within an edge.
    assert_snapshot!(once(3, "e.bin", &edges[..21], &[]), @r#"error: once-spmv-e spmv: [project]/e.bin: size is no multiple of 8 bytes: it has 21 bytes, and an edge of format "gridgraph" takes 8; correct --format, or fetch the file again if it was cut short"#);
    // An id out of range.
    assert_snapshot!(once(3, "e.bin", &edges, &["--vertices", "4"]), @"error: once-spmv-e spmv: [project]/e.bin: edge 2 (byte offset 16) has vertex 4, but the job says 4 vertices (ids 0..4); leave --vertices away to take 0 up to the largest id");
    // Lines of a file that has none.
    assert_snapshot!(once(3, "e.bin", &edges, &["--skip-lines", "1"]), @"error: once-spmv-e spmv: [project]/e.bin is a binary edge list and has no lines; leave --skip-lines away");
    // A weight that is no number.
    let weighted = [&pairs(&[(0, 1)])[..], &f32::INFINITY.to_le_bytes()].concat();
    assert_snapshot!(once(3, "e.wbin", &weighted, &[]), @"error: once-spmv-e spmv: [project]/e.wbin: edge 0 (byte offset 0) has the weight inf, and a weight must be a finite number; correct it, or ignore all weights by --set dataset.weights=none");
}

#[test]
fn files_without_edges_are_graphs_without_vertices() {
    for content in ["", "# nothing\n% here\n\n"] {
        for algorithm in ["pagerank", "spmv"] {
            let project = Project::with("e.txt", content);
            let said = project.good(&["once", algorithm, "e.txt", "-o", "values.csv", "--quiet"]);
            assert_eq!(
                (said.stdout + &said.stderr, project.read("values.csv")),
                (String::new(), "vertex,value\n".into())
            );
            let rows = project.rows(&format!("once-{algorithm}-e"));
            assert_eq!((rows[0]["vertices"].as_str(), rows[0]["status"].as_str()), ("0", "ok"));
        }
    }
}

#[test]
fn bad_vectors() {
    let spmv_bytes = |x: &[u8]| {
        let project = Project::with("e.txt", "1 2\n2 3\n3 1\n");
        project.write("x.csv", x);
        let message = project.refused(3, &["once", "spmv", "e.txt", "--set", "algorithm.spmv.x=x.csv"]);
        assert!(!project.claims_success());
        message
    };
    let spmv = |x: &str| spmv_bytes(x.as_bytes());
    // A vertex is missing.
    assert_snapshot!(spmv("vertex,value\n1,0.5\n3,1\n"), @"error: once-spmv-e spmv: [project]/x.csv: vertex 2 has no value; every vertex needs one");
    // A vertex too many.
    assert_snapshot!(spmv("vertex,value\n1,0.5\n2,1\n3,1\n4,1\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 5: expected a vertex of the graph, found `4`");
    // A vertex twice.
    assert_snapshot!(spmv("vertex,value\n1,0.5\n2,1\n2,1\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 4: expected each vertex once, found `2`");
    // No number.
    assert_snapshot!(spmv("vertex,value\n1,0.5\n2,1\n3,much\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 4: expected a number, found `much`");
    // Not finite.
    assert_snapshot!(spmv("vertex,value\n1,0.5\n2,1\n3,inf\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 4: expected a finite number, found `inf`");
    // No header.
    assert_snapshot!(spmv("1,0.5\n2,1\n3,1\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 1: expected the header `vertex,value`, found `1,0.5`");
    // Nothing.
    assert_snapshot!(spmv(""), @"error: once-spmv-e spmv: [project]/x.csv: line 1: expected the header `vertex,value`, found ``");
    // The file is missing.
    let project = Project::with("e.txt", "1 2\n");
    // No text.
    assert_snapshot!(spmv_bytes(b"vertex,value\n1,0.5\n2,\xff\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 3: expected `vertex,value`, found bytes that are no UTF-8 text; is it the right file?");
    assert_snapshot!(spmv_bytes(b"\xff\xfe\0\0"), @"error: once-spmv-e spmv: [project]/x.csv: line 1: expected `vertex,value`, found bytes that are no UTF-8 text; is it the right file?");
    // Another number of cells.
    assert_snapshot!(spmv("vertex,value\n1,0.5\n2\n3,1\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 3: expected 2 cells, `vertex,value`, found 1; correct the line");
    assert_snapshot!(spmv("vertex,value\n1,0.5\n2,1,1\n3,1\n"), @"error: once-spmv-e spmv: [project]/x.csv: line 3: expected 2 cells, `vertex,value`, found 3; correct the line");
    let x = "algorithm.spmv.x=x.csv";
    assert_snapshot!(project.refused(2, &["once", "spmv", "e.txt", "--set", x]), @r#"
    error: the vector's file [project]/x.csv does not exist
     --> --set:1:18
      |
    1 | algorithm.spmv.x=x.csv
      |                  ^^^^^
      = help: create it, or correct the path

    1 fault
    "#);
}
