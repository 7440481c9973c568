//! One request, as a cache sees it.

use std::borrow::Cow;

/// A request of a trace. Clients, servers and objects are numbers: those of the trace, or hashes of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Microseconds; since 1970 where the trace says so.
    pub time: u64,
    pub client: u64,
    pub server: u64,
    /// The URL's up to its last slash, if the trace has URLs.
    pub directory: Option<u64>,
    /// The page for which it was asked for, itself if it is one, where the trace tells: what Referer says.
    pub page: Option<u64>,
    /// What was asked for: one number for each URL.
    pub object: u64,
    /// Bytes of the response.
    pub size: u64,
    /// Last-Modified, in seconds since 1970; 0 when it is not known.
    pub modified: u64,
    /// 0 when it is not known.
    pub status: u16,
    pub method: Method,
    /// Made by a program: the URL has a query or names a CGI. Where the trace tells, instead: no cache may store it.
    pub dynamic: bool,
    /// Empty where the trace has numbers alone.
    pub url: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Other,
}

/// Why a request is none that a cache could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    Method,
    Status,
    Dynamic,
    Empty,
}

impl Unusable {
    pub const ALL: [Unusable; 4] = [Unusable::Method, Unusable::Status, Unusable::Dynamic, Unusable::Empty];

    /// What such requests have in common.
    pub fn words(self) -> &'static str {
        match self {
            Unusable::Method => "of another method than GET",
            Unusable::Status => "of another status than 200",
            Unusable::Dynamic => "for a query or a CGI",
            Unusable::Empty => "of size 0",
        }
    }
}

impl Access {
    /// What Maltzahn left in his traces (4.3): answers 200 to GET, of no program.
    pub fn is_cacheable(&self) -> bool {
        matches!(self.unusable(), None | Some(Unusable::Empty))
    }

    /// The first reason, if there is one.
    pub fn unusable(&self) -> Option<Unusable> {
        match self {
            Access { method, .. } if *method != Method::Get => Some(Unusable::Method),
            Access { status, .. } if !matches!(*status, 0 | 200) => Some(Unusable::Status),
            Access { dynamic: true, .. } => Some(Unusable::Dynamic),
            Access { size: 0, .. } => Some(Unusable::Empty),
            _ => None,
        }
    }

    /// Takes a URL as the trace spells it, and what follows from it.
    pub fn set_url(&mut self, url: &[u8]) {
        self.url.clear();
        self.url.push_str(&String::from_utf8_lossy(url));
        self.object = hash(url);
        self.server = hash(host(&self.url).as_bytes());
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        self.directory =
            Some(hash(path.rsplit_once('/').map_or(path, |(directory, _)| directory).as_bytes()));
        self.dynamic = is_dynamic(&self.url);
    }

    /// Brings the URL, if there is one, to one [`spelling`], with the numbers that follow.
    pub fn respell(&mut self) {
        let dynamic = self.dynamic;
        match spelling(&self.url) {
            one if one == self.url => return,
            one => {
                let one = one.into_owned();
                self.set_url(one.as_bytes());
            }
        }
        // The trace may know better than the URL.
        self.dynamic = dynamic;
    }

    /// The URL, or one that tells this object and its server from all others.
    pub fn write_url(&self, into: &mut Vec<u8>) {
        match self.url.as_str() {
            "" => {
                into.extend_from_slice(format!("http://s{}.invalid/", self.server).as_bytes());
                if let Some(directory) = self.directory {
                    into.extend_from_slice(format!("{directory:x}/").as_bytes());
                }
                into.extend_from_slice(self.object.to_string().as_bytes());
                if self.dynamic {
                    into.push(b'?');
                }
            }
            url => into.extend_from_slice(url.as_bytes()),
        }
    }

    /// As for a new record: numbers are zero, text is empty but keeps its room.
    pub fn clear(&mut self) {
        let mut url = std::mem::take(&mut self.url);
        url.clear();
        *self = Access { url, ..Access::default() };
    }
}

impl Method {
    /// Whatever its case: HTTP tells `get` from `GET` (RFC 9110, 9.1), what writes logs often does not.
    pub fn of(name: &[u8]) -> Method {
        let known = [Method::Get, Method::Head, Method::Post];
        let is = |method: &Method| name.eq_ignore_ascii_case(method.name().as_bytes());
        known.into_iter().find(is).unwrap_or(Method::Other)
    }

    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Other => "OTHER",
        }
    }
}

/// The number of a name.
pub fn hash(name: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(name)
}

/// Host and port of a URL, without a user's name; empty when it is only a path.
pub fn host(url: &str) -> &str {
    // A path may have what looks like a scheme further on.
    let scheme = |scheme: &str| !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let Some((_, rest)) = url.split_once("://").filter(|(before, _)| scheme(before)) else { return "" };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Host and port of an authority without a user's name; what follows the last colon that is in no address in brackets.
pub fn host_and_port(authority: &str) -> (&str, &str) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (authority, ""),
    }
}

