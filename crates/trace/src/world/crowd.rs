//! Who reads: sessions that begin as the day goes, each of one client with one site, page after page.
//!
//! A client has favourites, which stay the same from day to day. What it has fetched in a session its browser keeps: it is not asked for
//! again.

use super::calendar::{DAY, Day, level, mean_level};
use super::url::{self, Path};
use super::web::{SECTIONS, Web};
use super::{Settings, Use, chance};
use crate::Access;
use crate::random::{Random, mix, zipf};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Sites that a client returns to, the exponent of how often, and the share of its sessions that go to them.
const FAVOURITES: u64 = 12;
const FAVOURITE_ZIPF: f64 = 0.8;
const TO_FAVOURITES: f64 = 0.7;
/// Views of a session, and seconds between them, on the average.
const VIEWS: f64 = 5.0;
const THINKING: f64 = 40.0;
/// Share of the sessions that begin at the front page.
const AT_THE_FRONT: f64 = 0.6;
/// Share of the archives that are fetched when their page is looked at.
const FETCHED: f64 = 0.5;
/// Bytes of what programs make: the median and the deviation of the logarithm.
const PROGRAM: (f64, f64) = (6_000.0, 0.8);
const ADVERTISEMENT: (f64, f64) = (7_000.0, 0.5);
/// Microseconds.
const SECOND: f64 = 1e6;

pub struct Crowd {
    seed: u64,
    luck: Random,
    clients: u64,
    sessions: f64,
    day: Option<Day>,
    /// Microseconds at which the next session begins.
    arrival: f64,
    under_way: BinaryHeap<Reverse<Session>>,
    begun: u64,
    embedded: Vec<Path>,
}

struct Session {
    /// Microseconds of its next request.
    at: u64,
    number: u64,
    client: u64,
    site: u32,
    views: u32,
    waiting: VecDeque<Path>,
    /// Paths by their hashes.
    seen: Vec<u64>,
    /// Number of the page that is looked at.
    page: Option<u64>,
}

impl Crowd {
    pub fn new(settings: &Settings, seed: u64) -> Crowd {
        Crowd {
            seed,
            luck: chance(seed, Use::Crowd, [0, 0]),
            clients: settings.clients.into(),
            sessions: settings.sessions,
            day: None,
            arrival: settings.begins as f64 * SECOND,
            under_way: BinaryHeap::new(),
            begun: 0,
            embedded: Vec::new(),
        }
    }

    /// What is before this day and was not taken is left out.
    pub fn begin(&mut self, day: Day) {
        let midnight = day.begins as f64 * SECOND;
        self.arrival = self.arrival.max(midnight);
        self.under_way.retain(|session| session.0.at as f64 >= midnight);
        self.day = Some(day);
    }

    pub fn next(&mut self, web: &Web, access: &mut Access) -> bool {
        let Some(day) = self.day else { return false };
        let end = ((day.begins + DAY) as f64) * SECOND;
        loop {
            let next = self.under_way.peek().map_or(f64::INFINITY, |session| session.0.at as f64);
            if next.min(self.arrival) >= end {
                return false;
            }
            if self.arrival <= next {
                self.arrive(web, day);
                continue;
            }
            let Some(Reverse(mut session)) = self.under_way.pop() else { return false };
            if let Some(path) = session.waiting.pop_front() {
                let found = self.answer(web, &mut session, path, access);
                // What follows on a page comes at once.
                session.at += 1 + self.luck.exponential(0.15 * SECOND) as u64;
                self.under_way.push(Reverse(session));
                match found {
                    true => return true,
                    false => continue,
                }
            }
            if session.views > 0 {
                self.view(web, &mut session, false);
                self.under_way.push(Reverse(session));
            }
        }
    }

