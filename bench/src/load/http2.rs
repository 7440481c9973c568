//! One connection of HTTP/2 (RFC 9113) over TLS, with many requests under way.
//!
//! It does what it needs and no more: requests are one frame of literal fields, content is counted and on a sample compared,
//! windows are opened again. They are as wide as Chromium's; HPACK's table is the default one. A stream that the server resets, or a
//! connection that it ends, fails the run.

use super::client::{Client, Speaks};
use super::connection::{Answered, Broken, Target, next_tag};
use super::response;
use super::tls::Session;
use crate::body::Object;
use crate::loopback;
// Others make a table of the Huffman code for each field, which would make the generator the limit.
use httlib_hpack::Decoder;
use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of content that a server may send before we open its window again.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;
const INITIAL_WINDOW: u32 = 65_535;
/// RFC 9113 section 4.2: what we do not raise.
const FRAME_MAX: usize = 16_384;
const HEADER_TABLE: u32 = 4096;

/// RFC 9113 section 6.
mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

mod flag {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

mod setting {
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
}

pub struct Http2 {
    stream: TcpStream,
    session: Box<Session>,
    frames: Frames,
}

impl Client for Http2 {
    fn open(target: &Target, speaks: &Speaks) -> Result<Http2, String> {
        let Speaks::Http2(tls, streams) = speaks else { return Err("HTTP/2 is asked over TLS only".into()) };
        let say = |e: std::io::Error| format!("connect {}: {e}", target.server);
        let stream = loopback::connecting(target.server).map_err(say)?;
        stream.set_nodelay(true).map_err(say)?;
        Ok(Http2 { stream, session: Box::new(Session::begin(tls)?), frames: Frames::new(target, *streams) })
    }

    fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn ask(&mut self, object: Object, check: bool) -> Result<(), String> {
        self.frames.ask(object, check)
    }

    fn under_way(&self) -> Vec<Object> {
        self.frames.streams.values().map(|stream| stream.object).collect()
    }

    fn send(&mut self) -> Result<(), String> {
        if !self.frames.output.is_empty() {
            self.session.write(&self.frames.output)?;
            self.frames.output.clear();
        }
        match self.session.flush(&self.stream) {
            // Reading tells.
            Ok(()) | Err(Broken::Closed) => Ok(()),
            Err(Broken::Failed(why)) => Err(why),
        }
    }

    fn waits_for_socket(&self) -> bool {
        self.session.waits_for_socket()
    }

