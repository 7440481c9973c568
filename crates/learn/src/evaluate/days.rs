//! A trace, cut into nights and the peaks that follow them: what could have been fetched in each night, and what of it was asked for.
//!
//! A night is the off-peak before a peak. Candidates are taken as the night begins: what servers offer then, what the cache holds then, and
//! what the days before tell. Only the labels come from the peak.

use super::{Budget, Offers, Positives, Settings};
use crate::analysis::cache::{Ask, Caches, is_dated};
use crate::analysis::check_order;
use crate::candidate::{Beside, Candidate, History, NON_PREFETCHABLE, PREFETCHABLE, asks_program, section};
use crate::day::{Day, LEVELS, Period};
use crate::examples::Examples;
use crate::profile::DAYS_MAX;
use crate::target::{Performance, Usage};
use std::collections::{BTreeMap, HashMap, HashSet};
use trace::inventory::Row;
use trace::statistics::is_unchanged;
use trace::{Access, Unusable};

/// What is evaluated: requests by their time, and what servers offered.
pub trait Web {
    /// False at the end. An error is one line.
    fn next(&mut self, access: &mut Access) -> Result<bool, String>;

    /// What servers offered at a time, in seconds since 1970. It is asked when the first request after that time was given out.
    fn offers(&mut self, at: u64, each: &mut dyn FnMut(Row) -> Result<(), String>) -> Result<(), String>;
}

/// Bytes missed in each quarter of an hour from the begin of the night on: first those of the night, then those of the peak.
pub type Levels = [u64; LEVELS];

/// A night and its peak.
pub struct Material {
    pub day: Day,
    /// When the night begins, seconds since 1970.
    pub night: u64,
    /// At the weekend, or a holiday.
    pub is_free: bool,
    /// What could be fetched, labelled by what was asked for.
    pub examples: Examples,
    /// Beside each of them.
    pub facts: Vec<Fact>,
    /// Prefetchable objects of the chosen servers that are not among the examples.
    pub unlisted: Amount,
    /// Objects of the chosen servers that were missed in the peak, but had changed since the night began; bytes.
    pub altered: HashMap<u64, u64>,
    pub chosen: Levels,
    pub all: Levels,
    /// Of the peak, all servers.
    pub prefetchable: Amount,
    /// What the night has room for (6.2), told by the usage of the cycle before; none where there was none.
    pub room: Option<u64>,
    pub left_out: LeftOut,
}

/// Offers that are no candidates, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    pub other_servers: u64,
    /// Or made by a program.
    pub not_cacheable: u64,
    pub no_size: u64,
    /// Modified or created after the night began.
    pub not_yet: u64,
    /// The cache has it.
    pub cached: u64,
    /// Offered before, under the same URL.
    pub twice: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Amount {
    pub objects: u64,
    pub bytes: u64,
}

impl Amount {
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// What is known of an example beside its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Fact {
    pub object: u64,
    /// Of the response in the peak if it is prefetchable, else as offered.
    pub bytes: u64,
    /// As offered: all that is known when the night begins.
    pub offered: u64,
    /// The level, counted from the begin of the night, in which it was missed first.
    pub missed: Option<u8>,
    /// It was asked for on a day before.
    pub seen: bool,
    /// Of its URL, where it was new when the night began: less than a day old, or of unknown age.
    new_in: Option<u64>,
}

/// The first pass.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    pub requests: u64,
    /// Responses with a modification date.
    pub dated: u64,
    /// Versions are told by them, else by size.
    pub by_date: bool,
    /// Modification dates that are later than the request.
    pub ahead: u64,
    /// Requests over a quarter of an hour earlier than one before them.
    pub out_of_order: u64,
    pub no_size: u64,
    /// Days with a peak, warm-up included.
    pub days: u64,
    /// Servers by prefetchable service over all peaks, the one with most first.
    pub service: Vec<(u64, u64)>,
}

/// Seconds.
const DAY: u64 = 86_400;
/// Examples of one day.
const ROWS_MAX: usize = 50_000_000;

