//! How an authority is asked: one request a connection, over TLS, each within a time and a size.

use http::header::{HOST, HeaderMap, HeaderValue, RETRY_AFTER};
use http::response::Parts;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient, Problem};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// For one request, with its connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// For a connection to one of the addresses that a host has: another one may be reached.
const CONNECT: Duration = Duration::from_secs(5);
/// Seconds that an authority may want to be let alone.
const LONGEST: u64 = 24 * 3600;
/// Bytes of an answer: a chain is a few thousand.
const MOST: usize = 1 << 20;

type Sent = hyper::body::Bytes;

pub struct Network {
    config: Arc<ClientConfig>,
}

impl Network {
    /// By what is believed of the authority's certificate.
    pub fn new(config: &Arc<ClientConfig>) -> Network {
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Network { config: Arc::new(config) }
    }
}

impl HttpClient for Network {
    fn request(
        &self,
        request: Request<BodyWrapper<Sent>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let config = self.config.clone();
        Box::pin(async move {
            let asked = request.uri().to_string();
            let signed = request.method() == Method::POST;
            let told = |why: String| Error::Other(format!("{asked}: {why}").into());
            let answer = timeout(PATIENCE, send(config, request)).await;
            let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
            let (parts, body) = answer.map_err(told)?;
            match refusal(parts.status, &body, &asked, signed) {
                Some(error) => Err(error),
                None => Ok(BytesResponse { parts, body: Box::new(body) }),
            }
        })
    }
}

async fn send(
    config: Arc<ClientConfig>,
    mut request: Request<BodyWrapper<Sent>>,
) -> Result<(Parts, Sent), String> {
    let uri = request.uri();
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("https"));
    let authority = authority.ok_or("it is not asked by https")?.clone();
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
    let field = HeaderValue::try_from(authority.as_str()).map_err(|error| error.to_string())?;
    request.headers_mut().insert(HOST, field);
    let socket = connect(&host, authority.port_u16().unwrap_or(443)).await;
    let socket = socket.map_err(|error| format!("cannot connect: {error}"))?;
    let secure = TlsConnector::from(config).connect(name, socket);
    let secure = secure.await.map_err(|error| format!("no TLS: {error}"))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(secure)).await.map_err(|error| error.to_string())?;
    let exchange = async move {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (mut parts, body) = answer.into_parts();
        let body = Limited::new(body, MOST).collect().await.map_err(|error| error.to_string())?.to_bytes();
        bound(&mut parts.headers);
        check(&body)?;
        Ok((parts, body))
    };
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        _ = connection => exchange.await,
    }
}

/// By the first address that takes it.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the host has no address");
    for address in lookup_host((host, port)).await? {
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

/// What an answer that is no success says. `instant-acme` looks for problems (RFC 8555 section 6.7) in answers to what is `signed`
/// alone, and reads everything else as what it asked for.
fn refusal(status: StatusCode, body: &[u8], asked: &str, signed: bool) -> Option<Error> {
    if status.is_success() {
        return None;
    }
    let problem = serde_json::from_slice::<Problem>(body).ok().filter(|problem| problem.r#type.is_some());
    match problem {
        Some(_) if signed => None,
        Some(problem) => Some(Error::Api(problem)),
        None => {
            let kind =
                (status == StatusCode::TOO_MANY_REQUESTS).then_some("urn:ietf:params:acme:error:rateLimited");
            let problem = json!({ "type": kind.unwrap_or("about:blank"), "detail": format!("{asked} answered {status}") });
            Some(serde_json::from_value(problem).map_or_else(Error::Json, Error::Api))
        }
    }
}

/// `instant-acme` adds what Retry-After says to the time, and panics where there is no such time.
fn bound(headers: &mut HeaderMap) {
    let Some(text) = headers.get(RETRY_AFTER).and_then(|field| field.to_str().ok()) else { return };
    let text = text.trim();
    let is_long = match text.parse::<u64>() {
        Ok(seconds) => seconds > LONGEST,
        Err(_) => text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty(),
    };
    if is_long {
        headers.insert(RETRY_AFTER, LONGEST.into());
    }
}

/// Nor does it expect anything but a URL in a directory's `newNonce`.
fn check(body: &[u8]) -> Result<(), String> {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(url) = told["newNonce"].as_str() else { return Ok(()) };
    match url.parse::<Uri>().is_ok_and(|url| url.scheme_str() == Some("https")) {
        true => Ok(()),
        false => Err("its directory is of no use: newNonce is no URL with https".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_cannot_be_let_alone_for_ever() {
        for (says, is) in [
            ("5", "5"),
            ("86400", "86400"),
            ("86401", "86400"),
            ("9999999999999999999", "86400"),
            ("+9999999999999999999", "86400"),
            (" 99999999999999999999999 ", "86400"),
            ("Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"),
            ("-1", "-1"),
            ("", ""),
        ] {
            let mut headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(says))]);
            bound(&mut headers);
            assert_eq!(headers[RETRY_AFTER], is, "{says}");
        }
        let mut headers = HeaderMap::new();
        bound(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn what_is_no_success_is_told_as_it_is() {
        let limited = br#"{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many"}"#;
        let said = |status, body: &[u8], signed| {
            refusal(StatusCode::from_u16(status).unwrap(), body, "https://a/dir", signed).map(|error| {
                match error {
                    Error::Api(problem) => (problem.r#type.unwrap(), problem.detail.unwrap()),
                    error => panic!("{error}"),
                }
            })
        };
        let rate = "urn:ietf:params:acme:error:rateLimited";
        assert_eq!(said(200, b"<html>", false), None);
        assert_eq!(said(429, limited, true), None, "the library reads it");
        assert_eq!(said(503, limited, false), Some((rate.into(), "too many".into())));
        for signed in [false, true] {
            let answered = "https://a/dir answered 429 Too Many Requests";
            assert_eq!(said(429, b"slow down", signed), Some((rate.into(), answered.into())));
            let answered = "https://a/dir answered 302 Found";
            assert_eq!(said(302, b"", signed), Some(("about:blank".into(), answered.into())));
        }
    }

    #[test]
    fn a_directory_has_urls() {
        for fine in
            ["", "{}", "[]", "-----BEGIN", r#"{"newNonce": 5}"#, r#"{"newNonce": "https://a.example/n"}"#]
        {
            check(fine.as_bytes()).unwrap();
        }
        for wrong in ["https://a b/", "", "/nonce", "http://a.example/n", "https://a.example/ "] {
            let body = format!(r#"{{"newNonce": "{wrong}"}}"#);
            assert!(check(body.as_bytes()).is_err_and(|why| why.lines().count() == 1), "{wrong}");
        }
    }

    #[tokio::test]
    async fn the_first_address_that_takes_it_is_used() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Of ::1 and 127.0.0.1, as far as a host has both.
        connect("localhost", port).await.unwrap();
        drop(listener);
        assert!(connect("localhost", port).await.is_err());
    }
}
