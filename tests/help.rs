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
    said.stdout.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

#[test]
fn of_the_program() {
    assert_snapshot!(help(&[]), @"
    Reproducible out-of-core graph experiments on one machine

    Usage: ioc <COMMAND>

    Commands:
      run      Run job files, or folders of them in sorted order; without PATH the quickstart job
      once     Run one algorithm on one file, without a job file
      check    Validate a whole batch and list its runs; runs nothing
      build    Import every layout that a batch needs, and prepare what its externals read
      dataset  List, import, verify, export and remove data sets and the grids built of them
      probe    Show what this machine offers, measure its devices, and recommend how to read from them
      help     Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    To begin: `ioc run` runs a small experiment of its own; `ioc once pagerank FILE -o ranks.csv` ranks
    a graph.
    Exit codes: 0 all well, 2 wrong usage or job file, 3 some run failed, 4 nothing selected, 130
    interrupted.
    ");
}

#[test]
fn of_run() {
    assert_snapshot!(help(&["run"]), @r#"
    Run job files, or folders of them in sorted order; without PATH the quickstart job

    Usage: ioc run [OPTIONS] [PATH]...

    Arguments:
      [PATH]...  Job files, or folders of them

    Options:
          --set <KEY=VALUE>  Override a key in every job: engine.memory="1 GiB" (repeatable)
          --only <NAME>      Only the job, variant or external of this name
          --out <DIR>        Where reports go [default: reports]
          --data <DIR>       Where grids are kept [env: IOC_DATA] [default: data]
          --quiet            Say nothing but errors
          --resume           Go on where an earlier run of the batch ended; without it earlier attempts
                             are moved to old/
          --fail-fast        Stop at the first failed run
          --no-scan          Do not scan a grid before it is measured; the columns of limits stay empty
          --plan <FILE>      One run of a frozen plan, as `run` writes it to OUT/JOB/plan.json
          --index <N>        Number of the run in the plan, from 0
      -h, --help             Print help
    "#);
}

#[test]
fn of_once() {
    assert_snapshot!(help(&["once"]), @r#"
    Run one algorithm on one file, without a job file

    Usage: ioc once [OPTIONS] <ALGORITHM> <FILE>

    Arguments:
      <ALGORITHM>
              What to compute

              Possible values:
              - pagerank: Rank of every vertex
              - spmv:     Sum over the arcs into every vertex of weight times 1
              - bfs:      Arcs from one vertex to every other
              - sssp:     Length of the shortest path from one vertex to every other
              - wcc:      Component of every vertex, directions ignored
              - scan:     Read and check only

      <FILE>
              The edge list: text of two ids and maybe a weight a line, plain or gzip, or GridGraph's
              binary

    Options:
      -o, --output <FILE>
              Write vertex,value lines to this file; `-` is standard output, and then nothing else is
              written there

          --job <FILE>
              Save the job file that the run stands for here, where nothing may be yet

          --memory <SIZE>
              Memory that the run may hold

              [default: "1 GiB"]

          --format <FORMAT>
              Format of the file

              [default: auto]
              [possible values: auto, snap, gridgraph, gridgraph-weighted]

          --root <ID>
              Vertex at which bfs and sssp begin [default: the one with the most out-arcs]

          --iterations <N>
              Iterations at most [default: 20 for pagerank, 500 with a tolerance; 1 for spmv and scan]

          --tolerance <X>
              Stop where the L1 residual of pagerank is at most this

          --skip-lines <N>
              Lines to leave out at the start of a text file

              [default: 0]

          --vertices <N>
              The vertices are 0..N [default: the ids seen in a text, 0 to the largest id of a binary
              list]

          --undirected
              Every line stands for both directions

          --set <KEY=VALUE>
              Override any other key: engine.model="sync" (repeatable)

          --out <DIR>
              Where the report goes

              [default: reports]

          --data <DIR>
              Where the grid is kept

              [env: IOC_DATA]
              [default: data]

          --quiet
              Say nothing but errors

      -h, --help
              Print help (see a summary with '-h')
    "#);
}

#[test]
fn of_check() {
    assert_snapshot!(help(&["check"]), @r#"
    Validate a whole batch and list its runs; runs nothing

    Usage: ioc check [OPTIONS] [PATH]...

    Arguments:
      [PATH]...  Job files, or folders of them

    Options:
          --set <KEY=VALUE>  Override a key in every job: engine.memory="1 GiB" (repeatable)
          --only <NAME>      Only the job, variant or external of this name
          --out <DIR>        Where reports go [default: reports]
          --data <DIR>       Where grids are kept [env: IOC_DATA] [default: data]
          --quiet            Say nothing but errors
      -h, --help             Print help
    "#);
}

#[test]
fn of_build() {
    assert_snapshot!(help(&["build"]), @r#"
    Import every layout that a batch needs, and prepare what its externals read

    Usage: ioc build [OPTIONS] [PATH]...

    Arguments:
      [PATH]...  Job files, or folders of them

    Options:
          --set <KEY=VALUE>  Override a key in every job: engine.memory="1 GiB" (repeatable)
          --only <NAME>      Only the job, variant or external of this name
          --out <DIR>        Where reports go [default: reports]
          --data <DIR>       Where grids are kept [env: IOC_DATA] [default: data]
          --quiet            Say nothing but errors
          --memory <SIZE>    Memory that an import may hold, instead of each run's engine.memory
      -h, --help             Print help
    "#);
}

#[test]
fn of_dataset() {
    assert_snapshot!(help(&["dataset"]), @"
    List, import, verify, export and remove data sets and the grids built of them

    Usage: ioc dataset [OPTIONS] <COMMAND>

    Commands:
      list    The data sets of the registry, and the grids built of them
      info    What a data set is, and what its grids are
      import  Build a grid of a data set with the default layout
      verify  Read every byte of a data set's grids and exports and check it
      export  Write a data set's edges to a file that another program reads, ids being ranks of the
              original ones
      rm      Remove a data set's grids, and what was made of it for other programs
      gc      Remove what interrupted imports left behind, and what is left on devices of grids that are
              gone
      help    Print this message or the help of the given subcommand(s)

    Options:
          --data <DIR>  Where grids are kept [env: IOC_DATA] [default: data]
          --quiet       Say nothing but errors
      -h, --help        Print help
    ");
    assert_snapshot!(help(&["dataset", "import"]), @r#"
    Build a grid of a data set with the default layout

    Usage: ioc dataset import [OPTIONS] <NAME>

    Arguments:
      <NAME>  Name of the data set

    Options:
          --memory <SIZE>  Memory that the import may hold [default: "1 GiB"]
          --data <DIR>     Where grids are kept [env: IOC_DATA] [default: data]
          --quiet          Say nothing but errors
      -h, --help           Print help
    "#);
    assert_snapshot!(help(&["dataset", "export"]), @r#"
    Write a data set's edges to a file that another program reads, ids being ranks of the original ones

    Usage: ioc dataset export [OPTIONS] --format <FORMAT> --output <FILE> <NAME>

    Arguments:
      <NAME>  Name of the data set

    Options:
          --format <FORMAT>  gridgraph: u32 pairs in the order of the source, with an f32 where there
                             are weights; gapbs: a serialized graph (.sg, or .wsg with weights), rows
                             sorted [possible values: gridgraph, gapbs]
      -o, --output <FILE>    The file, replaced where it is there
          --memory <SIZE>    Memory that the export may hold [default: "1 GiB"]
          --data <DIR>       Where grids are kept [env: IOC_DATA] [default: data]
          --quiet            Say nothing but errors
      -h, --help             Print help
    "#);
}

#[test]
fn of_probe() {
    assert_snapshot!(help(&["probe"]), @r#"
    Show what this machine offers, measure its devices, and recommend how to read from them

    Usage: ioc probe [OPTIONS] [DIR]...

    Arguments:
      [DIR]...  Directories, one per device; without any, the current one

    Options:
          --size <SIZE>  Bytes of the file that is written to each directory, and read [default: "256
                         MiB"]
          --quick        Fewer block sizes and depths, each measured once
          --io <ENGINE>  Only by this engine (repeatable); by each where none is named [possible values:
                         libaio, io_uring, psync]
          --data <DIR>   Where the result is kept for what is "auto" in the engine table [env:
                         IOC_DATA=] [default: data]
          --quiet        Say nothing but results and errors
      -h, --help         Print help
    "#);
}

#[test]
fn every_command_has_a_line_of_help() {
    let text = help(&[]);
    for command in ["run", "once", "check", "build", "dataset", "probe"] {
        let line = text.lines().find(|line| line.trim_start().starts_with(command)).unwrap();
        assert!(line.trim().len() > command.len() + 10, "{line}");
    }
}
