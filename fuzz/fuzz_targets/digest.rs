//! A digest. Events of the input come back from pages and directory, which leads to each of them; of each key the last one
//! stays. The input as a page, with its checksum put right, is refused or is what encoding it gives; so is the input as a
//! digest's head, whose directory never leads out of its pages.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use store::format::digest::{
    EVENTS, Event, Head, PAGE, PAGES, decode_page, encode_pages, head_key, last_of_each, pages_each, parse_head, record,
};
use store::format::record::{HEADER, Kind};
use store::format::root::DigestAt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const IDENTITY: u64 = 77;

/// Bytes of the segments that digests lie in.
const SEGMENT: usize = 64 << 10;

fuzz_target!(|data: &[u8]| {
    written(data);
    forged_page(data);
    forged_head(data);
});

fn written(data: &[u8]) {
    let mut input = Input::new(data);
    let (flip, copies) = (usize::from(input.u16()), 1 + u64::from(input.u8()));
    let mut events = Vec::new();
    while !input.is_empty() {
        // Some keys twice; many of few bytes, so that there are several pages.
        let (hash, place, units) = (u64::from(input.u16()), u64::from(input.u16()), u32::from(input.u8()));
        for n in 0..copies {
            let hash = (hash << 48).wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            events.push(match units {
                0 => Event::removal(hash),
                _ => Event::put(hash, 1 + place, units << (n % 16)),
            });
        }
    }
    let last: BTreeMap<u64, Event> = events.iter().map(|event| (event.hash, *event)).collect();
    let events = last_of_each(events);
    assert!(events.iter().eq(last.values()));

    let mut pages = encode_pages(IDENTITY, &events);
    assert_eq!(pages.len(), events.len().div_ceil(EVENTS) * PAGE);
    let decoded = |page: &[u8]| decode_page(IDENTITY, page).map(Iterator::collect::<Vec<Event>>);
    let all: Vec<Event> = pages.chunks(PAGE).flat_map(|page| decoded(page).expect("a page")).collect();
    assert_eq!(all, events);
    if !pages.is_empty() {
        let at = flip % pages.len();
        let page = at / PAGE * PAGE;
        assert!(decode_page(IDENTITY + 1, &pages[page..]).is_none());
        assert_eq!(decoded(&pages[page..at]), None, "a page that is cut");
        pages[at] ^= 1 << (flip % 8);
        assert_eq!(decoded(&pages[page..]), None, "byte {at}");
    }

    let places = (0..events.len().div_ceil(EVENTS * pages_each(SEGMENT)) as u64).map(|n| 1 + n * 4099).collect();
    let head = Head::new(&events, places, SEGMENT);
    let bytes = head.encode();
    assert_eq!(Head::decode(&bytes).as_ref(), Some(&head));
    assert_eq!(Head::decode(&bytes[..flip % bytes.len()]), None);
    for (n, event) in events.iter().enumerate() {
        assert!(head.pages_of(event.hash, event.hash).contains(&((n / EVENTS) as u64)));
    }
    assert_eq!(head.pages_of(0, u64::MAX), 0..head.pages());

    let at = DigestAt { from: flip as u64, to: 0, first_seq: 0, last_seq: 0, place: 0, bytes: 0, partial: false };
    let key = head_key(at.from);
    let put = |kind| {
        let record = record(IDENTITY, kind, &key, 1, &bytes).expect("small enough");
        let mut image = vec![0; record.size(64)];
        record.copy_to(1, 2, &mut image);
        image
    };
    let mut image = put(Kind::Digest);
    assert_eq!(parse_head(IDENTITY, &at, &image), Some(head));
    assert_eq!(parse_head(IDENTITY, &DigestAt { from: at.from + 1, ..at }, &image), None, "another's");
    assert_eq!(parse_head(IDENTITY, &at, &put(Kind::Object)), None);
    let torn = flip % (HEADER + key.bytes().len() + bytes.len());
    image[torn] ^= 1 << (flip % 8);
    assert_eq!(parse_head(IDENTITY, &at, &image), None, "byte {torn}");
}

fn forged_page(data: &[u8]) {
    let mut page = data.to_vec();
    page.resize(PAGE, 0);
    let mut input = Input::new(&page[8..]);
    let count = input.u64();
    let words: Vec<u64> = (0..EVENTS).map(|_| (input.u64(), input.u64()).1).collect();
    let sum = xxh3_64_with_seed(&page[8..], IDENTITY);
    page[..8].copy_from_slice(&sum.to_le_bytes());
    let Some(events) = decode_page(IDENTITY, &page) else {
        let whole = |word: &u64| *word == 0 || word >> 24 > 0 && word & 0xff_ffff > 0;
        return assert!(count > EVENTS as u64 || !words[..count as usize].iter().all(whole));
    };
    let events: Vec<Event> = events.collect();
    assert_eq!(events.len() as u64, count);
    for event in &events {
        let made = event.record().map(|(place, units)| Event::put(event.hash, place, units));
        assert_eq!(made.unwrap_or(Event::removal(event.hash)), *event);
    }
    let again = encode_pages(IDENTITY, &events);
    let used = 16 + 16 * events.len();
    assert!(events.is_empty() || again[8..used] == page[8..used]);
}

fn forged_head(data: &[u8]) {
    let Some(head) = Head::decode(data) else { return };
    assert_eq!(head.encode(), data);
    assert!((0..head.places.len()).all(|n| (1..=PAGES as u64).contains(&head.pages_in(n))));
    let mut input = Input::new(data);
    let (a, b) = (input.u64(), u64::MAX - input.u64());
    for (first, last) in [(0, u64::MAX), (a.min(b), a.max(b)), (a, a)] {
        let pages = head.pages_of(first, last);
        assert!(pages.start <= pages.end && pages.end <= head.pages());
    }
}
