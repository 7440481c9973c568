//! A drive and what waits for it: the host sorts by position and goes one way (C-LOOK), as disksort does. Contiguous
//! requests of one kind go together, up to a bound.

use super::drive::{Drive, Millis, Transfer, Way};
use std::collections::{BTreeMap, VecDeque};

/// What the device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub reads: u64,
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
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

    fn note(&mut self, done: Millis, sector: u64) {
        self.transfers.push_back((done, sector));
        while self.transfers.front().is_some_and(|(time, _)| *time < done - Track::SPAN) {
            self.transfers.pop_front();
        }
    }
}

pub struct Queue {
    drive: Drive,
    waiting: BTreeMap<u64, Transfer>,
    /// Sectors waiting to be written.
    pending: u64,
    /// When the drive is done with what it has begun.
    free_at: Millis,
    /// Where the last transfer ended.
    position: u64,
    /// Sectors of one transfer at most.
    most: u64,
    traffic: Traffic,
    track: Option<Track>,
}

impl Queue {
    /// `most` is the largest transfer, bytes.
    pub fn new(drive: Drive, most: u64) -> Queue {
        Queue {
            drive,
            waiting: BTreeMap::new(),
            pending: 0,
            free_at: 0.0,
            position: 0,
            most: most / super::sectors::SECTOR as u64,
            traffic: Traffic::default(),
            track: None,
        }
    }

    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Notes from now on where the head is.
    pub fn follow_head(&mut self) {
        self.track = Some(Track { transfers: VecDeque::new(), capacity: self.drive.capacity() });
    }

    pub fn track(&self) -> Option<&Track> {
        self.track.as_ref()
    }

    /// Sectors that wait to be written.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Lets the drive work until `now`.
    pub fn run(&mut self, now: Millis) {
        while self.free_at < now && !self.waiting.is_empty() {
            self.step();
        }
        if self.waiting.is_empty() {
            self.free_at = self.free_at.max(now);
        }
    }

    /// Writes some time. What waits for the same sectors is replaced.
    pub fn write_later(&mut self, now: Millis, sector: u64, count: u64) {
        self.run(now);
        let (mut sector, mut left) = (sector, count);
        while left > 0 {
            let count = left.min(self.most);
            let transfer = Transfer { way: Way::Write, sector, count };
            let old = self.waiting.insert(sector, transfer).map_or(0, |old| old.count);
            self.pending = self.pending + count - old;
            (sector, left) = (sector + count, left - count);
        }
    }

    /// Does one transfer, in its turn; when it is done.
    pub fn wait_for(&mut self, now: Millis, transfer: Transfer) -> Millis {
        self.run(now);
        if transfer.way == Way::Write {
            // A write of the same sectors that waits is this one.
            self.write_later(now, transfer.sector, transfer.count);
            while self.waiting.contains_key(&transfer.sector) {
                self.step();
            }
            return self.free_at;
        }
        // The drive finishes what it has begun, then what lies on the way.
        while let Some((_, next)) = self.next() {
            if !self.is_before(next.sector, transfer.sector) {
                break;
            }
            self.step();
        }
        self.serve(transfer);
        self.free_at
    }

    /// Until nothing waits; when.
    pub fn drain(&mut self, now: Millis) -> Millis {
        self.run(now);
        while !self.waiting.is_empty() {
            self.step();
        }
        self.free_at.max(now)
    }

    /// Until fewer than `sectors` wait; when.
    pub fn drain_to(&mut self, now: Millis, sectors: u64) -> Millis {
        self.run(now);
        while self.pending > sectors && !self.waiting.is_empty() {
            self.step();
        }
        self.free_at.max(now)
    }

    fn next(&self) -> Option<(u64, Transfer)> {
        let ahead = self.waiting.range(self.position..).next();
        ahead.or_else(|| self.waiting.iter().next()).map(|(sector, transfer)| (*sector, *transfer))
    }

    /// Whether the sweep meets `one` before `other`.
    fn is_before(&self, one: u64, other: u64) -> bool {
        let distance = |sector: u64| sector.wrapping_sub(self.position);
        distance(one) < distance(other)
    }

    fn step(&mut self) {
        let Some((sector, mut transfer)) = self.next() else { return };
        self.waiting.remove(&sector);
        while transfer.count < self.most {
            let Some(after) = self.waiting.get(&transfer.end()).copied() else { break };
            if transfer.count + after.count > self.most {
                break;
            }
            self.waiting.remove(&transfer.end());
            transfer.count += after.count;
        }
        self.pending -= transfer.count;
        self.serve(transfer);
    }

    fn serve(&mut self, transfer: Transfer) {
        self.free_at = self.drive.serve(self.free_at, transfer);
        self.position = transfer.end();
        let traffic = &mut self.traffic;
        match transfer.way {
            Way::Read => {
                traffic.reads += 1;
                traffic.bytes_read += transfer.bytes();
            }
            Way::Write => {
                traffic.writes += 1;
                traffic.bytes_written += transfer.bytes();
            }
        }
        if let Some(track) = &mut self.track {
            track.note(self.free_at, transfer.sector);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::drive::ST15150W;

    fn queue() -> Queue {
        Queue::new(Drive::new(ST15150W), 56 << 10)
    }

    #[test]
    fn writes_that_wait_go_in_order_and_together() {
        let mut queue = queue();
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
    fn one_who_waits_waits_for_what_lies_on_the_way() {
        let mut alone = queue();
        let transfer = Transfer { way: Way::Read, sector: 4_000_000, count: 16 };
        let quick = alone.wait_for(0.0, transfer);
        let mut busy = queue();
        (0..20).for_each(|nth| busy.write_later(0.0, nth * 100_000, 16));
        let slow = busy.wait_for(0.0, transfer);
        assert!(slow > 5.0 * quick, "{slow} and {quick}");
        assert_eq!(busy.traffic().writes, 20);
    }

    #[test]
    fn the_track_of_the_head_is_bounded() {
        let mut queue = queue();
        queue.follow_head();
        for nth in 0..100 {
            queue.wait_for(f64::from(nth) * 2000.0, Transfer { way: Way::Read, sector: 1000, count: 16 });
        }
        let track = queue.track().unwrap();
        assert!((60..=62).contains(&track.transfers.len()), "{}", track.transfers.len());
        assert_eq!((track.transfers[0].1, track.capacity), (1000, queue.drive().capacity()));
    }

    #[test]
    fn the_drive_works_while_nobody_waits() {
        let mut queue = queue();
        (0..20).for_each(|nth| queue.write_later(0.0, nth * 100_000, 16));
        queue.run(10_000.0);
        assert_eq!(queue.pending(), 0);
        let done = queue.wait_for(10_000.0, Transfer { way: Way::Read, sector: 0, count: 16 });
        assert!((10_000.0..10_040.0).contains(&done));
    }
}
