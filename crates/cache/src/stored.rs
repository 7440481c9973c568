//! A stored response's metadata: whether a response may be stored (RFC 9111 section 3), its age (4.2.3) and its
//! freshness lifetime (4.2.1, 4.2.2), computed once when it arrives.

use crate::directives::{MAX_DELTA, ResponseDirectives, delta_seconds, flag};
use crate::hop::remove_hop_by_hop;
use crate::list::members_of;
use crate::part::Part;
use crate::{Asked, NoVarySearch, Time, Vary, date, wire};
use bytes::BytesMut;
use http::header::{
    AGE, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, EXPIRES, LAST_MODIFIED,
    SET_COOKIE, TRAILER,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, response};

/// Everything about a stored response but its body.
///
/// Always: `headers` has a valid Date, and has no hop-by-hop field, Age, Trailer or Content-Length (the length is the
/// store's), nor, where it is a part, Content-Range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub status: StatusCode,
    pub headers: HeaderMap,
    flags: u32,
    date: Time,
    request_time: Time,
    response_time: Time,
    initial_age: u64,
    lifetime: u32,
    last_modified: Option<Time>,
    stale_while_revalidate: Option<u32>,
    stale_if_error: Option<u32>,
    vary: Option<Vary>,
    /// Of a 206: what of the representation the body is.
    pub(crate) part: Option<Part>,
    /// The newest purge when it was asked for ([`crate::Purges::newest`]): later ones may cover it. An update keeps it.
    pub purges_known: u64,
}

/// What lies under a key: a response, or, under the primary key of responses that vary, the fields to select by, or the
/// key of the response that answers this one too, or which queries of a path are answered alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    Response(Head),
    Varies(Vary),
    /// Never empty. For what RFC 9110 section 12.5.4 makes of languages.
    SameAs(Vec<u8>),
    /// draft-ietf-httpbis-no-vary-search section 7.
    NoVarySearch(NoVarySearch),
    /// There are answers to QUERY for the URI.
    Queries,
}

/// What an operator lets a shared cache keep of the responses that set cookies. HTTP itself forbids none of them (section
/// 7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetCookie {
    /// Nothing: a cookie is for the one who gets it.
    #[default]
    Never,
    /// What the origin says how long is fresh.
    Fresh,
}

/// Why a response may not be stored, or not stay stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotStored {
    /// The request says that its response passes.
    Request,
    /// Only answers to GET and QUERY become objects, and those to POST that say that they are what GET would get.
    Method,
    /// 1xx.
    Interim,
    /// 206 of several ranges, or without a Content-Range that can be read, or with less than a complete head; 416, which
    /// is about a range too.
    Partial,
    /// 304 updates, it is not stored.
    NotModified,
    /// 428, 429, 431 and 511 tell one client something (RFC 6585); what is above 599 is no status (RFC 9110 section 15).
    Status,
    /// must-understand, and the status is not one whose rules are followed here.
    NotUnderstood,
    NoStore,
    Private,
    /// The request was authorized and the response does not permit sharing (3.5).
    Authorization,
    /// Sets a cookie, which is not to be shared, or not where only a heuristic would call it fresh.
    SetCookie,
    VaryStar,
    /// An update changed Vary: the variant's key is no longer its own.
    VaryChanged,
    /// Nothing permits it (section 3, last item), or it could never be used: neither fresh nor to be validated.
    NoFreshness,
    /// HTTP permits it, and it is larger than the cache takes.
    TooLarge,
    /// HTTP permits it, and others of its size are rarely asked for again: the disk is full of what is worth more.
    NotAdmitted,
    /// Its end is told by the end of the connection alone, which a break is not told from.
    Unframed,
    /// It came from where not every client may reach.
    Restricted,
    /// The store is behind with writing or reading.
    Busy,
    /// There is too little memory to gather it in.
    Crowded,
    /// The cache has no place for anything: none is configured, or the disk takes no writes.
    NoRoom,
}

