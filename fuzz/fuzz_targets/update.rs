//! An overlay page: entries of new metadata. Any bytes have the entries that lie whole at their start; those written
//! again are the same bytes; entries of the input survive their encoding, and of a page that is cut all whole ones.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use store::format::update::{Target, entries, push_entry};

/// Bytes of an entry before its metadata.
const ENTRY: usize = 32;

fuzz_target!(|data: &[u8]| {
    let mut page = Vec::new();
    for (hash, target, meta) in entries(data) {
        assert_eq!(Target::decode(&target.encode()), Some(target));
        push_entry(&mut page, hash, &target, &meta);
    }
    assert!(page.len() <= data.len());
    assert!(same_but_for_padding(&page, data), "what was read is what was there");

    let mut input = Input::new(data);
    let cut = usize::from(input.u16());
    let (mut page, mut all) = (Vec::new(), Vec::new());
    while !input.is_empty() {
        let target = Target { place: input.u64(), units: input.u16(), sum: input.u64() };
        let (hash, meta) = (input.u64(), input.piece());
        push_entry(&mut page, hash, &target, meta);
        all.push((page.len(), hash, target, meta));
    }
    let plain = |page: &[u8]| entries(page).map(|(h, t, m)| (h, t, m.to_vec())).collect::<Vec<_>>();
    let expected = |end: usize| {
        let whole = all.iter().filter(|entry| entry.0 <= end);
        whole.map(|(_, hash, target, meta)| (*hash, *target, meta.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(plain(&page), expected(page.len()));
    let cut = cut.min(page.len());
    assert_eq!(plain(&page[..cut]), expected(cut));
    assert!((0..40).all(|length| Target::decode(&vec![1; length]).is_some() == (length == Target::BYTES)));
});

/// A length in units has two bytes, for which four are kept.
fn same_but_for_padding(page: &[u8], data: &[u8]) -> bool {
    let mut at = 0;
    while at < page.len() {
        let length = u32::from_le_bytes(page[at + ENTRY - 4..at + ENTRY].try_into().expect("four bytes"));
        let end = at + ENTRY + length as usize;
        let padding = at + 26..at + 28;
        if page[at..padding.start] != data[at..padding.start]
            || page[padding.end..end] != data[padding.end..end]
        {
            return false;
        }
        at = end;
    }
    true
}
