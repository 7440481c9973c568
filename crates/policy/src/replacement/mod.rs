//! Who stays in a cache of a number of bytes: one file for each way to choose. One is added by its file and its row.

mod arc;
mod belady;
mod clock;
mod fbc;
mod fifo;
mod greedy_dual;
mod lru;
mod lru_th;
mod memory_tier;
mod queues;
mod s3_fifo;
mod sieve;
mod two_q;
mod w_tiny_lfu;

use self::greedy_dual::GreedyDual;
use self::s3_fifo::{Rules, S3Fifo};

/// Chooses who goes. Objects are small numbers: memory grows with the largest one.
pub trait Replacement: Send {
    /// Bytes of the largest object that it takes.
    fn largest(&self) -> u64;

    /// Which request will be the next for the object of the call that follows, or `NEVER`; for those that foresee.
    fn foresee(&mut self, _next: u64) {}

    /// Whether an object is here; then this was a use.
    fn get(&mut self, object: u32) -> bool;

    /// Takes an object that is not here, of at least one byte and no more than the largest. Says who leaves for it: that may be
    /// itself.
    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left));

    /// An object that is here, or remembered, goes and is forgotten.
    fn remove(&mut self, object: u32);
    /// From now on of so many bytes. Who leaves for that does so at the latest when the next one comes.
    fn resize(&mut self, most: u64, left: &mut dyn FnMut(Left));

    /// The one that would leave next leaves. False when there is none, or the policy cannot say.
    fn evict(&mut self, _left: &mut dyn FnMut(Left)) -> bool {
        false
    }
}

/// An object is not asked for again.
pub const NEVER: u64 = u64::MAX;

/// How an object leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is no longer in the cache.
    Cache(u32),
    /// Nothing is remembered of it any more: its number may stand for another object.
    Memory(u32),
}

/// A way to choose.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub name: &'static str,
    pub about: &'static str,
    /// Where it is published.
    pub source: &'static str,
    /// It is told when each object is asked for next, and no cache could have it.
    pub foresees: bool,
    /// For a cache of so many bytes.
    pub new: fn(u64) -> Box<dyn Replacement>,
}

const fn policy(
    name: &'static str,
    about: &'static str,
    source: &'static str,
    new: fn(u64) -> Box<dyn Replacement>,
) -> Policy {
    Policy { name, about, source, foresees: false, new }
}

pub const LRU: Policy =
    policy("lru", "evicts the least recently used", "as old as paging", |most| Box::new(lru::Lru::new(most)));
pub const LRU_TH: Policy =
    policy("lru-th", "lru with watermarks and a size threshold", "WebCoSM 4.1", |most| {
        Box::new(lru_th::LruTh::new(most))
    });
pub const S3_FIFO: Policy = policy(
    "s3-fifo",
    "a small FIFO, a main one, and a ghost FIFO",
    "Yang and others, SOSP 2023, Algorithm 1",
    |most| Box::new(S3Fifo::new(most, Rules::Algorithm1)),
);
pub const SIEVE: Policy =
    policy("sieve", "a hand passes a FIFO and spares what was used", "Zhang and others, NSDI 2024", |most| {
        Box::new(sieve::Sieve::new(most))
    });
pub const GDSF: Policy =
    policy("gdsf", "GreedyDual with frequency over size", "Cherkasova, HPL-98-69R1, 1998", |most| {
        Box::new(GreedyDual::new(most, greedy_dual::FREQUENCY_AND_SIZE))
    });
pub const MEMORY_TIER: Policy = policy(
    "cosm-memory",
    "the memory tier of cosm serve: half of it a FIFO, half for what is used most per byte",
    "docs/decisions.md",
    |most| Box::new(memory_tier::MemoryTier::new(most)),
);
const BELADY: Policy = Policy {
    name: "belady",
    about: "evicts what is requested furthest in the future; optimal if all objects have one size",
    source: "Belady, IBM Systems Journal 1966",
    foresees: true,
    new: |most| Box::new(belady::Belady::new(most)),
};

pub const ALL: [Policy; 17] = [
    LRU,
    LRU_TH,
    policy("fifo", "evicts the oldest", "as old as paging", |most| Box::new(fifo::Fifo::new(most))),
    policy("clock", "evicts the oldest that was not used since the hand passed", "Corbató, 1968", |most| {
        Box::new(clock::Clock::new(most))
    }),
    policy(
        "2q",
        "a FIFO for new objects, an LRU for those requested again",
        "Johnson and Shasha, VLDB 1994",
        |most| Box::new(two_q::TwoQ::new(most)),
    ),
    policy("arc", "two LRU lists whose shares adapt to ghost hits", "Megiddo and Modha, FAST 2003", |most| {
        Box::new(arc::Arc::new(most))
    }),
    policy(
        "lfu-da",
        "evicts the least frequently used, with dynamic aging",
        "Arlitt, Cherkasova, Dilley, Friedrich and Jin, 1999",
        |most| Box::new(GreedyDual::new(most, greedy_dual::FREQUENCY)),
    ),
    policy("gd-size", "GreedyDual with cost over size", "Cao and Irani, USITS 1997", |most| {
        Box::new(GreedyDual::new(most, greedy_dual::SIZE))
    }),
    policy(
        "gd-size-packets",
        "gd-size with network packets as cost",
        "Cao and Irani, USITS 1997, section 4",
        |most| Box::new(GreedyDual::new(most, greedy_dual::PACKETS)),
    ),
    GDSF,
    policy(
        "w-tinylfu",
        "admits a new object if it was requested more often than its victim",
        "Einziger, Friedman and Manes, ACM TOS 2017",
        |most| Box::new(w_tiny_lfu::WTinyLfu::new(most)),
    ),
    policy("fbc", "frequency-based cyclic: a pointer evicts what is not popular", "Maltzahn 5.3.4", |most| {
        Box::new(fbc::Fbc::new(most))
    }),
    S3_FIFO,
    policy(
        "s3-fifo-libcachesim",
        "s3-fifo as in its authors' simulator",
        "libCacheSim 0.3.5, S3FIFO",
        |most| Box::new(S3Fifo::new(most, Rules::Simulator)),
    ),
    SIEVE,
    MEMORY_TIER,
    BELADY,
];

/// The policies of these names, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Policy>, String> {
    crate::lookup::rows_named(names, &ALL, |policy| policy.name, "replacement policy")
}

/// The entry of a number, in an array that grows to have it.
fn entry<T: Clone + Default>(entries: &mut Vec<T>, object: u32) -> &mut T {
    let at = object as usize;
    if entries.len() <= at {
        entries.resize(at + 1, T::default());
    }
    &mut entries[at]
}

#[cfg(test)]
mod tests;
