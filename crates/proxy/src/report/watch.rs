//! Requests as they end, for those who watch: few at once, each with a filter and a bounded queue of lines. No request waits for
//! them: what finds a queue full is dropped, and counted. While nobody watches, a worker looks at one number.

use super::{Log, Transaction};
use cache::Glob;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

/// Who watch at once.
pub const WATCHERS: usize = 4;
/// Bytes that wait for one of them, at most, but for the last line of each worker.
const ROOM: usize = 256 << 10;
/// For so long lines are gathered: whoever adds one meanwhile wakes nobody.
const GATHERED: Duration = Duration::from_millis(20);
/// After so long without a line an empty one tells that nothing came, and finds out who has gone.
const SILENCE: Duration = Duration::from_secs(10);

/// Who has read nothing for so long while there was no room has left.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Watchers {
    count: AtomicUsize,
    all: RwLock<Vec<Arc<Watcher>>>,
    /// Written and read with `all` locked.
    over: AtomicBool,
}

/// Which requests are of interest: of each kind one must suit, where there are any.
#[derive(Default)]
pub struct Filter {
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Without the port, in lower case.
    pub hosts: Vec<Glob>,
    /// With the query.
    pub paths: Vec<Glob>,
    /// The words of Cache-Status' outcomes.
    pub outcomes: Vec<Glob>,
    /// It took at least as long, to the last byte.
    pub slower: Duration,
}

struct Watcher {
    filter: Filter,
    /// There is no room: so nothing is written down for it.
    full: AtomicBool,
    dropped: AtomicU64,
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    over: bool,
    full_since: Option<Instant>,
    /// Tells that it has left.
    left: Option<oneshot::Sender<()>>,
}

/// A place among those who watch.
pub struct Watch {
    watchers: Arc<Watchers>,
    watcher: Arc<Watcher>,
}

/// By workers.
impl Watchers {
    pub fn are_there(&self) -> bool {
        self.count() > 0
    }

    pub fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    #[cold]
    pub(super) fn tell(&self, transaction: &Transaction, log: &dyn Log) {
        let mut line = Vec::new();
        for watcher in self.all.read().unwrap_or_else(PoisonError::into_inner).iter() {
            if watcher.filter.suits(transaction) && watcher.has_room() {
                if line.is_empty() {
                    log.line(transaction, &mut line);
                }
                watcher.add(&line);
            }
        }
    }
}

/// By the operator's thread.
impl Watchers {
    /// A place, and what tells that nobody reads there any more; `None`: there are as many as there may be, or it is over.
    pub fn join(self: &Arc<Watchers>, filter: Filter) -> Option<(Watch, oneshot::Receiver<()>)> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= WATCHERS || self.over.load(Relaxed) {
            return None;
        }
        let (left, leaves) = oneshot::channel();
        let waiting = Mutex::new(Waiting { left: Some(left), ..Waiting::default() });
        let (full, dropped, more) = Default::default();
        let watcher = Arc::new(Watcher { filter, full, dropped, waiting, more });
        all.push(watcher.clone());
        self.count.store(all.len(), Relaxed);
        Some((Watch { watchers: self.clone(), watcher }, leaves))
    }

    /// All have seen what there is to be seen, and nobody joins them.
    pub fn end(&self) {
        let all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        self.over.store(true, Relaxed);
        for watcher in all.iter() {
            watcher.lock().over = true;
            watcher.more.notify_one();
        }
    }

    /// Ends those who have left.
    pub fn look(&self, now: Instant) {
        for watcher in self.all.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let mut waiting = watcher.lock();
            if waiting.full_since.is_some_and(|since| now.saturating_duration_since(since) >= PATIENCE)
                && let Some(left) = waiting.left.take()
            {
                let _ = left.send(());
            }
        }
    }
}

impl Watcher {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If not, that is one more that it does not see.
    fn has_room(&self) -> bool {
        let is_full = self.full.load(Relaxed);
        if is_full {
            self.dropped.fetch_add(1, Relaxed);
        }
        !is_full
    }

    fn add(&self, line: &[u8]) {
        let mut waiting = self.lock();
        waiting.lines.extend_from_slice(line);
        if waiting.lines.len() >= ROOM && waiting.full_since.is_none() {
            waiting.full_since = Some(Instant::now());
            self.full.store(true, Relaxed);
        }
        drop(waiting);
        self.more.notify_one();
    }

    /// The lines that wait, the last of which says how many were dropped after them, if any were; `None` at the end.
    fn take(&self) -> Option<Vec<u8>> {
        let mut waiting = self.lock();
        let mut lines = std::mem::take(&mut waiting.lines);
        waiting.full_since = None;
        self.full.store(false, Relaxed);
        let dropped = self.dropped.swap(0, Relaxed);
        if dropped > 0 {
            lines.extend_from_slice(format!("{{\"dropped\":{dropped}}}\n").as_bytes());
        }
        (!waiting.over || !lines.is_empty()).then_some(lines)
    }
}

impl Watch {
    /// The next lines, of which one may be empty; `None` at the end.
    pub async fn next(&self) -> Option<Vec<u8>> {
        loop {
            let lines = self.watcher.take()?;
            if !lines.is_empty() {
                return Some(lines);
            }
            if timeout(SILENCE, self.watcher.more.notified()).await.is_err() {
                return Some(b"\n".to_vec());
            }
            sleep(GATHERED).await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut all = self.watchers.all.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|watcher| !Arc::ptr_eq(watcher, &self.watcher));
        self.watchers.count.store(all.len(), Relaxed);
    }
}

