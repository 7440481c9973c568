//! Sockets: a forward and reverse HTTP proxy whose responses come from memory, from the store, or from the origin.
//!
//! A request travels downward through the layers: `client` reads it and refuses what is ambiguous, `answer` answers it, from
//! memory at once or else by `fetch`, with the help of `fill`, `transfer`, `tiers` and `origin`. ARCHITECTURE.md has the table of layers.
//! One worker is one thread; what workers share is in `worker::Shared`.

mod access;
mod admin;
mod answer;
mod authority;
mod budget;
mod client;
mod clock;
mod console;
mod fetch;
mod fill;
mod internal_error;
mod message;
mod night;
mod off_peak;
mod origin;
mod report;
mod route;
mod scheme;
mod settings;
mod tiers;
mod transfer;
mod transport;
mod worker;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::access::connect;
    pub use crate::authority::{bare_host, host_and_port};
    pub use crate::client::http1::framing::{Ambiguous, Place, Walker};
    pub use crate::message::hops::{Hops, Names, lower_max_forwards};
    pub use crate::message::refusal::Refusal;
    pub use crate::message::target::{Reverse, Target};
    pub use crate::route::Route;
}

pub use budget::least as transit_least;
pub use cache::SetCookie;
pub use console::{say, write_stderr};
pub use internal_error::end_on_panic;
pub use off_peak::{Hours, OffPeak};
pub use report::counters::Kind;
pub use report::metrics::{Family, families};
pub use report::recent::{Event, MEMORY as RECENT};
pub use report::stats::{Row, rows};
pub use report::{Heads, Id as RequestId, Log, Place, Transaction};
pub use scheme::Scheme;
pub use settings::pages::{Pages, read_small};
pub use settings::{Bounds, Network, Origin, OriginHost, PSEUDONYM_MAX, Settings, Timeouts, Token, Told};
pub use tiers::span_cache::MEMORY as SPAN_CACHE;
pub use tiers::stores::{Answers, Disk, JOURNAL, Membership, Opening, Patience, Stores, Unopened};
pub use transport::{Address, Hop, Peer, UnixPath};

use crate::client::ConnectionLimit;
use crate::report::Exit;
use crate::report::recent::Recent;
use crate::settings::current::InForce;
use crate::transport::{Bound, listen, listen_alone, try_to_listen};
use crate::worker::Shared;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

/// A proxy that listens.
pub struct Running {
    addresses: Vec<Address>,
    admin: Option<Address>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
}

/// Starts the workers; the proxy accepts connections when this returns. Without a store it caches in memory only.
pub fn start(settings: Settings, stores: impl Into<Stores>) -> io::Result<Running> {
    start_telling(settings, stores, |_| {})
}

/// The same, and each request is told when its response has ended.
pub fn start_telling(
    settings: Settings,
    stores: impl Into<Stores>,
    ended: impl Fn(&Transaction) + Send + Sync + 'static,
) -> io::Result<Running> {
    start_logging(settings, stores, Arc::new(ended))
}

/// The same, with a log that says what it lost.
pub fn start_logging(
    settings: Settings,
    stores: impl Into<Stores>,
    log: Arc<dyn Log>,
) -> io::Result<Running> {
    let stores = stores.into();
    let workers = settings.workers.max(1);
    let (addresses, mut listeners) = listen(&settings.listen, workers)?;
    let limit = ConnectionLimit::new(settings.bounds.connections);
    let shared = Arc::new(shared(settings, stores, log));
    let weak = Arc::downgrade(&shared);
    shared.tiers.stores.when_apart(move || {
        if let Some(shared) = weak.upgrade() {
            shared.tiers.purge([cache::Scope::All]);
        }
    });
    let (stop, stopped) = watch::channel(false);
    let mut threads = Vec::with_capacity(workers + 2);
    let mut admin = None;
    if let Some(address) = &shared.settings.newest().admin {
        let listener = listen_alone(address)?;
        admin = Some(listener.address()?);
        let (shared, stopped) = (shared.clone(), stopped.clone());
        let thread = std::thread::Builder::new().name("admin".into());
        threads.push(thread.spawn(move || admin::run(shared, listener, stopped))?);
    }
    if !shared.tiers.stores.is_empty() {
        let (shared, stopped) = (shared.clone(), stopped.clone());
        let thread = std::thread::Builder::new().name("night".into());
        threads.push(thread.spawn(move || night::run(&shared, night::local_minute, stopped))?);
    }
    if shared.shadow.is_some() {
        let (shared, stopped) = (shared.clone(), stopped.clone());
        let thread = std::thread::Builder::new().name("shadow".into());
        threads.push(thread.spawn(move || report::shadow::run(&shared.shadow, stopped))?);
    }
    for n in 0..workers {
        let (shared, limit, stopped) = (shared.clone(), limit.clone(), stopped.clone());
        let listeners = listeners.pop().unwrap_or_default();
        let thread = std::thread::Builder::new().name(format!("worker-{n}"));
        let stop = stop.clone();
        threads.push(thread.spawn(move || {
            let exit = exit(&shared, n);
            let result = work(shared, exit, limit, listeners, stopped);
            // One that cannot work ends all: half a proxy would hang half of its clients.
            stop.send_replace(true);
            result
        })?);
    }
    Ok(Running { addresses, admin, stop, threads, shared })
}

