//! A digest: the last events of some stretch of the log, one for each key, in the order of the keys' hashes. A start loads the
//! index from digests part by part, instead of reading every segment's table.
//!
//! It consists of records in the log: pages of 255 events, at most 64 pages a record, and one record that says what it is and where they
//! lie. Each page has a checksum of its own, so that some of them can be read alone.

use super::record::{self, About, Kind, Record};
use super::root::DigestAt;
use super::{Fields, Put};
use crate::Key;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const PAGE: usize = 4096;
const HEADER: usize = 16;
const ENTRY: usize = 16;
/// Events of a page.
pub const EVENTS: usize = (PAGE - HEADER) / ENTRY;
/// Pages of one record, at most.
pub const PAGES: usize = 64;
/// Steps of the directory in a digest's own record, at most: its length has a bound.
const STEPS: usize = 4096;
/// Bytes before the places in a digest's own record, and of its header and key, rounded up.
const FIXED: usize = 32;
const RECORD: usize = 256;
const UNITS_BITS: u32 = 24;

/// Pages of one record in segments of so many bytes, of which a record takes half at most.
pub fn pages_each(segment: usize) -> usize {
    (segment / 2).saturating_sub(page_at(0)).div_euclid(PAGE).clamp(1, PAGES)
}

/// What became of a key: a record was put, or it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The key's mixed hash.
    pub hash: u64,
    /// Place, then length in units in the lower 24 bits; 0: removed.
    word: u64,
}

impl Event {
    pub fn put(hash: u64, place: u64, units: u32) -> Event {
        debug_assert!((1..1 << (64 - UNITS_BITS)).contains(&place) && (1..1 << UNITS_BITS).contains(&units));
        Event { hash, word: place << UNITS_BITS | u64::from(units) }
    }
    pub fn removal(hash: u64) -> Event {
        Event { hash, word: 0 }
    }
    /// `None` for a word that neither of the above makes.
    fn of(hash: u64, word: u64) -> Option<Event> {
        let event = Event { hash, word };
        event.record().is_none_or(|(place, units)| place > 0 && units > 0).then_some(event)
    }
    /// Place and length in units; `None`: it was removed.
    pub fn record(&self) -> Option<(u64, u32)> {
        (self.word != 0).then_some((self.word >> UNITS_BITS, (self.word & ((1 << UNITS_BITS) - 1)) as u32))
    }
}

/// The last event of each key, in the order of hashes; they come in the order in which they happened.
pub fn last_of_each(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|event| event.hash);
    // Stable: of one key the last one stays.
    events.reverse();
    events.dedup_by_key(|event| event.hash);
    events.reverse();
    events
}

