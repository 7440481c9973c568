//! The closed loop (Maltzahn, chapters 6 and 7, in simulated time): a synthetic world's crowd asks through the real cache and store,
//! and in the night before a working day's peak somebody fetches what the peak may ask for.
//!
//! At midnight the sites' inventories, without what the cache holds, are the candidates. A strategy chooses of them within the room that the
//! night has under the target level (6.2); what it chose is fetched by half past four, each quarter of an hour up to that level. Then the
//! peak shows what it was worth, and the next night learns from that.
//!
//! What always holds: all bytes from sites are in `levels`, those fetched ahead too; the same settings and seed give the same figures;
//! with `Strategy::Nothing`, it is a plain replay.

mod gateway;
mod strategy;
#[cfg(test)]
mod tests;

pub use gateway::{Gateway, Outcome, Served};
pub use strategy::Strategy;

use learn::candidate::{Beside, Candidate, Encoding, History, NON_PREFETCHABLE, PREFETCHABLE, section};
use learn::examples::Examples;
use learn::judge::Judge;
use learn::plan::{Order, Planner};
use learn::ripper::Learner;
use learn::target::{Performance, Usage};
use serde::Serialize;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use trace::inventory::Row;
use trace::random::Random;
use trace::world::{self, Day, DayKind, World};
use trace::{Access, hash};

#[derive(Clone, Debug)]
pub struct Settings {
    pub world: world::Settings,
    pub seed: u64,
    /// Bytes of the cache.
    pub space: u64,
    /// The first day, from 0, in whose night something is fetched; the nights since the day before it are learned from.
    pub first: u32,
    /// Nights that are learned from: the last so many.
    pub nights: usize,
    /// Share of the examples of what was not asked for that is learned from, with weights that make up for the others. Of what was modified
    /// lately all are: there are few, and most of what is asked for is among them.
    pub negatives: f64,
    /// What is learned from, by name; all attributes where there is none.
    pub attributes: Vec<String>,
    /// Nothing is fetched that is less likely than this to be asked for.
    pub confidence: f64,
    pub learner: Learner,
    /// Sets of rules that are boosted.
    pub rounds: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        let learner = Learner { positive: Some(PREFETCHABLE.into()), ..Learner::default() };
        Settings {
            world: world::Settings::default(),
            seed: 1,
            space: 8 << 30,
            first: 3,
            nights: 2,
            negatives: 0.05,
            attributes: Vec::new(),
            confidence: 0.5,
            learner,
            rounds: 10,
        }
    }
}

/// Quarters of an hour in a day.
pub const QUARTERS: usize = 96;
/// Seconds of one.
const QUARTER: u64 = 900;
const DAY: u64 = QUARTER * QUARTERS as u64;
/// The peak of the thesis: from the 18th quarter to the 66th.
const PEAK: Range<usize> = 18..66;
/// Seconds since which what was modified is new to the crowd: the longest it looks back.
const LATELY: u64 = 3 * DAY;
/// Objects that the history remembers.
const REMEMBERED: usize = 4_000_000;

/// What a strategy did in all days.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    pub strategy: &'static str,
    pub seed: u64,
    pub peaks: Vec<Night>,
    /// Bytes from the sites in each quarter of an hour, and those of them that were fetched ahead.
    pub levels: Vec<u64>,
    pub ahead: Vec<u64>,
    pub requests: u64,
    pub hits: u64,
    pub validated: u64,
    pub outdated: u64,
    /// Bytes that clients got.
    pub bytes: u64,
}

/// A night, and the peak after it. Bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Night {
    /// From 0.
    pub day: u32,
    pub candidates: u64,
    pub candidate_bytes: u64,
    /// What was to be had: of the candidates, what the peak asked for unaltered.
    pub prefetchable: u64,
    pub budget: u64,
    pub chosen: u64,
    /// B_+, and what of it the peak asked for unaltered: B_++.
    pub fetched: u64,
    pub used: u64,
    /// What of it the peak asked for, but found altered.
    pub altered: u64,
    /// The highest quarter of an hour of the peak.
    pub highest: u64,
    /// The highest quarter of an hour of the night.
    pub highest_ahead: u64,
    /// What the peak got from the sites.
    pub peak: u64,
    /// The target level that the night was planned for.
    pub target: u64,
    /// Of `Strategy::Habits`: the candidates by how likely they were, the surest first.
    pub likely: Vec<Likely>,
}

