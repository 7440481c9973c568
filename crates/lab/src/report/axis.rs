//! Axes of plots: what they span, where their ticks are and how these are called.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// Pixels that a character takes, about.
pub const CHARACTER: i32 = 7;

/// What an axis shows and how.
#[derive(Clone, Debug)]
pub struct Axis {
    /// With its unit.
    pub title: String,
    log: bool,
    /// Of a logarithmic axis, powers of ten.
    range: Range<f64>,
    /// Values, and how they are called.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero.
    pub fn linear(title: &str, values: impl Iterator<Item = f64>) -> Axis {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let most = if most > 0.0 { most } else { 1.0 };
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * 10f64.powf((most / 5.0).log10().floor()));
        let step = step.into_iter().find(|step| most / step <= 5.0).unwrap_or(most);
        let count = (most / step).ceil() as usize;
        let ticks = (0..=count).map(|nth| (nth as f64 * step, number(nth as f64 * step)));
        Axis { title: title.into(), log: false, range: 0.0..step * count as f64, ticks: ticks.collect() }
    }

    /// Hours of a day, from one to another; ticks are as the clock has them.
    pub fn hours(title: &str, from: f64, to: f64) -> Axis {
        let step = if to - from > 12.0 { 3 } else { 2 };
        let first = (from / f64::from(step)).ceil() as i32 * step;
        let ticks = (first..=to as i32).step_by(step as usize);
        let ticks =
            ticks.map(|hour| (f64::from(hour), format!("{:02}:00", if hour == 24 { 24 } else { hour % 24 })));
        Axis { title: title.into(), log: false, range: from..to, ticks: ticks.collect() }
    }

    /// Ticks with names of their own. A few of many are left out, so that names do not meet.
    pub fn with_ticks(mut self, ticks: Vec<(f64, String)>) -> Axis {
        let longest = ticks.iter().map(|(_, name)| name.chars().count()).max().unwrap_or(1);
        // Of a plot as wide as any, what an axis has for names.
        let room = (640 / (CHARACTER as usize * (longest + 2))).max(1);
        self.ticks = ticks.iter().step_by(ticks.len().div_ceil(room).max(1)).cloned().collect();
        self
    }

    /// From a round value below the least to one above the most.
    pub fn between(title: &str, values: impl Iterator<Item = f64> + Clone) -> Axis {
        let least = values.clone().reduce(f64::min).unwrap_or(0.0);
        let span = Axis::linear(title, values.clone().map(|value| value - least));
        let step = span.ticks.get(1).map_or(1.0, |(step, _)| *step);
        let first = (least / step).floor();
        let most = values.fold(least, f64::max);
        let count = (most / step).ceil().max(first + 1.0) - first;
        let tick = |nth: usize| (first + nth as f64) * step;
        let ticks = (0..=count as usize).map(|nth| (tick(nth), number(tick(nth))));
        Axis { range: tick(0)..tick(count as usize), ticks: ticks.collect(), ..span }
    }

    /// Logarithmic, from a round value (1, 2 or 5 times a power of ten) below the least to one above the most.
    pub fn logarithmic_between(title: &str, values: impl Iterator<Item = f64> + Clone) -> Axis {
        let wide = Axis::logarithmic(title, values.clone());
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        if wide.range.end - wide.range.start > 3.0 || values.clone().next().is_none() {
            return wide;
        }
        let (least, most) = values.fold((f64::INFINITY, 0.0), |(a, b), value| (value.min(a), value.max(b)));
        let powers = wide.range.start as i32..=wide.range.end as i32;
        let round: Vec<f64> =
            powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power))).collect();
        let from = round.iter().rposition(|value| *value < least).unwrap_or(0);
        let to = round.iter().position(|value| *value > most).unwrap_or(round.len() - 1).max(from + 1);
        let ticks = round[from..=to].iter().map(|value| (*value, number(*value)));
        Axis { range: round[from].log10()..round[to].log10(), ticks: ticks.collect(), ..wide }
    }

    /// In powers of ten; what is not more than zero has no place.
    pub fn logarithmic(title: &str, values: impl Iterator<Item = f64> + Clone) -> Axis {
        let values = values.filter(|value| value.is_finite() && *value > 0.0);
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        let (from, to) = if most > 0.0 { (least.log10().floor(), most.log10().ceil()) } else { (0.0, 1.0) };
        let to = to.max(from + 1.0);
        let every = ((to - from) / 8.0).ceil() as usize;
        let ticks = (from as i32..=to as i32).step_by(every).map(|power| 10f64.powi(power));
        let ticks = ticks.map(|value| (value, number(value)));
        Axis { title: title.into(), log: true, range: from..to, ticks: ticks.collect() }
    }

    /// Names, one under the other.
    pub fn names(title: &str, names: &[String]) -> Axis {
        let ticks = names.iter().rev().enumerate().map(|(nth, name)| (nth as f64 + 0.5, clean(name)));
        Axis {
            title: title.into(),
            log: false,
            range: 0.0..names.len().max(1) as f64,
            ticks: ticks.collect(),
        }
    }

    pub fn titled(self, title: &str) -> Axis {
        Axis { title: title.into(), ..self }
    }

    /// Backwards: zero is on top.
    pub fn reversed(self) -> Axis {
        Axis { range: self.range.end..self.range.start, ..self }
    }

    /// Ends there, be it round or not.
    pub fn upto(mut self, most: f64) -> Axis {
        if most > self.range.start {
            self.range.end = most;
            self.ticks.retain(|(tick, _)| *tick <= most);
        }
        self
    }

    /// Room beyond the most, as a share of the whole.
    pub fn with_room(mut self, share: f64) -> Axis {
        self.range.end += (self.range.end - self.range.start) * share;
        self
    }

    /// Where a value is between the ends, which are 0 and 1.
    fn place(&self, value: f64) -> f64 {
        let at = match self.log {
            true if value > 0.0 => value.log10().max(self.range.start),
            true => self.range.start,
            false => value,
        };
        // What is far outside stays outside, and within what a pixel's number can be.
        ((at - self.range.start) / (self.range.end - self.range.start)).clamp(-1.0, 2.0)
    }

    /// Pixels of the longest label, or so many that axes one under the other begin alike.
    pub fn breadth(&self) -> i32 {
        let longest = self.ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        (longest as i32 * CHARACTER + 12).max(48)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (f64::from(to - from) * self.place(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.iter().map(|(value, _)| *value).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        self.ticks.iter().find(|(tick, _)| tick == value).map_or(String::new(), |(_, label)| label.clone())
    }
}

/// As short as it can be read: 950, 12.5 k, 3 M.
pub fn number(value: f64) -> String {
    let (value, unit) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, " G"),
        large if large >= 1e6 => (value / 1e6, " M"),
        large if large >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        small if small > 0.0 && small < 0.095 => 3,
        small if small < 0.995 => 2,
        small if small < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// As a name may stand in a picture: short, and without what no XML may have.
pub fn clean(name: &str) -> String {
    name.chars().filter(|character| trace::is_harmless(*character)).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let pairs = [
            (0.0, "0"),
            (0.05, "0.05"),
            (0.714, "0.71"),
            (19.14, "19.1"),
            (131.4, "131"),
            (9_999.0, "9999"),
            (12_500.0, "12.5 k"),
            (678_040.0, "678 k"),
            (3_000_000.0, "3 M"),
            (7.6e9, "7.6 G"),
            (100.0, "100"),
        ];
        for (value, expected) in pairs {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn hours_go_on_after_midnight() {
        let labels = |from, to| {
            let axis = Axis::hours("", from, to);
            axis.ticks.into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(0.0, 24.0), "00:00 03:00 06:00 09:00 12:00 15:00 18:00 21:00 24:00");
        assert_eq!(labels(18.5, 26.5), "20:00 22:00 24:00 02:00");
    }

    #[test]
    fn nothing_above_zero_has_an_axis_too() {
        let axis = Axis::logarithmic_between("MB", [0.0, f64::INFINITY].into_iter());
        assert_eq!(axis.range, 0.0..1.0);
    }

    #[test]
    fn ticks_are_round_and_cover_all() {
        let axis = Axis::linear("s", [3.0, 7_519.0].into_iter());
        assert_eq!(axis.range, 0.0..8000.0);
        assert_eq!(
            axis.ticks.iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>(),
            ["0", "2000", "4000", "6000", "8000"]
        );
        let axis = Axis::logarithmic("gets/s", [19.0, 524.0].into_iter());
        assert_eq!((axis.range.clone(), axis.place(100.0), axis.place(0.0)), (1.0..3.0, 0.5, 0.0));
        for odd in [vec![], vec![0.0], vec![f64::INFINITY], vec![1e15], vec![1e-15, 1e15]] {
            for axis in [Axis::linear("", odd.iter().copied()), Axis::logarithmic("", odd.iter().copied())] {
                assert!(axis.range.start < axis.range.end && axis.ticks.len() < 40, "{axis:?}");
            }
        }
    }
}
