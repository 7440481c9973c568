//! The store through its public interface, on real files, with both ways of reading.

use bytes::Bytes;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use store::format::record::Kind;
use store::{
    Admission, Body, IoChoice, Key, LEDGER_MAX, Lookup, Object, Options, Reader, Refused, Seen, Spans, Store,
    WriteBudget, check, inspect, survey,
};
use tokio::runtime::LocalRuntime;

fn runtime() -> LocalRuntime {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap()
}

fn options(path: &Path, io: IoChoice) -> Options {
    Options { size: Some(64 << 20), io, object_max: Some(8 << 20), ..Options::at(path) }
}

fn key(n: u32) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

fn body(n: u32, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u32).wrapping_mul(2_654_435_761).wrapping_add(n) as u8).collect()
}

async fn read(reader: &Reader, key: &Key) -> Option<(Bytes, Vec<u8>)> {
    let object = reader.get(key).await?;
    let body = match object.body {
        Body::Whole(bytes) => bytes.to_vec(),
        Body::Spans(spans) => {
            let mut body = Vec::new();
            for n in 0..spans.count() {
                body.extend_from_slice(&reader.span(&spans, n).await?);
            }
            assert_eq!(body.len() as u64, spans.length);
            body
        }
    };
    Some((object.meta, body))
}

#[test]
fn objects_of_every_size_come_back_now_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let path = folder.path().join(format!("{io:?}.cosm"));
        let sizes = [0, 1, 63, 4_096, 65_536, 262_144, 262_145, 1_000_000, 3 << 20];
        for round in 0..2 {
            let store = Store::open(&options(&path, io)).unwrap();
            runtime().block_on(async {
                let reader = store.reader().unwrap();
                if round == 0 {
                    for (n, &size) in sizes.iter().enumerate() {
                        let (n, body) = (n as u32, body(n as u32, size));
                        let mut writer = store.begin(&key(n), None).unwrap();
                        for piece in body.chunks(50_000) {
                            writer.push(&mut &*piece).unwrap();
                            assert!(!store.contains(&key(n)), "found before it was whole");
                        }
                        writer.finish(format!("meta {n}").as_bytes()).unwrap();
                    }
                }
                for (n, &size) in sizes.iter().enumerate() {
                    let (meta, bytes) =
                        read(&reader, &key(n as u32)).await.unwrap_or_else(|| panic!("{size} bytes"));
                    assert_eq!(meta, format!("meta {n}"));
                    assert!(bytes == body(n as u32, size));
                }
                assert!(reader.get(&key(99)).await.is_none());
            });
            store.close();
        }
        let checked = check(&path, |_, _| ()).unwrap();
        assert_eq!((checked.damaged, checked.sound), (0, inspect(&path).unwrap().objects));
    }
}

#[test]
fn a_hit_costs_one_device_read_and_a_stranger_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let store = Store::open(&options(&path, IoChoice::Auto)).unwrap();
    for n in 0..500 {
        store.put(&key(n), b"meta", &body(n, 8_000)).unwrap();
    }
    store.close();
    let store = Store::open(&options(&path, IoChoice::Auto)).unwrap();
    // What was left open has its table now, and nothing is in memory.
    assert!(store.close());
    runtime().block_on(async {
        let reader = store.reader().unwrap();
        let before = store.stats().device_reads;
        for n in 0..500 {
            assert!(read(&reader, &key(n)).await.unwrap().1 == body(n, 8_000));
        }
        assert_eq!(store.stats().device_reads - before, 500);
        for n in 1_000..2_000 {
            assert!(reader.get(&key(n)).await.is_none());
        }
        assert_eq!(store.stats().device_reads - before, 500);
    });
}