    /// A session may begin; the next one is then to come. Thinned, as the level of the hour says.
    fn arrive(&mut self, web: &Web, day: Day) {
        let at = self.arrival;
        let most = self.sessions / (DAY as f64 * SECOND) / mean_level();
        self.arrival += self.luck.exponential(1.0 / most);
        let second = (at / SECOND) as u64;
        if self.luck.unit() >= level(day.kind, second - day.begins) {
            return;
        }
        let client = self.luck.below(self.clients);
        let to = match self.luck.unit() < TO_FAVOURITES {
            true => {
                let nth = zipf(self.luck.unit(), FAVOURITES, FAVOURITE_ZIPF);
                chance(self.seed, Use::Favourite, [client, nth << 1 | web.epoch_at(second)]).unit()
            }
            false => self.luck.unit(),
        };
        let views = 1 + self.luck.exponential(1.0 / (1.0 + 1.0 / (VIEWS - 1.0)).ln()) as u32;
        self.begun += 1;
        let mut session = Session {
            at: at as u64,
            number: self.begun,
            client,
            site: web.site(to),
            views,
            waiting: VecDeque::new(),
            seen: Vec::new(),
            page: None,
        };
        self.view(web, &mut session, true);
        self.under_way.push(Reverse(session));
    }

    /// Chooses the next page, and what of it has to be fetched.
    fn view(&mut self, web: &Web, session: &mut Session, first: bool) {
        session.views -= 1;
        if !first {
            session.at += self.luck.exponential(THINKING * SECOND) as u64;
        }
        let (site, second) = (session.site, session.at / SECOND as u64);
        let habits = web.habits(site, second);
        let (new, index, program) = habits.views;
        let which = self.luck.unit();
        let page = if first && self.luck.unit() < AT_THE_FRONT {
            Path::Index(0)
        } else if which < new {
            web.new_page(site, self.luck.unit(), second).unwrap_or(Path::Index(0))
        } else if which < new + index {
            Path::Index(zipf(self.luck.unit(), u64::from(SECTIONS) + 1, 0.8) as u16)
        } else if which < new + index + program {
            Path::Program { page: self.luck.below(4) as u32, question: self.luck.bits() as u32 }
        } else {
            web.standing(site, self.luck.unit())
        };
        self.embedded.clear();
        self.embedded.push(page);
        web.embedded(site, page, second, &mut self.embedded);
        for path in &self.embedded {
            if path.is_archive() && self.luck.unit() >= FETCHED {
                continue;
            }
            let name = hash_of(*path);
            if !session.seen.contains(&name) {
                session.seen.push(name);
                session.waiting.push_back(*path);
            }
        }
        let advertisements = (habits.advertisements + self.luck.unit()) as u32;
        for _ in 0..advertisements {
            let question = self.luck.bits() as u32;
            session.waiting.push_back(Path::Advertisement { page: question % 8, question });
        }
    }

    /// Fills in what the request gets; false where there is nothing (any more).
    fn answer(&mut self, web: &Web, session: &mut Session, path: Path, access: &mut Access) -> bool {
        access.clear();
        let second = session.at / SECOND as u64;
        let mut url = std::mem::take(&mut access.url);
        url::write(session.site, path, &mut url);
        access.set_url(url.as_bytes());
        access.time = session.at;
        access.client = session.client;
        access.status = 200;
        if path.is_page() {
            session.page = Some(access.object);
        }
        access.page = session.page;
        let log_normal = |luck: &mut Random, (median, sigma): (f64, f64)| {
            (median * (sigma * luck.normal()).exp()).max(64.0) as u64
        };
        match path {
            Path::Program { .. } => access.size = log_normal(&mut self.luck, PROGRAM),
            Path::Advertisement { .. } => access.size = log_normal(&mut self.luck, ADVERTISEMENT),
            path => {
                let Some(found) = web.find(web.owner(session.site), path, second) else { return false };
                access.size = found.size;
                access.dynamic = !found.cacheable;
                access.modified = if found.cacheable { found.modified } else { 0 };
            }
        }
        true
    }
}

fn hash_of(path: Path) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = Fnv(0);
    path.hash(&mut hasher);
    hasher.finish()
}

/// The same on every machine, as the standard library's need not be.
struct Fnv(u64);

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }
}

impl Ord for Session {
    fn cmp(&self, other: &Session) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Session {
    fn partial_cmp(&self, other: &Session) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Session {
    fn eq(&self, other: &Session) -> bool {
        self.number == other.number
    }
}

impl Eq for Session {}
