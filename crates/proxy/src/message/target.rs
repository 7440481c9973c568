//! What a request asks for (RFC 9112 sections 3.2 and 3.2.2). Where it is sent next is another matter (`route`).

use crate::authority::host_and_port;
use crate::message::refusal::Refusal;
use crate::scheme::Scheme;
use crate::settings::{OriginHost, Settings};
use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use std::borrow::Cow;
use store::Key;

/// The resource of a request.
#[derive(Clone, Debug)]
pub struct Target {
    pub scheme: Scheme,
    host: Host,
    pub path: PathAndQuery,
}

/// Whose resource it is.
#[derive(Clone, Debug)]
enum Host {
    /// Of a URL, as a forward proxy gets it.
    Url(Authority),
    /// As a reverse proxy names it to its origin.
    Named(HeaderValue),
}

/// Whom a reverse proxy names to its origin. Each worker has its own: nothing that it clones for a request is counted by
/// another worker too.
pub struct Reverse {
    /// The origin's own host, as it is configured.
    own: HeaderValue,
    host: OriginHost,
}

impl Reverse {
    /// `None` for a forward proxy.
    pub fn new(settings: &Settings) -> Option<Reverse> {
        let origin = settings.origin.as_ref()?;
        let host = match &settings.origin_host {
            OriginHost::Name(name) => OriginHost::Name(copied(name)),
            other => other.clone(),
        };
        Some(Reverse { own: origin.host(), host })
    }

    /// Clients see what they asked for, and may be told so.
    pub fn names_clients_host(&self) -> bool {
        self.host == OriginHost::Client
    }
}

impl Target {
    /// Reads the target of a request that is not `CONNECT`. Of a reverse proxy, the scheme is the one by which the client asks: origins
    /// are told of it, and may answer by it.
    pub fn of(request: &Parts, asked_by: Scheme, reverse: Option<&Reverse>) -> Result<Target, Refusal> {
        let host = host_field(&request.headers, request.version)?;
        let uri = &request.uri;
        if uri.path() == "*" && request.method != Method::OPTIONS {
            return Err(Refusal::bad_request("only OPTIONS can be asked of `*`"));
        }
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        match (reverse, uri.authority()) {
            (Some(reverse), authority) => {
                let named = match &reverse.host {
                    OriginHost::Client => clients_host(uri, authority, host)?,
                    OriginHost::Origin => None,
                    OriginHost::Name(name) => Some(name.clone()),
                };
                let host = Host::Named(named.unwrap_or_else(|| reverse.own.clone()));
                Ok(Target { scheme: asked_by, host, path })
            }
            (None, Some(authority)) => {
                let scheme = scheme_of(uri)?;
                plain(authority)?;
                Ok(Target { scheme, host: Host::Url(authority.clone()), path })
            }
            (None, None) => Err(Refusal::bad_request(
                "this is a forward proxy: send it absolute URLs (set it as HTTP proxy), \
                 or start it with --origin to make it a reverse proxy",
            )),
        }
    }

    /// The host that keys have and the origin is told.
    pub fn host(&self) -> &str {
        match &self.host {
            Host::Url(authority) => authority.as_str(),
            Host::Named(named) => named.to_str().unwrap_or_default(),
        }
    }

    /// The server that a URL names, for those who ask it themselves; a reverse proxy's origin is known without.
    pub fn authority(&self) -> Option<&Authority> {
        match &self.host {
            Host::Url(authority) => Some(authority),
            Host::Named(_) => None,
        }
    }

    /// The host as keys have it: what the origin is told too.
    pub fn host_field(&self) -> Option<HeaderValue> {
        let host = cache::key::authority(self.scheme.as_str(), self.host());
        match &self.host {
            Host::Named(named) if host.len() == named.len() && matches!(host, Cow::Borrowed(_)) => {
                Some(named.clone())
            }
            _ => HeaderValue::from_str(&host).ok(),
        }
    }

    /// The same of another scheme: what names this one's default port names none, or that of the other.
    pub fn with(&self, scheme: Scheme) -> Target {
        let host = match &self.host {
            Host::Named(_) => self.host_field().map(Host::Named),
            Host::Url(_) => None,
        };
        Target { scheme, host: host.unwrap_or_else(|| self.host.clone()), path: self.path.clone() }
    }