/// Candidates of a range of likelihoods; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Likely {
    /// At least so likely, and less than those before it. 0 is of those that no draw of the day asked for.
    pub from: f32,
    pub offered: u64,
    /// What the peak asked for of it.
    pub prefetchable: u64,
}

/// Where the ranges begin.
const LIKELY: [f32; 6] = [0.9, 0.7, 0.5, 0.1, 0.005, 0.0];

impl Night {
    /// P_a; none where nothing was fetched.
    pub fn accuracy(&self) -> Option<f64> {
        (self.fetched > 0).then(|| self.used as f64 / self.fetched as f64)
    }

    /// P_c; none where nothing was to be had.
    pub fn coverage(&self) -> Option<f64> {
        (self.prefetchable > 0).then(|| self.used as f64 / self.prefetchable as f64)
    }

    /// P_t; none where nothing that was fetched was asked for.
    pub fn timeliness(&self) -> Option<f64> {
        let asked = self.used + self.altered;
        (asked > 0).then(|| self.used as f64 / asked as f64)
    }
}

impl Run {
    /// Bytes of all nights: fetched, used, prefetchable, altered.
    pub fn totals(&self) -> Night {
        let mut all = Night::default();
        for night in &self.peaks {
            all.fetched += night.fetched;
            all.used += night.used;
            all.prefetchable += night.prefetchable;
            all.altered += night.altered;
            all.peak += night.peak;
            all.highest = all.highest.max(night.highest);
        }
        all
    }
}

/// What is known of a candidate until its peak is over. Versions are dates of modification.
struct Known {
    /// Of the examples, where it is one.
    row: Option<u32>,
    size: u32,
    /// Of those whom `Strategy::draws` tell.
    likelihood: f32,
    /// Of what is new since the midnight before.
    section: Option<u64>,
    /// The version that was fetched ahead, and that which somebody asked for in the night.
    fetched: Option<u64>,
    asked: Option<u64>,
    /// The peak missed it, or would have, in a version that was there before the peak (6.2.1); in that which was fetched.
    used: bool,
    hit: bool,
    altered: bool,
}

/// A night that is under way, and its peak.
struct Tonight {
    begins: u64,
    night: Night,
    known: HashMap<u64, Known>,
    beside: Beside,
    /// As they were at midnight, for those who learn.
    examples: Option<Examples>,
    /// What is still to be fetched, the first at the end.
    to_fetch: Vec<(String, u64)>,
    /// How much of each quarter of the night may be fetched ahead.
    room: Vec<u64>,
}

