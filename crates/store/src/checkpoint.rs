//! Checkpoints: the whole index and the overlay, written as records into the same log, so that a restart reads them and
//! replays only what came after. WebCoSM section 6.1 asks for no more than this: metadata to safe storage every few
//! minutes.
//!
//! pages → root (the list of pages) → all written → sync → superblock → sync. The records of the checkpoint in force
//! are pinned: the sweep skips them. The root is one record, so that the number of pages is bounded: where the index is large for
//! its packets, pages are larger, and what finds no room in the most of the largest ones is not in the checkpoint: a
//! restart does not know it, as if it had been swept. A checkpoint that fails at any step leaves the one before it in force; only the
//! superblock's write is tried again.

use crate::Key;
use crate::buffer::Buffer;
use crate::engine::Op;
use crate::format::record::{About, HEADER, Kind, MAX, Record};
use crate::format::superblock::{COPIES, Checkpoint, Superblock};
use crate::format::update::push_entry;
use crate::format::{BLOCK, Fields, Layout, UNIT};
use crate::index::{Index, Packed, SHARDS};
use crate::overlay::{Overlay, Update};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// A checkpoint is due when this many times its bytes were put: it costs 2 % of them. But not before `LEAST`,
/// and not later than half of the cache was put.
const SPACING: u64 = 48;
const LEAST: u64 = 64 << 20;

pub struct Checkpointer {
    generation: u64,
    pins: HashSet<u64>,
    /// The checkpoint in force needs the tables from this sequence number on.
    replay_seq: u64,
    begun_at: u64,
    run: Option<Run>,
    /// Entries for which the checkpoint in force had no room.
    pub omitted: u64,
}

/// A checkpoint under way.
struct Run {
    replay: Checkpoint,
    stage: Stage,
    /// The stage's I/O was handed out.
    sent: bool,
    export: Export,
    /// What was in the overlay when the index had been written out, and has no page yet.
    updates: VecDeque<(u64, Update)>,
    /// Bytes of a page of what is being written out, about; 0: not known yet.
    page: usize,
    /// Entries that found no room.
    omitted: u64,
    waiting: Option<Pending>,
    pages: Vec<(u64, u16)>,
    pins: HashSet<u64>,
    /// The newest segment that holds a record of this checkpoint.
    last_seq: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    Pages,
    Updates,
    Root,
    Settling,
    SyncRecords,
    Superblock,
    SyncSuperblock,
    /// Failed while an I/O was out: over when that is back.
    Abandoned,
}

/// A record of a checkpoint that has no place yet.
pub struct Pending {
    pub key: Key,
    kind: Kind,
    body: Vec<u8>,
}

impl Pending {
    pub fn record(&self, layout: &Layout) -> Option<Record<'_>> {
        let about = About { kind: self.kind, id: 0, length: self.body.len() as u64, span: 0, written: 0 };
        Record::new(layout.identity, about, self.key.bytes(), &[], &self.body)
    }
}

impl Checkpointer {
    pub fn new(generation: u64, pins: Vec<u64>, replay_seq: u64) -> Checkpointer {
        Checkpointer {
            generation,
            pins: pins.into_iter().collect(),
            replay_seq,
            begun_at: 0,
            run: None,
            omitted: 0,
        }
    }

    /// True when a restart would need the table with this sequence number: until there is a newer checkpoint, its
    /// segment must not be opened again.
    pub fn needs(&self, seq: u64) -> bool {
        seq >= self.replay_seq
    }

    /// `bytes` is about what it would take.
    pub fn due(&self, put_bytes: u64, bytes: u64, layout: &Layout) -> bool {
        let spacing = LEAST.max(SPACING * bytes).min(layout.size() / 2);
        self.run.is_none() && put_bytes - self.begun_at >= spacing
    }

    /// False while another one is under way.
    pub fn begin(&mut self, replay: Checkpoint, put_bytes: u64) -> bool {
        let free = self.run.is_none();
        if free {
            self.begun_at = put_bytes;
            self.run = Some(Run {
                replay,
                stage: Stage::Pages,
                sent: false,
                export: Export::default(),
                updates: VecDeque::new(),
                page: 0,
                omitted: 0,
                waiting: None,
                pages: Vec::new(),
                pins: HashSet::new(),
                last_seq: 0,
            });
        }
        free
    }

