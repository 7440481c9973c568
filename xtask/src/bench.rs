//! Builds `cosm` and a measuring tool in release, and hands over to the tool.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs that are a program in a workspace of its own, since the others that it measures are built in: name and folder.
const APART: [(&str, &str); 1] = [("store", "bench/store")];

/// Becomes the measuring tool, so that signals and its exit status are its own; returns only when that fails.
pub fn run(name: &str, arguments: &[&str]) -> Result<(), String> {
    let root = crate::root()?;
    let made = target(root).join("release");
    let tool = match APART.iter().find(|(apart, _)| *apart == name) {
        Some((_, folder)) => {
            let target = target(root).join(folder.replace('/', "-"));
            build(root, "release", &["--package", "cosm"])?;
            build(
                root,
                "release",
                &[
                    "--manifest-path",
                    &format!("{folder}/Cargo.toml"),
                    "--target-dir",
                    &target.to_string_lossy(),
                ],
            )?;
            target.join("release/bench-store")
        }
        None => {
            build(root, "release", &["--package", "cosm", "--package", "bench"])?;
            made.join("bench")
        }
    };
    let command = ["cargo xtask bench", name].into_iter().chain(arguments.iter().copied());
    let error = Command::new(&tool)
        .current_dir(root)
        .arg(name)
        .arg("--cosm")
        .arg(made.join("cosm"))
        .arg("--command")
        .arg(command.collect::<Vec<_>>().join(" "))
        .args(arguments)
        .exec();
    Err(format!("start {}: {error}", tool.display()))
}

pub fn build(root: &Path, profile: &str, what: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--profile", profile, "--locked"])
        .args(what)
        .status()
        .map_err(|e| format!("cargo build: {e}"))?;
    built.success().then_some(()).ok_or_else(|| "cargo build failed".into())
}

pub fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
