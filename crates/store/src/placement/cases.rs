//! What must hold of placement, and did not.

use super::*;
use crate::by_hand::ByHand;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::{Body, Buffer, Key, Options, Refused, Uses, WriteBudget};
use bytes::Bytes;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::io;
use std::time::Duration;

const SEGMENTS: u64 = 64;
const MIB: u64 = 1 << 20;

fn lapped() -> Placement {
    let placement = Placement::new(Admission::Worth, None, (SEGMENTS, MIB), 16_000);
    placement.opened(0, true, 0);
    placement
}

/// What was counted is taken over.
fn turn(placement: &mut Placement) {
    let segment = placement.segment;
    placement.pass(segment);
}

fn slot(uses: u8, again: bool, length: u32) -> Slot {
    Slot { place: 1, length, uses, again }
}

fn hash(n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&n.to_le_bytes())
}

/// A lap of 64 MiB, of which two in ten 8 KiB were hit in the oldest part.
fn with_a_lap(placement: &mut Placement) {
    for _ in 0..4 * SEGMENTS {
        (0..3).for_each(|_| _ = placement.live.was_hit(&slot(2, false, 8192), 1, 8192));
        placement.was_put(0, MIB, None, Standing::New);
    }
}

#[test]
fn the_young_are_not_put_again_where_nothing_old_is_hit() {
    let placement = lapped();
    // Segment 0 is open.
    assert!(!placement.live.was_used(&slot(3, false, 8192), 0, 16));
    assert!(!placement.live.was_hit(&slot(3, false, 8192), 63, 8192));
}

#[test]
fn hits_on_one_large_object_do_not_shut_out_all_others() {
    let mut placement = lapped();
    with_a_lap(&mut placement);
    assert!(placement.live.rates(8192).pays(2, 8192));
    // HEAD, or a byte of it, again and again, until the next segment opens.
    for _ in 0..1000 {
        placement.live.was_hit(&slot(3, false, 400), 1, 4 * MIB);
    }
    turn(&mut placement);
    let mut stored = 0;
    for n in 0..20_000 {
        // One in four comes back, ten times.
        let times = if n % 4 == 0 { 10 } else { 1 };
        if (0..times).any(|_| placement.admits(hash(n), 8192, None, 0.5).is_some()) {
            placement.was_put(hash(n), 8192, Some(8192), Standing::New);
            stored += 1;
        }
    }
    assert!(stored > 100, "{stored} of 5000, price {}", placement.live.rates(8192).price);
}

#[test]
fn hits_on_one_object_say_little_of_its_size() {
    let mut placement = lapped();
    with_a_lap(&mut placement);
    let live = placement.live();
    assert!(live.was_used(&slot(3, false, 8192), 1, 16), "old");
    for _ in 0..10_000 {
        live.was_hit(&slot(3, true, 8192), 63, 8192);
    }
    turn(&mut placement);
    assert!(live.was_used(&slot(3, false, 8192), 1, 16), "share {}", live.rates(8192).share);
}

/// What comes back is worth no less than what was never seen.
#[test]
fn what_came_back_is_let_in_where_the_unknown_are() {
    let mut placement = lapped();
    with_a_lap(&mut placement);
    // Of a size of which nearly all come back.
    for _ in 0..1000 {
        placement.worth.seen_once(200_000);
        placement.worth.came_back(200_000);
    }
    // And a class of which what was put again was rarely hit, from the disk.
    placement.worth.put_again(200_000, 3);
    for _ in 0..100 {
        placement.worth.put_again(200_000, 3);
    }
    placement.publish();
    assert!(placement.admits(hash(1), 200_000, None, 0.5).is_some(), "never seen");
    placement.recent.put(hash(2), Past::Used(2));
    assert!(placement.admits(hash(2), 200_000, None, 0.5).is_some(), "seen twice");
}

/// One URL whose content changes each time that it is asked for must not write the cache over.
#[test]
fn what_is_replaced_unused_again_and_again_is_stored_once_in_a_while() {
    let mut placement = lapped();
    let mut chances = StdRng::seed_from_u64(1);
    let mut reload = |placement: &mut Placement, there: &mut Option<Slot>, uses| {
        // Whoever replaces it looks at it.
        let seen = there.map(|slot: Slot| Slot { uses: slot.uses + uses, ..slot });
        let standing = placement.admits(hash(1), 3 * MIB, seen, chances.random());
        *there = standing.map(|standing| standing.slot(1, 400));
        standing.inspect(|standing| placement.was_put(hash(1), 3 * MIB, Some(3 * MIB), *standing)).is_some()
    };
    let mut there = None;
    let stored = (0..800).filter(|_| reload(&mut placement, &mut there, 1)).count();
    assert!((5..=40).contains(&stored), "{stored}");
    // Once it is used between, it is stored each time.
    while !reload(&mut placement, &mut there, 1) {}
    assert!((0..20).all(|_| reload(&mut placement, &mut there, 2)));
    assert!(reload(&mut placement, &mut there, 1), "once may be by chance");
}

