//! Bytes both ways between a client and an origin, after `CONNECT` or an upgrade.
//!
//! Each direction ends by itself (half-close); when nothing moves in either for the idle time, both end. Once the proxy stops soon,
//! that is a second, and what moves has a bound of its own: a tunnel does not end by itself as a response does, and most are open for
//! what may still come. Where another process has taken over, or the proxy stops gracefully, they go on.

use super::GRACE;
use crate::answer::stream::{Stream, Upstream};
use crate::worker::Worker;
use bytes::Bytes;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::{Instant, sleep};

/// Bytes of one direction's buffer.
const BUFFER: usize = 16 << 10;

/// Copies until both directions ended. `early` is what the client sent behind its request.
pub async fn run(
    worker: &Worker,
    stream: &Stream,
    client: impl AsyncRead + AsyncWrite,
    early: Bytes,
    upstream: Upstream,
) {
    let timeouts = &worker.settings().timeouts;
    let (origin, first) = match upstream {
        Upstream::Connected(stream) => (stream, Bytes::new()),
        Upstream::Upgraded(line) => {
            match tokio::time::timeout(timeouts.origin_stall, line.into_stream()).await {
                Ok(Some(parts)) => parts,
                _ => return stream.broken_off(),
            }
        }
    };
    let ended = Ended { stream, up: Moved::default(), down: Moved::default(), whole: Cell::new(false) };
    let (up, down) = (&ended.up, &ended.down);
    let (client_read, client_write) = split(client);
    let (origin_read, origin_write) = split(origin);
    let both = async {
        tokio::join!(copy(early, client_read, origin_write, up), copy(first, origin_read, client_write, down))
    };
    tokio::select! {
        (up, down) = both => ended.whole.set(up.is_ok() && down.is_ok()),
        () = until_idle(worker, || up.times.get() + down.times.get(), timeouts.tunnel_idle) => {}
    }
}

/// Tells what came of the tunnel when it goes, also where the drain time is over and its task with it.
struct Ended<'a> {
    stream: &'a Stream,
    up: Moved,
    down: Moved,
    whole: Cell<bool>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.stream.tunnelled(self.up.bytes.get(), self.down.bytes.get(), self.whole.get());
    }
}

/// What moved in one direction.
#[derive(Default)]
struct Moved {
    /// That reached its end.
    bytes: Cell<u64>,
    /// How often anything did.
    times: Cell<u64>,
}

impl Moved {
    fn count(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes as u64);
        self.times.set(self.times.get() + 1);
    }
}

async fn copy(
    first: Bytes,
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &Moved,
) -> io::Result<()> {
    to.write_all(&first).await?;
    to.flush().await?;
    moved.count(first.len());
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = match from.read(&mut buffer).await {
            Ok(n) => n,
            // Who left without a word has left.
            Err(error) => {
                let _ = to.shutdown().await;
                return Err(error);
            }
        };
        moved.count(0);
        if n == 0 {
            return to.shutdown().await;
        }
        let mut rest = &buffer[..n];
        while !rest.is_empty() {
            let written = to.write(rest).await?;
            // TLS may keep what it has encrypted.
            to.flush().await?;
            moved.count(written);
            rest = &rest[written..];
        }
    }
}

/// Whoever stops the worker wakes this task.
async fn until_idle(worker: &Worker, moved: impl Fn() -> u64, idle: Duration) {
    let mut timer = pin!(sleep(idle));
    let (mut before, mut stopping) = (moved(), false);
    poll_fn(|cx| {
        loop {
            if worker.tunnels_end.get().is_some() && !stopping {
                stopping = true;
            } else {
                ready!(timer.as_mut().poll(cx));
                let is_over = worker.tunnels_end.get().is_some_and(|end| Instant::now().into_std() >= end);
                if is_over || moved() == before {
                    return Poll::Ready(());
                }
            }
            before = moved();
            let limit = if stopping { idle.min(GRACE) } else { idle };
            let next = Instant::now() + limit;
            timer.as_mut().reset(worker.tunnels_end.get().map_or(next, |end| next.min(end.into())));
        }
    })
    .await;
}
