//! LRU-TH as Foxy has it (WebCoSM 4.1): objects above a threshold are not taken, and when the bytes reach a high watermark, what
//! was used least lately leaves until they are at a low one.
//!
//! Neither is published. The watermarks and the threshold are Squid's defaults for the same: 95 and 90 %, and 4 MB.

use super::fifo::Fifo;
use super::{Left, Replacement};

const THRESHOLD: u64 = 4 << 20;

pub struct LruTh {
    queue: Fifo,
    high: u64,
    low: u64,
}

impl LruTh {
    pub fn new(most: u64) -> LruTh {
        let (high, low) = marks(most);
        LruTh { queue: Fifo::new(most), high, low }
    }
}

fn marks(most: u64) -> (u64, u64) {
    (most / 20 * 19, most / 10 * 9)
}

impl Replacement for LruTh {
    fn largest(&self) -> u64 {
        THRESHOLD.min(self.low)
    }

    fn get(&mut self, object: u32) -> bool {
        self.queue.touch(object)
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        if self.queue.bytes() + size > self.high {
            self.queue.shrink(self.low - size, left);
        }
        self.queue.insert(object, size, left);
    }

    fn remove(&mut self, object: u32) {
        self.queue.remove(object);
    }

    fn resize(&mut self, most: u64, left: &mut dyn FnMut(Left)) {
        self.queue.resize(most, left);
        (self.high, self.low) = marks(most);
    }
}
