//! Hits alone: one trace through caches of several policies and sizes, without a medium.
//!
//! The trace is read once and in pieces, its objects numbered from 0 on, so that a cache is arrays and a request touches few
//! places in them. Memory grows with the objects (about 40 bytes each and 16 to 40 for each cache), not with the requests; but
//! for policies that know the future and for the bound, which keep them all (`Kept`).
//!
//! A request finds a new version when its Last-Modified or size is not that of the version before (`SizeChanges`); where the
//! trace tells only sizes, a cache that holds an older one may differ (`pipeline`).
//!
//! A trace that is too long is judged by samples of its objects, each through a cache as much smaller (`Sampling`). Then memory
//! grows with their objects, also in a synthetic workload without pages (`Requests::only`).

mod foresight;

use foresight::Kept;
use policy::collections::lru::Quick;
use policy::replacement::{Policy, Replacement};
use policy::sample::{self, Count, Sampling, Split};
use serde::Serialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use trace::statistics::SizeChanges;
use trace::{Access, Requests};

/// Requests of a piece, and pieces that wait for a thread.
const PIECE: usize = 1 << 16;
const WAITING: usize = 4;

/// What is asked for.
pub struct Plan<'a> {
    pub policies: &'a [Policy],
    /// Bytes of the caches.
    pub sizes: &'a [u64],
    /// Requests of the trace that fill the caches before anything is counted.
    pub warm_up: u64,
    pub size_changes: SizeChanges,
    pub sampling: Option<Sampling>,
    /// Also what no policy exceeds.
    pub bound: bool,
    pub threads: usize,
}

/// What came of it. All but the objects is counted after the warm-up.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    pub requests: u64,
    /// Where a synthetic workload is sampled, of as many requests as there are, but of other objects.
    pub bytes: u64,
    /// Of them cacheable.
    pub cacheable: u64,
    /// Of the cacheable ones, those that found a new version.
    pub changed: u64,
    /// Of the whole trace.
    pub objects: u64,
    /// Of the processor, for reading and numbering the trace.
    pub read_seconds: f64,
    pub sampling: Option<Sampling>,
    pub rows: Vec<Row>,
}

/// One cache; or the samples of it together.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub policy: &'static str,
    /// Bytes of the cache.
    pub size: u64,
    pub hits: u64,
    pub hit_ratio: f64,
    pub byte_hit_ratio: f64,
    /// Of samples: the standard errors of both ratios.
    pub errors: Option<(f64, f64)>,
    /// Requests for objects that are larger than the policy takes.
    pub too_large: u64,
    /// Of samples: those of them that the whole cache would take.
    pub too_large_for_sample: u64,
    /// Of the processor, and requests of the trace in each.
    pub seconds: f64,
    pub requests_per_second: f64,
}

/// What a cache needs to know of a request.
#[derive(Clone, Copy)]
struct Request {
    size: u64,
    object: u32,
    /// Of its object's requests, from 1 on; only counted where there are samples, and no further than this holds.
    nth: u32,
    /// It is not what it was when it was asked for before.
    changed: bool,
}

/// Of one sample, or of the trace.
#[derive(Clone)]
enum Message {
    Piece(usize, Arc<Vec<Request>>),
    /// The warm-up is over.
    Measure,
}

struct Cache {
    nth: usize,
    sample: usize,
    replacement: Box<dyn Replacement>,
    /// Bytes of the largest object that the policy takes at full size.
    largest: u64,
    found: Found,
    seconds: f64,
}

#[derive(Clone, Copy, Default)]
struct Found {
    hits: u64,
    hit_bytes: u64,
    /// `Request::nth` of the hits, all together.
    nths: u64,
    too_large: u64,
    too_large_for_sample: u64,
}

impl Cache {
    fn take(&mut self, message: &Message, clock: Clock<'_>) {
        match message {
            Message::Piece(sample, piece) if *sample == self.sample => self.run(piece, None, clock),
            Message::Piece(..) => {}
            Message::Measure => (self.found, self.seconds) = (Found::default(), 0.0),
        }
    }

