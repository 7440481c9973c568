//! One request that has to wait for something: the store, another's fetch, or the origin.
//!
//! `run` decides what the request is; what can be answered from the cache goes to `lookup`; `forward` passes the rest
//! straight to the origin and back.

use crate::access;
use crate::access::forwarded::{self, Telling};
use crate::answer::body::ReplyBody;
use crate::answer::reply;
use crate::answer::respond;
use crate::answer::stream::{Stream, Upstream};
use crate::clock;
use crate::fill::Lead;
use crate::fill::repair::Repair;
use crate::message::fields::{self, CACHE_STATUS};
use crate::message::hops::{self, Hops};
use crate::message::interim::Interim;
use crate::message::refusal::Refusal;
use crate::message::target::{SCHEME, Target};
use crate::origin::content::Content;
use crate::origin::fetch::Fetched;
use crate::origin::{Line, Outgoing, request};
use crate::report::Place;
use crate::settings::{Forwarded, OriginHost};
use crate::tiers::Disk;
use crate::tiers::invalidation::Moment;
use crate::transfer::keeper;
use crate::transfer::pump::{self, Started};
use crate::worker::Worker;
use bytes::Bytes;
use cache::{Asked, Head, Outcome, Pass, Plan, Report, Resume, Time, Vary};
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, PRAGMA, TRAILER, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, response};
use hyper::body::Incoming;
use std::borrow::Cow;
use std::rc::Rc;

/// A request and all that is known about it.
pub struct Exchange {
    pub worker: Rc<Worker>,
    pub stream: Rc<Stream>,
    pub parts: Parts,
    pub content: Option<Content>,
    pub target: Target,
    pub asked: Asked,
    pub disk: Disk,
}

impl Exchange {
    /// What is rare has a box of its own: every request pays for the size of this future.
    pub async fn run(mut self: Box<Self>) -> Response<ReplyBody> {
        if hops::lower_max_forwards(&self.parts.method, &mut self.parts.headers) == Hops::Here {
            return self.final_recipient();
        }
        // Before anything is waited for: it might wait for its own answer.
        if let Err(refusal) = self.worker.shared.names.look(&self.parts.headers) {
            return refusal.response();
        }
        match self.asked.plan() {
            Plan::Pass(reason) => Box::pin(self.forward(Outcome::Pass(reason))).await,
            Plan::Lookup if self.asked.is_query() => Box::pin(self.query()).await,
            Plan::Lookup => self.lookup(Bytes::new()).await,
        }
    }

