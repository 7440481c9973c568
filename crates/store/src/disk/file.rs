//! A file or block device, opened for direct I/O and locked against other processes.
//!
//! Filesystems that refuse direct I/O (tmpfs) are used through the page cache; the log says so.

use super::{Disk, Traffic};
use crate::OpenError;
use crate::buffer::Buffer;
use crate::format::ledger::{self, Ledger};
use crate::format::{BLOCK, DATA_START, Layout, PLACE_BITS, superblock};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, StatxFlags};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub struct FileDisk {
    file: File,
    read_block: usize,
    direct: bool,
    others_can_read: bool,
    size: AtomicU64,
    traffic: Arc<Traffic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only, beside a running server: for `inspect` and `check`.
    Look,
    /// Read and write, alone.
    Own,
}

impl FileDisk {
    /// Opens what is there; `None` when there is nothing. Errors are one line for the user.
    pub fn open(path: &Path, access: Access) -> Result<Option<FileDisk>, OpenError> {
        let say = |what: &str, error: io::Error| format!("cannot {what} cache {}: {error}", path.display());
        let flags = match access {
            Access::Look => OFlags::RDONLY,
            Access::Own => OFlags::RDWR,
        } | OFlags::CLOEXEC;
        // A pipe would be waited for; of a folder the system has its own word.
        if let Ok(kind) = std::fs::metadata(path)
            && !(kind.is_file() || kind.is_dir() || kind.file_type().is_block_device())
        {
            return Err(format!("cache {} is neither a file nor a block device", path.display()).into());
        }
        let open =
            |flags| rustix::fs::open(path, flags, Mode::empty()).map(File::from).map_err(io::Error::from);
        let (file, direct) = match open(flags | OFlags::DIRECT) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                (open(flags).map_err(|e| say("open", e))?, false)
            }
            Err(error) => return Err(say("open", error).into()),
        };
        let kind = file.metadata().map_err(|e| say("stat", e))?;
        if !kind.is_file() && !kind.file_type().is_block_device() {
            return Err(format!("cache {} is neither a file nor a block device", path.display()).into());
        }
        if access == Access::Own {
            if kind.permissions().readonly() {
                return Err(format!(
                    "cache {} is read-only; make it writable or name another file",
                    path.display()
                )
                .into());
            }
            claim(&file).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => OpenError {
                    why: format!(
                        "cache {} is in use by another process; stop it or name another file",
                        path.display()
                    ),
                    in_use: true,
                },
                _ => OpenError::from(say("lock", error)),
            })?;
        }
        let size = size_of(&file).map_err(|e| say("measure", e))?;
        let read_block = if direct { read_block(&file) } else { 512 };
        let others_can_read = kind.is_file() && kind.permissions().mode() & 0o004 != 0;
        let (size, traffic) = (AtomicU64::new(size), Arc::default());
        Ok(Some(FileDisk { file, read_block, direct, others_can_read, size, traffic }))
    }

    /// Makes the file, its owner's alone, and reserves all of its space. What fails leaves no file behind.
    pub fn create(path: &Path, size: u64) -> Result<(), String> {
        let new = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
        let file = new.map_err(|e| format!("cannot create cache {}: {e}", path.display()))?;
        allocate(&file, size).map_err(|error| {
            let _ = std::fs::remove_file(path);
            format!(
                "cannot reserve {} MiB for cache {}: {error}; free some space or choose a smaller --cache-size",
                size >> 20,
                path.display()
            )
        })
    }

    pub fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }
    /// What there can be of so many bytes: a device does not grow.
    pub fn within(&self, bytes: u64) -> u64 {
        match self.file.metadata().is_ok_and(|kind| kind.file_type().is_block_device()) {
            true => bytes.min(self.size()),
            false => bytes,
        }
    }
    pub fn is_direct(&self) -> bool {
        self.direct
    }
    pub fn others_can_read(&self) -> bool {
        self.others_can_read
    }
    pub fn file(&self) -> &File {
        &self.file
    }
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }
}

/// Reserves a file's first bytes. What the filesystem has not got is not even tried: some take all that there is before they say so,
/// and whoever else writes there meanwhile fails.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let (there, free) = (file.metadata()?.blocks() * 512, rustix::fs::fstatvfs(file)?);
    let is_known = free.f_blocks > 0;
    // What is set aside for root is root's.
    let blocks = if rustix::process::geteuid().is_root() { free.f_bfree } else { free.f_bavail };
    if is_known && bytes.saturating_sub(there) > blocks.saturating_mul(free.f_frsize) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

