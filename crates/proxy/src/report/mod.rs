//! The one exit: what came of a request is told here, once, when its response has ended.
//!
//! A `Transaction` is what is told. Counters grow from it (`counters`), and whoever started the proxy may look at it. What
//! always holds: each request that was counted in is told once, whatever becomes of it; telling waits for nobody, and writes
//! nothing that another worker writes. Only what is noted of a sample for the operator's page (`recent`) asks for memory.

pub mod counters;
mod id;
pub mod metrics;
pub mod recent;
pub mod shadow;
pub mod stats;
pub mod uplink;
pub mod watch;

pub use self::id::Id;

use self::counters::{Class, Counters, Number, Time};
use self::id::Ids;
use self::recent::{Event, Recent};
use self::shadow::Teller;
use self::uplink::Uplink;
use self::watch::Watchers;
use crate::clock;
use crate::message::target::Target;
use crate::transport::{Hop, Peer, Secured};
use cache::{Asked, Head, Report, key};
use http::header::{ACCEPT, CONTENT_TYPE, LAST_MODIFIED, REFERER, USER_AGENT};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::Key;

/// Is told of each request by the worker that served it, whose other requests wait meanwhile: what it does with that, it hands to
/// another thread.
pub trait Log: Send + Sync {
    fn ended(&self, transaction: &Transaction);

    /// Adds the line of one for those who watch: JSON.
    fn line(&self, _transaction: &Transaction, _to: &mut Vec<u8>) {}

    /// Of what it was told, what nobody will read: lines since the start.
    fn lost(&self) -> u64 {
        0
    }

    /// The last events of the error log, the newest last.
    fn events(&self) -> Vec<Event> {
        Vec::new()
    }
}

/// Loses nothing.
impl<F: Fn(&Transaction) + Send + Sync> Log for F {
    fn ended(&self, transaction: &Transaction) {
        self(transaction);
    }
}

/// A request whose response has ended: its last byte went to the kernel, it broke off, or the client left.
#[derive(Debug)]
pub struct Transaction {
    pub id: Id,
    pub client: Peer,
    /// `-` where the request's head could not be read.
    pub method: Method,
    target: Named,
    /// Of the response, if there was one.
    pub status: Option<StatusCode>,
    /// What the cache had to do with it; nothing with the proxy's own answers.
    pub report: Option<Report>,
    /// Of what was stored, if that answered.
    pub place: Place,
    /// What a cache could answer such a request with, as far as that is known.
    pub object: Option<Object>,
    /// Where the request was sent on to, or where that was tried. What answered from the cache, or from another's fetch, has
    /// none.
    pub hop: Option<Hop>,
    /// Bytes of the body that went to the client, those that a connection that broke did not take included; of a tunnel,
    /// all.
    pub sent: u64,
    /// Bytes that came from the client: of the request's content, as far as it was read, or through a tunnel.
    pub received: u64,
    /// The response ended as it should; a tunnel, by both sides.
    pub whole: bool,
    pub tunnel: bool,
    /// The client asks for HTML, if it is to be told something by the proxy itself.
    pub asks_for_html: bool,
    /// What the heads said, where somebody wants to know (`Settings::notes_heads`).
    pub heads: Heads,
    begun: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// Fields of a request and its response as they came: shared, not copied.
#[derive(Debug, Default)]
pub struct Heads {
    pub version: Option<Version>,
    /// Of HTTP/2: which one of its connection's.
    pub stream: Option<u32>,
    pub referer: Option<HeaderValue>,
    pub user_agent: Option<HeaderValue>,
    /// What TLS has agreed on with the client, if it is spoken.
    pub tls: Option<Arc<Secured>>,
    /// Of W3C Trace Context.
    pub traceparent: Option<HeaderValue>,
    /// Of the response.
    pub content_type: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

impl Heads {
    pub fn note_request<B>(&mut self, request: &Request<B>) {
        let field = |name| request.headers().get(name).cloned();
        self.version = Some(request.version());
        (self.referer, self.user_agent) = (field(REFERER), field(USER_AGENT));
        self.traceparent = field(TRACEPARENT);
    }

    pub fn note_response<B>(&mut self, response: &Response<B>) {
        let field = |name| response.headers().get(name).cloned();
        (self.content_type, self.last_modified) = (field(CONTENT_TYPE), field(LAST_MODIFIED));
    }
}

/// Where a stored response was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Memory,
    Disk,
}

/// What is stored, or will be, and is all that a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    key: u64,
    /// Bytes of its body; if unknown, as many as are sent.
    bytes: Option<u64>,
}

impl Object {
    /// Only of who wants all of it, whatever he has: what others get, if the cache has nothing, does not tell how large it is.
    pub fn of(asked: &Asked, head: &Head, key: &Key, bytes: Option<u64>) -> Option<Object> {
        let is_all = !asked.is_head() && asked.is_unconditional() && head.part().is_none();
        is_all.then(|| Object { key: key.index_hash(), bytes })
    }
}

