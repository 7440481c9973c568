//! An infinite cache, and a finite one in it that forgets what was asked for least lately (LRU): one table of all names.
//!
//! What the finite cache holds is a part of what the infinite one holds, in the same version: it never hits where the other misses.
//! Memory grows with the names, 60 to 120 bytes each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use trace::statistics::is_unchanged;

/// One request, as the caches see it. Times are seconds since the trace began.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub object: u64,
    pub size: u64,
    /// Last-Modified; 0 when it is not known.
    pub modified: u64,
    pub time: u32,
}

/// What was known of the object before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The name was asked for.
    pub is_seen: bool,
    /// What a cache could hold of it, if there was that.
    pub version: Option<Version>,
    /// Of `version`, whether it is what is asked for now: a hit of the infinite cache.
    pub is_hit: bool,
    /// A hit of the finite one.
    pub is_finite_hit: bool,
}

/// When the object was as it is in the cache; seconds since the trace began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// It was asked for first.
    pub since: u32,
    /// It was asked for last.
    pub last: u32,
}

#[derive(Debug)]
pub struct Caches {
    /// Bytes of the finite one.
    room: u64,
    held: u64,
    places: HashMap<u64, u32>,
    objects: Vec<Object>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Object {
    modified: u64,
    /// `NO_VERSION`: only the name is known.
    size: u64,
    since: u32,
    last: u32,
    /// Neighbours in the finite cache; `ABSENT` if it is not there.
    newer: u32,
    older: u32,
}

/// Whether so many requests of all with a modification date are enough to tell versions by it: a hundredth. A stray one tells nothing.
pub fn is_dated(dated: u64, requests: u64) -> bool {
    dated > 0 && dated.saturating_mul(100) >= requests
}

const NO_VERSION: u64 = u64::MAX;
/// The end of the list.
const NONE: u32 = u32::MAX;
const ABSENT: u32 = u32::MAX - 1;

impl Caches {
    pub fn new(room: u64) -> Caches {
        let (places, objects) = (HashMap::new(), Vec::new());
        Caches { room, held: 0, places, objects, newest: NONE, oldest: NONE }
    }

    /// Names that were asked for.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// What the infinite cache holds of an object, as its modification date and size, and whether the finite one has it.
    pub fn held(&self, object: u64) -> Option<((u64, u64), bool)> {
        let object = &self.objects[*self.places.get(&object)? as usize];
        (object.size != NO_VERSION).then_some(((object.modified, object.size), object.newer != ABSENT))
    }

    /// What no cache may store: the name is known from now on.
    pub fn pass(&mut self, object: u64) -> Result<Before, String> {
        let (_, is_seen) = self.place(object)?;
        Ok(Before { is_seen, version: None, is_hit: false, is_finite_hit: false })
    }

    /// Asks for what caches may store, and stores it. With `by_date` it is the same where Last-Modified is, else where its size tells no
    /// change. An error is one line: too many names.
    pub fn ask(&mut self, ask: &Ask, by_date: bool) -> Result<Before, String> {
        let (place, is_seen) = self.place(ask.object)?;
        let object = self.objects[place as usize];
        let has_version = object.size != NO_VERSION;
        let is_hit = has_version
            && match by_date {
                true => object.modified == ask.modified,
                false => is_unchanged((object.modified, object.size), (ask.modified, ask.size)),
            };
        let is_held = object.newer != ABSENT;
        let version = has_version.then_some(Version { since: object.since, last: object.last });
        if is_held {
            self.forget(place);
        }
        let new = &mut self.objects[place as usize];
        (new.modified, new.size, new.last) = (ask.modified, ask.size, new.last.max(ask.time));
        if !is_hit {
            (new.since, new.last) = (ask.time, ask.time);
        }
        if ask.size <= self.room {
            self.hold(place);
            while self.held > self.room {
                self.forget(self.oldest);
            }
        }
        Ok(Before { is_seen, version, is_hit, is_finite_hit: is_hit && is_held })
    }

    /// Of an object, and whether it had one before.
    fn place(&mut self, object: u64) -> Result<(u32, bool), String> {
        match self.places.entry(object) {
            Entry::Occupied(known) => Ok((*known.get(), true)),
            Entry::Vacant(new) => {
                let place = u32::try_from(self.objects.len()).ok().filter(|place| *place < ABSENT);
                let place = place.ok_or("the trace has more than four billion objects")?;
                self.objects.push(Object {
                    modified: 0,
                    size: NO_VERSION,
                    since: 0,
                    last: 0,
                    newer: ABSENT,
                    older: ABSENT,
                });
                Ok((*new.insert(place), false))
            }
        }
    }

