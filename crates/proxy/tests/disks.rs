//! Several disks, of which one begins to fail, while requests come.

mod support;

use proxy::{Disk, Opening, Patience, Stores};
use rand::{SeedableRng, rngs::StdRng};
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use store::disk::Disk as Medium;
use store::disk::sim::SimDisk;
use store::{Buffer, Options, Store};
use support::ranged::{CONTENT, FRESH, LENGTH, Ranged, no_memory, stat};
use support::{Client, Origin, Proxy, SOON, cache_status, ok, origin_of, soon};

const SIZE: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Works,
    ReadsFail,
    WritesFail,
    ReadsHang,
    AllHangs,
}

struct Faulty {
    disk: SimDisk,
    how: Mutex<How>,
    changed: Condvar,
}

impl Faulty {
    fn new(seed: u64) -> Arc<Faulty> {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(seed));
        Arc::new(Faulty { disk, how: Mutex::new(How::Works), changed: Condvar::new() })
    }

    fn set(&self, how: How) {
        *self.how.lock().unwrap() = how;
        self.changed.notify_all();
    }

    /// Hangs for as long as one of these is so; an error where that fails.
    fn pass(&self, hangs: &[How], fails: How) -> io::Result<()> {
        let how = self.changed.wait_while(self.how.lock().unwrap(), |how| hangs.contains(how)).unwrap();
        if *how == fails { Err(io::Error::other("it fails")) } else { Ok(()) }
    }
}

impl Medium for Faulty {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.pass(&[How::ReadsHang, How::AllHangs], How::ReadsFail)?;
        self.disk.read(offset, buffer, length)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.pass(&[How::AllHangs], How::WritesFail)?;
        self.disk.write(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.pass(&[How::AllHangs], How::WritesFail)?;
        self.disk.sync()
    }
    fn read_block(&self) -> usize {
        self.disk.read_block()
    }
}

fn stores(disks: &[Arc<Faulty>]) -> Stores {
    let disk = |(n, faulty): (usize, &Arc<Faulty>)| {
        let faulty = faulty.clone();
        let open = move |how| {
            let options = Options {
                number: n as u16,
                anew: how == Opening::Anew,
                size: Some(SIZE),
                packet: 64 << 10,
                object_max: Some(SIZE),
                patience: PATIENCE,
                flush_interval: Duration::from_millis(20),
                group: 0,
                tell: |_| {},
                ..Options::at("")
            };
            Ok(Store::over(faulty.clone(), &options)?)
        };
        Disk { name: format!("number {n}"), weight: None, open: Box::new(open) }
    };
    let patience = Patience {
        look: Duration::from_millis(5),
        tick: Duration::from_millis(20),
        writes: Duration::from_millis(100),
        reads: 4,
        late: Duration::from_millis(300),
        pause: (Duration::from_millis(20), Duration::from_millis(100)),
        soon: Duration::ZERO,
        open: SOON / 4,
        takes_over: false,
    };
    Stores::open(disks.iter().enumerate().map(disk).collect(), patience).unwrap()
}

async fn left(proxy: &Proxy, count: u64) -> bool {
    stat(proxy, "/store/disks-left").await == count
}

async fn is_hit(proxy: &Proxy, origin: &Origin, n: usize) -> bool {
    let began = Instant::now();
    let response = proxy.client().await.get(origin.request(&format!("/{n}"), "")).await;
    assert_eq!((response.status(), response.text().len()), (200, 500));
    assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
    cache_status(&response).starts_with("cosm; hit")
}

async fn hits(proxy: &Proxy, origin: &Origin, keys: std::ops::Range<usize>) -> Vec<usize> {
    let mut hits = Vec::new();
    for n in keys {
        if is_hit(proxy, origin, n).await {
            hits.push(n);
        }
    }
    hits
}

/// Content that says how many requests came before.
async fn numbered() -> Origin {
    origin_of(|_, n| ok("Cache-Control: max-age=600\r\n", &format!("{n:0>500}"))).await
}

