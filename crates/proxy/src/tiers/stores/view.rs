//! The disks of a set as they are at one moment: which ones serve, and to which each key belongs.

use super::home::home;
use store::{Key, Spans, Store};

#[derive(Clone, Default)]
pub struct View(pub Vec<Slot>);

/// One disk; its place among the slots is its number in `Spans::store`, too.
#[derive(Clone)]
pub struct Slot {
    /// Known as soon as it could be read once.
    pub identity: Option<u64>,
    pub weight: f64,
    /// While it serves.
    pub store: Option<Store>,
}

impl View {
    /// Of one disk, to which everything belongs.
    pub fn alone(store: Store) -> View {
        View(vec![Slot { identity: None, weight: 1.0, store: Some(store) }])
    }

    /// The disk that a key belongs to, whether it serves or not.
    pub fn home(&self, key: &Key) -> usize {
        if self.0.len() < 2 {
            return 0;
        }
        let known = self.0.iter().enumerate().filter_map(|(n, slot)| Some((n, slot.identity?, slot.weight)));
        home(known, key.hash()).unwrap_or(0)
    }

    pub fn store(&self, n: usize) -> Option<&Store> {
        self.0.get(n)?.store.as_ref()
    }

    /// Where these spans lie.
    pub fn at(&self, spans: &Spans) -> Option<&Store> {
        self.store(usize::from(spans.store))
    }

    /// Where an object may lie, the first of these first: its home, then others whose index may have it. Of the home it is
    /// not asked whether its index does.
    pub fn places<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = usize> + 'a {
        let home = self.home(key);
        let others = (0..self.0.len()).filter(move |n| *n != home);
        let has = |n: &usize| self.store(*n).is_some_and(|store| store.contains(key));
        std::iter::once(home).chain(others.filter(has))
    }

    /// Where an object lies, as far as indexes tell; its home where none has it.
    pub fn holder(&self, key: &Key) -> usize {
        let has = |n: &usize| self.store(*n).is_some_and(|store| store.contains(key));
        self.places(key).find(has).unwrap_or_else(|| self.home(key))
    }

    /// The disks that serve, by their numbers.
    pub fn serving(&self) -> impl Iterator<Item = (usize, &Store)> {
        self.0.iter().enumerate().filter_map(|(n, slot)| Some((n, slot.store.as_ref()?)))
    }

    /// The identities of those.
    pub fn members(&self) -> Vec<u64> {
        self.serving().map(|(_, store)| store.identity()).collect()
    }
}
