//! Hits alone: one trace through caches of several policies and sizes, without a medium.
//!
//! The trace is read once and in pieces, its objects numbered from 0 on, so that a cache is arrays and a request touches few
//! places in them. Memory grows with the objects (about 40 bytes each and 16 to 24 for each cache), not with the requests.
//!
//! A request finds a new version when its Last-Modified or size is not that of the version before (`is_unchanged`); where the
//! trace tells only sizes, a cache that holds an older one may differ (`pipeline`).

use crate::lru::Quick;
use crate::replacement::{Policy, Replacement};
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use trace::statistics::is_unchanged;
use trace::{Access, Requests};

/// Requests of a piece, and pieces that wait for a thread.
const PIECE: usize = 1 << 16;
const WAITING: usize = 4;

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    pub requests: u64,
    pub bytes: u64,
    /// Of them cacheable.
    pub cacheable: u64,
    pub objects: u64,
    /// Of the processor, for reading and numbering the trace.
    pub read_seconds: f64,
    pub rows: Vec<Row>,
}

/// One cache.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    /// Bytes of the cache.
    pub size: u64,
    pub hits: u64,
    pub hit_ratio: f64,
    pub byte_hit_ratio: f64,
    /// Of the processor, and requests of the trace in each.
    pub seconds: f64,
    pub requests_per_second: f64,
}

/// What a cache needs to know of a request.
#[derive(Clone, Copy)]
struct Request {
    size: u64,
    object: u32,
    /// It is not what it was when it was asked for before.
    changed: bool,
}

struct Cache {
    nth: usize,
    policy: &'static str,
    most: u64,
    replacement: Box<dyn Replacement>,
    hits: u64,
    hit_bytes: u64,
    seconds: f64,
}

impl Cache {
    fn run(&mut self, piece: &[Request], clock: Clock<'_>) {
        let (began, largest) = (clock(), self.replacement.largest());
        for Request { size, object, changed } in piece.iter().copied() {
            if self.replacement.get(object) {
                if !changed {
                    self.hits += 1;
                    self.hit_bytes += size;
                    continue;
                }
                self.replacement.remove(object);
            }
            if size <= largest {
                self.replacement.insert(object, size, &mut |_| {});
            }
        }
        self.seconds += clock() - began;
    }
}

/// Seconds of the processor that the calling thread took.
pub type Clock<'a> = &'a (dyn Fn() -> f64 + Sync);

