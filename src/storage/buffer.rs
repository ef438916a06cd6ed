//! Memory that O_DIRECT accepts: page-aligned, allocated once, never moved.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

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
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero, which `layout` asserts.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, len, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) }
    }

    fn layout(len: usize) -> Layout {
        assert!(len > 0 && len.is_multiple_of(ALIGNMENT), "a direct buffer of {len} bytes");
        Layout::from_size_align(len, ALIGNMENT).expect("a size that fits the address space")
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
        // SAFETY: allocated in `new` with the same layout, and freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised (zeroed) bytes, and &self keeps writers out.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and &mut self makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}
