//! The caches after they were handed to another process: they are read as they were, and changes are told.
//!
//! Nothing of this process reaches the disks any more. What lies under a key that is changed here is not found here from then on, and
//! the successor is told, so that it does not answer with it either. Until the successor serves, the changes are remembered too:
//! if it fails, the caches are taken back, and what was changed meanwhile leaves them (`Stores::take_back`). They are bounded;
//! beyond that, all is purged.

use super::view::View;
use bytes::Bytes;
use cache::Scope;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::Key;

/// Changes at most, and bytes of their keys and scopes, that are remembered, and told until the successor serves.
const CHANGES: usize = 1 << 18;
const BYTES: usize = 16 << 20;

/// What another process that has the same cache has to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// What lies under this key, by its bytes, was replaced or removed.
    Removed(Bytes),
    /// A scope was purged (`Scope::text`).
    Purged(String),
}

/// The process that the caches were handed to.
pub trait Successor: Send + Sync {
    /// Tells it; returns at once.
    fn tell(&self, change: Change);
    /// Waits, for a moment at most, until it has done what it was told: if it serves already.
    fn confirm(&self);
    /// Whether it has said that what it was told so far survives a kill; waits for that long at most.
    fn persist(&self, patience: Duration) -> bool;
}

pub struct Given {
    /// The stores, closed.
    pub view: View,
    pub successor: Arc<dyn Successor>,
    state: Mutex<State>,
}

struct State {
    /// Until the successor serves.
    changed: Option<Changed>,
    /// What the stores were to remember last, of purges.
    purges: Option<Vec<u8>>,
}

#[derive(Default)]
pub struct Changed {
    pub keys: Vec<Key>,
    /// Scopes that were purged: the stores are given all of them at once.
    scopes: usize,
    /// Of keys and scopes.
    bytes: usize,
    /// There were too many.
    pub all: bool,
}

impl Changed {
    fn note(&mut self, change: &Change) {
        self.bytes += match change {
            Change::Removed(key) => key.len(),
            Change::Purged(scope) => scope.len(),
        };
        self.all |= self.keys.len() + self.scopes >= CHANGES || self.bytes > BYTES;
        match change {
            _ if self.all => self.keys = Vec::new(),
            Change::Removed(key) => self.keys.push(Key::new(key.clone())),
            Change::Purged(_) => self.scopes += 1,
        }
    }
}

impl Given {
    pub fn new(view: View, successor: Arc<dyn Successor>) -> Given {
        let state = Mutex::new(State { changed: Some(Changed::default()), purges: None });
        Given { view, successor, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is put under a key: only what the stores have matters to others.
    pub fn replaced(&self, key: &Key) {
        if self.view.serving().any(|(_, store)| store.contains(key)) {
            self.removed(key);
        }
    }

    pub fn removed(&self, key: &Key) {
        self.view.serving().for_each(|(_, store)| store.lose(key));
        self.tell(Change::Removed(key.bytes().clone()));
    }

    pub fn purged(&self, scope: &Scope<'_>, softly: bool) {
        self.tell(Change::Purged(scope.text(softly)));
    }

    fn tell(&self, change: Change) {
        let mut state = self.state();
        let is_all = |state: &State| state.changed.as_ref().is_some_and(|changed| changed.all);
        let was_all = is_all(&state);
        if let Some(changed) = &mut state.changed {
            changed.note(&change);
        }
        let is_all = is_all(&state);
        drop(state);
        match (was_all, is_all) {
            (false, false) => self.successor.tell(change),
            (false, true) => self.successor.tell(Change::Purged(Scope::All.text(false))),
            // Told already: what was removed since is not there.
            (true, _) => {}
        }
    }

    pub fn set_purges(&self, purges: &[u8]) {
        self.state().purges = Some(purges.to_vec());
    }

    pub fn purges(&self) -> Option<Vec<u8>> {
        self.state().purges.clone()
    }

    /// The successor serves: nothing is taken back, and only bodies under way are read.
    pub fn settle(&self) {
        self.state().changed = None;
    }

    /// Whether the files have what was changed here, and nobody removes it.
    pub fn has_changed(&self) -> bool {
        let state = self.state();
        let is_noted = |changed: &Changed| changed.all || !changed.keys.is_empty() || state.purges.is_some();
        state.changed.as_ref().is_some_and(is_noted)
    }

    /// What the files lack is not known: whoever takes the caches back purges all.
    pub fn lose_track(&self) {
        if let Some(changed) = &mut self.state().changed {
            *changed = Changed { all: true, ..Changed::default() };
        }
        self.successor.tell(Change::Purged(Scope::All.text(false)));
    }

    pub fn has_lost_track(&self) -> bool {
        self.state().changed.as_ref().is_some_and(|changed| changed.all)
    }

    /// For whoever takes the caches back; and what was noted after that is not.
    pub fn take_changed(&self) -> Changed {
        self.state().changed.replace(Changed::default()).unwrap_or_default()
    }
}
