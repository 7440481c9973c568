//! What about a request decides caching (RFC 9111 sections 3, 4 and 5.2.1), read once.

use crate::directives::RequestDirectives;
use crate::upgrade::upgrades;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method};

/// A few words; cheap to copy. A request without any of the fields that matter costs one walk over its field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    method: Class,
    fields: u16,
    directives: RequestDirectives,
    pass: Option<Pass>,
}

/// What to do with a request before any stored response is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A stored response may answer it.
    Lookup,
    /// It goes to the origin, and nothing of it is stored.
    Pass(Pass),
}

/// Why a request passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Neither GET nor HEAD nor QUERY.
    Method,
    /// The request says no-store (5.2.1.5).
    NoStore,
    /// It asks for another protocol that can pass through an intermediary ([`upgrades`]); others may be ignored, and
    /// some clients ask for HTTP/2 with every request.
    Upgrade,
    /// It has content, which the key does not know of; or it is a QUERY with more of it than a key takes.
    Content,
    /// If-Match and If-Unmodified-Since are for the origin alone (4.3.2).
    Precondition,
}

impl Asked {
    pub fn of(method: &Method, headers: &HeaderMap) -> Asked {
        let fields = headers.keys().fold(0, |all, name| all | bit(name.as_str()));
        let directives =
            if fields & CONTROL != 0 { RequestDirectives::of(headers) } else { Default::default() };
        let mut asked = Asked { method: class(method), fields, directives, pass: None };
        asked.pass = asked.reason_to_pass(headers);
        asked
    }

    pub fn plan(&self) -> Plan {
        self.pass.map_or(Plan::Lookup, Plan::Pass)
    }

    pub fn is_get(&self) -> bool {
        self.method == Class::Get
    }

    pub fn is_head(&self) -> bool {
        self.method == Class::Head
    }

    /// RFC 10008: its content is part of the key.
    pub fn is_query(&self) -> bool {
        self.method == Class::Query
    }

    /// Without a usable stored response the answer is 504 (5.2.1.7).
    pub fn only_if_cached(&self) -> bool {
        self.directives.only_if_cached
    }

    pub fn has_authorization(&self) -> bool {
        self.fields & AUTHORIZATION != 0
    }

    pub fn has_range(&self) -> bool {
        self.fields & RANGE != 0
    }

    pub(crate) fn has_if_range(&self) -> bool {
        self.fields & IF_RANGE != 0
    }

    /// The client validates a response of its own: If-None-Match or If-Modified-Since.
    pub fn is_conditional(&self) -> bool {
        self.fields & CONDITIONAL != 0
    }

    /// It asks for the whole representation, whatever the client has: no precondition, no Range.
    pub fn is_unconditional(&self) -> bool {
        self.fields & (CONDITIONAL | PRECONDITION | RANGE | IF_RANGE) == 0
    }

    /// Whether the client wants all of it anew (RFC 9111 section 5.2.1.4).
    pub fn reloads(&self) -> bool {
        self.directives.no_cache
    }

    pub(crate) fn directives(&self) -> &RequestDirectives {
        &self.directives
    }

