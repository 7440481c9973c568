//! The page of `cosm smooth analyze`: the day, what of its peak could have been fetched before it, and who serves that.

use super::axis::Axis;
use super::document;
use super::html::{escape, figure, heading, mb, paragraph, per_cent, table, thousands};
use super::plot::{Bars, Line, bars, lines};
use learn::analysis::{Amount, CacheFigures, Report, Split, share};

/// Seconds of a level, and levels of a day.
const LEVEL: f64 = learn::day::LEVEL as f64;
const LEVELS: usize = learn::day::LEVELS;
/// Peaks that have a row; more are in analysis.json.
const ROWS: usize = 40;
const TITLE: &str = "Bandwidth smoothing: what could be fetched before the peak";

/// The page. An error says what could not be drawn.
pub fn page(trace: &str, is_synthetic: bool, report: &Report) -> Result<String, String> {
    let mut body = format!("<h1>{TITLE}</h1>\n");
    if is_synthetic {
        body += "<p><span class=\"tag\">synthetic input</span> The requests are synthetic: results on them are not those of a real \
                 trace.</p>\n";
    }
    body += &asked(trace, report);
    for section in [profile, hits, misses, uniformity, peaks, servers, predictions] {
        body += &section(report)?;
    }
    Ok(document(TITLE, &body))
}

fn asked(trace: &str, report: &Report) -> String {
    let whole = report.whole;
    let days = (report.last - report.first) as f64 / 86_400.0;
    let rows = [
        ("trace", trace.to_owned()),
        ("requests", thousands(whole.referenced.requests)),
        ("bytes", mb(whole.referenced.bytes as f64)),
        ("objects", thousands(report.objects)),
        ("servers", thousands(report.servers)),
        ("days", format!("{days:.1}")),
        ("peak", format!("{} on {}", report.settings.peak, report.settings.peak.days)),
        ("local time", offset(report.calendar.utc_offset)),
        ("warm-up", format!("{:.1} days", report.settings.warm_up as f64 / 86_400.0)),
        ("peaks measured", format!("{} of {}", report.measured, report.peaks.len())),
        ("finite cache", mb(report.settings.cache as f64)),
        ("unaltered is told by", if report.by_date { "Last-Modified" } else { "size" }.into()),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.into(), value]).collect();
    heading(2, "What was asked", false)
        + &table(true, &[String::new(), String::new()], &rows)
        + &notes(report, "peaks")
}

/// Figures 6.1 and 6.2.
fn profile(report: &Report) -> Result<String, String> {
    let mut body = heading(2, "The day", false);
    for (day, name) in [(&report.peak_days, "days with a peak"), (&report.other_days, "other days")] {
        if day.days == 0 {
            continue;
        }
        let series = [
            ("asked for", &day.referenced),
            ("missed by an infinite cache", &day.missed),
            ("missed by the finite cache", &day.missed_finite),
            ("prefetchable", &day.prefetchable),
        ];
        let shown = series.iter().filter(|(_, levels)| levels.iter().any(|level| *level > 0.0));
        let mut all: Vec<Line> = shown.map(|(name, levels)| line(name, over_day(levels))).collect();
        if all.is_empty() {
            continue;
        }
        // What is prefetchable is counted in peaks alone.
        let [from, to] =
            [report.settings.peak.from(), report.settings.peak.to()].map(|at| f64::from(at) / 60.0);
        if let Some(prefetchable) = all.get_mut(3).filter(|_| from < to) {
            prefetchable.points.retain(|(hour, _)| (from..to).contains(hour));
        }
        let x = Axis::hours("hour of the day, local time", 0.0, 24.0);
        let y = Axis::linear("KB a second", all.iter().flat_map(|line| &line.points).map(|(_, y)| *y));
        let caption = format!(
            "Mean of {} {name}, in quarters of an hour (thesis, Figures 6.1 and 6.2). Peak: {} on {}.",
            day.days, report.settings.peak, report.settings.peak.days
        );
        body += &figure(&lines(&x, &y, &all)?, &caption);
    }
    Ok(body)
}

/// Of bytes a level, KB a second over hours.
fn over_day(levels: &[f64]) -> Vec<(f64, f64)> {
    levels.iter().enumerate().map(|(nth, bytes)| (hour(nth), bytes / LEVEL / 1000.0)).collect()
}

/// The middle of a level.
fn hour(nth: usize) -> f64 {
    (nth as f64 + 0.5) * 24.0 / LEVELS as f64
}

fn line(name: &str, points: Vec<(f64, f64)>) -> Line {
    Line { name: name.into(), points, published: Vec::new(), marked: false }
}

