//! A modelled disk drive: where its head is, what it costs to go elsewhere, and when the wanted sector comes by.

use super::device::Device;
use super::queue::{Order, Rules};
use crate::block::SECTOR;
use crate::block::{Millis, Transfer, Way};

/// What a drive is like, as far as its maker published it.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub name: &'static str,
    pub revolutions_per_minute: f64,
    pub cylinders: u64,
    pub heads: u64,
    /// Sectors of a track, outermost and innermost; linear between, in `zones` steps.
    pub sectors: (u64, u64),
    pub zones: u64,
    pub read_seek: Seek,
    pub write_seek: Seek,
    /// From one track of a cylinder to the next.
    pub head_switch: Millis,
    /// Of each command, before the head moves.
    pub command: Millis,
    /// Bytes a millisecond between drive and host.
    pub bus: f64,
    /// Bytes that it reads on into its buffer after a read.
    pub read_ahead: u64,
    /// Sectors that the platter has as one: who writes a part of them waits a turn more, for the rest is read first.
    pub physical: u64,
    /// Whether it has taken over the next write before it is done with the last, so that one goes on where the other ended.
    pub streams: bool,
}

/// Milliseconds for one cylinder, for a third of all (which is the published average), for all.
#[derive(Clone, Copy, Debug)]
pub struct Seek {
    pub single: Millis,
    pub average: Millis,
    pub full: Millis,
}

pub struct Drive {
    geometry: Geometry,
    zones: Vec<Zone>,
    read_curve: Curve,
    write_curve: Curve,
    cylinder: u64,
    head: u64,
    /// What the last read left the drive reading on: from this sector, since this time.
    ahead: Option<(u64, Millis)>,
    /// Where the last write ended, if that was last.
    written: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u64,
    per_track: u64,
}

/// a + b √d + c d, of d cylinders.
#[derive(Clone, Copy, Debug)]
struct Curve(f64, f64, f64);

impl Curve {
    fn through(seek: Seek, cylinders: u64) -> Curve {
        let full = (cylinders - 1) as f64;
        let third = full / 3.0;
        // Two equations without a.
        let (b1, c1, r1) = (third.sqrt() - 1.0, third - 1.0, seek.average - seek.single);
        let (b2, c2, r2) = (full.sqrt() - 1.0, full - 1.0, seek.full - seek.single);
        let c = (r2 * b1 - r1 * b2) / (c2 * b1 - c1 * b2);
        let b = (r1 - c * c1) / b1;
        Curve(seek.single - b - c, b, c)
    }

    fn time(&self, distance: u64) -> Millis {
        let d = distance as f64;
        if distance == 0 { 0.0 } else { self.0 + self.1 * d.sqrt() + self.2 * d }
    }
}

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    cylinder: u64,
    head: u64,
    /// Share of a revolution at which it begins.
    angle: f64,
    per_track: u64,
    /// Sectors of its track from it on.
    left: u64,
}

impl Drive {
    pub fn new(geometry: Geometry) -> Drive {
        let mut zones = Vec::new();
        let (outer, inner) = geometry.sectors;
        let (mut sector, mut cylinder) = (0, 0);
        for zone in 0..geometry.zones {
            let per_track = outer - (outer - inner) * zone / (geometry.zones - 1).max(1);
            zones.push(Zone { first_sector: sector, first_cylinder: cylinder, per_track });
            let next = geometry.cylinders * (zone + 1) / geometry.zones;
            sector += (next - cylinder) * geometry.heads * per_track;
            cylinder = next;
        }
        Drive {
            read_curve: Curve::through(geometry.read_seek, geometry.cylinders),
            write_curve: Curve::through(geometry.write_seek, geometry.cylinders),
            geometry,
            zones,
            cylinder: 0,
            head: 0,
            ahead: None,
            written: None,
        }
    }

    /// A read of what the drive has read on from the last one.
    fn buffered(&mut self, now: Millis, transfer: Transfer) -> Option<Millis> {
        let (from, since) = self.ahead.filter(|_| self.is_ahead(transfer))?;
        let rate = self.place(from).per_track as f64 / self.revolution();
        let passed = since + (transfer.end() - from) as f64 / rate;
        let sent = now + transfer.bytes() as f64 / self.geometry.bus;
        self.ahead = Some((transfer.end(), passed));
        let place = self.place(transfer.end());
        (self.cylinder, self.head) = (place.cylinder, place.head);
        Some(passed.max(sent))
    }

