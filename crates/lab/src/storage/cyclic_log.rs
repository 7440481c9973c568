//! A log written round and round, as Traffic Server's cache (its developer's guide, Cache Architecture; iocore/cache of 9.2).
//!
//! Objects gather in a buffer that is written when it is half full; what the log comes to is overwritten, however often it was
//! asked for. The directory is in memory; each minute it is written, to one of two copies before the log. Large objects lie in
//! fragments, with a head written last. Not modelled: buckets of the directory that are full, and what runs at the same time.

use super::record::{Kept, put_head};
use super::{Outcome, Storage};
use crate::layout::check;
use crate::medium::{Failed, File, Medium, ROOT};
use crate::object::{Object, Version};
use std::collections::{HashMap, VecDeque};
use trace::Access;
use trace::random::mix;

/// Bytes of a document's head.
const HEAD: u64 = 72;
/// Documents begin at multiples of this.
const SECTOR: u64 = 512;
/// The buffer, written when half of it is full, and the largest document; less in a log of less than four buffers.
const BUFFER: u64 = 4 << 20;
const FRAGMENT: u64 = 1 << 20;
/// The directory: bytes of an entry, bytes of the log for each, seconds between two writes, and bytes of a write.
const ENTRY: u64 = 10;
const PER_ENTRY: u64 = 8000;
const SYNC_EVERY: f64 = 60.0;
const SYNC_PIECE: usize = 2 << 20;

pub struct CyclicLog {
    file: Option<File>,
    /// Bytes of a copy of the directory, of the log, of its buffer and of a fragment.
    directory: u64,
    log: u64,
    most: u64,
    fragment: u64,
    /// Where in the log the buffer goes, and how many went before it.
    position: u64,
    round: u64,
    buffer: Vec<u8>,
    pending: Vec<Document>,
    kept: HashMap<u64, Kept<Vec<Document>>>,
    /// What lies in the log, the oldest first.
    written: VecDeque<Document>,
    next_sync: f64,
    syncs: u64,
    scratch: Vec<u8>,
}

/// A document in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Document {
    object: u64,
    place: u64,
    /// Rounded.
    length: u64,
    /// Of the object: its first byte here and how many.
    first: u64,
    count: u64,
    /// Which buffer it went with.
    round: u64,
}

impl CyclicLog {
    /// Bytes of directory and log together.
    pub fn new(space: u64) -> CyclicLog {
        let directory = (space / PER_ENTRY * ENTRY).next_multiple_of(SECTOR);
        let log = space.saturating_sub(2 * directory) / SECTOR * SECTOR;
        let most = BUFFER.min(log / 4 / SECTOR * SECTOR);
        CyclicLog {
            file: None,
            directory,
            log,
            most,
            fragment: FRAGMENT.min(most / 4 / SECTOR * SECTOR),
            position: 0,
            round: 0,
            buffer: Vec::new(),
            pending: Vec::new(),
            kept: HashMap::new(),
            written: VecDeque::new(),
            next_sync: SYNC_EVERY,
            syncs: 0,
            scratch: Vec::new(),
        }
    }

    fn file(&self) -> Result<File, Failed> {
        self.file.ok_or_else(|| "not prepared".into())
    }

    /// First byte and count of each document of an object: one, or fragments and the head.
    fn pieces(&self, size: u64) -> Vec<(u64, u64)> {
        let most = self.fragment - HEAD;
        if size <= most {
            return vec![(0, size)];
        }
        let fragments = (0..size.div_ceil(most)).map(|nth| (nth * most, most.min(size - nth * most)));
        fragments.chain([(size, 0)]).collect()
    }

    /// Whether it is small enough to be written before the log comes round.
    fn fits(&self, size: u64) -> bool {
        self.fragment > HEAD && size.saturating_add(size / 4) + 2 * self.fragment <= self.log
    }

    fn append(
        &mut self,
        medium: &mut dyn Medium,
        object: &Object,
        (first, count): (u64, u64),
    ) -> Result<Document, Failed> {
        let length = rounded(HEAD + count);
        let end = self.position + self.buffer.len() as u64 + length;
        if self.buffer.len() as u64 + length > self.most || end > self.log {
            self.send(medium)?;
        }
        if self.position + length > self.log {
            // What is left behind here is of the round before.
            while self.written.front().is_some_and(|oldest| oldest.place >= self.position) {
                self.drop_oldest();
            }
            self.position = 0;
        }
        let at = self.buffer.len();
        let place = self.position + at as u64;
        self.buffer.resize(at + length as usize, 0);
        let (head, bytes) = self.buffer[at..].split_at_mut(HEAD as usize);
        put_head(object, [first, count], head);
        object.fill(first, &mut bytes[..count as usize]);
        let document = Document { object: object.id, place, length, first, count, round: self.round };
        self.pending.push(document);
        if self.buffer.len() as u64 >= self.most / 2 {
            self.send(medium)?;
        }
        Ok(document)
    }

    /// Writes the buffer over what lies there.
    fn send(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (begin, end) = (self.position, self.position + self.buffer.len() as u64);
        let over = |oldest: &Document| oldest.place < end && oldest.place + oldest.length > begin;
        while self.written.front().is_some_and(over) {
            self.drop_oldest();
        }
        medium.write(self.file()?, 2 * self.directory + begin, &self.buffer)?;
        self.position = end;
        self.round += 1;
        self.buffer.clear();
        self.written.extend(self.pending.drain(..));
        Ok(())
    }

    fn drop_oldest(&mut self) {
        let Some(oldest) = self.written.pop_front() else { return };
        if self.kept.get(&oldest.object).is_some_and(|kept| kept.place.contains(&oldest)) {
            self.kept.remove(&oldest.object);
        }
    }