    fn receive(&mut self, scratch: &mut [u8], answers: &mut Vec<Answered>) -> Result<(), Broken> {
        let count = self.session.read(&self.stream, scratch)?;
        let frames = &mut self.frames;
        self.session.take(&mut scratch[..count], &mut |bytes| frames.take(bytes, answers))?;
        Ok(())
    }
}

/// What is said on a connection, without the connection.
struct Frames {
    /// The fields of every request but its path.
    fields: Vec<u8>,
    tagged: bool,
    /// Requests at once.
    most: usize,
    next: u32,
    streams: HashMap<u32, Stream>,
    decoder: Decoder<'static>,
    head: [u8; 9],
    /// Bytes of `head` that are there; all while the frame's payload is to come.
    filled: usize,
    frame: Frame,
    /// Of frames other than DATA.
    payload: Vec<u8>,
    /// Content since the window was opened.
    taken: u32,
    output: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    left: usize,
}

struct Stream {
    object: Object,
    tag: Option<u64>,
    asked: Instant,
    check: bool,
    status: u16,
    hit: bool,
    received: u64,
    wrong: bool,
}

impl Frames {
    fn new(target: &Target, most: usize) -> Frames {
        // :method GET, :scheme https by their numbers in the static table; :authority as a literal.
        let mut fields = vec![0x82, 0x87, 0x01];
        literal(&mut fields, target.server.to_string().as_bytes());
        let mut frames = Frames {
            fields,
            tagged: target.tagged,
            most,
            next: 1,
            streams: HashMap::with_capacity(most),
            decoder: Decoder::with_dynamic_size(HEADER_TABLE),
            head: [0; 9],
            filled: 0,
            frame: Frame::default(),
            payload: Vec::new(),
            taken: 0,
            output: PREFACE.to_vec(),
        };
        let mut settings = Vec::new();
        for (name, value) in [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW)] {
            settings.extend_from_slice(&name.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frames.put(kind::SETTINGS, 0, 0, &settings);
        frames.open_window(CONNECTION_WINDOW - INITIAL_WINDOW);
        frames
    }

    fn ask(&mut self, object: Object, check: bool) -> Result<(), String> {
        if object.size > u64::from(STREAM_WINDOW) {
            return Err(format!("objects of HTTP/2 have {STREAM_WINDOW} bytes at most here"));
        }
        let mut block = self.fields.clone();
        // :path, by its number; then a field with a name of its own.
        block.push(0x04);
        literal(&mut block, format!("/s/{}/{}", object.size, object.number).as_bytes());
        let tag = self.tagged.then(next_tag);
        if let Some(tag) = tag {
            block.push(0x00);
            literal(&mut block, b"cosm-ask");
            literal(&mut block, tag.to_string().as_bytes());
        }
        let stream = self.next;
        self.next += 2;
        self.put(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, stream, &block);
        let (asked, status) = (Instant::now(), 0);
        let stream_of = Stream { object, tag, asked, check, status, hit: false, received: 0, wrong: false };
        self.streams.insert(stream, stream_of);
        Ok(())
    }

    /// Takes bytes as they come, in any pieces.
    fn take(&mut self, mut bytes: &[u8], answers: &mut Vec<Answered>) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.filled < self.head.len() {
                let count = bytes.len().min(self.head.len() - self.filled);
                self.head[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
                self.filled += count;
                bytes = &bytes[count..];
                if self.filled < self.head.len() {
                    return Ok(());
                }
                self.begin()?;
            }
            let count = bytes.len().min(self.frame.left);
            if self.frame.kind == kind::DATA {
                self.content(&bytes[..count])?;
            } else {
                self.payload.extend_from_slice(&bytes[..count]);
            }
            self.frame.left -= count;
            bytes = &bytes[count..];
            if self.frame.left == 0 {
                self.filled = 0;
                self.end(answers)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        let left = u32::from_be_bytes([0, a, b, c]) as usize;
        if left > FRAME_MAX {
            return Err(format!("a frame of {left} bytes"));
        }
        if matches!(kind, kind::DATA | kind::HEADERS) && flags & flag::PADDED != 0 {
            return Err("frames with padding are not measured here".into());
        }
        self.frame = Frame { kind, flags, stream: u32::from_be_bytes(stream) & !(1 << 31), left };
        self.payload.clear();
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.taken += bytes.len() as u32;
        let stream = of(&mut self.streams, self.frame.stream)?;
        if stream.check && stream.status == 200 {
            stream.wrong |= !stream.object.holds(stream.received, bytes);
        }
        stream.received += bytes.len() as u64;
        Ok(())
    }

    /// A frame is there as a whole.
    fn end(&mut self, answers: &mut Vec<Answered>) -> Result<(), String> {
        let Frame { kind, flags, stream, .. } = self.frame;
        let number = |at: usize| {
            let bytes = self.payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_be_bytes)
        };
        match kind {
            kind::DATA | kind::HEADERS => {
                if kind == kind::HEADERS {
                    self.fields_came()?;
                } else if self.taken > CONNECTION_WINDOW / 2 {
                    self.open_window(self.taken);
                    self.taken = 0;
                }
                if flags & flag::END_STREAM != 0 {
                    answers.push(self.answered()?);
                }
            }
            kind::SETTINGS if flags & flag::ACK == 0 => {
                for (name, value) in self.payload.chunks_exact(6).map(setting) {
                    if name == setting::MAX_CONCURRENT_STREAMS && (value as usize) < self.most {
                        return Err(format!("the server allows {value} streams at once, not {}", self.most));
                    }
                }
                self.put(kind::SETTINGS, flag::ACK, 0, &[]);
            }
            kind::PING if flags & flag::ACK == 0 => {
                let payload = std::mem::take(&mut self.payload);
                self.put(kind::PING, flag::ACK, 0, &payload);
            }
            kind::RST_STREAM => return Err(format!("stream {stream} was reset with code {}", number(0))),
            kind::GOAWAY => {
                let words = self.payload.get(8..).unwrap_or_default().escape_ascii();
                return Err(format!("the server ends the connection with code {}: {words}", number(4)));
            }
            kind::CONTINUATION => return Err("heads of several frames are not measured here".into()),
            kind::SETTINGS | kind::PING | kind::PRIORITY | kind::WINDOW_UPDATE => {}
            // RFC 9113 section 5.5: what is not known is passed over.
            _ => {}
        }
        Ok(())
    }

    fn fields_came(&mut self) -> Result<(), String> {
        let Frame { flags, stream, .. } = self.frame;
        if flags & flag::END_HEADERS == 0 {
            return Err("heads of several frames are not measured here".into());
        }
        if flags & flag::PRIORITY != 0 {
            self.payload.drain(..5.min(self.payload.len()));
        }
        if !is_whole(&self.payload) {
            return Err("a head that is cut off".into());
        }
        let mut fields = Vec::with_capacity(16);
        let decoded = self.decoder.decode(&mut self.payload, &mut fields);
        decoded.map_err(|e| format!("a head that is no HPACK: {e:?}"))?;
        let stream = of(&mut self.streams, stream)?;
        for (name, value, _) in &fields {
            match &name[..] {
                b":status" => stream.status = response::decimal(value).unwrap_or(0) as u16,
                b"cosm-asked" if stream.tag.is_some() => stream.hit = response::decimal(value) != stream.tag,
                b"cache-status" if stream.tag.is_none() => stream.hit = response::hit(value),
                _ => {}
            }
        }
        Ok(())
    }

    fn answered(&mut self) -> Result<Answered, String> {
        let number = self.frame.stream;
        let stream = self.streams.remove(&number).ok_or_else(|| unknown(number))?;
        let whole = stream.received == stream.object.size;
        Ok(Answered {
            object: stream.object,
            asked: stream.asked,
            status: stream.status,
            hit: stream.hit,
            close: false,
            checked: stream.check && stream.status == 200,
            wrong: stream.wrong || (stream.status == 200 && !whole),
        })
    }

    fn open_window(&mut self, bytes: u32) {
        self.put(kind::WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes());
    }

    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = payload.len() as u32;
        self.output.extend_from_slice(&length.to_be_bytes()[1..]);
        self.output.extend_from_slice(&[kind, flags]);
        self.output.extend_from_slice(&stream.to_be_bytes());
        self.output.extend_from_slice(payload);
    }
}

fn of(streams: &mut HashMap<u32, Stream>, number: u32) -> Result<&mut Stream, String> {
    streams.get_mut(&number).ok_or_else(|| unknown(number))
}

fn unknown(stream: u32) -> String {
    format!("a frame of stream {stream}, which is not open")
}

fn setting(bytes: &[u8]) -> (u16, u32) {
    let name = u16::from_be_bytes([bytes[0], bytes[1]]);
    (name, u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]))
}

