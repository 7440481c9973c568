//! Synthetic workloads with the published properties of real ones: a row of numbers each.
//!
//! Requests come from sessions that interleave: each asks one server for a while. Which session is next follows how
//! lately it was heard, which gives the locality of server names (Maltzahn, Figure 4.2). A session asks for
//! something new, or for what was asked for before: of its server, at a distance in the server's past that is even on a
//! logarithmic scale, so that hits grow with the logarithm of the cache; or of all, by Zipf's law. Or it views pages, and asks
//! for each with what is embedded in it.
//!
//! Every object has a path: new ones lie in directories that a session stays in for a while. `table` lists the workloads.
//!
//! One workload is the crowd of a synthetic world (`world`), which alone has days in it.
//!
//! What was asked for is remembered: 8 bytes a request and 8 an object. Where only some objects matter (`Synthetic::only`) and
//! there are no pages, that is as much as requests for these take: no choice looks at what an object is, so that of the
//! others nothing but their number has to be known. Pages must be known whole, since a session does not ask twice for
//! what it has seen.

mod past;
mod table;

pub use table::ALL;

use crate::random::{Random, mix, zipf};
use crate::statistics::Statistics;
use crate::world::{self, World};
use crate::{Access, Matters, Method};
use past::Past;
use std::collections::{HashMap, VecDeque};

/// What a workload is like.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub about: &'static str,
    /// Unless told otherwise.
    pub requests: u64,
    pub per_second: f64,
    pub clients: u64,
    /// That there are; a short trace does not meet all.
    pub servers: u64,
    /// Exponent of the servers' popularity.
    pub server_zipf: f64,
    /// At a time, and requests of each on the average; with pages, their views.
    pub sessions: usize,
    pub session_requests: f64,
    /// Exponent of how lately the next session was heard.
    pub session_zipf: f64,
    /// Share of the requests that ask for something again; with pages, of their views.
    pub repeats: f64,
    pub which: Which,
    /// Share of the repeats that find a new version.
    pub changes: f64,
    pub kinds: &'static [ContentType],
    /// What is published of the traces it stands for.
    pub published: &'static [Published],
}

/// A published figure of real traces, to stand beside that of a synthetic workload.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    pub what: &'static str,
    /// The least and the most that is published.
    pub value: (f64, f64),
    pub source: &'static str,
    pub of: fn(&Statistics) -> f64,
}

/// What is asked for again.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    /// Of the session's server: a share by Zipf's law with what was asked for first being the most popular, the rest by
    /// the same law with the latest the likeliest.
    /// From there on it asks for what followed, `run` requests on the average, as pages are looked at again with all that is
    /// on them.
    Server { popular: f64, popularity: f64, recency: f64, run: f64 },
    /// Of everything, older objects being more popular, with this exponent.
    Popular(f64),
    /// Pages of the session's server, chosen as with `Server`, each with `embedded` objects on the average, of which a share
    /// belongs to other pages of the server, too. What a session has seen it does not ask for again, as browsers do. The first
    /// kind of object is the page's own, the others are embedded.
    Pages { popular: f64, popularity: f64, recency: f64, embedded: f64, shared: f64 },
    /// The crowd of a synthetic world, with days and dates in it: `world` says it all, and of the workload's numbers only
    /// how many requests it has counts.
    World,
}

/// A kind of object.
#[derive(Clone, Copy, Debug)]
pub struct ContentType {
    /// Of new objects.
    pub share: f64,
    pub size: Size,
    /// Share of it that a cache may keep.
    pub cacheable: f64,
}

/// Bytes.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    Exponential {
        mean: f64,
    },
    /// Logarithms are normal.
    LogNormal {
        median: f64,
        sigma: f64,
    },
    /// The same without what is larger than `most`.
    Cut {
        median: f64,
        sigma: f64,
        most: f64,
    },
}

/// The workload of this name; an error lists all.
pub fn named(name: &str) -> Result<&'static Workload, String> {
    ALL.iter().find(|like| like.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|like| like.name).collect();
        format!("there is no workload `{name}`; there are {}", names.join(", "))
    })
}

