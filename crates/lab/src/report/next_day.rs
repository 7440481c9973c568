//! The page of `cosm smooth evaluate`: how well what was learned from one day did on the next, as the thesis' Figures 7.3 and 7.4 show it.

use super::axis::Axis;
use super::document;
use super::html::{escape, figure, heading, mb, paragraph, per_cent, table, thousands};
use super::plot::{Bars, Line, bars, lines};
use learn::day::LEVEL;
use learn::evaluate::{Composition, DayOutcome, Given, Report, Tested, date};

/// Bytes of the unit of the plots.
const MB: f64 = 1e6;
/// Days of a profile.
const SHOWN: usize = 3;
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The page. An error says what could not be drawn.
pub fn page(
    source: &str,
    is_synthetic: bool,
    asked: &[(String, String)],
    report: &Report,
) -> Result<String, String> {
    let title = "Learned on one day, tested on the next";
    let tag = if is_synthetic {
        "<p><span class=\"tag\">synthetic input</span> The requests and inventories are synthetic: results on them are not those of a \
         real trace.</p>\n"
    } else {
        ""
    };
    let mut body = format!("<h1>{title}</h1>\n{tag}");
    body += &paragraph(&format!(
        "{source}. {} requests. Of {} servers that served something prefetchable, {} are chosen, which served {} of it.",
        thousands(report.requests),
        thousands(report.servers as u64),
        thousands(report.chosen_servers as u64),
        per_cent(report.chosen_share)
    ));
    let options: Vec<String> = asked.iter().map(|(name, value)| format!("{name} {value}")).collect();
    body += &paragraph(&format!("Options: {}.", options.join(", ")));
    if !report.notes.is_empty() {
        let notes: String = report.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
        body += &format!("<h2>What limits the figures</h2>\n<ul>\n{notes}</ul>\n");
    }
    body += &totals(report);
    body += &days(report);
    for tested in &report.strategies {
        if tested.totals.bytes.hit + tested.totals.bytes.vain > 0 {
            body += &strategy(tested, report)?;
        }
    }
    Ok(document(title, &body))
}

