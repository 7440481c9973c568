//! The papers' figures from replays, beside what their text has of them.

use super::axis::Axis;
use super::html::{figure, heading, paragraph, per_cent, table, thousands};
use super::pictures;
use super::plot::{Bars, Line, bars, lines};
use crate::experiments::figures::{Curve, FIGURES, Figure, NEARBY, Over, Shows};
use crate::replay::watch::Seen;
use crate::results::{Asked, Point, Points};

/// All figures of which there are most points: some are shared, and a few may have failed.
pub fn section(title: &str, points: &Points) -> Result<String, String> {
    let mut body = String::new();
    for figure in FIGURES {
        let found = Found { figure, asked: &points.asked, points: &points.points };
        let points: usize = figure.curves.iter().map(|curve| curve.at.len()).sum();
        if 4 * found.all().count() >= 3 * points {
            body += &found.section()?;
        }
    }
    match body.as_str() {
        "" => Ok(String::new()),
        body => Ok(heading(2, title, points.asked.synthetic) + body),
    }
}

/// A figure and what was replayed.
struct Found<'a> {
    figure: &'static Figure,
    asked: &'a Asked,
    points: &'a [Point],
}

impl Found<'_> {
    fn point(&self, curve: &Curve, at: f64) -> Option<&Point> {
        let job = self.figure.job(curve, at, self.asked.requests)?;
        self.points.iter().find(|point| job.is_of(point))
    }

    /// The points of all curves that there are.
    fn all(&self) -> impl Iterator<Item = (&'static Curve, f64, &Point)> {
        let one = move |curve: &'static Curve| {
            curve.at.iter().filter_map(move |at| Some((curve, *at, self.point(curve, *at)?)))
        };
        self.figure.curves.iter().flat_map(one)
    }

    /// What the papers tell of a curve, for as many requests as were made.
    fn published(&self, curve: &Curve) -> Vec<(f64, f64)> {
        let part = self.all().next().map_or(1.0, |(_, _, point)| self.figure.part(point));
        let scaled = |(x, y): &(f64, f64)| match self.figure.shows {
            Shows::Seconds(_) => (*x, y * part),
            Shows::FreeSizes => (x * part, *y),
            _ => (*x, *y),
        };
        curve.published.iter().map(scaled).collect()
    }

    fn section(&self) -> Result<String, String> {
        let title = format!("Figure {}: {}", self.figure.number, self.figure.title);
        let body = match self.figure.shows {
            Shows::Seconds(Over::Recipe) => self.by_recipe()?,
            Shows::Seconds(over) => self.by_parameter(over)?,
            Shows::Head => self.seen(|recipe, seen| match &seen.head {
                Some(head) => pictures::head(recipe, head),
                None => Ok(paragraph("This medium does not say where its head is.")),
            })?,
            Shows::Map => self.seen(|recipe, seen| Ok(pictures::maps(recipe, &seen.maps)))?,
            Shows::FreeSizes => self.free_sizes()?,
            Shows::Distances => self.distances()?,
        };
        Ok(heading(3, &title, self.asked.synthetic) + &body + &self.ratios() + &self.requests())
    }

    fn requests(&self) -> String {
        let gets = self.all().next().map_or(0, |(_, _, point)| point.row.gets);
        let paper = if gets == self.figure.gets {
            "as in the paper".into()
        } else {
            format!("the paper has {}; published times are for as many as here", thousands(self.figure.gets))
        };
        paragraph(&format!("{} requests ({paper}).", thousands(gets)))
    }

    fn by_recipe(&self) -> Result<String, String> {
        let group = |(curve, _, point): (&Curve, f64, &Point)| Bars {
            name: curve.name(self.figure),
            values: vec![point.row.seconds],
            published: self.published(curve).first().map(|(_, seconds)| *seconds),
        };
        let groups: Vec<Bars> = self.all().map(group).collect();
        let most = groups.iter().flat_map(|group| group.published.into_iter().chain(group.values.clone()));
        let plot = bars(Axis::linear("seconds", most), &["seconds"], &groups)?;
        let row = |group: &Bars| {
            let published = group.published.map_or(String::new(), |seconds| format!("{seconds:.0}"));
            vec![group.name.clone(), format!("{:.0}", group.values[0]), published]
        };
        let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
        let head = ["recipe", "seconds", "published"].map(str::to_owned);
        Ok(figure(&plot, "Completion time.") + &table(false, &head, &rows))
    }

    fn by_parameter(&self, over: Over) -> Result<String, String> {
        let x_of = |at: f64| if over == Over::Utilization { 100.0 * at } else { at };
        let line = |curve: &Curve| Line {
            name: curve.name(self.figure),
            points: curve
                .at
                .iter()
                .filter_map(|at| Some((x_of(*at), self.point(curve, *at)?.row.seconds)))
                .collect(),
            published: self.published(curve).into_iter().map(|(x, y)| (x_of(x), y)).collect(),
            marked: true,
        };
        let all: Vec<Line> = self.figure.curves.iter().map(line).collect();
        let points = || all.iter().flat_map(|line| line.points.iter().chain(&line.published));
        let (xs, y) =
            (points().map(|(x, _)| *x), Axis::linear("completion time, seconds", points().map(|(_, y)| *y)));
        let (name, x) = match over {
            Over::Threshold => ("blocks", Axis::logarithmic("threshold, blocks of 512 bytes", xs)),
            _ => ("utilisation", Axis::between("utilisation of the disk, per cent", xs)),
        };
        let plot = lines(&x, &y, &all)?;
        let mut values: Vec<f64> = self.figure.curves.iter().flat_map(|curve| curve.at).copied().collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let cell = |curve: &Curve, at: f64| {
            let here = if curve.at.contains(&at) { self.point(curve, at) } else { None };
            let here = here.map_or(String::new(), |point| format!("{:.0}", point.row.seconds));
            match self.published(curve).iter().find(|(x, _)| *x == at) {
                Some((_, seconds)) => format!("{here} (published {seconds:.0})"),
                None => here,
            }
        };
        let row = |at: &f64| {
            let first =
                if over == Over::Utilization { format!("{:.0} %", 100.0 * at) } else { format!("{at}") };
            std::iter::once(first).chain(self.figure.curves.iter().map(|curve| cell(curve, *at))).collect()
        };
        let rows: Vec<Vec<String>> = values.iter().map(row).collect();
        let head = std::iter::once(name.to_owned()).chain(all.iter().map(|line| line.name.clone()));
        Ok(figure(&plot, "Completion time.") + &table(false, &head.collect::<Vec<_>>(), &rows))
    }

    /// A picture of each recipe.
    fn seen(&self, draw: impl Fn(&str, &Seen) -> Result<String, String>) -> Result<String, String> {
        let seen = self.all().filter_map(|(_, _, point)| Some((&point.row.recipe, point.seen.as_ref()?)));
        seen.map(|(recipe, seen)| draw(recipe, seen)).collect()
    }

    fn lines(&self, of: impl Fn(&str, &Seen) -> Line) -> Vec<Line> {
        let line = |(curve, _, point): (&'static Curve, f64, &Point)| {
            let line = of(&point.row.recipe, point.seen.as_ref()?);
            Some(Line { published: self.published(curve), ..line })
        };
        self.all().filter_map(line).collect()
    }

    fn free_sizes(&self) -> Result<String, String> {
        let all = self.lines(|recipe, seen| pictures::free_sizes(recipe, &seen.free));
        let plot = pictures::free_plot(&all)?;
        let mean = |points: &[(f64, f64)], from: f64| {
            let after: Vec<f64> = points.iter().filter(|(x, _)| *x >= from).map(|(_, y)| *y).collect();
            after.iter().sum::<f64>() / after.len().max(1) as f64
        };
        let row = |line: &Line| {
            let half = line.points.last().map_or(0.0, |(x, _)| x / 2.0);
            vec![
                line.name.clone(),
                format!("{:.0}", mean(&line.points, half)),
                format!("{:.0}", mean(&line.published, 0.0)),
            ]
        };
        let head = ["recipe", "KiB in the second half, mean", "published"].map(str::to_owned);
        let rows: Vec<Vec<String>> = all.iter().map(row).collect();
        Ok(figure(&plot, "On a logarithmic scale, over the requests so far.") + &table(false, &head, &rows))
    }

    fn distances(&self) -> Result<String, String> {
        let all = self.lines(|recipe, seen| pictures::distances(recipe, &seen.distances));
        let plot = pictures::distance_plot(&all)?;
        let row = |(_, _, point): (&Curve, f64, &Point)| {
            let (recipe, distances) = (&point.row.recipe, &point.seen.as_ref()?.distances);
            let (_, next, ten) = NEARBY.iter().find(|(name, ..)| name == recipe)?;
            let share = |count: u64| {
                format!("{} ({})", thousands(count), per_cent(count as f64 / distances.pairs.max(1) as f64))
            };
            let published = |count: &u64| thousands((*count as f64 * self.figure.part(point)).round() as u64);
            let (here, near) = (share(distances.next), share(distances.within_ten()));
            Some(vec![
                recipe.clone(),
                thousands(distances.pairs),
                here,
                published(next),
                near,
                published(ten),
            ])
        };
        let rows: Vec<Vec<String>> = self.all().filter_map(row).collect();
        let head = ["recipe", "reads", "of the next block", "published", "within ten blocks", "published"];
        let shares = paragraph(
            "Published of all reads, within ten blocks: 6 % without locality buffers, 17 % with them.",
        );
        Ok(figure(&plot, pictures::DISTANCES) + &table(false, &head.map(str::to_owned), &rows) + &shares)
    }

    fn ratios(&self) -> String {
        let row = |ratio: &crate::experiments::figures::Ratio| {
            let [one, other] = ratio.times.map(|(nth, at)| {
                let curve = &self.figure.curves[nth];
                self.point(curve, at).map(|point| (curve.name(self.figure), at, point.row.seconds))
            });
            let ((one, one_at, one_seconds), (other, other_at, other_seconds)) = (one?, other?);
            let (least, most) = ratio.published;
            let published = match most {
                most if most == least => format!("{least}"),
                f64::INFINITY => format!("over {least}"),
                most => format!("{least}–{most}"),
            };
            Some(vec![
                format!("{one} at {one_at} over {other} at {other_at}"),
                format!("{:.2}", one_seconds / other_seconds),
                published,
                ratio.source.to_owned(),
            ])
        };
        let rows: Vec<Vec<String>> = self.figure.ratios.iter().filter_map(row).collect();
        let head = ["times as long", "here", "published", "source"].map(str::to_owned);
        if rows.is_empty() { String::new() } else { table(false, &head, &rows) }
    }
}