impl Running {
    /// Where it listens, in the order of the settings.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Where the operator is served, if anywhere.
    pub fn admin(&self) -> Option<&Address> {
        self.admin.as_ref()
    }

    /// Stops accepting; running requests may end within the drain time. Returns at once.
    pub fn stop(&self) {
        let _ = self.stopper()();
    }

    /// What `stop` does, for another thread; gives the time that running requests have.
    pub fn stopper(&self) -> impl Fn() -> Duration + Send + use<> {
        let (stop, shared) = (self.stop.clone(), self.shared.clone());
        move || {
            stop.send_replace(true);
            shared.settings.newest().timeouts.drain
        }
    }

    /// Gives the proxy other settings, from another thread: each worker's next request goes by them, and so do waits that begin
    /// then. Of listeners, workers, origin, names, memory and the like it keeps what it started with.
    pub fn reloader(&self) -> impl Fn(Settings) + Send + use<> {
        let shared = self.shared.clone();
        move |settings| {
            shared.fills.set_turn(turn(&settings.timeouts));
            shared.settings.replace(settings);
        }
    }

    /// Waits until every worker has ended: after `stop`, or because one failed.
    pub fn wait(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            result = result.and(ended);
        }
        result
    }
}

/// One worker's thread.
fn work(
    shared: Arc<Shared>,
    exit: Exit,
    limit: Arc<ConnectionLimit>,
    listeners: Vec<Bound>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(client::run(shared, limit, listeners, stopped, exit))
}

fn exit(shared: &Shared, worker: usize) -> Exit {
    Exit::new(shared.counters[worker].clone(), shared.log.clone())
        .noting_heads(shared.settings.newest().notes_heads)
        .shadowed(shared.shadow.as_ref().map(|shadow| shadow.teller(worker)))
        .noting_in(shared.recent.get(worker).cloned())
}

fn shared(settings: Settings, stores: Stores, log: Arc<dyn Log>) -> Shared {
    let (bounds, timeouts) = (&settings.bounds, &settings.timeouts);
    let budget = budget::Budget::new(bounds.transit_bytes, bounds.total_bytes);
    let size = stores.stats().map_or(bounds.memory_bytes, |stats| stats.size);
    Shared {
        shadow: report::shadow::Shadow::new(&settings.shadow, size, settings.workers.max(1)),
        names: message::hops::Names::new(&settings.pseudonym),
        tiers: tiers::Tiers::new(
            tiers::memory::Memory::new(bounds.memory_bytes, bounds.memory_object_bytes),
            stores,
            settings.set_cookie,
        )
        .within(budget.disk.clone()),
        fills: fill::Fills::new(
            fill::Windows { most: bounds.window_bytes.max(1), allowance: budget.origins.clone() },
            timeouts.remember,
            bounds.remembered,
            turn(timeouts),
        ),
        budget,
        counters: (0..settings.workers.max(1)).map(|_| Arc::default()).collect(),
        recent: match settings.admin {
            Some(_) => {
                (0..settings.workers.max(1)).map(|_| Arc::new(Recent::new(settings.hides_queries))).collect()
            }
            None => Vec::new(),
        },
        history: Default::default(),
        day: Default::default(),
        log,
        started: SystemTime::now(),
        settings: InForce::new(settings),
    }
}

/// How long one fetch may take to its response's head.
fn turn(timeouts: &Timeouts) -> Duration {
    timeouts.dns + timeouts.origin_connect + timeouts.origin_first_byte
}

/// The addresses of the settings on which a proxy could not listen now, and why.
pub fn try_addresses(settings: &Settings) -> Vec<(Address, io::Error)> {
    try_to_listen(&settings.listen, settings.admin.as_ref())
}
