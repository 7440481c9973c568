//! What was chosen, not published: every figure of the workload that stands for the papers' trace, and of the computer and disk
//! that stand for theirs. Each has its source or reason, and what it moves is measured again by changing it by a fifth.
//!
//! Added is one by its row: where it lies in a `Setting`, and why it is what it is. The value shown is the one in use.

use crate::input::{From, Input};
use crate::medium::Failed;
use crate::medium::drive::{Geometry, ST15150W};
use crate::medium::filesystem::fs_type::{FsType, UFS, Writing};
use crate::medium::filesystem::{FileSystem, Host, ULTRA_1};
use crate::medium::hbench::hbench;
use crate::recipe::named;
use crate::replay::watch::Watch;
use crate::replay::{Plan, replay};
use crate::scale::Scale;
use trace::statistics::Statistics;
use trace::synthetic::{self, Like, Size, Which};
use trace::{Access, Requests};

/// All that a figure may lie in.
#[derive(Clone, Copy)]
pub struct Setting {
    pub like: Like,
    pub host: Host,
    pub drive: Geometry,
    pub fs_type: FsType,
    pub scale: Scale,
}

impl Setting {
    /// Of the papers' Table 2, for a workload.
    pub fn of(like: &Like) -> Setting {
        Setting { like: *like, host: ULTRA_1, drive: ST15150W, fs_type: UFS, scale: Scale::default() }
    }
}

/// A figure that was chosen.
pub struct Chosen {
    pub name: &'static str,
    pub unit: &'static str,
    /// Where it comes from, or why it is what it is.
    pub why: &'static str,
    pub get: fn(&Setting) -> f64,
    pub set: fn(&mut Setting, f64),
}

/// What figures may move.
pub struct Outcome {
    pub name: &'static str,
    pub unit: &'static str,
}

/// In the order of `measure`.
pub const OUTCOMES: [Outcome; 11] = [
    Outcome { name: "hits in memory", unit: "%" },
    Outcome { name: "read from disk", unit: "%" },
    Outcome { name: "deletions", unit: "% of gets" },
    Outcome { name: "changed", unit: "% of requests for what is asked for again" },
    Outcome { name: "up to 8 KB", unit: "%" },
    Outcome { name: "create and delete of 10 KB", unit: "ms" },
    Outcome { name: RECIPES[0], unit: "gets/s" },
    Outcome { name: RECIPES[1], unit: "gets/s" },
    Outcome { name: RECIPES[2], unit: "gets/s" },
    Outcome { name: RECIPES[3], unit: "gets/s" },
    Outcome { name: RECIPES[4], unit: "gets/s" },
];

const RECIPES: [&str; 5] = ["simple", "squid", "buddy", "stream-packetizer", "lazy-reads-loc"];

/// By what a figure is changed.
pub const STEP: f64 = 1.2;

/// Of a number in a setting, by its path; whole numbers are rounded.
macro_rules! at {
    ($($path:ident).+) => {
        (|setting| setting.$($path).+ as f64, |setting, value| setting.$($path).+ = value)
    };
    ($($path:ident).+ as $kind:ty) => {
        (|setting| setting.$($path).+ as f64, |setting, value| setting.$($path).+ = value.round() as $kind)
    };
}

/// Of a number in what a workload asks for again.
macro_rules! again {
    ($field:ident) => {
        (
            |setting| match setting.like.which {
                Which::Server { $field, .. } | Which::Pages { $field, .. } => $field,
                Which::Popular(_) => f64::NAN,
            },
            |setting, value| {
                if let Which::Server { $field, .. } | Which::Pages { $field, .. } = &mut setting.like.which {
                    *$field = value;
                }
            },
        )
    };
}

type Place = (fn(&Setting) -> f64, fn(&mut Setting, f64));

const fn chosen(name: &'static str, unit: &'static str, (get, set): Place, why: &'static str) -> Chosen {
    Chosen { name, unit, why, get, set }
}

/// The first kind's, which is the only one of Digital's.
fn sizes(setting: &Setting) -> (f64, f64) {
    match setting.like.kinds.first().map(|kind| kind.size) {
        Some(Size::LogNormal { median, sigma } | Size::Cut { median, sigma, .. }) => (median, sigma),
        Some(Size::Exponential { mean }) => (mean, f64::NAN),
        None => (f64::NAN, f64::NAN),
    }
}

fn set_sizes(setting: &mut Setting, to: fn(&mut f64, &mut f64, f64), value: f64) {
    let change = |mut kind: synthetic::ContentType| {
        if let Size::LogNormal { median, sigma } | Size::Cut { median, sigma, .. } = &mut kind.size {
            to(median, sigma, value);
        }
        kind
    };
    // A row of the table is borrowed for ever; so is what stands in for one, of which there are few.
    setting.like.kinds = setting.like.kinds.iter().copied().map(change).collect::<Vec<_>>().leak();
}

