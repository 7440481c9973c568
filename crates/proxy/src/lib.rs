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
mod handover;
mod internal_error;
mod message;
mod night;
mod off_peak;
mod origin;
mod phase;
mod renewal;
mod report;
mod route;
mod scheme;
mod settings;
mod tiers;
mod tls;
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
pub use handover::{Before, Beginning, Predecessor};
pub use internal_error::end_on_panic;
pub use off_peak::{Hours, OffPeak};
pub use phase::{Moved, Stop};
pub use report::counters::Kind;
pub use report::metrics::{Family, families};
pub use report::recent::{Event, MEMORY as RECENT};
pub use report::stats::{Row, rows};
pub use report::{Heads, Id as RequestId, Log, Place, Transaction};
pub use scheme::Scheme;
pub use settings::http2::Http2;
pub use settings::pac::Pac;
pub use settings::pages::{Pages, read_small};
pub use settings::tls::Tls;
pub use settings::{
    Bounds, Network, Offline, Origin, OriginHost, OriginHttp2, PSEUDONYM_MAX, Settings, Timeouts, Token, Told,
};
pub use tiers::span_cache::MEMORY as SPAN_CACHE;
pub use tiers::stores::{
    Answers, Change, Disk, JOURNAL, Membership, Obstacle, Opening, Patience, Stores, Successor, Unopened,
};
pub use tls::{Certificates, KeyFiles, LeastVersion, NamedLife, OriginTls, Roots, TicketKeys, Tickets};
pub use transport::{Address, Handed, Hop, Listen, Peer, Secured, Service, Speaks, TLS_BEYOND, UnixPath};

use crate::client::ConnectionLimit;
use crate::handover::{Sockets, go};
use crate::phase::Phase;
use crate::report::Exit;
use crate::report::recent::Recent;
use crate::settings::current::InForce;
use crate::tls::Acceptor;
use crate::transport::{Bound, listen, listen_alone, try_to_listen};
use crate::worker::{Handover, Shared};
use acme::Challenges;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

/// The thread that reads files with certificates and keys.
const RENEWAL: &str = "renewal";
/// How long it has to end when the others have, and how often that is looked at.
const LEFT_BEHIND: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(5);

/// A proxy that listens.
pub struct Running {
    addresses: Vec<Address>,
    admin: Option<Address>,
    phases: watch::Sender<Phase>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    shared: Arc<Shared>,
    /// The listening sockets once more, until the proxy stops.
    sockets: Arc<Mutex<Sockets>>,
    arrivals: Arc<[UnboundedSender<Moved>]>,
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
    start_from(settings, stores, Arc::new(ended), Beginning::default())
}

