//! Files of known bytes to read from, for the tests of all engines.

use std::fs;
use std::sync::Arc;

use super::{Completion, IoEngine, IoSpec, ReadRequest, open_engine};
use crate::storage::buffer::AlignedBuffer;
use crate::storage::device::DeviceFiles;

/// Every kind of engine that this machine allows.
#[allow(clippy::print_stderr)] // A test that is skipped says so.
pub(super) fn kinds() -> Vec<IoSpec> {
    let mut kinds = IoSpec::ALL.to_vec();
    if let Err(refusal) = super::io_uring::available() {
        eprintln!("io_uring is not tested: {refusal}");
        kinds.retain(|kind| *kind != IoSpec::IoUring);
    }
    kinds
}

/// Devices whose every byte tells where it is from.
pub(super) struct Disk {
    _folder: tempfile::TempDir,
    pub(super) files: Arc<DeviceFiles>,
    pub(super) len: u64,
    contents: Vec<Vec<u8>>,
}

impl Disk {
    pub(super) fn new(devices: usize, len: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let contents: Vec<Vec<u8>> = (0..devices).map(|device| content(device, len)).collect();
        let paths: Vec<_> = contents
            .iter()
            .enumerate()
            .map(|(device, content)| {
                let path = folder.path().join(format!("part-{device}"));
                fs::write(&path, content).unwrap();
                path
            })
            .collect();
        let files = Arc::new(DeviceFiles::open(&paths).unwrap());
        Self { _folder: folder, files, len, contents }
    }

    pub(super) fn engine(&self, io: IoSpec, capacity: usize) -> Box<dyn IoEngine> {
        open_engine(io, Arc::clone(&self.files), capacity, None).unwrap()
    }

    /// The bytes that a request should bring.
    pub(super) fn wanted(&self, completion: &Completion) -> &[u8] {
        let request = &completion.request;
        let start = request.offset as usize;
        &self.contents[request.device][start..start + request.len]
    }

    /// Whether it went well and brought them.
    pub(super) fn holds(&self, completion: &Completion) -> bool {
        completion.result.is_ok()
            && self.wanted(completion) == &completion.request.buffer[..completion.request.len]
    }
}

/// Bytes of a device's file: a 64-bit mix of device and position, so that no two places are alike.
fn content(device: usize, len: u64) -> Vec<u8> {
    (0..len / 8)
        .flat_map(|word| {
            let mut mixed = (word << 8 | device as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed ^= mixed >> 29;
            mixed.to_le_bytes()
        })
        .collect()
}

pub(super) fn request(device: usize, offset: u64, len: usize, tag: u64) -> ReadRequest {
    // Blocks are usually larger than what is read to them.
    let buffer = AlignedBuffer::new(len.next_multiple_of(4096) + 4096);
    ReadRequest { device, offset, len, buffer, tag }
}

/// Reaps until nothing is in flight.
pub(super) fn drain(engine: &mut dyn IoEngine) -> Vec<Completion> {
    let mut completions = Vec::new();
    while engine.in_flight() > 0 {
        engine.reap(1, &mut completions).unwrap();
    }
    completions
}
