//! The workload: the first 10,000 requests of a real trace, or a part of it continued by a synthetic tail.

use super::random::Random;
use std::collections::HashMap;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

pub const REQUESTS: usize = 10_000;
/// The whole trace, in the folder that the environment variable COSM_TRACES names.
const TRACE: &str = "bu-272-net.tsv.zst";
const TAIL_SEED: u64 = 1995;

pub struct Request {
    /// Where the test's origin has it; different for different URLs.
    pub path: String,
    pub version: u32,
    pub length: usize,
    /// The first request for a version after another one of the same URL.
    pub changed: bool,
}

/// The requests, and in words where they come from.
pub fn workload() -> (Vec<Request>, String) {
    let (mut rows, source) = match std::env::var_os("COSM_TRACES") {
        Some(folder) => {
            let path = PathBuf::from(folder).join(TRACE);
            let mut text = Vec::new();
            let file = std::fs::File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            ruzstd::decoding::StreamingDecoder::new(file).unwrap().read_to_end(&mut text).unwrap();
            (rows(&text), format!("the first {REQUESTS} requests of {TRACE}"))
        }
        None => {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bu-272-net.head.tsv");
            let rows = rows(&std::fs::read(path).unwrap());
            let source = format!(
                "{} rows of the fixture and a Zipf tail of seed {TAIL_SEED} (COSM_TRACES is not set)",
                rows.len()
            );
            (rows, source)
        }
    };
    rows.truncate(REQUESTS);
    let missing = REQUESTS - rows.len();
    rows.extend(zipf_tail(missing, &mut Random(TAIL_SEED)));
    (versions(rows), source)
}

/// URL and size of each row that has a size.
fn rows(text: &[u8]) -> Vec<(Vec<u8>, usize)> {
    text.split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let columns: Vec<&[u8]> = line.split(|&b| b == b'\t').collect();
            let size = std::str::from_utf8(columns[6]).unwrap().parse().unwrap();
            (columns[5].to_vec(), size)
        })
        .filter(|(_, size)| *size > 0)
        .collect()
}

/// A reply is unchanged when its size is within 5 % + 16 bytes of the last one; then the object keeps the size of its
/// version (recorded sizes include response headers, and so jitter).
fn versions(rows: Vec<(Vec<u8>, usize)>) -> Vec<Request> {
    struct Known {
        version: u32,
        length: usize,
        last: usize,
    }
    let mut known: HashMap<Vec<u8>, Known> = HashMap::new();
    rows.into_iter()
        .map(|(url, size)| {
            let path = path_of(&url);
            let first = Known { version: 0, length: size, last: size };
            let now = known.entry(url).or_insert(first);
            let changed = 20 * size.abs_diff(now.last) > now.last + 16 * 20;
            if changed {
                now.version += 1;
                now.length = size;
            }
            now.last = size;
            Request { path, version: now.version, length: now.length, changed }
        })
        .collect()
}

/// `/host/path`, with what a request line must not hold, and what has a meaning there, percent-encoded.
fn path_of(url: &[u8]) -> String {
    let rest = url.strip_prefix(b"http://").unwrap_or(url);
    rest.iter().fold(String::from("/"), |mut path, &byte| {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            path.push(byte as char);
        } else {
            write!(path, "%{byte:02X}").unwrap();
        }
        path
    })
}

/// Zipf's law with exponent 0.8 over 6,000 objects; sizes with a heavy tail, and one reply in a hundred has changed.
fn zipf_tail(count: usize, random: &mut Random) -> Vec<(Vec<u8>, usize)> {
    const OBJECTS: usize = 6_000;
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=OBJECTS)
        .map(|rank| {
            sum += (rank as f64).powf(-0.8);
            sum
        })
        .collect();
    let draw_size =
        |random: &mut Random| ((1_500.0 * (1.0 - random.unit()).powf(-0.9)) as usize).min(4 << 20);
    let mut sizes: Vec<usize> = (0..OBJECTS).map(|_| draw_size(random)).collect();
    (0..count)
        .map(|_| {
            let point = random.unit() * sum;
            let rank = sums.partition_point(|s| *s < point).min(OBJECTS - 1);
            if random.below(100) == 0 {
                sizes[rank] = draw_size(random);
            }
            (format!("http://host{}.example/{rank}.html", rank % 97).into_bytes(), sizes[rank])
        })
        .collect()
}
