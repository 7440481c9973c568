//! The production store, the same code that serves, with its defaults: its disk is a file of the medium, its clock the medium's.
//!
//! With a write budget, or when it is paced, its clock is of the trace: a budget is of bytes a time, and a modelled medium replays months in seconds.
//!
//! Objects lie under keys and with heads as the proxy makes them, and what answers is told by the head. Reads go one after the
//! other, and so do writes, which `cosm serve` leaves to other threads.

use super::{Outcome, Storage};
use crate::input::Reading;
use crate::layout::check;
use crate::medium::{Failed, File, Medium, ROOT};
use crate::notes::Notes;
use crate::object::Object;
use crate::response;
use crate::scale::{Clock, WriteBudget};
use bytes::Bytes;
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use store::disk::Disk;
use store::format::DATA_START;
use store::format::record::HEADER;
use store::{Admission, Body, Buffer, ByHand, Census, Key, Options, Refused, Uses};
use trace::random::Random;
use trace::statistics::is_unchanged;
use trace::{Access, Requests};

/// Bytes of a packet, as by default, and the least; the store wants this many packets.
const PACKET: u32 = 1 << 20;
const LEAST_PACKET: u32 = 16 << 10;
const PACKETS: u64 = 64;
const LEAST_PACKETS: u64 = 15;
/// Seconds since 1970 at the medium's beginning.
const EPOCH: u64 = 1_800_000_000;
/// All that is random in the store: its identity, and what ties spans together.
const SEED: u64 = 1;
/// How often a large body waits for the store to write what it holds.
const PATIENCE: usize = 64;
/// By the trace's clock: hardly a packet is written before it is full, as by the medium's.
const FLUSH_INTERVAL: Duration = Duration::from_secs(3600);

pub struct Cosm {
    /// Bytes of the log.
    space: u64,
    parts: Parts,
    open: Option<Open>,
    buffer: Vec<u8>,
    /// Microseconds of the first request, and bytes asked for.
    began: Option<u64>,
    asked: u64,
    chance: Option<Chance>,
    foreseen: Foreseen,
    looks: Looks,
}

/// Which objects lie together: those of which it says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// All, as they came.
    Arrival,
    /// As `cosm serve` has it, by the key.
    Origin,
    Directory,
    /// For which they were asked for: Referer.
    Page,
    Client,
    /// Those that one client asks for next without a pause. Nobody knows that.
    Next,
}

/// A pause of a client, microseconds.
const PAUSE: u64 = 10_000_000;

/// Of each request, in turn, by which number what it asks for is asked for next: of the first that its client makes without a pause.
#[derive(Default)]
struct Foreseen {
    next: Vec<u64>,
    passed: usize,
}

impl Foreseen {
    fn of(reading: &mut Reading) -> Result<Foreseen, Failed> {
        let (mut begun, mut asked, mut access) = (HashMap::new(), Vec::new(), Access::default());
        while reading.next(&mut access)? {
            if !reaches_storage(&access) {
                continue;
            }
            let (first, last) = begun.entry(access.client).or_insert((asked.len() as u64, access.time));
            if access.time > *last + PAUSE {
                *first = asked.len() as u64;
            }
            *last = access.time;
            asked.push((access.object, *first));
        }
        let mut later = HashMap::new();
        let next = asked.iter().rev().map(|(object, with)| later.insert(*object, *with).unwrap_or(u64::MAX));
        let mut next: Vec<u64> = next.collect();
        next.reverse();
        Ok(Foreseen { next, passed: 0 })
    }
}

/// What `Pipeline` does not pass by.
fn reaches_storage(access: &Access) -> bool {
    access.is_cacheable() && access.size > 0
}

thread_local! {
    /// What the hint says of what is put now. The store takes it by the key, from which it does not follow.
    static TOLD: Cell<u64> = const { Cell::new(0) };
}

/// What is chosen of the store's options.
#[derive(Clone, Copy)]
pub struct Parts {
    pub admission: Admission,
    pub hint: Hint,
    /// Bytes of a group read; 0: none.
    pub group: u32,
    /// Bytes of memory for groups.
    pub group_memory: usize,
    /// Reads go past the filesystem's memory, as those of `cosm serve`; otherwise through it, as those of other recipes.
    pub direct: bool,
    /// Its clock is of the trace also without a write budget, and its flush interval of that time.
    pub paced: bool,
    pub write_budget: Option<WriteBudget>,
    /// Chance keeps to it, instead of the store.
    pub by_chance: bool,
    /// What the log's bytes are is told, which reads all of it in the end.
    pub census: bool,
}

