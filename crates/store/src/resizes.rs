//! Caches that become larger and smaller: what they keep, what they must not bring back, and what a start leaves that is interrupted
//! meanwhile.

use crate::buffer::{Buffer, Pool};

use crate::by_hand::ByHand;
use crate::cases::key;
use crate::digester::stretch;
use crate::disk::Disk;
use crate::disk::sim::{Faults, SimDisk};
use crate::format::root::DigestAt;
use crate::format::superblock::{self, COPIES};
use crate::format::{BLOCK, DATA_START, Layout, root};
use crate::index::Index;
use crate::loader::{Loader, TABLE_READ};
use crate::opening::layout_of;
use crate::reads::Reads;
use crate::recovery::{recover, root_of};
use crate::resize::{Resizing, of_size};
use crate::{Body, Options};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PACKET: u32 = 32 << 10;

fn options() -> Options {
    Options {
        packet: PACKET,
        admission: crate::Admission::All,
        tell: |_| {},
        news: |_| {},
        ..Options::at("")
    }
}

fn size_of(segments: u64) -> u64 {
    DATA_START + segments * u64::from(PACKET)
}

fn make(segments: u64, seed: u64) -> (SimDisk, ByHand) {
    let disk = SimDisk::new(size_of(segments) as usize, StdRng::seed_from_u64(seed));
    let store = ByHand::make(&disk, size_of(segments), &options(), seed).unwrap();
    (disk, store)
}

fn copy(disk: &SimDisk) -> SimDisk {
    let bytes = disk.bytes();
    let copy = SimDisk::new(bytes.len(), StdRng::seed_from_u64(1));
    copy.write(0, &bytes).unwrap();
    copy
}

fn layout(disk: &dyn Disk, size: usize) -> Layout {
    layout_of(Path::new(""), disk, size as u64).unwrap().unwrap()
}

/// A start with a size of so many segments.
fn start(disk: &SimDisk, through: &dyn Disk, segments: u64) -> Result<ByHand, String> {
    let options = Options { size: Some(size_of(segments)), ..options() };
    // What is told of a change is what came of it, unless there was none.
    let tell = |line: &str| assert!(line.contains("too often"), "{line}");
    let layout = of_size(through, layout(disk, disk.bytes().len()), &Options { tell, ..options.clone() })?;
    if layout.segments != segments {
        return Err(format!("it keeps {} segments", layout.segments));
    }
    Ok(ByHand::open(through, layout, &options))
}

fn body(value: u64) -> Vec<u8> {
    let length = 100 + value as usize * 7919 % 5_000;
    value.to_le_bytes().into_iter().cycle().take(length).collect()
}

fn put(store: &ByHand, disk: &dyn Disk, n: u32, value: u64, now: &mut u64) {
    for _ in 0..20 {
        let done = store.put(&key(n), b"", &body(value));
        store.turn(disk, *now);
        if done.is_ok() {
            return;
        }
        *now += 2_000;
    }
    panic!("nothing is put any more");
}

fn get(store: &ByHand, disk: &dyn Disk, n: u32) -> Option<u64> {
    let Body::Whole(bytes) = store.get(disk, &key(n))?.body else { panic!("a span") };
    let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == body(value), "not what was put");
    Some(value)
}

#[test]
fn a_larger_cache_keeps_all_and_fills_its_new_size() {
    // With digests, and without.
    for (small, large) in [(20, 40), (100, 140), (130, 200)] {
        let (disk, store) = make(small, 1);
        let (mut now, mut n) = (0, 0);
        while store.newest() < small * 2 + small / 3 {
            put(&store, &disk, n, 1, &mut now);
            n += 1;
        }
        store.flush(&disk);
        let there: Vec<u32> = (0..n).filter(|n| get(&store, &disk, *n).is_some()).collect();
        drop(store);
        let store = start(&disk, &disk, large).unwrap();
        let lost = there.iter().take_while(|n| get(&store, &disk, **n).is_none()).count();
        let kept = there.iter().filter(|n| get(&store, &disk, **n).is_some()).count();
        // A digest may have been written over the oldest.
        assert!(lost * 20 < there.len() && lost + kept == there.len(), "{lost}, {kept} of {}", there.len());
        let before = there.len();
        while store.newest() < small * 2 + large * 2 {
            put(&store, &disk, n, 1, &mut now);
            n += 1;
        }
        let after = (0..n).filter(|n| get(&store, &disk, *n).is_some()).count();
        let grown = large as f64 / small as f64;
        assert!(after as f64 > before as f64 * grown * 0.9, "{after} after {before}, in {small} and {large}");
    }
}

