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

mod digests;

use crate::buffer::{Buffer, Pool};
use crate::by_hand::ByHand;
use crate::digester::stretch;
use crate::disk::Disk;
use crate::disk::file::layout;
use crate::format::superblock::{self, COPIES};
use crate::format::table::Entry;
use crate::format::{BLOCK, Layout, PLACE_BITS, RESIZED};
use crate::index::Index;
use crate::reads::{PARALLEL, Reads};
use crate::recovery::{doubtful_of, entries_of, recover};
use crate::shared::POOL;
use crate::{Admission, Options};
use std::collections::HashMap;
use std::io;
use std::time::Duration;

const UNREAD: &str = "it is becoming smaller, and parts of it cannot be read; check the disk, or remove the file to create a new one";

/// Keys at most of which it is looked up together whether what stays is theirs.
const CLAIMS: usize = if cfg!(test) { 100 } else { 3 << 20 };

/// What takes longer says so after this time, and then this often.
const TOLD_AFTER: Duration = Duration::from_secs(2);
const TOLD_EVERY: Duration = Duration::from_secs(10);

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

/// What leaves with this order has something newer at a place that stays, says the index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    place: u64,
    hash: u64,
    order: u64,
}

/// What the size of a cache is changed with.
pub(crate) struct Resizing<'a> {
    pub disk: &'a dyn Disk,
    pub reads: &'a Reads<'a>,
    pub options: &'a Options,
    /// For how many segments a digest is made in a log of so many (`digester::stretch`).
    pub stretch: &'a dyn Fn(u64) -> Option<u64>,
}

/// Gives a cache the size that it should have, if another.
pub(crate) fn of_size(disk: &dyn Disk, there: Layout, options: &Options) -> Result<Layout, String> {
    let pool = Pool::new(POOL);
    let reads = Reads::new(disk, &pool);
    Resizing { disk, reads: &reads, options, stretch: &stretch }.of_size(there)
}