/// Until the log has come round a place costs nothing.
#[test]
fn what_is_replaced_unused_is_stored_where_there_is_room() {
    let mut placement = Placement::new(Admission::Worth, None, (SEGMENTS, MIB), 16_000);
    placement.opened(SEGMENTS - 1, false, 0);
    (0..20).for_each(|_| assert!(placement.admits(hash(1), MIB, Some(slot(1, false, 400)), 1.0).is_some()));
}

const SIZE: u64 = 3 << 20;

fn key(n: u32) -> Key {
    Key::new(format!("key {n}").into_bytes())
}

fn store(disk: &SimDisk, index_max: Option<u64>) -> ByHand {
    ByHand::make(disk, SIZE, &Options { packet: 64 << 10, index_max, ..Options::at("") }, 1).unwrap()
}

/// Puts all these, and more than the cache holds.
fn fill(store: &ByHand, disk: &SimDisk, keys: std::ops::Range<u32>, bytes: usize) {
    for n in keys {
        let _ = store.put(&key(n), b"meta", &vec![n as u8; bytes]);
        store.turn(disk, u64::from(n) * 20);
    }
}

/// Of this traffic, one in four keys is asked for five times. How many of these are stored in the end.
fn traffic(store: &ByHand, disk: &SimDisk) -> u32 {
    let mut time = 1_000_000;
    let mut ask = |n: u32| {
        time += 20;
        store.turn(disk, time);
        if store.get(disk, &key(n)).is_none() {
            let _ = store.put(&key(n), b"meta", &vec![n as u8; 8000]);
        }
    };
    for n in 0..1200 {
        ask(100_000 + n);
        // Nine in ten of those that come back do so after others.
        if n % 4 == 0 && n >= 40 {
            (0..4).for_each(|_| ask(100_000 + n - 40));
        }
    }
    (0..1200).filter(|n| n % 4 == 0 && store.holds(&key(100_000 + n))).count() as u32
}

/// The log is full, it starts again, and the first requests are for what is old.
#[test]
fn after_a_start_what_comes_back_is_stored_as_before() {
    let options = Options { packet: 64 << 10, ..Options::at("") };
    let stored = [false, true].map(|again| {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let mut store = store(&disk, None);
        fill(&store, &disk, 0..700, 8000);
        store.flush(&disk);
        if again {
            drop(store);
            store = ByHand::open_again(&disk, SIZE, &options);
            store.turn(&disk, 10);
        }
        let oldest = (0..700).find(|n| store.holds(&key(*n))).unwrap();
        let hits = (oldest..oldest + 10).filter(|n| store.get(&disk, &key(n + 3)).is_some()).count();
        store.turn(&disk, 20);
        let stored = traffic(&store, &disk);
        let price = store.engine().live().rates(8192).price;
        eprintln!(
            "started again {again}: {hits} old ones hit, price {price}, stored {stored} {:?}",
            store.engine().counters()
        );
        stored
    });
    assert!(stored[1] > stored[0] / 2, "{stored:?}");
}

/// Somebody asks for one object that memory does not keep, again and again.
#[test]
fn one_object_read_again_and_again_does_not_fill_the_log() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let store = store(&disk, None);
    fill(&store, &disk, 0..700, 8000);
    let before = store.engine().counters();
    assert!(before.swept > 0 && store.holds(&key(600)));
    for n in 0..2000 {
        assert!(store.get(&disk, &key(690)).is_some());
        store.turn(&disk, 100_000 + n);
    }
    let after = store.engine().counters();
    let again = after.put_again - before.put_again;
    assert!(again < 20, "put again {again} times, {} others swept", after.swept - before.swept);
}

/// And memory answers all that is asked for.
#[test]
fn what_memory_answers_again_and_again_does_not_fill_the_log() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let store = store(&disk, None);
    fill(&store, &disk, 0..700, 8000);
    let body = Bytes::from(vec![690u32 as u8; 8000]);
    let mut again = 0;
    for n in 1..2000u64 {
        let uses = Uses { new: 16, all: (16 * n).min(255) as u8 };
        if store.touch(&key(690), uses, &Body::Whole(body.clone())) {
            store.put_again(&key(690), b"meta", &body, uses.all);
            again += 1;
        }
        store.turn(&disk, 100_000 + n);
    }
    assert!(again < 20, "put again {again} times");
}

