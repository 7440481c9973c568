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
//! Whoever changes a key holds the view of the set for reading; it is changed by `set` alone, which nobody then does.

mod answers;
mod care;
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
pub use journal::MEMORY as JOURNAL;
pub use readers::Readers;
pub use record::Membership;
pub use set::{Disk, Opening, State, Unopened};

use self::record::Record;
use self::set::{Set, UNREAD};
use self::view::View;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Key, LogMap, Refused, Spans, Stats, Store, Writer};

/// Cheap to clone, shared by all workers.
#[derive(Clone, Default)]
pub struct Stores(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    None,
    One(Arc<One>),
    Set(Arc<Set>),
}

/// A cache that is alone. It is never left: there is no other.
struct One {
    store: Store,
    /// Where it was in a set before.
    record: Mutex<Option<Record>>,
}

/// A store to be asked something; of a set, for as long as it is held.
pub enum Held<'a> {
    One(&'a Store),
    OfSet(Store),
}

impl Deref for Held<'_> {
    type Target = Store;
    fn deref(&self) -> &Store {
        match self {
            Held::One(store) => store,
            Held::OfSet(store) => store,
        }
    }
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

impl From<Option<Store>> for Stores {
    fn from(store: Option<Store>) -> Stores {
        store.map_or_else(Stores::default, Stores::one)
    }
}

impl Stores {
    /// Opens the disks: with one that cannot be read now the others go on, and it is tried again. An error is one line: there
    /// is none, or one holds what is no cache.
    pub fn open(disks: Vec<Disk>, patience: Patience) -> Result<Stores, String> {
        match <[Disk; 1]>::try_from(disks) {
            Ok([disk]) => disk.open(Opening::AsItIs).map(Stores::one).map_err(|unopened| unopened.why),
            Err(disks) if disks.is_empty() => Ok(Stores::default()),
            Err(disks) => Set::open(disks, patience).map(|set| Stores(Kind::Set(set))),
        }
    }

    fn one(store: Store) -> Stores {
        let ledger = store.ledger();
        let (record, purges) = Record::split(&ledger).unwrap_or((None, &UNREAD));
        // Those that were in the set with it have to know that it went on without them.
        let record = record.map(|record| record.next(vec![store.identity()]));
        if let Some(record) = &record {
            let _ = store.set_ledger(&record.encode(purges));
            store.persist(Patience::default().open);
        }
        Stores(Kind::One(Arc::new(One { store, record: Mutex::new(record) })))
    }

    /// Which set of disks serves; it grows with each change.
    fn generation(&self) -> u64 {
        match &self.0 {
            Kind::Set(set) => set.generation(),
            Kind::None | Kind::One(_) => 0,
        }
    }

    fn view(&self) -> View {
        match &self.0 {
            Kind::None => View::default(),
            Kind::One(one) => View::alone(one.store.clone()),
            Kind::Set(set) => set.view().clone(),
        }
    }

