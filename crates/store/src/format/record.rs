//! A record: one object (or one span of a large one) with all that is needed to know it again.
//!
//! header (64 bytes) | key | metadata | body | padding to 64 bytes
//!
//! The checksum covers the header and the checksums of the three parts, so that they can be summed before the
//! record has a place and copied once.

use super::{Fields, UNIT, align_up};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const HEADER: usize = 64;
pub const MAGIC: u32 = u32::from_le_bytes(*b"cREC");
const CHECKED: usize = 56;
/// A record's length fits the sixteen bits of the index, in units.
pub const MAX: usize = u16::MAX as usize * UNIT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A whole object.
    Object = 1,
    /// The key and metadata of an object whose body lies in spans.
    Head = 2,
    /// One piece of a large body.
    Span = 3,
    /// A piece of a checkpoint of the index.
    Page = 4,
    /// The list of a checkpoint's pages.
    Root = 5,
    /// Newer metadata of an object that lies elsewhere: see `format::update`.
    Update = 6,
    /// A piece of a checkpoint of the overlay.
    Overlay = 7,
}

impl Kind {
    pub fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Object, Head, Span, Page, Root, Update, Overlay].into_iter().find(|k| *k as u8 == byte)
    }

    /// True for what the index points to. An update has its object's key, and may come to lie where a restart after a
    /// loss of power takes the object to be.
    pub fn is_answer(self) -> bool {
        matches!(self, Kind::Object | Kind::Head | Kind::Span)
    }
}

/// What a record says of itself, apart from its three parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub kind: Kind,
    /// Ties the spans of one large body together; 0 for others.
    pub id: u64,
    /// Bytes of the object's whole body.
    pub length: u64,
    /// Bytes of one span; 0 when the body is whole.
    pub span: u32,
    /// When it was written, seconds since 1970.
    pub written: u64,
}

/// A record ready to be copied to its place.
pub struct Record<'a> {
    header: [u8; HEADER],
    parts: [&'a [u8]; 3],
}

impl<'a> Record<'a> {
    /// `None` when the parts are larger than one record can be.
    pub fn new(
        identity: u64,
        about: About,
        key: &'a [u8],
        meta: &'a [u8],
        body: &'a [u8],
    ) -> Option<Record<'a>> {
        if HEADER + key.len() + meta.len() + body.len() > MAX {
            return None;
        }
        let mut header = [0; HEADER];
        header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4] = about.kind as u8;
        header[8..12].copy_from_slice(&(key.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&(meta.len() as u32).to_le_bytes());
        header[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[20..24].copy_from_slice(&about.span.to_le_bytes());
        header[24..32].copy_from_slice(&about.length.to_le_bytes());
        header[32..40].copy_from_slice(&about.id.to_le_bytes());
        header[40..48].copy_from_slice(&about.written.to_le_bytes());
        let parts = [key, meta, body];
        let sum = checksum(identity, &header, parts.map(|part| part_sum(identity, part)));
        header[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        Some(Record { header, parts })
    }

    /// Bytes on disk, a multiple of the unit.
    pub fn size(&self) -> usize {
        align_up(HEADER + self.parts.iter().map(|p| p.len()).sum::<usize>(), UNIT)
    }

    /// `to` is exactly `size()` bytes.
    pub fn copy_to(&self, to: &mut [u8]) {
        let mut at = 0;
        for part in [&self.header[..], self.parts[0], self.parts[1], self.parts[2]] {
            to[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        to[at..].fill(0);
    }
}

/// A record found in some bytes: its parts are ranges of those bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub about: About,
    pub key: Range<usize>,
    pub meta: Range<usize>,
    pub body: Range<usize>,
    /// Checksum of the body.
    pub sum: u64,
}

impl Found {
    pub fn size(&self) -> usize {
        align_up(self.body.end, UNIT)
    }
}

/// The record at the start of `bytes`, or `None` when there is no complete and undamaged one.
pub fn parse(identity: u64, bytes: &[u8]) -> Option<Found> {
    let header: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
    let mut fields = Fields(header);
    if fields.u32() != MAGIC {
        return None;
    }
    let kind = Kind::of(fields.u8())?;
    fields.0 = &header[8..];
    let (key, meta, body) = (fields.u32() as usize, fields.u32() as usize, fields.u32() as usize);
    let (span, length, id, written) = (fields.u32(), fields.u64(), fields.u64(), fields.u64());
    let sum = u64::from_le_bytes(header[CHECKED..].try_into().ok()?);
    let key = HEADER..HEADER.checked_add(key)?;
    let meta = key.end..key.end.checked_add(meta)?;
    let body = meta.end..meta.end.checked_add(body)?;
    if body.end > MAX {
        return None;
    }
    let parts = [bytes.get(key.clone())?, bytes.get(meta.clone())?, bytes.get(body.clone())?];
    let sums = parts.map(|part| part_sum(identity, part));
    (checksum(identity, header, sums) == sum).then_some(Found {
        about: About { kind, id, length, span, written },
        key,
        meta,
        body,
        sum: sums[2],
    })
}

/// Checksum of one part of a record.
pub fn part_sum(identity: u64, part: &[u8]) -> u64 {
    xxh3_64_with_seed(part, identity)
}

fn checksum(identity: u64, header: &[u8; HEADER], sums: [u64; 3]) -> u64 {
    let mut all = [0; CHECKED + 24];
    all[..CHECKED].copy_from_slice(&header[..CHECKED]);
    for (sum, to) in sums.into_iter().zip(all[CHECKED..].chunks_exact_mut(8)) {
        to.copy_from_slice(&sum.to_le_bytes());
    }
    xxh3_64_with_seed(&all, identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About { kind: Kind::Object, id: 9, length: 4, span: 0, written: 1_000 };

    #[test]
    fn every_flipped_bit_is_found() {
        let record = Record::new(7, ABOUT, b"key", b"meta", b"body").unwrap();
        let mut bytes = vec![0xaa; record.size()];
        record.copy_to(&mut bytes);
        assert_eq!(bytes.len(), 128);
        let found = parse(7, &bytes).unwrap();
        assert_eq!(found.about, ABOUT);
        assert_eq!(
            (&bytes[found.key.clone()], &bytes[found.meta.clone()], &bytes[found.body.clone()]),
            (&b"key"[..], &b"meta"[..], &b"body"[..])
        );
        assert_eq!(found.size(), bytes.len());
        assert_eq!(parse(8, &bytes), None, "another cache's record");
        for bit in 0..found.body.end * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(7, &bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for cut in 0..found.body.end {
            assert_eq!(parse(7, &bytes[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Record::new(0, ABOUT, b"", b"", &vec![0; MAX - HEADER]).is_some());
        assert!(Record::new(0, ABOUT, b"", b"", &vec![0; MAX - HEADER + 1]).is_none());
    }
}
