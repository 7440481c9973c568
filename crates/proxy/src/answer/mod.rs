//! A request's answer, however it came here: made at once if the memory tier has it, or else by `exchange`, which passes it to the
//! origin, and `lookup`, which answers it by what is stored, by another's fetch, or by one of its own (`fetch`).
//!
//! The first steps wait for nothing and allocate nothing for what waits.

pub mod body;
mod challenge;
mod exchange;
mod lookup;
mod pac;
mod purge;
mod redirect;
mod reply;
mod respond;
pub mod stream;

use crate::access;
use crate::access::client::Admission;
use crate::access::forwarded::is_rewritten;
use crate::answer::body::ReplyBody;
use crate::answer::exchange::Exchange;
use crate::answer::stream::Stream;
use crate::clock;
use crate::fetch::Presented;
use crate::message::refusal::Refusal;
use crate::message::target::Target;
use crate::origin::content::{Arriving, Content};
use crate::report::{Object, Place};
use crate::tiers::memory::{CacheEntry, EntryKind, StoredResponse};
use crate::transfer::span::Supply;
use crate::worker::Worker;
use cache::{Asked, Outcome, Plan, Time, Verdict};
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use std::rc::Rc;
use std::sync::Arc;
use store::{Body, Key};

/// A request that has to wait for something.
pub enum Pending {
    Connect(Box<Uri>),
    Exchange(Box<Exchange>),
}

/// Answers a request at once, if that can be.
pub fn answer(
    worker: &Rc<Worker>,
    stream: &Rc<Stream>,
    request: Request<impl Into<Arriving>>,
) -> Result<Response<ReplyBody>, Pending> {
    if worker.shared.challenges.are_open()
        && let Some(answered) = challenge::answer(&worker.shared.challenges, &request)
    {
        return Ok(answered);
    }
    let client = stream.client();
    match client.admission {
        Admission::Served | Admission::Passed => {}
        Admission::Stranger => return Ok(access::stranger().response()),
        Admission::Redirected => {
            return Ok(redirect::answer(worker, &request.into_parts().0).unwrap_or_else(Refusal::response));
        }
    }
    if *request.method() == Method::CONNECT {
        return Err(Pending::Connect(Box::new(request.into_parts().0.uri)));
    }
    let reverse = worker.reverse.as_ref();
    if *request.method() == Method::OPTIONS && request.uri().path() == "*" && reverse.is_none() {
        return Ok(exchange::options());
    }
    let (parts, content) = request.into_parts();
    if reverse.is_none()
        && let Some(answered) = pac::answer(&worker.settings().pac, &parts)
    {
        return Ok(answered.unwrap_or_else(Refusal::response));
    }
    // What the cache holds is no way to what this client may not reach.
    let reachable = |target: Target| {
        if let Some(authority) = target.authority() {
            worker.origins.reach().check(authority, client.zone)?;
        }
        Ok(target)
    };
    let target = match Target::of(&parts, client.scheme, reverse).and_then(reachable) {
        Ok(target) => target,
        Err(refusal) => {
            stream.note(|transaction| transaction.note_accept(&parts.headers));
            return Ok(Refusal::response(refusal));
        }
    };
    let asked = match client.admission {
        Admission::Passed => past_the_cache(&parts.method),
        _ => Asked::of(&parts.method, &parts.headers),
    };
    let uri = target.primary_key();
    if asked.plan() == Plan::Lookup
        && !asked.is_query()
        && let Some(held) = in_memory(worker, &uri, &parts.headers)
        && let Some(response) = hit(worker, &asked, &parts, &held, clock::now())
    {
        stream.note(|transaction| {
            transaction.asks_for_key(uri);
            transaction.object = stored(&asked, &held);
        });
        return Ok(response);
    }
    stream.note(|transaction| {
        transaction.asks_for(target.clone());
        transaction.note_accept(&parts.headers);
    });
    let tells_id = worker.settings().request_id.holds(reverse.is_some());
    let id = stream.id().filter(|_| tells_id).map(|id| id.value());
    let zone = client.zone;
    let request = Presented::new(worker.clone(), (target, uri), parts, asked, Some(client), zone);
    let request = Presented { id, ..request };
    let (stream, content) = (stream.clone(), Content::of(content.into(), || stream.received()));
    Err(Pending::Exchange(Box::new(Exchange { request, stream, content })))
}

/// As if the request forbade what could answer it from here.
fn past_the_cache(method: &Method) -> Asked {
    Asked::of(method, &HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static("no-store"))]))
}

impl Pending {
    pub async fn answer(self, worker: &Rc<Worker>, stream: &Rc<Stream>) -> Response<ReplyBody> {
        match self {
            Pending::Connect(uri) => Box::pin(exchange::connect(worker, stream, &uri)).await,
            Pending::Exchange(exchange) => exchange.run().await,
        }
    }
}

// Else it is a call with moves, now that requests of each protocol come here.
#[inline(always)]
fn hit(
    worker: &Rc<Worker>,
    asked: &Asked,
    parts: &http::request::Parts,
    held: &Arc<CacheEntry>,
    now: Time,
) -> Option<Response<ReplyBody>> {
    let EntryKind::Response(resident) = &held.kind else { return None };
    // Of what is on disk only the head is here.
    if matches!(resident.body, Body::Spans(_))
        || !cache::can_answer(asked, &parts.headers, &resident.head, resident.body.len())
    {
        return None;
    }
    let outcome = match cache::judge(asked, &resident.head, now) {
        Verdict::Fresh => Outcome::Hit,
        Verdict::ServeStale => Outcome::HitStale,
        Verdict::ServeWhileRevalidating | Verdict::Stale(_) => return None,
    };
    worker.shared.tiers.count_use(held);
    let (told, supply) = ((outcome.into(), Place::Memory), Supply::default());
    Some(reply::stored(worker, asked, &parts.headers, resident, told, now, &supply))
}

/// What other caches are asked, where this one answers from what it holds.
fn stored(asked: &Asked, held: &CacheEntry) -> Option<Object> {
    let EntryKind::Response(StoredResponse { head, body, .. }) = &held.kind else { return None };
    Object::of(asked, head, &held.key, Some(body.len()))
}

/// What the memory tier holds for a request, its variant selected.
#[inline(always)]
pub fn in_memory(worker: &Worker, primary: &Key, request: &HeaderMap) -> Option<Arc<CacheEntry>> {
    let held = worker.shared.tiers.memory.get(primary)?;
    let found = match &held.kind {
        EntryKind::Response(_) => held,
        // What the origin is told of the client is not in the request yet.
        EntryKind::Varies(variants) if variants.vary.names().iter().any(|n| is_rewritten(n.as_str())) => {
            return None;
        }
        EntryKind::Varies(variants) => {
            worker.shared.tiers.count_use(&held);
            worker.shared.tiers.memory.get(&variants.of(primary, request))?
        }
        EntryKind::SameAs(_) | EntryKind::Searches(_) | EntryKind::Queries(_) => return None,
    };
    (!worker.shared.tiers.covers(&found)).then_some(found)
}
