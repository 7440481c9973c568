//! The crate foyer: its hybrid cache with as little memory tier as it takes.

use super::{Contender, Opened, Place};
use crate::drive::{self, Answer, Ask, Tally};
use crate::object::{Bodies, key};
use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy,
    IoEngineConfig, PsyncIoEngineConfig, RecoverMode, UringIoEngineConfig,
};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Its default, for each of the two that it fills in turns.
const BUFFERS: usize = 16 << 20;
/// What would not fit its buffers is dropped without a word: so after so many bytes a wait is put in line, and of those that are not
/// over there are so many at most. Three quarters of the buffer are on their way at any time.
const BATCH: usize = 4 << 20;
const WAITS: usize = 2;
/// Bytes of the tier in memory: what is asked for at random is not in it.
const MEMORY: usize = 1 << 20;
const THREADS: usize = 2;

type Cache = HybridCache<Bytes, Bytes>;

struct Foyer {
    runtime: Runtime,
    cache: Cache,
    bodies: Arc<Bodies>,
    unwaited: usize,
    waits: VecDeque<JoinHandle<()>>,
}

pub fn open(place: &Place, uring: bool) -> Opened {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let runtime = runtime.map_err(|e| format!("runtime: {e}"))?;
    let io: Box<dyn IoEngineConfig> =
        if uring { UringIoEngineConfig::new().boxed() } else { PsyncIoEngineConfig::new().boxed() };
    let cache = runtime.block_on(async {
        let device = FsDeviceBuilder::new(place.folder.join("foyer"))
            .with_capacity(place.capacity as usize)
            .with_direct(true)
            .build()?;
        HybridCacheBuilder::new()
            .with_policy(HybridCachePolicy::WriteOnInsertion)
            .memory(MEMORY)
            .with_weighter(|key: &Bytes, value: &Bytes| key.len() + value.len())
            .storage()
            .with_io_engine_config(io)
            .with_engine_config(BlockEngineConfig::new(device).with_buffer_pool_size(BUFFERS))
            .with_recover_mode(RecoverMode::Quiet)
            .build()
            .await
    });
    let cache: Cache = cache.map_err(|e: foyer::Error| format!("foyer: {e}"))?;
    let (bodies, waits) = (Arc::new(Bodies::new(place.body)), VecDeque::new());
    Ok(Box::new(Foyer { runtime, cache, bodies, unwaited: 0, waits }))
}

impl Foyer {
    fn wait(&mut self, left: usize) -> Result<(), String> {
        while self.waits.len() > left
            && let Some(wait) = self.waits.pop_front()
        {
            self.runtime.block_on(wait).map_err(|e| format!("foyer: {e}"))?;
        }
        Ok(())
    }

    fn begin_wait(&mut self) {
        let cache = self.cache.clone();
        self.waits.push_back(self.runtime.spawn(async move { cache.storage().wait().await }));
        self.unwaited = 0;
    }
}

impl Contender for Foyer {
    fn put(&mut self, number: u64, body: &[u8]) -> Result<(), String> {
        let value = Bytes::copy_from_slice(body);
        self.cache.storage_writer(key(number)).force().insert(value).ok_or("foyer refused an object")?;
        self.unwaited += (body.len() + 96).next_multiple_of(4096);
        if self.unwaited >= BATCH {
            self.begin_wait();
            self.wait(WAITS)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.begin_wait();
        self.wait(0)
    }

    fn gets(&mut self, ask: &Ask) -> Result<Tally, String> {
        self.runtime.block_on(async {
            let (turns, began) = (Arc::new(drive::Turns::of(ask)), std::time::Instant::now());
            let askers: Vec<_> = (0..ask.depth)
                .map(|nth| {
                    let (cache, bodies, turns) = (self.cache.clone(), self.bodies.clone(), turns.clone());
                    let (numbers, mut random) = (ask.numbers.clone(), ask.random(nth));
                    tokio::spawn(async move {
                        let mut tally = Tally::default();
                        while turns.take() {
                            let number = numbers.pick(&mut random);
                            let began = std::time::Instant::now();
                            let answer = match cache.get(&key(number)).await {
                                Ok(Some(entry)) if bodies.is(number, entry.value()) => Answer::Hit,
                                Ok(Some(_)) | Err(_) => Answer::Wrong,
                                Ok(None) => Answer::Miss,
                            };
                            tally.count(number, began, answer);
                        }
                        tally
                    })
                })
                .collect();
            let mut tally = Tally::default();
            for asker in askers {
                tally = tally.join(asker.await.map_err(|e| format!("foyer: {e}"))?);
            }
            Ok(Tally { took: began.elapsed(), ..tally })
        })
    }
}
