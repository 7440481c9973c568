//! The index: where the record of a key lies, in twelve bytes and no key.
//!
//! 128 shards by the hash's upper bits, each behind its own lock for the nanoseconds of a probe. A shard is one
//! array in which entries stand in the order of their fingerprints near where their fingerprint points (ordered
//! linear probing): a search ends at the first larger one, and growing by a sixteenth is one merge.
//!
//! Always true: no two entries of a shard have one fingerprint. Two keys that share 39 bits of hash displace each
//! other: a miss, never wrong bytes, for the record carries its key. Hashes are mixed with the cache's random
//! identity first, so that nobody can choose URLs that crowd one shard.

use crate::table::Table;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SHARD_BITS: u32 = 7;
pub const SHARDS: usize = 1 << SHARD_BITS;
const PLACE_BITS: u32 = 40;

/// Where a record lies and how often it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// In units from the start of the cache, below 2^40.
    pub place: u64,
    /// Length in units, at least 1.
    pub units: u16,
    /// References, saturating; at least 1 (Maltzahn 5.3.4).
    pub count: u8,
}

/// A slot packed with its fingerprint, as it lies in memory and in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Packed([u32; 3]);

impl Packed {
    const EMPTY: Packed = Packed([0; 3]);
    pub const BYTES: usize = 12;

    fn new(print: u32, slot: Slot) -> Packed {
        debug_assert!(slot.place < 1 << PLACE_BITS && slot.units > 0);
        let word =
            slot.place | u64::from(slot.units) << PLACE_BITS | u64::from(slot.count) << (PLACE_BITS + 16);
        Packed([print, word as u32, (word >> 32) as u32])
    }
    fn print(self) -> u32 {
        self.0[0]
    }
    fn word(self) -> u64 {
        u64::from(self.0[1]) | u64::from(self.0[2]) << 32
    }
    fn is_empty(self) -> bool {
        self.word() >> PLACE_BITS & 0xffff == 0
    }
    fn slot(self) -> Slot {
        let word = self.word();
        Slot {
            place: word & ((1 << PLACE_BITS) - 1),
            units: (word >> PLACE_BITS) as u16,
            count: (word >> (PLACE_BITS + 16)) as u8,
        }
    }
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (word, to) in self.0.iter().zip(bytes.chunks_exact_mut(4)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
    /// `None` for bytes that no entry has.
    pub fn of_bytes(bytes: &[u8]) -> Option<Packed> {
        let word = |i: usize| Some(u32::from_le_bytes(bytes.get(4 * i..4 * i + 4)?.try_into().ok()?));
        let packed = Packed([word(0)?, word(1)?, word(2)?]);
        (!packed.is_empty() && packed.slot().count > 0).then_some(packed)
    }
}

#[derive(Default)]
struct Shard {
    table: Table,
    len: usize,
    /// Sum of all counts.
    counts: u64,
}

pub struct Index {
    shards: Box<[Mutex<Shard>]>,
    identity: u64,
    /// Entries of all shards.
    len: AtomicUsize,
}

impl Index {
    /// An empty index of the cache with this identity.
    pub fn new(identity: u64) -> Index {
        Index { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), identity, len: AtomicUsize::new(0) }
    }

    /// Bytes that an index of so many entries takes at most, a shard that grows among them: an entry and a sixth, the tail, and
    /// what shards of little more than the average add.
    pub const fn most_bytes(entries: u64) -> u64 {
        entries * 15 + (SHARDS * 4096) as u64
    }

    /// The bits by which the index knows a key.
    pub fn print(&self, hash: u64) -> Print {
        // The finalizer of SplitMix64: every bit of the sum moves every bit of the result.
        let mut x = hash.wrapping_add(self.identity);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        Print { shard: (x >> (64 - SHARD_BITS)) as u16, print: (x >> (32 - SHARD_BITS)) as u32 }
    }

    /// `hash` is the upper half of the key's hash, here and below.
    pub fn find(&self, hash: u64) -> Option<Slot> {
        let (shard, print) = self.shard(hash);
        shard.find(print)
    }

