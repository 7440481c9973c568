//! ARC (Megiddo and Modha, FAST 2003, Figure 4), in bytes where the paper counts pages: T1 has what was asked for once, T2 what
//! was asked for again, B1 and B2 the numbers of who left them. A ghost that is asked for moves the target of T1's bytes, up
//! when it is of B1 and down when of B2, by its size, times as much as the other list of ghosts is larger.

use super::queues::{OUT, Place, Queues};
use super::{Left, Replacement};

const T1: Place = 1;
const T2: Place = 2;
const B1: Place = 3;
const B2: Place = 4;

pub struct Arc {
    most: u64,
    /// Bytes that T1 should have: p.
    target: u64,
    queues: Queues<5>,
}

impl Arc {
    pub fn new(most: u64) -> Arc {
        Arc { most, target: 0, queues: Queues::default() }
    }

    fn bytes(&self, places: &[Place]) -> u64 {
        places.iter().map(|place| self.queues.bytes(*place)).sum()
    }

    /// REPLACE: the oldest of T1 or T2 becomes a ghost.
    fn replace(&mut self, of_b2: bool, left: &mut dyn FnMut(Left)) {
        let first = self.queues.bytes(T1);
        let over = first > self.target || of_b2 && first == self.target;
        let (from, to) = if first > 0 && over || self.queues.bytes(T2) == 0 { (T1, B1) } else { (T2, B2) };
        if let Some(oldest) = self.queues.oldest(from) {
            self.queues.put(oldest, to);
            left(Left::Cache(oldest));
        }
    }

    fn forget(&mut self, place: Place, left: &mut dyn FnMut(Left)) {
        if let Some(oldest) = self.queues.oldest(place) {
            self.queues.put(oldest, OUT);
            if place == T1 {
                left(Left::Cache(oldest));
            }
            left(Left::Memory(oldest));
        }
    }

    /// Case IV: what is new must not make T1 and B1 larger than the cache, nor all four than two of it.
    fn make_room_for_new(&mut self, size: u64, left: &mut dyn FnMut(Left)) {
        while self.bytes(&[T1, B1]) + size > self.most {
            self.forget(if self.queues.bytes(B1) > 0 { B1 } else { T1 }, left);
        }
        while self.bytes(&[T1, T2, B1, B2]) + size > 2 * self.most && self.queues.bytes(B2) > 0 {
            self.forget(B2, left);
        }
    }
}

impl Replacement for Arc {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        let here = matches!(self.queues.place(object), T1 | T2);
        if here {
            self.queues.put(object, T2);
        }
        here
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        let ghost = self.queues.place(object);
        let (own, other) = match ghost {
            B1 => (self.queues.bytes(B1), self.queues.bytes(B2)),
            _ => (self.queues.bytes(B2), self.queues.bytes(B1)),
        };
        let step = || size.saturating_mul((other / own.max(1)).max(1));
        match ghost {
            B1 => self.target = self.target.saturating_add(step()).min(self.most),
            B2 => self.target = self.target.saturating_sub(step()),
            _ => self.make_room_for_new(size, left),
        }
        if ghost != OUT {
            self.queues.put(object, OUT);
        }
        while self.bytes(&[T1, T2]) + size > self.most {
            self.replace(ghost == B2, left);
        }
        self.queues.come(object, size, if ghost == OUT { T1 } else { T2 });
        // A version that is larger than its ghost was.
        while self.bytes(&[T1, T2, B1, B2]) > 2 * self.most {
            self.forget(if self.queues.bytes(B2) > 0 { B2 } else { B1 }, left);
        }
    }

    fn remove(&mut self, object: u32) {
        self.queues.put(object, OUT);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        (self.most, self.target) = (most, self.target.min(most));
    }
}
