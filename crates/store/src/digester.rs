//! Digests are made: now and then the events since the last one are sorted and written into the log, and a new root lists them.
//!
//!   gather ─→ sort ─→ pages ─→ head ─→ settle ─→ sync ─→ root ─→ sync ─→ in force
//!
//! Events are gathered in memory as they happen. What it has no room for, since the digest before is not in force yet or a start
//! found too many, is read again from the tables when its turn comes.
//!
//! Settled is what lies in the log and is written, with all that the digest's events speak of. So what a start has to replay is
//! bounded, whatever the index's size: the tables of the segments since the last digest.

use crate::Key;
use crate::buffer::Buffer;
use crate::engine::{Millis, Op};
use crate::format::digest::{self, EVENTS, Event, Head};
use crate::format::fence::Fence;
use crate::format::record::Kind;
use crate::format::root::{self, DigestAt, Root};
use crate::format::table::{Table, Unreadable};
use crate::format::{BLOCK, Layout, align_up};
use crate::loader::{TABLE_READ, events_of};
use crate::recovery::{QUIET, first_of};
use crate::retry::Retry;
use crate::writes::DEPTH;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Segments for which a digest is made, at most, unless they would be too many: it bounds what a start replays.
const LONGEST: u64 = 512;
/// Digests in a log at least, about; and at most, since a part of the index is loaded by a read of each.
const FEW: u64 = 64;
const MANY: u64 = 384;
/// Events in memory for one digest at most: as many as four stretches of records of 4 KiB have, within these bounds, and as many as
/// two have of a larger log, or the root could not list its digests.
const EVENTS_MOST: Range<u64> = if cfg!(test) { 40..1 << 20 } else { 1 << 16..1 << 20 };
/// Attempts to read a table again.
const ATTEMPTS: u32 = 4;
/// Segments that were given up for which a digest is made before its time. With those that are until it is in force, and with writes
/// in flight, a start finds fewer gaps in a row than it takes for the end of the log.
const GAPS: u64 = 1 + (QUIET - DEPTH as u64) / 4;
/// A log of fewer segments needs none: all tables are soon read.
const SMALL: u64 = 128;

/// How many segments a digest is for; `None` in a log that needs none.
pub fn stretch(segments: u64) -> Option<u64> {
    (segments >= SMALL).then(|| (segments / FEW).min(LONGEST).max(segments.div_ceil(MANY)).max(1))
}

/// Events that wait for a digest of `stretch` segments in memory, at most.
pub fn most_events(stretch: Option<u64>, segment: u32) -> usize {
    let each = stretch.unwrap_or(0) * u64::from(segment) / 4096;
    (4 * each).clamp(EVENTS_MOST.start, EVENTS_MOST.end.max(2 * each)) as usize
}

/// Bytes that digests take at most in memory, about: the events of one that is being made, which are being sorted, and of the next,
/// and a record of pages.
pub fn most_bytes(segments: u64, segment: u32) -> u64 {
    3 * (most_events(stretch(segments), segment) * size_of::<Event>()) as u64 + (512 << 10)
}

/// Up to where some events go that are to be read again: to below this order, in segments up to this sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind {
    pub order: u64,
    pub seq: u64,
}

pub struct Digester {
    layout: Layout,
    stretch: Option<u64>,
    /// As it is on the medium.
    root: Root,
    /// Since the root, or since what is being digested or is behind, in their order.
    events: Vec<Event>,
    /// What happened before, oldest first.
    behind: VecDeque<Behind>,
    /// Tables of before it do not count.
    fence: Fence,
    /// Of what has lower orders the start could not read all.
    unread_below: u64,
    /// A digest is wanted, whatever there is to say.
    pub urgent: bool,
    /// One was wanted, and none is made any more: a start would not find what was put and removed.
    pub owes: bool,
    /// Segments that were given up since one was begun.
    gaps: u64,
    job: Option<Job>,
    pub retry: Retry,
    /// Of the read of a table.
    reads: Retry,
    failures: u32,
}

struct Job {
    /// What the root will say.
    order: u64,
    seq: u64,
    last_seq: u64,
    /// The one under way serves what was wanted.
    urgent: bool,
    /// The segment of its first record.
    begun: Option<u64>,
    stage: Stage,
    /// The stage's I/O was handed out.
    sent: bool,
    /// The root that is being written.
    next: Root,
}

