//! How fast the device below a directory is: the loads of `medium::measured` on a file, past the page cache (O_DIRECT), and those of
//! `medium::file_loads` with as little memory as a filesystem can be given.
//!
//! A virtual disk's host may keep the file in its own memory; nobody inside can know.

use super::folder::Folder;
use super::{Real, Wanted};
use crate::block::Way;
use crate::medium::Failed;
use crate::medium::file_loads::{self, FILE, FILE_LOADS};
use crate::medium::measured::{LOADS, Load, Speeds};
use crate::medium::table::LEAST_MEMORY;
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use trace::random::Random;

/// Bytes that buffers and places are multiples of.
const ALIGNED: usize = 4096;

/// Makes a file of so many bytes, in a folder that is removed again, and does each load for so long; then those of so many small
/// files, whatever they take. `say` is told what comes, and what is not as wanted and yet no error.
pub fn measure(
    within: &Path,
    bytes: u64,
    time: Duration,
    files: u64,
    say: &dyn Fn(&str),
) -> Result<Speeds, Failed> {
    let mut speeds = of_device(within, bytes, time, say)?;
    let wanted =
        Wanted { within, space: 2 * files * FILE, memory: Some(LEAST_MEMORY), must: false, capture: None };
    say("small files");
    let found = file_loads::run(&mut Real::new(&wanted, say)?, files)?;
    speeds.0.extend(FILE_LOADS.iter().zip(found).map(|(load, speed)| (load.name.to_owned(), speed)));
    Ok(speeds)
}

fn of_device(within: &Path, bytes: u64, time: Duration, say: &dyn Fn(&str)) -> Result<Speeds, Failed> {
    let folder = Folder::make(within)?;
    let path = folder.path().join("measured");
    let direct = OFlags::DIRECT.bits() as i32;
    let file = File::options().read(true).write(true).create_new(true).custom_flags(direct).open(&path);
    let file = file.map_err(|error| format!("{}: past the page cache: {error}", path.display()))?;
    let mut speeds = Speeds::default();
    for (nth, load) in LOADS.iter().enumerate() {
        say(load.about);
        // The first writes all of the file, whatever that takes.
        let speed = run(&file, load, bytes, (nth > 0).then_some(time))?;
        file.sync_all().map_err(failed)?;
        speeds.0.insert(load.name.to_owned(), speed);
    }
    Ok(speeds)
}

/// Transfers a second.
fn run(file: &File, load: &Load, bytes: u64, time: Option<Duration>) -> Result<f64, Failed> {
    let (places, next, began) = (bytes / load.bytes, AtomicU64::new(0), Instant::now());
    let worker = |nth: u64| -> Result<(), Failed> {
        let mut random = Random::of(nth);
        let mut buffer = vec![0u8; load.bytes as usize + ALIGNED];
        // Nothing that a device could take for zeros.
        buffer
            .chunks_mut(8)
            .for_each(|part| part.copy_from_slice(&random.bits().to_le_bytes()[..part.len()]));
        let at = buffer.as_ptr().align_offset(ALIGNED);
        let buffer = &mut buffer[at..at + load.bytes as usize];
        loop {
            let turn = next.fetch_add(1, Relaxed);
            // However little time there is, each does something.
            if time.map_or(turn >= places, |time| turn >= load.depth as u64 && began.elapsed() >= time) {
                return Ok(());
            }
            let place = if load.random { random.below(places) } else { turn % places } * load.bytes;
            match load.way {
                Way::Read => file.read_exact_at(buffer, place).map_err(failed)?,
                Way::Write => file.write_all_at(buffer, place).map_err(failed)?,
            }
            if load.sync {
                file.sync_data().map_err(failed)?;
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..load.depth as u64)
            .map(|nth| {
                let worker = &worker;
                scope.spawn(move || worker(nth))
            })
            .collect();
        workers.into_iter().try_for_each(|one| one.join().map_err(|_| "a thread ended early".to_owned())?)
    })?;
    let done = next.into_inner() - load.depth as u64;
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

fn failed(error: std::io::Error) -> Failed {
    format!("measuring: {error}")
}
