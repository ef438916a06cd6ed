//! Edges on disk during an import: one anonymous file, to which threads append buffers of records, each buffer
//! on the list of its bucket.
//!
//! The file has no name, so that it is gone however the process ends. One file for all buckets asks for no more
//! open files than one; what was consumed is given back by punching holes, so that an import needs the disk space
//! of its edges about once, and the kernel need not write back what nobody will read again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

use crate::dataset::Edge;
use crate::grid::error::GridError;
use crate::grid::parallel::lock;

/// File systems give back whole blocks of this size, so buffers begin at its multiples.
const ALIGNMENT: u64 = 4096;

/// How a record is stored: source, destination (u32 each, or u64 where `wide`) and, where `weighted`, an f64.
/// Writers widen when they meet an id or a weight that asks for it, so most graphs never pay for what they lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Form {
    pub(super) wide: bool,
    pub(super) weighted: bool,
}

impl Form {
    /// Bytes of a record.
    pub(super) fn bytes(self) -> usize {
        (if self.wide { 16 } else { 8 }) + if self.weighted { 8 } else { 0 }
    }

    /// The narrowest form for both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { wide: self.wide | other.wide, weighted: self.weighted | other.weighted }
    }

    /// The narrowest form for these edges, ids as they are.
    pub(super) fn of(edges: &[Edge]) -> Self {
        let ids = edges.iter().fold(0, |all, edge| all | edge.source | edge.target);
        Self { wide: ids > u64::from(u32::MAX), weighted: edges.iter().any(is_weighted) }
    }

    /// The edge in a record of this form.
    pub(super) fn decode(self, record: &[u8]) -> Edge {
        let u32_at =
            |at: usize| record[at..].first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        let u64_at = |at: usize| record[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (source, target) = if self.wide { (u64_at(0), u64_at(8)) } else { (u32_at(0), u32_at(4)) };
        let weight = if self.weighted { f64::from_bits(u64_at(self.bytes() - 8)) } else { 1.0 };
        Edge { source, target, weight }
    }
}

/// Whether the weight must be stored. Bits are compared, so that no weight comes back changed.
pub(super) fn is_weighted(edge: &Edge) -> bool {
    edge.weight.to_bits() != 1.0_f64.to_bits()
}

/// A record of narrow ids without weight.
#[inline]
pub(super) fn unit_record(source: u32, target: u32) -> [u8; 8] {
    (u64::from(source) | u64::from(target) << 32).to_le_bytes()
}

/// A record of narrow ids with its weight.
#[inline]
pub(super) fn weighted_record(source: u32, target: u32, weight: f64) -> [u8; 16] {
    let ids = u64::from(source) | u64::from(target) << 32;
    (u128::from(ids) | u128::from(weight.to_bits()) << 64).to_le_bytes()
}

/// Records of one form that lie together in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) offset: u64,
    pub(super) records: u32,
    pub(super) form: Form,
}

/// The file and its lists of extents.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    /// For messages: the folder, since the file has no name.
    folder: PathBuf,
    end: AtomicU64,
    lists: Vec<Mutex<Vec<Extent>>>,
}

impl Spill {
    /// An empty file in `folder` with so many lists.
    pub(super) fn create(folder: &Path, lists: usize) -> Result<Self, GridError> {
        let file =
            tempfile::tempfile_in(folder).map_err(GridError::io("creating a temporary file in", folder))?;
        let lists = (0..lists).map(|_| Mutex::default()).collect();
        Ok(Self { file, folder: folder.to_owned(), end: AtomicU64::new(0), lists })
    }

    /// A writer with a buffer of `capacity` bytes for every list.
    pub(super) fn writer(&self, capacity: usize) -> Writer<'_> {
        let lists = self.lists.len();
        let bytes = vec![0; lists * capacity];
        Writer { spill: self, form: Form::default(), capacity, bytes, used: vec![0; lists] }
    }

    /// Takes a list's extents.
    pub(super) fn take(&self, list: usize) -> Vec<Extent> {
        std::mem::take(&mut *lock(&self.lists[list]))
    }

    /// Gives back what [`Self::take`] took.
    pub(super) fn put_back(&self, list: usize, extents: Vec<Extent>) {
        *lock(&self.lists[list]) = extents;
    }

    /// Records on a list.
    pub(super) fn records(&self, list: usize) -> u64 {
        lock(&self.lists[list]).iter().map(|extent| u64::from(extent.records)).sum()
    }

    /// Bytes of memory that the lists take, roughly.
    pub(super) fn list_bytes(&self) -> u64 {
        let capacity: usize = self.lists.iter().map(|list| lock(list).capacity()).sum();
        (capacity * size_of::<Extent>()) as u64
    }

    /// Reads the records of an extent from the `skip`-th on, as many as fill `bytes`.
    pub(super) fn read(&self, extent: &Extent, skip: usize, bytes: &mut [u8]) -> Result<(), GridError> {
        let offset = extent.offset + (skip * extent.form.bytes()) as u64;
        let failed = GridError::io("reading a temporary file in", &self.folder);
        self.file.read_exact_at(bytes, offset).map_err(failed)
    }

    /// Gives an extent's disk space back. Where the file system cannot, the space is free when the import ends.
    pub(super) fn release(&self, extent: &Extent) {
        let bytes = padded(extent.records as usize * extent.form.bytes());
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.file, flags, extent.offset, bytes);
    }

    fn append(&self, list: usize, form: Form, bytes: &[u8]) -> Result<(), GridError> {
        let offset = self.end.fetch_add(padded(bytes.len()), Ordering::Relaxed);
        let failed = GridError::io("writing a temporary file in", &self.folder);
        self.file.write_all_at(bytes, offset).map_err(failed)?;
        let records = (bytes.len() / form.bytes()) as u32;
        lock(&self.lists[list]).push(Extent { offset, records, form });
        Ok(())
    }
}