enum Stage {
    /// The events are read again.
    Gather(Gather),
    Sort(Vec<Event>),
    Sorting,
    /// Sorted events, and where the records of pages lie that were put.
    Pages(Vec<Event>, Vec<u64>),
    /// The digest is in the log; until what lies in this segment is written.
    Settle(Vec<Event>, DigestAt, u64),
    SyncLog(DigestAt),
    Write(DigestAt),
    SyncRoot(DigestAt),
}

struct Gather {
    /// The segment whose table is read next: bytes of its end, and then of its beginning.
    next: u64,
    at: Part,
    /// Its table, until it is known that the segment begins as that says.
    listed: Option<Table>,
    /// Above the orders of those before: what has lower ones was lost to an earlier start.
    above: u64,
    /// All of the segments have their tables on the medium.
    sealed: bool,
    events: Vec<Event>,
}

#[derive(Clone, Copy)]
enum Part {
    End(usize),
    Beginning,
}

/// A record that the digest needs to have put.
pub struct Wanted {
    pub kind: Kind,
    pub key: Key,
    pub body: Vec<u8>,
}

impl Digester {
    /// Goes on from a root, and what happened since: what is behind, and the events after that. `unread_below`: the start could not read
    /// all that has lower orders, so that a digest is wanted; 0: it could.
    pub fn new(
        layout: &Layout,
        stretch: Option<u64>,
        root: Root,
        (behind, events): (Vec<Behind>, Vec<Event>),
        fence: Fence,
        unread_below: u64,
    ) -> Digester {
        Digester {
            layout: *layout,
            stretch,
            root,
            events,
            behind: behind.into(),
            fence,
            unread_below,
            urgent: unread_below > 0,
            owes: false,
            gaps: 0,
            job: None,
            retry: Retry::default(),
            reads: Retry::default(),
            failures: 0,
        }
    }

    /// Something was put or removed.
    pub fn note(&mut self, event: Event) {
        if self.stretch.is_some() {
            self.events.push(event);
        }
    }

    pub fn is_active(&self) -> bool {
        self.job.is_some()
    }

    /// True while what was wanted is not in force.
    pub fn is_urgent(&self) -> bool {
        self.stretch.is_some() && (self.urgent || self.job.as_ref().is_some_and(|job| job.urgent))
    }

    /// No digest is made in this life any more: a start has more to read.
    pub fn give_up(&mut self) {
        self.owes |= self.is_urgent();
        (self.stretch, self.job, self.urgent) = (None, None, false);
        (self.events, self.behind, self.retry) = Default::default();
    }

    /// Nobody waits for what has to be read again: a later start makes up for it.
    pub fn finish(&mut self) {
        let gathers = self.job.as_ref().is_some_and(|job| matches!(job.stage, Stage::Gather(_)));
        if !self.is_urgent() && (gathers || !self.behind.is_empty()) {
            self.give_up();
        }
    }

    /// Begins when it is time: `seq` is the segment that takes the events from `order` on, `wanted` when a segment cannot be
    /// opened before.
    pub fn tick(&mut self, order: u64, seq: u64, wanted: bool, now: Millis) {
        let Some(stretch) = self.stretch else { return };
        let most = most_events(self.stretch, self.layout.segment);
        let waits = self.job.is_some() || self.is_full(seq);
        if self.events.len() >= most && (waits || !self.behind.is_empty()) {
            self.behind.push_back(Behind { order, seq });
            self.events = Vec::new();
        }
        // What is written over needs no digest.
        while self.behind.len() > 1 && self.behind[0].seq < self.layout.oldest(seq + 1) {
            self.behind.pop_front();
        }
        let due = self.urgent
            || wanted
            || !self.behind.is_empty()
            || seq >= self.root.seq + stretch
            || self.events.len() >= most / 2;
        if !due || waits || !self.retry.is_due(now) {
            return;
        }
        let mut job = Job {
            order,
            seq,
            last_seq: seq,
            urgent: false,
            begun: None,
            stage: Stage::Sorting,
            sent: false,
            next: Root::default(),
        };
        match self.behind.pop_front() {
            Some(Behind { order, seq }) => {
                (job.order, job.seq, job.last_seq) = (order, seq, seq);
                let (next, at) = (self.root.seq, Part::End(TABLE_READ));
                job.stage = Stage::Gather(Gather {
                    next,
                    at,
                    listed: None,
                    above: 0,
                    sealed: false,
                    events: Vec::new(),
                });
            }
            // What lies in the open segment may be digested.
            None => {
                (self.gaps, job.urgent) = (0, std::mem::take(&mut self.urgent));
                let events = std::mem::take(&mut self.events);
                job.stage = Stage::Sort(self.still_there(events, seq));
            }
        }
        self.job = Some(job);
    }

