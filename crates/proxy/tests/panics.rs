//! A panic in any thread ends the process with one message. Each test runs this program again as a child: a proxy over a
//! store over a disk that is not what it should be.

mod support;

use rand::{SeedableRng, rngs::StdRng};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::{Duration, Instant};
use store::disk::{Disk, sim::SimDisk};
use store::{Buffer, Options, Store};
use support::{Origin, Proxy, SOON, ok, soon};

/// What is wrong with the child's disk.
const WRONG: &str = "COSM_TEST_DISK";
const SIGABRT: i32 = 6;
const SIZE: u64 = 4 << 20;

/// A disk that works until it is told otherwise.
struct Faulty {
    disk: SimDisk,
    wrong: AtomicU8,
}

const WRITE_PANICS: u8 = 1;
const READ_PANICS: u8 = 2;
/// Gives back another buffer than it was lent, which whoever asked for the read then cuts from.
const READ_IS_SHORT: u8 = 3;

impl Faulty {
    fn is(&self, wrong: u8) -> bool {
        self.wrong.load(SeqCst) == wrong
    }
}

impl Disk for Faulty {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        assert!(!self.is(READ_PANICS), "injected into a read\nof two lines");
        if self.is(READ_IS_SHORT) {
            *buffer = Buffer::new(self.read_block());
            return Ok(());
        }
        self.disk.read(offset, buffer, length)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(!self.is(WRITE_PANICS), "injected into a write");
        self.disk.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }

    fn read_block(&self) -> usize {
        self.disk.read_block()
    }
}

fn open(disk: &Arc<Faulty>) -> Store {
    let flush_interval = Duration::from_millis(20);
    let options = Options { size: Some(SIZE), packet: 64 << 10, flush_interval, ..Options::at("") };
    Store::over(disk.clone(), &options).unwrap()
}

/// Without a memory tier: what is stored is read from the disk.
fn over(store: &Store) -> Proxy {
    Proxy::over(Some(store.clone()), |settings| settings.bounds.memory_bytes = 0)
}

#[tokio::test]
#[ignore = "the tests below run it, as a child"]
async fn child() {
    let wrong: u8 = std::env::var(WRONG).expect("run by another test").parse().unwrap();
    proxy::end_on_panic();
    let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
    let disk = Arc::new(Faulty { disk, wrong: AtomicU8::new(0) });
    // A record that is as long as several of the disk's blocks.
    let origin = Origin::answering(ok("Cache-Control: max-age=600\r\n", &"b".repeat(3000))).await;
    let store = open(&disk);
    let proxy = over(&store);
    assert_eq!(proxy.client().await.get(origin.request("/stored", "")).await.status(), 200);
    proxy.stop();
    proxy.ended().await;
    store.close();
    // Opened again, what is stored is nowhere but on the disk.
    let store = open(&disk);
    let proxy = over(&store);
    disk.wrong.store(wrong, SeqCst);
    let path = if wrong == WRITE_PANICS { "/new" } else { "/stored" };
    let mut client = proxy.client().await;
    client.send(origin.request(path, "")).await;
    soon(std::future::pending::<()>()).await;
}

/// Runs the child to its end, and gives what it says.
fn end_of_child(wrong: u8, backtrace: &str) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(WRONG, wrong.to_string())
        .env("RUST_BACKTRACE", backtrace)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).map(|_| said)
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > SOON / 2 {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = reading.join().unwrap().unwrap();
    assert_eq!(status.signal(), Some(SIGABRT), "{status}: {said}");
    said
}

#[track_caller]
fn assert_says(said: &str, what: &str) {
    let errors: Vec<_> = said.lines().filter(|line| line.starts_with("cosm: internal error: ")).collect();
    let [error] = errors[..] else { panic!("not one message: {said}") };
    assert!(error.contains(what), "{error}");
    assert!(error.ends_with("; the process ends, the next start is warm"), "{error}");
}

#[test]
fn in_a_thread_that_writes_the_store() {
    let said = end_of_child(WRITE_PANICS, "0");
    assert_says(&said, "injected into a write at crates/proxy/tests/panics.rs:");
    assert!(!said.contains("backtrace"), "{said}");
}

#[test]
fn in_a_thread_that_reads_the_store() {
    let said = end_of_child(READ_PANICS, "0");
    assert_says(&said, "injected into a read of two lines at crates/proxy/tests/panics.rs:");
}

#[test]
fn in_a_workers_own_thread() {
    let said = end_of_child(READ_IS_SHORT, "1");
    assert_says(&said, " at ");
    // Where a worker waits for a read, and not where the disk is read.
    let frames = said.split_once("cosm: backtrace:").expect("asked for").1;
    assert!(frames.contains("proxy::client::") && !frames.contains("threads::work"), "{said}");
}
