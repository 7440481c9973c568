//! Random histories of the whole proxy: the real store on a simulated disk, clients fast and slow, purges, unsafe requests,
//! an origin that fails, writes that fail, and kills.
//!
//! What must hold: after a removal was answered, what was removed answers nobody who asks then; after a kill that is so for
//! purges, and for unsafe requests that are older than the flush interval and the writes. No body is short or mixed. Everybody
//! gets an answer, unless the proxy was killed or the origin broke off. Nothing panics.
//!
//! `COSM_SEED` and `COSM_HISTORIES` choose others.

mod support;

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::disk::Disk;
use store::disk::sim::{Faults, SimDisk};
use store::{Buffer, Options, Store};
use support::{Origin, Proxy, field, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const SIZE: usize = 6 << 20;
const FLUSH: Duration = Duration::from_millis(50);
/// After so long a removal that needs a flush is in the file, on a busy machine too.
const SURELY_WRITTEN: Duration = Duration::from_millis(1500);

/// What the origin says of a path, beside its body.
struct Kind {
    fields: &'static str,
    length: usize,
    chunked: bool,
    /// The answer depends on X-Flavour.
    varies: bool,
}

const fn kind(fields: &'static str, length: usize) -> Kind {
    Kind { fields, length, chunked: false, varies: false }
}

const KINDS: [Kind; 12] = [
    kind("Cache-Control: max-age=600\r\n", 900),
    kind("Cache-Control: max-age=600\r\n", 30_000),
    kind("Cache-Control: max-age=600\r\n", 400_000),
    kind("Cache-Control: max-age=600\r\nCache-Groups: \"one\"\r\n", 5_000),
    kind("Cache-Control: max-age=600\r\nCache-Groups: \"one\", \"two\"\r\n", 60_000),
    kind("Cache-Control: no-cache\r\n", 2_000),
    kind("Cache-Control: max-age=0, stale-while-revalidate=60\r\n", 3_000),
    kind("Cache-Control: max-age=0, stale-if-error=60\r\n", 3_000),
    kind("Cache-Control: no-store\r\n", 150_000),
    kind("Cache-Control: private\r\n", 100),
    Kind { fields: "Cache-Control: max-age=600\r\n", length: 20_000, chunked: true, varies: false },
    Kind {
        fields: "Cache-Control: max-age=600\r\nVary: X-Flavour\r\n",
        length: 7_000,
        chunked: false,
        varies: true,
    },
];
/// So many paths of each kind.
const EACH: usize = 3;
const PATHS: usize = KINDS.len() * EACH;

fn kind_of(path: usize) -> &'static Kind {
    &KINDS[path % KINDS.len()]
}

/// A body that says in every line what it is.
fn body(path: usize, version: u64, flavour: &str) -> Vec<u8> {
    let flavour = if kind_of(path).varies { flavour } else { "" };
    let length = kind_of(path).length + (version % 5) as usize * 70;
    let mut body = Vec::with_capacity(length + 64);
    while body.len() < length {
        body.extend_from_slice(format!("{path} {version} {flavour} {}\n", body.len()).as_bytes());
    }
    body.truncate(length);
    body
}

/// The origin and what the test knows of it.
struct World {
    versions: Vec<AtomicU64>,
    /// No answer to who asks now may be older.
    floors: Vec<AtomicU64>,
    /// Removals that were answered: which path, down to which version, when, and whether a kill cannot undo it.
    removals: Mutex<Vec<(usize, u64, Instant, bool)>>,
    /// When writes failed last.
    failing: Mutex<Option<Instant>>,
    /// Kills so far.
    kills: AtomicUsize,
    /// Answers of each kind.
    seen: Mutex<HashMap<String, usize>>,
    /// The origin breaks off and answers 503 now and then.
    moody: AtomicBool,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            versions: (0..PATHS).map(|_| AtomicU64::new(1)).collect(),
            floors: (0..PATHS).map(|_| AtomicU64::new(0)).collect(),
            removals: Mutex::default(),
            failing: Mutex::new(None),
            kills: AtomicUsize::new(0),
            seen: Mutex::default(),
            moody: AtomicBool::new(true),
        })
    }

    fn removed(&self, path: usize, version: u64, durable: bool) {
        self.removals.lock().unwrap().push((path, version, Instant::now(), durable));
        self.floors[path].fetch_max(version, SeqCst);
    }

    /// What a kill may undo is no floor any more.
    fn after_kill(&self) {
        let now = Instant::now();
        let failing = *self.failing.lock().unwrap();
        let kept = |(_, _, when, durable): &(usize, u64, Instant, bool)| {
            let since = failing.map_or(*when, |failed| failed.max(*when));
            *durable || now.duration_since(since) > SURELY_WRITTEN
        };
        let mut removals = self.removals.lock().unwrap();
        removals.retain(kept);
        for (path, floor) in self.floors.iter().enumerate() {
            let newest = removals.iter().filter(|(of, ..)| *of == path).map(|(_, version, ..)| *version);
            floor.store(newest.max().unwrap_or(0), SeqCst);
        }
    }

    fn saw(&self, what: &str) {
        *self.seen.lock().unwrap().entry(what.to_owned()).or_default() += 1;
    }
}

