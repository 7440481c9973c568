//! Finds ambiguous message framing in a client's bytes, before the HTTP library has forgiven it.
//!
//! The walker is fed every byte that the connection reads, in pieces of any size, and follows message after message.
//! The first head whose framing two readers could understand differently is remembered by its ordinal, so that the
//! request that carries it is refused; a body that is not framed cleanly ends the feed at the first bad byte. It
//! decides nothing that the library refuses anyway: a name's characters, the request line, control characters. But of a
//! version that the library refuses it says so, and a later version of HTTP/1 it writes as 1.1, as which it is to be read.
//! What always holds: cutting the input differently never changes the verdict; memory is one line of a head.

/// Where in a message the walker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between messages.
    Start,
    /// Inside a head.
    Head,
    /// Inside a body.
    Body,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ambiguous {
    Version,
    BothLengths,
    ManyLengths,
    BadLength,
    TransferCoding,
    Folding,
    BareCr,
    BareLf,
    Nul,
    SpaceBeforeColon,
    LongLine,
    ChunkSize,
    ChunkEnd,
}

impl Ambiguous {
    /// One line for the client.
    pub fn text(self) -> &'static str {
        match self {
            Ambiguous::Version => "a version of HTTP other than 1.0 and 1.1",
            Ambiguous::BothLengths => "both Content-Length and Transfer-Encoding",
            Ambiguous::ManyLengths => "several Content-Length values",
            Ambiguous::BadLength => "a Content-Length that is not a number",
            Ambiguous::TransferCoding => "a Transfer-Encoding other than chunked",
            Ambiguous::Folding => "a folded header line",
            Ambiguous::BareCr => "a carriage return without a line feed",
            Ambiguous::BareLf => "a line feed without a carriage return",
            Ambiguous::Nul => "a NUL in the head",
            Ambiguous::SpaceBeforeColon => "white space around a header's name",
            Ambiguous::LongLine => "a header line that is too long",
            Ambiguous::ChunkSize => "a chunk size that is not plain hexadecimal",
            Ambiguous::ChunkEnd => "a chunk that is longer than its size",
        }
    }
}

/// Walks the bytes of one connection.
#[derive(Debug)]
pub struct Walker {
    state: State,
    /// Heads begun so far: the first has the ordinal 1.
    heads: u64,
    refused: Option<(u64, Ambiguous)>,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    line_max: usize,
    /// What the current head said of its body.
    length: Option<u64>,
    chunked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the request line; empty lines are skipped, as the library does.
    Start,
    /// In the lines of a head, the request line included.
    Head { first: bool },
    /// This many bytes of body are still to come.
    Length(u64),
    /// At or in the line of a chunk's size: digits so far and their value.
    Size { digits: u8, value: u64 },
    /// In a chunk extension, which ends with its line.
    Extension { cr: bool },
    /// After the size's carriage return.
    SizeLf { value: u64 },
    /// In a chunk's bytes.
    Data(u64),
    /// After a chunk's bytes: its line end.
    DataEnd { cr: bool },
    /// In the trailer section.
    Trailer,
    /// Nothing is walked any more: refused, or handed over to a tunnel.
    Done,
}

impl Walker {
    /// `line_max`: bytes of the longest line of a head.
    pub fn new(line_max: usize) -> Walker {
        Walker {
            state: State::Start,
            heads: 0,
            refused: None,
            line: Vec::new(),
            line_max,
            length: None,
            chunked: false,
        }
    }

