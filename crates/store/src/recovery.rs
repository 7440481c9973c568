//! Recovery: from the medium back to a `State`. Reads only. What a start writes unasked, the engine does, where the log has a gap
//! or something was not read: the fence and a checkpoint.
//!
//! 1. The newest superblock whose checkpoint can be read whole gives the index as it was; before the first checkpoint
//!    that is nothing. When none can be read, every segment's table of contents is read instead.
//! 2. Segments opened since are replayed in the order of their sequence numbers: their tables list what was put and
//!    removed.
//! 3. What the checkpoint said of those segments counts only where their tables agree. Where a table is torn it
//!    stands, for a record that is not what the index expects is found out when it is read.
//! 4. Updates are read, the youngest of each key, and count when what they name is still what the key has.
//!
//! A read that fails is tried again. What cannot be read now may be read well at a later start: so what is written from now on
//! has higher numbers than anything on the medium may have, which the fence tells later starts; and nothing counts as written
//! until a checkpoint is in force that outdates what was not read (`State::mend`). A ledger that may have said anything is
//! `ledger::UNREADABLE`. What failing reads may cost is bounded: beyond it, the rest counts as unread without being read.

use crate::Key;
use crate::buffer::{Buffer, Pool};
use crate::checkpoint::{load_page, load_root, page_bytes, page_key, root_key};
use crate::disk::Disk;
use crate::engine::{State, TABLE_READ};
use crate::format::contents::{self, Contents, Mark, Unreadable};
use crate::format::fence::{self, Fence, LEAP};
use crate::format::ledger::{self, Ledger};
use crate::format::record::{self, Kind};
use crate::format::superblock::{Checkpoint, Superblock};
use crate::format::update::{self, Target};
use crate::format::{BLOCK, Layout, UNIT, align_down, align_up};
use crate::index::{Index, Print, Slot};
use crate::overlay::{Overlay, Update};
use crate::packetizer::bytes_of;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reads at once.
const PARALLEL: usize = 8;
/// Pages of a checkpoint in memory at once.
const PAGES: usize = 64;
/// So many old segments in a row mean that the newest one has been passed: more than can be in flight out of order. Behind what
/// was given up or passed over is a fence. Few in tests, where a cache has few segments.
const QUIET: usize = if cfg!(test) { 6 } else { 32 };
/// Attempts to read one thing; one alone where it took so long that the device has tried for itself.
const ATTEMPTS: u32 = 3;
const LONG: Duration = Duration::from_secs(1);
/// After so many failures, or when they took so long, nothing is read any more.
const FAILURES: u32 = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// What a recovery found, for the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovered {
    pub objects: u64,
    /// Entries that came from the checkpoint.
    pub from_checkpoint: u64,
    /// Segments whose tables were read.
    pub scanned: u64,
    /// A table, a checkpoint or the ledger could not be read, for the medium failed.
    pub unread: bool,
}

/// `superblocks` are the valid ones, newest first; the overlay has room for `overlay_bytes`. An error where the fence cannot be
/// read: without it nobody knows where the log goes on.
pub fn recover(
    reads: &Reads<'_>,
    superblocks: &[Superblock],
    overlay_bytes: usize,
) -> io::Result<(State, Recovered)> {
    let newest = superblocks[0];
    let mut found = Recovered::default();
    let block = reads.read(fence::OFFSET, BLOCK)?;
    let fence = Fence::decode(newest.layout.identity, &block).unwrap_or_default();
    let recovery = Recovery { reads, layout: newest.layout };
    // Before failures elsewhere are too many to read on: one that is not read counts as a purge of everything.
    let (ledger, ledger_read) = recovery.ledger(fence.ledger);
    let mut unread = Vec::new();
    let loaded = superblocks.iter().find_map(|s| {
        let loaded = load_checkpoint(reads, s, overlay_bytes);
        if loaded.is_err() {
            unread.push(s.checkpoint);
        }
        loaded.ok().flatten()
    });
    let mut state = match loaded {
        Some(Loaded { index, overlay, pins, checkpoint }) => {
            found.from_checkpoint = index.len() as u64;
            let mut state = State::blank(newest.layout, index, overlay, newest.generation);
            state.pins = pins;
            state.replay_seq = checkpoint.replay_seq;
            recovery.replay_since(&mut state, checkpoint, fence, &mut found);
            state
        }
        None => {
            let (index, overlay) = (Index::new(newest.layout.identity), Overlay::new(overlay_bytes));
            let mut state = State::blank(newest.layout, index, overlay, newest.generation);
            recovery.replay_all(&mut state, &mut found);
            state
        }
    };
    state.ledger = ledger;
    state.unread = !unread.is_empty() || !ledger_read || !state.doubtful.is_empty();
    recovery.spare(&mut state, &unread);
    // Where there is a gap, tables may lie behind it that were not found.
    state.mend = state.unread || fence.seq > state.replay_seq;
    recovery.go_on(&mut state, newest.checkpoint, fence);
    found.objects = state.index.len() as u64;
    found.unread = state.unread || reads.are_given_up();
    Ok((state, found))
}