pub const ALL: &[Chosen] = &[
    chosen("servers", "", at!(like.servers as u64), "fitted, with the next four, to Maltzahn's Figure 4.2"),
    chosen("exponent of servers' popularity", "", at!(like.server_zipf), "fitted to Figure 4.2"),
    chosen("sessions at a time", "", at!(like.sessions as usize), "fitted to Figure 4.2"),
    chosen("requests of a session", "", at!(like.session_requests), "fitted to Figure 4.2"),
    chosen(
        "exponent of how lately a session was heard",
        "",
        at!(like.session_zipf),
        "fitted to Figure 4.2: 34 % of requests for one of the last 2 servers, 50 % for one of the last 5",
    ),
    chosen(
        "repeats",
        "of requests",
        at!(like.repeats),
        "fitted to 31.8 % of hits in memory (WebCoSM, Table 1), again after `changes` was",
    ),
    chosen(
        "changes",
        "of repeats",
        at!(like.changes),
        "fitted to the 13 % of Douglis and others (USITS 1997)",
    ),
    chosen(
        "popular ones among repeats",
        "",
        again!(popular),
        "fitted, with the next three, to 4.0 % read from disk (WebCoSM, Table 1), 22 % of the objects asked for more than once \
         (Douglis) and Zipf's 0.64 to 0.83 (Maltzahn 2.3.3)",
    ),
    chosen("exponent of popularity", "", again!(popularity), "fitted with the others of repeats"),
    chosen("exponent of recency", "", again!(recency), "fitted with the others of repeats"),
    chosen(
        "run of repeats",
        "requests",
        (
            |setting| match setting.like.which {
                Which::Server { run, .. } => run,
                _ => f64::NAN,
            },
            |setting, value| {
                if let Which::Server { run, .. } = &mut setting.like.which {
                    *run = value;
                }
            },
        ),
        "set: a page with what is on it",
    ),
    chosen(
        "median size",
        "bytes",
        (
            |setting| sizes(setting).0,
            |setting, value| set_sizes(setting, |median, _, value| *median = value, value),
        ),
        "USITS99 1: 3 KB",
    ),
    chosen(
        "sigma of sizes",
        "",
        (
            |setting| sizes(setting).1,
            |setting, value| set_sizes(setting, |_, sigma, value| *sigma = value, value),
        ),
        "fitted to 74 % of at most 8 KB (Maltzahn, Figure 4.1), the distribution being log-normal, which is set",
    ),
    chosen("a call", "ms", at!(host.call), "set: customary for the computer"),
    chosen(
        "a name that a search passes by",
        "ms",
        at!(host.name),
        "fitted to SIMPLE (WebCoSM, Table 2), before inodes were written as often as HBENCH asks for, and left",
    ),
    chosen("copying", "bytes a ms", at!(host.copy), "set: customary for the computer"),
    chosen(
        "memory for pages",
        "bytes",
        at!(host.pages as u64),
        "set: what is left of 384 MB (WebCoSM 5) beside programs; the caches themselves are simulated",
    ),
    chosen("memory for other blocks", "bytes", at!(host.metadata as u64), "Solaris' bufhwm: 2 % of memory"),
    chosen("a command of the drive", "ms", at!(drive.command), "set: its manual does not tell"),
    chosen("switch of heads", "ms", at!(drive.head_switch), "set: its manual does not tell"),
    chosen("average seek of a read", "ms", at!(drive.read_seek.average), "its manual"),
    chosen("average seek of a write", "ms", at!(drive.write_seek.average), "its manual"),
    chosen("read-ahead of the drive", "bytes", at!(drive.read_ahead as u64), "set: a segment of its buffer"),
    chosen(
        "pages of a file that the daemon sees as one",
        "",
        at!(fs_type.stretch as u64),
        "set: the daemon finds pages by where they are in memory",
    ),
    chosen(
        "bytes of one file that may wait",
        "",
        (
            |setting| match setting.fs_type.writing {
                Writing::Clusters { high, .. } => high as f64,
                Writing::Aged { .. } => f64::NAN,
            },
            |setting, value| {
                if let Writing::Clusters { high, .. } = &mut setting.fs_type.writing {
                    *high = value.round() as u64;
                }
            },
        ),
        "Solaris' ufs_HW",
    ),
    chosen("utilisation", "of the file", at!(scale.utilization), "USITS99, Table 1"),
    chosen(
        "reads that go together",
        "",
        (
            |setting| setting.scale.lazy_reads.0 as f64,
            |setting, value| {
                setting.scale.lazy_reads.0 = value.round() as usize;
            },
        ),
        "USITS99, Figure 7: ten at a time",
    ),
    chosen("locality buffers", "", at!(scale.locality_buffers as usize), "USITS99, Table 1"),
];

