//! The two tiers, memory above the store, as one. Nothing else puts, replaces or removes what answers requests, so that
//! what was removed never comes back (`invalidation`).

pub mod invalidation;
mod lent;
pub mod memory;
pub mod span_cache;
pub mod stores;

use self::invalidation::{Invalidation, Moment, Purged, Removal, Since};
use self::memory::{CacheEntry, EntryKind, Memory, StoredResponse};
use self::span_cache::most_bytes;
use self::stores::{Change, Readers, Stores};
use crate::budget::{Allowance, Lease};
use crate::clock;
use crate::message::hops::Names;
use crate::message::target::Target;
use bytes::Bytes;
use cache::{Head, NotStored, Scope, SetCookie, Time, key};
use http::Method;
use http::response::Parts;
use std::cell::Cell;
use std::sync::Arc;
use store::{Body, Key, Lookup, Object, Reader, Refused, Spans, Uses, Writer};
use tokio::time::timeout;

pub struct Tiers {
    pub memory: Memory,
    pub stores: Stores,
    pub invalidation: Invalidation,
    set_cookie: SetCookie,
    /// What large records are taken from that are read from the disk.
    allowance: Option<Allowance>,
}

/// What looking for something had to do with the disk, the last time.
#[derive(Debug, Default)]
pub struct Disk {
    /// The disk could not say in time what it has; once, if ever.
    pub late: Cell<bool>,
    /// It was read from there.
    pub read: Cell<bool>,
}

/// A body in the buffer that it was read into, for as long as somebody needs it.
struct Leased {
    body: Bytes,
    _lease: Lease,
}

impl AsRef<[u8]> for Leased {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// What became of a large object whose last byte was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finished {
    Stored,
    /// The store did not take it.
    Refused(Refused),
    /// It was removed while it was fetched.
    Removed,
}

/// Why what the store refuses is not stored.
pub fn not_stored(refused: Refused) -> NotStored {
    match refused {
        Refused::TooLarge => NotStored::TooLarge,
        Refused::NotAdmitted => NotStored::NotAdmitted,
        Refused::Busy => NotStored::Busy,
        Refused::Broken => NotStored::NoRoom,
    }
}

/// The head of what was purged softly, as it counts since then.
pub fn expired(head: &Head, since: Time) -> Head {
    let mut head = head.clone();
    // The number of a purge may be ahead of the clock.
    head.expire(since.min(clock::now()));
    head
}

impl Tiers {
    pub fn new(memory: Memory, stores: Stores, set_cookie: SetCookie) -> Tiers {
        let invalidation = Invalidation::of(&stores);
        Tiers { memory, stores, invalidation, set_cookie, allowance: None }
    }

    /// What is read from the disk is taken from the allowance.
    pub fn within(self, allowance: Allowance) -> Tiers {
        Tiers { allowance: Some(allowance), ..self }
    }

    /// For what is about to be read or asked for.
    pub fn now(&self) -> Moment {
        self.invalidation.now()
    }

    /// What lies under a key, in memory or on disk; not what was purged, and what was softly as stale.
    pub async fn find(
        &self,
        key: &Key,
        readers: &Readers,
        names: &Names,
        disk: &Disk,
    ) -> Option<Arc<CacheEntry>> {
        if self.stores.are_gone() {
            return None;
        }
        let began = self.now();
        let found = self.memory.get(key).filter(|held| self.is_readable(held, readers));
        disk.read.set(found.is_none());
        if let Some(held) = found.as_ref().filter(|held| held.is_marker()) {
            self.count_use(held);
        }
        let held = match found {
            Some(held) => held,
            None => self.read(key, readers, names, &disk.late).await?,
        };
        match self.invalidation.purged(&held) {
            Purged::No => Some(held),
            Purged::Softly(since, known) => Some(self.expire(&held, (since, known), began, names)),
            Purged::Yes => None,
        }
    }

    /// A response that was purged softly, as stale: it need not be looked for among the purges again. On disk it is as it was, since
    /// there they say the same.
    fn expire(
        &self,
        held: &CacheEntry,
        (since, known): (Time, u64),
        began: Moment,
        names: &Names,
    ) -> Arc<CacheEntry> {
        let EntryKind::Response(StoredResponse { head, body, .. }) = &held.kind else {
            unreachable!("a purge of what is no response")
        };
        let mut head = expired(head, since);
        head.purges_known = known;
        let expired = Arc::new(held.renewed(head, body.clone(), names));
        self.invalidation.look(&held.key, began, |since| {
            if since == Since::Nothing && self.memory.keeps(held) {
                self.memory.insert(&expired);
            }
        });
        expired
    }

