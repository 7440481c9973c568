//! The memory tier: whole small objects above the disk, and the heads of large ones, shared by all workers, bounded in bytes.
//!
//! A hit costs one lookup and no copy of the body. Keys are compared in full, so equal hashes never mix objects.
//!
//! A body that leaves while clients still take it is counted until the last of them has it ([`Lent`]): the more
//! there is of these, the less stays, so that both together keep to the tier's bytes.

use super::lent::{Leaving, Lent};
use crate::message::fields::{CACHE_STATUS, with_room};
use crate::message::hops::{Names, add_via};
use bytes::Bytes;
use cache::{Head, NoVarySearch, Stored, Vary, key};
use http::header::{AGE, HeaderValue};
use http::{HeaderMap, StatusCode};
use memory::Tier;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use store::{Body, Key, Uses};

/// What lies under a key, ready to answer with. It may be in memory, or be as a read from the disk brought it.
pub struct CacheEntry {
    pub key: Key,
    pub kind: EntryKind,
    uses: AtomicU32,
    /// Later purges may cover it.
    purges_known: AtomicU64,
    /// What it takes in memory, bytes, about.
    weight: u64,
    /// Its body is in memory of its own. What a read brought is part of a larger buffer: it answers, and neither stays nor
    /// is lent.
    own: bool,
}

/// Uses of what was just read from the disk: the read was already counted as the first.
const COUNTED: u32 = u32::MAX;

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are responses, and a hit shall not follow one more pointer"
)]
pub enum EntryKind {
    Response(StoredResponse),
    /// The key's responses vary: look under the key of the request's variant.
    Varies(Variants),
    /// Another key's response is also for who asks for this one.
    SameAs(Key),
    /// Under a path: which of its searches are answered alike.
    Searches(Searches),
    /// Under a URI: the answers to QUERY have this nonce in their keys.
    Queries(Nonce),
}

/// A random number that nobody can guess.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Part of every key that is found through a marker: a marker that was removed and made again never leads to what was
/// stored before.
pub type Nonce = [u8; 8];

pub fn nonce() -> Nonce {
    chance().to_le_bytes()
}

/// A stored response.
pub struct StoredResponse {
    pub head: Head,
    /// The fields of an answer, `Via` included, with places for `Age` and `Cache-Status`.
    headers: HeaderMap,
    /// What caches nearer to the origin said of it (RFC 9211 section 2: it is kept, and comes first).
    nearer: Option<HeaderValue>,
    pub body: Body,
}

/// What the responses of a primary key vary by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variants {
    pub vary: Vary,
    pub nonce: Nonce,
}

/// Which queries of a path's GET mean the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searches {
    pub config: NoVarySearch,
    pub nonce: Nonce,
}

impl CacheEntry {
    /// A response that stays: its fields are of one allocation, not parts of the buffer that they were read into.
    pub fn kept(key: Key, mut head: Head, body: Body, names: &Names) -> CacheEntry {
        head.compact();
        CacheEntry::response(key, head, body, names)
    }

    /// The same response with newer fields.
    pub fn renewed(&self, head: Head, body: Body, names: &Names) -> CacheEntry {
        CacheEntry { own: self.own, ..CacheEntry::kept(self.key.clone(), head, body, names) }
    }

    pub fn response(key: Key, head: Head, body: Body, names: &Names) -> CacheEntry {
        let mut headers = with_room(&head.headers, 3);
        add_via(&mut headers, names);
        let nearer: Vec<&[u8]> = headers.get_all(CACHE_STATUS).iter().map(HeaderValue::as_bytes).collect();
        let nearer = nearer.join(&b", "[..]);
        let nearer = HeaderValue::from_bytes(&nearer).ok().filter(|nearer| !nearer.is_empty());
        headers.insert(AGE, HeaderValue::from_static("0"));
        headers.insert(CACHE_STATUS, HeaderValue::from_static(""));
        CacheEntry {
            purges_known: AtomicU64::new(head.purges_known),
            ..CacheEntry::of(key, EntryKind::Response(StoredResponse { head, headers, nearer, body }))
        }
    }

    fn of(key: Key, kind: EntryKind) -> CacheEntry {
        let (weight, uses, purges_known) = (weight(&key, &kind), AtomicU32::new(0), AtomicU64::new(0));
        CacheEntry { key, kind, uses, purges_known, weight, own: true }
    }

