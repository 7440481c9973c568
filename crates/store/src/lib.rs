//! Bytes on disk: one log, written round and round, and an index in memory. Knows no HTTP.
//!
//! `engine` is the deterministic core, `store` the thin shell around it (`by_hand` one without threads), `reader` what a
//! worker thread asks; `format` alone knows how bytes lie on the medium.

mod buffer;
mod by_hand;
#[cfg(test)]
mod cases;
mod census;
mod day;
mod digester;
pub mod disk;
pub mod engine;
mod fence;
mod flights;
pub mod format;
mod groups;
mod health;
pub mod index;
mod inspect;
mod ledger;
#[cfg(test)]
mod lives;
mod loader;
mod map;
mod memory;
#[cfg(test)]
mod model;
mod opening;
mod placement;
mod reader;
mod reads;
mod recovery;
mod resize;
#[cfg(test)]
mod resizes;
mod retry;
mod scrub;
mod segment;
mod shared;
mod store;
mod syncer;
mod turns;
mod writer;
mod writes;

pub use buffer::Buffer;
pub use by_hand::ByHand;
pub use census::Census;
pub use format::ledger::MAX as LEDGER_MAX;
pub use health::Signs;
pub use inspect::{Checked, Header, Inspection, Seen, Surveyed, check, inspect, survey};
pub use map::{Cell, LogMap};
pub use memory::Memory;
pub use opening::DEFAULT_SIZE;
pub use reader::{Lookup, Reader};
pub use store::Store;
pub use writer::Writer;

use bytes::Bytes;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// What an object is stored under: the caller's bytes and their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    hash: u128,
    bytes: Bytes,
}

impl Key {
    pub fn new(bytes: impl Into<Bytes>) -> Key {
        let bytes = bytes.into();
        Key { hash: xxhash_rust::xxh3::xxh3_128(&bytes), bytes }
    }
    pub fn hash(&self) -> u128 {
        self.hash
    }
    /// The half by which the index and the tables of contents know the key.
    pub fn index_hash(&self) -> u64 {
        index_hash(self.hash)
    }
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

fn index_hash(hash: u128) -> u64 {
    (hash >> 64) as u64
}

/// How reads reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoChoice {
    /// io_uring when the kernel allows it, threads otherwise.
    Auto,
    Uring,
    Threads,
}

/// What is let in once the log has come round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Objects that may be expected to be worth their place; what is used is put again as it grows old (`placement`).
    Worth,
    /// All: a plain cyclic log.
    All,
}

/// Bytes that the device is given to write in a time, at most: all of them. Within that time as much as a quarter more may come, in a burst
/// (`placement::budget`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBudget {
    pub bytes: u64,
    pub period: Duration,
}

impl WriteBudget {
    /// Bytes in 24 hours.
    pub fn in_a_day(self) -> u64 {
        let day = u128::from(day::DAY);
        (u128::from(self.bytes) * day / self.period.as_millis().max(1)).try_into().unwrap_or(u64::MAX)
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    /// A file (made when absent) or a block device.
    pub path: PathBuf,
    /// Of this store among those that its user has. Nothing of it is on disk.
    pub number: u16,
    /// A cache that is there begins anew: empty, with another identity.
    pub anew: bool,
    /// Bytes; `None` keeps the size of an existing cache and makes a new one of `DEFAULT_SIZE`.
    pub size: Option<u64>,
    /// Bytes of one packet, which is a segment of the log: a power of two from 64 KiB to 16 MiB; an existing cache keeps its own.
    pub packet: u32,
    /// Objects with larger bodies are refused (LRU-TH's threshold), bytes; `None`: a quarter of the cache.
    pub object_max: Option<u64>,
    pub admission: Admission,
    /// What is let in keeps to it, chosen by its worth whatever `admission` is.
    pub write_budget: Option<WriteBudget>,
    /// A small object whose turn to leave comes is read and put again if it was used at least so often since it was put, at most 3
    /// (Maltzahn 5.3.4); 0: none is.
    pub cmax: u8,
    /// What was put is written out after this long even when its packet is not full.
    pub flush_interval: Duration,
    /// Objects, markers and pieces of large bodies that the index has room for; `None`: as many as come. At that number objects
    /// leave as if the cache were full.
    pub index_max: Option<u64>,
    /// To which group a key belongs: objects of one group that are put within a flush interval lie side by side.
    pub group_of: fn(&[u8]) -> u64,
    /// A read of a small object brings so many aligned bytes around it, a power of two; 0: itself alone.
    pub group: u32,
    /// Bytes of memory for what was read so.
    pub group_memory: usize,
    /// All that the index points to is read and verified once in so long, in off-peak hours (`Store::set_off_peak`).
    pub scrub: Option<Duration>,
    pub io: IoChoice,
    /// When the disk has kept a read waiting for this long, objects are not read, but missed, until it has come. A read that has
    /// begun, and one for a piece of a body under way, is given up after four times as long.
    pub patience: Duration,
    /// Takes one line when something is wrong, or is right again, such as writes that fail. By default it goes to standard error.
    pub tell: fn(&str),
    /// The same when there is something to know: all of the index is loaded, the cache has another size.
    pub news: fn(&str),
}

/// That nobody reads standard error is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "cosm: {line}");
}

