//! A look at a cache from outside: never writes, needs no lock, works beside a running server.

use crate::buffer::Pool;
use crate::disk::Disk;
use crate::disk::file::{Access, FileDisk};
use crate::format::contents::Entry;
use crate::format::record::{self, Kind};
use crate::format::superblock::Superblock;
use crate::packetizer::bytes_of;
use crate::recovery::{Reads, read_table, recover};
use crate::{DEFAULT_OVERLAY, OpenError, store::superblocks};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What a cache file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    pub format: u32,
    pub size: u64,
    pub packet: u32,
    pub segments: u64,
    pub identity: u64,
    pub generation: u64,
    /// The superblock names a checkpoint.
    pub checkpoint: bool,
    /// Entries of that checkpoint, when it could be read.
    pub from_checkpoint: u64,
    /// What a start now would find.
    pub objects: u64,
    pub next_segment: u64,
    pub newest_sequence: u64,
    /// Objects with newer metadata than their record has.
    pub updated: u64,
    /// Bytes of the caller's ledger, and how often it was written.
    pub ledger_bytes: u64,
    pub ledger_generation: u64,
}

/// Reads the superblocks, the checkpoint and the tables written since.
pub fn inspect(path: &Path) -> Result<Inspection, OpenError> {
    let (disk, pool, superblocks) = look(path)?;
    let newest = superblocks[0];
    let (state, recovered) =
        recover(&Reads::new(&disk, &pool), &superblocks, DEFAULT_OVERLAY).map_err(unread(path))?;
    Ok(Inspection {
        format: crate::format::VERSION,
        size: newest.layout.size(),
        packet: newest.layout.segment,
        segments: newest.layout.segments,
        identity: newest.layout.identity,
        generation: newest.generation,
        checkpoint: newest.checkpoint.root_place != 0,
        from_checkpoint: recovered.from_checkpoint,
        objects: recovered.objects,
        next_segment: state.cursor,
        newest_sequence: state.seq,
        updated: state.overlay.len() as u64,
        ledger_bytes: state.ledger.bytes.len() as u64,
        ledger_generation: state.ledger.generation,
    })
}

/// What `check` read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segments with a valid table of contents.
    pub segments: u64,
    /// Segments never written, or torn.
    pub without_table: u64,
    /// Records that the index would answer with, and that are whole.
    pub sound: u64,
    pub sound_bytes: u64,
    /// Records that the index would answer with, and that are not what it expects: misses.
    pub damaged: u64,
    /// Records still listed that the index has left behind.
    pub superseded: u64,
    pub unreadable_segments: u64,
}

/// Reads every segment and verifies every record that a start would serve. `progress(done, of)` is called now and then.
pub fn check(path: &Path, mut progress: impl FnMut(u64, u64)) -> Result<Checked, OpenError> {
    let (disk, pool, superblocks) = look(path)?;
    let (state, _) =
        recover(&Reads::new(&disk, &pool), &superblocks, DEFAULT_OVERLAY).map_err(unread(path))?;
    let layout = state.layout;
    let mut checked = Checked::default();
    for number in 0..layout.segments {
        progress(number, layout.segments);
        let contents = match read_table(&Reads::new(&disk, &pool), &layout, number) {
            Ok(Some(contents)) => contents,
            Ok(None) => {
                checked.without_table += 1;
                continue;
            }
            Err(_) => {
                checked.unreadable_segments += 1;
                continue;
            }
        };
        checked.segments += 1;
        let mut image = pool.take(layout.segment as usize);
        if disk.read(layout.start(number), &mut image, layout.segment as usize).is_err() {
            checked.unreadable_segments += 1;
            continue;
        }
        for entry in contents.entries.iter().filter(|e| !e.is_removal()) {
            let place = layout.place(number, bytes_of(entry).start);
            let live = match entry.is_update() {
                true => state.overlay.is_from(entry.hash, place),
                false => state.index.live(entry.hash, place).is_some() || state.pins.contains(&place),
            };
            if !live {
                checked.superseded += 1;
            } else if is_sound(layout.identity, &image, entry) {
                checked.sound += 1;
                checked.sound_bytes += bytes_of(entry).len() as u64;
            } else {
                checked.damaged += 1;
            }
        }
    }
    progress(layout.segments, layout.segments);
    Ok(checked)
}

fn is_sound(identity: u64, image: &[u8], entry: &Entry) -> bool {
    record::parse(identity, &image[bytes_of(entry)]).is_some_and(|found| {
        let key = crate::Key::new(image[bytes_of(entry)][found.key].to_vec());
        (found.about.kind == Kind::Update) == entry.is_update() && key.index_hash() == entry.hash
    })
}

fn unread(path: &Path) -> impl Fn(io::Error) -> OpenError {
    move |error| OpenError(format!("cannot read cache {}: {error}", path.display()))
}

fn look(path: &Path) -> Result<(FileDisk, Arc<Pool>, Vec<Superblock>), OpenError> {
    let disk = FileDisk::open(path, Access::Look)
        .and_then(|disk| disk.ok_or_else(|| format!("there is no cache at {}", path.display())))
        .map_err(OpenError)?;
    let superblocks = superblocks(path, &disk, disk.size()).map_err(OpenError)?;
    if superblocks.is_empty() {
        return Err(OpenError(format!("{} is blank: no cache was made there yet", path.display())));
    }
    Ok((disk, Pool::new(8 << 20), superblocks))
}
