//! The walker of a client's bytes. However they are cut, the verdict, the request it falls on and the line it falls on
//! are the same. And while nothing is refused, the walker sees the messages that another parser sees: httparse, which
//! the library behind it reads heads with, finds every head's end where the walker does.
#![no_main]

use cosm_fuzz::Input;
use libfuzzer_sys::fuzz_target;
use proxy::fuzzing::{Ambiguous, Place, Walker};

const LINE_MAX: usize = 256;

/// The verdict, heads begun, the place, and how many bytes were good when the feed ended early.
type Verdict = (Option<(u64, Ambiguous)>, u64, Place, Option<usize>);

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let pieces: Vec<usize> = input.take(4).iter().map(|b| usize::from(*b) % 64 + 1).collect();
    let bytes = input.rest();
    let whole = walk(bytes, &[usize::MAX]);
    same(bytes, walk(bytes, &[1]), whole);
    if !pieces.is_empty() {
        same(bytes, walk(bytes, &pieces), whole);
    }
    messages(bytes);
});

/// Of a trailer line that is refused, what came before the piece with its end has gone on already.
fn same(bytes: &[u8], one: Verdict, other: Verdict) {
    assert_eq!((one.0, one.1, one.2), (other.0, other.1, other.2));
    match (one.3, other.3) {
        (Some(a), Some(b)) if a != b => {
            let between = &bytes[a.min(b)..a.max(b)];
            assert!(!between.contains(&b'\n'), "{a} {b}");
        }
        (a, b) => assert_eq!(a, b),
    }
}

fn walk(bytes: &[u8], pieces: &[usize]) -> Verdict {
    let mut walker = Walker::new(LINE_MAX);
    let (mut at, mut sizes) = (0, pieces.iter().cycle());
    let mut ended = None;
    while at < bytes.len() && ended.is_none() {
        let size = (*sizes.next().expect("a size")).min(bytes.len() - at);
        if let Err(used) = walker.feed(&mut bytes[at..at + size].to_vec()) {
            assert!(used < size && walker.refused().is_some());
            ended = Some(at + used);
        }
        at += size;
    }
    (walker.refused(), walker.heads(), walker.place(), ended)
}

/// Follows the messages by httparse and the plainest reading of a body, beside the walker.
fn messages(bytes: &[u8]) {
    let mut walker = Walker::new(LINE_MAX);
    // A head as the library gets it.
    let bytes = &mut bytes.to_vec()[..];
    let mut at = 0;
    for ordinal in 1.. {
        let begin = at;
        // To the end of the head: the walker leaves it at the byte that ends it.
        loop {
            let Some(byte) = bytes.get_mut(at..at + 1) else { return };
            assert_eq!(walker.feed(byte), Ok(()), "heads are refused without an end to the feed");
            if walker.refused().is_some() {
                return;
            }
            at += 1;
            if walker.heads() == ordinal && walker.place() != Place::Head {
                break;
            }
        }
        let mut fields = [httparse::EMPTY_HEADER; 256];
        let mut head = httparse::Request::new(&mut fields);
        match head.parse(&bytes[begin..at]) {
            Ok(status) => {
                assert_eq!(status, httparse::Status::Complete(at - begin), "another end of the head")
            }
            Err(_) => return, // The library refuses it as well.
        }
        let lines = |name: &str| {
            let lines = head.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
            lines.map(|h| std::str::from_utf8(h.value).unwrap_or("?").trim().to_owned()).collect::<Vec<_>>()
        };
        let (lengths, codings) = (lines("content-length"), lines("transfer-encoding"));
        let body = match (&lengths[..], &codings[..]) {
            ([], []) => Some(0),
            ([], [one]) if one.eq_ignore_ascii_case("chunked") => chunked(&bytes[at..]),
            ([first, rest @ ..], []) if rest.iter().all(|more| more.parse::<u64>() == first.parse()) => {
                Some(first.parse().expect("a length that passed is a number"))
            }
            _ => panic!("framing that passed: {lengths:?} {codings:?}"),
        };
        let Some(end) = body.and_then(|body| at.checked_add(body)).filter(|end| *end <= bytes.len()) else {
            return;
        };
        if at < end {
            assert_eq!(walker.place(), Place::Body);
            assert_eq!(walker.feed(&mut bytes[at..end - 1].to_vec()), Ok(()));
            assert_eq!(walker.place(), Place::Body, "the body ends too early");
            assert_eq!(walker.feed(&mut [bytes[end - 1]]), Ok(()));
        }
        assert_eq!((walker.place(), walker.refused()), (Place::Start, None), "the body ends too late");
        at = end;
    }
}

/// The length of a chunked body with its trailer section; `None` when it is not plain or not all there.
fn chunked(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = line(body, at)?;
        let size = std::str::from_utf8(line.split(|b| *b == b';').next()?).ok()?;
        let plain = (1..16).contains(&size.len()) && size.bytes().all(|b| b.is_ascii_hexdigit());
        if !plain || line.contains(&b'\r') {
            return None;
        }
        let size = usize::from_str_radix(size, 16).ok()?;
        at += line.len() + 2;
        if size == 0 {
            break;
        }
        at = at.checked_add(size)?;
        body.get(at..at.checked_add(2)?).filter(|end| *end == b"\r\n")?;
        at += 2;
    }
    loop {
        let line = line(body, at)?;
        let name = line.split(|b| *b == b':').next()?;
        let folded = matches!(line, [b' ' | b'\t', ..]) || matches!(name, [.., b' ' | b'\t']);
        if folded || line.contains(&b'\r') || line.contains(&0) || line.len() + 2 > LINE_MAX {
            return None;
        }
        at += line.len() + 2;
        if line.is_empty() {
            return Some(at);
        }
    }
}

/// The line that begins at `at`, without the CR LF that must end it.
fn line(body: &[u8], at: usize) -> Option<&[u8]> {
    let rest = body.get(at..)?;
    let end = rest.iter().position(|b| *b == b'\n')?;
    rest[..end].strip_suffix(b"\r")
}
