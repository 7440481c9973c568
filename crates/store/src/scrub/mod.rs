//! The scrub: everything to which the index points is read and verified once in a set time, so that what the medium has spoilt is a
//! miss before somebody asks for it. The last of all that the device is asked for: it waits while clients read, or writes wait.
//!
//! Where it is follows from the time of day (`pace`), so that nothing of it has to be on disk.

pub mod pace;
pub mod thread;
pub mod verify;

use crate::engine::Millis;
use crate::format::table::Entry;
use crate::retry::Retry;
use pace::Pace;

/// For so long a step waits for clients and writes; then it is taken all the same, so that a cache that is never idle is scrubbed too.
const PATIENCE: Millis = 2_000;
/// How often it looks whether they have ended: these pauses double.
const POLLS: (Millis, Millis) = (1, 32);
/// Beside clients it rests so many times as long as a step took: what a disk that seeks has of its time for it.
const RESTS: Millis = 9;
/// How often it looks whether there is anything to do.
const IDLE: Millis = 1_000;

/// What clients do at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// None has read anything since the last step.
    Away,
    /// Some have.
    Near,
    /// One waits for a read now.
    Wait,
}

/// What the scrub did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments that were gone through.
    pub segments: u64,
    /// Bytes of records that were verified.
    pub bytes: u64,
    /// Records that proved damaged, and those that could not be read: they were forgotten.
    pub damaged: u64,
    pub unreadable: u64,
    /// Segments whose table of contents is damaged, missing or cannot be read: what they hold is not verified, and is forgotten where it
    /// is no segment at all.
    pub tables: u64,
    /// Steps that waited for clients or writes, and for how long: milliseconds.
    pub yields: u64,
    pub yielded: u64,
}

impl Counters {
    /// Of several together.
    pub fn and(self, other: Counters) -> Counters {
        Counters {
            segments: self.segments + other.segments,
            bytes: self.bytes + other.bytes,
            damaged: self.damaged + other.damaged,
            unreadable: self.unreadable + other.unreadable,
            tables: self.tables + other.tables,
            yields: self.yields + other.yields,
            yielded: self.yielded + other.yielded,
        }
    }
}

pub struct Scrub {
    pace: Option<Pace>,
    /// The share of the day in which it may run; `None`: not now.
    share: Option<f64>,
    /// Segments that were begun, counted as the pace counts them.
    pub at: u64,
    pub step: Step,
    /// Since when a step is being carried out, and what clients did then.
    runs: Option<(Millis, Clients)>,
    /// When the next one is due.
    next: f64,
    waits_since: Option<Millis>,
    poll: Millis,
    pub retry: Retry,
    pub counters: Counters,
    /// The sequence numbers of the segments that it has.
    #[cfg(test)]
    pub gone_through: std::collections::HashSet<u64>,
}

/// Where it is.
pub enum Step {
    /// Before a segment.
    Between,
    /// Reads the table of the segment with this sequence number.
    Table(u64),
    /// Verifies what the index has there, in the order of offsets; `begun` are done, those up to `until` are being read.
    Records { seq: u64, entries: Vec<Entry>, begun: usize, until: usize },
}

impl Scrub {
    pub fn new(pace: Option<Pace>) -> Scrub {
        Scrub {
            at: pace.map_or(0, |pace| pace.start()),
            pace,
            share: Some(1.0),
            step: Step::Between,
            runs: None,
            next: 0.0,
            waits_since: None,
            poll: 0,
            retry: Retry::default(),
            counters: Counters::default(),
            #[cfg(test)]
            gone_through: Default::default(),
        }
    }

    /// What was gone through before counts no more.
    #[cfg(test)]
    pub fn forget_for_tests(&mut self) {
        self.step = Step::Between;
        self.gone_through.clear();
    }

    pub fn set_share(&mut self, share: Option<f64>) {
        self.share = share;
        // That it waits for the night is no yielding.
        self.waits_since = self.waits_since.filter(|_| share.is_some());
    }

    pub fn is_off_peak(&self) -> bool {
        self.share.is_some()
    }

    /// Segments that should have been begun by now, and were not.
    pub fn behind(&self, now: Millis) -> u64 {
        self.pace.map_or(0, |pace| pace.due(now).saturating_sub(self.at))
    }

