//! What a history is like: the cache it has, and what fails in it.

use crate::disk::sim::Faults;
use crate::engine::Millis;
use crate::format::DATA_START;
use crate::{Admission, WriteBudget};
use rand::{RngExt, rngs::StdRng};
use std::ops::Range;
use std::time::Duration;

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing. The store is closed now and then.
    Nothing,
    /// The process is killed.
    Kills,
    /// The power goes.
    Power,
    /// The medium is damaged while all works, and the process is killed.
    Damage(Damage),
    /// Reads and writes fail, and the process is killed.
    Failing(Failing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Bits flip, of records, of the header, and of what is on its way from the disk.
    Bits,
    /// Writes that are reported as done change nothing.
    Lost,
    /// Or go elsewhere.
    Misdirected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Now and then one, and reads too.
    Some,
    /// All writes for a while, and leave their marks. Nobody is killed meanwhile.
    AllTorn,
    /// All for a while.
    All,
    /// Those of some segments, until others fail instead.
    Place,
    /// Now and then a read, and at some starts all reads of some place.
    Reads,
    /// Both.
    ReadsAndPlace,
    /// Those of root, ledger or fence, for a while; and at some starts their reads.
    Header,
    /// Those of blocks that were never written, for a while.
    Full,
}

const FAILING: [Failing; 8] = [
    Failing::Some,
    Failing::AllTorn,
    Failing::All,
    Failing::Place,
    Failing::Reads,
    Failing::ReadsAndPlace,
    Failing::Header,
    Failing::Full,
];
const DAMAGE: [Damage; 3] = [Damage::Bits, Damage::Lost, Damage::Misdirected];

/// What a history is made of.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub trouble: Trouble,
    pub segments: u64,
    /// Segments for which a digest is made, in a log of at least so many.
    digests: Option<(u64, u64)>,
    pub admission: Admission,
    pub write_budget: Option<WriteBudget>,
    pub cmax: u8,
    pub index_max: Option<u64>,
    pub keys: u64,
    /// Many keys with small values, put many at a time: digests have several pages.
    pub many: bool,
    /// How often a key is put with the same body again.
    pub again: f64,
    /// In how long the scrub goes round.
    pub scrub: Option<Duration>,
    /// How often a start gives the cache another size, and how many segments it has then.
    pub resizes: f64,
    pub sizes: Range<u64>,
    /// The cache is on a device, which has room for the largest.
    pub is_device: bool,
    /// Reads and writes of the engine that are under way at once, and how long each takes, mostly and at most.
    pub workers: usize,
    pub pace: (Millis, Millis),
    /// Nothing fails any more.
    pub is_calm: bool,
}

impl Scenario {
    pub fn of(seed: u64, rng: &mut StdRng) -> Scenario {
        let nth = (seed / 5) as usize;
        let trouble = match seed % 5 {
            0 => Trouble::Nothing,
            1 => Trouble::Failing(FAILING[nth % FAILING.len()]),
            2 => Trouble::Damage(DAMAGE[nth % DAMAGE.len()]),
            3 => Trouble::Power,
            _ => Trouble::Kills,
        };
        let many = rng.random_bool(0.08);
        let (segments, stretch) = match many {
            true => (96, Some(40)),
            false => [(10, None), (24, Some(1)), (40, Some(5)), (40, Some(2))][rng.random_range(0..4)],
        };
        // Few keys and always the same bodies: then a place is used again by the same key's same body.
        let (keys, again) = match () {
            () if many => (1_500, 0.2),
            () if rng.random_bool(0.1) => (6, 1.0),
            () => (60, 0.2),
        };
        let resizes = [0.0, 0.0, 0.15, 0.6][rng.random_range(0..4)];
        let sizes = if many { 60..140 } else { 15..segments * 2 };
        // A log that becomes smaller than that does without.
        let least = if resizes > 0.0 && rng.random_bool(0.3) { segments } else { 0 };
        let bounded = rng.random_bool(0.2);
        // Too little for all that is put, in most of them.
        let write_budget = rng.random_bool(0.15).then(|| WriteBudget {
            bytes: rng.random_range(100..3_000) << 10,
            period: Duration::from_secs(60),
        });
        Scenario {
            trouble,
            segments,
            digests: stretch.map(|stretch| (stretch, least)),
            admission: [Admission::All, Admission::Worth][rng.random_range(0..2)],
            write_budget,
            cmax: (segments == 24).into(),
            index_max: bounded.then(|| rng.random_range(keys / 3..keys * 3 / 2) + 10),
            keys,
            many,
            again,
            scrub: rng.random_bool(0.5).then(|| Duration::from_millis(rng.random_range(2_000..60_000))),
            resizes,
            sizes,
            is_device: rng.random_bool(0.3),
            workers: [1, 4, 64][rng.random_range(0..3)],
            pace: [(0, 0), (0, 0), (20, 400), (500, 40_000)][rng.random_range(0..4)],
            is_calm: false,
        }
    }

