//! The overlay: newer metadata of records that lie on the medium with older metadata. Bounded; the oldest go first, and
//! then the record's own metadata is what is found again.
//!
//! Always true: an entry whose place is the one that the index has under its hash was made for the record there.
//! The engine sees to it, since whatever it puts under a hash removes the hash's entry first; and whoever asks names
//! the checksum of the body at hand, so that a race with the sweep gives no record another's metadata.

use crate::format::update::Target;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What an entry takes beside its metadata, about, bytes.
const COST: usize = 192;

pub struct Overlay {
    /// Bytes, `COST` for each entry among them.
    bound: usize,
    /// Entries, so that readers need no lock where there are none.
    len: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By the upper half of the key's hash: when it was made, and what it says.
    entries: HashMap<u64, (u64, Update)>,
    /// Hashes by when their entries were made.
    order: BTreeMap<u64, u64>,
    bytes: usize,
    next: u64,
}

/// Newer metadata of one record.
#[derive(Clone, Debug)]
pub struct Update {
    pub target: Target,
    pub meta: Bytes,
    /// Where the update itself lies in the log; `None` when only a checkpoint is known to have it.
    pub record: Option<u64>,
}

impl Overlay {
    /// An empty one that takes at most `bound` bytes.
    pub fn new(bound: usize) -> Overlay {
        Overlay { bound, len: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// Whether metadata of this length can be held.
    pub fn admits(&self, length: usize) -> bool {
        length.saturating_add(COST) <= self.bound
    }

    /// The newer metadata of the record at `place` whose body has this checksum.
    pub fn meta(&self, hash: u64, place: u64, sum: u64) -> Option<Bytes> {
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let state = self.state();
        let (_, update) = state.entries.get(&hash)?;
        (update.target.place == place && update.target.sum == sum).then(|| update.meta.clone())
    }

    /// True when what is in force under the hash is the update at `record`.
    pub fn is_from(&self, hash: u64, record: u64) -> bool {
        self.state().entries.get(&hash).is_some_and(|(_, update)| update.record == Some(record))
    }

    /// Replaces what was there; the oldest go when there is no room.
    pub fn insert(&self, hash: u64, update: Update) {
        let mut state = self.state();
        state.remove(hash);
        if !self.admits(update.meta.len()) {
            return self.count(&state);
        }
        state.bytes += update.meta.len() + COST;
        state.next += 1;
        let made = state.next;
        state.order.insert(made, hash);
        state.entries.insert(hash, (made, update));
        while state.bytes > self.bound
            && let Some((_, oldest)) = state.order.first_key_value().map(|(made, hash)| (*made, *hash))
        {
            state.remove(oldest);
        }
        self.count(&state);
    }

    pub fn remove(&self, hash: u64) {
        self.retain_of(hash, |_| false);
    }

    /// Removes the entry of the record at `place`.
    pub fn remove_at(&self, hash: u64, place: u64) {
        self.retain_of(hash, |update| update.target.place != place);
    }

    fn retain_of(&self, hash: u64, keep: impl Fn(&Update) -> bool) {
        if self.len.load(Relaxed) == 0 {
            return;
        }
        let mut state = self.state();
        if state.entries.get(&hash).is_some_and(|(_, update)| !keep(update)) {
            state.remove(hash);
            self.count(&state);
        }
    }

    /// Keeps the entries for which `keep(hash, target)` holds.
    pub fn retain(&self, keep: impl Fn(u64, &Target) -> bool) {
        let mut state = self.state();
        let gone: Vec<u64> =
            state.entries.iter().filter(|(hash, (_, u))| !keep(**hash, &u.target)).map(|(h, _)| *h).collect();
        gone.into_iter().for_each(|hash| state.remove(hash));
        self.count(&state);
    }

    /// All entries, the oldest first.
    pub fn export(&self) -> Vec<(u64, Update)> {
        let state = self.state();
        let entry = |hash: &u64| state.entries.get(hash).map(|(_, update)| (*hash, update.clone()));
        state.order.values().filter_map(entry).collect()
    }

    pub fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub fn bytes(&self) -> usize {
        self.state().bytes
    }

    pub fn bound(&self) -> usize {
        self.bound
    }

    fn count(&self, state: &State) {
        debug_assert_eq!(state.entries.len(), state.order.len());
        self.len.store(state.entries.len(), Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, hash: u64) {
        if let Some((made, update)) = self.entries.remove(&hash) {
            self.order.remove(&made);
            self.bytes -= update.meta.len() + COST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(place: u64, length: usize) -> Update {
        let target = Target { place, units: 1, sum: place + 1 };
        Update { target, meta: Bytes::from(vec![place as u8; length]), record: Some(place + 1_000) }
    }

    #[test]
    fn an_entry_answers_for_its_own_record_only() {
        let overlay = Overlay::new(10_000);
        overlay.insert(7, update(1, 10));
        assert_eq!(overlay.meta(7, 1, 2).as_deref(), Some(&[1; 10][..]));
        assert_eq!(overlay.meta(7, 2, 2), None, "another place");
        assert_eq!(overlay.meta(7, 1, 3), None, "another body");
        assert_eq!(overlay.meta(8, 1, 2), None, "another key");
        assert!(overlay.is_from(7, 1_001) && !overlay.is_from(7, 1_002));
        overlay.remove_at(7, 2);
        assert_eq!(overlay.len(), 1);
        overlay.remove_at(7, 1);
        assert_eq!((overlay.len(), overlay.bytes()), (0, 0));
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let overlay = Overlay::new(4 * (COST + 100));
        (1..=4).for_each(|n| overlay.insert(n, update(n, 100)));
        // Made anew, the first one is the youngest.
        overlay.insert(1, update(1, 100));
        overlay.insert(5, update(5, 100));
        let left: Vec<u64> = overlay.export().into_iter().map(|(hash, _)| hash).collect();
        assert_eq!(left, [3, 4, 1, 5]);
        overlay.insert(3, update(3, 5_000));
        assert_eq!(
            (overlay.len(), overlay.meta(3, 3, 4)),
            (3, None),
            "what never fits goes with what it replaces"
        );
        overlay.retain(|hash, _| hash == 5);
        assert_eq!((overlay.len(), overlay.bytes()), (1, COST + 100));
        assert!(!Overlay::new(0).admits(0));
    }
}
