//! A proxy on a free port, origins written with raw sockets, and raw clients.

#![allow(dead_code)]

pub mod bridge;
pub mod gated;
pub mod http2;
pub mod http2_origin;
pub mod ranged;
pub mod tls;

use proxy::{Running, Settings};
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::task::JoinHandle;

/// No step of a test takes longer on a machine that works.
pub const SOON: Duration = Duration::from_secs(20);

pub struct Proxy {
    running: Option<Running>,
    pub address: SocketAddr,
}

impl Proxy {
    /// A forward proxy with short timeouts where a test would have to wait for them.
    pub fn forward() -> Proxy {
        Proxy::with(|_| {})
    }

    pub fn reverse(origin: &Origin) -> Proxy {
        Proxy::with(|settings| settings.origin = Some(origin.url("").parse().unwrap()))
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Proxy {
        Proxy::over(None, change)
    }

    pub fn over(stores: impl Into<proxy::Stores>, change: impl FnOnce(&mut Settings)) -> Proxy {
        let mut settings = Settings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Settings::default() };
        settings.timeouts.drain = Duration::from_secs(5);
        change(&mut settings);
        let running = proxy::start_telling(settings, stores, told).unwrap();
        let mut address = running.addresses()[0].tcp().unwrap_or(SocketAddr::from(([0; 4], 0)));
        if bridge::is_wanted() {
            address = bridge::before(address);
        }
        Proxy { running: Some(running), address }
    }

    /// Where it listens by TCP, of the addresses in the order of its settings.
    pub fn tcp_address(&self, number: usize) -> SocketAddr {
        self.running.as_ref().unwrap().addresses()[number].tcp().unwrap()
    }

    pub fn admin_address(&self) -> SocketAddr {
        self.running.as_ref().unwrap().admin().and_then(proxy::Address::tcp).unwrap()
    }

    /// A request to the operator's door, whole; the answer's head and content.
    pub async fn admin(&self, request: impl AsRef<[u8]>) -> Message {
        Client::connect(self.admin_address()).await.get(request).await
    }

