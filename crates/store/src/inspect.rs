//! A look at a cache from outside: never writes, needs no lock, works beside a running server.

use crate::buffer::{Buffer, Pool};
use crate::disk::Disk;
use crate::disk::file::{Access, FileDisk};
use crate::engine::State;
use crate::format::UNIT;
use crate::format::contents::{Contents, Entry};
use crate::format::record::{self, Found, Kind};
use crate::format::superblock::Superblock;
use crate::packetizer::bytes_of;
use crate::recovery::{Reads, Recovered, read_table, recover};
use crate::{DEFAULT_OVERLAY, OpenError, store::superblocks};
use std::path::Path;
use std::sync::Arc;

/// What a cache file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub format: u32,
    pub size: u64,
    pub packet: u32,
    pub segments: u64,
    pub identity: u64,
    pub generation: u64,
    /// The superblock names a checkpoint.
    pub checkpoint: bool,
    /// Entries of that checkpoint, when it could be read.
    pub from_checkpoint: u64,
    /// What a start now would find: records to which the index points. Of a large object, its head and each span.
    pub objects: u64,
    /// Bytes of those records.
    pub used: u64,
    pub next_segment: u64,
    pub newest_sequence: u64,
    /// Objects with newer metadata than their record has.
    pub updated: u64,
    /// Bytes of the caller's ledger, and how often it was written.
    pub ledger_bytes: u64,
    pub ledger_generation: u64,
}

/// Reads the superblocks, the checkpoint and the tables written since.
pub fn inspect(path: &Path) -> Result<Inspection, OpenError> {
    Ok(Look::at(path)?.inspection())
}

/// A record that a start now would serve.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub kind: Kind,
    /// Of a span, no key of the caller's.
    pub key: &'a [u8],
    pub meta: &'a [u8],
    /// Bytes that it takes on disk.
    pub bytes: u64,
    /// Bytes of the object's whole body.
    pub body: u64,
    /// When it was written, seconds since 1970.
    pub written: u64,
}

/// What `survey` read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// Segments that hold anything to which the index points.
    pub in_use: u64,
    /// Of these, those that were read, evenly spread.
    pub read: u64,
    /// Bytes of the records that were shown.
    pub used: u64,
    /// Records that are not what the index expects: damaged, or overwritten meanwhile by a running server.
    pub unsound: u64,
    pub unreadable_segments: u64,
}

/// Shows `visit` the records to which the index points, in as many segments as `limit` bytes are, but one at least.
/// `progress(done, of)` is called before each. Besides the index, memory holds nine bytes a segment, and one segment.
pub fn survey(
    path: &Path,
    limit: u64,
    mut visit: impl FnMut(Seen<'_>),
    mut progress: impl FnMut(u64, u64),
) -> Result<(Inspection, Surveyed), OpenError> {
    let look = Look::at(path)?;
    let layout = look.state.layout;
    let in_use = look.in_use();
    let read = (limit / u64::from(layout.segment)).clamp(1, in_use.len().max(1) as u64);
    let mut surveyed = Surveyed { in_use: in_use.len() as u64, ..Surveyed::default() };
    for at in 0..read.min(surveyed.in_use) {
        progress(at, read);
        // No overflow: there are less than 2^32 segments, since places have 40 bits and segments 256 units at least.
        let number = in_use[(at * surveyed.in_use / read) as usize];
        surveyed.read += 1;
        let (image, contents) = match look.segment(number) {
            Segment::Written { image, contents } => (image, contents),
            Segment::Without => continue,
            Segment::Unreadable => {
                surveyed.unreadable_segments += 1;
                continue;
            }
        };
        for entry in contents.entries.iter().filter(|entry| !entry.is_update() && look.is_live(number, entry))
        {
            let bytes = &image[bytes_of(entry)];
            let Some(found) = sound(layout.identity, bytes, entry) else {
                surveyed.unsound += 1;
                continue;
            };
            if !found.about.kind.is_answer() {
                continue;
            }
            surveyed.used += bytes.len() as u64;
            visit(Seen {
                kind: found.about.kind,
                key: &bytes[found.key],
                meta: &bytes[found.meta],
                bytes: bytes.len() as u64,
                body: if found.about.kind == Kind::Head {
                    found.about.length
                } else {
                    found.body.len() as u64
                },
                written: found.about.written,
            });
        }
    }
    progress(read, read);
    Ok((look.inspection(), surveyed))
}

/// What `check` read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segments with a valid table of contents.
    pub segments: u64,
    /// Segments never written, or torn.
    pub without_table: u64,
    /// Records that the index would answer with, and that are whole.
    pub sound: u64,
    pub sound_bytes: u64,
    /// Records that the index would answer with, and that are not what it expects: misses.
    pub damaged: u64,
    /// Records still listed that the index has left behind.
    pub superseded: u64,
    pub unreadable_segments: u64,
}