#[test]
fn removed_replaced_and_abandoned_objects_are_gone_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let store = Store::open(&options(&path, IoChoice::Auto)).unwrap();
    store.put(&key(1), b"", b"one").unwrap();
    store.put(&key(2), b"", b"two").unwrap();
    store.put(&key(2), b"", b"two, newer").unwrap();
    store.remove(&key(1));
    let mut writer = store.begin(&key(3), None).unwrap();
    writer.push(&mut &*body(3, 1 << 20)).unwrap();
    drop(writer);
    let mut writer = store.begin(&key(4), Some(9 << 20)).err();
    assert_eq!(writer.take(), Some(Refused::TooLarge));
    let mut writer = store.begin(&key(5), None).unwrap();
    let refused = (0..10).find_map(|_| writer.push(&mut &*body(5, 1 << 20)).err());
    assert_eq!(refused, Some(Refused::TooLarge));
    drop(writer);
    for store in [
        store.clone(),
        {
            store.close();
            Store::open(&options(&path, IoChoice::Auto))
        }
        .unwrap_or(store),
    ] {
        runtime().block_on(async {
            let reader = store.reader().unwrap();
            for n in [1, 3, 4, 5] {
                assert!(reader.get(&key(n)).await.is_none(), "{n}");
            }
            assert_eq!(read(&reader, &key(2)).await.unwrap().1, b"two, newer");
        });
    }
}

