//! FBC, frequency-based cyclic replacement (Maltzahn 5.3.4), in bytes where the thesis has segments of five sizes: a pointer goes
//! round the objects in the order in which they lie, passes those that were asked for three times or more, and takes the
//! others. What comes lies just behind it. Where all are popular, the next one goes. When they were asked for more than a hundred
//! times on the average, all counts are halved.
//!
//! Unpopular objects stand in a list of their own, in the same order, so that none is searched for.

use super::{Left, Replacement, entry};
use crate::collections::list::{Links, List, NONE};

const POPULAR: u64 = 3;
const AGED_ABOVE: u64 = 100;

pub struct Fbc {
    most: u64,
    bytes: u64,
    entries: Vec<Entry>,
    /// All, in the order in which they lie, and the next one that the pointer comes to; `NONE`: the first.
    ring: (Links, List),
    pointer: u32,
    /// Those that are not popular, from the pointer on.
    unpopular: (Links, List),
    objects: u64,
    requests: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// 0: not here.
    size: u64,
    count: u64,
}

impl Fbc {
    pub fn new(most: u64) -> Fbc {
        let (ring, unpopular) = Default::default();
        let entries = Vec::new();
        Fbc { most, bytes: 0, entries, ring, pointer: NONE, unpopular, objects: 0, requests: 0 }
    }

    fn at_pointer(&self) -> u32 {
        if self.pointer == NONE { self.ring.1.oldest } else { self.pointer }
    }

    fn counted(&mut self) {
        self.requests += 1;
        if self.requests > AGED_ABOVE * self.objects {
            self.age();
        }
    }

    /// Halves all counts; some are unpopular again.
    fn age(&mut self) {
        self.unpopular = Default::default();
        self.requests = 0;
        let mut object = self.at_pointer();
        for _ in 0..self.objects {
            let count = &mut self.entries[object as usize].count;
            *count = count.div_ceil(2);
            self.requests += *count;
            if *count < POPULAR {
                self.unpopular.0.put_in(&mut self.unpopular.1, object);
            }
            object = match self.ring.0.newer(object) {
                NONE => self.ring.1.oldest,
                next => next,
            };
        }
    }
}

impl Replacement for Fbc {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        let Some(entry) = self.entries.get_mut(object as usize).filter(|entry| entry.size > 0) else {
            return false;
        };
        entry.count += 1;
        if entry.count == POPULAR {
            self.unpopular.0.take_out(&mut self.unpopular.1, object);
        }
        self.counted();
        true
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        while self.bytes + size > self.most {
            let target = match self.unpopular.1.oldest {
                NONE => self.at_pointer(),
                target => target,
            };
            self.pointer = self.ring.0.newer(target);
            self.remove(target);
            left(Left::Cache(target));
            left(Left::Memory(target));
        }
        *entry(&mut self.entries, object) = Entry { size, count: 1 };
        self.bytes += size;
        self.objects += 1;
        self.ring.0.put_before(&mut self.ring.1, self.pointer, object);
        self.unpopular.0.put_in(&mut self.unpopular.1, object);
        self.counted();
    }

    fn remove(&mut self, object: u32) {
        if self.pointer == object {
            self.pointer = self.ring.0.newer(object);
        }
        let Entry { size, count } = std::mem::take(&mut self.entries[object as usize]);
        self.ring.0.take_out(&mut self.ring.1, object);
        if count < POPULAR {
            self.unpopular.0.take_out(&mut self.unpopular.1, object);
        }
        self.bytes -= size;
        self.objects -= 1;
        self.requests -= count;
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}
