use super::super::{AttemptId, Seconds};
use super::*;

fn row(run_id: &str, variant: &str, rep: u32, runtime: f64) -> Row {
    Row {
        status: Status::Ok,
        variant: Some(variant.to_owned()),
        dataset: Some("kron-22".to_owned()),
        algorithm: Some("pagerank".to_owned()),
        algorithm_params: Some("iterations=20 damping=0.85".to_owned()),
        model: Some(variant.to_owned()),
        io: Some(if variant == "ioc" { "libaio" } else { "psync" }.to_owned()),
        kernel: Some("owned".to_owned()),
        encoding: Some("raw".to_owned()),
        ssds: Some(1),
        block_b: Some(if variant == "ioc" { 128 << 10 } else { 24 << 20 }),
        io_threads: (variant == "ioc").then_some(1),
        compute_threads: Some(2),
        buffer_b: Some(64 << 20),
        memory_b: Some(1 << 30),
        runtime_s: Some(Seconds(runtime)),
        edges_per_s: Some(20.0 * 67e6 / runtime),
        read_mb_per_s: Some(10_737.0 / runtime),
        io_s: Some(Seconds(runtime * 0.97)),
        compute_s: Some(Seconds(3.0)),
        max_rss_b: Some(253 << 20),
        verified: Some(true),
        result: Some("best vertex 1042 (0.000731)".to_owned()),
        ..Row::new(&AttemptId::new(run_id, Phase::Measured, rep, 1), "overlap")
    }
}

fn failed(run_id: &str, rep: u32, error: &str) -> Row {
    Row {
        variant: Some("sync".to_owned()),
        algorithm: Some("pagerank".to_owned()),
        model: Some("sync".to_owned()),
        io: Some("psync".to_owned()),
        error: Some(error.to_owned()),
        ..Row::new(&AttemptId::new(run_id, Phase::Measured, rep, 1), "overlap")
    }
}

fn widest(text: &str) -> usize {
    text.lines().map(width_of).max().unwrap_or(0)
}