    /// Whether a step may be taken now; or when to ask again, milliseconds. `busy`: a client waits for a read, or something waits to be
    /// written.
    pub fn may_go_on(&mut self, busy: bool, now: Millis) -> Result<(), Millis> {
        let (Some(pace), Some(_), None) = (self.pace, self.share, self.runs) else { return Err(IDLE) };
        // More than once round is not owed.
        self.at = self.at.max(pace.due(now).saturating_sub(pace.segments));
        if self.behind(now) == 0 && matches!(self.step, Step::Between) || !self.retry.is_due(now) {
            return Err(IDLE);
        }
        if self.next > now as f64 {
            return Err(((self.next - now as f64).ceil() as Millis).min(IDLE));
        }
        if busy && self.waits_since.is_none_or(|since| now.saturating_sub(since) < PATIENCE) {
            if self.waits_since.is_none() {
                self.counters.yields += 1;
                self.waits_since = Some(now);
                self.poll = POLLS.0;
            }
            let poll = self.poll;
            self.poll = (2 * poll).min(POLLS.1);
            return Err(poll);
        }
        if let Some(since) = self.waits_since.take() {
            self.counters.yielded += now.saturating_sub(since);
        }
        Ok(())
    }

    /// A step of so many bytes begins: the next one comes no sooner than the pace says.
    pub fn begin(&mut self, bytes: usize, clients: Clients, now: Millis) {
        self.runs = Some((now, clients));
        if let (Some(pace), Some(share)) = (self.pace, self.share) {
            // What a moment of waiting has cost is made up for, but not more.
            let from = self.next.max(now as f64 - IDLE as f64 / 4.0);
            self.next = from + bytes as f64 / pace.most(share);
        }
    }

    pub fn end(&mut self, now: Millis) {
        if let Some((began, Clients::Near | Clients::Wait)) = self.runs.take() {
            self.next = self.next.max((now + RESTS * now.saturating_sub(began)) as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Of 100 segments in 100 s.
    fn scrub() -> Scrub {
        Scrub::new(Some(Pace::new(Duration::from_secs(100), 0, 100, 1 << 20)))
    }

    #[test]
    fn it_waits_for_clients_but_not_for_ever() {
        let mut scrub = scrub();
        assert_eq!(scrub.may_go_on(false, 0), Err(IDLE), "nothing is due");
        assert_eq!(scrub.may_go_on(false, 1_000), Ok(()));
        let (mut now, mut polls) = (1_000, Vec::new());
        while let Err(poll) = scrub.may_go_on(true, now) {
            polls.push(poll);
            now += poll;
        }
        assert_eq!(polls[..7], [1, 2, 4, 8, 16, 32, 32]);
        assert!((3_000..3_040).contains(&now), "{now}");
        assert_eq!((scrub.counters.yields, scrub.counters.yielded), (1, now - 1_000));
        // The next one waits anew, and goes on as soon as nobody reads.
        assert_eq!((scrub.may_go_on(true, now), scrub.may_go_on(false, now + 1)), (Err(1), Ok(())));
        assert_eq!((scrub.counters.yields, scrub.counters.yielded), (2, now - 1_000 + 1));
    }

    #[test]
    fn it_rests_by_day_and_keeps_to_its_pace_by_night() {
        let mut scrub = scrub();
        assert_eq!(scrub.may_go_on(true, 2_000), Err(POLLS.0));
        scrub.set_share(None);
        assert_eq!(scrub.may_go_on(false, 50_000), Err(IDLE));
        assert_eq!(scrub.behind(50_000), 50);
        // A quarter of the day: eight times the mean, twice what the quarter asks for.
        scrub.set_share(Some(0.25));
        assert_eq!(scrub.may_go_on(false, 50_000), Ok(()));
        let (mut now, mut steps) = (50_000, 0);
        while now < 51_000 {
            match scrub.may_go_on(false, now) {
                Ok(()) => {
                    scrub.begin(256 << 10, Clients::Away, now);
                    assert_eq!(scrub.may_go_on(false, now), Err(IDLE), "one at a time");
                    scrub.end(now);
                    steps += 1;
                }
                Err(wait) => now += wait,
            }
        }
        assert_eq!((scrub.counters.yields, scrub.counters.yielded), (1, 0), "the day was not for clients");
        // 8 MiB in a second, and a quarter of a second that was left.
        assert!((32..=41).contains(&steps), "{steps}");
    }

    #[test]
    fn beside_clients_a_slow_disk_is_mostly_theirs() {
        for (clients, next) in [(Clients::Away, Ok(())), (Clients::Near, Err(90)), (Clients::Wait, Err(90))] {
            let mut scrub = scrub();
            assert_eq!(scrub.may_go_on(false, 5_000), Ok(()));
            scrub.begin(4 << 10, clients, 5_000);
            scrub.end(5_010);
            assert_eq!(scrub.may_go_on(false, 5_010), next, "{clients:?}");
        }
    }

    #[test]
    fn it_owes_no_more_than_one_round() {
        let mut scrub = scrub();
        assert_eq!(scrub.behind(1_000_000), 1_000);
        assert_eq!((scrub.may_go_on(false, 1_000_000), scrub.behind(1_000_000)), (Ok(()), 100));
    }
}
