//! Builds `cosm` and the measuring tool in release, and hands over to the tool.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Becomes the measuring tool, so that signals and its exit status are its own; returns only when that fails.
pub fn run(name: &str, arguments: &[&str]) -> Result<(), String> {
    let root = crate::root()?;
    build(root)?;
    let made = target(root).join("release");
    let command = ["cargo xtask bench", name].into_iter().chain(arguments.iter().copied());
    let error = Command::new(made.join("bench"))
        .current_dir(root)
        .arg(name)
        .arg("--cosm")
        .arg(made.join("cosm"))
        .arg("--command")
        .arg(command.collect::<Vec<_>>().join(" "))
        .args(arguments)
        .exec();
    Err(format!("start {}: {error}", made.join("bench").display()))
}

fn build(root: &Path) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--release", "--locked", "--package", "cosm", "--package", "bench"])
        .status()
        .map_err(|e| format!("cargo build: {e}"))?;
    built.success().then_some(()).ok_or_else(|| "cargo build failed".into())
}

pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
