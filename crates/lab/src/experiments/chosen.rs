//! What was chosen, not published: every number of the synthetic workloads, and of the computers and devices that the media
//! model. Each has its source or reason, and what it moves is measured again by changing it by a fifth.
//!
//! Added is one by its row: where it lies in a `Setting`, and why it is what it is. The value shown is the one in use. A row
//! is of a setting where its place has a number there.

use crate::input::{From, Input};
use crate::medium::Failed;
use crate::medium::device::Device;
use crate::medium::drive::{DISKSORT, Drive, Geometry, HDD_18T, NCQ, ST15150W};
use crate::medium::filesystem::fs_type::{EXT4, FsType, UFS, Writing};
use crate::medium::filesystem::{FileSystem, Host, TODAY, ULTRA_1};
use crate::medium::flash::{Flash, NVME, NVME_RULES, Nand, SATA, SATA_RULES};
use crate::medium::hbench::hbench;
use crate::medium::queue::Rules;
use crate::medium::table::{LEAST_MEMORY, needed};
use crate::recipe::named;
use crate::replay::watch::Watch;
use crate::replay::{Plan, replay};
use crate::scale::Scale;
use trace::statistics::Statistics;
use trace::synthetic::{self, Size, Which, Workload};
use trace::{Access, Requests};

/// All that a figure may lie in.
#[derive(Clone, Copy)]
pub struct Setting {
    pub workload: Workload,
    pub host: Host,
    pub device: Part,
    pub rules: Rules,
    pub fs_type: FsType,
    pub scale: Scale,
}

/// What a device is made of.
#[derive(Clone, Copy)]
pub enum Part {
    Disk(Geometry),
    Flash(Nand),
}

/// The media whose settings are known: name, computer, device, how transfers wait, and filesystem.
const MEDIA: [(&str, Host, Part, Rules, FsType); 4] = [
    ("st15150w", ULTRA_1, Part::Disk(ST15150W), DISKSORT, UFS),
    ("hdd-18t", TODAYS, Part::Disk(HDD_18T), NCQ, EXT4),
    ("sata-ssd", TODAYS, Part::Flash(SATA), SATA_RULES, EXT4),
    ("nvme", TODAYS, Part::Flash(NVME), NVME_RULES, EXT4),
];

/// With the memory that suits a cache as large as the papers': pages are in proportion to it.
const TODAYS: Host = Host { pages: 128 << 20, metadata: LEAST_MEMORY / 2, ..TODAY };

pub fn media() -> impl Iterator<Item = &'static str> {
    MEDIA.iter().map(|(name, ..)| *name)
}

impl Setting {
    /// A workload on a medium, with caches as in the papers' Table 2. An error lists the media.
    pub fn of(workload: &Workload, medium: &str) -> Result<Setting, String> {
        let (_, host, device, rules, fs_type) =
            MEDIA.into_iter().find(|(name, ..)| *name == medium).ok_or_else(|| {
                let known: Vec<&str> = media().collect();
                format!("nothing is told of what was chosen for `{medium}`; there are {}", known.join(", "))
            })?;
        Ok(Setting { workload: *workload, host, device, rules, fs_type, scale: Scale::default() })
    }

    /// A filesystem on the device, made for a cache of this scale.
    fn medium(&self, host: Host, scale: &Scale) -> FileSystem {
        match self.device {
            Part::Disk(geometry) if !self.fs_type.extents => FileSystem::of(self.fs_type, geometry, host),
            Part::Disk(geometry) => self.filesystem(Box::new(Drive::new(geometry)), host, u64::MAX),
            Part::Flash(nand) => {
                self.filesystem(Box::new(Flash::new(nand, needed(scale))), host, needed(scale))
            }
        }
    }

    fn filesystem(&self, device: Box<dyn Device>, host: Host, bytes: u64) -> FileSystem {
        FileSystem::with(self.fs_type, device, self.rules, host, bytes)
    }
}

/// A figure that was chosen.
pub struct Chosen {
    pub name: &'static str,
    pub unit: &'static str,
    /// Where it comes from, or why it is what it is.
    pub why: &'static str,
    /// Not a number where a setting has no such figure.
    pub get: fn(&Setting) -> f64,
    pub set: fn(&mut Setting, f64),
}

