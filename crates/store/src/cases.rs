//! What the histories of `model` are too short, or their caches too small, to come to.

use crate::buffer::Pool;
use crate::by_hand::ByHand;
use crate::digester::Digester;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::engine::{Engine, Io, Op, State};
use crate::format::Layout;
use crate::format::digest::Event;
use crate::format::fence::Fence;
use crate::format::record::{self, Record};
use crate::format::root::{self, Root};
use crate::index::Index;
use crate::{Key, Options};
use rand::{SeedableRng, rngs::StdRng};

pub fn key(n: u32) -> Key {
    Key::new(format!("key {n}").into_bytes())
}

pub fn disk(size: u64) -> SimDisk {
    SimDisk::new(size as usize, StdRng::seed_from_u64(1))
}

/// A record of 64 pages does not fit half a segment of less than 1 MiB.
#[test]
fn digests_are_made_in_small_packets_too() {
    let size = 64 << 20;
    let disk = disk(size);
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let store = ByHand::make(&disk, size, &options, 1).unwrap();
    for n in 0..20_000 {
        let _ = store.put(&key(n), b"meta", &[7; 100]);
        if n % 50 == 0 {
            store.turn(&disk, u64::from(n) * 10);
        }
    }
    store.turn(&disk, 10_000_000);
    store.flush(&disk);
    let engine = store.engine();
    let (digests, idle) = (engine.counters().digests, engine.is_idle());
    println!("segments {} digests {digests} idle {idle}", engine.counters().segments);
    assert!(digests > 0 && idle);
}

/// More events than may wait before as many segments as a digest is for.
#[test]
fn events_that_wait_are_a_reason_for_a_digest() {
    let layout = Layout::new(4 << 20, 1 << 16, 9);
    let stretch = crate::digester::stretch(layout.segments);
    let mut digester =
        Digester::new(&layout, stretch, Root::default(), Default::default(), Fence::default(), 0);
    let mut order = 0;
    // As many as puts are refused at (`EVENTS_BYTES`), of 400 bytes each: 10,000 in a segment.
    while order < 4_100_000 {
        digester.note(Event::removal(order));
        order += 1;
    }
    digester.tick(order, order / 10_000, false, 1_000_000);
    assert!(digester.is_active(), "{order} events wait, puts are refused, and no digest begins");
}

/// A disk that has something to write whenever it is done with a write.
#[test]
fn a_digest_does_not_wait_for_writes_that_never_end() {
    let size = 64 << 20;
    let disk = disk(size);
    let options = Options { packet: 64 << 10, ..Options::at("") };
    ByHand::make(&disk, size, &options, 1).unwrap();
    let shared = again(&disk, &options);
    let mut n = 0;
    for _ in 0..2_000 {
        while shared.put_anyway(&key(n), b"meta", &[7; 1000]).is_ok() {
            n += 1;
        }
        let Some(Io { id, op }) = shared.engine().next_io() else { panic!("nothing to do after {n} puts") };
        let result = shared.carry_out(&disk, op);
        shared.engine().done(id, result, u64::from(n));
    }
    let counters = shared.engine().counters();
    assert!(counters.segments > 1_000 && counters.digests > 2, "{counters:?}");
}

/// What is told of the log: how full it is, when it comes round, and what a start would have to read.
#[test]
fn how_far_the_log_is_can_be_told() {
    let size = 64 << 20;
    let disk = disk(size);
    let options = Options { packet: 64 << 10, ..Options::at("") };
    ByHand::make(&disk, size, &options, 1).unwrap();
    let shared = again(&disk, &options);
    let (segments, segment) = (shared.layout.segments, 64u64 << 10);
    let stretch = crate::digester::stretch(segments).unwrap();
    let mut now = 0;
    let mut put = |count: u32| {
        for n in 0..count {
            now += 10;
            let _ = shared.put_anyway(&key(n), b"meta", &[7; 10_000]);
            shared.engine().tick(now);
            loop {
                let next = shared.engine().next_io();
                let Some(Io { id, op }) = next else { break };
                let result = shared.carry_out(&disk, op);
                shared.engine().done(id, result, now);
            }
        }
        now
    };
    assert_eq!(shared.engine().lap(0), 0);
    let now = put(1_000);
    let engine = shared.engine();
    let (opened, filled, lap) = (engine.counters().segments, engine.filled(), engine.lap(now));
    drop(engine);
    assert!(
        opened < segments && (filled / segment).abs_diff(opened) <= 1,
        "{opened} segments, {filled} bytes"
    );
    let expected = now / 1000 * segments / opened;
    assert!(lap.abs_diff(expected) <= expected / 4, "{lap} of {expected}");
    let now = put(9_000);
    let engine = shared.engine();
    assert!(engine.counters().segments > segments && engine.filled() == segments * segment);
    let (age, undigested) = engine.undigested(now);
    assert!(undigested <= 3 * stretch && age < now / 1000 / 4, "{undigested} segments, {age} s of {now} ms");
    assert_eq!(engine.undigested(now + 5_000), (age + 5, undigested));
}