/// A store that is behind refuses; this waits instead of passing on.
fn put(store: &Store, key: &Key, body: &[u8]) {
    while store.put(key, b"meta", body) == Err(Refused::Busy) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The same for an object of any size.
fn put_large(store: &Store, key: &Key, body: &[u8]) {
    let mut writer = store.begin(key, Some(body.len() as u64)).unwrap();
    let mut left = body;
    while let Err(refused) = writer.push(&mut left).and_then(|()| writer.finish(b"meta")) {
        assert_eq!(refused, Refused::Busy);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_file_never_grows_and_the_newest_objects_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let admission = Admission::All;
    let options =
        Options { size: Some(20 << 20), packet: 64 << 10, admission, ..options(&path, IoChoice::Auto) };
    let store = Store::open(&options).unwrap();
    let size = std::fs::metadata(&path).unwrap().len();
    assert_eq!(size, 20 << 20);
    let puts = 6_000;
    (0..puts).for_each(|n| put(&store, &key(n), &body(n, 10_000)));
    // Six records fill a packet of 64 KiB; the last of 304 packets is open, and digests take the room of one at most.
    let (most, there) = (304 * 6, 302 * 6);
    runtime().block_on(async {
        let reader = store.reader().unwrap();
        for n in puts - there..puts {
            let found = read(&reader, &key(n)).await.unwrap_or_else(|| panic!("{n} of {puts}"));
            assert!(found.1 == body(n, 10_000), "{n}");
        }
    });
    assert_eq!((0..puts - most).find(|n| store.contains(&key(*n))), None, "the oldest went");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
    let stats = store.stats();
    assert_eq!((stats.bad_records, stats.engine.write_errors), (0, 0));
    assert!(store.close());
    assert_eq!(check(&path, |_, _| ()).unwrap().damaged, 0);
}

/// As many bytes as the cache has, but for the share said, are in whole large objects.
#[test]
fn spans_fill_packets() {
    let folder = tempfile::tempdir().unwrap();
    for (packet, size) in [(64 << 10, 20 << 20), (1 << 20, 64 << 20), (4 << 20, 81 << 20)] {
        let path = folder.path().join(packet.to_string());
        let options = Options { size: Some(size), packet, ..options(&path, IoChoice::Threads) };
        let store = Store::open(&options).unwrap();
        let length = 4 * 1_000_000;
        let most = (size / length) as u32;
        (0..2 * most).for_each(|n| put_large(&store, &key(n), &body(n, length as usize)));
        let whole = runtime().block_on(async {
            let reader = store.reader().unwrap();
            let mut whole = 0;
            for n in 0..2 * most {
                let Some((_, bytes)) = read(&reader, &key(n)).await else { continue };
                assert!(bytes == body(n, length as usize));
                whole += length;
            }
            whole
        });
        assert!(store.close());
        // The packet that is open, and the object that is being swept, are not whole.
        let log = size - (1 << 20) - u64::from(packet) - length;
        assert!(whole * 100 >= log * 95, "{whole} of {log} bytes in packets of {packet}");
    }
}

/// Each time all of it goes: of the older ones nothing is left that would keep others from being stored.
#[test]
fn a_large_object_that_is_replaced_over_and_over_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let (size, admission) = (Some(33 << 20), Admission::All);
    let options = Options { size, packet: 64 << 10, admission, ..options(&path, IoChoice::Threads) };
    let store = Store::open(&options).unwrap();
    let large = 2 << 20;
    for round in 0..50 {
        put_large(&store, &key(0), &body(round, large));
        put(&store, &key(1_000 + round), &body(round, 8_000));
    }
    runtime().block_on(async {
        let reader = store.reader().unwrap();
        assert!(read(&reader, &key(0)).await.is_some_and(|(_, bytes)| bytes == body(49, large)));
        // What fits beside the versions that were put last: none of the older ones takes room.
        for round in 37..50 {
            let found = read(&reader, &key(1_000 + round)).await;
            assert!(found.is_some_and(|(_, bytes)| bytes == body(round, 8_000)), "{round}");
        }
        // And all of the cache is there for others.
        (2_000..7_000).for_each(|n| put(&store, &key(n), &body(n, 8_000)));
        assert!(read(&reader, &key(0)).await.is_none());
        for n in 7_000 - 3_500..7_000 {
            let found = read(&reader, &key(n)).await.map(|(_, bytes)| bytes);
            assert!(found.is_some_and(|bytes| bytes == body(n, 8_000)), "{n}");
        }
    });
    assert!(store.close());
}

#[test]
fn what_is_not_a_cache_is_refused_in_one_line_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let cache = folder.path().join("cache");
    let store = Store::open(&options(&cache, IoChoice::Auto)).unwrap();
    let locked = Store::open(&options(&cache, IoChoice::Auto)).err().unwrap().why;
    assert!(locked.contains("in use by another process"), "{locked}");
    store.close();
    drop(store);
    let good = std::fs::read(&cache).unwrap();

    let mut newer = good.clone();
    newer[4096 + 8] = 99;
    newer[8] = 99;
    let mut older = good.clone();
    older[4096 + 8] = 1;
    older[8] = 1;
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    damaged[4096 + 20] ^= 1;
    let cases = [
        (file("newer", &newer), "has format 99"),
        (file("older", &older), "has format 1, this program reads format 3"),
        (file("damaged", &damaged), "damaged in both superblocks"),
        (file("foreign", &vec![0x7f; 4 << 20]), "not a Cosm cache"),
        (file("late", &[vec![0; 100_000], vec![1; 4 << 20]].concat()), "not a Cosm cache"),
        (file("short", b"hello"), "not a Cosm cache"),
        (file("cut", &good[..good.len() / 2]), "was cut off"),
        (folder.path().to_path_buf(), "directory"),
        (folder.path().join("missing/cache"), "cannot create cache"),
    ];
    for (path, expected) in cases {
        let before = std::fs::read(&path).ok();
        let options = Options { size: None, ..options(&path, IoChoice::Auto) };
        let error = Store::open(&options).err().unwrap_or_else(|| panic!("{expected}")).why;
        assert!(error.to_lowercase().contains(&expected.to_lowercase()), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(std::fs::read(&path).ok() == before, "touched: {expected}");
    }
    let huge = folder.path().join("huge");
    for (size, expected) in [(1 << 60, "at most 256 TiB"), (200 << 40, "cannot reserve")] {
        let too_much = Options { size: Some(size), ..options(&huge, IoChoice::Auto) };
        let error = Store::open(&too_much).err().unwrap().why;
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        assert!(!huge.exists());
    }
}

#[test]
fn the_ledger_comes_back_whole_after_closing_and_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    // Closing does not wait for the interval.
    let patient = Options { flush_interval: Duration::from_secs(3_600), ..options(&path, IoChoice::Threads) };
    let store = Store::open(&patient).unwrap();
    assert_eq!(store.ledger(), b"");
    assert_eq!(store.set_ledger(&vec![0; LEDGER_MAX + 1]), Err(Refused::TooLarge));
    for length in [10, LEDGER_MAX, 5_000] {
        store.set_ledger(&body(1, length)).unwrap();
        assert_eq!(store.ledger(), body(1, length));
    }
    store.close();
    drop(store);
    let seen = inspect(&path).unwrap();
    // Two copies when the cache was made, and two of what was set last.
    assert_eq!((seen.ledger.len(), seen.ledger_generation), (5_000, 3));

    let quick = Options { flush_interval: Duration::from_millis(50), ..patient };
    for n in 2..6 {
        let store = Store::open(&quick).unwrap();
        assert!(store.ledger() == if n == 2 { body(1, 5_000) } else { body(n - 1, LEDGER_MAX) });
        store.set_ledger(&body(n, LEDGER_MAX)).unwrap();
        // The fence, and one copy.
        let until = Instant::now() + Duration::from_secs(20);
        while store.stats().device_writes < 2 {
            assert!(Instant::now() < until, "the ledger is never written");
            std::thread::sleep(Duration::from_millis(10));
        }
        // Nothing is flushed by this: it is as after a kill, once the write under way has ended.
        drop(store);
    }
    assert!(inspect(&path).unwrap().ledger_generation >= 3 + 4);
}

