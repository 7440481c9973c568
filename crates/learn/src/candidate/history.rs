//! What past requests tell of an object, its folder and its server, in bounded memory.
//!
//! What is noted counts from [`History::close_day`] on: a candidate of tonight is told by the days before it, never by
//! the day that it is for.

use super::{EMBEDDED, media_type_of, role};
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
    /// Requests of the last day with a peak for what is in the folder.
    pub directory_uses: u32,
    /// The section's share of the bytes that were missed in the last peak, 0 to 1.
    pub section_share: f64,
    /// Days on which something of the section was asked for.
    pub section_days: u32,
    /// Requests of the last day with a peak for what is in the section.
    pub section_uses: u32,
    /// Of what the section offered anew in the nights before, the share that the peaks asked for; the last night counts as much as all before
    /// it together. Negative where nothing is known.
    pub section_yield: f64,
    /// When something of the section was last asked for, seconds since 1970; 0 for never.
    pub section_last: u64,
    /// How many readers of the section are expected in a peak who have not come since the object was made: the sum of their likelihoods. A
    /// reader is a client that came to the section in one of the last eight peaks, and to its server in two, for more than what pages show. It is
    /// as likely as its share of the peaks in which it came, or before which the section offered something new, and one more.
    pub section_readers: f64,
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
            section_readers: 0.0,
        }
    }
}

/// The part of a site that a URL is in: its server and the first folder of its path.
pub fn section(url: &str) -> u64 {
    let url = trace::spelling(url);
    let start = url.find("://").map_or(0, |at| at + 3);
    let host = url[start..].find('/').map_or(url.len(), |at| start + at + 1);
    let end = url[host.min(url.len())..].find(['/', '?', '#']).map_or(host, |at| host + at);
    trace::hash(&url.as_bytes()[..end.min(url.len())])
}

/// At most `most` objects, and as many servers, folders and sections: about 200 bytes for each four of them, twice while a day is noted. Of
/// more, those are forgotten that were not asked for since longest, half of all at a time. And at most `most` pairs of a client and a server or section
/// that it came to in the last eight peaks, of 100 bytes: of more, those are forgotten that did not come since longest.
pub struct History {
    objects: Generations<Object>,
    servers: Generations<Days>,
    directories: Generations<Days>,
    sections: Generations<Days>,
    yields: Generations<Yield>,
    /// By server or section, and client.
    visits: HashMap<(u64, u64), Visits>,
    /// Of each section, by client.
    readers: HashMap<u64, Vec<(u64, Visits)>>,
    today: Today,
    /// Bytes missed in the last peak.
    missed: u64,
    /// Peaks that are over.
    peaks: u32,
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
    visits: HashMap<(u64, u64), Visits>,
    has_peak: bool,
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
    /// Nights before the last peaks that offered something new: the lowest bit is of the peak with this number.
    nights: u8,
    peak: u32,
}

/// A client's visits to a server or a section, for more than what pages show.
#[derive(Clone, Copy)]
struct Visits {
    /// The last peaks, the lowest bit the last of all, in which it came.
    peaks: u8,
    /// Seconds since 1970.
    last: u64,
    /// The server, of a section.
    section_of: Option<u64>,
}

