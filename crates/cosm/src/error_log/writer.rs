//! From events to lines, and from lines to where they go.

use super::limit::Limit;
use super::line::{Fields, Style, line, severity, text, word};
use super::recent::Recent;
use super::{Levels, Settings, UNLIMITED};
use crate::sink::{self, Output, Rotation, Severity, To};
use jiff::Timestamp;
use proxy::{Event, say};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry, filter::Targets, reload};

/// Lines that wait, at most.
const WAITING: usize = 256;
/// How long an order to the writer is tried, and how long a stop waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is said that lines are lost.
const SAID: Duration = Duration::from_secs(60);

/// The log of the process; there is one.
pub struct ErrorLog {
    orders: SyncSender<Order>,
    levels: reload::Handle<Targets, Registry>,
    recent: Arc<Recent>,
    thread: JoinHandle<()>,
}

enum Order {
    Write(Severity, String),
    /// The file is to be opened anew.
    Reopen,
    /// Tells when all before it is written.
    Flush(SyncSender<()>),
    End,
}

impl ErrorLog {
    /// Takes all events of the process from now on.
    ///
    /// # Errors
    /// It cannot be written; one line that names it.
    pub fn open(settings: &Settings) -> Result<ErrorLog, String> {
        let Settings { to, style, levels } = settings;
        let cannot = |error: io::Error| format!("cannot write error log {to}: {error}");
        let output = Output::open(to, Rotation::default()).map_err(cannot)?;
        let ((orders, received), lost) = (sync_channel(WAITING), Arc::<AtomicU64>::default());
        let recent = Arc::<Recent>::default();
        let teller = Teller {
            orders: orders.clone(),
            style: *style,
            lost: lost.clone(),
            limit: Mutex::default(),
            recent: recent.clone(),
        };
        let (filter, levels) = reload::Layer::new(levels.filter());
        let all = tracing_subscriber::registry().with(teller.with_filter(filter));
        tracing::subscriber::set_global_default(all)
            .map_err(|_| "there is an error log already".to_owned())?;
        let writer = Writer { to: to.clone(), style: *style, output, lost, said: None };
        let thread = thread::Builder::new()
            .name("error-log".into())
            .spawn(move || writer.run(&received))
            .map_err(|error| format!("cannot start the error log's thread: {error}"))?;
        Ok(ErrorLog { orders, levels, recent, thread })
    }

    /// The last events, also where lines of them were lost.
    pub fn recent(&self) -> Arc<Recent> {
        self.recent.clone()
    }

    /// What changes the levels.
    pub fn leveller(&self) -> impl Fn(Levels) + Send + use<> {
        let handle = self.levels.clone();
        move |levels| {
            // It fails only where the log is gone.
            let _ = handle.reload(levels.filter());
        }
    }

    /// What has the file opened anew.
    pub fn reopener(&self) -> impl Fn() + Send + use<> {
        let orders = self.orders.clone();
        move || order(&orders, Order::Reopen)
    }

    /// Waits until what happened so far is written, unless that takes too long.
    pub fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        order(&self.orders, Order::Flush(done));
        let _ = is_done.recv_timeout(PATIENCE);
    }

    fn end(&self) {
        order(&self.orders, Order::End);
        let until = Instant::now() + PATIENCE;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Writes what waits, unless that takes too long.
impl Drop for ErrorLog {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives an order; in vain where the writer makes no room.
fn order(orders: &SyncSender<Order>, mut order: Order) {
    let until = Instant::now() + PATIENCE;
    while let Err(TrySendError::Full(again)) = orders.try_send(order) {
        if Instant::now() > until {
            return;
        }
        order = again;
        thread::sleep(Duration::from_millis(1));
    }
}

/// Makes lines of events, on the thread where they happen.
struct Teller {
    orders: SyncSender<Order>,
    style: Style,
    lost: Arc<AtomicU64>,
    limit: Mutex<Limit>,
    recent: Arc<Recent>,
}

impl<S: Subscriber> Layer<S> for Teller {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let (meta, mut fields) = (event.metadata(), Fields::of(event));
        if *meta.level() <= Level::WARN && !UNLIMITED.contains(&meta.target()) {
            let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
            match limit.admits((meta.callsite(), fields.status()), Instant::now()) {
                Some(0) => {}
                Some(left_out) => fields.add("left_out", left_out),
                None => return,
            }
        }
        let now = Timestamp::now();
        self.recent.add(Event {
            seconds: now.as_second().unsigned_abs(),
            level: word(*meta.level()),
            area: meta.target(),
            text: text(&fields),
        });
        let line = line(self.style, now, *meta.level(), meta.target(), fields);
        if self.orders.try_send(Order::Write(severity(*meta.level()), line)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

struct Writer {
    to: To,
    style: Style,
    output: Output,
    lost: Arc<AtomicU64>,
    said: Option<Instant>,
}

impl Writer {
    fn run(mut self, orders: &Receiver<Order>) {
        let mut why = "it is written too slowly".to_owned();
        while let Ok(order) = orders.recv() {
            match order {
                Order::Write(severity, line) => {
                    // Beside what the program says of its start.
                    let line = match (&self.to, self.style) {
                        (To::Stderr, Style::Text) => format!("cosm: {line}"),
                        _ => line,
                    };
                    if let Err(error) = self.output.write(line.as_bytes(), severity, sink::now()) {
                        self.lost.fetch_add(1, Relaxed);
                        why = error.to_string();
                    }
                }
                Order::Reopen => {
                    if let Err(error) = self.output.reopen() {
                        say(format_args!(
                            "cannot open error log {} anew: {error}; the old file goes on",
                            self.to
                        ));
                    }
                }
                // Who asked may not wait any more.
                Order::Flush(done) => drop(done.try_send(())),
                Order::End => return self.tell_of_loss(&why, true),
            }
            self.tell_of_loss(&why, false);
        }
    }

    fn tell_of_loss(&mut self, why: &str, ends: bool) {
        if self.lost.load(Relaxed) > 0 && (ends || self.said.is_none_or(|said| said.elapsed() >= SAID)) {
            say(format_args!("error log {}: {} lines lost: {why}", self.to, self.lost.swap(0, Relaxed)));
            self.said = Some(Instant::now());
        }
    }
}
