//! What clients feel of the scrub: latencies of reads at a steady rate, in turns with and without it, on a file. Bits that are flipped
//! before are to be found meanwhile.
//!
//!     cargo run --release -p store --example scrub -- FOLDER GIB PERIOD-SECONDS READS-A-SECOND TURNS TURN-SECONDS

use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use store::{Key, Options, Refused, Store};
use tokio::task::spawn_local;
use tokio::time::{sleep, sleep_until};

const BODY: usize = 20_000;

fn key(n: u64) -> Key {
    Key::new(format!("GET http://example.com/{n}").into_bytes())
}

/// Fills three quarters of the cache: how many objects there are.
fn fill(store: &Store, size: u64) -> u64 {
    let objects = size / 4 * 3 / BODY as u64;
    let mut body = vec![0; BODY];
    for n in 0..objects {
        StdRng::seed_from_u64(n).fill(&mut body[..]);
        while let Err(refused) = store.put(&key(n), b"meta", &body) {
            assert_eq!(refused, Refused::Busy);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(store.persist(Duration::from_secs(300)));
    objects
}

/// Microseconds that each of the reads of one turn took, from the moment at which it was due.
async fn turn(reader: &store::Reader, objects: u64, rate: u64, seconds: u64, rng: &mut StdRng) -> Vec<u64> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let running = Rc::new(Cell::new(0));
    let began = tokio::time::Instant::now();
    for n in 0..rate * seconds {
        let due = began + Duration::from_micros(n * 1_000_000 / rate);
        sleep_until(due).await;
        let (reader, times, running) = (reader.clone(), times.clone(), running.clone());
        let key = key(rng.random_range(0..objects));
        running.set(running.get() + 1);
        spawn_local(async move {
            let due = tokio::time::Instant::now();
            let _ = reader.get(&key).await;
            times.borrow_mut().push(due.elapsed().as_micros() as u64);
            running.set(running.get() - 1);
        });
    }
    while running.get() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    times.take()
}

fn quantile(times: &mut [u64], share: f64) -> u64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize| given[n].parse::<u64>().expect("a number");
    let (gib, period, rate, turns, seconds) = (number(1), number(2), number(3), number(4), number(5));
    let folder = tempfile::tempdir_in(&given[0]).unwrap();
    let size = gib << 30;
    let options = Options {
        size: Some(size),
        scrub: Some(Duration::from_secs(period)),
        ..Options::at(folder.path().join("cache"))
    };
    let store = Store::open(&options).unwrap();
    store.set_off_peak(None);
    let objects = fill(&store, size);
    println!("{objects} objects of {BODY} bytes in {gib} GiB; {rate} reads a second; a scrub of {period} s");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let reader = store.reader().unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let mut ratios = [Vec::new(), Vec::new()];
        turn(&reader, objects, rate, seconds, &mut rng).await;
        for n in 0..turns {
            let mut took = [[0; 2]; 2];
            let before = store.stats().scrub;
            // One is first, then the other.
            for with in [n % 2 == 0, n % 2 == 1] {
                store.set_off_peak(with.then_some(1.0));
                sleep(Duration::from_millis(100)).await;
                let mut times = turn(&reader, objects, rate, seconds, &mut rng).await;
                took[usize::from(with)] = [0.5, 0.99].map(|share| quantile(&mut times, share));
            }
            store.set_off_peak(None);
            let after = store.stats().scrub;
            println!(
                "p50 {} us without, {} with; p99 {} without, {} with; {} MiB scrubbed, {} waits of {} ms in all",
                took[0][0],
                took[1][0],
                took[0][1],
                took[1][1],
                (after.bytes - before.bytes) >> 20,
                after.yields - before.yields,
                after.yielded - before.yielded,
            );
            for (ratios, n) in ratios.iter_mut().zip(0..) {
                ratios.push(took[1][n] as f64 / took[0][n] as f64);
            }
        }
        let [p50, p99] = ratios.map(median);
        println!("with the scrub over without, median of the pairs: p50 {p50:.3}, p99 {p99:.3}");
    });
    assert!(store.close());
}