#[test]
fn a_smaller_cache_keeps_what_lies_in_the_part_that_stays() {
    // The log goes on in the part that stays, or behind it.
    for (large, small, last) in [(40, 30, 50), (40, 30, 78), (140, 130, 160), (200, 130, 360), (200, 60, 390)]
    {
        let (disk, store) = make(large, 1);
        let (mut now, mut n) = (0, 0);
        while store.newest() < last {
            put(&store, &disk, n, 1, &mut now);
            n += 1;
        }
        store.flush(&disk);
        let end = size_of(small);
        let there = (0..n).filter(|n| {
            let slot = store.slot_for_tests(&key(*n));
            slot.is_some_and(|slot| slot.place * 64 < end)
        });
        let there: Vec<u32> = there.collect();
        drop(store);
        let store = start(&disk, &disk, small).unwrap();
        assert_eq!(disk.bytes().len() as u64, end);
        let kept = there.iter().filter(|n| get(&store, &disk, **n).is_some()).count();
        // The removals have taken some segments.
        assert!(kept * 10 > there.len() * 8, "{kept} of {} from {large} to {small}", there.len());
        let bad = store.shared_for_tests().stats.bad_records.load(Relaxed);
        assert_eq!(bad, 0, "what is cut off trips nothing");
        for more in 0..500 {
            put(&store, &disk, n + more, 1, &mut now);
        }
    }
}