    /// What the origin is told of the client.
    pub fn telling(&self) -> Telling<'_> {
        let reverse = self.worker.shared.reverse.as_ref();
        let tells = match self.worker.settings.forwarded {
            Forwarded::Auto => reverse.is_some(),
            Forwarded::On => true,
            Forwarded::Off => false,
        };
        // A host that is not in the key is nobody's business.
        let tells_host = reverse.is_none_or(|reverse| reverse.host == OriginHost::Client);
        Telling { client: &self.stream.client, tells, tells_host }
    }

    /// The fields by which responses that vary so are told apart: as the origin sees them.
    pub fn selecting(&self, vary: &Vary) -> Cow<'_, HeaderMap> {
        let mut headers = Cow::Borrowed(&self.parts.headers);
        if vary.names().iter().any(|name| forwarded::is_believed(name.as_str())) {
            self.telling().rewrite(headers.to_mut(), self.target.host_field().as_ref());
        }
        headers
    }

    /// The request as the origin shall see it.
    pub fn for_origin(&self) -> Result<Request<()>, Refusal> {
        request::head(&self.parts, &self.target, &self.worker.shared.names, &self.telling())
    }

    /// RFC 10008: the content is part of the key, so all of it must be here first.
    async fn query(mut self) -> Response<ReplyBody> {
        let content = match &mut self.content {
            None => Ok(Some(Bytes::new())),
            Some(content) => content.read(self.worker.settings.bounds.query_bytes).await,
        };
        match content {
            Ok(Some(content)) => self.lookup(content).await,
            Ok(None) => self.forward(Outcome::Pass(Pass::Content)).await,
            Err(_) => Refusal::closing("the request's content broke off").response(),
        }
    }

    /// Passes the request to the origin and the response back; nothing is stored.
    pub async fn forward(self, outcome: Outcome) -> Response<ReplyBody> {
        let (sent, began) = (clock::now(), self.worker.shared.tiers.now());
        match self.forward_content().await {
            Ok((exchange, fetched)) if exchange.parts.method == Method::POST => {
                exchange.pass_and_keep(fetched, outcome, sent, began)
            }
            Ok((exchange, fetched)) => exchange.pass(fetched, outcome.into()),
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
        let (authority, path) = (self.target.host(), self.target.path.as_str());
        let names_target = cache::names_target(SCHEME, authority, path, &fetched.parts);
        let storable = Head::storable_for_get(&self.asked, names_target, &fetched.parts, sent, clock::now());
        let storable = storable.and_then(|head| head.obeying(self.worker.settings.set_cookie));
        let Some(mut head) = storable.ok().filter(|_| self.keeps(&fetched).is_ok()) else {
            return self.pass(fetched, outcome.into());
        };
        let tiers = &self.worker.shared.tiers;
        let key = self.target.primary_key();
        let removal = tiers.invalidate(&self.parts.method, &self.target, &fetched.parts, began);
        // Another's change meanwhile makes this answer as old as what it removes itself.
        let Some(own) = removal.filter(|removal| !removal.again) else {
            return self.stream(fetched, outcome.into());
        };
        let began = began.knowing(own);
        head.purges_known = began.purges;
        let lead = self.worker.shared.fills.lone(&key, began);
        let object = keeper::Object::new(key, head, began);
        self.keep(lead, fetched, object, outcome.into())
    }

    /// Passes a response on while it is stored, and says whether it is.
    pub fn keep(
        &self,
        lead: Lead,
        fetched: Fetched,
        object: keeper::Object,
        report: Report,
    ) -> Response<ReplyBody> {
        let Fetched { mut parts, body, .. } = fetched;
        fields::for_client(&mut parts.headers, &self.worker.shared.names);
        parts.headers.remove(TRAILER);
        if !object.begin.is_empty() {
            parts.status = object.head.status;
            parts.headers.remove(CONTENT_RANGE);
            parts.headers.remove(CONTENT_LENGTH);
        }
        let verdict = cache::judge(&self.asked, &object.head, object.head.response_time());
        let repair = |object: &keeper::Object, length| self.repair(&object.head, length);
        let status = parts.status;
        let Started { body, kept } = pump::start(&self.worker, lead, body, object, verdict, repair);
        let report = Report { stored: kept.is_ok(), not_stored: kept.err().flatten(), ..report };
        let body = self.saying(&mut parts.headers, report, body.into());
        reply::response(status, parts.headers, body)
    }

    /// Says in the fields and to the exit what the cache has to do with a response.
    pub fn saying(&self, headers: &mut HeaderMap, report: Report, body: ReplyBody) -> ReplyBody {
        headers.append(CACHE_STATUS, report.value(&self.worker.shared.names.item));
        body.telling(report, Place::default())
    }

    /// How the origin is asked for what of a response's body cannot be had, if it can be asked. `length` is that of the
    /// body, when known.
    pub fn repair(&self, head: &Head, length: Option<u64>) -> Option<Repair> {
        if !self.asked.is_get() || self.asked.only_if_cached() {
            return None;
        }
        let resume = Resume::of(head, length)?;
        let mut request = self.for_origin().ok()?;
        // What the client wants of caches was seen to.
        for name in [CACHE_CONTROL, PRAGMA] {
            request.headers_mut().remove(name);
        }
        Some(Repair { target: self.target.clone(), request, resume, client: self.stream.client.zone })
    }

    pub async fn forward_content(self) -> Result<(Exchange, Fetched), Refusal> {
        let head = self.for_origin()?;
        let expects = fields::expects_continue(&self.parts);
        self.is_sent_on();
        let Exchange { worker, stream, parts, content, target, asked, disk } = self;
        let outgoing = Outgoing { head, content, expects, client: stream.client.zone };
        let fetched = worker.origins.fetch(&target, outgoing, relay(&stream, &parts)).await?;
        // The content is on its way; what remains of the exchange needs none.
        Ok((Exchange { worker, stream, parts, content: None, target, asked, disk }, fetched))
    }

    /// Sends the request with a head of the caller's making, and content only if all of it is here.
    pub async fn fetch(&self, head: Request<()>) -> Result<Fetched, Refusal> {
        self.is_sent_on();
        let content = self.content.as_ref().and_then(Content::again);
        let outgoing = Outgoing { head, content, expects: false, client: self.stream.client.zone };
        self.worker.origins.fetch(&self.target, outgoing, relay(&self.stream, &self.parts)).await
    }

    fn is_sent_on(&self) {
        self.stream.note(|transaction| transaction.hop = Some(self.target.hop.clone()));
    }

    /// Streams a response through.
    pub fn pass(&self, fetched: Fetched, report: Report) -> Response<ReplyBody> {
        let tiers = &self.worker.shared.tiers;
        tiers.invalidate(&self.parts.method, &self.target, &fetched.parts, tiers.now());
        self.stream(fetched, report)
    }

    fn stream(&self, fetched: Fetched, report: Report) -> Response<ReplyBody> {
        let Fetched { mut parts, body, .. } = fetched;
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return self.upgraded(parts, body.into_line());
        }
        fields::for_client(&mut parts.headers, &self.worker.shared.names);
        parts.version = Version::HTTP_11;
        let body = self.saying(&mut parts.headers, report, ReplyBody::pieces(body));
        Response::from_parts(parts, body)
    }

    fn upgraded(&self, mut parts: response::Parts, line: Option<Line>) -> Response<ReplyBody> {
        let asked = fields::upgrade(&self.parts).is_some()
            && cache::is_asked_upgrade(&self.parts.headers, &parts.headers);
        let Some(line) = line.filter(|_| asked) else {
            let text = "the origin changed to a protocol that it was not asked for";
            return Refusal::new(StatusCode::BAD_GATEWAY, text).response();
        };
        let protocols: Vec<_> = parts.headers.get_all(UPGRADE).iter().cloned().collect();
        fields::for_client(&mut parts.headers, &self.worker.shared.names);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        for protocol in protocols {
            parts.headers.append(UPGRADE, protocol);
        }
        self.stream.tunnel_to(Upstream::Upgraded(Box::new(line)));
        Response::from_parts(parts, ReplyBody::empty())
    }

    /// Max-Forwards has run out: the request was meant for this proxy.
    fn final_recipient(&self) -> Response<ReplyBody> {
        if self.parts.method == Method::TRACE { self.trace() } else { options() }
    }

    /// What came here, without what only its owner should see (RFC 9110 section 9.3.8).
    fn trace(&self) -> Response<ReplyBody> {
        let mut text = format!("TRACE {} HTTP/1.1\r\n", self.parts.uri);
        for (name, value) in &self.parts.headers {
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
fn relay<'a>(stream: &'a Rc<Stream>, client: &Parts) -> impl Fn(Interim) + use<'a> {
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
pub async fn connect(
    worker: &Rc<Worker>,
    stream: &Rc<Stream>,
    request: &Request<Incoming>,
) -> Response<ReplyBody> {
    let opened = async {
        if worker.shared.reverse.is_some() {
            return Err(Refusal::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this is a reverse proxy: it opens no tunnels",
            ));
        }
        let (authority, port) = access::connect(request.uri(), &worker.settings)?;
        stream.note(|transaction| {
            transaction.connects_to(authority.clone());
            transaction.hop = Some(authority.clone());
        });
        worker.origins.dial(authority, port, stream.client.zone).await
    };
    match opened.await {
        Ok((upstream, _)) => {
            stream.tunnel_to(Upstream::Connected(upstream));
            Response::new(ReplyBody::empty())
        }
        Err(refusal) => refusal.response(),
    }
}
