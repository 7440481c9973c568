//! Block traces: what a device was asked for, when, and how long it took. Captured from a real directory (`medium::real`) or by
//! blktrace, replayed on a device in a model (`medium::block_replay`).
//!
//! A file has a line for each request: microseconds from the beginning until it was issued, microseconds that it took (`-`
//! when that is not known), `R` or `W`, first sector, sectors of 512 bytes. `#` begins a remark. The output of blkparse and the
//! kernel's own lines of block_rq_issue and block_rq_complete are understood, too. Flushes, discards and what else has no
//! sectors are left out and counted.

mod line;
mod transfer;

pub use line::{Action, Event, Line, parse};
pub use transfer::{Millis, SECTOR, Transfer, Way};

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use trace::Faults;

/// What a file begins with.
const HEADER: &str =
    "# cosm block trace 1: issued (us), taken (us), R or W, first sector, sectors of 512 bytes\n";
/// A longer line is malformed.
const LINE_MAX: usize = 4096;
/// Requests of a trace, which is held in memory: 48 bytes each, and as many again while it is replayed.
const MOST: usize = 50_000_000;

/// One request to a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Since the beginning of the trace.
    pub issued: Millis,
    pub took: Option<Millis>,
    pub transfer: Transfer,
}

/// A trace that was read, in the order of issue.
#[derive(Debug, Default)]
pub struct Trace {
    pub requests: Vec<Request>,
    pub faults: Faults,
    /// Flushes, discards, and completions of what was issued before the trace began.
    pub left_out: u64,
}

/// Reads a trace; `strict` ends at the first malformed line. An error is one line.
pub fn open(path: &Path, strict: bool) -> Result<Trace, String> {
    let at = |why: String| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| at(error.to_string()))?;
    let trace = read(&mut BufReader::new(file), strict).map_err(at)?;
    match trace.requests.is_empty() {
        true => Err(at(format!("no request in it; {} lines are malformed", trace.faults.count))),
        false => Ok(trace),
    }
}

/// As `open`, from anything.
pub fn read(input: &mut dyn BufRead, strict: bool) -> Result<Trace, String> {
    let mut trace = Trace::default();
    let mut pairs = Pairs::default();
    let (mut bytes, mut number, mut device) = (Vec::new(), 0, None);
    while trace::line(input, LINE_MAX, &mut bytes).map_err(|error| format!("line {number}: {error}"))? {
        number += 1;
        let parsed = match bytes.len() > LINE_MAX {
            true => Err(format!("longer than {LINE_MAX} bytes")),
            false => parse(&String::from_utf8_lossy(&bytes)),
        };
        // Another device has other sectors of the same numbers.
        let parsed = match parsed {
            Ok(Line::Event(event)) if *device.get_or_insert(event.device) != event.device => {
                Err("of another device than the first: the trace of one is replayed".into())
            }
            parsed => parsed,
        };
        match parsed {
            Ok(Line::Request(request)) => trace.requests.push(request),
            Ok(Line::Event(event)) => match pairs.take(event) {
                Taken::Request(request) => trace.requests.push(request),
                Taken::Kept => {}
                Taken::Unknown => trace.left_out += 1,
            },
            Ok(Line::Other) => trace.left_out += 1,
            Ok(Line::Empty) => {}
            Err(why) if strict => return Err(format!("line {number}: {why}")),
            Err(why) => trace.faults.note(number, why),
        }
        if trace.requests.len() + pairs.issued.len() > MOST {
            return Err(format!("more than {MOST} requests: cut the trace"));
        }
    }
    trace.requests.extend(pairs.unfinished());
    trace.requests.sort_by(|a, b| a.issued.total_cmp(&b.issued));
    let first = trace.requests.first().map_or(0.0, |request| request.issued);
    trace.requests.iter_mut().for_each(|request| request.issued -= first);
    Ok(trace)
}

/// Writes a trace, request by request.
pub struct Writer<W: Write> {
    into: W,
}

impl<W: Write> Writer<W> {
    pub fn new(mut into: W) -> io::Result<Writer<W>> {
        into.write_all(HEADER.as_bytes())?;
        Ok(Writer { into })
    }

    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        let Request { issued, took, transfer } = request;
        let took = took.map_or("-".to_owned(), |took| format!("{:.3}", took * 1000.0));
        let way = if transfer.way == Way::Read { 'R' } else { 'W' };
        let issued = issued * 1000.0;
        writeln!(self.into, "{issued:.3} {took} {way} {} {}", transfer.sector, transfer.count)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }

    pub fn into_inner(self) -> W {
        self.into
    }
}

/// Brings what was issued and what was completed together.
#[derive(Default)]
pub struct Pairs {
    issued: HashMap<(bool, u64), (Millis, u64)>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Taken {
    Request(Request),
    Kept,
    /// Completed, and nobody saw it issued.
    Unknown,
}

impl Pairs {
    pub fn take(&mut self, event: Event) -> Taken {
        let Event { action, at, transfer, .. } = event;
        let key = (transfer.way == Way::Read, transfer.sector);
        match action {
            Action::Issue => {
                self.issued.insert(key, (at, transfer.count));
                Taken::Kept
            }
            Action::Complete => match self.issued.remove(&key) {
                Some((issued, count)) => {
                    let took = Some((at - issued).max(0.0));
                    Taken::Request(Request { issued, took, transfer: Transfer { count, ..transfer } })
                }
                None => Taken::Unknown,
            },
        }
    }