    /// Without what was written over since it was put, up to the segment `newest`: whoever loads a digest takes what lies in a segment
    /// for its youngest turn's.
    fn still_there(&self, mut events: Vec<Event>, newest: u64) -> Vec<Event> {
        let layout = &self.layout;
        if layout.oldest(newest + 1) <= self.root.seq {
            return events;
        }
        // They are in the order of the log, so that a segment's turn is the youngest one before that of the next event.
        let mut turn = newest;
        events.reverse();
        events.retain(|event| {
            let lies = event.record().and_then(|(place, _)| layout.seq_of(layout.segment_of(place), turn));
            turn = lies.unwrap_or(turn);
            lies.is_none_or(|seq| !layout.is_gone(seq, newest))
        });
        events.reverse();
        events
    }

    /// The last segment whose table has to be on the medium before it goes on.
    pub fn gathers_up_to(&self) -> Option<u64> {
        match &self.job {
            Some(Job { stage: Stage::Gather(Gather { sealed: false, .. }), last_seq, .. }) => Some(*last_seq),
            _ => None,
        }
    }

    /// All segments up to that one have their tables.
    pub fn sealed(&mut self) {
        if let Some(Job { stage: Stage::Gather(gather), .. }) = &mut self.job {
            gather.sealed = true;
        }
    }

    /// The outcome of a read; `None`: it failed.
    pub fn gathered(&mut self, bytes: Option<&[u8]>, newest: u64, now: Millis) {
        let Some(job) = &mut self.job else { return };
        job.sent = false;
        let Stage::Gather(gather) = &mut job.stage else { return };
        let Some(bytes) = bytes else {
            self.failures += 1;
            self.reads.fail(now);
            if self.failures >= ATTEMPTS {
                self.give_up();
            }
            return;
        };
        (self.failures, self.reads) = Default::default();
        let (layout, seq) = (&self.layout, gather.next);
        match gather.at {
            _ if layout.is_gone(seq, newest) => gather.listed = None,
            Part::End(length) => match Table::decode(layout, layout.number(seq), &bytes[..length]) {
                Err(Unreadable::Longer(more)) => {
                    gather.at = Part::End(align_up(more, BLOCK));
                    return;
                }
                Ok(table) if table.seq == seq && table.first < gather.above => {}
                Ok(table) if table.seq == seq && self.fence.admits(seq, table.first) => {
                    (gather.listed, gather.at) = (Some(table), Part::Beginning);
                    return;
                }
                _ => {
                    gather.at = Part::Beginning;
                    return;
                }
            },
            Part::Beginning => {
                let begins = first_of(bytes).filter(|(of, order)| {
                    *of == seq as u32 && *order >= gather.above && self.fence.admits(seq, *order)
                });
                match (gather.listed.take(), begins.map(|(_, first)| first)) {
                    (Some(table), begins) if begins.is_none_or(|first| first == table.first) => {
                        gather.above = table.orders().end;
                        // As at the start, which did not know what was put there: a removal of it was not noted since.
                        let table = if begins.is_some() { table } else { table.without_answers() };
                        let ours = self.root.order..job.order;
                        let events = events_of(layout, &table).filter(|(order, _)| ours.contains(order));
                        gather.events.extend(events.map(|(_, event)| event));
                    }
                    (None, None) => {}
                    // What it holds is not known: a start reads its records.
                    _ => return self.give_up(),
                }
            }
        }
        (gather.next, gather.at) = (seq + 1, Part::End(TABLE_READ));
    }