    pub fn is_active(&self) -> bool {
        self.run.is_some()
    }

    pub fn abandon(&mut self) {
        match &mut self.run {
            Some(run) if run.sent && run.stage > Stage::Settling => run.stage = Stage::Abandoned,
            _ => self.run = None,
        }
    }

    /// True for records that the sweep must not touch.
    pub fn pins(&self, place: u64) -> bool {
        self.pins.contains(&place) || self.run.as_ref().is_some_and(|r| r.pins.contains(&place))
    }

    /// True when such a place is in the segment.
    pub fn pins_in(&self, number: u64, layout: &Layout) -> bool {
        let under_way = self.run.iter().flat_map(|r| &r.pins);
        self.pins.iter().chain(under_way).any(|place| layout.segment_of(*place) == number)
    }

    /// True when the open segment holds the last records of a checkpoint and nothing else will push them out.
    pub fn wants_flush(&self, open_seq: Option<u64>) -> bool {
        self.run
            .as_ref()
            .is_some_and(|r| r.stage == Stage::Settling && open_seq.is_some_and(|s| s <= r.last_seq))
    }

    /// The next record to be placed; `placed` or `give_back` must follow.
    pub fn take_record(&mut self, index: &Index, overlay: &Overlay, layout: &Layout) -> Option<Pending> {
        let generation = self.generation + 1;
        let run = self.run.as_mut()?;
        if let Some(pending) = run.waiting.take() {
            return Some(pending);
        }
        match run.stage {
            Stage::Pages => {
                let number = run.pages.len() as u32;
                let most = index_pages(layout);
                if run.page == 0 {
                    // The index may grow meanwhile.
                    let needed = (index.len() * Packed::BYTES).div_ceil(most) * 9 / 8;
                    run.page = needed.clamp(page_bytes(layout), greatest(layout));
                }
                let body = run.export.page(index, run.page);
                if !run.export.is_done() && run.pages.len() + 1 == most {
                    run.omitted = run.export.skip(index);
                }
                if run.export.is_done() {
                    run.updates = overlay.export().into();
                    let needed = overlay.bytes().div_ceil(overlay_pages(layout)) * 2;
                    run.page = needed.clamp(page_bytes(layout), greatest(layout));
                    run.stage = if run.updates.is_empty() { Stage::Root } else { Stage::Updates };
                }
                Some(Pending { key: page_key(generation, number), kind: Kind::Page, body })
            }
            Stage::Updates => {
                let number = run.pages.len() as u32;
                let body = overlay_page(&mut run.updates, run.page);
                if run.pages.len() + 1 >= root_entries(layout) {
                    run.updates.clear();
                }
                if run.updates.is_empty() {
                    run.stage = Stage::Root;
                }
                Some(Pending { key: page_key(generation, number), kind: Kind::Overlay, body })
            }
            Stage::Root if !run.sent => {
                run.sent = true;
                let mut body = Vec::with_capacity(run.pages.len() * ROOT_ENTRY);
                for (place, units) in &run.pages {
                    body.extend_from_slice(&place.to_le_bytes());
                    body.extend_from_slice(&u32::from(*units).to_le_bytes());
                }
                Some(Pending { key: root_key(generation), kind: Kind::Root, body })
            }
            _ => None,
        }
    }

    pub fn give_back(&mut self, pending: Pending) {
        if let Some(run) = &mut self.run {
            run.waiting = Some(pending);
        }
    }

    pub fn placed(&mut self, pending: &Pending, place: u64, length: usize, seq: u64) {
        let Some(run) = &mut self.run else { return };
        let units = (length / UNIT) as u16;
        run.pins.insert(place);
        run.last_seq = seq;
        if pending.kind == Kind::Root {
            run.replay.root_place = place;
            run.replay.root_units = units;
            run.stage = Stage::Settling;
            run.sent = false;
        } else {
            run.pages.push((place, units));
        }
    }

    /// `oldest` is the oldest segment with something that is in memory only.
    pub fn written_up_to(&mut self, oldest: Option<u64>) {
        if let Some(run) = &mut self.run
            && run.stage == Stage::Settling
            && oldest.is_none_or(|seq| seq > run.last_seq)
        {
            run.stage = Stage::SyncRecords;
        }
    }

