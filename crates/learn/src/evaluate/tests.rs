use super::*;
use crate::ripper::Learner;
use trace::Access;
use trace::inventory::Row;

const DAY: u64 = 86_400;
/// Monday, 18 May 1998.
const MONDAY: u64 = 895_449_600;

/// A web of requests and rows.
#[derive(Clone, Default)]
struct Small {
    accesses: Vec<Access>,
    rows: Vec<Row>,
    at: usize,
}

impl Web for Small {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        let found = self.accesses.get(self.at).cloned();
        self.at += 1;
        Ok(found.map(|found| *access = found).is_some())
    }

    fn offers(&mut self, _: u64, each: &mut dyn FnMut(Row) -> Result<(), String>) -> Result<(), String> {
        self.rows.iter().cloned().try_for_each(each)
    }
}

impl Small {
    /// A request on a day, from 0, at an hour.
    fn ask(&mut self, day: u64, hour: f64, url: &str, size: u64, modified: u64) {
        let time = ((MONDAY + day * DAY) as f64 + hour * 3600.0) * 1e6;
        let mut access = Access { time: time as u64, size, modified, status: 200, ..Access::default() };
        access.set_url(url.as_bytes());
        self.accesses.push(access);
    }

    fn offer(&mut self, url: &str, size: u64, modified: u64) {
        self.rows.push(Row { url: url.into(), size, modified, ..Row::default() });
    }

    /// Each day `good` has ten objects that are a day old, of which eight are asked for; `bad` has old ones that nobody wants; and
    /// something that no inventory lists is asked for.
    fn habits(days: u64) -> Small {
        let mut web = Small::default();
        for nth in 0..40 {
            web.offer(&format!("http://bad.test/{nth}.gif"), 1000, MONDAY - 9 * DAY);
        }
        for day in 0..days {
            let made = MONDAY + day * DAY - DAY;
            web.ask(day, 2.0, &format!("http://other.test/{day}"), 3000, made);
            for nth in 0..10 {
                web.offer(&format!("http://good.test/{day}/{nth}.gif"), 1000, made);
            }
            for nth in 0..8 {
                web.ask(day, 10.0, &format!("http://good.test/{day}/{nth}.gif"), 1000, made);
            }
            web.ask(day, 11.0, &format!("http://other.test/x{day}"), 1000, made);
        }
        web
    }
}

fn settings() -> Settings {
    Settings { warm_up: 1, servers: None, ..Settings::new(Encoding::thesis()) }
}

fn run(web: &Small, settings: &Settings, strategies: &[Strategy]) -> Result<Report, String> {
    let mut open = || Ok(Box::new(web.clone()) as Box<dyn Web>);
    evaluate(&mut open, settings, strategies, &mut |_, _, _| Ok(()), &mut |_| {})
}

fn rules(when: When) -> Strategy<'static> {
    let learn = |examples: &Examples| {
        let rules = Learner { positive: Some(PREFETCHABLE.into()), ..Learner::default() }.learn(examples)?;
        let (text, composition) = (Some(rules.to_string()), Some(Composition::of(&rules)));
        Ok(Learned { judge: Box::new(rules), text, composition })
    };
    Strategy { name: "rules".into(), how: How::Learned { when, learn: Box::new(learn) } }
}