fn hits(report: &Report) -> Result<String, String> {
    let row = |name: &str, hits: Amount, all: Amount| {
        let requests = share(hits.requests as f64, all.requests as f64);
        vec![name.into(), per_cent(requests), per_cent(hits.share_of(all))]
    };
    let whole = report.whole;
    let rows = [
        row("infinite cache, whole trace", whole.hits, whole.referenced),
        row("finite cache, whole trace", whole.finite_hits, whole.referenced),
        row("infinite cache, measured peaks", report.infinite.hits, report.referenced),
        row("finite cache, measured peaks", report.finite.hits, report.referenced),
    ];
    let head = ["hits", "of requests", "of bytes"].map(String::from);
    Ok(heading(2, "Hits", false) + &table(false, &head, &rows) + &notes(report, "hits"))
}

type Part = (&'static str, fn(&Split) -> Amount);

/// Figure 6.3.
fn misses(report: &Report) -> Result<String, String> {
    let sides = [&report.infinite, &report.finite];
    let parts: [Part; 5] = [
        ("seen, prefetchable", |split| split.seen),
        ("seen-server, prefetchable", |split| split.seen_server),
        ("unseen-server, prefetchable", |split| split.unseen_server),
        ("altered", |split| split.altered),
        ("not cacheable", |split| split.not_cacheable),
    ];
    let listed: [Part; 9] = [
        ("missed", Split::missed),
        ("prefetchable", Split::prefetchable),
        ("prefetchable: seen", |split| split.seen),
        ("prefetchable: seen-server", |split| split.seen_server),
        ("of seen-server: server new in that peak", |split| split.server_of_this_peak),
        ("prefetchable: unseen-server", |split| split.unseen_server),
        ("of the prefetchable: assumed unaltered", |split| split.assumed),
        ("not prefetchable: altered", |split| split.altered),
        ("not prefetchable: not cacheable", |split| split.not_cacheable),
    ];
    let of = |side: &CacheFigures, part: fn(&Split) -> Amount| {
        let part = part(&side.misses);
        (part.bytes as f64, part.share_of(side.misses.missed()))
    };
    let groups: Vec<Bars> = parts
        .iter()
        .map(|(name, part)| Bars {
            name: (*name).into(),
            values: sides.iter().map(|side| 100.0 * of(side, *part).1).collect(),
            published: None,
        })
        .collect();
    let axis = Axis::linear(
        "per cent of the missed bytes",
        groups.iter().flat_map(|group| group.values.iter().copied()),
    );
    let picture = bars(axis, &["infinite cache", "finite cache"], &groups)?;
    let rows: Vec<Vec<String>> = listed
        .iter()
        .map(|(name, part)| {
            let cells = sides.map(|side| of(side, *part)).map(|(bytes, share)| [mb(bytes), per_cent(share)]);
            std::iter::once((*name).to_owned()).chain(cells.into_iter().flatten()).collect()
        })
        .collect();
    let head =
        ["misses of the measured peaks", "infinite cache", "of the missed", "finite cache", "of the missed"]
            .map(String::from);
    let mut body = heading(2, "What of the misses could have been fetched before the peak", false);
    body +=
        &figure(&picture, "Misses of the measured peaks, by bytes (thesis, Figure 6.3 and section 6.2.1).");
    body += &table(false, &head, &rows);
    if report.again.requests > 0 {
        let altered = report.altered_again;
        body += &paragraph(&format!(
            "Asked for again since the off-peak began: {}, of which {} of the bytes were altered in between.",
            mb(report.again.bytes as f64),
            per_cent(altered.share_of(report.again))
        ));
    }
    if let Some((objects, bytes)) = report.no_miss_prefetchable {
        let share = per_cent(report.inventory_share.unwrap_or(0.0));
        body += &paragraph(&format!(
            "No-miss-prefetchable: {objects:.0} objects, {} a peak. The inventory has {share} of what is prefetchable.",
            mb(bytes)
        ));
    }
    Ok(body + &notes(report, "split") + &notes(report, "inventory"))
}

/// Figure 6.7.
fn uniformity(report: &Report) -> Result<String, String> {
    let mut body = heading(2, "Is the prefetchable share the same all through the peak?", false);
    let peak = report.settings.peak;
    let first = usize::from(peak.from()) * LEVELS / (24 * 60);
    let day = &report.peak_days;
    let at = |nth: usize| nth % LEVELS;
    let span = first..first + peak.levels();
    let points: Vec<(f64, f64)> = span
        .clone()
        .filter(|nth| day.missed[at(*nth)] > 0.0)
        .map(|nth| (hour(nth), 100.0 * day.prefetchable[at(nth)] / day.missed[at(nth)]))
        .collect();
    if !points.is_empty() {
        let ends = [span.start, span.end].map(|nth| nth as f64 * 24.0 / LEVELS as f64);
        let x = Axis::hours("hour of the day, local time", ends[0], ends[1]);
        let y = Axis::linear("per cent of the misses", [100.0].into_iter());
        body += &figure(
            &lines(&x, &y, &[line("prefetchable", points)])?,
            "The prefetchable share of the misses of an infinite cache, in the mean of the days with a peak (thesis, Figure 6.7: \
             36 ± 6 %).",
        );
    }
    let found = report.uniformity;
    Ok(body
        + &paragraph(&format!(
            "Over the {} quarters of an hour of the measured peaks that missed anything: {:.2} ± {:.2}. Equation 6.1 assumes that all are \
             alike.",
            thousands(found.levels as u64),
            found.mean,
            found.deviation
        )))
}

/// Section 6.2.4, each peak.
fn peaks(report: &Report) -> Result<String, String> {
    let measured: Vec<_> = report.peaks.iter().filter(|peak| peak.is_measured).collect();
    let mut body = heading(2, "How far each peak could be lowered", false);
    // A peak without misses breaks the line.
    let level = |of: fn(&CacheFigures) -> Option<f64>| -> Vec<(f64, f64)> {
        let all = measured.iter().map(|peak| of(&peak.infinite).map_or(f64::NAN, |bytes| bytes / 1e6));
        (1..).map(f64::from).zip(all).collect()
    };
    let highest = level(|figures| figures.target.map(|_| figures.level_max));
    let target = level(|figures| figures.target.map(|target| target.target_level));
    if highest.iter().any(|(_, bytes)| bytes.is_finite()) {
        let ticks = (1..).map(f64::from).zip(measured.iter().map(|peak| peak.date.clone()));
        let x = Axis::linear("measured peaks", [measured.len() as f64].into_iter())
            .upto(measured.len() as f64)
            .with_ticks(ticks.collect());
        let y = Axis::linear("MB in a quarter of an hour", highest.iter().map(|(_, y)| *y));
        let mut all = [line("highest level, L_m", highest), line("target level, L_t", target)];
        all.iter_mut().for_each(|line| line.marked = measured.len() <= ROWS);
        body += &figure(
            &lines(&x, &y, &all)?,
            "Misses of an infinite cache: the highest quarter of an hour of each peak, and how low perfect prefetching could keep it \
             (thesis, equations 6.1 to 6.5).",
        );
    }
    body += &paragraph(&format!(
        "In the mean, L_m is lowered by {} with an infinite cache and by {} with the finite one.",
        per_cent(report.infinite.potential),
        per_cent(report.finite.potential)
    ));
    let rows: Vec<Vec<String>> = measured
        .iter()
        .take(ROWS)
        .map(|peak| {
            let figures = &peak.infinite;
            let target = figures.target.map_or(String::new(), |target| mb(target.target_level));
            vec![
                peak.date.clone(),
                mb(peak.referenced.bytes as f64),
                per_cent(figures.byte_hit_ratio),
                mb(figures.misses.missed().bytes as f64),
                per_cent(figures.prefetchable),
                mb(figures.off_peak_missed as f64),
                mb(figures.level_max),
                target,
                thousands(peak.servers as u64),
            ]
        })
        .collect();
    let head = [
        "peak",
        "asked for",
        "byte hits",
        "missed, B_peak",
        "prefetchable",
        "off-peak, B_o",
        "L_m",
        "L_t",
        "servers with a miss",
    ];
    body += &table(false, &head.map(String::from), &rows);
    if measured.len() > ROWS {
        body += &paragraph(&format!("The first {ROWS} of {}; analysis.json has all.", measured.len()));
    }
    Ok(body + &notes(report, "target"))
}

/// Figure 6.4.
fn servers(report: &Report) -> Result<String, String> {
    let mut body = heading(2, "Servers", false);
    if let Some((date, order)) = report.order.as_ref().filter(|(_, order)| order.curve.len() > 2) {
        let points = order.curve.iter().map(|(servers, bytes)| (100.0 * servers, 100.0 * bytes)).collect();
        let hundred = |title: &str| Axis::linear(title, [100.0].into_iter());
        let (x, y) =
            (hundred("per cent of the servers with a miss"), hundred("per cent of the prefetchable bytes"));
        let caption = format!(
            "What the servers serve of the prefetchable bytes, those with most first, in the peak of {date} ({} servers; thesis, Figure \
             6.4: a tenth serves 70 %, 4 % serve half).",
            thousands(order.servers as u64)
        );
        body += &figure(&lines(&x, &y, &[line("prefetchable bytes", points)])?, &caption);
    }
    body += &paragraph(&format!(
        "In the median peak a tenth of the servers serves {}, and {} of them serve half.",
        per_cent(report.of_top_tenth),
        per_cent(report.for_half)
    ));
    let all = report.infinite.misses.prefetchable().bytes as f64;
    let rows: Vec<Vec<String>> = report
        .top
        .iter()
        .map(|(name, bytes)| vec![name.clone(), mb(*bytes as f64), per_cent(share(*bytes as f64, all))])
        .collect();
    if !rows.is_empty() {
        let head =
            ["servers with most of it, all measured peaks", "prefetchable", "of all"].map(String::from);
        body += &table(false, &head, &rows);
    }
    Ok(body + &notes(report, "servers"))
}

/// Figure 6.5.
fn predictions(report: &Report) -> Result<String, String> {
    if report.groups.is_empty() {
        return Ok(String::new());
    }
    let of = |name: &str, of: &dyn Fn(&learn::analysis::Group) -> f64| Line {
        marked: true,
        ..line(name, report.groups.iter().map(|group| (group.size as f64, of(group))).collect())
    };
    let all = [
        of("mean", &|group| group.mean),
        of("first quartile", &|group| group.quartiles[0]),
        of("median", &|group| group.quartiles[1]),
        of("third quartile", &|group| group.quartiles[2]),
        of("all together, P[S∩D]/P[S]", &|group| group.pooled),
    ];
    let x = Axis::logarithmic_between(
        "servers in the group, those with most prefetchable bytes",
        report.groups.iter().map(|group| group.size as f64),
    );
    let y = Axis::linear("share of predictions that are right", [1.0].into_iter());
    let rows: Vec<Vec<String>> = report
        .groups
        .iter()
        .map(|group| {
            let numbers =
                [group.mean, group.quartiles[0], group.quartiles[1], group.quartiles[2], group.pooled];
            let counts = [group.size, group.predicted].map(|count| thousands(count as u64));
            counts.into_iter().chain(numbers.map(|number| format!("{number:.2}"))).collect()
        })
        .collect();
    let head = ["servers", "predicted", "mean", "first quartile", "median", "third quartile", "all together"];
    Ok(heading(2, "Does a server that serves in one peak serve in the next?", false)
        + &figure(
            &lines(&x, &y, &all)?,
            "The predictive value of a positive test (PVP): of each server, how often it served something prefetchable in the peak after one \
             in which it did (thesis, Figure 6.5).",
        )
        + &table(false, &head.map(String::from), &rows))
}

fn notes(report: &Report, about: &str) -> String {
    let all = report.notes.iter().filter(|note| note.about == about);
    all.map(|note| format!("<p class=\"dim\">{}</p>\n", escape(&note.text))).collect()
}

/// `-05:00`.
fn offset(minutes: i16) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("UTC{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use learn::analysis::{Analysis, Settings};
    use learn::day::Peak;
    use trace::Access;

    /// Eleven days, with a peak in each working day, a crowd of servers and names that are no markup.
    fn report(hours: u64) -> Report {
        let settings = Settings { peak: Peak::THESIS, utc_offset: 0, warm_up: 2 * 86_400, cache: 1 << 20 };
        let mut analysis = Analysis::new(settings, None);
        for nth in 0..hours * 20 {
            let mut access =
                Access { time: (841_000_000 + nth * 180) * 1_000_000, size: 1000 + nth, ..Access::default() };
            access.set_url(format!("http://<b>&{}.test/{}", nth * nth % 97 % 40, nth % 1000).as_bytes());
            access.modified = 840_000_000 + nth % 7 * 300_000;
            analysis.see(&access).unwrap();
        }
        analysis.finish().unwrap()
    }

    #[test]
    fn a_page_has_all_figures_and_no_markup_of_others() {
        let text = super::super::tests::check_page(&page("a <b>trace</b>", true, &report(11 * 24)).unwrap());
        assert_eq!(text.matches("<svg").count(), 7);
        assert!(text.contains("synthetic input") && text.contains("&lt;b&gt;&amp;"));
    }

    #[test]
    fn a_trace_of_some_hours_has_a_page_too() {
        super::super::tests::check_page(&page("short", false, &report(3)).unwrap());
        super::super::tests::check_page(&page("shorter", false, &report(1)).unwrap());
    }
}
