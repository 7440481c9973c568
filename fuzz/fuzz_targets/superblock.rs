//! The superblock. Any block is refused or read; with magic, version and checksum put right, so that the fields behind
//! them are reached, what decodes encodes to the same fields, has a size that can be computed and places that have room in
//! an index, and no bit of it may change unnoticed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::format::superblock::{MAGIC, NotOurs, checksum, decode, encode};
use store::format::{BLOCK, DATA_START, NUMBERS, PLACE_BITS, RESIZED, VERSION};

const CHECKED: usize = 56;

fuzz_target!(|data: &[u8]| {
    let mut block = [0; BLOCK];
    let length = data.len().min(BLOCK);
    block[..length].copy_from_slice(&data[..length]);
    let blank = block.iter().all(|b| *b == 0);
    assert_eq!(decode(&block) == Err(NotOurs::Blank), blank);

    block[..8].copy_from_slice(&MAGIC);
    for other in [VERSION - 1, RESIZED + 1] {
        block[8..12].copy_from_slice(&other.to_le_bytes());
        assert_eq!(decode(&block), Err(NotOurs::Version(other)));
    }
    let version = if data.last().is_some_and(|byte| byte % 2 == 1) { RESIZED } else { VERSION };
    block[8..12].copy_from_slice(&version.to_le_bytes());
    let identity = u64::from_le_bytes(block[24..32].try_into().expect("eight bytes"));
    let sum = checksum(identity, &block);
    block[CHECKED..CHECKED + 8].copy_from_slice(&sum.to_le_bytes());
    let layout = match decode(&block) {
        Ok(layout) => layout,
        Err(why) => return assert_eq!(why, NotOurs::Damaged),
    };
    assert!(layout.size() > DATA_START && layout.start(layout.segments - 1) < layout.size());
    let (unit, last) = (layout.unit as usize, layout.segments - 1);
    let place = layout.place(last, layout.segment as usize - unit);
    assert!(place < 1 << PLACE_BITS && layout.segment_of(place) == last);
    assert!(layout.holds(place, unit) && !layout.holds(place, unit + 1));
    assert_eq!(decode(&encode(&layout)), Ok(layout));
    // Whatever eras there are, what they say ends, and is of this cache.
    let seq = u64::from_le_bytes(block[200..208].try_into().expect("eight bytes")) % NUMBERS;
    let (oldest, by) = (layout.oldest(seq), layout.overwritten_by(seq));
    assert!(oldest <= seq && by > seq);
    assert!(layout.is_cut(seq) || layout.number(seq) < layout.segments);
    assert!(layout.before(seq).is_none_or(|before| before < seq));
    assert!(layout.resized(seq.max(layout.least_next()), 15).is_none_or(|next| next.segments >= 15));
    let at = data.first().map_or(12, |b| 12 + usize::from(*b) % (CHECKED + 8 - 12));
    block[at] ^= 1 << (length % 8);
    assert_eq!(decode(&block), Err(NotOurs::Damaged), "byte {at}");
});
