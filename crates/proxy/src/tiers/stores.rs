//! The stores of this proxy, one for each disk: none, or one so far.
//!
//! A key decides in which store its object lives. The spans of a large body name the store that they lie in, so that they are
//! read there whatever decides by then.

use crate::console::say;
use std::io;
use std::time::Duration;
use store::{Key, Reader, Spans, Stats, Store};

#[derive(Default)]
pub struct Stores(Vec<Store>);

/// One worker's readers, of each store its own.
#[derive(Default)]
pub struct Readers(Vec<Option<Reader>>);

impl Stores {
    /// # Errors
    /// More than one store.
    pub fn new(stores: impl IntoIterator<Item = Store>) -> io::Result<Stores> {
        let stores: Vec<Store> = stores.into_iter().collect();
        // What several remember of purges would have to be brought together, and each key to be given its store.
        match stores.len() {
            0 | 1 => Ok(Stores(stores)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a proxy has one cache on disk at most")),
        }
    }

    /// Where an object with this key lives, if anywhere.
    pub fn of(&self, key: &Key) -> Option<&Store> {
        self.0.get(home(key))
    }

    /// Where these spans lie.
    pub fn at(&self, spans: &Spans) -> Option<&Store> {
        self.0.get(usize::from(spans.store))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In which share of the day, now among it, every store may do what nobody waits for; `None`: now it may not.
    pub fn set_off_peak(&self, share: Option<f64>) {
        self.0.iter().for_each(|store| store.set_off_peak(share));
    }

    /// Bodies of up to so many bytes lie in one piece; `None` without a store.
    pub fn piece_max(&self) -> Option<u64> {
        self.0.iter().map(|store| store.span_size() as u64).min()
    }

    /// What the stores remember of purges.
    pub fn ledger(&self) -> Vec<u8> {
        self.0.first().map(Store::ledger).unwrap_or_default()
    }

    /// Whether a later start may read what this one could not.
    pub fn may_ledger_return(&self) -> bool {
        self.0.first().is_some_and(Store::may_ledger_return)
    }

    /// Has every store remember it. One that cannot write keeps it for when it can, and `persist` says so.
    pub fn set_ledger(&self, ledger: &[u8]) {
        for store in &self.0 {
            let _ = store.set_ledger(ledger);
        }
    }

    /// Whether all that was put and removed so far survives a kill; waits for that long at most.
    pub fn persist(&self, patience: Duration) -> bool {
        self.0.iter().all(|store| store.persist(patience))
    }

    pub fn stats(&self) -> Option<Stats> {
        self.0.first().map(Store::stats)
    }

    /// A worker that cannot read a store serves without it.
    pub fn readers(&self) -> Readers {
        let without = |error: &_| say(format_args!("cannot read the cache, serving without it: {error}"));
        Readers(self.0.iter().map(|store| store.reader().inspect_err(without).ok()).collect())
    }
}

impl Readers {
    /// Of the store where an object with this key lives.
    pub fn of(&self, key: &Key) -> Option<&Reader> {
        self.0.get(home(key))?.as_ref()
    }

    /// Of the store where these spans lie.
    pub fn at(&self, spans: &Spans) -> Option<&Reader> {
        self.0.get(usize::from(spans.store))?.as_ref()
    }
}

/// The number of the store in which a key's object lives. With several stores, this alone decides.
fn home(_: &Key) -> usize {
    0
}
