//! The caches on disk of this proxy: none, one, or a set of several, one for each disk.
//!
//! A key decides to which disk of a set it belongs (`home`). What always holds of a set:
//!
//! - Whatever puts a key's object removes it from all other disks, and whatever removes it removes it from all. So what lies under a
//!   key on a disk that serves is what was put last, wherever it lies, and the set may grow and shrink. (A kill may undo a removal
//!   of the last moment, as on one disk; where the newer object is found then, the older one goes.)
//! - A disk that fails is left (`care`): what belongs there is not stored, what lies there is not found, and nothing waits for it. It
//!   serves again when it works, and all that was changed since it last wrote was removed from it (`journal`), or it is empty.
//! - Across starts each disk remembers since when which disks are in the set (`record`).
//!
//! Whoever changes a key holds the view of the set for reading; it is changed by `set` alone, which nobody then does. Whoever changes a key
//! also holds what these caches are (`Kind`): they are handed to another process, and taken back, while nobody does.

mod answers;
mod care;
mod given;
mod home;
mod journal;
mod readers;
mod record;
mod set;
#[cfg(test)]
mod tests;
mod view;

pub use answers::Answers;
pub use care::Patience;
pub use given::{Change, Successor};
pub use journal::MEMORY as JOURNAL;
pub use readers::Readers;
pub use record::Membership;
pub use set::{Disk, Obstacle, Opening, State, Unopened};

use self::given::Given;
use self::record::Record;
use self::set::{Set, UNREAD};
use self::view::{Slot, View};
use cache::{Purges, Scope};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};
use store::{Key, LogMap, Refused, Signs, Spans, Stats, Store, Writer};

/// Cheap to clone, shared by all workers.
#[derive(Clone)]
pub struct Stores(Arc<Inner>);

struct Inner {
    kind: RwLock<Kind>,
    /// Which disks serve, by whom: it grows with each change.
    generation: Arc<AtomicU64>,
    /// How each is opened again.
    disks: Arc<[Disk]>,
    patience: Patience,
    apart: OnceLock<Arc<dyn Fn() + Send + Sync>>,
    gone: Gone,
    /// They are being taken back; true: they were closed, and are not any more.
    taking: Mutex<bool>,
}

/// On a cache line of its own: each look asks it, and what lies beside it is written by each look at a disk.
#[derive(Default)]
#[repr(align(128))]
struct Gone(AtomicBool);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    None,
    One(Arc<One>),
    Set(Arc<Set>),
    /// Another process has them.
    Given(Arc<Given>),
}

/// A cache that is alone. It is never left: there is no other.
struct One {
    store: Store,
    /// Where it was in a set before.
    record: Mutex<Option<Record>>,
}

/// Of one disk, what is told of it.
#[derive(Clone, Debug)]
pub struct DiskStats {
    pub name: String,
    /// Its share of the keys, of 1.
    pub share: f64,
    pub state: State,
    /// While it serves.
    pub stats: Option<Stats>,
}

impl Default for Stores {
    fn default() -> Stores {
        Stores::new(Kind::None, Arc::default(), Arc::default(), Patience::default())
    }
}

impl From<Option<Store>> for Stores {
    fn from(store: Option<Store>) -> Stores {
        store.map_or_else(Stores::default, |store| {
            Stores::new(Kind::one(store), Arc::default(), Arc::default(), Patience::default())
        })
    }
}

impl Kind {
    /// Opens the disks: with one that cannot be read now the others go on, and it is tried again. An error is one line: there
    /// is none, or one holds what is no cache.
    fn open(disks: &Arc<[Disk]>, generation: &Arc<AtomicU64>, patience: Patience) -> Result<Kind, String> {
        match &**disks {
            [] => Ok(Kind::None),
            [disk] => disk.open(Opening::AsItIs).map(Kind::one).map_err(|unopened| unopened.why),
            _ => Set::open(disks.clone(), generation.clone(), patience).map(Kind::Set),
        }
    }

