//! The one folder that a run makes for itself, and removes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What it is called, and the mark in it: the number of the process that made it.
const NAME: &str = "cosm-lab";
const MARK: &str = "made-by-process";

/// Removed with all that is in it when dropped.
pub struct Folder {
    path: PathBuf,
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
        let mut mark = File::create_new(path.join(MARK)).map_err(at)?;
        let folder = Folder { path: path.clone() };
        writeln!(mark, "{}", std::process::id()).map_err(at)?;
        Ok(folder)
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

/// Empties what is ours and whose process is gone.
fn clear(path: &Path) -> Result<(), String> {
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    let is_empty = fs::read_dir(path).map_err(at)?.next().is_none();
    let maker = fs::read_to_string(path.join(MARK)).ok().and_then(|text| text.trim().parse::<u32>().ok());
    match maker {
        _ if is_empty => Ok(()),
        Some(maker) if Path::new(&format!("/proc/{maker}")).exists() => Err(format!(
            "{}: process {maker} is at work in it; wait for it, or name another directory",
            path.display()
        )),
        Some(_) => {
            fs::remove_dir_all(path).map_err(at)?;
            fs::create_dir(path).map_err(at)
        }
        None => {
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
        // Of a process that is gone: numbers go no higher than 4,194,304.
        fs::create_dir(&path).unwrap();
        fs::write(path.join(MARK), "4999999\n").unwrap();
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
