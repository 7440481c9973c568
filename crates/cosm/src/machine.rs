//! What this machine, or the container around us, allows.

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::{Path, PathBuf};

/// Descriptors that are not for connections: files, rings.
const OTHER_DESCRIPTORS: u64 = 200;

/// As much of a machine as settings follow from by themselves.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Bytes that we may use: the machine's, or less where a control group says so.
    pub memory: u64,
    /// Cores that this process may run on.
    pub cores: u64,
    /// Files that this process may have open.
    pub descriptors: u64,
}

impl Machine {
    /// This one. Raises the limit of open files as far as the system lets us.
    pub fn here() -> Machine {
        Machine { memory: memory(), cores: cores() as u64, descriptors: descriptors() }
    }

    /// Client connections for which there are descriptors, each with one to an origin, and a quarter as many idle ones to
    /// origins.
    pub fn connections_by_descriptors(&self) -> u64 {
        self.descriptors.saturating_sub(OTHER_DESCRIPTORS) / 9 * 4
    }
}

/// Cores that this process may run on.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn memory() -> u64 {
    let total =
        fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_total(&text)).unwrap_or(1 << 30);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits(&groups)
        .filter_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
        .fold(total, u64::min)
}

fn descriptors() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Seconds of the processor that this thread took.
pub fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Bytes of this process that are in memory (VmRSS); 0 when the kernel does not say.
pub fn resident() -> u64 {
    field("/proc/self/status", "VmRSS:") << 10
}

/// Bytes that this process had written to devices, as the kernel counts them (write_bytes); 0 when it does not say.
pub fn written_to_devices() -> u64 {
    field("/proc/self/io", "write_bytes:")
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let rest = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    rest.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// The files that may hold a limit, for the groups that /proc/self/cgroup lists and all groups above them; in a
/// container the group's own path may not be visible, but its limit is, at the root of the hierarchy.
fn limits(groups: &str) -> impl Iterator<Item = PathBuf> {
    groups
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            match controllers {
                "" => Some(("/sys/fs/cgroup", "memory.max", path)),
                c if c.split(',').any(|c| c == "memory") => {
                    Some(("/sys/fs/cgroup/memory", "memory.limit_in_bytes", path))
                }
                _ => None,
            }
        })
        .flat_map(|(root, file, path)| {
            let up: Vec<PathBuf> = Path::new(path)
                .ancestors()
                .map(|at| Path::new(root).join(at.strip_prefix("/").unwrap_or(at)).join(file))
                .collect();
            up
        })
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_looked_for_up_to_the_root() {
        let files: Vec<PathBuf> = limits("5:cpu,memory:/a/b\n3:pids:/x\n0::/c\n").collect();
        let names = [
            "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/c/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, names.map(PathBuf::from));
        assert_eq!(meminfo_total("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        let here = Machine::here();
        assert!(here.memory > 1 << 20);
        assert!(resident() > 1 << 20 && thread_seconds() > 0.0);
    }
}