#[test]
fn what_was_persisted_is_there_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (path, killed) = (folder.path().join("cache"), folder.path().join("killed"));
    let patient = Options { flush_interval: Duration::from_secs(3_600), ..options(&path, IoChoice::Threads) };
    let store = Store::open(&patient).unwrap();
    for n in 0..10 {
        store.put(&key(n), b"meta", &body(n, 1_000)).unwrap();
    }
    assert!(store.persist(Duration::from_secs(20)));
    store.remove(&key(3));
    store.set_ledger(b"ledger").unwrap();
    assert!(store.persist(Duration::from_secs(20)));
    store.remove(&key(4));
    // What the file holds now is what a kill leaves.
    std::fs::copy(&path, &killed).unwrap();
    let after = Store::open(&Options { path: killed, ..patient }).unwrap();
    assert_eq!(after.ledger(), b"ledger");
    let there: Vec<u32> = (0..10).filter(|n| after.contains(&key(*n))).collect();
    assert_eq!(there, [0, 1, 2, 4, 5, 6, 7, 8, 9], "4 was removed, but nobody waited");
}

/// Meta and body of a key, and what that cost the device.
fn hit(store: &Store, key: &Key) -> ((Bytes, Vec<u8>), u64) {
    let before = store.stats().device_reads;
    let found = runtime().block_on(async { read(&store.reader().unwrap(), key).await }).unwrap();
    (found, store.stats().device_reads - before)
}

