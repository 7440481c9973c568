//! Workloads made up so that what is published of real ones holds of them: a row of numbers each.
//!
//! Requests come from sessions that interleave: each asks one server for a while. Which session is next follows how
//! lately it was heard, which gives the locality of server names (Maltzahn, Figure 4.2). A session asks for
//! something new, or for what was asked for before: of its server, at a distance in the server's past that is even on a
//! logarithmic scale, so that hits grow with the logarithm of the cache; or of all, by Zipf's law.

use crate::chance::{Chance, mix, zipf};
use crate::statistics::Statistics;
use crate::{Access, Method};
use std::collections::HashMap;

/// What a workload is like.
#[derive(Clone, Copy, Debug)]
pub struct Like {
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
    /// At a time, and requests of each on the average.
    pub sessions: usize,
    pub session_requests: f64,
    /// Exponent of how lately the next session was heard.
    pub session_zipf: f64,
    /// Share of the requests that ask for something again.
    pub repeats: f64,
    pub which: Which,
    /// Share of the repeats that find a new version.
    pub changes: f64,
    pub kinds: &'static [Kind],
    /// What is published of the traces it stands for.
    pub published: &'static [Published],
}

/// A figure of real traces, to stand beside one of a workload made up.
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
}

/// A kind of object.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
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
}

pub const ALL: [Like; 5] = [
    Like {
        name: "dec",
        about: "Digital's proxy of 1996 as WebCoSM (Table 1), USITS99 and Maltzahn (Chapter 4) describe it",
        requests: 1_058_206,
        per_second: 12.0,
        clients: 10_000,
        servers: 30_000,
        server_zipf: 0.85,
        sessions: 42,
        session_requests: 14.0,
        session_zipf: 1.17,
        repeats: 0.505,
        which: Which::Server { popular: 0.6, popularity: 1.4, recency: 1.6, run: 4.0 },
        changes: 0.15,
        kinds: &[Kind { share: 1.0, size: Size::LogNormal { median: 3000.0, sigma: 1.56 }, cacheable: 1.0 }],
        published: &[
            Published {
                what: "median size, bytes",
                value: (3072.0, 3072.0),
                source: "USITS99 1",
                of: Statistics::median_size,
            },
            Published {
                what: "requests of at most 8 KB",
                value: (0.74, 0.74),
                source: "Maltzahn 4.1.1",
                of: Statistics::share_to_8k,
            },
            Published {
                what: "Zipf exponent",
                value: (0.64, 0.83),
                source: "Maltzahn 4.1.1",
                of: Statistics::zipf_exponent,
            },
            Published {
                what: "objects asked for more than once",
                value: (0.22, 0.22),
                source: "Douglis and others, USITS 1997",
                of: Statistics::repeated_ratio,
            },
            Published {
                what: "requests for those that find them changed",
                value: (0.13, 0.13),
                source: "Douglis and others, USITS 1997",
                of: Statistics::changed_ratio,
            },
            Published {
                what: "requests for one of the last 2 servers",
                value: (0.34, 0.34),
                source: "Maltzahn, Figure 4.2",
                of: |statistics| statistics.server_locality(2),
            },
            Published {
                what: "requests for one of the last 5 servers",
                value: (0.5, 0.5),
                source: "Maltzahn, Figure 4.2",
                of: |statistics| statistics.server_locality(5),
            },
        ],
    },
    Like {
        name: "dec-days",
        about: "two weekdays of one of Digital's two proxies, what is not cacheable left out (Maltzahn 4.3)",
        requests: 522_376 + 495_664,
        per_second: 5.891,
        clients: 10_000,
        servers: 30_000,
        server_zipf: 0.85,
        sessions: 42,
        session_requests: 14.0,
        session_zipf: 1.17,
        repeats: 0.62,
        which: Which::Server { popular: 0.6, popularity: 1.4, recency: 1.6, run: 4.0 },
        changes: 0.0,
        kinds: &[Kind { share: 1.0, size: Size::LogNormal { median: 3000.0, sigma: 1.56 }, cacheable: 1.0 }],
        published: &[
            Published {
                what: "hits of an infinite cache",
                value: (0.59, 0.59),
                source: "Maltzahn 4.3",
                of: Statistics::hit_ratio,
            },
            Published {
                what: "requests of at most 8 KB",
                value: (0.74, 0.74),
                source: "Maltzahn 4.1.1",
                of: Statistics::share_to_8k,
            },
        ],
    },
    Like {
        name: "bu",
        about: "Boston University's browsers of 1995, as a shared cache would have seen them",
        requests: 290_284,
        per_second: 0.02,
        clients: 600,
        servers: 8_000,
        server_zipf: 0.9,
        sessions: 10,
        session_requests: 9.0,
        session_zipf: 1.0,
        repeats: 0.72,
        which: Which::Server { popular: 0.6, popularity: 1.2, recency: 1.15, run: 5.0 },
        changes: 0.01,
        kinds: &[Kind { share: 1.0, size: Size::LogNormal { median: 3000.0, sigma: 1.7 }, cacheable: 1.0 }],
        published: &[
            Published {
                what: "hits without bounds",
                value: (0.626, 0.626),
                source: "the trace itself",
                of: Statistics::hit_ratio,
            },
            Published {
                what: "bytes of hits without bounds",
                value: (0.435, 0.435),
                source: "the trace itself",
                of: Statistics::byte_hit_ratio,
            },
        ],
    },
    Like {
        name: "foxy",
        about: "WebCoSM's Table 3: Zipf 0.6, exponential sizes of 5 KB, 40 % repeats, 100 clients, 4 servers",
        requests: 1_000_000,
        per_second: 340.0,
        clients: 100,
        servers: 4,
        server_zipf: 0.0,
        sessions: 100,
        session_requests: 1e9,
        session_zipf: 1.0,
        repeats: 0.4,
        which: Which::Popular(0.6),
        changes: 0.0,
        kinds: &[Kind { share: 1.0, size: Size::Exponential { mean: 5120.0 }, cacheable: 1.0 }],
        published: &[
            Published {
                what: "hits",
                value: (0.4, 0.4),
                source: "WebCoSM, Table 3",
                of: Statistics::hit_ratio,
            },
            Published {
                what: "mean size, bytes",
                value: (5120.0, 5120.0),
                source: "WebCoSM, Table 3",
                of: Statistics::mean_size,
            },
        ],
    },
    Like {
        name: "polymix",
        about: "like Web Polygraph's PolyMix-3: four kinds of content, a fifth of it not for caches",
        requests: 1_000_000,
        per_second: 170.0,
        clients: 5_000,
        servers: 500,
        server_zipf: 0.0,
        sessions: 500,
        session_requests: 20.0,
        session_zipf: 1.0,
        repeats: 0.72,
        which: Which::Popular(0.6),
        changes: 0.005,
        kinds: &[
            Kind { share: 0.65, size: Size::Exponential { mean: 4608.0 }, cacheable: 0.8 },
            Kind { share: 0.15, size: Size::Exponential { mean: 8704.0 }, cacheable: 0.9 },
            Kind { share: 0.005, size: Size::LogNormal { median: 217_000.0, sigma: 0.83 }, cacheable: 0.95 },
            Kind { share: 0.195, size: Size::LogNormal { median: 23_800.0, sigma: 0.385 }, cacheable: 0.72 },
        ],
        published: &[],
    },
];