/// Writes the superblocks of a new cache.
pub fn format(disk: &dyn Disk, layout: &Layout) -> io::Result<()> {
    let mut image = Buffer::new(BLOCK);
    image.copy_from_slice(&superblock::encode(layout));
    superblock::COPIES.iter().try_for_each(|at| disk.write(*at, &image))?;
    disk.sync()?;
    for generation in 0..=Ledger::default().generation {
        Ledger { generation, ..Ledger::default() }.encode(layout.identity, &mut image);
        disk.write(ledger::offset(generation), &image)?;
    }
    disk.sync()
}

/// Bytes that a cache of `size` bytes can use in whole segments, or why not.
pub fn layout(size: u64, segment: u32, identity: u64) -> Result<Layout, String> {
    let segments = size.saturating_sub(DATA_START) / u64::from(segment);
    if segments < MIN_SEGMENTS {
        let least = (DATA_START + MIN_SEGMENTS * u64::from(segment)) >> 20;
        return Err(format!(
            "a cache of {} MiB is too small for its packets: at least {least} MiB",
            size >> 20
        ));
    }
    let layout = Layout::new(segment, segments, identity);
    if layout.unit as usize > BLOCK {
        let most = BLOCK as u64 >> (40 - PLACE_BITS);
        return Err(format!("a cache of {} TiB is too large: at most {most} TiB", size >> 40));
    }
    Ok(layout)
}

const MIN_SEGMENTS: u64 = 15;

impl Disk for FileDisk {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.traffic.read(length);
        self.file.read_exact_at(&mut buffer[..length], offset)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.traffic.wrote(bytes.len());
        self.file.write_all_at(bytes, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let there = size_of(&self.file)?;
        if self.file.metadata()?.is_file() {
            allocate(&self.file, bytes).inspect_err(|_| {
                // Some of it may have been found.
                let _ = rustix::fs::ftruncate(&self.file, there);
            })?;
        } else if bytes > there {
            return Err(io::Error::other(format!("the device has {} MiB", there >> 20)));
        }
        self.size.store(there.max(bytes), Relaxed);
        Ok(())
    }
    fn cut_off(&self, bytes: u64) -> io::Result<()> {
        if self.file.metadata()?.is_file() && size_of(&self.file)? > bytes {
            rustix::fs::ftruncate(&self.file, bytes)?;
            self.size.store(bytes, Relaxed);
        }
        Ok(())
    }
    fn read_block(&self) -> usize {
        self.read_block
    }
    fn pause(&self) {
        std::thread::sleep(Duration::from_millis(20));
    }
    fn harm(&self) -> Option<&'static str> {
        let found = self.file.metadata().ok().filter(|found| found.is_file())?;
        match (found.nlink() == 0, found.len() < self.size()) {
            (true, _) => {
                Some("was deleted: this process still uses it, and the next start creates a new one")
            }
            (_, true) => Some("was cut off: what was beyond its end is lost; remove it and restart"),
            _ => None,
        }
    }
}

/// Locks the file. A process that was just killed may hold it until its last I/O has ended: that is waited for.
fn claim(file: &File) -> io::Result<()> {
    let until = Instant::now() + Duration::from_millis(500);
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(rustix::io::Errno::INTR) => {}
            done => return done.map_err(io::Error::from),
        }
    }
}

fn size_of(file: &File) -> io::Result<u64> {
    rustix::fs::seek(file, rustix::fs::SeekFrom::End(0)).map_err(io::Error::from)
}

/// The offset alignment that direct reads need; a whole block when the kernel does not say.
fn read_block(file: &File) -> usize {
    let wanted = StatxFlags::from_bits_retain(0x2000); // STATX_DIOALIGN
    let align = rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, wanted)
        .ok()
        .filter(|s| s.stx_mask & 0x2000 != 0 && s.stx_dio_mem_align as usize <= BLOCK)
        .map_or(0, |s| s.stx_dio_offset_align as usize);
    if align.is_power_of_two() && (512..=BLOCK).contains(&align) { align } else { BLOCK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_that_another_has_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let file = File::create(&path).unwrap();
        let open = |flags| File::from(rustix::fs::open(&path, flags, Mode::empty()).unwrap());
        claim(&file).unwrap();
        assert_eq!(claim(&open(OFlags::RDWR)).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // A descriptor that cannot be locked at all.
        let other = claim(&open(OFlags::PATH)).unwrap_err();
        assert_eq!(other.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
    }
}