/// Goes through all days. `progress` is told of each.
pub fn run(
    settings: &Settings,
    strategy: Strategy,
    progress: &mut dyn FnMut(Day, &Run),
) -> Result<Run, String> {
    let Settings { seed, .. } = *settings;
    let mut world = World::new(settings.world.clone(), seed)?;
    let mut gateway = Gateway::new(settings.space, settings.world.begins, seed)?;
    let mut state = State {
        settings,
        strategy,
        encoding: match &settings.attributes[..] {
            [] => Encoding::all(),
            names => Encoding::named(names.iter().map(String::as_str))?,
        },
        history: History::new(REMEMBERED),
        kept: HashMap::new(),
        lessons: VecDeque::new(),
        demand: VecDeque::new(),
        usage: None,
        performance: Performance::PERFECT,
        judge: None,
        random: Random::of(seed ^ 0x6e69_6768_7473),
    };
    let mut run = Run { strategy: strategy.name(), seed, ..Run::default() };
    let mut access = Access::default();
    while let Some(day) = world.next_day() {
        run.levels.resize(run.levels.len() + QUARTERS, 0);
        run.ahead.resize(run.levels.len(), 0);
        let mut tonight = state.begin(&world, &gateway, day)?;
        let mut demand = [0u64; QUARTERS];
        while world.next(&mut access) {
            let second = access.time / 1_000_000 - day.begins;
            let quarter = (second / QUARTER) as usize;
            if let Some(tonight) = &mut tonight {
                state.fetch_ahead(&world, &mut gateway, tonight, quarter, &mut run)?;
            }
            let now = access.time / 1_000_000;
            let offer = world.offer(&access.url, now);
            let served = gateway.ask(&access, offer.as_ref())?;
            let missed = served.outcome == Outcome::Fetched;
            let level = run.levels.len() - QUARTERS + quarter;
            run.levels[level] += served.origin;
            demand[quarter] += served.origin;
            run.requests += 1;
            run.bytes += access.size;
            match served.outcome {
                Outcome::Hit { outdated } => {
                    run.hits += 1;
                    run.outdated += u64::from(outdated);
                }
                Outcome::Validated => {
                    run.hits += 1;
                    run.validated += 1;
                }
                Outcome::Fetched => {}
            }
            if missed && served.stored {
                state.kept.insert(access.object, offer.as_ref().map_or(0, |offer| offer.row.modified));
            }
            let in_peak = PEAK.contains(&quarter);
            let (mut spared, mut is_first) = (false, false);
            if let Some(tonight) = &mut tonight
                && let Some(known) = tonight.known.get_mut(&access.object)
            {
                let in_time = access.modified < tonight.begins + PEAK.start as u64 * QUARTER;
                if !in_peak {
                    // Somebody got it himself: the peak does not miss it.
                    known.asked = (quarter < PEAK.start).then_some(access.modified);
                } else if !known.used && known.asked != Some(access.modified) {
                    is_first = in_time;
                    known.used = in_time;
                    // What was fetched ahead is as it is asked for, or was altered since.
                    spared = known.fetched == Some(access.modified);
                    known.hit |= spared;
                    known.altered |= known.fetched.is_some() && !spared;
                }
            }
            if spared {
                demand[quarter] += access.size;
            }
            if let Some(tonight) = tonight.as_mut().filter(|_| is_first) {
                state.learn_from(&world, tonight, &access)?;
            }
            state.history.note(&access, in_peak && day.kind == DayKind::Weekday, missed || spared);
        }
        if let Some(tonight) = tonight {
            let levels = &run.levels[run.levels.len() - QUARTERS..];
            run.peaks.extend(state.end(tonight, levels));
        }
        state.close(day, demand);
        progress(day, &run);
    }
    Ok(run)
}

struct State<'s> {
    settings: &'s Settings,
    strategy: Strategy,
    encoding: Encoding,
    history: History,
    /// Which version of each object was put into the cache last, by the number of its URL.
    kept: HashMap<u64, u64>,
    /// Examples of the nights before.
    lessons: VecDeque<Examples>,
    /// What each quarter would have got without prefetching, of the last working day.
    demand: VecDeque<[u64; QUARTERS]>,
    /// Of the last peak.
    usage: Option<Usage>,
    performance: Performance,
    judge: Option<Box<dyn Judge>>,
    random: Random,
}

