//! What was measured, as JSON and as text.

use crate::contender::{self, Spec};
use crate::figures::{median, spread, thousands};
use crate::machine::Machine;
use crate::scale::{self, Scale};
use crate::serve::Served;
use crate::turn::{Asked, DEPTHS, Filled, Gets, Puts, Round};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::PathBuf;

/// One contender at one scale.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cell {
    pub scale: String,
    pub contender: String,
    pub command: String,
    pub objects: u64,
    pub body: usize,
    pub capacity: u64,
    /// None: not limited.
    pub memory: Option<u64>,
    /// The page cache was dropped before the restart.
    pub cold: bool,
    pub filled: Option<Filled>,
    pub asked: Option<Asked>,
    pub served: Option<Served>,
}

impl Cell {
    pub fn not_run(scale: &Scale, spec: &Spec, command: &str) -> Cell {
        Cell {
            scale: scale.name.into(),
            contender: spec.name.into(),
            command: command.into(),
            objects: scale.objects,
            body: scale.body,
            capacity: scale.capacity(),
            memory: None,
            cold: false,
            filled: None,
            asked: None,
            served: None,
        }
    }

    fn rounds(&self, depth: usize) -> impl Iterator<Item = &Round> {
        let rounds = self.asked.iter().flat_map(|asked| &asked.rounds);
        rounds.filter(move |round| round.contender.depth == depth)
    }

    /// Of the rounds at a depth, the median.
    fn gets(&self, depth: usize, figure: fn(&Gets) -> f64) -> Option<f64> {
        median(self.rounds(depth).map(|round| figure(&round.contender)))
    }

    fn bare(&self, depth: usize, figure: fn(&Gets) -> f64) -> Option<f64> {
        median(self.rounds(depth).filter_map(|round| round.bare.as_ref()).map(figure))
    }

    fn lap(&self, figure: fn(&Puts, &Cell) -> f64) -> Option<f64> {
        Some(figure(self.filled.as_ref()?.lap.as_ref()?, self))
    }

    /// Objects that it holds in the end, about.
    fn held(&self) -> Option<f64> {
        self.filled.as_ref().map(|filled| filled.kept * self.objects as f64)
    }
}

#[derive(Serialize)]
pub struct Report {
    machine: Machine,
    cells: Vec<Cell>,
    #[serde(skip)]
    out: PathBuf,
}

/// A row of the table: what it says of a cell, and of the bare loop beside it.
struct Figure {
    name: &'static str,
    of: fn(&Cell) -> Option<f64>,
    bare: fn(&Cell) -> Option<f64>,
    digits: usize,
}

fn per(whole: f64, count: u64) -> f64 {
    whole / count.max(1) as f64
}

fn put_us(puts: &Puts, _: &Cell) -> f64 {
    per(puts.cost.cpu_seconds * 1e6, puts.objects)
}
fn a_second(gets: &Gets) -> f64 {
    gets.gets as f64 / gets.cost.seconds
}
fn get_us(gets: &Gets) -> f64 {
    per(gets.cost.cpu_seconds * 1e6, gets.gets)
}
fn reads(gets: &Gets) -> f64 {
    per(gets.cost.device_reads as f64, gets.gets)
}
fn read_bytes(gets: &Gets) -> f64 {
    per(gets.cost.own_read_bytes as f64, gets.gets)
}

const NONE: fn(&Cell) -> Option<f64> = |_| None;

