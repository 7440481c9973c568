//! The cache at the gateway: HTTP caching as `cache` has it, over the production store by hand, and bytes of the origin counted.
//!
//! A request is looked up, judged, validated or fetched as the proxy does it, one after the other. The store's disk is memory, where
//! bodies take ten bytes for each sector (`medium::sectors`).

use crate::medium::sectors::Sectors;
use crate::object::Object;
use cache::{Asked, Head, SetCookie, Verdict, freshen, judge, make_conditional};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE, IF_MODIFIED_SINCE, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, response};
use std::io;
use std::sync::{Mutex, PoisonError};
use store::disk::Disk;
use store::format::DATA_START;
use store::{Body, Buffer, ByHand, Key, Options, Refused};
use trace::world::Offer;
use trace::{Access, host};

pub struct Gateway {
    store: ByHand,
    disk: Memory,
    /// Where the store's clock begins, seconds since 1970.
    began: u64,
    asked: Asked,
    body: Vec<u8>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered from the cache; `outdated`: the site had another version by then, which HTTP allows.
    Hit {
        outdated: bool,
    },
    /// Answered from the cache after the site said that it was unchanged.
    Validated,
    Fetched,
}

/// A request's outcome, and what came from the site for it: heads and bodies, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub outcome: Outcome,
    pub origin: u64,
    /// Whether it lies in the cache now.
    pub stored: bool,
}

/// How often a large body waits for the store to write what it holds.
const PATIENCE: usize = 64;
/// Bytes of a packet: a store in memory gains nothing from larger ones.
const PACKET: u32 = 1 << 20;

impl Gateway {
    /// A cache of so many bytes, empty at a time; seconds since 1970.
    pub fn new(space: u64, began: u64, seed: u64) -> Result<Gateway, String> {
        let disk = Memory::default();
        let options = Options { packet: PACKET, group_of: |_| 0, group: 0, ..Options::at("") };
        let store = ByHand::make(&disk, DATA_START + space, &options, seed).map_err(|why| why.to_string())?;
        let asked = Asked::of(&Method::GET, &HeaderMap::new());
        Ok(Gateway { store, disk, began, asked, body: Vec::new() })
    }

    /// Answers a request at its time. `offer` says what the site has then; `None`: a program makes it, for this request alone.
    pub fn ask(&mut self, access: &Access, offer: Option<&Offer>) -> Result<Served, String> {
        self.answer(access, offer, false)
    }

    /// Brings into the cache what the site has now, whether what lies there is fresh or not.
    pub fn renew(&mut self, access: &Access, offer: &Offer) -> Result<Served, String> {
        self.answer(access, Some(offer), true)
    }

    fn answer(&mut self, access: &Access, offer: Option<&Offer>, renews: bool) -> Result<Served, String> {
        let now = access.time / 1_000_000;
        self.turn(access.time);
        let key = key(&access.url);
        let Some(found) = self.store.get(&self.disk, &key) else {
            return self.fetch(&key, access, offer, now);
        };
        let head = Head::decode(&found.meta).ok_or("a head that nobody stored")?;
        let last = head.last_modified().unwrap_or_default();
        match judge(&self.asked, &head, now) {
            Verdict::Stale(_) => {}
            _ if renews => {}
            _ => {
                let outdated = offer.is_none_or(|offer| offer.row.modified != last);
                self.check(access, last, &found.body)?;
                return Ok(Served { outcome: Outcome::Hit { outdated }, origin: 0, stored: true });
            }
        }
        let mut request = HeaderMap::new();
        let since =
            make_conditional(&mut request, &head).then(|| request.get(IF_MODIFIED_SINCE).cloned()).flatten();
        let unchanged = offer.zip(since).filter(|(offer, since)| {
            let since = cache::parse_http_date(since.as_bytes(), now);
            offer.row.cacheable && since.is_some_and(|since| offer.row.modified <= since)
        });
        let Some((offer, _)) = unchanged else { return self.fetch(&key, access, Some(offer).flatten(), now) };
        let not_modified = response(StatusCode::NOT_MODIFIED, access, Some(offer), now)?;
        let origin = wire_bytes(&not_modified);
        let fresh = freshen(&self.asked, &head, &not_modified, now, now);
        let fresh = fresh.filter(|head| head.may_stay(SetCookie::Never).is_ok());
        let Some(fresh) = fresh else { return self.fetch(&key, access, Some(offer), now) };
        self.check(access, last, &found.body)?;
        let stored = self.store.put_meta(&key, &fresh.encode(), &found.body).is_ok();
        Ok(Served { outcome: Outcome::Validated, origin, stored })
    }