/// A start on the disk.
fn opened(disk: &SimDisk, options: &Options) -> std::sync::Arc<crate::shared::Shared> {
    let pool = crate::buffer::Pool::new(1 << 20);
    let (state, _) = recovered(disk, options);
    let clock = crate::shared::Clock::Holder(std::sync::atomic::AtomicU64::new(0));
    let device = (Default::default(), disk.read_block());
    crate::shared::Shared::new(state, options, pool, device, StdRng::seed_from_u64(1), clock)
}

/// A start, until nothing is left to be done.
fn again(disk: &SimDisk, options: &Options) -> std::sync::Arc<crate::shared::Shared> {
    let shared = opened(disk, options);
    for now in 0..100 {
        shared.engine().tick(now);
        while shared.carry_out_all(disk) {}
    }
    shared
}

/// Objects that a full index let go of lie in the log still, and a start brings all of them in.
#[test]
fn an_index_has_no_more_after_a_start_than_it_may() {
    let size = 64 << 20;
    let disk = disk(size);
    let options = Options { packet: 1 << 18, index_max: Some(2_000), ..Options::at("") };
    let store = ByHand::make(&disk, size, &options, 1).unwrap();
    for n in 0..40_000 {
        let _ = store.put(&key(n), b"meta", &[7; 1000]);
        if n % 50 == 0 {
            store.turn(&disk, u64::from(n) * 10);
        }
    }
    store.turn(&disk, 10_000_000);
    store.flush(&disk);
    let before = store.engine().counters();
    let len = store.len();
    let there: Vec<u32> = (0..40_000).filter(|n| store.holds(&key(*n))).collect();
    let shared = again(&disk, &options);
    let left = there.iter().filter(|n| shared.index.find(shared.hash(&key(**n))).is_some()).count();
    println!("{left} of {} that were there", there.len());
    println!("{before:?} had {len}, has {}", shared.index.len());
    assert!(shared.index.len() <= 2_100, "{} entries", shared.index.len());
    assert!(left * 10 > there.len() * 8, "and of those that were there {left} of {}", there.len());
}

/// A log that has come round by one segment exactly since the root was written: that segment is open.
#[test]
fn a_removal_in_the_segment_that_laps_the_root_stays() {
    let segments = 130;
    let size = (1 << 20) + segments * (64 << 10);
    let disk = disk(size);
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let store = ByHand::make(&disk, size, &options, 1).unwrap();
    disk.fail_writes_in(root::COPIES[0]..root::COPIES[1] + root::COPY as u64);
    let (mut n, mut now) = (0, 0);
    while store.engine().newest() < segments {
        let _ = store.put(&key(n), b"meta", &[7; 1000]);
        (n, now) = (n + 1, now + 10);
        store.turn(&disk, now);
    }
    let gone = key(n - 100);
    assert!(store.get(&disk, &gone).is_some());
    store.remove(&gone);
    now += 10_000;
    store.turn(&disk, now);
    assert!(store.engine().unwritten_since().is_none() && store.get(&disk, &gone).is_none());
    let shared = again(&disk, &options);
    println!("{:?}", shared.engine().newest());
    assert!(shared.index.find(shared.hash(&gone)).is_none(), "what was removed is back");
}

/// A write that hangs, while 65,536 others are done.
#[test]
fn readers_know_of_unwritten_segments_however_many() {
    let layout = Layout::new(64 << 10, 1 << 20, 9);
    let unwritten = crate::engine::Unwritten::default();
    unwritten.set(5, 70_000);
    assert!(unwritten.has(&layout, 5) && unwritten.has(&layout, 70_004));
}

