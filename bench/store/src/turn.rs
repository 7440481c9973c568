//! One contender at one scale, in a process of its own. It is filled, and filled over, and killed by its parent; a second process opens
//! what is left, and asks for it.

use crate::bare;
use crate::contender::{self, Contender, Place};
use crate::drive::{Ask, Cost, Tally};
use crate::hollow::Hollow;
use crate::meter::{Meter, resident};
use crate::object::{Bodies, Numbers};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turn {
    pub contender: String,
    pub folder: PathBuf,
    pub capacity: u64,
    pub objects: u64,
    pub body: usize,
    pub hollow: Option<Hollow>,
    /// Control groups to be in.
    pub groups: Vec<PathBuf>,
    pub part: Part,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Part {
    Fill,
    Ask {
        /// What is durable.
        numbers: Numbers,
        rounds: usize,
        seconds: f64,
        /// What the bare loop reads where the contender has no file for it.
        yard: Option<PathBuf>,
    },
}

/// Puts, from the first one until all is in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Puts {
    pub objects: u64,
    pub cost: Cost,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Filled {
    pub fill: Puts,
    /// As many again, for which the first ones leave.
    pub lap: Option<Puts>,
    /// The newest, of which nearly all are there.
    pub durable: Numbers,
    /// How many that is of all that there might be.
    pub kept: f64,
    /// Own memory, after opening and in the end.
    pub resident_empty: u64,
    pub resident: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Gets {
    pub depth: usize,
    pub gets: u64,
    pub hits: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub cost: Cost,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// From the start of the process.
    pub open_ms: f64,
    pub first_hit_ms: f64,
    /// Asked 16 at once.
    pub thousand_ms: f64,
    pub thousand_found: u64,
    pub settled_ms: f64,
    pub resident: u64,
    pub rounds: Vec<Round>,
}

/// The contender, and the bare loop right after it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    pub contender: Gets,
    pub bare: Option<Gets>,
}

pub const DEPTHS: [usize; 2] = [1, 16];
const PROBES: u64 = 4_000;
/// Of what is asked for when it is looked for what is there: more are missed only where much is gone.
const MISSES: f64 = 0.005;
/// A survey ends when it has asked enough, not by time.
const LONG: Duration = Duration::from_secs(3600);

pub fn run(turn: &Turn, began: Instant) -> Result<(), String> {
    for group in &turn.groups {
        let joined = std::fs::write(group.join("cgroup.procs"), "0");
        joined.map_err(|e| format!("join {}: {e}", group.display()))?;
    }
    let spec = contender::named(&turn.contender).ok_or("no such contender")?;
    let place = Place {
        folder: &turn.folder,
        capacity: turn.capacity,
        objects: turn.objects,
        body: turn.body,
        hollow: turn.hollow.clone(),
        again: !matches!(turn.part, Part::Fill),
    };
    let mut contender = (spec.open)(&place)?;
    let said = match &turn.part {
        Part::Fill => serde_json::to_string(&fill(turn, &mut *contender)?),
        Part::Ask { numbers, rounds, seconds, yard } => {
            let lasts = Duration::from_secs_f64(*seconds);
            serde_json::to_string(&ask(
                turn,
                &mut *contender,
                began,
                numbers,
                (*rounds, lasts),
                yard.as_ref(),
            )?)
        }
    };
    println!("{}", said.map_err(|e| e.to_string())?);
    // The parent kills.
    std::thread::sleep(LONG);
    Ok(())
}

fn fill(turn: &Turn, contender: &mut dyn Contender) -> Result<Filled, String> {
    let resident_empty = resident();
    let fill = puts(turn, contender, 0)?;
    // A log that is hollow is not written twice.
    let lap = turn.hollow.is_none().then(|| puts(turn, contender, turn.objects)).transpose()?;
    let in_the_end = resident();
    let numbers = match &turn.hollow {
        Some(hollow) => hollow.numbers(turn.objects),
        None => Numbers { range: turn.objects..2 * turn.objects, every: 1 },
    };
    let survey =
        Ask { numbers: numbers.clone(), depth: 16, lasts: LONG, most: PROBES.min(turn.objects), seed: 1 };
    let durable = durable(numbers.clone(), contender.gets(&survey)?)?;
    let share = |numbers: &Numbers| (numbers.range.end - numbers.range.start) as f64;
    let kept = share(&durable) / share(&numbers);
    Ok(Filled { fill, lap, durable, kept, resident_empty, resident: in_the_end })
}

fn puts(turn: &Turn, contender: &mut dyn Contender, from: u64) -> Result<Puts, String> {
    let (bodies, mut body) = (Bodies::new(turn.body), Vec::new());
    let zeros = vec![0; turn.body];
    let meter = Meter::start(&turn.folder)?;
    for number in from..from + turn.objects {
        match &turn.hollow {
            Some(hollow) if !hollow.has(number) => contender.put(number, &zeros)?,
            _ => {
                bodies.fill(number, &mut body);
                contender.put(number, &body)?;
            }
        }
        if number % 1_000_000 == 999_999 {
            eprintln!("    {} million put", (number + 1) / 1_000_000);
        }
    }
    contender.flush()?;
    Ok(Puts { objects: turn.objects, cost: meter.stop()? })
}

/// The newest of all numbers, as far back as they are there.
fn durable(numbers: Numbers, survey: Tally) -> Result<Numbers, String> {
    if survey.wrong > 0 {
        return Err(format!("{} of {} gets gave another body", survey.wrong, survey.gets));
    }
    let (mut asked, mut missed) = (survey.asked, survey.missed);
    asked.sort_unstable_by(|a, b| b.cmp(a));
    missed.sort_unstable_by(|a, b| b.cmp(a));
    // Each number missed is the end, unless those before it are few of those asked for there.
    let oldest = missed.iter().enumerate().find_map(|(before, number)| {
        let so_far = asked.partition_point(|asked| asked >= number);
        (so_far > 50 && (before + 1) as f64 > MISSES * so_far as f64).then_some(number + 1)
    });
    let start = oldest.unwrap_or(numbers.range.start);
    if start >= numbers.range.end {
        return Err("nothing of what was put is there".into());
    }
    let start = start.next_multiple_of(numbers.every);
    Ok(Numbers { range: start..numbers.range.end, ..numbers })
}

fn ask(
    turn: &Turn,
    contender: &mut dyn Contender,
    began: Instant,
    numbers: &Numbers,
    (rounds, lasts): (usize, Duration),
    yard: Option<&PathBuf>,
) -> Result<Asked, String> {
    let millis = || began.elapsed().as_secs_f64() * 1000.0;
    let open_ms = millis();
    let one = Ask { numbers: numbers.clone(), depth: 1, lasts: Duration::from_secs(600), most: 1, seed: 2 };
    let mut hit = contender.gets(&one)?.hits == 1;
    // One that is gone, or not loaded yet: another is asked for.
    for seed in 100..1_000_000 {
        if hit {
            break;
        }
        hit = contender.gets(&Ask { seed, ..one.clone() })?.hits == 1;
    }
    let first_hit_ms = millis();
    let thousand = contender.gets(&Ask { depth: 16, most: 1000, seed: 3, ..one.clone() })?;
    let thousand_ms = millis();
    contender.settle();
    let settled_ms = millis();
    let resident = resident();
    let file = contender.file().or_else(|| yard.cloned());
    let mut asked = Vec::new();
    for (nth, depth) in (0..rounds).flat_map(|nth| DEPTHS.map(|depth| (nth, depth))) {
        let ask = Ask { numbers: numbers.clone(), depth, lasts, most: u64::MAX, seed: 10 + nth as u64 };
        let meter = Meter::start(&turn.folder)?;
        let tally = contender.gets(&ask)?;
        let of_contender = gets(depth, tally, meter.stop()?)?;
        let bare = match &file {
            Some(file) => {
                let meter = Meter::start(&turn.folder)?;
                let tally = bare::gets(file, turn.body.next_multiple_of(4096), &ask)?;
                Some(gets(depth, tally, meter.stop()?)?)
            }
            None => None,
        };
        asked.push(Round { contender: of_contender, bare });
    }
    Ok(Asked {
        open_ms,
        first_hit_ms,
        thousand_ms,
        thousand_found: thousand.hits,
        settled_ms,
        resident,
        rounds: asked,
    })
}

fn gets(depth: usize, mut tally: Tally, cost: Cost) -> Result<Gets, String> {
    if tally.wrong > 0 {
        return Err(format!("{} of {} gets gave another body", tally.wrong, tally.gets));
    }
    Ok(Gets {
        depth,
        gets: tally.gets,
        hits: tally.hits,
        p50_us: tally.quantile_us(0.5),
        p99_us: tally.quantile_us(0.99),
        // Without what it takes to make and end a runtime or threads.
        cost: Cost { seconds: tally.took.as_secs_f64(), ..cost },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(asked: impl Iterator<Item = u64> + Clone, missed: impl Fn(&u64) -> bool) -> Tally {
        Tally { missed: asked.clone().filter(missed).collect(), asked: asked.collect(), ..Tally::default() }
    }

    #[test]
    fn what_is_durable_ends_where_much_is_missed() {
        let all = Numbers { range: 0..10_000, every: 1 };
        let of = |missed: &dyn Fn(&u64) -> bool| {
            durable(all.clone(), survey((0..10_000).step_by(5), missed)).unwrap()
        };
        assert_eq!(of(&|_| false), all);
        assert_eq!(of(&|n| *n == 500), all, "one that is missing is not the end");
        let half = of(&|n| *n < 5_000).range;
        assert!((4_900..=5_000).contains(&half.start) && half.end == 10_000, "{half:?}");
        assert!(durable(all, survey(0..10_000, |_| true)).is_ok_and(|left| left.range.start > 9_900));
    }
}