/// Requests to the disk from one census to the next.
const LOOK: u64 = 10_000;

/// What was counted of the log's bytes, again and again.
#[derive(Default)]
struct Looks {
    requests: u64,
    all: Vec<Census>,
}

/// Plain random admission that keeps to a budget: of what is fetched a share is let in that falls with what is left.
struct Chance {
    random: Random,
    /// Bytes a millisecond, those that can be left, and those that are.
    rate: f64,
    full: f64,
    left: f64,
    now: u64,
}

impl Chance {
    fn new(budget: WriteBudget) -> Chance {
        let rate = budget.bytes as f64 / (1000 * budget.seconds) as f64;
        let full = budget.bytes as f64 / 4.0;
        Chance { random: Random::of(SEED), rate, full, left: full / 4.0, now: 0 }
    }

    fn admits(&mut self, bytes: u64, now: u64) -> bool {
        self.left = (self.left + now.saturating_sub(self.now) as f64 * self.rate).min(self.full);
        self.now = now;
        let admits = self.random.unit() < self.left / self.full;
        self.left -= if admits { bytes as f64 } else { 0.0 };
        admits
    }
}

struct Open {
    store: ByHand,
    file: File,
}

impl Cosm {
    /// Bytes of the log; the fixed megabyte before it is not counted.
    pub fn new(space: u64, parts: Parts) -> Cosm {
        let chance = parts.write_budget.filter(|_| parts.by_chance).map(Chance::new);
        Cosm {
            space,
            parts,
            open: None,
            buffer: Vec::new(),
            began: None,
            asked: 0,
            chance,
            foreseen: Foreseen::default(),
            looks: Looks::default(),
        }
    }

    /// Milliseconds of the medium, or with a write budget of the trace. Each request is told once.
    fn now(&mut self, medium: &dyn Medium, access: &Access) -> u64 {
        TOLD.set(match self.parts.hint {
            Hint::Arrival | Hint::Origin => 0,
            Hint::Directory => access.directory.unwrap_or(access.server),
            Hint::Page => access.page.unwrap_or(access.object),
            Hint::Client => access.client,
            Hint::Next => self.foreseen.next.get(self.foreseen.passed).copied().unwrap_or(u64::MAX),
        });
        self.foreseen.passed += 1;
        self.asked += access.size;
        match self.parts.write_budget.map(|budget| budget.clock) {
            None if !self.parts.paced => millis(medium),
            None | Some(Clock::Trace) => {
                access.time.saturating_sub(*self.began.get_or_insert(access.time)) / 1000
            }
            Some(Clock::Asked) => ((u128::from(self.asked) * 1000) >> 20) as u64,
        }
    }
}

impl Open {
    /// What is stored under the key when that is what is asked for, read and checked.
    fn read(&self, disk: &BorrowedDisk<'_>, key: &Key, access: &Access) -> Result<bool, Failed> {
        let Some(found) = self.store.get(disk, key) else { return Ok(false) };
        let (modified, size) = version(&found.meta).ok_or("a head that nobody stored")?;
        if !is_unchanged((modified, size), (access.modified, access.size)) {
            return Ok(false);
        }
        let object = Object::with(access, modified, size);
        if found.body.len() != size {
            return Err(format!("object {} has {} of {size} bytes", object.id, found.body.len()));
        }
        match found.body {
            Body::Whole(bytes) => check(&object, 0, &bytes)?,
            Body::Spans(spans) => {
                for n in 0..spans.count() {
                    let Some(bytes) = self.store.span(disk, &spans, n) else { return Ok(false) };
                    check(&object, u64::from(n) * u64::from(spans.span), &bytes)?;
                }
            }
        }
        Ok(true)
    }