/// A checkpoint, read whole.
struct Loaded {
    index: Index,
    overlay: Overlay,
    pins: Vec<u64>,
    checkpoint: Checkpoint,
}

fn load_checkpoint(
    reads: &Reads<'_>,
    superblock: &Superblock,
    overlay_bytes: usize,
) -> io::Result<Option<Loaded>> {
    let checkpoint = superblock.checkpoint;
    let layout = &superblock.layout;
    let index = Index::new(layout.identity);
    let overlay = Overlay::new(overlay_bytes);
    if checkpoint.root_place == 0 {
        return Ok(Some(Loaded { index, overlay, pins: Vec::new(), checkpoint }));
    }
    let root = (checkpoint.root_place, checkpoint.root_units);
    let root = read_record(reads, layout, root, &root_key(superblock.generation))?;
    let Some(root) = root.filter(|root| root.kind == Kind::Root) else { return Ok(None) };
    let pages = load_root(&root.body);
    let numbered: Vec<(u32, (u64, u16))> = (0..).zip(pages.iter().copied()).collect();
    for some in numbered.chunks(PAGES) {
        let read = |&(number, page): &(u32, (u64, u16))| {
            read_record(reads, layout, page, &page_key(superblock.generation, number))
        };
        for page in in_parallel(some, read) {
            let Some(page) = page? else { return Ok(None) };
            match page.kind {
                Kind::Page if load_page(&index, &page.body) => {}
                Kind::Overlay => {
                    for (hash, target, meta) in update::entries(&page.body).filter(|e| fits(&e.2, layout)) {
                        overlay.insert(hash, Update { target, meta, record: None });
                    }
                }
                _ => return Ok(None),
            }
        }
    }
    let mut pins: Vec<u64> = pages.iter().map(|p| p.0).chain([checkpoint.root_place]).collect();
    pins.sort_unstable();
    Ok(Some(Loaded { index, overlay, pins, checkpoint }))
}

/// True for metadata of an update that the next checkpoint can hold; no longer one was ever taken.
fn fits(meta: &[u8], layout: &Layout) -> bool {
    meta.len() <= page_bytes(layout)
}

/// A record's parts, copied.
struct Parts {
    kind: Kind,
    meta: Vec<u8>,
    body: Vec<u8>,
}

/// The record at a place, when its key is the one expected.
fn read_record(
    reads: &Reads<'_>,
    layout: &Layout,
    (place, units): (u64, u16),
    key: &Key,
) -> io::Result<Option<Parts>> {
    let found = read_any(reads, layout, (place, units))?;
    Ok(found.and_then(|(found, parts)| (found == *key).then_some(parts)))
}

