//! A real directory: the calls go to the kernel, time is what they take by the wall's clock (what a recipe does between them is not the
//! medium's), and the device's traffic is what the kernel counted.
//!
//! Everything lies in one folder (`folder`), which is removed at the end. A control group (`group`) bounds the memory for files
//! where that is allowed. What the device does is told by block events (`events`) where that is allowed, else by
//! /proc/diskstats (`disk`); both count whatever else goes on at the device.

pub mod disk;
mod events;
mod folder;
mod group;
pub mod measure;

use super::{Busy, Dir, Failed, File, Medium, Traffic};
use disk::Disk;
use events::Events;
use folder::Folder;
use group::Group;
use rustix::fs::{Mode, OFlags, open, statvfs, syncfs};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Files that a recipe may have open at once, and some of our own.
const DESCRIPTORS: u64 = 1024;
/// Calls between looks at what the process itself takes.
const ADJUST_EVERY: u64 = 256;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Lets the next call of every real medium fail, so that what was made is removed: for signals.
pub fn stop() {
    STOPPED.store(true, Relaxed);
}

/// What is wanted of a directory.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub within: &'a Path,
    /// Bytes that must be free.
    pub space: u64,
    /// Bytes of memory for files, and whether it is an error when they cannot be bounded.
    pub memory: Option<u64>,
    pub must: bool,
    /// Gets a block trace.
    pub capture: Option<&'a Path>,
}

pub struct Real {
    /// Open files by number.
    files: Vec<Option<std::fs::File>>,
    free: Vec<u32>,
    dirs: Vec<PathBuf>,
    spent: Duration,
    calls: u64,
    counter: Counter,
    // In this order: files go while the group still bounds their memory.
    folder: Folder,
    group: Option<Group>,
}

/// Who counts what the device does.
struct Counter {
    events: Option<Events>,
    captures: bool,
    /// With what it had done, and how long it took, when counting began.
    disk: Option<(Disk, Traffic, Busy)>,
}

impl Real {
    /// Makes its folder; `say` gets what is not as wanted and yet no error.
    pub fn new(wanted: &Wanted, say: &dyn Fn(&str)) -> Result<Real, Failed> {
        has_descriptors()?;
        let folder = Folder::make(wanted.within)?;
        has_room(wanted)?;
        let group = match wanted.memory.map(Group::enter).transpose() {
            Ok(group) => group,
            Err(why) if wanted.must => return Err(format!("{why}: run as root, or with `--limit none`")),
            Err(why) => {
                say(&format!("memory for files is not bounded and may hide the disk: {why}"));
                None
            }
        };
        let mut real = Real {
            files: Vec::new(),
            free: Vec::new(),
            dirs: vec![folder.path().to_path_buf()],
            spent: Duration::ZERO,
            calls: 0,
            counter: Counter { events: None, captures: false, disk: None },
            folder,
            group,
        };
        real.sync()?;
        if real.group.is_some() {
            // What others left in memory is of no use to us, and what we left may be.
            let _ = std::fs::write("/proc/sys/vm/drop_caches", "3");
        }
        real.counter = Counter::new(wanted, real.folder.path(), say)?;
        real.spent = Duration::ZERO;
        Ok(real)
    }

    /// Does a call, and takes its time.
    fn call<T>(&mut self, call: impl FnOnce(&mut Real) -> Result<T, Failed>) -> Result<T, Failed> {
        self.turn()?;
        let began = Instant::now();
        let done = call(self);
        self.spent += began.elapsed();
        done
    }

    /// Before each call.
    fn turn(&mut self) -> Result<(), Failed> {
        if STOPPED.load(Relaxed) {
            return Err("interrupted".into());
        }
        self.calls += 1;
        match &mut self.group {
            Some(group) if self.calls.is_multiple_of(ADJUST_EVERY) => group.adjust(),
            _ => Ok(()),
        }
    }

    fn path(&self, dir: Dir, name: u64) -> Result<PathBuf, Failed> {
        let dir = self.dirs.get(dir.0 as usize).ok_or_else(|| format!("there is no directory {}", dir.0))?;
        Ok(dir.join(format!("{name:x}")))
    }

    fn file(&self, file: File) -> Result<&std::fs::File, Failed> {
        let file = self.files.get(file.0 as usize).and_then(Option::as_ref);
        file.ok_or_else(|| "the file is not open".to_owned())
    }

