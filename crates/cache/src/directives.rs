//! Cache-Control directives (RFC 9111 sections 5.2.1 and 5.2.2, RFC 5861, RFC 8246) and delta-seconds (section 1.2.2).
//!
//! Names match without regard to case, arguments come as tokens or quoted strings, unknown directives are ignored.
//! Of duplicates the most restrictive counts, and a malformed number is 0: both make a cache ask once too often rather
//! than once too seldom (section 4.2.1).

use crate::list::{members_of, trim};
use crate::targeted;
use http::HeaderMap;
use http::header::{CACHE_CONTROL, PRAGMA};

/// Delta-seconds saturate here (RFC 9111 section 1.2.2).
pub(crate) const MAX_DELTA: u32 = 1 << 31;

/// `1*DIGIT`, nothing else.
pub(crate) fn delta_seconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u32, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        Some(value.saturating_mul(10).saturating_add(digit).min(MAX_DELTA))
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestDirectives {
    pub no_store: bool,
    pub no_cache: bool,
    pub only_if_cached: bool,
    pub max_age: Option<u32>,
    pub min_fresh: Option<u32>,
    /// Without an argument: any staleness.
    pub max_stale: Option<u32>,
    /// RFC 5861 section 4.
    pub stale_if_error: Option<u32>,
}

impl RequestDirectives {
    pub(crate) fn of(headers: &HeaderMap) -> RequestDirectives {
        if !headers.contains_key(CACHE_CONTROL) {
            let no_cache = members_of(headers, PRAGMA).any(|m| m.eq_ignore_ascii_case(b"no-cache"));
            return RequestDirectives { no_cache, ..Default::default() };
        }
        let mut all = RequestDirectives::default();
        for (name, argument) in directives(headers) {
            all.add(name, argument);
        }
        all
    }

    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("no-store") {
            self.no_store = true;
        } else if is("no-cache") {
            self.no_cache = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        } else if is("max-age") {
            self.max_age = least(self.max_age, seconds(argument));
        } else if is("min-fresh") {
            self.min_fresh = self.min_fresh.max(Some(seconds(argument)));
        } else if is("max-stale") {
            self.max_stale = least(self.max_stale, argument.map_or(u32::MAX, |a| seconds(Some(a))));
        } else if is("stale-if-error") {
            self.stale_if_error = least(self.stale_if_error, seconds(argument));
        }
    }
}

/// Flags of a stored response; part of its encoding, so a bit keeps its meaning for ever.
pub(crate) mod flag {
    pub(crate) const PUBLIC: u32 = 1 << 0;
    pub(crate) const PRIVATE: u32 = 1 << 1;
    pub(crate) const NO_STORE: u32 = 1 << 2;
    pub(crate) const NO_CACHE: u32 = 1 << 3;
    pub(crate) const MUST_REVALIDATE: u32 = 1 << 4;
    pub(crate) const PROXY_REVALIDATE: u32 = 1 << 5;
    pub(crate) const MUST_UNDERSTAND: u32 = 1 << 6;
    pub(crate) const IMMUTABLE: u32 = 1 << 7;
    /// The response has s-maxage.
    pub(crate) const S_MAXAGE: u32 = 1 << 8;
    /// The lifetime is the origin's word, not a heuristic.
    pub(crate) const EXPLICIT: u32 = 1 << 9;
    /// The request had Authorization.
    pub(crate) const AUTHORIZED: u32 = 1 << 10;
    /// Vary was `*` or not readable.
    pub(crate) const VARY_STAR: u32 = 1 << 11;
    /// An update changed the fields that Vary names.
    pub(crate) const VARY_CHANGED: u32 = 1 << 12;
    /// A soft purge made it stale.
    pub(crate) const EXPIRED: u32 = 1 << 13;
}

const FLAG_DIRECTIVES: [(&str, u32); 8] = [
    ("public", flag::PUBLIC),
    ("private", flag::PRIVATE),
    ("no-store", flag::NO_STORE),
    ("no-cache", flag::NO_CACHE),
    ("must-revalidate", flag::MUST_REVALIDATE),
    ("proxy-revalidate", flag::PROXY_REVALIDATE),
    ("must-understand", flag::MUST_UNDERSTAND),
    ("immutable", flag::IMMUTABLE),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseDirectives {
    /// They come from CDN-Cache-Control, beside which Expires does not count.
    pub targeted: bool,
    pub flags: u32,
    pub max_age: Option<u32>,
    pub s_maxage: Option<u32>,
    pub stale_while_revalidate: Option<u32>,
    pub stale_if_error: Option<u32>,
}

impl ResponseDirectives {
    /// What this cache has to follow: CDN-Cache-Control if it is usable (RFC 9213 section 2.2), or else Cache-Control.
    ///
    /// The field forms of private and no-cache (`no-cache="set-cookie"`) count as their plain forms, as sections
    /// 5.2.2.4 and 5.2.2.7 allow.
    pub(crate) fn of(headers: &HeaderMap) -> ResponseDirectives {
        if let Some(all) = targeted::directives(headers) {
            return all;
        }
        let mut all = ResponseDirectives::default();
        for (name, argument) in directives(headers) {
            all.add(name, argument);
        }
        all
    }

    pub(crate) fn is_flag(name: &str) -> bool {
        FLAG_DIRECTIVES.iter().any(|(known, _)| *known == name)
    }

    pub(crate) fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if let Some((_, bit)) = FLAG_DIRECTIVES.iter().find(|(known, _)| is(known)) {
            self.flags |= bit;
            return;
        }
        let number = match name.len() {
            _ if is("max-age") => &mut self.max_age,
            _ if is("s-maxage") => &mut self.s_maxage,
            _ if is("stale-while-revalidate") => &mut self.stale_while_revalidate,
            _ if is("stale-if-error") => &mut self.stale_if_error,
            _ => return,
        };
        *number = least(*number, seconds(argument));
    }
}

