//! Which device a directory lies on, and what the kernel has counted of it.

use crate::block::SECTOR;
use crate::medium::{Busy, Traffic};
use rustix::fs::{major, minor};
use std::fs::{metadata, read_to_string};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A device, or a partition of one.
#[derive(Clone, Debug)]
pub struct Disk {
    pub name: String,
    /// Major and minor: its own, and those of the whole device.
    pub number: (u32, u32),
    pub whole: (u32, u32),
    /// Where it lies on the whole device, when it is a partition.
    pub sectors: Option<Range<u64>>,
    /// Whether the kernel tells of its requests; it does not of those that are made of other devices.
    pub tells: bool,
}

impl Disk {
    /// An error says why nothing can be counted.
    pub fn of(directory: &Path) -> Result<Disk, String> {
        let at = |error: std::io::Error| format!("{}: {error}", directory.display());
        let number = metadata(directory).map_err(at)?.dev();
        let number = (major(number), minor(number));
        let known = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
        let known = known.canonicalize().map_err(|_| {
            format!(
                "{}: device {}:{} is no disk (an overlay, memory or network filesystem): \
                 nobody counts what it reads and writes",
                directory.display(),
                number.0,
                number.1
            )
        })?;
        let is_part = known.join("partition").exists();
        let whole = known.parent().filter(|_| is_part).unwrap_or(&known);
        let sectors = is_part.then(|| partition(&known)).flatten();
        let text = read_to_string(whole.join("dev")).map_err(at)?;
        let numbers = text.trim().split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        Ok(Disk {
            name: known.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned()),
            number,
            whole: numbers.ok_or_else(|| format!("{}: `{}` is no device", whole.display(), text.trim()))?,
            sectors,
            tells: whole.join("mq").exists(),
        })
    }

    /// What it did since the machine was started, whoever asked.
    pub fn counts(&self) -> Result<(Traffic, Busy), String> {
        let text = read_to_string("/proc/diskstats").map_err(|error| format!("/proc/diskstats: {error}"))?;
        of_diskstats(&text, self.number)
    }
}

fn partition(known: &Path) -> Option<Range<u64>> {
    let number = |file: &str| read_to_string(known.join(file)).ok()?.trim().parse::<u64>().ok();
    let start = number("start")?;
    Some(start..start + number("size")?)
}

/// The row of one device in /proc/diskstats: major, minor, name, reads, merged, sectors, milliseconds, writes, merged, sectors,
/// milliseconds.
pub fn of_diskstats(text: &str, number: (u32, u32)) -> Result<(Traffic, Busy), String> {
    let begins = [number.0.to_string(), number.1.to_string()];
    let row = text.lines().find(|line| line.split_whitespace().take(2).eq(begins.iter().map(String::as_str)));
    let missing = || format!("/proc/diskstats has no device {}:{}", number.0, number.1);
    let words: Vec<&str> = row.ok_or_else(missing)?.split_whitespace().collect();
    let field = |at: usize| {
        let known = words.get(at).and_then(|word| word.parse::<u64>().ok());
        known.ok_or_else(|| {
            format!("/proc/diskstats: field {} of {} is no number", at + 1, words[2..].join(" "))
        })
    };
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR as u64);
    let traffic = Traffic {
        reads: field(3)?,
        writes: field(7)?,
        bytes_read: bytes(field(5)?),
        bytes_written: bytes(field(9)?),
    };
    let seconds = |millis: u64| millis as f64 / 1000.0;
    Ok((traffic, Busy { reads: seconds(field(6)?), writes: seconds(field(10)?) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_is_found_by_its_numbers() {
        let text =
            " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 254 1 vda1 10 0 80 7 20 0 160 9 0 0 0 0 0 0 0\n 25 41 x\n";
        let traffic = Traffic { reads: 10, writes: 20, bytes_read: 80 * 512, bytes_written: 160 * 512 };
        let busy = Busy { reads: 0.007, writes: 0.009 };
        assert_eq!(of_diskstats(text, (254, 1)), Ok((traffic, busy)));
        assert!(of_diskstats(text, (7, 0)).unwrap_err().contains("no device 7:0"));
        assert!(of_diskstats(text, (25, 41)).unwrap_err().contains("field 4"));
        assert!(of_diskstats("8 0 sda 1 2 x 4 5 6 7 8", (8, 0)).unwrap_err().contains("field 6"));
    }

    #[test]
    fn memory_has_no_device() {
        if Path::new("/dev/shm").is_dir() {
            assert!(Disk::of(Path::new("/dev/shm")).unwrap_err().contains("is no disk"));
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_row_or_none(text in "([0-9a-z .:-]{0,40}\n){0,6}", major in 0u32..10, minor in 0u32..10) {
            let _ = of_diskstats(&text, (major, minor));
        }
    }
}
