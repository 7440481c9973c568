//! The scrub's part of the engine: which segment comes next, and what becomes of what proves damaged.

use super::{Answer, Engine, Io, Millis, Op, Running};
use crate::scrub::pace::Pace;
use crate::scrub::verify::{Contents, Records, Verified, Verify, What};
use crate::scrub::{Clients, Counters, Scrub, Step};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Segments passed over in one call, since nothing is to be verified there: others wait for the lock.
const PASSED: usize = 1_000;
/// When to ask again where nothing can be verified.
const LATER: Millis = 1_000;

impl Engine {
    /// That reads and verifies everything once in so long; `epoch`: milliseconds since 1970 at the engine's beginning of time.
    pub fn with_scrub(self, period: Option<Duration>, epoch: Millis) -> Engine {
        let (segments, segment) = (self.layout.segments, self.layout.segment);
        let pace = period.map(|period| Pace::new(period, epoch, segments, segment));
        Engine { scrub: Scrub::new(pace), ..self }
    }

    /// In which share of the day, now among it, there is time for what nobody waits for; `None`: now there is not.
    pub fn set_off_peak(&mut self, share: Option<f64>) {
        self.scrub.set_share(share);
    }

    pub fn is_off_peak(&self) -> bool {
        self.scrub.is_off_peak()
    }

    pub fn scrubbed(&self) -> Counters {
        self.scrub.counters
    }

    /// Segments that the scrub should have begun by now, and has not.
    pub fn scrub_behind(&self, now: Millis) -> u64 {
        self.scrub.behind(now)
    }

    /// The next step of the scrub; or when to ask again, milliseconds.
    pub fn next_scrub(&mut self, clients: Clients, now: Millis) -> Result<Io, Millis> {
        self.now = now;
        // What is not in the index yet would be passed over.
        if self.parts_left() > 0 {
            return Err(LATER);
        }
        self.scrub.may_go_on(clients == Clients::Wait || self.writes.len() > 0, now)?;
        let Some(verify) = self.next_to_verify(clients) else {
            let is_over = self.scrub.behind(now) == 0;
            return Err(if is_over { LATER } else { 1 });
        };
        self.scrub.begin(verify.bytes(), clients, now);
        Ok(self.hand_out((Running::Verify { seq: verify.seq }, Op::Verify(Box::new(verify)))))
    }

    fn next_to_verify(&mut self, clients: Clients) -> Option<Verify> {
        let layout = self.layout;
        for _ in 0..PASSED {
            let is_over = self.scrub.behind(self.now) == 0;
            let (seq, what) = match &mut self.scrub.step {
                Step::Between if is_over => return None,
                Step::Between => {
                    let number = self.scrub.at % layout.segments;
                    self.scrub.at += 1;
                    if let Some(seq) = self.settled(number) {
                        self.scrub.step = Step::Table(seq);
                    }
                    continue;
                }
                Step::Table(seq) => (*seq, What::Table),
                Step::Records { seq, entries, begun, until } if *begun < entries.len() => {
                    *until = *begun + Verify::step(&layout, &entries[*begun..], clients);
                    (*seq, What::Records(entries[*begun..*until].to_vec()))
                }
                &mut Step::Records { seq: _seq, .. } => {
                    self.scrub.counters.segments += 1;
                    #[cfg(test)]
                    self.scrub.gone_through.insert(_seq);
                    self.scrub.step = Step::Between;
                    continue;
                }
            };
            if !self.has_departed(seq) {
                return Some(Verify { layout, seq, what });
            }
            self.scrub.step = Step::Between;
        }
        None
    }

    /// The sequence number of what lies in a segment, if that is on the medium and stays for now.
    fn settled(&self, number: u64) -> Option<u64> {
        let seq = self.layout.seq_of(number, self.seq.checked_sub(1)?)?;
        let is_open = self.open.as_ref().is_some_and(|open| open.seq == seq);
        (!is_open && !self.has_departed(seq) && !self.writes.is_writing(seq)).then_some(seq)
    }

    /// Nothing of this segment is in the index any more: what lies there now, the scrub does not know.
    fn has_departed(&self, seq: u64) -> bool {
        let last = self.layout.seq_of(self.layout.number(seq), self.newest());
        last != Some(seq) || seq < self.departed.load(Ordering::Acquire)
    }