/// Each policy with each size, in this order, shared out to so many threads. `progress` is told how many requests are read.
pub fn simulate(
    requests: &mut dyn Requests,
    policies: &[Policy],
    sizes: &[u64],
    threads: usize,
    clock: Clock<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Simulated, String> {
    let mut shares: Vec<Vec<Cache>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    let all = policies.iter().flat_map(|policy| sizes.iter().map(move |size| (policy, *size)));
    for (nth, (policy, most)) in all.enumerate() {
        let (name, replacement) = (policy.name, (policy.new)(most));
        let cache = Cache { nth, policy: name, most, replacement, hits: 0, hit_bytes: 0, seconds: 0.0 };
        shares[nth % threads.max(1)].push(cache);
    }
    let (read, mut caches) = std::thread::scope(|scope| {
        let (mut senders, mut workers) = (Vec::new(), Vec::new());
        for mut caches in shares {
            let (sender, pieces) = sync_channel::<Arc<Vec<Request>>>(WAITING);
            senders.push(sender);
            workers.push(scope.spawn(move || {
                for piece in pieces {
                    caches.iter_mut().for_each(|cache| cache.run(&piece, clock));
                }
                caches
            }));
        }
        let mut numbered = Numbered::default();
        let read = numbered.read(requests, clock, progress, |piece| {
            // One that has ended is found out when it is joined.
            senders.iter().for_each(|sender| drop(sender.send(piece.clone())));
        });
        drop(senders);
        let caches = workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread ended early"));
        let caches = caches.collect::<Result<Vec<_>, _>>();
        read.and_then(|()| Ok((numbered, caches?.into_iter().flatten().collect::<Vec<Cache>>())))
    })?;
    caches.sort_by_key(|cache| cache.nth);
    let row = |cache: Cache| Row {
        policy: cache.policy,
        size: cache.most,
        hits: cache.hits,
        hit_ratio: cache.hits as f64 / read.requests.max(1) as f64,
        byte_hit_ratio: cache.hit_bytes as f64 / read.bytes.max(1) as f64,
        seconds: cache.seconds,
        requests_per_second: read.requests as f64 / cache.seconds.max(1e-9),
    };
    Ok(Simulated {
        requests: read.requests,
        bytes: read.bytes,
        cacheable: read.cacheable,
        objects: read.versions.len() as u64,
        read_seconds: read.seconds,
        rows: caches.into_iter().map(row).collect(),
    })
}

/// A trace's objects by their numbers.
#[derive(Default)]
struct Numbered {
    numbers: HashMap<u64, u32, BuildHasherDefault<Quick>>,
    /// Last-Modified and size of the newest version, by number.
    versions: Vec<(u64, u64)>,
    requests: u64,
    cacheable: u64,
    bytes: u64,
    seconds: f64,
}

impl Numbered {
    fn read(
        &mut self,
        requests: &mut dyn Requests,
        clock: Clock<'_>,
        progress: &mut dyn FnMut(u64),
        mut give: impl FnMut(Arc<Vec<Request>>),
    ) -> Result<(), String> {
        let (mut access, mut more) = (Access::default(), true);
        while more {
            let began = clock();
            let mut piece = Vec::with_capacity(PIECE);
            while piece.len() < PIECE {
                more = requests.next(&mut access)?;
                if !more {
                    break;
                }
                self.requests += 1;
                self.bytes += access.size;
                if access.is_cacheable() && access.size > 0 {
                    piece.push(self.number(&access)?);
                }
            }
            self.cacheable += piece.len() as u64;
            self.seconds += clock() - began;
            give(Arc::new(piece));
            progress(self.requests);
        }
        Ok(())
    }

    fn number(&mut self, access: &Access) -> Result<Request, String> {
        let (size, version) = (access.size, (access.modified, access.size));
        match self.numbers.entry(access.object) {
            Entry::Occupied(number) => {
                let object = *number.get();
                let before = &mut self.versions[object as usize];
                let changed = !is_unchanged(*before, version);
                if changed {
                    *before = version;
                }
                Ok(Request { size, object, changed })
            }
            Entry::Vacant(new) => {
                // The last number means none.
                let number = u32::try_from(self.versions.len()).ok().filter(|number| *number < u32::MAX);
                let object = number.ok_or("more than 4,294,967,295 objects")?;
                new.insert(object);
                self.versions.push(version);
                Ok(Request { size, object, changed: false })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{From, Input};
    use crate::pipeline::Level;
    use crate::replacement::ALL;
    use trace::synthetic;

    fn input(requests: u64) -> Input {
        let from = From::Made { like: synthetic::named("dec").unwrap(), seed: 3 };
        Input { from, requests: Some(requests), largest: None }
    }

    fn run(requests: u64, threads: usize) -> Simulated {
        let mut told = 0;
        let sizes = [1 << 20, 64 << 20];
        let mut reading = input(requests).open().unwrap();
        let done = simulate(&mut reading, &ALL, &sizes, threads, &|| 0.0, &mut |read| told = read).unwrap();
        assert_eq!((done.requests, told), (requests, requests));
        done
    }

    /// What a cache of the pipeline does with the same requests.
    #[test]
    fn hits_are_those_of_the_replay() {
        let simulated = run(150_000, 2);
        for (nth, row) in simulated.rows.iter().enumerate() {
            assert_eq!((row.policy, row.size), (ALL[nth / 2].name, [1 << 20, 64 << 20][nth % 2]));
            let mut level = Level::new(row.size, ALL[nth / 2]);
            let (mut reading, mut access) = (input(150_000).open().unwrap(), Access::default());
            let mut hits = 0;
            while reading.next(&mut access).unwrap() {
                if !access.is_cacheable() || access.size == 0 {
                    continue;
                }
                if level.get(&access).is_some() {
                    hits += 1;
                    continue;
                }
                level.remove(access.object);
                level.insert(&access, |_| {});
            }
            assert_eq!(row.hits, hits, "{} of {} bytes", row.policy, row.size);
            assert!(hits > 10_000, "{hits}");
        }
    }

    #[test]
    fn threads_change_nothing() {
        let hits = |threads| run(100_000, threads).rows.iter().map(|row| row.hits).collect::<Vec<_>>();
        assert_eq!(hits(1), hits(5));
    }

    /// A new version is no hit, nor what is too large.
    #[test]
    fn by_hand() {
        struct Few(Vec<Access>);
        impl Requests for Few {
            fn next(&mut self, access: &mut Access) -> Result<bool, String> {
                let next = self.0.pop();
                *access = next.clone().unwrap_or_default();
                Ok(next.is_some())
            }
        }
        let one = |object, size, modified| Access { object, size, modified, ..Access::default() };
        let mut all =
            vec![one(1, 10, 1), one(1, 10, 1), one(1, 10, 2), one(1, 10, 2), one(2, 101, 1), one(2, 101, 1)];
        all.reverse();
        let done = simulate(&mut Few(all), &ALL, &[100], 1, &|| 0.0, &mut |_| {}).unwrap();
        for row in done.rows {
            assert_eq!((row.hits, row.hit_ratio), (2, 2.0 / 6.0), "{}", row.policy);
            assert!((row.byte_hit_ratio - 20.0 / 242.0).abs() < 1e-9);
        }
        assert_eq!((done.objects, done.cacheable), (2, 6));
    }
}
