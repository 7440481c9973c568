//! One cache size: a sample of the load, as large as memory allows, and each policy's cache made as much smaller.
//!
//! This is the variant of SHARDS of fixed size: where more objects are here or remembered than there is room for, the threshold
//! falls, and those above it go.

use super::Request;
use super::sums::Sums;
use crate::replacement::{Left, Policy, Replacement};
use hashbrown::HashTable;

/// Of the threshold, what remains when it falls.
const FALLS_TO: f64 = 0.75;

pub struct Scale {
    /// Bytes of the cache that it stands for.
    pub size: u64,
    /// Objects with smaller hashes are in the sample.
    pub below: u64,
    /// Objects at most.
    most: usize,
    /// By number; of who is gone, the number is free.
    objects: Vec<Object>,
    free: Vec<u32>,
    numbers: HashTable<u32>,
    pub caches: Vec<Cache>,
    /// Whom a policy forgot.
    forgotten: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Object {
    hash: u64,
    size: u64,
    requests: u32,
    /// Caches in which it is, or which remember it.
    known: u32,
}

/// A policy's.
pub struct Cache {
    pub policy: &'static str,
    replacement: Box<dyn Replacement>,
    /// By number: it is here or remembered.
    knows: Vec<bool>,
    pub sums: Sums,
    /// Somebody had to leave: from then on hits count.
    overflows: bool,
    pub full: bool,
    /// When counting began.
    pub since: u64,
}

impl Scale {
    pub fn new(policies: &[Policy], size: u64, most: usize, now: u64) -> Scale {
        let cache = |policy: &Policy| Cache {
            policy: policy.name,
            replacement: (policy.new)(size),
            knows: Vec::new(),
            sums: Sums::default(),
            overflows: false,
            full: false,
            since: now,
        };
        let caches = policies.iter().map(cache).collect();
        let (objects, free, numbers, forgotten) = Default::default();
        Scale { size, below: u64::MAX, most, objects, free, numbers, caches, forgotten }
    }

    /// Of the objects, the share that is in the sample.
    pub fn rate(&self) -> f64 {
        self.below as f64 / u64::MAX as f64
    }

    /// A request for an object of the sample.
    pub fn ask(&mut self, request: &Request) {
        let Request { hash, size, changed } = *request;
        let (number, is_known) = self.number(hash);
        let object = &mut self.objects[number as usize];
        let changed = is_known && (changed || object.size != size);
        object.size = size;
        object.requests = object.requests.saturating_add(1);
        let nth = f64::from(object.requests);
        for cache in &mut self.caches {
            let hit = cache.ask(number, size, changed, &mut self.objects, &mut self.forgotten);
            cache.sums.count(size as f64, nth, hit);
        }
        self.forgotten.push(number);
        self.forget();
        while self.numbers.len() > self.most {
            self.fall();
        }
    }

    /// So many requests of the whole load are counted. Who has become full counts from now on.
    pub fn settle(&mut self, requests: f64, now: u64) {
        for cache in &mut self.caches {
            cache.sums.whole += requests;
            if cache.overflows && !cache.full {
                (cache.full, cache.since, cache.sums) = (true, now, Sums::default());
            }
        }
    }

    /// The object's number, and whether it had one before.
    fn number(&mut self, hash: u64) -> (u32, bool) {
        let Scale { objects, free, numbers, .. } = self;
        if let Some(number) = numbers.find(hash, |number| objects[*number as usize].hash == hash) {
            return (*number, true);
        }
        let new = Object { hash, size: 0, requests: 0, known: 0 };
        let number = match free.pop() {
            Some(number) => {
                objects[number as usize] = new;
                number
            }
            None => {
                objects.push(new);
                objects.len() as u32 - 1
            }
        };
        numbers.insert_unique(hash, number, |number| objects[*number as usize].hash);
        (number, false)
    }

    /// The numbers of those whom nobody knows any more are free.
    fn forget(&mut self) {
        let Scale { objects, free, numbers, forgotten, .. } = self;
        for number in forgotten.drain(..) {
            let Object { hash, known, .. } = objects[number as usize];
            if known == 0
                && let Ok(entry) = numbers.find_entry(hash, |other| *other == number)
            {
                entry.remove();
                free.push(number);
            }
        }
    }

    /// Those above a lower threshold go.
    fn fall(&mut self) {
        self.below = (self.below as f64 * FALLS_TO) as u64;
        let scaled = (self.size as f64 * self.rate()) as u64;
        let Scale { below, objects, numbers, forgotten, .. } = &mut *self;
        forgotten.extend(numbers.iter().filter(|number| objects[**number as usize].hash >= *below));
        for cache in &mut self.caches {
            let Cache { replacement, knows, .. } = cache;
            for number in self.forgotten.iter().copied() {
                if std::mem::take(&mut knows[number as usize]) {
                    replacement.remove(number);
                }
            }
            cache.sums.thin_out(FALLS_TO);
        }
        self.forgotten.iter().for_each(|number| self.objects[*number as usize].known = 0);
        for cache in &mut self.caches {
            let Cache { replacement, knows, .. } = cache;
            replacement
                .resize(scaled, &mut |left| leaves(left, knows, &mut self.objects, &mut self.forgotten));
        }
        self.forget();
    }
}

impl Cache {
    fn ask(
        &mut self,
        number: u32,
        size: u64,
        changed: bool,
        objects: &mut [Object],
        forgotten: &mut Vec<u32>,
    ) -> bool {
        let (at, Cache { replacement, knows, overflows, .. }) = (number as usize, self);
        if knows.len() <= at {
            knows.resize(at + 1, false);
        }
        if replacement.get(number) {
            if !changed {
                return true;
            }
            replacement.remove(number);
            knows[at] = false;
            objects[at].known -= 1;
        }
        if size <= replacement.largest() {
            if !std::mem::replace(&mut knows[at], true) {
                objects[at].known += 1;
            }
            replacement.insert(number, size, &mut |left| {
                *overflows |= matches!(left, Left::Cache(_));
                leaves(left, knows, objects, forgotten);
            });
        }
        false
    }
}

fn leaves(left: Left, knows: &mut [bool], objects: &mut [Object], forgotten: &mut Vec<u32>) {
    if let Left::Memory(number) = left {
        knows[number as usize] = false;
        objects[number as usize].known -= 1;
        forgotten.push(number);
    }
}
