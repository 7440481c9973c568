//! The threaded store over the simulated disk: kills, failing writes, failing reads.

use rand::{SeedableRng, rngs::StdRng};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::disk::Disk;
use store::disk::sim::{Faults, SimDisk};
use store::format::{DATA_START, PROBE, fence};
use store::{Body, Buffer, Key, Options, Refused, Store};
use tokio::runtime::LocalRuntime;

const SIZE: u64 = 4 << 20;
/// More than twice what waits to be written at most.
const ROOMY: u64 = 48 << 20;
const SOON: Duration = Duration::from_secs(20);

fn disk() -> Arc<SimDisk> {
    Arc::new(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1)))
}

/// Written only when somebody asks for it.
fn patient() -> Options {
    let flush_interval = Duration::from_secs(3_600);
    Options { size: Some(SIZE), packet: 64 << 10, flush_interval, ..Options::at("") }
}

fn over(disk: &Arc<SimDisk>, options: &Options) -> Store {
    Store::over(disk.clone(), options).unwrap()
}

fn runtime() -> LocalRuntime {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap()
}

fn key(n: u32) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

fn body(store: &Store, n: u32) -> Option<Vec<u8>> {
    let found = runtime().block_on(async { store.reader().unwrap().get(&key(n)).await })?;
    let Body::Whole(bytes) = found.body else { panic!("spans") };
    Some(bytes.to_vec())
}

#[test]
fn a_loss_of_power_leaves_what_was_persisted() {
    for seed in 0..20 {
        let disk = Arc::new(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(seed)));
        let store = over(&disk, &patient());
        (0..10).for_each(|n| store.put(&key(n), b"", &[n as u8; 500]).unwrap());
        assert!(store.persist(SOON));
        (0..5).for_each(|n| store.remove(&key(n)));
        assert!(store.persist(SOON) && !disk.is_unsynced());
        store.abandon();
        disk.lose_power();
        let store = over(&disk, &patient());
        assert!((0..10).all(|n| body(&store, n).is_some() == (n >= 5)), "{seed}");
    }
}

#[test]
fn a_kill_leaves_what_was_persisted_and_nothing_else() {
    let disk = disk();
    let store = over(&disk, &patient());
    (0..10).for_each(|n| store.put(&key(n), b"", &[n as u8; 500]).unwrap());
    assert!(store.persist(SOON));
    store.remove(&key(3));
    store.set_ledger(b"ledger").unwrap();
    assert!(store.persist(SOON));
    let before = disk.bytes();
    store.put(&key(10), b"", b"in memory").unwrap();
    store.remove(&key(4));
    store.abandon();
    assert!(disk.bytes() == before, "a kill writes nothing");
    assert!(!store.persist(SOON), "nor does anything after it");
    store.close();
    drop(store);
    assert!(disk.bytes() == before);

    let store = over(&disk, &patient());
    assert_eq!(store.ledger(), b"ledger");
    for n in 0..12 {
        let there = n < 10 && n != 3;
        assert_eq!(body(&store, n), there.then(|| vec![n as u8; 500]), "{n}");
    }
    // What a clean end leaves is there after a loss of power.
    store.put(&key(11), b"", b"new").unwrap();
    store.close();
    disk.lose_power();
    assert_eq!(body(&over(&disk, &patient()), 11).as_deref(), Some(&b"new"[..]));
    // A read that fails is a miss.
    let store = over(&disk, &patient());
    disk.set_faults(Faults { read: 1_000, ..Faults::default() });
    assert_eq!((body(&store, 11), store.stats().read_errors), (None, 1));
}