impl NotStored {
    #[rustfmt::skip]
    pub const ALL: [NotStored; 21] = {
        use NotStored::*;
        [
            Request, Method, Interim, Partial, NotModified, Status, NotUnderstood, NoStore, Private, Authorization,
            SetCookie, VaryStar, VaryChanged, NoFreshness, TooLarge, NotAdmitted, Unframed, Restricted, Busy, Crowded, NoRoom,
        ]
    };

    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// In a few words, after "since".
    pub fn about(self) -> &'static str {
        self.row().1
    }

    #[rustfmt::skip]
    const fn row(self) -> (&'static str, &'static str) {
        match self {
            NotStored::Request => ("request", "the request is one whose response passes"),
            NotStored::Method => ("method", "only answers to GET and QUERY are stored, and those to POST that are what a GET would get"),
            NotStored::Interim => ("interim", "it is an interim response"),
            NotStored::Partial => ("partial", "it is a part that says too little of itself, or less than what is stored"),
            NotStored::NotModified => ("not-modified", "it is a 304 to the client's own condition, which has no content"),
            NotStored::Status => ("status", "its status is for one client alone, or is none"),
            NotStored::NotUnderstood => ("not-understood", "it says must-understand, and its status is not understood here"),
            NotStored::NoStore => ("no-store", "it says no-store"),
            NotStored::Private => ("private", "it says private"),
            NotStored::Authorization => ("authorization", "the request has Authorization, and the response says neither public, s-maxage nor must-revalidate"),
            NotStored::SetCookie => ("set-cookie", "it sets a cookie (`--set-cookie`)"),
            NotStored::VaryStar => ("vary-star", "it says `Vary: *`, or names more than 64 fields there"),
            NotStored::VaryChanged => ("vary-changed", "an update names other fields in Vary"),
            NotStored::NoFreshness => ("no-freshness", "it does not say how long it is fresh (max-age, s-maxage, Expires, or a heuristic by Last-Modified), or could never be used: it is not fresh, and has no validator"),
            NotStored::TooLarge => ("too-large", "it is larger than `--object-size-max`, or than the store or, without one, the memory tier takes"),
            NotStored::NotAdmitted => ("not-admitted", "the disk is full of what is expected to bring more hits (`--admission`), or may not be written that much (`--write-budget`), and its body is too large for the memory tier"),
            NotStored::Unframed => ("unframed", "only the end of the connection marks the end of its body"),
            NotStored::Restricted => ("restricted", "it came from an address that not every client may reach"),
            NotStored::Busy => ("busy", "the store is behind"),
            NotStored::Crowded => ("crowded", "the memory for bodies on their way is nearly used up (`--memory-total`)"),
            NotStored::NoRoom => ("no-room", "no cache is configured, or its disk takes no writes"),
        }
    }
}

impl Head {
    /// Section 3 for a shared cache. `request_time` is when the request went out, `response_time` when the head of the
    /// response was there. What an operator permits is asked besides ([`Head::may_stay`]).
    pub fn storable(
        asked: &Asked,
        response: &response::Parts,
        request_time: Time,
        response_time: Time,
    ) -> Result<Head, NotStored> {
        if !asked.is_get() && !asked.is_query() {
            return Err(NotStored::Method);
        }
        if matches!(asked.plan(), crate::Plan::Pass(_)) {
            return Err(NotStored::Request);
        }
        Head::kept(asked, response, request_time, response_time)
    }

    /// RFC 9110 section 9.3.3: the answer to a POST answers later GETs when it names the target as its
    /// Content-Location (`names_target`) and says how long it is fresh.
    pub fn storable_for_get(
        asked: &Asked,
        names_target: bool,
        response: &response::Parts,
        request_time: Time,
        response_time: Time,
    ) -> Result<Head, NotStored> {
        if asked.directives().no_store {
            return Err(NotStored::Request);
        }
        if !names_target || response.status != StatusCode::OK {
            return Err(NotStored::Method);
        }
        let head = Head::kept(asked, response, request_time, response_time)?;
        // What it varies by are the fields of a POST, which a GET is not to be compared with.
        if head.has(flag::EXPLICIT) && head.vary.is_none() { Ok(head) } else { Err(NotStored::Method) }
    }

    fn kept(
        asked: &Asked,
        response: &response::Parts,
        request_time: Time,
        response_time: Time,
    ) -> Result<Head, NotStored> {
        if response.status == StatusCode::NOT_MODIFIED {
            return Err(NotStored::NotModified);
        }
        if response.status.is_informational() {
            return Err(NotStored::Interim);
        }
        if NEVER_STORED.contains(&response.status.as_u16()) || response.status.as_u16() >= 600 {
            return Err(NotStored::Status);
        }
        let part = match response.status {
            StatusCode::PARTIAL_CONTENT => Some(whole_part(asked, &response.headers)?),
            // It answers a request for a range; the next one may ask for everything.
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(NotStored::Partial),
            _ => None,
        };
        let mut headers = response.headers.clone();
        let age = age_value(&headers);
        keep_end_to_end(&mut headers);
        if part.is_some() {
            headers.remove(CONTENT_RANGE);
        }
        let authorized = if asked.has_authorization() { flag::AUTHORIZED } else { 0 };
        let mut head = Head::derive(response.status, headers, authorized, age, request_time, response_time);
        head.part = part;
        head.obeying(SetCookie::Fresh)
    }