/// What a request asks for, as far as it is known: what is at hand anyway.
#[derive(Debug)]
enum Named {
    Nothing,
    /// A primary key, which says the URI.
    Key(Key),
    Target(Target),
    /// Of a CONNECT.
    Authority(Authority),
}

impl Transaction {
    #[inline(always)]
    pub fn new(id: Id, client: Peer, method: Method) -> Transaction {
        Transaction {
            id,
            client,
            method,
            target: Named::Nothing,
            status: None,
            report: None,
            place: Place::default(),
            object: None,
            hop: None,
            sent: 0,
            received: 0,
            whole: false,
            tunnel: false,
            asks_for_html: false,
            heads: Heads::default(),
            begun: clock::moment(),
            first: None,
            last: None,
        }
    }

    /// Of the URI that was asked for.
    pub fn scheme(&self) -> Option<&str> {
        match &self.target {
            Named::Nothing | Named::Authority(_) => None,
            Named::Key(key) => Some(uri(key)?.0),
            Named::Target(target) => Some(target.scheme.as_str()),
        }
    }

    /// The host that was asked for, with the port if it is not the scheme's own.
    pub fn host(&self) -> Option<&str> {
        match &self.target {
            Named::Nothing => None,
            Named::Key(key) => Some(uri(key)?.1),
            Named::Target(target) => Some(target.host()),
            Named::Authority(authority) => Some(authority.as_str()),
        }
    }

    /// The path with the query; a CONNECT has none.
    pub fn path(&self) -> Option<&str> {
        match &self.target {
            Named::Nothing | Named::Authority(_) => None,
            Named::Key(key) => Some(uri(key)?.2),
            Named::Target(target) => Some(target.path.as_str()),
        }
    }

    /// Bytes of the object that is all of the response, as far as that is known: what broke off does not tell how long it would be.
    pub fn size(&self) -> Option<u64> {
        self.object?.bytes.or(self.whole.then_some(self.sent))
    }

    /// From the request's head to the response's first byte; where nobody looked before, its last.
    pub fn to_first(&self) -> Duration {
        self.since_begun(self.first.or(self.last))
    }

    /// From the request's head to the response's last byte.
    pub fn to_last(&self) -> Duration {
        self.since_begun(self.last)
    }

    fn since_begun(&self, when: Option<Instant>) -> Duration {
        when.map_or(Duration::ZERO, |when| when.duration_since(self.begun))
    }

    /// By its primary key, for which no part of the request has to be kept.
    pub fn asks_for_key(&mut self, key: Key) {
        self.target = Named::Key(key);
    }

    pub fn asks_for(&mut self, target: Target) {
        self.target = Named::Target(target);
    }

    pub fn connects_to(&mut self, authority: Authority) {
        self.target = Named::Authority(authority);
    }

    /// Notes how the proxy's own answers would be written for this client.
    pub fn note_accept(&mut self, headers: &HeaderMap) {
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        self.asks_for_html = values.flat_map(|value| value.split(',')).any(is_html);
    }

    /// The first byte is about to go out, or went out.
    pub fn begins(&mut self) {
        self.first.get_or_insert_with(clock::moment);
    }
}

/// Whether a member of Accept names HTML, and does not refuse it (RFC 9110 section 12.5.1).
fn is_html(member: &str) -> bool {
    let mut parts = member.split(';').map(str::trim);
    let names = parts.next().is_some_and(|range| range.eq_ignore_ascii_case("text/html"));
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    names && weight.is_none_or(|weight| weight.trim().parse().is_ok_and(|weight: f32| weight > 0.0))
}

/// Scheme, host and path of a primary key.
fn uri(key: &Key) -> Option<(&str, &str, &str)> {
    let uri = std::str::from_utf8(key.bytes().get(key::METHOD.len()..)?).ok()?;
    let (scheme, rest) = uri.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((scheme, host, path))
}

/// One worker's exit. It stays with its thread: nobody else writes these counters.
pub struct Exit {
    counters: Arc<Counters>,
    ids: Ids,
    log: Arc<dyn Log>,
    shadow: Option<Teller>,
    /// For the operator's page, where there is one.
    recent: Option<Arc<Recent>>,
    notes_heads: bool,
    pub uplink: Arc<Uplink>,
    watchers: Arc<Watchers>,
    _stays: PhantomData<*const ()>,
}

impl Exit {
    pub fn new(counters: Arc<Counters>, log: Arc<dyn Log>) -> Exit {
        let (ids, shadow, recent, notes_heads, uplink, watchers, _stays) = Default::default();
        Exit { counters, ids, log, shadow, recent, notes_heads, uplink, watchers, _stays }
    }

    /// What is of interest of late is noted there.
    pub fn noting_in(self, recent: Option<Arc<Recent>>) -> Exit {
        Exit { recent, ..self }
    }

