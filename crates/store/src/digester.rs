//! Digests are made: now and then the events since the last one are sorted and written into the log, and a new root lists them.
//!
//!   gather ─→ sort ─→ pages ─→ head ─→ settle ─→ sync ─→ root ─→ sync ─→ in force
//!
//! Settled is what lies in the log and is written, with all that the digest's events speak of. So what a start has to replay is
//! bounded, whatever the index's size: the tables of the segments since the last digest.

use crate::Key;
use crate::buffer::Buffer;
use crate::engine::{Millis, Op};
use crate::format::digest::{self, EVENTS, Event, Head};
use crate::format::record::Kind;
use crate::format::root::{self, DigestAt, Root};
use crate::format::{BLOCK, Layout};
use crate::retry::Retry;
use std::sync::Arc;

/// Segments for which a digest is made, at most: it bounds what a start replays.
const LONGEST: u64 = 512;
/// Digests in a log at least, about; and at most, or the root could not list them.
const FEW: u64 = 64;
const MANY: u64 = 1500;
/// Bytes of events for which a digest is made before its time; four times as many are let go of: the root cannot be written.
const MOST: usize = 64 << 20;
/// A log of fewer segments needs none: all tables are soon read.
const SMALL: u64 = 128;

/// How many segments a digest is for; `None` in a log that needs none.
pub fn stretch(segments: u64) -> Option<u64> {
    (segments >= SMALL).then(|| (segments / FEW).min(LONGEST).max(segments.div_ceil(MANY)).max(1))
}

/// Bytes that digests take at most in memory, about: the events of one that is being made and of the next, of records of 4 KiB on
/// average, and a record of pages.
pub fn most_bytes(segments: u64, segment: u32) -> u64 {
    let events = stretch(segments).unwrap_or(0) * u64::from(segment) / 4096;
    3 * events * size_of::<Event>() as u64 + (512 << 10)
}

pub struct Digester {
    identity: u64,
    segment: usize,
    stretch: Option<u64>,
    /// As it is on the medium.
    root: Root,
    /// Since the root, or since what is being digested, in their order.
    events: Vec<Event>,
    /// A digest is wanted, whatever there is to say.
    pub urgent: bool,
    job: Option<Job>,
    pub retry: Retry,
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

/// A record that the digest needs to have put.
pub struct Wanted {
    pub kind: Kind,
    pub key: Key,
    pub body: Vec<u8>,
}

impl Digester {
    /// Goes on from a root, and what happened since.
    pub fn new(
        layout: &Layout,
        stretch: Option<u64>,
        root: Root,
        events: Vec<Event>,
        urgent: bool,
    ) -> Digester {
        let (identity, retry) = (layout.identity, Retry::default());
        Digester {
            identity,
            segment: layout.segment as usize,
            stretch,
            root,
            events,
            urgent,
            job: None,
            retry,
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
        (self.stretch, self.job, self.urgent) = (None, None, false);
        (self.events, self.retry) = Default::default();
    }

    /// Begins when it is time: `seq` is the segment that takes the events from `order` on, `wanted` when a segment cannot be
    /// opened before.
    pub fn tick(&mut self, order: u64, seq: u64, wanted: bool, now: Millis) {
        let Some(stretch) = self.stretch else { return };
        let bytes = self.events.len() * size_of::<Event>();
        if bytes >= MOST && self.job.is_some() {
            return self.give_up();
        }
        let due = self.urgent || wanted || seq >= self.root.seq + stretch || bytes >= MOST / 4;
        if !due || self.job.is_some() || !self.retry.is_due(now) {
            return;
        }
        let events = std::mem::take(&mut self.events);
        let (urgent, begun) = (std::mem::take(&mut self.urgent), None);
        let stage = Stage::Sort(events);
        // What lies in the open segment may be digested.
        self.job =
            Some(Job { order, seq, last_seq: seq, urgent, begun, stage, sent: false, next: Root::default() });
    }

    /// The next record to be put.
    pub fn wanted(&self) -> Option<Wanted> {
        let Some(Job { stage: Stage::Pages(events, places), .. }) = &self.job else { return None };
        let (from, number) = (self.root.order, places.len());
        let chunk = events.chunks(EVENTS * digest::pages_each(self.segment)).nth(number);
        Some(match chunk {
            Some(chunk) => Wanted {
                kind: Kind::Pages,
                key: digest::pages_key(from, number as u32),
                body: digest::encode_pages(self.identity, chunk),
            },
            None => Wanted {
                kind: Kind::Digest,
                key: digest::head_key(from),
                body: Head::new(events, places.clone(), self.segment).encode(),
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
        self.urgent = true;
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
    pub fn next_io(&mut self, layout: &Layout, newest: u64, swept: u64, now: Millis) -> Option<Op> {
        let job = self.job.as_mut().filter(|job| !job.sent && self.retry.is_due(now))?;
        let op = match &mut job.stage {
            Stage::Sort(events) => {
                let events = std::mem::take(events);
                job.stage = Stage::Sorting;
                Op::Digest { events }
            }
            Stage::SyncLog(_) | Stage::SyncRoot(_) => Op::Sync,
            Stage::Write(at) => {
                let digests = next_digests(&self.root, *at, newest, layout.segments);
                let generation = self.root.generation + 1;
                let next = Root { generation, order: job.order, seq: job.seq, swept, digests };
                let mut image = Buffer::new(next.size());
                next.encode(self.identity, &mut image);
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

/// With one digest more, and without those of which the log has nothing any more.
fn next_digests(root: &Root, at: DigestAt, newest: u64, segments: u64) -> Vec<DigestAt> {
    let lives = |digest: &&DigestAt| digest.last_seq + segments > newest;
    let mut digests: Vec<DigestAt> = root.digests.iter().filter(lives).copied().collect();
    digests.push(at);
    let most = digests.len().saturating_sub(root::MOST);
    digests.drain(..most);
    digests
}
