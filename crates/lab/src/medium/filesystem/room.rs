//! Room for what files hold, and where it lies.

use super::fs_type::{FsType, Metadata};
use super::space::Seat;
use super::{DIRECT, FileSystem};
use crate::medium::Failed;

impl FileSystem {
    /// Gives a file blocks up to `size`, and fragments at its end while it is small.
    pub(super) fn grow(&mut self, file: u32, size: u64) -> Result<(), Failed> {
        let full = |what: Option<u64>| what.ok_or_else(|| "the disk is full".to_owned());
        let FsType { block: size_of_block, fragment, .. } = self.fs_type;
        let (fragments, addresses) = (self.fs_type.fragments(), self.fs_type.addresses());
        let inode = self.inode(file)?;
        if size <= inode.size {
            return Ok(());
        }
        let (seat, held, old_tail, mut group) = (inode.seat, inode.blocks.len(), inode.tail, inode.group);
        let blocks = size.div_ceil(size_of_block) as usize;
        let fragmented = blocks <= DIRECT;
        let tail = if fragmented {
            (size - (blocks as u64 - 1) * size_of_block).div_ceil(fragment)
        } else {
            fragments
        };
        // The last block so far becomes a whole one, or gets more fragments.
        if held > 0 && old_tail < fragments && (blocks > held || tail > old_tail) {
            let old = self.inode(file)?.blocks[held - 1];
            self.space.give(old, old_tail);
            let wanted = if blocks > held { fragments } else { tail };
            let new = match wanted {
                wanted if wanted == fragments => full(self.space.take_block(None, group))?,
                wanted => full(self.space.take_fragments(wanted, group))?,
            };
            let mut bytes = vec![0; (wanted * fragment) as usize];
            self.sectors.read(old * fragment, &mut bytes[..(old_tail * fragment) as usize]);
            self.sectors.write(new * fragment, &bytes);
            self.change(self.space.map_of(self.space.group_of(new)));
            self.inode_mut(file)?.blocks[held - 1] = new;
            self.note_block(seat, held - 1);
        }
        for nth in held..blocks {
            if nth > 0 && nth % self.fs_type.blocks_a_group == 0 {
                group += 1;
            }
            let after =
                self.inode(file)?.blocks.last().copied().filter(|_| nth % self.fs_type.blocks_a_group != 0);
            let address = if nth + 1 == blocks && tail < fragments {
                full(self.space.take_fragments(tail, group))?
            } else {
                full(self.space.take_block(after, group))?
            };
            self.change(self.space.map_of(self.space.group_of(address)));
            let zeros = vec![0; if nth + 1 == blocks { tail * fragment } else { size_of_block } as usize];
            self.sectors.write(address * fragment, &zeros);
            self.inode_mut(file)?.blocks.push(address);
            self.note_block(seat, nth);
            if self.fs_type.extents {
                continue;
            }
            if nth >= DIRECT && (nth - DIRECT).is_multiple_of(addresses) {
                let indirect = full(self.space.take_block(None, group))?;
                self.keep(indirect, true);
                self.inode_mut(file)?.indirect.push(indirect);
            }
            if let Some(nth) = nth.checked_sub(DIRECT) {
                let indirect = self.inode(file)?.indirect[nth / addresses];
                self.change(indirect);
            }
        }
        let inode_block = self.space.inode_block(seat);
        self.change(inode_block);
        let inode = self.inode_mut(file)?;
        (inode.size, inode.tail, inode.group) = (size, tail, group);
        Ok(())
    }

    /// An inode has a new address of its own.
    fn note_block(&mut self, seat: Seat, nth: usize) {
        if nth < DIRECT && self.fs_type.metadata == Metadata::Now {
            self.change_now(self.space.inode_block(seat));
        }
    }

    /// Finds where a block's address lies.
    pub(super) fn look_up(&mut self, file: u32, block: usize) -> Result<(u64, u64), Failed> {
        if let Some(nth) = block.checked_sub(DIRECT).filter(|_| !self.fs_type.extents) {
            let indirect = self.inode(file)?.indirect[nth / self.fs_type.addresses()];
            self.load(indirect);
        }
        let inode = self.inode(file)?;
        let fragments = if block + 1 == inode.blocks.len() { inode.tail } else { self.fs_type.fragments() };
        Ok((inode.blocks[block], fragments))
    }
}