    /// The response, if it may be kept.
    pub fn obeying(self, set_cookie: SetCookie) -> Result<Head, NotStored> {
        self.may_stay(set_cookie).map(|()| self)
    }

    /// Whether the response may be kept, by what its own fields say: asked again after an update, when the updated
    /// response may still answer the request that brought it.
    pub fn may_stay(&self, set_cookie: SetCookie) -> Result<(), NotStored> {
        const SHARED_AUTHORIZED: u32 = flag::PUBLIC | flag::S_MAXAGE | flag::MUST_REVALIDATE;
        if self.has(flag::MUST_UNDERSTAND) && !UNDERSTOOD.contains(&self.status.as_u16()) {
            return Err(NotStored::NotUnderstood);
        }
        // must-understand overrides no-store for a cache that does understand (5.2.2.3).
        if self.has(flag::NO_STORE) && !self.has(flag::MUST_UNDERSTAND) {
            return Err(NotStored::NoStore);
        }
        if self.has(flag::PRIVATE) {
            return Err(NotStored::Private);
        }
        if self.has(flag::AUTHORIZED) && !self.has(SHARED_AUTHORIZED) {
            return Err(NotStored::Authorization);
        }
        if self.has(flag::VARY_STAR) {
            return Err(NotStored::VaryStar);
        }
        if self.has(flag::VARY_CHANGED) {
            return Err(NotStored::VaryChanged);
        }
        // Section 7.3: a cookie does not forbid sharing. But one person's session must not go to others on a guess, so
        // the origin has to say that the response is fresh, and even that is often said of all pages alike.
        let is_shared = set_cookie == SetCookie::Fresh && self.has(flag::EXPLICIT);
        if !is_shared && self.headers.contains_key(SET_COOKIE) {
            return Err(NotStored::SetCookie);
        }
        if self.permitted() && self.useful() { Ok(()) } else { Err(NotStored::NoFreshness) }
    }

    /// Section 4.2.3. Never falls as `now` rises, from the response's time on.
    ///
    /// A response that came in the future was stored under a clock that has been set back since: how old it is is not
    /// known, so that it counts as older than any lifetime, and is validated.
    ///
    /// What has been made stale is never younger than its lifetime, wherever the clock is set.
    pub fn age(&self, now: Time) -> u64 {
        if self.response_time > now.saturating_add(CLOCK_TOLERANCE) {
            return AGE_UNKNOWN;
        }
        let least = if self.has(flag::EXPIRED) { self.lifetime() } else { 0 };
        self.initial_age.saturating_add(now.saturating_sub(self.response_time)).max(least)
    }

    /// Seconds after which the response is stale, counted in its age (4.2.1).
    pub fn lifetime(&self) -> u64 {
        u64::from(self.lifetime)
    }

