//! Memory for a table, straight from the kernel: tables that grow a little at a time would leave holes in a heap that are as
//! large as what they hold. Large ones ask for large pages.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

const PAGE: usize = 4096;
const LARGE_PAGE: usize = 2 << 20;

/// Words that fill whole pages, all zero at first. A page takes memory once it has been written to.
pub struct Words {
    start: NonNull<AtomicU64>,
    length: usize,
}

#[allow(unsafe_code)]
mod raw {
    use super::*;

    // SAFETY: Words own their mapping alone, and atomic words may be used from any thread.
    unsafe impl Send for Words {}
    // SAFETY: as above; only shared references to atomics are handed out.
    unsafe impl Sync for Words {}

    impl Words {
        /// Room for at least `least` words.
        pub fn new(least: usize) -> Words {
            let bytes = (least.max(1) * size_of::<AtomicU64>()).next_multiple_of(PAGE);
            #[cfg(test)]
            if let Some(words) = super::spare::take(bytes) {
                return words;
            }
            let start = if bytes < LARGE_PAGE { map(bytes) } else { map_for_large_pages(bytes) };
            Words { start: start.cast(), length: bytes / size_of::<AtomicU64>() }
        }
    }

    impl Deref for Words {
        type Target = [AtomicU64];
        fn deref(&self) -> &[AtomicU64] {
            // SAFETY: `start` points to `length` words of a mapping that is ours until drop, aligned to pages. The kernel filled
            // it with zeros; any bytes are a word.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
        }
    }

    impl Drop for Words {
        fn drop(&mut self) {
            #[cfg(test)]
            if super::spare::keep(size_of_val(&**self), || Words { start: self.start, length: self.length }) {
                return;
            }
            // SAFETY: exactly what `new` kept of its mapping, and nobody refers to it any more.
            unsafe { unmap(self.start.as_ptr().cast(), size_of_val(&**self)) };
        }
    }

    fn map(bytes: usize) -> NonNull<c_void> {
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let start = start.ok().and_then(NonNull::new);
        start.unwrap_or_else(|| panic!("no memory for {bytes} bytes of the index"))
    }

    /// Begins at a large page, so that as many as possible are whole. A large page that is not whole in the mapping becomes small
    /// ones: it takes no memory for what is beyond the end.
    fn map_for_large_pages(bytes: usize) -> NonNull<c_void> {
        let all = map(bytes + LARGE_PAGE - PAGE);
        let before = all.as_ptr().align_offset(LARGE_PAGE);
        let after = LARGE_PAGE - PAGE - before;
        // SAFETY: `before`, `bytes` and `after` are the lengths of three neighbouring pieces of the new mapping, all multiples of a
        // page. The outer ones are given back, and nobody knows them.
        unsafe {
            let start = all.byte_add(before);
            unmap(all.as_ptr(), before);
            unmap(start.byte_add(bytes).as_ptr(), after);
            // Advice only: without large pages the index is slower, not wrong.
            let _ = madvise(start.as_ptr(), bytes, Advice::LinuxHugepage);
            start
        }
    }

    /// # Safety
    /// `bytes` from `start` on are mapped, or none, and nobody refers to them.
    unsafe fn unmap(start: *mut c_void, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller's promise.
            let _ = unsafe { munmap(start, bytes) };
        }
    }
}

/// Simulations make and drop many small tables: a thread keeps the pages of those that it dropped for its next ones, since two
/// threads that have the kernel map and unmap all the time wait for each other.
#[cfg(test)]
mod spare {
    use super::{PAGE, Words};
    use std::cell::RefCell;
    use std::sync::atomic::Ordering::Relaxed;

    const MOST: usize = 1 << 10;

    thread_local! {
        static SPARE: RefCell<Vec<Words>> = const { RefCell::new(Vec::new()) };
    }

    pub fn take(bytes: usize) -> Option<Words> {
        let words = SPARE.with_borrow_mut(|spare| spare.pop_if(|_| bytes == PAGE))?;
        words.iter().for_each(|word| word.store(0, Relaxed));
        Some(words)
    }

    /// Whether the page is kept: `words` is what owns it then.
    pub fn keep(bytes: usize, words: impl FnOnce() -> Words) -> bool {
        let keep = |spare: &RefCell<Vec<Words>>| {
            let mut spare = spare.borrow_mut();
            let has_room = bytes == PAGE && spare.len() < MOST;
            spare.extend(has_room.then(words));
            has_room
        };
        SPARE.try_with(keep).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_are_zero_writable_and_as_many_as_asked_for() {
        for least in [0, 1, 512, 513, (LARGE_PAGE / 8) - 1, LARGE_PAGE / 8 + 1, LARGE_PAGE / 8 * 3 + 700] {
            let words = Words::new(least);
            assert!(
                words.len() >= least && words.len() < least + 1 + PAGE / 8,
                "{} for {least}",
                words.len()
            );
            assert!(words.iter().all(|word| word.load(Relaxed) == 0));
            words.iter().for_each(|word| word.store(1, Relaxed));
        }
    }
}
