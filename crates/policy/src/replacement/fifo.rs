//! First in, first out.

use super::{Left, Replacement, entry};
use crate::collections::list::{Links, List};

pub struct Fifo {
    most: u64,
    bytes: u64,
    /// 0: not here.
    sizes: Vec<u64>,
    links: Links,
    list: List,
}

impl Fifo {
    pub fn new(most: u64) -> Fifo {
        Fifo { most, bytes: 0, sizes: Vec::new(), links: Links::default(), list: List::default() }
    }

    /// Whether an object is here; then it becomes the newest, as in LRU.
    pub fn touch(&mut self, object: u32) -> bool {
        let here = self.get(object);
        if here {
            self.links.take_out(&mut self.list, object);
            self.links.put_in(&mut self.list, object);
        }
        here
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest leave until there are no more bytes than these.
    pub fn shrink(&mut self, most: u64, left: &mut dyn FnMut(Left)) {
        while self.bytes > most {
            let oldest = self.list.oldest;
            self.remove(oldest);
            left(Left::Cache(oldest));
            left(Left::Memory(oldest));
        }
    }
}

impl Replacement for Fifo {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        self.sizes.get(object as usize).is_some_and(|size| *size > 0)
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        self.shrink(self.most - size, left);
        *entry(&mut self.sizes, object) = size;
        self.bytes += size;
        self.links.put_in(&mut self.list, object);
    }

    fn evict(&mut self, left: &mut dyn FnMut(Left)) -> bool {
        let any = self.bytes > 0;
        self.shrink(self.bytes.saturating_sub(1), left);
        any
    }

    fn remove(&mut self, object: u32) {
        self.bytes -= std::mem::take(&mut self.sizes[object as usize]);
        self.links.take_out(&mut self.list, object);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}
