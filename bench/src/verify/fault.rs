//! What may happen to a disk, on this machine, and be undone: the second cache lies where it strikes.

use crate::cgroup::{Flow, Group};
use crate::cleanup;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

pub trait Fault: Send {
    fn name(&self) -> &'static str;

    /// Where the cache lies.
    fn path(&self) -> &Path;

    /// The control groups that the program has to be in.
    fn groups(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Whether it shows only where something is written.
    fn is_of_writes(&self) -> bool {
        false
    }

    /// Before the program starts with a cache that is filled so far.
    fn prepare(&mut self, _filled: u64) -> Result<(), String> {
        Ok(())
    }

    fn strike(&mut self) -> Result<(), String>;

    /// What was written meanwhile has not mended it.
    fn go_on(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn end(&mut self) -> Result<(), String>;
}

/// Of these, the ones that this machine can have.
pub fn all(folder: &Path, bytes: u64) -> [Result<Box<dyn Fault>, String>; 3] {
    let full = Full::make(folder, bytes).map(|fault| Box::new(fault) as Box<dyn Fault>);
    [Ok(cut(folder, bytes)), full, hangs(folder, bytes)]
}

pub fn cut(folder: &Path, bytes: u64) -> Box<dyn Fault> {
    Box::new(Cut { path: folder.join("cut"), filled: 0, lost: Vec::new(), bytes })
}

pub fn hangs(folder: &Path, bytes: u64) -> Result<Box<dyn Fault>, String> {
    Hang::make(folder, bytes).map(|fault| Box::new(fault) as Box<dyn Fault>)
}

/// The file loses its end.
struct Cut {
    path: PathBuf,
    filled: u64,
    lost: Vec<u8>,
    bytes: u64,
}

/// What stays of it.
const STAYS: u64 = 2 << 20;

impl Fault for Cut {
    fn name(&self) -> &'static str {
        "the file is truncated to 2 MiB under the running program"
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn prepare(&mut self, filled: u64) -> Result<(), String> {
        self.filled = filled;
        Ok(())
    }

    fn strike(&mut self) -> Result<(), String> {
        let file = opened(&self.path)?;
        self.lost = vec![0; (self.filled + STAYS).min(self.bytes).saturating_sub(STAYS) as usize];
        let cut = file.read_exact_at(&mut self.lost, STAYS).and_then(|()| file.set_len(STAYS));
        cut.map_err(|e| say(&self.path, &e))
    }

    fn go_on(&mut self) -> Result<(), String> {
        opened(&self.path)?.set_len(STAYS).map_err(|e| say(&self.path, &e))
    }

    fn end(&mut self) -> Result<(), String> {
        let file = opened(&self.path)?;
        let back = file.write_all_at(&self.lost, STAYS).and_then(|()| file.set_len(self.bytes));
        back.and_then(|()| file.sync_all()).map_err(|e| say(&self.path, &e))
    }
}

/// A filesystem of its own, on which nothing is left for what the file has no space for yet.
struct Full {
    folder: PathBuf,
    path: PathBuf,
    bytes: u64,
}

impl Full {
    fn make(folder: &Path, bytes: u64) -> Result<Full, String> {
        let (image, mounted) = (folder.join("filesystem"), folder.join("mounted"));
        hollow(&image, bytes + bytes / 2 + (64 << 20))?;
        fs::create_dir_all(&mounted).map_err(|e| say(&mounted, &e))?;
        let (image, place) = (image.display().to_string(), mounted.display().to_string());
        call(&["mkfs.ext4", "-q", "-m", "0", &image])?;
        call(&["mount", "-o", "loop", &image, &place])?;
        cleanup::remember_last(&["umount", &place]);
        Ok(Full { path: mounted.join("cache"), folder: mounted, bytes })
    }
}

impl Fault for Full {
    fn name(&self) -> &'static str {
        "the filesystem (ext4 on a loop device) is full, and the file has holes"
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn is_of_writes(&self) -> bool {
        true
    }

    fn prepare(&mut self, filled: u64) -> Result<(), String> {
        let from = filled + STAYS;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&opened(&self.path)?, hole, from, self.bytes.saturating_sub(from))
            .map_err(|e| format!("a hole in {}: {e}", self.path.display()))
    }

    fn strike(&mut self) -> Result<(), String> {
        let path = self.folder.join("filler");
        let mut file = File::create(&path).map_err(|e| say(&path, &e))?;
        for piece in [1 << 20, 4 << 10] {
            while file.write_all(&vec![1; piece]).is_ok() {}
        }
        // A filesystem that has promised more than it has would tell only now.
        let _ = file.sync_all();
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let path = self.folder.join("filler");
        fs::remove_file(&path).map_err(|e| say(&path, &e))
    }
}

/// A device that is allowed a byte a second.
struct Hang {
    device: PathBuf,
    number: (u32, u32),
    group: Group,
}

impl Hang {
    fn make(folder: &Path, bytes: u64) -> Result<Hang, String> {
        let image = folder.join("device");
        hollow(&image, bytes)?;
        let device = call(&["losetup", "--find", "--show", "--direct-io=on", &image.display().to_string()])?;
        cleanup::remember_last(&["losetup", "--detach", &device]);
        let told = fs::metadata(&device).map_err(|e| format!("{device}: {e}"))?;
        if !told.file_type().is_block_device() {
            return Err(format!("{device} is no block device"));
        }
        let number = (rustix::fs::major(told.rdev()), rustix::fs::minor(told.rdev()));
        Ok(Hang { device: device.into(), number, group: Group::of_device_and_processor()? })
    }
}

impl Fault for Hang {
    fn name(&self) -> &'static str {
        "the device (loop) is held back by a control group to a byte a second, so that neither reads nor writes come back"
    }

    fn path(&self) -> &Path {
        &self.device
    }

    fn groups(&self) -> Vec<PathBuf> {
        self.group.folders()
    }

    fn strike(&mut self) -> Result<(), String> {
        let flow = Flow { read_bytes: Some(1), written_bytes: Some(1), ..Flow::default() };
        self.group.hold(self.number, flow)
    }

    fn end(&mut self) -> Result<(), String> {
        self.group.lift();
        Ok(())
    }
}

/// A program that is killed would not end before.
impl Drop for Hang {
    fn drop(&mut self) {
        self.group.lift();
    }
}

fn hollow(path: &Path, bytes: u64) -> Result<(), String> {
    File::create(path).and_then(|file| file.set_len(bytes)).map_err(|e| say(path, &e))
}

fn opened(path: &Path) -> Result<File, String> {
    File::options().read(true).write(true).open(path).map_err(|e| say(path, &e))
}

fn say(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// What a program says on its first line.
fn call(words: &[&str]) -> Result<String, String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|e| format!("{}: {e}", words[0]))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", words[0], said.lines().next().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().into())
}