/// As a client does who sends unsafe requests for what was never stored, and the restart after one for each stored object.
#[test]
fn removals_are_never_too_many_and_stay() {
    let disk = disk();
    let store = over(&disk, &patient());
    for n in 0..100_000 {
        store.remove(&key(n));
    }
    assert_eq!(store.stats().engine.segments, 0);
    assert!(store.persist(SOON));
    // More than one table of a 64 KiB packet can list.
    for n in 0..6_000 {
        store.put(&key(n), b"", b"a body").unwrap();
    }
    assert!(store.persist(SOON));
    (0..6_000).for_each(|n| store.remove(&key(n)));
    store.put(&key(6_000), b"", b"later").unwrap();
    store.close();
    drop(store);
    let store = over(&disk, &patient());
    let back = (0..6_000).filter(|n| store.contains(&key(*n))).count();
    assert_eq!((back, body(&store, 6_000)), (0, Some(b"later".to_vec())));
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn writes_that_fail_for_a_while_lose_nothing_and_are_told_of_twice() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let said = || SAID.lock().unwrap().clone();
    let disk = Arc::new(SimDisk::new(ROOMY as usize, StdRng::seed_from_u64(1)));
    let options = Options {
        size: Some(ROOMY),
        flush_interval: Duration::from_millis(20),
        tell: |line| SAID.lock().unwrap().push(line.to_owned()),
        ..patient()
    };
    let store = over(&disk, &options);
    (0..10).for_each(|n| store.put(&key(n), b"", &[n as u8; 500]).unwrap());
    assert!(store.persist(SOON) && !store.stats().writes_fail);
    assert_eq!(said(), [""; 0]);

    for faults in
        [Faults { write: 1_000, ..Faults::default() }, Faults { no_space: 1_000, ..Faults::default() }]
    {
        disk.set_faults(faults);
        SAID.lock().unwrap().clear();
        store.put(&key(10), b"", b"in memory").unwrap();
        store.remove(&key(3));
        store.set_ledger(b"ledger").unwrap();
        assert!(!store.persist(Duration::from_millis(50)));
        eventually("it is never told", || !said().is_empty());
        assert!(said()[0].starts_with("writing to cache") && said()[0].lines().count() == 1, "{:?}", said());
        let cause = if faults.write > 0 { "simulated write error" } else { "no storage space" };
        assert!(said()[0].contains(cause), "{:?}", said());
        // Memory for what waits is bounded, and more than a handful of failures.
        let refused = (100..).find_map(|n| store.put(&key(n), b"", &[1; 15_000]).err());
        assert!(matches!(refused, Some(Refused::Busy | Refused::Broken)));
        eventually("it is not tried again", || store.stats().engine.write_errors > 20);
        assert_eq!(store.put(&key(99), b"", &[1; 15_000]), Err(Refused::Broken));
        assert!(store.stats().writes_fail);
        assert_eq!(body(&store, 10).as_deref(), Some(&b"in memory"[..]));
        assert_eq!(said().len(), 1, "{:?}", said());

        disk.set_faults(Faults::default());
        eventually("what waited is not written", || store.persist(SOON) && !store.stats().writes_fail);
        eventually("that is not told", || said().len() == 2);
        assert!(said()[1].ends_with("works again"), "{:?}", said());
        eventually("nothing is put any more", || store.put(&key(11), b"", b"after").is_ok());
        assert!(store.persist(SOON));
    }
    store.abandon();
    drop(store);
    let store = over(&disk, &options);
    assert_eq!(store.ledger(), b"ledger");
    for n in 0..12 {
        assert_eq!(body(&store, n).is_some(), n != 3, "{n}");
    }
    assert_eq!(store.stats().engine.given_up, 0);
}

#[test]
fn a_place_that_takes_no_writes_is_given_up_and_mended() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let disk = disk();
    let options = Options { tell: |line| SAID.lock().unwrap().push(line.to_owned()), ..patient() };
    let store = over(&disk, &options);
    // Also when nothing else is to be written: the space beside the superblocks shows that the disk takes writes.
    disk.fail_writes_in(DATA_START..DATA_START + (64 << 10));
    store.put(&key(1), b"", b"lost").unwrap();
    assert!(store.persist(SOON));
    assert_eq!(store.stats().engine.given_up, 1);
    eventually("that is not told", || SAID.lock().unwrap().len() == 2);
    assert!(SAID.lock().unwrap()[1].contains("except for 1 packet(s)"), "{:?}", SAID.lock().unwrap());
    store.put(&key(2), b"", b"kept").unwrap();
    assert!(store.persist(SOON));
    store.abandon();
    drop(store);
    let store = over(&disk, &patient());
    assert_eq!((body(&store, 1), body(&store, 2)), (None, Some(b"kept".to_vec())));
    assert!(disk.bytes()[PROBE as usize..fence::OFFSET as usize].iter().all(|b| *b == 0));
}

/// A cache whose ledger was set twice, and where its copies lie.
fn with_ledger() -> (Arc<SimDisk>, [std::ops::Range<u64>; 2]) {
    let disk = disk();
    let store = over(&disk, &patient());
    for ledger in [b"one", b"two"] {
        store.set_ledger(ledger).unwrap();
        assert!(store.persist(SOON));
    }
    store.abandon();
    (disk, [256 << 10..512 << 10, 512 << 10..768 << 10])
}

#[test]
fn a_copy_of_the_ledger_that_cannot_be_read_undoes_nothing() {
    let (disk, copies) = with_ledger();
    for (n, bad) in copies.iter().cloned().enumerate() {
        disk.fail_reads_in(bad);
        let store = over(&disk, &patient());
        assert_eq!(store.ledger(), if n == 0 { b"two".to_vec() } else { b"after 0".to_vec() });
        disk.fail_reads_in(0..0);
        store.set_ledger(format!("after {n}").as_bytes()).unwrap();
        assert!(store.persist(SOON));
        store.abandon();
    }
    // Neither, for this start.
    disk.fail_reads_in(copies[0].start..copies[1].end);
    let store = over(&disk, &patient());
    assert!(store.ledger() == [0xff] && store.may_ledger_return());
    store.abandon();
    disk.fail_reads_in(0..0);
    let store = over(&disk, &patient());
    assert_eq!(store.ledger(), b"after 1");
    store.abandon();
    // Neither, and another is set.
    disk.fail_reads_in(copies[0].start..copies[1].end);
    let store = over(&disk, &patient());
    disk.fail_reads_in(0..0);
    store.set_ledger(b"another").unwrap();
    assert!(store.persist(SOON));
    store.abandon();
    assert_eq!(over(&disk, &patient()).ledger(), b"another");
}