    pub fn next_io(&mut self, layout: &Layout) -> Option<Op> {
        let generation = self.generation + 1;
        let run = self.run.as_mut().filter(|r| !r.sent)?;
        let op = match run.stage {
            Stage::Pages | Stage::Updates | Stage::Root | Stage::Settling | Stage::Abandoned => return None,
            Stage::SyncRecords | Stage::SyncSuperblock => Op::Sync,
            Stage::Superblock => {
                let superblock = Superblock { layout: *layout, generation, checkpoint: run.replay };
                let mut image = Buffer::new(BLOCK);
                image.copy_from_slice(&superblock.encode());
                let offset = COPIES[generation as usize % COPIES.len()];
                Op::Write { offset, image: Arc::new(image), range: 0..BLOCK }
            }
        };
        run.sent = true;
        Some(op)
    }

    /// The outcome of `next_io`: whether the checkpoint is in force now. `None` while it is under way.
    pub fn io_done(&mut self, ok: bool) -> Option<bool> {
        let run = self.run.as_mut()?;
        run.sent = false;
        match run.stage {
            Stage::Superblock if !ok => {}
            _ if !ok || run.stage == Stage::Abandoned => {
                self.run = None;
                return Some(false);
            }
            Stage::SyncRecords => run.stage = Stage::Superblock,
            Stage::Superblock => run.stage = Stage::SyncSuperblock,
            Stage::SyncSuperblock => {
                self.generation += 1;
                if let Some(run) = self.run.take() {
                    self.omitted = run.omitted;
                    self.pins = run.pins;
                    self.replay_seq = run.replay.replay_seq;
                }
                return Some(true);
            }
            Stage::Pages | Stage::Updates | Stage::Root | Stage::Settling | Stage::Abandoned => {}
        }
        None
    }
}

pub fn page_key(generation: u64, number: u32) -> Key {
    let mut bytes = b"checkpoint ".to_vec();
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    Key::new(bytes)
}

pub fn root_key(generation: u64) -> Key {
    page_key(generation, u32::MAX)
}

const GROUP: usize = 8;
const ROOT_ENTRY: usize = 12;

/// How far the index was written out.
#[derive(Default)]
struct Export {
    shard: usize,
    /// Entries of the shard before that found no room in the last page.
    rest: Vec<Packed>,
}

impl Export {
    fn is_done(&self) -> bool {
        self.shard == SHARDS && self.rest.is_empty()
    }

    /// Ends it; how many entries were not written out.
    fn skip(&mut self, index: &Index) -> u64 {
        let left = (self.shard..SHARDS).map(|shard| index.export(shard).len());
        let left = self.rest.len() + left.sum::<usize>();
        (self.shard, self.rest) = (SHARDS, Vec::new());
        left as u64
    }

    /// The next page: groups of (shard u32, count u32, entries), about `full` bytes.
    fn page(&mut self, index: &Index, full: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while !self.is_done() && body.len() < full {
            if self.rest.is_empty() {
                self.rest = index.export(self.shard);
                self.shard += 1;
            }
            let room = (full - body.len()).div_ceil(Packed::BYTES);
            let entries = self.rest.split_off(self.rest.len().saturating_sub(room));
            if !entries.is_empty() {
                body.extend_from_slice(&(self.shard as u32 - 1).to_le_bytes());
                body.extend_from_slice(&(entries.len() as u32).to_le_bytes());
                entries.iter().for_each(|e| body.extend_from_slice(&e.to_bytes()));
            }
        }
        body
    }
}

/// Bytes of a page's body, about; metadata of an update is at most that long.
pub fn page_bytes(layout: &Layout) -> usize {
    layout.segment as usize / 8
}

/// Bytes of the largest body of a checkpoint's record.
fn largest(layout: &Layout) -> usize {
    let key = root_key(0).bytes().len();
    largest_page(layout.segment as usize) - HEADER - key
}

/// Bytes of a checkpoint's largest record, in segments of so many.
pub fn largest_page(segment: usize) -> usize {
    (segment / 2).min(MAX)
}

/// Pages that a root can list.
fn root_entries(layout: &Layout) -> usize {
    largest(layout) / ROOT_ENTRY
}

