//! One keep-alive connection of the load generator with at most one request under way.

use super::response::{self, Head};
use super::tls::{Session, Tls};
use crate::body::Object;
use crate::loopback;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes thrown away in one call at most.
pub const SCRATCH: usize = 256 << 10;
/// Bodies up to this size are taken in one call together with their head.
const ONE_CALL: u64 = 16 << 10;
/// Of larger ones the head comes first, and then the kernel throws the body away without copying it.
const HEAD_CALL: usize = 2 << 10;

/// Why a connection ends.
#[derive(Debug)]
pub enum Broken {
    /// By the server.
    Closed,
    Failed(String),
}

/// Who is asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub server: SocketAddr,
    /// Whose objects are asked for, through a forward proxy; `None` asks the server for its own.
    pub origin: Option<SocketAddr>,
    /// Each request carries a number that the origin tells back: a response with another one was stored before.
    /// Otherwise `Cache-Status` says what a hit is.
    pub tagged: bool,
    /// One request a connection.
    pub close: bool,
}

pub struct Connection {
    stream: TcpStream,
    tls: Option<Box<Session>>,
    /// Bytes of a request up to the object's size, and after its number.
    before: Vec<u8>,
    after: Vec<u8>,
    request: Vec<u8>,
    /// Bytes of the request that are out.
    sent: usize,
    tag: Option<u64>,
    object: Object,
    asked: Instant,
    check: bool,
    /// The start of a head that came in pieces; mostly empty.
    partial: Vec<u8>,
    awaiting: Awaiting,
}

enum Awaiting {
    Head,
    Body { head: Head, received: u64, wrong: bool },
}

pub enum Event {
    Waiting,
    Answered(Answered),
    /// By the server, before it answered.
    Closed,
}

pub struct Answered {
    pub object: Object,
    pub asked: Instant,
    pub status: u16,
    pub hit: bool,
    pub close: bool,
    pub checked: bool,
    pub wrong: bool,
}

impl Connection {
    /// Does not wait for the server to accept: a request goes out as soon as it can.
    pub fn open(target: &Target) -> Result<Connection, String> {
        let stream = loopback::connecting(target.server);
        Connection::over(stream, target, "").map_err(|e| format!("connect {}: {e}", target.server))
    }

    /// The same over TLS.
    pub fn open_tls(target: &Target, tls: &Arc<Tls>) -> Result<Connection, String> {
        let session = Session::begin(tls)?;
        Ok(Connection { tls: Some(Box::new(session)), ..Connection::open(target)? })
    }

