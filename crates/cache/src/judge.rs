//! May a stored response answer this request now? (RFC 9111 sections 4, 4.2 and 5.2.1, RFC 5861, RFC 8246)
//!
//! A lifetime of N seconds is over when the age is N, so a permission of M seconds more is over at N + M.

use crate::directives::{RequestDirectives, flag};
use crate::{Asked, Head, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fresh,
    /// To be validated, or fetched anew.
    Stale(Stale),
    /// Stale, but max-stale says that this client takes it.
    ServeStale,
    /// Stale, but stale-while-revalidate lets it answer while it is being validated (RFC 5861 section 3).
    ServeWhileRevalidating,
}

/// Why the origin gave no answer that could be used (RFC 5861 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// No response came: the cache is disconnected (RFC 9111 section 4.2.4).
    Unreachable,
    /// The origin answered 500, 502, 503 or 504.
    Answered5xx,
    /// Nothing is asked for: the operator wants what is stored, however long it has been stale.
    Offline,
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
    /// Fresh, but older than the request's max-age.
    RequestMaxAge,
    /// Fresh, but not for as long as the request's min-fresh.
    MinFresh,
}

/// The key and Vary have selected `head` already.
///
/// RFC 8246 section 2.1: while an immutable response is fresh, only no-cache has it validated. A request's max-age is
/// what a reload sends and "prefers" (RFC 9111 section 5.2.1.1), and the origin has said what it would be told.
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
    let too_old = exceeds(wants.max_age, age);
    if lifetime > age {
        if too_old && !head.is_immutable() {
            return Verdict::Stale(Stale::RequestMaxAge);
        }
        let short = wants.min_fresh.is_some_and(|more| lifetime < age.saturating_add(u64::from(more)));
        return if short { Verdict::Stale(Stale::MinFresh) } else { Verdict::Fresh };
    }
    if too_old {
        return Verdict::Stale(Stale::Expired);
    }
    if revalidates_meanwhile(wants, head, age) {
        return Verdict::ServeWhileRevalidating;
    }
    let tolerated = tolerates(wants, age - lifetime) && !head.has(FORBID_STALE | flag::S_MAXAGE);
    if tolerated { Verdict::ServeStale } else { Verdict::Stale(Stale::Expired) }
}

/// RFC 5861 section 4, RFC 9111 section 4.2.4: whether a stored response, stale or not, may stand in for an answer that
/// could not be had.
///
/// A stale-if-error is both permission and limit, whether response or request has it, and of two the smaller counts.
/// Without one, a cache that is disconnected may serve stale; an error that the origin did answer stands, unless the
/// client's max-stale permits more. Offline the response's limit does not count, and the client's does.
pub fn may_serve_stale_on_error(asked: &Asked, head: &Head, now: Time, outage: Outage) -> bool {
    let wants = asked.directives();
    // As with stale-while-revalidate below: only the origin's own word lifts what s-maxage implies.
    let implied = head.has(flag::S_MAXAGE) && head.stale_if_error().is_none();
    if head.has(FORBID_STALE) || implied || wants.no_cache {
        return false;
    }
    let limits = [head.stale_if_error().filter(|_| outage != Outage::Offline), wants.stale_if_error];
    match limits.into_iter().flatten().min() {
        Some(limit) => within(head, head.age(now), limit),
        None => {
            outage != Outage::Answered5xx || tolerates(wants, head.age(now).saturating_sub(head.lifetime()))
        }
    }
}

/// Section 4.2.4: these forbid to serve stale, whoever would permit it.
const FORBID_STALE: u32 = flag::NO_CACHE | flag::MUST_REVALIDATE | flag::PROXY_REVALIDATE;

/// RFC 5861 section 3.
///
/// RFC 9111 section 4.2.4 has s-maxage among what prohibits, since it implies proxy-revalidate (5.2.2.10), and explicit
/// permission by RFC 5861 among what permits. Where an origin writes both, the directive that speaks of staleness and of
/// nothing else counts: beside s-maxage it would otherwise have no meaning to a shared cache at all.
///
/// A client that gives max-age and no max-stale wants nothing stale (5.2.1.1), nor does one with min-fresh; one with
/// max-stale wants nothing that is staler.
fn revalidates_meanwhile(wants: &RequestDirectives, head: &Head, age: u64) -> bool {
    let permitted = head.stale_while_revalidate().is_some_and(|limit| within(head, age, limit));
    let client_agrees = wants.min_fresh.is_none()
        && if wants.max_stale.is_some() {
            tolerates(wants, age - head.lifetime())
        } else {
            wants.max_age.is_none()
        };
    permitted && client_agrees && !head.has(FORBID_STALE)
}

/// Fresh, or stale for less than `limit` seconds.
fn within(head: &Head, age: u64, limit: u32) -> bool {
    age < head.lifetime().saturating_add(u64::from(limit))
}

/// The client's max-stale (5.2.1.2).
fn tolerates(wants: &RequestDirectives, staleness: u64) -> bool {
    wants.max_stale.is_some_and(|limit| limit == u32::MAX || staleness <= u64::from(limit))
}
