//! What became of a request: its name, and what Cache-Status (RFC 9211) says of it.

use crate::{NotStored, Pass, Stale};
use http::{HeaderValue, StatusCode};
use std::fmt::{self, Write};

/// One outcome a request. Its word and its Cache-Status come from one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered from a fresh stored response.
    Hit,
    /// Answered from a stale one, because the client's max-stale allows it.
    HitStale,
    /// Answered from a stale one, which stale-while-revalidate allows, and which is being validated.
    HitRevalidating,
    /// Answered from a fresh one, of whose body the origin gives pieces that the disk lost.
    HitWithGaps,
    /// Answered from a stale one without asking the origin: offline.
    HitOffline,
    /// The origin could not be reached, and a stale response may stand in.
    StaleOnError,
    /// The origin said that the stored response still holds.
    Revalidated(Stale),
    /// Fetched from the origin.
    Miss(Miss),
    /// Sent to the origin past the cache.
    Pass(Pass),
}

/// Why nothing stored could answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Miss {
    /// Nothing is stored for the URI.
    Uri,
    /// Nothing for this variant of it.
    Vary,
    /// What is stored may not be reused as it is.
    Stale(Stale),
    /// What is stored is a part, and not the one that is asked for.
    Partial,
}

impl Outcome {
    /// Its name, lower-case words with hyphens; docs/caching.md lists them.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// What Cache-Status says of it behind the cache's name, without the varying parameters.
    pub fn parameters(self) -> &'static str {
        self.row().1
    }

    pub fn is_hit(self) -> bool {
        use Outcome::{Hit, HitOffline, HitRevalidating, HitStale, HitWithGaps};
        matches!(self, Hit | HitStale | HitRevalidating | HitWithGaps | HitOffline)
    }

    /// RFC 9211 section 2.2: `fwd=request` is for what the request itself would not take, `fwd=stale` for what the
    /// stored response does not allow, `fwd=bypass` for requests that the cache does not handle.
    #[rustfmt::skip]
    const fn row(self) -> (&'static str, &'static str) {
        match self {
            Outcome::Hit => ("hit", "hit"),
            Outcome::HitStale => ("hit-stale", "hit; detail=max-stale"),
            Outcome::HitRevalidating => ("hit-revalidating", "hit; detail=stale-while-revalidate"),
            Outcome::HitWithGaps => ("hit-with-gaps", "hit; detail=gaps"),
            Outcome::HitOffline => ("hit-offline", "hit; detail=offline"),
            Outcome::StaleOnError => ("stale-on-error", "fwd=stale; detail=stale-on-error"),
            Outcome::Revalidated(Stale::Expired) => ("revalidated", "fwd=stale; fwd-status=304"),
            Outcome::Revalidated(Stale::NoCache) => ("revalidated-no-cache", "fwd=stale; fwd-status=304; detail=no-cache"),
            Outcome::Revalidated(Stale::RequestNoCache) => ("revalidated-request-no-cache", "fwd=request; fwd-status=304; detail=no-cache"),
            Outcome::Revalidated(Stale::RequestMaxAge) => ("revalidated-request-max-age", "fwd=request; fwd-status=304; detail=max-age"),
            Outcome::Revalidated(Stale::MinFresh) => ("revalidated-min-fresh", "fwd=request; fwd-status=304; detail=min-fresh"),
            Outcome::Miss(Miss::Uri) => ("miss", "fwd=uri-miss"),
            Outcome::Miss(Miss::Vary) => ("miss-vary", "fwd=vary-miss"),
            Outcome::Miss(Miss::Stale(Stale::Expired)) => ("miss-expired", "fwd=stale"),
            Outcome::Miss(Miss::Stale(Stale::NoCache)) => ("miss-no-cache", "fwd=stale; detail=no-cache"),
            Outcome::Miss(Miss::Stale(Stale::RequestNoCache)) => ("miss-request-no-cache", "fwd=request; detail=no-cache"),
            Outcome::Miss(Miss::Stale(Stale::RequestMaxAge)) => ("miss-request-max-age", "fwd=request; detail=max-age"),
            Outcome::Miss(Miss::Stale(Stale::MinFresh)) => ("miss-min-fresh", "fwd=request; detail=min-fresh"),
            Outcome::Miss(Miss::Partial) => ("miss-partial", "fwd=partial"),
            Outcome::Pass(Pass::Method) => ("pass-method", "fwd=method"),
            Outcome::Pass(Pass::NoStore) => ("pass-no-store", "fwd=bypass; detail=no-store"),
            Outcome::Pass(Pass::Upgrade) => ("pass-upgrade", "fwd=bypass; detail=upgrade"),
            Outcome::Pass(Pass::Content) => ("pass-content", "fwd=bypass; detail=content"),
            Outcome::Pass(Pass::Precondition) => ("pass-precondition", "fwd=bypass; detail=precondition"),
        }
    }
}

