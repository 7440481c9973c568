//! A file an object in 16×256 directories, as Squid's ufs has them.

use super::{Contender, Opened, Place};
use crate::drive::{self, Answer, Ask, Tally};
use crate::object::{Bodies, key};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

struct Files {
    folder: PathBuf,
    bodies: Bodies,
    /// Objects that there may be: with the next one the oldest goes. Numbers rise, so that no queue is needed.
    most: u64,
    body: usize,
}

pub fn open(place: &Place) -> Opened {
    let folder = place.folder.join("files");
    if !place.again {
        for (upper, lower) in (0..16).flat_map(|upper| (0..256).map(move |lower| (upper, lower))) {
            let folder = folder.join(format!("{upper:02X}/{lower:02X}"));
            std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
    }
    let (bodies, body) = (Bodies::new(place.body), place.body);
    let most = (place.capacity / (super::named("files").expect("it is this one").takes)(body as u64))
        .min(place.objects);
    Ok(Box::new(Files { folder, bodies, most, body }))
}

fn path(folder: &Path, number: u64) -> PathBuf {
    let hash = xxh3_64(&key(number));
    folder.join(format!("{:02X}/{:02X}/{hash:016X}", hash >> 60, (hash >> 52) & 0xff))
}

impl Contender for Files {
    fn put(&mut self, number: u64, body: &[u8]) -> Result<(), String> {
        let path = self::path(&self.folder, number);
        let say = |e| format!("{}: {e}", path.display());
        File::create(&path).and_then(|mut file| file.write_all(body)).map_err(say)?;
        if let Some(oldest) = number.checked_sub(self.most) {
            std::fs::remove_file(self::path(&self.folder, oldest)).map_err(say)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let folder = File::open(&self.folder).map_err(|e| e.to_string())?;
        rustix::fs::syncfs(folder).map_err(|e| format!("syncfs: {e}"))
    }

    fn gets(&mut self, ask: &Ask) -> Result<Tally, String> {
        let (folder, bodies, length) = (&self.folder, &self.bodies, self.body);
        Ok(drive::threads(ask, || {
            let mut buffer = vec![0; length + 1];
            move |number| match File::open(path(folder, number)).map(|mut file| file.read(&mut buffer)) {
                Ok(Ok(read)) if bodies.is(number, &buffer[..read]) => Answer::Hit,
                Ok(_) => Answer::Wrong,
                Err(_) => Answer::Miss,
            }
        }))
    }
}