    pub fn varies(key: Key, variants: Variants) -> CacheEntry {
        CacheEntry::of(key, EntryKind::Varies(variants))
    }

    pub fn same_as(key: Key, other: Key) -> CacheEntry {
        CacheEntry::of(key, EntryKind::SameAs(other))
    }

    pub fn searches(key: Key, searches: Searches) -> CacheEntry {
        CacheEntry::of(key, EntryKind::Searches(searches))
    }

    pub fn queries(key: Key, nonce: Nonce) -> CacheEntry {
        CacheEntry::of(key, EntryKind::Queries(nonce))
    }

    /// The newest purge that is known not to cover it.
    pub fn purges_known(&self) -> u64 {
        self.purges_known.load(Ordering::Relaxed)
    }

    pub fn know_purges(&self, newest: u64) {
        self.purges_known.fetch_max(newest, Ordering::Relaxed);
    }

    /// What a marker is stored as: the bytes that say what it is, and its nonce as the body. `None` for what is none.
    pub fn marker(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (stored, nonce) = match &self.kind {
            EntryKind::Response(_) => return None,
            EntryKind::Varies(Variants { vary, nonce }) => (Stored::Varies(vary.clone()), &nonce[..]),
            EntryKind::SameAs(key) => (Stored::SameAs(key.bytes().to_vec()), &[][..]),
            EntryKind::Searches(Searches { config, nonce }) => {
                (Stored::NoVarySearch(config.clone()), &nonce[..])
            }
            EntryKind::Queries(nonce) => (Stored::Queries, &nonce[..]),
        };
        Some((stored.encode(), nonce.to_vec()))
    }

    /// What the store returned (and counted a reference of); `None` if this version cannot read it. `own`: the body is a copy.
    pub fn decode(key: Key, object: store::Object, own: bool, names: &Names) -> Option<CacheEntry> {
        match (Stored::decode(&object.meta)?, object.body) {
            (Stored::Response(head), body) => {
                let held = CacheEntry { own, ..CacheEntry::response(key, head, body, names) };
                held.uses.store(COUNTED, Ordering::Relaxed);
                Some(held)
            }
            (Stored::SameAs(other), _) => Some(CacheEntry::same_as(key, Key::new(other))),
            (_, Body::Spans(_)) => None,
            (marker, Body::Whole(nonce)) => {
                let nonce = nonce.as_ref().try_into().ok()?;
                Some(match marker {
                    Stored::Varies(vary) => CacheEntry::varies(key, Variants { vary, nonce }),
                    Stored::NoVarySearch(config) => CacheEntry::searches(key, Searches { config, nonce }),
                    _ => CacheEntry::queries(key, nonce),
                })
            }
        }
    }

    /// Counts a use; tells what the store shall learn of now: the first few uses at once, then in packs.
    pub fn used(&self) -> Option<Uses> {
        let uses = self.uses.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let all = uses.min(u8::MAX.into()) as u8;
        match uses {
            0 => None,
            1..=3 => Some(Uses { new: 1, all }),
            _ if uses.is_multiple_of(16) => Some(Uses { new: 16, all }),
            _ => None,
        }
    }

    /// It leads to others.
    pub fn is_marker(&self) -> bool {
        !matches!(self.kind, EntryKind::Response(_))
    }

    /// The body, if it is whole.
    pub(super) fn whole(&self) -> Option<&Bytes> {
        match &self.kind {
            EntryKind::Response(StoredResponse { body: Body::Whole(bytes), .. }) => Some(bytes),
            _ => None,
        }
    }
}

/// What an entry takes in memory, about: the fields are there twice, in maps that are a third empty.
fn weight(key: &Key, kind: &EntryKind) -> u64 {
    const FIXED: usize = size_of::<CacheEntry>() + 192;
    const FIELD: usize = 2 * 156;
    let (fields, body) = match kind {
        EntryKind::Varies(Variants { vary, .. }) => (vary.weight(), 0),
        EntryKind::Searches(Searches { config, .. }) => (config.weight(), 0),
        EntryKind::Queries(_) => (0, 0),
        EntryKind::SameAs(other) => (other.bytes().len(), 0),
        EntryKind::Response(resident) => {
            let StoredResponse { head, nearer, .. } = resident;
            // As they came: of those that are sent, what others said of their caches is taken out.
            let fields = head.headers.iter().map(|(name, value)| FIELD + name.as_str().len() + value.len());
            let vary = head.vary().map_or(0, |vary| vary.weight());
            let apart = nearer.as_ref().map_or(0, HeaderValue::len) + vary;
            let body = match &resident.body {
                Body::Whole(bytes) => bytes.len() as u64,
                Body::Spans(_) => 0,
            };
            (fields.sum::<usize>() + apart, body)
        }
    };
    (FIXED + key.bytes().len() + fields) as u64 + body
}

