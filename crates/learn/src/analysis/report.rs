//! What an analysis found, put together: over all measured peaks, each peak, servers, and what was approximated.

use super::service::{self, Group, Order, Served};
use super::split::{Amount, Split, share};
use super::{Analysis, Clock, Counted, Measured, Settings, Side};
use crate::day::{Calendar, Day, NO_DATES, Peak};
use crate::profile::{Level, MeanDay, Profile};
use crate::target::{Performance, Target, Usage};
use jiff::civil;
use serde::Serialize;

/// Servers that are named.
const NAMED: usize = 20;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub settings: Settings,
    pub calendar: Calendar,
    /// Of the first and the last request, in seconds since 1970.
    pub first: u64,
    pub last: u64,
    pub objects: u64,
    pub servers: u64,
    /// Whether what is unaltered is told by Last-Modified; else by size.
    pub by_date: bool,
    /// Over the whole trace, with its cold beginning.
    pub whole: Counted,
    /// Which peaks the sums are over.
    pub basis: Basis,
    pub measured: usize,
    /// Over the measured peaks.
    pub referenced: Amount,
    pub infinite: CacheFigures,
    pub finite: CacheFigures,
    /// Over the measured peaks: the share of the infinite cache's misses that is prefetchable. Least, quartiles and most.
    pub prefetchable_shares: [f64; 5],
    pub uniformity: Uniformity,
    /// Asked for in a measured peak, and before since the off-peak began; and of this, what was altered in between.
    pub again: Amount,
    pub altered_again: Amount,
    /// Of one peak: the measured one with the median of misses (Figure 6.4).
    pub order: Option<(String, Order)>,
    /// Medians over the measured peaks, as `Order` has them of one.
    pub of_top_tenth: f64,
    pub for_half: f64,
    /// Servers with most prefetchable service over the measured peaks, and its bytes.
    pub top: Vec<(String, u64)>,
    pub groups: Vec<Group>,
    /// The mean of the days that have a peak, and that of the others.
    pub peak_days: MeanDay,
    pub other_days: MeanDay,
    pub peaks: Vec<PeakFigures>,
    /// Only with an inventory: objects that were there in all conditions but the miss, and their bytes, a mean of the measured peaks.
    pub no_miss_prefetchable: Option<(f64, f64)>,
    /// Only with an inventory: the share of the prefetchable bytes that it has.
    pub inventory_share: Option<f64>,
    pub inventory: Option<super::offered::Rows>,
    /// Prefetchable misses whose size the inventory has otherwise.
    pub other_sizes: u64,
    pub notes: Vec<Note>,
}

/// Which peaks are measured: the best there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// With the off-peak before them, whole and after the warm-up.
    Whole,
    /// None is whole: after the warm-up.
    Partial,
    /// None is after the warm-up: all there are.
    Cold,
    /// There is none.
    NoPeak,
}

/// What a cache made of peaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CacheFigures {
    pub hits: Amount,
    /// Of requests, and of bytes.
    pub hit_ratio: f64,
    pub byte_hit_ratio: f64,
    pub misses: Split,
    /// The prefetchable share of the missed bytes.
    pub prefetchable: f64,
    /// Bytes that the off-peaks before missed.
    pub off_peak_missed: u64,
    /// L_m, in bytes; the mean over peaks where it is of several.
    pub level_max: f64,
    /// How far that could be lowered, with perfect prefetching; none where nothing was missed.
    pub target: Option<Target>,
    /// The smoothing potential as a share of L_m; the mean over peaks where it is of several.
    pub potential: f64,
}

/// One peak.
#[derive(Clone, Debug, Serialize)]
pub struct PeakFigures {
    pub day: Day,
    /// The day's date, or its number where the trace has none.
    pub date: String,
    pub is_whole: bool,
    pub is_after_warm_up: bool,
    pub is_measured: bool,
    pub referenced: Amount,
    pub infinite: CacheFigures,
    pub finite: CacheFigures,
    /// Of this peak's levels.
    pub uniformity: Uniformity,
    pub servers: usize,
    pub of_top_tenth: f64,
    pub for_half: f64,
    pub no_miss_prefetchable: Option<Amount>,
}

