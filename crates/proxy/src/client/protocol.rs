//! Which protocol a client's connection speaks.
//!
//! Over TLS it is the one that was agreed on in the handshake (`tls::protocols`). Else it is HTTP/1 unless the first bytes say
//! otherwise, which `http1` finds out with its first read.

use super::handshake::{self, FIRST, Handshakes};
use super::link::Link;
use super::{http1, http2};
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
    let _open = match link.http1.speaks {
        Speaks::Http | Speaks::Redirect => None,
        Speaks::Tls => {
            // What is rare has a box of its own: every connection pays for the size of this future.
            let Some(secure) = Box::pin(handshake::run(&worker, &link.http1, handshakes, socket)).await
            else {
                return;
            };
            socket = secure;
            Some(Open::new(&worker))
        }
    };
    if link.http1.secured().is_some_and(|secured| secured.http2) {
        let http2 = link.is_http2(&worker);
        return Box::pin(http2::serve(worker, http2, socket, early)).await;
    }
    let served = http1::serve(worker.clone(), link.http1.clone(), socket, early).await;
    let Some((foreign, mut socket, read)) = served else { return };
    if matches!(foreign, Foreign::Http2) && worker.settings().http2.on {
        let http2 = link.is_http2(&worker);
        return Box::pin(http2::serve(worker, http2, socket, read)).await;
    }
    http1::refuse_unread(&link.http1, &worker, &mut socket, &foreign.refusal());
    // It is in the middle of something that nobody reads.
    Box::pin(http1::linger(socket)).await;
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

/// What the preface of HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2";

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
            _ if bytes.starts_with(PREFACE) => Some(Foreign::Http2),
            _ => None,
        }
    }

    /// Whether that is to be told only by what follows.
    pub fn may_begin(bytes: &[u8]) -> bool {
        bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes)
    }

    fn refusal(self) -> Refusal {
        match self {
            Foreign::Tls => Refusal::bad_request("this port speaks HTTP, not TLS: use http:// for it"),
            Foreign::Http2 => {
                Refusal::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "HTTP/2 is off here: use HTTP/1.1")
                    .clients()
            }
        }
    }
}