    /// Finds and counts `n` references.
    pub fn reference(&self, hash: u64, n: u8) -> Option<Slot> {
        let (mut shard, print) = self.shard(hash);
        let at = shard.position(print).ok()?;
        let mut slot = shard.table[at].slot();
        let before = slot.count;
        slot.count = before.saturating_add(n);
        shard.counts += u64::from(slot.count - before);
        shard.table[at] = Packed::new(print, slot);
        Some(slot)
    }

    /// Puts or replaces.
    pub fn insert(&self, hash: u64, slot: Slot) {
        let (mut shard, print) = self.shard(hash);
        self.counted(&mut shard, |shard| shard.insert(print, slot));
    }

    pub fn remove(&self, hash: u64) -> Option<Slot> {
        let (mut shard, print) = self.shard(hash);
        self.counted(&mut shard, |shard| shard.remove(print))
    }

    /// Removes the entry only when it points to `place`: what was replaced meanwhile stays.
    pub fn remove_at(&self, hash: u64, place: u64) -> bool {
        let (mut shard, print) = self.shard(hash);
        let there = shard.find(print).is_some_and(|slot| slot.place == place);
        there && self.counted(&mut shard, |shard| shard.remove(print)).is_some()
    }

    /// True while the newest record of this hash is the one at `place`; then also its count.
    pub fn live(&self, hash: u64, place: u64) -> Option<u8> {
        self.find(hash).filter(|slot| slot.place == place).map(|slot| slot.count)
    }

    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the tables take.
    pub fn bytes(&self) -> usize {
        self.shards().map(|s| s.table.len() * Packed::BYTES).sum::<usize>() + size_of_val(&*self.shards)
    }

    /// Entries and the sum of their counts.
    pub fn totals(&self) -> (u64, u64) {
        self.shards().fold((0, 0), |(n, sum), s| (n + s.len as u64, sum + s.counts))
    }

    /// Shows every entry, shard by shard.
    pub fn each(&self, mut show: impl FnMut(Slot)) {
        self.shards().for_each(|shard| shard.entries().for_each(|packed| show(packed.slot())));
    }

    /// Reduces every count c to ⌈c/2⌉ (Maltzahn 5.3.4).
    pub fn age(&self) {
        for mut shard in self.shards() {
            let mut sum = 0;
            for packed in shard.table.iter_mut().filter(|p| !p.is_empty()) {
                let mut slot = packed.slot();
                slot.count = slot.count.div_ceil(2);
                sum += u64::from(slot.count);
                *packed = Packed::new(packed.print(), slot);
            }
            shard.counts = sum;
        }
    }

    /// Keeps the entries for which `keep(shard, fingerprint, slot)` holds.
    pub fn retain(&self, mut keep: impl FnMut(Print, Slot) -> bool) {
        for (number, mut shard) in self.shards().enumerate() {
            let number = number as u16;
            let gone: Vec<u32> = shard
                .entries()
                .filter(|p| !keep(Print { shard: number, print: p.print() }, p.slot()))
                .map(Packed::print)
                .collect();
            self.counted(&mut shard, |shard| {
                for print in gone {
                    shard.remove(print);
                }
            });
        }
    }

    /// All entries of one shard, for a checkpoint.
    pub fn export(&self, shard: usize) -> Vec<Packed> {
        lock(&self.shards[shard]).entries().collect()
    }

    /// Entries of a checkpoint: the opposite of `export`. Those that are out of order or double are left out.
    pub fn import(&self, shard: usize, entries: impl Iterator<Item = Packed>) {
        let mut shard = lock(&self.shards[shard]);
        let entries: Vec<Packed> = entries.collect();
        self.counted(&mut shard, |shard| {
            shard.reserve(entries.len());
            for packed in entries {
                shard.insert(packed.print(), packed.slot());
            }
        });
    }