    /// The key of its GET.
    pub fn primary_key(&self) -> Key {
        Key::new(cache::key::primary(self.scheme.as_str(), self.host(), self.path.as_str()))
    }
}

/// The same in memory of its own.
fn copied(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

/// Where `CONNECT` shall lead: a host and a port, and nothing else (RFC 9112 section 3.2.3).
pub fn of_connect(uri: &Uri) -> Result<(&Authority, u16), Refusal> {
    let authority = uri.authority().filter(|_| uri.scheme().is_none());
    let found = authority.and_then(|authority| Some((authority, host_and_port(authority.as_str())?.1?)));
    found.ok_or_else(|| Refusal::bad_request("CONNECT needs host:port"))
}

fn scheme_of(uri: &Uri) -> Result<Scheme, Refusal> {
    let found = uri.scheme_str().and_then(Scheme::of);
    found.ok_or_else(|| Refusal::bad_request("only http and https URLs can be fetched"))
}

/// Whom the client of a reverse proxy asks, if it says so (RFC 9112 section 3.2.2: the URL counts before the field).
fn clients_host(
    uri: &Uri,
    authority: Option<&Authority>,
    field: Option<&HeaderValue>,
) -> Result<Option<HeaderValue>, Refusal> {
    if let Some(authority) = authority {
        if uri.scheme().is_none() {
            return Err(Refusal::bad_request("only CONNECT takes a host and no path"));
        }
        plain(authority)?;
        return Ok(HeaderValue::from_str(authority.as_str()).ok());
    }
    let Some(field) = field.filter(|field| !field.is_empty()) else { return Ok(None) };
    match field.to_str().ok().and_then(host_and_port) {
        Some(_) => Ok(Some(field.clone())),
        None => Err(Refusal::closing("the Host field is not a host")),
    }
}

fn plain(authority: &Authority) -> Result<(), Refusal> {
    match host_and_port(authority.as_str()) {
        Some(_) => Ok(()),
        None => {
            Err(Refusal::bad_request("the URL names no host, or more than a host and a port up to 65535"))
        }
    }
}

/// Exactly one Host field with a plausible value; HTTP/1.0 may have none.
pub fn host_field(headers: &HeaderMap, version: Version) -> Result<Option<&HeaderValue>, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Err(Refusal::closing("more than one Host field")),
        (Some(host), None) if !is_host(host.as_bytes()) => {
            Err(Refusal::closing("the Host field is not a host"))
        }
        // HTTP/2 has it in `:authority`, which is there then (`client::http2`).
        (None, _) if version == Version::HTTP_11 => Err(Refusal::closing("the Host field is missing")),
        (host, _) => Ok(host),
    }
}

/// An empty Host is what RFC 9110 section 7.2 asks for when the target has no authority.
fn is_host(value: &[u8]) -> bool {
    value.iter().all(|byte| IN_HOST[usize::from(*byte)])
}