/// One spelling of a URL of http or https, as the cache's keys have it: scheme and host in lower case, a path, and neither the port that the
/// scheme has anyhow nor a fragment. What is none stays as it is, without a fragment.
pub fn spelling(url: &str) -> Cow<'_, str> {
    let url = url.split('#').next().unwrap_or_default();
    let parts = url.split_once("://");
    let known =
        parts.and_then(|(scheme, _)| SCHEMES.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name)));
    let (Some((said, rest)), Some((scheme, default))) = (parts, known) else { return url.into() };
    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (host, port) = host_and_port(authority);
    let is_address = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains('@') || (host.contains(':') && !is_address) {
        return url.into();
    }
    let is_plain = !authority.bytes().any(|byte| byte == b':' || byte.is_ascii_uppercase());
    if is_plain && said == *scheme && rest.starts_with('/') {
        return url.into();
    }
    let host = host.to_ascii_lowercase();
    let port = if port.is_empty() || port == *default { String::new() } else { format!(":{port}") };
    let slash = if rest.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{host}{port}{slash}{rest}").into()
}

/// With the port that each has if a URL says none.
const SCHEMES: [(&str, &str); 2] = [("http", "80"), ("https", "443")];

/// Whether a character of a name that others chose may be shown: neither a control nor one that ends a line or turns it around.
pub fn is_harmless(character: char) -> bool {
    let turns = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

fn is_dynamic(url: &str) -> bool {
    url.contains('?') || url.contains("cgi-bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_its_numbers() {
        let mut access = Access::default();
        access.set_url(b"http://a.test:8080/b/c.gif");
        assert_eq!((access.server, access.dynamic), (hash(b"a.test:8080"), false));
        let first = access.object;
        access.set_url(b"http://a.test:8080/b?x=1");
        assert!(access.dynamic && access.object != first);
        for path in ["/only/a/path", "/://a.test", "/a/http://b.test", "://a.test"] {
            access.set_url(path.as_bytes());
            assert_eq!(host(&access.url), "");
        }
        access.set_url(b"http://bare.test");
        assert_eq!(host(&access.url), "bare.test");
        access.set_url(b"http://me:secret@a.test:8080/b/c.gif");
        assert_eq!((access.server, host(&access.url)), (hash(b"a.test:8080"), "a.test:8080"));
    }

    #[test]
    fn a_url_has_one_spelling() {
        for same in [
            "http://a.test/B?c=%7e",
            "HTTP://A.test/B?c=%7e",
            "http://a.test:80/B?c=%7e#d",
            "http://a.test:/B?c=%7e#",
        ] {
            assert_eq!(spelling(same), "http://a.test/B?c=%7e", "{same}");
        }
        for (url, one) in [
            ("https://[::A]:443", "https://[::a]/"),
            ("http://a.test?b", "http://a.test/?b"),
            ("http://a.test:443/", "http://a.test:443/"),
            ("http://Me:Secret@A.test:80/", "http://Me:Secret@A.test:80/"),
            ("http://A.test:80:80/", "http://A.test:80:80/"),
            ("/a?b=HTTP://C.test:80/", "/a?b=HTTP://C.test:80/"),
            ("ftp://A.test/", "ftp://A.test/"),
            ("A.test:443", "A.test:443"),
            ("http://", "http://"),
            ("", ""),
        ] {
            assert_eq!(spelling(url), one);
            assert_eq!(spelling(one), one);
        }
        let mut access = Access::default();
        access.set_url(b"http://A.test:80/x?1");
        access.dynamic = false;
        access.respell();
        let plain = "http://a.test/x?1";
        assert_eq!((access.object, access.server), (hash(plain.as_bytes()), hash(b"a.test")));
        assert!(access.url == plain && !access.dynamic);
    }

    #[test]
    fn a_method_is_known_in_any_case() {
        let names: [&[u8]; 5] = [b"GET", b"get", b"Head", b"post", b"gets"];
        let methods = [Method::Get, Method::Get, Method::Head, Method::Post, Method::Other];
        assert_eq!(names.map(Method::of), methods);
    }

    #[test]
    fn what_cannot_be_cached_has_a_reason() {
        let one = Access { size: 1, status: 200, ..Access::default() };
        assert_eq!((one.unusable(), one.is_cacheable()), (None, true));
        let empty = Access { size: 0, ..one.clone() };
        assert_eq!((empty.unusable(), empty.is_cacheable()), (Some(Unusable::Empty), true));
        for (other, why) in [
            (Access { method: Method::Head, ..one.clone() }, Unusable::Method),
            (Access { status: 304, ..one.clone() }, Unusable::Status),
            (Access { dynamic: true, ..one.clone() }, Unusable::Dynamic),
        ] {
            assert_eq!((other.unusable(), other.is_cacheable()), (Some(why), false));
        }
    }

    #[test]
    fn numbers_become_a_url_that_tells_them_apart() {
        let access = Access { server: 3, object: 9, ..Access::default() };
        let mut url = Vec::new();
        access.write_url(&mut url);
        assert_eq!(url, b"http://s3.invalid/9");
        url.clear();
        Access { directory: Some(0xab), ..access }.write_url(&mut url);
        assert_eq!(url, b"http://s3.invalid/ab/9");
    }
}
