//! What the tables say: for each scenario everyone's figures, and Cosm's first figure in relation to theirs.

use super::super::contender::ALL;
use super::super::figure::{Figure, Row};
use super::super::scenario::{Curve, Point, Results};
use super::table::Table;
use crate::figures::{median, spread, thousands};

pub fn of(results: &Results) -> Vec<Table> {
    let rates = curves(&results.curves).into_iter();
    scenarios(&results.rows).iter().map(|rows| scenario(rows)).chain(rates).collect()
}

/// The rows of each scenario, in the order in which they were first met.
pub fn scenarios(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut all: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match all.iter_mut().find(|rows| rows[0].scenario == row.scenario) {
            Some(rows) => rows.push(row),
            None => all.push(vec![row]),
        }
    }
    all
}

/// Those who have figures, in their usual order.
pub fn contenders(rows: &[&Row]) -> Vec<&'static str> {
    let has = |name: &&str| rows.iter().any(|row| row.contender == *name);
    ALL.iter().map(|one| one.name).filter(has).collect()
}

pub fn values(rows: &[&Row], contender: &str, figure: &Figure) -> Vec<f64> {
    let own = rows.iter().filter(|row| row.contender == contender);
    own.filter_map(|row| row.figure(figure)).filter(|value| value.is_finite()).collect()
}

fn scenario(rows: &[&Row]) -> Table {
    let figures: Vec<&Figure> = rows[0].figures.iter().map(|(figure, _)| *figure).collect();
    let mut head = vec![String::new()];
    head.extend(figures.iter().map(|figure| figure.label.to_owned()));
    head.push(format!("cosm's {} to it", figures[0].label));
    let line = |name: &&'static str| {
        let mut cells = vec![(*name).to_owned()];
        let values = figures.iter().enumerate().map(|(at, figure)| (at, figure, values(rows, name, figure)));
        cells.extend(values.map(|(at, figure, values)| cell(&values, figure.decimals, at == 0)));
        cells.push(if *name == "cosm" { "1".into() } else { cell(&ratios(rows, name, figures[0]), 2, true) });
        cells
    };
    Table {
        title: rows[0].scenario.clone(),
        rows: contenders(rows).iter().map(line).collect(),
        head,
        note: None,
    }
}

/// Round by round, since runs of one round saw the same machine.
fn ratios(rows: &[&Row], contender: &str, figure: &Figure) -> Vec<f64> {
    let of = |name: &str, round| {
        let row = rows.iter().find(|row| row.contender == name && row.round == round);
        row.and_then(|row| row.figure(figure))
    };
    let rounds = rows.iter().filter(|row| row.contender == contender).map(|row| row.round);
    let each = rounds.filter_map(|round| Some(of("cosm", round)? / of(contender, round)?));
    each.filter(|ratio| ratio.is_finite()).collect()
}

fn cell(values: &[f64], decimals: usize, with_spread: bool) -> String {
    let Some(middle) = median(values.iter().copied()) else { return "–".into() };
    let (least, most) = spread(values.iter().copied());
    let middle = number(middle, decimals);
    if !with_spread || values.len() < 2 {
        return middle;
    }
    format!("{middle} ({}–{})", number(least, decimals), number(most, decimals))
}

fn number(value: f64, decimals: usize) -> String {
    if decimals == 0 || !value.is_finite() { thousands(value) } else { format!("{value:.decimals$}") }
}

/// A table for each series, as the paper's Figures 18 to 20 have it, with a line for each rate of each contender.
fn curves(curves: &[Curve]) -> Vec<Table> {
    let mut names: Vec<&str> = Vec::new();
    for curve in curves.iter().filter(|curve| !curve.points.is_empty()) {
        if !names.contains(&curve.scenario) {
            names.push(curve.scenario);
        }
    }
    names.into_iter().map(|name| rates(name, curves)).collect()
}

fn rates(name: &str, curves: &[Curve]) -> Table {
    let head = "|offered/s|answered/s|mean ms|hits %|hit ms|hit p50 ms|miss ms|origin KB/s|reads/s|writes/s|its core|held";
    let own = curves.iter().filter(|curve| curve.scenario == name);
    Table {
        title: format!("{name}: every rate"),
        head: head.split('|').map(str::to_owned).collect(),
        rows: own.flat_map(|curve| curve.points.iter().map(|point| rate(curve.contender, point))).collect(),
        note: Some(
            "\nA rate is held while the mean response stays under 1.1 times the origin's delay, 90 % of what is offered is \
             answered meanwhile, and 99 % at all. A request that waited for another's fetch counts as a hit. \
             Who held the last rate may hold more; who did not hold one is offered twice as much once, to show what becomes \
             of the response time."
                .into(),
        ),
    }
}

fn rate(contender: &str, point: &Point) -> Vec<String> {
    vec![
        contender.into(),
        thousands(point.offered_per_second),
        thousands(point.throughput_per_second),
        thousands(1e3 * point.mean_seconds),
        number(100.0 * point.hit_share, 1),
        number(1e3 * point.hit_seconds, 1),
        number(1e3 * point.hit_median_seconds, 1),
        thousands(1e3 * point.miss_seconds),
        thousands(point.origin_bytes_per_second / 1e3),
        thousands(point.device_reads_per_second),
        thousands(point.device_writes_per_second),
        number(point.core, 2),
        point.broke.clone().unwrap_or_else(|| "yes".into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::super::figure::PER_CPU_SECOND;
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let row = |contender, round, value| Row {
            scenario: "hit".into(),
            contender,
            round,
            figures: vec![(&PER_CPU_SECOND, value)],
        };
        let rows = [row("cosm", 0, 10.0), row("nginx", 0, 5.0), row("cosm", 1, 9.0), row("nginx", 1, 3.0)];
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(ratios(&rows, "nginx", &PER_CPU_SECOND), [2.0, 3.0]);
        let table = scenario(&rows);
        assert_eq!(table.rows[1], ["nginx", "4 (3–5)", "2.50 (2.00–3.00)"]);
        assert_eq!(table.rows[0], ["cosm", "10 (9–10)", "1"]);
    }
}