fn fixed(name: &str, how: How<'static>) -> Strategy<'static> {
    Strategy { name: name.into(), how }
}

#[test]
fn each_strategy_gets_what_it_chose() {
    let web = Small::habits(6);
    let strategies = [
        fixed("nothing", How::Nothing),
        fixed("seen", How::SeenBefore),
        fixed("oracle", How::Oracle),
        rules(When::Daily),
    ];
    let report = run(&web, &settings(), &strategies).unwrap();
    assert_eq!(report.days.len(), 4);
    let [nothing, seen, oracle, learned] = &report.strategies[..] else { panic!() };
    assert_eq!((nothing.totals.accuracy, nothing.totals.coverage), (None, Some(0.0)));
    // Infinite, the cache still has all that was seen.
    assert_eq!(seen.totals.bytes.hit + seen.totals.bytes.vain, 0);
    // What the inventory does not list is not covered by anybody.
    assert_eq!((oracle.totals.accuracy, oracle.totals.coverage), (Some(1.0), Some(8.0 / 9.0)));
    assert_eq!(oracle.days[0].chosen_peak, [8000, 1000]);
    // All that is new of `good` is chosen.
    let first = &learned.days[0];
    assert_eq!(first.bytes, Matrix { hit: 8000, missed: 1000, vain: 2000, left: 44_000 });
    assert_eq!((first.objects.hit, first.accuracy, first.coverage), (8, Some(0.8), Some(8.0 / 9.0)));
    assert_eq!(first.composition.map(|found| found.rules), Some(1));
    // Fetched: 10000, into a night of 48 levels of which one has 3000.
    assert_eq!(first.raised[0], 10_000.0 / 47.0);
    assert_eq!(first.chosen.iter().sum::<u64>(), 47 * (10_000 / 47) + 3000 + 1000);
    assert_eq!(report.notes, Vec::<String>::new());
}

#[test]
fn a_budget_is_kept() {
    let web = Small::habits(6);
    let settings = Settings { budget: Budget::Bytes(1500), ..settings() };
    let report = run(&web, &settings, &[rules(When::Daily)]).unwrap();
    for day in &report.strategies[0].days {
        assert!(day.bytes.hit + day.bytes.vain <= 1500 && day.over_budget > 0, "{day:?}");
    }
}

#[test]
fn what_changes_in_the_night_is_not_prefetchable_and_late() {
    let mut web = Small::habits(4);
    // On the last day one of the eight was changed at 5 in the morning.
    let changed = web.accesses.iter_mut().rfind(|access| access.url.contains("good.test/3/7")).unwrap();
    changed.modified = MONDAY + 3 * DAY + 5 * 3600;
    let report = run(&web, &settings(), &[rules(When::Daily)]).unwrap();
    let last = report.strategies[0].days.last().unwrap();
    assert_eq!((last.bytes.hit, last.bytes.vain, last.timeliness), (7000, 3000, Some(7.0 / 8.0)));
}

#[test]
fn days_of_a_kind_learn_from_each_other() {
    let web = Small::habits(12);
    let day = |report: &Report, nth: usize| report.strategies[0].days[nth].learned_from.unwrap() - 10_364;
    let plain = run(&web, &settings(), &[rules(When::Daily)]).unwrap();
    // Monday is the warm-up and Tuesday the first that is learned from: Wednesday is the first one tested.
    assert_eq!([0, 2, 3, 4, 5].map(|nth| day(&plain, nth)), [1, 3, 4, 5, 6]);
    let kinds = Settings { same_kind: true, ..settings() };
    let kinds = run(&web, &kinds, &[rules(When::Daily)]).unwrap();
    // Saturday has no free day before it; Monday learns from Friday.
    assert_eq!([0, 2, 3, 4, 5].map(|nth| day(&kinds, nth)), [1, 3, 4, 5, 4]);
    let once = run(&web, &settings(), &[rules(When::Once)]).unwrap();
    assert!((0..10).all(|nth| day(&once, nth) == 1));
    let week = Settings { once: Some(7), ..settings() };
    let week = run(&web, &week, &[rules(When::Daily)]).unwrap();
    assert_eq!((week.days.len(), day(&week, 0)), (4, 7));
}

/// Also what is asked for is one object, however it is spelled.
#[test]
fn what_is_offered_in_another_spelling_is_what_was_asked_for() {
    let web = Small::habits(6);
    let oracle = || [fixed("oracle", How::Oracle)];
    let plain = run(&web, &settings(), &oracle()).unwrap();
    let mut other = web.clone();
    for row in &mut other.rows {
        row.url = row.url.replace("http://", "HTTP://").replace(".test/", ".TEST:80/") + "#part";
    }
    let found = run(&other, &settings(), &oracle()).unwrap();
    assert_eq!(found.strategies[0].totals.bytes, plain.strategies[0].totals.bytes);
    assert_eq!(found.days[0].left_out, plain.days[0].left_out);
    for access in other.accesses.iter_mut().step_by(2) {
        access.url = access.url.replace(".test/", ".Test:/");
        let url = access.url.clone();
        access.set_url(url.as_bytes());
    }
    let found = run(&other, &settings(), &oracle()).unwrap();
    assert_eq!((found.servers, found.days[0].left_out), (plain.servers, plain.days[0].left_out));
    assert_eq!(found.strategies[0].totals.bytes, plain.strategies[0].totals.bytes);
}

#[test]
fn days_without_names_are_all_alike() {
    let web = Small::habits(9);
    let nameless = Calendar::begun(0, 60);
    let settings = Settings { calendar: nameless, same_kind: true, holidays: vec![10_366], ..settings() };
    let report = run(&web, &settings, &[rules(When::Daily)]).unwrap();
    assert!(report.days.iter().all(|day| day.weekday.is_none() && !day.is_free));
    assert!(report.notes[0].contains("no day has a name"), "{:?}", report.notes);
}

/// So that `query=yes` is for rules that a person writes.
#[test]
fn what_a_program_makes_is_not_learned_from() {
    let mut web = Small::habits(6);
    for row in &mut web.rows {
        row.url = row.url.replace("bad.test/", "bad.test/x.php/");
    }
    for positives in [Positives::Listed, Positives::Log] {
        let report = run(&web, &Settings { positives, ..settings() }, &[rules(When::Daily)]).unwrap();
        assert_eq!(report.days[0].left_out.not_cacheable, 40);
    }
}

#[test]
fn only_the_chosen_servers_count() {
    let web = Small::habits(6);
    let one = Settings { servers: Some(1), ..settings() };
    let report = run(&web, &one, &[fixed("oracle", How::Oracle)]).unwrap();
    assert_eq!((report.chosen_servers, report.chosen_share), (1, 8.0 / 9.0));
    assert!(report.days.iter().all(|day| day.unlisted == Amount::default()));
    let oracle = &report.strategies[0].totals;
    assert_eq!((oracle.coverage, oracle.chosen_lower, oracle.all_lower), (Some(1.0), 1.0, 7.0 / 8.0));
}

#[test]
fn without_an_inventory_what_was_seen_is_offered() {
    let mut web = Small::default();
    for day in 0..5 {
        for hour in [2.0, 10.0] {
            web.ask(day, hour, &format!("http://a.test/{hour}"), 600, 0);
        }
    }
    let settings = Settings { offers: Offers::Seen, cache: Some(1000), ..settings() };
    let report = run(&web, &settings, &[fixed("seen", How::SeenBefore)]).unwrap();
    // The cache has room for one: that of the day before is still there when the night begins, and that of the night goes.
    assert!(!report.by_date);
    let day = &report.strategies[0].days[0];
    assert_eq!((day.bytes.hit, day.bytes.vain, day.bytes.missed), (0, 600, 600), "{day:?}");
    assert!(report.notes.iter().any(|note| note.contains("there is no inventory")));
    assert!(report.notes.iter().any(|note| note.contains("told by sizes")));
}

#[test]
fn odd_traces_are_an_error_or_a_note() {
    let learned = || [rules(When::Daily)];
    let error = run(&Small::habits(2), &settings(), &learned()).unwrap_err();
    assert!(error.contains("2 days with a peak") && !error.contains('\n'), "{error}");
    assert!(run(&Small::default(), &settings(), &learned()).unwrap_err().contains("0 days"));
    // Nothing that is offered is asked for.
    let mut none = Small::habits(5);
    for access in &mut none.accesses {
        if access.url.contains("good") {
            access.url = access.url.replace("good", "gone");
            let url = access.url.clone();
            access.set_url(url.as_bytes());
        }
    }
    let report = run(&none, &settings(), &learned()).unwrap();
    assert!(
        report.notes.iter().any(|note| note.contains("nothing of 60 candidates was prefetchable")),
        "{:?}",
        report.notes
    );
    assert_eq!(report.strategies[0].totals.bytes.hit + report.strategies[0].totals.bytes.vain, 0);
    // All that is offered is asked for.
    let mut all = Small::habits(5);
    all.rows.clear();
    all.offer("http://good.test/1/2.gif", 1000, MONDAY - DAY);
    let report = run(&all, &settings(), &learned()).unwrap();
    assert!(
        report.notes.iter().any(|note| note.contains("everything of 1 candidates")),
        "{:?}",
        report.notes
    );
    // Dates and times that cannot be.
    let mut future = Small::habits(5);
    future.accesses[9].modified = u64::MAX;
    future.rows[3].modified = u64::MAX;
    future.rows[4].size = 0;
    let report = run(&future, &settings(), &learned()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("later than their request")));
    // Beside those that are created later: 10 on each of two days.
    assert_eq!((report.days[0].left_out.not_yet, report.days[0].left_out.no_size), (21, 1));
    let mut far = Small::habits(3);
    far.accesses[0].time = 0;
    assert!(run(&far, &settings(), &learned()).unwrap_err().contains("days apart"));
    let mut sizeless = Small::habits(5);
    sizeless.accesses.iter_mut().for_each(|access| access.size = 0);
    let report = run(&sizeless, &settings(), &learned()).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("have no size")));
}

