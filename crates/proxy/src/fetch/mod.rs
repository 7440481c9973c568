//! Fetches for the cache. Nothing here knows who waits: no connection, no stream, no response on its way out.
//!
//! A request as it is presented to the cache ([`Presented`]) is looked up (`look`), and what is found is judged (`judge`). What
//! has to be asked for, one asks the origin for (`ask`), for all who wait ([`crate::fill`]): it decides what becomes of the
//! response, has it stored (`keep`), and returns what there is for whoever asked ([`Fetch`]). `answer` makes a response of
//! that. Who asks for the cache alone (`behind`) makes none: validation in the background, and prefetching, which is
//! [`Presented::new`] with a GET, [`Presented::look`], [`Presented::judge`] and [`Presented::behind`].

mod ask;
mod behind;
mod judge;
mod keep;
mod look;
#[cfg(test)]
mod tests;

pub use self::ask::{Fetch, Want, is_of_request};
pub use self::judge::resident;
pub use self::keep::Filled;
pub use self::look::Look;

use crate::access::client::Client;
use crate::access::forwarded::{self, Telling};
use crate::access::reach::Zone;
use crate::fill::repair::Repair;
use crate::message::refusal::Refusal;
use crate::message::target::{Reverse, Target};
use crate::origin::request;
use crate::tiers::Disk;
use crate::worker::Worker;
use bytes::Bytes;
use cache::{Asked, Head, Resume, Vary};
use http::header::{
    ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, HOST, PRAGMA,
    USER_AGENT, VIA,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use std::borrow::Cow;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use store::{Key, Spans};

/// What the origin is asked with for pieces of what is stored, beside what that varies by: what the proxy says itself, content
/// negotiation (RFC 9110 section 12.5), for whom some origins tailor what they have, and who may have it.
const ASKED_WITH: [HeaderName; 8] =
    [HOST, VIA, ACCEPT, ACCEPT_CHARSET, ACCEPT_ENCODING, ACCEPT_LANGUAGE, USER_AGENT, AUTHORIZATION];

/// A request as it is presented to the cache (RFC 9111 section 4).
pub struct Presented {
    pub worker: Rc<Worker>,
    pub target: Target,
    /// The primary key of the target's GET.
    pub uri: Key,
    /// As it came.
    pub parts: Parts,
    /// As caching reads it.
    pub asked: Asked,
    /// All the content of a QUERY, which is part of its key; others that a cache looks up have none.
    pub content: Bytes,
    /// Whom origins are told of.
    pub asker: Option<Rc<Client>>,
    /// By which origins are told of it.
    pub id: Option<HeaderValue>,
    /// From where it is asked: what not all reach from there is not asked for.
    pub zone: Zone,
    pub disk: Disk,
    /// The origin gives it no pieces that the disk lost: it needs the whole.
    pub needs_whole: Cell<bool>,
}

impl Presented {
    pub fn new(
        worker: Rc<Worker>,
        (target, uri): (Target, Key),
        parts: Parts,
        asked: Asked,
        asker: Option<Rc<Client>>,
        zone: Zone,
    ) -> Presented {
        let (content, id, disk, needs_whole) = Default::default();
        Presented { worker, target, uri, parts, asked, content, asker, id, zone, disk, needs_whole }
    }

    /// Whose share of the memory for bodies is taken from.
    pub fn charged(&self) -> Option<IpAddr> {
        self.asker.as_ref().and_then(|client| client.charged())
    }

    /// The client has its share of that already: what it asks for has to wait, and nobody shall wait with it.
    pub fn has_its_share(&self) -> bool {
        let budget = &self.worker.shared.budget;
        budget.clients.is_used_up(self.charged())
    }

    /// What the origin is told of who asks.
    fn telling(&self) -> Telling<'_> {
        let reverse = self.worker.reverse.as_ref();
        let tells = self.worker.settings().forwarded.holds(reverse.is_some());
        // A host that is not in the key is nobody's business.
        let tells_host = reverse.is_none_or(Reverse::names_clients_host);
        Telling { client: self.asker.as_deref(), tells, tells_host, id: self.id.as_ref() }
    }

    /// The fields by which responses that vary so are told apart: as the origin sees them.
    fn selecting(&self, vary: &Vary) -> Cow<'_, HeaderMap> {
        let mut headers = Cow::Borrowed(&self.parts.headers);
        if vary.names().iter().any(|name| forwarded::is_rewritten(name.as_str())) {
            self.telling().rewrite(headers.to_mut(), self.target.host_field().as_ref());
        }
        headers
    }

    /// The request as the origin shall see it.
    pub fn for_origin(&self) -> Result<Request<()>, Refusal> {
        request::head(&self.parts, &self.target, &self.worker.shared.names, &self.telling())
    }

    /// How the origin is asked for what of a stored body cannot be had: for everybody, so with those fields of this client alone
    /// that may select the representation, and who it is where that is asked. The others were no part of what was found, and an
    /// answer to them (a cookie's, say) is nothing that the object should end by.
    pub fn repair_stored(&self, key: &Key, head: &Head, spans: &Spans) -> Option<Repair> {
        let mut repair = self.repair(key, head, Some(spans.length))?;
        let selects = |name: &HeaderName| head.vary().is_some_and(|vary| vary.names().contains(name));
        let stays = |name: &HeaderName| {
            ASKED_WITH.contains(name) || forwarded::is_believed(name.as_str()) || selects(name)
        };
        let headers = repair.request.headers_mut();
        let others: Vec<HeaderName> = headers.keys().filter(|name| !stays(name)).cloned().collect();
        for other in others {
            headers.remove(other);
        }
        repair.stored = Some(*spans);
        Some(repair)
    }

    /// How the origin is asked for what of a response's body cannot be had, if it can be asked: for the object under a key.
    /// `length` is that of the body, when known.
    pub fn repair(&self, key: &Key, head: &Head, length: Option<u64>) -> Option<Repair> {
        let resume = self.resume(head, length)?;
        let mut request = self.for_origin().ok()?;
        // What the client wants of caches was seen to.
        for name in [CACHE_CONTROL, PRAGMA] {
            request.headers_mut().remove(name);
        }
        let (target, key, client) = (self.target.clone(), key.clone(), self.zone);
        let (stored, refused, seat) = Default::default();
        Some(Repair { target, request, resume, key, stored, client, refused, seat })
    }

    /// By what the missing bytes of a response's body are known, if the origin can be asked for them.
    fn resume(&self, head: &Head, length: Option<u64>) -> Option<Resume> {
        let may_ask = self.asked.is_get() && !self.asked.only_if_cached();
        may_ask.then(|| Resume::of(head, length)).flatten()
    }
}
