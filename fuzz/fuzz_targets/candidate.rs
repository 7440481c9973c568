//! Lines of an inventory as candidates: any URL gives all attributes, and none that carries credentials is planned.
#![no_main]

use learn::candidate::{Beside, Candidate, Encoding, History, PREFETCHABLE};
use learn::plan::refused;
use libfuzzer_sys::fuzz_target;
use trace::Access;
use trace::inventory::Inventory;

fuzz_target!(|data: &[u8]| {
    let encoding = Encoding::all();
    let (mut examples, mut scratch) = (encoding.examples(), Access::default());
    let (mut history, mut beside) = (History::new(4), Beside::default());
    for row in Inventory::of(Box::new(std::io::Cursor::new(data.to_vec())), "rows").flatten() {
        let authority = row.url.split(['/', '?', '#']).nth(2).unwrap_or_default().to_owned();
        if refused(&row.url).is_none() {
            assert!(row.url.starts_with(['h', 'H']) && !authority.contains('@'), "{}", row.url);
        }
        let night = row.modified.wrapping_mul(3) ^ row.size;
        beside.note(&row);
        let mut candidate = Candidate { row, ..Candidate::default() };
        candidate.remember(&history, &beside, &mut scratch);
        encoding.push(&candidate, night, PREFETCHABLE, &mut examples).expect("any candidate is an example");
        history.note(&scratch, !night.is_multiple_of(3), true);
        if night.is_multiple_of(2) {
            history.close_day();
        }
    }
});
