//! Has the tests of HTTP/1 ask by HTTP/2: what they send to a port goes on over a connection of HTTP/2 of its own.
//!
//! What only HTTP/1 can say is not translated: ambiguous framing, HTTP/1.0, tunnels.

use super::http2::Http2;
use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::net::TcpListener;

/// Tests whose name ends so ask by HTTP/2.
const SUFFIX: &str = "_over_http2";

/// Whether this program's tests do.
pub fn is_wanted() -> bool {
    env!("CARGO_CRATE_NAME").ends_with(SUFFIX)
}

/// A port before a proxy's, for as long as the runtime of a test is there.
pub fn before(proxy: SocketAddr) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let to = Http2::connect(proxy).await;
                let service = service_fn(|request| ask(to.requests.clone(), request));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

async fn ask(
    requests: h2::client::SendRequest<Bytes>,
    request: Request<Incoming>,
) -> Result<Response<Came>, io::Error> {
    let (mut parts, mut content) = request.into_parts();
    if parts.uri.authority().is_none() {
        let host = parts.headers.get(HOST).map_or("", |host| host.to_str().unwrap());
        let uri = Uri::builder()
            .scheme("http")
            .authority(host)
            .path_and_query(parts.uri.path_and_query().unwrap().clone());
        parts.uri = uri.build().map_err(io::Error::other)?;
    }
    let closes = parts.headers.get(CONNECTION).is_some_and(|value| value == "close");
    for name in ["connection", "host", "transfer-encoding", "keep-alive", "upgrade", "te"] {
        parts.headers.remove(name);
    }
    parts.version = http::Version::HTTP_2;
    let is_over = content.is_end_stream();
    let mut requests = requests.ready().await.map_err(io::Error::other)?;
    let (response, mut to) =
        requests.send_request(Request::from_parts(parts, ()), is_over).map_err(io::Error::other)?;
    if !is_over {
        tokio::spawn(async move {
            while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut content).poll_frame(cx)).await
            {
                let Ok(bytes) = frame.into_data() else { continue };
                super::http2::send(&mut to, bytes, false).await;
            }
            let _ = to.send_data(Bytes::new(), true);
        });
    }
    let (mut head, stream) = response.await.map_err(io::Error::other)?.into_parts();
    if closes {
        head.headers.insert(CONNECTION, http::HeaderValue::from_static("close"));
    }
    let length = head.headers.get("content-length").and_then(|length| length.to_str().ok()?.parse().ok());
    head.version = http::Version::HTTP_11;
    Ok(Response::from_parts(head, Came { stream, left: length, broken: None }))
}

/// What comes of a response.
struct Came {
    stream: h2::RecvStream,
    left: Option<u64>,
    /// It broke off, and what came before goes out first.
    broken: Option<h2::Error>,
}

impl Body for Came {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(io::Error::other(error))));
        }
        let bytes = match ready!(self.stream.poll_data(cx)) {
            None => return Poll::Ready(None),
            Some(Ok(bytes)) => bytes,
            Some(Err(error)) => {
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        self.stream.flow_control().release_capacity(bytes.len()).map_err(io::Error::other)?;
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
