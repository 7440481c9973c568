//! Clients as no server likes them, by the thousand: they idle, send a byte a second, read nothing, or ask all at once for what is slow
//! to come. One thread looks after all of them.

use super::connection::{Answered, Connection, Event as Turn, SCRATCH, Target};
use crate::body::Object;
use crate::loopback;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is looked who has something to do, and who may connect meanwhile.
const LOOK: Duration = Duration::from_millis(100);
const AT_ONCE: usize = 200;

/// Between two bytes of who is slow.
const BYTE: Duration = Duration::from_secs(1);
/// Who reads nothing is given up after so long, if it was not heard that the server did that.
const DEAF: Duration = Duration::from_secs(75);
/// Bytes of what is asked for by who reads nothing: of half of them from the origin, of the others what is stored.
const MUCH: u64 = 8 << 20;
pub const STORED: u64 = 1 << 20;
pub const STORED_COUNT: u64 = 64;

/// What a herd asks for, and how late the origin is with it.
const HERD: u64 = 64 << 10;
const HERD_PATH: &str = "/late/3000";
const ROUND: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Asks once, and says nothing more.
    Idles,
    /// Sends the head of a request.
    SendsHead,
    /// Sends the content of a request.
    SendsContent,
    ReadsNothing,
    /// Asks with all others for the same, once in each round.
    Herds,
}

/// What came of them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub opened: u64,
    /// By the server, or for want of what a connection takes.
    pub closed: u64,
    pub failed: u64,
    /// Of those who idle and the herd: answers that were not 200, bodies that were not right, and requests on connections that the server
    /// closed.
    pub refused: u64,
    pub wrong: u64,
    pub lost: u64,
    pub rounds: Vec<Round>,
}

/// The herd asks for one thing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    pub asked: u64,
    pub answered: u64,
    /// Answers that the origin made for those who got them.
    pub fetched: u64,
    pub longest: Duration,
}

pub struct Crowd {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<Tally, String>>,
}

impl Crowd {
    /// So many of each; they come as fast as they are let in, and come again when they are sent away.
    pub fn gather(target: Target, of_each: &[(Conduct, usize)]) -> Result<Crowd, String> {
        let end = Arc::new(AtomicBool::new(false));
        let mut house = House::of(target, of_each).map_err(|e| format!("a crowd: {e}"))?;
        let ends = end.clone();
        let thread = std::thread::spawn(move || {
            while !ends.load(Relaxed) {
                house.turn().map_err(|e| format!("a crowd: {e}"))?;
            }
            Ok(house.tally)
        });
        Ok(Crowd { end, thread })
    }

    /// All of them leave.
    pub fn leave(self) -> Result<Tally, String> {
        self.end.store(true, Relaxed);
        self.thread.join().map_err(|_| "the thread of a crowd ended in a panic".to_owned())?
    }
}

struct House {
    target: Target,
    epoll: OwnedFd,
    members: Vec<Member>,
    began: Instant,
    looked: Instant,
    scratch: Vec<u8>,
    tally: Tally,
}

struct Member {
    conduct: Conduct,
    nth: u64,
    state: State,
    due: Instant,
    /// Of a herd, the first that it takes part in.
    round: u64,
}

enum State {
    Absent,
    /// And whether an answer is awaited.
    Speaks(Box<Connection>, bool),
    /// With the bytes that it has sent.
    Sends(TcpStream, usize),
}

impl House {
    fn of(target: Target, of_each: &[(Conduct, usize)]) -> io::Result<House> {
        let now = Instant::now();
        let member = |conduct, nth: usize| Member {
            conduct,
            nth: nth as u64,
            state: State::Absent,
            due: now,
            round: 0,
        };
        let of = |&(conduct, count): &(Conduct, usize)| (0..count).map(move |nth| member(conduct, nth));
        Ok(House {
            target,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            members: of_each.iter().flat_map(of).collect(),
            began: now,
            looked: now,
            scratch: vec![0; SCRATCH],
            tally: Tally::default(),
        })
    }

