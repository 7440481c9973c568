//! Memory for the index's tables, straight from the kernel: tables that grow a little at a time would leave holes in
//! a heap that are as large as what they hold.

use crate::index::Packed;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};

const PAGE: usize = 4096;

/// An array of packed slots, all empty at first, that fills whole pages.
pub struct Table {
    start: NonNull<Packed>,
    length: usize,
}

impl Default for Table {
    fn default() -> Table {
        Table { start: NonNull::dangling(), length: 0 }
    }
}

#[allow(unsafe_code)]
mod raw {
    use super::*;

    // SAFETY: a Table owns its memory alone, and hands out references only through &self and &mut self.
    unsafe impl Send for Table {}

    impl Table {
        /// Room for at least `least` slots.
        pub fn new(least: usize) -> Table {
            let bytes = (least.max(1) * size_of::<Packed>()).next_multiple_of(PAGE);
            let flags = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
            let start = unsafe { mmap_anonymous(null_mut(), bytes, flags.0, flags.1) };
            let start = start.ok().and_then(|start| NonNull::new(start.cast::<Packed>()));
            let start = start.unwrap_or_else(|| panic!("no memory for {bytes} bytes of the index"));
            Table { start, length: bytes / size_of::<Packed>() }
        }
    }

    impl Deref for Table {
        type Target = [Packed];
        fn deref(&self) -> &[Packed] {
            // SAFETY: `start` points to `length` slots of a mapping that is ours until drop (or dangles, aligned, for
            // none). The kernel filled it with zeros, which is the empty slot; any bytes are a Packed.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
        }
    }

    impl DerefMut for Table {
        fn deref_mut(&mut self) -> &mut [Packed] {
            // SAFETY: as above; &mut self is exclusive.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
        }
    }

    impl Drop for Table {
        fn drop(&mut self) {
            if self.length > 0 {
                let bytes = (self.length * size_of::<Packed>()).next_multiple_of(PAGE);
                // SAFETY: exactly the mapping that `new` made, and nobody refers to it any more.
                let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), bytes) };
            }
        }
    }
}