/// Where the index is full before the log, the oldest part of what is there is elsewhere.
#[test]
fn an_index_that_is_full_first_has_an_oldest_part() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let store = store(&disk, Some(200));
    let mut n = 0;
    let mut hits = 0;
    // The same hundred, whatever was put in between; they are hit when they are old.
    for _ in 0..60 {
        for _ in 0..50 {
            let _ = store.put(&key(1_000_000 + n), b"meta", &vec![1; 4000]);
            n += 1;
            store.turn(&disk, u64::from(n) * 20);
        }
        for k in 0..20 {
            hits += u64::from(store.get(&disk, &key(k)).is_some());
            if !store.holds(&key(k)) {
                let _ = store.put(&key(k), b"meta", &vec![1; 4000]);
            }
        }
    }
    let counters = store.engine().counters();
    eprintln!(
        "{counters:?} hits {hits} len {} price {}",
        store.len(),
        store.engine().live().rates(4000).price
    );
    assert!(counters.turned_away > 0, "{counters:?}");
}

/// A refusal for another reason than its worth is no reason to forget that it came back.
#[test]
fn what_came_back_and_was_not_put_is_still_known() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let store = store(&disk, None);
    fill(&store, &disk, 0..700, 8000);
    store.engine().placement_for_tests().recent.put(store.hash_for_tests(&key(9000)), Past::Used(0));
    let took = store.engine().placement_for_tests().admits(store.hash_for_tests(&key(9000)), 8192, None, 0.5);
    assert_eq!(took, Some(Standing::Used(1)));
    // The caller met `Busy`, or its body broke off, and tries again.
    let took = store.engine().placement_for_tests().admits(store.hash_for_tests(&key(9000)), 8192, None, 0.5);
    assert_eq!(took, Some(Standing::Used(1)));
}

/// What is put and what is hit are of the same class.
#[test]
fn bodies_of_unknown_length_are_of_the_class_that_they_are_hit_in() {
    let disk = SimDisk::new(16 << 20, StdRng::seed_from_u64(1));
    let options = Options { packet: 64 << 10, object_max: Some(4 << 20), ..Options::at("") };
    let store = ByHand::make(&disk, 16 << 20, &options, 1).unwrap();
    let body = vec![7; 600_000];
    let mut writer = store.begin(&key(1), None).unwrap();
    let mut left = &body[..];
    while writer.push(&mut left).and_then(|()| writer.finish(b"meta")) == Err(Refused::Busy) {
        store.turn(&disk, 0);
    }
    assert!(store.get(&disk, &key(1)).is_some());
    turn(store.engine().placement_for_tests());
    let classes = store.engine().placement_for_tests().worth.classes_for_tests();
    assert_eq!(classes, vec![(class(600_000), 1, 1)], "class, seen, came back");
}

/// What was used three times since it was put is put again as such.
#[test]
fn memory_does_not_forget_what_the_disk_counted() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let store = store(&disk, None);
    fill(&store, &disk, 0..50, 8000);
    (0..3).for_each(|_| assert!(store.get(&disk, &key(20)).is_some()));
    assert_eq!(store.slot_for_tests(&key(20)).unwrap().uses, 3);
    let body = Bytes::from(vec![20; 8000]);
    // It was read into memory just now: this is its first use there.
    store.put_again(&key(20), b"meta", &body, 1);
    assert_eq!(store.slot_for_tests(&key(20)).unwrap().uses, 1, "half of three");
}

/// A cache in which an unknown object is not worth its place.
fn choosy(disk: &SimDisk) -> ByHand {
    let store = store(disk, None);
    fill(&store, disk, 0..700, 8000);
    {
        let mut engine = store.engine();
        let placement = engine.placement_for_tests();
        (0..2000).for_each(|_| placement.worth.seen_once(8192));
        (0..20).for_each(|_| {
            _ = placement.live.was_hit(&slot(2, false, 8192), placement.live.oldest_for_tests(), 8192)
        });
        turn(placement);
    }
    let unknown = (0..50).filter(|n| store.put(&key(2_000_000 + n), b"", &[0; 8000]).is_ok()).count();
    assert!(unknown == 0, "{unknown}");
    store
}