/// How many of those may be pages of the overlay, and of the index.
fn overlay_pages(layout: &Layout) -> usize {
    root_entries(layout) / 4
}

fn index_pages(layout: &Layout) -> usize {
    root_entries(layout) - overlay_pages(layout) - 1
}

/// Bytes of an overlay that a checkpoint can hold: its pages are at least half full.
pub fn overlay_most(layout: &Layout) -> usize {
    overlay_pages(layout) * greatest(layout) / 2
}

/// Bytes at which a page is full, at most: the last entry and its group may lie behind.
fn greatest(layout: &Layout) -> usize {
    largest(layout) - 2 * UNIT
}

/// As many of the updates as `full` bytes take, and one at least.
fn overlay_page(updates: &mut VecDeque<(u64, Update)>, full: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some((hash, Update { target, meta, .. })) = updates.front() {
        if !body.is_empty() && body.len() + meta.len() > full {
            break;
        }
        push_entry(&mut body, *hash, target, meta);
        updates.pop_front();
    }
    body
}

/// All pages of an index, as a checkpoint writes them.
#[cfg(feature = "fuzzing")]
pub fn pages(index: &Index, full: usize) -> Vec<Vec<u8>> {
    let mut export = Export::default();
    std::iter::from_fn(|| (!export.is_done()).then(|| export.page(index, full))).collect()
}

/// Puts a page's entries into the index; false when it is not one.
pub fn load_page(index: &Index, mut body: &[u8]) -> bool {
    while body.len() >= GROUP {
        let mut fields = Fields(body);
        let (shard, count) = (fields.u32() as usize, fields.u32() as usize);
        let Some(entries) = body.get(GROUP..).and_then(|b| b.get(..count.checked_mul(Packed::BYTES)?)) else {
            return false;
        };
        if shard >= SHARDS {
            return false;
        }
        index.import(shard, entries.chunks_exact(Packed::BYTES).filter_map(Packed::of_bytes));
        body = &body[GROUP + entries.len()..];
    }
    body.is_empty()
}

/// Places and lengths (units) of the pages that a root lists.
pub fn load_root(body: &[u8]) -> Vec<(u64, u16)> {
    body.chunks_exact(ROOT_ENTRY)
        .map(|entry| {
            let mut fields = Fields(entry);
            (fields.u64(), fields.u32() as u16)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Slot;

    /// All of an index with so many entries, as a checkpoint lists it: how many come back, and how many it left out.
    fn listed(entries: u64) -> (u64, u64) {
        let layout = Layout { segment: 16 << 10, segments: 1 << 20, identity: 1 };
        let (index, overlay, again) = (Index::new(1), Overlay::new(0), Index::new(1));
        for hash in 0..entries {
            index.insert(hash << 24, Slot { place: 1 << 20, units: 1, count: 1 });
        }
        let objects = index.len() as u64;
        let mut checkpointer = Checkpointer::new(1, Vec::new(), 0);
        assert!(checkpointer.begin(Checkpoint::default(), 0));
        while let Some(pending) = checkpointer.take_record(&index, &overlay, &layout) {
            let size = pending.record(&layout).unwrap().size();
            assert!(size <= layout.segment as usize / 2, "{size} bytes have no room");
            match pending.kind {
                Kind::Page => assert!(load_page(&again, &pending.body)),
                _ => assert!(pending.kind == Kind::Root),
            }
            checkpointer.placed(&pending, 1 << 20, size, 1);
        }
        checkpointer.written_up_to(None);
        while checkpointer.next_io(&layout).is_some() {
            checkpointer.io_done(true);
        }
        assert!(!checkpointer.is_active());
        assert_eq!(again.len() as u64 + checkpointer.omitted, objects);
        (objects, checkpointer.omitted)
    }

    #[test]
    fn a_checkpoint_of_any_index_succeeds() {
        assert_eq!(listed(1_000), (1_000, 0));
        // More than so many pages of the usual size hold.
        assert_eq!(listed(200_000).1, 0);
        assert_eq!(listed(300_000).1, 0);
        let (objects, omitted) = listed(400_000);
        assert!((50_000..100_000).contains(&omitted), "{omitted} of {objects}");
    }
}
