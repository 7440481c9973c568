//! Pictures of panels, three in a row: bars with their spread, or lines over an axis. Enough for this report, and no
//! library.

use super::super::contender::ALL;
use crate::figures::thousands;
use std::fmt::Write;

pub enum Panel {
    Bars { title: String, bars: Vec<Bar> },
    Lines { title: String, lines: Vec<Line> },
}

pub struct Bar {
    pub name: &'static str,
    pub value: f64,
    /// The least and the most.
    pub spread: (f64, f64),
    pub decimals: usize,
}

pub struct Line {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

const ACROSS: usize = 3;
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 260.0;
/// Where names stand beside bars, and numbers beside an axis.
const LEFT: f64 = 96.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 30.0;
/// Told apart also without seeing red or green.
const COLOURS: [&str; 11] = [
    "#0b4f9e", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d31", "#d55e00", "#7f7f7f", "#000000",
    "#5e3c99", "#b2df8a",
];

pub fn draw(panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(ACROSS);
    let (width, height) = (WIDTH * panels.len().min(ACROSS) as f64, HEIGHT * rows as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        let (x, y) = ((at % ACROSS) as f64 * WIDTH, (at / ACROSS) as f64 * HEIGHT);
        let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        match panel {
            Panel::Bars { title, bars } => draw_bars(&mut svg, title, bars),
            Panel::Lines { title, lines } => draw_lines(&mut svg, title, lines),
        }
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

fn draw_bars(svg: &mut String, title: &str, bars: &[Bar]) {
    text(svg, (10.0, 20.0), "start", title);
    let most = bars.iter().map(|bar| bar.spread.1).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / most;
    let step = (HEIGHT - TOP - 10.0) / bars.len().max(1) as f64;
    let thick = (step * 0.7).min(26.0);
    for (at, bar) in bars.iter().enumerate() {
        let (y, middle) = (TOP + step * at as f64, TOP + step * at as f64 + thick / 2.0);
        text(svg, (LEFT - 6.0, middle + 4.0), "end", bar.name);
        let (length, colour) = (bar.value * scale, colour(bar.name));
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{thick:.1}\" fill=\"{colour}\"/>"
        );
        let (from, to) = (LEFT + bar.spread.0 * scale, LEFT + bar.spread.1 * scale);
        path(svg, &[(from, middle), (to, middle)], "black");
        let shown = match bar.decimals {
            0 => thousands(bar.value),
            decimals => format!("{:.decimals$}", bar.value),
        };
        text(svg, (to.max(LEFT + length) + 5.0, middle + 4.0), "start", &shown);
    }
}

fn draw_lines(svg: &mut String, title: &str, lines: &[Line]) {
    text(svg, (10.0, 20.0), "start", title);
    let all = || lines.iter().flat_map(|line| &line.points).filter(|point| point.1.is_finite());
    let most = |of: fn(&(f64, f64)) -> f64| all().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let (far, high) = (most(|point| point.0), most(|point| point.1));
    let (left, right, floor) = (62.0, WIDTH - LEFT, HEIGHT - BOTTOM);
    let place = |&(x, y): &(f64, f64)| (left + x / far * (right - left), floor - y / high * (floor - TOP));
    path(svg, &[(left, TOP), (left, floor), (right, floor)], "#555");
    for part in [0.0, 0.5, 1.0] {
        text(svg, (left - 5.0, place(&(0.0, high * part)).1 + 4.0), "end", &thousands(high * part));
        text(svg, (place(&(far * part, 0.0)).0, floor + 15.0), "middle", &thousands(far * part));
    }
    for (at, line) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            line.points.iter().filter(|point| point.1.is_finite()).map(place).collect();
        path(svg, &points, colour(line.name));
        for (x, y) in points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{}\"/>",
                colour(line.name)
            );
        }
        let y = TOP + 10.0 + 15.0 * at as f64;
        path(svg, &[(right + 6.0, y - 4.0), (right + 18.0, y - 4.0)], colour(line.name));
        text(svg, (right + 21.0, y), "start", line.name);
    }
}

fn path(svg: &mut String, points: &[(f64, f64)], colour: &str) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
        points.join(" ")
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// The same in every picture.
fn colour(name: &str) -> &'static str {
    let at = ALL.iter().position(|one| one.name == name).unwrap_or(0);
    COLOURS[at % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_well_formed() {
        let bars = vec![Bar { name: "cosm", value: 2.0, spread: (1.0, 3.0), decimals: 0 }];
        let points = vec![(1.0, 2.0), (2.0, f64::NAN), (3.0, 4.0)];
        let lines = vec![Line { name: "nginx", points }];
        let panels = [Panel::Bars { title: "a & b".into(), bars }, Panel::Lines { title: "c".into(), lines }];
        let svg = draw(&panels);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("a &amp; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert_eq!(svg.matches("<circle").count(), 2);
    }
}