    #[cfg(test)]
    pub fn events_in_memory(&self) -> usize {
        let job = self.job.as_ref().map_or(0, |job| match &job.stage {
            Stage::Gather(Gather { events, .. }) | Stage::Sort(events) => events.len(),
            Stage::Pages(events, _) | Stage::Settle(events, ..) => events.len(),
            _ => 0,
        });
        self.events.len() + job
    }

    /// The root has no room for one more until the oldest digest is of no use.
    fn is_full(&self, newest: u64) -> bool {
        let digests = &self.root.digests;
        digests.len() >= root::MOST && {
            let oldest = self.layout.oldest(newest + 1);
            digests.iter().filter(|at| at.last_seq >= oldest).count() >= root::MOST
        }
    }

    /// The next record to be put.
    pub fn wanted(&self) -> Option<Wanted> {
        let Some(Job { stage: Stage::Pages(events, places), .. }) = &self.job else { return None };
        let (from, number) = (self.root.order, places.len());
        let chunk = events.chunks(EVENTS * digest::pages_each(self.layout.segment as usize)).nth(number);
        Some(match chunk {
            Some(chunk) => Wanted {
                kind: Kind::Pages,
                key: digest::pages_key(from, number as u32),
                body: digest::encode_pages(self.layout.identity, chunk),
            },
            None => Wanted {
                kind: Kind::Digest,
                key: digest::head_key(from),
                body: Head::new(events, places.clone(), self.layout.segment as usize).encode(),
            },
        })
    }

    /// What was wanted was put: where, and in which segment.
    pub fn placed(&mut self, kind: Kind, place: u64, bytes: usize, seq: u64) {
        let Some(job) = &mut self.job else { return };
        job.begun.get_or_insert(seq);
        if let Stage::Pages(events, places) = &mut job.stage {
            if kind == Kind::Pages {
                places.push(place);
                return;
            }
            let Root { order: from, seq: first_seq, .. } = self.root;
            let at = DigestAt {
                from,
                to: job.order,
                first_seq,
                last_seq: job.last_seq,
                place,
                bytes: bytes as u32,
                partial: from < self.unread_below,
            };
            job.stage = Stage::Settle(std::mem::take(events), at, seq);
        }
    }

    /// The segment whose records have to be written before it goes on.
    pub fn waits_for(&self) -> Option<u64> {
        match &self.job {
            Some(Job { stage: Stage::Settle(_, _, seq), .. }) => Some(*seq),
            _ => None,
        }
    }

    /// All that was put in segments before `oldest` is written; `None`: all of it.
    pub fn written_up_to(&mut self, oldest: Option<u64>) {
        let Some(job) = &mut self.job else { return };
        if let Stage::Settle(_, at, seq) = job.stage
            && oldest.is_none_or(|oldest| oldest > seq)
        {
            job.stage = Stage::SyncLog(at);
        }
    }

    /// A segment was given up: what of a digest lay in it is put again.
    pub fn given_up(&mut self, seq: u64) {
        self.gaps += 1;
        self.urgent |= self.gaps >= GAPS;
        let Some(job) = &mut self.job else { return };
        if job.begun.is_none_or(|begun| seq < begun) {
            return;
        }
        if let Stage::Pages(events, _) | Stage::Settle(events, ..) = &mut job.stage {
            job.stage = Stage::Pages(std::mem::take(events), Vec::new());
            job.begun = None;
        }
    }

