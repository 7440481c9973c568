//! What an open cache takes of memory at most: a function of its options and of what it is opened on.

use crate::digester;
use crate::disk::file::{Access, FileDisk};
use crate::disk::uring::DEPTH;
use crate::engine::images;
use crate::index::Index;
use crate::loader;
use crate::opening::{DEFAULT_SIZE, layout_of, size_after_start};
use crate::placement::Placement;
use crate::reader::TURN;
use crate::recovery;
use crate::scrub;
use crate::segment::ARRANGED;
use crate::shared::POOL;
use crate::{OpenError, Options};

/// Bytes, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the cache on disk that they are for.
    pub size: u64,
    /// The index, and what is remembered of what was turned away, with as many entries as `Options::index_max` says; without that, as a cache has of objects of `mean` bytes.
    pub index: u64,
    /// Packets that are being filled, wait to be written, or are; a copy of what is being arranged.
    pub packets: u64,
    /// What waits for a digest, and one under way; at a start, tables, and after it, parts of the index that are being loaded.
    pub digests: u64,
    /// Reads in flight, a step of the scrub, and buffers kept for the next ones.
    pub reads: u64,
}

impl Memory {
    /// Of the cache that these options open, with so many workers that read it: the size and the packets of one that is
    /// there are its own, unless the options say another size. What is read stays with who asked for it, and is not counted here.
    pub fn of(options: &Options, readers: u64, mean: u64) -> Result<Memory, OpenError> {
        let there = FileDisk::open(&options.path, Access::Look)?;
        let layout = match &there {
            Some(disk) => layout_of(&options.path, disk, disk.size())?,
            None => None,
        };
        let (size, packet) = match (layout, &there) {
            (Some(layout), Some(disk)) => {
                let size = options.size.map(|size| disk.within(size));
                let after = size_after_start(&Options { size, ..options.clone() }, &layout);
                (after?, layout.segment)
            }
            (None, Some(disk)) => {
                (options.size.map_or(disk.size(), |size| size.min(disk.size())), options.packet)
            }
            (_, None) => (options.size.unwrap_or(DEFAULT_SIZE), options.packet),
        };
        Ok(Memory::with(options, size, packet, readers, mean))
    }

    fn with(options: &Options, size: u64, packet: u32, readers: u64, mean: u64) -> Memory {
        let segments = size / u64::from(packet);
        Memory {
            size,
            index: index_bytes(options.index_max.unwrap_or(size / mean)),
            packets: images(segments, packet) as u64 * u64::from(packet)
                + ARRANGED.min(packet as usize) as u64,
            digests: digester::most_bytes(segments, packet)
                + recovery::most_left(size, segments)
                + recovery::most_bytes(size).max(loader::most_bytes(segments, packet)),
            reads: readers * u64::from(DEPTH) * TURN as u64
                + 2 * POOL as u64
                + options.scrub.map_or(0, |_| scrub::verify::most_bytes(packet)),
        }
    }

    pub fn sum(&self) -> u64 {
        let Memory { size: _, index, packets, digests, reads } = self;
        index + packets + digests + reads
    }

    /// Entries of an index that takes so many bytes at most.
    pub fn entries(bytes: u64) -> u64 {
        bytes.saturating_sub(index_bytes(0)) / (index_bytes(1) - index_bytes(0))
    }
}

/// The index, and what placement remembers beside it.
const fn index_bytes(entries: u64) -> u64 {
    Index::most_bytes(entries) + Placement::most_bytes(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_keeps_to_what_is_said_of_it() {
        let (layout, entries) = (crate::format::Layout::new(1 << 20, 2_000, 7), 200_000);
        let index = Index::of(&layout, entries);
        let slot = crate::index::Slot { place: 1, length: 64, uses: 1, again: false };
        let mut most = 0;
        for n in 0..entries {
            index.insert(layout.mix(n), slot);
            most = most.max(if n % 1000 == 0 { index.bytes() } else { 0 });
        }
        let said = Index::most_bytes(entries);
        assert!(most as u64 <= said && said < most as u64 * 4 / 3, "{most} of {said}");
        assert!(Memory::entries(index_bytes(entries)) == entries && Memory::entries(0) == 0);
    }
}
