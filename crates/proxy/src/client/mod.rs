//! Clients: a worker's listeners, and the connections that came to them.

mod departing;
mod handshake;
pub mod http1;
mod http2;
mod link;
mod protocol;
mod tunnel;

use self::handshake::Handshakes;
use self::link::Link;
use crate::budget::Wanted;
use crate::phase::{Moved, Phase, Stop};
use crate::report::Exit;
use crate::report::counters::Number;
use crate::settings::Timeouts;
use crate::transport::{Bound, Listener, Peer, Socket, Speaks};
use crate::worker::{Shared, Worker};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

/// What may never end gets this long when the proxy stops: a head that has begun to come, a tunnel in which nothing moves.
const GRACE: Duration = Duration::from_secs(1);

/// How often it is looked whether the last connection has gone.
const LOOK: Duration = Duration::from_millis(10);

/// How many connections there may be, of all workers.
pub struct ConnectionLimit {
    permits: Arc<Semaphore>,
    /// A worker has a new client and no idle connection that could make way.
    pressed: Notify,
    /// New clients that wait.
    waiting: AtomicUsize,
}

/// One worker's connections.
struct Clients {
    worker: Rc<Worker>,
    limit: Arc<ConnectionLimit>,
    links: RefCell<HashMap<u64, Rc<Link>>>,
    /// Connections of the process before this one.
    arrivals: RefCell<UnboundedReceiver<Moved>>,
    handshakes: Rc<Handshakes>,
    /// Connections that are to be served as soon as there may be one more.
    coming: Cell<usize>,
    next: Cell<u64>,
}

/// A connection among them; leaves when dropped.
struct Listed {
    clients: Rc<Clients>,
    id: u64,
}

impl ConnectionLimit {
    pub fn new(most: usize) -> Arc<ConnectionLimit> {
        let permits = Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(ConnectionLimit { permits, pressed: Notify::new(), waiting: AtomicUsize::new(0) })
    }
}

/// Serves until told to stop or to move, then until the last request ended or the time for that is over.
pub async fn run(
    shared: Arc<Shared>,
    limit: Arc<ConnectionLimit>,
    listeners: Vec<(Speaks, Bound)>,
    arrivals: UnboundedReceiver<Moved>,
    mut phases: watch::Receiver<Phase>,
    exit: Exit,
) -> io::Result<()> {
    let worker = Worker::new(shared, exit);
    let (links, coming, next) = Default::default();
    let (arrivals, handshakes) = (RefCell::new(arrivals), Handshakes::new(&worker.settings()));
    let clients =
        Rc::new(Clients { worker: worker.clone(), limit, links, arrivals, handshakes, coming, next });
    let mut accepting = Vec::new();
    for (speaks, listener) in listeners {
        let listener = (speaks, listener.into_listener()?);
        accepting.push(spawn_local(accept(clients.clone(), listener, phases.clone())));
    }
    let tending = [
        spawn_local(sweep(clients.clone())),
        spawn_local(help(clients.clone())),
        spawn_local(take_in(clients.clone())),
    ];
    loop {
        let phase = *phases.borrow_and_update();
        clients.enter(phase);
        if matches!(phase, Phase::Stops(_)) {
            for task in accepting.drain(..) {
                task.abort();
                let _ = task.await;
            }
        }
        tokio::select! {
            () = clients.drained(phase) => break,
            changed = phases.changed() => if changed.is_err() { break },
        }
    }
    tending.iter().for_each(JoinHandle::abort);
    Ok(())
}

impl Clients {
    /// Connections without a request end at once when the proxy stops, and go over when it moves; tunnels see to themselves.
    fn enter(&self, phase: Phase) {
        let (worker, timeouts) = (&self.worker, &self.worker.settings().timeouts);
        worker.stopping.set(matches!(phase, Phase::Stops(_)));
        worker.moving.set(phase == Phase::Moves);
        worker.holding.set(phase.holds() || phase == Phase::Moves);
        if phase == Phase::Stops(Stop::Soon) {
            worker.tunnels_end.set(Some(Instant::now() + timeouts.tunnel_drain));
        }
        for link in self.links.borrow().values() {
            link.wake();
        }
        if let Phase::Holds(hold) = phase {
            worker.shared.handover.note_held(hold);
        }
    }

    /// For as long as the worker still has something to do in a phase.
    async fn drained(&self, phase: Phase) {
        let timeouts = self.worker.settings().timeouts.clone();
        let _ = match phase {
            Phase::Serves | Phase::Holds(_) => return std::future::pending().await,
            Phase::Moves => timeout(timeouts.graceful, self.moved()).await,
            Phase::Stops(Stop::Soon) => timeout(timeouts.drain, self.ended()).await,
            Phase::Stops(Stop::Gracefully) => timeout(timeouts.graceful, self.ended()).await,
        };
    }

