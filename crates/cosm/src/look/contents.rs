//! What a cache holds: records by kind, objects by the size of their bodies, by age and by host.
//!
//! Memory is bounded: of hosts, the largest are known by name. When there are too many the smaller half is added to the other
//! hosts, so that a host which is met again later may miss what was counted of it before.

use cache::{Stored, key};
use std::collections::HashMap;
use store::Seen;
use store::format::record::Kind;

/// Hosts that are known by name, at least.
pub const HOSTS: usize = 1 << 15;
/// Bytes of a host's name with its scheme and port; longer ones count among the others.
const NAME: usize = 300;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    fn scale(&mut self, by: f64) {
        (self.count, self.bytes) = ((self.count as f64 * by) as u64, (self.bytes as f64 * by) as u64);
    }
}

pub struct Contents {
    now: u64,
    kinds: [Amount; KINDS.len()],
    sizes: [Amount; SIZES.len()],
    ages: [Amount; AGES.len()],
    hosts: HashMap<String, Amount>,
    other_hosts: Amount,
}

/// What a record is.
const KINDS: [&str; 4] = ["whole objects", "heads of large objects", "spans of large objects", "markers"];

/// Classes by bytes of the body: up to these.
const SIZES: [(u64, &str); 9] = [
    (1 << 10, "1 KiB"),
    (4 << 10, "4 KiB"),
    (16 << 10, "16 KiB"),
    (64 << 10, "64 KiB"),
    (256 << 10, "256 KiB"),
    (1 << 20, "1 MiB"),
    (16 << 20, "16 MiB"),
    (256 << 20, "256 MiB"),
    (u64::MAX, "larger"),
];

/// Classes by the time since a record was written, seconds: up to these.
const AGES: [(u64, &str); 7] = [
    (60, "1 minute"),
    (3_600, "1 hour"),
    (86_400, "1 day"),
    (7 * 86_400, "1 week"),
    (30 * 86_400, "30 days"),
    (365 * 86_400, "1 year"),
    (u64::MAX, "older"),
];

fn class<const N: usize>(classes: &[(u64, &str); N], value: u64) -> usize {
    classes.iter().position(|(up_to, _)| value <= *up_to).unwrap_or(N - 1)
}

impl Contents {
    /// `now`: seconds since 1970.
    pub fn new(now: u64) -> Contents {
        Contents {
            now,
            kinds: Default::default(),
            sizes: Default::default(),
            ages: Default::default(),
            hosts: HashMap::new(),
            other_hosts: Amount::default(),
        }
    }

    pub fn add(&mut self, seen: &Seen<'_>) {
        let kind = match seen.kind {
            Kind::Object if Stored::is_marker(seen.meta) => 3,
            Kind::Object => 0,
            Kind::Head => 1,
            Kind::Span => 2,
            Kind::Pages | Kind::Digest | Kind::Removal => return,
        };
        self.kinds[kind].add(seen.bytes);
        if kind > 1 {
            return;
        }
        self.sizes[class(&SIZES, seen.body)].add(seen.body);
        self.ages[class(&AGES, self.now.saturating_sub(seen.written))].add(seen.body);
        self.host(key::origin(seen.key).filter(|name| name.contains("://") && name.len() <= NAME))
            .add(seen.body);
    }

    fn host(&mut self, name: Option<&str>) -> &mut Amount {
        let Some(name) = name else { return &mut self.other_hosts };
        if !self.hosts.contains_key(name) {
            if self.hosts.len() >= 2 * HOSTS {
                self.forget_small_hosts();
            }
            self.hosts.insert(name.to_owned(), Amount::default());
        }
        self.hosts.get_mut(name).unwrap_or(&mut self.other_hosts)
    }

    fn forget_small_hosts(&mut self) {
        let mut all: Vec<_> = std::mem::take(&mut self.hosts).into_iter().collect();
        all.sort_unstable_by_key(|(_, amount)| std::cmp::Reverse(amount.bytes));
        for (_, gone) in all.split_off(HOSTS) {
            self.other_hosts.count += gone.count;
            self.other_hosts.bytes += gone.bytes;
        }
        self.hosts = all.into_iter().collect();
    }

    /// For what was counted in a part of the cache only.
    pub fn scale(&mut self, by: f64) {
        let all = self.kinds.iter_mut().chain(&mut self.sizes).chain(&mut self.ages);
        all.chain(self.hosts.values_mut()).chain([&mut self.other_hosts]).for_each(|amount| amount.scale(by));
    }

    /// Responses that can answer.
    pub fn objects(&self) -> u64 {
        self.kinds[0].count + self.kinds[1].count
    }

    pub fn kinds(&self) -> Vec<(&'static str, Amount)> {
        KINDS.into_iter().zip(self.kinds).collect()
    }