    /// Whether the version of this URL lies in the cache, fresh or to be validated.
    pub fn holds(&self, url: &str, modified: u64) -> bool {
        let found = self.store.get(&self.disk, &key(url));
        let head = found.and_then(|found| Head::decode(&found.meta));
        head.is_some_and(|head| head.last_modified() == Some(modified))
    }

    /// Lets the store do what is due; microseconds since 1970.
    pub fn turn(&mut self, micros: u64) {
        self.store.turn(&self.disk, (micros / 1000).saturating_sub(self.began * 1000));
    }

    fn fetch(
        &mut self,
        key: &Key,
        access: &Access,
        offer: Option<&Offer>,
        now: u64,
    ) -> Result<Served, String> {
        let parts = response(StatusCode::OK, access, offer, now)?;
        let size = offer.map_or(access.size, |offer| offer.row.size);
        let origin = wire_bytes(&parts) + size;
        let served = |stored| Ok(Served { outcome: Outcome::Fetched, origin, stored });
        let Ok(head) = Head::storable(&self.asked, &parts, now, now) else { return served(false) };
        let modified = offer.map_or(0, |offer| offer.row.modified);
        self.body.resize(size as usize, 0);
        Object::with(access, modified, size).fill(0, &mut self.body);
        served(self.write(key, &head.encode(), access.time).is_ok())
    }

    fn write(&mut self, key: &Key, meta: &[u8], micros: u64) -> Result<(), Refused> {
        let now = (micros / 1000).saturating_sub(self.began * 1000);
        let large = self.body.len() > self.store.span_size();
        let mut writer = match large {
            false => None,
            true => Some(self.store.begin(key, Some(self.body.len() as u64))?),
        };
        let mut left = &self.body[..];
        for _ in 0..PATIENCE {
            let done = match &mut writer {
                None => self.store.put(key, meta, &self.body),
                Some(writer) => writer.push(&mut left).and_then(|()| writer.finish(meta)),
            };
            match done {
                Err(Refused::Busy) => self.store.turn(&self.disk, now),
                done => return done,
            }
        }
        Err(Refused::Busy)
    }

    /// What is served is what was stored, to the byte.
    fn check(&self, access: &Access, modified: u64, body: &Body) -> Result<(), String> {
        let object = Object::with(access, modified, body.len());
        let right = match body {
            Body::Whole(bytes) => object.is(0, bytes),
            Body::Spans(spans) => (0..spans.count()).all(|nth| {
                let bytes = self.store.span(&self.disk, spans, nth);
                bytes.is_some_and(|bytes| object.is(u64::from(nth) * u64::from(spans.span), &bytes))
            }),
        };
        if right { Ok(()) } else { Err(format!("{}: other bytes than were stored", access.url)) }
    }
}

fn key(url: &str) -> Key {
    let host = host(url);
    let path = url.find(host).map_or("/", |at| &url[at + host.len()..]);
    Key::new(cache::key::primary("http", host, path))
}

/// The head of a site's answer. What programs make says nothing of its age, and what is made for one reader is private.
fn response(
    status: StatusCode,
    access: &Access,
    offer: Option<&Offer>,
    now: u64,
) -> Result<response::Parts, String> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(DATE, cache::http_date(now));
    let number = |number: u64| HeaderValue::from(number);
    match offer {
        None => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
            headers.insert(CONTENT_LENGTH, number(access.size));
        }
        Some(Offer { row, lifetime }) => {
            let content_type = HeaderValue::try_from(row.content_type.as_str());
            headers.insert(CONTENT_TYPE, content_type.map_err(|why| format!("{}: {why}", row.url))?);
            headers.insert(CONTENT_LENGTH, number(row.size));
            if row.cacheable {
                headers.insert(LAST_MODIFIED, cache::http_date(row.modified));
            } else {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
            }
            if let Some(seconds) = lifetime {
                let says = HeaderValue::try_from(format!("max-age={seconds}"));
                headers.insert(CACHE_CONTROL, says.map_err(|why| why.to_string())?);
            }
        }
    }
    if status == StatusCode::NOT_MODIFIED {
        headers.remove(CONTENT_LENGTH);
    }
    Ok(response.into_parts().0)
}

