//! Bytes on disk: a log of packets, an index in memory, cyclic replacement. Knows no HTTP.
//!
//! Everything the rest of the house may use is in this file's `pub use`s. (API SKELETON: bodies follow.)

use bytes::Bytes;
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
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// How reads reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoChoice {
    /// io_uring when the kernel allows it, threads otherwise.
    Auto,
    Uring,
    Threads,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// A file (made when absent) or a block device.
    pub path: PathBuf,
    /// Bytes; `None` keeps the size of an existing cache.
    pub size: Option<u64>,
    /// Bytes of one packet, a power of two.
    pub packet: u32,
    /// Objects with larger bodies are refused (LRU-TH's threshold), bytes.
    pub object_max: u64,
    pub cmax: u8,
    pub amax: u8,
    pub flush_interval: Duration,
    pub io: IoChoice,
}

#[derive(Debug)]
pub struct OpenError(pub String);

/// Why the store did not take an object. Never an error for the client: the response passes uncached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Larger than admission allows.
    TooLarge,
    /// Writes are behind; caching yields.
    Busy,
    /// The device failed too often.
    Broken,
}

/// A handle to one open cache; cheap to clone, shared by all workers.
#[derive(Clone)]
pub struct Store {}

impl Store {
    pub fn open(_options: &Options) -> Result<Store, OpenError> {
        todo!()
    }
    /// The reading half of one worker thread (`!Send`); call inside that thread's tokio runtime.
    pub fn reader(&self) -> std::io::Result<Reader> {
        todo!()
    }
    /// Largest body that `put` takes, bytes; larger ones go through `begin`.
    pub fn span_size(&self) -> usize {
        todo!()
    }
    /// True when the index may hold the key; no disk access.
    pub fn contains(&self, _key: &Key) -> bool {
        todo!()
    }
    /// Stores a complete small object (body at most `span_size`). Readable at once.
    pub fn put(&self, _key: &Key, _meta: &[u8], _body: &[u8]) -> Result<(), Refused> {
        todo!()
    }
    /// Starts an object whose body arrives in pieces, of known or unknown length. Nothing is found under `key`
    /// until `Writer::finish`; dropping the writer abandons it.
    pub fn begin(&self, _key: &Key, _expected: Option<u64>) -> Result<Writer, Refused> {
        todo!()
    }
    /// Replaces the metadata of a stored object whose body stays (`body` as `get` returned it).
    pub fn put_meta(&self, _key: &Key, _meta: &[u8], _body: &Body) -> Result<(), Refused> {
        todo!()
    }
    pub fn remove(&self, _key: &Key) {
        todo!()
    }
    /// Counts `n` references that the memory tier answered, so that replacement knows of them.
    pub fn touch(&self, _key: &Key, _n: u8) {
        todo!()
    }
    /// Writes what is in memory, leaves a clean checkpoint, closes. Blocking.
    pub fn close(&self) {
        todo!()
    }
    /// One line for the log: which I/O was chosen, how much was recovered, in how long.
    pub fn opened(&self) -> &str {
        todo!()
    }
}

/// An object being written in pieces.
pub struct Writer {}

impl Writer {
    /// Appends body bytes. After `Err` the object is abandoned; further calls return the same error.
    pub fn push(&mut self, _bytes: &[u8]) -> Result<(), Refused> {
        todo!()
    }
    /// The spans written so far, readable through `Reader::span` (for a follower that fell behind); the last
    /// `length % span` bytes may still be only with the writer.
    pub fn spans(&self) -> Spans {
        todo!()
    }
    /// Commits the object.
    pub fn finish(self, _meta: &[u8]) -> Result<(), Refused> {
        todo!()
    }
}

pub struct Object {
    pub meta: Bytes,
    pub body: Body,
}

#[derive(Clone, Debug)]
pub enum Body {
    Whole(Bytes),
    Spans(Spans),
}

impl Body {
    pub fn len(&self) -> u64 {
        match self {
            Body::Whole(b) => b.len() as u64,
            Body::Spans(s) => s.length,
        }
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where the body of a large object lies: `ceil(length / span)` pieces of `span` bytes, the last one shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    pub id: u64,
    pub length: u64,
    pub span: u32,
}

/// Reads for one worker thread.
#[derive(Clone)]
pub struct Reader {}

impl Reader {
    /// One device read for an object of up to 64 KiB, none when the index does not hold the key. A torn, corrupt
    /// or overwritten record is `None`. A large object is returned only when all its spans are in the index.
    pub async fn get(&self, _key: &Key) -> Option<Object> {
        todo!()
    }
    /// Piece `n` of a large body; `None` when it went away meanwhile.
    pub async fn span(&self, _spans: &Spans, _n: u32) -> Option<Bytes> {
        todo!()
    }
}
