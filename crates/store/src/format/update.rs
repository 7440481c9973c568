//! Updates: new metadata of an object whose record stays where it lies. An update record says which one that is; a
//! checkpoint's overlay pages list what updates were in force.

use super::Fields;
use bytes::Bytes;

/// What an update is about, so exactly that it can be taken for no other record's, also when the place is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The record's place and length, both in units.
    pub place: u64,
    pub units: u16,
    /// Checksum of the record's body.
    pub sum: u64,
}

impl Target {
    /// Bytes of an update record's body.
    pub const BYTES: usize = 20;

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..8].copy_from_slice(&self.place.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sum.to_le_bytes());
        bytes[16..20].copy_from_slice(&u32::from(self.units).to_le_bytes());
        bytes
    }

    /// `None` for bytes of another length.
    pub fn decode(bytes: &[u8]) -> Option<Target> {
        let mut fields = Fields(bytes);
        (bytes.len() == Self::BYTES).then(|| Target {
            place: fields.u64(),
            sum: fields.u64(),
            units: fields.u32() as u16,
        })
    }
}

/// Bytes of an overlay page's entry before its metadata.
const ENTRY: usize = 8 + Target::BYTES + 4;

/// Appends an entry to an overlay page's body: the upper half of the key's hash, the target, the metadata.
pub fn push_entry(page: &mut Vec<u8>, hash: u64, target: &Target, meta: &[u8]) {
    page.extend_from_slice(&hash.to_le_bytes());
    page.extend_from_slice(&target.encode());
    page.extend_from_slice(&(meta.len() as u32).to_le_bytes());
    page.extend_from_slice(meta);
}

/// The entries of an overlay page's body, up to the first that is not one.
pub fn entries(mut page: &[u8]) -> impl Iterator<Item = (u64, Target, Bytes)> {
    std::iter::from_fn(move || {
        let hash = Fields(page.get(..8)?).u64();
        let target = Target::decode(page.get(8..8 + Target::BYTES)?)?;
        let length = Fields(page.get(8 + Target::BYTES..ENTRY)?).u32() as usize;
        let meta = page.get(ENTRY..ENTRY.checked_add(length)?)?;
        page = &page[ENTRY + length..];
        Some((hash, target, Bytes::copy_from_slice(meta)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_updates_survives_its_encoding() {
        let target = |n| Target { place: n << 30, units: n as u16 * 100, sum: n * 77 };
        let all: Vec<(u64, Target, Bytes)> =
            (0..9).map(|n| (n << 60 | n, target(n), Bytes::from(vec![n as u8; n as usize * 5]))).collect();
        let mut page = Vec::new();
        all.iter().for_each(|(hash, target, meta)| push_entry(&mut page, *hash, target, meta));
        assert_eq!(entries(&page).collect::<Vec<_>>(), all);
        assert_eq!(entries(&page[..page.len() - 1]).count(), 8, "cut off");
        assert_eq!(Target::decode(&target(3).encode()), Some(target(3)));
        assert_eq!(Target::decode(&[0; 19]), None);
    }
}
