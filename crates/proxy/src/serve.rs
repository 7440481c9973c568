//! A request's first steps, without waiting: is it clean, may it be served, does the memory tier answer it at once?
//!
//! Everything else goes on in `exchange`, in a future of its own, so that this path allocates nothing for it.

use crate::body::{Content, ReplyBody};
use crate::connection::Link;
use crate::exchange::{self, Exchange};
use crate::forwarded::is_believed;
use crate::guard;
use crate::memory::{Entry, Held};
use crate::reply;
use crate::respond::Refusal;
use crate::target::{SCHEME, Target};
use crate::worker::Worker;
use cache::{Asked, Outcome, Plan, Time, Verdict};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};
use store::Key;

/// Where one connection's requests come in.
pub struct Door {
    worker: Rc<Worker>,
    link: Rc<Link>,
}

/// A response that is there, or one to wait for.
pub enum Answering {
    Now(Option<Response<ReplyBody>>),
    Later(Pin<Box<dyn Future<Output = Response<ReplyBody>>>>),
}

impl Door {
    pub fn new(worker: Rc<Worker>, link: Rc<Link>) -> Door {
        Door { worker, link }
    }

    fn answer(&self, request: Request<Incoming>) -> Result<Response<ReplyBody>, Later> {
        if let Some(why) = self.link.refused() {
            return Ok(Refusal::closing(format!("refused: {}", why.text())).response());
        }
        if !self.link.client.served {
            return Ok(guard::stranger().response());
        }
        if *request.method() == Method::CONNECT {
            return Err(Later::Connect(Box::new(request)));
        }
        let reverse = self.worker.shared.reverse.as_ref();
        if *request.method() == Method::OPTIONS && request.uri().path() == "*" && reverse.is_none() {
            return Ok(exchange::options());
        }
        let (parts, content) = request.into_parts();
        let target = match Target::of(&parts, reverse).and_then(|target| self.reachable(target)) {
            Ok(target) => target,
            Err(refusal) => return Ok(refusal.response()),
        };
        let asked = Asked::of(&parts.method, &parts.headers);
        let now = now();
        if asked.plan() == Plan::Lookup && !asked.is_query() {
            let key = primary(&target);
            if let Some(held) = in_memory(&self.worker, &key, &parts.headers)
                && let Some(response) = self.hit(&asked, &parts, &held, now)
            {
                return Ok(response);
            }
        }
        let (worker, link, content) = (self.worker.clone(), self.link.clone(), Content::of(content));
        Err(Later::Exchange(Box::new(Exchange {
            worker,
            link,
            parts,
            content,
            target,
            asked,
            late: Cell::new(false),
        })))
    }

    /// What the cache holds is no way to what this client may not reach.
    fn reachable(&self, target: Target) -> Result<Target, Refusal> {
        self.worker.origins.reach.check(&target.hop, self.link.client.zone)?;
        Ok(target)
    }

    fn hit(
        &self,
        asked: &Asked,
        parts: &http::request::Parts,
        held: &Arc<Held>,
        now: Time,
    ) -> Option<Response<ReplyBody>> {
        let Entry::Response(resident) = &held.entry else { return None };
        if !cache::can_answer(asked, &parts.headers, &resident.head, resident.body.len()) {
            return None;
        }
        let outcome = match cache::judge(asked, &resident.head, now) {
            Verdict::Fresh => Outcome::Hit,
            Verdict::ServeStale => Outcome::HitStale,
            Verdict::ServeWhileRevalidating | Verdict::Stale(_) => return None,
        };
        count_use(&self.worker, held);
        Some(reply::stored(&self.worker, asked, &parts.headers, resident, outcome.into(), now, None))
    }
}

enum Later {
    Connect(Box<Request<Incoming>>),
    Exchange(Box<Exchange>),
}

/// The key of a target's GET.
pub fn primary(target: &Target) -> Key {
    Key::new(cache::key::primary(SCHEME, target.host(), target.path.as_str()))
}

/// What the memory tier holds for a request, its variant selected.
pub fn in_memory(worker: &Worker, primary: &Key, request: &http::HeaderMap) -> Option<Arc<Held>> {
    let held = worker.shared.tiers.memory.get(primary)?;
    let found = match &held.entry {
        Entry::Response(_) => held,
        // What the origin is told of the client is not in the request yet.
        Entry::Varies(variants) if variants.vary.names().iter().any(|n| is_believed(n.as_str())) => {
            return None;
        }
        Entry::Varies(variants) => worker.shared.tiers.memory.get(&variants.of(primary, request))?,
        Entry::SameAs(_) | Entry::Searches(_) | Entry::Queries(_) => return None,
    };
    (!worker.shared.tiers.covers(&found)).then_some(found)
}

/// Counts a use of a stored response, and tells the disk's replacement of it now and then.
pub fn count_use(worker: &Worker, held: &Held) {
    if let Some(uses) = held.used()
        && let Some(store) = &worker.shared.tiers.store
    {
        store.touch(&held.key, uses);
    }
}

pub fn now() -> Time {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Service<Request<Incoming>> for Door {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let flight = self.link.begin();
        let later = match self.answer(request) {
            Ok(response) => return Answering::Now(Some(response.map(|body| body.carrying(flight)))),
            Err(later) => later,
        };
        let (worker, link) = (self.worker.clone(), self.link.clone());
        Answering::Later(Box::pin(async move {
            let mut response = match later {
                Later::Connect(request) => Box::pin(exchange::connect(&worker, &link, &request)).await,
                Later::Exchange(exchange) => exchange.run().await,
            };
            // The body may have turned out to be ambiguous while it was passed on.
            if let Some(why) = link.refused() {
                response = Refusal::closing(format!("refused: {}", why.text())).response();
            }
            if link.interim_waits() {
                tokio::task::yield_now().await;
            }
            link.end_interim();
            response.map(|body| body.carrying(flight))
        }))
    }
}

impl Future for Answering {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Answering::Now(response) => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
            Answering::Later(future) => future.as_mut().poll(cx).map(Ok),
        }
    }
}
