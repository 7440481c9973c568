//! The caches on disk, as the settings name them.

use crate::preflight::same_twice;
use crate::settings::Config;
use proxy::{Disk, Obstacle, Opening, Patience, Stores, Unopened};
use rustix::fs::{Access, access};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use store::format::{BLOCK, DATA_START, superblock};
use store::{Options, Store};

/// Opens them, or says what is wrong. One that the process before this one still has is a disk that comes later.
pub fn open(config: &Config, takes_over: bool) -> Result<Stores, String> {
    let stores = config.stores();
    if let Some(wrong) = same_twice(&stores) {
        return Err(wrong);
    }
    let weights = config.caches().iter().map(|cache| cache.weight);
    let disk = |(options, weight): (Options, Option<u64>)| Disk {
        name: options.path.display().to_string(),
        weight: weight.map(|weight| weight as f64),
        open: Box::new(move |how| open_one(&options, how)),
    };
    Stores::open(
        stores.into_iter().zip(weights).map(disk).collect(),
        Patience { takes_over, ..Patience::default() },
    )
}

fn open_one(options: &Options, how: Opening) -> Result<Store, Unopened> {
    let path = &options.path;
    if how == Opening::Again && !path.exists() {
        let why = format!("cache {} is not there", path.display());
        return Err(Unopened { why, obstacle: Obstacle::Unreadable });
    }
    let options = Options { anew: how == Opening::Anew, ..options.clone() };
    Store::open(&options).map_err(|error| match may_work_later(path) || error.in_use {
        true => error.into(),
        false => Unopened { why: error.why, obstacle: Obstacle::NotOurs },
    })
}

/// Whether it cannot be read, or is a cache that cannot be written (a filesystem that turned read-only), or one that was cut off, be it to
/// nothing. Otherwise something is there that is not to be touched, and the reason not to
/// open it does not go away by itself.
fn may_work_later(path: &Path) -> bool {
    // A pipe would be waited for.
    let is_disk = |kind: Metadata| kind.is_file() || kind.file_type().is_block_device();
    if path.metadata().is_ok_and(|kind| !is_disk(kind)) {
        return false;
    }
    let read = || {
        let (mut file, mut first) = (File::open(path)?, Vec::new());
        file.by_ref().take(DATA_START).read_to_end(&mut first)?;
        Ok::<_, io::Error>((first, file.seek(SeekFrom::End(0))?))
    };
    let Ok((first, size)) = read() else { return true };
    if size == 0 {
        return true;
    }
    let takes_no_writes = access(path, Access::WRITE_OK).is_err();
    let copies = first.chunks_exact(BLOCK).take(superblock::COPIES.len());
    copies
        .filter_map(|copy| superblock::decode(copy).ok())
        .any(|layout| layout.size() > size || takes_no_writes)
}
