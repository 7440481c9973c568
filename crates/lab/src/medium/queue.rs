//! A device and what waits for it. The host sorts by position; contiguous writes go together, up to a bound.

use super::device::Device;
use crate::block::{Millis, Transfer, Way};
use std::collections::{BTreeMap, VecDeque};

/// What the device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub reads: u64,
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

impl Traffic {
    pub fn count(&mut self, transfer: Transfer) {
        match transfer.way {
            Way::Read => {
                self.reads += 1;
                self.bytes_read += transfer.bytes();
            }
            Way::Write => {
                self.writes += 1;
                self.bytes_written += transfer.bytes();
            }
        }
    }
}

/// Seconds that the device's transfers took, each by itself from when the device began with it: on flash several go on at a
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    pub reads: f64,
    pub writes: f64,
}

/// Where a drive's head was of late, for pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Transfers: when each was done, and its first sector.
    pub transfers: VecDeque<(Millis, u64)>,
    /// Sectors that there are.
    pub capacity: u64,
}

impl Track {
    /// What is older than the last transfer by more is forgotten, so that a long run takes bounded memory.
    pub const SPAN: Millis = 120_000.0;
    /// And never are there more.
    const MOST: usize = 1 << 20;

    fn note(&mut self, done: Millis, sector: u64) {
        self.transfers.push_back((done, sector));
        let old = |(time, _): &(Millis, u64)| *time < done - Track::SPAN;
        while self.transfers.len() > Track::MOST || self.transfers.front().is_some_and(old) {
            self.transfers.pop_front();
        }
    }
}

/// How transfers wait for a device.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Bytes of writes that go together at most.
    pub most: u64,
    /// Transfers that the device works on at once.
    pub at_once: usize,
    pub order: Order,
    /// Bytes of writes that the device takes over before they are done; what that takes: a command, and bytes a
    /// millisecond.
    pub write_cache: u64,
    pub command: Millis,
    pub link: f64,
}

/// Who is next.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// One way by position, reads and writes alike (C-LOOK), as disksort does.
    Sweep,
    /// Reads before writes; of so many that come next by position, what the device reaches soonest.
    Soonest(usize),
}

/// The number of a transfer that somebody waits for.
pub type Ticket = u64;

pub struct Queue {
    device: Box<dyn Device>,
    rules: Rules,
    reads: BTreeMap<(u64, Ticket), Transfer>,
    /// By their first sectors, with those who wait for them.
    writes: BTreeMap<u64, (Transfer, Vec<Ticket>)>,
    /// Sectors waiting to be written.
    pending: u64,
    /// When the device is done with each of those that it works on at once.
    hands: Vec<Millis>,
    /// Until when nothing waited.
    idle: Millis,
    /// Where the last transfer ended.
    position: u64,
    traffic: Traffic,
    busy: Busy,
    tickets: Ticket,
    done: Vec<(Ticket, Millis)>,
    track: Option<Track>,
}

impl Queue {
    pub fn new(device: Box<dyn Device>, rules: Rules) -> Queue {
        Queue {
            device,
            rules,
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            pending: 0,
            hands: vec![0.0; rules.at_once],
            idle: 0.0,
            position: 0,
            traffic: Traffic::default(),
            busy: Busy::default(),
            tickets: 0,
            done: Vec::new(),
            track: None,
        }
    }

    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    pub fn busy(&self) -> Busy {
        self.busy
    }

    /// Notes from now on where the head is, if the device has one.
    pub fn follow_head(&mut self) {
        let head = self.device.programmed().is_none();
        self.track = head.then(|| Track { transfers: VecDeque::new(), capacity: self.device.capacity() });
    }

    pub fn track(&self) -> Option<&Track> {
        self.track.as_ref()
    }

    /// Sectors that wait to be written.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Lets the device begin with what it can before `now`.
    pub fn run(&mut self, now: Millis) {
        while self.begins().is_some_and(|begins| begins < now) {
            self.step();
        }
        if !self.is_waiting() {
            self.idle = self.idle.max(now);
        }
    }

    /// When the device begins with the next of those that wait.
    pub fn begins(&self) -> Option<Millis> {
        self.is_waiting().then(|| self.hands[self.next_hand()].max(self.idle))
    }

    /// Writes some time. What waits for the same sectors is replaced.
    pub fn write_later(&mut self, now: Millis, sector: u64, count: u64) {
        self.run(now);
        let most = self.rules.most / crate::block::SECTOR as u64;
        let (mut sector, mut left) = (sector, count);
        while left > 0 {
            let count = left.min(most);
            self.put(Transfer { way: Way::Write, sector, count }, None);
            (sector, left) = (sector + count, left - count);
        }
    }

