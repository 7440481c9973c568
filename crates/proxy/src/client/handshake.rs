//! TLS handshakes of clients: before one is done nothing is known of who is there, so that each has its time, and all together have a
//! bound.

use super::http1::{self, Link};
use crate::message::refusal::Refusal;
use crate::report::counters::Number;
use crate::settings::Settings;
use crate::transport::{Secured, Socket, secure};
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// What a handshake begins with: a record of that type (RFC 8446 section 5.1).
pub const FIRST: u8 = 0x16;

/// A client that is there needs one round trip, or two.
const ENOUGH: Duration = Duration::from_millis(250);

/// Those of one worker that are under way, the oldest first.
pub struct Handshakes {
    links: RefCell<BTreeMap<u64, (Rc<Link>, Instant)>>,
    next: Cell<u64>,
    most: usize,
}

/// One of them; leaves when dropped.
struct UnderWay<'a> {
    all: &'a Handshakes,
    id: u64,
}

/// Why there is no connection.
enum Failed {
    /// It took too long, or longer than others when there were too many.
    Late,
    /// It was a certificate authority's, which has seen what it wanted.
    Proved,
    /// The client speaks HTTP.
    Plain(Socket),
    /// It left, or said nothing that is of use.
    Broken(io::Error),
}

impl Handshakes {
    pub fn new(settings: &Settings) -> Rc<Handshakes> {
        let most = settings.bounds.handshakes.div_ceil(settings.workers.max(1)).max(1);
        Rc::new(Handshakes { links: RefCell::default(), next: Cell::new(0), most })
    }

    fn begin(&self, link: &Rc<Link>) -> UnderWay<'_> {
        let mut links = self.links.borrow_mut();
        if links.len() >= self.most
            && let Some((_, (oldest, _))) = links.pop_first()
        {
            oldest.make_way();
        }
        let id = self.next.replace(self.next.get() + 1);
        links.insert(id, (link.clone(), Instant::now()));
        UnderWay { all: self, id }
    }

    /// Ends the oldest, if it has had time enough; `false` where none has.
    pub fn make_room(&self) -> bool {
        let mut links = self.links.borrow_mut();
        let Some(oldest) = links.first_entry().filter(|oldest| oldest.get().1.elapsed() >= ENOUGH) else {
            return false;
        };
        oldest.remove().0.make_way();
        true
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.all.links.borrow_mut().remove(&self.id);
    }
}

/// The socket behind a handshake, if it comes to its end.
pub async fn run(worker: &Worker, link: &Rc<Link>, all: &Handshakes, socket: Socket) -> Option<Socket> {
    let under_way = all.begin(link);
    let result = shake(worker, link, socket).await;
    drop(under_way);
    let (number, plain) = match result {
        Ok((socket, secured)) => {
            let resumed = secured.resumed;
            worker.exit.add(if resumed { Number::HandshakesResumed } else { Number::HandshakesFull }, 1);
            link.secured_by(secured);
            return Some(socket);
        }
        Err(Failed::Proved) => (Number::HandshakesFull, None),
        Err(Failed::Late) => (Number::HandshakesLate, None),
        Err(Failed::Plain(socket)) => (Number::HandshakesPlain, Some(socket)),
        Err(Failed::Broken(error)) => {
            let client = link.peer();
            tracing::debug!(target: "tls", %client, cause = %error, "no handshake");
            (if has_left(&error) { Number::HandshakesLeft } else { Number::HandshakesFailed }, None)
        }
    };
    worker.exit.add(number, 1);
    if let Some(mut socket) = plain {
        let text = "this port speaks HTTPS, not HTTP: use https:// for it";
        http1::refuse_unread(link, worker, &mut socket, &Refusal::bad_request(text));
        http1::linger(socket).await;
    }
    None
}

/// The sweep, and whoever has too many, wakes it.
async fn shake(worker: &Worker, link: &Link, socket: Socket) -> Result<(Socket, Arc<Secured>), Failed> {
    let Some(acceptor) = &worker.shared.acceptor else {
        return Err(Failed::Broken(ErrorKind::Unsupported.into()));
    };
    let shake = async {
        match socket.first_byte().await {
            Ok(Some(FIRST)) => {}
            // Of a method's name.
            Ok(Some(byte)) if byte.is_ascii_alphabetic() => return Err(Failed::Plain(socket)),
            Ok(None) => return Err(Failed::Broken(ErrorKind::UnexpectedEof.into())),
            Ok(Some(_)) => {}
            Err(error) => return Err(Failed::Broken(error)),
        }
        let stream = acceptor.accept(socket).await.map_err(Failed::Broken)?;
        stream.map(secure).ok_or(Failed::Proved)
    };
    let mut shake = pin!(shake);
    poll_fn(|cx| {
        link.woken_by(cx.waker());
        match link.is_overdue() {
            true => Poll::Ready(Err(Failed::Late)),
            false => shake.as_mut().poll(cx),
        }
    })
    .await
}

fn has_left(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
