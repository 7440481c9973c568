//! A part of the index: words in the order of their prints, near where their prints point (ordered linear probing).
//!
//! A *print* is what the index knows of a hash within a part: its upper `b` bits, the others being zero; read as a binary fraction
//! it is from 0 to 1. The table has `room` homes, and home(print) = ⌊print · room⌋, which rises with the print. Always true:
//! - entries stand in the order of their prints, which all differ, and none before its home;
//! - every slot from an entry's home to the entry is taken (no search has to go past an empty slot);
//! - no entry is further than `reach` slots behind its home.
//!
//! A word has only the low `f` of the `b` bits, the fingerprint. The others follow from where it stands. Prints are multiples of
//! 2^−b; two whose homes differ by at most `reach` + 1 differ by less than (`reach` + 2) / `room`, and `reach` is chosen so that
//! this is at most 2^(f−b) / 2. If one of them is known, the other is the only print within that distance that has its
//! fingerprint: the known one plus the difference of the fingerprints as a signed number of f bits. It is so of an entry at `p`,
//! whose home is from `p` − `reach` to `p`, and any print whose home is from `p` − `reach` − 1 to `p`: that of a search, which
//! never looks further than `reach` from its home, and the one that `Geometry::about` computes from `p`.

use super::word::WordLayout;
use super::words::Words;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Of a hundred slots, those that are taken at most; a table that is laid out anew has so many taken as the second number says. At
/// both, and until a twentieth has left, an entry takes less than ten bytes.
const FULLEST: (usize, usize) = (91, 86);

/// Slots behind the last home.
const TAIL: usize = 128;

pub struct Table {
    words: Words,
    geometry: Geometry,
}

/// Where prints belong in a table, and what the word at a place says of its print.
#[derive(Clone, Copy)]
struct Geometry {
    room: usize,
    reach: usize,
    /// Behind an entry, displacements rise by at most one a slot: one entry of so many is looked at.
    stride: usize,
    /// A slot's share of all prints, rounded down.
    share: u64,
    /// Bits of a print above its fingerprint.
    above: u32,
    /// Where the fingerprint is in a word.
    word_mask: u64,
    /// Where the bits of a print are.
    print_mask: u64,
}

/// What a table has no room for: it has to be laid out anew.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

impl Table {
    pub fn new(slots: usize, layout: WordLayout) -> Table {
        let words = Words::new(slots.max(Self::least(layout)));
        let geometry = Geometry::new(words.len(), layout);
        Table { words, geometry }
    }

    /// Slots of the smallest table: displacements of a few slots are possible there.
    pub fn least(layout: WordLayout) -> usize {
        8 << reach_shift(layout)
    }

    /// Slots in which so many entries are laid out.
    pub fn slots_for(entries: usize) -> usize {
        entries * 100 / FULLEST.1
    }

    pub fn slots(&self) -> usize {
        self.words.len()
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// Whether it may take another one: else an insertion would move too many.
    pub fn has_room(&self, entries: usize) -> bool {
        (entries + 1) * 100 <= self.words.len() * FULLEST.0
    }

    /// Where the print stands, or else where it belongs.
    pub fn find(&self, print: u64) -> Result<usize, usize> {
        let home = self.geometry.home(print);
        let end = (home + self.geometry.reach + 1).min(self.words.len());
        for (p, word) in self.words[home..end].iter().enumerate() {
            let word = word.load(Relaxed);
            let difference = self.geometry.difference(word, print);
            if word == 0 || difference > 0 {
                return Err(home + p);
            }
            if difference == 0 {
                return Ok(home + p);
            }
        }
        Err(end)
    }

    pub fn word(&self, at: usize) -> u64 {
        self.words[at].load(Relaxed)
    }

    /// Exchanges a word for one with the same fingerprint. False if it is no longer `old`.
    pub fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.words[at].compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }

    pub fn set(&self, at: usize, word: u64) {
        self.words[at].store(word, Relaxed);
    }

    /// Puts a word where its print belongs. Those behind it move on to the next empty slot.
    pub fn insert(&mut self, at: usize, print: u64, word: u64) -> Result<(), Full> {
        let taken = self.words[at..].iter().position(|w| w.load(Relaxed) == 0).ok_or(Full)?;
        let geometry = self.geometry;
        let mut moved = (at..at + taken).step_by(geometry.stride);
        if !geometry.may(at, print) || !moved.all(|p| geometry.may(p, geometry.print(p, self.word(p)))) {
            return Err(Full);
        }
        let mut carried = word;
        for word in &self.words[at..=at + taken] {
            let next = word.load(Relaxed);
            word.store(carried, Relaxed);
            carried = next;
        }
        Ok(())
    }

    /// Empties a slot.
    pub fn remove(&mut self, at: usize) {
        // Entries behind the hole move up while that brings them nearer to home.
        let mut hole = at;
        while let Some(word) = self.words.get(hole + 1).map(|word| word.load(Relaxed)) {
            if word == 0 || self.geometry.home(self.geometry.print(hole + 1, word)) == hole + 1 {
                break;
            }
            self.set(hole, word);
            hole += 1;
        }
        self.set(hole, 0);
    }

    /// The entries in these slots in order, with their prints.
    pub fn entries(&self, slots: Range<usize>) -> impl Iterator<Item = (u64, u64)> {
        let geometry = self.geometry;
        let words = self.words[slots.clone()].iter().map(|word| word.load(Relaxed));
        slots.zip(words).filter(|(_, word)| *word != 0).map(move |(p, word)| (geometry.print(p, word), word))
    }
}

