//! What of the misses in the peaks of a trace could have been fetched before them (Maltzahn 6.2), in one pass.
//!
//! Requests go to an infinite and a finite cache (`cache.rs`). Those in a peak are judged (`split.rs`): whether what is missed was cacheable, and
//! there unaltered since the off-peak before began. By Last-Modified where the trace has it, as the thesis did; else by what the sizes tell, and
//! what nothing tells is assumed, and counted as that.
//!
//! Memory grows with the objects (60 to 120 bytes each, as tables double), the servers (100 bytes and their names), the pairs of a peak and a server that it had a miss
//! of (about 20 bytes), the rows of an inventory (about 45 bytes), and the days (5 KiB); not with the requests.

pub(crate) mod cache;
mod offered;
mod report;
mod service;
mod split;
#[cfg(test)]
mod tests;

pub use offered::Offered;
pub use report::{Basis, CacheFigures, Note, PeakFigures, Report, Uniformity};
pub use service::{Group, Order};
pub use split::{Amount, Split, share};

use crate::day::{Calendar, Day, Peak, Period, Weekdays};
use crate::profile::Profile;
use cache::{Ask, Caches, is_dated};
use serde::Serialize;
use service::Served;
use split::{Known, Verdict};
use std::collections::{BTreeMap, HashMap};
use trace::statistics::is_unchanged;
use trace::{Access, Requests};

/// Requests after which it is settled whether the trace has modification dates.
const LOOK_AT: usize = 1 << 16;

/// Characters of a server's name that are kept; as many as a host may have.
const NAME_MAX: usize = 253;

/// What is asked of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settings {
    pub peak: Peak,
    /// Minutes that local time is ahead of UTC.
    pub utc_offset: i16,
    /// Seconds from the first request for which the caches fill before anything is measured; the thesis: two days.
    pub warm_up: u64,
    /// Bytes of the finite cache.
    pub cache: u64,
}

/// A trace that is looked at, request by request.
pub struct Analysis {
    settings: Settings,
    offered: Option<Offered>,
    /// Set by the first request.
    clock: Option<Clock>,
    /// Whether the trace has modification dates; `None` until that is settled, and what came until then.
    by_date: Option<bool>,
    waiting: Vec<Request>,
    caches: Caches,
    servers: Servers,
    profile: Profile,
    peaks: BTreeMap<Day, Measured>,
    counted: Counted,
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    calendar: Calendar,
    /// Seconds since 1970: of the first request, of the earliest and of the latest.
    first: u64,
    earliest: u64,
    last: u64,
}

/// What matters of an access. Seconds and bytes.
#[derive(Clone, Copy, Debug)]
struct Request {
    time: u64,
    object: u64,
    size: u64,
    modified: u64,
    server: u32,
    is_first_of_server: bool,
    is_cacheable: bool,
}

/// One peak, with the off-peak before it.
#[derive(Clone, Debug, Default)]
struct Measured {
    referenced: Amount,
    infinite: Side,
    finite: Side,
    served: Served,
    /// What of the prefetchable misses of the infinite cache an inventory had: as it says, and as the trace does.
    offered_and_missed: Amount,
    missed_and_offered: Amount,
    /// Of these, those whose sizes are not alike.
    other_size: u64,
    /// Asked for also before, since the off-peak began; and of this, what was altered in between.
    again: Amount,
    altered_again: Amount,
}

/// What one of the caches made of it.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    hits: Amount,
    misses: Split,
    off_peak_missed: u64,
}

/// Over the whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    pub referenced: Amount,
    pub hits: Amount,
    pub finite_hits: Amount,
    /// That no cache may store: of another method or status, made by a program, or without a date in a trace of dates.
    pub not_cacheable: Amount,
    /// Cacheable requests of a trace with dates that had none.
    pub undated: u64,
    /// Requests with a date in a trace that was taken for one without.
    pub late_dates: u64,
    /// Altered later than they were asked for.
    pub future_dates: u64,
    /// Requests over a quarter of an hour earlier than one before them.
    pub out_of_order: u64,
}

#[derive(Debug, Default)]
struct Servers {
    places: HashMap<u64, u32>,
    all: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    /// Its number where the trace has no URLs.
    name: Box<str>,
    /// When it was asked first; seconds since 1970.
    first: u64,
}

