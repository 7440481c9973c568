//! A cache in memory of so many bytes, shared by threads. A hit takes a lock for reading, and writes one byte at most.
//!
//! Who stays: what is new goes through the *window*, half of the bytes, first in, first out; behind it, a second queue is the rest.
//! Uses earn *credit* in proportion to how small the entry is beside the mean, a new entry brings as much as 0.3 uses, and each
//! round through the second queue costs one. So what stays is what is used most per byte, as with GreedyDual-Size-Frequency
//! (Cherkasova, HPL-98-69R1, 1998), without its heap, while the window keeps what was just put, whatever its size. What the
//! laboratory found is in docs/decisions.md.

mod shard;

use shard::Shard;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Keys are hashes of what they stand for. Of equal hashes one stays.
pub struct Tier<V> {
    /// Odd. Who chooses keys without knowing it cannot crowd a shard, or a place in its table.
    secret: u128,
    /// As many as a power of two.
    shards: Box<[RwLock<Shard<V>>]>,
}

/// Bytes that a shard has at least, and at most: when its table grows, whoever asks for something in it waits.
const SHARD: (u64, u64) = (1 << 20, 64 << 20);
/// So many of the largest values have room in a shard.
const LARGEST: u64 = 16;

impl<V: Clone> Tier<V> {
    /// Of so many bytes, for values of `largest` bytes at most and about so many threads at once. `secret` is a random number where
    /// others choose keys.
    pub fn new(bytes: u64, largest: u64, threads: usize, secret: u128) -> Tier<V> {
        let wanted = (4 * threads as u64).max(bytes / SHARD.1).next_power_of_two();
        let most = bytes / (LARGEST * largest).max(SHARD.0);
        let shards = wanted.min(1 << most.max(1).ilog2());
        let shards = (0..shards).map(|_| RwLock::new(Shard::new(bytes / shards))).collect();
        Tier { secret: secret | 1, shards }
    }

    /// What lies under the key: a use.
    pub fn get(&self, key: u128) -> Option<V> {
        let key = self.mix(key);
        self.read(key).get(key).cloned()
    }

    /// The same without using it.
    pub fn peek(&self, key: u128) -> Option<V> {
        let key = self.mix(key);
        self.read(key).peek(key).cloned()
    }

    /// Puts a value of so many bytes under the key. Who leaves for it is `left`, under a lock: what was there before; the
    /// value itself, if it is larger than what there is for it.
    pub fn insert(&self, key: u128, value: V, bytes: u64, mut left: impl FnMut(V)) {
        let key = self.mix(key);
        self.write(key).insert(key, value, bytes, &mut left);
    }

    pub fn remove(&self, key: u128) -> Option<V> {
        let key = self.mix(key);
        self.write(key).remove(key)
    }

    /// From now on of so many bytes; who leaves for that is `left`, under a lock.
    pub fn resize(&self, bytes: u64, mut left: impl FnMut(V)) {
        let each = bytes / self.shards.len() as u64;
        self.shards.iter().for_each(|shard| write(shard).resize(each, &mut left));
    }

    /// Values that are here.
    pub fn count(&self) -> u64 {
        self.shards.iter().map(|shard| read(shard).count()).sum()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| read(shard).bytes()).sum()
    }

    /// Multiply-shift hashing: of a product with a secret odd number the upper bits are as good as random. They are turned so that
    /// the uppermost tell the shard, and those below them, which are the uppermost then, the place in its table.
    fn mix(&self, key: u128) -> u128 {
        key.wrapping_mul(self.secret).rotate_left(self.shards.len().ilog2())
    }

    fn shard(&self, mixed: u128) -> &RwLock<Shard<V>> {
        &self.shards[mixed as usize & (self.shards.len() - 1)]
    }

    fn read(&self, mixed: u128) -> RwLockReadGuard<'_, Shard<V>> {
        read(self.shard(mixed))
    }

    fn write(&self, mixed: u128) -> RwLockWriteGuard<'_, Shard<V>> {
        write(self.shard(mixed))
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
