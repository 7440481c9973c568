//! Control groups: how much memory a contender may use, and how often it may go to the disk. Version 1 or 2, whichever
//! has the controller.

use crate::cleanup;
use std::fs::{create_dir, read_to_string, write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const ROOT: &str = "/sys/fs/cgroup";

/// What is limited, and where version 1 keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Disk,
}

/// Removed when dropped; whoever is in it must have ended.
pub struct Group {
    folders: Vec<(Controller, PathBuf)>,
    unified: bool,
}

impl Group {
    /// A group with both controllers and no limit.
    pub fn make() -> Result<Group, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cosm-bench-{}-{nth}", std::process::id());
        let root = Path::new(ROOT);
        let unified = root.join("cgroup.controllers").exists();
        let mut group = Group { folders: Vec::new(), unified };
        if unified {
            // Already so on most systems; where it is forbidden, setting a limit says so.
            let _ = write(root.join("cgroup.subtree_control"), "+memory +io");
            group.add(Controller::Memory, root.join(name))?;
        } else {
            group.add(Controller::Memory, root.join("memory").join(&name))?;
            group.add(Controller::Disk, root.join("blkio").join(&name))?;
        }
        Ok(group)
    }

    fn add(&mut self, controller: Controller, folder: PathBuf) -> Result<(), String> {
        create_dir(&folder).map_err(|e| format!("control group {}: {e}", folder.display()))?;
        cleanup::remember_group(&folder);
        self.folders.push((controller, folder));
        Ok(())
    }

    pub fn folders(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|(_, folder)| folder.clone()).collect()
    }

    /// Swap, where there is some, is not memory.
    pub fn limit_memory(&self, bytes: u64) -> Result<(), String> {
        if self.unified {
            let _ = self.set(Controller::Memory, "memory.swap.max", "0");
            self.set(Controller::Memory, "memory.max", &bytes.to_string())
        } else {
            self.set(Controller::Memory, "memory.limit_in_bytes", &bytes.to_string())
        }
    }

    /// Reads and writes a second, each.
    pub fn throttle(&self, device: (u32, u32), a_second: u32) -> Result<(), String> {
        let device = format!("{}:{}", device.0, device.1);
        if self.unified {
            return self.set(
                Controller::Memory,
                "io.max",
                &format!("{device} riops={a_second} wiops={a_second}"),
            );
        }
        for what in ["read", "write"] {
            let file = format!("blkio.throttle.{what}_iops_device");
            self.set(Controller::Disk, &file, &format!("{device} {a_second}"))?;
        }
        Ok(())
    }

    fn set(&self, controller: Controller, file: &str, value: &str) -> Result<(), String> {
        let folder = self.folders.iter().find(|(which, _)| *which == controller);
        let path = folder.ok_or("no control group for it")?.1.join(file);
        write(&path, value).map_err(|e| format!("{}: {e}", path.display()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.folders.iter().for_each(|(_, folder)| cleanup::remove_group(folder));
    }
}

/// Which version the machine has; a throttle of version 1 does not hold back the kernel's own write-back.
pub fn version() -> &'static str {
    if Path::new(ROOT).join("cgroup.controllers").exists() { "2" } else { "1" }
}

/// The whole device under a folder, which is what a throttle takes: not a partition of it.
pub fn device_of(folder: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let number = std::fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let known = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let known = known.canonicalize().ok()?;
    let whole = if known.join("partition").exists() { known.parent()?.to_path_buf() } else { known };
    let text = read_to_string(whole.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
