//! The sha256 of a data set's file, computed once: a large file takes minutes to digest, and a batch asks for the
//! fingerprint of each of its data sets every time. The cache is one small JSON file, keyed by canonical path and
//! valid for one size and time stamp. It is a convenience: what cannot be read is as if it were not there, and what
//! cannot be written is a note.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::file::{SourceFile, Stamp};
use super::{Context, DatasetError};
use crate::progress::Unit;
use crate::{atomic_file, regular_file};

/// The cache's name in its directory.
const CACHE: &str = "digests.json";

/// Bytes that it has at most: a million files with long paths.
const MOST_CACHE: u64 = 256 << 20;

/// Bytes read at once.
const BUFFER: usize = 1 << 20;

/// A file changed twice within the clock tick of its file system keeps its time stamp. So a digest is only
/// remembered if the last change was this long ago: longer than any tick in use (FAT has two seconds).
const SETTLED_S: i64 = 3;

/// The cache as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cache {
    files: BTreeMap<String, Entry>,
}

/// A digest, and the file it was computed from.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    sha256: String,
}

/// The sha256 of `file` in lower-case hex, from the cache in `cache_dir` if it is there. The time that it takes
/// otherwise is a stage of its own, `NAME: sha256`.
pub(super) fn sha256(
    file: &SourceFile,
    name: &str,
    cache_dir: &Path,
    context: Context<'_>,
) -> Result<String, DatasetError> {
    let canonical = file.path().canonicalize().map_err(|reason| file.io_error("examining", reason))?;
    // A path that is no text has no key in JSON; its digest is computed each time.
    let key = canonical.to_str();
    if let Some(known) = key.and_then(|key| cached(cache_dir, key, file.stamp())) {
        return Ok(known);
    }
    context.progress.begin(&format!("{name}: sha256"), Some(file.len()), Unit::Bytes);
    let digest = file.read_unchanged(|open| compute(file, open, context));
    context.progress.end();
    let digest = digest?;
    if let Some(key) = key.filter(|_| is_settled(file.stamp()))
        && let Err(error) = remember(cache_dir, key, file.stamp(), &digest)
    {
        let (path, cache) = (file.path().display(), cache_dir.join(CACHE));
        context.progress.note(&format!(
            "the sha256 of {path} is not remembered and will be computed again, because writing {} failed: {error}",
            cache.display()
        ));
    }
    Ok(digest)
}

fn compute(file: &SourceFile, mut open: File, context: Context<'_>) -> Result<String, DatasetError> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        if context.interrupt.raised() {
            return Err(DatasetError::Interrupted);
        }
        match open.read(&mut buffer) {
            Ok(0) => return Ok(hex(&digest.finalize())),
            Ok(bytes) => {
                digest.update(&buffer[..bytes]);
                context.progress.advance(bytes as u64);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(reason) => return Err(file.io_error("reading", reason)),
        }
    }
}

/// Bytes in lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|nibble| char::from_digit(nibble.into(), 16))
        .collect()
}

/// Whether a text is a sha256 in hex.
fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_settled(stamp: Stamp) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed());
    stamp.modified.0 + SETTLED_S < now
}

fn load(cache_dir: &Path) -> Option<Cache> {
    serde_json::from_slice(&regular_file::read(&cache_dir.join(CACHE), MOST_CACHE).ok()?).ok()
}

fn cached(cache_dir: &Path, key: &str, stamp: Stamp) -> Option<String> {
    let entry = load(cache_dir)?.files.remove(key)?;
    let known =
        Stamp { len: entry.len, modified: entry.modified, changed: entry.changed, inode: entry.inode };
    let valid = known == stamp && is_sha256(&entry.sha256);
    valid.then_some(entry.sha256)
}

/// Replaces the cache by one that knows this digest too. Of two processes that do so at once one loses its
/// entry, and computes it again another time.
fn remember(cache_dir: &Path, key: &str, stamp: Stamp, digest: &str) -> io::Result<()> {
    let mut cache = load(cache_dir).unwrap_or_default();
    let Stamp { len, modified, changed, inode } = stamp;
    let entry = Entry { len, modified, changed, inode, sha256: digest.to_owned() };
    cache.files.insert(key.to_owned(), entry);
    atomic_file::remove_stale(cache_dir);
    Ok(atomic_file::replace(&cache_dir.join(CACHE), &serde_json::to_vec_pretty(&cache)?)?)
}