    /// Asks for a transfer, which `take_done` tells of. A write is done when it lies in the device's write cache, if that has
    /// room.
    pub fn submit(&mut self, now: Millis, transfer: Transfer) -> Ticket {
        self.run(now);
        self.tickets += 1;
        let ticket = self.tickets;
        let sector = crate::block::SECTOR as u64;
        match transfer.way {
            Way::Read => {
                self.reads.insert((transfer.sector, ticket), transfer);
            }
            Way::Write if (self.pending + transfer.count) * sector <= self.rules.write_cache => {
                self.put(transfer, None);
                let taken = self.rules.command + transfer.bytes() as f64 / self.rules.link;
                self.done.push((ticket, now + taken));
            }
            Way::Write => self.put(transfer, Some(ticket)),
        }
        ticket
    }

    /// What is done and was not told yet, and when it was.
    pub fn take_done(&mut self) -> Vec<(Ticket, Millis)> {
        std::mem::take(&mut self.done)
    }

    /// Does one transfer, in its turn; when it is done.
    pub fn wait_for(&mut self, now: Millis, transfer: Transfer) -> Millis {
        let ticket = self.submit(now, transfer);
        loop {
            if let Some(at) = self.done.iter().position(|(one, _)| *one == ticket) {
                return self.done.swap_remove(at).1;
            }
            self.step();
        }
    }

    /// Until nothing waits; when.
    pub fn drain(&mut self, now: Millis) -> Millis {
        self.run(now);
        while self.is_waiting() {
            self.step();
        }
        self.hands.iter().copied().fold(now, Millis::max)
    }

    /// Until fewer than `sectors` wait; when.
    pub fn drain_to(&mut self, now: Millis, sectors: u64) -> Millis {
        self.run(now);
        while self.pending > sectors && self.is_waiting() {
            self.step();
        }
        self.hands[self.next_hand()].max(now)
    }

    /// Hands the next of those that wait to the device.
    pub fn step(&mut self) {
        let Some(begins) = self.begins() else { return };
        let (transfer, waiting) = match self.choose(begins) {
            Some((Way::Read, sector, ticket)) => match self.reads.remove(&(sector, ticket)) {
                Some(transfer) => (transfer, vec![ticket]),
                None => return,
            },
            Some((Way::Write, sector, _)) => match self.take_writes(sector) {
                Some(found) => found,
                None => return,
            },
            None => return,
        };
        let done = self.device.serve(begins, transfer);
        let hand = self.next_hand();
        self.hands[hand] = done;
        self.position = transfer.end();
        self.done.extend(waiting.into_iter().map(|ticket| (ticket, done)));
        self.traffic.count(transfer);
        match transfer.way {
            Way::Read => self.busy.reads += (done - begins) / 1000.0,
            Way::Write => self.busy.writes += (done - begins) / 1000.0,
        }
        if let Some(track) = &mut self.track {
            track.note(done, transfer.sector);
        }
    }

    fn is_waiting(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty()
    }

    /// The hand that is free soonest.
    fn next_hand(&self) -> usize {
        (1..self.hands.len()).fold(0, |best, one| if self.hands[one] < self.hands[best] { one } else { best })
    }

    /// Of two that begin at one sector one goes, as long as the longer; others that overlap are both written.
    fn put(&mut self, mut transfer: Transfer, ticket: Option<Ticket>) {
        let mut tickets: Vec<Ticket> = ticket.into_iter().collect();
        if let Some((old, waiting)) = self.writes.remove(&transfer.sector) {
            self.pending -= old.count;
            transfer.count = transfer.count.max(old.count);
            tickets.extend(waiting);
        }
        self.pending += transfer.count;
        self.writes.insert(transfer.sector, (transfer, tickets));
    }

    /// Takes a write that waits, with those that follow it on the device.
    fn take_writes(&mut self, sector: u64) -> Option<(Transfer, Vec<Ticket>)> {
        let (mut transfer, mut waiting) = self.writes.remove(&sector)?;
        let most = self.rules.most / crate::block::SECTOR as u64;
        while let Some((after, _)) = self.writes.get(&transfer.end()) {
            if transfer.count + after.count > most {
                break;
            }
            if let Some((after, others)) = self.writes.remove(&transfer.end()) {
                transfer.count += after.count;
                waiting.extend(others);
            }
        }
        self.pending -= transfer.count;
        Some((transfer, waiting))
    }

