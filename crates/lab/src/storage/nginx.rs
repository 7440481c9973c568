//! A file for each object, named by a hash, as nginx's proxy_cache (ngx_http_proxy_module; src/http/ngx_http_file_cache.c):
//! levels=1:2, use_temp_path=off, all else as by default, but nothing is too long unused.
//!
//! A file is written under a temporary name and renamed. What is stored, and what was used least lately, is known in memory; a
//! manager looks every ten seconds, and unlinks while there is too much: a hundred files or for 200 ms, then it rests for 50 ms.

use super::record::put_head;
use super::{Outcome, Storage};
use crate::layout::check;
use crate::medium::{Dir, Failed, Medium, ROOT};
use crate::object::Version;
use policy::collections::lru::Lru;
use trace::Access;
use trace::random::mix;

/// Bytes of a file's head, of its first read and of the others, of a write, and of what is counted of the filesystem.
const HEAD: u64 = 344;
const FIRST_READ: usize = 4096;
const READ: usize = 32 << 10;
const WRITE: usize = 8192;
const BLOCK: u64 = 4096;
/// Of the manager: files at once, seconds for them, seconds of rest, seconds until it looks again.
const FILES: u64 = 100;
const THRESHOLD: f64 = 0.2;
const REST: f64 = 0.05;
const LOOK_EVERY: f64 = 10.0;

pub struct Nginx {
    most: u64,
    /// Of the files, in blocks.
    bytes: u64,
    directories: Vec<Dir>,
    kept: Lru<u64, Version>,
    temporary: u64,
    next_look: f64,
    buffer: Vec<u8>,
}

impl Nginx {
    /// Bytes of files beyond which the manager unlinks.
    pub fn new(most: u64) -> Nginx {
        Nginx {
            most,
            bytes: 0,
            directories: Vec::new(),
            kept: Lru::default(),
            temporary: u64::MAX,
            next_look: 0.0,
            buffer: Vec::new(),
        }
    }

    /// Directory and name: the last digit of the hash, then the two before it.
    fn path(&self, object: u64) -> (Dir, u64) {
        let hash = mix(object);
        (self.directories[(hash % 16 * 256 + hash / 16 % 256) as usize], hash)
    }

    fn manage(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        let began = medium.seconds();
        if began < self.next_look {
            return Ok(());
        }
        self.next_look = began + LOOK_EVERY;
        let mut files = 0;
        while self.bytes >= self.most
            && let Some((object, version)) = self.kept.pop_oldest()
        {
            let (dir, name) = self.path(object);
            medium.unlink(dir, name)?;
            self.bytes -= blocks(version.object.size);
            files += 1;
            if files >= FILES || medium.seconds() - began >= THRESHOLD {
                self.next_look = medium.seconds() + REST;
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, medium: &mut dyn Medium, id: u64) -> Result<(), Failed> {
        let (dir, name) = self.path(id);
        let Some(Version { object, .. }) = self.kept.peek(&id) else { return Ok(()) };
        let file = medium.open(dir, name)?;
        self.buffer.resize((HEAD + object.size) as usize, 0);
        let (first, rest) = self.buffer.split_at_mut(FIRST_READ.min((HEAD + object.size) as usize));
        medium.read(file, 0, first)?;
        let mut at = first.len() as u64;
        for piece in rest.chunks_mut(READ) {
            medium.read(file, at, piece)?;
            at += piece.len() as u64;
        }
        check(object, 0, &self.buffer[HEAD as usize..])?;
        medium.close(file)
    }

    fn write(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<(), Failed> {
        let (dir, name) = self.path(access.object);
        self.temporary -= 1;
        let file = medium.create(dir, self.temporary)?;
        let version = Version::of(access);
        self.buffer.clear();
        self.buffer.resize((HEAD + access.size) as usize, 0);
        let (head, body) = self.buffer.split_at_mut(HEAD as usize);
        put_head(&version.object, [0, 0], head);
        version.object.fill(0, body);
        let mut at = 0;
        for piece in self.buffer.chunks(WRITE) {
            medium.write(file, at, piece)?;
            at += piece.len() as u64;
        }
        medium.rename(dir, self.temporary, name)?;
        medium.close(file)?;
        self.bytes += blocks(access.size);
        let before = self.kept.insert(access.object, version);
        self.bytes -= before.map_or(0, |before| blocks(before.object.size));
        Ok(())
    }
}

/// What a file counts.
fn blocks(size: u64) -> u64 {
    (HEAD + size).next_multiple_of(BLOCK)
}

impl Storage for Nginx {
    fn prepare(&mut self, medium: &mut dyn Medium) -> Result<(), Failed> {
        for upper in 0..16 {
            let dir = medium.mkdir(ROOT, upper)?;
            for lower in 0..256 {
                self.directories.push(medium.mkdir(dir, lower)?);
            }
        }
        Ok(())
    }

    fn get(&mut self, medium: &mut dyn Medium, access: &Access) -> Result<Outcome, Failed> {
        self.manage(medium)?;
        if self.kept.get(&access.object).is_some_and(|version| version.answers(access)) {
            self.read(medium, access.object)?;
            return Ok(Outcome::Hit);
        }
        if blocks(access.size) > self.most {
            return Ok(Outcome::Passed);
        }
        self.write(medium, access)?;
        Ok(Outcome::Stored)
    }

    fn finish(&mut self, _medium: &mut dyn Medium) -> Result<(), Failed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Counted;
    use crate::medium::drive::ST15150W;
    use crate::medium::filesystem::{FileSystem, ULTRA_1};

    #[test]
    fn the_manager_comes_round_and_takes_what_was_used_least_lately() {
        let (mut nginx, mut ufs) = (Nginx::new(100 * BLOCK), FileSystem::new(ST15150W, ULTRA_1));
        nginx.prepare(&mut ufs).unwrap();
        let mut counted = Counted::new(&mut ufs);
        let mut ask = |nginx: &mut Nginx, object, modified| {
            let access = Access { object, size: 3000, modified, ..Access::default() };
            nginx.get(&mut counted, &access).unwrap()
        };
        assert_eq!(ask(&mut nginx, 0, 1), Outcome::Stored);
        let mut most = 0;
        for object in 1..2000 {
            assert_eq!(ask(&mut nginx, object, 1), Outcome::Stored);
            assert_eq!(ask(&mut nginx, 0, 1), Outcome::Hit, "it is used all the time");
            assert_eq!(nginx.bytes, nginx.kept.count() as u64 * BLOCK);
            most = most.max(nginx.kept.count());
        }
        assert!(most > 101, "more than may be until the manager looks, {most}");
        assert!(nginx.kept.count() < 1000, "{}", nginx.kept.count());
        let unlinked = 2000 - nginx.kept.count() as u64;
        assert_eq!(ask(&mut nginx, 0, 2), Outcome::Stored, "the file of the new version takes the name");
        assert_eq!(ask(&mut nginx, 0, 2), Outcome::Hit);
        let operations = &counted.operations.0;
        assert_eq!((operations["create"], operations["rename"]), (2001, 2001));
        assert!(operations["unlink"].abs_diff(unlinked) <= 2 * FILES);
    }
}