    /// `nexts` are the requests' next ones, for policies that foresee.
    fn run(&mut self, piece: &[Request], nexts: Option<&[u64]>, clock: Clock<'_>) {
        let began = clock();
        let (mut found, takes) = (self.found, self.replacement.largest());
        for (at, Request { size, object, nth, changed }) in piece.iter().copied().enumerate() {
            if let Some(nexts) = nexts {
                self.replacement.foresee(nexts[at]);
            }
            if self.replacement.get(object) {
                if !changed {
                    found.hits += 1;
                    found.hit_bytes += size;
                    found.nths += u64::from(nth);
                    continue;
                }
                self.replacement.remove(object);
            }
            if size <= takes {
                self.replacement.insert(object, size, &mut |_| {});
            } else {
                found.too_large += 1;
                found.too_large_for_sample += u64::from(size <= self.largest);
            }
        }
        self.found = found;
        self.seconds += clock() - began;
    }
}

/// Seconds of the processor that the calling thread took.
pub type Clock<'a> = &'a (dyn Fn() -> f64 + Sync);

/// Each policy with each size, in this order, shared out to threads. `progress` is told how many requests are read.
pub fn simulate(
    requests: &mut dyn Requests,
    plan: &Plan,
    clock: Clock<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Simulated, String> {
    let split = Split::of(plan.sampling);
    if plan.sampling.is_some() {
        requests.only(Box::new(move |object| split.part_of(object).is_some()));
    }
    let caches = caches(plan, &split);
    let (foreseeing, told): (Vec<Cache>, Vec<Cache>) =
        caches.into_iter().partition(|cache| policy_of(plan, cache.nth).foresees);
    let mut kept = (plan.bound || !foreseeing.is_empty()).then(|| Kept::new(split.samples()));
    let mut numbered = Numbered::new(split, plan);
    let mut caches = std::thread::scope(|scope| {
        let (mut senders, mut workers) = (Vec::new(), Vec::new());
        for mut caches in shares(told, plan.threads) {
            let (sender, messages) = sync_channel::<Message>(WAITING);
            senders.push(sender);
            workers.push(scope.spawn(move || {
                for message in messages {
                    caches.iter_mut().for_each(|cache| cache.take(&message, clock));
                }
                caches
            }));
        }
        let read = numbered.read(requests, clock, progress, |message| {
            if let Some(kept) = &mut kept {
                kept.keep(&message);
            }
            // One that has ended is found out when it is joined.
            senders.iter().for_each(|sender| drop(sender.send(message.clone())));
        });
        drop(senders);
        let caches = workers.into_iter().map(|worker| worker.join().map_err(|_| "a thread ended early"));
        let caches = caches.collect::<Result<Vec<_>, _>>();
        read.and_then(|()| Ok(caches?.into_iter().flatten().collect::<Vec<Cache>>()))
    })?;
    if plan.warm_up > 0 && numbered.whole.requests == 0 {
        return Err(format!("a warm-up of {} requests leaves none of the trace to count", plan.warm_up));
    }
    let mut bounds = Vec::new();
    if let Some(kept) = kept {
        let foresight = kept.foresee();
        caches.extend(foresight.run(shares(foreseeing, plan.threads), clock)?);
        if plan.bound {
            bounds = plan.sizes.iter().map(|size| foresight.bound(*size, &numbered)).collect();
        }
    }
    caches.sort_by_key(|cache| (cache.nth, cache.sample));
    let rows = caches.chunk_by(|one, other| one.nth == other.nth);
    let rows: Vec<Row> = rows.map(|caches| row(plan, caches, &numbered)).chain(bounds).collect();
    let Count { requests, bytes, cacheable, .. } = numbered.whole;
    Ok(Simulated {
        requests,
        bytes,
        cacheable,
        changed: numbered.split.whole(numbered.changed),
        objects: numbered.split.whole(numbered.parts.iter().map(|part| part.versions.len() as u64).sum()),
        read_seconds: numbered.seconds,
        sampling: plan.sampling,
        rows,
    })
}

fn policy_of<'a>(plan: &Plan<'a>, nth: usize) -> &'a Policy {
    &plan.policies[nth / plan.sizes.len()]
}

