//! What a request says of whom it comes from, and of how that one asked (RFC 7239). Origins believe it, so only what a
//! trusted proxy says is passed on; of others it is removed, with all its kin: none of it is part of a cache's key, so
//! that one client's lie would be everybody's page.

use crate::access::client::Client;
use crate::message::fields::REQUEST_ID;
use http::header::{FORWARDED, HeaderName};
use http::{HeaderMap, HeaderValue};

/// Fields whose names begin so are believed by some origin.
const FAMILY: &str = "x-forwarded";

/// Fields beside those that are believed by some origin: who asked, for which host, path or scheme.
#[rustfmt::skip]
const KIN: [&str; 30] = [
    "forwarded", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-true-client-ip", "x-cluster-client-ip",
    "cf-connecting-ip", "fastly-client-ip", "x-remote-ip", "x-remote-addr", "x-originating-ip", "proxy-client-ip",
    "wl-proxy-client-ip", "x-host", "x-original-host", "x-http-host-override", "x-original-url", "x-original-uri",
    "x-rewrite-url", "x-url-scheme", "x-scheme", "front-end-https", "x-proxyuser-ip", "x-original-forwarded-for",
    "forwarded-for", "x-envoy-external-address", "x-azure-clientip", "x-appengine-user-ip",
    // Not of whom it comes from, but as bad: programs take it for the proxy they shall use (httpoxy).
    "proxy",
];

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Whether a field, its name in lower case, is one of those that origins believe. `_` counts as `-`: to many origins both
/// are the same.
pub fn is_believed(name: &str) -> bool {
    // Nearly all names end here.
    matches!(name.as_bytes().first(), Some(b'x' | b'f' | b'c' | b't' | b'p' | b'w'))
        && (name.get(..FAMILY.len()).is_some_and(|begin| is_written_as(begin, FAMILY))
            || KIN.iter().any(|kin| is_written_as(name, kin)))
}

fn is_written_as(name: &str, known: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    name.len() == known.len() && name.bytes().map(plain).eq(known.bytes())
}

/// Whether an origin may be told something else in a field than the client said.
pub fn is_rewritten(name: &str) -> bool {
    is_believed(name) || name == REQUEST_ID.as_str()
}

/// What an origin is told of a client, beside its request.
pub struct Telling<'a> {
    /// Nobody, where the proxy asks for itself.
    pub client: Option<&'a Client>,
    /// It is told of this client.
    pub tells: bool,
    /// And for which host that asked.
    pub tells_host: bool,
    /// By which the request is known.
    pub id: Option<&'a HeaderValue>,
}

impl Telling<'_> {
    /// Makes the fields of a client's request those that its origin shall believe. `host` is whom it asks.
    pub fn rewrite(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        if let Some(id) = self.id {
            let others = headers.keys().filter(|name| is_written_as(name.as_str(), REQUEST_ID.as_str()));
            for name in others.cloned().collect::<Vec<_>>() {
                headers.remove(name);
            }
            headers.insert(REQUEST_ID, id.clone());
        }
        let told = self.client.filter(|_| self.tells).map(|client| (&client.forwarded_as, client.scheme));
        let host = host.filter(|_| self.tells_host);
        if !self.client.is_some_and(|client| client.trusted) {
            let believed = headers.keys().filter(|name| is_believed(name.as_str()));
            for name in believed.cloned().collect::<Vec<_>>() {
                headers.remove(name);
            }
            if let Some((told, scheme)) = told {
                headers.insert(FORWARDED, told.standard.clone());
                told.usual.as_ref().and_then(|usual| headers.insert(FOR, usual.clone()));
                headers.insert(PROTO, HeaderValue::from_static(scheme.as_str()));
                host.and_then(|host| headers.insert(HOST, host.clone()));
            }
            return;
        }
        let Some((told, scheme)) = told else { return };
        // The kind of fields that a trusted client writes is gone on with; the other kind would contradict it.
        let usual = [FOR, PROTO, HOST].iter().any(|name| headers.contains_key(name));
        let standard = headers.contains_key(FORWARDED);
        if standard || !usual {
            append(headers, FORWARDED, &told.standard);
        }
        if usual || !standard {
            if let Some(usual) = &told.usual {
                append(headers, FOR, usual);
            }
            headers.entry(PROTO).or_insert(HeaderValue::from_static(scheme.as_str()));
            host.map(|host| headers.entry(HOST).or_insert_with(|| host.clone()));
        }
    }
}

