//! The curves and pictures of WebCoSM's simulations: a row each, with what its text and USITS99's publish of them.
//!
//! The papers give times for 1,000,000 reads, writes and deletions, which 1,058,206 gets cause (WebCoSM 3.1), and for 300,000
//! of 398,034 gets. USITS99's Table 1 has 46:31 minutes where Table 2 has 358 a second: from BUDDY on, Table 2 counts such
//! operations, not gets.

use crate::recipe::{ALL, Recipe};
use crate::results::Point;
use crate::scale::Scale;

/// A figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// In WebCoSM.
    pub number: u64,
    pub title: &'static str,
    /// Gets, and bytes of the cache on disk, in the paper.
    pub gets: u64,
    pub disk: u64,
    pub shows: Shows,
    pub curves: &'static [Curve],
    /// What the text says of one curve beside another.
    pub ratios: &'static [Ratio],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// Completion time, by recipe or over a parameter.
    Seconds(Over),
    /// The head over time, by recipe.
    Head,
    /// The free space at the end, by recipe.
    Map,
    /// The mean size of free pieces over requests.
    FreeSizes,
    /// The distances between reads.
    Distances,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Recipe,
    /// Blocks.
    Threshold,
    Utilization,
}

#[derive(Clone, Copy, Debug)]
pub struct Curve {
    pub recipe: &'static str,
    /// Where it differs from the others of its recipe.
    pub locality_buffers: usize,
    /// Of what the figure goes over.
    pub at: &'static [f64],
    /// What the text tells of it: x and y as the figure has them.
    pub published: &'static [(f64, f64)],
}

/// How many times as long the first takes as the second; both are a curve's number and where on it.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    pub times: [(usize, f64); 2],
    /// The least and the most; infinity where it is only more than the least.
    pub published: (f64, f64),
    pub source: &'static str,
}

const GETS: u64 = 1_058_206;
const DISK: u64 = 2 << 30;
/// Where nothing is said: the papers' own (USITS99, Table 1).
const USUAL: &[f64] = &[0.71];
const UTILIZATIONS: &[f64] = &[0.65, 0.71, 0.76, 0.82, 0.9, 0.95];
/// Seconds, of a million operations at so many a second (Table 2) or as USITS99's Table 1 has them.
const BUDDY_SECONDS: (f64, f64) = (0.71, 1e6 / 133.0);
const STREAM_SECONDS: (f64, f64) = (0.71, 1e6 / 295.0);
const PACKETIZER_SECONDS: (f64, f64) = (0.71, 2791.0);
const LAZY_SECONDS: (f64, f64) = (0.71, 2528.0);
const LOC_SECONDS: (f64, f64) = (0.71, 2031.0);

const fn curve(recipe: &'static str, at: &'static [f64], published: &'static [(f64, f64)]) -> Curve {
    Curve { recipe, locality_buffers: 128, at, published }
}

const fn with_buffers(locality_buffers: usize, published: &'static [(f64, f64)]) -> Curve {
    Curve { recipe: "lazy-reads-loc", locality_buffers, at: UTILIZATIONS, published }
}

const WHOLE: Figure = Figure {
    number: 0,
    title: "",
    gets: GETS,
    disk: DISK,
    shows: Shows::Seconds(Over::Utilization),
    curves: &[],
    ratios: &[],
};

