//! A bare HTTP server: one thread, one epoll, no allocation for a request. The origin and the bare reference are made
//! of it, so that what it costs is next to nothing beside a proxy.

use crate::body::Object;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

/// Bytes of a request's head at most; a longer one closes the connection.
const HEAD_MAX: usize = 16 << 10;
const LISTENER: u64 = u64::MAX;

/// Says what a request gets: writes the response's head, and the body's first bytes if it likes, to `head`, and
/// returns the object of which the rest of the body is made.
pub trait Answer {
    fn answer(&mut self, request: &[u8], head: &mut Vec<u8>) -> Option<Object>;
}

/// Serves until the process is ended.
pub fn serve(listener: &TcpListener, answer: &mut impl Answer) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
    loop {
        let count = match epoll::wait(&epoll, &mut events, None) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            let data = event.data;
            match data.u64() {
                LISTENER => accept(listener, &epoll, &mut connections)?,
                slot => turn(&mut connections[slot as usize], &epoll, slot, answer),
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    epoll: &OwnedFd,
    connections: &mut Vec<Option<Connection>>,
) -> io::Result<()> {
    let stream = match listener.accept() {
        Ok((stream, _)) => stream,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        // The client was gone before we came; there is nothing to serve.
        Err(error) if error.kind() == ErrorKind::ConnectionAborted => return Ok(()),
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let slot = connections.iter().position(Option::is_none).unwrap_or_else(|| {
        connections.push(None);
        connections.len() - 1
    });
    epoll::add(epoll, &stream, EventData::new_u64(slot as u64), EventFlags::IN)?;
    connections[slot] = Some(Connection::new(stream));
    Ok(())
}

/// Moves one connection on; a closed or broken one leaves (closing it takes it out of the epoll).
fn turn(place: &mut Option<Connection>, epoll: &OwnedFd, slot: u64, answer: &mut impl Answer) {
    let Some(connection) = place else { return };
    let waited_to_write = connection.writing();
    if !matches!(connection.advance(answer), Ok(true)) {
        *place = None;
    } else if connection.writing() != waited_to_write {
        let wanted = if connection.writing() { EventFlags::OUT } else { EventFlags::IN };
        if epoll::modify(epoll, &connection.stream, EventData::new_u64(slot), wanted).is_err() {
            *place = None;
        }
    }
}

struct Connection {
    stream: TcpStream,
    input: Box<[u8; HEAD_MAX]>,
    filled: usize,
    head: Vec<u8>,
    head_sent: usize,
    body: Option<Object>,
    body_sent: u64,
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            input: Box::new([0; HEAD_MAX]),
            filled: 0,
            head: Vec::with_capacity(512),
            head_sent: 0,
            body: None,
            body_sent: 0,
        }
    }

    fn writing(&self) -> bool {
        self.head_sent < self.head.len() || self.body.is_some()
    }

    /// Reads and answers as far as the socket lets it; false when the client has closed.
    fn advance(&mut self, answer: &mut impl Answer) -> io::Result<bool> {
        if self.writing() {
            self.write()?;
        } else {
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        while !self.writing() {
            let Some(end) = memchr::memmem::find(&self.input[..self.filled], b"\r\n\r\n") else { break };
            self.head.clear();
            self.head_sent = 0;
            self.body = answer.answer(&self.input[..end + 2], &mut self.head);
            self.body_sent = crate::body::TAG as u64;
            self.input.copy_within(end + 4..self.filled, 0);
            self.filled -= end + 4;
            self.write()?;
        }
        Ok(self.filled < HEAD_MAX)
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
