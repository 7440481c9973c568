//! Files that are written whole, or left as they were.

use crate::Failure;
use crate::lab::text;
use clap::ArgMatches;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes beside, and renames: whoever reads, and a full disk, find the new content or the one before. What is no file, such as a pipe, is
/// written to.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text);
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// The same of what is too much to be kept; an error is one line.
pub fn write_to<T>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<T, String>) -> Result<T, String> {
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        let mut into = OpenOptions::new().write(true).open(path).map_err(at)?;
        return fill(&mut into).and_then(|found| into.flush().map_err(at).map(|()| found));
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut into = BufWriter::new(File::create(&new).map_err(at)?);
    let filled = fill(&mut into);
    let done = filled
        .and_then(|found| into.flush().and_then(|()| fs::rename(&new, path)).map_err(at).map(|()| found));
    if done.is_err() {
        let _ = fs::remove_file(&new);
    }
    done
}

/// Writes a text, by the name of a file in a folder.
pub fn write_in(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = folder.join(name);
    let written = fs::create_dir_all(folder).and_then(|()| write(&path, text));
    written.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

/// Where an option says that something is written.
pub fn path(args: &ArgMatches, name: &str) -> Result<Option<PathBuf>, Failure> {
    match text(args, name) {
        Some("") => Err(Failure::Usage(format!("--{name}: a path is missing"))),
        path => Ok(path.map(PathBuf::from)),
    }
}

/// The folder of an option. That it can be made is tried at once; it is made by what is written in it, so that who is stopped before leaves none.
pub fn folder(args: &ArgMatches, name: &str) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = path(args, name)? else { return Ok(None) };
    try_folder(&path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
    Ok(Some(path))
}

fn try_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists()).collect();
    fs::create_dir_all(path)?;
    // Of an empty folder nothing is lost, and one in which somebody wrote meanwhile stays.
    missing.into_iter().for_each(|part| drop(fs::remove_dir(part)));
    Ok(())
}

/// An error if a file that is to be written is one of those that are read.
pub fn not_over(out: &Path, read: &[Option<&str>]) -> Result<(), Failure> {
    let whole = |path: &Path| path.canonicalize().ok();
    let Some(out) = whole(out) else { return Ok(()) };
    let is_same = |path: &&str| whole(Path::new(path)).is_some_and(|path| path == out);
    match read.iter().flatten().find(|path| out.is_file() && is_same(path)) {
        Some(path) => Err(Failure::Usage(format!("--out: {path} is read, and would be written over"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        for text in ["one", "another"] {
            write(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        // Where nothing can be written beside it, for a folder has that name.
        fs::create_dir(folder.path().join("rules.new")).unwrap();
        assert!(write(&path, "lost").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
        assert!(write(&folder.path().join("gone/rules"), "").is_err());
        write(Path::new("/dev/null"), "read by nobody").unwrap();
    }

    #[test]
    fn a_folder_is_there_when_something_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one/two");
        try_folder(&path).unwrap();
        assert!(!folder.path().join("one").exists());
        assert!(write_in(&path, "a", "text").is_ok());
        try_folder(&path).unwrap();
        assert!(path.join("a").exists());
        assert!(try_folder(&path.join("a/b")).is_err(), "a file is no folder");
    }

    #[test]
    fn what_is_read_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let (name, other) = (path.to_str().unwrap(), folder.path().join("./x/../table"));
        assert!(not_over(&path, &[Some(name)]).is_ok(), "it is not there");
        fs::write(&path, "").unwrap();
        fs::create_dir(folder.path().join("x")).unwrap();
        assert!(not_over(&other, &[None, Some(name)]).is_err());
        assert!(not_over(&path, &[None, Some("/nowhere")]).is_ok());
    }
}