    /// On a socket of the caller's, for objects below a path.
    pub fn over(stream: io::Result<TcpStream>, target: &Target, path: &str) -> io::Result<Connection> {
        let stream = stream?;
        stream.set_nodelay(true)?;
        let host = target.origin.unwrap_or(target.server);
        let form = target.origin.map(|origin| format!("http://{origin}")).unwrap_or_default();
        let close = if target.close { "Connection: close\r\n" } else { "" };
        Ok(Connection {
            stream,
            tls: None,
            before: format!("GET {form}{path}/s/").into_bytes(),
            after: format!(" HTTP/1.1\r\nHost: {host}\r\n{close}").into_bytes(),
            request: Vec::with_capacity(256),
            sent: 0,
            tag: target.tagged.then_some(0),
            object: Object { size: 0, number: 0 },
            asked: Instant::now(),
            check: false,
            partial: Vec::new(),
            awaiting: Awaiting::Head,
        })
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What was asked for last.
    pub fn object(&self) -> Object {
        self.object
    }

    /// Whether all of the request is out; if not, `send` when the socket takes more.
    pub fn ask(&mut self, object: Object, check: bool) -> Result<bool, String> {
        self.object = object;
        self.check = check;
        self.awaiting = Awaiting::Head;
        self.partial.clear();
        self.request.clear();
        self.request.extend_from_slice(&self.before);
        let _ = write!(self.request, "{}/{}", object.size, object.number);
        self.request.extend_from_slice(&self.after);
        if let Some(tag) = &mut self.tag {
            *tag = next_tag();
            let _ = write!(self.request, "Cosm-Ask: {tag}\r\n");
        }
        self.request.extend_from_slice(b"\r\n");
        self.sent = 0;
        self.asked = Instant::now();
        if let Some(session) = &mut self.tls {
            session.write(&self.request)?;
        }
        self.send()
    }

    /// Whether nothing of the request waits for the socket.
    pub fn is_sent(&self) -> bool {
        match &self.tls {
            Some(session) => !session.waits_for_socket(),
            None => self.sent == self.request.len(),
        }
    }

    pub fn send(&mut self) -> Result<bool, String> {
        if let Some(session) = &mut self.tls {
            return match session.flush(&self.stream) {
                Ok(()) | Err(Broken::Closed) => Ok(self.is_sent()),
                Err(Broken::Failed(why)) => Err(why),
            };
        }
        match self.stream.write(&self.request[self.sent..]) {
            Ok(sent) => {
                self.sent += sent;
                Ok(self.is_sent())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            // The server closed meanwhile: reading tells, and the request is asked again.
            Err(error) if is_closed(error.raw_os_error()) => {
                self.sent = self.request.len();
                Ok(true)
            }
            Err(error) => Err(format!("send: {error}")),
        }
    }

    /// Takes what has come.
    pub fn receive(&mut self, scratch: &mut [u8]) -> Result<Event, String> {
        if let Some(mut session) = self.tls.take() {
            let received = self.receive_by(&mut session, scratch);
            self.tls = Some(session);
            return match received {
                Ok(()) => Ok(self.finished()),
                Err(Broken::Closed) => Ok(Event::Closed),
                Err(Broken::Failed(why)) => Err(why),
            };
        }
        let (limit, flags) = self.how_to_receive(scratch.len());
        let count = match recv(&self.stream, &mut scratch[..limit], flags) {
            Ok((_, 0)) => return Ok(Event::Closed),
            Ok((_, count)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Event::Waiting),
            Err(error) if is_closed(Some(error.raw_os_error())) => return Ok(Event::Closed),
            Err(error) => return Err(format!("receive: {error}")),
        };
        let bytes = if flags.contains(RecvFlags::TRUNC) { None } else { Some(&scratch[..count]) };
        match &self.awaiting {
            Awaiting::Head => self.take_head(&scratch[..count])?,
            Awaiting::Body { .. } => self.take_body(count, bytes),
        }
        Ok(self.finished())
    }

    fn how_to_receive(&self, scratch: usize) -> (usize, RecvFlags) {
        match &self.awaiting {
            Awaiting::Head if self.check || self.object.size <= ONE_CALL => {
                (scratch.min(2 * ONE_CALL as usize), RecvFlags::empty())
            }
            Awaiting::Head => (HEAD_CALL, RecvFlags::empty()),
            Awaiting::Body { head, received, .. } => {
                let left = (head.body - received).min(scratch as u64) as usize;
                (left, if self.check { RecvFlags::empty() } else { RecvFlags::TRUNC })
            }
        }
    }

    fn receive_by(&mut self, session: &mut Session, scratch: &mut [u8]) -> Result<(), Broken> {
        let count = session.read(&self.stream, scratch)?;
        session.take(&mut scratch[..count], &mut |bytes| self.take(bytes))?;
        session.flush(&self.stream)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        match &self.awaiting {
            Awaiting::Head => self.take_head(bytes),
            Awaiting::Body { head, received, .. } => {
                if received + bytes.len() as u64 > head.body {
                    return Err("bytes came after the end of a response".into());
                }
                self.take_body(bytes.len(), Some(bytes));
                Ok(())
            }
        }
    }

    fn take_head(&mut self, bytes: &[u8]) -> Result<(), String> {
        // Nearly every head comes whole: it is parsed where it lies.
        if self.partial.is_empty() {
            return match self.parse(bytes)? {
                Some(head) => self.begin_body(head, &bytes[head.bytes..]),
                None => {
                    self.partial.extend_from_slice(bytes);
                    Ok(())
                }
            };
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        match self.parse(&whole)? {
            Some(head) => self.begin_body(head, &whole[head.bytes..]),
            None => {
                self.partial = whole;
                Ok(())
            }
        }
    }

    fn parse(&self, bytes: &[u8]) -> Result<Option<Head>, String> {
        response::parse(bytes).map_err(|broken| {
            let start = bytes[..bytes.len().min(300)].escape_ascii();
            format!("a response cannot be measured ({broken:?}): {start}")
        })
    }

    fn begin_body(&mut self, head: Head, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 > head.body {
            return Err("bytes came after the end of a response".into());
        }
        self.awaiting = Awaiting::Body { head, received: 0, wrong: false };
        self.take_body(bytes.len(), Some(bytes));
        Ok(())
    }

    fn take_body(&mut self, count: usize, bytes: Option<&[u8]>) {
        let Awaiting::Body { received, wrong, head } = &mut self.awaiting else { return };
        if let Some(bytes) = bytes.filter(|_| self.check && head.status == 200) {
            *wrong |= !self.object.holds(*received, bytes);
        }
        *received += count as u64;
    }

    fn finished(&mut self) -> Event {
        let Awaiting::Body { head, received, wrong } = &self.awaiting else { return Event::Waiting };
        if *received < head.body {
            return Event::Waiting;
        }
        Event::Answered(Answered {
            object: self.object,
            asked: self.asked,
            status: head.status,
            hit: self.tag.map_or(head.hit, |tag| head.asked.is_some_and(|made_for| made_for != tag)),
            close: head.close,
            checked: self.check && head.status == 200,
            wrong: *wrong || (head.status == 200 && head.body != self.object.size),
        })
    }
}

/// A number that no other request has.
pub fn next_tag() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Broken {
    pub fn of(error: Option<i32>, say: impl FnOnce() -> String) -> Broken {
        if is_closed(error) { Broken::Closed } else { Broken::Failed(say()) }
    }
}

impl From<String> for Broken {
    fn from(why: String) -> Broken {
        Broken::Failed(why)
    }
}

fn is_closed(error: Option<i32>) -> bool {
    let closed = [Errno::PIPE, Errno::CONNRESET, Errno::CONNREFUSED];
    error.is_some_and(|code| closed.iter().any(|known| known.raw_os_error() == code))
}