    fn read(&mut self, medium: &mut dyn Medium, id: u64) -> Result<(), Failed> {
        let (file, mut scratch) = (self.file()?, std::mem::take(&mut self.scratch));
        let Some(Kept { version: Version { object, .. }, place }) = self.kept.get(&id) else { return Ok(()) };
        // The head first, when it lies by itself.
        for document in place.iter().rev().take(1).chain(place.iter().take(place.len() - 1)) {
            let length = document.length as usize;
            if document.round == self.round {
                let at = (document.place - self.position) as usize;
                scratch.clear();
                scratch.extend_from_slice(&self.buffer[at..at + length]);
            } else {
                scratch.resize(length, 0);
                medium.read(file, 2 * self.directory + document.place, &mut scratch)?;
            }
            let bytes = &scratch[HEAD as usize..(HEAD + document.count) as usize];
            check(object, document.first, bytes)?;
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Writes the directory when it is time, and what is listed in it before.
    fn sync(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        if medium.seconds() < self.next_sync {
            return Ok(());
        }
        self.send(medium)?;
        let mut image = vec![0; self.directory as usize];
        let entries = self.directory / ENTRY;
        for document in self.written.iter().filter(|_| entries > 0) {
            let at = (mix(document.object) % entries * ENTRY) as usize;
            let entry = (document.place / SECTOR) | mix(document.object) << 40;
            image[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        }
        let (file, mut at) = (self.file()?, self.syncs % 2 * self.directory);
        for piece in image.chunks(SYNC_PIECE) {
            medium.write(file, at, piece)?;
            at += piece.len() as u64;
        }
        self.syncs += 1;
        self.next_sync = medium.seconds() + SYNC_EVERY;
        Ok(())
    }
}

/// Lengths of documents are counted up to 64, in units that grow by eight from a sector on.
fn rounded(length: u64) -> u64 {
    let mut unit = SECTOR;
    while length > 64 * unit {
        unit *= 8;
    }
    length.next_multiple_of(unit)
}

impl Storage for CyclicLog {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.file = Some(medium.create(ROOT, 0)?);
        self.next_sync = medium.seconds() + SYNC_EVERY;
        Ok(())
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        self.sync(medium)?;
        if self.kept.get(&access.object).is_some_and(|kept| kept.version.answers(access)) {
            self.read(medium, access.object)?;
            return Ok(Outcome::Hit);
        }
        self.kept.remove(&access.object);
        if !self.fits(access.size) {
            return Ok(Outcome::Passed);
        }
        let mut kept = Kept { version: Version::of(access), place: Vec::new() };
        for piece in self.pieces(access.size) {
            kept.place.push(self.append(medium, &kept.version.object, piece)?);
        }
        self.kept.insert(access.object, kept);
        Ok(Outcome::Stored)
    }

    fn finish(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.send(medium)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};

    fn ask(log: &mut CyclicLog, ufs: &mut FileSystem, object: u64, size: u64) -> Outcome {
        log.get(ufs, &Access { object, size, modified: 1, ..Access::default() }).unwrap()
    }

    #[test]
    fn lengths_are_rounded_as_a_directory_entry_can_say_them() {
        let lengths = [1, 512, 513, 32_768, 32_769, 262_145, 1 << 20].map(rounded);
        assert_eq!(lengths, [512, 512, 1024, 32_768, 36_864, 294_912, 1 << 20]);
    }

    #[test]
    fn the_log_goes_round_and_takes_the_oldest_first() {
        let (mut log, mut ufs) = (CyclicLog::new(1 << 20), FileSystem::new(ST15150W, ULTRA_1));
        log.prepare(&mut ufs).unwrap();
        // Documents of 8 KB: about 127 find room; 15 fill half of the buffer.
        for object in 0..120 {
            assert_eq!(ask(&mut log, &mut ufs, object, 8000), Outcome::Stored);
            assert_eq!(ask(&mut log, &mut ufs, object, 8000), Outcome::Hit, "read from the buffer");
        }
        // However often it was asked for, the oldest goes when the log comes round.
        (0..20).for_each(|_| assert_eq!(ask(&mut log, &mut ufs, 0, 8000), Outcome::Hit));
        for object in 120..160 {
            assert_eq!(ask(&mut log, &mut ufs, object, 8000), Outcome::Stored);
        }
        let here: Vec<u64> = (0..160).filter(|object| log.kept.contains_key(object)).collect();
        assert!(here[0] > 10 && here[0] < 60, "{here:?}");
        assert!(here.windows(2).all(|pair| pair[1] == pair[0] + 1), "{here:?}");
        let last = here.len() as u64;
        assert!((100..=143).contains(&last), "{last}");
    }

    #[test]
    fn writes_are_large_and_large_objects_lie_in_fragments() {
        let (mut log, mut ufs) = (CyclicLog::new(64 << 20), FileSystem::new(ST15150W, ULTRA_1));
        log.prepare(&mut ufs).unwrap();
        let mut counted = crate::medium::Counted::new(&mut ufs);
        let access = |object, size| Access { object, size, modified: 1, ..Access::default() };
        log.get(&mut counted, &access(1, 3 << 20)).unwrap();
        for object in 2..402 {
            log.get(&mut counted, &access(object, 10_000)).unwrap();
        }
        let writes = counted.operations.0["write"];
        assert!((2..=4).contains(&writes), "{writes}");
        assert_eq!(log.kept[&1].place.len(), 5, "four fragments and a head");
        assert_eq!(log.get(&mut counted, &access(1, 3 << 20)), Ok(Outcome::Hit));
        assert_eq!(counted.operations.0["read"], 5);
        let large = (64 << 20) - 1;
        assert_eq!(log.get(&mut counted, &access(9999, large)), Ok(Outcome::Passed));
    }
}
