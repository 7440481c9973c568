//! `cargo xtask verify acme`: `cosm serve` orders certificates from pebble, an authority for tests, in each way, and renews one under load.
//!
//! The tests are in `crates/cosm/tests/acme.rs`; here is what they need.

use crate::tools::call;
use std::path::{Path, PathBuf};
use std::process::Command;

const PEBBLE: &str = "github.com/letsencrypt/pebble/v2/cmd/...@v2.10.1";

/// How long certificates last, and how long there is load, in seconds.
const QUICK: (u32, u32) = (60, 75);
const WHOLE: (u32, u32) = (120, 300);

pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (out, (life, load)) = match arguments {
        [] => (None, WHOLE),
        ["--quick"] => (None, QUICK),
        ["--out", folder] => (Some(PathBuf::from(folder)), WHOLE),
        _ => return Err("usage: cargo xtask verify acme [--quick] [--out FOLDER]".into()),
    };
    let tools = install(root)?;
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("cargo")
        .current_dir(root)
        .args(["test", "--locked", "--package", "cosm", "--test", "acme", "--"])
        .args(["--ignored", "--nocapture", "--test-threads", "1"])
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("COSM_ACME_LIFE", life.to_string())
        .env("COSM_ACME_LOAD", load.to_string())
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo test: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{said}\nthe tests with pebble failed"));
    }
    let results: Vec<&str> = said
        .lines()
        .filter(|line| !line.starts_with("test result: "))
        .filter_map(|line| Some(line.split_once("result: ")?.1))
        .collect();
    let text = format!("$ cargo xtask verify acme\n{PEBBLE}\n\n{}\n", results.join("\n"));
    print!("{text}");
    let Some(out) = out else { return Ok(()) };
    let path = out.join("verify-acme.txt");
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Where the programs are; by Go, under target/, when they are not there yet.
fn install(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join("target/tools/bin");
    if ["pebble", "pebble-challtestsrv"].iter().any(|name| !folder.join(name).exists()) {
        eprintln!("installing {PEBBLE}");
        call(
            Command::new("go").args(["install", PEBBLE]).env("GOBIN", &folder).env("GOFLAGS", "-modcacherw"),
        )
        .map_err(|e| format!("{e}; is Go installed?"))?;
    }
    Ok(folder)
}
