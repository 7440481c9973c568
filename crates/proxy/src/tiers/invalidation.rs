//! The one owner of invalidation. Whatever brings something into the cache (a read from the disk, a fetch, a fill, a
//! validation, the answer to a HEAD) remembers the moment at which it began, and is let in only when nothing was removed
//! meanwhile that it may be.
//!
//! Two ways to remove. By key (a purge of a URL, an unsafe request, No-Vary-Search, an answer that replaces what it may not
//! be stored over): the key leaves both tiers, and its removal's number is noted by a bucket of its hash. By scope (a purge of a
//! prefix, host, path, expression, group or all; groups that an unsafe request ends): noted in constant time (`cache::Purges`), and asked
//! by every hit. So are soft purges, which remove nothing: what they cover is stale since then.
//!
//! Always: a removal by key and a change of the same key never overlap, since both hold the bucket's lock; a number is
//! given after what it stands for was done, under that lock. So who began before is told, and who begins after
//! finds nothing of it. The newest removals are known exactly; of older ones keys that share a bucket may be told of each
//! other's, which costs a miss. Nobody outside can choose keys that share one.

use crate::tiers::memory::{CacheEntry, EntryKind};
use crate::tiers::stores::Stores;
use cache::{Purges, Scope, Time};
use memchr::memchr;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use store::Key;

/// Locks of keys, and numbers of removals and replacements, of which so many share a lock.
const LOCKS: usize = 4096;
const NUMBERS: usize = 4 * LOCKS;

/// Removals that are known exactly: at least so many, and at most twice.
const EXACT: usize = 32_768;

pub struct Invalidation {
    /// Of the newest removal or replacement by key.
    number: Number,
    locks: Box<[Mutex<()>]>,
    /// The newest removal, by the hash of the primary key: variants are removed together. Changed under its lock, as what
    /// follows.
    removed: Box<[AtomicU64]>,
    /// The newest replacement, by the hash of the whole key, and the latest moment that any was asked for at.
    replaced: Box<[AtomicU64]>,
    asked: Box<[AtomicU64]>,
    started: Instant,
    recent: Mutex<Recent>,
    seed: u64,
    /// `scopes.newest()`, for hits that know of it already.
    newest: AtomicU64,
    scopes: RwLock<Purges>,
    /// The ledger is being replaced.
    writing: Mutex<()>,
}

/// On a cache line of its own: each change by any worker writes it, and what lies beside it is read by each hit.
#[derive(Default)]
#[repr(align(128))]
struct Number(AtomicU64);

/// The newest removals, each with its number: two generations, so that forgetting costs nothing.
#[derive(Default)]
struct Recent {
    young: HashMap<u128, u64>,
    old: HashMap<u128, u64>,
    /// Of removals up to this one some are forgotten.
    forgotten: u64,
    /// The newest in `old`.
    passed: u64,
}

/// A removal that was done.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// Whether the key had been removed after the moment in question, before.
    pub again: bool,
    /// What begins now.
    pub after: u64,
}

/// When something began: what was removed or replaced before, it knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    number: u64,
    /// When that was, nanoseconds since the proxy started: of two between which nothing was changed it tells the later one.
    at: u64,
    /// The newest purge by scope, which is stored with what is fetched ([`cache::Head::purges_known`]).
    pub purges: u64,
}

impl Moment {
    /// The same for purges; what was removed by key up to a removal of its own is known too.
    pub fn knowing(self, own: Removal) -> Moment {
        Moment { number: own.after, ..self }
    }
}

