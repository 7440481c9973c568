//! Where requests come from: a file, or a workload made up.

use std::path::PathBuf;
use trace::synthetic::{Like, Synthetic};
use trace::{Access, Faults, Format, Requests, Source};

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
    Made { like: &'static Like, seed: u64 },
}

/// A trace that is being read.
pub struct Reading {
    source: Kind,
    most: u64,
    largest: u64,
    /// Requests so far, with those left out.
    pub read: u64,
}

enum Kind {
    File(Source),
    Made(Box<Synthetic>),
}

impl Input {
    /// An error is one line.
    pub fn open(&self) -> Result<Reading, String> {
        let (source, whole) = match &self.from {
            From::File { path, format, strict } => {
                let source = Source::open(path, *format)?;
                (Kind::File(if *strict { source.strict() } else { source }), u64::MAX)
            }
            From::Made { like, seed } => (Kind::Made(Box::new(Synthetic::new(like, *seed))), like.requests),
        };
        let (most, largest) = (self.requests.unwrap_or(whole), self.largest.unwrap_or(u64::MAX));
        Ok(Reading { source, most, largest, read: 0 })
    }

    /// What it is, in words; says so when it is made up.
    pub fn describe(&self) -> String {
        match &self.from {
            From::File { path, .. } => path.display().to_string(),
            From::Made { like, seed } => format!("synthetic, like {}, seed {seed}", like.name),
        }
    }

    pub fn is_made_up(&self) -> bool {
        matches!(self.from, From::Made { .. })
    }
}

impl Requests for Reading {
    fn next(&mut self, access: &mut Access) -> Result<bool, String> {
        while self.read < self.most {
            self.read += 1;
            let more = match &mut self.source {
                Kind::File(source) => source.next(access)?,
                Kind::Made(made) => {
                    made.next(access);
                    true
                }
            };
            if !more {
                break;
            }
            if access.size <= self.largest {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Reading {
    /// What was malformed so far, and what a record is called.
    pub fn faults(&self) -> Option<(&Faults, &'static str)> {
        match &self.source {
            Kind::File(source) => Some((source.faults(), source.unit())),
            Kind::Made(_) => None,
        }
    }
}
