//! What is kept is read again, and what others wrote is not believed; results for the tests of the page, too.

use super::*;
use crate::medium::distances::EDGES;
use crate::replay::pipeline::Outcomes;
use crate::replay::watch::FreeSizes;
use proptest::prelude::*;
use std::collections::BTreeMap;

pub fn row(recipe: &str, gets_per_second: f64) -> Row {
    Row {
        recipe: recipe.into(),
        medium: "st15150w".into(),
        gets: 1_058_206,
        seconds: 1_058_206.0 / gets_per_second,
        gets_per_second,
        hit_ratio: 0.36,
        byte_hit_ratio: 0.31,
        device_reads: Some(42_000),
        device_writes: Some(300_000),
        device_bytes_read: Some(500_000_000),
        device_bytes_written: Some(7_000_000_000),
        device_read_seconds: Some(600.0),
        device_write_seconds: Some(900.0),
        counted_by: Some("model".into()),
        write_amplification: None,
        bytes_programmed: None,
        operations: crate::medium::Operations(BTreeMap::from([("read".into(), 42_085), ("write".into(), 9)])),
        outcomes: Outcomes { gets: 1_058_206, ..Outcomes::default() },
        notes: BTreeMap::from([("free_piece_bytes".into(), 66_560.0)]),
    }
}

pub fn seen() -> Seen {
    let interval = crate::replay::watch::Interval { places: vec![0, 5, 6], mean: 10, most: 1 << 30 };
    let mut seen = Seen {
        free: FreeSizes { every: 64, looks: vec![(64, 2, 4096), (128, 1, 4096)] },
        head: Some(Head { capacity: 4 << 30, intervals: vec![interval; 3] }),
        maps: vec![Map { from: 0, cell: 512, cells: "0123456789".repeat(100) }],
        ..Seen::default()
    };
    (seen.distances.pairs, seen.distances.next) = (10, 3);
    seen.distances.upto[0] = 4;
    seen.distances.upto[EDGES.len() - 1] = 6;
    seen
}

pub fn run() -> Run {
    Run {
        asked: asked(),
        scale: Scale::default(),
        origin: Origin::default(),
        rows: vec![row("squid", 29.7), row("lazy-reads-loc", 524.0)],
        seen: vec![Looked { recipe: "squid".into(), seen: seen() }],
    }
}

pub fn asked() -> Asked {
    Asked {
        version: "0.1.0".into(),
        model: MODEL,
        format: None,
        trace: "synthetic, like dec, seed 1".into(),
        synthetic: true,
        trace_bytes: None,
        seed: Some(1),
        requests: None,
        largest: None,
        warm_up: 0,
        medium: "st15150w".into(),
        limit: None,
        memory_policy: None,
    }
}

pub fn point(recipe: &str, utilization: f64) -> Point {
    let scale = Scale { utilization, ..Scale::default() };
    Point { requests: 1_058_206, scale, row: row(recipe, 100.0 / utilization), seen: Some(seen()) }
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(Run::read(&run().to_json().unwrap()), Ok(run()));
    let points = Points { asked: asked(), points: vec![point("stream", 0.71), point("buddy", 0.1 + 0.2)] };
    let lines = points.to_lines().unwrap();
    assert_eq!(Points::read(&lines), Ok(points.clone()));
    let torn = &lines[..lines.len() - 9];
    assert_eq!(Points::read(torn).unwrap().points, points.points[..1], "as if it had not been written");
}

