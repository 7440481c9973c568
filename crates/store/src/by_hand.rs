//! The store without threads, clock and file of its own: whoever holds it lends it a disk for each call and says what time it
//! is. The rest is the same code that serves; a seed reproduces a run to the byte. For simulation and replay.

use crate::buffer::{Buffer, Pool};
use crate::census::{Census, census};
use crate::digester;
use crate::disk::file::{format, layout};
use crate::disk::{Disk, Traffic};
use crate::engine::{Millis, Placed, State};
use crate::index::Index;
use crate::reader::{Backend, Reader};
use crate::reads::Reads;
use crate::shared::{Clock, POOL, Shared};
use crate::{Body, Key, Object, OpenError, Options, Refused, Spans, Uses, Writer};
use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;

pub struct ByHand {
    shared: Arc<Shared>,
    reader: Reader,
    desk: ManualReads,
}

/// Where a read waits until somebody carries it out; one at a time.
#[derive(Clone, Default)]
pub(crate) struct ManualReads(Rc<RefCell<Option<Wanted>>>);

pub(crate) struct Wanted {
    offset: u64,
    length: usize,
    buffer: Buffer,
    answer: oneshot::Sender<io::Result<Buffer>>,
}

impl ByHand {
    /// Makes a cache of `size` bytes on a blank disk; of the options its path and how it is read do not count. All that is
    /// left to chance follows from the seed.
    pub fn make(disk: &dyn Disk, size: u64, options: &Options, seed: u64) -> Result<ByHand, OpenError> {
        let mut chance = StdRng::seed_from_u64(seed);
        let layout = layout(size, options.packet, chance.next_u64())?;
        format(disk, &layout).map_err(|e| OpenError::from(format!("cannot write the new cache: {e}")))?;
        let state = State::blank(layout, Index::of(&layout, options.objects(&layout)));
        Ok(ByHand::over(disk, state, options, Pool::new(POOL), chance))
    }

    /// Goes on with what was recovered from a disk.
    pub(crate) fn of(disk: &dyn Disk, state: State, options: &Options) -> ByHand {
        ByHand::over(disk, state, options, Pool::new(POOL), StdRng::seed_from_u64(2))
    }

    fn over(disk: &dyn Disk, state: State, options: &Options, pool: Arc<Pool>, chance: StdRng) -> ByHand {
        let device = (Arc::<Traffic>::default(), disk.read_block());
        let clock = Clock::Holder(AtomicU64::new(0));
        let shared = Shared::new(state, options, pool, device, chance, clock);
        shared.carry_out_all(disk);
        let desk = ManualReads::default();
        let reader = Reader::new(shared.clone(), Backend::Hand(desk.clone()));
        ByHand { shared, reader, desk }
    }

    /// Where what is under the hash lies, or under another one of which the index knows the same.
    pub(crate) fn place_of(&self, hash: u64) -> Option<u64> {
        self.shared.index.find(hash).map(|slot| slot.place)
    }

    /// Removes what is under the hash, and notes that whether it was known or not.
    pub(crate) fn remove_anyway(&self, hash: u64) {
        self.shared.engine().remove_anyway(hash, self.shared.millis());
    }

    /// Puts a record of a digest.
    pub(crate) fn put_of_digest(&self, wanted: &digester::Wanted) -> Result<Placed, Refused> {
        self.shared.engine().put_of_digest(wanted, self.shared.millis())
    }

    /// The youngest segment that was opened.
    pub(crate) fn newest(&self) -> u64 {
        self.shared.engine().newest()
    }

    /// Writes out what is in memory for good.
    pub(crate) fn finish(&self, disk: &dyn Disk) {
        self.shared.engine().finish();
        self.shared.carry_out_all(disk);
    }

    /// Whether all of the index is loaded, and nothing waits for a segment; `for_good`: nor for being written.
    pub(crate) fn is_settled(&self, for_good: bool) -> bool {
        let engine = self.shared.engine();
        let is_written = engine.is_idle() && engine.unlogged_since().is_none();
        engine.parts_left() == 0 && !engine.has_removals() && (is_written || !for_good)
    }

    /// What failed last.
    pub(crate) fn cause(&self) -> String {
        self.shared.engine().cause().to_owned()
    }

    /// Tells the time, milliseconds, and does what the store wants done until it wants nothing.
    pub fn turn(&self, disk: &dyn Disk, now: Millis) {
        self.shared.set_time(now);
        loop {
            self.shared.engine().tick(now);
            if !self.shared.carry_out_all(disk) {
                return;
            }
        }
    }

