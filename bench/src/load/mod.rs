//! The load generator: keep-alive connections on one thread, a closed loop (each connection asks again as soon as it
//! has its answer), bodies checked on a sample and thrown away by the kernel otherwise.

mod connection;
mod crowd;
mod offered;
mod order;
pub mod response;
mod robots;
mod wishes;
mod workload;

pub use connection::Target;
pub use crowd::{Conduct, Crowd, Round, STORED, STORED_COUNT, Tally};
pub use offered::Offered;
pub use order::Order;
pub use robots::{Offer, offer};
pub use wishes::{Among, Wishes};
pub use workload::Workload;

use crate::body::Object;
use crate::poll::Poll;
use connection::{Connection, Event as Turn};
use hdrhistogram::Histogram;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::time::ClockId;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Without any answer for this long the run has failed.
const SILENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    pub size: u64,
    /// Whose objects are asked for, with sizes of their own; `None`: all are of `size`.
    pub workload: Option<Workload>,
    pub order: Order,
    pub connections: usize,
    /// No request starts after this.
    pub lasts: Option<Duration>,
    /// One body in so many is compared; 0 for none.
    pub check_every: u64,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub requests: u64,
    pub hits: u64,
    /// Responses other than 200.
    pub refused: u64,
    pub checked: u64,
    /// Checked bodies that were not what the origin has.
    pub wrong: u64,
    /// Connections that the server closed and that were opened again.
    pub reconnects: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
    /// What the generator itself used: all the time, since it polls; and for how long it had something to do.
    pub load_cpu_seconds: f64,
    pub load_busy_seconds: f64,
    /// From the start of the run to the end of the first hit.
    pub first_hit_seconds: Option<f64>,
    /// The numbers that hit, if they were listed.
    #[serde(skip)]
    pub hit_numbers: Vec<u64>,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Why the figures must not be used, if so.
    pub fn fault(&self) -> Option<String> {
        if self.wrong > 0 {
            return Some(format!("{} of {} checked bodies were wrong", self.wrong, self.checked));
        }
        (self.refused > 0).then(|| format!("{} of {} responses were not 200", self.refused, self.requests))
    }
}

/// Runs to the end of the order or of the time. An error is one line.
pub fn run(plan: &Plan) -> Result<Outcome, String> {
    Run::start(plan)?.finish()
}

struct Run<'a> {
    plan: &'a Plan,
    numbers: Box<dyn Iterator<Item = u64> + 'a>,
    connections: Vec<Connection>,
    poll: Poll,
    active: usize,
    /// Where bytes land that are looked at or thrown away.
    scratch: Vec<u8>,
    latency: Histogram<u64>,
    outcome: Outcome,
    started: Instant,
    cpu_before: f64,
}

impl<'a> Run<'a> {
    fn start(plan: &'a Plan) -> Result<Run<'a>, String> {
        let mut run = Run {
            plan,
            numbers: plan.order.walk(),
            connections: Vec::new(),
            poll: Poll::new(Duration::MAX).map_err(|e| format!("epoll: {e}"))?,
            active: 0,
            scratch: vec![0; connection::SCRATCH],
            latency: Histogram::new_with_bounds(1, 600_000_000_000, 3).map_err(|e| e.to_string())?,
            outcome: Outcome::nothing(),
            started: Instant::now(),
            cpu_before: thread_cpu(),
        };
        for slot in 0..plan.connections {
            let Some(number) = run.numbers.next() else { break };
            let connection = run.opened(slot)?;
            run.connections.push(connection);
            run.ask(slot, number, run.check(slot as u64))?;
            run.active += 1;
        }
        Ok(run)
    }

    fn finish(mut self) -> Result<Outcome, String> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
        while self.active > 0 {
            let count = self.poll.wait(&mut events, Some(Instant::now() + SILENCE));
            let count = count.map_err(|error| format!("epoll: {error}"))?;
            if count == 0 {
                return Err(format!("{} did not answer for {SILENCE:?}", self.plan.target.server));
            }
            for event in &events[..count] {
                let data = event.data;
                self.turn(data.u64() as usize)?;
            }
        }
        Ok(self.summary())
    }