/// A newer version of what was used again and again: it had expired, or somebody reloads it.
#[test]
fn what_is_stored_and_used_is_replaced_not_turned_away() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let store = choosy(&disk);
    let popular = (600..700).find(|n| store.holds(&key(*n))).unwrap();
    (0..3).for_each(|_| assert!(store.get(&disk, &key(popular)).is_some()));
    assert_eq!(store.put(&key(popular), b"newer", &[1; 8000]), Ok(()));
}

/// A newer version whose fetch breaks off leaves what is there, whatever it is worth.
#[test]
fn what_is_only_begun_removes_nothing() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let store = choosy(&disk);
    {
        let mut engine = store.engine();
        (0..2000).for_each(|_| engine.placement_for_tests().worth.seen_once(20_000));
    }
    let there = (600..700).find(|n| store.holds(&key(*n))).unwrap();
    let begun = store.begin(&key(there), Some(20_000)).map(drop);
    assert!(store.holds(&key(there)), "{begun:?}");
}

/// What was swept before its turn lies in the log still: what a newer version of it is refused for must be removed.
#[test]
fn what_was_renewed_and_not_admitted_does_not_come_back_as_it_was() {
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let options = Options { packet: 64 << 10, index_max: Some(200), ..Options::at("") };
    let store = store(&disk, Some(200));
    fill(&store, &disk, 0..1500, 4000);
    {
        let mut engine = store.engine();
        let placement = engine.placement_for_tests();
        // Many hits in the oldest part.
        (0..5000).for_each(|_| {
            _ = placement.live.was_hit(&slot(2, false, 8192), placement.live.oldest_for_tests(), 8192)
        });
        turn(placement);
    }
    store.flush(&disk);
    store.turn(&disk, 100_000);
    let gone: Vec<u32> = (700..1500).filter(|n| !store.holds(&key(*n))).collect();
    for n in &gone {
        assert_eq!(store.renew_for_tests(&key(*n), b"newer", &[*n as u8; 4000]), Err(Refused::NotAdmitted));
    }
    store.flush(&disk);
    store.turn(&disk, 200_000);
    store.flush(&disk);
    drop(store);
    let store = ByHand::open_again(&disk, SIZE, &options);
    store.turn(&disk, 10);
    let back: Vec<_> = gone.iter().filter(|n| store.get(&disk, &key(**n)).is_some()).collect();
    assert!(back.is_empty(), "{} of {} came back: {back:?}", back.len(), gone.len());
}

/// Small objects were used until they were old; now others of another size are asked for, and they alone.
#[test]
fn a_price_of_other_times_is_forgotten() {
    let mut placement = lapped();
    for _ in 0..4 * SEGMENTS {
        (0..1024).for_each(|_| _ = placement.live.was_hit(&slot(1, false, 1024), 1, 1024));
        placement.was_put(0, MIB, None, Standing::New);
    }
    // A hundred logs' worth of these, of which one in four is asked for ten times.
    let stored = (0..100_000).filter(|n| {
        let times = if n % 4 == 0 { 10 } else { 1 };
        (0..times).any(|_| placement.admits(hash(*n), 64 << 10, None, 0.5).is_some())
    });
    let stored = stored.count();
    assert!(stored > 0, "price {}", placement.live.rates(65_536).price);
}

/// Counts what it is given to write.
struct Counting(SimDisk, AtomicU64);

impl Disk for Counting {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.0.read(offset, buffer, length)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.1.fetch_add(bytes.len() as u64, Relaxed);
        self.0.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn read_block(&self) -> usize {
        self.0.read_block()
    }
}

const HOUR: u64 = 3_600_000;

/// A store that may write a MiB an hour, on a disk that counts.
fn with_budget(admission: Admission) -> (Counting, ByHand, Options) {
    let disk = Counting(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1)), AtomicU64::new(0));
    let write_budget = Some(WriteBudget { bytes: 24 * MIB, period: Duration::from_millis(24 * HOUR) });
    // So many that what was turned away is remembered for hours.
    let index_max = Some(32_000);
    let options = Options { packet: 64 << 10, admission, write_budget, index_max, ..Options::at("") };
    let store = ByHand::make(&disk, SIZE, &options, 1).unwrap();
    (disk, store, options)
}

