//! A segment's table. A table of the input's entries survives its encoding, asks for as many bytes as it is long when it is
//! given fewer, is not another segment's, and no byte of it may change unnoticed. The input as a segment's end, with magic
//! and checksum put right, is refused or is what encoding it gives.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use store::format::record::Kind;
use store::format::table::{ENTRY, Entry, TRAILER, Table, Unreadable, size};
use store::format::{Layout, NUMBERS};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const SEGMENT: usize = 16 << 10;
const SEGMENTS: u64 = 20;
const IDENTITY: u64 = 77;
const CHECKED: usize = 40;
const EVENTS: [Kind; 4] = [Kind::Object, Kind::Head, Kind::Span, Kind::Removal];

fuzz_target!(|data: &[u8]| {
    written(data);
    forged(data);
});

fn written(data: &[u8]) {
    let layout = Layout::new(SEGMENT as u32, SEGMENTS, IDENTITY);
    let units = layout.segment / layout.unit;
    let mut input = Input::new(data);
    let (seq, first) = (input.u64() % NUMBERS, input.u64() % (NUMBERS - u64::from(u32::MAX)));
    let flip = usize::from(input.u16());
    let mut entries = Vec::new();
    while !input.is_empty() && size(entries.len() + 1) <= SEGMENT {
        let kind = EVENTS[usize::from(input.u8()) % EVENTS.len()];
        let (hash, order, offset) = (input.u64(), first + u64::from(input.u32()), input.u32() % units);
        let most = (units - offset).min(units / 2);
        entries.push(Entry { hash, offset, units: 1 + input.u32() % most, order, kind });
    }
    let length = size(entries.len());
    let table = Table { seq, first, entries };
    let mut image = vec![0x55; SEGMENT];
    table.encode(IDENTITY, &mut image);
    assert!(image[..SEGMENT - length].iter().all(|b| *b == 0x55), "nothing before the table is touched");

    let number = layout.number(seq);
    let read = |image: &[u8], length: usize| Table::decode(&layout, number, &image[SEGMENT - length..]);
    assert_eq!(read(&image, SEGMENT).as_ref(), Ok(&table));
    assert_eq!(read(&image, length), Ok(table));
    let cut = flip % length;
    let missing = if cut < TRAILER { TRAILER } else { length };
    assert_eq!(read(&image, cut), Err(Unreadable::Longer(missing)));
    let invalid = Err(Unreadable::Invalid);
    assert_eq!(Table::decode(&layout, (number + 1) % SEGMENTS, &image), invalid);
    assert_eq!(Table::decode(&Layout { identity: IDENTITY + 1, ..layout }, number, &image), invalid);
    // The trailer's last bytes are zeros that nobody reads.
    let at = SEGMENT - length + flip % (length - (TRAILER - CHECKED - 8));
    image[at] ^= 1 << (seq % 8);
    assert!(read(&image, SEGMENT).is_err(), "byte {at}");
}

fn forged(data: &[u8]) {
    let layout = Layout::new(SEGMENT as u32, SEGMENTS, IDENTITY);
    let Some(trailer_at) = data.len().checked_sub(TRAILER) else { return };
    let mut tail = data.to_vec();
    tail[trailer_at..trailer_at + 4].copy_from_slice(b"cSEG");
    let mut input = Input::new(&data[trailer_at + 4..]);
    let (count, seq, first) = (input.u32() as usize, input.u64(), input.u64());
    let from = trailer_at.saturating_sub(count.saturating_mul(ENTRY));
    let sum = xxh3_64_with_seed(&tail[from..trailer_at + CHECKED], IDENTITY);
    tail[trailer_at + CHECKED..trailer_at + CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
    match Table::decode(&layout, layout.number(seq), &tail) {
        Ok(read) => {
            assert!(read.entries.len() == count && read.seq == seq && read.first == first);
            for entry in &read.entries {
                let place = layout.place(layout.number(seq), entry.offset as usize * layout.unit as usize);
                assert!(layout.holds(place, entry.units as usize * layout.unit as usize));
                assert!(entry.kind.is_event() && (first..NUMBERS).contains(&entry.order));
            }
            let mut image = vec![0; SEGMENT];
            read.encode(IDENTITY, &mut image);
            assert_eq!(Table::decode(&layout, layout.number(seq), &image), Ok(read));
        }
        Err(Unreadable::Longer(length)) => assert!(length > tail.len() && length <= SEGMENT),
        Err(Unreadable::Invalid) => {
            const UNITS: u64 = SEGMENT as u64 / 64;
            let wrong = |entry: &[u8]| {
                let mut input = Input::new(&entry[8..]);
                let (offset, units) = (u64::from(input.u32()), u64::from(input.u32()));
                let order = first.saturating_add(u64::from(input.u32()));
                let event = Kind::of(input.u8()).is_some_and(Kind::is_event);
                units == 0 || units > UNITS / 2 || offset + units > UNITS || order >= NUMBERS || !event
            };
            let numbers = size(count) > SEGMENT || seq.max(first) >= NUMBERS;
            assert!(numbers || tail[from..trailer_at].chunks(ENTRY).any(wrong));
        }
    }
}
