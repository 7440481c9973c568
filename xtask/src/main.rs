//! Chores of this repository that need more than one shell line.
//!
//! `cargo xtask bench first-light [--quick] [--out FOLDER] [--dir FOLDER] [--only PART,…]` builds `cosm` and `bench`
//! in release and measures.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str =
    "usage: cargo xtask bench first-light [--quick] [--out FOLDER] [--dir FOLDER] [--only PART,…]";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    match words.as_slice() {
        ["bench", run, rest @ ..] => failed(&bench(run, rest)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn failed(error: &str) -> ExitCode {
    eprintln!("xtask: {error}");
    ExitCode::FAILURE
}

/// Builds, then becomes the measuring tool, so that signals reach it; returns only what went wrong.
fn bench(run: &str, arguments: &[&str]) -> String {
    let root = root();
    if let Err(error) = build(&root) {
        return error;
    }
    let made = target(&root).join("release");
    let command = ["cargo xtask bench", run].into_iter().chain(arguments.iter().copied());
    let error = Command::new(made.join("bench"))
        .current_dir(&root)
        .arg(run)
        .arg("--cosm")
        .arg(made.join("cosm"))
        .arg("--command")
        .arg(command.collect::<Vec<_>>().join(" "))
        .args(arguments)
        .exec();
    format!("start {}: {error}", made.join("bench").display())
}

fn build(root: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--release", "--package", "cosm", "--package", "bench"])
        .status()
        .map_err(|e| format!("cargo build: {e}"))?;
    built.success().then_some(()).ok_or_else(|| "cargo build failed".into())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
