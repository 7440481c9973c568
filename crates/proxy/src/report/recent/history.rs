//! The last hour by the minute and the last two days by the quarter of an hour, in bounded memory. Time is an argument.

use crate::report::counters::{BUCKETS, Class, Number, Time};
use crate::report::stats::Now;
use serde_json::{Map, Value as Json, json};
use std::collections::VecDeque;

/// Seconds of a bin, and how many of these are kept.
const RINGS: [(&str, u64, usize); 2] = [("minutes", 60, 60), ("quarters", 900, 192)];

/// What came of requests, in few words.
#[rustfmt::skip]
const GROUPS: &[(&str, &[Class])] = &[
    ("memory", &[Class::HitMemory]),
    ("disk", &[Class::HitDisk]),
    ("validated", &[Class::Revalidated, Class::StaleOnError, Class::HitOffline]),
    ("collapsed", &[Class::Collapsed]),
    ("miss", &[Class::Miss]),
    ("passed", &[
        Class::PassMethod, Class::PassNoStore, Class::PassUpgrade, Class::PassContent, Class::PassPrecondition, Class::Tunnel,
        Class::Own,
    ]),
    ("refused", &[
        Class::Refused400, Class::Refused403, Class::Refused405, Class::Refused501, Class::Refused508, Class::RefusedOther,
        Class::Left,
    ]),
    ("failed", &[Class::Refused502, Class::Refused503, Class::Refused504]),
];

/// Its name, and what it counts.
type NumberRow = (&'static str, fn(&Now<'_>) -> u64);

#[rustfmt::skip]
const NUMBERS: &[NumberRow] = &[
    ("fetches", |now| now.number(Number::Fetches)),
    ("fetches-failed", |now| now.number(Number::Failed)),
    ("origin-errors", |now| now.number(Number::ServerErrors)),
    ("origin-bytes", |now| now.number(Number::OriginBytes)),
    ("read-bytes", |now| now.store().map_or(0, |stats| stats.device_read_bytes)),
    ("written-bytes", |now| now.store().map_or(0, |stats| stats.device_written_bytes)),
];

/// Times to the first byte: of what was here, and of what the origin was asked for.
const TIMES: &[(&str, &[Time])] = &[
    ("hit", &[Time::HitMemory, Time::HitDisk, Time::Offline]),
    ("fetch", &[Time::Revalidated, Time::Miss, Time::Collapsed, Time::Stale, Time::Pass]),
];

/// What was counted up to a moment: requests and bytes of each group, the numbers, the times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted(Vec<u64>);

impl Counted {
    pub fn of(now: &Now<'_>) -> Counted {
        let sum = |classes: &[Class], of: &dyn Fn(Class) -> u64| -> u64 {
            classes.iter().map(|class| of(*class)).sum()
        };
        let mut all: Vec<u64> = Vec::new();
        all.extend(GROUPS.iter().map(|(_, classes)| sum(classes, &|class| now.requests(class))));
        all.extend(GROUPS.iter().map(|(_, classes)| sum(classes, &|class| now.bytes(class))));
        all.extend(NUMBERS.iter().map(|(_, of)| of(now)));
        for (_, times) in TIMES {
            let each: Vec<_> = times.iter().map(|time| now.times(*time)).collect();
            all.extend((0..BUCKETS).map(|bucket| each.iter().map(|times| times[bucket]).sum::<u64>()));
        }
        Counted(all)
    }

    /// Where a disk was left, what it counted is missing: then nothing was counted.
    fn since(&self, before: &Counted) -> Counted {
        let each = self.0.iter().enumerate();
        Counted(each.map(|(n, now)| now.saturating_sub(before.0.get(n).copied().unwrap_or(0))).collect())
    }

    fn json(&self) -> Map<String, Json> {
        let (requests, rest) = self.0.split_at(GROUPS.len());
        let (bytes, rest) = rest.split_at(GROUPS.len());
        let (numbers, times) = rest.split_at(NUMBERS.len());
        let mut told = Map::new();
        told.insert("requests".into(), requests.into());
        told.insert("bytes".into(), bytes.into());
        for ((name, _), number) in NUMBERS.iter().zip(numbers) {
            told.insert((*name).into(), (*number).into());
        }
        for ((name, _), buckets) in TIMES.iter().zip(times.chunks(BUCKETS)) {
            told.insert(format!("{name}-p50"), quantile(buckets, 0.5).into());
            told.insert(format!("{name}-p99"), quantile(buckets, 0.99).into());
        }
        told
    }
}

/// Microseconds that such a part of all took at most, about: within a bucket all are thought to be spread evenly. `None`: there are none.
fn quantile(buckets: &[u64], part: f64) -> Option<u64> {
    let all: u64 = buckets.iter().sum();
    let mut rank = part * all as f64;
    for (n, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        if rank <= *count as f64 {
            let (from, to) = (if n == 0 { 0 } else { 1u64 << (n - 1) }, 1u64 << n);
            return Some(from + ((to - from) as f64 * rank / *count as f64) as u64);
        }
        rank -= *count as f64;
    }
    None
}

#[derive(Debug)]
pub struct History([Ring; RINGS.len()]);

#[derive(Debug)]
struct Ring {
    every: u64,
    most: usize,
    bins: VecDeque<Bin>,
    /// Since when the present bin counts, in seconds since 1970, and what had been counted then.
    now: Option<(u64, Counted)>,
}

