//! What processes and the device did, as the kernel counts it.

use rustix::process::{Pid, Resource, getrlimit, setrlimit};
use serde::Serialize;
use std::fs::read_to_string;
use std::ops::Sub;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// One process since it started.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Process {
    pub user_seconds: f64,
    pub system_seconds: f64,
    /// Caused to be read from and written to the device.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

impl Process {
    pub fn of(pid: Pid) -> Result<Process, String> {
        let stat = read(&format!("/proc/{pid}/stat"))?;
        let io = read(&format!("/proc/{pid}/io"))?;
        let (user, system) = ticks(&stat).ok_or("/proc/PID/stat is not understood")?;
        let second = rustix::param::clock_ticks_per_second() as f64;
        Ok(Process {
            user_seconds: user as f64 / second,
            system_seconds: system as f64 / second,
            read_bytes: named(&io, "read_bytes:").unwrap_or(0),
            written_bytes: named(&io, "write_bytes:").unwrap_or(0),
        })
    }

    /// Of a process and all below it that still live.
    pub fn of_tree(pid: Pid) -> Process {
        tree(pid).into_iter().filter_map(|pid| Process::of(pid).ok()).fold(Process::default(), Process::add)
    }

    fn add(self, other: Process) -> Process {
        Process {
            user_seconds: self.user_seconds + other.user_seconds,
            system_seconds: self.system_seconds + other.system_seconds,
            read_bytes: self.read_bytes + other.read_bytes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }

    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

impl Sub for Process {
    type Output = Process;
    fn sub(self, before: Process) -> Process {
        Process {
            user_seconds: self.user_seconds - before.user_seconds,
            system_seconds: self.system_seconds - before.system_seconds,
            read_bytes: self.read_bytes - before.read_bytes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

/// A process and all below it.
pub fn tree(pid: Pid) -> Vec<Pid> {
    std::iter::once(pid).chain(below(pid)).collect()
}

/// All processes that come from one, but not itself.
pub fn below(pid: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| read_to_string(thread.path().join("children")).ok());
    let children: Vec<Pid> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|number| Pid::from_raw(number.parse().ok()?))
        .collect();
    children.into_iter().flat_map(tree).collect()
}

/// What a process and all below it hold in memory that the kernel cannot take away for others: private and shared
/// memory, each shared page counted once; not the pages of files.
pub fn held(pid: Pid) -> Result<u64, String> {
    let each = tree(pid).into_iter().map(|pid| {
        let rollup = read(&format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        named(&rollup, "Pss_Anon:").unwrap_or(0) + named(&rollup, "Pss_Shmem:").unwrap_or(0)
    });
    match each.sum::<u64>() {
        0 => Err("/proc/PID/smaps_rollup tells nothing".into()),
        kibibytes => Ok(kibibytes << 10),
    }
}

/// Resident bytes of a process.
pub fn resident(pid: Pid) -> Result<u64, String> {
    let status = read(&format!("/proc/{pid}/status"))?;
    named(&status, "VmRSS:").map(|kibibytes| kibibytes << 10).ok_or_else(|| "no VmRSS".into())
}

/// The most that it ever was.
pub fn most_resident(pid: Pid) -> Result<u64, String> {
    let status = read(&format!("/proc/{pid}/status"))?;
    named(&status, "VmHWM:").map(|kibibytes| kibibytes << 10).ok_or_else(|| "no VmHWM".into())
}

/// How many a process has of what its folder lists: open files (`fd`), threads (`task`).
pub fn entries(pid: Pid, of: &str) -> Result<u64, String> {
    let path = format!("/proc/{pid}/{of}");
    let entries = std::fs::read_dir(&path).map_err(|e| format!("{path}: {e}"))?;
    Ok(entries.count() as u64)
}

/// Bytes that the kernel holds for TCP, of all programs.
pub fn kernel_for_tcp() -> Option<u64> {
    let text = read_to_string("/proc/net/sockstat").ok()?;
    let line = text.lines().find(|line| line.starts_with("TCP:"))?;
    let pages: u64 = line.split_once(" mem ")?.1.split_whitespace().next()?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Raises the limit of open files as far as the system lets us, and says what it is.
pub fn many_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// One block device since the machine started; everyone's traffic is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

/// Sectors of /proc/diskstats, whatever the device's own are.
const SECTOR: u64 = 512;

impl Device {
    /// The device under `path`; `None` where the file system has none of its own.
    pub fn under(path: &Path) -> Option<Device> {
        let device = std::fs::metadata(path).ok()?.dev();
        let number = (rustix::fs::major(device), rustix::fs::minor(device));
        device_line(&read_to_string("/proc/diskstats").ok()?, number)
    }
}

impl Sub for Device {
    type Output = Device;
    fn sub(self, before: Device) -> Device {
        Device {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
        }
    }
}

/// Processor seconds that the whole machine has been busy, all cores together.
pub fn machine_busy() -> Option<f64> {
    let stat = read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|&at| fields.get(at)).sum();
    Some(busy as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// utime and stime. The program's name stands in parentheses and may hold anything.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn named(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn device_line(diskstats: &str, (major, minor): (u32, u32)) -> Option<Device> {
    diskstats.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        (number(0)? == u64::from(major) && number(1)? == u64::from(minor)).then_some(())?;
        Some(Device {
            reads: number(3)?,
            read_bytes: number(5)? * SECTOR,
            writes: number(7)?,
            written_bytes: number(9)? * SECTOR,
        })
    })
}

fn read(path: &str) -> Result<String, String> {
    read_to_string(path).map_err(|e| format!("{path}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_stand_after_any_name() {
        let stat = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 700 80 0 0 20";
        assert_eq!(ticks(stat), Some((700, 80)));
    }

    #[test]
    fn named_figures() {
        assert_eq!(named("rchar: 5\nread_bytes: 4096\n", "read_bytes:"), Some(4096));
        assert_eq!(named("VmRSS:\t  120 kB\n", "VmRSS:"), Some(120));
        assert_eq!(named("x: 1\n", "y:"), None);
    }

    #[test]
    fn the_device_is_found_by_its_number() {
        let text =
            " 7 0 loop0 1 1 1 1 1 1 1 1 0 0 0\n 254 0 vda 10 0 16 3 20 0 4096 9 0 15 14 7 72 34 9 4 1\n";
        let found = Device { reads: 10, read_bytes: 8192, writes: 20, written_bytes: 4096 * 512 };
        assert_eq!(device_line(text, (254, 0)), Some(found));
        assert_eq!(device_line(text, (254, 1)), None);
    }
}
