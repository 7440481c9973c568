//! A plain cyclic log: segments written round and round, and a map from hash to place.
//!
//! A record: magic (8), hash (8), sequence number of its segment (8), bytes of key (4), bytes of body (4), key, body, zeros to the next
//! 64 bytes.

use super::{Contender, Opened, Place};
use crate::drive::{self, Answer, Ask, Tally};
use crate::object::{Bodies, key};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, RwLock};
use store::Buffer;
use xxhash_rust::xxh3::xxh3_64;

const SEGMENT: usize = 1 << 20;
const HEADER: usize = 32;
const UNIT: usize = 64;
/// What direct reads begin and end at.
const BLOCK: usize = 512;
const MAGIC: u64 = u64::from_le_bytes(*b"plainlog");
/// Segments that wait to be written.
const WAITING: usize = 4;

struct Log {
    shared: Arc<Shared>,
    path: PathBuf,
    bodies: Bodies,
    /// The segment that is being filled: its sequence number, its bytes, how many are taken, and what is in it.
    open: (u64, Buffer, usize, Vec<(u64, Slot)>),
    full: SyncSender<Full>,
    /// A buffer comes back for each that was written.
    empty: Receiver<Result<Buffer, String>>,
    spare: Vec<Buffer>,
    body: usize,
}

struct Full {
    sequence: u64,
    image: Buffer,
    entries: Vec<(u64, Slot)>,
}

struct Shared {
    file: File,
    segments: u64,
    index: RwLock<Index>,
}

struct Index {
    places: HashMap<u64, Slot>,
    /// The hashes of what lies in each segment.
    contents: Vec<Vec<u64>>,
}

/// Offset in units (40 bits) and length in units (24 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot(u64);

impl Slot {
    fn new(offset: u64, length: usize) -> Slot {
        Slot((offset / UNIT as u64) | (((length / UNIT) as u64) << 40))
    }
    fn offset(self) -> u64 {
        (self.0 & ((1 << 40) - 1)) * UNIT as u64
    }
    fn length(self) -> usize {
        (self.0 >> 40) as usize * UNIT
    }
}

pub fn open(place: &Place) -> Opened {
    let path = place.folder.join("log");
    let say = |e: std::io::Error| format!("{}: {e}", path.display());
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = File::options();
    options.read(true).write(true).custom_flags(direct);
    let file =
        if place.again { options.open(&path) } else { options.create_new(true).open(&path) }.map_err(say)?;
    let segments = place.capacity / SEGMENT as u64;
    if !place.again {
        let flags = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, flags, 0, segments * SEGMENT as u64).map_err(|e| say(e.into()))?;
    }
    let contents = (0..segments).map(|_| Vec::new()).collect();
    let index = RwLock::new(Index { places: HashMap::new(), contents });
    let shared = Arc::new(Shared { file, segments, index });
    let next = if place.again { shared.scan().map_err(say)? } else { 0 };
    let (full, to_write) = sync_channel::<Full>(WAITING);
    let (back, empty) = sync_channel(WAITING + 2);
    let spare = (0..WAITING).map(|_| Buffer::new(SEGMENT)).collect();
    let writer = shared.clone();
    std::thread::spawn(move || {
        for full in to_write {
            if back.send(writer.write(full)).is_err() {
                return;
            }
        }
    });
    let open = (next, Buffer::new(SEGMENT), 0, Vec::new());
    let (bodies, body) = (Bodies::new(place.body), place.body);
    Ok(Box::new(Log { shared, path, bodies, open, full, empty, spare, body }))
}

impl Shared {
    /// Evicts what lies where this goes, writes, and then lets it be found.
    fn write(&self, full: Full) -> Result<Buffer, String> {
        let nth = full.sequence % self.segments;
        let offset = nth * SEGMENT as u64;
        let left = std::mem::take(&mut self.index.write().expect("no panic").contents[nth as usize]);
        {
            let mut index = self.index.write().expect("no panic");
            for hash in left {
                if index.places.get(&hash).is_some_and(|slot| slot.offset() / SEGMENT as u64 == nth) {
                    index.places.remove(&hash);
                }
            }
        }
        self.file.write_all_at(&full.image, offset).map_err(|e| format!("write: {e}"))?;
        let mut index = self.index.write().expect("no panic");
        index.contents[nth as usize] = full.entries.iter().map(|(hash, _)| *hash).collect();
        index.places.extend(full.entries);
        Ok(full.image)
    }