/// What purges by scope make of something stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purged {
    No,
    /// It is stale since a moment, which the purges up to this number say.
    Softly(Time, u64),
    Yes,
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
    /// Goes on from what the stores remember. A ledger that cannot be read may have said anything, so all is purged; they remember
    /// that, unless a later start may read it.
    pub fn of(stores: &Stores) -> Invalidation {
        let scopes = Purges::decode(&stores.ledger()).unwrap_or_else(|| {
            tracing::error!(target: "disk", "cannot read what was purged: nothing that was stored before is served");
            let mut all = Purges::default();
            all.purge(Scope::All, millis());
            if !stores.may_ledger_return() {
                stores.set_ledger(&all.encode());
            }
            all
        });
        let scopes = scopes.seeded(RandomState::new().hash_one(0));
        Invalidation {
            number: Number::default(),
            locks: (0..LOCKS).map(|_| Mutex::default()).collect(),
            removed: (0..NUMBERS).map(|_| AtomicU64::default()).collect(),
            replaced: (0..NUMBERS).map(|_| AtomicU64::default()).collect(),
            asked: (0..NUMBERS).map(|_| AtomicU64::default()).collect(),
            started: Instant::now(),
            recent: Mutex::default(),
            seed: RandomState::new().hash_one(1),
            newest: AtomicU64::new(scopes.newest()),
            scopes: RwLock::new(scopes),
            writing: Mutex::default(),
        }
    }

    /// Now: for what is about to be read or asked for.
    pub fn now(&self) -> Moment {
        let at = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Moment {
            number: self.number.0.load(Ordering::Acquire),
            at,
            purges: self.newest.load(Ordering::Acquire),
        }
    }

    /// Whether the key, or what it is a variant of, was removed after a moment.
    pub fn is_removed_since(&self, key: &Key, began: Moment) -> bool {
        let hash = primary_hash(key);
        let _lock = self.lock(hash);
        self.was_removed(hash, began)
    }

    /// Runs `bring` with what happened to the key since `began`; nothing happens to it meanwhile.
    pub fn look<T>(&self, key: &Key, began: Moment, bring: impl FnOnce(Since) -> T) -> T {
        let hash = primary_hash(key);
        let _lock = self.lock(hash);
        bring(self.since(hash, key, began))
    }

    /// Runs `put`, which changes what lies under the key, if it may with what happened since `began`.
    pub fn replace<T>(
        &self,
        key: &Key,
        began: Moment,
        may: impl FnOnce(Since) -> bool,
        put: impl FnOnce() -> T,
    ) -> Option<T> {
        let hash = primary_hash(key);
        let _lock = self.lock(hash);
        may(self.since(hash, key, began)).then(|| {
            let (done, bucket) = (put(), self.bucket(key.hash()));
            self.asked[bucket].fetch_max(began.at, Ordering::AcqRel);
            self.replaced[bucket].fetch_max(self.next(), Ordering::AcqRel);
            done
        })
    }

    /// Runs `take`, which takes away what lies under the key, if it is what lay there at `began`. It is no later answer: what was asked
    /// for before may take its place.
    pub fn clear(&self, key: &Key, began: Moment, take: impl FnOnce()) {
        let hash = primary_hash(key);
        let _lock = self.lock(hash);
        if self.since(hash, key, began) == Since::Nothing {
            take();
            self.replaced[self.bucket(key.hash())].fetch_max(self.next(), Ordering::AcqRel);
        }
    }

    /// Whether something was put under the key since `began`, and not removed; now and then under another's. Waits for nobody: what is
    /// being put at this moment does not count.
    pub fn was_replaced(&self, key: &Key, began: Moment) -> bool {
        self.replaced[self.bucket(key.hash())].load(Ordering::Acquire) > began.number
            && !self.was_removed(primary_hash(key), began)
    }

    /// Whether what took a key's place was asked for later than at `began`; now and then what took another's.
    pub fn was_overtaken(&self, key: &Key, began: Moment) -> bool {
        self.asked[self.bucket(key.hash())].load(Ordering::Acquire) > began.at
    }

    /// Runs `remove`, which takes away what lies under the key: what began before does not bring it back. Tells whether
    /// somebody else had since `began`.
    pub fn remove(&self, key: &Key, began: Moment, remove: impl FnOnce()) -> Removal {
        let hash = primary_hash(key);
        let _lock = self.lock(hash);
        let again = self.was_removed(hash, began);
        remove();
        let after = self.next();
        // The exact number first: who finds the other looks here.
        self.recent().note(hash, after);
        self.removed[self.bucket(hash)].fetch_max(after, Ordering::AcqRel);
        Removal { again, after }
    }

    /// Whether something stored may no longer answer as it is: a purge by scope covers it.
    pub fn purged(&self, held: &CacheEntry) -> Purged {
        let EntryKind::Response(resident) = &held.kind else { return Purged::No };
        if held.purges_known() >= self.newest.load(Ordering::Acquire) {
            return Purged::No;
        }
        let (purged, newest) = {
            let (scopes, key) =
                (self.scopes.read().unwrap_or_else(PoisonError::into_inner), held.key.bytes());
            let purged = match scopes.cover_softly(key, &resident.head) {
                _ if scopes.cover(key, &resident.head) => Purged::Yes,
                Some(millis) => Purged::Softly(millis / 1000, scopes.newest()),
                None => Purged::No,
            };
            (purged, scopes.newest())
        };
        if purged == Purged::No {
            held.know_purges(newest);
        }
        purged
    }

    /// Purges scopes; softly, what they cover is stale. `Store::persist` tells when a kill cannot undo it any more.
    pub fn purge<'a>(&self, scopes: impl IntoIterator<Item = Scope<'a>>, softly: bool, stores: &Stores) {
        self.purge_here(scopes.into_iter().collect(), softly, stores);
        // Hits go on meanwhile.
        stores.confirm();
    }

    fn purge_here(&self, scopes: Vec<Scope<'_>>, softly: bool, stores: &Stores) {
        let were_given = stores.are_given();
        let mut purges = self.scopes.write().unwrap_or_else(PoisonError::into_inner);
        let before = purges.newest();
        for scope in &scopes {
            match softly {
                true => purges.purge_softly(*scope, millis()),
                false => purges.purge(*scope, millis()),
            }
            stores.tell_purge(scope, softly);
        }
        if purges.newest() == before {
            return;
        }
        self.newest.store(purges.newest(), Ordering::Release);
        drop(purges);
        // One at a time, so that none writes what is older than another's. Hits need not wait for the encoding.
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let encoded = self.scopes.read().unwrap_or_else(PoisonError::into_inner).encode();
        stores.set_ledger(&encoded);
        // Handed over meanwhile, their files may not say so.
        if !were_given && stores.are_given() {
            scopes.iter().for_each(|scope| stores.tell_purge(scope, softly));
        }
    }

    /// By its primary hash, whose lock is held.
    fn since(&self, hash: u128, key: &Key, began: Moment) -> Since {
        // Whatever was done to this key was given its number under the lock.
        if self.number.0.load(Ordering::Acquire) == began.number {
            Since::Nothing
        } else if self.was_removed(hash, began) {
            Since::Removed
        } else if self.replaced[self.bucket(key.hash())].load(Ordering::Acquire) > began.number {
            Since::Replaced
        } else {
            Since::Nothing
        }
    }

    fn next(&self) -> u64 {
        self.number.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// By its primary hash; its lock is held, or what is being removed at this moment does not count.
    fn was_removed(&self, hash: u128, began: Moment) -> bool {
        self.removed[self.bucket(hash)].load(Ordering::Acquire) > began.number
            && self.recent().may_have_been_removed(hash, began.number)
    }

    fn bucket(&self, hash: u128) -> usize {
        // The finalizer of SplitMix64: every bit of the sum moves every bit of the result.
        let mut x = (hash as u64 ^ (hash >> 64) as u64).wrapping_add(self.seed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x >> 32) as usize % NUMBERS
    }

    fn lock(&self, hash: u128) -> MutexGuard<'_, ()> {
        self.locks[self.bucket(hash) % LOCKS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn note(&mut self, hash: u128, number: u64) {
        if self.young.len() >= EXACT {
            self.forgotten = self.passed;
            self.passed = number;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, number);
    }

    /// Whether a key was removed after a number; where that is forgotten, it may have been.
    fn may_have_been_removed(&self, hash: u128, after: u64) -> bool {
        let newest = self.young.get(&hash).or_else(|| self.old.get(&hash));
        *newest.unwrap_or(&self.forgotten) > after
    }
}

/// The hash of the primary key that a key is made of: a variant's is its primary key, NUL, and more.
fn primary_hash(key: &Key) -> u128 {
    match memchr(0, key.bytes()) {
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
        let owner = Invalidation::of(&Stores::default());
        let (page, variant) = (key("GET http://h/"), key("GET http://h/\0gzip"));
        let since = |key: &Key, began| owner.look(key, began, |since| since);
        let before = owner.now();
        assert_eq!(since(&page, before), Since::Nothing);
        assert_eq!(owner.replace(&variant, before, |since| since == Since::Nothing, || 7), Some(7));
        assert_eq!((since(&page, before), since(&variant, before)), (Since::Nothing, Since::Replaced));
        let between = owner.now();
        assert!(!owner.remove(&page, between, || {}).again);
        assert_eq!((since(&page, before), since(&variant, between)), (Since::Removed, Since::Removed));
        assert!(owner.is_removed_since(&variant, between));
        assert_eq!(owner.replace(&variant, between, |since| since != Since::Removed, || 7), None);
        let after = owner.now();
        assert_eq!((since(&page, after), since(&variant, after)), (Since::Nothing, Since::Nothing));
        let second = owner.remove(&page, between, || {});
        assert!(second.again);
        assert_eq!(since(&page, between.knowing(second)), Since::Nothing);
    }

    #[test]
    fn what_was_taken_away_makes_way_for_what_was_asked_for_before() {
        let owner = Invalidation::of(&Stores::default());
        let page = key("GET http://h/");
        let asked = owner.now();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let found = owner.now();
        owner.clear(&page, found, || {});
        assert!(
            !owner.was_overtaken(&page, asked) && owner.look(&page, found, |since| since) == Since::Replaced
        );
        owner.clear(&page, found, || panic!("something else lies there now"));
        owner.replace(&page, found, |_| true, || {});
        assert!(owner.was_overtaken(&page, asked) && owner.was_replaced(&page, found));
        owner.remove(&page, found, || {});
        assert!(!owner.was_replaced(&page, found));
    }

    /// Else no start would serve what was stored before it.
    #[test]
    fn a_ledger_that_is_lost_is_a_purge_once() {
        use rand::{SeedableRng, rngs::StdRng};
        use std::{sync::Arc, time::Duration};
        use store::disk::{Disk, sim::SimDisk};
        const SIZE: u64 = 4 << 20;
        let disk = Arc::new(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1)));
        let options = store::Options { size: Some(SIZE), packet: 64 << 10, ..store::Options::at("") };
        let start = || {
            let store = store::Store::over(disk.clone(), &options).unwrap();
            let owner = Invalidation::of(&Stores::from(Some(store.clone())));
            assert!(store.persist(Duration::from_secs(20)));
            store.abandon();
            std::thread::sleep(Duration::from_millis(2));
            owner.newest.into_inner()
        };
        assert_eq!((start(), start()), (0, 0));
        for copy in [256 << 10, 512 << 10] {
            disk.write(copy, &[0; 4096]).unwrap();
        }
        let purged = start();
        assert!(purged > 0 && start() == purged);
        // For one start neither can be read.
        disk.fail_reads_in(256 << 10..768 << 10);
        assert!(start() > purged);
        disk.fail_reads_in(0..0);
        assert_eq!(start(), purged);
    }

    /// A process that takes over, and answers when it is let.
    struct Slow {
        is_asked: std::sync::mpsc::Sender<()>,
        answers: Mutex<std::sync::mpsc::Receiver<()>>,
    }

    impl crate::tiers::stores::Successor for Slow {
        fn tell(&self, _: crate::tiers::stores::Change) {}

        fn confirm(&self) {
            self.is_asked.send(()).unwrap();
            self.answers.lock().unwrap().recv().unwrap();
        }

        fn persist(&self, _: std::time::Duration) -> bool {
            false
        }
    }

    /// Who purges waits for the other process, and nobody else does.
    #[test]
    fn no_lock_is_held_while_another_process_is_waited_for() {
        use crate::tiers::{Tiers, memory::Memory};
        use rand::{SeedableRng, rngs::StdRng};
        use std::{sync::Arc, time::Duration};
        const SIZE: u64 = 4 << 20;
        const SOON: Duration = Duration::from_secs(20);
        let disk = Arc::new(store::disk::sim::SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1)));
        let options = store::Options { size: Some(SIZE), packet: 64 << 10, ..store::Options::at("") };
        let stores = Stores::from(Some(store::Store::over(disk, &options).unwrap()));
        let (asks, asked) = std::sync::mpsc::channel();
        let (answers, answered) = std::sync::mpsc::channel();
        let tiers = Tiers::new(Memory::new(0, 0), stores.clone(), Default::default());
        assert!(stores.give(Arc::new(Slow { is_asked: asks, answers: Mutex::new(answered) }), SOON));
        let owner = &tiers.invalidation;
        let are_free = || {
            owner.scopes.try_read().is_ok()
                && owner.writing.try_lock().is_ok()
                && owner.locks.iter().all(|lock| lock.try_lock().is_ok())
        };
        let purge = || tiers.purge([Scope::Path("/")], false);
        let remove = || tiers.remove(&key("GET http://h/"));
        let changes: [&(dyn Fn() + Sync); 2] = [&purge, &remove];
        std::thread::scope(|scope| {
            for change in changes {
                let changing = scope.spawn(change);
                let is_waited_for = asked.recv_timeout(SOON).is_ok();
                let (are_free, goes_on) = (are_free(), changing.is_finished());
                answers.send(()).unwrap();
                changing.join().unwrap();
                assert!(is_waited_for && are_free && !goes_on, "{is_waited_for} {are_free} {goes_on}");
            }
        });
    }

    /// However many others are removed meanwhile, as long as they are known exactly.
    #[test]
    fn removals_of_others_are_told_of_nobody() {
        let owner = Invalidation::of(&Stores::default());
        let page = key("GET http://h/");
        let began = owner.now();
        for n in 0..EXACT {
            owner.remove(&key(&format!("GET http://evil/{n}")), began, || {});
        }
        assert!(!owner.is_removed_since(&page, began));
        owner.remove(&page, began, || {});
        let after = owner.now();
        for n in 0..4 * EXACT {
            owner.remove(&key(&format!("GET http://evil/{n}")), began, || {});
        }
        assert!(owner.is_removed_since(&page, began), "a removal was forgotten");
        let recent = owner.recent();
        assert!(recent.young.len() + recent.old.len() <= 2 * EXACT);
        drop(recent);
        assert!(!owner.is_removed_since(&page, owner.now()) && after.number < owner.now().number);
    }

    /// Brings and removals of one key by several threads: what was removed is never there after its removal, unless it was
    /// brought by who began later.
    #[test]
    fn nothing_comes_back_between_threads() {
        let owner = Invalidation::of(&Stores::default());
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
                owner.remove(&page, owner.now(), || *there.lock().unwrap() = None);
                let ended = owner.now().number;
                let found = *there.lock().unwrap();
                assert!(found.is_none_or(|began| began >= ended), "{found:?} came back after {ended}");
            }
        });
    }
}
