//! What a page must be, whatever was found.

use super::*;
use crate::experiments::figures::{FIGURES, jobs};
use crate::recipe::ALL;
use crate::results::tests::{asked, row, run, seen};
use crate::results::{Looked, Point};

fn source(name: &str, run: Option<Run>, points: Option<Points>) -> Source {
    Source { name: name.into(), run, points }
}

/// Every recipe, and every point of every figure.
fn full() -> Source {
    let rows = ALL.iter().zip(1..).map(|(recipe, nth)| row(recipe.name, 20.0 * f64::from(nth))).collect();
    let point = |job: &crate::experiments::figures::Job| {
        let row = row(job.recipe.name, 100.0 + job.scale.threshold as f64);
        let seen = job.looks.then(seen);
        Point { requests: job.requests, scale: job.scale, row, seen }
    };
    let points = jobs(FIGURES, None).iter().map(point).collect();
    source("all", Some(Run { rows, ..run() }), Some(Points { asked: asked(), points }))
}

/// The page is XML, shows no number that is none, and asks for nothing from elsewhere.
#[track_caller]
fn check(sources: &[Source]) -> String {
    check_page(&page(sources).unwrap())
}

#[track_caller]
pub(super) fn check_page(text: &str) -> String {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let tree =
        roxmltree::Document::parse_with_options(text, options).unwrap_or_else(|why| panic!("{why}\n{text}"));
    for node in tree.descendants() {
        assert!(
            !["script", "link", "img", "iframe", "object", "use", "image"].contains(&node.tag_name().name())
        );
        for attribute in node.attributes() {
            let value = attribute.value();
            assert!(!attribute.name().ends_with("href") && !attribute.name().starts_with("on"), "{value}");
            assert!(!value.contains("NaN") && !value.contains("inf") && !value.contains("//"), "{value}");
        }
        let words = node.text().unwrap_or_default();
        assert!(!words.contains("NaN") && (node.has_tag_name("style") || !words.contains("url(")), "{words}");
    }
    assert!(!text.contains("@import") && !text.contains("<script"));
    for svg in tree.descendants().filter(|node| node.tag_name().name() == "svg") {
        assert!(svg.attribute("viewBox").is_some() && svg.attribute("width").is_none());
        inside(svg);
    }
    text.to_owned()
}

/// What is drawn lies in the picture, and no label on another.
fn inside(svg: roxmltree::Node) {
    let view: Vec<f64> =
        svg.attribute("viewBox").unwrap().split(' ').map(|part| part.parse().unwrap()).collect();
    let mut labels: Vec<[f64; 4]> = Vec::new();
    for text in svg.descendants().filter(|node| node.tag_name().name() == "text") {
        let number = |name| text.attribute(name).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        let (x, y, size, words) =
            (number("x"), number("y"), number("font-size"), text.text().unwrap().trim());
        // Letters are about half as wide as they are high.
        let breadth = 0.52 * size * words.chars().count() as f64;
        let from = match text.attribute("text-anchor") {
            Some("middle") => -breadth / 2.0,
            Some("end") => -breadth,
            _ => 0.0,
        };
        let half = size / 2.0;
        let place = match text.attribute("transform") {
            Some(_) => [x - half, y - breadth / 2.0, x + half, y + breadth / 2.0],
            None => [x + from, y - half, x + from + breadth, y + half],
        };
        assert!(place[0] > -10.0 && place[2] < view[2] + 10.0, "`{words}` at {place:?} of {view:?}");
        assert!(place[1] > -10.0 && place[3] < view[3] + 10.0, "`{words}` at {place:?} of {view:?}");
        let over = |other: &[f64; 4]| {
            place[0] < other[2]
                && other[0] < place[2]
                && place[1] + 2.0 < other[3]
                && other[1] + 2.0 < place[3]
        };
        assert!(!labels.iter().any(over), "`{words}` lies on another label");
        labels.push(place);
    }
}

#[test]
fn the_page_needs_nothing_else() {
    let text = check(&[full()]);
    for recipe in ALL {
        assert!(text.contains(&format!("<td>{}</td>", recipe.name)), "{}", recipe.name);
    }
    for figure in FIGURES {
        assert!(text.contains(&format!("<h3>Figure {}: ", figure.number)), "{}", figure.number);
    }
    assert_eq!(text, page(&[full()]).unwrap(), "the same page from the same results");
    assert!(text.contains("<td>10</td><td>3 (30.0 %)</td><td>611</td>"), "counts, and shares of the reads");
}

#[test]
fn input_made_up_is_said_to_be_so_wherever_its_results_are() {
    let text = check(&[full()]);
    let headings = text.matches("<h2>").count();
    let tags = text.matches("synthetic input</span></h2>").count();
    assert_eq!(tags, headings - 1, "but for what was asked");
    assert_eq!(text.matches("<h3>Figure").count(), text.matches("synthetic input</span></h3>").count());
    let mut real = full();
    for asked in
        real.run.iter_mut().map(|run| &mut run.asked).chain(real.points.iter_mut().map(|all| &mut all.asked))
    {
        (asked.synthetic, asked.trace, asked.seed) = (false, "a <log> & more".into(), None);
    }
    let text = check(&[real]);
    assert!(!text.contains("synthetic input") && text.contains("a &lt;log&gt; &amp; more"));
}

