//! Edges set aside during an import: threads append buffers of records, each buffer on the list of its bucket, to the
//! memory that the import can spare and then to one anonymous file.
//!
//! The file has no name, so that it is gone however the process ends. One file for all buckets asks for no more
//! open files than one; what was consumed is given back by punching holes, so that an import needs the disk space
//! of its edges about once, and the kernel need not write back what nobody will read again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{FallocateFlags, fallocate};

use crate::dataset::Edge;
use crate::grid::columns::Buckets;
use crate::grid::error::GridError;
use crate::grid::parallel::lock;
use crate::storage::huge;

/// File systems give back whole blocks of this size, so buffers begin at its multiples.
const ALIGNMENT: u64 = 4096;

/// Bytes of a cache line.
const LINE: usize = 64;

/// How a record is stored: so many bytes of ids and, where `weighted`, an f64. A survey stores source and destination
/// (u32 each, or u64 where they ask for it); a partition what [`Packing`] makes of them. Writers widen when they meet
/// an id or a weight that asks for it, so most graphs never pay for what they lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) ids: u8,
    pub(super) weighted: bool,
}

impl Form {
    /// Two u32 without weight.
    pub(super) const NARROW: Self = Self { ids: 8, weighted: false };

    /// Bytes of a record.
    pub(super) fn bytes(self) -> usize {
        usize::from(self.ids) + if self.weighted { 8 } else { 0 }
    }

    /// The narrowest form for both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { ids: self.ids.max(other.ids), weighted: self.weighted | other.weighted }
    }

    /// The narrowest form of a survey for these edges.
    pub(super) fn of(edges: &[Edge]) -> Self {
        let ids = edges.iter().fold(0, |all, edge| all | edge.source | edge.target);
        let wide = ids > u64::from(u32::MAX);
        Self { ids: if wide { 16 } else { 8 }, weighted: any_weighted(edges) }
    }

    /// The edge in a survey's record of this form.
    pub(super) fn decode(self, record: &[u8]) -> Edge {
        let u32_at =
            |at: usize| record[at..].first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        let (source, target) =
            if self.ids > 8 { (u64_at(record, 0), u64_at(record, 8)) } else { (u32_at(0), u32_at(4)) };
        Edge { source, target, weight: self.weight(record) }
    }

    /// The weight in a record of this form.
    fn weight(self, record: &[u8]) -> f64 {
        if self.weighted { f64::from_bits(u64_at(record, self.ids.into())) } else { 1.0 }
    }
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    record[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The ids of a bucket's edge in few bytes: the destination within the bucket, and the source, next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packing {
    source_bits: u32,
    bucket_bits: u32,
}

/// Bytes that are written and read for a record's ids, of which those behind the record do not count.
pub(super) const WORD: usize = size_of::<u64>();

impl Packing {
    /// For sources below `vertices` (at most 2^32) and buckets of `2^bucket_bits` (at most 2^20) destinations: less than 8 bytes.
    pub(super) fn new(vertices: u64, bucket_bits: u32) -> Self {
        let source_bits = u64::BITS - vertices.saturating_sub(1).leading_zeros();
        assert!(source_bits + bucket_bits < u64::BITS - 8, "{source_bits} and {bucket_bits} bits");
        Self { source_bits, bucket_bits }
    }

    /// The form of its records.
    pub(super) fn form(self, weighted: bool) -> Form {
        let ids = (self.source_bits + self.bucket_bits).div_ceil(u8::BITS).max(1);
        Form { ids: ids as u8, weighted }
    }

    /// The ids as a number.
    #[inline]
    fn pack(self, source: u32, target: u32) -> u64 {
        let target = u64::from(target) & ((1 << self.bucket_bits) - 1);
        target << self.source_bits | u64::from(source)
    }

