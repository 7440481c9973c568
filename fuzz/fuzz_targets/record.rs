//! A record. Made of the input's parts it survives its encoding, also with bytes behind it; every cut, every changed
//! byte, another identity are refused. The input itself, with magic and checksum put right, is refused or is what
//! encoding it gives.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use store::format::NUMBERS;
use store::format::record::{About, HEADER, Kind, MAGIC, Record, parse};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const IDENTITY: u64 = 77;
const CHECKED: usize = 56;

fuzz_target!(|data: &[u8]| {
    written(data);
    forged(data);
});

fn written(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(kind) = Kind::of(input.u8() % 7) else { return };
    let flip = usize::from(input.u16());
    let (span, length, id, written) = (input.u32(), input.u64(), input.u64(), input.u32().into());
    let about = About { kind, span, length, id, written };
    let (order, seq, unit) = (input.u64() % NUMBERS, input.u64(), 64 << (input.u8() % 7));
    let (key, meta, body) = (input.piece(), input.piece(), input.rest());
    let record = Record::new(IDENTITY, about, key, meta, body).expect("small enough");
    let mut bytes = vec![0xaa; record.size(unit)];
    record.copy_to(order, seq, &mut bytes);
    assert!(bytes.len().is_multiple_of(unit as usize));

    let found = parse(IDENTITY, &bytes).expect("a record");
    assert_eq!((found.about, found.size(unit)), (about, bytes.len()));
    assert_eq!((found.order, found.seq), (order, seq as u32));
    assert!(bytes[found.body.end..].iter().all(|b| *b == 0));
    let parts = [found.key.clone(), found.meta.clone(), found.body.clone()].map(|part| &bytes[part]);
    assert_eq!(parts, [key, meta, body]);
    assert_eq!(
        parse(IDENTITY, &[&bytes[..], data].concat()).as_ref(),
        Some(&found),
        "whatever lies behind it"
    );
    let at = flip % found.body.end;
    assert_eq!(parse(IDENTITY, &bytes[..at]), None);
    assert_eq!(parse(IDENTITY + 1, &bytes), None);
    bytes[at] ^= 1 << (flip % 8);
    assert_eq!(parse(IDENTITY, &bytes), None, "byte {at}");
}

fn forged(data: &[u8]) {
    let mut bytes = data.to_vec();
    if bytes.len() < HEADER {
        return assert_eq!(parse(IDENTITY, &bytes), None);
    }
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    let mut input = Input::new(&data[8..]);
    let mut at = HEADER;
    let mut sums = bytes[..CHECKED].to_vec();
    for length in [input.u32(), input.u32(), input.u32()] {
        let end = at.saturating_add(length as usize);
        let part = bytes.get(at..end).unwrap_or_default();
        sums.extend_from_slice(&xxh3_64_with_seed(part, IDENTITY).to_le_bytes());
        at = end;
    }
    let sum = xxh3_64_with_seed(&sums, IDENTITY);
    bytes[CHECKED..HEADER].copy_from_slice(&sum.to_le_bytes());
    let order = u64::from_le_bytes(bytes[48..CHECKED].try_into().expect("eight bytes"));
    let known = Kind::of(bytes[4]).is_some() && order < NUMBERS;
    let Some(found) = parse(IDENTITY, &bytes) else { return assert!(!known || at > bytes.len()) };
    assert!(known && found.body.end == at && found.key.start == HEADER);
    let part = |range: &std::ops::Range<usize>| &bytes[range.clone()];
    let (key, meta, body) = (part(&found.key), part(&found.meta), part(&found.body));
    let record = Record::new(IDENTITY, found.about, key, meta, body).expect("small enough");
    let mut again = vec![0; record.size(64)];
    record.copy_to(found.order, found.seq.into(), &mut again);
    assert_eq!(parse(IDENTITY, &again), Some(found));
}