fn caches(plan: &Plan, split: &Split) -> Vec<Cache> {
    let mut caches = Vec::new();
    for nth in 0..plan.policies.len() * plan.sizes.len() {
        let (policy, size) = (policy_of(plan, nth), plan.sizes[nth % plan.sizes.len()]);
        let largest = (policy.new)(size).largest();
        for sample in 0..split.samples() {
            let replacement = (policy.new)(split.scaled(size));
            caches.push(Cache { nth, sample, replacement, largest, found: Found::default(), seconds: 0.0 });
        }
    }
    caches
}

/// In turn, to so many threads.
fn shares(caches: Vec<Cache>, threads: usize) -> Vec<Vec<Cache>> {
    let mut shares: Vec<Vec<Cache>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    for (nth, cache) in caches.into_iter().enumerate() {
        shares[nth % threads.max(1)].push(cache);
    }
    shares
}

/// The samples of one cache together.
fn row(plan: &Plan, caches: &[Cache], numbered: &Numbered) -> Row {
    let whole = &numbered.whole;
    let sum = |of: fn(&Found) -> u64| caches.iter().map(|cache| of(&cache.found)).sum::<u64>();
    let follow = numbered.follow(sum(|found| found.nths));
    let ratios: Vec<(f64, f64)> = caches
        .iter()
        .map(|cache| {
            let Found { hits, hit_bytes, .. } = cache.found;
            numbered.split.estimate((hits, hit_bytes), follow, &numbered.parts[cache.sample].count, whole)
        })
        .collect();
    let ((hit_ratio, byte_hit_ratio), errors) = sample::mean(&ratios);
    let seconds: f64 = caches.iter().map(|cache| cache.seconds).sum();
    Row {
        policy: policy_of(plan, caches[0].nth).name,
        size: plan.sizes[caches[0].nth % plan.sizes.len()],
        hits: match plan.sampling {
            None => caches[0].found.hits,
            Some(_) => (hit_ratio * whole.requests as f64).round() as u64,
        },
        hit_ratio,
        byte_hit_ratio,
        errors,
        too_large: numbered.split.whole(sum(|found| found.too_large)),
        too_large_for_sample: match plan.sampling {
            None => 0,
            Some(_) => numbered.split.whole(sum(|found| found.too_large_for_sample)),
        },
        seconds,
        requests_per_second: whole.requests as f64 / seconds.max(1e-9),
    }
}

/// A trace's objects by their numbers.
struct Numbered {
    split: Split,
    parts: Vec<Part>,
    whole: Count,
    changed: u64,
    warm_up: u64,
    size_changes: SizeChanges,
    seconds: f64,
}

/// One sample, or the trace.
#[derive(Default)]
struct Part {
    numbers: HashMap<u64, u32, BuildHasherDefault<Quick>>,
    /// Last-Modified and size of the newest version, by number.
    versions: Vec<(u64, u64)>,
    /// Requests by number, where there are samples.
    requests: Vec<u32>,
    count: Count,
    piece: Vec<Request>,
}

impl Numbered {
    fn new(split: Split, plan: &Plan) -> Numbered {
        let parts = (0..split.samples()).map(|_| Part::default()).collect();
        let (warm_up, size_changes) = (plan.warm_up, plan.size_changes);
        Numbered { split, parts, whole: Count::default(), changed: 0, warm_up, size_changes, seconds: 0.0 }
    }