/// The same, with a log that says what it lost, and with what another process leaves it.
pub fn start_from(
    settings: Settings,
    stores: impl Into<Stores>,
    log: Arc<dyn Log>,
    beginning: Beginning,
) -> io::Result<Running> {
    let (stores, Beginning { holds, mut sockets, changes }) = (stores.into(), beginning);
    let workers = settings.workers.max(1);
    let challenges = Arc::default();
    let acceptor = acceptor(&settings, &challenges).map_err(io::Error::other)?;
    let admin = settings.admin.as_ref().map(|address| listen_alone(address, &mut sockets)).transpose()?;
    let (addresses, bound) = listen(&settings.addresses(), workers, &mut sockets)?;
    // What is left nobody listens on any more.
    drop(sockets);
    let mut sockets = Sockets::default();
    let mut listeners = Vec::with_capacity(workers);
    for of_worker in bound {
        let mut speaking = Vec::with_capacity(of_worker.len());
        for bound in of_worker {
            let real = bound.address()?;
            let given = addresses.iter().zip(&settings.listen).find(|(address, _)| **address == real);
            sockets.add(Service::Clients, given.map_or(&real, |(_, given)| &given.address), &bound)?;
            speaking.push((given.map_or(Speaks::Http, |(_, given)| given.speaks), bound));
        }
        listeners.push(speaking);
    }
    if let (Some(address), Some(bound)) = (&settings.admin, &admin) {
        sockets.add(Service::Operator, address, bound)?;
    }
    let limit = ConnectionLimit::new(settings.bounds.connections);
    let shared = Arc::new(Shared { acceptor, challenges, ..shared(settings, stores, log) });
    // Before anything can come.
    shared.note_history(SystemTime::now());
    let weak = Arc::downgrade(&shared);
    shared.tiers.stores.when_apart(move || {
        if let Some(shared) = weak.upgrade() {
            shared.tiers.purge([cache::Scope::All], false);
        }
    });
    shared.tiers.take(&changes);
    let _ = shared.addresses.set(addresses.clone());
    let (phases, phase) = watch::channel(if holds { Phase::Holds(0) } else { Phase::Serves });
    let mut threads = Vec::with_capacity(workers + 2);
    let mut at = None;
    if let Some(listener) = admin {
        at = Some(listener.address()?);
        let (shared, phase) = (shared.clone(), phase.clone());
        let thread = std::thread::Builder::new().name("admin".into());
        threads.push(thread.spawn(move || admin::run(shared, listener, phase))?);
    }
    if !shared.tiers.stores.is_empty() {
        let (shared, phase) = (shared.clone(), phase.clone());
        let thread = std::thread::Builder::new().name("night".into());
        threads.push(thread.spawn(move || night::run(&shared, night::local_minute, phase))?);
    }
    if shared.acceptor.is_some() {
        let (shared, phase) = (shared.clone(), phase.clone());
        let thread = std::thread::Builder::new().name(RENEWAL.into());
        threads.push(thread.spawn(move || renewal::run(&shared, phase))?);
    }
    if shared.shadow.is_some() {
        let (shared, phase) = (shared.clone(), phase.clone());
        let thread = std::thread::Builder::new().name("shadow".into());
        threads.push(thread.spawn(move || report::shadow::run(&shared.shadow, phase))?);
    }
    let mut arrivals = Vec::with_capacity(workers);
    for n in 0..workers {
        let (shared, limit, phase) = (shared.clone(), limit.clone(), phase.clone());
        let listeners = listeners.pop().unwrap_or_default();
        let (arrive, arriving) = unbounded_channel();
        arrivals.push(arrive);
        let thread = std::thread::Builder::new().name(format!("worker-{n}"));
        let phases = phases.clone();
        threads.push(thread.spawn(move || {
            let exit = exit(&shared, n);
            let result = work(shared, exit, limit, listeners, (arriving, phase));
            // One that cannot work ends all: half a proxy would hang half of its clients.
            if result.is_err() {
                phases.send_replace(Phase::Stops(Stop::Soon));
            }
            result
        })?);
    }
    let (sockets, arrivals) = (Arc::new(Mutex::new(sockets)), arrivals.into());
    Ok(Running { addresses, admin: at, phases, threads, shared, sockets, arrivals })
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
        let _ = self.stopper()(Stop::Soon);
    }

    /// What `stop` does, for another thread; gives the time that running requests have.
    pub fn stopper(&self) -> impl Fn(Stop) -> Duration + Send + use<> {
        let (phases, shared, sockets) = (self.phases.clone(), self.shared.clone(), self.sockets.clone());
        move |how| {
            *sockets.lock().unwrap_or_else(PoisonError::into_inner) = Sockets::default();
            phases.send_replace(Phase::Stops(how));
            let timeouts = &shared.settings.newest().timeouts;
            match how {
                Stop::Soon => timeouts.drain,
                Stop::Gracefully => timeouts.graceful,
            }
        }
    }

    /// What the admin interface does when it is told to reload.
    pub fn on_reload(&self, reload: impl Fn() -> Result<Vec<String>, String> + Send + Sync + 'static) {
        let _ = self.shared.reload.set(Box::new(reload));
    }

    /// Tells whether each worker has done something of late.
    pub fn is_alive(&self) -> impl Fn() -> bool + Send + use<> {
        let shared = self.shared.clone();
        move || admin::is_alive(&shared)
    }

    /// The predecessor is told that this proxy serves: what was its is this one's. Where it goes on to tell this one of changes and
    /// connections, this one outlives what is given here.
    pub fn succeed(&self) -> Before {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).own_files();
        let before = Before::of(&self.shared);
        go(&self.phases, Phase::holds, Phase::Serves);
        before
    }

    /// For whoever hands this proxy's work to another process.
    pub fn predecessor(&self) -> Predecessor {
        // Workers and the admin interface; others begin no request.
        let begins = |name: &str| name == "admin" || name.starts_with("worker-");
        let threads = self.threads.iter().filter_map(|thread| thread.thread().name());
        let parties = threads.filter(|name| begins(name)).count();
        Predecessor::new(self.phases.clone(), self.shared.clone(), self.sockets.clone(), parties)
    }

    /// Does what the process tells that had the caches before.
    pub fn change(&self) -> impl Fn(&Change) + Send + use<> {
        let shared = self.shared.clone();
        move |change| shared.tiers.take(std::slice::from_ref(change))
    }

    /// Goes on with connections that another process accepted: each worker in turn.
    pub fn take_in(&self) -> impl FnMut(Moved) + Send + use<> {
        let (arrivals, mut next) = (self.arrivals.clone(), 0);
        move |moved| {
            next = (next + 1) % arrivals.len();
            let _ = arrivals[next].send(moved);
        }
    }

    /// Gives the proxy other settings, from another thread: each worker's next request goes by them, and so do waits that begin
    /// then. Of listeners, workers, origin, names, memory and the like it keeps what it started with.
    pub fn reloader(&self) -> impl Fn(Settings) + Send + use<> {
        let shared = self.shared.clone();
        move |mut settings| {
            shared.fills.set_turn(turn(&settings.timeouts));
            // At once, or what is read anew meanwhile (`renewal`) could bring the old terms back.
            shared.settings.change(|held| {
                // What was ordered is served on, also where its file is of no use any more.
                if let (Some(new), Some(before)) = (&mut settings.tls.certificates, &held.tls.certificates) {
                    *new = Arc::new(new.with_those_of(before, renewal::now()));
                }
                *held = settings;
                shared.renew_terms(held);
            });
        }
    }

    /// Waits until every worker has ended: after `stop`, or because one failed.
    pub fn wait(self) -> io::Result<()> {
        let mut result = Ok(());
        // A certificate's file may be on a disk that does not answer.
        let may_hang = |thread: &JoinHandle<_>| thread.thread().name() == Some(RENEWAL);
        let (hanging, threads): (Vec<_>, Vec<_>) = self.threads.into_iter().partition(may_hang);
        let end = |thread: JoinHandle<_>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
        };
        for thread in threads {
            result = result.and(end(thread));
        }
        for thread in hanging {
            let began = Instant::now();
            while !thread.is_finished() && began.elapsed() < LEFT_BEHIND {
                std::thread::sleep(LOOK);
            }
            match thread.is_finished() {
                true => result = result.and(end(thread)),
                false => {
                    let text = "a file with certificates or keys does not answer: it is not waited for";
                    tracing::warn!(target: "tls", "{text}");
                }
            }
        }
        result
    }
}