impl State<'_> {
    /// At midnight: what could be fetched, and what is chosen of it. Nothing where no peak follows.
    fn begin(&mut self, world: &World, gateway: &Gateway, day: Day) -> Result<Option<Tonight>, String> {
        let Settings { first, negatives, .. } = *self.settings;
        if day.kind != DayKind::Weekday || day.number == 0 {
            return Ok(None);
        }
        let fetches = day.number >= first;
        let teaches = self.strategy.learns() && self.teaches(day.number);
        let mut tonight = Tonight {
            begins: day.begins,
            night: Night { day: day.number, ..Night::default() },
            known: HashMap::new(),
            beside: Beside::default(),
            examples: teaches.then(|| self.encoding.examples()),
            to_fetch: Vec::new(),
            room: Vec::new(),
        };
        if fetches {
            self.budget(&mut tonight);
            self.learn()?;
        }
        let judge = self.judge.take().filter(|_| fetches);
        let order = Order {
            budget: tonight.night.budget,
            night: day.begins,
            query_rules: Default::default(),
            confidence: self.confidence(),
        };
        let asked = judge.as_ref().map(|judge| judge.attributes()).unwrap_or_default();
        let mut planner = match &judge {
            Some(judge) if !asked.is_empty() => Some(Planner::new(&**judge, Encoding::named(asked)?, order)),
            _ => None,
        };
        let future = if fetches { asked_for(world, day, self.strategy.draws()) } else { HashMap::new() };
        let (mut scratch, mut foreseen) = (Access::default(), Vec::new());
        if self.strategy.learns() && self.encoding.asks_beside() {
            world.inventory(day.begins).for_each(|row| tonight.beside.note(&row));
        }
        for row in world.inventory(day.begins) {
            let Some((object, size)) = self.candidate(gateway, &row) else { continue };
            let is_new = row.modified + DAY > day.begins;
            let is_example = tonight.examples.is_some()
                && (row.modified + LATELY > day.begins || self.random.unit() < negatives);
            let likelihood = future.get(&(object, row.modified)).copied().unwrap_or(0.0);
            let known = Known {
                row: tonight.examples.as_ref().filter(|_| is_example).map(|examples| examples.len() as u32),
                size,
                likelihood,
                section: is_new.then(|| section(&row.url)),
                fetched: None,
                asked: None,
                used: false,
                hit: false,
                altered: false,
            };
            if tonight.known.insert(object, known).is_some() {
                return Err(format!("{} is twice in an inventory", row.url));
            }
            tonight.night.candidates += 1;
            tonight.night.candidate_bytes += row.size;
            if likelihood > 0.0 && likelihood >= self.settings.confidence as f32 {
                foreseen.push((likelihood, row.size, row.url.clone(), object));
            }
            if planner.is_some() || is_example {
                let mut candidate = Candidate { row, ..Candidate::default() };
                candidate.remember(&self.history, &tonight.beside, &mut scratch);
                if let Some(examples) = tonight.examples.as_mut().filter(|_| is_example) {
                    let was_lately = candidate.row.modified + LATELY > day.begins;
                    self.encoding.push(&candidate, day.begins, NON_PREFETCHABLE, examples)?;
                    if !was_lately {
                        examples.scale_weight(examples.len() - 1, 1.0 / negatives);
                    }
                }
                if let Some(planner) = &mut planner {
                    planner.add(candidate, false)?;
                }
            }
        }
        if let Some(planner) = planner {
            let plan = planner.finish()?;
            let named = plan.lines.into_iter().map(|line| {
                let object = hash(line.url.as_bytes());
                (line.url, object)
            });
            tonight.to_fetch = named.collect();
            tonight.night.chosen = plan.bytes;
        }
        // Of what is equally sure the smaller ones first: more of them fit.
        foreseen.sort_by(|one, other| {
            other.0.total_cmp(&one.0).then_with(|| (one.1, &one.2).cmp(&(other.1, &other.2)))
        });
        for (_, size, url, object) in foreseen {
            if tonight.night.chosen + size <= tonight.night.budget {
                tonight.night.chosen += size;
                tonight.to_fetch.push((url, object));
            }
        }
        tonight.to_fetch.reverse();
        self.judge = judge;
        Ok(Some(tonight))
    }

    /// Whether something is learned from the night of a day.
    fn teaches(&self, day: u32) -> bool {
        let Settings { first, nights, .. } = *self.settings;
        day + 1 + nights as u32 * 2 > first
    }

    /// From the nights before, unless what was learned before is to stay.
    fn learn(&mut self) -> Result<(), String> {
        let Settings { learner, rounds, .. } = self.settings;
        let mut all = self.encoding.examples();
        self.lessons.iter().try_for_each(|night| all.append(night))?;
        self.judge = self.strategy.judge(&all, learner, *rounds)?;
        Ok(())
    }

    /// What was asked for in the peak for the first time is an example, of what the night knew of it.
    fn learn_from(&mut self, world: &World, tonight: &mut Tonight, access: &Access) -> Result<(), String> {
        let (Some(examples), Some(known)) = (&mut tonight.examples, tonight.known.get(&access.object)) else {
            return Ok(());
        };
        if let Some(row) = known.row {
            let row = row as usize;
            let weight = examples.weights()[row];
            examples.set_class(row, PREFETCHABLE);
            examples.scale_weight(row, f64::from(known.size) / weight);
            return Ok(());
        }
        let Some(offer) = world.offer(&access.url, tonight.begins) else { return Ok(()) };
        let mut candidate = Candidate { row: offer.row, ..Candidate::default() };
        candidate.remember(&self.history, &tonight.beside, &mut Access::default());
        self.encoding.push(&candidate, tonight.begins, PREFETCHABLE, examples)
    }

    /// Heuristics are as unsure as they are.
    fn confidence(&self) -> f64 {
        if self.strategy.learns() { self.settings.confidence } else { 0.0 }
    }

    /// Number and size, where it may be fetched and is not in the cache.
    fn candidate(&self, gateway: &Gateway, row: &Row) -> Option<(u64, u32)> {
        let object = hash(row.url.as_bytes());
        let held = || self.kept.get(&object) == Some(&row.modified) && gateway.holds(&row.url, row.modified);
        (row.cacheable && row.size > 0 && !held()).then(|| (object, row.size.min(u32::MAX.into()) as u32))
    }

    /// The target level by the last working day's use, and the room under it.
    fn budget(&self, tonight: &mut Tonight) {
        let (Some(usage), Some(demand)) = (self.usage, self.demand.back()) else { return };
        let Ok(target) = usage.target(self.performance) else { return };
        let level = target.target_level;
        let room = demand[..PEAK.start].iter().map(|used| (level - *used as f64).max(0.0) as u64);
        tonight.room = room.collect();
        tonight.night.budget = tonight.room.iter().sum();
        tonight.night.target = level as u64;
    }

    /// Until a quarter of the day: what each quarter before it, and it, has room for.
    fn fetch_ahead(
        &mut self,
        world: &World,
        gateway: &mut Gateway,
        tonight: &mut Tonight,
        quarter: usize,
        run: &mut Run,
    ) -> Result<(), String> {
        let day = run.levels.len() - QUARTERS;
        for nth in 0..=quarter.min(PEAK.start - 1) {
            if tonight.room.get(nth).is_none_or(|room| *room == 0) {
                continue;
            }
            let now = tonight.begins + nth as u64 * QUARTER;
            while tonight.room[nth] > 0 {
                let Some((url, object)) = tonight.to_fetch.pop() else { return Ok(()) };
                let Some(offer) = world.offer(&url, now).filter(|offer| offer.row.cacheable) else {
                    continue;
                };
                // It is not at its end before the peak.
                if offer.row.size > tonight.room[nth..].iter().sum() {
                    continue;
                }
                let mut access = Access { size: offer.row.size, ..Access::default() };
                access.set_url(url.as_bytes());
                access.time = now * 1_000_000;
                let served = gateway.renew(&access, &offer)?;
                // It goes on in the quarters that follow.
                let mut left = served.origin;
                for (at, room) in tonight.room.iter_mut().enumerate().skip(nth) {
                    let some = left.min(*room);
                    (*room, left) = (*room - some, left - some);
                    run.levels[day + at] += some;
                    run.ahead[day + at] += some;
                }
                // Of its head, at the end of the night.
                run.levels[day + PEAK.start - 1] += left;
                run.ahead[day + PEAK.start - 1] += left;
                if served.outcome == Outcome::Fetched {
                    tonight.night.fetched +=
                        u64::from(tonight.known.get(&object).map_or(0, |known| known.size));
                }
                if served.stored {
                    self.kept.insert(object, offer.row.modified);
                }
                if let Some(known) = tonight.known.get_mut(&object) {
                    let fetched = served.stored && served.outcome == Outcome::Fetched;
                    known.fetched = fetched.then_some(offer.row.modified);
                }
            }
        }
        Ok(())
    }

    /// After the peak: what it was worth, and what is to be learned.
    fn end(&mut self, tonight: Tonight, levels: &[u64]) -> Option<Night> {
        let Tonight { mut night, known, examples, .. } = tonight;
        for known in known.values() {
            if let Some(section) = known.section {
                self.history.note_offered(section, known.used);
            }
            let bytes = u64::from(known.size);
            night.prefetchable += if known.used { bytes } else { 0 };
            night.used += if known.hit { bytes } else { 0 };
            night.altered += if known.altered && !known.hit { bytes } else { 0 };
        }
        if self.strategy == Strategy::Habits && night.day >= self.settings.first {
            night.likely = likely(known.values());
        }
        let highest = |levels: &[u64]| levels.iter().copied().max().unwrap_or(0);
        (night.highest, night.highest_ahead) = (highest(&levels[PEAK]), highest(&levels[..PEAK.start]));
        night.peak = levels[PEAK].iter().sum();
        if let Some(examples) = examples {
            self.lessons.push_back(examples);
            if self.lessons.len() > self.settings.nights {
                self.lessons.pop_front();
            }
        }
        self.usage = Some(Usage {
            prefetchable: night.prefetchable as f64,
            peak: 0.0,
            off_peak: 0.0,
            level_max: 0.0,
            intervals: 0.0,
        });
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        if let (Some(accuracy), Some(coverage)) =
            (share(night.used, night.fetched), share(night.used, night.prefetchable))
        {
            self.performance =
                Performance { accuracy: accuracy.clamp(0.05, 1.0), coverage: coverage.min(1.0) };
        }
        (night.day >= self.settings.first).then_some(night)
    }

    fn close(&mut self, day: Day, demand: [u64; QUARTERS]) {
        self.history.close_day();
        if day.kind != DayKind::Weekday {
            return;
        }
        if let Some(usage) = &mut self.usage {
            let peak = &demand[PEAK];
            usage.peak = peak.iter().sum::<u64>() as f64;
            usage.level_max = peak.iter().copied().max().unwrap_or(0) as f64;
            usage.intervals = PEAK.start as f64;
            usage.off_peak = demand[..PEAK.start].iter().sum::<u64>() as f64;
            usage.prefetchable = usage.prefetchable.min(usage.peak);
        }
        self.demand.push_back(demand);
        if self.demand.len() > 1 {
            self.demand.pop_front();
        }
    }
}

