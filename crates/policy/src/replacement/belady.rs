//! Belady's MIN (IBM Systems Journal 5:2, 1966), which knows the future: who is asked for last leaves, and that may be the one
//! that comes. No policy has more hits where all objects are of one size; where they are not, one that prefers small objects may.

use super::{Left, Replacement, entry};
use crate::collections::heap::Heap;
use std::cmp::Reverse;

pub struct Belady {
    most: u64,
    bytes: u64,
    /// 0: not here.
    sizes: Vec<u64>,
    /// The one that is asked for last is first; of those that never are, that of the smallest number.
    order: Heap<(Reverse<u64>, u32)>,
    next: u64,
}

impl Belady {
    pub fn new(most: u64) -> Belady {
        Belady { most, bytes: 0, sizes: Vec::new(), order: Heap::default(), next: 0 }
    }
}

impl Replacement for Belady {
    fn largest(&self) -> u64 {
        self.most
    }

    fn foresee(&mut self, next: u64) {
        self.next = next;
    }

    fn get(&mut self, object: u32) -> bool {
        let here = self.sizes.get(object as usize).is_some_and(|size| *size > 0);
        if here {
            self.order.put(object, (Reverse(self.next), object));
        }
        here
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        *entry(&mut self.sizes, object) = size;
        self.bytes += size;
        self.order.put(object, (Reverse(self.next), object));
        while self.bytes > self.most {
            let Some((_, last)) = self.order.first() else { break };
            self.remove(last);
            left(Left::Cache(last));
            left(Left::Memory(last));
        }
    }

    fn remove(&mut self, object: u32) {
        self.bytes -= std::mem::take(&mut self.sizes[object as usize]);
        self.order.remove(object);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}
