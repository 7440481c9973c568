//! Each policy beside its paper's words, done with plain lists that are searched from one end; and examples worked by hand.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// A policy done slowly: it is told of uses and of objects that come, and says who is here.
trait Model {
    fn foresee(&mut self, _next: u64) {}
    fn get(&mut self, object: u32) -> bool;
    fn insert(&mut self, object: u32, size: u64);
    fn remove(&mut self, object: u32);
}

fn model(policy: &str, most: u64) -> Box<dyn Model> {
    let line = |renews, marks| Box::new(Line { most, renews, marks, list: Vec::new() });
    let greedy = |worth| Box::new(Greedy { most, worth, least: 0, now: 0, list: Vec::new() });
    let s3 = |simulator| Box::new(S3 { most, simulator, ..S3::default() });
    match policy {
        "fifo" => line(false, None),
        "lru" => line(true, None),
        "lru-th" => line(true, Some((most / 20 * 19, most / 10 * 9))),
        "clock" => Box::new(Ring { most, ..Ring::default() }),
        "2q" => Box::new(Two { most, ..Two::default() }),
        "arc" => Box::new(Adaptive { most, ..Adaptive::default() }),
        "lfu-da" => greedy(|_, uses| uses),
        "gdsf" => greedy(|size, uses| (uses << 30) / size),
        "gd-size" => greedy(|size, _| (1 << 30) / size),
        "gd-size-packets" => greedy(|size, _| ((2 + size / 536) << 30) / size),
        "w-tinylfu" => Box::new(Tiny { most, ..Tiny::default() }),
        "fbc" => Box::new(Cyclic { most, ..Cyclic::default() }),
        "s3-fifo" => s3(false),
        "s3-fifo-libcachesim" => s3(true),
        "sieve" => Box::new(Hand { most, ..Hand::default() }),
        "cosm-memory" => Box::new(Dense { most, ..Dense::default() }),
        "belady" => Box::new(Seer { most, ..Seer::default() }),
        other => panic!("{other} has no model"),
    }
}

/// An object as the lists have it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct One {
    object: u32,
    size: u64,
    uses: u64,
}

/// The oldest first.
type Ones = Vec<One>;

fn one(object: u32, size: u64) -> One {
    One { object, size, uses: 0 }
}

fn bytes(list: &Ones) -> u64 {
    list.iter().map(|one| one.size).sum()
}

fn find(list: &Ones, object: u32) -> Option<usize> {
    list.iter().position(|one| one.object == object)
}

fn take(list: &mut Ones, object: u32) -> Option<One> {
    find(list, object).map(|at| list.remove(at))
}

/// A use makes the newest.
fn renew(list: &mut Ones, object: u32) -> bool {
    let found = take(list, object);
    list.extend(found);
    found.is_some()
}

/// FIFO, LRU, LRU-TH.
struct Line {
    most: u64,
    renews: bool,
    marks: Option<(u64, u64)>,
    list: Ones,
}

impl Model for Line {
    fn get(&mut self, object: u32) -> bool {
        if self.renews { renew(&mut self.list, object) } else { find(&self.list, object).is_some() }
    }

    fn insert(&mut self, object: u32, size: u64) {
        let (high, low) = self.marks.unwrap_or((self.most, self.most));
        if bytes(&self.list) + size > high {
            while bytes(&self.list) + size > low {
                self.list.remove(0);
            }
        }
        self.list.push(one(object, size));
    }

    fn remove(&mut self, object: u32) {
        take(&mut self.list, object);
    }
}

/// CLOCK: a ring, and a hand that stays where who left was; who comes takes the place behind it.
#[derive(Default)]
struct Ring {
    most: u64,
    ring: Ones,
    hand: usize,
}

impl Model for Ring {
    fn get(&mut self, object: u32) -> bool {
        let found = find(&self.ring, object);
        found.inspect(|at| self.ring[*at].uses = 1).is_some()
    }

    fn insert(&mut self, object: u32, size: u64) {
        while bytes(&self.ring) + size > self.most {
            self.hand %= self.ring.len();
            if self.ring[self.hand].uses == 1 {
                self.ring[self.hand].uses = 0;
                self.hand += 1;
            } else {
                self.ring.remove(self.hand);
            }
        }
        self.ring.insert(self.hand, one(object, size));
        self.hand += 1;
    }

    fn remove(&mut self, object: u32) {
        if let Some(at) = find(&self.ring, object) {
            self.ring.remove(at);
            self.hand -= usize::from(at < self.hand);
        }
    }
}