    /// What was issued and not completed, in the order of issue.
    pub fn unfinished(self) -> Vec<Request> {
        let one = |((is_read, sector), (issued, count))| {
            let way = if is_read { Way::Read } else { Way::Write };
            Request { issued, took: None, transfer: Transfer { way, sector, count } }
        };
        let mut all: Vec<Request> = self.issued.into_iter().map(one).collect();
        let place = |of: &Request| (of.transfer.sector, of.transfer.way == Way::Read);
        all.sort_by(|a, b| a.issued.total_cmp(&b.issued).then_with(|| place(a).cmp(&place(b))));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Trace {
        read(&mut text.as_bytes(), false).unwrap()
    }

    #[test]
    fn a_captured_trace_is_read() {
        let trace = open(Path::new("tests/fixtures/block.trace"), true).unwrap();
        assert!(trace.requests.len() >= 30 && trace.left_out == 0);
        assert!(trace.requests.is_sorted_by(|a, b| a.issued <= b.issued));
        assert_eq!(trace.requests[0].issued, 0.0);
    }

    #[test]
    fn what_is_malformed_is_counted_shown_and_ends_a_strict_reading() {
        let mut text = "0 100 R 8 8\n\n# a remark\n10 - W 16 8\n".to_owned();
        (0..12).for_each(|_| text.push_str("10 x R 8 8\n"));
        text.push_str(
            "20 30 W 99999999999999999999 8\n5 1 R 0 0\n5 nan R 1 1\n5 1 R 18446744073709551615 2\n",
        );
        let trace = of(&text);
        assert_eq!(trace.requests.len(), 2);
        assert_eq!((trace.faults.count, trace.faults.first.len(), trace.faults.first[0].0), (16, 10, 5));
        let strict = read(&mut text.as_bytes(), true).unwrap_err();
        assert!(strict.starts_with("line 5: "), "{strict}");
        assert_eq!(of(&format!("{}\n", "9".repeat(10_000))).faults.count, 1);
    }

    #[test]
    fn issues_and_completions_are_brought_together() {
        let trace = of("\
            cosm-77      [001] .....  100.000000: block_rq_issue: 254,0 R 4096 () 800 + 8 none,0,0 [cosm]\n\
            a + b [x]-9  [000] .....  100.000100: block_rq_issue: 254,0 WSM 8192 () 1600 + 16 none,0,0 [a + b [x]]\n\
            <idle>-0     [001] ..s1.  100.000500: block_rq_complete: 254,0 R () 800 + 8 none,0,0 [0]\n\
            kworker-3    [000] .....  100.000600: block_rq_issue: 254,0 FF 0 () 0 + 0 none,0,0 [kworker]\n\
            <idle>-0     [001] ..s1.  100.000700: block_rq_complete: 254,0 W () 4000 + 8 none,0,0 [0]\n");
        assert_eq!((trace.requests.len(), trace.left_out, trace.faults.count), (2, 2, 0));
        assert!((trace.requests[0].took.unwrap() - 0.5).abs() < 1e-6);
        let second = trace.requests[1];
        assert!(second.took.is_none() && (second.issued - 0.1).abs() < 1e-6);
        assert_eq!(second.transfer, Transfer { way: Way::Write, sector: 1600, count: 16 });
    }

    #[test]
    fn blkparse_is_understood() {
        let trace = of("\
            8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
            8,0    3        2     0.000001829   697  D   W 223490 + 8 [kjournald]\n\
            8,0    3        3     0.000301829     0  C   W 223490 + 8 [0]\n\
            8,0    3        4     0.000400000   697  D  FN [kjournald]\n\
            CPU0 (8,0):\n Reads Queued:           0,        0KiB\n");
        assert_eq!((trace.requests.len(), trace.requests[0].transfer.sector), (1, 223_490));
        assert!((trace.requests[0].took.unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(trace.left_out, 2);
    }

    #[test]
    fn a_trace_is_of_one_device() {
        let line = |device: &str, sector: u64| format!("{device} 3 1 0.5 697 D W {sector} + 8 [x]\n");
        let text = line("8,0", 16) + &line("8,16", 32);
        let trace = of(&text);
        assert_eq!((trace.requests.len(), trace.faults.count), (1, 1));
        assert!(trace.faults.first[0].1.starts_with("of another device"), "{:?}", trace.faults);
        // What was never completed, all at one time, is in the order of its places.
        let text: String = (0..100).rev().map(|nth| line("8,0", nth * 8)).collect();
        assert!(of(&text).requests.is_sorted_by_key(|request| request.transfer.sector));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_malformed(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let trace = read(&mut &bytes[..], false).unwrap();
            prop_assert!(trace.faults.first.iter().all(|(number, why)| *number > 0 && !why.contains('\n')));
        }

        #[test]
        fn what_is_written_is_read(
            all in proptest::collection::vec((0u32..1 << 30, 0u32..1 << 20, any::<bool>(), 0u64..1 << 40, 1u64..4096), 1..40),
        ) {
            let mut writer = Writer::new(Vec::new()).unwrap();
            let mut requests: Vec<Request> = all.into_iter().map(|(issued, took, is_read, sector, count)| Request {
                issued: f64::from(issued) / 1000.0,
                took: (took > 0).then(|| f64::from(took) / 1000.0),
                transfer: Transfer { way: if is_read { Way::Read } else { Way::Write }, sector, count },
            }).collect();
            requests.iter().for_each(|request| writer.write(request).unwrap());
            let trace = read(&mut &writer.into_inner()[..], true).unwrap();
            requests.sort_by(|a, b| a.issued.total_cmp(&b.issued));
            prop_assert_eq!(trace.requests.len(), requests.len());
            for (one, other) in requests.iter().zip(&trace.requests) {
                prop_assert_eq!(one.transfer, other.transfer);
                prop_assert!((one.issued - requests[0].issued - other.issued).abs() < 1e-3);
            }
        }
    }
}