/// Sizes are not smaller than a head, and no single one matters.
const SIZES: (f64, f64) = (64.0, 64e6);
/// New objects that a session puts into one directory, on the average, and the share of directories that are new then: so that
/// one has 3.8 objects, as in Boston University's traces, and a session stays in it as long.
const PATHS: (f64, f64) = (2.5, 0.66);
/// Of a page.
const MOST_EMBEDDED: u64 = 200;

/// Makes requests without end; all follow from the seed.
pub struct Synthetic {
    like: Workload,
    seed: u64,
    random: Random,
    micros: f64,
    /// The one heard last first.
    sessions: Vec<Session>,
    /// What each server was asked for, by its number: objects or pages.
    past: HashMap<u64, Past>,
    /// How many objects there are, and those of them by their numbers that have to be known.
    made: u64,
    objects: Vec<Made>,
    /// If not all objects matter: which, and the last one that does not, which stands for all such.
    matters: Option<Matters>,
    other: u64,
    versions: HashMap<u64, u32>,
    /// How many directories each server has.
    directories: HashMap<u64, u32>,
    /// Of paths, so that they change nothing else.
    paths: Random,
    pages: Vec<Page>,
    world: Option<Box<World>>,
}

/// An object.
#[derive(Clone, Copy)]
struct Made {
    /// Of its server.
    directory: u32,
    /// The kind that it must have.
    kind: Option<u8>,
    asked: bool,
}

/// The page's own object, and those embedded in it.
struct Page(Vec<u64>);

struct Session {
    client: u64,
    server: u64,
    /// Where in the server's past the last repeat was found.
    at: Option<u64>,
    /// Where it puts new objects.
    directory: Option<u32>,
    /// What of a page it has still to ask for, what of all pages it has seen, and the page's own object.
    waiting: VecDeque<u64>,
    seen: Vec<u64>,
    page: Option<u64>,
}

impl Synthetic {
    pub fn new(like: &Workload, seed: u64) -> Synthetic {
        let mut made = Synthetic {
            like: *like,
            seed,
            random: Random::of(seed),
            micros: 0.0,
            sessions: Vec::new(),
            past: HashMap::new(),
            made: 0,
            objects: Vec::new(),
            matters: None,
            other: 0,
            versions: HashMap::new(),
            directories: HashMap::new(),
            paths: Random::of(mix(seed) ^ 1),
            pages: Vec::new(),
            world: None,
        };
        if let Which::World = like.which {
            // These settings are possible, and without end.
            let settings = world::Settings { days: 0, ..world::Settings::default() };
            made.world = World::new(settings, seed).ok().map(Box::new);
            return made;
        }
        made.sessions = (0..like.sessions).map(|_| made.begin()).collect();
        made
    }

    /// Before the first request: only objects for which this holds matter (`Requests::only`).
    pub fn only(&mut self, matters: Matters) {
        self.matters = Some(matters);
    }

    pub fn next(&mut self, access: &mut Access) {
        if let Some(world) = &mut self.world {
            while !world.next(access) && world.next_day().is_some() {}
            return;
        }
        access.clear();
        self.micros += self.random.exponential(1e6 / self.like.per_second);
        let depth = zipf(self.random.unit(), self.sessions.len() as u64, self.like.session_zipf) as usize;
        self.sessions[..=depth].rotate_right(1);
        let (object, again) = match self.like.which {
            Which::Pages { .. } => self.of_page(),
            Which::Server { .. } | Which::Popular(_) | Which::World => self.of_session(),
        };
        let Session { client, server, page, .. } = self.sessions[0];
        let version = if again { self.version(object) } else { 0 };
        let (size, cacheable) = self.kind(object);
        access.time = self.micros as u64;
        (access.client, access.server, access.object) = (client, self.server_of(object, server), object);
        access.page = page;
        access.directory = self.directory(object).map(|nth| mix(access.server) ^ mix(u64::from(nth) + 1));
        (access.size, access.dynamic) = (size, !cacheable);
        (access.status, access.method) = (200, Method::Get);
        access.modified = u64::from(version) + 1;
    }

    fn begin(&mut self) -> Session {
        let server = zipf(self.random.unit(), self.like.servers, self.like.server_zipf);
        let client = self.random.below(self.like.clients);
        Session {
            client,
            server,
            at: None,
            directory: None,
            waiting: VecDeque::new(),
            seen: Vec::new(),
            page: None,
        }
    }

