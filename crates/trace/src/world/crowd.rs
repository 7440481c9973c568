//! Who reads: sessions that begin as the day goes, each of one client with one site, page after page.
//!
//! A client has favourites, which stay the same from day to day. What it has fetched in a session its browser keeps: it is not asked for
//! again.

use super::calendar::{DAY, Day, DayKind, level, mean_level};
use super::url::{self, Path};
use super::web::Web;
use super::{Settings, Use, chance};
use crate::Access;
use crate::random::{Random, mix, zipf};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How likely a client visits each of its favourites on a weekday: once, at an hour that is its habit.
const FAVOURITES: [f64; 3] = [0.9, 0.8, 0.7];
/// Seconds by which it comes earlier or later.
const PUNCTUAL: u64 = 1_800;
/// Days after which a reader does not look any more for what it has missed.
const BACKLOG: u64 = 3;
/// Views of a session, and seconds between them, on the average.
const VIEWS: f64 = 5.0;
/// New pages that a reader has patience for, on the average.
const PATIENCE: f64 = 10.0;
const THINKING: f64 = 40.0;
/// Share of the sessions that begin at the front page.
const AT_THE_FRONT: f64 = 0.6;
/// Share of the archives that are fetched when their page is looked at.
const FETCHED: f64 = 0.5;
/// Share of the sessions in which the browser does not have the images that all pages of the site share.
const WITHOUT_SHARED: f64 = 0.15;
/// Bytes of what programs make: the median and the deviation of the logarithm.
const PROGRAM: (f64, f64) = (6_000.0, 0.8);
const ADVERTISEMENT: (f64, f64) = (7_000.0, 0.5);
/// Microseconds.
const SECOND: f64 = 1e6;

#[derive(Clone)]
pub struct Crowd {
    seed: u64,
    luck: Random,
    settings: Settings,
    clients: u64,
    sessions: f64,
    day: Option<Day>,
    /// Which of the ways in which this day may fall out it is; 0 is that in which it does.
    draw: u64,
    /// Microseconds at which the next session by chance begins.
    arrival: f64,
    /// Sessions by habit of this day that are to come, the last first.
    visits: Vec<Visit>,
    under_way: BinaryHeap<Reverse<Session>>,
    begun: u64,
    embedded: Vec<Path>,
}

/// A client comes to one of its favourites; ordered by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Visit {
    /// Seconds.
    at: u64,
    client: u64,
    favourite: usize,
}

#[derive(Clone)]
struct Session {
    /// Microseconds of its next request.
    at: u64,
    number: u64,
    client: u64,
    site: u32,
    /// Pages that it will choose, and those that it has come for.
    views: u32,
    reading: VecDeque<Path>,
    waiting: VecDeque<Path>,
    /// Paths by their hashes.
    seen: Vec<u64>,
    has_shared: bool,
    /// Until when its browser has what was new, seconds.
    has_until: u64,
    /// Number of the page that is looked at.
    page: Option<u64>,
}