impl From<Stale> for Miss {
    fn from(stale: Stale) -> Miss {
        Miss::Stale(stale)
    }
}

/// An outcome and what else Cache-Status can tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub outcome: Outcome,
    /// The origin's status, when it is not the one the client sees (2.3).
    pub fwd_status: Option<StatusCode>,
    /// For how many seconds the response is still fresh, negative when it is stale (2.4): [`Head::ttl`](crate::Head::ttl).
    pub ttl: Option<i64>,
    /// The response is being stored (2.5).
    pub stored: bool,
    /// The request waited for another's fetch: true if that answered it, false if it had to be sent after all (2.6).
    pub collapsed: Option<bool>,
    /// Why the response is not stored.
    pub not_stored: Option<NotStored>,
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Report {
        Report { outcome, fwd_status: None, ttl: None, stored: false, collapsed: None, not_stored: None }
    }
}

impl Report {
    /// The whole Cache-Status, of a cache whose name is `item`. Allocates once.
    pub fn value(&self, item: &Item) -> HeaderValue {
        let mut text = Text::default();
        let written = self.write(item, &mut text);
        let value = written.ok().and_then(|()| HeaderValue::from_bytes(text.bytes()).ok());
        value.unwrap_or(HeaderValue::from_static(""))
    }

    fn write(&self, Item(name): &Item, to: &mut Text) -> fmt::Result {
        let start = self.outcome.parameters();
        // Formatted by hand: `write!` costs a hit three times as much.
        for part in [name, "; ", start] {
            to.write_str(part)?;
        }
        if let Some(status) = self.fwd_status.filter(|_| !start.contains("fwd-status")) {
            to.write_str("; fwd-status=")?;
            to.write_str(status.as_str())?;
        }
        if let Some(ttl) = self.ttl {
            to.write_str("; ttl=")?;
            to.write_str(itoa::Buffer::new().format(ttl))?;
        }
        if self.stored {
            to.write_str("; stored")?;
        }
        match self.collapsed {
            Some(true) => to.write_str("; collapsed")?,
            Some(false) => to.write_str("; collapsed=?0")?,
            None => {}
        }
        match self.not_stored.filter(|_| !start.contains("detail")) {
            Some(reason) => {
                to.write_str("; detail=")?;
                to.write_str(reason.word())
            }
            None => Ok(()),
        }
    }
}

/// A cache's name as Cache-Status has it (RFC 9211 section 2): a token or a quoted string (RFC 9651 sections 3.3.3 and 3.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item(String);

impl Item {
    /// Bytes of a name; more are left out.
    pub const MAX: usize = 64;

    pub fn new(name: &str) -> Item {
        let tchar = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&b);
        let is_token =
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '*') && name.bytes().all(tchar);
        let printed = name.chars().filter(|c| matches!(c, ' '..='~')).take(Item::MAX);
        if is_token {
            return Item(printed.collect());
        }
        let escaped = printed.flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]));
        Item(format!("\"{}\"", escaped.collect::<String>()))
    }
}

/// Bytes of a Cache-Status: the longest name, all of it escaped, and all parameters at once.
const ROOM: usize = 2 * Item::MAX + 2 + 176;

