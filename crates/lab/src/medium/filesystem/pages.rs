//! Pages of files in memory, and their way to the device.

use super::FileSystem;
use super::fs_type::{FLUSH_PARTS, Writing};
use crate::block::SECTOR;
use crate::medium::Failed;

impl FileSystem {
    pub(super) fn keep_page(&mut self, file: u32, page: u32, dirty: bool) -> Result<(), Failed> {
        let was = self.pages.peek(&(file, page)).copied().unwrap_or(false);
        self.pages.insert((file, page), dirty || was);
        self.dirty += u64::from(dirty && !was);
        while self.pages.count() as u64 * self.fs_type.block > self.host.pages {
            if let Some(((file, page), true)) = self.pages.pop_oldest() {
                self.dirty -= 1;
                self.send(file, page, 1)?;
            }
        }
        Ok(())
    }

    /// Sends pages on their way to the disk.
    pub(super) fn send(&mut self, file: u32, first: u32, count: u32) -> Result<(), Failed> {
        for page in first..first + count {
            if let Some(dirty) = self.pages.peek_mut(&(file, page)) {
                self.dirty -= u64::from(std::mem::take(dirty));
            }
            let inode = self.inode(file)?;
            let fragments =
                if page as usize + 1 == inode.blocks.len() { inode.tail } else { self.fs_type.fragments() };
            let address = inode.blocks[page as usize];
            self.write_later(address, fragments);
        }
        Ok(())
    }

    /// Those of them that no daemon has sent meanwhile.
    fn send_dirty(&mut self, file: u32, first: u32, count: u32) -> Result<(), Failed> {
        for page in first..first + count {
            if self.pages.peek(&(file, page)) == Some(&true) {
                self.send(file, page, 1)?;
            }
        }
        Ok(())
    }

    /// A block was written to its end: it goes with its neighbours, when they are enough or are no more; or later.
    pub(super) fn delay(&mut self, file: u32, page: u32) -> Result<(), Failed> {
        let Writing::Clusters { cluster, high, low } = self.fs_type.writing else { return Ok(()) };
        let (first, count) = self.inode(file)?.delayed;
        let (first, count) = match page.checked_sub(first) {
            Some(nth) if nth < count => (first, count),
            Some(nth) if nth == count => (first, count + 1),
            _ => {
                self.send_dirty(file, first, count)?;
                (page, 1)
            }
        };
        let full = u64::from(count) * self.fs_type.block >= cluster;
        if full {
            self.send_dirty(file, first, count)?;
        }
        self.inode_mut(file)?.delayed = if full { (page + 1, 0) } else { (first, count) };
        let waiting = self.queue.pending() * SECTOR as u64;
        if self.inode(file)?.size > high && waiting > high {
            self.clock = self.queue.drain_to(self.clock, low / SECTOR as u64);
        }
        Ok(())
    }

    /// Pages that are too many are written, and whoever writes waits when that is not quick enough.
    pub(super) fn bound_dirty(&mut self) {
        let Writing::Aged { background, most } = self.fs_type.writing else { return };
        let share = |share: f64| (self.host.pages as f64 * share) as u64;
        let (background, most) = (share(background), share(most));
        if self.dirty * self.fs_type.block > background {
            self.flush_pages(None);
        }
        if self.queue.pending() * SECTOR as u64 > most {
            self.clock = self.queue.drain_to(self.clock, background / SECTOR as u64);
        }
    }

    /// Writes what was changed to the journal, between a block that says what follows and one that ends it.
    pub(super) fn commit(&mut self) {
        let count = std::mem::take(&mut self.logged).len();
        for _ in 0..if count > 0 { count + 2 } else { 0 } {
            let address = self.journal[self.next_entry];
            self.next_entry = (self.next_entry + 1) % self.journal.len();
            self.write_later(address, self.fs_type.fragments());
        }
    }

    /// What the daemon does: writes a part of the pages, and of the other blocks, that are to be written.
    pub(super) fn flush(&mut self) {
        self.flush_part = (self.flush_part + 1) % FLUSH_PARTS;
        self.commit();
        self.flush_pages(Some(self.flush_part));
        self.flush_metadata(Some(self.flush_part));
    }

    pub(super) fn flush_pages(&mut self, part: Option<u64>) {
        let stretch = self.fs_type.stretch;
        let part_of = |file: u32, page: u32| (u64::from(file) + u64::from(page) / stretch) % FLUSH_PARTS;
        let dirty: Vec<(u32, u32)> = self
            .pages
            .iter()
            .filter(|(_, dirty)| **dirty)
            .map(|(key, _)| key)
            .filter(|(file, page)| part.is_none_or(|part| part_of(*file, *page) == part))
            .collect();
        for (file, page) in dirty {
            // A file that is gone has no pages.
            let _ = self.send(file, page, 1);
        }
    }

    pub(super) fn flush_metadata(&mut self, part: Option<u64>) {
        let fragments = self.fs_type.fragments();
        let dirty: Vec<u64> = self
            .metadata
            .iter()
            .filter(|(_, dirty)| **dirty)
            .map(|(address, _)| address)
            .filter(|address| part.is_none_or(|part| address / fragments % FLUSH_PARTS == part))
            .collect();
        for address in dirty {
            self.write_later(address, fragments);
            if let Some(dirty) = self.metadata.peek_mut(&address) {
                *dirty = false;
            }
        }
    }
}