/// Whether the prefetchable share is the same in all levels (Figure 6.7): its mean and standard deviation over the levels that missed anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Uniformity {
    pub levels: usize,
    pub mean: f64,
    pub deviation: f64,
}

/// What was approximated or is odd, and what it concerns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    pub about: &'static str,
    pub text: String,
}

pub(super) fn report(analysis: Analysis) -> Result<Report, String> {
    let clock = analysis.clock.ok_or("there is no request in the trace")?;
    let counted = analysis.counted;
    if counted.referenced.bytes == 0 {
        return Err("the trace has no sizes: there is no bandwidth to measure".into());
    }
    super::check_order(counted.out_of_order, counted.referenced.requests)?;
    if clock.earliest == clock.last && counted.referenced.requests > 1 {
        return Err("all requests are of one second: the trace has no times".into());
    }
    let (settings, calendar) = (analysis.settings, clock.calendar);
    let peak = settings.peak;
    let empty = Measured::default();
    // Each day that has a peak between the first and the last of them; some may have no request.
    let ends = analysis.peaks.keys().next().zip(analysis.peaks.keys().next_back());
    let days = ends.into_iter().flat_map(|(first, last)| *first..=*last);
    let days = days.filter(|day| peak.is_on(*day, calendar));
    let of_day = |day: Day| analysis.peaks.get(&day).unwrap_or(&empty);
    let mut peaks: Vec<PeakFigures> = days
        .map(|day| {
            let offered = analysis.offered.as_ref();
            figures(day, of_day(day), &analysis.profile, &settings, &clock, offered)
        })
        .collect();
    // The evening after the last peak is before a peak that is not in the trace.
    peaks.retain(|peak| peak.referenced.requests > 0 || peak.is_whole);
    let basis = measure(&mut peaks);
    let measured: Vec<&PeakFigures> = peaks.iter().filter(|peak| peak.is_measured).collect();

    let served: Vec<&Served> = measured.iter().map(|peak| &of_day(peak.day).served).collect();
    let (order_of_all, groups) = service::groups(served.into_iter());
    let name = |(place, bytes): &(u32, u64)| (analysis.servers.name(*place), *bytes);
    let mut by_misses: Vec<&&PeakFigures> =
        measured.iter().filter(|peak| peak.infinite.misses.missed().bytes > 0).collect();
    by_misses.sort_by_key(|peak| peak.infinite.misses.missed().bytes);
    let order = by_misses
        .get(by_misses.len() / 2)
        .map(|peak| (peak.date.clone(), service::order(&of_day(peak.day).served)));
    let median = |of: fn(&PeakFigures) -> f64| {
        quantiles(by_misses.iter().filter(|peak| peak.of_top_tenth > 0.0).map(|peak| of(peak)))[2]
    };
    let levels: Vec<Level> =
        measured.iter().flat_map(|figures| analysis.profile.peak(figures.day, peak)).collect();
    let (mut referenced, mut again, mut altered_again) = <(Amount, Amount, Amount)>::default();
    for peak in &measured {
        referenced += peak.referenced;
        again += of_day(peak.day).again;
        altered_again += of_day(peak.day).altered_again;
    }
    let infinite = sum(&measured, |peak| &peak.infinite);
    let no_miss: Vec<Amount> = measured.iter().filter_map(|peak| peak.no_miss_prefetchable).collect();
    let mean =
        |of: fn(&Amount) -> u64| share(no_miss.iter().map(|a| of(a) as f64).sum(), no_miss.len() as f64);
    let offered = measured.iter().map(|peak| of_day(peak.day));
    let (missed_and_offered, other_sizes) = offered.fold((Amount::default(), 0), |(all, others), of| {
        (all + of.missed_and_offered, others + of.other_size)
    });
    let has_inventory = analysis.offered.is_some();
    let mut report = Report {
        settings,
        calendar,
        first: clock.earliest,
        last: clock.last,
        objects: analysis.caches.len() as u64,
        servers: analysis.servers.all.len() as u64,
        by_date: analysis.by_date == Some(true),
        whole: counted,
        basis,
        measured: measured.len(),
        referenced,
        infinite,
        finite: sum(&measured, |peak| &peak.finite),
        prefetchable_shares: quantiles(by_misses.iter().map(|peak| peak.infinite.prefetchable)),
        uniformity: uniformity(&levels),
        again,
        altered_again,
        order,
        of_top_tenth: median(|peak| peak.of_top_tenth),
        for_half: median(|peak| peak.for_half),
        top: order_of_all.iter().take(NAMED).map(name).collect(),
        groups,
        peak_days: analysis.profile.mean(|day| peak.is_on(day, calendar)),
        other_days: analysis.profile.mean(|day| !peak.is_on(day, calendar)),
        no_miss_prefetchable: (!no_miss.is_empty())
            .then(|| (mean(|amount| amount.requests), mean(|amount| amount.bytes))),
        inventory_share: has_inventory
            .then(|| share(missed_and_offered.bytes as f64, infinite.misses.prefetchable().bytes as f64)),
        inventory: analysis.offered.as_ref().map(|offered| offered.counted),
        other_sizes,
        peaks,
        notes: Vec::new(),
    };
    report.notes = notes(&report);
    Ok(report)
}

