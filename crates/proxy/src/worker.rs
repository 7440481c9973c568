//! What one worker has to answer with: its connections to origins and its half of the store's reading, beside what all
//! workers share. A worker is a thread with its own runtime; only what `Shared` holds is seen by more than one.

use crate::budget::Budget;
use crate::clock;
use crate::fill::Fills;
use crate::fill::repair::Repairs;
use crate::message::hops::Names;
use crate::message::target::Reverse;
use crate::off_peak::curve::DayCurve;
use crate::origin::Origins;
use crate::phase::Moved;
use crate::report::counters::Counters;
use crate::report::recent::Recent;
use crate::report::recent::history::{Counted, History};
use crate::report::shadow::Shadow;
use crate::report::stats::Now;
use crate::report::uplink::Uplink;
use crate::report::watch::Watchers;
use crate::report::{Exit, Log};
use crate::settings::current::{Current, InForce};
use crate::settings::{Offline, Settings};
use crate::tiers::Tiers;
use crate::tiers::span_cache::SpanCache;
use crate::tiers::stores::Readers;
use crate::tls::Acceptor;
use crate::transport::Address;
use acme::Challenges;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// What all workers share.
pub struct Shared {
    pub settings: Arc<InForce>,
    /// Where a listener speaks TLS.
    pub acceptor: Option<Acceptor>,
    /// What certificate authorities ask for.
    pub challenges: Arc<Challenges>,
    pub names: Names,
    pub tiers: Tiers,
    pub fills: Arc<Fills>,
    pub budget: Budget,
    /// Of each worker.
    pub counters: Vec<Arc<Counters>>,
    pub log: Arc<dyn Log>,
    pub uplink: Arc<Uplink>,
    pub watchers: Arc<Watchers>,
    pub shadow: Option<Shadow>,
    /// Of each worker, and what all of them counted: for the operator's page, where there is one.
    pub recent: Vec<Arc<Recent>>,
    pub history: Mutex<History>,
    /// The load of a day, learned.
    pub day: Mutex<DayCurve>,
    pub handover: Handover,
    /// Where clients are served.
    pub addresses: OnceLock<Vec<Address>>,
    /// Has the settings read again; a line each of what came of it.
    pub reload: OnceLock<Reload>,
    /// When it was started.
    pub started: SystemTime,
}

impl Shared {
    /// Handshakes that begin from now on go by these settings.
    pub fn renew_terms(&self, settings: &Settings) {
        if let (Some(acceptor), Some(terms)) = (&self.acceptor, settings.tls.terms(settings.http2.on))
            && let Err(why) = acceptor.replace(&terms)
        {
            tracing::error!(target: "tls", cause = why, "handshakes go by what was in force before");
        }
    }

    /// What was counted up to now is noted as of this time.
    pub fn note_history(&self, now: SystemTime) {
        let (counted, now) = (Counted::of(&self.counted()), since_1970(now));
        self.history.lock().unwrap_or_else(PoisonError::into_inner).note(now, &counted);
    }

    /// The history up to now.
    pub fn told_history(&self, now: SystemTime) -> serde_json::Value {
        let (counted, now) = (Counted::of(&self.counted()), since_1970(now));
        self.history.lock().unwrap_or_else(PoisonError::into_inner).json(now, &counted)
    }

    /// What is counted, for whoever asks now.
    pub fn counted(&self) -> Now<'_> {
        let settings = self.settings.newest();
        Now::of(&self.counters, (&self.budget, &self.tiers), self.started, self.log.lost())
            .beside(self.shadow.as_ref())
            .watched(self.watchers.count() as u64)
            .certified(settings.tls.certificates.iter().flat_map(|all| all.lives()).collect())
            .offline(self.is_offline(&settings))
            .divided(&settings.memory_parts, settings.bounds.connections)
    }

    /// Whether stale responses answer without asking the origins.
    fn is_offline(&self, settings: &Settings) -> bool {
        match settings.offline {
            Offline::On => true,
            Offline::Auto => self.uplink.seems_down(clock::moment()),
            Offline::Off => false,
        }
    }
}