    /// What lies under a key, purged or not, and whether it is in memory, without a trace: nothing is counted, kept or removed.
    pub async fn peek(
        &self,
        key: &Key,
        readers: &Readers,
        names: &Names,
        late: &Cell<bool>,
    ) -> Option<(Arc<CacheEntry>, bool)> {
        if let Some(held) = self.memory.peek(key) {
            return Some((held, true));
        }
        let view = readers.view();
        for n in view.places(key) {
            let Some(reader) = readers.reader(n) else { continue };
            match reader.peek(key).await {
                Lookup::Found(object) => {
                    return CacheEntry::decode(key.clone(), object, false, names)
                        .map(|held| (Arc::new(held), false));
                }
                Lookup::Late => late.set(true),
                Lookup::Missing => {}
            }
        }
        None
    }

    /// Whether what memory holds can be read: of large objects it has the heads alone, and the disk, where nothing hangs, the
    /// bodies. Pieces of these may be missing.
    fn is_readable(&self, held: &CacheEntry, readers: &Readers) -> bool {
        let EntryKind::Response(StoredResponse { body: Body::Spans(spans), .. }) = &held.kind else {
            return true;
        };
        let is_there = || readers.view().at(spans).is_some_and(|store| store.contains(&held.key));
        is_there() && readers.at(spans).is_some_and(|reader| !reader.is_late())
    }

    /// Puts piece `n` of a body back that the disk lost, if the object under the key still is the one that it is of: not removed,
    /// replaced or purged. `None` when it is not. What was renewed in this moment is to be looked for again, as where the store is
    /// busy. With the `last` piece the head is put again, or it would leave before them.
    pub async fn put_back(
        &self,
        key: &Key,
        (spans, n, last): (&Spans, u32, bool),
        piece: &[u8],
        readers: &Readers,
        names: &Names,
    ) -> Option<Result<(), Refused>> {
        let began = self.now();
        let held = self.find(key, readers, names, &Disk::default()).await?;
        let EntryKind::Response(StoredResponse { head, body: Body::Spans(there), .. }) = &held.kind else {
            return None;
        };
        // It may have grown.
        let same = (there.store, there.id) == (spans.store, spans.id) && n < there.count();
        let store = self.stores.at(there).filter(|_| same)?;
        self.invalidation.look(key, began, |since| {
            match since {
                Since::Removed => return None,
                Since::Replaced => return Some(Err(Refused::Busy)),
                Since::Nothing if self.invalidation.purged(&held) == Purged::Yes => return None,
                Since::Nothing => {}
            }
            // Who makes it grow may have put this piece, of which there is more now.
            let is_missing = store.missing(there, n..n + 1).next().is_some();
            let put = if is_missing { store.put_span(there, n, piece) } else { Ok(()) };
            if put.is_ok() && last {
                store.put_head_again(key, &head.encode(), there);
            }
            Some(put)
        })
    }

    /// From the disk where it belongs, or else from another that has it.
    async fn read(
        &self,
        key: &Key,
        readers: &Readers,
        names: &Names,
        late: &Cell<bool>,
    ) -> Option<Arc<CacheEntry>> {
        let began = self.now();
        // As new as `began`: what is removed from then on is told by that, what was before by the view.
        let view = readers.view();
        for n in view.places(key) {
            let (Some(store), Some(reader)) = (view.store(n), readers.reader(n)) else { continue };
            let Some(size) = store.stored_bytes(key) else { continue };
            let read = self.read_from(key, &reader, size, late).await;
            if late.get() {
                return None;
            }
            let Some((object, own)) = read else { continue };
            let held = Arc::new(CacheEntry::decode(key.clone(), object, own, names)?);
            // It may have been stored when more was permitted.
            if let EntryKind::Response(resident) = &held.kind {
                resident.head.may_stay(self.set_cookie).ok()?;
            }
            return self.invalidation.look(key, began, |since| match since {
                Since::Nothing => {
                    self.stores.remove_beside(key, n);
                    self.memory.insert(&held);
                    Some(held)
                }
                // It answers who asked before it was replaced, and does not stay.
                Since::Replaced => {
                    self.memory.lend(&held);
                    Some(held)
                }
                Since::Removed => None,
            });
        }
        None
    }