    fn turn(&mut self) -> io::Result<()> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 256];
        let wait = LOOK.saturating_sub(self.looked.elapsed());
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let count = match epoll::wait(&self.epoll, &mut events, Some(&wait)) {
            Err(Errno::INTR) => 0,
            other => other?,
        };
        for event in &events[..count] {
            let data = event.data;
            self.hear(data.u64() as usize);
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let mut connects = AT_ONCE;
            for n in 0..self.members.len() {
                let member = &self.members[n];
                let is_absent = matches!(member.state, State::Absent);
                if member.due <= self.looked && (!is_absent || connects > 0) {
                    connects -= usize::from(is_absent);
                    match is_absent {
                        true => self.connect(n)?,
                        false => self.act(n),
                    }
                }
            }
        }
        Ok(())
    }

    /// What one does when it is due.
    fn act(&mut self, n: usize) {
        let (now, round) = (self.looked, self.round());
        let member = &mut self.members[n];
        let (conduct, nth) = (member.conduct, member.nth);
        match (&mut member.state, conduct) {
            (State::Speaks(connection, _), _) if !connection.is_sent() => {
                // An error shows when it is read.
                let _ = connection.send();
            }
            (State::Speaks(connection, awaits @ false), Conduct::Herds) if round >= member.round => {
                *awaits = true;
                member.round = round + 1;
                self.tally.rounds.resize(self.tally.rounds.len().max(round as usize + 1), Round::default());
                self.tally.rounds[round as usize].asked += 1;
                let _ = connection.ask(Object { size: HERD, number: round }, true);
            }
            (State::Absent | State::Speaks(..), _) => {}
            (State::Sends(_, 1..), Conduct::ReadsNothing) => self.leave(n),
            (State::Sends(stream, sent), _) => {
                let (bytes, at) = words(conduct, nth, *sent);
                match stream.write(&bytes) {
                    Ok(count) => *sent += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => return self.leave(n),
                }
                if *sent >= at {
                    member.due = now + if conduct == Conduct::ReadsNothing { DEAF } else { BYTE };
                }
            }
        }
    }

    fn round(&self) -> u64 {
        self.began.elapsed().as_secs() / ROUND.as_secs()
    }

    fn connect(&mut self, n: usize) -> io::Result<()> {
        let next = self.round() + 1;
        let member = &mut self.members[n];
        let conduct = member.conduct;
        let is_deaf = conduct == Conduct::ReadsNothing;
        let stream = loopback::connecting_from(3 + conduct as u8, is_deaf, self.target.server);
        let speaks = |stream, path| Connection::over(stream, &self.target, path);
        let came = match conduct {
            Conduct::Idles => speaks(stream, "").map(|mut connection| {
                let _ = connection.ask(Object { size: 1000, number: member.nth % 100 }, true);
                State::Speaks(connection.into(), true)
            }),
            Conduct::Herds => {
                speaks(stream, HERD_PATH).map(|connection| State::Speaks(connection.into(), false))
            }
            _ => stream.map(|stream| State::Sends(stream, 0)),
        };
        match came {
            Ok(state) => {
                member.state = state;
                member.round = next.max(member.round);
                self.tally.opened += 1;
            }
            Err(_) => {
                member.due = self.looked + Duration::from_secs(1);
                self.tally.failed += 1;
                return Ok(());
            }
        }
        // Who reads nothing hears of an end alone.
        let heard = if is_deaf { EventFlags::RDHUP } else { EventFlags::IN };
        let data = EventData::new_u64(n as u64);
        match &member.state {
            State::Speaks(connection, _) => epoll::add(&self.epoll, connection.stream(), data, heard)?,
            State::Sends(stream, _) => epoll::add(&self.epoll, stream, data, heard)?,
            State::Absent => {}
        }
        Ok(())
    }

    /// Something has come for one.
    fn hear(&mut self, n: usize) {
        let member = &mut self.members[n];
        match &mut member.state {
            State::Absent => {}
            State::Speaks(connection, awaits) => {
                if !connection.is_sent() {
                    return;
                }
                match connection.receive(&mut self.scratch) {
                    Ok(Turn::Waiting) => {}
                    Ok(Turn::Answered(answer)) => {
                        *awaits = false;
                        let (conduct, closes) = (member.conduct, answer.close);
                        self.count(conduct, &answer);
                        if closes {
                            self.leave(n);
                        }
                    }
                    Ok(Turn::Closed) | Err(_) => {
                        self.tally.lost += u64::from(*awaits);
                        self.leave(n);
                    }
                }
            }
            State::Sends(stream, _) => {
                let is_open = match member.conduct {
                    Conduct::ReadsNothing => false,
                    _ => match stream.read(&mut self.scratch) {
                        Ok(count) => count > 0,
                        Err(error) => error.kind() == ErrorKind::WouldBlock,
                    },
                };
                if !is_open {
                    self.leave(n);
                }
            }
        }
    }

    fn count(&mut self, conduct: Conduct, answer: &Answered) {
        self.tally.refused += u64::from(answer.status != 200);
        self.tally.wrong += u64::from(answer.wrong);
        if conduct == Conduct::Herds
            && let Some(round) = self.tally.rounds.get_mut(answer.object.number as usize)
        {
            round.answered += 1;
            round.fetched += u64::from(!answer.hit);
            round.longest = round.longest.max(answer.asked.elapsed());
        }
    }

    /// It comes again, not all at once.
    fn leave(&mut self, n: usize) {
        self.tally.closed += 1;
        let member = &mut self.members[n];
        member.state = State::Absent;
        member.due = self.looked + Duration::from_millis(100 + member.nth * 37 % 900);
    }
}

