//! The cache key (RFC 9111 sections 2 and 4.1): URI normalisation that merges only what RFC 9110 section 4.2.3 calls
//! equal and costs nothing to tell (scheme and host in lower case, no default port, no empty path, no fragment).
//! Percent-encoding, the case of the path and dot segments stay as they are: origins are free to tell them apart.

use crate::hop::is_nominated;
use crate::{NoVarySearch, Vary};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};

/// `GET scheme://host[:port]/path?query`. GET and HEAD share it.
pub fn primary(scheme: &str, authority: &str, path_and_query: &str) -> Bytes {
    let authority = without_default_port(scheme, authority);
    let path = without_fragment(path_and_query);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut key =
        Vec::with_capacity(METHOD.len() + scheme.len() + 3 + authority.len() + slash.len() + path.len());
    key.extend_from_slice(METHOD);
    push_lower(scheme.as_bytes(), &mut key);
    key.extend_from_slice(b"://");
    push_authority(authority, &mut key);
    key.extend_from_slice(slash.as_bytes());
    key.extend_from_slice(path.as_bytes());
    Bytes::from(key)
}

/// `host[:port]` as keys write it: in lower case, without the scheme's default port.
pub fn authority<'a>(scheme: &str, authority: &'a str) -> Cow<'a, str> {
    let authority = without_default_port(scheme, authority);
    match authority.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => authority.to_ascii_lowercase().into(),
        false => authority.into(),
    }
}

/// Where, beside a primary key, a marker says how the answers to QUERY for its URI are found ([`of_query`]).
pub fn queries(primary: &[u8]) -> Bytes {
    [QUERIES, without_method(primary)].concat().into()
}

/// Where, beside a primary key, a marker says which searches of its path are answered alike ([`of_search`]).
pub fn searches(primary: &[u8]) -> Bytes {
    let uri = without_method(primary);
    let path = uri.iter().position(|byte| *byte == b'?').unwrap_or(uri.len());
    [SEARCHES, &uri[..path]].concat().into()
}

/// The primary key of a QUERY (RFC 10008 section 2.7: the key takes in the content and what describes it), under the
/// marker of its URI. Nothing is normalised: only equal bytes are equal questions. The marker's nonce is part of it, so
/// that with the marker all answers go.
pub fn of_query(marker: &[u8], nonce: [u8; 8], request: &HeaderMap, content: &[u8]) -> Bytes {
    let mut key = Vec::with_capacity(marker.len() + content.len() + 64);
    key.extend_from_slice(marker);
    key.push(0);
    key.extend_from_slice(&nonce);
    // Each with its length before it, so that no content can pass for another with more fields.
    let mut push = |bytes: &[u8]| {
        key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        key.extend_from_slice(bytes);
    };
    for name in [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION] {
        // What Connection takes away describes nothing to the origin.
        let seen = !is_nominated(request, &name);
        let lines = || request.get_all(&name).iter().filter(|_| seen);
        push(&(lines().count() as u64).to_le_bytes());
        lines().for_each(|value| push(value.as_bytes()));
    }
    push(content);
    Bytes::from(key)
}

/// The primary key of a GET whose path has answers that do not depend on all of the query, under the path's marker.
pub fn of_search(marker: &[u8], nonce: [u8; 8], config: &NoVarySearch, path_and_query: &str) -> Bytes {
    let query = without_fragment(path_and_query).split_once('?').map(|(_, query)| query);
    [marker, b"\0", &nonce, config.normalise(query).as_bytes()].concat().into()
}

/// Which keys belong together, for whoever lays objects side by side: those of one origin.
pub fn group(key: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    origin(key).hash(&mut hasher);
    hasher.finish()
}

/// `scheme://host[:port]` of a key, as scopes of purges name it ([`crate::Scope`]).
pub fn origin(key: &[u8]) -> Option<&str> {
    uri(key).map(origin_of)
}

pub(crate) fn origin_of(uri: &str) -> &str {
    let host = uri.find("://").map_or(0, |at| at + 3);
    let end = uri[host..].find('/').map_or(uri.len(), |at| host + at);
    &uri[..end]
}

/// The URI of a key, or of its path alone where searches are answered alike; `None` for what is no key of ours.
pub(crate) fn uri(key: &[u8]) -> Option<&str> {
    let end = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
    let (_, uri) = std::str::from_utf8(&key[..end]).ok()?.split_once(' ')?;
    Some(uri)
}

/// Whether a key is of the searches of a path, whose URI has no query.
pub(crate) fn is_of_searches(key: &[u8]) -> bool {
    key.starts_with(SEARCHES)
}

/// The primary key, NUL, and the normalised values of the fields that Vary names.
pub fn variant(primary: &[u8], vary: &Vary, request: &HeaderMap) -> Bytes {
    let mut key = Vec::with_capacity(primary.len() + 128);
    key.extend_from_slice(primary);
    key.push(0);
    vary.select(request, &mut key);
    Bytes::from(key)
}

/// Where a response in `language` is also found by clients who prefer it ([`Vary::select_language`], RFC 9110 section
/// 12.5.4). Never the key of a variant. `None`: the responses do not vary by Accept-Language, or it is no language tag.
pub fn language_variant(primary: &[u8], vary: &Vary, request: &HeaderMap, language: &str) -> Option<Bytes> {
    let mut key = Vec::with_capacity(primary.len() + 128);
    key.extend_from_slice(primary);
    key.push(0);
    vary.select_language(request, language, &mut key).then(|| Bytes::from(key))
}

/// Two authorities name the same host and port.
pub(crate) fn same_authority(scheme: &str, a: &str, b: &str) -> bool {
    without_default_port(scheme, a).eq_ignore_ascii_case(without_default_port(scheme, b))
}