/// The figures that a setting has.
pub fn figures(setting: &Setting) -> impl Iterator<Item = &'static Chosen> {
    ALL.iter().filter(|chosen| (chosen.get)(setting) > 0.0)
}

/// What figures may move.
pub struct Outcome {
    pub name: &'static str,
    pub unit: &'static str,
}

/// In the order of `measure`.
pub const OUTCOMES: [Outcome; 12] = [
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
    Outcome { name: RECIPES[5], unit: "gets/s" },
];

const RECIPES: [&str; 6] = ["simple", "squid", "buddy", "stream-packetizer", "lazy-reads-loc", "cosm"];

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

/// Of a number in a variant of what a workload asks for again, or of a device.
macro_rules! within {
    ($at:ident $(. $path:ident)*, $($variant:path)|+, $field:ident) => {
        (
            |setting| match setting.$at $(. $path)* {
                $($variant { $field, .. })|+ => $field,
                _ => f64::NAN,
            },
            |setting, value| {
                if let $($variant { $field, .. })|+ = &mut setting.$at $(. $path)* {
                    *$field = value;
                }
            },
        )
    };
}

/// Of a number of a device's part, by its path; whole numbers are rounded.
macro_rules! part {
    ($variant:path, $($path:ident).+ $(as $kind:ty)?) => {
        (
            |setting| match &setting.device {
                $variant(part) => part.$($path).+ as f64,
                _ => f64::NAN,
            },
            |setting, value| {
                if let $variant(part) = &mut setting.device {
                    part.$($path).+ = part!(@round value $(, $kind)?);
                }
            },
        )
    };
    (@round $value:ident) => { $value };
    (@round $value:ident, $kind:ty) => { $value.round() as $kind };
}

type Place = (fn(&Setting) -> f64, fn(&mut Setting, f64));

const fn chosen(name: &'static str, unit: &'static str, (get, set): Place, why: &'static str) -> Chosen {
    Chosen { name, unit, why, get, set }
}

/// Of the first type of content: the only one of Digital's, the page itself of pages.
fn sizes(setting: &Setting) -> (f64, f64) {
    match setting.workload.kinds.first().map(|kind| kind.size) {
        Some(Size::LogNormal { median, sigma } | Size::Cut { median, sigma, .. }) => (median, sigma),
        Some(Size::Exponential { mean }) => (mean, f64::NAN),
        None => (f64::NAN, f64::NAN),
    }
}

/// Multiplies the medians and sigmas of all types of content.
fn multiply_sizes(setting: &mut Setting, (by_median, by_sigma): (f64, f64)) {
    let change = |mut kind: synthetic::ContentType| {
        match &mut kind.size {
            Size::LogNormal { median, sigma } | Size::Cut { median, sigma, .. } => {
                (*median, *sigma) = (*median * by_median, *sigma * by_sigma);
            }
            Size::Exponential { mean } => *mean *= by_median,
        }
        kind
    };
    // A row of the table is borrowed for ever; so is what stands in for one, of which there are few.
    setting.workload.kinds = setting.workload.kinds.iter().copied().map(change).collect::<Vec<_>>().leak();
}

const CUSTOMARY: &str = "set: customary";
const MANUAL_SILENT: &str = "set: its manual does not tell";

