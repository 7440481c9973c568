//! Objects have a worth, and the one that is worth least leaves. What it was worth is then the least that a use gives to others,
//! so that what was worth much and is not used any more leaves at last (Young's GreedyDual). Policies differ in what a use adds.
//! Of equals the one that was used least lately leaves.

use super::{Left, Replacement, entry};
use crate::collections::heap::Heap;

/// What a use adds, for an object of so many bytes that was used so often since it came, this time included.
pub type Worth = fn(size: u64, uses: u64) -> u64;

/// Of a cost a byte.
const UNIT: u64 = 1 << 30;

/// GreedyDual-Size where all cost the same (Cao and Irani, USITS 1997): for hits.
pub const SIZE: Worth = |size, _| UNIT / size;
/// The same where packets are what it costs: one for each 536 bytes, and two for the connection (its section 4).
pub const PACKETS: Worth = |size, _| (2 + size / 536) * UNIT / size;
/// GDSF: GreedyDual-Size with frequency (Cherkasova, HPL-98-69R1, 1998).
pub const FREQUENCY_AND_SIZE: Worth = |size, uses| uses * UNIT / size;
/// LFU-DA: least frequently used, with dynamic aging (Arlitt, Cherkasova, Dilley, Friedrich and Jin, 1999).
pub const FREQUENCY: Worth = |_, uses| uses;

pub struct GreedyDual {
    most: u64,
    bytes: u64,
    worth: Worth,
    /// What who left last was worth.
    least: u64,
    /// By object; of size 0: not here.
    entries: Vec<Entry>,
    /// By worth, then the last use.
    order: Heap<(u64, u64)>,
    turn: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    size: u64,
    uses: u64,
}

impl GreedyDual {
    pub fn new(most: u64, worth: Worth) -> GreedyDual {
        let (entries, order) = (Vec::new(), Heap::default());
        GreedyDual { most, bytes: 0, worth, least: 0, entries, order, turn: 0 }
    }

    fn used(&mut self, object: u32) {
        self.turn += 1;
        let entry = &mut self.entries[object as usize];
        entry.uses += 1;
        let worth = self.least + (self.worth)(entry.size, entry.uses);
        self.order.put(object, (worth, self.turn));
    }
}

impl Replacement for GreedyDual {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        let here = self.entries.get(object as usize).is_some_and(|entry| entry.size > 0);
        if here {
            self.used(object);
        }
        here
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        while self.bytes + size > self.most {
            let Some(((worth, _), worst)) = self.order.first() else { break };
            self.least = worth;
            self.remove(worst);
            left(Left::Cache(worst));
            left(Left::Memory(worst));
        }
        *entry(&mut self.entries, object) = Entry { size, uses: 0 };
        self.bytes += size;
        self.used(object);
    }

    fn remove(&mut self, object: u32) {
        self.bytes -= std::mem::take(&mut self.entries[object as usize]).size;
        self.order.remove(object);
    }

    fn resize(&mut self, most: u64, _left: &mut dyn FnMut(Left)) {
        self.most = most;
    }
}
