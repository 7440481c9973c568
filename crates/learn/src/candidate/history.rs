//! What past requests tell of an object, its folder and its server, in bounded memory.
//!
//! What is noted counts from [`History::close_day`] on: a candidate of tonight is told by the days before it, never by
//! the day that it is for.

use std::collections::HashMap;
use trace::Access;

/// What is remembered, up to the end of the last day that was closed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Past {
    /// Requests for the object.
    pub uses: u32,
    /// Days on which it was asked for.
    pub days: u32,
    /// When it was last asked for, seconds since 1970; 0 if never.
    pub last: u64,
    /// The server's share of the bytes that were missed in the last peak, 0 to 1.
    pub server_share: f64,
    /// Days on which the server was asked for anything.
    pub server_days: u32,
    /// The folder's share of the bytes that were missed in the last peak, 0 to 1.
    pub directory_share: f64,
    /// Requests of the last day for what is in the folder.
    pub directory_uses: u32,
    /// The section's share of the bytes that were missed in the last peak, 0 to 1.
    pub section_share: f64,
    /// Days on which something of the section was asked for.
    pub section_days: u32,
    /// Requests of the last day for what is in the section.
    pub section_uses: u32,
    /// Of what the section offered anew in the nights before, the share that the peaks asked for; the last night counts as much as all before
    /// it together. Negative where nothing is known.
    pub section_yield: f64,
    /// When something of the section was last asked for, seconds since 1970; 0 for never.
    pub section_last: u64,
}

impl Default for Past {
    /// Of what was never asked for.
    fn default() -> Past {
        Past {
            uses: 0,
            days: 0,
            last: 0,
            server_share: 0.0,
            server_days: 0,
            directory_share: 0.0,
            directory_uses: 0,
            section_share: 0.0,
            section_days: 0,
            section_uses: 0,
            section_yield: -1.0,
            section_last: 0,
        }
    }
}

/// The part of a site that a URL is in: its server and the first folder of its path.
pub fn section(url: &str) -> u64 {
    let start = url.find("://").map_or(0, |at| at + 3);
    let host = url[start..].find('/').map_or(url.len(), |at| start + at + 1);
    let end = url[host.min(url.len())..].find(['/', '?', '#']).map_or(host, |at| host + at);
    trace::hash(&url.as_bytes()[..end.min(url.len())])
}

/// At most `most` objects, and as many servers, folders and sections: about 200 bytes for each four of them, twice while a day is noted. Of
/// more, those are forgotten that were not asked for since longest, half of all at a time.
pub struct History {
    objects: Generations<Object>,
    servers: Generations<Days>,
    directories: Generations<Days>,
    sections: Generations<Days>,
    yields: Generations<Yield>,
    today: Today,
    /// Bytes missed in the last peak.
    missed: u64,
    /// Days that were closed.
    day: u32,
    most: usize,
}

#[derive(Default)]
struct Today {
    objects: HashMap<u64, (u32, u64)>,
    servers: HashMap<u64, (u32, u64)>,
    directories: HashMap<u64, (u32, u64)>,
    sections: HashMap<u64, (u32, u64)>,
    /// When sections were last asked for anything.
    last: HashMap<u64, u64>,
    /// Offered anew, and asked for.
    yields: HashMap<u64, (u32, u64)>,
    missed: u64,
}

#[derive(Clone, Copy, Default)]
struct Object {
    uses: u32,
    days: u32,
    last: u64,
}

/// What a section offered anew, and what of it was asked for.
#[derive(Clone, Copy, Default)]
struct Yield {
    offered: f64,
    asked: f64,
}

/// What a server, a folder or a section did.
#[derive(Clone, Copy, Default)]
struct Days {
    days: u32,
    /// The day to which the following belongs.
    day: u32,
    uses: u32,
    missed: u64,
    /// When a section was last asked for anything, seconds since 1970.
    last: u64,
}

impl History {
    pub fn new(most: usize) -> History {
        let half = (most / 2).max(1);
        History {
            objects: Generations::new(half),
            servers: Generations::new(half),
            directories: Generations::new(half),
            sections: Generations::new(half),
            yields: Generations::new(half),
            today: Today::default(),
            missed: 0,
            day: 0,
            most: most.max(2),
        }
    }