impl Resizing<'_> {
    /// How the cache is divided then.
    pub fn of_size(&self, there: Layout) -> Result<Layout, String> {
        self.heal_superblocks(&there)?;
        let segments = match self.options.size {
            Some(size) => segments_of(&there, size)?,
            None => there.in_turn(),
        };
        let resized = self.resize(there, segments)?;
        // A start may have been interrupted before that, or after it had reserved more.
        if superblock::version(&resized) == RESIZED {
            let cut = self.disk.cut_off(resized.size());
            cut.map_err(|error| format!("the file cannot be cut off: {error}"))?;
        }
        Ok(resized)
    }

    fn resize(&self, there: Layout, segments: u64) -> Result<Layout, String> {
        let there = self.finish(there, true)?;
        if there.segments == segments {
            return Ok(there);
        }
        let index = Index::of(&there, self.options.objects(&there));
        let (state, found) = recover(self.reads, there, (self.stretch)(there.segments), index)
            .map_err(|error| format!("it cannot be read: {error}"))?;
        if found.unread {
            return Ok(self.keep(there, "parts of it cannot be read; check the disk"));
        }
        let Some(next) = there.resized(state.seq, segments) else {
            return Ok(self.keep(there, "it was changed too often since the log came round last"));
        };
        drop(state);
        if next.is_shrinking()
            && let Err(error) = self.can_be_read(next)
        {
            return Ok(self.keep(there, &unreadable(error)));
        }
        if next.segments > there.segments {
            self.disk.reserve(next.size()).and_then(|()| self.disk.sync()).map_err(|error| {
                format!(
                    "{} MiB cannot be reserved for it: {error}; free some space or choose a smaller --cache-size",
                    next.size() >> 20
                )
            })?;
        }
        self.write_superblocks(&next)?;
        self.finish(next, false)
    }

    /// Leaves the size as it is: what stands in the way may be gone by a later start, or the log has written over it.
    fn keep(&self, there: Layout, why: &str) -> Layout {
        (self.options.tell)(&format!(
            "cache {} keeps its size of {} MiB until a later start: {why}",
            self.options.path.display(),
            there.size() >> 20
        ));
        there
    }

    /// Goes on with a cache that is becoming smaller. `again`: an earlier start began it.
    fn finish(&self, layout: Layout, again: bool) -> Result<Layout, String> {
        if !layout.is_shrinking() {
            return Ok(layout);
        }
        self.remove_tail(layout, again)?;
        let cut = layout.cut();
        self.write_superblocks(&cut)?;
        Ok(cut)
    }

    /// A size that is in one copy alone, since a start was interrupted that changed it, comes into both: else the other copy would
    /// count once that one is damaged.
    fn heal_superblocks(&self, there: &Layout) -> Result<(), String> {
        match COPIES.iter().any(|at| self.superblock(*at).is_some_and(|found| found != *there)) {
            true => self.write_superblocks(there),
            false => Ok(()),
        }
    }

    fn superblock(&self, at: u64) -> Option<Layout> {
        superblock::decode(&self.reads.read(at, BLOCK).ok()?).ok()
    }

    /// Both copies, one after the other: at any moment one of them is whole.
    fn write_superblocks(&self, layout: &Layout) -> Result<(), String> {
        let mut image = Buffer::new(BLOCK);
        image.copy_from_slice(&superblock::encode(layout));
        // One that is not there would lead into the log as it was.
        let is_there = |at: u64| match self.superblock(at) {
            Some(there) if there == *layout => Ok(()),
            _ => Err(not_there()),
        };
        let write = |at: &u64| {
            self.disk.write(*at, &image).and_then(|()| self.disk.sync()).and_then(|()| is_there(*at))
        };
        let written: io::Result<()> = self.disk.sync().and_then(|()| COPIES.iter().try_for_each(write));
        written.map_err(|error| format!("it cannot be written: {error}"))
    }

    /// Whether it can be said what leaves: once the superblocks tell that it does, there is no way back.
    fn can_be_read(&self, layout: Layout) -> io::Result<()> {
        let seqs: Vec<u64> = tail(&layout).collect();
        let mut progress = self.progress("looked at");
        for (nth, some) in seqs.chunks(PARALLEL * 4).enumerate() {
            let read = self.reads.each(some, |seq| listed(self.reads, layout, *seq).map(drop));
            read.into_iter().collect::<io::Result<()>>()?;
            progress.tell(nth * PARALLEL * 4, seqs.len());
        }
        Ok(())
    }

    fn progress(&self, done: &'static str) -> Progress<'_> {
        Progress { resizing: self, done, next: self.reads.time() + TOLD_AFTER }
    }

    /// Removes all that is listed behind the segments that stay, unless something newer of its key lies in these. What one has whose
    /// table does not come, `again`, counts as removed: whatever is older is.
    fn remove_tail(&self, layout: Layout, again: bool) -> Result<(), String> {
        // What stays has to be known of all that is there: an index for the smaller cache has no room for that.
        let quiet = Options {
            index_max: None,
            admission: Admission::All,
            write_budget: None,
            cmax: 0,
            group_memory: 0,
            tell: |_| {},
            news: |_| {},
            ..self.options.clone()
        };
        let index = Index::of(&layout, quiet.objects(&layout));
        let found = recover(self.reads, layout, (self.stretch)(layout.in_turn()), index);
        let (state, found) = found.map_err(unreadable)?;
        if found.unread {
            // Before anything is written: who goes on without it writes what hides it.
            return Err(UNREAD.into());
        }
        let store = ByHand::of(self.disk, state, &quiet);
        let mut now = 0;
        let stays = |place| layout.segment_of(place) < layout.in_turn();
        settle(&store, self.disk, &mut now, false)?;
        let (seqs, mut claims) = (tail(&layout).collect::<Vec<_>>(), Vec::new());
        let (mut progress, mut unread) = (self.progress("cleared"), Vec::new());
        for (nth, some) in seqs.chunks(PARALLEL).enumerate() {
            let entries = self.reads.each(some, |seq| listed(self.reads, layout, *seq));
            for (seq, entries) in some.iter().zip(entries) {
                // What is older than what was written over has nothing to bring back.
                if layout.is_gone(*seq, store.newest()) {
                    continue;
                }
                let entries = match entries {
                    Err(error) if !again || self.reads.are_given_up() => return Err(unreadable(error)),
                    Err(_) => {
                        unread.push(*seq);
                        continue;
                    }
                    Ok((entries, doubtful)) => {
                        remove_doubtful(&store, layout, *seq, &doubtful);
                        entries
                    }
                };
                self.remove_of(&store, layout, entries, stays, &mut claims)?;
                settle(&store, self.disk, &mut now, false)?;
            }
            progress.tell(nth * PARALLEL, seqs.len());
        }
        if let Some(last) = unread.iter().max() {
            self.remove_before(&store, layout, *last, &mut claims, &mut now)?;
            (self.options.tell)(&format!(
                "cache {} becomes smaller, and {} packet(s) behind its new end cannot be read: all that was stored before them is \
                 gone; check the disk",
                self.options.path.display(),
                unread.len()
            ));
        }
        self.remove_others(&store, layout, &mut claims)?;
        let moved = self.move_digests(&store, layout, &mut now)?;
        settle(&store, self.disk, &mut now, true)?;
        self.list(&store, layout, &moved)
    }

    /// Removes what stays of the segments that were opened before this one, unless something newer of its key stays.
    fn remove_before(
        &self,
        store: &ByHand,
        layout: Layout,
        last: u64,
        claims: &mut Vec<Claim>,
        now: &mut u64,
    ) -> Result<(), String> {
        let stays = |place| {
            let number = layout.segment_of(place);
            number < layout.in_turn() && layout.seq_of(number, store.newest()) > Some(last)
        };
        let seqs = (0..layout.in_turn()).filter_map(|number| layout.seq_of(number, last));
        let seqs: Vec<u64> = seqs.collect();
        for some in seqs.chunks(PARALLEL) {
            let found = self.reads.each(some, |seq| listed(self.reads, layout, *seq));
            for (seq, found) in some.iter().zip(found) {
                let (entries, doubtful) = found.map_err(|_| UNREAD)?;
                remove_doubtful(store, layout, *seq, &doubtful);
                let entries = entries.into_iter().filter(|entry| entry.kind.is_answer());
                self.remove_of(store, layout, entries, stays, claims)?;
            }
            settle(store, self.disk, now, false)?;
        }
        Ok(())
    }

    /// Removes what is listed, unless something newer of its key may lie at a place that `stays`.
    fn remove_of(
        &self,
        store: &ByHand,
        layout: Layout,
        listed: impl IntoIterator<Item = Entry>,
        stays: impl Fn(u64) -> bool,
        claims: &mut Vec<Claim>,
    ) -> Result<(), String> {
        for Entry { hash, order, .. } in listed {
            match store.place_of(hash).filter(|place| stays(*place)) {
                Some(place) => claims.push(Claim { place, hash, order }),
                None => store.remove_anyway(hash),
            }
        }
        if claims.len() >= CLAIMS { self.remove_others(store, layout, claims) } else { Ok(()) }
    }

    /// The index knows no more than the beginning of a hash, and where it could not read all, what the key had before. What lies at these
    /// places may be another key's, or older: the tables know.
    fn remove_others(&self, store: &ByHand, layout: Layout, claims: &mut Vec<Claim>) -> Result<(), String> {
        claims.sort_unstable();
        let newest = store.newest();
        let segment = |claim: &Claim| layout.segment_of(claim.place);
        let claimed: Vec<&[Claim]> = claims.chunk_by(|a, b| segment(a) == segment(b)).collect();
        for some in claimed.chunks(PARALLEL) {
            let entries = self.reads.each(some, |claims| match layout.seq_of(segment(&claims[0]), newest) {
                Some(seq) => entries_of(self.reads, layout, seq),
                None => Ok(Vec::new()),
            });
            for (claims, entries) in some.iter().zip(entries) {
                let entries = entries.map_err(unreadable)?;
                let number = segment(&claims[0]);
                let listed = |entry: &Entry| {
                    let place = layout.place(number, entry.offset as usize * layout.unit as usize);
                    entry.kind.is_answer().then_some(((place, entry.hash), entry.order))
                };
                let listed: HashMap<(u64, u64), u64> = entries.iter().filter_map(listed).collect();
                let is_newer = |claim: &Claim| {
                    listed.get(&(claim.place, claim.hash)).is_some_and(|order| *order > claim.order)
                };
                let others = claims.iter().filter(|claim| !is_newer(claim));
                others.for_each(|claim| store.remove_anyway(claim.hash));
            }
        }
        claims.clear();
        Ok(())
    }
}