const KEYS: usize = 120;
/// Of these, keys that are asked for while the disk is left.
const ASKED: std::ops::Range<usize> = 60..KEYS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_costs_its_share_of_hits_and_comes_back() {
    for how in [How::ReadsFail, How::WritesFail, How::ReadsHang, How::AllHangs] {
        let (disks, origin) = ([Faulty::new(1), Faulty::new(2)], numbered().await);
        let set = stores(&disks);
        let proxy = Proxy::over(set.clone(), |settings| {
            no_memory(settings);
            settings.admin = Some("127.0.0.1:0".parse().unwrap());
        });
        hits(&proxy, &origin, 0..KEYS).await;
        soon(async {
            while proxy.purge("host=nobody").await.status() != 200 {}
            while hits(&proxy, &origin, 0..KEYS).await.len() < KEYS {}
        })
        .await;
        // Until all of it is known to be written.
        soon(async {
            while stat(&proxy, "/store/remembered").await > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        disks[1].set(how);
        let fetched = origin.requests().len();
        let mut fresh = KEYS;
        soon(async {
            while !left(&proxy, 1).await {
                is_hit(&proxy, &origin, ASKED.start + fresh % ASKED.len()).await;
                is_hit(&proxy, &origin, fresh).await;
                fresh += 1;
            }
        })
        .await;
        let share = hits(&proxy, &origin, ASKED).await;
        assert!((15..45).contains(&share.len()), "{how:?}: {} hits", share.len());
        assert!(origin.requests().len() > fetched);
        assert_eq!(hits(&proxy, &origin, ASKED).await, share, "{how:?}: what was left is not stored");
        // It does not wait for the disk, nor is it undone by it.
        for n in 0..10 {
            let purged = soon(proxy.purge(&format!("url={}", origin.url(&format!("/{n}"))))).await;
            assert_eq!(purged.status(), 200, "{how:?}");
        }
        let purged = soon(proxy.purge(&format!("prefix={}", origin.url("/2")))).await;
        assert_eq!(purged.status(), 200, "{how:?}");
        disks[1].set(How::Works);
        soon(async {
            while !left(&proxy, 0).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let back = hits(&proxy, &origin, 0..ASKED.start).await;
        let expected: Vec<usize> = (10..ASKED.start).filter(|n| !(20..30).contains(n)).collect();
        assert_eq!(back, expected, "{how:?}");
        // What belongs there is stored again.
        soon(async { while hits(&proxy, &origin, 0..KEYS).await.len() < KEYS {} }).await;
        proxy.stop();
        proxy.ended().await;
        assert!(tokio::task::spawn_blocking(move || set.close()).await.unwrap());
    }
}

/// The disk goes away while a client takes a large body from it: the origin gives the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_under_way_goes_on_from_the_origin() {
    for how in [How::ReadsFail, How::ReadsHang, How::AllHangs] {
        let (disks, ranged) = ([Faulty::new(1), Faulty::new(2)], Ranged::of(FRESH).await);
        let set = stores(&disks);
        let proxy = Proxy::over(set.clone(), |settings| {
            no_memory(settings);
            settings.admin = Some("127.0.0.1:0".parse().unwrap());
        });
        soon(async { while cache_status(&ranged.get(&proxy, "").await) != "cosm; hit" {} }).await;
        let mut client = Client::narrow(proxy.address).await;
        client.send(ranged.request("")).await;
        client.head().await.unwrap();
        assert!(client.exactly(64 << 10).await == CONTENT[..64 << 10]);
        let objects = [stat(&proxy, "/disks/0/objects").await, stat(&proxy, "/disks/1/objects").await];
        let disk = if objects[0] > objects[1] { 0 } else { 1 };
        disks[disk].set(how);
        let began = Instant::now();
        let rest = client.exactly(LENGTH - (64 << 10)).await;
        assert!(rest == CONTENT[64 << 10..] && began.elapsed() < SOON, "{how:?}");
        disks[disk].set(How::Works);
        proxy.stop();
        drop(client);
        proxy.ended().await;
        tokio::task::spawn_blocking(move || set.close()).await.unwrap();
    }
}