/// Goes over a trace and counts. `progress` is told how many requests are done.
pub fn survey(
    web: &mut dyn Web,
    settings: &Settings,
    progress: &mut dyn FnMut(u64),
) -> Result<Survey, String> {
    let mut found = Survey::default();
    let mut access = Access::default();
    // Whether there are dates is known at the end, and so are two answers until then.
    let (mut by_date, mut by_size) = (Cycle::new(settings, true), Cycle::new(settings, false));
    let mut services: [HashMap<u64, u64>; 2] = Default::default();
    let (mut days, mut latest) = (HashSet::new(), 0);
    while web.next(&mut access)? {
        name(&mut access);
        found.requests += 1;
        found.dated += u64::from(access.modified > 0);
        let seconds = access.time / 1_000_000;
        found.ahead += u64::from(access.modified > seconds);
        found.out_of_order += u64::from(seconds + crate::day::LEVEL < latest);
        latest = latest.max(seconds);
        found.no_size += u64::from(access.unusable() == Some(Unusable::Empty));
        for (cycle, service) in [&mut by_date, &mut by_size].into_iter().zip(&mut services) {
            let seen = cycle.see(&access)?;
            if let (Miss::Prefetchable, Period::Peak(day)) = (seen.miss, seen.period) {
                *service.entry(access.server).or_default() += access.size;
                days.insert(day);
            } else if let Period::Peak(day) = seen.period {
                days.insert(day);
            }
        }
        if found.requests.is_multiple_of(1 << 16) {
            progress(found.requests);
        }
    }
    check_order(found.out_of_order, found.requests)?;
    found.by_date = settings.by_date.unwrap_or_else(|| is_dated(found.dated, found.requests));
    found.days = days.len() as u64;
    let [dated, sized] = services;
    found.service = if found.by_date { dated } else { sized }.into_iter().collect();
    found.service.sort_unstable_by_key(|(server, bytes)| (std::cmp::Reverse(*bytes), *server));
    Ok(found)
}

/// Goes over a trace once more; `each` is given one night and peak after the other, without those of the warm-up. Gives what is known at
/// the end.
pub fn walk(
    web: &mut dyn Web,
    settings: &Settings,
    survey: &Survey,
    each: &mut dyn FnMut(Material) -> Result<(), String>,
    progress: &mut dyn FnMut(u64),
) -> Result<Told, String> {
    let servers: Option<HashSet<u64>> =
        settings.servers.map(|most| survey.service.iter().take(most).map(|(server, _)| *server).collect());
    let mut walker = Walker {
        settings,
        cycle: Cycle::new(settings, survey.by_date),
        history: History::new(settings.history),
        servers,
        known: Known::default(),
        usage: None,
        at: None,
        warm_up: settings.warm_up,
        each,
    };
    let (mut access, mut requests, mut last) = (Access::default(), 0, 0);
    while web.next(&mut access)? {
        name(&mut access);
        walker.see(&access, web)?;
        last = access.time / 1_000_000;
        requests += 1;
        if requests % (1 << 16) == 0 {
            progress(requests);
        }
    }
    // A peak of which the trace does not see half tells too little.
    let middle = |day| {
        let [_, from, to] = settings.peak.times(day, settings.calendar);
        from.midpoint(to)
    };
    match walker.at.as_ref().map(|now| now.material.day) {
        Some(day) if last < middle(day) => walker.history.close_day(),
        _ => walker.close()?,
    }
    let Walker { history, cycle: Cycle { caches, .. }, .. } = walker;
    Ok(Told { history, by_date: survey.by_date, forgets: settings.cache.is_some(), caches })
}

/// What a trace tells in the end, for the night that comes.
pub struct Told {
    pub history: History,
    by_date: bool,
    forgets: bool,
    caches: Caches,
}

impl Told {
    /// Whether the cache has what is offered under that number, in the same version.
    pub fn has(&self, object: u64, row: &Row) -> bool {
        has(&self.caches, self.forgets, self.by_date, object, row)
    }
}

fn has(caches: &Caches, forgets: bool, by_date: bool, object: u64, row: &Row) -> bool {
    let Some((held, is_recent)) = caches.held(object) else { return false };
    let is_same = match by_date && row.modified > 0 {
        true => held.0 == row.modified,
        false => is_unchanged((0, held.1), (0, row.size)),
    };
    is_same && (is_recent || !forgets)
}