impl Options {
    /// The defaults, for a cache at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Options {
        Options {
            path: path.into(),
            number: 0,
            anew: false,
            size: None,
            packet: 1 << 20,
            object_max: None,
            admission: Admission::Worth,
            write_budget: None,
            cmax: 0,
            flush_interval: Duration::from_secs(1),
            index_max: None,
            group_of: |_| 0,
            group: 32 << 10,
            group_memory: 0,
            scrub: None,
            io: IoChoice::Auto,
            patience: Duration::from_millis(200),
            tell: say,
            news: say,
        }
    }
}

/// Bytes of an object for which the index has room without growing beyond what is said of it, unless told otherwise.
const MEAN: u64 = 8 << 10;

impl Options {
    /// Entries that the index is made for.
    fn objects(&self, layout: &format::Layout) -> u64 {
        self.index_max.unwrap_or(layout.size() / MEAN)
    }
}

/// Why a cache was not opened: one line for the user. Nothing was touched.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenError {
    pub why: String,
    /// Another process has it, or had it until a moment ago.
    pub in_use: bool,
}

impl From<String> for OpenError {
    fn from(why: String) -> OpenError {
        OpenError { why, in_use: false }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for OpenError {}

/// Why the store did not take an object. Never an error for the client: the response passes uncached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Larger than `Options::object_max`.
    TooLarge,
    /// Not worth its place, or its part of the write budget, as far as can be seen (`Admission::Worth`, `WriteBudget`). When it comes back it may be.
    NotAdmitted,
    /// Writes are behind; caching yields.
    Busy,
    /// Writes fail; they are tried again, and until one succeeds nothing is taken for which there is no room in memory.
    Broken,
}

/// A stored object: the caller's metadata, and the body or where to read it.
#[derive(Clone, Debug)]
pub struct Object {
    pub meta: Bytes,
    pub body: Body,
}

/// Uses that memory answered: those since it was told of last, and all of them since the object came into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uses {
    pub new: u8,
    pub all: u8,
}

#[derive(Clone, Debug)]
pub enum Body {
    Whole(Bytes),
    Spans(Spans),
}