impl Filter {
    fn suits(&self, transaction: &Transaction) -> bool {
        let Filter { statuses, hosts, paths, outcomes, slower } = self;
        let suits = |globs: &[Glob], text: &dyn Fn() -> Option<String>| {
            globs.is_empty() || text().is_some_and(|text| globs.iter().any(|glob| glob.matches(&text)))
        };
        let status = transaction.status.map_or(0, |status| status.as_u16());
        transaction.to_last() >= *slower
            && (statuses.is_empty() || statuses.iter().any(|range| range.contains(&status)))
            && suits(outcomes, &|| Some(transaction.report?.outcome.word().to_owned()))
            && suits(hosts, &|| Some(without_port(transaction.host()?).to_ascii_lowercase()))
            && suits(paths, &|| Some(transaction.path()?.to_owned()))
    }
}

fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Id;
    use crate::transport::Peer;
    use http::{Method, StatusCode};
    use store::Key;

    struct Named;

    impl Log for Named {
        fn ended(&self, _: &Transaction) {}

        fn line(&self, transaction: &Transaction, to: &mut Vec<u8>) {
            to.extend_from_slice(format!("{}\n", transaction.host().unwrap_or("-")).as_bytes());
        }
    }

    fn told(host: &str, path: &str, status: u16) -> Transaction {
        let mut told = Transaction::new(Id::Made([0, 0]), Peer::Unix, Method::GET);
        told.asks_for_key(Key::new(cache::key::primary("http", host, path)));
        told.status = StatusCode::from_u16(status).ok();
        told.report = Some(cache::Outcome::Miss(cache::Miss::Vary).into());
        told
    }

    fn globs(texts: &[&str]) -> Vec<Glob> {
        texts.iter().map(|text| Glob::new(text).unwrap()).collect()
    }

    #[test]
    fn what_a_filter_lets_through() {
        let request = told("www.Example.com:8080", "/a/b?c", 404);
        for (filter, expected) in [
            (Filter::default(), true),
            (Filter { hosts: globs(&["x", "*.example.com"]), ..Filter::default() }, true),
            (Filter { hosts: globs(&["example.com"]), ..Filter::default() }, false),
            (Filter { paths: globs(&["/a/*"]), statuses: vec![400..=499], ..Filter::default() }, true),
            (Filter { paths: globs(&["/a/b"]), statuses: vec![400..=499], ..Filter::default() }, false),
            (
                Filter { paths: globs(&["/a/*"]), statuses: vec![200..=299, 500..=599], ..Filter::default() },
                false,
            ),
            (Filter { outcomes: globs(&["miss*"]), ..Filter::default() }, true),
            (Filter { outcomes: globs(&["miss"]), ..Filter::default() }, false),
            (Filter { slower: Duration::from_secs(1), ..Filter::default() }, false),
        ] {
            assert_eq!(filter.suits(&request), expected);
        }
        assert_eq!(
            (without_port("[::1]:8"), without_port("[::1]"), without_port("a")),
            ("[::1]", "[::1]", "a")
        );
    }

    #[tokio::test]
    async fn what_finds_no_room_is_dropped_and_counted() {
        let watchers = Arc::new(Watchers::default());
        assert!(!watchers.are_there());
        let (all, _) = watchers.join(Filter::default()).unwrap();
        let (none, _) = watchers.join(Filter { hosts: globs(&["other"]), ..Filter::default() }).unwrap();
        let mut more: Vec<_> = (2..WATCHERS).map(|_| watchers.join(Filter::default()).unwrap()).collect();
        assert!(watchers.join(Filter::default()).is_none(), "there are enough");
        more.clear();
        let host = "h".repeat(1023);
        for _ in 0..2 * ROOM / 1024 {
            watchers.tell(&told(&host, "/", 200), &Named);
        }
        let lines = String::from_utf8(all.next().await.unwrap()).unwrap();
        assert_eq!(lines.lines().filter(|line| *line == host).count(), ROOM / 1024);
        assert_eq!(lines.lines().last(), Some(&*format!("{{\"dropped\":{}}}", ROOM / 1024)));
        watchers.tell(&told("other", "/", 200), &Named);
        assert_eq!(none.next().await.unwrap(), b"other\n");
        watchers.end();
        assert_eq!((all.next().await.as_deref(), all.next().await), (Some(&b"other\n"[..]), None));
        assert_eq!(none.next().await, None);
        drop((all, none));
        assert!(!watchers.are_there());
        assert!(watchers.join(Filter::default()).is_none(), "it is over");
    }

    /// Counts the lines that are written down.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Log for Counted {
        fn ended(&self, _: &Transaction) {}

        fn line(&self, transaction: &Transaction, to: &mut Vec<u8>) {
            self.0.fetch_add(1, Relaxed);
            Named.line(transaction, to);
        }
    }

    #[tokio::test]
    async fn who_reads_nothing_costs_nothing_and_has_left_after_a_while() {
        let (watchers, log) = (Arc::new(Watchers::default()), Counted::default());
        let (reads, mut reads_left) = watchers.join(Filter::default()).unwrap();
        let (watch, mut left) = watchers.join(Filter::default()).unwrap();
        let host = "h".repeat(1023);
        let fill = || (0..2 * ROOM / 1024).for_each(|_| watchers.tell(&told(&host, "/", 200), &log));
        let after = |seconds| Instant::now() + Duration::from_secs(seconds);
        fill();
        assert_eq!(log.0.load(Relaxed), ROOM / 1024, "once for both, while there was room");
        watchers.look(after(50));
        reads.next().await.unwrap();
        watchers.look(after(70));
        assert!(left.try_recv().is_ok() && reads_left.try_recv().is_err());
        watchers.look(after(70));
        drop(watch);
        assert_eq!(watchers.count(), 1);
        fill();
        assert_eq!(log.0.load(Relaxed), 2 * ROOM / 1024);
    }
}
