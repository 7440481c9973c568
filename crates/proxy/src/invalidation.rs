//! The one owner of invalidation. Whatever brings something into the cache (a read from the disk, a fetch, a fill, a
//! validation, the answer to a HEAD) remembers the moment at which it began, and is let in only when nothing was removed
//! meanwhile that it may be.
//!
//! Two ways to remove. By key (a purge of a URL, an unsafe request, No-Vary-Search, an answer that replaces what it may not
//! be stored over): the key leaves both tiers, and its removal's number is noted by a bucket of its hash. By scope (a purge of a
//! prefix, host, path, group or all; groups that an unsafe request ends): noted in constant time (`cache::Purges`), and asked
//! by every hit.
//!
//! Always: a removal by key and a change of the same key never overlap, since both hold the bucket's lock; a number is
//! given after what it stands for was done, under that lock. So who began before is told, and who begins after
//! finds nothing of it. Keys that share a bucket may be told of each other's removals, which costs a miss.

use crate::memory::{Entry, Held};
use cache::{Purges, Scope};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use store::{Key, Store};

/// Buckets of keys: enough that few reads are under way for each.
const BUCKETS: usize = 4096;

pub struct Invalidation {
    /// Of the newest removal or replacement by key.
    number: AtomicU64,
    /// The newest removal, by the hash of the primary key: variants are removed together.
    removed: Box<[Mutex<u64>]>,
    /// The newest replacement, by the hash of the whole key; changed under the lock of the primary key.
    replaced: Box<[AtomicU64]>,
    /// `scopes.newest()`, for hits that know of it already.
    newest: AtomicU64,
    scopes: RwLock<Purges>,
}

/// When something began: what was removed or replaced before, it knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    number: u64,
    /// The newest purge by scope, which is stored with what is fetched ([`cache::Head::purges_known`]).
    pub purges: u64,
}

impl Moment {
    /// The same for purges; what was removed by key until `later` is known too.
    pub fn knowing_removals_until(self, later: Moment) -> Moment {
        Moment { number: later.number, ..self }
    }
}

/// What happened to a key since a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    Nothing,
    /// Something newer was put under it.
    Replaced,
    Removed,
}

impl Invalidation {
    /// Goes on from what the store remembers. A ledger that cannot be read may have said anything, so all is purged.
    pub fn of(store: Option<&Store>) -> Invalidation {
        let ledger = store.map(Store::ledger).unwrap_or_default();
        let scopes = Purges::decode(&ledger).unwrap_or_else(|| {
            crate::say("cannot read what was purged: nothing that was stored before is served");
            let mut all = Purges::default();
            all.purge(Scope::All, millis());
            all
        });
        let scopes = scopes.seeded(RandomState::new().hash_one(0));
        Invalidation {
            number: AtomicU64::new(0),
            removed: (0..BUCKETS).map(|_| Mutex::default()).collect(),
            replaced: (0..BUCKETS).map(|_| AtomicU64::default()).collect(),
            newest: AtomicU64::new(scopes.newest()),
            scopes: RwLock::new(scopes),
        }
    }

    /// Now: for what is about to be read or asked for.
    pub fn now(&self) -> Moment {
        Moment { number: self.number.load(Ordering::Acquire), purges: self.newest.load(Ordering::Acquire) }
    }

    /// Whether the key, or what it is a variant of, was removed after a moment.
    pub fn is_removed_since(&self, key: &Key, began: Moment) -> bool {
        *self.lock(key) > began.number
    }

    /// Runs `bring` with what happened to the key since `began`; nothing happens to it meanwhile.
    pub fn look<T>(&self, key: &Key, began: Moment, bring: impl FnOnce(Since) -> T) -> T {
        let removed = self.lock(key);
        bring(self.since(*removed, key, began))
    }

    /// Runs `put`, which changes what lies under the key, if it may with what happened since `began`.
    pub fn replace<T>(
        &self,
        key: &Key,
        began: Moment,
        may: impl FnOnce(Since) -> bool,
        put: impl FnOnce() -> T,
    ) -> Option<T> {
        let removed = self.lock(key);
        may(self.since(*removed, key, began)).then(|| {
            let done = put();
            self.replaced[bucket(key.hash())].fetch_max(self.next(), Ordering::AcqRel);
            done
        })
    }

