//! What each client has of a pool, and whose turn it is where the pool is used up.

use super::pool::lock;
use super::{Allowance, Claim, FLOOR, HELD_ANYWAY, Lease};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};

/// What each client may take of a pool, so that nobody alone uses it up; and what it has of that.
pub struct Shares {
    /// Of each client, bytes.
    most: usize,
    by_client: Mutex<HashMap<IpAddr, Weak<Share>>>,
}

/// One client's.
#[derive(Debug)]
pub(super) struct Share {
    pub client: IpAddr,
    /// What it may take, also while it waits for the pool.
    own: Allowance,
    /// What it has of the pool, as the pool counts.
    pub held: AtomicUsize,
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
    all: Claim,
}

impl Shares {
    pub(super) fn new(most: usize) -> Shares {
        Shares { most, by_client: Mutex::default() }
    }

    /// Whether a client has no more of its share than a body takes at least.
    pub fn is_used_up(&self, client: Option<IpAddr>) -> bool {
        let Some(client) = client.map(network) else { return false };
        let share = lock(&self.by_client).get(&client).and_then(Weak::upgrade);
        share.is_some_and(|share| share.own.free() < FLOOR)
    }

    /// Those of whose shares more is wanted than there is.
    pub(super) fn waited_for(&self) -> Vec<IpAddr> {
        let clients = lock(&self.by_client);
        let waits = |share: &Weak<Share>| share.upgrade().is_some_and(|share| share.own.is_waited_for());
        clients.iter().filter(|(_, share)| waits(share)).map(|(client, _)| *client).collect()
    }

    /// Those who have most, and bytes.
    pub fn most(&self, count: usize) -> Vec<(IpAddr, usize)> {
        let of = |(client, share): (&IpAddr, &Weak<Share>)| Some((*client, share.upgrade()?.own.taken()));
        let mut clients: Vec<_> =
            lock(&self.by_client).iter().filter_map(of).filter(|(_, bytes)| *bytes > 0).collect();
        clients.sort_unstable_by_key(|(client, bytes)| (Reverse(*bytes), *client));
        clients.truncate(count);
        clients
    }

    fn of(&self, client: IpAddr) -> Arc<Share> {
        let (client, mut clients) = (network(client), lock(&self.by_client));
        clients.get(&client).and_then(Weak::upgrade).unwrap_or_else(|| {
            // Those who have nothing any more go, when they may be half of all.
            if clients.len() == clients.capacity() {
                clients.retain(|_, share| share.strong_count() > 0);
                let len = clients.len();
                clients.reserve(len);
            }
            let share = Arc::new(Share { client, own: Allowance::new(self.most), held: AtomicUsize::new(0) });
            clients.insert(client, Arc::downgrade(&share));
            share
        })
    }
}

/// Who has one IPv6 address mostly has 2^64 of them.
pub(super) fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        IpAddr::V4(_) => client,
    }
}

impl ClientsClaim {
    pub fn new(shares: &Arc<Shares>, client: Option<IpAddr>) -> ClientsClaim {
        ClientsClaim { shares: shares.clone(), client, claims: None }
    }

    /// Ready once it holds as many bytes of the pool, or more.
    pub fn poll(&mut self, cx: &mut Context<'_>, pool: &Allowance, bytes: usize) -> Poll<()> {
        let Claims { share, own, all } = &mut **self.claims.get_or_insert_default();
        if matches!(all, Claim::Held(_)) {
            return Poll::Ready(());
        }
        if let Some(client) = self.client {
            let share = share.get_or_insert_with(|| self.shares.of(client));
            ready!(own.poll(cx, &share.own, bytes));
        }
        ready!(all.poll_for(cx, pool, share.as_ref(), bytes));
        if let (Some(lease), Some(own), Some(share)) = (all.lease(), std::mem::take(own).into_lease(), share)
        {
            lease.tie(share.clone(), own);
        }
        Poll::Ready(())
    }

    /// Whether it holds as many bytes more of the pool, which it does not wait for.
    pub fn try_more(&mut self, pool: &Allowance, bytes: usize) -> bool {
        let Some(more) = ClientsClaim::try_take(&self.shares, self.client, pool, bytes) else { return false };
        match self.lease() {
            Some(lease) => lease.merge(more),
            None => self.claims = Some(Box::new(Claims { all: Claim::Held(more), ..Claims::default() })),
        }
        true
    }