    /// `newest`: the youngest segment that was opened; `swept`: see `Root`.
    pub fn next_io(&mut self, newest: u64, swept: u64, now: Millis) -> Option<Op> {
        let job = self.job.as_mut().filter(|job| !job.sent && self.retry.is_due(now))?;
        if let Stage::Gather(gather) = &mut job.stage {
            // Those before are written over.
            let oldest = self.layout.oldest(newest + 1);
            if gather.next < oldest {
                (gather.next, gather.at, gather.listed) = (oldest, Part::End(TABLE_READ), None);
            }
            if gather.next > job.last_seq {
                job.stage = Stage::Sort(std::mem::take(&mut gather.events));
            }
        }
        let op = match &mut job.stage {
            Stage::Gather(Gather { sealed, next, at, .. }) => {
                if !*sealed || !self.reads.is_due(now) {
                    return None;
                }
                let start = self.layout.start(self.layout.number(*next));
                let segment = self.layout.segment as usize;
                match at {
                    Part::Beginning => Op::Read { offset: start, length: BLOCK },
                    Part::End(length) => {
                        *length = (*length).min(segment);
                        Op::Read { offset: start + (segment - *length) as u64, length: *length }
                    }
                }
            }
            Stage::Sort(events) => {
                let events = std::mem::take(events);
                job.stage = Stage::Sorting;
                Op::Digest { events }
            }
            Stage::SyncLog(_) | Stage::SyncRoot(_) => Op::Sync,
            Stage::Write(at) => {
                let oldest = self.layout.oldest(newest + 1);
                let lives = |digest: &&DigestAt| digest.last_seq >= oldest;
                let digests = self.root.digests.iter().filter(lives).copied().chain([*at]).collect();
                let generation = self.root.generation + 1;
                let next = Root { generation, order: job.order, seq: job.seq, swept, digests };
                let mut image = Buffer::new(next.size());
                next.encode(self.layout.identity, &mut image);
                debug_assert!(image.len().is_multiple_of(BLOCK));
                let range = 0..image.len();
                job.next = next;
                Op::Write { offset: root::offset(generation), image: Arc::new(image), range }
            }
            Stage::Sorting | Stage::Pages(..) | Stage::Settle(..) => return None,
        };
        job.sent = true;
        Some(op)
    }

    /// The events of `Op::Digest`, sorted.
    pub fn sorted(&mut self, events: Vec<Event>) {
        let Some(job) = &mut self.job else { return };
        job.sent = false;
        job.stage = Stage::Pages(events, Vec::new());
    }

    /// What was put and removed in segments with lower sequence numbers is in digests.
    pub fn covered(&self) -> u64 {
        self.root.seq
    }