    /// Of the largest cache, with segments of so many bytes.
    pub fn most_bytes(&self, segment: u32) -> u64 {
        DATA_START + self.sizes.end * u64::from(segment)
    }

    /// Segments for which a digest is made in a log of so many.
    pub fn stretch(&self, segments: u64) -> Option<u64> {
        let (stretch, least) = self.digests?;
        (segments >= least).then_some(stretch)
    }

    /// Nothing fails but that the process is killed.
    pub fn only_kills(&self) -> bool {
        self.trouble == Trouble::Kills
    }

    /// Nothing that was written is ever lost, but by the sweep.
    pub fn loses_nothing(&self) -> bool {
        matches!(self.trouble, Trouble::Nothing | Trouble::Kills) && self.index_max.is_none()
    }

    /// What the engine says is in the file is there after a kill: what fails leaves no half-written tables.
    pub fn is_sure(&self) -> bool {
        let failing = [Failing::All, Failing::Place, Failing::Reads, Failing::ReadsAndPlace, Failing::Full];
        matches!(self.trouble, Trouble::Nothing | Trouble::Kills)
            || matches!(self.trouble, Trouble::Failing(kind) if failing.contains(&kind))
    }

    /// All that was written can be read, at every start and after it.
    pub fn is_read_whole(&self) -> bool {
        let writes = [Failing::AllTorn, Failing::All, Failing::Place, Failing::Full];
        match self.trouble {
            Trouble::Nothing | Trouble::Kills | Trouble::Power => true,
            Trouble::Damage(_) => false,
            Trouble::Failing(kind) => writes.contains(&kind),
        }
    }

    pub fn fails(&self, kind: Failing) -> bool {
        self.trouble == Trouble::Failing(kind)
    }

    pub fn reads_fail(&self) -> bool {
        !self.is_calm && (self.fails(Failing::Reads) || self.fails(Failing::ReadsAndPlace))
    }

    /// Reads may fail before all of the index is loaded.
    pub fn may_load_badly(&self) -> bool {
        self.reads_fail() || !self.is_calm && self.fails(Failing::Some)
    }

    /// At once, as the store runs.
    pub fn faults(&self) -> Faults {
        match self.trouble {
            _ if self.is_calm => Faults::default(),
            Trouble::Failing(Failing::Reads | Failing::ReadsAndPlace) => {
                Faults { read: 200, ..Faults::default() }
            }
            Trouble::Damage(Damage::Lost) => Faults { lost: 30, ..Faults::default() },
            Trouble::Damage(Damage::Misdirected) => Faults { misdirected: 30, ..Faults::default() },
            Trouble::Damage(Damage::Bits) => Faults { flipped: 5, ..Faults::default() },
            _ => Faults::default(),
        }
    }

    /// When the process starts.
    pub fn faults_at_start(&self) -> Faults {
        let pace = Duration::from_millis(self.pace.1 / 10);
        let flips = self.trouble == Trouble::Damage(Damage::Bits) && !self.is_calm;
        let flipped = if flips { 5 } else { 0 };
        Faults { pace, flipped, ..Faults::default() }
    }

    /// While all writes fail, or some for want of space.
    pub fn outage(&self) -> Option<Faults> {
        match self.trouble {
            Trouble::Failing(Failing::AllTorn) => Some(Faults { write: 1_000, ..Faults::default() }),
            Trouble::Failing(Failing::All) => Some(Faults { no_space: 1_000, ..Faults::default() }),
            Trouble::Failing(Failing::Full) => Some(Faults { full: true, ..Faults::default() }),
            _ => None,
        }
    }

    /// While a start changes the size; places fail besides.
    pub fn faults_of_a_change(&self) -> Faults {
        match self.trouble {
            Trouble::Failing(Failing::Some) => {
                Faults { read: 20, write: 30, no_space: 20, ..Faults::default() }
            }
            Trouble::Failing(Failing::Reads | Failing::ReadsAndPlace) => {
                Faults { read: 100, ..Faults::default() }
            }
            _ => self.outage().unwrap_or(self.faults()),
        }
    }

    pub fn takes(&self, rng: &mut StdRng) -> Millis {
        let (mostly, most) = self.pace;
        match most {
            0 => 0,
            _ if rng.random_bool(0.05) => rng.random_range(0..=most),
            _ => rng.random_range(0..=mostly),
        }
    }
}