/// Objects of 4 KB arrive, so many an hour; one in eight is asked for again and again. Bytes that the disk was given in each hour.
fn hours(disk: &Counting, store: &ByHand, began: u64, arrive: impl Fn(u64) -> u64, hours: u64) -> Vec<u64> {
    let mut written = Vec::new();
    for hour in 0..hours {
        let before = disk.1.load(Relaxed);
        for nth in 0..arrive(hour) {
            store.turn(disk, began + hour * HOUR + nth * HOUR / arrive(hour));
            let n = if nth % 8 == 0 { nth / 8 % 100 } else { (hour * 100_000 + nth) + 1_000 } as u32;
            if store.get(disk, &key(n)).is_none() {
                let _ = store.put(&key(n), b"meta", &[n as u8; 4000]);
            }
        }
        store.turn(disk, began + (hour + 1) * HOUR);
        written.push(disk.1.load(Relaxed) - before);
    }
    written
}

/// Whatever admission is: of 8 to 80 MiB that arrive in an hour one is written, what is worth most, with a burst of six at most.
#[test]
fn the_device_is_given_what_the_budget_has() {
    for admission in [Admission::Worth, Admission::All] {
        let (disk, store, _) = with_budget(admission);
        let formatted = disk.1.load(Relaxed) - store.engine().counters().written_bytes;
        let written = hours(&disk, &store, 0, |hour| if hour == 12 { 20_000 } else { 2_000 }, 24);
        for length in 1..24 {
            let most = written.windows(length).map(|hours| hours.iter().sum::<u64>()).max().unwrap();
            // And what waited in memory.
            assert!(
                most <= (6 + length as u64) * MIB + (64 << 10),
                "{admission:?}: {most} in {length} hours"
            );
        }
        // By worth even less is put than the budget has.
        let starves = |hour: &u64| admission == Admission::All && *hour < MIB / 4;
        assert!(!written[8..].iter().any(starves), "{written:?}");
        let counters = store.engine().counters();
        assert_eq!(counters.written_bytes, disk.1.load(Relaxed) - formatted, "all of it is counted");
        let turned_away = if admission == Admission::All { 20_000 } else { 100 };
        assert!((turned_away..=counters.turned_away).contains(&counters.unaffordable), "{counters:?}");
        let used = (0..100).filter(|n| store.holds(&key(*n))).count();
        assert!(used > 80, "{admission:?}: {used} of what is asked for again and again");
    }
}

#[test]
fn no_start_has_a_burst_before_it() {
    let (disk, mut store, options) = with_budget(Admission::All);
    let before = disk.1.load(Relaxed);
    for life in 0..10 {
        hours(&disk, &store, life * HOUR, |_| 3_000, 1);
        store.flush(&disk);
        store = ByHand::open_again(&disk, SIZE, &options);
    }
    let written = disk.1.load(Relaxed) - before;
    assert!(written < 10 * (MIB + 6 * MIB / 2), "{written} in ten hours with ten starts");
}

#[test]
fn what_has_to_be_written_is_written_where_nothing_is_left() {
    let (disk, store, options) = with_budget(Admission::All);
    hours(&disk, &store, 0, |_| 100, 1);
    store.put(&key(7), b"meta", b"body").unwrap();
    store.engine().reserve(100 * MIB);
    assert_eq!(store.put(&key(8), b"meta", b"body"), Err(Refused::NotAdmitted));
    assert_eq!(store.renew_for_tests(&key(7), b"newer", b"body"), Err(Refused::NotAdmitted));
    let body = Body::Whole(Bytes::from_static(b"body"));
    assert!(!store.touch(&key(8), Uses { new: 3, all: 15 }, &body));
    store.put_again(&key(8), b"meta", b"body", 15);
    assert!(!store.holds(&key(8)));
    store.turn(&disk, HOUR + 10_000);
    assert_eq!(store.engine().unwritten_since(), None, "the removals");
    store.engine().set_ledger(b"purged", HOUR + 10_000).unwrap();
    store.turn(&disk, HOUR + 20_000);
    let store = ByHand::open_again(&disk, SIZE, &options);
    assert!(store.get(&disk, &key(7)).is_none());
    assert_eq!(store.engine().ledger(), b"purged");
}

#[test]
fn large_objects_find_what_others_leave() {
    let (disk, store, _) = with_budget(Admission::All);
    // The full level: six MiB.
    store.turn(&disk, 0);
    store.turn(&disk, 6 * HOUR);
    let begin = |n| store.begin(&key(n), Some(700_000));
    let mut arriving: Vec<_> = (0..8).map(begin).take_while(Result::is_ok).flatten().collect();
    let let_in = arriving.len();
    assert!((2..=7).contains(&let_in), "{let_in}");
    assert_eq!(begin(9).err(), Some(Refused::NotAdmitted));
    arriving.clear();
    assert!(begin(9).is_ok(), "what they did not take is given back");
}
