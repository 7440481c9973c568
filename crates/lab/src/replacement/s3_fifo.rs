//! S3-FIFO (Yang and others, SOSP 2023, Algorithm 1), in bytes where the paper counts objects: new objects go through a small
//! queue, a tenth of the cache. Those used more than once meanwhile move to the main queue; the others leave, and only their
//! numbers are remembered, as ghosts. A ghost that is asked for goes to the main queue, where a use saves from leaving once, and
//! up to three of them count.

use super::{Left, Replacement, entry};
use crate::list::{Links, List, NONE};

const MOST_USES: u8 = 3;
/// Share of the small queue: one in so many bytes.
const SMALL: u64 = 10;

pub struct S3Fifo {
    most: u64,
    entries: Vec<Entry>,
    links: Links,
    /// By place; that of `Out` stays empty. Ghosts stand for as many bytes as the main queue may have.
    queues: [Queue; 4],
}

#[derive(Clone, Copy, Default)]
struct Entry {
    size: u64,
    place: Place,
    uses: u8,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Out,
    Small,
    Main,
    Ghosts,
}

#[derive(Default)]
struct Queue {
    list: List,
    bytes: u64,
}

impl S3Fifo {
    pub fn new(most: u64) -> S3Fifo {
        S3Fifo { most, entries: Vec::new(), links: Links::default(), queues: Default::default() }
    }

    /// Bytes of the main queue when it is full.
    fn main_most(&self) -> u64 {
        self.most - self.most / SMALL
    }

    fn queue(&self, place: Place) -> &Queue {
        &self.queues[place as usize]
    }

    fn oldest(&self, place: Place) -> Option<u32> {
        Some(self.queue(place).list.oldest).filter(|oldest| *oldest != NONE)
    }

    /// To the end of another queue, or out of all.
    fn put(&mut self, object: u32, place: Place, uses: u8) {
        let Entry { size, place: before, .. } = self.entries[object as usize];
        if before != Place::Out {
            let queue = &mut self.queues[before as usize];
            queue.bytes -= size;
            self.links.take_out(&mut queue.list, object);
        }
        if place != Place::Out {
            let queue = &mut self.queues[place as usize];
            queue.bytes += size;
            self.links.put_in(&mut queue.list, object);
        }
        self.entries[object as usize] = Entry { size, place, uses };
    }

    fn bytes(&self) -> u64 {
        self.queue(Place::Small).bytes + self.queue(Place::Main).bytes
    }

    fn evict(&mut self, left: &mut dyn FnMut(Left)) {
        let (small, main) = (self.queue(Place::Small).bytes, self.queue(Place::Main).bytes);
        // In less than ten bytes the small queue is full when anything is in it.
        if main == 0 || small > 0 && small >= self.most / SMALL {
            self.evict_small(left);
        } else {
            self.evict_main(left);
        }
    }

    /// Until one has left, or all have moved on.
    fn evict_small(&mut self, left: &mut dyn FnMut(Left)) {
        while let Some(oldest) = self.oldest(Place::Small) {
            if self.entries[oldest as usize].uses <= 1 {
                self.put(oldest, Place::Ghosts, 0);
                left(Left::Cache(oldest));
                while self.queue(Place::Ghosts).bytes > self.main_most()
                    && let Some(forgotten) = self.oldest(Place::Ghosts)
                {
                    self.put(forgotten, Place::Out, 0);
                    left(Left::Memory(forgotten));
                }
                return;
            }
            self.put(oldest, Place::Main, 0);
            while self.queue(Place::Main).bytes > self.main_most() {
                self.evict_main(left);
            }
        }
    }

    fn evict_main(&mut self, left: &mut dyn FnMut(Left)) {
        while let Some(oldest) = self.oldest(Place::Main) {
            match self.entries[oldest as usize].uses {
                0 => {
                    self.put(oldest, Place::Out, 0);
                    left(Left::Cache(oldest));
                    left(Left::Memory(oldest));
                    return;
                }
                uses => self.put(oldest, Place::Main, uses - 1),
            }
        }
    }
}

impl Replacement for S3Fifo {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        match self.entries.get_mut(object as usize) {
            Some(entry) if matches!(entry.place, Place::Small | Place::Main) => {
                entry.uses = (entry.uses + 1).min(MOST_USES);
                true
            }
            _ => false,
        }
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        let is_ghost = entry(&mut self.entries, object).place == Place::Ghosts;
        if is_ghost {
            self.put(object, Place::Out, 0);
        }
        while self.bytes() + size > self.most {
            self.evict(left);
        }
        self.entries[object as usize].size = size;
        self.put(object, if is_ghost { Place::Main } else { Place::Small }, 0);
    }

    fn remove(&mut self, object: u32) {
        self.put(object, Place::Out, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of less than ten bytes is nothing.
    #[test]
    fn a_cache_of_a_few_bytes_finds_somebody_who_leaves() {
        let mut cache = S3Fifo::new(9);
        for object in [0, 0, 0, 1, 2, 3, 2, 2, 3, 3, 4] {
            if !cache.get(object) {
                cache.insert(object, 3, &mut |_| {});
            }
            assert!(cache.bytes() <= 9);
        }
        assert!(cache.get(4));
    }
}
