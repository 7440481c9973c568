//! A cache becomes larger or smaller in place, before a start recovers it.
//!
//! Larger: the file grows, then the superblocks get another era (`format::era`), in which the log goes on into the new segments.
//!
//!   space ─→ sync ─→ superblock A ─→ sync ─→ superblock B ─→ sync
//!
//! Smaller: the superblocks get an era with fewer segments than there are. What lies behind these is removed, as a user would
//! remove it: else a start might find an older object of the same key, or one that was removed there. Then the superblocks say that
//! all the cache has are those segments, and the file is cut off.
//!
//!   superblocks ─→ removals ─→ sync ─→ superblocks ─→ file
//!
//! Whoever called it cuts the file off.
//!
//! Whoever is interrupted leaves the size before, or the new one; or, half-way to a smaller one, the rest for the next start.

use crate::buffer::{Buffer, Pool};
use crate::by_hand::ByHand;
use crate::digester::stretch;
use crate::disk::Disk;
use crate::disk::file::layout;
use crate::format::superblock::{self, COPIES};
use crate::format::table::Entry;
use crate::format::{BLOCK, Layout, PLACE_BITS};
use crate::index::Index;
use crate::reads::Reads;
use crate::recovery::{entries_of, recover};
use crate::shared::POOL;
use crate::{Admission, Options};
use std::collections::HashSet;
use std::io;

const UNREAD: &str = "its size cannot change while parts of it cannot be read; check the disk";

/// Keys at most of which it is looked up together whether what stays is theirs.
const CLAIMS: usize = if cfg!(test) { 100 } else { 4 << 20 };

/// How often writes are tried again, a second of the store's time after each other.
const ATTEMPTS: u64 = 100;

/// The segments that a cache has with `size` bytes, or why it cannot have that size.
pub(crate) fn segments_of(there: &Layout, size: u64) -> Result<u64, String> {
    let wanted = layout(size, there.segment, there.identity)?;
    // Their places would not fit.
    if wanted.unit > there.unit {
        return Err(format!(
            "it cannot grow beyond {} GiB in place, for its records lie at multiples of {} bytes; remove the file to \
             create a larger one",
            u64::from(there.unit) << (PLACE_BITS - 30),
            there.unit
        ));
    }
    Ok(wanted.segments)
}

/// Gives a cache so many segments: how it is divided then.
pub(crate) fn resize(
    disk: &dyn Disk,
    there: Layout,
    segments: u64,
    options: &Options,
) -> Result<Layout, String> {
    let there = finish(disk, there, options)?;
    if there.segments == segments {
        return Ok(there);
    }
    let pool = Pool::new(POOL);
    let index = Index::of(&there, options.objects(&there));
    let (state, found) = recover(&Reads::new(disk, &pool), there, stretch(there.segments), index)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if found.unread {
        return Err(UNREAD.into());
    }
    let Some(next) = there.resized(state.seq, segments) else {
        return Err(
            "its size was changed too often since the log came round last; drop --cache-size until it has, \
                    or remove the file to create a new one"
                .into(),
        );
    };
    drop(state);
    if next.is_shrinking() {
        can_be_read(&Reads::new(disk, &pool), next)?;
    }
    if next.segments > there.segments {
        disk.reserve(next.size()).and_then(|()| disk.sync()).map_err(|error| {
            format!(
                "{} MiB cannot be reserved for it: {error}; free some space or choose a smaller --cache-size",
                next.size() >> 20
            )
        })?;
    }
    write_superblocks(disk, &next)?;
    finish(disk, next, options)
}

/// Goes on with a cache that was becoming smaller.
pub(crate) fn finish(disk: &dyn Disk, layout: Layout, options: &Options) -> Result<Layout, String> {
    if !layout.is_shrinking() {
        return Ok(layout);
    }
    remove_tail(disk, layout, options)?;
    let cut = layout.cut();
    write_superblocks(disk, &cut)?;
    Ok(cut)
}

/// Both copies, one after the other: at any moment one of them is whole.
pub(crate) fn write_superblocks(disk: &dyn Disk, layout: &Layout) -> Result<(), String> {
    let mut image = Buffer::new(BLOCK);
    image.copy_from_slice(&superblock::encode(layout));
    let written: io::Result<()> = disk
        .sync()
        .and_then(|()| COPIES.iter().try_for_each(|at| disk.write(*at, &image).and_then(|()| disk.sync())));
    written.map_err(|error| format!("it cannot be written: {error}"))
}

