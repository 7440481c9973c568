//! SIEVE (Zhang and others, NSDI 2024, Algorithm 1): a queue in which nothing moves, and a hand that goes from the oldest to the
//! newest. It spares what was used since it came by last; what was not goes.

use super::{Left, Replacement, entry};
use crate::collections::list::{Links, List, NONE};

pub struct Sieve {
    most: u64,
    bytes: u64,
    entries: Vec<Entry>,
    links: Links,
    list: List,
    /// Who is looked at next; `NONE`: the oldest.
    hand: u32,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// 0: not here.
    size: u64,
    visited: bool,
}

impl Sieve {
    pub fn new(most: u64) -> Sieve {
        let (links, list) = (Links::default(), List::default());
        Sieve { most, bytes: 0, entries: Vec::new(), links, list, hand: NONE }
    }

    fn victim(&mut self) -> u32 {
        loop {
            let at = if self.hand == NONE { self.list.oldest } else { self.hand };
            if !std::mem::take(&mut self.entries[at as usize].visited) {
                return at;
            }
            self.hand = self.links.newer(at);
        }
    }
}

impl Replacement for Sieve {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        let Some(entry) = self.entries.get_mut(object as usize).filter(|entry| entry.size > 0) else {
            return false;
        };
        entry.visited = true;
        true
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        while self.bytes + size > self.most {
            let victim = self.victim();
            self.hand = victim;
            self.remove(victim);
            left(Left::Cache(victim));
            left(Left::Memory(victim));
        }
        *entry(&mut self.entries, object) = Entry { size, visited: false };
        self.bytes += size;
        self.links.put_in(&mut self.list, object);
    }

    /// The hand goes on when it is here.
    fn remove(&mut self, object: u32) {
        if self.hand == object {
            self.hand = self.links.newer(object);
        }
        self.bytes -= std::mem::take(&mut self.entries[object as usize]).size;
        self.links.take_out(&mut self.list, object);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}