    fn choose(&self, now: Millis) -> Option<(Way, u64, Ticket)> {
        match self.rules.order {
            Order::Sweep => {
                let read = self.reads_ahead().next();
                let write = self.writes_ahead().next();
                let distance = |one: &(Transfer, Ticket)| one.0.sector.wrapping_sub(self.position);
                match (read, write) {
                    (Some(read), Some(write)) if distance(&write) < distance(&read) => Some(write),
                    (read, write) => read.or(write),
                }
            }
            Order::Soonest(of) => {
                let soonest = |best: Option<(Millis, (Transfer, Ticket))>, one: (Transfer, Ticket)| {
                    let reach = self.device.reach(now, one.0);
                    best.filter(|(least, _)| *least <= reach).or(Some((reach, one)))
                };
                let read = self.reads_ahead().take(of).fold(None, soonest);
                read.or_else(|| self.writes_ahead().take(of).fold(None, soonest)).map(|(_, one)| one)
            }
        }
        .map(|(transfer, ticket)| (transfer.way, transfer.sector, ticket))
    }

    /// From where the last transfer ended, and round the end.
    fn reads_ahead(&self) -> impl Iterator<Item = (Transfer, Ticket)> {
        let here = (self.position, 0);
        let all = self.reads.range(here..).chain(self.reads.range(..here));
        all.map(|((_, ticket), transfer)| (*transfer, *ticket))
    }

