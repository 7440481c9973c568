//! The root: which digests there are, and from where on the log must be replayed over them. Two copies, written in turn, so that
//! a torn write leaves the other one.

use super::{BLOCK, Fields, NUMBERS, Put, align_up};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub const MAGIC: [u8; 8] = *b"COSMROOT";
/// Bytes of one copy at most.
pub const COPY: usize = 96 << 10;
/// Offsets of the two copies.
pub const COPIES: [u64; 2] = [64 << 10, 160 << 10];
const HEADER: usize = 64;
const ENTRY: usize = 48;
/// Digests that a root can list.
pub const MOST: usize = (COPY - HEADER) / ENTRY;

/// Where a digest lies, and what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestAt {
    /// The events with these orders.
    pub from: u64,
    pub to: u64,
    /// What was put by them lies in the segments with these sequence numbers.
    pub first_seq: u64,
    pub last_seq: u64,
    /// Its record of kind `Digest`: place, and bytes.
    pub place: u64,
    pub bytes: u32,
    /// The life that made it could not read all of that: tables may list what the digest does not name.
    pub partial: bool,
}

/// The default is what a new cache has: no digest, and the whole log to replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// The valid copy with the higher generation counts; 0: none was ever written.
    pub generation: u64,
    /// Events with lower orders are in the digests.
    pub order: u64,
    /// Later ones lie in the segments with this sequence number and higher ones.
    pub seq: u64,
    /// What lies where segments with lower sequence numbers will be opened has been swept.
    pub swept: u64,
    /// Oldest first.
    pub digests: Vec<DigestAt>,
}

/// Why some bytes are no copy of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    Blank,
    Invalid,
}

/// Where the copy with this generation lies.
pub fn offset(generation: u64) -> u64 {
    COPIES[generation as usize % COPIES.len()]
}

impl Root {
    /// Bytes of a copy, whole blocks.
    pub fn size(&self) -> usize {
        align_up(HEADER + self.digests.len() * ENTRY, BLOCK)
    }

    /// `to` is `size()` bytes.
    pub fn encode(&self, identity: u64, to: &mut [u8]) {
        assert!(self.digests.len() <= MOST);
        to.fill(0);
        let mut put = Put(to, 0);
        put.bytes(&MAGIC).u64(self.generation).u64(self.order).u64(self.seq);
        put.u32(self.digests.len() as u32).u32(0).u64(0).u64(self.swept);
        put.1 = HEADER;
        for digest in &self.digests {
            put.u64(digest.from).u64(digest.to).u64(digest.first_seq).u64(digest.last_seq);
            put.u64(digest.place).u32(digest.bytes).u32(digest.partial.into());
        }
        let end = put.1;
        let sum = checksum(identity, &to[..end]);
        to[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
    }

    /// `bytes` is a whole copy's space.
    pub fn decode(identity: u64, bytes: &[u8]) -> Result<Root, Unreadable> {
        let header = bytes.get(..HEADER).ok_or(Unreadable::Invalid)?;
        if header[..8] != MAGIC {
            let blank = header.iter().all(|&b| b == 0);
            return Err(if blank { Unreadable::Blank } else { Unreadable::Invalid });
        }
        let mut fields = Fields(&header[8..]);
        let (generation, order, seq, count) = (fields.u64(), fields.u64(), fields.u64(), fields.u32());
        let swept = Fields(&header[48..]).u64();
        let sum = Fields(&header[HEADER - 8..]).u64();
        let end = HEADER + (count as usize).min(MOST + 1) * ENTRY;
        let all = bytes.get(..end).filter(|all| checksum(identity, all) == sum);
        let all =
            all.filter(|_| generation.max(order).max(seq).max(swept) < NUMBERS).ok_or(Unreadable::Invalid)?;
        let digests = all[HEADER..].chunks_exact(ENTRY).map(|bytes| {
            let mut fields = Fields(bytes);
            DigestAt {
                from: fields.u64(),
                to: fields.u64(),
                first_seq: fields.u64(),
                last_seq: fields.u64(),
                place: fields.u64(),
                bytes: fields.u32(),
                partial: fields.u32() & 1 != 0,
            }
        });
        let root = Root { generation, order, seq, swept, digests: digests.collect() };
        if root.is_sane() { Ok(root) } else { Err(Unreadable::Invalid) }
    }

    /// Whether its digests follow one another, up to where the log is replayed.
    fn is_sane(&self) -> bool {
        let mut end = (0, 0);
        self.digests.iter().all(|at| {
            let (from, first) = std::mem::replace(&mut end, (at.to, at.last_seq));
            let follows = from <= at.from && first <= at.first_seq;
            follows && at.from <= at.to && at.first_seq <= at.last_seq
        }) && end.0 <= self.order
            && end.1 <= self.seq
    }
}

fn checksum(identity: u64, all: &[u8]) -> u64 {
    let head = xxh3_64_with_seed(&all[..HEADER - 8], identity);
    xxh3_64_with_seed(&all[HEADER..], head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_survives_its_encoding_and_no_other_bytes_pass() {
        let digest = |n| DigestAt {
            from: 5 * n,
            to: 5 * n + 5,
            first_seq: n,
            last_seq: n + 1,
            place: 99,
            bytes: 640,
            partial: n % 2 == 1,
        };
        for count in [0, 1, MOST as u64] {
            let root = Root {
                generation: 5,
                order: 5 * count,
                seq: count,
                swept: count + 1,
                digests: (0..count).map(digest).collect(),
            };
            let mut bytes = vec![0xaa; root.size()];
            assert!(bytes.len() <= COPY);
            root.encode(9, &mut bytes);
            assert_eq!(Root::decode(9, &bytes).as_ref(), Ok(&root));
            assert_eq!(Root::decode(8, &bytes), Err(Unreadable::Invalid));
            for at in (0..HEADER + count as usize * ENTRY).step_by(7) {
                let mut torn = bytes.clone();
                torn[at] ^= 0x10;
                assert!(Root::decode(9, &torn).is_err(), "byte {at}");
            }
        }
        assert_eq!(Root::decode(9, &[0; BLOCK]), Err(Unreadable::Blank));
    }

    #[test]
    fn absurd_digests_are_refused() {
        let sane =
            DigestAt { from: 10, to: 20, first_seq: 3, last_seq: 5, place: 99, bytes: 640, partial: false };
        let next = DigestAt { from: 20, to: 30, first_seq: 5, last_seq: 6, ..sane };
        let decoded = |digests: Vec<DigestAt>| {
            let root = Root { generation: 1, order: 30, seq: 6, swept: 9, digests };
            let mut bytes = vec![0; root.size()];
            root.encode(9, &mut bytes);
            Root::decode(9, &bytes).is_ok()
        };
        assert!(decoded(vec![sane, next]));
        assert!(!decoded(vec![next, sane]), "in their order");
        for wrong in [
            DigestAt { from: 21, ..sane },
            DigestAt { to: 31, ..sane },
            DigestAt { to: u64::MAX, ..sane },
            DigestAt { first_seq: 6, ..sane },
            DigestAt { last_seq: 7, ..sane },
            DigestAt { last_seq: u64::MAX, ..sane },
        ] {
            assert!(!decoded(vec![wrong]), "{wrong:?}");
        }
    }
}