/// Sizes change between lives that put, remove and are killed; now and then the change is interrupted anywhere, and the power goes.
#[test]
fn whatever_size_a_cache_had_no_key_answers_with_what_it_had_before() {
    let seeds = std::env::var("COSM_RESIZES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let (mut hits, mut interrupted) = (0, 0);
    for seed in 0..seeds {
        let mut rng = StdRng::seed_from_u64(seed);
        let sizes = [15..60, 15..60, 110..170, 40..260][seed as usize % 4].clone();
        let (disk, mut store) = make(rng.random_range(sizes.clone()), seed);
        let (mut now, mut value) = (0, 0);
        let mut values: HashMap<u32, u64> = HashMap::new();
        let keys = [30, 300, 3_000][rng.random_range(0..3)];
        for _ in 0..rng.random_range(2..12) {
            for _ in 0..rng.random_range(0..600) {
                let n = rng.random_range(0..keys);
                match rng.random_range(0..10) {
                    0 => {
                        store.remove(&key(n));
                        values.remove(&n);
                    }
                    1 => {
                        let found = get(&store, &disk, n);
                        assert!(found.is_none() || found.as_ref() == values.get(&n), "seed {seed}: key {n}");
                    }
                    _ => {
                        value += 1;
                        put(&store, &disk, n, value, &mut now);
                        values.insert(n, value);
                    }
                }
            }
            now += 5_000;
            store.turn(&disk, now);
            store.flush(&disk);
            disk.sync().unwrap();
            drop(store);
            if rng.random_bool(0.2) {
                // All of the log is looked at.
                disk.write(root::COPIES[0], &vec![0; 2 * root::COPY]).unwrap();
                disk.sync().unwrap();
            }
            if rng.random_bool(0.4) {
                let left = if rng.random() { rng.random_range(0..12) } else { rng.random_range(0..300) };
                disk.interrupt_after(Some(left));
                let started = start(&disk, &disk, rng.random_range(sizes.clone()));
                disk.interrupt_after(None);
                interrupted += u32::from(started.is_err());
                drop(started);
                if rng.random() {
                    disk.lose_power();
                }
            }
            let left_behind = layout(&disk, disk.bytes().len()).in_turn();
            let segments = if rng.random() { rng.random_range(sizes.clone()) } else { left_behind };
            store = match start(&disk, &disk, segments) {
                Ok(store) => store,
                Err(why) => {
                    assert!(why.starts_with("it keeps"), "{why}");
                    start(&disk, &disk, left_behind).unwrap()
                }
            };
            for n in 0..keys {
                let found = get(&store, &disk, n);
                hits += u64::from(found.is_some());
                assert!(
                    found.is_none() || found.as_ref() == values.get(&n),
                    "seed {seed}: key {n}, {found:?}"
                );
            }
            let bad = store.shared_for_tests().stats.bad_records.load(Relaxed);
            assert_eq!(bad, 0, "seed {seed}: a record is not what the index expects");
        }
    }
    println!("{hits} hits, {interrupted} starts were interrupted");
    assert!(hits > 100 * seeds && interrupted as u64 > seeds / 10);
}

/// The index knows no more than the beginning of a hash: another key may look as if it were the newer one.
#[test]
fn what_left_does_not_come_back_where_another_key_has_nearly_its_hash() {
    let (disk, store) = make(40, 1);
    let known = |n: u32| store.hash_for_tests(&key(n)) >> (64 - 33);
    let mut seen = HashMap::new();
    let twins = (0..).find_map(|n| seen.insert(known(n), n).map(|before| (before, n)));
    let (left, other) = twins.unwrap();
    let (mut now, mut more) = (0, 10_000_000);
    let mut fill = |until| {
        while store.newest() < until {
            put(&store, &disk, more, 9, &mut now);
            more += 1;
        }
    };
    fill(5);
    put(&store, &disk, left, 1, &mut 0);
    fill(35);
    put(&store, &disk, left, 2, &mut 0);
    fill(41);
    put(&store, &disk, other, 3, &mut 0);
    store.flush(&disk);
    drop(store);
    let options = Options { size: Some(size_of(30)), index_max: Some(1 << 20), ..options() };
    let layout = of_size(&disk, layout(&disk, disk.bytes().len()), &options).unwrap();
    let store = ByHand::open(&disk, layout, &options);
    assert_eq!((get(&store, &disk, left), get(&store, &disk, other)), (None, Some(3)));
}

/// Reads of some bytes fail.
struct Spoilt<'a>(&'a SimDisk, std::ops::Range<u64>);

impl Disk for Spoilt<'_> {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        match offset < self.1.end && offset + length as u64 > self.1.start {
            true => Err(io::Error::other("spoilt")),
            false => self.0.read(offset, buffer, length),
        }
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.0.reserve(bytes)
    }
    fn cut_off(&self, bytes: u64) -> io::Result<()> {
        self.0.cut_off(bytes)
    }
    fn read_block(&self) -> usize {
        self.0.read_block()
    }
}

/// A start goes on with the size that there is, and a later one tries again.
#[test]
fn what_cannot_be_read_behind_the_new_end_leaves_the_cache_as_it_was() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (disk, store) = make(200, 1);
    let (mut now, mut n) = (0, 0);
    while store.newest() < 390 {
        put(&store, &disk, n, 1, &mut now);
        n += 1;
    }
    store.flush(&disk);
    drop(store);
    let before = disk.bytes();
    let spoilt = Spoilt(&disk, size_of(150) - 4096..size_of(150));
    let tell = |line: &str| SAID.lock().unwrap().push(line.to_owned());
    let options = Options { size: Some(size_of(130)), tell, ..options() };
    let kept = of_size(&spoilt, layout(&disk, disk.bytes().len()), &options).unwrap();
    assert!(kept.segments == 200 && disk.bytes() == before);
    let said = SAID.lock().unwrap().join("\n");
    assert!(said.lines().count() == 1 && said.contains("keeps its size of 7 MiB"), "{said}");
    let store = start(&disk, &disk, 130).unwrap();
    assert!(get(&store, &disk, n - 1).is_none() && store.len() > 500);
}

