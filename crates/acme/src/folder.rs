//! Where accounts, certificates and keys are: a folder of this user alone, with one of its own for each authority.
//!
//! ```text
//! FOLDER/lock
//! FOLDER/acme-v02.api.letsencrypt.org-directory/account.json
//! FOLDER/acme-v02.api.letsencrypt.org-directory/www.example.com.pem     the chain and its key
//! FOLDER/acme-v02.api.letsencrypt.org-directory/www.example.com.order.json    what became of its last order, and when the next may be
//! ```

use crate::name::Names;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of a file that is read.
const MOST: u64 = 1 << 20;
/// Bytes that are there for what will be written: a chain and its key are a few thousand.
const RESERVED: usize = 64 << 10;
/// How names of files end that are this program's.
const OURS: [&str; 3] = [".pem", ".json", ".new"];

/// What there is of one authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    root: PathBuf,
    place: PathBuf,
}

/// While it is there, no other process orders. A process that ends leaves none behind.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is unlocked when it is closed")] File);

/// Room on the disk for a file; it is given back when dropped.
#[derive(Debug)]
pub(crate) struct Room(PathBuf);

/// By which a file is told from what it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(Option<(u64, i64, i64)>);

impl Folder {
    /// That of an authority, by its directory's URL. Nothing is made or looked at yet.
    pub fn of(root: &Path, directory: &str) -> Folder {
        let bare = directory.strip_prefix("https://").unwrap_or(directory);
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '-' };
        let name: String = bare.trim_end_matches('/').chars().map(safe).collect();
        // Never `..`.
        Folder { root: root.into(), place: root.join(name.trim_start_matches('.')) }
    }

    /// Where a certificate with its key is, or will be.
    pub fn certificate(&self, names: &Names) -> PathBuf {
        self.place.join(names.file_stem() + ".pem")
    }

    /// What is written down of its orders. No certificate's name makes it the account's.
    pub(crate) fn note(&self, names: &Names) -> PathBuf {
        self.place.join(names.file_stem() + ".order.json")
    }

    pub(crate) fn account(&self) -> PathBuf {
        self.place.join("account.json")
    }

    /// What is wrong with it, as far as it is there; writes nothing. Files of others in it are let alone.
    ///
    /// # Errors
    /// One line.
    pub fn check(&self) -> Result<(), String> {
        for folder in [&self.root, &self.place] {
            match fs::metadata(folder) {
                Ok(found) => ours_alone(folder, &found, true)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let above = above(folder);
                    return access(above, Access::WRITE_OK | Access::EXEC_OK)
                        .map_err(|error| format!("no folder can be made in {}: {error}", above.display()));
                }
                Err(error) => return Err(format!("{}: {error}", folder.display())),
            }
        }
        let files =
            fs::read_dir(&self.place).map_err(|error| format!("{}: {error}", self.place.display()))?;
        let is_ours = |file: &fs::DirEntry| {
            let name = file.file_name();
            OURS.iter().any(|end| name.as_encoded_bytes().ends_with(end.as_bytes()))
        };
        for file in files.flatten().filter(is_ours) {
            if let Ok(found) = file.metadata() {
                ours_alone(&file.path(), &found, false)?;
            }
        }
        Ok(())
    }

    /// Makes what is not there, and checks what is.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn make(&self) -> Result<(), String> {
        for folder in [&self.root, &self.place] {
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(format!("cannot make {}: {error}", folder.display()));
                }
                _ => {}
            }
        }
        self.check()
    }

    /// `None`: another process orders.
    pub(crate) fn lock(&self) -> Result<Option<Lock>, String> {
        let path = self.root.join("lock");
        let cannot = |error: io::Error| format!("cannot lock {}: {error}", path.display());
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Stamp {
        Stamp(fs::metadata(path).ok().map(|found| (found.ino(), found.mtime(), found.mtime_nsec())))
    }
}

fn ours_alone(path: &Path, found: &fs::Metadata, is_folder: bool) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("{}: {why}", path.display()));
    let mode = if is_folder { 700 } else { 600 };
    if found.is_symlink() {
        return wrong("it is a link: put the file itself there");
    }
    if found.is_dir() != is_folder {
        return wrong(if is_folder { "it is no folder" } else { "it is no file" });
    }
    match found.mode() & 0o077 == 0 && found.uid() == geteuid().as_raw() {
        true => Ok(()),
        false => wrong(&format!(
            "private keys are there: it has to belong to the user that Cosm runs as, and chmod {mode}"
        )),
    }
}

/// What a file has, if it is there.
///
/// # Errors
/// One line.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", path.display());
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(&error)),
    };
    ours_alone(path, &found, false)?;
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| cannot(&error))?;
    file.take(MOST + 1).read_to_end(&mut text).map_err(|error| cannot(&error))?;
    match text.len() as u64 > MOST {
        true => Err(cannot(&"it is larger than 1 MiB")),
        false => Ok(Some(text)),
    }
}

