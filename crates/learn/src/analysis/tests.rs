use super::*;
use crate::target::Bound;
use proptest::prelude::*;
use trace::hash;
use trace::inventory::Row;

/// Monday, 2 September 1996.
const MONDAY: f64 = 9741.0 * 24.0;
const SETTINGS: Settings = Settings { peak: Peak::THESIS, utc_offset: 0, warm_up: 0, cache: 1 << 30 };

/// Seconds since 1970 of an hour, from that Monday's midnight on.
fn at(hour: f64) -> u64 {
    ((MONDAY + hour) * 3600.0) as u64
}

/// `modified` is an hour as well; 0 is none.
fn access(hour: f64, url: &str, size: u64, modified: f64) -> Access {
    let mut access = Access { time: at(hour) * 1_000_000, size, status: 200, ..Access::default() };
    access.set_url(format!("http://{url}").as_bytes());
    access.modified = if modified == 0.0 { 0 } else { at(modified) };
    access
}

fn analyze(all: &[Access], settings: Settings, offered: Option<Offered>) -> Result<Report, String> {
    let mut analysis = Analysis::new(settings, offered);
    all.iter().try_for_each(|access| analysis.see(access))?;
    analysis.finish()
}

fn bytes(split: &Split) -> [u64; 7] {
    let Split { seen, seen_server, unseen_server, altered, not_cacheable, assumed, server_of_this_peak } =
        split;
    [seen, seen_server, unseen_server, altered, not_cacheable, assumed, server_of_this_peak]
        .map(|part| part.bytes)
}

/// The off-peak before Monday's peak begins at -7.5, on Sunday; the peak is from 4.5 to 16.5. Each size is a bit of its own.
fn dated() -> Vec<Access> {
    vec![
        access(-30.0, "a.test/8", 25_600, -40.0),
        access(-7.0, "a.test/1", 100, -50.0),
        // A hit.
        access(5.0, "a.test/1", 100, -50.0),
        // Of a server seen before, of one never seen, and of one that this peak brought.
        access(6.0, "a.test/2", 200, -50.0),
        access(7.0, "b.test/3", 400, -50.0),
        access(8.0, "b.test/4", 800, -7.5),
        // Altered since the off-peak began; without a date; made by a program; created since.
        access(9.0, "a.test/1", 1600, 1.0),
        access(10.0, "a.test/5", 3200, 0.0),
        access(11.0, "a.test/6?x", 6400, -50.0),
        access(12.0, "a.test/7", 12_800, 6.0),
        // Seen, and altered since, but before the off-peak.
        access(13.0, "a.test/8", 25_600, -20.0),
        access(17.0, "a.test/9", 7, -50.0),
    ]
}

#[test]
fn each_miss_is_of_the_class_that_its_dates_tell() {
    let report = analyze(&dated(), SETTINGS, None).unwrap();
    assert_eq!((report.basis, report.measured, report.by_date), (Basis::Whole, 1, true));
    assert_eq!(report.peaks[0].date, "Mon 1996-09-02");
    let infinite = report.infinite;
    assert_eq!(bytes(&infinite.misses), [25_600, 200 + 800, 400, 1600 + 12_800, 3200 + 6400, 0, 800]);
    assert_eq!((infinite.hits, infinite.off_peak_missed), (Amount { requests: 1, bytes: 100 }, 100));
    assert_eq!(infinite, report.finite);
    // 4 of the 8 quarters of an hour with misses are prefetchable as a whole, the others not at all.
    assert_eq!(report.uniformity, Uniformity { levels: 8, mean: 0.5, deviation: 0.5 });
    let figures = &report.peaks[0].infinite;
    let target = figures.target.unwrap();
    assert_eq!((figures.level_max, target.bound), (25_600.0, Bound::Prefetchable));
    assert!((target.target_level - (1.0 - 27_000.0 / 51_000.0) * 25_600.0).abs() < 1e-6, "{target:?}");
    let whole = report.whole;
    assert_eq!((whole.undated, whole.future_dates, whole.referenced.requests), (1, 0, 12));
    // Of two servers that had a miss, one has 25,800 of 27,000.
    let (_, order) = report.order.unwrap();
    assert_eq!((order.servers, order.of_top_tenth, order.for_half), (2, 25_800.0 / 27_000.0, 0.5));
    assert_eq!(report.top, [("a.test".to_owned(), 25_800), ("b.test".to_owned(), 1200)]);
    assert_eq!((report.again.bytes, report.altered_again.bytes), (1700, 1600));
}

