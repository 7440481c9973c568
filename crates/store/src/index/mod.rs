//! The index: where the record of a key lies, in less than ten bytes and no key.
//!
//! Parts by the hash's upper bits, each an ordered table of eight-byte words (`table`) of which a tenth to a fifth is free.
//! `word` says how the cache's size divides a word.
//!
//! A part has two locks. Whoever changes its order holds `writing`, also while all of it is copied into a larger or smaller table:
//! one or two milliseconds, for which other writers of the part wait. `table` is locked for writing only for one insertion or removal, and
//! to put the copy in place; lookups share it with the copying. So a lookup never waits for a copy, and never misses what is there.
//!
//! Two keys that agree in all bits that the index knows displace each other: a miss, never wrong bytes, for the record carries its
//! key. `WordLayout::false_matches` says how often. Hashes are mixed with the cache's random identity first, so that nobody can choose
//! URLs that crowd one place. (Where they do, entries are forgotten rather than a table grown without end.)

mod table;
#[cfg(test)]
mod tests;
mod word;
mod words;

pub use word::{Slot, USES_MAX, WordLayout};

use crate::format::Layout;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use table::{Full, Laid, Laying, Table};

/// Entries are shown in portions of so many, for some microseconds each.
const PORTION: usize = 1024;
/// Of so many slots one at least is taken, in all but the smallest table.
const EMPTIEST: usize = 32;
/// A table that is full grows by one in so many, and shrinks when as many of its entries have left.
const STEP: usize = 20;

pub struct Index {
    layout: WordLayout,
    parts: Box<[Part]>,
    /// Entries of all parts.
    len: AtomicUsize,
    /// Of all tables.
    bytes: AtomicUsize,
}

/// An entry with what the index knows of its key. It means something only to an index of the same layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The mixed hash behind the bits that name the part: the layout's `print_bits`, uppermost, and zeros.
    pub print: u64,
    pub slot: Slot,
}

struct Part {
    writing: Mutex<Tally>,
    table: RwLock<Table>,
}

/// What is in a part.
#[derive(Default)]
struct Tally {
    laid: Laid,
    /// Below so many the table is laid out anew.
    shrink_below: usize,
}

/// Which entries stay when a part is laid out anew.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    All,
    AllButTombstones,
}

/// Where a hash belongs: its part, and its print there.
#[derive(Clone, Copy)]
struct Address {
    part: usize,
    print: u64,
}

impl Index {
    /// An empty index of a cache with this layout, for so many objects.
    pub fn of(layout: &Layout, objects: u64) -> Index {
        let words = WordLayout::new(layout.size(), objects);
        debug_assert_eq!(WordLayout::unit(layout.size()), layout.unit);
        Index::new(words)
    }

    /// Bytes that an index of so many entries takes at most, if it is made for them: at its emptiest an entry of eight bytes has a
    /// sixth beside it.
    pub const fn most_bytes(entries: u64) -> u64 {
        entries * 10 + (64 << 10)
    }

    /// An empty index.
    pub fn new(layout: WordLayout) -> Index {
        let part = |_| Part {
            writing: Mutex::default(),
            table: RwLock::new(Table::new(Table::least(layout), layout)),
        };
        let parts: Box<[Part]> = (0..layout.parts()).map(part).collect();
        let bytes = parts.iter().map(|part| part.read().bytes()).sum::<usize>() + size_of_val(&*parts);
        Index { layout, parts, len: AtomicUsize::new(0), bytes: AtomicUsize::new(bytes) }
    }

    pub fn layout(&self) -> WordLayout {
        self.layout
    }

    /// `hash` is the key's mixed hash (`format::Layout::mix`), here and below.
    pub fn find(&self, hash: u64) -> Option<Slot> {
        let Address { part, print } = self.address(hash);
        let table = self.parts[part].read();
        let at = table.find(print).ok()?;
        self.layout.slot(table.word(at))
    }

    /// Finds and counts one use. Like `find` it waits for no copy: while a part is copied, a use may be lost.
    pub fn reference(&self, hash: u64) -> Option<Slot> {
        let Address { part, print } = self.address(hash);
        let table = self.parts[part].read();
        let at = table.find(print).ok()?;
        loop {
            let word = table.word(at);
            let slot = self.layout.slot(word)?;
            let used = self.layout.used(word);
            if used == word {
                return Some(slot);
            }
            if table.exchange(at, word, used) {
                return self.layout.slot(used);
            }
        }
    }

    /// The record at `from` lies at `to` now. Lookups do not wait.
    pub fn relocate(&self, hash: u64, from: u64, to: u64) {
        let Address { part, print } = self.address(hash);
        // Or a copy of the part could bring the old place back.
        let (part, _tally) = self.writing(part);
        let table = part.read();
        let Ok(at) = table.find(print) else { return };
        loop {
            let word = table.word(at);
            let Some(slot) = self.layout.slot(word).filter(|slot| slot.place == from) else { return };
            // Uses are counted meanwhile.
            if table.exchange(at, word, self.layout.pack(print, Slot { place: to, ..slot })) {
                return;
            }
        }
    }