/// What it held is unknown: something older of its keys may be among what stays.
#[test]
fn a_shrink_ends_though_a_table_is_never_read_again() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (disk, store) = make(200, 1);
    let (mut now, mut value, mut values, mut last) = (0, 0, HashMap::new(), Vec::new());
    while store.newest() < 450 {
        // Some keys are put once more in what is not read.
        let n = if (360..370).contains(&store.newest()) { value as u32 % 50 } else { value as u32 % 900 };
        values.insert(n, value);
        put(&store, &disk, n, value, &mut now);
        if store.newest() > 401 {
            last.push(n);
        }
        value += 1;
    }
    store.flush(&disk);
    drop(store);
    let shrinks = (0..100).any(|calls| {
        disk.interrupt_after(Some(calls));
        assert!(start(&disk, &disk, 150).is_err());
        layout(&disk, disk.bytes().len()).is_shrinking()
    });
    disk.interrupt_after(None);
    assert!(shrinks);
    let spoilt = Spoilt(&disk, size_of(160)..size_of(171));
    let tell = |line: &str| SAID.lock().unwrap().push(line.to_owned());
    let options = Options { size: Some(size_of(150)), tell, ..options() };
    let layout = of_size(&spoilt, layout(&disk, disk.bytes().len()), &options).unwrap();
    assert_eq!(layout.segments, 150);
    let said = SAID.lock().unwrap().join("\n");
    assert!(said.lines().count() == 1 && said.contains("11 packet(s) behind its new end"), "{said}");
    let store = start(&disk, &disk, 150).unwrap();
    let kept = last.iter().filter(|n| get(&store, &disk, **n).is_some()).count();
    assert!(kept * 10 > last.len() * 8, "{kept} of {}", last.len());
    for (n, value) in values {
        let found = get(&store, &disk, n);
        assert!(found.is_none_or(|found| found == value), "key {n}: {found:?}, not {value}");
    }
}

/// Nothing tells which segment is the newest but the one that is open.
#[test]
fn what_is_put_where_all_else_was_lost_is_found_by_the_next_start() {
    let (disk, store) = make(200, 10);
    let (mut now, mut n) = (0, 0);
    while store.newest() < 199 {
        put(&store, &disk, n, 1, &mut now);
        n += 1;
    }
    store.flush(&disk);
    drop(store);
    drop(start(&disk, &disk, 230).unwrap());
    let layout = layout(&disk, disk.bytes().len());
    disk.write(layout.start(0), &vec![0; 230 * layout.segment as usize]).unwrap();
    let spoil_roots = || disk.write(root::COPIES[0], &vec![1; 2 * root::COPY]).unwrap();
    spoil_roots();
    let store = start(&disk, &disk, 230).unwrap();
    assert_eq!(store.len(), 0);
    put(&store, &disk, 3, 2, &mut now);
    store.flush(&disk);
    drop(store);
    spoil_roots();
    let store = start(&disk, &disk, 230).unwrap();
    assert_eq!(get(&store, &disk, 3), Some(2));
}

/// Else the tables of their segments would be read, and of what these say memory may not have room for all.
#[test]
fn no_digest_of_what_stays_is_cut_off() {
    let mut moved = 0;
    for (small, last) in [(130, 250), (140, 390), (150, 370), (60, 390), (170, 330), (133, 395)] {
        let (disk, store) = make(200, last);
        let (mut now, mut n) = (0, 0);
        while store.newest() < last {
            put(&store, &disk, n, 1, &mut now);
            n += 1;
        }
        store.flush(&disk);
        let (there, pool) = (layout(&disk, disk.bytes().len()), Pool::new(1 << 20));
        let reads = Reads::new(&disk, &pool);
        let before = root_of(&reads, there).digests;
        let behind = |at: &&DigestAt| at.place * 64 >= size_of(small);
        let behind: Vec<u64> = before.iter().filter(behind).map(|at| at.from).collect();
        drop(store);
        let options = Options { size: Some(size_of(small)), ..options() };
        let layout = of_size(&disk, there, &options).unwrap();
        let index = Index::of(&layout, options.objects(&layout));
        let (state, _) = recover(&reads, layout, stretch(small), index).unwrap();
        moved += state.root.digests.iter().filter(|at| behind.contains(&at.from)).count();
        let mut loader = Loader::new(layout, &state.root.digests, &state.index, Arc::default());
        loader.load_all(&state.index, state.seq - 1, |offset, length| {
            let is_table = (offset + length as u64 - DATA_START).is_multiple_of(PACKET.into());
            assert!(!is_table || length != TABLE_READ, "a table is read");
            reads.read(offset, length).ok()
        });
        assert!(!loader.lossy && !state.index.is_empty());
    }
    assert!(moved >= 5, "{moved} were moved");
}