    fn write(
        &self,
        disk: &BorrowedDisk<'_>,
        key: &Key,
        meta: &[u8],
        body: &[u8],
        now: u64,
    ) -> Result<(), Refused> {
        if body.len() <= self.store.span_size() {
            return self.store.put(key, meta, body);
        }
        let mut writer = self.store.begin(key, Some(body.len() as u64))?;
        let mut left = body;
        for _ in 0..PATIENCE {
            let pushed = writer.push(&mut left);
            match pushed.and_then(|()| writer.finish(meta)) {
                Err(Refused::Busy) => self.store.turn(disk, now),
                done => return done,
            }
        }
        Err(Refused::Busy)
    }
}

impl Storage for Cosm {
    fn foresee(&mut self, open: &dyn Fn() -> Result<Reading, String>) -> Result<(), Failed> {
        if self.parts.hint == Hint::Next {
            self.foreseen = Foreseen::of(&mut open()?)?;
        }
        Ok(())
    }

    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        let mut packet = PACKET;
        while packet > LEAST_PACKET && self.space / u64::from(packet) < PACKETS {
            packet /= 2;
        }
        if self.space / u64::from(packet) < LEAST_PACKETS {
            // Too small for a cache: all passes.
            return Ok(());
        }
        let file = medium.create(ROOT, 0)?;
        let disk = BorrowedDisk::new(medium, file, self.parts.direct);
        let Parts { admission, hint, group, group_memory, write_budget, .. } = self.parts;
        let group_of = if hint == Hint::Origin { cache::key::group } else { |_: &[u8]| TOLD.get() };
        let mut options = Options { packet, admission, group_of, group, group_memory, ..Options::at("") };
        if write_budget.is_some() {
            options.flush_interval = FLUSH_INTERVAL;
            let of_store = write_budget.filter(|_| !self.parts.by_chance);
            options.write_budget = of_store.map(|WriteBudget { bytes, seconds, .. }| store::WriteBudget {
                bytes,
                period: Duration::from_secs(seconds),
            });
        }
        let made = ByHand::make(&disk, DATA_START + self.space, &options, SEED);
        disk.end()?;
        self.open = Some(Open { store: made.map_err(|error| error.to_string())?, file });
        Ok(())
    }

    fn memory(&self) -> u64 {
        self.parts.group_memory as u64
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        let (now, key) = (self.now(medium, access), key(access));
        let Some(open) = &self.open else { return Ok(Outcome::Passed) };
        if access.size > self.space {
            return Ok(Outcome::Passed);
        }
        let disk = BorrowedDisk::new(medium, open.file, self.parts.direct);
        open.store.turn(&disk, now);
        self.looks.requests += 1;
        if self.parts.census && self.looks.requests.is_multiple_of(LOOK) {
            self.looks.all.push(open.store.census(&disk).map_err(|error| error.to_string())?);
        }
        if open.read(&disk, &key, access)? {
            return disk.end().map(|()| Outcome::Hit);
        }
        if self.chance.as_mut().is_some_and(|chance| !chance.admits(access.size, now)) {
            return disk.end().map(|()| Outcome::Passed);
        }
        self.buffer.resize(access.size as usize, 0);
        Object::of(access).fill(0, &mut self.buffer);
        let meta = head(&key, access, EPOCH + now / 1000)?;
        let written = open.write(&disk, &key, &meta, &self.buffer, now);
        open.store.turn(&disk, now);
        disk.end().map(|()| if written.is_ok() { Outcome::Stored } else { Outcome::Passed })
    }

    /// As the proxy tells the store what its memory answered: the first few uses, and then in packs.
    fn used(&mut self, medium: &mut dyn Medium, access: &Access, uses: u32) -> Result<(), Failed> {
        let now = self.now(medium, access);
        let Some(open) = &self.open else { return Ok(()) };
        let new = match uses {
            1..=3 => 1,
            _ if uses.is_multiple_of(16) => 16,
            _ => return Ok(()),
        };
        if access.size > open.store.span_size() as u64 {
            return Ok(());
        }
        let (key, uses) = (key(access), Uses { new, all: uses.min(u8::MAX.into()) as u8 });
        let mut body = vec![0; access.size as usize];
        Object::of(access).fill(0, &mut body);
        let body = Bytes::from(body);
        if open.store.touch(&key, uses, &Body::Whole(body.clone())) {
            let bytes = access.size;
            if self.chance.as_mut().is_some_and(|chance| !chance.admits(bytes, now)) {
                return Ok(());
            }
            let meta = head(&key, access, EPOCH + now / 1000)?;
            open.store.put_again(&key, &meta, &body, uses.all);
        }
        Ok(())
    }

    fn finish(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        let Some(open) = &self.open else { return Ok(()) };
        let disk = BorrowedDisk::new(medium, open.file, self.parts.direct);
        open.store.flush(&disk);
        if self.parts.census {
            self.looks.all.push(open.store.census(&disk).map_err(|error| error.to_string())?);
        }
        disk.end()
    }

    fn begin_notes(&mut self) {
        self.looks.all.clear();
    }

    /// Percent of the log, on average; of what is live, the least too.
    fn notes(&self) -> Notes {
        let all = &self.looks.all;
        let share =
            |of: fn(&Census) -> u64, census: &Census| 100.0 * of(census) as f64 / census.all.max(1) as f64;
        let mean = |of| all.iter().map(|census| share(of, census)).sum::<f64>() / all.len().max(1) as f64;
        let rest = |c: &Census| c.live + c.headless + c.put_again + c.replaced + c.removed + c.forgotten;
        match all.is_empty() {
            true => Notes::default(),
            false => Notes::from([
                ("live".into(), mean(|census| census.live)),
                (
                    "least_live".into(),
                    all.iter().map(|census| share(|c| c.live, census)).fold(100.0, f64::min),
                ),
                ("headless".into(), mean(|census| census.headless)),
                ("put_again".into(), mean(|census| census.put_again)),
                ("replaced".into(), mean(|census| census.replaced)),
                ("removed".into(), mean(|census| census.removed)),
                ("forgotten".into(), mean(|census| census.forgotten)),
                ("dead_in_sparse_segments".into(), mean(|census| census.sparse)),
                ("rest".into(), 100.0 - mean(rest)),
            ]),
        }
    }
}

