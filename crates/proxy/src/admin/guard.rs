//! Who may ask the admin interface: who reaches the address itself, and has the token, if there is one.
//!
//! Nothing that came through a proxy, and no page of another site in somebody's browser: not by a request to this address, and not by a
//! name that was made to lead here (DNS rebinding).

use crate::transport::Peer;
use data_encoding::BASE64;
use http::header::{AUTHORIZATION, HOST, ORIGIN, VIA};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, StatusCode};
use std::net::IpAddr;

/// Of Fetch Metadata: where a browser's request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why one may not.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: StatusCode,
    pub why: &'static str,
}

const fn forbidden(why: &'static str) -> Refused {
    Refused { status: StatusCode::FORBIDDEN, why }
}

/// What a request has to show.
#[derive(Clone, Copy)]
pub enum Needs<'a> {
    Nothing,
    /// A name that no page can make lead here.
    Host,
    Token(&'a str),
}

/// Checks a request's head.
pub fn check(headers: &HeaderMap, peer: Peer, needs: Needs<'_>) -> Result<(), Refused> {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if headers.contains_key(VIA) {
        return Err(forbidden("the admin interface does not answer through a proxy"));
    }
    if [HOST, ORIGIN, SEC_FETCH_SITE].iter().any(|name| headers.get_all(name).iter().nth(1).is_some()) {
        let why = "of Host, Origin and Sec-Fetch-Site a request has one each";
        return Err(Refused { status: StatusCode::BAD_REQUEST, why });
    }
    let host = text(&HOST).unwrap_or_default();
    let is_foreign = text(&ORIGIN).is_some_and(|origin| origin != format!("http://{host}"))
        || text(&SEC_FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    if is_foreign {
        return Err(forbidden("the admin interface does not answer to another site's page"));
    }
    match needs {
        Needs::Token(token) if !is_authorized(text(&AUTHORIZATION), token) => Err(Refused {
            status: StatusCode::UNAUTHORIZED,
            why: "the admin interface wants its token: `Authorization: Bearer TOKEN`, or as the password of Basic",
        }),
        // Over its socket no browser comes.
        Needs::Host if peer != Peer::Unix && !is_here(host) => Err(forbidden(
            "the admin interface answers to the name localhost and to addresses alone; with --admin-token to any name",
        )),
        Needs::Nothing | Needs::Host | Needs::Token(_) => Ok(()),
    }
}

fn is_here(host: &str) -> bool {
    let name = host.parse::<Authority>().ok().filter(|_| !host.contains('@'));
    let name = name.as_ref().map(crate::authority::bare_host).unwrap_or_default();
    let is_local = name.strip_suffix('.').unwrap_or(name).eq_ignore_ascii_case("localhost");
    host.is_empty() || is_local || name.parse::<IpAddr>().is_ok()
}

fn is_authorized(given: Option<&str>, token: &str) -> bool {
    let Some((scheme, given)) = given.and_then(|given| given.split_once(' ')) else { return false };
    let given = given.trim().as_bytes();
    match scheme {
        _ if scheme.eq_ignore_ascii_case("bearer") => is_same(given, token.as_bytes()),
        _ if scheme.eq_ignore_ascii_case("basic") => BASE64.decode(given).is_ok_and(|user| {
            let password = user.iter().position(|byte| *byte == b':').map(|at| &user[at + 1..]);
            password.is_some_and(|password| is_same(password, token.as_bytes()))
        }),
        _ => false,
    }
}

/// In a time that does not tell where they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const TOKEN: &str = "0123456789abcdef";

    fn status(fields: &[(&'static str, &str)], peer: Peer, token: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        check(&headers, peer, token.map_or(Needs::Host, Needs::Token))
            .map_or_else(|refused| refused.status.as_u16(), |()| 200)
    }

    fn here() -> Peer {
        Peer::Ip(IpAddr::from([127, 0, 0, 1]))
    }

    #[test]
    fn pages_of_other_sites_and_names_made_to_lead_here_are_refused() {
        for (fields, expected) in [
            (&[("host", "127.0.0.1:3129")][..], 200),
            (&[("host", "[::1]:3129")], 200),
            (&[("host", "localhost")], 200),
            (&[("host", "LocalHost.:3129")], 200),
            (&[], 200),
            (&[("host", "evil.example:80@localhost")], 403),
            (&[("host", "user@127.0.0.1")], 403),
            (&[("host", "localhost"), ("host", "evil.example")], 400),
            (
                &[
                    ("host", "127.0.0.1:1"),
                    ("origin", "http://127.0.0.1:1"),
                    ("origin", "http://evil.example"),
                ],
                400,
            ),
            (&[("host", "[::1]"), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], 400),
            (&[("host", "evil.example:3129")], 403),
            (&[("host", "localhost.evil.example")], 403),
            (&[("host", "127.0.0.1:1"), ("origin", "http://127.0.0.1:1")], 200),
            (&[("host", "127.0.0.1:1"), ("origin", "http://127.0.0.1:2")], 403),
            (&[("host", "127.0.0.1:1"), ("origin", "null")], 403),
            (&[("host", "127.0.0.1:1"), ("sec-fetch-site", "cross-site")], 403),
            (&[("host", "127.0.0.1:1"), ("sec-fetch-site", "same-site")], 403),
            (&[("host", "127.0.0.1:1"), ("sec-fetch-site", "none")], 200),
            (&[("host", "127.0.0.1:1"), ("via", "1.1 x")], 403),
        ] {
            assert_eq!(status(fields, here(), None), expected, "{fields:?}");
        }
        assert_eq!(status(&[("host", "cache.internal")], Peer::Unix, None), 200);
    }

    #[test]
    fn who_has_the_token_may_use_any_name() {
        let basic = |text: &str| format!("Basic {}", BASE64.encode(text.as_bytes()));
        for (given, expected) in [
            (format!("Bearer {TOKEN}"), 200),
            (format!("bearer  {TOKEN} "), 200),
            (basic(&format!("operator:{TOKEN}")), 200),
            (basic(&format!(":{TOKEN}")), 200),
            (basic(TOKEN), 401),
            (format!("Bearer {TOKEN}0"), 401),
            ("Bearer ".into(), 401),
            (TOKEN.into(), 401),
            ("Basic !".into(), 401),
            (String::new(), 401),
        ] {
            for peer in [here(), Peer::Unix] {
                let fields = [("host", "cache.internal"), ("authorization", &*given)];
                assert_eq!(status(&fields, peer, Some(TOKEN)), expected, "{given}");
            }
        }
        let foreign = [("host", "a"), ("origin", "http://b"), ("authorization", &*format!("Bearer {TOKEN}"))];
        assert_eq!(status(&foreign, here(), Some(TOKEN)), 403);
        assert_eq!(status(&[("host", "a")], here(), Some(TOKEN)), 401);
    }
}