/// Sees that what `replace` will put there can be written: what is issued in vain counts.
///
/// # Errors
/// One line.
pub(crate) fn reserve(path: &Path) -> Result<Room, String> {
    match write_new(path, &[0; RESERVED]) {
        Ok(new) => Ok(Room(new)),
        Err(error) => Err(format!("cannot write {}: {error}", path.display())),
    }
}

/// Puts a file of this user alone in the place of what was there: at once, and lastingly.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::rename(write_new(path, bytes)?, path)?;
    File::open(above(path))?.sync_all()
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let new = path.with_added_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    to.write_all(bytes)?;
    to.sync_all()?;
    Ok(new)
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn above(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const DIRECTORY: &str = "https://acme.example:14000/dir";

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn each_authority_has_its_place() {
        let of = |directory: &str| Folder::of(Path::new("/f"), directory).place;
        assert_eq!(of(crate::LETS_ENCRYPT), Path::new("/f/acme-v02.api.letsencrypt.org-directory"));
        assert_eq!(of(DIRECTORY), Path::new("/f/acme.example-14000-dir"));
        assert_eq!(of("https://../../etc"), Path::new("/f/-..-etc"));
        let folder = Folder::of(Path::new("/f"), DIRECTORY);
        assert_eq!(
            folder.certificate(&"*.a.example+a.example".parse().unwrap()),
            Path::new("/f/acme.example-14000-dir/_.a.example.pem")
        );
    }

    #[test]
    fn it_is_this_users_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("acme");
        let folder = Folder::of(&root, DIRECTORY);
        folder.check().unwrap();
        folder.make().unwrap();
        assert_eq!((mode(&root), mode(&folder.place)), (0o700, 0o700));
        let file = folder.account();
        assert_eq!(read(&file), Ok(None));
        replace(&file, b"secret").unwrap();
        assert_eq!((mode(&file), read(&file)), (0o600, Ok(Some(b"secret".to_vec()))));
        replace(&file, b"other").unwrap();
        assert_eq!(read(&file).unwrap().unwrap(), b"other");
        for (path, bad, good) in [(&file, 0o640, 0o600), (&folder.place, 0o755, 0o700), (&root, 0o711, 0o700)]
        {
            fs::set_permissions(path, fs::Permissions::from_mode(bad)).unwrap();
            let why = folder.check().unwrap_err();
            assert!(why.contains(&format!("chmod {good:o}")) && why.lines().count() == 1, "{why}");
            assert!(folder.make().is_err());
            fs::set_permissions(path, fs::Permissions::from_mode(good)).unwrap();
            folder.check().unwrap();
        }
        // What is not ours is let alone, whoever may read it.
        fs::write(folder.place.join("a.example.pem.bak"), "").unwrap();
        fs::create_dir(folder.place.join("lost+found")).unwrap();
        folder.check().unwrap();
        std::os::unix::fs::symlink(&file, folder.place.join("a.example.pem")).unwrap();
        assert!(folder.check().unwrap_err().contains("it is a link"));
        fs::remove_file(folder.place.join("a.example.pem")).unwrap();
        fs::write(&file, vec![0; MOST as usize + 1]).unwrap();
        assert!(read(&file).unwrap_err().contains("larger"));
        let nowhere = Folder::of(&temporary.path().join("none/acme"), DIRECTORY);
        assert!(nowhere.make().unwrap_err().starts_with("cannot make "));
    }

    #[test]
    fn there_is_room_for_what_comes() {
        let temporary = tempfile::tempdir().unwrap();
        let (file, new) = (temporary.path().join("a.pem"), temporary.path().join("a.pem.new"));
        let room = reserve(&file).unwrap();
        assert_eq!((mode(&new), fs::metadata(&new).unwrap().len()), (0o600, RESERVED as u64));
        replace(&file, b"chain").unwrap();
        drop(room);
        assert_eq!((fs::read(&file).unwrap(), new.exists()), (b"chain".to_vec(), false));
        drop(reserve(&file).unwrap());
        assert!(!new.exists());
        assert!(reserve(Path::new("/dev/full/x")).unwrap_err().starts_with("cannot write /dev/full/x: "));
        let account = Folder::of(Path::new("/f"), DIRECTORY);
        assert_ne!(account.note(&"account".parse().unwrap()), account.account());
    }

    #[test]
    fn one_orders_at_a_time() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::of(&temporary.path().join("acme"), DIRECTORY);
        folder.make().unwrap();
        let held = folder.lock().unwrap().unwrap();
        assert!(folder.lock().unwrap().is_none());
        drop(held);
        assert!(folder.lock().unwrap().is_some());
    }
}
