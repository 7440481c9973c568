//! Plots as SVG: bars and lines over axes with their units. Black is the colour of ink and `GRID` that of lines, which the
//! page's style changes when it is dark.

use super::axis::{Axis, CHARACTER, clean, number};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub const WIDTH: u32 = 760;
/// Told apart also without seeing red or green, on white and on black.
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0x1f, 0x77, 0xc4),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xb8, 0x86, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x80, 0x80, 0x80),
];
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
/// Of text, as plotters counts it: 1.24 times what SVG gets.
const TEXT: f64 = 15.0;
const LINE: i32 = 20;

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type Chart<'r, 'a> = ChartContext<'r, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
type Failed = String;

pub fn failed(error: impl std::fmt::Display) -> Failed {
    format!("the plot: {error}")
}

/// An SVG of a size, and what `draw` says to put behind all it has drawn.
pub fn svg(height: u32, draw: impl FnOnce(&Area) -> Result<String, Failed>) -> Result<String, Failed> {
    let mut text = String::new();
    let last = {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        let last = draw(&area)?;
        area.present().map_err(failed)?;
        last
    };
    // The page gives it its width.
    let size = format!("width=\"{WIDTH}\" height=\"{height}\" ");
    let text = text.replacen(&size, "font-family=\"sans-serif\" role=\"img\" ", 1);
    let end = text.rfind("</svg>").ok_or("the plot has no end")?;
    Ok(format!("{}{last}</svg>\n", &text[..end]))
}

fn font(size: f64) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

/// Axes on an area.
pub fn axes<'r, 'a>(area: &'r Area<'a>, x: &Axis, y: &Axis) -> Result<Chart<'r, 'a>, Failed> {
    let title = if y.title.is_empty() { 0 } else { LINE };
    let last = x.ticks.last().map_or(0, |(_, label)| label.chars().count() as i32 * CHARACTER / 2);
    let mut chart = ChartBuilder::on(area)
        .margin_top(8)
        .margin_right(last.max(8))
        .x_label_area_size(if x.title.is_empty() { 30 } else { 46 })
        .y_label_area_size(y.breadth() + title)
        .build_cartesian_2d(x.clone(), y.clone())
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID).light_line_style(TRANSPARENT).axis_style(BLACK);
    mesh.label_style(font(TEXT)).axis_desc_style(font(TEXT));
    mesh.x_desc(x.title.as_str()).y_desc(y.title.as_str());
    mesh.draw().map_err(failed)?;
    Ok(chart)
}

/// Words behind marks of their colours, in as many lines as they need; what is left of the area.
fn legend<'a>(area: &Area<'a>, words: &[(String, Mark)]) -> Result<Area<'a>, Failed> {
    let (mut x, mut y) = (10, 12);
    for (word, mark) in words {
        let word = &clean(word);
        let breadth = 28 + word.chars().count() as i32 * CHARACTER;
        if x > 10 && x + breadth > WIDTH as i32 {
            (x, y) = (10, y + LINE);
        }
        area.draw(&mark.element((x + 6, y))).map_err(failed)?;
        area.draw_text(word, &font(TEXT).pos(Pos::new(HPos::Left, VPos::Center)), (x + 16, y))
            .map_err(failed)?;
        x += breadth;
    }
    Ok(area.split_vertically(if words.is_empty() { 0 } else { y + 12 }).1)
}

/// How a point is marked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// Its own colour and shape.
    Series(usize),
    /// Of that series, as published.
    Published(usize),
    PublishedAll,
    /// A series whose points have no marks, as its line is.
    Stroke(usize),
}

/// Pixels of a dash and of the gap after it, by series: what lies over another line shows it, and print tells them apart.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((8, 5)), Some((2, 4)), Some((14, 4))];

impl Mark {
    fn colour(self) -> RGBColor {
        match self {
            Mark::Series(nth) | Mark::Published(nth) | Mark::Stroke(nth) => COLOURS[nth % COLOURS.len()],
            Mark::PublishedAll => BLACK,
        }
    }