    /// Puts or replaces, also a tombstone. Returns what it replaced.
    pub fn insert(&self, hash: u64, slot: Slot) -> Option<Slot> {
        let address = self.address(hash);
        self.put(address, self.layout.pack(address.print, slot))
    }

    pub fn remove(&self, hash: u64) -> Option<Slot> {
        self.remove_if(hash, |_| true)
    }

    /// Removes the entry only when it points to `place`: what was replaced meanwhile stays.
    pub fn remove_at(&self, hash: u64, place: u64) -> Option<Slot> {
        self.remove_if(hash, |slot| slot.place == place)
    }

    /// Leaves a tombstone: the key is known to be absent, whatever is loaded later. Returns what it replaced.
    pub fn bury(&self, hash: u64) -> Option<Slot> {
        let address = self.address(hash);
        self.put(address, self.layout.tombstone(address.print))
    }

    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the tables take, a little more than is resident.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    pub fn part_of(&self, hash: u64) -> usize {
        self.address(hash).part
    }

    /// What the index knows of a hash besides its part.
    pub fn print_of(&self, hash: u64) -> u64 {
        self.address(hash).print
    }

    /// The lowest of the hashes of which the index knows this.
    pub fn hash_of(&self, part: usize, print: u64) -> u64 {
        self.first_of(part) | print >> self.layout.part_bits()
    }

    /// The lowest hash that belongs to a part.
    pub fn first_of(&self, part: usize) -> u64 {
        (part as u64) << (64 - self.layout.part_bits())
    }

    /// Shows every entry, part by part.
    pub fn each(&self, mut show: impl FnMut(Slot)) {
        (0..self.parts()).for_each(|part| self.entries(part).for_each(|entry| show(entry.slot)));
    }

    /// The entries of a part in the order of their prints, read in portions. What is neither inserted nor removed meanwhile comes
    /// exactly once. Writers of the part wait for a portion, lookups do not.
    pub fn entries(&self, part: usize) -> impl Iterator<Item = Entry> {
        let (mut from, step) = (Some(0), 1u64 << (64 - self.layout.print_bits()));
        let portions = std::iter::from_fn(move || {
            let portion = self.portion(part, from?);
            from = portion
                .last()
                .filter(|_| portion.len() == PORTION)
                .and_then(|(last, _)| last.checked_add(step));
            Some(portion)
        });
        portions
            .flatten()
            .filter_map(|(print, word)| self.layout.slot(word).map(|slot| Entry { print, slot }))
    }

    /// Brings a whole part in, in the order of `entries`, with one copy: what is there already, a tombstone too, prevails. Entries
    /// that are out of order or bounds are left out, and those that do not stay: that is asked when other writers of the part wait.
    /// Lookups do not wait.
    pub fn load(&self, part: usize, entries: impl IntoIterator<Item = Entry>, stays: impl Fn(Slot) -> bool) {
        let mut last = None;
        let entries = entries.into_iter().filter(|entry| {
            let fits = last.is_none_or(|last| last < entry.print)
                && entry.print & !self.layout.print_mask() == 0
                && self.layout.holds(entry.slot);
            last = if fits { Some(entry.print) } else { last };
            fits
        });
        let mut words: Vec<_> =
            entries.map(|entry| (entry.print, self.layout.pack(entry.print, entry.slot))).collect();
        let (part, mut tally) = self.writing(part);
        words.retain(|(_, word)| self.layout.slot(*word).is_some_and(&stays));
        let slots = Table::slots_for(tally.laid.taken + words.len());
        self.lay_out(part, &mut tally, slots, Keep::All, &words);
    }

    /// Forgets which keys of this part are known to be absent. Lookups do not wait.
    pub fn clear_tombstones(&self, part: usize) {
        let (part, mut tally) = self.writing(part);
        if tally.laid.tombstones > 0 {
            let slots = Table::slots_for(tally.laid.taken - tally.laid.tombstones);
            self.lay_out(part, &mut tally, slots, Keep::AllButTombstones, &[]);
        }
    }

    fn address(&self, hash: u64) -> Address {
        let part_bits = self.layout.part_bits();
        Address {
            part: (hash >> (64 - part_bits)) as usize,
            print: hash << part_bits & self.layout.print_mask(),
        }
    }

