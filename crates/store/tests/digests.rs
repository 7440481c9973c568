//! Starts of a cache that has digests: a part of the index is loaded when somebody asks for it, and the others meanwhile.

use rand::{SeedableRng, rngs::StdRng};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::disk::Disk;
use store::disk::sim::SimDisk;
use store::format::digest::parse_head;
use store::format::root::{COPIES, COPY, DigestAt, Root};
use store::format::{BLOCK, Layout, superblock};
use store::{Admission, Body, Key, Options, Refused, Store};
use tokio::runtime::LocalRuntime;

/// 256 packets: a digest for every fourth of them.
const SIZE: u64 = 17 << 20;
const SOON: Duration = Duration::from_secs(30);
/// What fills some 105 packets, and what fills all of them twice; how many of the newest are there then.
const SOME: u32 = 3_000;
const TWICE: u32 = 14_000;
const NEWEST: u32 = 6_500;

fn options() -> Options {
    let flush_interval = Duration::from_millis(20);
    Options {
        size: Some(SIZE),
        packet: 64 << 10,
        flush_interval,
        admission: Admission::All,
        ..Options::at("")
    }
}

fn over(disk: &Arc<SimDisk>) -> Store {
    Store::over(disk.clone(), &options()).unwrap()
}

fn runtime() -> LocalRuntime {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap()
}

fn key(n: u32) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

fn body(n: u32) -> Vec<u8> {
    vec![n as u8; 2_000]
}

/// Of these some are removed soon after they were put, long before the next digest but one.
fn is_removed(n: u32) -> bool {
    n % 7 == 3
}

/// A cache that took so many objects, and said that they are in the file.
fn lived(objects: u32) -> (Arc<SimDisk>, Store) {
    let disk = Arc::new(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1)));
    let store = over(&disk);
    fill(&store, objects);
    (disk, store)
}

fn fill(store: &Store, objects: u32) {
    let mut made = 0;
    for n in 0..objects {
        while store.put(&key(n), b"meta", &body(n)) == Err(Refused::Busy) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if n % 300 == 299 {
            // Ten packets are more than one digest is for.
            eventually("no digest is made", || store.stats().engine.digests > made);
            made = store.stats().engine.digests;
        }
        if n >= 10 && is_removed(n - 10) {
            store.remove(&key(n - 10));
        }
    }
    (objects - 10..objects).filter(|n| is_removed(*n)).for_each(|n| store.remove(&key(n)));
    assert!(store.persist(SOON));
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// All of the newest objects are there, and none that was removed: asked for at once, and when all is loaded.
fn verify(store: &Store, objects: u32) {
    let newest = objects.saturating_sub(NEWEST)..objects;
    runtime().block_on(async {
        let reader = store.reader().unwrap();
        for n in newest.clone().rev() {
            let found = reader.get(&key(n)).await.map(|found| found.body);
            match found {
                None => assert!(is_removed(n), "{n} of {objects} is missing"),
                Some(Body::Whole(bytes)) => assert!(!is_removed(n) && bytes == body(n), "{n} of {objects}"),
                Some(Body::Spans(_)) => panic!("spans"),
            }
        }
    });
    eventually("it is never loaded", || store.stats().parts_left == 0);
    for n in newest {
        assert_eq!(store.contains(&key(n)), !is_removed(n), "{n} of {objects}");
    }
    assert_eq!((store.stats().bad_records, store.stats().read_errors), (0, 0));
}

fn layout(disk: &SimDisk) -> Layout {
    superblock::decode(&disk.bytes()[..BLOCK]).unwrap()
}

/// Where the newer copy of the root lies, and what it says.
fn root(disk: &SimDisk) -> (u64, Root) {
    let (bytes, identity) = (disk.bytes(), layout(disk).identity);
    let copies = COPIES.map(|at| (at, Root::decode(identity, &bytes[at as usize..at as usize + COPY])));
    let valid = copies.into_iter().filter_map(|(at, root)| Some((at, root.ok()?)));
    valid.max_by_key(|(_, root)| root.generation).unwrap()
}

fn spoil(disk: &SimDisk, offset: u64) {
    let (at, begin) = (offset as usize, offset as usize / 512 * 512);
    let mut sector = disk.bytes()[begin..begin + 512].to_vec();
    sector[at - begin] ^= 1;
    disk.write(begin as u64, &sector).unwrap();
    disk.sync().unwrap();
}

#[test]
fn what_is_durable_is_found_after_a_kill_and_after_a_clean_end() {
    for objects in [SOME, TWICE] {
        let (disk, store) = lived(objects);
        store.abandon();
        let digests = root(&disk).1.digests.len();
        assert!(digests >= 8, "{digests} digests");
        let store = over(&disk);
        assert!(store.opened().ends_with("; loading the index in the background"), "{}", store.opened());
        verify(&store, objects);
        assert!(store.close());
        verify(&over(&disk), objects);
    }
}

#[test]
fn it_is_said_when_the_index_is_loaded() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let (disk, store) = lived(SOME);
    store.abandon();
    let options = Options { news: |line| SAID.lock().unwrap().push(line.to_owned()), ..options() };
    let store = Store::over(disk.clone(), &options).unwrap();
    eventually("that is not told", || !SAID.lock().unwrap().is_empty());
    let said = SAID.lock().unwrap().concat();
    let objects = (0..SOME).filter(|n| !is_removed(*n)).count();
    assert!(said.contains("is loaded after") && said.contains(&format!(" ms: {objects} entries")), "{said}");
    assert!(store.close());
    // A cache that has nothing to load says nothing of it.
    let blank = Arc::new(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1)));
    let store = Store::over(blank, &options).unwrap();
    assert!(!store.opened().contains("index") && SAID.lock().unwrap().len() == 1);
    assert!(store.close());
}

