//! The origin: `/s/<size>/<number>` is a cacheable object of that size, anything else is not found.
//!
//! A request that carries `Cosm-Ask` gets its value back as `Cosm-Asked`: whoever asked sees by it whether a response
//! was made for this request or for an earlier one, whatever the cache between says or does not say.
//! `/late/<ms>/s/<size>/<number>` is the same object, later by so long.
//! `/control/count` tells how many objects and bytes of them were asked for, and how long it was busy;
//! `/control/delay/<ms>` says how long an answer takes from now on; neither counts.

use crate::body::{Object, TAG};
use crate::server::{Answer, Reply};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

/// Polls for so long before it sleeps.
pub const AWAKE: Duration = Duration::from_millis(5);

/// What an origin was asked for, and how long it was busy with that.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Asked {
    pub requests: u64,
    pub bytes: u64,
    pub busy_seconds: f64,
}

impl Asked {
    pub fn since(self, before: Asked) -> Asked {
        Asked {
            requests: self.requests - before.requests,
            bytes: self.bytes - before.bytes,
            busy_seconds: self.busy_seconds - before.busy_seconds,
        }
    }
}

/// What an origin has to tell. An error is one line.
pub fn asked(origin: SocketAddr) -> Result<Asked, String> {
    control(origin, "count")
}

/// How long every answer of an origin takes from now on.
pub fn delay(origin: SocketAddr, delay: Duration) -> Result<(), String> {
    control(origin, &format!("delay/{}", delay.as_millis())).map(|_| ())
}

fn control(origin: SocketAddr, what: &str) -> Result<Asked, String> {
    let say = |e: std::io::Error| format!("origin: {e}");
    let mut stream = crate::loopback::aside(origin).map_err(say)?;
    write!(stream, "GET /control/{what} HTTP/1.1\r\n\r\n").map_err(say)?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\n") || answer.ends_with(b"\r\n") {
        let mut piece = [0; 512];
        let count = stream.read(&mut piece).map_err(say)?;
        if count == 0 {
            break;
        }
        answer.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8_lossy(&answer);
    let figures: Vec<&str> = text.lines().last().unwrap_or_default().split(' ').collect();
    let told = match figures[..] {
        [requests, bytes, busy] => requests.parse().ok().zip(bytes.parse().ok()).zip(busy.parse().ok()),
        _ => None,
    };
    told.map(|((requests, bytes), busy_seconds)| Asked { requests, bytes, busy_seconds })
        .ok_or_else(|| "the origin does not tell what it was asked for".into())
}

pub struct Origin {
    date: String,
    dated: Instant,
    delay: Duration,
    asked: Asked,
}

impl Origin {
    pub fn new() -> Origin {
        Origin { date: now(), dated: Instant::now(), delay: Duration::ZERO, asked: Asked::default() }
    }

    /// `Date`, made anew once a second.
    fn date(&mut self) -> &str {
        if self.dated.elapsed() >= Duration::from_secs(1) {
            (self.date, self.dated) = (now(), Instant::now());
        }
        &self.date
    }