#[test]
fn a_finite_cache_misses_what_it_had_to_forget() {
    // 1 has to make room for 2; it was there unaltered since before the off-peak. 4 came to be since then.
    let all = [
        access(-30.0, "a.test/1", 100, -50.0),
        access(-29.0, "a.test/2", 100, -50.0),
        access(5.0, "a.test/1", 100, -50.0),
        access(6.0, "a.test/4", 100, 1.0),
        access(7.0, "a.test/2", 100, -50.0),
        access(8.0, "a.test/4", 100, 1.0),
        access(17.0, "a.test/9", 7, -50.0),
    ];
    let report = analyze(&all, Settings { cache: 150, ..SETTINGS }, None).unwrap();
    assert_eq!(bytes(&report.infinite.misses), [0, 0, 0, 100, 0, 0, 0]);
    assert_eq!(bytes(&report.finite.misses), [200, 0, 0, 200, 0, 0, 0]);
    assert_eq!((report.infinite.byte_hit_ratio, report.finite.byte_hit_ratio), (0.75, 0.0));
}

#[test]
fn without_dates_sizes_tell_what_they_can_and_the_rest_is_assumed() {
    let all = [
        access(-30.0, "a.test/1", 1000, 0.0),
        access(-30.0, "a.test/2", 2000, 0.0),
        access(-7.0, "a.test/3", 4000, 0.0),
        // As it was before the off-peak: known to be unaltered, a miss of the finite cache alone.
        access(5.0, "a.test/1", 1000, 0.0),
        // Altered since it was asked for before the off-peak, nobody knows when; and since it was asked for in the off-peak.
        access(6.0, "a.test/2", 20_000, 0.0),
        access(7.0, "a.test/3", 40_000, 0.0),
        // Asked for the first time, and again.
        access(8.0, "a.test/4", 80_000, 0.0),
        access(9.0, "a.test/4", 80_000, 0.0),
        access(10.0, "a.test/5?x", 160_000, 0.0),
        access(17.0, "a.test/9", 7, 0.0),
    ];
    let report = analyze(&all, Settings { cache: 0, ..SETTINGS }, None).unwrap();
    assert!(!report.by_date);
    assert_eq!(bytes(&report.infinite.misses), [20_000, 80_000, 0, 40_000, 160_000, 100_000, 0]);
    assert_eq!(bytes(&report.finite.misses), [101_000, 80_000, 0, 40_000, 160_000, 180_000, 0]);
    let noted = |about: &str| report.notes.iter().filter(|note| note.about == about).count();
    assert!(noted("hits") >= 1 && noted("split") >= 1 && noted("target") == 1);
    assert_eq!((report.again.bytes, report.altered_again.bytes), (120_000, 40_000));
}

#[test]
fn an_inventory_tells_what_nobody_missed() {
    let row = |url: &str, size, modified| {
        Ok(Row { url: format!("http://{url}"), size, modified: at(modified), ..Row::default() })
    };
    let rows = vec![
        // A hit, a prefetchable miss, what nobody asked for, and what came to be since.
        row("a.test/1", 100, -50.0),
        row("a.test/2", 200, -50.0),
        row("a.test/x", 1000, -8.0),
        row("a.test/7", 12_800, 6.0),
        row("a.test/8", 25_600, -20.0),
        Ok(Row { url: "http://a.test/y".into(), ..Row::default() }),
    ];
    let report = analyze(&dated(), SETTINGS, Some(Offered::of(rows.into_iter()).unwrap())).unwrap();
    assert_eq!(report.peaks[0].no_miss_prefetchable, Some(Amount { requests: 2, bytes: 1100 }));
    assert_eq!(report.no_miss_prefetchable, Some((2.0, 1100.0)));
    assert_eq!(report.inventory_share, Some(25_800.0 / 27_000.0));
    assert!(report.notes.iter().any(|note| note.text.contains("Of 6 rows, 1 have no date")));
}