#[test]
fn what_finds_no_space_leaves_the_cache_as_it_was() {
    let (disk, store) = make(20, 1);
    put(&store, &disk, 1, 7, &mut 0);
    store.flush(&disk);
    drop(store);
    let before = disk.bytes();
    disk.set_faults(Faults { full: true, ..Faults::default() });
    let refused = start(&disk, &disk, 40).err().unwrap();
    assert!(refused.contains("cannot be reserved for it"), "{refused}");
    assert!(disk.bytes() == before);
    disk.set_faults(Faults::default());
    let store = start(&disk, &disk, 20).unwrap();
    assert_eq!(get(&store, &disk, 1), Some(7));
}

/// One copy of the superblock has the new size, and is damaged later: the other one must not lead into the log as it was.
#[test]
fn a_size_that_one_copy_has_comes_into_both() {
    let (disk, store) = make(20, 1);
    drop(store);
    let old = disk.bytes()[BLOCK..2 * BLOCK].to_vec();
    drop(start(&disk, &disk, 30).unwrap());
    disk.write(COPIES[1], &old).unwrap();
    drop(start(&disk, &disk, 30).unwrap());
    let bytes = disk.bytes();
    assert!(bytes[..BLOCK] == bytes[BLOCK..2 * BLOCK]);
    assert_eq!(superblock::decode(&bytes[BLOCK..2 * BLOCK]).map(|layout| layout.segments), Ok(30));
}

#[test]
fn a_shrink_that_takes_long_says_how_far_it_is() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (disk, store) = make(200, 1);
    let (mut now, mut n) = (0, 0);
    while store.newest() < 199 {
        put(&store, &disk, n, 1, &mut now);
        n += 1;
    }
    store.flush(&disk);
    drop(store);
    let tell = |line: &str| SAID.lock().unwrap().push(line.to_owned());
    let options = Options { size: Some(size_of(130)), news: tell, ..options() };
    let pool = Pool::new(1 << 20);
    for (pace, lines) in [(0, 0..1), (200, 3..10)] {
        let disk = copy(&disk);
        disk.set_faults(Faults { pace: Duration::from_millis(pace), ..Faults::default() });
        let reads = Reads::in_order(&disk, &pool, || disk.time());
        let there = layout(&disk, disk.bytes().len());
        Resizing { disk: &disk, reads: &reads, options: &options, stretch: &stretch }.of_size(there).unwrap();
        let said = std::mem::take(&mut *SAID.lock().unwrap());
        assert!(lines.contains(&said.len()), "{said:?}");
        let is_told = |line: &String| line.contains("of 70 packets behind its new end are");
        assert!(said.iter().all(is_told), "{said:?}");
    }
}

