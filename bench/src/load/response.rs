//! What the load generator needs to know of a response's head, and nothing else of it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the head, its empty line included.
    pub bytes: usize,
    pub status: u16,
    pub body: u64,
    /// `Cache-Status` says that a cache answered without asking further.
    pub hit: bool,
    /// The origin's word for whose request the response was made.
    pub asked: Option<u64>,
    /// The server closes after this response.
    pub close: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    StatusLine,
    /// Neither `Content-Length` nor a status without a body: bodies of unknown length are not measured here.
    Length,
}

/// The head at the start of `bytes`; `None` when more must come first.
pub fn parse(bytes: &[u8]) -> Result<Option<Head>, Broken> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let status = status(bytes).ok_or(Broken::StatusLine)?;
    let mut length = if matches!(status, 204 | 304) { Some(0) } else { None };
    let mut head = Head { bytes: end + 4, status, body: 0, hit: false, asked: None, close: false };
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\n', &bytes[at..end]) {
        at += next + 1;
        let line = &bytes[at..end];
        // Few fields begin with a c: the others cost one comparison.
        if !matches!(line.first(), Some(b'c' | b'C')) {
            continue;
        }
        let line = &line[..memchr::memchr(b'\r', line).unwrap_or(line.len())];
        if let Some(value) = field(line, b"content-length") {
            length = decimal(value);
        } else if let Some(value) = field(line, b"cache-status") {
            head.hit = hit(value);
        } else if let Some(value) = field(line, b"cosm-asked") {
            head.asked = decimal(value);
        } else if let Some(value) = field(line, b"connection") {
            head.close = value.eq_ignore_ascii_case(b"close");
        }
    }
    head.body = length.ok_or(Broken::Length)?;
    Ok(Some(head))
}

fn status(bytes: &[u8]) -> Option<u16> {
    let line = bytes.strip_prefix(b"HTTP/1.")?;
    let code = line.get(2..5)?;
    (line[1] == b' ').then_some(())?;
    std::str::from_utf8(code).ok()?.parse().ok()
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_at_checked(name.len())?;
    found.eq_ignore_ascii_case(name).then_some(())?;
    Some(rest.strip_prefix(b":")?.trim_ascii())
}

/// RFC 9211: a member `cache; hit`. The word stands alone among the parameters.
pub(super) fn hit(value: &[u8]) -> bool {
    value.split(|&byte| byte == b';' || byte == b',').any(|part| part.trim_ascii() == b"hit")
}

pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit() {
        let bytes =
            b"HTTP/1.1 200 OK\r\ncontent-length: 42\r\nCache-Status: cosm; hit\r\ncosm-asked: 7\r\n\r\nbody";
        let head =
            Head { bytes: bytes.len() - 4, status: 200, body: 42, hit: true, asked: Some(7), close: false };
        assert_eq!(parse(bytes), Ok(Some(head)));
    }

    #[test]
    fn every_cut_waits_for_more() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None));
        }
        assert!(matches!(parse(bytes), Ok(Some(Head { body: 0, .. }))));
    }

    #[test]
    fn forwarded_is_no_hit_whatever_the_details_say() {
        for value in ["cosm; fwd=uri-miss", "cosm; fwd=miss; detail=hitless", "hitter; fwd=stale"] {
            assert!(!hit(value.as_bytes()), "{value}");
        }
        for value in ["cosm;hit", "cosm; hit; ttl=12", "far; fwd=miss, cosm; hit"] {
            assert!(hit(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn close_and_empty_bodies() {
        let head = parse(b"HTTP/1.0 304 Not Modified\r\nConnection: Close\r\n\r\n").unwrap().unwrap();
        assert!(head.close && head.body == 0 && head.status == 304);
    }

    #[test]
    fn what_cannot_be_measured_is_named() {
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), Err(Broken::StatusLine));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(Broken::Length));
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), Err(Broken::Length));
    }
}