    pub fn sizes(&self) -> impl Iterator<Item = (&'static str, Amount)> {
        SIZES.iter().map(|(_, name)| *name).zip(self.sizes)
    }

    pub fn ages(&self) -> impl Iterator<Item = (&'static str, Amount)> {
        AGES.iter().map(|(_, name)| *name).zip(self.ages)
    }

    /// Upper bounds, in bytes; the last class has none.
    pub fn by_size(&self) -> Vec<(Option<u64>, Amount)> {
        bounded(&SIZES, &self.sizes)
    }

    /// Upper bounds, in seconds; the last class has none.
    pub fn by_age(&self) -> Vec<(Option<u64>, Amount)> {
        bounded(&AGES, &self.ages)
    }

    /// The `most` largest by bytes of bodies, and the others together.
    pub fn hosts(&self, most: usize) -> Vec<(&str, Amount)> {
        let mut hosts: Vec<_> = self.hosts.iter().map(|(name, amount)| (name.as_str(), *amount)).collect();
        hosts.sort_unstable_by_key(|(name, amount)| (std::cmp::Reverse(amount.bytes), *name));
        let rest = hosts.split_off(most.min(hosts.len()));
        let others = rest.iter().fold(self.other_hosts, |sum, (_, amount)| Amount {
            count: sum.count + amount.count,
            bytes: sum.bytes + amount.bytes,
        });
        hosts.push(("(others)", others));
        hosts
    }
}

fn bounded<const N: usize>(classes: &[(u64, &str); N], amounts: &[Amount; N]) -> Vec<(Option<u64>, Amount)> {
    let bound = |up_to: u64| (up_to < u64::MAX).then_some(up_to);
    classes.iter().zip(amounts).map(|((up_to, _), amount)| (bound(*up_to), *amount)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen<'a>(key: &'a [u8], meta: &'a [u8], kind: Kind, body: u64, written: u64) -> Seen<'a> {
        Seen { kind, key, meta, bytes: 128, body, written }
    }

    #[test]
    fn records_are_told_apart_and_objects_are_counted_by_size_age_and_host() {
        let mut contents = Contents::new(10_000);
        let response = [1];
        let varies = [2, 0];
        for seen in [
            seen(b"GET http://a/x", &response, Kind::Object, 1_024, 10_000),
            seen(b"GET http://a/x\0gzip", &response, Kind::Object, 1_025, 9_000),
            seen(b"GET http://b:8080/", &response, Kind::Head, 1 << 30, 20_000),
            seen(b"span 1", &[], Kind::Span, 1 << 18, 9_000),
            seen(b"GET http://a/x", &varies, Kind::Object, 0, 0),
            seen(b"digest", &[], Kind::Pages, 0, 0),
            seen(b"no key of ours", &response, Kind::Object, 0, 0),
        ] {
            contents.add(&seen);
        }
        assert_eq!(contents.kinds.map(|kind| kind.count), [3, 1, 1, 1]);
        assert_eq!(contents.objects(), 4);
        assert_eq!(contents.sizes.map(|size| size.count), [2, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(contents.ages.map(|age| age.count), [2, 1, 1, 0, 0, 0, 0]);
        let amount = |count, bytes| Amount { count, bytes };
        let (large, small) = (("http://b:8080", amount(1, 1 << 30)), ("http://a", amount(2, 2_049)));
        assert_eq!(contents.hosts(9), [large, small, ("(others)", amount(1, 0))]);
        assert_eq!(contents.hosts(1), [large, ("(others)", amount(3, 2_049))]);
        contents.scale(2.0);
        assert_eq!((contents.objects(), contents.hosts(1)[0].1), (8, amount(2, 2 << 30)));
    }

    #[test]
    fn however_many_hosts_there_are_the_largest_are_known() {
        let mut contents = Contents::new(0);
        for n in 0..5 * HOSTS {
            let key = format!("GET http://host-{n}/");
            let body = if n % HOSTS == 7 { 1 << 20 } else { 1 };
            contents.add(&seen(key.as_bytes(), &[1], Kind::Object, body, 0));
            assert!(contents.hosts.len() <= 2 * HOSTS);
        }
        let long = format!("GET http://{}/", "x".repeat(NAME));
        contents.add(&seen(long.as_bytes(), &[1], Kind::Object, 1 << 40, 0));
        let hosts = contents.hosts(6);
        assert!(
            hosts[..5].iter().all(|(name, amount)| name.len() > 5 && amount.bytes == 1 << 20),
            "{hosts:?}"
        );
        assert_eq!(hosts.iter().map(|(_, amount)| amount.count).sum::<u64>(), 5 * HOSTS as u64 + 1);
        assert!(hosts[6].1.bytes > 1 << 40);
    }
}
