//! One connection to the proxy, on which a request follows the other.

use super::outcome::Outcome;
use http::header::{HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use proxy::Address;
use std::io;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// For a connection, and between any two parts of a response.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whom each request goes to, and what it has.
pub struct Target {
    pub proxy: Address,
    pub fields: HeaderMap,
}

/// Made when it is needed, and again when the proxy has closed it.
#[derive(Default)]
pub struct Connection(Option<SendRequest<Empty<Bytes>>>);

impl Connection {
    /// Asks for a URL, and reads the response to its end.
    ///
    /// # Errors
    /// There is no proxy.
    pub async fn get(&mut self, target: &Target, url: &Uri) -> Result<Outcome, String> {
        // One that has waited may have been closed meanwhile.
        let mut was_kept = self.0.as_ref().is_some_and(|sender| !sender.is_closed());
        loop {
            let mut sender = match self.0.take().filter(|sender| !sender.is_closed()) {
                Some(sender) => sender,
                None => self.connect(&target.proxy).await?,
            };
            let sent = async {
                sender.ready().await.map_err(describe)?;
                sender.send_request(request(target, url)).await.map_err(describe)
            };
            match timeout(PATIENCE, sent).await {
                Ok(Ok(response)) => {
                    return Ok(match read(response).await {
                        Ok(outcome) => {
                            self.0 = Some(sender);
                            outcome
                        }
                        Err(why) => Outcome::Failed(why),
                    });
                }
                Ok(Err(_)) if was_kept => was_kept = false,
                Ok(Err(why)) => return Ok(Outcome::Failed(why)),
                Err(_) => return Ok(Outcome::Failed(late())),
            }
        }
    }

    async fn connect(&self, to: &Address) -> Result<SendRequest<Empty<Bytes>>, String> {
        let connecting = async {
            match to {
                Address::Tcp(address) => over(TcpStream::connect(address).await?).await,
                Address::Unix(path) => over(UnixStream::connect(path.as_ref()).await?).await,
            }
        };
        let connected = timeout(PATIENCE, connecting).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()));
        connected.map_err(|error| {
            format!("no proxy answers on {to} ({error}): start cosm serve, or say with --proxy where it is")
        })
    }
}

async fn over<S>(stream: S) -> io::Result<SendRequest<Empty<Bytes>>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    spawn_local(async move { drop(connection.await) });
    Ok(sender)
}

/// In absolute form, which forward and reverse proxies take (RFC 9112 section 3.2.2).
fn request(target: &Target, url: &Uri) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = url.clone();
    let headers = request.headers_mut();
    let host = url.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
    headers.extend(host.map(|host| (HOST, host)));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("cosm-warm/", env!("CARGO_PKG_VERSION"))));
    for name in target.fields.keys() {
        headers.remove(name);
    }
    for (name, value) in &target.fields {
        headers.append(name, value.clone());
    }
    request
}

/// Unless it breaks off.
async fn read(response: Response<Incoming>) -> Result<Outcome, String> {
    let (parts, mut body) = response.into_parts();
    let mut bytes = 0;
    loop {
        match timeout(PATIENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => bytes += frame.data_ref().map_or(0, |data| data.len() as u64),
            Ok(Some(Err(error))) => return Err(format!("the response broke off: {error}")),
            Ok(None) => return Ok(Outcome::of(parts.status, &parts.headers, bytes)),
            Err(_) => return Err(late()),
        }
    }
}

fn late() -> String {
    format!("nothing came within {} s", PATIENCE.as_secs())
}

fn describe(error: hyper::Error) -> String {
    format!("no response: {error}")
}
