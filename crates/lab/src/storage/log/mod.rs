//! A log of segments written round and round, in which nothing survives in place, and what may be chosen about it: who is written,
//! who is written again, who is saved from being overwritten, in which order, and what is read with a hit. Each recipe is a row of
//! such parts.
//!
//! Everything is written until the log has come round. From then on what was turned away may come back while it is remembered
//! (`recent`); what was used in memory or on the disk may be written again. The index has three bits of an object's uses: up to three
//! since it was written, and whether it was written again.

mod recent;
mod segments;
mod worth;

use super::{Outcome, Storage};
use crate::medium::{Failed, Medium};
use crate::notes::Notes;
use crate::object::{Object, Version};
use policy::collections::lru::Quick;
pub use recent::Memory;
use recent::Recent;
use segments::{Entry, Place, Segments, record};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use trace::Access;
use trace::random::mix;
use worth::{Worth, class, is_in_tail};

/// What is chosen.
#[derive(Clone, Copy)]
pub struct Parts {
    pub admission: Admission,
    pub again: Again,
    pub when: When,
    pub memory: Memory,
    pub survivors: Survivors,
    pub order: Order,
    /// Bytes that are read around a hit: what lies whole in them enters memory, as if nobody had asked for it.
    pub window: u64,
    /// Bytes of a segment, or less where they would be few.
    pub segment: u64,
}

/// Who is written when it comes.
#[derive(Clone, Copy)]
pub enum Admission {
    All,
    /// Up to so many bytes; what is larger when it was used in memory, or comes back.
    UpTo(u64),
    /// Who was asked for more often, for its size, than what would be overwritten (TinyLFU). Counts are exact, as no sketch's are.
    Frequency,
    /// Who pays (`worth`).
    Priced,
}

/// What was used is written again from memory, which takes no read.
#[derive(Clone, Copy)]
pub enum Again {
    Never,
    /// If it lies in the oldest share of the log.
    Oldest(f64),
    /// If that pays by itself and it is likely not to be used once more before it is overwritten.
    Priced,
}

/// When it is decided who is written, or written again, and who was turned away is remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// When it leaves memory.
    Leaving,
    /// When it is fetched, is read from the disk, or is used in memory: the first times, and from then on every 16th.
    Used,
}

/// What is read before it is overwritten, to be written again.
#[derive(Clone, Copy)]
pub enum Survivors {
    None,
    /// Those with most uses for their size, up to a share of the segment.
    Densest(f64),
    /// Those that pay.
    Priced,
}

/// In which order a segment has its records.
#[derive(Clone, Copy)]
pub enum Order {
    Arrival,
    Server,
    /// By client and stretch of so many seconds.
    Session(u64),
}

/// Uses that are counted.
const MOST_USES: u8 = 3;
/// Uses of what is not on the disk, from which on a use in memory decides on it: one of them says little, as it often is the same page.
const ENOUGH_USES: u8 = 2;
/// Of more uses in memory than are counted, those that decide are so many apart.
const SELDOM: u32 = 16;
/// Bytes that are read in vain rather than twice.
const GAP: u64 = 128 << 10;
/// Of a segment, what survivors may take.
const MOST_SURVIVORS: f64 = 0.5;

pub struct Log {
    parts: Parts,
    segments: Segments,
    held: HashMap<u64, Held, BuildHasherDefault<Quick>>,
    recent: Recent,
    worth: Worth,
    frequency: Frequency,
    /// The log has come round.
    lapped: bool,
    /// Segments opened since what was turned away was forgotten last.
    since: usize,
    /// What was read beside the last hit.
    beside: Vec<Version>,
    counts: Counts,
}

/// Of an object, in the index.
struct Held {
    version: Version,
    places: Vec<Place>,
    group: u64,
    uses: u8,
    again: bool,
    in_memory: bool,
}

/// Bytes written again from memory and after a read, and seconds of such reads.
#[derive(Default)]
struct Counts {
    again: u64,
    survivors: u64,
    survivor_seconds: f64,
}

