//! S3-FIFO (Yang and others, SOSP 2023, Algorithm 1), in bytes where the paper counts objects: new objects go through a small
//! queue, a tenth of the cache. Those used more than once meanwhile move to the main queue; the others leave, and only their
//! numbers are remembered, as ghosts. A ghost that is asked for goes to the main queue, where a use saves from leaving once, and
//! up to three of them count.
//!
//! The authors' simulator, libCacheSim, has three rules that Algorithm 1 has not (`Rules::Simulator`): an object as large as the
//! small queue is not taken; until the cache is full for the first time, what finds the small queue full goes to the main one;
//! and the main queue gives way when it has more than its share, else the small one does, where Algorithm 1 asks whether the
//! small one has its share.

use super::queues::{OUT, Place, Queues};
use super::{Left, Replacement};

const SMALL: Place = 1;
const MAIN: Place = 2;
/// They stand for as many bytes as the main queue may have; of the simulator, for nine tenths, rounded down.
const GHOSTS: Place = 3;

const MOST_USES: u8 = 3;
/// Share of the small queue: one in so many bytes.
const SHARE: u64 = 10;

/// Whose words count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    Algorithm1,
    Simulator,
}

pub struct S3Fifo {
    most: u64,
    rules: Rules,
    /// Somebody had to leave.
    full: bool,
    queues: Queues<4>,
}

impl S3Fifo {
    pub fn new(most: u64, rules: Rules) -> S3Fifo {
        S3Fifo { most, rules, full: false, queues: Queues::default() }
    }

    fn small_most(&self) -> u64 {
        self.most / SHARE
    }

    /// Bytes of the main queue when it is full.
    fn main_most(&self) -> u64 {
        self.most - self.most / SHARE
    }

    fn ghosts_most(&self) -> u64 {
        match self.rules {
            Rules::Algorithm1 => self.main_most(),
            Rules::Simulator => self.most / SHARE * (SHARE - 1) + self.most % SHARE * (SHARE - 1) / SHARE,
        }
    }

    fn bytes(&self) -> u64 {
        self.queues.bytes(SMALL) + self.queues.bytes(MAIN)
    }

    fn evict(&mut self, left: &mut dyn FnMut(Left)) {
        self.full = true;
        let (small, main) = (self.queues.bytes(SMALL), self.queues.bytes(MAIN));
        let from_small = match self.rules {
            // In less than ten bytes the small queue is full when anything is in it.
            Rules::Algorithm1 => main == 0 || small > 0 && small >= self.small_most(),
            Rules::Simulator => small > 0 && main <= self.main_most(),
        };
        if from_small {
            self.evict_small(left);
        } else {
            self.evict_main(left);
        }
    }

    /// Until one has left, or all have moved on.
    fn evict_small(&mut self, left: &mut dyn FnMut(Left)) {
        while let Some(oldest) = self.queues.oldest(SMALL) {
            if *self.queues.mark(oldest) <= 1 {
                self.queues.put(oldest, GHOSTS);
                left(Left::Cache(oldest));
                while self.queues.bytes(GHOSTS) > self.ghosts_most()
                    && let Some(forgotten) = self.queues.oldest(GHOSTS)
                {
                    self.queues.put(forgotten, OUT);
                    left(Left::Memory(forgotten));
                }
                return;
            }
            self.queues.put(oldest, MAIN);
            *self.queues.mark(oldest) = 0;
            while self.rules == Rules::Algorithm1 && self.queues.bytes(MAIN) > self.main_most() {
                self.evict_main(left);
            }
        }
    }

    fn evict_main(&mut self, left: &mut dyn FnMut(Left)) {
        while let Some(oldest) = self.queues.oldest(MAIN) {
            let uses = self.queues.mark(oldest);
            if *uses == 0 {
                self.queues.put(oldest, OUT);
                left(Left::Cache(oldest));
                left(Left::Memory(oldest));
                return;
            }
            *uses -= 1;
            self.queues.put(oldest, MAIN);
        }
    }
}

impl Replacement for S3Fifo {
    fn largest(&self) -> u64 {
        match self.rules {
            Rules::Algorithm1 => self.most,
            Rules::Simulator => self.small_most().saturating_sub(1),
        }
    }

    fn get(&mut self, object: u32) -> bool {
        let here = matches!(self.queues.place(object), SMALL | MAIN);
        if here {
            let uses = self.queues.mark(object);
            *uses = (*uses + 1).min(MOST_USES);
        }
        here
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        let is_ghost = self.queues.place(object) == GHOSTS;
        if is_ghost {
            self.queues.put(object, OUT);
        }
        while self.bytes() + size > self.most {
            self.evict(left);
        }
        let fills_main = self.rules == Rules::Simulator && !self.full;
        let to_main = is_ghost || fills_main && self.queues.bytes(SMALL) >= self.small_most();
        self.queues.come(object, size, if to_main { MAIN } else { SMALL });
    }

    fn remove(&mut self, object: u32) {
        self.queues.put(object, OUT);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of less than ten bytes is nothing.
    #[test]
    fn a_cache_of_a_few_bytes_finds_somebody_who_leaves() {
        let mut cache = S3Fifo::new(9, Rules::Algorithm1);
        for object in [0, 0, 0, 1, 2, 3, 2, 2, 3, 3, 4] {
            if !cache.get(object) {
                cache.insert(object, 3, &mut |_| {});
            }
            assert!(cache.bytes() <= 9);
        }
        assert!(cache.get(4));
    }
}
