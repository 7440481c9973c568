//! Numbers in the order of their keys: a heap that knows where each one stands, so that any of them can go or get another key.

/// Children of a place: four of them lie in one or two cache lines.
const CHILDREN: usize = 4;
/// It stands nowhere.
const OUT: u32 = u32::MAX;

/// The smallest key is first; keys of one number or several may be equal.
#[derive(Default)]
pub struct Heap<K> {
    places: Vec<(K, u32)>,
    /// By number.
    at: Vec<u32>,
}

impl<K: Ord + Copy> Heap<K> {
    pub fn first(&self) -> Option<(K, u32)> {
        self.places.first().copied()
    }

    /// Gives a number its key, whether it is here or not.
    pub fn put(&mut self, number: u32, key: K) {
        if self.at.len() <= number as usize {
            self.at.resize(number as usize + 1, OUT);
        }
        let at = match self.at[number as usize] {
            OUT => {
                self.places.push((key, number));
                self.places.len() - 1
            }
            at => {
                self.places[at as usize].0 = key;
                at as usize
            }
        };
        let at = self.rise(at);
        self.sink(at);
    }

    /// A number that is here goes.
    pub fn remove(&mut self, number: u32) {
        let at = std::mem::replace(&mut self.at[number as usize], OUT) as usize;
        self.places.swap_remove(at);
        if at < self.places.len() {
            let at = self.rise(at);
            self.sink(at);
        }
    }

    /// Up to its place; where that is.
    fn rise(&mut self, mut at: usize) -> usize {
        let one = self.places[at];
        while at > 0 && one.0 < self.places[(at - 1) / CHILDREN].0 {
            self.set(at, self.places[(at - 1) / CHILDREN]);
            at = (at - 1) / CHILDREN;
        }
        self.set(at, one);
        at
    }

    fn sink(&mut self, mut at: usize) {
        let one = self.places[at];
        loop {
            let first = at * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.places.len());
            let Some(least) = children.min_by_key(|child| self.places[*child].0) else { break };
            if self.places[least].0 >= one.0 {
                break;
            }
            self.set(at, self.places[least]);
            at = least;
        }
        self.set(at, one);
    }

    fn set(&mut self, at: usize, one: (K, u32)) {
        self.places[at] = one;
        self.at[one.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a list that is searched for its least key does.
        #[test]
        fn the_least_is_first(turns in proptest::collection::vec((0u32..30, 0u64..50, any::<bool>()), 1..300)) {
            let mut heap = Heap::default();
            let mut list: Vec<(u64, u32)> = Vec::new();
            for (number, key, puts) in turns {
                let here = list.iter().position(|(_, other)| *other == number);
                here.map(|at| list.swap_remove(at));
                match puts {
                    true => {
                        heap.put(number, key);
                        list.push((key, number));
                    }
                    false if here.is_some() => heap.remove(number),
                    false => {}
                }
                prop_assert_eq!(heap.first().map(|(key, _)| key), list.iter().map(|(key, _)| *key).min());
                prop_assert!(heap.first().is_none_or(|first| list.contains(&first)));
            }
            while let Some((key, number)) = heap.first() {
                prop_assert_eq!(list.iter().min().map(|least| least.0), Some(key));
                list.retain(|one| *one != (key, number));
                heap.remove(number);
            }
            prop_assert!(list.is_empty());
        }
    }
}