/// How likely the peak of a day is to miss what could be fetched before it, objects and their versions: the share of the draws in which it does.
fn asked_for(world: &World, day: Day, draws: Range<u64>) -> HashMap<(u64, u64), f32> {
    let peak = day.begins + PEAK.start as u64 * QUARTER;
    let share = 1.0 / draws.clone().count() as f64;
    let mut days: HashMap<(u64, u64), u32> = HashMap::new();
    for draw in draws {
        let (mut at_night, mut all) = (HashMap::new(), HashSet::new());
        world.might_ask(draw, &mut |access| {
            let quarter = ((access.time / 1_000_000 - day.begins) / QUARTER) as usize;
            if quarter < PEAK.start {
                at_night.insert(access.object, access.modified);
            } else if PEAK.contains(&quarter)
                && access.is_cacheable()
                && access.modified < peak
                && at_night.get(&access.object) != Some(&access.modified)
            {
                all.insert((access.object, access.modified));
            }
        });
        all.into_iter().for_each(|version| *days.entry(version).or_default() += 1);
    }
    days.into_iter().map(|(version, days)| (version, (f64::from(days) * share) as f32)).collect()
}

fn likely<'k>(known: impl Iterator<Item = &'k Known>) -> Vec<Likely> {
    let mut ranges = LIKELY.map(|from| Likely { from, ..Likely::default() });
    for known in known {
        let fits = |range: &&mut Likely| known.likelihood >= range.from;
        let Some(range) = ranges.iter_mut().find(fits) else { continue };
        range.offered += u64::from(known.size);
        range.prefetchable += if known.used { u64::from(known.size) } else { 0 };
    }
    ranges.to_vec()
}

/// How much lower things are than without prefetching: shares, below 0 where they are higher.
#[derive(Clone, Debug, Serialize)]
pub struct Saved {
    /// The highest quarter of an hour of all peaks, and that of each.
    pub highest: f64,
    pub each: Vec<f64>,
    /// What all peaks got from the sites.
    pub peaks: f64,
    /// What more all days got from the sites in all, of what they got without.
    pub extra: f64,
}

impl Run {
    /// Beside the run of the same world and seed in which nothing was fetched ahead.
    pub fn against(&self, without: &Run) -> Saved {
        let lower = |with: u64, without: u64| learn::evaluate::lower([without, with]);
        let (with, before) = (self.totals(), without.totals());
        let pairs = self.peaks.iter().zip(&without.peaks);
        Saved {
            highest: lower(with.highest, before.highest),
            each: pairs.map(|(with, without)| lower(with.highest, without.highest)).collect(),
            peaks: lower(with.peak, before.peak),
            extra: -lower(self.levels.iter().sum(), without.levels.iter().sum()),
        }
    }
}
