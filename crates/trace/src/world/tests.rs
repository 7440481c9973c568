use super::*;
use crate::Access;
use std::collections::{HashMap, HashSet};

/// Each day with its inventory at midnight and its requests.
fn days(settings: &Settings, seed: u64) -> Vec<(Day, Vec<Row>, Vec<Access>)> {
    let mut world = World::new(settings.clone(), seed).unwrap();
    let (mut all, mut access) = (Vec::new(), Access::default());
    while let Some(day) = world.next_day() {
        let inventory = world.inventory(day.begins).collect();
        let mut requests = Vec::new();
        while world.next(&mut access) {
            requests.push(access.clone());
        }
        all.push((day, inventory, requests));
    }
    all
}

#[test]
fn a_seed_gives_the_same_again() {
    let settings = Settings::small();
    let (first, second) = (days(&settings, 5), days(&settings, 5));
    assert!(first == second);
    assert!(first != days(&settings, 6));
    // Not only with itself: the same in every version, on every machine.
    let requests: usize = first.iter().map(|(_, _, requests)| requests.len()).sum();
    assert!(requests > 1_000, "{requests}");
}

#[test]
fn requests_come_in_the_order_of_time_and_within_their_day() {
    for (day, _, requests) in days(&Settings::small(), 1) {
        let (first, end) = (day.begins * 1_000_000, (day.begins + 86_400) * 1_000_000);
        assert!(requests.is_sorted_by_key(|access| access.time));
        assert!(requests.iter().all(|access| (first..end).contains(&access.time)));
        assert!(requests.iter().all(|access| access.size > 0 && access.modified <= access.time / 1_000_000));
        assert!(requests.iter().all(|access| access.client < 60 && access.page.is_some()));
    }
}

#[test]
fn there_is_more_by_day_and_on_weekdays() {
    let settings = Settings { days: 14, sites: 8, ..Settings::small() };
    let mut by_kind: HashMap<&str, Vec<usize>> = HashMap::new();
    let (mut peak, mut all) = (0, 0);
    for (day, _, requests) in days(&settings, 2) {
        let name = match day.kind {
            DayKind::Weekday => "weekday",
            DayKind::Weekend => "weekend",
            DayKind::Holiday => "holiday",
        };
        by_kind.entry(name).or_default().push(requests.len());
        if day.kind == DayKind::Weekday {
            let second = |access: &Access| access.time / 1_000_000 - day.begins;
            peak += requests.iter().filter(|access| (16_200..59_400).contains(&second(access))).count();
            all += requests.len();
        }
    }
    let mean = |name: &str| by_kind[name].iter().sum::<usize>() as f64 / by_kind[name].len() as f64;
    assert_eq!([by_kind["weekday"].len(), by_kind["weekend"].len(), by_kind["holiday"].len()], [9, 4, 1]);
    for other in ["weekend", "holiday"] {
        let share = mean(other) / mean("weekday");
        assert!((0.2..0.6).contains(&share), "{other}: {share}");
    }
    let share = f64::from(peak as u32) / all as f64;
    assert!((0.58..0.80).contains(&share), "half of the day has {share} of its requests");
}

/// What somebody gets is what the site says that it has.
#[test]
fn inventories_agree_with_what_requests_get() {
    let settings = Settings::small();
    let mut world = World::new(settings, 3).unwrap();
    let (mut access, mut listed, mut asked) = (Access::default(), 0, 0);
    while let Some(day) = world.next_day() {
        let rows: Vec<Row> = world.inventory(day.begins).collect();
        let by_url: HashMap<&str, &Row> = rows.iter().map(|row| (row.url.as_str(), row)).collect();
        assert_eq!(by_url.len(), rows.len(), "a URL is listed once");
        for row in &rows {
            assert!(row.created <= row.modified && row.modified <= day.begins && row.size > 0, "{row:?}");
            assert_eq!(world.offer(&row.url, day.begins).map(|offer| offer.row).as_ref(), Some(row));
        }
        while world.next(&mut access) {
            if access.url.contains('?') {
                assert!(access.dynamic && access.modified == 0);
                continue;
            }
            asked += 1;
            let offer = world.offer(&access.url, access.time / 1_000_000).unwrap();
            let modified = if offer.row.cacheable { offer.row.modified } else { 0 };
            assert_eq!((access.size, access.modified), (offer.row.size, modified), "{}", access.url);
            assert_eq!(access.dynamic, !offer.row.cacheable);
            // Unless it is newer, it was listed at midnight.
            if let Some(row) = by_url.get(access.url.as_str()) {
                listed += 1;
                assert!(row.modified <= offer.row.modified);
            } else {
                assert!(offer.row.created > day.begins, "{}", access.url);
            }
        }
    }
    assert!(listed * 2 > asked && listed < asked, "{listed} of {asked}");
    assert_eq!(world.offer("http://www1.example.com/17/999999-0.html", 1), None);
    assert_eq!(world.offer("http://elsewhere.test/", 1), None);
}