    /// An object of about so many bytes, and whether its body is an allocation of its own.
    async fn read_from(
        &self,
        key: &Key,
        reader: &Reader,
        size: usize,
        late: &Cell<bool>,
    ) -> Option<(Object, bool)> {
        let lease = match &self.allowance {
            Some(allowance) if size > allowance.small() => {
                match timeout(reader.patience(), allowance.take(most_bytes(size))).await {
                    Ok(lease) => Some(lease),
                    // Who reads slowly has all of it: as good as a disk that is late.
                    Err(_) => {
                        late.set(true);
                        return None;
                    }
                }
            }
            _ => None,
        };
        // What a read brought is part of a larger buffer, which must not stay.
        match reader.look(key).await {
            Lookup::Found(Object { meta, body: Body::Whole(body) }) => {
                let own = self.memory.takes(body.len());
                let body = match lease {
                    _ if own => Bytes::copy_from_slice(&body),
                    Some(lease) => Bytes::from_owner(Leased { body, _lease: lease }),
                    None => body,
                };
                Some((Object { meta, body: Body::Whole(body) }, own))
            }
            Lookup::Found(object) => Some((object, true)),
            Lookup::Missing => None,
            Lookup::Late => {
                late.set(true);
                None
            }
        }
    }

    /// Removes an object with this body if piece `n` of it is missing, since nobody gives that; what is put there at this moment, or
    /// is being fetched, stays.
    pub async fn give_up(&self, key: &Key, (spans, n): (&Spans, u32), readers: &Readers, names: &Names) {
        let began = self.now();
        let Some(held) = self.find(key, readers, names, &Disk::default()).await else { return };
        let of = |body: &Body| matches!(body, Body::Spans(there) if there == spans);
        let is_same = matches!(&held.kind, EntryKind::Response(StoredResponse { body, .. }) if of(body));
        let store = self.stores.at(spans);
        if is_same && store.is_some_and(|store| store.missing(spans, n..n.saturating_add(1)).next().is_some())
        {
            self.remove_unchanged(key, began);
        }
    }

    /// Removes what lay under a key at `began`, if it still does. What is being fetched may take its place.
    pub fn remove_unchanged(&self, key: &Key, began: Moment) {
        self.invalidation.clear(key, began, || self.take_away(key));
        self.stores.confirm();
    }

    /// Keeps a response whose body is here, unless it was removed since it was asked for (then `None` is why it is not kept).
    /// A store that refuses is no loss: it is in memory, or it is fetched again.
    pub fn put(
        &self,
        began: Moment,
        key: Key,
        head: Head,
        body: Bytes,
        names: &Names,
    ) -> Result<(), Option<NotStored>> {
        let encoded = head.encode();
        let held = match self.memory.takes(body.len()) {
            true => Some(CacheEntry::kept(key.clone(), head, Body::Whole(body.clone()), names)),
            false => None,
        };
        let put = || {
            let on_disk = self.stores.change(&key, None, |store| store.put(&key, &encoded, &body));
            match (held, on_disk) {
                (Some(held), _) => {
                    self.memory.insert(&Arc::new(held));
                    Ok(())
                }
                (None, on_disk) => {
                    self.memory.remove(&key);
                    let why = match body.len() as u64 > self.memory.object_max() {
                        true => Refused::TooLarge,
                        false => Refused::Busy,
                    };
                    on_disk.unwrap_or(Err(why)).map_err(not_stored)
                }
            }
        };
        match self.invalidation.replace(&key, began, |since| self.may_replace(&key, since, began), put) {
            Some(put) => put.map_err(Some),
            None => Err(None),
        }
    }

    /// Whether what was asked for at `began` may take the place of what lies under its key.
    fn may_replace(&self, key: &Key, since: Since, began: Moment) -> bool {
        match since {
            Since::Nothing => true,
            // A purge by scope since then may cover this, and not what was asked for after it; nor does what comes slowly take the
            // place of what was asked for later, and is newer.
            Since::Replaced => {
                began.purges == self.now().purges && !self.invalidation.was_overtaken(key, began)
            }
            Since::Removed => false,
        }
    }

