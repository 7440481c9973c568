//! A device and a filesystem as they were measured from outside, and what they are measured by: loads of the device, the same on a
//! real directory (`real::measure`) and on a modelled device, and of small files (`file_loads`).
//!
//! Its model knows three numbers for reads and three for writes: how long one takes alone, and how many transfers and
//! bytes a second go through when others are under way. What it cannot know is what the measuring did not ask for: work
//! that comes later, such as cleaning, and limits that are reached later. Of the kernel it knows three more (`host`): what a call
//! costs, and beyond that one that makes and one that removes a file, with all that the device alone does not
//! explain: the processor, the journal, discards.

use super::block_replay::{Pace, replay};
use super::device::{Device, DeviceModel};
use super::file_loads::FILE;
use super::filesystem::{Host, TODAY};
use super::queue::{Order, Rules};
use crate::block::{Millis, Request, SECTOR, Trace, Transfer, Way};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use trace::random::Random;

/// Transfers of one kind, one after the other or side by side.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub name: &'static str,
    pub about: &'static str,
    pub way: Way,
    pub bytes: u64,
    /// Under way at once.
    pub depth: usize,
    /// Anywhere in the file, or in its order.
    pub random: bool,
    /// Each write lies on the device when it is done.
    pub sync: bool,
}

const fn load(name: &'static str, about: &'static str, way: Way, bytes: u64, depth: usize) -> Load {
    Load { name, about, way, bytes, depth, random: true, sync: false }
}

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// In the order in which they are done: the first writes the file.
pub const LOADS: [Load; 8] = [
    Load { random: false, ..load("write-1m", "writes of 1 MiB in order, 4 under way", Way::Write, MIB, 4) },
    Load { random: false, ..load("read-1m", "reads of 1 MiB in order, 4 under way", Way::Read, MIB, 4) },
    load("read-4k", "reads of 4 KiB anywhere, alone", Way::Read, PAGE, 1),
    load("read-64k", "reads of 64 KiB anywhere, alone", Way::Read, 16 * PAGE, 1),
    load("read-4k-32", "reads of 4 KiB anywhere, 32 under way", Way::Read, PAGE, 32),
    load("write-4k", "writes of 4 KiB anywhere, alone", Way::Write, PAGE, 1),
    load("write-4k-32", "writes of 4 KiB anywhere, 32 under way", Way::Write, PAGE, 32),
    Load {
        sync: true,
        ..load("sync-4k", "writes of 4 KiB anywhere, each synchronised", Way::Write, PAGE, 1)
    },
];

/// Transfers or files a second under each load, by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Speeds(pub BTreeMap<String, f64>);

impl Speeds {
    /// An error is one line.
    pub fn open(path: &Path) -> Result<Speeds, String> {
        let at = |why: String| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| at(error.to_string()))
    }

    fn of(&self, load: &str) -> Result<f64, String> {
        let found = self.0.get(load).filter(|speed| speed.is_finite() && **speed > 0.0);
        found.copied().ok_or_else(|| format!("no speed `{load}`: `cosm lab measure` writes them"))
    }
}

/// The computer of today with the costs of its calls as they were measured.
pub fn host(speeds: &Speeds) -> Result<Host, String> {
    let each = |load: &str| speeds.of(load).map(|speed| 1000.0 / speed);
    // Open, read or write, and close, which is half a call.
    let call = (each("reread-8k")? - FILE as f64 / TODAY.copy).max(0.0) / 2.5;
    let written = FILE as f64 / (speeds.of("write-1m")? * MIB as f64 / 1000.0);
    let make = (each("create-8k")? - 2.5 * call - written).max(0.0);
    let remove = (each("unlink-8k")? - call).max(0.0);
    Ok(Host { call, make, remove, ..TODAY })
}

/// What a modelled device does with a load within so many bytes, transfers a second; nothing where a model does not know.
pub fn modelled(kind: &'static DeviceModel, load: &Load, within: u64) -> Option<f64> {
    let (count, places) = (if load.bytes < MIB { 8000 } else { 800 }, within / load.bytes);
    let (mut random, sectors) = (Random::of(1), load.bytes / SECTOR as u64);
    let requests = (0..count).map(|nth| {
        let place = if load.random { random.below(places) } else { nth % places };
        let transfer = Transfer { way: load.way, sector: place * sectors, count: sectors };
        Request { issued: 0.0, took: None, transfer }
    });
    let trace = Trace { requests: requests.collect(), ..Trace::default() };
    let known = !load.sync;
    known.then(|| replay(&trace, kind, Pace::Full(load.depth)).ok())?.map(|done| done.requests_per_second)
}

/// As many under way as were measured.
pub const RULES: Rules =
    Rules { most: MIB, at_once: 32, order: Order::Soonest(1), write_cache: 0, command: 0.0, link: 1.0 };

