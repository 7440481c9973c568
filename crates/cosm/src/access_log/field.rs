//! The fields of a line: one table, which the formats, the help and the documentation go by.

use super::format::Line;
use super::mask::Mask;
use cache::{Item, Outcome, parse_http_date};
use jiff::Timestamp;
use proxy::{Peer, Place, Secured, Transaction};
use std::time::Duration;

/// A request, and when its response ended.
pub struct Entry<'a> {
    pub transaction: &'a Transaction,
    pub ended: Timestamp,
    /// In the time zone of this machine, as combined has it; made once a second.
    pub local: &'a str,
    pub mask: Mask,
    /// This cache's name.
    pub item: &'a Item,
    /// Of a forward proxy: requests name whole URLs.
    pub is_forward: bool,
}

/// A field: its name in formats and in JSON, what it says, and how it is written.
pub struct Field {
    pub name: &'static str,
    pub about: &'static str,
    pub write: fn(&Entry<'_>, &mut Line<'_>),
}

macro_rules! fields {
    ($($name:literal $about:literal $write:expr;)*) => {
        pub static FIELDS: &[Field] = &[$(Field { name: $name, about: $about, write: $write }),*];
    };
}

fields! {
    "time" "when the response ended: RFC 3339, UTC, to the millisecond" |e, line| line.show(format_args!("{:.3}", e.ended));
    "time_local" "the same in the local time zone, as in combined" |e, line| line.text(e.local);
    "time_unix" "the same in seconds since 1970, to the millisecond" |e, line| {
        let millis = e.ended.as_millisecond();
        line.number(format_args!("{}.{:03}", millis / 1000, millis % 1000));
    };
    "id" "the request's id, which the error log and error pages have too: taken over from a trusted proxy's X-Request-ID, or made" |e, line| {
        line.show(&e.transaction.id);
    };
    "traceparent" "the request's traceparent (W3C Trace Context)" |e, line| line.field(e.transaction.heads.traceparent.as_ref());
    "client" "the client's address; - over a Unix socket" |e, line| match e.transaction.client {
        Peer::Ip(address) => line.show(e.mask.address(address)),
        Peer::Unix => line.missing(),
    };
    "method" "the request's method" |e, line| line.text(e.transaction.method.as_str());
    "url" "the URL that was asked for; host and port of a CONNECT" url;
    "scheme" "its scheme" |e, line| line.optional(e.transaction.scheme());
    "host" "its host, with the port if that is not the scheme's own" |e, line| line.optional(e.transaction.host());
    "path" "its path and query" |e, line| line.optional(e.transaction.path().map(|path| e.mask.query(path)));
    "protocol" "HTTP/2.0, HTTP/1.1 or HTTP/1.0" |e, line| line.optional(protocol(e));
    "stream" "of HTTP/2, the number of the request's stream" |e, line| match e.transaction.heads.stream {
        Some(stream) => line.number(format_args!("{stream}")),
        None => line.missing(),
    };
    "request" "method, target and protocol as in combined; the target is the path in a reverse proxy" request;
    "status" "the response's status; 0 if the client left before there was one" |e, line| {
        line.number(e.transaction.status.map_or(0, |status| status.as_u16()));
    };
    "outcome" "hit, miss, revalidated, ... as docs/caching.md lists them; - where the cache had no part" |e, line| {
        line.optional(e.transaction.report.map(|report| report.outcome.word()));
    };
    "cache_status" "what Cache-Status says" |e, line| {
        line.field(e.transaction.report.map(|report| report.value(e.item)).as_ref());
    };
    "from" "memory, disk or origin: where the response came from; own: the proxy's own" |e, line| line.text(from(e));
    "hop" "where the request was sent on to: host and port" |e, line| match &e.transaction.hop {
        Some(hop) => line.show(hop),
        None => line.missing(),
    };
    "bytes" "bytes of the body that went to the client" |e, line| line.number(e.transaction.sent);
    "size" "bytes of the whole body, where a cache could answer with it, and the request is for all of it" |e, line| {
        match e.transaction.size() {
            Some(size) => line.number(size),
            None => line.missing(),
        }
    };
    "bytes_in" "bytes that came from the client: the request's content, or through a tunnel" |e, line| line.number(e.transaction.received);
    "first_byte" "seconds from the request's head to the response's first byte" |e, line| line.seconds(e.transaction.to_first());
    "duration" "seconds from the request's head to the response's last byte" |e, line| line.seconds(e.transaction.to_last());
    "referer" "the request's Referer" |e, line| match &e.transaction.heads.referer {
        Some(value) => line.bytes(&e.mask.query_of_field(value.as_bytes())),
        None => line.missing(),
    };
    "user_agent" "the request's User-Agent" |e, line| line.field(e.transaction.heads.user_agent.as_ref());
    "content_type" "the response's Content-Type" |e, line| line.field(e.transaction.heads.content_type.as_ref());
    "modified" "the response's Last-Modified in seconds since 1970" |e, line| match modified(e) {
        Some(seconds) => line.number(format_args!("{seconds}")),
        None => line.missing(),
    };
    "complete" "true if the response ended as it should" |e, line| line.truth(e.transaction.whole);
    "tls" "TLSv1.3 or TLSv1.2, where the client speaks TLS" |e, line| line.optional(secured(e).map(|tls| tls.version));
    "tls_cipher" "the cipher suite that was agreed on" |e, line| line.optional(secured(e).map(|tls| tls.cipher));
    "tls_name" "the name that the client asked for in the handshake (SNI)" |e, line| {
        line.optional(secured(e).and_then(|tls| tls.name.as_deref()));
    };
    "tls_resumed" "true where the handshake went on with a session" |e, line| match secured(e) {
        Some(tls) => line.truth(tls.resumed),
        None => line.missing(),
    };
    "tunnel" "true for CONNECT and upgrades to another protocol" |e, line| line.truth(e.transaction.tunnel);
    "milliseconds" "duration in milliseconds, six wide as in Squid's format" |e, line| {
        line.number(format_args!("{:6}", millis(e.transaction.to_last())));
    };
    "squid_result" "Squid's result code, such as TCP_MEM_HIT" |e, line| line.text(squid_result(e));
    "squid_status" "the status, three digits" |e, line| {
        line.number(format_args!("{:03}", e.transaction.status.map_or(0, |status| status.as_u16())));
    };
    "squid_hierarchy" "Squid's hierarchy code and the server, such as HIER_DIRECT/example.com" |e, line| {
        match &e.transaction.hop {
            Some(hop) => line.show(format_args!("HIER_DIRECT/{hop}")),
            None => line.text("HIER_NONE/-"),
        }
    };
    "squid_type" "the Content-Type without its parameters" |e, line| {
        let held = e.transaction.heads.content_type.as_ref().map(|value| value.as_bytes());
        let bare = held.and_then(|value| value.split(|byte| *byte == b';').next()).map(<[u8]>::trim_ascii);
        match bare.filter(|bare| !bare.is_empty()) {
            Some(bare) => line.bytes(bare),
            None => line.missing(),
        }
    };
}

pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

/// A line for each field.
pub fn list() -> String {
    let rows = FIELDS.iter().map(|Field { name, about, .. }| format!("  {name:<16} {about}"));
    rows.collect::<Vec<_>>().join("\n")
}

fn secured<'a>(entry: &Entry<'a>) -> Option<&'a Secured> {
    entry.transaction.heads.tls.as_deref()
}

fn millis(time: Duration) -> u128 {
    time.as_millis()
}

fn protocol(entry: &Entry<'_>) -> Option<&'static str> {
    entry.transaction.heads.version.map(|version| match version {
        http::Version::HTTP_10 => "HTTP/1.0",
        http::Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    })
}

fn modified(entry: &Entry<'_>) -> Option<u64> {
    let now = u64::try_from(entry.ended.as_second()).unwrap_or_default();
    parse_http_date(entry.transaction.heads.last_modified.as_ref()?.as_bytes(), now)
}

fn url(entry: &Entry<'_>, line: &mut Line<'_>) {
    let asked = entry.transaction;
    match (asked.scheme(), asked.host(), asked.path()) {
        (Some(scheme), Some(host), Some(path)) => {
            line.show(format_args!("{scheme}://{host}{}", entry.mask.query(path)));
        }
        (_, host, _) => line.optional(host),
    }
}

fn request(entry: &Entry<'_>, line: &mut Line<'_>) {
    let (asked, protocol) = (entry.transaction, protocol(entry).unwrap_or("HTTP/1.1"));
    match (asked.scheme(), asked.host(), asked.path().map(|path| entry.mask.query(path))) {
        (Some(scheme), Some(host), Some(path)) if entry.is_forward => {
            line.show(format_args!("{} {scheme}://{host}{path} {protocol}", asked.method));
        }
        (_, _, Some(path)) => line.show(format_args!("{} {path} {protocol}", asked.method)),
        (_, Some(host), None) => line.show(format_args!("{} {host} {protocol}", asked.method)),
        _ => line.missing(),
    }
}

fn from(entry: &Entry<'_>) -> &'static str {
    let asked = entry.transaction;
    match (asked.report, asked.place) {
        (None, _) if !asked.tunnel => "own",
        (Some(report), Place::Disk) if is_stored(report.outcome) => "disk",
        (Some(report), Place::Memory) if is_stored(report.outcome) => "memory",
        _ => "origin",
    }
}

fn is_stored(outcome: Outcome) -> bool {
    outcome.is_hit() || matches!(outcome, Outcome::StaleOnError | Outcome::Revalidated(_))
}

/// Of its codes those that say what became of the request here.
fn squid_result(entry: &Entry<'_>) -> &'static str {
    let asked = entry.transaction;
    let Some(report) = asked.report else {
        return match asked.status.map(|status| status.as_u16()) {
            _ if asked.tunnel => "TCP_TUNNEL",
            Some(403) => "TCP_DENIED",
            None => "NONE_ABORTED",
            Some(_) => "NONE_NONE",
        };
    };
    let in_memory = asked.place == Place::Memory;
    match report.outcome {
        _ if report.collapsed == Some(true) => "TCP_CF_HIT",
        Outcome::HitOffline => "TCP_OFFLINE_HIT",
        outcome if outcome.is_hit() && in_memory => "TCP_MEM_HIT",
        outcome if outcome.is_hit() => "TCP_HIT",
        Outcome::StaleOnError => "TCP_REFRESH_FAIL_OLD",
        Outcome::Revalidated(_) => "TCP_REFRESH_UNMODIFIED",
        Outcome::Miss(cache::Miss::Stale(cache::Stale::RequestNoCache)) => "TCP_CLIENT_REFRESH_MISS",
        Outcome::Miss(cache::Miss::Stale(_)) => "TCP_REFRESH_MODIFIED",
        _ => "TCP_MISS",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_them() {
        let text = include_str!("../../../../docs/access-log.md");
        for Field { name, about, .. } in FIELDS {
            assert!(text.contains(&format!("| `{name}` | {about} |")), "| `{name}` | {about} |");
        }
    }

    #[test]
    fn each_field_has_a_name_of_its_own() {
        for (n, field) in FIELDS.iter().enumerate() {
            assert!(field.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", field.name);
            assert!(FIELDS[..n].iter().all(|other| other.name != field.name), "{}", field.name);
        }
    }
}