impl Crowd {
    pub fn new(settings: &Settings, seed: u64) -> Crowd {
        Crowd {
            seed,
            luck: chance(seed, Use::Crowd, [0, 0]),
            settings: settings.clone(),
            clients: settings.clients.into(),
            sessions: settings.sessions,
            day: None,
            draw: 0,
            arrival: settings.begins as f64 * SECOND,
            visits: Vec::new(),
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
        self.visits.clear();
        for client in 0..self.clients {
            for favourite in 0..FAVOURITES.len() {
                self.visits.extend(self.visit(day, client, favourite));
            }
        }
        self.visits.sort_unstable_by_key(|visit| Reverse(*visit));
    }

    /// At the beginning of this day: the same readers, with their habits and their past, and other chance.
    pub fn redrawn(&self, draw: u64) -> Crowd {
        let mut crowd = self.clone();
        if let Some(day) = self.day {
            crowd.draw = draw;
            crowd.luck = chance(self.seed, Use::Crowd, [draw, u64::from(day.number) + 1]);
            crowd.begin(day);
        }
        crowd
    }

    /// When a client comes to a favourite on a day, if it does. On other days than weekdays fewer come, at any hour.
    fn visit(&self, day: Day, client: u64, favourite: usize) -> Option<Visit> {
        let of = client << 8 | favourite as u64;
        let is_today = self.day.is_some_and(|today| today.number == day.number);
        let draw = if is_today { self.draw << 32 } else { 0 };
        let mut today = chance(self.seed, Use::Favourite, [of, draw | (u64::from(day.number) + 1)]);
        let hour_of = |kind: DayKind, luck: &mut Random| loop {
            let second = luck.below(DAY);
            if luck.unit() < level(kind, second) {
                return second;
            }
        };
        let part = mean_level(day.kind) / mean_level(DayKind::Weekday);
        if today.unit() >= FAVOURITES[favourite] * part {
            return None;
        }
        let second = match day.kind {
            DayKind::Weekday => {
                let habit = hour_of(day.kind, &mut chance(self.seed, Use::Favourite, [of, 0]));
                (habit + today.below(2 * PUNCTUAL)).saturating_sub(PUNCTUAL).min(DAY - 1)
            }
            kind => hour_of(kind, &mut today),
        };
        Some(Visit { at: day.begins + second, client, favourite })
    }

    pub fn next(&mut self, web: &Web, access: &mut Access) -> bool {
        let Some(day) = self.day else { return false };
        let end = ((day.begins + DAY) as f64) * SECOND;
        loop {
            let next = self.under_way.peek().map_or(f64::INFINITY, |session| session.0.at as f64);
            let visit = self.visits.last().map_or(f64::INFINITY, |visit| visit.at as f64 * SECOND);
            if next.min(self.arrival).min(visit) >= end {
                return false;
            }
            if visit <= next.min(self.arrival) {
                self.visits.pop().into_iter().for_each(|visit| self.come(web, visit));
                continue;
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
            if session.views > 0 || !session.reading.is_empty() {
                self.view(web, &mut session, false);
                self.under_way.push(Reverse(session));
            }
        }
    }

    /// A session may begin; the next one is then to come. Thinned, as the level of the hour says.
    fn arrive(&mut self, web: &Web, day: Day) {
        let at = self.arrival;
        let most = self.sessions / (DAY as f64 * SECOND) / mean_level(DayKind::Weekday);
        self.arrival += self.luck.exponential(1.0 / most);
        let second = (at / SECOND) as u64;
        if self.luck.unit() >= level(day.kind, second - day.begins) {
            return;
        }
        let (client, site) = (self.luck.below(self.clients), web.site(self.luck.unit()));
        let views = 1 + self.luck.exponential(1.0 / (1.0 + 1.0 / (VIEWS - 1.0)).ln()) as u32;
        let mut session = self.session(at as u64, client, site, views);
        self.view(web, &mut session, true);
        self.under_way.push(Reverse(session));
    }

    /// A client comes to a favourite: it looks at the front page, at that of its section, and at what is new there since it last came,
    /// the newest first.
    fn come(&mut self, web: &Web, visit: Visit) {
        let Visit { at, client, favourite } = visit;
        let of = client << 8 | favourite as u64 | web.epoch_at(at) << 40;
        let mut interest = chance(self.seed, Use::Interest, [of, 0]);
        let site = web.site(interest.unit());
        let section = web.section(site, interest.unit(), at);
        let since = at - DAY * self.days_since(visit);
        let views = self.luck.exponential(1.0 / (1.0 + 1.0 / PATIENCE).ln()) as usize;
        let mut session = self.session(at * SECOND as u64, client, site, 0);
        session.has_until = since;
        session.reading.extend(web.news(site, section, since, at).take(views));
        session.reading.push_front(Path::Index(section + 1));
        if self.luck.unit() < AT_THE_FRONT {
            session.reading.push_front(Path::Index(0));
        }
        self.view(web, &mut session, true);
        self.under_way.push(Reverse(session));
    }

    /// Days since a client came to a favourite before.
    fn days_since(&self, visit: Visit) -> u64 {
        let Some(today) = self.day else { return 1 };
        let came = |days: &u64| {
            let before = today.number.checked_sub(*days as u32).map(|number| Day::of(&self.settings, number));
            before.is_some_and(|day| self.visit(day, visit.client, visit.favourite).is_some())
        };
        (1..BACKLOG).find(came).unwrap_or(BACKLOG)
    }

    fn session(&mut self, at: u64, client: u64, site: u32, views: u32) -> Session {
        self.begun += 1;
        Session {
            at,
            number: self.begun,
            client,
            site,
            views,
            reading: VecDeque::new(),
            waiting: VecDeque::new(),
            seen: Vec::new(),
            has_shared: self.luck.unit() >= WITHOUT_SHARED,
            has_until: 0,
            page: None,
        }
    }

    /// Chooses the next page, and what of it has to be fetched.
    fn view(&mut self, web: &Web, session: &mut Session, first: bool) {
        if !first {
            session.at += self.luck.exponential(THINKING * SECOND) as u64;
        }
        let (site, second) = (session.site, session.at / SECOND as u64);
        let habits = web.habits(site, second);
        let (new, index, program) = habits.views;
        let which = self.luck.unit();
        let chosen = session.reading.pop_front();
        session.views -= u32::from(chosen.is_none());
        let page = if let Some(chosen) = chosen {
            chosen
        } else if first && self.luck.unit() < AT_THE_FRONT {
            Path::Index(0)
        } else if which < new {
            web.new_page(site, self.luck.unit(), second).unwrap_or(Path::Index(0))
        } else if which < new + index {
            Path::Index(zipf(self.luck.unit(), u64::from(web.sections(site, second)) + 1, 0.8) as u16)
        } else if which < new + index + program {
            Path::Program { page: self.luck.below(4) as u32, question: self.luck.bits() as u32 }
        } else {
            web.standing(site, self.luck.unit())
        };
        self.embedded.clear();
        self.embedded.push(page);
        web.embedded(site, page, session.has_until..second + 1, &mut self.embedded);
        for path in &self.embedded {
            if matches!(path, Path::Shared(_)) && session.has_shared {
                continue;
            }
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