/// Of a segment behind the new end one block is damaged, its first: what is newer and lies behind that leaves all the same.
#[test]
fn damage_behind_the_new_end_brings_nothing_older_back() {
    let (disk, store) = make(200, 1);
    let (mut now, mut n) = (0, 100);
    let mut fill_until = |seq: u64| {
        while store.newest() < seq {
            put(&store, &disk, n, 9, &mut now);
            n += 1;
        }
    };
    fill_until(20);
    put(&store, &disk, 1, 1, &mut 0);
    fill_until(170);
    (50..53).for_each(|n| put(&store, &disk, n, 5, &mut 0));
    put(&store, &disk, 1, 2, &mut 0);
    fill_until(195);
    store.flush(&disk);
    store.finish(&disk);
    let place = store.slot_for_tests(&key(1)).unwrap().place;
    drop(store);
    let there = layout(&disk, disk.bytes().len());
    let number = there.segment_of(place);
    assert!(number >= 150 && there.within(place) >= BLOCK, "{number}, {}", there.within(place));
    disk.write(there.start(number), &[7; BLOCK]).unwrap();
    for (segments, found) in [(200, Some(2)), (150, None)] {
        let disk = copy(&disk);
        let store = start(&disk, &disk, segments).unwrap();
        assert_eq!(get(&store, &disk, 1), found, "with {segments} segments");
    }
}

/// What the index does not know then, of a key that leaves, may be that what it has of it is older.
#[test]
fn reads_that_fail_while_it_shrinks_bring_nothing_back() {
    let mut kept = 0;
    for seed in 0..20 {
        let (disk, store) = make(200, seed);
        let (mut now, mut value, mut values) = (0, 0, HashMap::new());
        while store.newest() < 390 {
            let n = value as u32 % 700;
            values.insert(n, value);
            put(&store, &disk, n, value, &mut now);
            value += 1;
        }
        store.flush(&disk);
        drop(store);
        let options = Options { size: Some(size_of(150)), ..options() };
        let shrink = || {
            let there = layout(&disk, disk.bytes().len());
            disk.set_faults(Faults { read: 150, ..Faults::default() });
            let done = of_size(&disk, there, &options);
            disk.set_faults(Faults::default());
            done
        };
        while shrink().is_err() {}
        let store = start(&disk, &disk, 150).unwrap();
        for (n, value) in values {
            let found = get(&store, &disk, n);
            assert!(found.is_none_or(|found| found == value), "seed {seed}: key {n}, {found:?}");
            kept += u32::from(found.is_some());
        }
    }
    assert!(kept > 1_000, "{kept} were kept");
}

/// A start that goes on without it would write what hides it.
#[test]
fn a_start_that_cannot_read_all_leaves_a_cache_that_shrinks_as_it_is() {
    let (disk, store) = make(200, 1);
    let (mut now, mut n) = (0, 0);
    while store.newest() < 410 {
        put(&store, &disk, n, 1, &mut now);
        n += 1;
    }
    store.flush(&disk);
    drop(store);
    let shrinks = (0..100).any(|calls| {
        disk.interrupt_after(Some(calls));
        assert!(start(&disk, &disk, 150).is_err());
        layout(&disk, disk.bytes().len()).is_shrinking()
    });
    disk.interrupt_after(None);
    let before = disk.bytes();
    // Of what was put last.
    disk.fail_reads_in(size_of(9)..size_of(11));
    let refused = start(&disk, &disk, 150).err().unwrap();
    assert!(shrinks && refused.contains("check the disk"), "{refused}");
    // The other superblock was not written yet.
    assert!(disk.bytes()[2 * BLOCK..] == before[2 * BLOCK..]);
    disk.fail_reads_in(0..0);
    let store = start(&disk, &disk, 150).unwrap();
    assert_eq!(get(&store, &disk, n - 1), Some(1));
}

/// A disk says that it has written, and has not: what it has then is the size before.
#[test]
fn a_size_that_is_not_there_is_not_gone_by() {
    let (disk, mut store) = make(30, 1);
    let (mut changed, mut refused) = (0, 0);
    for segments in [20, 40, 21, 30].into_iter().cycle().take(80) {
        put(&store, &disk, 1, segments, &mut 0);
        store.flush(&disk);
        drop(store);
        disk.set_faults(Faults { lost: 200, ..Faults::default() });
        let started = start(&disk, &disk, segments);
        disk.set_faults(Faults::default());
        match started {
            Ok(_) => changed += 1,
            Err(ref why) => refused += u32::from(why.contains("is not there")),
        }
        let bytes = disk.bytes();
        let there = COPIES.map(|at| superblock::decode(&bytes[at as usize..]).unwrap());
        assert!(started.is_err() || there[0] == there[1] && there[0].segments == segments);
        store = start(&disk, &disk, there[0].in_turn()).unwrap();
    }
    assert!(changed > 10 && refused > 10, "{changed} and {refused}");
}

