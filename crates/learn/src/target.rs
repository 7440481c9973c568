//! How far a peak can be lowered: the target level (Maltzahn, equations 6.1 to 6.5 and 7.1 to 7.5).
//!
//! What is prefetched is taken from each level of the peak in proportion (6.1), and fetched off-peak under the same level (6.2). Where
//! that holds less than there is to prefetch, as much is prefetched as fits: the fixed point of 6.4. Since B_extra is linear, it is
//! computed, not iterated; the recursion that is printed does not always converge, see the tests.

use crate::day::LEVELS;
use crate::number::Number;
use serde::Serialize;

/// The use of the line in a peak and in the off-peak before it. Bytes, or any unit, the same in all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Usage {
    /// B_pre: what of the peak could be prefetched.
    pub prefetchable: f64,
    /// B_peak: what the peak fetches in all.
    pub peak: f64,
    /// B_o: what the off-peak fetches in all, without prefetching.
    pub off_peak: f64,
    /// L_m: what the highest level of the peak fetches.
    pub level_max: f64,
    /// t_0: levels of the off-peak, quarters of an hour: a whole number from 1 to 95.
    pub intervals: f64,
}

/// Of any number that is given: what is computed of them stays a number.
const LARGEST: f64 = 1e18;

/// How well somebody prefetches (7.5); both from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Performance {
    /// P_a: the share of what is prefetched that was prefetchable.
    pub accuracy: f64,
    /// P_c: the share of what was prefetchable that is prefetched.
    pub coverage: f64,
}

/// What comes of it; in the unit of the usage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Target {
    /// L_t: the level that the peak can be kept under.
    pub target_level: f64,
    /// L_m - L_t, the potential of bandwidth smoothing (6.2.4).
    pub smoothing_potential: f64,
    /// B_++: what is prefetched and was prefetchable, which the peak is spared.
    pub spared: f64,
    /// B_+: what is prefetched in all.
    pub prefetched: f64,
    /// B_extra at the target level: what the off-peak has room for.
    pub extra: f64,
    pub bound: Bound,
}

/// What keeps the target level from being lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// There is no more to prefetch (the first case of 6.3 and 7.4).
    Prefetchable,
    /// The off-peak has no more room: the fixed point (the second case).
    Room,
    /// The off-peak alone takes as much as fits under L_m, or more: nothing can be prefetched.
    NoRoom,
    /// At an accuracy of 0 all that is prefetched is in vain.
    InVain,
}

impl Performance {
    /// As chapter 6 assumes.
    pub const PERFECT: Performance = Performance { accuracy: 1.0, coverage: 1.0 };
}

impl Usage {
    /// B_extra of B bytes that are taken out of the peak (6.5); negative where the off-peak takes more than fits.
    pub fn extra(&self, spared: f64) -> f64 {
        (1.0 - spared / self.peak) * self.level_max * self.intervals - self.off_peak
    }

    /// L_t of B bytes that are taken out of the peak (6.1).
    pub fn level(&self, spared: f64) -> f64 {
        (1.0 - spared / self.peak) * self.level_max
    }

