//! A pool of bytes, and who waits for it.

use super::clients::Share;
use super::{HELD_ANYWAY, SMALL};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

/// What is counted together, bytes.
const UNIT: usize = 1 << 10;

/// Of those who wait for longest, so many are looked at for whose turn it is: what that costs is bounded.
const LOOKED_AT: usize = 256;

/// Bytes that may be taken by several workers.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    units: usize,
    /// As in `queue`, for who only looks.
    free: AtomicUsize,
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    free: usize,
    next: u64,
    turns: u64,
    /// Of each client that waits, in the order in which they came, or had their last turn.
    lines: BTreeMap<u64, Line>,
    line_of: HashMap<Option<IpAddr>, u64>,
}

/// Claims of one client, or of all who have no share.
#[derive(Debug)]
struct Line {
    share: Option<Arc<Share>>,
    claims: VecDeque<(usize, Arc<Ticket>)>,
}

#[derive(Debug)]
struct Ticket(Mutex<State>);

#[derive(Debug)]
enum State {
    Waits(Waker),
    /// What it asked for is its own, and counts as taken.
    Granted,
    Taken,
}

/// Bytes of a pool, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    pool: Allowance,
    units: usize,
    of_client: Option<OfClient>,
}

/// That of the client's share which goes with it.
#[derive(Debug)]
struct OfClient {
    share: Arc<Share>,
    own: Box<Lease>,
}

/// A claim that waits. What it was granted and did not take goes back.
pub struct Waiting {
    pool: Allowance,
    units: usize,
    share: Option<Arc<Share>>,
    ticket: Arc<Ticket>,
}

/// A lease where there is no future to wait for it in.
#[derive(Default)]
pub enum Claim {
    #[default]
    None,
    Waiting(Waiting),
    Held(Lease),
}

impl Allowance {
    pub(super) fn new(bytes: usize) -> Allowance {
        let units = (bytes / UNIT).clamp(1, u32::MAX as usize);
        let queue = Queue { free: units, next: 0, turns: 0, lines: BTreeMap::new(), line_of: HashMap::new() };
        let (free, waiting) = (AtomicUsize::new(units), AtomicUsize::new(0));
        Allowance(Arc::new(Pool { units, free, waiting, queue: Mutex::new(queue) }))
    }

    /// Bytes of it.
    pub fn size(&self) -> usize {
        self.0.units * UNIT
    }

    pub fn free(&self) -> usize {
        self.0.free.load(Relaxed) * UNIT
    }

    pub fn taken(&self) -> usize {
        self.size() - self.free()
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.0.waiting.load(Relaxed) > 0
    }

    /// More than half is free.
    pub fn is_ample(&self) -> bool {
        2 * self.free() > self.size()
    }

    /// The largest body for which nothing is taken now, bytes.
    pub fn small(&self) -> usize {
        if self.is_ample() { SMALL } else { HELD_ANYWAY }
    }

    /// So many bytes are little of what is free.
    pub fn is_ample_for(&self, bytes: usize) -> bool {
        self.is_ample() && bytes <= self.free() / 32
    }

    /// As many bytes, or none; none where others wait.
    pub fn try_take(&self, bytes: usize) -> Option<Lease> {
        self.try_take_for(None, bytes)
    }

    pub(super) fn try_take_for(&self, share: Option<&Arc<Share>>, bytes: usize) -> Option<Lease> {
        let (units, mut queue) = (self.units(bytes), self.lock());
        if units > queue.free || !queue.lines.is_empty() {
            return None;
        }
        queue.free -= units;
        if let Some(share) = share {
            share.held.fetch_add(units, Relaxed);
        }
        self.settle(queue, Vec::new());
        Some(Lease { pool: self.clone(), units, of_client: None })
    }

    /// More than two thirds are free.
    pub fn is_plenty(&self) -> bool {
        3 * self.free() > 2 * self.size()
    }

    /// For what can be done without: bodies are kept while windows and large bodies that clients take slowly are on their way, small
    /// ones for longest. Of the last quarter it is nothing, of the last three eighths no more than `SMALL` bytes at once.
    pub fn try_spare(&self, bytes: usize) -> Option<Lease> {
        if self.can_spare(bytes) { self.try_take(bytes) } else { None }
    }

    pub fn can_spare(&self, bytes: usize) -> bool {
        let stays = if bytes <= SMALL { self.size() / 4 } else { self.size() / 8 * 3 };
        bytes <= self.free().saturating_sub(stays)
    }

    /// As many bytes, when they are there; all of it for more than it has.
    pub fn take(&self, bytes: usize) -> impl Future<Output = Lease> + use<> {
        let (pool, mut claim) = (self.clone(), Claim::None);
        poll_fn(move |cx| {
            ready!(claim.poll(cx, &pool, bytes));
            std::mem::take(&mut claim).into_lease().map_or(Poll::Pending, Poll::Ready)
        })
    }