    /// Runs `remove`, which takes away what lies under the key: what began before does not bring it back.
    pub fn remove<T>(&self, key: &Key, remove: impl FnOnce() -> T) -> T {
        let mut removed = self.lock(key);
        let done = remove();
        *removed = self.next();
        done
    }

    /// Whether something stored may no longer answer: a purge by scope covers it.
    pub fn covers(&self, held: &Held) -> bool {
        let Entry::Response(resident) = &held.entry else { return false };
        let newest = self.newest.load(Ordering::Acquire);
        if held.purges_known() >= newest {
            return false;
        }
        let covered = {
            let scopes = self.scopes.read().unwrap_or_else(PoisonError::into_inner);
            scopes.cover(held.key.bytes(), &resident.head)
        };
        if !covered {
            held.know_purges(newest);
        }
        covered
    }

    /// Purges scopes. `Store::persist` tells when a kill cannot undo it any more.
    pub fn purge<'a>(&self, scopes: impl IntoIterator<Item = Scope<'a>>, store: Option<&Store>) {
        let mut purges = self.scopes.write().unwrap_or_else(PoisonError::into_inner);
        let before = purges.newest();
        for scope in scopes {
            purges.purge(scope, millis());
        }
        if purges.newest() == before {
            return;
        }
        self.newest.store(purges.newest(), Ordering::Release);
        if let Some(store) = store {
            // A store that cannot write keeps it for when it can, and says so to who asks it to persist.
            let _ = store.set_ledger(&purges.encode());
        }
    }

    fn since(&self, removed: u64, key: &Key, began: Moment) -> Since {
        if removed > began.number {
            Since::Removed
        } else if self.replaced[bucket(key.hash())].load(Ordering::Acquire) > began.number {
            Since::Replaced
        } else {
            Since::Nothing
        }
    }

    fn next(&self) -> u64 {
        self.number.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn lock(&self, key: &Key) -> MutexGuard<'_, u64> {
        self.removed[bucket(primary_hash(key))].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bucket(hash: u128) -> usize {
    (hash % BUCKETS as u128) as usize
}

/// The hash of the primary key that a key is made of: a variant's is its primary key, NUL, and more.
fn primary_hash(key: &Key) -> u128 {
    match key.bytes().iter().position(|byte| *byte == 0) {
        Some(end) => Key::new(key.bytes().slice(..end)).hash(),
        None => key.hash(),
    }
}

fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::new(text.as_bytes().to_vec())
    }

    #[test]
    fn who_began_before_is_told_and_who_begins_after_is_not() {
        let owner = Invalidation::of(None);
        let (page, variant) = (key("GET http://h/"), key("GET http://h/\0gzip"));
        let since = |key: &Key, began| owner.look(key, began, |since| since);
        let before = owner.now();
        assert_eq!(since(&page, before), Since::Nothing);
        assert_eq!(owner.replace(&variant, before, |since| since == Since::Nothing, || 7), Some(7));
        assert_eq!((since(&page, before), since(&variant, before)), (Since::Nothing, Since::Replaced));
        let between = owner.now();
        owner.remove(&page, || {});
        assert_eq!((since(&page, before), since(&variant, between)), (Since::Removed, Since::Removed));
        assert!(owner.is_removed_since(&variant, between));
        assert_eq!(owner.replace(&variant, between, |since| since != Since::Removed, || 7), None);
        let after = owner.now();
        assert_eq!((since(&page, after), since(&variant, after)), (Since::Nothing, Since::Nothing));
    }

    /// Brings and removals of one key by several threads: what was removed is never there after its removal, unless it was
    /// brought by who began later.
    #[test]
    fn nothing_comes_back_between_threads() {
        let owner = Invalidation::of(None);
        let there = Mutex::new(None::<u64>);
        let page = key("GET http://h/");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let began = owner.now();
                        std::hint::spin_loop();
                        owner.look(&page, began, |since| {
                            if since == Since::Nothing {
                                *there.lock().unwrap() = Some(began.number);
                            }
                        });
                    }
                });
            }
            for _ in 0..20_000 {
                owner.remove(&page, || *there.lock().unwrap() = None);
                let ended = owner.now().number;
                let found = *there.lock().unwrap();
                assert!(found.is_none_or(|began| began >= ended), "{found:?} came back after {ended}");
            }
        });
    }
}