/// The record at a place, if there is a whole one, with its key.
fn read_any(
    reads: &Reads<'_>,
    layout: &Layout,
    (place, units): (u64, u16),
) -> io::Result<Option<(Key, Parts)>> {
    let length = usize::from(units) * UNIT;
    let start = place.checked_mul(UNIT as u64);
    let inside = |start: &u64| start.checked_add(length as u64).is_some_and(|end| end <= layout.size());
    let Some(start) = start.filter(inside) else { return Ok(None) };
    let skip = start as usize % BLOCK;
    let buffer = reads.read(start - skip as u64, align_up(skip + length, BLOCK))?;
    let bytes = &buffer[skip..skip + length];
    let Some(found) = record::parse(layout.identity, bytes) else { return Ok(None) };
    let part = |range: Range<usize>| bytes[range].to_vec();
    let (meta, body) = (part(found.meta), part(found.body));
    Ok(Some((Key::new(part(found.key)), Parts { kind: found.about.kind, meta, body })))
}

/// The reads of one start: what fails is tried again, within bounds.
pub struct Reads<'a> {
    disk: &'a dyn Disk,
    pool: &'a Arc<Pool>,
    /// Time since some moment.
    clock: Box<dyn Fn() -> Duration + Sync + 'a>,
    failed: Mutex<Failed>,
}

/// Reads that failed.
#[derive(Default)]
struct Failed {
    times: u32,
    /// How long one or more of them were under way, and when the last one had ended.
    took: Duration,
    until: Duration,
}

impl<'a> Reads<'a> {
    pub fn new(disk: &'a dyn Disk, pool: &'a Arc<Pool>) -> Reads<'a> {
        let began = Instant::now();
        Reads { disk, pool, clock: Box::new(move || began.elapsed()), failed: Mutex::default() }
    }

    pub fn read(&self, offset: u64, length: usize) -> io::Result<Buffer> {
        if self.are_given_up() {
            return Err(io::Error::other("not read, for too much could not be read"));
        }
        let mut buffer = self.pool.take(length);
        let mut attempt = 1;
        loop {
            let began = (self.clock)();
            let Err(error) = self.disk.read(offset, &mut buffer, length) else { return Ok(buffer) };
            let took = self.count(began);
            if attempt == ATTEMPTS || took >= LONG || self.are_given_up() {
                return Err(error);
            }
            attempt += 1;
            self.disk.pause();
        }
    }

    /// A read failed that began then: how long it took.
    fn count(&self, began: Duration) -> Duration {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        failed.times += 1;
        let from = began.max(failed.until);
        failed.took += now.saturating_sub(from);
        failed.until = failed.until.max(now);
        now.saturating_sub(began)
    }

    fn are_given_up(&self) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.times >= FAILURES || failed.took >= PATIENCE
    }
}

/// The youngest update of a key that the log has.
#[derive(Clone, Copy)]
struct Candidate {
    hash: u64,
    place: u64,
    units: u16,
    /// Its turn among all of them.
    turn: usize,
}

struct Recovery<'a> {
    reads: &'a Reads<'a>,
    layout: Layout,
}