/// What a primary key begins with, before its URI.
pub const METHOD: &[u8] = b"GET ";
const QUERIES: &[u8] = b"QUERY ";
const SEARCHES: &[u8] = b"SEARCHES ";

fn without_method(primary: &[u8]) -> &[u8] {
    primary.strip_prefix(METHOD).unwrap_or(primary)
}

fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let default = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(default).or_else(|| authority.strip_suffix(':')).unwrap_or(authority)
}

fn without_fragment(path: &str) -> &str {
    path.split_once('#').map_or(path, |(path, _)| path)
}

/// Userinfo keeps its case.
fn push_authority(authority: &str, key: &mut Vec<u8>) {
    let authority = authority.as_bytes();
    let host = authority.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
    key.extend_from_slice(&authority[..host]);
    push_lower(&authority[host..], key);
}

fn push_lower(bytes: &[u8], key: &mut Vec<u8>) {
    let from = key.len();
    key.extend_from_slice(bytes);
    key[from..].make_ascii_lowercase();
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    #[test]
    fn rfc9110_4_2_3_normalisation() {
        for (scheme, authority, path, expected) in [
            ("http", "example.com", "/", "GET http://example.com/"),
            ("HTTP", "EXAMPLE.com:80", "", "GET http://example.com/"),
            ("http", "example.com:", "?q", "GET http://example.com/?q"),
            ("http", "example.com:443", "/", "GET http://example.com:443/"),
            ("https", "example.com:443", "/A/b%7e?Q=1#f", "GET https://example.com/A/b%7e?Q=1"),
            ("http", "[2001:DB8::80]", "/", "GET http://[2001:db8::80]/"),
            ("http", "[::1]:80", "/", "GET http://[::1]/"),
            ("http", "User:Pw@Host:8080", "/", "GET http://User:Pw@host:8080/"),
            ("http", "h", "/a/../b//c", "GET http://h/a/../b//c"),
        ] {
            assert_eq!(primary(scheme, authority, path), expected, "{scheme} {authority} {path}");
        }
    }

    #[test]
    fn different_uris_have_different_keys() {
        let all = [
            primary("http", "h", "/"),
            primary("https", "h", "/"),
            primary("http", "h:8080", "/"),
            primary("http", "h", "/?"),
            primary("http", "h", "/a"),
            primary("http", "h", "/A"),
            primary("http", "h", "/%61"),
            primary("http", "h", "//"),
            primary("http", "h.", "/"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{a:?}");
        }
    }

    #[test]
    fn rfc10008_2_7_content_and_what_describes_it_are_part_of_the_key() {
        let marker = queries(&primary("http", "H", "/a?b"));
        assert_eq!((&marker[..], uri(&marker)), (&b"QUERY http://h/a?b"[..], Some("http://h/a?b")));
        let fields = |list: &[(&'static str, &'static str)]| -> HeaderMap {
            let field = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
            list.iter().map(|(name, value)| field(name, value)).collect()
        };
        let json = fields(&[("content-type", "application/json")]);
        let key = |nonce, fields: &HeaderMap, content: &[u8]| of_query(&marker, [nonce; 8], fields, content);
        let all = [
            key(0, &json, b"{}"),
            key(1, &json, b"{}"),
            key(0, &json, b"{} "),
            key(0, &json, b""),
            key(0, &HeaderMap::new(), b"{}"),
            key(0, &fields(&[("content-type", "application/json"), ("content-encoding", "gzip")]), b"{}"),
            key(0, &fields(&[("content-type", "text/json")]), b"{}"),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{i}");
            assert_eq!(uri(a), Some("http://h/a?b"));
        }
        let more = fields(&[("content-type", "application/json"), ("accept", "*/*")]);
        assert_eq!(all[0], key(0, &more, b"{}"));
        let unseen = fields(&[("content-type", "application/json"), ("connection", "content-type")]);
        assert_eq!(key(0, &unseen, b"{}"), key(0, &HeaderMap::new(), b"{}"));
    }

    #[test]
    fn searches_that_are_answered_alike_share_a_key() {
        let marker = searches(&primary("http", "h", "/a?b=1#c"));
        assert_eq!(marker, "SEARCHES http://h/a");
        let field = HeaderValue::from_static("params=(\"utm\")");
        let config =
            NoVarySearch::of(&[(HeaderName::from_static("no-vary-search"), field)].into_iter().collect());
        let key = |path| of_search(&marker, [7; 8], &config, path);
        assert_eq!(key("/a?b=1&utm=2"), key("/a?utm=3&b=1"));
        assert_ne!(key("/a?b=1"), key("/a?b=2"));
        assert_eq!(key("/a"), key("/a?utm"));
        assert_eq!(uri(&key("/a?b=1")), Some("http://h/a"));
    }

    proptest! {
        #[test]
        fn never_panics(scheme: String, authority: String, path: String) {
            let primary = primary(&scheme, &authority, &path);
            for key in [queries(&primary), searches(&primary), primary] {
                uri(&key);
            }
        }

        /// Whatever the content is, it does not end in what could be another's.
        #[test]
        fn two_questions_never_share_a_key(a in proptest::collection::vec(0u8..3, 0..40), b in proptest::collection::vec(0u8..3, 0..40)) {
            let key = |content: &[u8]| of_query(b"QUERY http://h/", [0; 8], &HeaderMap::new(), content);
            prop_assert_eq!(key(&a) == key(&b), a == b);
            prop_assert!(a == b || !key(&a).starts_with(&key(&b)));
        }
    }
}
