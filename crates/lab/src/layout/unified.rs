//! UNIFIED: all objects in one file, each in one piece, found room for by a bit vector, a heap of free pieces by size and two
//! hash tables of them by their ends (Chang and Lai, Section 4).
//!
//! New objects go into the largest free piece until it is used up (cluster write). An object lies with its metadata, so that
//! a scan of the file finds all again.

use super::{FreeSpace, Layout, Stored, check, unknown};
use crate::medium::{Failed, File, Medium, ROOT};
use crate::object::Object;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a chunk.
const CHUNK: u64 = 512;
/// Bytes of metadata before an object: a mark, the object's numbers, its first and last chunk, and how many were written
/// before it.
const HEAD: usize = 64;
const MARK: u64 = 0x4445_4946_494e_5521;

pub struct Unified {
    file: Option<File>,
    space: FreePieces,
    /// The piece that new objects go into: first chunk and count.
    cluster: (u32, u32),
    stored: HashMap<u64, u32>,
    written: u64,
    buffer: Vec<u8>,
}

impl Unified {
    /// `space` is the file's size, bytes.
    pub fn new(space: u64) -> Unified {
        let chunks = u32::try_from(space / CHUNK).unwrap_or(u32::MAX);
        Unified {
            file: None,
            space: FreePieces::new(chunks),
            cluster: (0, 0),
            stored: HashMap::new(),
            written: 0,
            buffer: Vec::new(),
        }
    }

    fn file(&self) -> Result<File, Failed> {
        self.file.ok_or_else(|| "not prepared".into())
    }

    /// Room in one piece; nothing when no piece is large enough.
    fn allocate(&mut self, count: u32) -> Option<u32> {
        if self.cluster.1 < count {
            // What is left of a piece is one again with what became free beside it.
            let left = std::mem::take(&mut self.cluster);
            self.give(left);
            self.space.largest().filter(|largest| *largest >= count)?;
            self.cluster = self.space.take_largest()?;
        }
        let first = self.cluster.0;
        self.cluster = (first + count, self.cluster.1 - count);
        Some(first)
    }

    fn give(&mut self, (first, count): (u32, u32)) {
        if count > 0 {
            self.space.give(first, count);
        }
    }

    /// Finds all objects again by a scan of the whole file, and with them what is free. Where two claim a chunk, the one
    /// written later has it; one that was deleted comes back while nothing lies over it.
    pub fn recover(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        let (file, chunks) = (self.file()?, self.space.chunks());
        let mut found = Vec::new();
        let mut head = [0; HEAD];
        for chunk in 0..chunks {
            medium.read(file, u64::from(chunk) * CHUNK, &mut head)?;
            found.extend(read_head(&head, chunk).filter(|one| one.last < chunks));
        }
        found.sort_by_key(|one| std::cmp::Reverse(one.nth));
        *self = Unified { file: Some(file), ..Unified::new(u64::from(chunks) * CHUNK) };
        self.written = found.first().map_or(0, |newest| newest.nth + 1);
        let mut kept: BTreeMap<u32, u32> = BTreeMap::new();
        for Found { id, first, last, .. } in found {
            let apart = kept.range(..=last).next_back().is_none_or(|(_, before)| *before < first);
            if apart && !self.stored.contains_key(&id) {
                kept.insert(first, last);
                self.stored.insert(id, first);
            }
        }
        self.space.take_largest();
        let mut free = 0;
        for (first, last) in kept {
            self.give((free, first - free));
            free = last + 1;
        }
        self.give((free, chunks - free));
        Ok(())
    }
}

/// An object's metadata, as a scan finds it.
struct Found {
    id: u64,
    first: u32,
    last: u32,
    nth: u64,
}

fn chunks_of(object: &Object) -> u32 {
    (object.size + HEAD as u64).div_ceil(CHUNK) as u32
}