    /// `POST /purge?…` to the operator's door.
    pub async fn purge(&self, what: &str) -> Message {
        self.admin(format!("POST /purge?{what} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }

    /// Other settings, which requests go by from now on.
    pub fn reload(&self, settings: Settings) {
        self.running.as_ref().unwrap().reloader()(settings);
    }

    pub fn stop(&self) {
        self.running.as_ref().unwrap().stop();
    }

    /// Waits for the end without blocking the test's runtime.
    pub async fn ended(mut self) {
        let running = self.running.take().unwrap();
        soon(tokio::task::spawn_blocking(move || running.wait())).await.unwrap().unwrap();
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// What was sent before has been read and looked at: each worker has answered a later request. Connections are spread over
    /// workers by chance, so there are many.
    pub async fn settled(&self) {
        for _ in 0..24 {
            let answer = self.client().await.get("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").await;
            assert_eq!(answer.status(), 204);
        }
    }

    /// One request on a connection of its own; everything that comes until the proxy closes.
    pub async fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = self.client().await;
        client.send(request).await;
        client.rest().await
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }
}

/// What is kept of a request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub client: proxy::Peer,
    pub method: String,
    pub status: Option<u16>,
    pub hop: Option<String>,
    pub sent: u64,
    pub received: u64,
    pub whole: bool,
    pub times: (Duration, Duration),
}

/// By host and path, of all proxies of the test program.
static TOLD: Mutex<Vec<((String, String), Told)>> = Mutex::new(Vec::new());

fn told(transaction: &proxy::Transaction) {
    let told = Told {
        client: transaction.client,
        method: transaction.method.to_string(),
        status: transaction.status.map(|status| status.as_u16()),
        hop: transaction.hop.as_ref().map(ToString::to_string),
        sent: transaction.sent,
        received: transaction.received,
        whole: transaction.whole,
        times: (transaction.to_first(), transaction.to_last()),
    };
    let asked =
        (transaction.host().unwrap_or_default().into(), transaction.path().unwrap_or_default().into());
    TOLD.lock().unwrap().push((asked, told));
}

/// What was told of the requests for this path of a host, when it is as much as `count`.
pub async fn told_of(host: &str, path: &str, count: usize) -> Vec<Told> {
    let all = || {
        let told = TOLD.lock().unwrap();
        let of = told.iter().filter(|((h, p), _)| h == host && p == path);
        of.map(|(_, told)| told.clone()).collect::<Vec<_>>()
    };
    soon(async {
        while all().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    all()
}

/// Fails the test when something takes too long.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("timed out")
}

pub struct Client<S = TcpStream> {
    stream: S,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub struct Message {
    pub head: String,
    pub body: Vec<u8>,
}

impl Message {
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Why the proxy does not serve the request, without the id that follows.
    pub fn reason(&self) -> &str {
        let (reason, id) = self.text().split_once("\nrequest ").unwrap_or_else(|| panic!("{}", self.text()));
        assert!(id.len() == 33 && id.trim_end().bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        reason
    }
}

/// The first value of a field.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

impl Client<UnixStream> {
    pub async fn unix(path: &Path) -> Client<UnixStream> {
        Client::of(soon(UnixStream::connect(path)).await.unwrap())
    }
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Client {
        Client::of(soon(TcpStream::connect(address)).await.unwrap())
    }

    /// A client for whom the kernel holds little: what it does not read stays with the proxy.
    pub async fn narrow(address: SocketAddr) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        Client::of(soon(socket.connect(address)).await.unwrap())
    }

    /// Open, and nothing to be read.
    pub async fn is_silent(&self) -> bool {
        let mut byte = [0];
        let looked = self.stream.try_read(&mut byte);
        self.unread.is_empty() && looked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub fn of(stream: S) -> Client<S> {
        Client { stream, unread: Vec::new() }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// `false` when nobody is there any more.
    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        soon(self.stream.write_all(bytes.as_ref())).await.is_ok()
    }

    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Reads more; `false` at the end.
    async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match soon(self.stream.read(&mut buffer)).await {
            Ok(0) | Err(_) => false,
            Ok(n) => {
                self.unread.extend_from_slice(&buffer[..n]);
                true
            }
        }
    }

    /// A head up to its empty line; `None` when the connection ended before one began.
    pub async fn head(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.unread.drain(..at + 4).collect();
                return Some(String::from_utf8(head).unwrap());
            }
            if !self.more().await {
                assert!(self.unread.is_empty(), "half a head: {:?}", String::from_utf8_lossy(&self.unread));
                return None;
            }
        }
    }

    /// Whether so many bytes come before the end.
    pub async fn has(&mut self, n: usize) -> bool {
        while self.unread.len() < n {
            if !self.more().await {
                return false;
            }
        }
        true
    }

    pub async fn exactly(&mut self, n: usize) -> Vec<u8> {
        while self.unread.len() < n {
            assert!(self.more().await, "ended {} bytes early", n - self.unread.len());
        }
        self.unread.drain(..n).collect()
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=at).collect();
                return String::from_utf8(line).unwrap().trim_end().to_owned();
            }
            assert!(self.more().await, "ended in a line");
        }
    }

    /// A message by its framing: length, chunks, or the connection's end for responses.
    pub async fn message(&mut self) -> Message {
        let head = self.head().await.expect("no message");
        let body = self.body(&head).await;
        Message { head, body }
    }

    pub async fn body(&mut self, head: &str) -> Vec<u8> {
        if field(head, "transfer-encoding").is_some() {
            return self.chunks().await;
        }
        if let Some(length) = field(head, "content-length") {
            return self.exactly(length.parse().unwrap()).await;
        }
        let response = head.starts_with("HTTP/");
        let bodyless =
            [" 204 ", " 304 ", " 101 ", " 100 ", " 103 "].iter().any(|status| head[..14].contains(status));
        if !response || bodyless { Vec::new() } else { self.rest().await.into_bytes() }
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await;
            let size = usize::from_str_radix(line.split(';').next().unwrap(), 16).unwrap();
            if size == 0 {
                break;
            }
            body.extend(self.exactly(size).await);
            assert_eq!(self.line().await, "");
        }
        while !self.line().await.is_empty() {}
        body
    }

    /// A response to a request.
    pub async fn get(&mut self, request: impl AsRef<[u8]>) -> Message {
        self.send(request).await;
        self.message().await
    }

    /// The head of a response that has no body.
    pub async fn get_head(&mut self, request: impl AsRef<[u8]>) -> String {
        self.send(request).await;
        self.head().await.expect("no message")
    }

    /// A message's head, or what comes until the end.
    /// What follows a head, as text, as far as it comes.
    pub async fn rest_or_body(&mut self, head: &str) -> String {
        match field(head, "content-length") {
            Some(_) => String::from_utf8(self.body(head).await).unwrap(),
            None => self.rest().await,
        }
    }

    pub async fn rest_or_message(&mut self) -> String {
        while !self.unread.windows(4).any(|four| four == b"\r\n\r\n") && self.more().await {}
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// Everything until the end of the connection.
    pub async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.unread)).into_owned()
    }

    /// The same, as bytes.
    pub async fn rest_of_bytes(&mut self) -> Vec<u8> {
        while self.more().await {}
        std::mem::take(&mut self.unread)
    }

    pub async fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.more().await
    }

    pub async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }
}

