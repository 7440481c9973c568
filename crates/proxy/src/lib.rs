//! Sockets: a forward and reverse HTTP proxy whose responses come from memory, from the store, or from the origin.
//!
//! A request travels downward through the layers: `client` reads it and refuses what is ambiguous, `answer` answers it, from
//! memory at once or else with the help of `fill`, `transfer`, `tiers` and `origin`. ARCHITECTURE.md has the table of layers.
//! One worker is one thread; what workers share is in `worker::Shared`.

mod access;
mod admin;
mod answer;
mod authority;
mod budget;
mod client;
mod clock;
mod console;
mod fill;
mod internal_error;
mod message;
mod origin;
mod report;
mod settings;
mod tiers;
mod transfer;
mod worker;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::access::connect;
    pub use crate::authority::{bare_host, host_and_port};
    pub use crate::message::framing::{Ambiguous, Place, Walker};
    pub use crate::message::hops::{Hops, Names, lower_max_forwards};
    pub use crate::message::refusal::Refusal;
    pub use crate::message::target::{Reverse, Target};
}

pub use budget::LEAST as TRANSIT_LEAST;
pub use cache::SetCookie;
pub use console::say;
pub use internal_error::end_on_panic;
pub use report::counters::Kind;
pub use report::stats::{Row, rows};
pub use report::{Ended, Place, Transaction};
pub use settings::{Bounds, Forwarded, Network, Origin, OriginHost, PSEUDONYM_MAX, Settings, Timeouts};

use crate::client::Crowd;
use crate::report::Exit;
use crate::report::counters::Counters;
use crate::worker::Shared;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use store::Store;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

/// Bytes that may wait in the kernel to be sent to one client before more are written.
const UNSENT: u32 = 256 << 10;

/// Connections that the kernel holds for a listener that is busy.
const BACKLOG: i32 = 4096;

/// A proxy that listens.
pub struct Running {
    addresses: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// Starts the workers; the proxy accepts connections when this returns. Without a store it caches in memory only.
pub fn start(settings: Settings, store: Option<Store>) -> io::Result<Running> {
    start_telling(settings, store, |_| {})
}

/// The same, and each request is told when its response has ended.
pub fn start_telling(settings: Settings, store: Option<Store>, ended: Ended) -> io::Result<Running> {
    let workers = settings.workers.max(1);
    let (addresses, mut listeners) = listen(&settings.listen, workers)?;
    let crowd = Crowd::new(settings.bounds.connections);
    let shared = Arc::new(shared(settings, store, ended)?);
    let (stop, stopped) = watch::channel(false);
    let mut threads = Vec::with_capacity(workers + 1);
    let mut admin = None;
    if let Some(address) = shared.settings.admin {
        let listener = bind(address, Family::Any, false, true).map_err(|e| cannot_listen(address, e))?;
        admin = Some(listener.local_addr()?);
        let (shared, stopped) = (shared.clone(), stopped.clone());
        let thread = std::thread::Builder::new().name("admin".into());
        threads.push(thread.spawn(move || admin::run(shared, listener, stopped))?);
    }
    for n in 0..workers {
        let (shared, crowd, stopped) = (shared.clone(), crowd.clone(), stopped.clone());
        let listeners = listeners.pop().unwrap_or_default();
        let thread = std::thread::Builder::new().name(format!("worker-{n}"));
        let stop = stop.clone();
        threads.push(thread.spawn(move || {
            let counters = shared.counters[n].clone();
            let result = work(shared, counters, crowd, listeners, stopped);
            // One that cannot work ends all: half a proxy would hang half of its clients.
            stop.send_replace(true);
            result
        })?);
    }
    Ok(Running { addresses, admin, stop, threads })
}

impl Running {
    /// Where it listens, in the order of the settings.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where the operator is served, if anywhere.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Stops accepting; running requests may end within the drain time. Returns at once.
    pub fn stop(&self) {
        self.stopper()();
    }