    /// What the session that was heard last asks for, or the one that follows it; and whether it was asked for before.
    fn of_session(&mut self) -> (u64, bool) {
        if self.random.unit() < 1.0 / self.like.session_requests {
            self.sessions[0] = self.begin();
        }
        let server = self.sessions[0].server;
        let again = self.again(server);
        let object = match again {
            Some(object) => {
                self.sessions[0].directory = self.directory(object);
                object
            }
            None => self.make(server, None),
        };
        if let Which::Server { .. } = self.like.which {
            let known = self.matters(object).then_some(object);
            self.past.entry(server).or_default().push(known);
        }
        (object, again.is_some())
    }

    /// What is next of the page that the session views, or the first of another one; and whether it was asked for before.
    fn of_page(&mut self) -> (u64, bool) {
        loop {
            let session = &mut self.sessions[0];
            if let Some(object) = session.waiting.pop_front() {
                let asked = &mut self.objects[object as usize].asked;
                return (object, std::mem::replace(asked, true));
            }
            if self.random.unit() < 1.0 / self.like.session_requests {
                self.sessions[0] = self.begin();
            }
            let server = self.sessions[0].server;
            let page = self.page(server);
            self.past.entry(server).or_default().push(Some(page));
            let Session { waiting, seen, page: viewed, .. } = &mut self.sessions[0];
            *viewed = self.pages[page as usize].0.first().copied();
            for object in &self.pages[page as usize].0 {
                if !seen.contains(object) {
                    seen.push(*object);
                    waiting.push_back(*object);
                }
            }
        }
    }

    /// A page of a server: one viewed before, or a new one.
    fn page(&mut self, server: u64) -> u64 {
        let Which::Pages { popular, popularity, recency, embedded, shared } = self.like.which else {
            return 0;
        };
        let past = self.past.get(&server).map_or(0, Past::count);
        if past > 0 && self.random.unit() < self.like.repeats {
            let at = match self.random.unit() < popular {
                true => zipf(self.random.unit(), past, popularity),
                false => past - 1 - zipf(self.random.unit(), past, recency),
            };
            return self.past_page(server, at);
        }
        let count = (self.random.exponential(1.0 / (1.0 + 1.0 / embedded).ln())) as u64;
        let mut objects = vec![self.make(server, Some(0))];
        for _ in 0..count.min(MOST_EMBEDDED) {
            let other = (past > 0 && self.random.unit() < shared).then(|| {
                let nth = self.random.below(past);
                let page = self.past_page(server, nth);
                let others = &self.pages[page as usize].0[1..];
                (!others.is_empty()).then(|| others[self.random.below(others.len() as u64) as usize])
            });
            let object = match other.flatten() {
                Some(object) => object,
                None => {
                    let html = self.like.kinds[0].share;
                    let mut luck = html + (1.0 - html) * self.random.unit();
                    let kind = self.like.kinds.iter().position(|kind| {
                        luck -= kind.share;
                        luck < 0.0
                    });
                    self.make(server, Some(kind.unwrap_or(1).max(1) as u8))
                }
            };
            objects.push(object);
        }
        self.pages.push(Page(objects));
        self.pages.len() as u64 - 1
    }

    /// Pages are all known.
    fn past_page(&self, server: u64, nth: u64) -> u64 {
        self.past.get(&server).and_then(|past| past.get(nth)).unwrap_or(0)
    }

    fn matters(&self, object: u64) -> bool {
        self.matters.as_ref().is_none_or(|matters| matters(object))
    }

    /// Of its server; not told where only some objects matter.
    fn directory(&self, object: u64) -> Option<u32> {
        let told = self.matters.is_none();
        told.then(|| self.objects[object as usize].directory)
    }

    fn make(&mut self, server: u64, kind: Option<u8>) -> u64 {
        let object = self.made;
        self.made += 1;
        if !self.matters(object) {
            self.other = object;
        }
        // Paths follow from random numbers of their own: without them the rest is the same.
        if self.matters.is_none() {
            let directory = self.choose_directory(server);
            self.objects.push(Made { directory, kind, asked: false });
        } else if let Which::Pages { .. } = self.like.which {
            self.objects.push(Made { directory: 0, kind, asked: false });
        }
        object
    }