    /// Reads all; the sequence number to go on with.
    fn scan(&self) -> std::io::Result<u64> {
        let (mut next, mut image) = (0, Buffer::new(SEGMENT));
        let mut newest: HashMap<u64, u64> = HashMap::new();
        let mut index = self.index.write().expect("no panic");
        for nth in 0..self.segments {
            let offset = nth * SEGMENT as u64;
            self.file.read_exact_at(&mut image, offset)?;
            let (mut at, mut first) = (0, None);
            while let Some(found) = image.get(at..).and_then(Found::parse) {
                if *first.get_or_insert(found.sequence) != found.sequence {
                    break;
                }
                next = next.max(found.sequence + 1);
                let seen = newest.entry(found.hash).or_default();
                if *seen <= found.sequence {
                    *seen = found.sequence;
                    index.places.insert(found.hash, Slot::new(offset + at as u64, found.length));
                    index.contents[nth as usize].push(found.hash);
                }
                at += found.length;
            }
        }
        Ok(next)
    }
}

/// A record's head.
struct Found {
    hash: u64,
    sequence: u64,
    key: usize,
    body: usize,
    length: usize,
}

impl Found {
    fn parse(bytes: &[u8]) -> Option<Found> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let lengths = word(24)?;
        let (key, body) = (lengths as u32 as usize, (lengths >> 32) as usize);
        let length = (HEADER + key + body).next_multiple_of(UNIT);
        (word(0)? == MAGIC && length <= bytes.len()).then_some(Found {
            hash: word(8)?,
            sequence: word(16)?,
            key,
            body,
            length,
        })
    }
}

impl Log {
    fn seal(&mut self) -> Result<(), String> {
        let empty = match self.spare.pop() {
            Some(empty) => empty,
            None => self.empty.recv().map_err(|_| "the writer ended")??,
        };
        let next = (self.open.0 + 1, empty, 0, Vec::new());
        let (sequence, mut image, taken, entries) = std::mem::replace(&mut self.open, next);
        image[taken..].fill(0);
        self.full.send(Full { sequence, image, entries }).map_err(|_| "the writer ended".to_owned())
    }
}

impl Contender for Log {
    fn put(&mut self, number: u64, body: &[u8]) -> Result<(), String> {
        let key = key(number);
        let length = (HEADER + key.len() + body.len()).next_multiple_of(UNIT);
        if self.open.2 + length > SEGMENT {
            self.seal()?;
        }
        let hash = xxh3_64(&key);
        let (sequence, image, taken, entries) = &mut self.open;
        let record = &mut image[*taken..*taken + length];
        record[..8].copy_from_slice(&MAGIC.to_le_bytes());
        record[8..16].copy_from_slice(&hash.to_le_bytes());
        record[16..24].copy_from_slice(&sequence.to_le_bytes());
        record[24..28].copy_from_slice(&(key.len() as u32).to_le_bytes());
        record[28..32].copy_from_slice(&(body.len() as u32).to_le_bytes());
        let (to_key, to_body) = record[HEADER..].split_at_mut(key.len());
        to_key.copy_from_slice(&key);
        to_body[..body.len()].copy_from_slice(body);
        to_body[body.len()..].fill(0);
        let offset = *sequence % self.shared.segments * SEGMENT as u64 + *taken as u64;
        entries.push((hash, Slot::new(offset, length)));
        *taken += length;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        if self.open.2 > 0 {
            self.seal()?;
        }
        // When all buffers are back, all is written.
        while self.spare.len() < WAITING {
            self.spare.push(self.empty.recv().map_err(|_| "the writer ended")??);
        }
        self.shared.file.sync_data().map_err(|e| format!("sync: {e}"))
    }

    fn gets(&mut self, ask: &Ask) -> Result<Tally, String> {
        let (shared, bodies, body) = (&self.shared, &self.bodies, self.body);
        Ok(drive::threads(ask, || {
            let mut buffer = Buffer::new((body + 2 * 4096).next_multiple_of(4096));
            move |number| {
                let key = key(number);
                let slot = shared.index.read().expect("no panic").places.get(&xxh3_64(&key)).copied();
                let Some(slot) = slot else { return Answer::Miss };
                let skip = slot.offset() as usize % BLOCK;
                let length = (skip + slot.length()).next_multiple_of(BLOCK);
                if shared.file.read_exact_at(&mut buffer[..length], slot.offset() - skip as u64).is_err() {
                    return Answer::Wrong;
                }
                let record = &buffer[skip..skip + slot.length()];
                match Found::parse(record) {
                    Some(found) if record[HEADER..HEADER + found.key] == key[..] => {
                        let from = HEADER + found.key;
                        if bodies.is(number, &record[from..from + found.body]) {
                            Answer::Hit
                        } else {
                            Answer::Wrong
                        }
                    }
                    _ => Answer::Miss,
                }
            }
        }))
    }

    fn file(&self) -> Option<PathBuf> {
        Some(self.path.clone())
    }
}