    /// Calls `take(source, destination within the bucket, weight)` for each record in `bytes`, of this form, behind
    /// which there are 8 more bytes.
    #[inline]
    pub(super) fn unpack(self, form: Form, bytes: &[u8], mut take: impl FnMut(u32, u32, f64)) {
        let (sources, ids) = ((1_u64 << self.source_bits) - 1, (1_u64 << (8 * u32::from(form.ids))) - 1);
        let split = |word: u64| ((word & sources) as u32, ((word & ids) >> self.source_bits) as u32);
        let record = form.bytes();
        let end = bytes.len() - WORD;
        for at in (0..end).step_by(record) {
            let (source, target) = split(u64_at(bytes, at));
            let weight = if form.weighted { form.weight(&bytes[at..]) } else { 1.0 };
            take(source, target, weight);
        }
    }
}

/// Whether the weight must be stored. Bits are compared, so that no weight comes back changed.
pub(in crate::grid) fn is_weighted(edge: &Edge) -> bool {
    edge.weight.to_bits() != 1.0_f64.to_bits()
}

/// Whether the weight of any of them must be stored. All are looked at, which is faster than to stop at one.
pub(super) fn any_weighted(edges: &[Edge]) -> bool {
    edges.iter().fold(false, |any, edge| any | is_weighted(edge))
}

/// Bytes of memory that a thread fills at once.
pub(super) const SLAB: usize = 2 << 20;

/// Where records lie.
#[derive(Debug, Clone, Copy)]
enum Place {
    File { offset: u64 },
    Memory { slab: u32, at: u32 },
}

/// Records of one form that lie together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    place: Place,
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
    /// Memory, in the order in which threads took to filling it; there once it is full.
    slabs: Vec<OnceLock<Vec<u8>>>,
    next_slab: AtomicUsize,
}

impl Spill {
    /// An empty file in `folder` with so many lists, and `memory` bytes to be filled before it.
    pub(super) fn create(folder: &Path, lists: usize, memory: u64) -> Result<Self, GridError> {
        let file =
            tempfile::tempfile_in(folder).map_err(GridError::io("creating a temporary file in", folder))?;
        let lists = (0..lists).map(|_| Mutex::default()).collect();
        let slabs = (0..memory / SLAB as u64).map(|_| OnceLock::new()).collect();
        let next_slab = AtomicUsize::new(0);
        Ok(Self { file, folder: folder.to_owned(), end: AtomicU64::new(0), lists, slabs, next_slab })
    }

    /// A writer with a buffer of `capacity` bytes for every list, and the form of its first records.
    pub(super) fn writer(&self, capacity: usize, form: Form) -> Writer<'_> {
        let lists = self.lists.len();
        let stride = capacity + LINE;
        let bytes = huge::filled(lists * stride, 0);
        Writer { spill: self, form, capacity, stride, bytes, used: vec![0; lists], slab: None }
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

    /// Bytes of memory that may be filled.
    pub(super) fn memory(&self) -> u64 {
        (self.slabs.len() * SLAB) as u64
    }

    /// `count` records of an extent from the `skip`-th on, with a word behind them, in memory or read into `buffer`,
    /// which has room for both.
    pub(super) fn view<'s>(
        &'s self,
        extent: &Extent,
        skip: usize,
        count: usize,
        buffer: &'s mut [u8],
    ) -> Result<&'s [u8], GridError> {
        let record = extent.form.bytes();
        let (skip, len) = (skip * record, count * record);
        match extent.place {
            Place::File { offset } => {
                let failed = GridError::io("reading a temporary file in", &self.folder);
                self.file.read_exact_at(&mut buffer[..len], offset + skip as u64).map_err(failed)?;
                Ok(&buffer[..len + WORD])
            }
            Place::Memory { slab, at } => {
                // The writers gave all their memory back before anybody reads.
                let slab = self.slabs[slab as usize].get().map_or(&[][..], Vec::as_slice);
                Ok(&slab[at as usize + skip..][..len + WORD])
            }
        }
    }

    /// Gives an extent's disk space back. Where the file system cannot, the space is free when the import ends.
    pub(super) fn release(&self, extent: &Extent) {
        let Place::File { offset } = extent.place else { return };
        let bytes = padded(extent.records as usize * extent.form.bytes());
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.file, flags, offset, bytes);
    }

    fn write(&self, bytes: &[u8]) -> Result<Place, GridError> {
        let offset = self.end.fetch_add(padded(bytes.len()), Ordering::Relaxed);
        let failed = GridError::io("writing a temporary file in", &self.folder);
        self.file.write_all_at(bytes, offset).map_err(failed)?;
        Ok(Place::File { offset })
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
    /// From one buffer to the next: a line more than they hold. Buffers fill evenly, and the ends of those that lie a
    /// power of two apart would share a few sets of the cache.
    stride: usize,
    bytes: Vec<u8>,
    /// Bytes used of each buffer.
    used: Vec<u32>,
    /// The memory that is being filled.
    slab: Option<Slab>,
}

