//! The store of this repository.

use super::{Contender, Opened, Place};
use crate::drive::{self, Answer, Ask, Tally};
use crate::hollow::HollowDisk;
use crate::object::{Bodies, key};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::{Admission, Body, Key, Object, Options, Refused, Store};

const PATIENCE: Duration = Duration::from_secs(300);

struct Cosm {
    store: Store,
    bodies: Arc<Bodies>,
    path: PathBuf,
    meta: Vec<u8>,
    hollow: bool,
}

pub fn open(place: &Place) -> Opened {
    let path = place.folder.join("cache");
    let mut options = Options::at(&path);
    options.admission = Admission::All;
    options.tell = |_| ();
    // What is measured are hits: a disk that is slow for a moment is waited for.
    options.patience = Duration::from_secs(10);
    options.size = (!place.again).then_some(place.capacity);
    let opened = match &place.hollow {
        Some(hollow) if !place.again => {
            let disk = HollowDisk::make(&path, place.capacity, hollow.clone())?;
            Store::over(Arc::new(disk), &options)
        }
        _ => Store::open(&options),
    };
    let store = opened.map_err(|error| error.to_string())?;
    eprintln!("  {}", store.opened());
    let hollow = place.hollow.is_some();
    // So that `cosm serve` answers them.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let meta = if hollow { lab::fill::meta(now)? } else { Vec::new() };
    Ok(Box::new(Cosm { store, bodies: Arc::new(Bodies::new(place.body)), path, meta, hollow }))
}

fn key_of(hollow: bool, number: u64) -> Key {
    if hollow { lab::fill::key(number) } else { Key::new(key(number)) }
}

impl Contender for Cosm {
    fn put(&mut self, number: u64, body: &[u8]) -> Result<(), String> {
        let key = key_of(self.hollow, number);
        loop {
            match self.store.put(&key, &self.meta, body) {
                Ok(()) => return Ok(()),
                Err(Refused::Busy) => std::thread::sleep(Duration::from_micros(200)),
                Err(refused) => return Err(format!("the store refused an object: {refused:?}")),
            }
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        self.store.persist(PATIENCE).then_some(()).ok_or_else(|| "the store does not flush".into())
    }

    fn gets(&mut self, ask: &Ask) -> Result<Tally, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("runtime: {e}"))?;
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let reader = self.store.reader().map_err(|e| format!("reader: {e}"))?;
            let (bodies, hollow) = (self.bodies.clone(), self.hollow);
            let get = async move |number| match reader.get(&key_of(hollow, number)).await {
                Some(Object { body: Body::Whole(body), .. }) if bodies.is(number, &body) => Answer::Hit,
                Some(_) => Answer::Wrong,
                None => Answer::Miss,
            };
            Ok(drive::tasks(ask, get).await)
        })
    }

    fn settle(&mut self) {
        while self.store.stats().parts_left > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Most of a hollow one is holes, which no device reads.
    fn file(&self) -> Option<PathBuf> {
        (!self.hollow).then(|| self.path.clone())
    }
}
