//! A request as a stream of HTTP/2 brings it: what the library lets pass and two readers could understand differently is refused, so
//! that nothing of the kind reaches an origin that speaks HTTP/1. What remains looks as one of HTTP/1 in absolute form.
//!
//! The library refuses the rest, with a reset or by ending the connection (RFC 9113 sections 8.2 and 8.3; `tests/http2_refused.rs` has
//! both): names that are none or have capitals, control characters, pseudo-fields that are missing, repeated, or behind others, fields
//! of a connection (also `TE` of more than trailers), content of another length than `Content-Length`.

use crate::authority::host_and_port;
use crate::message::refusal::Refusal;
use crate::scheme::Scheme;
use data_encoding::BASE64;
use h2::ext::Protocol;
use http::header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, SEC_WEBSOCKET_KEY, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::hash::{BuildHasher, Hasher, RandomState};

/// What a request is for, beside its head.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// `CONNECT`.
    Tunnel,
    /// A WebSocket (RFC 8441), for which the origin is asked as in HTTP/1, with this key.
    WebSocket(HeaderValue),
}

/// Makes the head one that can go on, or says why it cannot. `fields`: at most.
pub fn settle(parts: &mut Parts, fields: usize) -> Result<Kind, Refusal> {
    if parts.headers.contains_key(COOKIE) {
        join_cookies(&mut parts.headers);
    }
    if parts.headers.len() > fields {
        let text = format!("its head has more than {fields} fields");
        return Err(refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, text));
    }
    host(parts)?;
    one_length(&mut parts.headers)?;
    let protocol = parts.extensions.remove::<Protocol>();
    if parts.method != Method::CONNECT {
        path(parts)?;
        return Ok(Kind::Plain);
    }
    // What follows is a tunnel's (RFC 9110 section 9.3.6), and no content that an origin should wait for.
    if parts.headers.contains_key(CONTENT_LENGTH) {
        return Err(malformed("a CONNECT with a Content-Length"));
    }
    match protocol {
        None => Ok(Kind::Tunnel),
        Some(protocol) if protocol.as_str().eq_ignore_ascii_case("websocket") => {
            path(parts)?;
            Ok(Kind::WebSocket(as_http1(parts)))
        }
        Some(_) => {
            let text = "the only protocol that CONNECT can ask for is websocket";
            Err(refused(StatusCode::NOT_IMPLEMENTED, text.into()))
        }
    }
}

fn refused(status: StatusCode, text: String) -> Refusal {
    Refusal::new(status, format!("refused: {text}")).clients()
}

fn malformed(text: &str) -> Refusal {
    refused(StatusCode::BAD_REQUEST, text.into())
}

/// One host is asked, and known (RFC 9113 section 8.3.1).
fn host(parts: &Parts) -> Result<(), Refusal> {
    let mut fields = parts.headers.get_all(HOST).iter();
    let field = fields.next();
    if fields.next().is_some() {
        return Err(malformed("more than one Host field"));
    }
    let Some(authority) = parts.uri.authority() else {
        return match field {
            Some(_) => Ok(()),
            None => Err(malformed("neither :authority nor a Host field")),
        };
    };
    if host_and_port(authority.as_str()).is_none() {
        return Err(malformed(
            "an :authority that is not a host, or more than a host and a port up to 65535",
        ));
    }
    match field.is_none_or(|field| field.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())) {
        true => Ok(()),
        false => Err(malformed("a Host field other than :authority")),
    }
}

/// It begins with a slash, or is the star of OPTIONS. URLs that can be asked for have one of two schemes.
fn path(parts: &Parts) -> Result<(), Refusal> {
    if parts.uri.scheme_str().is_some_and(|scheme| Scheme::of(scheme).is_none()) {
        return Err(malformed("a :scheme other than http and https"));
    }
    match parts.uri.path_and_query().map_or("", |path| path.as_str()) {
        "*" if parts.method == Method::OPTIONS => Ok(()),
        path if path.starts_with('/') => Ok(()),
        _ => Err(malformed("a :path that does not begin with a slash")),
    }
}

/// Several equal ones are one (RFC 9110 section 8.6); the library has refused others, and what is no number.
fn one_length(headers: &mut HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(malformed("a Transfer-Encoding"));
    }
    let mut all = headers.get_all(CONTENT_LENGTH).iter();
    if let (Some(first), Some(_)) = (all.next(), all.next()) {
        let first = first.clone();
        headers.insert(CONTENT_LENGTH, first);
    }
    Ok(())
}

/// Browsers send each on a line of its own (RFC 9113 section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if all.len() > 1
        && let Ok(joined) = HeaderValue::try_from(all.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

/// The request of RFC 6455 section 4.1, of which RFC 8441 section 5.1 leaves out what HTTP/2 has by itself.
fn as_http1(parts: &mut Parts) -> HeaderValue {
    let random = [(); 2].map(|()| RandomState::new().build_hasher().finish().to_be_bytes());
    let key = HeaderValue::try_from(BASE64.encode(random.as_flattened())).expect("base64");
    parts.method = Method::GET;
    parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    parts.headers.insert(SEC_WEBSOCKET_KEY, key.clone());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    fn settled(method: &str, uri: &str, fields: Fields) -> Result<(Kind, HeaderMap), u16> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let kind = settle(&mut parts, 10).map_err(|refusal| refusal.status.as_u16())?;
        Ok((kind, parts.headers))
    }

    #[test]
    fn one_host_is_asked() {
        let table: &[(&str, Fields, bool)] = &[
            ("http://a/", &[], true),
            ("https://a:81/", &[("host", "A:81")], true),
            ("/", &[("host", "a")], true),
            ("/", &[], false),
            ("http://a/", &[("host", "b")], false),
            ("http://a/", &[("host", "a:80")], false),
            ("http://a/", &[("host", "a"), ("host", "a")], false),
            ("http://u@a/", &[], false),
            ("http://a:x/", &[], false),
            ("ftp://a/", &[], false),
        ];
        for (uri, fields, is_good) in table {
            let Ok(_) = uri.parse::<http::Uri>() else { continue };
            assert_eq!(settled("GET", uri, fields).is_ok(), *is_good, "{uri} {fields:?}");
        }
        assert!(settled("OPTIONS", "*", &[("host", "a")]).is_ok());
        assert!(settled("GET", "*", &[("host", "a")]).is_err());
    }

    #[test]
    fn cookies_are_one_line_and_equal_lengths_one() {
        let cookies = [("cookie", "a=1"), ("cookie", "b=2"), ("x", "y"), ("cookie", "c=3")];
        let (_, headers) = settled("GET", "http://a/", &cookies).unwrap();
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
        let lengths = [("content-length", "3"), ("content-length", "3")];
        let (_, headers) = settled("POST", "http://a/", &lengths).unwrap();
        assert_eq!(headers.get_all(CONTENT_LENGTH).iter().collect::<Vec<_>>(), ["3"]);
        let many: Vec<_> = (0..11).map(|_| ("x", "y")).collect();
        assert_eq!(settled("GET", "http://a/", &many), Err(431));
    }
}
