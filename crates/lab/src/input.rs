//! Where requests come from: a file, or a synthetic workload.

use std::path::PathBuf;
use trace::synthetic::{Synthetic, Workload};
use trace::{Access, Faults, Format, Matters, Requests, Source, Unusable};

/// A trace that can be read again and again.
#[derive(Clone)]
pub struct Input {
    pub from: From,
    /// At most so many requests.
    pub requests: Option<u64>,
    /// Bytes: requests for larger objects are left out, as Maltzahn (5.4) did.
    pub largest: Option<u64>,
}

#[derive(Clone)]
pub enum From {
    File { path: PathBuf, format: Option<&'static Format>, strict: bool },
    Synthetic { like: &'static Workload, seed: u64 },
}

/// A trace that is being read.
pub struct Reading {
    name: String,
    source: Stream,
    most: u64,
    largest: u64,
    /// Requests so far, with those left out.
    pub read: u64,
    too_large: u64,
    usable: u64,
    unusable: [u64; Unusable::ALL.len()],
    /// The first server, and whether there was another.
    servers: Option<(u64, bool)>,
}

enum Stream {
    File(Source),
    Synthetic(Box<Synthetic>),
}

impl Input {
    /// An error is one line.
    pub fn open(&self) -> Result<Reading, String> {
        let (source, whole) = match &self.from {
            From::File { path, format, strict } => {
                let source = Source::open(path, *format)?;
                (Stream::File(if *strict { source.strict() } else { source }), u64::MAX)
            }
            From::Synthetic { like, seed } => {
                (Stream::Synthetic(Box::new(Synthetic::new(like, *seed))), like.requests)
            }
        };
        let (most, largest) = (self.requests.unwrap_or(whole), self.largest.unwrap_or(u64::MAX));
        let (name, unusable) = (self.describe(), [0; Unusable::ALL.len()]);
        let reading = Reading {
            name,
            source,
            most,
            largest,
            read: 0,
            too_large: 0,
            usable: 0,
            unusable,
            servers: None,
        };
        Ok(reading)
    }

    /// What it is, in words; says so when it is synthetic.
    pub fn describe(&self) -> String {
        match &self.from {
            From::File { path, .. } => path.display().to_string(),
            From::Synthetic { like, seed } => format!("synthetic, like {}, seed {seed}", like.name),
        }
    }

    pub fn is_synthetic(&self) -> bool {
        matches!(self.from, From::Synthetic { .. })
    }
}

/// How many requests of all of these no cache could have answered, by why, if there were any.
pub fn say_unusable(readings: &[Reading]) -> Option<String> {
    let tells = !readings.is_empty() && readings.iter().all(Reading::tells_cacheable);
    let sum = |of: &dyn Fn(&Reading) -> u64| readings.iter().map(of).sum::<u64>();
    let kinds = Unusable::ALL.map(|why| {
        let words =
            if tells && why == Unusable::Dynamic { "that the cache could not store" } else { why.words() };
        (sum(&|reading| reading.unusable[why as usize]), words)
    });
    let kinds = kinds.into_iter().chain([(sum(&|reading| reading.too_large), "larger than --largest")]);
    let said = kinds.filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"));
    Some(said.collect::<Vec<_>>().join(", ")).filter(|said| !said.is_empty())
}

impl Requests for Reading {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        while self.read < self.most {
            let more = match &mut self.source {
                Stream::File(source) => source.next(access)?,
                Stream::Synthetic(synthetic) => {
                    synthetic.next(access);
                    true
                }
            };
            if !more {
                break;
            }
            self.read += 1;
            if access.size <= self.largest {
                self.count(access);
                return Ok(true);
            }
            self.too_large += 1;
        }
        Ok(false)
    }

    fn only(&mut self, matters: Matters) {
        if let Stream::Synthetic(synthetic) = &mut self.source {
            synthetic.only(matters);
        }
    }
}

impl Reading {
    fn count(&mut self, access: &Access) {
        match access.unusable() {
            None => self.usable += 1,
            Some(why) => self.unusable[why as usize] += 1,
        }
        let (first, others) = self.servers.get_or_insert((access.server, false));
        *others |= access.server != *first;
    }

    /// An error if no cache could have answered any of what was read: it says what that was.
    pub fn check(&self) -> Result<(), String> {
        match self.why_unusable() {
            None => Ok(()),
            Some(why) => Err(format!("{}: {why}", self.name)),
        }
    }

    /// The same without a name.
    pub fn why_unusable(&self) -> Option<String> {
        if self.usable > 0 {
            return None;
        }
        let malformed = self.faults().filter(|(faults, _)| faults.count > 0);
        let malformed = malformed.map(|(faults, unit)| format!("{} malformed {unit}s", faults.count));
        let why = [self.say_unusable(), malformed].into_iter().flatten().collect::<Vec<_>>().join(", ");
        Some(match why.as_str() {
            "" => "there is no request in it".into(),
            why => format!("no cache could answer any request of it: {why}"),
        })
    }

    /// How many requests of which kinds no cache could have answered, if there were any.
    pub fn say_unusable(&self) -> Option<String> {
        say_unusable(std::slice::from_ref(self))
    }

    fn tells_cacheable(&self) -> bool {
        matches!(&self.source, Stream::File(source) if source.tells_cacheable())
    }

    /// Whether requests so far were for several servers. A format without them gives all the same one.
    pub fn tells_servers(&self) -> bool {
        self.servers.is_some_and(|(_, others)| others)
    }

    /// What was malformed so far, and what a record is called.
    pub fn faults(&self) -> Option<(&Faults, &'static str)> {
        match &self.source {
            Stream::File(source) => Some((source.faults(), source.unit())),
            Stream::Synthetic(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str, largest: Option<u64>) -> Reading {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        std::fs::write(&path, format!("time,method,url,size,status\n{lines}")).unwrap();
        let from = From::File { path, format: None, strict: false };
        let (mut reading, mut access) =
            (Input { from, requests: None, largest }.open().unwrap(), Access::default());
        while reading.next(&mut access).unwrap() {}
        reading
    }

    #[test]
    fn a_trace_of_which_nothing_can_be_cached_is_an_error() {
        let lines =
            "1,put,http://a.test/,5,200\n2,get,http://a.test/,5,304\n3,get,http://a.test/,500,200\n4,GET\n";
        let error = read(lines, Some(100)).check().unwrap_err();
        let says = "1 of another method than GET, 1 of another status than 200, 1 larger than --largest, 1 malformed lines";
        assert!(error.ends_with(says) && error.contains("trace.csv: "), "{error}");
        assert!(read("", None).check().unwrap_err().contains("there is no request"));
        let one = read(&format!("{lines}5,get,http://a.test/,5,200\n"), Some(100));
        assert_eq!((one.check(), one.read), (Ok(()), 4));
    }

    #[test]
    fn one_server_is_none() {
        assert!(!read("1,GET,/a,5,200\n2,GET,/b,5,200\n", None).tells_servers());
        assert!(read("1,GET,http://a.test/,5,200\n2,GET,http://b.test/,5,200\n", None).tells_servers());
    }
}
