//! One budget for bytes in transit: what of requests and responses is in memory beyond what each connection has anyway.
//!
//! It is divided into three pools, so that who sends heads without end takes nothing from those who read. A pool is used up by
//! degrees. Until a third of it is taken bodies are kept; those that begin later pass. Until half of it is taken whoever wants more
//! gets it; later a body has the least with which it moves. At the end those who begin wait, in the order in which they came, until
//! others end, and as long as an origin or a client may stall, or a disk be late. What moves is not broken off; clients that hardly
//! take or send anything make way while others wait (`client::relieve`).
//!
//! | pool | what is taken from it | when it is used up |
//! |---|---|---|
//! | `heads` | a request's or a response's head beyond the first `HEAD` bytes | the rest of the head is not read, until its timeout |
//! | `origins` | a body from an origin of more than `SMALL` bytes, or of unknown length: its window, and the span that is gathered for the store; a request's content; a smaller body that its client does not take | windows stay at `FLOOR`, bodies pass without being kept, then those of more than `HELD_ANYWAY` bytes are read one after the other |
//! | `disk` | what was read from the disk for a response | spans are shared and copied out in small pieces, then responses wait for the disk's patience and come from the origin |
//!
//! Of `origins` one client's address has no more than half, beside windows while there is plenty ([`Shares`]): who has that waits,
//! others do not. Where the pool is used up, one of each address waits for it at a time, so that it goes round by addresses, and not by
//! requests. Content and response of one exchange have one lease. What a body took it keeps until its last byte has gone to
//! the client.
//!
//! A hit in memory takes nothing: its bytes are the memory tier's, also when they have left it (`tiers::lent`). A connection has
//! one response at a time that its client does not take: requests behind it wait, so that answers without content do not
//! gather. What it has anyway, beside its buffers, is `HELD_ANYWAY` bytes of that response.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a request's head that are part of what a connection has anyway.
pub const HEAD: usize = 8 << 10;

/// Bytes of a body that are part of what a connection has anyway.
pub const HELD_ANYWAY: usize = 16 << 10;

/// Bytes of a body for which nothing is taken before its client proves slow, as long as there is enough.
pub const SMALL: usize = 64 << 10;

/// The least that a body from an origin takes while it moves: a small window, and what the two connections hold of it.
pub const FLOOR: usize = 96 << 10;

/// The least budget: a few bodies of each kind at a time, bytes.
const LEAST: u64 = 8 << 20;

/// What a large head takes, bytes: the buffer that it lies in grows by doubling, and it goes on to an origin.
pub fn of_head(head_max: usize) -> usize {
    4 * head_max
}

/// The least budget with heads of so many bytes at most.
pub fn least(head_max: usize) -> u64 {
    LEAST.max(8 * of_head(head_max) as u64)
}

/// What is counted together.
const UNIT: usize = 1 << 10;

#[derive(Clone)]
pub struct Budget {
    /// Bytes of memory for all of the process, of which this is a part.
    pub total: u64,
    pub heads: Allowance,
    pub origins: Allowance,
    pub disk: Allowance,
    /// What each client has of `origins`.
    pub clients: Arc<Shares>,
}

/// Bytes that may be taken by several workers.
#[derive(Clone)]
pub struct Allowance {
    units: usize,
    free: Arc<Semaphore>,
}

/// What each client may take of a pool: one in `OF_CLIENT` bytes, so that nobody alone uses it up.
pub struct Shares {
    units: usize,
    by_client: Mutex<HashMap<IpAddr, Weak<Share>>>,
}

/// One client's.
#[derive(Debug)]
struct Share {
    free: Arc<Semaphore>,
    /// Of those of its requests that wait for the pool, that which is in the pool's own queue has it.
    turn: Arc<Semaphore>,
}

/// Of a pool, what is for one client at most.
const OF_CLIENT: usize = 2;

/// Bytes of a pool, until it is dropped; and of what a client may take of it.
#[derive(Debug)]
pub struct Lease {
    permit: OwnedSemaphorePermit,
    _of_client: Option<(OwnedSemaphorePermit, Arc<Share>)>,
}

