//! What is this interface's own. What holds for every engine is in `io/tests.rs`.

use super::*;
use crate::io::testing::{Disk, drain, kinds, request};
use crate::io::{IoEngine, ReadRequest};
use crate::job::spec::IoSpec;

fn offered() -> bool {
    kinds().contains(&IoSpec::IoUring)
}

fn buffers(count: usize, len: usize) -> Vec<AlignedBuffer> {
    (0..count).map(|_| AlignedBuffer::new(len)).collect()
}

#[test]
fn registered_buffers_and_strangers_are_read_to_alike() {
    if !offered() {
        return;
    }
    let disk = Disk::new(2, 1 << 18);
    let mut engine = open(Arc::clone(&disk.files), 8).unwrap();
    let mut known = buffers(6, 32768);
    engine.register(&known).unwrap();
    // Buffers of the same size, registered and freed: their addresses are likely to come again.
    known.truncate(4);
    known.extend(buffers(4, 32768));
    for round in 0..20 {
        let mut requests: Vec<_> = (0..)
            .zip(known.drain(..))
            .map(|(k, buffer)| {
                let offset = (round * 8 + k) % 56 * 4096;
                ReadRequest { device: (k % 2) as usize, offset, len: 32768, buffer, tag: k }
            })
            .collect();
        engine.submit(&mut requests).unwrap();
        let completions = drain(&mut engine);
        assert!(completions.iter().all(|completion| disk.holds(completion)));
        known.extend(completions.into_iter().map(|completion| {
            let mut buffer = completion.request.buffer;
            buffer.fill(0);
            buffer
        }));
    }
    assert_eq!(known.len(), 8);
}

#[test]
fn buffers_that_cannot_be_registered_are_an_error_and_read_to_all_the_same() {
    if !offered() {
        return;
    }
    let disk = Disk::new(1, 1 << 16);
    let mut engine = open(Arc::clone(&disk.files), 4).unwrap();
    // More than the kernel takes.
    let error = engine.register(&buffers(20_000, 4096)).unwrap_err().to_string();
    assert!(error.starts_with("io_uring cannot register"), "{error}");
    engine.submit(&mut vec![request(0, 4096, 8192, 0)]).unwrap();
    assert!(disk.holds(&drain(&mut engine)[0]));
}

#[test]
fn a_read_that_the_kernel_finds_wrong_fails_alone_and_those_behind_it_are_read() {
    if !offered() {
        return;
    }
    let disk = Disk::new(1, 1 << 16);
    let mut ring = Ring::new(&disk.files, 4).unwrap();
    let mut memory = buffers(4, 4096);
    let reads: Vec<_> = (0..)
        .zip(&mut memory)
        .map(|(mark, buffer)| Read {
            mark,
            // There is one file.
            device: if mark == 1 { 9 } else { 0 },
            fd: -1,
            offset: 4096 * mark,
            address: buffer.as_mut_ptr(),
            len: 4096,
            buffer: buffer.id(),
        })
        .collect();
    // SAFETY: the buffers live until all events have been seen, below.
    assert_eq!(unsafe { ring.submit(&reads) }.unwrap(), 4);
    let mut events = Vec::new();
    while events.len() < 4 {
        ring.events(1, &mut events, Some(Duration::from_secs(10))).unwrap();
    }
    events.sort_by_key(|event| event.mark);
    let bad = -i64::from(Errno::BADF.raw_os_error());
    assert_eq!(events.iter().map(|event| event.result).collect::<Vec<_>>(), [4096, bad, 4096, 4096]);
}

#[test]
fn a_file_can_be_reopened_for_writing_as_soon_as_the_engine_is_gone() {
    if !offered() {
        return;
    }
    let disk = Disk::new(1, 1 << 16);
    let mut engine = open(Arc::clone(&disk.files), 4).unwrap();
    engine.register(&buffers(4, 4096)).unwrap();
    let path = disk.files.path(0).to_owned();
    drop((engine, disk.files));
    // A lease is granted only where nobody else has the file open.
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    // SAFETY: a call on a descriptor that is open.
    let lease = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    assert_eq!(lease, 0, "{}", io::Error::last_os_error());
}

#[test]
fn a_refusal_says_who_refuses_and_what_to_use_instead() {
    let explain = |errno: Errno, setting| explain_setup(&errno.into(), 64, setting).to_string();
    let forbidden = explain(Errno::PERM, Some("2\n"));
    assert!(
        forbidden.contains("kernel.io_uring_disabled = 2") && forbidden.contains("libaio"),
        "{forbidden}"
    );
    for setting in [Some("0\n"), None] {
        let sandboxed = explain(Errno::PERM, setting);
        assert!(sandboxed.contains("seccomp") && sandboxed.contains("libaio"), "{sandboxed}");
    }
    let absent = explain(Errno::NOSYS, None);
    assert!(absent.contains("this kernel has no io_uring") && absent.contains("libaio"), "{absent}");
    let locked = explain(Errno::NOMEM, None);
    assert!(locked.contains("ulimit -l") && locked.contains("libaio"), "{locked}");
}

#[test]
fn more_requests_than_a_ring_has_room_for_are_refused_with_the_figure() {
    if !offered() {
        return;
    }
    let disk = Disk::new(1, 4096);
    for capacity in [32_769, usize::MAX] {
        let Err(error) = open(Arc::clone(&disk.files), capacity) else { panic!("accepted") };
        assert!(
            error.to_string().contains("32768") && error.to_string().contains("engine.io_depth"),
            "{error}"
        );
    }
}