    /// Waits for the first sector and lets all pass by, track after track; tracks are skewed so that a switch loses no
    /// revolution.
    fn pass(&mut self, from: Millis, transfer: Transfer) -> Millis {
        let revolution = self.revolution();
        let (mut sector, mut left) = (transfer.sector, transfer.count);
        let mut at = from + self.turn(from, self.place(sector));
        loop {
            let place = self.place(sector);
            (self.cylinder, self.head) = (place.cylinder, place.head);
            let count = left.min(place.left);
            at += count as f64 / place.per_track as f64 * revolution;
            (sector, left) = (sector + count, left - count);
            if left == 0 {
                return at;
            }
            at += self.skew();
        }
    }

    /// Until a place comes by.
    fn turn(&self, from: Millis, place: Place) -> Millis {
        let revolution = self.revolution();
        let turned = from / revolution - place.angle;
        let wait = (1.0 - (turned - turned.floor())) % 1.0;
        // What comes just now, but for rounding, has not gone by.
        if wait > 1.0 - 1e-6 { 0.0 } else { wait * revolution }
    }

    /// Until the head is over the track of a place.
    fn seek(&self, way: Way, place: Place) -> Millis {
        let distance = place.cylinder.abs_diff(self.cylinder);
        let curve = if way == Way::Read { &self.read_curve } else { &self.write_curve };
        let switch = if place.head == self.head { 0.0 } else { self.geometry.head_switch };
        curve.time(distance).max(switch)
    }

    /// Whether all of a transfer is a read of what the drive reads on.
    fn is_ahead(&self, transfer: Transfer) -> bool {
        let window = self.geometry.read_ahead / SECTOR as u64;
        transfer.way == Way::Read
            && self.ahead.is_some_and(|(from, _)| transfer.sector >= from && transfer.end() <= from + window)
    }

    fn revolution(&self) -> Millis {
        60_000.0 / self.geometry.revolutions_per_minute
    }

    /// Time that a track's first sector lies behind the last track's end.
    fn skew(&self) -> Millis {
        self.geometry.head_switch.max(self.geometry.write_seek.single)
    }

    fn place(&self, sector: u64) -> Place {
        let sector = sector.min(self.capacity() - 1);
        let zone = self.zones[self.zones.partition_point(|zone| zone.first_sector <= sector) - 1];
        let within = sector - zone.first_sector;
        let track = within / zone.per_track;
        let nth = within % zone.per_track;
        let skews = (zone.first_cylinder * self.geometry.heads + track) as f64 * self.skew();
        let angle = nth as f64 / zone.per_track as f64 + skews / self.revolution();
        Place {
            cylinder: zone.first_cylinder + track / self.geometry.heads,
            head: track % self.geometry.heads,
            angle: angle - angle.floor(),
            per_track: zone.per_track,
            left: zone.per_track - nth,
        }
    }
}

impl Device for Drive {
    fn capacity(&self) -> u64 {
        self.zones.last().map_or(0, |zone| {
            let cylinders = self.geometry.cylinders - zone.first_cylinder;
            zone.first_sector + cylinders * self.geometry.heads * zone.per_track
        })
    }

    fn serve(&mut self, now: Millis, transfer: Transfer) -> Millis {
        let begin = now + self.geometry.command;
        if let Some(done) = self.buffered(begin, transfer) {
            return done;
        }
        let follows = self.geometry.streams && self.written == Some(transfer.sector);
        let begin = if transfer.way == Way::Write && follows { now } else { begin };
        let there = begin + self.seek(transfer.way, self.place(transfer.sector));
        let mut done = self.pass(there, transfer);
        let physical = self.geometry.physical;
        let whole = transfer.sector.is_multiple_of(physical) && transfer.end().is_multiple_of(physical);
        if transfer.way == Way::Write && !whole {
            done += self.revolution();
        }
        let is_read = transfer.way == Way::Read;
        self.ahead = is_read.then_some((transfer.end(), done));
        self.written = (!is_read).then_some(transfer.end());
        done
    }

    fn reach(&self, now: Millis, transfer: Transfer) -> Millis {
        if self.is_ahead(transfer) {
            return 0.0;
        }
        let place = self.place(transfer.sector);
        let seek = self.geometry.command + self.seek(transfer.way, place);
        seek + self.turn(now + seek, place)
    }
}

