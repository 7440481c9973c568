//! Queues in which objects wait: an object is in one of them or in none, and moves in constant time.

use super::entry;
use crate::collections::list::{Links, List, NONE};

/// A queue, by its number from 1 on.
pub type Place = usize;
/// In none.
pub const OUT: Place = 0;

/// `N` counts `OUT`, too.
pub struct Queues<const N: usize> {
    entries: Vec<Entry>,
    links: Links,
    queues: [Queue; N],
}

#[derive(Clone, Copy, Default)]
struct Entry {
    size: u64,
    place: u8,
    mark: u8,
}

#[derive(Clone, Copy, Default)]
struct Queue {
    list: List,
    bytes: u64,
}

impl<const N: usize> Default for Queues<N> {
    fn default() -> Queues<N> {
        Queues { entries: Vec::new(), links: Links::default(), queues: [Queue::default(); N] }
    }
}

impl<const N: usize> Queues<N> {
    /// Where an object is; nobody has asked for it before, perhaps.
    pub fn place(&self, object: u32) -> Place {
        self.entries.get(object as usize).map_or(OUT, |entry| entry.place.into())
    }

    /// Of an object that has been put.
    pub fn size(&self, object: u32) -> u64 {
        self.entries[object as usize].size
    }

    /// What a policy remembers of an object that has been put; 0 when it comes.
    pub fn mark(&mut self, object: u32) -> &mut u8 {
        &mut self.entries[object as usize].mark
    }

    pub fn bytes(&self, place: Place) -> u64 {
        self.queues[place].bytes
    }

    pub fn oldest(&self, place: Place) -> Option<u32> {
        Some(self.queues[place].list.oldest).filter(|oldest| *oldest != NONE)
    }

    /// An object comes with a size and a mark of 0; what was here of it is gone.
    pub fn come(&mut self, object: u32, size: u64, place: Place) {
        entry(&mut self.entries, object);
        self.put(object, OUT);
        self.entries[object as usize] = Entry { size, place: OUT as u8, mark: 0 };
        self.put(object, place);
    }

    /// An object becomes the newest of a queue, maybe of the one that it is in, or leaves all.
    pub fn put(&mut self, object: u32, place: Place) {
        let Entry { size, place: before, .. } = self.entries[object as usize];
        if usize::from(before) != OUT {
            let queue = &mut self.queues[usize::from(before)];
            queue.bytes -= size;
            self.links.take_out(&mut queue.list, object);
        }
        if place != OUT {
            let queue = &mut self.queues[place];
            queue.bytes += size;
            self.links.put_in(&mut queue.list, object);
        }
        self.entries[object as usize].place = place as u8;
    }
}