#[test]
fn what_all_runs_share_is_said_once_and_the_rest_by_line() {
    let mut rows: Vec<Row> = (1..=3).map(|rep| row("rb", "sync", rep, 8.0 + f64::from(rep) / 10.0)).collect();
    rows.extend((1..=3).map(|rep| row("ra", "ioc", rep, 4.2 + f64::from(rep) / 100.0)));
    rows.push(Row { phase: Phase::Warmup, ..row("ra", "ioc", 1, 99.0) });
    insta::assert_snapshot!(render(&rows, 130), @r"
    all runs: parameters iterations=20 damping=0.85, dataset kron-22, kernel owned, encoding raw, ssds 1, threads 2, buffer 64 MiB,
      memory 1 GiB, result best vertex 1042 (0.000731)
    sync: model/io sync/psync, block 24 MiB
    ioc: model/io ioc/libaio, block 128 KiB, I/O threads 1
    variant  algorithm  status  runtime_s  min..max    edges/s  MB/s  io_s  compute_s  max_rss  verified
    sync     pagerank   ok           8.20  8.10..8.30    163 M  1309  7.95       3.00  253 MiB  yes
    ioc      pagerank   ok           4.22  4.21..4.23    318 M  2544  4.09       3.00  253 MiB  yes
    ");
}

#[test]
fn a_run_alone_has_its_parameters_above() {
    insta::assert_snapshot!(render(&[row("ra", "ioc", 1, 4.2)], 120), @r"
    all runs: variant ioc, parameters iterations=20 damping=0.85, dataset kron-22, model/io ioc/libaio, kernel owned,
      encoding raw, ssds 1, block 128 KiB, I/O threads 1, threads 2, buffer 64 MiB, memory 1 GiB,
      result best vertex 1042 (0.000731)
    algorithm  status  runtime_s  edges/s  MB/s  io_s  compute_s  max_rss  verified
    pagerank   ok           4.20    319 M  2556  4.07       3.00  253 MiB  yes
    ");
}

#[test]
fn what_follows_from_the_algorithm_is_said_by_algorithm_and_the_matrix_by_line() {
    let of = |id, algorithm: &str, ssds, runtime| Row {
        algorithm: Some(algorithm.to_owned()),
        algorithm_params: Some(if algorithm == "spmv" { "x=1" } else { "iterations=20" }.to_owned()),
        result: Some(
            if algorithm == "spmv" { "largest 17.5 at vertex 3" } else { "best vertex 1042" }.to_owned(),
        ),
        ssds: Some(ssds),
        variant: None,
        ..row(id, "ioc", 1, runtime)
    };
    let rows = [
        of("ra", "pagerank", 1, 4.2),
        of("rb", "spmv", 1, 5.1),
        of("rc", "pagerank", 2, 2.3),
        of("rd", "spmv", 2, 2.9),
    ];
    insta::assert_snapshot!(render(&rows, 120), @r"
    all runs: dataset kron-22, model/io ioc/libaio, kernel owned, encoding raw, block 128 KiB, I/O threads 1, threads 2,
      buffer 64 MiB, memory 1 GiB
    pagerank: parameters iterations=20, result best vertex 1042
    spmv: parameters x=1, result largest 17.5 at vertex 3
    algorithm  ssds  status  runtime_s  edges/s  MB/s  io_s  compute_s  max_rss  verified
    pagerank   1     ok           4.20    319 M  2556  4.07       3.00  253 MiB  yes
    spmv       1     ok           5.10    263 M  2105  4.95       3.00  253 MiB  yes
    pagerank   2     ok           2.30    583 M  4668  2.23       3.00  253 MiB  yes
    spmv       2     ok           2.90    462 M  3702  2.81       3.00  253 MiB  yes
    ");
}

#[test]
fn failures_are_below_the_table_each_cause_once() {
    let rows = [
        row("ra", "ioc", 1, 4.2),
        Row { status: Status::Interrupted, error: None, ..row("ra", "ioc", 2, 4.2) },
        failed("rb", 1, "cannot read part 0 at byte 4096: Input/output error; check the disk"),
        failed("rb", 2, "cannot read part 0 at byte 4096: Input/output error; check the disk"),
    ];
    insta::assert_snapshot!(render(&rows, 120), @r"
    all finished runs: parameters iterations=20 damping=0.85, dataset kron-22, kernel owned, encoding raw, ssds 1,
      block 128 KiB, I/O threads 1, threads 2, buffer 64 MiB, memory 1 GiB, result best vertex 1042 (0.000731)
    ioc: model/io ioc/libaio
    sync: model/io sync/psync
    variant  algorithm  status     runtime_s  edges/s  MB/s  io_s  compute_s  max_rss  verified
    ioc      pagerank   1 of 2 ok       4.20    319 M  2556  4.07       3.00  253 MiB  yes
    sync     pagerank   failed             -        -     -     -          -        -  -
    ioc pagerank, rep 2: interrupted
    sync pagerank, rep 1, rep 2: failed: cannot read part 0 at byte 4096: Input/output error; check the disk
    ");
}

#[test]
fn the_last_attempt_at_a_repetition_counts() {
    let rows = [failed("ra", 1, "the first try"), Row { attempt: 2, ..row("ra", "sync", 1, 4.2) }];
    let text = render(&rows, 120);
    assert!(text.contains(" ok ") && !text.contains("the first try"), "{text}");
}

#[test]
fn runs_that_no_column_tells_apart_are_told_by_their_ids() {
    let text = render(&[row("ra", "ioc", 1, 4.2), row("rb", "ioc", 1, 4.3)], 120);
    assert!(text.contains("\nrun_id  algorithm"), "{text}");
    assert!(text.contains("\nra ") && text.contains("\nrb "), "{text}");
}

#[test]
fn a_narrow_terminal_loses_columns_and_is_told_so() {
    let rows: Vec<Row> = [("ra", "ioc"), ("rb", "sync")]
        .iter()
        .flat_map(|(id, v)| [row(id, v, 1, 4.2), row(id, v, 2, 4.4)])
        .collect();
    for width in [80, 100, 120] {
        let text = render(&rows, width);
        assert!(widest(&text) <= width, "{width}:\n{text}");
        assert!(text.contains("runtime_s") && text.contains("verified"), "{width}:\n{text}");
    }
    insta::assert_snapshot!(render(&rows, 80), @r"
    all runs: parameters iterations=20 damping=0.85, dataset kron-22, kernel owned,
      encoding raw, ssds 1, threads 2, buffer 64 MiB, memory 1 GiB,
      result best vertex 1042 (0.000731)
    ioc: model/io ioc/libaio, block 128 KiB, I/O threads 1
    sync: model/io sync/psync, block 24 MiB
    variant  algorithm  status  runtime_s  min..max    edges/s  MB/s  verified
    ioc      pagerank   ok           4.30  4.20..4.40    312 M  2498  yes
    sync     pagerank   ok           4.30  4.20..4.40    312 M  2498  yes
    no room for max_rss, io_s, compute_s; the CSV has all columns
    ");
}

fn peer(run_id: &str, name: &str, rep: u32, runtime: f64) -> Row {
    Row {
        status: Status::Ok,
        variant: Some(name.to_owned()),
        dataset: Some("kron-22".to_owned()),
        algorithm: Some("pagerank".to_owned()),
        algorithm_params: Some(format!(
            "sh -c 'set -e\n\tcd /opt/{name}; ./pagerank --all --of --its --options' {{export}} {{threads}}"
        )),
        compute_threads: Some(2),
        runtime_s: Some(Seconds(runtime)),
        result: Some("took\t12.5 seconds".to_owned()),
        ..Row::new(&AttemptId::new(run_id, Phase::Measured, rep, 1), "overlap")
    }
}

#[test]
fn peers_beside_ours_leave_the_lines_narrow() {
    let ours = |id, algorithm: &str| Row {
        algorithm: Some(algorithm.to_owned()),
        algorithm_params: Some(if algorithm == "bfs" { "root=auto" } else { "iterations=20" }.to_owned()),
        variant: None,
        ..row(id, "ioc", 1, 4.2)
    };
    let rows = [
        ours("ra", "pagerank"),
        ours("rb", "bfs"),
        peer("rc", "gridgraph", 1, 12.5),
        Row { status: Status::Failed, runtime_s: None, result: None, ..peer("rd", "ligra", 1, 1.0) },
    ];
    insta::assert_snapshot!(render(&rows, 100), @r"
    all runs: dataset kron-22, threads 2
    ours: model/io ioc/libaio, kernel owned, encoding raw, ssds 1, block 128 KiB, I/O threads 1,
      buffer 64 MiB, memory 1 GiB, result best vertex 1042 (0.000731)
    gridgraph: result took 12.5 seconds,
      parameters sh -c 'set -e cd /opt/gridgraph; ./pagerank --all --of --it…
    pagerank: parameters iterations=20
    bfs: parameters root=auto
    ligra: parameters sh -c 'set -e cd /opt/ligra; ./pagerank --all --of --its --…
    variant    algorithm  status  runtime_s  edges/s  MB/s  io_s  compute_s  max_rss  verified
    -          pagerank   ok           4.20    319 M  2556  4.07       3.00  253 MiB  yes
    -          bfs        ok           4.20    319 M  2556  4.07       3.00  253 MiB  yes
    gridgraph  pagerank   ok           12.5        -     -     -          -        -  -
    ligra      pagerank   failed          -        -     -     -          -        -  -
    ligra pagerank, rep 1: failed
    ");
}

#[test]
fn what_some_runs_cannot_have_is_not_said_of_all() {
    let none = |row: Row| Row { status: Status::Failed, runtime_s: None, error: Some("no".into()), ..row };
    let rows = [none(row("ra", "ioc", 1, 4.2)), none(peer("rb", "gridgraph", 1, 1.0))];
    let text = render(&rows, 120);
    let all: Vec<&str> = text.lines().filter(|line| line.starts_with("all")).collect();
    assert_eq!(all, ["all runs: dataset kron-22, threads 2"], "{text}");
}

#[test]
fn warm_ups_count_only_where_nothing_was_measured_yet() {
    let status = |rows: &[Row]| {
        let text = render(rows, 120);
        let at = text.lines().find(|line| line.starts_with("pagerank")).expect("a line").to_owned();
        at.trim_start_matches("pagerank").trim().split("  ").next().expect("a status").to_owned()
    };
    let warmup = Row { phase: Phase::Warmup, ..row("ra", "ioc", 1, 9.0) };
    let stopped = |row: Row| Row { status: Status::Interrupted, runtime_s: None, ..row };
    assert_eq!(status(std::slice::from_ref(&warmup)), "not measured");
    assert_eq!(status(&[stopped(warmup.clone())]), "interrupted");
    assert_eq!(status(&[warmup.clone(), stopped(row("ra", "ioc", 1, 1.0))]), "interrupted");
    let two = [warmup.clone(), row("ra", "ioc", 1, 1.0), stopped(row("ra", "ioc", 2, 1.0))];
    assert_eq!(status(&two), "1 of 2 ok");
    assert_eq!(status(&[warmup, row("ra", "ioc", 1, 1.0)]), "ok");
}

#[test]
fn no_rows_are_no_table() {
    assert_eq!(render([], 120), "");
}
