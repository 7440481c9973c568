//! A worker's reads in flight: since when each waits for the disk, and when it is given up.
//!
//! One timer watches all of them. With a timer for each, whichever is the next to expire would wake the runtime, which is a
//! system call.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::task::spawn_local;
use tokio::time::sleep_until;

/// Reads in flight; clones are the same ones.
#[derive(Clone)]
pub struct Flights {
    reads: Rc<RefCell<Reads>>,
    /// For how long a read is waited for; `None`: for ever, where no runtime tells the time.
    limit: Option<Duration>,
}

#[derive(Default)]
struct Reads {
    /// In the order in which they began. `None`: it has ended, but one before it has not.
    in_order: VecDeque<Option<Read>>,
    /// How many went before the first of them.
    gone: u64,
    /// A read was given up: until then none is begun by who has patience.
    hangs_until: Option<Instant>,
    /// A task looks for those that are overdue, for as long as there are any.
    watched: bool,
}

struct Read {
    since: Instant,
    /// When it is overdue, or is so again.
    due: Option<Instant>,
    overdue: bool,
    waker: Option<Waker>,
}

/// One read among them; ends when dropped.
pub struct Flight {
    flights: Flights,
    number: u64,
}

impl Flights {
    pub fn new(limit: Option<Duration>) -> Flights {
        Flights { reads: Rc::default(), limit }
    }

    /// `WouldBlock` when the oldest read has been waiting for longer than `patience`, or one was given up just now: those
    /// behind it will hardly fare better.
    pub fn check(&self, patience: Option<Duration>) -> io::Result<()> {
        self.reads.borrow().check(patience).map(|_| ())
    }

    /// Begins a read, after a `check`.
    pub fn begin(&self, patience: Option<Duration>) -> io::Result<Flight> {
        let mut reads = self.reads.borrow_mut();
        let since = reads.check(patience)?;
        let number = reads.gone + reads.in_order.len() as u64;
        let due = self.limit.map(|limit| since + limit);
        reads.in_order.push_back(Some(Read { since, due, overdue: false, waker: None }));
        if let Some(limit) = self.limit
            && !std::mem::replace(&mut reads.watched, true)
        {
            spawn_local(watch(Rc::downgrade(&self.reads), limit));
        }
        Ok(Flight { flights: self.clone(), number })
    }

    /// A read was given up: for so long none is begun by who has patience.
    pub fn hang_for(&self, time: Duration) {
        self.reads.borrow_mut().hangs_until = Some(Instant::now() + time);
    }
}

impl Flight {
    /// What comes of the read, or `None` if that takes too long and who waits does not stay. It is the same read that is waited
    /// for again: what is given up is read nonetheless, so that a slow disk would only get slower by being asked once more.
    pub async fn wait<T>(&self, read: impl Future<Output = T>, stays: impl Fn() -> bool) -> Option<T> {
        let mut read = pin!(read);
        poll_fn(|cx| match read.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.is_overdue() && !stays() => Poll::Ready(None),
            Poll::Pending => self.wake_when_overdue(cx),
        })
        .await
    }

    /// Since this was asked last.
    fn is_overdue(&self) -> bool {
        self.of_read(|read| std::mem::take(&mut read.overdue))
    }

    fn wake_when_overdue<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.of_read(|read| match &mut read.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        });
        Poll::Pending
    }

    fn of_read<T: Default>(&self, of: impl FnOnce(&mut Read) -> T) -> T {
        let mut reads = self.flights.reads.borrow_mut();
        let at = (self.number - reads.gone) as usize;
        reads.in_order[at].as_mut().map(of).unwrap_or_default()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut reads = self.flights.reads.borrow_mut();
        let at = (self.number - reads.gone) as usize;
        reads.in_order[at] = None;
        while reads.in_order.front().is_some_and(Option::is_none) {
            reads.in_order.pop_front();
            reads.gone += 1;
        }
    }
}

impl Reads {
    fn check(&self, patience: Option<Duration>) -> io::Result<Instant> {
        let now = Instant::now();
        let oldest = self.in_order.front().and_then(Option::as_ref);
        let hangs = |patience| {
            oldest.is_some_and(|oldest| now.duration_since(oldest.since) > patience)
                || self.hangs_until.is_some_and(|until| now < until)
        };
        if patience.is_some_and(hangs) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(now) }
    }

    /// Wakes those that are overdue, and tells when the next one will be, if there is any.
    fn look(&mut self, limit: Duration) -> Option<Instant> {
        let now = Instant::now();
        let mut next = None::<Instant>;
        for read in self.in_order.iter_mut().flatten() {
            if read.due.is_some_and(|due| due <= now) {
                (read.due, read.overdue) = (Some(now + limit), true);
                read.waker.take().into_iter().for_each(Waker::wake);
            }
            next = next.into_iter().chain(read.due).min();
        }
        self.watched = next.is_some();
        next
    }
}

async fn watch(reads: Weak<RefCell<Reads>>, limit: Duration) {
    while let Some(next) = reads.upgrade().and_then(|reads| reads.borrow_mut().look(limit)) {
        sleep_until(next.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_read_that_waits_for_too_long_none_is_begun() {
        let flights = Flights::new(None);
        let begin = |patience| flights.begin(patience);
        let (patient, soon) = (Some(Duration::from_secs(60)), Some(Duration::from_millis(20)));
        let (first, second) = (begin(patient).unwrap(), begin(patient).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        assert!(begin(soon).is_err() && begin(patient).is_ok() && begin(None).is_ok());
        let third = begin(patient).unwrap();
        drop(second);
        assert!(begin(soon).is_err(), "the first one waits still");
        drop(first);
        assert!(begin(soon).is_ok(), "the third one has just begun");
        drop(third);
        let reads = flights.reads.borrow();
        let left = reads.in_order.len();
        assert!(left == 0 && reads.gone == 6, "{left} read(s) are left");
    }
}
