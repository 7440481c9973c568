//! May a stored response answer this request now? (RFC 9111 sections 4, 4.2 and 5.2.1)

use crate::directives::flag;
use crate::{Asked, Head, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fresh,
    /// To be validated, or fetched anew.
    Stale(Stale),
    /// Stale, but max-stale says that this client takes it.
    ServeStale,
}

/// Why a stored response is not reused as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stale {
    /// Its age has reached its lifetime.
    Expired,
    /// The response says no-cache.
    NoCache,
    /// The request says no-cache.
    RequestNoCache,
    /// Older than the request's max-age.
    RequestMaxAge,
    /// Not fresh for as long as the request's min-fresh.
    MinFresh,
}

/// The key and Vary have selected `head` already.
pub fn judge(asked: &Asked, head: &Head, now: Time) -> Verdict {
    let wants = asked.directives();
    let (age, lifetime) = (head.age(now), head.lifetime());
    let exceeds = |limit: Option<u32>, value: u64| limit.is_some_and(|limit| value > u64::from(limit));
    if head.has(flag::NO_CACHE) {
        return Verdict::Stale(Stale::NoCache);
    }
    if wants.no_cache {
        return Verdict::Stale(Stale::RequestNoCache);
    }
    if exceeds(wants.max_age, age) {
        return Verdict::Stale(Stale::RequestMaxAge);
    }
    if lifetime > age {
        let short = wants.min_fresh.is_some_and(|more| lifetime < age.saturating_add(u64::from(more)));
        return if short { Verdict::Stale(Stale::MinFresh) } else { Verdict::Fresh };
    }
    let tolerated = match wants.max_stale {
        None => false,
        Some(u32::MAX) => true,
        limit => !exceeds(limit, age - lifetime),
    };
    if tolerated && may_serve_stale(head) { Verdict::ServeStale } else { Verdict::Stale(Stale::Expired) }
}

/// Section 4.2.4: whether it may be served stale at all, for instance when the origin cannot be reached.
pub fn may_serve_stale(head: &Head) -> bool {
    !head.has(flag::NO_CACHE | flag::MUST_REVALIDATE | flag::PROXY_REVALIDATE | flag::S_MAXAGE)
}
