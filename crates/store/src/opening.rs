//! Finds the cache on a medium, or makes it; what is not ours is not touched.

use crate::buffer::Pool;
use crate::disk::Disk;
use crate::disk::file::{self, Access, FileDisk, layout};
use crate::format::superblock::{self, COPIES, NotOurs};
use crate::format::{BLOCK, DATA_START, Layout, RESIZED, VERSION};
use crate::reads::Reads;
use crate::resize::{of_size, segments_of};
use crate::{IoChoice, OpenError, Options};
use rand::Rng;
use std::fs::File;
use std::path::Path;

/// Size of a cache that is made without being told, bytes.
pub const DEFAULT_SIZE: u64 = 1 << 30;

/// Opens or makes the cache. What is not ours is not touched.
pub(crate) fn open_disk(options: &Options) -> Result<(FileDisk, Layout), OpenError> {
    let path = &options.path;
    let disk = match FileDisk::open(path, Access::Own)? {
        Some(disk) => disk,
        None => {
            let size = options.size.unwrap_or(DEFAULT_SIZE);
            layout(size, options.packet, 0)?;
            FileDisk::create(path, size)?;
            FileDisk::open(path, Access::Own)?.ok_or_else(|| format!("cache {} went away", path.display()))?
        }
    };
    let options = &Options { size: options.size.map(|size| disk.within(size)), ..options.clone() };
    let there = match layout_of(path, &disk, disk.size())? {
        Some(found) if options.anew => format(&as_found(options, &found), &disk, disk.size())?,
        Some(found) => found,
        None => format(options, &disk, disk.size())?,
    };
    let refused = |why: String| format!("cache {}: {why}", path.display());
    let resized = of_size(&disk, there, options).map_err(refused)?;
    if resized.segments != there.segments {
        (options.news)(&format!(
            "cache {} has {} MiB now, of {} MiB before",
            path.display(),
            resized.size() >> 20,
            there.size() >> 20
        ));
    }
    Ok((disk, resized))
}

/// Bytes that a cache has after a start with these options, which makes it larger or smaller where they say so.
pub(crate) fn size_after_start(options: &Options, there: &Layout) -> Result<u64, String> {
    let segments = match options.size {
        Some(size) => {
            segments_of(there, size).map_err(|why| format!("cache {}: {why}", options.path.display()))?
        }
        None => there.in_turn(),
    };
    Ok(Layout { segments, ..*there }.size())
}

/// The layout of the cache on a disk of `size` bytes; `None` when the medium is blank.
pub(crate) fn layout_of(path: &Path, disk: &dyn Disk, size: u64) -> Result<Option<Layout>, String> {
    let path = path.display();
    if size == 0 {
        return Ok(None);
    }
    if size < DATA_START {
        return Err(format!("{path} is not a Cosm cache (or was cut off); name another path or remove it"));
    }
    let pool = Pool::new(0);
    let reads = Reads::new(disk, &pool);
    let first_bytes = |length| reads.read(0, length).map_err(|e| format!("cannot read cache {path}: {e}"));
    let first = first_bytes(COPIES.len() * BLOCK)?;
    let copies = COPIES.map(|at| superblock::decode(&first[at as usize..at as usize + BLOCK]));
    if let Some(layout) = copies.iter().find_map(|copy| copy.ok()) {
        if layout.size() > size {
            return Err(format!(
                "cache {path} was cut off: {} MiB are left of {} MiB; remove it to create a new one",
                size >> 20,
                layout.size() >> 20
            ));
        }
        return Ok(Some(layout));
    }
    for copy in copies {
        match copy {
            Err(NotOurs::Version(version)) => {
                return Err(format!(
                    "cache {path} has format {version}, this program reads format {VERSION} and {RESIZED}; name \
                     another path or remove it"
                ));
            }
            Err(NotOurs::Damaged) => {
                return Err(format!(
                    "cache {path} is damaged in both superblocks; remove it to create a new one"
                ));
            }
            _ => {}
        }
    }
    if first_bytes(DATA_START as usize)?.iter().all(|&b| b == 0) {
        return Ok(None);
    }
    Err(format!("{path} holds something that is not a Cosm cache; name another path"))
}

/// The same options for a cache as this one is divided.
fn as_found(options: &Options, found: &Layout) -> Options {
    Options { size: options.size.or(Some(found.size())), packet: found.segment, ..options.clone() }
}

/// Makes a cache on a blank disk of `there` bytes.
pub(crate) fn format(options: &Options, disk: &dyn Disk, there: u64) -> Result<Layout, String> {
    let path = options.path.display();
    let size = options.size.map_or(there, |s| s.min(there));
    if there == 0 {
        return Err(format!(
            "cache {path} is an empty file; remove it, and a start creates it with its space reserved"
        ));
    }
    let identity = rand::rng().next_u64();
    let layout = layout(size, options.packet, identity)?;
    file::format(disk, &layout).map_err(|e| format!("cannot write cache {path}: {e}"))?;
    Ok(layout)
}

/// Filesystems behind another process or machine: there a submission to a ring may wait until the read is done, and the worker
/// with it. FUSE, NFS, SMB, CIFS, 9P, Ceph.
const REMOTE: [i64; 6] = [0x6573_5546, 0x6969, 0xfe53_4d42, 0xff53_4d42, 0x0102_1997, 0x00c3_6400];

pub(crate) fn choose_io(choice: IoChoice, file: &File) -> Result<IoChoice, OpenError> {
    let kind = rustix::fs::fstatfs(file).map(|found| found.f_type).ok();
    if choice == IoChoice::Auto && kind.is_some_and(|kind| REMOTE.contains(&kind)) {
        return Ok(IoChoice::Threads);
    }
    let works = io_uring::IoUring::new(8).and_then(|ring| {
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        Ok(probe.is_supported(io_uring::opcode::Read::CODE))
    });
    match (choice, works) {
        (IoChoice::Threads, _) | (IoChoice::Auto, Ok(false) | Err(_)) => Ok(IoChoice::Threads),
        (_, Ok(true)) => Ok(IoChoice::Uring),
        (IoChoice::Uring, Ok(false)) => {
            Err(OpenError::from("this kernel's io_uring cannot read; use --io threads".to_owned()))
        }
        (IoChoice::Uring, Err(error)) => {
            Err(OpenError::from(format!("io_uring is not available here ({error}); use --io threads")))
        }
    }
}
