//! Group reads (WebCoSM 2.2.3): a read of a small object brings the whole *group* of bytes that begins a little before it, since what came
//! together is often asked for together, and mostly in the order in which it came. The group is kept for a while, as it was read; whoever
//! asks for a neighbour finds it there.
//!
//! Always true: all of a segment had been written when a group of it was read. Which turn of the segment it was then, the records say
//! themselves: whoever takes one asks. Groups have a bound in bytes; the one used last goes last.

use crate::format::{BLOCK, DATA_START, Layout, align_down};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads after which it is decided anew whether group reads pay.
const REVIEW: u64 = 512;
/// While they do not, one in so many reads is a group read, to know what it would save.
const PROBE: u64 = 16;
/// Of so many group reads one has to save another read: about what their length costs.
const PAYS: u64 = 8;
/// Of a group, one in so many bytes lies before the block of the record for which it is read.
const BEFORE: u64 = 16;

pub(crate) struct Groups {
    /// Bytes of one; 0: none is read.
    size: u64,
    segment: u64,
    kept: Mutex<Kept>,
    pays: AtomicBool,
    /// Reads that are or could have been group reads.
    passed: AtomicU64,
    /// Group reads, and reads that they saved; all, and those since the last decision.
    pub reads: AtomicU64,
    pub all_saved: AtomicU64,
    recent: [AtomicU64; 2],
}

#[derive(Default)]
struct Kept {
    /// By where they begin; some overlap.
    groups: BTreeMap<u64, Group>,
    /// After how many reads each was used last, and where it begins.
    order: BTreeSet<(u64, u64)>,
    bytes: usize,
    bound: usize,
}

struct Group {
    /// The sequence number of its segment.
    seq: u64,
    bytes: Bytes,
    /// As in `Kept::order`.
    used: u64,
}

impl Kept {
    fn insert(&mut self, from: u64, group: Group) -> Option<Bytes> {
        let before = self.remove(from);
        self.order.insert((group.used, from));
        self.bytes += group.bytes.len();
        self.groups.insert(from, group);
        before
    }

    fn remove(&mut self, from: u64) -> Option<Bytes> {
        let group = self.groups.remove(&from)?;
        self.order.remove(&(group.used, from));
        self.bytes -= group.bytes.len();
        Some(group.bytes)
    }
}

impl Groups {
    /// Groups of `size` bytes, of which `bound` bytes are kept.
    pub fn new(layout: &Layout, size: u32, bound: usize) -> Groups {
        let segment = u64::from(layout.segment);
        let size = u64::from(size).min(segment);
        let size = if (bound as u64) < size { 0 } else { size };
        Groups {
            size,
            segment,
            kept: Mutex::new(Kept { bound, ..Kept::default() }),
            pays: AtomicBool::new(true),
            passed: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            all_saved: AtomicU64::new(0),
            recent: Default::default(),
        }
    }

    /// What to read for a record of so many bytes at `start`, of the medium, instead of it alone; `None`: that.
    pub fn around(&self, start: u64, length: usize) -> Option<Range<u64>> {
        if !self.takes(length) {
            return None;
        }
        let nth = self.passed.fetch_add(1, Relaxed);
        if nth % REVIEW == REVIEW - 1 {
            self.review();
        }
        if !self.pays.load(Relaxed) && !nth.is_multiple_of(PROBE) {
            return None;
        }
        // None straddles two segments.
        let first = start - (start - DATA_START) % self.segment;
        let begin = align_down(start.saturating_sub(self.size / BEFORE) as usize, BLOCK) as u64;
        let begin = begin.clamp(first, first + self.segment - self.size);
        let end = (begin + self.size).max(start + length as u64);
        Some(begin..end)
    }

    /// Whether a record of so many bytes is one for group reads.
    pub fn takes(&self, length: usize) -> bool {
        length as u64 <= self.size / 2
    }

    /// Keeps what was read: bytes from `from` on, of the segment that had this sequence number before the read.
    pub fn keep(&self, seq: u64, from: u64, bytes: Bytes) {
        self.reads.fetch_add(1, Relaxed);
        self.recent[0].fetch_add(1, Relaxed);
        let used = self.passed.load(Relaxed);
        // Freed when the lock is.
        let mut gone = Vec::new();
        let mut kept = self.lock();
        gone.extend(kept.insert(from, Group { seq, bytes, used }));
        // Seldom read, a group stays no longer than if all reads were group reads: what it saves then is what counts.
        let stays = kept.bound as u64 / self.size;
        while let Some((then, oldest)) = kept.order.first().copied() {
            if kept.bytes <= kept.bound && used.saturating_sub(then) <= stays {
                break;
            }
            gone.extend(kept.remove(oldest));
        }
        drop(kept);
    }