/// Memory that belongs to one writer until it is full.
#[derive(Debug)]
struct Slab {
    number: usize,
    bytes: Vec<u8>,
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
    fn append<const N: usize>(&mut self, list: usize, record: [u8; N]) -> Result<(), GridError> {
        debug_assert_eq!(N, self.form.bytes());
        if self.used[list] as usize + N > self.capacity {
            self.flush_list(list)?;
        }
        let start = list * self.stride + self.used[list] as usize;
        self.bytes[start..start + N].copy_from_slice(&record);
        self.used[list] += N as u32;
        Ok(())
    }

    /// Appends edges without weight, each to the list of its bucket, to a writer of such.
    pub(super) fn append_units(
        &mut self,
        buckets: Buckets,
        packing: Packing,
        edges: &[(u32, u32)],
    ) -> Result<(), GridError> {
        let (capacity, stride, record) = (self.capacity, self.stride, u32::from(self.form.ids));
        for &(source, target) in edges {
            let list = buckets.of(target);
            if self.used[list] as usize + WORD > capacity {
                self.flush_list(list)?;
            }
            let used = &mut self.used[list];
            let start = list * stride + *used as usize;
            self.bytes[start..start + WORD].copy_from_slice(&packing.pack(source, target).to_le_bytes());
            *used += record;
        }
        Ok(())
    }

    /// Appends a bucket's edge with its weight to a writer of such.
    #[inline]
    pub(super) fn append_weighted(
        &mut self,
        list: usize,
        packing: Packing,
        source: u32,
        target: u32,
        weight: f64,
    ) -> Result<(), GridError> {
        let (ids, bytes) = (usize::from(self.form.ids), self.form.bytes());
        if self.used[list] as usize + bytes > self.capacity {
            self.flush_list(list)?;
        }
        let start = list * self.stride + self.used[list] as usize;
        let record = &mut self.bytes[start..start + bytes];
        record[..WORD].copy_from_slice(&packing.pack(source, target).to_le_bytes());
        record[ids..].copy_from_slice(&weight.to_bits().to_le_bytes());
        self.used[list] += bytes as u32;
        Ok(())
    }

    /// Appends an edge with the ids of its source; the writer was widened for it.
    pub(super) fn append_edge(&mut self, list: usize, edge: &Edge) -> Result<(), GridError> {
        let &Edge { source, target, weight } = edge;
        let narrow = source & u64::from(u32::MAX) | target << 32;
        match (self.form.ids, self.form.weighted) {
            (8, false) => self.append(list, narrow.to_le_bytes()),
            (8, true) => {
                let record = [narrow, weight.to_bits()].map(u64::to_le_bytes);
                self.append::<16>(list, bytemuck::cast(record))
            }
            (_, false) => self.append::<16>(list, bytemuck::cast([source, target].map(u64::to_le_bytes))),
            (_, true) => {
                let record = [source, target, weight.to_bits()].map(u64::to_le_bytes);
                self.append::<24>(list, bytemuck::cast(record))
            }
        }
    }

    /// Sets aside what the buffers hold, so that it can be read.
    pub(super) fn flush(&mut self) -> Result<(), GridError> {
        (0..self.used.len()).try_for_each(|list| self.flush_list(list))?;
        self.give_slab();
        Ok(())
    }

    #[cold]
    fn flush_list(&mut self, list: usize) -> Result<(), GridError> {
        let used = std::mem::take(&mut self.used[list]) as usize;
        if used == 0 {
            return Ok(());
        }
        let start = list * self.stride;
        let place = match self.keep(start, used) {
            Some(place) => place,
            None => self.spill.write(&self.bytes[start..start + used])?,
        };
        let (form, records) = (self.form, (used / self.form.bytes()) as u32);
        lock(&self.spill.lists[list]).push(Extent { place, records, form });
        Ok(())
    }