#[test]
fn a_copy_of_the_ledger_that_is_spoilt_undoes_nothing_and_is_mended() {
    let (disk, copies) = with_ledger();
    for copy in copies.iter().chain(&copies) {
        disk.write(copy.start, &[0; 512]).unwrap();
        let store = over(&disk, &patient());
        assert_eq!(store.ledger(), b"two");
        assert!(store.persist(SOON));
        store.abandon();
    }
}

#[test]
fn a_ledger_of_which_both_copies_are_gone_says_so_until_it_is_set() {
    let (disk, copies) = with_ledger();
    for damage in [0x55, 0] {
        copies.iter().for_each(|copy| disk.write(copy.start, &[damage; 4096]).unwrap());
        for _ in 0..2 {
            let store = over(&disk, &patient());
            assert!(store.ledger() == [0xff] && !store.may_ledger_return());
            assert!(store.persist(SOON));
            store.abandon();
            // The next start finds it so: nothing is damaged any more.
            let bytes = disk.bytes();
            assert!(copies.iter().all(|copy| bytes[copy.start as usize + 64] == 0xff));
        }
        let store = over(&disk, &patient());
        store.set_ledger(b"anew").unwrap();
        assert!(store.persist(SOON));
        store.abandon();
        assert_eq!(over(&disk, &patient()).ledger(), b"anew");
    }
}

#[test]
fn a_cache_of_which_only_the_header_can_be_read_opens_and_takes_what_later_starts_find() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let disk = disk();
    let store = over(&disk, &patient());
    (0..5).for_each(|n| store.put(&key(n), b"", &[n as u8; 15_000]).unwrap());
    assert!(store.persist(SOON));
    store.abandon();
    let options = Options { tell: |line| SAID.lock().unwrap().push(line.to_owned()), ..patient() };
    disk.fail_reads_in(DATA_START..SIZE);
    let store = over(&disk, &options);
    assert_eq!((0..5).find(|n| store.contains(&key(*n))), None);
    // The index does not know the fifth, which lies in a segment of its own; nor may it come back.
    store.remove(&key(4));
    store.put(&key(5), b"", b"five").unwrap();
    assert!(store.persist(SOON));
    assert_eq!(body(&store, 5).as_deref(), Some(&b"five"[..]), "from memory");
    store.abandon();
    let said = SAID.lock().unwrap();
    assert!(said.len() == 1 && said[0].contains("failed at its start"), "{said:?}");
    disk.fail_reads_in(0..0);
    let store = over(&disk, &patient());
    assert_eq!((body(&store, 4), body(&store, 5)), (None, Some(b"five".to_vec())));
    store.put(&key(4), b"", b"again").unwrap();
    assert!(store.close());
    assert_eq!(body(&over(&disk, &patient()), 4).as_deref(), Some(&b"again"[..]));
}

/// Counts the reads that a caller of `Store::over` waits for, and can be harmed.
struct Watched {
    disk: Arc<SimDisk>,
    reads: AtomicU32,
    harmed: AtomicBool,
}

impl Watched {
    fn new() -> Arc<Watched> {
        Arc::new(Watched { disk: disk(), reads: AtomicU32::new(0), harmed: AtomicBool::new(false) })
    }
}

impl Disk for Watched {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        let of_the_store = std::thread::current().name().is_some_and(|name| name.starts_with("store-"));
        self.reads.fetch_add(u32::from(!of_the_store), Relaxed);
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
    fn harm(&self) -> Option<&'static str> {
        self.harmed.load(Relaxed).then_some("was cut off")
    }
}

#[test]
fn opening_waits_for_few_reads_of_a_disk_that_fails() {
    let disk = Watched::new();
    let options = Options { packet: 16 << 10, ..patient() };
    drop(Store::over(disk.clone(), &options).unwrap());
    disk.reads.store(0, Relaxed);
    disk.disk.fail_reads_in(DATA_START..SIZE);
    let store = Store::over(disk.clone(), &options).unwrap();
    let reads = disk.reads.load(Relaxed);
    assert!(reads < 100, "{reads} reads of 192 segments");
    store.abandon();
}

#[test]
fn harm_to_the_medium_is_told_of_under_load() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let disk = Watched::new();
    let options = Options {
        flush_interval: Duration::from_millis(100),
        tell: |line| SAID.lock().unwrap().push(line.to_owned()),
        ..patient()
    };
    let store = Store::over(disk.clone(), &options).unwrap();
    disk.harmed.store(true, Relaxed);
    let mut n = 0;
    eventually("it is not told", || {
        // The threads are never without work for long.
        (n..n + 10).for_each(|n| _ = store.put(&key(n), b"", &[1; 15_000]));
        n += 10;
        !SAID.lock().unwrap().is_empty()
    });
    assert_eq!(*SAID.lock().unwrap(), ["cache  was cut off"]);
    store.abandon();
}
