//! Lines on their way from the workers to the writer. Each worker writes into a buffer that mostly nobody else touches but the
//! writer, which takes what is there now and then. A buffer that is full drops lines and counts them: no request waits for the log.

use super::Settings;
use super::field::Entry;
use super::format::Format;
use super::mask::Mask;
use cache::Item;
use jiff::{Timestamp, tz::TimeZone};
use proxy::{Log, Transaction};
use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

/// Bytes that wait in a buffer, at most, but for the last line. At half of that the writer is woken.
pub const ROOM: usize = 512 << 10;
/// With more workers than this some share one.
pub const BUFFERS: usize = 16;

/// What workers and writer share.
pub struct Buffers {
    format: Format,
    mask: Mask,
    item: Item,
    is_forward: bool,
    one_in: u64,
    zone: TimeZone,
    buffers: [Buffer; BUFFERS],
    dropped: AtomicU64,
    /// Lines that nobody will read, since the start.
    lost: AtomicU64,
    orders: Sender<Order>,
}

/// What the writer is told.
pub enum Order {
    /// A buffer is half full.
    Look,
    /// The file is to be opened anew.
    Reopen,
    /// All is to be written.
    End,
}

#[repr(align(128))]
#[derive(Default)]
struct Buffer(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    requests: u64,
    /// The second that was shown last, and how.
    second: Option<i64>,
    local: String,
}

thread_local! {
    static MINE: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Relaxed) % BUFFERS)
    };
}

impl Buffers {
    pub fn new(settings: &Settings, item: Item, is_forward: bool, orders: Sender<Order>) -> Buffers {
        Buffers {
            format: settings.format.clone(),
            mask: settings.mask,
            item,
            is_forward,
            one_in: settings.one_in.max(1),
            zone: TimeZone::system(),
            buffers: Default::default(),
            dropped: AtomicU64::default(),
            lost: AtomicU64::default(),
            orders,
        }
    }

    /// Adds the line of a request that has ended.
    pub fn add(&self, transaction: &Transaction) {
        self.add_at(transaction, Timestamp::now());
    }

    fn add_at(&self, transaction: &Transaction, ended: Timestamp) {
        let mut waiting = self.buffers[MINE.get()].0.lock().unwrap_or_else(PoisonError::into_inner);
        let Waiting { lines, requests, second, local } = &mut *waiting;
        *requests = requests.wrapping_add(1);
        if !is_one_of(*requests, self.one_in) {
            return;
        }
        if lines.len() >= ROOM {
            self.dropped.fetch_add(1, Relaxed);
            self.lose(1);
            return;
        }
        if *second != Some(ended.as_second()) {
            *second = Some(ended.as_second());
            *local = ended.to_zoned(self.zone.clone()).strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
        }
        let Buffers { mask, item, is_forward, .. } = self;
        let entry = Entry { transaction, ended, local, mask: *mask, item, is_forward: *is_forward };
        let before = lines.len();
        self.format.write(&entry, lines);
        if before < ROOM / 2 && lines.len() >= ROOM / 2 {
            self.order(Order::Look);
        }
    }

    /// So many lines could not be written.
    pub fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Relaxed);
    }

    /// Tells the writer; in vain if it has ended.
    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Takes what waits, and how many lines were dropped since the last time.
    pub fn take(&self, into: &mut Vec<u8>) -> u64 {
        for buffer in &self.buffers {
            let mut waiting = buffer.0.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.lines.is_empty() {
                continue;
            }
            if into.is_empty() {
                // Both keep their room.
                mem::swap(&mut waiting.lines, into);
            } else {
                into.append(&mut waiting.lines);
            }
        }
        self.dropped.swap(0, Relaxed)
    }
}

impl Log for Buffers {
    fn ended(&self, transaction: &Transaction) {
        self.add(transaction);
    }

    fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// Whether the `nth` is one of one in so many: spread evenly, and in step with no load that repeats.
fn is_one_of(nth: u64, one_in: u64) -> bool {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    nth.wrapping_mul(GOLDEN) <= u64::MAX / one_in
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use proxy::{Peer, RequestId};
    use std::sync::mpsc::channel;

    fn buffers(format: &str, one_in: u64) -> Buffers {
        let settings = Settings { format: format.parse().unwrap(), one_in, ..Settings::default() };
        Buffers { zone: TimeZone::UTC, ..Buffers::new(&settings, Item::new("cosm"), true, channel().0) }
    }

    fn told() -> Transaction {
        Transaction::new(RequestId::Made([1, 2]), Peer::Ip("192.0.2.7".parse().unwrap()), Method::GET)
    }

    #[test]
    fn one_in_so_many_is_logged() {
        for one_in in [1, 2, 10, 1000] {
            let logged = (0..100_000).filter(|nth| is_one_of(*nth, one_in)).count() as u64;
            assert!(logged.abs_diff(100_000 / one_in) <= 2, "{logged} of one in {one_in}");
        }
    }

    #[test]
    fn what_is_not_taken_is_dropped_and_counted() {
        let buffers = buffers("combined", 1);
        let ended = Timestamp::from_second(1_000_000_000).unwrap();
        for _ in 0..40_000 {
            buffers.add_at(&told(), ended);
        }
        let mut lines = Vec::new();
        let dropped = buffers.take(&mut lines);
        let line = "192.0.2.7 - - [09/Sep/2001:01:46:40 +0000] \"-\" 0 0 \"-\" \"-\"\n";
        assert!(lines.len() <= ROOM + line.len() && lines.starts_with(line.as_bytes()));
        assert_eq!((lines.len() / line.len()) as u64 + dropped, 40_000);
        assert!(dropped > 0 && buffers.lost() == dropped);
        buffers.add_at(&told(), ended);
        let mut more = Vec::new();
        assert_eq!((buffers.take(&mut more), more.len()), (0, line.len()), "and then there is room again");
    }

    #[test]
    fn each_format_has_its_fields() {
        let at = Timestamp::from_millisecond(1_000_000_000_123).unwrap();
        let line = |format: &str| {
            let (buffers, mut lines) = (buffers(format, 1), Vec::new());
            buffers.add_at(&told(), at);
            buffers.take(&mut lines);
            String::from_utf8(lines).unwrap()
        };
        assert_eq!(
            line("squid"),
            "1000000000.123      0 192.0.2.7 NONE_ABORTED/000 0 GET - - HIER_NONE/- -\n"
        );
        let json: serde_json::Value = serde_json::from_str(&line("json")).unwrap();
        assert_eq!(json["time"], "2001-09-09T01:46:40.123Z");
        assert_eq!((&json["client"], &json["url"]), (&"192.0.2.7".into(), &serde_json::Value::Null));
        assert_eq!(line("$$${method}x $time_unix"), "$GETx 1000000000.123\n");
    }
}
