//! The load generator: keep-alive connections on one thread, a closed loop (each connection asks again as soon as it
//! has its answer), bodies checked on a sample and, where they come plain, thrown away by the kernel otherwise.

mod client;
mod connection;
mod crowd;
mod http2;
mod offered;
mod order;
pub mod response;
mod robots;
mod tls;
mod wishes;
mod workload;

pub use client::Speaks;
pub use connection::Target;
pub use crowd::{Conduct, Crowd, Round, STORED, STORED_COUNT, Tally};
pub use offered::Offered;
pub use order::Order;
pub use robots::{Offer, offer};
pub use tls::{Handshakes, Tls};
pub use wishes::{Among, Wishes};
pub use workload::Workload;

use crate::body::Object;
use crate::poll::Poll;
use client::Client;
use connection::{Answered, Broken, Connection};
use hdrhistogram::Histogram;
use http2::Http2;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::time::ClockId;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Without any answer for this long the run has failed.
const SILENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct Plan {
    pub target: Target,
    pub speaks: Speaks,
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

impl Plan {
    fn handshakes(&self) -> Handshakes {
        self.speaks.tls().map_or(Handshakes::default(), Tls::handshakes)
    }
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
    /// Those of TLS.
    pub handshakes: Handshakes,
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
    match plan.speaks {
        Speaks::Http | Speaks::Https(_) => Run::<Connection>::start(plan)?.finish(),
        Speaks::Http2(..) => Run::<Http2>::start(plan)?.finish(),
    }
}

struct Run<'a, C> {
    plan: &'a Plan,
    numbers: Box<dyn Iterator<Item = u64> + 'a>,
    places: Vec<Place<C>>,
    poll: Poll,
    /// Requests under way.
    active: usize,
    asked: u64,
    /// Where bytes land that are looked at or thrown away.
    scratch: Vec<u8>,
    answers: Vec<Answered>,
    latency: Histogram<u64>,
    outcome: Outcome,
    started: Instant,
    cpu_before: f64,
    handshakes_before: Handshakes,
}

/// A connection, and what it is watched for.
struct Place<C> {
    client: C,
    waits_for_socket: bool,
    under_way: usize,
}

impl<'a, C: Client> Run<'a, C> {
    fn start(plan: &'a Plan) -> Result<Run<'a, C>, String> {
        let mut run = Run {
            plan,
            numbers: plan.order.walk(),
            places: Vec::new(),
            poll: Poll::new(Duration::MAX).map_err(|e| format!("epoll: {e}"))?,
            active: 0,
            asked: 0,
            scratch: vec![0; connection::SCRATCH],
            answers: Vec::new(),
            latency: Histogram::new_with_bounds(1, 600_000_000_000, 3).map_err(|e| e.to_string())?,
            outcome: Outcome::nothing(),
            started: Instant::now(),
            cpu_before: thread_cpu(),
            handshakes_before: plan.handshakes(),
        };
        for slot in 0..plan.connections {
            let Some(first) = run.numbers.next() else { break };
            let place = run.opened(slot)?;
            run.places.push(place);
            run.ask(slot, first)?;
            for _ in 1..plan.speaks.streams() {
                let Some(number) = run.numbers.next() else { break };
                run.ask(slot, number)?;
            }
            run.send(slot)?;
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
        let place = &mut self.places[slot];
        if !place.waits_for_socket {
            match place.client.receive(&mut self.scratch, &mut self.answers) {
                Ok(()) => {}
                Err(Broken::Closed) => return self.reopen(slot),
                Err(Broken::Failed(why)) => return Err(why),
            }
            if !self.answers.is_empty() {
                self.go_on(slot)?;
            }
            if self.places[slot].under_way == 0 {
                return self.rest(slot);
            }
        }
        self.send(slot)
    }

    /// Asks again for each answer.
    fn go_on(&mut self, slot: usize) -> Result<(), String> {
        let mut answers = std::mem::take(&mut self.answers);
        let now = Instant::now();
        for answer in answers.drain(..) {
            self.count(&answer, now);
            self.active -= 1;
            self.places[slot].under_way -= 1;
            let Some(number) = self.next(now) else { continue };
            if answer.close {
                self.places[slot] = self.opened(slot)?;
            }
            self.ask(slot, number)?;
        }
        self.answers = answers;
        Ok(())
    }

    /// Nothing more to ask here; what the server does with the connection is no longer watched.
    fn rest(&self, slot: usize) -> Result<(), String> {
        epoll::delete(&self.poll, self.places[slot].client.stream()).map_err(|e| format!("epoll: {e}"))
    }

    fn count(&mut self, answer: &Answered, now: Instant) {
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

    /// The server closed a connection that it had requests on: asked again on a new one, as a browser would.
    fn reopen(&mut self, slot: usize) -> Result<(), String> {
        self.outcome.reconnects += 1;
        if self.outcome.reconnects > 1000 + self.outcome.requests {
            return Err(format!("{} keeps closing its connections", self.plan.target.server));
        }
        let again = self.places[slot].client.under_way();
        self.active -= again.len();
        self.places[slot] = self.opened(slot)?;
        for object in again {
            self.ask(slot, object.number)?;
        }
        self.send(slot)
    }

    fn ask(&mut self, slot: usize, number: u64) -> Result<(), String> {
        let object = match &self.plan.workload {
            Some(workload) => workload.object(number),
            None => Object { size: self.plan.size, number },
        };
        let check = self.plan.check_every > 0 && self.asked.is_multiple_of(self.plan.check_every);
        self.asked += 1;
        self.active += 1;
        let place = &mut self.places[slot];
        place.under_way += 1;
        place.client.ask(object, check)
    }

    /// What does not go out at once waits: the server has not accepted yet, or takes nothing.
    fn send(&mut self, slot: usize) -> Result<(), String> {
        let place = &mut self.places[slot];
        place.client.send()?;
        let waits = place.client.waits_for_socket();
        if waits == place.waits_for_socket {
            return Ok(());
        }
        place.waits_for_socket = waits;
        let flags = if waits { EventFlags::OUT } else { EventFlags::IN };
        epoll::modify(&self.poll, place.client.stream(), EventData::new_u64(slot as u64), flags)
            .map_err(|e| format!("epoll: {e}"))
    }

    fn opened(&self, slot: usize) -> Result<Place<C>, String> {
        let client = C::open(&self.plan.target, &self.plan.speaks)?;
        epoll::add(&self.poll, client.stream(), EventData::new_u64(slot as u64), EventFlags::IN)
            .map_err(|e| format!("epoll: {e}"))?;
        Ok(Place { client, waits_for_socket: false, under_way: 0 })
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
            handshakes: self.plan.handshakes().since(self.handshakes_before),
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
            handshakes: Handshakes::default(),
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