    pub fn lease(&mut self) -> Option<&mut Lease> {
        self.claims.as_mut()?.all.lease()
    }

    /// It is not waited for any more.
    pub fn give_up(&mut self) {
        self.claims = None;
    }

    /// Whether the client has its share.
    pub fn is_used_up(&self) -> bool {
        self.shares.is_used_up(self.client)
    }

    /// It has asked for something that it does not hold.
    pub fn waits(&self) -> bool {
        self.claims.is_some() && !self.holds()
    }

    /// More than half of the client's share is free, as far as that matters to this claim.
    pub fn is_ample(&self) -> bool {
        let share = self.claims.as_ref().and_then(|claims| claims.share.as_ref());
        share.is_none_or(|share| share.own.is_ample())
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
        let Some(client) = client else { return pool.try_take(bytes) };
        let share = shares.of(client);
        let own = share.own.try_take(bytes)?;
        let mut lease = pool.try_take_for(Some(&share), bytes)?;
        lease.tie(share, own);
        Some(lease)
    }

    /// What it holds, if that is all that it asked for.
    pub fn take_lease(&mut self) -> Option<Lease> {
        self.claims.take()?.all.into_lease()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Budget, LEAST, Wanted, Whose};
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;
    use std::task::Waker;

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
        assert!(lock(&budget.clients.by_client).capacity() < 100, "who has nothing is forgotten");
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