/// What a start found of a large log that has no root: more events than may wait.
#[test]
fn after_a_survey_of_a_large_log_digests_are_made_again() {
    let layout = Layout::new(1 << 20, 1 << 16, 9);
    let stretch = crate::digester::stretch(layout.segments);
    let events: Vec<Event> = (0..4_200_000).map(Event::removal).collect();
    let mut digester =
        Digester::new(&layout, stretch, Root::default(), (Vec::new(), events), Fence::default(), 4_300_000);
    digester.tick(4_300_000, 60_000, false, 1_000);
    assert!(digester.is_active() && digester.is_urgent());
}

/// Records of another cache lie on the medium, with higher numbers.
#[test]
fn what_an_earlier_cache_left_says_nothing_of_this_one() {
    let size = 64 << 20;
    let disk = disk(size);
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let run = |seed, count: u32| {
        let store = ByHand::make(&disk, size, &options, seed).unwrap();
        for n in 0..count {
            let _ = store.put(&key(n), b"meta", &[7; 1000]);
            if n % 20 == 0 {
                store.turn(&disk, u64::from(n) * 10);
            }
        }
        store.flush(&disk);
        let engine = store.engine();
        (engine.newest(), engine.counters().digests)
    };
    println!("{:?}", run(1, 100_000));
    disk.write(0, &vec![0; 1 << 20]).unwrap();
    println!("{:?}", run(2, 10_000));
    let (state, found) = recovered(&disk, &options);
    println!("{found:?} {} digests", state.root.digests.len());
    assert!(found.scanned < 200 && !state.root.digests.is_empty(), "the whole log is read");
}

pub fn layout_of(disk: &SimDisk) -> Layout {
    let mut block = crate::buffer::Buffer::new(4096);
    disk.read(0, &mut block, 4096).unwrap();
    crate::format::superblock::decode(&block).unwrap()
}

pub fn recovered(disk: &SimDisk, options: &Options) -> (crate::engine::State, crate::recovery::Recovered) {
    let layout = layout_of(disk);
    let pool = crate::buffer::Pool::new(1 << 20);
    let index = crate::index::Index::of(&layout, options.objects(&layout));
    let reads = crate::reads::Reads::new(disk, &pool);
    crate::recovery::recover(&reads, layout, crate::digester::stretch(layout.segments), index).unwrap()
}

/// A write that was lost left there what an earlier turn had, of the same key.
#[test]
fn what_is_put_again_is_what_the_table_lists() {
    let size = 4 << 20;
    let disk = disk(size);
    let options = Options { packet: 64 << 10, cmax: 1, admission: crate::Admission::All, ..Options::at("") };
    let store = ByHand::make(&disk, size, &options, 1).unwrap();
    let layout = layout_of(&disk);
    for n in [1, 2] {
        store.put(&key(n), b"meta", b"newer").unwrap();
    }
    let mut n = 100;
    let mut fill = |until| {
        while store.engine().newest() < until {
            store.put(&key(n), b"meta", &[7; 9_000]).unwrap();
            store.turn(&disk, 0);
            n += 1;
        }
    };
    fill(3);
    assert!([1, 2].iter().all(|n| store.get(&disk, &key(*n)).is_some()), "they are used");
    let at = layout.offset(store.slot_for_tests(&key(1)).unwrap().place) as usize;
    let mut bytes = disk.bytes();
    let found = record::parse(layout.identity, &bytes[at..]).unwrap();
    let key_of = bytes[at..][found.key].to_vec();
    let older = Record::new(layout.identity, found.about, &key_of, b"meta", b"older").unwrap();
    let size = older.size(layout.unit);
    older.copy_to(found.order - 1, u64::from(found.seq), &mut bytes[at..at + size]);
    disk.write(0, &bytes).unwrap();
    fill(layout.segments + 3);
    assert!(store.engine().counters().put_again > 0 && store.get(&disk, &key(2)).is_some());
    assert!(store.get(&disk, &key(1)).is_none(), "the older one came back");
}