    /// What `stop` does, for another thread.
    pub fn stopper(&self) -> impl Fn() + Send + use<> {
        let stop = self.stop.clone();
        move || {
            stop.send_replace(true);
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
    counters: Arc<Counters>,
    crowd: Arc<Crowd>,
    listeners: Vec<TcpListener>,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    let exit = Exit::new(counters, shared.ended);
    runtime.block_on(client::run(shared, crowd, listeners, stopped, exit))
}

fn shared(settings: Settings, store: Option<Store>, ended: Ended) -> io::Result<Shared> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    let reverse = match &settings.origin {
        None => None,
        Some(Origin { authority, .. }) => {
            let origin =
                authority.parse().map_err(|_| wrong(format!("`{authority}` is not host or host:port")))?;
            Some(message::target::Reverse { origin, host: settings.origin_host.clone() })
        }
    };
    let (bounds, timeouts) = (&settings.bounds, &settings.timeouts);
    let budget = budget::Budget::new(bounds.transit_bytes, bounds.total_bytes);
    let turn = timeouts.dns + timeouts.origin_connect + timeouts.origin_first_byte;
    Ok(Shared {
        names: message::hops::Names::new(&settings.pseudonym),
        tiers: tiers::Tiers::new(
            tiers::memory::Memory::new(bounds.memory_bytes, bounds.memory_object_bytes),
            store,
            settings.set_cookie,
        )
        .within(budget.disk.clone()),
        fills: fill::Fills::new(
            fill::Windows { most: bounds.window_bytes.max(1), pool: budget.origins.clone() },
            timeouts.remember,
            bounds.remembered,
            turn,
        ),
        budget,
        reverse,
        counters: (0..settings.workers.max(1)).map(|_| Arc::default()).collect(),
        ended,
        settings: Arc::new(settings),
    })
}

/// One listener per worker and address; the kernel spreads connections over them.
fn listen(addresses: &[SocketAddr], workers: usize) -> io::Result<(Vec<SocketAddr>, Vec<Vec<TcpListener>>)> {
    let mut bound = Vec::with_capacity(addresses.len());
    let mut listeners: Vec<Vec<TcpListener>> = (0..workers).map(|_| Vec::new()).collect();
    for &address in addresses {
        let at = |error| cannot_listen(address, error);
        // Sharing the port among workers would also share it with another process: see first whether it is free.
        let family = Family::of(address, addresses);
        if address.port() != 0 {
            drop(bind(address, family, false, false).map_err(at)?);
        }
        let mut real = address;
        for each in &mut listeners {
            let listener = bind(real, family, true, true).map_err(at)?;
            real = listener.local_addr().map_err(at)?;
            each.push(listener);
        }
        bound.push(real);
    }
    Ok((bound, listeners))
}

/// The addresses of the settings on which a proxy could not listen now, and why.
pub fn try_addresses(settings: &Settings) -> Vec<(SocketAddr, io::Error)> {
    let listens = settings.listen.iter().map(|&address| (address, Family::of(address, &settings.listen)));
    let all = listens.chain(settings.admin.map(|admin| (admin, Family::Any)));
    // All at once: one may be in another's way.
    let (mut bound, mut failed) = (Vec::new(), Vec::new());
    for (address, family) in all {
        match bind(address, family, false, false) {
            Ok(listener) => bound.push(listener),
            Err(error) => failed.push((address, error)),
        }
    }
    failed
}

/// Whose clients a listener on an IPv6 address takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// What the system does: IPv4 as well, on `[::]`.
    Any,
    /// Its own alone.
    Own,
}

impl Family {
    /// IPv4 has listeners of its own on that port, or none.
    fn of(address: SocketAddr, all: &[SocketAddr]) -> Family {
        let apart = all.iter().any(|other| other.is_ipv4() && other.port() == address.port());
        if apart { Family::Own } else { Family::Any }
    }
}

fn cannot_listen(address: SocketAddr, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
}

fn bind(address: SocketAddr, family: Family, shared: bool, listens: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() && family == Family::Own {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    // What is accepted inherits it.
    socket.set_tcp_nodelay(true)?;
    if listens {
        // Also inherited. What a slow client has not taken shows sooner, and lies less in the kernel. Not all kernels know it.
        let _ = socket.set_tcp_notsent_lowat(UNSENT);
        socket.listen(BACKLOG)?;
    }
    Ok(socket.into())
}