/// What one says next who has said so much, and how much it has said then before it pauses.
fn words(conduct: Conduct, nth: u64, sent: usize) -> (Vec<u8>, usize) {
    let mut all = match conduct {
        Conduct::ReadsNothing if nth.is_multiple_of(2) => {
            format!("GET /s/{MUCH}/{nth} HTTP/1.1\r\nHost: deaf\r\n\r\n")
        }
        Conduct::ReadsNothing => {
            format!("GET /s/{STORED}/{} HTTP/1.1\r\nHost: deaf\r\n\r\n", nth % STORED_COUNT)
        }
        Conduct::SendsContent => {
            format!("POST /upload/{nth} HTTP/1.1\r\nHost: slow\r\nContent-Length: {MUCH}\r\n\r\n")
        }
        _ => format!("GET /s/1000/{nth} HTTP/1.1\r\nHost: slow\r\nX-Slow: "),
    };
    // Heads are slow from their first byte on, contents from theirs.
    let at_once = if conduct == Conduct::SendsHead { 1 } else { all.len() };
    if sent < at_once {
        return (all[sent..at_once].into(), at_once);
    }
    let next = all.as_bytes().get(sent).copied().unwrap_or(b'a');
    all.clear();
    (vec![next], sent + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_slow_says_a_byte_at_a_time() {
        let (first, pause) = words(Conduct::SendsHead, 7, 0);
        assert_eq!((first.as_slice(), pause), (b"G".as_slice(), 1));
        assert_eq!(words(Conduct::SendsHead, 7, 1).0, b"E");
        assert_eq!(words(Conduct::SendsHead, 7, 10_000).0, b"a");
        let (head, pause) = words(Conduct::SendsContent, 7, 0);
        assert!(head.ends_with(b"\r\n\r\n") && head.len() == pause);
        assert_eq!(words(Conduct::SendsContent, 7, pause), (b"a".to_vec(), pause + 1));
        let (request, pause) = words(Conduct::ReadsNothing, 7, 0);
        assert_eq!(request.len(), pause);
    }

    /// Before the origin itself, which answers each for itself.
    #[test]
    fn all_come_and_do_as_they_do() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            crate::server::serve(&listener, &mut crate::origin::Origin::new(), Duration::ZERO)
        });
        let target = Target { server, origin: None, tagged: true, close: false };
        let each = [Conduct::Idles, Conduct::SendsHead, Conduct::SendsContent, Conduct::ReadsNothing];
        let mut house = House::of(target, &each.map(|conduct| (conduct, 5))).unwrap();
        house.members.push(Member {
            conduct: Conduct::Herds,
            nth: 0,
            state: State::Absent,
            due: house.began,
            round: 0,
        });
        let until = house.began + Duration::from_secs(40);
        // The second round begins after ten seconds.
        while house.tally.rounds.iter().all(|round| round.answered == 0) {
            assert!(Instant::now() < until, "{:?}", house.tally);
            house.turn().unwrap();
        }
        let Tally { opened, closed, refused, wrong, lost, ref rounds, .. } = house.tally;
        assert_eq!((opened, closed, refused, wrong, lost), (21, 0, 0, 0, 0));
        let herd = rounds.iter().find(|round| round.answered > 0).unwrap();
        assert!(herd.fetched == 1 && herd.longest >= Duration::from_secs(3));
        let sent = |of: Conduct| {
            house.members.iter().filter(move |member| member.conduct == of).map(|member| match member.state {
                State::Sends(_, sent) => sent,
                _ => 0,
            })
        };
        assert!(sent(Conduct::SendsHead).all(|sent| (3..40).contains(&sent)));
        assert!(sent(Conduct::SendsContent).all(|sent| sent > 3));
    }
}
