//! One request that has to wait for something: the store, another's fetch, or the origin.
//!
//! `run` decides what the request is; what can be answered from the cache goes to `lookup`; `forward` passes the rest
//! straight to the origin and back.

use crate::access;
use crate::answer::body::ReplyBody;
use crate::answer::purge;
use crate::answer::reply;
use crate::answer::respond;
use crate::answer::stream::{Stream, Upstream};
use crate::clock;
use crate::fetch::{Filled, Presented};
use crate::message::fields::{self, CACHE_STATUS};
use crate::message::hops::{self, Hops};
use crate::message::interim::Interim;
use crate::message::refusal::Refusal;
use crate::origin::content::Content;
use crate::origin::fetch::Fetched;
use crate::origin::{Line, Outgoing};
use crate::report::Place;
use crate::tiers::invalidation::Moment;
use crate::transfer::keeper::Object;
use crate::transport::Hop;
use crate::worker::Worker;
use bytes::Bytes;
use cache::{Head, Outcome, Pass, Plan, Report, Time};
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, TRAILER, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, Version, response};
use std::rc::Rc;

/// A request, and whom it came from.
pub struct Exchange {
    pub request: Presented,
    pub stream: Rc<Stream>,
    pub content: Option<Content>,
}

impl Exchange {
    /// What is rare has a box of its own: every request pays for the size of this future.
    pub async fn run(mut self: Box<Self>) -> Response<ReplyBody> {
        let Parts { method, headers, .. } = &mut self.request.parts;
        if hops::lower_max_forwards(method, headers) == Hops::Here {
            return self.final_recipient();
        }
        // Before anything is waited for: it might wait for its own answer.
        if let Err(refusal) = self.request.worker.shared.names.look(&self.request.parts.headers) {
            return refusal.response();
        }
        // Where nobody may, it is a method like any other.
        if purge::is_purge(&self.request.parts.method)
            && !self.request.worker.settings().purge_from.is_empty()
        {
            return Box::pin(self.purge()).await;
        }
        match self.request.asked.plan() {
            Plan::Pass(reason) => Box::pin(self.forward(Outcome::Pass(reason))).await,
            Plan::Lookup if self.request.asked.is_query() => Box::pin(self.query()).await,
            Plan::Lookup => self.lookup().await,
        }
    }

    /// RFC 10008: the content is part of the key, so all of it must be here first.
    async fn query(mut self) -> Response<ReplyBody> {
        let content = match &mut self.content {
            None => Ok(Some(Bytes::new())),
            Some(content) => content.read(self.request.worker.settings().bounds.query_bytes).await,
        };
        match content {
            Ok(Some(content)) => {
                self.request.content = content;
                self.lookup().await
            }
            Ok(None) => self.forward(Outcome::Pass(Pass::Content)).await,
            Err(_) => Refusal::closing("the request's content broke off").response(),
        }
    }

    /// Passes the request to the origin and the response back; nothing is stored.
    pub async fn forward(mut self, outcome: Outcome) -> Response<ReplyBody> {
        let (sent, began) = (clock::now(), self.request.worker.shared.tiers.now());
        match self.forward_content().await {
            Ok(fetched) if self.request.parts.method == Method::POST => {
                self.pass_and_keep(fetched, outcome, sent, began)
            }
            Ok(fetched) => self.pass(fetched, outcome.into()),
            Err(refusal) => refusal.response(),
        }
    }

    /// Passes the answer to a POST, and stores it where it is what a GET would get.
    fn pass_and_keep(
        &self,
        fetched: Fetched,
        outcome: Outcome,
        sent: Time,
        began: Moment,
    ) -> Response<ReplyBody> {
        let request = &self.request;
        let target = &request.target;
        let (scheme, authority, path) = (target.scheme.as_str(), target.host(), target.path.as_str());
        let names_target = cache::names_target(scheme, authority, path, &fetched.parts);
        let storable =
            Head::storable_for_get(&request.asked, names_target, &fetched.parts, sent, clock::now());
        let storable = storable.and_then(|head| head.obeying(request.worker.settings().set_cookie));
        let Some(mut head) = storable.ok().filter(|_| request.keeps(&fetched).is_ok()) else {
            return self.pass(fetched, outcome.into());
        };
        let tiers = &request.worker.shared.tiers;
        let key = request.uri.clone();
        let removal = tiers.invalidate(&request.parts.method, &request.target, &fetched.parts, began);
        // Another's change meanwhile makes this answer as old as what it removes itself.
        let Some(own) = removal.filter(|removal| !removal.again) else {
            return self.stream(fetched, outcome.into());
        };
        let began = began.knowing(own);
        head.purges_known = began.purges;
        let lead = request.worker.shared.fills.lone(&key, began);
        let filled = request.store(lead, fetched, Object::new(key, head, began));
        self.filled(filled, outcome.into())
    }

    /// Passes a response on while it is stored, and says whether it is.
    pub fn filled(&self, filled: Filled, report: Report) -> Response<ReplyBody> {
        let Filled { mut parts, body, kept, rest, object } = filled;
        self.stream.note(|transaction| transaction.object = object);
        fields::for_client(&mut parts.headers, &self.request.worker.shared.names);
        parts.headers.remove(TRAILER);
        let (stored, not_stored) = (kept.is_ok(), kept.err().flatten());
        let report = Report { stored, not_stored, fwd_status: rest, ..report };
        let body = self.saying(&mut parts.headers, report, body.into());
        reply::response(parts.status, parts.headers, body)
    }

