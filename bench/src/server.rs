//! A bare HTTP server: one thread, one epoll, no allocation for a request. The origin and the bare reference are made
//! of it, so that what it costs is next to nothing beside a proxy.

use crate::body::Object;
use crate::poll::Poll;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of a request's head at most; a longer one closes the connection.
const HEAD_MAX: usize = 16 << 10;
const LISTENER: u64 = u64::MAX;

/// Says what a request gets: writes the response's head, and the body's first bytes if it likes, to `head`.
pub trait Answer {
    fn answer(&mut self, request: &[u8], head: &mut Vec<u8>) -> Reply;

    /// How long the server was busy until now.
    fn worked(&mut self, _busy: Duration) {}
}

pub struct Reply {
    /// The object of which the rest of the body is made.
    pub rest: Option<Object>,
    /// Before the first byte goes out.
    pub delay: Duration,
}

/// Serves until the process is ended; stays `awake` for so long after a request.
pub fn serve(listener: &TcpListener, answer: &mut impl Answer, awake: Duration) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let poll = Poll::new(awake)?;
    epoll::add(&poll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut house = House { poll, places: Vec::new(), free: Vec::new(), parked: BTreeSet::new(), entered: 0 };
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
    loop {
        let until = house.parked.first().map(|(due, ..)| *due);
        let count = house.poll.wait(&mut events, until)?;
        answer.worked(house.poll.busy());
        for event in &events[..count] {
            let data = event.data;
            match data.u64() {
                LISTENER => house.accept(listener)?,
                slot => house.turn(slot as usize, answer),
            }
        }
        house.wake(answer);
    }
}

/// All connections.
struct House {
    poll: Poll,
    places: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Until when whose answer waits.
    parked: BTreeSet<(Instant, usize, u64)>,
    entered: u64,
}

