//! Sets of stores over simulated disks that are left, come back, go missing and are killed: a key answers with what was put last,
//! or with nothing.

use super::care::Why;
use super::set::{Set, Ticks};
use super::{Change, Disk, Kind, Obstacle, Opening, Patience, Readers, State, Stores, Successor, Unopened};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use store::disk::Disk as Medium;
use store::disk::sim::SimDisk;
use store::{Body, Key, Lookup, Object, Options, Store};

const SIZE: u64 = 3 << 20;
const SOON: Duration = Duration::from_secs(20);

/// A disk's bay: what is in it stays over restarts.
struct Bay {
    disk: Mutex<Arc<SimDisk>>,
    is_away: AtomicBool,
    /// Another process has it.
    is_in_use: AtomicBool,
}

impl Bay {
    fn new(seed: u64) -> Arc<Bay> {
        Arc::new(Bay {
            disk: Mutex::new(blank(seed)),
            is_away: AtomicBool::new(false),
            is_in_use: AtomicBool::new(false),
        })
    }

    fn copy(&self) -> Vec<u8> {
        self.disk.lock().unwrap().bytes()
    }

    /// Puts a disk in with what a copy has.
    fn put_back(&self, copy: &[u8]) {
        let disk = blank(7);
        store::disk::Disk::write(&*disk, 0, copy).unwrap();
        store::disk::Disk::sync(&*disk).unwrap();
        *self.disk.lock().unwrap() = disk;
    }
}

fn blank(seed: u64) -> Arc<SimDisk> {
    Arc::new(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(seed)))
}

fn options(number: usize, how: Opening) -> Options {
    Options {
        number: number as u16,
        anew: how == Opening::Anew,
        size: Some(SIZE),
        packet: 64 << 10,
        flush_interval: Duration::from_millis(5),
        tell: |_| {},
        ..Options::at("")
    }
}

fn disk(number: usize, bay: &Arc<Bay>) -> Disk {
    let bay = bay.clone();
    let open = move |how| {
        if bay.is_away.load(SeqCst) {
            return Err(Unopened { why: format!("{number} is away"), obstacle: Obstacle::Unreadable });
        }
        if bay.is_in_use.load(SeqCst) {
            return Err(Unopened { why: format!("{number} is in use"), obstacle: Obstacle::InUse });
        }
        let disk = bay.disk.lock().unwrap().clone();
        Ok(Store::over(disk, &options(number, how))?)
    };
    Disk { name: number.to_string(), weight: None, open: Box::new(open) }
}

fn start(bays: &[&Arc<Bay>]) -> Stores {
    let disks: Vec<Disk> = bays.iter().enumerate().map(|(n, bay)| disk(n, bay)).collect();
    if disks.len() < 2 {
        return Stores::open(disks, Patience::default()).unwrap();
    }
    let disks: Arc<[Disk]> = disks.into();
    let generation: Arc<AtomicU64> = Arc::default();
    let set = Set::unattended(disks.clone(), generation.clone(), Patience::default()).unwrap();
    Stores::new(Kind::Set(Arc::new(set)), generation, disks, Patience::default())
}

fn set(stores: &Stores) -> Arc<Set> {
    let Kind::Set(set) = &*stores.kind() else { panic!("no set") };
    set.clone()
}

fn stores_of(stores: &Stores) -> Vec<Store> {
    stores.view().serving().map(|(_, store)| store.clone()).collect()
}

/// As a kill would.
fn kill(stores: Stores) {
    stores_of(&stores).iter().for_each(Store::abandon);
}

fn key(n: u32) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