#[test]
fn only_whole_peaks_after_the_warm_up_are_measured() {
    let days = |count: usize| -> Vec<Access> {
        let hours = (0..count * 24).map(|hour| hour as f64 - 8.0);
        hours.map(|hour| access(hour, &format!("a.test/{hour}"), 10, 0.0)).collect()
    };
    let measured = |all: &[Access], warm_up: u64| {
        let report = analyze(all, Settings { warm_up, ..SETTINGS }, None).unwrap();
        let dates = report.peaks.iter().filter(|peak| peak.is_measured).map(|peak| peak.date[..3].to_owned());
        (report.basis, dates.collect::<Vec<_>>().join(" "))
    };
    const DAY: u64 = 24 * 60 * 60;
    let week = days(9);
    assert_eq!(measured(&week, 0), (Basis::Whole, "Mon Tue Wed Thu Fri Mon".into()));
    assert_eq!(measured(&week, 2 * DAY), (Basis::Whole, "Wed Thu Fri Mon".into()));
    assert_eq!(measured(&days(1), 2 * DAY).0, Basis::Cold);
    // Wednesday's peak ends two hours before the trace would have to.
    let cut: Vec<Access> = days(9).into_iter().filter(|access| access.time < at(62.5) * 1_000_000).collect();
    assert_eq!(measured(&cut, 2 * DAY - 2 * 3600), (Basis::Partial, "Wed".into()));
    let saturday =
        [access(5.0 * 24.0 + 12.0, "a.test/", 9, 0.0), access(5.0 * 24.0 + 13.0, "a.test/", 9, 0.0)];
    assert_eq!(measured(&saturday, 0), (Basis::NoPeak, String::new()));
}

#[test]
fn traces_that_say_nothing_of_bandwidth_are_errors() {
    let error = |all: &[Access]| analyze(all, SETTINGS, None).unwrap_err();
    assert!(error(&[]).contains("no request"));
    assert!(error(&[access(1.0, "a.test/", 0, 0.0), access(2.0, "a.test/", 0, 0.0)]).contains("no sizes"));
    assert!(error(&[access(1.0, "a.test/", 9, 0.0), access(1.0, "b.test/", 9, 0.0)]).contains("no times"));
    let far = [access(1.0, "a.test/", 9, 0.0), access(24.0 * 5000.0, "a.test/", 9, 0.0)];
    assert!(error(&far).contains("5000 days apart"), "{}", error(&far));
    let odd = Access { time: u64::MAX, size: 9, modified: u64::MAX, ..access(1.0, "a.test/", 9, 0.0) };
    assert!(error(&[access(1.0, "a.test/", 9, 0.0), odd.clone()]).contains("days apart"));
    assert!(analyze(&[odd], SETTINGS, None).is_ok());
}

#[test]
fn dates_in_the_future_and_times_of_no_calendar_are_noted() {
    let mut all = dated();
    all[3].modified = at(100.0);
    let report = analyze(&all, SETTINGS, None).unwrap();
    assert_eq!((report.whole.future_dates, report.infinite.misses.seen_server.bytes), (1, 800));
    assert!(report.notes.iter().any(|note| note.text.contains("later than themselves")));
    let relative: Vec<Access> = (0..60)
        .map(|hour| Access { time: hour * 3_600_000_000, object: hour, size: 5, ..Access::default() })
        .collect();
    let report = analyze(&relative, SETTINGS, None).unwrap();
    assert_eq!((report.peaks[0].date.as_str(), report.calendar.has_dates), ("day 0", false));
    assert!(report.notes.iter().any(|note| note.text.contains("no day has a name")));
    // Times of the trace's own, and dates of the calendar: all is altered, and why is said.
    let dated: Vec<Access> = dated()
        .into_iter()
        .map(|access| Access { time: access.time - at(-30.0) * 1_000_000, ..access })
        .collect();
    let report = analyze(&dated, SETTINGS, None).unwrap();
    assert!(!report.calendar.has_dates && report.whole.future_dates == 11, "{:?}", report.whole);
    assert!(report.notes.iter().any(|note| note.text.contains("later than themselves")));
}

/// Dates that begin after the first requests: sizes decide hits, which a note says.
#[test]
fn late_dates_are_noted() {
    let mut all: Vec<Access> = (0..LOOK_AT as u64)
        .map(|n| Access { time: (at(0.0) + n) * 1_000_000, object: n, size: 5, ..Access::default() })
        .collect();
    all.push(access(30.0, "a.test/", 9, -50.0));
    let report = analyze(&all, SETTINGS, None).unwrap();
    assert!(!report.by_date && report.whole.late_dates == 1);
    assert!(report.notes.iter().any(|note| note.text.contains("later ones have")));
}