    /// Walks the next bytes of the connection. `Err(n)`: a body is not framed cleanly; only the first `n` of these
    /// bytes may be used, and none that follow.
    pub fn feed(&mut self, bytes: &mut [u8]) -> Result<(), usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &mut bytes[at..];
            at += match self.state {
                State::Start => self.start(rest),
                State::Head { .. } => self.line(rest),
                State::Trailer => {
                    let taken = self.line(rest);
                    if self.refused.is_some() {
                        return Err(at);
                    }
                    taken
                }
                State::Length(left) => self.length(rest, left),
                State::Data(left) => self.data(rest, left),
                State::Size { .. }
                | State::SizeLf { .. }
                | State::Extension { .. }
                | State::DataEnd { .. } => {
                    if let Err(why) = self.between_chunks(rest[0]) {
                        self.refuse(why);
                        return Err(at);
                    }
                    1
                }
                State::Done => return Ok(()),
            };
        }
        Ok(())
    }

    /// The first request that must be refused, counted from 1.
    pub fn refused(&self) -> Option<(u64, Ambiguous)> {
        self.refused
    }

    /// Heads begun so far.
    pub fn heads(&self) -> u64 {
        self.heads
    }

    pub fn place(&self) -> Place {
        match self.state {
            State::Start | State::Done => Place::Start,
            State::Head { .. } => Place::Head,
            _ => Place::Body,
        }
    }

    /// The connection is a tunnel from here on.
    pub fn stop(&mut self) {
        self.state = State::Done;
        self.line = Vec::new();
    }

    fn refuse(&mut self, why: Ambiguous) {
        self.refused.get_or_insert((self.heads, why));
        self.stop();
    }

    fn start(&mut self, rest: &[u8]) -> usize {
        let empty = rest.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        if empty < rest.len() {
            self.state = State::Head { first: true };
            self.heads += 1;
            self.length = None;
            self.chunked = false;
        }
        empty
    }

    /// Takes one line, or what has come of it, of a head or a trailer section.
    fn line(&mut self, rest: &mut [u8]) -> usize {
        let end = memchr::memchr(b'\n', rest);
        if self.state == (State::Head { first: true }) {
            let line = end.unwrap_or(rest.len());
            self.version(&mut rest[..line]);
            if self.refused.is_some() {
                return rest.len();
            }
        }
        let Some(end) = end else {
            if self.line.len() + rest.len() > self.line_max {
                self.refuse(Ambiguous::LongLine);
            } else {
                self.line.extend_from_slice(rest);
            }
            return rest.len();
        };
        let taken = end + 1;
        if self.line.len() + taken > self.line_max {
            self.refuse(Ambiguous::LongLine);
        } else if self.line.is_empty() {
            self.whole_line(&rest[..taken]);
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&rest[..taken]);
            self.whole_line(&line);
            line.clear();
            self.line = line;
        }
        taken
    }

    /// RFC 9110 section 2.5, as soon as the version is there, which is when the library judges it. `rest`: of the request line.
    fn version(&mut self, rest: &mut [u8]) {
        let before = self.line.len();
        let later = memchr::memchr_iter(b' ', rest).map(|at| before + at);
        let Some(space) = memchr::memchr_iter(b' ', &self.line).chain(later).nth(1) else { return };
        let last = space + 8;
        let Some(here) = last.checked_sub(before).filter(|at| *at < rest.len() && last < self.line_max)
        else {
            return;
        };
        let version = |n: usize| match (space + 1 + n).checked_sub(before) {
            Some(at) => rest[at],
            None => self.line[space + 1 + n],
        };
        match std::array::from_fn(version) {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => rest[here] = b'1',
            [b'H', b'T', b'T', b'P', b'/', b'0' | b'2'..=b'9', b'.', b'0'..=b'9'] => {
                self.refuse(Ambiguous::Version)
            }
            _ => {}
        }
    }

    fn whole_line(&mut self, line: &[u8]) {
        let Some(text) = line.strip_suffix(b"\r\n") else {
            return self.refuse(Ambiguous::BareLf);
        };
        if text.is_empty() {
            return self.end_of_lines();
        }
        if let Some(stray) = memchr::memchr2(b'\r', 0, text) {
            return self.refuse(if text[stray] == 0 { Ambiguous::Nul } else { Ambiguous::BareCr });
        }
        if self.state == (State::Head { first: true }) {
            self.state = State::Head { first: false };
        } else if let Err(why) = self.field(text) {
            self.refuse(why);
        }
    }

    fn field(&mut self, text: &[u8]) -> Result<(), Ambiguous> {
        if matches!(text[0], b' ' | b'\t') {
            return Err(Ambiguous::Folding);
        }
        let colon = memchr::memchr(b':', text).unwrap_or(text.len());
        let name = &text[..colon];
        if matches!(name.last(), Some(b' ' | b'\t')) {
            return Err(Ambiguous::SpaceBeforeColon);
        }
        if self.state == State::Trailer {
            return Ok(());
        }
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value(text, colon)),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.transfer_encoding(value(text, colon))
            }
            _ => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Ambiguous> {
        let plain = !value.is_empty() && value.len() < 20 && value.iter().all(u8::is_ascii_digit);
        if value.contains(&b',') {
            return Err(Ambiguous::ManyLengths);
        }
        if !plain {
            return Err(Ambiguous::BadLength);
        }
        let length = value.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        if self.chunked {
            return Err(Ambiguous::BothLengths);
        }
        match self.length.replace(length) {
            Some(before) if before != length => Err(Ambiguous::ManyLengths),
            _ => Ok(()),
        }
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Ambiguous> {
        if self.length.is_some() {
            return Err(Ambiguous::BothLengths);
        }
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Ambiguous::TransferCoding);
        }
        self.chunked = true;
        Ok(())
    }

    fn end_of_lines(&mut self) {
        self.state = match (self.state, self.chunked, self.length) {
            (State::Trailer, ..) => State::Start,
            (_, true, _) => State::Size { digits: 0, value: 0 },
            (_, _, None | Some(0)) => State::Start,
            (_, _, Some(length)) => State::Length(length),
        };
    }

    fn length(&mut self, rest: &[u8], left: u64) -> usize {
        let taken = at_most(rest, left);
        let left = left - taken as u64;
        self.state = if left == 0 { State::Start } else { State::Length(left) };
        taken
    }

    fn data(&mut self, rest: &[u8], left: u64) -> usize {
        let taken = at_most(rest, left);
        let left = left - taken as u64;
        self.state = if left == 0 { State::DataEnd { cr: false } } else { State::Data(left) };
        taken
    }

    fn between_chunks(&mut self, byte: u8) -> Result<(), Ambiguous> {
        self.state = match (self.state, byte) {
            (State::Size { digits, value }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if digits == 15 {
                    return Err(Ambiguous::ChunkSize);
                }
                let digit = u64::from((byte as char).to_digit(16).unwrap_or(0));
                State::Size { digits: digits + 1, value: value << 4 | digit }
            }
            (State::Size { digits: 0, .. }, _) => return Err(Ambiguous::ChunkSize),
            (State::Size { value, .. }, b'\r') => State::SizeLf { value },
            (State::Size { value, .. }, b';') => {
                // The size waits in `length` while the extension passes; a chunked body has no other length.
                self.length = Some(value);
                State::Extension { cr: false }
            }
            (State::Size { .. }, _) => return Err(Ambiguous::ChunkSize),
            (State::Extension { cr: false }, b'\r') => State::Extension { cr: true },
            (State::Extension { cr: false }, b'\n') => return Err(Ambiguous::BareLf),
            (State::Extension { cr: false }, _) => State::Extension { cr: false },
            (State::Extension { cr: true }, b'\n') => self.after_size(self.length.unwrap_or(0)),
            (State::Extension { cr: true }, _) => return Err(Ambiguous::BareCr),
            (State::SizeLf { value }, b'\n') => self.after_size(value),
            (State::SizeLf { .. }, _) => return Err(Ambiguous::BareCr),
            (State::DataEnd { cr: false }, b'\r') => State::DataEnd { cr: true },
            (State::DataEnd { cr: true }, b'\n') => State::Size { digits: 0, value: 0 },
            (State::DataEnd { .. }, _) => return Err(Ambiguous::ChunkEnd),
            (state, _) => state,
        };
        Ok(())
    }

    fn after_size(&self, value: u64) -> State {
        if value == 0 { State::Trailer } else { State::Data(value) }
    }
}