fn millis(medium: &dyn Medium) -> u64 {
    (medium.seconds() * 1000.0) as u64
}

fn key(access: &Access) -> Key {
    response::key(&format!("s{:x}.invalid", access.server), &format!("/{:x}", access.object))
}

/// The head, whose ETag says which version it is, as those of files do. It is as long as makes the body begin with a word: a
/// modelled disk remembers that in little memory.
fn head(key: &Key, access: &Access, now: u64) -> Result<Vec<u8>, Failed> {
    let etag = |more: usize| format!("\"{:x}-{:x}{:->more$}\"", access.modified, access.size, "");
    let head = response::head(now, Some(etag(0)))?.encode();
    match (HEADER + key.bytes().len() + head.len()) % 8 {
        0 => Ok(head),
        over => Ok(response::head(now, Some(etag(8 - over)))?.encode()),
    }
}

/// Last-Modified and size of what lies with this head.
fn version(meta: &[u8]) -> Option<(u64, u64)> {
    let head = cache::Head::decode(meta)?;
    let etag = head.etag()?.to_str().ok()?;
    let (modified, size) = etag.trim_matches(['"', '-']).split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((number(modified)?, number(size)?))
}

/// A file of a medium as the store's disk, for as long as it is lent.
struct BorrowedDisk<'a> {
    medium: Mutex<(&'a mut dyn Medium, Result<(), Failed>)>,
    file: File,
    direct: bool,
}

impl<'a> BorrowedDisk<'a> {
    fn new(medium: &'a mut dyn Medium, file: File, direct: bool) -> BorrowedDisk<'a> {
        BorrowedDisk { medium: Mutex::new((medium, Ok(()))), file, direct }
    }

    fn with(&self, call: impl FnOnce(&mut dyn Medium) -> Result<(), Failed>) -> io::Result<()> {
        let mut lent = self.medium.lock().unwrap_or_else(PoisonError::into_inner);
        let (medium, outcome) = &mut *lent;
        let result = call(&mut **medium);
        if outcome.is_ok() {
            outcome.clone_from(&result);
        }
        result.map_err(io::Error::other)
    }

    /// The first failure: a store goes on after one, a replay does not.
    fn end(self) -> Result<(), Failed> {
        self.medium.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}

impl Disk for BorrowedDisk<'_> {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        let into = &mut buffer[..length];
        self.with(|medium| match self.direct {
            true => medium.read_direct(self.file, offset, into),
            false => medium.read(self.file, offset, into),
        })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|medium| medium.write(self.file, offset, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|medium| medium.sync_behind())
    }