    fn reason_to_pass(&self, headers: &HeaderMap) -> Option<Pass> {
        if self.method == Class::Other {
            return Some(Pass::Method);
        }
        if self.directives.no_store {
            return Some(Pass::NoStore);
        }
        if self.fields & REASONS == 0 {
            return None;
        }
        if self.fields & UPGRADES != 0 && upgrades(headers).next().is_some() {
            Some(Pass::Upgrade)
        } else if self.fields & CONTENT != 0 && !self.is_query() && has_content(headers) {
            Some(Pass::Content)
        } else if self.fields & PRECONDITION != 0 {
            Some(Pass::Precondition)
        } else {
            None
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Get,
    Head,
    Query,
    Other,
}

fn class(method: &Method) -> Class {
    match *method {
        Method::GET => Class::Get,
        Method::HEAD => Class::Head,
        _ if method.as_str() == "QUERY" => Class::Query,
        _ => Class::Other,
    }
}

const CONTROL: u16 = 1 << 0;
const AUTHORIZATION: u16 = 1 << 1;
const RANGE: u16 = 1 << 2;
const CONDITIONAL: u16 = 1 << 3;
const PRECONDITION: u16 = 1 << 4;
const UPGRADES: u16 = 1 << 5;
const CONTENT: u16 = 1 << 6;
const IF_RANGE: u16 = 1 << 7;
const REASONS: u16 = PRECONDITION | UPGRADES | CONTENT;

fn bit(name: &str) -> u16 {
    match name {
        "cache-control" | "pragma" => CONTROL,
        "authorization" => AUTHORIZATION,
        "range" => RANGE,
        "if-range" => IF_RANGE,
        "if-none-match" | "if-modified-since" => CONDITIONAL,
        "if-match" | "if-unmodified-since" => PRECONDITION,
        "upgrade" => UPGRADES,
        "content-length" | "transfer-encoding" => CONTENT,
        _ => 0,
    }
}

fn has_content(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
        || headers.get_all(CONTENT_LENGTH).iter().any(|v| v.as_bytes() != b"0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, header::HeaderName};

    fn asked(method: Method, fields: &[(&'static str, &'static str)]) -> Asked {
        let headers =
            fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        Asked::of(&method, &headers)
    }

    fn query() -> Method {
        "QUERY".parse().unwrap()
    }

    #[test]
    fn plans() {
        type Row<'a> = (Method, &'a [(&'static str, &'static str)], Plan);
        let table: &[Row] = &[
            (Method::GET, &[("host", "h"), ("accept", "*/*")], Plan::Lookup),
            (Method::HEAD, &[], Plan::Lookup),
            (
                Method::GET,
                &[("authorization", "x"), ("range", "bytes=0-1"), ("if-none-match", "x")],
                Plan::Lookup,
            ),
            (Method::GET, &[("cache-control", "no-cache, only-if-cached")], Plan::Lookup),
            (Method::GET, &[("content-length", "0")], Plan::Lookup),
            (Method::GET, &[("upgrade", "h2c"), ("connection", "upgrade")], Plan::Lookup),
            (Method::GET, &[("upgrade", "websocket")], Plan::Lookup),
            (query(), &[("content-length", "5")], Plan::Lookup),
            (query(), &[("transfer-encoding", "chunked"), ("if-none-match", "x")], Plan::Lookup),
            (query(), &[("cache-control", "no-store")], Plan::Pass(Pass::NoStore)),
            (Method::POST, &[], Plan::Pass(Pass::Method)),
            (Method::OPTIONS, &[], Plan::Pass(Pass::Method)),
            (Method::GET, &[("cache-control", "No-Store")], Plan::Pass(Pass::NoStore)),
            (
                Method::GET,
                &[("upgrade", "h2c, websocket"), ("connection", "upgrade")],
                Plan::Pass(Pass::Upgrade),
            ),
            (Method::GET, &[("content-length", "5")], Plan::Pass(Pass::Content)),
            (Method::GET, &[("transfer-encoding", "chunked")], Plan::Pass(Pass::Content)),
            (Method::GET, &[("if-match", "\"a\"")], Plan::Pass(Pass::Precondition)),
            (Method::GET, &[("if-unmodified-since", "x")], Plan::Pass(Pass::Precondition)),
        ];
        for (method, fields, plan) in table {
            assert_eq!(asked(method.clone(), fields).plan(), *plan, "{method} {fields:?}");
        }
    }

    #[test]
    fn what_is_asked() {
        let a = asked(
            Method::GET,
            &[("cache-control", "only-if-cached"), ("range", "x"), ("authorization", "y")],
        );
        assert!(a.only_if_cached() && a.has_range() && a.has_authorization() && a.is_get());
        assert!(!a.is_conditional() && !a.is_head());
        assert!(asked(Method::HEAD, &[("if-modified-since", "x")]).is_conditional());
    }
}
