//! What was purged by host, prefix, path, expression or group: noted in constant time, and found out when something stored is about
//! to answer. Nothing that is stored is ever walked.
//!
//! Each purge has a number higher than all before it; what is stored remembers the newest one known when it was asked
//! for. It is purged when a later one covers it. Numbers are taken from the clock where that is ahead: then none is
//! given twice, even when a crash lost the last ones.
//!
//! What a soft purge covers is stale from then on. Those have scopes of their own: none makes a purge softer.

mod glob;
mod scopes;

pub use self::glob::{Expression, Glob};

use self::scopes::{Bounds, Scopes};
use crate::{Head, wire};

/// All purges that may still cover something stored. Bounded: when there are too many, some become wider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purges {
    newest: u64,
    hard: Scopes,
    soft: Scopes,
}

/// What a purge covers. Hosts and URLs are written as keys have them (`key::primary`): in lower case, no default port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    All,
    /// A host, whatever the port.
    Host(&'a str),
    /// `scheme://host[:port]`.
    Origin(&'a str),
    /// A URL with its variants and the responses to QUERY.
    Url(&'a str),
    /// URLs that begin with this text, which reaches beyond the host.
    Prefix(&'a str),
    /// This path and query, of any host.
    Path(&'a str),
    /// Paths that begin with this text, of any host.
    PathPrefix(&'a str),
    /// Hosts and paths that match, as an [`Expression`] is written.
    Expression(&'a str),
    /// A group of an origin's responses (RFC 9875); without an origin, of any.
    Group {
        origin: Option<&'a str>,
        name: &'a str,
    },
}

impl Purges {
    /// Bytes that an encoding takes at most.
    pub const MAX: usize = Purges::HARD.bytes
        + Scopes::HARD_BUCKETS
        + Purges::SOFT.bytes
        + Scopes::SOFT_BUCKETS
        + Purges::HEADER;
    const HARD: Bounds = Bounds { bytes: 160 << 10, soft: false };
    const SOFT: Bounds = Bounds { bytes: 16 << 10, soft: true };
    const HEADER: usize = 96;

    /// None. The seed, a number by chance, says which hosts share a bucket.
    pub fn new(seed: u64) -> Purges {
        Purges { hard: Scopes::new(seed), ..Purges::default() }
    }

    /// The same with another seed, unless something is in buckets by the one it has.
    pub fn seeded(self, seed: u64) -> Purges {
        Purges { hard: self.hard.seeded(seed), ..self }
    }

    /// The number of the newest purge: what is asked for now knows of it.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// How many scopes are kept apart.
    pub fn len(&self) -> usize {
        self.hard.len() + self.soft.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Purges what is stored in a scope. `now`, in milliseconds, only keeps numbers from being given twice.
    pub fn purge(&mut self, scope: Scope<'_>, now: u64) {
        let number = self.next(now);
        if scope == Scope::All {
            self.soft = Scopes::default();
        }
        self.hard.purge(scope, number, Purges::HARD);
    }

    /// Makes stale what is stored in a scope.
    pub fn purge_softly(&mut self, scope: Scope<'_>, now: u64) {
        let number = self.next(now);
        self.soft = std::mem::take(&mut self.soft).seeded(self.hard.seed());
        self.soft.purge(scope, number, Purges::SOFT);
    }

    /// Whether a purge covers what is stored under a key.
    pub fn cover(&self, key: &[u8], head: &Head) -> bool {
        head.purges_known < self.newest && self.hard.cover(key, head, false).is_some()
    }

    /// The number of the oldest soft purge that covers it, which tells when that was in milliseconds, or a little later.
    pub fn cover_softly(&self, key: &[u8], head: &Head) -> Option<u64> {
        if head.purges_known < self.newest { self.soft.cover(key, head, true) } else { None }
    }

    /// At most `MAX` bytes; their layout is drawn in `wire.rs`.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.hard.size() + self.soft.size() + Purges::HEADER);
        let kind = match self.hard.has_buckets() {
            _ if !self.soft.is_empty() || self.hard.has_expressions() => wire::PURGES_OF_BOTH_KINDS,
            true => wire::PURGES_IN_BUCKETS,
            false => wire::PURGES,
        };
        out.push(kind);
        wire::put_number(&mut out, self.newest);
        self.hard.write(&mut out, kind != wire::PURGES);
        if kind == wire::PURGES_OF_BOTH_KINDS {
            self.soft.write(&mut out, true);
        }
        out
    }

    /// Any bytes: what they stand for, or `None`. No bytes stand for no purges.
    pub fn decode(bytes: &[u8]) -> Option<Purges> {
        let Some((kind, rest)) = bytes.split_first() else { return Some(Purges::default()) };
        if ![wire::PURGES, wire::PURGES_IN_BUCKETS, wire::PURGES_OF_BOTH_KINDS].contains(kind) {
            return None;
        }
        let mut read = wire::Reader::new(rest);
        let newest = read.number()?;
        let hard = Scopes::read(&mut read, newest, *kind != wire::PURGES)?;
        let soft = match *kind {
            wire::PURGES_OF_BOTH_KINDS => Scopes::read(&mut read, newest, true)?,
            _ => Scopes::default(),
        };
        read.end()?;
        Some(Purges { newest, hard, soft })
    }

    fn next(&mut self, now: u64) -> u64 {
        self.newest = now.max(self.newest.saturating_add(1));
        self.newest
    }
}