    /// The bytes of a record at `start`, of the segment that has this sequence number now.
    pub fn find(&self, seq: u64, start: u64, length: usize) -> Option<Bytes> {
        if !self.takes(length) {
            return None;
        }
        let end = start + length as u64;
        // The longest are those that a record at their end made longer.
        let begins = start.saturating_sub(self.size + BLOCK as u64)..=start;
        let mut kept = self.lock();
        let has =
            |(from, group): &(&u64, &mut Group)| group.seq == seq && end <= **from + group.bytes.len() as u64;
        let (&from, group) = kept.groups.range_mut(begins).rev().find(has)?;
        let at = (start - from) as usize;
        let bytes = group.bytes.slice(at..at + length);
        let (before, now) = (group.used, self.passed.load(Relaxed));
        group.used = now;
        kept.order.remove(&(before, from));
        kept.order.insert((now, from));
        Some(bytes)
    }

    /// What was found is what was asked for: a read was saved.
    pub fn saved(&self) {
        self.all_saved.fetch_add(1, Relaxed);
        self.recent[1].fetch_add(1, Relaxed);
    }

    fn review(&self) {
        let [reads, saved] = self.recent.each_ref().map(|count| count.swap(0, Relaxed));
        self.pays.store(saved * PAYS >= reads, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_hand::ByHand;
    use crate::disk::sim::SimDisk;
    use crate::{Body, Key, Options};
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use std::collections::HashMap;

    const SIZE: u64 = 4 << 20;
    const GROUP: u32 = 16 << 10;

    fn options(group_memory: usize) -> Options {
        let group_of = |key: &[u8]| u64::from(key[0]);
        Options { packet: 128 << 10, group_of, group: GROUP, group_memory, ..Options::at("") }
    }

    /// Of a server: the first byte says which.
    fn key(server: u8, n: u32) -> Key {
        let mut bytes = vec![server];
        bytes.extend(n.to_le_bytes());
        Key::new(bytes)
    }

    fn made(group_memory: usize) -> (SimDisk, ByHand) {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = ByHand::make(&disk, SIZE, &options(group_memory), 1).unwrap();
        (disk, store)
    }

    fn body(store: &ByHand, disk: &SimDisk, key: &Key) -> Option<Vec<u8>> {
        match store.get(disk, key)?.body {
            Body::Whole(bytes) => Some(bytes.to_vec()),
            Body::Spans(_) => None,
        }
    }

    /// Objects of eight servers, which come in turn, lie by server; whoever reads one finds those beside it.
    #[test]
    fn what_is_of_one_group_comes_with_one_read() {
        let (disk, store) = made(1 << 20);
        for n in 0..5 {
            for server in 0..8 {
                store.put(&key(server, n), b"", &[server; 2_000]).unwrap();
            }
        }
        // What is in an open segment is read from memory.
        (0..60).for_each(|n| store.put(&key(9, n), b"", &[9; 2_000]).unwrap());
        store.flush(&disk);
        let reads = |store: &ByHand| store.groups().reads.load(Relaxed);
        for server in 0..8 {
            let before = reads(&store);
            for n in 0..5 {
                assert_eq!(body(&store, &disk, &key(server, n)), Some(vec![server; 2_000]), "{server} {n}");
            }
            assert!(
                reads(&store) - before <= 3,
                "ten kilobytes lie in two groups, and one record may in both"
            );
        }
        assert!(store.groups().all_saved.load(Relaxed) >= 16);
        // Whoever holds one object for long does not hold its neighbours.
        for n in 0..5 {
            let Body::Whole(body) = store.get(&disk, &key(3, n)).unwrap().body else { panic!() };
            let held = store.groups().lock();
            assert!(held.groups.values().all(|group| !group.bytes.as_ptr_range().contains(&body.as_ptr())));
        }
    }

    /// Reads of groups, and what is found without one.
    fn seen(groups: &Groups, places: &[u64]) -> Vec<bool> {
        let one = |at: &u64| {
            let found = groups.find(1, DATA_START + at, 4096).is_some();
            if !found {
                let range = groups.around(DATA_START + at, 4096).unwrap();
                groups.keep(1, range.start, Bytes::from(vec![0; (range.end - range.start) as usize]));
            }
            found
        };
        places.iter().map(one).collect()
    }

    #[test]
    fn what_was_used_last_goes_last() {
        let groups = Groups::new(&Layout::new(1 << 20, 20, 7), GROUP, 4 * GROUP as usize);
        let at = |nth: u64| nth * 2 * u64::from(GROUP);
        let asked = [0, 1, 2, 0, 3, 4, 0, 2, 1].map(at);
        assert_eq!(seen(&groups, &asked), [false, false, false, true, false, false, true, true, false]);
        let kept = groups.lock();
        assert_eq!((kept.order.len(), kept.groups.len()), (4, 4));
        assert_eq!(kept.bytes, 4 * GROUP as usize);
    }

    /// Wherever a record lies: what comes behind it came after it, and is asked for after it.
    #[test]
    fn a_group_goes_on_behind_its_record_and_begins_a_little_before() {
        for at in (8192..5 * u64::from(GROUP)).step_by(1000) {
            let groups = Groups::new(&Layout::new(1 << 20, 20, 7), GROUP, 1 << 20);
            let behind = at + u64::from(GROUP) / 16 * 15 - 2 * 4096;
            let asked = [at, behind, at - 1024, at - 8192];
            assert_eq!(seen(&groups, &asked), [false, true, true, false], "{at}");
        }
    }

    /// Whatever is put, replaced, removed and overwritten meanwhile, what is found is what was put last; many laps, small groups memory.
    #[test]
    fn a_group_never_answers_with_what_was() {
        for seed in 0..20 {
            let (disk, store) = made(64 << 10);
            let mut rng = StdRng::seed_from_u64(seed);
            let mut last: HashMap<(u8, u32), u8> = HashMap::new();
            let (mut hits, mut now) = (0, 0);
            for step in 0..6_000u32 {
                // Few sizes and keys: places are used again by the same key.
                let (server, n) = (rng.random_range(0..4), rng.random_range(0..150));
                let key = key(server, n);
                match rng.random_range(0..10) {
                    0..4 => {
                        let value = step as u8;
                        if store.put(&key, b"", &vec![value; 1_900 + 64 * (n as usize % 3)]).is_ok() {
                            last.insert((server, n), value);
                        } else {
                            last.remove(&(server, n));
                        }
                    }
                    4 if rng.random_bool(0.2) => {
                        store.remove(&key);
                        last.remove(&(server, n));
                    }
                    5 => {
                        now += rng.random_range(0..600);
                        store.turn(&disk, now);
                    }
                    _ => {
                        if let Some(bytes) = body(&store, &disk, &key) {
                            assert_eq!(bytes.first(), last.get(&(server, n)), "seed {seed}, step {step}");
                            hits += 1;
                        }
                    }
                }
            }
            let saved = store.groups().all_saved.load(Relaxed);
            assert!(hits > 1_000 && saved > 20, "seed {seed}: {hits} hits, {saved} reads saved");
        }
    }

    #[test]
    fn groups_that_save_nothing_are_read_no_more_until_they_do() {
        let groups = Groups::new(&Layout::new(1 << 20, 20, 7), GROUP, 1 << 20);
        let read = |at: u64| {
            let range = groups.around(DATA_START + at * u64::from(GROUP), 4096);
            if let Some(range) = range.clone() {
                groups.keep(1, range.start, Bytes::from(vec![0; GROUP as usize]));
            }
            range.is_some()
        };
        assert!((0..REVIEW).all(|at| read(at) || at + 1 == REVIEW));
        let probes = (0..REVIEW).filter(|at| read(*at)).count() as u64;
        assert_eq!(probes, REVIEW / PROBE);
        (0..REVIEW).for_each(|at| {
            read(at);
            groups.saved();
        });
        assert!(read(0) && read(1));
        let kept = groups.lock();
        assert!(kept.bytes <= 1 << 20 && kept.order.len() as u64 <= (1 << 20) / u64::from(GROUP) + 1);
    }

    #[test]
    fn large_records_are_read_alone_and_no_group_straddles() {
        let groups = Groups::new(&Layout::new(64 << 10, 20, 7), 1 << 20, 1 << 20);
        assert_eq!(groups.around(DATA_START + 4096, 4096), Some(DATA_START..DATA_START + (64 << 10)));
        let (small, end) =
            (Groups::new(&Layout::new(64 << 10, 20, 7), GROUP, 1 << 20), DATA_START + (64 << 10));
        assert_eq!(small.around(end, 512), Some(end..end + u64::from(GROUP)));
        assert_eq!(small.around(end - 512, 512), Some(end - u64::from(GROUP)..end));
        let tiny = Groups::new(&Layout::new(64 << 10, 20, 7), 8 << 10, 1 << 20);
        assert_eq!(tiny.around(end - 24_576 + 4000, 4096), Some(end - 24_576..end - 16_384));
        assert_eq!(tiny.around(end - 24_576 + 500, 4096), Some(end - 28_672..end - 19_980));
        assert_eq!(groups.around(DATA_START, 33 << 10), None);
        assert_eq!(Groups::new(&Layout::new(64 << 10, 20, 7), 0, 1 << 20).around(DATA_START, 64), None);
        assert_eq!(Groups::new(&Layout::new(64 << 10, 20, 7), GROUP, 100).around(DATA_START, 64), None);
    }
}