impl Body {
    /// Bytes of the whole body.
    pub fn len(&self) -> u64 {
        match self {
            Body::Whole(bytes) => bytes.len() as u64,
            Body::Spans(spans) => spans.length,
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where the body of a large object lies: `count` pieces of `span` bytes, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// The number of the store that has them (`Options::number`).
    pub store: u16,
    pub id: u64,
    pub length: u64,
    pub span: u32,
}

impl Spans {
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
    pub fn count(&self) -> u32 {
        self.length.div_ceil(u64::from(self.span.max(1))) as u32
    }
    /// The piece that has the byte at an offset in the body.
    pub fn piece_at(&self, at: u64) -> u32 {
        u32::try_from(at / u64::from(self.span.max(1))).unwrap_or(u32::MAX)
    }
    /// Where piece `n` begins, in the body; behind the last one, where that ends.
    pub fn offset(&self, n: u32) -> u64 {
        (u64::from(n) * u64::from(self.span)).min(self.length)
    }
    /// Bytes of piece `n`.
    pub fn length_of(&self, n: u32) -> u64 {
        self.offset(n.saturating_add(1)) - self.offset(n)
    }
}

fn span_key(id: u64, n: u32) -> Key {
    Key::new(span_bytes(id, n).to_vec())
}

fn span_bytes(id: u64, n: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(b"span");
    bytes[4..12].copy_from_slice(&id.to_le_bytes());
    bytes[12..].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// Where the index has a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Where {
    /// Offset in the cache, bytes.
    pub offset: u64,
    pub segment: u64,
    /// Of the record, about: no fewer.
    pub bytes: u32,
    /// Uses since it was put, as far as they are counted.
    pub uses: u8,
    /// It is on the medium.
    pub written: bool,
    /// How long ago its segment was opened, about; `None`: before the start.
    pub age: Option<Duration>,
}

/// What a store did since it was opened, and what it holds.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Bytes of the cache file.
    pub size: u64,
    /// Bytes of the segments that hold something.
    pub filled: u64,
    pub objects: u64,
    pub index_bytes: u64,
    /// Parts of the index that are not loaded yet after a start.
    pub parts_left: u64,
    pub engine: engine::Counters,
    /// A write failed, and was neither written nor given up yet.
    pub writes_fail: bool,
    pub device_reads: u64,
    pub device_read_bytes: u64,
    pub device_writes: u64,
    pub device_written_bytes: u64,
    /// Reads of objects that wait for the device now, and packets and flushes that are being written or wait for that.
    pub waiting_reads: u64,
    pub waiting_writes: u64,
    /// Seconds in which the log comes round, as it is written in the last 24 hours, or since the store was opened; 0: not written.
    pub lap: u64,
    /// Seconds since a digest was in force last, or since the store was opened; and segments opened since, whose tables a start reads.
    pub digest_age: u64,
    pub undigested: u64,
    /// Bytes that the device was given to write in the last 24 hours, or since the store was opened.
    pub written_last_day: u64,
    /// Bytes that it may be given in 24 hours; 0: any number.
    pub write_budget: u64,
    /// Reads of the device that brought a whole group, and those that were not needed since a group had what they would have brought.
    pub group_reads: u64,
    pub saved_reads: u64,
    /// Records that proved torn, damaged or overwritten when read.
    pub bad_records: u64,
    /// Reads that failed, those beyond the end of a file that was cut off among them.
    pub read_errors: u64,
    /// Reads refused because the disk kept others waiting.
    pub busy_reads: u64,
    /// It is off-peak, as far as the store was told.
    pub off_peak: bool,
    pub scrub: scrub::Counters,
    /// Segments that the scrub should have begun by now, and has not.
    pub scrub_behind: u64,
}

impl Stats {
    /// Of several stores together.
    pub fn and(self, other: Stats) -> Stats {
        Stats {
            size: self.size + other.size,
            filled: self.filled + other.filled,
            objects: self.objects + other.objects,
            index_bytes: self.index_bytes + other.index_bytes,
            parts_left: self.parts_left + other.parts_left,
            engine: self.engine.and(other.engine),
            writes_fail: self.writes_fail || other.writes_fail,
            device_reads: self.device_reads + other.device_reads,
            device_read_bytes: self.device_read_bytes + other.device_read_bytes,
            device_writes: self.device_writes + other.device_writes,
            device_written_bytes: self.device_written_bytes + other.device_written_bytes,
            waiting_reads: self.waiting_reads + other.waiting_reads,
            waiting_writes: self.waiting_writes + other.waiting_writes,
            lap: shorter(self.lap, other.lap),
            digest_age: self.digest_age.max(other.digest_age),
            undigested: self.undigested + other.undigested,
            written_last_day: self.written_last_day + other.written_last_day,
            write_budget: self.write_budget + other.write_budget,
            group_reads: self.group_reads + other.group_reads,
            saved_reads: self.saved_reads + other.saved_reads,
            bad_records: self.bad_records + other.bad_records,
            read_errors: self.read_errors + other.read_errors,
            busy_reads: self.busy_reads + other.busy_reads,
            off_peak: self.off_peak || other.off_peak,
            scrub: self.scrub.and(other.scrub),
            scrub_behind: self.scrub_behind + other.scrub_behind,
        }
    }
}

/// Of two times, where 0 is none.
fn shorter(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 { one.max(other) } else { one.min(other) }
}
