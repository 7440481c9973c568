//! The superblock. Any block is refused or read; with magic, version and checksum put right, so that the fields behind
//! them are reached, what decodes encodes to the same fields, has a size that can be computed, and no bit of it may
//! change unnoticed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::format::superblock::{MAGIC, NotOurs, Superblock};
use store::format::{BLOCK, DATA_START, VERSION};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const CHECKED: usize = 80;

fuzz_target!(|data: &[u8]| {
    let mut block = [0; BLOCK];
    let length = data.len().min(BLOCK);
    block[..length].copy_from_slice(&data[..length]);
    let blank = block.iter().all(|b| *b == 0);
    assert_eq!(Superblock::decode(&block) == Err(NotOurs::Blank), blank);

    block[..8].copy_from_slice(&MAGIC);
    block[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
    assert_eq!(Superblock::decode(&block), Err(NotOurs::Version(VERSION + 1)));
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let identity = u64::from_le_bytes(block[24..32].try_into().expect("eight bytes"));
    let sum = xxh3_64_with_seed(&block[..CHECKED], identity);
    block[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
    let read = match Superblock::decode(&block) {
        Ok(read) => read,
        Err(why) => return assert_eq!(why, NotOurs::Damaged),
    };
    assert!(
        read.layout.size() >= DATA_START && read.layout.start(read.layout.segments - 1) < read.layout.size()
    );
    let written = read.encode();
    assert_eq!(Superblock::decode(&written), Ok(read));
    let place = data.first().map_or(12, |b| 12 + usize::from(*b) % (CHECKED + 8 - 12));
    let mut torn = block;
    torn[place] ^= 1 << (length % 8);
    assert_eq!(Superblock::decode(&torn), Err(NotOurs::Damaged), "byte {place}");
});