/// Pages are edited, front pages of news most; images never change.
#[test]
fn edits_follow_the_habits() {
    let all = days(&Settings { days: 5, ..Settings::small() }, 4);
    let mut versions: HashMap<&str, (HashSet<u64>, &Row)> = HashMap::new();
    for row in all.iter().flat_map(|(_, rows, _)| rows) {
        let (dates, _) = versions.entry(&row.url).or_insert_with(|| (HashSet::new(), row));
        dates.insert(row.modified);
    }
    let of = |content_type: &str| {
        let some = versions.values().filter(|(_, row)| row.content_type == content_type);
        some.fold((0, 0), |(all, edited), (dates, _)| (all + 1, edited + usize::from(dates.len() > 1)))
    };
    let (pages, edited) = of("text/html");
    assert!(pages > 500 && edited * 50 > pages && edited * 2 < pages, "{edited} of {pages}");
    for images in ["image/gif", "image/jpeg"] {
        let (count, edited) = of(images);
        assert!(count > 300 && edited == 0, "{images}: {edited} of {count}");
    }
    let is_front = |url: &str| url.ends_with('/');
    let fronts: Vec<usize> =
        versions.iter().filter(|(url, _)| is_front(url)).map(|(_, (dates, _))| dates.len()).collect();
    assert!(fronts.len() == 12 && fronts.iter().max() == Some(&5), "{fronts:?}");
}

/// Until the day it is the same world; then others are popular.
#[test]
fn an_upheaval_changes_what_comes_after_it() {
    let calm = Settings { days: 4, clients: 200, sites: 40, ..Settings::small() };
    let shaken = Settings { upheaval: Some(2), ..calm.clone() };
    let (calm, shaken) = (days(&calm, 7), days(&shaken, 7));
    assert!(calm[..2] == shaken[..2]);
    let popular = |requests: &[Access]| -> HashSet<u64> {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        requests.iter().for_each(|access| *counts.entry(access.server).or_default() += 1);
        let mut counts: Vec<(u32, u64)> = counts.into_iter().map(|(server, count)| (count, server)).collect();
        counts.sort_unstable();
        counts.into_iter().rev().take(8).map(|(_, server)| server).collect()
    };
    let same =
        |all: &[(Day, Vec<Row>, Vec<Access>)]| popular(&all[1].2).intersection(&popular(&all[3].2)).count();
    let (calm, changed) = (same(&calm), same(&shaken));
    assert!(calm >= 6 && changed <= 4, "of 8 sites {calm} stay popular, after an upheaval {changed}");
    for ((day, rows, _), (_, before, _)) in shaken.iter().skip(1).zip(&shaken) {
        let before: HashMap<&str, u64> = before.iter().map(|row| (row.url.as_str(), row.modified)).collect();
        let back =
            rows.iter().filter(|row| before.get(row.url.as_str()).is_some_and(|last| *last > row.modified));
        assert_eq!(back.count(), 0, "no date goes back on day {}", day.number);
    }
}

/// Sites by their number, and each once.
#[test]
fn popular_sites_get_most() {
    let settings = Settings { sites: 100, clients: 300, days: 1, ..Settings::small() };
    let requests = days(&settings, 8).remove(0).2;
    let mut counts: HashMap<u64, u32> = HashMap::new();
    requests.iter().for_each(|access| *counts.entry(access.server).or_default() += 1);
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let top = f64::from(counts[..10].iter().sum::<u32>()) / requests.len() as f64;
    assert!((0.4..0.95).contains(&top), "{top}");
}

#[test]
fn worlds_that_cannot_be_are_refused_in_words() {
    for wrong in [
        Settings { sites: 0, ..Settings::small() },
        Settings { clients: 0, ..Settings::small() },
        Settings { sessions: f64::NAN, ..Settings::small() },
        Settings { site_zipf: -1.0, ..Settings::small() },
        Settings { begins: 5, ..Settings::small() },
    ] {
        let why = World::new(wrong, 1).err().unwrap();
        assert!(why.contains("are possible") && !why.contains('\n'), "{why}");
    }
    let mut one = World::new(Settings { sites: 1, clients: 1, days: 1, ..Settings::small() }, 1).unwrap();
    assert!(one.next_day().is_some() && one.next_day().is_none());
}

#[test]
fn a_day_may_fall_out_otherwise_by_the_same_habits() {
    let settings = Settings::small();
    let mut world = World::new(settings.clone(), 3).unwrap();
    let drawn = |world: &World, draw: u64| {
        let mut all = Vec::new();
        world.might_ask(draw, &mut |access| all.push(access.clone()));
        all
    };
    for _ in 0..2 {
        world.next_day().unwrap();
        let foreseen = drawn(&world, 0);
        let draws: Vec<Vec<Access>> = (1..=20).map(|draw| drawn(&world, draw)).collect();
        assert!(draws[0] == drawn(&world, 1) && draws[0] != draws[1] && draws[0] != foreseen);
        // About as much is asked for, and what most days ask for is asked for on this one.
        let mean = draws.iter().map(Vec::len).sum::<usize>() as f64 / 20.0;
        assert!((0.7..1.4).contains(&(foreseen.len() as f64 / mean)), "{} {mean}", foreseen.len());
        let mut days: HashMap<u64, u32> = HashMap::new();
        for draw in &draws {
            let objects: HashSet<u64> = draw.iter().map(|access| access.object).collect();
            objects.into_iter().for_each(|object| *days.entry(object).or_default() += 1);
        }
        let asked: HashSet<u64> = foreseen.iter().map(|access| access.object).collect();
        let share = |range: std::ops::RangeInclusive<u32>| {
            let of: Vec<u64> = days.iter().filter(|day| range.contains(day.1)).map(|day| *day.0).collect();
            of.iter().filter(|object| asked.contains(object)).count() as f64 / of.len() as f64
        };
        assert!(share(18..=20) > 0.85 && share(1..=4) < 0.35, "{} {}", share(18..=20), share(1..=4));
        // Nothing was taken of the day itself.
        let (mut access, mut came) = (Access::default(), Vec::new());
        while world.next(&mut access) {
            came.push(access.clone());
        }
        assert!(came == foreseen);
    }
}