    fn wait(&self, share: Option<&Arc<Share>>, bytes: usize, waker: &Waker) -> Waiting {
        let (units, share) = (self.units(bytes), share.cloned());
        let ticket = Arc::new(Ticket(Mutex::new(State::Waits(waker.clone()))));
        let mut queue = self.lock();
        queue.join(share.clone(), (units, ticket.clone()));
        let wakers = queue.serve();
        self.settle(queue, wakers);
        Waiting { pool: self.clone(), units, share, ticket }
    }

    fn give_back(&self, units: usize, share: Option<&Arc<Share>>) {
        if units == 0 {
            return;
        }
        let mut queue = self.lock();
        queue.free += units;
        if let Some(share) = share {
            share.held.fetch_sub(units, Relaxed);
        }
        let wakers = queue.serve();
        self.settle(queue, wakers);
    }

    /// Whoever is woken may drop claims of his own at once.
    fn settle(&self, queue: MutexGuard<'_, Queue>, wakers: Vec<Waker>) {
        // Who waits has what is left.
        self.0.free.store(if queue.lines.is_empty() { queue.free } else { 0 }, Relaxed);
        self.0.waiting.store(queue.lines.len(), Relaxed);
        drop(queue);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn units(&self, bytes: usize) -> usize {
        bytes.div_ceil(UNIT).min(self.0.units)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.0.queue)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn join(&mut self, share: Option<Arc<Share>>, claim: (usize, Arc<Ticket>)) {
        let client = share.as_ref().map(|share| share.client);
        let at = *self.line_of.entry(client).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let line = self.lines.entry(at).or_insert_with(|| Line { share, claims: VecDeque::new() });
        line.claims.push_back(claim);
    }

    /// What is free goes to those who wait. Returns who is to be woken.
    fn serve(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(at) = self.turn() {
            let Some(line) = self.lines.get_mut(&at) else { break };
            // It has what comes back until that is enough.
            let Some((units, ticket)) = line.claims.pop_front_if(|(units, _)| *units <= self.free) else {
                break;
            };
            self.free -= units;
            self.turns += 1;
            if let Some(share) = &line.share {
                share.held.fetch_add(units, Relaxed);
            }
            if let State::Waits(waker) = std::mem::replace(&mut *lock(&ticket.0), State::Granted) {
                wakers.push(waker);
            }
            self.goes_last(at);
        }
        wakers
    }

    /// Of four turns one is of who waits for longest, so that also a client that holds more than all who come has it; one of the
    /// claims with which no client is charged; two of the client that holds least, of several the first.
    fn turn(&self) -> Option<u64> {
        let first = || self.lines.keys().next().copied();
        let least = || {
            let some = self.lines.iter().take(LOOKED_AT);
            let held = some.filter_map(|(at, line)| Some((line.share.as_ref()?.held.load(Relaxed), *at)));
            held.min().map(|(_, at)| at)
        };
        match self.turns % 4 {
            1 => self.line_of.get(&None).copied().or_else(least),
            3 => None,
            _ => least(),
        }
        .or_else(first)
    }

    /// A line that has had its turn, or is gone.
    fn goes_last(&mut self, at: u64) {
        let Some(line) = self.lines.remove(&at) else { return };
        let client = line.share.as_ref().map(|share| share.client);
        if line.claims.is_empty() {
            self.line_of.remove(&client);
            return;
        }
        self.next += 1;
        self.line_of.insert(client, self.next);
        self.lines.insert(self.next, line);
    }

    fn leave(&mut self, share: Option<&Arc<Share>>, ticket: &Arc<Ticket>) {
        let client = share.map(|share| share.client);
        let Some(at) = self.line_of.get(&client).copied() else { return };
        let Some(line) = self.lines.get_mut(&at) else { return };
        line.claims.retain(|(_, other)| !Arc::ptr_eq(ticket, other));
        if line.claims.is_empty() {
            self.goes_last(at);
        }
    }
}

impl Lease {
    pub fn bytes(&self) -> usize {
        self.units * UNIT
    }

    /// With that of the client's share, of which it counts as held already.
    pub(super) fn tie(&mut self, share: Arc<Share>, own: Lease) {
        self.of_client = Some(OfClient { share, own: Box::new(own) });
    }

    /// Adds another of the same pool, and of the same client.
    pub fn merge(&mut self, mut more: Lease) {
        self.units += std::mem::take(&mut more.units);
        debug_assert_eq!(self.of_client.is_some(), more.of_client.is_some());
        if let (Some(here), Some(more)) = (&mut self.of_client, more.of_client.take()) {
            here.own.merge(*more.own);
        }
    }

