//! A look at a cache from outside: never writes, needs no lock, works beside a running server.

use crate::buffer::{Buffer, Pool};
use crate::digester::stretch;
use crate::disk::Disk;
use crate::disk::file::{Access, FileDisk};
use crate::engine::State;
use crate::format::digest::{self, PAGE};
use crate::format::fence::{self, Fence};
use crate::format::ledger::{self, Ledger};
use crate::format::record::Kind;
use crate::format::root::{self, DigestAt, Root};
use crate::format::table::Entry;
use crate::format::{BLOCK, align_up, superblock};
use crate::index::Index;
use crate::loader::Loader;
use crate::reads::Reads;
use crate::recovery::{Recovered, first_of, read_table, recover};
use crate::scrub::verify::{bytes_of, sound};
use crate::{OpenError, Options, opening::layout_of};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What a cache file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub format: u32,
    pub size: u64,
    pub packet: u32,
    pub segments: u64,
    pub identity: u64,
    /// How often its root was written, and the digests that it lists.
    pub generation: u64,
    pub digests: u64,
    /// Events that happened since, which a start replays.
    pub replayed: u64,
    /// Segments that a start misses in the log: what they removed may be found.
    pub missing: u64,
    /// What a start now would find: records to which the index points. Of a large object, its head and each span.
    pub objects: u64,
    /// Bytes of those records as the index knows them: no fewer, and 3 % more at most.
    pub used: u64,
    pub next_segment: u64,
    pub newest_sequence: u64,
    /// The caller's ledger, and how often it was written.
    pub ledger: Vec<u8>,
    pub ledger_generation: u64,
    pub header: Header,
}

/// What lies before the segments: of each kind two copies, and the fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Copies that are whole. A cache that needed no digest so far has no root.
    pub superblocks: u64,
    pub roots: u64,
    pub ledgers: u64,
    /// A start could not read all.
    pub fence: bool,
    /// Copies that are damaged or cannot be read, the fence among them.
    pub damaged: u64,
}

/// Reads the superblocks, the root, its digests and the tables written since.
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
        // No overflow: there are less than 2^32 segments, since places have 36 bits and segments 4 units at least.
        let number = in_use[(at * surveyed.in_use / read) as usize];
        surveyed.read += 1;
        let (image, seq, entries) = match look.segment(number) {
            Segment::Written { image, seq, entries } => (image, seq, entries),
            Segment::Without | Segment::Damaged => continue,
            Segment::Unreadable => {
                surveyed.unreadable_segments += 1;
                continue;
            }
        };
        for entry in entries.iter().filter(|entry| look.is_live(number, entry)) {
            let bytes = &image[bytes_of(&layout, entry)];
            let Some(found) = sound(&layout, seq, bytes, entry) else {
                surveyed.unsound += 1;
                continue;
            };
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
    /// Segments never written in their turn, or lost with the process that wrote.
    pub without_table: u64,
    /// Segments that were opened and have no table that is whole: when their turn comes, nobody knows what leaves.
    pub damaged_tables: u64,
    /// Digests that are whole, and others: for these a start reads the tables.
    pub digests: u64,
    pub damaged_digests: u64,
    pub header: Header,
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
    let mut checked = Checked { header: look.header(), ..Checked::default() };
    let (oldest, in_use) = (layout.oldest(look.state.seq), look.in_use());
    for at in look.state.root.digests.iter().filter(|at| at.last_seq >= oldest) {
        match look.is_whole(at) {
            Some(true) => checked.digests += 1,
            Some(false) => checked.damaged_digests += 1,
            None => {}
        }
    }
    for number in 0..layout.segments {
        progress(number, layout.segments);
        let (image, seq, entries) = match look.segment(number) {
            Segment::Written { image, seq, entries } => (image, seq, entries),
            Segment::Without if in_use.binary_search(&number).is_err() => {
                checked.without_table += 1;
                continue;
            }
            Segment::Without | Segment::Damaged => {
                checked.damaged_tables += 1;
                continue;
            }
            Segment::Unreadable => {
                checked.unreadable_segments += 1;
                continue;
            }
        };
        checked.segments += 1;
        for entry in entries.iter().filter(|entry| entry.kind.is_answer()) {
            let bytes = &image[bytes_of(&layout, entry)];
            if !look.is_live(number, entry) {
                checked.superseded += 1;
            } else if sound(&layout, seq, bytes, entry).is_some() {
                checked.sound += 1;
                checked.sound_bytes += bytes.len() as u64;
            } else {
                checked.damaged += 1;
            }
        }
    }
    progress(layout.segments, layout.segments);
    Ok(checked)
}

/// A cache as a start now would find it, with its whole index.
struct Look {
    disk: FileDisk,
    pool: Arc<Pool>,
    state: State,
    found: Recovered,
}

enum Segment {
    Written {
        image: Buffer,
        seq: u64,
        entries: Vec<Entry>,
    },
    Without,
    /// Its table is.
    Damaged,
    Unreadable,
}

impl Look {
    fn at(path: &Path) -> Result<Look, OpenError> {
        let disk = FileDisk::open(path, Access::Look)
            .and_then(|disk| disk.ok_or_else(|| format!("there is no cache at {}", path.display()).into()))?;
        let Some(layout) = layout_of(path, &disk, disk.size())? else {
            return Err(OpenError::from(format!("{} is blank: it has no cache yet", path.display())));
        };
        let pool = Pool::new(8 << 20);
        let index = Index::of(&layout, Options::at(path).objects(&layout));
        let (state, recovered) = recover(&Reads::new(&disk, &pool), layout, stretch(layout.segments), index)
            .map_err(|error| OpenError::from(format!("cannot read cache {}: {error}", path.display())))?;
        let (newest, departed) = (state.seq.saturating_sub(1), layout.oldest(state.seq));
        let departed = Arc::new(AtomicU64::new(departed));
        let mut loader = Loader::new(layout, &state.root.digests, &state.index, departed);
        loader.load_all(&state.index, newest, |offset, length| {
            let mut buffer = pool.take(length);
            disk.read(offset, &mut buffer, length).ok().map(|()| buffer)
        });
        Ok(Look { disk, pool, state, found: recovered })
    }