    fn element<'a, C: Clone + 'static>(self, at: C) -> DynElement<'a, SVGBackend<'a>, C> {
        let style = self.colour().filled();
        match self {
            Mark::Series(nth) if nth % 3 == 1 => TriangleMarker::new(at, 5, style).into_dyn(),
            Mark::Series(nth) if nth % 3 == 2 => {
                (EmptyElement::at(at) + Rectangle::new([(-4, -4), (4, 4)], style)).into_dyn()
            }
            Mark::Series(_) => Circle::new(at, 4, style).into_dyn(),
            Mark::Stroke(nth) => {
                let line = self.colour().stroke_width(2);
                let piece = |ends: [(i32, i32); 2]| PathElement::new(ends.to_vec(), line);
                let middle = if DASHES[nth % DASHES.len()].is_some() { [-2, 1] } else { [0, 0] };
                (EmptyElement::at(at) + piece([(-7, 0), (middle[0], 0)]) + piece([(middle[1], 0), (6, 0)]))
                    .into_dyn()
            }
            Mark::Published(_) | Mark::PublishedAll => {
                Circle::new(at, 7, self.colour().stroke_width(2)).into_dyn()
            }
        }
    }
}

/// A group of bars, as many as there are series.
pub struct Bars {
    pub name: String,
    /// What is not a number has no bar.
    pub values: Vec<f64>,
    /// What is published of the first.
    pub published: Option<f64>,
}

/// Bars, one group under the other, each with its value behind it.
pub fn bars(axis: Axis, series: &[&str], groups: &[Bars]) -> Result<String, Failed> {
    let axis = axis.with_room(0.12);
    let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
    let mut words: Vec<(String, Mark)> = Vec::new();
    if series.len() > 1 {
        words.extend(series.iter().zip(0..).map(|(name, nth)| ((*name).to_owned(), Mark::Series(3 * nth))));
    }
    if groups.iter().any(|group| group.published.is_some()) {
        words.push(("published".into(), Mark::PublishedAll));
    }
    let step = if series.len() > 1 { 14 * series.len() as u32 + 10 } else { 26 };
    let height = 70 + LINE as u32 * u32::from(!words.is_empty()) + step * groups.len() as u32;
    svg(height, |area| {
        let area = legend(area, &words)?;
        let chart = axes(&area, &axis, &Axis::names("", &names))?;
        let plot = chart.plotting_area();
        for (group, nth) in groups.iter().rev().zip(0..) {
            let thick = 0.8 / series.len() as f64;
            for (value, bar) in group.values.iter().zip(0..).filter(|(value, _)| value.is_finite()) {
                let top = f64::from(nth) + 0.9 - thick * f64::from(bar);
                let middle = top - thick / 2.0;
                let corners = [(0.0, top), (*value, top - thick)];
                let colour = COLOURS[3 * bar as usize % COLOURS.len()];
                plot.draw(&Rectangle::new(corners, colour.filled())).map_err(failed)?;
                let published = group.published.filter(|_| bar == 0);
                let mut label = *value;
                if let Some(at) = published {
                    plot.draw(&Mark::PublishedAll.element((at, middle))).map_err(failed)?;
                    label = label.max(at);
                }
                let style = font(TEXT).pos(Pos::new(HPos::Left, VPos::Center));
                let text = EmptyElement::at((label, middle))
                    + Text::new(number(*value), (if published.is_some() { 12 } else { 5 }, 0), style);
                plot.draw(&text).map_err(failed)?;
            }
        }
        Ok(String::new())
    })
}

/// Points that a line goes through, and some that stand alone.
pub struct Line {
    pub name: String,
    /// Where one is not a number, the line is broken.
    pub points: Vec<(f64, f64)>,
    pub published: Vec<(f64, f64)>,
    /// Whether each point has a mark.
    pub marked: bool,
}

