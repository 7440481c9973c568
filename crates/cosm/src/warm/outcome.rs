//! What came of each URL, and of all of them.

use crate::values::{about_size, say_time};
use http::{HeaderMap, StatusCode};
use std::time::Duration;

/// Reasons that are told, of each kind.
const TOLD: usize = 10;

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was stored, and answered.
    Hit(u64),
    /// It was stored, and the origin said that it still holds.
    Validated(u64),
    /// It is stored now; bytes of its body.
    Stored(u64),
    /// It was fetched, and is not stored; why, if that is said.
    NotStored(u64, String),
    Failed(String),
}

impl Outcome {
    /// Of a response that came whole.
    pub fn of(status: StatusCode, headers: &HeaderMap, bytes: u64) -> Outcome {
        if status.is_client_error() || status.is_server_error() {
            return Outcome::Failed(status.to_string());
        }
        // What is nearest comes last.
        let said = headers.get_all("cache-status").iter().next_back();
        let Some(said) = said.and_then(|value| value.to_str().ok()) else {
            return Outcome::NotStored(bytes, "the response has no Cache-Status".into());
        };
        let mut parameters = said.split(';').map(str::trim);
        let has = |name: &str| said.split(';').any(|parameter| parameter.trim() == name);
        if has("hit") {
            Outcome::Hit(bytes)
        } else if has("fwd-status=304") {
            Outcome::Validated(bytes)
        } else if has("stored") || has("collapsed") {
            Outcome::Stored(bytes)
        } else {
            let why = parameters.find_map(|parameter| parameter.strip_prefix("detail="));
            Outcome::NotStored(bytes, why.unwrap_or("Cache-Status does not say why").into())
        }
    }
}

/// All of them.
#[derive(Default)]
pub struct Tally {
    hits: u64,
    validated: u64,
    stored: u64,
    not_stored: Told,
    failed: Told,
    bytes: u64,
}

/// How many, and the first of them.
#[derive(Default)]
struct Told {
    count: u64,
    first: Vec<String>,
}

impl Told {
    fn add(&mut self, url: &str, why: &str) {
        self.count += 1;
        if self.first.len() < TOLD {
            // What an origin wrote must not move the cursor.
            let clean: String = format!("{url}: {why}").chars().filter(|char| !char.is_control()).collect();
            self.first.push(clean);
        }
    }

    fn lines(&self, what: &str) -> Vec<String> {
        let mut lines: Vec<_> = self.first.iter().map(|line| format!("{what}: {line}")).collect();
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            lines.push(format!("{what}: {more} more"));
        }
        lines
    }
}

impl Tally {
    pub fn add(&mut self, url: String, outcome: Outcome) {
        match outcome {
            Outcome::Hit(bytes) => (self.hits, self.bytes) = (self.hits + 1, self.bytes + bytes),
            Outcome::Validated(bytes) => {
                (self.validated, self.bytes) = (self.validated + 1, self.bytes + bytes);
            }
            Outcome::Stored(bytes) => (self.stored, self.bytes) = (self.stored + 1, self.bytes + bytes),
            Outcome::NotStored(bytes, why) => {
                self.bytes += bytes;
                self.not_stored.add(&url, &why);
            }
            Outcome::Failed(why) => self.failed.add(&url, &why),
        }
    }

    pub fn count(&self) -> u64 {
        self.hits + self.validated + self.stored + self.not_stored.count + self.failed.count
    }

    pub fn failed(&self) -> u64 {
        self.failed.count
    }

    pub fn summary(&self) -> String {
        let Tally { hits, validated, stored, not_stored, failed, .. } = self;
        let (count, not_stored, failed) = (self.count(), not_stored.count, failed.count);
        format!(
            "{count} URLs: {hits} hits, {validated} validated, {stored} stored, {not_stored} not stored, {failed} failed"
        )
    }

    /// Of all that took so long.
    pub fn lines(&self, took: Duration) -> Vec<String> {
        let mut lines = self.not_stored.lines("not stored");
        lines.extend(self.failed.lines("failed"));
        let took = Duration::from_millis(took.as_millis() as u64);
        lines.push(format!("{}; {} in {}", self.summary(), about_size(self.bytes), say_time(took)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_cache_status_says_of_it() {
        let not = |why: &str| Outcome::NotStored(7, why.into());
        for (status, said, expected) in [
            (200, &["far; fwd=uri-miss; stored", "cosm; hit; ttl=5"][..], Outcome::Hit(7)),
            (200, &["far; hit", "cosm; fwd=uri-miss; stored"], Outcome::Stored(7)),
            (200, &["cosm; fwd=uri-miss; collapsed"], Outcome::Stored(7)),
            (200, &["cosm; fwd=stale; fwd-status=304; ttl=9"], Outcome::Validated(7)),
            (200, &["cosm; fwd=uri-miss; detail=private"], not("private")),
            (301, &["cosm; fwd=uri-miss"], not("Cache-Status does not say why")),
            (200, &[], not("the response has no Cache-Status")),
            (404, &["cosm; hit"], Outcome::Failed("404 Not Found".into())),
            (502, &[], Outcome::Failed("502 Bad Gateway".into())),
        ] {
            let values = said.iter().map(|value| HeaderValue::from_static(value));
            let headers = values.map(|value| (http::HeaderName::from_static("cache-status"), value));
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, value);
            }
            assert_eq!(Outcome::of(StatusCode::from_u16(status).unwrap(), &map, 7), expected, "{said:?}");
        }
    }

    #[test]
    fn the_first_reasons_are_told() {
        let mut tally = Tally::default();
        for n in 0..12 {
            tally.add(format!("http://a/{n}"), Outcome::Failed("\u{1b}[2J".into()));
        }
        tally.add("http://b/".into(), Outcome::NotStored(1024, "private".into()));
        tally.add("http://c/".into(), Outcome::Hit(1024));
        let lines = tally.lines(Duration::from_millis(1500));
        assert_eq!(lines.len(), 13, "{lines:#?}");
        assert_eq!(lines[0], "not stored: http://b/: private");
        assert_eq!((&*lines[1], &*lines[11]), ("failed: http://a/0: [2J", "failed: 2 more"));
        assert!(lines[12].starts_with("14 URLs: 1 hits, 0 validated, 0 stored, 1 not stored, 12 failed; 2"));
    }
}