fn put(stores: &Stores, n: u32, value: u32) {
    let until = Instant::now() + SOON;
    while let Some(Err(_)) =
        stores.change(&key(n), None, |store| store.put(&key(n), &value.to_le_bytes(), &[7; 300]))
    {
        assert!(Instant::now() < until, "the store stays behind");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// As `Tiers::renew` does: refused, it is gone.
fn renew(stores: &Stores, n: u32, value: u32) {
    let body = Body::Whole(vec![7; 300].into());
    stores.change(&key(n), None, |store| store.put_meta(&key(n), &value.to_le_bytes(), &body));
}

/// As `Tiers::read` does.
async fn get(stores: &Stores, readers: &Readers, n: u32) -> Option<u32> {
    let (view, key) = (readers.view(), key(n));
    for place in view.places(&key) {
        let Some(reader) = view.store(place).and(readers.reader(place)) else { continue };
        if let Lookup::Found(Object { meta, body: Body::Whole(_) }) = reader.look(&key).await {
            stores.remove_beside(&key, place);
            return Some(u32::from_le_bytes(meta[..].try_into().unwrap()));
        }
    }
    None
}

fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(body)
}

fn all(stores: &Stores, keys: std::ops::Range<u32>) -> Vec<Option<u32>> {
    run(async {
        let readers = stores.readers();
        let mut found = Vec::new();
        for n in keys {
            found.push(get(stores, &readers, n).await);
        }
        found
    })
}

fn hits(stores: &Stores, keys: std::ops::Range<u32>) -> usize {
    all(stores, keys).iter().flatten().count()
}

fn purges(at: u64) -> Vec<u8> {
    let mut purges = cache::Purges::default();
    purges.purge(cache::Scope::Host("example.com"), at);
    purges.encode()
}

#[test]
fn load_is_shared_by_weight_and_a_disk_that_is_left_costs_its_share() {
    for count in [2, 4] {
        let bays: Vec<_> = (0..count as u64).map(Bay::new).collect();
        let stores = start(&bays.iter().collect::<Vec<_>>());
        (0..4_000).for_each(|n| put(&stores, n, n));
        let objects: Vec<u64> = stores_of(&stores).iter().map(|store| store.stats().objects).collect();
        for objects in &objects {
            let share = *objects as f64 / 4_000.0 * count as f64;
            assert!((0.9..1.1).contains(&share), "{objects} of 4000 on one of {count}");
        }
        assert_eq!(hits(&stores, 0..4_000), 4_000);
        set(&stores).leave(1, Why::Reads, Instant::now());
        assert_eq!(hits(&stores, 0..4_000) as u64, 4_000 - objects[1]);
        let shares: Vec<f64> = stores.disks().iter().map(|disk| disk.share).collect();
        assert!(shares.iter().all(|share| *share == 1.0 / count as f64), "{shares:?}");
    }
}

/// A process that takes over, and does nothing.
#[derive(Default)]
struct Idle(Mutex<Vec<Change>>);

impl Successor for Idle {
    fn tell(&self, change: Change) {
        self.0.lock().unwrap().push(change);
    }

    fn confirm(&self) {}

    fn persist(&self, _: Duration) -> bool {
        false
    }
}

#[test]
fn of_a_set_that_was_handed_over_a_disk_that_is_still_in_use_comes_back_later() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0], &bays[1]]);
    (0..400).for_each(|n| put(&stores, n, n));
    let on_first = |n: &u32| stores.view().home(&key(*n)) == 0;
    let (first, second): (Vec<u32>, Vec<u32>) = (0..400).partition(on_first);
    assert!(stores.give(Arc::new(Idle::default()), SOON));
    assert_eq!(hits(&stores, 0..400), 400, "they are read as they were");
    // What is changed then is gone from both.
    let gone = [first[0], second[0]];
    gone.iter().for_each(|n| stores.remove(&key(*n)));
    bays[0].is_in_use.store(true, SeqCst);
    bays[1].is_in_use.store(true, SeqCst);
    assert!(stores.take_back().is_err() && stores.are_given());
    bays[0].is_in_use.store(false, SeqCst);
    stores.take_back().unwrap();
    assert!(!stores.are_given());
    let states: Vec<State> = stores.disks().iter().map(|disk| disk.state).collect();
    assert_eq!(states, [State::Serves, State::Left]);
    assert_eq!(hits(&stores, 0..400), first.len() - 1);
    stores.remove(&key(second[1]));
    bays[1].is_in_use.store(false, SeqCst);
    let until = Instant::now() + SOON;
    stores.when_apart(|| {});
    while stores.count(State::Left) > 0 {
        assert!(Instant::now() < until, "it does not come back");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(hits(&stores, 0..400), 400 - 3);
    assert!([gone[0], gone[1], second[1]].iter().all(|n| all(&stores, *n..n + 1) == [None]));
    assert!(stores.close());
    // At any other start it is somebody else's.
    bays[1].is_in_use.store(true, SeqCst);
    let disks = || bays.iter().enumerate().map(|(n, bay)| disk(n, bay)).collect();
    assert_eq!(Stores::open(disks(), Patience::default()).err().unwrap(), "1 is in use");
    let taken = Stores::open(disks(), Patience { takes_over: true, ..Patience::default() }).unwrap();
    assert_eq!(taken.count(State::Left), 1);
}

#[test]
fn an_end_without_the_caches_says_what_it_could_not_remove() {
    let bay = Bay::new(1);
    let given = || {
        let stores = start(&[&bay]);
        put(&stores, 1, 1);
        assert!(stores.give(Arc::new(Idle::default()), SOON));
        stores
    };
    assert!(given().close(), "nothing was changed");
    let stores = given();
    stores.remove(&key(1));
    assert!(!stores.close());
    assert!(stores.take_back().is_err(), "nobody would close it again");
    let stores = given();
    stores.set_ledger(&cache::Purges::default().encode());
    assert!(!stores.close());
    let stores = given();
    stores.remove(&key(1));
    stores.settle();
    assert!(stores.close(), "the other process knows");
}

