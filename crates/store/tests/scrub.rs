//! The scrub of a store with its threads, on a file: what is flipped beside it is found in the set time.

mod support;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::{BTreeMap, BTreeSet};
use std::env::var;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use store::{Body, Key, Options, Refused, Store};
use support::Hanging;

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(60);

fn key(n: u64) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

fn body(n: u64, bytes: usize) -> Vec<u8> {
    let mut body = vec![0; bytes];
    StdRng::seed_from_u64(n).fill(&mut body[..]);
    body
}

/// Fills two thirds of the cache with objects of so many bytes: how many there are.
fn fill(store: &Store, size: u64, bytes: usize) -> u64 {
    let objects = size * 2 / 3 / (bytes as u64 + 150);
    for n in 0..objects {
        while let Err(refused) = store.put(&key(n), b"meta", &body(n, bytes)) {
            assert_eq!(refused, Refused::Busy);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(store.persist(SOON));
    objects
}

/// Where the records of objects lie in the file, and how long they are, by number.
fn records(file: &File, size: u64) -> BTreeMap<u64, (u64, usize)> {
    let mut found = BTreeMap::new();
    let mut segment = vec![0; MIB as usize];
    for start in (MIB..size).step_by(MIB as usize) {
        if file.read_exact_at(&mut segment, start).is_err() {
            break;
        }
        for at in (0..segment.len()).step_by(64).filter(|at| segment[*at..].starts_with(b"cREC\x01")) {
            let field =
                |n: usize| u32::from_le_bytes(segment[at + n..at + n + 4].try_into().unwrap()) as usize;
            let (key, all) = (&segment[at + 64..][..field(8)], 64 + field(8) + field(12) + field(16));
            let n = std::str::from_utf8(key).unwrap().rsplit('/').next().unwrap().parse().unwrap();
            found.insert(n, (start + at as u64, all));
        }
    }
    found
}

/// Flips one bit of each of some records, as a medium would, and says which ones.
fn flip(file: &File, records: &BTreeMap<u64, (u64, usize)>, count: usize) -> Vec<u64> {
    let mut rng = StdRng::seed_from_u64(7);
    let mut victims = BTreeSet::new();
    // The last segment is open still.
    let last = records.values().map(|(start, _)| start / MIB).max();
    while victims.len() < count {
        let n = rng.random_range(0..records.len() as u64);
        if Some(records[&n].0 / MIB) != last {
            victims.insert(n);
        }
    }
    for n in &victims {
        let (start, length) = records[n];
        let bit = rng.random_range(0..length as u64 * 8);
        let mut byte = [0];
        file.read_exact_at(&mut byte, start + bit / 8).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], start + bit / 8).unwrap();
    }
    file.sync_all().unwrap();
    victims.into_iter().collect()
}

/// Waits until so many were found, and says how long that took.
fn found(store: &Store, count: u64, within: Duration) -> Duration {
    let began = Instant::now();
    while store.stats().scrub.damaged < count {
        assert!(began.elapsed() < within, "{:?}", store.stats().scrub);
        std::thread::sleep(Duration::from_millis(20));
    }
    began.elapsed()
}

fn scrubbed(folder: &tempfile::TempDir, size: u64, bytes: usize, flips: usize, period: Duration) {
    let path = folder.path().join("cache");
    let options = Options { size: Some(size), scrub: Some(period), ..Options::at(&path) };
    let store = Store::open(&options).unwrap();
    // Not before the bits are flipped.
    store.set_off_peak(None);
    let objects = fill(&store, size, bytes);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let records = records(&file, size);
    assert_eq!(records.len() as u64, objects);
    let victims = flip(&file, &records, flips);
    store.set_off_peak(Some(1.0));
    let took = found(&store, flips as u64, period.max(SOON));
    let stats = store.stats().scrub;
    println!("{flips} flipped bits in {} MiB of records found after {took:?}; {stats:?}", stats.bytes / MIB);
    assert_eq!((stats.damaged, stats.unreadable, stats.tables), (flips as u64, 0, 0));
    for n in 0..objects {
        assert_eq!(store.contains(&key(n)), victims.binary_search(&n).is_err(), "{n}");
    }
    assert!(store.close());
}

#[test]
fn flipped_bits_are_found_in_the_set_time() {
    let folder = tempfile::tempdir().unwrap();
    scrubbed(&folder, 24 * MIB, 4_000, 300, Duration::from_secs(4));
}

/// `COSM_SCRUB=GIB,SECONDS,FOLDER` makes it larger.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_flipped_bits_are_found_in_the_set_time() {
    let given = var("COSM_SCRUB").unwrap_or_else(|_| "1,120,".into());
    let mut given = given.splitn(3, ',');
    let mut number = || given.next().unwrap().parse::<u64>().unwrap();
    let (gib, seconds) = (number(), number());
    let folder = match given.next() {
        None | Some("") => tempfile::tempdir().unwrap(),
        Some(path) => tempfile::tempdir_in(path).unwrap(),
    };
    scrubbed(&folder, gib << 30, 20_000, 1_000, Duration::from_secs(seconds));
}

/// The scrub of everything in a second would read all the time.
#[test]
fn while_a_client_reads_the_scrub_waits() {
    const SIZE: u64 = 4 << 20;
    let disk = Hanging::new(SIZE, 1);
    let options = Options {
        size: Some(SIZE),
        packet: 64 << 10,
        scrub: Some(Duration::from_secs(1)),
        patience: SOON,
        ..Options::at("")
    };
    let store = Store::over(disk.clone(), &options).unwrap();
    store.set_off_peak(None);
    fill(&store, SIZE, 4_000);
    disk.set([true, false]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let got = runtime.unwrap().block_on(async {
        let reader = store.reader().unwrap();
        let reading = tokio::task::spawn_local(async move { reader.get(&key(3)).await });
        tokio::task::yield_now().await;
        let before = store.stats().scrub;
        store.set_off_peak(Some(1.0));
        let began = Instant::now();
        while store.stats().scrub.yields == before.yields {
            assert!(began.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        disk.set([false, false]);
        reading.await.unwrap()
    });
    assert!(matches!(got.unwrap().body, Body::Whole(bytes) if bytes == body(3, 4_000)));
    let began = Instant::now();
    while store.stats().scrub.segments < 50 {
        assert!(began.elapsed() < SOON, "it goes on: {:?}", store.stats().scrub);
        std::thread::sleep(Duration::from_millis(5));
    }
    let stats = store.stats().scrub;
    assert!(stats.yields > 0 && stats.yielded > 0 && stats.damaged == 0, "{stats:?}");
    assert!(store.close());
}

#[test]
fn a_stop_does_not_wait_for_a_step_that_hangs() {
    const SIZE: u64 = 4 << 20;
    let disk = Hanging::new(SIZE, 1);
    let scrub = Some(Duration::from_secs(1));
    let options = Options { size: Some(SIZE), packet: 64 << 10, scrub, ..Options::at("") };
    let store = Store::over(disk.clone(), &options).unwrap();
    store.set_off_peak(None);
    fill(&store, SIZE, 4_000);
    disk.set([true, false]);
    let before = disk.begun.load(SeqCst);
    store.set_off_peak(Some(1.0));
    let began = Instant::now();
    while disk.begun.load(SeqCst) == before {
        assert!(began.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(5));
    }
    let (told, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(store.close()));
    let clean = closed.recv_timeout(SOON);
    disk.set([false, false]);
    assert_eq!(clean, Ok(true));
}
