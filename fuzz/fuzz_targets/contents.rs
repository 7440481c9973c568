//! A segment's table of contents. A table of the input's entries survives its encoding, asks for as many bytes as it is
//! long when it is given fewer, is not another segment's, and no byte of it may change unnoticed. The input as a
//! segment's end, with magic, number and checksum put right, is refused or is what encoding it gives.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use store::format::contents::{
    Contents, ENTRY, Entry, Mark, TRAILER, Unreadable, decode, encode, most, start,
};
use store::format::{BLOCK, NUMBERS, UNIT};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const SEGMENT: usize = 16 << 10;
const IDENTITY: u64 = 77;
const NUMBER: u64 = 3;

fuzz_target!(|data: &[u8]| {
    written(data);
    forged(data);
});

fn written(data: &[u8]) {
    let mut input = Input::new(data);
    let (seq, flip) = (input.u64() % NUMBERS, input.u16());
    let mut entries = Vec::new();
    while !input.is_empty() && entries.len() < most(SEGMENT) {
        let mark = [Mark::Put, Mark::Stayed, Mark::Update][usize::from(input.u8()) % 3];
        entries.push(Entry { hash: input.u64(), offset: input.u32(), units: input.u16(), mark });
    }
    let mut image = vec![0x55; SEGMENT];
    encode(IDENTITY, NUMBER, seq, &entries, &mut image);
    let from = start(SEGMENT, entries.len());
    let length = TRAILER + entries.len() * ENTRY;
    assert!(from.is_multiple_of(BLOCK) && SEGMENT - from >= length && BLOCK.is_multiple_of(UNIT));
    assert!(image[..from].iter().all(|b| *b == 0x55), "nothing before the table is touched");

    let read = |image: &[u8], length: usize| decode(IDENTITY, NUMBER, SEGMENT, &image[SEGMENT - length..]);
    let whole = Ok(Contents { seq, entries });
    assert_eq!(read(&image, SEGMENT), whole);
    assert_eq!(read(&image, length), whole);
    let cut = usize::from(flip) % length;
    let missing = if cut < TRAILER { TRAILER } else { length };
    assert_eq!(read(&image, cut), Err(Unreadable::Longer(missing)));
    assert_eq!(decode(IDENTITY, NUMBER + 1, SEGMENT, &image), Err(Unreadable::Invalid));
    assert_eq!(decode(IDENTITY + 1, NUMBER, SEGMENT, &image), Err(Unreadable::Invalid));
    // The trailer's last 32 bytes are zeros that nobody reads.
    let at = SEGMENT - length + usize::from(flip) % (length - 32);
    image[at] ^= 1 << (seq % 8);
    assert!(read(&image, SEGMENT).is_err(), "byte {at}");
}

fn forged(data: &[u8]) {
    let Some(trailer_at) = data.len().checked_sub(TRAILER) else { return };
    let mut tail = data.to_vec();
    tail[trailer_at..trailer_at + 4].copy_from_slice(b"cSEG");
    tail[trailer_at + 16..trailer_at + 24].copy_from_slice(&NUMBER.to_le_bytes());
    let count =
        u32::from_le_bytes(tail[trailer_at + 4..trailer_at + 8].try_into().expect("four bytes")) as usize;
    let seq = u64::from_le_bytes(tail[trailer_at + 8..trailer_at + 16].try_into().expect("eight bytes"));
    let table = trailer_at.saturating_sub(count.saturating_mul(ENTRY));
    let seed = xxh3_64_with_seed(&tail[trailer_at..trailer_at + 24], IDENTITY);
    let sum = xxh3_64_with_seed(&tail[table..trailer_at], seed);
    tail[trailer_at + 24..trailer_at + 32].copy_from_slice(&sum.to_le_bytes());
    match decode(IDENTITY, NUMBER, SEGMENT, &tail) {
        Ok(read) => {
            assert_eq!(read.entries.len(), count);
            let mut image = vec![0; SEGMENT];
            encode(IDENTITY, NUMBER, read.seq, &read.entries, &mut image);
            assert_eq!(decode(IDENTITY, NUMBER, SEGMENT, &image), Ok(read));
        }
        Err(Unreadable::Longer(length)) => assert!(length > tail.len() && length <= SEGMENT),
        Err(Unreadable::Invalid) => {
            let too_many = count > most(SEGMENT) && TRAILER + count * ENTRY > SEGMENT;
            assert!(too_many || seq >= NUMBERS);
        }
    }
}