/// A lease where there is no future to wait for it in.
#[derive(Default)]
pub enum Claim {
    #[default]
    None,
    Waiting(Pin<Box<dyn Future<Output = Lease>>>),
    Held(Lease),
}

/// A claim to bytes of a pool for a client, first to what is this client's.
pub struct ClientsClaim {
    shares: Arc<Shares>,
    /// `None` for who asks for many.
    client: Option<IpAddr>,
    /// Only of what takes something: every body has this.
    claims: Option<Box<Claims>>,
}

/// To the client's share, then to the pool.
#[derive(Default)]
struct Claims {
    share: Option<Arc<Share>>,
    own: Claim,
    turn: Claim,
    all: Claim,
}

impl Budget {
    /// Bodies wait for others to end.
    pub fn is_waited_for(&self) -> bool {
        self.origins.is_waited_for() || self.disk.is_waited_for()
    }

    /// Of no pool of bodies more than half is taken.
    pub fn is_ample(&self) -> bool {
        self.origins.is_ample() && self.disk.is_ample()
    }

    /// Of so many bytes, `LEAST` at least, of `total`.
    pub fn new(bytes: u64, total: u64) -> Budget {
        let eighth = usize::try_from(bytes.max(LEAST) / 8).unwrap_or(usize::MAX >> 16);
        let origins = Allowance::new(4 * eighth);
        Budget {
            total,
            heads: Allowance::new(eighth),
            disk: Allowance::new(3 * eighth),
            clients: Arc::new(Shares { units: origins.units / OF_CLIENT, by_client: Mutex::default() }),
            origins,
        }
    }
}

impl Allowance {
    fn new(bytes: usize) -> Allowance {
        let units = (bytes / UNIT).clamp(1, u32::MAX as usize);
        Allowance { units, free: Arc::new(Semaphore::new(units)) }
    }

    /// Bytes of it.
    pub fn size(&self) -> usize {
        self.units * UNIT
    }

    pub fn free(&self) -> usize {
        self.free.available_permits() * UNIT
    }

    pub fn taken(&self) -> usize {
        self.size() - self.free()
    }

    /// Who waits has what is left.
    fn is_waited_for(&self) -> bool {
        self.free.available_permits() == 0
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

    /// As many bytes, or none.
    pub fn try_take(&self, bytes: usize) -> Option<Lease> {
        self.free.clone().try_acquire_many_owned(self.units(bytes)).ok().map(Lease::of)
    }

    /// For what can be done without: nothing of the last two thirds.
    pub fn try_spare(&self, bytes: usize) -> Option<Lease> {
        if self.can_spare(bytes) { self.try_take(bytes) } else { None }
    }

    pub fn can_spare(&self, bytes: usize) -> bool {
        bytes <= self.free().saturating_sub(self.size() / 3 * 2)
    }

    /// As many bytes, when they are there; all of it for more than it has.
    pub fn take(&self, bytes: usize) -> impl Future<Output = Lease> + use<> {
        let (free, units) = (self.free.clone(), self.units(bytes));
        async move {
            match free.acquire_many_owned(units).await {
                Ok(permit) => Lease::of(permit),
                // Nobody closes it.
                Err(_) => std::future::pending().await,
            }
        }
    }

    fn units(&self, bytes: usize) -> u32 {
        bytes.div_ceil(UNIT).min(self.units) as u32
    }
}

impl Shares {
    /// Whether a client has no more of its share than a body takes at least.
    pub fn is_used_up(&self, client: Option<IpAddr>) -> bool {
        let Some(client) = client.map(network) else { return false };
        let share = self.lock().get(&client).and_then(Weak::upgrade);
        share.is_some_and(|share| share.free.available_permits() * UNIT < FLOOR)
    }

    /// Those who have most, and bytes.
    pub fn most(&self, count: usize) -> Vec<(IpAddr, usize)> {
        let taken = |share: Arc<Share>| (self.units - share.free.available_permits()) * UNIT;
        let of = |(client, share): (&IpAddr, &Weak<Share>)| Some((*client, taken(share.upgrade()?)));
        let mut clients: Vec<_> = self.lock().iter().filter_map(of).filter(|(_, bytes)| *bytes > 0).collect();
        clients.sort_unstable_by_key(|(client, bytes)| (Reverse(*bytes), *client));
        clients.truncate(count);
        clients
    }

