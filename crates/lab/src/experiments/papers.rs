//! What the papers measured, to be measured again: each experiment is a row, and so is each figure that is published of it.

use crate::input::{From, Input};
use crate::replay::Row;
use crate::results::Run;
use crate::scale::Scale;
use trace::{Access, Requests, synthetic};

/// Recipes that one trace is replayed through, as a paper did it.
#[derive(Clone, Copy)]
pub struct Experiment {
    pub name: &'static str,
    pub source: &'static str,
    /// The synthetic workload that stands for the paper's trace, and how many of its requests.
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
    pub quantities: &'static [Quantity],
}

/// A published number, and how it is measured here.
pub struct Quantity {
    pub what: &'static str,
    /// The least and the most that is published.
    pub published: (f64, f64),
    /// Of one recipe to another, so that it may be held against another trace than the paper's own.
    pub is_ratio: bool,
    /// Of the experiment of this name.
    pub of: fn(&Found, &str) -> Option<f64>,
}

/// What is replayed where a paper replayed its own trace.
pub enum StandIn {
    /// The synthetic one that the experiment names.
    Synthetic { seed: u64 },
    /// Another trace, and how many requests it has.
    Trace { input: Input, requests: u64 },
}

impl StandIn {
    /// Reads the trace once, to count its requests.
    pub fn trace(input: Input) -> Result<StandIn, String> {
        let (mut reading, mut access) = (input.open()?, Access::default());
        while reading.next(&mut access)? {}
        reading.check()?;
        Ok(StandIn::Trace { requests: reading.read, input })
    }

    pub fn is_synthetic(&self) -> bool {
        matches!(self, StandIn::Synthetic { .. })
    }
}

