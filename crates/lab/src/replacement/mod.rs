//! Who stays in a cache of a number of bytes: one file for each way to choose. One is added by its file and its row.

mod fifo;
mod gd_size;
mod lru;
mod lru_th;
mod s3_fifo;
mod sieve;

use gd_size::GdSize;

/// Chooses who goes. Objects are small numbers: memory grows with the largest one.
pub trait Replacement: Send {
    /// Bytes of the largest object that it takes.
    fn largest(&self) -> u64;

    /// Whether an object is here; then this was a use.
    fn get(&mut self, object: u32) -> bool;

    /// Takes an object that is not here, of at least one byte and no more than the largest. Says who leaves for it.
    fn insert(&mut self, object: u32, size: u64, left: &mut dyn FnMut(Left));

    /// An object that is here goes and is forgotten.
    fn remove(&mut self, object: u32);

    /// The one that would leave next leaves. False when there is none, or the policy cannot say.
    fn evict(&mut self, _left: &mut dyn FnMut(Left)) -> bool {
        false
    }
}

/// How an object leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It is no longer in the cache.
    Cache(u32),
    /// Nothing is remembered of it any more: its number may stand for another object.
    Memory(u32),
}

/// A way to choose.
#[derive(Clone, Copy)]
pub struct Policy {
    pub name: &'static str,
    pub about: &'static str,
    /// For a cache of so many bytes.
    pub new: fn(u64) -> Box<dyn Replacement>,
}

pub const LRU: Policy = Policy {
    name: "lru",
    about: "what was used least lately goes",
    new: |most| Box::new(lru::Lru::new(most)),
};
pub const FIFO: Policy =
    Policy { name: "fifo", about: "what came first goes", new: |most| Box::new(fifo::Fifo::new(most)) };
pub const S3_FIFO: Policy = Policy {
    name: "s3-fifo",
    about: "a small queue, a main one, and one of ghosts (Yang and others, SOSP 2023)",
    new: |most| Box::new(s3_fifo::S3Fifo::new(most)),
};
pub const SIEVE: Policy = Policy {
    name: "sieve",
    about: "a hand goes round and spares what was used (Zhang and others, NSDI 2024)",
    new: |most| Box::new(sieve::Sieve::new(most)),
};
pub const LRU_TH: Policy = Policy {
    name: "lru-th",
    about: "lru down to a low watermark, without large objects (WebCoSM 4.1)",
    new: |most| Box::new(lru_th::LruTh::new(most)),
};
pub const GD_SIZE: Policy = Policy {
    name: "gd-size",
    about: "small objects and those used lately stay (Cao and Irani, USITS 1997)",
    new: |most| Box::new(GdSize::new(most, gd_size::ALIKE)),
};
pub const GD_SIZE_PACKETS: Policy = Policy {
    name: "gd-size-packets",
    about: "gd-size with packets as cost, which spares large objects",
    new: |most| Box::new(GdSize::new(most, gd_size::PACKETS)),
};

pub const ALL: [Policy; 7] = [LRU, LRU_TH, FIFO, GD_SIZE, GD_SIZE_PACKETS, S3_FIFO, SIEVE];

/// The policies of these names, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Policy>, String> {
    crate::rows_named(names, &ALL, |policy| policy.name, "replacement policy")
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