    fn read_block(&self) -> usize {
        512
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Counted;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};

    const ALONE: Parts = Parts {
        admission: Admission::Worth,
        hint: Hint::Arrival,
        group: 0,
        group_memory: 0,
        direct: false,
        paced: false,
        write_budget: None,
        by_chance: false,
        census: false,
    };

    fn access(object: u64, size: u64, modified: u64) -> Access {
        Access { object, server: object % 5, size, modified, ..Access::default() }
    }

    #[test]
    fn the_store_answers_what_it_was_given() {
        let (mut cosm, mut ufs) = (Cosm::new(64 << 20, ALONE), FileSystem::new(ST15150W, ULTRA_1));
        cosm.prepare(&mut ufs).unwrap();
        let mut counted = Counted::new(&mut ufs);
        for object in 0..2_000 {
            assert_eq!(cosm.get(&mut counted, &access(object, 5_000, 1)), Ok(Outcome::Stored));
        }
        cosm.finish(&mut counted).unwrap();
        let writes = counted.operations.0["write"];
        assert!((10..60).contains(&writes), "ten packets, and what the flush interval asks for: {writes}");
        assert_eq!(counted.operations.0.get("read"), None, "a miss costs no read");
        for object in 0..2_000 {
            assert_eq!(cosm.get(&mut counted, &access(object, 5_000, 1)), Ok(Outcome::Hit));
        }
        let reads = counted.operations.0["read"];
        assert!((1_790..=2_000).contains(&reads), "a hit costs one, but for the open packet: {reads}");
        assert_eq!(cosm.get(&mut counted, &access(7, 5_000, 2)), Ok(Outcome::Stored), "a new version");
        assert_eq!(cosm.get(&mut counted, &access(7, 5_000, 2)), Ok(Outcome::Hit));
        assert_eq!(cosm.get(&mut counted, &access(8, 2_000_000, 0)), Ok(Outcome::Stored), "in spans");
        assert_eq!(cosm.get(&mut counted, &access(8, 2_000_050, 0)), Ok(Outcome::Hit), "its size jitters");
        assert_eq!(cosm.get(&mut counted, &access(9, 60 << 20, 0)), Ok(Outcome::Passed), "too large");
    }

    /// What was asked for once stays, what was replaced does not, and the two and the rest are all of the log.
    #[test]
    fn a_census_tells_what_the_logs_bytes_are() {
        let (mut cosm, mut ufs) =
            (Cosm::new(64 << 20, Parts { census: true, ..ALONE }), FileSystem::new(ST15150W, ULTRA_1));
        cosm.prepare(&mut ufs).unwrap();
        for object in 0..4_000 {
            cosm.get(&mut ufs, &access(object, 5_000, 1)).unwrap();
        }
        for object in 0..1_000 {
            cosm.get(&mut ufs, &access(object, 5_000, 2)).unwrap();
        }
        cosm.finish(&mut ufs).unwrap();
        // Of 25 MB in the end, the only look.
        let notes = cosm.notes();
        assert!((18.0..21.5).contains(&notes["replaced"]), "{notes:?}");
        assert!((70.0..80.0).contains(&notes["live"]) && notes["live"] == notes["least_live"], "{notes:?}");
        // The first five packets hold what was replaced.
        assert!(
            notes["dead_in_sparse_segments"] > 15.0 && notes["put_again"] + notes["removed"] == 0.0,
            "{notes:?}"
        );
        // What came after some lies in the packet that is open.
        assert!(notes["rest"] < 8.0 && notes["headless"] == 0.0 && notes["forgotten"] < 2.0, "{notes:?}");
    }

    #[test]
    fn packets_are_written_when_the_mediums_clock_says_so() {
        let (mut cosm, mut ufs) = (Cosm::new(64 << 20, ALONE), FileSystem::new(ST15150W, ULTRA_1));
        cosm.prepare(&mut ufs).unwrap();
        let mut counted = Counted::new(&mut ufs);
        let began = counted.seconds();
        cosm.get(&mut counted, &access(1, 5_000, 1)).unwrap();
        assert_eq!(counted.operations.0.get("write"), None);
        while counted.seconds() < began + 1.2 {
            let file = counted.open(ROOT, 0).unwrap();
            counted.close(file).unwrap();
        }
        cosm.get(&mut counted, &access(1, 5_000, 1)).unwrap();
        assert!(counted.operations.0["write"] > 0);
    }

