//! A disk for caches that are larger than the machine's: a sparse file without the records that no sample asks for.
//!
//! What a start and the index need is written as it is: superblocks, roots, the first record of each segment, tables, digests, removals,
//! and the records of sampled objects. Bodies of the others are zeros when they are put, and their heads are left out.

use crate::object::Numbers;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use store::Buffer;
use store::disk::Disk;
use store::format::{BLOCK, DATA_START};

/// Which objects are kept: those whose number this divides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hollow {
    pub every: u64,
}

impl Hollow {
    pub fn has(&self, number: u64) -> bool {
        number.is_multiple_of(self.every)
    }

    pub fn numbers(&self, objects: u64) -> Numbers {
        Numbers { range: 0..objects, every: self.every }
    }
}

pub struct HollowDisk {
    file: File,
    hollow: Hollow,
}

/// Of the store's default packets.
const SEGMENT: u64 = 1 << 20;
/// What records begin at, in caches of less than 4 TiB.
const UNIT: usize = 64;
const MAGIC: &[u8] = b"cREC";
const OBJECT: u8 = 1;
const HEADER: usize = 64;

impl HollowDisk {
    pub fn make(path: &Path, size: u64, hollow: Hollow) -> Result<HollowDisk, String> {
        let say = |e: io::Error| format!("{}: {e}", path.display());
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).write(true).create_new(true).custom_flags(direct).open(path);
        let file = file.map_err(say)?;
        file.set_len(size).map_err(say)?;
        Ok(HollowDisk { file, hollow })
    }

    /// Which blocks of a write into a segment hold something that is kept.
    fn kept(&self, offset: u64, bytes: &[u8]) -> Vec<bool> {
        let mut kept = vec![false; bytes.len() / BLOCK];
        let mut keep = |from: usize, to: usize| {
            let last = (to.min(bytes.len()).max(1) - 1) / BLOCK;
            kept[from / BLOCK..=last].fill(true);
        };
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if !rest.starts_with(MAGIC) {
                if rest[..UNIT].iter().any(|byte| *byte != 0) {
                    keep(at, at + UNIT);
                }
                at += UNIT;
                continue;
            }
            let word =
                |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes")) as usize;
            let (key, length) = (word(8), HEADER + word(8) + word(12) + word(16));
            let is_first = (offset + at as u64 - DATA_START).is_multiple_of(SEGMENT);
            // A key that the write cuts is of a record at its end, and is kept.
            let number = rest.get(HEADER..HEADER + key).and_then(number);
            let is_left_out = rest[4] == OBJECT && number.is_some_and(|number| !self.hollow.has(number));
            if is_first {
                keep(at, at + BLOCK);
            }
            if !is_left_out {
                keep(at, at + length);
            }
            at += length.next_multiple_of(UNIT);
        }
        kept
    }
}

/// The digits at the key's end.
fn number(key: &[u8]) -> Option<u64> {
    let digits = key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&key[key.len() - digits..]).ok()?.parse().ok()
}

impl Disk for HollowDisk {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.file.read_exact_at(&mut buffer[..length], offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset < DATA_START {
            return self.file.write_all_at(bytes, offset);
        }
        let kept = self.kept(offset, bytes);
        let mut at = 0;
        for run in kept.chunk_by(|a, b| a == b) {
            let end = at + run.len() * BLOCK;
            if run[0] {
                self.file.write_all_at(&bytes[at..end], offset + at as u64)?;
            }
            at = end;
        }
        Ok(())
    }

    /// It has to outlive a kill, not a loss of power; and in a sparse file each write allocates, which makes a sync slower than it is in
    /// a cache's.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn read_block(&self) -> usize {
        BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::sync::Arc;
    use std::time::Duration;
    use store::{Options, Store};

    #[test]
    fn what_is_sampled_is_there_after_a_kill_and_little_else_is_written() {
        let folder = std::env::temp_dir().join(format!("hollow-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, hollow, size) = (folder.join("cache"), Hollow { every: 100 }, 256 << 20);
        let patience = Duration::from_secs(60);
        let options = Options { size: Some(size), patience, ..Options::at(&path) };
        let disk = HollowDisk::make(&path, size, hollow.clone()).unwrap();
        let store = Store::over(Arc::new(disk), &options).unwrap();
        for n in 0..20_000 {
            let body = [u8::from(hollow.has(n)); 8192];
            while store.put(&lab::fill::key(n), b"meta", &body).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert!(store.persist(Duration::from_secs(60)));
        store.abandon();
        let written = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(written < size / 16, "{written} bytes");
        let store = Store::open(&Options { size: None, ..options }).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let reader = store.reader().unwrap();
            for n in (0..20_000).step_by(100) {
                let found = reader.get(&lab::fill::key(n)).await.expect("it was sampled");
                assert!(matches!(found.body, store::Body::Whole(body) if body[..] == [1; 8192]), "{n}");
            }
            assert!(reader.get(&lab::fill::key(4_250)).await.is_none(), "one of the others");
        });
        store.close();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
