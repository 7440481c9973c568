//! The keys that were changed of late, by the hashes that stores know them by: what a disk has to be told of that was left before it
//! had written that down.
//!
//! Time goes in ticks. Each disk needs the changes from some tick on: while it serves, from the first of which not all is written
//! there; once it is left, from the one that this was then. What no disk needs is forgotten. There is a bound: beyond it disks that
//! are left are not waited for, and return empty.

use std::collections::HashMap;

/// Keys at most.
pub const MOST: usize = 1 << 18;
/// Bytes of memory that they take.
pub const MEMORY: u64 = (2 * MOST * 17) as u64;

#[derive(Default)]
pub struct Journal {
    /// The tick of each key's last change.
    changed: HashMap<u64, u64>,
    tick: u64,
    /// Changes of ticks before this one are forgotten.
    begin: u64,
    /// What disks that serve need begins here.
    serving: u64,
}

impl Journal {
    /// A key is about to be changed.
    pub fn note(&mut self, hash: u64) {
        if self.changed.len() >= MOST && !self.changed.contains_key(&hash) {
            self.forget_before(self.serving);
            if self.changed.len() > MOST / 4 * 3 {
                let next = self.turn();
                self.forget_before(next);
            }
        }
        self.changed.insert(hash, self.tick);
    }

    /// Ends a tick; gives the number of the next one.
    pub fn turn(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Keys that are known.
    pub fn len(&self) -> usize {
        self.changed.len()
    }

    /// The present tick.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// All that was changed from a tick on; `None`: some of it is forgotten.
    pub fn since(&self, tick: u64) -> Option<Vec<u64>> {
        let changed = || self.changed.iter().filter(|(_, at)| **at >= tick).map(|(hash, _)| *hash);
        (tick >= self.begin).then(|| changed().collect())
    }

    /// The disks that serve need what was changed from a tick on, and those that are left from another.
    pub fn need(&mut self, serving: u64, left: Option<u64>) {
        self.serving = serving;
        let all = left.map_or(serving, |left| left.min(serving));
        // Seldom, since it looks at all of them.
        if all > self.begin && (all == self.tick || all - self.begin >= 8) {
            self.forget_before(all);
        }
    }

    fn forget_before(&mut self, tick: u64) {
        if tick > self.begin {
            self.begin = tick;
            self.changed.retain(|_, at| *at >= tick);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: Option<Vec<u64>>) -> Option<Vec<u64>> {
        keys.map(|mut keys| {
            keys.sort_unstable();
            keys
        })
    }

    #[test]
    fn what_was_changed_from_a_tick_on_is_known_until_nobody_needs_it() {
        let mut journal = Journal::default();
        for n in 0..10 {
            assert_eq!(journal.tick(), n);
            journal.note(n);
            journal.note(100);
            journal.turn();
        }
        assert_eq!(sorted(journal.since(8)), Some(vec![8, 9, 100]));
        journal.need(9, Some(0));
        assert_eq!(journal.since(0).map(|keys| keys.len()), Some(11));
        journal.need(9, None);
        assert_eq!((journal.since(8), sorted(journal.since(9))), (None, Some(vec![9, 100])));
        journal.need(10, None);
        assert_eq!((journal.since(9), journal.since(10)), (None, Some(vec![])));
    }

    #[test]
    fn beyond_its_bound_what_is_left_is_forgotten_first_and_memory_stays() {
        let mut journal = Journal::default();
        journal.note(u64::MAX);
        let serving = journal.turn();
        journal.need(serving, Some(0));
        for n in 0..MOST as u64 / 2 {
            journal.note(n);
        }
        assert!(journal.since(0).is_some());
        let serving = journal.turn();
        journal.need(serving, Some(0));
        for n in 0..MOST as u64 {
            journal.note(n << 32);
        }
        assert_eq!((journal.since(0), journal.since(1)), (None, None));
        assert!(journal.since(serving).is_none_or(|keys| keys.contains(&(5 << 32))));
        journal.turn();
        for n in 0..4 * MOST as u64 {
            journal.note(n << 20);
        }
        assert!(journal.changed.len() <= MOST && journal.since(serving).is_none());
        assert!(
            journal.since(journal.tick()).is_some_and(|keys| keys.contains(&((4 * MOST as u64 - 1) << 20)))
        );
        assert!(journal.changed.capacity() as u64 * 17 <= MEMORY, "{}", journal.changed.capacity());
    }
}