    fn writing(&self, part: usize) -> (&Part, MutexGuard<'_, Tally>) {
        let part = &self.parts[part];
        (part, part.writing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, Address { part, print }: Address, word: u64) -> Option<Slot> {
        let (part, mut tally) = self.writing(part);
        let found = part.read().find(print);
        let at = match found {
            Ok(at) => at,
            Err(at) => {
                self.put_new(part, &mut tally, at, (print, word));
                return None;
            }
        };
        let old = {
            let table = part.write();
            let old = table.word(at);
            table.set(at, word);
            old
        };
        let buried = |word| self.layout.is_tombstone(word);
        self.account(&mut tally, |tally| {
            tally.laid.tombstones =
                tally.laid.tombstones + usize::from(buried(word)) - usize::from(buried(old));
        });
        self.layout.slot(old)
    }

    /// Puts what is not there, where it belongs.
    fn put_new(&self, part: &Part, tally: &mut Tally, at: usize, (print, word): (u64, u64)) {
        let inserted = {
            let mut table = part.write();
            if table.has_room(tally.laid.taken) { table.insert(at, print, word) } else { Err(Full) }
        };
        if inserted.is_ok() {
            self.account(tally, |tally| {
                tally.laid.taken += 1;
                tally.laid.tombstones += usize::from(self.layout.is_tombstone(word));
            });
            return;
        }
        let slots = part.read().slots();
        let slots = Table::slots_for(tally.laid.taken + 1).max(slots + slots / STEP);
        self.lay_out(part, tally, slots, Keep::All, &[(print, word)]);
    }

    fn remove_if(&self, hash: u64, leaves: impl Fn(Slot) -> bool) -> Option<Slot> {
        let Address { part, print } = self.address(hash);
        let (part, mut tally) = self.writing(part);
        let found = part.read().find(print);
        let slot = {
            let at = found.ok()?;
            let mut table = part.write();
            let slot = self.layout.slot(table.word(at)).filter(|slot| leaves(*slot))?;
            table.remove(at);
            slot
        };
        self.account(&mut tally, |tally| tally.laid.taken -= 1);
        if tally.laid.taken < tally.shrink_below {
            let slots = Table::slots_for(tally.laid.taken);
            self.lay_out(part, &mut tally, slots, Keep::All, &[]);
        }
        Some(slot)
    }

    /// Lays a part out anew, in so many slots, or more if entries would reach too far (an emptier part than expected): what is there, if need be without tombstones, and `more`, in order.
    fn lay_out(&self, part: &Part, tally: &mut Tally, slots: usize, keep: Keep, more: &[(u64, u64)]) {
        let (mut slots, most) = (slots.max(Table::least(self.layout)), tally.laid.taken + more.len());
        let (mut table, laid) = {
            let old = part.read();
            loop {
                let lossy = slots > Table::least(self.layout) && slots / EMPTIEST > most;
                let laying = Laying::new(slots, self.layout, lossy);
                if let Ok(done) = self.lay(laying, &old, keep, more) {
                    break done;
                }
                slots += slots / STEP;
            }
        };
        self.bytes.fetch_add(table.bytes(), Relaxed);
        std::mem::swap(&mut table, &mut *part.write());
        // What is swapped out is given back with no lock held that lookups take.
        self.bytes.fetch_sub(table.bytes(), Relaxed);
        self.account(tally, |tally| {
            *tally = Tally { laid, shrink_below: laid.taken - laid.taken / STEP };
        });
    }

    fn lay(
        &self,
        mut laying: Laying,
        old: &Table,
        keep: Keep,
        more: &[(u64, u64)],
    ) -> Result<(Table, Laid), Full> {
        let mut more = more.iter().peekable();
        let stays = |(_, word): &(u64, u64)| keep == Keep::All || !self.layout.is_tombstone(*word);
        for (print, word) in old.entries(0..old.slots()).filter(stays) {
            while let Some((new, word)) = more.next_if(|(new, _)| *new <= print) {
                // What is there prevails.
                if *new < print {
                    laying.push(*new, *word)?;
                }
            }
            laying.push(print, word)?;
        }
        more.try_for_each(|(print, word)| laying.push(*print, *word))?;
        Ok(laying.done())
    }

    /// Up to so many entries of a part, with tombstones, from this print on.
    fn portion(&self, part: usize, from: u64) -> Vec<(u64, u64)> {
        let (part, _tally) = self.writing(part);
        let table = part.read();
        let at = table.find(from).unwrap_or_else(|at| at);
        table.entries(at..table.slots()).take(PORTION).collect()
    }

    /// Changes a part's tally, and the sum of entries with it.
    fn account(&self, tally: &mut Tally, change: impl FnOnce(&mut Tally)) {
        let before = tally.laid.taken - tally.laid.tombstones;
        change(tally);
        // Wraps around where it is less than before.
        self.len.fetch_add((tally.laid.taken - tally.laid.tombstones).wrapping_sub(before), Relaxed);
    }
}

impl Part {
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}
