//! A client's connection that speaks HTTP/1: the library that does so (`serve`), over a socket that is watched (`socket`), on
//! behalf of what is known of the connection (`link`), for a service that answers (`service`).
//!
//! The watched socket does its jobs without a timer or a clock read per request: what it notes of the connection is looked at by one
//! sweep per worker, which finds the overdue ones.

pub mod framing;
mod link;
mod service;
mod socket;

pub use self::link::Link;

use self::link::Wait;
use self::service::Http1Service;
use self::socket::WatchedSocket;
use super::protocol::Foreign;
use super::tunnel;
use crate::message::refusal::Refusal;
use crate::phase::Moved;
use crate::settings::Bounds;
use crate::transport::Socket;
use crate::worker::Worker;
use bytes::Bytes;
use http::{Method, StatusCode};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What a refused client may still send before it is cut off, so that it gets to read why.
const LINGER: (Duration, usize) = (Duration::from_secs(2), 1 << 20);

/// Why a connection is not served any more, other than that it came to its end.
enum Why {
    Waited(Wait),
    /// Another process goes on with it.
    Moves,
}

/// Serves a connection until it ends, or gives it back, with what was read of it, when it begins with what is no HTTP/1. `early` was
/// read from it before.
pub async fn serve(
    worker: Rc<Worker>,
    link: Rc<Link>,
    socket: Socket,
    early: Bytes,
) -> Option<(Foreign, Socket, Bytes)> {
    let io = TokioIo::new(WatchedSocket {
        socket,
        early,
        begun: Bytes::new(),
        link: link.clone(),
        worker: worker.clone(),
        taken: Cell::default(),
    });
    let service = Http1Service { worker: worker.clone(), link: link.clone() };
    let mut connection = builder(&worker.settings().bounds).serve_connection(io, service);
    let mut told = false;
    let end = poll_fn(|cx| {
        link.stream.woken_by(cx.waker());
        if let Some(wait) = link.overdue.get() {
            return Poll::Ready(Err(Why::Waited(wait)));
        }
        let moving = worker.moving.get();
        if moving && link.moves() && link.is_between_requests() {
            return Poll::Ready(Err(Why::Moves));
        }
        let leaves = moving && !link.moves();
        if leaves {
            link.pass_where_moving(&worker);
        }
        // One that has asked for nothing yet may, once: it may be about to.
        let ends = worker.stopping.get() || link.closes.get() || (leaves && link.stream.begun() > 0);
        // Told earlier, the library drops what of a last response its client has not taken yet.
        if ends && !told && !link.behind.get() {
            told = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        let end = connection.poll_without_shutdown(cx).map(Ok);
        match end.is_pending() && moving && link.moves() && link.is_between_requests() {
            true => Poll::Ready(Err(Why::Moves)),
            false => end,
        }
    })
    .await;
    let end = match end {
        Ok(end) => Ok(end),
        Err(Why::Waited(wait)) => Err(wait),
        Err(Why::Moves) => {
            let parts = connection.into_parts();
            let WatchedSocket { socket, early, begun, .. } = parts.io.into_inner();
            let read = match early.is_empty() && begun.is_empty() {
                true => parts.read_buf,
                false => [parts.read_buf, begun, early].concat().into(),
            };
            if let Ok(socket) = socket.into_descriptor() {
                worker.shared.handover.pass(Moved { socket, read });
            }
            return None;
        }
    };
    let stalled = matches!(end, Err(Wait::Body(_))) && link.stream.is_unanswered();
    let late = || Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request's content did not come in time");
    let late = stalled.then(|| {
        link.stream.note(|transaction| transaction.status = Some(StatusCode::REQUEST_TIMEOUT));
        message(&link, &worker, &late())
    });
    let parts = connection.into_parts();
    let WatchedSocket { mut socket, early, .. } = parts.io.into_inner();
    if let Some(foreign) = link.foreign.get() {
        return Some((foreign, socket, early));
    }
    let upstream = link.stream.take_tunnel().filter(|_| matches!(end, Ok(Ok(()))));
    if upstream.is_none() {
        link.stream.broken_off();
    }
    if let Some(late) = late {
        let _ = socket.try_write(late.as_bytes());
    }
    let unread = link.unread(&end, &worker);
    if let Some(refusal) = &unread {
        refuse_unread(&link, &worker, &mut socket, refusal);
    }
    match (end, upstream) {
        (_, Some(upstream)) => {
            // It lies in the library's buffer, which goes.
            let read = Bytes::copy_from_slice(&parts.read_buf);
            drop(parts.read_buf);
            link.large_head.borrow_mut().give_up();
            tunnel::run(&worker, &link.stream, socket, read, upstream).await;
        }
        // What broke off does not end with the word that it is whole (RFC 8446 section 6.1).
        (Ok(Err(_)), _) if socket.is_tls() && unread.is_none() => {}
        (Ok(_), _) if link.is_mid_message() || unread.is_some() => Box::pin(linger(socket)).await,
        (Err(_), _) if unread.is_some() || stalled => Box::pin(say_end(&worker, socket)).await,
        // What ends without a word may have been cut off by anybody.
        (Ok(_), _) if socket.is_tls() => Box::pin(say_end(&worker, socket)).await,
        // Closing says so too, in one system call.
        _ => {}
    }
    None
}

/// Answers a request that could not be read, in words, and tells of it at the exit, where its method is `-`. Nothing is written
/// where the library wrote its own answer behind a response that had not gone yet.
pub fn refuse_unread(link: &Link, worker: &Worker, client: &mut Socket, refusal: &Refusal) {
    let mut flight = link.stream.begin(Method::from_bytes(b"-").expect("a token"));
    let (answer, mut over) = (message(link, worker, refusal), true);
    if link.answered.get() {
        over = client.try_write(answer.as_bytes()).is_ok_and(|n| n == answer.len());
        let head = answer.find("\r\n\r\n").map_or(0, |end| end + 4);
        flight.sent(answer.len() - head, over);
    }
    flight.answered(refusal.status, None, Default::default(), over);
    drop(flight);
    link.stream.flushed();
}

/// A refusal as a message, for where the library is not there any more.
fn message(link: &Link, worker: &Worker, refusal: &Refusal) -> String {
    let reason = link.stream.reason(refusal, &worker.settings().pages);
    let (text, fields) = reason.map_or_else(Default::default, |reason| {
        let id = reason.id.to_str().unwrap_or_default();
        let fields = format!("content-type: {}\r\nx-request-id: {id}\r\n", reason.content_type);
        (reason.text, fields)
    });
    format!(
        "HTTP/1.1 {} {}\r\nconnection: close\r\n{fields}\
         cache-control: no-store\r\ncontent-length: {}\r\n\r\n{text}",
        refusal.status.as_u16(),
        refusal.status.canonical_reason().unwrap_or_default(),
        text.len()
    )
}

fn builder(bounds: &Bounds) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_header_size(bounds.head_bytes).max_buf_size(bounds.head_bytes.max(8 << 10));
    // The library keeps up to 100 fields on its stack, and that is its default.
    if bounds.head_fields != 100 {
        builder.max_headers(bounds.head_fields);
    }
    builder
}

/// A client in the middle of a message gets a moment to read the answer before the rest of what it sends is met with a
/// reset.
pub async fn linger(mut socket: Socket) {
    let drain = async {
        // Over TLS it waits for a client that takes nothing.
        if socket.shutdown().await.is_err() {
            return;
        }
        let mut left = LINGER.1;
        let mut buffer = [0; 4096];
        while let Ok(n) = socket.read(&mut buffer).await {
            if n == 0 || n > left {
                break;
            }
            left -= n;
        }
    };
    let _ = tokio::time::timeout(LINGER.0, drain).await;
}

/// Sends what a connection over TLS may still have, and that this is the end.
async fn say_end(worker: &Worker, mut socket: Socket) {
    let limit = worker.settings().timeouts.client_stall;
    let _ = tokio::time::timeout(limit, socket.shutdown()).await;
}
