//! The one folder that a run makes for itself, and removes.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// What it is called, and the mark in it, which is locked while somebody is at work: the kernel forgets the lock of a process
/// that was killed.
const NAME: &str = "cosm-lab";
const MARK: &str = "made-by-process";

/// Removed with all that is in it when dropped.
pub struct Folder {
    path: PathBuf,
    _mark: File,
}

impl Folder {
    /// Makes it in a directory that is there. One that is left of a run that was killed is removed first; any other that is not
    /// empty is refused.
    pub fn make(within: &Path) -> Result<Folder, String> {
        let path = within.join(NAME);
        let at = |error: std::io::Error| format!("{}: {error}", path.display());
        if !within.is_dir() {
            return Err(format!("{}: not a directory; make it, or name another", within.display()));
        }
        match fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => clear(&path)?,
            made => made.map_err(at)?,
        }
        // Whoever comes second finds the mark.
        let mark = File::create_new(path.join(MARK)).map_err(at)?;
        lock(&mark, &path)?;
        Ok(Folder { path, _mark: mark })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn lock(mark: &File, path: &Path) -> Result<(), String> {
    mark.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            format!(
                "{}: another run is at work in it; wait for it, or name another directory",
                path.display()
            )
        }
        TryLockError::Error(error) => format!("{}: {error}", path.display()),
    })
}

/// Empties what is ours and where nobody is at work.
fn clear(path: &Path) -> Result<(), String> {
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let is_empty = fs::read_dir(path).map_err(at)?.next().is_none();
    match File::open(path.join(MARK)) {
        _ if is_empty => Ok(()),
        Ok(mark) => {
            lock(&mark, path)?;
            fs::remove_dir_all(path).map_err(at)?;
            fs::create_dir(path).map_err(at)
        }
        Err(_) => {
            Err(format!("{}: not empty and not ours; remove it, or name another directory", path.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(NAME);
        let folder = Folder::make(place.path()).unwrap();
        fs::write(folder.path().join("x"), "y").unwrap();
        let busy = Folder::make(place.path()).err().unwrap();
        assert!(busy.contains("at work"), "{busy}");
        drop(folder);
        assert!(!path.exists());
        // Of a run that was killed; its number may be ours by now.
        fs::create_dir(&path).unwrap();
        fs::write(path.join(MARK), format!("{}\n", std::process::id())).unwrap();
        fs::write(path.join("left"), "over").unwrap();
        let folder = Folder::make(place.path()).unwrap();
        assert!(!path.join("left").exists());
        drop(folder);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("somebody's"), "work").unwrap();
        let refused = Folder::make(place.path()).err().unwrap();
        assert!(refused.contains("not ours") && path.join("somebody's").exists(), "{refused}");
        assert!(Folder::make(&place.path().join("nowhere")).err().unwrap().contains("not a directory"));
    }
}
