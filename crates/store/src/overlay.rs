//! The overlay: newer metadata of records that lie on the medium with older metadata. Bounded: what it has no room for
//! is not taken, and what it has taken it does not forget.
//!
//! Always true: an entry whose place is the one that the index has under its hash was made for the record there.
//! The engine sees to it, since whatever it puts under a hash removes the hash's entry first; and whoever asks names
//! the checksum of the body at hand, so that a race with the sweep gives no record another's metadata.

use crate::format::update::Target;
use bytes::Bytes;
use std::collections::HashMap;
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
    /// By the upper half of the key's hash.
    entries: HashMap<u64, Update>,
    bytes: usize,
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

    /// Whether there is room for metadata of this length in place of what is there under the hash.
    pub fn admits(&self, hash: u64, length: usize) -> bool {
        let state = self.state();
        let freed = state.entries.get(&hash).map_or(0, cost);
        (state.bytes - freed).saturating_add(length).saturating_add(COST) <= self.bound
    }

    /// The newer metadata of the record at `place` whose body has this checksum.
    pub fn meta(&self, hash: u64, place: u64, sum: u64) -> Option<Bytes> {
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let state = self.state();
        let update = state.entries.get(&hash)?;
        (update.target.place == place && update.target.sum == sum).then(|| update.meta.clone())
    }

    /// True when what is in force under the hash is the update at `record`.
    pub fn is_from(&self, hash: u64, record: u64) -> bool {
        self.state().entries.get(&hash).is_some_and(|update| update.record == Some(record))
    }

    /// Replaces what was there. Whether there is room is the caller's to ask: a restart takes what was once admitted.
    pub fn insert(&self, hash: u64, update: Update) {
        let mut state = self.state();
        state.remove(hash);
        state.bytes += cost(&update);
        state.entries.insert(hash, update);
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
        if state.entries.get(&hash).is_some_and(|update| !keep(update)) {
            state.remove(hash);
            self.count(&state);
        }
    }

    /// Keeps the entries for which `keep(hash, target)` holds.
    pub fn retain(&self, keep: impl Fn(u64, &Target) -> bool) {
        let mut state = self.state();
        let State { entries, bytes } = &mut *state;
        entries.retain(|hash, update| {
            let stays = keep(*hash, &update.target);
            *bytes -= if stays { 0 } else { cost(update) };
            stays
        });
        self.count(&state);
    }

    pub fn export(&self) -> Vec<(u64, Update)> {
        self.state().entries.iter().map(|(hash, update)| (*hash, update.clone())).collect()
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
        self.len.store(state.entries.len(), Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, hash: u64) {
        self.bytes -= self.entries.remove(&hash).as_ref().map_or(0, cost);
    }
}

fn cost(update: &Update) -> usize {
    update.meta.len() + COST
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
    fn what_has_no_room_is_not_admitted() {
        let overlay = Overlay::new(2 * (COST + 100));
        (1..=2).for_each(|n| overlay.insert(n, update(n, 100)));
        assert!(!overlay.admits(3, 0) && overlay.admits(1, 100) && !overlay.admits(1, 101));
        assert!(!overlay.admits(1, usize::MAX));
        overlay.insert(3, update(3, 100));
        assert!(!overlay.admits(1, 100), "more than admitted was taken");
        overlay.retain(|hash, _| hash == 3);
        assert_eq!((overlay.len(), overlay.bytes()), (1, COST + 100));
        assert!(overlay.admits(1, 100));
    }
}
