//! A control group that this process goes into, so that memory for files is bounded and cannot hide the disk. Version 1 or 2.
//!
//! What the process itself needs is not meant: the bound is moved up by as much, now and then (`adjust`).

use std::fs::{create_dir, read_to_string, remove_dir, write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup";
/// Moves of less than this many bytes are not worth a call.
const STEP: u64 = 1 << 20;

/// Left and removed when dropped.
pub struct Group {
    folder: PathBuf,
    /// The group that we came from.
    home: PathBuf,
    version: Version,
    /// Bytes for files; what was set, with our own.
    most: u64,
    set: u64,
}

/// What differs: the file with the bound, and the row of memory.stat that tells what is not of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    bound: &'static str,
    own: &'static str,
}

const ONE: Version = Version { bound: "memory.limit_in_bytes", own: "rss" };
const TWO: Version = Version { bound: "memory.max", own: "anon" };

impl Group {
    /// Bytes of memory for files.
    pub fn enter(most: u64) -> Result<Group, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = "/proc/self/cgroup";
        let groups = read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let (version, home, parent) =
            place(&groups, |path| path.is_dir()).ok_or("no control group has memory")?;
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("cosm-lab-{}-{nth}", std::process::id()));
        if version == TWO {
            // Already so on most systems; where it is forbidden, setting the bound says so.
            let _ = write(parent.join("cgroup.subtree_control"), "+memory");
        }
        create_dir(&folder).map_err(|error| format!("control group {}: {error}", folder.display()))?;
        let mut group = Group { folder, home, version, most, set: 0 };
        // Swap, where there is some, is not memory.
        let _ = write(group.folder.join("memory.swap.max"), "0");
        group.bound(most)?;
        group.go_to(&group.folder)?;
        Ok(group)
    }

    /// Moves the bound by what the process has taken since, or given back.
    pub fn adjust(&mut self) -> Result<(), String> {
        let path = self.folder.join("memory.stat");
        let text = read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let own = row(&text, self.version.own)
            .ok_or_else(|| format!("{}: no row {}", path.display(), self.version.own))?;
        let wanted = self.most + own;
        if wanted.abs_diff(self.set) >= STEP { self.bound(wanted) } else { Ok(()) }
    }

    fn bound(&mut self, bytes: u64) -> Result<(), String> {
        let path = self.folder.join(self.version.bound);
        write(&path, bytes.to_string()).map_err(|error| format!("{}: {error}", path.display()))?;
        self.set = bytes;
        Ok(())
    }

    fn go_to(&self, group: &Path) -> Result<(), String> {
        let path = group.join("cgroup.procs");
        write(&path, std::process::id().to_string()).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.go_to(&self.home).is_err() {
            let _ = self.go_to(Path::new(ROOT));
        }
        let patience = Instant::now() + Duration::from_secs(5);
        while remove_dir(&self.folder).is_err() && self.folder.exists() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Our group, by the rows of /proc/self/cgroup, and where to make another: within it, or beside it, since a group of version 2
/// that has processes cannot have others. In a container its path may not be visible.
fn place(groups: &str, is_there: impl Fn(&Path) -> bool) -> Option<(Version, PathBuf, PathBuf)> {
    let rows = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let within = |root: PathBuf, path: &str| {
        let group = root.join(path.trim_start_matches('/'));
        if is_there(&group) { group } else { root }
    };
    let one = rows().find(|(names, _)| names.split(',').any(|name| name == "memory"));
    if let Some((_, path)) = one {
        let group = within(Path::new(ROOT).join("memory"), path);
        return Some((ONE, group.clone(), group));
    }
    let (_, path) = rows().find(|(names, _)| names.is_empty())?;
    let group = within(PathBuf::from(ROOT), path);
    let parent = if group == Path::new(ROOT) { group.clone() } else { group.parent()?.to_path_buf() };
    Some((TWO, group, parent))
}

/// The number of a row `name number`.
fn row(text: &str, name: &str) -> Option<u64> {
    let rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.filter(|(found, _)| *found == name).find_map(|(_, number)| number.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found() {
        let one = "5:cpu:/\n4:memory:/a/b\n0::/c\n";
        let (version, home, parent) = place(one, |_| true).unwrap();
        assert_eq!(version, ONE);
        assert_eq!(
            (home.as_path(), parent.as_path()),
            (Path::new("/sys/fs/cgroup/memory/a/b"), home.as_path())
        );
        let hidden = place(one, |_| false).unwrap();
        assert_eq!(hidden.1, Path::new("/sys/fs/cgroup/memory"));
        let (version, home, parent) = place("0::/user/session\n", |_| true).unwrap();
        assert_eq!((version, home.as_path()), (TWO, Path::new("/sys/fs/cgroup/user/session")));
        assert_eq!(parent, Path::new("/sys/fs/cgroup/user"));
        assert_eq!(place("0::/\n", |_| true).unwrap().2, Path::new(ROOT));
        assert!(place("", |_| true).is_none() && place("nonsense\n::\n", |_| true).is_some());
    }

    #[test]
    fn rows_of_statistics_are_found_whole() {
        let text = "cache 7\nrss_huge 9\nrss 4096\nrss\nanon x\n";
        assert_eq!((row(text, "rss"), row(text, "anon"), row(text, "none")), (Some(4096), None, None));
    }
}