    fn keep(&mut self, file: std::fs::File) -> File {
        match self.free.pop() {
            Some(number) => {
                self.files[number as usize] = Some(file);
                File(number)
            }
            None => {
                self.files.push(Some(file));
                File(self.files.len() as u32 - 1)
            }
        }
    }

    fn open_with(&mut self, path: &Path, new: bool) -> Result<File, Failed> {
        let file = std::fs::File::options().read(true).write(true).create_new(new).open(path);
        let file = file.map_err(at(path))?;
        Ok(self.keep(file))
    }
}

impl Medium for Real {
    fn mkdir(&mut self, parent: Dir, name: u64) -> Result<Dir, Failed> {
        self.call(|real| {
            let path = real.path(parent, name)?;
            std::fs::create_dir(&path).map_err(at(&path))?;
            real.dirs.push(path);
            Ok(Dir(real.dirs.len() as u32 - 1))
        })
    }

    fn create(&mut self, dir: Dir, name: u64) -> Result<File, Failed> {
        self.call(|real| {
            let path = real.path(dir, name)?;
            real.open_with(&path, true)
        })
    }

    fn open(&mut self, dir: Dir, name: u64) -> Result<File, Failed> {
        self.call(|real| {
            let path = real.path(dir, name)?;
            real.open_with(&path, false)
        })
    }

    fn close(&mut self, file: File) -> Result<(), Failed> {
        self.call(|real| {
            real.file(file)?;
            real.files[file.0 as usize] = None;
            real.free.push(file.0);
            Ok(())
        })
    }

    fn unlink(&mut self, dir: Dir, name: u64) -> Result<(), Failed> {
        self.call(|real| {
            let path = real.path(dir, name)?;
            std::fs::remove_file(&path).map_err(at(&path))
        })
    }

    fn rename(&mut self, dir: Dir, from: u64, to: u64) -> Result<(), Failed> {
        self.call(|real| {
            let (from, to) = (real.path(dir, from)?, real.path(dir, to)?);
            std::fs::rename(&from, to).map_err(at(&from))
        })
    }

    fn exists(&mut self, dir: Dir, name: u64) -> Result<bool, Failed> {
        self.call(|real| {
            let path = real.path(dir, name)?;
            path.try_exists().map_err(at(&path))
        })
    }

    /// A call, since the page cache is one: what the device is asked for is the same.
    fn store(&mut self, file: File, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.write(file, at, bytes)
    }