    /// These are told of each request.
    pub fn watched(self, watchers: Arc<Watchers>) -> Exit {
        Exit { watchers, ..self }
    }

    /// What is reached, and what is not, is noted there.
    pub fn observing(self, uplink: Arc<Uplink>) -> Exit {
        Exit { uplink, ..self }
    }

    /// What the heads say is noted, if so.
    pub fn noting_heads(self, notes_heads: bool) -> Exit {
        Exit { notes_heads, ..self }
    }

    /// Other policies are asked as well.
    pub fn shadowed(self, shadow: Option<Teller>) -> Exit {
        Exit { shadow, ..self }
    }

    /// Whether anybody wants to know what the heads say.
    pub fn notes_heads(&self) -> bool {
        self.notes_heads || self.watchers.are_there()
    }

    pub fn next_id(&self) -> Id {
        self.ids.next()
    }

    pub fn tell(&self, transaction: &mut Transaction) {
        transaction.last = Some(clock::moment());
        let class = Class::of(transaction);
        let to_first = transaction.to_first();
        self.counters.count(class, transaction.sent, to_first);
        if let Some(recent) = &self.recent {
            recent.tell(transaction, class, to_first);
        }
        if let Some(status) = transaction.status {
            self.add(Number::of(status), 1);
        }
        if !transaction.whole {
            self.add(Number::BrokenOff, 1);
        }
        if let Some(shadow) = &self.shadow {
            shadow.tell(transaction);
        }
        self.log.ended(transaction);
        if self.watchers.are_there() {
            self.watchers.tell(transaction, &*self.log);
        }
    }

    pub fn add(&self, number: Number, by: u64) {
        self.counters.add(number, by);
    }

    /// The worker is alive.
    pub fn beat(&self) {
        self.counters.beat();
    }

    pub fn took(&self, time: Time, duration: Duration) {
        self.counters.took(time, duration);
    }

    /// An origin was asked: its status and how long that took, or why there is none.
    pub fn asked(&self, hop: impl FnOnce() -> Option<Hop>, answer: Result<(StatusCode, Duration), &str>) {
        if let Some(recent) = &self.recent
            && let Some(hop) = hop()
        {
            recent.asked(&hop, answer);
        }
    }

    pub fn subtract(&self, number: Number, by: u64) {
        self.counters.add(number, by.wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;
    use std::thread;

    /// How often the worker had asked for a moment when each response had ended.
    static ASKED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

    #[test]
    fn an_answer_from_memory_looks_at_the_clock_twice() {
        let origin = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = origin.local_addr().unwrap();
        let serving = thread::spawn(move || {
            let (mut stream, _) = origin.accept().unwrap();
            read(&mut stream, b"\r\n\r\n");
            let response = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nbody";
            stream.write_all(response).unwrap();
        });
        let settings = Settings { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Settings::default() };
        let tell = |_: &Transaction| ASKED.lock().unwrap().push(clock::tests::ASKED.get());
        let proxy = crate::start_telling(settings, None, tell).unwrap();
        let mut client = TcpStream::connect(proxy.addresses()[0].tcp().unwrap()).unwrap();
        for _ in 0..4 {
            write!(client, "GET http://{address}/ HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
            read(&mut client, b"body");
        }
        drop(client);
        proxy.stop();
        proxy.wait().unwrap();
        serving.join().unwrap();
        let asked = ASKED.lock().unwrap();
        let each: Vec<_> = asked.windows(2).map(|two| two[1] - two[0]).collect();
        assert_eq!(each, [2, 2, 2]);
    }

    fn read(stream: &mut TcpStream, end: &[u8]) {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end) {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            bytes.extend(byte);
        }
    }

    #[test]
    fn html_is_for_who_asks_for_it() {
        let asks = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            let peer = Peer::Unix;
            let mut transaction = Transaction::new(Ids::default().next(), peer, Method::GET);
            transaction.note_accept(&headers);
            transaction.asks_for_html
        };
        for html in ["text/html", "image/png, TEXT/HTML;q=0.5", "text/html ; level=1;q=0.1,*/*"] {
            assert!(asks(html), "{html}");
        }
        for other in
            ["*/*", "text/html;q=0", "xtext/html", "text/htmlx", "\"text/html\"", "text/html;q=x", ""]
        {
            assert!(!asks(other), "{other}");
        }
    }

    #[test]
    fn a_key_says_host_and_path() {
        for (authority, path, expected) in [
            ("Example.com:80", "/a?b", ("http", "example.com", "/a?b")),
            ("[::1]:8080", "/", ("http", "[::1]:8080", "/")),
            ("a", "", ("http", "a", "/")),
            ("a", "/x://y/z", ("http", "a", "/x://y/z")),
        ] {
            assert_eq!(uri(&Key::new(key::primary("http", authority, path))), Some(expected));
        }
    }
}