/// Whether all fields of a head end in it (RFC 7541 section 6): the decoder reads beyond its end otherwise.
fn is_whole(mut block: &[u8]) -> bool {
    while let Some(&first) = block.first() {
        let (prefix, strings) = match first {
            0x80.. => (7, 0),
            0x40.. => (6, 1),
            0x20.. => (5, 0),
            _ => (4, 1),
        };
        let Some((index, mut rest)) = integer(block, prefix) else { return false };
        // A name of its own goes before the value.
        let strings = if index == 0 { 2 * strings } else { strings };
        for _ in 0..strings {
            let after = integer(rest, 7).and_then(|(length, text)| text.get(length..));
            let Some(after) = after else { return false };
            rest = after;
        }
        block = rest;
    }
    true
}

/// RFC 7541 section 5.1, of five bytes at most; and what follows.
fn integer(bytes: &[u8], prefix: u32) -> Option<(usize, &[u8])> {
    let (first, mut rest) = bytes.split_first()?;
    let most = (1 << prefix) - 1;
    let mut value = usize::from(*first) & most;
    if value < most {
        return Some((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (byte, after) = rest.split_first()?;
        value += usize::from(byte & 0x7f) << shift;
        rest = after;
        if byte & 0x80 == 0 {
            return Some((value, rest));
        }
    }
    None
}

/// RFC 7541 section 5.2, of less than 127 bytes, not packed.
fn literal(block: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() < 127);
    block.push(bytes.len() as u8);
    let _ = block.write_all(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        let server = "127.0.0.1:443".parse().unwrap();
        let target = Target { server, origin: None, tagged: true, close: false };
        let mut frames = Frames::new(&target, 2);
        frames.output.clear();
        frames
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frames = frames();
        frames.put(kind, flags, stream, payload);
        frames.output
    }

    /// A head whose fields a server may have packed: status 200 by its number, the field as a literal.
    fn head(asked: &[u8]) -> Vec<u8> {
        let mut block = vec![0x88, 0x40];
        literal(&mut block, b"cosm-asked");
        literal(&mut block, asked);
        block
    }

    #[test]
    fn a_request_is_what_hpack_says() {
        let mut frames = frames();
        frames.ask(Object { size: 20, number: 7 }, true).unwrap();
        assert_eq!(frames.output[3..9], [kind::HEADERS, 5, 0, 0, 0, 1]);
        let mut block = frames.output.split_off(9);
        let mut fields = Vec::new();
        Decoder::default().decode(&mut block, &mut fields).unwrap();
        let fields: Vec<(&[u8], &[u8])> =
            fields.iter().map(|(name, value, _)| (&name[..], &value[..])).collect();
        let tag = frames.streams[&1].tag.unwrap().to_string();
        let expected: [(&[u8], &[u8]); 5] = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", b"127.0.0.1:443"),
            (b":path", b"/s/20/7"),
            (b"cosm-ask", tag.as_bytes()),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn answers_come_in_any_pieces() {
        let (first, second) = (Object { size: 20, number: 7 }, Object { size: 30, number: 8 });
        for piece in [1, 3, 10, 1000] {
            let mut frames = frames();
            frames.ask(first, true).unwrap();
            frames.ask(second, true).unwrap();
            let mut bytes = frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
            bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, 1, &head(b"0")));
            // The same fields again, by the dynamic table.
            bytes.extend(frame(kind::HEADERS, flag::END_HEADERS, 3, &[0x88, 0xbe]));
            bytes.extend(frame(kind::DATA, 0, 3, &second.whole()[..10]));
            bytes.extend(frame(kind::DATA, flag::END_STREAM, 1, &second.whole()[..20]));
            bytes.extend(frame(kind::DATA, flag::END_STREAM, 3, &second.whole()[10..]));
            let mut answers = Vec::new();
            bytes.chunks(piece).for_each(|bytes| frames.take(bytes, &mut answers).unwrap());
            let told: Vec<_> = answers
                .iter()
                .map(|one| (one.object.number, one.status, one.hit, one.checked, one.wrong))
                .collect();
            assert_eq!(told, [(7, 200, true, true, true), (8, 200, true, true, false)]);
            assert!(frames.streams.is_empty());
            assert!(frames.output.ends_with(&frame(kind::SETTINGS, flag::ACK, 0, &[])));
        }
    }

    #[test]
    fn a_head_that_is_cut_off_is_told() {
        let mut whole = head(b"12345");
        // An index of two bytes, and a longer value.
        whole.extend_from_slice(&[0x1f, 0x01]);
        literal(&mut whole, b"x");
        assert!(is_whole(&whole));
        // Cuts between two fields leave whole ones.
        let fields = [1, whole.len() - 4];
        for cut in 1..whole.len() {
            assert_eq!(is_whole(&whole[..cut]), fields.contains(&cut), "{cut}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_named() {
        let says = |bytes: &[u8]| {
            let mut frames = frames();
            frames.ask(Object { size: 20, number: 7 }, false).unwrap();
            frames.take(bytes, &mut Vec::new()).unwrap_err()
        };
        assert!(says(&frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1])).contains("1 streams"));
        assert!(says(&frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 7])).contains("code 7"));
        assert!(says(&frame(kind::GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\x0bcalm")).contains("code 11: calm"));
        assert!(says(&frame(kind::DATA, 0, 5, b"x")).contains("stream 5"));
        assert!(says(&frame(kind::HEADERS, 0, 1, &[0x88])).contains("several frames"));
        assert!(says(&[0xff; 9]).contains("bytes"));
    }
}
