//! A copy of the ledger. One of the input's bytes survives its encoding, asks for as many bytes as it is long when it is
//! given fewer, is not another cache's, and no byte of it may change unnoticed. The input as a copy, with magic and
//! checksum put right, is refused or is what encoding it gives.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use store::format::ledger::{COPY, Ledger, MAGIC, MAX, Unreadable, offset};
use store::format::{BLOCK, NUMBERS};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const IDENTITY: u64 = 77;
const HEADER: usize = 64;

fuzz_target!(|data: &[u8]| {
    written(data);
    forged(data);
});

fn written(data: &[u8]) {
    let mut input = Input::new(data);
    let (generation, flip) = (input.u64() % NUMBERS, usize::from(input.u16()));
    let ledger = Ledger { generation, bytes: input.rest().to_vec() };
    assert_ne!(offset(generation), offset(generation.wrapping_add(1)), "copies are written in turn");
    let size = ledger.size();
    assert!(size.is_multiple_of(BLOCK) && size <= COPY);
    let mut image = vec![0x55; size + BLOCK];
    ledger.encode(IDENTITY, &mut image);
    assert!(image[size..].iter().all(|b| *b == 0x55), "nothing behind the copy is touched");

    let end = HEADER + ledger.bytes.len();
    assert_eq!(Ledger::decode(IDENTITY, &image[..end]).as_ref(), Ok(&ledger));
    assert_eq!(Ledger::decode(IDENTITY, &image), Ok(ledger));
    assert_eq!(Ledger::decode(IDENTITY + 1, &image), Err(Unreadable::Invalid));
    let cut = HEADER + flip % (end - HEADER + 1);
    assert!(cut == end || Ledger::decode(IDENTITY, &image[..cut]) == Err(Unreadable::Longer(end)));
    // Magic, generation, length and checksum; then what it holds.
    let at = flip % (32 + end - HEADER);
    let at = if at < 32 { at } else { at - 32 + HEADER };
    image[at] ^= 1 << (generation % 8);
    assert!(Ledger::decode(IDENTITY, &image).is_err(), "byte {at}");
}

fn forged(data: &[u8]) {
    let mut copy = data.to_vec();
    copy.resize(data.len().max(HEADER), 0);
    copy[..8].copy_from_slice(&MAGIC);
    let number = |at| u64::from_le_bytes(copy[at..at + 8].try_into().expect("eight bytes"));
    let (generation, length) = (number(8), number(16));
    let end = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(HEADER).min(copy.len());
    let sum = xxh3_64_with_seed(&copy[HEADER..end], xxh3_64_with_seed(&copy[..24], IDENTITY));
    copy[24..32].copy_from_slice(&sum.to_le_bytes());
    match Ledger::decode(IDENTITY, &copy) {
        Ok(read) => {
            assert_eq!(read.bytes.len() as u64, length);
            let mut image = vec![0; read.size()];
            read.encode(IDENTITY, &mut image);
            assert_eq!(Ledger::decode(IDENTITY, &image), Ok(read));
        }
        Err(Unreadable::Longer(end)) => assert!(end > copy.len() && end <= HEADER + MAX),
        Err(Unreadable::Invalid) => assert!(length > MAX as u64 || generation >= NUMBERS),
    }
}