    pub(super) fn verified(&mut self, seq: u64, result: io::Result<Answer>) {
        self.scrub.end(self.now);
        let Ok(Answer::Verified(found)) = result else {
            self.scrub.retry.fail(self.now);
            return;
        };
        self.scrub.retry = Default::default();
        if self.has_departed(seq) {
            self.scrub.step = Step::Between;
            return;
        }
        match found {
            Verified::Table(Contents::Live(entries)) => {
                self.scrub.step = Step::Records { seq, entries, begun: 0, until: 0 };
            }
            Verified::Table(Contents::Without) => self.scrub.step = Step::Between,
            Verified::Table(Contents::Lost) => {
                self.scrub.counters.tables += 1;
                self.scrub.step = Step::Between;
            }
            Verified::Table(Contents::Gone(there)) => {
                let gone = there.into_iter().filter(|(hash, place)| self.forget(*hash, *place, self.now));
                let gone = gone.count() as u64;
                self.scrub.counters.tables += 1;
                self.scrub.counters.damaged += gone;
                self.scrub.step = Step::Between;
            }
            Verified::Records(Records { bytes, damaged, unreadable }) => {
                let damaged = damaged
                    .iter()
                    .filter(|entry| self.forget(entry.hash, self.place_of(seq, entry), self.now));
                let damaged = damaged.count() as u64;
                let unreadable = unreadable
                    .iter()
                    .filter(|entry| self.forget(entry.hash, self.place_of(seq, entry), self.now));
                let unreadable = unreadable.count() as u64;
                let counters = &mut self.scrub.counters;
                counters.bytes += bytes;
                counters.damaged += damaged;
                counters.unreadable += unreadable;
                if let Step::Records { begun, until, .. } = &mut self.scrub.step {
                    *begun = *until;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::buffer::Buffer;
    use crate::by_hand::ByHand;
    use crate::disk::Disk;
    use crate::disk::sim::SimDisk;
    use crate::engine::Millis;
    use crate::scrub::{Clients, Counters};
    use crate::{Key, Options};
    use rand::{SeedableRng, rngs::StdRng};
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Duration;

    const SIZE: u64 = 3 << 20;
    const OBJECTS: u32 = 200;
    const PERIOD: Millis = 100_000;

    fn key(n: u32) -> Key {
        Key::new(format!("key {n}").into_bytes())
    }

    /// A store with objects of 5 KB on the disk.
    fn filled(disk: &SimDisk) -> ByHand {
        filled_with(disk, &[5_000])
    }

    /// That had these lengths, one after the other.
    fn filled_with(disk: &SimDisk, lengths: &[usize]) -> ByHand {
        let scrub = Some(Duration::from_millis(PERIOD));
        let options = Options { packet: 64 << 10, scrub, ..Options::at("") };
        let store = ByHand::make(disk, SIZE, &options, 1).unwrap();
        for length in lengths {
            for n in 0..OBJECTS {
                store.put(&key(n), b"", &vec![n as u8; *length]).unwrap();
                store.turn(disk, 0);
            }
        }
        // What is in the open segment is not settled.
        store.engine().finish();
        store.turn(disk, 5_000);
        store
    }

    /// Where the record of an object lies.
    fn bytes_of(store: &ByHand, n: u32) -> std::ops::Range<usize> {
        let slot = store.slot_for_tests(&key(n)).unwrap();
        let start = store.shared_for_tests().layout.offset(slot.place) as usize;
        start..start + 5_000
    }

    /// The scrub alone, for so long.
    fn scrub(store: &ByHand, disk: &dyn Disk, from: Millis, to: Millis) -> Counters {
        let shared = store.shared_for_tests();
        let mut now = from;
        while now < to {
            shared.set_time(now);
            let next = store.engine().next_scrub(Clients::Away, now);
            match next {
                Ok(io) => {
                    let result = shared.carry_out(disk, io.op);
                    store.engine().done(io.id, result, now);
                }
                Err(wait) => now += wait,
            }
        }
        store.engine().scrubbed()
    }

    fn there(store: &ByHand) -> usize {
        (0..OBJECTS).filter(|n| store.holds(&key(*n))).count()
    }

    /// Between a start and the end of the period everything comes once, and at no more than twice the mean.
    #[test]
    fn what_is_damaged_is_found_within_the_period_and_is_a_miss_from_then_on() {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = filled(&disk);
        let spoilt: Vec<u32> = (0..OBJECTS).filter(|n| n % 7 == 3).collect();
        spoilt.iter().for_each(|n| disk.flip_bit(bytes_of(&store, *n)));
        let half = scrub(&store, &disk, 5_000, 5_000 + PERIOD / 6);
        assert!(half.damaged > 0 && half.damaged < spoilt.len() as u64, "{half:?}");
        let all = scrub(&store, &disk, 5_000 + PERIOD / 6, 5_000 + PERIOD);
        assert_eq!((all.damaged, all.unreadable, all.tables), (spoilt.len() as u64, 0, 0));
        for n in 0..OBJECTS {
            assert_eq!(store.holds(&key(n)), !spoilt.contains(&n), "{n}");
        }
        // So it stays after a kill.
        store.turn(&disk, 2 * PERIOD);
        let again = ByHand::open_again(&disk, SIZE, &Options { packet: 64 << 10, ..Options::at("") });
        assert_eq!(there(&again), OBJECTS as usize - spoilt.len());
    }

    #[test]
    fn what_cannot_be_read_is_forgotten_but_not_where_the_disk_fails_as_a_whole() {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = filled(&disk);
        disk.fail_reads_in(0..u64::MAX);
        let none = scrub(&store, &disk, 5_000, 5_000 + 2 * PERIOD);
        assert_eq!((none.unreadable, none.tables, there(&store)), (0, 0, OBJECTS as usize));
        let bad = bytes_of(&store, 2);
        disk.fail_reads_in(bad.start as u64 + 1_024..bad.start as u64 + 1_025);
        let found = scrub(&store, &disk, 3 * PERIOD, 4 * PERIOD);
        assert_eq!((found.unreadable, found.damaged, there(&store)), (1, 0, OBJECTS as usize - 1));
        assert!(!store.holds(&key(2)));
        let table = store.shared_for_tests().layout.start(1) - 512;
        disk.fail_reads_in(table..table + 512);
        assert!(scrub(&store, &disk, 4 * PERIOD, 5 * PERIOD).tables > 0);
    }

    /// Flips a bit of what is read, every other time.
    struct FlipsOnItsWay<'a>(&'a SimDisk, AtomicU64);

    impl Disk for FlipsOnItsWay<'_> {
        fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
            self.0.read(offset, buffer, length)?;
            if length != 16 << 10 && self.1.fetch_add(1, Relaxed).is_multiple_of(2) {
                buffer[length / 2] ^= 1;
            }
            Ok(())
        }
        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            unreachable!("the scrub writes nothing")
        }
        fn sync(&self) -> io::Result<()> {
            unreachable!("nor does it sync")
        }
        fn read_block(&self) -> usize {
            512
        }
    }

