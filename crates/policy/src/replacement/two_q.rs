//! 2Q (Johnson and Shasha, VLDB 1994, the full version), in bytes where the paper counts pages: what is new goes through A1in,
//! first in, first out, a quarter of the cache; only the numbers of who leaves it stay, in A1out, for half as many bytes as the
//! cache has. Who is asked for while it is there goes to Am, least recently used first. A1in gives way when it has more than its
//! share, else Am.
//!
//! An object larger than A1in's share is not taken: alone it would be all of A1in.

use super::queues::{OUT, Place, Queues};
use super::{Left, Replacement};

const A1_IN: Place = 1;
const AM: Place = 2;
const A1_OUT: Place = 3;

pub struct TwoQ {
    most: u64,
    queues: Queues<4>,
}

impl TwoQ {
    pub fn new(most: u64) -> TwoQ {
        TwoQ { most, queues: Queues::default() }
    }

    fn evict(&mut self, left: &mut dyn FnMut(Left)) {
        let over = self.queues.bytes(A1_IN) > self.most / 4;
        let from = if over || self.queues.bytes(AM) == 0 { A1_IN } else { AM };
        let Some(oldest) = self.queues.oldest(from) else { return };
        left(Left::Cache(oldest));
        if from == AM {
            self.queues.put(oldest, OUT);
            left(Left::Memory(oldest));
            return;
        }
        self.queues.put(oldest, A1_OUT);
        while self.queues.bytes(A1_OUT) > self.most / 2
            && let Some(forgotten) = self.queues.oldest(A1_OUT)
        {
            self.queues.put(forgotten, OUT);
            left(Left::Memory(forgotten));
        }
    }
}

impl Replacement for TwoQ {
    fn largest(&self) -> u64 {
        self.most / 4
    }

    fn get(&mut self, object: u32) -> bool {
        match self.queues.place(object) {
            AM => {
                self.queues.put(object, AM);
                true
            }
            place => place == A1_IN,
        }
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        // It is no ghost any more while others become some.
        let place = if self.queues.place(object) == A1_OUT { AM } else { A1_IN };
        if place == AM {
            self.queues.put(object, OUT);
        }
        while self.queues.bytes(A1_IN) + self.queues.bytes(AM) + size > self.most {
            self.evict(left);
        }
        self.queues.come(object, size, place);
    }

    fn remove(&mut self, object: u32) {
        self.queues.put(object, OUT);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}