#[test]
fn metadata_is_replaced_and_a_later_hit_costs_one_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let open = || Store::open(&options(&path, IoChoice::Auto)).unwrap();
    let (medium, large) = (body(1, 64 << 10), body(3, 1_000_000));
    let store = open();
    store.put(&key(1), b"meta 0", &medium).unwrap();
    store.put(&key(2), b"meta 0", b"small").unwrap();
    put_large(&store, &key(3), &large);
    store.close();
    drop(store);

    for round in 1..=4 {
        let (store, meta) = (open(), format!("meta {round}"));
        let spans = runtime().block_on(async { store.reader().unwrap().get(&key(3)).await }).unwrap().body;
        let before = store.stats().engine.put_bytes;
        store.put_meta(&key(3), meta.as_bytes(), &spans).unwrap();
        let written = store.stats().engine.put_bytes - before;
        assert!(written < 4_096, "{written} bytes of log for a large object");
        store.put_meta(&key(1), meta.as_bytes(), &Body::Whole(medium.clone().into())).unwrap();
        assert_eq!(hit(&store, &key(1)), ((meta.clone().into(), medium.clone()), 0), "from memory");
        // As a clean end leaves it, and as a kill does.
        if round % 2 == 0 {
            assert!(store.close());
        } else {
            assert!(store.persist(Duration::from_secs(20)));
            store.abandon();
        }
        drop(store);
        let store = open();
        let (found, reads) = hit(&store, &key(1));
        assert!(found == (meta.clone().into(), medium.clone()), "round {round}");
        // What was left open lies in memory until its table is written.
        assert!(reads <= 1, "{reads} reads in round {round}");
        assert!(hit(&store, &key(3)).0 == (meta.into(), large.clone()), "round {round}");
        assert_eq!(store.stats().objects, inspect(&path).unwrap().objects);
        store.close();
    }
    let store = open();
    // What is put or removed later has nothing of it.
    store.put_meta(&key(1), b"newest", &Body::Whole(medium.clone().into())).unwrap();
    store.put(&key(1), b"put again", &medium).unwrap();
    assert_eq!(hit(&store, &key(1)).0, (Bytes::from("put again"), medium.clone()));
    store.remove(&key(1));
    assert!(!store.contains(&key(1)));
    // What is gone is put anew.
    store.put_meta(&key(1), b"back", &Body::Whole(medium.clone().into())).unwrap();
    assert_eq!(hit(&store, &key(1)).0, (Bytes::from("back"), medium));
    assert_eq!(hit(&store, &key(2)).0, (Bytes::from("meta 0"), b"small".to_vec()));
    store.close();
    let checked = check(&path, |_, _| ()).unwrap();
    assert_eq!((checked.damaged, checked.unreadable_segments), (0, 0));
}

#[test]
fn more_reads_than_fly_at_once_wait_for_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let path = folder.path().join(format!("{io:?}.cosm"));
        let options = Options { packet: 64 << 10, ..options(&path, io) };
        let large = body(1, 2_000_000);
        let store = Store::open(&options).unwrap();
        let mut writer = store.begin(&key(1), None).unwrap();
        writer.push(&mut &large[..]).unwrap();
        writer.finish(b"meta").unwrap();
        store.put(&key(2), b"meta", b"small").unwrap();
        store.close();
        let store = Store::open(&options).unwrap();
        runtime().block_on(async {
            let reader = store.reader().unwrap();
            let Some(Body::Spans(spans)) = reader.get(&key(1)).await.map(|found| found.body) else {
                panic!()
            };
            let read = |n: u32| {
                let reader = reader.clone();
                tokio::task::spawn_local(async move { reader.span(&spans, n % spans.count()).await })
            };
            // Those who leave take no turn with them.
            for _ in 0..3 {
                let left: Vec<_> = (0..600).map(read).collect();
                tokio::task::yield_now().await;
                left.into_iter().for_each(|read| read.abort());
            }
            let all: Vec<_> = (0..600).map(read).collect();
            tokio::task::yield_now().await;
            assert!(reader.get(&key(2)).await.is_some(), "behind them all, within its patience");
            for (n, read) in (0..600).zip(all) {
                let at = n as usize % spans.count() as usize * spans.span as usize;
                let expected = &large[at..large.len().min(at + spans.span as usize)];
                assert!(read.await.unwrap().is_some_and(|bytes| bytes == expected), "{io:?}: span {n}");
            }
        });
        assert_eq!((store.stats().busy_reads, store.stats().bad_records), (0, 0));
    }
}

#[test]
fn a_cache_is_its_owners_alone_and_one_that_is_not_is_told_of() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let tell = |line: &str| SAID.lock().unwrap().push(line.to_owned());
    let options = Options { tell, ..options(&path, IoChoice::Threads) };
    Store::open(&options).unwrap().close();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(*SAID.lock().unwrap(), [""; 0]);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    Store::open(&options).unwrap().close();
    assert!(SAID.lock().unwrap()[0].contains("chmod 600"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644, "it is left as it is");
}