/// A trace that has numbers alone gets names made of them. A name gets one spelling.
fn name(access: &mut Access) {
    if access.url.is_empty() {
        let mut url = Vec::new();
        access.write_url(&mut url);
        let dynamic = access.dynamic;
        access.set_url(&url);
        access.dynamic |= dynamic;
    }
    access.respell();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Miss {
    Hit,
    Prefetchable,
    Altered,
    NotCacheable,
}

struct Seen {
    period: Period,
    miss: Miss,
}

/// The cache, and what is prefetchable (6.2.1).
struct Cycle<'s> {
    settings: &'s Settings,
    by_date: bool,
    caches: Caches,
    /// Of the first request, in seconds since 1970.
    first: Option<u64>,
}

impl<'s> Cycle<'s> {
    fn new(settings: &'s Settings, by_date: bool) -> Cycle<'s> {
        Cycle { settings, by_date, caches: Caches::new(settings.cache.unwrap_or(0)), first: None }
    }

    fn see(&mut self, access: &Access) -> Result<Seen, String> {
        let seconds = access.time / 1_000_000;
        let first = *self.first.get_or_insert(seconds);
        let apart = seconds.abs_diff(first) / DAY;
        if apart >= DAYS_MAX as u64 {
            return Err(format!(
                "the trace has requests that are {apart} days apart, more than {DAYS_MAX}: one of their times is wrong"
            ));
        }
        let period = self.settings.peak.period(seconds, self.settings.calendar);
        let cacheable = access.unusable().is_none() && !(self.by_date && access.modified == 0);
        if !cacheable {
            return Ok(Seen { period, miss: Miss::NotCacheable });
        }
        let Access { object, size, modified, .. } = *access;
        let time = seconds.saturating_sub(first) as u32;
        let before = self.caches.ask(&Ask { object, size, modified, time }, self.by_date)?;
        if if self.settings.cache.is_some() { before.is_finite_hit } else { before.is_hit } {
            return Ok(Seen { period, miss: Miss::Hit });
        }
        let night = match period {
            Period::Peak(day) | Period::OffPeak(day) => {
                self.settings.peak.times(day, self.settings.calendar)[0]
            }
            Period::Outside => 0,
        };
        let other = before.version.filter(|_| !before.is_hit);
        let altered = match self.by_date {
            true => modified > night,
            // What was there in another version since the night began; of anything else nothing tells.
            false => other.is_some_and(|version| first + u64::from(version.last) >= night),
        };
        Ok(Seen { period, miss: if altered { Miss::Altered } else { Miss::Prefetchable } })
    }

    /// Whether the cache has what is offered, in the same version.
    fn has(&self, object: u64, row: &Row) -> bool {
        has(&self.caches, self.settings.cache.is_some(), self.by_date, object, row)
    }
}

struct Walker<'w> {
    settings: &'w Settings,
    cycle: Cycle<'w>,
    history: History,
    servers: Option<HashSet<u64>>,
    known: Known,
    /// Of the last peak and the off-peak before it.
    usage: Option<Usage>,
    at: Option<Now>,
    warm_up: usize,
    each: &'w mut dyn FnMut(Material) -> Result<(), String>,
}

/// The night and peak that go on.
struct Now {
    material: Material,
    beside: Beside,
    /// Missed in the peak, of the chosen servers: bytes, level, and the row where it is needed.
    positives: BTreeMap<u64, (u64, u8, Option<Row>)>,
}