    /// The target level (7.4, which for perfect prefetching is 6.3). An error is one line: what is no usage.
    pub fn target(&self, performance: Performance) -> Result<Target, String> {
        self.check()?;
        let Performance { accuracy, coverage } = performance;
        for (name, share) in [("accuracy", accuracy), ("coverage", coverage)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("{name} is {}: it is a share from 0 to 1", Number(share)));
            }
        }
        let wanted = coverage * self.prefetchable;
        let (spared, bound) = match self.extra(0.0) {
            none if none <= 0.0 => (0.0, Bound::NoRoom),
            _ if accuracy == 0.0 => (0.0, Bound::InVain),
            _ if self.extra(wanted) >= wanted / accuracy => (wanted, Bound::Prefetchable),
            extra => {
                let slope = self.level_max * self.intervals / self.peak;
                (accuracy * extra / (1.0 + accuracy * slope), Bound::Room)
            }
        };
        let target_level = self.level(spared);
        let prefetched = if spared > 0.0 { spared / accuracy } else { 0.0 };
        let (smoothing_potential, extra) = (self.level_max - target_level, self.extra(spared).max(0.0));
        Ok(Target { target_level, smoothing_potential, spared, prefetched, extra, bound })
    }

    fn check(&self) -> Result<(), String> {
        let numbers = [
            ("B_pre", self.prefetchable),
            ("B_peak", self.peak),
            ("B_o", self.off_peak),
            ("L_m", self.level_max),
            ("the number of intervals", self.intervals),
        ];
        for (name, number) in numbers {
            if !(0.0..=LARGEST).contains(&number) {
                let (number, largest) = (Number(number), Number(LARGEST));
                return Err(format!("{name} is {number}: it is a number from 0 to {largest}"));
            }
        }
        let day = LEVELS as f64;
        if self.intervals.fract() != 0.0 || self.intervals < 1.0 || self.intervals >= day {
            return Err(format!(
                "the number of intervals is {}: it is a whole number from 1 to {}, as a day has {LEVELS} quarters of an hour",
                Number(self.intervals),
                LEVELS - 1
            ));
        }
        for (name, number) in [("B_peak", self.peak), ("L_m", self.level_max)] {
            if number == 0.0 {
                return Err(format!("{name} is 0: there is no peak to lower"));
            }
        }
        if self.prefetchable > self.peak {
            return Err(format!(
                "B_pre is {}, more than B_peak, {}: what is prefetchable is a part of the peak",
                Number(self.prefetchable),
                Number(self.peak)
            ));
        }
        let levels = day - self.intervals;
        if self.level_max * levels < self.peak * (1.0 - 1e-9) {
            return Err(format!(
                "L_m is {}, but {levels} levels of at most that are less than B_peak, {}",
                Number(self.level_max),
                Number(self.peak)
            ));
        }
        if self.level_max > self.peak {
            return Err(format!(
                "L_m is {}, more than B_peak, {}: a level is a part of the peak",
                Number(self.level_max),
                Number(self.peak)
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The caption of Figure 7.2, MB. What it calls B_extra, 2296.78, is taken as B_o.
    const FIGURE: Usage = Usage {
        prefetchable: 1965.93,
        peak: 4968.19,
        off_peak: 2296.78,
        level_max: 140.667,
        intervals: 48.0,
    };

    /// The recursion as it is printed, with a step for the fraction's middle: 6.4 where both shares are 1, 7.5 else. The number of
    /// steps after which its stop condition holds, and B then; `None` if it does not within 10,000.
    fn printed(usage: &Usage, Performance { accuracy, coverage }: Performance) -> Option<(usize, f64)> {
        let mut b = usage.prefetchable;
        for step in 0..10_000 {
            let extra = accuracy * usage.extra(coverage * b);
            if (b - extra / coverage).abs() <= 1e-9 * usage.peak {
                return Some((step, b));
            }
            b = (coverage * b + extra) / 2.0;
        }
        None
    }

    #[test]
    fn figure_7_2_comes_out_only_if_its_b_extra_is_b_o() {
        let target = FIGURE.target(Performance::PERFECT).unwrap();
        assert_eq!(target.bound, Bound::Room);
        assert!((target.target_level - 87.19).abs() < 0.01, "{target:?}");
        assert!((target.spared - 1888.6).abs() < 0.05, "{target:?}");
        assert!((target.spared - target.extra).abs() < 1e-6, "7.1: {target:?}");
        // If B_extra were 2296.78 it would do for all of B_pre, and the level would be another.
        let plenty = FIGURE.level(FIGURE.prefetchable);
        assert!(2296.78 > FIGURE.prefetchable && (plenty - 85.0).abs() < 0.01, "{plenty}");
        let (_, b) = printed(&FIGURE, Performance::PERFECT).unwrap();
        assert!((b - target.spared).abs() < 1e-3);
    }

    #[test]
    fn with_more_to_prefetch_the_figures_level_stays() {
        let all = Usage { prefetchable: 4000.0, ..FIGURE }.target(Performance::PERFECT).unwrap();
        assert!((all.target_level - 87.19).abs() < 0.01);
        let few = Usage { prefetchable: 1000.0, ..FIGURE }.target(Performance::PERFECT).unwrap();
        assert_eq!((few.spared, few.bound), (1000.0, Bound::Prefetchable));
        assert!((few.target_level - (1.0 - 1000.0 / 4968.19) * 140.667).abs() < 1e-9);
    }

    /// 7.5 stops where P_c·B = P_a·B_extra(P_c·B), but its step takes such a B to P_c·B, which is another unless P_c = 1.
    #[test]
    fn the_printed_recursion_misses_its_own_stop_condition() {
        let performance = |accuracy, coverage| Performance { accuracy, coverage };
        let usage = Usage { prefetchable: 4900.0, ..FIGURE };
        for accuracy in [0.6, 0.9, 1.0] {
            let (_, b) = printed(&usage, performance(accuracy, 1.0)).unwrap();
            let target = usage.target(performance(accuracy, 1.0)).unwrap();
            assert!((b - target.spared).abs() < 1e-3, "{accuracy}: {b}, {target:?}");
            assert_eq!(printed(&usage, performance(accuracy, 0.7)), None, "{accuracy}");
        }
        // Begun at the solution, it leaves it.
        let (accuracy, coverage) = (0.6, 0.7);
        let target = usage.target(performance(accuracy, coverage)).unwrap();
        assert_eq!(target.bound, Bound::Room);
        let b = target.spared / coverage;
        assert!((coverage * b - accuracy * usage.extra(coverage * b)).abs() < 1e-6, "the stop condition");
        let next = (coverage * b + accuracy * usage.extra(coverage * b)) / 2.0;
        assert!((next - coverage * b).abs() < 1e-6 && (next - b).abs() > 100.0);
    }

    /// 6.4 halves the distance by (1 - L_m·t_0/B_peak)/2 a step: a peak whose highest level is over three times its mean makes it diverge.
    #[test]
    fn the_recursion_of_6_4_diverges_for_steep_peaks() {
        let steep = Usage { level_max: 400.0, ..FIGURE };
        assert_eq!(printed(&steep, Performance::PERFECT), None);
        let target = Usage { prefetchable: 4968.0, ..steep }.target(Performance::PERFECT).unwrap();
        assert_eq!(target.bound, Bound::Room);
        assert!((target.spared - steep.extra(target.spared)).abs() < 1e-6);
    }

    #[test]
    fn nothing_prefetched_or_no_room_leaves_the_level() {
        for (accuracy, coverage) in [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)] {
            let target = FIGURE.target(Performance { accuracy, coverage }).unwrap();
            assert_eq!((target.target_level, target.prefetched), (FIGURE.level_max, 0.0));
            assert_eq!(target.bound == Bound::InVain, accuracy == 0.0);
        }
        let full = Usage { off_peak: 7000.0, ..FIGURE }.target(Performance::PERFECT).unwrap();
        assert_eq!((full.target_level, full.bound, full.extra), (FIGURE.level_max, Bound::NoRoom, 0.0));
    }

    #[test]
    fn nonsense_is_an_error_of_one_line() {
        let wrong = [
            Usage { prefetchable: -1.0, ..FIGURE },
            Usage { prefetchable: 5000.0, ..FIGURE },
            Usage { peak: f64::NAN, ..FIGURE },
            Usage { peak: 0.0, ..FIGURE },
            Usage { off_peak: f64::INFINITY, ..FIGURE },
            Usage { level_max: 0.0, ..FIGURE },
            Usage { level_max: 5000.0, ..FIGURE },
            Usage { intervals: 0.0, ..FIGURE },
            Usage { intervals: 1.5, ..FIGURE },
            Usage { intervals: 96.0, ..FIGURE },
            Usage { intervals: 1e18, ..FIGURE },
            // 48 levels of a hundred are less than the peak.
            Usage { level_max: 100.0, ..FIGURE },
            Usage { prefetchable: 1e308, peak: 1e308, off_peak: 1e308, level_max: 1e308, intervals: 48.0 },
        ];
        let is_short = |why: &str| !why.contains('\n') && why.len() < 140;
        for usage in wrong {
            let why = usage.target(Performance::PERFECT).unwrap_err();
            assert!(is_short(&why), "{why}");
        }
        let none = Usage { intervals: 0.0, ..FIGURE }.target(Performance::PERFECT).unwrap_err();
        assert!(none.contains("is 0: it is a whole number from 1 to 95"), "{none}");
        for share in [-0.1, 1.1, 1e300, f64::NAN] {
            for (accuracy, coverage) in [(share, 1.0), (1.0, share)] {
                let why = FIGURE.target(Performance { accuracy, coverage }).unwrap_err();
                assert!(is_short(&why), "{why}");
            }
        }
    }

    proptest! {
        /// The target keeps to its definitions, whatever the usage: off-peak does not rise over it, and better prefetching never raises it.
        #[test]
        fn the_target_keeps_to_its_definitions(
            pre in 0.0..1.0f64, peak in 1.0..1e12f64, steep in 0.001..1.0f64, off in 0.0..3.0f64,
            intervals in 1u32..96, accuracy in 0.01..1.0f64, coverage in 0.0..1.0f64,
        ) {
            let steep = steep.max(1.0 / f64::from(96 - intervals));
            let usage = Usage {
                prefetchable: pre * peak, peak, level_max: steep * peak, intervals: f64::from(intervals),
                off_peak: off * steep * peak * f64::from(intervals),
            };
            let target = usage.target(Performance { accuracy, coverage }).unwrap();
            let slack = 1e-9 * (peak + usage.off_peak);
            prop_assert!(target.target_level <= usage.level_max && target.target_level >= 0.0);
            prop_assert!(target.spared <= coverage * usage.prefetchable + slack);
            prop_assert!(target.prefetched <= target.extra + slack, "{:?}", target);
            if target.bound == Bound::Room {
                prop_assert!((target.prefetched - target.extra).abs() <= slack, "{:?}", target);
            }
            let better = usage.target(Performance { accuracy: accuracy.sqrt(), coverage: coverage.sqrt() }).unwrap();
            prop_assert!(better.target_level <= target.target_level + slack);
        }
    }
}