    /// The outcome of a sync or write. True when a new root is in force.
    pub fn io_done(&mut self, ok: bool, now: Millis) -> bool {
        let Some(job) = &mut self.job else { return false };
        job.sent = false;
        if !ok {
            self.retry.fail(now);
        }
        job.stage = match job.stage {
            // What a failed sync had to bring to the medium may be nowhere any more, but the log is checked when it is read.
            Stage::SyncLog(at) if ok => Stage::Write(at),
            Stage::Write(at) if ok => Stage::SyncRoot(at),
            Stage::SyncRoot(_) if ok => {
                self.root = std::mem::take(&mut job.next);
                self.retry = Retry::default();
                self.job = None;
                return true;
            }
            Stage::SyncLog(at) | Stage::Write(at) | Stage::SyncRoot(at) => Stage::SyncLog(at),
            _ => return false,
        };
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::table::Entry;

    fn digester(digests: Vec<DigestAt>) -> Digester {
        let layout = Layout::new(1 << 20, 100_000, 7);
        let root = Root { generation: 1, order: 1, seq: 0, swept: 0, digests };
        Digester::new(&layout, stretch(layout.segments), root, Default::default(), Fence::default(), 0)
    }

    /// Makes the digest that is due, if any.
    fn make(digester: &mut Digester, order: u64, seq: u64) -> bool {
        digester.tick(order, seq, false, 0);
        let made = digester.is_active();
        while digester.is_active() {
            while let Some(Wanted { kind, .. }) = digester.wanted() {
                digester.placed(kind, 1, 64, seq);
            }
            digester.written_up_to(None);
            match digester.next_io(seq, 0, 0).expect("something to do") {
                Op::Digest { events } => digester.sorted(events),
                _ => drop(digester.io_done(true, 0)),
            }
        }
        made
    }

    #[test]
    fn a_root_can_list_the_digests_of_a_log_of_any_size() {
        for segments in [SMALL, 1_000, 100_000, 1 << 20, 18 << 20, 1 << 28] {
            let digests = segments * 256 / (most_events(stretch(segments), 1 << 20) as u64 / 2);
            assert!(digests < root::MOST as u64, "{digests} of {segments}");
        }
    }

    /// Else the index would point to what another key has there, for as long as nobody asks for it.
    #[test]
    fn what_was_written_over_is_in_no_digest() {
        let layout = Layout::new(1 << 20, 10, 7);
        let put = |hash, seq| Event::put(hash, layout.place(layout.number(seq), 0), 1);
        let mut digester =
            Digester::new(&layout, Some(5), Root::default(), Default::default(), Fence::default(), 0);
        (0..14).for_each(|seq| digester.note(put(seq, seq)));
        digester.note(Event::removal(2));
        digester.tick(20, 13, false, 0);
        let Some(Op::Digest { events }) = digester.next_io(13, 0, 0) else { panic!("no digest") };
        let there: Vec<Event> = (4..14).map(|seq| put(seq, seq)).chain([Event::removal(2)]).collect();
        assert_eq!(events, there);
    }

    #[test]
    fn packets_that_are_given_up_make_no_digest_each() {
        let mut digester = digester(Vec::new());
        let (mut made, gaps) = (0, 60);
        for seq in 1..=gaps {
            digester.given_up(seq);
            made += u64::from(make(&mut digester, seq + 1, seq));
        }
        assert!(GAPS > 1 && made == gaps / GAPS, "{made} of {gaps}");
    }

    /// Of a segment that was begun and has no table: its removals would be undone.
    #[test]
    fn no_digest_is_made_of_what_cannot_be_read_again() {
        for urgent in [false, true] {
            let mut digester = digester(Vec::new());
            digester.urgent = urgent;
            digester.behind.push_back(Behind { order: 9, seq: 3 });
            digester.tick(20, 5, false, 0);
            assert_eq!(digester.gathers_up_to(), Some(3));
            digester.sealed();
            let mut block = vec![0; BLOCK];
            let record = crate::format::record::Record::new(
                7,
                crate::format::record::About { kind: Kind::Removal, id: 5, length: 0, span: 0, written: 0 },
                &[],
                &[],
                &[],
            );
            record.unwrap().copy_to(1, 1, &mut block[..64]);
            // The first was never begun, the second was.
            for bytes in [vec![0; TABLE_READ], vec![0; BLOCK], vec![0; TABLE_READ], block] {
                let Some(Op::Read { length, .. }) = digester.next_io(5, 0, 0) else { panic!("no read") };
                assert_eq!(length, bytes.len());
                digester.gathered(Some(&bytes), 5, 0);
            }
            assert!(!digester.is_active() && digester.owes == urgent);
        }
    }

    /// Its table says which keys it was of: what they had before does not come back, nor what was removed unnoted.
    #[test]
    fn a_segment_whose_first_record_is_torn_ends_no_digest() {
        let mut digester = digester(Vec::new());
        digester.behind.push_back(Behind { order: 9, seq: 0 });
        digester.tick(20, 5, false, 0);
        digester.sealed();
        let layout = digester.layout;
        let entry = |hash, kind| Entry { hash, offset: 0, units: 2, order: hash, kind };
        let entries = vec![entry(5, Kind::Object), entry(6, Kind::Removal)];
        let mut end = vec![0; TABLE_READ];
        Table { seq: 0, first: 4, entries }.encode(layout.identity, &mut end);
        for bytes in [end, vec![0; BLOCK]] {
            assert!(matches!(digester.next_io(5, 0, 0), Some(Op::Read { .. })));
            digester.gathered(Some(&bytes), 5, 0);
        }
        let Some(Op::Digest { events }) = digester.next_io(5, 0, 0) else { panic!("no digest is made") };
        assert_eq!(events, [Event::removal(5), Event::removal(6)]);
    }

    /// Else what it lists would be there no more after a start.
    #[test]
    fn no_digest_is_dropped_that_lives() {
        let at = DigestAt { from: 0, to: 1, first_seq: 0, last_seq: 0, place: 1, bytes: 64, partial: false };
        let digests = vec![at; root::MOST];
        let mut digester = digester(digests.clone());
        digester.urgent = true;
        assert!(!make(&mut digester, 9, 99_999) && digester.is_urgent());
        assert_eq!(digester.root.digests, digests);
        assert!(make(&mut digester, 9, 100_000) && !digester.is_urgent());
        assert_eq!(digester.root.digests.len(), 1);
    }
}
