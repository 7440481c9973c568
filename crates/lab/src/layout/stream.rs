//! STREAM (WebCoSM 2.2.1) and what may be added to it: all objects in one file of slots, written one behind the other where
//! there is room, round and round.
//!
//! - a packetizer: writes that follow each other go together, a page at a time (3.3);
//! - lazy reads: reads wait for others and go sorted by place (2.2.2);
//! - locality buffers: what comes from one server is gathered before it is written (2.2.3).

use super::{FreeSpace, Layout, Stored, check, unknown};
use crate::medium::{Failed, File, Medium, ROOT};
use crate::object::Object;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a slot, of a page, of a locality buffer.
const SLOT: u64 = 512;
const PAGE: u64 = 8192;
const BUFFER: u64 = 64 << 10;

/// What is added to STREAM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    pub packetizer: bool,
    /// Reads that wait for each other at most, and for how many seconds.
    pub lazy_reads: Option<(usize, f64)>,
    pub locality_buffers: usize,
}

pub struct Stream {
    parts: Parts,
    file: Option<File>,
    space: Space,
    packet: Packet,
    stored: HashMap<u64, Place>,
    lazy: Vec<Object>,
    lazy_since: f64,
    /// The one used last at the end.
    buffers: Vec<Buffer>,
    scratch: Vec<u8>,
}

/// Where an object is.
enum Place {
    /// Runs of slots: first and count.
    Slots(Vec<(u64, u64)>),
    /// In the locality buffer of its server.
    Buffered,
}

struct Buffer {
    server: u64,
    objects: Vec<Object>,
    bytes: u64,
}

impl Stream {
    /// `space` is the file's size, bytes.
    pub fn new(space: u64, parts: Parts) -> Stream {
        Stream {
            parts,
            file: None,
            space: Space::new(space / SLOT),
            packet: Packet::default(),
            stored: HashMap::new(),
            lazy: Vec::new(),
            lazy_since: 0.0,
            buffers: Vec::new(),
            scratch: Vec::new(),
        }
    }

    fn file(&self) -> Result<File, Failed> {
        self.file.ok_or_else(|| "not prepared".into())
    }

    /// Writes an object where there is room, in one run of slots or more.
    fn append(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(object.size.next_multiple_of(SLOT) as usize, 0);
        object.fill(0, &mut scratch[..object.size as usize]);
        scratch[object.size as usize..].fill(0);
        let mut left = object.size.div_ceil(SLOT);
        let (mut runs, mut done) = (Vec::new(), 0);
        while left > 0 {
            let (first, count) = self.space.take(left).ok_or("the file is full")?;
            let bytes = (count * SLOT) as usize;
            self.put(medium, first * SLOT, &scratch[done..done + bytes])?;
            runs.push((first, count));
            (left, done) = (left - count, done + bytes);
        }
        self.scratch = scratch;
        self.stored.insert(object.id, Place::Slots(runs));
        Ok(())
    }

    /// Whether there is room beside what locality buffers hold, which was promised some.
    fn has_room(&self, object: &Object) -> bool {
        let promised: u64 = self.buffers.iter().map(|buffer| buffer.bytes).sum();
        object.size.next_multiple_of(SLOT) + promised <= self.space.count * SLOT
    }

    fn put(&mut self, medium: &mut dyn Medium, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        let file = self.file()?;
        match self.parts.packetizer {
            true => self.packet.put(medium, file, at, bytes),
            false => medium.write(file, at, bytes),
        }
    }

    fn read_now(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let file = self.file()?;
        let Some(Place::Slots(runs)) = self.stored.get(&object.id) else { return Err(unknown(object)) };
        let mut done = 0;
        for (first, count) in runs {
            let length = (count * SLOT).min(object.size - done);
            self.scratch.resize(length as usize, 0);
            let at = first * SLOT;
            if !self.packet.get(at, &mut self.scratch) {
                medium.read(file, at, &mut self.scratch)?;
                self.packet.overlay(at, &mut self.scratch);
            }
            check(object, done, &self.scratch)?;
            done += length;
        }
        Ok(())
    }

