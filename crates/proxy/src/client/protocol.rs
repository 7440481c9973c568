//! Which protocol a client's connection speaks.
//!
//! It speaks HTTP/1 unless its first bytes say otherwise, which `http1` finds out with its first read. What TLS has agreed on
//! would be known here before, and HTTP/2 would be served here instead of refused.

use super::http1::{self, Link};
use crate::message::refusal::Refusal;
use crate::transport::Socket;
use crate::worker::Worker;
use bytes::Bytes;
use http::StatusCode;
use std::rc::Rc;

/// Serves one connection until it ends. `early` was read from it before, by another process.
pub async fn run(worker: Rc<Worker>, link: Rc<Link>, socket: Socket, early: Bytes) {
    if let Some((foreign, socket)) = http1::serve(worker.clone(), link.clone(), socket, early).await {
        http1::refuse_unread(&link, &worker, &socket, &foreign.refusal());
        // It is in the middle of something that nobody reads.
        Box::pin(http1::linger(socket)).await;
    }
}

/// What a connection may begin with that is no HTTP/1, and that its client is told of in words.
#[derive(Clone, Copy)]
pub enum Foreign {
    Tls,
    Http2,
}

impl Foreign {
    /// The record of a TLS handshake (RFC 8446 section 5.1); the preface of HTTP/2 (RFC 9113 section 3.4).
    pub fn begins(bytes: &[u8]) -> Option<Foreign> {
        match bytes {
            [0x16, ..] => Some(Foreign::Tls),
            _ if bytes.starts_with(b"PRI * HTTP/2") => Some(Foreign::Http2),
            _ => None,
        }
    }

    fn refusal(self) -> Refusal {
        match self {
            Foreign::Tls => Refusal::bad_request("this port speaks HTTP, not TLS: use http:// for it"),
            Foreign::Http2 => {
                Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "this port speaks HTTP/1.1, not HTTP/2")
                    .clients()
            }
        }
    }
}