    /// Says in the fields and to the exit what the cache has to do with a response.
    pub fn saying(&self, headers: &mut HeaderMap, report: Report, mut body: ReplyBody) -> ReplyBody {
        headers.append(CACHE_STATUS, report.value(&self.request.worker.shared.names.item));
        body.tells(report, Place::default());
        body
    }

    /// Forwards the request and its content, of which nothing is left then.
    pub async fn forward_content(&mut self) -> Result<Fetched, Refusal> {
        let expects = fields::expects_continue(&self.request.parts);
        self.is_sent_on();
        let content = self.content.take();
        let Exchange { request, stream, .. } = &*self;
        let head = || request.for_origin();
        let outgoing =
            Outgoing { head: &head, content, expects, client: request.zone, charged: request.charged() };
        let relay = relay(stream, &request.parts);
        request.worker.origins.fetch(&request.target, outgoing, relay).await
    }

    pub fn is_sent_on(&self) {
        let Presented { worker, target, .. } = &self.request;
        if worker.origins.may_ask().is_err() {
            return;
        }
        self.stream.note(|transaction| transaction.hop = worker.origins.route.next_hop(target).ok());
    }

    /// Streams a response through.
    pub fn pass(&self, fetched: Fetched, report: Report) -> Response<ReplyBody> {
        let Presented { worker, target, parts, .. } = &self.request;
        let tiers = &worker.shared.tiers;
        tiers.invalidate(&parts.method, target, &fetched.parts, tiers.now());
        self.stream(fetched, report)
    }

    fn stream(&self, fetched: Fetched, report: Report) -> Response<ReplyBody> {
        let Fetched { mut parts, body, .. } = fetched;
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return self.upgraded(parts, body.into_line());
        }
        fields::for_client(&mut parts.headers, &self.request.worker.shared.names);
        parts.version = Version::HTTP_11;
        let body = self.saying(&mut parts.headers, report, ReplyBody::pieces(body));
        Response::from_parts(parts, body)
    }

    fn upgraded(&self, mut parts: response::Parts, line: Option<Line>) -> Response<ReplyBody> {
        let asked = fields::upgrade(&self.request.parts).is_some()
            && cache::is_asked_upgrade(&self.request.parts.headers, &parts.headers);
        let Some(line) = line.filter(|_| asked) else {
            let text = "the origin changed to a protocol that it was not asked for";
            return Refusal::new(StatusCode::BAD_GATEWAY, text).response();
        };
        let protocols: Vec<_> = parts.headers.get_all(UPGRADE).iter().cloned().collect();
        fields::for_client(&mut parts.headers, &self.request.worker.shared.names);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        for protocol in protocols {
            parts.headers.append(UPGRADE, protocol);
        }
        self.stream.tunnel_to(Upstream::Upgraded(Box::new(line)));
        Response::from_parts(parts, ReplyBody::empty())
    }

    /// Max-Forwards has run out: the request was meant for this proxy.
    fn final_recipient(&self) -> Response<ReplyBody> {
        if self.request.parts.method == Method::TRACE { self.trace() } else { options() }
    }

    /// What came here, without what only its owner should see (RFC 9110 section 9.3.8).
    fn trace(&self) -> Response<ReplyBody> {
        let mut text = format!("TRACE {} HTTP/1.1\r\n", self.request.parts.uri);
        for (name, value) in &self.request.parts.headers {
            let secret = ["authorization", "cookie", "proxy-authorization"].contains(&name.as_str());
            if !secret && let Ok(value) = value.to_str() {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        let mut response = Response::new(ReplyBody::whole(text.into()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));
        response
    }
}

/// Passes the origin's interim responses on to a client.
pub fn relay<'a>(stream: &'a Rc<Stream>, client: &Parts) -> impl Fn(Interim) + use<'a> {
    let relays = client.version >= Version::HTTP_11;
    move |interim| {
        if relays {
            stream.send_interim(interim);
        }
    }
}

/// What this proxy itself can do.
pub fn options() -> Response<ReplyBody> {
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let methods = "GET, HEAD, POST, PUT, PATCH, DELETE, QUERY, OPTIONS, TRACE, CONNECT";
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// `CONNECT`: a tunnel to any allowed port.
pub async fn connect(worker: &Rc<Worker>, stream: &Rc<Stream>, uri: &Uri) -> Response<ReplyBody> {
    let opened = async {
        if worker.reverse.is_some() {
            return Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this is a reverse proxy: it opens no tunnels",
            ));
        }
        let (authority, port) = access::connect(uri, &worker.settings())?;
        let hop = Hop::at_port(authority.clone(), port);
        stream.note(|transaction| {
            transaction.connects_to(authority.clone());
            transaction.hop = Some(hop.clone());
        });
        worker.origins.dial(&hop, stream.client().zone).await
    };
    match opened.await {
        Ok((upstream, _)) => {
            stream.tunnel_to(Upstream::Connected(upstream));
            Response::new(ReplyBody::empty())
        }
        // What follows may have been meant for the tunnel.
        Err(refusal) => Refusal { close: true, ..refusal }.response(),
    }
}
