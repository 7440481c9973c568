//! Who comes most often, in bounded memory: the algorithm Space-Saving (Metwally, Agrawal and El Abbadi, 2005).
//!
//! Of those that were counted together, whoever comes more often than the rarest of a full sketch is in it, and no count is too
//! low. It is too high by `error` at most.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Bytes of a name; the rest is not kept.
pub const NAME: usize = 256;

pub struct Sketch<T> {
    most: usize,
    hasher: RandomState,
    hashes: Vec<u64>,
    entries: Vec<Entry<T>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<T> {
    pub name: String,
    pub count: u64,
    /// Of that, what others may have counted.
    pub error: u64,
    /// Since it is in the sketch.
    pub more: T,
}

impl<T: Default + Clone> Sketch<T> {
    /// For so many names at once.
    pub fn of(most: usize) -> Sketch<T> {
        Sketch { most, hasher: RandomState::new(), hashes: Vec::new(), entries: Vec::new() }
    }

    /// It came once more, for so many.
    pub fn add(&mut self, name: &str, weight: u64) -> &mut T {
        let hash = self.hasher.hash_one(name);
        let at = match self.hashes.iter().position(|known| *known == hash) {
            Some(at) => at,
            None => self.enter(name, hash),
        };
        let entry = &mut self.entries[at];
        entry.count += weight;
        &mut entry.more
    }

    /// The newcomer takes the place of the rarest, and its count.
    fn enter(&mut self, name: &str, hash: u64) -> usize {
        let rarest = || (0..self.entries.len()).min_by_key(|at| self.entries[*at].count);
        let at = match rarest().filter(|_| self.entries.len() >= self.most) {
            Some(at) => at,
            None => {
                self.hashes.push(hash);
                self.entries.push(Entry { name: String::new(), count: 0, error: 0, more: T::default() });
                self.entries.len() - 1
            }
        };
        self.hashes[at] = hash;
        let entry = &mut self.entries[at];
        (entry.error, entry.more) = (entry.count, T::default());
        entry.name.clear();
        entry.name.push_str(&name[..name.floor_char_boundary(NAME)]);
        at
    }

    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    /// Who is not in it came no more often.
    pub fn floor(&self) -> u64 {
        let is_full = self.entries.len() >= self.most;
        self.entries.iter().map(|entry| entry.count).min().filter(|_| is_full).unwrap_or(0)
    }
}

/// Several sketches as one list, the most frequent first; `and` puts together what is known of a name.
pub fn merge<'a, T: Clone + 'a>(
    sketches: impl Iterator<Item = &'a [Entry<T>]>,
    and: impl Fn(&mut T, &T),
) -> Vec<Entry<T>> {
    let mut merged: HashMap<&str, Entry<T>> = HashMap::new();
    for entry in sketches.flatten() {
        match merged.get_mut(&*entry.name) {
            Some(known) => {
                known.count += entry.count;
                known.error += entry.error;
                and(&mut known.more, &entry.more);
            }
            None => _ = merged.insert(&entry.name, entry.clone()),
        }
    }
    let mut merged: Vec<Entry<T>> = merged.into_values().collect();
    merged.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng};

    #[test]
    fn counts_are_never_too_low_and_too_high_by_no_more_than_the_error() {
        let mut chance = StdRng::seed_from_u64(7);
        let (mut sketch, mut exact) = (Sketch::<u64>::of(32), HashMap::<String, u64>::new());
        for n in 0..50_000u32 {
            // A few are asked for often, and all others once.
            let name =
                if n % 3 == 0 { format!("/once/{n}") } else { format!("/{}", chance.random_range(0..16)) };
            *sketch.add(&name, 1) += 1;
            *exact.entry(name).or_default() += 1;
        }
        assert_eq!(sketch.entries().len(), 32);
        for entry in sketch.entries() {
            let count = exact[&entry.name];
            assert!(count <= entry.count && entry.count - entry.error <= count, "{entry:?}: {count}");
        }
        for (name, count) in exact.iter().filter(|(_, count)| **count > sketch.floor()) {
            assert!(sketch.entries().iter().any(|entry| entry.name == *name), "{name}: {count}");
        }
    }

    #[test]
    fn names_are_cut_and_those_of_several_sketches_are_one() {
        let long = "é".repeat(1000);
        let mut sketches = [Sketch::<u64>::of(4), Sketch::of(4)];
        for (n, sketch) in sketches.iter_mut().enumerate() {
            *sketch.add("a", 5) += 1;
            *sketch.add(&long, 16) += n as u64;
        }
        let merged = merge(sketches.iter().map(|sketch| sketch.entries()), |sum, more| *sum += more);
        let told: Vec<_> = merged.iter().map(|entry| (entry.name.len(), entry.count, entry.more)).collect();
        assert_eq!(told, [(NAME, 32, 1), (1, 10, 2)]);
        assert_eq!(sketches[0].floor(), 0, "there is room");
    }
}