    /// Does the reads that wait, in the order of their places.
    fn read_waiting(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        let mut waiting = std::mem::take(&mut self.lazy);
        waiting.sort_by_key(|object| match self.stored.get(&object.id) {
            Some(Place::Slots(runs)) => runs[0].0,
            _ => 0,
        });
        for object in waiting {
            self.read_now(medium, &object)?;
        }
        Ok(())
    }

    fn empty_buffer(&mut self, medium: &mut dyn Medium, at: usize) -> Result<(), Failed> {
        let buffer = self.buffers.remove(at);
        for object in &buffer.objects {
            self.append(medium, object)?;
        }
        Ok(())
    }

    /// Puts an object into the buffer of its server, which is emptied when it is full; another's makes way.
    fn gather(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        let slots = object.size.next_multiple_of(SLOT);
        let mut at = self.buffers.iter().position(|buffer| buffer.server == object.server);
        if let Some(full) = at.filter(|at| self.buffers[*at].bytes + slots > BUFFER) {
            self.empty_buffer(medium, full)?;
            at = None;
        }
        if slots > BUFFER {
            return self.append(medium, object);
        }
        let buffer = match at {
            Some(at) => self.buffers.remove(at),
            None => {
                if self.buffers.len() == self.parts.locality_buffers {
                    self.empty_buffer(medium, 0)?;
                }
                Buffer { server: object.server, objects: Vec::new(), bytes: 0 }
            }
        };
        self.buffers.push(buffer);
        if let Some(buffer) = self.buffers.last_mut() {
            buffer.objects.push(*object);
            buffer.bytes += slots;
        }
        self.stored.insert(object.id, Place::Buffered);
        Ok(())
    }
}

