//! A disk whose reads hang: who has patience goes elsewhere, and comes back when the disk does.

mod support;

use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use store::{Body, Key, Lookup, Object, Options, Store};
use support::Hanging;

const SIZE: u64 = 4 << 20;
const PATIENCE: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_secs(20);

#[test]
fn nobody_waits_for_a_read_that_hangs() {
    let disk = Hanging::new(SIZE, 1);
    let options = Options { size: Some(SIZE), packet: 64 << 10, patience: PATIENCE, ..Options::at("") };
    let key = |n: u32| Key::new(format!("GET http://example.com/{n}").into_bytes());
    let store = Store::over(disk.clone(), &options).unwrap();
    (0..9).for_each(|n| store.put(&key(n), b"", &[n as u8; 500]).unwrap());
    assert!(store.close());
    let store = Store::over(disk.clone(), &options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let reader = store.reader().unwrap();
        assert!(matches!(reader.look(&key(0)).await, Lookup::Found(_)));
        disk.set([true, false]);
        let began = Instant::now();
        // The first one waits, the others know.
        for n in 1..9 {
            assert!(matches!(reader.look(&key(n)).await, Lookup::Late), "{n}");
        }
        let waited = began.elapsed();
        assert!(waited >= PATIENCE && waited < SOON, "{waited:?}");
        assert_eq!(store.stats().busy_reads, 8);
        disk.set([false, false]);
        while !matches!(reader.look(&key(1)).await, Lookup::Found(_)) {
            assert!(began.elapsed() < SOON, "the disk is well again");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for n in 0..9 {
            assert!(matches!(reader.look(&key(n)).await, Lookup::Found(_)), "{n}");
        }
    });
    assert_eq!((store.stats().bad_records, store.stats().read_errors), (0, 0));
}

/// Its object was found before the disk began to hang.
#[test]
fn a_piece_of_a_body_is_given_up_after_four_times_the_patience_and_is_still_there() {
    let disk = Hanging::new(SIZE, 2);
    let options = Options {
        size: Some(SIZE),
        packet: 64 << 10,
        object_max: Some(SIZE / 4),
        patience: PATIENCE,
        ..Options::at("")
    };
    let key = Key::new("GET http://example.com/");
    let store = Store::over(disk.clone(), &options).unwrap();
    let length = 3 * store.span_size();
    let mut writer = store.begin(&key, Some(length as u64)).unwrap();
    writer.push(&mut &vec![7; length][..]).unwrap();
    writer.finish(b"").unwrap();
    assert!(store.close());
    let store = Store::over(disk.clone(), &options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let reader = store.reader().unwrap();
        let Lookup::Found(Object { body: Body::Spans(spans), .. }) = reader.look(&key).await else {
            panic!("no large object")
        };
        assert!(reader.span(&spans, 0).await.is_some());
        disk.set([true, false]);
        let began = Instant::now();
        let read = tokio::time::timeout(SOON, reader.span(&spans, 1)).await;
        assert!(read.expect("it waits for the disk").is_none());
        let waited = began.elapsed();
        assert!(waited >= 4 * PATIENCE && waited < SOON, "{waited:?}");
        assert!(matches!(reader.look(&key).await, Lookup::Late), "others know");
        // Who stays is asked each time, and stays with the read that was begun.
        let asked = Cell::new(0);
        let stays = |most| {
            asked.set(asked.get() + 1);
            asked.get() < most
        };
        assert!(matches!(reader.look_span(&spans, 1, &|| stays(3)).await, Lookup::Late) && asked.get() == 3);
        let begun = disk.begun.load(SeqCst);
        let opens = || {
            disk.set([false, false]);
            true
        };
        assert!(matches!(reader.look_span(&spans, 2, &opens).await, Lookup::Found(_)));
        assert_eq!(disk.begun.load(SeqCst), begun + 1);
        assert!(reader.span(&spans, 1).await.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 7)));
    });
    assert_eq!((store.stats().bad_records, store.stats().read_errors), (0, 0));
}

/// What is written is, and a thread does not come back from a read.
#[test]
fn a_store_ends_in_time_while_a_read_hangs() {
    let disk = Hanging::new(SIZE, 4);
    let options = Options { size: Some(SIZE), packet: 64 << 10, ..Options::at("") };
    let store = Store::over(disk.clone(), &options).unwrap();
    let mut keys = (0..).map(|n: u32| Key::new(format!("GET http://example.com/{n}").into_bytes()));
    let began = Instant::now();
    let mut put = || {
        let _ = store.put(&keys.next().unwrap(), b"", &[7; 9_000]);
        std::thread::sleep(Duration::from_millis(1));
        assert!(began.elapsed() < SOON, "the log never comes round");
    };
    // From then on tables are read.
    while store.stats().engine.swept == 0 {
        put();
    }
    disk.set([true, false]);
    let begun = disk.begun.load(SeqCst);
    while disk.begun.load(SeqCst) == begun {
        put();
    }
    let (sender, closed) = std::sync::mpsc::channel();
    let ends = store.clone();
    std::thread::spawn(move || sender.send(ends.close()));
    assert_eq!(closed.recv_timeout(SOON), Ok(true));
    disk.set([false, false]);
}

/// A timer that is the next to expire wakes the runtime by a write.
#[test]
fn reads_that_come_soon_set_no_timer_each() {
    const READS: usize = 64;
    let disk = Hanging::new(SIZE, 3);
    let options = Options { size: Some(SIZE), packet: 64 << 10, patience: SOON, ..Options::at("") };
    let key = Key::new("GET http://example.com/");
    let store = Store::over(disk.clone(), &options).unwrap();
    store.put(&key, b"", &[7; 500]).unwrap();
    assert!(store.close());
    let store = Store::over(disk.clone(), &options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let reader = store.reader().unwrap();
        let pause = async || {
            let waited = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)));
            waited.await.unwrap();
        };
        let (read, written) = (disk.begun.load(SeqCst), writes());
        for _ in 0..READS {
            disk.set([true, false]);
            let (found, ()) = tokio::join!(reader.get(&key), async {
                pause().await;
                disk.set([false, false]);
            });
            assert!(found.is_some());
            // Nothing is awaited that has a timer.
            pause().await;
        }
        let (read, written) = (disk.begun.load(SeqCst) - read, writes() - written);
        assert!(read == READS && written < READS / 4, "{written} writes for {read} reads");
    });
}

/// Calls of this thread that wrote something, ever.
fn writes() -> usize {
    let counters = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counters.lines().find_map(|line| line.strip_prefix("syscw: "));
    line.unwrap().parse().unwrap()
}