/// Bytes of a head in HTTP/1.1.
fn wire_bytes(parts: &response::Parts) -> u64 {
    let status = "HTTP/1.1  \r\n\r\n".len() + 3 + parts.status.canonical_reason().map_or(0, str::len);
    let fields = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    (status + fields.sum::<usize>()) as u64
}

#[derive(Default)]
struct Memory(Mutex<Sectors>);

impl Disk for Memory {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(offset, &mut buffer[..length]);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(offset, bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn read_block(&self) -> usize {
        512
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::inventory::Row;

    const NOON: u64 = 895_449_600 + 12 * 3600;

    fn offer(modified: u64, lifetime: Option<u32>) -> Offer {
        let row = Row {
            url: "http://www1.example.com/1/17-0.html".into(),
            size: 40_000,
            modified,
            created: modified,
            content_type: "text/html".into(),
            cacheable: true,
        };
        Offer { row, lifetime }
    }

    fn ask(gateway: &mut Gateway, second: u64, offer: &Offer) -> Served {
        let mut access = Access { time: second * 1_000_000, size: offer.row.size, ..Access::default() };
        access.set_url(offer.row.url.as_bytes());
        gateway.ask(&access, Some(offer)).unwrap()
    }

    #[test]
    fn what_is_fresh_is_a_hit_and_what_is_not_is_validated() {
        let mut gateway = Gateway::new(32 << 20, NOON, 1).unwrap();
        // A tenth of 10,000 seconds.
        let first = offer(NOON - 10_000, None);
        let fetched = ask(&mut gateway, NOON, &first);
        assert_eq!((fetched.outcome, fetched.stored), (Outcome::Fetched, true));
        assert!((40_100..40_400).contains(&fetched.origin), "{fetched:?}");
        assert_eq!(ask(&mut gateway, NOON + 900, &first).outcome, Outcome::Hit { outdated: false });
        let validated = ask(&mut gateway, NOON + 1_100, &first);
        assert_eq!(validated.outcome, Outcome::Validated);
        assert!((50..300).contains(&validated.origin), "{validated:?}");
        assert!(gateway.holds(&first.row.url, NOON - 10_000) && !gateway.holds(&first.row.url, NOON));
        // It is fresh again, and has been edited meanwhile; then it is not fresh any more.
        let edited = offer(NOON + 1_200, None);
        assert_eq!(ask(&mut gateway, NOON + 1_300, &edited).outcome, Outcome::Hit { outdated: true });
        assert_eq!(ask(&mut gateway, NOON + 9_000, &edited).outcome, Outcome::Fetched);
        assert_eq!(ask(&mut gateway, NOON + 9_001, &edited).outcome, Outcome::Hit { outdated: false });
    }

    #[test]
    fn what_is_for_one_reader_or_made_by_a_program_is_not_kept() {
        let mut gateway = Gateway::new(32 << 20, NOON, 1).unwrap();
        let mut private = offer(NOON - 10_000, None);
        private.row.cacheable = false;
        for second in [NOON, NOON + 1] {
            assert_eq!(ask(&mut gateway, second, &private).outcome, Outcome::Fetched);
        }
        let mut access = Access { time: NOON * 1_000_000, size: 100, ..Access::default() };
        access.set_url(b"http://www1.example.com/cgi-bin/1?7");
        for _ in 0..2 {
            let served = gateway.ask(&access, None).unwrap();
            assert_eq!((served.outcome, served.stored), (Outcome::Fetched, false));
        }
    }

    #[test]
    fn a_large_object_comes_back_whole() {
        let mut gateway = Gateway::new(64 << 20, NOON, 1).unwrap();
        let mut large = offer(NOON - 1_000_000, Some(86_400));
        large.row.size = 3_000_000;
        assert!(ask(&mut gateway, NOON, &large).stored);
        assert_eq!(ask(&mut gateway, NOON + 60, &large).outcome, Outcome::Hit { outdated: false });
    }
}