#[test]
fn what_is_malformed_is_told_in_one_line() {
    let json = run().to_json().unwrap();
    let points = Points { asked: asked(), points: vec![point("stream", 0.71)] }.to_lines().unwrap();
    let spoilt = [
        (json.replace("\"rows\"", "\"lines\""), "missing field `rows`"),
        (
            json.replace("\"hit_ratio\": 0.36", "\"hit_ratio\": 1.36"),
            "squid: hit_ratio is 1.36, not from 0 to 1",
        ),
        (json.replace("\"hit_ratio\": 0.36", "\"hit_ratio\": 1e999"), "number out of range"),
        (json.replace("\"utilization\": 0.71", "\"utilization\": -3"), "scale: utilization is -3"),
        (json.replace("\"bandwidth\": 10485760.0", "\"bandwidth\": 0.0"), "origin: 1 / bandwidth is inf"),
        (json.replace("\"squid\"", "\"\""), "recipe is empty"),
        (json.replace("\"squid\"", "\"a\\nb\""), "recipe has control characters"),
        (json.replace("0123456789", "01234x6789"), "the maps cannot be so"),
        (json.replace("\"pairs\": 10", "\"pairs\": 11"), "the distances cannot be so"),
        (json.replace("1073741824", "9999999999"), "the head cannot be so"),
        (json[..json.len() / 2].to_owned(), "EOF"),
        ("[]".into(), "not results of this laboratory"),
        (String::new(), "EOF"),
    ];
    for (text, expected) in spoilt {
        assert!(text != json);
        let why = Run::read(&text).unwrap_err();
        assert!(why.contains(expected) && !why.contains('\n'), "{why} for {expected}");
    }
    assert!(Points::read("").unwrap_err().contains("empty"));
    let spoilt = points.replace("\"seconds\":", "\"hours\":");
    assert!(Points::read(&spoilt).unwrap_err().starts_with("line 2: "), "{:?}", Points::read(&spoilt));
}

#[test]
fn a_file_asks_for_no_more_than_a_run_has() {
    let kinds = |count: usize| (0..count).map(|nth| (format!("kind {nth}").into(), 1)).collect();
    let with = |count: usize| crate::medium::Operations(kinds(count));
    let note = |value: f64| BTreeMap::from([("note".into(), value)]);
    let row = |nth: u64| Row { operations: with(nth as usize), ..row("squid", 1.0) };
    assert!(Run::read(&Run { rows: vec![row(100), row(0)], ..run() }.to_json().unwrap()).is_ok());
    let mut places = run();
    places.seen[0].seen.head.as_mut().unwrap().intervals[0].places = vec![1; 321];
    for (run, why) in [
        (Run { rows: vec![row(101)], ..run() }, "101 kinds of operations or notes are more than 100"),
        (Run { rows: vec![], ..run() }, "pictures of 1 recipes and rows of 0"),
        (Run { rows: vec![Row { notes: note(-1.0), ..row(1) }], ..run() }, "squid: note is -1"),
        (
            Run { rows: vec![Row { write_amplification: Some(1e300), ..row(1) }], ..run() },
            "write_amplification",
        ),
        (places, "the head cannot be so"),
    ] {
        let found = Run::read(&run.to_json().unwrap()).unwrap_err();
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn a_difference_is_named() {
    assert_eq!(asked().difference(&asked()), None);
    let other = Asked { seed: Some(2), ..asked() };
    assert_eq!(asked().difference(&other), Some("seed is 1, not 2".into()));
    let older: Asked =
        parse(&serde_json::to_string(&asked()).unwrap().replace("\"model\"", "\"x\"")).unwrap();
    assert_eq!(asked().difference(&older), Some(format!("model is {MODEL}, not 0")));
}

proptest! {
    /// Whatever bytes it is given, it answers.
    #[test]
    fn nothing_that_is_read_is_believed(
        cut in 0usize..4000,
        with in proptest::collection::vec(any::<char>(), 0..8),
    ) {
        let with: String = with.into_iter().collect();
        let json = run().to_json().unwrap();
        let at = (0..=cut.min(json.len())).rev().find(|at| json.is_char_boundary(*at)).unwrap_or(0);
        let spoilt = format!("{}{with}{}", &json[..at], &json[at..]);
        if let Ok(run) = Run::read(&spoilt) {
            prop_assert!(run.to_json().is_ok());
        }
        let _ = Points::read(&spoilt);
    }
}