impl Walker<'_> {
    fn see(&mut self, access: &Access, web: &mut dyn Web) -> Result<(), String> {
        let seconds = access.time / 1_000_000;
        let period = self.settings.peak.period(seconds, self.settings.calendar);
        if let Period::OffPeak(day) | Period::Peak(day) = period
            && self.at.as_ref().is_none_or(|now| now.material.day < day)
        {
            self.close()?;
            self.begin(day, web)?;
        }
        let seen = self.cycle.see(access)?;
        let in_peak = matches!(period, Period::Peak(_));
        // Without a size it is a browser's own hit, or nothing is known of it.
        if access.size > 0 {
            self.history.note(access, in_peak, seen.miss != Miss::Hit);
        }
        if self.settings.offers == Offers::Seen {
            self.known.note(access, self.settings.history);
        }
        let is_chosen = self.servers.as_ref().is_none_or(|servers| servers.contains(&access.server));
        let Some(now) = &mut self.at else { return Ok(()) };
        let of_now = matches!(period, Period::OffPeak(day) | Period::Peak(day) if day == now.material.day);
        if seen.miss == Miss::Hit || !of_now {
            return Ok(());
        }
        let level = (seconds.saturating_sub(now.material.night) / crate::day::LEVEL).min(LEVELS as u64 - 1);
        now.material.all[level as usize] += access.size;
        if is_chosen {
            now.material.chosen[level as usize] += access.size;
        }
        if !in_peak {
            return Ok(());
        }
        match seen.miss {
            Miss::Prefetchable => {
                now.material.prefetchable.add(access.size);
                if is_chosen && !now.material.altered.contains_key(&access.object) {
                    let row = || Row {
                        url: access.url.clone(),
                        size: access.size,
                        modified: access.modified,
                        ..Row::default()
                    };
                    let row = (self.settings.positives == Positives::Log).then(row);
                    now.positives.entry(access.object).or_insert((access.size, level as u8, row));
                }
            }
            Miss::Altered if is_chosen && !now.positives.contains_key(&access.object) => {
                now.material.altered.entry(access.object).or_insert(access.size);
            }
            _ => {}
        }
        Ok(())
    }

    /// A night begins: what is offered becomes candidates.
    fn begin(&mut self, day: Day, web: &mut dyn Web) -> Result<(), String> {
        let Settings { peak, calendar, encoding, .. } = self.settings;
        let night = peak.times(day, *calendar)[0];
        let mut now = Now {
            material: Material {
                day,
                night,
                is_free: self.settings.is_free(day),
                examples: encoding.examples(),
                facts: Vec::new(),
                unlisted: Amount::default(),
                altered: HashMap::new(),
                chosen: [0; LEVELS],
                all: [0; LEVELS],
                prefetchable: Amount::default(),
                room: self.usage.map(|usage| room(&usage)),
                left_out: LeftOut::default(),
            },
            beside: Beside::default(),
            positives: BTreeMap::new(),
        };
        // What the last day of the warm-up offers tells of the first day that is measured.
        if self.warm_up <= 1 {
            let Walker { settings, cycle, history, servers, known, .. } = self;
            let (mut scratch, mut offered) = (Access::default(), HashSet::new());
            let beside = &mut now.beside;
            match settings.offers {
                _ if !settings.encoding.asks_beside() => {}
                Offers::Listed => web.offers(night, &mut |row| {
                    beside.note(&row);
                    Ok(())
                })?,
                Offers::Seen => known.rows.iter().for_each(|row| beside.note(row)),
            }
            let mut offer = |row: Row| -> Result<(), String> {
                let mut row = row.respelled();
                if settings.positives == Positives::Log {
                    // What the log does not say of positives would tell the others from them.
                    (row.created, row.content_type) = (0, String::new());
                }
                scratch.set_url(row.url.as_bytes());
                let left_out = &mut now.material.left_out;
                let count = if servers.as_ref().is_some_and(|servers| !servers.contains(&scratch.server)) {
                    &mut left_out.other_servers
                } else if !row.cacheable || scratch.dynamic || asks_program(&row.url) {
                    &mut left_out.not_cacheable
                } else if row.size == 0 {
                    &mut left_out.no_size
                } else if row.modified > night || row.created > night {
                    &mut left_out.not_yet
                } else if cycle.has(scratch.object, &row) {
                    &mut left_out.cached
                } else if !offered.insert(scratch.object) {
                    &mut left_out.twice
                } else {
                    if now.material.facts.len() >= ROWS_MAX {
                        return Err(format!("a night has more than {ROWS_MAX} candidates"));
                    }
                    let is_new = night - row.modified.min(night) < DAY || row.modified == 0;
                    let mut fact = Fact {
                        object: scratch.object,
                        bytes: row.size,
                        offered: row.size,
                        missed: None,
                        seen: false,
                        new_in: is_new.then(|| section(&row.url)),
                    };
                    let mut candidate = Candidate { row, ..Candidate::default() };
                    candidate.remember(history, beside, &mut scratch);
                    fact.seen = candidate.past.uses > 0;
                    settings.encoding.push(
                        &candidate,
                        night,
                        NON_PREFETCHABLE,
                        &mut now.material.examples,
                    )?;
                    now.material.facts.push(fact);
                    return Ok(());
                };
                *count += 1;
                Ok(())
            };
            match settings.offers {
                Offers::Listed => web.offers(night, &mut offer)?,
                Offers::Seen => known.rows.iter().cloned().try_for_each(offer)?,
            }
        }
        self.at = Some(now);
        Ok(())
    }

    /// The peak is over: labels are known, and what was noted counts.
    fn close(&mut self) -> Result<(), String> {
        let Some(Now { mut material, beside, mut positives }) = self.at.take() else { return Ok(()) };
        self.usage = usage(&material, self.settings);
        let is_warm = self.warm_up == 0;
        self.warm_up = self.warm_up.saturating_sub(1);
        for (nth, fact) in material.facts.iter_mut().enumerate() {
            if let Some((bytes, level, _)) = positives.remove(&fact.object) {
                (fact.bytes, fact.missed) = (bytes, Some(level));
                material.examples.set_class(nth, PREFETCHABLE);
            }
        }
        let mut scratch = Access::default();
        for (object, (bytes, level, row)) in positives {
            let Some(row) = row.filter(|row| !asks_program(&row.url)) else {
                material.unlisted.add(bytes);
                continue;
            };
            let mut candidate = Candidate { row, ..Candidate::default() };
            candidate.remember(&self.history, &beside, &mut scratch);
            let (seen, offered) = (candidate.past.uses > 0, candidate.row.size);
            let night = material.night;
            self.settings.encoding.push(&candidate, night, PREFETCHABLE, &mut material.examples)?;
            material.facts.push(Fact { object, bytes, offered, missed: Some(level), seen, new_in: None });
        }
        for fact in &material.facts {
            if let Some(section) = fact.new_in {
                self.history.note_offered(section, fact.missed.is_some());
            }
        }
        self.history.close_day();
        self.known.close_day();
        if is_warm { (self.each)(material) } else { Ok(()) }
    }
}