/// A server whose behaviour is a function of each connection.
pub struct Origin {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Origin {
    /// `serve` gets each connection.
    pub async fn with<F, Fut>(serve: F) -> Origin
    where
        F: Fn(Client, Arc<Mutex<Vec<String>>>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Client::of(stream), all.clone()));
            }
        });
        Origin { address, seen, task }
    }

    /// Answers every request of every connection with these bytes.
    pub async fn answering(response: impl Into<Vec<u8>>) -> Origin {
        let response = Arc::new(response.into());
        Origin::with(move |mut client, seen| {
            let response = response.clone();
            async move {
                while let Some(head) = client.head().await {
                    let body = client.body(&head).await;
                    seen.lock().unwrap().push(head + &String::from_utf8_lossy(&body));
                    client.send(&*response).await;
                    if field(&String::from_utf8_lossy(&response), "content-length").is_none() {
                        break;
                    }
                }
            }
        })
        .await
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until so many requests came.
    pub async fn asked(&self, count: usize) {
        soon(async {
            while self.seen.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Takes no connection any more.
    pub async fn gone(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A plain request for a path of this origin, through a forward proxy.
    pub fn request(&self, path: &str, fields: &str) -> String {
        format!("GET {} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.url(path), self.address)
    }
}

/// Cache-Status without how long the response is fresh yet, which is the clock's to say.
pub fn cache_status(response: &Message) -> &str {
    without_ttl(response.field("cache-status").unwrap_or_else(|| panic!("{}", response.head)))
}

pub fn without_ttl(status: &str) -> &str {
    match status.rsplit_once("; ttl=") {
        Some((before, ttl)) if ttl.parse::<i64>().is_ok() => before,
        _ => status,
    }
}

/// An origin whose answer is a function of the request (head and content) and its number.
pub async fn origin_of(answer: impl Fn(&str, usize) -> String + Send + Sync + 'static) -> Origin {
    let answer = Arc::new(answer);
    let count = Arc::new(AtomicUsize::new(0));
    Origin::with(move |mut client, seen| {
        let (answer, count) = (answer.clone(), count.clone());
        async move {
            while let Some(head) = client.head().await {
                let request = head.clone() + &String::from_utf8_lossy(&client.body(&head).await);
                seen.lock().unwrap().push(request.clone());
                let n = count.fetch_add(1, Ordering::SeqCst);
                client.send(answer(&request, n)).await;
            }
        }
    })
    .await
}

pub fn ok(fields: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
}
