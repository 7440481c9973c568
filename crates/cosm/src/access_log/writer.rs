//! The thread that takes lines from the workers and writes them.

use super::buffers::{Buffers, Order};
use super::{INTERVAL, Settings};
use crate::sink::{self, Output, Severity, To};
use cache::Item;
use proxy::{Log, say};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The log of a proxy that runs. Dropping it leaves lines unwritten; `end` does not.
pub struct AccessLog {
    buffers: Arc<Buffers>,
    thread: JoinHandle<()>,
}

/// How long a stop waits for the last lines.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is said that lines are lost.
const SAID: Duration = Duration::from_secs(60);

impl AccessLog {
    /// Opens what lines go to. `pseudonym` is what Cache-Status calls this cache.
    ///
    /// # Errors
    /// It cannot be written; one line that names it.
    pub fn open(
        settings: &Settings,
        to: &To,
        pseudonym: &str,
        is_forward: bool,
    ) -> Result<AccessLog, String> {
        let name = to.to_string();
        let cannot = |error: io::Error| format!("cannot write access log {name}: {error}");
        let output = Output::open(to, settings.rotation).map_err(cannot)?;
        let (orders, received) = channel();
        let buffers = Arc::new(Buffers::new(settings, Item::new(pseudonym), is_forward, orders));
        let writer = Writer { buffers: buffers.clone(), output, name, lost: 0, said: None };
        let thread = std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || writer.run(&received))
            .map_err(|error| format!("cannot start the access log's thread: {error}"))?;
        Ok(AccessLog { buffers, thread })
    }

    /// What workers tell requests to.
    pub fn told(&self) -> Arc<dyn Log> {
        self.buffers.clone()
    }

    /// What has the file opened anew.
    pub fn reopener(&self) -> impl Fn() + Send + use<> {
        let buffers = self.buffers.clone();
        move || buffers.order(Order::Reopen)
    }

    /// Writes what is left, unless whoever reads it takes too long.
    pub fn end(self) {
        self.buffers.order(Order::End);
        let until = Instant::now() + PATIENCE;
        while !self.thread.is_finished() {
            if Instant::now() > until {
                return say("the access log is not read: its last lines are lost");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

struct Writer {
    buffers: Arc<Buffers>,
    output: Output,
    name: String,
    /// Lines since it was said last.
    lost: u64,
    said: Option<Instant>,
}

impl Writer {
    fn run(mut self, orders: &Receiver<Order>) {
        let mut lines = Vec::new();
        loop {
            let order = orders.recv_timeout(INTERVAL);
            self.lost += self.buffers.take(&mut lines);
            let mut why = "the disk or its reader is too slow".to_owned();
            if !lines.is_empty()
                && let Err(error) = self.output.write(&lines, Severity::Info, sink::now())
            {
                let lines = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
                self.lost += lines;
                self.buffers.lose(lines);
                why = error.to_string();
            }
            lines.clear();
            if matches!(order, Ok(Order::Reopen))
                && let Err(error) = self.output.reopen()
            {
                say(format_args!("cannot open access log {} anew: {error}; the old file goes on", self.name));
            }
            let ends = matches!(order, Ok(Order::End));
            self.tell_of_loss(&why, ends);
            if ends {
                return;
            }
        }
    }

    fn tell_of_loss(&mut self, why: &str, ends: bool) {
        if self.lost > 0 && (ends || self.said.is_none_or(|said| said.elapsed() >= SAID)) {
            say(format_args!("access log {}: {} lines lost: {why}", self.name, self.lost));
            (self.lost, self.said) = (0, Some(Instant::now()));
        }
    }
}