#[test]
fn a_night_is_raised_to_the_least_level_that_pays() {
    assert_eq!(raised(&[], 5), 0.0);
    assert_eq!(raised(&[5, 1, 3], 0), 0.0);
    assert_eq!(raised(&[5, 1, 3], 1), 2.0);
    assert_eq!(raised(&[5, 1, 3], 2), 3.0);
    assert_eq!(raised(&[5, 1, 3], 6), 5.0);
    assert_eq!(raised(&[5, 1, 3], 9), 6.0);
    assert_eq!(raised(&[0; 4], 2), 0.5);
}

#[test]
fn days_read_as_dates() {
    assert_eq!([0, 10_364].map(date), ["day 0", "1998-05-18"]);
    assert!(date(i64::MAX).starts_with("day"));
}

#[test]
fn what_fits_into_a_budget_is_told_by_the_sizes_that_are_offered() {
    let mut web = Small::habits(6);
    let of_good = |access: &&mut Access| access.url.starts_with("http://good.test");
    web.accesses.iter_mut().filter(of_good).for_each(|access| access.size = 5000);
    let settings = Settings { budget: Budget::Bytes(3500), ..settings() };
    let report = run(&web, &settings, &[fixed("oracle", How::Oracle)]).unwrap();
    let day = &report.strategies[0].days[0];
    assert_eq!((day.objects.hit, day.bytes.hit, day.over_budget), (3, 15_000, 5000));
}

#[test]
fn rows_that_come_twice_and_times_out_of_order_are_noted_or_refused() {
    let web = Small::habits(6);
    let oracle = || [fixed("oracle", How::Oracle)];
    let once = run(&web, &settings(), &oracle()).unwrap();
    let mut twice = web.clone();
    twice.rows.extend(web.rows.iter().map(|row| Row { size: 1, ..row.clone() }));
    let found = run(&twice, &settings(), &oracle()).unwrap();
    assert_eq!(found.strategies[0].totals.bytes, once.strategies[0].totals.bytes);
    let is_noted = |report: &Report, says: &str| report.notes.iter().any(|note| note.contains(says));
    assert!(is_noted(&found, "the first counts") && !is_noted(&once, "the first counts"));
    let mut swapped = web.clone();
    let last = swapped.accesses.len() - 1;
    swapped.accesses.swap(last - 3, last);
    assert!(is_noted(&run(&swapped, &settings(), &oracle()).unwrap(), "3 requests are over a quarter"));
    let mut falling = web;
    falling.accesses.reverse();
    assert!(run(&falling, &settings(), &oracle()).unwrap_err().contains("sort the trace by time"));
}