    /// As the newest.
    fn hold(&mut self, place: u32) {
        let before = self.newest;
        let object = &mut self.objects[place as usize];
        (object.newer, object.older) = (NONE, before);
        self.held += object.size;
        match before {
            NONE => self.oldest = place,
            before => self.objects[before as usize].newer = place,
        }
        self.newest = place;
    }

    fn forget(&mut self, place: u32) {
        let Object { newer, older, size, .. } = self.objects[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.objects[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.objects[older as usize].newer = newer,
        }
        self.held -= size;
        let object = &mut self.objects[place as usize];
        (object.newer, object.older) = (ABSENT, ABSENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(object: u64, size: u64, modified: u64, time: u32) -> Ask {
        Ask { object, size, modified, time }
    }

    #[test]
    fn a_hit_has_the_same_date_or_no_other_size() {
        let mut caches = Caches::new(1 << 20);
        let hits: Vec<bool> = [(7, 100), (7, 900), (8, 900), (8, 900)]
            .map(|(modified, size)| caches.ask(&ask(1, size, modified, 0), true).unwrap().is_hit)
            .to_vec();
        assert_eq!(hits, [false, true, false, true]);
        let hits: Vec<bool> = [1000, 1050, 1200, 1201]
            .map(|size| caches.ask(&ask(2, size, 0, 0), false).unwrap().is_hit)
            .to_vec();
        assert_eq!(hits, [false, true, false, true]);
        let before = caches.pass(3).unwrap();
        assert!(!before.is_seen && caches.pass(3).unwrap().is_seen);
        assert_eq!(caches.ask(&ask(3, 5, 0, 0), false).unwrap().version, None);
    }

    #[test]
    fn a_version_is_known_since_it_came() {
        let mut caches = Caches::new(1 << 20);
        let mut version = |size, time| caches.ask(&ask(1, size, 0, time), false).unwrap().version;
        assert_eq!(version(100, 10), None);
        assert_eq!(version(100, 20), Some(Version { since: 10, last: 10 }));
        assert_eq!(version(900, 30), Some(Version { since: 10, last: 20 }));
        assert_eq!(version(900, 40), Some(Version { since: 30, last: 30 }));
    }

    #[test]
    fn the_finite_cache_forgets_what_was_asked_for_least_lately() {
        let mut caches = Caches::new(25);
        let mut hit = |object, size| {
            let before = caches.ask(&ask(object, size, 1, 0), true).unwrap();
            (before.is_hit, before.is_finite_hit)
        };
        assert_eq!([hit(1, 10), hit(2, 10)], [(false, false); 2]);
        assert_eq!(hit(1, 10), (true, true));
        // Displaces 2.
        assert_eq!(hit(3, 10), (false, false));
        assert_eq!(hit(2, 10), (true, false));
        // 1 and 3 were asked for before 2; larger than all is not held.
        assert_eq!([hit(4, 26), hit(4, 26)], [(false, false), (true, false)]);
        assert_eq!([hit(3, 10), hit(1, 10)], [(true, true), (true, false)]);
    }

    proptest! {
        /// The finite cache is as a slow list; the infinite one never hits less.
        #[test]
        fn the_finite_cache_is_as_a_slow_list(
            asks in proptest::collection::vec((0u64..12, 1u64..20, 1u64..3), 1..200), room in 0u64..60,
        ) {
            let mut caches = Caches::new(room);
            let mut list: Vec<Ask> = Vec::new();
            for (time, (object, size, modified)) in (0..).zip(asks) {
                let ask = ask(object, size, modified, time);
                let before = caches.ask(&ask, true).unwrap();
                let held = list.iter().position(|other| other.object == object).map(|at| list.remove(at));
                prop_assert_eq!(before.is_finite_hit, held.is_some_and(|held| held.modified == modified));
                prop_assert!(before.is_hit || !before.is_finite_hit);
                if ask.size <= room {
                    list.insert(0, ask);
                    while list.iter().map(|ask| ask.size).sum::<u64>() > room {
                        list.pop();
                    }
                }
                prop_assert_eq!(caches.held, list.iter().map(|ask| ask.size).sum::<u64>());
            }
        }
    }
}
