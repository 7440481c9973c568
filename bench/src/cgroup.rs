//! Control groups: how much memory and processor time a program may use, and how often it may go to the disk. Version 1 or 2,
//! whichever has the controller.

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
    Processor,
}

/// Removed when dropped; whoever is in it must have ended.
pub struct Group {
    folders: Vec<(Controller, PathBuf)>,
    unified: bool,
}

impl Group {
    /// For memory and disk, without a limit.
    pub fn make() -> Result<Group, String> {
        Group::with(&[(Controller::Memory, "memory"), (Controller::Disk, "blkio")])
    }

    /// For disk and processor, without a limit.
    pub fn of_device_and_processor() -> Result<Group, String> {
        Group::with(&[(Controller::Disk, "blkio"), (Controller::Processor, "cpu")])
    }

    /// Version 1 has a folder for each controller.
    fn with(controllers: &[(Controller, &str)]) -> Result<Group, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cosm-bench-{}-{nth}", std::process::id());
        let root = Path::new(ROOT);
        let unified = root.join("cgroup.controllers").exists();
        let mut group = Group { folders: Vec::new(), unified };
        if unified {
            // Already so on most systems; where it is forbidden, setting a limit says so.
            let _ = write(root.join("cgroup.subtree_control"), "+memory +io +cpu");
            group.add(controllers[0].0, root.join(name))?;
        } else {
            for (controller, folder) in controllers {
                group.add(*controller, root.join(folder).join(&name))?;
            }
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
        self.hold(device, Flow { reads: Some(a_second), writes: Some(a_second), ..Flow::default() })
    }

    /// What is given holds from now on.
    pub fn hold(&self, (major, minor): (u32, u32), flow: Flow) -> Result<(), String> {
        let limits = [
            (flow.reads.map(u64::from), "riops", "read_iops"),
            (flow.writes.map(u64::from), "wiops", "write_iops"),
            (flow.read_bytes, "rbps", "read_bps"),
            (flow.written_bytes, "wbps", "write_bps"),
        ];
        for (limit, unified, split) in limits {
            let Some(limit) = limit else { continue };
            if self.unified {
                self.set(Controller::Disk, "io.max", &format!("{major}:{minor} {unified}={limit}"))?;
            } else {
                let file = format!("blkio.throttle.{split}_device");
                self.set(Controller::Disk, &file, &format!("{major}:{minor} {limit}"))?;
            }
        }
        Ok(())
    }

    /// So much of one core, in percent.
    pub fn limit_processor(&self, percent: u32) -> Result<(), String> {
        let quota = 1_000 * u64::from(percent);
        match self.unified {
            true => self.set(Controller::Processor, "cpu.max", &format!("{quota} 100000")),
            false => self.set(Controller::Processor, "cpu.cfs_quota_us", &quota.to_string()),
        }
    }

    /// The disk is as free as before.
    pub fn lift(&self) {
        self.folders.iter().for_each(|(_, folder)| lift(folder));
    }

    fn set(&self, controller: Controller, file: &str, value: &str) -> Result<(), String> {
        let mut folders = self.folders.iter();
        let folder = folders.find(|(which, _)| self.unified || *which == controller);
        let path = folder.ok_or("no control group for it")?.1.join(file);
        write(&path, value).map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// What a device may be asked for in a second.
#[derive(Clone, Copy, Default)]
pub struct Flow {
    pub reads: Option<u32>,
    pub writes: Option<u32>,
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
}

/// Lets go all that a control group holds back at devices: a process whose reads are held back does not end, even when it is killed.
pub fn lift(group: &Path) {
    for what in ["read_iops", "write_iops", "read_bps", "write_bps"] {
        let file = group.join(format!("blkio.throttle.{what}_device"));
        for device in devices(&file) {
            let _ = write(&file, format!("{device} 0"));
        }
    }
    let file = group.join("io.max");
    for device in devices(&file) {
        let _ = write(&file, format!("{device} rbps=max wbps=max riops=max wiops=max"));
    }
}

/// Those that a file of limits names, each first in its line.
fn devices(file: &Path) -> Vec<String> {
    let text = read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
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
