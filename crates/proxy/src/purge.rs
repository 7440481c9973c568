//! What was purged, seen by every hit and kept in the store's ledger.

use crate::memory::{Entry, Held};
use crate::serve;
use crate::target::{SCHEME, Target};
use crate::worker::Shared;
use bytes::Bytes;
use cache::{Purges, Scope, key};
use http::Method;
use http::response::Parts;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Key, Store};

pub struct Purged {
    /// `purges.newest()`, for hits that know of it already.
    newest: AtomicU64,
    purges: RwLock<Purges>,
}

impl Purged {
    /// Goes on from what the store remembers. A ledger that cannot be read may have said anything, so all is purged.
    pub fn of(store: Option<&Store>) -> Purged {
        let ledger = store.map(Store::ledger).unwrap_or_default();
        let purges = Purges::decode(&ledger).unwrap_or_else(|| {
            crate::say("cannot read what was purged: nothing that was stored before is served");
            let mut purges = Purges::default();
            purges.purge(Scope::All, millis());
            purges
        });
        Purged { newest: AtomicU64::new(purges.newest()), purges: RwLock::new(purges) }
    }

    /// What is asked of an origin now knows of every purge up to this one.
    pub fn newest(&self) -> u64 {
        self.newest.load(Relaxed)
    }

    /// Whether something stored may no longer answer.
    pub fn covers(&self, held: &Held) -> bool {
        let Entry::Response(resident) = &held.entry else { return false };
        let newest = self.newest();
        if held.purges_known() >= newest {
            return false;
        }
        let covered = {
            let purges = self.purges.read().unwrap_or_else(PoisonError::into_inner);
            purges.cover(held.key.bytes(), &resident.head)
        };
        if !covered {
            held.know_purges(newest);
        }
        covered
    }

    /// Purges scopes. `Store::persist` tells when a kill cannot undo it any more.
    pub fn purge<'a>(&self, scopes: impl IntoIterator<Item = Scope<'a>>, store: Option<&Store>) {
        let mut purges = self.purges.write().unwrap_or_else(PoisonError::into_inner);
        let before = purges.newest();
        for scope in scopes {
            purges.purge(scope, millis());
        }
        if purges.newest() == before {
            return;
        }
        self.newest.store(purges.newest(), Relaxed);
        if let Some(store) = store {
            // A store that is broken serves what it has, and the purge holds as long as this process lives.
            let _ = store.set_ledger(&purges.encode());
        }
    }
}

/// Forgets what is stored of a URI, given its primary key: all variants, queries and searches. What is being fetched is
/// not stored.
pub fn forget(shared: &Shared, primary: &[u8]) {
    for key in [primary.to_vec().into(), key::queries(primary)] {
        forget_key(shared, key);
    }
    forget_searches(shared, primary);
}

/// Forgets the searches of a URI's path that are answered alike.
pub fn forget_searches(shared: &Shared, primary: &[u8]) {
    forget_key(shared, key::searches(primary));
}

fn forget_key(shared: &Shared, key: Bytes) {
    let key = Key::new(key);
    shared.fills.disown(&key);
    shared.memory.remove(&key);
    if let Some(store) = &shared.store {
        store.remove(&key);
    }
}

/// As `forget`, and a purge of the groups of the target's origin that the answer to an unsafe request ends.
pub fn invalidate(shared: &Shared, method: &Method, target: &Target, answer: &Parts) {
    for primary in cache::invalidated(method, SCHEME, target.host(), target.path.as_str(), answer) {
        forget(shared, &primary);
    }
    let groups = cache::invalidated_groups(method, answer);
    if !groups.is_empty() {
        let primary = serve::primary(target);
        let origin = key::origin(primary.bytes());
        let scopes = groups.iter().map(|name| Scope::Group { origin, name });
        shared.purged.purge(scopes, shared.store.as_ref());
    }
}

fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