/// The memory tier of `cosm serve`: a window, and behind it what has credit.
#[derive(Default)]
struct Dense {
    most: u64,
    /// The window, and the rest.
    lists: [Ones; 2],
    credit: HashMap<u32, f32>,
}

impl Dense {
    fn bytes(&self) -> u64 {
        self.lists.iter().map(bytes).sum()
    }

    fn mean(&self, bytes: u64, more: usize) -> f32 {
        (self.bytes() + bytes) as f32 / (self.lists.iter().map(Vec::len).sum::<usize>() + more) as f32
    }

    fn evict(&mut self) {
        let (mean, mut spared) = (self.mean(0, 0), Ones::new());
        while spared.len() < 64 {
            let full = !self.lists[0].is_empty() && bytes(&self.lists[0]) >= self.most / 2;
            let from = usize::from(!full && !self.lists[1].is_empty());
            let mut one = self.lists[from].remove(0);
            let credit = self.credit.get_mut(&one.object).unwrap();
            *credit = (*credit + std::mem::take(&mut one.uses) as f32 * mean / one.size as f32).min(8.0);
            if *credit < 1.0 {
                return;
            }
            *credit -= 1.0;
            self.lists[1].push(one);
            spared.extend((from == 1).then_some(one));
        }
        let credit = |one: &One| self.credit[&one.object];
        let poorest = spared.iter().copied().reduce(|a, b| if credit(&b) < credit(&a) { b } else { a });
        take(&mut self.lists[1], poorest.unwrap().object);
    }
}

impl Model for Dense {
    fn get(&mut self, object: u32) -> bool {
        let here = self.lists.iter_mut().flatten().find(|one| one.object == object);
        here.map(|one| one.uses = (one.uses + 1).min(15)).is_some()
    }

    fn insert(&mut self, object: u32, size: u64) {
        while self.bytes() + size > self.most {
            self.evict();
        }
        self.credit.insert(object, (0.3 * self.mean(size, 1) / size as f32).min(8.0));
        self.lists[0].push(one(object, size));
    }

    fn remove(&mut self, object: u32) {
        for list in &mut self.lists {
            take(list, object);
        }
    }
}

#[derive(Default)]
struct Two {
    most: u64,
    a1_in: Ones,
    a1_out: Ones,
    am: Ones,
}

impl Model for Two {
    fn get(&mut self, object: u32) -> bool {
        find(&self.a1_in, object).is_some() || renew(&mut self.am, object)
    }

    fn insert(&mut self, object: u32, size: u64) {
        let ghost = take(&mut self.a1_out, object);
        while bytes(&self.a1_in) + bytes(&self.am) + size > self.most {
            if bytes(&self.a1_in) > self.most / 4 || self.am.is_empty() {
                self.a1_out.push(self.a1_in.remove(0));
                while bytes(&self.a1_out) > self.most / 2 {
                    self.a1_out.remove(0);
                }
            } else {
                self.am.remove(0);
            }
        }
        if ghost.is_some() { &mut self.am } else { &mut self.a1_in }.push(one(object, size));
    }

    fn remove(&mut self, object: u32) {
        take(&mut self.a1_in, object);
        take(&mut self.am, object);
    }
}

/// ARC, by the cases of its Figure 4.
#[derive(Default)]
struct Adaptive {
    most: u64,
    p: u64,
    t1: Ones,
    t2: Ones,
    b1: Ones,
    b2: Ones,
}

impl Adaptive {
    fn replace(&mut self, of_b2: bool) {
        let t1 = bytes(&self.t1);
        if !self.t1.is_empty() && (t1 > self.p || of_b2 && t1 == self.p) || self.t2.is_empty() {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }

    fn replace_for(&mut self, size: u64, of_b2: bool) {
        while bytes(&self.t1) + bytes(&self.t2) + size > self.most {
            self.replace(of_b2);
        }
    }

    fn all(&self) -> u64 {
        [&self.t1, &self.t2, &self.b1, &self.b2].into_iter().map(bytes).sum()
    }
}

impl Model for Adaptive {
    fn get(&mut self, object: u32) -> bool {
        if let Some(one) = take(&mut self.t1, object) {
            self.t2.push(one);
            return true;
        }
        renew(&mut self.t2, object)
    }