/// Requests for each object; they are halved each lap.
#[derive(Default)]
struct Frequency {
    counts: HashMap<u64, u8, BuildHasherDefault<Quick>>,
    /// Of what would be overwritten next, for each byte.
    victim: f64,
}

impl Log {
    /// Bytes of the file.
    pub fn new(space: u64, parts: Parts) -> Log {
        let segments = Segments::new(space, parts.segment);
        Log {
            parts,
            worth: Worth::new(segments.count()),
            segments,
            held: HashMap::default(),
            recent: Recent::new(parts.memory, space),
            frequency: Frequency::default(),
            lapped: false,
            since: 0,
            beside: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn takes(&self, size: u64) -> bool {
        size <= self.segments.largest()
    }

    /// Whether an object that is not held and was used so often is written.
    fn admits(&self, object: &Object, uses: u8) -> bool {
        let bytes = record(object.size);
        !self.lapped
            || match self.parts.admission {
                Admission::All => true,
                Admission::UpTo(most) => uses > 0 || object.size <= most,
                Admission::Frequency => {
                    let count = self.frequency.counts.get(&object.id).copied().unwrap_or(0);
                    f64::from(count) > self.frequency.victim * bytes as f64
                }
                Admission::Priced => self.worth.pays(uses, bytes, 1.0),
            }
    }

    /// Whether what is held is written again.
    fn goes_again(&self, held: &Held) -> bool {
        let Some(oldest) = held.places.first() else { return false };
        let age = self.segments.age(oldest);
        held.uses > 0
            && self.lapped
            && match self.parts.again {
                Again::Never => false,
                Again::Oldest(share) => age > 1.0 - share,
                Again::Priced => {
                    let bytes = record(held.version.object.size);
                    let expected = self.worth.expected(held.uses, bytes);
                    let until_overwritten = expected / age.max(0.05) * (1.0 - age);
                    self.worth.pays(held.uses, bytes, (-self.patience() * until_overwritten).exp())
                }
            }
    }

    /// Writes what is held again, if it goes again.
    fn write_again(&mut self, medium: &mut dyn Medium, object: u64) -> Result<(), Failed> {
        let Some(held) = self.held.get(&object).filter(|held| self.goes_again(held)) else { return Ok(()) };
        let Held { version, group, uses, in_memory, .. } = *held;
        self.counts.again += record(version.object.size);
        self.append(medium, version, group, (uses, true), in_memory)
    }

    /// Of how many times the uses to be expected one is waited for: what is decided at each use is decided again at the next one, so
    /// that waiting costs less.
    fn patience(&self) -> f64 {
        match self.parts.when {
            When::Leaving => 1.0,
            When::Used => 3.0,
        }
    }

    /// Writes a version, which was used so often.
    fn append(
        &mut self,
        medium: &mut dyn Medium,
        version: Version,
        group: u64,
        (uses, again): (u8, bool),
        in_memory: bool,
    ) -> Result<(), Failed> {
        self.worth.appended(record(version.object.size));
        if again {
            self.worth.appended_again(uses, record(version.object.size));
        }
        // Of what is written again half of its uses are believed.
        let uses = if again { uses / 2 } else { 0 };
        let (object, mut first) = (version.object, 0);
        self.held.insert(object.id, Held { version, places: Vec::new(), group, uses, again, in_memory });
        while first < object.size {
            match self.segments.put(&object, first, group) {
                Some(place) => {
                    first = place.upto();
                    self.held.get_mut(&object.id).ok_or("lost while it is written")?.places.push(place);
                }
                None => self.turn(medium)?,
            }
        }
        Ok(())
    }

    /// Seals the open segment and opens the oldest one.
    fn turn(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        if !matches!(self.parts.order, Order::Arrival) {
            self.sort();
        }
        let oldest = self.segments.seal(medium)?;
        self.worth.fade();
        self.since += 1;
        if 2 * self.since >= self.segments.count() || self.recent.is_full(self.held.len()) {
            self.since = 0;
            let Log { recent, worth, .. } = self;
            recent.turn(|class, count| worth.stayed_away(class, count));
        }
        self.lapped |= !oldest.is_empty();
        self.sweep(medium, oldest)
    }

    /// Brings together what belongs together in the open segment.
    fn sort(&mut self) {
        let moved = self.segments.sort();
        // Found before any is changed: where one was, another may come.
        let found = moved.iter().filter_map(|(entry, to)| {
            let places = &self.held.get(&entry.object)?.places;
            Some((entry.object, places.iter().position(|place| *place == entry.place)?, *to))
        });
        for (object, nth, to) in found.collect::<Vec<_>>() {
            if let Some(held) = self.held.get_mut(&object) {
                held.places[nth] = to;
            }
        }
    }

    /// What lay in a segment leaves the index, but for survivors, which are written into it again.
    fn sweep(&mut self, medium: &mut dyn Medium, oldest: Vec<Entry>) -> Result<(), Failed> {
        let mut used = Vec::new();
        for entry in oldest {
            if self.held.get(&entry.object).is_none_or(|held| !held.places.contains(&entry.place)) {
                continue;
            }
            let Some(held) = self.held.remove(&entry.object) else { continue };
            if held.uses == 0 && !held.again {
                self.worth.stayed_away(class(record(held.version.object.size)), 1.0);
            }
            if held.uses > 0 && held.places.len() == 1 {
                used.push((entry.place, held));
            }
        }
        let survivors = self.survivors(used);
        let away: Vec<(Object, Place)> = survivors
            .iter()
            .filter(|(_, held)| !held.in_memory)
            .map(|(place, held)| (held.version.object, *place))
            .collect();
        let began = medium.seconds();
        self.segments.rescue(medium, &away, GAP)?;
        self.counts.survivor_seconds += medium.seconds() - began;
        for (place, held) in survivors {
            self.counts.survivors += place.length();
            self.append(medium, held.version, held.group, (held.uses, true), held.in_memory)?;
        }
        if let Admission::Frequency = self.parts.admission {
            self.frequency
                .look(self.segments.next(), self.since == 0, |entry| self.held.contains_key(&entry.object));
        }
        Ok(())
    }

    /// Of those that were used, who survives, by its place. Who is in memory needs no read.
    fn survivors(&self, mut used: Vec<(Place, Held)>) -> Vec<(Place, Held)> {
        let density = |held: &Held, place: &Place| f64::from(held.uses) / place.length() as f64;
        used.sort_by(|(one, held), (other, beside)| density(beside, other).total_cmp(&density(held, one)));
        let share = match self.parts.survivors {
            Survivors::Densest(share) => share,
            _ => MOST_SURVIVORS,
        };
        let mut left = (self.segments.bytes() as f64 * share) as u64;
        used.retain(|(place, held)| {
            let bytes = place.length();
            let survives = match (self.parts.survivors, self.parts.again) {
                (Survivors::Densest(_), _) => true,
                (Survivors::None, Again::Never) => false,
                (Survivors::None, _) if !held.in_memory || self.parts.when == When::Used => false,
                _ => self.worth.pays(held.uses, bytes, 1.0),
            };
            let fits = survives && bytes <= left;
            left -= if fits { bytes } else { 0 };
            fits
        });
        used.sort_by_key(|(place, _)| place.begin());
        used
    }

    /// Reads an object that is held, with what lies beside it.
    fn read(&mut self, medium: &mut dyn Medium, object: u64) -> Result<(), Failed> {
        let Some(Held { version, places, .. }) = self.held.get(&object) else { return Ok(()) };
        let (version, places) = (*version, places.clone());
        let window = if places.len() == 1 { self.parts.window } else { 0 };
        let Log { segments, held, beside, .. } = self;
        for place in places {
            segments.read(medium, &version.object, &place, window, |entry| {
                let held = held.get_mut(&entry.object)?;
                if held.in_memory || held.places[..] != [entry.place] {
                    return None;
                }
                held.in_memory = true;
                beside.push(held.version);
                Some(held.version.object)
            })?;
        }
        Ok(())
    }

    fn group(&self, access: &Access) -> u64 {
        match self.parts.order {
            Order::Arrival => 0,
            Order::Server => access.server,
            Order::Session(seconds) => mix(access.client) ^ (access.time / (seconds * 1_000_000)),
        }
    }
}

impl Frequency {
    fn count(&mut self, object: u64) {
        let count = self.counts.entry(object).or_default();
        *count = (*count + 1).min(15);
    }

    fn look(&mut self, victims: &[Entry], halve: bool, is_held: impl Fn(&Entry) -> bool) {
        if halve {
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
        }
        let (mut counts, mut bytes) = (0, 0);
        for entry in victims.iter().filter(|entry| is_held(entry)) {
            counts += u64::from(self.counts.get(&entry.object).copied().unwrap_or(0));
            bytes += entry.place.length();
        }
        self.victim = counts as f64 / bytes.max(1) as f64;
    }
}

impl Storage for Log {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.segments.prepare(medium)
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        self.beside.clear();
        self.segments.flush(medium, false)?;
        if let Admission::Frequency = self.parts.admission {
            self.frequency.count(access.object);
        }
        if let Some(held) = self.held.get_mut(&access.object).filter(|held| held.version.answers(access)) {
            let bytes = record(held.version.object.size);
            match (held.uses, held.again) {
                (0, false) => self.worth.came_back(bytes),
                (_, true) => self.worth.hit_again(bytes),
                _ => {}
            }
            let age = held.places.first().map_or(0.0, |place| self.segments.age(place));
            if is_in_tail(age) && self.recent.is_first(access.object, bytes) {
                self.worth.hit_in_tail(bytes);
            }
            (held.uses, held.in_memory) = ((held.uses + 1).min(MOST_USES), true);
            self.read(medium, access.object)?;
            if self.parts.when == When::Used {
                self.write_again(medium, access.object)?;
            }
            return Ok(Outcome::Hit);
        }
        self.held.remove(&access.object);
        if !self.takes(access.size) {
            return Ok(Outcome::Passed);
        }
        let version = Version::of(access);
        let bytes = record(access.size);
        let before = self.recent.take(access.object, bytes);
        if before == Some(0) {
            self.worth.came_back(bytes);
        }
        let uses = before.map_or(0, |uses| (uses + 1).min(MOST_USES));
        if self.admits(&version.object, uses) {
            self.append(medium, version, self.group(access), (uses, uses > 0), true)?;
            return Ok(Outcome::Stored);
        }
        if uses > 0 || self.parts.when == When::Used {
            self.recent.put(access.object, bytes, uses);
        }
        Ok(Outcome::Passed)
    }

    fn used(&mut self, medium: &mut dyn Medium, access: &Access, uses: u32) -> Result<(), Failed> {
        let object = access.object;
        if let Admission::Frequency = self.parts.admission {
            self.frequency.count(object);
        }
        if let Some(held) = self.held.get_mut(&object) {
            held.uses = (held.uses + 1).min(MOST_USES);
        }
        let counts = uses <= MOST_USES.into() || uses.is_multiple_of(SELDOM);
        if self.parts.when == When::Leaving || !counts || !self.takes(access.size) {
            return Ok(());
        }
        if self.held.contains_key(&object) {
            return self.write_again(medium, object);
        }
        let bytes = record(access.size);
        let before = if uses == 1 { self.recent.take(object, bytes) } else { self.recent.uses(object) };
        let all = before.map_or(0, |before| before + 1).max(uses.min(MOST_USES.into()) as u8).min(MOST_USES);
        let version = Version::of(access);
        if all >= ENOUGH_USES && self.admits(&version.object, all) {
            self.recent.take(object, bytes);
            return self.append(medium, version, self.group(access), (all, true), true);
        }
        self.recent.put(object, bytes, all);
        Ok(())
    }

    fn evicted(&mut self, medium: &mut dyn Medium, version: &Version, uses: u32) -> Result<(), Failed> {
        let object = &version.object;
        if let Some(held) = self.held.get_mut(&object.id) {
            held.in_memory = false;
            return match self.parts.when {
                When::Leaving => self.write_again(medium, object.id),
                When::Used => Ok(()),
            };
        }
        if self.parts.when == When::Used || !self.takes(object.size) {
            return Ok(());
        }
        let bytes = record(object.size);
        let before = self.recent.take(object.id, bytes).unwrap_or(0);
        let now = uses.min(MOST_USES.into()) as u8;
        let all = (now + before).min(MOST_USES);
        if now > 0 && self.admits(object, all) {
            return self.append(medium, *version, object.server, (all, true), false);
        }
        self.recent.put(object.id, bytes, all);
        Ok(())
    }

    fn neighbours(&mut self, take: &mut dyn FnMut(Version)) {
        self.beside.drain(..).for_each(take);
    }

    fn finish(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.segments.flush(medium, true)
    }

    fn begin_notes(&mut self) {
        self.counts = Counts::default();
    }

    fn notes(&self) -> Notes {
        let Counts { again, survivors, survivor_seconds } = self.counts;
        Notes::from([
            ("bytes_again_from_memory".into(), again as f64),
            ("bytes_of_survivors".into(), survivors as f64),
            ("seconds_at_survivors".into(), survivor_seconds),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Counted;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};

    /// 64 segments of 64 KiB.
    const SPACE: u64 = 4 << 20;
    const ALL: Parts = Parts {
        admission: Admission::All,
        again: Again::Never,
        when: When::Leaving,
        memory: Memory::Exact,
        survivors: Survivors::None,
        order: Order::Arrival,
        window: 0,
        segment: 1 << 20,
    };

    fn access(object: u64, size: u64) -> Access {
        Access { object, server: object % 7, size, modified: 1, ..Access::default() }
    }

    fn ask(log: &mut Log, medium: &mut dyn Medium, object: u64, size: u64) -> Outcome {
        let outcome = log.get(medium, &access(object, size)).unwrap();
        log.neighbours(&mut |_| {});
        outcome
    }

    /// Asks, and the object leaves memory, where it was used so often.
    fn pass(log: &mut Log, medium: &mut dyn Medium, object: u64, size: u64, uses: u32) -> Outcome {
        let outcome = ask(log, medium, object, size);
        log.evicted(medium, &Version::of(&access(object, size)), uses).unwrap();
        outcome
    }

    fn with(parts: Parts, test: impl FnOnce(&mut Log, &mut Counted)) {
        let (mut log, mut ufs) = (Log::new(SPACE, parts), FileSystem::new(ST15150W, ULTRA_1));
        log.prepare(&mut ufs).unwrap();
        test(&mut log, &mut Counted::new(&mut ufs));
    }

    #[test]
    fn the_log_goes_round_and_nothing_stays_in_place() {
        with(ALL, |log, medium| {
            let mut missed = 0;
            for object in 0..1500 {
                assert_eq!(pass(log, medium, 1 + object, 8000, 0), Outcome::Stored);
                missed += u64::from(pass(log, medium, 0, 8000, 0) == Outcome::Stored);
            }
            assert_eq!(missed, 4, "each lap once, however often it was used");
            let bytes: u64 = log.held.values().map(|held| held.places[0].length()).sum();
            assert!(bytes * 20 > SPACE * 17, "{bytes} bytes in use");
        });
    }

    #[test]
    fn a_large_object_lies_in_what_segments_have_left() {
        with(ALL, |log, medium| {
            for object in 0..40 {
                assert_eq!(ask(log, medium, object, 300_000 + object), Outcome::Stored);
                assert_eq!(ask(log, medium, object, 300_000 + object), Outcome::Hit);
            }
            let bytes: u64 = log.held.values().flat_map(|held| &held.places).map(Place::length).sum();
            assert!(bytes * 20 > SPACE * 17, "{bytes} bytes in use");
            assert_eq!(ask(log, medium, 99, SPACE), Outcome::Passed, "larger than the log");
            assert!(
                log.held.values().all(|held| held.places.iter().map(|place| place.upto()).max()
                    == Some(held.version.object.size))
            );
        });
    }

    /// Small objects come back at any age, large ones do not.
    #[test]
    fn who_does_not_come_back_is_turned_away_by_its_size() {
        with(PRICED, |log, medium| {
            let mut stored = [0, 0];
            for nth in 1..6_000u64 {
                let large = pass(log, medium, 1_000_000 + nth, 20_000, 0);
                let small = pass(log, medium, nth, 1_000, 0);
                pass(log, medium, nth - 1 - nth * 7919 % nth.min(3_000), 1_000, 0);
                if nth > 3_000 {
                    stored[0] += u64::from(small == Outcome::Stored);
                    stored[1] += u64::from(large == Outcome::Stored);
                }
            }
            assert!(stored[0] > 1_900 && stored[1] < 300, "{stored:?}");
        });
    }

    #[test]
    fn what_was_turned_away_and_used_is_written_when_it_leaves_memory() {
        with(Parts { admission: Admission::UpTo(0), ..ALL }, |log, medium| {
            for object in 0..700 {
                pass(log, medium, object, 8000, 0);
            }
            assert!(log.lapped);
            assert_eq!(pass(log, medium, 10_000, 8000, 1), Outcome::Passed);
            assert_eq!(pass(log, medium, 10_000, 8000, 0), Outcome::Hit, "used in memory");
            assert_eq!(pass(log, medium, 10_001, 8000, 0), Outcome::Passed);
            assert_eq!(pass(log, medium, 10_001, 8000, 0), Outcome::Stored, "it came back");
            assert_eq!(pass(log, medium, 10_001, 8000, 0), Outcome::Hit);
        });
    }

    /// One object is used whenever the log has come on by three quarters.
    #[test]
    fn what_is_used_is_written_again_and_costs_no_read() {
        for (again, stays) in [(Again::Never, false), (Again::Oldest(0.4), true), (Again::Priced, true)] {
            with(Parts { again, ..ALL }, |log, medium| {
                let mut hits = Vec::new();
                for nth in 0..4_000u64 {
                    pass(log, medium, 1_000 + nth, 8000, 0);
                    if nth % 330 == 0 {
                        hits.push(pass(log, medium, 1, 8000, 0) == Outcome::Hit);
                    }
                }
                // Of the first lap nothing is written again.
                assert_eq!(hits[3..].iter().all(|hit| *hit), stays, "{hits:?}");
                assert_eq!(log.counts.survivors, 0);
                assert_eq!(log.counts.again > 0, stays);
            });
        }
    }

    const PRICED: Parts = Parts { admission: Admission::Priced, again: Again::Priced, ..ALL };
    const USED: Parts = Parts { when: When::Used, memory: Memory::Filters, ..PRICED };

    /// A quarter of the log, every fiftieth request from when the log has lapped, among small ones of which half come back.
    #[test]
    fn a_large_object_that_is_asked_for_again_and_again_stays() {
        for parts in [PRICED, Parts { memory: Memory::Filters, ..PRICED }, USED] {
            with(parts, |log, medium| {
                let mut hits = [0, 0];
                for nth in 1..20_000u64 {
                    let small = if nth % 2 == 0 { nth } else { nth - nth * 7919 % nth.min(1_000) };
                    let hit = pass(log, medium, small, 2_000, 0) == Outcome::Hit;
                    hits[0] += u64::from(hit && nth > 10_000);
                    if nth % 50 == 0 && log.lapped {
                        let hit = pass(log, medium, 1_000_000, SPACE / 4, 0) == Outcome::Hit;
                        hits[1] += u64::from(hit && nth > 10_000);
                    }
                }
                assert!(hits[0] > 2_500, "{hits:?} of 5,000 that come back");
                assert!(hits[1] > 190, "{hits:?} of 200");
            });
        }
    }

    /// One is used in memory all the time, another one is not on the disk, and a third one is read from it.
    #[test]
    fn what_is_used_is_written_at_its_use() {
        with(USED, |log, medium| {
            let hot = access(1, 8000);
            pass(log, medium, 1, 8000, 0);
            let mut used = 0;
            let mut next = 10;
            while !log.lapped || next % 1_000 != 0 {
                pass(log, medium, next, 8000, 0);
                next += 1;
                if next % 20 == 0 {
                    used += 1;
                    log.used(medium, &hot, used).unwrap();
                }
            }
            assert!(log.held.contains_key(&1), "it would have been overwritten");
            let again = log.counts.again;
            assert!((record(8000)..=4 * record(8000)).contains(&again), "{again} bytes");
            log.held.remove(&2);
            let late = access(2, 8000);
            log.used(medium, &late, 1).unwrap();
            assert!(!log.held.contains_key(&2), "one use in memory says little");
            log.used(medium, &late, 2).unwrap();
            assert!(log.held.contains_key(&2));
            log.evicted(medium, &Version::of(&access(3, 8000)), 3).unwrap();
            assert!(
                !log.held.contains_key(&3) && log.recent.uses(3).is_none(),
                "who leaves memory is not looked at"
            );
        });
    }

    #[test]
    fn survivors_are_read_before_they_are_overwritten() {
        with(Parts { survivors: Survivors::Densest(0.15), ..ALL }, |log, medium| {
            for nth in 0..1_500u64 {
                ask(log, medium, 1_000 + nth, 8000);
                log.evicted(medium, &Version::of(&access(1_000 + nth, 8000)), 0).unwrap();
                if nth % 200 == 0 {
                    pass(log, medium, 1, 8000, 0);
                    assert_eq!(pass(log, medium, 1, 8000, 0), Outcome::Hit);
                }
            }
            assert_eq!(log.counts.survivors, 3 * record(8000), "once a lap");
            assert!(log.counts.survivor_seconds > 0.0);
        });
    }

    #[test]
    fn what_lies_beside_a_hit_comes_along_once() {
        with(Parts { window: 32 << 10, ..ALL }, |log, medium| {
            (0..700).for_each(|object| assert_ne!(pass(log, medium, object, 3000, 0), Outcome::Passed));
            assert_eq!(log.get(medium, &access(300, 3000)), Ok(Outcome::Hit));
            let mut beside = Vec::new();
            log.neighbours(&mut |version| beside.push(version.object.id));
            assert!(
                (7..=9).contains(&beside.len()) && beside.iter().all(|id| id.abs_diff(300) < 9),
                "{beside:?}"
            );
            assert_eq!(log.get(medium, &access(301, 3000)), Ok(Outcome::Hit));
            log.neighbours(&mut |version| assert!(!beside.contains(&version.object.id), "it is in memory"));
        });
    }

    #[test]
    fn a_segment_is_sorted_by_server() {
        with(Parts { order: Order::Server, ..ALL }, |log, medium| {
            let mut next = 0;
            while log.segments.next().is_empty() {
                ask(log, medium, next, 500 + next % 900);
                next += 1;
            }
            let servers: Vec<u64> = log.segments.next().iter().map(|entry| entry.object % 7).collect();
            assert!(servers.is_sorted() && servers.len() > 20, "{servers:?}");
            let held: Vec<u64> = log.held.keys().copied().collect();
            held.into_iter().for_each(|id| assert_eq!(ask(log, medium, id, 500 + id % 900), Outcome::Hit));
        });
    }

    #[test]
    fn writes_are_whole_segments_but_for_what_is_open_for_a_second() {
        with(ALL, |log, medium| {
            (0..64).for_each(|object| assert_ne!(ask(log, medium, object, 8000), Outcome::Passed));
            let writes = medium.operations.0["write"];
            assert!((8..=12).contains(&writes), "{writes}");
            let began = medium.seconds();
            while medium.seconds() < began + 1.1 {
                medium.exists(crate::medium::ROOT, 0).unwrap();
            }
            ask(log, medium, 0, 8000);
            assert_eq!(medium.operations.0["write"], writes + 1);
        });
    }
}