    fn find(&self, of: impl FnOnce(&View) -> Option<&Store>) -> Option<Held<'_>> {
        match &self.0 {
            Kind::None => None,
            Kind::One(one) => Some(Held::One(&one.store)),
            Kind::Set(set) => of(&set.view()).cloned().map(Held::OfSet),
        }
    }

    /// Where an object with this key lies, or else where it belongs; `None`: nowhere, or the disk is left.
    pub fn of(&self, key: &Key) -> Option<Held<'_>> {
        self.find(|view| view.store(view.holder(key)))
    }

    /// Where these spans lie.
    pub fn at(&self, spans: &Spans) -> Option<Held<'_>> {
        self.find(|view| view.at(spans))
    }

    /// Begins to write an object, or goes on with the part of it that is stored.
    pub fn begin(
        &self,
        key: &Key,
        part: Option<&Spans>,
        expected: Option<u64>,
    ) -> Option<Result<Writer, Refused>> {
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
        match &self.0 {
            Kind::None => None,
            Kind::One(one) => Some(put(&one.store)),
            Kind::Set(set) => {
                let place = |view: &View| spans.map_or_else(|| view.home(key), |at| at.store.into());
                set.change(key, place, put)
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
        let Kind::Set(_) = &self.0 else { return finish(writer) };
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

    /// Removes what lies under a key, wherever.
    pub fn remove(&self, key: &Key) {
        match &self.0 {
            Kind::None => {}
            Kind::One(one) => one.store.remove(key),
            Kind::Set(set) => {
                set.change(key, |view| view.home(key), |store| store.remove(key));
            }
        }
    }

    /// Removes an older object that a kill brought back beside the one that was found on disk `n`.
    pub fn remove_beside(&self, key: &Key, n: usize) {
        if let Kind::Set(set) = &self.0 {
            let is_beside = set.view().serving().any(|(other, store)| other != n && store.contains(key));
            if is_beside {
                set.change(key, |_| n, |_| ());
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self.0, Kind::None)
    }

    /// In which share of the day, now among it, every store may do what nobody waits for; `None`: now it may not.
    pub fn set_off_peak(&self, share: Option<f64>) {
        self.view().serving().for_each(|(_, store)| store.set_off_peak(share));
    }

    /// Bodies of up to so many bytes lie in one piece; `None` without a store.
    pub fn piece_max(&self) -> Option<u64> {
        match &self.0 {
            Kind::None => None,
            Kind::One(one) => Some(one.store.span_size() as u64),
            Kind::Set(set) => set.piece_max(),
        }
    }

    /// What the stores remember of purges.
    pub fn ledger(&self) -> Vec<u8> {
        match &self.0 {
            Kind::None => Vec::new(),
            Kind::One(one) => {
                let ledger = one.store.ledger();
                Record::split(&ledger).map_or(UNREAD.to_vec(), |(_, purges)| purges.to_vec())
            }
            Kind::Set(set) => set.purges(),
        }
    }

    /// Whether a later start may read what this one could not.
    pub fn may_ledger_return(&self) -> bool {
        matches!(&self.0, Kind::One(one) if one.store.may_ledger_return())
    }

    /// Has every store remember it. One that cannot write keeps it for when it can, and `persist` says so.
    pub fn set_ledger(&self, purges: &[u8]) {
        match &self.0 {
            Kind::None => {}
            Kind::One(one) => {
                let record = one.record.lock().unwrap_or_else(PoisonError::into_inner);
                let ledger = record.as_ref().map_or_else(|| purges.to_vec(), |record| record.encode(purges));
                let _ = one.store.set_ledger(&ledger);
            }
            Kind::Set(set) => set.set_purges(purges),
        }
    }

    /// Whether all that was put and removed so far survives a kill; waits for that long at most.
    pub fn persist(&self, patience: Duration) -> bool {
        match &self.0 {
            Kind::None => true,
            Kind::One(one) => one.store.persist(patience),
            Kind::Set(set) => set.persist(patience),
        }
    }

    /// Of all that serve.
    pub fn stats(&self) -> Option<Stats> {
        let all = self.view();
        all.serving().map(|(_, store)| store.stats()).reduce(Stats::and)
    }

    /// Of each disk.
    pub fn disks(&self) -> Vec<DiskStats> {
        match &self.0 {
            Kind::None => Vec::new(),
            Kind::One(one) => {
                let (name, stats) = (one.store.name().to_owned(), Some(one.store.stats()));
                vec![DiskStats { name, share: 1.0, state: State::Serves, stats }]
            }
            Kind::Set(set) => set.stats(),
        }
    }

    /// The log of each disk that serves, in so many cells; in the order of `disks`.
    pub fn maps(&self, cells: u64) -> Vec<Option<LogMap>> {
        let view = self.view();
        view.0.iter().map(|slot| slot.store.as_ref().map(|store| store.map(cells))).collect()
    }

    /// How many disks are in a state.
    pub fn count(&self, state: State) -> u64 {
        let is = |serves: bool| serves == (state == State::Serves);
        self.view().0.iter().filter(|slot| is(slot.store.is_some())).count() as u64
    }

    /// Keys that were changed of late, which a disk would have to be told of that was left now, or is.
    pub fn remembered(&self) -> u64 {
        match &self.0 {
            Kind::Set(set) => set.remembered(),
            Kind::None | Kind::One(_) => 0,
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
        if let Kind::Set(set) = &self.0 {
            let _ = set.apart.set(Box::new(purge_all));
        }
    }

    /// Writes what is in memory, and ends the stores. Blocking; bounded in time. False when not all could be written.
    pub fn close(&self) -> bool {
        match &self.0 {
            Kind::None => true,
            Kind::One(one) => one.store.close(),
            Kind::Set(set) => set.close(),
        }
    }
}
