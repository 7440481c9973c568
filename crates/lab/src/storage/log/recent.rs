//! Objects that were turned away lately: in two generations, of which the older one is forgotten when the younger one is full, or
//! half a lap has passed. They are known exactly, or by filters as the production store has them.

use super::worth::{CLASSES, class};
use policy::collections::lru::Quick;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use trace::random::mix;

/// How they are remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Each with its size and its uses.
    Exact,
    /// Two blocked Bloom filters: of a key it is known in how many of them it is.
    Filters,
}

/// The younger generation and the older one.
pub enum Recent {
    Exact([HashMap<u64, Seen, BuildHasherDefault<Quick>>; 2]),
    Filters(Box<[Filter; 2]>),
}

#[derive(Clone, Copy)]
pub struct Seen {
    class: usize,
    /// Beyond the first time.
    uses: u8,
}

/// Bits of a filter for each object that the log has room for; it takes half as many objects.
const BITS: f64 = 3.5;
/// Bytes of the log for each object.
const BYTES_AN_OBJECT: u64 = 8 << 10;

/// Makes another key of an object's.
const IN_TAIL: u64 = 0x6a09_e667_f3bc_c908;

pub struct Filter {
    blocks: Vec<[u64; 8]>,
    keys: usize,
    most: usize,
    /// By class of size: turned away when they were first seen, less those that were asked for again.
    away: [f64; CLASSES],
}

impl Filter {
    fn new(space: u64) -> Filter {
        let room = space / BYTES_AN_OBJECT;
        let blocks = ((room as f64 * BITS) as usize).div_ceil(512);
        Filter { blocks: vec![[0; 8]; blocks.max(1)], keys: 0, most: room as usize / 2, away: [0.0; CLASSES] }
    }

    fn bits(&self, object: u64) -> (usize, [usize; 4]) {
        let hash = mix(object);
        let block = ((u128::from(hash) * self.blocks.len() as u128) >> 64) as usize;
        let low = mix(hash);
        (block, [0, 9, 18, 27].map(|by| (low >> by) as usize & 511))
    }

    fn has(&self, object: u64) -> bool {
        let (block, bits) = self.bits(object);
        bits.into_iter().all(|bit| self.blocks[block][bit / 64] >> (bit % 64) & 1 == 1)
    }

    fn put(&mut self, object: u64) {
        let (block, bits) = self.bits(object);
        self.keys += usize::from(!self.has(object));
        bits.into_iter().for_each(|bit| self.blocks[block][bit / 64] |= 1 << (bit % 64));
    }

    fn clear(&mut self) {
        self.blocks.fill([0; 8]);
        (self.keys, self.away) = (0, [0.0; CLASSES]);
    }
}

impl Recent {
    /// Of a log of so many bytes.
    pub fn new(memory: Memory, space: u64) -> Recent {
        match memory {
            Memory::Exact => Recent::Exact(Default::default()),
            Memory::Filters => Recent::Filters(Box::new([Filter::new(space), Filter::new(space)])),
        }
    }

    /// It is turned away, after so many uses beyond the first.
    pub fn put(&mut self, object: u64, bytes: u64, uses: u8) {
        match self {
            Recent::Exact([young, old]) => {
                old.remove(&object);
                young.insert(object, Seen { class: class(bytes), uses });
            }
            Recent::Filters(filters) => {
                let [young, _] = &mut **filters;
                young.away[class(bytes)] += f64::from(u8::from(uses == 0));
                young.put(object);
            }
        }
    }

    /// Uses beyond the first of one that is remembered.
    pub fn uses(&self, object: u64) -> Option<u8> {
        match self {
            Recent::Exact([young, old]) => {
                young.get(&object).or_else(|| old.get(&object)).map(|seen| seen.uses)
            }
            Recent::Filters(filters) => match (filters[0].has(object), filters[1].has(object)) {
                (false, false) => None,
                (young, old) => Some(u8::from(young && old)),
            },
        }
    }

