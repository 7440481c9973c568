//! Objects that were turned away lately: in two generations, of which the older one is forgotten when the younger one is full of
//! half a lap, or of as many as the log has.

use crate::collections::lru::Quick;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

#[derive(Default)]
pub struct Recent {
    young: Generation,
    old: Generation,
}

type Generation = HashMap<u64, Seen, BuildHasherDefault<Quick>>;

#[derive(Clone, Copy)]
pub struct Seen {
    /// Of its record.
    pub bytes: u64,
    /// Beyond the first time.
    pub uses: u8,
}

impl Recent {
    pub fn put(&mut self, object: u64, seen: Seen) {
        self.old.remove(&object);
        self.young.insert(object, seen);
    }

    /// It is asked for again.
    pub fn take(&mut self, object: u64) -> Option<Seen> {
        self.young.remove(&object).or_else(|| self.old.remove(&object))
    }

    /// How many were turned away since the last turn.
    pub fn young(&self) -> usize {
        self.young.len()
    }

    /// The older ones are forgotten, and said.
    pub fn turn(&mut self) -> impl Iterator<Item = Seen> {
        std::mem::replace(&mut self.old, std::mem::take(&mut self.young)).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_two_turns_it_is_forgotten() {
        let (mut recent, seen) = (Recent::default(), Seen { bytes: 7, uses: 0 });
        recent.put(1, seen);
        recent.put(2, seen);
        assert_eq!(recent.turn().count(), 0);
        recent.put(3, seen);
        assert!(recent.take(1).is_some() && recent.take(1).is_none());
        assert_eq!((recent.turn().count(), recent.young()), (1, 0), "the second");
        assert!(recent.take(2).is_none() && recent.take(3).is_some());
    }
}