    #[test]
    fn what_flips_on_its_way_is_read_again() {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = filled(&disk);
        let flips = FlipsOnItsWay(&disk, AtomicU64::new(0));
        let found = scrub(&store, &flips, 5_000, 5_000 + PERIOD);
        assert!(flips.1.load(Relaxed) > 15 && found.bytes > 900_000, "{found:?}");
        assert_eq!((found.damaged, there(&store)), (0, OBJECTS as usize));
    }

    /// Until all of the index is loaded, and while it is day.
    #[test]
    fn it_waits_for_the_night() {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = filled(&disk);
        store.engine().set_off_peak(None);
        assert_eq!(scrub(&store, &disk, 5_000, PERIOD), Counters::default());
        assert!(store.engine().scrub_behind(PERIOD) == 32);
        // A tenth of the day is enough for all of it.
        store.engine().set_off_peak(Some(0.1));
        assert!(scrub(&store, &disk, PERIOD, PERIOD + PERIOD / 10).bytes > 900_000);
    }

    #[test]
    fn a_packet_that_is_gone_is_found_and_what_it_held_does_not_come_back_as_it_was_before() {
        for with in [0, 0xa5] {
            let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
            let store = filled_with(&disk, &[5_000, 1_000]);
            let layout = store.shared_for_tests().layout;
            let number = layout.segment_of(store.slot_for_tests(&key(30)).unwrap().place);
            disk.write(layout.start(number), &vec![with; layout.segment as usize]).unwrap();
            let is_lost =
                |n: &u32| layout.segment_of(store.slot_for_tests(&key(*n)).unwrap().place) == number;
            let lost: Vec<u32> = (0..OBJECTS).filter(is_lost).collect();
            let found = scrub(&store, &disk, 5_000, 5_000 + PERIOD);
            assert_eq!((found.tables, found.damaged, lost.len() > 1), (1, lost.len() as u64, true));
            assert_eq!(there(&store), OBJECTS as usize - lost.len());
            store.turn(&disk, 2 * PERIOD);
            let again = ByHand::open_again(&disk, SIZE, &Options { packet: 64 << 10, ..Options::at("") });
            assert!(lost.iter().all(|n| !again.holds(&key(*n))) && there(&again) == there(&store));
        }
    }
}
