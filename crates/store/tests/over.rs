//! The threaded store over the simulated disk: kills, failing writes, failing reads.

use rand::{SeedableRng, rngs::StdRng};
use std::sync::Arc;
use std::time::Duration;
use store::disk::sim::{Faults, SimDisk};
use store::{Body, Key, Options, Store};
use tokio::runtime::LocalRuntime;

const SIZE: u64 = 4 << 20;
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
