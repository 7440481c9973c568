//! Clients: a worker's listeners, and the connections that came to them.

pub mod http1;
mod protocol;
mod tunnel;

use self::http1::Link;
use crate::report::Exit;
use crate::report::counters::Number;
use crate::settings::Timeouts;
use crate::transport::{Bound, Listener};
use crate::worker::{Shared, Worker};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_local;

/// What may never end gets this long when the proxy stops: a head that has begun to come, a tunnel in which nothing moves.
const GRACE: Duration = Duration::from_secs(1);

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

/// Serves until told to stop, then until the last request ended or the drain time is over.
pub async fn run(
    shared: Arc<Shared>,
    limit: Arc<ConnectionLimit>,
    listeners: Vec<Bound>,
    mut stop: watch::Receiver<bool>,
    exit: Exit,
) -> io::Result<()> {
    let worker = Worker::new(shared, exit);
    let (links, next) = (RefCell::default(), Cell::new(0));
    let clients = Rc::new(Clients { worker: worker.clone(), limit, links, next });
    let mut accepting = Vec::new();
    for listener in listeners {
        accepting.push(spawn_local(accept(clients.clone(), listener.into_listener()?)));
    }
    let sweeping = spawn_local(sweep(clients.clone()));
    let helping = spawn_local(help(clients.clone()));
    // An error means that the sender is gone: nobody could ever stop us, so stop.
    let _ = stop.wait_for(|stop| *stop).await;
    for task in accepting {
        task.abort();
        let _ = task.await;
    }
    clients.stop();
    let _ = tokio::time::timeout(worker.settings().timeouts.drain, clients.drained()).await;
    sweeping.abort();
    helping.abort();
    Ok(())
}

impl Clients {
    /// Connections without a request end at once; tunnels see to themselves.
    fn stop(&self) {
        self.worker.stopping.set(true);
        for link in self.links.borrow().values() {
            link.wake();
        }
    }

    /// Waits until the last request ended. A head that is on its way may come to its end.
    async fn drained(&self) {
        if tokio::time::timeout(GRACE, self.idle()).await.is_err() {
            self.end_without_request();
            self.idle().await;
        }
    }

    fn end_without_request(&self) {
        let links = self.links.borrow();
        links.values().filter(|link| link.is_without_request()).for_each(|link| link.make_way());
    }

    async fn idle(&self) {
        const LOOK: Duration = Duration::from_millis(10);
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
            if let Ok(Ok(permit)) = tokio::time::timeout(LOOK, permits.clone().acquire_owned()).await {
                break permit;
            }
        };
        self.limit.waiting.fetch_sub(1, Relaxed);
        permit
    }

    /// Ends connections that are idle, those first that are so for longest; `false` when there are none.
    fn make_room(&self) -> bool {
        /// Enough that looking at all of them is little for each.
        const BATCH: usize = 64;
        let links = self.links.borrow();
        let mut idle: Vec<_> = links.values().filter_map(|link| Some((link.idle()?, link))).collect();
        // What no sweep has seen idle is so since a moment.
        idle.sort_unstable_by_key(|(since, _)| (since.is_none(), *since));
        idle.iter().take(BATCH).for_each(|(_, link)| link.make_way());
        !idle.is_empty()
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

async fn accept(clients: Rc<Clients>, listener: Listener) {
    /// When accepting fails (no descriptors left), how long to let connections end.
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // Only for a client that is there: a permit that waits for one is missing where another has come.
        let permit = clients.permit().await;
        let worker = clients.worker.clone();
        let link = Rc::new(Link::new(&worker, peer));
        let listed = clients.list(link.clone());
        spawn_local(async move {
            protocol::run(worker, link, socket).await;
            drop((listed, permit));
        });
    }
}

/// Finds the connections that wait for too long, and the origin connections that nobody needs.
async fn sweep(clients: Rc<Clients>) {
    let worker = &clients.worker;
    loop {
        worker.refresh();
        worker.exit.beat();
        tokio::time::sleep(sweep_period(&worker.settings().timeouts)).await;
        let (now, settings) = (Instant::now(), worker.settings());
        for link in clients.links.borrow().values() {
            link.sweep(now, &settings.timeouts);
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
    let watched = [timeouts.client_header, timeouts.client_idle, timeouts.client_stall, timeouts.origin_idle];
    let shortest = watched.into_iter().min().unwrap_or_default();
    (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(5))
}