    fn insert(&mut self, object: u32, size: u64) {
        let (b1, b2) = (bytes(&self.b1), bytes(&self.b2));
        if take(&mut self.b1, object).is_some() {
            self.p = (self.p + size * (b2 / b1).max(1)).min(self.most);
            self.replace_for(size, false);
            self.t2.push(one(object, size));
        } else if take(&mut self.b2, object).is_some() {
            self.p = self.p.saturating_sub(size * (b1 / b2).max(1));
            self.replace_for(size, true);
            self.t2.push(one(object, size));
        } else {
            while bytes(&self.t1) + bytes(&self.b1) + size > self.most {
                if self.b1.is_empty() { &mut self.t1 } else { &mut self.b1 }.remove(0);
            }
            while self.all() + size > 2 * self.most && !self.b2.is_empty() {
                self.b2.remove(0);
            }
            self.replace_for(size, false);
            self.t1.push(one(object, size));
        }
        while self.all() > 2 * self.most {
            if self.b2.is_empty() { &mut self.b1 } else { &mut self.b2 }.remove(0);
        }
    }

    fn remove(&mut self, object: u32) {
        take(&mut self.t1, object);
        take(&mut self.t2, object);
    }
}

/// All of GreedyDual; `uses` of a `One` is unused, worth and time stand beside it.
struct Greedy {
    most: u64,
    worth: fn(u64, u64) -> u64,
    least: u64,
    now: u64,
    list: Vec<(One, u64, u64)>,
}

impl Model for Greedy {
    fn get(&mut self, object: u32) -> bool {
        self.now += 1;
        let found = self.list.iter_mut().find(|(one, ..)| one.object == object);
        found
            .map(|(one, worth, used)| {
                one.uses += 1;
                (*worth, *used) = (self.least + (self.worth)(one.size, one.uses), self.now);
            })
            .is_some()
    }

    fn insert(&mut self, object: u32, size: u64) {
        while self.list.iter().map(|(one, ..)| one.size).sum::<u64>() + size > self.most {
            let worst = (0..self.list.len()).min_by_key(|at| (self.list[*at].1, self.list[*at].2)).unwrap();
            self.least = self.list.remove(worst).1;
        }
        self.list.push((One { uses: 1, ..one(object, size) }, self.least + (self.worth)(size, 1), self.now));
    }

    fn remove(&mut self, object: u32) {
        self.list.retain(|(one, ..)| one.object != object);
    }
}

#[derive(Default)]
struct Tiny {
    most: u64,
    window: Ones,
    probation: Ones,
    protected: Ones,
    counts: HashMap<u32, u64>,
    requests: u64,
}

impl Tiny {
    fn main(&self) -> u64 {
        self.most - self.most / 100
    }

    fn count(&mut self, object: u32) {
        self.requests += 1;
        let count = self.counts.entry(object).or_insert(0);
        *count = (*count + 1).min(15);
    }

    fn admit(&mut self, candidate: One) {
        while bytes(&self.probation) + bytes(&self.protected) + candidate.size > self.main() {
            let from = if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
            if self.counts[&candidate.object] <= self.counts[&from[0].object] {
                return;
            }
            from.remove(0);
        }
        self.probation.push(candidate);
    }
}

impl Model for Tiny {
    fn get(&mut self, object: u32) -> bool {
        let here = renew(&mut self.window, object)
            || renew(&mut self.protected, object)
            || take(&mut self.probation, object).map(|one| self.protected.push(one)).is_some();
        while bytes(&self.protected) > self.main() / 5 * 4 {
            self.probation.push(self.protected.remove(0));
        }
        if here {
            self.count(object);
        }
        here
    }

    fn insert(&mut self, object: u32, size: u64) {
        self.count(object);
        if size > self.most / 100 {
            self.admit(one(object, size));
        } else {
            self.window.push(one(object, size));
        }
        while bytes(&self.window) > self.most / 100 {
            let candidate = self.window.remove(0);
            self.admit(candidate);
        }
        let here = self.window.len() + self.probation.len() + self.protected.len();
        if self.requests >= 10 * (here as u64).max(1) {
            self.requests /= 2;
            self.counts.values_mut().for_each(|count| *count /= 2);
        }
    }

    fn remove(&mut self, object: u32) {
        for list in [&mut self.window, &mut self.probation, &mut self.protected] {
            take(list, object);
        }
        self.counts.insert(object, 0);
    }
}

/// FBC: the pointer looks at one after the other.
#[derive(Default)]
struct Cyclic {
    most: u64,
    ring: Ones,
    pointer: usize,
}

impl Cyclic {
    fn age(&mut self) {
        if self.ring.iter().map(|one| one.uses).sum::<u64>() > 100 * self.ring.len() as u64 {
            self.ring.iter_mut().for_each(|one| one.uses = one.uses.div_ceil(2));
        }
    }
}

impl Model for Cyclic {
    fn get(&mut self, object: u32) -> bool {
        let found = find(&self.ring, object);
        found.inspect(|at| self.ring[*at].uses += 1);
        self.age();
        found.is_some()
    }