    fn control(&mut self, what: &[u8], head: &mut Vec<u8>) {
        if let Some(milliseconds) = what.strip_prefix(b"delay/").and_then(decimal) {
            self.delay = Duration::from_millis(milliseconds);
        }
        let Asked { requests, bytes, busy_seconds } = self.asked;
        let body = format!("{requests} {bytes} {busy_seconds:.6}\n");
        let _ = write!(head, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    }
}

impl Answer for Origin {
    fn answer(&mut self, request: &[u8], head: &mut Vec<u8>) -> Reply {
        let path = path(request).unwrap_or_default();
        if let Some(what) = path.strip_prefix(b"/control/") {
            self.control(what, head);
            return Reply { rest: None, delay: Duration::ZERO };
        }
        let (late, path) = late(path).unwrap_or((Duration::ZERO, path));
        let Some(object) = object(path) else {
            let _ = write!(head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            return Reply { rest: None, delay: Duration::ZERO };
        };
        self.asked.requests += 1;
        self.asked.bytes += object.size;
        let date = self.date();
        let tag = object.tag();
        let _ = write!(
            head,
            "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: application/octet-stream\r\n\
             Cache-Control: max-age=86400\r\nETag: \"{}\"\r\nContent-Length: {}\r\n",
            std::str::from_utf8(&tag).unwrap_or_default(),
            object.size
        );
        if let Some(ask) = ask(request) {
            head.extend_from_slice(b"Cosm-Asked: ");
            head.extend_from_slice(ask);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        head.extend_from_slice(&tag[..TAG.min(object.size as usize)]);
        Reply { rest: Some(object).filter(|object| object.size > TAG as u64), delay: self.delay + late }
    }

    fn worked(&mut self, busy: Duration) {
        self.asked.busy_seconds = busy.as_secs_f64();
    }
}

fn now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

/// Of a GET, in origin form or absolute form.
fn path(request: &[u8]) -> Option<&[u8]> {
    let line = &request[..memchr::memchr(b'\r', request)?];
    let target = line.strip_prefix(b"GET ")?;
    let target = &target[..memchr::memchr(b' ', target)?];
    let Some(rest) = target.strip_prefix(b"http://") else { return Some(target) };
    Some(&rest[memchr::memchr(b'/', rest)?..])
}

/// How much later, and what.
fn late(path: &[u8]) -> Option<(Duration, &[u8])> {
    let path = path.strip_prefix(b"/late/")?;
    let (milliseconds, path) = path.split_at(memchr::memchr(b'/', path)?);
    Some((Duration::from_millis(decimal(milliseconds)?), path))
}

fn object(path: &[u8]) -> Option<Object> {
    let path = path.strip_prefix(b"/s/")?;
    let (size, number) = path.split_at(memchr::memchr(b'/', path)?);
    Some(Object { size: decimal(size)?, number: decimal(&number[1..])? })
}

/// Some proxies write names of fields in lower case.
fn ask(request: &[u8]) -> Option<&[u8]> {
    let name = b"cosm-ask:";
    let lines = request.split(|&byte| byte == b'\n');
    let mut named = lines.filter(|line| line.len() > name.len());
    let line = named.find(|line| line[..name.len()].eq_ignore_ascii_case(name))?;
    Some(line[name.len()..].trim_ascii())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &[u8]) -> Option<Object> {
        object(path(request)?)
    }

    #[test]
    fn both_forms_name_the_same_object() {
        let object = Some(Object { size: 8192, number: 17 });
        assert_eq!(asked(b"GET /s/8192/17 HTTP/1.1\r\nHost: a\r\n"), object);
        assert_eq!(asked(b"GET http://127.0.0.1:80/s/8192/17 HTTP/1.1\r\n"), object);
        assert_eq!(asked(b"POST /s/8192/17 HTTP/1.1\r\n"), None);
        assert_eq!(asked(b"GET /s/8192/x HTTP/1.1\r\n"), None);
        assert_eq!(asked(b"GET /s/8192 HTTP/1.1\r\n"), None);
    }

    #[test]
    fn what_was_asked_is_counted_and_told_back() {
        let mut origin = Origin::new();
        let mut head = Vec::new();
        origin.answer(b"GET /s/8192/17 HTTP/1.1\r\nHost: a\r\ncosm-ask: 1f\r\n", &mut head);
        assert!(memchr::memmem::find(&head, b"\r\nCosm-Asked: 1f\r\n\r\n").is_some());
        head.clear();
        let reply = origin.answer(b"GET /control/delay/20 HTTP/1.1\r\n", &mut head);
        assert!(head.ends_with(b"\r\n\r\n1 8192 0.000000\n") && reply.delay.is_zero());
        assert_eq!(origin.answer(b"GET /s/1/1 HTTP/1.1\r\n", &mut head).delay, Duration::from_millis(20));
        let late = origin.answer(b"GET /late/3000/s/17/1 HTTP/1.1\r\n", &mut head);
        assert_eq!(late.delay, Duration::from_millis(3020));
        assert_eq!(late.rest, Some(Object { size: 17, number: 1 }));
    }
}
