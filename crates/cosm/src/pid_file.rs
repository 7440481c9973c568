//! A file with this process's id, for programs that send signals. Of two processes during an upgrade, the one that serves is in it.

use crate::preflight::{folder_of, makes_files_in};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Goes with the process, unless another one is in it by then.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Whole, or as before: whoever reads it meanwhile finds one or the other.
    pub fn write(path: &Path) -> Result<PidFile, String> {
        PidFile::put(path).map(|()| PidFile(path.to_owned()))
    }

    /// The same, and it stays.
    pub fn put(path: &Path) -> Result<(), String> {
        let failed = |error| format!("cannot write pid-file {}: {error}", path.display());
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        let made = fs::File::create(&new).and_then(|mut file| writeln!(file, "{}", std::process::id()));
        made.and_then(|()| fs::rename(&new, path)).map_err(|error| {
            let _ = fs::remove_file(&new);
            failed(error)
        })
    }

    /// Whether it could be written: before anything begins that depends on it.
    pub fn check(path: &Path) -> Result<(), String> {
        makes_files_in(folder_of(path))
            .map_err(|error| format!("cannot write pid-file {}: {error}", path.display()))
    }

    /// Which process a file names.
    pub fn read(path: &Path) -> Option<u32> {
        fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// Whether this process runs a program of our name: the file stays after a kill, and its number may be another's by then.
    pub fn is_ours(id: u32) -> bool {
        let name = |path: PathBuf| {
            let name = path.file_name()?.to_str()?.to_owned();
            // Of a program that was replaced since.
            Some(name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned))
        };
        let runs = |id: &str| fs::read_link(format!("/proc/{id}/exe")).ok().and_then(name);
        runs(&id.to_string()).is_some_and(|of| Some(of) == runs("self"))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if PidFile::read(&self.0) == Some(std::process::id()) {
            let _ = fs::remove_file(&self.0);
        }
    }
}