/// One line where it fails.
pub type Reload = Box<dyn Fn() -> Result<Vec<String>, String> + Send + Sync>;

/// What workers and whoever hands over to another process have between them.
#[derive(Default)]
pub struct Handover {
    /// In which hold, and how many threads begin nothing any more.
    held: Mutex<(u32, usize)>,
    /// Takes connections to the other process.
    pub mover: Mutex<Option<Mover>>,
    /// The process before this one ends with what it still has under way: it may tell of changes until then, and give this one connections.
    pub has_predecessor: AtomicBool,
}

pub type Mover = Arc<dyn Fn(Moved) + Send + Sync>;

impl Handover {
    /// Another hold begins; gives its number.
    pub fn next_hold(&self) -> u32 {
        let mut held = self.held();
        *held = (held.0 + 1, 0);
        held.0
    }

    /// A thread begins nothing any more.
    pub fn note_held(&self, hold: u32) {
        let mut held = self.held();
        held.1 += usize::from(held.0 == hold);
    }

    /// Threads of which that is so.
    pub fn count_held(&self) -> usize {
        self.held().1
    }

    fn held(&self) -> MutexGuard<'_, (u32, usize)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without anybody who takes it, the connection ends.
    pub fn pass(&self, moved: Moved) {
        let mover = self.mover.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(mover) = mover {
            mover(moved);
        }
    }
}

/// Of each worker, of at most `head-max` bytes.
const HEADS_ASIDE: usize = 4;

/// What one worker's requests share.
pub struct Worker {
    pub shared: Arc<Shared>,
    /// Of a reverse proxy.
    pub reverse: Option<Reverse>,
    current: Rc<Current>,
    pub exit: Rc<Exit>,
    pub origins: Rc<Origins>,
    pub readers: Readers,
    pub span_cache: SpanCache,
    /// Connections end with their current request.
    pub stopping: Cell<bool>,
    /// No request is begun: another process may answer it.
    pub holding: Cell<bool>,
    /// Connections without a request under way go to another process.
    pub moving: Cell<bool>,
    /// Large heads of HTTP/2 that are read without the memory for them, so that what is behind them comes.
    pub heads_aside: Arc<Semaphore>,
    /// When tunnels end that are left then.
    pub tunnels_end: Cell<Option<Instant>>,
    /// Fills whose body is read by this worker.
    pub pumps: Cell<usize>,
    pub repairs: Repairs,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, exit: Exit) -> Rc<Worker> {
        let (current, exit) = (Current::of(&shared.settings), Rc::new(exit));
        Rc::new(Worker {
            origins: Origins::new(current.clone(), exit.clone(), shared.budget.clone()),
            exit,
            reverse: Reverse::new(&current.get()),
            readers: shared.tiers.stores.readers(),
            span_cache: SpanCache::default(),
            stopping: Cell::new(false),
            holding: Cell::new(false),
            moving: Cell::new(false),
            heads_aside: Arc::new(Semaphore::new(HEADS_ASIDE)),
            tunnels_end: Cell::new(None),
            pumps: Cell::new(0),
            repairs: Repairs::default(),
            current,
            shared,
        })
    }

    /// As they were when this worker last looked.
    pub fn settings(&self) -> Rc<Settings> {
        self.current.get()
    }

    /// Whether stale responses answer without asking the origins.
    pub fn is_offline(&self) -> bool {
        self.shared.is_offline(&self.settings())
    }

    /// Takes the newest settings, and tells which ones those are. Called between requests.
    pub fn refresh(&self) -> u64 {
        // What is left is let go of.
        self.readers.view();
        if self.current.refresh() {
            self.origins.adopt();
        }
        self.current.version()
    }
}

/// Seconds.
fn since_1970(when: SystemTime) -> u64 {
    when.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
