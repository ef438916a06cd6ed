//! What every source promises: the same edges each time, a prompt stop, honest progress.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Recorder, Sample, context, file_spec, lines, read_with, skipped, sorted};
use crate::dataset::{Context, DatasetError, EdgeSource, SinkClosed, open};
use crate::interrupt::Interrupt;
use crate::job::spec::{DatasetSpec, KroneckerSpec, SourceSpec};

/// A source of each kind, with some hundred thousand edges, and the file behind it.
fn sources() -> Vec<(Box<dyn EdgeSource>, Option<Sample>)> {
    let text = lines(100_000);
    let packed = super::gzip::gzip(&text);
    let samples = [
        Sample::new("e.txt", &text),
        Sample::new("e.gz", packed),
        Sample::new("e.bin", vec![0; 8 * 100_000]),
    ];
    let kronecker = KroneckerSpec { scale: 12, edge_factor: 30, seed: 3, weights: true };
    let kronecker = DatasetSpec {
        source: SourceSpec::Kronecker(kronecker),
        directed: false,
        ..file_spec(std::path::Path::new(""))
    };
    let files = samples.into_iter().map(|sample| (open(&sample.spec).unwrap(), Some(sample)));
    files.chain([(open(&kronecker).unwrap(), None)]).collect()
}

#[test]
fn every_read_gives_the_same_edges() {
    for (source, _file) in sources() {
        let (edges, summary) = read_with(&*source, 1).unwrap();
        let edges = sorted(edges);
        for threads in [1, 2, 4] {
            let (again, same) = read_with(&*source, threads).unwrap();
            assert!(sorted(again) == edges && same == summary, "{} on {threads} threads", source.describe());
        }
    }
}

#[test]
fn no_threads_is_one_thread() {
    for (source, _file) in sources() {
        let interrupt = Interrupt::new();
        let edges = AtomicUsize::new(0);
        let summary = source.read(context(0, &interrupt), &|_, batch| {
            edges.fetch_add(batch.len(), Ordering::Relaxed);
            Ok(())
        });
        assert_eq!(summary.unwrap().edges, edges.into_inner() as u64);
    }
}

#[test]
fn a_sink_that_closes_ends_the_read() {
    for (source, _file) in sources() {
        let (interrupt, calls) = (Interrupt::new(), AtomicUsize::new(0));
        let result = source.read(context(2, &interrupt), &|_, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(SinkClosed)
        });
        assert!(matches!(result, Err(DatasetError::Stopped)), "{}", source.describe());
        assert!(calls.into_inner() <= 2, "each worker stops at its first refusal");
    }
}

#[test]
fn an_interrupt_ends_the_read() {
    for (source, _file) in sources() {
        let (interrupt, calls) = (Interrupt::new(), AtomicUsize::new(0));
        let result = source.read(context(2, &interrupt), &|_, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            interrupt.raise();
            Ok(())
        });
        assert!(matches!(result, Err(DatasetError::Interrupted)), "{}", source.describe());
        // Both workers may be inside the sink when the flag rises, and a mirrored batch has two halves.
        assert!(calls.into_inner() <= 4);
    }
}

#[test]
fn a_panic_of_the_sink_reaches_the_caller_at_once() {
    for (source, _file) in sources() {
        let (interrupt, calls) = (Interrupt::new(), AtomicUsize::new(0));
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            source.read(context(2, &interrupt), &|_, _| {
                calls.fetch_add(1, Ordering::Relaxed);
                panic!("of the sink");
            })
        }));
        assert!(read.is_err());
        assert!(calls.into_inner() <= 2);
    }
}

#[test]
fn progress_ends_at_the_size() {
    for (source, _file) in sources() {
        let (interrupt, progress) = (Interrupt::new(), Recorder::default());
        let context = Context { threads: 2, interrupt: &interrupt, progress: &progress };
        source.read(context, &|_, _| Ok(())).unwrap();
        assert_eq!(Some(progress.advanced()), source.size().0, "{}", source.describe());
        assert!(progress.stages().is_empty(), "stages belong to the caller");
    }
}

#[test]
fn an_undirected_edge_is_two_arcs_and_a_loop_is_one() {
    let sample = Sample::new("e.txt", "1 2 0.5\n3 3 7\n1 2 0.5\n").undirected();
    assert_eq!(sample.pairs(), [(1, 2), (1, 2), (2, 1), (2, 1), (3, 3)]);
    let (edges, summary) = sample.read().unwrap();
    assert_eq!(summary.edges, 5);
    assert!(
        edges
            .iter()
            .all(|edge| edge.weight.to_bits() == if edge.source == 3 { 7.0 } else { 0.5_f64 }.to_bits())
    );
}

#[test]
fn a_file_that_changed_since_it_was_opened_is_an_error() {
    for (name, content) in [("e.txt", &b"1 2\n3 4\n"[..]), ("e.bin", &[0; 16])] {
        let sample = Sample::new(name, content);
        let source = open(&sample.spec).unwrap();
        read_with(&*source, 1).unwrap();
        std::fs::write(sample.path(), &content[..8]).unwrap();
        let changed = read_with(&*source, 1);
        assert!(
            matches!(changed, Err(DatasetError::Changed { before, after: 8, .. }) if before == content.len() as u64)
        );
    }
}

#[test]
fn a_file_that_grows_while_it_is_read_is_an_error() {
    use std::io::Write;
    for (source, file) in sources() {
        let Some(file) = file else { continue };
        let grown = std::sync::Once::new();
        let interrupt = Interrupt::new();
        let result = source.read(context(2, &interrupt), &|_, _| {
            grown.call_once(|| {
                let mut file = std::fs::File::options().append(true).open(file.path()).unwrap();
                file.write_all(b"1 2\n1 2\n").unwrap();
            });
            Ok(())
        });
        assert!(matches!(result, Err(DatasetError::Changed { .. })), "{}", source.describe());
    }
}

#[test]
fn a_file_that_may_not_be_read_is_an_error_when_opened() {
    use std::os::unix::fs::PermissionsExt;
    let sample = Sample::new("e.txt", "1 2\n");
    std::fs::set_permissions(sample.path(), std::fs::Permissions::from_mode(0o0)).unwrap();
    if std::fs::File::open(sample.path()).is_ok() {
        skipped("root may read everything");
        return;
    }
    assert!(matches!(open(&sample.spec), Err(DatasetError::Io { action: "opening", .. })));
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
    assert!(matches!(open(&file_spec(&path)), Err(DatasetError::NotAFile { found: "a named pipe", .. })));
}
