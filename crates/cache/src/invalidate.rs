//! What an answer to an unsafe method invalidates (RFC 9111 section 4.4), and the resolution of the references it may
//! name (RFC 3986 section 5.2).

use crate::key::{self, same_authority};
use bytes::Bytes;
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{Method, StatusCode, response};

/// Primary keys to invalidate: none for safe methods and for errors; otherwise the target, and what Location and
/// Content-Location name on the same origin (another origin's responses are not this one's to invalidate).
pub fn invalidated(
    method: &Method,
    scheme: &str,
    authority: &str,
    path_and_query: &str,
    response: &response::Parts,
) -> Vec<Bytes> {
    if !invalidates(method, response.status) {
        return Vec::new();
    }
    let mut keys = vec![key::primary(scheme, authority, path_and_query)];
    let named = [LOCATION, CONTENT_LOCATION].into_iter().flat_map(|name| response.headers.get_all(name));
    for reference in named.filter_map(|value| std::str::from_utf8(value.as_bytes()).ok()) {
        let path = path_on_same_origin(scheme, authority, path_and_query, reference.trim());
        let key = path.map(|path| key::primary(scheme, authority, &path));
        keys.extend(key.filter(|key| !keys.contains(key)));
    }
    keys
}

/// The method may have changed something, and did not fail.
pub(crate) fn invalidates(method: &Method, status: StatusCode) -> bool {
    !is_safe(method) && (status.is_success() || status.is_redirection())
}

/// RFC 9110 section 8.7: Content-Location says that the content is what a GET of the target would get.
pub fn names_target(scheme: &str, authority: &str, path_and_query: &str, response: &response::Parts) -> bool {
    let mut lines = response.headers.get_all(CONTENT_LOCATION).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let Ok(reference) = std::str::from_utf8(line.as_bytes()) else { return false };
    let path = path_on_same_origin(scheme, authority, path_and_query, reference.trim());
    path.is_some_and(|path| {
        key::primary(scheme, authority, &path) == key::primary(scheme, authority, path_and_query)
    })
}

/// RFC 9110 section 9.2.1 and the registry of methods; one that nobody knows is not safe.
fn is_safe(method: &Method) -> bool {
    const SAFE: [&str; 8] = ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY"];
    SAFE.contains(&method.as_str())
}

/// Path and query of a reference, when scheme, host and port are the target's own.
fn path_on_same_origin(scheme: &str, authority: &str, base: &str, reference: &str) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let rest = match split_scheme(reference) {
        Some((other, _)) if !other.eq_ignore_ascii_case(scheme) => return None,
        Some((_, rest)) => rest,
        None => reference,
    };
    if let Some(rest) = rest.strip_prefix("//") {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        return same_authority(scheme, &rest[..end], authority).then(|| normal(&rest[end..]));
    }
    if rest.len() < reference.len() {
        return None;
    }
    Some(normal(&merge(base, rest)))
}

fn split_scheme(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    is_scheme.then_some((scheme, rest))
}

/// RFC 3986 section 5.2.2, for a reference without scheme and authority.
fn merge(base: &str, reference: &str) -> String {
    let base_path = base.split(['?', '#']).next().unwrap_or_default();
    match reference.bytes().next() {
        None => base.to_owned(),
        Some(b'/') => reference.to_owned(),
        Some(b'?') => format!("{base_path}{reference}"),
        Some(_) => {
            let directory = base_path.rfind('/').map_or("/", |slash| &base_path[..=slash]);
            format!("{directory}{reference}")
        }
    }
}

/// RFC 3986 section 5.2.4, the query left alone.
fn normal(path_and_query: &str) -> String {
    let query = path_and_query.find('?').unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(query);
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let dots = segment == "." || segment == "..";
        if segment == ".." {
            kept.pop();
        }
        if !dots {
            kept.push(segment);
        } else if segments.peek().is_none() {
            kept.push("");
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, Response};
    use proptest::prelude::*;

    fn keys(method: &str, status: u16, fields: &[(&'static str, &str)]) -> Vec<String> {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let (parts, ()) = response.body(()).unwrap().into_parts();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        invalidated(&method, "http", "h.example", "/a/b?q", &parts)
            .into_iter()
            .map(|key| String::from_utf8_lossy(&key["GET http://".len()..]).into_owned())
            .collect()
    }

    #[test]
    fn rfc9111_4_4_methods_and_statuses() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"] {
            assert_eq!(keys(method, 200, &[]), ["h.example/a/b?q"], "{method}");
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert!(keys(method, 200, &[]).is_empty(), "{method}");
        }
        for (status, invalidates) in [(200, true), (204, true), (303, true), (404, false), (500, false)] {
            assert_eq!(!keys("POST", status, &[]).is_empty(), invalidates, "{status}");
        }
    }

    #[test]
    fn rfc9111_4_4_same_origin_only() {
        for (reference, key) in [
            ("http://H.example:80/x", Some("h.example/x")),
            ("//h.example/x", Some("h.example/x")),
            ("https://h.example/x", None),
            ("http://other.example/x", None),
            ("//other.example/x", None),
            ("http://h.example:8080/x", None),
            ("mailto:a@h.example", None),
            ("http:x", None),
        ] {
            for field in ["location", "content-location"] {
                let all = keys("POST", 201, &[(field, reference)]);
                assert_eq!(all.get(1).map(String::as_str), key, "{field}: {reference}");
            }
        }
        assert_eq!(keys("POST", 200, &[("location", "/x"), ("content-location", "/y")]).len(), 3);
        assert_eq!(keys("POST", 200, &[("location", "?q")]).len(), 1);
    }

    #[test]
    fn rfc3986_5_4_references() {
        for (reference, path) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y#s", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("", "/b/c/d;p?q"),
            (";x", "/b/c/;x"),
            (".", "/b/c/"),
            ("..", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("//a", "/"),
            ("http://a?y", "/?y"),
        ] {
            let resolved = path_on_same_origin("http", "a", "/b/c/d;p?q", reference);
            assert_eq!(resolved.as_deref(), Some(path), "{reference}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(base: String, reference: String, close in "[a:/?#.]{0,12}") {
            path_on_same_origin("http", "a", &base, &reference);
            path_on_same_origin("http", "a", &close, &close);
        }

        #[test]
        fn any_location_is_taken(bytes: Vec<u8>) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let (parts, ()) = Response::builder().header(LOCATION, value).body(()).unwrap().into_parts();
            prop_assert!(!invalidated(&Method::POST, "http", "h", "/", &parts).is_empty());
        }
    }
}