#[test]
fn published_figures_stand_beside() {
    let rows = vec![row("squid", 29.7), row("buddy", 99.0), row("stream", 400.0), row("unified", 9.0)];
    let text = check(&[source("one", Some(Run { rows: rows.clone(), ..run() }), None)]);
    let line = |recipe: &str| {
        let at = text.find(&format!("<tr><td>{recipe}</td>")).unwrap();
        text[at..].lines().next().unwrap().replace("</td><td>", " | ")
    };
    assert!(
        line("squid").contains("29.7 |  |  | "),
        "it was measured with fewer requests: {}",
        line("squid")
    );
    assert!(line("buddy").contains("99.0 | 141 | 0.70 | no"), "{}", line("buddy"));
    assert!(line("stream").contains("400.0 | 312 | 1.28 | no"));
    assert!(line("unified").contains("9.0 |  |  | "));
    let files = crate::replay::Row { gets: 398_034, ..row("squid", 29.7) };
    let scale = crate::scale::Scale { disk: 1 << 30, ..run().scale };
    let text = check(&[source("one", Some(Run { rows: vec![files], scale, ..run() }), None)]);
    assert!(text.contains("<td>29.7</td><td>27</td><td>1.10</td><td>yes</td>"));
    // What is published is of that disk, that trace, and caches of that size.
    let other = |rows: Vec<crate::replay::Row>, scale, trace: &str| {
        let asked = crate::results::Asked { trace: trace.into(), ..asked() };
        !check(&[source("one", Some(Run { rows, scale, asked, ..run() }), None)]).contains("<td>312</td>")
    };
    let usual = run().scale;
    assert!(!other(rows.clone(), usual, &asked().trace) && other(rows.clone(), usual, "bu-all.tsv.zst"));
    assert!(other(rows.clone(), crate::scale::Scale { memory: 1 << 20, ..usual }, &asked().trace));
    let elsewhere =
        rows.into_iter().map(|row| crate::replay::Row { medium: "another".into(), ..row }).collect();
    assert!(other(elsewhere, usual, &asked().trace));
}

#[test]
fn several_runs_stand_side_by_side() {
    let mut other = full();
    other.name = "other & <bad>\u{7}".into();
    let run = other.run.as_mut().unwrap();
    run.rows.retain(|row| row.recipe != "squid");
    run.rows.iter_mut().for_each(|row| row.gets_per_second *= 2.0);
    let text = check(&[full(), other]);
    assert!(text.contains("<h2>Runs side by side") && text.contains("<td>2.00</td>"));
    assert!(text.contains("<h2>Gets a second: other &amp; &lt;bad&gt;"));
}

#[test]
fn odd_results_make_pages_too() {
    check(&[source("none", None, None)]);
    check(&[source("no rows", Some(Run { rows: Vec::new(), seen: Vec::new(), ..run() }), None)]);
    let nothing = crate::replay::Row { gets: 0, seconds: 0.0, gets_per_second: 0.0, ..row("squid", 1.0) };
    let huge = crate::replay::Row {
        device_reads: Some(1 << 49),
        gets_per_second: 1e15,
        seconds: 1e-9,
        ..row("stream", 1.0)
    };
    let seen = Looked { recipe: "squid".into(), seen: crate::replay::watch::Seen::default() };
    check(&[source("odd", Some(Run { rows: vec![nothing, huge], seen: vec![seen], ..run() }), None)]);
    let mut few = full();
    few.points.as_mut().unwrap().points.truncate(4);
    let text = check(&[few]);
    assert!(
        text.contains("<h3>Figure 6: ") && !text.contains("<h3>Figure 7: "),
        "there is but one of its points"
    );
}

#[test]
fn all_that_was_measured_is_shown() {
    let flash = crate::replay::Row { write_amplification: Some(1.23), ..row("squid", 30.0) };
    let text = check(&[source("one", Some(Run { rows: vec![flash, row("stream", 90.0)], ..run() }), None)]);
    for part in
        ["<th>write amplification</th>", "<td>1.23</td>", "<td>model</td>", "<th>free piece bytes</th>"]
    {
        assert!(text.contains(part), "{part}");
    }
    assert!(!check(&[source("one", Some(run()), None)]).contains("write amplification"));
    let limited = |limit: &str| {
        let asked = crate::results::Asked { limit: Some(limit.into()), ..asked() };
        source(limit, Some(Run { asked, ..run() }), None)
    };
    assert!(
        check(&[limited("none"), limited("64MiB")]).contains("<td>limit</td><td>none</td><td>64MiB</td>")
    );
}

#[test]
fn the_front_is_drawn_and_who_dominates_whom_is_said() {
    let with = |recipe: &str, hit_ratio, seconds| crate::replay::Row {
        hit_ratio,
        device_read_seconds: Some(seconds),
        ..row(recipe, 30.0)
    };
    let rows = vec![with("squid", 0.3, 900.0), with("cosm", 0.4, 50.0), with("cyclic-log", 0.3, 20.0)];
    let text = check(&[source("one", Some(Run { rows, ..run() }), None)]);
    assert!(text.contains("<td>cosm, cyclic-log</td>") && text.contains("<td>nobody</td>"));
    assert!(text.contains("fills its file; its index"), "what is not alike is said");
    assert!(text.contains("100 ms until the origin answers and 10 MiB a second"));
}

#[test]
fn what_nobody_counted_has_no_bar() {
    let labels = |count: Option<u64>| {
        let row = crate::replay::Row { device_reads: count, device_writes: count, ..row("squid", 30.0) };
        check(&[source("one", Some(Run { rows: vec![row], ..run() }), None)]).matches("<text").count()
    };
    assert_eq!(labels(Some(0)), labels(None) + 2, "a value behind each bar");
}

/// What `cosm lab` may be given to read makes a page or an error of one line.
#[test]
fn what_others_wrote_is_shown_or_refused() {
    let json = run().to_json().unwrap();
    let spoilt = json.replace("\"squid\"", "\"<svg onload='x'>&amp;\"").replace("st15150w", "a\\\"b");
    let read = Run::read(&spoilt).unwrap();
    let text = check(&[source("foreign", Some(read), None)]);
    assert!(text.contains("&lt;svg onload"));
}