#[test]
fn a_file_that_is_cut_off_or_deleted_is_told_of_and_what_lay_there_is_missed() {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let said = |what: &str| SAID.lock().unwrap().iter().filter(|line| line.contains(what)).count();
    let eventually = |what: &str| {
        let until = Instant::now() + Duration::from_secs(20);
        while said(what) == 0 {
            assert!(Instant::now() < until, "nobody says: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let tell = |line: &str| SAID.lock().unwrap().push(line.to_owned());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let flush_interval = Duration::from_millis(20);
        let options = Options { tell, flush_interval, ..options(&path, io) };
        let store = Store::open(&options).unwrap();
        store.put(&key(1), b"meta", &body(1, 8_000)).unwrap();
        assert!(store.persist(Duration::from_secs(20)));
        store.close();
        let store = Store::open(&options).unwrap();
        assert_eq!(said("was "), 0);
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
        eventually("was cut off");
        runtime().block_on(async {
            assert!(read(&store.reader().unwrap(), &key(1)).await.is_none());
        });
        assert_eq!((store.stats().read_errors, store.stats().bad_records), (1, 0));
        std::fs::remove_file(&path).unwrap();
        eventually("was deleted");
        // Each is said once.
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((said("was cut off"), said("was deleted")), (1, 1));
        drop(store);
        SAID.lock().unwrap().clear();
    }
}

#[test]
fn a_survey_shows_what_there_is_in_as_many_segments_as_it_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let options = Options { packet: 64 << 10, ..options(&path, IoChoice::Threads) };
    let store = Store::open(&options).unwrap();
    for n in 0..100 {
        store.put(&key(n), b"meta", &body(n, 10_000)).unwrap();
    }
    store.remove(&key(7));
    let look = |limit: u64| {
        let mut found = Vec::new();
        let visit = |seen: Seen<'_>| {
            assert_eq!((seen.meta, seen.body, seen.kind), (&b"meta"[..], 10_000, Kind::Object));
            found.push(Key::new(seen.key.to_vec()));
        };
        let (inspection, surveyed) = survey(&path, limit, visit, |_, _| ()).unwrap();
        // The index knows lengths about.
        let used = 99 * 10_112;
        assert!(inspection.objects == 99 && (used..used + used / 32).contains(&inspection.used));
        assert_eq!(surveyed.used, found.len() as u64 * 10_112);
        (found, surveyed)
    };
    // Beside who writes it.
    assert!(store.persist(Duration::from_secs(20)));
    let (mut all, surveyed) = look(u64::MAX);
    all.sort_by_key(|key| key.hash());
    let mut expected: Vec<_> = (0..100).filter(|n| *n != 7).map(key).collect();
    expected.sort_by_key(|key| key.hash());
    assert_eq!(all, expected);
    assert_eq!((surveyed.unsound, surveyed.unreadable_segments), (0, 0));
    let (some, surveyed) = look(4 * u64::from(options.packet));
    assert_eq!(surveyed.read, 4);
    assert!((4..=4 * 6).contains(&some.len()), "{}", some.len());
    store.close();
}

/// Tiny objects, of which the file could hold many times as many as the index may have: more than a packet has, and fewer.
#[test]
fn an_index_that_is_full_has_objects_leave() {
    let folder = tempfile::tempdir().unwrap();
    for most in [2_000, 100] {
        let path = folder.path().join(most.to_string());
        let options = Options {
            size: Some(8 << 20),
            packet: 64 << 10,
            index_max: Some(most),
            ..options(&path, IoChoice::Threads)
        };
        let store = Store::open(&options).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let mut taken = 0;
        while taken < 3 * most as u32 {
            match store.put(&key(taken), b"meta", &body(taken, 100)) {
                Ok(()) => taken += 1,
                Err(Refused::Busy) => std::thread::sleep(Duration::from_millis(1)),
                Err(refused) => panic!("{refused:?}"),
            }
            assert!(store.stats().objects <= most, "{} objects", store.stats().objects);
            assert!(Instant::now() < until, "stuck after {taken} objects");
        }
        assert!(store.contains(&key(taken - 1)) && !store.contains(&key(0)));
        // One packet at a time leaves.
        assert!(most < 240 || store.stats().objects > most - 2 * 240);
        runtime().block_on(async {
            let (meta, bytes) = read(&store.reader().unwrap(), &key(taken - 1)).await.unwrap();
            assert!(meta == "meta" && bytes == body(taken - 1, 100));
        });
        assert!(store.close());
    }
}