/// Says every now and then how far it is.
struct Progress<'a> {
    resizing: &'a Resizing<'a>,
    done: &'static str,
    next: Duration,
}

impl Progress<'_> {
    fn tell(&mut self, done: usize, all: usize) {
        let Resizing { reads, options, .. } = self.resizing;
        if reads.time() >= self.next {
            self.next = reads.time() + TOLD_EVERY;
            (options.news)(&format!(
                "cache {} becomes smaller: {done} of {all} packets behind its new end are {}",
                options.path.display(),
                self.done
            ));
        }
    }
}

/// What a segment lists, and what is listed there in doubt.
fn listed(reads: &Reads<'_>, layout: Layout, seq: u64) -> io::Result<(Vec<Entry>, Vec<Entry>)> {
    let entries = entries_of(reads, layout, seq)?;
    let doubtful = doubtful_of(reads, layout, seq, &entries)?;
    Ok((entries, doubtful))
}

/// Removes what is listed in doubt and is there for all that the index knows.
fn remove_doubtful(store: &ByHand, layout: Layout, seq: u64, doubtful: &[Entry]) {
    let (number, unit) = (layout.number(seq), layout.unit as usize);
    let place = |entry: &Entry| layout.place(number, entry.offset as usize * unit);
    let there = doubtful.iter().filter(|entry| store.place_of(entry.hash) == Some(place(entry)));
    there.for_each(|entry| store.remove_anyway(entry.hash));
}

/// What lies behind the segments that stay.
fn tail(layout: &Layout) -> impl Iterator<Item = u64> {
    let newest = layout.least_next().checked_sub(1);
    (layout.in_turn()..layout.segments).filter_map(move |number| layout.seq_of(number, newest?))
}

fn unreadable(error: io::Error) -> String {
    format!("what has to leave it cannot be read: {error}; check the disk")
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
    Err(unnoted(store))
}

fn unnoted(store: &ByHand) -> String {
    format!("what leaves it cannot be noted: {}", store.cause())
}

fn not_there() -> io::Error {
    io::Error::other("what was written is not there; check the disk")
}