/// The workload of this name; an error lists all.
pub fn named(name: &str) -> Result<&'static Like, String> {
    ALL.iter().find(|like| like.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|like| like.name).collect();
        format!("there is no workload `{name}`; there are {}", names.join(", "))
    })
}

/// Sizes are not smaller than a head, and no single one matters.
const SIZES: (f64, f64) = (64.0, 64e6);

/// Makes requests without end; all follow from the seed.
pub struct Synthetic {
    like: Like,
    seed: u64,
    chance: Chance,
    micros: f64,
    /// The one heard last first.
    sessions: Vec<Session>,
    /// What each server was asked for, by its number.
    past: HashMap<u64, Vec<u64>>,
    objects: u64,
    versions: HashMap<u64, u32>,
}

#[derive(Clone, Copy)]
struct Session {
    client: u64,
    server: u64,
    /// Where in the server's past the last repeat was found.
    at: Option<usize>,
}

impl Synthetic {
    pub fn new(like: &Like, seed: u64) -> Synthetic {
        let mut made = Synthetic {
            like: *like,
            seed,
            chance: Chance::of(seed),
            micros: 0.0,
            sessions: Vec::new(),
            past: HashMap::new(),
            objects: 0,
            versions: HashMap::new(),
        };
        made.sessions = (0..like.sessions).map(|_| made.begin()).collect();
        made
    }