/// Whoever takes over may read nothing for minutes.
#[test]
fn purges_without_number_become_one_of_all() {
    let (bay, told) = (Bay::new(1), Arc::new(Idle::default()));
    let stores = start(&[&bay]);
    put(&stores, 1, 1);
    assert!(stores.give(told.clone(), SOON));
    let path = "x".repeat(1 << 20);
    let purge = |softly| stores.tell_purge(&cache::Scope::Path(&path), softly);
    (0..100).for_each(|n| purge(n % 2 == 0));
    stores.remove(&key(1));
    let all = Change::Purged(cache::Scope::All.text(false));
    {
        let told = told.0.lock().unwrap();
        assert!(told.len() < 20, "{}", told.len());
        assert_eq!((told.iter().filter(|change| **change == all).count(), told.last()), (1, Some(&all)));
    }
    // It serves: each counts again.
    stores.settle();
    purge(false);
    assert_eq!(told.0.lock().unwrap().last(), Some(&Change::Purged(cache::Scope::Path(&path).text(false))));
}

#[test]
fn of_disks_that_were_handed_over_each_is_told_of_in_its_place() {
    let bays = [Bay::new(1), Bay::new(2), Bay::new(3)];
    let stores = start(&bays.iter().collect::<Vec<_>>());
    (0..50).for_each(|n| put(&stores, n, n));
    set(&stores).leave(1, Why::Reads, Instant::now());
    let told = |stores: &Stores| -> Vec<(State, bool, bool)> {
        let maps = stores.maps(4);
        assert_eq!(maps.len(), stores.disks().len());
        let disks = stores.disks().into_iter().zip(maps);
        disks.map(|(disk, map)| (disk.state, disk.stats.is_some(), map.is_some())).collect()
    };
    let before = told(&stores);
    assert!(stores.give(Arc::new(Idle::default()), SOON));
    assert_eq!(told(&stores), before);
    assert_eq!(before[1], (State::Left, false, false));
}

/// The reader's index knows where its objects lay; by now others lie there.
#[test]
fn who_reads_what_another_process_writes_over_finds_its_own_or_nothing() {
    let bay = Bay::new(1);
    let stores = start(&[&bay]);
    let body = |n: u32, value: u32| vec![(n ^ value.rotate_left(5)) as u8; 300];
    let put = |store: &Store, n: u32, value: u32| {
        let until = Instant::now() + SOON;
        while store.put(&key(n), &value.to_le_bytes(), &body(n, value)).is_err() {
            assert!(Instant::now() < until, "the store stays behind");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let first = stores_of(&stores).remove(0);
    (0..3_000).for_each(|n| put(&first, n, 1));
    assert!(stores.give(Arc::new(Idle::default()), SOON));
    let second = disk(0, &bay).open(Opening::AsItIs).unwrap();
    run(async {
        let readers = stores.readers();
        let mut found = Vec::new();
        for round in 0..12 {
            // Now and then the same keys, with something else.
            let offset = if round % 3 == 0 { 0 } else { 10_000 * round };
            (0..1_000).for_each(|n| put(&second, offset + n, 2 + round));
            assert!(second.persist(SOON));
            let mut hits = 0;
            for n in 0..3_000 {
                let reader = readers.reader(0).unwrap();
                match reader.look(&key(n)).await {
                    Lookup::Found(Object { meta, body: Body::Whole(found) }) => {
                        let value = u32::from_le_bytes(meta[..].try_into().unwrap());
                        assert_eq!(found, body(n, value), "{n}");
                        hits += 1;
                    }
                    Lookup::Found(_) => panic!("{n} is something else"),
                    Lookup::Missing | Lookup::Late => {}
                }
            }
            found.push(hits);
        }
        assert!(found[0] > 1_500 && found[11] < found[0] / 2, "it is written over: {found:?}");
    });
    assert!(second.close());
}

#[test]
fn what_is_changed_while_a_disk_is_left_is_gone_from_it_when_it_comes_back() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0], &bays[1]]);
    (0..400).for_each(|n| put(&stores, n, n));
    assert!(stores.persist(SOON));
    set(&stores).turn(&mut Ticks::new(Instant::now()), Instant::now() + SOON);
    let there = all(&stores, 0..400);
    // It never reaches the disk that it belongs to.
    (0..20).for_each(|n| put(&stores, n, n + 1_000));
    (20..40).for_each(|n| stores.remove(&key(n)));
    set(&stores).leave(1, Why::Writes, Instant::now());
    (40..60).for_each(|n| put(&stores, n, n + 1_000));
    (60..80).for_each(|n| stores.remove(&key(n)));
    stores.set_ledger(&purges(5));
    let left = hits(&stores, 80..400);
    assert!((100..220).contains(&left), "{left}");
    while set(&stores).take_back(1).is_err() {}
    let after = all(&stores, 0..400);
    for n in 0..400 {
        let found = after[n as usize];
        match n {
            0..20 | 40..60 => assert!(found.is_none_or(|value| value == n + 1_000), "{n}: {found:?}"),
            20..40 | 60..80 => assert_eq!(found, None, "{n}"),
            _ => assert_eq!(found, there[n as usize], "{n}"),
        }
    }
    assert!(stores.persist(SOON));
    kill(stores);
    // Both know all.
    let stores = start(&[&bays[0], &bays[1]]);
    assert_eq!((hits(&stores, 80..400), stores.ledger()), (320, purges(5)));
}

