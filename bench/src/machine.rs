//! What a result was measured on and with.

use serde::Serialize;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub file_system_device: String,
    pub cosm: String,
    pub commit: String,
    pub rustc: String,
}

impl Machine {
    pub fn look(cosm: &Path, folder: &Path) -> Machine {
        let uname = rustix::system::uname();
        let tree = said("git", &["status", "--porcelain", "--untracked-files=no"]);
        let changed = if tree.is_empty() { "" } else { " with uncommitted changes" };
        Machine {
            cpu: of_file("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: of_file("/proc/meminfo", "MemTotal")
                .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
                .map_or(0, |kibibytes| kibibytes << 10),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            file_system_device: device(folder).unwrap_or_else(|| "unknown".into()),
            cosm: said(&cosm.to_string_lossy(), &["--version"]),
            commit: said("git", &["rev-parse", "--short=12", "HEAD"]) + changed,
            rustc: said("rustc", &["--version"]),
        }
    }
}

/// Today in UTC, as 2026-01-31.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date(seconds / 86_400)
}

/// The civil date of a day since 1970, by counting in eras of 400 years that begin in March.
fn date(day: u64) -> String {
    let day = day + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn of_file(path: &str, name: &str) -> Option<String> {
    let text = read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().into())
}

/// File system and device that hold `folder`, by the longest mount point above it.
fn device(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = read_to_string("/proc/self/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holder = fields.filter(|mount| mount.len() > 2 && folder.starts_with(mount[1]));
    holder.max_by_key(|mount| mount[1].len()).map(|mount| format!("{} on {}", mount[2], mount[0]))
}

/// The first line that a program prints; empty when there is none.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().into()
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_453), "2025-12-31");
        assert_eq!(date(20_454), "2026-01-01");
    }
}
