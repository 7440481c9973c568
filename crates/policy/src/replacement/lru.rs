//! Least recently used: a queue in which a use makes the newest.

use super::fifo::Fifo;
use super::{Left, Replacement};

pub struct Lru(Fifo);

impl Lru {
    pub fn new(most: u64) -> Lru {
        Lru(Fifo::new(most))
    }
}

impl Replacement for Lru {
    fn largest(&self) -> u64 {
        self.0.largest()
    }

    fn get(&mut self, object: u32) -> bool {
        self.0.touch(object)
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        self.0.insert(object, size, left);
    }

    fn remove(&mut self, object: u32) {
        self.0.remove(object);
    }

    fn evict(&mut self, left: &mut dyn FnMut(Left)) -> bool {
        self.0.evict(left)
    }

    fn resize(&mut self, most: u64, left: &mut dyn FnMut(Left)) {
        self.0.resize(most, left);
    }
}