impl House {
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            // The client was gone before we came; there is nothing to serve.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        epoll::add(&self.poll, &stream, EventData::new_u64(slot as u64), EventFlags::IN)?;
        self.entered += 1;
        self.places[slot] = Some(Connection::new(stream, self.entered));
        Ok(())
    }

    /// Moves one connection on; a closed or broken one leaves (closing it takes it out of the epoll).
    fn turn(&mut self, slot: usize, answer: &mut impl Answer) {
        let Some(connection) = &mut self.places[slot] else { return };
        let (waited_to_write, was_due) = (connection.writing(), connection.due);
        let mut stays = matches!(connection.advance(answer), Ok(true));
        if stays && connection.writing() != waited_to_write {
            let wanted = if connection.writing() { EventFlags::OUT } else { EventFlags::IN };
            let data = EventData::new_u64(slot as u64);
            stays = epoll::modify(&self.poll, &connection.stream, data, wanted).is_ok();
        }
        match connection.due {
            Some(due) if stays && was_due != Some(due) => {
                self.parked.insert((due, slot, connection.name));
            }
            _ => {}
        }
        if !stays {
            self.places[slot] = None;
            self.free.push(slot);
        }
    }

    /// Lets go what is due.
    fn wake(&mut self, answer: &mut impl Answer) {
        while let Some(&(due, slot, name)) = self.parked.first()
            && due <= Instant::now()
        {
            self.parked.pop_first();
            if self.places[slot].as_ref().is_some_and(|connection| connection.name == name) {
                self.turn(slot, answer);
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// No other connection ever has it, unlike the slot.
    name: u64,
    /// When the answer that is ready may go out.
    due: Option<Instant>,
    input: Box<[u8; HEAD_MAX]>,
    filled: usize,
    /// Bytes of the request's content that are still to come; the answer waits for them.
    content: u64,
    head: Vec<u8>,
    head_sent: usize,
    body: Option<Object>,
    body_sent: u64,
}

impl Connection {
    fn new(stream: TcpStream, name: u64) -> Connection {
        Connection {
            stream,
            name,
            due: None,
            input: Box::new([0; HEAD_MAX]),
            filled: 0,
            content: 0,
            head: Vec::with_capacity(512),
            head_sent: 0,
            body: None,
            body_sent: 0,
        }
    }

    fn writing(&self) -> bool {
        self.due.is_none() && self.content == 0 && (self.head_sent < self.head.len() || self.body.is_some())
    }

    /// Reads and answers as far as the socket lets it; false when the client has closed.
    fn advance(&mut self, answer: &mut impl Answer) -> io::Result<bool> {
        let was_due = self.due.take_if(|due| *due <= Instant::now());
        if was_due.is_some() || self.writing() {
            self.write()?;
        } else {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        while !self.writing() && self.due.is_none() {
            if self.content > 0 {
                let come = self.content.min(self.filled as u64);
                self.take(come as usize);
                self.content -= come;
                if self.content > 0 {
                    break;
                }
                self.write()?;
                continue;
            }
            let Some(end) = memchr::memmem::find(&self.input[..self.filled], b"\r\n\r\n") else { break };
            self.head.clear();
            self.head_sent = 0;
            let reply = answer.answer(&self.input[..end + 2], &mut self.head);
            self.body = reply.rest;
            self.due = (!reply.delay.is_zero()).then(|| Instant::now() + reply.delay);
            self.body_sent = crate::body::TAG as u64;
            self.content = content(&self.input[..end + 2]);
            self.take(end + 4);
            self.write()?;
        }
        Ok(self.filled < HEAD_MAX)
    }

    /// The first bytes of what has come are dealt with.
    fn take(&mut self, bytes: usize) {
        self.input.copy_within(bytes..self.filled, 0);
        self.filled -= bytes;
    }

    fn write(&mut self) -> io::Result<()> {
        while self.writing() {
            let head = &self.head[self.head_sent..];
            let body = self.body.map_or(&[][..], |object| object.noise_at(self.body_sent));
            let sent = match self.stream.write_vectored(&[IoSlice::new(head), IoSlice::new(body)]) {
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let of_head = sent.min(head.len());
            self.head_sent += of_head;
            self.body_sent += (sent - of_head) as u64;
            self.body = self.body.filter(|object| self.body_sent < object.size);
        }
        Ok(())
    }
}

/// Bytes of a request's content, as its head says; a GET has none here.
fn content(head: &[u8]) -> u64 {
    if head.starts_with(b"GET ") {
        return 0;
    }
    let lines = std::str::from_utf8(head).unwrap_or_default().lines();
    let fields = lines.filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;

    #[test]
    fn an_answer_waits_for_the_requests_content_and_for_its_own_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener, &mut Origin::new(), Duration::ZERO));
        let connect = || TcpStream::connect(address).unwrap();
        let mut answer = [0; 400];
        let mut uploads = connect();
        uploads.write_all(b"POST /x HTTP/1.1\r\ncontent-length: 4\r\n\r\nabc").unwrap();
        let began = Instant::now();
        let (mut late, mut later) = (connect(), connect());
        later.write_all(b"GET /late/2000/s/16/2 HTTP/1.1\r\n\r\n").unwrap();
        late.write_all(b"GET /late/50/s/16/1 HTTP/1.1\r\n\r\n").unwrap();
        assert!(late.read(&mut answer).unwrap() > 0 && began.elapsed() < Duration::from_secs(2));
        assert!(later.read(&mut answer).unwrap() > 0 && began.elapsed() >= Duration::from_secs(2));
        uploads.set_nonblocking(true).unwrap();
        assert_eq!(uploads.read(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
        uploads.set_nonblocking(false).unwrap();
        uploads.write_all(b"dGET /s/16/1 HTTP/1.1\r\n\r\n").unwrap();
        let mut told = Vec::new();
        while !told.ends_with(&Object { size: 16, number: 1 }.tag()) {
            let n = uploads.read(&mut answer).unwrap();
            told.extend_from_slice(&answer[..n]);
        }
        assert!(told.starts_with(b"HTTP/1.1 404 "), "{}", told.escape_ascii());
    }
}