const FIGURES: [Figure; 22] = [
    Figure {
        name: "puts a second, empty disk",
        of: |cell| cell.filled.as_ref().map(|filled| filled.fill.objects as f64 / filled.fill.cost.seconds),
        bare: NONE,
        digits: 0,
    },
    Figure {
        name: "puts a second, full disk",
        of: |cell| cell.lap(|puts, _| puts.objects as f64 / puts.cost.seconds),
        bare: NONE,
        digits: 0,
    },
    Figure { name: "  processor µs a put", of: |cell| cell.lap(put_us), bare: NONE, digits: 2 },
    Figure {
        name: "  device bytes a byte put",
        of: |cell| {
            cell.lap(|puts, cell| {
                puts.cost.device_written_bytes as f64 / (puts.objects * cell.body as u64) as f64
            })
        },
        bare: NONE,
        digits: 3,
    },
    Figure {
        name: "% of the objects kept",
        of: |cell| cell.filled.as_ref().map(|filled| filled.kept * 100.0),
        bare: NONE,
        digits: 1,
    },
    Figure {
        name: "gets a second, one at once",
        of: |c| c.gets(1, a_second),
        bare: |c| c.bare(1, a_second),
        digits: 0,
    },
    Figure {
        name: "  processor µs a get",
        of: |c| c.gets(1, get_us),
        bare: |c| c.bare(1, get_us),
        digits: 2,
    },
    Figure {
        name: "  median µs",
        of: |c| c.gets(1, |g| g.p50_us),
        bare: |c| c.bare(1, |g| g.p50_us),
        digits: 0,
    },
    Figure {
        name: "  99 % µs",
        of: |c| c.gets(1, |g| g.p99_us),
        bare: |c| c.bare(1, |g| g.p99_us),
        digits: 0,
    },
    Figure { name: "  device reads a get", of: |c| c.gets(1, reads), bare: |c| c.bare(1, reads), digits: 2 },
    Figure {
        name: "  bytes read a get",
        of: |c| c.gets(1, read_bytes),
        bare: |c| c.bare(1, read_bytes),
        digits: 0,
    },
    Figure {
        name: "gets a second, 16 at once",
        of: |c| c.gets(16, a_second),
        bare: |c| c.bare(16, a_second),
        digits: 0,
    },
    Figure {
        name: "  processor µs a get",
        of: |c| c.gets(16, get_us),
        bare: |c| c.bare(16, get_us),
        digits: 2,
    },
    Figure {
        name: "  median µs",
        of: |c| c.gets(16, |g| g.p50_us),
        bare: |c| c.bare(16, |g| g.p50_us),
        digits: 0,
    },
    Figure {
        name: "  99 % µs",
        of: |c| c.gets(16, |g| g.p99_us),
        bare: |c| c.bare(16, |g| g.p99_us),
        digits: 0,
    },
    Figure {
        name: "resident MiB",
        of: |cell| cell.filled.as_ref().map(|filled| filled.resident as f64 / (1 << 20) as f64),
        bare: NONE,
        digits: 0,
    },
    Figure {
        name: "  bytes an object held",
        of: |cell| {
            let filled = cell.filled.as_ref()?;
            Some(filled.resident.saturating_sub(filled.resident_empty) as f64 / cell.held()?)
        },
        bare: NONE,
        digits: 1,
    },
    Figure {
        name: "  the same after the restart",
        of: |cell| Some(cell.asked.as_ref()?.resident as f64 / cell.held()?),
        bare: NONE,
        digits: 1,
    },
    Figure { name: "restart: open, ms", of: |c| Some(c.asked.as_ref()?.open_ms), bare: NONE, digits: 0 },
    Figure { name: "  first hit, ms", of: |c| Some(c.asked.as_ref()?.first_hit_ms), bare: NONE, digits: 0 },
    Figure {
        name: "  1,000 asked for, ms",
        of: |c| Some(c.asked.as_ref()?.thousand_ms),
        bare: NONE,
        digits: 0,
    },
    Figure {
        name: "  of them found",
        of: |c| Some(c.asked.as_ref()?.thousand_found as f64),
        bare: NONE,
        digits: 0,
    },
];