#[test]
fn beyond_what_is_remembered_a_disk_comes_back_empty() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0], &bays[1]]);
    (0..100).for_each(|n| put(&stores, n, n));
    assert!(stores.persist(SOON));
    set(&stores).leave(1, Why::Late, Instant::now());
    let left = hits(&stores, 0..100);
    for n in 0..super::journal::MOST as u32 + 10 {
        stores.remove(&key(1_000 + n));
    }
    while set(&stores).take_back(1).is_err() {}
    assert_eq!(hits(&stores, 0..100), left);
    (100..200).for_each(|n| put(&stores, n, n));
    assert_eq!(hits(&stores, 100..200), 100);
}

#[test]
fn the_last_disk_is_never_left() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0], &bays[1]]);
    set(&stores).leave(0, Why::Writes, Instant::now());
    set(&stores).leave(1, Why::Writes, Instant::now());
    assert_eq!(stores_of(&stores).len(), 1);
    assert!(stores.persist(SOON));
}

#[test]
fn from_one_to_two_and_back_nothing_is_lost_that_stays() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0]]);
    (0..300).for_each(|n| put(&stores, n, n));
    assert!(stores.close());
    let stores = start(&[&bays[0], &bays[1]]);
    assert_eq!(hits(&stores, 0..300), 300);
    // Some of them move, and some are removed, which the disk that they moved from has to know.
    (0..100).for_each(|n| put(&stores, n, n + 1_000));
    (100..150).for_each(|n| stores.remove(&key(n)));
    assert!(stores.close());
    let stores = start(&[&bays[0]]);
    let found = all(&stores, 0..300);
    assert!((0..100).all(|n| found[n as usize].is_none_or(|value| value == n + 1_000)));
    assert!(found[100..150].iter().all(Option::is_none) && found[150..].iter().all(Option::is_some));
    let stayed = found[..100].iter().flatten().count();
    assert!((25..75).contains(&stayed), "{stayed}");
    // The other one does not know what is removed now.
    (0..50).for_each(|n| stores.remove(&key(n)));
    assert!(stores.close());
    let stores = start(&[&bays[1], &bays[0]]);
    let found = all(&stores, 0..300);
    assert!(found[..50].iter().all(Option::is_none) && found[150..].iter().all(Option::is_some));
}

/// Of caches that were used apart, nobody knows which object of a key is the last.
#[test]
fn of_caches_that_were_alone_one_counts() {
    let bays = [Bay::new(1), Bay::new(2)];
    for (value, bay) in (0..).zip(&bays) {
        let stores = start(&[bay]);
        (0..50).for_each(|n| put(&stores, n, value));
        stores.set_ledger(&purges(5 + u64::from(value)));
        assert!(stores.close());
    }
    let stores = start(&[&bays[0], &bays[1]]);
    assert_eq!(all(&stores, 0..50), vec![Some(1); 50]);
    assert_eq!(stores.ledger(), purges(6));
}