fn padded(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(ALIGNMENT)
}

/// One thread's buffers.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    spill: &'a Spill,
    form: Form,
    capacity: usize,
    bytes: Vec<u8>,
    /// Bytes used of each buffer.
    used: Vec<u32>,
}

impl Writer<'_> {
    /// The form of the records appended from now on: as wide as ever needed.
    pub(super) fn widen(&mut self, form: Form) -> Result<Form, GridError> {
        let form = self.form.or(form);
        if form != self.form {
            self.flush()?;
            self.form = form;
        }
        Ok(form)
    }

    /// Appends a record of the writer's form.
    #[inline]
    pub(super) fn append<const N: usize>(&mut self, list: usize, record: [u8; N]) -> Result<(), GridError> {
        debug_assert_eq!(N, self.form.bytes());
        if self.used[list] as usize + N > self.capacity {
            self.flush_list(list)?;
        }
        let start = list * self.capacity + self.used[list] as usize;
        self.bytes[start..start + N].copy_from_slice(&record);
        self.used[list] += N as u32;
        Ok(())
    }

    /// Appends an edge with the ids of its source; the writer was widened for it.
    pub(super) fn append_edge(&mut self, list: usize, edge: &Edge) -> Result<(), GridError> {
        let &Edge { source, target, weight } = edge;
        match self.form {
            Form { wide: false, weighted: false } => {
                self.append(list, unit_record(source as u32, target as u32))
            }
            Form { wide: false, weighted: true } => {
                self.append(list, weighted_record(source as u32, target as u32, weight))
            }
            Form { wide: true, weighted: false } => {
                self.append::<16>(list, bytemuck::cast([source, target].map(u64::to_le_bytes)))
            }
            Form { wide: true, weighted: true } => {
                let record = [source, target, weight.to_bits()].map(u64::to_le_bytes);
                self.append::<24>(list, bytemuck::cast(record))
            }
        }
    }

    /// Writes what the buffers hold.
    pub(super) fn flush(&mut self) -> Result<(), GridError> {
        (0..self.used.len()).try_for_each(|list| self.flush_list(list))
    }

    fn flush_list(&mut self, list: usize) -> Result<(), GridError> {
        let used = std::mem::take(&mut self.used[list]) as usize;
        if used == 0 {
            return Ok(());
        }
        let start = list * self.capacity;
        self.spill.append(list, self.form, &self.bytes[start..start + used])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_gives_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Spill::create(folder.path(), 1).unwrap();
        let mut writer = spill.writer(100);
        let edge = |source, target, weight| Edge { source, target, weight };
        let written = [edge(1, 2, 1.0), edge(3, 4, -0.0), edge(1 << 63, 7, 0.1), edge(5, u64::MAX, 1.0)];
        for round in written {
            for _ in 0..9 {
                writer.widen(Form::of(&[round])).unwrap();
                writer.append_edge(0, &round).unwrap();
            }
        }
        writer.flush().unwrap();
        let mut read = Vec::new();
        for extent in spill.take(0) {
            let mut bytes = vec![0; extent.records as usize * extent.form.bytes()];
            spill.read(&extent, 0, &mut bytes).unwrap();
            read.extend(bytes.chunks_exact(extent.form.bytes()).map(|record| extent.form.decode(record)));
        }
        let bits = |edge: &Edge| (edge.source, edge.target, edge.weight.to_bits());
        let expected = written.iter().flat_map(|edge| std::iter::repeat_n(bits(edge), 9));
        assert!(read.iter().map(bits).eq(expected));
    }

    #[test]
    fn every_list_gives_back_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Spill::create(folder.path(), 3).unwrap();
        let mut writer = spill.writer(64);
        let mut written = Vec::new();
        for round in 0..40_u32 {
            let (source, target, weight) = (round, round * 7, f64::from(round) / 3.0);
            let unit = round < 20;
            let weight = if unit { 1.0 } else { weight };
            let form = writer.widen(Form { wide: false, weighted: !unit }).unwrap();
            assert_eq!(form.weighted, !unit);
            let list = round as usize % 3;
            if unit {
                writer.append(list, unit_record(source, target)).unwrap();
            } else {
                writer.append(list, weighted_record(source, target, weight)).unwrap();
            }
            written.push((list, Edge { source: source.into(), target: target.into(), weight }));
        }
        writer.flush().unwrap();
        for list in 0..3 {
            let mut read = Vec::new();
            for extent in spill.take(list) {
                let mut bytes = vec![0; extent.records as usize * extent.form.bytes()];
                spill.read(&extent, 0, &mut bytes).unwrap();
                read.extend(bytes.chunks_exact(extent.form.bytes()).map(|record| extent.form.decode(record)));
                spill.release(&extent);
            }
            let expected: Vec<Edge> =
                written.iter().filter(|(of, _)| *of == list).map(|(_, edge)| *edge).collect();
            assert_eq!(read, expected);
        }
    }
}
