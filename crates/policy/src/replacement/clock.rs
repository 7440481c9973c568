//! CLOCK (Corbató, A paging experiment with the Multics system, 1968): first in, first out, but what was used since it came by
//! last goes round once more. The ring and its hand are a queue whose oldest the hand is at.

use super::queues::{OUT, Place, Queues};
use super::{Left, Replacement};

const RING: Place = 1;

pub struct Clock {
    most: u64,
    queues: Queues<2>,
}

impl Clock {
    pub fn new(most: u64) -> Clock {
        Clock { most, queues: Queues::default() }
    }
}

impl Replacement for Clock {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        let here = self.queues.place(object) == RING;
        if here {
            *self.queues.mark(object) = 1;
        }
        here
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        while self.queues.bytes(RING) + size > self.most {
            let Some(oldest) = self.queues.oldest(RING) else { break };
            if std::mem::take(self.queues.mark(oldest)) > 0 {
                self.queues.put(oldest, RING);
                continue;
            }
            self.queues.put(oldest, OUT);
            left(Left::Cache(oldest));
            left(Left::Memory(oldest));
        }
        self.queues.come(object, size, RING);
    }

    fn remove(&mut self, object: u32) {
        self.queues.put(object, OUT);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}
