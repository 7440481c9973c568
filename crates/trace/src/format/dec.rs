//! The web proxy traces of Digital Equipment Corporation (1996), which the papers used: a header, then records of
//! little-endian numbers. Version 1 has no number for the whole URL.

use super::{Format, Framing, Kept, Parser, Writer};
use crate::{Access, Method, hash};

pub const V2: Format = Format {
    name: "dec",
    about: "Digital's proxy traces, version 2",
    begins: |bytes| Dec { with_url: true }.suits(bytes),
    parser: || Box::new(Dec { with_url: true }),
    writer: || Box::new(Dec { with_url: true }),
};

pub const V1: Format = Format {
    name: "dec-v1",
    about: "Digital's proxy traces, version 1",
    begins: |bytes| Dec { with_url: false }.suits(bytes),
    parser: || Box::new(Dec { with_url: false }),
    writer: || Box::new(Dec { with_url: false }),
};

const HEADER: usize = 8192;
/// event_duration, server_duration, last_mod, time_sec, time_usec, client, server, port, path, query, size.
const NUMBERS: usize = 11;
/// status, type, flags, method, protocol.
const TAIL: usize = 2 + 1 + 1 + 4 + 4;
const METHODS: [Method; 5] = [Method::Other, Method::Get, Method::Post, Method::Head, Method::Other];
const HTTP: u32 = 1;
/// Among the flags: the URL has a query; it names a CGI.
const PROGRAM: u8 = 8 | 32;
/// Records that must look right before a file counts as such a trace.
const LOOK_AT: usize = 8;

struct Dec {
    with_url: bool,
}

impl Dec {
    fn record(&self) -> usize {
        4 * (NUMBERS + usize::from(self.with_url)) + TAIL
    }

    fn suits(&self, bytes: &[u8]) -> bool {
        let Some(records) = bytes.get(HEADER..) else { return false };
        let all = records.chunks_exact(self.record()).take(LOOK_AT);
        let mut before = 0;
        all.len() > 0
            && all.into_iter().all(|record| {
                let (time, micros) = (u32_at(record, 3), u32_at(record, 4));
                let tail = &record[self.record() - TAIL..];
                let status = u16::from_le_bytes([tail[0], tail[1]]);
                let fits = time >= before && micros < 1_000_000 && status < 1000 && u32_at(tail, 1) <= 4;
                before = time;
                fits && time > 0
            })
    }
}

impl Parser for Dec {
    fn framing(&self) -> Framing {
        Framing::Records { header: HEADER, record: self.record() }
    }

    fn parse(&mut self, record: &[u8], access: &mut Access) -> Result<Kept, String> {
        let number = |at| u32_at(record, at);
        let tail = &record[self.record() - TAIL..];
        if number(4) >= 1_000_000 {
            return Err(format!("{} microseconds", number(4)));
        }
        access.time = u64::from(number(3)) * 1_000_000 + u64::from(number(4));
        access.modified = u64::from(number(2));
        access.client = u64::from(number(5));
        access.server = u64::from(number(6)) << 16 | u64::from(number(7)) & 0xffff;
        access.size = u64::from(number(10));
        access.object = match self.with_url {
            true => u64::from(number(NUMBERS)),
            // Server, port, path and query are the URL.
            false => hash(&record[24..40]),
        };
        access.status = u16::from_le_bytes([tail[0], tail[1]]);
        access.dynamic = tail[3] & PROGRAM != 0 || number(9) != 0;
        access.method = METHODS.get(u32_at(tail, 1) as usize).copied().unwrap_or(Method::Other);
        Ok(if matches!(u32_at(tail, 2), 0 | HTTP) { Kept::Yes } else { Kept::No })
    }
}

impl Writer for Dec {
    fn header(&mut self, into: &mut Vec<u8>) {
        into.resize(into.len() + HEADER, 0);
    }

    /// The layout has 32 bits for each number: larger ones are folded, sizes are cut off.
    fn write(&mut self, access: &Access, _next: Option<u64>, into: &mut Vec<u8>) {
        let object = fold(access.object);
        let numbers = [
            0,
            0,
            access.modified as u32,
            (access.time / 1_000_000) as u32,
            (access.time % 1_000_000) as u32,
            fold(access.client),
            fold(access.server),
            80,
            object,
            u32::from(access.dynamic),
            u32::try_from(access.size).unwrap_or(u32::MAX),
            object,
        ];
        for number in &numbers[..NUMBERS + usize::from(self.with_url)] {
            into.extend_from_slice(&number.to_le_bytes());
        }
        into.extend_from_slice(&access.status.to_le_bytes());
        into.extend_from_slice(&[0, if access.dynamic { PROGRAM } else { 0 }]);
        let method = METHODS.iter().position(|method| *method == access.method).unwrap_or(0) as u32;
        into.extend_from_slice(&method.to_le_bytes());
        into.extend_from_slice(&HTTP.to_le_bytes());
    }
}

fn u32_at(bytes: &[u8], nth: usize) -> u32 {
    bytes[4 * nth..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn fold(number: u64) -> u32 {
    (number ^ (number >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_lies_as_it_is_drawn() {
        let mut bytes = Vec::new();
        for number in [5u32, 6, 840_000_000, 841_000_000, 250_000, 3, 7, 8080, 11, 0, 4096, 99] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[200, 0, 2, 16, 1, 0, 0, 0, 1, 0, 0, 0]);
        let mut dec = Dec { with_url: true };
        assert_eq!(dec.framing(), Framing::Records { header: 8192, record: 60 });
        let mut access = Access::default();
        assert_eq!(dec.parse(&bytes, &mut access), Ok(Kept::Yes));
        assert_eq!((access.time, access.modified), (841_000_000_250_000, 840_000_000));
        assert_eq!((access.client, access.server, access.object), (3, 7 << 16 | 8080, 99));
        assert_eq!((access.size, access.status, access.dynamic), (4096, 200, false));
        assert_eq!(access.method, Method::Get);
        bytes[52 + 4 - 4] = 2;
        bytes[51] |= 8;
        assert!(dec.parse(&bytes, &mut access).is_ok() && access.dynamic && !access.is_cacheable());
    }
}
