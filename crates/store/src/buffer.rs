//! Memory that direct I/O accepts: aligned to a block, reused.
//!
//! Touching fresh memory costs more than the copy into it on virtual machines, so a pool keeps what was used before,
//! sorted by size, up to a bound; beyond it memory goes back to the allocator.

use crate::format::BLOCK;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
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

/// Buffers that wait for their next use, by the power of two of their size.
pub struct Pool {
    classes: [Mutex<Vec<Free>>; CLASSES],
    /// Bytes that each class may keep.
    bound: usize,
}

struct Free(NonNull<u8>);

#[allow(unsafe_code)]
// SAFETY: the memory behind a free buffer belongs to nobody but the list that holds it.
unsafe impl Send for Free {}

const SMALLEST: usize = BLOCK;
/// 4 KiB to 8 MiB.
const CLASSES: usize = 12;

impl Pool {
    pub fn new(bound: usize) -> Arc<Pool> {
        Arc::new(Pool { classes: Default::default(), bound })
    }

    /// At least `length` bytes with unspecified (but initialised) content.
    pub fn take(self: &Arc<Pool>, length: usize) -> Buffer {
        let class = class(length);
        let size = SMALLEST << class;
        if class >= CLASSES {
            return Buffer::new(length);
        }
        let free = self.classes[class].lock().unwrap_or_else(PoisonError::into_inner).pop();
        let start = free.map_or_else(|| raw::allocate(size), |f| f.0);
        Buffer { start, length: size, pool: Some(self.clone()) }
    }

    fn keep(&self, start: NonNull<u8>, length: usize) -> bool {
        let mut list = self.classes[class(length)].lock().unwrap_or_else(PoisonError::into_inner);
        let room = (list.len() + 1) * length <= self.bound;
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
                raw::free(free.0, SMALLEST << class);
            }
        }
    }
}

fn class(length: usize) -> usize {
    length.next_power_of_two().max(SMALLEST).ilog2() as usize - SMALLEST.ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = Pool::new(64 << 10);
        let mut buffer = pool.take(9_000);
        assert_eq!((buffer.len(), buffer.as_mut_ptr() as usize % BLOCK), (16 << 10, 0));
        buffer[0] = 7;
        let at = buffer.as_mut_ptr();
        drop(buffer);
        assert_eq!(pool.take(16 << 10).as_mut_ptr(), at);
        let many: Vec<Buffer> = (0..8).map(|_| pool.take(16 << 10)).collect();
        drop(many);
        assert_eq!(pool.classes[2].lock().unwrap().len(), 4, "64 KiB hold four");
        assert_eq!(pool.take(100 << 20).len(), 100 << 20);
    }
}