#[derive(Debug)]
struct Bin {
    /// Seconds since 1970 when it began.
    at: u64,
    seconds: u64,
    counted: Counted,
}

impl Default for History {
    fn default() -> History {
        History(RINGS.map(|(_, every, most)| Ring { every, most, bins: VecDeque::new(), now: None }))
    }
}

impl History {
    /// To be called several times in each minute.
    pub fn note(&mut self, now: u64, counted: &Counted) {
        self.0.iter_mut().for_each(|ring| ring.note(now, counted));
    }

    /// All bins, the present ones last. One that has just begun is told of as of a second, so that what came in it is seen.
    pub fn json(&self, now: u64, counted: &Counted) -> Json {
        let mut told = Map::new();
        told.insert("groups".into(), GROUPS.iter().map(|(name, _)| *name).collect());
        for ((name, every, _), ring) in RINGS.iter().zip(&self.0) {
            let present = ring.now.as_ref().map(|(since, before)| Bin {
                at: *since,
                seconds: now.saturating_sub(*since).max(1),
                counted: counted.since(before),
            });
            let bins: Vec<Json> = ring.bins.iter().chain(&present).map(Bin::json).collect();
            told.insert((*name).into(), json!({ "every": every, "bins": bins }));
        }
        Json::Object(told)
    }
}

impl Ring {
    fn note(&mut self, now: u64, counted: &Counted) {
        match &self.now {
            Some((since, _)) if since / self.every == now / self.every => return,
            Some((since, before)) if *since < now => {
                self.bins.push_back(Bin { at: *since, seconds: now - since, counted: counted.since(before) });
            }
            // The clock was put back: what lies in the future was never there.
            _ => self.bins.retain(|bin| bin.at < now),
        }
        let oldest = now.saturating_sub(self.every * self.most as u64);
        self.bins.retain(|bin| bin.at + bin.seconds > oldest);
        let extra = self.bins.len().saturating_sub(self.most);
        self.bins.drain(..extra);
        self.now = Some((now, counted.clone()));
    }
}

impl Bin {
    fn json(&self) -> Json {
        let mut told = self.counted.json();
        told.insert("at".into(), self.at.into());
        told.insert("seconds".into(), self.seconds.into());
        Json::Object(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(requests: u64) -> Counted {
        let mut all = vec![0; 2 * GROUPS.len() + NUMBERS.len() + TIMES.len() * BUCKETS];
        all[0] = requests;
        Counted(all)
    }

    fn bins(history: &History, ring: &str, now: u64, requests: u64) -> Vec<(u64, u64)> {
        let told = history.json(now, &counted(requests));
        let bins = told[ring]["bins"].as_array().unwrap();
        let number = |json: &Json| json.as_u64().unwrap();
        bins.iter().map(|bin| (number(&bin["at"]), number(&bin["requests"][0]))).collect()
    }

    #[test]
    fn each_group_is_in_one_place() {
        let mut all: Vec<_> =
            GROUPS.iter().flat_map(|(_, classes)| classes.iter()).map(|c| *c as usize).collect();
        all.sort_unstable();
        assert_eq!(all, (0..Class::ALL.len()).collect::<Vec<_>>());
    }

    #[test]
    fn what_came_in_a_minute_is_in_its_bin() {
        let mut history = History::default();
        for second in (0..200).step_by(5) {
            history.note(6000 + second, &counted(second));
        }
        assert_eq!(bins(&history, "minutes", 6199, 200), [(6000, 60), (6060, 60), (6120, 60), (6180, 20)]);
        assert_eq!(bins(&history, "quarters", 6199, 200), [(6000, 200)]);
    }

    #[test]
    fn what_came_in_the_first_second_is_told_with_a_length() {
        let mut history = History::default();
        history.note(6000, &counted(0));
        let told = history.json(6000, &counted(12));
        let bin = &told["minutes"]["bins"][0];
        assert_eq!((&bin["requests"][0], &bin["seconds"]), (&json!(12), &json!(1)));
    }

    #[test]
    fn it_takes_bounded_memory_and_ends_with_what_is_old() {
        let mut history = History::default();
        for minute in 0..10_000 {
            history.note(minute * 60, &counted(minute));
        }
        for ring in &history.0 {
            assert!(ring.bins.len() <= ring.most && ring.bins.len() + 1 >= ring.most, "{}", ring.bins.len());
        }
        // A machine that slept.
        history.note(10_000_000, &counted(20_000));
        assert_eq!(bins(&history, "minutes", 10_000_001, 20_001).len(), 2);
    }

    #[test]
    fn a_clock_that_is_put_back_leaves_no_future() {
        let mut history = History::default();
        (0..20).for_each(|minute| history.note(60_000 + minute * 60, &counted(minute)));
        history.note(60_300, &counted(25));
        let left = bins(&history, "minutes", 60_301, 30);
        assert_eq!((left.len(), left.last()), (6, Some(&(60_300, 5))));
    }

    #[test]
    fn quantiles_lie_in_their_bucket() {
        let mut buckets = [0; BUCKETS];
        assert_eq!(quantile(&buckets, 0.5), None);
        buckets[11] = 98;
        buckets[20] = 2;
        let median = quantile(&buckets, 0.5).unwrap();
        assert!((1024..2048).contains(&median), "{median}");
        assert!((1 << 19..1 << 20).contains(&quantile(&buckets, 0.99).unwrap()));
        assert_eq!(quantile(&[0, 1], 1.0), Some(2));
    }
}