    fn read(
        &mut self,
        requests: &mut dyn Requests,
        clock: Clock<'_>,
        progress: &mut dyn FnMut(u64),
        mut give: impl FnMut(Message),
    ) -> Result<(), String> {
        let (mut access, mut read, mut more) = (Access::default(), 0, true);
        while more {
            let (began, stops) = (clock(), next_stop(read, self.warm_up));
            let mut full = Vec::new();
            while read < stops && full.is_empty() {
                more = requests.next(&mut access)?;
                if !more {
                    break;
                }
                read += 1;
                full.extend(self.count(&access)?);
            }
            self.seconds += clock() - began;
            full.into_iter().for_each(|part| self.give(part, &mut give));
            if !more || read == self.warm_up {
                (0..self.parts.len()).for_each(|part| self.give(part, &mut give));
            }
            if more && read == self.warm_up && read > 0 {
                give(Message::Measure);
                self.parts.iter_mut().for_each(|part| part.count = Count::default());
                (self.whole, self.changed) = (Count::default(), 0);
            }
            progress(read);
        }
        if read <= self.warm_up {
            self.whole = Count::default();
        }
        Ok(())
    }

    /// Which part has a full piece now.
    fn count(&mut self, access: &Access) -> Result<Option<usize>, String> {
        let usable = access.unusable().is_none();
        let add = |count: &mut Count| {
            count.requests += 1;
            count.bytes += access.size;
            count.cacheable += u64::from(usable);
            count.cacheable_bytes += if usable { access.size } else { 0 };
        };
        add(&mut self.whole);
        let Some(nth) = self.split.part_of(access.object).filter(|_| usable) else { return Ok(None) };
        let part = &mut self.parts[nth];
        add(&mut part.count);
        let mut request = part.number(access, self.size_changes)?;
        if self.split.is_sampled() {
            request.nth = part.request_of(request.object);
            part.count.nths += u64::from(request.nth);
        }
        self.changed += u64::from(request.changed);
        part.piece.push(request);
        Ok((part.piece.len() == PIECE).then_some(nth))
    }

    /// The share of hits among requests for what is popular, from `Request::nth` of all hits.
    fn follow(&self, hits: u64) -> f64 {
        let requests: u64 = self.parts.iter().map(|part| part.count.nths).sum();
        hits as f64 / requests.max(1) as f64
    }

    fn give(&mut self, part: usize, give: &mut impl FnMut(Message)) {
        let piece = &mut self.parts[part].piece;
        if !piece.is_empty() {
            let full = std::mem::replace(piece, Vec::with_capacity(PIECE));
            give(Message::Piece(part, Arc::new(full)));
        }
    }
}

/// Up to which request is read without a look at anything else.
fn next_stop(read: u64, warm_up: u64) -> u64 {
    let next = read + PIECE as u64;
    if read < warm_up { next.min(warm_up) } else { next }
}

impl Part {
    /// One more of an object.
    fn request_of(&mut self, object: u32) -> u32 {
        let at = object as usize;
        if self.requests.len() <= at {
            self.requests.resize(at + 1, 0);
        }
        self.requests[at] = self.requests[at].saturating_add(1);
        self.requests[at]
    }

    fn number(&mut self, access: &Access, size_changes: SizeChanges) -> Result<Request, String> {
        let (size, version) = (access.size, (access.modified, access.size));
        match self.numbers.entry(access.object) {
            Entry::Occupied(number) => {
                let object = *number.get();
                let before = &mut self.versions[object as usize];
                let changed = !size_changes.are_unchanged(*before, version);
                if changed {
                    *before = version;
                }
                Ok(Request { size, object, nth: 0, changed })
            }
            Entry::Vacant(new) => {
                // The last number means none.
                let number = u32::try_from(self.versions.len()).ok().filter(|number| *number < u32::MAX);
                let object = number.ok_or("more than 4,294,967,295 objects: --sample takes some of them")?;
                new.insert(object);
                self.versions.push(version);
                Ok(Request { size, object, nth: 0, changed: false })
            }
        }
    }
}

#[cfg(test)]
mod tests;