impl Geometry {
    fn new(slots: usize, layout: WordLayout) -> Geometry {
        let room = slots - (slots / 64 + 4).min(TAIL);
        let reach = (room >> reach_shift(layout)) - 2;
        Geometry {
            room,
            reach,
            stride: (reach / 8).max(1),
            share: u64::MAX / room as u64,
            above: layout.print_bits() - layout.fingerprint_bits(),
            word_mask: u64::MAX << layout.fingerprint_shift(),
            print_mask: layout.print_mask(),
        }
    }

    fn home(self, print: u64) -> usize {
        ((u128::from(print) * self.room as u128) >> 64) as usize
    }

    /// A print whose home is `p` or the slot before (or the first): rounding down twice costs it less than a slot's share. Beyond
    /// the homes it wraps around, and so do the differences from it.
    fn about(self, p: usize) -> u64 {
        (p as u64).wrapping_mul(self.share) & self.print_mask
    }

    /// Of the word at `p`.
    fn print(self, p: usize, word: u64) -> u64 {
        let about = self.about(p);
        about.wrapping_add_signed(self.difference(word, about) >> self.above)
    }

    /// Between the fingerprint of a word and that of a print near it, in the uppermost f bits.
    fn difference(self, word: u64, print: u64) -> i64 {
        (word & self.word_mask).wrapping_sub(print << self.above) as i64
    }

    /// Whether an entry may stand at `p`: within reach, also when those between two that are looked at are a stride further.
    fn may(self, p: usize, print: u64) -> bool {
        p - self.home(print) + self.stride <= self.reach
    }
}

/// What stands in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Laid {
    /// Slots taken.
    pub taken: usize,
    /// Those of them that are tombstones.
    pub tombstones: usize,
}

/// A table that is being laid out with entries in the order of their prints.
pub struct Laying {
    table: Table,
    layout: WordLayout,
    laid: Laid,
    /// The first slot that is still empty.
    next: usize,
    /// Entries that reach too far are left out.
    lossy: bool,
}

impl Laying {
    pub fn new(slots: usize, layout: WordLayout, lossy: bool) -> Laying {
        Laying { table: Table::new(slots, layout), layout, laid: Laid::default(), next: 0, lossy }
    }

    pub fn push(&mut self, print: u64, word: u64) -> Result<(), Full> {
        let geometry = self.table.geometry;
        let at = geometry.home(print).max(self.next);
        if !geometry.may(at, print) || at >= self.table.words.len() {
            return if self.lossy { Ok(()) } else { Err(Full) };
        }
        self.table.set(at, word);
        self.next = at + 1;
        self.laid.taken += 1;
        self.laid.tombstones += usize::from(self.layout.is_tombstone(word));
        Ok(())
    }

    pub fn done(self) -> (Table, Laid) {
        (self.table, self.laid)
    }
}

/// `reach` + 2 is `room` divided by two to this: `room` · 2^(f−b) / 2.
fn reach_shift(layout: WordLayout) -> u32 {
    layout.print_bits() + 1 - layout.fingerprint_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Slot;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    /// The reconstruction, at every degree of filling: prints come back from what words say, in tables of a fraction of the size
    /// that is expected and of many times that.
    #[test]
    fn words_and_places_give_the_prints_back() {
        let slot = Slot { place: 1, length: 1, uses: 0, again: false };
        for (size, objects) in
            [(1u64 << 30, 1000), (1 << 40, 1 << 22), (16 << 40, 1 << 22), (16 << 40, 1 << 26)]
        {
            let layout = WordLayout::new(size, objects);
            for (seed, slots) in [1, 2000, 5000, 20_000, 100_000].into_iter().enumerate() {
                let mut rng = StdRng::seed_from_u64(seed as u64);
                let mut table = Table::new(slots, layout);
                let mut prints = Vec::new();
                while table.has_room(prints.len()) {
                    // Some at both ends and some in clusters.
                    let print: u64 = match rng.random_range(0..50) {
                        0 => u64::MAX - (rng.random::<u64>() >> 20),
                        1 => rng.random::<u64>() >> 20,
                        2 => (rng.random_range(0..16u64) << 60) + (rng.random::<u64>() >> 14),
                        _ => rng.random(),
                    } & layout.print_mask();
                    match table.find(print) {
                        Ok(_) => assert!(prints.contains(&print)),
                        Err(at) if table.insert(at, print, layout.pack(print, slot)) == Ok(()) => {
                            prints.push(print)
                        }
                        Err(_) => break,
                    }
                }
                assert!(prints.len() > 20, "{} of {slots} {layout:?}", prints.len());
                prints.sort_unstable();
                let there = |table: &Table| -> Vec<u64> {
                    table.entries(0..table.slots()).map(|(print, _)| print).collect()
                };
                assert!(there(&table) == prints, "{layout:?} {slots}");
                for print in prints.drain(..) {
                    let at = table.find(print).expect("it is there");
                    assert!((at - table.geometry.reach.min(at)..=at).contains(&table.geometry.home(print)));
                    if rng.random() {
                        table.remove(at);
                        assert!(table.find(print).is_err());
                    }
                }
                for print in there(&table) {
                    assert_eq!(table.find(print).map(|at| table.print_at(at)), Ok(print));
                }
            }
        }
    }

    impl Table {
        fn print_at(&self, at: usize) -> u64 {
            self.geometry.print(at, self.word(at))
        }
    }
}