fn figures(
    day: Day,
    measured: &Measured,
    profile: &Profile,
    settings: &Settings,
    clock: &Clock,
    offered: Option<&super::Offered>,
) -> PeakFigures {
    let (peak, calendar) = (settings.peak, clock.calendar);
    let [start, _, end] = peak.times(day, calendar);
    let levels = profile.peak(day, peak);
    let side = |side: &Side, of: fn(&Level) -> u64| {
        cache_figures(side, levels.iter().map(of).max().unwrap_or(0), peak)
    };
    let order = service::order(&measured.served);
    PeakFigures {
        day,
        date: date(day, calendar),
        // The last request of a peak may be some minutes before its end.
        is_whole: clock.first <= start + crate::day::LEVEL && clock.last + crate::day::LEVEL >= end,
        is_after_warm_up: start >= clock.first.saturating_add(settings.warm_up),
        is_measured: false,
        referenced: measured.referenced,
        infinite: side(&measured.infinite, |level| level.missed),
        finite: side(&measured.finite, |level| level.missed_finite),
        uniformity: uniformity(&levels),
        servers: order.servers,
        of_top_tenth: order.of_top_tenth,
        for_half: order.for_half,
        no_miss_prefetchable: offered.map(|offered| {
            let (all, missed) = (offered.all_at(start), measured.offered_and_missed);
            Amount {
                requests: all.requests.saturating_sub(missed.requests),
                bytes: all.bytes.saturating_sub(missed.bytes),
            }
        }),
    }
}

fn cache_figures(side: &Side, level_max: u64, peak: Peak) -> CacheFigures {
    let (missed, prefetchable) = (side.misses.missed(), side.misses.prefetchable());
    let all = side.hits + missed;
    let usage = Usage {
        prefetchable: prefetchable.bytes as f64,
        peak: missed.bytes as f64,
        off_peak: side.off_peak_missed as f64,
        level_max: level_max as f64,
        intervals: peak.off_peak_levels() as f64,
    };
    let target = usage.target(Performance::PERFECT).ok();
    CacheFigures {
        hits: side.hits,
        hit_ratio: share(side.hits.requests as f64, all.requests as f64),
        byte_hit_ratio: side.hits.share_of(all),
        misses: side.misses,
        prefetchable: prefetchable.share_of(missed),
        off_peak_missed: side.off_peak_missed,
        level_max: level_max as f64,
        potential: target.map_or(0.0, |target| share(target.smoothing_potential, level_max as f64)),
        target,
    }
}

