//! What each disk of a set remembers of the set, before the purges in its ledger: since when which disks are in it. By that a start
//! knows which of them missed changes that others took.
//!
//! With each start, and each time that a disk is left or comes back, the set enters another *epoch*, which those that are in it write down. A disk that serves
//! takes part in all changes of the epoch. So:
//!
//! - A disk that has the newest epoch missed nothing.
//! - Nor did a disk that the newest record counts among the set's, and that has the epoch before: a kill came while the record was
//!   written. No change belonged to the new epoch before, but those of the last flush interval.
//! - Once all of these have written the record they write that it is *settled*. Who has the epoch before then is an older copy.
//! - Any other disk may have missed what was removed or replaced, and begins anew, unless nothing was ever on it.
//!
//! A cache that was always alone has no record; nobody else knows of its epoch. What only a disk that is gone knew is gone with it.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ordered by time. A number by chance tells apart those that two sets began without each other; its upper half stays the set's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch {
    number: u64,
    chance: u64,
}

/// Of a chance, what is not the set's.
const OF_EPOCH: u64 = u32::MAX as u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub epoch: Epoch,
    /// The one before.
    pub from: Epoch,
    /// The identities of the disks that are in the set, in order.
    pub members: Vec<u64>,
    /// All of them have written that they are.
    pub settled: bool,
}

/// The first byte of a ledger that begins with a record; no purges begin with it.
const TAG: u8 = 0x53;
/// Beside the number of members.
const SETTLED: u8 = 0x80;

impl Record {
    /// What a cache without one stands for.
    pub fn of_one(identity: u64) -> Record {
        let epoch = Epoch { number: 0, chance: identity };
        Record { epoch, from: epoch, members: vec![identity], settled: false }
    }

    /// What comes after it, with these disks.
    pub fn next(&self, mut members: Vec<u64>) -> Record {
        members.sort_unstable();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let epoch = Epoch {
            number: now.max(self.epoch.number.saturating_add(1)),
            chance: self.epoch.chance & !OF_EPOCH | RandomState::new().hash_one(now) & OF_EPOCH,
        };
        Record { epoch, from: self.epoch, members, settled: false }
    }

    /// Whether a disk with another record missed nothing.
    pub fn admits(&self, identity: u64, other: &Record) -> bool {
        let may_lack_it = !self.settled && self.members.contains(&identity);
        other.epoch == self.epoch || may_lack_it && other.epoch == self.from
    }

    /// Whether what another record stands for went on without this one's disks.
    pub fn knows_not(&self, other: &Record) -> bool {
        other.epoch.number > self.from.number && other.epoch != self.epoch
    }

    /// A ledger: it, and the purges.
    pub fn encode(&self, purges: &[u8]) -> Vec<u8> {
        let numbers = [self.epoch.number, self.epoch.chance, self.from.number, self.from.chance];
        let settled = if self.settled { SETTLED } else { 0 };
        let mut out = vec![TAG, settled | self.members.len() as u8];
        for number in numbers.iter().chain(&self.members) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(purges);
        out
    }

    /// The record at the beginning of a ledger, if it has one, and the purges behind it; `None` where that is cut short.
    pub fn split(ledger: &[u8]) -> Option<(Option<Record>, &[u8])> {
        let Some(rest) = ledger.strip_prefix(&[TAG]) else { return Some((None, ledger)) };
        let (first, mut rest) = rest.split_first()?;
        let (count, settled) = (first & !SETTLED, first & SETTLED > 0);
        let mut number = || {
            let (bytes, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(u64::from_le_bytes(*bytes))
        };
        let mut epoch = || Some(Epoch { number: number()?, chance: number()? });
        let (epoch, from) = (epoch()?, epoch()?);
        let members = (0..count).map(|_| number()).collect::<Option<_>>()?;
        Some((Some(Record { epoch, from, members, settled }), rest))
    }
}

/// What a cache knows of the set of disks that it was in last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// When these disks became the set, milliseconds since 1970, about.
    pub since: u64,
    /// Their identities.
    pub members: Vec<u64>,
}

impl Membership {
    /// Of a cache's ledger; `None` where it was always alone.
    pub fn of(ledger: &[u8]) -> Option<Membership> {
        let (record, _) = Record::split(ledger)?;
        record.map(|Record { epoch, members, .. }| Membership { since: epoch.number, members })
    }
}

/// What a start found on one disk.
#[derive(Clone, Debug)]
pub struct Found {
    pub identity: u64,
    /// Nothing was ever on it.
    pub blank: bool,
    pub record: Record,
    /// The newest purge that it knows of.
    pub newest_purge: u64,
    pub size: u64,
}

