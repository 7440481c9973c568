//! Lives of one cache, step by step: what random histories seldom come to.

use crate::buffer::Pool;
use crate::disk::Disk;
use crate::disk::sim::SimDisk;
use crate::engine::{Engine, Io, Op};
use crate::format::record::{About, Kind, Record};
use crate::format::superblock::{COPIES, Superblock};
use crate::format::{Layout, update::Target};
use crate::index::Index;
use crate::model::{key, open};
use crate::overlay::Update;
use crate::{DEFAULT_OVERLAY, Refused};
use rand::{SeedableRng, rngs::StdRng};
use std::ops::Range;
use std::sync::Arc;

const LAYOUT: Layout = Layout { segment: 32 << 10, segments: 40, identity: 0xfeed };
/// Longer than a scan looks on.
const GAP: u64 = 15;
const KEY: u64 = 1;

struct Life {
    disk: Arc<SimDisk>,
    pool: Arc<Pool>,
    engine: Engine,
    index: Arc<Index>,
    now: u64,
    /// Writes and syncs that the disk has not carried out yet.
    held: Vec<Io>,
    fillers: u64,
}

impl Life {
    fn new() -> Life {
        let disk = Arc::new(SimDisk::new(LAYOUT.size() as usize, StdRng::seed_from_u64(1)));
        let first = Superblock { layout: LAYOUT, generation: 1, checkpoint: Default::default() };
        disk.write(COPIES[1], &first.encode()).unwrap();
        let pool = Pool::new(1 << 20);
        let (engine, index) = open(&disk, &pool, DEFAULT_OVERLAY, 0..0);
        Life { disk, pool, engine, index, now: 1, held: Vec::new(), fillers: 1_000 }
    }

    /// A kill, and a start that cannot read some bytes; nor can what follows.
    fn restart(&mut self, unread: Range<u64>) {
        self.held.clear();
        (self.engine, self.index) = open(&self.disk, &self.pool, DEFAULT_OVERLAY, unread.clone());
        self.disk.fail_reads_in(unread);
    }

    fn put(&mut self, n: u64, size: usize) -> Result<(), Refused> {
        let (key, body) = (key(n), vec![1; size]);
        let about = About { kind: Kind::Object, id: 0, length: size as u64, span: 0, written: 0 };
        let record = Record::new(LAYOUT.identity, about, key.bytes(), &[], &body).unwrap();
        self.now += 1;
        self.engine.put(&key, &record, self.now)
    }

    fn fill(&mut self, size: usize) -> Result<(), Refused> {
        self.fillers += 1;
        self.put(self.fillers, size)
    }

    fn carry_out(&mut self, Io { id, op }: Io) {
        let result = match op {
            Op::Read { offset, length } => {
                let mut buffer = self.pool.take(length);
                self.disk.read(offset, &mut buffer, length).map(|()| Some(buffer))
            }
            Op::Write { offset, image, range } => self.disk.write(offset, &image[range]).map(|()| None),
            Op::Sync => self.disk.sync().map(|()| None),
        };
        self.engine.done(id, result, self.now);
    }

    /// All reads; what is to be written waits.
    fn read(&mut self) {
        while let Some(io) = self.engine.next_io() {
            if matches!(io.op, Op::Read { .. }) {
                self.carry_out(io);
            } else {
                self.held.push(io);
            }
        }
    }

    /// Writes until nothing waits, or the next would be a superblock.
    fn write_up_to_a_superblock(&mut self) {
        self.engine.flush();
        for _ in 0..400 {
            self.engine.flush();
            self.engine.tick(self.now);
            self.read();
            if self.held.is_empty() {
                return;
            }
            let io = self.held.remove(0);
            if matches!(io.op, Op::Write { offset, .. } if COPIES.contains(&offset)) {
                return;
            }
            self.carry_out(io);
        }
    }

    fn settle(&mut self) {
        for _ in 0..1_000 {
            while let Some(io) = self.engine.next_io() {
                self.carry_out(io);
            }
            if self.engine.is_idle() {
                return;
            }
            self.now += 1_000;
            self.engine.flush();
            self.engine.tick(self.now);
        }
        panic!("the engine never came to rest");
    }

    fn has(&self, n: u64) -> bool {
        self.index.find(key(n).index_hash()).is_some()
    }
}

/// A packet waits in front of the gap, one behind it is written.
#[test]
fn the_fence_is_behind_the_gap_whatever_waits_in_front_of_it() {
    let mut life = Life::new();
    // So many objects that a checkpoint takes more than a packet.
    while life.engine.state.seq <= LAYOUT.segments {
        let _ = life.fill(250);
        life.settle();
    }
    life.engine.checkpoint();
    life.settle();
    let cursor = life.engine.state.cursor;
    assert!(cursor + GAP + 5 < LAYOUT.segments);

    // The checkpoint opens a segment that clients fill; what it writes next has to be behind the gap.
    life.restart(LAYOUT.start(cursor + 1)..LAYOUT.start(cursor + 1 + GAP));
    let first = life.engine.state.seq + 1;
    for _ in 0..200 {
        life.read();
        life.now += 1;
        life.engine.tick(life.now);
        while life.engine.state.seq == first && life.fill(6_000).is_ok() {}
    }
    assert_eq!(life.engine.state.seq, first + GAP + 1);
    assert!((0..20).any(|_| {
        let put = life.put(KEY, 100);
        life.read();
        put.is_ok()
    }));
    life.write_up_to_a_superblock();
    assert_eq!(life.engine.unwritten_since(), Some(0));

    life.restart(0..0);
    life.settle();
    life.engine.remove(key(KEY).index_hash(), life.now);
    while life.engine.state.cursor != cursor + GAP {
        let _ = life.fill(6_000);
        life.settle();
    }
    assert_eq!(life.engine.unwritten_since(), None);

    life.restart(0..0);
    assert!(!life.has(KEY), "what was removed, and said to be so in the file, is back");
}

#[test]
fn a_checkpoint_that_cannot_be_made_is_tried_again_and_nothing_counts_as_written_meanwhile() {
    let mut life = Life::new();
    life.put(KEY, 100).unwrap();
    life.settle();
    let hash = key(KEY).index_hash();
    let target = Target { place: life.index.find(hash).unwrap().place, units: 1, sum: 0 };
    let meta = vec![0; LAYOUT.segment as usize / 2].into();
    life.engine.state.overlay.insert(hash, Update { target, meta, record: None });
    life.engine.checkpoint();
    life.engine.tick(life.now);
    life.read();
    assert_eq!((life.engine.unwritten_since(), life.engine.is_failing()), (Some(0), true));
    life.engine.state.overlay.remove(hash);
    life.settle();
    assert_eq!((life.engine.unwritten_since(), life.engine.counters().checkpoints), (None, 1));
}