    fn of(&self, client: IpAddr) -> Arc<Share> {
        let (client, mut clients) = (network(client), self.lock());
        clients.get(&client).and_then(Weak::upgrade).unwrap_or_else(|| {
            // Those who have nothing any more go, when they may be half of all.
            if clients.len() == clients.capacity() {
                clients.retain(|_, share| share.strong_count() > 0);
                let len = clients.len();
                clients.reserve(len);
            }
            let share = Arc::new(Share {
                free: Arc::new(Semaphore::new(self.units)),
                turn: Arc::new(Semaphore::new(1)),
            });
            clients.insert(client, Arc::downgrade(&share));
            share
        })
    }

    /// What a client may take.
    fn allowance(&self, share: &Share) -> Allowance {
        Allowance { units: self.units, free: share.free.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Weak<Share>>> {
        self.by_client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has one IPv6 address mostly has 2^64 of them.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        IpAddr::V4(_) => client,
    }
}

impl ClientsClaim {
    pub fn new(shares: &Arc<Shares>, client: Option<IpAddr>) -> ClientsClaim {
        ClientsClaim { shares: shares.clone(), client, claims: None }
    }

    /// Ready once it holds as many bytes of the pool.
    pub fn poll(&mut self, cx: &mut Context<'_>, pool: &Allowance, bytes: usize) -> Poll<()> {
        let Claims { share, own, turn, all } = &mut **self.claims.get_or_insert_default();
        if matches!(all, Claim::Held(_)) {
            return Poll::Ready(());
        }
        if let Some(client) = self.client {
            let share = share.get_or_insert_with(|| self.shares.of(client));
            ready!(own.poll(cx, &self.shares.allowance(share), bytes));
            if pool.is_waited_for() {
                ready!(turn.poll(cx, &Allowance { units: 1, free: share.turn.clone() }, 1));
            }
        }
        ready!(all.poll(cx, pool, bytes));
        *turn = Claim::None;
        Poll::Ready(())
    }

    /// It is not waited for any more.
    pub fn give_up(&mut self) {
        self.claims = None;
    }

    /// Whether the client has its share.
    pub fn is_used_up(&self) -> bool {
        self.shares.is_used_up(self.client)
    }

    pub fn holds(&self) -> bool {
        self.claims.as_ref().is_some_and(|claims| matches!(claims.all, Claim::Held(_)))
    }

    /// The largest body for which nothing is taken now, bytes: who has its share is not given more in small pieces.
    pub fn small(&self, pool: &Allowance) -> usize {
        let is_touched = pool.free() < pool.size();
        if is_touched && self.shares.is_used_up(self.client) { HELD_ANYWAY } else { pool.small() }
    }

    /// As many bytes at once, or none.
    pub fn try_take(
        shares: &Shares,
        client: Option<IpAddr>,
        pool: &Allowance,
        bytes: usize,
    ) -> Option<Lease> {
        let _of_client = match client {
            Some(client) => {
                let share = shares.of(client);
                Some((shares.allowance(&share).try_take(bytes)?.permit, share))
            }
            None => None,
        };
        Some(Lease { _of_client, ..pool.try_take(bytes)? })
    }

    /// What it holds, if that is all that it asked for.
    pub fn take_lease(&mut self) -> Option<Lease> {
        let Claims { share, own, all, .. } = *self.claims.take()?;
        let _of_client = own.into_lease().map(|own| own.permit).zip(share);
        Some(Lease { _of_client, ..all.into_lease()? })
    }
}

impl Lease {
    fn of(permit: OwnedSemaphorePermit) -> Lease {
        Lease { permit, _of_client: None }
    }

    pub fn bytes(&self) -> usize {
        self.permit.num_permits() * UNIT
    }

    /// Adds another of the same pool.
    pub fn merge(&mut self, more: Lease) {
        self.permit.merge(more.permit);
    }

    /// Gives back what is beyond so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let beyond = self.permit.num_permits().saturating_sub(bytes.div_ceil(UNIT));
        drop(self.permit.split(beyond));
    }
}

impl Claim {
    /// Ready once it holds as many bytes.
    pub fn poll(&mut self, cx: &mut Context<'_>, pool: &Allowance, bytes: usize) -> Poll<()> {
        loop {
            *self = match self {
                Claim::Held(_) => return Poll::Ready(()),
                Claim::Waiting(waiting) => Claim::Held(ready!(waiting.as_mut().poll(cx))),
                Claim::None => match pool.try_take(bytes) {
                    Some(lease) => Claim::Held(lease),
                    None => Claim::Waiting(Box::pin(pool.take(bytes))),
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
        assert!(pool.is_ample() && pool.try_spare(35 << 10).is_none());
        let mut half = pool.try_spare(30 << 10).unwrap();
        assert!(pool.try_spare(10 << 10).is_none(), "two thirds stay for who cannot do without");
        half.merge(pool.try_take(20 << 10).unwrap());
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

    #[test]
    fn one_client_takes_its_share_and_leaves_the_rest_to_others() {
        let budget = Budget::new(LEAST, 0);
        let pool = &budget.origins;
        let mut context = Context::from_waker(Waker::noop());
        let claim = |client: Option<&str>| {
            ClientsClaim::new(&budget.clients, client.map(|client| client.parse().unwrap()))
        };
        let mut take_all = |client| {
            let mut all = Vec::new();
            loop {
                let mut next = claim(client);
                if next.poll(&mut context, pool, FLOOR).is_pending() {
                    return (all, next);
                }
                all.push(next.take_lease().unwrap());
            }
        };
        let (greedy, mut waits) = take_all(Some("2001:db8::1"));
        assert!(pool.free() >= pool.size() / 2 && pool.free() < pool.size() / 2 + FLOOR);
        let same = |client: &str| budget.clients.is_used_up(Some(client.parse().unwrap()));
        assert!(same("2001:db8::1") && same("2001:db8::2") && !same("2001:db8:0:1::1") && !same("192.0.2.1"));
        let (other, _) = take_all(Some("192.0.2.1"));
        assert!(!other.is_empty());
        let most = budget.clients.most(2);
        // What is left of its share is kept for who waits.
        let first = (IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]), pool.size() / 2);
        assert_eq!(most, [first, (IpAddr::from([192, 0, 2, 1]), other.len() * FLOOR)]);
        assert_eq!(budget.clients.most(1), most[..1]);
        // What many have in front of them has no share.
        drop(other);
        let (front, _) = take_all(None);
        assert!(pool.free() < FLOOR);
        drop((front, greedy));
        assert!(waits.poll(&mut Context::from_waker(Waker::noop()), pool, FLOOR).is_ready());
        drop(waits);
        assert_eq!(pool.free(), pool.size());
        for n in 0..10_000u32 {
            drop(budget.clients.of(std::net::Ipv4Addr::from_bits(n).into()));
        }
        assert!(budget.clients.lock().capacity() < 100, "who has nothing is forgotten");
    }

    #[test]
    fn the_pool_goes_round_by_addresses() {
        let budget = Budget::new(LEAST, 0);
        let pool = &budget.origins;
        let mut context = Context::from_waker(Waker::noop());
        let claim = |client: &str| ClientsClaim::new(&budget.clients, Some(client.parse().unwrap()));
        let mut held = pool.try_take(pool.size());
        let mut many: Vec<_> = (0..20).map(|_| claim("192.0.2.1")).collect();
        let mut other = claim("192.0.2.2");
        for claim in many.iter_mut().chain([&mut other]) {
            assert!(claim.poll(&mut context, pool, FLOOR).is_pending());
        }
        assert!(pool.is_waited_for());
        // Room for two.
        held.as_mut().unwrap().shrink(pool.size() - 2 * FLOOR);
        let mut ready = |claims: &mut [ClientsClaim]| {
            claims
                .iter_mut()
                .filter_map(|claim| claim.poll(&mut context, pool, FLOOR).is_ready().then_some(()))
                .count()
        };
        assert_eq!((ready(&mut many), ready(std::slice::from_mut(&mut other))), (1, 1));
        // The next one has its turn, and whoever gives up passes it on.
        drop(held);
        assert_eq!(ready(&mut many[1..]), 19);
        drop((many, other));
        assert_eq!(pool.free(), pool.size());
    }
}
