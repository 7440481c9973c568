//! The bytes of an object: different for every URL and version, and the same wherever they are asked for.

use super::random::Random;

pub fn body(name: &str, version: u32, length: usize) -> Vec<u8> {
    let mut stream = Random(seed(name, version));
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&stream.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// An entity tag of the same length for every object.
pub fn etag(name: &str, version: u32) -> String {
    format!("\"{:016x}\"", seed(name, version))
}

fn seed(name: &str, version: u32) -> u64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    Random(hash ^ u64::from(version) << 32).next()
}
