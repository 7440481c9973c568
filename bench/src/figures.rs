//! Medians, spreads, and figures as text.

/// Of an even number, the mean of the two in the middle.
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// The least and the most.
pub fn spread(figures: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    figures.into_iter().fold(none, |(least, most), figure| (least.min(figure), most.max(figure)))
}

/// Of a line through points, of which some may be far off: the median of the slopes between any two (Theil and Sen).
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let later = |n: usize| points[n + 1..].iter();
    let pairs = points.iter().enumerate().flat_map(|(n, from)| later(n).map(move |to| (from, to)));
    median(pairs.filter(|(from, to)| to.0 > from.0).map(|(from, to)| (to.1 - from.1) / (to.0 - from.0)))
}

/// Rounded, with blanks between groups of three digits.
pub fn thousands(figure: f64) -> String {
    if !figure.is_finite() {
        return "–".into();
    }
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn slopes() {
        let mut points: Vec<_> = (0..100).map(|n| (f64::from(n), 3.0 + 0.5 * f64::from(n))).collect();
        for n in [0, 7, 50, 99] {
            points[n].1 = 1e6;
        }
        assert_eq!(slope(&points), Some(0.5));
        assert_eq!(slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }

    #[test]
    fn spreads() {
        assert_eq!(spread([2.0, 1.0, 3.0]), (1.0, 3.0));
    }

    #[test]
    fn figures_are_grouped_by_three() {
        assert_eq!(thousands(123_456.4), "123 456");
        assert_eq!(thousands(999.6), "1 000");
        assert_eq!(thousands(12.0), "12");
        assert_eq!(thousands(f64::NAN), "–");
    }
}
