//! Robots: requests arrive by chance at a given rate whether or not earlier ones were answered, as people's do. A slow
//! server meets ever more open requests, so its response time breaks when it cannot keep up.

use super::connection::{Connection, Event as Turn, SCRATCH, Target};
use super::{Offered, Wishes};
use crate::poll::Poll;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub target: Target,
    /// Requests a second.
    pub rate: f64,
    /// Requests of this time are asked but not counted.
    pub ramp: Duration,
    pub lasts: Duration,
    /// Requests that have no answer for this long are given up.
    pub patience: Duration,
    /// Open requests at most; a further one is given up at once.
    pub open: usize,
    /// One body in so many is compared.
    pub check_every: u64,
    /// For how long it polls before it sleeps.
    pub awake: Duration,
}

/// Runs the load, calls `mark` when what counts begins and when it ends, and waits for the answers. An error is one
/// line.
pub fn offer(
    plan: &Offer,
    wishes: &mut impl Wishes,
    mark: impl FnMut() -> Result<(), String>,
) -> Result<Offered, String> {
    Crowd::gather(plan)?.run(wishes, mark)
}

struct Crowd<'a> {
    plan: &'a Offer,
    poll: Poll,
    robots: Vec<Option<Robot>>,
    /// Places without a connection, and with one that may be used again.
    free: Vec<usize>,
    idle: Vec<usize>,
    open: usize,
    started: Instant,
    until: Instant,
    nth: u64,
    told: Offered,
}

struct Robot {
    connection: Connection,
    /// When its request arrived; `None` while idle.
    busy: Option<Instant>,
    counted: bool,
    /// Its request was asked on another connection before.
    again: bool,
}

impl<'a> Crowd<'a> {
    fn gather(plan: &'a Offer) -> Result<Crowd<'a>, String> {
        let started = Instant::now();
        Ok(Crowd {
            plan,
            poll: Poll::new(plan.awake).map_err(|e| format!("epoll: {e}"))?,
            robots: Vec::new(),
            free: Vec::new(),
            idle: Vec::new(),
            open: 0,
            started,
            until: started + plan.ramp + plan.lasts,
            nth: 0,
            told: Offered::nothing()?,
        })
    }

    fn run(
        mut self,
        wishes: &mut impl Wishes,
        mut mark: impl FnMut() -> Result<(), String>,
    ) -> Result<Offered, String> {
        let mut scratch = vec![0; SCRATCH];
        let mut marks = [self.started + self.plan.ramp, self.until].into_iter().peekable();
        let mut next = self.started;
        let mut busy = Duration::ZERO;
        let give_up = self.until + self.plan.patience;
        let mut swept = self.started;
        loop {
            let now = Instant::now();
            if marks.next_if(|time| now >= *time).is_some() {
                mark()?;
                self.told.load_busy_seconds = (self.poll.busy() - busy).as_secs_f64();
                busy = self.poll.busy();
            }
            // A few at a time: answers must not wait for a burst of requests.
            for _ in 0..16 {
                if next > now || next >= self.until {
                    break;
                }
                self.told.late_seconds = (now - next).as_secs_f64();
                self.arrive(next, wishes)?;
                next += Duration::from_secs_f64(-(1.0 - wishes.draw()).ln() / self.plan.rate);
            }
            if marks.peek().is_none() && next >= self.until && (self.open == 0 || now >= give_up) {
                break;
            }
            if now - swept > Duration::from_millis(250) {
                self.give_up(now)?;
                swept = now;
            }
            let arrival = if next < self.until { next } else { give_up };
            self.listen(arrival.min(now + QUARTER), &mut scratch)?;
        }
        self.told.lost += self.robots.iter().flatten().filter(|robot| robot.lost()).count() as u64;
        Ok(self.told)
    }

    fn arrive(&mut self, at: Instant, wishes: &mut impl Wishes) -> Result<(), String> {
        let counted = at >= self.started + self.plan.ramp;
        let object = wishes.next();
        self.told.asked += u64::from(counted);
        if self.open >= self.plan.open {
            self.told.lost += u64::from(counted);
            return Ok(());
        }
        let slot = match self.idle.pop() {
            Some(slot) => slot,
            None => self.connect()?,
        };
        self.nth += 1;
        let check = self.nth.is_multiple_of(self.plan.check_every);
        let Some(robot) = &mut self.robots[slot] else { return Err("an idle robot is gone".into()) };
        (robot.busy, robot.counted, robot.again) = (Some(at), counted, false);
        self.open += 1;
        if !robot.connection.ask(object, check)? {
            self.wait_for(slot, EventFlags::OUT)?;
        }
        Ok(())
    }

    fn connect(&mut self) -> Result<usize, String> {
        let connection = Connection::open(&self.plan.target)?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.robots.push(None);
            self.robots.len() - 1
        });
        let data = EventData::new_u64(slot as u64);
        epoll::add(&self.poll, connection.stream(), data, EventFlags::IN)
            .map_err(|e| format!("epoll: {e}"))?;
        self.robots[slot] = Some(Robot { connection, busy: None, counted: false, again: false });
        Ok(slot)
    }

    fn listen(&mut self, until: Instant, scratch: &mut [u8]) -> Result<(), String> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let count = self.poll.wait(&mut events, Some(until)).map_err(|error| format!("epoll: {error}"))?;
        for event in &events[..count] {
            let data = event.data;
            self.turn(data.u64() as usize, scratch)?;
        }
        Ok(())
    }

    fn turn(&mut self, slot: usize, scratch: &mut [u8]) -> Result<(), String> {
        let Some(robot) = &mut self.robots[slot] else { return Ok(()) };
        if !robot.connection.is_sent() {
            return if robot.connection.send()? { self.wait_for(slot, EventFlags::IN) } else { Ok(()) };
        }
        match robot.connection.receive(scratch)? {
            Turn::Waiting => Ok(()),
            Turn::Closed if robot.busy.is_none() => {
                self.idle.retain(|idle| *idle != slot);
                self.leave(slot);
                Ok(())
            }
            Turn::Closed => self.reopen(slot),
            Turn::Answered(answer) => {
                self.count(slot, &answer);
                self.open -= 1;
                if answer.close || self.plan.target.close {
                    self.leave(slot);
                } else {
                    self.idle.push(slot);
                }
                Ok(())
            }
        }
    }

    fn count(&mut self, slot: usize, answer: &super::connection::Answered) {
        let now = Instant::now();
        let told = &mut self.told;
        // Whenever it was asked: what goes in and what comes out are compared over the same time.
        told.in_time += u64::from(now >= self.started + self.plan.ramp && now < self.until);
        let Some(robot) = &mut self.robots[slot] else { return };
        let Some(arrived) = robot.busy.take().filter(|_| robot.counted) else { return };
        told.take(answer, now - arrived, now);
    }

    /// Closed with a request under way: an idle connection may close just then, so it is asked once more.
    fn reopen(&mut self, slot: usize) -> Result<(), String> {
        let Some(old) = self.robots[slot].take() else { return Ok(()) };
        self.free.push(slot);
        if old.again {
            self.open -= 1;
            self.told.lost += u64::from(old.counted);
            return Ok(());
        }
        self.told.again += 1;
        let object = old.connection.object();
        let slot = self.connect()?;
        let Some(robot) = &mut self.robots[slot] else { return Ok(()) };
        (robot.busy, robot.counted, robot.again) = (old.busy, old.counted, true);
        if !robot.connection.ask(object, false)? {
            self.wait_for(slot, EventFlags::OUT)?;
        }
        Ok(())
    }

    fn give_up(&mut self, now: Instant) -> Result<(), String> {
        for slot in 0..self.robots.len() {
            let waits = |robot: &Robot| robot.busy.is_some_and(|since| now - since > self.plan.patience);
            if let Some(robot) = self.robots[slot].take_if(|robot| waits(robot)) {
                self.told.lost += u64::from(robot.counted);
                self.free.push(slot);
                self.open -= 1;
            }
        }
        Ok(())
    }

    fn leave(&mut self, slot: usize) {
        self.robots[slot] = None;
        self.free.push(slot);
    }

    fn wait_for(&self, slot: usize, flags: EventFlags) -> Result<(), String> {
        let Some(robot) = &self.robots[slot] else { return Ok(()) };
        epoll::modify(&self.poll, robot.connection.stream(), EventData::new_u64(slot as u64), flags)
            .map_err(|e| format!("epoll: {e}"))
    }
}

