//! What is stored for a request: looked up in memory, then in the store.

use super::Presented;
use crate::tiers::invalidation::Moment;
use crate::tiers::memory::{CacheEntry, EntryKind, Variants, nonce};
use cache::key;
use std::sync::Arc;
use store::Key;

/// What a look into the cache found.
pub struct Look {
    /// Before it looked.
    pub began: Moment,
    /// Of the URI's GET.
    pub(super) uri: Key,
    /// The key that variants are made of: the same, or that of a QUERY, or of all searches that are answered alike.
    pub(super) primary: Key,
    /// The marker that leads to the primary key, where it is not the URI's.
    pub(super) marker: Option<Arc<CacheEntry>>,
    /// What the primary key's responses vary by, if they do.
    pub(super) variants: Option<Variants>,
    /// The key of this request's object.
    pub key: Key,
    /// A response.
    pub found: Option<Arc<CacheEntry>>,
}

impl Presented {
    /// Looks into memory, then into the store.
    pub async fn look(&self) -> Look {
        let (uri, began) = (self.uri.clone(), self.worker.shared.tiers.now());
        if self.asked.is_query() {
            let marker = self.queries(&uri).await;
            let EntryKind::Queries(nonce) = &marker.kind else { unreachable!("a marker of queries") };
            let key = key::of_query(marker.key.bytes(), *nonce, &self.parts.headers, &self.content);
            return self.look_under(began, uri, Key::new(key), Some(marker)).await;
        }
        let exact = self.look_under(began, uri.clone(), uri, None).await;
        if exact.found.is_some() || exact.variants.is_some() {
            return exact;
        }
        let marker = Key::new(key::searches(exact.uri.bytes()));
        let Some(marker) = self.find(&marker).await else { return exact };
        let EntryKind::Searches(searches) = &marker.kind else { return exact };
        let key = searches.of(&marker.key, self.target.path.as_str());
        self.look_under(began, exact.uri, key, Some(marker)).await
    }

    async fn look_under(
        &self,
        began: Moment,
        uri: Key,
        primary: Key,
        marker: Option<Arc<CacheEntry>>,
    ) -> Look {
        let blank = Look { began, uri, key: primary.clone(), primary, marker, variants: None, found: None };
        let Some(held) = self.find(&blank.primary).await else { return blank };
        match &held.kind {
            EntryKind::Response(_) => Look { found: Some(held), ..blank },
            EntryKind::Varies(variants) => {
                let mut key = variants.of(&blank.primary, &self.selecting(&variants.vary));
                let mut found = self.response(&key).await;
                if found.is_none()
                    && let Some(other) = self.in_preferred_language(&blank.primary, variants).await
                {
                    found = self.response(&other).await;
                    key = if found.is_some() { other } else { key };
                }
                Look { key, variants: Some(variants.clone()), found, ..blank }
            }
            // No primary key has one of these.
            EntryKind::SameAs(_) | EntryKind::Searches(_) | EntryKind::Queries(_) => blank,
        }
    }

    /// The marker of a URI's queries. It is made before there is an answer: one that were made again with an old nonce
    /// would bring back what had been invalidated meanwhile.
    async fn queries(&self, uri: &Key) -> Arc<CacheEntry> {
        let key = Key::new(key::queries(uri.bytes()));
        match self.find(&key).await {
            Some(held) if matches!(held.kind, EntryKind::Queries(_)) => held,
            _ => self.mark(CacheEntry::queries(key, nonce()), self.worker.shared.tiers.now()),
        }
    }

    async fn response(&self, key: &Key) -> Option<Arc<CacheEntry>> {
        self.find(key).await.filter(|held| matches!(held.kind, EntryKind::Response(_)))
    }

    /// The key of the stored response in the language that the client likes best.
    async fn in_preferred_language(&self, primary: &Key, variants: &Variants) -> Option<Key> {
        let language = cache::preferred_language(&self.parts.headers)?;
        match &self.find(&variants.alias(primary, &self.selecting(&variants.vary), &language)?).await?.kind {
            EntryKind::SameAs(key) => Some(key.clone()),
            _ => None,
        }
    }

    /// What was purged is not found.
    async fn find(&self, key: &Key) -> Option<Arc<CacheEntry>> {
        let shared = &self.worker.shared;
        shared.tiers.find(key, &self.worker.readers, &shared.names, &self.disk).await
    }
}