    /// Commits a large object, unless it was removed since it was asked for.
    pub fn finish(&self, began: Moment, key: &Key, writer: &mut Writer, meta: &[u8]) -> Finished {
        let may = |since| self.may_replace(key, since, began);
        self.commit(began, key, may, writer, |writer| writer.finish(meta))
    }

    /// Commits a part of one, if what was stored when it was asked for, or nothing, still is.
    pub fn finish_part(&self, began: Moment, key: &Key, writer: &mut Writer, meta: &[u8]) -> Finished {
        let may = |since| since == Since::Nothing;
        self.commit(began, key, may, writer, |writer| writer.finish_part(meta))
    }

    fn commit(
        &self,
        began: Moment,
        key: &Key,
        may: impl FnOnce(Since) -> bool,
        writer: &mut Writer,
        finish: impl FnOnce(&mut Writer) -> Result<(), Refused>,
    ) -> Finished {
        let finish = || {
            self.memory.remove(key);
            self.stores.commit(key, writer, finish)
        };
        match self.invalidation.replace(key, began, may, finish) {
            None => Finished::Removed,
            Some(Ok(())) => Finished::Stored,
            Some(Err(refused)) => Finished::Refused(refused),
        }
    }

    /// A stored response with new fields: kept if they let it stay, and if what was found at `began` is still there.
    pub fn renew(&self, began: Moment, held: &CacheEntry, head: Head, names: &Names) -> Arc<CacheEntry> {
        let EntryKind::Response(StoredResponse { body, .. }) = &held.kind else {
            unreachable!("fields for what is no response")
        };
        let (encoded, stays) = (head.encode(), head.may_stay(self.set_cookie).is_ok());
        let renewed = Arc::new(held.renewed(head, body.clone(), names));
        if !stays {
            self.remove(&held.key);
            return renewed;
        }
        let put = || {
            let spans = match body {
                Body::Spans(spans) => Some(spans),
                Body::Whole(_) => None,
            };
            // Refused, the next request validates again.
            self.stores.change(&held.key, spans, |store| store.put_meta(&held.key, &encoded, body));
            self.memory.insert(&renewed);
        };
        self.invalidation.replace(&held.key, began, |since| since == Since::Nothing, put);
        renewed
    }

    /// Counts a use of what is in memory, and tells the store of it now and then.
    pub fn count_use(&self, held: &CacheEntry) {
        if let Some(uses) = held.used() {
            self.was_used(held, uses);
        }
    }

    /// Tells the store of uses that memory answered. What it does not have, or will soon overwrite, and what has proved to be worth a
    /// place is written from memory, unless it was replaced or removed meanwhile.
    fn was_used(&self, held: &CacheEntry, uses: Uses) {
        let Some(store) = self.stores.of(&held.key) else { return };
        let (meta, body) = match (&held.kind, held.marker()) {
            (EntryKind::Response(StoredResponse { body, .. }), _) => (None, body.clone()),
            (_, Some((meta, nonce))) => (Some(meta), Body::Whole(nonce.into())),
            (_, None) => return,
        };
        if !store.touch(&held.key, uses, &body) {
            return;
        }
        let Body::Whole(bytes) = body else { return };
        let meta = match (&held.kind, meta) {
            (EntryKind::Response(StoredResponse { head, .. }), _) => head.encode(),
            (_, meta) => meta.unwrap_or_default(),
        };
        self.invalidation.look(&held.key, self.now(), |_| {
            if self.memory.keeps(held) {
                store.put_again(&held.key, &meta, &bytes, uses.all);
            }
        });
    }

    /// Keeps a marker for what was asked for at `began`, with a nonce of its own: it leads to nothing that was stored before. Refused
    /// by the store, what it leads to is not found again: a miss.
    pub fn mark(&self, marker: CacheEntry, began: Moment) -> Arc<CacheEntry> {
        let marker = Arc::new(marker);
        let put = || {
            if let Some((meta, nonce)) = marker.marker() {
                self.stores.change(&marker.key, None, |store| store.put_anyway(&marker.key, &meta, &nonce));
            }
            self.memory.insert(&marker);
        };
        self.invalidation.replace(&marker.key, began, |_| true, put);
        marker
    }

