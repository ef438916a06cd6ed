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
    done: Vec<IoEvent>,
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
    unsafe fn submit(&mut self, requests: &mut [Iocb]) -> io::Result<usize> {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let taken = next(&mut self.submits, requests.len())?;
        for request in &requests[..taken] {
            let len = self.piece.min(request.bytes as usize);
            // SAFETY: our caller promises that the memory stays until the event, and it is written here.
            let memory = unsafe { std::slice::from_raw_parts_mut(request.buffer as *mut u8, len) };
            // SAFETY: the engine keeps its files open.
            let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(request.fd.cast_signed()) };
            let read = rustix::io::pread(fd, memory, request.offset.cast_unsigned()).unwrap();
            let result = read.cast_signed() as i64;
            self.done.push(IoEvent { data: request.data, result, ..IoEvent::default() });
        }
        Ok(taken)
    }

    fn events(&mut self, events: &mut [IoEvent], _timeout: Option<Duration>) -> io::Result<usize> {
        let seen = next(&mut self.waits, events.len().min(self.done.len()))?;
        for event in &mut events[..seen] {
            *event = self.done.pop().unwrap();
        }
        Ok(seen)
    }
}

struct Script {
    submits: Vec<Step>,
    waits: Vec<Step>,
    piece: usize,
}

const WILLING: Script = Script { submits: vec![], waits: vec![], piece: usize::MAX };

/// Reads eight blocks under a script: the completions, and how often the kernel was called to submit.
fn read(disk: &Disk, script: Script) -> (Vec<Completion>, usize) {
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let kernel = Scripted {
        submits: script.submits.into(),
        waits: script.waits.into(),
        piece: script.piece,
        done: vec![],
        calls: Arc::clone(&calls),
    };
    let mut engine = LibaioEngine::on(Box::new(kernel), Arc::clone(&disk.files), 8);
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
    let disk = Disk::new(1, 4096);
    let mut engine = LibaioEngine::new(Arc::clone(&disk.files), 1).unwrap();
    let slot = engine.slots.insert(Transfer::new(request(0, 0, 4096, 9)));
    let event = IoEvent { data: slot as u64, result: -5, ..IoEvent::default() };
    let mut completions = Vec::new();
    engine.finish(event, Instant::now(), &mut completions);
    assert_eq!(completions[0].request.tag, 9);
    assert_eq!(completions[0].result.as_ref().unwrap_err().raw_os_error(), Some(5));
}

#[test]
fn a_kernel_without_room_is_explained_with_what_to_do() {
    let error = explain_setup(&Errno::AGAIN.into(), 512);
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    let text = error.to_string();
    assert!(text.starts_with("the kernel has no room for 512 more asynchronous requests"), "{text}");
    assert!(text.contains("sysctl fs.aio-max-nr") && text.contains("psync"), "{text}");
    let text = explain_setup(&Errno::NOSYS.into(), 512).to_string();
    assert!(text.contains("offers no asynchronous I/O"), "{text}");
}

#[test]
fn the_real_kernel_refuses_more_than_its_limit_and_is_explained() {
    let disk = Disk::new(1, 4096);
    let Err(error) = LibaioEngine::new(Arc::clone(&disk.files), 8_000_000) else { return };
    let text = error.to_string();
    assert!(text.contains("8000000") && text.contains("engine.io_depth"), "{text}");
    let Err(error) = LibaioEngine::new(Arc::clone(&disk.files), usize::MAX) else { panic!("accepted") };
    assert!(error.to_string().contains("cannot be set up: Invalid argument"), "{error}");
}