/// Sums of what can be summed, and means of levels over the peaks that have a target.
fn sum(measured: &[&PeakFigures], of: impl Fn(&PeakFigures) -> &CacheFigures) -> CacheFigures {
    let mut all = CacheFigures::default();
    let with_target = || measured.iter().map(|peak| of(peak)).filter(|figures| figures.target.is_some());
    for figures in measured.iter().map(|peak| of(peak)) {
        all.hits += figures.hits;
        all.misses += &figures.misses;
        all.off_peak_missed += figures.off_peak_missed;
    }
    let referenced = all.hits + all.misses.missed();
    let count = with_target().count() as f64;
    let mean = |of: fn(&CacheFigures) -> f64| share(with_target().map(of).sum(), count);
    CacheFigures {
        hit_ratio: share(all.hits.requests as f64, referenced.requests as f64),
        byte_hit_ratio: all.hits.share_of(referenced),
        prefetchable: all.misses.prefetchable().share_of(all.misses.missed()),
        level_max: mean(|figures| figures.level_max),
        potential: mean(|figures| figures.potential),
        ..all
    }
}

/// Chooses the peaks that are measured.
fn measure(peaks: &mut [PeakFigures]) -> Basis {
    for basis in [Basis::Whole, Basis::Partial, Basis::Cold] {
        let is_one = |peak: &PeakFigures| match basis {
            Basis::Whole => peak.is_whole && peak.is_after_warm_up,
            Basis::Partial => peak.is_after_warm_up && peak.referenced.requests > 0,
            Basis::Cold | Basis::NoPeak => peak.referenced.requests > 0,
        };
        peaks.iter_mut().for_each(|peak| peak.is_measured = is_one(peak));
        if peaks.iter().any(|peak| peak.is_measured) {
            return basis;
        }
    }
    Basis::NoPeak
}

fn uniformity(levels: &[Level]) -> Uniformity {
    let shares: Vec<f64> = levels
        .iter()
        .filter(|level| level.missed > 0)
        .map(|level| level.prefetchable as f64 / level.missed as f64)
        .collect();
    let count = shares.len() as f64;
    let mean = share(shares.iter().sum(), count);
    let variance = share(shares.iter().map(|share| (share - mean).powi(2)).sum(), count);
    Uniformity { levels: shares.len(), mean, deviation: variance.sqrt() }
}

/// Least, quartiles and most; of nothing, 0.
fn quantiles(values: impl Iterator<Item = f64>) -> [f64; 5] {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    [0, 1, 2, 3, 4].map(|quarter| values.get(last * quarter / 4).copied().unwrap_or(0.0))
}

fn date(day: Day, calendar: Calendar) -> String {
    let date = || civil::date(1970, 1, 1).checked_add(jiff::Span::new().try_days(day).ok()?).ok();
    match date().filter(|_| calendar.has_dates) {
        Some(date) => date.strftime("%a %Y-%m-%d").to_string(),
        None => format!("day {day}"),
    }
}