    /// Removes what lies under a key, and what is being brought there.
    pub fn remove(&self, key: &Key) {
        self.remove_since(key, self.now());
    }

    /// The same, and tells whether somebody else did since `began`.
    fn remove_since(&self, key: &Key, began: Moment) -> Removal {
        let removal = self.invalidation.remove(key, began, || self.take_away(key));
        self.stores.confirm();
        removal
    }

    fn take_away(&self, key: &Key) {
        self.memory.remove(key);
        self.stores.remove(key);
    }

    /// Whether something stored, or being fetched, may no longer answer as it is: a purge by scope covers it, softly or not.
    pub fn covers(&self, held: &CacheEntry) -> bool {
        self.purged(held) != Purged::No
    }

    pub fn purged(&self, held: &CacheEntry) -> Purged {
        self.invalidation.purged(held)
    }

    /// Whether what was asked for at `began` may no longer be stored under a key.
    pub fn is_removed_since(&self, key: &Key, began: Moment) -> bool {
        self.invalidation.is_removed_since(key, began)
    }

    /// Whether something was put under a key since `looked`, and not removed: also under another now and then.
    pub fn is_replaced_since(&self, key: &Key, looked: Moment) -> bool {
        self.invalidation.was_replaced(key, looked)
    }

    /// Removes what is stored of a URI, given its primary key: all variants, queries and searches.
    pub fn forget(&self, primary: &[u8]) {
        self.remove(&Key::new(primary.to_vec()));
        self.forget_beside(primary);
    }

    fn forget_beside(&self, primary: &[u8]) {
        self.remove(&Key::new(key::queries(primary)));
        self.forget_searches(primary);
    }

    /// Removes the searches of a URI's path that are answered alike.
    pub fn forget_searches(&self, primary: &[u8]) {
        self.remove(&Key::new(key::searches(primary)));
    }

    /// Removes what the answer to an unsafe request, sent at `began`, makes invalid (RFC 9111 section 4.4), and purges the
    /// groups of the target's origin that it ends (RFC 9875). Tells of the removal of the target itself, if that was one.
    pub fn invalidate(
        &self,
        method: &Method,
        target: &Target,
        answer: &Parts,
        began: Moment,
    ) -> Option<Removal> {
        let own = target.primary_key();
        let mut of_target = None;
        let (scheme, path) = (target.scheme.as_str(), target.path.as_str());
        for primary in cache::invalidated(method, scheme, target.host(), path, answer) {
            match primary == *own.bytes() {
                true => {
                    of_target = Some(self.remove_since(&own, began));
                    self.forget_beside(&primary);
                }
                false => self.forget(&primary),
            }
        }
        let groups = cache::invalidated_groups(method, answer);
        if !groups.is_empty() {
            let origin = key::origin(own.bytes());
            self.purge(groups.iter().map(|name| Scope::Group { origin, name }), false);
        }
        of_target
    }

    /// Does what another process tells that had the same cache before.
    pub fn take(&self, changes: &[Change]) {
        let (mut hard, mut soft) = (Vec::new(), Vec::new());
        for change in changes {
            match change {
                Change::Removed(key) => self.remove(&Key::new(key.clone())),
                Change::Purged(scope) => match Scope::parse(scope) {
                    Some((scope, true)) => soft.push(scope),
                    Some((scope, false)) => hard.push(scope),
                    // What nobody here knows may be anything.
                    None => hard.push(Scope::All),
                },
            }
        }
        // Together, since each time all purges are written to the stores.
        for (scopes, softly) in [(hard, false), (soft, true)] {
            if !scopes.is_empty() {
                self.purge(scopes, softly);
            }
        }
    }

    /// The process that the caches were handed to serves: nothing is found here any more. Bodies under way are still read.
    pub fn end(&self) {
        self.stores.settle();
        self.memory.end();
    }

    /// Purges scopes, in constant time; softly, what they cover is stale. `Store::persist` tells when a kill cannot undo it any more.
    pub fn purge<'a>(&self, scopes: impl IntoIterator<Item = Scope<'a>>, softly: bool) {
        self.invalidation.purge(scopes, softly, &self.stores);
    }
}