fn totals(report: &Report) -> String {
    let head = [
        "strategy",
        "accuracy",
        "coverage",
        "timeliness",
        "chosen servers: peak, mean of days",
        "highest of all days",
        "all servers: peak, mean of days",
        "highest of all days",
        "accuracy in objects",
        "coverage in objects",
    ];
    let rows = report.strategies.iter().map(|tested| {
        let totals = &tested.totals;
        vec![
            tested.name.clone(),
            share(totals.accuracy),
            share(totals.coverage),
            share(totals.timeliness),
            lower(totals.chosen_lower),
            lower(totals.chosen_highest_lower),
            lower(totals.all_lower),
            lower(totals.all_highest_lower),
            share(totals.accuracy_in_objects),
            share(totals.coverage_in_objects),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let bytes = report.strategies.iter().map(|tested| {
        let bytes = &tested.totals.bytes;
        let amounts = [bytes.hit + bytes.vain, bytes.hit, bytes.missed, bytes.vain, bytes.left];
        std::iter::once(tested.name.clone()).chain(amounts.map(|bytes| mb(bytes as f64))).collect()
    });
    let bytes: Vec<Vec<String>> = bytes.collect();
    let bytes_head = ["strategy", "fetched", "A: asked for", "B: not fetched", "C: in vain", "D: neither"];
    let note = "Of bytes unless it says objects. Accuracy is A/(A+C), coverage A/(A+B). Timeliness is the share of what was fetched and missed \
                in the peak that had not changed since the night began. A peak is its highest quarter of an hour.";
    heading(2, "All days", false)
        + &table(false, &head.map(String::from), &rows)
        + &table(false, &bytes_head.map(String::from), &bytes)
        + &paragraph(note)
}

fn days(report: &Report) -> String {
    let mut head =
        vec!["day".to_owned(), "candidates".into(), "bytes".into(), "prefetchable".into(), "bytes".into()];
    head.extend(["of it not listed".into(), "of all servers".into(), "budget".into()]);
    let rows = report.days.iter().map(|day| {
        vec![
            named(day),
            thousands(day.candidates as u64),
            mb(day.candidate_bytes as f64),
            thousands(day.positives.objects + day.unlisted.objects),
            mb((day.positives.bytes + day.unlisted.bytes) as f64),
            mb(day.unlisted.bytes as f64),
            mb(day.prefetchable.bytes as f64),
            day.budget.map_or("none".into(), |bytes| mb(bytes as f64)),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    heading(2, "What there was to fetch", false) + &table(false, &head, &rows)
}

fn strategy(tested: &Tested, report: &Report) -> Result<String, String> {
    let given = |day: &DayOutcome| report.days.iter().find(|given| given.day == day.day);
    let name = |day: &DayOutcome| given(day).map_or(date(day.day), named);
    let mut text = heading(2, &tested.name, false);
    let head = [
        "day",
        "learned from",
        "accuracy",
        "coverage",
        "timeliness",
        "peak, chosen servers",
        "all servers",
        "fetched",
        "night raised to",
    ];
    let rows = tested.days.iter().map(|day| {
        vec![
            name(day),
            day.learned_from.map_or("-".into(), date),
            share(day.accuracy),
            share(day.coverage),
            share(day.timeliness),
            lower(learn::evaluate::lower(day.chosen_peak)),
            lower(learn::evaluate::lower(day.all_peak)),
            mb((day.bytes.hit + day.bytes.vain) as f64),
            mb(day.raised[0]),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    text += &table(false, &head.map(String::from), &rows);
    let rules = tested.days.iter().filter_map(|day| {
        let Composition { rules, of_a_server, of_com, of_images, .. } = day.composition?;
        let counts = [rules, of_a_server, of_com, of_images].map(|count| count.to_string());
        Some(std::iter::once(name(day)).chain(counts).collect())
    });
    let rules: Vec<Vec<String>> = rules.collect();
    if !rules.is_empty() {
        let head = ["day", "rules", "that name a server", "the domain com", "a type of images"];
        text += &table(false, &head.map(String::from), &rules);
        text +=
            &paragraph("The rules that chose on a day: how many, and what they name (thesis, Figure 7.5).");
    }
    let groups: Vec<Bars> = tested
        .days
        .iter()
        .map(|day| Bars {
            name: name(day),
            values: vec![day.accuracy.unwrap_or(f64::NAN), day.coverage.unwrap_or(f64::NAN)],
            published: None,
        })
        .collect();
    let axis = Axis::linear("share of the bytes", [1.0].into_iter());
    let picture = bars(axis, &["accuracy", "coverage"], &groups)?;
    text += &figure(
        &picture,
        "Accuracy and coverage by day, as Figure 7.3 (b) and (d). No bar: nothing was fetched.",
    );
    let groups: Vec<Bars> = tested
        .days
        .iter()
        .map(|day| {
            let [hit, missed, vain] =
                [day.bytes.hit, day.bytes.missed, day.bytes.vain].map(|bytes| bytes as f64 / MB);
            Bars { name: name(day), values: vec![hit + missed, hit + vain, hit], published: None }
        })
        .collect();
    let axis = Axis::linear("MB", groups.iter().flat_map(|group| group.values.iter().copied()));
    let picture = bars(axis, &["prefetchable", "prefetched", "prefetched and prefetchable"], &groups)?;
    text += &figure(&picture, "Bandwidth by day, as Figure 7.3 (a) and (c).");
    for (of, caption) in [(false, "the chosen servers"), (true, "all servers")] {
        if of && report.chosen_servers == report.servers {
            continue;
        }
        text += &profile(tested, report, of, caption)?;
    }
    Ok(text)
}

/// Figure 7.4: the first days of work.
fn profile(tested: &Tested, report: &Report, all: bool, of: &str) -> Result<String, String> {
    let pairs: Vec<(&Given, &DayOutcome)> = tested
        .days
        .iter()
        .filter_map(|day| Some((report.days.iter().find(|given| given.day == day.day)?, day)))
        .take(SHOWN)
        .collect();
    let Some((first, _)) = pairs.first() else { return Ok(String::new()) };
    let steps = |levels: &dyn Fn(&(&Given, &DayOutcome)) -> Vec<u64>| {
        let mut points = Vec::new();
        for pair in &pairs {
            for (nth, bytes) in levels(pair).into_iter().enumerate() {
                let from = (pair.0.night - first.night) as f64 / 3600.0 + nth as f64 * LEVEL as f64 / 3600.0;
                points.extend([from, from + LEVEL as f64 / 3600.0].map(|x| (x, bytes as f64 / MB)));
            }
        }
        points
    };
    let line = |name: &str, points| Line { name: name.into(), points, published: Vec::new(), marked: false };
    let before = steps(&|(given, _)| if all { given.all.clone() } else { given.chosen.clone() });
    let after = steps(&|(_, day)| if all { day.all.clone() } else { day.chosen.clone() });
    let both = [line("without prefetching", before), line("with it", after)];
    let points = || both.iter().flat_map(|line| line.points.iter());
    let last = points().map(|(x, _)| *x).fold(0.0, f64::max);
    let ticks = pairs.iter().map(|(given, _)| {
        let night = (given.night - first.night) as f64 / 3600.0;
        (night, named(given))
    });
    let x = Axis::linear("night before a day, and its peak", [last].into_iter())
        .upto(last)
        .with_ticks(ticks.collect());
    let picture = lines(&x, &Axis::linear("MB in 15 minutes", points().map(|(_, y)| *y)), &both)?;
    let caption = format!(
        "Misses of {of}, {} days, as Figure 7.4. With prefetching the nights are raised to the least level at which what that adds equals what \
         is fetched, and the peaks lack what was fetched for them.",
        pairs.len()
    );
    Ok(figure(&picture, &caption))
}

fn named(day: &Given) -> String {
    let weekday = day.weekday.and_then(|weekday| WEEKDAYS.get(weekday)).copied().unwrap_or_default();
    format!("{} {weekday}", date(day.day))
}

fn share(of: Option<f64>) -> String {
    of.map_or("-".into(), |share| format!("{share:.3}"))
}

fn lower(by: f64) -> String {
    match -100.0 * by {
        none if none.abs() < 0.05 => "0 %".into(),
        by => format!("{by:.1} %"),
    }
}
