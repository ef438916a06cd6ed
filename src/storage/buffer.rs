//! Memory that O_DIRECT accepts: page-aligned, allocated once, never moved.
//!
//! It is mapped, not taken from the allocator. That one spends up to a page more on each aligned block (an eighth of
//! 32 KiB, which a budget full of small blocks does not have), and writes the zeros itself.

use std::alloc::{Layout, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Alignment of every buffer, and of offsets and lengths of direct requests.
pub const ALIGNMENT: usize = 4096;

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// An owned, zeroed, page-aligned buffer. Zeroed pages cost no memory until they are written.
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    id: u64,
}

// SAFETY: the buffer owns its memory exclusively, like a Box<[u8]>.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads; writing needs &mut.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// A buffer of `len` bytes, a positive multiple of [`ALIGNMENT`].
    ///
    /// # Panics
    /// Where `len` is zero or no multiple of the alignment: sizes are checked long before.
    pub fn new(len: usize) -> Self {
        assert!(len > 0 && len.is_multiple_of(ALIGNMENT), "a direct buffer of {len} bytes");
        // SAFETY: a new private mapping, where the kernel likes, touches no memory that is in use.
        let start =
            unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        match start.ok().and_then(|start| NonNull::new(start.cast())) {
            Some(start) => Self { start, len, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) },
            None => handle_alloc_error(Layout::array::<u8>(len).unwrap_or(Layout::new::<u8>())),
        }
    }

    /// A [buffer](Self::new) on huge pages, where the kernel has them to give, for data that is visited at random. Pages
    /// cost their whole memory as soon as one byte is written, and none reaches beyond the buffer.
    pub fn on_huge_pages(len: usize) -> Self {
        let buffer = Self::new(len);
        // SAFETY: the memory is the buffer's own, and anything may be in it.
        super::huge::advise(unsafe {
            std::slice::from_raw_parts_mut(buffer.start.as_ptr().cast::<MaybeUninit<u8>>(), len)
        });
        buffer
    }

    /// A number that no other buffer of this process has or will have; an address is used again.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where the memory starts, for the kernel to write to while the buffer is lent to it.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and unmapped only here; whoever could still look at it has borrowed
        // the buffer. Where the kernel cannot cut its list of mappings once more, the memory is lost, and nothing else.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` bytes, zero until they are written, and &self keeps writers out.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and &mut self makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}