impl Analysis {
    /// `offered` is what servers had, if that is known.
    pub fn new(settings: Settings, offered: Option<Offered>) -> Analysis {
        Analysis {
            settings,
            offered,
            clock: None,
            by_date: None,
            waiting: Vec::new(),
            caches: Caches::new(settings.cache),
            servers: Servers::default(),
            profile: Profile::default(),
            peaks: BTreeMap::new(),
            counted: Counted::default(),
        }
    }

    /// Takes the next request, in the order of their times. An error is one line.
    pub fn see(&mut self, access: &Access) -> Result<(), String> {
        let time = access.time / 1_000_000;
        let (server, is_first_of_server) = self.servers.place(access, time)?;
        let request = Request {
            time,
            object: access.object,
            size: access.size,
            modified: access.modified,
            server,
            is_first_of_server,
            is_cacheable: access.is_cacheable(),
        };
        match self.by_date {
            Some(by_date) => self.take(&request, by_date),
            None => {
                self.waiting.push(request);
                if self.waiting.len() >= LOOK_AT { self.settle() } else { Ok(()) }
            }
        }
    }

    /// What was found. An error is one line: why the trace says nothing about bandwidth.
    pub fn finish(mut self) -> Result<Report, String> {
        self.settle()?;
        report::report(self)
    }

    fn settle(&mut self) -> Result<(), String> {
        let dated = self.waiting.iter().filter(|request| request.modified > 0).count() as u64;
        let by_date = *self.by_date.get_or_insert_with(|| is_dated(dated, self.waiting.len() as u64));
        std::mem::take(&mut self.waiting).iter().try_for_each(|request| self.take(request, by_date))
    }

    fn take(&mut self, request: &Request, by_date: bool) -> Result<(), String> {
        let Request { time, size, modified, .. } = *request;
        let clock = self.clock.get_or_insert_with(|| Clock::begun(time, self.settings.utc_offset));
        let Clock { calendar, first, .. } = *clock;
        self.counted.out_of_order += u64::from(time + crate::day::LEVEL < clock.last);
        (clock.earliest, clock.last) = (clock.earliest.min(time), clock.last.max(time));
        let since_first = |time: u64| u32::try_from(time.saturating_sub(first)).unwrap_or(u32::MAX);

        let lacks_date = by_date && modified == 0;
        self.counted.undated += u64::from(request.is_cacheable && lacks_date);
        self.counted.late_dates += u64::from(!by_date && modified > 0);
        self.counted.future_dates += u64::from(modified > time);
        let is_cacheable = request.is_cacheable && !lacks_date;
        let before = match is_cacheable {
            true => {
                let ask = Ask { object: request.object, size, modified, time: since_first(time) };
                self.caches.ask(&ask, by_date)?
            }
            false => self.caches.pass(request.object)?,
        };
        let hits = [before.is_hit, before.is_finite_hit];

        self.counted.referenced.count(size);
        if !is_cacheable {
            self.counted.not_cacheable.count(size);
        }
        for (is_hit, amount) in hits.into_iter().zip([&mut self.counted.hits, &mut self.counted.finite_hits])
        {
            if is_hit {
                amount.count(size);
            }
        }
        let level = self.profile.level(calendar.day(time), calendar.level(time))?;
        level.referenced += size;
        level.missed += if before.is_hit { 0 } else { size };
        level.missed_finite += if before.is_finite_hit { 0 } else { size };

        let day = match self.settings.peak.period(time, calendar) {
            Period::Outside => return Ok(()),
            Period::OffPeak(day) => {
                let measured = self.peaks.entry(day).or_default();
                for (is_hit, side) in hits.into_iter().zip([&mut measured.infinite, &mut measured.finite]) {
                    side.off_peak_missed += if is_hit { 0 } else { size };
                }
                return Ok(());
            }
            Period::Peak(day) => day,
        };
        let [start, begin, _] = self.settings.peak.times(day, calendar);
        let verdict = match (is_cacheable, modified, before.version) {
            (false, ..) => Verdict::NotCacheable,
            (true, 1.., _) if modified > start => Verdict::Altered,
            (true, 1.., _) => Verdict::Unaltered,
            (true, 0, Some(version))
                if before.is_hit && version.since <= since_first(start) && start >= first =>
            {
                Verdict::Unaltered
            }
            (true, 0, Some(version)) if !before.is_hit && version.last >= since_first(start) => {
                Verdict::Altered
            }
            (true, 0, _) => Verdict::Assumed,
        };
        let known = match (before.is_seen, request.is_first_of_server) {
            (true, _) => Known::Name,
            (false, true) => Known::Nothing,
            (false, false) if self.servers.first(request.server) >= begin => Known::NewServer,
            (false, false) => Known::Server,
        };
        let measured = self.peaks.entry(day).or_default();
        measured.referenced.count(size);
        if start >= first && before.version.is_some_and(|version| version.last >= since_first(start)) {
            measured.again.count(size);
            if !before.is_hit {
                measured.altered_again.count(size);
            }
        }
        for (is_hit, side) in hits.into_iter().zip([&mut measured.infinite, &mut measured.finite]) {
            match is_hit {
                true => side.hits.count(size),
                false => side.misses.count(verdict, known, size),
            }
        }
        if !before.is_hit {
            let prefetchable = match verdict {
                Verdict::NotCacheable | Verdict::Altered => 0,
                Verdict::Unaltered | Verdict::Assumed => size,
            };
            level.prefetchable += prefetchable;
            *measured.served.entry(request.server).or_default() += prefetchable;
            if matches!(verdict, Verdict::Unaltered | Verdict::Assumed)
                && let Some(offered) =
                    self.offered.as_ref().and_then(|offered| offered.at(request.object, start))
            {
                measured.offered_and_missed.count(offered);
                measured.missed_and_offered.count(size);
                let is_other = offered > 0 && !is_unchanged((0, offered), (0, size));
                measured.other_size += u64::from(is_other);
            }
        }
        Ok(())
    }
}