    /// Section 4.2.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.lifetime() > self.age(now)
    }

    /// Makes it stale for good; its staleness counts from a moment that has been, or from when it was stale before that.
    pub fn expire(&mut self, at: Time) {
        let age = self.initial_age.saturating_add(at.saturating_sub(self.response_time));
        self.lifetime = self.lifetime.min(u32::try_from(age).unwrap_or(u32::MAX));
        self.flags |= flag::EXPIRED;
    }

    pub fn vary(&self) -> Option<&Vary> {
        self.vary.as_ref()
    }

    pub fn etag(&self) -> Option<&HeaderValue> {
        self.headers.get(ETAG)
    }

    pub fn last_modified(&self) -> Option<Time> {
        self.last_modified
    }

    pub fn has_validator(&self) -> bool {
        self.last_modified.is_some() || self.etag().is_some()
    }

    /// The origin's Date, or when the response came if it had none.
    pub fn date(&self) -> Time {
        self.date
    }

    pub fn request_time(&self) -> Time {
        self.request_time
    }

    pub fn response_time(&self) -> Time {
        self.response_time
    }

    /// Seconds for which the response is still fresh; negative: since when it is stale (RFC 9211 section 2.4). Saturates
    /// at 2^31 either way.
    pub fn ttl(&self, now: Time) -> i64 {
        let age = self.age(now).min(self.lifetime() + u64::from(MAX_DELTA));
        i64::from(self.lifetime) - age as i64
    }

    /// RFC 5861 section 3.
    pub fn stale_while_revalidate(&self) -> Option<u32> {
        self.stale_while_revalidate
    }

    /// RFC 5861 section 4.
    pub fn stale_if_error(&self) -> Option<u32> {
        self.stale_if_error
    }

    /// RFC 8246.
    pub fn is_immutable(&self) -> bool {
        self.has(flag::IMMUTABLE)
    }

    /// The stored bytes; their layout is drawn in `wire.rs`.
    pub fn encode(&self) -> Vec<u8> {
        let size = self.headers.iter().map(|(_, v)| v.len() + 8).sum::<usize>();
        let mut out = Vec::with_capacity(48 + size);
        out.push(wire::RESPONSE);
        for number in [
            u64::from(self.status.as_u16()),
            u64::from(self.flags),
            self.date,
            self.request_time,
            self.response_time,
            self.initial_age,
            u64::from(self.lifetime),
        ] {
            wire::put_number(&mut out, number);
        }
        wire::put_option(&mut out, self.last_modified);
        wire::put_option(&mut out, self.stale_while_revalidate.map(u64::from));
        wire::put_option(&mut out, self.stale_if_error.map(u64::from));
        wire::put_option(&mut out, self.part.map(|part| part.first));
        wire::put_option(&mut out, self.part.and_then(|part| part.complete));
        wire::put_number(&mut out, self.purges_known);
        wire::put_names(&mut out, self.vary.as_ref().map_or(&[], Vary::names));
        wire::put_fields(&mut out, &self.headers);
        out
    }

    /// Puts the values of its fields into one allocation of their own. As they were read they are parts of a buffer, which
    /// stays as long as one of them.
    pub fn compact(&mut self) {
        let size = self.headers.values().map(HeaderValue::len).sum();
        let mut all = BytesMut::with_capacity(size);
        for value in self.headers.values() {
            all.extend_from_slice(value.as_bytes());
        }
        let mut all = all.freeze();
        for value in self.headers.values_mut() {
            let own = all.split_to(value.len());
            if let Ok(own) = HeaderValue::from_maybe_shared(own) {
                *value = own;
            }
        }
    }

    /// Any bytes: a response's head, or `None`.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let mut read = wire::Reader::new(bytes.strip_prefix(&[wire::RESPONSE])?);
        let status = StatusCode::from_u16(read.narrow()?).ok()?;
        let head = Head {
            status,
            flags: read.narrow()?,
            date: read.number()?,
            request_time: read.number()?,
            response_time: read.number()?,
            initial_age: read.number()?,
            lifetime: read.narrow()?,
            last_modified: read.option()?,
            stale_while_revalidate: narrow(read.option()?)?,
            stale_if_error: narrow(read.option()?)?,
            part: {
                let (first, complete) = (read.option()?, read.option()?);
                first.map(|first| Part { first, complete, to_end: false })
            },
            purges_known: read.number()?,
            vary: Vary::from_names(read.names()?),
            headers: read.fields()?,
        };
        read.end()?;
        Some(head)
    }

    pub(crate) fn has(&self, any_of: u32) -> bool {
        self.flags & any_of != 0
    }

    /// 3.2: this response with the fields of another answer about it in place of its own. Where the request for that had
    /// Authorization, what 3.5 asks of the one stands for both.
    pub(crate) fn updated(
        &self,
        with: &HeaderMap,
        authorized: bool,
        request_time: Time,
        response_time: Time,
    ) -> Head {
        let age = age_value(with);
        let mut with = with.clone();
        keep_end_to_end(&mut with);
        let mut headers = self.headers.clone();
        if !with.contains_key(DATE) {
            headers.remove(DATE);
        }
        for name in with.keys().filter(|name| !NEVER_UPDATED.contains(name)) {
            headers.remove(name);
            for value in with.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let flags = self.flags & flag::AUTHORIZED | if authorized { flag::AUTHORIZED } else { 0 };
        let mut head = Head::derive(self.status, headers, flags, age, request_time, response_time);
        head.part = self.part;
        head.purges_known = self.purges_known;
        if head.vary != self.vary {
            head.flags |= flag::VARY_CHANGED;
        }
        head
    }

    /// 3.4: this part's fields, updated by those of a newer part, which is as old as that one.
    pub(crate) fn updated_by_part(&self, new: &Head) -> Head {
        let authorized = new.has(flag::AUTHORIZED);
        let head = self.updated(&new.headers, authorized, new.request_time, new.response_time);
        Head { initial_age: new.initial_age, ..head }
    }

    /// Whether the bytes of a part of what is stored already may be stored too, by what the answer that brings them says: it may
    /// leave out all that has not changed.
    pub fn part_may_stay(request: &HeaderMap, answer: &response::Parts) -> bool {
        let authorized = if request.contains_key(AUTHORIZATION) { flag::AUTHORIZED } else { 0 };
        let head = Head::derive(answer.status, answer.headers.clone(), authorized, 0, 0, 0);
        let may = head.may_stay(SetCookie::Fresh);
        !matches!(may, Err(NotStored::NoStore | NotStored::Private | NotStored::Authorization))
    }

    fn derive(
        status: StatusCode,
        mut headers: HeaderMap,
        flags: u32,
        age_value: u64,
        request_time: Time,
        response_time: Time,
    ) -> Head {
        let date = only_date(&headers, DATE, response_time).unwrap_or_else(|| {
            headers.insert(DATE, date::http_date(response_time));
            response_time
        });
        let last_modified = only_date(&headers, LAST_MODIFIED, response_time);
        let directives = ResponseDirectives::of(&headers);
        let explicit = explicit_lifetime(&directives, &headers, date, response_time);
        let heuristic = || heuristic_lifetime(status, directives.flags, date, last_modified);
        let (vary, star) = match Vary::of(&headers) {
            Ok(vary) => (vary, 0),
            Err(_) => (None, flag::VARY_STAR),
        };
        let s_maxage = if directives.s_maxage.is_some() { flag::S_MAXAGE } else { 0 };
        let origins_word = if explicit.is_some() { flag::EXPLICIT } else { 0 };
        Head {
            status,
            headers,
            flags: flags | directives.flags | s_maxage | origins_word | star,
            date,
            request_time,
            response_time,
            initial_age: initial_age(age_value, date, request_time, response_time),
            lifetime: explicit.unwrap_or_else(heuristic),
            last_modified,
            stale_while_revalidate: directives.stale_while_revalidate,
            stale_if_error: directives.stale_if_error,
            vary,
            part: None,
            purges_known: 0,
        }
    }

    /// Section 3, last item: explicit freshness, public, or a heuristically cacheable status.
    fn permitted(&self) -> bool {
        self.has(flag::EXPLICIT | flag::PUBLIC) || HEURISTIC.contains(&self.status.as_u16())
    }

    fn useful(&self) -> bool {
        let ever_fresh = self.lifetime > 0 && !self.has(flag::NO_CACHE);
        let ever_stale = self.stale_while_revalidate.max(self.stale_if_error) > Some(0);
        ever_fresh || self.has_validator() || ever_stale && !self.has(flag::NO_CACHE)
    }
}

