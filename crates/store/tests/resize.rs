//! Caches that change their size, on real files; and one of a size that no file here has.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::disk::Disk;
use store::{Admission, Body, Buffer, IoChoice, Key, Options, Store, check, inspect};
use tokio::runtime::LocalRuntime;

fn runtime() -> LocalRuntime {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap()
}

fn options(path: &Path, size: Option<u64>) -> Options {
    let (admission, io) = (Admission::All, IoChoice::Threads);
    // As many entries as a cache of that size needs.
    let index_max = size.map(|size| size / 16_000);
    Options { size, packet: 256 << 10, index_max, admission, io, tell: |_| {}, ..Options::at(path) }
}

fn key(n: u32) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

fn body(n: u32) -> Vec<u8> {
    n.to_le_bytes().into_iter().cycle().take(20_000 + n as usize % 1_000).collect()
}

/// Waits while the store is busy.
fn put(store: &Store, n: u32) {
    while store.put(&key(n), b"meta", &body(n)).is_err() {
        std::thread::yield_now();
    }
}

/// Which of these are there, each as it was put.
fn those_of(store: &Store, keys: impl IntoIterator<Item = u32>) -> Vec<u32> {
    runtime().block_on(async {
        let (reader, mut there) = (store.reader().unwrap(), Vec::new());
        for n in keys {
            let Some(object) = reader.get(&key(n)).await else { continue };
            let Body::Whole(bytes) = object.body else { panic!("spans") };
            assert!(bytes == body(n), "key {n} has other bytes");
            there.push(n);
        }
        there
    })
}

fn found(store: &Store, keys: Range<u32>) -> usize {
    those_of(store, keys).len()
}

/// Nothing of the cache is damaged.
fn checked_whole(path: &Path) -> bool {
    let found = check(path, |_, _| {}).unwrap();
    found.damaged + found.damaged_tables + found.damaged_digests + found.header.damaged == 0
}

#[test]
fn a_file_grows_and_shrinks_with_its_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let open = |size: Option<u64>| Store::open(&options(&path, size.map(|mib| mib << 20))).unwrap();
    let length = || std::fs::metadata(&path).unwrap().len() >> 20;

    let store = open(Some(64));
    (0..2_500).for_each(|n| put(&store, n));
    assert!(store.close());
    assert_eq!((length(), inspect(&path).unwrap().format), (64, 3));

    let store = open(Some(128));
    assert_eq!(found(&store, 0..2_500), 2_500);
    (2_500..5_000).for_each(|n| put(&store, n));
    assert!(store.close());
    assert_eq!((length(), inspect(&path).unwrap().format), (128, 4));
    // It stays so without being told.
    let store = open(None);
    assert_eq!((found(&store, 0..5_000), store.stats().size), (5_000, 128 << 20));
    assert!(store.close());

    let store = open(Some(32));
    assert!(store.close());
    assert!(checked_whole(&path));
    let store = open(None);
    let kept = found(&store, 0..5_000);
    assert!(kept > 1_200, "{kept} fit");
    assert_eq!(store.stats().bad_records, 0);
    (5_000..8_000).for_each(|n| put(&store, n));
    let newest = found(&store, 7_000..8_000);
    assert_eq!(newest, 1_000);
    assert!(store.close());
    assert_eq!((length(), checked_whole(&path)), (32, true));
    assert_eq!(inspect(&path).unwrap().size, 32 << 20);
}

/// The first digest of a cache that was too small for any speaks of all of the log, and is written over its oldest packet: what lay there
/// is gone.
#[test]
fn what_the_first_digest_is_written_over_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let open = |packets: u64| Store::open(&options(&path, Some((1 << 20) + packets * (256 << 10)))).unwrap();
    let all = 0..2_400;
    let store = open(100);
    all.clone().for_each(|n| put(&store, n));
    let before = those_of(&store, all.clone());
    assert!(before.len() > 1_000 && before.len() < 1_300, "{} lie in 100 packets", before.len());
    assert!(store.close());

    let store = open(140);
    eventually(|| store.stats().engine.digests > 0);
    let after = those_of(&store, all);
    let gone: Vec<u32> = before.into_iter().filter(|n| !after.contains(n)).collect();
    assert!((1..30).contains(&gone.len()), "what lay in one packet: {gone:?}");
    gone.iter().for_each(|n| store.remove(&key(*n)));
    assert!(store.persist(Duration::from_secs(30)));
    store.abandon();
    assert_eq!(those_of(&open(140), gone), [], "removed, and back");
}

fn eventually(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_file_that_finds_no_space_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let store = Store::open(&options(&path, Some(16 << 20))).unwrap();
    put(&store, 1);
    assert!(store.close());
    let before = std::fs::read(&path).unwrap();
    for (size, expected) in
        [(4095 << 30, "cannot be reserved"), (5 << 40, "cannot grow beyond 4096 GiB in place")]
    {
        let refused = Store::open(&options(&path, Some(size))).err().unwrap().why;
        assert!(refused.contains(expected) && refused.lines().count() == 1, "{refused}");
        assert!(std::fs::read(&path).unwrap() == before);
    }
    let too_small = Store::open(&options(&path, Some(2 << 20))).err().unwrap().why;
    assert!(too_small.contains("too small for its packets"), "{too_small}");
    let store = Store::open(&options(&path, None)).unwrap();
    assert_eq!(found(&store, 0..3), 1);
}

/// Blocks that were written; all others are zeros.
#[derive(Default)]
struct Sparse(Mutex<HashMap<u64, Vec<u8>>>);

const BLOCK: u64 = 4096;

impl Disk for Sparse {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        let blocks = self.0.lock().unwrap();
        for (at, byte) in (offset..).zip(&mut buffer[..length]) {
            *byte = blocks.get(&(at / BLOCK)).map_or(0, |block| block[(at % BLOCK) as usize]);
        }
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut blocks = self.0.lock().unwrap();
        for (at, block) in (offset / BLOCK..).zip(bytes.chunks(BLOCK as usize)) {
            match block.iter().all(|byte| *byte == 0) {
                true => blocks.remove(&at),
                false => blocks.insert(at, block.to_vec()),
            };
        }
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn read_block(&self) -> usize {
        BLOCK as usize
    }
}

#[test]
fn a_cache_of_more_than_64_tib_works_and_one_beyond_256_is_refused() {
    for tib in [5, 65, 256] {
        let disk = Arc::new(Sparse::default());
        let size = Some(tib << 40);
        let options = Options { packet: 16 << 20, index_max: Some(10_000), ..options(Path::new(""), size) };
        let store = Store::over(disk.clone(), &options).unwrap();
        (0..100).for_each(|n| put(&store, n));
        assert!(store.close());
        drop(store);
        let store = Store::over(disk, &options).unwrap();
        assert_eq!((found(&store, 0..200), store.stats().size.div_ceil(1 << 40)), (100, tib));
        assert!(store.close());
    }
    let options = options(Path::new(""), Some(257 << 40));
    let refused = Store::over(Arc::new(Sparse::default()), &options).err().unwrap().why;
    assert!(refused.contains("257 TiB is too large: at most 256 TiB"), "{refused}");
}

/// `COSM_DEVICE` names a block device of 32 MiB that is blank.
#[test]
#[ignore = "needs a block device"]
fn a_device_has_what_it_has() {
    let path = std::env::var("COSM_DEVICE").unwrap();
    for size in [64, 64, 16, 64] {
        let store = Store::open(&options(Path::new(&path), Some(size << 20))).unwrap();
        assert_eq!(store.stats().size, size.min(32) << 20);
        put(&store, 1);
        assert!(store.close());
    }
}