    fn load(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed> {
        self.read(file, at, into)
    }

    fn write(&mut self, file: File, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.call(|real| real.file(file)?.write_all_at(bytes, at).map_err(|error| format!("write: {error}")))
    }

    fn read(&mut self, file: File, at: u64, into: &mut [u8]) -> Result<(), Failed> {
        self.call(|real| {
            let (mut done, file) = (0, real.file(file)?);
            while done < into.len() {
                match file.read_at(&mut into[done..], at + done as u64) {
                    Ok(0) => break,
                    Ok(count) => done += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(format!("read: {error}")),
                }
            }
            into[done..].fill(0);
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<(), Failed> {
        self.call(|real| {
            let path = real.folder.path();
            let failed = |error: rustix::io::Errno| format!("{}: {error}", path.display());
            let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).map_err(failed)?;
            syncfs(&directory).map_err(failed)
        })
    }

    fn seconds(&self) -> f64 {
        self.spent.as_secs_f64()
    }

    fn traffic(&self) -> Traffic {
        self.counter.traffic().map_or(Traffic::default(), |(traffic, _)| traffic)
    }

    /// As diskstats tell, from when the kernel took each transfer up, with what it waited for others.
    fn busy(&self) -> Option<Busy> {
        let (disk, _, before) = self.counter.disk.as_ref()?;
        let now = disk.counts().ok()?.1;
        Some(Busy { reads: now.reads - before.reads, writes: now.writes - before.writes })
    }

    /// A block trace that was captured is whole, or the replay fails.
    fn settle(&mut self) -> Result<(), Failed> {
        self.sync()?;
        match &mut self.counter.events {
            Some(events) if self.counter.captures => events.finish(),
            _ => Ok(()),
        }
    }

    fn counted_by(&self) -> Option<&'static str> {
        self.counter.traffic().map(|(_, who)| who)
    }
}

impl Counter {
    fn new(wanted: &Wanted, folder: &Path, say: &dyn Fn(&str)) -> Result<Counter, Failed> {
        let disk = match Disk::of(folder) {
            Ok(disk) => disk,
            Err(why) if wanted.capture.is_some() => return Err(why),
            Err(why) => {
                say(&why);
                return Ok(Counter { events: None, captures: false, disk: None });
            }
        };
        let events = match Events::of(&disk, wanted.capture) {
            Ok(events) => Some(events),
            Err(why) if wanted.capture.is_some() => return Err(why),
            Err(why) => {
                say(&format!("/proc/diskstats counts, not block events: {why}"));
                None
            }
        };
        let (traffic, busy) = disk.counts()?;
        Ok(Counter { events, captures: wanted.capture.is_some(), disk: Some((disk, traffic, busy)) })
    }

    fn traffic(&self) -> Option<(Traffic, &'static str)> {
        let told = self.events.as_ref().and_then(|events| events.traffic().ok());
        told.map(|traffic| (traffic, "block events")).or_else(|| {
            let (disk, before, _) = self.disk.as_ref()?;
            let (now, _) = disk.counts().ok()?;
            let traffic = Traffic {
                reads: now.reads.saturating_sub(before.reads),
                writes: now.writes.saturating_sub(before.writes),
                bytes_read: now.bytes_read.saturating_sub(before.bytes_read),
                bytes_written: now.bytes_written.saturating_sub(before.bytes_written),
            };
            Some((traffic, "diskstats"))
        })
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> Failed {
    move |error| format!("{}: {error}", path.display())
}

fn has_room(wanted: &Wanted) -> Result<(), Failed> {
    let path = wanted.within.display();
    let there = statvfs(wanted.within).map_err(|error| format!("{path}: {error}"))?;
    let free = there.f_bavail.saturating_mul(there.f_frsize);
    match free >= wanted.space {
        true => Ok(()),
        false => Err(format!(
            "{path}: {} MB are free and {} MB needed: choose a smaller --disk, or another directory",
            free / 1_000_000,
            wanted.space / 1_000_000
        )),
    }
}

fn has_descriptors() -> Result<(), Failed> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    match allowed >= DESCRIPTORS {
        true => Ok(()),
        false => Err(format!("{allowed} open files are allowed and {DESCRIPTORS} needed: raise `ulimit -n`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ROOT;
    use super::*;

    fn wanted(within: &Path) -> Wanted<'_> {
        Wanted { within, space: 1 << 20, memory: None, must: false, capture: None }
    }

    #[test]
    fn a_file_is_what_was_written_and_nothing_is_left() {
        let place = tempfile::tempdir().unwrap();
        let mut real = Real::new(&wanted(place.path()), &|_| {}).unwrap();
        let dir = real.mkdir(ROOT, 7).unwrap();
        let file = real.create(dir, 1).unwrap();
        real.write(file, 100, b"bytes").unwrap();
        real.close(file).unwrap();
        assert!(real.read(file, 0, &mut [0]).unwrap_err().contains("not open"));
        let file = real.open(dir, 1).unwrap();
        let mut back = [9; 10];
        real.read(file, 98, &mut back).unwrap();
        assert_eq!(&back, b"\0\0bytes\0\0\0");
        real.unlink(dir, 1).unwrap();
        assert!(real.open(dir, 1).unwrap_err().contains("No such file"));
        assert!(real.seconds() > 0.0);
        drop(real);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn without_room_nothing_begins() {
        let place = tempfile::tempdir().unwrap();
        let why = Real::new(&Wanted { space: 1 << 60, ..wanted(place.path()) }, &|_| {}).err().unwrap();
        assert!(why.contains("--disk"), "{why}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn who_counts_is_told() {
        let place = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut real = Real::new(&wanted(place.path()), &|_| {}).unwrap();
        let file = real.create(ROOT, 1).unwrap();
        real.write(file, 0, &vec![1; 1 << 20]).unwrap();
        real.sync().unwrap();
        if real.counted_by().is_some() {
            assert!(real.traffic().bytes_written >= 1 << 20, "{:?}", real.traffic());
        } else {
            assert_eq!(real.traffic(), Traffic::default());
        }
    }
}
