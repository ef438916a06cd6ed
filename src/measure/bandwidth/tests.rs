//! Measuring real files, quickly. Rates depend on the machine and are shown, not asserted.
#![allow(clippy::print_stderr)]

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::progress::Silent;

/// A directory on a disk: a temporary folder may lie in memory.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/target").unwrap()
}

fn scratch(folders: &[&tempfile::TempDir], size: u64) -> Option<Scratch> {
    let directories: Vec<PathBuf> = folders.iter().map(|folder| folder.path().to_owned()).collect();
    match Scratch::write(&directories, size, &Interrupt::new(), &Silent) {
        Err(BandwidthError::Buffered { directory }) => {
            eprintln!("not tested: {} takes no direct reads", directory.display());
            None
        }
        scratch => Some(scratch.unwrap()),
    }
}

fn engines() -> Vec<IoSpec> {
    let available = |io: &IoSpec| *io != IoSpec::IoUring || crate::io::io_uring::available().is_ok();
    IoSpec::ALL.into_iter().filter(available).collect()
}

#[test]
fn the_files_have_no_names_and_blocks_follow_one_another_and_come_round() {
    let folder = folder();
    let Some(scratch) = scratch(&[&folder, &folder], 3 << 20) else { return };
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let offsets: Vec<u64> = (0..4).map(|_| scratch.next(1, 1 << 20)).collect();
    assert_eq!(offsets, [0, 1 << 20, 2 << 20, 0]);
    // After 4 MiB, in blocks that do not divide the size: never beyond the end.
    assert!((0..100).all(|_| scratch.next(1, 2 << 20) == 0));
    assert_eq!(scratch.next(0, 1 << 20), 0, "each device has its own place");
}

#[test]
fn every_engine_reads_from_one_device_and_from_two_with_any_number_of_threads() {
    let (one, two) = (folder(), folder());
    let Some(scratch) = scratch(&[&one, &two], 8 << 20) else { return };
    for io in engines() {
        for (devices, depth, threads) in [(&[0, 1][..], 4, 1), (&[0, 1], 4, 2), (&[1], 1, 1), (&[0, 1], 8, 4)]
        {
            let setting = Setting { io, block: 128 << 10, depth, threads };
            let time = Duration::from_millis(20);
            let rate = rate(&scratch, devices, setting, time, &Interrupt::new()).unwrap();
            eprintln!("{setting:?} on {devices:?}: {rate:?}");
            if let Some(rate) = rate {
                assert!(rate.bytes_per_s > 0.0 && rate.cpu_s_per_byte >= 0.0);
            }
        }
    }
}

#[test]
fn a_survey_of_two_directories_ends_within_its_bound_and_advises_what_it_tried() {
    let (one, two) = (folder(), folder());
    let Some(scratch) = scratch(&[&one, &two], 16 << 20) else { return };
    let effort = Effort::quick();
    let started = Instant::now();
    let survey = survey(&scratch, &engines(), &effort, &Interrupt::new(), &Silent).unwrap();
    let (_, most) = effort.estimate(2, &engines());
    // What it takes to allocate buffers and to set up engines is not in the bound.
    assert!(started.elapsed() < most * 2, "{:?} of {most:?}", started.elapsed());
    eprintln!("{survey}");
    for (io, advice) in survey.advice() {
        let engine = survey.engines.iter().find(|engine| engine.io == io).unwrap();
        let tried = |(setting, _): &(Setting, Rate)| {
            (setting.block, setting.depth, setting.threads) == (advice.block, advice.depth, advice.io_threads)
        };
        assert!(engine.trials.iter().any(tried), "{advice:?}");
        assert!(advice.depths.is_sorted_by_key(|&(block, _)| block));
    }
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let missing = [PathBuf::from("/no/such/directory")];
    let Err(error) = Scratch::write(&missing, 1 << 20, &Interrupt::new(), &Silent) else { panic!("written") };
    let text = error.to_string();
    assert!(text.starts_with("/no/such/directory: a file of 1 MiB to read cannot be written"), "{text}");
}

#[test]
fn a_disk_without_room_is_refused_with_both_figures_and_before_it_is_full() {
    let folder = folder();
    let wanted = [folder.path().to_owned()];
    let Err(error) = Scratch::write(&wanted, 1 << 60, &Interrupt::new(), &Silent) else { panic!("written") };
    let text = error.to_string();
    assert!(text.contains("needs 1024 PiB") && text.contains("--size"), "{text}");
}

#[test]
fn memory_is_no_device() {
    let shm = [PathBuf::from("/dev/shm")];
    if !shm[0].is_dir() || super::super::disk::filesystem(&shm[0]).as_deref() != Some("tmpfs") {
        return;
    }
    let result = Scratch::write(&shm, 1 << 20, &Interrupt::new(), &Silent);
    assert!(matches!(result, Err(BandwidthError::Buffered { .. })));
}

#[test]
fn an_interrupt_ends_writing_and_reading() {
    let folder = folder();
    let interrupt = Interrupt::new();
    let Some(scratch) = scratch(&[&folder], 1 << 20) else { return };
    interrupt.raise();
    let setting = Setting { io: IoSpec::Psync, block: 4096, depth: 1, threads: 1 };
    let hour = Duration::from_secs(3600);
    let ended = rate(&scratch, &[0], setting, hour, &interrupt);
    assert!(matches!(ended, Err(BandwidthError::Interrupted)));
    let written = Scratch::write(&[folder.path().to_owned()], 1 << 30, &interrupt, &Silent);
    assert!(matches!(written, Err(BandwidthError::Interrupted)));
}
