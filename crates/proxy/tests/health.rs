//! What the operator's address says of a proxy of which a part hangs: a worker, or the only disk.

mod support;

use proxy::{Running, Settings, Stores, Transaction};
use rand::{SeedableRng, rngs::StdRng};
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use store::disk::{Disk, sim::SimDisk};
use store::{Buffer, Options, Store};
use support::{Client, Origin, ok};

/// Nothing takes longer here: a worker is silent for 15 seconds before anybody says so.
const AT_LAST: Duration = Duration::from_secs(60);

/// Holds up who passes while it is shut.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opens: Condvar,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opens.notify_all();
    }

    fn pass(&self) {
        drop(self.opens.wait_while(self.is_shut.lock().unwrap(), |is_shut| *is_shut).unwrap());
    }
}

fn start(stores: impl Into<Stores>, ended: impl Fn(&Transaction) + Send + Sync + 'static) -> Running {
    let any: proxy::Address = "127.0.0.1:0".parse().unwrap();
    let mut settings =
        Settings { listen: vec![any.clone().into()], admin: Some(any), workers: 2, ..Settings::default() };
    settings.bounds.memory_bytes = 0;
    proxy::start_telling(settings, stores, ended).unwrap()
}

/// Status and text.
async fn ask(running: &Running, path: &str) -> (u16, String) {
    let admin = running.admin().unwrap().tcp().unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = Client::connect(admin).await.get(request).await;
    (answer.status(), answer.text().to_owned())
}

async fn until(running: &Running, path: &str, is: impl Fn(u16, &str) -> bool) -> String {
    let end = Instant::now() + AT_LAST;
    loop {
        let (status, text) = ask(running, path).await;
        if is(status, &text) {
            return text;
        }
        assert!(Instant::now() < end, "{path}: {status} {text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn get(running: &Running, origin: &Origin, path: &str) -> u16 {
    let address = running.addresses()[0].tcp().unwrap();
    Client::connect(address).await.get(origin.request(path, "")).await.status()
}

#[tokio::test]
async fn a_worker_that_hangs_is_told_of_until_it_goes_on() {
    let gate = Arc::<Gate>::default();
    let passes = gate.clone();
    let running = start(None::<Store>, move |transaction| {
        if transaction.path() == Some("/hangs") {
            passes.pass();
        }
    });
    // What the watchdog goes by.
    let is_alive = running.is_alive();
    assert_eq!(ask(&running, "/healthz").await, (200, "ok\n".into()));
    assert!(is_alive());
    let origin = Origin::answering(ok("", "x")).await;
    gate.set(true);
    assert_eq!(get(&running, &origin, "/hangs").await, 200);
    let text = until(&running, "/healthz", |status, _| status == 503).await;
    assert!(text.contains(" has done nothing for ") && text.lines().count() == 1, "{text}");
    assert!(ask(&running, "/readyz").await.0 == 503 && !is_alive());
    gate.set(false);
    until(&running, "/healthz", |status, _| status == 200).await;
    assert!(ask(&running, "/readyz").await.0 == 200 && is_alive());
    running.stop();
}

struct Hangs(SimDisk, Arc<Gate>);

impl Disk for Hangs {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.1.pass();
        self.0.read(offset, buffer, length)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.1.pass();
        self.0.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.pass();
        self.0.sync()
    }

    fn read_block(&self) -> usize {
        self.0.read_block()
    }
}

#[tokio::test]
async fn with_a_disk_that_hangs_it_is_alive_and_serves_and_says_so() {
    const SIZE: u64 = 4 << 20;
    let gate = Arc::<Gate>::default();
    let disk = Hangs(SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1)), gate.clone());
    let flush_interval = Duration::from_millis(20);
    let options = Options { size: Some(SIZE), packet: 64 << 10, flush_interval, ..Options::at("") };
    let store = Store::over(Arc::new(disk), &options).unwrap();
    let running = start(Some(store), |_| {});
    let origin = Origin::answering(ok("Cache-Control: max-age=600\r\n", &"b".repeat(3000))).await;
    assert_eq!(get(&running, &origin, "/before").await, 200);
    assert_eq!(ask(&running, "/readyz").await, (200, "ok\n".into()));
    gate.set(true);
    let mut nth = 0;
    let text = loop {
        nth += 1;
        assert_eq!(get(&running, &origin, &format!("/{nth}")).await, 200);
        assert_eq!(ask(&running, "/healthz").await, (200, "ok\n".into()));
        let (status, text) = ask(&running, "/readyz").await;
        assert_eq!(status, 200);
        if text != "ok\n" {
            break text;
        }
        assert!(nth < 10_000);
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(text, "ok\n1 of 1 disks are not answering\n");
    assert_eq!(get(&running, &origin, "/before").await, 200);
    assert!(running.is_alive()());
    gate.set(false);
    until(&running, "/readyz", |status, text| status == 200 && text == "ok\n").await;
    running.stop();
}