/// What may stand in a Host field at all: it is looked at for every request.
const IN_HOST: [bool; 256] = {
    let other = br#"/?#@,\"<>{}|^`"#;
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_graphic();
        byte += 1;
    }
    let mut n = 0;
    while n < other.len() {
        table[other[n] as usize] = false;
        n += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    /// Host and path.
    fn target(uri: &str, hosts: &[&str], version: Version, reverse: Option<&Reverse>) -> Result<String, u16> {
        let mut request = Request::builder().uri(uri).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        Target::of(&parts, Scheme::Http, reverse)
            .map(|target| format!("{}{}", target.host(), target.path))
            .map_err(|refusal| refusal.status.as_u16())
    }

    fn reverse(host: &str) -> Reverse {
        let (origin, origin_host) = (Some("http://o:8".parse().unwrap()), host.parse().unwrap());
        Reverse::new(&Settings { origin, origin_host, ..Settings::default() }).unwrap()
    }

    type Row = (&'static str, &'static [&'static str], Version, Result<&'static str, u16>);

    #[test]
    fn rfc9112_3_2() {
        use Version as V;
        let table: &[Row] = &[
            ("http://a:81/p?q", &["a:81"], V::HTTP_11, Ok("a:81/p?q")),
            ("http://a/p", &["other"], V::HTTP_11, Ok("a/p")),
            ("http://a", &["a"], V::HTTP_11, Ok("a/")),
            ("http://a/", &[], V::HTTP_10, Ok("a/")),
            ("http://a/", &[], V::HTTP_11, Err(400)),
            ("http://a/", &["a", "a"], V::HTTP_11, Err(400)),
            ("http://a/", &["a b"], V::HTTP_11, Err(400)),
            ("http://a/", &["a, b"], V::HTTP_11, Err(400)),
            ("http://u:p@a/", &["a"], V::HTTP_11, Err(400)),
            ("http://a:/", &["a"], V::HTTP_11, Ok("a:/")),
            ("http://a:65536/", &["a"], V::HTTP_11, Err(400)),
            ("http://a:+81/", &["a"], V::HTTP_11, Err(400)),
            ("http://[::1]:81+/", &["a"], V::HTTP_11, Err(400)),
            ("http://:81/", &["a"], V::HTTP_11, Err(400)),
            ("http://[]:81/", &["a"], V::HTTP_11, Err(400)),
            ("http://[::1]8:81/", &["a"], V::HTTP_11, Err(400)),
            ("http://[::1]:81/", &["a"], V::HTTP_11, Ok("[::1]:81/")),
            ("https://a/", &["a"], V::HTTP_11, Ok("a/")),
            ("ftp://a/", &["a"], V::HTTP_11, Err(400)),
            ("ftp://a/", &["a"], V::HTTP_11, Err(400)),
            ("/p", &["a"], V::HTTP_11, Err(400)),
        ];
        for (uri, hosts, version, expected) in table {
            assert_eq!(target(uri, hosts, *version, None), expected.map(str::to_owned), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn a_reverse_proxy_names_the_clients_host_to_its_origin() {
        use Version as V;
        let table: &[Row] = &[
            ("/p", &["a"], V::HTTP_11, Ok("a/p")),
            ("/p", &["a:80"], V::HTTP_11, Ok("a:80/p")),
            ("/p", &["[::1]:80"], V::HTTP_11, Ok("[::1]:80/p")),
            ("http://x/p", &["a"], V::HTTP_11, Ok("x/p")),
            ("/p", &[], V::HTTP_10, Ok("o:8/p")),
            ("/p", &[""], V::HTTP_11, Ok("o:8/p")),
            ("/p", &[], V::HTTP_11, Err(400)),
            ("/p", &["a:b"], V::HTTP_11, Err(400)),
            ("/p", &["a:1:2"], V::HTTP_11, Err(400)),
            ("/p", &[":80"], V::HTTP_11, Err(400)),
            ("/p", &["[::1"], V::HTTP_11, Err(400)),
            ("/p", &["[x]"], V::HTTP_11, Err(400)),
            ("http://u@x/p", &["a"], V::HTTP_11, Err(400)),
            ("a", &["a"], V::HTTP_11, Err(400)),
            ("*", &["a"], V::HTTP_11, Err(400)),
        ];
        let client = reverse("client");
        for (uri, hosts, version, expected) in table {
            let found = target(uri, hosts, *version, Some(&client));
            assert_eq!(found, expected.map(str::to_owned), "{uri} {hosts:?}");
        }
        for (host, expected) in [("origin", "o:8/p"), ("Www.a:81", "www.a:81/p")] {
            let found = target("/p", &["evil"], V::HTTP_11, Some(&reverse(host)));
            assert_eq!(found.as_deref(), Ok(expected));
        }
    }

    #[test]
    fn the_star_is_for_options() {
        let (client, request) =
            (reverse("client"), Request::options("*").header(HOST, "a").body(()).unwrap());
        let target = Target::of(&request.into_parts().0, Scheme::Http, Some(&client)).unwrap();
        assert_eq!((target.host(), target.path.as_str()), ("a", "*"));
    }

    #[test]
    fn rfc9112_3_2_3_connect() {
        for (uri, expected) in [
            ("host:443", Some(443)),
            ("[::1]:443", Some(443)),
            ("host", None),
            ("host:", None),
            ("u@host:443", None),
            ("u:p@host:443", None),
            ("host:+443", None),
            ("host:0443x", None),
            ("host:65536", None),
            (":443", None),
            ("http://host:443", None),
            ("http://host:443/", None),
            ("/host:443", None),
            ("*", None),
        ] {
            // What the library does not take does not come here.
            let port = uri.parse::<Uri>().ok().and_then(|uri| of_connect(&uri).ok().map(|(_, port)| port));
            assert_eq!(port, expected, "{uri}");
        }
    }
}
