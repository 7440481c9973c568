//! A part of the cache under one lock: a table of slots, which two queues go through.

use hashbrown::HashTable;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The window has one of so many bytes.
const WINDOW: u64 = 2;
/// Credit of what comes, in uses.
const NEW: f32 = 0.3;
/// Uses that count between two looks at an entry: then a hit writes nothing.
const USES: u8 = 15;
/// Credit at most: rounds for which the smallest stay unused.
const CREDIT: f32 = 8.0;
/// So many of the second queue are spared in a row at most; then the poorest of them leaves.
const SPARED: usize = 64;

pub struct Shard<V> {
    bound: u64,
    bytes: u64,
    table: HashTable<Seat>,
    slots: Vec<Slot<V>>,
    /// Slots without a value: the first of a list.
    free: u32,
    queues: [Queue; 2],
}

/// An entry's slot, and enough of its key to grow the table without a look at the slots.
#[derive(Clone, Copy)]
struct Seat {
    at: u32,
    /// The upper bits.
    key: u32,
}

struct Slot<V> {
    key: u128,
    value: Option<V>,
    bytes: u64,
    credit: f32,
    /// In its queue; of a free slot, `newer` is the next free one.
    newer: u32,
    older: u32,
    queue: Place,
    uses: AtomicU8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    Window = 0,
    Main = 1,
}

#[derive(Clone, Copy)]
struct Queue {
    oldest: u32,
    newest: u32,
    bytes: u64,
}

const NONE: u32 = u32::MAX;

impl<V> Shard<V> {
    pub fn new(bound: u64) -> Shard<V> {
        let queue = Queue { oldest: NONE, newest: NONE, bytes: 0 };
        let (table, slots, queues) = (HashTable::new(), Vec::new(), [queue; 2]);
        Shard { bound, bytes: 0, table, slots, free: NONE, queues }
    }

    pub fn count(&self) -> u64 {
        self.table.len() as u64
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn get(&self, key: u128) -> Option<&V> {
        let slot = self.slot(self.find(key)?);
        let uses = slot.uses.load(Relaxed);
        if uses < USES {
            // Two at once count as one.
            slot.uses.store(uses + 1, Relaxed);
        }
        slot.value.as_ref()
    }

    pub fn peek(&self, key: u128) -> Option<&V> {
        self.slot(self.find(key)?).value.as_ref()
    }

    pub fn insert(&mut self, key: u128, value: V, bytes: u64, left: &mut dyn FnMut(V)) {
        let there = self.find(key);
        if bytes > self.bound || there.is_none() && self.slots.len() >= NONE as usize && self.free == NONE {
            self.remove(key).into_iter().for_each(&mut *left);
            return left(value);
        }
        match there {
            // It stays where it is.
            Some(at) => {
                let slot = &mut self.slots[at as usize];
                let before = std::mem::replace(&mut slot.bytes, bytes);
                let queue = &mut self.queues[slot.queue as usize];
                (self.bytes, queue.bytes) = (self.bytes - before + bytes, queue.bytes - before + bytes);
                slot.value.replace(value).into_iter().for_each(&mut *left);
                self.fit(0, left);
            }
            None => {
                self.fit(bytes, left);
                self.come(key, value, bytes);
            }
        }
    }

    pub fn remove(&mut self, key: u128) -> Option<V> {
        let at = self.find(key)?;
        self.go(at)
    }

    pub fn resize(&mut self, bound: u64, left: &mut dyn FnMut(V)) {
        self.bound = bound;
        self.fit(0, left);
    }

    /// Has others leave until there is room for so many bytes, of the bound at most.
    fn fit(&mut self, more: u64, left: &mut dyn FnMut(V)) {
        while self.bytes + more > self.bound {
            let victim = self.victim();
            self.go(victim).into_iter().for_each(&mut *left);
        }
    }

    /// Who leaves next. There is somebody.
    fn victim(&mut self) -> u32 {
        let mean = self.bytes as f32 / self.table.len() as f32;
        let (mut poorest, mut spared) = ((f32::INFINITY, NONE), 0);
        while spared < SPARED {
            let [window, main] = &self.queues;
            let from_window =
                main.oldest == NONE || window.oldest != NONE && window.bytes >= self.bound / WINDOW;
            let at = if from_window { window.oldest } else { main.oldest };
            let slot = &mut self.slots[at as usize];
            let uses = f32::from(std::mem::take(slot.uses.get_mut()));
            let credit = (slot.credit + uses * mean / slot.bytes.max(1) as f32).min(CREDIT);
            if credit < 1.0 {
                return at;
            }
            slot.credit = credit - 1.0;
            if !from_window {
                spared += 1;
                if slot.credit < poorest.0 {
                    poorest = (slot.credit, at);
                }
            }
            self.leave(at);
            self.join(at, Place::Main);
        }
        poorest.1
    }

    fn come(&mut self, key: u128, value: V, bytes: u64) {
        let mean = (self.bytes + bytes) as f32 / (self.table.len() + 1) as f32;
        let credit = (NEW * mean / bytes.max(1) as f32).min(CREDIT);
        let slot = Slot {
            key,
            value: Some(value),
            bytes,
            credit,
            newer: NONE,
            older: NONE,
            queue: Place::Window,
            uses: AtomicU8::new(0),
        };
        let at = match self.free {
            NONE => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
            at => {
                self.free = self.slots[at as usize].newer;
                self.slots[at as usize] = slot;
                at
            }
        };
        let seat = Seat { at, key: upper(key) };
        self.table.insert_unique(hash(seat.key), seat, |seat| hash(seat.key));
        self.bytes += bytes;
        self.join(at, Place::Window);
    }

    fn go(&mut self, at: u32) -> Option<V> {
        self.leave(at);
        let slot = &mut self.slots[at as usize];
        let (key, bytes, value) = (slot.key, slot.bytes, slot.value.take());
        slot.newer = std::mem::replace(&mut self.free, at);
        self.bytes -= bytes;
        if let Ok(entry) = self.table.find_entry(hash(upper(key)), |seat| seat.at == at) {
            entry.remove();
        }
        value
    }

    fn find(&self, key: u128) -> Option<u32> {
        let is_it = |seat: &Seat| seat.key == upper(key) && self.slot(seat.at).key == key;
        self.table.find(hash(upper(key)), is_it).map(|seat| seat.at)
    }

    fn slot(&self, at: u32) -> &Slot<V> {
        &self.slots[at as usize]
    }

    /// As the newest of a queue.
    fn join(&mut self, at: u32, place: Place) {
        let queue = &mut self.queues[place as usize];
        let older = std::mem::replace(&mut queue.newest, at);
        let slot = &mut self.slots[at as usize];
        (slot.queue, slot.older, slot.newer) = (place, older, NONE);
        queue.bytes += slot.bytes;
        match older {
            NONE => queue.oldest = at,
            older => self.slots[older as usize].newer = at,
        }
    }

    fn leave(&mut self, at: u32) {
        let &Slot { queue, older, newer, bytes, .. } = self.slot(at);
        let queue = &mut self.queues[queue as usize];
        queue.bytes -= bytes;
        match older {
            NONE => queue.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => queue.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
    }
}

fn upper(key: u128) -> u32 {
    (key >> 96) as u32
}

/// The table looks at the upper and the lower bits.
fn hash(key: u32) -> u64 {
    u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