    fn inspection(&self) -> Inspection {
        let Look { state, found, .. } = self;
        let layout = &state.layout;
        let (mut objects, mut used) = (0, 0);
        state.index.each(|slot| {
            objects += 1;
            used += u64::from(slot.length);
        });
        Inspection {
            format: superblock::version(layout),
            size: layout.size(),
            packet: layout.segment,
            segments: layout.segments,
            identity: layout.identity,
            generation: state.root.generation,
            digests: state.root.digests.len() as u64,
            replayed: found.replayed,
            missing: found.missing,
            objects,
            used,
            next_segment: layout.number(state.seq),
            newest_sequence: state.seq.saturating_sub(1),
            ledger: state.ledger.bytes.to_vec(),
            ledger_generation: state.ledger.generation,
            header: self.header(),
        }
    }

    fn header(&self) -> Header {
        let (reads, identity) = (Reads::new(&self.disk, &self.pool), self.state.layout.identity);
        let mut header = Header::default();
        for at in superblock::COPIES {
            let whole = reads.read(at, BLOCK).is_ok_and(|copy| superblock::decode(&copy[..BLOCK]).is_ok());
            header.superblocks += u64::from(whole);
            header.damaged += u64::from(!whole);
        }
        for at in root::COPIES {
            match reads.read(at, root::COPY).map(|copy| Root::decode(identity, &copy[..root::COPY])) {
                Ok(Ok(_)) => header.roots += 1,
                Ok(Err(root::Unreadable::Blank)) => {}
                _ => header.damaged += 1,
            }
        }
        for at in ledger::COPIES {
            let copy = reads.read(at, ledger::COPY);
            let whole = copy.is_ok_and(|copy| Ledger::decode(identity, &copy[..ledger::COPY]).is_ok());
            header.ledgers += u64::from(whole);
            header.damaged += u64::from(!whole);
        }
        let block = reads.read(fence::OFFSET, BLOCK).ok();
        header.fence = block.as_ref().is_some_and(|block| Fence::decode(identity, block).is_some());
        let blank = block.is_some_and(|block| block[..BLOCK].iter().all(|byte| *byte == 0));
        header.damaged += u64::from(!header.fence && !blank);
        header
    }

    /// Whether a start can load the index from this digest; `None` if some of it was cut off, and it reads the tables.
    fn is_whole(&self, at: &DigestAt) -> Option<bool> {
        let (layout, reads) = (&self.state.layout, Reads::new(&self.disk, &self.pool));
        let bytes = |place, length| {
            let skip = layout.offset(place) as usize % BLOCK;
            let bytes =
                reads.read(layout.offset(place) - skip as u64, align_up(skip + length, BLOCK)).ok()?;
            Some(bytes[skip..skip + length].to_vec())
        };
        let length = at.bytes as usize;
        let is_cut = |place| layout.first_turn_from(layout.segment_of(place), at.last_seq).is_none();
        if is_cut(at.place) {
            return None;
        }
        let head = layout.holds(at.place, length).then(|| bytes(at.place, length)).flatten();
        let head = head.and_then(|head| digest::parse_head(layout.identity, at, &head));
        if head.as_ref().is_some_and(|head| head.places.iter().any(|place| is_cut(*place))) {
            return None;
        }
        Some(head.is_some_and(|head| {
            head.places.iter().enumerate().all(|(record, place)| {
                let length = digest::pages_size(head.pages_in(record));
                let pages = layout.holds(*place, length).then(|| bytes(*place, length)).flatten();
                pages.is_some_and(|pages| {
                    let mut pages = pages[digest::page_at(0)..].chunks(PAGE);
                    pages.all(|page| digest::decode_page(layout.identity, page).is_some())
                })
            })
        }))
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
        let left_open = self.state.left_open.iter().find(|batch| layout.number(batch.seq) == number);
        let table = match left_open {
            Some(batch) => Ok(Some((batch.seq, batch.entries.clone()))),
            None => read_table(&Reads::new(&self.disk, &self.pool), layout, number)
                .map(|table| table.map(|table| (table.seq, table.entries))),
        };
        let length = layout.segment as usize;
        let mut image = self.pool.take(length);
        let read = self.disk.read(layout.start(number), &mut image, length);
        let (Ok(table), Ok(())) = (table, read) else { return Segment::Unreadable };
        // In its last turn, or a later one beside a running server.
        let last = self.state.seq.checked_sub(1).and_then(|newest| layout.seq_of(number, newest));
        let is_begun = last.is_some() && first_of(&image).map(|(seq, _)| seq) == last.map(|seq| seq as u32);
        match table {
            Some((seq, entries)) if !is_begun || Some(seq) == last => {
                Segment::Written { image, seq, entries }
            }
            _ if is_begun => Segment::Damaged,
            // Beside a running server it may just be opened again.
            None if last.is_some() && first_of(&image).is_none() => Segment::Damaged,
            _ => Segment::Without,
        }
    }

    /// Whether a start would serve the record that this entry of the segment lists.
    fn is_live(&self, segment: u64, entry: &Entry) -> bool {
        let layout = &self.state.layout;
        let place = layout.place(segment, bytes_of(layout, entry).start);
        entry.kind.is_answer() && self.state.index.find(entry.hash).is_some_and(|slot| slot.place == place)
    }
}
