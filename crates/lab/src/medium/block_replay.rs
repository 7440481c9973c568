//! A block trace on a modelled device.

use super::device::DeviceModel;
use super::queue::Queue;
use crate::block::{Millis, Request, SECTOR, Trace, Transfer, Way};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As in the trace: each as long after the one that was last completed before it as there.
    Own,
    /// As soon as fewer than so many are under way.
    Full(usize),
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub device: &'static str,
    pub requests: u64,
    /// Until the device had done all, with what lay in its cache.
    pub seconds: f64,
    pub requests_per_second: f64,
    pub reads: u64,
    pub writes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// From issue to completion.
    pub mean_read_ms: f64,
    pub mean_write_ms: f64,
    /// Bytes that flash took for each that was written.
    pub write_amplification: Option<f64>,
    /// Whether addresses were moved together to fit.
    pub packed: bool,
}

/// Sectors that are moved together.
const STRETCH: u64 = 2048;

/// Replays all requests. An error is one line.
pub fn replay(trace: &Trace, kind: &'static DeviceModel, pace: Pace) -> Result<Outcome, String> {
    let requests = &trace.requests;
    let ranges = touched(trace);
    let (touched, last) = ranges.last().map_or((0, 0), |last| (last.moved + last.end - last.first, last.end));
    let device = (kind.make)(touched * SECTOR as u64);
    let packed = kind.sliced || last > device.capacity();
    if packed && touched > device.capacity() {
        let megabytes = |sectors: u64| sectors * SECTOR as u64 / 1_000_000;
        return Err(format!(
            "the trace touches {} MB, and {} has {}: choose another device",
            megabytes(touched),
            kind.name,
            megabytes(device.capacity())
        ));
    }
    let place = |transfer: Transfer| match ranges
        .get(ranges.partition_point(|one| one.end <= transfer.sector))
    {
        Some(range) if packed => Transfer { sector: transfer.sector - range.first + range.moved, ..transfer },
        _ => transfer,
    };

    let mut queue = Queue::new(device, kind.rules);
    let mut waiting = Waiting::of(trace, pace);
    // Whom each ticket is for, and when it was issued; tickets count from 1.
    let mut issued: Vec<(usize, Millis)> = Vec::with_capacity(requests.len());
    let (mut spent, mut counts, mut end) = ([0.0; 2], [0u64; 2], 0.0);
    loop {
        match (queue.begins(), waiting.next()) {
            (Some(begins), Some((at, _))) if begins < at => queue.step(),
            (_, Some((at, nth))) => {
                waiting.take();
                queue.submit(at, place(requests[nth].transfer));
                issued.push((nth, at));
            }
            (Some(_), None) => queue.step(),
            (None, None) => break,
        }
        for (ticket, done) in queue.take_done() {
            let (nth, at) = issued[ticket as usize - 1];
            let way = usize::from(requests[nth].transfer.way == Way::Write);
            spent[way] += done - at;
            counts[way] += 1;
            end = done.max(end);
            waiting.done(nth, done);
        }
    }
    let seconds = queue.drain(end) / 1000.0;
    let (traffic, count) = (queue.traffic(), requests.len() as u64);
    let mean = |way: usize| spent[way] / counts[way].max(1) as f64;
    let taken = queue.device().programmed().filter(|_| traffic.bytes_written > 0);
    Ok(Outcome {
        device: kind.name,
        requests: count,
        seconds,
        requests_per_second: if seconds > 0.0 { count as f64 / seconds } else { 0.0 },
        reads: traffic.reads,
        writes: traffic.writes,
        bytes_read: traffic.bytes_read,
        bytes_written: traffic.bytes_written,
        mean_read_ms: mean(0),
        mean_write_ms: mean(1),
        write_amplification: taken.map(|taken| taken as f64 / traffic.bytes_written as f64),
        packed,
    })
}

/// Sectors that a trace touches, and where they begin when all such lie side by side.
struct Range {
    first: u64,
    end: u64,
    moved: u64,
}

/// In order, in whole stretches.
fn touched(trace: &Trace) -> Vec<Range> {
    let of = |request: &Request| {
        let transfer = request.transfer;
        (transfer.sector / STRETCH * STRETCH, transfer.end().next_multiple_of(STRETCH))
    };
    let mut all: Vec<(u64, u64)> = trace.requests.iter().map(of).collect();
    all.sort_unstable();
    let mut ranges: Vec<Range> = Vec::new();
    for (first, end) in all {
        match ranges.last_mut() {
            Some(last) if first <= last.end => last.end = last.end.max(end),
            last => {
                let moved = last.map_or(0, |last| last.moved + last.end - last.first);
                ranges.push(Range { first, end, moved });
            }
        }
    }
    ranges
}

/// Who may be issued, and who waits for whom.
struct Waiting {
    /// By time, of which the bits are in order as it is not negative.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// Of each request: the requests that wait for it, which follow each other, and how long after it each comes.
    after: Vec<std::ops::Range<usize>>,
    think: Vec<Millis>,
    /// Who is next when any may be.
    next: Option<std::ops::Range<usize>>,
}

