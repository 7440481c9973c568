//! A store that is left: nobody waits for a disk that hangs, and it is opened again only when nothing of the old one can reach it.

mod support;

use std::time::{Duration, Instant};
use store::disk::sim::Faults;
use store::{Key, Lookup, Options, Store};
use support::Hanging;

const SIZE: u64 = 4 << 20;
const SOON: Duration = Duration::from_secs(20);

fn options() -> Options {
    let patience = Duration::from_millis(20);
    Options {
        size: Some(SIZE),
        packet: 64 << 10,
        patience,
        flush_interval: patience,
        tell: |_| {},
        ..Options::at("")
    }
}

fn key(n: u32) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

fn comes(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

async fn finds(store: &Store, n: u32) -> bool {
    matches!(store.reader().unwrap().look(&key(n)).await, Lookup::Found(_))
}

fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(body)
}

#[test]
fn a_write_that_hangs_keeps_the_claim_and_nobody_waits_for_it() {
    let disk = Hanging::new(SIZE, 1);
    let store = Store::over(disk.clone(), &options()).unwrap();
    assert!(store.was_blank());
    store.put(&key(1), b"", &[1; 500]).unwrap();
    assert!(store.persist(SOON));
    assert_eq!(store.unwritten_for(), None);
    disk.set([false, true]);
    store.remove(&key(1));
    assert!(store.unwritten_for().is_some());
    comes("it is late", || store.signs().late > Duration::from_millis(50));
    store.leave();
    assert!(!store.has_left(), "a write is under way");
    disk.set([false, false]);
    comes("the write has ended", || store.has_left());
    let again = Store::over(disk, &options()).unwrap();
    assert!(!again.was_blank() && again.identity() == store.identity());
    again.remove_all(&[key(1).index_hash(), key(2).index_hash()]);
    assert!(!run(finds(&again, 1)));
}

#[test]
fn what_hangs_or_fails_is_seen_until_a_read_comes() {
    let disk = Hanging::new(SIZE, 2);
    let store = Store::over(disk.clone(), &options()).unwrap();
    (0..40).for_each(|n| store.put(&key(n), b"", &[1; 500]).unwrap());
    assert!(store.close());
    let store = Store::over(disk.clone(), &Options { group: 0, ..options() }).unwrap();
    comes("it rests", || store.signs().late.is_zero());
    run(async {
        disk.set([true, false]);
        assert!(!finds(&store, 0).await);
        comes("it is late", || store.signs().late > Duration::from_millis(50));
        disk.set([false, false]);
        let began = Instant::now();
        while !finds(&store, 1).await {
            assert!(began.elapsed() < SOON);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        comes("it is well", || store.signs().late.is_zero());
        disk.disk.set_faults(Faults { read: 1_000, ..Faults::default() });
        for n in 2..6 {
            assert!(!finds(&store, n).await);
        }
        assert_eq!(store.signs().failed_reads, 4);
        disk.disk.set_faults(Faults::default());
        assert!(finds(&store, 7).await);
        assert_eq!(store.signs().failed_reads, 0);
    });
}

/// Nobody reads anything else.
#[test]
fn a_read_that_was_given_up_is_seen_until_it_comes() {
    let disk = Hanging::new(SIZE, 2);
    let store = Store::over(disk.clone(), &options()).unwrap();
    store.put(&key(1), b"", &[1; 500]).unwrap();
    assert!(store.close());
    let store = Store::over(disk.clone(), &options()).unwrap();
    comes("it rests", || store.signs().late.is_zero());
    disk.set([true, false]);
    assert!(!run(finds(&store, 1)));
    comes("it is late", || store.signs().late > Duration::from_millis(50));
    disk.set([false, false]);
    comes("it is well", || store.signs().late.is_zero());
}

#[test]
fn a_cache_that_begins_anew_is_empty_and_another() {
    let disk = Hanging::new(SIZE, 3);
    let store = Store::over(disk.clone(), &options()).unwrap();
    store.put(&key(1), b"", &[1; 500]).unwrap();
    store.set_ledger(b"old").unwrap();
    assert!(store.close());
    let anew = Store::over(disk.clone(), &Options { anew: true, ..options() }).unwrap();
    assert!(anew.was_blank() && anew.ledger().is_empty() && anew.identity() != store.identity());
    assert!(!run(finds(&anew, 1)));
    anew.put(&key(2), b"", &[1; 500]).unwrap();
    assert!(anew.close());
    let later = Store::over(disk, &options()).unwrap();
    assert!(!later.was_blank() && later.identity() == anew.identity() && later.ledger().is_empty());
    assert!(!run(finds(&later, 1)) && run(finds(&later, 2)));
}

/// In a file, which has the size and the packets that it had.
#[test]
fn a_file_that_begins_anew_stays_as_large_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = Options { tell: |_| {}, ..Options::at(folder.path().join("cache")) };
    let store = Store::open(&Options { size: Some(3 << 20), packet: 64 << 10, ..at.clone() }).unwrap();
    let size = store.stats().size;
    store.put(&key(1), b"", &[1; 500]).unwrap();
    store.leave();
    comes("it is left", || store.has_left());
    let anew = Store::open(&Options { anew: true, ..at.clone() }).unwrap();
    assert!(anew.stats().size == size && anew.was_blank() && !run(finds(&anew, 1)));
}
