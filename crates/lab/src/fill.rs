//! The production store filled with synthetic objects, for measurements of it alone and of `cosm serve` upon it.

use crate::object::Object;
use crate::response;
use std::time::Duration;
use store::{Key, Refused, Store};
use trace::random::{Random, mix};

/// Objects lie under `http://fill.invalid/0` and so on.
pub const HOST: &str = "fill.invalid";
/// How long a store that is behind is left alone before it is asked again.
const PAUSE: Duration = Duration::from_millis(1);
/// Objects between two reports of progress.
const REPORT: u64 = 10_000;

/// What is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub objects: u64,
    /// Bytes of a body; sizes follow an exponential distribution.
    pub mean_size: f64,
    pub seed: u64,
}

/// What was taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    pub objects: u64,
    /// Keys, heads and bodies; and bodies alone.
    pub bytes: u64,
    pub body_bytes: u64,
    /// Larger than the store admits.
    pub refused: u64,
}

impl Wanted {
    /// The nth object, from 0 on: its size and its bytes.
    pub fn object(&self, nth: u64) -> Object {
        let id = mix(self.seed ^ mix(nth + 1));
        let size = Random::of(id).exponential(self.mean_size).ceil().max(1.0) as u64;
        Object { id, size, ..Object::default() }
    }
}

/// Of the nth object.
pub fn key(nth: u64) -> Key {
    response::key(HOST, &format!("/{nth}"))
}

/// What is stored with a body: the head of a response that came at `now`, seconds since 1970, and stays fresh for years.
pub fn meta(now: u64) -> Result<Vec<u8>, String> {
    Ok(response::head(now, None)?.encode())
}

/// Puts all, as responses that came at `now` (seconds since 1970) and stay fresh for years; `progress` is told how many it
/// was given and how many of them it took, half of all among them. What is put is not yet all written. An error is one line.
pub fn fill(
    store: &Store,
    wanted: &Wanted,
    now: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Taken, String> {
    let meta = meta(now)?;
    let (mut taken, mut body) = (Taken::default(), Vec::new());
    for nth in 0..wanted.objects {
        let object = wanted.object(nth);
        let key = key(nth);
        body.resize(object.size as usize, 0);
        object.fill(0, &mut body);
        match put(store, &key, &meta, &body) {
            Ok(()) => {
                taken.objects += 1;
                taken.bytes += (key.bytes().len() + meta.len() + body.len()) as u64;
                taken.body_bytes += object.size;
            }
            Err(Refused::TooLarge) => taken.refused += 1,
            Err(_) => return Err(format!("the disk fails: it took {nth} objects and then no more")),
        }
        let given = nth + 1;
        if given % REPORT == 0 || given == wanted.objects / 2 {
            progress(given, taken.objects);
        }
    }
    Ok(taken)
}

/// Waits while the store is behind.
fn put(store: &Store, key: &Key, meta: &[u8], body: &[u8]) -> Result<(), Refused> {
    if body.len() <= store.span_size() {
        return patiently(|| store.put(key, meta, body));
    }
    let (mut writer, mut left) = (store.begin(key, Some(body.len() as u64))?, body);
    patiently(|| writer.push(&mut left))?;
    patiently(|| writer.finish(meta))
}

fn patiently(mut attempt: impl FnMut() -> Result<(), Refused>) -> Result<(), Refused> {
    loop {
        match attempt() {
            Err(Refused::Busy) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_the_seed_and_have_their_mean() {
        let wanted = Wanted { objects: 20_000, mean_size: 1024.0, seed: 5 };
        let whole: u64 = (0..wanted.objects).map(|nth| wanted.object(nth).size).sum();
        let mean = whole as f64 / wanted.objects as f64;
        assert!((1000.0..1050.0).contains(&mean), "{mean}");
        let short = (0..wanted.objects).filter(|nth| wanted.object(*nth).size <= 710).count();
        assert!((9_500..10_500).contains(&short), "half are shorter than the mean times ln 2: {short}");
        assert_eq!(wanted.object(77), Wanted { objects: 1, ..wanted }.object(77));
        assert_ne!(wanted.object(77), Wanted { seed: 6, ..wanted }.object(77));
    }
}
