//! What a connection of HTTP/2 waits for, and each of its streams that is not answered at once: one sweep per worker finds those that
//! wait for too long, without a timer or a clock read per request.

use super::piece::Piece;
use super::turns::Turns;
use crate::access::client::{Admission, Client};
use crate::answer::stream::Stream;
use crate::budget::{Allowance, Lease, Wanted};
use crate::client::http1;
use crate::message::flood::Flood;
use crate::message::inflow::Inflows;
use crate::settings::Timeouts;
use crate::transport::{Secured, Socket, Speaks};
use crate::worker::Worker;
use h2::{Reason, SendStream};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;
use tokio::sync::Notify;

/// Streams whose last byte was handed over and may still be here, before it is taken for gone.
const DEPARTING: usize = 256;

/// What the socket, the connection, its streams and the sweep know of each other.
pub struct Link {
    client: RefCell<Rc<Client>>,
    /// By which settings it was judged.
    judged: Cell<u64>,
    pub speaks: Speaks,
    pub secured: Option<Arc<Secured>>,
    /// Those that have to wait for something, by their numbers.
    streams: RefCell<HashMap<u32, Rc<Watch>>>,
    /// One of them has what the connection has anyway; others may wait for that.
    has_first: Cell<bool>,
    first_is_free: Notify,
    /// Streams that came.
    begun: Cell<u64>,
    pub turns: Turns,
    pub inflows: Rc<Inflows>,
    /// Those whose response the library has.
    departing: RefCell<Vec<Rc<Stream>>>,
    /// Those whose response nobody takes any more.
    lost: RefCell<Vec<Rc<Stream>>>,
    /// Responses that break off, as soon as what the library has of them has gone.
    breaking: RefCell<Vec<SendStream<Piece>>>,
    /// The library may have requests that have not begun.
    more: Cell<bool>,
    corked: Cell<bool>,
    flood: Cell<Option<Flood>>,
    /// A head that is not at its end; which one. 0: what the connection begins with.
    head: Cell<Option<u64>>,
    /// Something else that is not at its end.
    frame: Cell<bool>,
    write_blocked: Cell<bool>,
    writes: Cell<u64>,
    seen: Seen,
    /// Of a head that has begun, whatever else is waited for.
    head_seen: Seen,
    overdue: Cell<bool>,
    /// What large heads take.
    held: RefCell<Vec<(u32, Lease)>>,
    /// Streams whose heads were read without it.
    aside: RefCell<Vec<u32>>,
    /// Somebody waits for memory in the place of a request that was refused, or has what that would have got.
    stands_in: Cell<bool>,
    spare: Cell<Option<Lease>>,
    /// No request begins any more.
    is_over: Cell<bool>,
    /// Whose head is read.
    head_of: Cell<u32>,
    /// Resets that are still to go out, and count for no flood.
    resets: Cell<u64>,
    /// What a large window takes, until the connection ends.
    window: RefCell<Option<(Lease, Allowance)>>,
    socket: Cell<Option<Socket>>,
    waker: RefCell<Option<Waker>>,
}

/// A stream that is under way.
pub struct Watch {
    pub stream: Rc<Stream>,
    /// Somebody waits for its content.
    pub content: Rc<Cell<bool>>,
    /// Its client has no room for more of the response.
    pub full: Cell<bool>,
    /// Others of the connection go before it.
    pub turning: Cell<bool>,
    /// Bytes of the response that the library has.
    pub sent: Cell<u64>,
    /// It has some of the memory for heads, or waits for it and has none of any.
    pub holds: Cell<bool>,
    pub waits: Cell<bool>,
    seen: Seen,
    moved: Cell<(u64, Option<Instant>)>,
    overdue: Cell<bool>,
}

/// What is waited for; the number changes when something of it happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    Request(u64),
    Head(u64),
    Body(u64),
    Taking(u64),
}