/// What a server, a folder or a section did.
#[derive(Clone, Copy, Default)]
struct Days {
    days: u32,
    /// The peak to whose day the following two belong.
    peak: u32,
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
            visits: HashMap::new(),
            readers: HashMap::new(),
            today: Today::default(),
            missed: 0,
            peaks: 0,
            most: most.max(2),
        }
    }

    /// A request of the day that goes on: whether it is of the peak, and a miss. Numbers are those of the URL
    /// ([`Access::set_url`]). Once a day has asked for `most` objects, others are not noted.
    pub fn note(&mut self, access: &Access, in_peak: bool, is_miss: bool) {
        let missed = if in_peak && is_miss { access.size } else { 0 };
        self.today.has_peak |= in_peak;
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
        if role(media_type_of(&access.url)) == EMBEDDED {
            return;
        }
        for (of, section_of) in [(access.server, None), (number, Some(access.server))] {
            let (visits, pair) = (&mut self.today.visits, (of, access.client));
            if visits.len() < self.most || visits.contains_key(&pair) {
                let visits = visits.entry(pair).or_insert(Visits { peaks: 0, last: 0, section_of });
                visits.peaks |= u8::from(in_peak);
                visits.last = visits.last.max(seconds);
            }
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
        if today.has_peak {
            (self.peaks, self.missed) = (self.peaks + 1, today.missed);
        }
        for (number, (uses, last)) in sorted(today.objects) {
            let before = self.objects.get(number).unwrap_or_default();
            let uses = before.uses.saturating_add(uses);
            self.objects.put(number, Object { uses, days: before.days + 1, last: last.max(before.last) });
        }
        for (number, (offered, asked)) in sorted(today.yields) {
            let before = self.yields.get(number).unwrap_or_default();
            let all = Yield {
                offered: before.offered / 2.0 + f64::from(offered),
                asked: before.asked / 2.0 + asked as f64,
                nights: before.nights_at(self.peaks) | u8::from(today.has_peak),
                peak: self.peaks,
            };
            self.yields.put(number, all);
        }
        self.close_visits(today.visits, today.has_peak);
        for (kept, noted) in [
            (&mut self.servers, today.servers),
            (&mut self.directories, today.directories),
            (&mut self.sections, today.sections),
        ] {
            for (number, (uses, missed)) in sorted(noted) {
                let before = kept.get(number).unwrap_or_default();
                let last = today.last.get(&number).copied().unwrap_or_default().max(before.last);
                let days = before.days + 1;
                kept.put(
                    number,
                    match today.has_peak {
                        true => Days { days, peak: self.peaks, uses, missed, last },
                        false => Days { days, last, ..before },
                    },
                );
            }
        }
    }

    fn close_visits(&mut self, today: HashMap<(u64, u64), Visits>, has_peak: bool) {
        self.visits.values_mut().filter(|_| has_peak).for_each(|visits| visits.peaks <<= 1);
        for (pair, visits) in today {
            let before = self.visits.get(&pair).map_or(0, |before| before.peaks);
            self.visits.insert(pair, Visits { peaks: visits.peaks | before, ..visits });
        }
        let mut lasts: Vec<u64> = self.visits.values().map(|visits| visits.last).collect();
        let least = match lasts.len() > self.most {
            true => *lasts.select_nth_unstable_by(self.most, |one, other| other.cmp(one)).1 + 1,
            false => 0,
        };
        self.visits.retain(|_, visits| visits.peaks > 0 && visits.last >= least);
        self.readers.clear();
        let often = self.peaks.min(2);
        for ((section, client), visits) in &self.visits {
            let Some(server) = visits.section_of else { continue };
            let on_server = self.visits.get(&(server, *client)).map_or(0, |visits| visits.peaks.count_ones());
            if on_server >= often {
                self.readers.entry(*section).or_default().push((*client, *visits));
            }
        }
        // Sums must not follow from the order of a hash table.
        self.readers.values_mut().for_each(|readers| readers.sort_unstable_by_key(|(client, _)| *client));
    }

    /// What is known of an object that was made at a time, seconds since 1970 or 0, by the numbers of its URL.
    pub fn past(&self, of: &Access, made: u64) -> Past {
        let object = self.objects.get(of.object);
        let server = self.servers.get(of.server).unwrap_or_default();
        let directory = of.directory.and_then(|of| self.directories.get(of)).unwrap_or_default();
        let number = section(&of.url);
        let yielded = self.yields.get(number);
        let section = self.sections.get(number).unwrap_or_default();
        let nights = yielded.map_or(0, |one| one.nights_at(self.peaks));
        let readers = self.readers.get(&number).into_iter().flatten();
        let readers = readers.map(|(_, visits)| visits).filter(|visits| visits.last < made);
        let likelihood = |visits: &Visits| {
            f64::from(visits.peaks.count_ones()) / f64::from((visits.peaks | nights).count_ones() + 1)
        };
        let share = |of: &Days| match of.peak == self.peaks && self.missed > 0 {
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
            directory_uses: if directory.peak == self.peaks { directory.uses } else { 0 },
            section_share: share(&section),
            section_days: section.days,
            section_uses: if section.peak == self.peaks { section.uses } else { 0 },
            section_yield: yielded
                .filter(|one| one.offered > 0.0)
                .map_or(-1.0, |one| one.asked / one.offered),
            section_last: section.last,
            section_readers: readers.map(likelihood).sum(),
        }
    }
}

