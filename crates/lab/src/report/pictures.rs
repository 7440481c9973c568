//! Where the head was and what of the space is free: marks and cells, in one path for each colour, so that a page stays small.

use super::axis::{Axis, number};
use super::html::{figure, heading, size};
use super::plot::{Line, WIDTH, axes, failed, lines, svg};
use crate::medium::distances::Distances;
use crate::replay::watch::{FreeSizes, Head, Map, Seen};
use plotters::prelude::*;
use std::fmt::Write;

/// Bytes of the units on axes.
const GB: f64 = 1e9;
const KB: f64 = 1024.0;

/// All that was seen of one recipe.
pub fn all(recipe: &str, seen: &Seen) -> Result<String, String> {
    let mut text = String::new();
    if let Some(found) = &seen.head {
        text += &(heading(3, "Where the head was", false) + &head(recipe, found)?);
    }
    if !seen.maps.is_empty() {
        text += &(heading(3, "The free space at the end", false) + &maps(recipe, &seen.maps));
    }
    if !seen.free.looks.is_empty() {
        let line = Line { marked: false, ..free_sizes(recipe, &seen.free) };
        text += &heading(3, "Mean size of the free pieces", false);
        text += &figure(&free_plot(&[line])?, "Over the requests so far.");
    }
    if seen.distances.pairs > 0 {
        text += &heading(3, "Distances between reads", false);
        text += &figure(&distance_plot(&[distances(recipe, &seen.distances)])?, DISTANCES);
    }
    Ok(text)
}

pub const DISTANCES: &str = "Of the reads that follow one another in a file: how many begin within so many blocks of 512 bytes of \
                             where the one before ended, either way.";

pub fn free_sizes(name: &str, free: &FreeSizes) -> Line {
    let points = free.means().map(|(requests, bytes)| (requests, bytes / KB)).collect();
    Line { name: name.into(), points, published: Vec::new(), marked: false }
}

/// The mean of many is told better by what is usual than by the one piece of the beginning.
pub fn free_plot(all: &[Line]) -> Result<String, String> {
    let points = || all.iter().flat_map(|line| line.points.iter().chain(&line.published));
    let x = Axis::linear("requests", points().map(|(x, _)| *x));
    lines(&x, &Axis::logarithmic("mean free piece, KiB", points().map(|(_, y)| *y)), all)
}

pub fn distances(name: &str, distances: &Distances) -> Line {
    let points = distances.shares().map(|(blocks, share)| (blocks, 100.0 * share)).collect();
    Line { name: name.into(), points, published: Vec::new(), marked: true }
}

pub fn distance_plot(all: &[Line]) -> Result<String, String> {
    let points = || all.iter().flat_map(|line| line.points.iter().chain(&line.published));
    let x = Axis::logarithmic("blocks from the read before, at most", points().map(|(x, _)| *x));
    lines(&x, &Axis::linear("per cent of the reads", points().map(|(_, y)| *y)), all)
}

/// As WebCoSM's Figures 8 and 9: above, a mark for each place that was accessed in half a second; below, how far it is from
/// one access to the next.
pub fn head(recipe: &str, head: &Head) -> Result<String, String> {
    let seconds = |nth: usize| nth as f64 * Head::INTERVAL / 1000.0;
    let end = seconds(head.intervals.len());
    let time = Axis::linear("", [end].into_iter()).upto(end);
    let capacity = head.capacity.max(1) as f64 / GB;
    let place =
        Axis::linear("GB from the disk's beginning", [capacity].into_iter()).upto(capacity).reversed();
    let far = head.intervals.iter().map(|one| one.most as f64 / GB);
    let distance = Axis::linear("GB", far);
    let picture = svg(560, |area| {
        let (upper, lower) = area.split_vertically(380);
        let chart = axes(&upper, &time, &place)?;
        let mut path = String::new();
        let part = capacity / f64::from(Head::PLACES);
        for (nth, interval) in head.intervals.iter().enumerate() {
            for run in interval.places.chunk_by(|one, next| one + 1 == *next) {
                let from = f64::from(run[0]) * part;
                let (x, top) = chart.backend_coord(&(seconds(nth), from));
                let (next, end) = chart.backend_coord(&(seconds(nth + 1), from + part * run.len() as f64));
                let _ = write!(
                    path,
                    "M{x} {top}h{}v{}h-{}z",
                    (next - x).max(1),
                    (end - top).max(1),
                    (next - x).max(1)
                );
            }
        }
        let time = time.titled("seconds");
        let all = |value: fn(&crate::replay::watch::Interval) -> u64| {
            let points = head.intervals.iter().enumerate();
            points.map(|(nth, one)| (seconds(nth), value(one) as f64 / GB)).collect::<Vec<_>>()
        };
        let chart = axes(&lower, &time, &distance)?;
        let plot = chart.plotting_area();
        plot.draw(&PathElement::new(all(|one| one.most), super::plot::COLOURS[6])).map_err(failed)?;
        plot.draw(&PathElement::new(all(|one| one.mean), super::plot::COLOURS[0].stroke_width(2)))
            .map_err(failed)?;
        Ok(format!("<path d=\"{path}\" fill=\"#000000\"/>\n"))
    })?;
    let caption = format!(
        "{recipe}, the last {} seconds. Above, what of the disk was accessed in each half second; below, how far the head went from \
         one access to the next, on the average (blue) and at most (grey).",
        number(end)
    );
    Ok(figure(&picture, &caption))
}

/// As WebCoSM's Figure 13: black is used and white is free, column after column from the lower left.
pub fn maps(recipe: &str, maps: &[Map]) -> String {
    const CELL: usize = 4;
    let mut text = String::new();
    for (nth, map) in maps.iter().enumerate() {
        let (width, height) = (Map::COLUMNS * CELL, Map::ROWS * CELL);
        let mut greys: [String; 10] = Default::default();
        let cells = map.cells.as_bytes();
        for (column, cells) in cells.chunks(Map::ROWS).enumerate() {
            let mut row = 0;
            for run in cells.chunk_by(|one, next| one == next) {
                let grey = usize::from(run[0].saturating_sub(b'0')).min(9);
                let top = height - (row + run.len()) * CELL;
                let length = run.len() * CELL;
                let _ = write!(greys[grey], "M{} {top}h{CELL}v{length}h-{CELL}z", column * CELL);
                row += run.len();
            }
        }
        let mut picture = format!(
            "<svg viewBox=\"-1 -1 {} {}\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\">\n\
             <rect x=\"-0.5\" y=\"-0.5\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#808080\"/>\n",
            width + 2,
            height + 2,
            width + 1,
            height + 1
        );
        for (grey, path) in greys.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let shade = grey * 255 / 9;
            let _ = writeln!(
                picture,
                "<path d=\"{path}\" fill=\"rgb({shade},{shade},{shade})\" shape-rendering=\"crispEdges\"/>"
            );
        }
        picture += "</svg>\n";
        let what =
            if nth == 0 { "the whole file".into() } else { format!("a part, from {} on", size(map.from)) };
        let caption = format!(
            "{recipe}, {what}: a cell is {}, black is used and white is free; from the lower left upwards, column after column.",
            size(map.cell)
        );
        text += &figure(&picture, &caption);
    }
    debug_assert!(Map::COLUMNS * CELL <= WIDTH as usize);
    text
}