impl Recovery<'_> {
    /// The newer valid copy of the ledger; an empty one when none was ever written. Where a copy cannot be read, it may be the
    /// newer one, and where both hold something else a tear was not all: then what was in the ledger is unknown, and its
    /// generation is above that of both copies. `fenced` is the generation that the fence names. False when it is unknown.
    fn ledger(&self, fenced: u64) -> (Ledger, bool) {
        let copies = ledger::COPIES.map(|offset| self.ledger_copy(offset));
        let read = copies.iter().all(|copy| copy.is_ok());
        let damaged = copies.iter().all(|copy| matches!(copy, Ok(Copy::Damaged)));
        let valid = copies.into_iter().filter_map(|copy| match copy {
            Ok(Copy::Valid(ledger)) => Some(ledger),
            _ => None,
        });
        let newer = valid.max_by_key(|ledger| ledger.generation).unwrap_or_default();
        if read && !damaged {
            return (newer, true);
        }
        let generation = newer.generation.max(fenced) + LEAP;
        (Ledger { generation, bytes: ledger::UNREADABLE.to_vec() }, false)
    }

    fn ledger_copy(&self, offset: u64) -> io::Result<Copy> {
        let mut length = BLOCK;
        loop {
            let buffer = self.reads.read(offset, length)?;
            match Ledger::decode(self.layout.identity, &buffer[..length]) {
                Ok(ledger) => return Ok(Copy::Valid(ledger)),
                Err(ledger::Unreadable::Longer(longer)) if longer > length => {
                    length = align_up(longer, BLOCK)
                }
                Err(_) if buffer[..length].iter().all(|&byte| byte == 0) => return Ok(Copy::Blank),
                Err(_) => return Ok(Copy::Damaged),
            }
        }
    }

    /// Replays what was opened after the checkpoint began.
    fn replay_since(&self, state: &mut State, checkpoint: Checkpoint, fence: Fence, found: &mut Recovered) {
        state.seq = checkpoint.replay_seq.saturating_sub(1);
        state.cursor = checkpoint.replay_from;
        state.virgin = checkpoint.virgin;
        let mut scanned = HashMap::new();
        self.scan(checkpoint.replay_from, checkpoint.replay_seq, &mut scanned);
        if fence.seq > checkpoint.replay_seq {
            self.scan(self.opened_as(fence.seq), checkpoint.replay_seq, &mut scanned);
        }
        found.scanned = scanned.len() as u64;
        // They may have been written; the engine looks.
        state.doubtful =
            scanned.iter().filter(|(_, table)| table.is_err()).map(|(number, _)| *number).collect();
        state.virgin = state.doubtful.iter().map(|n| n + 1).fold(state.virgin, u64::max);
        let scanned = scanned.into_iter().map(|(number, table)| (number, table.ok().flatten())).collect();
        self.forget_phantoms(&state.index, &scanned, checkpoint.virgin);
        let new = scanned.into_iter().filter_map(|(n, c)| Some((n, c?)));
        self.replay(state, new.filter(|(_, c)| c.seq >= checkpoint.replay_seq).collect());
    }

    /// Reads tables from a segment on, until `QUIET` in a row are older than `replay_seq`. Those that cannot be read do not
    /// count: whatever they are, or lies behind, a leap outdates it.
    fn scan(&self, from: u64, replay_seq: u64, scanned: &mut HashMap<u64, io::Result<Option<Contents>>>) {
        let segments = self.layout.segments;
        let (mut quiet, mut passed) = (0, 0);
        while quiet < QUIET && passed < segments {
            // As many as were read before: little is read beyond the newest one, and many are read at once.
            let some = passed.clamp(PARALLEL as u64, PARALLEL as u64 * 64).min(segments - passed);
            let batch: Vec<u64> = (0..some).map(|i| (from + passed + i) % segments).collect();
            let missing: Vec<u64> = batch.iter().filter(|n| !scanned.contains_key(n)).copied().collect();
            scanned.extend(self.tables(&missing));
            for number in batch {
                let Ok(table) = &scanned[&number] else { continue };
                let is_old = table.as_ref().is_none_or(|c| c.seq < replay_seq);
                quiet = if is_old { quiet + 1 } else { 0 };
            }
            passed += some;
        }
    }

    /// The segment that is opened with a sequence number. Turns are strict.
    fn opened_as(&self, seq: u64) -> u64 {
        seq.saturating_sub(1) % self.layout.segments
    }

    /// Replays every segment: no checkpoint can be read.
    fn replay_all(&self, state: &mut State, found: &mut Recovered) {
        let all: Vec<u64> = (0..self.layout.segments).collect();
        let mut tables: Vec<(u64, Contents)> = Vec::new();
        for (number, contents) in all.chunks(PARALLEL * 64).flat_map(|batch| self.tables(batch)) {
            match contents {
                Ok(contents) => tables.extend(contents.map(|c| (number, c))),
                Err(_) => _ = state.doubtful.insert(number),
            }
        }
        found.scanned = self.layout.segments;
        state.virgin = state.doubtful.iter().map(|n| n + 1).max().unwrap_or(0);
        self.replay(state, tables);
    }

    /// Checkpoints that could not be read are not written over before there is another: where they are gone, a later start
    /// would go back to one that knows nothing of what was removed since. They lie from where their replay begins to their
    /// root; half of the segments are free to be written in any case.
    fn spare(&self, state: &mut State, unread: &[Checkpoint]) {
        let segments = self.layout.segments;
        for checkpoint in unread {
            let (first, last) = (checkpoint.replay_from, self.layout.segment_of(checkpoint.root_place));
            let more = (last + segments - first % segments) % segments + 1;
            if state.spared.len() as u64 + more <= segments / 2 {
                state.spared.extend((0..more).map(|i| (first + i) % segments));
            }
        }
    }

    /// Where the log goes on: after the newest segment that was found, and not before the fence or what the newest
    /// checkpoint knew. What could not be read, or lies where a gap ended the scan, may be newer than all that; a leap leads
    /// beyond it.
    fn go_on(&self, state: &mut State, newest: Checkpoint, fence: Fence) {
        for seq in [newest.replay_seq, fence.seq].map(|next| next.saturating_sub(1)) {
            if seq > state.seq {
                (state.seq, state.cursor) = (seq, self.opened_as(seq + 1));
            }
        }
        state.cursor %= self.layout.segments;
        if state.mend {
            let least = state.seq + LEAP;
            let turn = self.layout.segments;
            state.seq = least + (state.cursor + turn - least % turn) % turn;
        }
    }

    fn replay(&self, state: &mut State, mut tables: Vec<(u64, Contents)>) {
        tables.sort_by_key(|(_, contents)| contents.seq);
        let mut updates: HashMap<u64, Candidate> = HashMap::new();
        let mut turn = 0;
        for (number, contents) in tables {
            for entry in &contents.entries {
                let place = self.layout.place(number, bytes_of(entry).start);
                let hash = entry.hash;
                if entry.is_update() {
                    turn += 1;
                    updates.insert(hash, Candidate { hash, place, units: entry.units, turn });
                    continue;
                }
                // What the sweep skipped keeps its newer metadata; what was put has no older updates.
                if entry.mark == Mark::Put {
                    state.overlay.remove(hash);
                    updates.remove(&hash);
                }
                if entry.is_removal() {
                    state.index.remove(entry.hash);
                } else if state.pins.binary_search(&place).is_err() {
                    // A survivor keeps its count. Another length at the same place is a newer record.
                    let same = |slot: Slot| slot.place == place && slot.units == entry.units;
                    if !state.index.find(entry.hash).is_some_and(same) {
                        state.index.insert(entry.hash, Slot { place, units: entry.units, count: 1 });
                    }
                }
            }
            if contents.seq >= state.seq.max(1) {
                state.seq = contents.seq;
                state.cursor = number + 1;
            }
            state.virgin = state.virgin.max(number + 1);
        }
        self.apply(state, updates.into_values().collect());
    }

    /// Reads updates into the overlay. Not all of them need be in force, so it may be more than the overlay had room
    /// for; but whatever the log says, the memory for it is bounded: an object whose update is beyond it goes.
    fn apply(&self, state: &mut State, mut updates: Vec<Candidate>) {
        updates.sort_by_key(|u| std::cmp::Reverse(u.turn));
        let mut room = 4 * state.overlay.bound().max(1 << 20);
        let fits = |u: &Candidate| {
            let length = usize::from(u.units) * UNIT;
            let fits = length <= room;
            room = room.saturating_sub(length);
            fits
        };
        let (fitting, beyond): (Vec<_>, Vec<_>) = updates.iter().copied().partition(fits);
        for update in beyond {
            state.index.remove(update.hash);
            state.removals.push(update.hash);
        }
        for (hash, update) in self.updates(&fitting) {
            state.overlay.insert(hash, update);
        }
        let index = &state.index;
        state.overlay.retain(|hash, target| {
            index.find(hash).is_some_and(|slot| slot.place == target.place && slot.units == target.units)
        });
    }

    /// The update records among `candidates` that are whole, read in parallel.
    fn updates(&self, candidates: &[Candidate]) -> Vec<(u64, Update)> {
        in_parallel(candidates, |c| {
            let (key, parts) = read_any(self.reads, &self.layout, (c.place, c.units)).ok()??;
            let target = Target::decode(&parts.body)?;
            let ours =
                parts.kind == Kind::Update && key.index_hash() == c.hash && fits(&parts.meta, &self.layout);
            let update = Update { target, meta: parts.meta.into(), record: Some(c.place) };
            ours.then_some((c.hash, update))
        })
        .flatten()
        .collect()
    }

    /// Removes entries of the checkpoint that point into a segment whose table does not know them: what the crash
    /// took before it was written, or the sweep. And those that lead out of the log.
    fn forget_phantoms(&self, index: &Index, scanned: &HashMap<u64, Option<Contents>>, virgin: u64) {
        let listed = |contents: &Contents| {
            let records = contents.entries.iter().filter(|e| !e.is_update());
            let mut listed: Vec<(u32, Print)> = records.map(|e| (e.offset, index.print(e.hash))).collect();
            listed.sort_unstable();
            listed
        };
        let known: HashMap<u64, Option<Vec<(u32, Print)>>> =
            scanned.iter().map(|(number, contents)| (*number, contents.as_ref().map(listed))).collect();
        index.retain(|print, slot| {
            if !self.layout.holds(slot.place, slot.units) {
                return false;
            }
            let number = self.layout.segment_of(slot.place);
            let offset = (self.layout.within(slot.place) / UNIT) as u32;
            match known.get(&number) {
                None => true,
                Some(None) => number < virgin,
                Some(Some(listed)) => listed.binary_search(&(offset, print)).is_ok(),
            }
        });
    }

    /// The tables of some segments, read in parallel, in the order given.
    fn tables(&self, numbers: &[u64]) -> Vec<(u64, io::Result<Option<Contents>>)> {
        in_parallel(numbers, |&n| (n, read_table(self.reads, &self.layout, n))).collect()
    }
}

