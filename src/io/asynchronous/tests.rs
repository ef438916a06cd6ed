//! The engine on a kernel that is short of everything: it takes requests by ones, says that it is busy, is
//! interrupted, brings a few bytes at a time, and finishes in reverse order.

use super::*;
use crate::io::testing::{Disk, drain, request};

/// What the kernel does next when it is called.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Takes at most so many requests, or returns at most so many events.
    At(usize),
    Fails(Errno),
}

/// Carries out requests by `pread` when they are submitted. Calls beyond the script go well.
struct Scripted {
    submits: VecDeque<Step>,
    waits: VecDeque<Step>,
    /// Bytes that a read brings at most.
    piece: usize,
    /// What the first reads are said to have brought.
    results: VecDeque<i64>,
    done: Vec<Event>,
    calls: Arc<std::sync::atomic::AtomicUsize>,
}

fn next(script: &mut VecDeque<Step>, limit: usize) -> io::Result<usize> {
    match script.pop_front() {
        Some(Step::Fails(errno)) => Err(errno.into()),
        Some(Step::At(most)) => Ok(most.min(limit)),
        None => Ok(limit),
    }
}

impl Kernel for Scripted {
    unsafe fn submit(&mut self, reads: &[Read]) -> io::Result<usize> {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let taken = next(&mut self.submits, reads.len())?;
        for read in &reads[..taken] {
            let len = self.piece.min(read.len);
            // SAFETY: our caller promises that the memory stays until the event, and it is written here.
            let memory = unsafe { std::slice::from_raw_parts_mut(read.address, len) };
            // SAFETY: the engine keeps its files open.
            let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(read.fd) };
            let bytes = rustix::io::pread(fd, memory, read.offset).unwrap();
            let result = self.results.pop_front().unwrap_or(bytes.cast_signed() as i64);
            self.done.push(Event { mark: read.mark, result });
        }
        Ok(taken)
    }

    fn events(
        &mut self,
        _least: usize,
        events: &mut Vec<Event>,
        _timeout: Option<Duration>,
    ) -> io::Result<()> {
        let seen = match next(&mut self.waits, self.done.len()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            seen => seen?,
        };
        events.extend((0..seen).filter_map(|_| self.done.pop()));
        Ok(())
    }
}

struct Script {
    submits: Vec<Step>,
    waits: Vec<Step>,
    piece: usize,
    results: Vec<i64>,
}

const WILLING: Script = Script { submits: vec![], waits: vec![], piece: usize::MAX, results: vec![] };

/// Reads eight blocks under a script: the completions, and how often the kernel was called to submit.
fn read(disk: &Disk, script: Script) -> (Vec<Completion>, usize) {
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let kernel = Scripted {
        submits: script.submits.into(),
        waits: script.waits.into(),
        piece: script.piece,
        results: script.results.into(),
        done: vec![],
        calls: Arc::clone(&calls),
    };
    let mut engine = AsynchronousEngine::on(Box::new(kernel), Arc::clone(&disk.files), 8);
    let mut requests: Vec<_> = (0..8).map(|k| request(k % 2, 16384 * k as u64, 16384, k as u64)).collect();
    engine.submit(&mut requests).unwrap();
    assert!(requests.is_empty());
    let completions = drain(&mut engine);
    assert_eq!(completions.len(), 8);
    (completions, calls.load(std::sync::atomic::Ordering::Relaxed))
}

fn all_well(disk: &Disk, completions: &[Completion]) -> bool {
    completions.iter().all(|completion| disk.holds(completion))
}

