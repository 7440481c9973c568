//! Traces: the first byte chooses the format. What is malformed is counted and the reading ends; what was read is as
//! many requests, of the same sizes, when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use trace::{ALL, Access, Format, Source};

fn read(format: &Format, bytes: Vec<u8>) -> Vec<Access> {
    let mut source = Source::of(Box::new(Cursor::new(bytes)), format).expect("memory can be read");
    let (mut all, mut access) = (Vec::new(), Access::default());
    while source.next(&mut access).expect("not strict") {
        all.push(access.clone());
    }
    let faults = source.faults();
    assert_eq!(faults.first.len() as u64, faults.count.min(10));
    assert!(faults.first.iter().all(|(number, why)| *number > 0 && !why.contains('\n')));
    all
}

fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else { return };
    let format = &ALL[usize::from(*which) % ALL.len()];
    (format.begins)(bytes);
    let first = read(format, bytes.to_vec());
    let mut writer = (format.writer)();
    let mut written = Vec::new();
    writer.header(&mut written);
    first.iter().for_each(|access| writer.write(access, None, &mut written));
    let again = read(format, written);
    assert!(
        first.iter().map(|access| access.size).eq(again.iter().map(|access| access.size)),
        "{}",
        format.name
    );
});