/// Adds a member at the end of a list, whose lines become one.
fn append(headers: &mut HeaderMap, name: HeaderName, member: &HeaderValue) {
    let mut lines: Vec<&[u8]> = headers.get_all(&name).iter().map(HeaderValue::as_bytes).collect();
    if lines.is_empty() {
        headers.insert(name, member.clone());
        return;
    }
    lines.push(member.as_bytes());
    if let Ok(list) = HeaderValue::try_from(lines.join(&b", "[..])) {
        headers.insert(name, list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::client::ForwardedAs;
    use crate::scheme::Scheme;
    use crate::settings::Settings;
    use crate::transport::{Peer, Speaks};

    fn rewritten(fields: &[(&'static str, &'static str)], trusted: bool, tells: bool) -> Vec<String> {
        rewritten_of(Peer::Ip("fd00::7".parse().unwrap()), fields, trusted, tells)
    }

    fn rewritten_of(
        peer: Peer,
        fields: &[(&'static str, &'static str)],
        trusted: bool,
        tells: bool,
    ) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let trust = if trusted { vec!["fd00::/8".parse().unwrap()] } else { Vec::new() };
        let client =
            Client::of(peer, Speaks::Http, &Settings { trust, trust_unix: trusted, ..Settings::default() });
        let host = HeaderValue::from_static("a:81");
        Telling { client: Some(&client), tells, tells_host: true, id: None }
            .rewrite(&mut headers, Some(&host));
        let mut lines: Vec<_> =
            headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    const OURS: [&str; 4] = [
        r#"forwarded: for="[fd00::7]";proto=http"#,
        "x-forwarded-for: fd00::7",
        "x-forwarded-host: a:81",
        "x-forwarded-proto: http",
    ];

    #[test]
    fn what_strangers_say_is_removed() {
        for (name, believed) in [
            ("x-forwarded-host", true),
            ("x_forwarded_host", true),
            ("x-forwarded-prefix", true),
            ("x-forwarded", true),
            ("forwarded", true),
            ("x-real-ip", true),
            ("x-original-url", true),
            ("front-end-https", true),
            ("proxy", true),
            ("forwarded-for", true),
            ("x-forward", false),
            ("forwarded-x", false),
            ("x-request-id", false),
            ("cookie", false),
            ("proxy-authorization", false),
        ] {
            assert_eq!(is_believed(name), believed, "{name}");
            let left = rewritten(&[(name, "evil"), ("accept", "b")], false, false);
            assert_eq!(left.len(), 2 - usize::from(believed), "{name}");
            let told = rewritten(&[(name, "evil"), ("accept", "b")], false, true);
            assert_eq!(told.iter().any(|line| line.contains("evil")), !believed, "{name}");
            let kept = rewritten(&[(name, "proxy"), ("accept", "b")], true, false);
            assert_eq!(kept.len(), 2, "{name}");
        }
    }

    #[test]
    fn origins_are_told_of_this_client_in_both_ways() {
        assert_eq!(rewritten(&[], false, true), OURS);
        assert_eq!(rewritten(&[], true, true), OURS);
        assert_eq!(rewritten(&[], false, false), [""; 0]);
        let v4 = ForwardedAs::of(Some("192.0.2.1".parse().unwrap()), Scheme::Http);
        assert_eq!(v4.standard, "for=192.0.2.1;proto=http");
    }

    #[test]
    fn a_client_without_an_address_is_unknown() {
        let ours = ["forwarded: for=unknown;proto=http", OURS[2], OURS[3]];
        assert_eq!(rewritten_of(Peer::Unix, &[("x-forwarded-for", "evil")], false, true), ours);
        assert_eq!(rewritten_of(Peer::Unix, &[], true, true), ours);
        let usual = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-proto", "https")];
        let expected = ["x-forwarded-for: 1.1.1.1", OURS[2], "x-forwarded-proto: https"];
        assert_eq!(rewritten_of(Peer::Unix, &usual, true, true), expected);
    }

    #[test]
    fn what_a_trusted_proxy_began_is_gone_on_with() {
        let usual =
            [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2"), ("x-forwarded-proto", "https")];
        assert_eq!(
            rewritten(&usual, true, true),
            ["x-forwarded-for: 1.1.1.1, 2, fd00::7", "x-forwarded-host: a:81", "x-forwarded-proto: https"]
        );
        let standard = [("forwarded", "for=_x")];
        assert_eq!(rewritten(&standard, true, true), [format!("forwarded: for=_x, {}", &OURS[0][11..])]);
    }
}