#[test]
fn a_start_goes_on_without_a_disk_that_is_away_and_takes_it_back() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0], &bays[1]]);
    (0..200).for_each(|n| put(&stores, n, n));
    assert!(stores.close());
    bays[0].is_away.store(true, SeqCst);
    let stores = start(&[&bays[0], &bays[1]]);
    let there = all(&stores, 0..200);
    assert!((60..140).contains(&there.iter().flatten().count()));
    (0..50).for_each(|n| put(&stores, n, n + 1_000));
    (50..100).for_each(|n| stores.remove(&key(n)));
    assert!(set(&stores).take_back(0).is_err());
    bays[0].is_away.store(false, SeqCst);
    while set(&stores).take_back(0).is_err() {}
    let found = all(&stores, 0..200);
    assert!((0..50).all(|n| found[n as usize] == Some(n + 1_000)), "{found:?}");
    assert!(found[50..100].iter().all(Option::is_none) && found[100..].iter().all(Option::is_some));
    // Killed while it is away, it has missed something.
    bays[0].is_away.store(true, SeqCst);
    set(&stores).leave(0, Why::Late, Instant::now());
    stores.remove(&key(150));
    assert!(stores.persist(SOON));
    let alone = hits(&stores, 0..200);
    kill(stores);
    bays[0].is_away.store(false, SeqCst);
    let stores = start(&[&bays[0], &bays[1]]);
    assert_eq!(hits(&stores, 0..200), alone);
    bays.iter().for_each(|bay| bay.is_away.store(true, SeqCst));
    kill(stores);
    let disks = bays.iter().enumerate().map(|(n, bay)| disk(n, bay)).collect();
    assert!(Set::unattended(disks, Arc::default(), Patience::default()).is_err(), "there is no disk at all");
}

#[test]
fn a_disk_that_went_on_without_the_others_ends_what_they_hold() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0], &bays[1]]);
    (0..20).for_each(|n| put(&stores, n, n));
    assert!(stores.close());
    let stores = start(&[&bays[0]]);
    (0..20).for_each(|n| stores.remove(&key(n)));
    assert!(stores.close());
    bays[0].is_away.store(true, SeqCst);
    let stores = start(&[&bays[0], &bays[1]]);
    let told = Arc::new(AtomicBool::new(false));
    let tell = told.clone();
    stores.when_apart(move || tell.store(true, SeqCst));
    bays[0].is_away.store(false, SeqCst);
    while set(&stores).take_back(0).is_err() {}
    assert!(told.load(SeqCst));
}

/// Stop, copy, start, stop, put back, start.
#[test]
fn a_copy_of_before_the_last_start_begins_anew() {
    for killed in [false, true] {
        let bays = [Bay::new(1), Bay::new(2)];
        let stores = start(&[&bays[0], &bays[1]]);
        (0..200).for_each(|n| put(&stores, n, n));
        assert!(stores.close());
        let copy = bays[1].copy();
        let stores = start(&[&bays[0], &bays[1]]);
        (0..100).for_each(|n| put(&stores, n, n + 1_000));
        (100..150).for_each(|n| stores.remove(&key(n)));
        assert!(stores.persist(SOON));
        let there = stores_of(&stores)[0].stats().objects;
        if killed {
            kill(stores);
        } else {
            assert!(stores.close());
        }
        bays[1].put_back(&copy);
        let stores = start(&[&bays[0], &bays[1]]);
        let found = all(&stores, 0..200);
        assert!((0..100).all(|n| found[n as usize].is_none_or(|value| value == n + 1_000)), "{found:?}");
        assert!(found[100..150].iter().all(Option::is_none));
        assert_eq!(found.iter().flatten().count() as u64, there);
    }
}

/// Also where the set changed while it ran, and only one disk is left that knows all.
#[test]
fn a_copy_of_before_the_last_change_of_the_set_begins_anew() {
    let bays = [Bay::new(1), Bay::new(2), Bay::new(3)];
    let stores = start(&[&bays[0], &bays[1], &bays[2]]);
    (0..200).for_each(|n| put(&stores, n, n));
    assert!(stores.persist(SOON));
    let copy = bays[1].copy();
    set(&stores).leave(2, Why::Late, Instant::now());
    (0..200).for_each(|n| stores.remove(&key(n)));
    assert!(stores.persist(SOON));
    kill(stores);
    bays[1].put_back(&copy);
    assert_eq!(hits(&start(&[&bays[0], &bays[1], &bays[2]]), 0..200), 0);
}

#[test]
fn an_older_copy_of_a_disk_that_was_left_comes_back_empty() {
    for older in [false, true] {
        let bays = [Bay::new(1), Bay::new(2)];
        let stores = start(&[&bays[0], &bays[1]]);
        let turn = || set(&stores).turn(&mut Ticks::new(Instant::now()), Instant::now() + SOON);
        (0..200).for_each(|n| put(&stores, n, n));
        assert!(stores.persist(SOON));
        let before = bays[1].copy();
        (0..100).for_each(|n| put(&stores, n, n + 1_000));
        (100..150).for_each(|n| stores.remove(&key(n)));
        assert!(stores.persist(SOON));
        turn();
        let there = [hits(&stores, 0..200), stores_of(&stores)[0].stats().objects as usize];
        set(&stores).leave(1, Why::Late, Instant::now());
        bays[1].put_back(&if older { before } else { bays[1].copy() });
        while set(&stores).take_back(1).is_err() {}
        let found = all(&stores, 0..200);
        assert!((0..100).all(|n| found[n as usize].is_none_or(|value| value == n + 1_000)), "{found:?}");
        assert!(found[100..150].iter().all(Option::is_none));
        assert_eq!(found.iter().flatten().count(), there[usize::from(older)]);
    }
}

