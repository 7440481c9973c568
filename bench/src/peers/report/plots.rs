//! The pictures: bars for what is compared by one figure, lines for what depends on the offered load.

use super::super::scenario::{Point, Results};
use super::svg::{Bar, Line, Panel, draw};
use super::tables::{contenders, scenarios, values};
use crate::figures::{median, spread};

/// File names and what is in them.
pub fn of(results: &Results) -> Vec<(&'static str, String)> {
    let pictures = [("peers.svg", bars(results)), ("peers-load.svg", lines(results))];
    pictures
        .into_iter()
        .filter(|(_, panels)| !panels.is_empty())
        .map(|(name, all)| (name, draw(&all)))
        .collect()
}

fn bars(results: &Results) -> Vec<Panel> {
    let panel = |rows: &Vec<&super::super::figure::Row>| {
        let figure = rows[0].figures[0].0;
        let bar = |name: &&'static str| {
            let values = values(rows, name, figure);
            let value = median(values.iter().copied())?;
            Some(Bar { name, value, spread: spread(values), decimals: figure.decimals })
        };
        let bars = contenders(rows).iter().filter_map(bar).collect();
        Panel::Bars { title: format!("{}: {}", rows[0].scenario, figure.label), bars }
    };
    scenarios(&results.rows).iter().map(panel).collect()
}

/// What a picture shows over the offered load.
type Look = (&'static str, fn(&Point) -> f64);

/// The paper's Figures 18, 19 and 20.
const LOOKS: [Look; 3] = [
    ("answered requests/s", |point| point.throughput_per_second),
    ("mean response, ms", |point| 1e3 * point.mean_seconds),
    ("from the origin, KB/s", |point| point.origin_bytes_per_second / 1e3),
];

fn lines(results: &Results) -> Vec<Panel> {
    let mut names: Vec<&str> = results.curves.iter().map(|curve| curve.scenario).collect();
    names.dedup();
    let panel = |name: &str, (what, look): Look| {
        let curves = results.curves.iter().filter(|curve| curve.scenario == name && !curve.points.is_empty());
        let lines = curves.map(|curve| Line {
            name: curve.contender,
            points: curve.points.iter().map(|point| (point.offered_per_second, look(point))).collect(),
        });
        Panel::Lines { title: format!("{name}: {what}"), lines: lines.collect() }
    };
    names.iter().flat_map(|name| LOOKS.map(|look| panel(name, look))).collect()
}