/// The body of a record of pages: at most `PAGES * EVENTS` events.
pub fn encode_pages(identity: u64, events: &[Event]) -> Vec<u8> {
    let mut bytes = vec![0; events.len().div_ceil(EVENTS) * PAGE];
    for (events, page) in events.chunks(EVENTS).zip(bytes.chunks_exact_mut(PAGE)) {
        let mut put = Put(page, 8);
        put.u64(events.len() as u64);
        events.iter().for_each(|event| {
            put.u64(event.hash).u64(event.word);
        });
        let sum = xxh3_64_with_seed(&page[8..], identity);
        page[..8].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// The events of one page; `None` when it is damaged, or has what no event is.
pub fn decode_page(identity: u64, page: &[u8]) -> Option<impl Iterator<Item = Event>> {
    let page = page.get(..PAGE)?;
    let mut fields = Fields(page);
    let (sum, count) = (fields.u64(), fields.u64());
    let valid = sum == xxh3_64_with_seed(&page[8..], identity) && count <= EVENTS as u64;
    let events = page[HEADER..].chunks_exact(ENTRY).take(count as usize).map(|bytes| {
        let mut fields = Fields(bytes);
        Event::of(fields.u64(), fields.u64())
    });
    (valid && events.clone().all(|event| event.is_some())).then(|| events.flatten())
}

/// What a digest is, and where its pages lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Events in all.
    pub events: u64,
    /// Of each record of pages.
    pub places: Vec<u64>,
    /// Pages of one step of the directory.
    step: u64,
    /// Pages of each record of pages but the last.
    each: u64,
    /// The first hash of each step.
    firsts: Vec<u64>,
}

impl Head {
    /// Of these events, whose pages lie in records at `places`, in segments of so many bytes.
    pub fn new(events: &[Event], places: Vec<u64>, segment: usize) -> Head {
        let pages = events.len().div_ceil(EVENTS);
        let room = (segment / 2).saturating_sub(RECORD) / 8;
        let step = pages.div_ceil(room.saturating_sub(places.len()).clamp(1, STEPS)).max(1);
        let firsts = events.iter().step_by(EVENTS * step).map(|event| event.hash).collect();
        let each = pages_each(segment) as u64;
        Head { events: events.len() as u64, places, step: step as u64, each, firsts }
    }

    pub fn pages(&self) -> u64 {
        self.events.div_ceil(EVENTS as u64)
    }

    /// The pages that may have events of keys with these hashes, both included.
    pub fn pages_of(&self, first: u64, last: u64) -> Range<u64> {
        // A key's events lie in one step, but that may begin before `first`.
        let from = self.firsts.partition_point(|hash| *hash <= first).saturating_sub(1) as u64;
        let to = self.firsts.partition_point(|hash| *hash <= last) as u64;
        let pages = self.pages();
        (from * self.step).min(pages)..(to * self.step).min(pages)
    }

    /// Where a page lies: the number of its record, and which of its pages it is.
    pub fn record_of(&self, page: u64) -> (usize, u64) {
        ((page / self.each) as usize, page % self.each)
    }

    /// Pages of a record.
    pub fn pages_in(&self, record: usize) -> u64 {
        (self.pages() - record as u64 * self.each).min(self.each)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; FIXED + 8 * (self.places.len() + self.firsts.len())];
        let mut put = Put(&mut bytes, 0);
        put.u64(self.events).u64(self.step).u64(self.each);
        put.u32(self.places.len() as u32).u32(self.firsts.len() as u32);
        self.places.iter().chain(&self.firsts).for_each(|n| {
            put.u64(*n);
        });
        bytes
    }

    /// `None` for bytes that `encode` does not make.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let mut fields = Fields(bytes.get(..FIXED)?);
        let (events, step, each) = (fields.u64(), fields.u64(), fields.u64());
        let (places, firsts) = (fields.u32() as usize, fields.u32() as usize);
        let numbers = &bytes[FIXED..];
        if numbers.len() != 8 * (places + firsts)
            || step == 0
            || firsts > STEPS
            || !(1..=PAGES as u64).contains(&each)
        {
            return None;
        }
        let mut numbers = numbers.chunks_exact(8).map(|n| Fields(n).u64());
        let places: Vec<u64> = numbers.by_ref().take(places).collect();
        let firsts: Vec<u64> = numbers.collect();
        let head = Head { events, places, step, each, firsts };
        let pages = head.pages();
        let sane = pages.div_ceil(each) == head.places.len() as u64
            && pages.div_ceil(step) == head.firsts.len() as u64
            && head.firsts.is_sorted();
        sane.then_some(head)
    }
}

/// Under which a digest's record of pages with this number lies.
pub fn pages_key(from: u64, number: u32) -> Key {
    Key::new([&b"digest"[..], &from.to_le_bytes(), &number.to_le_bytes()].concat())
}

/// Under which the digest's own record lies.
pub fn head_key(from: u64) -> Key {
    Key::new([&b"digest"[..], &from.to_le_bytes()].concat())
}

/// Bytes of a record of so many pages, one at least.
pub fn pages_size(pages: u64) -> usize {
    page_at(pages - 1) + PAGE
}

/// Where the page with this number among those of its record lies within it.
pub fn page_at(page: u64) -> usize {
    record::HEADER + b"digest".len() + 8 + 4 + page as usize * PAGE
}

/// A record of pages or a digest's own, ready to be put.
pub fn record<'a>(
    identity: u64,
    kind: Kind,
    key: &'a Key,
    written: u64,
    body: &'a [u8],
) -> Option<Record<'a>> {
    let about = About { kind, id: 0, length: body.len() as u64, span: 0, written };
    Record::new(identity, about, key.bytes(), &[], body)
}

