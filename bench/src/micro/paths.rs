//! The steps: one row each.

use bytes::Bytes;
use cache::{Asked, Head, Outcome, Report, Vary, key};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use policy::replacement::{LRU, Policy, S3_FIFO, SIEVE};
use std::hint::black_box;
use std::path::Path as Folder;
use store::format::UNIT;
use store::format::record::{About, Kind, Record, parse};
use store::index::{Index, Slot, WordLayout};
use store::{Key, Options, Store};
use trace::random::{Random, zipf};

pub struct Path {
    pub name: &'static str,
    /// Makes what the step needs; the folder is on the disk to measure.
    pub prepare: fn(&Folder) -> Result<Step, String>,
}

pub type Step = Box<dyn FnMut()>;

pub const PATHS: &[Path] = &[
    Path { name: "request: fields read, key made", prepare: request_and_key },
    Path { name: "variant: a browser's Accept-* made a key", prepare: variant_key },
    Path { name: "index: an entry found among a million", prepare: index_lookup },
    Path { name: "hit: judged, answered, fields made", prepare: hit_assembly },
    Path { name: "miss: a response's head made storable", prepare: storable },
    Path { name: "record of 8 KB: summed and copied", prepare: record_encode },
    Path { name: "record of 8 KB: put into a packet", prepare: packet_write },
    Path { name: "read of 8 KB completed: record verified", prepare: read_completion },
    Path { name: "simulation: a request, LRU", prepare: |_| Ok(simulation(LRU)) },
    Path { name: "simulation: a request, S3-FIFO", prepare: |_| Ok(simulation(S3_FIFO)) },
    Path { name: "simulation: a request, SIEVE", prepare: |_| Ok(simulation(SIEVE)) },
];

const IDENTITY: u64 = 7;
const NOW: u64 = 1_800_000_000;
const OBJECT: usize = 8192;