pub const FIGURES: &[Figure] = &[
    Figure {
        number: 6,
        title: "file management overhead",
        gets: 398_034,
        disk: 1 << 30,
        shows: Shows::Seconds(Over::Recipe),
        // 300,000 operations at 14, 20, 23 a second (USITS99, Table 2), and forty minutes.
        curves: &[
            curve("simple", USUAL, &[(0.71, 21_429.0)]),
            curve("squid", USUAL, &[(0.71, 15_000.0)]),
            curve("multiple-dirs", USUAL, &[(0.71, 13_043.0)]),
            curve("buddy", USUAL, &[(0.71, 2_400.0)]),
        ],
        ratios: &[
            Ratio { times: [(0, 0.71), (3, 0.71)], published: (6.0, 10.0), source: "WebCoSM 3.2" },
            Ratio { times: [(1, 0.71), (3, 0.71)], published: (6.0, 10.0), source: "WebCoSM 3.2" },
            Ratio { times: [(2, 0.71), (3, 0.71)], published: (6.0, 10.0), source: "WebCoSM 3.2" },
        ],
    },
    Figure {
        number: 7,
        title: "BUDDY by its threshold",
        gets: 398_034,
        disk: 1 << 30,
        shows: Shows::Seconds(Over::Threshold),
        // Of which trace is not said; the best is as in Figure 6.
        curves: &[curve(
            "buddy",
            &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0],
            &[(256.0, 2_400.0)],
        )],
        ratios: &[],
    },
    Figure {
        number: 8,
        title: "the head, BUDDY",
        shows: Shows::Head,
        curves: &[curve("buddy", USUAL, &[])],
        ..WHOLE
    },
    Figure {
        number: 9,
        title: "the head, STREAM",
        shows: Shows::Head,
        curves: &[curve("stream", USUAL, &[])],
        ..WHOLE
    },
    Figure {
        number: 10,
        title: "BUDDY and STREAM by utilisation",
        curves: &[
            // It has no space of a size.
            curve("buddy", &[0.65, 0.95], &[BUDDY_SECONDS]),
            curve("stream", UTILIZATIONS, &[STREAM_SECONDS]),
        ],
        ratios: &[
            Ratio {
                times: [(0, 0.65), (1, 0.71)],
                published: (2.0, f64::INFINITY),
                source: "WebCoSM 3.3: more than a factor of two",
            },
            Ratio { times: [(0, 0.95), (1, 0.95)], published: (1.0, 1.0), source: "WebCoSM 3.3: comparable" },
        ],
        ..WHOLE
    },
    Figure {
        number: 11,
        title: "STREAM and STREAM-PACKETIZER by utilisation",
        curves: &[
            curve("stream", UTILIZATIONS, &[STREAM_SECONDS]),
            curve("stream-packetizer", UTILIZATIONS, &[PACKETIZER_SECONDS]),
        ],
        ratios: &[Ratio { times: [(0, 0.71), (1, 0.71)], published: (1.2, 1.2), source: "WebCoSM 3.3" }],
        ..WHOLE
    },
    Figure {
        number: 12,
        title: "LAZY-READS by utilisation",
        curves: &[
            curve("stream-packetizer", UTILIZATIONS, &[PACKETIZER_SECONDS]),
            curve("lazy-reads", UTILIZATIONS, &[LAZY_SECONDS]),
        ],
        ratios: &[Ratio { times: [(0, 0.71), (1, 0.71)], published: (1.1, 1.1), source: "WebCoSM 3.4" }],
        ..WHOLE
    },
    Figure {
        number: 13,
        title: "the free space of the file",
        shows: Shows::Map,
        curves: &[curve("stream", USUAL, &[]), curve("stream-loc", USUAL, &[])],
        ..WHOLE
    },
    Figure {
        number: 14,
        title: "mean size of the free pieces",
        shows: Shows::FreeSizes,
        // After a warm-up of 300,000 requests, KB.
        curves: &[
            curve("stream", USUAL, &[(300_000.0, 65.0), (1_058_206.0, 65.0)]),
            curve("stream-loc", USUAL, &[(300_000.0, 145.0), (1_058_206.0, 145.0)]),
        ],
        ..WHOLE
    },
    Figure {
        number: 15,
        title: "distances between reads",
        shows: Shows::Distances,
        // Per cent within ten blocks.
        curves: &[
            curve("stream-packetizer", USUAL, &[(10.0, 6.0)]),
            curve("stream-loc", USUAL, &[(10.0, 17.0)]),
        ],
        ..WHOLE
    },
    Figure {
        number: 16,
        title: "LAZY-READS-LOC by utilisation and locality buffers",
        curves: &[
            curve("stream-packetizer", UTILIZATIONS, &[PACKETIZER_SECONDS]),
            curve("lazy-reads", UTILIZATIONS, &[LAZY_SECONDS]),
            with_buffers(8, &[]),
            with_buffers(16, &[]),
            with_buffers(32, &[]),
            with_buffers(64, &[]),
            with_buffers(128, &[LOC_SECONDS]),
        ],
        ratios: &[
            Ratio { times: [(1, 0.71), (2, 0.71)], published: (1.05, 1.2), source: "WebCoSM 3.5.2" },
            Ratio { times: [(1, 0.76), (6, 0.76)], published: (2.5, 2.5), source: "WebCoSM 3.5.2" },
            Ratio { times: [(0, 0.76), (6, 0.76)], published: (2.5, 2.5), source: "WebCoSM 3.5.2" },
        ],
        ..WHOLE
    },
];

/// How many reads were of the next block and within ten, in Figure 15 (WebCoSM 3.5.1).
pub const NEARBY: [(&str, u64, u64); 2] = [("stream-packetizer", 611, 3_200), ("stream-loc", 1_885, 8_400)];

/// The figures of these numbers, `all` being all of them; an error lists what there is.
pub fn named(names: &[String]) -> Result<Vec<Figure>, String> {
    if names.iter().any(|name| name == "all") {
        return Ok(FIGURES.to_vec());
    }
    let one = |name: &String| {
        FIGURES.iter().find(|figure| figure.number.to_string() == *name).copied().ok_or_else(|| {
            let known: Vec<String> = FIGURES.iter().map(|figure| figure.number.to_string()).collect();
            format!("there is no figure `{name}`; there are {}", known.join(", "))
        })
    };
    names.iter().map(one).collect()
}

/// A replay that a figure needs.
#[derive(Clone, Copy)]
pub struct Job {
    pub recipe: &'static Recipe,
    pub scale: Scale,
    /// At most.
    pub requests: u64,
    /// Whether pictures are made of it.
    pub looks: bool,
}

