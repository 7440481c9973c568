//! Origins that speak HTTP/2: one by the library, one by raw frames.

use super::http2::{self, Came, PREFACE, SETTINGS};
use super::tls::{Authority, believing};
use super::{Client, Proxy};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{Request, Response};
use proxy::{OriginHttp2, Settings};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub type Asked = Request<RecvStream>;
pub type Respond = SendResponse<Bytes>;

/// An origin by the library: each request is answered in a task of its own.
pub struct Http2Origin {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Http2Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Http2Origin {
    /// Without TLS.
    pub async fn plain<F>(
        builder: Builder,
        answer: impl Fn(Asked, Respond) -> F + Clone + Send + 'static,
    ) -> Http2Origin
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Http2Origin::start(None, builder, answer).await
    }

    /// With a certificate for localhost. By `alpn` is offered what is spoken.
    pub async fn secure<F>(
        authority: &Authority,
        builder: Builder,
        answer: impl Fn(Asked, Respond) -> F + Clone + Send + 'static,
    ) -> Http2Origin
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut config = (*authority.server(authority.issue(&["localhost"]))).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Http2Origin::start(Some(TlsAcceptor::from(Arc::new(config))), builder, answer).await
    }

    async fn start<F>(
        tls: Option<TlsAcceptor>,
        builder: Builder,
        answer: impl Fn(Asked, Respond) -> F + Clone + Send + 'static,
    ) -> Http2Origin
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (opened, asked) = (connections.clone(), requests.clone());
        let task = tokio::spawn(async move {
            let mut all = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                opened.fetch_add(1, Ordering::SeqCst);
                stream.set_nodelay(true).unwrap();
                let (builder, answer, asked) = (builder.clone(), answer.clone(), asked.clone());
                match tls.clone() {
                    None => drop(all.spawn(serve(stream, builder, asked, answer))),
                    Some(tls) => drop(all.spawn(async move {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, builder, asked, answer).await;
                        }
                    })),
                }
            }
        });
        Http2Origin { address, connections, requests, task }
    }

    /// Connections and requests that came.
    pub fn count(&self) -> (usize, usize) {
        (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
    }
}

async fn serve<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    builder: Builder,
    asked: Arc<AtomicUsize>,
    answer: impl Fn(Asked, Respond) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let Ok(mut connection) = builder.handshake(stream).await else { return };
    let mut all = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        asked.fetch_add(1, Ordering::SeqCst);
        all.spawn(answer(request, respond));
    }
    while all.join_next().await.is_some() {}
}

/// A reverse proxy of one worker that asks by prior knowledge, with an operator's address.
pub fn before(address: SocketAddr, change: impl FnOnce(&mut Settings)) -> Proxy {
    Proxy::with(|settings| {
        settings.origin = Some(format!("http://{address}").parse().unwrap());
        settings.origin_http2 = OriginHttp2::PriorKnowledge;
        settings.workers = 1;
        settings.admin = "127.0.0.1:0".parse().ok();
        change(settings);
    })
}

/// The same that asks by TLS, as `localhost`.
pub fn before_secure(
    address: SocketAddr,
    authority: &Authority,
    change: impl FnOnce(&mut Settings),
) -> Proxy {
    before(address, |settings| {
        settings.origin = Some(format!("https://localhost:{}", address.port()).parse().unwrap());
        settings.origin_http2 = OriginHttp2::Auto;
        settings.origin_tls = believing(authority);
        change(settings);
    })
}

/// Answers with a head and, if there is any, content.
pub async fn answer(mut respond: Respond, head: Response<()>, content: impl Into<Bytes>) {
    let content = content.into();
    if let Ok(mut to) = respond.send_response(head, content.is_empty())
        && !content.is_empty()
    {
        http2::send(&mut to, content, true).await;
    }
}

/// A 200 that may be stored.
pub fn storable() -> Response<()> {
    Response::builder().header("cache-control", "max-age=1000").body(()).unwrap()
}

/// An origin by raw frames: what a connection gets is what `answer` makes of the stream of each request's head.
pub struct RawOrigin {
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for RawOrigin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection to a raw origin, behind the preface, with settings sent.
pub struct RawConnection(http2::Raw);

impl RawOrigin {
    pub async fn start<F>(answer: impl Fn(RawConnection, usize) -> F + Send + Sync + 'static) -> RawOrigin
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            let (mut all, mut number) = (JoinSet::new(), 0);
            while let Ok((stream, _)) = listener.accept().await {
                all.spawn(answer(RawConnection::begun(Client::of(stream)).await, number));
                number += 1;
            }
        });
        RawOrigin { address, task }
    }
}

impl RawConnection {
    pub async fn begun(mut client: Client) -> RawConnection {
        assert_eq!(client.exactly(PREFACE.len()).await, PREFACE);
        client.send([http2::frame(SETTINGS, 0, 0, &[]), http2::frame(SETTINGS, 1, 0, &[])].concat()).await;
        RawConnection(http2::Raw(client))
    }

    /// The stream of the next request's head.
    pub async fn request(&mut self) -> Option<u32> {
        self.next_of(&[http2::HEADERS]).await.map(|came| came.2)
    }

    pub async fn next_of(&mut self, kinds: &[u8]) -> Option<Came> {
        self.0.next_of(kinds).await
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.0.send(bytes).await;
    }

    /// Sends until the proxy has enough, or does not read.
    pub async fn flood(&mut self, bytes: &[u8], times: usize) -> bool {
        for _ in 0..times {
            if !self.0.0.try_send(bytes).await {
                return false;
            }
        }
        true
    }
}

/// A head with that status and these fields, on a stream.
pub fn head(stream: u32, flags: u8, status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let all: Vec<(&str, &str)> = [(":status", status)].into_iter().chain(fields.iter().copied()).collect();
    http2::frame(http2::HEADERS, http2::END_HEADERS | flags, stream, &http2::block(&all))
}

/// An origin that speaks both protocols on one port: `http2` has connections of that one, and others are answered with `http1`, whatever
/// they ask. Also how many of each came.
pub async fn both<F>(
    http2: impl Fn(RawConnection) -> F + Send + Sync + 'static,
    http1: &'static str,
) -> (RawOrigin, impl Fn() -> (usize, usize))
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::<[AtomicUsize; 2]>::default();
    let counted = counts.clone();
    let task = tokio::spawn(async move {
        let mut all = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let mut begin = [0; 3];
            while stream.peek(&mut begin).await.unwrap() < 3 {}
            let is_http2 = &begin == b"PRI";
            counted[usize::from(!is_http2)].fetch_add(1, Ordering::SeqCst);
            let mut client = Client::of(stream);
            if is_http2 {
                all.spawn(http2(RawConnection::begun(client).await));
            } else {
                all.spawn(async move {
                    while client.head().await.is_some() {
                        client.send(http1).await;
                    }
                });
            }
        }
    });
    let counts = move || (counts[0].load(Ordering::SeqCst), counts[1].load(Ordering::SeqCst));
    (RawOrigin { address, task }, counts)
}
