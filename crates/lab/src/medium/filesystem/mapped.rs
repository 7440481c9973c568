//! Files that are mapped into memory: pages come when they are touched.

use super::{FileSystem, FsType, Way};
use crate::medium::{Failed, File};
use std::ops::Range;

impl FileSystem {
    /// Sees that the pages of a range are in memory. Where its pieces lie, from the disk's beginning, and which bytes of
    /// the range they are.
    pub(super) fn touch(
        &mut self,
        File(file): File,
        at: u64,
        length: usize,
        changes: bool,
    ) -> Result<Vec<(u64, Range<usize>)>, Failed> {
        let end = at + length as u64;
        if end > self.inode(file)?.size {
            return Err(format!("byte {end} lies behind the end of a mapped file"));
        }
        self.spend(length as f64 / self.host.copy);
        let FsType { block, fragment, .. } = self.fs_type;
        let (mut pieces, mut here) = (Vec::with_capacity(2), at);
        while here < end {
            let (page, upto) = (here / block, ((here / block + 1) * block).min(end));
            let number = page as u32;
            if self.pages.get(&(file, number)).is_none() {
                let (address, fragments) = self.look_up(file, page as usize)?;
                self.spend(self.host.fault);
                self.wait(Way::Read, address, fragments);
            }
            self.keep_page(file, number, changes)?;
            let address = self.inode(file)?.blocks[page as usize];
            pieces.push((address * fragment + here % block, (here - at) as usize..(upto - at) as usize));
            here = upto;
        }
        self.bound_dirty();
        Ok(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileSystem, ULTRA_1};
    use crate::medium::drive::ST15150W;
    use crate::medium::{Medium, ROOT};

    #[test]
    fn a_touched_page_is_read_once() {
        let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
        let file = ufs.create(ROOT, 1).unwrap();
        ufs.write(file, 0, &vec![0; 100_000]).unwrap();
        ufs.sync().unwrap();
        while ufs.pages.pop_oldest().is_some() {}
        let reads = ufs.traffic().reads;
        ufs.store(file, 8190, &[1, 2, 3, 4]).unwrap();
        assert_eq!(ufs.traffic().reads, reads + 2, "the range crosses into the next page");
        let mut back = [0; 4];
        Medium::load(&mut ufs, file, 8190, &mut back).unwrap();
        assert_eq!((back, ufs.traffic().reads), ([1, 2, 3, 4], reads + 2));
        assert!(Medium::load(&mut ufs, file, 99_998, &mut back).is_err());
        let written = ufs.traffic().bytes_written;
        ufs.sync().unwrap();
        assert_eq!(ufs.traffic().bytes_written, written + 2 * 8192, "both are to be written");
    }
}