impl Figure {
    /// The replay of a curve at a place. With another number of requests than the paper's, both caches are as much smaller or
    /// larger. Nothing when there is no such recipe.
    pub fn job(&self, curve: &Curve, at: f64, requests: Option<u64>) -> Option<Job> {
        let usual = Scale::default();
        let part = requests.map_or(1.0, |requests| requests as f64 / self.gets as f64);
        let sized = |bytes: u64| ((bytes as f64 * part) as u64).max(1);
        let mut scale = Scale {
            memory: sized(usual.memory),
            disk: sized(self.disk),
            locality_buffers: curve.locality_buffers,
            ..usual
        };
        match self.shows {
            Shows::Seconds(Over::Threshold) => scale.threshold = at as u64,
            _ => scale.utilization = at,
        }
        Some(Job {
            recipe: ALL.iter().find(|recipe| recipe.name == curve.recipe)?,
            scale,
            requests: requests.unwrap_or(self.gets),
            looks: !matches!(self.shows, Shows::Seconds(_)),
        })
    }

    /// All replays of the figure.
    pub fn jobs(&self, requests: Option<u64>) -> impl Iterator<Item = Job> {
        let one =
            move |curve: &'static Curve| curve.at.iter().filter_map(move |at| self.job(curve, *at, requests));
        self.curves.iter().flat_map(one)
    }

    /// The share of the papers' requests that were made: published times are as much shorter.
    pub fn part(&self, point: &Point) -> f64 {
        point.row.gets as f64 / self.gets as f64
    }
}

impl Curve {
    /// How it is called beside the others of its figure.
    pub fn name(&self, of: &Figure) -> String {
        let alone = of.curves.iter().filter(|other| other.recipe == self.recipe).count() == 1;
        if alone { self.recipe.into() } else { format!("{}-{}", self.recipe, self.locality_buffers) }
    }
}

impl Job {
    /// Whether a point is of this job.
    pub fn is_of(&self, point: &Point) -> bool {
        point.row.recipe == self.recipe.name
            && point.requests == self.requests
            && point.scale == self.scale
            && (point.seen.is_some() || !self.looks)
    }
}

/// What all these figures need, each replay once, in the order of the figures.
pub fn jobs(figures: &[Figure], requests: Option<u64>) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for job in figures.iter().flat_map(|figure| figure.jobs(requests)) {
        let same = |other: &&mut Job| {
            (other.recipe.name, other.scale, other.requests) == (job.recipe.name, job.scale, job.requests)
        };
        match jobs.iter_mut().find(same) {
            Some(other) => other.looks |= job.looks,
            None => jobs.push(job),
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::point;

    #[test]
    fn every_curve_has_its_recipe_and_every_ratio_its_points() {
        for figure in FIGURES {
            let points: usize = figure.curves.iter().map(|curve| curve.at.len()).sum();
            assert_eq!(figure.jobs(None).count(), points, "figure {}", figure.number);
            for (curve, at) in figure.ratios.iter().flat_map(|ratio| ratio.times) {
                assert!(figure.curves[curve].at.contains(&at), "figure {}", figure.number);
            }
            let names: std::collections::BTreeSet<String> =
                figure.curves.iter().map(|curve| curve.name(figure)).collect();
            assert_eq!(names.len(), figure.curves.len());
        }
    }

    #[test]
    fn what_figures_share_is_replayed_once() {
        let all = jobs(FIGURES, None);
        let apart: usize = FIGURES.iter().map(|figure| figure.jobs(None).count()).sum();
        assert!(all.len() < apart);
        let stream = all.iter().filter(|job| job.recipe.name == "stream" && job.scale.utilization == 0.71);
        assert_eq!(stream.map(|job| job.looks).collect::<Vec<_>>(), [true], "for a picture and for a curve");
    }

    #[test]
    fn fewer_requests_have_smaller_caches() {
        let figure = named(&["6".into()]).unwrap()[0];
        let job = figure.jobs(Some(39_803)).next().unwrap();
        assert_eq!((job.requests, job.scale.disk >> 20, job.scale.memory >> 20), (39_803, 102, 51));
        assert_eq!(figure.jobs(None).next().unwrap().scale, Scale { disk: 1 << 30, ..Scale::default() });
        let why = named(&["66".into()]).unwrap_err();
        assert!(why.contains("there are 6, 7, 8"), "{why}");
    }

    #[test]
    fn a_point_is_of_its_job_alone() {
        let figure = named(&["9".into()]).unwrap()[0];
        let job = figure.jobs(None).next().unwrap();
        assert!(job.is_of(&point("stream", 0.71)));
        assert!(!job.is_of(&point("stream", 0.76)) && !job.is_of(&point("buddy", 0.71)));
        let without = Point { seen: None, ..point("stream", 0.71) };
        assert!(!job.is_of(&without), "its picture is missing");
    }
}