    /// Copies a part of the buffers to memory, if there is some left.
    fn keep(&mut self, start: usize, used: usize) -> Option<Place> {
        if self.slab.as_ref().is_none_or(|slab| slab.bytes.len() + used + WORD > SLAB) {
            self.give_slab();
            // So that the counter cannot wrap, it is looked at first.
            let slabs = self.spill.slabs.len();
            if used + WORD > SLAB || self.spill.next_slab.load(Ordering::Relaxed) >= slabs {
                return None;
            }
            let number = self.spill.next_slab.fetch_add(1, Ordering::Relaxed);
            let bytes = (number < slabs).then(|| huge::with_capacity(SLAB))?;
            self.slab = Some(Slab { number, bytes });
        }
        let slab = self.slab.as_mut()?;
        let place = Place::Memory { slab: slab.number as u32, at: slab.bytes.len() as u32 };
        slab.bytes.extend_from_slice(&self.bytes[start..start + used]);
        Some(place)
    }

    fn give_slab(&mut self) {
        if let Some(Slab { number, mut bytes }) = self.slab.take() {
            bytes.extend_from_slice(&[0; WORD]);
            // Its number was given to this writer alone, so nobody else fills the place.
            let _ = self.spill.slabs[number].set(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_gives_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let spill = Spill::create(folder.path(), 1, 0).unwrap();
        let mut writer = spill.writer(100, Form::NARROW);
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
            let (count, record) = (extent.records as usize, extent.form.bytes());
            let mut bytes = vec![0; count * record + WORD];
            let bytes = spill.view(&extent, 0, count, &mut bytes).unwrap();
            read.extend(
                bytes[..count * record].chunks_exact(record).map(|record| extent.form.decode(record)),
            );
        }
        let bits = |edge: &Edge| (edge.source, edge.target, edge.weight.to_bits());
        let expected = written.iter().flat_map(|edge| std::iter::repeat_n(bits(edge), 9));
        assert!(read.iter().map(bits).eq(expected));
    }

    #[test]
    fn every_list_gives_back_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for (vertices, bucket_bits, memory) in
            [(2_u64, 0, 0), (300, 7, SLAB as u64), (1 << 24, 16, 0), (1 << 32, 20, 3 << 20)]
        {
            let spill = Spill::create(folder.path(), 3, memory).unwrap();
            let packing = Packing::new(vertices, bucket_bits);
            let mut writer = spill.writer(64, packing.form(false));
            let mut written = Vec::new();
            for round in 0..40_u32 {
                let source = (u64::from(round).wrapping_mul(0x9e37_79b9) % vertices) as u32;
                let target = round.wrapping_mul(0x85eb_ca6b) % (1 << bucket_bits);
                let list = round as usize % 3;
                let above = (list as u32) << bucket_bits;
                let weight = if round < 20 { 1.0 } else { f64::from(round) / 3.0 };
                if writer.widen(packing.form(round >= 20)).unwrap().weighted {
                    writer.append_weighted(list, packing, source, above | target, weight).unwrap();
                } else {
                    let buckets = Buckets { vertices, shift: bucket_bits };
                    writer.append_units(buckets, packing, &[(source, above | target)]).unwrap();
                }
                written.push((list, (source, target, weight.to_bits())));
            }
            writer.flush().unwrap();
            for list in 0..3 {
                let mut read = Vec::new();
                for extent in spill.take(list) {
                    let count = extent.records as usize;
                    let mut bytes = vec![0xff; count * extent.form.bytes() + WORD];
                    let bytes = spill.view(&extent, 0, count, &mut bytes).unwrap();
                    packing.unpack(extent.form, bytes, |source, target, weight| {
                        read.push((source, target, weight.to_bits()));
                    });
                    spill.release(&extent);
                }
                let expected: Vec<_> =
                    written.iter().filter(|(of, _)| *of == list).map(|(_, edge)| *edge).collect();
                assert_eq!(read, expected);
            }
        }
    }
}