    fn insert(&mut self, object: u32, size: u64) {
        while bytes(&self.ring) + size > self.most {
            self.pointer %= self.ring.len();
            let unpopular = (0..self.ring.len()).find(|passed| {
                let at = (self.pointer + passed) % self.ring.len();
                self.ring[at].uses < 3
            });
            self.pointer = (self.pointer + unpopular.unwrap_or(0)) % self.ring.len();
            self.ring.remove(self.pointer);
        }
        self.ring.insert(self.pointer, One { uses: 1, ..one(object, size) });
        self.pointer += 1;
        self.age();
    }

    fn remove(&mut self, object: u32) {
        if let Some(at) = find(&self.ring, object) {
            self.ring.remove(at);
            self.pointer -= usize::from(at < self.pointer);
        }
    }
}

#[derive(Default)]
struct S3 {
    most: u64,
    simulator: bool,
    full: bool,
    small: Ones,
    main: Ones,
    ghosts: Ones,
}

impl S3 {
    fn main_most(&self) -> u64 {
        self.most - self.most / 10
    }

    fn evict_small(&mut self) {
        while !self.small.is_empty() {
            let first = self.small.remove(0);
            if first.uses <= 1 {
                self.ghosts.push(first);
                let most = if self.simulator { self.most * 9 / 10 } else { self.main_most() };
                while bytes(&self.ghosts) > most {
                    self.ghosts.remove(0);
                }
                return;
            }
            self.main.push(One { uses: 0, ..first });
            while !self.simulator && bytes(&self.main) > self.main_most() {
                self.evict_main();
            }
        }
    }

    fn evict_main(&mut self) {
        while !self.main.is_empty() {
            let first = self.main.remove(0);
            if first.uses == 0 {
                return;
            }
            self.main.push(One { uses: first.uses.min(3) - 1, ..first });
        }
    }
}

impl Model for S3 {
    fn get(&mut self, object: u32) -> bool {
        let mut found = self.small.iter_mut().chain(&mut self.main).find(|one| one.object == object);
        found.iter_mut().for_each(|one| one.uses += 1);
        found.is_some()
    }

    fn insert(&mut self, object: u32, size: u64) {
        let ghost = take(&mut self.ghosts, object);
        while bytes(&self.small) + bytes(&self.main) + size > self.most {
            self.full = true;
            let small = match self.simulator {
                true => bytes(&self.main) <= self.main_most() && !self.small.is_empty(),
                false => bytes(&self.small) >= self.most / 10 || self.main.is_empty(),
            };
            if small { self.evict_small() } else { self.evict_main() }
        }
        let fills_main = self.simulator && !self.full && bytes(&self.small) >= self.most / 10;
        let to_main = ghost.is_some() || fills_main;
        if to_main { &mut self.main } else { &mut self.small }.push(one(object, size));
    }

    fn remove(&mut self, object: u32) {
        take(&mut self.small, object);
        take(&mut self.main, object);
    }
}

/// SIEVE; `hand` is how many, from the oldest on, it has passed.
#[derive(Default)]
struct Hand {
    most: u64,
    queue: Ones,
    hand: usize,
}

impl Hand {
    /// From the newest to the oldest.
    fn turn(&mut self) {
        if self.hand == self.queue.len() {
            self.hand = 0;
        }
    }
}

impl Model for Hand {
    fn get(&mut self, object: u32) -> bool {
        let found = find(&self.queue, object);
        found.inspect(|at| self.queue[*at].uses = 1).is_some()
    }

    fn insert(&mut self, object: u32, size: u64) {
        while bytes(&self.queue) + size > self.most {
            while self.queue[self.hand].uses > 0 {
                self.queue[self.hand].uses = 0;
                self.hand = (self.hand + 1) % self.queue.len();
            }
            self.queue.remove(self.hand);
            self.turn();
        }
        self.queue.push(one(object, size));
    }

    fn remove(&mut self, object: u32) {
        if let Some(at) = find(&self.queue, object) {
            self.queue.remove(at);
            self.hand -= usize::from(at < self.hand);
            self.turn();
        }
    }
}

/// Belady's; `uses` is the next request.
#[derive(Default)]
struct Seer {
    most: u64,
    next: u64,
    list: Ones,
}

impl Model for Seer {
    fn foresee(&mut self, next: u64) {
        self.next = next;
    }

