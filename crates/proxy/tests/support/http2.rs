//! Clients that speak HTTP/2: one by the library, one by raw frames.

use super::{Client, soon};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use std::future::poll_fn;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

pub struct Http2 {
    pub requests: SendRequest<Bytes>,
    pub ended: JoinHandle<Result<(), h2::Error>>,
}

/// A response, whole, or as much as came before a reset.
#[derive(Debug)]
pub struct Answer {
    pub head: Response<()>,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
    pub reset: Option<Reason>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.headers().get(name).map(|value| value.to_str().unwrap())
    }

    pub fn status(&self) -> u16 {
        self.head.status().as_u16()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn cache_status(&self) -> &str {
        super::without_ttl(self.field("cache-status").unwrap_or_else(|| panic!("{:?}", self.head)))
    }
}

impl Http2 {
    pub async fn connect(address: SocketAddr) -> Http2 {
        Http2::with(address, &Builder::new()).await
    }

    pub async fn with(address: SocketAddr, builder: &Builder) -> Http2 {
        let stream = soon(TcpStream::connect(address)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Http2::over(stream, builder).await
    }

    pub async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        builder: &Builder,
    ) -> Http2 {
        let (requests, connection) = soon(builder.handshake(stream)).await.unwrap();
        Http2 { requests, ended: tokio::spawn(connection) }
    }

    /// Sends a head; what is to come of the response, and where content goes.
    pub async fn begin(
        &mut self,
        request: Request<()>,
        is_over: bool,
    ) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
        self.requests = soon(self.requests.clone().ready()).await.unwrap();
        self.requests.send_request(request, is_over).unwrap()
    }

    pub async fn ask(&mut self, request: Request<()>) -> Answer {
        let (response, _) = self.begin(request, true).await;
        answer(response).await.unwrap()
    }

    pub async fn get(&mut self, url: impl AsRef<str>) -> Answer {
        self.ask(get(url)).await
    }
}

pub fn get(url: impl AsRef<str>) -> Request<()> {
    Request::get(url.as_ref()).body(()).unwrap()
}

/// `Err`: what ended the stream before its head came.
pub async fn answer(response: h2::client::ResponseFuture) -> Result<Answer, h2::Error> {
    let (head, mut content) = soon(response).await?.into_parts();
    let (body, reset) = rest(&mut content).await;
    let trailers = if reset.is_none() { soon(content.trailers()).await.unwrap() } else { None };
    Ok(Answer { head: Response::from_parts(head, ()), body, trailers, reset })
}

/// Reads a body to its end.
pub async fn rest(content: &mut RecvStream) -> (Vec<u8>, Option<Reason>) {
    let mut body = Vec::new();
    loop {
        match soon(content.data()).await {
            None => return (body, None),
            Some(Ok(bytes)) => {
                body.extend_from_slice(&bytes);
                content.flow_control().release_capacity(bytes.len()).unwrap();
            }
            Some(Err(error)) => return (body, error.reason().or(Some(Reason::INTERNAL_ERROR))),
        }
    }
}

/// Sends content as there is room for it.
pub async fn send(to: &mut SendStream<Bytes>, mut content: Bytes, is_over: bool) {
    while !content.is_empty() {
        to.reserve_capacity(content.len());
        let room = match to.capacity() {
            0 => soon(poll_fn(|cx| to.poll_capacity(cx))).await.unwrap().unwrap(),
            room => room,
        };
        let some = content.split_to(room.min(content.len()));
        let is_last = is_over && content.is_empty();
        to.send_data(some, is_last).unwrap();
    }
}

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// RFC 9113 section 4.1.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Fields that no table has (RFC 7541 section 6.2.2), as they are.
pub fn block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name.as_ref(), value.as_ref()] {
            match text.len() {
                length @ ..127 => bytes.push(length as u8),
                length => {
                    let mut more = length - 127;
                    bytes.push(127);
                    while more >= 128 {
                        bytes.push((more % 128 + 128) as u8);
                        more /= 128;
                    }
                    bytes.push(more as u8);
                }
            }
            bytes.extend_from_slice(text);
        }
    }
    bytes
}

/// A frame that came: kind, flags, stream, payload.
pub type Came = (u8, u8, u32, Vec<u8>);

/// A connection by raw frames, of which the proxy's settings are there and acknowledged.
pub struct Raw(pub Client);

impl Raw {
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw::of(Client::connect(address).await, &[]).await
    }

    pub async fn of(mut client: Client, settings: &[u8]) -> Raw {
        client.send([PREFACE, &frame(SETTINGS, 0, 0, settings), &frame(SETTINGS, 1, 0, &[])].concat()).await;
        Raw(client)
    }

    /// `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<Came> {
        if !self.0.has(9).await {
            return None;
        }
        let length = u32::from_be_bytes([0, self.0.unread[0], self.0.unread[1], self.0.unread[2]]) as usize;
        // Who gives up waiting meanwhile loses nothing of it.
        assert!(self.0.has(9 + length).await, "half a frame");
        let head = self.0.exactly(9).await;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], head[4], stream, self.0.exactly(length).await))
    }

    /// The next frame of these kinds.
    pub async fn next_of(&mut self, kinds: &[u8]) -> Option<Came> {
        loop {
            match self.next().await {
                Some(came) if kinds.contains(&came.0) => return Some(came),
                Some(_) => {}
                None => return None,
            }
        }
    }

    /// Waits until all that was sent before was read, but what comes of it may be under way.
    pub async fn settled(&mut self) {
        self.0.send(frame(PING, 0, 0, b"settled!")).await;
        while self.next_of(&[PING]).await.expect("the connection ended").3 != b"settled!" {}
    }
}

/// The status of a response's head as the library writes it: one of those that HPACK has a number for.
pub fn status(block: &[u8]) -> Option<u16> {
    const KNOWN: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    let at = block.iter().position(|byte| (0x88..0x8f).contains(byte))?;
    (at == 0 || at == 1).then(|| KNOWN[usize::from(block[at] - 0x88)])
}

/// Why a connection or a stream ended, of a GOAWAY or RST_STREAM.
pub fn reason(came: &Came) -> u32 {
    let at = if came.0 == GOAWAY { 4 } else { 0 };
    u32::from_be_bytes(came.3[at..at + 4].try_into().unwrap())
}