/// What a browser sends.
fn browser() -> http::request::Parts {
    let request = Request::get("http://www.example.com/articles/2026/index.html?page=2")
        .header("host", "www.example.com")
        .header("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
        .header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
        .header("accept-language", "en-GB,en;q=0.7,de;q=0.3")
        .header("accept-encoding", "gzip, deflate, br, zstd")
        .header("connection", "keep-alive");
    request.body(()).expect("a request").into_parts().0
}

fn response() -> http::response::Parts {
    let response = Response::builder()
        .header("date", "Fri, 15 Jan 2027 08:00:00 GMT")
        .header("server", "example")
        .header("content-type", "text/html; charset=utf-8")
        .header("content-length", "8192")
        .header("cache-control", "public, max-age=86400")
        .header("etag", "\"5f3c-8192\"")
        .header("last-modified", "Thu, 14 Jan 2027 08:00:00 GMT");
    response.body(()).expect("a response").into_parts().0
}

fn head() -> Result<Head, String> {
    let asked = Asked::of(&Method::GET, &HeaderMap::new());
    Head::storable(&asked, &response(), NOW, NOW).map_err(|why| format!("not storable: {}", why.word()))
}

fn request_and_key(_: &Folder) -> Result<Step, String> {
    let request = browser();
    Ok(Box::new(move || {
        let asked = Asked::of(&request.method, &request.headers);
        let authority = request.uri.authority().map_or("", |authority| authority.as_str());
        let path = request.uri.path_and_query().map_or("/", |path| path.as_str());
        black_box((asked, Key::new(key::primary("http", authority, path))));
    }))
}

fn variant_key(_: &Folder) -> Result<Step, String> {
    let request = browser();
    let names = HeaderValue::from_static("accept-encoding, accept-language");
    let vary = Vary::of(&[(http::header::VARY, names)].into_iter().collect()).ok().flatten();
    let vary = vary.ok_or("Vary cannot be read")?;
    let primary = key::primary("http", "www.example.com", "/articles/2026/index.html?page=2");
    Ok(Box::new(move || {
        black_box(key::variant(&primary, &vary, &request.headers));
    }))
}

fn index_lookup(_: &Folder) -> Result<Step, String> {
    let index = Index::new(WordLayout::new(80 << 30, 1_000_000));
    let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for n in 0..1_000_000 {
        index.insert(hash(n), Slot { place: n + 1, length: 8_320, uses: 1, again: false });
    }
    let mut n = 0;
    Ok(Box::new(move || {
        n = (n + 7919) % 1_000_000;
        assert!(index.find(hash(n)).is_some());
    }))
}

fn hit_assembly(_: &Folder) -> Result<Step, String> {
    let (head, request) = (head()?, browser());
    let asked = Asked::of(&request.method, &request.headers);
    let item = cache::Item::new("cosm");
    Ok(Box::new(move || {
        let now = black_box(NOW + 60);
        black_box(cache::can_answer(&asked, &request.headers, &head, OBJECT as u64));
        black_box(cache::judge(&asked, &head, now));
        black_box(cache::answer(&asked, &request.headers, &head, OBJECT as u64));
        let mut fields = head.headers.clone();
        fields.insert(http::header::AGE, HeaderValue::from(head.age(now)));
        let report = Report { ttl: Some(head.ttl(now)), ..Outcome::Hit.into() };
        fields.insert(http::HeaderName::from_static("cache-status"), report.value(&item));
        black_box(fields);
    }))
}

fn storable(_: &Folder) -> Result<Step, String> {
    let (request, response) = (browser(), response());
    let asked = Asked::of(&request.method, &request.headers);
    Ok(Box::new(move || {
        let head = Head::storable(&asked, black_box(&response), NOW, NOW);
        black_box(head.map(|head| head.encode()).is_ok());
    }))
}

fn object() -> (Key, Vec<u8>, Bytes) {
    let key = Key::new(key::primary("http", "www.example.com", "/articles/2026/index.html?page=2"));
    (key, vec![1; 300], (0..OBJECT).map(|n| n as u8).collect())
}

const ABOUT: About = About { kind: Kind::Object, id: 0, length: OBJECT as u64, span: 0, written: 0 };

fn record_encode(_: &Folder) -> Result<Step, String> {
    let (key, meta, body) = object();
    let mut image = vec![0; 2 * OBJECT];
    Ok(Box::new(move || {
        let record = Record::new(IDENTITY, ABOUT, key.bytes(), &meta, &body).expect("a record");
        let size = record.size(UNIT as u32);
        record.copy_to(1, 1, &mut image[..size]);
        black_box(&image);
    }))
}

fn packet_write(folder: &Folder) -> Result<Step, String> {
    let folder = tempfile::tempdir_in(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let store = Store::open(&Options { size: Some(256 << 20), ..Options::at(folder.path().join("cache")) });
    let store = store.map_err(|e| e.to_string())?;
    let (_, meta, body) = object();
    let mut n: u64 = 0;
    Ok(Box::new(move || {
        // It goes when the step does.
        let _ = &folder;
        n += 1;
        // A disk that does not keep up refuses: that is not what is measured, but it is not hidden either.
        let key = Key::new(n.to_le_bytes().to_vec());
        while store.put(&key, &meta, &body).is_err() {
            std::thread::yield_now();
        }
    }))
}

fn read_completion(_: &Folder) -> Result<Step, String> {
    let (key, meta, body) = object();
    let record = Record::new(IDENTITY, ABOUT, key.bytes(), &meta, &body).ok_or("no record")?;
    let mut bytes = vec![0; record.size(UNIT as u32)];
    record.copy_to(1, 1, &mut bytes);
    Ok(Box::new(move || {
        let found = parse(IDENTITY, black_box(&bytes)).expect("the record");
        assert!(bytes[found.key] == key.bytes()[..]);
    }))
}

/// Of a million objects, by Zipf's law; a tenth of them find room.
fn simulation(policy: Policy) -> Step {
    const OBJECTS: u64 = 1_000_000;
    let (mut random, mut cache) = (Random::of(1), (policy.new)(OBJECTS / 10 * OBJECT as u64));
    let requests: Vec<u32> = (0..1 << 20).map(|_| zipf(random.unit(), OBJECTS, 0.8) as u32).collect();
    let mut all = requests.into_iter().cycle();
    Box::new(move || {
        if let Some(object) = all.next()
            && !cache.get(object)
        {
            cache.insert(object, OBJECT as u64, &mut |_| {});
        }
    })
}