impl Stored {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Stored::Response(head) => head.encode(),
            Stored::Varies(vary) => {
                let mut out = vec![wire::MARKER];
                wire::put_names(&mut out, vary.names());
                out
            }
            Stored::SameAs(key) => [&[wire::SAME_AS], &key[..]].concat(),
            Stored::NoVarySearch(config) => config.encode(),
            Stored::Queries => vec![wire::QUERIES],
        }
    }

    /// Any bytes: what they stand for, or `None`.
    pub fn decode(bytes: &[u8]) -> Option<Stored> {
        match bytes {
            [wire::MARKER, names @ ..] => {
                let mut read = wire::Reader::new(names);
                let vary = Vary::from_names(read.names()?)?;
                read.end()?;
                Some(Stored::Varies(vary))
            }
            [wire::SAME_AS, key @ ..] => (!key.is_empty()).then(|| Stored::SameAs(key.to_vec())),
            [wire::QUERIES] => Some(Stored::Queries),
            [wire::NO_VARY_SEARCH, ..] => NoVarySearch::decode(bytes).map(Stored::NoVarySearch),
            _ => Head::decode(bytes).map(Stored::Response),
        }
    }

    /// What lies there leads to other objects, and answers nothing itself.
    pub fn is_marker(bytes: &[u8]) -> bool {
        const MARKERS: [u8; 4] = [wire::MARKER, wire::SAME_AS, wire::NO_VARY_SEARCH, wire::QUERIES];
        bytes.first().is_some_and(|first| MARKERS.contains(first))
    }

    pub fn is_vary_marker(bytes: &[u8]) -> bool {
        bytes.first() == Some(&wire::MARKER)
    }
}

