//! Arrays on huge pages, for data that the edge loop visits at random: with pages of 4 KiB each visit beyond the
//! near cache would look up its page too, which in a virtual machine costs more than the visit itself.

use std::mem::MaybeUninit;

use rustix::mm::{Advice, madvise};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// `len` times `value`, on huge pages where the kernel has them to give.
pub fn filled<T: Clone>(len: usize, value: T) -> Vec<T> {
    let mut array = with_capacity(len);
    array.resize(len, value);
    array
}

/// What the iterator yields, `len` items, on huge pages where the kernel has them to give.
pub fn collected<T>(len: usize, items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut array = with_capacity(len);
    array.extend(items);
    array
}

/// Room for exactly `len` items, none of which is there yet.
pub fn with_capacity<T>(len: usize) -> Vec<T> {
    let mut array = Vec::new();
    array.reserve_exact(len);
    advise(array.spare_capacity_mut());
    array
}

/// Asks for huge pages where whole ones fit, so that no page reaches beyond the array and costs more memory.
pub(super) fn advise<T>(memory: &mut [MaybeUninit<T>]) {
    let range = memory.as_mut_ptr_range();
    let (start, end) = (range.start.cast::<u8>(), range.end.addr());
    let skip = start.addr().next_multiple_of(HUGE) - start.addr();
    let pages = end.saturating_sub(start.addr() + skip) / HUGE;
    if pages > 0 {
        // SAFETY: the range lies inside `memory`, which we hold alone, and this advice changes the size of pages, not
        // what is in them. A kernel that has no huge pages says so, and the small ones do.
        let _ = unsafe { madvise(start.add(skip).cast(), pages * HUGE, Advice::LinuxHugepage) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_holds_what_it_is_given_and_has_room_for_no_more() {
        for len in [0, 1, 1000, 3 << 20] {
            let array = filled(len, 7_u32);
            assert_eq!((array.len(), array.capacity()), (len, len));
            assert!(array.iter().all(|&item| item == 7));
            assert_eq!(
                collected(len, (0..len).map(|item| item as u32 % 251)).last().copied(),
                len.checked_sub(1).map(|last| last as u32 % 251)
            );
        }
    }
}
