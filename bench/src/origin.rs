//! The origin: `/s/<size>/<number>` is a cacheable object of that size, anything else is not found.

use crate::body::{Object, TAG};
use crate::server::Answer;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

pub struct Origin {
    date: String,
    dated: Instant,
}

impl Origin {
    pub fn new() -> Origin {
        Origin { date: httpdate::fmt_http_date(SystemTime::now()), dated: Instant::now() }
    }

    /// `Date`, made anew once a second.
    fn date(&mut self) -> &str {
        if self.dated.elapsed() >= Duration::from_secs(1) {
            *self = Origin::new();
        }
        &self.date
    }
}

impl Answer for Origin {
    fn answer(&mut self, request: &[u8], head: &mut Vec<u8>) -> Option<Object> {
        let date = self.date();
        let Some(object) = asked(request) else {
            let _ = write!(head, "HTTP/1.1 404 Not Found\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n");
            return None;
        };
        let tag = object.tag();
        let _ = write!(
            head,
            "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Type: application/octet-stream\r\n\
             Cache-Control: max-age=86400\r\nETag: \"{}\"\r\nContent-Length: {}\r\n\r\n",
            std::str::from_utf8(&tag).unwrap_or_default(),
            object.size
        );
        head.extend_from_slice(&tag[..TAG.min(object.size as usize)]);
        Some(object).filter(|object| object.size > TAG as u64)
    }
}

/// The object that a GET asks for, in origin form or absolute form.
fn asked(request: &[u8]) -> Option<Object> {
    let line = &request[..memchr::memchr(b'\r', request)?];
    let target = line.strip_prefix(b"GET ")?;
    let target = &target[..memchr::memchr(b' ', target)?];
    let path = &target[memchr::memmem::find(target, b"/s/")? + 3..];
    let (size, number) = path.split_at(memchr::memchr(b'/', path)?);
    Some(Object { size: decimal(size)?, number: decimal(&number[1..])? })
}

fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_the_same_object() {
        let object = Some(Object { size: 8192, number: 17 });
        assert_eq!(asked(b"GET /s/8192/17 HTTP/1.1\r\nHost: a\r\n"), object);
        assert_eq!(asked(b"GET http://127.0.0.1:80/s/8192/17 HTTP/1.1\r\n"), object);
        assert_eq!(asked(b"POST /s/8192/17 HTTP/1.1\r\n"), None);
        assert_eq!(asked(b"GET /s/8192/x HTTP/1.1\r\n"), None);
        assert_eq!(asked(b"GET /s/8192 HTTP/1.1\r\n"), None);
    }
}