/// What was found, by experiment and recipe.
#[derive(Default)]
pub struct Found(pub Vec<(&'static str, Row)>);

impl Found {
    pub fn row(&self, experiment: &str, recipe: &str) -> Option<&Row> {
        let is = |(name, row): &&(&str, Row)| *name == experiment && row.recipe == recipe;
        self.0.iter().find(is).map(|(_, row)| row)
    }

    /// Of an experiment, in the order of its recipes.
    pub fn rows(&self, experiment: &Experiment) -> Vec<&Row> {
        experiment.recipes.iter().filter_map(|recipe| self.row(experiment.name, recipe)).collect()
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
    pub fn input(&self, stand_in: &StandIn) -> Result<Input, String> {
        let (from, requests) = match stand_in {
            StandIn::Synthetic { seed } => {
                (From::Synthetic { like: synthetic::named(self.like)?, seed: *seed }, self.requests)
            }
            StandIn::Trace { input, requests } => (input.from.clone(), self.requests.min(*requests)),
        };
        Ok(Input { from, requests: Some(requests), largest: self.largest })
    }

    /// The share of the paper's requests that a stand-in has, 1 at most. All that is counted in bytes or requests is as much
    /// smaller.
    pub fn part(&self, stand_in: &StandIn) -> f64 {
        match stand_in {
            StandIn::Synthetic { .. } => 1.0,
            StandIn::Trace { requests, .. } => (*requests as f64 / self.requests as f64).min(1.0),
        }
    }

    pub fn warm_up(&self, stand_in: &StandIn) -> u64 {
        (self.warm_up as f64 * self.part(stand_in)) as u64
    }

    pub fn scale(&self, stand_in: &StandIn) -> Scale {
        let bytes = |bytes: u64| (bytes as f64 * self.part(stand_in)) as u64;
        let (memory, disk) = (bytes(self.memory), bytes(self.disk));
        Scale { memory, disk, utilization: self.utilization, ..Scale::default() }
    }

    /// Whether it differs from another in nothing but the synthetic workload: on one trace they are the same.
    fn is_alike(&self, other: &Experiment) -> bool {
        let what = |one: &Experiment| {
            (one.requests, one.largest, one.warm_up, one.medium, one.memory, one.disk, one.recipes)
        };
        what(self) == what(other) && self.utilization == other.utilization
    }
}

/// The experiments that a stand-in tells apart, in their order.
pub fn distinct(experiments: Vec<Experiment>, stand_in: &StandIn) -> Vec<Experiment> {
    let is_new = |nth: usize| !experiments[..nth].iter().any(|other| other.is_alike(&experiments[nth]));
    let kept = (0..experiments.len()).filter(|nth| stand_in.is_synthetic() || is_new(*nth));
    kept.map(|nth| experiments[nth]).collect()
}

/// The speed that a paper publishes for a row, gets a second: where the run is one of the experiments.
pub fn published_speed(run: &Run, row: &Row) -> Option<f64> {
    let what = format!("{}, gets/s", row.recipe);
    let is_run = |experiment: &&Experiment| {
        run.asked.like() == Some(experiment.like)
            && (run.asked.warm_up, run.asked.largest) == (experiment.warm_up, experiment.largest)
            && row.gets == experiment.requests
            && row.medium == experiment.medium
            && run.scale == experiment.scale(&StandIn::Synthetic { seed: 0 })
    };
    let quantities = ALL.iter().filter(is_run).flat_map(|experiment| experiment.quantities);
    quantities.into_iter().find(|quantity| quantity.what == what).map(|quantity| quantity.published.0)
}

impl Quantity {
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

/// Gets a second of what Table 2 counts from BUDDY on: reads, writes and deletions, of which 1,058,206 gets caused a million
/// (USITS99, Tables 1 and 2).
const fn gets(operations: f64) -> f64 {
    operations * 1.058_206
}

const fn one(what: &'static str, published: f64, of: fn(&Found, &str) -> Option<f64>) -> Quantity {
    Quantity { what, published: (published, published), is_ratio: false, of }
}

const fn ratio(what: &'static str, published: f64, of: fn(&Found, &str) -> Option<f64>) -> Quantity {
    ratio_between(what, (published, published), of)
}

const fn ratio_between(
    what: &'static str,
    published: (f64, f64),
    of: fn(&Found, &str) -> Option<f64>,
) -> Quantity {
    Quantity { what, published, is_ratio: true, of }
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
const FILES_QUANTITIES: &[Quantity] = &[
    one("simple, gets/s", 18.0, |found, here| found.gets(here, "simple")),
    one("squid, gets/s", 27.0, |found, here| found.gets(here, "squid")),
    one("multiple-dirs, gets/s", 31.0, |found, here| found.gets(here, "multiple-dirs")),
    one("URL reads, writes and deletions", 300_000.0, |found, here| {
        let row = found.row(here, "squid")?;
        Some((row.outcomes.disk_hits + row.outcomes.stored) as f64 + found.deletions(here, "squid")?)
    }),
];

/// What is published of the others, and of what they were asked.
const TABLE_2_QUANTITIES: &[Quantity] = &[
    one("buddy, gets/s", gets(133.0), |found, here| found.gets(here, "buddy")),
    one("stream, gets/s", gets(295.0), |found, here| found.gets(here, "stream")),
    one("stream-packetizer, gets/s", gets(358.0), |found, here| found.gets(here, "stream-packetizer")),
    one("lazy-reads, gets/s", gets(396.0), |found, here| found.gets(here, "lazy-reads")),
    one("stream-loc, gets/s", gets(460.0), |found, here| found.gets(here, "stream-loc")),
    one("lazy-reads-loc, gets/s", gets(495.0), |found, here| found.gets(here, "lazy-reads-loc")),
    ratio("seconds, lazy-reads over stream-packetizer", 0.906, |found, here| {
        found.ratio(here, "lazy-reads", "stream-packetizer", seconds)
    }),
    ratio("seconds, stream-loc over stream-packetizer", 0.780, |found, here| {
        found.ratio(here, "stream-loc", "stream-packetizer", seconds)
    }),
    ratio("seconds, lazy-reads-loc over stream-packetizer", 0.728, |found, here| {
        found.ratio(here, "lazy-reads-loc", "stream-packetizer", seconds)
    }),
    one("stream, KB of a free piece at the end", 65.0, |found, here| found.free_piece(here, "stream")),
    one("stream-loc, KB of a free piece at the end", 145.0, |found, here| {
        found.free_piece(here, "stream-loc")
    }),
    ratio("lazy-reads-loc over squid, gets/s", 19.4, |found, here| {
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

/// Table 2, one file for each object, with a workload.
const fn table_2_files(name: &'static str, source: &'static str, like: &'static str) -> Experiment {
    Experiment {
        name,
        source,
        like,
        requests: 398_034,
        largest: None,
        warm_up: 0,
        medium: "st15150w",
        memory: 512 * MIB,
        disk: GIB,
        utilization: 0.71,
        recipes: &["simple", "squid", "multiple-dirs"],
        quantities: FILES_QUANTITIES,
    }
}

/// Table 2, the others: of the same machine.
const fn table_2(name: &'static str, source: &'static str, like: &'static str) -> Experiment {
    Experiment {
        requests: 1_058_206,
        disk: 2 * GIB,
        recipes: &["buddy", "stream", "stream-packetizer", "lazy-reads", "stream-loc", "lazy-reads-loc"],
        quantities: TABLE_2_QUANTITIES,
        ..table_2_files(name, source, like)
    }
}

/// Maltzahn's Chapter 5: objects up to 8 KB in one mapped file, which is the cache.
const MAPPED: Experiment = Experiment {
    name: "",
    source: "",
    like: "dec-days",
    requests: 522_376 + 495_664,
    largest: Some(8192),
    warm_up: 522_376,
    medium: "alphastation-3000",
    memory: 0,
    disk: 160 * MIB,
    utilization: 1.0,
    recipes: &[],
    quantities: &[],
};

pub const ALL: &[Experiment] = &[
    table_2_files(FILES, "USITS99 and WebCoSM, Table 2: a file for each object", "dec"),
    table_2(TABLE_2, "USITS99, Tables 1 and 2; WebCoSM, Table 2 and Figure 14", "dec"),
    table_2_files(
        SMALL_FILES,
        "USITS99 and WebCoSM, Table 2: a file for each object; objects of 5.4 KB",
        "dec-small",
    ),
    table_2(SMALL, "USITS99, Tables 1 and 2; WebCoSM, Table 2 and Figure 14; objects of 5.4 KB", "dec-small"),
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
        quantities: &[
            ratio("read operations, unified over squid", 0.50, |found, here| {
                found.ratio(here, "unified", "squid-2.4", |row| operations(row, &["read"]))
            }),
            ratio("write operations, unified over squid", 0.37, |found, here| {
                found.ratio(here, "unified", "squid-2.4", |row| operations(row, &["write"]))
            }),
            ratio("open, close and unlink, unified over squid", 0.0, |found, here| {
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
        quantities: &[
            ratio_between("disk transfers, cern over squid", (0.8, 1.2), |found, here| {
                found.ratio(here, "cern", "squid", transfers)
            }),
            ratio("disk transfers, squidl over squid", 0.5, |found, here| {
                found.ratio(here, "squidl", "squid", transfers)
            }),
            ratio("disk transfers, squidm over squid", 0.4, |found, here| {
                found.ratio(here, "squidm", "squid", transfers)
            }),
            ratio_between("disk transfers, squidml over squid", (0.2, 0.3), |found, here| {
                found.ratio(here, "squidml", "squid", transfers)
            }),
            ratio_between("disk transfers, squidmla over squid", (0.2, 0.3), |found, here| {
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
        recipes: &["lru", "fbc", "future"],
        quantities: &[
            one("lru, hit ratio", 0.47, |found, here| Some(found.row(here, "lru")?.hit_ratio)),
            one("fbc, hit ratio", 0.48, |found, here| Some(found.row(here, "fbc")?.hit_ratio)),
            one("future, hit ratio", 0.56, |found, here| Some(found.row(here, "future")?.hit_ratio)),
            one("lru, disk transfers", 364_617.0, |found, here| found.row(here, "lru").map(transfers)),
            one("fbc, disk transfers", 323_563.0, |found, here| found.row(here, "fbc").map(transfers)),
            one("future, disk transfers", 70_351.0, |found, here| found.row(here, "future").map(transfers)),
            ratio("disk transfers, fbc over lru", 0.887, |found, here| {
                found.ratio(here, "fbc", "lru", transfers)
            }),
            ratio("disk transfers, future over lru", 0.193, |found, here| {
                found.ratio(here, "future", "lru", transfers)
            }),
            ratio("seconds, fbc over lru", 0.709, |found, here| found.ratio(here, "fbc", "lru", seconds)),
            ratio("seconds, future over lru", 0.232, |found, here| {
                found.ratio(here, "future", "lru", seconds)
            }),
            one("lru, seconds", 9371.0, |found, here| found.row(here, "lru").map(seconds)),
            one("fbc, seconds", 6646.0, |found, here| found.row(here, "fbc").map(seconds)),
            one("future, seconds", 2171.0, |found, here| found.row(here, "future").map(seconds)),
        ],
        ..MAPPED
    },
    Experiment {
        name: TABLE_5_2,
        source: "Maltzahn, Table 5.2",
        // Until half past four in the second morning.
        warm_up: 604_400,
        recipes: &["fbc", "fbc-c"],
        quantities: &[
            ratio("disk transfers, fbc-c over fbc", 0.984, |found, here| {
                found.ratio(here, "fbc-c", "fbc", transfers)
            }),
            ratio("seconds, fbc-c over fbc", 0.988, |found, here| found.ratio(here, "fbc-c", "fbc", seconds)),
        ],
        ..MAPPED
    },
];

/// The experiments of these names, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Experiment>, String> {
    policy::lookup::rows_named(names, ALL, |experiment| experiment.name, "experiment")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe;
    use crate::results::Asked;
    use crate::results::tests::{row, run};

    const SYNTHETIC: StandIn = StandIn::Synthetic { seed: 1 };

    #[test]
    fn experiments_name_what_there_is() {
        for experiment in ALL {
            experiment.input(&SYNTHETIC).unwrap().open().unwrap();
            for name in experiment.recipes {
                recipe::named(&[(*name).to_owned()]).unwrap();
            }
            let nothing = Found::default();
            let mut quantities = experiment.quantities.iter();
            assert!(quantities.all(|quantity| (quantity.of)(&nothing, experiment.name).is_none()));
        }
        assert!(named(&["nothing".into()]).is_err_and(|why| why.contains("table-2")));
    }

    #[test]
    fn a_number_within_the_published_range_is_that() {
        let quantity = ratio_between("", (2.0, 4.0), |_, _| None);
        assert_eq!([1.0, 2.0, 3.0, 8.0].map(|found| quantity.beside(found)), [0.5, 1.0, 1.0, 2.0]);
        assert_eq!(one("", 0.0, |_, _| None).beside(0.0), 1.0);
    }

    #[test]
    fn a_trace_takes_the_workloads_place_with_caches_in_proportion() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        let lines: String = (0..1000).map(|nth| format!("http://a.test/{nth},500\n")).collect();
        std::fs::write(&path, format!("url,size\n{lines}")).unwrap();
        let from = From::File { path, format: None, strict: false };
        let stand_in = StandIn::trace(Input { from, requests: None, largest: None }).unwrap();
        let of = |name: &str| named(&[name.to_owned()]).unwrap()[0];
        let experiment = of(TABLE_5_1);
        assert_eq!(experiment.warm_up(&stand_in), 513, "as many of a thousand as of the papers'");
        assert_eq!(experiment.scale(&stand_in).disk, (160 * MIB) * 1000 / (522_376 + 495_664));
        let input = experiment.input(&stand_in).unwrap();
        assert_eq!((input.requests, input.largest), (Some(1000), Some(8192)));
        // With less than the trace has, the caches are the papers'.
        let long = StandIn::Trace { input, requests: 10_000_000 };
        assert_eq!(experiment.scale(&long), experiment.scale(&SYNTHETIC));
        assert_eq!(experiment.input(&long).unwrap().requests, Some(experiment.requests));
        // Those that differ in the synthetic workload alone are then the same.
        let all = distinct(ALL.to_vec(), &stand_in);
        assert_eq!(all.len() + 2, ALL.len());
        assert!(all.iter().all(|experiment| ![SMALL, SMALL_FILES].contains(&experiment.name)));
        assert_eq!(distinct(ALL.to_vec(), &SYNTHETIC).len(), ALL.len());
    }

    #[test]
    fn a_speed_stands_beside_rows_of_its_experiment_alone() {
        let row = row("stream", 300.0);
        let run = run();
        let beside = |run: &Run, row: &Row| published_speed(run, row);
        assert_eq!(beside(&run, &row), Some(gets(295.0)));
        assert_eq!(beside(&run, &Row { recipe: "sieve".into(), ..row.clone() }), None, "of no paper");
        assert_eq!(beside(&run, &Row { gets: 5, ..row.clone() }), None);
        assert_eq!(beside(&run, &Row { medium: "nvme".into(), ..row.clone() }), None);
        let asked = Asked { trace: "access.log".into(), ..run.asked.clone() };
        assert_eq!(beside(&Run { asked, ..run.clone() }, &row), None);
        let scale = Scale { disk: 1 << 30, ..run.scale };
        assert_eq!(beside(&Run { scale, ..run }, &row), None);
    }
}