    /// For a new object: where the session is, or another one.
    fn choose_directory(&mut self, server: u64) -> u32 {
        let (run, new) = PATHS;
        let here = self.sessions[0].directory.filter(|_| self.paths.unit() >= 1.0 / run);
        let directory = here.unwrap_or_else(|| {
            let count = self.directories.entry(server).or_default();
            match *count > 0 && self.paths.unit() >= new {
                true => self.paths.below(u64::from(*count)) as u32,
                false => {
                    *count += 1;
                    *count - 1
                }
            }
        });
        self.sessions[0].directory = Some(directory);
        directory
    }

    /// What the session that was heard last asks for again, if it does; `other` where it does not matter.
    fn again(&mut self, server: u64) -> Option<u64> {
        let repeats = self.like.repeats;
        match self.like.which {
            Which::Popular(exponent) => {
                let count = self.made;
                let known = count > 0 && self.random.unit() < repeats;
                known.then(|| zipf(self.random.unit(), count, exponent))
            }
            Which::Server { popular, popularity, recency, run } => {
                let past = self.past.get(&server).filter(|past| past.count() > 0)?;
                let count = past.count();
                let before = self.sessions[0].at.take();
                let follows = before.map(|at| at + 1).filter(|at| *at < count);
                let at = match follows.filter(|_| self.random.unit() >= 1.0 / run) {
                    Some(at) => at,
                    // Runs are begun so that repeats are the share that they should be.
                    None if self.random.unit() >= repeats / (repeats + run * (1.0 - repeats)) => return None,
                    None if self.random.unit() < popular => zipf(self.random.unit(), count, popularity),
                    None => count - 1 - zipf(self.random.unit(), count, recency),
                };
                self.sessions[0].at = Some(at);
                Some(past.get(at).unwrap_or(self.other))
            }
            Which::Pages { .. } | Which::World => None,
        }
    }

    fn version(&mut self, object: u64) -> u32 {
        if self.random.unit() < self.like.changes && self.matters(object) {
            *self.versions.entry(object).or_default() += 1;
        }
        self.versions.get(&object).copied().unwrap_or(0)
    }

    /// An object keeps its server also when another's session asks for it.
    fn server_of(&self, object: u64, asked: u64) -> u64 {
        match self.like.which {
            Which::Server { .. } | Which::Pages { .. } | Which::World => asked,
            Which::Popular(_) => mix(object ^ mix(self.seed)) % self.like.servers,
        }
    }