    /// Gives back what is beyond so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let beyond = self.units.saturating_sub(bytes.div_ceil(UNIT));
        self.units -= beyond;
        self.pool.give_back(beyond, self.of_client.as_ref().map(|of| &of.share));
        if let Some(of) = &mut self.of_client {
            of.own.shrink(bytes);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.give_back(self.units, self.of_client.as_ref().map(|of| &of.share));
    }
}

impl Waiting {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Lease> {
        let waker = cx.waker().clone();
        let mut state = lock(&self.ticket.0);
        let next = if matches!(*state, State::Waits(_)) { State::Waits(waker) } else { State::Taken };
        let before = std::mem::replace(&mut *state, next);
        drop(state);
        match before {
            State::Granted => {
                Poll::Ready(Lease { pool: self.pool.clone(), units: self.units, of_client: None })
            }
            State::Waits(_) | State::Taken => Poll::Pending,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut queue = self.pool.lock();
        let is_granted = match *lock(&self.ticket.0) {
            State::Taken => return,
            State::Granted => true,
            State::Waits(_) => false,
        };
        if is_granted {
            drop(queue);
            return self.pool.give_back(self.units, self.share.as_ref());
        }
        queue.leave(self.share.as_ref(), &self.ticket);
        let wakers = queue.serve();
        self.pool.settle(queue, wakers);
    }
}

impl Claim {
    /// Ready once it holds as many bytes.
    pub fn poll(&mut self, cx: &mut Context<'_>, pool: &Allowance, bytes: usize) -> Poll<()> {
        self.poll_for(cx, pool, None, bytes)
    }

    pub(super) fn poll_for(
        &mut self,
        cx: &mut Context<'_>,
        pool: &Allowance,
        share: Option<&Arc<Share>>,
        bytes: usize,
    ) -> Poll<()> {
        loop {
            *self = match self {
                Claim::Held(_) => return Poll::Ready(()),
                Claim::Waiting(waiting) => Claim::Held(ready!(waiting.poll(cx))),
                Claim::None => match pool.try_take_for(share, bytes) {
                    Some(lease) => Claim::Held(lease),
                    None => Claim::Waiting(pool.wait(share, bytes, cx.waker())),
                },
            };
        }
    }

    /// What it holds.
    pub fn into_lease(self) -> Option<Lease> {
        match self {
            Claim::Held(lease) => Some(lease),
            Claim::None | Claim::Waiting(_) => None,
        }
    }

    pub fn lease(&mut self) -> Option<&mut Lease> {
        match self {
            Claim::Held(lease) => Some(lease),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_pool_is_used_up_by_degrees_and_comes_back() {
        let pool = Allowance::new(100 << 10);
        let mut half = pool.try_take(30 << 10).unwrap();
        assert!(pool.is_ample() && pool.is_plenty());
        half.merge(pool.try_take(20 << 10).unwrap());
        assert!(!pool.is_plenty());
        assert!(!pool.is_ample());
        let more = pool.try_take(30 << 10).unwrap();
        assert!(pool.try_take(21 << 10).is_none());
        half.merge(more);
        assert_eq!((half.bytes(), pool.taken(), pool.free()), (80 << 10, 80 << 10, 20 << 10));
        half.shrink(10 << 10);
        assert_eq!(pool.taken(), 10 << 10);
        drop(half);
        assert_eq!((pool.taken(), pool.free()), (0, pool.size()));
    }

    #[test]
    fn small_bodies_are_kept_for_longest() {
        let pool = Allowance::new(800 << 10);
        assert!(pool.try_spare(501 << 10).is_none());
        let large = pool.try_spare(500 << 10).unwrap();
        assert!(pool.try_spare(SMALL + 1).is_none());
        let small = pool.try_spare(SMALL).unwrap();
        assert!(pool.try_spare(SMALL).is_none() && pool.try_spare(36 << 10).is_some());
        drop(large);
        assert!(pool.try_spare(436 << 10).is_some() && small.bytes() == SMALL);
    }

    #[test]
    fn who_waits_gets_what_others_give_back_in_the_order_of_coming() {
        let pool = Allowance::new(100 << 10);
        let mut context = Context::from_waker(Waker::noop());
        let held = pool.try_take(60 << 10).unwrap();
        let (mut first, mut second) = (Claim::default(), Claim::default());
        // More than there is at all is all of it.
        assert!(first.poll(&mut context, &pool, 1 << 30).is_pending());
        assert!(second.poll(&mut context, &pool, 1 << 10).is_pending(), "not before the first");
        drop(held);
        assert!(first.poll(&mut context, &pool, 1 << 30).is_ready());
        assert!(second.poll(&mut context, &pool, 1 << 10).is_pending());
        assert_eq!(first.lease().map(|lease| lease.bytes()), Some(100 << 10));
        drop(first);
        assert!(second.poll(&mut context, &pool, 1 << 10).is_ready());
        // One that is given up while it waits is out of the way.
        let mut third = Claim::default();
        assert!(third.poll(&mut context, &pool, 100 << 10).is_pending());
        drop((second, third));
        assert_eq!(pool.free(), 100 << 10);
    }
}
