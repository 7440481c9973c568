//! The root. One of the input's digests survives its encoding, and no bit of it may change unnoticed. The input as a copy,
//! with magic and checksum put right, is refused or is what encoding it gives: digests that follow one another.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use store::format::root::{COPY, DigestAt, MAGIC, MOST, Root, Unreadable, offset};
use store::format::{BLOCK, NUMBERS};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const IDENTITY: u64 = 77;
const HEADER: usize = 64;
const ENTRY: usize = 48;

fuzz_target!(|data: &[u8]| {
    written(data);
    forged(data);
});

fn written(data: &[u8]) {
    let mut input = Input::new(data);
    let (generation, flip) = (input.u64() % NUMBERS, usize::from(input.u16()));
    let (mut order, mut seq, mut digests) = (input.u32().into(), input.u32().into(), Vec::new());
    while !input.is_empty() && digests.len() < MOST {
        let (from, first_seq) = (order + u64::from(input.u8()), seq + u64::from(input.u8()));
        (order, seq) = (from + u64::from(input.u32()), first_seq + u64::from(input.u16()));
        let (place, bytes, partial) = (input.u64(), input.u32(), seq % 2 == 1);
        digests.push(DigestAt { from, to: order, first_seq, last_seq: seq, place, bytes, partial });
    }
    let root = Root { generation, order, seq, swept: seq ^ 5, digests };
    assert_ne!(offset(generation), offset(generation.wrapping_add(1)), "copies are written in turn");
    let size = root.size();
    assert!(size.is_multiple_of(BLOCK) && size <= COPY);
    let mut image = vec![0x55; size];
    root.encode(IDENTITY, &mut image);
    let end = HEADER + ENTRY * root.digests.len();
    assert!(image[end..].iter().all(|b| *b == 0));
    assert_eq!(Root::decode(IDENTITY, &image).as_ref(), Ok(&root));
    assert_eq!(Root::decode(IDENTITY, &image[..end]), Ok(root));
    assert_eq!(Root::decode(IDENTITY, &image[..flip % end]), Err(Unreadable::Invalid));
    assert_eq!(Root::decode(IDENTITY + 1, &image), Err(Unreadable::Invalid));
    let at = flip % end;
    image[at] ^= 1 << (generation % 8);
    assert_eq!(Root::decode(IDENTITY, &image), Err(Unreadable::Invalid), "byte {at}");
}

fn forged(data: &[u8]) {
    let mut copy = data.to_vec();
    copy.resize(data.len().max(HEADER), 0);
    let blank = copy[..HEADER].iter().all(|b| *b == 0);
    assert_eq!(Root::decode(IDENTITY, &copy) == Err(Unreadable::Blank), blank);
    copy[..8].copy_from_slice(&MAGIC);
    let mut input = Input::new(&copy[8..]);
    let (generation, order, seq, count) = (input.u64(), input.u64(), input.u64(), input.u32() as usize);
    let end = HEADER + count.min(MOST + 1) * ENTRY;
    let checked = copy.get(HEADER..end).unwrap_or_default();
    let sum = xxh3_64_with_seed(checked, xxh3_64_with_seed(&copy[..HEADER - 8], IDENTITY));
    copy[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
    let read = match Root::decode(IDENTITY, &copy) {
        Ok(read) => read,
        Err(why) => return assert_eq!(why, Unreadable::Invalid),
    };
    assert!(count <= MOST && end <= copy.len() && generation.max(order).max(seq) < NUMBERS);
    assert_eq!((read.generation, read.order, read.seq), (generation, order, seq));
    assert!(read.digests.iter().all(|at| at.from <= at.to && at.to <= order));
    assert!(read.digests.iter().all(|at| at.first_seq <= at.last_seq && at.last_seq <= seq));
    assert!(
        read.digests.windows(2).all(|two| two[0].to <= two[1].from && two[0].last_seq <= two[1].first_seq)
    );
    let mut image = vec![0; read.size()];
    read.encode(IDENTITY, &mut image);
    assert_eq!(Root::decode(IDENTITY, &image), Ok(read));
}