    /// Bytes, and whether a cache may keep it: the same whenever it is asked for.
    fn kind(&self, object: u64) -> (u64, bool) {
        let mut random = Random::of(mix(object ^ mix(self.seed)));
        let mut luck = random.unit();
        let kind = self.like.kinds.iter().find(|kind| {
            luck -= kind.share;
            luck < 0.0
        });
        let made = self.objects.get(object as usize);
        let must = made.and_then(|made| made.kind).map(|kind| &self.like.kinds[usize::from(kind)]);
        let kind = must.or(kind).unwrap_or(&self.like.kinds[0]);
        let mut log_normal = |median: f64, sigma: f64| median * (sigma * random.normal()).exp();
        let size = match kind.size {
            Size::Exponential { mean } => random.exponential(mean),
            Size::LogNormal { median, sigma } => log_normal(median, sigma),
            Size::Cut { median, sigma, most } => {
                let tries = std::iter::repeat_with(|| log_normal(median, sigma));
                tries.take(100).find(|size| *size <= most).unwrap_or(most)
            }
        };
        (size.clamp(SIZES.0, SIZES.1) as u64, random.unit() < kind.cacheable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn some(name: &str, seed: u64, count: u64) -> Vec<Access> {
        let mut made = Synthetic::new(named(name).unwrap(), seed);
        let mut access = Access::default();
        let next = |_| {
            made.next(&mut access);
            access.clone()
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_seed_gives_the_same_again() {
        for like in &ALL {
            assert_eq!(some(like.name, 5, 2000), some(like.name, 5, 2000));
            assert_ne!(some(like.name, 5, 2000), some(like.name, 6, 2000));
        }
    }

    /// A sample of what is made is what is made of a sample, and little else is remembered.
    #[test]
    fn only_what_matters_is_the_same_as_all() {
        let matters = |object: u64| mix(object) % 100 < 3;
        for like in ALL.iter().filter(|like| !matches!(like.which, Which::World)) {
            let count = if like.name == "dec" { 1_000_000 } else { 100_000 };
            let (mut all, mut few) = (Synthetic::new(like, 4), Synthetic::new(like, 4));
            few.only(Box::new(matters));
            let (mut one, mut other) = (Access::default(), Access::default());
            let (mut met, mut bytes) = (0, (0, 0));
            for nth in 0..count {
                all.next(&mut one);
                few.next(&mut other);
                bytes = (bytes.0 + one.size, bytes.1 + other.size);
                assert_eq!((matters(one.object), one.time), (matters(other.object), other.time), "{nth}");
                if matters(one.object) {
                    met += 1;
                    one.directory = None;
                    assert_eq!(one, other, "{}: {nth}", like.name);
                }
            }
            assert!(met > count / 1000, "{}: {met}", like.name);
            let off = bytes.1 as f64 / bytes.0 as f64 - 1.0;
            // Sizes are heavy-tailed, and few objects are asked for most.
            assert!(off.abs() < 0.15, "{}: {off}", like.name);
            if !matches!(like.which, Which::Pages { .. }) {
                let remembered = few.past.values().map(Past::known).sum::<usize>() + few.objects.len();
                assert!(remembered <= met, "{}: {remembered} of {met}", like.name);
                assert!(few.versions.len() <= met && few.directories.is_empty());
            }
        }
    }

    #[test]
    fn an_object_keeps_its_size_server_and_path() {
        for like in ALL.iter().filter(|like| !matches!(like.which, Which::World)) {
            let mut known = HashMap::new();
            for access in some(like.name, 3, 5000) {
                let is = (access.size, access.server, access.directory);
                assert_eq!(*known.entry(access.object).or_insert(is), is, "{}", like.name);
                assert!(access.directory.is_some());
            }
        }
    }

    #[test]
    fn directories_are_as_full_as_in_real_traces() {
        for name in ["dec", "bu", "pages"] {
            let mut statistics = Statistics::default();
            some(name, 1, 100_000).iter().for_each(|access| statistics.count(access));
            let objects = statistics.objects_a_directory();
            assert!((3.0..4.6).contains(&objects), "{name}: {objects}");
        }
    }

    /// What is embedded follows its page, in the same session, before the next page.
    #[test]
    fn pages_come_whole() {
        let requests = some("pages", 2, 200_000);
        let mut statistics = Statistics::default();
        requests.iter().for_each(|access| statistics.count(access));
        for published in named("pages").unwrap().published {
            let (least, most) = published.value;
            let found = (published.of)(&statistics);
            assert!((0.7 * least..1.4 * most).contains(&found), "{}: {found}", published.what);
        }
        // A client's next request is mostly for the directory of the one before.
        let mut last: HashMap<u64, Option<u64>> = HashMap::new();
        let same =
            requests.iter().filter(|one| last.insert(one.client, one.directory) == Some(one.directory));
        let share = same.count() as f64 / requests.len() as f64;
        assert!((0.25..0.7).contains(&share), "{share}");
        // Of a page that its client has just asked for, or has seen.
        let pages: HashSet<u64> = requests.iter().filter_map(|one| one.page).collect();
        let own = requests.iter().filter(|one| one.page == Some(one.object)).count();
        let embedded = requests.iter().filter(|one| !pages.contains(&one.object)).count();
        assert!(own + embedded == requests.len() && embedded * 2 > own, "{own} {embedded}");
    }

    #[test]
    fn no_object_is_larger_than_the_cut() {
        let made = some("dec-small", 1, 50_000);
        assert!(made.iter().all(|access| access.size <= 35_000));
        let mean = made.iter().map(|access| access.size as f64).sum::<f64>() / made.len() as f64;
        assert!((5200.0..5700.0).contains(&mean), "{mean}");
    }

    #[test]
    fn foxys_table_3_holds() {
        let mut statistics = Statistics::default();
        some("foxy", 1, 100_000).iter().for_each(|access| statistics.count(access));
        assert!((4900.0..5400.0).contains(&statistics.mean_size()), "{}", statistics.mean_size());
        assert!((0.39..0.41).contains(&statistics.hit_ratio()), "{}", statistics.hit_ratio());
    }
}
