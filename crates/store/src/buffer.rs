//! Memory that direct I/O accepts: aligned to a block, reused.
//!
//! Touching fresh memory costs more than the copy into it on virtual machines, so a pool keeps what was used before,
//! sorted by size, up to a bound; beyond it memory goes back to the allocator. Sizes are a quarter of a power of two apart: a
//! span and what lies around it in its blocks is little more than a power of two.

use crate::format::BLOCK;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// An owned, initialised block of memory, aligned to `BLOCK`.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
    pool: Option<Arc<Pool>>,
}

#[allow(unsafe_code)]
mod raw {
    use super::*;

    // SAFETY: a Buffer owns its memory alone, and hands out references only through &self and &mut self.
    unsafe impl Send for Buffer {}
    // SAFETY: as above; shared access only reads.
    unsafe impl Sync for Buffer {}

    fn layout(length: usize) -> Layout {
        Layout::from_size_align(length, BLOCK).expect("buffers are far smaller than the address space")
    }

    pub(super) fn allocate(length: usize) -> NonNull<u8> {
        assert!(length > 0);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout(length)) };
        NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout(length)))
    }

    /// `start` came from `allocate(length)` and nobody uses it any more.
    pub(super) fn free(start: NonNull<u8>, length: usize) {
        // SAFETY: allocated by `allocate` with the same layout; the only caller is Buffer's drop, once.
        unsafe { dealloc(start.as_ptr(), layout(length)) }
    }

    impl Deref for Buffer {
        type Target = [u8];
        fn deref(&self) -> &[u8] {
            // SAFETY: `start` points to `length` bytes that were initialised (zeroed) at allocation and are ours
            // until drop; &self keeps writers out.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
        }
    }

    impl DerefMut for Buffer {
        fn deref_mut(&mut self) -> &mut [u8] {
            // SAFETY: as above; &mut self is exclusive.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
        }
    }
}

impl Buffer {
    /// `length` bytes of zeros, in no pool.
    pub fn new(length: usize) -> Buffer {
        Buffer { start: raw::allocate(length), length, pool: None }
    }

    /// Where the kernel is to write. The caller keeps the buffer alive and untouched meanwhile.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let returned = self.pool.take().is_some_and(|pool| pool.keep(self.start, self.length));
        if !returned {
            raw::free(self.start, self.length);
        }
    }
}

/// Buffers that wait for their next use, by their size.
pub struct Pool {
    classes: [Mutex<Vec<Free>>; CLASSES],
    /// Bytes that each class may keep.
    bound: usize,
    /// Bytes that all of them keep: twice that at most.
    kept: AtomicUsize,
}

struct Free(NonNull<u8>);

#[allow(unsafe_code)]
// SAFETY: the memory behind a free buffer belongs to nobody but the list that holds it.
unsafe impl Send for Free {}

/// 4 KiB to 8 MiB.
const CLASSES: usize = 40;

impl Pool {
    /// Keeps up to `bound` bytes of each size, and twice as many in all.
    pub fn new(bound: usize) -> Arc<Pool> {
        let classes = std::array::from_fn(|_| Mutex::default());
        Arc::new(Pool { classes, bound, kept: AtomicUsize::new(0) })
    }

    /// At least `length` bytes with unspecified (but initialised) content.
    pub fn take(self: &Arc<Pool>, length: usize) -> Buffer {
        let (class, size) = class(length);
        if class >= CLASSES {
            return Buffer::new(length);
        }
        let free = self.classes[class].lock().unwrap_or_else(PoisonError::into_inner).pop();
        let start = match free {
            Some(Free(start)) => {
                self.kept.fetch_sub(size, Relaxed);
                start
            }
            None => raw::allocate(size),
        };
        Buffer { start, length: size, pool: Some(self.clone()) }
    }

    fn keep(&self, start: NonNull<u8>, length: usize) -> bool {
        let mut list = self.classes[class(length).0].lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |kept: usize| (kept + length <= 2 * self.bound).then_some(kept + length);
        let room = (list.len() + 1) * length <= self.bound
            && self.kept.fetch_update(Relaxed, Relaxed, has_room).is_ok();
        if room {
            list.push(Free(start));
        }
        room
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, list) in self.classes.iter().enumerate() {
            for free in list.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
                raw::free(free.0, size(class));
            }
        }
    }
}

/// The class of buffers of at least `length` bytes, and their size: 1 to 4 blocks, then each power of two in four steps.
fn class(length: usize) -> (usize, usize) {
    let blocks = length.div_ceil(BLOCK).max(1);
    if blocks <= 4 {
        return (blocks - 1, blocks * BLOCK);
    }
    let power = (blocks - 1).ilog2() as usize;
    let steps = (blocks - (1 << power)).div_ceil(1 << (power - 2));
    let class = 4 * (power - 1) + steps - 1;
    (class, size(class))
}

/// Bytes of a class's buffers.
fn size(class: usize) -> usize {
    match class {
        0..4 => (class + 1) * BLOCK,
        _ => ((4 + class % 4 + 1) * BLOCK) << (class / 4 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = Pool::new(64 << 10);
        let mut buffer = pool.take(9_000);
        assert_eq!((buffer.len(), buffer.as_mut_ptr() as usize % BLOCK), (12 << 10, 0));
        buffer[0] = 7;
        let at = buffer.as_mut_ptr();
        drop(buffer);
        assert_eq!(pool.take(12 << 10).as_mut_ptr(), at);
        let many: Vec<Buffer> = (0..8).map(|_| pool.take(16 << 10)).collect();
        drop(many);
        assert_eq!(pool.classes[3].lock().unwrap().len(), 4, "64 KiB hold four");
        assert_eq!(pool.take(100 << 20).len(), 100 << 20);
    }

    #[test]
    fn a_buffer_is_little_larger_than_what_it_is_for() {
        for class_ in 0..CLASSES {
            assert_eq!(class(size(class_)), (class_, size(class_)));
            assert_eq!(class(size(class_) + 1).0, class_ + 1);
        }
        assert_eq!((size(0), size(CLASSES - 1)), (4 << 10, 8 << 20));
        let span = (256 << 10) + 2 * BLOCK;
        assert_eq!(Pool::new(0).take(span).len(), 320 << 10);
    }

    #[test]
    fn what_all_sizes_keep_together_is_bounded() {
        let pool = Pool::new(64 << 10);
        let many: Vec<Buffer> = (1..=16).flat_map(|n| [n * BLOCK; 4].map(|size| pool.take(size))).collect();
        drop(many);
        let kept: usize = (0..CLASSES).map(|n| size(n) * pool.classes[n].lock().unwrap().len()).sum();
        assert_eq!(kept, pool.kept.load(Relaxed));
        assert!((96 << 10..=128 << 10).contains(&kept), "{kept} bytes");
        let again: Vec<Buffer> = (1..=16).flat_map(|n| [n * BLOCK; 4].map(|size| pool.take(size))).collect();
        assert_eq!(pool.kept.load(Relaxed), 0);
        drop(again);
    }
}
