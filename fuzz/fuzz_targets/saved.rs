//! Results that others may have written: what is read is the same when it is written and read again, and makes a page.
#![no_main]

use lab::report::{Source, csv, page};
use lab::results::{Points, Run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (run, points) = (Run::read(text), Points::read(text));
    for why in [run.as_ref().err(), points.as_ref().err()].into_iter().flatten() {
        assert!(!why.contains('\n'), "{why}");
    }
    let source = Source { name: "fuzz".into(), run: run.ok(), points: points.ok() };
    if let Some(run) = &source.run {
        assert_eq!(Run::read(&run.to_json().expect("it is JSON")).as_ref(), Ok(run));
        assert!(csv(run).lines().count() > run.rows.len());
    }
    if let Some(points) = &source.points {
        assert_eq!(Points::read(&points.to_lines().expect("it is JSON")).as_ref(), Ok(points));
    }
    if source.run.is_some() || source.points.is_some() {
        let text = page(&[source]).expect("it can be drawn");
        assert!(!text.contains("NaN"));
    }
});