/// Each approximation, beside what it concerns.
fn notes(report: &Report) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |about, text: String| notes.push(Note { about, text });
    let Counted { future_dates, late_dates, undated, out_of_order, .. } = report.whole;
    if !report.calendar.has_dates {
        note("peaks", NO_DATES.into());
    }
    if report.last - report.first < 24 * 60 * 60 {
        note("peaks", "The trace is shorter than a day: a peak that is found is one of these hours.".into());
    }
    match report.basis {
        Basis::Whole => {}
        Basis::Partial => note(
            "peaks",
            "No peak is in the trace with all of the off-peak before it: figures are of parts of peaks.".into(),
        ),
        Basis::Cold => note(
            "peaks",
            "No peak comes after the warm-up: figures are of cold caches, and of peaks that may not be whole. A cold cache misses \
             what a warm one would have."
                .into(),
        ),
        Basis::NoPeak => note(
            "peaks",
            format!(
                "No request is in a peak ({} on {}): there is nothing to split. --peak and --days say when peaks are.",
                report.settings.peak, report.settings.peak.days
            ),
        ),
    }
    let empty = report.peaks.iter().filter(|peak| peak.is_measured && peak.referenced.requests == 0).count();
    if empty > 0 {
        note("peaks", format!("{empty} of the {} measured peaks have no request.", report.measured));
    }
    if out_of_order > 0 {
        note(
            "hits",
            format!(
                "{out_of_order} requests are over a quarter of an hour earlier than one before them: caches took them as they came."
            ),
        );
    }
    if !report.by_date {
        note(
            "hits",
            "The trace has no modification dates. A hit is a reply whose size differs by at most 5 % and 16 bytes from the last one: \
             an altered object of the same size counts as a hit."
                .into(),
        );
        note(
            "split",
            "Without modification dates the trace does not tell whether what is asked for the first time was there, unaltered, when \
             the off-peak began. That is assumed, so that the prefetchable is an upper bound; the part that rests on it is \
             listed. Altered is only what was seen with another size since the off-peak began, which a transfer that broke off has too."
                .into(),
        );
        note("target", "It rests on the same assumption: the peak can be lowered by so much at most.".into());
    } else {
        note(
            "split",
            "Existence is told by the modification date: the trace has no dates of creation.".into(),
        );
    }
    if undated > 0 {
        note(
            "split",
            format!(
                "{undated} cacheable requests have no modification date: not cacheable, as in the thesis (6.2.2)."
            ),
        );
    }
    if late_dates > 0 {
        note(
            "hits",
            format!(
                "The first {} requests have no modification date, {late_dates} later ones have: those are used for the split, hits go \
                 by size.",
                super::LOOK_AT
            ),
        );
    }
    if future_dates > 0 {
        note(
            "split",
            format!("{future_dates} requests found a modification date later than themselves: altered."),
        );
    }
    if report.servers <= 1 {
        note(
            "servers",
            "The trace is of one server, or does not tell servers: service groups, and what is of servers seen or unseen, say nothing."
                .into(),
        );
    }
    if report.groups.is_empty() {
        note(
            "servers",
            "No server is asked in two peaks that follow each other, so nothing is predicted.".into(),
        );
    }
    match report.inventory {
        None => note(
            "split",
            "Without --inventory nothing is known of what nobody asked for: no-miss-prefetchable is not measured.".into(),
        ),
        Some(rows) => {
            note(
                "inventory",
                "The inventory is of one time: what it has in the state before an off-peak counts as unaltered until the end of the \
                 peak after it."
                    .into(),
            );
            let left_out = rows.undated + rows.not_cacheable + rows.twice;
            if left_out > 0 {
                note(
                    "inventory",
                    format!(
                        "Of {} rows, {} have no date, {} are not cacheable and {} are of a URL that was there already; they are left out.",
                        rows.rows, rows.undated, rows.not_cacheable, rows.twice
                    ),
                );
            }
            if report.other_sizes > 0 {
                note(
                    "inventory",
                    format!(
                        "{} of what was missed has another size in the inventory: shares are by the trace's sizes.",
                        report.other_sizes
                    ),
                );
            }
            let nothing_there = report.no_miss_prefetchable.is_some_and(|(objects, _)| objects == 0.0);
            if report.inventory_share == Some(0.0) && report.infinite.misses.prefetchable().bytes > 0 {
                let why = match (left_out == rows.rows, nothing_there) {
                    (true, _) => "no row of it can be used.",
                    (_, true) => "all of it is newer than the off-peaks before the measured peaks.",
                    _ => "do both spell URLs alike, and does the trace have URLs?",
                };
                note("inventory", format!("Nothing that was missed is in the inventory: {why}"));
            }
        }
    }
    notes
}