    /// Writes out what is in memory.
    pub fn flush(&self, disk: &dyn Disk) {
        self.shared.engine().flush();
        self.shared.carry_out_all(disk);
    }

    /// What the log's bytes are, but for what is not full.
    pub fn census(&self, disk: &dyn Disk) -> io::Result<Census> {
        let Shared { pool, layout, index, .. } = &*self.shared;
        let newest = self.shared.engine().newest();
        census(&Reads::new(disk, pool), disk, layout, index, newest)
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> std::sync::MutexGuard<'_, crate::engine::Engine> {
        self.shared.engine()
    }

    #[cfg(test)]
    pub(crate) fn shared_for_tests(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    #[cfg(test)]
    pub(crate) fn groups(&self) -> &crate::groups::Groups {
        &self.shared.groups
    }

    #[cfg(test)]
    pub(crate) fn holds(&self, key: &Key) -> bool {
        self.shared.index.find(self.shared.hash(key)).is_some()
    }
    /// What a kill left on the disk.
    #[cfg(test)]
    pub(crate) fn open_again(disk: &dyn Disk, size: u64, options: &Options) -> ByHand {
        let layout = crate::opening::layout_of(std::path::Path::new(""), disk, size).unwrap().unwrap();
        ByHand::open(disk, layout, options)
    }
    #[cfg(test)]
    pub(crate) fn open(disk: &dyn Disk, layout: crate::format::Layout, options: &Options) -> ByHand {
        let (pool, index) = (Pool::new(POOL), Index::of(&layout, options.objects(&layout)));
        let stretch = crate::digester::stretch(layout.in_turn());
        let found = crate::recovery::recover(&Reads::new(disk, &pool), layout, stretch, index);
        ByHand::of(disk, found.unwrap().0, options)
    }
    #[cfg(test)]
    pub(crate) fn renew_for_tests(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.shared.renew(key, meta, body)
    }
    #[cfg(test)]
    pub(crate) fn slot_for_tests(&self, key: &Key) -> Option<crate::index::Slot> {
        self.shared.index.find(self.shared.hash(key))
    }
    #[cfg(test)]
    pub(crate) fn hash_for_tests(&self, key: &Key) -> u64 {
        self.shared.hash(key)
    }
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shared.index.len()
    }
    #[cfg(test)]
    pub(crate) fn remove(&self, key: &Key) {
        let hash = self.shared.hash(key);
        self.shared.engine().remove(hash, self.shared.millis());
    }

    /// As `Store::put`.
    pub fn put(&self, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
        self.shared.put_whole(key, meta, body)
    }

    /// As `Store::begin`.
    pub fn begin(&self, key: &Key, expected: Option<u64>) -> Result<Writer, Refused> {
        self.shared.begin(key, expected)
    }

    /// As `Store::span_size`.
    pub fn span_size(&self) -> usize {
        self.shared.span
    }

    /// As `Store::touch`.
    pub fn touch(&self, key: &Key, uses: Uses, body: &Body) -> bool {
        self.shared.touch(key, uses, body)
    }

    /// As `Store::put_again`.
    pub fn put_again(&self, key: &Key, meta: &[u8], body: &[u8], uses: u8) {
        let _ = self.shared.put_again(key, meta, body, uses);
    }

    /// As `Store::put_meta`.
    pub fn put_meta(&self, key: &Key, meta: &[u8], body: &Body) -> Result<(), Refused> {
        match body {
            Body::Whole(bytes) => self.shared.renew(key, meta, bytes),
            Body::Spans(spans) => self.shared.renew_head(key, meta, spans),
        }
    }

    /// As `Reader::get`.
    pub fn get(&self, disk: &dyn Disk, key: &Key) -> Option<Object> {
        self.read(disk, self.reader.get(key))
    }

    /// As `Reader::span`.
    pub fn span(&self, disk: &dyn Disk, spans: &Spans, n: u32) -> Option<Bytes> {
        self.read(disk, self.reader.span(spans, n))
    }

    fn read<T>(&self, disk: &dyn Disk, reading: impl Future<Output = Option<T>>) -> Option<T> {
        let mut reading = pin!(reading);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(found) = reading.as_mut().poll(&mut context) {
                return found;
            }
            self.desk.take()?.carry_out(disk);
        }
    }
}