    pub fn next(&mut self, access: &mut Access) {
        access.clear();
        self.micros += self.chance.exponential(1e6 / self.like.per_second);
        let depth = zipf(self.chance.unit(), self.sessions.len() as u64, self.like.session_zipf) as usize;
        self.sessions[..=depth].rotate_right(1);
        if self.chance.unit() < 1.0 / self.like.session_requests {
            self.sessions[0] = self.begin();
        }
        let Session { client, server, .. } = self.sessions[0];
        let again = self.again(server);
        let object = again.unwrap_or_else(|| {
            self.objects += 1;
            self.objects - 1
        });
        let version = if again.is_some() { self.version(object) } else { 0 };
        if let Which::Server { .. } = self.like.which {
            self.past.entry(server).or_default().push(object);
        }
        let (size, cacheable) = self.kind(object);
        access.time = self.micros as u64;
        (access.client, access.server, access.object) = (client, self.server_of(object, server), object);
        (access.size, access.dynamic) = (size, !cacheable);
        (access.status, access.method) = (200, Method::Get);
        access.modified = u64::from(version) + 1;
    }

    fn begin(&mut self) -> Session {
        let server = zipf(self.chance.unit(), self.like.servers, self.like.server_zipf);
        Session { client: self.chance.below(self.like.clients), server, at: None }
    }

    /// What the session that was heard last asks for again, if it does.
    fn again(&mut self, server: u64) -> Option<u64> {
        let repeats = self.like.repeats;
        match self.like.which {
            Which::Popular(exponent) => {
                let known = self.objects > 0 && self.chance.unit() < repeats;
                known.then(|| zipf(self.chance.unit(), self.objects, exponent))
            }
            Which::Server { popular, popularity, recency, run } => {
                let past = self.past.get(&server).filter(|past| !past.is_empty())?;
                let count = past.len() as u64;
                let before = self.sessions[0].at.take();
                let follows = before.map(|at| at + 1).filter(|at| *at < past.len());
                let at = match follows.filter(|_| self.chance.unit() >= 1.0 / run) {
                    Some(at) => at,
                    // Runs are begun so that repeats are the share that they should be.
                    None if self.chance.unit() >= repeats / (repeats + run * (1.0 - repeats)) => return None,
                    None if self.chance.unit() < popular => {
                        zipf(self.chance.unit(), count, popularity) as usize
                    }
                    None => (count - 1 - zipf(self.chance.unit(), count, recency)) as usize,
                };
                self.sessions[0].at = Some(at);
                Some(past[at])
            }
        }
    }

    fn version(&mut self, object: u64) -> u32 {
        if self.chance.unit() < self.like.changes {
            *self.versions.entry(object).or_default() += 1;
        }
        self.versions.get(&object).copied().unwrap_or(0)
    }

    /// An object keeps its server also when another's session asks for it.
    fn server_of(&self, object: u64, asked: u64) -> u64 {
        match self.like.which {
            Which::Server { .. } => asked,
            Which::Popular(_) => mix(object ^ mix(self.seed)) % self.like.servers,
        }
    }

    /// Bytes, and whether a cache may keep it: the same whenever it is asked for.
    fn kind(&self, object: u64) -> (u64, bool) {
        let mut chance = Chance::of(mix(object ^ mix(self.seed)));
        let mut luck = chance.unit();
        let kind = self.like.kinds.iter().find(|kind| {
            luck -= kind.share;
            luck < 0.0
        });
        let kind = kind.unwrap_or(&self.like.kinds[0]);
        let size = match kind.size {
            Size::Exponential { mean } => chance.exponential(mean),
            Size::LogNormal { median, sigma } => median * (sigma * chance.normal()).exp(),
        };
        (size.clamp(SIZES.0, SIZES.1) as u64, chance.unit() < kind.cacheable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn an_object_keeps_its_size_and_server() {
        for like in &ALL {
            let mut known = HashMap::new();
            for access in some(like.name, 3, 5000) {
                let first = known.entry(access.object).or_insert((access.size, access.server));
                assert_eq!(*first, (access.size, access.server), "{}", like.name);
            }
        }
    }

    #[test]
    fn foxys_table_3_holds() {
        let mut statistics = Statistics::default();
        some("foxy", 1, 100_000).iter().for_each(|access| statistics.count(access));
        assert!((4900.0..5400.0).contains(&statistics.mean_size()), "{}", statistics.mean_size());
        assert!((0.39..0.41).contains(&statistics.hit_ratio()), "{}", statistics.hit_ratio());
    }
}
