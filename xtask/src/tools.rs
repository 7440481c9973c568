//! Programs that chores call: those that cargo installs, and their failures.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a tool is under target/; built without optimisation, which takes less than a minute, when it is not there yet.
pub fn install(tool: &str, version: &str) -> Result<PathBuf, String> {
    let root = Path::new("target/tools");
    let program = root.join("bin").join(tool);
    if !program.exists() {
        call(
            Command::new("cargo")
                .args(["install", tool, "--locked", "--version", version, "--root"])
                .arg(root)
                .env("CARGO_TARGET_DIR", root.join("build"))
                .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
        )?;
    }
    program.canonicalize().map_err(|e| format!("{}: {e}", program.display()))
}

pub fn call(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}