    #[test]
    fn a_paced_store_writes_when_the_traces_clock_says_so() {
        let parts = Parts { paced: true, ..ALONE };
        let (mut cosm, mut ufs) = (Cosm::new(64 << 20, parts), FileSystem::new(ST15150W, ULTRA_1));
        cosm.prepare(&mut ufs).unwrap();
        let mut counted = Counted::new(&mut ufs);
        for (time, writes) in [(7_000_000, None), (7_900_000, None), (8_100_000, Some(&1))] {
            cosm.get(&mut counted, &Access { time, ..access(1, 5_000, 1) }).unwrap();
            assert_eq!(counted.operations.0.get("write"), writes);
        }
    }

    #[test]
    fn a_medium_that_fails_is_no_miss() {
        let (mut cosm, mut ufs) = (Cosm::new(64 << 20, ALONE), FileSystem::new(ST15150W, ULTRA_1));
        cosm.prepare(&mut ufs).unwrap();
        for object in 0..400 {
            cosm.get(&mut ufs, &access(object, 5_000, 1)).unwrap();
        }
        ufs.unlink(ROOT, 0).unwrap();
        let failed = cosm.get(&mut ufs, &access(0, 5_000, 1));
        assert!(failed.is_err_and(|why| why.contains("there is no file")));
    }

    /// Four clients ask in turn, each for five objects: which they ask for together again only one of the hints tells.
    #[test]
    fn objects_lie_together_as_the_hint_says() {
        let asked: Vec<Access> = (0..400u64)
            .map(|nth| {
                let (client, page) = (nth % 4, nth / 20);
                Access {
                    client,
                    page: Some(100 * client + page),
                    time: nth * 1_000_000,
                    ..access(nth, 5_000, 1)
                }
            })
            .collect();
        let reads = |hint| {
            let parts = Parts { hint, group: 32 << 10, group_memory: 256 << 10, direct: true, ..ALONE };
            let (mut cosm, mut ufs) = (Cosm::new(64 << 20, parts), FileSystem::new(ST15150W, ULTRA_1));
            cosm.prepare(&mut ufs).unwrap();
            let mut counted = Counted::new(&mut ufs);
            for access in &asked {
                assert_eq!(cosm.get(&mut counted, access), Ok(Outcome::Stored));
            }
            cosm.finish(&mut counted).unwrap();
            for client in 0..4 {
                for access in asked.iter().filter(|access| access.client == client) {
                    assert_eq!(cosm.get(&mut counted, access), Ok(Outcome::Hit));
                }
            }
            counted.traffic().reads
        };
        let [arrival, client, page] = [Hint::Arrival, Hint::Client, Hint::Page].map(reads);
        assert!(client * 2 < arrival && page * 2 < arrival, "{arrival}, {client}, {page}");
    }

    #[test]
    fn what_is_asked_for_next_is_foreseen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        // A pause of the first client, and one request that reaches no storage.
        let lines = "1,a,/x\n2,a,/y\n3,b,/x\n40,a,/z?\n40,a,/y\n41,a,/x\n";
        let lines: String = lines.lines().map(|line| format!("{line},5\n")).collect();
        std::fs::write(&path, format!("time,client,url,size\n{lines}")).unwrap();
        let from = crate::input::From::File { path, format: None, strict: false };
        let input = crate::input::Input { from, requests: None, largest: None };
        let foreseen = Foreseen::of(&mut input.open().unwrap()).unwrap();
        assert_eq!(foreseen.next, [2, 3, 3, u64::MAX, u64::MAX]);
    }

    #[test]
    fn bodies_begin_with_a_word() {
        for nth in 0..200 {
            let access = access(nth * nth * nth, 1 + nth * 77, nth << 20);
            let key = key(&access);
            let meta = head(&key, &access, EPOCH).unwrap();
            assert_eq!((HEADER + key.bytes().len() + meta.len()) % 8, 0);
            assert_eq!(version(&meta), Some((access.modified, access.size)));
        }
    }
}