/// Of an index that was full, a start brings back what it had.
#[test]
fn a_full_index_is_as_it_was_after_a_start() {
    use std::sync::Arc;
    use std::time::Duration;
    let size = 256 << 20;
    let disk = Arc::new(disk(size));
    let options = Options { packet: 1 << 20, size: Some(size), index_max: Some(200_000), ..Options::at("") };
    let store = crate::Store::over(disk.clone(), &options).unwrap();
    let total = 600_000;
    for n in 0..total {
        while store.put(&key(n), b"", &[]).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(store.persist(Duration::from_secs(20)));
    let there: Vec<u32> = (0..total).filter(|n| store.contains(&key(*n))).collect();
    store.abandon();
    drop(store);
    let store = crate::Store::over(disk, &options).unwrap();
    while store.stats().parts_left > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let left = there.iter().filter(|n| store.contains(&key(**n))).count();
    println!("{left} of {} that were there, {} in all", there.len(), store.stats().objects);
    let mut refused = 0;
    while store.put(&key(total), b"", &[]).is_err() {
        refused += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    println!("{refused} refused");
    assert!(left * 10 > there.len() * 9);
}

/// A cache of 64 MiB that took so many objects of so many bytes, with the digests of most of them.
pub fn filled(options: &Options, objects: u32, bytes: usize) -> SimDisk {
    let size = 64 << 20;
    let disk = disk(size);
    let store = ByHand::make(&disk, size, options, 1).unwrap();
    for n in 0..objects {
        while store.put(&key(n), b"meta", &vec![7; bytes]).is_err() {
            store.turn(&disk, u64::from(n) * 10);
        }
        if n % 50 == 0 {
            store.turn(&disk, u64::from(n) * 10);
        }
    }
    store.turn(&disk, 10_000_000);
    store.flush(&disk);
    disk
}

/// Whoever holds the engine keeps puts waiting: the index is loaded while nobody does.
#[test]
fn the_engine_is_not_held_while_the_index_is_loaded() {
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let disk = filled(&options, 20_000, 100);
    let shared = opened(&disk, &options);
    assert!(shared.engine().parts_left() > 0 && shared.index.len() < 10_000);
    while shared.engine().parts_left() > 0 {
        let before = shared.index.len();
        let Io { id, op } = shared.engine().next_io().expect("more to load");
        assert_eq!(shared.index.len(), before);
        let result = shared.carry_out(&disk, op);
        let before = shared.index.len();
        shared.engine().done(id, result, 0);
        assert_eq!(shared.index.len(), before);
    }
    assert_eq!(shared.index.len(), 20_000);
}

/// Whoever puts as fast as the disk takes it does not keep the index from being loaded, nor the other way round.
#[test]
fn the_index_is_loaded_while_writes_never_end() {
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let disk = filled(&options, 20_000, 100);
    let shared = opened(&disk, &options);
    let (mut n, mut writes) = (100_000, 0);
    for turn in 0..2_000 {
        while shared.put_whole(&key(n), b"", &[1; 8_000]).is_ok() {
            n += 1;
        }
        let Io { id, op } = shared.engine().next_io().expect("something to do");
        writes += usize::from(matches!(op, Op::Write { .. }));
        let result = shared.carry_out(&disk, op);
        shared.engine().done(id, result, 0);
        if shared.engine().parts_left() == 0 {
            assert!(writes > turn / 4, "{writes} writes in {turn} turns");
            return;
        }
    }
    panic!("{} parts left after {writes} writes", shared.engine().parts_left());
}

/// Whether the work on the index is done before or after.
#[test]
fn what_happens_while_a_part_is_loaded_prevails() {
    let options = Options { packet: 64 << 10, ..Options::at("") };
    for carried_out_before in [false, true] {
        let disk = filled(&options, 20_000, 100);
        let shared = opened(&disk, &options);
        // One part after the other.
        (0..9).for_each(|n| shared.want(shared.hash(&key(n))));
        let mut turns = 0;
        let is_replayed = |n: &u32| shared.index.find(shared.hash(&key(*n))).is_some();
        let oldest = (0..20_000).find(is_replayed).unwrap_or(20_000);
        while shared.engine().parts_left() > 0 {
            let Io { id, op } = shared.engine().next_io().expect("more to load");
            let Op::Index(work) = op else {
                let result = shared.carry_out(&disk, op);
                shared.engine().done(id, result, 0);
                continue;
            };
            let (mut work, mut answer) = (Some(work), None);
            if carried_out_before {
                answer = work.take().map(|work| work.carry_out(&shared.index));
            }
            // All of these are in digests.
            let (mut puts, from) = (Vec::new(), turns * 100);
            (from..from + 40).for_each(|n| shared.engine().remove(shared.hash(&key(n)), 0));
            for n in from + 40..from + 60 {
                shared.put_whole(&key(n), b"meta", &[8; 100]).unwrap();
                let slot = shared.index.find(shared.hash(&key(n))).unwrap();
                puts.push((n, slot.place));
            }
            turns += 1;
            let answer = answer.or_else(|| work.map(|work| work.carry_out(&shared.index)));
            shared.engine().done(id, Ok(answer.unwrap()), 0);
            for n in from..from + 40 {
                assert!(shared.index.find(shared.hash(&key(n))).is_none(), "{n} was removed");
            }
            for (n, place) in puts {
                let found = shared.index.find(shared.hash(&key(n))).map(|slot| slot.place);
                assert_eq!(found, Some(place), "{n} was put");
            }
        }
        assert!(turns > 3 && turns * 100 < oldest, "{turns}, {oldest}");
        for n in 0..20_000 {
            let there = n >= turns * 100 || n % 100 >= 40;
            assert_eq!(shared.index.find(shared.hash(&key(n))).is_some(), there, "{n}");
        }
    }
}

/// The log goes on while a part is loaded, before the work on the index and after it.
#[test]
fn nothing_is_loaded_of_what_is_swept_meanwhile() {
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let disk = filled(&options, 12_000, 8_000);
    for carried_out_before in [false, true] {
        let shared = opened(&disk, &options);
        let (work, id) = loop {
            let Io { id, op } = shared.engine().next_io().expect("something to load");
            let Op::Index(work) = op else {
                let result = shared.carry_out(&disk, op);
                shared.engine().done(id, result, 0);
                continue;
            };
            break (work, id);
        };
        let (mut work, mut answer) = (Some(work), None);
        if carried_out_before {
            answer = work.take().map(|work| work.carry_out(&shared.index));
        }
        let before = shared.engine().swept();
        let mut n = 12_000;
        while n < 12_300 {
            n += u32::from(shared.put_whole(&key(n), b"meta", &[7; 8_000]).is_ok());
            shared.carry_out_all(&disk);
        }
        assert!(shared.engine().swept() > before.map(|seq| seq + 10));
        let answer = answer.or_else(|| work.map(|work| work.carry_out(&shared.index)));
        shared.engine().done(id, Ok(answer.unwrap()), 0);
        shared.engine().flush();
        while shared.carry_out_all(&disk) {}
        assert_eq!(shared.engine().parts_left(), 0);
        let (bytes, layout, mut left) = (disk.bytes(), shared.layout, 0);
        for n in 0..12_300 {
            let Some(slot) = shared.index.find(shared.hash(&key(n))) else { continue };
            let at = layout.offset(slot.place) as usize;
            let record = crate::format::record::parse(layout.identity, &bytes[at..at + slot.length as usize]);
            assert!(record.is_some_and(|found| bytes[at..][found.key] == key(n).bytes()[..]), "{n}");
            left += 1;
        }
        assert!(left > 6_000, "{left}");
    }
}

/// A table that cannot be read for a moment says later what leaves the index.
#[test]
fn a_table_is_read_again_before_its_segment_is_written_over() {
    let (size, options) = (3 << 20, Options { packet: 64 << 10, ..Options::at("") });
    let disk = disk(size);
    let store = ByHand::make(&disk, size, &options, 1).unwrap();
    let layout = crate::format::Layout::new(64 << 10, 32, 0);
    let (mut n, mut now, mut failed) = (0, 0, 0);
    while store.engine().newest() < 4 * layout.segments {
        // The next tables, once a lap, while one segment is filled.
        let newest = store.engine().newest();
        let fails = newest % layout.segments == 9 && newest > layout.segments;
        let ahead = layout.start(layout.number(newest + 1))..layout.start(layout.number(newest + 22));
        disk.fail_reads_in(if fails { ahead } else { 0..0 });
        failed += u32::from(fails);
        now += 10;
        store.turn(&disk, now);
        let _ = store.put(&key(n), b"meta", &[7; 3_000]);
        n += 1;
    }
    disk.fail_reads_in(0..0);
    store.flush(&disk);
    let entries = store.len();
    let sound = (0..n).filter(|n| store.get(&disk, &key(*n)).is_some()).count();
    assert!(failed > 20 && entries > 400 && sound == entries, "{failed} {sound} of {entries}");
}

/// Segments without a table are read whole, but no more of them is kept than what is to be written.
#[test]
fn what_is_kept_of_packets_that_were_left_open_has_a_bound() {
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let disk = filled(&options, 20_000, 100);
    let (state, _) = recovered(&disk, &options);
    let layout = state.layout;
    for number in 0..layout.segments {
        disk.write(layout.start(number) + u64::from(layout.segment) - 4096, &[0; 4096]).unwrap();
    }
    // And no root: all of them are left open.
    disk.write(root::COPIES[0], &vec![0; 2 * root::COPY]).unwrap();
    let (state, found) = recovered(&disk, &options);
    assert!(found.replayed > 19_000 && state.index.len() > 19_000, "{found:?} {}", state.index.len());
    let kept: usize = state.left_open.iter().map(|batch| batch.image.len() + 32 * batch.entries.len()).sum();
    assert!(state.left_open.len() > 5 && kept <= crate::recovery::LEFT_OPEN, "{kept}");
    // What is found of them is read from the medium.
    let shared = opened(&disk, &options);
    let slot = (0..20_000).find_map(|n| shared.index.find(shared.hash(&key(n)))).unwrap();
    assert!(
        shared.unwritten.has(&layout, layout.segment_of(slot.place)) && shared.engine().peek(slot).is_none()
    );
}

/// More events than memory has room for are read again from the tables: while the root cannot be written, and after a start that
/// finds no root.
#[test]
fn digests_catch_up_with_what_memory_had_no_room_for() {
    let (size, options) = (64 << 20, Options { packet: 64 << 10, ..Options::at("") });
    let most = crate::digester::most_events(crate::digester::stretch(1_008), 64 << 10) as u32;
    let disk = disk(size);
    let store = ByHand::make(&disk, size, &options, 1).unwrap();
    let roots = root::COPIES[0]..root::COPIES[1] + root::COPY as u64;
    disk.fail_writes_in(roots.clone());
    let objects = 20 * most;
    for n in 0..objects {
        while store.put(&key(n), b"meta", &[7; 100]).is_err() {
            store.turn(&disk, u64::from(n) * 10);
        }
        if n % 5 == 4 {
            store.remove(&key(n - 2));
        }
        store.turn(&disk, u64::from(n) * 10);
    }
    assert_eq!(store.engine().counters().digests, 0);
    assert!(store.engine().digester().events_in_memory() < 3 * most as usize);
    disk.fail_writes_in(0..0);
    for now in 0..200 {
        store.turn(&disk, 10_000_000 + now * 10_000);
    }
    store.flush(&disk);
    store.turn(&disk, 20_000_000);
    let made = store.engine().counters().digests;
    let there = |shared: &crate::shared::Shared| {
        let found = |n: &u32| shared.index.find(shared.hash(&key(*n))).is_some();
        (0..objects).all(|n| found(&n) == (n % 5 != 2))
    };
    let (state, found) = recovered(&disk, &options);
    assert!(made > 10 && found.replayed < u64::from(2 * most), "{made} {found:?}");
    assert_eq!(state.root.digests.len() as u64, made);
    assert!(there(&again(&disk, &options)));

    disk.write(roots.start, &vec![0; 2 * root::COPY]).unwrap();
    let (state, found) = recovered(&disk, &options);
    assert!(
        found.replayed > u64::from(objects) && state.events.len() < most as usize && state.behind.len() > 10
    );
    // A start with no root makes them again, and the next one has them.
    let shared = again(&disk, &options);
    assert!(there(&shared) && shared.engine().counters().digests > 10);
    let (state, found) = recovered(&disk, &options);
    assert!(state.root.digests.len() > 10 && found.replayed < u64::from(2 * most), "{found:?}");
    assert!(there(&again(&disk, &options)));
}

/// How long the engine is held, and how long all takes, when a million objects are loaded. Run it by name; it only prints.
#[test]
#[ignore = "a measurement"]
fn loading_a_million_objects_is_measured() {
    use crate::Store;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    let size = 512 << 20;
    let disk = Arc::new(disk(size));
    let options =
        Options { packet: 1 << 20, size: Some(size), index_max: Some(1_200_000), ..Options::at("") };
    let store = Store::over(disk.clone(), &options).unwrap();
    let total = 1_000_000;
    for n in 0..total {
        while store.put(&key(n), b"", &[]).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(store.close());
    drop(store);
    for round in 0..3 {
        let shared = opened(&disk, &options);
        let (began, mut longest) = (Instant::now(), (Duration::ZERO, Duration::ZERO));
        loop {
            let asked = Instant::now();
            let io = shared.engine().next_io();
            longest.0 = longest.0.max(asked.elapsed());
            let Some(Io { id, op }) = io else { break };
            let result = shared.carry_out(&*disk, op);
            let asked = Instant::now();
            shared.engine().done(id, result, 0);
            longest.1 = longest.1.max(asked.elapsed());
        }
        let (all, left) = (began.elapsed(), shared.engine().parts_left());
        println!(
            "by hand {round}: {} objects in {all:?}, held {longest:?} at most, {left} parts left",
            shared.index.len()
        );
    }
    for round in 0..3 {
        let store = Store::over(disk.clone(), &options).unwrap();
        let (began, mut waits, mut n) = (Instant::now(), Vec::new(), total);
        while store.stats().parts_left > 0 {
            let asked = Instant::now();
            let _ = store.put(&key(n), b"", &[]);
            waits.push(asked.elapsed());
            n += 1;
            std::thread::sleep(Duration::from_micros(200));
        }
        waits.sort();
        println!(
            "with threads {round}: {} objects in {:?}, {} puts waited {:?} at most, the 99th of a hundred {:?}",
            store.stats().objects,
            began.elapsed(),
            waits.len(),
            waits.last(),
            waits.get(waits.len() * 99 / 100)
        );
        store.abandon();
    }
}

/// A removal that waits for a segment, while it is read what lay there.
#[test]
fn what_a_close_syncs_has_the_removals_that_waited() {
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let disk = filled(&options, 12_000, 8_000);
    disk.sync().unwrap();
    let shared = opened(&disk, &options);
    shared.engine().remove(shared.hash(&key(11_999)), 0);
    shared.engine().finish();
    let wanted: Vec<Io> = std::iter::from_fn(|| shared.engine().next_io()).collect();
    let syncs = wanted.iter().filter(|io| matches!(io.op, Op::Sync)).count();
    assert!(!wanted.is_empty() && syncs == 0, "{syncs} of {}, and the removal is not written", wanted.len());
    for Io { id, op } in wanted {
        let result = shared.carry_out(&disk, op);
        shared.engine().done(id, result, 0);
    }
    shared.engine().tick(10_000);
    while shared.carry_out_all(&disk) {}
    assert!(shared.engine().is_idle());
    assert!(!disk.is_unsynced(), "closed, and the removal is not synced");
    let again = again(&disk, &options);
    assert!(again.index.find(again.hash(&key(11_999))).is_none());
}

/// A kill took most of what was opened since the root was written. What a start leaves out since the root says that it was swept stays
/// swept: else a removal of it, of which the index knows nothing, is not noted, and the next digest brings it back.
#[test]
fn what_had_left_before_a_start_has_left_after_it() {
    let layout = Layout::new(64 << 10, 96, 9);
    let engine = |swept| {
        let root = Root { generation: 3, order: 1, seq: 59, swept, digests: Vec::new() };
        let state = State { seq: 77, root, ..State::blank(layout, Index::of(&layout, 1_000)) };
        Engine::new(state, 500, Pool::new(1 << 20))
    };
    assert_eq!(engine(162).swept(), Some(162 - 96 - 1));
    // What a lap and more had been lost of: all that there is.
    assert_eq!(engine(500).swept(), Some(76));
}

/// A block that cannot be read costs what lies in it, not what lies beside it.
#[test]
fn a_bad_block_costs_no_neighbours() {
    let size = 4 << 20;
    let options = Options { packet: 128 << 10, group: 16 << 10, group_memory: 1 << 20, ..Options::at("") };
    let disk = disk(size);
    let store = ByHand::make(&disk, size, &options, 1).unwrap();
    for n in 0..200 {
        store.put(&key(n), b"", &[7; 2_000]).unwrap();
        store.turn(&disk, 0);
    }
    store.flush(&disk);
    store.turn(&disk, 10_000);
    let layout = layout_of(&disk);
    let offset = |n| layout.offset(store.slot_for_tests(&key(n)).unwrap().place);
    // Of one group: the blocks of the first are not those of the last.
    let n = (0..60).find(|n| offset(*n) % (16 << 10) < 2_048).unwrap();
    let bad = offset(n) / (16 << 10) * (16 << 10) + (12 << 10);
    disk.fail_reads_in(bad..bad + 4096);
    assert!(offset(n) + 2_112 < bad);
    assert!(store.get(&disk, &key(n)).is_some(), "lost, and its own blocks can be read");
}
