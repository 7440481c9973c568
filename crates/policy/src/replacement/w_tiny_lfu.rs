//! W-TinyLFU (Einziger, Friedman and Manes, ACM TOS 13:4, 2017), in bytes where the paper counts objects: what is new goes
//! through a window, a hundredth of the cache, least recently used first. Who leaves it is a candidate for the main part: it comes
//! in if it was asked for more often lately than those that would leave for it, one after the other. The main part is a
//! segmented LRU: a use in probation protects, and four fifths are protected.
//!
//! Counts go up to 15 and are halved after ten requests for each object that is here. They are exact, where the paper
//! has a sketch of them: what is lost by a sketch is not part of the result. An object larger than the window is a candidate at
//! once.

use super::queues::{OUT, Place, Queues};
use super::{Left, Replacement, entry};

const WINDOW: Place = 1;
const PROBATION: Place = 2;
const PROTECTED: Place = 3;

const MOST_COUNTED: u8 = 15;
/// Requests for each object that is here, after which counts are halved.
const SAMPLE: u64 = 10;

pub struct WTinyLfu {
    window: u64,
    main: u64,
    queues: Queues<4>,
    here: u64,
    counts: Vec<Count>,
    /// Who has a count.
    counted: Vec<u32>,
    /// Since counts were halved, and half of those before.
    requests: u64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    count: u8,
    /// Among the counted.
    listed: bool,
}

impl WTinyLfu {
    pub fn new(most: u64) -> WTinyLfu {
        let (counts, counted, queues) = (Vec::new(), Vec::new(), Queues::default());
        let window = most / 100;
        WTinyLfu { window, main: most - window, queues, here: 0, counts, counted, requests: 0 }
    }

    fn count(&mut self, object: u32) {
        self.requests += 1;
        let Count { count, listed } = entry(&mut self.counts, object);
        *count = (*count + 1).min(MOST_COUNTED);
        if !std::mem::replace(listed, true) {
            self.counted.push(object);
        }
    }

    /// The reset of the paper. Who is not here and has no count left is forgotten.
    fn halve(&mut self, left: &mut dyn FnMut(Left)) {
        self.requests /= 2;
        let WTinyLfu { counted, counts, queues, .. } = self;
        counted.retain(|object| {
            let Count { count, listed } = &mut counts[*object as usize];
            let ends = *count == 1;
            *count /= 2;
            *listed = *count > 0;
            if ends && queues.place(*object) == OUT {
                left(Left::Memory(*object));
            }
            *listed
        });
    }

    fn leaves(&mut self, object: u32, left: &mut dyn FnMut(Left)) {
        self.queues.put(object, OUT);
        self.here -= 1;
        left(Left::Cache(object));
        if self.counts[object as usize].count == 0 {
            left(Left::Memory(object));
        }
    }

    /// Who is in the window comes into the main part, or leaves.
    fn admit(&mut self, candidate: u32, left: &mut dyn FnMut(Left)) {
        let count = |lfu: &WTinyLfu, object: u32| lfu.counts[object as usize].count;
        let size = self.queues.size(candidate);
        while self.queues.bytes(PROBATION) + self.queues.bytes(PROTECTED) + size > self.main {
            let victim = self.queues.oldest(PROBATION).or_else(|| self.queues.oldest(PROTECTED));
            match victim.filter(|victim| count(self, candidate) > count(self, *victim)) {
                Some(victim) => self.leaves(victim, left),
                None => return self.leaves(candidate, left),
            }
        }
        self.queues.put(candidate, PROBATION);
    }
}

impl Replacement for WTinyLfu {
    fn largest(&self) -> u64 {
        self.main
    }

    fn get(&mut self, object: u32) -> bool {
        match self.queues.place(object) {
            OUT => return false,
            WINDOW => self.queues.put(object, WINDOW),
            _ => self.queues.put(object, PROTECTED),
        }
        while self.queues.bytes(PROTECTED) > self.main / 5 * 4
            && let Some(oldest) = self.queues.oldest(PROTECTED)
        {
            self.queues.put(oldest, PROBATION);
        }
        self.count(object);
        true
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        self.count(object);
        self.here += 1;
        self.queues.come(object, size, WINDOW);
        if size > self.window {
            self.admit(object, left);
        }
        while self.queues.bytes(WINDOW) > self.window
            && let Some(oldest) = self.queues.oldest(WINDOW)
        {
            self.admit(oldest, left);
        }
        if self.requests >= SAMPLE * self.here.max(1) {
            self.halve(left);
        }
    }

    fn remove(&mut self, object: u32) {
        self.here -= u64::from(self.queues.place(object) != OUT);
        self.queues.put(object, OUT);
        self.counts[object as usize].count = 0;
    }

    fn resize(&mut self, most: u64, left: &mut dyn FnMut(Left)) {
        (self.window, self.main) = (most / 100, most - most / 100);
        while self.queues.bytes(PROBATION) + self.queues.bytes(PROTECTED) > self.main
            && let Some(oldest) = self.queues.oldest(PROBATION).or_else(|| self.queues.oldest(PROTECTED))
        {
            self.leaves(oldest, left);
        }
    }
}