/// One of them is about to serve when the other has changed the set: it comes back later, and nobody takes it for another's.
#[test]
fn disks_that_come_back_at_the_same_time_cost_the_others_nothing() {
    let bays = [Bay::new(1), Bay::new(2), Bay::new(3)];
    let mut stores = start(&[&bays[0], &bays[1], &bays[2]]);
    (0..300).for_each(|n| put(&stores, n, n));
    let told = Arc::new(AtomicBool::new(false));
    for _round in 0..5 {
        let tell = told.clone();
        stores.when_apart(move || tell.store(true, SeqCst));
        assert!(stores.persist(SOON));
        set(&stores).turn(&mut Ticks::new(Instant::now()), Instant::now() + SOON);
        (1..3).for_each(|n| set(&stores).leave(n, Why::Late, Instant::now()));
        std::thread::scope(|scope| {
            for n in 1..3 {
                let set = set(&stores);
                scope.spawn(move || while set.take_back(n).is_err() {});
            }
        });
        assert_eq!((hits(&stores, 0..300), told.load(SeqCst)), (300, false));
        (1..3).for_each(|n| set(&stores).leave(n, Why::Late, Instant::now()));
        std::thread::scope(|scope| {
            for n in 1..3 {
                let set = set(&stores);
                scope.spawn(move || while set.take_back(n).is_err_and(|why| why.contains("waiting")) {});
            }
        });
        // What came back in vain begins anew.
        let serving = stores_of(&stores).len();
        let there = hits(&stores, 0..300);
        assert!(stores.persist(SOON));
        kill(stores);
        stores = start(&[&bays[0], &bays[1], &bays[2]]);
        assert_eq!((hits(&stores, 0..300), stores.ledger()), (there, Vec::new()), "{serving} served");
        (0..300).for_each(|n| put(&stores, n, n));
    }
}

#[test]
fn a_disk_on_which_nothing_was_ever_put_does_not_say_what_was_purged() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0]]);
    (0..20).for_each(|n| put(&stores, n, n));
    stores.set_ledger(&purges(5));
    assert!(stores.close());
    let stores = start(&[&bays[1]]);
    let mut others = cache::Purges::default();
    others.purge(cache::Scope::Host("elsewhere.example"), 9);
    stores.set_ledger(&others.encode());
    assert!(stores.close());
    let stores = start(&[&bays[0], &bays[1]]);
    assert_eq!((hits(&stores, 0..20), stores.ledger()), (20, purges(5)));
}

/// It was in another set later than these in theirs.
#[test]
fn a_blank_disk_of_another_set_costs_the_others_nothing() {
    let bays: Vec<_> = (0..4).map(Bay::new).collect();
    let stores = start(&[&bays[0], &bays[1]]);
    (0..100).for_each(|n| put(&stores, n, n));
    stores.set_ledger(&purges(5));
    assert!(stores.close());
    assert!(start(&[&bays[2], &bays[3]]).close());
    let stores = start(&[&bays[0], &bays[1], &bays[2]]);
    assert_eq!((hits(&stores, 0..100), stores.ledger()), (100, purges(5)));
}

#[test]
fn copies_of_one_cache_are_refused_and_a_ledger_that_is_lost_costs_its_disk() {
    let bays = [Bay::new(1), Bay::new(2)];
    let stores = start(&[&bays[0], &bays[1]]);
    (0..100).for_each(|n| put(&stores, n, n));
    stores.set_ledger(&purges(9));
    assert!(stores.close());
    let there = stores_of(&stores)[0].stats().objects;
    let lost = bays[1].disk.lock().unwrap().clone();
    for copy in [256 << 10, 512 << 10] {
        store::disk::Disk::write(&*lost, copy, &[0; 4096]).unwrap();
    }
    let stores = start(&[&bays[0], &bays[1]]);
    assert_eq!((hits(&stores, 0..100) as u64, stores.ledger()), (there, purges(9)));
    kill(stores);
    let copy = bays[0].disk.lock().unwrap().clone();
    *bays[1].disk.lock().unwrap() = copy;
    let disks = bays.iter().enumerate().map(|(n, bay)| disk(n, bay)).collect();
    let error = Set::unattended(disks, Arc::default(), Patience::default()).err().unwrap();
    assert!(error.contains("copies of each other"), "{error}");
}