/// Reads every segment and verifies every record that a start would serve. `progress(done, of)` is called now and then.
pub fn check(path: &Path, mut progress: impl FnMut(u64, u64)) -> Result<Checked, OpenError> {
    let look = Look::at(path)?;
    let layout = look.state.layout;
    let mut checked = Checked::default();
    for number in 0..layout.segments {
        progress(number, layout.segments);
        let (image, contents) = match look.segment(number) {
            Segment::Written { image, contents } => (image, contents),
            Segment::Without => {
                checked.without_table += 1;
                continue;
            }
            Segment::Unreadable => {
                checked.unreadable_segments += 1;
                continue;
            }
        };
        checked.segments += 1;
        for entry in contents.entries.iter().filter(|e| !e.is_removal()) {
            if !look.is_live(number, entry) {
                checked.superseded += 1;
            } else if sound(layout.identity, &image[bytes_of(entry)], entry).is_some() {
                checked.sound += 1;
                checked.sound_bytes += bytes_of(entry).len() as u64;
            } else {
                checked.damaged += 1;
            }
        }
    }
    progress(layout.segments, layout.segments);
    Ok(checked)
}

/// The record that an entry lists, if it is whole and the entry's.
fn sound(identity: u64, bytes: &[u8], entry: &Entry) -> Option<Found> {
    record::parse(identity, bytes).filter(|found| {
        let key = crate::Key::new(bytes[found.key.clone()].to_vec());
        (found.about.kind == Kind::Update) == entry.is_update() && key.index_hash() == entry.hash
    })
}

/// A cache as a start now would find it.
struct Look {
    disk: FileDisk,
    pool: Arc<Pool>,
    newest: Superblock,
    state: State,
    recovered: Recovered,
}

enum Segment {
    Written {
        image: Buffer,
        contents: Contents,
    },
    /// Never written, or torn.
    Without,
    Unreadable,
}

impl Look {
    fn at(path: &Path) -> Result<Look, OpenError> {
        let disk = FileDisk::open(path, Access::Look)
            .and_then(|disk| disk.ok_or_else(|| format!("there is no cache at {}", path.display())))
            .map_err(OpenError)?;
        let superblocks = superblocks(path, &disk, disk.size()).map_err(OpenError)?;
        let Some(newest) = superblocks.first().copied() else {
            return Err(OpenError(format!("{} is blank: it has no cache yet", path.display())));
        };
        let pool = Pool::new(8 << 20);
        let (state, recovered) = recover(&Reads::new(&disk, &pool), &superblocks, DEFAULT_OVERLAY)
            .map_err(|error| OpenError(format!("cannot read cache {}: {error}", path.display())))?;
        Ok(Look { disk, pool, newest, state, recovered })
    }

    fn inspection(&self) -> Inspection {
        let Look { newest, state, recovered, .. } = self;
        let mut used = 0;
        state.index.each(|slot| used += u64::from(slot.units) * UNIT as u64);
        Inspection {
            format: crate::format::VERSION,
            size: newest.layout.size(),
            packet: newest.layout.segment,
            segments: newest.layout.segments,
            identity: newest.layout.identity,
            generation: newest.generation,
            checkpoint: newest.checkpoint.root_place != 0,
            from_checkpoint: recovered.from_checkpoint,
            objects: recovered.objects,
            used,
            next_segment: state.cursor,
            newest_sequence: state.seq,
            updated: state.overlay.len() as u64,
            ledger_bytes: state.ledger.bytes.len() as u64,
            ledger_generation: state.ledger.generation,
        }
    }

    /// The segments that hold anything to which the index points, in their order.
    fn in_use(&self) -> Vec<u64> {
        let layout = &self.state.layout;
        let mut is_in_use = vec![false; layout.segments as usize];
        self.state.index.each(|slot| {
            if let Some(found) = is_in_use.get_mut(layout.segment_of(slot.place) as usize) {
                *found = true;
            }
        });
        (0..layout.segments).zip(is_in_use).filter_map(|(number, found)| found.then_some(number)).collect()
    }

    fn segment(&self, number: u64) -> Segment {
        let layout = &self.state.layout;
        let contents = match read_table(&Reads::new(&self.disk, &self.pool), layout, number) {
            Ok(Some(contents)) => contents,
            Ok(None) => return Segment::Without,
            Err(_) => return Segment::Unreadable,
        };
        let length = layout.segment as usize;
        let mut image = self.pool.take(length);
        match self.disk.read(layout.start(number), &mut image, length) {
            Ok(()) => Segment::Written { image, contents },
            Err(_) => Segment::Unreadable,
        }
    }

    /// Whether a start would serve, or use, the record that this entry of the segment lists.
    fn is_live(&self, segment: u64, entry: &Entry) -> bool {
        let place = self.state.layout.place(segment, bytes_of(entry).start);
        match entry.is_update() {
            _ if entry.is_removal() => false,
            true => self.state.overlay.is_from(entry.hash, place),
            false => self.state.index.live(entry.hash, place).is_some() || self.state.pins.contains(&place),
        }
    }
}