/// The head in the bytes that `at` names, if it is that digest's.
pub fn parse_head(identity: u64, at: &DigestAt, bytes: &[u8]) -> Option<Head> {
    let found = record::parse(identity, bytes)?;
    let ours = found.about.kind == Kind::Digest && bytes[found.key.clone()] == head_key(at.from).bytes()[..];
    ours.then(|| Head::decode(&bytes[found.body])).flatten()
}

/// The body of a digest's record of pages with this number, if these bytes are that.
pub fn parse_pages(identity: u64, at: &DigestAt, number: u32, bytes: &[u8]) -> Option<Vec<u8>> {
    let found = record::parse(identity, bytes)?;
    let key = pages_key(at.from, number);
    let ours = found.about.kind == Kind::Pages && bytes[found.key.clone()] == key.bytes()[..];
    ours.then(|| bytes[found.body].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(count: u64) -> Vec<Event> {
        let event = |n: u64| {
            let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if n.is_multiple_of(5) { Event::removal(hash) } else { Event::put(hash, n, n as u32 % 100 + 1) }
        };
        last_of_each((0..count).map(event).collect())
    }

    #[test]
    fn of_each_key_the_last_event_stays() {
        let event = |hash, place| Event::put(hash, place, 1);
        let all = vec![event(5, 1), event(3, 2), event(5, 3), Event::removal(3), event(9, 4), event(5, 2)];
        assert_eq!(last_of_each(all), [Event::removal(3), event(5, 2), event(9, 4)]);
    }

    #[test]
    fn pages_come_back_and_no_damaged_one_does() {
        let events = events(600);
        let bytes = encode_pages(7, &events);
        assert_eq!(bytes.len(), 3 * PAGE);
        let decoded: Vec<Event> = bytes.chunks(PAGE).flat_map(|p| decode_page(7, p).unwrap()).collect();
        assert_eq!(decoded, events);
        for at in (0..PAGE).step_by(13) {
            let mut torn = bytes[..PAGE].to_vec();
            torn[at] ^= 4;
            assert!(decode_page(7, &torn).is_none(), "byte {at}");
        }
    }

    #[test]
    fn what_no_event_is_spoils_its_page() {
        let events = events(3);
        for word in [1 << UNITS_BITS, 1, (1 << UNITS_BITS) - 1] {
            let mut page = encode_pages(7, &events);
            page[HEADER + 8..HEADER + 16].copy_from_slice(&u64::to_le_bytes(word));
            let sum = xxh3_64_with_seed(&page[8..], 7);
            page[..8].copy_from_slice(&sum.to_le_bytes());
            assert!(decode_page(7, &page).is_none(), "{word:#x}");
        }
    }

    #[test]
    fn a_whole_record_of_pages_is_as_long_as_is_said() {
        for pages in [1, 2, PAGES] {
            let (body, key) = (vec![0; pages * PAGE], pages_key(77, 3));
            let record = record(7, Kind::Pages, &key, 1, &body).unwrap();
            assert_eq!(record.size(64), pages_size(pages as u64).next_multiple_of(64));
        }
    }

    #[test]
    fn the_directory_leads_to_every_event() {
        for count in [0, 1, 255, 256, 70_000] {
            let events = events(count);
            let places = (0..events.len().div_ceil(EVENTS * PAGES) as u64).collect();
            let head = Head::new(&events, places, 1 << 20);
            let head = Head::decode(&head.encode()).unwrap();
            for (n, event) in events.iter().enumerate().step_by(7) {
                assert!(head.pages_of(event.hash, event.hash).contains(&((n / EVENTS) as u64)));
                let last = events[(n + 1000).min(events.len() - 1)].hash;
                let pages = head.pages_of(event.hash, last);
                assert!(pages.contains(&((n / EVENTS) as u64)) && pages.end - pages.start <= 6, "{pages:?}");
            }
            assert_eq!(head.pages_of(0, u64::MAX), 0..head.pages());
            let encoded = head.encode();
            assert!((0..encoded.len()).all(|cut| Head::decode(&encoded[..cut]).is_none()));
        }
    }
}
