//! What holds for every engine, on files of the real file system.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::faulty::FaultyEngine;
use super::testing::{Disk, drain, kinds, request};
use super::{IoEngine, IoSpec, ReadRequest, Shaper, open_engine};
use crate::storage::buffer::AlignedBuffer;

/// Every engine there is, with this capacity, by name.
fn engines(disk: &Disk, capacity: usize) -> Vec<(String, Box<dyn IoEngine>)> {
    let mut engines: Vec<(String, Box<dyn IoEngine>)> = Vec::new();
    for kind in kinds() {
        let fast = Shaper::new(disk.files.count(), NonZeroU64::new(4_000_000_000).unwrap());
        let shaped = open_engine(kind, Arc::clone(&disk.files), capacity, Some(Arc::new(fast))).unwrap();
        engines.push((format!("{kind:?}"), disk.engine(kind, capacity)));
        engines.push((format!("registered {kind:?}"), registered(disk, kind, capacity)));
        engines.push((format!("shaped {kind:?}"), shaped));
        engines.push((
            format!("faultless {kind:?}"),
            Box::new(FaultyEngine::new(disk.engine(kind, capacity), vec![])),
        ));
    }
    engines
}

/// An engine that was told of buffers, though not of those it will be given.
fn registered(disk: &Disk, kind: IoSpec, capacity: usize) -> Box<dyn IoEngine> {
    let mut engine = disk.engine(kind, capacity);
    engine.register(&[AlignedBuffer::new(8192), AlignedBuffer::new(4096)]).unwrap();
    engine
}

/// Requests at places that a linear congruential generator picks.
fn scattered(disk: &Disk, count: u64) -> Vec<ReadRequest> {
    let mut state = 12345_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    (0..count)
        .map(|tag| {
            let len = (1 + random(16)) * 4096;
            let offset = random((disk.len - len) / 4096 + 1) * 4096;
            request(random(disk.files.count() as u64) as usize, offset, len as usize, tag)
        })
        .collect()
}

#[test]
fn every_engine_reads_the_same_bytes_at_every_depth_and_loses_no_buffer() {
    let disk = Disk::new(3, 1 << 20);
    for depth in [1, 2, 7, 64] {
        for (name, mut engine) in engines(&disk, depth) {
            assert_eq!(engine.capacity(), depth, "{name}");
            let mut requests = scattered(&disk, 200);
            let buffers: HashSet<_> = requests.iter().map(|request| request.buffer.as_ptr()).collect();
            let mut completions = Vec::new();
            while !requests.is_empty() || engine.in_flight() > 0 {
                let room = depth - engine.in_flight();
                let before = requests.len();
                engine.submit(&mut requests).unwrap();
                assert_eq!(before - requests.len(), room.min(before), "{name} takes what it has room for");
                engine.reap(1, &mut completions).unwrap();
            }
            let tags: HashSet<_> = completions.iter().map(|completion| completion.request.tag).collect();
            assert_eq!((completions.len(), tags.len()), (200, 200), "{name} at depth {depth}");
            let returned: HashSet<_> =
                completions.iter().map(|completion| completion.request.buffer.as_ptr()).collect();
            assert_eq!(returned, buffers, "{name} at depth {depth}");
            for completion in &completions {
                assert!(disk.holds(completion), "{name} at depth {depth}: {completion:?}");
                assert!(completion.submitted <= completion.completed, "{name}");
            }
        }
    }
}

#[test]
fn requests_are_taken_from_the_front_and_in_order() {
    let disk = Disk::new(1, 1 << 16);
    for (name, mut engine) in engines(&disk, 2) {
        let mut requests: Vec<_> = (0..5).map(|k| request(0, 4096 * k, 4096, k)).collect();
        engine.submit(&mut requests).unwrap();
        assert_eq!(requests.iter().map(|request| request.tag).collect::<Vec<_>>(), [2, 3, 4], "{name}");
        let mut taken: Vec<_> = drain(engine.as_mut()).iter().map(|done| done.request.tag).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1], "{name}");
    }
}

#[test]
fn a_read_beyond_the_end_fails_with_its_request_and_spares_the_others() {
    let disk = Disk::new(1, 1 << 16);
    for (name, mut engine) in engines(&disk, 4) {
        let end = disk.len;
        let mut requests =
            vec![request(0, end, 4096, 1), request(0, end - 4096, 8192, 2), request(0, 0, 4096, 3)];
        engine.submit(&mut requests).unwrap();
        let completions = drain(engine.as_mut());
        assert_eq!(completions.len(), 3, "{name}");
        for completion in &completions {
            let kind = completion.result.as_ref().map_err(std::io::Error::kind);
            let wanted = if completion.request.tag == 3 { Ok(&()) } else { Err(ErrorKind::UnexpectedEof) };
            assert_eq!(kind, wanted, "{name}: {completion:?}");
        }
    }
}

#[test]
fn a_file_that_ends_off_the_alignment_ends_there_for_every_engine() {
    let disk = Disk::new(1, 4096 + 1000);
    for (name, mut engine) in engines(&disk, 1) {
        engine.submit(&mut vec![request(0, 0, 12288, 0)]).unwrap();
        let error = drain(engine.as_mut()).pop().unwrap().result.unwrap_err();
        assert_eq!(error.to_string(), "the file ends 5096 bytes into a read of 12288", "{name}");
    }
}

#[test]
fn a_request_that_makes_no_sense_fails_before_the_kernel_sees_it() {
    let disk = Disk::new(2, 1 << 16);
    let wrong = || {
        let buffer = AlignedBuffer::new(4096);
        vec![
            request(2, 0, 4096, 0),
            ReadRequest { device: 0, offset: 0, len: 8192, buffer, tag: 1 },
            request(0, 0, 100, 2),
            request(0, 100, 4096, 3),
            request(0, 0, 0, 4),
            request(0, u64::MAX - 4095, 4096, 5),
            request(0, (1 << 63) - 4096, 4096, 6),
        ]
    };
    for (name, mut engine) in engines(&disk, 8) {
        engine.submit(&mut wrong()).unwrap();
        let completions = drain(engine.as_mut());
        assert_eq!(completions.len(), 7, "{name}");
        for completion in completions {
            let error = completion.result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}, tag {}", completion.request.tag);
        }
    }
}

#[test]
fn an_engine_dropped_with_requests_in_flight_leaves_quietly() {
    let disk = Disk::new(2, 1 << 20);
    for round in 0..20 {
        for (_, mut engine) in engines(&disk, 32) {
            engine.submit(&mut scattered(&disk, 32)).unwrap();
            if round % 2 == 0 {
                engine.reap(1, &mut Vec::new()).unwrap();
            }
        }
    }
}

#[test]
fn reaping_an_idle_engine_returns_at_once() {
    let disk = Disk::new(1, 4096);
    for (name, mut engine) in engines(&disk, 4) {
        let mut completions = Vec::new();
        let start = std::time::Instant::now();
        engine.reap(1, &mut completions).unwrap();
        assert!(completions.is_empty() && start.elapsed().as_millis() < 90, "{name}");
    }
}

#[test]
fn a_queue_for_no_requests_is_refused_with_what_to_do() {
    let disk = Disk::new(1, 4096);
    for kind in kinds() {
        let Err(error) = open_engine(kind, Arc::clone(&disk.files), 0, None) else { panic!("accepted") };
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("engine.io_depth"), "{error}");
    }
}