async fn origin(world: Arc<World>, seed: u64) -> Origin {
    let rng = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
    Origin::with(move |mut client, _| {
        let (world, rng) = (world.clone(), rng.clone());
        async move {
            while let Some(head) = client.head().await {
                client.body(&head).await;
                let chance = rng.lock().unwrap().next_u64();
                tokio::time::sleep(Duration::from_millis(chance % 7)).await;
                let Reply { pieces, ends } = reply(&world, &head, chance);
                for piece in pieces {
                    if !client.try_send(piece).await {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                if ends {
                    return;
                }
            }
        }
    })
    .await
}

/// What the origin sends, piece by piece, and whether the connection ends with it.
struct Reply {
    pieces: Vec<Vec<u8>>,
    ends: bool,
}

impl Reply {
    fn whole(text: String) -> Reply {
        Reply { pieces: vec![text.into_bytes()], ends: false }
    }
}

fn reply(world: &World, head: &str, chance: u64) -> Reply {
    let path: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
    let kind = kind_of(path);
    if head.starts_with("POST") {
        return changed(world, path, chance.is_multiple_of(3));
    }
    let moody = world.moody.load(SeqCst);
    if moody && (chance >> 8).is_multiple_of(40) {
        return Reply::whole("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy".into());
    }
    let version = world.versions[path].load(SeqCst);
    let flavour = field(head, "x-flavour").unwrap_or("");
    let etag = format!("\"{path}-{version}-{}\"", if kind.varies { flavour } else { "" });
    let fields = format!("{}ETag: {etag}\r\nX-Version: {version}\r\n", kind.fields);
    if field(head, "if-none-match").is_some_and(|tag| tag == etag) {
        return Reply::whole(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"));
    }
    let whole = body(path, version, flavour);
    let if_range = field(head, "if-range").is_none_or(|tag| tag == etag);
    let range = field(head, "range").filter(|_| if_range).and_then(|range| part(range, whole.len()));
    let (status, bytes, more) = match range {
        Some((first, last)) => {
            let range = format!("Content-Range: bytes {first}-{last}/{}\r\n", whole.len());
            ("206 Partial Content", &whole[first..=last], range)
        }
        None => ("200 OK", &whole[..], String::new()),
    };
    let chunked = kind.chunked && range.is_none();
    let framing = match chunked {
        true => "Transfer-Encoding: chunked\r\n".to_owned(),
        false => format!("Content-Length: {}\r\n", bytes.len()),
    };
    let mut pieces = vec![format!("HTTP/1.1 {status}\r\n{framing}{fields}{more}\r\n").into_bytes()];
    if head.starts_with("HEAD") {
        return Reply { pieces, ends: false };
    }
    let cut = match moody && (chance >> 16).is_multiple_of(30) {
        true => (chance >> 24) as usize % bytes.len(),
        false => bytes.len(),
    };
    for piece in bytes[..cut].chunks(1 + (chance >> 32) as usize % 40_000) {
        pieces.push(match chunked {
            true => [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat(),
            false => piece.to_vec(),
        });
    }
    let ends = cut < bytes.len();
    if chunked && !ends {
        pieces.push(b"0\r\n\r\n".to_vec());
    }
    Reply { pieces, ends }
}

/// An unsafe request ends its target, and sometimes a group of this origin.
fn changed(world: &World, path: usize, group: bool) -> Reply {
    let field = if group { "Cache-Group-Invalidation: \"one\"\r\n" } else { "" };
    let changed: Vec<String> = (0..PATHS)
        .filter(|n| *n == path || (group && kind_of(*n).fields.contains("\"one\"")))
        .map(|n| format!("{n}={}", world.versions[n].fetch_add(1, SeqCst) + 1))
        .collect();
    Reply::whole(support::ok(&format!("X-Changed: {}\r\n{field}", changed.join(",")), "done"))
}

/// First and last byte of a single range.
fn part(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let first: usize = first.parse().ok()?;
    let last = last.parse().unwrap_or(length - 1).min(length - 1);
    (first <= last).then_some((first, last))
}

/// A response, or `None` when the connection ended before its end.
struct Answer {
    head: String,
    body: Vec<u8>,
}

/// Sends one request; reads the answer, slowly if so wanted.
async fn ask(address: SocketAddr, request: &str, pause: Option<Duration>) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 32 << 10];
    let mut end = None;
    loop {
        if end.is_none()
            && let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n")
        {
            end = Some(at + 4);
        }
        if let Some(at) = end {
            let head = String::from_utf8(bytes[..at].to_vec()).expect("a head is text");
            let bodyless = request.starts_with("HEAD") || head.starts_with("HTTP/1.1 304");
            let rest = &bytes[at..];
            if bodyless {
                assert!(rest.is_empty(), "a body after {head}");
                return Some(Answer { head, body: Vec::new() });
            }
            if field(&head, "transfer-encoding").is_some() {
                if let Some(body) = unchunked(rest) {
                    return Some(Answer { head, body });
                }
            } else {
                let length: usize = field(&head, "content-length").expect("framed").parse().unwrap();
                assert!(rest.len() <= length, "more than was told: {head}");
                if rest.len() == length {
                    return Some(Answer { head, body: rest.to_vec() });
                }
            }
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size =
            usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).expect("a chunk's size");
        body.extend_from_slice(bytes.get(end + 2..end + 2 + size)?);
        bytes = bytes.get(end + 2 + size + 2..)?;
        if size == 0 {
            return Some(body);
        }
    }
}

/// Checks what came byte by byte.
fn check(answer: &Answer, path: usize, flavour: &str, floor: u64, why: &str) {
    let version: u64 = field(&answer.head, "x-version").expect("a version").parse().unwrap();
    assert!(
        version >= floor,
        "{why}: /{path} version {version} answered, but {floor} is the oldest that may: {}",
        answer.head
    );
    let whole = body(path, version, flavour);
    let expected = match field(&answer.head, "content-range") {
        None => &whole[..],
        Some(range) => {
            let (part, complete) = range.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
            assert_eq!(complete.parse(), Ok(whole.len()), "{why}: /{path} {}", answer.head);
            let (first, last) = part.split_once('-').unwrap();
            &whole[first.parse().unwrap()..=last.parse().unwrap()]
        }
    };
    assert!(
        answer.body == expected,
        "{why}: /{path} version {version}: {} bytes, not {} as they should be: {}",
        answer.body.len(),
        expected.len(),
        answer.head
    );
}

/// The simulated disk, whose reads take as long as chance will have it.
struct Slow(SimDisk);

impl Disk for Slow {
    fn read(&self, offset: u64, buffer: &mut Buffer, length: usize) -> io::Result<()> {
        std::thread::sleep(Duration::from_micros(rand::rng().random_range(0..4_000)));
        self.0.read(offset, buffer, length)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn read_block(&self) -> usize {
        self.0.read_block()
    }
}

/// The proxy of now; a kill puts another one in its place.
struct Serving {
    proxy: Proxy,
    store: Store,
}

fn serve(disk: &Arc<Slow>) -> Serving {
    let options =
        Options { size: Some(SIZE as u64), packet: 64 << 10, flush_interval: FLUSH, ..Options::at("") };
    let store = Store::over(disk.clone(), &options).unwrap();
    let proxy = Proxy::over(Some(store.clone()), |settings| {
        settings.admin = Some("127.0.0.1:0".parse().unwrap());
        settings.workers = 2;
        settings.bounds.memory_bytes = 512 << 10;
        settings.bounds.window_bytes = 64 << 10;
        settings.bounds.finish_bytes = 16 << 10;
        settings.timeouts.drain = Duration::from_millis(20);
    });
    Serving { proxy, store }
}

/// Some are asked for, changed and purged far more often than others.
fn some_path(rng: &mut StdRng) -> usize {
    (0..3).map(|_| rng.random_range(0..PATHS)).min().unwrap_or_default()
}

/// `kills` there were when it was decided.
async fn get(world: Arc<World>, kills: usize, address: SocketAddr, at: SocketAddr, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let path = some_path(&mut rng);
    let flavour = ["sweet", "sour"][rng.random_range(0..2)];
    let method = if rng.random_bool(0.1) { "HEAD" } else { "GET" };
    let mut fields = format!("X-Flavour: {flavour}\r\n");
    if method == "GET" && rng.random_bool(0.2) {
        let first = rng.random_range(0..kind_of(path).length);
        fields += &format!("Range: bytes={first}-{}\r\n", first + rng.random_range(0..50_000));
    }
    if rng.random_bool(0.1) {
        fields += "Cache-Control: no-cache\r\n";
    }
    let pause = rng.random_bool(0.1).then(|| Duration::from_millis(rng.random_range(1..30)));
    let floor = world.floors[path].load(SeqCst);
    let request =
        format!("{method} http://{at}/{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{fields}\r\n");
    let answer = soon(ask(address, &request, pause)).await;
    let killed = world.kills.load(SeqCst) != kills;
    let Some(answer) = answer else {
        world.saw(if killed { "killed" } else { "broken off" });
        assert!(killed || world.moody.load(SeqCst), "no answer to {request}");
        return;
    };
    let status = answer.head.split(' ').nth(1).unwrap();
    let said = field(&answer.head, "cache-status").unwrap_or("-");
    world.saw(&format!("{status} {}", said.split("; ttl").next().unwrap()));
    match status {
        // A floor from before a kill need not hold after it.
        "200" | "206" if method == "GET" => {
            check(&answer, path, flavour, if killed { 0 } else { floor }, &request)
        }
        "200" => {}
        "502" | "503" | "504" => assert!(killed || world.moody.load(SeqCst), "{request}: {}", answer.head),
        _ => panic!("{request}: {}", answer.head),
    }
}

async fn post(world: Arc<World>, kills: usize, address: SocketAddr, at: SocketAddr, seed: u64) {
    let path = some_path(&mut StdRng::seed_from_u64(seed));
    let request = format!(
        "POST http://{at}/{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"
    );
    let answer = soon(ask(address, &request, None)).await;
    if world.kills.load(SeqCst) != kills {
        return;
    }
    let answer = answer.expect("an answer to a POST");
    assert!(answer.head.starts_with("HTTP/1.1 200"), "{}", answer.head);
    for changed in field(&answer.head, "x-changed").unwrap().split(',') {
        let (path, version) = changed.split_once('=').unwrap();
        world.removed(path.parse().unwrap(), version.parse().unwrap(), false);
    }
    world.saw("posted");
}

async fn purge(world: Arc<World>, kills: usize, admin: SocketAddr, at: SocketAddr, seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let path = some_path(&mut rng);
    let (what, paths): (String, Vec<usize>) = match rng.random_range(0..10) {
        0..5 => (format!("url=http://{at}/{path}"), vec![path]),
        5..7 => {
            let covered = |n: &usize| n.to_string().starts_with(&path.to_string());
            (format!("prefix=http://{at}/{path}"), (0..PATHS).filter(covered).collect())
        }
        7 => ("group=one".into(), (0..PATHS).filter(|n| kind_of(*n).fields.contains("\"one\"")).collect()),
        8 => (format!("host={}", at.ip()), (0..PATHS).collect()),
        _ => ("all".into(), (0..PATHS).collect()),
    };
    // The origin changes, and then says so by a purge.
    let versions: Vec<u64> = paths.iter().map(|n| world.versions[*n].fetch_add(1, SeqCst) + 1).collect();
    let request = format!("POST /purge?{what} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let answer = soon(ask(admin, &request, None)).await;
    if world.kills.load(SeqCst) != kills {
        return;
    }
    let answer = answer.expect("an answer to a purge");
    assert!(
        answer.head.starts_with("HTTP/1.1 200"),
        "{} {}",
        answer.head,
        String::from_utf8_lossy(&answer.body)
    );
    paths.into_iter().zip(versions).for_each(|(path, version)| world.removed(path, version, true));
    world.saw("purged");
}

async fn history(seed: u64) -> HashMap<String, usize> {
    let mut rng = StdRng::seed_from_u64(seed);
    let disk = Arc::new(Slow(SimDisk::new(SIZE, StdRng::seed_from_u64(rng.next_u64()))));
    let world = World::new();
    let origin = origin(world.clone(), rng.next_u64()).await;
    let at = origin.address;
    let mut serving = serve(&disk);
    let mut tasks = JoinSet::new();
    for _ in 0..rng.random_range(200..500) {
        while tasks.len() >= 48 {
            tasks.join_next().await.unwrap().unwrap();
        }
        let (proxy, admin) = (serving.proxy.address, serving.proxy.admin_address());
        let (kills, seed) = (world.kills.load(SeqCst), rng.next_u64());
        match rng.random_range(0..1000) {
            0..40 => drop(tasks.spawn(post(world.clone(), kills, proxy, at, seed))),
            40..70 => drop(tasks.spawn(purge(world.clone(), kills, admin, at, seed))),
            70..80 => {
                // For a while no write gets through.
                disk.0.set_faults(Faults { write: 1000, ..Faults::default() });
                *world.failing.lock().unwrap() = Some(Instant::now());
                let (disk, world) = (disk.clone(), world.clone());
                tasks.spawn(async move {
                    tokio::time::sleep(Duration::from_millis(seed % 300)).await;
                    disk.0.set_faults(Faults::default());
                    *world.failing.lock().unwrap() = Some(Instant::now());
                });
            }
            80..85 => {
                world.kills.fetch_add(1, SeqCst);
                let Serving { proxy, store } = serving;
                world.after_kill();
                let store = tokio::task::spawn_blocking(move || store.abandon());
                soon(store).await.unwrap();
                proxy.stop();
                proxy.ended().await;
                // Whoever asked the one that was killed has been told so.
                while tasks.join_next().await.is_some_and(|done| {
                    done.unwrap();
                    true
                }) {}
                disk.0.set_faults(Faults::default());
                world.after_kill();
                serving = serve(&disk);
            }
            85..150 => tokio::time::sleep(Duration::from_millis(seed % 12)).await,
            _ => drop(tasks.spawn(get(world.clone(), kills, proxy, at, seed))),
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    // In the end everything works again, and what is stored is found.
    disk.0.set_faults(Faults::default());
    world.moody.store(false, SeqCst);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let mut hits = 0;
    for path in 0..PATHS {
        for _ in 0..2 {
            let request = format!(
                "GET http://{at}/{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nX-Flavour: sour\r\n\r\n"
            );
            let floor = world.floors[path].load(SeqCst);
            let answer = soon(ask(serving.proxy.address, &request, None)).await.expect("an answer");
            check(&answer, path, "sour", floor, "in the end");
            hits += usize::from(field(&answer.head, "cache-status").unwrap().contains("hit"));
        }
    }
    assert!(hits >= PATHS / 3, "only {hits} hits in the end");
    let Serving { proxy, store } = serving;
    proxy.stop();
    proxy.ended().await;
    tokio::task::spawn_blocking(move || store.close()).await.unwrap();
    world.seen.lock().unwrap().clone()
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn random_histories() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (base, runs) = (number("COSM_SEED", 1), number("COSM_HISTORIES", 16));
    println!("seeds {base}..{} (COSM_SEED and COSM_HISTORIES change them)", base + runs);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, SeqCst);
        hook(panic);
    }));
    let next = AtomicU64::new(base);
    let all = Mutex::new(HashMap::<String, usize>::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, SeqCst);
                    if seed >= base + runs || PANICS.load(SeqCst) > 0 {
                        return;
                    }
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    let seen = std::panic::catch_unwind(|| runtime.block_on(history(seed)));
                    let Ok(seen) = seen else {
                        println!("seed {seed} failed");
                        return;
                    };
                    for (what, count) in seen {
                        *all.lock().unwrap().entry(what).or_default() += count;
                    }
                }
            });
        }
    });
    let mut all: Vec<_> = all.into_inner().unwrap().into_iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (what, count) in &all {
        println!("{count:6} {what}");
    }
    assert_eq!(PANICS.load(SeqCst), 0, "something panicked");
    let of = |part: &str| all.iter().filter(|(what, _)| what.contains(part)).map(|(_, n)| n).sum::<usize>();
    assert!(of("cosm; hit") * 10 > of("200 "), "too few hits for this to say much");
}