impl Waiting {
    fn of(trace: &Trace, pace: Pace) -> Waiting {
        let count = trace.requests.len();
        let mut waiting = Waiting {
            ready: BinaryHeap::new(),
            after: vec![0..0; count],
            think: vec![0.0; count],
            next: None,
        };
        if let Pace::Full(depth) = pace {
            let first = depth.clamp(1, count.max(1));
            (0..first.min(count)).for_each(|nth| waiting.ready.push(Reverse((0, nth))));
            waiting.next = Some(first..count);
            return waiting;
        }
        let done = |nth: usize| trace.requests[nth].took.map(|took| trace.requests[nth].issued + took);
        let mut finished: Vec<(Millis, usize)> =
            (0..count).filter_map(|nth| done(nth).map(|done| (done, nth))).collect();
        finished.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut seen = 0;
        for (nth, request) in trace.requests.iter().enumerate() {
            // Nobody waits for itself, though it may have taken no time.
            let before = |one: &(Millis, usize)| *one < (request.issued, nth);
            while finished.get(seen).is_some_and(before) {
                seen += 1;
            }
            match finished[..seen].last() {
                Some((done, before)) => {
                    let after = &mut waiting.after[*before];
                    *after = if after.start == after.end { nth..nth + 1 } else { after.start..nth + 1 };
                    waiting.think[nth] = request.issued - done;
                }
                None => waiting.ready.push(Reverse((request.issued.to_bits(), nth))),
            }
        }
        waiting
    }

    fn next(&self) -> Option<(Millis, usize)> {
        self.ready.peek().map(|Reverse((at, nth))| (Millis::from_bits(*at), *nth))
    }

    fn take(&mut self) {
        self.ready.pop();
    }

    fn done(&mut self, nth: usize, at: Millis) {
        let mut push = |nth: usize, at: Millis| self.ready.push(Reverse((at.to_bits(), nth)));
        self.after[nth].clone().for_each(|after| push(after, at + self.think[after]));
        if let Some(next) = self.next.as_mut().and_then(Iterator::next) {
            push(next, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::open;
    use crate::medium::device::{ALL, named};
    use std::collections::HashSet;
    use std::path::Path;

    fn fixture() -> Trace {
        open(Path::new("tests/fixtures/block.trace"), true).unwrap()
    }

    #[test]
    fn every_device_does_all_of_a_trace() {
        let trace = fixture();
        let of = |way: Way| trace.requests.iter().map(|r| r.transfer).filter(move |one| one.way == way);
        let read: u64 = of(Way::Read).map(|one| one.bytes()).sum();
        let written: u64 = of(Way::Write).map(|one| one.bytes()).sum();
        let sectors: HashSet<u64> = of(Way::Write).flat_map(|one| one.sector..one.end()).collect();
        for kind in ALL {
            for pace in [Pace::Own, Pace::Full(1), Pace::Full(32)] {
                let found = replay(&trace, kind, pace).unwrap();
                assert_eq!(found.requests, trace.requests.len() as u64, "{}", kind.name);
                assert_eq!(found.bytes_read, read, "{}", kind.name);
                // What is written again while it waits is written once.
                let once = sectors.len() as u64 * SECTOR as u64;
                assert!((once..=written).contains(&found.bytes_written), "{}: {found:?}", kind.name);
                assert!(found.seconds > 0.0 && found.mean_read_ms > 0.0, "{}: {found:?}", kind.name);
                assert_eq!(found.write_amplification.is_some(), kind.sliced);
            }
        }
    }

    #[test]
    fn what_a_trace_touches_lies_side_by_side() {
        let mut trace = Trace::default();
        let request = |sector, count| Request {
            issued: 0.0,
            took: None,
            transfer: Transfer { way: Way::Write, sector, count },
        };
        // The last ones are 800 TB that overlap: a bit for each stretch would be too much.
        trace.requests.extend([request(9 * STRETCH + 5, 8), request(STRETCH - 1, 2), request(8, 8)]);
        trace.requests.extend((0..1000).map(|nth| request(100 * STRETCH + nth * (1 << 23), (1 << 24) - 1)));
        let found: Vec<_> = touched(&trace).iter().map(|one| (one.first, one.end, one.moved)).collect();
        let last = (100 * STRETCH, 100 * STRETCH + 1001 * (1 << 23), 3 * STRETCH);
        assert_eq!(found, [(0, 2 * STRETCH, 0), (9 * STRETCH, 10 * STRETCH, 2 * STRETCH), last]);
    }

    #[test]
    fn what_waited_in_the_trace_waits_in_the_replay() {
        let mut trace = Trace::default();
        let read = |nth: u64| Transfer { way: Way::Read, sector: nth * 100_000, count: 8 };
        // One after the other, ten milliseconds of thought between.
        trace.requests.extend((0..10).map(|nth| Request {
            issued: nth as f64 * 11.0,
            took: Some(1.0),
            transfer: read(nth),
        }));
        let own = replay(&trace, named("nvme").unwrap(), Pace::Own).unwrap();
        assert!((0.09..0.1).contains(&own.seconds), "{}", own.seconds);
        let full = replay(&trace, named("nvme").unwrap(), Pace::Full(10)).unwrap();
        assert!(full.seconds < 0.001, "{}", full.seconds);
    }

    #[test]
    fn a_trace_that_does_not_fit_is_refused() {
        let mut trace = Trace::default();
        let write = |nth: u64| Transfer { way: Way::Write, sector: nth * STRETCH, count: 8 };
        trace.requests.extend((0..5000).map(|nth| Request {
            issued: 0.0,
            took: None,
            transfer: write(nth * 3),
        }));
        let why = replay(&trace, named("st15150w").unwrap(), Pace::Own).unwrap_err();
        assert!(why.contains("5242 MB"), "{why}");
        assert!(!replay(&trace, named("hdd-18t").unwrap(), Pace::Full(8)).unwrap().packed);
    }
}
