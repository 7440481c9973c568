//! What the histories of `model` are too short, or their caches too small, to come to.

use crate::by_hand::ByHand;
use crate::digester::Digester;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::format::Layout;
use crate::format::digest::Event;
use crate::format::root::{self, Root};
use crate::{Key, Options};
use rand::{SeedableRng, rngs::StdRng};

fn key(n: u32) -> Key {
    Key::new(format!("key {n}").into_bytes())
}

fn disk(size: u64) -> SimDisk {
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
    let mut digester = Digester::new(&layout, stretch, Root::default(), Vec::new(), false);
    let mut order = 0;
    // As many as puts are refused at (`EVENTS_BYTES`), of 400 bytes each: 10,000 in a segment.
    while order < 4_100_000 {
        digester.note(Event::removal(order));
        order += 1;
    }
    digester.tick(order, order / 10_000, false, 1_000_000);
    assert!(digester.is_active(), "{order} events wait, puts are refused, and no digest begins");
}

/// One bad sector in a copy of the root.
fn again(disk: &SimDisk, options: &Options) -> std::sync::Arc<crate::store::Shared> {
    use crate::buffer::Pool;
    use crate::format::superblock;
    let mut block = crate::buffer::Buffer::new(4096);
    disk.read(0, &mut block, 4096).unwrap();
    let layout = superblock::decode(&block).unwrap();
    let pool = Pool::new(1 << 20);
    let index = crate::index::Index::of(&layout, options.objects(&layout));
    let reads = crate::reads::Reads::new(disk, &pool);
    let stretch = crate::digester::stretch(layout.segments);
    let (state, _) = crate::recovery::recover(&reads, layout, stretch, index).unwrap();
    let clock = crate::store::Clock::Holder(std::sync::atomic::AtomicU64::new(0));
    let device = (Default::default(), disk.read_block());
    let shared =
        crate::store::Shared::new(state, options, pool.clone(), device, StdRng::seed_from_u64(1), clock);
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

/// While the index is loaded, who wants the engine for a moment gets it soon.
/// What a start found of a large log that has no root: more events than may wait.

#[test]
fn after_a_survey_of_a_large_log_digests_are_made_again() {
    let layout = Layout::new(1 << 20, 1 << 16, 9);
    let stretch = crate::digester::stretch(layout.segments);
    let events: Vec<Event> = (0..4_200_000).map(Event::removal).collect();
    let mut digester = Digester::new(&layout, stretch, Root::default(), events, true);
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

fn recovered(disk: &SimDisk, options: &Options) -> (crate::engine::State, crate::recovery::Recovered) {
    let mut block = crate::buffer::Buffer::new(4096);
    disk.read(0, &mut block, 4096).unwrap();
    let layout = crate::format::superblock::decode(&block).unwrap();
    let pool = crate::buffer::Pool::new(1 << 20);
    let index = crate::index::Index::of(&layout, options.objects(&layout));
    let reads = crate::reads::Reads::new(disk, &pool);
    crate::recovery::recover(&reads, layout, crate::digester::stretch(layout.segments), index).unwrap()
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