/// What `read` gives for each of some, by several threads, in the order given.
fn in_parallel<T: Sync, A: Send>(some: &[T], read: impl Fn(&T) -> A + Sync) -> impl Iterator<Item = A> {
    let share = some.len().div_ceil(PARALLEL).max(1);
    let read = &read;
    let answers = std::thread::scope(|scope| {
        let threads: Vec<_> = some
            .chunks(share)
            .map(|some| scope.spawn(move || some.iter().map(read).collect::<Vec<_>>()))
            .collect();
        let joined = threads.into_iter().map(|t| t.join());
        joined.map(|t| t.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect::<Vec<_>>()
    });
    answers.into_iter().flatten()
}

/// What lies where a copy of the ledger has its place.
enum Copy {
    /// None was written there yet.
    Blank,
    Valid(Ledger),
    /// Torn, or spoilt.
    Damaged,
}

/// A segment's table of contents, if it has a valid one; an error where the medium does not give it.
pub fn read_table(reads: &Reads<'_>, layout: &Layout, number: u64) -> io::Result<Option<Contents>> {
    let segment = layout.segment as usize;
    let mut length = TABLE_READ.min(segment);
    loop {
        let offset = layout.start(number) + (segment - length) as u64;
        let buffer = reads.read(offset, length)?;
        match contents::decode(layout.identity, number, segment, &buffer[..length]) {
            Ok(mut contents) => {
                // A damaged entry cannot be in a table whose checksum holds; one that we would misplace still must
                // not lead out of the segment.
                let end = align_down(segment - contents::TRAILER, UNIT);
                contents.entries.retain(|e| bytes_of(e).end <= end);
                return Ok(Some(contents));
            }
            Err(Unreadable::Longer(longer)) if longer > length => length = align_up(longer, BLOCK),
            Err(_) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::format::DATA_START;
    use crate::format::record::{About, Record};
    use crate::packetizer::OpenSegment;
    use rand::{SeedableRng, rngs::StdRng};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn places_that_lead_out_of_the_log_are_not_followed() {
        let layout = Layout { segment: 16 << 10, segments: 20, identity: 1 };
        let (disk, pool) = (SimDisk::new(0, StdRng::seed_from_u64(1)), Pool::new(0));
        let recovery = Recovery { reads: &Reads::new(&disk, &pool), layout };
        let (first, end) = (DATA_START / UNIT as u64, layout.size() / UNIT as u64);
        let index = Index::new(1);
        let places = [
            (0, 1),
            (first - 1, 1),
            (first, 1),
            (first + 255, 2),
            (end - 1, 1),
            (end, 1),
            ((1 << 40) - 1, 9),
        ];
        for (hash, (place, units)) in (0..).zip(places) {
            index.insert(hash << 57, Slot { place, units, count: 1 });
        }
        recovery.forget_phantoms(&index, &HashMap::new(), layout.segments);
        let kept: Vec<u64> = (0..7).filter(|hash| index.find(hash << 57).is_some()).collect();
        assert_eq!(kept, [2, 4]);
    }

    const LAYOUT: Layout = Layout { segment: 16 << 10, segments: 1_000, identity: 1 };

    /// Says of which offsets.
    type Fails = fn(u64) -> bool;

    /// A disk on which the first reads of some places fail.
    struct Flaky {
        disk: SimDisk,
        fails: Fails,
        failures: u32,
        /// How long such a read takes, milliseconds, and what time it is.
        takes: u64,
        now: AtomicU64,
        pauses: AtomicU64,
        seen: Mutex<HashMap<u64, u32>>,
    }

    impl Flaky {
        fn new(fails: Fails, failures: u32, takes: u64) -> Flaky {
            let disk = SimDisk::new(LAYOUT.size() as usize, StdRng::seed_from_u64(1));
            let (now, pauses, seen) = Default::default();
            Flaky { disk, fails, failures, takes, now, pauses, seen }
        }

        fn recover(&self) -> io::Result<(State, Recovered)> {
            let first = Superblock { layout: LAYOUT, generation: 1, checkpoint: Default::default() };
            let clock = Box::new(|| Duration::from_millis(self.now.load(Relaxed)));
            let pool = Pool::new(0);
            let reads = Reads { clock, ..Reads::new(self, &pool) };
            recover(&reads, &[first], 0)
        }
    }

    impl Disk for Flaky {
        fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
            let mut seen = self.seen.lock().unwrap();
            let times = seen.entry(offset).or_default();
            *times += 1;
            if *times <= self.failures && (self.fails)(offset) {
                self.now.fetch_add(self.takes, Relaxed);
                return Err(io::Error::other("simulated read error"));
            }
            self.disk.read(offset, buffer, length)
        }
        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.disk.write(offset, bytes)
        }
        fn sync(&self) -> io::Result<()> {
            self.disk.sync()
        }
        fn read_block(&self) -> usize {
            self.disk.read_block()
        }
        fn pause(&self) {
            self.pauses.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn what_cannot_be_read_is_read_again_and_then_not_taken_for_nothing() {
        for (failures, expected) in [(ATTEMPTS - 1, &b"ledger"[..]), (ATTEMPTS, &ledger::UNREADABLE)] {
            let flaky = Flaky::new(|at| (ledger::COPIES[0]..DATA_START).contains(&at), failures, 0);
            let found = Ledger { generation: 5, bytes: b"ledger".to_vec() };
            let mut image = vec![0; BLOCK];
            found.encode(1, &mut image);
            flaky.write(ledger::offset(5), &image).unwrap();
            let fence = Fence { seq: 3 * LEAP, ledger: 2 * LEAP };
            flaky.write(fence::OFFSET, &fence.encode(1)).unwrap();
            let (state, recovered) = flaky.recover().unwrap();
            let unread = failures == ATTEMPTS;
            assert!(state.mend, "behind a fence");
            assert_eq!((state.unread, recovered.unread), (unread, unread));
            assert_eq!(state.ledger.bytes, expected);
            assert_eq!(state.ledger.generation, if unread { 3 * LEAP } else { 5 });
            // Nobody knows how many segments were opened behind the fence.
            assert!(state.seq >= 4 * LEAP - 1);
            assert_eq!(state.seq % LAYOUT.segments, state.cursor);
        }
    }

    #[test]
    fn a_ledger_of_which_nothing_is_left_may_have_said_anything() {
        for (spoilt, known) in [(&[][..], true), (&[0][..], true), (&[1], true), (&[0, 1], false)] {
            let flaky = Flaky::new(|_| false, 0, 0);
            spoilt.iter().for_each(|&n: &usize| flaky.write(ledger::COPIES[n], &[7; BLOCK]).unwrap());
            let (state, recovered) = flaky.recover().unwrap();
            let expected = if known { &[][..] } else { &ledger::UNREADABLE };
            assert_eq!((state.ledger.bytes.as_slice(), recovered.unread), (expected, !known), "{spoilt:?}");
        }
    }

    #[test]
    fn an_update_that_no_checkpoint_could_hold_is_none() {
        for (more, updated) in [(0, 1), (1, 0)] {
            let flaky = Flaky::new(|_| false, 0, 0);
            let mut open = OpenSegment::new(0, 1, Buffer::new(LAYOUT.segment as usize), Vec::new());
            let key = Key::new(b"key".to_vec());
            let mut put = |kind, meta: &[u8], body: &[u8], mark| {
                let about = About { kind, id: 0, length: body.len() as u64, span: 0, written: 0 };
                let record = Record::new(LAYOUT.identity, about, key.bytes(), meta, body).unwrap();
                let at = open.append(key.index_hash(), &record, mark).unwrap();
                (LAYOUT.place(0, at), (record.size() / UNIT) as u16)
            };
            let (place, units) = put(Kind::Object, b"", b"body", Mark::Put);
            let target = Target { place, units, sum: record::part_sum(LAYOUT.identity, b"body") };
            let meta = vec![7; page_bytes(&LAYOUT) + more];
            put(Kind::Update, &meta, &target.encode(), Mark::Update);
            open.take_writes(LAYOUT.identity);
            flaky.write(LAYOUT.start(0), &open.image).unwrap();
            let (state, _) = flaky.recover().unwrap();
            assert_eq!((state.index.len(), state.overlay.len()), (1, updated));
        }
    }

    #[test]
    fn nothing_is_recovered_without_knowing_of_the_fence() {
        for (failures, opens) in [(ATTEMPTS - 1, true), (ATTEMPTS, false)] {
            let flaky = Flaky::new(|at| at < DATA_START, failures, 0);
            assert_eq!(flaky.recover().is_ok(), opens);
        }
    }

    #[test]
    fn reads_that_fail_end_a_start_soon_and_what_was_not_read_counts_as_unread() {
        let every_other = |at: u64| at >= DATA_START && ((at - DATA_START) >> 14).is_multiple_of(2);
        let cases: [(Fails, u64, usize, usize); 3] = [
            (|at| at >= DATA_START, 0, 1_000, FAILURES as usize + PARALLEL),
            // What takes long is tried once.
            (|at| at >= DATA_START, 3_000, 1_000, 4 + PARALLEL),
            // They do not keep a start from finding the end of the log.
            (every_other, 0, PARALLEL, 2 * PARALLEL * ATTEMPTS as usize),
        ];
        for (fails, takes, unread, most) in cases {
            let flaky = Flaky::new(fails, u32::MAX, takes);
            let (state, recovered) = flaky.recover().unwrap();
            assert!(state.unread && state.mend && recovered.unread && state.seq >= LEAP);
            assert_eq!((state.doubtful.len(), &*state.ledger.bytes), (unread, &b""[..]));
            let seen = flaky.seen.lock().unwrap();
            let reads: u32 = seen.iter().filter(|(at, _)| **at >= DATA_START).map(|(_, times)| times).sum();
            assert!(reads as usize <= most, "{reads} reads");
            assert!(
                flaky.pauses.load(Relaxed) < u64::from(reads)
                    && (takes == 0 || seen.values().all(|n| *n == 1))
            );
        }
    }
}
