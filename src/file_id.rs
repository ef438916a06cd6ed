//! What a file or directory is, by whatever name: links, `..` and mounts give one thing several.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Its file system, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }

    /// Of what a path leads to; `None` where that is nothing, or cannot be told.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

/// Whether two paths lead to one file, by whatever names.
pub(crate) fn is_same_file(one: &Path, other: &Path) -> bool {
    FileId::at(one).is_some_and(|one| Some(one) == FileId::at(other))
}