    fn turn(&mut self, slot: usize) -> Result<(), String> {
        if !self.connections[slot].is_sent() {
            return self.send(slot);
        }
        match self.connections[slot].receive(&mut self.scratch)? {
            Turn::Waiting => Ok(()),
            Turn::Closed => self.reopen(slot),
            Turn::Answered(answer) => {
                let now = Instant::now();
                self.count(&answer, now);
                let Some(number) = self.next(now) else { return self.rest(slot) };
                if answer.close {
                    self.connections[slot] = self.opened(slot)?;
                }
                self.ask(slot, number, self.check(self.outcome.requests))
            }
        }
    }

    /// Nothing more to ask here; what the server does with the connection is no longer watched.
    fn rest(&mut self, slot: usize) -> Result<(), String> {
        self.active -= 1;
        epoll::delete(&self.poll, self.connections[slot].stream()).map_err(|e| format!("epoll: {e}"))
    }

    fn count(&mut self, answer: &connection::Answered, now: Instant) {
        let outcome = &mut self.outcome;
        outcome.requests += 1;
        outcome.refused += u64::from(answer.status != 200);
        outcome.checked += u64::from(answer.checked);
        outcome.wrong += u64::from(answer.wrong);
        if answer.hit {
            outcome.hits += 1;
            outcome.first_hit_seconds.get_or_insert_with(|| (now - self.started).as_secs_f64());
            if matches!(self.plan.order, Order::Listed(_)) {
                outcome.hit_numbers.push(answer.object.number);
            }
        }
        self.latency.saturating_record((now - answer.asked).as_nanos() as u64);
    }

    fn next(&mut self, now: Instant) -> Option<u64> {
        if self.plan.lasts.is_some_and(|lasts| now - self.started >= lasts) {
            return None;
        }
        self.numbers.next()
    }

    fn check(&self, nth: u64) -> bool {
        self.plan.check_every > 0 && nth.is_multiple_of(self.plan.check_every)
    }

    /// The server closed a connection that it had a request on: asked again on a new one, as a browser would.
    fn reopen(&mut self, slot: usize) -> Result<(), String> {
        let number = self.connections[slot].object().number;
        self.outcome.reconnects += 1;
        if self.outcome.reconnects > 1000 + self.outcome.requests {
            return Err(format!("{} keeps closing its connections", self.plan.target.server));
        }
        self.connections[slot] = self.opened(slot)?;
        self.ask(slot, number, false)
    }

    fn ask(&mut self, slot: usize, number: u64, check: bool) -> Result<(), String> {
        let object = match &self.plan.workload {
            Some(workload) => workload.object(number),
            None => Object { size: self.plan.size, number },
        };
        if !self.connections[slot].ask(object, check)? {
            self.wait_for(slot, EventFlags::OUT)?;
        }
        Ok(())
    }

    /// What did not go out at once: the server has not accepted yet.
    fn send(&mut self, slot: usize) -> Result<(), String> {
        if self.connections[slot].send()? { self.wait_for(slot, EventFlags::IN) } else { Ok(()) }
    }

    fn wait_for(&self, slot: usize, flags: EventFlags) -> Result<(), String> {
        epoll::modify(&self.poll, self.connections[slot].stream(), EventData::new_u64(slot as u64), flags)
            .map_err(|e| format!("epoll: {e}"))
    }

    fn opened(&self, slot: usize) -> Result<Connection, String> {
        let connection = Connection::open(&self.plan.target)?;
        self.watch(slot, &connection)?;
        Ok(connection)
    }

    fn watch(&self, slot: usize, connection: &Connection) -> Result<(), String> {
        epoll::add(&self.poll, connection.stream(), EventData::new_u64(slot as u64), EventFlags::IN)
            .map_err(|e| format!("epoll: {e}"))
    }

    fn summary(self) -> Outcome {
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        Outcome {
            seconds: self.started.elapsed().as_secs_f64(),
            p50_us: microseconds(self.latency.value_at_quantile(0.5)),
            p99_us: microseconds(self.latency.value_at_quantile(0.99)),
            max_us: microseconds(self.latency.max()),
            load_cpu_seconds: thread_cpu() - self.cpu_before,
            load_busy_seconds: self.poll.busy().as_secs_f64(),
            ..self.outcome
        }
    }
}

impl Outcome {
    fn nothing() -> Outcome {
        Outcome {
            requests: 0,
            hits: 0,
            refused: 0,
            checked: 0,
            wrong: 0,
            reconnects: 0,
            seconds: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            max_us: 0.0,
            load_cpu_seconds: 0.0,
            load_busy_seconds: 0.0,
            first_hit_seconds: None,
            hit_numbers: Vec::new(),
        }
    }
}

pub fn thread_cpu() -> f64 {
    let now = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