    #[test]
    fn who_holds_least_has_the_next_turn() {
        let budget = Budget::new(LEAST, 0);
        let pool = &budget.origins;
        let mut context = Context::from_waker(Waker::noop());
        let claim = |n: u8| ClientsClaim::new(&budget.clients, Some(IpAddr::from([192, 0, 2, n])));
        let mut ready = |claim: &mut ClientsClaim| claim.poll(&mut context, pool, FLOOR).is_ready();
        // The first three hold three, two and one; what is left is somebody's.
        let mut held: Vec<_> = [1, 1, 1, 2, 2, 3].map(claim).into();
        assert!(held.iter_mut().all(&mut ready));
        let mut rest = pool.try_take(pool.free()).unwrap();
        let mut waits: Vec<_> = [1, 1, 2, 3, 4].map(claim).into();
        assert_eq!(waits.iter_mut().filter_map(|claim| ready(claim).then_some(())).count(), 0);
        let mut give = |rest: &mut Lease, waits: &mut Vec<ClientsClaim>| {
            rest.shrink(rest.bytes() - FLOOR);
            waits.iter_mut().for_each(|claim| _ = ready(claim));
            let of = waits.iter().position(ClientsClaim::holds).map(|at| waits.remove(at));
            of.map(|claim| (claim.client.unwrap().to_string(), claim)).unwrap()
        };
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(give(&mut rest, &mut waits));
        }
        let named: Vec<_> = order.iter().map(|(name, _)| &name[8..]).collect();
        assert_eq!(named, ["4", "3", "2"]);
        // One that gives up is out of the way.
        waits.remove(0);
        assert_eq!(give(&mut rest, &mut waits).0, "192.0.2.1");
        drop((held, order, waits, rest));
        assert_eq!(pool.free(), pool.size());
        let shares = lock(&budget.clients.by_client);
        assert!(shares.values().all(|share| share.upgrade().is_none_or(|s| s.held.load(Relaxed) == 0)));
    }

    #[test]
    fn who_holds_most_is_not_passed_over_for_ever() {
        let budget = Budget::new(LEAST, 0);
        let pool = &budget.origins;
        let mut context = Context::from_waker(Waker::noop());
        let claim = |n: u8| ClientsClaim::new(&budget.clients, Some(IpAddr::from([192, 0, 2, n])));
        let mut ready = |claim: &mut ClientsClaim| claim.poll(&mut context, pool, FLOOR).is_ready();
        let mut held = [claim(1), claim(1)];
        assert!(held.iter_mut().all(&mut ready));
        let mut rest = pool.try_take(pool.free()).unwrap();
        let mut more = claim(1);
        assert!(!ready(&mut more));
        // Somebody new always waits who holds nothing.
        let mut others: Vec<_> = (2..20).map(claim).collect();
        assert_eq!(others.iter_mut().filter_map(|claim| ready(claim).then_some(())).count(), 0);
        let turns = (1..=18).find(|_| {
            rest.shrink(rest.bytes() - FLOOR);
            ready(&mut more)
        });
        assert_eq!(turns, Some(4));
    }

    #[test]
    fn what_is_charged_to_nobody_has_one_turn_of_four() {
        let budget = Budget::new(LEAST, 0);
        let pool = &budget.origins;
        let mut context = Context::from_waker(Waker::noop());
        let client = |n: u8| Some(IpAddr::from([192, 0, 2, n]));
        let mut ready = |claim: &mut ClientsClaim| claim.poll(&mut context, pool, FLOOR).is_ready();
        let mut rest = pool.try_take(pool.free()).unwrap();
        let claims = |of: &dyn Fn(u8) -> Option<IpAddr>| {
            (0..16).map(|n| ClientsClaim::new(&budget.clients, of(n))).collect::<Vec<_>>()
        };
        let (mut charged, mut of_nobody) = (claims(&client), claims(&|_| None));
        let mut waiting = charged.iter_mut().chain(&mut of_nobody).collect::<Vec<_>>();
        assert!(!waiting.iter_mut().any(|claim| ready(claim)));
        rest.shrink(rest.bytes() - 16 * FLOOR);
        let had = |claims: &mut [ClientsClaim], ready: &mut dyn FnMut(&mut ClientsClaim) -> bool| {
            claims.iter_mut().filter_map(|claim| ready(claim).then_some(())).count()
        };
        // The one that waits for longest may be of either kind.
        let of_nobody = had(&mut of_nobody, &mut ready);
        assert!((4..=8).contains(&of_nobody), "{of_nobody}");
        assert_eq!(had(&mut charged, &mut ready), 16 - of_nobody);
    }

    #[test]
    fn what_a_client_holds_follows_its_lease() {
        let budget = Budget::new(LEAST, 0);
        let (pool, shares) = (&budget.disk, &budget.readers);
        let client = IpAddr::from([192, 0, 2, 1]);
        let mut claim = ClientsClaim::new(shares, Some(client));
        assert!(claim.try_more(pool, 100 << 10) && claim.try_more(pool, 28 << 10));
        let held = || (shares.of(client).held.load(Relaxed), shares.most(1)[0].1 >> 10, pool.taken() >> 10);
        assert_eq!(held(), (128, 128, 128));
        claim.lease().unwrap().shrink(64 << 10);
        assert_eq!(held(), (64, 64, 64));
        assert!(!claim.try_more(pool, pool.size()) && claim.try_more(pool, pool.free()));
        drop(claim);
        assert!(shares.most(1).is_empty() && pool.taken() == 0);
    }

    #[test]
    fn who_waits_for_its_own_share_has_its_own_make_way() {
        let budget = Budget::new(LEAST, 0);
        let mut context = Context::from_waker(Waker::noop());
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let claim = |shares, client| ClientsClaim::new(shares, Some(client));
        let mut held = claim(&budget.askers, one);
        assert!(held.poll(&mut context, &budget.heads, budget.heads.size() / 2).is_ready());
        assert!(budget.makes_way(Wanted::Heads).is_none());
        let mut waits = claim(&budget.askers, one);
        assert!(waits.poll(&mut context, &budget.heads, FLOOR).is_pending());
        let of = Some(Whose::Of([one].into()));
        assert_eq!((budget.makes_way(Wanted::Heads), budget.makes_way(Wanted::Bodies)), (of, None));
        let whose = budget.makes_way(Wanted::Heads).unwrap();
        assert!(whose.has(Some(one)) && !whose.has(Some(other)) && !whose.has(None));
        // All of both is wanted, each for itself.
        let rest = [&budget.heads, &budget.origins].map(|pool| pool.try_take(pool.free()));
        let mut others = [claim(&budget.askers, other), claim(&budget.clients, other)];
        assert!(others[0].poll(&mut context, &budget.heads, FLOOR).is_pending());
        assert!(others[1].poll(&mut context, &budget.origins, FLOOR).is_pending());
        assert!(Wanted::ALL.iter().all(|wanted| budget.makes_way(*wanted) == Some(Whose::All)));
        drop((waits, others, rest));
        assert!(Wanted::ALL.iter().all(|wanted| budget.makes_way(*wanted).is_none()));
    }
}