/// What lies behind the segments that stay.
fn tail(layout: &Layout) -> impl Iterator<Item = u64> {
    let newest = layout.least_next().checked_sub(1);
    (layout.in_turn()..layout.segments).filter_map(move |number| layout.seq_of(number, newest?))
}

/// Whether it can be said what leaves: once the superblocks tell that it does, there is no way back.
fn can_be_read(reads: &Reads<'_>, layout: Layout) -> Result<(), String> {
    let seqs: Vec<u64> = tail(&layout).collect();
    let read = reads.each(&seqs, |seq| entries_of(reads, layout, *seq).map(drop));
    read.into_iter().collect::<io::Result<()>>().map_err(unreadable)
}

fn unreadable(error: io::Error) -> String {
    format!("what has to leave it cannot be read: {error}; check the disk")
}

/// Removes all that is listed behind the segments that stay, unless something newer of its key lies in these.
fn remove_tail(disk: &dyn Disk, layout: Layout, options: &Options) -> Result<(), String> {
    // What stays has to be known of all that is there: an index for the smaller cache has no room for that.
    let quiet = Options {
        index_max: None,
        admission: Admission::All,
        write_budget: None,
        cmax: 0,
        group_memory: 0,
        tell: |_| {},
        ..options.clone()
    };
    let (store, found) = ByHand::open(disk, layout, &quiet).map_err(unreadable)?;
    if found.unread {
        return Err(UNREAD.into());
    }
    let mut now = 0;
    settle(&store, disk, &mut now, false)?;
    let pool = Pool::new(POOL);
    let reads = Reads::new(disk, &pool);
    let mut claims = Vec::new();
    for seq in tail(&layout) {
        // What is older than what was written over has nothing to bring back.
        if layout.is_gone(seq, store.newest()) {
            continue;
        }
        for entry in entries_of(&reads, layout, seq).map_err(unreadable)? {
            match store.place_of(entry.hash).filter(|place| layout.segment_of(*place) < layout.in_turn()) {
                Some(place) => claims.push((place, entry.hash)),
                None => store.remove_anyway(entry.hash),
            }
        }
        if claims.len() >= CLAIMS {
            remove_others(&store, &reads, layout, &mut claims)?;
        }
        settle(&store, disk, &mut now, false)?;
    }
    remove_others(&store, &reads, layout, &mut claims)?;
    settle(&store, disk, &mut now, true)
}

/// The index knows no more than the beginning of a hash. What lies at these places may be another key's: the tables know.
fn remove_others(
    store: &ByHand,
    reads: &Reads<'_>,
    layout: Layout,
    claims: &mut Vec<(u64, u64)>,
) -> Result<(), String> {
    claims.sort_unstable();
    for claims in claims.chunk_by(|a, b| layout.segment_of(a.0) == layout.segment_of(b.0)) {
        let number = layout.segment_of(claims[0].0);
        let entries = match layout.seq_of(number, store.newest()) {
            Some(seq) => entries_of(reads, layout, seq).map_err(unreadable)?,
            None => Vec::new(),
        };
        let listed = |entry: &Entry| {
            let place = layout.place(number, entry.offset as usize * layout.unit as usize);
            entry.kind.is_answer().then_some((place, entry.hash))
        };
        let listed: HashSet<(u64, u64)> = entries.iter().filter_map(listed).collect();
        let others = claims.iter().filter(|claim| !listed.contains(claim));
        others.for_each(|(_, hash)| store.remove_anyway(*hash));
    }
    claims.clear();
    Ok(())
}

/// Until all is written.
fn settle(store: &ByHand, disk: &dyn Disk, now: &mut u64, for_good: bool) -> Result<(), String> {
    for _ in 0..ATTEMPTS {
        store.turn(disk, *now);
        if for_good {
            store.finish(disk);
        }
        if store.is_settled(for_good) {
            return Ok(());
        }
        *now += 1_000;
    }
    Err(format!("what leaves it cannot be noted: {}", store.cause()))
}