impl Layout for Stream {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.file = Some(medium.create(ROOT, 0)?);
        Ok(())
    }

    fn write(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<Stored, Failed> {
        if !self.has_room(object) {
            return Ok(Stored::No);
        }
        match self.parts.locality_buffers {
            0 => self.append(medium, object)?,
            _ => self.gather(medium, object)?,
        }
        Ok(Stored::Yes)
    }

    fn read(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        match (self.stored.get(&object.id), self.parts.lazy_reads) {
            (None, _) => Err(unknown(object)),
            // Memory still has it.
            (Some(Place::Buffered), _) => Ok(()),
            (Some(_), None) => self.read_now(medium, object),
            (Some(_), Some((most, patience))) => {
                let now = medium.seconds();
                if self.lazy.is_empty() {
                    self.lazy_since = now;
                }
                self.lazy.push(*object);
                if self.lazy.len() >= most || now - self.lazy_since >= patience {
                    self.read_waiting(medium)?;
                }
                Ok(())
            }
        }
    }

    fn delete(&mut self, medium: &mut dyn Medium, object: &Object) -> Result<(), Failed> {
        if self.lazy.iter().any(|waiting| waiting.id == object.id) {
            self.read_waiting(medium)?;
        }
        match self.stored.remove(&object.id).ok_or_else(|| unknown(object))? {
            Place::Slots(runs) => runs.into_iter().for_each(|(first, count)| self.space.give(first, count)),
            Place::Buffered => {
                for buffer in &mut self.buffers {
                    buffer.objects.retain(|one| one.id != object.id);
                    buffer.bytes = buffer.objects.iter().map(|one| one.size.next_multiple_of(SLOT)).sum();
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        self.read_waiting(medium)?;
        while !self.buffers.is_empty() {
            self.empty_buffer(medium, 0)?;
        }
        let file = self.file()?;
        self.packet.send(medium, file)
    }

    fn free_pieces(&self) -> Option<(u64, u64)> {
        Some((self.space.free.len() as u64, self.space.count * SLOT))
    }

    fn free_space(&self) -> Option<FreeSpace> {
        let pieces = self.space.free.iter().map(|(first, count)| (first * SLOT, count * SLOT));
        Some(FreeSpace { bytes: self.space.slots * SLOT, pieces: pieces.collect() })
    }
}

/// The free slots of the file, and where writing goes on.
struct Space {
    slots: u64,
    /// Runs: first slot and count.
    free: BTreeMap<u64, u64>,
    /// Slots that are free.
    count: u64,
    next: u64,
}

impl Space {
    fn new(slots: u64) -> Space {
        let free = if slots > 0 { BTreeMap::from([(0, slots)]) } else { BTreeMap::new() };
        Space { slots, free, count: slots, next: 0 }
    }

    /// The next free slots from where the last ones ended, round the end, at most so many.
    fn take(&mut self, most: u64) -> Option<(u64, u64)> {
        let next = self.next;
        // The run that the last ones were taken from begins there.
        let ahead = self.free.range(next..).next().or_else(|| self.free.iter().next());
        let (first, count) = ahead.map(|(first, count)| (*first, *count))?;
        let taken = count.min(most);
        self.free.remove(&first);
        if taken < count {
            self.free.insert(first + taken, count - taken);
        }
        self.next = first + taken;
        self.count -= taken;
        Some((first, taken))
    }

    /// A run that is given back behind `next` while `next` lies in it is split there, so that `take` finds its rest.
    fn give(&mut self, first: u64, count: u64) {
        self.count += count;
        let (mut first, mut count) = (first, count);
        if let Some((before, length)) =
            self.free.range(..first).next_back().map(|(at, length)| (*at, *length))
            && before + length == first
            && first != self.next
        {
            self.free.remove(&before);
            (first, count) = (before, count + length);
        }
        if let Some(length) = self.free.get(&(first + count)).copied()
            && first + count != self.next
        {
            self.free.remove(&(first + count));
            count += length;
        }
        self.free.insert(first, count);
    }
}

/// A page that gathers writes while they follow each other.
#[derive(Default)]
struct Packet {
    at: u64,
    bytes: Vec<u8>,
}

impl Packet {
    fn put(&mut self, medium: &mut dyn Medium, file: File, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        let (mut at, mut bytes) = (at, bytes);
        if at != self.end() {
            self.send(medium, file)?;
        }
        while !bytes.is_empty() {
            if self.bytes.is_empty() {
                self.at = at;
            }
            let room = PAGE - at % PAGE;
            let count = (bytes.len() as u64).min(room) as usize;
            self.bytes.extend_from_slice(&bytes[..count]);
            (at, bytes) = (at + count as u64, &bytes[count..]);
            if at % PAGE == 0 {
                self.send(medium, file)?;
            }
        }
        Ok(())
    }

    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn send(&mut self, medium: &mut dyn Medium, file: File) -> Result<(), Failed> {
        if !self.bytes.is_empty() {
            medium.write(file, self.at, &self.bytes)?;
            self.at = self.end();
            self.bytes.clear();
        }
        Ok(())
    }

    /// Whether all of a range is here; then it is filled.
    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        let all = at >= self.at && at + into.len() as u64 <= self.end();
        if all {
            let from = (at - self.at) as usize;
            into.copy_from_slice(&self.bytes[from..from + into.len()]);
        }
        all
    }

    /// Puts what of a range is here over what was read.
    fn overlay(&self, at: u64, into: &mut [u8]) {
        let (from, to) = (at.max(self.at), (at + into.len() as u64).min(self.end()));
        if from < to {
            let (here, there) = ((from - self.at) as usize, (from - at) as usize);
            let count = (to - from) as usize;
            into[there..there + count].copy_from_slice(&self.bytes[here..here + count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_goes_on_where_it_ended_and_round_the_end() {
        let mut space = Space::new(10);
        assert_eq!(space.take(4), Some((0, 4)));
        assert_eq!(space.take(4), Some((4, 4)));
        space.give(0, 4);
        assert_eq!(space.take(4), Some((8, 2)), "the rest of the file first");
        assert_eq!(space.take(2), Some((0, 2)));
        space.give(4, 4);
        assert_eq!(space.take(9), Some((2, 6)), "what is free here, and no more");
        assert_eq!(space.take(1), None);
    }

    #[test]
    fn free_neighbours_become_one() {
        let mut space = Space::new(100);
        assert_eq!(space.take(100), Some((0, 100)));
        for first in [10, 30, 20, 0] {
            space.give(first, 10);
        }
        assert_eq!((space.free, space.count), (BTreeMap::from([(0, 40)]), 40));
    }
}
