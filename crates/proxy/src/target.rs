//! Where a request is meant to go (RFC 9112 sections 3.2 and 3.2.2).

use crate::respond::Refusal;
use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, StatusCode, Uri, Version};

/// The origin of a request and the resource at it. Only `http` so far: `https` goes through `CONNECT`.
#[derive(Clone, Debug)]
pub struct Target {
    pub authority: Authority,
    pub path: PathAndQuery,
}

/// The scheme of every target.
pub const SCHEME: &str = "http";

impl Target {
    /// Reads the target of a request that is not `CONNECT`. With `reverse`, every request is for that origin.
    pub fn of(request: &Parts, reverse: Option<&Authority>) -> Result<Target, Refusal> {
        check_host(&request.headers, request.version)?;
        let uri = &request.uri;
        let authority = match (reverse, uri.authority()) {
            (Some(origin), _) => origin.clone(),
            (None, Some(authority)) => of_absolute(uri, authority)?,
            (None, None) => {
                return Err(Refusal::bad_request(
                    "this is a forward proxy: send it absolute URLs (set it as HTTP proxy), \
                     or start it with --origin to make it a reverse proxy",
                ));
            }
        };
        let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Target { authority, path })
    }

    /// The value of the Host field that goes to the origin.
    pub fn host(&self) -> &str {
        self.authority.as_str()
    }

    pub fn port(&self) -> u16 {
        self.authority.port_u16().unwrap_or(80)
    }
}

/// Whether an authority is a host and no more, or a port behind it that is one. The library takes any characters
/// there, and then knows no port.
pub fn has_plain_port(authority: &Authority) -> bool {
    let without_user = authority.as_str().rsplit('@').next().unwrap_or("");
    match without_user.strip_prefix(authority.host()).map(|rest| (rest, rest.strip_prefix(':'))) {
        Some(("", _) | (_, Some(""))) => true,
        Some((_, Some(port))) => port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok(),
        _ => false,
    }
}

/// The host of an authority as a resolver takes it: without the brackets of an IPv6 address.
pub fn bare_host(authority: &Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}

fn of_absolute(uri: &Uri, authority: &Authority) -> Result<Authority, Refusal> {
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(Refusal::new(
                StatusCode::NOT_IMPLEMENTED,
                "https origins are reached with CONNECT only: this proxy does not speak TLS to origins yet",
            ));
        }
        _ => return Err(Refusal::bad_request("only http URLs can be fetched")),
    }
    if authority.as_str().contains('@') {
        return Err(Refusal::bad_request("the URL carries user information"));
    }
    if bare_host(authority).is_empty() {
        return Err(Refusal::bad_request("the URL has no host"));
    }
    if !has_plain_port(authority) {
        return Err(Refusal::bad_request("the URL's port is not a number up to 65535"));
    }
    Ok(authority.clone())
}

/// Exactly one Host field with a plausible value; HTTP/1.0 may have none.
fn check_host(headers: &HeaderMap, version: Version) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Err(Refusal::closing("more than one Host field")),
        (Some(host), None) if !is_host(host.as_bytes()) => {
            Err(Refusal::closing("the Host field is not a host"))
        }
        (None, _) if version >= Version::HTTP_11 => Err(Refusal::closing("the Host field is missing")),
        _ => Ok(()),
    }
}

/// An empty Host is what RFC 9110 section 7.2 asks for when the target has no authority.
fn is_host(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_graphic() && !b"/?#@,\\\"<>{}|^`".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn target(
        uri: &str,
        hosts: &[&str],
        version: Version,
        reverse: Option<&'static str>,
    ) -> Result<String, u16> {
        let mut request = Request::builder().uri(uri).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let reverse = reverse.map(Authority::from_static);
        Target::of(&parts, reverse.as_ref())
            .map(|target| format!("{}{}", target.authority, target.path))
            .map_err(|refusal| refusal.status.as_u16())
    }

    #[test]
    fn rfc9112_3_2() {
        use Version as V;
        type Row =
            (&'static str, &'static [&'static str], Version, Option<&'static str>, Result<&'static str, u16>);
        let table: &[Row] = &[
            ("http://a:81/p?q", &["a:81"], V::HTTP_11, None, Ok("a:81/p?q")),
            ("http://a/p", &["other"], V::HTTP_11, None, Ok("a/p")),
            ("http://a", &["a"], V::HTTP_11, None, Ok("a/")),
            ("http://a/", &[], V::HTTP_10, None, Ok("a/")),
            ("http://a/", &[], V::HTTP_11, None, Err(400)),
            ("http://a/", &["a", "a"], V::HTTP_11, None, Err(400)),
            ("http://a/", &["a b"], V::HTTP_11, None, Err(400)),
            ("http://a/", &["a, b"], V::HTTP_11, None, Err(400)),
            ("http://u:p@a/", &["a"], V::HTTP_11, None, Err(400)),
            ("http://a:/", &["a"], V::HTTP_11, None, Ok("a:/")),
            ("http://a:65536/", &["a"], V::HTTP_11, None, Err(400)),
            ("http://a:+81/", &["a"], V::HTTP_11, None, Err(400)),
            ("http://[::1]:81+/", &["a"], V::HTTP_11, None, Err(400)),
            ("http://:81/", &["a"], V::HTTP_11, None, Err(400)),
            ("http://[]:81/", &["a"], V::HTTP_11, None, Err(400)),
            ("http://[::1]8:81/", &["a"], V::HTTP_11, None, Err(400)),
            ("http://[::1]:81/", &["a"], V::HTTP_11, None, Ok("[::1]:81/")),
            ("https://a/", &["a"], V::HTTP_11, None, Err(501)),
            ("ftp://a/", &["a"], V::HTTP_11, None, Err(400)),
            ("/p", &["a"], V::HTTP_11, None, Err(400)),
            ("/p", &["a"], V::HTTP_11, Some("o:8"), Ok("o:8/p")),
            ("http://x/p", &["a"], V::HTTP_11, Some("o:8"), Ok("o:8/p")),
            ("*", &["a"], V::HTTP_11, Some("o:8"), Ok("o:8*")),
        ];
        for (uri, hosts, version, reverse, expected) in table {
            let expected = expected.map(str::to_owned);
            assert_eq!(target(uri, hosts, *version, *reverse), expected, "{uri} {hosts:?} {reverse:?}");
        }
    }
}
