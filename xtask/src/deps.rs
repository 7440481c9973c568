//! `cargo xtask deps`: may we use what we depend on?
//!
//! Licences, sources and duplicates by cargo-deny (installed under target/ when it is missing); withdrawn ("yanked")
//! versions by the registry's own index. The RustSec database lies outside the registries: `--advisories` asks it too.

use crate::tools::{call, install};
use std::path::{Path, PathBuf};
use std::process::Command;

const CARGO_DENY: &str = "0.20.2";

pub fn run(advisories: bool) -> Result<(), String> {
    let deny = install("cargo-deny", CARGO_DENY)?;
    let mut checks = vec!["check", "licenses", "bans", "sources"];
    if advisories {
        checks.push("advisories");
    }
    call(Command::new(&deny).args(["--log-level", "error"]).args(&checks))?;
    yanked()
}

/// Fails when a locked version was withdrawn from the registry.
fn yanked() -> Result<(), String> {
    // Brings the index entries of all locked packages up to date, and changes nothing.
    call(Command::new("cargo").args(["update", "--dry-run", "--quiet"]))?;
    let lock = std::fs::read_to_string("Cargo.lock").map_err(|e| format!("Cargo.lock: {e}"))?;
    let locked = locked(&lock);
    let caches = index_caches()?;
    let mut withdrawn = Vec::new();
    for (name, version) in &locked {
        let entries = caches.iter().find_map(|cache| std::fs::read(cache.join(shelf(name))).ok());
        let entries =
            entries.ok_or_else(|| format!("{name} is not in the registry's index on this machine"))?;
        match is_yanked(&entries, version) {
            Some(false) => {}
            Some(true) => withdrawn.push(format!("{name} {version}")),
            None => return Err(format!("{name} {version} is not in the registry's index")),
        }
    }
    if withdrawn.is_empty() {
        println!("yanked ok: {} packages", locked.len());
        return Ok(());
    }
    Err(format!("withdrawn from the registry: {}; `cargo update` them", withdrawn.join(", ")))
}

/// Names and versions of the packages in Cargo.lock that come from the registry.
fn locked(lock: &str) -> Vec<(String, String)> {
    lock.split("[[package]]")
        .filter(|package| package.contains("\nsource = \"registry+"))
        .filter_map(|package| {
            let field = |name: &str| {
                let line = package.lines().find_map(|line| line.strip_prefix(name))?;
                Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
            };
            Some((field("name")?, field("version")?))
        })
        .collect()
}

fn index_caches() -> Result<Vec<PathBuf>, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home =
        home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).ok_or("no home directory")?;
    let index = home.join("registry/index");
    let folders = std::fs::read_dir(&index).map_err(|e| format!("{}: {e}", index.display()))?;
    Ok(folders.flatten().map(|folder| folder.path().join(".cache")).filter(|path| path.exists()).collect())
}

/// Where the index keeps a package: `1/x`, `2/xy`, `3/x/xyz`, `wx/yz/wxyz…`.
fn shelf(name: &str) -> PathBuf {
    let name = name.to_lowercase();
    match name.len() {
        0..=2 => PathBuf::from(name.len().to_string()).join(&name),
        3 => Path::new("3").join(&name[..1]).join(&name),
        _ => Path::new(&name[..2]).join(&name[2..4]).join(&name),
    }
}

/// The index holds `version NUL json NUL` for every version.
fn is_yanked(entries: &[u8], version: &str) -> Option<bool> {
    let mut fields = entries.split(|&b| b == 0);
    fields.find(|field| *field == version.as_bytes())?;
    let entry: String = String::from_utf8_lossy(fields.next()?).split_whitespace().collect();
    Some(entry.contains("\"yanked\":true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawn_versions_are_recognised() {
        let entries = b"\x03head\0etag\x001.0.0\0{\"vers\": \"1.0.0\", \"yanked\": true}\x001.0.1\0{\"yanked\":false}\0";
        assert_eq!(is_yanked(entries, "1.0.0"), Some(true));
        assert_eq!(is_yanked(entries, "1.0.1"), Some(false));
        assert_eq!(is_yanked(entries, "2.0.0"), None);
    }

    #[test]
    fn the_lock_file_names_registry_packages() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \"registry+x\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        assert_eq!(locked(lock), [("a".to_owned(), "1.2.3".to_owned())]);
        assert_eq!(shelf("http"), Path::new("ht/tp/http"));
        assert_eq!(shelf("syn"), Path::new("3/s/syn"));
    }
}