impl Wanted {
    /// Whoever reads may have gone.
    pub fn carry_out(self, disk: &dyn Disk) {
        let Wanted { offset, length, mut buffer, answer } = self;
        let _ = answer.send(disk.read(offset, &mut buffer, length).map(|()| buffer));
    }
}

impl ManualReads {
    /// The read that somebody waits for.
    pub fn take(&self) -> Option<Wanted> {
        self.0.take()
    }

    pub async fn read(&self, offset: u64, length: usize, buffer: Buffer) -> io::Result<Buffer> {
        let (answer, result) = oneshot::channel();
        self.0.replace(Some(Wanted { offset, length, buffer, answer }));
        result.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Body;
    use crate::disk::sim::SimDisk;

    const SIZE: u64 = 3 << 20;

    fn options() -> Options {
        Options { packet: 64 << 10, ..Options::at("") }
    }

    fn key(n: u32) -> Key {
        Key::new(format!("key {n}").into_bytes())
    }

    /// More than the cache holds; what the disk has in the end, and how many puts were refused and gets were hits.
    fn run(seed: u64) -> (Vec<u8>, usize, usize) {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = ByHand::make(&disk, SIZE, &options(), seed).unwrap();
        let (mut refused, mut hits) = (0, 0);
        for n in 0..400 {
            let now = u64::from(n) * 20;
            store.turn(&disk, now);
            let body = vec![n as u8; 200 + 37 * n as usize];
            refused += usize::from(store.put(&key(n), b"meta", &body).is_err());
            store.turn(&disk, now);
            let before = n / 2;
            if let Some(found) = store.get(&disk, &key(before)) {
                let Body::Whole(bytes) = found.body else { panic!("a span") };
                assert!(found.meta == b"meta"[..] && bytes == vec![before as u8; 200 + 37 * before as usize]);
                hits += 1;
            }
        }
        store.flush(&disk);
        (disk.bytes(), refused, hits)
    }

    #[test]
    fn a_seed_reproduces_a_run_to_the_byte() {
        let (bytes, refused, hits) = run(7);
        assert!(hits > 250 && refused < 120, "{hits} hits, {refused} refused");
        assert!(run(7) == (bytes.clone(), refused, hits));
        assert!(run(8).0 != bytes);
    }

    #[test]
    fn what_was_put_is_written_after_the_flush_interval() {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = ByHand::make(&disk, SIZE, &options(), 1).unwrap();
        let bytes = disk.bytes();
        store.put(&key(1), b"", b"body").unwrap();
        store.turn(&disk, 999);
        assert!(disk.bytes() == bytes);
        store.turn(&disk, 1000);
        assert!(disk.bytes() != bytes);
        let state = store.get(&disk, &key(1));
        assert!(state.is_some_and(|found| found.body.len() == 4));
    }

    #[test]
    fn a_large_body_comes_span_by_span() {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = ByHand::make(&disk, SIZE, &options(), 1).unwrap();
        let body: Vec<u8> = (0..150_000u32).map(|n| (n / 7) as u8).collect();
        let mut writer = store.begin(&key(1), Some(body.len() as u64)).unwrap();
        writer.push(&mut &body[..]).unwrap();
        writer.finish(b"meta").unwrap();
        store.flush(&disk);
        let Some(Object { body: Body::Spans(spans), .. }) = store.get(&disk, &key(1)) else { panic!() };
        let whole: Vec<u8> = (0..spans.count()).flat_map(|n| store.span(&disk, &spans, n).unwrap()).collect();
        assert!(whole == body);
    }
    /// Also when the store is busy between the last span and the head.
    #[test]
    fn a_body_that_had_to_wait_is_as_long_as_it_was() {
        let disk = SimDisk::new(SIZE as usize, StdRng::seed_from_u64(1));
        let store = ByHand::make(&disk, SIZE, &options(), 1).unwrap();
        let mut busy = 0;
        for n in 0..300 {
            // A head that often finds no room in the segment of the last span.
            let (body, meta) = (vec![n as u8; 20_000 + 331 * n as usize], vec![7; 30_000]);
            let mut writer = store.begin(&key(n), Some(body.len() as u64)).unwrap();
            let mut left = &body[..];
            while writer.push(&mut left).and_then(|()| writer.finish(&meta)) == Err(Refused::Busy) {
                busy += 1;
                store.turn(&disk, 0);
            }
            let found = store.get(&disk, &key(n)).map(|found| found.body.len());
            assert_eq!(found, Some(body.len() as u64), "{n}");
        }
        assert!(busy > 10, "{busy}");
    }
}