    /// A request of the day that goes on; `peak_miss`: it was a miss in the peak. Numbers are those of the URL
    /// ([`Access::set_url`]). Once a day has asked for `most` objects, others are not noted.
    pub fn note(&mut self, access: &Access, peak_miss: bool) {
        let missed = if peak_miss { access.size } else { 0 };
        let seconds = access.time / 1_000_000;
        self.today.missed = self.today.missed.saturating_add(missed);
        if let Some((uses, last)) = slot(&mut self.today.objects, access.object, self.most) {
            *uses = uses.saturating_add(1);
            *last = seconds.max(*last);
        }
        let server = slot(&mut self.today.servers, access.server, self.most);
        let directory = access.directory.and_then(|of| slot(&mut self.today.directories, of, self.most));
        let number = section(&access.url);
        let section = slot(&mut self.today.sections, number, self.most);
        if section.is_some() {
            let last = self.today.last.entry(number).or_default();
            *last = seconds.max(*last);
        }
        for (uses, bytes) in [server, directory, section].into_iter().flatten() {
            *uses = uses.saturating_add(1);
            *bytes = bytes.saturating_add(missed);
        }
    }

    /// What was offered in the night before the day that goes on, and was new then: whether the peak asked for it. Before `close_day`.
    pub fn note_offered(&mut self, section: u64, asked: bool) {
        if let Some((offered, of_it)) = slot(&mut self.today.yields, section, self.most) {
            *offered = offered.saturating_add(1);
            *of_it += u64::from(asked);
        }
    }

    /// Ends the day: what was noted counts from now on.
    pub fn close_day(&mut self) {
        let today = std::mem::take(&mut self.today);
        self.day += 1;
        self.missed = today.missed;
        for (number, (uses, last)) in sorted(today.objects) {
            let before = self.objects.get(number).unwrap_or_default();
            let uses = before.uses.saturating_add(uses);
            self.objects.put(number, Object { uses, days: before.days + 1, last: last.max(before.last) });
        }
        for (number, (offered, asked)) in sorted(today.yields) {
            let Yield { offered: before, asked: of_it } = self.yields.get(number).unwrap_or_default();
            let all = Yield { offered: before / 2.0 + f64::from(offered), asked: of_it / 2.0 + asked as f64 };
            self.yields.put(number, all);
        }
        for (kept, noted) in [
            (&mut self.servers, today.servers),
            (&mut self.directories, today.directories),
            (&mut self.sections, today.sections),
        ] {
            for (number, (uses, missed)) in sorted(noted) {
                let before = kept.get(number).unwrap_or_default();
                let last = today.last.get(&number).copied().unwrap_or_default().max(before.last);
                kept.put(number, Days { days: before.days + 1, day: self.day, uses, missed, last });
            }
        }
    }

    /// What is known of an object by the numbers of its URL.
    pub fn past(&self, of: &Access) -> Past {
        let object = self.objects.get(of.object);
        let server = self.servers.get(of.server).unwrap_or_default();
        let directory = of.directory.and_then(|of| self.directories.get(of)).unwrap_or_default();
        let section = section(&of.url);
        let yielded = self.yields.get(section).filter(|one| one.offered > 0.0);
        let section = self.sections.get(section).unwrap_or_default();
        let share = |of: &Days| match of.day == self.day && self.missed > 0 {
            true => of.missed as f64 / self.missed as f64,
            false => 0.0,
        };
        Past {
            uses: object.map_or(0, |object| object.uses),
            days: object.map_or(0, |object| object.days),
            last: object.map_or(0, |object| object.last),
            server_share: share(&server),
            server_days: server.days,
            directory_share: share(&directory),
            directory_uses: if directory.day == self.day { directory.uses } else { 0 },
            section_share: share(&section),
            section_days: section.days,
            section_uses: if section.day == self.day { section.uses } else { 0 },
            section_yield: yielded.map_or(-1.0, |one| one.asked / one.offered),
            section_last: section.last,
        }
    }
}