    /// Waits until the last request ended. A head that is on its way may come to its end. The process before this one stops too, and
    /// what its requests invalidate is heard here until then.
    async fn ended(&self) {
        loop {
            while timeout(GRACE, self.idle()).await.is_err() {
                self.end_without_request();
            }
            if !self.follows() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn end_without_request(&self) {
        let links = self.links.borrow();
        links.values().filter(|link| link.is_without_request()).for_each(|link| link.make_way());
    }

    /// Waits until the last connection has gone over, and none can come of the process before this one.
    async fn moved(&self) {
        self.idle().await;
        while self.follows() || self.coming.get() > 0 {
            tokio::time::sleep(LOOK).await;
            self.idle().await;
        }
    }

    /// Whether the process before this one is there, or what it sent last is still to be taken in. In this order: what it sent is there
    /// before it is gone.
    fn follows(&self) -> bool {
        self.worker.shared.handover.has_predecessor.load(Acquire) || !self.arrivals.borrow().is_empty()
    }

    async fn idle(&self) {
        while !self.links.borrow().is_empty() || self.worker.pumps.get() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until there may be one connection more, which has come; meanwhile those that nobody uses make way, so that a new
    /// client does not wait for one that may never ask again.
    async fn permit(&self) -> OwnedSemaphorePermit {
        /// How long to wait for a connection to end before looking again.
        const LOOK: Duration = Duration::from_millis(20);
        let permits = &self.limit.permits;
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return permit;
        }
        self.limit.waiting.fetch_add(1, Relaxed);
        let permit = loop {
            if !self.make_room() {
                self.limit.pressed.notify_waiters();
            }
            if let Ok(Ok(permit)) = timeout(LOOK, permits.clone().acquire_owned()).await {
                break permit;
            }
        };
        self.limit.waiting.fetch_sub(1, Relaxed);
        permit
    }

    /// Ends connections that are idle, those first that are so for longest, then a handshake; `false` when there are none.
    fn make_room(&self) -> bool {
        /// So many at most, and one of as many: looking at all of them is then little for each, and of a few one makes way alone.
        const BATCH: usize = 64;
        let links = self.links.borrow();
        let mut idle: Vec<_> = links
            .iter()
            .filter(|(_, link)| !link.is_overdue())
            .filter_map(|(id, link)| Some((link.idle()?, id, link)))
            .collect();
        // What no sweep has seen idle is so since a moment; of those alike the one that came first goes first.
        idle.sort_unstable_by_key(|(since, id, _)| (since.is_none(), *since, *id));
        idle.iter().take(idle.len().div_ceil(BATCH).min(BATCH)).for_each(|(.., link)| link.make_way());
        !idle.is_empty() || self.handshakes.make_room()
    }

    /// Ends requests of clients that have hardly taken or sent anything for a while, the slowest first, that hold of
    /// the memory for which others wait.
    fn relieve(&self, now: Instant, after: Duration, wanted: Wanted) {
        /// Of one look.
        const BATCH: usize = 64;
        let Some(whose) = self.worker.shared.budget.makes_way(wanted) else { return };
        let links = self.links.borrow();
        let theirs = links.values().filter(|link| whose.has(link.charged()));
        let mut slow: Vec<_> = theirs.filter_map(|link| Some((link.slow_since(wanted)?, link))).collect();
        slow.retain(|(since, _)| now.duration_since(*since) >= after);
        slow.sort_unstable_by_key(|(since, _)| *since);
        for (_, link) in slow.iter().take(BATCH) {
            self.worker.exit.add(Number::MadeWay, 1);
            link.end_slow(wanted);
        }
    }

    /// Serves a connection, as soon as there may be one more. Of what its client sent, `early` was read before.
    async fn take(self: &Rc<Clients>, socket: Socket, (peer, speaks): (Peer, Speaks), early: Bytes) {
        // Only for a client that is there: a permit that waits for one is missing where another has come.
        self.coming.set(self.coming.get() + 1);
        let permit = self.permit().await;
        self.coming.set(self.coming.get() - 1);
        let worker = self.worker.clone();
        let link = Rc::new(Link::new(&worker, peer, speaks));
        let listed = self.list(link.clone());
        let handshakes = self.handshakes.clone();
        spawn_local(async move {
            protocol::run(worker, link, &handshakes, socket, early).await;
            drop((listed, permit));
        });
    }

    fn list(self: &Rc<Clients>, link: Rc<Link>) -> Listed {
        let id = self.next.get();
        self.next.set(id + 1);
        self.links.borrow_mut().insert(id, link);
        self.worker.exit.add(Number::Accepted, 1);
        self.worker.exit.add(Number::Open, 1);
        Listed { clients: self.clone(), id }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.clients.links.borrow_mut().remove(&self.id);
        self.clients.worker.exit.subtract(Number::Open, 1);
    }
}

async fn accept(
    clients: Rc<Clients>,
    (speaks, listener): (Speaks, Listener),
    mut phases: watch::Receiver<Phase>,
) {
    /// When accepting fails (no descriptors left), how long to let connections end.
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        // Where another process accepts, a socket that stays open here would look as if somebody did.
        match phases.wait_for(|phase| !phase.holds()).await.map(|phase| *phase) {
            Ok(Phase::Serves) => {}
            _ => return,
        }
        let accepted = tokio::select! {
            biased;
            _ = phases.wait_for(|phase| *phase != Phase::Serves) => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => clients.take(socket, (peer, speaks), Bytes::new()).await,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Takes connections that another process accepted.
async fn take_in(clients: Rc<Clients>) {
    while let Some(Moved { socket, read }) = poll_fn(|cx| clients.arrivals.borrow_mut().poll_recv(cx)).await {
        if let Ok((socket, peer)) = Socket::of(socket) {
            // Connections of other listeners stay where they are.
            clients.take(socket, (peer, Speaks::Http), read).await;
        }
    }
}

/// Finds the connections that wait for too long, and the origin connections that nobody needs.
async fn sweep(clients: Rc<Clients>) {
    /// While others wait for memory.
    const SHORT: Duration = Duration::from_secs(1);
    let worker = &clients.worker;
    loop {
        worker.refresh();
        worker.exit.beat();
        let period = sweep_period(&worker.settings().timeouts);
        let is_short = Wanted::ALL.iter().any(|wanted| worker.shared.budget.makes_way(*wanted).is_some());
        tokio::time::sleep(if is_short { period.min(SHORT) } else { period }).await;
        let (now, settings) = (Instant::now(), worker.settings());
        for link in clients.links.borrow().values() {
            link.sweep(now, &settings.timeouts);
        }
        for wanted in Wanted::ALL {
            clients.relieve(now, settings.timeouts.client_crowded, wanted);
        }
        worker.origins.sweep(now);
    }
}

/// Makes room for what other workers have no room for.
async fn help(clients: Rc<Clients>) {
    loop {
        clients.limit.pressed.notified().await;
        // A worker that comes to this late would close what has come meanwhile.
        if clients.limit.waiting.load(Relaxed) > 0 {
            clients.make_room();
        }
    }
}

/// A quarter of the shortest of the timeouts that the sweep watches.
fn sweep_period(timeouts: &Timeouts) -> Duration {
    let watched = [
        timeouts.client_handshake,
        timeouts.client_header,
        timeouts.client_idle,
        timeouts.client_stall,
        timeouts.client_crowded,
        timeouts.origin_idle,
    ];
    let shortest = watched.into_iter().min().unwrap_or_default();
    (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::Before;
    use crate::report::Transaction;
    use crate::settings::Settings;
    use crate::tiers::stores::Stores;
    use std::net::{TcpListener, TcpStream};
    use tokio::runtime::{Builder, LocalOptions};
    use tokio::sync::mpsc::unbounded_channel;

    /// Else it would be closed, as nobody's.
    #[test]
    fn what_the_process_before_sent_last_is_taken_in_before_this_one_ends() {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.unwrap().block_on(async {
            let settings = Settings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Settings::default() };
            let shared = crate::shared(settings, Stores::default(), Arc::new(|_: &Transaction| {}));
            let shared = Arc::new(shared);
            let exit = Exit::new(Arc::default(), Arc::new(|_: &Transaction| {}));
            let (arrive, arrivals) = unbounded_channel();
            let (links, coming, next) = Default::default();
            let (worker, limit) = (Worker::new(shared.clone(), exit), ConnectionLimit::new(10));
            let (arrivals, handshakes) = (RefCell::new(arrivals), Handshakes::new(&worker.settings()));
            let clients = Rc::new(Clients { worker, limit, links, arrivals, handshakes, coming, next });
            let before = Before::of(&shared);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let socket = listener.accept().unwrap().0.into();
            arrive.send(Moved { socket, read: Bytes::new() }).unwrap();
            drop(before);
            assert!(timeout(5 * LOOK, clients.moved()).await.is_err(), "it is not taken in yet");
            let taking = spawn_local(take_in(clients.clone()));
            assert!(timeout(5 * LOOK, clients.moved()).await.is_err(), "it is served here");
            drop(client);
            timeout(Duration::from_secs(30), clients.moved()).await.expect("nothing is left");
            taking.abort();
        });
    }
}
