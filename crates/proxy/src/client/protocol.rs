//! Which protocol a client's connection speaks.
//!
//! Over TLS it is the one that was agreed on in the handshake (`tls::protocols`): HTTP/1.1 is all that is offered so far, and HTTP/2
//! would be served here. Without TLS it is HTTP/1 unless the first bytes say otherwise, which `http1` finds out with its first read.

use super::handshake::{self, FIRST, Handshakes};
use super::http1::{self, Link};
use crate::message::refusal::Refusal;
use crate::report::counters::Number;
use crate::transport::{Socket, Speaks};
use crate::worker::Worker;
use bytes::Bytes;
use http::StatusCode;
use std::rc::Rc;

/// Serves one connection until it ends. `early` was read from it before, by another process.
pub async fn run(
    worker: Rc<Worker>,
    link: Rc<Link>,
    handshakes: &Handshakes,
    mut socket: Socket,
    early: Bytes,
) {
    let _open = match link.speaks {
        Speaks::Http | Speaks::Redirect => None,
        Speaks::Tls => {
            // What is rare has a box of its own: every connection pays for the size of this future.
            let Some(secure) = Box::pin(handshake::run(&worker, &link, handshakes, socket)).await else {
                return;
            };
            socket = secure;
            Some(Open::new(&worker))
        }
    };
    if let Some((foreign, mut socket)) = http1::serve(worker.clone(), link.clone(), socket, early).await {
        http1::refuse_unread(&link, &worker, &mut socket, &foreign.refusal());
        // It is in the middle of something that nobody reads.
        Box::pin(http1::linger(socket)).await;
    }
}

/// A connection over TLS, which is counted while it is open.
struct Open(Rc<Worker>);

impl Open {
    fn new(worker: &Rc<Worker>) -> Open {
        worker.exit.add(Number::OpenTls, 1);
        Open(worker.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.exit.subtract(Number::OpenTls, 1);
    }
}

/// What a connection may begin with that is no HTTP/1, and that its client is told of in words.
#[derive(Clone, Copy)]
pub enum Foreign {
    Tls,
    Http2,
}

impl Foreign {
    /// The record of a TLS handshake; the preface of HTTP/2 (RFC 9113 section 3.4).
    pub fn begins(bytes: &[u8]) -> Option<Foreign> {
        match bytes {
            [FIRST, ..] => Some(Foreign::Tls),
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