fn slot(of: &mut HashMap<u64, (u32, u64)>, number: u64, most: usize) -> Option<&mut (u32, u64)> {
    if of.len() >= most && !of.contains_key(&number) {
        return None;
    }
    Some(of.entry(number).or_default())
}

/// What is forgotten must not follow from the order of a hash table.
fn sorted(of: HashMap<u64, (u32, u64)>) -> Vec<(u64, (u32, u64))> {
    let mut all: Vec<_> = of.into_iter().collect();
    all.sort_unstable_by_key(|(number, (_, second))| (*second, *number));
    all
}

/// Two maps of which the older one is dropped when the younger one is full.
struct Generations<T> {
    young: HashMap<u64, T>,
    old: HashMap<u64, T>,
    most: usize,
}

impl<T: Copy> Generations<T> {
    fn new(most: usize) -> Generations<T> {
        Generations { young: HashMap::new(), old: HashMap::new(), most }
    }

    fn get(&self, number: u64) -> Option<T> {
        self.young.get(&number).or_else(|| self.old.get(&number)).copied()
    }

    fn put(&mut self, number: u64, value: T) {
        if self.young.len() >= self.most && !self.young.contains_key(&number) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(number, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(url: &str, seconds: u64, size: u64) -> Access {
        let mut access = Access { time: seconds * 1_000_000, size, ..Access::default() };
        access.set_url(url.as_bytes());
        access
    }

    #[test]
    fn a_day_counts_when_it_is_over() {
        let mut history = History::new(100);
        let (one, other) = (access("http://a.test/b/c", 10, 300), access("http://x.test/y", 20, 100));
        history.note(&one, true);
        history.note(&access("http://a.test/b/c", 30, 300), false);
        history.note(&other, true);
        assert_eq!(history.past(&one), Past::default());
        history.close_day();
        let past = history.past(&one);
        assert_eq!((past.uses, past.days, past.last), (2, 1, 30));
        assert_eq!((past.server_share, past.server_days), (0.75, 1));
        assert_eq!((past.directory_share, past.directory_uses), (0.75, 2));
        let beside = history.past(&access("http://a.test/b/d", 0, 0));
        assert_eq!((beside.uses, beside.last, beside.directory_uses), (0, 0, 2));
        history.note(&other, false);
        history.close_day();
        let past = history.past(&one);
        assert_eq!((past.uses, past.server_share, past.server_days, past.directory_uses), (2, 0.0, 1, 0));
        assert_eq!(history.past(&other).days, 2);
    }

    #[test]
    fn a_section_is_the_first_folder_and_has_a_yield() {
        let of = |url: &str| section(url);
        assert_eq!(of("http://a.test/b/c/d.html"), of("http://a.test/b/x"));
        assert_eq!(of("http://a.test/c.html"), of("http://a.test/"));
        for other in ["http://a.test/c/d", "http://b.test/b/c", "http://a.test/b", "", "://", "http://a.test"]
        {
            assert_ne!(of("http://a.test/b/c/d.html"), of(other), "{other}");
        }
        let mut history = History::new(100);
        let one = access("http://a.test/b/c", 10, 300);
        assert_eq!(history.past(&one).section_yield, -1.0);
        for asked in [true, false, false, true] {
            history.note_offered(of("http://a.test/b/z"), asked);
        }
        history.close_day();
        assert_eq!(history.past(&one).section_yield, 0.5);
        history.note_offered(of("http://a.test/b/z"), true);
        history.close_day();
        assert_eq!(history.past(&one).section_yield, 2.0 / 3.0);
    }

    #[test]
    fn memory_is_bounded_and_the_latest_are_kept() {
        let mut history = History::new(10);
        for day in 0..50 {
            for nth in 0..20 {
                history.note(&access(&format!("http://s{nth}.test/{day}"), day * 86_400 + nth, 1), true);
            }
            assert!(history.today.objects.len() <= 10);
            history.close_day();
            assert!(history.objects.young.len() <= 5 && history.objects.old.len() <= 5);
        }
        assert_eq!(history.past(&access("http://s9.test/49", 0, 0)).uses, 1);
        assert_eq!(history.past(&access("http://s0.test/0", 0, 0)).uses, 0);
    }
}
