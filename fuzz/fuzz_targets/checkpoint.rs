//! Pages and root of a checkpoint. Any bytes are a page or are refused; the entries they brought are in order, counted,
//! and written to pages of any size and loaded into another index they are the same; a page that is cut is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::fuzzing::{load_page, load_root, pages};
use store::index::{Index, Packed, SHARDS};

const GROUP: usize = 8;

fuzz_target!(|data: &[u8]| {
    let (size, body) = data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest));
    let index = Index::new(7);
    let read = load_page(&index, body);
    assert_eq!(read, groups(body).is_some());
    let all = exported(&index);
    let brought = groups(body).unwrap_or_default().iter().filter(|e| Packed::of_bytes(e).is_some()).count();
    assert!(!read || all.len() <= brought);
    let counts: u64 = all.iter().map(|(_, entry)| u64::from(entry[11])).sum();
    assert_eq!(index.totals(), (all.len() as u64, counts));
    assert!(all.is_sorted_by(|a, b| (a.0, print(&a.1)) < (b.0, print(&b.1))), "in order, none double");

    let again = Index::new(7);
    for page in pages(&index, 1 + size) {
        assert!(page.len() <= size + GROUP + 2 * Packed::BYTES);
        let cut = &page[..page.len() - size.min(page.len())];
        assert_eq!(load_page(&Index::new(7), cut), groups(cut).is_some());
        assert!(load_page(&again, &page));
    }
    assert_eq!(exported(&again), all);

    let root = load_root(body);
    assert_eq!(root.len(), body.len() / 12);
    assert!(root.iter().zip(body.chunks(12)).all(|((place, _), entry)| place.to_le_bytes() == entry[..8]));
});

/// What a page is, read in the plainest way: the entries of its groups, or `None`.
fn groups(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut all = Vec::new();
    while body.len() >= GROUP {
        let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes")) as usize;
        let (entries, rest) = body[GROUP..].split_at_checked(word(4) * Packed::BYTES)?;
        if word(0) >= SHARDS {
            return None;
        }
        all.extend(entries.chunks(Packed::BYTES));
        body = rest;
    }
    body.is_empty().then_some(all)
}

fn exported(index: &Index) -> Vec<(usize, [u8; Packed::BYTES])> {
    (0..SHARDS)
        .flat_map(|shard| index.export(shard).into_iter().map(move |e| (shard, e.to_bytes())))
        .collect()
}

fn print(entry: &[u8; Packed::BYTES]) -> u32 {
    u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]])
}