impl Clock {
    fn begun(time: u64, utc_offset: i16) -> Clock {
        Clock { calendar: Calendar::begun(time, utc_offset), first: time, earliest: time, last: time }
    }
}

impl Servers {
    /// Of an access's server, and whether it is the first one.
    fn place(&mut self, access: &Access, time: u64) -> Result<(u32, bool), String> {
        if let Some(place) = self.places.get(&access.server) {
            return Ok((*place, false));
        }
        let place =
            u32::try_from(self.all.len()).map_err(|_| "the trace has more than four billion servers")?;
        self.places.insert(access.server, place);
        let name = match (access.url.as_str(), trace::host(&access.url)) {
            ("", _) => format!("server {}", access.server),
            (_, "") => "without a name".into(),
            // Whoever wrote the URL chose the name, which goes to terminals.
            (_, name) => name.chars().filter(|c| trace::is_harmless(*c)).take(NAME_MAX).collect(),
        };
        self.all.push(Server { name: name.into(), first: time });
        Ok((place, true))
    }

    fn first(&self, place: u32) -> u64 {
        self.all.get(place as usize).map_or(0, |server| server.first)
    }

    fn name(&self, place: u32) -> String {
        match self.all.get(place as usize) {
            Some(server) => server.name.to_string(),
            None => String::new(),
        }
    }
}

/// An error if too many requests are earlier than one before them to take the trace as it comes: a tenth.
pub(crate) fn check_order(out_of_order: u64, requests: u64) -> Result<(), String> {
    match out_of_order.saturating_mul(10) < requests.max(1) {
        true => Ok(()),
        false => Err(format!(
            "{out_of_order} of {requests} requests are over a quarter of an hour earlier than one before them: sort the trace by time, \
             or name its files in their order"
        )),
    }
}

/// Where the peak of a trace is: the 12 hours in which most is asked for on days that may have one. An error is one line.
pub fn find_peak(requests: &mut impl Requests, days: Weekdays, utc_offset: i16) -> Result<Peak, String> {
    let (mut profile, mut clock, mut access) = (Profile::default(), None, Access::default());
    while requests.next(&mut access)? {
        let time = access.time / 1_000_000;
        let Clock { calendar, .. } = *clock.get_or_insert_with(|| Clock::begun(time, utc_offset));
        profile.level(calendar.day(time), calendar.level(time))?.referenced += access.size;
    }
    let calendar = clock.map_or(Calendar::UTC, |clock| clock.calendar);
    profile.find_peak(days, calendar).ok_or_else(|| {
        format!("nothing was asked for on {days}, so no peak is found: give one by --peak, or other --days")
    })
}