/// The model.
pub struct Measured {
    sectors: u64,
    reads: Side,
    writes: Side,
    /// When the next transfer may begin, and the next bytes go through.
    next: Millis,
    link: Millis,
}

/// Of one way.
#[derive(Clone, Copy)]
struct Side {
    /// Between two transfers that begin, of the first byte of one alone beyond that, and bytes a millisecond.
    interval: Millis,
    latency: Millis,
    rate: f64,
}

impl Side {
    fn new(speeds: &Speeds, way: &str) -> Result<Side, String> {
        let of = |load: &str| speeds.of(&format!("{way}-{load}"));
        let (interval, rate) = (1000.0 / of("4k-32")?, of("1m")? * MIB as f64 / 1000.0);
        let latency = 1000.0 / of("4k")? - interval - PAGE as f64 / rate;
        Ok(Side { interval, latency: latency.max(0.0), rate })
    }
}

impl Measured {
    pub fn new(speeds: &Speeds, bytes: u64) -> Result<Measured, String> {
        let (reads, writes) = (Side::new(speeds, "read")?, Side::new(speeds, "write")?);
        Ok(Measured { sectors: bytes / SECTOR as u64, reads, writes, next: 0.0, link: 0.0 })
    }
}

impl Device for Measured {
    fn capacity(&self) -> u64 {
        self.sectors
    }

    fn serve(&mut self, now: Millis, transfer: Transfer) -> Millis {
        let pace = if transfer.way == Way::Read { self.reads } else { self.writes };
        self.next = self.next.max(now) + pace.interval;
        self.link = self.link.max(self.next) + transfer.bytes() as f64 / pace.rate;
        self.link + pace.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::file_loads::{self, FILE_LOADS};
    use crate::medium::filesystem::FileSystem;
    use crate::medium::filesystem::fs_type::EXT4;
    use crate::medium::queue::Queue;
    use crate::medium::table::LEAST_MEMORY;

    fn speeds() -> Speeds {
        let some = [
            ("read-1m", 1200.0),
            ("read-4k", 8000.0),
            ("read-4k-32", 60_000.0),
            ("write-1m", 700.0),
            ("write-4k", 5000.0),
            ("write-4k-32", 40_000.0),
            ("create-8k", 9000.0),
            ("reread-8k", 200_000.0),
            ("unlink-8k", 20_000.0),
        ];
        Speeds(some.map(|(name, speed)| (name.to_owned(), speed)).into())
    }

    /// Transfers a second that the model passes.
    fn passed(load: &Load) -> f64 {
        let mut queue = Queue::new(Box::new(Measured::new(&speeds(), 1 << 30).unwrap()), RULES);
        let (count, sectors) = (2000, load.bytes / SECTOR as u64);
        let (mut issued, mut done) = (0, Vec::new());
        while done.len() < count {
            while issued < count && issued - done.len() < load.depth {
                let now = issued.checked_sub(load.depth).map_or(0.0, |before| done[before]);
                // Apart, so that none goes together with another.
                let sector = (issued as u64 * 7919 % 1000) * 2 * sectors;
                queue.submit(now, Transfer { way: load.way, sector, count: sectors });
                issued += 1;
            }
            queue.step();
            done.extend(queue.take_done().into_iter().map(|(_, done)| done));
        }
        count as f64 / done[count - 1] * 1000.0
    }

    #[test]
    fn the_model_is_as_fast_as_what_was_measured() {
        let device = Box::new(Measured::new(&speeds(), 1 << 30).unwrap());
        let memory = LEAST_MEMORY / 2;
        let host = Host { pages: memory, metadata: memory, ..host(&speeds()).unwrap() };
        let mut medium = FileSystem::with(EXT4, device, RULES, host, 1 << 30);
        let files = file_loads::run(&mut medium, 10_000).unwrap();
        for (name, speed) in speeds().0 {
            let found = match FILE_LOADS.iter().position(|load| load.name == name) {
                Some(nth) => files[nth],
                None => passed(LOADS.iter().find(|load| load.name == name).unwrap()),
            };
            assert!((0.85..1.15).contains(&(found / speed)), "{name}: {found} where {speed} were measured");
        }
    }

    #[test]
    fn a_model_wants_all_of_its_speeds() {
        for name in speeds().0.keys() {
            for wrong in [None, Some(0.0), Some(-1.0)] {
                let mut few = speeds();
                few.0.remove(name);
                few.0.extend(wrong.map(|speed| (name.clone(), speed)));
                let error = Measured::new(&few, 1 << 30).err().or(host(&few).err());
                assert!(error.unwrap().contains(name), "{name}");
            }
        }
    }

    #[test]
    fn every_device_says_what_it_does_with_a_load() {
        for kind in crate::medium::device::ALL {
            let of = |nth: usize| modelled(kind, &LOADS[nth], 256 << 20);
            assert!(of(2).unwrap() <= 1.01 * of(4).unwrap(), "{}", kind.name);
            assert!(of(7).is_none());
        }
    }
}
