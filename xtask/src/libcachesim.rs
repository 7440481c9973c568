//! Hits of `cosm lab simulate` beside those of libCacheSim, its authors' simulator of S3-FIFO and SIEVE.

use crate::bench::target;
use crate::tools::call;
use std::path::Path;
use std::process::Command;

const DEFAULT_PYTHON: &str = "python3";

/// `[--python PROGRAM] TRACE...`: traces of any format that `cosm lab` reads. The Python package `libcachesim` must be there;
/// nothing is installed.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (python, traces) = match arguments {
        ["--python", python, traces @ ..] => (*python, traces),
        traces => (DEFAULT_PYTHON, traces),
    };
    if traces.is_empty() || traces.iter().any(|trace| trace.starts_with("--")) {
        return Err("name traces: cargo xtask compare-libcachesim [--python PROGRAM] TRACE...".into());
    }
    let found = Command::new(python).args(["-c", "import libcachesim"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        return Err(format!("{python} has no package libcachesim: install it, or name another by --python"));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    call(Command::new(cargo).current_dir(root).args([
        "build",
        "--release",
        "--locked",
        "--package",
        "cosm",
    ]))?;
    let script = root.join("xtask/libcachesim/compare.py");
    call(Command::new(python).arg(script).arg(target(root).join("release/cosm")).args(traces))
}
