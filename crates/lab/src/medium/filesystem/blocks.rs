//! Blocks without data: a cache of them, and when they are written.

use super::FileSystem;
use super::space::Seat;
use crate::block::SECTOR;
use crate::block::{Transfer, Way};

impl FileSystem {
    pub(super) fn load(&mut self, address: u64) {
        if self.metadata.get(&address).is_none() {
            self.wait(Way::Read, address, self.fs_type.fragments());
            self.keep(address, false);
        }
    }

    pub(super) fn keep(&mut self, address: u64, dirty: bool) {
        let was = self.metadata.peek(&address).copied().unwrap_or(false);
        self.metadata.insert(address, dirty || was);
        while self.metadata.count() as u64 * self.fs_type.block > self.host.metadata {
            if let Some((address, true)) = self.metadata.pop_oldest() {
                self.write_later(address, self.fs_type.fragments());
            }
        }
    }

    /// Changes a block; it is written some time, and before to the journal, if there is one.
    pub(super) fn change(&mut self, address: u64) {
        self.load(address);
        self.keep(address, true);
        if !self.journal.is_empty() {
            self.logged.insert(address);
        }
    }

    /// Changes a block; it is written now, where there is no journal.
    pub(super) fn change_now(&mut self, address: u64) {
        if !self.journal.is_empty() {
            return self.change(address);
        }
        self.load(address);
        self.wait(Way::Write, address, self.fs_type.fragments());
        if let Some(dirty) = self.metadata.peek_mut(&address) {
            *dirty = false;
        }
    }

    /// Writes a new inode. A block of which it is the first need not be read where there is a journal.
    pub(super) fn begin_inode(&mut self, seat: Seat) {
        let address = self.space.inode_block(seat);
        let is_first = u64::from(seat.nth).is_multiple_of(self.fs_type.inodes_a_block());
        if is_first && !self.journal.is_empty() {
            self.keep(address, true);
        }
        self.change_now(address);
    }

    pub(super) fn wait(&mut self, way: Way, address: u64, fragments: u64) {
        let per = self.fs_type.fragment / SECTOR as u64;
        let transfer = Transfer { way, sector: address * per, count: fragments * per };
        self.clock = self.queue.wait_for(self.clock, transfer);
    }

    pub(super) fn write_later(&mut self, address: u64, fragments: u64) {
        let per = self.fs_type.fragment / SECTOR as u64;
        self.queue.write_later(self.clock, address * per, fragments * per);
    }
}