/// One worker's thread.
fn work(
    shared: Arc<Shared>,
    exit: Exit,
    limit: Arc<ConnectionLimit>,
    listeners: Vec<(Speaks, Bound)>,
    (arriving, phase): (UnboundedReceiver<Moved>, watch::Receiver<Phase>),
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(client::run(shared, limit, listeners, arriving, phase, exit))
}

fn exit(shared: &Shared, worker: usize) -> Exit {
    Exit::new(shared.counters[worker].clone(), shared.log.clone())
        .noting_heads(shared.settings.newest().notes_heads)
        .shadowed(shared.shadow.as_ref().map(|shadow| shadow.teller(worker)))
        .noting_in(shared.recent.get(worker).cloned())
        .observing(shared.uplink.clone())
        .watched(shared.watchers.clone())
}

/// Of listeners that speak TLS, where there are any.
fn acceptor(settings: &Settings, challenges: &Arc<Challenges>) -> Result<Option<Acceptor>, String> {
    let Some(secure) = settings.listen.iter().find(|listen| listen.speaks == Speaks::Tls) else {
        return Ok(None);
    };
    let terms =
        settings.tls.terms(settings.http2.on).ok_or_else(|| format!("{secure} needs a certificate"))?;
    let tickets = match &settings.tls.tickets {
        TicketKeys::Off => None,
        TicketKeys::Memory => Some(Tickets::open(None, renewal::now())?),
        TicketKeys::File(file) => Some(Tickets::open(Some(file.clone()), renewal::now())?),
    };
    Acceptor::new(&terms, tickets.map(Arc::new), challenges.clone()).map(Some)
}

fn shared(settings: Settings, stores: Stores, log: Arc<dyn Log>) -> Shared {
    let (bounds, timeouts) = (&settings.bounds, &settings.timeouts);
    let budget = budget::Budget::new(bounds.transit_bytes, bounds.total_bytes);
    let size = stores.stats().map_or(bounds.memory_bytes, |stats| stats.size);
    Shared {
        shadow: report::shadow::Shadow::new(&settings.shadow, size, settings.workers.max(1)),
        acceptor: None,
        challenges: Arc::default(),
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
        uplink: Default::default(),
        watchers: Default::default(),
        addresses: OnceLock::new(),
        handover: Handover::default(),
        reload: OnceLock::new(),
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
    try_to_listen(&settings.addresses(), settings.admin.as_ref())
}