impl Variants {
    /// The key of a variant, made of its selecting bytes.
    fn key(&self, mut selected: Vec<u8>) -> Key {
        selected.extend_from_slice(&self.nonce);
        Key::new(selected)
    }

    pub fn of(&self, primary: &Key, request: &HeaderMap) -> Key {
        self.key(key::variant(primary.bytes(), &self.vary, request).into())
    }

    /// Under which the response in a language is found by who likes that language best.
    pub fn alias(&self, primary: &Key, request: &HeaderMap, language: &str) -> Option<Key> {
        key::language_variant(primary.bytes(), &self.vary, request, language)
            .map(|selected| self.key(selected.into()))
    }
}

impl Searches {
    /// The primary key of a GET under the marker of its path.
    pub fn of(&self, marker: &Key, path_and_query: &str) -> Key {
        Key::new(key::of_search(marker.bytes(), self.nonce, &self.config, path_and_query))
    }
}

impl StoredResponse {
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The fields of an answer. Nothing grows: both places are there.
    pub fn fields(&self, age: u64, status: HeaderValue) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(AGE, HeaderValue::from(age));
        headers.insert(CACHE_STATUS, self.status_field(status));
        headers
    }

    /// Cache-Status with this cache's member.
    pub fn status_field(&self, status: HeaderValue) -> HeaderValue {
        match &self.nearer {
            None => status,
            Some(nearer) => {
                let all = [nearer.as_bytes(), b", ", status.as_bytes()].concat();
                HeaderValue::from_bytes(&all).unwrap_or(status)
            }
        }
    }
}

/// The tier itself.
pub struct Memory {
    cache: Option<Tier<Arc<CacheEntry>>>,
    lent: Lent,
    /// Bytes of it.
    size: u64,
    /// Nothing is kept any more.
    ended: AtomicBool,
    /// Of these, what is lent and not to be used for what stays.
    withheld: AtomicU64,
    /// That is being changed.
    withholding: Mutex<()>,
    object_max: u64,
}

/// Of the tier no more than one in so many bytes is lent. Then no body comes in.
const LENT: u64 = 2;
/// What is withheld goes in steps of one in so many bytes.
const STEP: u64 = 8;

impl Memory {
    /// `bytes` of 0 keeps nothing.
    pub fn new(bytes: u64, object_max: u64) -> Memory {
        let threads = available_parallelism().map_or(1, NonZero::get);
        let object_max = object_max.min(bytes / 64);
        // Clients choose URLs, and anybody can compute their hashes.
        let secret = u128::from(chance()) << 64 | u128::from(chance());
        let cache = (bytes > 0).then(|| Tier::new(bytes, object_max, threads, secret));
        let (lent, ended, withheld, withholding) = Default::default();
        Memory { cache, lent, size: bytes, ended, withheld, withholding, object_max }
    }

    /// What is kept, responses and markers.
    pub fn count(&self) -> u64 {
        self.cache.as_ref().map_or(0, Tier::count)
    }

    /// What that takes, bytes, about.
    pub fn weight(&self) -> u64 {
        self.cache.as_ref().map_or(0, Tier::bytes)
    }

    /// Bytes of bodies that are not kept any more, and that clients still take.
    pub fn lent(&self) -> u64 {
        self.lent.look();
        self.lent.bytes()
    }

    /// The largest body that is kept, bytes.
    pub fn object_max(&self) -> u64 {
        self.object_max
    }