/// RFC 9110 section 15.1 and RFC 7725 section 3.
const HEURISTIC: [u16; 13] = [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 451, 501];

/// The statuses whose caching rules are followed here (must-understand, 5.2.2.3).
#[rustfmt::skip]
const UNDERSTOOD: [u16; 25] = [
    200, 203, 204, 206, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 406,
    410, 414, 421, 451, 500, 501, 502, 503, 504,
];

/// RFC 6585 sections 3 to 6: MUST NOT be stored by a cache.
const NEVER_STORED: [u16; 4] = [428, 429, 431, 511];

/// Fields that belong to the stored content, whatever a 304 says (3.2): some origins name in a 304 the coding that they
/// would have used now.
static NEVER_UPDATED: [HeaderName; 2] = [http::header::CONTENT_ENCODING, CONTENT_RANGE];

/// Seconds by which a response may seem to come from the future: clocks are corrected by so much while they run, and a
/// request may have read the time before the response came.
const CLOCK_TOLERANCE: u64 = 10;

/// Seconds; no lifetime is longer. What RFC 9111 section 1.2.2 has sent in place of an age that is too large to tell.
const AGE_UNKNOWN: u64 = MAX_DELTA as u64;

/// Seconds of a heuristic lifetime at most: a day.
const HEURISTIC_MAX: u64 = 86_400;

/// RFC 9110 section 15.3.7: to a request with If-Range a 206 need not bring the fields that the client has already. One
/// that leaves out Content-Type is no head for others.
fn whole_part(asked: &Asked, headers: &HeaderMap) -> Result<Part, NotStored> {
    let spare = asked.has_if_range() && !headers.contains_key(CONTENT_TYPE);
    Part::of(headers).filter(|_| !spare).ok_or(NotStored::Partial)
}

fn keep_end_to_end(headers: &mut HeaderMap) {
    remove_hop_by_hop(headers);
    for name in [AGE, CONTENT_LENGTH, TRAILER] {
        headers.remove(name);
    }
}

/// Section 5.1: the first member counts; if it is no number, the field does not.
fn age_value(headers: &HeaderMap) -> u64 {
    members_of(headers, AGE).next().and_then(delta_seconds).map_or(0, u64::from)
}

/// Section 4.2.3.
fn initial_age(age_value: u64, date: Time, request_time: Time, response_time: Time) -> u64 {
    let apparent_age = response_time.saturating_sub(date);
    let response_delay = response_time.saturating_sub(request_time);
    let corrected_age_value = age_value.saturating_add(response_delay);
    apparent_age.max(corrected_age_value)
}

/// Section 4.2.1 for a shared cache: s-maxage, then max-age, then Expires.
fn explicit_lifetime(
    directives: &ResponseDirectives,
    headers: &HeaderMap,
    date: Time,
    now: Time,
) -> Option<u32> {
    directives.s_maxage.or(directives.max_age).or_else(|| {
        // 5.3: what is no date has expired, and so have two dates at once. RFC 9213 section 2.2: CDN-Cache-Control
        // leaves Expires to others.
        (!directives.targeted && headers.contains_key(EXPIRES)).then(|| {
            let expires = only_date(headers, EXPIRES, now).unwrap_or(0);
            saturate(expires.saturating_sub(date))
        })
    })
}

/// Section 4.2.2: a tenth of the time since the last change, for statuses that are heuristically cacheable and for
/// responses that are marked public.
fn heuristic_lifetime(status: StatusCode, flags: u32, date: Time, last_modified: Option<Time>) -> u32 {
    if !HEURISTIC.contains(&status.as_u16()) && flags & flag::PUBLIC == 0 {
        return 0;
    }
    let unchanged = last_modified.map_or(0, |changed| date.saturating_sub(changed));
    saturate((unchanged / 10).min(HEURISTIC_MAX))
}

/// The date of a field that has exactly one line.
fn only_date(headers: &HeaderMap, name: HeaderName, now: Time) -> Option<Time> {
    let mut lines = headers.get_all(name).into_iter();
    let line = lines.next()?;
    if lines.next().is_some() { None } else { date::parse_http_date(line.as_bytes(), now) }
}

fn saturate(seconds: u64) -> u32 {
    seconds.min(u64::from(MAX_DELTA)) as u32
}

fn narrow(value: Option<u64>) -> Option<Option<u32>> {
    value.map(u32::try_from).transpose().ok()
}
