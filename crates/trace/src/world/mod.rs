//! A synthetic world: sites that publish and edit by habit, what they offer at a time, and a crowd that reads them by day and week.
//!
//! It stands for a gateway of a company as the thesis of Maltzahn describes it (chapters 6 and 7). What sites do (`web`) and what
//! the crowd asks for (`crowd`) follow from one seed, to the byte. The world goes on day by day and holds one day's edits, the pages
//! that are still offered and the sessions under way: memory grows with sites and their pages, not with requests or days. `habits` is the table of
//! what kinds of sites there are. Times are local: no zone, no daylight saving.
//!
//! ```
//! # use trace::{Access, world::{Settings, World}};
//! let mut world = World::new(Settings::small(), 1)?;
//! let mut access = Access::default();
//! while let Some(day) = world.next_day() {
//!     let offered = world.inventory(day.begins).count();
//!     while world.next(&mut access) {
//!         assert!(day.begins <= access.time / 1_000_000);
//!     }
//! #   assert!(offered > 100);
//! }
//! # Ok::<(), String>(())
//! ```

mod calendar;
mod crowd;
mod habits;
#[cfg(test)]
mod tests;
mod url;
mod web;

pub use calendar::{Day, DayKind, level};
pub use habits::{HABITS, Habits, Media};

use crate::Access;
use crate::inventory::Row;
use crowd::Crowd;
use web::Web;

/// How large the world is, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub sites: u32,
    pub clients: u32,
    /// Sessions of a weekday that chance brings, on the average; 2.4 more of each client are its habit.
    pub sessions: f64,
    /// 0: without end.
    pub days: u32,
    /// The first midnight, seconds since 1970.
    pub begins: u64,
    /// Numbers of days, from 0, that are holidays.
    pub holidays: Vec<u32>,
    /// Exponent of the popularity of sites.
    pub site_zipf: f64,
    /// From this day on, from 0, other sites are popular, other interests are followed, and sites have other habits.
    pub upheaval: Option<u32>,
}

impl Default for Settings {
    /// The thesis' two weeks (7.4): Monday, 18 May 1998, to Sunday, 31 May, with a holiday on the second Monday.
    fn default() -> Settings {
        Settings {
            sites: 300,
            clients: 1_500,
            sessions: 1_000.0,
            days: 14,
            begins: 895_449_600,
            holidays: vec![7],
            site_zipf: 1.0,
            upheaval: None,
        }
    }
}

impl Settings {
    /// For tests: seconds of work, and the same properties.
    pub fn small() -> Settings {
        Settings { sites: 12, clients: 60, sessions: 80.0, days: 3, ..Settings::default() }
    }

    /// As many servers and requests as the gateway of the thesis had.
    pub fn large() -> Settings {
        Settings { sites: 20_000, clients: 20_000, sessions: 15_000.0, ..Settings::default() }
    }

    /// An error says what, and what is possible.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: f64, least: f64, most: f64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(format!("{name} of a world: {value}, but from {least} to {most} are possible")),
        };
        within("sites", self.sites.into(), 1.0, 1e6)?;
        within("clients", self.clients.into(), 1.0, 1e8)?;
        within("sessions of a day", self.sessions, 1.0, 1e9)?;
        within("days", self.days.into(), 0.0, 1e5)?;
        within("the exponent of its sites", self.site_zipf, 0.0, 3.0)?;
        within("the beginning", self.begins as f64, 1e8, 1e11)
    }
}

/// What a site answers with for a URL at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub row: Row,
    /// For how many seconds the site says that it is fresh, if it says so.
    pub lifetime: Option<u32>,
}

/// Sites and a crowd, day by day.
#[derive(Clone)]
pub struct World {
    settings: Settings,
    web: Web,
    crowd: Crowd,
    next: u32,
}

impl World {
    pub fn new(settings: Settings, seed: u64) -> Result<World, String> {
        settings.check()?;
        let web = Web::new(&settings, seed);
        let crowd = Crowd::new(&settings, seed);
        Ok(World { settings, web, crowd, next: 0 })
    }

    /// Goes on to the next midnight; what was asked for before it and not taken is lost. Nothing after the last day.
    pub fn next_day(&mut self) -> Option<Day> {
        if self.settings.days > 0 && self.next >= self.settings.days {
            return None;
        }
        let day = Day::of(&self.settings, self.next);
        self.web.begin(day);
        self.crowd.begin(day);
        self.next += 1;
        Some(day)
    }

    /// The next request of this day, in the order of time; false at its end.
    pub fn next(&mut self, access: &mut Access) -> bool {
        self.crowd.next(&self.web, access)
    }

    /// What may be asked for on this day, before any of it was taken: the sites, the readers, their habits and their past are the same, and
    /// chance is another by each `draw` from 1 on. 0 is what will be asked for.
    pub fn might_ask(&self, draw: u64, each: &mut dyn FnMut(&Access)) {
        let mut crowd = if draw == 0 { self.crowd.clone() } else { self.crowd.redrawn(draw) };
        let mut access = Access::default();
        while crowd.next(&self.web, &mut access) {
            each(&access);
        }
    }

    /// What all sites offer at a second of this day, or later than it as if nothing were to be changed: what can be found by links, without what programs
    /// make for one question. By site, the same order each time.
    pub fn inventory(&self, at: u64) -> impl Iterator<Item = Row> + '_ {
        self.web.inventory(at)
    }

    /// What is answered for one of its URLs at a second of this day; nothing where there is no such page, or none yet or any more.
    pub fn offer(&self, url: &str, at: u64) -> Option<Offer> {
        self.web.offer(url, at)
    }
}

/// Of what a random number is used for: so that one use does not change another.
#[derive(Clone, Copy)]
enum Use {
    Site = 1,
    Rank,
    Publish,
    Edit,
    Crowd,
    Favourite,
    Interest,
    Media,
}

/// The random numbers of one use, from the seed and what they are for.
fn chance(seed: u64, what: Use, of: [u64; 2]) -> crate::random::Random {
    use crate::random::mix;
    crate::random::Random::of(mix(mix(mix(seed) ^ what as u64) ^ of[0]) ^ mix(of[1] ^ 0x5bd1_e995))
}
