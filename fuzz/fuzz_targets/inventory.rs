//! Content inventories. Reading ends at the first error, which names its line; what was read is the same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use trace::inventory::{Inventory, Row};

fuzz_target!(|data: &[u8]| {
    let read = |bytes: &[u8]| Inventory::of(Box::new(Cursor::new(bytes.to_vec())), "x");
    let mut rows: Vec<Row> = Vec::new();
    let mut errors = Vec::new();
    for row in read(data) {
        row.map_or_else(|why| errors.push(why), |row| rows.push(row));
    }
    assert!(errors.len() <= 1 && errors.iter().all(|why| why.starts_with("x: line ") && !why.contains('\n')));
    let mut written = Vec::new();
    rows.iter().for_each(|row| row.write(&mut written));
    // What is escaped may be longer than a line may be.
    if written.split(|byte| *byte == b'\n').all(|line| line.len() <= trace::inventory::LINE_MAX) {
        assert_eq!(read(&written).collect::<Result<Vec<_>, _>>().expect("as it was written"), rows);
    }
});