/// Text that is written where no memory has to be asked for; what does not fit is an error.
struct Text {
    bytes: [u8; ROOM],
    length: usize,
}

impl Default for Text {
    fn default() -> Text {
        Text { bytes: [0; ROOM], length: 0 }
    }
}

impl Text {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: [Stale; 5] =
        [Stale::Expired, Stale::NoCache, Stale::RequestNoCache, Stale::RequestMaxAge, Stale::MinFresh];
    const PASS: [Pass; 5] = [Pass::Method, Pass::NoStore, Pass::Upgrade, Pass::Content, Pass::Precondition];

    fn all() -> Vec<Outcome> {
        use Outcome::*;
        let mut all = vec![Hit, HitStale, HitRevalidating, HitWithGaps, HitOffline, StaleOnError];
        all.extend([Miss(super::Miss::Uri), Miss(super::Miss::Vary), Miss(super::Miss::Partial)]);
        all.extend(STALE.iter().flat_map(|s| [Revalidated(*s), Miss((*s).into())]));
        all.extend(PASS.map(Pass));
        all
    }

    #[test]
    fn every_outcome_has_its_own_word_and_value() {
        let all = all();
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert!(a.word() != b.word() && a.parameters() != b.parameters(), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_page_for_operators_names_every_word() {
        let page = include_str!("../../../docs/caching.md");
        for word in all().into_iter().map(Outcome::word) {
            assert!(page.contains(&format!("`{word}`")), "{word}");
        }
        for (word, about) in NotStored::ALL.map(|why| (why.word(), why.about())) {
            assert!(page.contains(&format!("| `{word}` | {about} |\n")), "| `{word}` | {about} |");
        }
    }

    #[test]
    fn rfc9211_2_hit_and_fwd_exclude_each_other() {
        for outcome in all() {
            let has =
                |name: &str| outcome.parameters().split("; ").any(|p| p.split('=').next() == Some(name));
            assert!(has("hit") != has("fwd"), "{outcome:?}");
            assert_eq!(has("hit"), outcome.is_hit(), "{outcome:?}");
        }
    }

    #[test]
    fn all_that_can_be_said_at_once_has_room() {
        for outcome in all() {
            let report = Report { fwd_status: Some(StatusCode::OK), ttl: Some(-(1 << 31)), ..outcome.into() };
            let report = Report {
                stored: true,
                collapsed: Some(false),
                not_stored: Some(NotStored::NotUnderstood),
                ..report
            };
            let value = report.value(&Item::new(&"\\".repeat(Item::MAX)));
            assert!(value.to_str().unwrap().contains("; ttl=-2147483648; stored; collapsed=?0"), "{value:?}");
        }
    }

    #[test]
    fn rfc9211_2_parameters() {
        let miss = Report::from(Outcome::Miss(Miss::Uri));
        let expired = Report::from(Outcome::Miss(Miss::Stale(Stale::Expired)));
        for (report, text) in [
            (Outcome::Hit.into(), "cosm; hit"),
            (miss, "cosm; fwd=uri-miss"),
            (Report { stored: true, ..miss }, "cosm; fwd=uri-miss; stored"),
            (Report { stored: true, collapsed: Some(true), ..miss }, "cosm; fwd=uri-miss; stored; collapsed"),
            (Report { collapsed: Some(false), ..miss }, "cosm; fwd=uri-miss; collapsed=?0"),
            (Report { not_stored: Some(NotStored::Private), ..miss }, "cosm; fwd=uri-miss; detail=private"),
            (Report { fwd_status: Some(StatusCode::OK), ..expired }, "cosm; fwd=stale; fwd-status=200"),
            (Report { ttl: Some(376), ..Outcome::Hit.into() }, "cosm; hit; ttl=376"),
            (Report { ttl: Some(-412), ..Outcome::HitStale.into() }, "cosm; hit; detail=max-stale; ttl=-412"),
        ] {
            assert_eq!(report.value(&Item::new("cosm")), text);
        }
    }
}