/// What a setting gives: `OUTCOMES`, with so many requests, and caches and memory for pages in proportion.
pub fn measure(setting: &Setting, requests: u64, seed: u64) -> Result<[f64; OUTCOMES.len()], Failed> {
    let part = requests as f64 / PAPERS_GETS;
    let bytes = |bytes: u64| (bytes as f64 * part) as u64;
    let scale =
        Scale { memory: bytes(setting.scale.memory), disk: bytes(setting.scale.disk), ..setting.scale };
    // As a row of the table, see `set_sizes`.
    let like: &'static Like = Box::leak(Box::new(setting.like));
    let input = Input { from: From::Synthetic { like, seed }, requests: Some(requests), largest: None };
    let (mut statistics, mut access) = (Statistics::default(), Access::default());
    let mut reading = input.open()?;
    while reading.next(&mut access)? {
        statistics.count(&access);
    }
    let mut found = [0.0; OUTCOMES.len()];
    (found[3], found[4]) = (100.0 * statistics.changed_ratio(), 100.0 * statistics.share_to_8k());
    // Pages in memory stand to the cache on disk as they did.
    let host = Host { pages: bytes(setting.host.pages), ..setting.host };
    let ufs = || FileSystem::of(setting.fs_type, setting.drive, host);
    let (made, removed) = hbench(&mut ufs(), 10_240)?;
    found[5] = made + removed;
    for (nth, name) in RECIPES.iter().enumerate() {
        let recipe = &named(&[(*name).to_owned()])?[0];
        let plan = Plan { input: &input, recipe, scale: &scale, warm_up: 0 };
        let (row, _) = replay(&plan, &mut ufs(), ST15150W.name, &mut Watch::default())?;
        let share = |count: u64| 100.0 * count as f64 / row.gets as f64;
        if nth == 0 {
            found[0] = share(row.outcomes.memory_hits);
            found[1] = share(row.outcomes.disk_hits);
            found[2] = share(row.notes.get("deletions").copied().unwrap_or(0.0) as u64);
        }
        found[6 + nth] = row.gets_per_second;
    }
    Ok(found)
}

const PAPERS_GETS: f64 = 1_058_206.0;

/// By how many per cent each outcome changes from the figure a fifth smaller to it a fifth larger.
pub fn moves(less: &[f64], usual: &[f64], more: &[f64]) -> Vec<f64> {
    let one = |((less, usual), more): ((&f64, &f64), &f64)| {
        if *usual == 0.0 { 0.0 } else { 100.0 * (more - less) / usual }
    };
    less.iter().zip(usual).zip(more).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that is shown is the one in use, and what is changed is that alone.
    #[test]
    fn a_figure_is_where_its_row_says() {
        let usual = Setting::of(synthetic::named("dec").unwrap());
        for (nth, chosen) in ALL.iter().enumerate() {
            let value = (chosen.get)(&usual);
            assert!(value.is_finite() && value > 0.0, "{}: {value}", chosen.name);
            let mut changed = usual;
            (chosen.set)(&mut changed, 2.0 * value);
            assert_eq!((chosen.get)(&changed), 2.0 * value, "{}", chosen.name);
            for (other, row) in ALL.iter().enumerate().filter(|(other, _)| *other != nth) {
                assert_eq!((row.get)(&changed), (row.get)(&usual), "{} changes row {other}", chosen.name);
            }
            assert!(!chosen.why.is_empty());
        }
        assert_eq!(usual.like.repeats, 0.505, "as in the table of workloads");
    }

    #[test]
    fn what_is_changed_moves_what_it_should() {
        let usual = Setting::of(synthetic::named("dec").unwrap());
        let with = |name: &str, by: f64| {
            let mut setting = usual;
            let chosen = ALL.iter().find(|chosen| chosen.name == name).unwrap();
            (chosen.set)(&mut setting, by * (chosen.get)(&usual));
            measure(&setting, 10_000, 1).unwrap()
        };
        let (less, more) = (with("repeats", 1.0 / STEP), with("repeats", STEP));
        assert!(less[0] < 0.9 * more[0], "hits in memory: {} and {}", less[0], more[0]);
        let (less, more) = (with("average seek of a write", 0.5), with("average seek of a write", 2.0));
        assert!(less[8] > 1.01 * more[8], "buddy: {} and {}", less[8], more[8]);
        assert_eq!(less[..5], more[..5], "a disk changes no hits");
    }
}