#[test]
fn the_peak_is_found_again() {
    struct Given(std::vec::IntoIter<Access>);
    impl Requests for Given {
        fn next(&mut self, access: &mut Access) -> Result<bool, String> {
            let next = self.0.next();
            *access = next.clone().unwrap_or_default();
            Ok(next.is_some())
        }
    }
    let hours = (0..24 * 7 * 4).map(|quarter| f64::from(quarter) / 4.0);
    let busy = |hour: f64| if (9.0..21.0).contains(&((hour + 2.0) % 24.0)) { 100 } else { 1 };
    let all: Vec<Access> = hours.map(|hour| access(hour, "a.test/", busy(hour), 0.0)).collect();
    let found = |days: Weekdays| find_peak(&mut Given(all.clone().into_iter()), days, 120);
    assert_eq!(found(Weekdays::WORKING).map(|peak| peak.to_string()), Ok("09:00-21:00".into()));
    let first_day = all[..80].to_vec();
    assert!(find_peak(&mut Given(first_day.into_iter()), "sat".parse().unwrap(), 0).is_err());
}

proptest! {
    /// The parts of the misses sum to the misses, misses and hits to what was asked for; the infinite cache never hits less, and the
    /// levels of the profile sum to the same.
    #[test]
    fn parts_sum_to_the_whole(
        rows in proptest::collection::vec((0u64..200, 0u64..30, 0u64..4, 1u64..5000, 0u64..60, 0u8..10), 1..300),
        room in 0u64..20_000, has_dates: bool, offset in -720i16..720, warm_up in 0u64..4,
    ) {
        let mut rows = rows;
        rows.sort_by_key(|row| row.0);
        let all: Vec<Access> = rows.iter().map(|(hour, object, server, size, modified, kind)| {
            let dynamic = if *kind == 0 { "?" } else { "" };
            let modified = if has_dates { *modified as f64 * 3.0 - 20.0 } else { 0.0 };
            access(*hour as f64, &format!("s{server}.test/{object}{dynamic}"), *size, modified)
        }).collect();
        let settings = Settings { utc_offset: offset, warm_up: warm_up * 86_400, cache: room, ..SETTINGS };
        let Ok(report) = analyze(&all, settings, None) else { return Ok(()) };
        prop_assert_eq!(report.whole.referenced.bytes, all.iter().map(|access| access.size).sum::<u64>());
        prop_assert!(report.whole.hits.bytes >= report.whole.finite_hits.bytes);
        for peak in &report.peaks {
            for side in [&peak.infinite, &peak.finite] {
                prop_assert_eq!(side.hits + side.misses.missed(), peak.referenced);
                prop_assert!(side.misses.assumed.bytes <= side.misses.prefetchable().bytes);
                prop_assert!(side.misses.server_of_this_peak.bytes <= side.misses.seen_server.bytes);
                if let Some(target) = side.target {
                    prop_assert!(target.target_level <= side.level_max && target.target_level >= 0.0);
                }
            }
            prop_assert!(peak.infinite.hits.bytes >= peak.finite.hits.bytes);
            prop_assert!(peak.infinite.misses.prefetchable().bytes <= peak.finite.misses.prefetchable().bytes);
        }
        let of_peaks: u64 = report.peaks.iter().filter(|peak| peak.is_measured).map(|p| p.infinite.misses.missed().bytes).sum();
        prop_assert_eq!(report.infinite.misses.missed().bytes, of_peaks);
        let served: u64 = report.top.iter().map(|(_, bytes)| bytes).sum();
        prop_assert_eq!(served, report.infinite.misses.prefetchable().bytes);
        prop_assert!(serde_json::to_string(&report).is_ok_and(|json| !json.contains("null,null")));
        let days = report.peak_days.days as f64;
        let mean: f64 = report.peak_days.missed.iter().sum();
        let other: f64 = report.other_days.missed.iter().sum();
        let all = mean * days + other * report.other_days.days as f64;
        let missed = report.whole.referenced.bytes - report.whole.hits.bytes;
        prop_assert!((all - missed as f64).abs() < 1.0);
    }
}

#[test]
fn the_name_of_a_server_is_short_and_no_order_to_a_terminal() {
    let name = format!("\u{1b}[31m{}.test", "x".repeat(1000));
    let mut servers = Servers::default();
    servers.place(&access(5.0, &format!("{name}/a"), 1, 0.0), 0).unwrap();
    let kept = servers.name(0);
    assert!(kept.starts_with("[31mxxx") && kept.len() == NAME_MAX, "{kept}");
}

#[test]
fn an_inventory_is_known_by_the_urls_of_the_trace() {
    let access = access(5.0, "a.test/1", 1, 0.0);
    assert_eq!(access.object, hash(b"http://a.test/1"));
}
