//! Each policy beside its paper's words, done with plain lists; and examples worked by hand.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// An object as the plain lists have it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct One {
    object: u32,
    size: u64,
    uses: u32,
    worth: u64,
}

/// Plain lists, the newest at the end.
#[derive(Default)]
struct Plain {
    most: u64,
    queue: VecDeque<One>,
    small: VecDeque<One>,
    ghosts: VecDeque<One>,
    /// How many of `queue`, from the oldest on, the hand has passed.
    hand: usize,
    /// What who left last was worth.
    least: u64,
}

fn bytes(list: &VecDeque<One>) -> u64 {
    list.iter().map(|one| one.size).sum()
}

/// As GreedyDual-Size has it.
fn worth(policy: &str, least: u64, size: u64) -> u64 {
    let cost = if policy == "gd-size-packets" { 2 + size / 536 } else { 1 };
    least + (cost << 30) / size
}

fn find(list: &VecDeque<One>, object: u32) -> Option<usize> {
    list.iter().position(|one| one.object == object)
}

impl Plain {
    fn get(&mut self, policy: &str, object: u32) -> bool {
        if let Some(at) = find(&self.queue, object) {
            self.queue[at].uses += 1;
            if policy.starts_with("lru") {
                let one = self.queue.remove(at).unwrap();
                self.queue.push_back(one);
            }
            self.queue[at].worth = worth(policy, self.least, self.queue[at].size);
            return true;
        }
        let at = find(&self.small, object);
        at.inspect(|at| self.small[*at].uses += 1).is_some()
    }

    fn insert(&mut self, policy: &str, object: u32, size: u64) {
        let ghost = find(&self.ghosts, object).and_then(|at| self.ghosts.remove(at));
        if policy == "lru-th" && bytes(&self.queue) + size > self.most / 20 * 19 {
            while bytes(&self.queue) + size > self.most / 10 * 9 {
                self.queue.pop_front();
            }
        }
        while bytes(&self.queue) + bytes(&self.small) + size > self.most {
            match policy {
                "lru" | "fifo" => drop(self.queue.pop_front()),
                "gd-size" | "gd-size-packets" => self.greedy_dual(),
                "sieve" => self.sieve(),
                _ if bytes(&self.small) >= self.most / 10 || self.queue.is_empty() => self.evict_small(),
                _ => self.evict_main(),
            }
        }
        let new = One { object, size, uses: 0, worth: worth(policy, self.least, size) };
        match policy {
            "s3-fifo" if ghost.is_none() => self.small.push_back(new),
            _ => self.queue.push_back(new),
        }
    }

    fn greedy_dual(&mut self) {
        let worst = self.queue.iter().min_by_key(|one| (one.worth, one.object)).copied().unwrap();
        self.least = worst.worth;
        self.queue.retain(|one| one.object != worst.object);
    }

    fn sieve(&mut self) {
        while self.queue[self.hand].uses > 0 {
            self.queue[self.hand].uses = 0;
            self.hand = (self.hand + 1) % self.queue.len();
        }
        self.queue.remove(self.hand);
        self.turn_hand();
    }

    /// From the newest to the oldest.
    fn turn_hand(&mut self) {
        if self.hand == self.queue.len() {
            self.hand = 0;
        }
    }

    fn evict_small(&mut self) {
        while let Some(one) = self.small.pop_front() {
            if one.uses <= 1 {
                self.ghosts.push_back(one);
                while bytes(&self.ghosts) > self.most - self.most / 10 {
                    self.ghosts.pop_front();
                }
                return;
            }
            self.queue.push_back(One { uses: 0, ..one });
            while bytes(&self.queue) > self.most - self.most / 10 {
                self.evict_main();
            }
        }
    }

    fn evict_main(&mut self) {
        while let Some(one) = self.queue.pop_front() {
            if one.uses == 0 {
                return;
            }
            self.queue.push_back(One { uses: one.uses.min(3) - 1, ..one });
        }
    }

    fn remove(&mut self, object: u32) {
        if let Some(at) = find(&self.queue, object) {
            self.queue.remove(at);
            self.hand -= usize::from(at < self.hand);
            self.turn_hand();
        }
        self.small.retain(|one| one.object != object);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The same are here, whatever is asked for, and who left was here.
    #[test]
    fn policies_choose_as_their_papers_say(
        turns in proptest::collection::vec((0u32..40, 1u64..60, 0u8..20), 1..400),
        most in 60u64..400,
    ) {
        for policy in ALL {
            let mut fast = (policy.new)(most);
            let mut plain = Plain { most, ..Plain::default() };
            let (mut here, mut known) = (vec![false; 40], vec![false; 40]);
            for (object, size, turn) in turns.iter().copied() {
                let at = object as usize;
                let hit = fast.get(object);
                prop_assert_eq!(hit, plain.get(policy.name, object), "{} of {}", policy.name, object);
                prop_assert_eq!(hit, here[at]);
                if hit && turn == 0 {
                    fast.remove(object);
                    plain.remove(object);
                    (here[at], known[at]) = (false, false);
                } else if !hit && size <= fast.largest() {
                    fast.insert(object, size, &mut |left| match left {
                        Left::Cache(object) => assert!(std::mem::take(&mut here[object as usize])),
                        Left::Memory(object) => assert!(std::mem::take(&mut known[object as usize])),
                    });
                    plain.insert(policy.name, object, size);
                    (here[at], known[at]) = (true, true);
                }
            }
        }
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
    assert_eq!(asked(FIFO, 3, "abcadab"), "abcAdab");
    assert_eq!(asked(LRU, 3, "abcadab"), "abcAdAb");
    // A high watermark of 19 and a low one of 18: for t, a and b leave.
    assert_eq!(asked(LRU_TH, 20, "abcdefghijklmnopqrstba"), "abcdefghijklmnopqrstba");
    assert_eq!(asked(LRU_TH, 20, "abcdefghijklmnopqrstcd"), "abcdefghijklmnopqrstCD");
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