/// Since when it is the same.
#[derive(Default)]
struct Seen(Cell<Option<(Wait, Instant)>>);

impl Seen {
    /// Whether it is for too long.
    fn look(&self, wait: Wait, now: Instant, timeouts: &Timeouts) -> bool {
        let limit = match wait {
            Wait::Nothing => {
                self.0.set(None);
                return false;
            }
            Wait::Request(_) => timeouts.client_idle,
            Wait::Head(_) => timeouts.client_header,
            Wait::Body(_) | Wait::Taking(_) => timeouts.client_stall,
        };
        match self.0.get() {
            Some((before, since)) if before == wait => now.duration_since(since) >= limit,
            _ => {
                self.0.set(Some((wait, now)));
                false
            }
        }
    }

    fn since(&self, wait: Wait) -> Option<Instant> {
        self.0.get().filter(|(before, _)| *before == wait).map(|(_, since)| since)
    }
}

impl Link {
    /// Goes on with what began as any connection does.
    pub fn of(before: &http1::Link, worker: &Worker) -> Link {
        let client = Client::of(before.peer(), before.speaks, &worker.settings());
        Link::new(client, worker.refresh(), before.speaks, before.secured())
    }

    /// `judged`: by which settings the client was.
    fn new(client: Client, judged: u64, speaks: Speaks, secured: Option<Arc<Secured>>) -> Link {
        Link {
            client: RefCell::new(Rc::new(client)),
            judged: Cell::new(judged),
            speaks,
            secured,
            streams: RefCell::default(),
            has_first: Cell::new(false),
            first_is_free: Notify::new(),
            begun: Cell::new(0),
            turns: Turns::default(),
            inflows: Rc::default(),
            departing: RefCell::default(),
            lost: RefCell::default(),
            breaking: RefCell::default(),
            more: Cell::new(false),
            corked: Cell::new(false),
            flood: Cell::new(None),
            head: Cell::new(Some(0)),
            frame: Cell::new(false),
            write_blocked: Cell::new(false),
            writes: Cell::new(0),
            seen: Seen::default(),
            head_seen: Seen::default(),
            overdue: Cell::new(false),
            held: RefCell::default(),
            aside: RefCell::default(),
            stands_in: Cell::new(false),
            spare: Cell::default(),
            is_over: Cell::new(false),
            head_of: Cell::new(0),
            resets: Cell::new(0),
            window: RefCell::default(),
            socket: Cell::new(None),
            waker: RefCell::default(),
        }
    }

    /// What is known of the client, by the newest settings.
    pub fn client(&self, worker: &Worker) -> Rc<Client> {
        let version = worker.refresh();
        if self.judged.replace(version) != version {
            let peer = self.client.borrow().peer;
            self.client.replace(Rc::new(Client::of(peer, self.speaks, &worker.settings())));
        }
        let client = self.client.borrow().clone();
        // The other process has the cache.
        match worker.moving.get() && client.admission == Admission::Served {
            true => Rc::new(Client { admission: Admission::Passed, ..Client::clone(&client) }),
            false => client,
        }
    }

    pub fn charged(&self) -> Option<IpAddr> {
        self.client.borrow().charged()
    }

