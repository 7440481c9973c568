use super::*;

/// From Monday to Friday, with a night before each of the last two days.
fn settings(seed: u64) -> Settings {
    let world = world::Settings { days: 5, ..world::Settings::small() };
    let learner = Learner { optimizations: 1, ..Settings::default().learner };
    Settings { world, seed, space: 256 << 20, rounds: 3, learner, ..Settings::default() }
}

fn go(settings: &Settings, strategy: Strategy) -> Run {
    run(settings, strategy, &mut |_, _| {}).unwrap()
}

#[test]
fn without_prefetching_it_is_a_plain_replay() {
    let settings = settings(1);
    let nothing = go(&settings, Strategy::Nothing);
    let mut world = World::new(settings.world.clone(), settings.seed).unwrap();
    let mut gateway = Gateway::new(settings.space, settings.world.begins, settings.seed).unwrap();
    let (mut access, mut levels, mut hits) = (Access::default(), vec![0; nothing.levels.len()], 0);
    while world.next_day().is_some() {
        while world.next(&mut access) {
            let second = access.time / 1_000_000;
            let served = gateway.ask(&access, world.offer(&access.url, second).as_ref()).unwrap();
            levels[((second - settings.world.begins) / QUARTER) as usize] += served.origin;
            hits += u64::from(served.outcome != Outcome::Fetched);
        }
    }
    assert!(nothing.levels == levels && nothing.hits == hits);
    assert!(nothing.ahead.iter().all(|ahead| *ahead == 0));
    assert!(nothing.hits * 5 > nothing.requests && nothing.validated > 0);
    assert_eq!(nothing.peaks.iter().map(|night| night.day).collect::<Vec<_>>(), [3, 4]);
    assert!(nothing.peaks.iter().all(|night| night.prefetchable > 0 && night.budget > 0));
}

#[test]
fn where_nothing_was_got_nothing_is_lower() {
    let nothing = || Run { peaks: vec![Night::default()], ..Run::default() };
    let saved = nothing().against(&nothing());
    assert_eq!((saved.highest, saved.each, saved.peaks, saved.extra), (0.0, vec![0.0], 0.0, 0.0));
}

#[test]
fn the_oracle_is_never_beaten() {
    let settings = settings(2);
    let without = go(&settings, Strategy::Nothing);
    let oracle = go(&settings, Strategy::Oracle);
    assert!(oracle.peaks.iter().all(|night| night.accuracy() == Some(1.0)), "{:?}", oracle.peaks);
    assert!(oracle.against(&without).peaks > 0.1);
    for strategy in
        [Strategy::Nothing, Strategy::SeenBefore, Strategy::SeenServer, Strategy::Rules, Strategy::Habits]
    {
        let run = go(&settings, strategy);
        let (theirs, best) = (run.totals(), oracle.totals());
        assert!(theirs.used <= best.used && theirs.peak >= best.peak, "{}", strategy.name());
        assert!(run.requests == oracle.requests && run.bytes == oracle.bytes);
        for night in &run.peaks {
            assert!(night.used <= night.fetched && night.used <= night.prefetchable, "{night:?}");
            assert!(night.chosen <= night.budget);
        }
    }
}

#[test]
fn what_is_fetched_ahead_is_fetched_at_night_and_counted() {
    let run = go(&settings(3), Strategy::SeenServer);
    let fetched: u64 = run.peaks.iter().map(|night| night.fetched).sum();
    let ahead: u64 = run.ahead.iter().sum();
    // With heads.
    assert!(fetched > 0 && ahead > fetched && ahead < 2 * fetched, "{ahead} {fetched}");
    // No quarter of the night gets more ahead than the target level, but for the head of its last object.
    let days = run.ahead.chunks(QUARTERS).enumerate().filter(|(_, day)| day.iter().any(|ahead| *ahead > 0));
    for ((day, ahead), night) in days.zip(&run.peaks) {
        assert_eq!(day, night.day as usize);
        assert!(ahead.iter().all(|ahead| *ahead <= night.target + 1000), "{day}");
        assert!(night.highest_ahead > 0);
    }
    for (nth, (ahead, all)) in run.ahead.iter().zip(&run.levels).enumerate() {
        assert!(*ahead == 0 || (nth % QUARTERS < PEAK.start && ahead <= all), "{nth}");
    }
}

#[test]
fn a_seed_gives_the_same_figures() {
    let figures = |seed| serde_json::to_string(&go(&settings(seed), Strategy::Rules)).unwrap();
    assert_eq!(figures(4), figures(4));
    assert_ne!(figures(4), figures(5));
}

#[test]
fn who_knows_the_habits_knows_what_is_likely_and_not_what_comes() {
    let run = go(&settings(6), Strategy::Habits);
    for night in &run.peaks {
        let of = |value: fn(&Likely) -> u64| night.likely.iter().map(value).sum::<u64>();
        assert_eq!((of(|range| range.offered), of(|range| range.prefetchable)), {
            (night.candidate_bytes, night.prefetchable)
        });
        let part = |ranges: &[Likely]| {
            let of = |value: fn(&Likely) -> u64| ranges.iter().map(value).sum::<u64>() as f64;
            of(|range| range.prefetchable) / of(|range| range.offered)
        };
        // Those from a half on, and those that no draw asked for.
        assert!(part(&night.likely[..3]) > 0.35 && part(&night.likely[5..]) < 0.1, "{:?}", night.likely);
        assert!(night.accuracy().is_none_or(|accuracy| accuracy > 0.3), "{night:?}");
    }
    let learned = go(&settings(6), Strategy::Rules);
    assert!(run.totals().used > learned.totals().used);
}