/// Seagate's Barracuda 4 of 1995, the disk of WebCoSM and USITS99: capacity, speed, heads, cylinders, seeks and buffer as
/// its manual has them; the two times that it does not tell, of a command and of a head switch, are customary for its day.
pub const ST15150W: Geometry = Geometry {
    name: "st15150w",
    revolutions_per_minute: 7200.0,
    cylinders: 3711,
    heads: 21,
    sectors: (131, 84),
    zones: 10,
    read_seek: Seek { single: 0.6, average: 8.0, full: 17.0 },
    write_seek: Seek { single: 0.9, average: 9.0, full: 19.0 },
    head_switch: 0.9,
    command: 0.7,
    bus: 20_000.0,
    read_ahead: 128 << 10,
    physical: 1,
    streams: false,
};

/// Disksort of Solaris, with transfers of maxphys on a SPARC of 64 bits.
pub const DISKSORT: Rules =
    Rules { most: 128 << 10, at_once: 1, order: Order::Sweep, write_cache: 0, command: 0.7, link: 20_000.0 };

/// A nearline disk of 2020 as Seagate's Exos X18: speed, capacity, heads, cache, 512e and 270 MB/s at the outermost track are
/// its data sheet's. It tells no seek times: those are of WD's Ultrastar DC HC310. Tracks and cylinders follow from
/// capacity and speed, the innermost track holding half of the outermost; command and head switch are set.
pub const HDD_18T: Geometry = Geometry {
    name: "hdd-18t",
    revolutions_per_minute: 7200.0,
    cylinders: 559_000,
    heads: 18,
    sectors: (4660, 2330),
    zones: 40,
    read_seek: Seek { single: 0.23, average: 7.4, full: 16.0 },
    write_seek: Seek { single: 0.32, average: 8.2, full: 17.0 },
    head_switch: 0.5,
    command: 0.1,
    bus: 550_000.0,
    read_ahead: 2 << 20,
    physical: 8,
    streams: true,
};

/// Linux' largest transfer, and a drive that chooses among 32 and has 256 MB for writes.
pub const NCQ: Rules = Rules {
    most: 1 << 20,
    at_once: 1,
    order: Order::Soonest(32),
    write_cache: 256 << 20,
    command: 0.1,
    link: 550_000.0,
};

/// Room enough for Maltzahn's infinite caches (Chapter 4), which lay on three disks.
pub const THREE_IN_ONE: Geometry = Geometry { name: "three-in-one", cylinders: 3 * 3711, ..ST15150W };

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sector: u64, count: u64) -> Transfer {
        Transfer { way: Way::Read, sector, count }
    }

    #[test]
    fn seeks_are_as_published() {
        let drive = Drive::new(ST15150W);
        let curve = drive.read_curve;
        for (distance, time) in [(1, 0.6), (3710 / 3, 8.0), (3710, 17.0)] {
            assert!((curve.time(distance) - time).abs() < 0.02, "{distance}: {}", curve.time(distance));
        }
        assert!((1..3710).all(|d| curve.time(d) < curve.time(d + 1)));
        let bytes = drive.capacity() * SECTOR as u64;
        assert!((4_200_000_000..4_400_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn places_follow_each_other() {
        let drive = Drive::new(ST15150W);
        let mut before = drive.place(0);
        for sector in (1..drive.capacity()).step_by(13) {
            let place = drive.place(sector);
            assert!((place.cylinder, place.head) >= (before.cylinder, 0), "{sector}");
            assert!(place.cylinder >= before.cylinder && place.left >= 1 && place.left <= place.per_track);
            before = place;
        }
        assert_eq!(drive.place(drive.capacity() - 1).cylinder, 3710);
    }

    #[test]
    fn random_reads_take_seek_and_half_a_turn() {
        let mut drive = Drive::new(ST15150W);
        let mut random = trace::random::Random::of(1);
        let (mut now, count) = (0.0, 4000);
        for _ in 0..count {
            now = drive.serve(now, read(random.below(drive.capacity() - 16), 16));
        }
        let mean = now / f64::from(count);
        assert!((13.0..15.5).contains(&mean), "{mean} ms where 8.0 + 4.2 + 1.3 + 0.7 should be");
    }

    #[test]
    fn a_long_transfer_runs_at_the_speed_of_the_medium() {
        let mut drive = Drive::new(ST15150W);
        let sectors = 8 << 11;
        let took = drive.serve(0.0, read(0, sectors));
        let rate = sectors as f64 * SECTOR as f64 / took / 1000.0;
        assert!((6.5..8.1).contains(&rate), "{rate} MB/s");
        let (mut now, from) = (took, took);
        for nth in 0..64 {
            now = drive.serve(now, read(sectors + 16 * nth, 16));
        }
        let rate = 64.0 * 8192.0 / (now - from) / 1000.0;
        assert!(rate > 5.0, "what follows is read on: {rate} MB/s");
    }
}
