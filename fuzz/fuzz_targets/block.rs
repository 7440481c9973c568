//! Block traces and /proc/diskstats. What is malformed is counted and the reading ends; what was read is the same when it is
//! written and read again.
#![no_main]

use lab::block::{Writer, read};
use lab::medium::real::disk::of_diskstats;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let trace = read(&mut &data[..], false).expect("not strict");
    assert_eq!(trace.faults.first.len() as u64, trace.faults.count.min(10));
    assert!(trace.requests.iter().all(|request| request.issued >= 0.0 && request.transfer.count > 0));
    assert!(trace.requests.iter().all(|request| request.took.is_none_or(|took| took >= 0.0)));
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    trace.requests.iter().for_each(|request| writer.write(request).expect("memory takes all"));
    let again = read(&mut &writer.into_inner()[..], true).expect("what was written is well-formed");
    let transfers = |trace: &lab::block::Trace| {
        let mut all: Vec<_> = trace.requests.iter().map(|r| (r.transfer.sector, r.transfer.count)).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(transfers(&trace), transfers(&again));
    let text = String::from_utf8_lossy(data);
    let _ = of_diskstats(&text, (254, 0));
});
