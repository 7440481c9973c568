//! GreedyDual-Size (Cao and Irani, USITS 1997): an object is worth what it costs to fetch for each of its bytes, more when it was
//! used lately. The one that is worth least leaves, and what it was worth is then the least that a use gives.

use super::{Left, Replacement, entry};
use std::collections::BTreeSet;

/// What fetching an object of so many bytes costs.
pub type Cost = fn(u64) -> u64;

/// All cost the same: for hits.
pub const ALIKE: Cost = |_| 1;
/// Packets: one for each 536 bytes, and two for the connection (section 4 of the paper).
pub const PACKETS: Cost = |size| 2 + size / 536;

/// Worths are in so manieth of a cost a byte.
const UNIT: u64 = 1 << 30;

pub struct GdSize {
    most: u64,
    bytes: u64,
    cost: Cost,
    /// What who left last was worth.
    least: u64,
    /// By object; of size 0: not here.
    entries: Vec<Entry>,
    /// Worth and number, so that of equals the one with the smallest number leaves.
    order: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    size: u64,
    worth: u64,
}

impl GdSize {
    pub fn new(most: u64, cost: Cost) -> GdSize {
        GdSize { most, bytes: 0, cost, least: 0, entries: Vec::new(), order: BTreeSet::new() }
    }

    fn worth(&self, size: u64) -> u64 {
        self.least + (self.cost)(size) * UNIT / size
    }
}

impl Replacement for GdSize {
    fn largest(&self) -> u64 {
        self.most
    }

    fn get(&mut self, object: u32) -> bool {
        let at = object as usize;
        let Some(Entry { size, worth }) = self.entries.get(at).copied().filter(|one| one.size > 0) else {
            return false;
        };
        let renewed = self.worth(size);
        if renewed > worth {
            self.order.remove(&(worth, object));
            self.order.insert((renewed, object));
            self.entries[at].worth = renewed;
        }
        true
    }

    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left)) {
        while self.bytes + size > self.most {
            let Some((worth, worst)) = self.order.first().copied() else { break };
            self.least = worth;
            self.remove(worst);
            left(Left::Cache(worst));
            left(Left::Memory(worst));
        }
        let worth = self.worth(size);
        *entry(&mut self.entries, object) = Entry { size, worth };
        self.order.insert((worth, object));
        self.bytes += size;
    }

    fn remove(&mut self, object: u32) {
        let Entry { size, worth } = std::mem::take(&mut self.entries[object as usize]);
        self.order.remove(&(worth, object));
        self.bytes -= size;
    }
}