impl Report {
    pub fn new(machine: Machine, out: PathBuf, add: bool) -> Result<Report, String> {
        #[derive(Deserialize)]
        struct Earlier {
            cells: Vec<Cell>,
        }
        let path = out.join("store.json");
        let cells = match add.then(|| std::fs::read_to_string(&path)) {
            Some(Ok(text)) => {
                let earlier: Result<Earlier, _> = serde_json::from_str(&text);
                earlier.map_err(|e| format!("{}: {e}", path.display()))?.cells
            }
            _ => Vec::new(),
        };
        Ok(Report { machine, cells, out })
    }

    pub fn take(&mut self, cell: Cell) {
        self.cells.retain(|other| (&other.scale, &other.contender) != (&cell.scale, &cell.contender));
        self.cells.push(cell);
    }

    pub fn write(&self) -> Result<(), String> {
        let json = serde_json::to_string_pretty(self).map_err(|e| e.to_string())? + "\n";
        for (name, text) in [("store.json", json), ("store.txt", self.text())] {
            let path = self.out.join(name);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        let commands: std::collections::BTreeSet<&str> =
            self.cells.iter().map(|cell| cell.command.as_str()).collect();
        commands.iter().for_each(|command| {
            let _ = writeln!(text, "# {command}");
        });
        let machine = &self.machine;
        let _ = writeln!(
            text,
            "\n{}, {} cores, {} MiB; {}; {}\n{}, commit {}, {}\n",
            machine.cpu,
            machine.cores,
            machine.memory_bytes >> 20,
            machine.kernel,
            machine.file_system_device,
            machine.cosm,
            machine.commit,
            machine.rustc
        );
        text += WORDS;
        for spec in &contender::ALL {
            if self.cells.iter().any(|cell| cell.contender == spec.name) {
                let _ = writeln!(text, "- {}: {}", spec.name, spec.about);
            }
        }
        text += "- bare: a loop of direct reads of as many bytes of the same file by io_uring, by one thread, with nothing around it; \
                 in the process of cosm, right after each of its rounds\n";
        for scale in &scale::ALL {
            let cells: Vec<&Cell> = contender::ALL
                .iter()
                .filter_map(|spec| {
                    self.cells.iter().find(|cell| cell.scale == scale.name && cell.contender == spec.name)
                })
                .collect();
            if !cells.is_empty() {
                self.of_scale(&mut text, scale, &cells);
            }
        }
        text
    }

    fn of_scale(&self, text: &mut String, scale: &Scale, cells: &[&Cell]) {
        let memory = match cells.iter().find_map(|cell| cell.memory) {
            Some(bytes) => format!("{} MiB of memory and page cache", bytes >> 20),
            None => "memory not limited".into(),
        };
        let cold = if cells.iter().any(|cell| cell.cold) {
            "page cache dropped before the restart"
        } else {
            "page cache NOT dropped"
        };
        let _ = writeln!(
            text,
            "\n{}: {} objects of {} bytes; {} MiB of disk, {memory}, each; {cold}\n",
            scale.name,
            thousands(scale.objects as f64),
            thousands(scale.body as f64),
            thousands((scale.capacity() >> 20) as f64),
        );
        if let Some(hollow) = scale.hollow() {
            let _ = writeln!(
                text,
                "A sparse file: of every {}th object the record is written, of the others neither head nor body; everything else is as in any \
                 cache. Bare reads a file of 1 GiB.\n",
                hollow.every
            );
        }
        let ran: Vec<&&Cell> = cells.iter().filter(|cell| cell.filled.is_some()).collect();
        for cell in cells.iter().filter(|cell| cell.filled.is_none()) {
            let takes = contender::named(&cell.contender).map_or(0, |spec| (spec.takes)(cell.body as u64));
            let gigabytes = (takes * cell.objects) as f64 / 1e9;
            let _ = writeln!(text, "{}: not run, needs {gigabytes:.0} GB of disk", cell.contender);
        }
        let ours = ran.iter().find(|cell| cell.contender == "cosm");
        let _ = write!(text, "{:<30}", "");
        ran.iter().for_each(|cell| {
            let _ = write!(text, "{:>20}", cell.contender);
        });
        let has_bare = ours.is_some_and(|cell| cell.bare(1, a_second).is_some());
        let _ = writeln!(text, "{}", if has_bare { format!("{:>20}", "bare") } else { String::new() });
        for figure in &FIGURES {
            let own = ours.and_then(|cell| (figure.of)(cell));
            let mut line = format!("{:<30}", figure.name);
            for cell in &ran {
                line += &shown((figure.of)(cell), own, figure.digits, cell.contender == "cosm");
            }
            if has_bare {
                line += &shown(ours.and_then(|cell| (figure.bare)(cell)), own, figure.digits, false);
            }
            if line.len() > 30 && ran.iter().any(|cell| (figure.of)(cell).is_some()) {
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        for cell in &ran {
            let ratios = DEPTHS.map(|depth| beside_bare(cell, depth));
            if let [Some(one), Some(many)] = ratios {
                let _ = writeln!(
                    text,
                    "{} beside bare, round by round: one at once {one}; 16 at once {many}",
                    cell.contender
                );
            }
        }
        for served in ran.iter().filter_map(|cell| cell.served.as_ref()) {
            let _ = writeln!(
                text,
                "cosm serve after kill -9: listens after {:.0} ms; first hit after {:.0} ms; 1,000 random ones one after the other: {} hits by {:.0} ms, the \
                 slowest {:.0} ms; index loaded after {}; {} MiB resident",
                served.ready_ms,
                served.first_hit_ms,
                served.thousand_hits,
                served.thousand_ms,
                served.slowest_ms,
                served.loaded_ms.map_or("–".into(), |ms| format!("{ms:.0} ms")),
                served.resident >> 20
            );
        }
    }
}

const WORDS: &str = "\
Every contender is filled with the objects of its scale, then with as many others, so that the first ones leave (full disk: that lap), until \
all is flushed; then it is killed. A new process opens what is left and is asked for objects that are there, uniformly at random. Medians of \
rounds; in brackets the ratio to cosm. Processor time is user and system of all threads of the process, not of the kernel's own (write-back). \
Device reads and written bytes are the whole device's (/proc/diskstats), bytes read the process's (/proc/PID/io). Resident is RssAnon, not \
pages of files; per object after subtracting what the empty contender took.

";

/// What a get takes beside the bare loop's, by the clock and by the processor: the median of the rounds, and their range.
fn beside_bare(cell: &Cell, depth: usize) -> Option<String> {
    let ratios = |figure: fn(&Gets) -> f64| -> Vec<f64> {
        let rounds = cell.rounds(depth);
        rounds.filter_map(|round| Some(figure(&round.contender) / figure(round.bare.as_ref()?))).collect()
    };
    let say = |ratios: Vec<f64>| {
        let (least, most) = spread(ratios.iter().copied());
        median(ratios).map(|ratio| format!("{ratio:.2} ({least:.2} to {most:.2})"))
    };
    let time = say(ratios(|gets| gets.cost.seconds / gets.gets as f64))?;
    let processor = say(ratios(get_us))?;
    Some(format!("{time} of its time, {processor} of its processor time"))
}

fn shown(figure: Option<f64>, own: Option<f64>, digits: usize, is_own: bool) -> String {
    let Some(figure) = figure else { return format!("{:>20}", "–") };
    let number = if digits == 0 { thousands(figure) } else { format!("{figure:.digits$}") };
    let ratio = own.filter(|own| !is_own && *own > 0.0).map(|own| figure / own);
    let ratio = ratio.map_or(String::new(), |ratio| match ratio {
        ratio if ratio >= 99.5 => format!(" ({ratio:.0})"),
        ratio if ratio >= 9.95 => format!(" ({ratio:.1})"),
        ratio => format!(" ({ratio:.2})"),
    });
    format!("{:>20}", number + &ratio)
}