/// What a key may answer: the value put last, and after a kill one that it had since all was written.
#[derive(Default)]
struct Model {
    now: HashMap<u32, u32>,
    /// Since all was written: the values that each key had, those of then first; `None`: it was removed.
    since: HashMap<u32, Vec<Option<u32>>>,
    /// After a kill: the values that it may have brought back.
    may: HashMap<u32, Vec<u32>>,
}

impl Model {
    fn change(&mut self, n: u32, value: Option<u32>) {
        let before = self.before(n);
        let since = self.since.entry(n).or_insert(before);
        since.push(value);
        self.may.remove(&n);
        match value {
            Some(value) => self.now.insert(n, value),
            None => self.now.remove(&n),
        };
    }

    /// The values that it may have now.
    fn before(&self, n: u32) -> Vec<Option<u32>> {
        let may = self.may.get(&n).into_iter().flatten().map(|value| Some(*value));
        may.chain([self.now.get(&n).copied()]).collect()
    }

    fn written(&mut self) {
        self.since.clear();
    }

    fn killed(&mut self) {
        for (n, values) in std::mem::take(&mut self.since) {
            self.may.insert(n, values.into_iter().flatten().collect());
        }
    }

    fn check(&mut self, n: u32, found: Option<u32>) -> Result<(), String> {
        let Some(value) = found else { return Ok(()) };
        let is = self.now.get(&n) == Some(&value) || self.may.get(&n).is_some_and(|may| may.contains(&value));
        match is {
            true => Ok(()),
            false => Err(format!("{n} is {value}, not {:?} or {:?}", self.now.get(&n), self.may.get(&n))),
        }
    }
}

const KEYS: u32 = 40;

async fn history(seed: u64) -> Result<u32, String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let bays: Vec<Arc<Bay>> = (0..rng.random_range(2..5)).map(|n| Bay::new(seed << 8 | n)).collect();
    let (mut model, mut value, mut hits) = (Model::default(), 0, 0);
    // Which disks know all: a start has one of them, or nobody could tell.
    let mut current: Vec<usize> = (0..bays.len()).collect();
    // Of each disk, copies that an operator made when a life had ended.
    let mut copies: Vec<Vec<Vec<u8>>> = bays.iter().map(|_| Vec::new()).collect();
    for _life in 0..rng.random_range(2..7) {
        let mut configured: Vec<usize> = (0..bays.len()).filter(|_| rng.random_bool(0.8)).collect();
        let known = current[rng.random_range(0..current.len())];
        if !configured.contains(&known) {
            configured.insert(rng.random_range(0..=configured.len()), known);
        }
        for (n, bay) in bays.iter().enumerate() {
            bay.is_away.store(n != known && rng.random_bool(0.2), SeqCst);
            // The last one is of after the last start.
            let older = copies[n].len().saturating_sub(1);
            if n != known && older > 0 && rng.random_bool(0.3) {
                let which = if rng.random() { older - 1 } else { rng.random_range(0..older) };
                bay.put_back(&copies[n][which]);
            }
        }
        // And in this one, of disks that served then.
        let mut lately: Vec<Option<Vec<u8>>> = vec![None; bays.len()];
        let chosen: Vec<&Arc<Bay>> = configured.iter().map(|n| &bays[*n]).collect();
        let stores = start(&chosen);
        let readers = stores.readers();
        // In some lives the set stays as it is.
        let changes = configured.len() > 1 && rng.random_bool(0.7);
        let (began, mut ticks) = (Instant::now(), Ticks::new(Instant::now()));
        for step in 0..rng.random_range(5..200u64) {
            let n = rng.random_range(0..KEYS);
            match rng.random_range(0..100) {
                // A small one is renewed where it belongs, wherever it lies.
                0..8 => {
                    if let Some(found) = get(&stores, &readers, n).await {
                        model.check(n, Some(found))?;
                        value += 1;
                        model.change(n, Some(value));
                        renew(&stores, n, value);
                    }
                }
                8..40 => {
                    value += 1;
                    model.change(n, Some(value));
                    put(&stores, n, value);
                }
                40..50 => {
                    model.change(n, None);
                    stores.remove(&key(n));
                }
                50..85 => {
                    let found = get(&stores, &readers, n).await;
                    model.check(n, found)?;
                    hits += u32::from(found.is_some());
                }
                85..90 if changes => {
                    set(&stores).leave(rng.random_range(0..configured.len()), Why::Late, Instant::now());
                }
                90..95 if changes => {
                    let place = rng.random_range(0..configured.len());
                    let bay = &bays[configured[place]];
                    bay.is_away.store(rng.random_bool(0.2), SeqCst);
                    let is_left = stores.view().store(place).is_none();
                    // That it is left is known to the others.
                    if let Some(copy) =
                        lately[configured[place]].as_ref().filter(|_| is_left && rng.random_bool(0.3))
                        && stores.persist(SOON)
                    {
                        model.written();
                        bay.put_back(copy);
                    }
                    if is_left {
                        let _ = set(&stores).take_back(place);
                    }
                }
                95..97 if configured.len() > 1 => {
                    set(&stores).turn(&mut ticks, began + Duration::from_secs(2 * step + 2));
                    set(&stores).settle();
                }
                97..99 => {
                    if stores.persist(SOON) {
                        model.written();
                        for (place, _) in stores.view().serving().filter(|_| rng.random_bool(0.5)) {
                            lately[configured[place]] = Some(bays[configured[place]].copy());
                        }
                    }
                }
                _ => tokio::time::sleep(Duration::from_millis(rng.random_range(0..8))).await,
            }
        }
        current = stores.view().serving().map(|(place, _)| configured[place]).collect();
        match rng.random_range(0..3) {
            0 if stores.close() => model.written(),
            _ => {
                if rng.random() && stores.persist(SOON) {
                    model.written();
                }
                kill(stores);
            }
        }
        model.killed();
        bays.iter().zip(&mut copies).for_each(|(bay, copies)| copies.push(bay.copy()));
    }
    let _ = rng.next_u64();
    Ok(hits)
}