    fn get(&mut self, object: u32) -> bool {
        let found = find(&self.list, object);
        found.inspect(|at| self.list[*at].uses = self.next).is_some()
    }

    fn insert(&mut self, object: u32, size: u64) {
        self.list.push(One { uses: self.next, ..one(object, size) });
        while bytes(&self.list) > self.most {
            let last = self.list.iter().max_by_key(|one| (one.uses, std::cmp::Reverse(one.object))).unwrap();
            let last = last.object;
            take(&mut self.list, last);
        }
    }

    fn remove(&mut self, object: u32) {
        take(&mut self.list, object);
    }
}

const OBJECTS: usize = 40;

/// The same are here, whatever is asked for; who left was here; and never are there more bytes than may be. A turn is an object, its size and
/// whether it goes when it is here.
fn agree(turns: &[(u32, u64, bool)], most: u64) -> Result<(), TestCaseError> {
    for policy in ALL {
        let (mut fast, mut slow) = ((policy.new)(most), model(policy.name, most));
        // Bytes of who is here, and who is remembered.
        let (mut here, mut known) = ([0; OBJECTS], [false; OBJECTS]);
        for (nth, (object, size, turn)) in turns.iter().copied().enumerate() {
            let at = object as usize;
            if policy.foresees {
                let next = turns[nth + 1..].iter().position(|(other, ..)| *other == object);
                let next = next.map_or(NEVER, |next| next as u64 + nth as u64 + 1);
                fast.foresee(next);
                slow.foresee(next);
            }
            let hit = fast.get(object);
            prop_assert_eq!(hit, slow.get(object), "{} of {}", policy.name, object);
            prop_assert_eq!(hit, here[at] > 0, "{} of {}", policy.name, object);
            if hit && turn {
                fast.remove(object);
                slow.remove(object);
                (here[at], known[at]) = (0, false);
            } else if !hit && size <= fast.largest() {
                (here[at], known[at]) = (size, true);
                fast.insert(object, size, &mut |left| match left {
                    Left::Cache(object) => assert!(std::mem::take(&mut here[object as usize]) > 0),
                    Left::Memory(object) => {
                        assert!(std::mem::take(&mut known[object as usize]) && here[object as usize] == 0);
                    }
                });
                slow.insert(object, size);
                prop_assert!(here.iter().sum::<u64>() <= most, "{}", policy.name);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn policies_choose_as_their_papers_say(
        turns in proptest::collection::vec((0..OBJECTS as u32, 1u64..60, (0u8..20).prop_map(|turn| turn == 0)), 1..400),
        most in 60u64..400,
    ) {
        agree(&turns, most)?;
    }

    /// Whatever a cache is resized to, no more are here than may be when the next one has come, and who is told to leave, or is taken
    /// away, was here or remembered. A turn is an object, its size, and to what the cache is resized.
    #[test]
    fn sizes_may_change(
        turns in proptest::collection::vec((0..OBJECTS as u32, 1u64..60, proptest::option::weighted(0.1, 0u64..400)), 1..400),
    ) {
        for policy in ALL {
            let (mut cache, mut most) = ((policy.new)(200), 200);
            let (mut here, mut known) = ([0; OBJECTS], [false; OBJECTS]);
            let leaves = |here: &mut [u64; OBJECTS], known: &mut [bool; OBJECTS], left| match left {
                Left::Cache(object) => assert!(std::mem::take(&mut here[object as usize]) > 0),
                Left::Memory(object) => assert!(std::mem::take(&mut known[object as usize])),
            };
            for (object, size, resized) in turns.iter().copied() {
                let at = object as usize;
                if let Some(bytes) = resized {
                    if known[at] {
                        cache.remove(object);
                        (here[at], known[at]) = (0, false);
                    }
                    most = bytes;
                    cache.resize(most, &mut |left| leaves(&mut here, &mut known, left));
                    prop_assert!(cache.largest() <= most, "{}", policy.name);
                }
                prop_assert_eq!(cache.get(object), here[at] > 0, "{} of {}", policy.name, object);
                if here[at] == 0 && size <= cache.largest() {
                    (here[at], known[at]) = (size, true);
                    cache.insert(object, size, &mut |left| leaves(&mut here, &mut known, left));
                    prop_assert!(here.iter().sum::<u64>() <= most, "{}", policy.name);
                }
            }
        }
    }

    /// Where all are of one size, nobody has more hits than who knows the future.
    #[test]
    fn who_knows_the_future_is_not_beaten(
        turns in proptest::collection::vec(0..OBJECTS as u32, 1..400), most in 20u64..30,
    ) {
        let hits = |policy: Policy| {
            let mut cache = (policy.new)(most);
            let mut hit = |nth: usize| {
                let next = turns[nth + 1..].iter().position(|other| *other == turns[nth]);
                cache.foresee(next.map_or(NEVER, |next| (nth + 1 + next) as u64));
                let hit = cache.get(turns[nth]);
                if !hit && cache.largest() > 0 {
                    cache.insert(turns[nth], 1, &mut |_| {});
                }
                hit
            };
            (0..turns.len()).map(|nth| usize::from(hit(nth))).sum::<usize>()
        };
        let best = hits(BELADY);
        for policy in ALL {
            prop_assert!(hits(policy) <= best, "{}", policy.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Few objects and so many requests that counts age.
    #[test]
    fn policies_choose_so_for_long(
        turns in proptest::collection::vec((0u32..8, 1u64..20, (0u8..200).prop_map(|turn| turn == 0)), 2500),
        most in 60u64..100,
    ) {
        agree(&turns, most)?;
    }
}

/// What is asked for, one letter each of one byte; what hits is told in capitals.
fn asked(policy: Policy, most: u64, letters: &str) -> String {
    let mut cache = (policy.new)(most);
    let one = |letter: char| {
        if cache.get(letter as u32) {
            return letter.to_ascii_uppercase();
        }
        cache.insert(letter as u32, 1, &mut |_| {});
        letter
    };
    letters.chars().map(one).collect()
}

#[test]
fn by_hand() {
    // Room for three: a is used, and goes all the same when it came first; not when it was used last.
    let named = |name: &str| named(&[name.to_owned()]).unwrap()[0];
    assert_eq!(asked(named("fifo"), 3, "abcadab"), "abcAdab");
    assert_eq!(asked(LRU, 3, "abcadab"), "abcAdAb");
    // A high watermark of 19 and a low one of 18: for t, a and b leave.
    assert_eq!(asked(LRU_TH, 20, "abcdefghijklmnopqrstba"), "abcdefghijklmnopqrstba");
    assert_eq!(asked(LRU_TH, 20, "abcdefghijklmnopqrstcd"), "abcdefghijklmnopqrstCD");
    // For d the hand spares a and takes b; for b it spares a again and c, which were used, and takes d.
    assert_eq!(asked(named("clock"), 3, "abcadcaba"), "abcAdCAbA");
    // For e, a goes to be remembered; when it comes back it stays, whatever else comes once.
    assert_eq!(asked(named("2q"), 4, "abcdeafghija"), "abcdeafghijA");
    // What was asked for twice is in the other list, which a scan does not touch.
    assert_eq!(asked(named("arc"), 3, "abababcdefgab"), "abABABcdefgAB");
    // Three uses outweigh what came later, until others that were used as often have aged it.
    assert_eq!(asked(named("lfu-da"), 3, "aaabcdeafgha"), "aAAbcdeAfghA");
    // What is popular is passed; b, asked for twice, is not.
    assert_eq!(asked(named("fbc"), 3, "aaabbcdeab"), "aAAbBcdeAb");
    // Who comes once does not push out who was asked for twice.
    assert_eq!(asked(named("w-tinylfu"), 3, "aabbccdefabc"), "aAbBcCdefABC");
    // For d the hand spares a and takes b; for e it spares c and takes d; for b it begins anew, spares a and takes c.
    assert_eq!(asked(SIEVE, 3, "abcadaceba"), "abcAdACebA");
}

/// Ten bytes: one of the small queue, nine of the main one.
#[test]
fn s3_fifo_by_hand() {
    // What is asked for once leaves first, also when it is newer than what was asked for three times.
    assert_eq!(asked(S3_FIFO, 10, "aaabcdefghij"), "aAAbcdefghij");
    assert_eq!(asked(S3_FIFO, 10, "aaabcdefghijkla"), "aAAbcdefghijklA");
    // One use is not enough; but the ghost comes back to the main queue, and stays beside what is asked for once.
    assert_eq!(asked(S3_FIFO, 10, "aabcdefghijka"), "aAbcdefghijka");
    assert_eq!(asked(S3_FIFO, 10, "aabcdefghijkalmnopqrstua"), "aAbcdefghijkalmnopqrstuA");
}