/// Of pages, of a digest's own record, and of both copies of the root one after the other.
#[test]
fn what_is_damaged_costs_nothing_that_tables_say_too() {
    let (disk, store) = lived(SOME);
    store.abandon();
    let (layout, (_, Root { digests, .. })) = (layout(&disk), root(&disk));
    let places = |at: &DigestAt| {
        let offset = layout.offset(at.place) as usize;
        parse_head(layout.identity, at, &disk.bytes()[offset..offset + at.bytes as usize]).unwrap().places
    };
    spoil(&disk, layout.offset(places(&digests[3])[0]) + 500);
    let store = over(&disk);
    verify(&store, SOME);
    store.abandon();
    for at in &digests[5..7] {
        spoil(&disk, layout.offset(at.place) + 100);
    }
    let store = over(&disk);
    verify(&store, SOME);
    store.abandon();
    for _ in 0..2 {
        spoil(&disk, root(&disk).0 + 70);
        let store = over(&disk);
        verify(&store, SOME);
        store.abandon();
    }
}

/// Digest upon digest, and starts in between.
#[test]
fn what_is_removed_or_put_again_before_all_is_loaded_stays_so() {
    let (disk, store) = lived(SOME);
    store.abandon();
    let store = over(&disk);
    (0..SOME).filter(|n| n % 3 == 0).for_each(|n| store.remove(&key(n)));
    for n in (0..SOME).filter(|n| n % 9 == 0) {
        while store.put(&key(n), b"meta", b"anew") == Err(Refused::Busy) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(store.persist(SOON));
    store.abandon();
    for _ in 0..2 {
        let store = over(&disk);
        eventually("it is never loaded", || store.stats().parts_left == 0);
        for n in 0..SOME {
            let there = if n % 3 == 0 { n % 9 == 0 } else { !is_removed(n) };
            assert_eq!(store.contains(&key(n)), there, "{n}");
        }
        assert!(store.close());
    }
}

/// `check` says what is damaged, and of what the start makes up for.
#[test]
fn what_is_damaged_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let options = Options { path: path.clone(), ..options() };
    let store = Store::open(&options).unwrap();
    fill(&store, SOME);
    assert!(store.close());
    drop(store);
    let checked = || store::check(&path, |_, _| ()).unwrap();
    let sound = checked();
    let roots = sound.header.roots;
    let whole = store::Header { superblocks: 2, roots, ledgers: 2, fence: true, damaged: 0 };
    assert_eq!((sound.damaged_tables, sound.damaged_digests, sound.damaged), (0, 0, 0));
    assert!(sound.header == whole && whole.roots > 0 && sound.digests > 2, "{sound:?}");
    assert_eq!(store::inspect(&path).unwrap().header, whole);

    let bytes = std::fs::read(&path).unwrap();
    let layout = superblock::decode(&bytes[..BLOCK]).unwrap();
    let copies = COPIES.map(|at| Root::decode(layout.identity, &bytes[at as usize..at as usize + COPY]));
    let root = copies.into_iter().flatten().max_by_key(|root| root.generation).unwrap();
    let spoil = |at: u64| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[bytes[at as usize] ^ 1], at).unwrap();
    };
    // The tables of two segments that digests are of, the trailer of one and an entry of the other.
    spoil(layout.start(2) + u64::from(layout.segment) - 60);
    spoil(layout.start(3) + u64::from(layout.segment) - 80);
    spoil(layout.offset(root.digests[0].place) + 100);
    // A superblock, a copy of the ledger, and the fence.
    [BLOCK as u64 + 20, (512 << 10) + 8, 12 << 10].into_iter().for_each(spoil);
    let damaged = checked();
    assert_eq!((damaged.damaged_tables, damaged.digests), (2, sound.digests - 1));
    assert_eq!((damaged.damaged_digests, damaged.segments), (1, sound.segments - 2));
    assert_eq!(
        damaged.header,
        store::Header { superblocks: 1, ledgers: 1, fence: false, damaged: 3, ..whole }
    );
}