fn at_most(rest: &[u8], left: u64) -> usize {
    usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()))
}

fn value(text: &[u8], colon: usize) -> &[u8] {
    text.get(colon + 1..).unwrap_or_default().trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Verdict = (Option<(u64, Ambiguous)>, bool, Place);

    /// Feeds `bytes` cut after each of `cuts`; tells the verdict, whether the feed ended early, and the place.
    fn walk(bytes: &[u8], cuts: &[usize]) -> Verdict {
        let mut walker = Walker::new(1024);
        let mut from = 0;
        for &cut in cuts.iter().chain([&bytes.len()]) {
            if let Err(used) = walker.feed(&mut bytes[from..cut].to_vec()) {
                assert!(from + used < bytes.len());
                return (walker.refused(), true, walker.place());
            }
            from = cut;
        }
        (walker.refused(), false, walker.place())
    }

    fn refused(bytes: &[u8]) -> Option<Ambiguous> {
        walk(bytes, &[]).0.map(|(_, why)| why)
    }

    #[test]
    fn clean_messages_pass() {
        for clean in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n00A;x=\"y\"\r\n0123456789\r\n0;z\r\nT: 1\r\n\r\n",
        ] {
            assert_eq!(walk(clean.as_bytes(), &[]), (None, false, Place::Start), "{clean:?}");
        }
    }

    #[test]
    fn ambiguous_messages_are_refused() {
        let head = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
        let chunk = |body: &str| format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        let table = [
            ("GET / HTTP/2.0\r\n\r\n".into(), Ambiguous::Version),
            ("GET / HTTP/0.9".into(), Ambiguous::Version),
            (head("Content-Length: 5\r\nTransfer-Encoding: chunked"), Ambiguous::BothLengths),
            (head("Transfer-Encoding: chunked\r\nContent-Length: 5"), Ambiguous::BothLengths),
            (head("Content-Length: 5\r\nContent-Length: 6"), Ambiguous::ManyLengths),
            (head("Content-Length: 5, 5"), Ambiguous::ManyLengths),
            (head("Content-Length: +5"), Ambiguous::BadLength),
            (head("Content-Length: -5"), Ambiguous::BadLength),
            (head("Content-Length: 0x5"), Ambiguous::BadLength),
            (head("Content-Length: 5 5"), Ambiguous::BadLength),
            (head("Content-Length:"), Ambiguous::BadLength),
            (head("Content-Length: 99999999999999999999"), Ambiguous::BadLength),
            (head("Transfer-Encoding: gzip, chunked"), Ambiguous::TransferCoding),
            (head("Transfer-Encoding: chunked, chunked"), Ambiguous::TransferCoding),
            (head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), Ambiguous::TransferCoding),
            (head("Transfer-Encoding: xchunked"), Ambiguous::TransferCoding),
            (head("Transfer-Encoding: \u{b}chunked"), Ambiguous::TransferCoding),
            (head("Transfer-Encoding: identity"), Ambiguous::TransferCoding),
            (head("A: b\r\n c"), Ambiguous::Folding),
            (head("Transfer-Encoding: chunked\r\n\tx"), Ambiguous::Folding),
            (head("A: b\rContent-Length: 3"), Ambiguous::BareCr),
            (head("A: b\nContent-Length: 3"), Ambiguous::BareLf),
            (head("A: b\0c"), Ambiguous::Nul),
            (head("Content-Length : 5"), Ambiguous::SpaceBeforeColon),
            (head(&format!("A: {}", "x".repeat(2000))), Ambiguous::LongLine),
            (chunk("0x5\r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("+5\r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("-5\r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk(" 5\r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("5 \r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("\r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("g\r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("00000000000000005\r\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("5\nhello\r\n0\r\n\r\n"), Ambiguous::ChunkSize),
            (chunk("5\rhello\r\n0\r\n\r\n"), Ambiguous::BareCr),
            (chunk("5;a\nhello\r\n0\r\n\r\n"), Ambiguous::BareLf),
            (chunk("5\r\nhello!\r\n0\r\n\r\n"), Ambiguous::ChunkEnd),
            (chunk("5\r\nhello\n0\r\n\r\n"), Ambiguous::ChunkEnd),
            (chunk("0\r\nA: b\n\r\n"), Ambiguous::BareLf),
            (chunk("0\r\n folded: b\r\n\r\n"), Ambiguous::Folding),
        ];
        for (bytes, why) in table {
            assert_eq!(refused(bytes.as_bytes()), Some(why), "{bytes:?}");
        }
    }

    #[test]
    fn a_later_version_of_http_1_is_read_as_1_1_however_it_is_cut() {
        for (line, read) in [
            ("GET / HTTP/1.2\r\n", "GET / HTTP/1.1\r\n"),
            ("GET / HTTP/1.9\r\n", "GET / HTTP/1.1\r\n"),
            ("GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n"),
            ("GET / HTTP/1.0\r\n", "GET / HTTP/1.0\r\n"),
            // What these are is the library's to say.
            ("GET / HTTP/1.20\r\n", "GET / HTTP/1.10\r\n"),
            ("GET / http/1.2\r\n", "GET / http/1.2\r\n"),
            ("GET  / HTTP/1.2\r\n", "GET  / HTTP/1.2\r\n"),
            ("GET /\r\nA: b HTTP/1.2\r\n", "GET /\r\nA: b HTTP/1.2\r\n"),
        ] {
            for cut in 0..line.len() {
                let (mut walker, mut bytes) = (Walker::new(1024), line.as_bytes().to_vec());
                let (first, second) = bytes.split_at_mut(cut);
                assert!(walker.feed(first).is_ok() && walker.feed(second).is_ok());
                assert_eq!(std::str::from_utf8(&bytes), Ok(read), "cut at {cut}");
            }
        }
    }

    #[test]
    fn the_ordinal_is_that_of_the_request_which_carries_it() {
        let clean = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";
        let bad = "POST / HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n";
        let bytes = format!("{clean}{clean}{bad}{clean}");
        assert_eq!(walk(bytes.as_bytes(), &[]).0, Some((3, Ambiguous::BothLengths)));
    }

    /// Pieces of messages, good and bad, so that random input gets past the first byte.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let known = [
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.2\r\n",
            "GET / HTTP/2.0\r\n",
            "Host: a\r\n",
            "\r\n",
            "\n",
            "\r",
            "Content-Length: 3\r\n",
            "Content-Length: 4\r\n",
            "Transfer-Encoding: chunked\r\n",
            "abc",
            "3\r\nabc\r\n",
            "0\r\n\r\n",
            "0\r\n",
            " ",
            "5;e=1\r\n",
            "T: 1\r\n",
        ];
        prop_oneof![
            8 => proptest::sample::select(known.map(|text| text.as_bytes().to_vec()).to_vec()),
            1 => proptest::collection::vec(any::<u8>(), 0..8),
        ]
    }

    proptest! {
        #[test]
        fn cutting_changes_nothing(
            pieces in proptest::collection::vec(piece(), 0..24),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let bytes = pieces.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let each: Vec<usize> = (0..bytes.len()).collect();
            let whole = walk(&bytes, &[]);
            prop_assert_eq!(walk(&bytes, &cuts), whole);
            prop_assert_eq!(walk(&bytes, &each), whole);
        }
    }
}