    /// Forgets all, and keeps nothing from now on.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        // Whoever withholds now gives some of it back.
        let _one = self.withholding.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = &self.cache {
            cache.resize(0, |gone| self.lent.left(&gone));
        }
    }

    pub fn get(&self, key: &Key) -> Option<Arc<CacheEntry>> {
        let held = self.cache.as_ref()?.get(key.hash())?;
        (held.key == *key).then_some(held)
    }

    /// As `get`, without counting a use.
    pub fn peek(&self, key: &Key) -> Option<Arc<CacheEntry>> {
        let held = self.cache.as_ref()?.peek(key.hash())?;
        (held.key == *key).then_some(held)
    }

    /// Whether this very entry is kept.
    pub fn keeps(&self, held: &CacheEntry) -> bool {
        let kept = self.cache.as_ref().and_then(|cache| cache.peek(held.key.hash()));
        kept.is_some_and(|kept| std::ptr::eq(&*kept, held))
    }

    /// Whether a body of this length is kept now.
    pub fn takes(&self, length: usize) -> bool {
        let most = self.size / LENT;
        if self.lent.bytes() > most {
            self.lent.look();
        }
        self.cache.is_some() && length as u64 <= self.object_max && self.lent.bytes() <= most
    }

    /// Keeps what is whole, small and in memory of its own, and heads of what is on disk. What the key held before is gone in
    /// any case.
    pub fn insert(&self, held: &Arc<CacheEntry>) {
        let Some(cache) = &self.cache else { return };
        if held.whole().is_none_or(|body| held.own && self.takes(body.len())) {
            // A response with newer fields has the body of the one before it.
            let mut leaving = Leaving::but_for(held.whole());
            cache.insert(held.key.hash(), held.clone(), held.weight, |gone| leaving.take(&self.lent, gone));
            drop(leaving);
            self.withhold();
        } else {
            self.remove(&held.key);
            self.lend(held);
        }
    }

    pub fn remove(&self, key: &Key) {
        if let Some(held) = self.cache.as_ref().and_then(|cache| cache.remove(key.hash())) {
            self.lent.left(&held);
        }
    }

    /// Counts a body that answers as if it were kept, and is not; larger ones, and what a read brought, are somebody else's to
    /// count.
    pub fn lend(&self, held: &CacheEntry) {
        if held.own && held.whole().is_some_and(|body| body.len() as u64 <= self.object_max) {
            self.lent.add(held);
        }
    }

    /// Leaves less for what stays while much is lent.
    fn withhold(&self) {
        let (Some(cache), step) = (&self.cache, (self.size / STEP).max(1)) else { return };
        if self.lent.bytes() > 0 {
            self.lent.look();
        }
        // Mostly nothing is to be changed: no worker writes what others read.
        while let Some(most) = self.withholds(step) {
            // Another who does so now is as good.
            let Ok(_one) = self.withholding.try_lock() else { return };
            if self.ended.load(Ordering::Relaxed) {
                return;
            }
            self.withheld.store(most, Ordering::Relaxed);
            // What has to go now may be lent itself.
            cache.resize(self.size - most, |gone| self.lent.left(&gone));
        }
    }

    /// How many bytes are to be withheld from now on, if that changes.
    fn withholds(&self, step: u64) -> Option<u64> {
        let (lent, withheld) = (self.lent.bytes(), self.withheld.load(Ordering::Relaxed));
        let most = (lent / step * step).min(self.size / LENT);
        // It goes down late, so that it does not go up and down.
        let stays = most == withheld || most < withheld && lent + step / 2 >= withheld;
        (!stays).then_some(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::Asked;
    use http::Method;
    use std::time::{Duration, Instant};

    const SIZE: u64 = 8 << 20;
    const BODY: usize = 100 << 10;

    fn entry(n: usize, body: Bytes) -> Arc<CacheEntry> {
        let parts = http::Response::builder().header("cache-control", "max-age=60").body(()).unwrap();
        let head = Head::storable(&Asked::of(&Method::GET, &HeaderMap::new()), &parts.into_parts().0, 1, 1);
        let key = Key::new(format!("k{n}"));
        Arc::new(CacheEntry::response(key, head.unwrap(), Body::Whole(body), &Names::new("t")))
    }

    #[test]
    fn what_clients_still_take_leaves_less_room_until_they_have_it() {
        let memory = Memory::new(SIZE, 1 << 20);
        let mut clients = Vec::new();
        for n in 0..1000 {
            if memory.takes(BODY) {
                let body = Bytes::from(vec![0; BODY]);
                memory.insert(&entry(n, body.clone()));
                clients.push(body);
            }
        }
        let taken = (clients.len() * BODY) as u64;
        assert!(taken < SIZE + SIZE / STEP + SIZE / 20, "{taken} bytes of {SIZE}");
        assert!(
            memory.lent() > SIZE / LENT && memory.weight() <= SIZE - SIZE / LENT,
            "{} lent",
            memory.lent()
        );
        // Nobody removes it by purging, either.
        for n in 0..1000 {
            memory.remove(&entry(n, Bytes::new()).key);
        }
        assert!(memory.count() == 0 && memory.lent() == taken && !memory.takes(BODY));
        drop(clients);
        let until = Instant::now() + Duration::from_secs(20);
        while !memory.takes(BODY) && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(memory.lent(), 0);
        for n in 0..60 {
            memory.insert(&entry(n, Bytes::from(vec![0; BODY])));
        }
        assert!(memory.weight() > SIZE / LENT, "all of it is used again");
    }

    #[test]
    fn what_a_read_brought_neither_stays_nor_is_lent() {
        let memory = Memory::new(SIZE, 1 << 20);
        let read = |n| {
            let body = Bytes::from_owner(vec![0; BODY]);
            let entry = Arc::into_inner(entry(n, body.clone())).unwrap();
            let newer = match &entry.kind {
                EntryKind::Response(response) => response.head.clone(),
                _ => unreachable!("a response"),
            };
            let entry = CacheEntry { own: false, ..entry };
            let renewed = entry.renewed(newer, Body::Whole(body), &Names::new("t"));
            [Arc::new(entry), Arc::new(renewed)]
        };
        for n in 0..1000 {
            read(n).iter().for_each(|entry| memory.insert(entry));
        }
        assert_eq!((memory.lent(), memory.count()), (0, 0));
        // Also when so much is lent that nothing comes in.
        let lent: Vec<_> = (0..1000).map(|n| entry(n, Bytes::from(vec![0; BODY]))).collect();
        lent.iter().for_each(|entry| memory.insert(entry));
        let before = (memory.lent(), memory.count());
        assert!(!memory.takes(BODY));
        for n in 1000..2000 {
            read(n).iter().for_each(|entry| memory.insert(entry));
        }
        assert_eq!((memory.lent(), memory.count()), before);
    }

    #[test]
    fn a_body_with_newer_fields_is_not_lent() {
        let memory = Memory::new(SIZE, 1 << 20);
        let body = Bytes::from(vec![0; BODY]);
        for _ in 0..1000 {
            memory.insert(&entry(0, body.clone()));
        }
        assert_eq!((memory.lent(), memory.count()), (0, 1));
    }

    /// However many names an origin's fields have.
    #[test]
    fn markers_keep_to_the_tiers_bytes() {
        let names: Vec<String> = (0..9_000u32).map(|n| format!("a{n}")).collect();
        let mut fields = HeaderMap::new();
        fields.insert("vary", HeaderValue::try_from(names.join(",")).unwrap());
        let quoted = |names: &[String]| {
            format!(
                "params=({})",
                names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" ")
            )
        };
        fields.insert("no-vary-search", HeaderValue::try_from(quoted(&names)).unwrap());
        assert!(Vary::of(&fields).is_err() && NoVarySearch::of(&fields).is_default());
        fields.insert("vary", HeaderValue::try_from(names[..60].join(",")).unwrap());
        let long = ["x".repeat(50_000)];
        fields.insert("no-vary-search", HeaderValue::try_from(quoted(&long)).unwrap());
        let vary = Vary::of(&fields).unwrap().unwrap();
        let config = NoVarySearch::of(&fields);
        let of = |n: u32| Key::new(format!("marker {n}"));
        let varies = CacheEntry::varies(of(1), Variants { vary, nonce: nonce() });
        let searches = CacheEntry::searches(of(2), Searches { config, nonce: nonce() });
        assert!(varies.weight > 60 * 64 && searches.weight > 50_000, "{} {}", varies.weight, searches.weight);
    }

    /// Whatever caches nearer to the origin say.
    #[test]
    fn all_fields_of_a_response_are_weighed() {
        let said = "x".repeat(60_000);
        let parts = http::Response::builder()
            .header("cache-control", "max-age=60")
            .header("cache-status", format!("a; detail={said}"))
            .body(())
            .unwrap();
        let asked = cache::Asked::of(&http::Method::GET, &HeaderMap::new());
        let head = Head::storable(&asked, &parts.into_parts().0, 1, 1).unwrap();
        let entry = CacheEntry::kept(Key::new("k"), head, Body::Whole(Bytes::new()), &Names::new("t"));
        let EntryKind::Response(response) = &entry.kind else { unreachable!("a response") };
        let nearer = response.nearer.as_ref().map_or(0, HeaderValue::len);
        assert!(nearer > 60_000 && entry.weight > 120_000, "{nearer} {}", entry.weight);
    }
}
