//! libCacheSim's oracleGeneral: seconds (u32), object (u64), bytes (u32), and the number of the object's next request (i64);
//! little-endian, 24 bytes, no header. Where there is none, older files have -1 and newer ones the largest number.

use super::{Format, Framing, Kept, Parser, Writer};
use crate::Access;

pub const FORMAT: Format = Format {
    name: "oracle-general",
    about: "libCacheSim's oracleGeneral",
    begins: suits,
    parser: || Box::new(Oracle),
    writer: || Box::new(Oracle),
};

const RECORD: usize = 24;
/// Records that must look right before a file counts as such a trace.
const LOOK_AT: usize = 64;
/// No next request; written is the first.
const NEVER: [i64; 2] = [-1, i64::MAX];

struct Oracle;

/// Times do not fall, and what comes next comes later.
fn suits(bytes: &[u8]) -> bool {
    let mut before = 0;
    let mut all = bytes.chunks_exact(RECORD).take(LOOK_AT).enumerate();
    all.len() > 0
        && all.all(|(nth, record)| {
            let (time, next) = (time(record), next(record));
            let later = NEVER.contains(&next) || (nth as i64 + 1..1 << 40).contains(&next);
            let fits = time >= before && size(record) > 0 && later;
            before = time;
            fits
        })
}

fn time(record: &[u8]) -> u32 {
    record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn size(record: &[u8]) -> u32 {
    record[12..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn next(record: &[u8]) -> i64 {
    record[16..].first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

impl Parser for Oracle {
    fn framing(&self) -> Framing {
        Framing::Records { header: 0, record: RECORD }
    }

    fn parse(&mut self, record: &[u8], access: &mut Access) -> Result<Kept, String> {
        access.time = u64::from(time(record)) * 1_000_000;
        access.object = record[4..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        access.size = u64::from(size(record));
        Ok(Kept::Yes)
    }
}

impl Writer for Oracle {
    fn write(&mut self, access: &Access, next: Option<u64>, into: &mut Vec<u8>) {
        into.extend_from_slice(&u32::try_from(access.time / 1_000_000).unwrap_or(u32::MAX).to_le_bytes());
        into.extend_from_slice(&access.object.to_le_bytes());
        into.extend_from_slice(&u32::try_from(access.size).unwrap_or(u32::MAX).to_le_bytes());
        into.extend_from_slice(&next.map_or(NEVER[0], |next| next as i64).to_le_bytes());
    }

    fn wants_next(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins_with(nexts: &[i64]) -> bool {
        let record = |next: &i64| [&[7; 16][..], &next.to_le_bytes()].concat();
        suits(&nexts.iter().flat_map(record).collect::<Vec<u8>>())
    }

    #[test]
    fn both_words_for_never_are_known() {
        assert!(begins_with(&[2, -1, i64::MAX]));
        assert!(begins_with(&[i64::MAX; 3]));
        for wrong in [-2, 0, 1 << 40, i64::MAX - 1] {
            assert!(!begins_with(&[wrong, -1]), "{wrong}");
        }
    }
}