#[test]
fn a_willing_kernel_is_called_once_for_all_and_may_finish_in_any_order() {
    let disk = Disk::new(2, 1 << 17);
    let (completions, calls) = read(&disk, WILLING);
    assert!(all_well(&disk, &completions));
    assert_eq!(calls, 1);
    let tags: Vec<_> = completions.iter().map(|completion| completion.request.tag).collect();
    assert_eq!(tags, [7, 6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn a_submission_that_stops_half_way_is_carried_on() {
    let disk = Disk::new(2, 1 << 17);
    let (completions, calls) = read(&disk, Script { submits: vec![Step::At(3), Step::At(1)], ..WILLING });
    assert!(all_well(&disk, &completions));
    assert_eq!(calls, 3);
}

#[test]
fn a_full_kernel_is_asked_again_when_something_has_finished() {
    let disk = Disk::new(2, 1 << 17);
    let submits = vec![Step::At(2), Step::Fails(Errno::AGAIN), Step::Fails(Errno::AGAIN)];
    let (completions, _) = read(&disk, Script { submits, waits: vec![Step::At(1)], ..WILLING });
    assert!(all_well(&disk, &completions));
}

#[test]
fn a_kernel_without_memory_for_a_moment_is_asked_again_and_not_for_ever() {
    let disk = Disk::new(2, 1 << 17);
    let (completions, _) = read(&disk, Script { submits: vec![Step::Fails(Errno::AGAIN); 5], ..WILLING });
    assert!(all_well(&disk, &completions));

    let submits = vec![Step::Fails(Errno::AGAIN); RETRIES as usize + 1];
    let (completions, _) = read(&disk, Script { submits, ..WILLING });
    let (failed, well): (Vec<_>, Vec<_>) =
        completions.into_iter().partition(|completion| completion.result.is_err());
    assert_eq!((failed.len(), failed[0].request.tag), (1, 0));
    assert!(all_well(&disk, &well));
}

#[test]
fn interrupted_calls_are_made_again() {
    let disk = Disk::new(2, 1 << 17);
    let interrupted = || vec![Step::Fails(Errno::INTR); 3];
    let (completions, _) = read(&disk, Script { submits: interrupted(), waits: interrupted(), ..WILLING });
    assert!(all_well(&disk, &completions));
}

#[test]
fn an_error_of_submission_is_the_first_requests_alone() {
    let disk = Disk::new(2, 1 << 17);
    let submits = vec![Step::At(2), Step::Fails(Errno::BADF)];
    let (completions, _) = read(&disk, Script { submits, ..WILLING });
    for completion in &completions {
        assert_eq!(completion.request.tag == 2, completion.result.is_err());
        assert!(completion.result.is_err() || disk.holds(completion));
    }
}

#[test]
fn short_reads_are_continued_to_the_end_and_keep_their_first_submission() {
    let disk = Disk::new(2, 1 << 17);
    let (completions, calls) = read(&disk, Script { piece: 4096, ..WILLING });
    assert!(all_well(&disk, &completions));
    assert_eq!(calls, 4, "one for all, then one for the rests of all, thrice");
    assert!(completions.iter().all(|completion| completion.submitted == completions[0].submitted));
}

#[test]
fn a_negative_result_is_the_error_of_its_request() {
    let disk = Disk::new(2, 1 << 17);
    let (completions, _) = read(&disk, Script { results: vec![16384, -5], ..WILLING });
    for completion in &completions {
        let error = completion.result.as_ref().err().and_then(io::Error::raw_os_error);
        assert_eq!(error, (completion.request.tag == 1).then_some(5));
    }
}

#[test]
fn a_read_that_the_kernel_could_not_do_at_the_moment_is_tried_again_and_not_for_ever() {
    let disk = Disk::new(2, 1 << 17);
    for errno in [Errno::INTR, Errno::AGAIN, Errno::CANCELED] {
        let refusal = -i64::from(errno.raw_os_error());
        let (completions, _) = read(&disk, Script { results: vec![refusal; 20], ..WILLING });
        assert!(all_well(&disk, &completions), "{errno}");
        let (completions, _) = read(&disk, Script { results: vec![refusal; 8 * 1000], ..WILLING });
        assert!(completions.iter().all(|completion| {
            completion.result.as_ref().unwrap_err().raw_os_error() == Some(errno.raw_os_error())
        }));
    }
}

#[test]
fn a_kernel_without_room_is_left_alone_until_something_has_finished() {
    let disk = Disk::new(2, 1 << 17);
    let submits = vec![Step::At(3), Step::At(0), Step::At(0), Step::At(2)];
    let (completions, _) = read(&disk, Script { submits, waits: vec![Step::At(1)], ..WILLING });
    assert!(all_well(&disk, &completions));
}