/// All tables are there, and say the same.
#[test]
fn a_cache_without_a_root_changes_its_size() {
    let (disk, store) = make(200, 1);
    let (mut now, mut n) = (0, 0);
    while store.newest() < 390 {
        put(&store, &disk, n, 1, &mut now);
        n += 1;
    }
    store.flush(&disk);
    drop(store);
    let spoilt = vec![7; root::COPY];
    for segments in [130, 170] {
        root::COPIES.iter().for_each(|at| disk.write(*at, &spoilt).unwrap());
        let store = start(&disk, &disk, segments).unwrap();
        let kept = (0..n).filter(|n| get(&store, &disk, *n).is_some()).count();
        assert!(kept > 500, "{kept} in {segments}");
    }
}

#[test]
fn a_size_that_places_do_not_reach_is_refused() {
    let (disk, store) = make(20, 1);
    drop(store);
    let there = layout(&disk, disk.bytes().len());
    let size = |bytes| Options { size: Some(bytes), ..options() };
    let refused = of_size(&disk, there, &size(5 << 40)).unwrap_err();
    assert!(refused.contains("beyond 4096 GiB in place") && refused.contains("remove the file"), "{refused}");
    let refused = of_size(&disk, there, &size(300 << 40)).unwrap_err();
    assert!(refused.contains("300 TiB is too large: at most 256 TiB"), "{refused}");
    assert!(disk.bytes().len() as u64 == size_of(20));
}

#[test]
fn a_cache_that_is_given_another_size_again_and_again_says_when_to_stop() {
    let (disk, store) = make(20, 1);
    put(&store, &disk, 0, 1, &mut 0);
    store.flush(&disk);
    drop(store);
    let refused = (21..40).find_map(|segments| match start(&disk, &disk, segments) {
        Ok(store) => {
            put(&store, &disk, 1, 1, &mut 0);
            store.flush(&disk);
            None
        }
        Err(why) => Some((segments, why)),
    });
    let (segments, why) = refused.unwrap();
    assert!(segments >= 27 && why == format!("it keeps {} segments", segments - 1), "{segments}: {why}");
    let store = start(&disk, &disk, segments - 1).unwrap();
    assert_eq!(get(&store, &disk, 0), Some(1));
}

/// However many segments were opened before the size changed.
#[test]
fn a_start_that_finds_nothing_reads_the_log_once() {
    struct Counts<'a>(&'a SimDisk, std::sync::atomic::AtomicU64);
    impl Disk for Counts<'_> {
        fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
            self.1.fetch_add(1, Relaxed);
            self.0.read(offset, buffer, length)
        }
        fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write(offset, bytes)
        }
        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
        fn read_block(&self) -> usize {
            self.0.read_block()
        }
    }
    for seq in [1_000, 10_000, 100_000] {
        let (first, store) = make(100, 1);
        drop(store);
        let there = layout(&first, first.bytes().len());
        // As a change of size does after so many segments were opened.
        let resized = there.resized(seq, 110).unwrap();
        let bytes = size_of(110) as usize;
        let disk = SimDisk::new(bytes, StdRng::seed_from_u64(1));
        disk.write(0, &first.bytes()[..DATA_START as usize]).unwrap();
        COPIES.iter().for_each(|at| disk.write(*at, &superblock::encode(&resized)).unwrap());
        let again = layout(&disk, bytes);
        assert_eq!(again.eras.list().len(), 2);
        let pool = Pool::new(1 << 20);
        let counts = Counts(&disk, Default::default());
        let reads = Reads::new(&counts, &pool);
        let index = Index::of(&again, options().objects(&again));
        let (state, found) = recover(&reads, again, stretch(again.segments), index).unwrap();
        let reads = counts.1.load(Relaxed);
        assert!(reads < 2_000 && !found.unread && state.seq == seq, "{reads} reads, then {}", state.seq);
    }
}