pub const ALL: &[Chosen] = &[
    chosen(
        "servers",
        "",
        at!(workload.servers as u64),
        "fitted, with the next four, to Maltzahn's Figure 4.2",
    ),
    chosen("exponent of servers' popularity", "", at!(workload.server_zipf), "fitted to Figure 4.2"),
    chosen("sessions at a time", "", at!(workload.sessions as usize), "fitted to Figure 4.2"),
    chosen(
        "requests of a session",
        "",
        at!(workload.session_requests),
        "fitted to Figure 4.2; of pages set: five views",
    ),
    chosen(
        "exponent of how lately a session was heard",
        "",
        at!(workload.session_zipf),
        "fitted to Figure 4.2: 34 % of requests for one of the last 2 servers, 50 % for one of the last 5",
    ),
    chosen(
        "repeats",
        "of requests",
        at!(workload.repeats),
        "fitted to 31.8 % of hits in memory (WebCoSM, Table 1), again after `changes` was; of pages to 78 % of objects asked for \
         once (Douglis)",
    ),
    chosen(
        "changes",
        "of repeats",
        at!(workload.changes),
        "fitted to the 13 % of Douglis and others (USITS 1997); of pages set",
    ),
    chosen(
        "popular ones among repeats",
        "",
        within!(workload.which, Which::Server | Which::Pages, popular),
        "fitted, with the next three, to 4.0 % read from disk (WebCoSM, Table 1), 22 % of the objects asked for more than once \
         (Douglis) and Zipf's 0.64 to 0.83 (Maltzahn 2.3.3)",
    ),
    chosen(
        "exponent of popularity",
        "",
        within!(workload.which, Which::Server | Which::Pages, popularity),
        "fitted with the others of repeats",
    ),
    chosen(
        "exponent of recency",
        "",
        within!(workload.which, Which::Server | Which::Pages, recency),
        "fitted with the others of repeats",
    ),
    chosen(
        "run of repeats",
        "requests",
        within!(workload.which, Which::Server, run),
        "set: a page with what is on it",
    ),
    chosen(
        "median size",
        "bytes",
        (
            |setting| sizes(setting).0,
            |setting, value| multiply_sizes(setting, (value / sizes(setting).0, 1.0)),
        ),
        "USITS99 1: 3 KB; of pages from the mean sizes of HTML, GIF and JPEG (Wessels, Table A-1)",
    ),
    chosen(
        "sigma of sizes",
        "",
        (
            |setting| sizes(setting).1,
            |setting, value| multiply_sizes(setting, (1.0, value / sizes(setting).1)),
        ),
        "fitted to 74 % of at most 8 KB (Maltzahn, Figure 4.1), the distribution being log-normal, which is set; of pages set",
    ),
    chosen(
        "embedded objects of a page",
        "",
        within!(workload.which, Which::Pages, embedded),
        "Wessels (Web Caching, 2001), Table A-1: 1.7",
    ),
    chosen(
        "share of them on several pages",
        "",
        within!(workload.which, Which::Pages, shared),
        "set: a fifth",
    ),
    chosen("a call", "ms", at!(host.call), CUSTOMARY),
    chosen(
        "a name that a search passes by",
        "ms",
        at!(host.name),
        "fitted to SIMPLE (WebCoSM, Table 2), before inodes were written as often as HBENCH asks for, and left",
    ),
    chosen("copying", "bytes a ms", at!(host.copy), CUSTOMARY),
    chosen(
        "memory for pages",
        "bytes",
        at!(host.pages as u64),
        "set: of the papers' machine what is left of 384 MB (WebCoSM 5) beside programs, today a sixteenth of the cache",
    ),
    chosen(
        "memory for other blocks",
        "bytes",
        at!(host.metadata as u64),
        "Solaris' bufhwm: 2 % of memory; today set: half of the least that --limit may be",
    ),
    chosen("a command of the drive", "ms", part!(Part::Disk, command), MANUAL_SILENT),
    chosen("switch of heads", "ms", part!(Part::Disk, head_switch), MANUAL_SILENT),
    chosen(
        "average seek of a read",
        "ms",
        part!(Part::Disk, read_seek.average),
        "its manual; of the Exos X18 another disk's, WD's Ultrastar DC HC310",
    ),
    chosen(
        "average seek of a write",
        "ms",
        part!(Part::Disk, write_seek.average),
        "its manual; of the Exos X18 another disk's, WD's Ultrastar DC HC310",
    ),
    chosen(
        "read-ahead of the drive",
        "bytes",
        part!(Part::Disk, read_ahead as u64),
        "set: a segment of its buffer",
    ),
    chosen(
        "dies",
        "",
        part!(Part::Flash, dies as u64),
        "set, with the next six, so that random reads and writes a second and the speed of long transfers are as published",
    ),
    chosen("units of a page", "4 KiB", part!(Part::Flash, page as u64), CUSTOMARY),
    chosen("read of a page", "ms", part!(Part::Flash, read), CUSTOMARY),
    chosen("program of a page", "ms", part!(Part::Flash, program), CUSTOMARY),
    chosen("suspension of a program", "ms", part!(Part::Flash, suspend), CUSTOMARY),
    chosen(
        "a command of the controller",
        "ms",
        part!(Part::Flash, command),
        "fitted to random reads a second",
    ),
    chosen("latency of a command", "ms", part!(Part::Flash, latency), "fitted to what one read alone takes"),
    chosen(
        "spare flash",
        "of what is shown",
        part!(Part::Flash, spare),
        "flash in powers of two less the capacity; of `nvme` half of that, set",
    ),
    chosen(
        "write cache",
        "bytes",
        (
            |setting| if setting.fs_type.extents { setting.rules.write_cache as f64 } else { f64::NAN },
            |setting, value| setting.rules.write_cache = value.round() as u64,
        ),
        "of the Exos X18 its data sheet's; of flash set",
    ),
    chosen(
        "pages of a file that the daemon sees as one",
        "",
        (
            |setting| {
                let stretch = setting.fs_type.stretch;
                if stretch == u64::MAX { f64::NAN } else { stretch as f64 }
            },
            |setting, value| setting.fs_type.stretch = value.round() as u64,
        ),
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
    // As a row of the table, see `multiply_sizes`.
    let like: &'static Workload = Box::leak(Box::new(setting.workload));
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
    let medium = || setting.medium(host, &scale);
    let (made, removed) = hbench(&mut medium(), 10_240)?;
    found[5] = made + removed;
    for (nth, name) in RECIPES.iter().enumerate() {
        let recipe = &named(&[(*name).to_owned()])?[0];
        let plan = Plan { input: &input, recipe, scale: &scale, warm_up: 0 };
        let (row, _) = replay(&plan, &mut medium(), "of a setting", &mut Watch::default())?;
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

    fn setting(workload: &str, medium: &str) -> Setting {
        Setting::of(synthetic::named(workload).unwrap(), medium).unwrap()
    }

    /// The value that is shown is the one in use, and what is changed is that alone.
    #[test]
    fn a_figure_is_where_its_row_says() {
        let mut shown = std::collections::BTreeSet::new();
        for (workload, medium) in [("dec", "st15150w"), ("pages", "hdd-18t"), ("dec-small", "nvme")] {
            let usual = setting(workload, medium);
            for chosen in figures(&usual) {
                let value = (chosen.get)(&usual);
                assert!(value.is_finite(), "{}: {value}", chosen.name);
                let mut changed = usual;
                (chosen.set)(&mut changed, 2.0 * value);
                assert_eq!((chosen.get)(&changed), 2.0 * value, "{}", chosen.name);
                for row in figures(&usual).filter(|row| row.name != chosen.name) {
                    let (now, before) = ((row.get)(&changed), (row.get)(&usual));
                    assert_eq!(now, before, "{} changes {}", chosen.name, row.name);
                }
                assert!(!chosen.why.is_empty());
                shown.insert(chosen.name);
            }
        }
        assert_eq!(shown.len(), ALL.len(), "each is of some setting, under a name of its own");
        assert_eq!(setting("dec", "st15150w").workload.repeats, 0.505, "as in the table of workloads");
        assert!(
            Setting::of(synthetic::named("dec").unwrap(), "dir").is_err_and(|why| why.contains("hdd-18t"))
        );
    }

    #[test]
    fn what_is_changed_moves_what_it_should() {
        let measured = |usual: Setting, name: &str, by: f64| {
            let mut setting = usual;
            let chosen = figures(&usual).find(|chosen| chosen.name == name).unwrap();
            (chosen.set)(&mut setting, by * (chosen.get)(&usual));
            measure(&setting, 10_000, 1).unwrap()
        };
        let both = |usual: Setting, name: &str, by: f64| {
            (measured(usual, name, 1.0 / by), measured(usual, name, by))
        };
        let papers = setting("dec", "st15150w");
        let (less, more) = both(papers, "repeats", STEP);
        assert!(less[0] < 0.9 * more[0], "hits in memory: {} and {}", less[0], more[0]);
        let (less, more) = both(papers, "average seek of a write", 2.0);
        assert!(less[8] > 1.01 * more[8], "buddy: {} and {}", less[8], more[8]);
        assert_eq!(less[..5], more[..5], "a disk changes no hits");
        let (less, more) = both(setting("pages", "sata-ssd"), "a call", 2.0);
        assert!(less[7] > 1.1 * more[7], "squid: {} and {}", less[7], more[7]);
    }
}