/// The record that counts, if any disk was ever used: the newest, also of a disk that was in a set before anything was put on it, if that is the
/// set of one that was used. Of caches that were alone the one that knows the newest purge counts, then the largest. It is settled if one disk knows that.
pub fn leader(found: &[Found]) -> Option<Record> {
    let rank = |one: &&Found| {
        let Epoch { number, chance } = one.record.epoch;
        (number, one.newest_purge, one.size, chance)
    };
    let set = |one: &Found| one.record.epoch.chance & !OF_EPOCH;
    let used: Vec<u64> = found.iter().filter(|one| !one.blank).map(set).collect();
    let leads = |one: &&Found| {
        let knows = one.record.epoch.number > 0 && (used.is_empty() || used.contains(&set(one)));
        !one.blank || knows
    };
    let newest = &found.iter().filter(leads).max_by_key(rank)?.record;
    let settled = found.iter().any(|one| one.record.settled && one.record.epoch == newest.epoch);
    Some(Record { settled, ..newest.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(identity: u64, record: &Record) -> Found {
        Found { identity, blank: false, record: record.clone(), newest_purge: 0, size: 1 }
    }

    #[test]
    fn a_record_survives_its_encoding_and_a_ledger_without_one_is_as_it_was() {
        let record = Record::of_one(7).next(vec![9, 7]);
        assert_eq!(record.members, [7, 9]);
        let ledger = record.encode(b"purges");
        assert_eq!(Record::split(&ledger), Some((Some(record.clone()), &b"purges"[..])));
        for end in 1..ledger.len() - b"purges".len() {
            assert_eq!(Record::split(&ledger[..end]), None, "{end}");
        }
        for plain in [&b""[..], b"\x06", b"\xff"] {
            assert_eq!(Record::split(plain), Some((None, plain)));
        }
        let settled = Record { settled: true, ..record.clone() };
        assert_eq!(Record::split(&settled.encode(&[])), Some((Some(settled.clone()), &[][..])));
        let at: Vec<usize> =
            (0..ledger.len()).filter(|at| settled.encode(b"purges")[*at] != ledger[*at]).collect();
        assert_eq!((at, ledger[1], settled.encode(&[])[1]), (vec![1], 2, 0x82));
        let many = Record { members: (0..64).collect(), settled: true, ..record };
        assert!(many.encode(&[]).len() + cache::Purges::MAX <= store::LEDGER_MAX);
    }

    #[test]
    fn a_disk_that_was_left_is_known_by_those_that_went_on() {
        let first = Record::of_one(1).next(vec![1, 2]);
        let without = first.next(vec![1]);
        let all = [found(1, &without), found(2, &first)];
        let newest = leader(&all).unwrap();
        assert_eq!(newest, without);
        assert!(newest.admits(1, &without) && !newest.admits(2, &first) && !newest.knows_not(&first));
        // It had the present record, and came back in vain: nobody knows more than those that went on.
        let next = without.next(vec![1]);
        assert!(next.admits(1, &without) && !next.admits(2, &without) && !next.knows_not(&without));
        // It came back, and one of the two does not know yet.
        let again = without.next(vec![1, 2]);
        assert!(again.admits(1, &without) && again.admits(2, &again) && !again.admits(2, &first));
    }

    #[test]
    fn a_kill_while_a_record_is_written_costs_nothing() {
        let alone = Record::of_one(1);
        let two = alone.next(vec![1, 2]);
        assert!(two.admits(1, &alone) && two.admits(2, &two));
        assert!(!two.admits(3, &Record::of_one(3)), "another that was alone");
    }

    #[test]
    fn what_has_the_epoch_before_a_settled_one_is_an_older_copy() {
        let first = Record::of_one(1).next(vec![1, 2]);
        let second = first.next(vec![1, 2]);
        let settled = Record { settled: true, ..second.clone() };
        assert!(!settled.admits(2, &first) && settled.admits(2, &second));
        // One of them is enough, whatever the others know.
        for all in [[found(1, &settled), found(2, &second)], [found(1, &second), found(2, &settled)]] {
            assert_eq!(leader(&all), Some(settled.clone()));
        }
        let older = Record { settled: true, ..first };
        assert!(!leader(&[found(1, &older), found(2, &second)]).unwrap().settled, "another epoch");
    }

    #[test]
    fn of_sets_that_went_apart_the_later_one_counts_and_knows_not_of_the_other() {
        let both = Record::of_one(1).next(vec![1, 2]);
        let (left, right) = (both.next(vec![1]), both.next(vec![2]));
        let all = [found(1, &left), found(2, &right)];
        let newest = leader(&all).unwrap();
        let other = if newest == left { &right } else { &left };
        assert!(!newest.admits(1, other) && !newest.admits(2, other) && newest.knows_not(other));
    }

    #[test]
    fn what_is_blank_leads_nobody_and_of_those_that_were_alone_one_does() {
        let (one, two) = (Record::of_one(1), Record::of_one(2));
        let blank = Found { blank: true, size: 9, ..found(2, &two) };
        assert_eq!(leader(&[found(1, &one), blank.clone()]), Some(one.clone()));
        assert_eq!(leader(&[blank]), None);
        let joined = one.next(vec![1, 2]);
        let knows = Found { blank: true, ..found(2, &joined) };
        assert_eq!(leader(&[found(1, &one), knows]), Some(joined.clone()), "it knows who is in the set");
        let elsewhere =
            Found { blank: true, ..found(3, &Record::of_one(3 << 32).next(vec![3, 4]).next(vec![3])) };
        let set = [found(1, &joined), found(2, &joined)];
        assert_eq!(leader(&[&set[..], std::slice::from_ref(&elsewhere)].concat()), Some(joined.clone()));
        assert_eq!(leader(std::slice::from_ref(&elsewhere)), Some(elsewhere.record));
        let larger = Found { size: 9, ..found(2, &two) };
        assert_eq!(leader(&[larger.clone(), found(1, &one)]), Some(two.clone()));
        assert!(!one.knows_not(&two) && !two.knows_not(&one), "nobody knows who was later");
        let purged = Found { newest_purge: 5, ..found(1, &one) };
        assert_eq!(leader(&[larger, purged]), Some(one.clone()));
    }
}
