//! A block trace on a device in a model.

use super::Trace;
use crate::medium::device::{Kind, Millis, Transfer, Way};
use crate::medium::queue::Queue;
use crate::medium::sectors::SECTOR;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

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
pub fn replay(trace: &Trace, kind: &'static Kind, pace: Pace) -> Result<Outcome, String> {
    let requests = &trace.requests;
    let stretches: BTreeSet<u64> = requests
        .iter()
        .flat_map(|request| request.transfer.sector / STRETCH..=(request.transfer.end() - 1) / STRETCH)
        .collect();
    let stretches: Vec<u64> = stretches.into_iter().collect();
    let touched = stretches.len() as u64 * STRETCH;
    let device = (kind.make)(touched * SECTOR as u64);
    let last = stretches.last().map_or(0, |last| (last + 1) * STRETCH);
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
    let place = |transfer: Transfer| {
        let moved = stretches.partition_point(|one| *one < transfer.sector / STRETCH) as u64 * STRETCH;
        let sector = if packed { moved + transfer.sector % STRETCH } else { transfer.sector };
        Transfer { sector, ..transfer }
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
    use crate::block::{Request, open};
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
