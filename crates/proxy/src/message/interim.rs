//! An interim response (RFC 9110 section 15.2).

use http::header::{CONTENT_LENGTH, TRAILER};
use http::{HeaderMap, StatusCode};

pub struct Interim {
    pub status: StatusCode,
    pub headers: HeaderMap,
}

impl Interim {
    /// Bytes of its fields.
    pub fn size(&self) -> usize {
        self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
    }

    /// As the next hop shall see it. It has no body, whatever it says of one.
    pub fn for_next_hop(mut self) -> Interim {
        cache::remove_hop_by_hop(&mut self.headers);
        for name in [TRAILER, CONTENT_LENGTH] {
            self.headers.remove(name);
        }
        self
    }

    /// The same as HTTP/1 writes it.
    pub fn http1(self) -> Vec<u8> {
        let Interim { status, headers } = self.for_next_hop();
        let reason = status.canonical_reason().unwrap_or("");
        let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
        for (name, value) in &headers {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}
