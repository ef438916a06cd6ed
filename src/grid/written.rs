//! A file of an export as it was written: its length, which is looked at whenever it is used, and its checksum, for who
//! asks.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::error::GridError;
use crate::dataset::Context;

/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// What is recorded of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its name in its folder.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// xxh3 (64 bits) of the bytes, in hexadecimal digits.
    pub xxh3: String,
}

impl Written {
    /// What is to be known of a file with this checksum.
    pub fn new(name: String, bytes: u64, xxh3: u64) -> Self {
        Self { name, bytes, xxh3: format!("{xxh3:016x}") }
    }

    /// Whether it is there and has its length: what was cut short, or replaced, mostly has not.
    pub(super) fn has_its_length(&self, dir: &Path) -> bool {
        std::fs::metadata(dir.join(&self.name)).is_ok_and(|file| file.is_file() && file.len() == self.bytes)
    }

    /// Reads it, and compares its checksum.
    pub(super) fn verify(&self, dir: &Path, context: Context<'_>) -> Result<(), GridError> {
        let path = dir.join(&self.name);
        let mut file = File::open(&path).map_err(GridError::io("reading", &path))?;
        let mut buffer = vec![0; BUFFER];
        let mut hash = Xxh3::new();
        loop {
            if context.interrupt.raised() {
                return Err(GridError::Interrupted);
            }
            let length = file.read(&mut buffer).map_err(GridError::io("reading", &path))?;
            if length == 0 {
                break;
            }
            hash.update(&buffer[..length]);
            context.progress.advance(length as u64);
        }
        let found = format!("{:016x}", hash.digest());
        if found == self.xxh3 {
            return Ok(());
        }
        Err(GridError::Rewritten { path, found, expected: self.xxh3.clone() })
    }
}