    fn writes_ahead(&self) -> impl Iterator<Item = (Transfer, Ticket)> {
        let all = self.writes.range(self.position..).chain(self.writes.range(..self.position));
        all.map(|(_, (transfer, _))| (*transfer, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Request, Trace};
    use crate::medium::block_replay::{Pace, replay};
    use crate::medium::device;
    use std::collections::HashMap;
    use trace::random::Random;

    fn queue(name: &str, bytes: u64) -> Queue {
        let kind = device::named(name).unwrap();
        Queue::new((kind.make)(bytes), kind.rules)
    }

    fn old() -> Queue {
        let kind = device::named("st15150w").unwrap();
        Queue::new((kind.make)(0), Rules { most: 56 << 10, ..kind.rules })
    }

    fn at(way: Way, sector: u64, count: u64) -> Transfer {
        Transfer { way, sector, count }
    }

    #[test]
    fn writes_that_wait_go_in_order_and_together() {
        let mut queue = old();
        for nth in [5u64, 3, 4, 100_000, 2] {
            queue.write_later(0.0, nth * 16, 16);
        }
        assert_eq!(queue.pending(), 80);
        let done = queue.drain(0.0);
        assert_eq!(queue.traffic().writes, 2);
        assert_eq!((queue.traffic().bytes_written, queue.pending()), (80 * 512, 0));
        assert!(done < 40.0, "{done}");
    }

    #[test]
    fn a_shorter_write_takes_no_sectors_of_a_longer_one() {
        let mut queue = old();
        queue.write_later(0.0, 800, 16);
        queue.write_later(0.0, 800, 8);
        assert_eq!(queue.pending(), 16);
        queue.drain(0.0);
        assert_eq!((queue.traffic().bytes_written, queue.pending()), (16 * 512, 0));
    }

    #[test]
    fn one_who_waits_waits_for_what_lies_on_the_way() {
        let mut alone = old();
        let transfer = at(Way::Read, 4_000_000, 16);
        let quick = alone.wait_for(0.0, transfer);
        let mut busy = old();
        (0..20).for_each(|nth| busy.write_later(0.0, nth * 100_000, 16));
        let slow = busy.wait_for(0.0, transfer);
        assert!(slow > 5.0 * quick, "{slow} and {quick}");
        assert_eq!(busy.traffic().writes, 20);
    }

    #[test]
    fn the_track_of_the_head_is_bounded() {
        let mut queue = old();
        queue.follow_head();
        for nth in 0..100 {
            queue.wait_for(f64::from(nth) * 2000.0, Transfer { way: Way::Read, sector: 1000, count: 16 });
        }
        let track = queue.track().unwrap();
        assert!((60..=62).contains(&track.transfers.len()), "{}", track.transfers.len());
        assert_eq!((track.transfers[0].1, track.capacity), (1000, queue.device().capacity()));
    }

    #[test]
    fn the_drive_works_while_nobody_waits() {
        let mut queue = old();
        (0..20).for_each(|nth| queue.write_later(0.0, nth * 100_000, 16));
        queue.run(10_000.0);
        assert_eq!(queue.pending(), 0);
        let done = queue.wait_for(10_000.0, at(Way::Read, 0, 16));
        assert!((10_000.0..10_040.0).contains(&done));
    }

    /// Reads of 4 KB a second, to places all over the device, `depth` under way.
    fn random_reads(name: &str, depth: usize) -> f64 {
        let kind = device::named(name).unwrap();
        let units = (kind.make)(1 << 30).capacity() / 8;
        let mut random = trace::random::Random::of(3);
        let transfers = (0..8000).map(|_| at(Way::Read, random.below(units) * 8, 8));
        let requests = transfers.map(|transfer| Request { issued: 0.0, took: None, transfer }).collect();
        let trace = Trace { requests, ..Trace::default() };
        replay(&trace, kind, Pace::Full(depth)).unwrap().requests_per_second
    }

    #[test]
    fn a_deep_queue_helps_those_who_can_choose_or_do_many_at_once() {
        for (name, at_least) in [("st15150w", 1.05), ("hdd-18t", 1.6), ("sata-ssd", 4.0), ("nvme", 12.0)] {
            let (alone, many) = (random_reads(name, 1), random_reads(name, 32));
            assert!(many / alone > at_least, "{name}: {alone} a second alone and {many} with others");
        }
    }

    /// Exos X18: 170 reads of 4 KB a second, 16 at a time. S4500: 72,000, 32 at a time. D7-P5500: a million.
    #[test]
    fn random_reads_are_as_published() {
        for (name, depth, published) in
            [("hdd-18t", 16, 170.0), ("sata-ssd", 32, 72_000.0), ("nvme", 256, 1e6)]
        {
            let rate = random_reads(name, depth);
            assert!(
                (0.7..1.35).contains(&(rate / published)),
                "{name}: {rate} where {published} is published"
            );
        }
    }

    #[test]
    fn a_write_cache_takes_writes_over_until_it_is_full() {
        let mut disk = queue("hdd-18t", 0);
        let first = disk.wait_for(0.0, at(Way::Write, 1_000_000, 8));
        assert!(first < 0.5, "{first} ms");
        let room = NCQ_CACHE / 512;
        for nth in 0..room / 2048 {
            disk.submit(first, at(Way::Write, 2_000_000 + nth * 1_000_000, 2048));
        }
        let full = disk.wait_for(first, at(Way::Write, 30_000_000_000, 2048));
        assert!(full > 3.0, "{full} ms");
    }

    const NCQ_CACHE: u64 = crate::medium::drive::NCQ.write_cache;

    /// Reads that come by chance, so many a second, to places all over a slice, and wait for company for `wait` milliseconds, or until ten are
    /// there (WebCoSM 2.2.2): the mean of how long each took, and that of the slowest hundredth, milliseconds.
    fn lazily(rate: f64, wait: Millis) -> [Millis; 2] {
        const READS: usize = 2000;
        let (mut queue, mut random) = (queue("hdd-18t", 64 << 30), Random::of(5));
        let (mut now, mut came, mut done) = (0.0, HashMap::new(), Vec::new());
        let mut company: Vec<(Millis, Transfer)> = Vec::new();
        for nth in 1..=READS {
            now += random.exponential(1000.0 / rate);
            let due = company.first().map_or(f64::MAX, |(first, _)| first + wait);
            company.push((now, at(Way::Read, random.below((64 << 30) / 32_768) * 64, 64)));
            let late = if due < now { company.pop() } else { None };
            if late.is_some() || company.len() == 10 || wait == 0.0 || nth == READS {
                company.sort_by_key(|(_, read)| read.sector);
                for (then, read) in company.drain(..) {
                    came.insert(queue.submit(due.min(now), read), then);
                }
            }
            company.extend(late);
            done.extend(queue.take_done());
        }
        queue.drain(now);
        done.extend(queue.take_done());
        let mut took: Vec<Millis> =
            done.iter().filter_map(|(ticket, at)| Some(at - came.get(ticket)?)).collect();
        took.sort_by(f64::total_cmp);
        [took.iter().sum::<f64>() / took.len() as f64, took[took.len() * 99 / 100]]
    }

    /// What waits for the device is sorted there already: the more, the better. To keep reads back takes that from it.
    #[test]
    fn reads_that_wait_for_company_gain_nothing_over_the_drives_own_queue() {
        for rate in [20.0, 100.0, 200.0, 300.0] {
            let at_once = lazily(rate, 0.0);
            print!("hdd-18t {rate:>4} reads/s, at once {:6.1} {:6.1} ms;", at_once[0], at_once[1]);
            for wait in [5.0, 20.0, 100.0] {
                let [mean, slowest] = lazily(rate, wait);
                print!(" after {wait:>3} ms {mean:6.1} {slowest:6.1};");
                assert!(mean > at_once[0], "{rate}, {wait}: {mean} after {}", at_once[0]);
            }
            println!();
        }
    }
}