    fn one(store: Store) -> Kind {
        let ledger = store.ledger();
        let (record, purges) = Record::split(&ledger).unwrap_or((None, &UNREAD));
        // Those that were in the set with it have to know that it went on without them.
        let record = record.map(|record| record.next(vec![store.identity()]));
        if let Some(record) = &record {
            let _ = store.set_ledger(&record.encode(purges));
            store.persist(Patience::default().open);
        }
        Kind::One(Arc::new(One { store, record: Mutex::new(record) }))
    }

    fn is_same(&self, other: &Kind) -> bool {
        match (self, other) {
            (Kind::None, Kind::None) => true,
            (Kind::One(one), Kind::One(other)) => Arc::ptr_eq(one, other),
            (Kind::Set(one), Kind::Set(other)) => Arc::ptr_eq(one, other),
            (Kind::Given(one), Kind::Given(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn view(&self) -> View {
        match self {
            Kind::None => View::default(),
            Kind::One(one) => View::alone(one.store.clone()),
            Kind::Set(set) => set.view().clone(),
            Kind::Given(given) => given.view.clone(),
        }
    }

    fn remove(&self, key: &Key) {
        match self {
            Kind::None => {}
            Kind::One(one) => one.store.remove(key),
            Kind::Set(set) => {
                set.change(key, |view| view.home(key), |store| store.remove(key));
            }
            Kind::Given(given) => given.removed(key),
        }
    }

    fn ledger(&self) -> Vec<u8> {
        match self {
            Kind::None => Vec::new(),
            Kind::One(one) => {
                let ledger = one.store.ledger();
                Record::split(&ledger).map_or(UNREAD.to_vec(), |(_, purges)| purges.to_vec())
            }
            Kind::Set(set) => set.purges(),
            Kind::Given(given) => given.purges().unwrap_or_default(),
        }
    }

    fn set_ledger(&self, purges: &[u8]) {
        match self {
            Kind::None => {}
            Kind::One(one) => {
                let record = one.record.lock().unwrap_or_else(PoisonError::into_inner);
                let ledger = record.as_ref().map_or_else(|| purges.to_vec(), |record| record.encode(purges));
                let _ = one.store.set_ledger(&ledger);
            }
            Kind::Set(set) => set.set_purges(purges),
            Kind::Given(given) => given.set_purges(purges),
        }
    }

    fn close(&self) -> bool {
        match self {
            Kind::None => true,
            Kind::Given(given) => !given.has_changed(),
            Kind::One(one) => one.store.close(),
            Kind::Set(set) => set.close(),
        }
    }
}

impl Stores {
    /// Opens the disks: with one that cannot be read now the others go on, and it is tried again. An error is one line: there
    /// is none, or one holds what is no cache.
    pub fn open(disks: Vec<Disk>, patience: Patience) -> Result<Stores, String> {
        let disks: Arc<[Disk]> = disks.into();
        let generation = Arc::default();
        let kind = Kind::open(&disks, &generation, patience)?;
        Ok(Stores::new(kind, generation, disks, patience))
    }

    fn new(kind: Kind, generation: Arc<AtomicU64>, disks: Arc<[Disk]>, patience: Patience) -> Stores {
        Stores(Arc::new(Inner {
            kind: RwLock::new(kind),
            generation,
            disks,
            patience,
            apart: OnceLock::new(),
            gone: Gone::default(),
            taking: Mutex::default(),
        }))
    }

    fn kind(&self) -> RwLockReadGuard<'_, Kind> {
        self.0.kind.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes another kind by `change`, while nobody changes a key.
    fn become_other<T>(&self, change: impl FnOnce(&mut Kind) -> T) -> T {
        let mut kind = self.0.kind.write().unwrap_or_else(PoisonError::into_inner);
        let done = change(&mut kind);
        self.0.generation.fetch_add(1, Ordering::AcqRel);
        done
    }

    /// Hands the caches to another process: what was taken so far is in the files when this returns, and nothing more is written.
    /// What they hold is still read, and changes are told to the successor. False: not all could be written. Then they stay as they
    /// were, or are given (`are_given`), and `take_back` purges all: nobody knows which removals the files lack.
    pub fn give(&self, successor: Arc<dyn Successor>, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        for (_, store) in self.view().serving() {
            // What is not loaded could not be found afterwards.
            store.wait_until_loaded(until.saturating_duration_since(Instant::now()));
        }
        // Before, since there is no way back for one that is closed but for opening it again. What is removed from here on is in
        // memory alone until they are closed.
        if !self.persist(until.saturating_duration_since(Instant::now())) {
            return false;
        }
        let before = self.become_other(|kind| {
            let before = kind.clone();
            if !matches!(kind, Kind::None) {
                *kind = Kind::Given(Arc::new(Given::new(before.view(), successor)));
            }
            before
        });
        let is_whole = before.close();
        if let Some(given) = self.given().filter(|_| !is_whole) {
            given.lose_track();
        }
        is_whole
    }

    /// Opens the caches again that were handed to a process that is no more. What was changed meanwhile leaves them. An error, one
    /// line: they cannot be opened, and what they hold is read as before.
    pub fn take_back(&self) -> Result<(), String> {
        let are_closed = self.0.taking.lock().unwrap_or_else(PoisonError::into_inner);
        if *are_closed {
            return Err("this process ends".into());
        }
        if self.given().is_none() {
            return Ok(());
        }
        let patience = Patience { takes_over: true, ..self.0.patience };
        let opened = Kind::open(&self.0.disks, &self.0.generation, patience)?;
        if let (Kind::Set(set), Some(apart)) = (&opened, self.0.apart.get()) {
            let apart = apart.clone();
            let _ = set.apart.set(Box::new(move || apart()));
        }
        let is_lost = Purges::decode(&opened.ledger()).is_none();
        let mut is_all = is_lost || self.given().is_some_and(|given| given.has_lost_track());
        // Before they serve again, so that whoever waits for the files (`persist`) also waits for this purge; and once more if what was
        // changed meanwhile became too much.
        loop {
            if let Some(purge_all) = self.0.apart.get().filter(|_| is_all) {
                purge_all();
            }
            let is_known = self.become_other(|kind| {
                let Kind::Given(given) = &*kind else { return true };
                let changed = given.take_changed();
                if changed.all && !is_all {
                    return false;
                }
                changed.keys.iter().for_each(|key| opened.remove(key));
                if let Some(purges) = given.purges() {
                    opened.set_ledger(&purges);
                }
                *kind = opened.clone();
                true
            });
            if is_known {
                return Ok(());
            }
            is_all = true;
        }
    }

    /// The process that the caches were handed to serves.
    pub fn settle(&self) {
        if let Some(given) = self.given() {
            given.settle();
            self.0.gone.0.store(true, Ordering::Release);
        }
    }

    /// Whether another process answers with what they hold: this one does no more.
    pub fn are_gone(&self) -> bool {
        self.0.gone.0.load(Ordering::Acquire)
    }

    /// Whether another process has them, or is about to.
    pub fn are_given(&self) -> bool {
        self.given().is_some()
    }

    fn given(&self) -> Option<Arc<Given>> {
        match &*self.kind() {
            Kind::Given(given) => Some(given.clone()),
            _ => None,
        }
    }

    /// Which set of disks serves; it grows with each change.
    fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    fn view(&self) -> View {
        self.kind().view()
    }

    fn find(&self, of: impl FnOnce(&View) -> Option<&Store>) -> Option<Store> {
        match &*self.kind() {
            Kind::None => None,
            Kind::One(one) => Some(one.store.clone()),
            Kind::Set(set) => of(&set.view()).cloned(),
            Kind::Given(given) => of(&given.view).cloned(),
        }
    }

    /// Where an object with this key lies, or else where it belongs; `None`: nowhere, or the disk is left.
    pub fn of(&self, key: &Key) -> Option<Store> {
        self.find(|view| view.store(view.holder(key)))
    }

    /// Where these spans lie.
    pub fn at(&self, spans: &Spans) -> Option<Store> {
        self.find(|view| view.at(spans))
    }

    /// Begins to write an object, or goes on with the part of it that is stored.
    pub fn begin(
        &self,
        key: &Key,
        part: Option<&Spans>,
        expected: Option<u64>,
    ) -> Option<Result<Writer, Refused>> {
        if self.given().is_some() {
            return None;
        }
        let store = match part {
            Some(part) => self.at(part),
            None => self.find(|view| view.store(view.home(key))),
        }?;
        Some(match part {
            Some(part) => store.resume(key, part, expected),
            None => store.begin(key, expected),
        })
    }

    /// Changes what lies under a key by `put`, on the disk where these spans lie, or else where the key belongs; on all others it is
    /// removed. `None`: that disk is left, or there is none.
    pub fn change<T>(&self, key: &Key, spans: Option<&Spans>, put: impl FnOnce(&Store) -> T) -> Option<T> {
        match &*self.kind() {
            Kind::None => None,
            Kind::One(one) => Some(put(&one.store)),
            Kind::Set(set) => {
                let place = |view: &View| spans.map_or_else(|| view.home(key), |at| at.store.into());
                set.change(key, place, put)
            }
            Kind::Given(given) => {
                given.replaced(key);
                None
            }
        }
    }

    /// Commits what was written by `finish`. A disk that was left meanwhile does not have it.
    pub fn commit(
        &self,
        key: &Key,
        writer: &mut Writer,
        finish: impl FnOnce(&mut Writer) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let spans = writer.spans();
        let commit = |store: &Store| match writer.is_of(store) {
            true => finish(writer),
            false => {
                store.remove(key);
                Err(Refused::Broken)
            }
        };
        self.change(key, Some(&spans), commit).unwrap_or(Err(Refused::Broken))
    }

    /// Removes what lies under a key, wherever; `confirm` is to follow.
    pub fn remove(&self, key: &Key) {
        self.kind().remove(key);
    }

    /// Removes an older object that a kill brought back beside the one that was found on disk `n`.
    pub fn remove_beside(&self, key: &Key, n: usize) {
        if let Kind::Set(set) = &*self.kind() {
            let is_beside = set.view().serving().any(|(other, store)| other != n && store.contains(key));
            if is_beside {
                set.change(key, |_| n, |_| ());
            }
        }
    }

    /// A scope was purged, which another process that has the caches has to know; `confirm` is to follow.
    pub fn tell_purge(&self, scope: &Scope<'_>, softly: bool) {
        if let Kind::Given(given) = &*self.kind() {
            given.purged(scope, softly);
        }
    }

    /// Waits, for a moment at most, until another process that has the caches has done what it was told: before anybody hears that it is
    /// done, and under no lock, for others need not wait.
    pub fn confirm(&self) {
        if let Some(given) = self.given() {
            given.successor.confirm();
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(&*self.kind(), Kind::None)
    }

    /// In which share of the day, now among it, every store may do what nobody waits for; `None`: now it may not.
    pub fn set_off_peak(&self, share: Option<f64>) {
        self.view().serving().for_each(|(_, store)| store.set_off_peak(share));
    }

    /// Bodies of up to so many bytes lie in one piece; `None` without a store.
    pub fn piece_max(&self) -> Option<u64> {
        match &*self.kind() {
            Kind::None => None,
            Kind::One(one) => Some(one.store.span_size() as u64),
            Kind::Set(set) => set.piece_max(),
            Kind::Given(given) => given.view.serving().map(|(_, store)| store.span_size() as u64).min(),
        }
    }

    /// What the stores remember of purges.
    pub fn ledger(&self) -> Vec<u8> {
        self.kind().ledger()
    }

    /// Whether a later start may read what this one could not.
    pub fn may_ledger_return(&self) -> bool {
        matches!(&*self.kind(), Kind::One(one) if one.store.may_ledger_return())
    }

    /// Has every store remember it. One that cannot write keeps it for when it can, and `persist` says so.
    pub fn set_ledger(&self, purges: &[u8]) {
        self.kind().set_ledger(purges);
    }

    /// Whether all that was put and removed so far survives a kill; waits for that long at most.
    pub fn persist(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            let kind = self.kind().clone();
            let rest = until.saturating_duration_since(Instant::now());
            let is_done = match &kind {
                Kind::None => true,
                Kind::One(one) => one.store.persist(rest),
                Kind::Set(set) => set.persist(rest),
                Kind::Given(given) => given.successor.persist(rest),
            };
            // One that was handed over meanwhile does not speak for what came after, and what was is to be asked again once it is
            // taken back.
            let is_same = kind.is_same(&self.kind());
            if is_same && (is_done || self.given().is_none()) || Instant::now() >= until {
                return is_done && is_same;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Of all that serve.
    pub fn stats(&self) -> Option<Stats> {
        let all = self.view();
        all.serving().map(|(_, store)| store.stats()).reduce(Stats::and)
    }

    /// Of each disk.
    pub fn disks(&self) -> Vec<DiskStats> {
        match &*self.kind() {
            Kind::None => Vec::new(),
            Kind::One(one) => vec![DiskStats::alone(&one.store, 1.0)],
            Kind::Set(set) => set.stats(),
            Kind::Given(given) => {
                let total: f64 = given.view.0.iter().map(|slot| slot.weight).sum();
                let told = |(n, slot): (usize, &Slot)| match &slot.store {
                    Some(store) => DiskStats::alone(store, slot.weight / total),
                    None => DiskStats {
                        name: self.0.disks[n].name.clone(),
                        share: slot.identity.map_or(0.0, |_| slot.weight / total),
                        state: State::Left,
                        stats: None,
                    },
                };
                given.view.0.iter().enumerate().map(told).collect()
            }
        }
    }

    /// The log of each disk, while it serves, in so many cells; in the order of `disks`.
    pub fn maps(&self, cells: u64) -> Vec<Option<LogMap>> {
        let view = self.view();
        view.0.iter().map(|slot| slot.store.as_ref().map(|store| store.map(cells))).collect()
    }

    /// How many disks are in a state.
    pub fn count(&self, state: State) -> u64 {
        let is = |serves: bool| serves == (state == State::Serves);
        self.view().0.iter().filter(|slot| is(slot.store.is_some())).count() as u64
    }

    /// How each disk fares that serves.
    pub fn signs(&self) -> Vec<Signs> {
        self.view().0.iter().filter_map(|slot| slot.store.as_ref()).map(Store::signs).collect()
    }

    /// Keys that were changed of late, which a disk would have to be told of that was left now, or is.
    pub fn remembered(&self) -> u64 {
        match &*self.kind() {
            Kind::Set(set) => set.remembered(),
            Kind::None | Kind::One(_) | Kind::Given(_) => 0,
        }
    }

    /// A line for the log of each store that serves: what was opened.
    pub fn opened(&self) -> Vec<String> {
        self.view().serving().map(|(_, store)| store.opened().to_owned()).collect()
    }

    pub fn readers(&self) -> Readers {
        Readers::of_stores(self)
    }

    /// What is to be done when it turns out that removals of a time are unknown, in which a disk went on without the others.
    pub fn when_apart(&self, purge_all: impl Fn() + Send + Sync + 'static) {
        let purge_all: Arc<dyn Fn() + Send + Sync> = Arc::new(purge_all);
        let _ = self.0.apart.set(purge_all.clone());
        if let Kind::Set(set) = &*self.kind() {
            let _ = set.apart.set(Box::new(move || purge_all()));
        }
    }

    /// Writes what is in memory, and ends the stores. Blocking; bounded in time. False when not all could be written: nor is what was
    /// changed of stores that were given to a process that came to nothing, and are not back.
    pub fn close(&self) -> bool {
        *self.0.taking.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let kind = self.kind().clone();
        kind.close()
    }
}

impl DiskStats {
    fn alone(store: &Store, share: f64) -> DiskStats {
        DiskStats { name: store.name().to_owned(), share, state: State::Serves, stats: Some(store.stats()) }
    }
}
