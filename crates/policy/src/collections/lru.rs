//! Which of many was used least lately: a list through a slab, found by a hash table.

use crate::collections::list::{Links, List, NONE};
use crate::mix::mix;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Keys and values in the order of their use.
pub struct Lru<K, V> {
    at: HashMap<K, u32, BuildHasherDefault<Quick>>,
    nodes: Vec<(K, Option<V>)>,
    free: Vec<u32>,
    links: Links,
    list: List,
}

impl<K: Hash + Eq + Copy, V> Default for Lru<K, V> {
    fn default() -> Lru<K, V> {
        let (links, list) = (Links::default(), List::default());
        Lru { at: HashMap::default(), nodes: Vec::new(), free: Vec::new(), links, list }
    }
}

impl<K: Hash + Eq + Copy, V> Lru<K, V> {
    pub fn count(&self) -> usize {
        self.at.len()
    }

    /// A value, which is now the newest.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let node = *self.at.get(key)?;
        self.links.take_out(&mut self.list, node);
        self.links.put_in(&mut self.list, node);
        self.nodes[node as usize].1.as_mut()
    }

    /// A value, whose age stays.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.nodes[*self.at.get(key)? as usize].1.as_ref()
    }

    pub fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        self.nodes[*self.at.get(key)? as usize].1.as_mut()
    }

    /// The value that was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(old) = self.get(&key) {
            return Some(std::mem::replace(old, value));
        }
        let new = (key, Some(value));
        let node = match self.free.pop() {
            Some(node) => {
                self.nodes[node as usize] = new;
                node
            }
            None => {
                self.nodes.push(new);
                self.nodes.len() as u32 - 1
            }
        };
        self.at.insert(key, node);
        self.links.put_in(&mut self.list, node);
        None
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let node = self.at.remove(key)?;
        self.links.take_out(&mut self.list, node);
        self.free.push(node);
        self.nodes[node as usize].1.take()
    }

    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        let key = self.nodes.get(self.list.oldest as usize)?.0;
        self.remove(&key).map(|value| (key, value))
    }

    /// From the oldest on.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        let some = |node: u32| Some(node).filter(|node| *node != NONE);
        let nodes = std::iter::successors(some(self.list.oldest), move |node| some(self.links.newer(*node)));
        nodes.filter_map(|node| {
            let (key, value) = &self.nodes[node as usize];
            Some((*key, value.as_ref()?))
        })
    }
}

/// Keys are numbers that need only be spread.
#[derive(Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(25) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a list that is searched from one end does.
        #[test]
        fn the_oldest_goes_first(turns in proptest::collection::vec((0u8..4, 0u64..12), 1..200)) {
            let mut lru = Lru::default();
            let mut list: Vec<(u64, usize)> = Vec::new();
            for (nth, (turn, key)) in turns.into_iter().enumerate() {
                let at = list.iter().position(|(k, _)| *k == key);
                match turn {
                    0 => {
                        let old = at.map(|at| list.remove(at).1);
                        list.push((key, nth));
                        prop_assert_eq!(lru.insert(key, nth), old);
                    }
                    1 => {
                        let value = at.map(|at| {
                            let found = list.remove(at);
                            list.push(found);
                            found.1
                        });
                        prop_assert_eq!(lru.get(&key).copied(), value);
                    }
                    2 => prop_assert_eq!(lru.remove(&key), at.map(|at| list.remove(at).1)),
                    _ if list.is_empty() => prop_assert_eq!(lru.pop_oldest(), None),
                    _ => prop_assert_eq!(lru.pop_oldest(), Some(list.remove(0))),
                }
                prop_assert_eq!(lru.count(), list.len());
                prop_assert!(lru.iter().eq(list.iter().map(|(key, value)| (*key, value))));
            }
        }
    }
}
