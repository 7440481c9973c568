//! What one worker has to answer with: its connections to origins and its half of the store's reading, beside what all
//! workers share. A worker is a thread with its own runtime; only what `Shared` holds is seen by more than one.

use crate::budget::Budget;
use crate::console::say;
use crate::fill::Fills;
use crate::message::hops::Names;
use crate::message::target::Reverse;
use crate::origin::Origins;
use crate::report::counters::Counters;
use crate::report::{Ended, Exit};
use crate::settings::Settings;
use crate::tiers::Tiers;
use crate::tiers::shelf::Shelf;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use store::{Reader, Store};

/// What all workers share.
pub struct Shared {
    pub settings: Arc<Settings>,
    pub names: Names,
    pub tiers: Tiers,
    pub fills: Arc<Fills>,
    pub reverse: Option<Reverse>,
    pub budget: Budget,
    /// Of each worker.
    pub counters: Vec<Arc<Counters>>,
    pub ended: Ended,
}

/// What one worker's requests share.
pub struct Worker {
    pub shared: Arc<Shared>,
    pub settings: Arc<Settings>,
    pub exit: Rc<Exit>,
    pub origins: Rc<Origins>,
    pub reader: Option<Reader>,
    pub shelf: Shelf,
    /// Connections end with their current request.
    pub stopping: Cell<bool>,
    /// Fills whose body is read by this worker.
    pub pumps: Cell<usize>,
    /// Bodies that this worker is repairing.
    pub repairs: Cell<usize>,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, exit: Exit) -> Rc<Worker> {
        let (settings, exit) = (shared.settings.clone(), Rc::new(exit));
        Rc::new(Worker {
            origins: Origins::new(settings.clone(), exit.clone(), shared.budget.origins.clone()),
            exit,
            reader: shared.tiers.store.as_ref().and_then(reader),
            shelf: Shelf::new(&shared.budget, settings.workers),
            stopping: Cell::new(false),
            pumps: Cell::new(0),
            repairs: Cell::new(0),
            settings,
            shared,
        })
    }
}

/// A worker that cannot read the store serves without it.
fn reader(store: &Store) -> Option<Reader> {
    let without = |error: &_| say(format_args!("cannot read the cache, serving without it: {error}"));
    store.reader().inspect_err(without).ok()
}