pub fn lines(x: &Axis, y: &Axis, all: &[Line]) -> Result<String, Failed> {
    let mark = |line: &Line, nth| {
        if line.marked || !line.published.is_empty() { Mark::Series(nth) } else { Mark::Stroke(nth) }
    };
    let mut words: Vec<(String, Mark)> =
        all.iter().zip(0..).map(|(line, nth)| (line.name.clone(), mark(line, nth))).collect();
    if all.iter().any(|line| !line.published.is_empty()) {
        words.push(("as published, of the same colour".into(), Mark::PublishedAll));
    }
    svg(430, |area| {
        let area = legend(area, &words)?;
        let chart = axes(&area, x, y)?;
        let plot = chart.plotting_area();
        for (line, nth) in all.iter().zip(0..) {
            let style = COLOURS[nth % COLOURS.len()].stroke_width(2);
            let points = || line.points.split(|(_, y)| !y.is_finite()).filter(|part| !part.is_empty());
            // A point between two gaps has no line.
            let marked = points().filter(|part| line.marked || part.len() == 1).flatten();
            let marks = marked.map(|at| Mark::Series(nth).element(*at));
            let published = line.published.iter().map(|point| Mark::Published(nth).element(*point));
            for mark in marks.chain(published) {
                plot.draw(&mark).map_err(failed)?;
            }
            for part in points() {
                match DASHES[nth % DASHES.len()].filter(|_| mark(line, nth) == Mark::Stroke(nth)) {
                    None => plot.draw(&PathElement::new(part, style)),
                    Some((dash, gap)) => {
                        plot.draw(&DashedPathElement::new(part.iter().copied(), dash, gap, style))
                    }
                }
                .map_err(failed)?;
            }
        }
        Ok(String::new())
    })
}

/// A point with a name.
pub struct Spot {
    pub name: String,
    pub at: (f64, f64),
    /// Those are joined by a line, from the left to the right.
    pub on_front: bool,
}

/// Points; each has its name beside it where there is room, those on the front first.
pub fn spots(x: &Axis, y: &Axis, all: &[Spot]) -> Result<String, Failed> {
    svg(430, |area| {
        let chart = axes(area, x, y)?;
        let plot = chart.plotting_area();
        let mut front: Vec<&Spot> = all.iter().filter(|spot| spot.on_front).collect();
        front.sort_by(|one, other| one.at.0.total_cmp(&other.at.0));
        let path: Vec<(f64, f64)> = front.iter().map(|spot| spot.at).collect();
        plot.draw(&PathElement::new(path, COLOURS[0].stroke_width(2))).map_err(failed)?;
        let others = all.iter().filter(|spot| !spot.on_front);
        let spots: Vec<(&Spot, usize)> =
            front.iter().map(|spot| (*spot, 0)).chain(others.map(|spot| (spot, 6))).collect();
        for (spot, mark) in &spots {
            plot.draw(&Mark::Series(*mark).element(spot.at)).map_err(failed)?;
        }
        let names: Vec<String> = spots.iter().map(|(spot, _)| clean(&spot.name)).collect();
        let marks: Vec<(i32, i32)> = spots.iter().map(|(spot, _)| plot.map_coordinate(&spot.at)).collect();
        let (across, down) = plot.get_pixel_range();
        let bounds = [across.start, down.start, WIDTH as i32, down.end];
        for (name, place) in names.iter().zip(labels(&names, &marks, bounds)) {
            if let Some([left, top, _, bottom]) = place {
                let style = font(TEXT).pos(Pos::new(HPos::Left, VPos::Center));
                area.draw_text(name, &style, (left + 2, (top + bottom) / 2)).map_err(failed)?;
            }
        }
        Ok(String::new())
    })
}

/// Left, top, right and bottom, pixels.
type Rect = [i32; 4];