impl Yield {
    /// By a later peak.
    fn nights_at(self, peak: u32) -> u8 {
        self.nights.checked_shl(peak - self.peak).unwrap_or(0)
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
        history.note(&one, true, true);
        history.note(&access("http://a.test/b/c", 30, 300), false, true);
        history.note(&other, true, true);
        assert_eq!(history.past(&one, 40), Past::default());
        history.close_day();
        let past = history.past(&one, 40);
        assert_eq!((past.uses, past.days, past.last), (2, 1, 30));
        assert_eq!((past.server_share, past.server_days), (0.75, 1));
        assert_eq!((past.directory_share, past.directory_uses), (0.75, 2));
        let beside = history.past(&access("http://a.test/b/d", 0, 0), 0);
        assert_eq!((beside.uses, beside.last, beside.directory_uses), (0, 0, 2));
        history.note(&other, true, false);
        history.close_day();
        let past = history.past(&one, 40);
        assert_eq!((past.uses, past.server_share, past.server_days, past.directory_uses), (2, 0.0, 1, 0));
        assert_eq!(history.past(&other, 40).days, 2);
    }

    #[test]
    fn a_section_is_the_first_folder_and_has_a_yield() {
        let of = |url: &str| section(url);
        assert_eq!(of("http://a.test/b/c/d.html"), of("http://a.test/b/x"));
        assert_eq!(of("http://a.test/c.html"), of("http://a.test/"));
        assert_eq!(of("http://a.test/c.html"), of("HTTP://A.TEST:80"));
        for other in ["http://a.test/c/d", "http://b.test/b/c", "http://a.test/b", "", "://", "http://a.test"]
        {
            assert_ne!(of("http://a.test/b/c/d.html"), of(other), "{other}");
        }
        let mut history = History::new(100);
        let one = access("http://a.test/b/c", 10, 300);
        assert_eq!(history.past(&one, 40).section_yield, -1.0);
        for asked in [true, false, false, true] {
            history.note_offered(of("http://a.test/b/z"), asked);
        }
        history.close_day();
        assert_eq!(history.past(&one, 40).section_yield, 0.5);
        history.note_offered(of("http://a.test/b/z"), true);
        history.close_day();
        assert_eq!(history.past(&one, 40).section_yield, 2.0 / 3.0);
    }

    /// On a peak's day some clients come to a part of a site, in the peak, at `day * 100`.
    fn come(history: &mut History, day: u64, clients: &[u64], url: &str) {
        for client in clients {
            history.note(&Access { client: *client, ..access(url, day * 100, 1) }, true, true);
        }
        history.note_offered(section(url), true);
        history.close_day();
    }

    #[test]
    fn readers_are_those_who_come_again() {
        let mut history = History::new(100);
        let page = access("http://a.test/b/c.html", 0, 0);
        come(&mut history, 1, &[1, 2], "http://a.test/b/c.html");
        assert_eq!(history.past(&page, 101).section_readers, 0.5 + 0.5);
        assert_eq!(history.past(&page, 100).section_readers, 0.0, "they came after it was made");
        come(&mut history, 2, &[1], "http://a.test/b/d.html");
        assert_eq!(history.past(&page, 201).section_readers, 2.0 / 3.0, "one came only once");
        assert_eq!(history.past(&page, 150).section_readers, 0.0);
        // Pictures are shown by other pages, too; and on days without a peak nobody is missed.
        come(&mut history, 3, &[1, 2, 3], "http://a.test/b/d.gif");
        assert_eq!(history.past(&page, 301).section_readers, 2.0 / 4.0);
        history.note(&access("http://a.test/b/d.html", 400, 1), false, true);
        history.close_day();
        assert_eq!(history.past(&page, 401).section_readers, 2.0 / 4.0);
        // What offers nothing new is not missed, either.
        for day in 5..10 {
            come(&mut history, day, &[9], "http://x.test/");
        }
        assert_eq!(history.past(&page, 1_001).section_readers, 2.0 / 4.0);
        for day in 10..12 {
            come(&mut history, day, &[9], "http://x.test/");
        }
        assert_eq!(history.past(&page, 2_000).section_readers, 0.0, "eight peaks are remembered");
        assert!(history.visits.keys().all(|(_, client)| *client == 9));
    }

    #[test]
    fn memory_is_bounded_and_the_latest_are_kept() {
        let mut history = History::new(10);
        for day in 0..50 {
            for nth in 0..20 {
                history.note(
                    &access(&format!("http://s{nth}.test/{day}"), day * 86_400 + nth, 1),
                    true,
                    true,
                );
            }
            assert!(history.today.objects.len() <= 10 && history.today.visits.len() <= 10);
            history.close_day();
            assert!(history.objects.young.len() <= 5 && history.objects.old.len() <= 5);
            assert!(history.visits.len() <= 10);
        }
        assert_eq!(history.past(&access("http://s9.test/49", 0, 0), 0).uses, 1);
        assert_eq!(history.past(&access("http://s0.test/0", 0, 0), 0).uses, 0);
    }
}
