//! A record: one object (or one span of a large one) with all that is needed to know it again.
//!
//! header (64 bytes) | key | metadata | body | zeros to the next unit
//!
//! The checksum covers the header and the checksums of the three parts, so that they can be summed before the
//! record has a place and an order, and copied once.

use super::{Fields, Put, align_up};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const HEADER: usize = 64;
pub const MAGIC: u32 = u32::from_le_bytes(*b"cREC");
const CHECKED: usize = 56;
/// Bytes of key, metadata and body at most.
pub const MAX: usize = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A whole object.
    Object = 1,
    /// The key and metadata of an object whose body lies in spans.
    Head = 2,
    /// One piece of a large body.
    Span = 3,
    /// Some pages of a digest.
    Pages = 4,
    /// What a digest is, and where its pages lie.
    Digest = 5,
    /// A key was removed: `id` is its mixed hash. No key, no metadata, no body.
    Removal = 6,
}

impl Kind {
    pub fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        [Object, Head, Span, Pages, Digest, Removal].into_iter().find(|k| *k as u8 == byte)
    }

    /// True for what the index points to.
    pub fn is_answer(self) -> bool {
        matches!(self, Kind::Object | Kind::Head | Kind::Span)
    }

    /// True for what may be put somewhere else in its segment until it is written.
    pub fn is_movable(self) -> bool {
        matches!(self, Kind::Object | Kind::Head)
    }

    /// True for what tables list: digests are found by the root alone.
    pub fn is_event(self) -> bool {
        self.is_answer() || self == Kind::Removal
    }
}

/// What a record says of itself, apart from its three parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    pub kind: Kind,
    /// Ties the spans of one large body together; of a removal the key's mixed hash; 0 for others.
    pub id: u64,
    /// Bytes of the object's whole body.
    pub length: u64,
    /// Bytes of one span; 0 when the body is whole.
    pub span: u32,
    /// When it was written, seconds since 1970; until 2106.
    pub written: u64,
}

/// A record ready to be copied to its place.
pub struct Record<'a> {
    identity: u64,
    about: About,
    header: [u8; HEADER],
    parts: [&'a [u8]; 3],
    sums: Sums,
    group: u64,
}

/// Checksums of the three parts.
pub type Sums = [u64; 3];

impl<'a> Record<'a> {
    /// `None` when the parts are larger than one record can be.
    pub fn new(
        identity: u64,
        about: About,
        key: &'a [u8],
        meta: &'a [u8],
        body: &'a [u8],
    ) -> Option<Record<'a>> {
        let parts = [key, meta, body];
        if parts.iter().map(|part| part.len()).sum::<usize>() > MAX {
            return None;
        }
        let mut header = [0; HEADER];
        let mut put = Put(&mut header, 0);
        put.u32(MAGIC).u32(u32::from(about.kind as u8));
        put.u32(key.len() as u32).u32(meta.len() as u32).u32(body.len() as u32).u32(about.span);
        put.u64(about.length).u64(about.id).u32(about.written.min(u64::from(u32::MAX)) as u32);
        let sums = parts.map(|part| part_sum(identity, part));
        Some(Record { identity, about, header, parts, sums, group: 0 })
    }

    /// That belongs to a group: those that are put within a flush interval lie side by side.
    pub fn of_group(self, group: u64) -> Record<'a> {
        Record { group, ..self }
    }

    pub fn group(&self) -> u64 {
        self.group
    }

    pub fn sums(&self) -> Sums {
        self.sums
    }

    pub fn kind(&self) -> Kind {
        self.about.kind
    }

    /// Of the object that this is the head of.
    pub fn length_of_large(&self) -> Option<u64> {
        (self.kind() == Kind::Head).then_some(self.about.length)
    }

    /// Bytes on disk, whole units.
    pub fn size(&self, unit: u32) -> usize {
        align_up(HEADER + self.parts.iter().map(|p| p.len()).sum::<usize>(), unit as usize)
    }

    /// As the record with this order, in the segment with this sequence number; `to` is exactly `size()` bytes.
    pub fn copy_to(&self, order: u64, seq: u64, to: &mut [u8]) {
        let mut header = self.header;
        header[44..48].copy_from_slice(&(seq as u32).to_le_bytes());
        header[48..CHECKED].copy_from_slice(&order.to_le_bytes());
        let sum = checksum(self.identity, &header, self.sums);
        header[CHECKED..].copy_from_slice(&sum.to_le_bytes());
        let mut put = Put(to, 0);
        put.bytes(&header);
        self.parts.iter().for_each(|part| {
            put.bytes(part);
        });
        let Put(to, end) = put;
        to[end..].fill(0);
    }
}

/// Gives the record in `bytes` another order.
pub fn renumber(identity: u64, order: u64, sums: Sums, bytes: &mut [u8]) {
    let (header, _) = bytes.split_first_chunk_mut::<HEADER>().expect("a record has a header");
    header[48..CHECKED].copy_from_slice(&order.to_le_bytes());
    let sum = checksum(identity, header, sums);
    header[CHECKED..].copy_from_slice(&sum.to_le_bytes());
}

/// A record found in some bytes: its parts are ranges of those bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub about: About,
    /// Of all that was put and removed: later ones have higher orders.
    pub order: u64,
    /// The lower half of its segment's sequence number.
    pub seq: u32,
    pub key: Range<usize>,
    pub meta: Range<usize>,
    pub body: Range<usize>,
}

impl Found {
    pub fn size(&self, unit: u32) -> usize {
        align_up(self.body.end, unit as usize)
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
    let (span, length, id) = (fields.u32(), fields.u64(), fields.u64());
    let (written, seq) = (u64::from(fields.u32()), fields.u32());
    let (order, sum) = (fields.u64(), fields.u64());
    let key = HEADER..HEADER.checked_add(key)?;
    let meta = key.end..key.end.checked_add(meta)?;
    let body = meta.end..meta.end.checked_add(body)?;
    let parts = [bytes.get(key.clone())?, bytes.get(meta.clone())?, bytes.get(body.clone())?];
    let sums = parts.map(|part| part_sum(identity, part));
    let found = Found { about: About { kind, id, length, span, written }, order, seq, key, meta, body };
    (checksum(identity, header, sums) == sum && order < super::NUMBERS).then_some(found)
}

/// Checksum of one part of a record.
fn part_sum(identity: u64, part: &[u8]) -> u64 {
    xxh3_64_with_seed(part, identity)
}

fn checksum(identity: u64, header: &[u8; HEADER], sums: Sums) -> u64 {
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
        let mut bytes = vec![0xaa; record.size(64)];
        record.copy_to(77, 0x9_0000_0005, &mut bytes);
        assert_eq!(bytes.len(), 128);
        let found = parse(7, &bytes).unwrap();
        assert_eq!(found.about, ABOUT);
        assert_eq!(
            (&bytes[found.key.clone()], &bytes[found.meta.clone()], &bytes[found.body.clone()]),
            (&b"key"[..], &b"meta"[..], &b"body"[..])
        );
        assert_eq!((found.size(64), found.order, found.seq), (bytes.len(), 77, 5));
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
        assert!(Record::new(0, ABOUT, b"", b"", &vec![0; MAX]).is_some());
        assert!(Record::new(0, ABOUT, b"", b"", &vec![0; MAX + 1]).is_none());
    }
}