/// Where names go: beside, above or below their marks, so that they cover no mark and no name before them; nowhere when
/// there is no such place within the bounds.
fn labels(names: &[String], marks: &[(i32, i32)], bounds: Rect) -> Vec<Option<Rect>> {
    const RADIUS: i32 = 4;
    let meet = |one: &Rect, other: &Rect| {
        one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
    };
    let mut taken: Vec<Rect> =
        marks.iter().map(|(x, y)| [x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS]).collect();
    let mut place = |name: &String, (x, y): (i32, i32)| {
        let (breadth, half) = (4 + name.chars().count() as i32 * CHARACTER, LINE / 2);
        let (right, left, away) = (x + RADIUS + 3, x - RADIUS - 3 - breadth, RADIUS + half);
        let corners = [
            (right, y),
            (left, y),
            (x - breadth / 2, y - away),
            (x - breadth / 2, y + away),
            (right, y - away),
            (right, y + away),
        ];
        let rects = corners.into_iter().map(|(x, y)| [x, y - half, x + breadth, y + half]);
        let fits = |rect: &Rect| {
            let within =
                rect[0] >= bounds[0] && rect[1] >= bounds[1] && rect[2] <= bounds[2] && rect[3] <= bounds[3];
            within && !taken.iter().any(|other| meet(rect, other))
        };
        let found = rects.into_iter().find(fits);
        taken.extend(found);
        found
    };
    names.iter().zip(marks).map(|(name, mark)| place(name, *mark)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A name covers neither a mark nor another name, and one that is alone has room.
        #[test]
        fn names_cover_nothing(marks in proptest::collection::vec((60i32..600, 20i32..400), 1..20)) {
            let names: Vec<String> = (0..marks.len()).map(|nth| "abcdefghijklmnop"[..1 + nth % 15].into()).collect();
            let bounds = [50, 10, 760, 420];
            let places = labels(&names, &marks, bounds);
            let meets = |one: &Rect, other: &Rect| {
                one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
            };
            for (nth, place) in places.iter().enumerate() {
                let Some(place) = place else { continue };
                prop_assert!(marks.iter().all(|(x, y)| !meets(place, &[x - 1, y - 1, x + 1, y + 1])));
                prop_assert!(!places[..nth].iter().flatten().any(|other| meets(place, other)));
            }
            prop_assert!(places[0].is_some() || marks.len() > 1);
        }
    }

    #[test]
    fn a_line_is_broken_where_a_value_is_missing() {
        let points = [1.0, 2.0, f64::NAN, 3.0, f64::NAN, 1.0, 2.0];
        let points = (0..).map(f64::from).zip(points).collect();
        let line = Line { name: "L".into(), points, published: Vec::new(), marked: false };
        let axis = |most: f64| Axis::linear("", [most].into_iter());
        let svg = lines(&axis(6.0), &axis(3.0), &[line]).unwrap();
        assert_eq!((svg.matches("<circle").count(), svg.contains("NaN")), (1, false));
        // Two pieces; the legend has two of a line.
        let pieces = svg.lines().filter(|line| line.contains("<polyline") && line.contains("#1F77C4"));
        let of_more = pieces
            .filter(|piece| piece.split("points=").nth(1).is_some_and(|at| at.matches(',').count() > 1));
        assert_eq!(of_more.count(), 4, "{svg}");
    }

    /// Three on a front and a crowd below them.
    #[test]
    fn all_of_the_front_have_names() {
        let spot = |name: &str, at, on_front| Spot { name: name.into(), at, on_front };
        let all = [
            spot("s3-fifo", (46.8, 36.25), true),
            spot("cyclic-log", (48.1, 36.58), true),
            spot("cosm", (77.2, 36.67), true),
            spot("lazy-reads-loc", (48.4, 36.41), false),
            spot("stream-packetizer", (56.2, 36.41), false),
            spot("unified", (76.2, 36.38), false),
            spot("lru-th", (53.5, 36.26), false),
            spot("rock", (640.0, 34.9), false),
        ];
        let x = Axis::logarithmic_between("device seconds", all.iter().map(|spot| spot.at.0));
        let y = Axis::between("hits, per cent", all.iter().map(|spot| spot.at.1));
        let labels =
            |axis: &Axis| axis.ticks.iter().map(|(_, label)| label.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(
            (labels(&x), labels(&y)),
            ("20 50 100 200 500 1000".into(), "34.5 35 35.5 36 36.5 37".into())
        );
        let svg = spots(&x, &y, &all).unwrap();
        let is_named = |spot: &&Spot| svg.contains(&format!("\n{}\n", spot.name));
        let without: Vec<&str> =
            all.iter().filter(|spot| !is_named(spot)).map(|spot| spot.name.as_str()).collect();
        assert!(all.iter().filter(|spot| spot.on_front).all(|spot| is_named(&spot)), "{without:?}");
        assert!(without.len() <= 2, "the crowd may lack some: {without:?}");
    }
}
