//! What the papers measured, to be measured again: each experiment is a row, and so is each figure that is published of it.

use crate::input::{From, Input};
use crate::recipe::{Scale, gets};
use crate::replay::Row;
use trace::synthetic;

/// Recipes that one trace is replayed through, as a paper did it.
#[derive(Clone, Copy)]
pub struct Experiment {
    pub name: &'static str,
    pub source: &'static str,
    /// The workload that stands for the paper's trace, and how many of its requests.
    pub like: &'static str,
    pub requests: u64,
    /// Bytes; larger objects are left out.
    pub largest: Option<u64>,
    pub warm_up: u64,
    pub medium: &'static str,
    /// Bytes of the two caches.
    pub memory: u64,
    pub disk: u64,
    pub utilization: f64,
    pub recipes: &'static [&'static str],
    pub figures: &'static [Figure],
}

/// A published figure.
pub struct Figure {
    pub what: &'static str,
    /// The least and the most that is published.
    pub published: (f64, f64),
    /// Of the experiment of this name.
    pub of: fn(&Found, &str) -> Option<f64>,
}

/// What was found, by experiment and recipe.
#[derive(Default)]
pub struct Found(pub Vec<(&'static str, Row)>);

impl Found {
    pub fn row(&self, experiment: &str, recipe: &str) -> Option<&Row> {
        let is = |(name, row): &&(&str, Row)| *name == experiment && row.recipe == recipe;
        self.0.iter().find(is).map(|(_, row)| row)
    }

    fn gets(&self, experiment: &str, recipe: &str) -> Option<f64> {
        self.row(experiment, recipe).map(|row| row.gets_per_second)
    }

    fn free_piece(&self, experiment: &str, recipe: &str) -> Option<f64> {
        Some(self.row(experiment, recipe)?.notes.get("free_piece_bytes")? / 1024.0)
    }

    fn deletions(&self, experiment: &str, recipe: &str) -> Option<f64> {
        self.row(experiment, recipe)?.notes.get("deletions").copied()
    }

    /// One recipe's figure for each of another's.
    fn ratio(&self, experiment: &str, one: &str, other: &str, of: fn(&Row) -> f64) -> Option<f64> {
        Some(of(self.row(experiment, one)?) / of(self.row(experiment, other)?))
    }
}

impl Experiment {
    pub fn input(&self, seed: u64) -> Result<Input, String> {
        let from = From::Made { like: synthetic::named(self.like)?, seed };
        Ok(Input { from, requests: Some(self.requests), largest: self.largest })
    }

    pub fn scale(&self) -> Scale {
        let Experiment { memory, disk, utilization, .. } = *self;
        Scale { memory, disk, utilization, ..Scale::default() }
    }
}

impl Figure {
    /// What is found over what is published: 1 within the published range.
    pub fn beside(&self, found: f64) -> f64 {
        let (least, most) = self.published;
        match found.clamp(least, most) {
            within if within == found => 1.0,
            nearest => found / nearest,
        }
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn transfers(row: &Row) -> f64 {
    (row.device_reads.unwrap_or(0) + row.device_writes.unwrap_or(0)) as f64
}

fn seconds(row: &Row) -> f64 {
    row.seconds
}

fn operations(row: &Row, kinds: &[&str]) -> f64 {
    kinds.iter().filter_map(|kind| row.operations.0.get(*kind)).sum::<u64>() as f64
}

const fn one(what: &'static str, published: f64, of: fn(&Found, &str) -> Option<f64>) -> Figure {
    Figure { what, published: (published, published), of }
}

const fn between(what: &'static str, published: (f64, f64), of: fn(&Found, &str) -> Option<f64>) -> Figure {
    Figure { what, published, of }
}

const FILES: &str = "table-2-files";
const TABLE_2: &str = "table-2";
const SMALL_FILES: &str = "table-2-files-small";
const SMALL: &str = "table-2-small";
const UNIFIED: &str = "unified";
const CHAPTER_4: &str = "maltzahn-4";
const TABLE_5_1: &str = "maltzahn-5.1";
const TABLE_5_2: &str = "maltzahn-5.2";

/// What is published of one file for each object.
const FILES_FIGURES: &[Figure] = &[
    one("simple, gets/s", 18.0, |found, here| found.gets(here, "simple")),
    one("squid, gets/s", 27.0, |found, here| found.gets(here, "squid")),
    one("multiple-dirs, gets/s", 31.0, |found, here| found.gets(here, "multiple-dirs")),
    one("URL reads, writes and deletions", 300_000.0, |found, here| {
        let row = found.row(here, "squid")?;
        Some((row.outcomes.disk_hits + row.outcomes.stored) as f64 + found.deletions(here, "squid")?)
    }),
];

/// What is published of the others, and of what they were asked.
const TABLE_2_FIGURES: &[Figure] = &[
    one("buddy, gets/s", gets(133.0), |found, here| found.gets(here, "buddy")),
    one("stream, gets/s", gets(295.0), |found, here| found.gets(here, "stream")),
    one("stream-packetizer, gets/s", gets(358.0), |found, here| found.gets(here, "stream-packetizer")),
    one("lazy-reads, gets/s", gets(396.0), |found, here| found.gets(here, "lazy-reads")),
    one("stream-loc, gets/s", gets(460.0), |found, here| found.gets(here, "stream-loc")),
    one("lazy-reads-loc, gets/s", gets(495.0), |found, here| found.gets(here, "lazy-reads-loc")),
    one("seconds, lazy-reads over stream-packetizer", 0.906, |found, here| {
        found.ratio(here, "lazy-reads", "stream-packetizer", seconds)
    }),
    one("seconds, stream-loc over stream-packetizer", 0.780, |found, here| {
        found.ratio(here, "stream-loc", "stream-packetizer", seconds)
    }),
    one("seconds, lazy-reads-loc over stream-packetizer", 0.728, |found, here| {
        found.ratio(here, "lazy-reads-loc", "stream-packetizer", seconds)
    }),
    one("stream, KB of a free piece at the end", 65.0, |found, here| found.free_piece(here, "stream")),
    one("stream-loc, KB of a free piece at the end", 145.0, |found, here| {
        found.free_piece(here, "stream-loc")
    }),
    one("lazy-reads-loc over squid, gets/s", 19.4, |found, here| {
        Some(found.gets(here, "lazy-reads-loc")? / found.gets(files_beside(here), "squid")?)
    }),
    one("URL reads", 42_085.0, |found, here| {
        found.row(here, "stream").map(|row| row.outcomes.disk_hits as f64)
    }),
    one("URL writes", 678_040.0, |found, here| {
        found.row(here, "stream").map(|row| row.outcomes.stored as f64)
    }),
    one("URL deletions", 279_875.0, |found, here| found.deletions(here, "stream")),
    one("hits in memory", 336_081.0, |found, here| {
        found.row(here, "stream").map(|row| row.outcomes.memory_hits as f64)
    }),
    one("GB of URL reads and writes", 7.6, |found, here| {
        found.row(here, "stream").map(|row| row.outcomes.moved_bytes as f64 / 1e9)
    }),
    one("GB that the disk moves for lazy-reads-loc", 7.6, |found, here| {
        let row = found.row(here, "lazy-reads-loc")?;
        Some((row.device_bytes_read? + row.device_bytes_written?) as f64 / 1e9)
    }),
    one("lazy-reads-loc, seconds", 2031.0, |found, here| found.row(here, "lazy-reads-loc").map(seconds)),
];

/// The experiment with one file for each object that belongs to one of Table 2.
fn files_beside(experiment: &str) -> &'static str {
    if experiment == SMALL { SMALL_FILES } else { FILES }
}

pub const ALL: &[Experiment] = &[
    Experiment {
        name: FILES,
        source: "USITS99 and WebCoSM, Table 2: a file for each object",
        like: "dec",
        requests: 398_034,
        largest: None,
        warm_up: 0,
        medium: "st15150w",
        memory: 512 * MIB,
        disk: GIB,
        utilization: 0.71,
        recipes: &["simple", "squid", "multiple-dirs"],
        figures: FILES_FIGURES,
    },
    Experiment {
        name: TABLE_2,
        source: "USITS99, Tables 1 and 2; WebCoSM, Table 2 and Figure 14",
        like: "dec",
        requests: 1_058_206,
        largest: None,
        warm_up: 0,
        medium: "st15150w",
        memory: 512 * MIB,
        disk: 2 * GIB,
        utilization: 0.71,
        recipes: &["buddy", "stream", "stream-packetizer", "lazy-reads", "stream-loc", "lazy-reads-loc"],
        figures: TABLE_2_FIGURES,
    },
    Experiment {
        name: SMALL_FILES,
        source: "USITS99 and WebCoSM, Table 2: a file for each object; objects of 5.4 KB",
        like: "dec-small",
        requests: 398_034,
        largest: None,
        warm_up: 0,
        medium: "st15150w",
        memory: 512 * MIB,
        disk: GIB,
        utilization: 0.71,
        recipes: &["simple", "squid", "multiple-dirs"],
        figures: FILES_FIGURES,
    },
    Experiment {
        name: SMALL,
        source: "USITS99, Tables 1 and 2; WebCoSM, Table 2 and Figure 14; objects of 5.4 KB",
        like: "dec-small",
        requests: 1_058_206,
        largest: None,
        warm_up: 0,
        medium: "st15150w",
        memory: 512 * MIB,
        disk: 2 * GIB,
        utilization: 0.71,
        recipes: &["buddy", "stream", "stream-packetizer", "lazy-reads", "stream-loc", "lazy-reads-loc"],
        figures: TABLE_2_FIGURES,
    },
    Experiment {
        name: UNIFIED,
        source: "Chang and Lai, Tables 1 and 2",
        like: "polymix",
        requests: 500_000,
        largest: None,
        // Until the disk is full; it has a twentieth of the papers' bytes, and so has memory.
        warm_up: 250_000,
        medium: "st15150w",
        memory: 5 * MIB,
        disk: 512 * MIB,
        utilization: 0.71,
        recipes: &["squid-2.4", "unified"],
        figures: &[
            one("read operations, unified over squid", 0.50, |found, here| {
                found.ratio(here, "unified", "squid-2.4", |row| operations(row, &["read"]))
            }),
            one("write operations, unified over squid", 0.37, |found, here| {
                found.ratio(here, "unified", "squid-2.4", |row| operations(row, &["write"]))
            }),
            one("open, close and unlink, unified over squid", 0.0, |found, here| {
                let of = |row: &Row| operations(row, &["create", "open", "close", "unlink"]);
                found.ratio(here, "unified", "squid-2.4", of)
            }),
        ],
    },
    Experiment {
        name: CHAPTER_4,
        source: "Maltzahn, Section 4.4 and Figure 4.6",
        like: "dec-days",
        requests: 522_376 + 495_664,
        largest: None,
        warm_up: 522_376,
        medium: "alphastation-250",
        memory: 0,
        // They had room for all.
        disk: 8 * GIB,
        utilization: 0.71,
        recipes: &["cern", "squid", "squidl", "squidm", "squidml", "squidmla"],
        figures: &[
            between("disk transfers, cern over squid", (0.8, 1.2), |found, here| {
                found.ratio(here, "cern", "squid", transfers)
            }),
            one("disk transfers, squidl over squid", 0.5, |found, here| {
                found.ratio(here, "squidl", "squid", transfers)
            }),
            one("disk transfers, squidm over squid", 0.4, |found, here| {
                found.ratio(here, "squidm", "squid", transfers)
            }),
            between("disk transfers, squidml over squid", (0.2, 0.3), |found, here| {
                found.ratio(here, "squidml", "squid", transfers)
            }),
            between("disk transfers, squidmla over squid", (0.2, 0.3), |found, here| {
                found.ratio(here, "squidmla", "squid", transfers)
            }),
            one("hits in the first quarter of the mapped file", 0.7, |found, here| {
                found.row(here, "squidml")?.notes.get("hits_in_first_quarter").copied()
            }),
        ],
    },
    Experiment {
        name: TABLE_5_1,
        source: "Maltzahn, Table 5.1",
        like: "dec-days",
        requests: 522_376 + 495_664,
        largest: Some(8192),
        warm_up: 522_376,
        medium: "alphastation-3000",
        memory: 0,
        disk: 160 * MIB,
        // The file is the cache.
        utilization: 1.0,
        recipes: &["lru", "fbc", "future"],
        figures: &[
            one("lru, hit ratio", 0.47, |found, here| Some(found.row(here, "lru")?.hit_ratio)),
            one("fbc, hit ratio", 0.48, |found, here| Some(found.row(here, "fbc")?.hit_ratio)),
            one("future, hit ratio", 0.56, |found, here| Some(found.row(here, "future")?.hit_ratio)),
            one("lru, disk transfers", 364_617.0, |found, here| found.row(here, "lru").map(transfers)),
            one("fbc, disk transfers", 323_563.0, |found, here| found.row(here, "fbc").map(transfers)),
            one("future, disk transfers", 70_351.0, |found, here| found.row(here, "future").map(transfers)),
            one("disk transfers, fbc over lru", 0.887, |found, here| {
                found.ratio(here, "fbc", "lru", transfers)
            }),
            one("disk transfers, future over lru", 0.193, |found, here| {
                found.ratio(here, "future", "lru", transfers)
            }),
            one("seconds, fbc over lru", 0.709, |found, here| found.ratio(here, "fbc", "lru", seconds)),
            one("seconds, future over lru", 0.232, |found, here| found.ratio(here, "future", "lru", seconds)),
            one("lru, seconds", 9371.0, |found, here| found.row(here, "lru").map(seconds)),
            one("fbc, seconds", 6646.0, |found, here| found.row(here, "fbc").map(seconds)),
            one("future, seconds", 2171.0, |found, here| found.row(here, "future").map(seconds)),
        ],
    },
    Experiment {
        name: TABLE_5_2,
        source: "Maltzahn, Table 5.2",
        like: "dec-days",
        requests: 522_376 + 495_664,
        largest: Some(8192),
        // Until half past four in the second morning.
        warm_up: 604_400,
        medium: "alphastation-3000",
        memory: 0,
        disk: 160 * MIB,
        // The file is the cache.
        utilization: 1.0,
        recipes: &["fbc", "fbc-c"],
        figures: &[
            one("disk transfers, fbc-c over fbc", 0.984, |found, here| {
                found.ratio(here, "fbc-c", "fbc", transfers)
            }),
            one("seconds, fbc-c over fbc", 0.988, |found, here| found.ratio(here, "fbc-c", "fbc", seconds)),
        ],
    },
];

/// The experiments of these names, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Experiment>, String> {
    crate::rows_named(names, ALL, |experiment| experiment.name, "experiment")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe;

    #[test]
    fn experiments_name_what_there_is() {
        for experiment in ALL {
            experiment.input(1).unwrap().open().unwrap();
            for name in experiment.recipes {
                recipe::named(&[(*name).to_owned()]).unwrap();
            }
            assert!(
                experiment
                    .figures
                    .iter()
                    .all(|figure| (figure.of)(&Found::default(), experiment.name).is_none())
            );
        }
        assert!(named(&["nothing".into()]).is_err_and(|why| why.contains("table-2")));
    }

    #[test]
    fn a_figure_within_the_published_range_is_that() {
        let figure = between("", (2.0, 4.0), |_, _| None);
        assert_eq!([1.0, 2.0, 3.0, 8.0].map(|found| figure.beside(found)), [0.5, 1.0, 1.0, 2.0]);
        assert_eq!(one("", 0.0, |_, _| None).beside(0.0), 1.0);
    }
}