    /// Changes a shard and takes the change into account.
    fn counted<T>(&self, shard: &mut Shard, change: impl FnOnce(&mut Shard) -> T) -> T {
        let before = shard.len;
        let result = change(shard);
        // Wraps around where it is less than before.
        self.len.fetch_add(shard.len.wrapping_sub(before), Relaxed);
        result
    }

    fn shard(&self, hash: u64) -> (MutexGuard<'_, Shard>, u32) {
        let print = self.print(hash);
        (lock(&self.shards[usize::from(print.shard)]), print.print)
    }

    fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock)
    }
}

/// The 39 bits by which the index knows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Print {
    shard: u16,
    print: u32,
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// Where this fingerprint would stand if nobody else were there. Rises with the fingerprint, which is what
    /// keeps the table ordered.
    fn home(&self, print: u32) -> usize {
        ((u64::from(print) * self.room() as u64) >> 32) as usize
    }

    /// Homes; the table is longer by the tail into which the last entries may be pushed.
    fn room(&self) -> usize {
        self.table.len() - (self.table.len() / 64 + 4)
    }

    /// Where the fingerprint stands, or else where it belongs.
    fn position(&self, print: u32) -> Result<usize, usize> {
        let from = if self.table.is_empty() { 0 } else { self.home(print) };
        for (at, packed) in self.table.iter().enumerate().skip(from) {
            if packed.is_empty() || packed.print() > print {
                return Err(at);
            }
            if packed.print() == print {
                return Ok(at);
            }
        }
        Err(self.table.len())
    }

    fn find(&self, print: u32) -> Option<Slot> {
        self.position(print).ok().map(|at| self.table[at].slot())
    }

    fn insert(&mut self, print: u32, slot: Slot) {
        let packed = Packed::new(print, slot);
        match self.position(print) {
            Ok(at) => {
                self.counts -= u64::from(self.table[at].slot().count);
                self.table[at] = packed;
            }
            Err(at) => {
                let hole =
                    self.has_room(1).then(|| self.table[at..].iter().position(|p| p.is_empty())).flatten();
                match hole {
                    Some(hole) => {
                        self.table.copy_within(at..at + hole, at + 1);
                        self.table[at] = packed;
                    }
                    None => self.rebuild(Some(packed), self.len + 1),
                }
                self.len += 1;
            }
        }
        self.counts += u64::from(slot.count);
    }

    fn remove(&mut self, print: u32) -> Option<Slot> {
        let at = self.position(print).ok()?;
        let slot = self.table[at].slot();
        // Entries behind the hole move up while that brings them nearer to home.
        let mut hole = at;
        for next in at + 1..self.table.len() {
            let packed = self.table[next];
            if packed.is_empty() || self.home(packed.print()) == next {
                break;
            }
            self.table[hole] = packed;
            hole = next;
        }
        self.table[hole] = Packed::EMPTY;
        self.len -= 1;
        self.counts -= u64::from(slot.count);
        if self.len * 4 < self.table.len() && self.table.len() > 1024 {
            self.rebuild(None, self.len);
        }
        Some(slot)
    }

    fn entries(&self) -> impl Iterator<Item = Packed> {
        self.table.iter().copied().filter(|p| !p.is_empty())
    }

    fn has_room(&self, more: usize) -> bool {
        (self.len + more) * 12 <= self.table.len() * 11
    }

    fn reserve(&mut self, more: usize) {
        if !self.has_room(more) {
            self.rebuild(None, self.len + more);
        }
    }

    /// Lays all entries (and one more) into a table for `count` of them, with a seventh of it to spare.
    fn rebuild(&mut self, extra: Option<Packed>, count: usize) {
        let old = std::mem::take(&mut self.table);
        let mut size = count + count / 6 + 8;
        while !self.lay(&old, extra, size) {
            size += size / 16 + 4;
        }
    }

    /// False when the tail did not hold what was pushed into it.
    fn lay(&mut self, old: &Table, extra: Option<Packed>, size: usize) -> bool {
        self.table = Table::new(size);
        let mut old = old.iter().copied().filter(|p| !p.is_empty()).peekable();
        let mut extra = extra;
        let mut next = 0;
        loop {
            let first = extra.take_if(|e| old.peek().is_none_or(|p| e.print() < p.print()));
            let Some(packed) = first.or_else(|| old.next()) else { return true };
            let at = self.home(packed.print()).max(next);
            if at >= self.table.len() {
                return false;
            }
            self.table[at] = packed;
            next = at + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use std::collections::HashMap;

    fn slot(place: u64) -> Slot {
        Slot { place, units: (place % 65_535) as u16 + 1, count: 1 }
    }

    /// Runs random operations on `index` and a map, with hashes that `choose` makes.
    fn compare(seed: u64, steps: u64, choose: impl Fn(&mut StdRng) -> u64) -> (Index, HashMap<u64, Slot>) {
        let mut rng = StdRng::seed_from_u64(seed);
        let (index, mut model) = (Index::new(seed), HashMap::new());
        for step in 0..steps {
            let hash = choose(&mut rng);
            match rng.random_range(0..10) {
                0..6 => {
                    index.insert(hash, slot(step));
                    model.insert(hash, slot(step));
                }
                6 => assert_eq!(index.remove(hash), model.remove(&hash), "seed {seed} step {step}"),
                7 => {
                    let place = model.get(&hash).map_or(0, |s: &Slot| s.place);
                    assert!(!index.remove_at(hash, place + 1));
                    assert_eq!(index.remove_at(hash, place), model.remove(&hash).is_some());
                }
                8 => {
                    let counted = model.get_mut(&hash).map(|s| {
                        s.count = s.count.saturating_add(100);
                        *s
                    });
                    assert_eq!(index.reference(hash, 100), counted);
                }
                _ => assert_eq!(index.find(hash), model.get(&hash).copied(), "seed {seed} step {step}"),
            }
        }
        (index, model)
    }

    #[test]
    fn behaves_as_a_map() {
        for seed in 0..8 {
            let (index, model) =
                compare(seed, 100_000, |rng| rng.random_range(0..1 << [10, 14, 20, 63][seed as usize % 4]));
            let sum = model.values().map(|s| u64::from(s.count)).sum();
            assert_eq!((index.totals(), index.len()), ((model.len() as u64, sum), model.len()));
            index.age();
            index.retain(|_, slot| slot.place % 2 == 0);
            for (hash, slot) in &model {
                let aged = Slot { count: slot.count.div_ceil(2), ..*slot };
                assert_eq!(index.find(*hash), (slot.place % 2 == 0).then_some(aged));
            }
            let copy = Index::new(seed);
            for shard in 0..SHARDS {
                copy.import(shard, index.export(shard).into_iter());
                assert!(copy.export(shard) == index.export(shard));
            }
        }
    }

    #[test]
    fn a_crowded_shard_behaves_as_a_map() {
        for (seed, from) in [0, u32::MAX - 300, 1 << 31].into_iter().enumerate() {
            let mut rng = StdRng::seed_from_u64(seed as u64);
            let (mut shard, mut model) = (Shard::default(), HashMap::new());
            for step in 0..20_000 {
                let print = from + rng.random_range(0..300);
                if rng.random_bool(0.6) {
                    shard.insert(print, slot(step));
                    model.insert(print, slot(step));
                } else {
                    assert_eq!(shard.remove(print), model.remove(&print));
                }
                let print = from + rng.random_range(0..300);
                assert_eq!(shard.find(print), model.get(&print).copied());
                assert_eq!(shard.len, model.len());
            }
        }
    }

    #[test]
    fn takes_less_than_fifteen_bytes_an_object() {
        let index = Index::new(1);
        let mut rng = StdRng::seed_from_u64(1);
        for n in 1..=1_000_000u64 {
            index.insert(rng.random(), slot(n));
            if n % 100_000 == 0 && n > 200_000 {
                let per_object = index.bytes() as f64 / n as f64;
                assert!(per_object < 15.0, "{per_object} at {n}");
            }
        }
    }
}
