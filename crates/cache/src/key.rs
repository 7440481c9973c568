//! The cache key (RFC 9111 sections 2 and 4.1): URI normalisation that merges only what RFC 9110 section 4.2.3 calls
//! equal and costs nothing to tell (scheme and host in lower case, no default port, no empty path, no fragment).
//! Percent-encoding, the case of the path and dot segments stay as they are: origins are free to tell them apart.

use crate::Vary;
use bytes::Bytes;
use http::HeaderMap;

/// `GET scheme://host[:port]/path?query`. GET and HEAD share it.
pub fn primary(scheme: &str, authority: &str, path_and_query: &str) -> Bytes {
    let authority = without_default_port(scheme, authority);
    let path = without_fragment(path_and_query);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut key =
        Vec::with_capacity(METHOD.len() + scheme.len() + 3 + authority.len() + slash.len() + path.len());
    key.extend_from_slice(METHOD);
    key.extend(scheme.bytes().map(|b| b.to_ascii_lowercase()));
    key.extend_from_slice(b"://");
    push_authority(authority, &mut key);
    key.extend_from_slice(slash.as_bytes());
    key.extend_from_slice(path.as_bytes());
    Bytes::from(key)
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

const METHOD: &[u8] = b"GET ";

fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let default = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(default).or_else(|| authority.strip_suffix(':')).unwrap_or(authority)
}

fn without_fragment(path: &str) -> &str {
    path.split_once('#').map_or(path, |(path, _)| path)
}

/// Userinfo keeps its case.
fn push_authority(authority: &str, key: &mut Vec<u8>) {
    let host = authority.rfind('@').map_or(0, |at| at + 1);
    key.extend_from_slice(&authority.as_bytes()[..host]);
    key.extend(authority.as_bytes()[host..].iter().map(u8::to_ascii_lowercase));
}

#[cfg(test)]
mod tests {
    use super::*;
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

    proptest! {
        #[test]
        fn never_panics(scheme: String, authority: String, path: String) {
            primary(&scheme, &authority, &path);
        }
    }
}
