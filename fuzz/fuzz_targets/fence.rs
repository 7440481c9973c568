//! The fence. The input as one, with its checksum put right, is refused or is what encoding it gives, and no bit of it may
//! change unnoticed.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use store::format::fence::{Fence, MAGIC};
use store::format::{BLOCK, NUMBERS};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const IDENTITY: u64 = 77;
const CHECKED: usize = 40;

fuzz_target!(|data: &[u8]| {
    let mut block = [0; BLOCK];
    let length = data.len().min(BLOCK);
    block[..length].copy_from_slice(&data[..length]);
    let is_sealed = |block: &[u8]| {
        block[..8] == MAGIC
            && block[CHECKED..CHECKED + 8] == xxh3_64_with_seed(&block[..CHECKED], IDENTITY).to_le_bytes()
    };
    assert!(Fence::decode(IDENTITY, &block).is_none() || is_sealed(&block));

    block[..8].copy_from_slice(&MAGIC);
    let mut input = Input::new(&block[8..]);
    let fence = Fence { seq: input.u64(), order: input.u64(), ledger: input.u64(), life: input.u64() };
    let sum = xxh3_64_with_seed(&block[..CHECKED], IDENTITY);
    block[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
    let valid = fence.seq.max(fence.order).max(fence.ledger).max(fence.life) < NUMBERS;
    let read = Fence::decode(IDENTITY, &block);
    assert_eq!(read, valid.then_some(fence));
    let written = fence.encode(IDENTITY);
    assert_eq!(written[..CHECKED + 8], block[..CHECKED + 8]);
    assert_eq!(Fence::decode(IDENTITY, &written), read);
    assert_eq!(Fence::decode(IDENTITY + 1, &written), None);
    let at = length % (CHECKED + 8);
    block[at] ^= 1 << (fence.ledger % 8);
    assert_eq!(Fence::decode(IDENTITY, &block), None, "byte {at}");
});