const QUARTER: Duration = Duration::from_millis(250);

impl Robot {
    fn lost(&self) -> bool {
        self.busy.is_some() && self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Workload;
    use std::net::TcpListener;

    /// The origin itself, which never has what it was asked for before: all are misses.
    #[test]
    fn requests_arrive_as_offered_and_wait_for_a_slow_origin() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            crate::server::serve(&listener, &mut crate::origin::Origin::new(), Duration::ZERO)
        });
        let mut control = std::net::TcpStream::connect(server).unwrap();
        std::io::Write::write_all(&mut control, b"GET /control/delay/60 HTTP/1.1\r\n\r\n").unwrap();
        std::io::Read::read(&mut control, &mut [0; 200]).unwrap();
        for close in [false, true] {
            let plan = Offer {
                target: Target { server, origin: None, tagged: true, close },
                rate: 400.0,
                ramp: Duration::from_millis(100),
                lasts: Duration::from_millis(500),
                patience: Duration::from_secs(20),
                open: 10_000,
                check_every: 1,
                awake: Duration::MAX,
            };
            let mut marks = 0;
            let offered = offer(&plan, &mut Workload::of_foxy(3), || {
                marks += 1;
                Ok(())
            });
            let offered = offered.unwrap();
            assert_eq!((marks, offered.lost, offered.wrong, offered.refused), (2, 0, 0, 0));
            assert_eq!((offered.hits.len(), offered.misses.len()), (0, offered.asked));
            assert!((100..300).contains(&offered.asked), "{}", offered.asked);
            let (all, misses) = (offered.mean(), offered.miss_mean());
            assert!(misses >= 0.06 && all >= 0.06, "{misses}, {all}");
        }
    }
}