/// Name and unquoted argument of each directive. Whitespace around `=` is no part of the grammar: such a name still
/// counts, such an argument is malformed.
fn directives(headers: &HeaderMap) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    members_of(headers, CACHE_CONTROL).map(|member| match member.iter().position(|b| *b == b'=') {
        Some(at) if at > 0 && member[at - 1].is_ascii_whitespace() => (trim(&member[..at]), Some(&b""[..])),
        Some(at) => (&member[..at], Some(unquote(&member[at + 1..]))),
        None => (member, None),
    })
}

fn unquote(argument: &[u8]) -> &[u8] {
    argument.strip_prefix(b"\"").and_then(|a| a.strip_suffix(b"\"")).unwrap_or(argument)
}

fn seconds(argument: Option<&[u8]>) -> u32 {
    argument.and_then(delta_seconds).unwrap_or(0)
}

fn least(so_far: Option<u32>, value: u32) -> Option<u32> {
    Some(so_far.map_or(value, |v| v.min(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn field(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|l| (CACHE_CONTROL, HeaderValue::from_str(l).unwrap())).collect()
    }

    #[test]
    fn rfc9111_1_2_2_delta_seconds() {
        for (text, expected) in [
            ("0", Some(0)),
            ("3600", Some(3600)),
            ("003600", Some(3600)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", Some(MAX_DELTA)),
            ("99999999999999999999", Some(MAX_DELTA)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            ("a1", None),
            ("1a", None),
            (" 1", None),
        ] {
            assert_eq!(delta_seconds(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn rfc9111_5_2_2_max_age() {
        let table: &[(&[&str], Option<u32>)] = &[
            (&["max-age=3600"], Some(3600)),
            (&["MaX-aGe=3600"], Some(3600)),
            (&["max-age=\"3600\""], Some(3600)),
            (&["max-age='3600'"], Some(0)),
            (&["max-age"], Some(0)),
            (&["max-age="], Some(0)),
            (&["max-age =3600"], Some(0)),
            (&["max-age= 3600"], Some(0)),
            (&["max-age=-1"], Some(0)),
            (&["foobar, max-age=3600"], Some(3600)),
            (&["extension=\"max-age=3600\", max-age=1"], Some(1)),
            (&["max-age=1, extension=\"max-age=3600\""], Some(1)),
            (&["max-age=1800, max-age=1"], Some(1)),
            (&["max-age=1", "max-age=1800"], Some(1)),
            (&["extension=\"max-age=3600\""], None),
            (&["x-max-age=3600"], None),
            (&[], None),
        ];
        for (lines, expected) in table {
            assert_eq!(ResponseDirectives::of(&field(lines)).max_age, *expected, "{lines:?}");
        }
    }

    #[test]
    fn rfc9111_5_2_2_flags() {
        for (line, flags) in [
            ("public", flag::PUBLIC),
            ("Private", flag::PRIVATE),
            ("private=\"x-secret\"", flag::PRIVATE),
            ("no-cache=\"set-cookie, x\"", flag::NO_CACHE),
            ("NO-STORE, must-understand", flag::NO_STORE | flag::MUST_UNDERSTAND),
            ("must-revalidate,proxy-revalidate", flag::MUST_REVALIDATE | flag::PROXY_REVALIDATE),
            ("a=\"no-store\"", 0),
            ("a=\"x, no-store", flag::NO_STORE),
            ("no-storeish, xno-store", 0),
        ] {
            assert_eq!(ResponseDirectives::of(&field(&[line])).flags, flags, "{line}");
        }
    }

    #[test]
    fn rfc9111_5_2_1_request_directives() {
        let none = RequestDirectives::default();
        for (line, expected) in [
            ("no-store", RequestDirectives { no_store: true, ..none }),
            ("only-if-cached", RequestDirectives { only_if_cached: true, ..none }),
            ("max-age=0", RequestDirectives { max_age: Some(0), ..none }),
            ("max-age=x", RequestDirectives { max_age: Some(0), ..none }),
            ("min-fresh=5, min-fresh=9", RequestDirectives { min_fresh: Some(9), ..none }),
            ("max-stale", RequestDirectives { max_stale: Some(u32::MAX), ..none }),
            ("max-stale, max-stale=60", RequestDirectives { max_stale: Some(60), ..none }),
            ("max-stale=x", RequestDirectives { max_stale: Some(0), ..none }),
            ("stale-if-error=60, stale-if-error=9", RequestDirectives { stale_if_error: Some(9), ..none }),
        ] {
            assert_eq!(RequestDirectives::of(&field(&[line])), expected, "{line}");
        }
    }

    #[test]
    fn rfc9111_5_4_pragma_counts_only_without_cache_control() {
        let mut headers = HeaderMap::new();
        headers.insert(PRAGMA, HeaderValue::from_static("x, No-Cache"));
        assert!(RequestDirectives::of(&headers).no_cache);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-stale"));
        assert!(!RequestDirectives::of(&headers).no_cache);
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(32u8..127, 0..80)) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let mut headers = HeaderMap::new();
            headers.insert(CACHE_CONTROL, value);
            ResponseDirectives::of(&headers);
            RequestDirectives::of(&headers);
        }
    }
}