    /// It is asked for again.
    pub fn take(&mut self, object: u64, bytes: u64) -> Option<u8> {
        let uses = self.uses(object)?;
        match self {
            Recent::Exact([young, old]) => {
                young.remove(&object).or_else(|| old.remove(&object));
            }
            Recent::Filters(filters) => {
                if uses == 0 {
                    let generation = usize::from(!filters[0].has(object));
                    filters[generation].away[class(bytes)] -= 1.0;
                }
            }
        }
        Some(uses)
    }

    /// Whether this is the first hit on an object in the oldest share of the log for half a lap.
    pub fn is_first(&mut self, object: u64, bytes: u64) -> bool {
        let key = object ^ IN_TAIL;
        let is_first = self.uses(key).is_none();
        if is_first {
            self.put(key, bytes, 1);
        }
        is_first
    }

    /// Whether the younger generation has as many as it may, in a log that holds so many objects.
    pub fn is_full(&self, held: usize) -> bool {
        match self {
            Recent::Exact([young, _]) => young.len() > held,
            Recent::Filters(filters) => filters[0].keys >= filters[0].most,
        }
    }

    /// The older ones are forgotten: `away` gets the classes of those that were seen once, and how many.
    pub fn turn(&mut self, mut away: impl FnMut(usize, f64)) {
        match self {
            Recent::Exact([young, old]) => {
                let gone = std::mem::replace(old, std::mem::take(young));
                gone.into_values().filter(|seen| seen.uses == 0).for_each(|seen| away(seen.class, 1.0));
            }
            Recent::Filters(filters) => {
                let [young, old] = &mut **filters;
                old.away.iter().enumerate().for_each(|(class, count)| away(class, count.max(0.0)));
                std::mem::swap(young, old);
                young.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_two_turns_it_is_forgotten() {
        for memory in [Memory::Exact, Memory::Filters] {
            let mut recent = Recent::new(memory, 1 << 20);
            let mut away = 0.0;
            recent.put(1, 7, 0);
            recent.put(2, 7, 0);
            recent.turn(|_, count| away += count);
            assert_eq!(away, 0.0);
            recent.put(3, 7, 0);
            assert_eq!(recent.take(1, 7), Some(0));
            recent.turn(|_, count| away += count);
            assert_eq!(away, 1.0, "the second");
            assert_eq!([1, 2, 3].map(|object| recent.take(object, 7)), [None, None, Some(0)]);
        }
    }

    /// A log of 64 MiB has room for 8,192 objects; a filter takes half as many.
    #[test]
    fn filters_know_who_was_turned_away_and_few_others() {
        let mut recent = Recent::new(Memory::Filters, 64 << 20);
        let mut put = 0;
        while !recent.is_full(usize::MAX) {
            recent.put(put, 100, 0);
            put += 1;
        }
        assert!((4_096..4_400).contains(&put), "{put}: few were taken for others");
        assert!((0..put).all(|object| recent.uses(object) == Some(0)));
        let others = (0..10_000).filter(|other| recent.uses(1_000_000 + other).is_some()).count();
        assert!((100..800).contains(&others), "{others} of 10,000");
        recent.turn(|_, count| assert_eq!(count, 0.0));
        (0..1_000).for_each(|object| recent.put(object, 100, 1));
        let twice = (0..put).filter(|object| recent.uses(*object) == Some(1)).count();
        assert!((1_000..1_400).contains(&twice), "{twice} in both");
        (2_000..3_000).for_each(|object| assert_eq!(recent.take(object, 100), Some(0)));
        let mut away = 0.0;
        recent.turn(|_, count| away += count);
        assert_eq!(away, (put - 1_000) as f64, "who did not come back");
        assert_eq!(recent.uses(3_500), None);
    }

    #[test]
    fn a_hit_in_the_oldest_share_counts_once() {
        for memory in [Memory::Exact, Memory::Filters] {
            let mut recent = Recent::new(memory, 1 << 20);
            assert!(recent.is_first(1, 7) && !recent.is_first(1, 7) && recent.is_first(2, 7));
            assert_eq!(recent.uses(1), None, "nobody turned it away");
            recent.turn(|_, _| ());
            assert!(!recent.is_first(1, 7));
            recent.turn(|_, count| assert_eq!(count, 0.0));
            assert!(recent.is_first(1, 7));
        }
    }
}