fn write_head(object: &Object, first: u32, nth: u64, into: &mut [u8]) {
    let last = first + chunks_of(object) - 1;
    let version = u64::from(object.version);
    let numbers = [MARK, object.id, version, object.size, u64::from(first), u64::from(last), nth, 0];
    for (bytes, number) in into.chunks_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

/// The object that begins at this chunk.
fn read_head(head: &[u8; HEAD], chunk: u32) -> Option<Found> {
    let number = |nth: usize| head[8 * nth..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let fits = number(0) == MARK && number(4) == u64::from(chunk) && number(5) >= number(4);
    let last = u32::try_from(number(5)).ok()?;
    fits.then_some(Found { id: number(1), first: chunk, last, nth: number(6) })
}

impl Layout for Unified {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.file = Some(medium.create(ROOT, 0)?);
        Ok(())
    }

    fn write(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Stored, Failed> {
        let Some(first) = self.allocate(chunks_of(object)) else { return Ok(Stored::Full) };
        self.buffer.clear();
        self.buffer.resize(HEAD + object.size as usize, 0);
        write_head(object, first, self.written, &mut self.buffer[..HEAD]);
        self.written += 1;
        object.fill(0, &mut self.buffer[HEAD..]);
        medium.write(self.file()?, u64::from(first) * CHUNK, &self.buffer)?;
        self.stored.insert(object.id, first);
        Ok(Stored::Yes)
    }

    fn read(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let first = *self.stored.get(&object.id).ok_or_else(|| unknown(object))?;
        self.buffer.resize(HEAD + object.size as usize, 0);
        medium.read(self.file()?, u64::from(first) * CHUNK, &mut self.buffer)?;
        check(object, 0, &self.buffer[HEAD..])
    }

    fn delete(&mut self, _medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let first = self.stored.remove(&object.id).ok_or_else(|| unknown(object))?;
        self.give((first, chunks_of(object)));
        Ok(())
    }

    fn free_pieces(&self) -> Option<(u64, u64)> {
        Some((self.space.count() as u64, u64::from(self.space.free()) * CHUNK))
    }

    fn free_space(&self) -> Option<FreeSpace> {
        let bytes = |(first, count): (u32, u32)| (u64::from(first) * CHUNK, u64::from(count) * CHUNK);
        let pieces = self.space.all().chain([self.cluster]).map(bytes);
        Some(FreeSpace { bytes: u64::from(self.space.chunks()) * CHUNK, pieces: pieces.collect() })
    }
}

/// The free pieces of a row of chunks. Taking the largest and giving back cost O(log n) of n pieces.
pub struct FreePieces {
    /// A bit for each chunk that is in use.
    used: Vec<u64>,
    chunks: u32,
    nodes: Vec<Node>,
    spare: Vec<u32>,
    /// Nodes by the first chunk of their piece, and by the last.
    front: HashMap<u32, u32>,
    rear: HashMap<u32, u32>,
    /// Nodes; none is larger than its parent.
    heap: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Node {
    first: u32,
    count: u32,
    /// In the heap.
    place: u32,
}

impl FreePieces {
    /// All free.
    pub fn new(chunks: u32) -> FreePieces {
        let mut pieces = FreePieces {
            used: vec![u64::MAX; chunks as usize / 64 + 1],
            chunks,
            nodes: Vec::new(),
            spare: Vec::new(),
            front: HashMap::new(),
            rear: HashMap::new(),
            heap: Vec::new(),
        };
        if chunks > 0 {
            pieces.give(0, chunks);
        }
        pieces
    }

    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// FreePieces that are free.
    pub fn count(&self) -> usize {
        self.heap.len()
    }

    /// The pieces that are free, in any order: first chunk and count.
    pub fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        self.heap.iter().map(|node| self.nodes[*node as usize]).map(|node| (node.first, node.count))
    }

    /// Chunks that are free.
    pub fn free(&self) -> u32 {
        self.all().map(|(_, count)| count).sum()
    }

    /// Chunks of the largest piece.
    pub fn largest(&self) -> Option<u32> {
        self.heap.first().map(|node| self.nodes[*node as usize].count)
    }

    /// The largest piece, now in use: first chunk and count.
    pub fn take_largest(&mut self) -> Option<(u32, u32)> {
        let node = *self.heap.first()?;
        let Node { first, count, .. } = self.forget(node);
        self.mark(first, count, true);
        Some((first, count))
    }

    /// Makes a piece free, one with its free neighbours.
    pub fn give(&mut self, first: u32, count: u32) {
        self.mark(first, count, false);
        let (mut first, mut count) = (first, count);
        if first > 0
            && !self.is_used(first - 1)
            && let Some(left) = self.rear.get(&(first - 1)).copied()
        {
            let left = self.forget(left);
            (first, count) = (left.first, left.count + count);
        }
        let after = first + count;
        if after < self.chunks
            && !self.is_used(after)
            && let Some(right) = self.front.get(&after).copied()
        {
            count += self.forget(right).count;
        }
        self.note(first, count);
    }

    fn note(&mut self, first: u32, count: u32) {
        let new = Node { first, count, place: self.heap.len() as u32 };
        let node = match self.spare.pop() {
            Some(node) => {
                self.nodes[node as usize] = new;
                node
            }
            None => {
                self.nodes.push(new);
                self.nodes.len() as u32 - 1
            }
        };
        self.front.insert(first, node);
        self.rear.insert(first + count - 1, node);
        self.heap.push(node);
        self.rise(self.heap.len() - 1);
    }

    fn forget(&mut self, node: u32) -> Node {
        let gone = self.nodes[node as usize];
        self.front.remove(&gone.first);
        self.rear.remove(&(gone.first + gone.count - 1));
        let place = gone.place as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.seat(place);
            self.rise(place);
            self.sink(place);
        }
        self.spare.push(node);
        gone
    }

    fn size_at(&self, place: usize) -> u32 {
        self.nodes[self.heap[place] as usize].count
    }

    /// A node learns its place.
    fn seat(&mut self, place: usize) {
        let node = self.heap[place];
        self.nodes[node as usize].place = place as u32;
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        self.seat(one);
        self.seat(other);
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.size_at(place) > self.size_at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let below = [2 * place + 1, 2 * place + 2].into_iter().filter(|child| *child < self.heap.len());
            let Some(largest) = below.max_by_key(|child| self.size_at(*child)) else { return };
            if self.size_at(largest) <= self.size_at(place) {
                return;
            }
            self.swap(place, largest);
            place = largest;
        }
    }

    fn is_used(&self, chunk: u32) -> bool {
        self.used[chunk as usize / 64] >> (chunk % 64) & 1 == 1
    }

    fn mark(&mut self, first: u32, count: u32, used: bool) {
        let (mut at, end) = (first, first + count);
        while at < end {
            let (word, bit) = (at as usize / 64, at % 64);
            let bits = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - bits)) << bit;
            debug_assert_eq!(self.used[word] & mask, if used { 0 } else { mask }, "chunk {at}");
            self.used[word] ^= mask;
            at += bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};
    use crate::storage::{Managed, Outcome, Storage};
    use policy::replacement::LRU;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use trace::Access;

    proptest! {
        /// As a set of free chunks is, whose runs are looked for.
        #[test]
        fn pieces_are_the_runs_of_free_chunks(turns in proptest::collection::vec((any::<u16>(), 1u32..40), 1..200)) {
            let mut pieces = FreePieces::new(1000);
            let mut free: BTreeSet<u32> = (0..1000).collect();
            let mut held: Vec<(u32, u32)> = Vec::new();
            for (turn, count) in turns {
                if turn % 3 == 0 && !held.is_empty() {
                    let (first, count) = held.swap_remove(turn as usize % held.len());
                    pieces.give(first, count);
                    free.extend(first..first + count);
                } else if let Some((first, whole)) = pieces.take_largest() {
                    let taken = count.min(whole);
                    (first..first + taken).for_each(|chunk| { free.remove(&chunk); });
                    held.push((first, taken));
                    if taken < whole {
                        pieces.give(first + taken, whole - taken);
                    }
                }
                let mut runs: Vec<u32> = Vec::new();
                let mut before = None;
                for chunk in &free {
                    match runs.last_mut() {
                        Some(run) if before == chunk.checked_sub(1) => *run += 1,
                        _ => runs.push(1),
                    }
                    before = Some(*chunk);
                }
                prop_assert_eq!(pieces.largest(), runs.iter().max().copied());
                prop_assert_eq!((pieces.count(), pieces.free()), (runs.len(), free.len() as u32));
            }
        }
    }

    /// Chang and Lai replace by LRU until the object has its piece: bytes enough in pieces too short are none.
    #[test]
    fn others_go_until_a_piece_fits() {
        let chunks = |count: u64| count * CHUNK - HEAD as u64;
        let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
        let mut storage = Managed::new(10 * chunks(10), LRU, Box::new(Unified::new(100 * CHUNK)));
        storage.prepare(&mut ufs).unwrap();
        let mut ask = |object, size| {
            storage.get(&mut ufs, &Access { object, size, modified: 1, ..Access::default() }).unwrap()
        };
        assert!((1..=10).all(|object| ask(object, chunks(10)) == Outcome::Stored));
        // Every other one is to go first, and no two of those lie side by side.
        assert!([2, 4, 6, 8, 10].into_iter().all(|object| ask(object, chunks(10)) == Outcome::Hit));
        assert_eq!(ask(11, chunks(25)), Outcome::Stored);
        assert_eq!(ask(11, chunks(25)), Outcome::Hit);
        assert_eq!(ask(10, chunks(10)), Outcome::Hit, "no more go than need be");
    }

    #[test]
    fn a_scan_finds_all_again() {
        let mut ufs = FileSystem::new(ST15150W, ULTRA_1);
        let mut unified = Unified::new(1 << 20);
        unified.prepare(&mut ufs).unwrap();
        let objects: Vec<Object> =
            (1..60).map(|id| Object { id, version: 1, size: 100 + 211 * id, ..Object::default() }).collect();
        for object in &objects {
            unified.write(&mut ufs, object).unwrap();
        }
        for object in objects.iter().filter(|object| object.id % 3 == 0) {
            unified.delete(&mut ufs, object).unwrap();
            let reused = Object { id: object.id + 1000, ..*object };
            unified.write(&mut ufs, &reused).unwrap();
        }
        let mut known: Vec<(u64, u32)> = unified.stored.clone().into_iter().collect();
        unified.recover(&mut ufs).unwrap();
        known.sort_unstable();
        let mut found: Vec<(u64, u32)> = unified.stored.clone().into_iter().collect();
        found.sort_unstable();
        // What was deleted and not yet overwritten is found, too: nothing on the disk says that it went.
        assert!(known.iter().all(|one| found.contains(one)));
        for object in objects.iter().filter(|object| object.id % 3 != 0) {
            unified.read(&mut ufs, object).unwrap();
        }
    }
}