/// Levels of the night of a cycle.
pub fn night_levels(settings: &Settings) -> usize {
    settings.peak.off_peak_levels()
}

fn usage(material: &Material, settings: &Settings) -> Option<Usage> {
    let (night, peak) = material.all.split_at(night_levels(settings));
    let sum = |levels: &[u64]| levels.iter().sum::<u64>() as f64;
    let usage = Usage {
        prefetchable: material.prefetchable.bytes as f64,
        peak: sum(peak),
        off_peak: sum(night),
        level_max: peak.iter().copied().max().unwrap_or(0) as f64,
        intervals: night.len() as f64,
    };
    (usage.peak > 0.0).then_some(usage)
}

/// B_extra of a usage at its own target (6.2, 6.3).
fn room(usage: &Usage) -> u64 {
    usage.target(Performance::PERFECT).map_or(0, |target| target.extra as u64)
}

impl Budget {
    /// Bytes of a night.
    pub fn of(self, material: &Material) -> u64 {
        match self {
            Budget::None => u64::MAX,
            Budget::Bytes(bytes) => bytes,
            Budget::Room => material.room.unwrap_or(0),
        }
    }
}

/// What was asked for so far, as a list of what servers offer.
#[derive(Default)]
struct Known {
    rows: Vec<Row>,
    places: HashMap<u64, usize>,
    /// Of the day that goes on: not offered before it is over.
    today: HashMap<u64, Row>,
}

impl Known {
    fn note(&mut self, access: &Access, most: usize) {
        if access.unusable().is_some() || self.places.len() + self.today.len() >= most {
            return;
        }
        let row = self
            .today
            .entry(access.object)
            .or_insert_with(|| Row { url: access.url.clone(), ..Row::default() });
        (row.size, row.modified) = (access.size, access.modified);
    }

    fn close_day(&mut self) {
        let mut today: Vec<(u64, Row)> = std::mem::take(&mut self.today).into_iter().collect();
        today.sort_unstable_by_key(|(object, _)| *object);
        for (object, row) in today {
            match self.places.get(&object) {
                Some(place) => self.rows[*place] = row,
                None => {
                    self.places.insert(object, self.rows.len());
                    self.rows.push(row);
                }
            }
        }
    }
}
