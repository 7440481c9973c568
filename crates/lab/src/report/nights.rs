//! The page of `cosm smooth loop`: what strategies made of the nights of a synthetic world, beside no prefetching.

use super::axis::Axis;
use super::document;
use super::html::{figure, heading, paragraph, table, thousands};
use super::plot::{Bars, Line, bars, lines};
use crate::smooth::{Night, QUARTERS, Run, Saved, Strategy};

/// Bytes of the unit of the plots.
const MB: f64 = 1e6;
/// Days of a profile.
const SHOWN: usize = 3;

/// Runs of a strategy, one a seed, and how much lower each was than without prefetching.
pub type Tried = (Strategy, Vec<(Run, Saved)>);

/// The page; `without` is the first seed without prefetching. An error says what could not be drawn.
pub fn page(asked: &[(String, String)], without: &Run, found: &[Tried]) -> Result<String, String> {
    let title = "Fetched at night, asked for by day";
    let mut body = format!(
        "<h1>{title}</h1>\n<p><span class=\"tag\">synthetic input</span> Sites, readers and requests are synthetic: results on them are \
         not those of a real trace.</p>\n"
    );
    let seeds: Vec<String> =
        found.iter().take(1).flat_map(|(_, runs)| runs).map(|(run, _)| run.seed.to_string()).collect();
    let options: Vec<String> = asked.iter().map(|(name, value)| format!("{name} {value}")).collect();
    body += &paragraph(&format!("Seeds {}. Options: {}.", seeds.join(", "), options.join(", ")));
    body += &totals(found);
    for (strategy, runs) in found.iter().filter(|(strategy, _)| *strategy != Strategy::Nothing) {
        body += &heading(2, strategy.name(), false);
        body += &days(runs)?;
        if let Some((run, _)) = runs.first() {
            body += &profile(run, without)?;
        }
    }
    Ok(document(title, &body))
}

fn totals(found: &[Tried]) -> String {
    let head =
        ["strategy", "seeds", "accuracy", "coverage", "timeliness", "highest level", "bytes of the peaks"];
    let rows = found.iter().map(|(strategy, runs)| {
        let of = |value: &dyn Fn(&Run, &Saved) -> Option<f64>, show: fn(f64) -> String| {
            spread(runs.iter().filter_map(|(run, saved)| value(run, saved)).collect(), show)
        };
        vec![
            strategy.name().to_owned(),
            thousands(runs.len() as u64),
            of(&|run, _| run.totals().accuracy(), share),
            of(&|run, _| run.totals().coverage(), share),
            of(&|run, _| run.totals().timeliness(), share),
            of(&|_, saved| Some(saved.highest), lower),
            of(&|_, saved| Some(saved.peaks), lower),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let note = "Of the bytes of all peaks of a seed; the median of the seeds, with the least and the most. The highest level is that of all peaks, \
                beside the same seed without prefetching.";
    heading(2, "All nights", false) + &table(true, &head.map(String::from), &rows) + &paragraph(note)
}

fn days(runs: &[(Run, Saved)]) -> Result<String, String> {
    let nights = runs.first().map_or(&[][..], |(run, _)| &run.peaks[..]);
    let of = |nth: usize, value: fn(&Night) -> Option<f64>| {
        median(runs.iter().filter_map(|(run, _)| value(run.peaks.get(nth)?)).collect()).unwrap_or(f64::NAN)
    };
    let groups = nights.iter().enumerate().map(|(nth, night)| Bars {
        name: format!("day {}", night.day),
        values: vec![of(nth, Night::accuracy), of(nth, Night::coverage)],
        published: None,
    });
    let groups: Vec<Bars> = groups.collect();
    let axis = Axis::linear("share of the bytes", [1.0].into_iter());
    let picture = bars(axis, &["accuracy", "coverage"], &groups)?;
    Ok(figure(
        &picture,
        "Accuracy and coverage by day, the median of the seeds. No bar: nothing was fetched.",
    ))
}

/// As Figure 7.4: the first days on which something was fetched, of one seed.
fn profile(run: &Run, without: &Run) -> Result<String, String> {
    let Some(first) = run.peaks.first().map(|night| night.day as usize) else { return Ok(String::new()) };
    let days = run.peaks.iter().zip(first..).take(SHOWN);
    let days = days.take_while(|(night, day)| night.day as usize == *day).count();
    let steps = |name: &str, levels: &[u64]| {
        let shown = levels.iter().skip(first * QUARTERS).take(days * QUARTERS).zip(0..);
        let points = shown.flat_map(|(bytes, nth)| {
            [nth, nth + 1].map(|quarter| (f64::from(quarter) / 4.0, *bytes as f64 / MB))
        });
        Line { name: name.into(), points: points.collect(), published: Vec::new(), marked: false }
    };
    let all = [
        steps("without prefetching", &without.levels),
        steps("with it", &run.levels),
        steps("of it fetched ahead", &run.ahead),
    ];
    let points = all.iter().flat_map(|line| line.points.iter());
    let hours = (24 * days) as f64;
    let x =
        Axis::linear(&format!("hours since the midnight of day {first}"), [hours].into_iter()).upto(hours);
    let picture = lines(&x, &Axis::linear("MB in 15 minutes", points.map(|(_, y)| *y)), &all)?;
    let caption = format!(
        "What came from the sites, {days} days of seed {}, as Figure 7.4: all servers, heads and validations too.",
        run.seed
    );
    Ok(figure(&picture, &caption))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

fn spread(values: Vec<f64>, show: fn(f64) -> String) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match (values.len(), median(values)) {
        (_, None) => "-".into(),
        (1, Some(median)) => show(median),
        (_, Some(median)) => format!("{} ({} to {})", show(median), show(least), show(most)),
    }
}

fn share(of: f64) -> String {
    format!("{of:.2}")
}

fn lower(by: f64) -> String {
    format!("{:+.1} %", -100.0 * by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smooth::{Settings, run};
    use trace::world;

    #[test]
    fn the_levels_with_and_without_are_drawn() {
        let world = world::Settings { days: 5, ..world::Settings::small() };
        let settings = Settings { world, space: 256 << 20, ..Settings::default() };
        let go = |strategy| run(&settings, strategy, &mut |_, _| {}).unwrap();
        let without = go(Strategy::Nothing);
        let found: Vec<Tried> = [Strategy::Nothing, Strategy::SeenServer]
            .into_iter()
            .map(|strategy| {
                let run = go(strategy);
                let saved = run.against(&without);
                (strategy, vec![(run.clone(), saved.clone()), (run, saved)])
            })
            .collect();
        let asked = [("strategies".to_owned(), "nothing & \"seen-server\"".to_owned())];
        let page = super::super::tests::check_page(&page(&asked, &without, &found).unwrap());
        for part in ["of it fetched ahead", "2 days of seed 1", "<td>seen-server</td><td>2</td>", "day 4"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!(page.matches("<svg").count(), 2);
        // One day alone, and none, have a page too.
        let short = |days: usize| {
            let mut short = found[1].clone();
            short.1.iter_mut().for_each(|(run, _)| run.peaks.truncate(days));
            super::super::tests::check_page(&super::page(&[], &without, &[short]).unwrap())
        };
        assert!(short(1).contains("1 days of seed 1") && !short(0).contains("days of seed"));
    }
}