/// Pieces that went away come back, and the head does not leave before them.
#[test]
fn an_object_whose_lost_pieces_are_put_back_outlives_the_log_going_round() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        size: Some(9 << 20),
        packet: 64 << 10,
        admission: Admission::All,
        // A machine that is busy shall not make the disk late.
        patience: Duration::from_secs(60),
        ..options(&folder.path().join("cache"), IoChoice::Threads)
    };
    let store = Store::open(&options).unwrap();
    let whole = body(0, 3 << 20);
    put_large(&store, &key(0), &whole);
    runtime().block_on(async {
        let reader = store.reader().unwrap();
        let mut lost = 0;
        for n in 1.. {
            // In the end nothing else is put, until all of it is there and what waited to be written takes no more of it.
            if n < 4_000 {
                put(&store, &key(n), &body(n, 10_000));
            }
            let Lookup::Found(Object { meta, body: Body::Spans(spans) }) = reader.look(&key(0)).await else {
                panic!("it has left after {n}")
            };
            let missing: Vec<u32> = store.missing(&spans, 0..spans.count()).collect();
            for n in &missing {
                assert!(reader.get(&key(0)).await.is_none(), "not all of it is there");
                let from = *n as usize * spans.span as usize;
                let piece = &whole[from..whole.len().min(from + spans.span as usize)];
                while store.put_span(&spans, *n, piece) == Err(Refused::Busy) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            if !missing.is_empty() {
                // It yields to what waits to be written.
                assert!(store.persist(Duration::from_secs(60)));
                store.put_head_again(&key(0), &meta, &spans);
            }
            lost += missing.len();
            if n > 4_000 && missing.is_empty() {
                assert!(store.persist(Duration::from_secs(60)));
                if store.missing(&spans, 0..spans.count()).next().is_none() {
                    break;
                }
            }
        }
        assert!(lost > 300, "the log went round {lost}");
        let (_, bytes) = read(&reader, &key(0)).await.unwrap();
        assert!(bytes == whole);
    });
    assert!(store.close());
}

/// The last piece of a body is longer once that has grown.
#[test]
fn a_piece_of_another_length_is_neither_put_nor_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&options(&folder.path().join("x.cosm"), IoChoice::Threads)).unwrap();
    let (key, all) = (key(1), body(1, 1_500_000));
    let span = store.span_size();
    let mut writer = store.begin(&key, Some(span as u64 + 1_000)).unwrap();
    writer.push(&mut &all[..span + 1_000]).unwrap();
    writer.finish(b"part").unwrap();
    runtime().block_on(async {
        let reader = store.reader().unwrap();
        let Lookup::Found(Object { body: Body::Spans(part), .. }) = reader.look(&key).await else {
            panic!("no large object")
        };
        let grown = Spans { length: all.len() as u64, ..part };
        assert_eq!(reader.span(&part, 1).await.map(|piece| piece.len()), Some(1_000));
        for (spans, length) in [(&grown, 1_000), (&part, span), (&part, 999), (&part, 0)] {
            assert_eq!(store.put_span(spans, 1, &all[span..span + length]), Err(Refused::NotAdmitted));
        }
        // What is there of the body as it was is none of it as it is.
        assert!(reader.span(&grown, 1).await.is_none());
        assert!(store.missing(&grown, 0..2).eq([1]));
        store.put_span(&grown, 1, &all[span..2 * span]).unwrap();
        assert!(reader.span(&grown, 1).await.is_some_and(|piece| piece == all[span..2 * span]));
        assert!(reader.span(&part, 1).await.is_some_and(|piece| piece == all[span..span + 1_000]));
    });
    store.close();
}

