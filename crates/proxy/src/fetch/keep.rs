//! How a response is stored: under which key, which markers lead there, and what its readers get meanwhile.

use super::{Look, Presented, Want};
use crate::fill::Leader;
use crate::message::pieces::Pieces as _;
use crate::origin::fetch::Fetched;
use crate::report;
use crate::tiers::invalidation::Moment;
use crate::tiers::memory::{CacheEntry, EntryKind, Searches, Variants, nonce};
use crate::transfer::keeper::{self, Object};
use crate::transfer::pump::{self, LeadersBody, Started};
use cache::{Head, NoVarySearch, NotStored, key};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE};
use http::{StatusCode, response};
use std::sync::Arc;
use store::{Body, Key};

/// A response on its way into the cache.
pub struct Filled {
    /// As the origin sent it; of one that a stored part is combined with, the whole's.
    pub parts: response::Parts,
    pub body: LeadersBody,
    /// It is stored, or being stored; or why it is not. What was removed meanwhile has no reason.
    pub kept: Result<(), Option<NotStored>>,
    /// What the origin answered, where that was combined with a stored part.
    pub rest: Option<StatusCode>,
    /// Of which this is all.
    pub object: Option<report::Object>,
}

impl Presented {
    /// Whether a storable response's body can be kept: all must be permitted to get it, its end must be told, and there must
    /// be a place for it.
    pub fn keeps(&self, fetched: &Fetched) -> Result<(), NotStored> {
        let length = fetched.body.left().unwrap_or(0);
        let max = match self.worker.shared.tiers.stores.piece_max() {
            Some(_) => self.worker.settings().bounds.object_bytes,
            None => self.worker.shared.tiers.memory.object_max(),
        };
        match () {
            _ if !fetched.shareable => Err(NotStored::Restricted),
            _ if !fetched.body.is_framed() => Err(NotStored::Unframed),
            _ if max == 0 => Err(NotStored::NoRoom),
            _ if length > max => Err(NotStored::TooLarge),
            _ => Ok(()),
        }
    }

    /// Has what a look was for stored while it is read; `begin` goes before what the origin sends.
    pub(super) fn fill(
        &self,
        lead: Leader,
        fetched: Fetched,
        (head, begin): (Head, Body),
        began: Moment,
        want: &Want,
    ) -> Filled {
        let fills = &self.worker.shared.fills;
        lead.worth_waiting(fills);
        // This client waits for memory; others need not.
        let lead = match lead.is_shared() && fetched.body.has_to_wait() {
            true => {
                lead.again();
                fills.lone(&want.look.key, began)
            }
            false => lead,
        };
        // What a disk that is late may have is not written once more if it is large: who reads it there would lose it.
        let stores = !self.disk.late.get()
            || fetched.body.left().is_some_and(|left| keeper::is_small(&self.worker, left));
        let key = if stores { self.object_key(&head, &want.look, began) } else { want.look.key.clone() };
        let part = want.part().filter(|_| head.part().is_some()).cloned();
        let goes_on = !begin.is_empty();
        self.store(lead, fetched, Object { begin, goes_on, part, stores, ..Object::new(key, head, began) })
    }

    /// Has an object stored while it is read.
    pub fn store(&self, lead: Leader, fetched: Fetched, object: Object) -> Filled {
        let Fetched { mut parts, body, .. } = fetched;
        let rest = object.goes_on.then_some(parts.status);
        if rest.is_some() {
            parts.status = object.head.status;
            parts.headers.remove(CONTENT_RANGE);
            parts.headers.remove(CONTENT_LENGTH);
        }
        let length = body.left().map(|left| object.begin.len() + left);
        let told = report::Object::of(&self.asked, &object.head, &object.key, length);
        let verdict = cache::judge(&self.asked, &object.head, object.head.response_time());
        let repair = |object: &Object, length| self.repair(&object.key, &object.head, length);
        let Started { body, kept } =
            pump::start(&self.worker, lead, body, object, verdict, self.charged(), repair);
        Filled { parts, body, kept, rest, object: told }
    }

    /// Stores an object with new fields, if they let it stay.
    pub fn renew(&self, held: &CacheEntry, head: Head, began: Moment) -> Arc<CacheEntry> {
        let shared = &self.worker.shared;
        shared.tiers.renew(began, held, head, &shared.names)
    }

    pub(super) fn mark(&self, marker: CacheEntry, began: Moment) -> Arc<CacheEntry> {
        self.worker.shared.tiers.mark(marker, began)
    }

    /// The key under which a response is to be stored. Markers say by what the primary key's responses vary.
    fn object_key(&self, head: &Head, look: &Look, began: Moment) -> Key {
        let primary = self.primary_key(head, look, began);
        let Some(vary) = head.vary() else { return primary };
        let variants = match &look.variants {
            Some(variants) if variants.vary == *vary && primary == look.primary => variants.clone(),
            _ => {
                let variants = Variants { vary: vary.clone(), nonce: nonce() };
                self.mark(CacheEntry::varies(primary.clone(), variants.clone()), began);
                variants
            }
        };
        let selecting = self.selecting(vary);
        let key = variants.of(&primary, &selecting);
        // Clients who like this response's language best find it too.
        if let Some(language) = cache::sole_language(head)
            && let Some(alias) = variants.alias(&primary, &selecting, &language)
        {
            self.mark(CacheEntry::same_as(alias, key.clone()), began);
        }
        key
    }

    fn primary_key(&self, head: &Head, look: &Look, began: Moment) -> Key {
        let config = NoVarySearch::of(&head.headers);
        match look.marker.as_deref() {
            Some(CacheEntry { kind: EntryKind::Queries(_), .. }) => look.primary.clone(),
            Some(CacheEntry { kind: EntryKind::Searches(searches), .. }) if searches.config == config => {
                look.primary.clone()
            }
            _ if config.is_default() => look.uri.clone(),
            _ => {
                // What lies under the URI itself would be found first.
                self.worker.shared.tiers.remove(&look.uri);
                let marker = Key::new(key::searches(look.uri.bytes()));
                let searches = Searches { config, nonce: nonce() };
                let primary = searches.of(&marker, self.target.path.as_str());
                self.mark(CacheEntry::searches(marker, searches), began);
                primary
            }
        }
    }
}