#[test]
fn whatever_fails_the_set_keeps_what_it_promises() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (number("COSM_SEED").unwrap_or(1), number("COSM_HISTORIES").unwrap_or(60));
    let mut hits = 0;
    for seed in first..first + count {
        hits += run(history(seed)).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    assert!(u64::from(hits) > count, "{hits} hits");
}

/// Removes a key after each write, so that some removal is always in memory alone, and takes no writes while the caches are given.
struct Refuses {
    disk: SimDisk,
    stores: OnceLock<Stores>,
    removed: AtomicU64,
    takes: AtomicBool,
}

impl Medium for Refuses {
    fn read(&self, offset: u64, buffer: &mut store::Buffer, length: usize) -> std::io::Result<()> {
        self.disk.read(offset, buffer, length)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        let Some(stores) = self.stores.get().filter(|_| !self.takes.load(SeqCst)) else {
            return self.disk.write(offset, bytes);
        };
        if stores.are_given() {
            return Err(std::io::Error::other("fails"));
        }
        self.disk.write(offset, bytes)?;
        std::thread::sleep(Duration::from_millis(5));
        stores.remove(&key(self.removed.fetch_add(1, SeqCst) as u32));
        Ok(())
    }
    fn sync(&self) -> std::io::Result<()> {
        self.disk.sync()
    }
    fn read_block(&self) -> usize {
        self.disk.read_block()
    }
}

#[test]
fn of_caches_that_were_given_in_vain_all_is_purged_before_they_serve_again() {
    let disk = SimDisk::new(8 << 20, StdRng::seed_from_u64(1));
    let (stores, removed, takes) = (OnceLock::new(), AtomicU64::new(0), AtomicBool::new(false));
    let medium = Arc::new(Refuses { disk, stores, removed, takes });
    let opens = medium.clone();
    let open = move |how| Ok(Store::over(opens.clone(), &options(0, how))?);
    let disk = Disk { name: "0".into(), weight: None, open: Box::new(open) };
    let stores = Stores::open(vec![disk], Patience::default()).unwrap();
    let (told, of) = (Arc::new(AtomicBool::new(false)), stores.clone());
    let tell = told.clone();
    stores.when_apart(move || {
        assert!(of.are_given(), "what was removed has answered");
        of.set_ledger(&purges(9));
        tell.store(true, SeqCst);
    });
    (0..2_000).for_each(|n| put(&stores, n, n));
    assert!(stores.persist(SOON));
    medium.stores.set(stores.clone()).unwrap_or_else(|_| panic!("set once"));
    stores.remove(&key(1_999));
    assert!(!stores.give(Arc::new(Idle::default()), SOON));
    // As whoever purged one of them before it was answered.
    let waits = stores.clone();
    let purger = std::thread::spawn(move || waits.persist(SOON));
    medium.takes.store(true, SeqCst);
    stores.take_back().unwrap();
    assert!(purger.join().unwrap());
    let removed = medium.removed.load(SeqCst) as u32;
    let back = hits(&stores, 0..removed);
    assert!(back > 0 && told.load(SeqCst), "of {removed} that were removed {back} are in the file");
    kill(stores);
    let again = Store::over(medium.clone(), &options(0, Opening::AsItIs)).unwrap();
    assert!(again.ledger() == purges(9), "the purge was said to be in the file");
}