/// Two go on with one part; one of them finishes it.
#[test]
fn a_writer_that_gives_up_takes_nothing_from_an_object_that_another_finished() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&options(&folder.path().join("x.cosm"), IoChoice::Threads)).unwrap();
    let (key, all) = (key(1), body(1, 1_500_000));
    let span = store.span_size();
    let mut first = store.begin(&key, Some(all.len() as u64)).unwrap();
    first.push(&mut &all[..span + 1]).unwrap();
    let part = first.spans();
    first.finish_part(b"part").unwrap();
    drop(first);
    let [mut one, mut other] = [(), ()].map(|()| store.resume(&key, &part, Some(all.len() as u64)).unwrap());
    one.push(&mut &all[span..]).unwrap();
    other.push(&mut &all[span..3 * span + 1]).unwrap();
    one.finish(b"whole").unwrap();
    drop(other);
    runtime().block_on(async {
        let reader = store.reader().unwrap();
        assert_eq!(read(&reader, &key).await.map(|(_, body)| body == all), Some(true));
    });
    store.close();
}

#[test]
fn a_write_budget_is_told_beside_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let write_budget = Some(WriteBudget { bytes: 7 << 20, period: Duration::from_secs(7 * 86_400) });
    let path = folder.path().join("x.cosm");
    let store = Store::open(&Options { write_budget, ..options(&path, IoChoice::Threads) }).unwrap();
    let stats = store.stats();
    // A start writes one block, the fence.
    assert!(stats.write_budget == 1 << 20 && stats.written_last_day <= 4096);
    // 896 KiB are left then.
    let put = |n| store.put(&key(n), b"", &body(n, 8_000)).is_ok();
    let taken = (0..400).filter(|n| put(*n)).count();
    assert!((1..112).contains(&taken), "{taken} of 112 that there is room for");
    assert!(store.persist(Duration::from_secs(60)));
    let stats = store.stats();
    assert_eq!(stats.engine.unaffordable, 400 - taken as u64);
    assert!(stats.written_last_day >= 8_000 * taken as u64);
    assert_eq!(stats.written_last_day, stats.engine.written_bytes);
    assert!(store.close());
}

#[test]
fn a_look_without_a_trace_counts_no_use_and_tells_where_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    for io in [IoChoice::Auto, IoChoice::Threads] {
        let store = Store::open(&options(&folder.path().join(format!("{io:?}")), io)).unwrap();
        store.put(&key(1), b"meta", &body(1, 5_000)).unwrap();
        let uses = || store.whereabouts(&key(1)).unwrap().uses;
        let before = uses();
        runtime().block_on(async {
            let reader = store.reader().unwrap();
            for round in 0..2 {
                let found = reader.peek(&key(1)).await;
                let Lookup::Found(Object { meta, body: Body::Whole(bytes) }) = found else {
                    panic!("{found:?}");
                };
                assert!(meta == b"meta"[..] && bytes == body(1, 5_000), "round {round}");
                assert!(matches!(reader.peek(&key(2)).await, Lookup::Missing));
                assert_eq!(uses(), before);
                // From memory first, then from the disk.
                let began = Instant::now();
                while !store.whereabouts(&key(1)).unwrap().written {
                    let _ = store.put(&key(100), b"", &body(100, 200_000));
                    assert!(began.elapsed() < Duration::from_secs(20));
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            assert!(read(&reader, &key(1)).await.is_some());
            assert_eq!(uses(), before + 1);
        });
        let at = store.whereabouts(&key(1)).unwrap();
        assert!(at.written && at.bytes >= 5_000 && at.age.is_some(), "{at:?}");
        assert!(store.whereabouts(&key(2)).is_none());
        let map = store.map(16);
        assert_eq!((map.cells.len(), map.segments * u64::from(map.segment) / (60 << 20)), (16, 1));
        let youngest = map.cells.iter().filter_map(|cell| cell.behind).min();
        assert!(youngest == Some(0) && map.cells.last().unwrap().held == 0, "{map:?}");
        store.close();
    }
}