    pub fn begins(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    pub fn has_begun(&self) -> bool {
        self.begun.get() > 0
    }

    pub fn watch(&self, number: u32, watch: &Rc<Watch>) {
        self.streams.borrow_mut().insert(number, watch.clone());
    }

    pub fn forget(&self, number: u32) {
        let mut streams = self.streams.borrow_mut();
        streams.remove(&number);
        if streams.is_empty() {
            self.wake_task();
        }
    }

    pub fn is_without_streams(&self) -> bool {
        self.streams.borrow().is_empty()
    }

    /// Streams that are under way.
    pub fn count(&self) -> usize {
        self.streams.borrow().len()
    }

    /// Waits until a stream may have what the connection has anyway, which is its from then on.
    pub async fn goes_first(&self) {
        while self.has_first.replace(true) {
            self.first_is_free.notified().await;
        }
    }

    /// Another one may.
    pub fn makes_first(&self) {
        self.has_first.set(false);
        self.first_is_free.notify_one();
    }

    pub fn end_streams(&self) {
        self.streams.borrow().values().for_each(|watch| watch.end());
    }

    /// Of the stream whose head is read.
    pub fn holds(&self, lease: Option<Lease>) {
        self.held.borrow_mut().extend(lease.map(|lease| (self.head_of.get(), lease)));
    }

    /// The head that is read gets no memory.
    pub fn reads_aside(&self) {
        self.aside.borrow_mut().push(self.head_of.get());
    }

    pub fn was_read_aside(&self, number: u32) -> bool {
        let mut aside = self.aside.borrow_mut();
        let before = aside.len();
        aside.retain(|of| *of != number);
        aside.len() < before
    }

    /// Whether nobody does so far.
    pub fn begins_to_stand_in(&self) -> bool {
        !self.stands_in.replace(true)
    }

    pub fn ends_to_stand_in(&self) {
        self.stands_in.set(false);
        self.spare.take();
    }

    pub fn has_spare(&self, lease: Option<Lease>) {
        self.spare.set(lease.filter(|_| !self.is_over.get()));
    }

    pub fn take_spare(&self) -> Option<Lease> {
        self.spare.take()
    }

    pub fn reads_head_of(&self, number: u32) {
        self.head_of.set(number);
    }

    /// What the head of a stream takes, which goes where that goes.
    pub fn take_held(&self, number: u32) -> Option<Lease> {
        let mut held = self.held.borrow_mut();
        let at = held.iter().position(|(of, _)| *of == number)?;
        Some(held.swap_remove(at).1)
    }

    /// All heads that are here have been answered, or belong to their streams.
    pub fn has_begun_all(&self) {
        if self.head.get().is_none() {
            self.held.borrow_mut().clear();
            self.aside.borrow_mut().clear();
        }
    }

    /// A stream is reset for what its client has no part in.
    pub fn resets(&self) {
        self.resets.set(self.resets.get() + 1);
    }

    /// Whether a reset that goes out is one of those.
    pub fn reset_by_itself(&self) -> bool {
        let resets = self.resets.get();
        self.resets.set(resets.saturating_sub(1));
        resets > 0
    }

    /// The window is a large one from now on, which `lease` is for.
    pub fn widens(&self, lease: Lease, pool: &Allowance) {
        self.window.replace(Some((lease, pool.clone())));
    }

    pub fn is_wide(&self) -> bool {
        self.window.borrow().is_some()
    }

    /// The library has all of a stream's response.
    pub fn departs(&self, stream: Rc<Stream>) {
        self.departing.borrow_mut().push(stream);
    }

    /// The library has let go of the rest of a stream's response.
    pub fn loses(&self, stream: Rc<Stream>) {
        self.lost.borrow_mut().push(stream);
        self.wake_task();
    }

    /// There is no more of a response, and it is not all.
    pub fn breaks(&self, response: SendStream<Piece>) {
        self.breaking.borrow_mut().push(response);
        self.wake_task();
    }

    /// Says so, once the rest has gone; whether there was any.
    pub fn break_off(&self) -> bool {
        if self.write_blocked.get() || self.breaking.borrow().is_empty() {
            return false;
        }
        for mut response in self.breaking.take() {
            self.resets();
            response.send_reset(Reason::INTERNAL_ERROR);
        }
        true
    }

    /// Tells of those whose last byte has gone, or never will.
    pub fn tell(&self) {
        self.lost.take().iter().for_each(|stream| stream.broken_off());
        let is_here = self.write_blocked.get() || self.corked.get();
        if is_here && self.departing.borrow().len() < DEPARTING {
            return;
        }
        for stream in std::mem::take(&mut *self.departing.borrow_mut()) {
            stream.flushed();
            stream.release();
        }
    }

    /// Heads that are here go unanswered.
    pub fn begins_no_more(&self) {
        self.is_over.set(true);
        self.held.take();
        self.spare.take();
    }

    /// The connection has ended.
    pub fn ended(&self) {
        self.window.take();
        self.breaking.take();
        if !self.write_blocked.get() {
            self.tell();
        }
        self.lost.take().iter().chain(&self.departing.take()).for_each(|stream| stream.broken_off());
    }

    pub fn has_more(&self, more: bool) {
        self.more.set(more);
    }

    /// Whether some of a response is still to be written, or a request to begin, though no stream waits for anything.
    fn is_at_work(&self) -> bool {
        self.more.get() || self.turns.has_unsent() || !self.departing.borrow().is_empty()
    }

    pub fn cork(&self, corked: bool) {
        self.corked.set(corked);
    }

    pub fn is_corked(&self) -> bool {
        self.corked.get()
    }

    /// All that the library wrote has gone.
    pub fn flushed(&self) {
        self.tell();
    }

    pub fn flooded(&self, flood: Flood) {
        if self.flood.get().is_none() {
            self.flood.set(Some(flood));
            self.wake_task();
        }
    }

    pub fn flood(&self) -> Option<Flood> {
        self.flood.get()
    }

    pub fn is_flooded(&self) -> bool {
        self.flood.get().is_some()
    }

    pub fn reads_head(&self, open: bool) {
        self.head.set(open.then_some(self.begun.get() + 1));
    }

    pub fn reads_frame(&self, partly: bool) {
        self.frame.set(partly);
    }

    /// What was written was taken, or at least some of what went before.
    pub fn writes(&self, taken: bool, some: bool) {
        self.write_blocked.set(!taken);
        self.writes.set(self.writes.get() + u64::from(taken || some));
    }

    pub fn gives_back(&self, socket: Option<Socket>) {
        self.socket.set(socket);
    }

    pub fn take_socket(&self) -> Option<Socket> {
        self.socket.take()
    }

    pub fn woken_by(&self, waker: &Waker) {
        let mut held = self.waker.borrow_mut();
        if !held.as_ref().is_some_and(|held| held.will_wake(waker)) {
            *held = Some(waker.clone());
        }
    }

    /// Its tasks look at what the proxy does now.
    pub fn wake(&self) {
        self.wake_task();
        self.streams
            .borrow()
            .values()
            .filter(|watch| watch.stream.is_tunnel())
            .for_each(|watch| watch.stream.wake());
    }

    fn wake_task(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    pub fn sweep(&self, now: Instant, timeouts: &Timeouts) {
        let wait = self.wait();
        let is_late =
            self.seen.look(wait, now, timeouts) | self.head_seen.look(self.open_head(), now, timeouts);
        // No idle one keeps a large window while there is little for others.
        let is_dear = matches!(wait, Wait::Request(_))
            && self.window.borrow().as_ref().is_some_and(|(_, pool)| !pool.is_ample());
        if is_late || is_dear {
            self.make_way();
        }
        let gone = self.turns.gone();
        for watch in self.streams.borrow().values() {
            watch.sweep(now, timeouts, gone);
        }
    }

    /// Of streams that take something of what is `wanted`, of a large head that is read, and of a large window that idles.
    pub fn slow_since(&self, wanted: Wanted) -> Option<Instant> {
        let gone = self.turns.gone();
        let streams = self.streams.borrow();
        let slow = streams.values().filter_map(|watch| watch.slow_since(gone, wanted));
        slow.chain(self.slow_head(wanted)).chain(self.slow_window(wanted)).min()
    }

    /// Since when a large head is read that has what is `wanted`.
    fn slow_head(&self, wanted: Wanted) -> Option<Instant> {
        let holds = !self.held.borrow().is_empty();
        if holds && wanted == Wanted::Heads { self.head_seen.since(self.open_head()) } else { None }
    }

    /// Since when the connection has a large window and asks for nothing.
    fn slow_window(&self, wanted: Wanted) -> Option<Instant> {
        match self.wait() {
            idle @ Wait::Request(_) if wanted == Wanted::Bodies && self.is_wide() => self.seen.since(idle),
            _ => None,
        }
    }

    /// A head that has begun is waited for while responses go out, too.
    fn open_head(&self) -> Wait {
        match self.head.get() {
            Some(head @ 1..) => Wait::Head(head),
            _ => Wait::Nothing,
        }
    }

    pub fn end_slow(&self, wanted: Wanted) {
        let slowest = self.slow_since(wanted);
        if slowest.is_some() && [self.slow_head(wanted), self.slow_window(wanted)].contains(&slowest) {
            return self.make_way();
        }
        let streams = self.streams.borrow();
        let gone = self.turns.gone();
        let is_slowest = |watch: &&Rc<Watch>| watch.slow_since(gone, wanted) == slowest;
        streams.values().filter(is_slowest).for_each(|watch| watch.end());
    }

    pub fn idle(&self) -> Option<Option<Instant>> {
        let wait = self.wait();
        let seen = self.seen.since(wait);
        let idle = matches!(wait, Wait::Request(_)) && (self.has_begun() || seen.is_some());
        idle.then_some(seen)
    }

    pub fn is_without_request(&self) -> bool {
        self.is_without_streams() && matches!(self.wait(), Wait::Request(_) | Wait::Head(_))
    }

    pub fn is_overdue(&self) -> bool {
        self.overdue.get()
    }

    pub fn make_way(&self) {
        self.overdue.set(true);
        self.wake_task();
    }

    fn wait(&self) -> Wait {
        match self.head.get() {
            _ if self.write_blocked.get() => Wait::Taking(self.writes.get()),
            Some(head @ 1..) => Wait::Head(head),
            _ if !self.is_without_streams() => Wait::Nothing,
            // A window may have been taken back.
            _ if self.is_at_work() => Wait::Taking(self.turns.gone()),
            Some(_) => Wait::Head(0),
            None if self.frame.get() => Wait::Head(self.begun.get() + 1),
            None => Wait::Request(self.begun.get()),
        }
    }

    /// The client has begun as it should.
    pub fn is_begun(&self) {
        self.head.set(None);
    }
}

impl Watch {
    pub fn new(stream: Rc<Stream>, content: Rc<Cell<bool>>) -> Rc<Watch> {
        Rc::new(Watch {
            stream,
            content,
            full: Cell::new(false),
            turning: Cell::new(false),
            sent: Cell::new(0),
            holds: Cell::new(false),
            waits: Cell::new(false),
            seen: Seen::default(),
            moved: Cell::new((0, None)),
            overdue: Cell::new(false),
        })
    }

    pub fn is_overdue(&self) -> bool {
        self.overdue.get()
    }

    pub fn waits_for_content(&self) -> bool {
        self.content.get()
    }

    pub fn end(&self) {
        self.overdue.set(true);
        self.stream.wake();
    }

    /// `gone`: bytes of the connection's responses that have gone.
    fn wait(&self, gone: u64) -> Wait {
        // Who waits for whom in a tunnel is not known here; it looks after itself.
        if self.stream.is_tunnel() {
            Wait::Nothing
        } else if self.full.get() {
            Wait::Taking(self.sent.get())
        } else if self.turning.get() {
            Wait::Taking(gone)
        } else if self.waits_for_content() {
            Wait::Body(self.stream.received().get())
        } else {
            Wait::Nothing
        }
    }

    fn sweep(&self, now: Instant, timeouts: &Timeouts, gone: u64) {
        const LITTLE: u64 = 4 << 10;
        let wait = self.wait(gone);
        match wait {
            Wait::Taking(bytes) | Wait::Body(bytes) => {
                let (before, since) = self.moved.get();
                if since.is_none() || bytes.abs_diff(before) >= LITTLE {
                    self.moved.set((bytes, Some(now)));
                }
            }
            _ => self.moved.set((0, None)),
        }
        if self.seen.look(wait, now, timeouts) {
            self.end();
        }
    }

    /// Since when hardly anything moves of what takes memory in transit, which a hit in memory does of that for heads alone.
    fn slow_since(&self, gone: u64, wanted: Wanted) -> Option<Instant> {
        if self.waits.get() || (wanted == Wanted::Heads && !self.holds.get()) {
            return None;
        }
        match (self.wait(gone), wanted) {
            (Wait::Taking(_), Wanted::Bodies) if self.stream.is_of_memory() => None,
            (Wait::Taking(_) | Wait::Body(_), _) => self.moved.get().1,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Exit, Transaction};
    use crate::settings::Settings;
    use crate::transport::Peer;
    use std::time::Duration;

    /// While others go before it; once nothing goes any more, it is as one whose client takes nothing.
    #[test]
    fn who_waits_for_its_turn_is_ended_when_nothing_moves() {
        let client = Rc::new(Client::of(Peer::Unix, Speaks::Http, &Settings::default()));
        let exit = Rc::new(Exit::new(Arc::default(), Arc::new(|_: &Transaction| {})));
        let watch = Watch::new(Rc::new(Stream::new(client, exit)), Rc::default());
        let timeouts = Timeouts { client_stall: Duration::from_secs(10), ..Timeouts::default() };
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        watch.turning.set(true);
        for second in 0..30 {
            watch.sweep(at(second), &timeouts, 1000 * second);
            assert!(!watch.is_overdue(), "{second}");
        }
        watch.sweep(at(38), &timeouts, 29_000);
        assert!(
            !watch.is_overdue()
                && watch.slow_since(29_000, Wanted::Bodies).is_some()
                && watch.slow_since(29_000, Wanted::Heads).is_none()
        );
        watch.sweep(at(39), &timeouts, 29_000);
        assert!(watch.is_overdue());
    }

    fn link() -> Link {
        let client = Client::of(Peer::Unix, Speaks::Http, &Settings::default());
        let link = Link::new(client, 0, Speaks::Http, None);
        link.is_begun();
        link
    }

    #[test]
    fn a_head_that_does_not_end_is_late_though_its_client_reads_slowly() {
        let (pool, link) = (crate::budget::Budget::new(0, 0).heads, link());
        let timeouts = Timeouts { client_header: Duration::from_secs(10), ..Timeouts::default() };
        let begin = Instant::now();
        link.reads_head_of(1);
        link.holds(pool.try_take(1 << 10));
        link.reads_head(true);
        for second in 0..=10 {
            assert!(!link.is_overdue(), "{second}");
            // It takes a little of what is written every now and then.
            link.writes(false, true);
            link.sweep(begin + Duration::from_secs(second), &timeouts);
            assert_eq!(link.slow_since(Wanted::Heads), Some(begin));
        }
        assert!(link.is_overdue());
    }

    #[test]
    fn what_a_head_takes_goes_with_its_stream() {
        let (pool, link) = (crate::budget::Budget::new(0, 0).heads, link());
        let (size, free) = (1 << 10, pool.free());
        for number in [1, 3] {
            link.reads_head_of(number);
            link.holds(pool.try_take(size));
        }
        assert_eq!(pool.free(), free - 2 * size);
        let held = link.take_held(3);
        assert!(held.is_some() && link.take_held(3).is_none());
        // The other one never came: its stream was reset.
        link.reads_head(true);
        link.has_begun_all();
        assert_eq!(pool.free(), free - 2 * size);
        link.reads_head(false);
        link.has_begun_all();
        assert_eq!(pool.free(), free - size);
        drop(held);
        assert_eq!(pool.free(), free);
    }
}
